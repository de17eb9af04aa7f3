/* norms.c: the bench of the norms, -m norms.
 *
 * Owns the mode that times every norm of norm.h beside its floor, a plain copy of the same bytes by the
 * same threads in the same run; and, for a model, what share of its time the norms take, and would take
 * if they were of another kind.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/parts.h"
#include "kernels/simd.h"
#include "lab/norm_spec.h"
#include "lab/profile.h"
#include "lab/stopwatch.h"
#include "modes/common.h"
#include "norm.h"

#include <omp.h>
#include <stdlib.h>

/* ---- what is timed -------------------------------------------------------------------------- */

/* Of ADD_THEN_RMS, which is ADD and then RMS, the part ADD is not timed by itself. */
typedef enum { RMS, LAYER, ADD_RMS, ADD_THEN_RMS, RMS_BACKWARD, LAYER_BACKWARD, COPY, N_TIMED, ADD = N_TIMED } Timed;
static const char *const NAMES[N_TIMED] = {"rmsnorm",          "layernorm",          "add_rmsnorm", "add_then_rmsnorm",
                                           "rmsnorm_backward", "layernorm_backward", "copy"};

enum { MOST_DIMS = 9 };
static const double LEAST_SECONDS = 5e-4; /* of one measurement */
static const float EPS = 1e-5f;

/* The arrays that the kernels work on, and how often each kernel is run at a time. */
typedef struct {
    int dim, tokens, threads, repeats[N_TIMED];
    float *x, *y, *r; /* [tokens][dim] */
    float *gamma, *beta;
    float *dgamma, *dbeta; /* [threads][dim] */
} Case;

NOINLINE void add(float *x, const float *r, int dim) {
#pragma omp simd
    for (int i = 0; i < dim; i++) x[i] += r[i];
}

/* A loop, not memcpy, which would use other stores for large sizes; and a call, as every norm is one. */
NOINLINE void copy(float *y, const float *x, int dim) {
    int i = 0;
    for (; i + LANES <= dim; i += LANES) vstore(y + i, vload(x + i));
    if (i < dim) vstore_n(y + i, vload_n(x + i, dim - i), dim - i);
}

/* Runs a kernel on one token, whose first element has the index `at`. */
static void run_kernel(const Case *c, Timed what, size_t at) {
    const int dim = c->dim;
    float *x = c->x + at, *y = c->y + at, *r = c->r + at;
    const bool backward = what == RMS_BACKWARD || what == LAYER_BACKWARD;
    const size_t own = backward ? (size_t)omp_get_thread_num() * (size_t)dim : 0;
    switch (what) {
    case RMS:
    case ADD_THEN_RMS: rmsnorm(y, x, c->gamma, dim, EPS); break;
    case LAYER: layernorm(y, x, c->gamma, c->beta, dim, EPS); break;
    case ADD_RMS: add_rmsnorm(y, x, r, c->gamma, dim, EPS); break;
    case RMS_BACKWARD: rmsnorm_backward(y, c->dgamma + own, r, x, c->gamma, dim, EPS); break;
    case LAYER_BACKWARD: layernorm_backward(y, c->dgamma + own, c->dbeta + own, r, x, c->gamma, dim, EPS); break;
    case COPY: copy(y, x, dim); break;
    case ADD: add(x, r, dim); break;
    }
}

/* ---- timing ----------------------------------------------------------------------------------- */

/* Runs a kernel on all tokens, which the threads of the region share as they do in norm_forward. */
static void run_on_tokens(const Case *c, Timed what) {
    if (c->tokens == 1) {
        run_kernel(c, what, 0);
        return;
    }
#pragma omp for schedule(static)
    for (int t = 0; t < c->tokens; t++) run_kernel(c, what, (size_t)t * (size_t)c->dim);
}

static double seconds_of(const Case *c, Timed what, int repeats) {
    double start = 0, end = 0;
#pragma omp parallel num_threads(c->threads)
    {
#pragma omp barrier
#pragma omp master
        start = now();
        for (int i = 0; i < repeats; i++) {
            if (what == ADD_THEN_RMS) run_on_tokens(c, ADD);
            run_on_tokens(c, what);
        }
#pragma omp master
        end = now();
    }
    return end - start;
}

