/* text.c: the loop that generates texts.
 *
 * Owns the steps of a forward pass, the sampling from its logits, and the end
 * of a text. Draft tokens (guess.h) run in the same pass as the last id. A
 * draft token is accepted if it equals the sampled token; the logits after it
 * are then already computed.
 * Tests: texts, text, guess.
 */
#include "modes/text.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/process.h"
#include "lab/tune.h"
#include "modes/guess.h"
#include "sampler.h"
#include "session.h"
#include "text/merges.h"
#include "text/stream.h"
#include "tokenizer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool texts_stopped(const Run *run) {
    return interrupted || run->out.error;
}

/* ---- ids ---------------------------------------------------------------- */

static int append(Text *t, int id) {
    if (t->ids.n == t->max)
        t->ended = LENGTH;
    return tokens_add(&t->ids, id);
}

int text_append(Text *t, const Tokens *prompt) {
    for (int i = 0; i < prompt->n && !t->ended; i++) {
        sampler_accept(&t->sampler, prompt->ids[i]);
        if (append(t, prompt->ids[i]))
            return -1;
    }
    t->n_prompt = t->ids.n;
    return 0;
}

void text_limit(Text *t, int n) {
    if (n > 0 && n <= t->max - t->n_prompt)
        t->max = t->n_prompt + n - 1;
}

/* Adds the steps of pending ids and, if there is only one, of draft tokens.
 * Returns the number of ids that are left. */
static int add_steps(Run *run, Text *t) {
    int pending = t->ended ? 0 : t->ids.n - t->n_ran,
        room = run->piece - (int)(run->steps.n / sizeof(Step));
    int n = min_int(pending, room > 1 ? room : 1);
    int n_draft = t->guesser && pending == 1
                      ? guesser_guess(t->guesser, &t->ids, t->max - t->ids.n)
                      : 0;
    bool samples = t->sampler.p && n > 0 && n == pending;
    for (int i = 0; i < n + n_draft; i++) {
        Step step = {.sequence = t->sequence, .pos = t->n_ran + i};
        step.token = i < n ? t->ids.ids[step.pos] : t->guesser->tokens[i - n];
        step.logits = i >= n                  ? GUESS_LOGITS
                      : i == n - 1 && samples ? LOGITS
                                              : NO_LOGITS;
        buffer_append(&run->steps, &step, sizeof step);
    }
    t->n_rows = samples ? 1 + n_draft : 0;
    t->n_running = n;
    return pending - n;
}

/* ---- log-probabilities -------------------------------------------------- */

/* The stream of t->json_text. NULL and a message if out of memory. */
static FILE *json_stream(Text *t) {
    if (!t->json)
        t->json = open_memstream(&t->json_text, &t->json_size);
    if (!t->json)
        fail("out of memory");
    return t->json;
}

/* With --logprobs, adds the log-probability of the last id, and the likeliest
 * tokens. */
static int add_logprobs(const Run *run, Text *t, const float *logits) {
    int vocab_size = run->model.config.vocab_size, n = run->options->logprobs,
        id = t->ids.ids[t->ids.n - 1];
    if (!n)
        return 0;
    double sum = log_sum_exp(logits, vocab_size);
    FILE *to = json_stream(t);
    if (!to)
        return -1;
    fputs(ftell(to) > 0 ? ", {" : "{\"logprobs\": [{", to);
    double logprob = logits[id] - sum;
    write_json_token(run, to, id, &logprob);
    HeapItem *heap = t->sampler.room;
    for (int i = 0; i < vocab_size; i++)
        heap[i] = (HeapItem){logits[i], i};
    heap_make(heap, vocab_size);
    for (int k = 0; k < n && k < vocab_size; k++) {
        HeapItem best = heap_pop(heap, vocab_size - k);
        fputs(k ? ", {" : ", \"top\": [{", to);
        logprob = best.value - sum;
        write_json_token(run, to, best.id, &logprob);
        fputc('}', to);
    }
    fputs("]}", to);
    return 0;
}

/* ---- bytes -------------------------------------------------------------- */

/* Searches the bytes that are not clear for stop strings and for a beginning of
 * one at their end. Cuts the text at a stop string. */
static void find_stop(const Options *o, Text *t) {
    Buffer *b = &t->bytes;
    size_t clear = b->n;
    for (size_t at = t->n_clear; at < b->n; at++)
        for (int i = 0; i < o->n_stops; i++) {
            size_t size = strlen(o->stops[i]), left = b->n - at;
            if (memcmp(b->bytes + at, o->stops[i], min_size(size, left)))
                continue;
            clear = min_size(clear, at);
            if (size > left)
                continue;
            b->n = at;
            t->ended = STOP;
        }
    t->n_clear = clear;
}

