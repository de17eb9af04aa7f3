/* merges.c: byte-pair encoding of a word.
 *
 * Owns the merge rules (which two neighbours merge into what, and in which order) and merging by rules or by scores.
 * formats/gguf_tokenizer.c and formats/tokenizer_json.c read the rules.
 */
#include "text/merges.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = 1 << 24 }; /* float32 represents every rank exactly */

int tokens_reserve(Tokens *tokens, size_t more) {
    const size_t needed = (size_t)tokens->n + more;
    if (needed < tokens->room) return 0;
    const size_t room = needed + tokens->room / 2 + 1;
    int *ids = room <= INT_MAX ? realloc(tokens->ids, room * sizeof *ids) : NULL;
    if (!ids) return fail("out of memory: %zu tokens", room);
    tokens->ids = ids;
    tokens->room = room;
    return 0;
}

int tokens_add(Tokens *tokens, int id) {
    if (tokens_reserve(tokens, 1)) return -1;
    tokens->ids[tokens->n++] = id;
    return 0;
}

/* ---- rules ------------------------------------------------------------------------------- */

/* By left, then right piece. */
static int compare_pairs(const MergeRule *x, const MergeRule *y) {
    return x->left != y->left ? x->left - y->left : x->right - y->right;
}

/* Of a pair with several rules, the last in the file comes first. */
static int compare_rules(const void *a, const void *b) {
    const MergeRule *x = a, *y = b;
    const int order = compare_pairs(x, y);
    return order ? order : y->rank - x->rank;
}

const MergeRule *merges_rule(const Merges *m, int left, int right) {
    const MergeRule pair = {.left = left, .right = right};
    size_t i;
    SEARCH(i, 0, m->n, compare_pairs(&m->rules[i], &pair) < 0);
    return i < (size_t)m->n && !compare_pairs(&m->rules[i], &pair) ? &m->rules[i] : NULL;
}

int merges_begin(Merges *m, Pieces *pieces, size_t n) {
    if (n > MAX_RULES) return fail("%zu merges, expected at most %d", n, MAX_RULES);
    m->rules = allocate(n + 1, sizeof *m->rules);
    return m->rules ? pieces_index(pieces) : -1;
}

int merges_add_pair(Merges *m, const Pieces *pieces, const char *path, const char *left, size_t n_left,
                    const char *right, size_t n_right) {
    const size_t n = n_left + n_right;
    MergeRule rule = {-1, -1, -1, m->n};
    if (n <= (size_t)pieces->merged.max_length) {
        char *name = allocate(n + 1, 1);
        if (!name) return -1;
        memcpy(name, left, n_left);
        memcpy(name + n_left, right, n_right);
        rule.left = pieces_find(pieces, name, (int)n_left);
        rule.right = pieces_find(pieces, name + n_left, (int)n_right);
        rule.result = pieces_find(pieces, name, (int)n);
        free(name);
    }
    if (rule.left < 0 || rule.right < 0 || rule.result < 0)
        return fail("%s: merge %d is of '%.*s' and '%.*s', expected pieces whose concatenation is a piece", path, m->n,
                    n_left < 32 ? (int)n_left : 32, left, n_right < 32 ? (int)n_right : 32, right);
    m->rules[m->n++] = rule;
    return 0;
}

int merges_add(Merges *m, const Pieces *pieces, const char *path, const char *pair, size_t n) {
    /* a name contains no space, unless it is a single space */
    const char *space = n > 1 ? memchr(pair + 1, ' ', n - 1) : NULL;
    if (!space) return fail("%s: merge %d is '%.*s', expected two pieces", path, m->n, n < 32 ? (int)n : 32, pair);
    const size_t n_left = (size_t)(space - pair);
    return merges_add_pair(m, pieces, path, pair, n_left, space + 1, n - n_left - 1);
}

int merges_end(Merges *m, Pieces *pieces) {
    qsort(m->rules, (size_t)m->n, sizeof *m->rules, compare_rules);
    pieces_decode_names(pieces);
    return pieces_index(pieces);
}

void merges_close(Merges *m) {
    free(m->rules);
    *m = (Merges){0};
}

/* ---- merging ------------------------------------------------------------------------------ */

/* A part of a word that is one token so far. The symbols are a linked list, in word order. */
typedef struct Symbol {
    int start, length;  /* bytes of the word */
    int previous, next; /* indices; -1 = none */
    int id;             /* -1 = no piece has this text */
    int merged;         /* result of merging it with the next; -1 = no merge, or already merged */
    float score;        /* of this merge */
} Symbol;

