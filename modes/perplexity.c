/* perplexity.c: measures how well the model predicts a text.
 *
 * Owns the windows over the text and the sums of negative log-likelihoods
 * (NLL). Each window has the length of the context. It begins with BOS, if the
 * model's files add BOS to a text, else with the token before its others, so
 * that the first token of the text is not scored; all others are. Perplexity is
 * exp(mean NLL).
 * Tests: cli, lab.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/parts.h"
#include "modes/common.h"
#include "norm.h"
#include "session.h"
#include <math.h>
#include <stdlib.h>

/* -1: windows have no BOS. */
static int first_token(const Run *run) {
    return run->tokenizer.n_before ? run_first_token(run) : -1;
}

/* Fills nll[text->n] with the NLL of each token of the text, inputs[text->n]
 * with the token before each; without BOS text->ids[-1] is the first of them.
 * Without nll the text only runs. Ctrl-C shortens the text to the scored
 * tokens. A terminal shows the progress after `shown`. */
static int score(Run *run, Tokens *text, int *inputs, double *nll,
                 const char *shown) {
    int vocab_size = run->model.config.vocab_size;
    int scored = run->session.context - 1; /* scored tokens of a window */
    int first = first_token(run);
    for (int i = 0; i < text->n; i++)
        inputs[i] = first < 0 || i % scored ? text->ids[i - 1] : first;
    int at = 0;
    for (int n; at < text->n && !interrupted; at += n) {
        int pos = at % scored, left = min_int(text->n - at, scored - pos);
        n = min_int(left, run_piece(run, 0));
        const float *logits =
            nll ? run_logits(run, inputs + at, n, pos)
                : model_forward_text(&run->session, inputs + at, n, pos, 0);
        if (!logits && interrupted)
            break; /* within a pass of plain.c */
        if (!logits)
            return -1;
#pragma omp parallel for num_threads(run->session.n_threads)
        for (int i = 0; i < (nll ? n : 0); i++)
            nll[at + i] =
                log_sum_exp(logits + (size_t)i * vocab_size, vocab_size) -
                logits[(size_t)i * vocab_size + text->ids[at + i]];
        if (on_terminal(stderr))
            fprintf(stderr, "\r%s: %d of %d tokens ", shown, at + n, text->n);
    }
    if (on_terminal(stderr))
        fprintf(stderr, "\r%*s\r", 60, "");
    text->n = at;
    return 0;
}

static double mean_of(const double *nll, int n) {
    double total = 0;
    for (int i = 0; i < n; i++)
        total += nll[i];
    return total / n;
}

/* The standard error of the mean of n > 1 numbers, in blocks of `size`. */
static double error_of(const double *nll, int n, int size) {
    double mean = mean_of(nll, n), blocks = ceil((double)n / size);
    double squares = 0, sum = 0;
    for (int i = 0; i < n;) {
        sum += nll[i++] - mean;
        if (i % size && i < n)
            continue;
        squares += sum * sum;
        sum = 0;
    }
    return sqrt(squares * blocks / (blocks - 1)) / n;
}

static int report(const Run *run, const double *nll, int n) {
    bool json = run->options->json;
    double mean = mean_of(nll, n), perplexity = exp(mean);
    printf(
        json
            ? "{\"tokens\": %d, \"nll\": %.4f, \"nll_per_token\": %.6f, \"perplexity\": %.4f"
            : "tokens scored        %d\n"
              "total NLL            %.4f nats\n"
              "NLL per token        %.6f nats\n"
              "perplexity           %.4f",
        n, n * mean, mean, perplexity);
    if (n > 1) /* d exp(mean) = exp(mean) d mean */
        printf(json ? ", \"standard_error\": %.4f"
                    : " +- %.4f (standard error)",
               perplexity * error_of(nll, n, 1));
    bool bos = first_token(run) >= 0;
    printf(json ? ", \"window\": %d, \"bos\": %s}\n"
                : "\nwindow               %d tokens, %s\n",
           run->session.context,
           json  ? bos ? "true" : "false"
           : bos ? "the first is BOS"
                 : "without BOS: the first token of the text is not scored");
    return stdout_finish();
}

