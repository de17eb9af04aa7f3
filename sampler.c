/* sampler.c: from logits to the next token.
 *
 * Owns the sampling methods and the random number generator. With temperature
 * and top-p only, it draws the same tokens as llama2.c from the same seed: same
 * generator, same nucleus rule.
 * Tests: sampler, text.
 */
#include "sampler.h"
#include "base/memory.h"
#include "kernels/simd.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int sampler_open(Sampler *s, const Sampling *options, int vocab_size) {
    *s = (Sampler){
        .options = *options, .state = options->seed, .vocab_size = vocab_size};
    s->p = allocate_zeroed(vocab_size, sizeof *s->p + sizeof *s->seen +
                                           sizeof *s->candidates);
    if (!s->p)
        return -1;
    void *const rest = s->p + vocab_size;
    s->candidates = rest;
    s->seen = (int *)(s->candidates + vocab_size);
    return 0;
}

void sampler_close(Sampler *s) {
    free(s->p);
    *s = (Sampler){.options = s->options};
}

void sampler_accept(Sampler *s, int token) {
    s->seen[token] = ++s->n_seen;
}

/* splitmix64 (Steele, Lea & Flood 2014). Without it, consecutive seeds give
 * similar first numbers. */
uint64_t sample_seed(uint64_t seed, int i) {
    if (i == 0)
        return seed;
    uint64_t z = seed + (uint64_t)i * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    z = (z ^ z >> 31) >> 11;
    return z ? z : 1;
}

/* Index of the first maximum. */
static int argmax(const float *v, int n) {
    enum { BLOCK = 16 * LANES };
    int start = 0, i = 0;
    float best = -INFINITY;
    for (; i + BLOCK <= n; i += BLOCK) {
        vf max = vload(v + i);
        for (int j = LANES; j < BLOCK; j += LANES)
            max = vmax(vload(v + i + j), max);
        float largest = vmax_lane(max);
        if (largest > best) {
            best = largest;
            start = i;
        }
    }
    for (; i < n; i++)
        if (v[i] > best) {
            best = v[i];
            start = i;
        }
    while (start < n - 1 && v[start] != best)
        start++;
    return start;
}

/* Divides the logit of each distinct recent token by the repeat penalty;
 * negative logits are multiplied (Keskar et al. 2019, sec. 4.1). */
static void penalize(Sampler *s) {
    float penalty = s->options.repeat_penalty;
    int n = s->n_seen, window = s->options.repeat_last,
        before = n - min_int(window ? window : n, n);
    for (int i = 0; i < s->vocab_size; i++) {
        float logit = s->p[i];
        s->p[i] = s->seen[i] <= before ? logit
                  : logit > 0          ? logit / penalty
                                       : logit * penalty;
    }
}

