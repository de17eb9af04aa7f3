/* profile.c: the time of each site in each layer, and the size of activations.
 *
 * Owns the hooks that the forward pass calls (base/probe.h). They read the
 * clock and measure the inputs and outputs of norms. The time between the end
 * of a mark and the start of the thread's next mark belongs to the site of the
 * latter. The rest of a pass, the time of the marks themselves, belongs to
 * SITE_PROFILE, so the sites add up to the total.
 * Tests: profile.
 */
#include "lab/profile.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

const char *const PHASE_NAMES[N_PHASES] = {
    [PREFILL] = "prefill", [DECODE] = "decode"};

#define OTHER_INFO(name, text) {text, false},
#define NORM_INFO(name, text)  {text, true},
const SiteInfo SITES[N_SITES] = {SITE_LIST(OTHER_INFO, NORM_INFO)};

bool site_is_work(Site site) {
    return site >= SITE_EMBED && site <= SITE_LOGITS;
}

Record *profile_of_thread(const Profile *p, int thread, Phase phase, int layer,
                          Site site) {
    /* -1: before the layers */
    int row = layer == NO_LAYER && site > SITE_EMBED
                  ? p->session->model->config.n_layers
                  : layer;
    return &p->records[(thread * N_PHASES + phase) * p->n_places +
                       (row + 1) * N_SITES + site];
}

/* ---- the hooks ---------------------------------------------------------- */

