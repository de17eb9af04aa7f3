/* center.c: rewrites a model with LayerNorm as a model with RMSNorm.
 *
 * Owns the change of weights after which the two norms are equal. If every vector added to the
 * residual stream has mean 0, the stream has mean 0, and its LayerNorm is its RMSNorm (Jiang et al.
 * 2023, arXiv:2305.14858, section 3).
 */
#include "base/error.h"
#include "base/memory.h"
#include "formats/gguf.h"
#include "formats/parts.h"
#include "kernels/quant.h"

/* The part's weight if no norm feeds it: its outputs are added to the residual stream, which the
 * rows of the embedding start. NULL: it is another part. */
static Tensor *added(const PartAt *at) {
    return at->part->feed == NO_FEED ? part_weight(at) : NULL;
}

/* The part's norm, unless it is of heads. */
static Norm *norm_of_stream(const PartAt *at) {
    return at->part->cols == SIZE_DIM ? part_norm(at) : NULL;
}

/* Replaces w by a copy at `to` whose rows (the embedding) or columns have mean 0. Returns the end
 * of the copy. */
static float *center(Tensor *w, bool embedding, float *to) {
    const size_t rows = w->rows, cols = w->cols, stride = embedding ? 1 : cols;
    const size_t dim = embedding ? cols : rows;
    for (size_t r = 0; r < rows; r++)
        dequantize_row(to + r * cols, w, (int)r);
    for (size_t i = 0; i < rows * cols / dim; i++) {
        float *x = to + i * (embedding ? cols : 1);
        double sum = 0;
        for (size_t d = 0; d < dim; d++)
            sum += x[d * stride];
        for (size_t d = 0; d < dim; d++)
            x[d * stride] -= (float)(sum / (double)dim);
    }
    *w = (Tensor){TYPE_F32, w->rows, w->cols, .data = to};
    return to + rows * cols;
}

int model_center(Model *m, const char *path) {
    size_t n = 0;
    char name[PART_NAME];
    for (PartAt at = parts_of(m); next_part(&at);) {
        const Norm *norm = norm_of_stream(&at);
        const Tensor *w = added(&at);
        if (w ? w->bias != NULL
              : norm && (at.part->feed == NO_FEED || norm->kind != NORM_LAYER ||
                         norm->beta))
            return fail(
                "%s: --center cannot change %s; it needs LayerNorms without beta and no biases in the residual stream",
                path, part_name(name, &at, NAME_NORMA));
        if (w)
            n += (size_t)w->rows * w->cols;
    }
    float *to = allocate(n, sizeof *to);
    if (!to)
        return -1;
    m->panels = (void *)to; /* model_close() frees it */
    m->tied = false;        /* the output weights are not centered */
    for (PartAt at = parts_of(m); next_part(&at);) {
        if (norm_of_stream(&at))
            norm_of_stream(&at)->kind = NORM_RMS;
        if (added(&at))
            to = center(added(&at), at.part->rows == SIZE_VOCAB, to);
    }
    return 0;
}
