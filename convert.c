/* convert.c: any model to a GGUF file.
 *
 * Owns the mode and the writing of GGUF (version 3): metadata, tokenizer,
 * tensor table, data. What a block holds is quant.c's business, reading GGUF is
 * gguf.c's. The file appears whole or not at all.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 32, GGUF_U32 = 4, GGUF_I32 = 5, GGUF_F32 = 6, GGUF_BOOL = 7, GGUF_STRING = 8, GGUF_ARRAY = 9 };

/* ---- metadata: collected in memory, because its count comes first --------------------- */

typedef struct {
    FILE *stream;
    char *bytes;
    size_t size;
    uint64_t count;
} Metadata;

static void put(FILE *out, const void *bytes, size_t n) { fwrite(bytes, 1, n, out); /* checked at the end */ }
static void put_u32(FILE *out, uint32_t value) { put(out, &value, sizeof value); }
static void put_u64(FILE *out, uint64_t value) { put(out, &value, sizeof value); }

static void put_string(FILE *out, const char *s, size_t n) {
    put_u64(out, n);
    put(out, s, n);
}

static void put_key(Metadata *m, const char *key, uint32_t type) {
    put_string(m->stream, key, strlen(key));
    put_u32(m->stream, type);
    m->count++;
}

static void put_array(Metadata *m, const char *key, uint32_t type, int n) {
    put_key(m, key, GGUF_ARRAY);
    put_u32(m->stream, type);
    put_u64(m->stream, (uint64_t)n);
}

static void put_int(Metadata *m, const char *key, int value) {
    put_key(m, key, GGUF_U32);
    put_u32(m->stream, (uint32_t)value);
}

static void put_real(Metadata *m, const char *key, double value) {
    float narrow = (float)value;
    put_key(m, key, GGUF_F32);
    put(m->stream, &narrow, sizeof narrow);
}

static void put_text(Metadata *m, const char *key, const char *text) {
    put_key(m, key, GGUF_STRING);
    put_string(m->stream, text, strlen(text));
}

static void put_bool(Metadata *m, const char *key, bool value) {
    put_key(m, key, GGUF_BOOL);
    fputc(value ? 1 : 0, m->stream);
}

/* ---- the tokenizer ---------------------------------------------------------------------- */

/* The piece as GGUF writes it: U+2581 for a space, names for bytes. */
static void put_piece(FILE *out, const Tokenizer *t, int id) {
    const Piece *p = &t->pieces[id];
    char *text = NULL;
    size_t size = 0;
    if (p->kind == PIECE_BYTE) {
        char name[8] = "";
        put_string(out, name, (size_t)snprintf(name, sizeof name, "<0x%02X>", (unsigned)(uint8_t)p->text[0]));
        return;
    }
    FILE *memory = open_memstream(&text, &size);
    if (!memory) return;
    for (int i = 0; i < p->length; i++)
        if (p->text[i] == ' ')
            fputs("\xe2\x96\x81", memory);
        else if (p->text[i] != '\n' || p->kind != PIECE_CONTROL) /* llama2.c wraps <s> in newlines */
            fputc(p->text[i], memory);
    fclose(memory);
    put_string(out, text, size);
    free(text);
}

static void put_tokenizer(Metadata *m, const Tokenizer *t) {
    static const int32_t types[] = {[PIECE_TEXT] = 1, [PIECE_USER] = 4, [PIECE_BYTE] = 6, [PIECE_CONTROL] = 3};
    put_text(m, "tokenizer.ggml.model", "llama");
    put_array(m, "tokenizer.ggml.tokens", GGUF_STRING, t->n_pieces);
    for (int id = 0; id < t->n_pieces; id++) put_piece(m->stream, t, id);
    put_array(m, "tokenizer.ggml.scores", GGUF_F32, t->n_pieces);
    for (int id = 0; id < t->n_pieces; id++) put(m->stream, &t->pieces[id].score, sizeof(float));
    put_array(m, "tokenizer.ggml.token_type", GGUF_I32, t->n_pieces);
    for (int id = 0; id < t->n_pieces; id++) {
        const int32_t type = id == t->unk ? 2 : types[t->pieces[id].kind];
        put(m->stream, &type, sizeof type);
    }
    put_int(m, "tokenizer.ggml.bos_token_id", t->bos);
    put_int(m, "tokenizer.ggml.eos_token_id", t->eos);
    put_int(m, "tokenizer.ggml.unknown_token_id", t->unk);
    if (t->eot >= 0) put_int(m, "tokenizer.ggml.eot_token_id", t->eot);
    put_bool(m, "tokenizer.ggml.add_bos_token", !t->no_bos);
    put_bool(m, "tokenizer.ggml.add_eos_token", false);
    put_bool(m, "tokenizer.ggml.add_space_prefix", !t->no_space_prefix);
    if (t->chat_template) {
        put_key(m, "tokenizer.chat_template", GGUF_STRING);
        put_string(m->stream, t->chat_template, t->chat_template_size);
    }
}

typedef struct {
    NormKind kind;
    double eps; /* of the first norm of this kind; 0: none */
    bool mixed; /* another has another */
} FirstEps;

