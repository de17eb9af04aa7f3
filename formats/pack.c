/* pack.c: when weights become panels.
 *
 * Owns the policy: which weights are re-packed, when, and how many at a time. What a panel
 * looks like is panels.h's.
 */
#include "formats/pack.h"

#include "base/memory.h"
#include "formats/parts.h"
#include "kernels/panels.h"
#include "kernels/simd.h"
#include "kernels/tensor.h"
#include "model.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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
    if (w->panels || !panels_fit(w)) return 0;
    const size_t bytes = packed_bytes(w, w->cols);
    uint8_t *panels = allocate_quietly((size_t)n, bytes);
    if (!panels) return -1;
#pragma omp parallel for num_threads(n_threads)
    for (int panel = 0; panel < n; panel++) panel_pack(panels + (size_t)panel * bytes, w, panel, 0, w->cols);
    w->panels = panels;
    return 0;
}

/* Packs a weight and takes its bytes off those that are left to pack now. */
static void pack_weight(Tensor *w, int n_threads, size_t *left) {
    const size_t bytes = tensor_bytes(w, w->rows);
    if (w->panels || !*left || tensor_pack(w, n_threads)) return;
    drop_pages(w->data, bytes);
    *left -= bytes < *left ? bytes : *left;
}

void model_pack(Model *m, int n_threads, int n_tokens) {
    if (m->packed) return;
    size_t bytes = 0;
    for (PartAt at = parts_of(m); next_part(&at);)
        if (part_weight(&at)) bytes += tensor_bytes(part_weight(&at), part_weight(&at)->rows);
    const int threads = bytes < WORTH_SHARING ? 1 : n_threads;
    size_t left = bytes <= SMALL_MODEL ? SIZE_MAX : bytes / TOKENS_TO_PACK * (size_t)n_tokens;
    for (PartAt at = parts_of(m); next_part(&at);)
        if (part_weight(&at) && part_weight(&at) != &m->embedding) pack_weight(part_weight(&at), threads, &left);
    if (m->tied) pack_weight(&m->output, threads, &left);
    m->packed = left > 0;
}
