/* merges.c: byte-pair encoding of a word.
 *
 * Owns merging by rules or by scores, and the rules of Pieces: which two
 * neighbours merge into what, in which order. formats/gguf_tokenizer.c and
 * formats/tokenizer_json.c read the rules.
 * Tests: bpe, growth.
 */
#include "text/merges.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/utf8.h"
#include <limits.h>
#include <stdlib.h>

enum { MAX_RULES = 1 << 24 }; /* float32 represents every rank exactly */

int tokens_add(Tokens *tokens, int id) {
    if ((size_t)tokens->n == tokens->room) {
        size_t room = tokens->room + tokens->room / 2 + 16;
        int *ids =
            room <= INT_MAX ? realloc(tokens->ids, room * sizeof *ids) : NULL;
        if (!ids)
            return fail("out of memory: %zu tokens", room);
        tokens->ids = ids;
        tokens->room = room;
    }
    tokens->ids[tokens->n++] = id;
    return 0;
}

/* ---- rules -------------------------------------------------------------- */

/* By left, then right piece. */
static int compare_pairs(const MergeRule *x, const MergeRule *y) {
    return x->left != y->left ? x->left - y->left : x->right - y->right;
}

/* Of a pair with several rules, the last in the file comes first. */
static int compare_rules(const void *a, const void *b) {
    const MergeRule *x = a, *y = b;
    int order = compare_pairs(x, y);
    return order ? order : y->rank - x->rank;
}

const MergeRule *merges_rule(const Pieces *p, int left, int right) {
    MergeRule pair = {.left = left, .right = right};
    size_t i;
    SEARCH(i, 0, p->n_rules, compare_pairs(&p->rules[i], &pair) < 0);
    return i < (size_t)p->n_rules && !compare_pairs(&p->rules[i], &pair)
               ? &p->rules[i]
               : NULL;
}

int merges_begin(Pieces *p, size_t n) {
    if (n > MAX_RULES)
        return fail("%zu merges, expected at most %d", n, MAX_RULES);
    p->rules = allocate(n + 1, sizeof *p->rules);
    return p->rules ? pieces_index(p) : -1;
}

int merges_add_pair(Pieces *p, const char *path, const char *left,
                    size_t n_left, const char *right, size_t n_right) {
    MergeRule rule = {pieces_find(p, left, n_left),
                      pieces_find(p, right, n_right), -1, p->n_rules};
    if (rule.left >= 0 && rule.right >= 0) {
        p->name.n = 0;
        buffer_append(&p->name, left, n_left);
        buffer_append(&p->name, right, n_right);
        if (p->name.failed)
            return -1;
        rule.result = pieces_find(p, p->name.bytes, p->name.n);
    }
    if (rule.result < 0)
        return fail(
            "%s: merge %d is of '%.*s' and '%.*s', expected pieces whose concatenation is a piece",
            path, p->n_rules, (int)min_size(n_left, 32), left,
            (int)min_size(n_right, 32), right);
    p->rules[p->n_rules++] = rule;
    return 0;
}

int merges_add(Pieces *p, const char *path, const char *pair, size_t n) {
    /* a name contains no space, unless it is a single space */
    size_t n_left = min_size(n, 1);
    while (n_left < n && pair[n_left] != ' ')
        n_left++;
    size_t right = min_size(n_left + 1, n);
    return merges_add_pair(p, path, pair, n_left, pair + right, n - right);
}

int merges_end(Pieces *p) {
    qsort(p->rules, p->n_rules, sizeof *p->rules, compare_rules);
    pieces_decode_names(p);
    return pieces_index(p);
}

/* ---- merging ------------------------------------------------------------ */

/* A part of a word that is one token so far. The symbols are a linked list, in
 * word order; symbol 0, with id -1, is before the first and after the last. */
typedef struct {
    int start, length;  /* bytes of the word; length 0: never merges */
    int previous, next; /* indices */
    int id;
    int merged;  /* with the next; -1 = no merge, or already merged */
    float score; /* of this merge */
} Symbol;

