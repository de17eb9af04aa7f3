/* gguf_tokenizer.c: the tokenizer in a GGUF file.
 *
 * Owns the metadata keys under tokenizer: pieces, scores or merges, pre-tokenizer, BOS and EOS.
 */
#include "formats/gguf.h"
#include "text/merges.h"
#include "text/pieces.h"
#include <limits.h>
#include <math.h>
#include <string.h>

typedef enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE } TokenType;

/* An array with one element for each piece; NULL and a message if it is not that. */
static const GgufValue *piece_array(const Gguf *g, const char *key, GgufType type, int n) {
    const GgufValue *v = gguf_find_value(g, key);
    if (v && v->is_array && v->type == type && v->count == (uint64_t)n) return v;
    bad_key(g, key, "is missing or no array of %d values", n);
    return NULL;
}

/* In a SentencePiece vocabulary control pieces never match text; in a byte-level one they do, as in Hugging Face's. */
static PieceKind kind_of(int32_t type, bool byte_level) {
    if (type == USER_DEFINED) return PIECE_USER;
    if (type == NORMAL || type == BYTE) return PIECE_TEXT; /* bytes are told apart by their name */
    return type == CONTROL && byte_level ? PIECE_SPECIAL : PIECE_CONTROL;
}

static int fill_pieces(Pieces *pieces, const Gguf *g, int n) {
    const GgufValue *names = piece_array(g, "tokenizer.ggml.tokens", GGUF_STRING, n), *scores = NULL;
    if (names && !pieces->byte_level && !(scores = piece_array(g, "tokenizer.ggml.scores", GGUF_F32, n))) return -1;
    const GgufValue *types = names ? piece_array(g, "tokenizer.ggml.token_type", GGUF_I32, n) : NULL;
    if (!types || pieces_open(pieces, n, names->bytes)) return -1;
    const uint8_t *at = names->at;
    char *to = pieces->text;
    for (int id = 0; id < n; id++) {
        const GgufString name = gguf_next_string(&at, names->at + names->bytes);
        Piece *p = &pieces->list[id];
        int32_t type;
        memcpy(&type, types->at + 4 * (size_t)id, sizeof type);
        if (scores) memcpy(&p->score, scores->at + 4 * (size_t)id, sizeof p->score);
        p->kind = kind_of(type, pieces->byte_level);
        p->raw = pieces->byte_level;
        if (name.n > INT_MAX) return fail("%s: piece %d has %zu bytes", g->path, id, name.n);
        if (isnan(p->score)) return fail("%s: score of piece %d is not a number", g->path, id);
        if ((p->kind == PIECE_USER || p->kind == PIECE_SPECIAL) && name.n > MOST_MATCHED_BYTES)
            return fail("%s: %s piece %d has %zu bytes, expected at most %d", g->path,
                        p->kind == PIECE_USER ? "user-defined" : "control", id, name.n, MOST_MATCHED_BYTES);
        memcpy(to, name.text, name.n);
        p->text = to;
        p->length = pieces->byte_level ? (int)name.n : unmark_spaces(to, (int)name.n);
        to += p->length;
    }
    return 0;
}

/* Pre-tokenizers by their names in tokenizer.ggml.pre; the first name is the one to write. */
static const struct {
    const char *names[4];
    Pretokenizer pretokenizer;
} PRETOKENIZERS[] = {
    {{"gpt-2", "mpt", "olmo", "jais"}, {.steps = {PATTERN_GPT2}, .n_steps = 1}},
    {{"smollm", "starcoder", "refact", "command-r"}, {.steps = {PATTERN_DIGIT, PATTERN_GPT2}, .n_steps = 2}},
    {{"qwen2", "stablelm2", "deepseek-r1-qwen"}, {.steps = {PATTERN_QWEN2}, .n_steps = 1}},
    {{"llama-bpe", "llama-v3", "llama3"}, {.steps = {PATTERN_LLAMA3}, .n_steps = 1, .whole_words = true}},
    {{"dbrx", "smaug-bpe"}, {.steps = {PATTERN_LLAMA3}, .n_steps = 1}},
};
enum { N_PRETOKENIZERS = sizeof PRETOKENIZERS / sizeof *PRETOKENIZERS };

/* NULL: norma does not know the name. */
static const Pretokenizer *find_pretokenizer(GgufString name) {
    for (int i = 0; i < N_PRETOKENIZERS; i++)
        for (int k = 0; k < 4 && PRETOKENIZERS[i].names[k]; k++)
            if (gguf_string_is(name, PRETOKENIZERS[i].names[k])) return &PRETOKENIZERS[i].pretokenizer;
    return NULL;
}

const char *gguf_pretokenizer_name(const Pretokenizer *p) {
    for (int i = 0; i < N_PRETOKENIZERS; i++) {
        const Pretokenizer *q = &PRETOKENIZERS[i].pretokenizer;
        if (q->n_steps == p->n_steps && q->whole_words == p->whole_words &&
            !memcmp(q->steps, p->steps, sizeof *q->steps * (size_t)q->n_steps))
            return PRETOKENIZERS[i].names[0];
    }
    return NULL;
}

static int fill_merges(Tokenizer *t, const Gguf *g) {
    const GgufValue *merges = gguf_find_value(g, "tokenizer.ggml.merges");
    if (!merges || !merges->is_array || merges->type != GGUF_STRING)
        return bad_key(g, "tokenizer.ggml.merges", "is missing or no array of strings");
    if (merges_begin(&t->merges, &t->pieces, merges->count)) return -1;
    const uint8_t *at = merges->at;
    for (uint64_t i = 0; i < merges->count; i++) {
        const GgufString pair = gguf_next_string(&at, merges->at + merges->bytes);
        if (merges_add(&t->merges, &t->pieces, g->path, pair.text, pair.n)) return -1;
    }
    return merges_end(&t->merges, &t->pieces);
}

