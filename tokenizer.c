/* tokenizer.c: text to tokens, tokens to text.
 *
 * Owns the pipeline that all tokenizers share; the steps are in text/:
 *
 *     text -> pieces that match the raw text, the rest:  cut_out(raw)
 *          -> normalized, with a space prefix:           encode_between
 *          -> pieces that match the normalized text:     cut_out(not raw)
 *          -> words:                                     pretokenize
 *          -> tokens:                                    encode_word
 *
 * Invalid UTF-8: with a tokenizer.bin the bytes become byte pieces and are
 * decoded unchanged, as in llama2.c. With a SentencePiece model each becomes
 * U+FFFD, as in the sentencepiece library. A byte-level tokenizer keeps all
 * bytes.
 * Tests: tokenizer, pieces, bpe.
 */
#include "tokenizer.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <limits.h>
#include <stdlib.h>

const char *const ADVICE_NAMES[N_ADVICE] = {
    [ADVICE_TEMPERATURE] = "temperature",
    [ADVICE_TOP_P] = "top_p",
    [ADVICE_TOP_K] = "top_k",
    [ADVICE_MIN_P] = "min_p",
    [ADVICE_REPEAT_PENALTY] = "repetition_penalty",
    [ADVICE_REPEAT_LAST] = "repeat_last"};

const Tokenizer NO_TOKENIZER = {.pieces = {.unk = -1},
                                .bos = -1,
                                .eos = -1,
                                .eot = -1,
                                .unk = -1,
                                .named = {-1, -1, -1, -1}};

void tokenizer_close(Tokenizer *t) {
    pieces_close(&t->pieces);
    free(t->ends.ids);
    free(t->variables.bytes);
    free(t->chat_template.bytes);
    free(t->template_names.bytes);
    file_unmap(&t->file);
    *t = (Tokenizer){0};
}

int tokenizer_set_chat_template(Tokenizer *t, const char *text, size_t size) {
    t->chat_template.n = 0;
    buffer_append(&t->chat_template, text, size);
    return t->chat_template.failed ? -1 : 0;
}

typedef struct {
    const Tokenizer *t;
    /* [bytes of the text]: may be in a matched piece; NULL: all may */
    const bool *open;
    SpacePrefix prefix; /* for the text that is left */
    Tokens *out;
} Encoder;

static int encode_word(void *encoder, const char *s, size_t n) {
    Encoder *e = encoder;
    const Tokenizer *t = e->t;
    int whole =
        t->pretokenizer.whole_words ? pieces_find(&t->pieces, s, n) : -1;
    return whole >= 0 ? tokens_add(e->out, whole)
                      : merges_encode(&t->pieces, s, n, e->out);
}

static int cut_out(Encoder *e, const char *text, size_t size, bool raw);

/* Encodes the text between pieces. `raw`: it is not normalized yet; after
 * normalization more pieces may match. */
static int encode_between(Encoder *e, const char *text, size_t size, bool raw) {
    if (!size)
        return 0;
    if (raw) {
        bool space = e->prefix == SPACE_ALWAYS;
        char *normalized = normalize(&e->t->normalizer, text, size, &size);
        int status = normalized
                         ? cut_out(e, normalized + !space, size + space, false)
                         : -1;
        free(normalized);
        return status;
    }
    /* normalized; the byte before it may be overwritten */
    char *words = (char *)(uintptr_t)text;
    bool space =
        (e->prefix == SPACE_IF_NONE || e->prefix == SPACE_ONCE) && *text != ' ';
    if (space)
        *--words = ' ';
    return pretokenize(e->t->pretokenizer.steps, words, size + space,
                       encode_word, e);
}

/* Encodes text as user-defined and special pieces and the stretches between
 * them. `raw`: use the pieces that match raw text, else those that match
 * normalized text. */
static int cut_out(Encoder *e, const char *text, size_t size, bool raw) {
    const Pieces *pieces = &e->t->pieces;
    size_t from = 0;
    /* special pieces match only open bytes of the raw text */
    for (size_t at = 0, end_open = raw && e->open ? 0 : size; at < size;) {
        while (end_open < size && (end_open < at || e->open[end_open]))
            end_open++;
        int id = pieces_match(pieces, text + at, end_open - at, raw);
        size_t skipped = pieces_skip(pieces, id, text, size, at, from);
        at += skipped;
        if (skipped)
            continue;
        const Piece *p = &pieces->list[id];
        size_t end = at - p->after_space;
        while (p->strips_left && end > from) {
            size_t n = utf8_before(text + end, text + from);
            if (!is_white_space(utf8_read(text + end - n, n, &n)))
                break;
            end -= n;
        }
        if (encode_between(e, text + from, end - from, raw) ||
            tokens_add(e->out, id))
            return -1;
        if (e->prefix == SPACE_ONCE)
            e->prefix = SPACE_NEVER;
        at += p->length;
        for (size_t n; p->strips_right && at < size &&
                       is_white_space(utf8_read(text + at, size - at, &n));)
            at += n;
        from = at;
    }
    return encode_between(e, text + from, size - from, raw);
}

int tokenizer_append(const Tokenizer *t, const char *text, size_t size,
                     const bool *open, bool space, Tokens *out) {
    if (size > INT_MAX / 3 - 1)
        return fail("a text of %zu bytes is too long", size);
    Encoder e = {.t = t,
                 .open = open,
                 .prefix = space ? t->space_prefix : SPACE_NEVER,
                 .out = out};
    return cut_out(&e, text, size, true);
}

int tokenizer_encode(const Tokenizer *t, const char *text, size_t size,
                     bool before, Tokens *out) {
    *out = (Tokens){0};
    for (int i = 0; before && i < t->n_before; i++)
        if (tokens_add(out, t->before[i]))
            return -1;
    return tokenizer_append(t, text, size, NULL, true, out);
}

bool tokenizer_is_end(const Tokenizer *t, int token, bool eos_ends) {
    for (int i = 0; i < t->ends.n; i++)
        if (token == t->ends.ids[i])
            return true;
    return token == t->bos || token == t->eot || (token == t->eos && eos_ends);
}

const char *tokenizer_decode(const Tokenizer *t, int previous, int token,
                             int *length) {
    const Piece *p = &t->pieces.list[token];
    const char *text = p->decoded ? p->decoded : p->text;
    int n = p->decoded ? p->n_decoded : p->length;
    bool drop = previous == t->bos && t->space_prefix != SPACE_NEVER && n > 0 &&
                text[0] == ' ';
    *length = n - drop;
    return text + drop;
}
