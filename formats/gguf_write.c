/* gguf_write.c: writes a model as a GGUF file (version 3).
 *
 * Owns which models and tokenizers GGUF can store, the changes of weights that
 * --fold-norms and --center make, and the file's layout: metadata, tensor
 * table, data. The metadata and the table are complete in memory before the
 * file is opened, so that all refusals come before it. family.c has the tables
 * of architectures and keys; kernels/quant.c packs the blocks.
 * Tests: convert, families, bpe.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/family.h"
#include "formats/gguf.h"
#include "formats/open.h"
#include "formats/parts.h"
#include "formats/stored.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"
#include "norm.h"
#include "rope.h"
#include "text/merges.h"
#include "text/pieces.h"
#include "text/pretokenize.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const Model *model;
    const Tokenizer *tokenizer; /* NULL: none */
    const char *source;         /* the model's path, for messages */
    const ModelFamily *family;  /* of the file */
    Header header;              /* the values of its keys */
    GgufForm form;
    Gguf given;       /* the keys of the file that the model comes from */
    bool *replaced;   /* [given.n_values], owned: the key is written anew */
    int n_copied;     /* keys of `given` in the file */
    Buffer dropped;   /* names of keys that are not; owned */
    int status;       /* -1 after a message */
    MergeRule *rules; /* the tokenizer's, by rank; owned */
    float *scores;    /* the pieces' scores, owned */
    FILE *out;   /* NULL in the first pass, which fills `head`; then the file */
    Buffer head; /* metadata and tensor table */
    struct {
        uint32_t magic, version;
        uint64_t n_tensors, n_keys;
    } start;          /* the file's first bytes */
    uint64_t end;     /* where the last tensor ends in the data, aligned */
    uint64_t written; /* bytes written to the file */
    int noted;        /* weights that become f16 */
    float *row;       /* [widest row] */
    uint8_t *packed;  /* a row in its new type; follows `row` */
    float *unpacked;  /* the numbers that `packed` holds; follows `packed` */
    /* what centering subtracts from a row; follows `unpacked` */
    double *means;
    int new_end; /* a token that ends texts in the file only; -1: none */
} Writer;

/* ---- the architecture --------------------------------------------------- */

/* The values of the keys to write; zeros are not written. The eps is that of
 * the last norm of each kind. The context is cut to a window that cannot be
 * stored. */
static Header header_of(const Model *model, const ModelFamily *a) {
    Header h = {.config = model->config,
                .value_length = model->config.head_size,
                .n_experts = model->config.n_experts,
                .n_experts_used = model->config.n_experts_used};
    Config *c = &h.config;
    Rope *rope = &c->rope;
    PART_EACH(at, model) {
        const Norm *norm = part_norm(&at);
        if (norm && norm->kind == NORM_LAYER)
            h.layer_eps = norm->eps;
        else if (norm)
            h.rms_eps = norm->eps;
    }
    if (h.rms_eps == 0)
        h.rms_eps = h.layer_eps;
    EACH(const Layer, layer, model->layers, c->n_layers) {
        if (layer->window && a->gguf.window == WINDOW_STORED)
            h.window = layer->window;
        else if (layer->window && layer->window < c->context)
            c->context = layer->window;
    }
    if (!h.window && a->gguf.default_window)
        h.window = c->context;
    if (model->long_factors) {
        h.original_context = model->config.context;
        c->context = model->long_context;
    }
    if (model->rope_factors && a->gguf.factors == NO_FACTOR_TENSORS) {
        h.scaling = (String){"yarn", 4};
        h.factor = rope->yarn.factor;
        h.original_context = (int)rope->yarn.context;
        rope->amplitude /= yarn_amplitude(h.factor, 1);
    } else if (rope->scale != 1) {
        h.scaling = (String){"linear", 6};
        h.factor = rope->scale;
    }
    if (rope->amplitude == 1)
        rope->amplitude = 0;
    rope->yarn = (Yarn){0}; /* beta_fast and beta_slow are the defaults */
    return h;
}

/* ---- values (output_close() reports a failed write) ---------------------- */

static void write_bytes(Writer *w, const void *bytes, size_t n) {
    if (w->out)
        w->written += fwrite(bytes, 1, n, w->out);
    else
        buffer_append(&w->head, bytes, n);
}
static void write_u32(Writer *w, uint32_t value) {
    write_bytes(w, &value, sizeof value);
}
static void write_u64(Writer *w, uint64_t value) {
    write_bytes(w, &value, sizeof value);
}

static void write_string(Writer *w, const char *s, size_t n) {
    write_u64(w, n);
    write_bytes(w, s, n);
}

/* Begins a key. The caller writes its value. */
static void begin_value(Writer *w, const char *key, GgufType type) {
    const GgufValue *given = gguf_find_value(&w->given, key);
    if (given && w->replaced)
        w->replaced[given - w->given.values] = true;
    write_string(w, key, strlen(key));
    write_u32(w, type);
    w->start.n_keys++;
}

static void write_bool(Writer *w, const char *key, bool value) {
    begin_value(w, key, GGUF_BOOL);
    write_bytes(w, &value, 1);
}
/* A negative number is the id of a missing token and is not written. */
static void write_int(Writer *w, const char *key, int value) {
    if (value < 0)
        return;
    begin_value(w, key, GGUF_U32);
    write_u32(w, value);
}

static void write_real(Writer *w, const char *key, float value) {
    begin_value(w, key, GGUF_F32);
    write_bytes(w, &value, sizeof value);
}

static void write_name(Writer *w, const char *key, const char *name, size_t n) {
    begin_value(w, key, GGUF_STRING);
    write_string(w, name, n);
}
static void write_text(Writer *w, const char *key, const char *text) {
    write_name(w, key, text, strlen(text));
}

