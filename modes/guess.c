/* guess.c: draft tokens by prompt lookup, and how many of them run.
 *
 * The max number of draft tokens doubles after a pass that accepts all of them and halves after a pass that accepts
 * fewer than half. At the minimum of one, a rejected draft token starts a pause without drafts. Each pause is twice as
 * long as the last one, up to MAX_WAIT passes; accepting all draft tokens of a pass halves the next pause.
 */
#include "modes/guess.h"

enum { MAX_WAIT = 64 /* passes */ };

void guesser_open(Guesser *g, int max_lookup) { *g = (Guesser){.max_lookup = max_lookup, .next = 1, .wait = 1}; }

static int min(int a, int b) { return a < b ? a : b; }

/* The index after the most recent earlier occurrence of the last three ids; 0 if there is none. */
static int find_last(const Tokens *text) {
    const int *ids = text->ids, n = text->n;
    for (int end = n - 1; end >= 3; end--)
        if (ids[end - 1] == ids[n - 1] && ids[end - 2] == ids[n - 2] && ids[end - 3] == ids[n - 3]) return end;
    return 0;
}

static int look_up(const Tokens *text, int *tokens, int n) {
    const int from = n > 0 ? find_last(text) : 0, period = text->n - from;
    for (int i = 0; from && i < n; i++)
        tokens[i] = text->ids[from + i % period]; /* past the end of the text, the repetition continues */
    return from ? n : 0;
}

int guesser_guess(Guesser *g, const Tokens *text, int room) {
    g->passes++;
    if (g->pause > 0) {
        g->pause--;
        return 0;
    }
    g->n = look_up(text, g->tokens, min(g->next, min(room, g->max_lookup)));
    return g->n;
}

void guesser_learn(Guesser *g, int n_right) {
    g->guessed += g->n;
    g->accepted += n_right;
    if (!g->n) return;
    if (n_right == g->n) {
        g->next = min(2 * g->next, MAX_LOOKUP);
        g->wait = g->wait > 1 ? g->wait / 2 : 1;
    } else if (g->next > 1 && 2 * n_right < g->n) {
        g->next /= 2;
    } else if (n_right == 0) {
        g->pause = g->wait;
        g->wait = min(2 * g->wait, MAX_WAIT);
    }
    g->n = 0;
}
