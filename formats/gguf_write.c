/* gguf_write.c: writes a model as a GGUF file (version 3).
 *
 * Owns which models and tokenizers GGUF can store, and the file's layout: metadata, tensor table, data. family.c has
 * the tables of architectures and keys; kernels/quant.c packs the blocks.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/family.h"
#include "formats/gguf.h"
#include "formats/parts.h"
#include "formats/stored.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"
#include "norm.h"
#include "rope.h"
#include "text/merges.h"
#include "text/pieces.h"
#include "text/pretokenize.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- whether GGUF can store the model and the tokenizer ------------------------------------ */

/* Whether the model's RoPE factors are those of YaRN with the default beta_fast and beta_slow. */
static bool is_plain_yarn(const Model *model) {
    const Config *c = &model->config;
    const Yarn plain = {.factor = c->rope.yarn.factor, .context = c->rope.yarn.context, .fast = 32, .slow = 1};
    double *factors = plain.factor > 0 ? yarn_factors(&c->rope, &plain) : NULL;
    bool same = factors && model->rope_factors;
    for (int i = 0; same && i < c->rope.dims / 2; i++) same = fabs(factors[i] / model->rope_factors[i] - 1) < 1e-9;
    free(factors);
    return same;
}

/* The values of the keys to write; zeros are not written. The eps is that of the last norm of each kind. */
static Header header_of(const Model *model, const ModelFamily *a) {
    Header h = {.config = model->config,
                .value_length = model->config.head_size,
                .n_experts = model->config.n_experts,
                .n_experts_used = model->config.n_experts_used};
    Config *c = &h.config;
    const bool yarn = model->rope_factors && !(a->may & ROPE_FACTORS), by_period = a->may & PERIODIC_WINDOWS;
    for (PartAt at = parts_of(model); next_part(&at);)
        if (part_norm(&at)) *(part_norm(&at)->kind == NORM_LAYER ? &h.layer_eps : &h.rms_eps) = part_norm(&at)->eps;
    for (const Layer *layer = model->layers; layer < model->layers + c->n_layers; layer++) {
        if (by_period && layer->window > h.window) h.window = layer->window;
        if (!by_period && layer->window > 0 && layer->window < c->context) c->context = layer->window;
    }
    if (!h.window || !(a->has & LOCAL_ROPE))
        c->local_base = 0;
    else if (c->local_base == 0)
        c->local_base = c->rope.base;
    if (!h.window && (a->has & DEFAULT_WINDOW)) h.window = c->context;
    c->logit_scale = c->logit_scale != 0 ? 1 / c->logit_scale : 1;
    if (h.rms_eps == 0) h.rms_eps = h.layer_eps;
    h.factor = yarn ? c->rope.yarn.factor : c->rope.scale;
    if (yarn) h.yarn_context = (int)c->rope.yarn.context;
    if (yarn) c->rope.amplitude /= yarn_amplitude(c->rope.yarn.factor, 1);
    if (model->long_factors) h.yarn_context = model->config.context;
    if (model->long_factors) c->context = model->long_context;
    if (h.factor == 1) h.factor = 0;
    if (h.factor > 0) h.scaling = yarn ? (String){"yarn", 4} : (String){"linear", 6};
    if (c->rope.amplitude == 1) c->rope.amplitude = 0;
    c->rope.yarn = (Yarn){0}; /* beta_fast and beta_slow are the defaults */
    return h;
}

/* Whether a reader of the architecture gives all layers the windows and RoPE that they have in the model. */
static bool layers_read_back(const ModelFamily *a, const Model *m) {
    const Header h = header_of(m, a);
    const Config *c = &m->config;
    const bool same_base = a->local_base > 0 || h.config.local_base == c->rope.base;
    const bool same_amplitude = a->local_base == 0 || c->rope.amplitude == yarn_amplitude(c->rope.yarn.factor, 1);
    bool alike = h.config.local_base == 0 || (same_base && same_amplitude);
    for (const Layer *layer = m->layers; layer < m->layers + c->n_layers; layer++) {
        Layer read_back = {.index = layer->index};
        family_set_layer(a, (int)h.window, NULL, &read_back);
        const bool none = layer->window == 0 && read_back.window == c->context;
        const bool same_window = !(a->may & PERIODIC_WINDOWS) || layer->window == read_back.window || none;
        alike = alike && same_window && layer->rope == read_back.rope;
    }
    return alike;
}

