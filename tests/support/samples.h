/* samples.h: a small model of each format, with its tokenizer, as files in a folder. */
#pragma once

/* Writes into a folder, which is there:
 *
 *   v0.bin, v1.bin, v2.bin   llama2.c's formats
 *   tokenizer.bin            theirs
 *   spm.gguf                 llama, with a SentencePiece vocabulary and ChatML's template
 *   moe.gguf                 qwen3moe in float16, with the same
 *   bpe.gguf                 what convert makes of bpe
 *   bpe                      a folder: two safetensors files with an index, tokenizer.json as Llama 3 has it, and all
 *                            the small files beside it
 *   words                    a folder: one safetensors file, tokenizer.json as Llama 2 has it
 *
 * -1 if that failed. */
int samples_write(const char *folder);

/* Writes a folder for each of these models of tests/golden/families, and gemma2.gguf and so on for each of
 * GGUF_FAMILIES. They have no tokenizers. -1 if that failed. */
enum { N_SAMPLE_FAMILIES = 12 };
extern const char *const SAMPLE_FAMILIES[];
int samples_write_families(const char *folder);
