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

/* Words [0, n) of every row from byte `at` on, transposed; n is LANES, LANES / 2 or LANES / 4. */
INLINE void pack_some(uint8_t *out, const uint8_t *const *rows, size_t at, const int n) {
    vi words[LANES];
    vtranspose(words, rows, at, n);
    UNROLL
    for (int i = 0; i < n; i++) memcpy(out + i * VBYTES, &words[i], VBYTES);
}

static void pack_words(uint8_t *out, const uint8_t *const *rows, size_t at, int n) {
    int i = 0;
    for (; i + LANES <= n; i += LANES) pack_some(out + i * VBYTES, rows, at + (size_t)i * 4, LANES);
    for (; i + LANES / 2 <= n; i += LANES / 2) pack_some(out + i * VBYTES, rows, at + (size_t)i * 4, LANES / 2);
    for (; i + LANES / 4 <= n; i += LANES / 4) pack_some(out + i * VBYTES, rows, at + (size_t)i * 4, LANES / 4);
    for (; i < n; i++)
        for (int j = 0; j < LANES; j++) memcpy(out + i * VBYTES + j * 4, rows[j] + at + (size_t)i * 4, 4);
}

/* n float16 numbers of every row. */
INLINE void pack_halves(uint8_t *out, const uint8_t *const *rows, size_t at, int n) {
    int i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) { /* as words of two numbers, then taken apart */
        vi words[LANES];
        vtranspose(words, rows, at + (size_t)i * 2, LANES);
        for (int k = 0; k < LANES; k++) {
            const vh pair[2] = {__builtin_convertvector(words[k], vh), __builtin_convertvector(words[k] >> 16, vh)};
            memcpy(out + (i + 2 * k) * 2 * LANES, pair, sizeof pair);
        }
    }
    for (; i < n; i++)
        for (int j = 0; j < LANES; j++) memcpy(out + (i * LANES + j) * 2, rows[j] + at + (size_t)i * 2, 2);
}

INLINE void pack_blocks(uint8_t *out, Type type, const uint8_t *const *rows, size_t at, int n) {
    const BlockParts b = block_parts(type);
    for (int i = 0; i < n; i++, at += (size_t)b.bytes, out += b.bytes * LANES) {
        pack_halves(out, rows, at + (size_t)b.halves_at, b.halves);
        pack_words(out + b.halves * 2 * LANES, rows, at + (size_t)b.words_at, b.words);
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
        for (int i = 0; i < quads * VBYTES; i++) out[i] ^= BYTE_OFFSET;
        pack_words(out + quads * VBYTES, scales, (size_t)g * sizeof(float), 1);
        out += ready_bytes(quads, false);
    }
}

void panel_pack(uint8_t *out, const Tensor *w, int panel, int col, int n) {
    if (w->type == TYPE_I8) {
        pack_groups(out, w, panel, col / w->group, n / w->group);
        return;
    }
    const uint8_t *rows[LANES];
    const size_t row_bytes = tensor_bytes(w, 1),
                 at = row_bytes / (size_t)(w->cols / type_block(w->type)) * (size_t)(col / type_block(w->type));
    const int blocks = n / type_block(w->type);
    find_rows(rows, w->data, row_bytes, w, panel);
    switch (w->type) {
    case TYPE_F32: pack_words(out, rows, at, n); break;
    case TYPE_F16:
    case TYPE_BF16: pack_halves(out, rows, at, n); break;
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
    SMALL_MODEL = 64 << 20,  /* bytes of weights that are packed before the first token */
    TOKENS_TO_PACK = 8,      /* a larger model's are packed while it runs as many */
    WORTH_SHARING = 4 << 20, /* less is packed sooner than a thread starts */
    HUGE_PAGE = 2 << 20
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
    uint8_t *panels = aligned_alloc(HUGE_PAGE, ((size_t)n * bytes - 1) / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE);
    if (!panels) return -1;
    madvise(panels, (size_t)n * bytes, MADV_HUGEPAGE); /* where there are none, small ones do */
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

void model_pack(Model *m, int n_threads, int n_tokens) {
    if (m->packed) return;
    Packing p = {.embedding = &m->embedding, .n_threads = m->decode_bytes < WORTH_SHARING ? 1 : n_threads};
    p.left = m->decode_bytes <= SMALL_MODEL ? SIZE_MAX : m->decode_bytes / TOKENS_TO_PACK * (size_t)n_tokens;
    model_visit(m, pack_next, NULL, &p);
    if (m->tied) pack_next(&p, NULL, &m->output);
    m->packed = p.left > 0;
}
