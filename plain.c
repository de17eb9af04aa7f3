/* plain.c: the transformer, as one text.
 *
 * This is the whole decoder, for every family of models and every type of
 * weights: each formula as it is, in double precision, one token after the
 * other. Read it from top to bottom; only the norms are elsewhere (norm.c). It
 * computes, from the token at position t of a text and those before it, the
 * logits of the next one:
 *
 *     x = E[token]                                        embed
 *     in each layer:
 *         xn = norm(x)                                    norm.c
 *         q = Wq xn,  k_t = Wk xn,  v_t = Wv xn           self_attention
 *         q = R(t) q,  k_t = R(t) k_t                     rotate
 *         p = softmax of q . k_s / sqrt(d) over s <= t    attend_head
 *         a = sum over s of p_s v_s                       attend_head
 *         x = x + Wo a                                    self_attention, add
 *         xn = norm(x)                                    norm.c
 *         x = x + Wdown (silu(Wgate xn) * Wup xn)         feed_forward, add
 *     logits = Wout norm(x)                               compute_logits
 *
 * q, k, v and a consist of heads of d numbers; each head of q has a p of its
 * own. k_s and v_s of earlier positions s come from the cache. This is LLaMA
 * (Touvron et al. 2023). A comment with `+` marks what other families add: read
 * its line as if that number were 0 and that tensor absent.
 *
 * The program runs this text with --plain. Without it other files compute the
 * same in float32, fast: docs/architecture.md names the fast function of each
 * one here. The tests compare both, and this text with Python.
 * Tests: plain, golden. */
#include "plain.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "kernels/quant.h"
#include "norm.h"
#include "session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The token that runs, and its vectors. */
typedef struct {
    const Model *model;
    const Config *config;
    const Rope *ropes; /* of the session, by RopeUse */
    double *cache;     /* of the sequence: see cached() */
    int pos;           /* t */
    double *x;         /* [dim] the residual stream */
    double *xn, *y;    /* [dim] a sublayer's input, norm(x), and its output */
    double *q, *a;     /* [n_heads][head_size] */
    double *p;         /* [t + 1] of one head */
    double *gate, *up; /* [hidden_dim], or [expert_dim] in an expert */
    double *down;      /* [dim] output of one MLP or expert */
    double *p_experts; /* [n_experts] probabilities */
    double *experts;   /* [n_experts] weights */
    double *logits;    /* [vocab_size] */
    float *row;        /* the longest row of a weight or of E */
} Token;

/* ---- products and softmax ----------------------------------------------- */

/* y[out] = W[out][in] x[in]. Quantized rows become numbers one by one. */
static void matmul(const Token *token, double *y, const Tensor *w,
                   const double *x) {
    for (int i = 0; i < w->rows; i++) {
        double sum = w->bias ? w->bias[i] : 0; /* + Qwen 2: biases */
        dequantize_row(token->row, w, i);
        for (int j = 0; j < w->cols; j++)
            sum += token->row[j] * x[j];
        y[i] = sum;
    }
}

/* p_i = e^z_i / sum of e^z_j, in place. The max is subtracted, which cancels in
 * the fraction, because e^z overflows beyond z = 709. */
static void softmax(double *p, int n) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        max = fmax(max, p[i]);
    for (int i = 0; i < n; i++)
        sum += p[i] = exp(p[i] - max);
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

/* + Gemma 2: keeps z between -cap and cap, and small z nearly as they are. */
static double limit(double z, double cap) {
    return cap != 0 ? cap * tanh(z / cap) : z;
}

/* ---- attention (Vaswani et al. 2017, sec. 3.2) -------------------------- */

/* R(t): rotates each pair of numbers (a, b) of a head by an angle proportional
 * to the position t. q . k then depends on t only by the distance t - s of the
 * two tokens (Su et al. 2021, sec. 3.4). */
static void rotate(double *head, const Rope *r, int t) {
    int pairs = r->dims / 2; /* of the whole head; + Phi-3: of a part */
    for (int i = 0; i < pairs; i++) {
        /* base^(-2i / dims) radians per position; + perhaps scaled: rope.c */
        double angle = t * r->frequencies[i];
        /* a pair: two neighbours in LLaMA's own files; i of both halves in
         * those of Hugging Face, whose rows of Wq and Wk have another order */
        double *a = r->halves ? &head[i] : &head[2 * i],
               *b = r->halves ? &head[i + pairs] : &head[2 * i + 1];
        double real = *a * cos(angle) - *b * sin(angle);
        *b = (*a * sin(angle) + *b * cos(angle)) * r->amplitude;
        *a = real * r->amplitude; /* 1; + YaRN: more */
    }
}

