/* oracle.c: guesses as tests want them: what a plain run said, each token made wrong with a probability.
 *
 * The tests, and the program that they run, are linked with --wrap for the functions of WRAPPED in the Makefile, as for
 * wrap.c. NORMA_ORACLE in the environment is one of these:
 *
 *   FILE                where there is no such file, the run guesses nothing, and writes there what it said
 *   FILE:PERCENT:SEED   its guesses are what the file says, so many of them wrong; making them takes no time
 *   ...:free, or free   whoever guesses: a guess costs next to nothing, so that how many run depends on no clock
 */
#include "modes/guess.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SAID = 1 << 16 };

static struct {
    Source source;
    char path[256];
    int percent, seed;
    int n, said[MOST_SAID];
} oracle;

static const char *environment(void) {
    const char *value = getenv("NORMA_ORACLE");
    return value ? value : "";
}

static bool is_free(void) {
    const char *value = environment();
    const size_t n = strlen(value);
    return n >= 4 && !strcmp(value + n - 4, "free");
}

/* The tokens that stand in the file behind the text, or others. */
static int guess(Source *s, const Tokens *said, int *guesses, int n) {
    int i = 0;
    for (; i < n && said->n + i < oracle.n; i++) {
        const int token = oracle.said[said->n + i], at = said->n + i;
        const bool wrong = hash64((uint64_t)oracle.seed, 1, (uint64_t)at) % 100 < (uint64_t)oracle.percent;
        guesses[i] = !wrong ? token : token > 0 ? token - 1 : 1;
    }
    s->n_ran = said->n;
    return i;
}

void __real_guesser_open(Guesser *g, int most, Source *source);
void __wrap_guesser_open(Guesser *g, int most, Source *source);
void __wrap_guesser_open(Guesser *g, int most, Source *source) {
    const bool named = *environment() && strcmp(environment(), "free") != 0;
    oracle.n = oracle.percent = 0;
    oracle.source = (Source){.guess = guess};
    if (named) sscanf(environment(), "%255[^:]:%d:%d", oracle.path, &oracle.percent, &oracle.seed);
    FILE *in = named ? fopen(oracle.path, "rb") : NULL;
    if (in) oracle.n = (int)fread(oracle.said, sizeof *oracle.said, MOST_SAID, in);
    if (in) fclose(in);
    __real_guesser_open(g, most, named ? &oracle.source : source);
}

void __real_guesser_close(Guesser *g);
void __wrap_guesser_close(Guesser *g);
void __wrap_guesser_close(Guesser *g) {
    FILE *out = g->source == &oracle.source && !oracle.n ? fopen(oracle.path, "wb") : NULL;
    if (out) fwrite(g->said.ids, sizeof *g->said.ids, (size_t)g->said.n, out);
    if (out) fclose(out);
    __real_guesser_close(g);
}

void __real_guesser_learn(Guesser *g, double seconds, bool settled);
void __wrap_guesser_learn(Guesser *g, double seconds, bool settled);
void __wrap_guesser_learn(Guesser *g, double seconds, bool settled) {
    __real_guesser_learn(g, seconds, settled || is_free());
    if (!is_free()) return;
    g->alone.median = 1;
    g->more.median = 0.01;
    if (g->source) g->source->each = g->source->missed = (Time){0};
}
