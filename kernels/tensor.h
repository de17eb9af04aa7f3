/* tensor.h: what a weight matrix is, and the types of weights.
 */
#ifndef NORMA_TENSOR_H
#define NORMA_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    TYPE_F32,
    TYPE_F16,
    TYPE_BF16,
    TYPE_I8, /* llama2.c v2: int8 in groups, one float32 scale to a group */
    /* GGUF's blocks: 32 weights with one scale, K: 256 with scales for 16 or 32 */
    TYPE_Q8_0,
    TYPE_Q4_0,
    TYPE_Q4_1,
    TYPE_Q5_0,
    TYPE_Q5_1,
    TYPE_Q4_K,
    TYPE_Q5_K,
    TYPE_Q6_K
} Type;

const char *type_name(Type type);

/* The type with this number in GGUF files; -1 if norma has none. And back. */
int type_from_gguf(uint32_t number, Type *type);
uint32_t type_to_gguf(Type type);

/* The types that are written: by name (-1: it is none of them), and their number
 * as the type of a whole file. */
int type_from_name(const char *name, Type *type);
int type_file_type(Type type);

int type_block(Type type);        /* weights in a block; divides cols */
bool type_wants_bytes(Type type); /* whether its products take int8 activations */

/* A weight matrix, read in place from the mapped file. */
typedef struct {
    Type type;
    int rows, cols;     /* out, in */
    const void *data;   /* [rows][cols] in the type's layout */
    const void *scales; /* TYPE_I8: float [rows][cols / group], perhaps unaligned */
    uint8_t *panels;    /* the same again as panels (panels.h), owned; NULL: none */
    int group;          /* TYPE_I8: weights to a scale; divides cols */
    const float *bias;  /* [rows], added to the product; NULL: none */
    uint64_t offset;    /* of data in the file, for `info` */
} Tensor;

/* Bytes that the tensor's rows take in the file, scales included. */
size_t tensor_bytes(const Tensor *w, int rows);

#endif
