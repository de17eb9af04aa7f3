/* panels.c: packs rows of a file into panels: whole weights, or some columns
 * during a product. panels.h defines the layout of a panel; formats/pack.c
 * decides which weights are packed.
 * Tests: quant, matmul, pack. */
#include "kernels/panels.h"

/* Sets rows[] to the LANES rows of a panel in `data`. Lanes after the last row
 * of w repeat the last row. */
static void find_rows(const uint8_t *rows[LANES], const uint8_t *data,
                      size_t row_bytes, const Tensor *w, int panel) {
    for (int j = 0; j < LANES; j++) {
        int row = min_int(panel * LANES + j, w->rows - 1);
        rows[j] = data + row * row_bytes;
    }
}

/* Packs n bytes of every row, from byte `at` of the row on, as words. The last
 * word is padded with zeros. */
INLINE void pack_bytes(uint8_t *out, const uint8_t *const *rows, size_t at,
                       int n) {
    int i = 0;
    for (; i + 16 <= n; i += 16, out += 4 * VBYTES) {
        vi words[4];
        vtranspose(words, rows, at + i);
        memcpy(out, words, sizeof words);
    }
    for (; i < n; i += 4, out += VBYTES)
        for (int j = 0; j < LANES; j++) {
            uint32_t word = 0;
            memcpy(&word, rows[j] + at + i, min_int(n - i, 4));
            memcpy(out + j * 4, &word, 4);
        }
}

/* Quad q of group i of a Q6_K block as stored in the file, with low and high
 * bits in different places (quant.c). */
INLINE vi q6_quad(const vi *words, int i, int q) {
    int half = i / 8, part = i % 8 / 2, at = i % 2 * 4 + q;
    return bits_at(words[half * 16 + part % 2 * 8 + at], part / 2 * 4, 4) |
           bits_at(words[32 + half * 8 + at], part * 2, 2) << 4;
}

/* The words of a Q6_K block: its scales, then for each group two words of low
 * bits and one of high bits. */
INLINE void pack_q6(uint8_t *out, const uint8_t *const *rows, size_t at) {
    vi words[48];
    pack_bytes((uint8_t *)words, rows, at, 192);
    pack_bytes(out, rows, at + 192, 16);
    out += 4 * VBYTES;
    for (int i = 0; i < 16; i++, out += 3 * VBYTES) {
        vi group[3] = {0};
        UNROLL(q, 4) {
            vi quad = q6_quad(words, i, q);
            group[q / 2] |= bits_at(quad, 0, 4) << q % 2 * 4;
            group[2] |= bits_at(quad, 4, 2) << q * 2;
        }
        memcpy(out, group, sizeof group);
    }
}

/* Quad q of group i of a Q3_K block as stored in the file. */
INLINE vi q3_quad(const vi *words, int i, int q) {
    int at = i % 2 * 4 + q;
    return bits_at(words[8 + i / 8 * 8 + at], i / 2 % 4 * 2, 2) |
           bits_at(words[at], i / 2, 1) << 2;
}

/* The words of a Q3_K block: its scales, then for each two groups three words,
 * whose bytes have three bits of a quad of either group and two bits of their
 * fourth quads. */
INLINE void pack_q3(uint8_t *out, const uint8_t *const *rows, size_t at) {
    vi words[24];
    pack_bytes((uint8_t *)words, rows, at, 96);
    pack_bytes(out, rows, at + 96, 12);
    out += 3 * VBYTES;
    for (int i = 0; i < 16; i += 2) {
        vi fourth = q3_quad(words, i, 3) | q3_quad(words, i + 1, 3) << 3;
        for (int q = 0; q < 3; q++, out += VBYTES) {
            vi word = q3_quad(words, i, q) | q3_quad(words, i + 1, q) << 3 |
                      bits_at(fourth, 2 * q, 2) << 6;
            memcpy(out, &word, sizeof word);
        }
    }
}

/* Packs n blocks of every row, from byte `at` of the row on. Adds the offset of
 * vdot to signed bytes. */
static void pack_blocks(uint8_t *out, Type type, const uint8_t *const *rows,
                        size_t at, int n) {
    int halves = block_halves(type), words = block_words(type),
        bytes = TYPES[type].bytes;
    int halves_at = TYPES[type].at, words_at = halves_at ? 0 : 2 * halves;
    for (; n > 0; n--, at += bytes, out += bytes * LANES) {
        uint8_t *const out_words = out + 2 * halves * LANES;
        for (int i = 0; i < halves; i++)
            for (int j = 0; j < LANES; j++)
                memcpy(out + (i * LANES + j) * 2,
                       rows[j] + at + halves_at + i * 2, 2);
        if (type == TYPE_Q6_K)
            pack_q6(out_words, rows, at);
        else if (type == TYPE_Q3_K)
            pack_q3(out_words, rows, at);
        else
            pack_bytes(out_words, rows, at + words_at, 4 * words);
        for (int i = 0; type == TYPE_Q8_0 && i < words * VBYTES; i++)
            out_words[i] ^= BYTE_OFFSET;
    }
}

/* Packs n columns of TYPE_I8, whole groups, and their scales; adds the offset
 * of vdot. The padding bytes of an incomplete quad are 0, so their products are
 * 0. */
static void pack_groups(uint8_t *out, const Tensor *w,
                        const uint8_t *const *rows, int panel, int col, int n) {
    const uint8_t *scales[LANES];
    int quads = group_quads(w->group);
    find_rows(scales, w->scales, w->cols / w->group * sizeof(float), w, panel);
    for (int c = col; c < col + n;
         c += w->group, out += group_bytes(quads, 0)) {
        pack_bytes(out, rows, c, w->group);
        for (int i = 0; i < quads * VBYTES; i++)
            if (i / VBYTES * 4 + i % 4 < w->group)
                out[i] ^= BYTE_OFFSET;
        pack_bytes(out + quads * VBYTES, scales, c / w->group * sizeof(float),
                   sizeof(float));
    }
}

void panel_pack(uint8_t *out, const Tensor *w, int panel, int col, int n) {
    const uint8_t *rows[LANES];
    size_t at = type_bytes(w->type, col);
    find_rows(rows, w->data, type_bytes(w->type, w->cols), w, panel);
    if (w->type == TYPE_I8)
        pack_groups(out, w, rows, panel, col, n);
    else if (type_takes_int8(w->type))
        pack_blocks(out, w->type, rows, at, n / TYPES[w->type].weights);
    else
        pack_bytes(out, rows, at, TYPES[w->type].bytes * n);
}

static int n_panels(const Tensor *w) {
    return (w->rows + LANES - 1) / LANES;
}

size_t panels_bytes(const Tensor *w) {
    return (n_panels(w) * packed_bytes(w, w->cols) + CACHE_LINE - 1) /
           CACHE_LINE * CACHE_LINE;
}

void tensor_pack(Tensor *w, uint8_t *panels, int n_threads) {
    size_t bytes = packed_bytes(w, w->cols);
#pragma omp parallel for num_threads(n_threads)
    for (int panel = 0; panel < n_panels(w); panel++)
        panel_pack(panels + panel * bytes, w, panel, 0, w->cols);
    w->panels = panels;
}
