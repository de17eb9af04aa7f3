/* page.c: what a page calls besides norma's own functions (web/app/norma.js):
 * one model and one text. Calls that fail print a line on stderr. */
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/open.h"
#include "formats/pack.h"
#include "formats/parts.h"
#include "lab/profile.h"
#include "sampler.h"
#include "session.h"
#include "text/merges.h"
#include "tokenizer.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static Model model;
static Tokenizer tokenizer;
static Session session;
static Sampler sampler;
static Tokens text;

/* Of base/process.c, which needs signals and a terminal. */
volatile sig_atomic_t interrupted;
const char *volatile temporary_file;

static NormKind *own_kinds; /* of the model's norms, as PART_EACH visits them */

static int remember_kinds(void) {
    int n = 0;
    free(own_kinds);
    PART_EACH(at, &model)
        n += part_norm(&at) != NULL;
    own_kinds = malloc(n * sizeof *own_kinds);
    if (!own_kinds)
        return fail("out of memory for %d norms", n);
    n = 0;
    PART_EACH(at, &model)
        if (part_norm(&at))
            own_kinds[n++] = part_norm(&at)->kind;
    return 0;
}

/* Gives every norm of a layer the kind; after the last layer the final norm;
 * ALL_LAYERS: every norm of the model. Other norms get the model's own kind;
 * OWN_KIND: all norms do. */
enum { ALL_LAYERS = -2, OWN_KIND = -1 };
void page_swap(int layer, int kind) {
    int i = 0;
    PART_EACH(at, &model) {
        Norm *norm = part_norm(&at);
        bool final = at.part->owner == OF_MODEL;
        if (!norm)
            continue;
        bool chosen = layer == ALL_LAYERS ||
                      layer == (final ? model.config.n_layers : at.layer);
        norm->kind = own_kinds[i++];
        if (kind != OWN_KIND && chosen)
            norm->kind = kind;
    }
}

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
    if (remember_kinds())
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

/* Begins a text. Returns how many tokens it has: 0 if it is empty and the model
 * has no BOS; -1: refused. */
int page_text(const char *prompt, size_t size) {
    free(text.ids);
    text = (Tokens){0};
    if (tokenizer_encode(&tokenizer, prompt, size, true, &text))
        return -1;
    if (text.n > session.context)
        return fail("%d positions do not fit in a context of %d", text.n,
                    session.context);
    return text.n;
}

const int *page_ids(void) {
    return text.ids;
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

/* Profiles the text: its tokens in passes of 32, then again one by one. Returns
 * the page that --profile=x.html writes, which the caller frees; NULL: it
 * failed. */
char *page_profile(void) {
    char *page = NULL;
    size_t size;
    Profile *p = profile_open(&session, (About){.model = "model"});
    FILE *out = open_memstream(&page, &size);
    bool ran = p && out;
    for (int at = 0, n; ran && at < text.n; at += n) {
        n = min_int(32, text.n - at);
        ran = model_forward_text(&session, text.ids + at, n, at, 1) != NULL;
    }
    for (int at = 1; ran && at < text.n; at++)
        ran = model_forward_text(&session, text.ids + at, 1, at, 1) != NULL;
    if (ran)
        write_page(p, out);
    if (out)
        fclose(out);
    if (p)
        profile_close(p);
    if (ran)
        return page;
    free(page);
    return NULL;
}
