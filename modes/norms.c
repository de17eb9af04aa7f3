/* norms.c: the benchmark of norms (-m norms).
 *
 * Owns the mode that times every norm of norm.h and, as a lower bound, a copy of the same bytes by the same threads in
 * the same run. With a model it also measures the norms' share of the time, unchanged and with all norms of one kind.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/parts.h"
#include "kernels/simd.h"
#include "lab/estimate.h"
#include "lab/machine.h"
#include "lab/norm_fused.h"
#include "lab/profile.h"
#include "lab/stopwatch.h"
#include "modes/common.h"
#include "norm.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

/* ---- timed kernels ------------------------------------------------------------------------------ */

typedef enum { RMS, LAYER, LAYER_NO_BETA, ADD_RMS, ADD_THEN_RMS, COPY, N_TIMED } Timed;

/* The arrays that the kernels work on. */
typedef struct {
    int dim, tokens, threads, repeats[N_TIMED];
    float *x, *y, *r; /* [tokens][dim] */
    float *gamma, *beta;
    float *weights; /* [n_weights] read between two norms */
    size_t n_weights;
} Case;

static const double MIN_SECONDS = 2e-4; /* min duration of a measurement */
static const float EPS = 1e-5f;

/* Processes one token; `at` is the index of its first element. */
typedef void Kernel(const Case *c, size_t at);

static void run_rms(const Case *c, size_t at) { rmsnorm(c->y + at, c->x + at, c->gamma, c->dim, EPS); }
static void run_layer(const Case *c, size_t at) { layernorm(c->y + at, c->x + at, c->gamma, c->beta, c->dim, EPS); }
static void run_no_beta(const Case *c, size_t at) { layernorm(c->y + at, c->x + at, c->gamma, NULL, c->dim, EPS); }
static void run_fused(const Case *c, size_t at) { add_rmsnorm(c->y + at, c->x + at, c->r + at, c->gamma, c->dim, EPS); }

static void run_add(const Case *c, size_t at) {
    float *x = c->x + at;
    const float *r = c->r + at;
#pragma omp simd
    for (int i = 0; i < c->dim; i++) x[i] += r[i];
}

/* A loop, because memcpy uses other store instructions for large sizes. */
static void run_copy(const Case *c, size_t at) {
    float *y = c->y + at;
    const float *x = c->x + at;
    int i = 0;
    for (; i + LANES <= c->dim; i += LANES) vstore(y + i, vload(x + i));
    if (i < c->dim) vstore_n(y + i, vload_n(x + i, c->dim - i), c->dim - i);
}

static const struct {
    const char *name;
    Kernel *first, *then; /* `then`, unless NULL, runs after `first` has processed all tokens */
} TIMED[N_TIMED] = {
    [RMS] = {"rmsnorm_ns", run_rms, NULL},
    [LAYER] = {"layernorm_ns", run_layer, NULL},
    [LAYER_NO_BETA] = {"layernorm_no_beta_ns", run_no_beta, NULL},
    [ADD_RMS] = {"add_rmsnorm_ns", run_fused, NULL},
    [ADD_THEN_RMS] = {"add_then_rmsnorm_ns", run_add, run_rms},
    [COPY] = {"copy_ns", run_copy, NULL},
};

/* ---- timing ------------------------------------------------------------------------------------- */

/* Runs a kernel on all tokens, distributed over the threads as in norm_forward(). */
static void run_on_tokens(const Case *c, Kernel *kernel) {
    if (c->tokens == 1)
        kernel(c, 0);
    else
#pragma omp for schedule(static)
        for (int t = 0; t < c->tokens; t++) kernel(c, (size_t)t * (size_t)c->dim);
}

/* Seconds of `repeats` repetitions, with warm caches. */
static double warm_seconds(const Case *c, Timed what, int repeats) {
    double start = 0, end = 0;
#pragma omp parallel num_threads(c->threads)
    {
#pragma omp barrier
#pragma omp master
        start = now();
        for (int i = 0; i < repeats; i++) {
            run_on_tokens(c, TIMED[what].first);
            if (TIMED[what].then) run_on_tokens(c, TIMED[what].then);
        }
#pragma omp master
        end = now();
    }
    return end - start;
}

