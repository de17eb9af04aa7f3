/* guess.c: draft tokens by prompt lookup, and how many of them run.
 *
 * The max number of draft tokens doubles after a pass that accepts all of them
 * and halves after a pass that accepts fewer than half. At the minimum of one,
 * a rejected draft token starts a pause without drafts. Each pause is twice as
 * long as the last one, up to MAX_WAIT passes; accepting all draft tokens of a
 * pass halves the next pause.
 * Tests: guess.
 */
#include "modes/guess.h"
#include "base/memory.h"

enum { MAX_WAIT = 64 /* passes */ };

void guesser_open(Guesser *g, int max_lookup) {
    *g = (Guesser){.max_lookup = max_lookup, .next = 1, .wait = 1};
}

/* Copies the ids after the most recent earlier occurrence of the last three
 * ids. */
int guesser_guess(Guesser *g, const Tokens *text, int room) {
    const int *last = text->ids + text->n;
    if (g->pause > 0) {
        g->pause--;
        return 0;
    }
    g->n = min_int(g->next, min_int(room, g->max_lookup));
    for (const int *end = last - 1; g->n > 0 && end >= text->ids + 3; end--) {
        if (end[-1] != last[-1] || end[-2] != last[-2] || end[-3] != last[-3])
            continue;
        /* past the end, the repetition continues */
        for (int i = 0; i < g->n; i++)
            g->tokens[i] = end[i % (last - end)];
        return g->n;
    }
    return g->n = 0;
}

void guesser_learn(Guesser *g, int n_right) {
    g->guessed += g->n;
    g->accepted += n_right;
    if (!g->n)
        return;
    if (n_right == g->n) {
        g->next = min_int(2 * g->next, MAX_LOOKUP);
        g->wait = g->wait > 1 ? g->wait / 2 : 1;
    } else if (g->next > 1 && 2 * n_right < g->n) {
        g->next /= 2;
    } else if (!n_right) {
        g->pause = g->wait;
        g->wait = min_int(2 * g->wait, MAX_WAIT);
    }
    g->n = 0;
}
