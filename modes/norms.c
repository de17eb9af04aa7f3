/* bench_norms.c: the laboratory bench, -m norms.
 *
 * Owns the mode that times every norm of norm.c beside its floor, a plain copy
 * of the same bytes by the same threads in the same run; and, for a model, what
 * share of its time the norms take and would take if they were others. The
 * norms themselves are norm.c's, the shares profile.c's.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "kernels/simd.h"
#include "lab/norm_spec.h"
#include "lab/profile.h"
#include "model.h"
#include "modes/common.h"
#include "modes/modes.h"
#include "norm.h"

#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, SHARE_ROUNDS = 5 };
static const double LEAST_SECONDS = 5e-4; /* of one measurement */

/* ---- what is timed -------------------------------------------------------------------------- */

/* The arrays that the kernels work on. */
typedef struct {
    int dim, tokens, threads;
    float *x, *y, *r; /* [tokens][dim] */
    float *gamma, *beta;
    float *dgamma, *dbeta; /* [threads][dim] */
} Case;

static const float EPS = 1e-5f;

static void run_rmsnorm(const Case *c, size_t at) { rmsnorm(c->y + at, c->x + at, c->gamma, c->dim, EPS); }
static void run_layernorm(const Case *c, size_t at) { layernorm(c->y + at, c->x + at, c->gamma, c->beta, c->dim, EPS); }
static void run_add_rmsnorm(const Case *c, size_t at) {
    add_rmsnorm(c->y + at, c->x + at, c->r + at, c->gamma, c->dim, EPS);
}

static void run_add(const Case *c, size_t at) {
    float *x = c->x + at;
    const float *r = c->r + at;
#pragma omp simd
    for (int i = 0; i < c->dim; i++) x[i] += r[i];
}

static void run_rmsnorm_backward(const Case *c, size_t at) {
    const size_t own = (size_t)omp_get_thread_num() * (size_t)c->dim;
    rmsnorm_backward(c->y + at, c->dgamma + own, c->r + at, c->x + at, c->gamma, c->dim, EPS);
}

static void run_layernorm_backward(const Case *c, size_t at) {
    const size_t own = (size_t)omp_get_thread_num() * (size_t)c->dim;
    layernorm_backward(c->y + at, c->dgamma + own, c->dbeta + own, c->r + at, c->x + at, c->gamma, c->dim, EPS);
}

/* A loop, not memcpy, which would use other stores for large sizes. */
static void run_copy(const Case *c, size_t at) {
    float *y = c->y + at;
    const float *x = c->x + at;
    int i = 0;
    for (; i + LANES <= c->dim; i += LANES) vstore(y + i, vload(x + i));
    if (i < c->dim) vstore_n(y + i, vload_n(x + i, c->dim - i), c->dim - i);
}

typedef void Kernel(const Case *c, size_t at);

typedef enum {
    RMSNORM,
    LAYERNORM,
    ADD_RMSNORM,
    ADD_THEN_RMSNORM,
    RMSNORM_BACKWARD,
    LAYERNORM_BACKWARD,
    COPY,
    N_TIMED
} Timed;

static const struct {
    const char *name;
    Kernel *first, *then; /* over all tokens; then NULL: one pass */
} TIMED[N_TIMED] = {
    [RMSNORM] = {"rmsnorm", run_rmsnorm, NULL},
    [LAYERNORM] = {"layernorm", run_layernorm, NULL},
    [ADD_RMSNORM] = {"add_rmsnorm", run_add_rmsnorm, NULL},
    [ADD_THEN_RMSNORM] = {"add_then_rmsnorm", run_add, run_rmsnorm},
    [RMSNORM_BACKWARD] = {"rmsnorm_backward", run_rmsnorm_backward, NULL},
    [LAYERNORM_BACKWARD] = {"layernorm_backward", run_layernorm_backward, NULL},
    [COPY] = {"copy", run_copy, NULL},
};

/* ---- timing ----------------------------------------------------------------------------------- */

/* All tokens, shared by the threads of the region; one alone needs no sharing.
 * As norm_forward does it. */
static void pass(const Case *c, Kernel *kernel) {
    if (c->tokens == 1) {
        kernel(c, 0);
        return;
    }
#pragma omp for schedule(static)
    for (int t = 0; t < c->tokens; t++) kernel(c, (size_t)t * (size_t)c->dim);
}

