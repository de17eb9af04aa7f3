/* norms.c: the benchmark of norms (-m norms).
 *
 * Owns the mode that times every norm of norm.h and, as a lower bound, a copy
 * of the same bytes by the same threads in the same run. With a model it also
 * measures the norms' share of the time, unchanged and with all norms of one
 * kind.
 * Tests: norms, lab.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/parts.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include "lab/chart.h"
#include "lab/estimate.h"
#include "lab/machine.h"
#include "lab/norm_fused.h"
#include "lab/profile.h"
#include "lab/stopwatch.h"
#include "modes/common.h"
#include "norm.h"
#include "text/stream.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables -------------------------------------------------------------- */

typedef struct {
    const char *key, *heading; /* in JSON; in the table, of 80 columns */
    int width;                 /* in the table, with a space before it */
} Column;

static void write_headings(const Column *columns, int n) {
    for (int i = 0; i < n; i++)
        printf("%*s", columns[i].width, columns[i].heading);
    putchar('\n');
}

/* Begins a row, in JSON an object. The caller prints its first columns or
 * members. */
static void begin_row(const Options *o, int threads) {
    if (o->json)
        write_about(stdout, &(About){o->model, o->norm, threads});
}

/* A member of an object: the estimate and, if it says nothing, why. */
static void write_member(const char *key, Estimate e, int rounds) {
    const char *why = estimate_unusable(e, rounds);
    write_estimate(stdout, key, e);
    if (why)
        printf(", \"%s_not_measurable\": \"%s\"", key, why);
}

/* A cell of a table: "1.23+-0.04"; without the interval if that is too wide;
 * "-": not measurable. */
static void write_cell(Estimate e, int rounds, int width) {
    char text[64] = "-";
    const int digits = e.value < 10 ? 2 : e.value < 100 ? 1 : 0;
    const double reach = fmax(e.high - e.value, e.value - e.low);
    const bool measurable = !estimate_unusable(e, rounds);
    if (measurable)
        snprintf(text, sizeof text, "%.*f+-%.*f", digits, e.value, digits,
                 reach);
    if (measurable && (int)strlen(text) >= width)
        snprintf(text, sizeof text, "%.4g", e.value);
    printf("%*s", width, text);
}

static void end_row(const Options *o, const Column *columns, const Estimate *e,
                    int n, int rounds) {
    for (int i = 0; i < n; i++)
        if (o->json)
            write_member(columns[i].key, e[i], rounds);
        else
            write_cell(e[i], rounds, columns[i].width);
    puts(o->json ? "}" : "");
    fflush(stdout);
}

/* The reason why one of n estimates is not measurable; NULL: all are. */
static const char *first_unusable(const Estimate *e, int n, int rounds) {
    const char *why = NULL;
    for (int i = 0; i < n && !why; i++)
        why = estimate_unusable(e[i], rounds);
    return why;
}

/* Explains a table's cells "-". */
static void explain(const Options *o, const char *why) {
    if (why && !o->json)
        printf(
            "-: not measurable here: %s;\nuse a larger --seconds or a less busy machine\n",
            why);
}

/* ---- kernels ------------------------------------------------------------- */

typedef enum {
    RMS,
    LAYER,
    NO_BETA,
    COPY,
    ADD_THEN_RMS,
    FUSED,
    N_KERNELS
} Kernel;

/* What the kernels work on. */
typedef struct {
    int dim, tokens, threads;
    float *x, *y, *r; /* [tokens][dim] */
    Norm norms[NO_BETA + 1];
    int repeats[N_KERNELS]; /* calls in a measurement */
    Kernel kernel;          /* that runs now */
} Case;

static const Column KERNEL_COLUMNS[N_KERNELS] = {
    {"rmsnorm_ns", "RMS", 11},
    {"layernorm_to_rmsnorm", "Layer/RMS", 11},
    {"layernorm_no_beta_to_rmsnorm", "no beta/RMS", 12},
    {"copy_to_rmsnorm", "copy/RMS", 11},
    {"add_then_rmsnorm_ns", "add+RMS", 11},
    {"fused_to_separate", "fused/apart", 12},
};

/* Processes one token; `at` is the index of its first element. Of ADD_THEN_RMS,
 * only the addition. */
