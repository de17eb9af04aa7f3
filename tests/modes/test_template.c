/* test_template.c: chat templates.
 *
 * Compares with tests/golden/chat.txt: a conversation as Hugging Face renders
 * it with the templates in tests/golden/chat, written by
 * scripts/golden/golden_tokens.py, which makes the same vocabulary as this
 * file. A message never becomes a special token.
 */
#include "base/file.h"
#include "formats/folder.h"
#include "formats/open.h"
#include "model.h"
#include "modes/template.h"
#include "text/pieces.h"
#include "tokenizer.h"

#include "tests/support/chat.h"
#include "tests/support/expressions.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

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

static const char *const MARKERS[] = {
    "<|im_start|>",  "<|im_end|>",          "<|system|>",        "<|user|>",
    "<|assistant|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
enum { N_MARKERS = 8, FIRST_MARKER = N_PIECES - N_MARKERS };

/* Opens a model with this template and the markers as pieces of this type; 0:
 * without markers. */
static bool open_chat(Opened *o, const char *template, int type) {
    static GgufFile file;
    GgufPiece pieces[N_MARKERS];
    for (int i = 0; i < N_MARKERS; i++)
        pieces[i] = (GgufPiece){MARKERS[i], type};
    gguf_make(&file, &SPEAKING, 0);
    if (type)
        gguf_add_tokenizer(&file, N_PIECES, pieces, N_MARKERS);
    else
        gguf_add_tokenizer(&file, N_PIECES, &(GgufPiece){"\xc2\xb7", NORMAL},
                           1);
    if (template)
        gguf_set_text(&file, "tokenizer.chat_template", template);
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
        at += snprintf(list + at, sizeof list - (size_t)at, i ? ",%d" : "%d",
                       tokens->ids[i]);
    return list;
}

/* Opens the built-in template `name`, or the file; NULL: the model's own. */
static bool open_template(Opened *o, ChatTemplate *chat, const char *name) {
    return !chat_template_open(chat, &o->t,
                               &(Options){.model = "model", .template = name});
}

static void close_chat(Opened *o, ChatTemplate *chat) {
    chat_template_close(chat);
    close_both(o);
}

static void check_turn(const char *family, int type, const char *system,
                       int turn, const char *expected) {
    static const Exchange messages[] = {{"hello there", "good day"},
                                        {"and you? [yes]\xc3\xa9", "I am well"},
                                        {"ab  abc </ s>", NULL}};
    Opened o;
    ChatTemplate chat;
    Tokens tokens;
    char *template = template_of(family);
    CHECK(template && open_chat(&o, template, type), "%s does not open",
          family);
    CHECK(open_template(&o, &chat, NULL), "%s does not open", family);
    CHECK(!chat_tokens(&chat, &o.t, system, messages, turn + 1, &tokens), "%s",
          family);
    CHECK(!strcmp(list_of(&tokens), expected),
          "%s, markers %d, system %s, turn %d: %s, expected %s", family, type,
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
    for (; fscanf(in, "%15s %15s %d %d %4095s", family, markers, &system, &turn,
                  ids) == 5;
         n++)
        check_turn(family,
                   !strcmp(markers, "control") ? CONTROL
                   : !strcmp(markers, "user")  ? USER_DEFINED
                                               : 0,
                   system ? "Be kind, and be brief." : NULL, turn, ids);
    fclose(in);
    CHECK(n == 4 * 3 * 2 * 3, "%d turns", n);
}

/* The text of tokens, with the names of markers, BOS and EOS. */
static const char *text_of(const Tokenizer *t, const Tokens *tokens) {
    static char text[4096];
    size_t n = 0;
    for (int i = 0; i < tokens->n; i++) {
        int length;
        const char *s = tokenizer_decode(t, i ? tokens->ids[i - 1] : -1,
                                         tokens->ids[i], &length);
        if (n + (size_t)length < sizeof text)
            memcpy(text + n, s, (size_t)length), n += (size_t)length;
    }
    text[n] = 0;
    return text;
}

/* Opens a conversation whose tokenizer adds neither a space nor BOS. */
static bool open_plain(Opened *o, ChatTemplate *chat, const char *template,
                       const char *name) {
    if (!open_chat(o, template, CONTROL))
        return false;
    o->t.space_prefix = SPACE_NEVER;
    o->t.n_before = 0;
    o->t.pieces.list[1].text = "<s>", o->t.pieces.list[1].length = 3;
    o->t.pieces.list[2].text = "</s>", o->t.pieces.list[2].length = 4;
    return open_template(o, chat, name);
}

/* The built-in templates, and the token that ends an answer. */
static void built_in_templates_have_their_format(void) {
    static const struct {
        const char *name, *text;
        int end;
    } cases[] = {
        {"llama-2",
         "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nhello [/INST] fine </s><s>[INST] bye [/INST]",
         2},
        {"mistral",
         "<s>[INST] Be brief.\n\nhello [/INST] fine</s>[INST] bye  [/INST]", 2},
        {"gemma",
         "<s><start_of_turn>user\nBe brief.\n\nhello<end_of_turn>\n<start_of_turn>model\nfine<end_of_turn>\n"
         "<start_of_turn>user\nbye<end_of_turn>\n<start_of_turn>model\n",
         -1},
        {"chatml",
         "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
         "fine<|im_end|>\n<|im_start|>user\nbye <|im_end|>\n<|im_start|>assistant\n",
         FIRST_MARKER + 1},
        {"llama-3",
         "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>"
         "\n\nhello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nfine<|eot_id|><|start_header_id|>user"
         "<|end_header_id|>\n\nbye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
         FIRST_MARKER + 7},
        {"phi-3",
         "<|system|>\nBe brief.<|end|>\n<|user|>\nhello<|end|>\n<|assistant|>\nfine<|end|>\n<|user|>\nbye <|end|>\n"
         "<|assistant|>\n",
         -1},
        {"zephyr",
         "<|system|>\nBe brief.</s>\n<|user|>\nhello</s>\n<|assistant|>\nfine</s>\n<|user|>\nbye </s>\n"
         "<|assistant|>\n",
         2},
    };
    static const Exchange messages[] = {{"hello", "fine"}, {"bye ", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Opened o;
        ChatTemplate chat;
        Tokens tokens;
        CHECK(open_plain(&o, &chat, NULL, cases[i].name), "%s does not open",
              cases[i].name);
        CHECK(!chat_tokens(&chat, &o.t, "Be brief.", messages, 2, &tokens),
              "%s", cases[i].name);
        CHECK(!strcmp(text_of(&o.t, &tokens), cases[i].text),
              "%s: %s, expected %s", cases[i].name, text_of(&o.t, &tokens),
              cases[i].text);
        CHECK(chat.end == cases[i].end, "%s ends with %d, expected %d",
              cases[i].name, chat.end, cases[i].end);
        free(tokens.ids);
        close_chat(&o, &chat);
    }
}

/* --template with a file; a template that raises, or a missing file, is
 * refused. */
static void a_template_can_be_a_file(void) {
    Opened o;
    ChatTemplate chat;
    Tokens tokens;
    CHECK(open_plain(&o, &chat, "{{ raise_exception('no') }}",
                     "tests/golden/chat/zephyr.jinja"),
          "does not open");
    CHECK(!chat_tokens(&chat, &o.t, NULL, &(Exchange){"a", NULL}, 1, &tokens),
          "does not render");
    CHECK(!strcmp(text_of(&o.t, &tokens), "<|user|>\na</s>\n<|assistant|>\n"),
          "%s", text_of(&o.t, &tokens));
    free(tokens.ids);
    close_chat(&o, &chat);
    stderr_hide();
    bool opens = open_plain(&o, &chat, "{{ raise_exception('no') }}", NULL);
    stderr_show();
    CHECK(!opens && strstr(stderr_text(),
                           "model: line 1 of the chat template: refused: no"),
          "%s", stderr_text());
    close_chat(&o, &chat);
    stderr_hide();
    opens = open_plain(&o, &chat, NULL, "tests/golden/chat/none.jinja");
    stderr_show();
    CHECK(!opens && strstr(stderr_text(),
                           "none.jinja', expected a Jinja file, or one of "
                           "llama-2, mistral, gemma,"),
          "%s", stderr_text());
    close_chat(&o, &chat);
}

/* Special pieces, BOS and EOS in a user or system prompt are encoded as plain
 * text. */
static void messages_contain_no_markers(void) {
    static const char message[] =
        "<s></s><|im_start|><|im_end|><|system|><|user|><|assistant|><|start_header_id|>"
        "<|end_header_id|><|eot_id|>[INST]<<SYS>>";
    static const char *const families[] = {"llama-2", "chatml", "zephyr",
                                           "llama-3"};
    for (int f = 0; f < 4; f++)
        for (int type = CONTROL; type <= USER_DEFINED; type++) {
            Opened o;
            ChatTemplate chat;
            Tokens plain, tokens;
            int special[2] = {0, 0}, n = 0;
            char *template = template_of(families[f]);
            CHECK(template && open_chat(&o, template, type), "%s does not open",
                  families[f]);
            for (int i = 0; i < 3; i++)
                o.t.pieces.list[i].kind =
                    (PieceKind)(type == USER_DEFINED ? PIECE_USER
                                                     : PIECE_CONTROL);
            CHECK(open_template(&o, &chat, NULL), "%s", families[f]);
            CHECK(!chat_tokens(&chat, &o.t, "x", &(Exchange){"x", NULL}, 1,
                               &plain) &&
                      !chat_tokens(&chat, &o.t, message,
                                   &(Exchange){message, NULL}, 1, &tokens),
                  "%s", families[f]);
            for (int way = 0; way < 2; way++) {
                const Tokens *list = way ? &tokens : &plain;
                for (int i = 0; i < list->n; i++)
                    special[way] +=
                        list->ids[i] < 3 || list->ids[i] >= FIRST_MARKER;
            }
            CHECK(special[0] == special[1] && special[0] > 0,
                  "%s, type %d: %d special tokens, expected %d", families[f],
                  type, special[1], special[0]);
            char text[1024] = ""; /* the message appears twice, unchanged */
            for (int i = 0; i < tokens.n; i++) {
                int length;
                const char *s =
                    tokenizer_decode(&o.t, 5, tokens.ids[i], &length);
                if (n + length < (int)sizeof text)
                    memcpy(text + n, s, (size_t)length), n += length;
            }
            text[n < (int)sizeof text ? n : 0] = 0;
            const char *first = strstr(text, message);
            CHECK(first && strstr(first + 1, message), "%s, type %d: '%s'",
                  families[f], type, text);
            free(plain.ids);
            free(tokens.ids);
            free(template);
            close_chat(&o, &chat);
        }
}

/* BOS, EOS and the end of a turn are markers whatever their piece is, like
 * special, control and user-defined pieces: the template's is one token, the
 * message's is text. */
static void markers_are_those_of_the_template(void) {
    enum { MARKER = FIRST_MARKER + 2 };
    static const PieceKind kinds[] = {PIECE_TEXT, PIECE_USER, PIECE_SPECIAL,
                                      PIECE_CONTROL};
    for (int kind = 0; kind < 4; kind++)
        for (int role = 0; role < 4; role++) {
            Opened o;
            ChatTemplate chat;
            Tokens tokens;
            int n = 0;
            CHECK(
                open_chat(
                    &o,
                    "{% for m in messages %}<|system|>{{ m.content }}{% endfor %}",
                    CONTROL),
                "does not open");
            o.t.n_before = 0;
            o.t.pieces.list[MARKER].kind = kinds[kind];
            if (role)
                *(role == 1   ? &o.t.bos
                  : role == 2 ? &o.t.eos
                              : &o.t.eot) = MARKER;
            CHECK(open_template(&o, &chat, NULL), "does not open");
            CHECK(!chat_tokens(&chat, &o.t, NULL,
                               &(Exchange){"a<|system|>b", NULL}, 1, &tokens),
                  "does not render");
            for (int i = 0; i < tokens.n; i++)
                n += tokens.ids[i] == MARKER;
            /* no other pieces merge to a piece of text of this name */
            const bool is_text = kinds[kind] == PIECE_TEXT && !role;
            CHECK(n == !is_text, "kind %d, role %d: %d markers in %s",
                  (int)kinds[kind], role, n, list_of(&tokens));
            free(tokens.ids);
            close_chat(&o, &chat);
        }
}

/* An added token absorbs the white space next to it, as Hugging Face's
 * tokenizers do for Phi 3's markers. */
static void markers_absorb_white_space(void) {
    Opened o;
    ChatTemplate chat;
    Tokens out;
    Exchange message = {"hello ", NULL};
    CHECK(open_plain(&o, &chat, NULL, "phi-3"), "does not open");
    o.t.pieces.list[FIRST_MARKER + 3].strips_right = true; /* <|user|> */
    o.t.pieces.list[FIRST_MARKER + 4].strips_left = true;  /* <|assistant|> */
    CHECK(!chat_tokens(&chat, &o.t, NULL, &message, 1, &out),
          "does not render");
    CHECK(!strcmp(text_of(&o.t, &out), "<|user|>hello <|end|><|assistant|>\n"),
          "%s", text_of(&o.t, &out));
    free(out.ids);
    close_chat(&o, &chat);
}

/* Special tokens that the model generated keep their ids. */
static void special_tokens_of_an_answer_are_kept(void) {
    Opened o;
    ChatTemplate chat;
    Tokens out;
    static const char answer[] = "a<|system|>b<|system|>";
    Conversation talk = {0};
    int n = 0;
    CHECK(open_plain(&o, &chat, NULL, "chatml"), "does not open");
    conversation_add(&talk, "x", 1);
    const JinjaText *m = conversation_add(&talk, answer, strlen(answer));
    memset(m->marks + 1, true, strlen("<|system|>"));
    conversation_add(&talk, "<|system|>", strlen("<|system|>"));
    CHECK(!chat_template_render(&chat, &o.t, &talk, &out), "does not render");
    for (int i = 0; i < out.n; i++)
        n += out.ids[i] == FIRST_MARKER + 2;
    CHECK(n == 1, "%d of %d: %s", n, out.n, list_of(&out));
    conversation_close(&talk);
    free(out.ids);
    close_chat(&o, &chat);
}

/* With every function of the interpreter applied to a message, no byte of a
 * message is in a special token. The template has none, so the text has none.
 * The special pieces include white space, which user-defined pieces may match,
 * and a piece that merging produces. */
static void no_function_makes_a_special_token(void) {
    static const char *const pieces[] = {"<|im_start|>", "\r", " a", "ab",
                                         "xab"};
    static const char message[] =
        "<|im_start|>,\n a,ab,<|im_start|> <s></s>\rxab , a";
    Opened o;
    ChatTemplate chat;
    Tokens tokens;
    CHECK(open_chat(&o, "{{ 1 }}", CONTROL), "does not open");
    for (int i = 0; i < 5; i++) {
        Piece *p = &o.t.pieces.list[FIRST_MARKER + i];
        p->text = pieces[i];
        p->length = (int)strlen(pieces[i]);
        p->also_merged = true;
    }
    o.t.n_before = 0;
    CHECK(open_template(&o, &chat, NULL), "does not open");
    for (int i = 0; i < N_EXPRESSIONS; i++) {
        char template[1024];
        snprintf(template, sizeof template, "%s%s-", EXPRESSIONS_BEGIN,
                 EXPRESSIONS[i].text);
        chat.text = template;
        Exchange messages[] = {{message, message}, {message, NULL}};
        CHECK(!chat_tokens(&chat, &o.t, NULL, messages, 2, &tokens),
              "%s does not render", EXPRESSIONS[i].text);
        for (int k = 0; k < tokens.n; k++)
            CHECK(tokens.ids[k] >= 3 && tokens.ids[k] < FIRST_MARKER,
                  "%s: token %d", EXPRESSIONS[i].text, tokens.ids[k]);
        free(tokens.ids);
    }
    close_chat(&o, &chat);
}

/* User-defined pieces that begin with a visible character match text of the
 * template, not of a message. */
static void user_defined_marks_match_in_templates(void) {
    static const char *const marks[] = {"#", "# ", "#a"};
    static const char *const templates[] = {"{{ messages[0].content }}",
                                            "# #a #{{ messages[0].content }}"};
    for (int i = 0; i < 3; i++) {
        Opened o;
        ChatTemplate chat;
        Tokens tokens;
        CHECK(open_chat(&o, NULL, CONTROL), "does not open");
        Piece *p = &o.t.pieces.list[300];
        p->text = marks[i];
        p->length = (int)strlen(marks[i]);
        p->kind = PIECE_USER;
        p->raw = true;
        CHECK(open_template(&o, &chat, "chatml"), "does not open");
        for (int k = 0; k < 2; k++) {
            int n = 0;
            chat.text = templates[k];
            CHECK(!chat_tokens(&chat, &o.t, NULL, &(Exchange){"x# #a #", NULL},
                               1, &tokens),
                  "does not render");
            for (int t = 0; t < tokens.n; t++)
                n += tokens.ids[t] == 300;
            CHECK(k ? n > 0 : !n, "'%s' in '%s': %d times", marks[i],
                  templates[k], n);
            free(tokens.ids);
        }
        close_chat(&o, &chat);
    }
}

/* User-defined runs of spaces in a message match, as they do in other texts. */
static void user_defined_spaces_match_in_messages(void) {
    Opened o;
    ChatTemplate chat;
    Tokens tokens;
    int n = 0;
    CHECK(open_chat(&o, NULL, CONTROL), "does not open");
    o.t.space_prefix = SPACE_NEVER;
    o.t.pieces.list[300].text = "\n\n";
    o.t.pieces.list[300].length = 2;
    o.t.pieces.list[300].kind = PIECE_USER;
    o.t.pieces.list[300].raw = true;
    CHECK(open_template(&o, &chat, "chatml"), "does not open");
    CHECK(!chat_tokens(&chat, &o.t, NULL, &(Exchange){"a\n\nb", NULL}, 1,
                       &tokens),
          "does not render");
    for (int i = 0; i < tokens.n; i++)
        n += tokens.ids[i] == 300;
    CHECK(n == 1, "%d of %s", n, list_of(&tokens));
    free(tokens.ids);
    close_chat(&o, &chat);
}

/* The same in a byte-level tokenizer, whose pieces all match raw text. */
static void user_defined_spaces_match_in_byte_level_messages(void) {
    Tokenizer t;
    ChatTemplate chat;
    Tokens tokens;
    int n = 0;
    CHECK(!tokenizer_open_folder(&t, "tests/golden/bpe_qwen2.json", 911),
          "does not open");
    t.pieces.list[300].text = "\n\n";
    t.pieces.list[300].length = 2;
    t.pieces.list[300].kind = PIECE_USER;
    CHECK(!chat_template_open(
              &chat, &t, &(Options){.model = "model", .template = "chatml"}) &&
              !chat_tokens(&chat, &t, NULL, &(Exchange){"a\n\nb", NULL}, 1,
                           &tokens),
          "does not render");
    for (int i = 0; i < tokens.n; i++)
        n += tokens.ids[i] == 300;
    CHECK(n == 1, "%d of %s", n, list_of(&tokens));
    free(tokens.ids);
    chat_template_close(&chat);
    tokenizer_close(&t);
}

/* A prompt that begins with a message has the tokenizer's BOS, whatever the
 * message says. */
static void a_typed_bos_replaces_no_bos(void) {
    static const char *const texts[] = {"<s>", "<s>a", " <s>", "a"};
    for (int i = 0; i < 4; i++) {
        Opened o;
        ChatTemplate chat;
        Tokens tokens;
        int n_bos = 0;
        CHECK(open_plain(&o, &chat,
                         "{% for m in messages %}{{ m.content }}{% endfor %}",
                         NULL),
              "does not open");
        o.t.n_before = 1;
        CHECK(!chat_tokens(&chat, &o.t, NULL, &(Exchange){texts[i], NULL}, 1,
                           &tokens),
              "does not render");
        for (int k = 0; k < tokens.n; k++)
            n_bos += tokens.ids[k] == 1;
        CHECK(n_bos == 1 && tokens.ids[0] == 1 && tokens.n > 1, "'%s': %s",
              texts[i], list_of(&tokens));
        free(tokens.ids);
        close_chat(&o, &chat);
    }
}

/* A template may write no message, and may fail for some messages: with one
 * message on stderr. */
static void any_template_is_rendered_or_refused(void) {
    static const struct {
        const char *template, *message, *text; /* NULL: refused */
    } cases[] = {
        {"x", "a", "x"},
        {"<|im_end|>", "a", "<|im_end|>"},
        {"{% if messages[0].content == 'no' %}{{ raise_exception('bad') }}{% endif %}{{ messages[0].content }}",
         "yes", "yes"},
        {"{% if messages[0].content == 'no' %}{{ raise_exception('bad') }}{% endif %}{{ messages[0].content }}",
         "no", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Opened o;
        ChatTemplate chat;
        Tokens tokens = {0};
        CHECK(open_plain(&o, &chat, cases[i].template, NULL),
              "%zu does not open", i);
        Conversation talk = {0};
        conversation_add(&talk, cases[i].message, strlen(cases[i].message));
        stderr_hide();
        int status = chat_template_render(&chat, &o.t, &talk, &tokens);
        int lines = stderr_show();
        CHECK(!status == (cases[i].text != NULL) && lines == (status != 0),
              "%zu: %d, %s", i, status, stderr_text());
        CHECK(status || !strcmp(text_of(&o.t, &tokens), cases[i].text),
              "%zu: '%s'", i, text_of(&o.t, &tokens));
        conversation_close(&talk);
        free(tokens.ids);
        close_chat(&o, &chat);
    }
}

/* A template that writes nothing, from the beginning or once old turns are
 * dropped, is refused if the tokenizer adds no BOS. */
static void an_empty_prompt_is_refused(void) {
    for (int bos = 0; bos < 2; bos++) {
        Opened o;
        ChatTemplate chat;
        Tokens tokens;
        CHECK(
            open_plain(
                &o, &chat,
                "{% if messages|length > 1 %}{% for m in messages %}{{ m.content }}{% endfor %}{% endif %}",
                NULL),
            "does not open");
        o.t.n_before = bos;
        stderr_hide();
        int status =
            chat_tokens(&chat, &o.t, NULL, &(Exchange){"a", NULL}, 1, &tokens);
        int lines = stderr_show();
        CHECK(bos ? !status && tokens.n == 1 && !lines
                  : status && lines == 1 &&
                        strstr(stderr_text(),
                               "model: the chat template writes no text"),
              "BOS %d: %d, %s", bos, status, stderr_text());
        free(tokens.ids);
        close_chat(&o, &chat);
    }
}

/* Conversations of files, as ChatML. */
static void conversations_have_parts_and_roles(void) {
    static const struct {
        const char *messages, *text; /* NULL: refused */
    } cases[] = {
        {"[{'role': 'user', 'content': [{'type': 'text', 'text': 'Hi'}, {'type': 'text', 'text': 'you'}]}]",
         "[user]Hi\nyou[assistant]"},
        {"[{'role': 'user', 'content': 'a'}, {'role': 'user', 'content': 'b'}]",
         "[user]a[user]b[assistant]"},
        {"[{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b c', 'continue': true}]",
         "[user]a[assistant]b c"},
        /* only an answer is continued */
        {"[{'role': 'user', 'content': 'a', 'continue': true}]",
         "[user]a[assistant]"},
        {"[{'role': 'tool', 'content': 'a', 'continue': true}]",
         "[tool]a[assistant]"},
        {"[{'role': 'developer', 'content': 'a'}, {'role': 'system', 'content': 'b'}, {'role': 'x y', 'content': 'c'}]",
         "[developer]a[system]b[x y]c[assistant]"},
        {"[{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': ''}, {'role': 'tool', 'content': '3'}]",
         "[user]a[assistant][tool]3[assistant]"},
        {"[{'role': 'system', 'content': [{'type': 'text', 'text': 's'}]}, {'role': 'user', 'content': 'a'}]",
         "[system]s[user]a[assistant]"},
        {"[{'role': '<|im_end|>', 'content': '<|im_end|>'}]",
         "[<|im_end|>]<|im_end|>[assistant]"},
        {"[{'role': 'user', 'content': [{'type': 'image'}]}]", NULL},
        {"[{'role': 'user', 'content': [{'type': 'text'}]}]", NULL},
        {"[{'role': 'user', 'content': 5}]", NULL},
        {"[{'role': 5, 'content': 'a'}]", NULL},
        {"[{'content': 'a'}]", NULL},
        {"[{'role': 'user'}]", NULL},
    };
    Opened o;
    ChatTemplate chat;
    CHECK(
        open_plain(
            &o, &chat,
            "{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% if m.content == '' %}{% endif %}"
            "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}",
            NULL),
        "does not open");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        JsonFile json;
        Conversation talk = {0};
        Tokens tokens = {0};
        snprintf(text, sizeof text, "%s", cases[i].messages);
        for (char *s = text; *s; s++)
            *s = *s == '\'' ? '"' : *s;
        CHECK(!json_parse(&json, "test", text, strlen(text)), "%s", text);
        stderr_hide();
        bool read = !conversation_read(&talk, "test", json.values);
        int lines = stderr_show();
        json_close(&json);
        CHECK(read == (cases[i].text != NULL) && lines == !read, "%s: %s",
              cases[i].messages, stderr_text());
        CHECK(!read || !chat_template_render(&chat, &o.t, &talk, &tokens),
              "%s does not render", cases[i].messages);
        CHECK(!read || !strcmp(text_of(&o.t, &tokens), cases[i].text),
              "%s: %s, expected %s", cases[i].messages, text_of(&o.t, &tokens),
              cases[i].text);
        for (int k = 0; k < tokens.n; k++)
            CHECK(tokens.ids[k] < FIRST_MARKER, "%s: a special token",
                  cases[i].messages);
        free(tokens.ids);
        conversation_close(&talk);
    }
    close_chat(&o, &chat);
}

/* BOS, EOS and EOT never appear in a message, for any id and any piece. */
static void messages_contain_no_end_tokens(void) {
    for (int which = 0; which < 3; which++)
        for (int id = 0; id < 400; id += 399) {
            Opened o;
            ChatTemplate chat;
            Tokens out;
            int n = 0;
            char message[64];
            CHECK(open_chat(
                      &o, "{% for m in messages %}{{ m.content }}{% endfor %}",
                      CONTROL),
                  "does not open");
            *(which == 0 ? &o.t.bos : which == 1 ? &o.t.eos : &o.t.eot) = id;
            o.t.pieces.list[id].kind = PIECE_USER;
            o.t.n_before = 0;
            CHECK(!pieces_index(&o.t.pieces) && open_template(&o, &chat, NULL),
                  "does not open");
            snprintf(message, sizeof message, "%.*s",
                     o.t.pieces.list[id].length, o.t.pieces.list[id].text);
            CHECK(!chat_tokens(&chat, &o.t, NULL, &(Exchange){message, NULL}, 1,
                               &out),
                  "does not render");
            for (int i = 0; i < out.n; i++)
                n += out.ids[i] == id;
            CHECK(n == 0, "'%s' is token %d, number %d", message, id, which);
            free(out.ids);
            close_chat(&o, &chat);
        }
}

/* One BOS, if the template writes it or the tokenizer prepends it. */
static void bos_of_the_template_or_of_the_tokenizer(void) {
    static const struct {
        const char *name;
        bool adds_bos;
        int first, next;
    } cases[] = {{"llama-2", true, 1, 2}, {"llama-2", false, 1, 2},
                 {"chatml", true, 1, 1},  {"chatml", false, 0, 0},
                 {"zephyr", true, 1, 1},  {"zephyr", false, 0, 0},
                 {"llama-3", true, 1, 1}, {"llama-3", false, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int n = 1; n <= 2; n++) {
            Opened o;
            ChatTemplate chat;
            Tokens tokens;
            int n_bos = 0;
            CHECK(open_chat(&o, NULL, CONTROL), "%s does not open",
                  cases[i].name);
            o.t.n_before = cases[i].adds_bos;
            Exchange messages[] = {{"aa", "ba"}, {"aa", NULL}};
            CHECK(open_template(&o, &chat, cases[i].name) &&
                      !chat_tokens(&chat, &o.t, NULL, messages, n, &tokens),
                  "%s", cases[i].name);
            for (int k = 0; k < tokens.n; k++)
                n_bos += tokens.ids[k] == 1;
            CHECK(n_bos == (n == 1 ? cases[i].first : cases[i].next),
                  "case %zu, %d turns: %d BOS", i, n, n_bos);
            free(tokens.ids);
            close_chat(&o, &chat);
        }
}

/* Each named token and <unk> is a variable of a template, undefined if the
 * tokenizer has none. */
static void special_tokens_are_variables(void) {
    static const char template[] =
        "{% for name in [pad_token, sep_token, cls_token, mask_token, unk_token] %}"
        "{{ name if name is defined else 'none' }}|{% endfor %}";
    static const struct {
        int named[4], unk;
        const char *text;
    } cases[] = {{{-1, -1, -1, -1}, -1, "none|none|none|none|none|"},
                 {{2, -1, -1, -1}, -1, "</s>|none|none|none|none|"},
                 {{-1, 2, -1, -1}, 1, "none|</s>|none|none|<s>|"},
                 {{-1, -1, 1, 2}, -1, "none|none|<s>|</s>|none|"},
                 {{1, -1, 2, -1}, 2, "<s>|none|</s>|none|</s>|"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Opened o;
        ChatTemplate chat;
        Tokens tokens;
        CHECK(open_plain(&o, &chat, template, NULL), "does not open");
        memcpy(o.t.named, cases[i].named, sizeof o.t.named);
        o.t.unk = cases[i].unk;
        CHECK(
            !chat_tokens(&chat, &o.t, NULL, &(Exchange){"a", NULL}, 1, &tokens),
            "does not render");
        CHECK(!strcmp(text_of(&o.t, &tokens), cases[i].text), "%s, not %s",
              text_of(&o.t, &tokens), cases[i].text);
        free(tokens.ids);
        close_chat(&o, &chat);
    }
}

/* --think sets enable_thinking; without it the variable is undefined. */
static void think_sets_a_variable(void) {
    static const char template[] =
        "{{ enable_thinking if enable_thinking is defined else '-' }}{{ eos_token }}";
    static const char *const values[] = {NULL, "on", "off"}, *const texts[] = {
                                                                 "-</s>",
                                                                 "True</s>",
                                                                 "False</s>"};
    for (int i = 0; i < 3; i++) {
        Opened o;
        ChatTemplate chat;
        Tokens tokens;
        CHECK(open_plain(&o, &chat, template, NULL), "does not open");
        chat.think = values[i];
        CHECK(
            !chat_tokens(&chat, &o.t, NULL, &(Exchange){"a", NULL}, 1, &tokens),
            "does not render");
        CHECK(!strcmp(text_of(&o.t, &tokens), texts[i]), "%s",
              text_of(&o.t, &tokens));
        free(tokens.ids);
        close_chat(&o, &chat);
    }
}

/* A begun answer is the end of the prompt; a template that does not write it is
 * refused, also if an earlier message has the same text. */
static void a_begun_answer_is_written_or_refused(void) {
    static const struct {
        const char *template, *end;
    } cases[] = {
        {"{% for m in messages %}<{{ m.content }}>{% endfor %}", "<abc><abc"},
        {"{% for m in messages %}<{{ m.content }}>{% endfor %}<a>",
         "<abc><abc"},
        {"{% for m in messages %}{% if not loop.last %}<{{ m.content }}>{% endif %}{% endfor %}",
         NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool none[3] = {false};
        JinjaText messages[] = {{(char *)"abc", none, 3, "user"},
                                {(char *)"abc", none, 3, "assistant"}};
        Conversation talk = {.messages = messages, .n = 2, .continues = true};
        Opened o;
        ChatTemplate chat;
        Tokens tokens;
        CHECK(open_plain(&o, &chat, cases[i].template, NULL), "%s",
              cases[i].template);
        stderr_hide();
        int failed = chat_template_render(&chat, &o.t, &talk, &tokens);
        stderr_show();
        CHECK(!failed == (cases[i].end != NULL), "%s: %s", cases[i].template,
              stderr_text());
        if (!failed)
            CHECK(!strcmp(text_of(&o.t, &tokens), cases[i].end), "%s: '%s'",
                  cases[i].template, text_of(&o.t, &tokens));
        free(tokens.ids);
        close_chat(&o, &chat);
    }
}

/* What a message of a file has is what the template gets: a leading space is
 * kept, and a role is the template's own text only if it is a usual one. */
static void messages_of_files_are_unchanged(void) {
    static const struct {
        const char *role;
        bool own;
    } roles[] = {{"user", true},        {"assistant", true}, {"s", false},
                 {"use", false},        {"user ", false},    {"", false},
                 {"r assistant", false}};
    for (size_t i = 0; i < COUNT(roles); i++) {
        bool none[2] = {false};
        JinjaText message = {(char *)" x", none, 2, roles[i].role}, text;
        JinjaInput in = {.path = "test",
                         .template =
                             "{{ messages[0].role }}{{ messages[0].content }}",
                         .messages = &message,
                         .n = 1};
        CHECK(!jinja_render(&in, &text), "%s", roles[i].role);
        size_t n = strlen(roles[i].role);
        CHECK(text.n == n + 2 && !strcmp(text.text + n, " x"), "'%s'",
              text.text);
        for (size_t k = 0; k < text.n; k++)
            CHECK(text.marks[k] == (roles[i].own && k < n),
                  "role '%s': byte %zu has the mark %d", roles[i].role, k,
                  text.marks[k]);
        free(text.text);
    }
}

/* A conversation that does not fit loses its oldest turns, as few as needed,
 * whichever sizes they have. */
static void the_oldest_turns_are_dropped(void) {
    enum { MESSAGES = 41 };
    static bool none[8];
    JinjaText messages[MESSAGES];
    Opened o;
    ChatTemplate chat;
    CHECK(open_plain(&o, &chat,
                     "{% for m in messages %}<{{ m.content }}>{% endfor %}",
                     NULL),
          "does not open");
    for (int i = 0; i < MESSAGES; i++)
        messages[i] =
            (JinjaText){(char *)"abcdefgh", none, 1 + (size_t)(i * 7 % 8),
                        i % 2 ? "assistant" : "user"};
    int all = 0;
    for (int max = 400; max >= 1; max -= 3) {
        Conversation talk = {.messages = messages, .n = MESSAGES};
        Tokens tokens, whole, before;
        CHECK(!chat_template_fit(&chat, &o.t, &talk, max, max / 2, &tokens),
              "max %d", max);
        Conversation all_of_it = {.messages = messages, .n = MESSAGES},
                     one_more = {.messages = messages,
                                 .n = MESSAGES,
                                 .first = talk.first - 2};
        CHECK(!chat_template_render(&chat, &o.t, &all_of_it, &whole), "all");
        all = whole.n;
        CHECK(talk.first % 2 == 0, "begins at %d", talk.first);
        CHECK((talk.first == 0) == (whole.n <= max), "max %d: first %d", max,
              talk.first);
        if (talk.first > 0) {
            CHECK(tokens.n <= max / 2 || talk.first == MESSAGES - 1,
                  "max %d: %d tokens", max, tokens.n);
            CHECK(!chat_template_render(&chat, &o.t, &one_more, &before),
                  "one more");
            CHECK(before.n > max / 2, "max %d: %d tokens fit, too", max,
                  before.n);
            free(before.ids);
        }
        free(whole.ids);
        free(tokens.ids);
    }
    CHECK(all > 100, "%d tokens", all);
    close_chat(&o, &chat);
}

void suite_template(void) {
    TEST(a_begun_answer_is_written_or_refused);
    TEST(messages_of_files_are_unchanged);
    TEST(the_oldest_turns_are_dropped);
    TEST(conversations_match_hugging_face);
    TEST(built_in_templates_have_their_format);
    TEST(a_template_can_be_a_file);
    TEST(messages_contain_no_markers);
    TEST(no_function_makes_a_special_token);
    TEST(user_defined_marks_match_in_templates);
    TEST(user_defined_spaces_match_in_messages);
    TEST(user_defined_spaces_match_in_byte_level_messages);
    TEST(a_typed_bos_replaces_no_bos);
    TEST(any_template_is_rendered_or_refused);
    TEST(an_empty_prompt_is_refused);
    TEST(conversations_have_parts_and_roles);
    TEST(markers_are_those_of_the_template);
    TEST(markers_absorb_white_space);
    TEST(special_tokens_of_an_answer_are_kept);
    TEST(messages_contain_no_end_tokens);
    TEST(bos_of_the_template_or_of_the_tokenizer);
    TEST(think_sets_a_variable);
    TEST(special_tokens_are_variables);
}