/* Seconds of a single call in place, that is in a decoder's cache state: first the threads read as much memory as the
 * products between two norms of a layer do, and x is written. The cost of reading the clock is subtracted. */
static double seconds_in_place(const Case *c, Timed what) {
    uint64_t ticks = 0;
#pragma omp parallel num_threads(c->threads)
    {
        vf sum = {0};
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < c->n_weights; i += LANES) sum += vload(c->weights + i);
        const float nothing = 1e-30f * vsum(sum);
#pragma omp for schedule(static)
        for (int i = 0; i < c->dim * c->tokens; i++) c->x[i] += nothing;
        const uint64_t start = nanoseconds();
        run_on_tokens(c, TIMED[what].first);
        const uint64_t end = nanoseconds();
#pragma omp master
        ticks = end - start;
    }
    const uint64_t reading = ticks_of_reading(nanoseconds);
    return ticks > reading ? 1e-9 * (double)(ticks - reading) : 0;
}

/* Values of a round: nanoseconds per token of each kernel, the same of three kernels in place, then ratios. */
enum {
    PLACE_RMS = N_TIMED,
    PLACE_LAYER,
    PLACE_COPY,
    LAYER_TO_RMS, /* ratios */
    NO_BETA_TO_RMS,
    FUSED_TO_SEPARATE,
    RMS_TO_COPY,
    PLACE_LAYER_TO_RMS,
    PLACE_TO_WARM,
    N_MEASURED
};
static const char *const MEASURED[N_MEASURED - N_TIMED] = {
    "rmsnorm_in_place_ns",  "layernorm_in_place_ns",         "copy_in_place_ns",
    "layernorm_to_rmsnorm", "layernorm_no_beta_to_rmsnorm",  "fused_to_separate",
    "rmsnorm_to_copy",      "layernorm_to_rmsnorm_in_place", "in_place_to_warm"};

static int time_kernels(void *context, double *ns) {
    enum { TIMES = 8 }; /* calls in place; the kernels alternate */
    static const Timed in_place[] = {RMS, LAYER, COPY};
    const Case *c = context;
    for (Timed k = 0; k < N_TIMED; k++) ns[k] = 1e9 * warm_seconds(c, k, c->repeats[k]) / c->repeats[k] / c->tokens;
    for (int i = 0; i < 3; i++) ns[PLACE_RMS + i] = 0;
    for (int time = 0; time < TIMES; time++)
        for (int i = 0; i < 3; i++) ns[PLACE_RMS + i] += 1e9 * seconds_in_place(c, in_place[i]) / TIMES / c->tokens;
    ns[LAYER_TO_RMS] = ns[LAYER] / ns[RMS];
    ns[NO_BETA_TO_RMS] = ns[LAYER_NO_BETA] / ns[RMS];
    ns[FUSED_TO_SEPARATE] = ns[ADD_RMS] / ns[ADD_THEN_RMS];
    ns[RMS_TO_COPY] = ns[RMS] / ns[COPY];
    ns[PLACE_LAYER_TO_RMS] = ns[PLACE_LAYER] / ns[PLACE_RMS];
    ns[PLACE_TO_WARM] = ns[PLACE_RMS] / ns[RMS];
    return 0;
}

/* Prints a ratio and its interval; "?": the interval contains 1. */
static void print_ratio(Estimate e) {
    char text[32];
    const double reach = fmax(e.high - e.value, e.value - e.low);
    if (e.low < 1 && e.high > 1)
        snprintf(text, sizeof text, "%.2f ?", e.value);
    else
        snprintf(text, sizeof text, "%.2f +-%.2f", e.value, reach);
    printf(" %11s", text);
}