typedef struct {
    const Pieces *pieces;
    const char *word;
    Symbol *symbols; /* [n + 1] for a word of n bytes */
    /* [n_heap], capacity 2 n: possible merges, by score or negative rank */
    HeapItem *heap;
    int n_symbols, n_heap;
} Merger;

/* Pushes the merge of symbol `left` with the next one onto the heap, if there
 * is a rule or a piece with their text. */
static void push_merge(Merger *m, int left) {
    const Pieces *p = m->pieces;
    Symbol *a = &m->symbols[left], *b = &m->symbols[a->next];
    a->merged = -1;
    if (!a->length || !b->length)
        return;
    const MergeRule *rule = merges_rule(p, a->id, b->id);
    if (rule)
        a->merged = rule->result;
    else if (!p->rules)
        a->merged = pieces_find(p, m->word + a->start, a->length + b->length);
    if (a->merged < 0)
        return;
    a->score = rule ? -(float)rule->rank
                    : p->list[a->merged].score; /* exact: see MAX_RULES */
    heap_push(m->heap, m->n_heap++, (HeapItem){a->score, left});
}

static void add_symbol(Merger *m, Symbol symbol) {
    symbol.previous = m->n_symbols++;
    m->symbols[symbol.previous].next = m->n_symbols;
    m->symbols[m->n_symbols] = symbol;
}

/* Adds the byte pieces of a character without a piece. With rules and without
 * byte pieces it becomes one <unk>, which may absorb the next unknown
 * characters. Without <unk> it is dropped, as in Hugging Face's library. */
static void add_unknown(Merger *m, const char *bytes, size_t n) {
    const Pieces *p = m->pieces;
    bool unknown = p->no_bytes;
    for (size_t i = 0; i < n && p->rules; i++)
        unknown |= p->byte_piece[(uint8_t)bytes[i]] == p->unk;
    if (unknown && p->fuses_unknown && m->symbols[m->n_symbols].id == p->unk)
        return;
    for (size_t i = 0; i < (unknown ? 1 : n); i++) {
        int id = unknown ? p->unk : p->byte_piece[(uint8_t)bytes[i]];
        if (id >= 0)
            add_symbol(m, (Symbol){.id = id});
    }
}

/* Splits the word into bytes, or into characters and invalid bytes. */
static void split(Merger *m, size_t size) {
    *m->symbols = (Symbol){.id = -1};
    for (size_t at = 0, length = 1; at < size; at += length) {
        const char *text = m->word + at;
        if (!m->pieces->byte_level)
            utf8_read(text, size - at, &length);
        int id = pieces_find(m->pieces, text, length);
        if (id < 0)
            add_unknown(m, text, length);
        else
            add_symbol(
                m, (Symbol){.start = (int)at, .length = (int)length, .id = id});
    }
}

static void merge(Merger *m) {
    for (int i = 1; i <= m->n_symbols; i++)
        push_merge(m, i);
    while (m->n_heap > 0) {
        HeapItem best = heap_pop(m->heap, m->n_heap--);
        Symbol *a = &m->symbols[best.id];
        /* stale: it or its neighbour has merged */
        if (a->merged < 0 || a->score != best.value)
            continue;
        Symbol *b = &m->symbols[a->next];
        a->id = a->merged;
        a->length += b->length;
        a->next = b->next;
        m->symbols[b->next].previous = best.id;
        b->merged = -1;
        push_merge(m, a->previous);
        push_merge(m, best.id);
    }
}

int merges_encode(const Pieces *p, const char *word, size_t n, Tokens *out) {
    Merger m = {.pieces = p, .word = word};
    int status = -1;
    m.symbols = allocate(n + 1, sizeof *m.symbols);
    /* at most n initial merges; each of the < n steps removes one and adds
     * two */
    m.heap = m.symbols ? allocate(n, 2 * sizeof *m.heap) : NULL;
    if (m.heap) {
        split(&m, n);
        merge(&m);
        status = 0;
        for (int i = m.symbols->next; i && !status; i = m.symbols[i].next)
            status = tokens_add(out, m.symbols[i].id);
    }
    free(m.symbols);
    free(m.heap);
    return status;
}
