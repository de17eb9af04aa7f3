/* hashmodel.c: small random models.
 *
 * Every weight is computed from an integer hash, as in
 * scripts/golden/random_model.py, so that the repository stores only the
 * logits. Also writes these models as llama2.c files.
 */
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const HashModel GQA_TIED = {64, 172, 2, 8, 4, 97, 64, false, 1};
const HashModel MHA_UNTIED = {48, 100, 3, 6, 6, 131, 64, true, 2};
const HashModel ODD_MQA = {30, 37, 2, 3, 1, 33, 64, true, 3};
const HashModel WIDE = {288, 768, 1, 6, 2, 64, 64, false, 4};

uint64_t hash64(uint64_t seed, uint64_t tensor, uint64_t i) {
    uint64_t z = seed * 0x9e3779b97f4a7c15u + (tensor << 40) + i;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float hash_uniform(uint64_t seed, uint64_t tensor, uint64_t i) {
    return (float)(hash64(seed, tensor, i) >> 40) / 16777216.0f - 0.5f;
}

float hash_factor(int cols) {
    return (float)exp2(floor(log2(2 * sqrt(3) / sqrt(cols)) + 0.5));
}

int hash_token(const HashModel *m, int i) {
    return (int)(hash64(m->seed, 0xffffff, (uint64_t)i) %
                 (uint64_t)m->vocab_size);
}

/* ---- writing ------------------------------------------------------------ */

typedef struct {
    FILE *out;
    uint64_t seed;
    int group; /* 0: float32 */
} Writer;

static void write_norm(Writer *w, uint64_t id, int dim) {
    for (int i = 0; i < dim; i++) {
        float gamma =
            (float)(1.0 + (double)hash_uniform(w->seed, id, (uint64_t)i) / 2);
        fwrite(&gamma, sizeof gamma, 1, w->out);
    }
}

static void write_matrix(Writer *w, uint64_t id, int rows, int cols) {
    size_t n = (size_t)rows * (size_t)cols;
    float factor = id ? hash_factor(cols) : 2;
    float *values = malloc(n * sizeof *values),
          *scales = malloc(n * sizeof *scales);
    int8_t *q = malloc(n);
    for (size_t i = 0; i < n; i++)
        values[i] = hash_uniform(w->seed, id, i) * factor;
    if (!w->group) {
        fwrite(values, sizeof *values, n, w->out);
    } else {
        size_t group = (size_t)w->group;
        for (size_t g = 0; g < n / group; g++) {
            float max = 0;
            for (size_t i = 0; i < group; i++)
                max = fmaxf(max, fabsf(values[g * group + i]));
            scales[g] = max / 127.0f;
            for (size_t i = 0; i < group; i++)
                q[g * group + i] =
                    max > 0 ? (int8_t)rintf(values[g * group + i] / scales[g])
                            : 0;
        }
        fwrite(q, 1, n, w->out);
        fwrite(scales, sizeof *scales, n / group, w->out);
    }
    free(values);
    free(scales);
    free(q);
}

enum { ATTN_NORM, WQ, WK, WV, WO, MLP_NORM, GATE, DOWN, UP, PARTS };

/* Writes one kind of tensor for all layers. */
static void write_layers(Writer *w, const HashModel *m, int part) {
    int kv_dim = m->dim / m->n_heads * m->n_kv_heads;
    for (int l = 0; l < m->n_layers; l++) {
        uint64_t id = (uint64_t)(1 + PARTS * l + part);
        switch (part) {
        case ATTN_NORM:
        case MLP_NORM: write_norm(w, id, m->dim); break;
        case WQ:
        case WO: write_matrix(w, id, m->dim, m->dim); break;
        case WK:
        case WV: write_matrix(w, id, kv_dim, m->dim); break;
        case GATE:
        case UP: write_matrix(w, id, m->hidden_dim, m->dim); break;
        case DOWN: write_matrix(w, id, m->dim, m->hidden_dim); break;
        default: break;
        }
    }
}

static void write_header(Writer *w, const HashModel *m, int version) {
    uint8_t header[256] = {0};
    int32_t ints[7] = {m->dim,        m->hidden_dim, m->n_layers, m->n_heads,
                       m->n_kv_heads, m->vocab_size, m->context};
    if (version == 0) {
        if (m->untied)
            ints[5] = -ints[5];
        fwrite(ints, sizeof ints, 1, w->out);
        return;
    }
    memcpy(header, (int32_t[]){0x616b3432, version}, 8);
    memcpy(header + 8, ints, sizeof ints);
    header[36] = !m->untied;
    memcpy(header + 37, &w->group, 4);
    fwrite(header, sizeof header, 1, w->out);
}

int hashmodel_write(const HashModel *m, const char *path, int version,
                    int group) {
    static const int v0[] = {ATTN_NORM, WQ,   WK,   WV, WO,
                             MLP_NORM,  GATE, DOWN, UP};
    static const int weights[] = {WQ, WK, WV, WO, GATE, DOWN, UP};
    uint64_t final_norm = (uint64_t)(1 + PARTS * m->n_layers),
             output = final_norm + 1;
    Writer w = {.out = fopen(path, "wb"),
                .seed = m->seed,
                .group = version == 2 ? group : 0};
    if (!w.out)
        return -1;
    write_header(&w, m, version);
    if (version == 0) {
        write_matrix(&w, 0, m->vocab_size, m->dim);
        for (int i = 0; i < 9; i++)
            write_layers(&w, m, v0[i]);
        write_norm(&w, final_norm, m->dim);
        for (int i = 0; i < m->context * (m->dim / m->n_heads); i++)
            fwrite("\0\0\300\177", 4, 1, w.out); /* NaN: never read */
    } else {
        write_layers(&w, m, ATTN_NORM);
        write_layers(&w, m, MLP_NORM);
        write_norm(&w, final_norm, m->dim);
        write_matrix(&w, 0, m->vocab_size, m->dim);
        for (int i = 0; i < 7; i++)
            write_layers(&w, m, weights[i]);
    }
    if (m->untied)
        write_matrix(&w, output, m->vocab_size, m->dim);
    return fclose(w.out);
}

/* ---- a tokenizer -------------------------------------------------------- */

static void write_piece(FILE *out, float score, const char *text, int n) {
    fwrite(&score, sizeof score, 1, out);
    fwrite(&n, sizeof n, 1, out);
    fwrite(text, 1, (size_t)n, out);
}

int hashtokenizer_write(const char *path, int vocab_size) {
    FILE *out = fopen(path, "wb");
    int max_length = 8;
    if (!out)
        return -1;
    fwrite(&max_length, sizeof max_length, 1, out);
    write_piece(out, 0, "<unk>", 5);
    write_piece(out, 0, "\n<s>\n", 5);
    write_piece(out, 0, "\n</s>\n", 6);
    int n = 3;
    for (int byte = 0; byte < 256 && n < vocab_size; byte++, n++) {
        char text[8] = "";
        write_piece(out, 0, text,
                    snprintf(text, sizeof text, "<0x%02X>", byte));
    }
    for (char c = 32; c < 127 && n < vocab_size; c++, n++)
        write_piece(out, -(float)n, &c, 1);
    for (int i = 0; n < vocab_size;
         i++, n++) { /* aa, ba, ..., then " aa" and so on */
        char text[8];
        int length =
            snprintf(text, sizeof text, "%s%c%c", i / 676 % 2 ? " " : "",
                     'a' + i % 26, 'a' + i / 26 % 26);
        write_piece(out, -(float)n, text, length);
    }
    return fclose(out);
}
