/* profile.c: the time of each site in each layer, and the size of activations.
 *
 * Owns the hooks that the forward pass calls (base/probe.h). They read the clock and measure the inputs and outputs of
 * norms. The time between the end of a mark and the start of the thread's next mark belongs to the site of the latter.
 * The rest of a pass, the time of the marks themselves, belongs to SITE_PROFILE, so the sites add up to the total.
 */
#include "lab/profile.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

const char *const PHASE_NAMES[N_PHASES] = {[PREFILL] = "prefill", [DECODE] = "decode"};

#define SITE_INFO(name, text, is_norm) {text, is_norm},
const SiteInfo SITES[N_SITES] = {SITE_LIST(SITE_INFO)};

static bool is_work(Site site) { return site >= SITE_EMBED && site <= SITE_LOGITS; }

Record *profile_of_thread(const Profile *p, int thread, Phase phase, int layer, Site site) {
    const int rows = p->session->model->config.n_layers + 1; /* row 0: outside the layers */
    return &p->records[((thread * N_PHASES + (int)phase) * rows + layer + 1) * N_SITES + (int)site];
}

static uint32_t *histogram_of(const Profile *p, Phase phase, int layer, Site site) {
    return p->histograms[profile_of_thread(p, 0, phase, layer, site) - p->records];
}

/* ---- the hooks --------------------------------------------------------------------------- */

static int bucket_of(uint64_t n, int buckets) {
    if (n < 8) return (int)n;
    const int exponent = ilogb((double)n), bucket = 8 * (exponent - 2) + (n >> (exponent - 3) & 7);
    return bucket < buckets ? bucket : buckets - 1;
}

uint64_t bucket_start(int bucket) {
    return bucket < 8 ? (uint64_t)bucket : (uint64_t)(8 + bucket % 8) << (bucket / 8 - 1);
}

/* Adds the time from a thread's last mark to `at`, without reading the clock, to a site. Returns the seconds added. */
static double add_time(Profile *p, int thread, int layer, Site site, uint64_t at) {
    Track *track = &p->tracks[thread];
    const bool is_last = layer == NO_LAYER && (site == SITE_FINAL_NORM || site == SITE_LOGITS);
    const uint64_t all = at - track->last, ticks = all < p->reading ? 0 : all - p->reading;
    const int n = is_last ? p->session->chunk.n_requested : p->session->chunk.n; /* tokens that the site processes */
    const double seconds = 1e-9 * (double)ticks;
    Record *r = profile_of_thread(p, thread, p->phase, layer, site);
    r->seconds += seconds;
    r->calls++;
    r->tokens += n;
    track->sites += seconds;
    if (thread == 0) histogram_of(p, p->phase, layer, site)[bucket_of(ticks / n, BUCKETS)]++;
    return seconds;
}

static void mark(Probe *probe, int layer, Site site) {
    Profile *p = (Profile *)probe;
    const int thread = omp_get_thread_num();
    Track *track = &p->tracks[thread];
    if (site == SITE_WAIT && omp_get_num_threads() == 1) return;
    const uint64_t at = p->clock();
    const bool was_idle = thread > 0 && site == SITE_START;
    const double seconds = was_idle ? 0 : add_time(p, thread, layer, site, at);
    const bool repeated = thread > 0 && SITES[site].is_norm && each_thread_computes(p->session->chunk.n);
    if (SITES[site].is_norm && !repeated) track->norms += seconds;
    if (is_work(site) && !repeated) track->work += seconds;
    track->last = p->clock();
}

static void begin(Probe *probe, bool decode) {
    Profile *p = (Profile *)probe;
    p->phase = decode ? DECODE : PREFILL;
    memset(p->tracks, 0, (size_t)p->session->n_threads * sizeof *p->tracks);
    p->switches = lost_processors();
    p->began = p->tracks[0].last = p->clock();
}

