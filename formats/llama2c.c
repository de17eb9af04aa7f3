/* llama2c.c: reads the checkpoints and tokenizers of llama2.c.
 *
 * Owns their formats: v0 (seven ints, then float32), v1 (magic, 256-byte
 * header, float32) and v2 (as v1, weights in int8 groups), and tokenizer.bin
 * (int max_token_length, then for each piece float score, int length, bytes;
 * pieces 0 to 2 are <unk>, BOS and EOS). Every size is checked against the
 * file's length before it is used.
 * Tests: checkpoint, damage.
 */
#include "formats/llama2c.h"
#include "base/error.h"
#include "formats/map.h"
#include "formats/parts.h"
#include "text/pieces.h"

enum { MAGIC = 0x616b3432, HEADER_BYTES = 256, V0_HEADER_BYTES = 28 };

typedef struct {
    const char *path;
    const File *file;
    Model *model;
    int version;
    /* bytes read or counted so far; exact below 2^53: no file is larger */
    double at;
    int group; /* TYPE_I8 weights with this group size; 0: TYPE_F32 */
} Checkpoint;

/* ---- the header --------------------------------------------------------- */

static int32_t int_at(const File *file, size_t offset) {
    int32_t value;
    memcpy(&value, file->data + offset, sizeof value);
    return value;
}

/* Whether the file can begin with the seven ints of v0, which has no magic:
 * most are possible sizes (vocab_size may be negative). Any four bytes of a
 * text are beyond the limit. */
static bool may_be_v0(const File *file) {
    enum { N_INTS = 7, LIMIT = 1 << 27 };
    int n_possible = 0;
    for (size_t i = 0; i < N_INTS && file->size >= V0_HEADER_BYTES; i++) {
        const int32_t value = int_at(file, i * sizeof value);
        n_possible += value > -LIMIT && value < LIMIT && value != 0;
    }
    return n_possible > N_INTS / 2;
}

/* Reads and checks the header: seven ints, of which in v0 a negative vocab_size
 * means an untied output, then in v1 and v2 whether the output is tied, and in
 * v2 the group size. */
static int read_header(Checkpoint *r) {
    enum { VOCAB_SIZE = 5, N_INTS = 7 };
    static const char *const formats[] = {"llama2.c v0", "llama2.c v1",
                                          "llama2.c v2"};
    const uint8_t *data = r->file->data;
    Model *m = r->model;
    Config *c = &m->config;
    int32_t v[N_INTS];
    bool positive = true;
    memcpy(v, data + (r->version ? 8 : 0), sizeof v);
    int shared = r->version ? data[36] : v[VOCAB_SIZE] > 0;
    if (!r->version && !shared)
        v[VOCAB_SIZE] = (int32_t)(0 - (uint32_t)v[VOCAB_SIZE]);
    for (int i = 0; i < N_INTS; i++)
        positive &= v[i] > 0;
    *c = (Config){.dim = v[0],
                  .hidden_dim = v[1],
                  .n_layers = v[2],
                  .n_heads = v[3],
                  .n_kv_heads = v[4],
                  .vocab_size = v[VOCAB_SIZE],
                  .context = v[6]};
    if (!positive || c->dim % c->n_heads || c->dim / c->n_heads % 2 ||
        c->n_heads % c->n_kv_heads)
        return fail(
            "%s: dim %d, hidden_dim %d, n_layers %d, n_heads %d, n_kv_heads %d, vocab_size %d, seq_len %d; expected positive numbers, n_heads to divide dim into even sizes, and n_kv_heads to divide n_heads",
            r->path, v[0], v[1], v[2], v[3], v[4], v[VOCAB_SIZE], v[6]);
    c->head_size = c->dim / c->n_heads;
    c->embedding_scale = c->residual_scale = c->logit_scale = 1;
    c->rope = (Rope){
        .base = 10000.0, .scale = 1.0, .amplitude = 1.0, .dims = c->head_size};
    if (shared > 1)
        return fail("%s: shared_classifier is %d, expected 0 or 1", r->path,
                    shared);
    m->format = formats[r->version];
    m->tied = shared;
    if (r->version < 2)
        return 0;
    r->group = int_at(r->file, 37);
    if (r->group > 0 && c->dim % r->group == 0 && c->hidden_dim % r->group == 0)
        return 0;
    int works = c->dim; /* by Euclid: the dimensions may be large */
    for (int next, rest = c->hidden_dim; rest; works = rest, rest = next)
        next = works % rest;
    return fail(
        "%s: group_size is %d, expected a divisor of dim = %d and hidden_dim = %d, such as %d",
        r->path, r->group, c->dim, c->hidden_dim, works);
}

/* ---- parts -------------------------------------------------------------- */

