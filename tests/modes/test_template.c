/* test_template.c: chat templates.
 *
 * Compares with tests/golden/chat.txt: a conversation as Hugging Face renders it with the templates in
 * tests/golden/chat, written by scripts/golden_tokens.py, which makes the same vocabulary as this file. Messages must
 * not contain markers.
 */
#include "base/file.h"
#include "formats/open.h"
#include "model.h"
#include "modes/template.h"
#include "text/pieces.h"
#include "tokenizer.h"

#include "tests/support/test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, N_PIECES = 1600 };

static const HashModel SPEAKING = {16, 16, 1, 2, 1, N_PIECES, 16, false, 9};

/* A model with its tokenizer. */
typedef struct {
    Model model;
    Tokenizer t;
} Opened;

static void close_both(Opened *o) {
    tokenizer_close(&o->t);
    model_close(&o->model);
}

static const char *const MARKERS[] = {"<|im_start|>",  "<|im_end|>",          "<|system|>",        "<|user|>",
                                      "<|assistant|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
enum { N_MARKERS = 8, FIRST_MARKER = N_PIECES - N_MARKERS };

/* Opens a model with this template and the markers as pieces of this type; 0: without markers. */
static bool open_chat(Opened *o, const char *template, int type) {
    static GgufFile file;
    GgufPiece pieces[N_MARKERS];
    for (int i = 0; i < N_MARKERS; i++) pieces[i] = (GgufPiece){MARKERS[i], type};
    gguf_make(&file, &SPEAKING, 0);
    if (type)
        gguf_add_tokenizer(&file, N_PIECES, pieces, N_MARKERS);
    else
        gguf_add_tokenizer(&file, N_PIECES, &(GgufPiece){"\xc2\xb7", NORMAL}, 1);
    if (template) gguf_set_text(&file, "tokenizer.chat_template", template);
    return !gguf_reopen(&file, &o->model, &o->t);
}

static char *template_of(const char *family) {
    char path[64];
    size_t size;
    snprintf(path, sizeof path, "tests/golden/chat/%s.jinja", family);
    return file_read(path, &size);
}

/* The tokens as a list, ids separated by commas. */
static const char *list_of(const Tokens *tokens) {
    static char list[4096];
    int at = 0;
    *list = 0;
    for (int i = 0; i < tokens->n; i++)
        at += snprintf(list + at, sizeof list - (size_t)at, i ? ",%d" : "%d", tokens->ids[i]);
    return list;
}

/* Opens the template as the family `name`; NULL: as the family that it is recognized as. */
static bool open_template(Opened *o, ChatTemplate *chat, const char *name) {
    const ChatFamily *family = chat_family(&o->t, name);
    return family && !chat_template_open(chat, &o->t, family);
}

static void close_chat(Opened *o, ChatTemplate *chat) {
    chat_template_close(chat);
    close_both(o);
}

static void check_turn(const char *family, int type, const char *system, int turn, const char *expected) {
    static const Exchange messages[] = {
        {"hello there", "good day"}, {"and you? [yes]\xc3\xa9", "I am well"}, {"ab  abc </ s>", NULL}};
    Opened o;
    ChatTemplate chat = {.name = "none"};
    Tokens tokens;
    char *template = template_of(family);
    CHECK(template && open_chat(&o, template, type), "%s does not open", family);
    CHECK(open_template(&o, &chat, NULL) && !strcmp(chat.name, family), "%s is taken for %s", family, chat.name);
    CHECK(!chat_tokens(&chat, &o.t, system, messages, turn + 1, &tokens), "%s", family);
    CHECK(!strcmp(list_of(&tokens), expected), "%s, markers %d, system %s, turn %d: %s, expected %s", family, type,
          system ? system : "-", turn, list_of(&tokens), expected);
    free(tokens.ids);
    free(template);
    close_chat(&o, &chat);
}

static void conversations_match_hugging_face(void) {
    FILE *in = fopen("tests/golden/chat.txt", "r");
    char family[16], markers[16], ids[4096];
    int system, turn, n = 0;
    CHECK(in, "tests/golden/chat.txt is missing");
    for (; fscanf(in, "%15s %15s %d %d %4095s", family, markers, &system, &turn, ids) == 5; n++)
        check_turn(family,
                   !strcmp(markers, "control") ? CONTROL
                   : !strcmp(markers, "user")  ? USER_DEFINED
                                               : 0,
                   system ? "Be kind, and be brief." : NULL, turn, ids);
    fclose(in);
    CHECK(n == 4 * 3 * 2 * 3, "%d turns", n);
}

/* Conversations as transformers renders them with the templates of TinyLlama, Llama 2, 3, 3.1 and 3.2, SmolLM2 (except
 * its system prompt), Qwen 3, with thoughts or opening them, Mistral 7B v0.1 (its present and its first template), v0.2
 * and v0.3, Mistral Nemo, Gemma 3, Phi 3.5, Phi 4, Phi-4-mini, Granite 4, OLMo 2, MiniMind and
 * DeepSeek-R1-Distill-Qwen. The templates here contain only the strings that identify them. */
static const struct {
    const char *family, *template, *first[2], *third[2]; /* without a system prompt, with one */
} CONVERSATIONS[] = {
    {"llama-2",
     "{{ bos_token }}[INST] <<SYS>>",
     {"<s>[INST] hello [/INST]", "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nhello [/INST]"},
     {"<s>[INST] hello [/INST] <think>\nHm.\n</think>\n\ngood day </s><s>[INST] and you? [/INST] fine </s><s>[INST] "
      "bye [/INST]",
      "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nhello [/INST] <think>\nHm.\n</think>\n\ngood day </s><s>[INST] and "
      "you? [/INST] fine </s><s>[INST] bye [/INST]"}},
    {"mistral",
     "{{ bos_token }}{{ ' [INST] ' + text + ' [/INST]' }}{{ ' ' + message.content }}",
     {"<s> [INST] hello [/INST]", "<s> [INST] Be brief.\n\nhello [/INST]"},
     {"<s> [INST] hello [/INST] <think>\nHm.\n</think>\n\ngood day</s> [INST]  and you?  [/INST] fine </s> [INST] bye "
      "[/INST]",
      "<s> [INST] Be brief.\n\nhello [/INST] <think>\nHm.\n</think>\n\ngood day</s> [INST]  and you?  [/INST] fine "
      "</s> [INST] bye [/INST]"}},
    {"mistral-v0.1",
     "{{ bos_token }}{{ '[INST] ' + text + ' [/INST]' }}{{ message['content'] + eos_token + ' ' }}",
     {"<s>[INST] hello [/INST]", "<s>[INST] Be brief.\n\nhello [/INST]"},
     {"<s>[INST] hello [/INST]<think>\nHm.\n</think>\n\ngood day</s> [INST]  and you?  [/INST]fine </s> [INST] bye "
      "[/INST]",
      "<s>[INST] Be brief.\n\nhello [/INST]<think>\nHm.\n</think>\n\ngood day</s> [INST]  and you?  [/INST]fine </s> "
      "[INST] bye [/INST]"}},
    {"mistral-v0.2",
     "{{ bos_token }}{{ '[INST] ' + text + ' [/INST]' }}{{ message['content'] + eos_token }}",
     {"<s>[INST] hello [/INST]", "<s>[INST] Be brief.\n\nhello [/INST]"},
     {"<s>[INST] hello [/INST]<think>\nHm.\n</think>\n\ngood day</s>[INST]  and you?  [/INST]fine </s>[INST] bye "
      "[/INST]",
      "<s>[INST] Be brief.\n\nhello [/INST]<think>\nHm.\n</think>\n\ngood day</s>[INST]  and you?  [/INST]fine "
      "</s>[INST] bye [/INST]"}},
    {"mistral-v0.3",
     "{{ bos_token }}{{ \"[INST] \" + text + \"[/INST]\" }}{{ \" \" + message[\"content\"]|trim }}",
     {"<s>[INST] hello[/INST]", "<s>[INST] Be brief.\n\nhello[/INST]"},
     {"<s>[INST] hello[/INST] <think>\nHm.\n</think>\n\ngood day</s>[INST]  and you? [/INST] fine</s>[INST] bye[/INST]",
      "<s>[INST] hello[/INST] <think>\nHm.\n</think>\n\ngood day</s>[INST]  and you? [/INST] fine</s>[INST] Be "
      "brief.\n\nbye[/INST]"}},
    {"mistral-nemo",
     "{{ bos_token }}{{ \"[INST]\" + system_message }}{{ \"[/INST]\" }}{{ message[\"content\"] + eos_token }}",
     {"<s>[INST]hello[/INST]", "<s>[INST]Be brief.\n\nhello[/INST]"},
     {"<s>[INST]hello[/INST]<think>\nHm.\n</think>\n\ngood day</s>[INST] and you? [/INST]fine </s>[INST]bye[/INST]",
      "<s>[INST]hello[/INST]<think>\nHm.\n</think>\n\ngood day</s>[INST] and you? [/INST]fine </s>[INST]Be "
      "brief.\n\nbye[/INST]"}},
    {"gemma",
     "{{ bos_token }}<start_of_turn>{{ content }}<end_of_turn>",
     {"<s><start_of_turn>user\nhello<end_of_turn>\n<start_of_turn>model\n",
      "<s><start_of_turn>user\nBe brief.\n\nhello<end_of_turn>\n<start_of_turn>model\n"},
     {"<s><start_of_turn>user\nhello<end_of_turn>\n<start_of_turn>model\n<think>\nHm.\n</think>\n\ngood "
      "day<end_of_turn>\n<start_of_turn>user\nand "
      "you?<end_of_turn>\n<start_of_turn>model\nfine<end_of_turn>\n<start_of_turn>user\nbye<end_of_turn>\n<start_of_"
      "turn>model\n",
      "<s><start_of_turn>user\nBe brief.\n\nhello<end_of_turn>\n<start_of_turn>model\n<think>\nHm.\n</think>\n\ngood "
      "day<end_of_turn>\n<start_of_turn>user\nand "
      "you?<end_of_turn>\n<start_of_turn>model\nfine<end_of_turn>\n<start_of_turn>user\nbye<end_of_turn>\n<start_of_"
      "turn>model\n"}},
    {"phi-3",
     "<|user|>{{ content }}<|end|><|assistant|>",
     {"<|user|>\nhello<|end|>\n<|assistant|>\n",
      "<|system|>\nBe brief.<|end|>\n<|user|>\nhello<|end|>\n<|assistant|>\n"},
     {"<|user|>\nhello<|end|>\n<|assistant|>\n<think>\nHm.\n</think>\n\ngood day<|end|>\n<|user|>\n and you? "
      "<|end|>\n<|assistant|>\nfine <|end|>\n<|user|>\nbye<|end|>\n<|assistant|>\n",
      "<|system|>\nBe brief.<|end|>\n<|user|>\nhello<|end|>\n<|assistant|>\n<think>\nHm.\n</think>\n\ngood "
      "day<|end|>\n<|user|>\n and you? <|end|>\n<|assistant|>\nfine <|end|>\n<|user|>\nbye<|end|>\n<|assistant|>\n"}},
    {"phi-4-mini",
     "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}",
     {"<|user|>hello<|end|><|assistant|>", "<|system|>Be brief.<|end|><|user|>hello<|end|><|assistant|>"},
     {"<|user|>hello<|end|><|assistant|><think>\nHm.\n</think>\n\ngood day<|end|><|user|> and you? "
      "<|end|><|assistant|>fine <|end|><|user|>bye<|end|><|assistant|>",
      "<|system|>Be brief.<|end|><|user|>hello<|end|><|assistant|><think>\nHm.\n</think>\n\ngood day<|end|><|user|> "
      "and you? <|end|><|assistant|>fine <|end|><|user|>bye<|end|><|assistant|>"}},
    {"phi-4",
     "<|im_start|>user<|im_sep|>{{ content }}<|im_end|>",
     {"<|im_start|>user<|im_sep|>hello<|im_end|><|im_start|>assistant<|im_sep|>",
      "<|im_start|>system<|im_sep|>Be "
      "brief.<|im_end|><|im_start|>user<|im_sep|>hello<|im_end|><|im_start|>assistant<|im_sep|>"},
     {"<|im_start|>user<|im_sep|>hello<|im_end|><|im_start|>assistant<|im_sep|><think>\nHm.\n</think>\n\ngood "
      "day<|im_end|><|im_start|>user<|im_sep|> and you? <|im_end|><|im_start|>assistant<|im_sep|>fine "
      "<|im_end|><|im_start|>user<|im_sep|>bye<|im_end|><|im_start|>assistant<|im_sep|>",
      "<|im_start|>system<|im_sep|>Be "
      "brief.<|im_end|><|im_start|>user<|im_sep|>hello<|im_end|><|im_start|>assistant<|im_sep|><think>\nHm.\n</"
      "think>\n\ngood day<|im_end|><|im_start|>user<|im_sep|> and you? <|im_end|><|im_start|>assistant<|im_sep|>fine "
      "<|im_end|><|im_start|>user<|im_sep|>bye<|im_end|><|im_start|>assistant<|im_sep|>"}},
    {"granite-4",
     "<|start_of_role|>{{ default_system_message }}You are a helpful assistant. Please ensure responses are "
     "professional, accurate, and safe.",
     {"<|start_of_role|>system<|end_of_role|>You are a helpful assistant. Please ensure responses are professional, "
      "accurate, and "
      "safe.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>hello<|end_of_text|>\n<|start_of_role|>assistant<|end_"
      "of_role|>",
      "<|start_of_role|>system<|end_of_role|>Be "
      "brief.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>hello<|end_of_text|>\n<|start_of_role|>assistant<|"
      "end_of_role|>"},
     {"<|start_of_role|>system<|end_of_role|>You are a helpful assistant. Please ensure responses are professional, "
      "accurate, and "
      "safe.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>hello<|end_of_text|>\n<|start_of_role|>assistant<|end_"
      "of_role|><think>\nHm.\n</think>\n\ngood day<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> and you? "
      "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>fine "
      "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>bye<|end_of_text|>\n<|start_of_role|>assistant<|end_of_"
      "role|>",
      "<|start_of_role|>system<|end_of_role|>Be "
      "brief.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>hello<|end_of_text|>\n<|start_of_role|>assistant<|"
      "end_of_role|><think>\nHm.\n</think>\n\ngood day<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> and you? "
      "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>fine "
      "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>bye<|end_of_text|>\n<|start_of_role|>assistant<|end_of_"
      "role|>"}},
    {"tulu",
     "{{ bos_token }}{{ '<|user|>\\n' + message['content'] + '\\n' }}<|assistant|>{{ eos_token }}",
     {"<s><|user|>\nhello\n<|assistant|>\n", "<s><|system|>\nBe brief.\n<|user|>\nhello\n<|assistant|>\n"},
     {"<s><|user|>\nhello\n<|assistant|>\n<think>\nHm.\n</think>\n\ngood day</s>\n<|user|>\n and you? "
      "\n<|assistant|>\nfine </s>\n<|user|>\nbye\n<|assistant|>\n",
      "<s><|system|>\nBe brief.\n<|user|>\nhello\n<|assistant|>\n<think>\nHm.\n</think>\n\ngood day</s>\n<|user|>\n "
      "and you? \n<|assistant|>\nfine </s>\n<|user|>\nbye\n<|assistant|>\n"}},
    {"minimind",
     "<|im_start|><|im_end|>{% if open_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}",
     {"<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
      "<|im_start|>system\nBe "
      "brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"},
     {"<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\nHm.\n</think>\n\ngood "
      "day<|im_end|>\n<|im_start|>user\n and you? <|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nfine "
      "<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
      "<|im_start|>system\nBe "
      "brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\nHm.\n</think>\n\ngood "
      "day<|im_end|>\n<|im_start|>user\n and you? <|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nfine "
      "<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"}},
    {"qwen-3",
     "<|im_start|><|im_end|>{{ content.split('</think>')[-1] }}",
     {"<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"},
     {"<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\ngood day<|im_end|>\n<|im_start|>user\n and you? "
      "<|im_end|>\n<|im_start|>assistant\nfine <|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\ngood "
      "day<|im_end|>\n<|im_start|>user\n and you? <|im_end|>\n<|im_start|>assistant\nfine "
      "<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n"}},
    {"qwen-3",
     "<|im_end|>{{ content.split('</think>')[-1] }}{{ '<|im_start|>assistant\\n<think>\\n' }}",
     {"<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\n",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\n"},
     {"<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\ngood day<|im_end|>\n<|im_start|>user\n and you? "
      "<|im_end|>\n<|im_start|>assistant\nfine "
      "<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n<think>\n",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\ngood "
      "day<|im_end|>\n<|im_start|>user\n and you? <|im_end|>\n<|im_start|>assistant\nfine "
      "<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n<think>\n"}},
    {"chatml",
     "{{ '<|im_start|>system\\nYou are a badger.<|im_end|>\\n' }}",
     {"<|im_start|>system\nYou are a badger.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"},
     {"<|im_start|>system\nYou are a "
      "badger.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\nHm.\n</think>\n\ngood "
      "day<|im_end|>\n<|im_start|>user\n and you? <|im_end|>\n<|im_start|>assistant\nfine "
      "<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nBe "
      "brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\nHm.\n</think>\n\ngood "
      "day<|im_end|>\n<|im_start|>user\n and you? <|im_end|>\n<|im_start|>assistant\nfine "
      "<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n"}},
    {"zephyr",
     "<|user|>{{ eos_token }}<|assistant|>",
     {"<|user|>\nhello</s>\n<|assistant|>\n", "<|system|>\nBe brief.</s>\n<|user|>\nhello</s>\n<|assistant|>\n"},
     {"<|user|>\nhello</s>\n<|assistant|>\n<think>\nHm.\n</think>\n\ngood day</s>\n<|user|>\n and you? "
      "</s>\n<|assistant|>\nfine </s>\n<|user|>\nbye</s>\n<|assistant|>\n",
      "<|system|>\nBe brief.</s>\n<|user|>\nhello</s>\n<|assistant|>\n<think>\nHm.\n</think>\n\ngood "
      "day</s>\n<|user|>\n and you? </s>\n<|assistant|>\nfine </s>\n<|user|>\nbye</s>\n<|assistant|>\n"}},
    {"llama-3.1",
     "{{ bos_token }}<|eot_id|>{{ \"Cutting Knowledge Date: December 2023\\n\" }}{{ \"Today Date: \" + date_string }}",
     {"<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul "
      "2024\n\nBe "
      "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n"},
     {"<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nHm.\n</think>\n\ngood day<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nand "
      "you?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nfine<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nbye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul "
      "2024\n\nBe "
      "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nHm.\n</think>\n\ngood day<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nand "
      "you?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nfine<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nbye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"}},
    {"llama-3.1",
     "{{ bos_token }}<|eot_id|>{{ \"Cutting Knowledge Date: December 2023\\n\" }}{{ \"Today Date: \" + date_string "
     "}}{{ strftime_now() }}",
     {"<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 07 Mar "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 07 Mar "
      "2026\n\nBe "
      "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n"},
     {"<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 07 Mar "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nHm.\n</think>\n\ngood day<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nand "
      "you?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nfine<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nbye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 07 Mar "
      "2026\n\nBe "
      "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nHm.\n</think>\n\ngood day<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nand "
      "you?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nfine<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nbye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"}},
    {"llama-3",
     "{{ bos_token }}<|start_header_id|><|end_header_id|><|eot_id|>",
     {"<s><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<s><|start_header_id|>system<|end_header_id|>\n\nBe "
      "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n"},
     {"<s><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<"
      "think>\nHm.\n</think>\n\ngood day<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nand "
      "you?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nfine<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nbye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<s><|start_header_id|>system<|end_header_id|>\n\nBe "
      "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nHm.\n</think>\n\ngood day<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nand "
      "you?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nfine<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nbye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"}},
    {"deepseek",
     "{{ bos_token }}{{'<\uFF5CUser\uFF5C>' + message['content']}}</think>{{'<\uFF5CAssistant\uFF5C><think>\\n'}}",
     {"<s><\uFF5CUser\uFF5C>hello<\uFF5CAssistant\uFF5C><think>\n",
      "<s>Be brief.<\uFF5CUser\uFF5C>hello<\uFF5CAssistant\uFF5C><think>\n"},
     {"<s><\uFF5CUser\uFF5C>hello<\uFF5CAssistant\uFF5C>\n\ngood day</s><\uFF5CUser\uFF5C> and you? "
      "<\uFF5CAssistant\uFF5C>fine </s><\uFF5CUser\uFF5C>bye<\uFF5CAssistant\uFF5C><think>\n",
      "<s>Be brief.<\uFF5CUser\uFF5C>hello<\uFF5CAssistant\uFF5C>\n\ngood day</s><\uFF5CUser\uFF5C> and you? "
      "<\uFF5CAssistant\uFF5C>fine </s><\uFF5CUser\uFF5C>bye<\uFF5CAssistant\uFF5C><think>\n"}},
};

/* The text of tokens, with the names of markers, BOS and EOS. */
static const char *text_of(const Tokenizer *t, const Tokens *tokens) {
    static char text[4096];
    size_t n = 0;
    for (int i = 0; i < tokens->n; i++) {
        int length;
        const char *s = tokenizer_decode(t, i ? tokens->ids[i - 1] : -1, tokens->ids[i], &length);
        if (n + (size_t)length < sizeof text) memcpy(text + n, s, (size_t)length), n += (size_t)length;
    }
    text[n] = 0;
    return text;
}

/* Opens a conversation whose tokenizer adds neither a space nor BOS. */
static bool open_plain(Opened *o, ChatTemplate *chat, const char *template, const char *family) {
    if (!open_chat(o, template, CONTROL)) return false;
    o->t.space_prefix = SPACE_NEVER;
    o->t.no_bos = true;
    o->t.pieces.list[1].text = "<s>", o->t.pieces.list[1].length = 3;
    o->t.pieces.list[2].text = "</s>", o->t.pieces.list[2].length = 4;
    return open_template(o, chat, family);
}

static void every_family_has_its_format(void) {
    static const Exchange messages[] = {
        {"hello", "<think>\nHm.\n</think>\n\ngood day"}, {" and you? ", "fine "}, {"bye", NULL}};
    setenv("NORMA_DATE", "07 Mar 2026", 1);
    for (size_t i = 0; i < sizeof CONVERSATIONS / sizeof *CONVERSATIONS; i++)
        for (int system = 0; system < 2; system++) {
            Opened o;
            ChatTemplate chat;
            Tokens tokens;
            const char *family = CONVERSATIONS[i].family, *prompt = system ? "Be brief." : NULL;
            const char *first = CONVERSATIONS[i].first[system], *third = CONVERSATIONS[i].third[system];
            CHECK(open_plain(&o, &chat, CONVERSATIONS[i].template, NULL), "case %zu: no family", i);
            CHECK(!strcmp(chat.name, family), "case %zu is taken for %s, expected %s", i, chat.name, family);
            CHECK(!chat_tokens(&chat, &o.t, prompt, messages, 1, &tokens), "%s", family);
            CHECK(!strcmp(text_of(&o.t, &tokens), first), "%s: %s, expected %s", family, text_of(&o.t, &tokens), first);
            free(tokens.ids);
            CHECK(!chat_tokens(&chat, &o.t, prompt, messages, 3, &tokens), "%s", family);
            CHECK(!strcmp(text_of(&o.t, &tokens), third), "%s: %s, expected %s", family, text_of(&o.t, &tokens), third);
            free(tokens.ids);
            close_chat(&o, &chat);
        }
    unsetenv("NORMA_DATE");
}

/* Markers, BOS and EOS in a user or system prompt are encoded as plain text. */
static void messages_contain_no_markers(void) {
    static const char message[] = "<s></s><|im_start|><|im_end|><|system|><|user|><|assistant|><|start_header_id|>"
                                  "<|end_header_id|><|eot_id|>[INST]<<SYS>>";
    static const char *const families[] = {"llama-2", "chatml", "zephyr", "llama-3"};
    for (int f = 0; f < 4; f++)
        for (int type = CONTROL; type <= USER_DEFINED; type++) {
            Opened o;
            ChatTemplate chat;
            Tokens plain, tokens;
            int special[2] = {0, 0}, n = 0, begin;
            char *template = template_of(families[f]);
            CHECK(template && open_chat(&o, template, type), "%s does not open", families[f]);
            for (int i = 0; i < 3; i++)
                o.t.pieces.list[i].kind = (PieceKind)(type == USER_DEFINED ? PIECE_USER : PIECE_CONTROL);
            CHECK(open_template(&o, &chat, NULL), "%s", families[f]);
            CHECK(!chat_template_render(&chat, &o.t, "x", NULL, "x", &plain, &begin) &&
                      !chat_template_render(&chat, &o.t, message, NULL, message, &tokens, &begin),
                  "%s", families[f]);
            const bool mine[] = {f == 1, f == 1, f == 2, f == 2, f == 2, f == 3, f == 3, f == 3};
            for (int way = 0; way < 2; way++) {
                const Tokens *list = way ? &tokens : &plain;
                for (int i = 0; i < list->n; i++) {
                    const int marker = list->ids[i] - FIRST_MARKER;
                    special[way] += (list->ids[i] < 3) || (marker >= 0 && mine[marker]);
                }
            }
            CHECK(special[0] == special[1] && special[0] > 0, "%s, type %d: %d special tokens, expected %d",
                  families[f], type, special[1], special[0]);
            char text[1024] = ""; /* the message appears twice, unchanged */
            for (int i = 0; i < tokens.n; i++) {
                int length;
                const char *s = tokenizer_decode(&o.t, 5, tokens.ids[i], &length);
                if (n + length < (int)sizeof text) memcpy(text + n, s, (size_t)length), n += length;
            }
            text[n < (int)sizeof text ? n : 0] = 0;
            const char *first = strstr(text, message);
            CHECK(first && strstr(first + 1, message), "%s, type %d: '%s'", families[f], type, text);
            free(plain.ids);
            free(tokens.ids);
            free(template);
            close_chat(&o, &chat);
        }
}

/* The family of a template (NULL: unknown) and its end of turn. */
static void templates_are_recognized_by_their_keywords(void) {
    static const struct {
        const char *template, *family;
        int end;
    } cases[] = {
        {NULL, "llama-2", 2},
        {"", NULL, 0},
        {"{{ messages }}", NULL, 0},
        {"{{ '[INST] ' + message + ' [/INST]' }}{{ eos_token }}", NULL, 0},
        {"{{ \"[INST]\" + message[\"content\"] + \"[/INST]\" }}{{ message[\"content\"] + eos_token }}", NULL, 0},
        {"[SYSTEM_PROMPT]{{ '[INST] ' + text + '[/INST]' }}{{ ' ' + message['content']|trim }}", NULL, 0},
        {"[INST] <<SYS>> [/INST]", "llama-2", 2},
        {"<|im_start|>user\n{{ content }}<|im_end|>", "chatml", FIRST_MARKER + 1},
        {"<|im_start|>user<|im_sep|>{{ content }}<|im_end|>", "phi-4", FIRST_MARKER + 1},
        {"<|im_start|>user<|im_sep|>{{ content }}<|im_end|><think></think>", NULL, 0},
        {"<|im_start|>user{{ content }}<|im_end|><think>", NULL, 0},
        {"<|im_start|>user{{ content | trim }}<|im_end|>", NULL, 0},
        {"<|im_start|>user{{ content }}<|im_end|>## Metadata{{ content.split('</think>')[-1] }}", NULL, 0},
        {"{{'<|user|>\n' + message['content'] + '\n'}}<|assistant|>{{ eos_token }}", "tulu", 2},
        {"<start_of_turn>developer\n{{ content }}<end_of_turn>", NULL, 0},
        {"<|start_of_role|>user<|end_of_role|>{{ content }}{{ strftime_now() }}", NULL, 0},
        {"<|im_start|>user{{ content }}<|im_end|><end_of_utterance>", NULL, 0},
        {"<|im_start|>user{{ content }}<|im_end|>{{ strftime_now() }}", NULL, 0},
        {"<|im_start|>user{{ content }}<|im_end|>{{ strftime_now() }}{{ content.split('</think>')[-1] }}", NULL, 0},
        {"<|im_start|>user{{ content.split('</think>')[-1] }}<|im_end|>", "qwen-3", FIRST_MARKER + 1},
        {"<|im_start|>user{{ content }}<|im_end|></think>", NULL, 0},
        {"<|user|>\n + eos_token }}<|assistant|>", "zephyr", 2},
        {"<|user|>\n{{ content }}<|end|>\n<|assistant|>{{ eos_token }}", "phi-3", -1},
        {"<|user|>\n{{ content }}<|end|>\n<|assistant|><|tool|>", NULL, 0},
        {"<|start_header_id|>user<|end_header_id|>\n\n{{ content }}<|eot_id|>", "llama-3", FIRST_MARKER + 7},
        {"<|start_header_id|>user<|end_header_id|>{{ functions }}<|eot_id|>", NULL, 0},
        {"<|start_header_id|>user<|end_header_id|>unsafe content<|eot_id|>", NULL, 0},
        {"<|start_header_id|>user<|end_header_id|>{{ strftime_now() }}<|eot_id|>", NULL, 0},
        {"{{'<\uFF5CUser\uFF5C>' + message['content']}}<\uFF5CAssistant\uFF5C></think>", "deepseek", 2},
        {"{{'<\uFF5CUser\uFF5C>' + message['content']}}<\uFF5CAssistant\uFF5C></think>{{ thinking }}", NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Opened o;
        ChatTemplate chat = {.name = "none"};
        CHECK(open_chat(&o, cases[i].template, CONTROL), "case %zu does not open", i);
        CHECK(open_template(&o, &chat, NULL) == !!cases[i].family, "case %zu: %s", i, chat.name);
        CHECK(!cases[i].family || (!strcmp(chat.name, cases[i].family) && chat.end == cases[i].end),
              "case %zu: %s, end %d", i, chat.name, chat.end);
        close_chat(&o, &chat);
    }
}

/* For any template. */
static void a_family_can_be_chosen(void) {
    for (size_t i = 0; i < sizeof CONVERSATIONS / sizeof *CONVERSATIONS; i++) {
        Opened o;
        ChatTemplate chat = {.name = "none"};
        CHECK(open_plain(&o, &chat, "{{ messages }}", CONVERSATIONS[i].family), "%s", CONVERSATIONS[i].family);
        CHECK(!strcmp(chat.name, CONVERSATIONS[i].family), "%s, expected %s", chat.name, CONVERSATIONS[i].family);
        CHECK(strstr(chat_families(), chat.name), "%s is not in '%s'", chat.name, chat_families());
        CHECK(!chat_family(&o.t, "llama"), "llama is not a family");
        close_chat(&o, &chat);
    }
}

/* The default system prompt is read from a string of the template. */
static void a_system_prompt_is_read_from_the_template(void) {
    static const struct {
        const char *template, *prompt;
    } cases[] = {
        {"{{ '<|im_start|>system\\nBe a badger.<|im_end|>\\n' }}", "Be a badger."},
        {"{{ '<|im_start|>system\nBe a badger.<|im_end|>\n' }}", "Be a badger."},
        {"{{ \"<|im_start|>system\\nI\\'m \\\"Tuck\\\",\\na \\\\ < badger<|im_end|>\" }}",
         "I'm \"Tuck\",\na \\ < badger"},
        {"{{ '<|im_start|>system\\nUse \\\\boxed{}.<|im_end|>\\n' }}", "Use \\boxed{}."},
        {"{{ '<|im_start|>system\\tBe a badger.<|im_end|>\\n' }}", ""},
        {"{{ '<|im_start|>system\n' + text + '<|im_end|>' }}", ""},
        {"{{ '<|im_start|>system\n' }}x<|im_end|>{{ '<|im_start|>system\nlater<|im_end|>' }}", "later"},
        {"<|im_start|>system\n{{ text }}<|im_end|>", ""},
        {"<|im_start|>system\n<|im_end|>", ""},
        {"<|im_end|><|im_start|>system\nnever ends", ""},
        {"<|im_end|><|im_start|>system\nnever ends\\", ""},
        {"{{ '<|start_header_id|>system<|end_header_id|>\\n\\nBe a badger.<|eot_id|>' }}", "Be a badger."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Opened o;
        ChatTemplate chat;
        Tokens tokens;
        const Exchange message = {"hi", NULL};
        CHECK(open_plain(&o, &chat, cases[i].template, NULL), "case %zu: no family", i);
        CHECK(!strcmp(chat.prompt, cases[i].prompt), "case %zu: '%s', expected '%s'", i, chat.prompt, cases[i].prompt);
        CHECK(!chat_tokens(&chat, &o.t, NULL, &message, 1, &tokens), "case %zu", i);
        CHECK(!!strstr(text_of(&o.t, &tokens), "system") == !!*cases[i].prompt, "%s", text_of(&o.t, &tokens));
        free(tokens.ids);
        CHECK(!chat_tokens(&chat, &o.t, "", &message, 1, &tokens), "case %zu", i);
        CHECK(!strstr(text_of(&o.t, &tokens), "system"), "an empty system prompt is used: %s", text_of(&o.t, &tokens));
        free(tokens.ids);
        close_chat(&o, &chat);
    }
}

/* Each keyword is searched in one pass, also in a template that nearly matches it everywhere. */
static void a_hostile_template_takes_linear_time(void) {
    static const char *const parts[] = {"<|im_start|>system\n", "<|im_start|>system\\", "<|im_start", "\\n\\n",
                                        "' [INST] ' + ",        "\xff\xfe<\x01",        "<"};
    enum { SIZE = 1 << 20 };
    static char text[SIZE + 64];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        Opened o;
        ChatTemplate chat = {.prompt = NULL};
        size_t n = 0;
        CHECK(open_chat(&o, NULL, CONTROL), "does not open");
        while (n < SIZE) n += (size_t)sprintf(text + n, "%s", parts[i]);
        n += (size_t)sprintf(text + n, "<|im_end");
        CHECK(!tokenizer_set_chat_template(&o.t, text, n) && !chat_family(&o.t, NULL), "case %zu has a family", i);
        n += (size_t)sprintf(text + n, "|>'<|im_start|>");
        CHECK(!tokenizer_set_chat_template(&o.t, text, n) && open_template(&o, &chat, NULL), "case %zu: no template",
              i);
        CHECK((strlen(chat.prompt) > 0) == (i == 0), "case %zu: a prompt of %zu bytes", i, strlen(chat.prompt));
        close_chat(&o, &chat);
    }
}

/* Llama 2's template trims whole turns. An answer often begins with the space that the format already has. */
static void spaces_follow_the_template(void) {
    static const struct {
        const char *family, *system, *text;
    } cases[] = {
        {"llama-2", NULL, "<s>[INST] hi [/INST] fine </s><s>[INST] bye [/INST]"},
        {"llama-2", "x", "<s>[INST] <<SYS>>\nx\n<</SYS>>\n\n hi [/INST] fine </s><s>[INST] bye [/INST]"},
        {"mistral", NULL, "<s> [INST]  hi  [/INST] fine</s> [INST] bye [/INST]"},
        {"mistral-v0.2", NULL, "<s>[INST]  hi  [/INST] fine</s>[INST] bye [/INST]"},
    };
    static const Exchange messages[] = {{" hi ", " fine"}, {"bye", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Opened o;
        ChatTemplate chat;
        Tokens tokens;
        CHECK(open_plain(&o, &chat, "{{ bos_token }}", cases[i].family), "case %zu does not open", i);
        CHECK(!chat_tokens(&chat, &o.t, cases[i].system, messages, 2, &tokens), "case %zu does not render", i);
        CHECK(!strcmp(text_of(&o.t, &tokens), cases[i].text), "case %zu: '%s', expected '%s'", i,
              text_of(&o.t, &tokens), cases[i].text);
        free(tokens.ids);
        close_chat(&o, &chat);
    }
}

/* An added token absorbs the white space next to it, as Hugging Face's tokenizers do for Phi 3's markers. */
static void markers_absorb_white_space(void) {
    Opened o;
    ChatTemplate chat;
    Tokens out;
    const Exchange message = {"hello ", NULL};
    CHECK(open_plain(&o, &chat, "<|user|><|end|><|assistant|>", NULL), "does not open");
    o.t.pieces.list[FIRST_MARKER + 3].strips_right = true; /* <|user|> */
    o.t.pieces.list[FIRST_MARKER + 4].strips_left = true;  /* <|assistant|> */
    CHECK(!chat_tokens(&chat, &o.t, NULL, &message, 1, &out), "does not render");
    CHECK(!strcmp(text_of(&o.t, &out), "<|user|>hello <|end|><|assistant|>\n"), "%s", text_of(&o.t, &out));
    free(out.ids);
    close_chat(&o, &chat);
}

/* Special tokens of an answer keep their ids, also the markers of other families. The text is encoded again together
 * with the text around it. */
static void special_tokens_of_an_answer_are_kept(void) {
    Opened o;
    ChatTemplate chat;
    Tokens out;
    int ids[] = {5, FIRST_MARKER + 2, 5}, begin, n = 0; /* <|system|> is not a marker of chatml */
    CHECK(open_plain(&o, &chat, "<|im_start|><|im_end|>", NULL), "does not open");
    const ChatTurn last = {.user = "x", .tokens = {.ids = ids, .n = 3}, .answer = 1};
    CHECK(!chat_template_render(&chat, &o.t, NULL, &last, "y", &out, &begin), "does not render");
    for (int i = 0; i < begin; i++) n += out.ids[i] == FIRST_MARKER + 2;
    CHECK(n == 1 && begin < out.n, "%d of %d: %s", n, begin, list_of(&out));
    free(out.ids);
    close_chat(&o, &chat);
}

/* BOS, EOS and EOT never appear in a message, for any id and any piece. */
static void messages_contain_no_end_tokens(void) {
    for (int which = 0; which < 3; which++)
        for (int id = 0; id < 400; id += 399) {
            Opened o;
            ChatTemplate chat;
            Tokens out;
            int begin, n = 0;
            char message[64];
            CHECK(open_chat(&o, "<|im_start|><|im_end|>", CONTROL), "does not open");
            *(which == 0 ? &o.t.bos : which == 1 ? &o.t.eos : &o.t.eot) = id;
            o.t.pieces.list[id].kind = PIECE_USER;
            o.t.no_bos = true;
            CHECK(!pieces_index(&o.t.pieces) && open_template(&o, &chat, NULL), "does not open");
            snprintf(message, sizeof message, "%.*s", o.t.pieces.list[id].length, o.t.pieces.list[id].text);
            CHECK(!chat_template_render(&chat, &o.t, NULL, NULL, message, &out, &begin), "does not render");
            for (int i = 0; i < out.n; i++) n += out.ids[i] == id;
            CHECK(n == 0, "'%s' is token %d, number %d", message, id, which);
            free(out.ids);
            close_chat(&o, &chat);
        }
}

/* One BOS, if the template names it or the tokenizer prepends it. */
static void bos_of_the_template_or_of_the_tokenizer(void) {
    static const struct {
        const char *family;
        bool add_bos, first, next;
    } cases[] = {{"llama-2", true, true, true},   {"llama-2", false, true, true}, {"chatml", true, true, false},
                 {"chatml", false, false, false}, {"zephyr", true, true, false},  {"zephyr", false, false, false},
                 {"llama-3", true, true, false},  {"llama-3", false, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int first = 0; first < 2; first++) {
            Opened o;
            ChatTemplate chat;
            Tokens tokens;
            int n_bos = 0;
            char *template = template_of(cases[i].family);
            CHECK(template && open_chat(&o, template, CONTROL), "%s does not open", cases[i].family);
            o.t.no_bos = !cases[i].add_bos;
            const Exchange messages[] = {{"aa", "ba"}, {"aa", NULL}};
            CHECK(open_template(&o, &chat, NULL) && !chat_tokens(&chat, &o.t, NULL, messages, first ? 1 : 2, &tokens),
                  "%s", cases[i].family);
            for (int k = 0; k < tokens.n; k++) n_bos += tokens.ids[k] == 1;
            CHECK(n_bos == cases[i].first + (!first && cases[i].next), "case %zu: %d BOS", i, n_bos);
            free(tokens.ids);
            free(template);
            close_chat(&o, &chat);
        }
}

/* Only Llama 3's template trims white space. */
static void white_space_is_trimmed_as_in_the_template(void) {
    for (int trims = 0; trims < 2; trims++) {
        Opened o;
        ChatTemplate chat;
        Tokens spaced, plain;
        char *template = template_of(trims ? "llama-3" : "chatml");
        int begin;
        CHECK(template && open_chat(&o, template, CONTROL) && open_template(&o, &chat, NULL), "does not open");
        CHECK(!chat_template_render(&chat, &o.t, "\t a \n", NULL, "  b c ", &spaced, &begin) &&
                  !chat_template_render(&chat, &o.t, "a", NULL, "b c", &plain, &begin),
              "does not render");
        const bool same = spaced.n == plain.n && !memcmp(spaced.ids, plain.ids, (size_t)plain.n * sizeof *plain.ids);
        CHECK(same == trims, "%s: %s", chat.name, list_of(&spaced));
        free(spaced.ids);
        CHECK(!chat_template_render(&chat, &o.t, NULL, NULL, " \n ", &spaced, &begin), "only white space");
        free(spaced.ids);
        free(plain.ids);
        free(template);
        close_chat(&o, &chat);
    }
}

void suite_template(void) {
    TEST(conversations_match_hugging_face);
    TEST(every_family_has_its_format);
    TEST(messages_contain_no_markers);
    TEST(templates_are_recognized_by_their_keywords);
    TEST(a_family_can_be_chosen);
    TEST(a_system_prompt_is_read_from_the_template);
    TEST(a_hostile_template_takes_linear_time);
    TEST(spaces_follow_the_template);
    TEST(markers_absorb_white_space);
    TEST(special_tokens_of_an_answer_are_kept);
    TEST(messages_contain_no_end_tokens);
    TEST(bos_of_the_template_or_of_the_tokenizer);
    TEST(white_space_is_trimmed_as_in_the_template);
}