static void end(Probe *probe) {
    Profile *p = (Profile *)probe;
    const Track *track = p->tracks;
    Passes *sums = &p->passes[p->phase];
    Record *own = profile_of_thread(p, 0, p->phase, NO_LAYER, SITE_PROFILE);
    mark(probe, NO_LAYER, SITE_END);
    const double seconds = 1e-9 * (double)(track->last - p->began);
    own->seconds += seconds - track->sites;
    own->calls++;
    own->tokens += p->session->chunk.n;
    sums->passes++;
    sums->seconds += seconds;
    sums->observing += seconds - track->sites;
    double norms = 0, work = 0;
    for (const Track *t = track; t < track + p->session->n_threads; t++) norms += t->norms, work += t->work;
    if (lost_processors() == p->switches)
        ratio_add(&sums->norms, norms, work);
    else
        sums->interrupted++;
}

typedef struct {
    double squares, sum;
    float max; /* of |x| */
} Sizes;

static Sizes sizes_of(const float *x, int dim) {
    vf squares = {0}, sum = {0}, max = {0};
    for (int i = 0; i < dim; i += LANES) {
        const vf v = dim - i < LANES ? vload_n(x + i, dim - i) : vload(x + i);
        squares = vfma(v, v, squares);
        sum += v;
        max = vmax(vmax(v, -v), max);
    }
    return (Sizes){vsum(squares), vsum(sum), vmax_lane(max)};
}

/* Adds a vector x[dim], whose first element is `channel`, to a norm's statistics. Returns mean(x^2). */
static double add_vector(Record *r, bool out, const float *x, int dim, int channel, int position) {
    const Sizes s = sizes_of(x, dim);
    *(out ? &r->squares_out : &r->squares_in) += s.squares / dim;
    if (out) return 0;
    r->vectors++;
    if (s.squares > 0) r->means += fabs(s.sum) / sqrt(s.squares * dim);
    if (s.max > r->max_abs) {
        int i = 0;
        while (i < dim - 1 && fabsf(x[i]) != s.max) i++;
        r->max_abs = s.max;
        r->max_channel = channel + i;
        r->max_position = position;
    }
    return s.squares / dim;
}

static void heads(Probe *probe, int layer, Site site, bool out, const float *x, size_t stride, int n, int n_heads,
                  int dim) {
    const Profile *p = (Profile *)probe;
    const Session *s = p->session;
    const float *all = site == SITE_Q_NORM ? s->chunk.q : site == SITE_K_NORM ? s->chunk.k : x;
    const size_t at = x - all; /* index of the first token's first vector */
    const Step *steps = s->chunk.steps + at / stride;
    const int channel = (int)(at % stride), thread = omp_get_thread_num();
    Record *r = profile_of_thread(p, thread, p->phase, layer, site);
    if (p->dump) dump_rows(p->dump, layer, SITES[site].name, out, x, steps, n, (int)stride, channel, n_heads * dim);
    for (int h = 0; h < n_heads; h++)
        for (int t = 0; t < n; t++) {
            const int position = steps[site == SITE_FINAL_NORM ? s->chunk.requested[t] : t].pos;
            const float *vector = x + (size_t)t * stride + h * dim;
            const double mean_square = add_vector(r, out, vector, dim, channel + h * dim, position);
            if (site != SITE_ATTN_NORM || out) continue;
            StreamSize *stream = &p->streams[layer][bucket_of(position, POSITION_BUCKETS)];
            stream->squares += mean_square;
            stream->tokens++;
        }
    p->tracks[thread].last = p->clock();
}

/* The first thread measures all tokens. */
static void norm(Probe *probe, int layer, Site site, const float *x, const float *y, int n, int dim) {
    if (omp_get_thread_num() > 0) return;
    heads(probe, layer, site, false, x, dim, n, 1, dim);
    heads(probe, layer, site, true, y, dim, n, 1, dim);
}

/* ---- open and close ---------------------------------------------------------------------- */

uint64_t ticks_of_reading(uint64_t (*clock)(void)) {
    uint64_t min = UINT64_MAX;
    for (int i = 0; i < 10; i++) {
        const uint64_t start = clock();
        for (int n = 1; n < 100; n++) clock();
        const uint64_t ticks = clock() - start;
        if (ticks < min) min = ticks;
    }
    return min / 100;
}

