/* profile.c: the time of each site in each layer, and the size of activations.
 *
 * Owns the hooks that the forward pass calls (base/probe.h). They read the clock and measure the inputs and outputs of
 * norms. The time between two marks of a thread belongs to the site of the second mark. The time of the marks
 * themselves belongs to SITE_PROFILE, so the sites add up to the total. Decode passes are sampled to limit the
 * overhead.
 */
#include "lab/profile.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/parts.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

const char *const PHASE_NAMES[N_PHASES] = {[PREFILL] = "prefill", [DECODE] = "decode"};

#define SITE_INFO(name, text, is_norm) {text, is_norm},
const SiteInfo SITES[N_SITES] = {SITE_LIST(SITE_INFO)};

static bool is_work(Site site) { return site >= SITE_EMBED && site <= SITE_LOGITS; }

/* The row of a layer, or of NO_LAYER. */
static int row_of(const Profile *p, int layer) {
    if (layer == NO_LAYER) return p->n_rows;
    return layer < MAX_LAYERS ? layer : MAX_LAYERS;
}

Record *profile_of_thread(const Profile *p, int thread, Phase phase, int layer, Site site) {
    const size_t rows = (size_t)p->n_rows + 1, row = (size_t)row_of(p, layer);
    return &p->records[(((size_t)thread * N_PHASES + phase) * rows + row) * N_SITES + site];
}

static uint32_t *histogram_of(const Profile *p, Phase phase, int layer, Site site) {
    return p->histograms[profile_of_thread(p, 0, phase, layer, site) - p->records];
}

/* ---- the hooks --------------------------------------------------------------------------- */

/* The number of tokens of the current chunk that a site processes. */
static int tokens_of(const Profile *p, int layer, Site site) {
    return layer == NO_LAYER && (site == SITE_FINAL_NORM || site == SITE_LOGITS) ? p->session->chunk.n_requested : p->n;
}

static int bucket_of(uint64_t n, int buckets) {
    if (n < 8) return (int)n;
    const int exponent = ilogb((double)n), bucket = 8 * (exponent - 2) + (int)(n >> (exponent - 3) & 7);
    return bucket < buckets ? bucket : buckets - 1;
}

uint64_t bucket_start(int bucket) {
    return bucket < 8 ? (uint64_t)bucket : (uint64_t)(8 + bucket % 8) << (bucket / 8 - 1);
}

/* Adds the duration of a thread's last mark, plus `reading` nanoseconds for reading the clock, to SITE_PROFILE. */
static void add_mark(Profile *p, int thread, int layer, uint64_t reading) {
    Track *track = &p->tracks[thread];
    const double seconds = 1e-9 * (double)(track->last - track->began + reading);
    profile_of_thread(p, thread, p->phase, layer, SITE_PROFILE)->seconds += seconds;
    track->spent += seconds;
    track->began = track->last;
}

/* Adds the time from a thread's last mark to `at`, the start of a new mark, to a site. Returns the seconds added. */
static double add_time(Profile *p, int thread, int layer, Site site, uint64_t at) {
    Track *track = &p->tracks[thread];
    const uint64_t all = at - track->last, reading = all < p->reading ? all : p->reading, ticks = all - reading;
    const double seconds = 1e-9 * (double)ticks;
    Record *r = profile_of_thread(p, thread, p->phase, layer, site);
    add_mark(p, thread, layer, reading);
    r->seconds += seconds;
    r->calls++;
    r->tokens += (uint64_t)tokens_of(p, layer, site);
    ratio_add(&r->per_token, seconds, p->n);
    if (thread == 0) histogram_of(p, p->phase, layer, site)[bucket_of(ticks / (uint64_t)p->n, BUCKETS)]++;
    track->began = at;
    return seconds;
}

static void mark(Probe *probe, int layer, Site site) {
    Profile *p = (Profile *)probe;
    const uint64_t at = p->clock();
    const int thread = omp_get_thread_num();
    Track *track = &p->tracks[thread];
    if (site == SITE_START && thread > 0) { /* the thread was idle until now */
        track->began = track->last = at;
        return;
    }
    const double seconds = add_time(p, thread, layer, site, at);
    const bool repeated = thread > 0 && SITES[site].is_norm && each_thread_computes(p->n);
    if (SITES[site].is_norm && !repeated) track->norms += seconds;
    if (is_work(site) && !repeated) track->work += seconds;
    if (site == SITE_PROFILE) track->spent += seconds;
    track->last = p->clock();
}

static void waited(Probe *probe, int layer, Site site) {
    Profile *p = (Profile *)probe;
    if (omp_get_num_threads() == 1) return;
    const uint64_t at = p->clock();
    const int thread = omp_get_thread_num();
    profile_of_thread(p, thread, p->phase, layer, site)->waited += add_time(p, thread, layer, SITE_WAIT, at);
    p->tracks[thread].last = p->clock();
}