/* Begins an array. The caller writes its n elements. */
static void write_array(Writer *w, const char *key, GgufType type, int n) {
    begin_value(w, key, GGUF_ARRAY);
    write_u32(w, type);
    write_u64(w, n);
}

/* x in float32. Fails if it would become 0, subnormal or infinite, which the
 * reader refuses. */
static float to_float(Writer *w, const char *name, double x) {
    float value = (float)x;
    if (!w->status && !isnormal(value))
        w->status = fail("%s: %s would be %g, which float32 cannot represent",
                         w->source, name, x);
    return value;
}

/* ---- the tokenizer ------------------------------------------------------ */

/* Fills in the rules and the scores. With merge rules, a piece's score is minus
 * the rank of the first rule that produces it. */
static int rank_pieces(Writer *w) {
    const Pieces *p = &w->tokenizer->pieces;
    int n = p->n_rules;
    w->rules = allocate((size_t)n + 1, sizeof *w->rules);
    w->scores = w->rules ? allocate(p->n, sizeof *w->scores) : NULL;
    if (!w->scores)
        return -1;
    for (int i = 0; i < n; i++)
        w->rules[p->rules[i].rank] = p->rules[i];
    for (int id = 0; id < p->n; id++)
        w->scores[id] = p->rules ? -(float)n : p->list[id].score;
    for (int i = n; i-- > 0;)
        w->scores[w->rules[i].result] = -(float)i;
    return 0;
}

/* Whether merge rules with this piece work in the file, too: it is a text
 * piece, and the first one with its text. */
static bool may_merge(const Pieces *p, int id) {
    const Piece *piece = &p->list[id];
    return piece->kind == PIECE_TEXT && id != p->unk &&
           pieces_find(p, piece->text, piece->length) == id;
}

/* Whether scores are equivalent to the rules from `first` on, except for the
 * order of two rules for the same piece: any two pieces whose concatenation is
 * a piece have a rule, and rules that produce the same piece are adjacent in
 * rank. */
static bool scores_are_rules(const Writer *w, int first) {
    const Pieces *p = &w->tokenizer->pieces;
    /* pairs of pieces that make up a piece; each rule is one of them */
    int n = first;
    EACH(const Piece, piece, p->list, p->n) {
        if (piece->kind != PIECE_TEXT)
            continue;
        if (piece->length > MAX_MATCHED_BYTES)
            return false; /* too long to look up all its parts */
        for (int i = 1; i < piece->length; i++)
            n += pieces_find(p, piece->text, i) >= 0 &&
                 pieces_find(p, piece->text + i, piece->length - i) >= 0;
    }
    for (int i = first + 1; i < p->n_rules; i++)
        if (w->scores[w->rules[i].result] > w->scores[w->rules[i - 1].result])
            return false;
    return n == p->n_rules;
}

/* An added token may become a control token: in GGUF no space is inserted
 * after it. */
static PieceKind kind_in_file(const Tokenizer *t, const Piece *p) {
    bool becomes_control = !t->pieces.byte_level && p->kind == PIECE_USER &&
                           p->raw && t->space_prefix != SPACE_NEVER;
    return becomes_control ? PIECE_SPECIAL : p->kind;
}

/* Whether an added token matches spaces in GGUF and U+2581 in the folder, where
 * merges produce it from spaces (Gemma). */
static bool is_spaces(const Piece *p) {
    return p->kind == PIECE_USER && p->raw &&
           memmem(p->text, p->length, SPACE_MARK, 3);
}

/* Describes a text without special tokens that the GGUF file would tokenize
 * differently. NULL: there is none. The first rules may produce added tokens,
 * which GGUF matches before it merges. */
static const char *changed_in_gguf(const Writer *w) {
    const Tokenizer *t = w->tokenizer;
    const Pieces *p = &t->pieces;
    bool byte_level = p->byte_level;
    int n = p->n_rules;
    int first = 0; /* rule that produces text */
    for (int byte = 0; byte < 256; byte++)
        if (p->byte_piece[byte] == p->unk && (!byte_level || p->unk >= 0))
            return "characters without a piece, because byte pieces are missing";
    if (byte_level && t->space_prefix != SPACE_NEVER)
        return "ByteLevel inserts a space before a text";
    if (!byte_level && !t->normalizer.replaces_mark)
        return "U+2581, which is a space in GGUF";
    for (int id = 0; id < p->n && !byte_level; id++) {
        const Piece *piece = &p->list[id];
        const bool spaces = is_spaces(piece);
        const bool merges = w->scores[id] > -(float)n;
        const bool has_prefix = t->space_prefix != SPACE_NEVER;
        const bool follows_space =
            piece->kind == PIECE_USER && (!piece->raw || spaces);
        if ((has_prefix && follows_space) || (!has_prefix && spaces && !merges))
            return "text next to an added token";
    }
    while (!byte_level && first < n &&
           p->list[w->rules[first].result].kind != PIECE_TEXT)
        first++;
    EACH(const MergeRule, r, w->rules + first, n - first)
        if (!may_merge(p, r->left) || !may_merge(p, r->right) ||
            !may_merge(p, r->result))
            return "merges of added tokens, of <unk>, or of two pieces with the same text";
    return byte_level || scores_are_rules(w, first)
               ? NULL
               : "its merges are not those of a SentencePiece vocabulary";
}

