/* page.c: what a page calls besides norma's own functions (web/app/norma.js):
 * one model and one text. Calls that fail print a line on stderr. */
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/open.h"
#include "formats/pack.h"
#include "sampler.h"
#include "session.h"
#include "text/merges.h"
#include "tokenizer.h"
#include <errno.h>
#include <stdlib.h>

static Model model;
static Tokenizer tokenizer;
static Session session;
static Sampler sampler;
static Tokens text;

/* Of base/process.c, which needs signals and a terminal. */
volatile sig_atomic_t interrupted;
const char *volatile temporary_file;

/* Opens /model, with its own tokenizer (NULL) or another file, in place of the
 * model before. -1: refused. */
int page_open(const char *tokenizer_path) {
    session_close(&session);
    tokenizer_close(&tokenizer);
    model_close(&model);
    program_invocation_short_name = "norma"; /* there is no argv[0] */
    if (model_open(&model, "/model") ||
        model_open_tokenizer(&tokenizer, &model, "/model", tokenizer_path,
                             TOKENIZER_NEEDED) < 0)
        return -1;
    model_pack(&model, 1);
    /* passes of 32 tokens, at most 4,096 positions */
    return session_open(&session, &model, 1, 32,
                        min_int(model.config.context, 4096), KV_F32);
}

/* Begins with dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_size,
 * vocab_size. */
Model *page_model(void) {
    return &model;
}

/* attn_norm (site 0) or mlp_norm (1) of a layer; the final norm after the last
 * layer. */
Norm *page_norm(int layer, int site) {
    Layer *l = &model.layers[layer];
    if (layer == model.config.n_layers)
        return &model.final_norm;
    return site ? &l->mlp_norm : &l->attn_norm;
}

/* Vectors of the last pass, of its last layer: the stream x, norm(x), q, k, v,
 * the heads' outputs, the gated products. */
const float *page_vectors(int which) {
    const Chunk *c = &session.chunk;
    const float *const all[] = {c->x, c->xn, c->q, c->k, c->v, c->att, c->gate};
    return all[which];
}

/* Begins a text. Returns its tokens, *n of them; NULL: it failed. */
const int *page_text(const char *prompt, size_t size, int *n) {
    free(text.ids);
    text = (Tokens){0};
    int status = tokenizer_encode(&tokenizer, prompt, size, true, &text);
    if (status == 0 && text.n > session.context)
        status = fail("%d positions do not fit in a context of %d", text.n,
                      session.context);
    *n = text.n;
    return status ? NULL : text.ids;
}

/* Begins a draw of tokens. */
int page_sampler(float temperature, float top_p, unsigned seed) {
    Sampling options = {.temperature = temperature,
                        .top_p = top_p,
                        .repeat_penalty = 1,
                        .seed = seed};
    sampler_close(&sampler);
    return sampler_open(&sampler, &options, model.config.vocab_size);
}

/* Runs tokens [first, first + n) of the text; the logits of the last
 * n_logits. */
const float *page_run(int first, int n, int n_logits) {
    return model_forward_text(&session, text.ids + first, n, first, n_logits);
}

/* Draws the next token and returns its bytes; NULL: the text ends. */
const char *page_draw(const float *logits, int *length) {
    int before = text.ids[text.n - 1], token = sampler_next(&sampler, logits);
    if (tokenizer_is_end(&tokenizer, token, model.eos_ends) ||
        tokens_add(&text, token))
        return NULL;
    return tokenizer_decode(&tokenizer, before, token, length);
}