static void show_case(const Case *c, const Estimate *e, bool json, bool first) {
    if (!json) {
        printf("%5d %6d %7d %8.1f %8.1f", c->dim, c->tokens, c->threads, e[RMS].value, e[LAYER].value);
        print_ratio(e[LAYER_TO_RMS]);
        print_ratio(e[NO_BETA_TO_RMS]);
        print_ratio(e[RMS_TO_COPY]);
        print_ratio(e[FUSED_TO_SEPARATE]);
        printf(" | %8.1f %8.1f", e[PLACE_RMS].value, e[PLACE_LAYER].value);
        print_ratio(e[PLACE_LAYER_TO_RMS]);
        putchar('\n');
        return;
    }
    printf("%s{\"dim\": %d, \"tokens\": %d, \"threads\": %d", first ? "" : ",\n  ", c->dim, c->tokens, c->threads);
    for (int v = 0; v < N_MEASURED; v++)
        write_estimate(stdout, v < N_TIMED ? TIMED[v].name : MEASURED[v - N_TIMED], e[v]);
    putchar('}');
}

static const char HEADER[] =
    "ns per token. Warm: repeated on the same tokens; in place: once, after a product, as in a decoder\n"
    "                     warm                                                                | in place\n"
    "  dim tokens threads      RMS    Layer   Layer/RMS no beta/RMS    RMS/copy  fused/apart |      RMS    Layer   "
    "Layer/RMS\n";

/* Measures and prints one case. Returns -1 on failure. */
static int measure_case(const Run *run, int dim, int tokens, double seconds, bool first) {
    enum { MAX_WEIGHTS = 4 << 20 /* 16 MB */ };
    const int threads = run->options->threads;
    const size_t n = ((size_t)tokens * (size_t)dim + LANES - 1) / LANES * LANES; /* floats of each array, aligned */
    const size_t layer = (size_t)dim * (size_t)dim * 4, n_weights = layer < MAX_WEIGHTS ? layer : MAX_WEIGHTS;
    float *x = allocate(5 * n + n_weights, sizeof *x);
    if (!x) return -1;
    float *y = x + n, *r = y + n, *gamma = r + n, *beta = gamma + n, *weights = beta + n;
    const int used = tokens < threads ? tokens : threads;
    Case c = {dim, tokens, used, {0}, x, y, r, gamma, beta, weights, n_weights};
    for (size_t i = 0; i < 5 * n; i++) x[i] = (float)(i * 7919 % 1000) * 1e-3f - 0.5f;
    for (size_t i = 0; i < n; i++) r[i] *= 1e-6f; /* repeated additions hardly change x */
    for (size_t i = 0; i < n_weights; i++) weights[i] = 0.5f;
    for (Timed k = 0; k < N_TIMED; k++)
        for (c.repeats[k] = 1; warm_seconds(&c, k, c.repeats[k]) < MIN_SECONDS;) c.repeats[k] *= 2;
    Estimate estimates[N_MEASURED];
    const int rounds = measure(time_kernels, &c, N_MEASURED, seconds, estimates);
    if (rounds > 0 && !interrupted) show_case(&c, estimates, run->options->json, first);
    fflush(stdout);
    free(x);
    return rounds < 0 ? -1 : 0;
}

/* Measures the dims of the model's norms (for q_norm and k_norm a head counts as a token), or a range of dims without a
 * model. */
static int measure_kernels(const Run *run, double seconds) {
    const bool json = run->options->json, model = run->options->model;
    int dims[] = {8, 64, 128, 256, 512, 1024, 2048, 4096, 8192}, n_dims = sizeof dims / sizeof *dims;
    if (model) {
        dims[0] = run->model.config.dim;
        dims[1] = run->model.config.head_size;
        n_dims = run->model.layers[0].q_norm.gamma ? 2 : 1;
    }
    const double each = seconds / (4 * n_dims + !model);
    fputs(json ? "\n \"cases\": [" : HEADER, stdout);
    int status = model ? 0 : measure_case(run, 8, 10, each, true); /* the shape used in study notes */
    for (int i = 0; i < n_dims; i++)
        for (int tokens = 1; tokens <= 512 && !status && !interrupted; tokens *= 8)
            status = measure_case(run, dims[i], tokens, each, model && i == 0 && tokens == 1);
    if (json) putchar(']');
    return status;
}

