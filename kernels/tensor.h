/* tensor.h: weight matrices, and the one table of weight types.
 * Tests: quant, matmul. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The weight types. To add a type, add a line here; the compiler then reports
 * the missing cases in quant.c and panels.h.
 *
 *   GGUF    its number as a tensor's type in GGUF files; -1: not in GGUF
 *   file    its number as the type of a whole GGUF file; -1: norma writes no
 *           such files
 *   weights per block, the smallest unit of a row
 *   bytes   per block
 *   group   weights that share a float scale; 0: float weights
 *   mins    of a group: 0, 1, or 2 (one for each half)
 *   zero    the integer that stands for a weight of 0:
 *           weight = (integer - zero) * scale + min. Q2_K: the integer is the
 *           weight's two bits times the four bits of its half's scale
 *   at      offset of the float16 numbers in a block: the scale, then the min
 *           (in IQ4_XS bits of scales). The words of four bytes follow them,
 *           or begin at byte 0 if `at` is not 0
 *
 * After each row of blocks: the parts of a block in the file, with their bytes:
 * d scale, m min (float16); s scales and mins of the groups; q the low bits of
 * the weights, h the bits above. quant.c says which bits. */
/* clang-format off */
#define FLOAT16_TYPES(X) \
  /* type name GGUF file weights bytes group mins zero at */ \
  X(F16, "f16",  1,  1,   1,   2,  0, 0,  0,   0) \
  X(BF16, "bf16", 30, 32,   1,   2,  0, 0,  0,   0)
#define ONE_GROUP_TYPES(X) /* blocks of one group */ \
  X(Q8_0, "q8_0",  8,  7,  32,  34, 32, 0,  0,   0) /* d2 q32 */ \
  X(Q4_0, "q4_0",  2,  2,  32,  18, 32, 0,  8,   0) /* d2 q16 */ \
  X(Q4_1, "q4_1",  3, -1,  32,  20, 32, 1,  0,   0) /* d2 m2 q16 */ \
  X(Q5_0, "q5_0",  6, -1,  32,  22, 32, 0, 16,   0) /* d2 h4 q16 */ \
  X(Q5_1, "q5_1",  7, -1,  32,  24, 32, 1,  0,   0) /* d2 m2 h4 q16 */ \
  X(IQ4_NL, "iq4_nl", 20, -1,  32,  18, 32, 0,  0,   0) /* d2 q16 */
#define K_TYPES(X) /* blocks of several groups */ \
  X(Q2_K, "q2_K", 10, -1, 256,  84, 32, 2,  0,  80) /* s16 q64 d2 m2 */ \
  X(Q3_K, "q3_K", 11, -1, 256, 110, 16, 0,  4, 108) /* h32 q64 s12 d2 */ \
  X(Q4_K, "q4_K", 12, -1, 256, 144, 32, 1,  0,   0) /* d2 m2 s12 q128 */ \
  X(Q5_K, "q5_K", 13, -1, 256, 176, 32, 1,  0,   0) /* d2 m2 s12 h32 q128 */ \
  X(Q6_K, "q6_K", 14, -1, 256, 210, 16, 0, 32, 208) /* q128 h64 s16 d2 */ \
  X(IQ4_XS, "iq4_xs", 23, -1, 256, 136, 32, 0,  0,   0) /* d2 s2 s4 q128 */
#define BLOCK_TYPES(X) ONE_GROUP_TYPES(X) K_TYPES(X)
#define WEIGHT_TYPES(X) \
  X(F32, "f32",  0,  0,   1,   4,  0, 0,  0,   0) \
  FLOAT16_TYPES(X) \
  /* llama2.c's version 2: group and scales are in Tensor */ \
  X(I8, "int8", -1, -1,   1,   1,  0, 0,  0,   0) \
  BLOCK_TYPES(X)
/* clang-format on */

typedef enum {
#define X(id, ...) TYPE_##id,
    WEIGHT_TYPES(X)
#undef X
} Type;

static const struct {
    const char *name;
    int gguf, file, weights, bytes, group, mins, zero, at;
} TYPES[] = {
#define X(id, ...) [TYPE_##id] = {__VA_ARGS__},
    WEIGHT_TYPES(X)
#undef X
};

enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

/* The integers that the four bits of IQ4_NL and IQ4_XS stand for. */
static const int8_t IQ4_INTEGERS[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static inline const char *type_name(Type type) {
    return TYPES[type].name;
}

/* Whether products with this type take int8 activations. */
static inline bool type_takes_int8(Type type) {
    return type == TYPE_I8 || TYPES[type].group > 0;
}

/* Finds the type with this number in GGUF files. Returns -1 if norma has no
 * such type; *type is then invalid. */
static inline int type_from_gguf(uint32_t number, Type *type) {
    for (*type = 0; *type < (Type)N_TYPES; ++*type)
        if (TYPES[*type].gguf == (int64_t)number)
            return 0;
    return -1;
}

/* Finds the type with this name among the types that norma writes. Returns -1
 * if there is none; *type is then invalid. / */
static inline int type_from_name(const char *name, Type *type) {
    for (*type = 0; *type < (Type)N_TYPES; ++*type)
        if (TYPES[*type].file >= 0 && !strcmp(TYPES[*type].name, name))
            return 0;
    return -1;
}

/* How processes share the rows of a weight, each computing its own part of the
 * outputs. */
typedef struct Share Share;
struct Share {
    int first; /* row at which this process's part begins */
    int all;   /* rows of all parts */
    int unit;  /* rows that stay together; every part begins at a multiple */

    /* Exchanges the parts of y[n][all]: every process receives the others', or
     * only the first process does. */
    void (*gather)(const Share *share, float *y, int n, bool everywhere);
};

/* A weight matrix, read in place from the mapped file. */
typedef struct {
    Type type;
    int rows;         /* outputs of a product */
    int cols;         /* inputs of a product */
    const void *data; /* [rows][cols] in the type's layout */
    /* TYPE_I8: float [rows][cols / group], perhaps unaligned */
    const void *scales;
    /* a copy of data in panels (panels.h), not owned; or NULL */
    uint8_t *panels;
    int group;          /* TYPE_I8: weights per scale; divides cols */
    const float *bias;  /* [rows], added to the product; or NULL */
    uint64_t offset;    /* where data begins in the file, for `info` */
    const Share *share; /* not owned; NULL: all rows are here */
} Tensor;

/* The row of the whole weight at which w begins, and the number of rows of the
 * whole weight. */
static inline int tensor_first_row(const Tensor *w) {
    return w->share ? w->share->first : 0;
}
static inline int tensor_all_rows(const Tensor *w) {
    return w->share ? w->share->all : w->rows;
}

/* Bytes of n weights, whole blocks, in the file; without the scales of
 * TYPE_I8. */
static inline size_t type_bytes(Type type, size_t n) {
    return n / TYPES[type].weights * TYPES[type].bytes;
}

/* Bytes of the tensor's first `rows` rows in the file, scales included. */
static inline size_t tensor_bytes(const Tensor *w, int rows) {
    size_t n = (size_t)rows * w->cols;
    /* NOLINTNEXTLINE: group is not 0 in TYPE_I8 */
    size_t n_scales = w->type == TYPE_I8 ? n / w->group : 0;
    return type_bytes(w->type, n) + n_scales * sizeof(float);
}

/* Scale i of the scales of a TYPE_I8 tensor. */
static inline float tensor_scale(const Tensor *w, size_t i) {
    float scale;
    memcpy(&scale, (const char *)w->scales + i * sizeof scale, sizeof scale);
    return scale;
}
