/* test_pieces.c: the tokens that the sentencepiece library gives; the table of
 * pieces.
 *
 * Compares SentencePiece tokenizers with the library (texts.c has the texts and
 * the comparison), and the lookups of pieces.c with a linear search.
 */
#include "base/memory.h"
#include "formats/folder.h"
#include "formats/gguf.h"
#include "formats/llama2c.h"
#include "formats/open.h"
#include "model.h"
#include "text/pieces.h"
#include "tokenizer.h"

#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/texts.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the library control pieces match no text. */
static void match_as_the_library(Tokenizer *t) {
    for (int id = 0; id < t->pieces.n; id++)
        if (t->pieces.list[id].kind == PIECE_SPECIAL)
            t->pieces.list[id].kind = PIECE_CONTROL;
    CHECK(!pieces_index(&t->pieces), "no memory");
}

static void stories_matches_the_library(void) {
    Model model;
    Tokenizer t;
    CHECK(!model_open(&model, "models/stories.gguf"), "does not open");
    CHECK(gguf_read_tokenizer(&t, model.files, "models/stories.gguf",
                              model.config.vocab_size, true) == 1,
          "no tokenizer");
    CHECK(t.normalizer.replaces_invalid,
          "replaces_invalid differs from the library");
    match_as_the_library(&t);
    check_golden_tokens(&t, "stories", ALL_BYTES);
    tokenizer_close(&t);
    model_close(&model);
}

static void llama_2_matches_the_library(void) {
    const char *path = real_checkpoint("llama32k.bin");
    Tokenizer t;
    if (!path) {
        test_skip(NO_CHECKPOINTS);
        return;
    }
    CHECK(!tokenizer_open_bin(&t, path, 32000), "does not open");
    t.normalizer.replaces_invalid = true; /* as in a SentencePiece model */
    check_golden_tokens(&t, "llama32k", ALL_BYTES);
    /* llama2.c's rule: every byte is kept */
    t.normalizer.replaces_invalid = false;
    check_all_bytes_return(&t);
    tokenizer_close(&t);
}

enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4 };

static const GgufPiece USER_PIECES[] = {{"<|im_start|>", USER_DEFINED},
                                        {"<|im_end|>", USER_DEFINED},
                                        {"Ab", USER_DEFINED},
                                        {"Abc", USER_DEFINED},
                                        {"Abcab", USER_DEFINED},
                                        {" Us", USER_DEFINED},
                                        {"  ", USER_DEFINED},
                                        {"C d", USER_DEFINED},
                                        {"\n", USER_DEFINED},
                                        {"\n\n", USER_DEFINED},
                                        {"\xc3\xa9", USER_DEFINED},
                                        {"h\xc3\xa9", USER_DEFINED},
                                        {"</s>x", USER_DEFINED},
                                        {" \xe3\x80\x80", USER_DEFINED},
                                        {"x y  z", USER_DEFINED},
                                        {"Abq", NORMAL},
                                        {"qAb", NORMAL},
                                        {"\xc3\xa9"
                                         "a",
                                         NORMAL},
                                        {"<|control|>", CONTROL}};
enum { N_USER_PIECES = COUNT(USER_PIECES) };

/* Normal and user-defined pieces match. Unknown, unused and undefined ones, and
 * those of types that no version has, match no text. */
static void pieces_of_other_types_match_nothing(void) {
    enum { N_NUMBERS = 12, SIZE = 400 };
    static const HashModel speaking = {16, 16, 1, 2, 1, SIZE, 16, false, 9};
    static const int types[N_NUMBERS] = {0, 1,  2,  5,   7,   8,
                                         4, 15, 63, 255, 256, INT_MAX};
    static GgufFile file;
    GgufPiece pieces[N_NUMBERS];
    char names[N_NUMBERS][16];
    Model model;
    Tokenizer t;
    for (int i = 0; i < N_NUMBERS; i++) {
        sprintf(names[i], "~%c", 'A' + i);
        pieces[i] = (GgufPiece){names[i], types[i]};
    }
    gguf_make(&file, &speaking, 0);
    gguf_add_tokenizer(&file, SIZE, pieces, N_NUMBERS);
    CHECK(!gguf_reopen(&file, &model, &t), "does not open");
    for (int i = 0; i < N_NUMBERS; i++) {
        Tokens tokens;
        int n = 0;
        CHECK(!tokenizer_encode(&t, names[i], strlen(names[i]), true, &tokens),
              "no tokens");
        for (int k = 0; k < tokens.n; k++)
            n += tokens.ids[k] >= SIZE - N_NUMBERS;
        const bool matches = types[i] == NORMAL || types[i] == USER_DEFINED;
        CHECK(n == matches, "type %d: %d such tokens", types[i], n);
        free(tokens.ids);
    }
    tokenizer_close(&t);
    model_close(&model);
}