/* ---- cost of a model's norms -------------------------------------------------------------------- */

/* The model's norms unchanged (or changed by --norm), then all of one kind. */
enum { UNCHANGED = NORM_NONE + 1, N_VARIANTS };

/* For each variant and phase: the norms' share of the work, microseconds per token, and the latter divided by the time
 * without norms. */
typedef enum { SHARE, TOKEN_US, OVER_NONE, N_COSTS } Cost;
static const char *const COSTS[N_COSTS] = {"share", "us_per_token", "over_none"};
enum { N_ALL_COSTS = N_VARIANTS * N_PHASES * N_COSTS };
_Static_assert((int)N_ALL_COSTS <= MAX_VALUES, "a round has too many values");

typedef struct {
    Workload text;
    NormKind *kinds; /* of the model's unchanged norms, in the order of its parts */
    Load load;       /* of all rounds */
} Trial;

/* Sets the kind of all norms, or restores the original kinds (UNCHANGED). */
static void set_norms(Trial *t, int variant) {
    int i = 0;
    for (PartAt at = parts_of(t->text.tuning->model); next_part(&at);)
        if (part_norm(&at)) part_norm(&at)->kind = variant == UNCHANGED ? t->kinds[i++] : (NormKind)variant;
}

static int keep_norms(Trial *t) {
    size_t n = 0, i = 0;
    for (PartAt at = parts_of(t->text.tuning->model); next_part(&at);) n += part_norm(&at) != NULL;
    if (!(t->kinds = allocate(n, sizeof *t->kinds))) return -1;
    for (PartAt at = parts_of(t->text.tuning->model); next_part(&at);)
        if (part_norm(&at)) t->kinds[i++] = part_norm(&at)->kind;
    return 0;
}

static int time_variant(Trial *t, int variant, double costs[N_PHASES][N_COSTS]) {
    double seconds[N_PHASES];
    set_norms(t, variant);
    Profile *p = profile_open(t->text.tuning->session, (About){0}, nanoseconds);
    const int status = p ? time_text(&t->text, seconds) : -1;
    for (Phase phase = 0; phase < N_PHASES && !status; phase++) {
        const Passes *sums = &p->passes[phase];
        costs[phase][SHARE] = profile_work(p, phase).share.value;
        costs[phase][TOKEN_US] =
            1e6 * (sums->seconds - sums->observing) / (double)sums->passes / (phase == PREFILL ? t->text.prompt : 1);
    }
    if (!status) profile_add_load(p, &t->load);
    profile_close(p);
    return status;
}

static void divide_by_none(double costs[N_VARIANTS][N_PHASES][N_COSTS]) {
    for (int variant = 0; variant < N_VARIANTS; variant++)
        for (Phase phase = 0; phase < N_PHASES; phase++)
            costs[variant][phase][OVER_NONE] = costs[variant][phase][TOKEN_US] / costs[NORM_NONE][phase][TOKEN_US];
}

static int time_variants(void *trial, double *values) {
    double(*costs)[N_PHASES][N_COSTS] = (void *)values;
    for (int variant = 0; variant < N_VARIANTS; variant++)
        if (time_variant(trial, variant, costs[variant])) return -1;
    divide_by_none(costs);
    return 0;
}

static void show_variant(int variant, const Estimate e[N_PHASES][N_COSTS], bool json) {
    const char *name = variant == UNCHANGED ? "unchanged" : norm_name((NormKind)variant);
    if (json) printf("%s\n  {\"norms\": \"%s\"", variant < N_VARIANTS - 1 ? "," : "", name);
    if (!json) printf("%-11s", name);
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        for (Cost c = 0; c < N_COSTS && json; c++) {
            char key[32];
            snprintf(key, sizeof key, "%s_%s", PHASE_NAMES[phase], COSTS[c]);
            write_estimate(stdout, key, e[phase][c]);
        }
        if (json) continue;
        const Estimate share = e[phase][SHARE];
        char text[64];
        snprintf(text, sizeof text, "%.2f %% (%.2f to %.2f)", 100 * share.value, 100 * share.low, 100 * share.high);
        printf("  %-23s %9.1f", text, e[phase][TOKEN_US].value);
        print_ratio(e[phase][OVER_NONE]);
    }
    fputs(json ? "}" : "\n", stdout);
}

