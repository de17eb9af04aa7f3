/* pack.c: packs weights into panels.
 *
 * Owns the memory for panels. Panels do not change the bits of a product. They are read faster: as
 * one stream of memory, in the order of use. The embedding is never packed, because a token reads
 * one row of it; a tied output has its own panels. The layout of a panel is in kernels/panels.h. */
#include "formats/pack.h"
#include "base/memory.h"
#include "base/ranks.h"
#include "formats/parts.h"
#include "kernels/panels.h"

/* max bytes that one thread packs before a second thread would start */
enum { WORTH_SHARING = 4 << 20 };

/* The weight of a part if it is packed; else NULL. */
static Tensor *weight_to_pack(const PartAt *at) {
    Tensor *w = part_weight(at);
    return w != &at->model->embedding ? w : NULL;
}

/* Packs a weight at `to`. Returns the bytes of its panels. */
static size_t pack_weight(Tensor *w, uint8_t *to, int n_threads) {
    tensor_pack(w, to, n_threads);
    memory_advise(w->data, tensor_bytes(w, w->rows), false);
    return panels_bytes(w);
}

void model_pack(Model *m, int n_threads) {
    size_t bytes = m->tied ? panels_bytes(&m->output) : 0;
    for (PartAt at = parts_of(m); next_part(&at);)
        if (weight_to_pack(&at))
            bytes += panels_bytes(weight_to_pack(&at));
    /* sparse files are not packed: their panels could be far larger than their blocks on disk; an
       eighth of the memory is left for the cache; other ranks on this machine pack at the same time
     */
    const size_t available = memory_available("") / n_ranks_here;
    bool sparse = false;
    for (int i = 0; i < m->n_files; i++)
        sparse |= m->files[i].sparse;
    if (m->panels || sparse || bytes > available - available / 8)
        return;
    m->panels = allocate_quietly(
        bytes, 1); /* one block, so that it can have huge pages */
    if (!m->panels)
        return;
    uint8_t *to = m->panels;
    /* all of it is read now, so read ahead */
    for (const File *f = m->files; f < m->files + m->n_files; f++)
        memory_advise(f->data, f->size, true);
    if (bytes < WORTH_SHARING)
        n_threads = 1;
    for (PartAt at = parts_of(m); next_part(&at);)
        if (weight_to_pack(&at))
            to += pack_weight(weight_to_pack(&at), to, n_threads);
    if (m->tied)
        pack_weight(&m->output, to, n_threads);
}