static void user_defined_pieces_match_as_in_the_library(void) {
    static const HashModel speaking = {16, 16, 1, 2, 1, 1600, 16, false, 9};
    static GgufFile file;
    Model model;
    Tokenizer t;
    gguf_make(&file, &speaking, 0);
    gguf_add_tokenizer(&file, speaking.vocab_size, USER_PIECES, N_USER_PIECES);
    CHECK(!gguf_reopen(&file, &model, &t), "does not open");
    match_as_the_library(&t);
    check_golden_tokens(&t, "user", ALL_BYTES);
    tokenizer_close(&t);
    model_close(&model);
}

/* A GGUF file's texts end before the tokens of its keys and before tokens with
 * one of llama.cpp's names; some names end a text only without others. */
static void texts_end_where_llama_cpp_ends_them(void) {
    enum { N = 300, MAX_LAST = 6 };
    static const HashModel speaking = {16, 16, 1, 2, 1, N, 16, false, 9};
    static const struct {
        GgufPiece last[MAX_LAST]; /* N - MAX_LAST, ... */
        const char *ends;         /* which of them: 1 or 0 */
        const char *key;          /* NULL: none */
        int id;                   /* of the key */
    } cases[] = {
        {{{"<|eot_id|>", CONTROL},
          {"<|eom_id|>", NORMAL},
          {"<end_of_turn>", USER_DEFINED},
          {"<|return|>", CONTROL},
          {"<|end|>", CONTROL},
          {"<|start|>", CONTROL}},
         "111110",
         NULL,
         0},
        {{{"<|call|>", CONTROL},
          {"<|return|>", CONTROL},
          {"<|end|>", CONTROL},
          {"x", NORMAL},
          {"<eos>", CONTROL},
          {"eos", CONTROL}},
         "110010",
         "tokenizer.ggml.eom_token_id",
         -1},
        {{{"<|calls|>", CONTROL},
          {"<|flush|>", CONTROL},
          {"<|end|>", CONTROL},
          {"_<EOT>", NORMAL},
          {"<PAD>", CONTROL},
          {"[PAD]", CONTROL}},
         "110110",
         "tokenizer.ggml.eom_token_id",
         N + 7},
        {{{"<|flush|>", CONTROL},
          {"<|end|>", CONTROL},
          {"a1", NORMAL},
          {"a2", NORMAL},
          {"<|fim_pad|>", CONTROL},
          {"<|file_sep|>", CONTROL}},
         "111001",
         "tokenizer.ggml.fim_pad_token_id",
         N - 4},
        {{{"<|repo_name|>", CONTROL},
          {"<EOT", CONTROL},
          {"<EOT>>", CONTROL},
          {"<EOT>", NORMAL},
          {"<EOT>", NORMAL},
          {"[e~[", CONTROL}},
         "100011",
         NULL,
         0},
        {{{"a1", NORMAL},
          {"a2", NORMAL},
          {"a3", NORMAL},
          {"a4", NORMAL},
          {"a5", NORMAL},
          {"</s>", CONTROL}},
         "000101",
         "tokenizer.ggml.eom_token_id",
         N - 3},
        {{{"<|tool_response>", CONTROL},
          {"a2", NORMAL},
          {"a3", NORMAL},
          {"a4", NORMAL},
          {"a5", NORMAL},
          {"</s>", CONTROL}},
         "100000",
         NULL,
         0},
    };
    static GgufFile file;
    for (size_t i = 0; i < COUNT(cases); i++) {
        Model model;
        Tokenizer t;
        gguf_make(&file, &speaking, 0);
        gguf_add_tokenizer(&file, N, cases[i].last, MAX_LAST);
        if (cases[i].key)
            gguf_set_int(&file, cases[i].key, cases[i].id);
        CHECK(!gguf_reopen(&file, &model, &t), "%s", stderr_text());
        for (int k = 0; k < MAX_LAST; k++) {
            int id = N - MAX_LAST + k;
            CHECK(tokenizer_is_end(&t, id, true) == (cases[i].ends[k] == '1'),
                  "case %zu: %s", i, cases[i].last[k].text);
        }
        CHECK(tokenizer_is_end(&t, 2, true) && !tokenizer_is_end(&t, 0, true),
              "case %zu: EOS", i);
        tokenizer_close(&t);
        model_close(&model);
    }
}

/* ---- tokenizer.model ----------------------------------------------------- */

typedef struct {
    char bytes[1 << 20];
    size_t n;
} Message;

static void put_number(Message *m, uint64_t value) {
    for (; value > 127; value >>= 7)
        m->bytes[m->n++] = (char)(value | 128);
    m->bytes[m->n++] = (char)value;
}

static void put_field(Message *m, int number, uint64_t value) {
    put_number(m, (uint64_t)number * 8);
    put_number(m, value);
}

