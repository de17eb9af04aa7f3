/* pretokenize.h: where a text is cut before anything merges.
 */
#ifndef NORMA_PRETOKENIZE_H
#define NORMA_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>

/* Ways to cut a text into words, within which alone neighbours merge. */
typedef enum {
    PATTERN_GPT2,
    PATTERN_LLAMA3,
    PATTERN_QWEN2,
    PATTERN_DIGIT,   /* every digit by itself */
    PATTERN_DIGITS3, /* three at a time */
    PATTERN_DIGITS,  /* all together */
    PATTERN_SPACED,  /* before every space */
} Pattern;

enum { MAX_STEPS = 4 };

typedef struct {
    Pattern steps[MAX_STEPS]; /* each cuts what the one before left */
    int n_steps;
    bool whole_words; /* a word that is a piece is one token, whatever merges there are */
} Pretokenizer;

/* Calls word(arg, s, n) for every word of the text, in order, until one is not 0;
 * -1 then. O(size). */
typedef int (*WordFunction)(void *arg, const char *s, size_t n);
int pretokenize(const Pretokenizer *p, const char *text, size_t size, WordFunction word, void *arg);

/* The pattern with this regular expression, letter for letter; -1: norma has none. */
int pattern_of_expression(const char *expression, Pattern *pattern);

/* By its name in GGUF files; -1: norma has none. And back; NULL: GGUF has none. */
int pretokenizer_of_name(const char *name, size_t n, Pretokenizer *p);
const char *pretokenizer_name(const Pretokenizer *p);

/* Its first step, for messages. */
const char *pretokenizer_shown(const Pretokenizer *p);

/* Whether the UTF-8 character s[length] is white space. */
bool is_white_space(const char *s, size_t length);

#endif
