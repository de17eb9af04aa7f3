/* panels.h: weights as the products want them, LANES rows side by side.
 *
 * Owns the layout of a panel and how its parts become vectors. A panel holds
 * LANES rows of a weight, and lane j of every vector is row j's. It has the
 * bytes of its rows, in another order: for the float types column by column
 * (those of two bytes by pairs), for GGUF's blocks block by block, each part of
 * a block (float16 scales, then words of four bytes) for all rows before the next
 * part. The layouts of the blocks are explained, and unpacked in plain scalar
 * code, in quant.c; the tests hold one against the other. How rows become panels
 * is panels.c's, what is done with them matmul.c's.
 */
#ifndef NORMA_PANELS_H
#define NORMA_PANELS_H

#include "kernels/simd.h"
#include "kernels/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Where the parts of a block are in a row: float16 numbers, words of four bytes. */
typedef struct {
    int bytes;
    int halves, halves_at;
    int words, words_at;
} BlockParts;

INLINE BlockParts block_parts(Type type) {
    switch (type) {
    case TYPE_Q8_0: return (BlockParts){34, 1, 0, 8, 2};
    case TYPE_Q4_0: return (BlockParts){18, 1, 0, 4, 2};
    case TYPE_Q4_1: return (BlockParts){20, 2, 0, 4, 4};
    case TYPE_Q5_0: return (BlockParts){22, 1, 0, 5, 2};
    case TYPE_Q5_1: return (BlockParts){24, 2, 0, 5, 4};
    case TYPE_Q4_K: return (BlockParts){144, 2, 0, 35, 4};
    case TYPE_Q5_K: return (BlockParts){176, 2, 0, 43, 4};
    default: return (BlockParts){210, 1, 208, 52, 0}; /* Q6_K: words in another order */
    }
}

/* A group: weights that share a scale, and perhaps an offset. (Inline, for the
 * products are compiled for each type: what is constant there must be seen.) */
INLINE int group_weights(Type type) { return type == TYPE_Q6_K ? 16 : 32; }
INLINE int block_groups(Type type) { return type == TYPE_Q6_K ? 16 : type == TYPE_Q4_K || type == TYPE_Q5_K ? 8 : 1; }
INLINE bool group_has_min(Type type) {
    return type == TYPE_Q4_1 || type == TYPE_Q5_1 || type == TYPE_Q4_K || type == TYPE_Q5_K;
}

/* ---- parts of a block, for all rows of the panel --------------------------------- */

INLINE vf block_half(const uint8_t *block, int i) { return vload_f16(block + i * 2 * LANES, LANES); }

INLINE vi block_word(Type type, const uint8_t *block, int i) {
    vi v;
    memcpy(&v, block + (block_parts(type).halves * 2 + i * 4) * LANES, sizeof v);
    return v;
}

/* To the right, or if n < 0 to the left. */
INLINE vi vshift(vi v, int n) { return n < 0 ? v << -n : v >> n; }

/* The low `bits` of each byte of v >> shift. */
INLINE vi bits_at(vi v, int shift, int bits) { return v >> shift & ((1 << bits) - 1) * 0x01010101; }

/* 16 in each byte whose bit is set: bits i to i + 3 of v for the four bytes. */
INLINE vi fifth_bits(vi v, int i) {
    v = v >> i & 15;
    return ((v | v << 7 | v << 14 | v << 21) & 0x01010101) << 4;
}

/* Six-bit scale, or min, of group i of a Q4_K or Q5_K block, from its 12 bytes.
 * (Four at a time, of which the compiler keeps the other three.) */
INLINE vi six_bits(Type type, const uint8_t *block, int i, bool min) {
    const vi own = block_word(type, block, min), low = block_word(type, block, 2);
    const vi four = i < 4 ? bits_at(own, 0, 6) : bits_at(low, 4 * min, 4) | (own >> 2 & 0x30303030);
    return four >> 8 * (i % 4) & 255;
}

/* The byte that stands for a weight of 0. Those of Q8_0 are packed with an offset. */
INLINE int block_zero(Type type) {
    switch (type) {
    case TYPE_Q8_0: return BYTE_OFFSET;
    case TYPE_Q4_0: return 8;
    case TYPE_Q5_0: return 16;
    case TYPE_Q6_K: return 32;
    default: return 0;
    }
}

