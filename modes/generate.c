/* generate.c: the mode that writes what follows a prompt, and its statistics. Many texts are texts.c's. */
#include "base/process.h"
#include "lab/tune.h"
#include "model.h"
#include "modes/common.h"
#include "modes/texts.h"
#include "text/stream.h"
#include <stdlib.h>

/* An empty prompt becomes BOS. */
static int check_prompt(const Run *run, Tokens *prompt) {
    const int first = run_first_token(run);
    if (!prompt->n && first < 0) return fail("the prompt is empty, and the model has no BOS; give it a text with -i");
    if (!prompt->n) prompt->ids[prompt->n++] = first;
    return check_context(&run->session, prompt->n);
}

static void show_statistics(const Run *run, const Continuation *text, int n_prompt, double start, double end) {
    const int decoded = text->pos - n_prompt;
    fprintf(stderr, "prompt: %d tokens, %.0f tokens/s", n_prompt, n_prompt / (text->prefilled - start));
    if (decoded > 0)
        fprintf(stderr, "; generation: %d tokens, %.0f tokens/s", decoded, decoded / (end - text->prefilled));
    const Guesser *g = &run->guesser;
    if (g->guessed)
        fprintf(stderr, "; %ld of %ld guesses right, %.2f tokens a pass", g->accepted, g->guessed,
                (double)decoded / (double)g->passes);
    fputc('\n', stderr);
    if (decoded <= 0 || !run->options->verbose) return;
    fprintf(stderr, "%s\n", tuning_text(&run->tuning));
    if (g->guessed)
        fprintf(stderr, "a pass: %.0f us, %.0f us for each guess that runs; the draft's guesses: %.0f us each\n",
                1e6 * g->alone.median, 1e6 * g->more.median, g->source ? 1e6 * g->source->each.median : 0);
}

/* `steps` positions are run, the prompt's included, so that steps - prompt.n + 1 tokens follow unless the text
 * ends before. */
int mode_generate(Run *run) {
    const Options *o = run->options;
    if (o->samples || o->prompts || o->json) return texts_generate(run);
    const int steps = run_steps(run);
    Tokens prompt;
    if (run_tokens(run, true, &prompt) || check_prompt(run, &prompt)) {
        free(prompt.ids);
        return -1;
    }
    if (steps <= prompt.n) note("-n %d counts the prompt, which has %d tokens", steps, prompt.n);

    Stream out;
    Continuation text = {.steps = steps, .end = -1};
    stream_open(&out, stdout);
    for (int i = run_first_shown(run, &prompt); i < prompt.n && i <= steps; i++)
        run_show_token(run, &out, i ? prompt.ids[i - 1] : -1, prompt.ids[i]);
    const double start = now();
    int status = steps < prompt.n ? 0 : run_continue(run, &text, &prompt, &out);
    const double end = now();
    stream_write(&out, "\n", 1);
    if (stream_close(&out)) status = -1;
    if (status >= 0 && text.pos > 0) show_statistics(run, &text, prompt.n, start, end);
    free(prompt.ids);
    return status < 0 ? -1 : 0;
}
