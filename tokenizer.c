/* tokenizer.c: text to tokens, tokens to text.
 *
 * Owns llama2.c's tokenizer.bin and SentencePiece's BPE on it (Sennrich et al.
 * 2016; Kudo & Richardson 2018). It does not write anything: see stream.c.
 */
#include "model.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table of pieces ------------------------------------------------------------ */

static uint32_t hash_bytes(const char *s, int n) { /* FNV-1a */
    uint32_t h = 2166136261u;
    for (int i = 0; i < n; i++) h = (h ^ (uint8_t)s[i]) * 16777619u;
    return h;
}

/* The slot of a piece with this text, or the free slot where it would go. */
static uint32_t find_slot(const Tokenizer *t, const char *s, int n) {
    uint32_t slot = hash_bytes(s, n) & t->table_mask;
    for (; t->table[slot] >= 0; slot = (slot + 1) & t->table_mask) {
        const Piece *p = &t->pieces[t->table[slot]];
        if (p->length == n && !memcmp(p->text, s, (size_t)n)) break;
    }
    return slot;
}

/* The token whose piece is s[n], or -1. */
static int lookup(const Tokenizer *t, const char *s, int n) {
    return n <= t->max_length ? t->table[find_slot(t, s, n)] : -1;
}

static int build_table(Tokenizer *t) {
    size_t size = 16;
    while (size < 2 * (size_t)t->n_pieces) size *= 2; /* at most 2^32 */
    t->table = allocate(size, sizeof *t->table);
    if (!t->table) return -1;
    memset(t->table, 0xff, size * sizeof *t->table);
    t->table_mask = (uint32_t)(size - 1);
    for (int id = 0; id < t->n_pieces; id++) {
        if (!t->pieces[id].in_text) continue;
        uint32_t slot = find_slot(t, t->pieces[id].text, t->pieces[id].length);
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
        p->in_text = i > 2 && p->length > 0;
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
        int byte = byte_of_piece(p->text, p->length);
        if (byte < 0 || !p->in_text) continue;
        *p = (Piece){.text = (const char *)&t->bytes[byte], .length = 1};
        t->byte_piece[byte] = id;
    }
    return build_table(t);
}

int tokenizer_open(Tokenizer *t, const char *path, int vocab_size) {
    *t = (Tokenizer){.bos = 1, .eos = 2, .unk = 0};
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

PieceKind piece_kind(const Tokenizer *t, int id) {
    const Piece *p = &t->pieces[id];
    if (p->in_text) return PIECE_TEXT;
    return p->length == 1 && t->byte_piece[(uint8_t)p->text[0]] == id ? PIECE_BYTE : PIECE_CONTROL;
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

/* Considers merging symbol `left` with its right neighbour. */
static void propose(Encoder *e, int left) {
    if (left < 0 || e->symbols[left].next < 0) return;
    const Symbol *a = &e->symbols[left], *b = &e->symbols[a->next];
    if (a->id < 0 || b->id < 0 || a->length > e->t->max_length - b->length) return;
    const int length = a->length + b->length, id = lookup(e->t, e->text + a->start, length);
    if (id >= 0) heap_push(e, (Merge){e->t->pieces[id].score, id, length, left});
}

/* Bytes of the UTF-8 character at s; 1 where there is none. */
static int character_length(const char *s, int left) {
    const int n = utf8_length((uint8_t)s[0]);
    if (n > left) return 1;
    for (int i = 1; i < n; i++)
        if (((uint8_t)s[i] & 0xc0) != 0x80) return 1;
    return n > 1 ? n : 1;
}

static void split_characters(Encoder *e, int size) {
    for (int at = 0, length; at < size; at += length) {
        const int i = e->n_symbols++;
        length = character_length(e->text + at, size - at);
        e->symbols[i] = (Symbol){.start = at,
                                 .length = length,
                                 .previous = i - 1,
                                 .next = at + length < size ? i + 1 : -1,
                                 .id = lookup(e->t, e->text + at, length)};
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

int tokenizer_encode(const Tokenizer *t, const char *text, size_t size, bool bos, Tokens *out) {
    *out = (Tokens){0};
    if (size > INT_MAX / 2 - 1) return fail("a text of %zu bytes is too long", size);
    const size_t prefix = size && !t->no_space_prefix, n = prefix + size;
    char *spaced = allocate(n + 1, 1);
    Encoder e = {.t = t, .text = spaced, .symbols = allocate(n, sizeof *e.symbols)};
    /* at most n proposals to begin with; each of the < n merges takes one and adds two */
    e.heap = allocate(n, 2 * sizeof *e.heap);
    out->ids = allocate(n + 1, sizeof *out->ids);
    const bool ok = spaced && e.symbols && e.heap && out->ids;
    if (ok) {
        spaced[0] = ' ';
        if (size) memcpy(spaced + prefix, text, size);
        if (bos && !t->no_bos) out->ids[out->n++] = t->bos;
        split_characters(&e, (int)n);
        merge_all(&e);
        collect(&e, out);
    } else {
        free(out->ids);
        *out = (Tokens){0};
    }
    free(spaced);
    free(e.symbols);
    free(e.heap);
    return ok ? 0 : -1;
}

/* ---- decoding -------------------------------------------------------------------------- */

const char *tokenizer_decode(const Tokenizer *t, int previous, int token, int *length) {
    const Piece *p = &t->pieces[token];
    const bool drop = previous == t->bos && !t->no_space_prefix && p->length > 0 && p->text[0] == ' ';
    *length = p->length - drop;
    return p->text + drop;
}
