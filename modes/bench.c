/* bench.c: how fast, and how far from the machine's limits.
 *
 * Owns the mode that times prefill and decode beside two limits measured in the same run: reading memory
 * (decode reads every weight once a token) and multiply-adds (prefill).
 */
#include "base/file.h"
#include "formats/parts.h"
#include "lab/stopwatch.h"
#include "modes/common.h"

/* What is measured: tokens/s of both, bytes/s, operations/s. */
enum { PREFILL_RATE, DECODE_RATE, READ_RATE, FMA_RATE, N_RATES };

static int time_round(void *context, double *rates) {
    const Text *t = context;
    double seconds[N_PHASES];
    if (interrupted) return 0; /* nothing will be reported */
    rates[READ_RATE] = read_rate(t->model->decode_bytes, t->session->n_threads);
    rates[FMA_RATE] = fma_rate(t->session->n_threads);
    if (!(rates[READ_RATE] > 0) || time_text(t, seconds)) return -1;
    rates[PREFILL_RATE] = t->prompt / seconds[PREFILL];
    rates[DECODE_RATE] = t->steps / seconds[DECODE];
    return 0;
}

/* Floating-point operations of the layers' products for one token: two for each weight that it uses. */
static double layer_operations(const Model *m) {
    double weights = 0;
    for (PartAt at = parts_of(m); next_part(&at);) {
        const Tensor *w = part_weight(&at);
        const bool used = at.part->owner != OF_EXPERT || at.expert < m->config.n_experts_used;
        if (w && used && at.part->owner != OF_MODEL) weights += (double)w->rows * w->cols;
    }
    return 2 * weights;
}

static void report(const Options *o, const Text *t, const double *rates) {
    const Model *m = t->model;
    const int threads = t->session->n_threads;
    const double read = rates[READ_RATE] * 1e-9, read_by_decode = rates[DECODE_RATE] * (double)m->decode_bytes * 1e-9;
    const double peak = rates[FMA_RATE] * 1e-9, gflops = rates[PREFILL_RATE] * layer_operations(m) * 1e-9;
    if (o->json) {
        printf("{\"model\": \"");
        for (const char *c = o->model; *c; c++)
            printf(*c == '"' || *c == '\\' || (unsigned char)*c < ' ' ? "\\u%04x" : "%c", *c);
        printf("\", \"type\": \"%s\", \"threads\": %d, \"prompt_tokens\": %d, \"prefill_tps\": %.2f, "
               "\"decode_tps\": %.2f, \"weight_bytes\": %zu, \"decode_gbps\": %.3f, \"read_gbps\": %.3f, "
               "\"prefill_gflops\": %.3f, \"peak_gflops\": %.3f}\n",
               type_name(m->embedding.type), threads, t->prompt, rates[PREFILL_RATE], rates[DECODE_RATE],
               m->decode_bytes, read_by_decode, read, gflops, peak);
        return;
    }
    printf("prefill  %10.0f tokens/s  %8.1f GFLOP/s of %.1f (%.0f %%)\n", rates[PREFILL_RATE], gflops, peak,
           100 * gflops / peak);
    printf("decode   %10.0f tokens/s  %8.1f GB/s of %.1f (%.0f %%)\n", rates[DECODE_RATE], read_by_decode, read,
           100 * read_by_decode / read);
    printf("%s, %d threads, %d prompt tokens, %d decoded, %zu bytes of weights a token; medians of %d\n",
           type_name(m->embedding.type), threads, t->prompt, t->steps, m->decode_bytes, ROUNDS);
}

int mode_bench(Run *run) {
    const Options *o = run->options;
    const int context = run->session.context;
    double rates[N_RATES];
    Text t = {&run->model, &run->session, o->prompt_tokens, o->steps > 0 ? o->steps : 64};
    if (context < 2) return bad_input("bench needs a context of at least 2, it is %d", context);
    if (t.prompt > context - t.steps) { /* a short context: at most half of it for decoding */
        if (t.steps > context / 2) t.steps = context / 2;
        if (t.prompt > context - t.steps) t.prompt = context - t.steps;
        note("cut to %d + %d tokens, the context is %d", t.prompt, t.steps, context);
    }
    if (time_round(&t, rates) /* to warm up */ || measure(time_round, &t, N_RATES, rates)) return 1;
    if (!interrupted) report(o, &t, rates);
    return run_exit_status(stdout_finish());
}
