/* panels.h: weights as the products read them, LANES rows side by side.
 *
 * Owns the two layouts of a panel, and the code that turns its parts into
 * vectors. A panel holds LANES rows of a weight: lane j of every vector belongs
 * to row j.
 *
 * Packed: the bytes of the rows in another order. Float types are stored column
 * by column (two-byte types in pairs of columns). GGUF's types are stored block
 * by block: the float16 numbers of a block, then its words of four bytes, each
 * stored for all rows before the next.
 *
 * Unpacked: ready to be multiplied. Float types are columns of float32. Other
 * types are groups, that is, weights that share a scale. A group is stored as
 * quads (four bytes of each row), then its scale, then its min if the type has
 * one. TYPE_F32 and TYPE_I8 have the same layout packed and unpacked.
 *
 * quant.c defines in plain code what the bits of a block mean. panels.c makes
 * panels from rows, tiles.h multiplies them.
 */
#pragma once

#include "kernels/simd.h"
#include "kernels/tensor.h"

/* Number of float16 numbers of a block (the scale, and the min or IQ4_XS's bits
 * of scales), and of its words of four bytes. */
INLINE int block_halves(Type type) {
    return TYPES[type].mins || type == TYPE_IQ4_XS ? 2 : 1;
}
INLINE int block_words(Type type) {
    return (TYPES[type].bytes - 2 * block_halves(type)) / 4;
}

INLINE vi block_word(Type type, const uint8_t *block, int i) {
    vi v;
    memcpy(&v, block + (block_halves(type) * 2 + i * 4) * LANES, sizeof v);
    return v;
}

/* v >> n, or v << -n. */
INLINE vi vshift(vi v, int n) {
    return n < 0 ? v << -n : v >> n;
}

/* The bits of v that are in `mask` in each of the four bytes. */
INLINE vi byte_bits(vi v, int mask) {
    return v & mask * 0x01010101;
}

/* The low `bits` of each byte of v >> shift. */
INLINE vi bits_at(vi v, int shift, int bits) {
    return byte_bits(v >> shift, (1 << bits) - 1);
}

/* The bytes of v, each times the byte `factor`; no product exceeds a byte. */
INLINE vi bytes_times(vi v, vi factor) {
    return (vi)((vs)v * (vs)(factor | factor << 16));
}

/* Bits i to i + 3 of v, each as bit 4 of one of the four bytes. */
INLINE vi fifth_bits(vi v, int i) {
    v = v >> i & 15;
    return ((v | v << 7 | v << 14 | v << 21) & 0x01010101) << 4;
}

/* The 6-bit scale, or min, of group i of a Q4_K or Q5_K block. The scales of
 * four groups are computed at once, in the bytes of a word; for the other three
 * groups the compiler reuses the word. */
INLINE vi six_bits(Type type, const uint8_t *block, int i, bool min) {
    vi high = block_word(type, block, min), low = block_word(type, block, 2);
    vi four = i < 4 ? bits_at(high, 0, 6)
                    : bits_at(low, 4 * min, 4) | (high >> 2 & 0x30303030);
    return four >> 8 * (i % 4) & 255;
}

/* The byte that stands for a weight of 0. Signed bytes are packed with the
 * offset of vdot. */
INLINE int zero_byte(Type type) {
    return TYPES[type].mins || TYPES[type].zero ? TYPES[type].zero
                                                : BYTE_OFFSET;
}

/* How many quads of unsigned weights AVX2 adds in 16 bits: two products with
 * activations of up to 127 are at most 254 times the largest byte. 0: it
 * multiplies each by itself. */
INLINE int quads_added(Type type) {
    bool is_signed = !TYPES[type].mins && !TYPES[type].zero;
    return LANES != 8 || SIMD_VNNI || is_signed           ? 0
           : type == TYPE_Q2_K || TYPES[type].group == 16 ? 2
                                                          : 4;
}

/* Quad q of a group in four words, from word `first` on: the lower halves of
 * their bytes, then the upper ones. */
INLINE vi nibbles(Type type, const uint8_t *block, int first, int q) {
    return bits_at(block_word(type, block, first + q % 4), q / 4 * 4, 4);
}