static int check_tokenizer(const Writer *w) {
    const Tokenizer *t = w->tokenizer;
    const Pretokenizer *p = &t->pretokenizer;
    bool byte_level = t->pieces.byte_level;
    bool is_plain = !*p->steps && !p->whole_words && !t->normalizer.composes;
    bool has_name = byte_level ? pretokenizer_name(p) != NULL : is_plain;
    const char *whole = p->whole_words ? ", ignore_merges" : "";
    const char *without = byte_level ? "" : " without ByteLevel";
    if (!has_name)
        return fail("%s: GGUF has no name for its pre-tokenizer (%.40s%s)%s",
                    w->source, *p->steps ? *p->steps : "none", whole, without);
    const char *changed = t->pieces.rules ? changed_in_gguf(w) : NULL;
    if (changed)
        return fail("%s: GGUF would tokenize differently: %s", w->source,
                    changed);
    bool spaces = false;
    EACH(const Piece, piece, t->pieces.list, t->pieces.n)
        spaces |= piece->strips_left || piece->strips_right ||
                  (!byte_level && is_spaces(piece)) ||
                  kind_in_file(t, piece) != piece->kind;
    if (spaces)
        note(
            "some added tokens treat the white space in them or next to them differently in GGUF");
    if (t->space_prefix == SPACE_IF_NONE || t->space_prefix == SPACE_ONCE)
        note(
            "GGUF always inserts a space before a text; the folder does so only if the text has none");
    return 0;
}

/* Writes the name of a piece: in byte-level vocabularies a character for each
 * byte of a text piece; in others U+2581 for a space, except in user-defined
 * pieces, and without the newlines that llama2.c puts around control pieces. */
static void write_piece_name(Writer *w, const Piece *p) {
    bool byte_level = w->tokenizer->pieces.byte_level;
    char name[2], user[MAX_MATCHED_BYTES];
    if (!byte_level && p->kind == PIECE_USER) {
        memcpy(user, p->text, p->length);
        write_bytes(w, user, unmark_spaces(user, p->length));
        return;
    }
    EACH(const char, s, p->text, p->length)
        if (byte_level && p->kind == PIECE_TEXT)
            write_bytes(w, name, byte_name(name, *s));
        else if (!byte_level && *s == ' ')
            write_bytes(w, SPACE_MARK, 3);
        else if (byte_level || *s != '\n' || p->kind != PIECE_CONTROL)
            write_bytes(w, s, 1);
}

/* Writes a string: the name of a piece, or two names with a space between
 * them. Its size is known once it is written. */
static void write_names(Writer *w, const Piece *first, const Piece *second) {
    size_t at = w->head.n;
    write_u64(w, 0);
    write_piece_name(w, first);
    if (second) {
        write_bytes(w, " ", 1);
        write_piece_name(w, second);
    }
    uint64_t n = w->head.n - at - sizeof n;
    if (!w->head.failed)
        memcpy(w->head.bytes + at, &n, sizeof n);
}

static void write_pieces(Writer *w, const Pieces *pieces) {
    char name[32];
    write_array(w, "tokenizer.ggml.tokens", GGUF_STRING, pieces->n);
    for (int id = 0; id < pieces->n; id++)
        if (pieces->byte_level && !pieces->list[id].length)
            /* pieces must be unique */
            write_string(w, name, sprintf(name, "[PAD%d]", id));
        else
            write_names(w, &pieces->list[id], NULL);
}

static PieceType type_in_file(const Tokenizer *t, int id) {
    switch (kind_in_file(t, &t->pieces.list[id])) {
    case PIECE_TEXT: return PIECE_TYPE_NORMAL;
    case PIECE_USER: return PIECE_TYPE_USER;
    case PIECE_SPECIAL: return PIECE_TYPE_CONTROL;
    case PIECE_BYTE: return PIECE_TYPE_BYTE;
    case PIECE_CONTROL: break;
    }
    if (id == t->pieces.unk)
        return PIECE_TYPE_UNKNOWN;
    return id == t->bos || id == t->eos ? PIECE_TYPE_CONTROL
                                        : PIECE_TYPE_UNUSED;
}

static void write_piece_types(Writer *w, const Tokenizer *t) {
    write_array(w, "tokenizer.ggml.token_type", GGUF_I32, t->pieces.n);
    for (int id = 0; id < t->pieces.n; id++)
        write_u32(w, type_in_file(t, id));
}

/* Writes the tokens that end a text besides EOS: the one that ends a turn and
 * another one have keys of GGUF; of the rest only norma knows. */
static void write_ends(Writer *w, const Tokenizer *t) {
    int eot = t->eot, eom = -1;
    Tokens rest = {0};
    for (int i = 0; i < t->ends.n; i++) {
        const int end = t->ends.ids[i];
        if (end == t->eos || end == eot || end == eom)
            continue;
        if (eot < 0)
            eot = end;
        else if (eom < 0)
            eom = end;
        else if (tokens_add(&rest, end))
            w->status = -1;
    }
    write_int(w, "tokenizer.ggml.eot_token_id", eot);
    write_int(w, "tokenizer.ggml.eom_token_id", eom);
    if (rest.n) {
        write_array(w, OTHER_ENDS_KEY, GGUF_I32, rest.n);
        write_bytes(w, rest.ids, (size_t)rest.n * sizeof *rest.ids);
    }
    free(rest.ids);
}

/* Writes the recommended sampling. A repeat penalty over the whole text has the
 * window -1 in GGUF. */
static void write_advice(Writer *w, const Tokenizer *t) {
    for (int i = 0; i < N_ADVICE; i++) {
        bool whole = i == ADVICE_REPEAT_LAST && t->advice[i].value == 0;
        double value = whole ? -1 : t->advice[i].value;
        if (!t->advice[i].given || !(fabs(value) <= INT_MAX))
            continue;
        if (i == ADVICE_TOP_K || i == ADVICE_REPEAT_LAST) {
            int32_t number = (int32_t)value;
            begin_value(w, ADVICE_KEYS[i], GGUF_I32);
            write_bytes(w, &number, sizeof number);
        } else
            write_real(w, ADVICE_KEYS[i], (float)value);
    }
}

