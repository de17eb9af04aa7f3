/* bench.c: how fast, and how far from the machine's limits.
 *
 * Owns the mode that times prefill and decode beside two floors measured in
 * the same run: reading memory (decode reads every weight once a token) and
 * multiply-adds (prefill). Everything is timed several times in turn; medians
 * are reported, because machines are shared.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "kernels/simd.h"
#include "kernels/tensor.h"
#include "model.h"
#include "modes/common.h"
#include "modes/modes.h"
#include "modes/options.h"

#include <omp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 5 };

/* ---- the floors -------------------------------------------------------------------------- */

/* Bytes/s of reading a buffer with all threads, each from one end of its share to
 * the other, in eight sums that do not wait for each other. */
static double read_rate(const float *buffer, size_t n, int threads) {
    enum { SUMS = 8 };
    const int passes = (int)(1 + (256u << 20) / (n * sizeof(float) + 1)); /* long enough for the clock */
    float sink = 0;
    const double start = now();
#pragma omp parallel num_threads(threads) reduction(+ : sink)
    {
        const size_t share = n / (size_t)omp_get_num_threads(); /* a multiple of SUMS * LANES */
        const float *mine = buffer + share * (size_t)omp_get_thread_num();
        vf sums[SUMS] = {{0}};
        for (int pass = 0; pass < passes; pass++)
            for (size_t i = 0; i < share; i += SUMS * LANES)
                for (int j = 0; j < SUMS; j++) sums[j] += vload(mine + i + (size_t)j * LANES);
        for (int j = 0; j < SUMS; j++) sink += vsum(sums[j]);
    }
    const double seconds = now() - start;
    volatile float used = sink;
    (void)used;
    return (double)passes * (double)n * sizeof(float) / seconds;
}

/* Multiply-adds of all threads, as float32 operations/s. */
static double fma_rate(int threads) {
    enum { CHAINS = 12, STEPS = 200000 };
    float sink = 0;
    const double start = now();
#pragma omp parallel num_threads(threads) reduction(+ : sink)
    {
        vf sums[CHAINS];
        const vf a = vset(0.999f), b = vset(0.001f); /* stays near 1 */
        for (int j = 0; j < CHAINS; j++) sums[j] = vset((float)j);
        for (int i = 0; i < STEPS; i++)
            for (int j = 0; j < CHAINS; j++) sums[j] = vfma(sums[j], a, b);
        for (int j = 0; j < CHAINS; j++) sink += vsum(sums[j]);
    }
    const double seconds = now() - start;
    volatile float used = sink;
    (void)used;
    return 2.0 * CHAINS * STEPS * LANES * threads / seconds;
}

/* ---- the model ------------------------------------------------------------------------------ */

typedef struct {
    int prompt_tokens, steps;
    double prefill[RUNS], decode[RUNS], read[RUNS], fma[RUNS]; /* tokens/s, bytes/s, operations/s */
} Bench;

/* One prefill, then one token after another. */
static int time_model(Run *run, const int *tokens, Bench *b, int i) {
    const double start = now();
    run_pack_weights(run);
    if (!run_logits(run, tokens, b->prompt_tokens, 0)) return -1;
    const double prefilled = now();
    for (int step = 0; step < b->steps; step++) {
        run_pack_weights(run);
        if (!run_logits(run, &tokens[step % b->prompt_tokens], 1, b->prompt_tokens + step)) return -1;
    }
    b->prefill[i] = b->prompt_tokens / (prefilled - start);
    b->decode[i] = b->steps / (now() - prefilled);
    return 0;
}

