/* profile.c: where a token's time goes, by layer and site.
 *
 * Owns the hooks that the forward pass calls (base/probe.h): they read the clock, look at what goes into norms
 * and comes out, and know how many bytes a site must move at least. The time between two marks of a thread
 * belongs to the site of the second one, so the sites always add up to the whole.
 */
#include "lab/profile.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "kernels/simd.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include <omp.h>
#include <stdlib.h>

const char *const PHASE_NAMES[N_PHASES] = {[PREFILL] = "prefill", [DECODE] = "decode"};

#define SITE_INFO(name, text, is_norm) {text, is_norm},
const struct SiteInfo SITES[N_SITES] = {SITE_LIST(SITE_INFO)};

static Record *record_of(const Profile *p, int thread, Phase phase, int layer, Site site) {
    const size_t rows = (size_t)p->n_layers + 1, row = (size_t)(layer == NO_LAYER ? p->n_layers : layer);
    return &p->records[(((size_t)thread * N_PHASES + phase) * rows + row) * N_SITES + site];
}

/* ---- the bytes that a site moves --------------------------------------------------------- */

static double weights(const Tensor *w) { return (double)tensor_bytes(w, w->rows); }

/* One half of an MLP, gate and up or `down`. In a sparse layer: the weights of the experts that have
 * tokens, and a row of activations for each of the experts that a token uses. */
static double mlp_bytes(const Session *s, const Layer *layer, bool down, int n) {
    const Config *c = &s->model->config;
    const bool sparse = layer->experts;
    const Mlp *mlps = sparse ? layer->experts : &layer->mlp;
    const double dim = 4.0 * c->dim, hidden = 4.0 * (sparse ? c->expert_dim : c->hidden_dim);
    double sum = (double)n * (sparse ? c->n_experts_used : 1) * (down ? hidden + 2 * dim : dim + 2 * hidden);
    for (int e = 0; e < (sparse ? c->n_experts : 1); e++)
        if (!sparse || s->expert_start[e] < s->expert_start[e + 1])
            sum += down ? weights(&mlps[e].down) : weights(&mlps[e].gate) + weights(&mlps[e].up);
    return sum;
}

/* Of the chunk that runs. */
static double site_bytes(const Profile *p, int layer, Site site) {
    const Session *s = p->session;
    const Model *m = s->model;
    const Config *c = &m->config;
    const Layer *l = &m->layers[layer == NO_LAYER ? 0 : layer]; /* sites outside the layers do not read it */
    const double n = p->n, n_logits = p->n_logits;
    const double dim = 4.0 * c->dim; /* of one token, float32: its row of x, its queries, its keys */
    const double q = 4.0 * c->n_heads * c->head_size, k = 4.0 * c->n_kv_heads * c->head_size;
    const double cached = 2 * k * (s->kv.type == KV_F32 ? 1 : 0.5); /* keys and values of one position */
    switch (site) {
    case SITE_EMBED: return n * ((double)tensor_bytes(&m->embedding, 1) + dim);
    case SITE_ATTN_NORM:
    case SITE_MLP_NORM: return (2 * n + 1) * dim;
    case SITE_QKV_ROPE: return weights(&l->wq) + weights(&l->wk) + weights(&l->wv) + n * (dim + q + cached);
    case SITE_Q_NORM: return 2 * n * q + 4.0 * c->head_size;
    case SITE_K_NORM: return 2 * n * k + 4.0 * c->head_size;
    case SITE_ATTENTION: return 2 * n * q + (p->pos + n) * cached;
    case SITE_ATTN_OUT: return weights(&l->wo) + n * (q + 2 * dim);
    case SITE_ROUTER: return weights(&l->router) + n * (dim + 4.0 * c->n_experts);
    case SITE_GATE_UP_SILU: return mlp_bytes(s, l, false, p->n);
    case SITE_DOWN: return mlp_bytes(s, l, true, p->n);
    case SITE_FINAL_NORM: return (2 * n_logits + 1) * dim;
    case SITE_LOGITS: return weights(&m->output) + n_logits * (dim + 4.0 * c->vocab_size);
    case SITE_START:
    case SITE_PROFILE:
    case N_SITES: break;
    }
    return 0;
}

/* ---- the hooks --------------------------------------------------------------------------- */

static void begin(Probe *probe, int n) {
    Profile *p = (Profile *)probe;
    p->phase = n > 1 ? PREFILL : DECODE;
    p->began = p->tracks[0].last = now();
}

/* What is left since the first thread's last mark is the end of the parallel region. */
static void end(Probe *probe) {
    Profile *p = (Profile *)probe;
    const double at = now();
    record_of(p, 0, p->phase, NO_LAYER, SITE_START)->seconds += at - p->tracks[0].last;
    p->total[p->phase] += at - p->began;
}

