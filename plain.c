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
 *         n = norm(x)                                     norm.c
 *         q = Wq n,  k_t = Wk n,  v_t = Wv n              self_attention
 *         q = R(t) q,  k_t = R(t) k_t                     rotate
 *         p = softmax of q . k_s / sqrt(d) over s <= t    attend_head
 *         a = sum over s of p_s v_s                       attend_head
 *         x = x + Wo a                                    self_attention, add
 *         n = norm(x)                                     norm.c
 *         x = x + Wdown (silu(Wgate n) * Wup n)           feed_forward, add
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
 * Tests: plain, golden.
 */
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "kernels/quant.h"
#include "norm.h"
#include "session.h"
#include <math.h>
#include <stdlib.h>

/* The token that runs, and its vectors. */
typedef struct {
    const Model *model;
    const Config *config;
    const Rope *ropes; /* of the session, by RopeUse */
    double *cache;     /* of the sequence: see cached() */
    int pos;           /* t */
    double *x;         /* [dim] the residual stream */
    double *n, *y;     /* [dim] a sublayer's input, norm(x), and its output */
    double *q, *a;     /* [n_heads][head_size] */
    double *p;         /* [t + 1] of one head */
    double *gate, *up; /* [hidden_dim], or [expert_dim] in an expert */
    double *down;      /* [dim] output of one MLP or expert */
    double *p_experts; /* [n_experts] probabilities */
    double *experts;   /* [n_experts] weights */
    double *logits;    /* [vocab_size] */
    float *row;        /* a row of a weight or of E */
} Token;

/* ---- products and softmax ----------------------------------------------- */

/* y[out] = W[out][in] x[in]. Quantized rows become numbers one by one; x stays
 * as it is. Ctrl-C ends the product: with a large model, a token takes long.
 * What follows then computes with unfinished numbers, and run_step() fails. */
