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

/* The tokens to score. */
typedef struct {
    int n;
    const int *tokens; /* [n] */
    int *inputs;       /* [n], owned: the token before each, or BOS */
} Scored;

/* Scored tokens of a window. */
static int window_of(const Run *run) {
    return run->session.context - 1;
}

/* Chooses the tokens of a text to score: all, or without BOS all but the first.
 * They point into the text. -1: out of memory. */
static int scored_open(Scored *scored, const Run *run, const Tokens *text) {
    int bos = first_token(run), skipped = bos < 0 && text->n > 0;
    *scored = (Scored){.n = text->n - skipped, .tokens = text->ids + skipped};
    scored->inputs = allocate(scored->n, sizeof *scored->inputs);
    for (int i = 0; scored->inputs && i < scored->n; i++)
        scored->inputs[i] = bos >= 0 && i % window_of(run) == 0
                                ? bos
                                : text->ids[i + skipped - 1];
    return scored->inputs ? 0 : -1;
}

/* Fills nll[text->n] with the NLL of each token. The text runs in `layers`,
 * whose x[text->n][dim] may be NULL; without nll it only runs. Ctrl-C shortens
 * the text to the scored tokens. A terminal shows progress after `shown`. */
static int score(Run *run, Scored *text, LayerRange layers, double *nll,
                 const char *shown) {
    int vocab_size = run->model.config.vocab_size;
    int at = 0;
    for (int n; at < text->n && !interrupted; at += n) {
        int pos = at % window_of(run);
        int left = min_int(text->n - at, window_of(run) - pos);
        n = min_int(left, run_piece(run, 0));
        LayerRange here = layers;
        if (layers.x)
            here.x += at * (size_t)run->model.config.dim;
        const float *logits =
            run_layers(run, text->inputs + at, n, pos, nll ? n : 0, here);
        if (!logits && interrupted)
            break; /* within a pass */
        if (!logits)
            return -1;
#pragma omp parallel for num_threads(run->session.n_threads)
        for (int i = 0; i < (nll ? n : 0); i++)
            nll[at + i] =
                log_sum_exp(logits + (size_t)i * vocab_size, vocab_size) -
                logits[(size_t)i * vocab_size + text->tokens[at + i]];
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

/* The standard error of the mean of n > 1 numbers. Neighbors in a text
 * correlate, so that the sums of blocks of sqrt(n) tokens are compared. */
static double error_of(const double *nll, int n) {
    const int size = (int)sqrt(n);
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
               perplexity * error_of(nll, n));
    bool bos = first_token(run) >= 0;
    if (json)
        printf(", \"window\": %d, \"bos\": %s}\n", run->session.context,
               bos ? "true" : "false");
    else
        printf("\nwindow               %d tokens, %s\n", run->session.context,
               bos ? "the first is BOS"
                   : "without BOS: the first token of the text is not scored");
    return stdout_finish();
}

/* Prints by how much the mean NLL is above `usual`, and the standard error of
 * the differences. */
static void print_change(double *nll, const double *usual, int n,
                         const char *kind, bool json) {
    for (int i = 0; i < n; i++)
        nll[i] -= usual[i];
    printf(json ? ", \"%s\": %.6f" : " %11s %+11.6f", kind, mean_of(nll, n));
    if (n > 1)
        printf(json ? ", \"%s_error\": %.6f" : "%.0s +- %.6f", kind,
               error_of(nll, n));
}

/* The kinds that a sweep tries; DyT is not among them, whose alpha is a
 * choice. */
static const NormKind SWEPT[] = {NORM_RMS, NORM_LAYER, NORM_NONE};
enum { N_SWEPT = COUNT(SWEPT) };

/* Prints a line for each norm: the change of the mean NLL if the norm is
 * replaced by each other kind. Passes begin at its layer, with the x that
 * reaches the layer: those before it do not change. After Ctrl-C there is no
 * line. */
static int sweep(Run *run, Scored *text, const double *usual, double seconds) {
    bool json = run->options->json;
    Session *s = &run->session;
    int n = text->n;
    size_t size = (size_t)n * run->model.config.dim;
    double *nll = allocate((size_t)n * N_SWEPT, sizeof *nll);
    float *x = allocate(2 * size, sizeof *x);
    char name[PART_NAME];
    int norms = 0, status = nll && x ? 0 : -1;
    int first = 0; /* the layer that x[n][dim] enters; x + size is a copy */
    PART_EACH(at, &run->model)
        norms += part_norm(&at) != NULL;
    note("%d norms, at most about %.0f s", norms,
         norms * (N_SWEPT - 1) * seconds);
    if (!json)
        puts(
            "\nchange of NLL per token, in nats, with another kind of norm, +- standard error");
    PART_EACH(at, &run->model) {
        Norm *norm = part_norm(&at);
        if (!norm)
            continue;
        NormKind kept = norm->kind;
        part_name(name, &at, NAME_NORMA);
        for (; first < at.layer && !s->plain && !status; first++) {
            LayerRange layer = {.first = first, .end = first + 1, .x = x};
            status = score(run, text, layer, NULL, name);
        }
        for (int k = 0; k < N_SWEPT && !interrupted; k++)
            if (SWEPT[k] != kept && !status) {
                norm->kind = SWEPT[k];
                float *swapped = memcpy(x + size, x, size * sizeof *x);
                LayerRange rest = {first, run->model.config.n_layers, swapped};
                status = score(run, text, rest, nll + k * n, name);
            }
        norm->kind = kept;
        if (interrupted || status)
            break;
        printf(json ? "{\"norm\": \"%s\"" : "%-26s", name);
        for (int k = 0; k < N_SWEPT; k++)
            if (SWEPT[k] != kept)
                print_change(nll + k * n, usual, n, norm_name(SWEPT[k]), json);
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
    Scored scored = {0};
    int status = scored_open(&scored, run, &text);
    double *nll = status ? NULL : allocate(scored.n, sizeof *nll);
    LayerRange all = {.end = run->model.config.n_layers};
    double start = clock_seconds();
    if (!nll)
        status = -1;
    else if (scored.n == 0)
        status = fail("the text is empty, or one token without BOS: "
                      "nothing to score");
    else
        status = score(run, &scored, all, nll, "scored");
    double seconds = clock_seconds() - start;
    if (!status && scored.n)
        status = report(run, nll, scored.n);
    if (!status && o->norm_sweep && !interrupted)
        status = sweep(run, &scored, nll, seconds);
    free(scored.inputs);
    free(nll);
    free(text.ids);
    return status;
}
