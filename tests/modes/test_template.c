/* test_template.c: chat templates.
 *
 * Owns the comparison with tests/golden/chat.txt: what Hugging Face makes of a
 * conversation with the templates in tests/golden/chat and a vocabulary made up
 * here and in scripts/golden_tokens.py, which wrote it; and what no one may say.
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

/* What tests open, in one. */
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

/* A model with this template, and the markers as pieces of this type; 0: it has none. */
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

static void check_turn(const char *family, int type, const char *system, int turn, const char *expected) {
    static const char *const users[] = {"hello there", "and you? [yes]\xc3\xa9", "ab  abc </ s>"};
    Opened o;
    ChatTemplate chat;
    Tokens tokens;
    char *template = template_of(family);
    CHECK(template && open_chat(&o, template, type), "%s does not open", family);
    CHECK(chat_template_open(&chat, &o.t) && !strcmp(chat.name, family), "%s is taken for %s", family, chat.name);
    CHECK(!chat_template_render(&chat, &o.t, system, users[turn], turn == 0, &tokens), "%s", family);
    CHECK(!strcmp(list_of(&tokens), expected), "%s, markers %d, system %s, turn %d: %s, expected %s", family, type,
          system ? system : "-", turn, list_of(&tokens), expected);
    free(tokens.ids);
    free(template);
    close_both(&o);
}

static void turns_are_those_of_hugging_face(void) {
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

/* Neither the user nor the system prompt can say a marker, an end or a beginning of text. */
static void what_is_said_is_text(void) {
    static const char said[] = "<s></s><|im_start|><|im_end|><|system|><|user|><|assistant|><|start_header_id|>"
                               "<|end_header_id|><|eot_id|>[INST]<<SYS>>";
    static const char *const families[] = {"llama-2", "chatml", "zephyr", "llama-3"};
    for (int f = 0; f < 4; f++)
        for (int type = CONTROL; type <= USER_DEFINED; type++) {
            Opened o;
            ChatTemplate chat;
            Tokens plain, tokens;
            int special[2] = {0, 0}, n = 0;
            char *template = template_of(families[f]);
            CHECK(template && open_chat(&o, template, type), "%s does not open", families[f]);
            for (int i = 0; i < 3; i++)
                o.t.pieces.list[i].kind = (PieceKind)(type == USER_DEFINED ? PIECE_USER : PIECE_CONTROL);
            CHECK(chat_template_open(&chat, &o.t), "%s", families[f]);
            CHECK(!chat_template_render(&chat, &o.t, "x", "x", true, &plain) &&
                      !chat_template_render(&chat, &o.t, said, said, true, &tokens),
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
            char text[1024] = ""; /* all of it is there: both times */
            for (int i = 0; i < tokens.n; i++) {
                int length;
                const char *s = tokenizer_decode(&o.t, 5, tokens.ids[i], &length);
                if (n + length < (int)sizeof text) memcpy(text + n, s, (size_t)length), n += length;
            }
            text[n < (int)sizeof text ? n : 0] = 0;
            const char *first = strstr(text, said);
            CHECK(first && strstr(first + 1, said), "%s, type %d: '%s'", families[f], type, text);
            free(plain.ids);
            free(tokens.ids);
            free(template);
            close_both(&o);
        }
}

/* The family of a template, and what stands for its end. */
static void templates_are_recognised_by_what_they_mention(void) {
    static const struct {
        const char *template, *family;
        bool known;
        int end;
    } cases[] = {
        {NULL, "llama-2", true, 2},
        {"", "llama-2", false, 2},
        {"{{ messages }}", "llama-2", false, 2},
        {"{{ bos_token }}[INST] {{ message }} [/INST]{{ eos_token }}", "llama-2", false, 2}, /* Mistral */
        {"[INST] <<SYS>> [/INST]", "llama-2", true, 2},
        {"<|im_start|>user\n{{ content }}<|im_end|>", "chatml", true, FIRST_MARKER + 1},
        {"<|im_start|>user<|im_sep|>{{ content }}<|im_end|>", "llama-2", false, 2},
        {"<|user|>\n + eos_token }}<|assistant|>", "zephyr", true, 2},
        {"<|user|>\n{{ content }}<|end|>\n<|assistant|>{{ eos_token }}", "llama-2", false, 2},
        {"<|start_header_id|>user<|end_header_id|>\n\n{{ content }}<|eot_id|>", "llama-3", true, FIRST_MARKER + 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Opened o;
        ChatTemplate chat;
        CHECK(open_chat(&o, cases[i].template, CONTROL), "case %zu does not open", i);
        CHECK(chat_template_open(&chat, &o.t) == cases[i].known && !strcmp(chat.name, cases[i].family) &&
                  chat.end == cases[i].end,
              "case %zu: %s, end %d", i, chat.name, chat.end);
        close_both(&o);
    }
}

/* BOS: once, where the template names it or the tokenizer puts it before texts. */
static void bos_is_the_template_s_or_the_tokenizer_s(void) {
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
            CHECK(chat_template_open(&chat, &o.t) && !chat_template_render(&chat, &o.t, NULL, "aa", first, &tokens),
                  "%s", cases[i].family);
            for (int k = 0; k < tokens.n; k++) n_bos += tokens.ids[k] == 1;
            CHECK(n_bos == (first ? cases[i].first : cases[i].next), "case %zu: %d BOS", i, n_bos);
            free(tokens.ids);
            free(template);
            close_both(&o);
        }
}

/* Llama 3's template takes white space away, the others leave it. */
static void white_space_is_trimmed_where_the_template_does(void) {
    for (int trims = 0; trims < 2; trims++) {
        Opened o;
        ChatTemplate chat;
        Tokens spaced, plain;
        char *template = template_of(trims ? "llama-3" : "chatml");
        CHECK(template && open_chat(&o, template, CONTROL) && chat_template_open(&chat, &o.t), "does not open");
        CHECK(!chat_template_render(&chat, &o.t, "\t a \n", "  b c ", true, &spaced) &&
                  !chat_template_render(&chat, &o.t, "a", "b c", true, &plain),
              "does not render");
        const bool same = spaced.n == plain.n && !memcmp(spaced.ids, plain.ids, (size_t)plain.n * sizeof *plain.ids);
        CHECK(same == trims, "%s: %s", chat.name, list_of(&spaced));
        free(spaced.ids);
        CHECK(!chat_template_render(&chat, &o.t, NULL, " \n ", true, &spaced), "white space alone");
        free(spaced.ids);
        free(plain.ids);
        free(template);
        close_both(&o);
    }
}

void suite_template(void) {
    TEST(turns_are_those_of_hugging_face);
    TEST(what_is_said_is_text);
    TEST(templates_are_recognised_by_what_they_mention);
    TEST(bos_is_the_template_s_or_the_tokenizer_s);
    TEST(white_space_is_trimmed_where_the_template_does);
}