/* Starts a forward pass. Returns whether it is observed: every prefill pass is, and a sample of the decode passes. */
static bool begin(Probe *probe, bool decode) {
    Profile *p = (Profile *)probe;
    p->phase = decode ? DECODE : PREFILL;
    const bool observed = p->phase == PREFILL || p->unobserved == 0 || p->dump;
    if (observed) {
        memset(p->tracks, 0, (size_t)p->session->n_threads * sizeof *p->tracks);
        p->switches = lost_processors();
    }
    p->began = p->tracks[0].began = p->tracks[0].last = p->clock();
    return observed;
}

static void end(Probe *probe) {
    Profile *p = (Profile *)probe;
    const Track *track = &p->tracks[0];
    Passes *sums = &p->passes[p->phase];
    const bool observed = p->session->probe;
    if (observed) {
        mark(probe, NO_LAYER, SITE_END);
        add_mark(p, 0, NO_LAYER, 0);
    }
    const double seconds = 1e-9 * (double)((observed ? track->last : p->clock()) - p->began);
    sums->passes++;
    sums->seconds += seconds;
    if (observed) {
        sums->observed++;
        sums->net += seconds - track->spent;
        sums->observing += track->spent;
        double norms = 0, work = 0;
        for (const Track *t = track; t < track + p->session->n_threads; t++) norms += t->norms, work += t->work;
        if (lost_processors() == p->switches)
            ratio_add(&sums->norms, norms, work);
        else
            sums->interrupted++;
    }
    if (p->phase == PREFILL || p->unobserved-- > 0) return;
    /* observe every n-th pass with n odd, because the time of a token depends on its place in a block of positions */
    const double every = sums->observing / (p->budget * sums->net);
    p->unobserved = every < 1 ? 0 : every < 1e6 ? 2 * (int)ceil((every - 1) / 2) : 1000000;
}

static void chunk(Probe *probe, int n) { ((Profile *)probe)->n = n; }

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
    return (Sizes){(double)vsum(squares), (double)vsum(sum), vmax_lane(max)};
}

/* Adds x[dim] to a norm's input statistics: elements [channel, channel + dim) of a token's `width` elements. Returns
 * the sum of squares. */
static double add_input(Record *r, const float *x, int dim, int width, int channel, int position) {
    const Sizes s = sizes_of(x, dim);
    r->squares_in += s.squares / width;
    r->vectors++;
    if (s.squares > 0) r->means += fabs(s.sum) / sqrt(s.squares * dim);
    if (s.max > r->max_abs) {
        int i = 0;
        while (i < dim - 1 && fabsf(x[i]) != s.max) i++;
        r->max_abs = s.max;
        r->max_channel = channel + i;
        r->max_position = position;
    }
    return s.squares;
}

static void heads(Probe *probe, int layer, Site site, bool out, const float *x, size_t stride, int n, int n_heads,
                  int dim) {
    const Profile *p = (Profile *)probe;
    const Session *s = p->session;
    const Layer *l = &s->model->layers[layer];
    const size_t at =
        (size_t)(x - (site == SITE_Q_NORM ? s->chunk.q : s->chunk.k)); /* index of the first token's first head */
    const int rank_rows = site == SITE_Q_NORM ? l->wq.rows : l->wk.rows;
    const int width = (size_t)dim == stride ? dim : rank_rows, channel = (int)(at % stride);
    Record *r = profile_of_thread(p, omp_get_thread_num(), p->phase, layer, site);
    if (p->dump)
        dump_rows(p->dump, layer, SITES[site].name, out, x, s->chunk.steps + at / stride, n, (int)stride, channel,
                  n_heads * dim);
    for (int h = 0; h < n_heads; h++)
        for (int t = 0; t < n; t++) {
            const float *head = x + (size_t)t * stride + (size_t)(h * dim);
            const int position = s->chunk.steps[at / stride + (size_t)t].pos;
            if (out)
                r->squares_out += sizes_of(head, dim).squares / width;
            else
                add_input(r, head, dim, width, channel + h * dim, position);
        }
    mark(probe, layer, SITE_PROFILE);
}

