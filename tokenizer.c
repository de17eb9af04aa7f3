/* tokenizer.c: text to tokens, tokens to text.
 *
 * Owns the one way from text to tokens of all tokenizers (see tokenizer_encode),
 * and llama2.c's tokenizer.bin. Neighbours merge by the scores of pieces, as in
 * SentencePiece's BPE (Kudo & Richardson 2018), or by rules: see bpe.c. The words
 * within which they do are pretokenize.c's. It does not write anything: see stream.c.
 *
 * Bytes that are no UTF-8: with a tokenizer.bin they become byte pieces and come
 * back as they were, as in llama2.c. With a SentencePiece model in a GGUF file
 * each becomes U+FFFD, as in the sentencepiece library, so in all that the model
 * was trained on. A byte-level tokenizer takes any bytes and gives them back.
 */
#include "tokenizer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/merges.h"
#include "text/normalize.h"
#include "text/pieces.h"
#include "text/pretokenize.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table of pieces ------------------------------------------------------------ */

/* FNV-1a, a byte at a time, from a start that no file knows: or its pieces could be made to meet in one slot. */
static uint32_t hash_start(void) {
    const double seconds = now();
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    return 2166136261u ^ (uint32_t)(bits * 0x9e3779b97f4a7c15u >> 32);
}

static uint32_t hash_byte(uint32_t h, char byte) { return (h ^ (uint8_t)byte) * 16777619u; }

static uint32_t hash_bytes(const Tokenizer *t, const char *s, int n) {
    uint32_t h = t->hash_start;
    for (int i = 0; i < n; i++) h = hash_byte(h, s[i]);
    return h;
}

int table_open(IdTable *table, size_t n) {
    size_t size = 16;
    while (size < 2 * n) size *= 2; /* at most 2^32 */
    table->slots = allocate(size, sizeof *table->slots);
    if (!table->slots) return -1;
    memset(table->slots, 0xff, size * sizeof *table->slots);
    table->mask = (uint32_t)(size - 1);
    return 0;
}

/* The slot of a piece with this text and its hash, or the free slot where it would go. */
static uint32_t find_slot(const Tokenizer *t, const IdTable *table, uint32_t hash, const char *s, int n) {
    uint32_t slot = (hash ^ hash >> 15) & table->mask;
    for (; table->slots[slot] >= 0; slot = (slot + 1) & table->mask) {
        const Piece *p = &t->pieces[table->slots[slot]];
        if (p->length == n && !memcmp(p->text, s, (size_t)n)) break;
    }
    return slot;
}

/* Of two equal pieces the first counts. */
static void enter(const Tokenizer *t, IdTable *table, int id) {
    const Piece *p = &t->pieces[id];
    int32_t *slot = &table->slots[find_slot(t, table, hash_bytes(t, p->text, p->length), p->text, p->length)];
    if (*slot < 0) *slot = id;
}

int tokenizer_find(const Tokenizer *t, const char *s, int n) {
    if (n > t->max_length) return -1;
    const int id = t->merged.slots[find_slot(t, &t->merged, hash_bytes(t, s, n), s, n)];
    return id >= 0 && t->pieces[id].kind != PIECE_CONTROL ? id : -1;
}

static bool matches(const Piece *p) { return p->length > 0 && (p->kind == PIECE_USER || p->kind == PIECE_SPECIAL); }

/* The longest user-defined or special piece with which s begins; -1: none. `raw`: of
 * those that match the text as it came, else of the others. */
static int matching_piece(const Tokenizer *t, const char *s, size_t left, bool raw) {
    const int most = left < (size_t)t->max_user_length ? (int)left : t->max_user_length;
    int longest = -1;
    if (!t->starts_user[(uint8_t)s[0]]) return -1;
    uint32_t hash = t->hash_start;
    for (int n = 1; n <= most; n++) {
        hash = hash_byte(hash, s[n - 1]);
        const int id = t->matched.slots[find_slot(t, &t->matched, hash, s, n)];
        if (id >= 0 && t->pieces[id].raw == raw && matches(&t->pieces[id])) longest = id;
    }
    return longest;
}

