/* pack.c: when weights become panels.
 *
 * Owns the sizes that decide it, the memory for panels included. Products are the same with panels and without, but
 * read panels faster: as one stream of memory, in the order of use. The embedding, of which a token reads one row, is
 * never packed; a tied output has panels of its own. What a panel looks like is panels.h's.
 */
#include "formats/pack.h"
#include "base/memory.h"
#include "base/ranks.h"
#include "formats/parts.h"
#include "kernels/panels.h"

enum {
    SMALL_MODEL = 64 << 20, /* bytes of weights that are packed before the first token */
    TOKENS_TO_PACK = 8,     /* tokens that a larger model runs until all its weights are packed */
    WORTH_SHARING = 4 << 20 /* bytes: one thread packs less than this before a second one has started */
};

/* Packs a weight and takes its bytes off those that are left to pack now. */
static void pack_weight(Model *m, Tensor *w, int n_threads, size_t *left) {
    const size_t bytes = tensor_bytes(w, w->rows), own = panels_bytes(w);
    if (w->panels || !*left || !own) return;
    tensor_pack(w, m->panels + m->panels_used, n_threads);
    m->panels_used += own;
    memory_drop(w->data, bytes);
    *left -= bytes < *left ? bytes : *left;
}

/* Whether there is memory for panels of so many bytes: an eighth of what is available stays for the cache and all else.
 * Panels have no holes: those of a sparse file, of whatever size, could cost anything. */
static bool may_pack(const Model *m, size_t bytes) {
    const size_t available = memory_available("") / (size_t)ranks_here(); /* others pack here at the same time */
    bool sparse = false;
    for (int i = 0; i < m->n_files; i++) sparse |= m->files[i].sparse;
    return !sparse && bytes <= available - available / 8;
}

/* The weight whose panels are to be made here; NULL: none is. */
static Tensor *weight_to_pack(const PartAt *at) {
    Tensor *w = part_weight(at);
    return w != &at->model->embedding ? w : NULL;
}

/* One piece of memory for all panels, so that its pages are huge, whatever the size of a weight. */
static int reserve_panels(Model *m) {
    size_t bytes = m->tied ? panels_bytes(&m->output) : 0;
    for (PartAt at = parts_of(m); next_part(&at);)
        if (weight_to_pack(&at)) bytes += panels_bytes(weight_to_pack(&at));
    m->panels = may_pack(m, bytes) ? allocate_quietly(bytes, 1) : NULL;
    return m->panels ? 0 : -1;
}

void model_pack(Model *m, int n_threads, int n_tokens) {
    if (m->packed) return;
    m->packed = !m->panels && reserve_panels(m);
    if (m->packed) return;
    size_t bytes = 0;
    for (PartAt at = parts_of(m); next_part(&at);)
        if (part_weight(&at)) bytes += tensor_bytes(part_weight(&at), part_weight(&at)->rows);
    const int threads = bytes < WORTH_SHARING ? 1 : n_threads;
    size_t left = bytes <= SMALL_MODEL ? SIZE_MAX : bytes / TOKENS_TO_PACK * (size_t)n_tokens;
    for (PartAt at = parts_of(m); next_part(&at);)
        if (weight_to_pack(&at)) pack_weight(m, weight_to_pack(&at), threads, &left);
    if (m->tied) pack_weight(m, &m->output, threads, &left);
    m->packed = left > 0;
}
