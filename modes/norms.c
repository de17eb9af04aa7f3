/* norms.c: the bench of the norms, -m norms.
 *
 * Owns the mode that times every norm of norm.h beside its floor, a plain copy of the same bytes by the
 * same threads in the same run; and, for a model, what share of its time the norms take, and would take
 * if they were of another kind.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "lab/norm_spec.h"
#include "lab/profile.h"
#include "lab/stopwatch.h"
#include "modes/common.h"
#include "norm.h"
#include <omp.h>
#include <stdlib.h>

/* ---- what is timed ------------------------------------------------------------------------------ */

typedef enum { RMS, LAYER, ADD_RMS, ADD_THEN_RMS, RMS_BACKWARD, LAYER_BACKWARD, COPY, N_TIMED } Timed;

/* The arrays that the kernels work on, and how often each kernel is run at a time. */
typedef struct {
    int dim, tokens, threads, repeats[N_TIMED];
    float *x, *y, *r; /* [tokens][dim] */
    float *gamma, *beta;
    float *dgamma, *dbeta; /* [threads][dim] */
} Case;

static const double LEAST_SECONDS = 5e-4; /* of one measurement */
static const float EPS = 1e-5f;

/* What is timed: one token's part, whose first element has the index `at`. */
typedef void Kernel(const Case *c, size_t at);

static void run_rms(const Case *c, size_t at) { rmsnorm(c->y + at, c->x + at, c->gamma, c->dim, EPS); }
static void run_layer(const Case *c, size_t at) { layernorm(c->y + at, c->x + at, c->gamma, c->beta, c->dim, EPS); }
static void run_fused(const Case *c, size_t at) { add_rmsnorm(c->y + at, c->x + at, c->r + at, c->gamma, c->dim, EPS); }

static void run_add(const Case *c, size_t at) {
    float *x = c->x + at;
    const float *r = c->r + at;
#pragma omp simd
    for (int i = 0; i < c->dim; i++) x[i] += r[i];
}

/* The thread's gradient of gamma or beta. */
static float *own(const Case *c, float *gradients) { return gradients + (size_t)omp_get_thread_num() * (size_t)c->dim; }

static void run_rms_back(const Case *c, size_t at) {
    rmsnorm_backward(c->y + at, own(c, c->dgamma), c->r + at, c->x + at, c->gamma, c->dim, EPS);
}
static void run_layer_back(const Case *c, size_t at) {
    layernorm_backward(c->y + at, own(c, c->dgamma), own(c, c->dbeta), c->r + at, c->x + at, c->gamma, c->dim, EPS);
}

/* A loop, not memcpy, which would use other stores for large sizes. */
static void run_copy(const Case *c, size_t at) {
    float *y = c->y + at;
    const float *x = c->x + at;
    int i = 0;
    for (; i + LANES <= c->dim; i += LANES) vstore(y + i, vload(x + i));
    if (i < c->dim) vstore_n(y + i, vload_n(x + i, c->dim - i), c->dim - i);
}

static const struct {
    const char *name;
    Kernel *first, *then; /* `then` (NULL: none) begins when `first` has gone over all tokens */
} TIMED[N_TIMED] = {
    [RMS] = {"rmsnorm", run_rms, NULL},
    [LAYER] = {"layernorm", run_layer, NULL},
    [ADD_RMS] = {"add_rmsnorm", run_fused, NULL},
    [ADD_THEN_RMS] = {"add_then_rmsnorm", run_add, run_rms},
    [RMS_BACKWARD] = {"rmsnorm_backward", run_rms_back, NULL},
    [LAYER_BACKWARD] = {"layernorm_backward", run_layer_back, NULL},
    [COPY] = {"copy", run_copy, NULL},
};

/* ---- timing ------------------------------------------------------------------------------------- */

/* Runs a kernel on all tokens, which the threads of the region share as they do in norm_forward. */
static void run_on_tokens(const Case *c, Kernel *kernel) {
    if (c->tokens == 1)
        kernel(c, 0);
    else
#pragma omp for schedule(static)
        for (int t = 0; t < c->tokens; t++) kernel(c, (size_t)t * (size_t)c->dim);
}

