/* share.c: which rows of a model's weights each rank has.
 *
 * Owns the division of rows, and the check that all ranks compute the same
 * bits. Every rank maps the whole file, and reads, packs and multiplies its own
 * rows. The forward pass gathers the results (session.h).
 * Tests: ranks, sequences, growth.
 */
#include "cluster/share.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/ranks.h"
#include "formats/parts.h"
#include "kernels/lanes.h"
#include <string.h>

/* Number of rows that stay together: a KV head's keys, the queries that attend
 * to it, or a panel. */
static int unit_rows(const Config *c, PartSize rows) {
    if (rows == SIZE_KEYS)
        return c->head_size;
    if (rows == SIZE_QUERIES)
        return c->n_heads / c->n_kv_heads * c->head_size;
    return part_size(c, rows) / LANES < n_ranks ? 1 : LANES;
}

static void gather(const Share *share, float *y, int n, bool everywhere) {
    ranks_gather(y, n, share->all, share->unit, everywhere);
}

/* Removes a weight's first n rows. */
static void skip_rows(Tensor *w, int n) {
    const size_t weights = (size_t)n * w->cols;
    w->data = (const char *)w->data + type_bytes(w->type, weights);
    if (w->type == TYPE_I8) {
        /* NOLINTNEXTLINE: group is not 0 in TYPE_I8 */
        const size_t scales = weights / (size_t)w->group;
        w->scales = (const char *)w->scales + scales * sizeof(float);
    }
    if (w->bias)
        w->bias += n;
    w->rows -= n;
}

/* Divides the rows of a weight (their number is `size`) and keeps only this
 * rank's. */
static void keep_own_rows(const Model *m, Tensor *w, PartSize size) {
    const int all = part_size(&m->config, size);
    const int unit = unit_rows(&m->config, size);
    const int first = ranks_start(all, unit, own_rank);
    const int end = ranks_start(all, unit, own_rank + 1);
    skip_rows(w, first);
    w->rows = end - first;
    m->shares[size] =
        (Share){.first = first, .all = all, .unit = unit, .gather = gather};
    w->share = &m->shares[size];
}

int model_share(Model *m) {
    if (n_ranks == 1)
        return 0;
    int min_rows = min_int(m->config.dim, m->config.vocab_size);
    if (n_ranks > min_rows)
        return fail("%d ranks cannot share a weight of %d rows", n_ranks,
                    min_rows);
    m->shares = allocate(N_PART_SIZES, sizeof *m->shares);
    if (!m->shares)
        return -1;
    PART_EACH(at, m) {
        Tensor *w = part_multiplied(&at);
        if (w && !at.part->routes)
            keep_own_rows(m, w, at.part->rows);
    }
    return 0;
}

static uint64_t same_hash(const void *bytes, size_t n) {
    return hash_bytes((HashKey){0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9}, bytes,
                      n);
}

static uint64_t program_hash(void) {
    File file;
    const char *path = program_path();
    if (!path || file_map(&file, path))
        return 0;
    uint64_t hash = same_hash(file.data, file.size);
    file_unmap(&file);
    return hash;
}

uint64_t model_hash(const Model *m) {
    const Config *c = &m->config;
    double numbers[] = {c->dim,        c->hidden_dim,
                        c->n_layers,   c->n_heads,
                        c->n_kv_heads, c->head_size,
                        c->vocab_size, c->context,
                        c->n_experts,  c->n_experts_used,
                        c->rope.base,  m->layers->attn_norm.eps};
    uint64_t hash = same_hash(numbers, sizeof numbers);
    EACH(const File, file, m->files, m->n_files) {
        uint64_t words[] = {hash, file->size,
                            same_hash(file->data, file->header)};
        hash = same_hash(words, sizeof words);
    }
    return hash;
}

int model_agree(int status, const Session *s, const char *norms) {
    if (n_ranks == 1 || status)
        return ranks_agree(status, 0);
    uint64_t state[] = {
        program_hash(), model_hash(s->model),
        s->batch,       s->context,
        s->kv_type,     norms ? same_hash(norms, strlen(norms)) : 0};
    return ranks_agree(0, same_hash(state, sizeof state));
}
