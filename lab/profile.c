/* profile.c: where a token's time goes, by layer and site.
 *
 * Owns the timers, what they add up to, and how it is shown: a table, CSV, a
 * trace file. It does not know what a site computes; the forward pass says
 * when one has ended (profile_mark), and everything since the mark before
 * belongs to it. So the parts always add up to the whole.
 */
#include "lab/profile.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/probe.h"
#include "kernels/simd.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool is_norm;
} SITES[N_SITES] = {
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

/* What is known of one site of one layer, in one phase. */
typedef struct {
    uint64_t calls, tokens;
    double seconds, bytes;
    double square_in, square_out; /* norms: sums over tokens of mean(x^2), mean(y^2) */
    float largest;                /* norms: |x| */
} Record;

/* One stretch of a thread's time, for the trace. */
typedef struct {
    double start, end;
    int layer; /* n_layers: outside */
    Site site;
} Event;

enum { MOST_EVENTS = 1 << 20 }; /* of a thread: 32 MB */

/* What one thread writes; the first thread's times are the ones that are shown. */
typedef struct {
    Record *records; /* [N_PHASES][n_layers + 1][N_SITES] */
    double last;     /* the mark before */
    Event *events;
    size_t n_events, room;
} Track;

struct Profile {
    Probe probe; /* first: a Probe of a session is its Profile */
    Session *session;
    int n_layers, n_threads;
    bool traces;
    Phase phase;
    int n, pos, n_logits; /* of the chunk that runs */
    double opened;
    double start, total[N_PHASES]; /* of model_forward, as seen from its caller */
    Track *tracks;                 /* [n_threads] */
};

static size_t records_of(const Profile *p) { return (size_t)N_PHASES * (size_t)(p->n_layers + 1) * N_SITES; }

static Record *record_at(const Profile *p, int thread, Phase phase, int layer, Site site) {
    return &p->tracks[thread].records[((size_t)phase * (size_t)(p->n_layers + 1) + (size_t)layer) * N_SITES + site];
}

static void begin(Probe *probe, int n);
static void chunk(Probe *probe, int n, int pos, int n_logits);
static void mark(Probe *probe, int layer, Site site, bool ended);
static void heads(Probe *probe, int layer, Site site, bool out, const float *x, size_t stride, int n, int n_heads,
                  int dim);
static void norm(Probe *probe, int layer, Site site, const float *x, const float *y, int n, int dim);
static void end(Probe *probe);

Profile *profile_open(Session *session, bool traces) {
    const int n_threads = session->n_threads;
    Profile *p = allocate(1, sizeof *p);
    if (!p) return NULL;
    *p = (Profile){.probe = {begin, chunk, mark, heads, norm, end},
                   .session = session,
                   .n_layers = session->model->config.n_layers,
                   .n_threads = n_threads,
                   .traces = traces,
                   .opened = now(),
                   .tracks = calloc((size_t)n_threads, sizeof *p->tracks)};
    bool ok = p->tracks;
    for (int t = 0; ok && t < n_threads; t++)
        ok = (p->tracks[t].records = calloc(records_of(p), sizeof *p->tracks[t].records)) != NULL;
    if (ok) session->probe = &p->probe;
    if (ok) return p;
    fail("out of memory");
    profile_close(p);
    return NULL;
}

void profile_close(Profile *p) {
    if (!p) return;
    p->session->probe = NULL;
    for (int t = 0; p->tracks && t < p->n_threads; t++) {
        free(p->tracks[t].records);
        free(p->tracks[t].events);
    }
    free(p->tracks);
    free(p);
}

/* ---- during the forward pass ------------------------------------------------------------- */

static void begin(Probe *probe, int n) {
    Profile *p = (Profile *)probe;
    p->phase = n > 1 ? PREFILL : DECODE;
    p->start = p->tracks[0].last = now();
}

static void end(Probe *probe) {
    Profile *p = (Profile *)probe;
    const double at = now();
    record_at(p, 0, p->phase, p->n_layers, SITE_START)->seconds += at - p->tracks[0].last; /* letting threads go */
    p->total[p->phase] += at - p->start;
}

static void chunk(Probe *probe, int n, int pos, int n_logits) {
    Profile *p = (Profile *)probe;
    p->n = n;
    p->pos = pos;
    p->n_logits = n_logits;
}

#define WEIGHTS(w) ((double)tensor_bytes(&(w), (w).rows))

/* The same for the halves of an MLP: of a dense layer, or of the experts that
 * have tokens, with a row of activations for each slot. */
static double mlp_bytes(const Profile *p, const Layer *layer, bool down) {
    const Session *s = p->session;
    const Config *c = &s->model->config;
    const bool sparse = layer->experts;
    const double rows = (double)p->n * (sparse ? c->n_experts_used : 1);
    const double dim = 4.0 * c->dim, hidden = 4.0 * (sparse ? c->expert_dim : c->hidden_dim);
    double weights = 0;
    for (int e = 0; e < (sparse ? c->n_experts : 1); e++) {
        const Mlp *m = sparse ? &layer->experts[e] : &layer->mlp;
        if (sparse && s->expert_start[e] == s->expert_start[e + 1]) continue;
        weights += down ? WEIGHTS(m->down) : WEIGHTS(m->gate) + WEIGHTS(m->up);
    }
    return weights + (down ? rows * (hidden + 2 * dim) : rows * (dim + 2 * hidden));
}

/* The bytes that a site cannot but move: its weights, what it reads and what it
 * writes, each once. */
static double bytes_of(const Profile *p, int l, Site site) {
    const Session *s = p->session;
    const Layer *layer = l < 0 ? NULL : &s->model->layers[l];
    const Config *c = &s->model->config;
    const double n = p->n, dim = 4.0 * c->dim; /* float32 rows */
    const double q = 4.0 * c->n_heads * c->head_size, kv = 4.0 * c->n_kv_heads * c->head_size;
    const double cached = 2 * kv * (s->kv.type == KV_F32 ? 1 : 0.5); /* of one position */
    switch (site) {
    case SITE_EMBED: return n * ((double)tensor_bytes(&s->model->embedding, 1) + dim);
    case SITE_ATTN_NORM:
    case SITE_MLP_NORM: return (2 * n + 1) * dim;
    case SITE_FINAL_NORM: return (2 * p->n_logits + 1) * dim;
    case SITE_QKV_ROPE: return WEIGHTS(layer->wq) + WEIGHTS(layer->wk) + WEIGHTS(layer->wv) + n * (dim + q + cached);
    case SITE_Q_NORM: return 2 * n * q + 4.0 * c->head_size;
    case SITE_K_NORM: return 2 * n * kv + 4.0 * c->head_size;
    case SITE_ATTENTION: return 2 * n * q + (p->pos + n) * cached;
    case SITE_ATTN_OUT: return WEIGHTS(layer->wo) + n * (q + 2 * dim);
    case SITE_ROUTER: return WEIGHTS(layer->router) + n * (dim + 4.0 * c->n_experts);
    case SITE_GATE_UP_SILU: return mlp_bytes(p, layer, false);
    case SITE_DOWN: return mlp_bytes(p, layer, true);
    case SITE_LOGITS: return WEIGHTS(s->model->output) + p->n_logits * (dim + 4.0 * c->vocab_size);
    default: return 0;
    }
#undef WEIGHTS
}

static void add_event(Track *track, Event event) {
    if (track->n_events == track->room) {
        const size_t room = track->room ? 2 * track->room : 4096;
        Event *grown = room <= MOST_EVENTS ? realloc(track->events, room * sizeof *grown) : NULL;
        if (!grown) return;
        track->events = grown;
        track->room = room;
    }
    track->events[track->n_events++] = event;
}

/* Everything since the mark before becomes the site's. */
static void mark(Probe *probe, int layer, Site site, bool ended) {
    Profile *p = (Profile *)probe;
    const int thread = omp_get_thread_num(), l = layer < 0 ? p->n_layers : layer;
    Track *track = &p->tracks[thread];
    const double at = now();
    if (site == SITE_START && thread > 0) track->last = at; /* it was idle until here */
    Record *r = record_at(p, thread, p->phase, l, site);
    r->seconds += at - track->last;
    if (p->traces && at > track->last) add_event(track, (Event){track->last, at, l, site});
    track->last = at;
    if (!ended) return;
    r->calls++;
    r->tokens += (uint64_t)(layer < 0 && site >= SITE_FINAL_NORM ? p->n_logits : p->n);
    if (thread == 0) r->bytes += bytes_of(p, layer, site);
}

static double mean_square(const float *x, int n, float *largest) {
    vf squares = {0}, max = {0};
    for (int i = 0; i < n; i += LANES) {
        const vf v = n - i < LANES ? vload_n(x + i, n - i) : vload(x + i);
        squares = vfma(v, v, squares);
        max = vmax(vmax(v, -v), max);
    }
    if (vmax_lane(max) > *largest) *largest = vmax_lane(max);
    return (double)vsum(squares) / n;
}

/* What one vector adds to the mean square of its token, of `width` elements in all. */
static void look(Record *r, bool out, const float *x, int dim, int width) {
    float ignored = 0;
    const double square = mean_square(x, dim, out ? &ignored : &r->largest) * dim / width;
    *(out ? &r->square_out : &r->square_in) += square;
}

static void heads(Probe *probe, int layer, Site site, bool out, const float *x, size_t stride, int n, int n_heads,
                  int dim) {
    const Profile *p = (Profile *)probe;
    Record *r = record_at(p, omp_get_thread_num(), p->phase, layer, site);
    for (int h = 0; h < n_heads; h++)
        for (int t = 0; t < n; t++) look(r, out, x + (size_t)t * stride + (size_t)(h * dim), dim, (int)stride);
    mark(probe, layer, SITE_PROFILE, out);
}

static void norm(Probe *probe, int layer, Site site, const float *x, const float *y, int n, int dim) {
    const Profile *p = (Profile *)probe;
    mark(probe, layer, site, true);
    const int threads = omp_get_num_threads(), thread = omp_get_thread_num();
    Record *r = record_at(p, thread, p->phase, layer < 0 ? p->n_layers : layer, site);
    for (int t = thread; t < n; t += threads) {
        look(r, false, x + (size_t)t * (size_t)dim, dim, dim);
        look(r, true, y + (size_t)t * (size_t)dim, dim, dim);
    }
    mark(probe, layer, SITE_PROFILE, true);
}

/* ---- after it ---------------------------------------------------------------------------- */

/* The first thread's record, with what all threads saw of the activations. */
static Record merged(const Profile *p, Phase phase, int layer, Site site) {
    Record sum = *record_at(p, 0, phase, layer, site);
    for (int t = 1; t < p->n_threads; t++) {
        const Record *r = record_at(p, t, phase, layer, site);
        sum.square_in += r->square_in;
        sum.square_out += r->square_out;
        if (r->largest > sum.largest) sum.largest = r->largest;
    }
    return sum;
}

double profile_total(const Profile *p, Phase phase) { return p->total[phase]; }

double profile_parts(const Profile *p, Phase phase, bool norms_only) {
    double seconds = 0;
    for (int l = 0; l <= p->n_layers; l++)
        for (Site site = 0; site < N_SITES; site++)
            if (SITES[site].is_norm || !norms_only) seconds += record_at(p, 0, phase, l, site)->seconds;
    return seconds;
}

/* Shows one site; layer is -1 outside the layers. */
typedef void ShowRecord(FILE *out, const Profile *p, Phase phase, int layer, Site site, const Record *r);

/* The sites that ran, in the order of the forward pass. */
static void for_each_record(FILE *out, const Profile *p, Phase phase, ShowRecord *show) {
    for (int l = -1; l <= p->n_layers; l++)
        for (Site site = 0; site < N_SITES; site++) {
            const bool before = site <= SITE_EMBED; /* outside the layers, but in front of them */
            if (l < 0 ? !before : l == p->n_layers && before) continue;
            const Record r = merged(p, phase, l < 0 ? p->n_layers : l, site);
            if (r.calls) show(out, p, phase, l == p->n_layers ? -1 : l, site, &r);
        }
}

static const char *const PHASE_NAMES[N_PHASES] = {"prefill", "decode"};

static double rms(const Record *r, double square) { return sqrt(square / (double)r->tokens); }

static void show_row(FILE *out, const Profile *p, Phase phase, int layer, Site site, const Record *r) {
    char number[16] = "";
    if (layer >= 0) snprintf(number, sizeof number, "%d", layer);
    fprintf(out, "%5s  %-12s %7llu %10.3f %10.2f %6.2f", number, SITES[site].name, (unsigned long long)r->calls,
            1e3 * r->seconds, 1e6 * r->seconds / (double)r->tokens, 100 * r->seconds / p->total[phase]);
    if (r->bytes > 0) fprintf(out, " %11.3f %7.1f", 1e-6 * r->bytes, 1e-9 * r->bytes / r->seconds);
    if (SITES[site].is_norm)
        fprintf(out, " %9.4g %9.4g %9.4g", rms(r, r->square_in), rms(r, r->square_out), (double)r->largest);
    fputc('\n', out);
}

void profile_table(const Profile *p, FILE *out) {
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        if (!(p->total[phase] > 0)) continue;
        fprintf(out, "\n%s\n%5s  %-12s %7s %10s %10s %6s %11s %7s %9s %9s %9s\n", PHASE_NAMES[phase], "layer", "site",
                "calls", "ms", "us/token", "%", "MB", "GB/s", "RMS in", "RMS out", "max |x|");
        for_each_record(out, p, phase, show_row);
        const double parts = profile_parts(p, phase, false);
        fprintf(out, "parts: %.3f ms, %.1f %% of the %.3f ms that the forward passes took\n", 1e3 * parts,
                100 * parts / p->total[phase], 1e3 * p->total[phase]);
    }
    const char *separator = "norms: ";
    for (Phase phase = 0; phase < N_PHASES; phase++)
        if (p->total[phase] > 0) {
            const double share = profile_parts(p, phase, true) / p->total[phase];
            fprintf(out, "%s%.2f %% of %s", separator, 100 * share, PHASE_NAMES[phase]);
            separator = ", ";
        }
    fputc('\n', out);
}