static void find_eps(void *arg, const char *name, const Norm *norm, int dim) {
    FirstEps *first = arg;
    (void)name, (void)dim;
    if (norm->kind != first->kind) return;
    if (first->eps == 0) first->eps = (double)norm->eps;
    first->mixed |= first->eps != (double)norm->eps;
}

static FirstEps eps_of(const Model *model, NormKind kind) {
    FirstEps first = {.kind = kind};
    model_visit(model, NULL, find_eps, &first);
    return first;
}

static void put_config(Metadata *m, const Model *model, Type type) {
    const Config *c = &model->config;
    put_text(m, "general.architecture", "llama");
    put_int(m, "general.file_type", type_file_type(type));
    put_int(m, "general.quantization_version", 2);
    put_int(m, "llama.vocab_size", c->vocab_size);
    put_int(m, "llama.context_length", c->context);
    put_int(m, "llama.embedding_length", c->dim);
    put_int(m, "llama.feed_forward_length", c->hidden_dim);
    put_int(m, "llama.block_count", c->n_layers);
    put_int(m, "llama.attention.head_count", c->n_heads);
    put_int(m, "llama.attention.head_count_kv", c->n_kv_heads);
    put_int(m, "llama.attention.key_length", c->head_size);
    put_int(m, "llama.attention.value_length", c->head_size);
    const double rms = eps_of(model, NORM_RMS).eps, layer = eps_of(model, NORM_LAYER).eps;
    put_real(m, "llama.attention.layer_norm_rms_epsilon", rms > 0 ? rms : layer);
    if (layer > 0) put_real(m, "llama.attention.layer_norm_epsilon", layer);
    put_int(m, "llama.rope.dimension_count", c->rope_dims);
    put_real(m, "llama.rope.freq_base", c->rope_base);
    if (c->rope_scale != 1) {
        put_text(m, "llama.rope.scaling.type", "linear");
        put_real(m, "llama.rope.scaling.factor", c->rope_scale);
    }
}

/* ---- tensors ----------------------------------------------------------------------------- */

/* Three walks over the same list: count, table, data. */
typedef enum { COUNT, TABLE, DATA } Pass;

typedef struct {
    FILE *out;
    Type type; /* asked for */
    Pass pass;
    uint64_t count, offset;
    size_t done, total; /* weights, for the progress */
    float *row;         /* [widest] */
    uint8_t *packed;    /* a row in its new type */
} Writer;

static uint64_t aligned(uint64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void put_padding(FILE *out, uint64_t n) {
    for (uint64_t i = n; i < aligned(n); i++) fputc(0, out);
}

static void put_entry(Writer *w, const char *name, int rows, int cols, Type type, size_t bytes) {
    put_string(w->out, name, strlen(name));
    put_u32(w->out, rows > 1 ? 2 : 1);
    put_u64(w->out, (uint64_t)cols);
    if (rows > 1) put_u64(w->out, (uint64_t)rows);
    put_u32(w->out, type_to_gguf(type));
    put_u64(w->out, w->offset);
    w->offset += aligned(bytes);
}

static void put_rows(Writer *w, const Tensor *t, Type type, size_t row_bytes) {
    for (int r = 0; r < t->rows && !interrupted && !ferror(w->out); r++) {
        dequantize_row(w->row, t, r);
        quantize_row(w->packed, type, w->row, t->cols);
        put(w->out, w->packed, row_bytes);
        w->done += (size_t)t->cols;
    }
    put_padding(w->out, row_bytes * (uint64_t)t->rows);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%3.0f %%", 100.0 * (double)w->done / (double)w->total);
}

static void write_vector(Writer *w, const char *name, const char *suffix, const float *v, int n) {
    char full[96];
    if (!v) return;
    snprintf(full, sizeof full, "%s%s", name, suffix);
    w->count++;
    if (w->pass == TABLE) put_entry(w, full, 1, n, TYPE_F32, (size_t)n * sizeof *v);
    if (w->pass == DATA) {
        put(w->out, v, (size_t)n * sizeof *v);
        put_padding(w->out, (size_t)n * sizeof *v);
    }
}

/* A weight whose rows are no multiple of the block stays float16. */
static void write_weight(Writer *w, const char *name, const Tensor *t) {
    char full[96];
    const Type type = t->cols % type_block(w->type) ? TYPE_F16 : w->type;
    const size_t row_bytes = tensor_bytes(&(Tensor){.type = type, .cols = t->cols}, 1);
    snprintf(full, sizeof full, "%s.weight", name);
    w->count++;
    if (w->pass == TABLE) {
        put_entry(w, full, t->rows, t->cols, type, row_bytes * (size_t)t->rows);
        if (type != w->type)
            fprintf(stderr, "note: %s stays f16: its rows of %d are no multiple of %d\n", full, t->cols,
                    type_block(w->type));
    }
    if (w->pass == DATA) put_rows(w, t, type, row_bytes);
    write_vector(w, name, ".bias", t->bias, t->rows);
}

/* In a GGUF file it is the bias that makes a LayerNorm. */
static void write_norm(Writer *w, const char *name, const Norm *norm, int dim) {
    write_vector(w, name, ".weight", norm->gamma, dim);
    if (norm->kind == NORM_RMS) return;
    memset(w->row, 0, (size_t)dim * sizeof *w->row);
    write_vector(w, name, ".bias", norm->beta ? norm->beta : w->row, dim);
}

static void write_layer(Writer *w, const Layer *layer, int l, int dim) {
    const struct {
        const char *name;
        const Tensor *w;
    } weights[] = {{"attn_q", &layer->wq},        {"attn_k", &layer->wk},         {"attn_v", &layer->wv},
                   {"attn_output", &layer->wo},   {"ffn_gate", &layer->mlp.gate}, {"ffn_up", &layer->mlp.up},
                   {"ffn_down", &layer->mlp.down}};
    char name[64];
    snprintf(name, sizeof name, "blk.%d.attn_norm", l);
    write_norm(w, name, &layer->attn_norm, dim);
    snprintf(name, sizeof name, "blk.%d.ffn_norm", l);
    write_norm(w, name, &layer->mlp_norm, dim);
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        snprintf(name, sizeof name, "blk.%d.%s", l, weights[i].name);
        write_weight(w, name, weights[i].w);
    }
}

