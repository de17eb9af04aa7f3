/* bpe.c: byte-pair encoding by ranked merges.
 *
 * Owns the rules (Sennrich et al. 2016): which two neighbours merge into what,
 * and in which order; and the alphabet of byte-level vocabularies (Radford et
 * al. 2019), in which every byte has a printable character for its name, such
 * as U+0120 for a space. Merging itself is tokenizer.c's, the files are read by
 * gguf.c and tokenizer_json.c.
 */
#include "text/merges.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/pieces.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = 1 << 24 }; /* a float holds every rank */

/* ---- the alphabet --------------------------------------------------------------------- */

/* Printable Latin-1 is its own name; the other bytes are named U+0100, U+0101, ... in their order. */
static bool names_itself(uint32_t code) { return (code > 0x20 && code < 0x7f) || (code > 0xa0 && code != 0xad); }

int bpe_byte_name(char name[2], uint8_t byte) {
    uint32_t code = byte;
    if (!names_itself(byte)) {
        code = 0x100;
        for (uint32_t b = 0; b < byte; b++) code += !names_itself(b);
    }
    if (code < 0x80) {
        name[0] = (char)code;
        return 1;
    }
    name[0] = (char)(0xc0 | code >> 6);
    name[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

/* Bytes by code point of their names, -1: it names none. */
enum { N_CODES = 0x144 };

static void make_alphabet(int16_t bytes[N_CODES]) {
    for (int code = 0; code < N_CODES; code++) bytes[code] = -1;
    for (int byte = 0; byte < 256; byte++) {
        char name[2];
        const int n = bpe_byte_name(name, (uint8_t)byte);
        bytes[n == 1 ? name[0] : (name[0] & 0x1f) << 6 | (name[1] & 0x3f)] = (int16_t)byte;
    }
}

/* Writes the bytes that a name stands for over it; -1 if it has other characters. */
static int decode_name(const int16_t alphabet[N_CODES], char *s, int n) {
    int length = 0;
    for (int at = 0, step; at < n; at += step) {
        step = utf8_character(s + at, (size_t)(n - at));
        if (step < 1 || step > 2) return -1;
        const int code = step == 1 ? s[at] : (s[at] & 0x1f) << 6 | (s[at + 1] & 0x3f);
        if (code >= N_CODES || alphabet[code] < 0) return -1;
    }
    for (int at = 0, step; at < n; at += step) {
        step = s[at] & 0x80 ? 2 : 1;
        s[length++] = (char)alphabet[step == 1 ? s[at] : (s[at] & 0x1f) << 6 | (s[at + 1] & 0x3f)];
    }
    return length;
}

/* ---- rules ------------------------------------------------------------------------------- */

const MergeRule *bpe_rule(const Merges *m, int left, int right) {
    int low = m->first[left], high = m->first[left + 1]; /* it is in [low, high) */
    while (low < high) {
        const int middle = (low + high) / 2;
        if (m->rules[middle].right < right)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->first[left + 1] && m->rules[low].right == right ? &m->rules[low] : NULL;
}

static int compare_rules(const void *a, const void *b) {
    const MergeRule *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    if (x->right != y->right) return x->right < y->right ? -1 : 1;
    return y->rank - x->rank;
}

/* Sorts them; of rules for the same neighbours the last one counts. */
static int index_rules(Merges *m, int n_pieces) {
    int n = 0;
    m->first = allocate((size_t)n_pieces + 1, sizeof *m->first);
    if (!m->first) return -1;
    qsort(m->rules, (size_t)m->n, sizeof *m->rules, compare_rules);
    for (int i = 0; i < m->n; i++)
        if (!n || m->rules[i].left != m->rules[n - 1].left || m->rules[i].right != m->rules[n - 1].right)
            m->rules[n++] = m->rules[i];
    m->n = n;
    for (int left = 0, at = 0; left <= n_pieces; left++) {
        while (at < n && m->rules[at].left < left) at++;
        m->first[left] = at;
    }
    return 0;
}

/* ---- building ------------------------------------------------------------------------------ */

int bpe_begin(Tokenizer *t, size_t n) {
    if (n > MAX_RULES) return fail("%zu merges, expected at most %d", n, MAX_RULES);
    t->merges.rules = allocate(n + 1, sizeof *t->merges.rules);
    return t->merges.rules ? tokenizer_index(t) : -1;
}

int bpe_add_pair(Tokenizer *t, const char *path, const char *left, size_t n_left, const char *right, size_t n_right) {
    Merges *m = &t->merges;
    MergeRule rule = {-1, -1, -1, m->n};
    char *name = n_left + n_right <= (size_t)t->max_length ? allocate(n_left + n_right + 1, 1) : NULL;
    if (name) {
        memcpy(mempcpy(name, left, n_left), right, n_right);
        rule.left = tokenizer_find(t, name, (int)n_left);
        rule.right = tokenizer_find(t, name + n_left, (int)n_right);
        rule.result = tokenizer_find(t, name, (int)(n_left + n_right));
        free(name);
    }
    if (rule.left < 0 || rule.right < 0 || rule.result < 0)
        return fail("%s: merge %d is of '%.*s' and '%.*s', expected pieces that together are a piece", path, m->n,
                    n_left < 32 ? (int)n_left : 32, left, n_right < 32 ? (int)n_right : 32, right);
    m->rules[m->n++] = rule;
    return 0;
}

int bpe_add(Tokenizer *t, const char *path, const char *pair, size_t n) {
    const char *space = n > 1 ? memchr(pair + 1, ' ', n - 1) : NULL; /* a piece has no space, but may be one */
    if (!space)
        return fail("%s: merge %d is '%.*s', expected two pieces", path, t->merges.n, n < 32 ? (int)n : 32, pair);
    const size_t n_left = (size_t)(space - pair);
    return bpe_add_pair(t, path, pair, n_left, space + 1, n - n_left - 1);
}

int bpe_end(Tokenizer *t) {
    int16_t alphabet[N_CODES];
    make_alphabet(alphabet);
    for (int id = 0; id < t->n_pieces; id++) {
        Piece *p = &t->pieces[id];
        char *name = t->text + (p->text - t->text);
        if (p->kind != PIECE_TEXT) continue;
        const int n = t->byte_level ? decode_name(alphabet, name, p->length) : piece_unmark(name, p->length);
        if (n < 0)
            p->kind = PIECE_CONTROL; /* text never becomes it */
        else
            p->length = n;
    }
    free(t->merged.slots);
    free(t->matched.slots);
    t->merged = t->matched = (IdTable){0};
    return index_rules(&t->merges, t->n_pieces) || tokenizer_index(t) ? -1 : 0;
}
