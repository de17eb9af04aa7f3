/* bench.c: speed, compared with the limits of the machine.
 *
 * Owns the mode that times prefill and decode and, in the same run, the limits
 * of each: the read bandwidth (decode reads every weight once per token) and
 * the rate of multiply-adds (prefill).
 * Tests: lab, cli. */
#include "base/file.h"
#include "base/ranks.h"
#include "formats/parts.h"
#include "lab/limits.h"
#include "lab/machine.h"
#include "lab/profile.h"
#include "lab/stopwatch.h"
#include "modes/common.h"
#include "session.h"

/* Measured values: tokens/s, 10^9 bytes/s and 10^9 operations/s, each with its
 * limits. */
enum {
    PREFILL_RATE,
    DECODE_RATE,
    DECODE_BYTES,
    READ_BYTES,
    PREFILL_OPERATIONS,
    FLOAT_PEAK,
    BYTE_PEAK,
    N_VALUES
};

static const char *const NAMES[N_VALUES] = {
    "prefill_tps",    "decode_tps",  "decode_gbps",     "read_gbps",
    "prefill_gflops", "peak_gflops", "byte_peak_gflops"};

static int time_round(void *context, double *rates) {
    const Workload *t = context;
    const Session *s = t->tuning->session;
    const Model *m = s->model;
    double bytes = (double)m->decode_bytes / n_ranks;
    double seconds[N_PHASES];
    if (interrupted)
        return 0; /* no report follows */
    rates[READ_BYTES] = 1e-9 * read_rate((size_t)bytes, s->n_threads);
    Type type = m->layers->wq.type;
    rates[FLOAT_PEAK] = 1e-9 * multiply_rate(TYPE_F32, s->n_threads);
    rates[BYTE_PEAK] =
        1e-9 *
        multiply_rate(type_takes_int8(type) ? type : TYPE_I8, s->n_threads);
    if (!(rates[READ_BYTES] > 0) || time_text(t, seconds))
        return -1;
    rates[PREFILL_RATE] = t->prompt / seconds[PREFILL];
    rates[DECODE_RATE] = t->steps / seconds[DECODE];
    double weights =
        0; /* of the layers' products, in use; two operations each */
    PART_EACH(at, m) {
        const Tensor *w = part_weight(&at);
        if (w && at.part->owner != OF_MODEL &&
            (at.part->owner != OF_EXPERT ||
             at.expert < m->config.n_experts_used))
            weights += (double)w->rows * w->cols;
    }
    rates[PREFILL_OPERATIONS] = 2e-9 * rates[PREFILL_RATE] * weights;
    rates[DECODE_BYTES] = 1e-9 * rates[DECODE_RATE] * bytes;
    return 0;
}

/* Prints a rate in tokens/s and in the unit of its limit, then the limit and
 * the percentage reached. */
static void show_rate(const char *name, Estimate tokens, Estimate rate,
                      const char *unit, Estimate limit) {
    printf("%-7s  %10.0f tokens/s (%.0f to %.0f)  %8.1f %s of %.1f (%.0f %%)\n",
           name, tokens.value, tokens.low, tokens.high, rate.value, unit,
           limit.value, 100 * rate.value / limit.value);
}

static void report(const Options *o, const Workload *t, const Estimate *rates,
                   int rounds) {
    const Session *s = t->tuning->session;
    const Model *m = s->model;
    bool int8 = type_takes_int8(m->layers->wq.type);
    if (o->json) {
        write_about(stdout, &(About){o->model, o->norm, s->n_threads});
        for (int v = 0; v < N_VALUES; v++)
            write_estimate(stdout, NAMES[v], rates[v]);
        printf(
            ", \"type\": \"%s\", \"prompt_tokens\": %d, \"steps\": %d, \"rounds\": %d, \"weight_bytes\": %zu, \"decode_threads\": %d, \"ranks\": %d}\n",
            m->type, t->prompt, t->steps, rounds, m->decode_bytes,
            s->decode_threads, n_ranks);
        return;
    }
    show_rate("prefill", rates[PREFILL_RATE], rates[PREFILL_OPERATIONS],
              int8 ? "int8 GOP/s" : "GFLOP/s",
              rates[int8 ? BYTE_PEAK : FLOAT_PEAK]);
    show_rate("decode", rates[DECODE_RATE], rates[DECODE_BYTES], "GB/s",
              rates[READ_BYTES]);
    printf(
        "%s; threads: %d (decode: %d); prompt tokens: %d; decoded: %d; bytes of weights per token: %zu; rounds (medians): %d\n",
        m->type, s->n_threads, s->decode_threads, t->prompt, t->steps,
        m->decode_bytes, rounds);
}

int mode_bench(Run *run) {
    const Options *o = run->options;
    int context = run->session.context;
    Estimate rates[N_VALUES];
    Workload t = {&run->tuning, o->prompt_tokens, o->steps > 0 ? o->steps : 64};
    if (context < 2)
        return bad_input(
            "context is %d, bench needs at least 2; use a larger -c", context);
    if (t.prompt >
        context -
            t.steps) { /* a short context: at most half of it for decoding */
        t.steps = min_int(t.steps, context / 2);
        t.prompt = min_int(t.prompt, context - t.steps);
        note("shortened to %d + %d tokens, because the context is %d", t.prompt,
             t.steps, context);
    }
    ends_soon = run->profile != NULL;
    int rounds = measure(time_round, &t, N_VALUES, o->seconds, rates);
    if (rounds < 0)
        return -1;
    if (!interrupted)
        report(o, &t, rates, rounds);
    return stdout_finish();
}
