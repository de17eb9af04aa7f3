/* fuzz/use.h: what the targets share: files to open, and what is done with a model or a tokenizer that has opened. */
#pragma once

#include "model.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process, for libFuzzer to see, where something does not hold. */
void expect(bool holds);

/* A folder in memory, of this process alone, that goes when it ends, and the path of a file in it. The strings stay,
 * the second until the next 4 calls. */
const char *fuzz_folder(void);
const char *fuzz_path(const char *name);

/* Writes a file there, of two parts; returns its path. */
const char *fuzz_file(const char *name, const void *head, size_t n_head, const void *data, size_t n_data);

/* Tokens must be in the vocabulary, and have text. Frees them. */
void check_tokens(const Tokenizer *t, Tokens *tokens);

/* Encodes a text, and says it in a chat. From then on t is for chat. */
void use_tokenizer(Tokenizer *t, const char *text, size_t size);

/* Runs a model, packs it, runs it again, and writes it as GGUF with its tokenizer (NULL: it has none). `choice`, any
 * number, is for what there is more than one of. */
void use_model(Model *m, const Tokenizer *t, unsigned choice);
