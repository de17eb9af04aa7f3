/* llama2c.c: reads the checkpoints and tokenizers of llama2.c.
 *
 * Owns their formats: v0 (seven ints, then float32), v1 (magic, 256-byte header, float32) and v2
 * (as v1, weights in int8 groups), and tokenizer.bin (int max_token_length, then for each piece
 * float score, int length, bytes; pieces 0 to 2 are <unk>, BOS and EOS). Every size is checked
 * against the file's length before it is used.
 */
#include "formats/llama2c.h"
#include "base/error.h"
#include "formats/map.h"
#include "formats/parts.h"
#include "text/pieces.h"
#include <math.h>

enum { MAGIC = 0x616b3432, HEADER_BYTES = 256, V0_HEADER_BYTES = 28 };

typedef struct {
    const char *path;
    const char *
        tried; /* for messages: "", or that the format is unknown and v0 is tried */
    const File *file;
    Model *model;
    size_t at;     /* bytes read so far, the header first */
    size_t tables; /* bytes of the RoPE tables, which norma does not use */
    int group;     /* TYPE_I8 weights with this group size; 0: TYPE_F32 */
} Reader;

/* ---- the header --------------------------------------------------------- */

static int32_t int_at(const File *file, size_t offset) {
    int32_t value;
    memcpy(&value, file->data + offset, sizeof value);
    return value;
}

enum { VOCAB_SIZE = 5, N_INTS = 7 };

/* Reads and checks the seven ints of every header. */
static int read_config(const Reader *r, const int32_t v[N_INTS]) {
    Config *c = &r->model->config;
    bool positive = true;
    for (int i = 0; i < N_INTS; i++)
        positive &= v[i] > 0;
    *c = (Config){v[0],           v[1], v[2],
                  v[3],           v[4], .vocab_size = v[VOCAB_SIZE],
                  .context = v[6]};
    if (!positive || c->dim % c->n_heads || c->dim / c->n_heads % 2 ||
        c->n_heads % c->n_kv_heads)
        return fail(
            "%s%s: dim %d, hidden_dim %d, n_layers %d, n_heads %d, n_kv_heads %d, vocab_size %d, seq_len %d; "
            "expected positive numbers, n_heads to divide dim into even sizes, and n_kv_heads to divide "
            "n_heads",
            r->path, r->tried, v[0], v[1], v[2], v[3], v[4], v[VOCAB_SIZE],
            v[6]);
    c->head_size = c->dim / c->n_heads;
    c->rope = (Rope){
        .base = 10000.0, .scale = 1.0, .amplitude = 1.0, .dims = c->head_size};
    return 0;
}

/* ---- parts -------------------------------------------------------------- */

/* The parts in file order. A part of all layers comes before the next part. The last is absent if
 * it is tied. */
enum { N_PARTS = 12 };
static const char *const V0_PARTS[N_PARTS] = {
    "embedding", "attn_norm", "wq",   "wk", "wv",         "wo",
    "mlp_norm",  "gate",      "down", "up", "final_norm", "output"};
static const char *const V1_PARTS[N_PARTS] = {
    "attn_norm", "mlp_norm", "final_norm", "embedding", "wq", "wk",
    "wv",        "wo",       "gate",       "down",      "up", "output"};

/* Checks that the file has exactly the size that its header implies. Doubles are exact below 2^53,
 * and no file is larger. */
static int check_size(const Reader *r) {
    const Config *c = &r->model->config;
    double expected = (double)(r->at + r->tables);
    for (int i = 0; i < N_PARTS - r->model->tied; i++) {
        const Part *part = part_named(V1_PARTS[i]);
        const double n =
            (double)part_size(c, part->rows) * part_size(c, part->cols);
        const double bytes = r->group && !part->site
                                 ? n + n / r->group * sizeof(float)
                                 : n * sizeof(float);
        expected += part->owner == OF_MODEL ? bytes : c->n_layers * bytes;
    }
    if (expected == (double)r->file->size)
        return 0;
    return fail("%s: file is %zu bytes, its header needs %.0f (%s?)", r->path,
                r->file->size, expected,
                expected > (double)r->file->size ? "truncated"
                                                 : "another format");
}

static const void *read_bytes(Reader *r, size_t bytes) {
    const void *p = r->file->data + r->at;
    r->at += bytes;
    return p;
}

static void read_part(Reader *r, const PartAt *at) {
    const int rows = part_size(&r->model->config, at->part->rows),
              cols = part_size(&r->model->config, at->part->cols);
    const size_t count = (size_t)rows * cols, group = r->group;
    Tensor *w = part_weight(at);
    if (!w) {
        *part_norm(at) = (Norm){.kind = NORM_RMS,
                                .eps = 1e-5f,
                                .gamma = read_bytes(r, count * sizeof(float))};
        return;
    }
    *w = (Tensor){.type = group ? TYPE_I8 : TYPE_F32,
                  .rows = rows,
                  .cols = cols,
                  .group = r->group,
                  .offset = r->at};
    w->data = read_bytes(r, group ? count : count * sizeof(float));
    if (group)
        w->scales = read_bytes(r, count / group * sizeof(float));
}