static void walk(Writer *w, const Model *m, Pass pass) {
    w->pass = pass;
    w->count = 0;
    write_weight(w, "token_embd", &m->embedding);
    for (int l = 0; l < m->config.n_layers; l++) write_layer(w, &m->layers[l], l, m->config.dim);
    write_norm(w, "output_norm", &m->final_norm, m->config.dim);
    if (!m->tied) write_weight(w, "output", &m->output);
    for (int i = 0; m->rope_factors && i < m->config.rope_dims / 2; i++) w->row[i] = (float)m->rope_factors[i];
    if (m->rope_factors) write_vector(w, "rope_freqs.weight", "", w->row, m->config.rope_dims / 2);
}

/* ---- the mode ------------------------------------------------------------------------------ */

static void put_file(Writer *w, const Model *model, const Metadata *metadata) {
    walk(w, model, COUNT);
    put(w->out, "GGUF", 4);
    put_u32(w->out, 3);
    put_u64(w->out, w->count);
    put_u64(w->out, metadata->count);
    put(w->out, metadata->bytes, metadata->size);
    walk(w, model, TABLE);
    const long at = ftell(w->out);
    if (at > 0) put_padding(w->out, (uint64_t)at);
    walk(w, model, DATA);
}

static int write_file(Writer *w, const Run *run) {
    Metadata metadata = {0};
    metadata.stream = open_memstream(&metadata.bytes, &metadata.size);
    if (!metadata.stream) return fail("out of memory");
    put_config(&metadata, &run->model, w->type);
    if (run->has_tokenizer) put_tokenizer(&metadata, &run->tokenizer);
    fclose(metadata.stream);
    OutputFile out;
    int status = output_open(&out, run->options->output);
    if (!status) {
        w->out = out.stream;
        put_file(w, &run->model, &metadata);
        status = output_close(&out, !interrupted);
    }
    free(metadata.bytes);
    return status;
}

static int widest_row(const Config *c) {
    int widest = c->dim > c->hidden_dim ? c->dim : c->hidden_dim;
    return c->n_heads * c->head_size > widest ? c->n_heads * c->head_size : widest;
}

/* Whether the output would take the place of the model that is being read. */
static bool is_input(const Options *o) {
    struct stat in, out;
    return !stat(o->model, &in) && !stat(o->output, &out) && in.st_dev == out.st_dev && in.st_ino == out.st_ino;
}

int mode_convert(Run *run) {
    const Options *o = run->options;
    Writer w = {.total = run->model.parameters};
    if (!o->output || !o->type || type_from_name(o->type, &w.type)) {
        fail(o->type && o->output ? "-q is '%s', expected f32, f16, bf16, q8_0 or q4_0"
                                  : "convert needs a type and a file: -q f32|f16|bf16|q8_0|q4_0 -o FILE.gguf",
             o->type);
        return 2;
    }
    if (is_input(o)) {
        fail("%s is the model itself; name another file", o->output);
        return 1;
    }
    for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++)
        if (eps_of(&run->model, kind).mixed) { /* by --norm, which leaves a site its eps */
            fail("%s: its %ss would differ in eps, and GGUF has one for all", o->model, norm_name(kind));
            return 1;
        }
    if (!run->has_tokenizer) fputs("note: no tokenizer found, none is written\n", stderr);
    const size_t widest = (size_t)widest_row(&run->model.config);
    w.row = allocate(widest, sizeof *w.row);
    w.packed = allocate(widest, sizeof *w.row);
    const int status = w.row && w.packed ? write_file(&w, run) : -1;
    if (isatty(STDERR_FILENO)) fputc('\n', stderr);
    free(w.row);
    free(w.packed);
    return status ? 1 : interrupted ? EXIT_INTERRUPTED : 0;
}