/* + Qwen 3: a norm of each head of v[n_heads][head_size]; OLMo 2: of all. */
static void norm_heads(const Token *token, double *v, const Norm *norm,
                       int n_heads) {
    int one = token->config->head_size, all = n_heads * one;
    int size = token->config->wide_head_norms ? all : one;
    for (int i = 0; i < all; i += size)
        norm_plain(v + i, v + i, norm, size);
}

/* Gives queries or keys v[n_heads][head_size] their position. */
static void position(const Token *token, const Layer *layer, double *v,
                     const Norm *norm, int n_heads) {
    const Config *c = token->config;
    if (!c->late_head_norms)
        norm_heads(token, v, norm, n_heads); /* + Qwen 3 */
    for (int h = 0; h < n_heads; h++)
        rotate(v + h * c->head_size, &token->ropes[layer->rope], token->pos);
    if (c->late_head_norms)
        norm_heads(token, v, norm, n_heads); /* + Hunyuan */
}

/* The keys or values [n_kv_heads][head_size] of a position in the cache, which
 * is [pos][layer][keys, values]. Without it, each new token would have to run
 * all earlier ones again. */
static double *cached(const Token *token, const Layer *layer, int pos,
                      KvKind kind) {
    const Config *c = token->config;
    size_t row = ((size_t)pos * c->n_layers + layer->index) * 2 + kind;
    return token->cache + row * c->n_kv_heads * c->head_size;
}

/* a = sum over s of softmax(q . k_s / sqrt(d)) v_s, for query head h. The mask
 * is causal: s ends at t, so no token sees a later one. A group of query heads
 * shares a head of keys and values (Ainslie et al. 2023). */
static void attend_head(const Token *token, const Layer *layer, int h) {
    const Config *c = token->config;
    int t = token->pos, d = c->head_size, group = c->n_heads / c->n_kv_heads;
    const double *q = token->q + h * d;
    double *a = token->a + h * d, *p = token->p;
    /* a sum of d products grows with sqrt(d), and would saturate softmax */
    double scale = 1 / sqrt(d);
    if (c->attention_scale != 0)
        scale = c->attention_scale; /* + Gemma */
    int first = 0;
    if (layer->window && t >= layer->window)
        first = t - layer->window + 1; /* + Mistral: the last ones only */
    for (int s = first; s <= t; s++) {
        const double *k = cached(token, layer, s, KV_KEYS) + h / group * d;
        p[s] = 0;
        for (int i = 0; i < d; i++)
            p[s] += q[i] * k[i];
        p[s] = limit(scale * p[s], c->attention_cap); /* + Gemma 2 */
    }
    softmax(p + first, t + 1 - first);
    for (int i = 0; i < d; i++) {
        a[i] = 0;
        for (int s = first; s <= t; s++)
            a[i] +=
                p[s] * cached(token, layer, s, KV_VALUES)[h / group * d + i];
    }
}

/* y = Wo a: the heads, each of which looked elsewhere, mixed. */
static void self_attention(const Token *token, const Layer *layer, double *y,
                           const double *xn) {
    const Config *c = token->config;
    double *k = cached(token, layer, token->pos, KV_KEYS),
           *v = cached(token, layer, token->pos, KV_VALUES);
    matmul(token, token->q, &layer->wq, xn);
    matmul(token, k, &layer->wk, xn);
    matmul(token, v, &layer->wv, xn);
    position(token, layer, token->q, &layer->q_norm, c->n_heads);
    position(token, layer, k, &layer->k_norm, c->n_kv_heads);
    for (int h = 0; h < c->n_heads; h++)
        attend_head(token, layer, h);
    matmul(token, y, &layer->wo, token->a);
}

/* ---- feed-forward (sec. 3.3) -------------------------------------------- */

