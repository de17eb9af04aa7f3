/* hashmodel.h: random models, the same as in scripts/golden/random_model.py. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context;
    bool untied;
    uint64_t seed;
} HashModel;

/* Models whose float64 logits are in tests/golden. */
extern const HashModel GQA_TIED, MHA_UNTIED, ODD_MQA, WIDE;

uint64_t hash64(uint64_t seed, uint64_t tensor, uint64_t i);

/* Element i of a tensor, in [-0.5, 0.5), before it is multiplied by the factor
 * of a matrix with `cols` columns. The embedding has another factor. */
float hash_uniform(uint64_t seed, uint64_t tensor, uint64_t i);
float hash_factor(int cols);

/* Token i of a model's test sequence. */
int hash_token(const HashModel *m, int i);

/* Writes a llama2.c checkpoint of version 0, 1 or 2 (int8 in groups of
 * `group`). Returns -1 on failure. */
int hashmodel_write(const HashModel *m, const char *path, int version,
                    int group);

/* Writes a tokenizer.bin of vocab_size pieces (>= 300): <unk>, BOS, EOS, the
 * bytes, the printable ASCII characters, then short words. */
int hashtokenizer_write(const char *path, int vocab_size);
