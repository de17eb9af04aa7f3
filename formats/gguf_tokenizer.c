/* gguf_tokenizer.c: the tokenizer in a GGUF file.
 *
 * Owns the metadata keys under tokenizer: pieces, scores or merges, pre-tokenizer,
 * BOS and EOS. The container is gguf_file.c's.
 */
#include "formats/gguf_tokenizer.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/gguf_file.h"
#include "text/pieces.h"
#include "text/pretokenize.h"
#include "tokenizer.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE } TokenType;

/* An array of the tokenizer with one element for each piece; NULL and a message
 * if it is not that. */
static const GgufValue *piece_array(const Gguf *g, const char *key, GgufType type, int n) {
    const GgufValue *v = gguf_find_value(g, key);
    if (v && v->is_array && v->type == type && v->count == (uint64_t)n) return v;
    fail("%s: metadata key %s is missing or no array of %d values", g->path, key, n);
    return NULL;
}

/* In a SentencePiece vocabulary control pieces never match text; in a byte-level one they do, as in Hugging Face's. */
static PieceKind kind_of(int32_t type, bool byte_level) {
    if (type == USER_DEFINED) return PIECE_USER;
    if (type == NORMAL || type == BYTE) return PIECE_TEXT; /* bytes are told apart by their name */
    return type == CONTROL && byte_level ? PIECE_SPECIAL : PIECE_CONTROL;
}

/* Scores may be NULL. */
static int fill_piece(Tokenizer *t, const Gguf *g, int id, GgufString text, const GgufValue *scores,
                      const GgufValue *types) {
    Piece *p = &t->pieces[id];
    int32_t type;
    if (text.n > INT_MAX) return fail("%s: piece %d has %zu bytes", g->path, id, text.n);
    memcpy(&type, types->at + 4 * (size_t)id, sizeof type);
    *p = (Piece){.length = (int)text.n, .kind = kind_of(type, t->byte_level), .raw = t->byte_level};
    if (scores) memcpy(&p->score, scores->at + 4 * (size_t)id, sizeof p->score);
    if (isnan(p->score)) return fail("%s: score of piece %d is not a number", g->path, id);
    if ((p->kind == PIECE_USER || p->kind == PIECE_SPECIAL) && text.n > MOST_USER_BYTES)
        return fail("%s: %s piece %d has %zu bytes, expected at most %d", g->path,
                    p->kind == PIECE_USER ? "user-defined" : "control", id, text.n, MOST_USER_BYTES);
    return 0;
}

static int fill_pieces(Tokenizer *t, const Gguf *g, int vocab_size) {
    const GgufValue *texts = piece_array(g, "tokenizer.ggml.tokens", GGUF_STRING, vocab_size), *scores = NULL;
    if (texts && !t->byte_level && !(scores = piece_array(g, "tokenizer.ggml.scores", GGUF_F32, vocab_size))) return -1;
    const GgufValue *types = texts ? piece_array(g, "tokenizer.ggml.token_type", GGUF_I32, vocab_size) : NULL;
    if (!types) return -1;
    t->pieces = allocate((size_t)vocab_size, sizeof *t->pieces);
    t->text = allocate(texts->bytes, 1);
    if (!t->pieces || !t->text) return -1;
    Gguf cursor = *g;
    cursor.at = (size_t)(texts->at - g->data);
    char *to = t->text;
    for (int i = 0; i < vocab_size; i++) {
        GgufString text = {"", 0};
        Piece *p = &t->pieces[i];
        *p = (Piece){0};
        if (gguf_read_string(&cursor, &text) || fill_piece(t, g, i, text, scores, types)) return -1;
        memcpy(to, text.text, text.n);
        if (!t->byte_level) p->length = piece_unmark(to, p->length);
        p->text = to;
        to += p->length;
        if (p->length > t->max_length) t->max_length = p->length;
    }
    t->n_pieces = vocab_size;
    return 0;
}

/* Where texts are cut; -1: norma does not know, and has said nothing. */
static int find_pretokenizer(Tokenizer *t, const Gguf *g, GgufString name) {
    if (name.n && !gguf_string_is(name, "default")) return pretokenizer_of_name(name.text, name.n, &t->pretokenizer);
    fprintf(stderr, "note: %s does not say where texts are cut (tokenizer.ggml.pre): as by GPT-2\n", g->path);
    return pretokenizer_of_name("gpt-2", 5, &t->pretokenizer);
}

static int fill_merges(Tokenizer *t, const Gguf *g) {
    const GgufValue *merges = gguf_find_value(g, "tokenizer.ggml.merges");
    if (!merges || !merges->is_array || merges->type != GGUF_STRING)
        return fail("%s: metadata key tokenizer.ggml.merges is missing or no array of strings", g->path);
    if (bpe_begin(t, merges->count)) return -1;
    Gguf cursor = *g;
    cursor.at = (size_t)(merges->at - g->data);
    for (uint64_t i = 0; i < merges->count; i++) {
        GgufString pair = {0};
        if (gguf_read_string(&cursor, &pair) || bpe_add(t, g->path, pair.text, pair.n)) return -1;
    }
    return bpe_end(t);
}