static double activate(Activation activation, double z) {
    switch (activation) {
    case ACTIVATION_SILU: return z / (1 + exp(-z));
    case ACTIVATION_GELU: /* + Gemma; its tanh form */
        return z / 2 * (1 + tanh(sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
    case ACTIVATION_RELU2: return z * fmax(z, 0); /* + Arcee */
    case N_ACTIVATIONS: break;
    }
    return NAN;
}

/* y += weight Wdown (silu(Wgate xn) * Wup xn): SwiGLU (Shazeer 2020). The paper
 * has Wdown relu(Wup xn); here a second product, the gate, replaces relu. */
static void swiglu(const Token *token, const Mlp *m, double weight, double *y,
                   const double *xn) {
    matmul(token, token->gate, &m->gate, xn);
    if (m->up.data) /* + Arcee: absent */
        matmul(token, token->up, &m->up, xn);
    for (int i = 0; i < m->gate.rows; i++)
        token->gate[i] = activate(token->config->activation, token->gate[i]) *
                         (m->up.data ? token->up[i] : 1);
    matmul(token, token->down, &m->down, token->gate);
    for (int i = 0; i < token->config->dim; i++)
        y[i] += weight * token->down[i];
}

/* + Mixtral: an expert's weight is its probability, or 0 if too many others are
 * more probable (Shazeer et al. 2017); of equal ones, the first come first. */
static void choose_experts(const Token *token, const Layer *layer,
                           const double *xn) {
    const Config *c = token->config;
    double *p = token->p_experts, *weight = token->experts, sum = 0;
    matmul(token, p, &layer->router, xn);
    softmax(p, c->n_experts);
    for (int e = 0; e < c->n_experts; e++) {
        int better = 0;
        for (int o = 0; o < c->n_experts; o++)
            better += p[o] > p[e] || (o < e && p[o] == p[e]);
        sum += weight[e] = better < c->n_experts_used ? p[e] : 0;
    }
    for (int e = 0; c->norm_topk && e < c->n_experts; e++)
        weight[e] /= sum;
}

/* y = mlp(xn): one SwiGLU; + Mixtral: those of the chosen experts. */
static void feed_forward(const Token *token, const Layer *layer, double *y,
                         const double *xn) {
    const Mlp *m = &layer->mlp;
    double weight = 1;
    for (int i = 0; i < token->config->dim; i++)
        y[i] = 0;
    if (m->weight.data) { /* + Qwen 2 MoE: how much of its shared expert */
        matmul(token, &weight, &m->weight, xn);
        weight = 1 / (1 + exp(-weight));
    }
    if (m->gate.data) /* the MLP; + Qwen 2 MoE: the expert for all tokens */
        swiglu(token, m, weight, y, xn);
    if (layer->experts) {
        choose_experts(token, layer, xn);
        for (int e = 0; e < token->config->n_experts; e++)
            if (token->experts[e] != 0)
                swiglu(token, &layer->experts[e], token->experts[e], y, xn);
    }
}

/* ---- layers (sec. 3.1) -------------------------------------------------- */

/* x += y: the residual connection (He et al. 2015). All sublayers add to one
 * stream, which reaches the last layer whatever they do. */
static void add(const Token *token, double *x, double *y, const Norm *post) {
    const Config *c = token->config;
    norm_plain(y, y, post, c->dim); /* + Gemma 2, OLMo 2; absent: y stays */
    for (int i = 0; i < c->dim; i++)
        x[i] += c->residual_scale * y[i]; /* + Granite */
}

/* x += self_attention(norm(x)), x += feed_forward(norm(x)). */
static void run_layer(const Token *token, const Layer *layer) {
    int dim = token->config->dim;
    double *x = token->x, *xn = token->xn, *y = token->y;
    norm_plain(xn, x, &layer->attn_norm, dim);
    self_attention(token, layer, y, xn);
    add(token, x, y, &layer->attn_post_norm);
    /* + Cohere: no norm here, so that the MLP has attention's xn. + OLMo 2: a
     * post-norm only, so that xn = x. */
    if (layer->mlp_norm.gamma || layer->mlp_post_norm.gamma)
        norm_plain(xn, x, &layer->mlp_norm, dim);
    feed_forward(token, layer, y, xn);
    add(token, x, y, &layer->mlp_post_norm);
}

/* ---- embedding and logits (sec. 3.4) ------------------------------------ */

/* x = E[id], of E[vocab_size][dim]. */
static void embed(const Token *token, int id) {
    dequantize_row(token->row, &token->model->embedding, id);
    for (int i = 0; i < token->config->dim; i++)
        token->x[i] =
            token->config->embedding_scale * token->row[i]; /* + Gemma */
}

/* logits = Wout norm(x). Their softmax is the probability of each token of the
 * vocabulary to be the next one (sampler.c). */
static void compute_logits(const Token *token, float *logits) {
    const Config *c = token->config;
    norm_plain(token->xn, token->x, &token->model->final_norm, c->dim);
    matmul(token, token->logits, &token->model->output, token->xn);
    for (int i = 0; i < c->vocab_size; i++) {
        double z = c->logit_scale * token->logits[i]; /* + Granite */
        logits[i] = (float)limit(z, c->logit_cap);    /* + Gemma 2 */
    }
}

/* The decoder. Its logits are computed only if they are requested. Ctrl-C ends
 * it after a layer: with a large model, a token takes long. */
static void decode(const Token *token, int id, float *logits) {
    embed(token, id);
    for (int l = 0; l < token->config->n_layers && !interrupted; l++)
        run_layer(token, &token->model->layers[l]);
    if (logits)
        compute_logits(token, logits);
}

/* ---- memory ------------------------------------------------------------- */

/* Bytes of a cache of so many positions. */
static size_t cache_bytes(const Config *c, int positions) {
    size_t n = (size_t)positions * c->n_layers * 2 * c->n_kv_heads;
    return n * c->head_size * sizeof(double);
}

/* Gives a token its vectors, and first the cache of its sequence. */
static void lay_out(Token *token, Arena *a, int positions) {
    const Config *c = token->config;
    int heads = c->n_heads * c->head_size;
    double hidden = fmax(c->hidden_dim, c->expert_dim);
    token->cache = arena_take(a, 1, cache_bytes(c, positions));
    token->x = arena_take(a, c->dim, sizeof(double));
    token->xn = arena_take(a, c->dim, sizeof(double));
    token->y = arena_take(a, c->dim, sizeof(double));
    token->q = arena_take(a, heads, sizeof(double));
    token->a = arena_take(a, heads, sizeof(double));
    token->p = arena_take(a, positions, sizeof(double));
    token->gate = arena_take(a, hidden, sizeof(double));
    token->up = arena_take(a, hidden, sizeof(double));
    token->down = arena_take(a, c->dim, sizeof(double));
    token->p_experts = arena_take(a, c->n_experts, sizeof(double));
    token->experts = arena_take(a, c->n_experts, sizeof(double));
    token->logits = arena_take(a, c->vocab_size, sizeof(double));
    token->row =
        arena_take(a, fmax(fmax(c->dim, heads), hidden), sizeof(float));
}

/* Makes room for so many positions in a sequence: for twice as many, if it must
 * grow. -1: out of memory. */
static int reserve(Sequence *sequence, const Config *c, int positions) {
    if (positions <= sequence->plain_room)
        return 0;
    Token sizes = {.config = c};
    Arena a = {0};
    lay_out(&sizes, &a, 2 * positions);
    double *memory = allocate((size_t)a.used, 1);
    if (!memory)
        return -1;
    if (sequence->plain)
        memcpy(memory, sequence->plain, cache_bytes(c, sequence->plain_room));
    free(sequence->plain);
    sequence->plain = memory;
    sequence->plain_room = 2 * positions;
    return 0;
}

/* Copies sequence `from` to `to`. -1: out of memory. */
static int plain_fork(Session *session, int to, int from) {
    const Config *c = &session->model->config;
    Sequence *copy = session->sequences + to,
             *source = session->sequences + from;
    if (reserve(copy, c, source->n_ran))
        return -1;
    if (source->n_ran)
        memcpy(copy->plain, source->plain, cache_bytes(c, source->n_ran));
    return 0;
}

static const float *plain_forward(Session *session, const Step *steps, int n) {
    const Config *c = &session->model->config;
    int rows = 0;
    EACH(const Step, step, steps, n)
        rows += step->logits != NO_LOGITS;
    free(session->plain_logits);
    float *logits = allocate(rows, c->vocab_size * sizeof *logits);
    session->plain_logits = logits;
    EACH(const Step, step, steps, n) {
        Sequence *sequence = &session->sequences[step->sequence];
        if (!logits || reserve(sequence, c, step->pos + 1))
            return NULL;
        Token token = {session->model, c, session->ropes, .pos = step->pos};
        Arena a = {.memory = (void *)sequence->plain};
        lay_out(&token, &a, sequence->plain_room);
        decode(&token, step->token, step->logits ? logits : NULL);
        if (interrupted)
            return NULL;
        logits += step->logits ? c->vocab_size : 0;
    }
    return session->plain_logits;
}

const Formulas PLAIN = {plain_forward, plain_fork};
