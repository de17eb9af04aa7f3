/* stopwatch.c: measuring on a machine that does other things, too: rounds and their medians, and the time of a made-up
 * text. */
#include "lab/stopwatch.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/parts.h"
#include "lab/profile.h"
#include "lab/tune.h"
#include "model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_narrow(Estimate e) { return e.high - e.low <= 0.02 * fabs(e.value); }

/* Sorts the n-th round's values into sorted[MOST_VALUES][MOST_ROUNDS]. Whether all intervals are narrow. */
static bool add_round(double *sorted, int n, const double *values, int n_values, Estimate *estimates) {
    bool narrow = true;
    for (int v = 0; v < n_values; v++, sorted += MOST_ROUNDS) {
        int at = n - 1;
        for (; at > 0 && sorted[at - 1] > values[v]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = values[v];
        estimates[v] = estimate_median(sorted, n);
        narrow = narrow && is_narrow(estimates[v]);
    }
    return narrow;
}

int measure(Round *round, void *context, int n_values, double seconds, Estimate *estimates) {
    double values[MOST_VALUES] = {0}, *sorted = allocate(MOST_VALUES, MOST_ROUNDS * sizeof *sorted);
    const double start = now();
    int n = 0, status = sorted ? 0 : -1;
    bool narrow = false, in_time = true;
    while (!status && !interrupted && n < MOST_ROUNDS && in_time && (n < MIN_ROUNDS || !narrow)) {
        status = round(context, values);
        if (!status) narrow = add_round(sorted, ++n, values, n_values, estimates);
        in_time = now() - start < seconds;
    }
    free(sorted);
    return status ? -1 : n;
}

/* By --norm none; numbers may then outgrow float32. */
static bool leaves_out_norms(const Model *model) {
    for (PartAt at = parts_of(model); next_part(&at);)
        if (part_norm(&at) && part_norm(&at)->kind == NORM_NONE) return true;
    return false;
}

/* Token i of a made-up text. */
static int made_up(int i, int vocab_size) { return (int)((i * 7919LL + 3) % vocab_size); }

int time_text(const Workload *t, double *seconds) {
    const Model *model = t->tuning->model;
    const bool any_number = leaves_out_norms(model);
    int *tokens = allocate((size_t)t->prompt, sizeof *tokens), status = tokens ? 0 : -1;
    for (int i = 0; i < t->prompt && !status; i++) tokens[i] = made_up(i, model->config.vocab_size);
    seconds[PREFILL] = seconds[DECODE] = 0;
    for (int i = 0; i <= t->steps && !status && !interrupted; i++) {
        const int n = i ? 1 : t->prompt, pos = i ? t->prompt + i - 1 : 0;
        const double start = now();
        const float *logits = model_forward_text(t->tuning->session, &tokens[i % t->prompt], n, pos, 1);
        status = logits ? 0 : -1;
        tune(t->tuning, n);
        if (logits && !any_number) status = check_logits(logits, (size_t)model->config.vocab_size);
        seconds[i ? DECODE : PREFILL] += now() - start;
    }
    free(tokens);
    return status;
}

/* The mean of a few passes, behind one that brings threads and caches in order. */
static double time_passes(Session *s, const Step *steps, int n) {
    enum { TIMES = 3 };
    double start = 0;
    for (int i = 0; i <= TIMES; i++) {
        if (i == 1) start = now();
        if (!model_forward(s, steps, n)) return -1;
    }
    return (now() - start) / TIMES;
}

/* The first n steps of a made-up text. */
static void say(Step *steps, int sequence, int n, int vocab_size, bool logits) {
    for (int i = 0; i < n; i++) steps[i] = (Step){made_up(i, vocab_size), sequence, i, logits};
}

/* The first n sequences behind sequence 0, which is the text's own, say half of the prompt. */
static int begin_sequences(const Workload *t, Step *steps, int n) {
    Session *s = t->tuning->session;
    const int had = s->n_sequences, half = t->prompt / 2;
    if (session_reserve(s, 1 + n)) return -1;
    if (had == 1 && half) {
        say(steps, 1, half, s->model->config.vocab_size, false);
        if (!model_forward(s, steps, half)) return -1;
    }
    for (int i = had > 1 ? had : 2; i <= n; i++)
        if (session_fork(s, i, 1)) return -1;
    return 0;
}

double time_steps(const Workload *t, int n, bool sequences) {
    Session *s = t->tuning->session;
    const int half = t->prompt / 2;
    Step *steps = allocate((size_t)(half + n), sizeof *steps);
    const int status = steps ? begin_sequences(t, steps, sequences ? n : 1) : -1;
    for (int i = 0; i < n && !status; i++)
        steps[i] =
            (Step){made_up(i, s->model->config.vocab_size), sequences ? 1 + i : 1, sequences ? half : half + i, true};
    const double seconds = status ? -1 : time_passes(s, steps, n);
    free(steps);
    return seconds;
}

double time_prompt(const Workload *t) {
    Session *s = t->tuning->session;
    const int n = t->prompt < s->batch ? t->prompt : s->batch;
    Step *steps = allocate((size_t)n, sizeof *steps);
    if (!steps) return -1;
    say(steps, 0, n, s->model->config.vocab_size, true);
    const double seconds = time_passes(s, steps, n);
    free(steps);
    return seconds / n;
}

double copy_seconds(int dim) {
    enum { TIMES = 1000 };
    const size_t bytes = (size_t)dim * sizeof(float);
    float *x = allocate((size_t)dim, 2 * sizeof *x), *volatile y = x ? x + dim : NULL;
    if (!x) return 0;
    memset(x, 0, bytes);
    const double start = now();
    for (int i = 0; i < TIMES; i++) memcpy(y, x, bytes);
    const double seconds = now() - start;
    free(x);
    return seconds / TIMES;
}
