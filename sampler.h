/* sampler.h: chooses the next token from logits. */
#pragma once

#include <stdint.h>

typedef struct {
    float temperature;    /* 0: greedy */
    float top_p;          /* 0 or 1: off */
    int top_k;            /* 0: off */
    float min_p;          /* 0: off */
    float repeat_penalty; /* 1: off */
    int repeat_last;      /* repeat-penalty window, in tokens; 0: all */
    uint64_t seed;        /* not 0 */
} Sampling;

typedef struct {
    Sampling options;
    uint64_t state; /* xorshift64* */
    int vocab_size;
    float *p;   /* [vocab_size]: logits, then probabilities */
    void *room; /* two floats per token; its content lasts a call */
    int *seen;  /* [vocab_size]: n_seen when last seen; 0: never */
    int n_seen; /* tokens seen so far */
} Sampler;

/* The seed of sample i of a prompt: `seed` if i is 0, else a hash of both from
 * 1 to 2^53 - 1, which JSON numbers represent exactly. */
uint64_t sample_seed(uint64_t seed, int i);

/* Allocates memory. Returns -1 and a message on failure. The caller closes the
 * sampler in either case. */
int sampler_open(Sampler *s, const Sampling *options, int vocab_size);
void sampler_close(Sampler *s); /* keeps the options */

/* Remembers a token (of the prompt or sampled) for the repeat penalty. */
void sampler_accept(Sampler *s, int token);

/* Picks the next token from logits[vocab_size]: repeat penalty, temperature,
 * top-k, top-p, min-p, draw. Draws one random number per token unless
 * greedy. */
int sampler_next(Sampler *s, const float *logits);