static void chunk(Probe *probe, int n, int pos, int n_logits) {
    Profile *p = (Profile *)probe;
    p->n = n;
    p->pos = pos;
    p->n_logits = n_logits;
}

static void mark(Probe *probe, int layer, Site site, bool ended) {
    Profile *p = (Profile *)probe;
    const int thread = omp_get_thread_num();
    Track *track = &p->tracks[thread];
    const double at = now();
    if (site == SITE_START && thread > 0) track->last = at; /* between forward passes the thread was idle */
    Record *r = record_of(p, thread, p->phase, layer, site);
    r->seconds += at - track->last;
    if (p->events && at > track->last && track->n_events < MOST_EVENTS)
        p->events[(size_t)thread * MOST_EVENTS + track->n_events++] =
            (Event){track->last - p->opened, at - p->opened, layer, site};
    track->last = at;
    if (!ended) return;
    r->calls++;
    r->tokens += (uint64_t)(layer == NO_LAYER && site >= SITE_FINAL_NORM ? p->n_logits : p->n);
    if (thread == 0) r->bytes += site_bytes(p, layer, site);
}

/* Adds the mean square of x[dim], a part of a token's `width` elements, to what a norm reads, or writes (`out`). */
static void add_vector(Record *r, bool out, const float *x, int dim, size_t width) {
    vf squares = {0}, max = {0};
    for (int i = 0; i < dim; i += LANES) {
        const vf v = dim - i < LANES ? vload_n(x + i, dim - i) : vload(x + i);
        squares = vfma(v, v, squares);
        max = vmax(vmax(v, -v), max);
    }
    *(out ? &r->squares_out : &r->squares_in) += (double)vsum(squares) / (double)width;
    if (!out && vmax_lane(max) > r->max_abs) r->max_abs = vmax_lane(max);
}

static void heads(Probe *probe, int layer, Site site, bool out, const float *x, size_t stride, int n, int n_heads,
                  int dim) {
    const Profile *p = (Profile *)probe;
    Record *r = record_of(p, omp_get_thread_num(), p->phase, layer, site);
    for (int h = 0; h < n_heads; h++)
        for (int t = 0; t < n; t++) add_vector(r, out, x + (size_t)t * stride + (size_t)(h * dim), dim, stride);
    mark(probe, layer, SITE_PROFILE, out);
}

/* Each thread looks at its share of the tokens. */
static void norm(Probe *probe, int layer, Site site, const float *x, const float *y, int n, int dim) {
    const Profile *p = (Profile *)probe;
    const size_t width = (size_t)dim;
    mark(probe, layer, site, true);
    Record *r = record_of(p, omp_get_thread_num(), p->phase, layer, site);
    for (int t = omp_get_thread_num(); t < n; t += omp_get_num_threads()) {
        add_vector(r, false, x + (size_t)t * width, dim, width);
        add_vector(r, true, y + (size_t)t * width, dim, width);
    }
    mark(probe, layer, SITE_PROFILE, true);
}

/* ---- the account ------------------------------------------------------------------------- */

Profile *profile_open(Session *session, bool traces) {
    const size_t n_threads = (size_t)session->n_threads, rows = (size_t)session->model->config.n_layers + 1;
    Profile *p = allocate(1, sizeof *p);
    if (!p) return NULL;
    *p = (Profile){.probe = {begin, end, chunk, mark, norm, heads},
                   .session = session,
                   .n_layers = session->model->config.n_layers,
                   .opened = now(),
                   .records = calloc(n_threads * N_PHASES * rows * N_SITES, sizeof *p->records),
                   .tracks = calloc(n_threads, sizeof *p->tracks),
                   .events = traces ? calloc(n_threads * MOST_EVENTS, sizeof *p->events) : NULL};
    session->probe = &p->probe;
    if (p->records && p->tracks && (p->events || !traces)) return p;
    fail("out of memory");
    profile_close(p);
    return NULL;
}

void profile_close(Profile *p) {
    if (!p) return;
    p->session->probe = NULL;
    free(p->records);
    free(p->tracks);
    free(p->events);
    free(p);
}

Record profile_record(const Profile *p, Phase phase, int layer, Site site) {
    Record sum = *record_of(p, 0, phase, layer, site);
    for (int t = 1; t < p->session->n_threads; t++) {
        const Record *r = record_of(p, t, phase, layer, site);
        sum.squares_in += r->squares_in;
        sum.squares_out += r->squares_out;
        if (r->max_abs > sum.max_abs) sum.max_abs = r->max_abs;
    }
    return sum;
}

double profile_seconds(const Profile *p, Phase phase, bool norms_only) {
    double seconds = 0;
    for (int layer = NO_LAYER; layer < p->n_layers; layer++)
        for (Site site = 0; site < N_SITES; site++)
            if (SITES[site].is_norm || !norms_only) seconds += record_of(p, 0, phase, layer, site)->seconds;
    return seconds;
}
