/* panels.c: from rows in a file to panels.
 *
 * Owns the transposition, for a stretch of columns (products of weights that
 * lie in the file do it on the way) and for whole models: small ones are
 * re-packed once, so that decoding reads them at the speed of the cache. What
 * a panel looks like is panels.h.
 */
#include "panels.h"

#include <stdlib.h>
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

/* ---- whole models --------------------------------------------------------------------- */

enum {
    SMALL_MODEL = 64 << 20, /* bytes of weights that are packed before the first token */
    TOKENS_TO_PACK = 8,     /* a larger model's are packed while it runs as many */
    WORTH_SHARING = 4 << 20 /* less is packed sooner than a thread starts */
};

/* The pages of the file that were read for it go: they can come again. */
static void drop_pages(const void *data, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = ((uintptr_t)data + page - 1) / page * page, end = ((uintptr_t)data + bytes) / page * page;
    if (end > first) madvise((void *)first, end - first, MADV_DONTNEED); /* at worst they stay */
}

int tensor_pack(Tensor *w, int n_threads) {
    const int n = (w->rows - 1) / LANES + 1;
    const size_t bytes = panel_bytes(w, w->cols);
    if (w->panels || (w->type == TYPE_I8 && w->group % 4)) return 0;
    uint8_t *panels = allocate_quietly((size_t)n, bytes);
    if (!panels) return -1;
#pragma omp parallel for num_threads(n_threads)
    for (int panel = 0; panel < n; panel++) panel_pack(panels + (size_t)panel * bytes, w, panel, 0, w->cols);
    w->panels = panels;
    return 0;
}

typedef struct {
    size_t left; /* bytes still to be packed */
    int n_threads;
    const Tensor *embedding;
} Packing;

/* (model_pack may change what model_visit shows.) */
static void pack_next(void *arg, const char *name, const Tensor *w) {
    Packing *p = arg;
    const size_t bytes = tensor_bytes(w, w->rows);
    (void)name;
    if (w->panels || w == p->embedding || !p->left) return;
    if (tensor_pack((Tensor *)w, p->n_threads)) return;
    drop_pages(w->data, bytes);
    p->left -= bytes < p->left ? bytes : p->left;
}

static void count_bytes(void *arg, const char *name, const Tensor *w) {
    (void)name;
    *(size_t *)arg += tensor_bytes(w, w->rows);
}

void model_pack(Model *m, int n_threads, int n_tokens) {
    if (m->packed) return;
    size_t bytes = 0;
    model_visit(m, count_bytes, NULL, &bytes);
    Packing p = {.embedding = &m->embedding, .n_threads = bytes < WORTH_SHARING ? 1 : n_threads};
    p.left = bytes <= SMALL_MODEL ? SIZE_MAX : bytes / TOKENS_TO_PACK * (size_t)n_tokens;
    model_visit(m, pack_next, NULL, &p);
    if (m->tied) pack_next(&p, NULL, &m->output);
    m->packed = p.left > 0;
}