/* Whether two factors are equal up to rounding; 0 stands for `usual`. */
static bool same_factor(float x, float y, double usual) {
    return fabs((x != 0 ? (double)x : usual) / (y != 0 ? (double)y : usual) - 1) < 1e-6;
}

static bool has_own_factors(const ModelFamily *a, const Config *c) {
    Config defaults = {.dim = c->dim, .n_heads = c->n_heads, .n_layers = c->n_layers};
    family_set_formulas(a, &defaults);
    return !same_factor(c->embedding_scale, defaults.embedding_scale, 1) || !same_factor(c->residual_scale, 0, 1) ||
           !same_factor(c->attention_scale, defaults.attention_scale, 1 / sqrt(c->head_size)) ||
           !same_factor(c->logit_scale, 0, 1);
}

/* Whether the architecture supports models with (or without) this trait. */
static bool supports(const ModelFamily *a, int trait, bool with) {
    return with ? (a->has | a->may) & trait : !(a->has & trait);
}

/* The suffix of the first tensor of a part (.weight, .bias) that the architecture cannot store; NULL: none. */
static const char *difference_in(const PartAt *at, const ModelFamily *a) {
    const Config *c = &at->model->config;
    const Part *part = at->part;
    const Tensor *w = part_weight(at);
    const Norm *norm = part_norm(at);
    const bool may_have_bias = part->bias == QKV_BIAS ? !(a->has & FUSED) : part->bias == NO_BIAS || a->may & BIASES;
    if (w && part->rows == SIZE_EXPERTS && c->n_experts && !w->data) return ".weight";
    if (w) return w->bias && !may_have_bias ? ".bias" : NULL;
    if (!norm->gamma != !family_has_norm(a, part)) return ".weight";
    if (!norm->gamma) return NULL;
    if (!supports(a, LAYER_NORMS, norm->kind == NORM_LAYER)) return ".bias";
    bool bare = !norm->beta;
    for (int i = 0; bare && i < part_size(c, part->cols); i++) bare = norm->gamma[i] == 1;
    return a->has & BARE_NORMS && !bare ? ".weight" : NULL;
}

enum { DIFFERENCE_NAME = PART_NAME + 8 }; /* max bytes of the name of a difference */

/* The index of the first part or trait that the architecture cannot store, with its name in `difference`. If it can
 * store all, their number, with "" in `difference`. */
static int first_difference(const ModelFamily *a, const Model *m, char *difference) {
    const Config *c = &m->config;
    const struct {
        int trait; /* 0: no architecture has it */
        bool is_there;
        const char *name;
    } traits[] = {{SPARSE, c->n_experts > 0, "expert_count"},
                  {WIDE_HEAD_NORMS, c->wide_head_norms, "head norms over all heads"},
                  {GELU, c->activation == ACTIVATION_GELU, "GELU"},
                  {SCORE_CAP, c->attention_cap != 0, "attn_logit_softcapping"},
                  {LOGIT_CAP, c->logit_cap != 0, "final_logit_softcapping"},
                  {SCALES, has_own_factors(a, c), "a scale of embeddings, scores, residuals or logits"},
                  {0, !layers_read_back(a, m), "the windows or the RoPE of its layers"},
                  {NEIGHBOURS, !c->rope.halves, "RoPE that pairs neighbours"},
                  {PARTIAL_ROPE, c->rope.dims != c->head_size, "rope.dimension_count"},
                  {ROPE_FACTORS, m->rope_factors && !is_plain_yarn(m), "rope_scaling"},
                  {ODD_HEADS, c->head_size * c->n_heads != c->dim, "a head size that is not dim / n_heads"},
                  {TIED, m->tied, "a tied output"},
                  {RAW_TOPK, c->n_experts && !c->norm_topk, "norm_topk_prob"}};
    char name[PART_NAME];
    int n = 0;
    for (PartAt at = parts_of(m); next_slot(&at); n++) {
        const char *end = difference_in(&at, a);
        if (end) snprintf(difference, DIFFERENCE_NAME, "%s%s", part_name(name, &at, NAME_GGUF), end);
        if (end) return n;
    }
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++, n++) {
        snprintf(difference, DIFFERENCE_NAME, "%s", traits[i].name);
        if (!supports(a, traits[i].trait, traits[i].is_there)) return n;
    }
    *difference = '\0';
    return n;
}