static double seconds_of(const Case *c, Timed what, int times) {
    double start = 0, end = 0;
#pragma omp parallel num_threads(c->threads)
    {
#pragma omp barrier
#pragma omp master
        start = now();
        for (int i = 0; i < times; i++) {
            pass(c, TIMED[what].first);
            if (TIMED[what].then) pass(c, TIMED[what].then);
        }
#pragma omp master
        end = now();
    }
    return end - start;
}

/* Medians of nanoseconds per token; the kernels take turns, so that what else
 * the machine does hits all of them. */
static void time_case(const Case *c, double *ns) {
    int times[N_TIMED];
    double measured[N_TIMED][ROUNDS];
    for (Timed k = 0; k < N_TIMED; k++)
        for (times[k] = 1; seconds_of(c, k, times[k]) < LEAST_SECONDS;) times[k] *= 2;
    for (int round = 0; round < ROUNDS; round++)
        for (Timed k = 0; k < N_TIMED; k++) measured[k][round] = seconds_of(c, k, times[k]) / times[k];
    for (Timed k = 0; k < N_TIMED; k++) ns[k] = 1e9 * median(measured[k], ROUNDS) / c->tokens;
}

static void case_close(Case *c) {
    float *arrays[] = {c->x, c->y, c->r, c->gamma, c->beta, c->dgamma, c->dbeta};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

static int case_open(Case *c, int dim, int tokens, int threads) {
    *c = (Case){.dim = dim, .tokens = tokens, .threads = tokens < threads ? tokens : threads};
    const size_t n = (size_t)tokens * (size_t)dim, own = (size_t)c->threads * (size_t)dim;
    float **arrays[] = {&c->x, &c->y, &c->r, &c->gamma, &c->beta, &c->dgamma, &c->dbeta};
    const size_t sizes[] = {n, n, n, (size_t)dim, (size_t)dim, own, own};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *arrays[i] = allocate(sizes[i], sizeof(float));
        if (!*arrays[i]) {
            case_close(c);
            return -1;
        }
        for (size_t k = 0; k < sizes[i]; k++) (*arrays[i])[k] = (float)(k * 7919 % 1000) * 1e-3f - 0.5f;
    }
    for (size_t k = 0; k < n; k++) c->r[k] *= 1e-6f; /* x, to which it is added again and again, stays what it is */
    return 0;
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
           ns[RMSNORM], ns[LAYERNORM], ns[LAYERNORM] / ns[RMSNORM], ns[ADD_RMSNORM], ns[ADD_THEN_RMSNORM],
           ns[ADD_RMSNORM] / ns[ADD_THEN_RMSNORM], ns[RMSNORM_BACKWARD], ns[LAYERNORM_BACKWARD], ns[COPY],
           ns[RMSNORM] / ns[COPY]);
}

static void show_case_json(const Case *c, const double *ns, bool first) {
    printf("%s{\"dim\": %d, \"tokens\": %d, \"threads\": %d", first ? "" : ",\n ", c->dim, c->tokens, c->threads);
    for (Timed k = 0; k < N_TIMED; k++) printf(", \"%s_ns\": %.2f", TIMED[k].name, ns[k]);
    putchar('}');
}

static int measure(const Run *run, int dim, int tokens, bool first) {
    Case c;
    double ns[N_TIMED];
    if (case_open(&c, dim, tokens, run->options->threads)) return -1;
    time_case(&c, ns);
    if (run->options->json)
        show_case_json(&c, ns, first);
    else
        show_case(&c, ns);
    fflush(stdout);
    case_close(&c);
    return 0;
}

static int measure_dim(const Run *run, int dim, bool first) {
    static const int tokens[] = {1, 8, 64, 512};
    int status = 0;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens && !status && !interrupted; i++)
        status = measure(run, dim, tokens[i], first && i == 0);
    return status;
}

static int measure_all_dims(const Run *run) {
    int status = measure(run, 8, 10, true); /* what the study notes timed */
    for (int dim = 8; dim <= 8192 && !status; dim = dim == 8 ? 64 : 2 * dim) status = measure_dim(run, dim, false);
    return status;
}