static void write_tokenizer(Writer *w) {
    const Tokenizer *t = w->tokenizer;
    const Pieces *p = &t->pieces;
    bool byte_level = p->byte_level;
    write_text(w, "tokenizer.ggml.model", byte_level ? "gpt2" : "llama");
    if (byte_level)
        write_text(w, "tokenizer.ggml.pre",
                   pretokenizer_name(&t->pretokenizer));
    if (byte_level && t->normalizer.composes)
        write_text(w, "norma.tokenizer.normalizer", "nfc");
    write_pieces(w, p);
    if (byte_level) {
        write_array(w, "tokenizer.ggml.merges", GGUF_STRING, p->n_rules);
        EACH(const MergeRule, rule, w->rules, p->n_rules)
            write_names(w, &p->list[rule->left], &p->list[rule->right]);
    } else {
        write_array(w, "tokenizer.ggml.scores", GGUF_F32, p->n);
        write_bytes(w, w->scores, p->n * sizeof *w->scores);
    }
    write_piece_types(w, t);
    write_int(w, "tokenizer.ggml.bos_token_id", t->bos);
    write_int(w, "tokenizer.ggml.eos_token_id", t->eos);
    write_int(w, "tokenizer.ggml.unknown_token_id", p->unk);
    for (int i = 0; i < N_NAMED_TOKENS; i++)
        write_int(w, NAMED_TOKEN_KEYS[i], t->named[i]);
    write_ends(w, t);
    write_bool(w, "tokenizer.ggml.add_bos_token", t->n_before > 0);
    write_bool(w, "tokenizer.ggml.add_eos_token", false);
    write_bool(w, "tokenizer.ggml.add_space_prefix",
               t->space_prefix != SPACE_NEVER);
    const Buffer *template = &t->chat_template;
    if (template->bytes)
        write_name(w, "tokenizer.chat_template", template->bytes, template->n);
    write_advice(w, t);
}

/* ---- centering --------------------------------------------------------------
 *
 * If every vector added to the residual stream has mean 0, the stream has mean
 * 0, and its LayerNorm is its RMSNorm (Jiang et al. 2023, arXiv:2305.14858,
 * section 3). The vectors are the rows of the embedding, and combinations of
 * the columns of the other weights that no norm feeds.
 */

int model_center(Model *m, const char *path) {
    char name[PART_NAME];
    PART_EACH(at, m) {
        const Tensor *w = part_weight(&at);
        Norm *norm = at.part->cols == SIZE_DIM ? part_norm(&at) : NULL;
        /* what the part computes is added to the residual stream */
        const bool is_added = at.part->feed == NO_FEED;
        const bool is_other_norm =
            norm && (is_added || norm->kind != NORM_LAYER || norm->beta);
        if (is_other_norm || (w && is_added && w->bias))
            return fail(
                "%s: --center cannot change %s; it needs LayerNorms without beta and no biases in the residual stream",
                path, part_name(name, &at, NAME_NORMA));
        if (norm)
            norm->kind = NORM_RMS;
    }
    m->tied = false; /* the output weights are not centered */
    return 0;
}

/* Sets w->means to the means of a weight's columns. */
static void set_means(Writer *w, const Tensor *t) {
    memset(w->means, 0, t->cols * sizeof *w->means);
    for (int r = 0; r < t->rows && !interrupted; r++) {
        dequantize_row(w->row, t, r);
        for (int i = 0; i < t->cols; i++)
            w->means[i] += w->row[i];
    }
    for (int i = 0; i < t->cols; i++)
        w->means[i] /= t->rows;
}

/* ---- tensors ------------------------------------------------------------ */

/* Writes zeros, so that what follows is aligned in the file. */
static void write_padding(Writer *w) {
    static const uint8_t zeros[GGUF_ALIGNMENT];
    write_bytes(w, zeros, -w->written % GGUF_ALIGNMENT);
}

/* First pass: writes a tensor's entry in the table and returns false. Second
 * pass: aligns the file and returns true: the caller then writes the tensor's
 * data. */
static bool begin_tensor(Writer *w, const char *name, const char *suffix,
                         int depth, int rows, int cols, Type type) {
    uint64_t dims[] = {cols, rows, depth};
    uint32_t n_dims = depth > 1 ? 3 : rows > 1 ? 2 : 1;
    char full[PART_NAME + 8];
    if (w->out) {
        write_padding(w);
        return true;
    }
    write_string(w, full, snprintf(full, sizeof full, "%s%s", name, suffix));
    write_u32(w, n_dims);
    write_bytes(w, dims, n_dims * sizeof *dims);
    write_u32(w, TYPES[type].gguf);
    write_u64(w, w->end);
    w->start.n_tensors++;
    w->end += type_bytes(type, (size_t)depth * rows * cols);
    w->end += -w->end % GGUF_ALIGNMENT;
    return false;
}

/* The first of n numbers that is infinite or NaN; n: none. */
static int find_infinite(const float *numbers, int n) {
    int i = 0;
    while (i < n && isfinite(numbers[i]))
        i++;
    return i;
}

/* Fails if a number in w->row, or what the file holds of it (`stored`), is
 * infinite or NaN. */
static void check_finite(Writer *w, const char *name, const PartAt *at, int row,
                         const float *stored, int n, Type type) {
    char part[PART_NAME];
    part_name(part, at, NAME_NORMA);
    int i = find_infinite(w->row, n);
    if (i < n && !w->status)
        w->status = fail(
            "%s: tensor %s (%s): element [%d, %d] is %g, expected a finite number",
            w->source, name, part, row, i, w->row[i]);
    i = find_infinite(stored, n);
    if (i == n || w->status)
        return;
    /* the largest number of a block makes the others infinite, too */
    int block = TYPES[type].weights, first = i - i % block, largest = first;
    for (int k = first; k < first + block; k++)
        if (fabsf(w->row[k]) > fabsf(w->row[largest]))
            largest = k;
    w->status = fail(
        "%s: tensor %s (%s): element [%d, %d] is %g, which %s cannot represent; use -q bf16 or f32",
        w->source, name, part, row, largest, w->row[largest], type_name(type));
}

