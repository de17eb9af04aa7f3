/* tokenizer.c: text to tokens, tokens to text.
 *
 * Owns llama2.c's tokenizer.bin and SentencePiece's BPE (Sennrich et al. 2016;
 * Kudo & Richardson 2018), for the pieces in GGUF files, too. It does not write
 * anything: see stream.c.
 *
 * Bytes that are no UTF-8: with a tokenizer.bin they become byte pieces and come
 * back as they were, as in llama2.c. With a SentencePiece model in a GGUF file
 * each becomes U+FFFD, as in the sentencepiece library, so in all that the model
 * was trained on.
 */
#include "model.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table of pieces ------------------------------------------------------------ */

/* FNV-1a, a byte at a time. */
static const uint32_t HASH_START = 2166136261u;

static uint32_t hash_byte(uint32_t h, char byte) { return (h ^ (uint8_t)byte) * 16777619u; }

static uint32_t hash_bytes(const char *s, int n) {
    uint32_t h = HASH_START;
    for (int i = 0; i < n; i++) h = hash_byte(h, s[i]);
    return h;
}

/* The slot of a piece with this text and its hash, or the free slot where it would go. */
static uint32_t find_slot(const Tokenizer *t, uint32_t hash, const char *s, int n) {
    uint32_t slot = hash & t->table_mask;
    for (; t->table[slot] >= 0; slot = (slot + 1) & t->table_mask) {
        const Piece *p = &t->pieces[t->table[slot]];
        if (p->length == n && !memcmp(p->text, s, (size_t)n)) break;
    }
    return slot;
}

/* The token of this kind whose piece is s[n], or -1. */
static int lookup(const Tokenizer *t, PieceKind kind, uint32_t hash, const char *s, int n) {
    const int id = t->table[find_slot(t, hash, s, n)];
    return id >= 0 && t->pieces[id].kind == kind ? id : -1;
}

static int text_piece(const Tokenizer *t, const char *s, int n) {
    return n <= t->max_length ? lookup(t, PIECE_TEXT, hash_bytes(s, n), s, n) : -1;
}

/* The longest user-defined piece with which s begins; -1: none. */
static int user_piece(const Tokenizer *t, const char *s, int left) {
    const int most = left < t->max_user_length ? left : t->max_user_length;
    int longest = -1;
    if (!t->starts_user[(uint8_t)s[0]]) return -1;
    uint32_t hash = HASH_START;
    for (int n = 1; n <= most; n++) {
        hash = hash_byte(hash, s[n - 1]);
        const int id = lookup(t, PIECE_USER, hash, s, n);
        if (id >= 0) longest = id;
    }
    return longest;
}