static int bucket_of(uint64_t n) {
    if (n < 8)
        return (int)n;
    /* a float's exponent, and 3 bits of its mantissa; 8 is bucket 8 */
    union {
        float x;
        int bits;
    } number = {(float)n};
    int bucket = (number.bits >> 20) - 1032;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* The min value of a bucket. */
static double bucket_start(int bucket) {
    return bucket < 8 ? bucket : ldexp(8 + bucket % 8, bucket / 8 - 1);
}

static void mark(Probe *probe, int layer, Site site) {
    Profile *p = (Profile *)probe;
    const Chunk *chunk = &p->session->chunk;
    int thread = omp_get_thread_num();
    Track *track = &p->tracks[thread];
    if (p->untimed || (site == SITE_WAIT && omp_get_num_threads() == 1))
        return;
    uint64_t all = nanoseconds() - track->last,
             ticks = all - min_size(all, p->reading);
    if (thread == 0 ||
        site != SITE_START) { /* other threads were idle before the start */
        int n = site == SITE_FINAL_NORM || site == SITE_LOGITS
                    ? chunk->n_requested
                    : chunk->n;
        double seconds = 1e-9 * (double)ticks;
        Record *r = profile_of_thread(p, thread, p->phase, layer, site);
        r->seconds += seconds;
        r->calls++;
        r->tokens += n;
        if (thread == 0)
            p->histograms[r - p->records][bucket_of(ticks / n)]++;
        track->seconds[site] += seconds;
    }
    track->ran = true;
    track->last = nanoseconds();
}

static void begin(Probe *probe, bool decode) {
    Profile *p = (Profile *)probe;
    p->phase = decode ? DECODE : PREFILL;
    p->passes[p->phase].all++;
    /* a dump is of all tokens */
    p->untimed = decode && p->left-- > 0 && !p->dump;
    if (p->untimed)
        return;
    memset(p->tracks, 0, p->session->n_threads * sizeof *p->tracks);
    p->switches = lost_processors();
    p->began = p->tracks[0].last = nanoseconds();
}

/* Adds the times of a pass, means over the threads that ran, to those of its
 * phase. */
static void add_pass(const Profile *p, Passes *sums, bool disturbed) {
    double totals[N_TOTALS] = {0}, threads = 0;
    EACH(const Track, track, p->tracks, p->session->n_threads)
        threads += track->ran;
    for (Site site = 0; site < N_SITES; site++) {
        double all = 0;
        EACH(const Track, track, p->tracks, p->session->n_threads)
            all += track->seconds[site];
        bool of_one = site == SITE_START || site == SITE_END; /* thread */
        totals[site] = of_one ? all : all / threads;
        totals[TOTAL_TIME] += totals[site];
        if (site_is_work(site))
            totals[SITES[site].is_norm ? TOTAL_NORMS : TOTAL_OTHERS] +=
                totals[site];
    }
    totals[TOTAL_WORK] = totals[TOTAL_NORMS] + totals[TOTAL_OTHERS];
    for (int i = 0; i < N_TOTALS; i++)
        ratio_add(&sums->all_totals[i], totals[i], p->session->chunk.n);
    if (disturbed)
        return;
    ratio_add(&sums->norms, totals[TOTAL_NORMS], totals[TOTAL_WORK]);
    for (int i = 0; i < N_TOTALS; i++)
        ratio_add(&sums->totals[i], totals[i], p->session->chunk.n);
}

static void end(Probe *probe) {
    Profile *p = (Profile *)probe;
    const Track *track = p->tracks;
    Passes *sums = &p->passes[p->phase];
    Record *own = profile_of_thread(p, 0, p->phase, NO_LAYER, SITE_PROFILE);
    if (p->untimed)
        return;
    mark(probe, NO_LAYER, SITE_END);
    double sites = 0;
    for (Site site = 0; site < N_SITES; site++)
        sites += track->seconds[site];
    double spent = 1e-9 * (double)(track->last - p->began) - sites,
           share = spent / sites;
    own->seconds += spent;
    own->calls++;
    own->tokens += p->session->chunk.n;
    sums->passes++;
    sums->seconds += sites;
    bool disturbed = lost_processors() != p->switches;
    add_pass(p, sums, disturbed);
    sums->interrupted += disturbed;
    if (disturbed)
        return;
    /* Then all timing takes a sixth of the budget; its effects on the caches
     * cost more. */
    if (p->phase == DECODE)
        p->left = share > p->budget ? (int)fmin(50, 6 * share / p->budget) : 0;
}

typedef struct {
    double squares, sum;
    float max; /* of |x| */
} Sizes;

static Sizes sizes_of(const float *x, int dim) {
    float squares = 0, sum = 0, max = 0;
#pragma omp simd reduction(+ : squares, sum) reduction(max : max)
    for (int i = 0; i < dim; i++) {
        float size = fabsf(x[i]);
        squares += x[i] * x[i];
        sum += x[i];
        max = size > max ? size : max;
    }
    return (Sizes){squares, sum, max};
}

/* Adds x[dim], whose first element is `channel`, to the statistics of a norm's
 * inputs. */
static void add_input(Record *r, Sizes sizes, const float *x, int dim,
                      int channel, int position) {
    r->squares_in += sizes.squares / dim;
    r->vectors++;
    if (position == 0) {
        r->squares_first += sizes.squares / dim;
        r->vectors_first++;
    }
    if (sizes.squares > 0)
        r->means += fabs(sizes.sum) / sqrt(sizes.squares * dim);
    if (sizes.max <= r->max_abs)
        return;
    int i = 0;
    while (i < dim - 1 && fabsf(x[i]) != sizes.max)
        i++;
    r->max_abs = sizes.max;
    r->max_channel = channel + i;
    r->max_position = position;
}

/* Adds a sample x[dim], whose sum is given. */
static void add_sample(Record *r, Histogram sizes, const float *x, double sum,
                       const float *gamma, int dim) {
    double gammas = 0, outputs = 0;
    for (int i = 0; i < dim; i++) {
        double square = gamma[i] * gamma[i];
        gammas += square;
        outputs += square * x[i] * x[i];
        sizes[bucket_of((uint64_t)fmin(1e6 * fabsf(x[i]), 1e18))]++;
    }
    r->gamma_means += fabs(sum) / dim * sqrt(gammas / outputs);
    r->samples++;
}

static void norm(Probe *probe, int layer, Site site, bool out,
                 const Vectors *v) {
    const Profile *p = (Profile *)probe;
    const Chunk *chunk = &p->session->chunk;
    int thread = omp_get_thread_num();
    const Step *steps = chunk->steps + v->token;
    /* position 0 counts, also if it is a decode pass of its own, which is not
     * timed; the first thread measures all tokens; of heads each has its own */
    if ((p->untimed && p->passes[p->phase].all > 1) ||
        (site != SITE_Q_NORM && site != SITE_K_NORM && thread > 0))
        return;
    Record *r = profile_of_thread(p, thread, p->phase, layer, site);
    if (p->dump)
        dump_rows(p->dump, layer, SITES[site].name, out, v, steps);
    for (int h = 0; h < v->heads; h++)
        for (int t = 0; t < v->n; t++) {
            int position =
                steps[site == SITE_FINAL_NORM ? chunk->requested[t] : t].pos;
            const float *x = v->x + t * v->stride + h * v->dim;
            Sizes sizes = sizes_of(x, v->dim);
            if (out) {
                r->squares_out += sizes.squares / v->dim;
                continue;
            }
            add_input(r, sizes, x, v->dim, v->channel + h * v->dim, position);
            if (thread == 0 && (int)r->vectors % 8 == 2 + (layer & 3))
                add_sample(
                    r, p->histograms[r - p->records + N_PHASES * p->n_places],
                    x, sizes.sum, v->gamma, v->dim);
            if (site != SITE_ATTN_NORM)
                continue;
            StreamSize *stream = &p->streams[layer][bucket_of(position)];
            stream->squares += sizes.squares / v->dim;
            stream->tokens++;
        }
    p->tracks[thread].last = nanoseconds();
}

/* ---- open and close ----------------------------------------------------- */

uint64_t ticks_of_reading(void) {
    uint64_t min = UINT64_MAX;
    for (int i = 0; i < 10; i++) {
        uint64_t start = nanoseconds();
        for (int n = 1; n < 100; n++)
            nanoseconds();
        min = min_size(min, nanoseconds() - start);
    }
    return min / 100;
}

Profile *profile_open(Session *session, About about) {
    size_t n_layers = session->model->config.n_layers,
           n_threads = session->n_threads;
    size_t n_places = (n_layers + 2) * N_SITES;
    if (n_layers > PROFILE_MAX_LAYERS) {
        fail("a profile needs a model of at most %d layers, this one has %zu",
             PROFILE_MAX_LAYERS, n_layers);
        return NULL;
    }
    Profile *p = allocate(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (Profile){.probe = {begin, end, mark, norm},
                   .session = session,
                   .about = about,
                   .n_places = (int)n_places,
                   .budget = 0.05,
                   .left = 1,
                   .reading = ticks_of_reading()};
    session->probe = &p->probe;
    /* zeroed here, because the first access to a page takes longer than a site
     * of a small model */
    p->records =
        allocate_zeroed(n_threads * N_PHASES * n_places, sizeof *p->records);
    if (p->records)
        p->streams = allocate_zeroed(n_layers, sizeof *p->streams);
    if (p->streams)
        p->histograms =
            allocate_zeroed(2 * N_PHASES * n_places, sizeof *p->histograms);
    if (p->histograms)
        p->tracks = allocate_zeroed(n_threads, sizeof *p->tracks);
    if (!p->tracks) {
        profile_close(p);
        return NULL;
    }
    return p;
}

void profile_close(Profile *p) {
    if (!p)
        return;
    p->session->probe = NULL;
    free(p->records);
    free(p->streams);
    free(p->histograms);
    free(p->tracks);
    free(p);
}

/* ---- results ------------------------------------------------------------ */

/* The q-quantile of the numbers in a histogram, in thousands, interpolated
 * within its bucket; of calls: microseconds per token. */
static double quantile(const uint32_t *histogram, double q) {
    double n = 0, below = 0;
    for (int b = 0; b < BUCKETS; b++)
        n += histogram[b];
    for (int b = 0; b < BUCKETS; below += histogram[b++])
        if (histogram[b] && below + histogram[b] >= q * n) {
            double start = bucket_start(b), width = bucket_start(b + 1) - start;
            return 1e-3 * (start + width * (q * n - below) / histogram[b]);
        }
    return 0;
}

/* The median of the first thread's calls at a place, in nanoseconds per token.
 * With fewer than 8 calls it is over all layers. */
static double usual_call(const Profile *p, int place, double n_calls,
                         const Histogram *calls) {
    Histogram all = {0};
    if (n_calls >= 8)
        return 1e3 * quantile(*calls, 0.5);
    for (int i = place % N_SITES; i < p->n_places; i += N_SITES)
        for (int b = 0; b < BUCKETS; b++)
            all[b] += calls[i - place][b];
    return 1e3 * quantile(all, 0.5);
}

/* Whether another program took time from a call of so many nanoseconds per
 * token: it takes more than 8 times the usual call and 1 us. */
static bool is_long(double ns, double usual) {
    return ns > 8 * usual + 1000;
}

/* Seconds that other programs took from the first thread at a place, given its
 * record and histogram: the time of long calls above the usual call's. */
static double lost_at(const Record *r, const Histogram *calls, double usual) {
    /* sum over calls of nanoseconds per token; a long call counts as a usual
     * one */
    double sum = 0;
    bool lost = false;
    for (int b = 0; b < BUCKETS; b++) {
        double middle = 0.5 * (bucket_start(b) + bucket_start(b + 1));
        sum += (*calls)[b] * (is_long(middle, usual) ? usual : middle);
        lost |= is_long(middle, usual) && (*calls)[b];
    }
    return lost ? r->seconds - 1e-9 * sum * r->tokens / r->calls : 0;
}

/* The seconds of another thread at a place, which has no histogram: if its mean
 * call is long, as if all were usual. */
static double seconds_of_other(const Record *r, double usual) {
    return is_long(1e9 * r->seconds / r->tokens, usual)
               ? 1e-9 * usual * r->tokens
               : r->seconds;
}

SiteRow profile_row(const Profile *p, Phase phase, int place) {
    const Record *r = &p->records[phase * p->n_places + place];
    const Histogram *calls = p->histograms + phase * p->n_places + place,
                    *sizes = calls + N_PHASES * p->n_places;
    int layer = place / N_SITES - 1;
    SiteRow row = {
        .layer = layer < p->session->model->config.n_layers ? layer : NO_LAYER,
        .site = place % N_SITES,
        .record = *r,
        .median = quantile(*calls, 0.5),
        .p95 = quantile(*calls, 0.95),
        .median_x = r->samples > 0 ? 1e-3 * quantile(*sizes, 0.5) : NAN,
        .p99_x = r->samples > 0 ? 1e-3 * quantile(*sizes, 0.99) : NAN,
        .gamma_mean = r->samples > 0 ? r->gamma_means / r->samples : NAN};
    Record *sum = &row.record;
    const double usual = usual_call(p, place, r->calls, calls);
    const bool work = site_is_work(row.site);
    double others = 0, threads = 1; /* that share the site with the first */
    for (int t = 1; t < p->session->n_threads; t++) {
        r += N_PHASES * p->n_places;
        sum->squares_in += r->squares_in;
        sum->squares_out += r->squares_out;
        sum->vectors += r->vectors;
        sum->squares_first += r->squares_first;
        sum->vectors_first += r->vectors_first;
        sum->means += r->means;
        /* in decode the norms of the first thread are those of all */
        bool shared = phase == PREFILL || !SITES[row.site].is_norm;
        if (shared && r->calls > 0) {
            others += work ? seconds_of_other(r, usual) : r->seconds;
            threads++;
        }
        if (r->max_abs <= sum->max_abs)
            continue;
        sum->max_abs = r->max_abs;
        sum->max_channel = r->max_channel;
        sum->max_position = r->max_position;
    }
    if (work)
        row.lost = lost_at(sum, calls, usual);
    sum->seconds = (sum->seconds - row.lost + others) / threads;
    row.us = 1e6 * sum->seconds /
             profile_of_thread(p, 0, phase, NO_LAYER, SITE_EMBED)->tokens;
    row.rms_in = sqrt(sum->squares_in / sum->vectors);
    row.rms_first = sqrt(sum->squares_first / sum->vectors_first);
    row.rms_later = sqrt((sum->squares_in - sum->squares_first) /
                         (sum->vectors - sum->vectors_first));
    row.rms_out = sqrt(sum->squares_out / sum->vectors);
    row.mean = sum->means / sum->vectors;
    return row;
}

Work profile_work(const Profile *p, Phase phase) {
    const Passes *passes = &p->passes[phase];
    Estimate of_passes = estimate_ratio(&passes->norms);
    double error = of_passes.high - of_passes.value;
    Work w = {0};
    for (int place = 0; place < p->n_places; place++) {
        SiteRow row = profile_row(p, phase, place);
        w.lost += row.lost;
        if (site_is_work(row.site))
            w.work += row.us;
        if (!SITES[row.site].is_norm)
            continue;
        w.norms += row.us;
        w.of_time += row.record.seconds / passes->seconds;
    }
    double share = w.norms / w.work;
    w.share = (Estimate){share, share - error, share + error};
    return w;
}

double site_share(const SiteRow *row, const Work *work) {
    return site_is_work(row->site) ? row->us / work->work : 0;
}

ThreadTime profile_thread(const Profile *p, int thread, Phase phase) {
    const Record *records =
        &p->records[(thread * N_PHASES + phase) * p->n_places];
    ThreadTime sum = {0};
    for (int place = 0; place < p->n_places; place++) {
        Site site = place % N_SITES;
        double *part = SITES[site].is_norm ? &sum.norms
                       : site == SITE_WAIT ? &sum.waiting
                                           : &sum.others;
        if (site != SITE_PROFILE)
            *part += records[place].seconds;
    }
    return sum;
}

const Load *profile_add_load(const Profile *p, Load *sum) {
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        const Passes *passes = &p->passes[phase];
        sum->passes += passes->passes;
        sum->interrupted += passes->interrupted;
        sum->lost += profile_work(p, phase).lost;
        sum->seconds += passes->seconds * p->session->n_threads;
        for (int t = 0; t < p->session->n_threads; t++)
            sum->waited += profile_thread(p, t, phase).waiting;
    }
    return sum;
}

void write_load(FILE *out, const Load *load) {
    bool busy = 10 * load->interrupted > load->passes ||
                load->waited > 0.25 * load->seconds;
    fprintf(
        out,
        "%s: other programs interrupted %.0f of %.0f passes and took %.3f ms, excluded from the shares of "
        "work; threads waited %.0f %% of the time",
        busy ? "busy" : "idle", load->interrupted, load->passes,
        1e3 * load->lost,
        load->seconds > 0 ? 100 * load->waited / load->seconds : 0);
}