/* Reads a token; where the key is missing, *id stays, which must be a token or -1. */
static int get_id(const Gguf *g, const char *key, int vocab_size, int *id) {
    int64_t wide = *id;
    if (!gguf_find_value(g, key)) return *id < vocab_size ? 0 : bad_key(g, key, "is missing");
    if (gguf_get(g, key, KEY_INTEGER, &wide)) return -1;
    if (wide < 0 || wide >= vocab_size)
        return bad_key(g, key, "is %lld, expected a token below %d", (long long)wide, vocab_size);
    *id = (int)wide;
    return 0;
}

/* What both kinds of vocabulary have: BOS, EOS, <unk>, the chat template. */
static int fill_ends(Tokenizer *t, const Gguf *g, int vocab_size) {
    int64_t add_bos = !t->no_bos;
    GgufString template = {0};
    if (get_id(g, "tokenizer.ggml.bos_token_id", vocab_size, &t->bos) ||
        get_id(g, "tokenizer.ggml.eos_token_id", vocab_size, &t->eos) ||
        get_id(g, "tokenizer.ggml.eot_token_id", vocab_size, &t->eot) ||
        get_id(g, "tokenizer.ggml.unknown_token_id", vocab_size, &t->pieces.unk) ||
        gguf_get(g, "tokenizer.ggml.add_bos_token", KEY_INTEGER, &add_bos) ||
        gguf_get(g, "tokenizer.chat_template", KEY_STRING, &template))
        return -1;
    t->no_bos = !add_bos || t->bos < 0;
    return template.text ? tokenizer_set_chat_template(t, template.text, template.n) : 0;
}

static int fill_sentencepiece(Tokenizer *t, const Gguf *g, int vocab_size) {
    int64_t add_space = 1;
    *t = (Tokenizer){.bos = 1, .eos = 2, .eot = -1, .normalizer = {.replaces_invalid = true, .replaces_mark = true}};
    if (fill_pieces(&t->pieces, g, vocab_size) || fill_ends(t, g, vocab_size) ||
        gguf_get(g, "tokenizer.ggml.add_space_prefix", KEY_INTEGER, &add_space))
        return -1;
    t->space_prefix = add_space ? SPACE_ALWAYS : SPACE_NEVER;
    return pieces_index(&t->pieces);
}

/* BOS is put in front if the file says so; Llama 3's files may leave it out. */
static int fill_byte_level(Tokenizer *t, const Gguf *g, const Pretokenizer *pretokenizer, int vocab_size) {
    *t = (Tokenizer){.bos = -1, .eos = -1, .eot = -1, .space_prefix = SPACE_NEVER, .pretokenizer = *pretokenizer};
    t->pieces = (Pieces){.unk = -1, .byte_level = true};
    GgufString normalizer = {"", 0}; /* norma's own key: GGUF has no word for it */
    if (gguf_get(g, "norma.tokenizer.normalizer", KEY_STRING, &normalizer)) return -1;
    if (normalizer.n && !gguf_string_is(normalizer, "nfc"))
        return fail("%s: norma.tokenizer.normalizer is '%.*s', expected nfc", g->path, SHOWN(normalizer));
    t->normalizer.composes = normalizer.n > 0;
    if (fill_pieces(&t->pieces, g, vocab_size) || fill_merges(t, g)) return -1;
    t->no_bos = !t->pretokenizer.whole_words;
    return fill_ends(t, g, vocab_size);
}

static int read_tokenizer(Tokenizer *t, const Gguf *g, int vocab_size, bool needed) {
    GgufString model = {"", 0}, pre = {"", 0};
    if (gguf_get(g, "tokenizer.ggml.model", KEY_STRING, &model) || gguf_get(g, "tokenizer.ggml.pre", KEY_STRING, &pre))
        return -1;
    if (gguf_string_is(model, "llama")) return fill_sentencepiece(t, g, vocab_size) ? -1 : 1;
    const bool byte_level = gguf_string_is(model, "gpt2");
    if (byte_level && (!pre.n || gguf_string_is(pre, "default"))) {
        note("%s does not say where texts are cut (tokenizer.ggml.pre): as by GPT-2", g->path);
        pre = (GgufString){"gpt-2", 5};
    }
    const Pretokenizer *pretokenizer = byte_level ? find_pretokenizer(pre) : NULL;
    if (pretokenizer) return fill_byte_level(t, g, pretokenizer, vocab_size) ? -1 : 1;
    if (!needed) return 0;
    if (!byte_level)
        return fail("%s: the tokenizer is of kind '%.*s', which norma does not read; use --tokens", g->path,
                    SHOWN(model));
    return fail("%s: tokenizer.ggml.pre is '%.*s', which norma does not know; use --tokens", g->path, SHOWN(pre));
}

int gguf_read_tokenizer(Tokenizer *t, const File *file, const char *path, int vocab_size, bool needed) {
    Gguf g;
    *t = (Tokenizer){.bos = -1, .eos = -1, .eot = -1};
    const int found = gguf_open(&g, path, file) ? -1 : read_tokenizer(t, &g, vocab_size, needed);
    gguf_close(&g);
    if (found < 0) tokenizer_close(t);
    return found;
}
