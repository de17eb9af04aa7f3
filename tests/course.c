/* course.c: plain.c by itself: reads a llama2.c checkpoint (version 0) and
 * prints the most likely token of each position. docs/architecture.md has the
 * line that compiles it, which .ci/run runs; it is no suite. */
#include "plain.h"
#include "session.h"
#include <stdio.h>
#include <stdlib.h>

static float *weights; /* the next one of the file */

static Tensor matrix(int rows, int cols) {
    Tensor w = {.type = TYPE_F32, .rows = rows, .cols = cols, .data = weights};
    weights += (size_t)rows * cols;
    return w;
}

static Norm norm(int dim) {
    Norm n = {NORM_RMS, .eps = 1e-5f, .gamma = weights};
    weights += dim;
    return n;
}

int main(int argc, char **argv) {
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    static int head[7];
    if (!file || fread(head, sizeof head, 1, file) != 1 || fseek(file, 0, 2))
        return 1;
    size_t size = ftell(file);
    char *bytes = malloc(size);
    rewind(file);
    if (!bytes || fread(bytes, 1, size, file) != size)
        return 1;
    weights = (float *)(void *)(bytes + sizeof head);

    Model m = {.config = {head[0], head[1], head[2], head[3], head[4],
                          .vocab_size = abs(head[5]), .context = head[6]}};
    Config *c = &m.config;
    int dim = c->dim, L = c->n_layers;
    c->embedding_scale = c->residual_scale = c->logit_scale = 1;
    c->head_size = dim / c->n_heads;
    c->rope = (Rope){10000, 1, 1, .dims = c->head_size};
    int kv_dim = c->n_kv_heads * c->head_size;
    Layer *layers = m.layers = calloc(L, sizeof *layers);
#define EACH_LAYER for (int l = 0; l < L; l++)
    m.embedding = matrix(c->vocab_size, dim);
    EACH_LAYER layers[l].index = l;
    EACH_LAYER layers[l].attn_norm = norm(dim);
    EACH_LAYER layers[l].wq = matrix(dim, dim);
    EACH_LAYER layers[l].wk = matrix(kv_dim, dim);
    EACH_LAYER layers[l].wv = matrix(kv_dim, dim);
    EACH_LAYER layers[l].wo = matrix(dim, dim);
    EACH_LAYER layers[l].mlp_norm = norm(dim);
    EACH_LAYER layers[l].mlp.gate = matrix(c->hidden_dim, dim);
    EACH_LAYER layers[l].mlp.down = matrix(dim, c->hidden_dim);
    EACH_LAYER layers[l].mlp.up = matrix(c->hidden_dim, dim);
    EACH_LAYER layers[l].q_norm.kind = layers[l].k_norm.kind =
        layers[l].attn_post_norm.kind = layers[l].mlp_post_norm.kind =
            NORM_NONE;
    m.final_norm = norm(dim);
    weights += (size_t)c->context * c->head_size; /* angles of old versions */
    m.output = head[5] > 0 ? m.embedding : matrix(c->vocab_size, dim);

    Session s = {.model = &m, .sequences = calloc(1, sizeof(Sequence))};
    s.ropes[ROPE_GLOBAL] = c->rope;
    rope_open(&s.ropes[ROPE_GLOBAL], NULL);
    for (int pos = 0, token = 1; pos < 60; pos++) {
        const float *logits =
            PLAIN.forward(&s, &(Step){token, 0, pos, LOGITS}, 1);
        for (int i = token = 0; i < c->vocab_size; i++)
            token = logits[i] > logits[token] ? i : token;
        printf("%d%c", token, pos < 59 ? ',' : '\n');
    }
}