/* Bytes of IQ4_NL and IQ4_XS, packed like other signed bytes. */
INLINE vi iq4_bytes(vi indices) {
    return vlookup(IQ4_INTEGERS, indices) ^
           (int32_t)(BYTE_OFFSET * 0x01010101u);
}

/* How far the bytes that block_quad returns for group i are shifted to the
 * left. A tile shifts the sum of a group back, which costs less than shifting
 * every quad. */
INLINE int quad_shift(Type type, int i) {
    return type == TYPE_Q3_K ? i % 2 * 3 : 0;
}

/* The fourth quads of two groups of Q3_K, from the two upper bits of the bytes
 * of their three words. */
INLINE vi fourth_quads(const uint8_t *block, int first) {
    vi quads = {0};
    UNROLL(i, 3) {
        vi word = block_word(TYPE_Q3_K, block, first + i);
        quads |= byte_bits(word >> (6 - 2 * i), 3 << 2 * i);
    }
    return quads;
}

/* The 4-bit scale of half i of the groups of Q2_K (shift 0), or its min (shift
 * 4). */
INLINE vi half_scale(const uint8_t *block, int i, int shift) {
    return block_word(TYPE_Q2_K, block, i / 4) >> (i % 4 * 8 + shift) & 15;
}

/* The words after the scales of the K types, in the order of panels.c. Quad q
 * of group i is stored as follows.
 *
 * Q2_K: two bits of word q of the 8 words that four groups share; each half of
 * a group has its own scale. */
INLINE vi q2_k_quad(const uint8_t *block, int i, int q) {
    const vi word = block_word(TYPE_Q2_K, block, 4 + i / 4 * 8 + q);
    return bytes_times(bits_at(word, i % 4 * 2, 2),
                       half_scale(block, 2 * i + q / 4, 0));
}

/* Q3_K: three bits of word q of the 3 words that two groups share. */
INLINE vi q3_k_quad(const uint8_t *block, int i, int q) {
    const int first = 3 + i / 2 * 3;
    const vi word = q < 3 ? block_word(TYPE_Q3_K, block, first + q)
                          : fourth_quads(block, first);
    return byte_bits(word, 7 << quad_shift(TYPE_Q3_K, i));
}

/* Q4_K, and the low bits of Q5_K: four bits of word q of the 8 words that two
 * groups share, from word `first` on. */
INLINE vi shared_nibbles(Type type, const uint8_t *block, int first, int i,
                         int q) {
    return bits_at(block_word(type, block, first + i / 2 * 8 + q), i % 2 * 4,
                   4);
}

/* Q5_K: the fifth bit is bit i of word q of the 8 words that all groups
 * share. */
INLINE vi q5_k_quad(const uint8_t *block, int i, int q) {
    const vi fifth = block_word(TYPE_Q5_K, block, 3 + q);
    return shared_nibbles(TYPE_Q5_K, block, 11, i, q) |
           byte_bits(vshift(fifth, i - 4), 1 << 4);
}

/* Q6_K: each group has two words of low bits, of two quads each, and one word
 * of high bits. */
INLINE vi q6_k_quad(const uint8_t *block, int i, int q) {
    const int first = 4 + i * 3;
    const vi low = block_word(TYPE_Q6_K, block, first + q / 2);
    const vi high = block_word(TYPE_Q6_K, block, first + 2);
    return bits_at(low, q % 2 * 4, 4) |
           byte_bits(vshift(high, q * 2 - 4), 3 << 4);
}

/* Quad q of group i, shifted to the left by quad_shift(type, i). */
INLINE vi block_quad(Type type, const uint8_t *block, int i, int q) {
    switch (type) {
    case TYPE_Q8_0: return block_word(type, block, q);
    case TYPE_Q4_0:
    case TYPE_Q4_1: return nibbles(type, block, 0, q);
    case TYPE_Q5_0:
    case TYPE_Q5_1:
        return nibbles(type, block, 1, q) |
               fifth_bits(block_word(type, block, 0), 4 * q);
    case TYPE_IQ4_NL: return iq4_bytes(nibbles(type, block, 0, q));
    case TYPE_IQ4_XS: return iq4_bytes(nibbles(type, block, 1 + i * 4, q));
    case TYPE_Q2_K: return q2_k_quad(block, i, q);
    case TYPE_Q3_K: return q3_k_quad(block, i, q);
    case TYPE_Q4_K: return shared_nibbles(type, block, 3, i, q);
    case TYPE_Q5_K: return q5_k_quad(block, i, q);
    case TYPE_Q6_K: return q6_k_quad(block, i, q);
    case TYPE_F32 ... TYPE_I8: break; /* have no blocks */
    }
    return (vi){0};
}