/* Each thread measures a share of the tokens. */
static void norm(Probe *probe, int layer, Site site, const float *x, const float *y, int n, int dim) {
    const Profile *p = (Profile *)probe;
    const Session *s = p->session;
    const int thread = omp_get_thread_num();
    Record *r = profile_of_thread(p, thread, p->phase, layer, site);
    for (int out = 0; p->dump && thread == 0 && out < 2; out++)
        dump_rows(p->dump, layer, SITES[site].name, out, out ? y : x, s->chunk.steps, n, dim, 0, dim);
    for (int t = thread; t < n; t += omp_get_num_threads()) {
        const int pos = s->chunk.steps[site == SITE_FINAL_NORM ? s->chunk.requested[t] : t].pos;
        const size_t at = (size_t)t * (size_t)dim;
        const double mean_square = add_input(r, x + at, dim, dim, 0, pos) / dim;
        r->squares_out += sizes_of(y + at, dim).squares / dim;
        if (site != SITE_ATTN_NORM) continue;
        StreamSizes *stream = &p->streams[thread * p->n_rows + row_of(p, layer)];
        const int bucket = bucket_of((uint64_t)pos, POSITION_BUCKETS);
        (*stream)[bucket].squares += mean_square;
        (*stream)[bucket].tokens++;
    }
    mark(probe, layer, SITE_PROFILE);
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
    const int n_layers = session->model->config.n_layers, n_rows = n_layers <= MAX_LAYERS ? n_layers : MAX_LAYERS + 1;
    const size_t n_threads = (size_t)session->n_threads, sites = N_PHASES * (size_t)(n_rows + 1) * N_SITES;
    Profile *p = allocate(1, sizeof *p);
    if (!p) return NULL;
    *p = (Profile){.probe = {begin, end, chunk, mark, waited, norm, heads},
                   .session = session,
                   .about = about,
                   .n_rows = n_rows,
                   .clock = clock,
                   .reading = ticks_of_reading(clock),
                   .budget = 0.1};
    session->observer = &p->probe;
    /* zeroed here, because the first access to a page takes longer than a site of a small model */
    if (!(p->records = allocate_zeroed(n_threads * sites, sizeof *p->records)) ||
        !(p->streams = allocate_zeroed(n_threads * (size_t)n_rows, sizeof *p->streams)) ||
        !(p->histograms = allocate_zeroed(sites, sizeof *p->histograms)) ||
        !(p->tracks = allocate_zeroed(n_threads, sizeof *p->tracks))) {
        profile_close(p);
        return NULL;
    }
    return p;
}

void profile_close(Profile *p) {
    if (!p) return;
    p->session->observer = NULL;
    free(p->records);
    free(p->streams);
    free(p->histograms);
    free(p->tracks);
    free(p);
}

/* The end of the row that begins with `layer`: one past its last layer. */
static int row_end(const Profile *p, int layer) {
    return layer == MAX_LAYERS ? p->session->model->config.n_layers : layer + 1;
}

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
 * median plus 1 us per token; its time above the median is lost. For a site with fewer than 8 calls the median is over
 * all layers. */
static double lost_at(const Profile *p, Phase phase, int layer, Site site) {
    const Record *r = profile_of_thread(p, 0, phase, layer, site);
    const uint32_t *calls = histogram_of(p, phase, layer, site);
    Histogram all = {0};
    double usual = 0; /* sum over calls of nanoseconds per token; a long call counts as the median */
    bool lost = false;
    for (int l = r->calls < 8 ? NO_LAYER : p->n_rows; l < p->n_rows; l++)
        for (int b = 0; b < BUCKETS; b++) all[b] += histogram_of(p, phase, l, site)[b];
    const double median = 1e3 * quantile(r->calls < 8 ? all : calls, 0.5);
    for (int b = 0; b < BUCKETS; b++) {
        const double middle = 0.5 * (double)(bucket_start(b) + bucket_start(b + 1));
        const bool is_long = middle > 8 * median + 1000;
        usual += calls[b] * (is_long ? median : middle);
        lost = lost || (is_long && calls[b]);
    }
    return lost ? r->seconds - 1e-9 * usual * r->per_token.x / (double)r->calls : 0;
}

/* The first thread's record of a site, with all threads' work and activation statistics. */
static Record record_of(const Profile *p, Phase phase, int layer, Site site) {
    Record sum = *profile_of_thread(p, 0, phase, layer, site);
    for (int t = 1; t < p->session->n_threads; t++) {
        const Record *r = profile_of_thread(p, t, phase, layer, site);
        sum.squares_in += r->squares_in;
        sum.squares_out += r->squares_out;
        sum.vectors += r->vectors;
        sum.means += r->means;
        if (phase == DECODE && !SITES[site].is_norm) sum.work += r->seconds; /* threads share prompts equally */
        if (r->max_abs <= sum.max_abs) continue;
        sum.max_abs = r->max_abs;
        sum.max_channel = r->max_channel;
        sum.max_position = r->max_position;
    }
    sum.lost = is_work(site) ? lost_at(p, phase, layer, site) : 0;
    sum.work = sum.seconds > 0 ? (sum.seconds - sum.lost) * (1 + sum.work / sum.seconds) : sum.work;
    sum.seconds -= sum.lost;
    return sum;
}

