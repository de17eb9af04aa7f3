/* tune.c: how this machine decodes this model fastest, found out while the first tokens run.
 *
 * Owns the ways that are tried, and the choice: how many threads run a small model, whose barriers may cost more than
 * sharing saves, and what products ask for ahead of where they read panels. Processors follow a stream of memory by
 * themselves, some as fast as memory goes, some not; then requests help, elsewhere they cost. Each way to read takes
 * its turn at every layer, so that all ways read the same weights; the least time of a layer counts, because whatever
 * else the machine does only adds to it.
 */
#include "lab/tune.h"
#include "base/error.h"
#include "base/memory.h"
#include "formats/pack.h"
#include "formats/parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const Request WAYS[] = {{0, false}, {2048, true}, {8192, true}, {4096, false}, {8192, false}};

enum {
    N_WAYS = sizeof WAYS / sizeof *WAYS,
    LEAST_LAYER = 128 << 10, /* bytes: the barriers of smaller layers cost more than a second thread saves, */
    MOST_LAYER = 4 << 20,    /* those of larger ones do not */
    RUN = 8,                 /* tokens with so many threads before the number changes: the first ones wake them up */
    THREAD_TRIALS = 4 * RUN,
    MOST_TRIALS = THREAD_TRIALS + 3 * N_WAYS
};

/* Layer l, and what is behind the layers, as if it were one more, asks in way l + first, counted around. */
static void set_requests(Tuning *t, const Request *ways, int n_ways, int first) {
    const int n_layers = t->model->config.n_layers;
    for (PartAt at = parts_of(t->model); next_part(&at);) {
        const int l = at.part->owner == OF_MODEL ? n_layers : at.layer;
        if (part_weight(&at)) part_weight(&at)->request = ways[(l + first) % n_ways];
    }
    t->model->output.request = ways[(n_layers + first) % n_ways]; /* a tied one is no part */
}

static double least(double a, double b) { return a == 0 || b < a ? b : a; } /* a is 0 where there is none yet */

/* Takes down what the last token took. */
static void record(Tuning *t) {
    const int n = t->model->config.n_layers + 1, i = t->tried++;
    if (i >= THREAD_TRIALS)
        for (int l = 0; l < n; l++) {
            double *seconds = t->layer_seconds + (l + i) % N_WAYS * n + l;
            *seconds = least(*seconds, t->clock[l + 1] - t->clock[l]);
        }
    else if (i % RUN >= RUN / 2)
        t->token_seconds[i / RUN % 2] = least(t->token_seconds[i / RUN % 2], t->clock[n] - t->clock[0]);
}

static int fastest_way(const Tuning *t) {
    const int n = t->model->config.n_layers + 1;
    double seconds[N_WAYS] = {0};
    int best = 0;
    for (int way = 0; way < N_WAYS; way++) {
        for (int l = 0; l < n; l++) seconds[way] += t->layer_seconds[way * n + l];
        if (seconds[way] < (best ? seconds[best] : 0.98 * *seconds)) best = way; /* no requests without a gain */
    }
    return best;
}

/* How the next token runs. */
static void prepare(Tuning *t) {
    Session *s = t->session;
    const int i = t->tried;
    if (i < THREAD_TRIALS) {
        s->decode_threads = i / RUN % 2 ? s->n_threads : 1;
        return;
    }
    if (i == THREAD_TRIALS && t->token_seconds[0] > 0)
        s->decode_threads = t->token_seconds[1] < t->token_seconds[0] ? s->n_threads : 1;
    if (i < t->trials)
        set_requests(t, WAYS, N_WAYS, i);
    else if (i > THREAD_TRIALS)
        set_requests(t, &WAYS[fastest_way(t)], 1, 0);
}

void tune(Tuning *t, int n_tokens) {
    model_pack(t->model, t->session->n_threads, n_tokens);
    if (t->tried == t->trials || !t->model->packed) return;
    if (t->session->layer_clock && t->clock[0] > 0) record(t);
    t->clock[0] = 0; /* until a token is decoded */
    prepare(t);
    t->session->layer_clock = t->tried < t->trials ? t->clock : NULL;
}

bool tuning_ended(const Tuning *t) { return t->tried == t->trials && t->model->packed; }

/* What NORMA_AHEAD says. 0: nothing. */
static int given_request(Request *r) {
    const char *text = getenv("NORMA_AHEAD");
    int level = 2, ahead = 0;
    char end;
    if (!text) return 0;
    if (strcmp(text, "off") && (sscanf(text, "l%1d:%7d%c", &level, &ahead, &end) != 2 || level < 1 || level > 2 ||
                                ahead < 1 || ahead > 1 << 20))
        return fail("NORMA_AHEAD is '%s', expected off, l1:BYTES or l2:BYTES (at most 1048576)", text);
    *r = (Request){ahead, level == 1};
    return 1;
}

int tuning_open(Tuning *t, Model *model, Session *s) {
    const size_t n = (size_t)model->config.n_layers + 2, layer = model->decode_bytes / (n - 1);
    const bool ask = s->n_threads > 1 && layer >= LEAST_LAYER && layer < MOST_LAYER;
    Request given;
    const int is_given = given_request(&given);
    if (is_given < 0) return -1;
    *t = (Tuning){model, s, .tried = ask ? 0 : THREAD_TRIALS, .trials = is_given ? THREAD_TRIALS : MOST_TRIALS};
    if (is_given) set_requests(t, &given, 1, 0);
    s->decode_threads = layer < LEAST_LAYER ? 1 : s->n_threads;
    t->clock = allocate_zeroed(n, (N_WAYS + 1) * sizeof *t->clock);
    t->layer_seconds = t->clock ? t->clock + n : NULL;
    return t->clock ? 0 : -1;
}

void tuning_close(Tuning *t) {
    free(t->clock);
    *t = (Tuning){0};
}

const char *tuning_text(const Tuning *t) {
    static char text[96];
    const Request r = t->model->output.request;
    const int n = t->session->decode_threads;
    const int at = snprintf(text, sizeof text, "%d thread%s, ", n, n == 1 ? "" : "s");
    if (r.ahead)
        snprintf(text + at, sizeof text - (size_t)at, "panels asked for %d bytes ahead (l%d)", r.ahead, r.near ? 1 : 2);
    else
        snprintf(text + at, sizeof text - (size_t)at, "no panels asked for ahead");
    return text;
}
