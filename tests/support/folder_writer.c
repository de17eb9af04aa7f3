/* folder_writer.c: writes a Model as a Hugging Face folder: config.json,
 * safetensors files with or without an index.
 *
 * Tests that need an invalid folder change its files.
 */
#include "kernels/quant.h"
#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"

#include "tests/support/folder_writer.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- tensors ------------------------------------------------------------ */

typedef struct {
    const Model *model;
    const FolderForm *form;
    FolderPart *parts;
    int n_parts, room;
} Folder;

static FolderPart *add(Folder *f, int n_dims, int a, int b, int c,
                       const char *format, ...)
    __attribute__((format(printf, 6, 7)));

static FolderPart *add(Folder *f, int n_dims, int a, int b, int c,
                       const char *format, ...) {
    if (f->n_parts == f->room) {
        f->room = 2 * f->room + 16;
        f->parts = realloc(f->parts, (size_t)f->room * sizeof *f->parts);
        if (!f->parts)
            abort();
    }
    FolderPart *p = &f->parts[f->n_parts++];
    *p = (FolderPart){.n_dims = n_dims,
                      .dims = {a, b, c},
                      .count = (size_t)a * (size_t)b * (size_t)c};
    p->values = calloc(p->count + 1, sizeof *p->values);
    va_list args;
    va_start(args, format);
    vsnprintf(p->name, sizeof p->name, format, args);
    va_end(args);
    return p;
}

/* The index, in the layout of adjacent pairs, of the row with index `row` in
 * the layout of halves. */
static int row_in_pairs(const Config *c, int row) {
    int half = c->rope.dims / 2, i = row % c->head_size;
    return i < 2 * half ? row - i + (i < half ? 2 * i : 2 * (i - half) + 1)
                        : row;
}

static void copy_rows(float *to, const Tensor *w) {
    for (int r = 0; r < w->rows; r++)
        dequantize_row(to + (size_t)r * (size_t)w->cols, w, r);
}

static void add_weight(Folder *f, const char *name, const Tensor *w,
                       bool rotates) {
    const Config *c = &f->model->config;
    bool moves = rotates && !c->rope.halves;
    FolderPart *p = add(f, 2, w->rows, w->cols, 1, "%s.weight", name);
    for (int r = 0; r < w->rows; r++)
        dequantize_row(p->values + (size_t)r * (size_t)w->cols, w,
                       moves ? row_in_pairs(c, r) : r);
    if (!w->bias)
        return;
    p = add(f, 1, w->rows, 1, 1, "%s.bias", name);
    for (int r = 0; r < w->rows; r++)
        p->values[r] = w->bias[moves ? row_in_pairs(c, r) : r];
}

static void add_norm(Folder *f, const char *name, const Norm *norm, int dim) {
    if (!norm->gamma)
        return;
    FolderPart *p = add(f, 1, dim, 1, 1, "%s.weight", name);
    memcpy(p->values, norm->gamma, (size_t)dim * sizeof(float));
}

static void add_experts(Folder *f, const char *prefix, const Mlp *experts) {
    const Config *c = &f->model->config;
    int n = c->n_experts, rows = c->expert_dim;
    size_t size = (size_t)rows * (size_t)c->dim;
    char name[96];
    if (f->form->fused) {
        FolderPart in =
            *add(f, 3, n, 2 * rows, c->dim, "%sexperts.gate_up_proj", prefix);
        FolderPart down =
            *add(f, 3, n, c->dim, rows, "%sexperts.down_proj", prefix);
        for (size_t e = 0; e < (size_t)n; e++) {
            copy_rows(in.values + 2 * e * size, &experts[e].gate);
            copy_rows(in.values + (2 * e + 1) * size, &experts[e].up);
            copy_rows(down.values + e * size, &experts[e].down);
        }
        return;
    }
    for (int e = 0; e < n; e++) {
        snprintf(name, sizeof name, "%sexperts.%d.gate_proj", prefix, e);
        add_weight(f, name, &experts[e].gate, false);
        snprintf(name, sizeof name, "%sexperts.%d.up_proj", prefix, e);
        add_weight(f, name, &experts[e].up, false);
        snprintf(name, sizeof name, "%sexperts.%d.down_proj", prefix, e);
        add_weight(f, name, &experts[e].down, false);
    }
}