double profile_rms_at(const Profile *p, int row, int from, int to) {
    double squares = 0, tokens = 0;
    for (int t = 0; t < p->session->n_threads; t++)
        for (int bucket = from; bucket < to; bucket++) {
            const StreamSizes *stream = &p->streams[t * p->n_rows + row];
            squares += (*stream)[bucket].squares;
            tokens += (double)(*stream)[bucket].tokens;
        }
    return tokens > 0 ? sqrt(squares / tokens) : 0;
}

double profile_seconds(const Profile *p, int thread, Phase phase, Site first, Site last) {
    double seconds = 0;
    for (int layer = NO_LAYER; layer < p->n_rows; layer++)
        for (Site s = first; s <= last; s++) seconds += profile_of_thread(p, thread, phase, layer, s)->seconds;
    return seconds;
}

Work profile_work(const Profile *p, Phase phase) {
    Work w = {0};
    for (int layer = NO_LAYER; layer < p->n_rows; layer++)
        for (Site s = SITE_EMBED; s <= SITE_LOGITS; s++) {
            const Record r = record_of(p, phase, layer, s);
            w.work += r.work;
            w.lost += r.lost;
            if (SITES[s].is_norm) w.norms += r.work;
            if (SITES[s].is_norm) w.elapsed += r.seconds;
        }
    w.share = estimate_ratio(&p->passes[phase].norms);
    if (!(p->passes[phase].norms.n > 0)) w.share = (Estimate){w.norms / w.work, -INFINITY, INFINITY};
    return w;
}

const Load *profile_add_load(const Profile *p, Load *sum) {
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        const Passes *passes = &p->passes[phase];
        sum->observed += passes->observed;
        sum->interrupted += passes->interrupted;
        sum->lost += profile_work(p, phase).lost;
        sum->seconds += passes->net * p->session->n_threads;
        for (int t = 0; t < p->session->n_threads; t++)
            sum->waited += profile_seconds(p, t, phase, SITE_WAIT, SITE_WAIT);
    }
    return sum;
}

void write_load(FILE *out, const Load *load) {
    const bool busy = 10 * load->interrupted > load->observed || load->waited > 0.25 * load->seconds;
    fprintf(out,
            "%s: other programs interrupted %llu of %llu observed passes and took %.3f ms, excluded from the shares of "
            "work; threads waited %.0f %% of the time",
            busy ? "busy" : "idle", (unsigned long long)load->interrupted, (unsigned long long)load->observed,
            1e3 * load->lost, load->seconds > 0 ? 100 * load->waited / load->seconds : 0);
}

/* ---- the report's rows ------------------------------------------------------------------- */

static void fill_row(const Profile *p, Phase phase, SiteRow *row) {
    const int last = row_end(p, row->layer) - 1;
    row->name[0] = '\0';
    if (row->layer != NO_LAYER) snprintf(row->name, sizeof row->name, "%d", row->layer);
    if (last > row->layer) snprintf(row->name, sizeof row->name, "%d-%d", row->layer, last);
    const Record *r = &row->record;
    const uint32_t *calls = histogram_of(p, phase, row->layer, row->site);
    const double tokens = profile_of_thread(p, 0, phase, NO_LAYER, SITE_EMBED)->per_token.x, of_phase = 1e6 / tokens;
    const Estimate call = estimate_ratio(&r->per_token);
    row->us.value = r->seconds * of_phase;
    row->us.low = row->us.value + (call.low - call.value) * r->per_token.x * of_phase;
    row->us.high = row->us.value + (call.high - call.value) * r->per_token.x * of_phase;
    row->median = quantile(calls, 0.5);
    row->p95 = quantile(calls, 0.95);
    row->share = is_work(row->site) ? r->work / row->work : 0;
    row->rms_in = sqrt(r->squares_in / (double)r->tokens);
    row->rms_out = sqrt(r->squares_out / (double)r->tokens);
    row->mean = r->vectors ? r->means / (double)r->vectors : 0;
}

bool profile_next(const Profile *p, Phase phase, SiteRow *row) {
    if (row->next == 0) row->work = profile_work(p, phase).work;
    while (row->next < (p->n_rows + 2) * N_SITES) {
        row->row = row->next / N_SITES - 1;
        row->site = (Site)(row->next++ % N_SITES);
        const bool in_layer = row->row >= 0 && row->row < p->n_rows, is_before = row->site <= SITE_EMBED;
        if (!in_layer && is_before != (row->row < 0)) continue;
        row->layer = in_layer ? row->row : NO_LAYER;
        row->record = record_of(p, phase, row->layer, row->site);
        if (!row->record.calls && !(row->record.seconds > 0)) continue;
        fill_row(p, phase, row);
        return true;
    }
    return false;
}