static int build_tables(Tokenizer *t) {
    size_t n_matched = 0;
    for (int id = 0; id < t->n_pieces; id++) n_matched += matches(&t->pieces[id]);
    if (table_open(&t->merged, (size_t)t->n_pieces) || table_open(&t->matched, n_matched)) return -1;
    for (int id = 0; id < t->n_pieces; id++) {
        const Piece *p = &t->pieces[id];
        if (p->kind == PIECE_TEXT || p->also_merged) enter(t, &t->merged, id);
        if (!matches(p)) continue;
        enter(t, &t->matched, id);
        t->starts_user[(uint8_t)p->text[0]] = true;
        if (p->length > t->max_user_length) t->max_user_length = p->length;
    }
    return 0;
}

/* The byte that a piece "<0x0A>" stands for, or -1. */
static int byte_of_piece(const char *s, int n) {
    static const char digits[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>' || !s[3] || !s[4]) return -1;
    const char *high = strchr(digits, s[3]), *low = strchr(digits, s[4]);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

int piece_unmark(char *s, int n) {
    static const char mark[] = {'\xe2', '\x96', '\x81'};
    int length = 0;
    for (int at = 0; at < n; length++)
        if (n - at >= 3 && !memcmp(s + at, mark, 3)) {
            s[length] = ' ';
            at += 3;
        } else {
            s[length] = s[at++];
        }
    return length;
}

/* ---- opening --------------------------------------------------------------------------- */

/* tokenizer.bin: int max_token_length, then for each piece float score, int
 * length, bytes. Pieces 0 to 2 are <unk>, BOS and EOS. */
static int read_pieces(Tokenizer *t, const char *path, int vocab_size) {
    const uint8_t *data = t->file.data;
    size_t at = 4, size = t->file.size;
    if (vocab_size < 3)
        return fail("%s: the model's vocabulary is %d, expected at least <unk>, BOS and EOS", path, vocab_size);
    if (size < 4 || (size - 4) / 8 < (size_t)vocab_size)
        return fail("%s: file is %zu bytes, too short for the model's %d pieces", path, size, vocab_size);
    t->pieces = allocate((size_t)vocab_size, sizeof *t->pieces);
    if (!t->pieces) return -1;
    for (int i = 0; i < vocab_size; i++) {
        Piece *p = &t->pieces[i];
        *p = (Piece){0};
        if (size - at < 8) return fail("%s: ends in piece %d, the model's vocabulary is %d", path, i, vocab_size);
        memcpy(&p->score, data + at, 4);
        memcpy(&p->length, data + at + 4, 4);
        at += 8;
        if (p->length < 0 || (size_t)p->length > size - at)
            return fail("%s: length of piece %d is %d, the file has %zu bytes left", path, i, p->length, size - at);
        if (isnan(p->score)) return fail("%s: score of piece %d is not a number", path, i);
        p->text = (const char *)data + at;
        p->kind = i > 2 && p->length > 0 ? PIECE_TEXT : PIECE_CONTROL;
        at += (size_t)p->length;
        if (p->length > t->max_length) t->max_length = p->length;
    }
    t->n_pieces = vocab_size;
    if (at != size)
        return fail("%s: %zu bytes follow the model's %d pieces (a tokenizer for another vocabulary?)", path, size - at,
                    vocab_size);
    return 0;
}

/* Byte pieces by their names, or of a byte-level tokenizer by what they are. */
static void find_bytes(Tokenizer *t) {
    for (int b = 0; b < 256; b++) t->bytes[b] = (uint8_t)b, t->byte_piece[b] = t->unk;
    for (int id = 0; id < t->n_pieces; id++) {
        Piece *p = &t->pieces[id];
        const int byte = p->kind == PIECE_BYTE ? (uint8_t)*p->text : byte_of_piece(p->text, p->length);
        if ((p->kind != PIECE_TEXT && p->kind != PIECE_BYTE) || byte < 0 || t->byte_level) continue;
        *p = (Piece){.text = (const char *)&t->bytes[byte], .length = 1, .kind = PIECE_BYTE};
        t->byte_piece[byte] = id;
    }
}

int tokenizer_index(Tokenizer *t) {
    t->hash_start = hash_start();
    find_bytes(t);
    if (build_tables(t)) return -1;
    for (int b = 0; b < 256 && t->byte_level; b++) {
        const int id = tokenizer_find(t, (const char *)&t->bytes[b], 1);
        if (id >= 0) t->byte_piece[b] = id;
    }
    return 0;
}

int tokenizer_open(Tokenizer *t, const char *path, int vocab_size) {
    *t = (Tokenizer){.bos = 1, .eos = 2, .eot = -1, .unk = 0};
    if (file_map(&t->file, path)) return -1;
    if (read_pieces(t, path, vocab_size) || tokenizer_index(t)) {
        tokenizer_close(t);
        return -1;
    }
    return 0;
}

void tokenizer_close(Tokenizer *t) {
    free(t->pieces);
    free(t->merged.slots);
    free(t->matched.slots);
    free(t->merges.rules);
    free(t->merges.first);
    free(t->text);
    free(t->chat_text);
    file_unmap(&t->file);
    *t = (Tokenizer){0};
}

/* ---- merging --------------------------------------------------------------------------- */

/* A stretch of a word that is one token so far; a list in text order. */
typedef struct {
    int start;
    int length;         /* 0: merged into its left neighbour */
    int previous, next; /* -1: none */
    int id;             /* -1: no piece, its bytes stand for themselves */
} Symbol;

/* Neighbours that together are a piece. Out of date once either has changed,
 * which their common length tells. */
typedef struct {
    float score;
    int id;
    int length;
    int left; /* symbol */
} Merge;

typedef struct {
    const Tokenizer *t;
    bool space; /* in front of the text */
    Tokens *out;
    size_t out_room;
    const char *word;
    Symbol *symbols; /* [room] */
    int n_symbols;
    Merge *heap; /* [2 * room], the best first */
    int n_heap;
    size_t room;
} Encoder;

static bool better(const Merge *a, const Merge *b) {
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

static void heap_push(Encoder *e, Merge m) {
    int i = e->n_heap++;
    for (; i > 0 && better(&m, &e->heap[(i - 1) / 2]); i = (i - 1) / 2) e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = m;
}

static Merge heap_pop(Encoder *e) {
    Merge top = e->heap[0], last = e->heap[--e->n_heap];
    int i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= e->n_heap) break;
        if (child + 1 < e->n_heap && better(&e->heap[child + 1], &e->heap[child])) child++;
        if (!better(&e->heap[child], &last)) break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return top;
}

/* What two neighbours merge into: by the rule for them, or the piece that has their text. */
static int merged_piece(const Encoder *e, const Symbol *a, const Symbol *b, float *score) {
    const Tokenizer *t = e->t;
    if (a->id < 0 || b->id < 0) return -1;
    if (t->merges.rules) {
        const MergeRule *rule = bpe_rule(&t->merges, a->id, b->id);
        *score = rule ? -(float)rule->rank : 0; /* exact: bpe_begin takes no more rules than that */
        return rule ? rule->result : -1;
    }
    if (a->length > t->max_length - b->length) return -1;
    const int id = tokenizer_find(t, e->word + a->start, a->length + b->length);
    *score = id < 0 ? 0 : t->pieces[id].score;
    return id;
}

/* Considers merging symbol `left` with its right neighbour. */
static void propose(Encoder *e, int left) {
    if (left < 0 || e->symbols[left].next < 0) return;
    const Symbol *a = &e->symbols[left], *b = &e->symbols[a->next];
    float score;
    const int id = merged_piece(e, a, b, &score);
    if (id >= 0 && e->t->pieces[id].kind != PIECE_CONTROL)
        heap_push(e, (Merge){score, id, a->length + b->length, left});
}

/* The word as bytes, or as characters (and bytes that are none). */
static void split(Encoder *e, int size) {
    const Tokenizer *t = e->t;
    e->n_symbols = 0;
    for (int at = 0, length; at < size; at += length) {
        const int i = e->n_symbols++;
        const char *s = e->word + at;
        length = t->byte_level ? 1 : utf8_character(s, (size_t)(size - at));
        if (!length) length = 1;
        e->symbols[i] = (Symbol){.start = at,
                                 .length = length,
                                 .previous = i - 1,
                                 .next = at + length < size ? i + 1 : -1,
                                 .id = t->byte_level ? t->byte_piece[(uint8_t)*s] : tokenizer_find(t, s, length)};
    }
}

static void merge_all(Encoder *e) {
    for (int i = 0; i < e->n_symbols; i++) propose(e, i);
    while (e->n_heap > 0) {
        const Merge m = heap_pop(e);
        Symbol *a = &e->symbols[m.left];
        if (!a->length || a->next < 0) continue;
        Symbol *b = &e->symbols[a->next];
        if (a->length + b->length != m.length) continue;
        a->id = m.id;
        a->length = m.length;
        a->next = b->next;
        if (b->next >= 0) e->symbols[b->next].previous = m.left;
        b->length = 0;
        propose(e, a->previous);
        propose(e, m.left);
    }
}

static void emit(Encoder *e, int id) {
    if (id >= 0) e->out->ids[e->out->n++] = id; /* a byte may be without a piece, where there is no <unk> */
}

/* A character without a piece: byte by byte. With rules, where there are no byte
 * pieces it is one <unk>, perhaps together with those before it. */
static void emit_unknown(Encoder *e, const Symbol *s) {
    const Tokenizer *t = e->t;
    if (t->merges.rules && t->byte_piece[(uint8_t)e->word[s->start]] == t->unk) {
        if (!t->fuses_unknown || !s->start || e->out->ids[e->out->n - 1] != t->unk) emit(e, t->unk);
        return;
    }
    for (int k = 0; k < s->length; k++) emit(e, t->byte_piece[(uint8_t)e->word[s->start + k]]);
}

/* Room for a word of n bytes and its tokens. */
static int reserve(Encoder *e, size_t n) {
    if ((size_t)e->out->n + n > e->out_room) {
        const size_t more = n + e->out_room / 2;
        if (tokens_reserve(e->out, more)) return -1;
        e->out_room = (size_t)e->out->n + more;
    }
    if (n <= e->room) return 0;
    free(e->symbols);
    free(e->heap);
    e->room = n;
    e->symbols = allocate(n, sizeof *e->symbols);
    /* at most n proposals to begin with; each of the < n merges takes one and adds two */
    e->heap = allocate(n, 2 * sizeof *e->heap);
    return e->symbols && e->heap ? 0 : -1;
}

static int encode_word(void *encoder, const char *s, size_t n) {
    Encoder *e = encoder;
    if (reserve(e, n)) return -1;
    const int whole = e->t->pretokenizer.whole_words ? tokenizer_find(e->t, s, (int)n) : -1;
    if (whole >= 0) {
        emit(e, whole);
        return 0;
    }
    e->word = s;
    split(e, (int)n);
    merge_all(e);
    for (int i = e->n_symbols ? 0 : -1; i >= 0; i = e->symbols[i].next)
        if (e->symbols[i].id >= 0)
            emit(e, e->symbols[i].id);
        else
            emit_unknown(e, &e->symbols[i]);
    return 0;
}

/* ---- from text to words ------------------------------------------------------------------- */

/* The text as it is cut: with a space in front, if asked for, U+FFFD for invalid
 * bytes and a space for U+2581, if the tokenizer has it so. Its size goes to *n. */
static char *prepare(const Tokenizer *t, const char *text, size_t size, bool space, size_t *n) {
    static const char replacement[] = {'\xef', '\xbf', '\xbd'}, mark[] = {'\xe2', '\x96', '\x81'};
    char *prepared = allocate((t->replaces_invalid ? sizeof replacement : 1) * size + 1, 1), *to = prepared;
    if (!prepared) return NULL;
    if (space) *to++ = ' ';
    for (size_t at = 0, length; at < size; at += length) {
        const char *s = text + at;
        length = (size_t)utf8_character(s, size - at);
        if (t->replaces_mark && length == sizeof mark && !memcmp(s, mark, sizeof mark)) {
            *to++ = ' ';
        } else if (!length && t->replaces_invalid) {
            to = mempcpy(to, replacement, sizeof replacement);
            length = 1;
        } else {
            if (!length) length = 1;
            to = mempcpy(to, s, length);
        }
    }
    *n = (size_t)(to - prepared);
    return prepared;
}

/* What is left where all user-defined and special pieces are cut out. */
static int encode_rest(Encoder *e, const char *text, size_t size, bool first) {
    const Tokenizer *t = e->t;
    const bool space = e->space && !t->no_space_prefix && t->space_if_none && (first || !t->space_once) && *text != ' ';
    if (!space) return pretokenize(&t->pretokenizer, text, size, encode_word, e);
    char *spaced = allocate(size + 1, 1);
    if (!spaced) return -1;
    *spaced = ' ';
    memcpy(spaced + 1, text, size);
    const int status = pretokenize(&t->pretokenizer, spaced, size + 1, encode_word, e);
    free(spaced);
    return status;
}

static int cut(Encoder *e, const char *text, size_t size, bool raw, bool first);

/* The text between two raw pieces: normalized, then once more cut. */
static int normalize(Encoder *e, const char *text, size_t size, bool first) {
    const Tokenizer *t = e->t;
    const bool space = e->space && !t->no_space_prefix && !t->space_if_none;
    char *composed = t->composes ? normalize_nfc(text, size, &size) : NULL;
    if (t->composes && !composed) return -1;
    if (composed) text = composed;
    const bool prepares = space || t->replaces_invalid || t->replaces_mark;
    char *prepared = prepares ? prepare(t, text, size, space, &size) : NULL;
    if (prepared) text = prepared;
    const int status = prepares && !prepared ? -1 : cut(e, text, size, false, first);
    free(composed);
    free(prepared);
    return status;
}

static int between(Encoder *e, const char *text, size_t size, bool raw, bool first) {
    if (!size) return 0;
    return raw ? normalize(e, text, size, first) : encode_rest(e, text, size, first);
}

/* Bytes of white space before s, as far back as `start`. */
static size_t space_before(const char *s, const char *start) {
    const char *at = s;
    for (size_t n = 1; n <= 4 && at - start >= (ptrdiff_t)n; n++)
        if ((size_t)utf8_character(at - n, n) == n && is_white_space(at - n, n)) at -= n, n = 0;
    return (size_t)(s - at);
}

static size_t space_behind(const char *s, size_t left) {
    size_t n = 0;
    for (size_t length; n < left && is_white_space(s + n, length = (size_t)utf8_character(s + n, left - n));)
        n += length;
    return n;
}

/* Cuts out the pieces that match as a whole; `first`: this is where the text begins. */
static int cut(Encoder *e, const char *text, size_t size, bool raw, bool first) {
    size_t from = 0;
    for (size_t at = 0; at < size;) {
        const int id = matching_piece(e->t, text + at, size - at, raw);
        if (id < 0) {
            at++;
            continue;
        }
        const Piece *p = &e->t->pieces[id];
        const size_t start = p->eats_left ? at - space_before(text + at, text + from) : at;
        if (between(e, text + from, start - from, raw, first && !from) || reserve(e, 1)) return -1;
        emit(e, id);
        at += (size_t)p->length;
        if (p->eats_right) at += space_behind(text + at, size - at);
        from = at;
    }
    return between(e, text + from, size - from, raw, first && !from);
}

int tokens_reserve(Tokens *tokens, size_t more) {
    const size_t count = (size_t)tokens->n + more + 1; /* never 0 */
    int *ids = count <= INT_MAX ? realloc(tokens->ids, count * sizeof *ids) : NULL;
    if (!ids) return fail("out of memory: %zu tokens", count);
    tokens->ids = ids;
    return 0;
}

int tokenizer_append(const Tokenizer *t, const char *text, size_t size, bool space, Tokens *out) {
    if (size > INT_MAX / 3 - 1) return fail("a text of %zu bytes is too long", size);
    Encoder e = {.t = t, .space = space, .out = out};
    const int status = tokens_reserve(out, 0) || cut(&e, text, size, true, true) ? -1 : 0;
    free(e.symbols);
    free(e.heap);
    return status;
}

int tokenizer_encode(const Tokenizer *t, const char *text, size_t size, bool bos, Tokens *out) {
    *out = (Tokens){0};
    if (tokens_reserve(out, 1)) return -1;
    if (bos && !t->no_bos) out->ids[out->n++] = t->bos;
    if (!tokenizer_append(t, text, size, true, out)) return 0;
    free(out->ids);
    *out = (Tokens){0};
    return -1;
}

/* ---- decoding -------------------------------------------------------------------------- */

const char *tokenizer_decode(const Tokenizer *t, int previous, int token, int *length) {
    const Piece *p = &t->pieces[token];
    const bool drop = previous == t->bos && !t->no_space_prefix && p->length > 0 && p->text[0] == ' ';
    *length = p->length - drop;
    return p->text + drop;
}
