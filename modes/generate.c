/* generate.c: continues a text.
 *
 * Owns the mode that writes what follows a prompt, and its statistics.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "modes/common.h"
#include "modes/modes.h"
#include "modes/options.h"
#include "sampler.h"
#include "text/stream.h"
#include "tokenizer.h"

#include <stdlib.h>

/* Writes a token's text, or its id where there is no tokenizer. */
static void show_token(const Run *run, Stream *out, int previous, int token) {
    int n;
    char number[16];
    const char *text = number;
    if (run->has_tokenizer)
        text = tokenizer_decode(&run->tokenizer, previous, token, &n);
    else
        n = snprintf(number, sizeof number, previous < 0 ? "%d" : ",%d", token);
    stream_write(out, text, n);
}

/* An empty prompt becomes BOS. */
static int begin_text(const Run *run, Tokens *prompt) {
    const int first = run_first_token(run);
    if (prompt->n) return 0;
    if (first < 0) return fail("the prompt is empty, and the model has no BOS; give it a text with -i");
    prompt->ids[prompt->n++] = first;
    return 0;
}

/* Writes the first n tokens of the prompt, without BOS. */
static void show_prompt(const Run *run, Stream *out, const Tokens *prompt, int n) {
    const bool hide_bos = run->has_tokenizer && prompt->ids[0] == run_first_token(run);
    for (int i = hide_bos; i < n; i++) show_token(run, out, i ? prompt->ids[i - 1] : -1, prompt->ids[i]);
}

typedef struct {
    int prompt_tokens, decoded;
    double prompt_seconds, decode_seconds;
} Statistics;

static void show_statistics(const Statistics *s) {
    fprintf(stderr, "prompt: %d tokens, %.0f tokens/s", s->prompt_tokens, s->prompt_tokens / s->prompt_seconds);
    if (s->decoded > 0)
        fprintf(stderr, "; generation: %d tokens, %.0f tokens/s", s->decoded, s->decoded / s->decode_seconds);
    fputc('\n', stderr);
}

/* Writes what follows the prompt. `steps` positions are run, the prompt's included, so that
 * steps - prompt->n + 1 tokens follow unless the text ends before. */
static int continue_text(Run *run, const Tokens *prompt, int steps, Stream *out, Statistics *statistics) {
    for (int i = 0; i < prompt->n; i++) sampler_accept(&run->sampler, prompt->ids[i]);
    const double start = now();
    const float *logits = run_logits(run, prompt->ids, prompt->n, 0);
    const double prefilled = now();
    int previous = prompt->ids[prompt->n - 1], pos = prompt->n;
    while (logits && !interrupted && !out->error) {
        const int token = run_sample(run, logits);
        if (run_is_end(run, token)) break;
        show_token(run, out, previous, token);
        if (pos == steps) break;
        run_pack_weights(run);
        logits = run_logits(run, &token, 1, pos++);
        previous = token;
    }
    *statistics = (Statistics){prompt->n, pos - prompt->n, prefilled - start, now() - prefilled};
    return logits ? 0 : -1;
}

int mode_generate(Run *run) {
    const int context = run->session.context;
    int steps = run->options->steps < 0 ? 256 : run->options->steps;
    if (steps == 0 || steps > context) steps = context;
    Tokens prompt;
    if (run_tokens(run, true, &prompt)) return 1;
    if (begin_text(run, &prompt) ||
        (prompt.n > context && fail("the prompt has %d tokens, the context is %d", prompt.n, context))) {
        free(prompt.ids);
        return 1;
    }
    if (steps <= prompt.n) note("-n %d counts the prompt, which has %d tokens", steps, prompt.n);

    Stream out;
    Statistics statistics = {0};
    int status = 0;
    stream_open(&out, stdout);
    show_prompt(run, &out, &prompt, steps < prompt.n ? steps + 1 : prompt.n);
    if (steps >= prompt.n) status = continue_text(run, &prompt, steps, &out, &statistics);
    stream_write(&out, "\n", 1);
    if (stream_close(&out)) status = -1;
    if (!status && statistics.prompt_tokens > 0) show_statistics(&statistics);
    free(prompt.ids);
    return run_exit_status(status);
}
