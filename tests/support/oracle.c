/* oracle.c: a fixed number of draft tokens, independent of how many were accepted.
 *
 * The tests, and the program that they run, are linked with --wrap for the functions in WRAPPED of the Makefile, as for
 * wrap.c. With NORMA_ORACLE=PERCENT in the environment every pass runs the max number of draft tokens, and PERCENT of a
 * draft model's tokens are replaced by wrong ones.
 */
#include "modes/guess.h"
#include "tests/support/test.h"

#include <stdlib.h>

void __real_guesser_learn(Guesser *g, int n_right);
void __wrap_guesser_learn(Guesser *g, int n_right);
void __wrap_guesser_learn(Guesser *g, int n_right) {
    __real_guesser_learn(g, n_right);
    for (int i = 0; getenv("NORMA_ORACLE") && i < N_SOURCES; i++) g->paces[i] = (Pace){.n = MAX_LOOKUP, .wait = 1};
}

int __real_draft_guess(Draft *d, const Tokens *text, const Sampler *sampler, int *tokens, int n);
int __wrap_draft_guess(Draft *d, const Tokens *text, const Sampler *sampler, int *tokens, int n);
int __wrap_draft_guess(Draft *d, const Tokens *text, const Sampler *sampler, int *tokens, int n) {
    const char *percent = getenv("NORMA_ORACLE");
    n = __real_draft_guess(d, text, sampler, tokens, n);
    for (int i = 0; percent && i < n; i++)
        if (hash64(7, 1, (uint64_t)(text->n + i)) % 100 < strtoull(percent, NULL, 10))
            tokens[i] = tokens[i] > 0 ? tokens[i] - 1 : 1;
    return n;
}