/* The first architecture that can store the model, else the one whose first difference is last. `difference` receives
 * the name of that difference, or "". */
static const ModelFamily *architecture_of(const Model *model, char *difference) {
    const ModelFamily *closest = FAMILIES;
    int furthest = -1;
    for (const ModelFamily *a = FAMILIES; a->gguf; a++) {
        const int n = first_difference(a, model, difference);
        if (n > furthest) closest = a;
        if (n > furthest) furthest = n;
    }
    first_difference(closest, model, difference);
    return closest;
}

/* Whether float32 can represent x. If x became 0, its key would be omitted; if it became infinite, readers would refuse
 * it. */
static bool is_float(double x) { return x == 0 || ((float)x != 0 && isfinite((float)x)); }

/* The value of a numeric key; else 0. */
static double number_of(const Key *key, const Header *h) {
    const void *field = (const char *)h + key->field;
    if (key->kind == KEY_SIZE) return *(const int *)field;
    if (key->kind == KEY_INTEGER) return (double)*(const int64_t *)field;
    if (key->kind == KEY_FLOAT || key->kind == KEY_CAP) return (double)*(const float *)field;
    return key->kind == KEY_REAL ? *(const double *)field : 0;
}

static int check_numbers(const Model *model, const ModelFamily *a, const Header *h, const char *path) {
    static const char not_float32[] = "which float32 cannot represent";
    for (const Key *key = KEYS; key->gguf || key->hf; key++)
        if (key->gguf && family_has_key(a, key) && !is_float(number_of(key, h)))
            return fail("%s: %s.%s would be %g, %s", path, a->gguf, key->gguf, number_of(key, h), not_float32);
    for (int i = 0; a->may & ROPE_FACTORS && model->rope_factors && i < model->config.rope.dims / 2; i++)
        if (!is_float(model->rope_factors[i]))
            return fail("%s: factor %d of rope_freqs would be %g, %s", path, i, model->rope_factors[i], not_float32);
    for (PartAt at = parts_of(model); next_part(&at);) {
        const Norm *norm = part_norm(&at);
        if (norm && norm->kind >= NORM_NONE)
            return fail("%s: GGUF cannot store norms of the kind %s", path, norm_name(norm->kind));
        if (norm && norm->eps != (norm->kind == NORM_LAYER ? h->layer_eps : h->rms_eps))
            return fail("%s: its %ss differ in eps, and GGUF has one eps for all", path, norm_name(norm->kind));
    }
    return 0;
}

