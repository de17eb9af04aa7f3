/* text.c: the loop that generates texts.
 *
 * Owns the steps of a forward pass, the sampling from its logits, and the end of a text. Draft tokens (guess.h) run in
 * the same pass as the last id. A draft token is accepted if it equals the sampled token; the logits after it are then
 * already computed.
 */
#include "modes/text.h"
#include "base/memory.h"
#include "base/process.h"
#include "lab/tune.h"
#include "model.h"
#include "modes/common.h"
#include "modes/guess.h"
#include "sampler.h"
#include "text/merges.h"
#include "text/stream.h"

enum { WORTH_SHARING = 1 << 16 }; /* logits; with fewer, starting a second thread takes longer than sampling */

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

/* Adds the steps of the pending ids and, if there is only one, of draft tokens. Returns -1 if out of memory. */
static int add_steps(Run *run, Text *t) {
    const int n = t->ended ? 0 : t->ids.n - t->n_ran;
    const int n_draft = t->guesser && n == 1 ? guesser_guess(t->guesser, &t->ids, t->max - t->ids.n) : 0;
    for (int i = 0; i < n + n_draft; i++) {
        Step step = {.sequence = t->sequence, .pos = t->n_ran + i};
        step.token = i < n ? t->ids.ids[step.pos] : t->guesser->tokens[i - n];
        step.logits = i >= n ? GUESS_LOGITS : i == n - 1 && t->sampler ? LOGITS : NO_LOGITS;
        buffer_append(&run->steps, &step, sizeof step);
    }
    t->n_rows = n && t->sampler ? 1 + n_draft : 0;
    t->n_ran += n;
    return run->steps.failed ? -1 : 0;
}

/* Samples the token after the last id, and after each accepted draft token. Returns -1 on failure. */
static int sample(const Run *run, Text *t) {
    const size_t vocab_size = (size_t)run->model.config.vocab_size;
    int right = 0;
    for (bool accepted = t->n_rows > 0; accepted; right += accepted, t->n_ran += accepted) {
        const float *logits = t->logits + (size_t)right * vocab_size;
        if (right && check_logits(logits, vocab_size)) return -1;
        const int token = sampler_next(t->sampler, logits);
        sampler_accept(t->sampler, token);
        if (token == t->end || run_is_end(run, token))
            t->ended = STOP;
        else if (append(t, token))
            return -1;
        accepted = !t->ended && right + 1 < t->n_rows && token == t->guesser->tokens[right];
    }
    if (t->guesser) guesser_learn(t->guesser, right);
    return 0;
}

/* Samples for all texts; threads share the work if there are many logits. */
static int sample_all(const Run *run, Text *const *texts, int n, size_t n_logits) {
    int status = 0;
    if (n_logits < WORTH_SHARING) {
        for (int i = 0; i < n && !status; i++) status = texts[i] ? sample(run, texts[i]) : 0;
        return status;
    }
#pragma omp parallel for num_threads(run->session.n_threads) reduction(| : status)
    for (int i = 0; i < n; i++) status |= texts[i] ? sample(run, texts[i]) : 0;
    return status;
}

int texts_pass(Run *run, Text *const *texts, int n, const Stream *out) {
    const size_t vocab_size = (size_t)run->model.config.vocab_size;
    Buffer *steps = &run->steps;
    if (texts_stopped(out)) return 0;
    if (steps->n) tune(&run->tuning, (int)(steps->n / sizeof(Step)));
    steps->n = 0;
    for (int i = 0; i < n; i++)
        if (texts[i] && add_steps(run, texts[i])) return -1;
    const int n_steps = (int)(steps->n / sizeof(Step));
    if (!n_steps) return 0;
    const float *logits = model_forward(&run->session, (const Step *)(const void *)steps->bytes, n_steps),
                *next = logits;
    if (!logits) return -1;
    for (int i = 0; i < n; i++) {
        if (!texts[i] || !texts[i]->n_rows) continue;
        if (check_logits(next, vocab_size)) return -1;
        texts[i]->logits = next;
        next += (size_t)texts[i]->n_rows * vocab_size;
    }
    return sample_all(run, texts, n, (size_t)(next - logits)) ? -1 : 1;
}

void text_show(const Run *run, Text *t, Stream *out) {
    for (int n; t->n_shown < t->ids.n; t->n_shown++) {
        const char *bytes = run_token_text(run, &t->ids, t->n_shown, &n);
        stream_write(out, bytes, n);
    }
}
