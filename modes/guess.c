/* guess.c: draft tokens from the text itself, and how many of them run.
 *
 * The number doubles after a pass in which all draft tokens were right and halves after one in which fewer than half
 * were. Below 1 a source pauses, for twice as many passes each time; success makes the next pause shorter. So a source
 * costs time only while most of its draft tokens are right, and in one pass of some MAX_WAIT.
 */
#include "modes/guess.h"

enum { MAX_WAIT = 64 };

void guesser_open(Guesser *g, int max_lookup, Draft *draft) {
    *g = (Guesser){.max_lookup = max_lookup, .draft = draft, .paces = {{1, 0, 1}, {1, 0, 1}}};
}

static int min(int a, int b) { return a < b ? a : b; }

/* The index after the most recent earlier occurrence of the last three ids; 0 if there is no other. */
static int find_last(const Tokens *text) {
    const int *ids = text->ids, n = text->n;
    for (int end = n - 1; end >= 3; end--)
        if (ids[end - 1] == ids[n - 1] && ids[end - 2] == ids[n - 2] && ids[end - 3] == ids[n - 3]) return end;
    return 0;
}

static int look_up(const Tokens *text, int *tokens, int n) {
    const int from = n > 0 ? find_last(text) : 0, period = text->n - from;
    for (int i = 0; from && i < n; i++)
        tokens[i] = text->ids[from + i % period]; /* assumes that a repetition continues */
    return from ? n : 0;
}

/* The number of draft tokens that a source may give in this pass. */
static int allowed(Pace *p, int max) {
    if (p->pause > 0 && p->pause--) return 0;
    return min(p->n, max);
}

int guesser_guess(Guesser *g, const Tokens *text, const Sampler *sampler, int room) {
    g->passes++;
    g->source = LOOKUP;
    g->n = look_up(text, g->tokens, allowed(&g->paces[LOOKUP], min(room, g->max_lookup)));
    if (g->n || !g->draft) return g->n;
    g->source = DRAFT_MODEL;
    const int n = allowed(&g->paces[DRAFT_MODEL], min(room, MAX_MODEL_DRAFT));
    if (n > 0) g->n = draft_guess(g->draft, text, sampler, g->tokens, n);
    return g->n;
}

void guesser_learn(Guesser *g, int n_right) {
    Pace *p = &g->paces[g->source];
    g->guessed += g->n;
    g->accepted += n_right;
    if (!g->n) return;
    if (n_right == g->n) {
        p->n = min(2 * p->n, MAX_LOOKUP);
        p->wait = p->wait > 1 ? p->wait / 2 : 1;
    } else if (p->n > 1 && 2 * n_right < g->n) {
        p->n /= 2;
    } else if (n_right == 0) {
        p->pause = p->wait;
        p->wait = min(2 * p->wait, MAX_WAIT);
    }
    g->n = 0;
}