static void put_bytes(Message *m, int number, const void *bytes, size_t n) {
    put_number(m, (uint64_t)number * 8 + 2);
    put_number(m, n);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

/* What the tests change in a file. */
typedef struct {
    bool no_bytes, no_prefix;
    int message, field; /* another field of the rules, with this value */
    uint64_t value;
} Change;

/* Writes the pieces of a tokenizer as a tokenizer.model, in the folder "sp".
 * Returns its path and sets *n to the number of pieces. */
static const char *write_model(const Tokenizer *t, Change change, int *n) {
    static Message file;
    Message *part = calloc(1, sizeof *part);
    file.n = 0;
    *n = 0;
    for (int id = 0; id < t->pieces.n; id++) {
        static const int types[] = {1, 4, 3, 6, 3}; /* by PieceKind */
        const Piece *p = &t->pieces.list[id];
        float score = p->score;
        Message name = {.n = 0};
        if (change.no_bytes && p->kind == PIECE_BYTE)
            continue;
        for (int i = 0; i < p->length; i++)
            if (p->text[i] == ' ') {
                memcpy(name.bytes + name.n, SPACE_MARK, 3);
                name.n += 3;
            } else if (p->text[i] != '\n' || p->kind == PIECE_USER)
                /* hashtokenizer_write() has newlines around "<s>" */
                name.bytes[name.n++] = p->text[i];
        part->n = 0;
        put_bytes(part, 1, name.bytes, name.n);
        put_number(part, 2 * 8 + 5);
        memcpy(part->bytes + part->n, &score, sizeof score);
        part->n += sizeof score;
        if (id == t->pieces.unk || types[p->kind] != 1) /* 1 is the default */
            put_field(part, 3,
                      id == t->pieces.unk ? 2 : (uint64_t)types[p->kind]);
        put_bytes(&file, 1, part->bytes, part->n);
        ++*n;
    }
    part->n = 0;
    put_field(part, 3, 2); /* model_type BPE */
    if (change.message == 2)
        put_field(part, change.field, change.value);
    put_bytes(&file, 2, part->bytes, part->n);
    part->n = 0;
    put_bytes(part, 1, "identity", 8);
    put_field(part, 3, !change.no_prefix); /* add_dummy_prefix */
    put_field(part, 4, 0);                 /* remove_extra_whitespaces */
    if (change.message == 3 && change.field == 2)
        put_bytes(part, 2, "map", 3);
    else if (change.message == 3)
        put_field(part, change.field, change.value);
    put_bytes(&file, 3, part->bytes, part->n);
    put_bytes(&file, 4, "", 0); /* self_test_data */
    free(part);
    FILE *out = fopen(temporary("tokenizer.model"), "wb");
    if (!out || fwrite(file.bytes, 1, file.n, out) != file.n || fclose(out))
        abort();
    return temporary("tokenizer.model");
}

/* The vocabulary of the bundled model and of the test above, as a file of the
 * library. */
static void tokenizer_model_matches_the_library(void) {
    static const HashModel speaking = {16, 16, 1, 2, 1, 1600, 16, false, 9};
    static GgufFile file;
    for (int i = 0; i < 3; i++) {
        Model model;
        Tokenizer from, t;
        int n;
        if (i == 0) {
            CHECK(!model_open(&model, "models/stories.gguf") &&
                      gguf_read_tokenizer(&from, model.files,
                                          "models/stories.gguf",
                                          model.config.vocab_size, true) == 1,
                  "no tokenizer");
        } else {
            gguf_make(&file, &speaking, 0);
            gguf_add_tokenizer(&file, speaking.vocab_size, USER_PIECES,
                               N_USER_PIECES);
            CHECK(!gguf_reopen(&file, &model, &from), "does not open");
        }
        const char *path = write_model(&from, (Change){.no_bytes = i == 2}, &n);
        CHECK(!tokenizer_open_folder(&t, path, n), "case %d", i);
        CHECK(t.space_prefix == SPACE_ALWAYS && t.bos < 0 && !t.n_before &&
                  t.pieces.unk == 0,
              "case %d: unknown token %d", i, t.pieces.unk);
        match_as_the_library(&t);
        static const char *const names[] = {"stories", "user", "unknown"};
        check_golden_tokens(&t, names[i],
                            i == 2 ? VALID_TEXT_CHANGES : ALL_BYTES);
        tokenizer_close(&t);
        tokenizer_close(&from);
        model_close(&model);
    }
}

/* Appended to a sound file: what the library refuses, too, is refused. */
static void a_damaged_tokenizer_model_is_refused(void) {
#define LONG "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"
    static const struct {
        const char *bytes;
        size_t n;
        bool sound;
    } ends[] = {
        {"", 0, true},
        {"\xf8\x07\x01", 3, true},     /* field 127: 1 */
        {"\x22\x02\xff\xff", 4, true}, /* field 4: no message */
        {"\xf8\x07\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, true},
        {"\xf8\x07" LONG "\x01", 13, false}, /* more than 64 bits */
        {"\x1a\x02\x12\0", 4, true},         /* an empty precompiled_charsmap */
        /* a tag of each storage, and nothing after it */
        {"\x20", 1, false},
        {"\x21", 1, false},
        {"\x22", 1, false},
        {"\x23", 1, false},
        {"\x24", 1, false},
        {"\x25", 1, false},
        {"\x26", 1, false},
        {"\x27", 1, false},
        {"\xf8\x07", 2, false},          /* without its value */
        {"\x22\x03xx", 4, false},        /* 3 bytes, 2 left */
        {"\x22" LONG "\x01", 12, false}, /* more than 64 bits */
        {"\x00\x01", 2, false},          /* field 0 */
        {"\x21"
         "12345678",
         9, false}, /* storages 1, 3, 4, 6, 7 */
        {"\x23\x01", 2, false},
        {"\x24\x01", 2, false},
        {"\x26\x01", 2, false},
        {"\x27\x01", 2, false},
        {"\x1a\x02\x18\x80", 4, false}, /* inside a message */
        {"\x12\x02\x18\x80", 4, false},
        {"\x0a\x05\x0a\x02zz\x80", 7, false},
        {"\x0a\x09\x0a\x02zz\x15\0\0\0\0", 11, true}, /* a piece, its score */
        {"\x0a\x09\x0a\x02zz\x12\x03\0\0\0", 11, false}, /* of 3 bytes */
        {"\x0a\x0b\x0a\x02zz\x12\x05\0\0\0\0\0", 13, false},
        {"\x0a\x0a\x0a\x02zz\x12\x04\0\0\0\0", 12, true},
    };
    static const HashModel speaking = {16, 16, 1, 2, 1, 400, 16, false, 9};
    static GgufFile file;
    Tokenizer from, t;
    Model model;
    int n;
    gguf_make(&file, &speaking, 0);
    gguf_add_tokenizer(&file, speaking.vocab_size, NULL, 0);
    CHECK(!gguf_reopen(&file, &model, &from), "does not open");
    for (size_t i = 0; i < COUNT(ends); i++) {
        const char *path = write_model(&from, (Change){0}, &n);
        FILE *out = fopen(path, "ab");
        fwrite(ends[i].bytes, 1, ends[i].n, out);
        fclose(out);
        stderr_hide();
        int status = tokenizer_open_folder(&t, path, n + 1);
        stderr_show();
        CHECK(!status == ends[i].sound &&
                  (!status || strstr(stderr_text(), "or damaged")),
              "case %zu: %d, %s", i, status, stderr_text());
        if (!status)
            tokenizer_close(&t);
    }
    FILE *out = fopen(temporary("tokenizer.model"), "wb");
    fputs("\x12\x02\x18\x02\x1a\x02\x20", out); /* no pieces */
    fputc(0, out);
    fclose(out);
    stderr_hide();
    int status = tokenizer_open_folder(&t, temporary("tokenizer.model"), n);
    stderr_show();
    CHECK(status < 0 && strstr(stderr_text(), "or damaged"), "%s",
          stderr_text());
    CHECK(!truncate(temporary("tokenizer.model"), 0), "not empty");
    stderr_hide();
    status = tokenizer_open_folder(&t, temporary("tokenizer.model"), n);
    CHECK(stderr_show() == 1 && status < 0 && strstr(stderr_text(), "is empty"),
          "%s", stderr_text());
    CHECK(!truncate(temporary("tokenizer.model"), (1 << 28) + 1), "too large");
    stderr_hide();
    status = tokenizer_open_folder(&t, temporary("tokenizer.model"), n);
    CHECK(stderr_show() == 1 && status < 0 &&
              strstr(stderr_text(), "268435457 bytes, expected at most"),
          "%s", stderr_text());
    tokenizer_close(&from);
    model_close(&model);
}

/* tokenizer_config.json gives BOS and the spaces, as in transformers 5. */
static void tokenizer_config_completes_tokenizer_model(void) {
#define LLAMA "{\"tokenizer_class\":\"LlamaTokenizer\""
    static const struct {
        const char *config;
        int bos, n_before;
        SpacePrefix space;
    } cases[] = {
        {"{}", -1, 0, SPACE_ALWAYS},
        {"{\"bos_token\":\"<s>\"}", 1, 0, SPACE_ALWAYS},
        {"{\"bos_token\":\"<s>\",\"add_bos_token\":true}", 1, 1, SPACE_ALWAYS},
        {"{\"bos_token\":\"</s>\",\"add_bos_token\":true,\"legacy\":true}", 2,
         1, SPACE_ALWAYS},
        {"{\"legacy\":false}", -1, 0, SPACE_ONCE},
        {LLAMA "}", -1, 0, SPACE_ONCE},
        {LLAMA ",\"legacy\":true}", -1, 0, SPACE_IF_NONE},
        {LLAMA ",\"add_bos_token\":true,\"legacy\":false}", -1, 0, SPACE_ONCE},
        {LLAMA ",\"add_prefix_space\":false,\"legacy\":true}", -1, 0,
         SPACE_NEVER},
        {"{\"additional_special_tokens\":[\"ab\"]}", -1, 0, SPACE_ALWAYS},
    };
    static const HashModel speaking = {16, 16, 1, 2, 1, 400, 16, false, 9};
    static GgufFile file;
    Tokenizer from, t;
    Model model;
    int n;
    gguf_make(&file, &speaking, 0);
    gguf_add_tokenizer(&file, speaking.vocab_size, NULL, 0);
    CHECK(!gguf_reopen(&file, &model, &from), "does not open");
    write_model(&from, (Change){0}, &n);
    for (size_t i = 0; i < COUNT(cases); i++) {
        FILE *out = fopen(temporary("tokenizer_config.json"), "w");
        fputs(cases[i].config, out);
        fclose(out);
        CHECK(!tokenizer_open_folder(&t, temporary("tokenizer.model"), n),
              "case %zu", i);
        CHECK(t.bos == cases[i].bos && t.n_before == cases[i].n_before &&
                  (!t.n_before || *t.before == t.bos) &&
                  t.space_prefix == cases[i].space,
              "case %zu: BOS %d, %d before, space prefix %d", i, t.bos,
              t.n_before, t.space_prefix);
        int ab = pieces_find(&from.pieces, "ab", 2);
        CHECK(ab > 0 &&
                  t.pieces.list[ab].kind ==
                      (i == COUNT(cases) - 1 ? PIECE_SPECIAL : PIECE_TEXT),
              "case %zu: piece %d", i, ab);
        tokenizer_close(&t);
    }
    remove(temporary("tokenizer_config.json"));
    tokenizer_close(&from);
    model_close(&model);
}

/* Rules that change the tokens are refused by name, and damaged files. */
static void tokenizer_model_is_honoured_or_refused(void) {
    static const struct {
        Change change;
        const char *message; /* NULL: opens */
    } cases[] = {
        {{.no_prefix = true}, NULL},
        {{.message = 2, .field = 3, .value = 2}, NULL},
        {{.message = 2, .field = 3, .value = 1}, "model_type"},
        {{.message = 2, .field = 24, .value = 0}, NULL},
        {{.message = 2, .field = 24, .value = 1}, "treat_whitespace_as_suffix"},
        {{.message = 3, .field = 2}, "precompiled_charsmap"},
        {{.message = 3, .field = 4, .value = 1}, "remove_extra_whitespaces"},
        {{.message = 3, .field = 5, .value = 1}, NULL},
        {{.message = 3, .field = 5, .value = 0}, "escape_whitespaces"},
        {{.message = 3, .field = 900, .value = 1}, NULL},
        {{.message = 2, .field = 104, .value = 1}, NULL},
        {{.message = 2, .field = 102, .value = 1}, NULL},
    };
    Tokenizer from, t;
    Model model;
    static GgufFile file;
    static const HashModel speaking = {16, 16, 1, 2, 1, 400, 16, false, 9};
    int n;
    gguf_make(&file, &speaking, 0);
    gguf_add_tokenizer(&file, speaking.vocab_size, NULL, 0);
    CHECK(!gguf_reopen(&file, &model, &from), "does not open");
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *path = write_model(&from, cases[i].change, &n);
        stderr_hide();
        /* the embedding may have more rows */
        int status = tokenizer_open_folder(&t, path, n + (int)i),
            lines = stderr_show();
        CHECK(status == (cases[i].message ? -1 : 0) && lines == !!status,
              "case %zu: %s", i, stderr_text());
        CHECK(!status || strstr(stderr_text(), cases[i].message),
              "case %zu: %s", i, stderr_text());
        CHECK(status ||
                  t.space_prefix ==
                      (cases[i].change.no_prefix ? SPACE_NEVER : SPACE_ALWAYS),
              "case %zu: space prefix %d", i, t.space_prefix);
        if (!status)
            tokenizer_close(&t);
    }
    const char *path = write_model(&from, (Change){0}, &n);
    size_t size;
    char *whole = file_read(path, &size);
    stderr_hide();
    CHECK(tokenizer_open_folder(&t, path, n - 1) == -1, "one piece too many");
    int lines = stderr_show();
    CHECK(lines == 1 && strstr(stderr_text(), "more than the model's 399"),
          "%s", stderr_text());
    /* cut in a piece, in the rules, or between two fields: pieces alone have
     * no rules, and are not BPE */
    for (size_t cut = 1; cut < size; cut += cut < size - 40 ? 13 : 1) {
        FILE *out = fopen(path, "wb");
        fwrite(whole, 1, cut, out);
        fclose(out);
        stderr_hide();
        int status = tokenizer_open_folder(&t, path, n);
        lines = stderr_show();
        /* the fields of the end are the defaults of nothing but an empty one */
        CHECK(status == -1 || cut == size - 2, "cut at %zu of %zu", cut, size);
        CHECK(lines == !!status && (!status || strstr(stderr_text(), path)),
              "cut at %zu: %s", cut, stderr_text());
        if (!status)
            tokenizer_close(&t);
    }
    /* a changed byte is refused, or changes the tokenizer */
    for (size_t at = 0; at < size; at += at < 500 || at > size - 40 ? 1 : 17) {
        for (int bit = 0; bit < 8; bit += test_thorough() ? 1 : 3) {
            FILE *out = fopen(path, "wb");
            whole[at] ^= (char)(1 << bit);
            fwrite(whole, 1, size, out);
            fclose(out);
            whole[at] ^= (char)(1 << bit);
            stderr_hide();
            int status = tokenizer_open_folder(&t, path, n);
            lines = stderr_show();
            CHECK(lines == !!status, "byte %zu: %s", at, stderr_text());
            if (!status) {
                Tokens tokens;
                CHECK(!tokenizer_encode(&t, "ab <0x41>", 9, true, &tokens),
                      "byte %zu", at);
                free(tokens.ids);
                tokenizer_close(&t);
            }
        }
    }
    free(whole);
    tokenizer_close(&from);
    model_close(&model);
}

/* Whether the ids of the text are those listed, which end at -1. */
static bool gives(const Tokenizer *t, const char *text, const int *ids) {
    Tokens tokens;
    int n = 0;
    while (ids[n] >= 0)
        n++;
    if (tokenizer_encode(t, text, strlen(text), false, &tokens))
        return false;
    bool same = tokens.n == n &&
                (!n || !memcmp(tokens.ids, ids, (size_t)n * sizeof *ids));
    free(tokens.ids);
    return same;
}

/* Control pieces match the raw text; a space is inserted after them, as before
 * any text. */
static void control_pieces_match(void) {
    static const HashModel speaking = {16, 16, 1, 2, 1, 1600, 16, false, 9};
    static const GgufPiece control[] = {{"<|end|>", CONTROL},
                                        {"<0x0A>b", CONTROL}};
    static GgufFile file;
    Model model;
    Tokenizer t;
    gguf_make(&file, &speaking, 0);
    gguf_add_tokenizer(&file, speaking.vocab_size, control, 2);
    CHECK(!gguf_reopen(&file, &model, &t), "does not open");
    CHECK(gives(&t, "aa<|end|>ba\n</s>\n", (int[]){1030, 1598, 1031, 2, -1}),
          "between two words");
    CHECK(gives(&t, "<|end|><|end|>", (int[]){1598, 1598, -1}), "no text");
    tokenizer_close(&t);
    model_close(&model);
}

/* With a SentencePiece vocabulary U+2581 in a text is a space, as in the
 * library. In llama2.c it is not. */
static void a_space_mark_in_a_text_is_a_space(void) {
    static const HashModel speaking = {16, 16, 1, 2, 1, 1600, 16, false, 9};
    static const GgufPiece user = {"x" SPACE_MARK "y", USER_DEFINED};
    static GgufFile file;
    Model model;
    Tokenizer t;
    gguf_make(&file, &speaking, 0);
    gguf_add_tokenizer(&file, speaking.vocab_size, &user, 1);
    CHECK(!gguf_reopen(&file, &model, &t), "does not open");
    CHECK(gives(&t, "aa" SPACE_MARK "ba", (int[]){1030, 1031, -1}),
          "between two words");
    CHECK(gives(&t, SPACE_MARK "aa" SPACE_MARK, (int[]){259, 1030, 259, -1}),
          "at both ends");
    CHECK(gives(&t, SPACE_MARK SPACE_MARK, (int[]){259, 259, 259, -1}),
          "only U+2581");
    CHECK(gives(&t, "x" SPACE_MARK "y", (int[]){259, 1599, -1}),
          "in a user-defined piece");
    CHECK(gives(&t, "aa\xe2\x96\x82" SPACE_MARK "x y",
                (int[]){1030, 229, 153, 133, 259, 1599, -1}),
          "U+2582 is not a space");
    tokenizer_close(&t);
    model_close(&model);
    hashtokenizer_write(temporary("tokenizer.bin"), 1600);
    CHECK(!tokenizer_open_bin(&t, temporary("tokenizer.bin"), 1600),
          "does not open");
    CHECK(
        gives(&t, "aa" SPACE_MARK "ba", (int[]){1030, 229, 153, 132, 355, -1}),
        "in a tokenizer.bin");
    tokenizer_close(&t);
}

/* ---- the table ---------------------------------------------------------- */

enum { N_PIECES = 60, MAX_LETTERS = 5 };

/* Random pieces of four letters, including bytes 0 and 255, of random kinds,
 * with duplicates. */
static void random_pieces(Pieces *p, uint64_t round) {
    static const char letters[] = {'a', 'b', '\0', '\xff'};
    *p = (Pieces){.unk = -1, .byte_level = true};
    p->texts[p->n_texts++] = malloc((size_t)N_PIECES * MAX_LETTERS);
    if (pieces_open(p, N_PIECES) || !*p->texts)
        abort();
    for (int id = 0; id < N_PIECES; id++) {
        uint64_t bits = hash64(77, round, (uint64_t)id);
        char *text = *p->texts + (size_t)id * MAX_LETTERS;
        for (int i = 0; i < MAX_LETTERS; i++)
            text[i] = letters[bits >> (8 + 2 * i) & 3];
        p->list[id] = (Piece){.text = text,
                              .length = (int)(bits % (MAX_LETTERS + 1)),
                              .kind = (PieceKind)(bits >> 32 & 3),
                              .also_merged = (bits >> 40) & 1,
                              .raw = (bits >> 41) & 1};
        /* byte pieces have names, which this test does not make */
        if (p->list[id].kind == PIECE_BYTE)
            p->list[id].kind = PIECE_CONTROL;
    }
    if (pieces_index(p))
        abort();
}

static bool starts(const Piece *p, const char *s, int left) {
    return p->length <= left && !memcmp(p->text, s, (size_t)p->length);
}

/* Linear search; of pieces with the same text only the first counts. */
static int match_naively(const Pieces *p, const char *s, int left, bool raw) {
    int best = -1;
    for (int id = p->n - 1; id >= 0; id--) {
        const Piece *x = &p->list[id];
        if (!x->length || (x->kind != PIECE_USER && x->kind != PIECE_SPECIAL) ||
            !starts(x, s, left))
            continue;
        if (best < 0 || x->length >= p->list[best].length)
            best = id;
    }
    /* if the longest piece has another `raw`, a shorter piece may match */
    while (best >= 0 && p->list[best].raw != raw) {
        int length = p->list[best].length;
        best = length > 1 ? match_naively(p, s, length - 1, raw) : -1;
    }
    return best;
}

static int find_naively(const Pieces *p, const char *s, int n) {
    for (int id = 0; id < p->n; id++)
        if ((p->list[id].kind == PIECE_TEXT || p->list[id].also_merged) &&
            p->list[id].length == n && starts(&p->list[id], s, n))
            return p->list[id].kind == PIECE_CONTROL ? -1 : id;
    return -1;
}

static void lookup_matches_a_linear_search(void) {
    int matches = 0, found = 0;
    for (uint64_t round = 0; round < (test_fast() ? 20 : 300); round++) {
        Pieces p;
        random_pieces(&p, round);
        for (int at = 0; at < N_PIECES * MAX_LETTERS; at++) {
            const char *s = *p.texts + at;
            int left = N_PIECES * MAX_LETTERS - at < 7
                           ? N_PIECES * MAX_LETTERS - at
                           : 7;
            for (int raw = 0; raw < 2; raw++) {
                int id = pieces_match(&p, s, (size_t)left, raw),
                    expected = match_naively(&p, s, left, raw);
                CHECK(id == expected,
                      "round %d, byte %d: match %d, expected %d", (int)round,
                      at, id, expected);
                matches += id >= 0;
            }
            for (int n = 1; n <= left; n++) {
                int id = pieces_find(&p, s, n),
                    expected = find_naively(&p, s, n);
                CHECK(id == expected,
                      "round %d, byte %d: found %d, expected %d", (int)round,
                      at, id, expected);
                found += id >= 0;
            }
        }
        pieces_close(&p);
    }
    CHECK(matches > 1000 && found > 1000, "%d matches, %d found", matches,
          found);
}

/* If only names are given, "<0x4A>" is the name of a byte. */
static void byte_pieces_are_recognized_by_name(void) {
    static const struct {
        const char *name;
        int length, byte;
    } cases[] = {{"<0x4A>", 6, 0x4a},  {"<0x4G>", 6, -1},   {"<0xG4>", 6, -1},
                 {"<0x4a>", 6, -1},    {"<0x4A]", 6, -1},   {"<0X4A>", 6, -1},
                 {"<0x4A", 5, -1},     {"<0x4A>>", 7, -1},  {"<0x4\0>", 6, -1},
                 {"<0x\0004>", 6, -1}, {"<0xFF>", 6, 0xff}, {"<0x00>", 6, 0}};
    enum { N = sizeof cases / sizeof *cases };
    Pieces p = {.unk = -1};
    CHECK(!pieces_open(&p, N), "no memory");
    for (int id = 0; id < N; id++)
        p.list[id] = (Piece){.text = cases[id].name,
                             .length = cases[id].length,
                             .kind = PIECE_TEXT};
    CHECK(!pieces_index(&p), "no memory");
    for (int id = 0; id < N; id++) {
        const Piece *piece = &p.list[id];
        CHECK((piece->kind == PIECE_BYTE) == (cases[id].byte >= 0),
              "%s: kind %d", cases[id].name, piece->kind);
        if (cases[id].byte < 0)
            continue;
        CHECK(piece->n_decoded == 1 &&
                  (uint8_t)*piece->decoded == cases[id].byte,
              "%s is byte %d", cases[id].name, (uint8_t)*piece->decoded);
        CHECK(p.byte_piece[cases[id].byte] == id &&
                  pieces_find(&p, piece->text, piece->length) < 0,
              "%s merges", cases[id].name);
    }
    pieces_close(&p);
}

/* The bytes of the names of a byte-level vocabulary; NULL: not such a name, and
 * the piece matches no text. */
static void names_of_bytes_are_decoded(void) {
    static const struct {
        const char *name, *bytes;
    } cases[] = {
        {"a", "a"},
        {"\xc4\xa0"
         "a",
         " a"},               /* U+0120 */
        {"\xc4\x80", "\0"},   /* U+0100 */
        {"\xc5\x83", "\xad"}, /* U+0143, the last name */
        {"\xc3\xbf\xc2\xa1", "\xff\xa1"},
        {"\xc5\x84", NULL}, /* U+0144 */
        {"a\xc2\xad",
         NULL}, /* U+00AD, U+00A0, a space, U+007F: not names of bytes */
        {"\xc2\xa0", NULL},
        {" ", NULL},
        {"\x7f", NULL},
        {"\xe2\x96\x81",
         NULL}, /* characters of three and four bytes, the empty name */
        {"\xf0\x9f\x99\x82", NULL},
        {"a\xff", NULL},
        {"\xc4", NULL}};
    enum { N = sizeof cases / sizeof *cases };
    Pieces p = {.unk = -1, .byte_level = true};
    p.texts[p.n_texts++] = malloc((size_t)N * 8);
    CHECK(!pieces_open(&p, N) && *p.texts, "no memory");
    for (int id = 0; id < N; id++) {
        char *text = *p.texts + 8 * id;
        p.list[id] =
            (Piece){.text = strcpy(text, cases[id].name), .kind = PIECE_TEXT};
        p.list[id].length = (int)strlen(text);
    }
    pieces_decode_names(&p);
    for (int id = 0; id < N; id++) {
        const Piece *piece = &p.list[id];
        bool named = piece->kind == PIECE_TEXT;
        CHECK(named == (cases[id].bytes != NULL) &&
                  (named || piece->kind == PIECE_CONTROL),
              "case %d: kind %d", id, piece->kind);
        const char *expected = named ? cases[id].bytes : cases[id].name;
        int n = named && !*expected ? 1 : (int)strlen(expected);
        CHECK(piece->length == n && !memcmp(piece->text, expected, (size_t)n),
              "case %d: '%.*s'", id, piece->length, piece->text);
    }
    pieces_close(&p);
}

/* In a byte-level vocabulary a byte becomes its piece or, without one,
 * <unk>. */
static void bytes_of_a_byte_level_vocabulary(void) {
    enum { N = 256, UNK = 77 };
    Pieces p = {.unk = UNK, .byte_level = true};
    p.texts[p.n_texts++] = malloc(N);
    CHECK(!pieces_open(&p, N) && *p.texts, "no memory");
    for (int id = 0; id < N; id++) {
        (*p.texts)[id] = (char)(N - 1 - id);
        p.list[id] = (Piece){.text = *p.texts + id,
                             .length = 1,
                             .kind = id == 9 ? PIECE_CONTROL : PIECE_TEXT};
    }
    CHECK(!pieces_index(&p), "no memory");
    for (int byte = 0; byte < N; byte++) {
        int expected = byte == N - 1 - 9 ? UNK : N - 1 - byte;
        CHECK(p.byte_piece[byte] == expected,
              "byte %d is piece %d, expected %d", byte, p.byte_piece[byte],
              expected);
    }
    pieces_close(&p);
    CHECK(!p.list && !*p.texts && !p.n, "not closed");
}

/* A table on external text allocates no memory for it; an empty table matches
 * nothing. */
static void a_table_begins_empty(void) {
    Pieces p = {.unk = -1};
    CHECK(!pieces_open(&p, 3), "no memory");
    CHECK(p.n == 3 && !*p.texts, "%d pieces, with text or without", p.n);
    for (int id = 0; id < 3; id++)
        CHECK(p.list[id].kind == PIECE_CONTROL && !p.list[id].length &&
                  p.list[id].text,
              "piece %d", id);
    CHECK(!pieces_index(&p) && pieces_find(&p, "a", 1) == -1 &&
              pieces_match(&p, "a", 1, false) == -1,
          "finds one");
    pieces_close(&p);
}

/* Only a complete U+2581 is a space. */
static void spaces_are_unmarked(void) {
    char s[] = "\xe2\x96\x82" SPACE_MARK "x" SPACE_MARK
               "\xe2\x97\x81" SPACE_MARK "\xe2\x96";
    static const char expected[] = "\xe2\x96\x82 x \xe2\x97\x81 \xe2\x96";
    int n = unmark_spaces(s, (int)sizeof s - 1);
    CHECK(n == (int)sizeof expected - 1 && !memcmp(s, expected, (size_t)n),
          "%d bytes: %.*s", n, n, s);
}

void suite_pieces(void) {
    TEST(stories_matches_the_library);
    TEST(llama_2_matches_the_library);
    TEST(user_defined_pieces_match_as_in_the_library);
    TEST(pieces_of_other_types_match_nothing);
    TEST(texts_end_where_llama_cpp_ends_them);
    TEST(tokenizer_model_matches_the_library);
    TEST(a_damaged_tokenizer_model_is_refused);
    TEST(tokenizer_config_completes_tokenizer_model);
    TEST(tokenizer_model_is_honoured_or_refused);
    TEST(control_pieces_match);
    TEST(a_space_mark_in_a_text_is_a_space);
    TEST(lookup_matches_a_linear_search);
    TEST(byte_pieces_are_recognized_by_name);
    TEST(names_of_bytes_are_decoded);
    TEST(bytes_of_a_byte_level_vocabulary);
    TEST(a_table_begins_empty);
    TEST(spaces_are_unmarked);
}
