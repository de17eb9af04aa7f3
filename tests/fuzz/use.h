/* fuzz/use.h: shared by the targets: files, and the use of an opened model or
 * tokenizer. */
#pragma once

#include "model.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts if the condition is false, so that libFuzzer reports it. */
void expect(bool holds);

/* A folder in memory for this process, removed at its end, and the path of a
 * file in it. The path is valid until the next 4 calls. */
const char *fuzz_folder(void);
const char *fuzz_path(const char *name);

/* Writes a file of two parts to this folder; returns its path. */
const char *fuzz_file(const char *name, const void *head, size_t n_head,
                      const void *data, size_t n_data);

/* Checks that tokens are in the vocabulary and have text; frees them. */
void check_tokens(const Tokenizer *t, Tokens *tokens);

/* Encodes a text, also as a message of a chat, which changes t. */
void use_tokenizer(Tokenizer *t, const char *text, size_t size);

/* Runs a model, packs it, runs it again, and writes it as GGUF with its
 * tokenizer (NULL: none). `choice`, any number, selects one of several
 * options. */
void use_model(Model *m, const Tokenizer *t, unsigned choice);