static void add_layer(Folder *f, const Layer *layer, int l) {
    const Config *c = &f->model->config;
    char name[64];
#define NAME(part)                                                             \
    (snprintf(name, sizeof name, "model.layers.%d.%s", l, part), name)
    add_norm(f, NAME("input_layernorm"), &layer->attn_norm, c->dim);
    add_weight(f, NAME("self_attn.q_proj"), &layer->wq, true);
    add_weight(f, NAME("self_attn.k_proj"), &layer->wk, true);
    add_weight(f, NAME("self_attn.v_proj"), &layer->wv, false);
    add_weight(f, NAME("self_attn.o_proj"), &layer->wo, false);
    add_norm(f, NAME("self_attn.q_norm"), &layer->q_norm, c->head_size);
    add_norm(f, NAME("self_attn.k_norm"), &layer->k_norm, c->head_size);
    add_norm(f, NAME("post_attention_layernorm"), &layer->mlp_norm, c->dim);
    if (layer->experts) {
        add_weight(f, NAME("mlp.gate"), &layer->router, false);
        add_experts(f, NAME("mlp."), layer->experts);
    } else {
        add_weight(f, NAME("mlp.gate_proj"), &layer->mlp.gate, false);
        add_weight(f, NAME("mlp.up_proj"), &layer->mlp.up, false);
        add_weight(f, NAME("mlp.down_proj"), &layer->mlp.down, false);
    }
#undef NAME
}

/* ---- files -------------------------------------------------------------- */

static const char *dtype(Type type) {
    return type == TYPE_F32 ? "F32" : type == TYPE_F16 ? "F16" : "BF16";
}

static int write_header(const Folder *f, int first, int step, FILE *out) {
    char *text = NULL;
    size_t size = 0, at = 0;
    FILE *header = open_memstream(&text, &size);
    fputs("{\"__metadata__\": {\"format\": \"pt\"}", header);
    for (int i = first; i < f->n_parts; i += step) {
        const FolderPart *p = &f->parts[i];
        size_t end = at + p->count * (f->form->type == TYPE_F32 ? 4 : 2);
        fprintf(header, ", \"%s\": {\"dtype\": \"%s\", \"shape\": [%d", p->name,
                dtype(f->form->type), p->dims[0]);
        for (int d = 1; d < p->n_dims; d++)
            fprintf(header, ", %d", p->dims[d]);
        fprintf(header, "], \"data_offsets\": [%zu, %zu]}", at, end);
        at = end;
    }
    fputc('}', header);
    fclose(header);
    while (
        /* white space may follow the header */
        (8 + size) % 8 != (size_t)f->form->misaligned) {
        text = realloc(text, size + 1);
        if (!text)
            abort();
        text[size++] = ' ';
    }
    uint64_t length = size;
    fwrite(&length, sizeof length, 1, out);
    fwrite(text, 1, size, out);
    free(text);
    return 0;
}

/* Writes the tensors first, first + step, ... to one file. */
static int write_tensors(const Folder *f, int first, int step,
                         const char *path) {
    FILE *out = fopen(path, "wb");
    if (!out)
        return -1;
    write_header(f, first, step, out);
    for (int i = first; i < f->n_parts; i += step) {
        const FolderPart *p = &f->parts[i];
        uint8_t *bytes = malloc(4 * p->count + 1);
        if (!bytes)
            abort();
        quantize_row(bytes, f->form->type, p->values, (int)p->count);
        fwrite(bytes, f->form->type == TYPE_F32 ? 4 : 2, p->count, out);
        free(bytes);
    }
    return fclose(out);
}

static const char *file_in(const char *folder, const char *name) {
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *shard_name(int i, int n) {
    static char name[64];
    snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i + 1, n);
    return name;
}

static int write_index(const Folder *f, const char *folder, int n_files) {
    FILE *out = fopen(file_in(folder, "model.safetensors.index.json"), "wb");
    if (!out)
        return -1;
    fputs("{\n  \"metadata\": {\"total_size\": 1},\n  \"weight_map\": {", out);
    for (int i = 0; i < f->n_parts; i++)
        fprintf(out, "%s\n    \"%s\": \"%s\"", i ? "," : "", f->parts[i].name,
                shard_name(i % n_files, n_files));
    fputs("\n  }\n}\n", out);
    return fclose(out);
}