static void show_csv(FILE *out, const Profile *p, Phase phase, int layer, Site site, const Record *r) {
    fprintf(out, "%s,", PHASE_NAMES[phase]);
    if (layer >= 0) fprintf(out, "%d", layer);
    fprintf(out, ",%s,%llu,%llu,%.9f,%.4f,%.6f,%.0f,%.4f,", SITES[site].name, (unsigned long long)r->calls,
            (unsigned long long)r->tokens, r->seconds, 1e6 * r->seconds / (double)r->tokens,
            r->seconds / p->total[phase], r->bytes, 1e-9 * r->bytes / (r->seconds > 0 ? r->seconds : 1));
    if (SITES[site].is_norm)
        fprintf(out, "%.6g,%.6g,%.6g\n", rms(r, r->square_in), rms(r, r->square_out), (double)r->largest);
    else
        fputs(",,\n", out);
}

static void write_csv(const Profile *p, FILE *out) {
    fputs("phase,layer,site,calls,tokens,seconds,us_per_token,share,bytes,gb_per_s,rms_in,rms_out,max_abs\n", out);
    for (Phase phase = 0; phase < N_PHASES; phase++) for_each_record(out, p, phase, show_csv);
}

/* ---- Chrome trace events: one track a thread; spans nest by their times --------------------- */