static int build_table(Tokenizer *t) {
    size_t size = 16;
    while (size < 2 * (size_t)t->n_pieces) size *= 2; /* at most 2^32 */
    t->table = allocate(size, sizeof *t->table);
    if (!t->table) return -1;
    memset(t->table, 0xff, size * sizeof *t->table);
    t->table_mask = (uint32_t)(size - 1);
    for (int id = 0; id < t->n_pieces; id++) {
        const Piece *p = &t->pieces[id];
        if (p->kind != PIECE_TEXT && p->kind != PIECE_USER) continue;
        const uint32_t slot = find_slot(t, hash_bytes(p->text, p->length), p->text, p->length);
        if (t->table[slot] < 0) t->table[slot] = id; /* of two equal pieces the first counts */
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

int tokenizer_index(Tokenizer *t) {
    for (int b = 0; b < 256; b++) t->bytes[b] = (uint8_t)b, t->byte_piece[b] = t->unk;
    for (int id = 0; id < t->n_pieces; id++) {
        Piece *p = &t->pieces[id];
        const int byte = byte_of_piece(p->text, p->length);
        if (p->kind == PIECE_USER && p->length > 0) {
            t->starts_user[(uint8_t)p->text[0]] = true;
            if (p->length > t->max_user_length) t->max_user_length = p->length;
        } else if (p->kind == PIECE_TEXT && byte >= 0) {
            *p = (Piece){.text = (const char *)&t->bytes[byte], .length = 1, .kind = PIECE_BYTE};
            t->byte_piece[byte] = id;
        }
    }
    return build_table(t);
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
    free(t->table);
    free(t->text);
    file_unmap(&t->file);
    *t = (Tokenizer){0};
}

/* ---- encoding -------------------------------------------------------------------------- */

/* A stretch of the text that is one token so far; a list in text order. */
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
    const char *text;
    Symbol *symbols;
    int n_symbols;
    Merge *heap; /* the best first */
    int n_heap;
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

static bool merges(const Encoder *e, const Symbol *s) { return s->id >= 0 && e->t->pieces[s->id].kind == PIECE_TEXT; }

/* Considers merging symbol `left` with its right neighbour. */
static void propose(Encoder *e, int left) {
    if (left < 0 || e->symbols[left].next < 0) return;
    const Symbol *a = &e->symbols[left], *b = &e->symbols[a->next];
    if (!merges(e, a) || !merges(e, b) || a->length > e->t->max_length - b->length) return;
    const int length = a->length + b->length, id = text_piece(e->t, e->text + a->start, length);
    if (id >= 0) heap_push(e, (Merge){e->t->pieces[id].score, id, length, left});
}

/* User-defined pieces, and between them characters (or bytes that are none). */
static void split(Encoder *e, int size) {
    for (int at = 0, length; at < size; at += length) {
        const int i = e->n_symbols++;
        const char *s = e->text + at;
        int id = user_piece(e->t, s, size - at);
        if (id >= 0) {
            length = e->t->pieces[id].length;
        } else {
            length = utf8_character(s, (size_t)(size - at));
            if (!length) length = 1;
            id = text_piece(e->t, s, length);
        }
        e->symbols[i] = (Symbol){
            .start = at, .length = length, .previous = i - 1, .next = at + length < size ? i + 1 : -1, .id = id};
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

/* The ids of the symbols, those without a piece byte by byte. */
static void collect(const Encoder *e, Tokens *out) {
    for (int i = e->n_symbols ? 0 : -1; i >= 0; i = e->symbols[i].next) {
        const Symbol *s = &e->symbols[i];
        if (s->id >= 0)
            out->ids[out->n++] = s->id;
        else
            for (int k = 0; k < s->length; k++) out->ids[out->n++] = e->t->byte_piece[(uint8_t)e->text[s->start + k]];
    }
}

/* The text as it is split: with a space in front, if asked for, and U+FFFD for
 * invalid bytes, if the tokenizer has it so. Its size goes to *n. */
static char *prepare(const Tokenizer *t, const char *text, size_t size, bool space, int *n) {
    static const char replacement[] = {'\xef', '\xbf', '\xbd'};
    char *prepared = allocate((t->replaces_invalid ? sizeof replacement : 1) * size + 1, 1), *to = prepared;
    if (!prepared) return NULL;
    if (space) *to++ = ' ';
    for (size_t at = 0, length; at < size; at += length) {
        const size_t valid = (size_t)utf8_character(text + at, size - at);
        const bool replaced = !valid && t->replaces_invalid;
        length = valid ? valid : 1;
        to = mempcpy(to, replaced ? replacement : text + at, replaced ? sizeof replacement : length);
    }
    *n = (int)(to - prepared);
    return prepared;
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
    int n = 0;
    char *prepared = prepare(t, text, size, space && size && !t->no_space_prefix, &n);
    Encoder e = {.t = t, .text = prepared, .symbols = allocate((size_t)n, sizeof *e.symbols)};
    /* at most n proposals to begin with; each of the < n merges takes one and adds two */
    e.heap = allocate((size_t)n, 2 * sizeof *e.heap);
    const bool ok = prepared && e.symbols && e.heap && !tokens_reserve(out, (size_t)n);
    if (ok) {
        split(&e, n);
        merge_all(&e);
        collect(&e, out);
    }
    free(prepared);
    free(e.symbols);
    free(e.heap);
    return ok ? 0 : -1;
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