/* Decodes the ids from n_decoded on. After the prompt, a stop string ends the
 * text. Returns -1 if out of memory. */
static int text_decode(const Run *run, Text *t) {
    while (t->n_decoded < t->ids.n) {
        int n;
        int i = t->n_decoded++, *ids = t->ids.ids;
        const char *bytes =
            run_token_text(run, i ? ids[i - 1] : -1, ids[i], &n);
        buffer_append(&t->bytes, bytes, n);
        if (t->bytes.failed)
            return -1;
        if (i < t->n_prompt)
            t->n_clear = t->bytes.n;
        else
            find_stop(run->options, t);
    }
    return 0;
}

int text_show(Run *run, Text *t) {
    if (text_decode(run, t))
        return -1;
    size_t end = t->ended ? t->bytes.n : t->n_clear;
    if (end > t->n_shown)
        stream_write(&run->out, t->bytes.bytes + t->n_shown,
                     (int)(end - t->n_shown));
    t->n_shown = end;
    return 0;
}

/* ---- sampling ----------------------------------------------------------- */

/* Samples the token after the last id, and after each accepted draft token,
 * from the text's rows of logits. Returns -1 on failure. */
static int sample(const Run *run, Text *t, const float *logits) {
    int right = 0;
    for (bool accepted = true; accepted; right += accepted) {
        int token = sampler_next(&t->sampler, logits);
        sampler_accept(&t->sampler, token);
        if (tokenizer_is_end(&run->tokenizer, token, run->model.eos_ends))
            t->ended = STOP;
        else if (append(t, token) || add_logprobs(run, t, logits) ||
                 text_decode(run, t))
            return -1;
        accepted = !t->ended && right + 1 < t->n_rows &&
                   token == t->guesser->tokens[right];
        t->n_ran += accepted;
        logits += run->model.config.vocab_size;
    }
    if (t->guesser)
        guesser_learn(t->guesser, right);
    return 0;
}

/* ---- a pass ------------------------------------------------------------- */

int texts_pass(Run *run, Text *const *texts, int n) {
    Buffer *steps = &run->steps;
    int left = 0;
    if (texts_stopped(run))
        return 0;
    run_piece(run, 0);
    steps->n = 0;
    for (int i = 0; i < n; i++)
        if (texts[i])
            left += add_steps(run, texts[i]);
    int n_steps = (int)(steps->n / sizeof(Step));
    if (!n_steps || steps->failed)
        return -steps->failed;
    const float *next = model_forward(
        &run->session, (const Step *)(const void *)steps->bytes, n_steps);
    if (!next)
        return interrupted ? 0 : -1;
    tune(&run->tuning, n_steps);
    run_piece(run, n_steps);
    if ((left || run->shows_left) && on_terminal(stderr)) /* at the cursor */
        fprintf(stderr,
                left ? "\0337 [prompt tokens left: %d] \0338" : "\033[J", left);
    run->shows_left = left;
    for (int i = 0; i < n; i++) {
        Text *t = texts[i];
        if (!t)
            continue;
        t->n_ran += t->n_running;
        if (!t->n_rows)
            continue;
        size_t n_logits = (size_t)t->n_rows * run->model.config.vocab_size;
        if (check_logits(next, n_logits) || sample(run, t, next))
            return -1;
        next += n_logits;
    }
    return 1;
}

/* ---- JSON --------------------------------------------------------------- */

int text_write_json(Run *run, Text *t, int index, const char *prompt,
                    size_t size) {
    static const char *const reasons[] = {
        [CONTINUES] = "interrupted", [STOP] = "stop", [LENGTH] = "length"};
    FILE *to = json_stream(t);
    if (!to)
        return -1;
    fprintf(to, ftell(to) > 0 ? "], \"index\": %d, " : "{\"index\": %d, ",
            index);
    write_json_string(to, "prompt", prompt, size);
    fputs(", ", to);
    write_json_string(to, "completion", t->bytes.bytes, t->bytes.n);
    fprintf(to,
            ", \"seed\": %llu, \"tokens\": %d, \"finish_reason\": \"%s\"}\n",
            (unsigned long long)t->sampler.options.seed, t->ids.n - t->n_prompt,
            reasons[t->ended]);
    bool failed = fclose(to);
    t->json = NULL;
    /* a single write, so that Ctrl-C leaves no partial line */
    if (!failed && write_whole(fileno(stdout), t->json_text, t->json_size))
        run->out.error = errno;
    free(t->json_text);
    t->json_text = NULL;
    return failed ? fail("out of memory") : 0;
}

void text_free(Text *t) {
    free(t->ids.ids);
    free(t->bytes.bytes);
    sampler_close(&t->sampler);
    if (t->json)
        fclose(t->json);
    free(t->json_text);
    *t = (Text){0};
}