/* Prints by how much the mean NLL is above `usual`, and the standard error of
 * the differences, in blocks of sqrt(n) tokens, because neighbors correlate. */
static void print_change(double *nll, const double *usual, int n,
                         const char *kind, bool json) {
    for (int i = 0; i < n; i++)
        nll[i] -= usual[i];
    printf(json ? ", \"%s\": %.6f" : " %11s %+11.6f", kind, mean_of(nll, n));
    if (n > 1)
        printf(json ? ", \"%s_error\": %.6f" : "%.0s +- %.6f", kind,
               error_of(nll, n, (int)sqrt(n)));
}

/* Prints a line for each norm: the change of the mean NLL if the norm is
 * replaced by each other kind. Passes begin at its layer, with the x that
 * reaches the layer: those before it do not change. After Ctrl-C there is no
 * line. */
static int sweep(Run *run, Tokens *text, int *inputs, const double *usual,
                 double seconds) {
    bool json = run->options->json;
    Session *s = &run->session;
    int n = text->n;
    size_t size = (size_t)n * run->model.config.dim;
    double *nll = allocate((size_t)n * N_NORM_KINDS, sizeof *nll);
    float *x = allocate(2 * size, sizeof *x); /* of a layer, and of a swap */
    char name[PART_NAME];
    int norms = 0, status = nll && x ? 0 : -1;
    PART_EACH(at, &run->model)
        norms += part_norm(&at) != NULL;
    note("%d norms, at most about %.0f s", norms, norms * NORM_NONE * seconds);
    if (!json)
        puts(
            "\nchange of NLL per token, in nats, with another kind of norm, +- standard error");
    PART_EACH(at, &run->model) {
        Norm *norm = part_norm(&at);
        if (!norm)
            continue;
        NormKind kept = norm->kind;
        part_name(name, &at, NAME_NORMA);
        while (s->first_layer < at.layer && !s->plain && !status) {
            s->end_layer = s->first_layer + 1;
            s->stream = x;
            status = score(run, text, inputs, NULL, name);
            s->first_layer++;
        }
        s->end_layer = 0;
        for (NormKind kind = 0; kind <= NORM_NONE && !interrupted; kind++)
            if (kind != kept && !status) {
                norm->kind = kind;
                s->stream = memcpy(x + size, x, size * sizeof *x);
                status = score(run, text, inputs, nll + kind * n, name);
            }
        norm->kind = kept;
        if (interrupted || status)
            break;
        printf(json ? "{\"norm\": \"%s\"" : "%-26s", name);
        for (NormKind kind = 0; kind <= NORM_NONE; kind++)
            if (kind != kept)
                print_change(nll + kind * n, usual, n, norm_name(kind), json);
        puts(json ? "}" : "");
        fflush(stdout);
    }
    free(x);
    free(nll);
    return status ? -1 : stdout_finish();
}

int mode_perplexity(Run *run) {
    const Options *o = run->options;
    if (!o->prompt && !o->prompt_file && !o->tokens)
        return bad_usage(
            "perplexity needs a text: -f FILE, -i TEXT or --tokens LIST");
    if (run->session.context < 2)
        return bad_input(
            "context is %d, perplexity needs at least 2; use a larger -c",
            run->session.context);
    Tokens text;
    if (run_tokens(run, false, &text))
        return -1;
    ends_soon = true;
    int *ids = text.ids;
    if (text.n && first_token(run) < 0)
        text.ids++, text.n--;
    double *nll = allocate(text.n, sizeof *nll);
    int *inputs = nll ? allocate(text.n, sizeof *inputs) : NULL;
    double start = clock_seconds();
    int status = !text.n  ? fail("the text is empty, or one token without BOS: "
                                  "nothing to score")
                 : inputs ? score(run, &text, inputs, nll, "scored")
                          : -1;
    double seconds = clock_seconds() - start;
    if (!status && text.n)
        status = report(run, nll, text.n);
    if (!status && o->norm_sweep && !interrupted)
        status = sweep(run, &text, inputs, nll, seconds);
    free(inputs);
    free(nll);
    free(ids);
    return status;
}
