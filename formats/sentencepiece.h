/* sentencepiece.h: reads a tokenizer.model. */
#pragma once

#include "tokenizer.h"

/* Fills the pieces of a tokenizer that has been opened with room for them, and
 * the rules of the file: its spaces, bytes and special tokens. Returns -1 and a
 * message on failure. */
int sentencepiece_read(Tokenizer *t, const char *path);