Profile *profile_open(Session *session, About about, uint64_t (*clock)(void)) {
    enum { MAX_LAYERS = 256 }; /* limits memory */
    const size_t n_layers = session->model->config.n_layers, n_threads = session->n_threads;
    const size_t sites = N_PHASES * (n_layers + 1) * N_SITES;
    Profile *p = n_layers <= MAX_LAYERS ? allocate(1, sizeof *p) : NULL;
    if (n_layers > MAX_LAYERS)
        fail("a profile needs a model of at most %d layers, this one has %zu", MAX_LAYERS, n_layers);
    if (!p) return NULL;
    *p = (Profile){.probe = {begin, end, mark, norm, heads},
                   .session = session,
                   .about = about,
                   .clock = clock,
                   .reading = ticks_of_reading(clock)};
    session->probe = &p->probe;
    /* zeroed here, because the first access to a page takes longer than a site of a small model */
    if (!(p->records = allocate_zeroed(n_threads * sites, sizeof *p->records)) ||
        !(p->streams = allocate_zeroed(n_layers, sizeof *p->streams)) ||
        !(p->histograms = allocate_zeroed(sites, sizeof *p->histograms)) ||
        !(p->tracks = allocate_zeroed(n_threads, sizeof *p->tracks))) {
        profile_close(p);
        return NULL;
    }
    return p;
}

void profile_close(Profile *p) {
    if (!p) return;
    p->session->probe = NULL;
    free(p->records);
    free(p->streams);
    free(p->histograms);
    free(p->tracks);
    free(p);
}

/* ---- results ----------------------------------------------------------------------------- */

/* The q-quantile of microseconds per token of a call, interpolated within its bucket. */
static double quantile(const uint32_t *histogram, double q) {
    double n = 0, below = 0;
    for (int b = 0; b < BUCKETS; b++) n += histogram[b];
    for (int b = 0; b < BUCKETS; below += histogram[b++])
        if (histogram[b] && below + histogram[b] >= q * n) {
            const double start = (double)bucket_start(b), width = (double)bucket_start(b + 1) - start;
            return 1e-3 * (start + width * (q * n - below) / histogram[b]);
        }
    return 0;
}

/* Seconds that other programs took from the first thread at a site. A call is long if it takes more than 8 times the
 * median and 1 us, per token; its time above the median is lost. With fewer than 8 calls the median is over all
 * layers. */
static double lost_at(const Profile *p, Phase phase, int layer, Site site) {
    const Record *r = profile_of_thread(p, 0, phase, layer, site);
    const uint32_t *calls = histogram_of(p, phase, layer, site);
    Histogram all = {0};
    double usual = 0; /* sum over calls of nanoseconds per token; a long call counts as the median */
    bool lost = false;
    for (int l = NO_LAYER; l < p->session->model->config.n_layers; l++)
        for (int b = 0; b < BUCKETS; b++) all[b] += histogram_of(p, phase, l, site)[b];
    const double median = 1e3 * quantile(r->calls < 8 ? all : calls, 0.5);
    for (int b = 0; b < BUCKETS; b++) {
        const double middle = 0.5 * (double)(bucket_start(b) + bucket_start(b + 1));
        const bool is_long = middle > 8 * median + 1000;
        usual += calls[b] * (is_long ? median : middle);
        lost = lost || (is_long && calls[b]);
    }
    return lost ? r->seconds - 1e-9 * usual * (double)r->tokens / (double)r->calls : 0;
}

/* The first thread's record of a site, with all threads' work and statistics of activations. */
static Record record_of(const Profile *p, Phase phase, int layer, Site site) {
    Record sum = *profile_of_thread(p, 0, phase, layer, site);
    double others = 0; /* work of the other threads */
    for (int t = 1; t < p->session->n_threads; t++) {
        const Record *r = profile_of_thread(p, t, phase, layer, site);
        sum.squares_in += r->squares_in;
        sum.squares_out += r->squares_out;
        sum.vectors += r->vectors;
        sum.means += r->means;
        if (phase == DECODE && !SITES[site].is_norm) others += r->seconds; /* threads share prompts equally */
        if (r->max_abs <= sum.max_abs) continue;
        sum.max_abs = r->max_abs;
        sum.max_channel = r->max_channel;
        sum.max_position = r->max_position;
    }
    sum.lost = is_work(site) ? lost_at(p, phase, layer, site) : 0;
    sum.work = sum.seconds > 0 ? (sum.seconds - sum.lost) * (1 + others / sum.seconds) : others;
    sum.seconds -= sum.lost;
    return sum;
}

