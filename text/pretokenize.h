/* pretokenize.h: normalizes a text and splits it into words. Merges do not cross words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    bool composes;         /* converts to Unicode's normalization form C first */
    bool replaces_invalid; /* invalid UTF-8 bytes become U+FFFD, as in the sentencepiece library */
    bool replaces_mark;    /* U+2581 becomes a space */
} Normalizer;

/* Returns the normalized text, after a space if `space`, and its size in *n; NULL and a message if out of memory. The
 * caller frees it. O(size). */
char *normalize(const Normalizer *z, const char *text, size_t size, bool space, size_t *n);

typedef enum {
    PATTERN_GPT2,
    PATTERN_LLAMA3,
    PATTERN_QWEN2,
    PATTERN_GPT4O,
    PATTERN_TEKKEN,  /* Mistral's */
    PATTERN_DIGIT,   /* single digits */
    PATTERN_DIGITS3, /* groups of up to three digits */
    PATTERN_DIGITS,  /* runs of digits */
    PATTERN_SPACED,  /* text from a space to the next */
} Pattern;

enum { MAX_STEPS = 4 };

typedef struct {
    Pattern steps[MAX_STEPS]; /* each splits the words of the previous step */
    int n_steps;
    bool whole_words; /* a word that is a piece becomes one token without merging */
} Pretokenizer;

typedef int (*WordFunction)(void *arg, const char *s, size_t n);

/* Calls word(arg, s, n) for each word s[n] of the text in order. Stops and returns -1 if a call returns non-zero.
 * O(size). */
int pretokenize(const Pattern *steps, int n_steps, const char *text, size_t size, WordFunction word, void *arg);

/* The name of the first step, for messages. */
const char *pretokenizer_shown(const Pretokenizer *p);

/* Whether a code point from utf8_read() is white space. */
bool is_white_space(uint32_t code);