static void run_kernel(const Case *c, Kernel kernel, size_t at) {
    float *x = c->x + at, *y = c->y + at;
    const float *r = c->r + at;
    int i = 0;
    switch (kernel) {
    case RMS:
    case LAYER:
    case NO_BETA: norm_token(y, x, &c->norms[kernel], c->dim); break;
    case COPY: /* memcpy stores large sizes by other instructions */
        for (; i + LANES <= c->dim; i += LANES)
            vstore(y + i, vload(x + i));
        if (i < c->dim)
            vstore_n(y + i, vload_n(x + i, c->dim - i), c->dim - i);
        break;
    case ADD_THEN_RMS:
#pragma omp simd
        for (i = 0; i < c->dim; i++)
            x[i] += r[i];
        break;
    case FUSED: add_rmsnorm(y, x, r, &c->norms[RMS], c->dim); break;
    case N_KERNELS: break;
    }
}

/* Runs a kernel on all tokens, distributed over the threads as in
 * norm_forward(). */
static void run_on_tokens(const Case *c, Kernel kernel) {
    if (c->tokens == 1)
        run_kernel(c, kernel, 0);
    else
#pragma omp for schedule(static)
        for (int t = 0; t < c->tokens; t++)
            run_kernel(c, kernel, (size_t)t * c->dim);
}

static void repeat_kernel(void *of) {
    const Case *c = of;
    for (int i = 0; i < c->repeats[c->kernel]; i++) {
        run_on_tokens(c, c->kernel);
        if (c->kernel == ADD_THEN_RMS)
            run_on_tokens(c, RMS);
    }
}

/* Nanoseconds of all repeats. */
static double time_kernel(Case *c, Kernel kernel) {
    uint64_t start = nanoseconds();
    c->kernel = kernel;
    team_run(c->threads, repeat_kernel, c);
    return (double)(nanoseconds() - start);
}

static int time_kernels(void *context, double *values) {
    Case *c = context;
    double ns[N_KERNELS] = {0};
    for (Kernel k = 0; k < N_KERNELS; k++) {
        /* the divisor; itself in nanoseconds per token */
        bool adds = k == ADD_THEN_RMS || k == FUSED;
        Kernel base = adds ? ADD_THEN_RMS : RMS;
        ns[k] = time_kernel(c, k) / c->repeats[k] / c->tokens;
        values[k] = k == base ? ns[k] : ns[k] / ns[base];
    }
    return 0;
}

/* Measures and prints one case. Sets *why if a number is not measurable.
 * Returns 1 on failure. */
static int measure_case(const Run *run, int dim, int tokens, double seconds,
                        const char **why) {
    /* of a measurement, so that starting the threads does not count */
    double min_ns = 1e6;
    const Options *o = run->options;
    size_t n = (size_t)tokens * dim; /* floats of each array */
    float *x = allocate(5 * n, sizeof *x);
    if (!x)
        return 1;
    const float *gamma = x + 3 * n, *beta = gamma + n;
    Case c = {.dim = dim,
              .tokens = tokens,
              .threads = tokens < o->threads ? 1 : o->threads,
              .x = x,
              .y = x + n,
              .r = x + 2 * n,
              .norms = {{NORM_RMS, 1e-5f, .gamma = gamma},
                        {NORM_LAYER, 1e-5f, gamma, beta, 0},
                        {NORM_LAYER, 1e-5f, .gamma = gamma}}};
    for (size_t i = 0; i < 5 * n; i++) {
        /* repeated additions of r hardly change x */
        float size = i / n == 2 ? 1e-6f : 1;
        x[i] = ((float)(i * 7919 % 1000) * 1e-3f - 0.5f) * size;
    }
    for (Kernel k = 0; k < N_KERNELS; k++)
        for (c.repeats[k] = 8; time_kernel(&c, k) < min_ns;)
            c.repeats[k] *= 2;
    Estimate estimates[N_KERNELS];
    int rounds = measure(time_kernels, &c, N_KERNELS, seconds, estimates);
    if (rounds > 0 && !interrupted) {
        begin_row(o, c.threads);
        printf(o->json ? ", \"dim\": %d, \"tokens\": %d" : "%5d %6d", dim,
               tokens);
        end_row(o, KERNEL_COLUMNS, estimates, N_KERNELS, rounds);
        const char *unusable = first_unusable(estimates, N_KERNELS, rounds);
        *why = unusable ? unusable : *why;
    }
    free(x);
    return rounds < 0;
}