/* Prints a summary in words. */
static void show_answer(const Estimate e[N_VARIANTS][N_PHASES][N_COSTS]) {
    for (Phase phase = N_PHASES; phase-- > 0;) {
        const Estimate share = e[UNCHANGED][phase][SHARE];
        printf("Norms take %.2f %% of the work of %s (95 %%: %.2f to %.2f); with LayerNorm everywhere %.2f %%; "
               "removing all norms would save at most %.2f us per token.\n",
               100 * share.value, PHASE_NAMES[phase], 100 * share.low, 100 * share.high,
               100 * e[NORM_LAYER][phase][SHARE].value, share.value * e[UNCHANGED][phase][TOKEN_US].value);
    }
}

/* Shortens the text until MIN_ROUNDS rounds fit into the time. */
static int fit_text(Workload *t, double seconds) {
    double trial[N_PHASES];
    const Workload few = {t->tuning, 2, 2};
    const double one_variant = seconds / (N_VARIANTS * MIN_ROUNDS);
    if (time_text(&few, trial) || time_text(&few, trial)) return -1;
    const double all = trial[DECODE] / few.steps * (t->steps + 0.25 * t->prompt);
    if (all <= one_variant) return 0;
    t->prompt = (int)fmax(2, t->prompt * one_variant / all);
    t->steps = (int)fmax(2, t->steps * one_variant / all);
    return 0;
}

static int measure_model(Run *run, double seconds) {
    enum { PROMPT = 256, STEPS = 64 };
    const bool json = run->options->json;
    const int context = run->session.context, prompt = context > PROMPT + STEPS ? PROMPT : context / 2;
    Trial t = {.text = {&run->tuning, prompt, context - prompt < STEPS ? context - prompt : STEPS}};
    Estimate estimates[N_VARIANTS][N_PHASES][N_COSTS];
    double warm_up[N_ALL_COSTS];
    if (prompt < 2 || interrupted) return 0;
    if (fit_text(&t.text, seconds) || keep_norms(&t)) return -1;
    const int rounds = time_variants(&t, warm_up) ? -1 : measure(time_variants, &t, N_ALL_COSTS, seconds, **estimates);
    set_norms(&t, UNCHANGED);
    free(t.kinds);
    if (rounds < 0 || interrupted) return rounds < 0 ? -1 : 0;
    if (json) {
        printf("\n \"prompt\": %d, \"steps\": %d, \"rounds\": %d, \"load\": \"", t.text.prompt, t.text.steps, rounds);
        write_load(stdout, &t.load);
        printf("\", \"model\": [");
    } else {
        show_answer(estimates);
        write_load(stdout, &t.load);
        printf("\n\nprefill of %d tokens, then decode of %d, %d rounds\n%-11s  %-23s %9s %11s  %-23s %9s %11s\n",
               t.text.prompt, t.text.steps, rounds, "norms", "share of prefill's work", "us/token", "to no norms",
               "share of decode's work", "us/token", "to no norms");
    }
    for (int variant = N_VARIANTS - 1; variant >= 0; variant--) show_variant(variant, estimates[variant], json);
    fputs(json ? "]," : "\n", stdout);
    return 0;
}

int mode_norms(Run *run) {
    const Options *o = run->options;
    if (o->json) {
        putchar('{');
        write_about(stdout, &(About){o->model, o->norm, o->threads});
        putchar(',');
    }
    const double kernels = o->model ? 0.4 * o->seconds : o->seconds;
    int status = o->model ? measure_model(run, o->seconds - kernels) : 0;
    if (!status) status = measure_kernels(run, kernels);
    if (o->json) puts("}");
    return status || stdout_finish() ? -1 : 0;
}