/* Writes the first n elements of w->row. */
static void write_vector(Writer *w, const char *name, const char *suffix,
                         const PartAt *at, int n) {
    check_finite(w, name, at, 0, w->row, n, TYPE_F32);
    if (begin_tensor(w, name, suffix, 1, 1, n, TYPE_F32))
        write_bytes(w, w->row, n * sizeof *w->row);
}

/* A LayerNorm without beta is written with a beta of zeros: in a GGUF file, the
 * bias makes a norm a LayerNorm. */
static void write_norm(Writer *w, const char *name, PartAt at) {
    const Norm *norm = part_norm(&at);
    int dim = part_size(&w->model->config, at.part->cols);
    bool folded = w->form.fold && part_folded(&at);
    if (w->family->norm_form == LAYER_NORMS_BARE)
        return;
    if (w->form.fold && !folded && w->out &&
        at.layer % w->model->config.n_layers == 0)
        note("%s keeps its gamma", name);
    for (int i = 0; i < dim; i++)
        w->row[i] = folded ? 1 : norm->gamma[i];
    write_vector(w, name, ".weight", &at, dim);
    if (norm->kind != NORM_LAYER ||
        (w->family->norm_form == LAYER_NORMS_BETA_OPTIONAL && !norm->beta))
        return;
    for (int i = 0; i < dim; i++)
        w->row[i] = norm->beta ? norm->beta[i] : 0;
    write_vector(w, name, ".bias", &at, dim);
}

/* The row of the model's weight that is written as row r. Rows of queries and
 * keys are permuted if RoPE pairs halves of a head in the model and neighbours
 * in the file. */
static int source_row(const Writer *w, const Part *part, int r) {
    const Config *c = &w->model->config;
    int i = r % c->head_size;
    if (!part->rotates || !c->rope.halves || !w->family->gguf.neighbours ||
        i >= c->rope.dims)
        return r;
    return r - i + i / 2 + i % 2 * (c->rope.dims / 2);
}

static void write_rows(Writer *w, const char *name, const PartAt *at,
                       Type type) {
    const Tensor *t = part_weight(at);
    int cols = t->cols;
    const float *gamma = w->form.fold ? part_folded(at) : NULL;
    bool center = w->form.center && at->part->feed == NO_FEED,
         embedding = at->part->owner == OF_MODEL;
    if (center && !embedding)
        set_means(w, t);
    const Tensor written = {
        .type = type, .rows = 1, .cols = cols, .data = w->packed};
    for (int r = 0; r < t->rows; r++) {
        if (interrupted || ferror(w->out) || w->status)
            return;
        int source = source_row(w, at->part, r);
        dequantize_row(w->row, t, source);
        for (int i = 0; gamma && i < cols; i++)
            w->row[i] *= gamma[i];
        double sum = 0; /* a row of the embedding is centered by itself */
        for (int i = 0; center && i < cols; i++)
            sum += w->row[i];
        for (int i = 0; center && i < cols; i++)
            w->row[i] -= (float)(embedding ? sum / cols : w->means[i]);
        quantize_row(w->packed, type, w->row, cols);
        dequantize_row(w->unpacked, &written, 0);
        check_finite(w, name, at, source, w->unpacked, cols, type);
        write_bytes(w, w->packed, type_bytes(type, cols));
    }
}

/* The type of a weight in the file. The router stays float32: a quantized
 * router would choose other experts. */
static Type weight_type(const Writer *w, const PartAt *at) {
    bool is_outer = at->part->owner == OF_MODEL;
    if (at->part->routes)
        return TYPE_F32;
    if (part_weight(at)->cols % TYPES[w->form.type].weights)
        return TYPE_F16;
    if (is_outer && w->form.type == TYPE_Q4_0 && !w->form.pure)
        return TYPE_Q8_0;
    return w->form.type;
}

/* Writes a weight, or the weights of all experts of a layer as one tensor. */
static void write_weight(Writer *w, const char *name, PartAt at) {
    const Tensor *t = part_weight(&at);
    int depth = at.part->owner == OF_EXPERT ? w->model->config.n_experts : 1;
    PartRows part = part_rows(&at, family_fuses(w->family, at.part));
    Type type = weight_type(w, &at);
    /* the first of fused weights begins their tensor */
    bool has_begun = part.first > 0 ? w->out != NULL
                                    : begin_tensor(w, name, ".weight", depth,
                                                   part.all, t->cols, type);
    for (; has_begun && at.expert < depth; at.expert++)
        write_rows(w, name, &at, type);
    if (w->out && type == TYPE_F16 && type != w->form.type && !w->noted++)
        note(
            "rows that are not a multiple of %d become f16, as the rows of %d of %s",
            TYPES[w->form.type].weights, t->cols, name);
    if (!t->bias)
        return;
    for (int r = 0; r < t->rows; r++)
        w->row[r] = t->bias[source_row(w, at.part, r)];
    write_vector(w, name, ".bias", &at, t->rows);
}

static void write_factors(Writer *w, const char *name, const double *factors) {
    int n = w->model->config.rope.dims / 2;
    for (int i = 0; i < n; i++)
        w->row[i] = to_float(w, "a factor of rope_freqs", factors[i]);
    if (begin_tensor(w, name, ".weight", 1, 1, n, TYPE_F32))
        write_bytes(w, w->row, n * sizeof *w->row);
}

