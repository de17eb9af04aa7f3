/* bench.c: speed, compared with the limits of the machine.
 *
 * Owns the mode that times prefill and decode and, in the same run, the limits of each: the read bandwidth (decode
 * reads every weight once per token) and the rate of multiply-adds (prefill).
 */
#include "base/file.h"
#include "base/ranks.h"
#include "formats/parts.h"
#include "lab/limits.h"
#include "lab/machine.h"
#include "lab/profile.h"
#include "lab/stopwatch.h"
#include "lab/tune.h"
#include "model.h"
#include "modes/common.h"

/* Measured values: tokens/s of both phases, bytes/s, operations/s on floats and on bytes. */
enum { PREFILL_RATE, DECODE_RATE, READ_RATE, FLOAT_RATE, BYTE_RATE, N_VALUES };

static int time_round(void *context, double *rates) {
    const Workload *t = context;
    double seconds[N_PHASES];
    if (interrupted) return 0; /* no report follows */
    rates[READ_RATE] =
        read_rate(t->tuning->model->decode_bytes / (size_t)ranks_number(), t->tuning->session->n_threads);
    rates[FLOAT_RATE] = float_rate(t->tuning->session->n_threads);
    rates[BYTE_RATE] = byte_rate(t->tuning->session->n_threads);
    if (!(rates[READ_RATE] > 0) || time_text(t, seconds)) return -1;
    rates[PREFILL_RATE] = t->prompt / seconds[PREFILL];
    rates[DECODE_RATE] = t->steps / seconds[DECODE];
    return 0;
}

/* Floating-point operations of the layers' products per token: two for each weight in use. */
static double layer_operations(const Model *m) {
    double weights = 0;
    for (PartAt at = parts_of(m); next_part(&at);) {
        const Tensor *w = part_weight(&at);
        const bool used = at.part->owner != OF_EXPERT || at.expert < m->config.n_experts_used;
        if (w && used && at.part->owner != OF_MODEL) weights += (double)w->rows * w->cols;
    }
    return 2 * weights;
}

/* Prints a rate in tokens/s and in the unit of its limit, then the limit and the percentage reached. */
static void show_rate(const char *name, Estimate tokens, double unit, const char *of, Estimate limit) {
    const double rate = tokens.value * unit;
    printf("%-7s  %10.0f tokens/s (%.0f to %.0f)  %8.1f %s of %.1f (%.0f %%)\n", name, tokens.value, tokens.low,
           tokens.high, rate, of, 1e-9 * limit.value, 100 * rate / (1e-9 * limit.value));
}

/* Runs a token and returns the traffic of rank 0 for it; zero with one rank. */
static Traffic token_traffic(const Workload *t) {
    const Traffic before = ranks_traffic();
    const int token = 0;
    if (ranks_number() == 1 || !model_forward_text(t->tuning->session, &token, 1, t->prompt, 1)) return before;
    const Traffic after = ranks_traffic();
    return (Traffic){after.messages - before.messages, after.bytes - before.bytes};
}

static void report(const Options *o, const Workload *t, const Estimate *rates, int rounds) {
    const Model *m = t->tuning->model;
    const int threads = t->tuning->session->n_threads;
    const Traffic traffic = token_traffic(t);
    const long long messages = traffic.messages, bytes = traffic.bytes;
    const double gb = 1e-9 * (double)m->decode_bytes / ranks_number(), gflop = 1e-9 * layer_operations(m);
    if (o->json) {
        putchar('{');
        write_about(stdout, &(About){o->model, o->norm, threads});
        printf(", \"type\": \"%s\", \"prompt_tokens\": %d, \"steps\": %d, \"rounds\": %d", type_name(m->embedding.type),
               t->prompt, t->steps, rounds);
        write_estimate(stdout, "prefill_tps", rates[PREFILL_RATE]);
        write_estimate(stdout, "decode_tps", rates[DECODE_RATE]);
        printf(", \"weight_bytes\": %zu, \"decode_gbps\": %.3f, \"read_gbps\": %.3f, \"prefill_gflops\": %.3f, "
               "\"peak_gflops\": %.3f, \"byte_peak_gflops\": %.3f, \"reads\": \"%s\"",
               m->decode_bytes, rates[DECODE_RATE].value * gb, 1e-9 * rates[READ_RATE].value,
               rates[PREFILL_RATE].value * gflop, 1e-9 * rates[FLOAT_RATE].value, 1e-9 * rates[BYTE_RATE].value,
               tuning_text(t->tuning));
        if (messages)
            printf(", \"ranks\": %d, \"messages\": %lld, \"message_bytes\": %lld", ranks_number(), messages, bytes);
        printf("}\n");
        return;
    }
    const bool int8 = type_takes_int8(m->layers->wq.type);
    show_rate("prefill", rates[PREFILL_RATE], gflop, int8 ? "int8 GOP/s" : "GFLOP/s",
              rates[int8 ? BYTE_RATE : FLOAT_RATE]);
    show_rate("decode", rates[DECODE_RATE], gb, "GB/s", rates[READ_RATE]);
    printf("%s%s; threads: %d; prompt tokens: %d; decoded: %d; bytes of weights per token: %zu; rounds (medians): %d\n",
           type_name(m->embedding.type), t->tuning->session->chunk.input.unit_rows ? " in tiles" : "", threads,
           t->prompt, t->steps, m->decode_bytes, rounds);
    printf("decode: %s\n", tuning_text(t->tuning));
    if (messages)
        printf("ranks: %d; messages and bytes of rank 0 per token: %lld, %lld\n", ranks_number(), messages, bytes);
}

int mode_bench(Run *run) {
    const Options *o = run->options;
    const int context = run->session.context;
    Estimate rates[N_VALUES];
    double warm_up[N_VALUES] = {0};
    Workload t = {&run->tuning, o->prompt_tokens, o->steps > 0 ? o->steps : 64};
    if (context < 2) return bad_input("context is %d, bench needs at least 2; use a larger -c", context);
    if (t.prompt > context - t.steps) { /* a short context: at most half of it for decoding */
        if (t.steps > context / 2) t.steps = context / 2;
        if (t.prompt > context - t.steps) t.prompt = context - t.steps;
        note("shortened to %d + %d tokens, because the context is %d", t.prompt, t.steps, context);
    }
    const int rounds = time_round(&t, warm_up) ? -1 : measure(time_round, &t, N_VALUES, o->seconds, rates);
    if (rounds < 0) return -1;
    if (!interrupted) report(o, &t, rates, rounds);
    return stdout_finish();
}