double profile_seconds(const Profile *p, int thread, Phase phase, Site first, Site last) {
    double seconds = 0;
    for (int layer = NO_LAYER; layer < p->session->model->config.n_layers; layer++)
        for (Site s = first; s <= last; s++) seconds += profile_of_thread(p, thread, phase, layer, s)->seconds;
    return seconds;
}

static double tokens_of(const Profile *p, Phase phase) {
    return (double)profile_of_thread(p, 0, phase, NO_LAYER, SITE_EMBED)->tokens;
}

Work profile_work(const Profile *p, Phase phase) {
    const Passes *passes = &p->passes[phase];
    double elapsed = 0; /* seconds of norms, first thread */
    const Estimate of_passes = estimate_ratio(&passes->norms);
    Work w = {0};
    for (int layer = NO_LAYER; layer < p->session->model->config.n_layers; layer++)
        for (Site s = SITE_EMBED; s <= SITE_LOGITS; s++) {
            const Record r = record_of(p, phase, layer, s);
            w.work += r.work;
            w.lost += r.lost;
            if (SITES[s].is_norm) w.norms += r.work;
            if (SITES[s].is_norm) elapsed += r.seconds;
        }
    w.of_time = elapsed / (passes->seconds - passes->observing);
    w.us = 1e6 * elapsed / tokens_of(p, phase);
    const double share = w.norms / w.work;
    w.share = (Estimate){share, share + of_passes.low - of_passes.value, share + of_passes.high - of_passes.value};
    return w;
}

const Load *profile_add_load(const Profile *p, Load *sum) {
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        const Passes *passes = &p->passes[phase];
        sum->passes += passes->passes;
        sum->interrupted += passes->interrupted;
        sum->lost += profile_work(p, phase).lost;
        sum->seconds += (passes->seconds - passes->observing) * p->session->n_threads;
        for (int t = 0; t < p->session->n_threads; t++)
            sum->waited += profile_seconds(p, t, phase, SITE_WAIT, SITE_WAIT);
    }
    return sum;
}

void write_load(FILE *out, const Load *load) {
    const bool busy = 10 * load->interrupted > load->passes || load->waited > 0.25 * load->seconds;
    fprintf(out,
            "%s: other programs interrupted %llu of %llu passes and took %.3f ms, excluded from the shares of "
            "work; threads waited %.0f %% of the time",
            busy ? "busy" : "idle", (unsigned long long)load->interrupted, (unsigned long long)load->passes,
            1e3 * load->lost, load->seconds > 0 ? 100 * load->waited / load->seconds : 0);
}

bool profile_next(const Profile *p, Phase phase, SiteRow *row) {
    const int n_layers = p->session->model->config.n_layers;
    if (row->next == 0) row->all_work = profile_work(p, phase).work;
    while (row->next < (n_layers + 2) * N_SITES) {
        const int at = row->next / N_SITES - 1; /* -1: before the layers; n_layers: after them */
        const Site site = (Site)(row->next++ % N_SITES);
        const bool in_layer = at >= 0 && at < n_layers, is_before = site <= SITE_EMBED;
        if (!in_layer && is_before != (at < 0)) continue;
        const Record r = record_of(p, phase, row->layer = in_layer ? at : NO_LAYER, row->site = site);
        const uint32_t *calls = histogram_of(p, phase, row->layer, site);
        if (!r.calls) continue;
        row->record = r;
        row->us = 1e6 * r.seconds / tokens_of(p, phase);
        row->median = quantile(calls, 0.5);
        row->p95 = quantile(calls, 0.95);
        row->share = is_work(site) ? r.work / row->all_work : 0;
        row->rms_in = sqrt(r.squares_in / (double)r.vectors);
        row->rms_out = sqrt(r.squares_out / (double)r.vectors);
        row->mean = r.means / (double)r.vectors;
        return true;
    }
    return false;
}