static int compare_ranks(const void *a, const void *b) {
    const MergeRule *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The merge rules by rank; the caller frees the list. */
static MergeRule *ranked_rules(const Merges *m) {
    MergeRule *rules = allocate((size_t)m->n + 1, sizeof *rules);
    if (!rules) return NULL;
    memcpy(rules, m->rules, (size_t)m->n * sizeof *rules);
    qsort(rules, (size_t)m->n, sizeof *rules, compare_ranks);
    return rules;
}

/* Whether any two pieces whose concatenation is a piece also have a merge rule. */
static bool all_pieces_merge(const Tokenizer *t) {
    for (const Piece *p = t->pieces.list; p < t->pieces.list + t->pieces.n; p++) {
        if (p->kind != PIECE_TEXT) continue;
        if (p->length > MAX_MATCHED_BYTES) return false; /* too long to look up all its parts */
        for (int n = 1; n < p->length; n++) {
            const int left = pieces_find(&t->pieces, p->text, n),
                      right = pieces_find(&t->pieces, p->text + n, p->length - n);
            if (left >= 0 && right >= 0 && !merges_rule(&t->merges, left, right)) return false;
        }
    }
    return true;
}

/* The scores of all pieces; the caller frees them. With merge rules, a piece's score is minus the rank of the first
 * rule that produces it. */
static float *piece_scores(const Tokenizer *t) {
    float *scores = allocate((size_t)t->pieces.n, sizeof *scores);
    if (!scores) return NULL;
    for (int id = 0; id < t->pieces.n; id++)
        scores[id] = t->merges.rules ? -(float)t->merges.n : t->pieces.list[id].score;
    for (const MergeRule *rule = t->merges.rules; rule && rule < t->merges.rules + t->merges.n; rule++)
        scores[rule->result] = fmaxf(scores[rule->result], -(float)rule->rank);
    return scores;
}

/* Whether rules that produce the same piece are adjacent in rank, so that scores fall as ranks rise. */
static bool ranks_are_by_piece(const Tokenizer *t) {
    MergeRule *rules = ranked_rules(&t->merges);
    float *scores = rules ? piece_scores(t) : NULL;
    bool by_piece = scores;
    for (int i = 1; i < t->merges.n && by_piece; i++) by_piece = scores[rules[i].result] <= scores[rules[i - 1].result];
    free(scores);
    free(rules);
    return by_piece;
}

/* Whether merge rules with this piece work in the file, too: it is a text piece, and the first one with its text. */
static bool may_merge(const Pieces *p, int id) {
    const Piece *piece = &p->list[id];
    return piece->kind == PIECE_TEXT && id != p->unk && pieces_find(p, piece->text, piece->length) == id;
}

/* Describes a text without special tokens that the GGUF file would tokenize differently. NULL: there is none. */
static const char *changed_in_gguf(const Tokenizer *t) {
    const Pieces *p = &t->pieces;
    for (int byte = 0; byte < 256; byte++) {
        const char text = (char)byte;
        const bool in_utf8 = byte < 0xc0 || (byte > 0xc1 && byte < 0xf5);
        const bool has_piece = byte < 0x80 && pieces_find(p, &text, 1) >= 0;
        if (p->byte_piece[byte] == p->unk && (p->byte_level ? p->unk >= 0 : in_utf8 && !has_piece))
            return "characters without a piece, because byte pieces are missing";
    }
    if (p->byte_level && t->space_prefix != SPACE_NEVER) return "ByteLevel inserts a space before a text";
    if (!p->byte_level && !t->normalizer.replaces_mark) return "U+2581, which is a space in GGUF";
    for (int id = 0; id < p->n && !p->byte_level; id++)
        if (p->list[id].kind == PIECE_USER && (p->list[id].raw || t->space_prefix != SPACE_NEVER))
            return "text next to an added token";
    for (const MergeRule *r = t->merges.rules; r < t->merges.rules + t->merges.n; r++)
        if (!may_merge(p, r->left) || !may_merge(p, r->right) || !may_merge(p, r->result))
            return "merges of added tokens, of <unk>, or of two pieces with the same text";
    /* scores are equivalent to rules, except for the order of two rules for the same piece */
    if (!p->byte_level && (!all_pieces_merge(t) || !ranks_are_by_piece(t)))
        return "its merges are not those of a SentencePiece vocabulary";
    return NULL;
}

static int check_tokenizer(const Tokenizer *t, const char *path) {
    const Pretokenizer *p = &t->pretokenizer;
    const bool byte_level = t->pieces.byte_level;
    if (!t->merges.rules) return 0;
    if (byte_level ? !gguf_pretokenizer_name(p).text : p->n_steps || p->whole_words || t->normalizer.composes)
        return fail("%s: GGUF has no name for its pre-tokenizer (%s%s)%s", path, pretokenizer_shown(p),
                    p->whole_words ? ", ignore_merges" : "", byte_level ? "" : " without ByteLevel");
    const char *changed = changed_in_gguf(t);
    if (changed) return fail("%s: GGUF would tokenize differently: %s", path, changed);
    bool strips = false;
    for (int id = 0; id < t->pieces.n; id++)
        strips |= t->pieces.list[id].strips_left || t->pieces.list[id].strips_right;
    if (strips) note("some pieces absorb the white space next to them; GGUF cannot store that");
    if (t->space_prefix == SPACE_IF_NONE || t->space_prefix == SPACE_ONCE)
        note("GGUF always inserts a space before a text; the folder does so only if the text has none");
    return 0;
}

int gguf_check_model(const Model *model, const Tokenizer *tokenizer, const char *path) {
    char difference[DIFFERENCE_NAME];
    const ModelFamily *a = architecture_of(model, difference);
    const Header h = header_of(model, a);
    if (*difference) return fail("%s: no GGUF architecture can store it; %s differs in: %s", path, a->gguf, difference);
    if (check_numbers(model, a, &h, path)) return -1;
    if (h.config.context < model->config.context)
        note("GGUF's %s cannot store windows; the file's context is %d, the shortest window", a->gguf,
             h.config.context);
    return tokenizer ? check_tokenizer(tokenizer, path) : 0;
}

/* ---- values (output_close() reports a failed write) -------------------------------------------- */

typedef struct {
    const Model *model;
    const ModelFamily *architecture;
    Type type; /* requested */
    bool fold; /* gamma into weights */
    FILE *out; /* NULL in the first pass, which fills `head`; then the file */
    Buffer head;
    uint64_t n_keys, n_tensors;
    uint64_t offset;  /* of the next tensor in the data */
    uint64_t written; /* bytes of the file */
    bool shows;       /* progress; set once, because isatty() changes errno, which a failed write reports */
    size_t done;      /* weights written */
    float *row;       /* [widest row] */
    uint8_t *packed;  /* a row in its new type; follows `row` */
} Writer;

static void write_bytes(Writer *w, const void *bytes, size_t n) {
    if (w->out)
        w->written += fwrite(bytes, 1, n, w->out);
    else
        buffer_append(&w->head, bytes, n);
}
static void write_u32(Writer *w, uint32_t value) { write_bytes(w, &value, sizeof value); }
static void write_u64(Writer *w, uint64_t value) { write_bytes(w, &value, sizeof value); }

static void write_string(Writer *w, const char *s, size_t n) {
    write_u64(w, n);
    write_bytes(w, s, n);
}

/* Begins a string of the header. end_string() fills in its length. */
static size_t begin_string(Writer *w) {
    write_u64(w, 0);
    return w->head.n;
}
static void end_string(Writer *w, size_t start) {
    const uint64_t n = w->head.n - start;
    if (!w->head.failed) memcpy(w->head.bytes + start - sizeof n, &n, sizeof n);
}

static void write_value(Writer *w, const char *key, GgufType type, const void *value, size_t bytes) {
    write_string(w, key, strlen(key));
    write_u32(w, type);
    write_bytes(w, value, bytes);
    w->n_keys++;
}

static void write_bool(Writer *w, const char *key, bool value) { write_value(w, key, GGUF_BOOL, &value, 1); }
/* A negative number is the id of a missing token and is not written. */
static void write_int(Writer *w, const char *key, int value) {
    if (value >= 0) write_value(w, key, GGUF_U32, &value, sizeof value);
}

static void write_name(Writer *w, const char *key, const char *name, size_t n) {
    write_value(w, key, GGUF_STRING, "", 0);
    write_string(w, name, n);
}

/* Begins an array. The caller writes its n elements. */
static void write_array(Writer *w, const char *key, GgufType type, int n) {
    write_value(w, key, GGUF_ARRAY, "", 0);
    write_u32(w, type);
    write_u64(w, (uint64_t)n);
}

/* ---- the tokenizer ------------------------------------------------------------------------- */

/* Appends the name of a piece in a byte-level vocabulary: one character for each byte. */
static void append_byte_names(Buffer *out, const Piece *p) {
    for (int i = 0; i < p->length; i++) {
        char name[2];
        const int length = byte_name(name, (uint8_t)p->text[i]);
        buffer_append(out, name, (size_t)length);
    }
}

/* Appends the name of a piece in another vocabulary: U+2581 for a space, and without the newlines that llama2.c puts
 * around control pieces. */
static void append_marked(Buffer *out, const Piece *p) {
    for (int i = 0; i < p->length; i++)
        if (p->text[i] == ' ')
            buffer_append(out, SPACE_MARK, 3);
        else if (p->text[i] != '\n' || p->kind != PIECE_CONTROL)
            buffer_append(out, &p->text[i], 1);
}

static void write_pieces(Writer *w, const Tokenizer *t) {
    write_array(w, "tokenizer.ggml.tokens", GGUF_STRING, t->pieces.n);
    for (int id = 0; id < t->pieces.n; id++) {
        const Piece *p = &t->pieces.list[id];
        const size_t start = begin_string(w);
        char name[32];
        if (p->kind == PIECE_BYTE)
            buffer_append(&w->head, name, (size_t)sprintf(name, "<0x%02X>", (unsigned)(uint8_t)p->text[0]));
        else if (!t->pieces.byte_level)
            append_marked(&w->head, p);
        else if (!p->length)
            buffer_append(&w->head, name, (size_t)sprintf(name, "[PAD%d]", id)); /* pieces must be unique */
        else if (p->kind == PIECE_TEXT)
            append_byte_names(&w->head, p);
        else
            buffer_append(&w->head, p->text, (size_t)p->length);
        end_string(w, start);
    }
}

/* GGUF's types of pieces: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. */
static void write_piece_types(Writer *w, const Tokenizer *t) {
    static const int32_t types[] = {
        [PIECE_TEXT] = 1, [PIECE_USER] = 4, [PIECE_SPECIAL] = 3, [PIECE_BYTE] = 6, [PIECE_CONTROL] = 3};
    write_array(w, "tokenizer.ggml.token_type", GGUF_I32, t->pieces.n);
    for (int id = 0; id < t->pieces.n; id++) {
        const Piece *p = &t->pieces.list[id];
        const bool unused = p->kind == PIECE_CONTROL && (t->pieces.byte_level || !p->length);
        const int32_t type = unused ? 5 : id == t->pieces.unk ? 2 : types[p->kind];
        write_bytes(w, &type, sizeof type);
    }
}

static int write_tokenizer(Writer *w, const Tokenizer *t) {
    const bool byte_level = t->pieces.byte_level;
    const String pre = gguf_pretokenizer_name(&t->pretokenizer);
    MergeRule *rules = byte_level ? ranked_rules(&t->merges) : NULL;
    float *scores = byte_level ? NULL : piece_scores(t);
    if (!rules && !scores) return -1;
    write_name(w, "tokenizer.ggml.model", byte_level ? "gpt2" : "llama", byte_level ? 4 : 5);
    if (byte_level) write_name(w, "tokenizer.ggml.pre", pre.text, pre.n);
    if (byte_level && t->normalizer.composes) write_name(w, "norma.tokenizer.normalizer", "nfc", 3);
    write_pieces(w, t);
    write_array(w, byte_level ? "tokenizer.ggml.merges" : "tokenizer.ggml.scores", byte_level ? GGUF_STRING : GGUF_F32,
                byte_level ? t->merges.n : t->pieces.n);
    if (scores) write_bytes(w, scores, (size_t)t->pieces.n * sizeof *scores);
    for (const MergeRule *rule = rules; rule && rule < rules + t->merges.n; rule++) {
        const size_t start = begin_string(w);
        append_byte_names(&w->head, &t->pieces.list[rule->left]);
        buffer_append(&w->head, " ", 1);
        append_byte_names(&w->head, &t->pieces.list[rule->right]);
        end_string(w, start);
    }
    free(rules);
    free(scores);
    write_piece_types(w, t);
    int eot = t->eot; /* GGUF can store one end token besides EOS */
    for (int i = 0; i < t->n_ends && eot < 0; i++)
        if (t->ends[i] != t->eos) eot = t->ends[i];
    write_int(w, "tokenizer.ggml.bos_token_id", t->bos);
    write_int(w, "tokenizer.ggml.eos_token_id", t->eos);
    write_int(w, "tokenizer.ggml.unknown_token_id", t->pieces.unk);
    write_int(w, "tokenizer.ggml.eot_token_id", eot);
    write_bool(w, "tokenizer.ggml.add_bos_token", !t->no_bos);
    write_bool(w, "tokenizer.ggml.add_eos_token", false);
    write_bool(w, "tokenizer.ggml.add_space_prefix", t->space_prefix != SPACE_NEVER);
    if (t->chat_template) write_name(w, "tokenizer.chat_template", t->chat_template, t->chat_template_size);
    return 0;
}

static void write_header_key(Writer *w, const Key *key, const Header *h) {
    char name[GGUF_KEY_NAME];
    const String *text = (const void *)((const char *)h + key->field);
    const float number = (float)number_of(key, h);
    const bool is_integer = key->kind == KEY_SIZE || key->kind == KEY_INTEGER;
    if (!key->gguf || !family_has_key(w->architecture, key)) return;
    snprintf(name, sizeof name, "%s.%s", w->architecture->gguf, key->gguf);
    if (key->kind == KEY_STRING && text->n) write_name(w, name, text->text, text->n);
    if (is_integer && number != 0) write_int(w, name, (int)number_of(key, h));
    if (!is_integer && number != 0) write_value(w, name, GGUF_F32, &number, sizeof number);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static uint64_t aligned(uint64_t n) { return (n + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT; }

static void write_padding(Writer *w) {
    static const uint8_t zeros[GGUF_ALIGNMENT];
    write_bytes(w, zeros, aligned(w->written) - w->written);
}

/* First pass: writes a tensor's entry in the table and returns false. Second pass: aligns the file and returns true:
 * the caller then writes the tensor's data. */
static bool begin_tensor(Writer *w, const char *name, const char *suffix, int depth, int rows, int cols, Type type) {
    const uint64_t dims[] = {(uint64_t)cols, (uint64_t)rows, (uint64_t)depth};
    char full[PART_NAME + 8];
    const uint32_t n_dims = depth > 1 ? 3 : rows > 1 ? 2 : 1;
    if (w->out) write_padding(w);
    if (w->out) return true;
    write_string(w, full, (size_t)snprintf(full, sizeof full, "%s%s", name, suffix));
    write_u32(w, n_dims);
    write_bytes(w, dims, n_dims * sizeof *dims);
    write_u32(w, (uint32_t)TYPES[type].gguf);
    write_u64(w, w->offset);
    w->offset += aligned((size_t)depth * tensor_bytes(&(Tensor){.type = type, .cols = cols}, rows));
    w->n_tensors++;
    return false;
}

static void write_vector(Writer *w, const char *name, const char *suffix, const float *v, int n) {
    if (begin_tensor(w, name, suffix, 1, 1, n, TYPE_F32)) write_bytes(w, v, (size_t)n * sizeof *v);
}

/* A LayerNorm without beta is written with a beta of zeros: in a GGUF file, the bias makes a norm a LayerNorm. */
static void write_norm(Writer *w, const char *name, PartAt at) {
    const Norm *norm = part_norm(&at);
    const int dim = part_size(&w->model->config, at.part->cols);
    const bool folded = w->fold && part_folded(&at);
    if (w->architecture->has & BARE_NORMS) return;
    if (w->fold && !folded && !w->out && at.layer % w->model->config.n_layers == 0) note("%s keeps its gamma", name);
    for (int i = 0; folded && i < dim; i++) w->row[i] = 1;
    write_vector(w, name, ".weight", folded ? w->row : norm->gamma, dim);
    if (norm->kind != NORM_LAYER) return;
    memset(w->row, 0, (size_t)dim * sizeof *w->row);
    write_vector(w, name, ".bias", norm->beta ? norm->beta : w->row, dim);
}

/* The row of the model's weight that is written as row r. Rows of queries and keys are permuted if RoPE pairs halves of
 * a head in the model and neighbours in the file. */
static int source_row(const Writer *w, const Part *part, int r) {
    const Config *c = &w->model->config;
    const int i = r % c->head_size;
    if (!part->rotates || !c->rope.halves || !(w->architecture->may & NEIGHBOURS) || i >= c->rope.dims) return r;
    return r - i + i / 2 + i % 2 * (c->rope.dims / 2);
}

static void write_rows(Writer *w, const PartAt *at, Type type) {
    const Tensor *t = part_weight(at);
    const float *gamma = w->fold ? part_folded(at) : NULL;
    const size_t bytes = tensor_bytes(&(Tensor){.type = type, .cols = t->cols}, 1);
    for (int r = 0; r < t->rows && !interrupted && !ferror(w->out); r++) {
        dequantize_row(w->row, t, source_row(w, at->part, r));
        for (int i = 0; gamma && i < t->cols; i++) w->row[i] *= gamma[i];
        quantize_row(w->packed, type, w->row, t->cols);
        write_bytes(w, w->packed, bytes);
        w->done += (size_t)t->cols;
    }
    if (w->shows) fprintf(stderr, "\r%3.0f %%", 100.0 * (double)w->done / (double)w->model->parameters);
}

/* Writes a weight, or the weights of all experts of a layer as one tensor. The router stays float32: a quantized
 * router would choose other experts. */
static void write_weight(Writer *w, const char *name, PartAt at) {
    const Tensor *t = part_weight(&at);
    const int depth = at.part->owner == OF_EXPERT ? w->model->config.n_experts : 1;
    const PartRows part = family_fuses(w->architecture, at.part) ? part_fused(&at) : (PartRows){0, t->rows};
    const bool whole_blocks = t->cols % TYPES[w->type].weights == 0;
    const Type type = at.part->rows == SIZE_EXPERTS ? TYPE_F32 : whole_blocks ? w->type : TYPE_F16;
    if (part.first ? w->out != NULL : begin_tensor(w, name, ".weight", depth, part.all, t->cols, type))
        for (; at.expert < depth; at.expert++) write_rows(w, &at, type);
    else if (!w->out && !whole_blocks && !part.first)
        note("%s.weight becomes f16: its rows of %d are not a multiple of %d", name, t->cols, TYPES[w->type].weights);
    if (!t->bias) return;
    for (int r = 0; at.part->rotates && r < t->rows; r++) w->row[r] = t->bias[source_row(w, at.part, r)];
    write_vector(w, name, ".bias", at.part->rotates ? w->row : t->bias, t->rows);
}

static void write_factors(Writer *w, const char *name, const double *factors) {
    const int n = w->model->config.rope.dims / 2;
    for (int i = 0; i < n; i++) w->row[i] = (float)factors[i];
    write_vector(w, name, ".weight", w->row, n);
}

static void write_tensors(Writer *w) {
    const Model *m = w->model;
    char name[PART_NAME];
    for (PartAt at = parts_of(m); next_part(&at);)
        if (at.expert == 0)
            (part_norm(&at) ? write_norm : write_weight)(w, family_part_name(w->architecture, name, &at, NAME_GGUF),
                                                         at);
    PartAt first = parts_of(m);
    if (m->tied && w->architecture->has & STORED_OUTPUT && next_part(&first)) write_weight(w, "output", first);
    if (!m->rope_factors || !(w->architecture->may & ROPE_FACTORS)) return;
    const bool longrope = w->architecture->has & FUSED;
    write_factors(w, longrope ? "rope_factors_short" : "rope_freqs", m->rope_factors);
    if (longrope) write_factors(w, "rope_factors_long", m->long_factors ? m->long_factors : m->rope_factors);
}

/* ---- the file ------------------------------------------------------------------------------ */

/* Writes everything before the data. */
static int write_header(Writer *w, const Tokenizer *t) {
    const Header h = header_of(w->model, w->architecture);
    write_u32(w, GGUF_MAGIC);
    write_u32(w, GGUF_VERSION);
    write_bytes(w, (uint64_t[2]){0}, sizeof(uint64_t[2])); /* the counts of tensors and keys */
    write_name(w, "general.architecture", w->architecture->gguf, strlen(w->architecture->gguf));
    write_int(w, "general.file_type", TYPES[w->type].file);
    write_int(w, "general.quantization_version", 2);
    for (const Key *key = KEYS; key->gguf || key->hf; key++) write_header_key(w, key, &h);
    if (!t) write_name(w, "tokenizer.ggml.model", "none", 4); /* other programs require the key */
    /* head.failed: out of memory, already reported */
    if (!w->head.failed && t && write_tokenizer(w, t)) return -1;
    if (!w->head.failed) write_tensors(w);
    if (w->head.failed) return -1;
    memcpy(w->head.bytes + 2 * sizeof(uint32_t), (uint64_t[]){w->n_tensors, w->n_keys}, sizeof(uint64_t[2]));
    return 0;
}

static int write_file(Writer *w, const Tokenizer *t, const char *path) {
    OutputFile file;
    if (write_header(w, t) || output_open(&file, path)) return -1;
    w->out = file.stream;
    write_bytes(w, w->head.bytes, w->head.n);
    write_tensors(w);
    write_padding(w);
    if (w->shows) fputc('\n', stderr);
    return output_close(&file, !interrupted);
}

int gguf_write_model(const Model *model, const Tokenizer *tokenizer, Type type, bool fold, const char *path) {
    Writer w = {.model = model, .type = type, .fold = fold, .shows = on_terminal(stderr)};
    w.architecture = architecture_of(model, (char[DIFFERENCE_NAME]){0});
    size_t widest = 0;
    for (PartAt at = parts_of(model); next_part(&at);) {
        const size_t cols = (size_t)part_size(&model->config, at.part->cols);
        if (cols > widest) widest = cols;
    }
    w.row = allocate(2 * widest, sizeof *w.row);
    w.packed = w.row ? (uint8_t *)(w.row + widest) : NULL;
    const int status = w.row ? write_file(&w, tokenizer, path) : -1;
    free(w.head.bytes);
    free(w.row);
    return status;
}