/* The parts of v0, and of v1 and v2, in file order. v0 has RoPE tables next,
 * which norma does not use; the last part, unless it is tied, is "output". */
enum { N_PARTS = 11 };
static const char *const PARTS[2][N_PARTS] = {
    {"embedding", "attn_norm", "wq", "wk", "wv", "wo", "mlp_norm", "gate",
     "down", "up", "final_norm"},
    {"attn_norm", "mlp_norm", "final_norm", "embedding", "wq", "wk", "wv", "wo",
     "gate", "down", "up"}};

/* Reads one part of all layers, or only counts its bytes. `name`: norma's name
 * of the part. */
static void read_part(Checkpoint *r, const char *name, bool counts) {
    const Config *c = &r->model->config;
    PartAt at = {.part = part_named(name), .model = r->model};
    int n = at.part->owner == OF_MODEL ? 1 : c->n_layers;
    bool grouped = r->group && !at.part->site;
    Tensor w = {.type = grouped ? TYPE_I8 : TYPE_F32,
                .rows = part_size(c, at.part->rows),
                .cols = part_size(c, at.part->cols),
                .group = r->group};
    double values = (double)w.rows * w.cols;
    double bytes = grouped ? values + values / r->group * sizeof(float)
                           : values * sizeof(float);
    if (counts)
        r->at += n * bytes;
    for (; !counts && at.layer < n; at.layer++, r->at += bytes) {
        w.offset = (uint64_t)r->at;
        w.data = r->file->data + w.offset;
        if (grouped)
            w.scales = r->file->data + w.offset + (size_t)values;
        if (at.part->site)
            *part_norm(&at) = (Norm){NORM_RMS, 1e-5f, .gamma = w.data};
        else
            *part_weight(&at) = w;
    }
}

/* Reads the parts, or only counts their bytes: then r->at becomes the size that
 * the header implies. */
static void read_parts(Checkpoint *r, bool counts) {
    const Config *c = &r->model->config;
    r->at = (double)r->file->header;
    for (int i = 0; i < N_PARTS; i++)
        read_part(r, PARTS[r->version > 0][i], counts);
    if (!r->version)
        r->at += (double)c->context * c->head_size * sizeof(float);
    if (!r->model->tied)
        read_part(r, "output", counts);
}

/* ---- the model ---------------------------------------------------------- */

int llama2c_read_model(Model *m, const char *path) {
    File *file = m->files;
    bool has_magic = file->size >= 4 && int_at(file, 0) == MAGIC;
    if (!has_magic && !may_be_v0(file))
        return fail("%s: is not a model; expected a GGUF file, a llama2.c "
                    "checkpoint (.bin) or a folder of Hugging Face",
                    path);
    Checkpoint r = {.path = path, .file = file, .model = m};
    file->header = has_magic ? HEADER_BYTES : V0_HEADER_BYTES;
    m->bos = 1;
    m->eos = 2;
    m->eos_ends = false; /* the model was trained on texts separated by BOS */
    if (file->size < file->header)
        return fail("%s: file is %zu bytes, too short for a header of %zu",
                    path, file->size, file->header);
    r.version = has_magic ? int_at(file, 4) : 0;
    if (has_magic && r.version != 1 && r.version != 2)
        return fail("%s: version is %d, expected 1 or 2", path, r.version);
    if (read_header(&r))
        return -1;
    read_parts(&r, true);
    if (r.at != (double)file->size)
        return fail("%s: file is %zu bytes, its header needs %.0f (%s?)", path,
                    file->size, r.at,
                    r.at > (double)file->size ? "truncated" : "another format");
    if (model_allocate_layers(m))
        return -1;
    read_parts(&r, false);
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
    if (pieces_open(pieces, vocab_size))
        return -1;
    for (int i = 0; i < vocab_size; i++) {
        Piece *p = &pieces->list[i];
        if (size < at + 8)
            return fail("%s: ends in piece %d, the model's vocabulary is %d",
                        path, i, vocab_size);
        memcpy(&p->score, data + at, 4);
        p->length = int_at(file, at + 4);
        at += 8;
        if ((size_t)p->length > size - at)
            return fail(
                "%s: length of piece %d is %d, the file has %zu bytes left",
                path, i, p->length, size - at);
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
    *t = NO_TOKENIZER;
    t->bos = 1;
    t->eos = 2;
    t->unk = 0;
    t->pieces.unk = 0;
    t->before[0] = t->bos;
    t->n_before = 1;
    if (map_model_file(&t->file, path))
        return -1;
    if (!read_pieces(&t->pieces, path, &t->file, vocab_size) &&
        !pieces_index(&t->pieces))
        return 0;
    tokenizer_close(t);
    return -1;
}
