/* panels.c: from rows in a file to panels.
 *
 * Owns the transposition, for a stretch of columns (products of weights that
 * lie in the file do it on the way) and for whole models: small ones are
 * re-packed once, so that decoding reads them at the speed of the cache. What
 * a panel looks like is panels.h.
 */
#include "kernels/panels.h"

#include "kernels/simd.h"
#include "kernels/tensor.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The LANES rows of a panel; behind the last row it comes again. */
static void find_rows(const uint8_t *rows[LANES], const uint8_t *data, size_t row_bytes, const Tensor *w, int panel) {
    for (int j = 0; j < LANES; j++) {
        const int row = panel * LANES + j;
        rows[j] = data + (size_t)(row < w->rows ? row : w->rows - 1) * row_bytes;
    }
}

/* n words of every row from byte `at` on, each a vector at out. */
INLINE void pack_words(uint8_t *out, const uint8_t *const *rows, size_t at, int n) {
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        vi words[4];
        vtranspose(words, rows, at + (size_t)i * 4);
        memcpy(out + i * VBYTES, words, sizeof words);
    }
    for (; i < n; i++)
        for (int j = 0; j < LANES; j++) memcpy(out + i * VBYTES + j * 4, rows[j] + at + (size_t)i * 4, 4);
}

/* Bytes of n vectors become ready for vdot. */
INLINE void add_offset(uint8_t *out, int n) {
    for (int i = 0; i < n * VBYTES; i++) out[i] ^= BYTE_OFFSET;
}

/* n float16 numbers of every row. */
INLINE void pack_halves(uint8_t *out, const uint8_t *const *rows, size_t at, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < LANES; j++) memcpy(out + (i * LANES + j) * 2, rows[j] + at + (size_t)i * 2, 2);
}

/* n numbers of two bytes, as words of two; the last may be alone. */
static void pack_pairs(uint8_t *out, const uint8_t *const *rows, size_t at, int n) {
    pack_words(out, rows, at, n / 2);
    out += n / 2 * VBYTES;
    for (int j = 0; n % 2 && j < LANES; j++) {
        uint32_t word = 0;
        memcpy(&word, rows[j] + at + (size_t)(n - 1) * 2, 2);
        memcpy(out + j * 4, &word, 4);
    }
}

/* Word q of group i of a Q6_K block: in the file its low bits and its high ones lie far apart. */
INLINE vi q6_quad(const vi *words, int i, int q) {
    const int half = i / 8, part = i % 8 / 2, at = i % 2 * 4 + q;
    return bits_at(words[half * 16 + part % 2 * 8 + at], part / 2 * 4, 4) |
           bits_at(words[32 + half * 8 + at], part * 2, 2) << 4;
}

/* The words of a Q6_K block: its scales, then group by group two words of low bits and one of high bits. */
INLINE void pack_q6(uint8_t *out, const uint8_t *const *rows, size_t at) {
    vi words[48];
    pack_words((uint8_t *)words, rows, at, 48);
    pack_words(out, rows, at + 192, 4);
    out += 4 * VBYTES;
    UNROLL
    for (int i = 0; i < 16; i++, out += 3 * VBYTES) {
        const vi a = q6_quad(words, i, 0), b = q6_quad(words, i, 1), c = q6_quad(words, i, 2), d = q6_quad(words, i, 3);
        const vi group[3] = {bits_at(a, 0, 4) | bits_at(b, 0, 4) << 4, bits_at(c, 0, 4) | bits_at(d, 0, 4) << 4,
                             bits_at(a, 4, 2) | bits_at(b, 4, 2) << 2 | bits_at(c, 4, 2) << 4 | bits_at(d, 4, 2) << 6};
        memcpy(out, group, sizeof group);
    }
}

INLINE void pack_blocks(uint8_t *out, Type type, const uint8_t *const *rows, size_t at, int n) {
    const BlockParts b = block_parts(type);
    for (; n > 0; n--, at += (size_t)b.bytes, out += b.bytes * LANES) {
        pack_halves(out, rows, at + (size_t)b.halves_at, b.halves);
        if (type == TYPE_Q6_K)
            pack_q6(out + 2 * LANES, rows, at);
        else
            pack_words(out + b.halves * 2 * LANES, rows, at + (size_t)b.words_at, b.words);
        if (type == TYPE_Q8_0) add_offset(out + 2 * LANES, b.words);
    }
}

/* n groups of int8 and their scales, ready. */
static void pack_groups(uint8_t *out, const Tensor *w, int panel, int first, int n) {
    const uint8_t *rows[LANES], *scales[LANES];
    const int quads = w->group / 4;
    find_rows(rows, w->data, (size_t)w->cols, w, panel);
    find_rows(scales, w->scales, (size_t)(w->cols / w->group) * sizeof(float), w, panel);
    for (int g = first; g < first + n; g++) {
        pack_words(out, rows, (size_t)g * (size_t)w->group, quads);
        add_offset(out, quads);
        pack_words(out + quads * VBYTES, scales, (size_t)g * sizeof(float), 1);
        out += ready_bytes(quads, false);
    }
}

/* Where column `col` of w is in a row, in bytes. */
static size_t column_at(const Tensor *w, int col) {
    const Tensor part = {.type = w->type, .rows = 1, .cols = col};
    return tensor_bytes(&part, 1);
}

void panel_fetch(const Tensor *w, int panel, int col, int n) {
    if (w->type == TYPE_I8 || panel * LANES >= w->rows) return;
    const uint8_t *rows[LANES];
    const size_t at = column_at(w, col), end = column_at(w, col + n < w->cols ? col + n : w->cols);
    find_rows(rows, w->data, tensor_bytes(w, 1), w, panel);
    for (int j = 0; j < LANES; j++)
        for (size_t b = at; b < end; b += 64) __builtin_prefetch(rows[j] + b, 0, 2);
}

void panel_pack(uint8_t *out, const Tensor *w, int panel, int col, int n) {
    if (w->type == TYPE_I8) {
        pack_groups(out, w, panel, col / w->group, n / w->group);
        return;
    }
    const uint8_t *rows[LANES];
    const size_t at = column_at(w, col);
    const int blocks = n / type_block(w->type);
    find_rows(rows, w->data, tensor_bytes(w, 1), w, panel);
    switch (w->type) {
    case TYPE_F32: pack_words(out, rows, at, n); break;
    case TYPE_F16:
    case TYPE_BF16: pack_pairs(out, rows, at, n); break;
    case TYPE_Q8_0: pack_blocks(out, TYPE_Q8_0, rows, at, blocks); break;
    case TYPE_Q4_0: pack_blocks(out, TYPE_Q4_0, rows, at, blocks); break;
    case TYPE_Q4_1: pack_blocks(out, TYPE_Q4_1, rows, at, blocks); break;
    case TYPE_Q5_0: pack_blocks(out, TYPE_Q5_0, rows, at, blocks); break;
    case TYPE_Q5_1: pack_blocks(out, TYPE_Q5_1, rows, at, blocks); break;
    case TYPE_Q4_K: pack_blocks(out, TYPE_Q4_K, rows, at, blocks); break;
    case TYPE_Q5_K: pack_blocks(out, TYPE_Q5_K, rows, at, blocks); break;
    default: pack_blocks(out, TYPE_Q6_K, rows, at, blocks); break;
    }
}