/* A round: nanoseconds per token of each kernel. */
static int time_kernels(void *context, double *ns) {
    const Case *c = context;
    for (Timed k = 0; k < N_TIMED; k++) ns[k] = 1e9 * seconds_of(c, k, c->repeats[k]) / c->repeats[k] / c->tokens;
    return 0;
}

static int case_open(Case *c, int dim, int tokens, int threads) {
    *c = (Case){.dim = dim, .tokens = tokens, .threads = tokens < threads ? tokens : threads};
    const size_t n = (size_t)tokens * (size_t)dim, own = (size_t)c->threads * (size_t)dim;
    float **arrays[] = {&c->x, &c->y, &c->r, &c->gamma, &c->beta, &c->dgamma, &c->dbeta};
    const size_t sizes[] = {n, n, n, (size_t)dim, (size_t)dim, own, own};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        float *values = *arrays[i] = allocate(sizes[i], sizeof(float));
        if (!values) return -1;
        for (size_t k = 0; k < sizes[i]; k++) values[k] = (float)(k * 7919 % 1000) * 1e-3f - 0.5f;
    }
    for (size_t k = 0; k < n; k++) c->r[k] *= 1e-6f; /* x, to which it is added again and again, hardly changes */
    for (Timed k = 0; k < N_TIMED; k++)
        for (c->repeats[k] = 1; seconds_of(c, k, c->repeats[k]) < LEAST_SECONDS;) c->repeats[k] *= 2;
    return 0;
}

