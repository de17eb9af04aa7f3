/* texts.h: compares tokens with those of other libraries. */
#pragma once

#include "tokenizer.h"

/* The texts that a library accepts: any bytes; only valid UTF-8; only valid
 * UTF-8, which decoding may change. */
typedef enum { ALL_BYTES, VALID_TEXT, VALID_TEXT_CHANGES } TextCheck;

/* Checks that 12,000 random texts have the tokens of
 * tests/golden/tokens_NAME.bin, and that the tokens decode to the text.
 * `check`: which texts the library accepts; with VALID_TEXT, the decoding of
 * invalid texts is checked, too. */
void check_golden_tokens(const Tokenizer *t, const char *name, TextCheck check);

/* Checks that two tokenizers give the same tokens for 1,000 valid texts. */
void check_same_tokens(const Tokenizer *a, const Tokenizer *b);

/* Checks that the tokens of 1,000 texts of any bytes decode to the text. */
void check_all_bytes_return(const Tokenizer *t);