/* Measures the dims of the model's norms (for q_norm and k_norm a head counts
 * as a token), or a range of dims if no model was named. */
static int measure_kernels(const Run *run, double seconds) {
    enum { FEW = 8, MANY = 512 /* tokens */ };
    bool model = !run->options->bundled;
    const char *why = NULL;
    int dims[] = {8, 64, 128, 256, 512, 1024, 2048, 4096, 8192},
        n_dims = COUNT(dims);
    if (model) {
        dims[0] = run->model.config.dim;
        dims[1] = run->model.config.head_size;
        n_dims = run->model.layers[0].q_norm.gamma ? 2 : 1;
    }
    double each = seconds / (4 * n_dims + !model);
    if (!run->options->json) {
        printf(
            "RMS: ns per token, repeated on the same tokens; threads: %d, for fewer tokens 1\n"
            "  dim tokens",
            run->options->threads);
        write_headings(KERNEL_COLUMNS, N_KERNELS);
    }
    int status = model ? 0
                       : measure_case(run, 8, 10, each,
                                      &why); /* the shape used in study notes */
    for (int i = 0; i < n_dims; i++)
        for (int tokens = 1; tokens <= MANY && !status && !interrupted;
             tokens *= FEW)
            status = measure_case(run, dims[i], tokens, each, &why);
    explain(run->options, why);
    return status;
}

/* ---- cost of a model's norms --------------------------------------------- */

/* The model's norms unchanged (or changed by --norm), then all of one kind. */
enum { UNCHANGED = NORM_NONE + 1, N_VARIANTS };

/* For each phase: the norms' share of the work in percent, microseconds per
 * token, and the latter divided by the time without norms. */
enum {
    SHARE,
    TOKEN_US,
    OVER_NONE,
    N_COSTS,
    N_COST_COLUMNS = N_PHASES * N_COSTS
};
_Static_assert(N_VARIANTS *N_COST_COLUMNS <= MAX_VALUES,
               "a round has too many values");

/* Prefill, then decode. */
static const Column COST_COLUMNS[N_COST_COLUMNS] = {
    {"prefill_percent", "% prefill", 11},
    {"prefill_us_per_token", "us/token", 12},
    {"prefill_over_none", "to no norms", 12},
    {"decode_percent", "% decode", 11},
    {"decode_us_per_token", "us/token", 12},
    {"decode_over_none", "to no norms", 12},
};

typedef struct {
    Workload text;
    /* NormKind of the model's unchanged norms, in the order of its parts;
     * owned */
    Buffer kinds;
    Load load; /* of all rounds */
    Model *model;
} Trial;

/* Sets the kind of all norms, or restores the original kinds (UNCHANGED). The
 * last variant remains set. */
static void set_norms(Trial *t, int variant) {
    const NormKind *kept = (const void *)t->kinds.bytes;
    PART_EACH(at, t->model)
        if (part_norm(&at))
            part_norm(&at)->kind =
                variant == UNCHANGED ? *kept++ : (NormKind)variant;
}

static int time_variants(void *trial, double *values) {
    double(*costs)[N_PHASES][N_COSTS] = (void *)values;
    Trial *t = trial;
    int status = 0;
    for (int i = 0; i < N_VARIANTS && !status; i++) {
        /* none first, because it divides the others */
        int variant = (NORM_NONE + i) % N_VARIANTS;
        double seconds[N_PHASES];
        set_norms(t, variant);
        Profile *p = profile_open(t->text.tuning->session, (About){0});
        if (p)
            p->budget = INFINITY; /* time every pass */
        status = p ? time_text(&t->text, seconds) : -1;
        for (Phase phase = 0; phase < N_PHASES && !status; phase++) {
            const Passes *sums = &p->passes[phase];
            double *cost = costs[variant][phase];
            cost[SHARE] = 100 * profile_work(p, phase).share.value;
            cost[TOKEN_US] = 1e6 * sums->seconds / sums->passes /
                             (phase == PREFILL ? t->text.prompt : 1);
            cost[OVER_NONE] =
                cost[TOKEN_US] / costs[NORM_NONE][phase][TOKEN_US];
        }
        if (!status)
            profile_add_load(p, &t->load);
        profile_close(p);
    }
    return status;
}

