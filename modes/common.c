/* common.c: functions that several modes share.
 * Tests: cli. */
#include "modes/common.h"
#include "base/file.h"
#include "formats/json.h"
#include "kernels/simd.h"
#include "text/merges.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reads ids below vocab_size from a list: "1,403,407". */
static int parse_tokens(const char *list, int vocab_size, Tokens *out) {
    char *end;
    for (const char *s = list;; s = end + 1) {
        long id = strtol(s, &end, 10);
        if (*s < '0' || *s > '9' || id >= vocab_size || (*end && *end != ','))
            return fail(
                "--tokens: '%.40s', expected ids below %d, separated by commas: 1,403,407",
                s, vocab_size);
        if (tokens_add(out, (int)id))
            return -1;
        if (!*end)
            return 0;
    }
}

char *run_read(const Options *o, size_t *size) {
    const char *path = o->prompts ? o->prompts : o->prompt_file;
    const char *given = o->tokens ? o->tokens : o->prompt;
    if (!given)
        given = "";
    Buffer copy = {0};
    if (!path) {
        *size = strlen(given);
        buffer_append(&copy, given, *size);
        return copy.bytes;
    }
    char *text = file_read(path, size);
    if (text && !o->prompts && memmem(text, *size, "\r\n", 2))
        note("%s: lines end in CR LF, and both stay in the text", path);
    return text;
}

int run_tokens(const Run *run, bool bos, Tokens *out) {
    const Options *o = run->options;
    size_t size;
    *out = (Tokens){0};
    char *text = run_read(o, &size);
    if (!text)
        return -1;
    int status =
        o->tokens ? parse_tokens(o->tokens, run->model.config.vocab_size, out)
                  : tokenizer_encode(&run->tokenizer, text, size, bos, out);
    free(text);
    if (status) {
        free(out->ids);
        *out = (Tokens){0};
    }
    return status;
}

double log_sum_exp(const float *logits, int n) {
    float max = logits[0];
    double sum = -1; /* without the term of max, which is 1 */
    for (int i = 1; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < n; i += LANES) {
        int m = lanes_left(n - i);
        vf e = vexp(vload_n(logits + i, m) - max);
        for (int j = 0; j < m; j++)
            sum += e[j];
    }
    return log1p(sum) + max;
}

void write_json_string(FILE *out, const char *name, const char *s, size_t n) {
    fprintf(out, "\"%s\": \"", name);
    for (size_t used; n > 0; s += used, n -= used)
        fputs(json_escape(s, n, &used), out);
    fputc('"', out);
}

void write_json_token(const Run *run, FILE *out, int id,
                      const double *logprob) {
    int n;
    const char *bytes = run_token_text(run, -1, id, &n);
    fprintf(out, "\"token\": %d, ", id);
    if (logprob)
        fprintf(out, "\"logprob\": %.9g, ", *logprob);
    write_json_string(out, "text", bytes, n);
    fputs(", \"bytes\": [", out);
    for (int i = 0; i < n; i++)
        fprintf(out, i ? ", %d" : "%d", (uint8_t)bytes[i]);
    fputc(']', out);
}

int run_first_token(const Run *run) {
    const Tokenizer *t = &run->tokenizer;
    int token = t->bos >= 0 ? t->bos : t->eos;
    return token < run->model.config.vocab_size ? token : -1;
}

int run_steps(const Run *run, const Tokens *prompt) {
    bool ends = run->model.eos_ends,
         hidden =
             run->tokenizer.pieces.n && *prompt->ids == run_first_token(run);
    int context = run->session.context, steps = run->options->steps;
    if (steps < 0)
        return min_int(ends ? prompt->n + 255 : 256, context);
    return steps ? min_int(steps - (ends && !hidden), context) : context;
}

const char *run_token_text(const Run *run, int previous, int token, int *n) {
    static char number[16];
    if (run->tokenizer.pieces.n)
        return tokenizer_decode(&run->tokenizer, previous, token, n);
    *n = snprintf(number, sizeof number, previous < 0 ? "%d" : ",%d", token);
    return number;
}

int run_piece(Run *run, int n) {
    double products = 3e10; /* of the first piece: 0.1 to 1 s on one core */
    const Session *s = &run->session;
    if (!run->piece)
        run->piece =
            (int)fmin(1 + products / (double)run->model.parameters, s->batch);
    else if (n >= run->piece)
        run->piece = (int)fmax(1, fmin(n / s->seconds, s->batch));
    return run->piece;
}

const float *run_layers(Run *run, const int *tokens, int n, int pos,
                        int n_logits, LayerRange layers) {
    size_t size = (size_t)n_logits * run->model.config.vocab_size;
    const float *logits =
        model_forward_layers(&run->session, tokens, n, pos, n_logits, layers);
    run_piece(run, n);
    return logits && !check_logits(logits, size) ? logits : NULL;
}

const float *run_logits(Run *run, const int *tokens, int n, int pos) {
    LayerRange all = {.end = run->model.config.n_layers};
    return run_layers(run, tokens, n, pos, n, all);
}