/* The dims of its sites; a "token" of q_norm or k_norm is one of a token's heads. */
static int measure_sites(const Run *run) {
    const Config *c = &run->model.config;
    bool heads = false;
    for (int l = 0; l < c->n_layers; l++)
        heads |= run->model.layers[l].q_norm.gamma || run->model.layers[l].k_norm.gamma;
    return measure_dim(run, c->dim, true) || (heads && measure_dim(run, c->head_size, false)) ? -1 : 0;
}

static int measure_all(const Run *run) {
    if (run->options->json)
        putchar('[');
    else
        show_head();
    const int status = (run->options->model ? measure_sites : measure_all_dims)(run);
    if (run->options->json) puts("]");
    return status;
}

/* ---- what a model's norms cost ------------------------------------------------------------------ */

typedef struct {
    double share[N_PHASES], seconds[N_PHASES]; /* of the norms; of everything, per token */
} Cost;

/* One prefill and some tokens, timed. */
static int time_model(Run *run, const int *tokens, int prompt, int steps, Cost *cost) {
    Session *s = &run->session;
    Profile *profile = profile_open(s, false);
    run_pack_weights(run);
    int status = profile && run_logits(run, tokens, prompt, 0) ? 0 : -1;
    for (int i = 0; i < steps && !status; i++) {
        run_pack_weights(run);
        status = run_logits(run, &tokens[i], 1, prompt + i) ? 0 : -1;
    }
    for (Phase phase = 0; phase < N_PHASES && !status; phase++) {
        const double total = profile_total(profile, phase);
        cost->share[phase] = profile_parts(profile, phase, true) / total;
        cost->seconds[phase] = total / (phase == PREFILL ? prompt : steps);
    }
    profile_close(profile);
    return status;
}

static void show_costs(const char *norms, Cost *costs) {
    static const char *const phases[] = {"prefill", "decode"};
    printf("%-9s:", norms);
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        double share[SHARE_ROUNDS], seconds[SHARE_ROUNDS];
        for (int i = 0; i < SHARE_ROUNDS; i++) {
            share[i] = costs[i].share[phase];
            seconds[i] = costs[i].seconds[phase];
        }
        printf("  norms %.2f %% of %s (%.1f us a token)", 100 * median(share, SHARE_ROUNDS), phases[phase],
               1e6 * median(seconds, SHARE_ROUNDS));
    }
    putchar('\n');
}

/* The model as it is (or as --norm makes it), then with all norms of one kind, in turn. */
static int measure_model(Run *run) {
    enum { PROMPT = 256, STEPS = 64 };
    const int context = run->session.context, prompt = context > PROMPT + STEPS ? PROMPT : context / 2;
    const int steps = context - prompt < STEPS ? context - prompt : STEPS;
    static const char *const kinds[] = {[NORM_RMS] = "rms", [NORM_LAYER] = "layer"};
    Cost as_it_is[SHARE_ROUNDS], costs[2][SHARE_ROUNDS];
    int tokens[PROMPT];
    if (prompt < 2) return 0;
    for (int i = 0; i < prompt; i++) tokens[i] = (int)((i * 7919LL + 3) % run->model.config.vocab_size);
    int status = time_model(run, tokens, prompt, steps, as_it_is); /* to warm up */
    for (int round = 0; round < SHARE_ROUNDS && !status && !interrupted; round++)
        status = time_model(run, tokens, prompt, steps, &as_it_is[round]);
    for (int round = 0; round < SHARE_ROUNDS && !status; round++)
        for (NormKind kind = NORM_RMS; kind <= NORM_LAYER && !status && !interrupted; kind++)
            status = model_swap_norms(&run->model, kinds[kind]) ||
                     time_model(run, tokens, prompt, steps, &costs[kind][round]);
    if (status || interrupted) return status;
    printf("\nthe whole model; prefill of %d tokens, decode of %d; medians of %d\n", prompt, steps, SHARE_ROUNDS);
    show_costs("as it is", as_it_is);
    show_costs(norm_name(NORM_RMS), costs[NORM_RMS]);
    show_costs(norm_name(NORM_LAYER), costs[NORM_LAYER]);
    return 0;
}

int mode_norms(Run *run) {
    const int status = measure_all(run) || (run->options->model && !run->options->json && measure_model(run));
    return run_exit_status(status || stdout_finish());
}