/* The scale of group i (part 0), or its min `part`. */
INLINE vf block_scale(Type type, const uint8_t *block, int i, int part) {
    bool min = part > 0;
    vf d = vload_f16(block + min * 2 * LANES);
    vi scale = {0};
    switch (type) {
    case TYPE_F32 ... TYPE_I8: break;         /* have no blocks */
    case TYPE_Q8_0 ... TYPE_IQ4_NL: return d; /* one group */
    case TYPE_Q2_K:
        if (!min)
            return d;
        scale = half_scale(block, 2 * i + part - 1, 4);
        break;
    case TYPE_Q3_K:
        scale = bits_at(block_word(type, block, i / 4 % 2), i / 8 * 4, 4) |
                bits_at(block_word(type, block, 2), i / 4 * 2, 2) << 4;
        scale = (scale >> 8 * (i % 4) & 255) - 32;
        break;
    case TYPE_Q4_K:
    case TYPE_Q5_K: scale = six_bits(type, block, i, min); break;
    case TYPE_Q6_K:
        scale = block_word(type, block, i / 4) << (24 - i % 4 * 8) >> 24;
        break;
    case TYPE_IQ4_XS:
        scale = vload_u16(block + 2 * LANES) >> 2 * i & 3;
        scale = (block_word(type, block, 0) >> 4 * i & 15) + (scale << 4) - 32;
        break;
    }
    return (min ? -1.0f : 1.0f) * (d * vfloat(scale));
}

/* Bytes of n columns of a float type; two-byte types are stored in pairs of
 * columns. */
INLINE size_t columns_bytes(Type type, int n) {
    return (size_t)(TYPES[type].bytes == 4 ? n : (n + 1) / 2) * VBYTES;
}

/* Column c of a float type. */
INLINE vf load_column(Type type, const uint8_t *panel, int c) {
    vi v;
    memcpy(&v, panel + (TYPES[type].bytes == 4 ? c : c / 2) * VBYTES, sizeof v);
    switch (type) {
    case TYPE_F32: break;
    case TYPE_F16: return vfrom_f16(c % 2 ? v >> 16 : v);
    case TYPE_BF16: return (vf)(c % 2 ? v & ~0xffff : v << 16);
    case TYPE_I8 ... TYPE_IQ4_XS: break; /* have no columns */
    }
    return (vf)v;
}

/* Quads of a group of n weights. The last one may be incomplete. */
INLINE int group_quads(int n) {
    return (n + 3) / 4;
}

/* Bytes of an unpacked group: quads (BYTE_OFFSET stands for a weight of 0),
 * scale, and min if the type has one. */
INLINE size_t group_bytes(int quads, int mins) {
    return (size_t)(quads + 1 + mins) * VBYTES;
}

/* Bytes of n columns of a packed panel, whole blocks or groups. */
INLINE size_t packed_bytes(const Tensor *w, int n) {
    if (w->type == TYPE_I8)
        return n / w->group * group_bytes(group_quads(w->group), 0);
    if (type_takes_int8(w->type))
        return type_bytes(w->type, n) * LANES;
    return columns_bytes(w->type, n);
}

/* Bytes of n columns of an unpacked panel, not of TYPE_I8. */
INLINE size_t unpacked_bytes(Type type, int n) {
    int group = TYPES[type].group;
    return group ? n / group * group_bytes(group / 4, TYPES[type].mins)
                 : (size_t)n * VBYTES;
}

/* Packs columns [col, col + n) of a panel, whole blocks or groups; out may be
 * unaligned. */
void panel_pack(uint8_t *out, const Tensor *w, int panel, int col, int n);

/* Bytes of all panels of w, rounded up to whole cache lines. */
size_t panels_bytes(const Tensor *w);

/* Packs all of w into w->panels: panels_bytes(w) bytes that the caller owns.
 * Products then read them instead of w->data, with the same bits in the
 * result. */
void tensor_pack(Tensor *w, uint8_t *panels, int n_threads);