/* Four weights of each row, as bytes for vdot: word `q` of group i. */
INLINE vi block_quad(Type type, const uint8_t *block, int i, int q) {
    switch (type) {
    case TYPE_Q8_0: return block_word(type, block, q);
    case TYPE_Q4_0:
    case TYPE_Q4_1: return bits_at(block_word(type, block, q % 4), q / 4 * 4, 4);
    case TYPE_Q5_0:
    case TYPE_Q5_1:
        return bits_at(block_word(type, block, 1 + q % 4), q / 4 * 4, 4) |
               fifth_bits(block_word(type, block, 0), 4 * q);
    case TYPE_Q4_K: return bits_at(block_word(type, block, 3 + i / 2 * 8 + q), i % 2 * 4, 4);
    case TYPE_Q5_K:
        return bits_at(block_word(type, block, 11 + i / 2 * 8 + q), i % 2 * 4, 4) |
               (vshift(block_word(type, block, 3 + q), i - 4) & 0x10101010);
    default: /* Q6_K: after the scales two words of low bits and one of high bits for each group */
        return bits_at(block_word(type, block, 4 + i * 3 + q / 2), q % 2 * 4, 4) |
               (vshift(block_word(type, block, 4 + i * 3 + 2), q * 2 - 4) & 0x30303030);
    }
}

INLINE vf block_scale(Type type, const uint8_t *block, int i) {
    const vf d = block_half(block, 0);
    if (type == TYPE_Q4_K || type == TYPE_Q5_K) return d * vfloat(six_bits(type, block, i, false));
    if (type == TYPE_Q6_K) return d * vfloat(block_word(type, block, i / 4) << (24 - i % 4 * 8) >> 24);
    return d;
}

INLINE vf block_min(Type type, const uint8_t *block, int i) {
    const vf m = block_half(block, 1);
    return type == TYPE_Q4_K || type == TYPE_Q5_K ? -(m * vfloat(six_bits(type, block, i, true))) : m;
}

/* ---- float types: column c ------------------------------------------------------------ */

/* Bytes of n columns; float16 and bfloat16 are kept in pairs. */
INLINE size_t columns_bytes(Type type, int n) { return (size_t)(type == TYPE_F32 ? n : (n + 1) / 2) * VBYTES; }

INLINE vf load_column(Type type, const uint8_t *panel, int c) {
    vi v;
    memcpy(&v, panel + (type == TYPE_F32 ? c : c / 2) * VBYTES, sizeof v);
    if (type == TYPE_F16) return vfrom_f16(c % 2 ? v >> 16 : v);
    if (type == TYPE_BF16) return (vf)(c % 2 ? v & ~0xffff : v << 16);
    return (vf)v;
}

/* ---- int8 groups: ready to be multiplied ---------------------------------------------- */

/* A group of any type once it is unpacked, and of TYPE_I8 always: its quads with
 * the offset on, its scale and, where the type has one, its min as float32. */
INLINE size_t ready_bytes(int quads, bool min) { return (size_t)(quads + 1 + min) * VBYTES; }

/* Its quads: the byte that stands for 0 is BYTE_OFFSET in all of them. */
INLINE vb ready_quad(Type type, const uint8_t *block, int i, int q) {
    typedef uint8_t bytes __attribute__((vector_size(VBYTES))); /* (these wrap around) */
    return (vb)((bytes)block_quad(type, block, i, q) + (uint8_t)(BYTE_OFFSET - block_zero(type)));
}

/* ---- sizes ---------------------------------------------------------------------------- */

/* Bytes of that many columns of a packed panel. */
INLINE size_t panel_bytes(const Tensor *w, int cols) {
    const size_t n = (size_t)cols;
    switch (w->type) {
    case TYPE_F32:
    case TYPE_F16:
    case TYPE_BF16: return columns_bytes(w->type, cols);
    case TYPE_I8: return (n + n / (size_t)w->group * 4) * LANES;
    case TYPE_Q4_K:
    case TYPE_Q5_K:
    case TYPE_Q6_K: return n / 256 * (size_t)block_parts(w->type).bytes * LANES;
    default: return n / 32 * (size_t)block_parts(w->type).bytes * LANES;
    }
}

/* ---- panels.c ---------------------------------------------------------------------------- */

/* Packs columns [col, col + n) of a panel, whole blocks or groups; out is aligned to nothing. */
void panel_pack(uint8_t *out, const Tensor *w, int panel, int col, int n);

/* Asks for what panel_pack will read. */
void panel_fetch(const Tensor *w, int panel, int col, int n);

#endif
