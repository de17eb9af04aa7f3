/* convert.c: any model to a GGUF file.
 *
 * Owns the mode and the writing of GGUF (version 3): metadata, tokenizer,
 * tensor table, data. What a block holds is quant.c's business, reading GGUF is
 * gguf.c's. The file appears whole or not at all.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "formats/parts.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"
#include "model.h"
#include "modes/common.h"
#include "modes/options.h"
#include "norm.h"
#include "rope.h"
#include "text/merges.h"
#include "text/pieces.h"
#include "text/pretokenize.h"
#include "tokenizer.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 32, GGUF_U32 = 4, GGUF_I32 = 5, GGUF_F32 = 6, GGUF_BOOL = 7, GGUF_STRING = 8, GGUF_ARRAY = 9 };

/* ---- metadata: collected in memory, because its count comes first --------------------- */

typedef struct {
    const char *architecture;
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

/* ---- architectures ------------------------------------------------------------------------- */

/* Norms of heads are what qwen3 has over llama, which has biases and factors of frequencies instead. */
static const char *architecture_of(const Model *model) {
    if (!model->layers->q_norm.gamma) return "llama";
    return model->config.n_experts ? "qwen3moe" : "qwen3";
}

static bool is_llama(const Model *model) { return !strcmp(architecture_of(model), "llama"); }

static const char *missing_in_layer(const Model *model, const Layer *layer) {
    const bool llama = is_llama(model), biases = layer->wo.bias || layer->mlp.gate.bias || layer->mlp.down.bias;
    if (llama == !!layer->q_norm.gamma) return "norms of heads in some layers";
    if (model->config.n_experts && !layer->experts) return "experts in some layers";
    return biases && !llama ? "biases behind attention or in the MLP" : NULL;
}

/* Whether the model's factors are those of YaRN as llama.cpp has it, for any architecture
 * (the numbers of turns are fixed there). */
static bool is_plain_yarn(const Model *model) {
    const Config *c = &model->config;
    const Yarn plain = {.factor = c->yarn.factor, .context = c->yarn.context, .fast = 32, .slow = 1};
    double *factors = plain.factor > 0 ? yarn_factors(&c->rope, &plain) : NULL;
    bool same = factors && model->rope_factors;
    for (int i = 0; same && i < c->rope_dims / 2; i++) same = fabs(factors[i] / model->rope_factors[i] - 1) < 1e-9;
    free(factors);
    return same;
}

/* What the model has, and its architecture in GGUF files has not; NULL: nothing. */
static const char *missing_in_gguf(const Model *model) {
    const Config *c = &model->config;
    const char *missing = NULL;
    if (!is_llama(model) && !c->rope_halves) return "RoPE of neighbours";
    if (!is_llama(model) && model->rope_factors && !is_plain_yarn(model)) return "this rope_scaling";
    if (c->n_experts && !c->norm_topk) return "norm_topk_prob false";
    for (int l = 0; l < c->n_layers && !missing; l++) missing = missing_in_layer(model, &model->layers[l]);
    return missing;
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

/* Type 2 is <unk>, 5 what is unused. */
static int32_t piece_type(const Tokenizer *t, int id) {
    static const int32_t types[] = {
        [PIECE_TEXT] = 1, [PIECE_USER] = 4, [PIECE_SPECIAL] = 3, [PIECE_BYTE] = 6, [PIECE_CONTROL] = 3};
    const Piece *p = &t->pieces[id];
    if (p->kind == PIECE_CONTROL && (t->byte_level || !p->length)) return 5;
    return id == t->unk ? 2 : types[p->kind];
}

/* In a byte-level vocabulary every byte of a text has a name. */
static void put_byte_level_piece(FILE *out, const Tokenizer *t, int id) {
    const Piece *p = &t->pieces[id];
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (!memory) return;
    char name[2];
    for (int i = 0; i < p->length; i++)
        if (p->kind == PIECE_TEXT)
            put(memory, name, (size_t)bpe_byte_name(name, (uint8_t)p->text[i]));
        else
            fputc(p->text[i], memory);
    if (!p->length) fprintf(memory, "[PAD%d]", id); /* no two pieces may be alike */
    fclose(memory);
    put_string(out, text, size);
    free(text);
}

static int compare_ranks(const void *a, const void *b) {
    const MergeRule *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The rules in the order of their ranks; the caller frees the list. */
static MergeRule *ranked_rules(const Merges *m) {
    MergeRule *rules = allocate((size_t)m->n + 1, sizeof *rules);
    if (!rules) return NULL;
    memcpy(rules, m->rules, (size_t)m->n * sizeof *rules);
    qsort(rules, (size_t)m->n, sizeof *rules, compare_ranks);
    return rules;
}

static void put_name(FILE *out, const Piece *p, uint64_t *size) {
    char name[2];
    for (int i = 0; i < p->length; i++) {
        const int n = bpe_byte_name(name, (uint8_t)p->text[i]);
        *size += (uint64_t)n;
        if (out) put(out, name, (size_t)n);
    }
}

static int put_byte_level(Metadata *m, const Tokenizer *t) {
    MergeRule *rules = ranked_rules(&t->merges);
    if (!rules) return -1;
    put_text(m, "tokenizer.ggml.model", "gpt2");
    put_text(m, "tokenizer.ggml.pre", pretokenizer_name(&t->pretokenizer));
    if (t->composes) put_text(m, "norma.tokenizer.normalizer", "nfc");
    put_array(m, "tokenizer.ggml.tokens", GGUF_STRING, t->n_pieces);
    for (int id = 0; id < t->n_pieces; id++) put_byte_level_piece(m->stream, t, id);
    put_array(m, "tokenizer.ggml.merges", GGUF_STRING, t->merges.n);
    for (int i = 0; i < t->merges.n; i++) {
        const Piece *left = &t->pieces[rules[i].left], *right = &t->pieces[rules[i].right];
        uint64_t size = 1;
        put_name(NULL, left, &size);
        put_name(NULL, right, &size);
        put_u64(m->stream, size);
        put_name(m->stream, left, &size);
        fputc(' ', m->stream);
        put_name(m->stream, right, &size);
    }
    free(rules);
    return 0;
}

/* The scores by which pieces merge as by the rules: the rank of the first rule that makes them, negative. */
static int put_sentencepiece(Metadata *m, const Tokenizer *t) {
    float *scores = allocate((size_t)t->n_pieces, sizeof *scores);
    if (!scores) return -1;
    for (int id = 0; id < t->n_pieces; id++) scores[id] = t->merges.rules ? -(float)t->merges.n : t->pieces[id].score;
    for (const MergeRule *rule = t->merges.rules; rule && rule < t->merges.rules + t->merges.n; rule++)
        scores[rule->result] = fmaxf(scores[rule->result], -(float)rule->rank);
    put_text(m, "tokenizer.ggml.model", "llama");
    put_array(m, "tokenizer.ggml.tokens", GGUF_STRING, t->n_pieces);
    for (int id = 0; id < t->n_pieces; id++) put_piece(m->stream, t, id);
    put_array(m, "tokenizer.ggml.scores", GGUF_F32, t->n_pieces);
    put(m->stream, scores, (size_t)t->n_pieces * sizeof *scores);
    free(scores);
    return 0;
}

static int put_tokenizer(Metadata *m, const Tokenizer *t) {
    if (t->byte_level ? put_byte_level(m, t) : put_sentencepiece(m, t)) return -1;
    put_array(m, "tokenizer.ggml.token_type", GGUF_I32, t->n_pieces);
    for (int id = 0; id < t->n_pieces; id++) {
        const int32_t type = piece_type(t, id);
        put(m->stream, &type, sizeof type);
    }
    if (t->bos >= 0) put_int(m, "tokenizer.ggml.bos_token_id", t->bos);
    if (t->eos >= 0) put_int(m, "tokenizer.ggml.eos_token_id", t->eos);
    if (t->unk >= 0) put_int(m, "tokenizer.ggml.unknown_token_id", t->unk);
    int eot = t->eot; /* GGUF has room for one more end */
    for (int i = 0; i < t->n_ends && eot < 0; i++)
        if (t->ends[i] != t->eos) eot = t->ends[i];
    if (eot >= 0) put_int(m, "tokenizer.ggml.eot_token_id", eot);
    put_bool(m, "tokenizer.ggml.add_bos_token", !t->no_bos);
    put_bool(m, "tokenizer.ggml.add_eos_token", false);
    put_bool(m, "tokenizer.ggml.add_space_prefix", !t->no_space_prefix);
    if (t->chat_template) {
        put_key(m, "tokenizer.chat_template", GGUF_STRING);
        put_string(m->stream, t->chat_template, t->chat_template_size);
    }
    return 0;
}

/* Whether every two pieces that together are one merge, and rules for the same piece follow each other: then
 * scores say the same as rules, up to which of two equal pieces comes first. */
static bool rules_are_scores(const Tokenizer *t) {
    MergeRule *rules = ranked_rules(&t->merges);
    char *done = allocate((size_t)t->n_pieces, 1);
    bool same = rules && done;
    for (int id = 0; id < t->n_pieces && same; id++) {
        const Piece *p = &t->pieces[id];
        done[id] = 0;
        if (p->kind != PIECE_TEXT) continue;
        same = p->length <= MOST_USER_BYTES; /* all their parts are looked up */
        for (int n = 1; n < p->length && same; n++) {
            const int left = tokenizer_find(t, p->text, n), right = tokenizer_find(t, p->text + n, p->length - n);
            same = left < 0 || right < 0 || bpe_rule(&t->merges, left, right);
        }
    }
    for (int i = 0; i < t->merges.n && same; i++) {
        const int result = rules[i].result;
        same = !done[result] || rules[i - 1].result == result;
        done[result] = 1;
    }
    free(done);
    free(rules);
    return same;
}

/* What a tokenizer does that GGUF has no words for. */
static int check_tokenizer(const Tokenizer *t, const char *path) {
    const Pretokenizer *p = &t->pretokenizer;
    if (!t->merges.rules) return 0;
    if (t->byte_level && !t->no_space_prefix)
        return fail("%s: ByteLevel puts a space in front of a text, which GGUF has no word for", path);
    if (t->byte_level && !pretokenizer_name(p))
        return fail("%s: GGUF has no name for its pre-tokenizer (%s%s)", path, pretokenizer_shown(p),
                    p->whole_words ? ", ignore_merges" : "");
    for (int id = 0; id < t->n_pieces; id++)
        if (t->pieces[id].eats_left || t->pieces[id].eats_right) {
            fputs("note: there are pieces that take white space beside them; GGUF has no word for that\n", stderr);
            break;
        }
    if (t->byte_level) return 0;
    if (p->n_steps || p->whole_words || t->composes)
        return fail("%s: GGUF has no name for its pre-tokenizer (%s) without ByteLevel", path, pretokenizer_shown(p));
    if (!rules_are_scores(t))
        return fail("%s: its merges are not those of a SentencePiece vocabulary, and GGUF has nothing else for them",
                    path);
    if (t->space_if_none && !t->no_space_prefix)
        fputs("note: GGUF always puts a space in front of a text, the folder only where there is none\n", stderr);
    return 0;
}

typedef struct {
    NormKind kind;
    double eps; /* of the first norm of this kind; 0: none */
    bool mixed; /* another has another */
} FirstEps;

static FirstEps eps_of(const Model *model, NormKind kind) {
    FirstEps first = {.kind = kind};
    for (PartAt at = parts_of(model); next_part(&at);) {
        const Norm *norm = part_norm(&at);
        if (!norm || norm->kind != kind) continue;
        if (first.eps == 0) first.eps = (double)norm->eps;
        first.mixed |= first.eps != (double)norm->eps;
    }
    return first;
}

/* The key of the architecture with this name; it stays until the block ends. */
static const char *own_key(const Metadata *m, const char *name, char *key, size_t size) {
    snprintf(key, size, "%s.%s", m->architecture, name);
    return key;
}
#define KEY(name) own_key(m, name, (char[64]){0}, 64)

/* A llama's factors are a tensor of their own. */
static void put_rope_scaling(Metadata *m, const Model *model) {
    const Config *c = &model->config;
    const bool yarn = model->rope_factors && !is_llama(model);
    const double factor = yarn ? c->yarn.factor : c->rope_scale;
    const double amplitude = yarn ? c->rope_amplitude / yarn_amplitude(factor, 1) : c->rope_amplitude;
    if (factor != 1) {
        put_text(m, KEY("rope.scaling.type"), yarn ? "yarn" : "linear");
        put_real(m, KEY("rope.scaling.factor"), factor);
    }
    if (yarn) put_int(m, KEY("rope.scaling.original_context_length"), (int)c->yarn.context);
    if (amplitude != 1) put_real(m, KEY("rope.scaling.attn_factor"), amplitude);
}

static void put_config(Metadata *m, const Model *model, Type type) {
    const Config *c = &model->config;
    put_text(m, "general.architecture", m->architecture);
    put_int(m, "general.file_type", type_file_type(type));
    put_int(m, "general.quantization_version", 2);
    put_int(m, KEY("vocab_size"), c->vocab_size);
    put_int(m, KEY("context_length"), c->context);
    put_int(m, KEY("embedding_length"), c->dim);
    put_int(m, KEY("feed_forward_length"), c->n_experts && is_llama(model) ? c->expert_dim : c->hidden_dim);
    put_int(m, KEY("block_count"), c->n_layers);
    put_int(m, KEY("attention.head_count"), c->n_heads);
    put_int(m, KEY("attention.head_count_kv"), c->n_kv_heads);
    put_int(m, KEY("attention.key_length"), c->head_size);
    put_int(m, KEY("attention.value_length"), c->head_size);
    const double rms = eps_of(model, NORM_RMS).eps, layer = eps_of(model, NORM_LAYER).eps;
    put_real(m, KEY("attention.layer_norm_rms_epsilon"), rms > 0 ? rms : layer);
    if (layer > 0) put_real(m, KEY("attention.layer_norm_epsilon"), layer);
    put_int(m, KEY("rope.dimension_count"), c->rope_dims);
    put_real(m, KEY("rope.freq_base"), c->rope_base);
    put_rope_scaling(m, model);
    if (c->n_experts == 0) return;
    put_int(m, KEY("expert_count"), c->n_experts);
    put_int(m, KEY("expert_used_count"), c->n_experts_used);
    put_int(m, KEY("expert_feed_forward_length"), c->expert_dim);
}

/* ---- tensors ----------------------------------------------------------------------------- */

/* Three walks over the same list: count, table, data. */
typedef enum { COUNT, TABLE, DATA } Pass;

typedef struct {
    FILE *out;
    const Config *config;
    bool pairs; /* rows of queries and keys change places, so that the pairs that rotate are neighbours */
    Type type;  /* asked for */
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

static void put_entry(Writer *w, const char *name, int depth, int rows, int cols, Type type, size_t bytes) {
    put_string(w->out, name, strlen(name));
    put_u32(w->out, depth > 1 ? 3 : rows > 1 ? 2 : 1);
    put_u64(w->out, (uint64_t)cols);
    if (depth > 1 || rows > 1) put_u64(w->out, (uint64_t)rows);
    if (depth > 1) put_u64(w->out, (uint64_t)depth);
    put_u32(w->out, type_to_gguf(type));
    put_u64(w->out, w->offset);
    w->offset += aligned(bytes);
}

/* The row of a head in halves that is `row` where pairs are neighbours. */
static int row_in_halves(const Config *c, int row) {
    const int i = row % c->head_size;
    return i < c->rope_dims ? row - i + i / 2 + i % 2 * (c->rope_dims / 2) : row;
}

static void put_rows(Writer *w, const Tensor *t, Type type, size_t row_bytes, bool rotates) {
    for (int r = 0; r < t->rows && !interrupted && !ferror(w->out); r++) {
        dequantize_row(w->row, t, rotates && w->pairs ? row_in_halves(w->config, r) : r);
        quantize_row(w->packed, type, w->row, t->cols);
        put(w->out, w->packed, row_bytes);
        w->done += (size_t)t->cols;
    }
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%3.0f %%", 100.0 * (double)w->done / (double)w->total);
}

static void write_vector(Writer *w, const char *name, const char *suffix, const float *v, int n) {
    char full[96];
    if (!v) return;
    snprintf(full, sizeof full, "%s%s", name, suffix);
    w->count++;
    if (w->pass == TABLE) put_entry(w, full, 1, 1, n, TYPE_F32, (size_t)n * sizeof *v);
    if (w->pass == DATA) {
        put(w->out, v, (size_t)n * sizeof *v);
        put_padding(w->out, (size_t)n * sizeof *v);
    }
}

/* n matrices of the same shape as one tensor; `stride` bytes from one Tensor to the next. */
static void write_matrices(Writer *w, const char *name, const Tensor *t, int n, size_t stride, Type type,
                           bool rotates) {
    char full[96];
    const size_t row_bytes = tensor_bytes(&(Tensor){.type = type, .cols = t->cols}, 1);
    const size_t bytes = row_bytes * (size_t)t->rows * (size_t)n;
    snprintf(full, sizeof full, "%s.weight", name);
    w->count++;
    if (w->pass == TABLE) {
        put_entry(w, full, n, t->rows, t->cols, type, bytes);
        if (t->cols % type_block(w->type))
            fprintf(stderr, "note: %s stays f16: its rows of %d are no multiple of %d\n", full, t->cols,
                    type_block(w->type));
    }
    if (w->pass != DATA) return;
    for (size_t i = 0; i < (size_t)n; i++)
        put_rows(w, (const Tensor *)(const void *)((const char *)t + i * stride), type, row_bytes, rotates);
    put_padding(w->out, bytes);
}

/* A weight whose rows are no multiple of the block stays float16. */
static Type type_for(const Writer *w, const Tensor *t) { return t->cols % type_block(w->type) ? TYPE_F16 : w->type; }

static void write_weight(Writer *w, const char *name, const Tensor *t) {
    write_matrices(w, name, t, 1, 0, type_for(w, t), false);
    write_vector(w, name, ".bias", t->bias, t->rows);
}

/* Of queries or keys. */
static void write_rotating(Writer *w, const char *name, const Tensor *t) {
    write_matrices(w, name, t, 1, 0, type_for(w, t), true);
    for (int r = 0; t->bias && r < t->rows; r++) w->row[r] = t->bias[w->pairs ? row_in_halves(w->config, r) : r];
    write_vector(w, name, ".bias", t->bias ? w->row : NULL, t->rows);
}

/* In a GGUF file it is the bias that makes a LayerNorm. */
static void write_norm(Writer *w, const char *name, const Norm *norm, int dim) {
    if (!norm->gamma) return;
    write_vector(w, name, ".weight", norm->gamma, dim);
    if (norm->kind == NORM_RMS) return;
    memset(w->row, 0, (size_t)dim * sizeof *w->row);
    write_vector(w, name, ".bias", norm->beta ? norm->beta : w->row, dim);
}

static void write_mlp(Writer *w, const char *block, const Mlp *mlp) {
    char name[64];
    snprintf(name, sizeof name, "%sffn_gate", block);
    write_weight(w, name, &mlp->gate);
    snprintf(name, sizeof name, "%sffn_up", block);
    write_weight(w, name, &mlp->up);
    snprintf(name, sizeof name, "%sffn_down", block);
    write_weight(w, name, &mlp->down);
}

/* A quantized router would choose other experts: it stays float32. */
static void write_experts(Writer *w, const char *block, const Layer *layer) {
    const struct {
        const char *name;
        const Tensor *first;
    } parts[] = {{"gate", &layer->experts->gate}, {"up", &layer->experts->up}, {"down", &layer->experts->down}};
    char name[64];
    snprintf(name, sizeof name, "%sffn_gate_inp", block);
    write_matrices(w, name, &layer->router, 1, 0, TYPE_F32, false);
    for (int i = 0; i < 3; i++) {
        const Tensor *first = parts[i].first;
        snprintf(name, sizeof name, "%sffn_%s_exps", block, parts[i].name);
        write_matrices(w, name, first, w->config->n_experts, sizeof *layer->experts, type_for(w, first), false);
    }
}

static void write_layer(Writer *w, const Layer *layer, int l) {
    const Config *c = w->config;
    char block[32], name[64];
#define NAME(part) (snprintf(name, sizeof name, "%s" part, block), name)
    snprintf(block, sizeof block, "blk.%d.", l);
    write_norm(w, NAME("attn_norm"), &layer->attn_norm, c->dim);
    write_rotating(w, NAME("attn_q"), &layer->wq);
    write_rotating(w, NAME("attn_k"), &layer->wk);
    write_weight(w, NAME("attn_v"), &layer->wv);
    write_norm(w, NAME("attn_q_norm"), &layer->q_norm, c->head_size);
    write_norm(w, NAME("attn_k_norm"), &layer->k_norm, c->head_size);
    write_weight(w, NAME("attn_output"), &layer->wo);
    write_norm(w, NAME("ffn_norm"), &layer->mlp_norm, c->dim);
#undef NAME
    if (layer->experts)
        write_experts(w, block, layer);
    else
        write_mlp(w, block, &layer->mlp);
}

static void walk(Writer *w, const Model *m, Pass pass) {
    w->pass = pass;
    w->count = 0;
    write_weight(w, "token_embd", &m->embedding);
    for (int l = 0; l < m->config.n_layers; l++) write_layer(w, &m->layers[l], l);
    write_norm(w, "output_norm", &m->final_norm, m->config.dim);
    if (!m->tied) write_weight(w, "output", &m->output);
    if (!m->rope_factors || !is_llama(m)) return; /* YaRN has keys for them */
    for (int i = 0; i < m->config.rope_dims / 2; i++) w->row[i] = (float)m->rope_factors[i];
    write_vector(w, "rope_freqs.weight", "", w->row, m->config.rope_dims / 2);
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
    Metadata metadata = {.architecture = architecture_of(&run->model)};
    metadata.stream = open_memstream(&metadata.bytes, &metadata.size);
    if (!metadata.stream) return fail("out of memory");
    put_config(&metadata, &run->model, w->type);
    int status = 0;
    if (run->has_tokenizer)
        status = put_tokenizer(&metadata, &run->tokenizer);
    else
        put_text(&metadata, "tokenizer.ggml.model", "none"); /* other programs want to be told */
    fclose(metadata.stream);
    OutputFile out;
    if (!status && !(status = output_open(&out, run->options->output))) {
        w->out = out.stream;
        put_file(w, &run->model, &metadata);
        status = output_close(&out, !interrupted);
    }
    free(metadata.bytes);
    return status;
}

static int widest_row(const Config *c) {
    const int widths[] = {c->dim, c->hidden_dim, c->expert_dim, c->n_heads * c->head_size};
    int widest = 0;
    for (int i = 0; i < 4; i++)
        if (widths[i] > widest) widest = widths[i];
    return widest;
}

/* Whether the output would take the place of a file that is being read. */
static bool is_input(const Model *model, const char *output) {
    struct stat out;
    if (stat(output, &out)) return false;
    for (int i = 0; i < model->n_files; i++)
        if (model->files[i].device == out.st_dev && model->files[i].inode == out.st_ino) return true;
    return false;
}

int mode_convert(Run *run) {
    const Options *o = run->options;
    const Model *model = &run->model;
    Writer w = {
        .config = &model->config, .pairs = model->config.rope_halves && is_llama(model), .total = model->parameters};
    if (!o->output || !o->type || type_from_name(o->type, &w.type)) {
        fail(o->type && o->output ? "-q is '%s', expected f32, f16, bf16, q8_0 or q4_0"
                                  : "convert needs a type and a file: -q f32|f16|bf16|q8_0|q4_0 -o FILE.gguf",
             o->type);
        return 2;
    }
    if (is_input(model, o->output)) {
        fail("%s is the model itself; name another file", o->output);
        return 1;
    }
    const char *missing = missing_in_gguf(model);
    if (missing) {
        fail("%s: GGUF's %s has no place for %s", o->model, architecture_of(model), missing);
        return 1;
    }
    for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++)
        if (eps_of(model, kind).mixed) { /* by --norm, which leaves a site its eps */
            fail("%s: its %ss would differ in eps, and GGUF has one for all", o->model, norm_name(kind));
            return 1;
        }
    if (run->has_tokenizer && check_tokenizer(&run->tokenizer, o->model)) return 1;
    if (!run->has_tokenizer) fputs("note: no tokenizer found, none is written\n", stderr);
    const size_t widest = (size_t)widest_row(&model->config);
    w.row = allocate(widest, sizeof *w.row);
    w.packed = allocate(widest, sizeof *w.row);
    const int status = w.row && w.packed ? write_file(&w, run) : -1;
    if (isatty(STDERR_FILENO)) fputc('\n', stderr);
    free(w.row);
    free(w.packed);
    return status ? 1 : interrupted ? EXIT_INTERRUPTED : 0;
}