/* The result of merging two neighbours, by rule or as the piece with their text; -1 if they do not merge. */
static int merged_piece(const Merger *m, const Symbol *a, const Symbol *b, float *score) {
    const Pieces *p = m->pieces;
    if (a->id < 0 || b->id < 0) return -1;
    if (m->merges->rules) {
        const MergeRule *rule = merges_rule(m->merges, a->id, b->id);
        if (!rule || p->list[rule->result].kind == PIECE_CONTROL) return -1;
        *score = -(float)rule->rank; /* exact: see MAX_RULES */
        return rule->result;
    }
    const int id = pieces_find(p, m->word + a->start, a->length + b->length);
    if (id >= 0) *score = p->list[id].score;
    return id;
}

/* Pushes the merge of symbol `left` with the next one, if there is one, onto the heap. */
static void push_merge(Merger *m, int left) {
    if (left < 0) return;
    Symbol *a = &m->symbols[left];
    a->merged = a->next < 0 ? -1 : merged_piece(m, a, &m->symbols[a->next], &a->score);
    if (a->merged >= 0) heap_push(m->heap, m->n_heap++, (HeapItem){a->score, left});
}

/* Splits the word into bytes, or into characters and invalid bytes. */
static void split(Merger *m, int size) {
    const Pieces *p = m->pieces;
    m->n_symbols = 0;
    for (int at = 0; at < size; at += m->symbols[m->n_symbols++].length) {
        const char *s = m->word + at;
        size_t length = 1;
        if (!p->byte_level) utf8_read(s, (size_t)(size - at), &length);
        const int id = p->byte_level ? p->byte_piece[(uint8_t)*s] : pieces_find(p, s, (int)length), i = m->n_symbols;
        m->symbols[i] = (Symbol){.start = at, .length = (int)length, .previous = i - 1, .next = i + 1, .id = id};
    }
    m->symbols[m->n_symbols - 1].next = -1;
}

static void merge(Merger *m) {
    for (int i = 0; i < m->n_symbols; i++) push_merge(m, i);
    while (m->n_heap > 0) {
        const HeapItem best = heap_pop(m->heap, m->n_heap--);
        Symbol *a = &m->symbols[best.id];
        if (a->merged < 0 || a->score != best.value) continue; /* stale: it or its neighbour has merged */
        Symbol *b = &m->symbols[a->next];
        a->id = a->merged;
        a->length += b->length;
        a->next = b->next;
        if (b->next >= 0) m->symbols[b->next].previous = best.id;
        b->merged = -1;
        push_merge(m, a->previous);
        push_merge(m, best.id);
    }
}

/* Reserves memory for a word of n bytes and, in *out, for its tokens. */
static int reserve(Merger *m, size_t n, Tokens *out) {
    if (tokens_reserve(out, n)) return -1;
    if (n <= m->room) return 0;
    free(m->symbols);
    free(m->heap);
    m->room = n;
    m->symbols = allocate(n, sizeof *m->symbols);
    /* at most n initial merges; each of the < n steps removes one and adds two */
    m->heap = m->symbols ? allocate(n, 2 * sizeof *m->heap) : NULL;
    return m->heap ? 0 : -1;
}

/* A character without a piece becomes byte pieces. With rules and without byte pieces it becomes one <unk>, which may
 * absorb unknown characters before it. */
static void emit_unknown(const Merger *m, const Symbol *s, Tokens *out) {
    const Pieces *p = m->pieces;
    const uint8_t *bytes = (const uint8_t *)m->word + s->start;
    const bool unknown = m->merges->rules && p->byte_piece[*bytes] == p->unk;
    if (unknown && m->merges->fuses_unknown && s->start && out->n && out->ids[out->n - 1] == p->unk) return;
    for (int k = 0; k < (unknown ? 1 : s->length); k++) {
        const int id = p->byte_piece[bytes[k]];
        if (id >= 0) out->ids[out->n++] = id; /* -1: the vocabulary has no <unk> either */
    }
}

int merger_encode(Merger *m, const char *word, size_t n, Tokens *out) {
    if (reserve(m, n, out)) return -1;
    m->word = word;
    split(m, (int)n);
    merge(m);
    for (int i = 0; i >= 0; i = m->symbols[i].next)
        if (m->symbols[i].id >= 0)
            out->ids[out->n++] = m->symbols[i].id;
        else
            emit_unknown(m, &m->symbols[i], out);
    return 0;
}

void merger_close(Merger *m) {
    free(m->symbols);
    free(m->heap);
}