static void write_tensors(Writer *w) {
    const Model *m = w->model;
    bool longrope = w->family->gguf.factors == LONGROPE_TENSORS;
    char name[PART_NAME];
    PART_EACH(at, m) {
        if (at.expert)
            continue;
        family_part_name(w->family, name, &at, NAME_GGUF);
        if (part_norm(&at))
            write_norm(w, name, at);
        else
            write_weight(w, name, at);
    }
    PartAt first = parts_of(m);
    if (m->tied && w->family->gguf.output && next_part(&first))
        write_weight(w, "output", first);
    if (!m->rope_factors || w->family->gguf.factors == NO_FACTOR_TENSORS)
        return;
    write_factors(w, longrope ? "rope_factors_short" : "rope_freqs",
                  m->rope_factors);
    if (longrope)
        write_factors(w, "rope_factors_long",
                      m->long_factors ? m->long_factors : m->rope_factors);
}

/* ---- the file ----------------------------------------------------------- */

static double number(const Key *key, const void *header) {
    union {
        int size;
        int64_t integer;
        double real;
        float single;
    } v;
    memcpy(&v, (const char *)header + key->field, key->bytes);
    switch (key->kind) {
    case KEY_SIZE: return v.size;
    case KEY_INTEGER: return (double)v.integer;
    case KEY_REAL: return v.real;
    case KEY_FLOAT: return v.single;
    case KEY_STRING:
    case KEY_NO_FIELD: break;
    }
    return 0;
}

/* A field of zeros is a missing key. */
static void write_key(Writer *w, const Key *key) {
    const void *field = (const char *)&w->header + key->field;
    char name[GGUF_KEY_NAME];
    if (!key->gguf || !family_meets(w->family, key->condition) ||
        !memcmp(field, (char[sizeof(String)]){0}, key->bytes))
        return;
    snprintf(name, sizeof name, "%s.%s", w->family->gguf.name, key->gguf);
    if (key->kind == KEY_STRING) {
        const String *text = field;
        write_name(w, name, text->text, text->n);
        return;
    }
    double x = number(key, &w->header);
    if (key->kind == KEY_SIZE || key->kind == KEY_INTEGER)
        write_int(w, name, (int)x);
    else
        write_real(w, name, to_float(w, name, key->divides ? 1 / x : x));
}

/* Copies the keys of the given file that are not written yet, as they stand
 * there. Not those of another architecture, of another tokenizer, and of how
 * the file is laid out; nor RoPE's scaling, which may have become a tensor. */
static void copy_keys(Writer *w) {
    String given = gguf_get(&w->given, "general.architecture").string;
    for (uint64_t i = 0; i < w->given.n_values; i++) {
        const GgufValue *v = &w->given.values[i];
        String key = v->key;
        /* its length is before it, its type and value after it */
        const char *begin = key.text - sizeof(uint64_t);
        size_t n = (const char *)v->at + v->bytes - begin;
        bool own = key.n > given.n && key.text[given.n] == '.' &&
                   !memcmp(key.text, given.text, given.n),
             kept = string_is(given, w->family->gguf.name) &&
                    (!string_contains(key, ".rope.scaling.") ||
                     string_contains(key, ".finetuned"));
        if (w->replaced[i] || string_begins(key, "split.") ||
            string_is(key, "general.alignment"))
            continue;
        if ((w->tokenizer && (string_begins(key, "tokenizer.") ||
                              string_begins(key, "norma.tokenizer."))) ||
            (own && !kept)) {
            buffer_append(&w->dropped, " ", 1);
            buffer_append(&w->dropped, key.text, key.n);
            continue;
        }
        write_bytes(w, begin, n);
        w->start.n_keys++;
        w->n_copied++;
    }
}

static void write_metadata(Writer *w) {
    write_text(w, "general.architecture", w->family->gguf.name);
    write_int(w, "general.file_type", TYPES[w->form.type].file);
    write_int(w, "general.quantization_version", 2);
    KEY_EACH(key)
        write_key(w, key);
    if (w->tokenizer)
        write_tokenizer(w);
    else if (!gguf_find_value(&w->given, "tokenizer.ggml.model"))
        /* other programs require the key */
        write_text(w, "tokenizer.ggml.model", "none");
    copy_keys(w);
}

/* ---- reading back -------------------------------------------------------
 *
 * The head of a file is read as if its data were zeros, and compared with the
 * model. What norma reads, but other programs refuse, counts as a difference.
 */

static bool same_part(const ModelFamily *f, const PartAt *a, const PartAt *b) {
    const Part *part = a->part;
    const Tensor *w = part_weight(a);
    const Norm *norm = part_norm(a), *back = part_norm(b);
    const Config *c = &a->model->config;
    bool is_there = part_is_there(a);
    /* no layer is dense in a file with experts */
    bool wrong = part->rows == SIZE_EXPERTS && is_there != (c->n_experts > 0);
    if (b->part != part || part_is_there(b) != is_there || wrong)
        return false;
    if (w)
        return !w->bias || part->bias == QKV_BIAS || f->gguf.biases;
    return !is_there || (norm->kind == back->kind && norm->eps == back->eps &&
                         (f->norm_form != LAYER_NORMS_BARE ||
                          !memcmp(norm->gamma, back->gamma,
                                  part_size(c, part->cols) * sizeof(float))));
}

/* Whether all layers have the same RoPE, and in the context of the file the
 * same windows. */
static bool same_layers(const Model *m, const Model *back) {
    int context = back->config.context;
    for (int l = 0; l < m->config.n_layers; l++) {
        const Layer *a = &m->layers[l], *b = &back->layers[l];
        int window = a->window < context ? a->window : 0;
        if (a->rope != b->rope ||
            window != (b->window < context ? b->window : 0))
            return false;
    }
    return context <= m->config.context;
}

static bool is_close(double a, double b) {
    return fabs(a - b) <= 1e-6 * fabs(a);
}