/* Shortens the text until MIN_ROUNDS rounds fit into the time. */
static int fit_text(Workload *t, double seconds) {
    double trial[N_PHASES];
    Workload few = {t->tuning, 2, 2};
    if (time_text(&few, trial) || time_text(&few, trial))
        return -1;
    double all = trial[DECODE] / few.steps * (t->steps + 0.25 * t->prompt);
    double part = fmin(1, seconds / (N_VARIANTS * MIN_ROUNDS) / all);
    t->prompt = (int)fmax(2, t->prompt * part);
    t->steps = (int)fmax(2, t->steps * part);
    return 0;
}

/* Says in words what a phase's norms cost. */
static void say_cost(Phase phase, const Estimate *estimates, int rounds) {
    const Estimate *unchanged =
        estimates + UNCHANGED * N_COST_COLUMNS + phase * N_COSTS;
    const Estimate *layer =
        estimates + NORM_LAYER * N_COST_COLUMNS + phase * N_COSTS;
    const char *why = first_unusable(unchanged, OVER_NONE, rounds);
    char text[256];
    if (why)
        snprintf(
            text, sizeof text,
            "The share of the norms in the work of %s is not measurable here: %s.",
            PHASE_NAMES[phase], why);
    else
        snprintf(
            text, sizeof text,
            "Norms take %.2f %% of the work of %s (95 %% in this run: %.2f to %.2f); with LayerNorm everywhere %.2f %%; "
            "removing all norms would save at most %.2f us per token.",
            unchanged[SHARE].value, PHASE_NAMES[phase], unchanged[SHARE].low,
            unchanged[SHARE].high, layer[SHARE].value,
            unchanged[SHARE].value / 100 * unchanged[TOKEN_US].value);
    write_words(stdout, text, 0, CHART_MAX_COLUMNS);
}

static void report(const Run *run, const Trial *t, const Estimate *estimates,
                   int rounds) {
    const Options *o = run->options;
    int prompt = t->text.prompt, steps = t->text.steps;
    if (!o->json) {
        for (int phase = N_PHASES; phase-- > 0;)
            say_cost(phase, estimates, rounds);
        write_load_wrapped(stdout, &t->load, CHART_MAX_COLUMNS);
        printf("prefill of %d tokens, then decode of %d, %d rounds\n%-9s",
               prompt, steps, rounds, "norms");
        write_headings(COST_COLUMNS, N_COST_COLUMNS);
    }
    for (int variant = UNCHANGED; variant >= 0; variant--) {
        const char *name =
            variant == UNCHANGED ? "unchanged" : norm_name(variant);
        begin_row(o, o->threads);
        if (o->json)
            printf(
                ", \"prompt\": %d, \"steps\": %d, \"rounds\": %d, \"norms\": \"%s\"",
                prompt, steps, rounds, name);
        else
            printf("%-9s", name);
        end_row(o, COST_COLUMNS, estimates + variant * N_COST_COLUMNS,
                N_COST_COLUMNS, rounds);
    }
    explain(o, first_unusable(estimates, N_VARIANTS * N_COST_COLUMNS, rounds));
    if (!o->json)
        putchar('\n');
}

static int measure_model(Run *run, double seconds) {
    const Options *o = run->options;
    int half = run->session.context / 2;
    Trial t = {.text = {&run->tuning, min_int(half, o->prompt_tokens),
                        min_int(half, o->steps > 0 ? o->steps : 64)},
               .model = &run->model};
    Estimate estimates[MAX_VALUES];
    if (half < 2)
        return 0;
    PART_EACH(at, &run->model)
        if (part_norm(&at))
            buffer_append(&t.kinds, &part_norm(&at)->kind, sizeof(NormKind));
    int rounds = t.kinds.failed || fit_text(&t.text, seconds)
                     ? -1
                     : measure(time_variants, &t, N_VARIANTS * N_COST_COLUMNS,
                               seconds, estimates);
    if (rounds > 0 && !interrupted)
        report(run, &t, estimates, rounds);
    free(t.kinds.bytes);
    return -(rounds < 0);
}

int mode_norms(Run *run) {
    const Options *o = run->options;
    double kernels = 0.4 * o->seconds;
    if (measure_model(run, o->seconds - kernels))
        return -1;
    ends_soon = true;
    return -(measure_kernels(run, kernels) || stdout_finish());
}