static void matmul(const Token *t, double *y, const Tensor *w,
                   const double *x) {
    for (int i = 0; i < w->rows && !interrupted; i++) {
        double sum = w->bias ? w->bias[i] : 0; /* + Qwen 2: biases */
        dequantize_row(t->row, w, i);
        for (int j = 0; j < w->cols; j++)
            sum += t->row[j] * x[j];
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

/* + A scale that only some models have; the others have `usual`. */
static double scale_or(double scale, double usual) {
    return scale != 0 ? scale : usual;
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
        /* a pair is two neighbours in LLaMA's own files; in those of Hugging
         * Face, whose rows of Wq and Wk have another order, it is i of both
         * halves. Same result. */
        double *a = r->halves ? &head[i] : &head[2 * i],
               *b = r->halves ? &head[i + pairs] : &head[2 * i + 1];
        double real = *a * cos(angle) - *b * sin(angle);
        *b = (*a * sin(angle) + *b * cos(angle)) * r->amplitude;
        *a = real * r->amplitude; /* 1; + YaRN: more */
    }
}

/* + Qwen 3: a norm of each head of v[n_heads][head_size]; OLMo 2: of all. */
static void norm_heads(const Token *t, double *v, const Norm *norm,
                       int n_heads) {
    int together = t->config->wide_head_norms ? n_heads : 1,
        size = together * t->config->head_size;
    for (int h = 0; h < n_heads; h += together, v += size)
        norm_plain(v, v, norm, size);
}

/* Gives queries or keys v[n_heads][head_size] their position. */
static void position(const Token *t, const Layer *layer, double *v,
                     const Norm *norm, int n_heads) {
    const Config *c = t->config;
    if (!c->late_head_norms)
        norm_heads(t, v, norm, n_heads); /* + Qwen 3 */
    for (int h = 0; h < n_heads; h++)
        rotate(v + h * c->head_size, &t->ropes[layer->rope], t->pos);
    if (c->late_head_norms)
        norm_heads(t, v, norm, n_heads); /* + Hunyuan */
}

/* The keys or values [n_kv_heads][head_size] of a position in the cache, which
 * is [pos][layer][keys, values]. Without it, each new token would have to run
 * all earlier ones again. */
static double *cached(const Token *t, const Layer *layer, int pos,
                      KvKind kind) {
    const Config *c = t->config;
    size_t row = ((size_t)pos * c->n_layers + layer->index) * 2 + kind;
    return t->cache + row * c->n_kv_heads * c->head_size;
}

/* a = sum over s of softmax(q . k_s / sqrt(d)) v_s, for query head h. The mask
 * is causal: s ends at t, so no token sees a later one. A group of query heads
 * shares a head of keys and values (Ainslie et al. 2023). */
static void attend_head(const Token *t, const Layer *layer, int h) {
    const Config *c = t->config;
    int d = c->head_size, kv_head = h / (c->n_heads / c->n_kv_heads);
    const double *q = t->q + h * d;
    double *a = t->a + h * d, *p = t->p;
    int first = 0;
    if (layer->window && t->pos >= layer->window)
        first = t->pos - layer->window + 1; /* + Mistral: the last ones only */
    for (int s = first; s <= t->pos; s++) {
        const double *k = cached(t, layer, s, KV_KEYS) + kv_head * d;
        p[s] = 0;
        for (int i = 0; i < d; i++)
            p[s] += q[i] * k[i];
        /* a sum of d products grows with sqrt(d), and would saturate softmax */
        p[s] *= scale_or(c->attention_scale, 1 / sqrt(d)); /* + Gemma */
        p[s] = limit(p[s], c->attention_cap);              /* + Gemma 2 */
    }
    softmax(p + first, t->pos + 1 - first);
    for (int i = 0; i < d; i++) {
        a[i] = 0;
        for (int s = first; s <= t->pos; s++)
            a[i] += p[s] * cached(t, layer, s, KV_VALUES)[kv_head * d + i];
    }
}

/* y = Wo a: the heads, each of which looked elsewhere, mixed. */
static void self_attention(const Token *t, const Layer *layer, double *y,
                           const double *n) {
    const Config *c = t->config;
    double *k = cached(t, layer, t->pos, KV_KEYS),
           *v = cached(t, layer, t->pos, KV_VALUES);
    matmul(t, t->q, &layer->wq, n);
    matmul(t, k, &layer->wk, n);
    matmul(t, v, &layer->wv, n);
    position(t, layer, t->q, &layer->q_norm, c->n_heads);
    position(t, layer, k, &layer->k_norm, c->n_kv_heads);
    for (int h = 0; h < c->n_heads; h++)
        attend_head(t, layer, h);
    matmul(t, y, &layer->wo, t->a);
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

/* y += weight Wdown (silu(Wgate n) * Wup n): SwiGLU (Shazeer 2020). The paper
 * has Wdown relu(Wup n); here a second product, the gate, replaces relu. */
static void swiglu(const Token *t, const Mlp *m, double weight, double *y,
                   const double *n) {
    const Config *c = t->config;
    matmul(t, t->gate, &m->gate, n);
    if (m->up.data) /* + Arcee: absent */
        matmul(t, t->up, &m->up, n);
    for (int i = 0; i < m->gate.rows; i++)
        t->gate[i] =
            activate(c->activation, t->gate[i]) * (m->up.data ? t->up[i] : 1);
    matmul(t, t->down, &m->down, t->gate);
    for (int i = 0; i < c->dim; i++)
        y[i] += weight * t->down[i];
}

/* + Mixtral: an expert's weight is its probability, or 0 if too many others are
 * more probable (Shazeer et al. 2017); of equal ones, the first come first. */
static void choose_experts(const Token *t, const Layer *layer,
                           const double *n) {
    const Config *c = t->config;
    double *p = t->p_experts, *weight = t->experts, sum = 0;
    matmul(t, p, &layer->router, n);
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

/* y = mlp(n): one SwiGLU; + Mixtral: those of the chosen experts. */
static void feed_forward(const Token *t, const Layer *layer, double *y,
                         const double *n) {
    const Mlp *m = &layer->mlp;
    double weight = 1;
    for (int i = 0; i < t->config->dim; i++)
        y[i] = 0;
    if (m->weight.data) { /* + Qwen 2 MoE: how much of its shared expert */
        matmul(t, &weight, &m->weight, n);
        weight = 1 / (1 + exp(-weight));
    }
    if (m->gate.data) /* the MLP; + Qwen 2 MoE: the expert for all tokens */
        swiglu(t, m, weight, y, n);
    if (layer->experts) {
        choose_experts(t, layer, n);
        for (int e = 0; e < t->config->n_experts; e++)
            if (t->experts[e] != 0)
                swiglu(t, &layer->experts[e], t->experts[e], y, n);
    }
}

/* ---- layers (sec. 3.1) -------------------------------------------------- */

/* x += y: the residual connection (He et al. 2015). All sublayers add to one
 * stream, which reaches the last layer whatever they do. */
static void add(const Token *t, double *x, double *y, const Norm *post) {
    const Config *c = t->config;
    norm_plain(y, y, post, c->dim); /* + Gemma 2, OLMo 2; absent: y stays */
    for (int i = 0; i < c->dim; i++)
        x[i] += scale_or(c->residual_scale, 1) * y[i]; /* + Granite */
}

/* x += self_attention(norm(x)), x += feed_forward(norm(x)). */
static void run_layer(const Token *t, const Layer *layer) {
    int dim = t->config->dim;
    double *x = t->x, *n = t->n, *y = t->y;
    norm_plain(n, x, &layer->attn_norm, dim);
    self_attention(t, layer, y, n);
    add(t, x, y, &layer->attn_post_norm);
    /* + Cohere: no norm here, so that the MLP has attention's n. + OLMo 2: a
     * post-norm only, so that n = x. */
    if (layer->mlp_norm.gamma || layer->mlp_post_norm.gamma)
        norm_plain(n, x, &layer->mlp_norm, dim);
    feed_forward(t, layer, y, n);
    add(t, x, y, &layer->mlp_post_norm);
}

/* ---- embedding and logits (sec. 3.4) ------------------------------------ */

/* x = E[token], of E[vocab_size][dim]. */
static void embed(const Token *t, int token) {
    const Config *c = t->config;
    dequantize_row(t->row, &t->model->embedding, token);
    for (int i = 0; i < c->dim; i++)
        t->x[i] = t->row[i] * scale_or(c->embedding_scale, 1); /* + Gemma */
}

/* logits = Wout norm(x). Their softmax is the probability of each token of the
 * vocabulary to be the next one (sampler.c). */
static void compute_logits(const Token *t, float *logits) {
    const Config *c = t->config;
    norm_plain(t->n, t->x, &t->model->final_norm, c->dim);
    matmul(t, t->logits, &t->model->output, t->n);
    for (int i = 0; i < c->vocab_size; i++)
        logits[i] = (float)limit(/* + Gemma 2, Granite */
                                 scale_or(c->logit_scale, 1) * t->logits[i],
                                 c->logit_cap);
}

/* The decoder. Its logits are computed only if they are requested. */
static void decode(const Token *t, int token, float *logits) {
    embed(t, token);
    for (int l = 0; l < t->config->n_layers; l++)
        run_layer(t, &t->model->layers[l]);
    if (logits)
        compute_logits(t, logits);
}

/* ---- memory ------------------------------------------------------------- */

/* Doubles of n positions in a cache. */
static size_t cache_size(const Config *c, int n) {
    return (size_t)n * c->n_layers * 2 * c->n_kv_heads * c->head_size;
}

/* Makes room for n positions in a sequence's cache: for twice as many, if it
 * must grow. -1: out of memory. */
static int reserve(Sequence *q, const Config *c, int n) {
    if (n <= q->plain_room)
        return 0;
    double *cache =
        realloc(q->plain_cache, 2 * cache_size(c, n) * sizeof *cache);
    if (!cache)
        return fail("out of memory: a cache of %d positions", n);
    q->plain_cache = cache;
    q->plain_room = 2 * n;
    return 0;
}

int plain_fork(Session *s, int to, int from) {
    const Config *c = &s->model->config;
    const Sequence *source = &s->sequences[from];
    Sequence *copy = &s->sequences[to];
    int n = source->plain_room;
    if (reserve(copy, c, n))
        return -1;
    for (size_t i = 0; i < cache_size(c, n); i++)
        copy->plain_cache[i] = source->plain_cache[i];
    return 0;
}

/* Runs a step. -1: out of memory, or Ctrl-C. */
static int run_step(const Session *s, const Step *step, float *logits) {
    const Config *c = &s->model->config;
    Sequence *q = &s->sequences[step->sequence];
    Token t = {s->model, c, s->ropes, .pos = step->pos};
    double **const vectors[] = {&t.x,    &t.n,         &t.y,       &t.q,
                                &t.a,    &t.p,         &t.gate,    &t.up,
                                &t.down, &t.p_experts, &t.experts, &t.logits};
    enum { N_VECTORS = COUNT(vectors) };
    /* room for the longest one in each; pages not touched cost nothing */
    size_t size = (size_t)c->dim + c->n_heads * c->head_size + c->hidden_dim +
                  c->expert_dim + c->n_experts + c->vocab_size + t.pos + 1;
    double *memory = allocate(N_VECTORS + 1, size * sizeof *memory);
    if (!memory || reserve(q, c, t.pos + 1)) {
        free(memory);
        return -1;
    }
    for (int i = 0; i < N_VECTORS; i++)
        *vectors[i] = memory + i * size;
    t.row = (void *)(memory + N_VECTORS * size);
    t.cache = q->plain_cache;
    decode(&t, step->token, step->logits ? logits : NULL);
    free(memory);
    return interrupted ? -1 : 0;
}

const float *plain_forward(Session *s, const Step *steps, int n) {
    int vocab_size = s->model->config.vocab_size;
    int rows = 0;
    for (int i = 0; i < n; i++)
        rows += steps[i].logits != NO_LOGITS;
    free(s->plain_logits);
    float *logits = s->plain_logits =
        allocate(rows, vocab_size * sizeof *logits);
    for (int i = 0; logits && i < n; i++) {
        if (run_step(s, &steps[i], logits))
            return NULL;
        logits += steps[i].logits ? vocab_size : 0;
    }
    return s->plain_logits;
}
