/* pretokenize.h: how a text is normalized, and where it is cut into words, within which alone neighbours merge. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    bool composes;         /* into Unicode's normalization form C, first */
    bool replaces_invalid; /* a byte that is no UTF-8 becomes U+FFFD, as in the sentencepiece library */
    bool replaces_mark;    /* U+2581 becomes a space, as where the names of pieces have it for a space */
} Normalizer;

/* The text as the normalizer leaves it, behind a space if asked for; its size in *n. NULL and a
 * message: no memory. O(size). The caller frees it. */
char *normalize(const Normalizer *z, const char *text, size_t size, bool space, size_t *n);

typedef enum {
    PATTERN_GPT2,
    PATTERN_LLAMA3,
    PATTERN_QWEN2,
    PATTERN_DIGIT,   /* every digit by itself */
    PATTERN_DIGITS3, /* three digits at a time */
    PATTERN_DIGITS,  /* all neighbouring digits together */
    PATTERN_SPACED,  /* before every space */
} Pattern;

enum { MAX_STEPS = 4 };

typedef struct {
    Pattern steps[MAX_STEPS]; /* each cuts the words of the one before */
    int n_steps;
    bool whole_words; /* a word that is a piece is one token, whatever merges there are */
} Pretokenizer;

typedef int (*WordFunction)(void *arg, const char *s, size_t n);

/* Calls word(arg, s, n) for every word s[n] of the text, in order, until it returns something
 * else than 0; -1 then. O(size). */
int pretokenize(const Pattern *steps, int n_steps, const char *text, size_t size, WordFunction word, void *arg);

/* Its first step, for messages. */
const char *pretokenizer_shown(const Pretokenizer *p);

/* Whether the character of a code point, as utf8_read() returns it, is white space. */
bool is_white_space(uint32_t code);
