/* text.c: the loop that continues texts.
 *
 * Owns the steps of a forward pass, what is sampled from its logits, and where a text ends. Draft tokens (guess.h) run
 * in the pass of the last id; each that equals the sampled token is accepted, since the logits after it are there.
 */
#include "modes/text.h"
#include "base/process.h"
#include "lab/tune.h"
#include "model.h"
#include "modes/common.h"
#include "modes/guess.h"
#include "sampler.h"
#include "text/merges.h"
#include "text/stream.h"
#include <stdlib.h>

enum { WORTH_SHARING = 1 << 16 }; /* logits: one thread samples from fewer before a second one has started */

bool texts_stopped(const Stream *out) { return interrupted || out->error; }

static int append(Text *t, int id) {
    if (t->ids.n == t->max) t->ended = LENGTH;
    return tokens_add(&t->ids, id);
}

int text_append(Text *t, const Tokens *prompt) {
    for (int i = 0; i < prompt->n && !t->ended; i++) {
        if (t->sampler) sampler_accept(t->sampler, prompt->ids[i]);
        if (append(t, prompt->ids[i])) return -1;
    }
    return 0;
}

/* Makes room for n more steps of the next pass. */
static int reserve_steps(Run *run, int n) {
    if (run->n_steps + n <= run->steps_room) return 0;
    const int room = 2 * (run->n_steps + n);
    Step *grown = realloc(run->steps, (size_t)room * sizeof *grown);
    if (!grown) return fail("out of memory: %d steps", room);
    run->steps = grown;
    run->steps_room = room;
    return 0;
}

/* Adds the steps of the ids that have not run, and of draft tokens if only the last has not. */
static int add_steps(Run *run, Text *t) {
    const int n = t->ids.n - t->n_ran;
    t->n_draft = t->guesser && n == 1 ? guesser_guess(t->guesser, &t->ids, t->sampler, t->max - t->ids.n) : 0;
    if (t->n_draft < 0 || reserve_steps(run, n + t->n_draft)) return -1;
    Step *steps = run->steps + run->n_steps;
    for (int i = 0; i < n; i++) steps[i] = (Step){t->ids.ids[t->n_ran + i], t->sequence, t->n_ran + i, NO_LOGITS};
    if (t->sampler && n) steps[n - 1].logits = LOGITS;
    for (int i = 0; i < t->n_draft; i++)
        steps[n + i] = (Step){t->guesser->tokens[i], t->sequence, t->ids.n + i, GUESS_LOGITS};
    run->n_steps += n + t->n_draft;
    return 0;
}

/* Samples the token after the last id, and the tokens after draft tokens that are right. -1: a failure. */
static int sample(const Run *run, Text *t) {
    const size_t vocab_size = (size_t)run->model.config.vocab_size;
    for (int i = 0;; i++) {
        const float *logits = t->logits + (size_t)i * vocab_size;
        if (i && check_logits(logits, vocab_size)) return -1;
        const int token = sampler_next(t->sampler, logits);
        sampler_accept(t->sampler, token);
        if (token == t->end || run_is_end(run, token))
            t->ended = STOP;
        else if (append(t, token))
            return -1;
        if (t->ended || i == t->n_draft || token != t->guesser->tokens[i]) {
            t->n_ran += i;
            if (t->guesser) guesser_learn(t->guesser, i);
            return 0;
        }
    }
}

static bool is_sampled(const Text *t) { return t && !t->ended && t->sampler; }

/* Threads share many logits. */
static int sample_all(const Run *run, Text *const *texts, int n, size_t n_logits) {
    int status = 0;
    if (n_logits < WORTH_SHARING) {
        for (int i = 0; i < n && !status; i++) status = is_sampled(texts[i]) ? sample(run, texts[i]) : 0;
        return status;
    }
#pragma omp parallel for num_threads(run->session.n_threads) reduction(| : status)
    for (int i = 0; i < n; i++) status |= is_sampled(texts[i]) ? sample(run, texts[i]) : 0;
    return status;
}

int texts_pass(Run *run, Text *const *texts, int n, const Stream *out) {
    const size_t vocab_size = (size_t)run->model.config.vocab_size;
    if (texts_stopped(out)) return 0;
    if (run->n_steps) tune(&run->tuning, run->n_steps);
    run->n_steps = 0;
    for (int i = 0; i < n; i++)
        if (texts[i] && !texts[i]->ended && add_steps(run, texts[i])) return -1;
    if (!run->n_steps) return 0;
    const float *logits = model_forward(&run->session, run->steps, run->n_steps), *next = logits;
    if (!logits) return -1;
    for (int i = 0; i < n; i++) {
        Text *t = texts[i];
        if (t && !t->ended) t->n_ran = t->ids.n;
        if (!is_sampled(t)) continue;
        if (check_logits(next, vocab_size)) return -1;
        t->logits = next;
        next += (size_t)(1 + t->n_draft) * vocab_size;
    }
    return sample_all(run, texts, n, (size_t)(next - logits)) ? -1 : 1;
}

void text_show(const Run *run, Text *t, Stream *out) {
    for (int n; t->n_shown < t->ids.n; t->n_shown++) {
        const char *bytes = run_token_text(run, &t->ids, t->n_shown, &n);
        stream_write(out, bytes, n);
    }
}
