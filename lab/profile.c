/* profile.c: where a token's time goes, by layer and site.
 *
 * Owns the hooks that the forward pass calls (base/probe.h): they read the clock and look at what
 * goes into norms and comes out. The time between two marks of a thread belongs to the site
 * of the second one, so the sites always add up to the whole.
 */
#include "lab/profile.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/probe.h"
#include "base/process.h"
#include "kernels/simd.h"
#include "lab/traffic.h"
#include "model.h"

#include <omp.h>
#include <stdlib.h>

const char *const PHASE_NAMES[N_PHASES] = {[PREFILL] = "prefill", [DECODE] = "decode"};

const struct SiteInfo SITES[N_SITES] = {
    [SITE_START] = {"(start)", false},
    [SITE_EMBED] = {"embed", false},
    [SITE_ATTN_NORM] = {"attn_norm", true},
    [SITE_QKV_ROPE] = {"qkv+rope", false},
    [SITE_Q_NORM] = {"q_norm", true},
    [SITE_K_NORM] = {"k_norm", true},
    [SITE_ATTENTION] = {"attention", false},
    [SITE_ATTN_OUT] = {"attn_out", false},
    [SITE_MLP_NORM] = {"mlp_norm", true},
    [SITE_ROUTER] = {"router", false},
    [SITE_GATE_UP_SILU] = {"gate_up+silu", false},
    [SITE_DOWN] = {"down", false},
    [SITE_FINAL_NORM] = {"final_norm", true},
    [SITE_LOGITS] = {"logits", false},
    [SITE_PROFILE] = {"(profile)", false},
};

static Record *record_of(const Profile *p, int thread, Phase phase, int layer, Site site) {
    const size_t rows = (size_t)p->n_layers + 1, row = (size_t)(layer == NO_LAYER ? p->n_layers : layer);
    return &p->records[(((size_t)thread * N_PHASES + phase) * rows + row) * N_SITES + site];
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

static void chunk(Probe *probe, int n, int pos, int n_logits) { ((Profile *)probe)->chunk = (Chunk){n, pos, n_logits}; }

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
    r->tokens += (uint64_t)(layer == NO_LAYER && site >= SITE_FINAL_NORM ? p->chunk.n_logits : p->chunk.n);
    if (thread == 0) r->bytes += site_bytes(p->session, layer, site, p->chunk);
}

/* mean(x^2); *max_abs becomes the largest |x| if that is larger. */
static double mean_square(const float *x, int n, float *max_abs) {
    vf squares = {0}, max = {0};
    for (int i = 0; i < n; i += LANES) {
        const vf v = n - i < LANES ? vload_n(x + i, n - i) : vload(x + i);
        squares = vfma(v, v, squares);
        max = vmax(vmax(v, -v), max);
    }
    if (vmax_lane(max) > *max_abs) *max_abs = vmax_lane(max);
    return (double)vsum(squares) / n;
}

/* Adds x[dim], a part of a token's `width` elements, to what a norm reads, or to what it writes (`out`). */
static void add_vector(Record *r, bool out, const float *x, int dim, size_t width) {
    float ignored = 0;
    const double square = mean_square(x, dim, out ? &ignored : &r->max_abs);
    *(out ? &r->squares_out : &r->squares_in) += square * dim / (double)width;
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
    *p = (Profile){.probe = {begin, chunk, mark, heads, norm, end},
                   .session = session,
                   .n_layers = session->model->config.n_layers,
                   .n_threads = session->n_threads,
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
    for (int t = 1; t < p->n_threads; t++) {
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