/* Whether the factors are the same, as far as keys store them. */
static bool same_factors(const Model *m, const Model *back) {
    const Rope *rope = &back->config.rope;
    if (!m->rope_factors != !back->rope_factors ||
        (m->long_factors && !back->long_factors))
        return false;
    bool yarn = m->rope_factors && rope->yarn.factor > 0;
    for (int i = 0; yarn && i < rope->dims / 2; i++)
        if (!is_close(m->rope_factors[i], back->rope_factors[i]))
            return false;
    return is_close(m->config.rope.scale, rope->scale);
}

static float score_scale(const Config *c) {
    return c->attention_scale != 0 ? c->attention_scale
                                   : 1 / sqrtf((float)c->head_size);
}

/* The first part, key or trait in which the model read back differs; NULL:
 * none. */
static const char *difference(char name[PART_NAME], const ModelFamily *f,
                              const Model *m, const Model *back) {
    Config a = m->config, b = back->config;
    PartAt at = parts_of(m), at_back = parts_of(back);
    while (next_slot(&at) && next_slot(&at_back))
        if (!same_part(f, &at, &at_back))
            return part_name(name, &at, NAME_GGUF);
    a.context = b.context; /* same_layers() and same_factors() compare these */
    a.rope.yarn = b.rope.yarn;
    a.attention_scale = score_scale(&a);
    b.attention_scale = score_scale(&b);
    KEY_EACH(key)
        if (key->gguf && key->kind != KEY_NO_FIELD && key->field < sizeof a &&
            !is_close(number(key, &a), number(key, &b)))
            return key->gguf;
    if (!same_layers(m, back))
        return "the windows or the RoPE of its layers";
    if (!same_factors(m, back))
        return "rope_scaling";
    if (a.activation != b.activation)
        return "the activation";
    if (a.late_head_norms != b.late_head_norms)
        return "head norms after RoPE";
    if (a.n_experts && a.norm_topk != b.norm_topk)
        return "norm_topk_prob";
    if (!a.rope.halves && b.rope.halves)
        return "RoPE that pairs neighbours";
    if (a.rope.dims != a.head_size && !f->gguf.partial_rope)
        return "rope.dimension_count";
    if (a.head_size * a.n_heads != a.dim && !f->gguf.odd_heads)
        return "a head size that is not dim / n_heads";
    if (a.n_experts && !f->gguf.experts)
        return "expert_count";
    if (!m->tied && f->tied)
        return "a tied output";
    return NULL;
}

/* Marks the tokens that end a text (tokenizer_is_end). */
static void mark_ends(bool *ends, const Tokenizer *t, bool eos_ends) {
    for (int i = 0; i < t->ends.n; i++)
        ends[t->ends.ids[i]] = true;
    if (t->bos >= 0)
        ends[t->bos] = true;
    if (t->eot >= 0)
        ends[t->eot] = true;
    if (t->eos >= 0 && eos_ends)
        ends[t->eos] = true;
}

/* Sets w->new_end. Returns -1 if the file lacks an end of the model. */
static int compare_ends(Writer *w, const Tokenizer *back) {
    int n = w->tokenizer->pieces.n, status = 0;
    bool *ends = allocate_zeroed(n, 2 * sizeof *ends);
    if (!ends)
        return -1;
    bool *ends_in_file = ends + n;
    mark_ends(ends, w->tokenizer, w->model->eos_ends);
    mark_ends(ends_in_file, back, true);
    for (int id = 0; id < n; id++) {
        if (ends[id] && !ends_in_file[id])
            status = -1;
        if (ends_in_file[id] && !ends[id] && id != back->eos && w->new_end < 0)
            w->new_end = id;
    }
    free(ends);
    return status;
}

/* What of a tokenizer differs in the file; NULL: nothing that changes
 * tokens. */
static const char *tokenizer_difference(Writer *w, const Tokenizer *back) {
    const Tokenizer *t = w->tokenizer;
    const Pieces *p = &t->pieces, *q = &back->pieces;
    for (int id = 0; id < p->n; id++) {
        const Piece *a = &p->list[id], *b = &q->list[id];
        bool same_text = is_spaces(a) || (a->length == b->length &&
                                          !memcmp(a->text, b->text, a->length));
        /* control pieces of a tokenizer.bin, which match nothing, may match */
        if (a->kind != PIECE_CONTROL &&
            (b->kind != kind_in_file(t, a) || !same_text))
            return "the pieces of its tokenizer";
        if (!p->byte_level && b->score != w->scores[id])
            return "the scores of its tokenizer";
    }
    if (p->byte_level &&
        (p->n_rules != q->n_rules ||
         memcmp(p->rules, q->rules, p->n_rules * sizeof *p->rules)))
        return "the merges of its tokenizer";
    if (compare_ends(w, back))
        return "the tokens that end a text";
    if ((t->bos >= 0 && t->bos != back->bos) ||
        (t->eos >= 0 && t->eos != back->eos))
        return "BOS or EOS";
    bool same_before =
        t->n_before == back->n_before &&
        !memcmp(t->before, back->before, t->n_before * sizeof *t->before);
    return same_before ? NULL : "the tokens before a text";
}

/* Reads the head back, as a file of that name. Fails if it is not the
 * model. */
static int read_back(Writer *w, const char *path) {
    Model back = {.files = allocate_zeroed(1, sizeof(File))};
    char name[PART_NAME];
    const char *differs = NULL;
    Tokenizer t;
    back.n_files = back.files != NULL;
    int status = !back.files ||
                 file_map_head(back.files, w->head.bytes, w->head.n,
                               w->head.n + GGUF_ALIGNMENT + w->end) ||
                 gguf_read_model(&back, path);
    if (!status)
        differs = difference(name, w->family, w->model, &back);
    if (!status && !differs && w->tokenizer) {
        status = gguf_read_tokenizer(&t, back.files, path,
                                     w->tokenizer->pieces.n, true) < 0;
        if (!status) {
            differs = tokenizer_difference(w, &t);
            tokenizer_close(&t);
        }
    }
    if (differs)
        status = fail("%s differs in: %s", path, differs);
    model_close(&back);
    return status;
}

