/* gguf_tokenizer.c: reads the tokenizer in a GGUF file.
 *
 * Owns the metadata keys under tokenizer: pieces, scores or merges, pre-tokenizer, BOS and EOS.
 */
#include "formats/gguf.h"
#include "formats/stored.h"
#include "text/merges.h"
#include "text/pieces.h"
#include <limits.h>
#include <math.h>
#include <string.h>

typedef struct {
    Tokenizer *t;
    const Gguf *g;
    Origin origin;
    int n; /* size of the model's vocabulary */
} Loader;

typedef enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE } TokenType;

/* Finds an array with one element for each piece. Returns NULL and a message if the key is missing or has another type
 * or length. */
static const GgufValue *piece_array(const Gguf *g, const char *key, GgufType type, int n) {
    const GgufValue *v = gguf_find_value(g, key);
    if (v && v->is_array && v->type == type && v->count == (uint64_t)n) return v;
    fail("%s: %s is missing or not an array of %d values", g->path, key, n);
    return NULL;
}

static int fill_pieces(Pieces *pieces, const Gguf *g, int n) {
    const GgufValue *names = piece_array(g, "tokenizer.ggml.tokens", GGUF_STRING, n), *scores = NULL;
    if (names && !pieces->byte_level && !(scores = piece_array(g, "tokenizer.ggml.scores", GGUF_F32, n))) return -1;
    const GgufValue *types = names ? piece_array(g, "tokenizer.ggml.token_type", GGUF_I32, n) : NULL;
    if (!types || pieces_open(pieces, n, names->bytes)) return -1;
    const uint8_t *at = names->at;
    char *to = pieces->text;
    for (int id = 0; id < n; id++) {
        const String name = gguf_next_string(&at, names->at + names->bytes);
        Piece *p = &pieces->list[id];
        int32_t type;
        memcpy(&type, types->at + 4 * (size_t)id, sizeof type);
        if (scores) memcpy(&p->score, scores->at + 4 * (size_t)id, sizeof p->score);
        p->kind = type == USER_DEFINED             ? PIECE_USER
                  : type == CONTROL                ? PIECE_SPECIAL
                  : type == NORMAL || type == BYTE ? PIECE_TEXT /* byte pieces are found by their names */
                                                   : PIECE_CONTROL;
        p->raw = pieces->byte_level || type == CONTROL;
        if (name.n > INT_MAX) return fail("%s: piece %d has %zu bytes", g->path, id, name.n);
        if (isnan(p->score)) return fail("%s: score of piece %d is not a number", g->path, id);
        memcpy(to, name.text, name.n);
        p->text = to;
        p->length = pieces->byte_level ? (int)name.n : unmark_spaces(to, (int)name.n);
        to += p->length;
    }
    return 0;
}

static int fill_merges(Tokenizer *t, const Gguf *g) {
    const GgufValue *merges = gguf_find_value(g, "tokenizer.ggml.merges");
    if (!merges || !merges->is_array || merges->type != GGUF_STRING)
        return fail("%s: tokenizer.ggml.merges is missing or not an array of strings", g->path);
    if (merges_begin(&t->merges, &t->pieces, merges->count)) return -1;
    const uint8_t *at = merges->at;
    for (uint64_t i = 0; i < merges->count; i++) {
        const String pair = gguf_next_string(&at, merges->at + merges->bytes);
        if (merges_add(&t->merges, &t->pieces, g->path, pair.text, pair.n)) return -1;
    }
    return merges_end(&t->merges, &t->pieces);
}

static Value get(const Loader *l, const char *key) { return gguf_get(l->g, key); }

/* Reads a token id. `missing`: the result if the key is missing; may be -1. */
static int get_token(Loader *l, const char *key, int missing) {
    return (int)value_integer(&l->origin, key, get(l, key), 0, l->n - 1, missing < l->n ? missing : REQUIRED);
}

/* Reads a bool, or an integer as a bool. */
static bool get_flag(Loader *l, const char *key, bool missing) {
    return value_integer(&l->origin, key, get(l, key), INT64_MIN, INT64_MAX, missing) != 0;
}

static String get_string(Loader *l, const char *key) { return value_string(&l->origin, key, get(l, key)); }