static int write_weights(const Folder *f, const char *folder) {
    int n = f->form->n_files;
    if (n < 2)
        return write_tensors(f, 0, 1, file_in(folder, "model.safetensors"));
    int status = write_index(f, folder, n);
    for (int i = 0; i < n; i++)
        status |= write_tensors(f, i, n, file_in(folder, shard_name(i, n)));
    return status;
}

int folder_write_parts(FolderPart *parts, int n, const char *folder,
                       const FolderForm *form) {
    Folder f = {.form = form, .parts = parts, .n_parts = n};
    mkdir(folder, 0700);
    return write_weights(&f, folder) ? -1 : 0;
}

/* ---- config.json --------------------------------------------------------- */

static void write_experts_options(FILE *out, const Model *m, const char *type) {
    const Config *c = &m->config;
    int n_dense = 0;
    if (!strcmp(type, "minimind"))
        fprintf(out, "  \"use_moe\": %s,\n", c->n_experts ? "true" : "false");
    if (!c->n_experts)
        return;
    fprintf(out, "  \"num_experts\": %d,\n  \"num_experts_per_tok\": %d,\n",
            c->n_experts, c->n_experts_used);
    fprintf(out, "  \"moe_intermediate_size\": %d,\n", c->expert_dim);
    fprintf(out, "  \"norm_topk_prob\": %s,\n  \"mlp_only_layers\": [",
            c->norm_topk ? "true" : "false");
    for (int l = 0; l < c->n_layers; l++)
        if (!m->layers[l].experts)
            fprintf(out, n_dense++ ? ", %d" : "%d", l);
    fputs("],\n", out);
}

static int write_config(const Model *m, const FolderForm *form,
                        const char *folder) {
    const Config *c = &m->config;
    const Layer *layer = m->layers;
    FILE *out = fopen(file_in(folder, "config.json"), "wb");
    if (!out)
        return -1;
    fprintf(out, "{\n  \"model_type\": \"%s\",\n  \"hidden_act\": \"silu\",\n",
            form->model_type);
    fprintf(out, "  \"hidden_size\": %d,\n  \"intermediate_size\": %d,\n",
            c->dim, c->hidden_dim);
    fprintf(out,
            "  \"num_hidden_layers\": %d,\n  \"num_attention_heads\": %d,\n",
            c->n_layers, c->n_heads);
    fprintf(out, "  \"num_key_value_heads\": %d,\n  \"head_dim\": %d,\n",
            c->n_kv_heads, c->head_size);
    fprintf(out, "  \"vocab_size\": %d,\n  \"max_position_embeddings\": %d,\n",
            c->vocab_size, c->context);
    fprintf(out, "  \"rms_norm_eps\": %.9g,\n", (double)layer->attn_norm.eps);
    write_experts_options(out, m, form->model_type);
    if (layer->wo.bias)
        fputs("  \"attention_bias\": true,\n", out);
    if (layer->mlp.gate.bias)
        fputs("  \"mlp_bias\": true,\n", out);
    if (form->options)
        fprintf(out, "  %s,\n", form->options);
    fprintf(out, "  \"rope_theta\": %.17g,\n", c->rope.base);
    fprintf(out, "  \"tie_word_embeddings\": %s\n}\n",
            m->tied ? "true" : "false");
    return fclose(out);
}

int folder_write(const Model *m, const char *folder, const FolderForm *form) {
    Folder f = {.model = m, .form = form};
    add_weight(&f, "model.embed_tokens", &m->embedding, false);
    for (int l = 0; l < m->config.n_layers; l++)
        add_layer(&f, &m->layers[l], l);
    add_norm(&f, "model.norm", &m->final_norm, m->config.dim);
    if (!m->tied)
        add_weight(&f, "lm_head", &m->output, false);
    int status = folder_write_parts(f.parts, f.n_parts, folder, form) |
                 write_config(m, form, folder);
    for (int i = 0; i < f.n_parts; i++)
        free(f.parts[i].values);
    free(f.parts);
    return status ? -1 : 0;
}
