/* samples.h: a small model of each format, with its tokenizer, as files in a
 * folder. */
#pragma once

/* Writes to an existing folder:
 *
 *   v0.bin, v1.bin, v2.bin   llama2.c's formats
 *   tokenizer.bin            their tokenizer
 *   spm.gguf                 llama, SentencePiece vocabulary, ChatML template
 *   moe.gguf                 qwen3moe in float16, with the same tokenizer
 *   bpe.gguf                 the folder bpe, converted
 *   bpe                      a folder: two safetensors files with an index,
 *                            tokenizer.json like Llama 3's, other
 *                            configuration files
 *   words                    a folder: one safetensors file, tokenizer.json
 *                            like Llama 2's
 *
 * Returns -1 on failure. */
int samples_write(const char *folder);

/* Writes a folder for each of these models of tests/golden/families, and a GGUF
 * file (gemma2.gguf, ...) for each of GGUF_FAMILIES, without tokenizers.
 * Returns -1 on failure. */
enum { N_SAMPLE_FAMILIES = 19 };
extern const char *const SAMPLE_FAMILIES[];
int samples_write_families(const char *folder);