static int measure(Run *run, Bench *b) {
    const int vocab_size = run->model.config.vocab_size, threads = run->session.n_threads;
    const size_t unit = (size_t)threads * 8 * LANES;
    const size_t n = (run->model.decode_bytes / sizeof(float) / unit + 1) * unit;
    int *tokens = allocate((size_t)b->prompt_tokens, sizeof *tokens);
    float *buffer = allocate(n, sizeof *buffer);
    int status = tokens && buffer ? 0 : -1;
    for (int i = 0; !status && i < b->prompt_tokens; i++) tokens[i] = (int)((i * 7919LL + 3) % vocab_size);
    if (!status)
        for (size_t i = 0; i < n; i++) buffer[i] = 1;
    if (!status) status = time_model(run, tokens, b, 0); /* warm up */
    for (int i = 0; i < RUNS && !status && !interrupted; i++) {
        b->read[i] = read_rate(buffer, n, threads);
        b->fma[i] = fma_rate(threads);
        status = time_model(run, tokens, b, i);
    }
    free(tokens);
    free(buffer);
    return status;
}

/* Operations of the layers' products for one token: two for each weight, of experts those that it uses. */
static double layer_operations(const Model *m) {
    const Config *c = &m->config;
    const double dim = c->dim,
                 heads = 2.0 * c->head_size * (c->n_heads + c->n_kv_heads); /* rows of q, k, v; cols of o */
    double weights = 0;
    for (int l = 0; l < c->n_layers; l++)
        weights +=
            dim * heads + (m->layers[l].experts ? dim * c->n_experts + 3 * dim * c->expert_dim * c->n_experts_used
                                                : 3 * dim * c->hidden_dim);
    return 2 * weights;
}

static void show_json_string(const char *s) {
    putchar('"');
    for (; *s; s++)
        if (*s == '"' || *s == '\\' || (unsigned char)*s < ' ')
            printf("\\u%04x", (unsigned)*s);
        else
            putchar(*s);
    putchar('"');
}

static int report(const Run *run, Bench *b) {
    const Model *m = &run->model;
    const double prefill = median(b->prefill, RUNS), decode = median(b->decode, RUNS);
    const double read = median(b->read, RUNS) * 1e-9, peak = median(b->fma, RUNS) * 1e-9;
    const double decode_gbps = decode * (double)m->decode_bytes * 1e-9;
    const double gflops = prefill * layer_operations(m) * 1e-9;
    if (run->options->json) {
        printf("{\"model\": ");
        show_json_string(run->options->model);
        printf(", \"type\": \"%s\", \"threads\": %d, \"prompt_tokens\": %d, \"prefill_tps\": %.2f, "
               "\"decode_tps\": %.2f, \"weight_bytes\": %zu, \"decode_gbps\": %.3f, \"read_gbps\": %.3f, "
               "\"prefill_gflops\": %.3f, \"peak_gflops\": %.3f}\n",
               type_name(m->embedding.type), run->session.n_threads, b->prompt_tokens, prefill, decode, m->decode_bytes,
               decode_gbps, read, gflops, peak);
    } else {
        printf("prefill  %10.0f tokens/s  %8.1f GFLOP/s of %.1f (%.0f %%)\n", prefill, gflops, peak,
               100 * gflops / peak);
        printf("decode   %10.0f tokens/s  %8.1f GB/s of %.1f (%.0f %%)\n", decode, decode_gbps, read,
               100 * decode_gbps / read);
        printf("%s, %d threads, %d prompt tokens, %d decoded, %zu bytes of weights a token; medians of %d\n",
               type_name(m->embedding.type), run->session.n_threads, b->prompt_tokens, b->steps, m->decode_bytes, RUNS);
    }
    return stdout_finish();
}

int mode_bench(Run *run) {
    const Options *o = run->options;
    const int context = run->session.context;
    Bench b = {.prompt_tokens = o->prompt_tokens, .steps = o->steps > 0 ? o->steps : 64};
    if (context < 2) {
        fail("bench needs a context of at least 2, it is %d", context);
        return 1;
    }
    if (b.prompt_tokens > context - b.steps) { /* a short context: half for each at the least */
        if (b.steps > context / 2) b.steps = context / 2;
        if (b.prompt_tokens > context - b.steps) b.prompt_tokens = context - b.steps;
        note("cut to %d + %d tokens, the context is %d", b.prompt_tokens, b.steps, context);
    }
    const int status = measure(run, &b) || (!interrupted && report(run, &b));
    return run_exit_status(status);
}