/* Reads one part of all layers. `name`: norma's name of the part. */
static void read_parts(Reader *r, const char *name) {
    PartAt at = {.part = part_named(name), .model = r->model};
    const int n = at.part->owner == OF_MODEL ? 1 : r->model->config.n_layers;
    for (; at.layer < n; at.layer++)
        read_part(r, &at);
}

/* ---- the model ---------------------------------------------------------- */

/* Reads the header of a version. v0 has only the seven ints; in v0, a negative vocab_size means an
 * untied output. */
static int read_header(Reader *r, int version) {
    static const char *const formats[] = {"llama2.c v0", "llama2.c v1",
                                          "llama2.c v2"};
    const uint8_t *data = r->file->data;
    Model *m = r->model;
    Config *c = &m->config;
    int32_t ints[N_INTS];
    memcpy(ints, data + (version ? 8 : 0), sizeof ints);
    const int shared = version ? data[36] : ints[VOCAB_SIZE] > 0;
    if (!version && !shared)
        ints[VOCAB_SIZE] = (int32_t)(0 - (uint32_t)ints[VOCAB_SIZE]);
    if (read_config(r, ints))
        return -1;
    if (shared > 1)
        return fail("%s: shared_classifier is %d, expected 0 or 1", r->path,
                    shared);
    m->format = formats[version];
    m->tied = shared;
    if (version == 0)
        r->tables = (size_t)c->context * (size_t)c->head_size * sizeof(float);
    if (version < 2)
        return 0;
    r->group = int_at(r->file, 37);
    if (r->group > 0 && c->dim % r->group == 0 && c->hidden_dim % r->group == 0)
        return 0;
    return fail(
        "%s: group_size is %d, expected a divisor of dim = %d and hidden_dim = %d",
        r->path, r->group, c->dim, c->hidden_dim);
}

int llama2c_read_model(Model *m, const char *path) {
    const File *file = m->files;
    const bool has_magic = file->size >= 4 && int_at(file, 0) == MAGIC;
    Reader r = {.path = path,
                .file = file,
                .model = m,
                .at = has_magic ? HEADER_BYTES : V0_HEADER_BYTES};
    r.tried = has_magic ? "" : ": unknown format; as a llama2.c v0 checkpoint";
    m->bos = 1;
    m->eos = 2;
    m->eos_ends = false; /* the model was trained on texts separated by BOS */
    if (file->size < r.at)
        return fail("%s%s: file is %zu bytes, too short for a header of %zu",
                    path, r.tried, file->size, r.at);
    m->files->header = r.at;
    const int version = has_magic ? int_at(file, 4) : 0;
    if (has_magic && version != 1 && version != 2)
        return fail("%s: version is %d, expected 1 or 2", path, version);
    if (read_header(&r, version) || check_size(&r))
        return -1;
    if (model_allocate_layers(m))
        return -1;
    for (int i = 0; i < N_PARTS - m->tied; i++) {
        if (i == N_PARTS - 1)
            read_bytes(&r, r.tables); /* the output follows them */
        read_parts(&r, (has_magic ? V1_PARTS : V0_PARTS)[i]);
    }
    if (m->tied)
        m->output = m->embedding;
    return 0;
}

/* ---- tokenizer.bin ------------------------------------------------------ */

static int read_pieces(Pieces *pieces, const char *path, const File *file,
                       int vocab_size) {
    const uint8_t *data = file->data;
    size_t at = 4, size = file->size;
    if (vocab_size < 3)
        return fail(
            "%s: the model's vocabulary is %d, expected at least <unk>, BOS and EOS",
            path, vocab_size);
    if (size / 8 <
        (size_t)vocab_size) /* bounds memory: a piece has at least 8 bytes */
        return fail(
            "%s: file is %zu bytes, too short for the model's %d pieces", path,
            size, vocab_size);
    if (pieces_open(pieces, vocab_size, 0))
        return -1;
    for (int i = 0; i < vocab_size; i++) {
        Piece *p = &pieces->list[i];
        if (size < at + 8)
            return fail("%s: ends in piece %d, the model's vocabulary is %d",
                        path, i, vocab_size);
        memcpy(&p->score, data + at, 4);
        memcpy(&p->length, data + at + 4, 4);
        at += 8;
        if ((size_t)p->length > size - at)
            return fail(
                "%s: length of piece %d is %d, the file has %zu bytes left",
                path, i, p->length, size - at);
        if (isnan(p->score))
            return fail("%s: score of piece %d is not a number", path, i);
        p->text = (const char *)data + at;
        if (i > 2 && p->length > 0)
            p->kind = PIECE_TEXT;
        at += p->length;
    }
    if (at != size)
        return fail(
            "%s: %zu bytes follow the model's %d pieces (a tokenizer for another vocabulary?)",
            path, size - at, vocab_size);
    return 0;
}

int tokenizer_open_bin(Tokenizer *t, const char *path, int vocab_size) {
    *t = (Tokenizer){.bos = 1, .eos = 2, .eot = -1};
    if (map_model_file(&t->file, path))
        return -1;
    if (!read_pieces(&t->pieces, path, &t->file, vocab_size) &&
        !pieces_index(&t->pieces))
        return 0;
    tokenizer_close(t);
    return -1;
}
