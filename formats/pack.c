/* pack.c: packs weights into panels.
 *
 * Owns the memory for panels. Panels do not change the bits of a product. They
 * are read faster: as one stream of memory, in the order of use (a tied output
 * comes first: the next token's layers follow it). The embedding is never
 * packed, because a token reads one row of it; a tied output has its own
 * panels. The layout of a panel is in kernels/panels.h.
 * Tests: pack. */
#include "formats/pack.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/ranks.h"
#include "formats/parts.h"
#include "kernels/panels.h"

/* max bytes that one thread packs before a second thread would start */
enum { WORTH_SHARING = 4 << 20 };

void model_pack(Model *m, int n_threads) {
    size_t bytes = 0;
    PART_EACH(at, m)
        if (part_multiplied(&at))
            bytes += panels_bytes(part_multiplied(&at));
    /* sparse files are not packed: their panels could be far larger than their
     * blocks on disk; an eighth of the memory is left for the cache; other
     * ranks on this machine pack at the same time */
    size_t available = limits_of("").memory / n_ranks_here;
    bool sparse = false;
    EACH(const File, f, m->files, m->n_files)
        sparse |= f->sparse;
    if (m->panels || sparse || bytes > available - available / 8)
        return;
    /* one block, so that it can have huge pages */
    m->panels = allocate_quietly(bytes, 1);
    if (!m->panels)
        return;
    uint8_t *to = m->panels;
    /* all of it is read now, so read ahead */
    EACH(const File, f, m->files, m->n_files)
        memory_advise(f->data, f->size, true);
    if (bytes < WORTH_SHARING)
        n_threads = 1;
    PART_EACH(at, m) {
        Tensor *w = part_multiplied(&at);
        if (!w)
            continue;
        tensor_pack(w, to, n_threads);
        /* only what a file has can be read again */
        if (!m->rounded)
            memory_advise(w->data, tensor_bytes(w, w->rows), false);
        to += panels_bytes(w);
    }
}