/* Reads the keys that both kinds of vocabulary have: BOS, EOS, <unk>, the chat template, the sampling. */
static int fill_ends(Loader *l) {
    static const char *const advice[N_ADVICE] = {"general.sampling.temp", "general.sampling.top_p",
                                                 "general.sampling.top_k", "general.sampling.min_p",
                                                 "general.sampling.penalty_repeat"};
    Tokenizer *t = l->t;
    for (int i = 0; i < N_ADVICE; i++) {
        const Value v = get(l, advice[i]);
        t->advice[i] = (Advice){v.kind == VALUE_INTEGER || v.kind == VALUE_REAL, v.real};
    }
    t->bos = get_token(l, "tokenizer.ggml.bos_token_id", t->bos);
    t->eos = get_token(l, "tokenizer.ggml.eos_token_id", t->eos);
    t->eot = get_token(l, "tokenizer.ggml.eot_token_id", t->eot);
    t->pieces.unk = get_token(l, "tokenizer.ggml.unknown_token_id", t->pieces.unk);
    t->no_bos = !get_flag(l, "tokenizer.ggml.add_bos_token", !t->no_bos) || t->bos < 0;
    const String template = get_string(l, "tokenizer.chat_template");
    if (l->origin.status || get(l, "tokenizer.chat_template").kind == VALUE_MISSING) return l->origin.status;
    return tokenizer_set_chat_template(t, template.text, template.n);
}

/* If add_bos_token is missing, Llama 3's and Mistral's byte-level tokenizers add BOS before a text, others do not.
 * `named`: NULL for a SentencePiece vocabulary. */
static int fill(Loader *l, const NamedPretokenizer *named) {
    static const char key[] = "norma.tokenizer.normalizer"; /* norma's own key: GGUF has no standard one */
    const String normalizer = named ? get_string(l, key) : (String){0};
    const bool scores = !named;
    Tokenizer *t = l->t;
    *t = (Tokenizer){.bos = scores ? 1 : -1, .eos = scores ? 2 : -1, .eot = -1, .space_prefix = SPACE_NEVER};
    t->pieces = (Pieces){.unk = scores ? 0 : -1, .byte_level = !scores};
    t->normalizer = (Normalizer){.composes = normalizer.n, .replaces_invalid = scores, .replaces_mark = scores};
    if (named) t->pretokenizer = named->pretokenizer;
    t->no_bos = named && !named->adds_bos;
    if (normalizer.n && !string_is(normalizer, "nfc")) refuse(&l->origin, key, get(l, key), "nfc");
    if (l->origin.status || fill_pieces(&t->pieces, l->g, l->n) || (named && fill_merges(t, l->g)) || fill_ends(l))
        return -1;
    if (scores && get_flag(l, "tokenizer.ggml.add_space_prefix", true)) t->space_prefix = SPACE_ALWAYS;
    return l->origin.status || (scores && pieces_index(&t->pieces)) ? -1 : 1;
}

static int read_tokenizer(Loader *l, bool needed) {
    static const char pre_key[] = "tokenizer.ggml.pre";
    const String model = get_string(l, "tokenizer.ggml.model");
    String pre = get_string(l, pre_key);
    if (l->origin.status) return -1;
    if (string_is(model, "llama")) return fill(l, NULL);
    const bool byte_level = string_is(model, "gpt2");
    if (byte_level && (!pre.n || string_is(pre, "default"))) {
        note("%s does not name its pre-tokenizer (%s): GPT-2's is used", l->g->path, pre_key);
        pre = (String){"gpt-2", 5};
    }
    char name[64];
    snprintf(name, sizeof name, " %.*s ", (int)(pre.n < 60 ? pre.n : 0), pre.text);
    for (const NamedPretokenizer *p = PRETOKENIZERS; byte_level && p->names; p++)
        if (strstr(p->names, name)) return fill(l, p);
    if (!needed) return 0;
    return fail("%s: %s '%.*s' is not supported; use --tokens", l->g->path, byte_level ? pre_key : "tokenizer of kind",
                SHOWN(byte_level ? pre : model));
}

int gguf_read_tokenizer(Tokenizer *t, const File *file, const char *path, int vocab_size, bool needed) {
    Gguf g;
    *t = (Tokenizer){.bos = -1, .eos = -1, .eot = -1};
    Loader l = {.t = t, .g = &g, .origin = {.path = path}, .n = vocab_size};
    const int found = gguf_open(&g, path, file) ? -1 : read_tokenizer(&l, needed);
    gguf_close(&g);
    if (found < 0) tokenizer_close(t);
    return found;
}