static void write_span(FILE *out, const Profile *p, int thread, const char *name, double start, double end) {
    fprintf(out, ",\n{\"name\": \"%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f}", name,
            thread, 1e6 * (start - p->opened), 1e6 * (end - start));
}

/* How many events from the first on belong together: to the same layer, or to the same forward pass. */
static size_t run_of(const Event *e, size_t n, bool layer) {
    size_t i = 1;
    while (i < n && (layer ? e[i].layer == e[0].layer : e[i].site > SITE_EMBED || (i == 1 && e[i].site == SITE_EMBED)))
        i++;
    return i;
}

static void write_track(FILE *out, const Profile *p, int thread) {
    const Track *track = &p->tracks[thread];
    fprintf(
        out,
        ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"args\": {\"name\": \"thread %d\"}}",
        thread, thread);
    for (size_t i = 0, n; i < track->n_events; i += n) {
        const Event *e = track->events + i;
        n = run_of(e, track->n_events - i, false);
        write_span(out, p, thread, "forward", e[0].start, e[n - 1].end);
        for (size_t k = 0, in_layer; k < n; k += in_layer) {
            in_layer = run_of(e + k, n - k, true);
            char name[32];
            snprintf(name, sizeof name, "layer %d", e[k].layer);
            if (e[k].layer < p->n_layers) write_span(out, p, thread, name, e[k].start, e[k + in_layer - 1].end);
            for (size_t j = k; j < k + in_layer; j++)
                write_span(out, p, thread, SITES[e[j].site].name, e[j].start, e[j].end);
        }
    }
}

static void write_trace(const Profile *p, FILE *out) {
    fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n"
          "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"norma\"}}",
          out);
    for (int t = 0; t < p->n_threads; t++) write_track(out, p, t);
    fputs("\n]}\n", out);
    if (p->tracks[0].n_events == MOST_EVENTS)
        fprintf(stderr, "note: the trace holds the first %d events of each thread\n", MOST_EVENTS);
}

ProfileFormat profile_format(const char *path) {
    const char *ending = path ? strrchr(path, '.') : NULL;
    if (!path) return PROFILE_TABLE;
    return ending && !strcmp(ending, ".csv")    ? PROFILE_CSV
           : ending && !strcmp(ending, ".json") ? PROFILE_TRACE
                                                : PROFILE_NONE;
}

int profile_report(const Profile *p, const char *path) {
    profile_table(p, stderr);
    if (!path) return 0;
    OutputFile out;
    if (output_open(&out, path)) return -1;
    (profile_format(path) == PROFILE_CSV ? write_csv : write_trace)(p, out.stream);
    return output_close(&out, true);
}