/* The first pass. `path`: for messages. */
static int write_head(Writer *w, const ModelFamily *family, const char *path) {
    w->family = family;
    w->header = header_of(w->model, family);
    w->status = 0;
    w->n_copied = 0;
    w->dropped.n = 0;
    w->new_end = -1;
    if (w->replaced)
        memset(w->replaced, 0, w->given.n_values * sizeof *w->replaced);
    w->start.n_keys = w->start.n_tensors = w->end = w->head.n = 0;
    w->head.failed = false;
    write_bytes(w, &w->start, sizeof w->start);
    write_metadata(w);
    write_tensors(w);
    if (w->status || w->head.failed)
        return -1;
    memcpy(w->head.bytes, &w->start, sizeof w->start);
    return read_back(w, path);
}

/* Writes the head for the model's own architecture or, if that cannot store the
 * model, for the first of its row's others that can. Returns -1 and a message
 * if there is none. */
static int choose_family(Writer *w) {
    const char *name = w->model->family ? w->model->family : "llama";
    const ModelFamily *own = family_of_gguf(name);
    char path[PATH_MAX];
    if (!own)
        return fail("%s: GGUF has no architecture %s", w->source, name);
    snprintf(path, sizeof path, "%s: GGUF cannot store it; %s", w->source,
             name);
    hold_messages(true);
    int status = write_head(w, own, path);
    const char *const *other = own->gguf.others;
    for (; status && other && *other; other++)
        status = write_head(w, family_of_gguf(*other), path);
    hold_messages(false);
    return status ? write_head(w, own, path) : 0;
}

/* Says what the file has, and what of the model it lacks. */
static void report(const Writer *w, const char *path) {
    const Tokenizer *t = w->tokenizer;
    char copied[64] = "";
    bool advised = false;
    for (int i = 0; i < N_ADVICE; i++)
        advised |= t && t->advice[i].given;
    if (w->given.n_values)
        snprintf(copied, sizeof copied, "; %d keys of the old file kept",
                 w->n_copied);
    const char *template = t && t->chat_template.bytes ? ", chat template" : "";
    const char *advice = advised ? ", recommended sampling" : "";
    note("wrote %s: %s, %s, %.3g MB, %llu tensors%s%s%s%s", path,
         w->family->gguf.name, type_name(w->form.type),
         (double)w->written / 1e6, (unsigned long long)w->start.n_tensors,
         t ? ", tokenizer" : "", template, advice, copied);
    if (w->new_end >= 0)
        note("a GGUF file's texts also end at token %d", w->new_end);
    if (w->dropped.n && !w->dropped.failed)
        note("dropped:%s", w->dropped.bytes);
    const NamedToken *named = t ? (const void *)t->variables.bytes : NULL;
    size_t n_named = named ? t->variables.n / sizeof *named : 0;
    for (size_t i = 0; i < n_named; i++)
        note("dropped: the template's variable %s, for GGUF has no key",
             named[i].name);
    if (t && *t->ignored)
        note("dropped from generation_config.json, for GGUF has no key:%s",
             t->ignored);
}

/* The second pass. */
static int write_file(Writer *w, const char *path) {
    int context = w->header.config.context;
    OutputFile file;
    if (output_open(&file, path))
        return -1;
    if (context < w->model->config.context)
        note(
            "GGUF's %s cannot store windows; the file's context is %d, the shortest window",
            w->family->gguf.name, context);
    if (!w->tokenizer && !gguf_find_value(&w->given, "tokenizer.ggml.tokens"))
        note("no tokenizer found to write");
    w->out = file.stream;
    write_bytes(w, w->head.bytes, w->head.n);
    write_tensors(w);
    write_padding(w);
    if (output_close(&file, !interrupted && !w->status) || w->status)
        return -1;
    if (!interrupted)
        report(w, path);
    return 0;
}

/* Reads the keys of the GGUF file that the model comes from, if it does. */
static int read_given_keys(Writer *w) {
    File *file = w->model->files;
    if (!gguf_is(file))
        return 0;
    if (gguf_open(&w->given, w->source, file))
        return -1;
    w->replaced = allocate(w->given.n_values + 1, sizeof *w->replaced);
    return w->replaced ? 0 : -1;
}

int gguf_write_model(const Model *model, const Tokenizer *tokenizer,
                     GgufForm form, const char *source, const char *path) {
    Writer w = {.model = model,
                .tokenizer = tokenizer,
                .source = source,
                .form = form,
                .start = {GGUF_MAGIC, GGUF_VERSION, 0, 0}};
    size_t longest = 0; /* at least the elements of any row */
    for (PartSize size = 0; size < N_PART_SIZES; size++)
        longest += part_size(&model->config, size);
    longest += longest % 2; /* aligns the doubles */
    w.row = allocate(5 * longest, sizeof *w.row);
    w.packed = (uint8_t *)(w.row + longest);
    w.unpacked = w.row + 2 * longest;
    w.means = (double *)(void *)(w.row + 3 * longest);
    bool failed = !w.row || read_given_keys(&w) ||
                  (tokenizer && (rank_pieces(&w) || check_tokenizer(&w))) ||
                  choose_family(&w) || write_file(&w, path);
    gguf_close(&w.given);
    free(w.replaced);
    free(w.dropped.bytes);
    free(w.head.bytes);
    free(w.rules);
    free(w.scores);
    free(w.row);
    return -failed;
}