/* p = softmax(p / temperature); max is the maximum of p. */
static void softmax(float *p, int n, float max, float temperature) {
    int end = n / SUM_LANES * SUM_LANES; /* then one by one */
    vf sums[SUM_VECTORS] = {{0}};
    float sum = 0;
    for (int i = 0; i < n; i += SUM_LANES)
        UNROLL(j, SUM_VECTORS) {
            float *q = p + i + j * LANES;
            int m = lanes_left(n - i - j * LANES);
            vf e = vexp((vload_n(q, m) - max) / temperature);
            if (i < end)
                sums[j] += e;
            vstore_n(q, e, m);
        }
    for (int i = end; i < n; i++)
        sum += p[i];
    sum += vsum(sums, SUM_VECTORS);
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

static int draw(const float *p, int n, float coin) {
    float cumulative = 0;
    for (int i = 0; i < n; i++) {
        cumulative += p[i];
        if (coin < cumulative)
            return i;
    }
    while (n > 1 && !(p[n - 1] > 0))
        n--;
    return n - 1; /* rounding: the probabilities sum to less than coin */
}

/* Collects the k most likely of n tokens, in any order. While they are
 * collected, they are a heap with the least likely at the top, by negative
 * values and ids. Few tokens enter it: in random order about k log(n / k). */
static void collect_top_k(HeapItem *candidates, const float *p, int n, int k) {
    for (int i = 0; i < n; i++) {
        const HeapItem item = {-p[i], -i};
        if (i < k) {
            heap_push(candidates, i, item);
        } else if (item.value < candidates->value) {
            *candidates = item;
            heap_sift_down(candidates, k, 0);
        }
    }
    EACH(HeapItem, item, candidates, k)
        *item = (HeapItem){-item->value, -item->id};
}

/* Collects the tokens with at least this probability. Returns their number. */
static int collect_above(HeapItem *candidates, const float *p, int n,
                         float min) {
    int n_candidates = 0;
    for (int i = 0; i < n; i++)
        if (p[i] >= min)
            candidates[n_candidates++] = (HeapItem){p[i], i};
    return n_candidates;
}

/* Draws from the tokens that top-k, top-p and min-p keep. */
static int draw_kept(Sampler *s, float coin) {
    const Sampling *o = &s->options;
    float *p = s->p;
    const int n = s->vocab_size;
    const bool has_k = o->top_k > 0 && o->top_k < n;
    const bool has_nucleus = o->top_p > 0 && o->top_p < 1;
    if (o->top_k == 0 && !has_nucleus && o->min_p == 0) /* all are kept */
        return draw(p, n, coin);
    const int best = argmax(p, n);
    int n_candidates = o->top_k;
    if (has_k) {
        collect_top_k(s->candidates, p, n, o->top_k);
    } else {
        /* less likely tokens are not in the nucleus of all tokens, or min-p
         * removes them: they need not be sorted */
        const float outside = has_nucleus ? (1 - o->top_p) / (float)(n - 1) : 0;
        n_candidates = collect_above(s->candidates, p, n,
                                     fmaxf(outside, o->min_p * p[best]));
    }
    /* top_p < 1 / n and all are about equally likely */
    if (n_candidates == 0)
        return best;

    /* pop the candidates of top-k, or of the nucleus; heap_pop moves them to
     * the end of the array */
    /* in descending order: top[0], top[-1], ... */
    const HeapItem *top = s->candidates + n_candidates - 1;
    float popped = 0, sum = 0;
    int n_popped = 0, kept = 0;
    heap_make(s->candidates, n_candidates);
    while (n_popped < n_candidates &&
           !(has_nucleus && !has_k && popped > o->top_p))
        popped += heap_pop(s->candidates, n_candidates - n_popped++).value;
    /* of these, keep the ones that pass min-p and, with top-k, the nucleus */
    float enough = has_k && has_nucleus ? o->top_p * popped : INFINITY;
    while (kept < n_popped && !(sum > enough) &&
           !(kept && top[-kept].value < o->min_p * top->value)) {
        p[kept] = top[-kept].value;
        sum += p[kept++];
    }
    return top[-draw(p, kept, coin * sum)].id;
}

int sampler_next(Sampler *s, const float *logits) {
    const Sampling *o = &s->options;
    float *p = s->p;
    int n = s->vocab_size;
    if (o->temperature == 0 && o->repeat_penalty == 1)
        return argmax(logits, n);
    memcpy(p, logits, n * sizeof *p);
    if (o->repeat_penalty != 1)
        penalize(s);
    int best = argmax(p, n);
    if (o->temperature == 0)
        return best;
    /* xorshift64* (Vigna 2016), its upper 24 bits as a number in [0, 1) */
    s->state ^= s->state >> 12;
    s->state ^= s->state << 25;
    s->state ^= s->state >> 27;
    float coin =
        (float)((s->state * 0x2545f4914f6cdd1dull) >> 40) / 16777216.0f;
    if (!isfinite(p[best]))
        return best; /* an infinite logit, or all -infinity */
    softmax(p, n, p[best], o->temperature);
    return draw_kept(s, coin);
}