/* A token, where the key is there. */
static int get_id(const Gguf *g, const char *key, int vocab_size, int *id) {
    int64_t wide = *id;
    if (!gguf_find_value(g, key)) return *id < vocab_size ? 0 : fail("%s: metadata key %s is missing", g->path, key);
    if (gguf_get_integer(g, key, &wide)) return -1;
    if (wide < 0 || wide >= vocab_size)
        return fail("%s: metadata key %s is %lld, expected a token below %d", g->path, key, (long long)wide,
                    vocab_size);
    *id = (int)wide;
    return 0;
}

/* What is there whatever the vocabulary is. */
static int fill_ends(Tokenizer *t, const Gguf *g, int vocab_size) {
    int64_t add_bos = !t->no_bos;
    GgufString template = {0};
    if (get_id(g, "tokenizer.ggml.bos_token_id", vocab_size, &t->bos) ||
        get_id(g, "tokenizer.ggml.eos_token_id", vocab_size, &t->eos) ||
        get_id(g, "tokenizer.ggml.eot_token_id", vocab_size, &t->eot) ||
        get_id(g, "tokenizer.ggml.unknown_token_id", vocab_size, &t->unk) ||
        gguf_get_integer(g, "tokenizer.ggml.add_bos_token", &add_bos) ||
        gguf_get_string(g, "tokenizer.chat_template", &template))
        return -1;
    t->no_bos = !add_bos || t->bos < 0;
    t->chat_template = template.text;
    t->chat_template_size = template.n;
    return 0;
}

static int fill_sentencepiece(Tokenizer *t, const Gguf *g, int vocab_size) {
    int64_t add_space = 1;
    *t = (Tokenizer){.bos = 1, .eos = 2, .eot = -1, .unk = 0, .replaces_invalid = true};
    if (fill_pieces(t, g, vocab_size) || fill_ends(t, g, vocab_size) ||
        gguf_get_integer(g, "tokenizer.ggml.add_space_prefix", &add_space))
        return -1;
    t->no_space_prefix = !add_space;
    return tokenizer_index(t);
}

/* BOS is put in front if the file says so; Llama 3's files may leave it out. */
static int fill_byte_level(Tokenizer *t, const Gguf *g, int vocab_size) {
    GgufString normalizer = {"", 0}; /* norma's own key: GGUF has no word for it */
    if (gguf_get_string(g, "norma.tokenizer.normalizer", &normalizer)) return -1;
    if (normalizer.n && !gguf_string_is(normalizer, "nfc"))
        return fail("%s: norma.tokenizer.normalizer is '%.*s', expected nfc", g->path, SHOWN(normalizer));
    t->composes = normalizer.n > 0;
    if (fill_pieces(t, g, vocab_size) || fill_merges(t, g)) return -1;
    t->no_bos = !t->pretokenizer.whole_words;
    return fill_ends(t, g, vocab_size);
}

static int read_tokenizer(Tokenizer *t, const Gguf *g, int vocab_size, bool needed) {
    GgufString model = {"", 0}, pre = {"", 0};
    if (gguf_get_string(g, "tokenizer.ggml.model", &model) || gguf_get_string(g, "tokenizer.ggml.pre", &pre)) return -1;
    if (gguf_string_is(model, "llama")) return fill_sentencepiece(t, g, vocab_size) ? -1 : 1;
    const bool byte_level = gguf_string_is(model, "gpt2");
    *t = (Tokenizer){.bos = -1, .eos = -1, .eot = -1, .unk = -1, .byte_level = true, .no_space_prefix = true};
    if (byte_level && !find_pretokenizer(t, g, pre)) return fill_byte_level(t, g, vocab_size) ? -1 : 1;
    if (!needed) return 0;
    return byte_level
               ? fail("%s: tokenizer.ggml.pre is '%.*s', which norma does not know; use --tokens", g->path, SHOWN(pre))
               : fail("%s: the tokenizer is of kind '%.*s', which norma does not read; use --tokens", g->path,
                      SHOWN(model));
}

int gguf_read_tokenizer(Tokenizer *t, const File *file, const char *path, int vocab_size, bool needed) {
    Gguf g;
    *t = (Tokenizer){.bos = -1, .eos = -1, .eot = -1};
    const int found = gguf_open(&g, path, file) ? -1 : read_tokenizer(t, &g, vocab_size, needed);
    gguf_close(&g);
    if (found < 0) tokenizer_close(t);
    return found;
}
