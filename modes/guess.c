/* guess.c: what a text may say next, by what it has said before.
 *
 * Owns the search for the last place where the text's last tokens stood, and how many of those that followed there are
 * worth running. What they are run with is common.c's.
 */
#include "modes/guess.h"
#include "base/memory.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 3, SHORTEST = 2, TABLE_BITS = 16 };

void guesser_open(Guesser *g, int most) { *g = (Guesser){.most = most, .hits = 0.5}; }

void guesser_close(Guesser *g) {
    free(g->said.ids);
    free(g->ends);
    *g = (Guesser){0};
}

/* Where the table has the n tokens in front of ids[end]. */
static int *entry(const Guesser *g, int end, int n) {
    uint64_t hash = (uint64_t)n;
    for (int i = end - n; i < end; i++) hash = (hash ^ (uint64_t)g->said.ids[i]) * 0x9E3779B97F4A7C15;
    return &g->ends[hash >> (64 - TABLE_BITS)];
}

/* Moves a mean of late towards a value. */
static void move(double *mean, double value) { *mean += 0.1 * (value - *mean); }

int guesser_say(Guesser *g, int token) {
    if (!g->most) return 0;
    if (!g->ends && !(g->ends = allocate_zeroed((size_t)1 << TABLE_BITS, sizeof *g->ends))) return -1;
    if (tokens_add(&g->said, token)) return -1;
    const int end = g->said.n - 1;
    for (int n = SHORTEST; n <= LONGEST && n <= end; n++) *entry(g, end, n) = end;
    if (g->n_right < 0 || g->n_right == g->n_guesses) return 0;
    const bool right = g->guesses[g->n_right] == token, ran = g->n_right < g->n_run;
    move(&g->hits, right);
    g->accepted += right && ran;
    g->n_right = right ? g->n_right + 1 : -1;
    return right && ran;
}

/* Where the text went on the last time that its last tokens stood in it; 0: they are new. */
static int last_time(const Guesser *g) {
    const int *ids = g->said.ids, said = g->said.n;
    for (int n = LONGEST; n >= SHORTEST && g->ends; n--) {
        const int end = n <= said ? *entry(g, said, n) : 0;
        if (end >= n && !memcmp(ids + end - n, ids + said - n, (size_t)n * sizeof *ids)) return end;
    }
    return 0;
}

void guesser_guess(Guesser *g, int room) {
    const int from = last_time(g), most = room < g->most ? room : g->most, period = g->said.n - from;
    double tokens = 1, chance = 1, best = 1;
    g->n_run = g->n_right = 0;
    for (g->n_guesses = 0; from && g->n_guesses < most; g->n_guesses++) /* what ends here may begin again */
        g->guesses[g->n_guesses] = g->said.ids[from + g->n_guesses % period];
    for (int k = 1; k <= g->n_guesses && g->alone > 0; k++) {
        tokens += chance *= g->hits; /* that k guesses are expected to make */
        const double gain = tokens * g->alone / (g->alone + k * g->more);
        if (gain > best) g->n_run = k;
        best = gain > best ? gain : best;
    }
    g->guessed += g->n_run;
    g->passes++;
}

void guesser_learn(Guesser *g, double seconds) {
    const double least = 0.01 * g->alone; /* that a guess adds, whatever the clock says */
    if (!(g->alone > 0)) {
        g->alone = seconds;
        g->more = 0.2 * seconds; /* until it is measured */
    } else if (!g->n_run) {
        move(&g->alone, seconds);
    } else {
        move(&g->more, (seconds - g->alone) / g->n_run);
        if (g->more < least) g->more = least;
    }
}
