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
    s->p = allocate_zeroed(vocab_size,
                           sizeof *s->p + sizeof *s->seen + 2 * sizeof(float));
    if (!s->p)
        return -1;
    s->room = s->p + vocab_size;
    s->seen = (int *)s->room + 2 * (size_t)vocab_size;
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

/* ---- which tokens are kept ----------------------------------------------- */

/* Probabilities are not negative: their bits ascend with them. */
static uint32_t bits_of(float p) {
    uint32_t bits;
    memcpy(&bits, &p, sizeof bits);
    return bits;
}

/* A bound that the k most likely of n tokens reach, and few others unless many
 * are about equally likely. O(n) whatever their order. */
static float bound_of_top(const float *p, int n, int k) {
    enum { SHIFT = 19, N_RANGES = 1 << (32 - SHIFT) }; /* each 2^(1/16) wide */
    int counts[N_RANGES] = {0}, range = N_RANGES - 1;
    for (int i = 0; i < n; i++)
        counts[bits_of(p[i]) >> SHIFT]++;
    for (int above = counts[range]; above < k && range > 0;)
        above += counts[--range];
    const uint32_t bits = (uint32_t)range << SHIFT;
    float bound;
    memcpy(&bound, &bits, sizeof bound);
    return bound;
}

/* Collects the probabilities that reach a bound. Returns their number. */
static int collect_above(float *to, const float *p, int n, float bound) {
    int n_collected = 0;
    for (int i = 0; i < n; i++) {
        to[n_collected] = p[i];
        n_collected += p[i] >= bound;
    }
    return n_collected;
}

/* Sorts p[n] in descending order. A radix sort: O(n) whatever the order and
 * the values. room[n] is its other array. Returns the one of both that has the
 * result. */
static const float *sort_descending(float *p, float *room, int n,
                                    float largest) {
    enum { DIGIT = 11, N_DIGITS = 1 << DIGIT };
    const uint32_t top = bits_of(largest);
    uint32_t distance = 0; /* the largest one from `top` */
    for (int i = 0; i < n; i++) {
        const uint32_t d = top - bits_of(p[i]);
        distance = d > distance ? d : distance;
    }
    for (int shift = 0; shift < 32 && distance >> shift; shift += DIGIT) {
        int places[N_DIGITS] = {0}, next = 0;
        for (int i = 0; i < n; i++)
            places[(top - bits_of(p[i])) >> shift & (N_DIGITS - 1)]++;
        EACH(int, place, places, N_DIGITS) {
            const int count = *place;
            *place = next;
            next += count;
        }
        for (int i = 0; i < n; i++) {
            const uint32_t digit = (top - bits_of(p[i])) >> shift;
            room[places[digit & (N_DIGITS - 1)]++] = p[i];
        }
        float *const sorted = room;
        room = p;
        p = sorted;
    }
    return p;
}

/* The token at place i of the sorted probabilities: of tokens with the same one
 * the smaller id comes first. */
static int token_at(const float *sorted, int i, const float *p) {
    int skipped = 0, id = 0;
    while (skipped < i && sorted[i - skipped - 1] == sorted[i])
        skipped++;
    for (; p[id] != sorted[i] || skipped > 0; id++)
        skipped -= p[id] == sorted[i];
    return id;
}

/* Draws from the tokens that top-k, top-p and min-p keep. */
static int draw_kept(Sampler *s, float coin) {
    const Sampling *o = &s->options;
    const float *p = s->p;
    const int n = s->vocab_size;
    const bool has_k = o->top_k > 0 && o->top_k < n;
    const bool has_nucleus = o->top_p > 0 && o->top_p < 1;
    if (o->top_k == 0 && !has_nucleus && o->min_p == 0) /* all are kept */
        return draw(p, n, coin);
    const int best = argmax(p, n);
    /* less likely tokens are not in the nucleus of all tokens, or min-p removes
     * them: they need not be sorted */
    const float outside = has_nucleus ? (1 - o->top_p) / (float)(n - 1) : 0;
    const float bound = has_k ? bound_of_top(p, n, o->top_k)
                              : fmaxf(outside, o->min_p * p[best]);
    float *const candidates = s->room;
    int n_sorted = collect_above(candidates, p, n, bound);
    /* top_p < 1 / n and all are about equally likely */
    if (n_sorted == 0)
        return best;
    const float *sorted =
        sort_descending(candidates, candidates + n, n_sorted, p[best]);
    if (has_k)
        n_sorted = min_int(n_sorted, o->top_k);

    /* with top-k the nucleus is that of the k tokens */
    float total = has_k ? 0 : 1, sum = 0;
    for (int i = 0; has_k && i < n_sorted; i++)
        total += sorted[i];
    const float enough = has_nucleus ? o->top_p * total : INFINITY;
    int kept = 0;
    while (kept < n_sorted && !(sum > enough) &&
           !(kept && sorted[kept] < o->min_p * *sorted))
        sum += sorted[kept++];
    return token_at(sorted, draw(sorted, kept, coin * sum), p);
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