static void case_close(Case *c) {
    float *arrays[] = {c->x, c->y, c->r, c->gamma, c->beta, c->dgamma, c->dbeta};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

/* ---- the table ---------------------------------------------------------------------------------- */

static void show_head(void) {
    printf("ns a token: norms and, as their floor, a copy of x; ratios\n"
           "%5s %6s %7s %9s %9s %5s %9s %9s %5s %9s %9s %9s %5s\n",
           "dim", "tokens", "threads", "RMSNorm", "LayerNorm", "L/R", "add+RMS", "add, RMS", "fused", "RMS back",
           "Layer back", "copy", "R/copy");
}

static void show_case(const Case *c, const double *ns) {
    printf("%5d %6d %7d %9.1f %9.1f %5.2f %9.1f %9.1f %5.2f %9.1f %10.1f %9.1f %5.2f\n", c->dim, c->tokens, c->threads,
           ns[RMS], ns[LAYER], ns[LAYER] / ns[RMS], ns[ADD_RMS], ns[ADD_THEN_RMS], ns[ADD_RMS] / ns[ADD_THEN_RMS],
           ns[RMS_BACKWARD], ns[LAYER_BACKWARD], ns[COPY], ns[RMS] / ns[COPY]);
}

static void show_case_json(const Case *c, const double *ns, bool first) {
    printf("%s{\"dim\": %d, \"tokens\": %d, \"threads\": %d", first ? "" : ",\n ", c->dim, c->tokens, c->threads);
    for (Timed k = 0; k < N_TIMED; k++) printf(", \"%s_ns\": %.2f", NAMES[k], ns[k]);
    putchar('}');
}

static int measure_case(const Run *run, int dim, int tokens, bool first) {
    Case c;
    double ns[N_TIMED];
    const int status = case_open(&c, dim, tokens, run->options->threads) || measure(time_kernels, &c, N_TIMED, ns);
    if (!status && run->options->json) show_case_json(&c, ns, first);
    if (!status && !run->options->json) show_case(&c, ns);
    fflush(stdout);
    case_close(&c);
    return status;
}

/* The dims to measure, at most MOST_DIMS: those of the model's norms (a "token" of q_norm or k_norm is one
 * of a token's heads), or without a model many. */
static int choose_dims(const Run *run, int *dims) {
    if (!run->options->model) {
        for (int i = 0; i < MOST_DIMS; i++) dims[i] = i ? 32 << i : 8;
        return MOST_DIMS;
    }
    bool heads = false;
    for (PartAt at = parts_of(&run->model); next_part(&at);) heads |= at.part->of_heads;
    dims[0] = run->model.config.dim;
    dims[1] = run->model.config.head_size;
    return heads ? 2 : 1;
}

static int measure_kernels(const Run *run) {
    const bool json = run->options->json, model = run->options->model;
    int dims[MOST_DIMS];
    const int n_dims = choose_dims(run, dims);
    if (json) putchar('[');
    if (!json) show_head();
    int status = model ? 0 : measure_case(run, 8, 10, true); /* what the study notes timed */
    for (int i = 0; i < n_dims; i++)
        for (int tokens = 1; tokens <= 512 && !status && !interrupted; tokens *= 8)
            status = measure_case(run, dims[i], tokens, model && i == 0 && tokens == 1);
    if (json) puts("]");
    return status;
}

/* ---- what a model's norms cost ------------------------------------------------------------------ */

/* For each phase the norms' share of the time, and the seconds of one token. */
enum { SHARES, SECONDS = SHARES + N_PHASES, N_COSTS = SECONDS + N_PHASES };
_Static_assert(MOST_VALUES / N_COSTS >= N_NORM_KINDS, "a round has too many values");

static int time_as_it_is(void *context, double *costs) {
    const Text *t = context;
    double seconds[N_PHASES];
    if (interrupted) return 0; /* nothing will be shown */
    Profile *p = profile_open(t->session, false);
    const int status = p ? time_text(t, seconds) : -1;
    for (Phase phase = 0; phase < N_PHASES && !status; phase++) {
        costs[SHARES + phase] = profile_seconds(p, phase, true) / p->total[phase];
        costs[SECONDS + phase] = p->total[phase] / (phase == PREFILL ? t->prompt : t->steps);
    }
    profile_close(p);
    return status;
}

/* With all norms of one kind, then of the next. */
static int time_kinds(void *context, double *costs) {
    const Text *t = context;
    int status = 0;
    for (int kind = 0; kind < N_NORM_KINDS && !status; kind++)
        status = model_swap_norms(t->model, norm_spec_name(kind)) || time_as_it_is(context, costs + kind * N_COSTS);
    return status;
}

static void show_costs(const char *norms, const double *costs) {
    printf("%-9s:", norms);
    for (Phase phase = 0; phase < N_PHASES; phase++)
        printf("  norms %.2f %% of %s (%.1f us a token)", 100 * costs[SHARES + phase], PHASE_NAMES[phase],
               1e6 * costs[SECONDS + phase]);
    putchar('\n');
}

/* The model as it is (or as --norm makes it), then with all norms of one kind. */
static int measure_model(Run *run) {
    enum { PROMPT = 256, STEPS = 64 };
    double as_it_is[N_COSTS], of_kinds[N_NORM_KINDS * N_COSTS];
    const int context = run->session.context, prompt = context > PROMPT + STEPS ? PROMPT : context / 2;
    Text t = {&run->model, &run->session, prompt, context - prompt < STEPS ? context - prompt : STEPS};
    if (prompt < 2) return 0;
    if (time_as_it_is(&t, as_it_is) /* to warm up */ || measure(time_as_it_is, &t, N_COSTS, as_it_is) ||
        measure(time_kinds, &t, N_NORM_KINDS * N_COSTS, of_kinds))
        return -1;
    if (interrupted) return 0;
    printf("\nthe whole model; prefill of %d tokens, decode of %d; medians of %d\n", prompt, t.steps, ROUNDS);
    show_costs("as it is", as_it_is);
    for (int kind = 0; kind < N_NORM_KINDS; kind++) show_costs(norm_name(kind), of_kinds + kind * N_COSTS);
    return 0;
}

int mode_norms(Run *run) {
    const bool has_model = run->options->model, json = run->options->json;
    return run_exit_status(measure_kernels(run) || (has_model && !json && measure_model(run)) || stdout_finish());
}
