/* pretokenize.h: normalizes a text and splits it into words. Merges do not
 * cross words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    bool composes; /* converts to Unicode's normalization form C first */
    /* invalid UTF-8 bytes become U+FFFD, as in the sentencepiece library */
    bool replaces_invalid;
    bool replaces_mark; /* U+2581 becomes a space */
} Normalizer;

/* Returns a space and the normalized text, and the size of the text in *n; NULL
 * and a message if out of memory. The caller frees it. O(size log size). */
char *normalize(const Normalizer *z, const char *text, size_t size, size_t *n);

/* Regular expressions, as in Hugging Face's files. Words are their matches, and
 * the text between them. */
#define PATTERN_GPT2                                                           \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* \p{N} of Unicode 17 */
#define PATTERN_DIGIT  "[\\p{N}\U00011DE0-\U00011DE9\U00016FF4-\U00016FF6]"
#define PATTERN_DIGITS PATTERN_DIGIT "+"
#define PATTERN_SPACED " [^ ]*" /* text from a space to the next */

enum { MAX_STEPS = 7 };

typedef struct {
    /* values of tokenizer.ggml.pre in GGUF files, then NULL; norma writes the
     * first. NULL: of a vocabulary that is not byte-level */
    const char *const *names;
    /* patterns, then NULL; each splits the words of the previous step */
    const char *steps[MAX_STEPS + 1];
    /* a word that is a piece becomes one token without merging */
    bool whole_words;
    bool adds_bos; /* in GGUF files, unless the file says otherwise */
} Pretokenizer;

extern const Pretokenizer PRETOKENIZERS[]; /* the last has no names */

/* The first name of the pre-tokenizer in the table with the same steps; NULL if
 * there is none. */
const char *pretokenizer_name(const Pretokenizer *p);

typedef int (*WordFunction)(void *arg, const char *s, size_t n);

/* Calls word(arg, s, n) for each word s[n] of the text in order. Stops and
 * returns -1 if a call returns non-zero, or after Ctrl-C. The steps must be of
 * PRETOKENIZERS or the patterns above: the matcher knows only their syntax, and
 * takes O(size). */
int pretokenize(const char *const *steps, const char *text, size_t size,
                WordFunction word, void *arg);

/* The value of a code point in a table of n runs, each `code << 8 | value` of
 * its first code point; 0 for an invalid byte. */
unsigned value_in(const uint32_t *runs, size_t n, uint32_t code);

/* Whether a code point from utf8_read() is white space. */
bool is_white_space(uint32_t code);

/* Whether a letter, a mark, a digit or an underscore is next to the n bytes at
 * text[at]. */
bool is_in_word(const char *text, size_t size, size_t at, size_t n);
