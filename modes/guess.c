/* guess.c: what a text may say next.
 *
 * Owns the search for the last place where the text's last tokens stood, the choice between what followed there and
 * what a source guesses, and how many guesses are worth running. What they are run with is common.c's.
 */
#include "modes/guess.h"
#include "base/memory.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST = 3,
    SHORTEST = 2,
    TABLE_BITS = 14,
    FIRST_ALONE = 4, /* settled passes without guesses of the source, so that the time of one is known, */
    EVERY_ALONE = 64 /* and then two in so many */
};

void guesser_open(Guesser *g, int most, Source *source) {
    *g = (Guesser){.most = most, .source = source, .guesses = {{.hits = 0.5}, {.hits = 0.5}}};
}

void guesser_close(Guesser *g) {
    free(g->said.ids);
    free(g->ends);
    *g = (Guesser){0};
}

static int smaller(int a, int b) { return a < b ? a : b; }

void guesser_cut(Guesser *g, int n) {
    for (int i = 0; i < N_GUESSERS; i++) g->guesses[i].n = g->guesses[i].n_right = 0;
    g->n_run = 0;
    g->said.n = smaller(g->said.n, n);
}

/* ---- what is said ---------------------------------------------------------------------------- */

/* Where the table has the n tokens in front of ids[end]. */
static int *entry(const Guesser *g, int end, int n) {
    uint64_t hash = (uint64_t)n;
    for (int i = end - n; i < end; i++) hash = (hash ^ (uint64_t)g->said.ids[i]) * 0x9E3779B97F4A7C15;
    return &g->ends[hash >> (64 - TABLE_BITS)];
}

/* Moves a mean of late towards a value. */
static void move(double *mean, double value) { *mean += 0.1 * (value - *mean); }

void time_move(Time *t, double seconds) {
    const double step = t->n < 10 ? 1 + 1.0 / (1 + t->n) : 1.1;
    if (t->median > 0)
        t->median *= seconds > t->median ? step : 1 / step;
    else if (seconds > 0)
        t->median = seconds;
    t->n++;
}

/* Whether the next token is the next guess. */
static bool compare(Guesses *guesses, int token) {
    if (guesses->n_right < 0 || guesses->n_right == guesses->n) return false;
    const bool right = guesses->tokens[guesses->n_right] == token;
    move(&guesses->hits, right);
    guesses->n_right = right ? guesses->n_right + 1 : -1;
    return right;
}

int guesser_say(Guesser *g, int token) {
    if (!g->most && !g->source) return 0;
    if (g->most && !g->ends && !(g->ends = allocate_zeroed((size_t)1 << TABLE_BITS, sizeof *g->ends))) return -1;
    if (tokens_add(&g->said, token)) return -1;
    const int end = g->said.n - 1;
    for (int n = SHORTEST; g->most && n <= LONGEST && n <= end; n++) *entry(g, end, n) = end;
    const bool ran = g->guesses[g->by].n_right < g->n_run;
    const bool right[] = {compare(&g->guesses[BY_LOOKUP], token), compare(&g->guesses[BY_SOURCE], token)};
    if (g->source && !right[BY_SOURCE]) g->source->n_ran = smaller(g->source->n_ran, end);
    g->accepted += ran && right[g->by];
    return ran && right[g->by];
}

/* ---- what may come next ---------------------------------------------------------------------- */

/* Where the text went on on the last time that its last tokens stood in it; 0: they are new. */
static int last_time(const Guesser *g) {
    const int *ids = g->said.ids, said = g->said.n;
    for (int n = LONGEST; n >= SHORTEST && g->ends; n--) {
        const int end = n <= said ? *entry(g, said, n) : 0;
        if (end >= n && end < said && !memcmp(ids + end - n, ids + said - n, (size_t)n * sizeof *ids)) return end;
    }
    return 0;
}

static void look_up(const Guesser *g, Guesses *to, int most) {
    const int from = last_time(g), period = g->said.n - from;
    for (to->n = 0; from && to->n < most; to->n++) /* what ends here may begin again */
        to->tokens[to->n] = g->said.ids[from + to->n % period];
}

/* How many of up to n guesses give the most tokens a second, where making each takes `price` seconds; 0: none gives
 * more than *gain times the tokens of a pass without guesses. */
static int worth_running(const Guesser *g, double hits, int n, double price, double *gain) {
    double tokens = 1, chance = 1;
    int best = 0;
    for (int k = 1; k <= n && g->alone.median > 0; k++) {
        tokens += chance *= hits; /* that k guesses are expected to make */
        const double of_k = tokens * g->alone.median / (g->alone.median + k * (g->more.median + price));
        if (of_k <= *gain) continue;
        best = k;
        *gain = of_k;
    }
    return best;
}

/* Has the source guess where that is expected to give more than `gain`. Where no guess is, it guesses a token as often
 * as that takes 1 % of the time: guesses may have become better, or cheaper. -1: it failed. */
static int ask_source(Guesser *g, int room, double gain) {
    Source *s = g->source;
    Guesses *to = &g->guesses[BY_SOURCE];
    const int missed = g->said.n - 1 - s->n_ran, most = smaller(room, MOST_GUESSES);
    const double price = s->each.median + missed * s->missed.median + g->more.median;
    if (most < 1 || g->settled < FIRST_ALONE || g->passes % EVERY_ALONE < 2) return 0;
    const int n = worth_running(g, to->hits, most, s->each.median, &gain); /* what it missed pays as the text goes on */
    if (!n && (g->n_run || g->tried + price > 0.01 * g->passed + g->alone.median)) return 0;
    to->n = s->guess(s, &g->said, to->tokens, n ? n : 1);
    if (to->n < 0) return -1;
    if (!n) g->tried += price;
    if (!to->n) return 0;
    g->by = BY_SOURCE;
    g->n_run = to->n;
    return 0;
}

int guesser_guess(Guesser *g, int room, const int **tokens) {
    Guesses *lookup = &g->guesses[BY_LOOKUP];
    double gain = 1;
    guesser_cut(g, g->said.n);
    look_up(g, lookup, smaller(room, g->most));
    g->by = BY_LOOKUP;
    g->n_run = worth_running(g, lookup->hits, lookup->n, 0, &gain);
    if (g->source && ask_source(g, room, gain)) return -1;
    g->guessed += g->n_run;
    g->passes++;
    *tokens = g->guesses[g->by].tokens;
    return g->n_run;
}

void guesser_learn(Guesser *g, double seconds, bool settled) {
    const bool alone = g->guesses[BY_SOURCE].n == 0 && g->n_run == 0;
    g->passed += seconds;
    if (settled && g->settled++ == 0) g->alone.n = 0; /* another time than until now */
    if (g->n_run)
        time_move(&g->more, (seconds - g->alone.median) / g->n_run);
    else if (g->was_alone) /* threads are awake, and weights in caches, as they are where nothing is guessed */
        time_move(&g->alone, seconds);
    g->was_alone = alone;
    if (!g->more.n) g->more.median = 0.2 * g->alone.median; /* until it is measured */
    const double least = 0.01 * g->alone.median;            /* that a guess adds, whatever the clock says */
    if (g->more.median < least) g->more.median = least;
}