static double seconds_of(const Case *c, Timed what, int repeats) {
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

/* A round: nanoseconds per token of each kernel. */
static int time_kernels(void *context, double *ns) {
    const Case *c = context;
    for (Timed k = 0; k < N_TIMED; k++) ns[k] = 1e9 * seconds_of(c, k, c->repeats[k]) / c->repeats[k] / c->tokens;
    return 0;
}

static void show_case(const Case *c, const double *ns, bool json, bool first) {
    if (!json) {
        printf("%5d %6d %7d %9.1f %9.1f %5.2f %9.1f %9.1f %5.2f %9.1f %10.1f %9.1f %5.2f\n", c->dim, c->tokens,
               c->threads, ns[RMS], ns[LAYER], ns[LAYER] / ns[RMS], ns[ADD_RMS], ns[ADD_THEN_RMS],
               ns[ADD_RMS] / ns[ADD_THEN_RMS], ns[RMS_BACKWARD], ns[LAYER_BACKWARD], ns[COPY], ns[RMS] / ns[COPY]);
        return;
    }
    printf("%s{\"dim\": %d, \"tokens\": %d, \"threads\": %d", first ? "" : ",\n ", c->dim, c->tokens, c->threads);
    for (Timed k = 0; k < N_TIMED; k++) printf(", \"%s_ns\": %.2f", TIMED[k].name, ns[k]);
    putchar('}');
}

static int measure_case(const Run *run, int dim, int tokens, bool first) {
    const int threads = run->options->threads;
    const size_t n = ((size_t)tokens * (size_t)dim + LANES - 1) / LANES * LANES; /* floats of each array, aligned */
    float *x = allocate(7 * n, sizeof *x);
    if (!x) return -1;
    float *y = x + n, *r = y + n, *gamma = r + n, *beta = gamma + n, *dgamma = beta + n, *dbeta = dgamma + n;
    Case c = {dim, tokens, tokens < threads ? tokens : threads, {0}, x, y, r, gamma, beta, dgamma, dbeta};
    for (size_t i = 0; i < 7 * n; i++) x[i] = (float)(i * 7919 % 1000) * 1e-3f - 0.5f;
    for (size_t i = 0; i < n; i++) r[i] *= 1e-6f; /* x, to which it is added again and again, hardly changes */
    for (Timed k = 0; k < N_TIMED; k++)
        for (c.repeats[k] = 1; seconds_of(&c, k, c.repeats[k]) < LEAST_SECONDS;) c.repeats[k] *= 2;
    double ns[N_TIMED];
    const int status = measure(time_kernels, &c, N_TIMED, ns);
    if (!status) show_case(&c, ns, run->options->json, first);
    fflush(stdout);
    free(x);
    return status;
}

/* The dims are those of the model's norms (a "token" of q_norm or k_norm is one of a token's heads), or
 * without a model many. */
static int measure_kernels(const Run *run) {
    const bool json = run->options->json, model = run->options->model;
    int dims[] = {8, 64, 128, 256, 512, 1024, 2048, 4096, 8192}, n_dims = sizeof dims / sizeof *dims;
    if (model) {
        dims[0] = run->model.config.dim;
        dims[1] = run->model.config.head_size;
        n_dims = run->model.layers[0].q_norm.gamma ? 2 : 1;
    }
    fputs(json ? "["
               : "ns a token: norms and, as their floor, a copy of x; ratios\n"
                 "  dim tokens threads   RMSNorm LayerNorm   L/R   add+RMS  add, RMS fused  RMS back Layer back      "
                 "copy R/copy\n",
          stdout);
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
    Profile *p = profile_open(t->session, false, clock_cheapest());
    const int status = p ? time_text(t, seconds) : -1;
    for (Phase phase = 0; phase < N_PHASES && !status; phase++) {
        const Passes *passes = &p->passes[phase];
        costs[SHARES + phase] = profile_norm_share(p, phase).share;
        costs[SECONDS + phase] = passes->own / (double)passes->observed / (phase == PREFILL ? t->prompt : 1);
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
