/* test_checkpoint.c: formats/llama2c.c, the files it accepts and the files it
 * refuses.
 *
 * Computes the offset of every tensor in llama2.c's three formats
 * independently. Tests files with one defect, and files as large as a 13B
 * model, which are sparse.
 */
#include "base/file.h"
#include "formats/open.h"
#include "formats/parts.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"

#include "tests/support/hashmodel.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- every value of a small model --------------------------------------- */

/* Tensors are numbered as in scripts/golden/random_model.py: the embedding,
 * then these for each layer, then the final norm and the output. */
enum { ATTN_NORM, WQ, WK, WV, WO, MLP_NORM, GATE, DOWN, UP, PARTS };

static uint64_t layer_id(int layer, int part) {
    return (uint64_t)(1 + PARTS * layer + part);
}

/* The definition of a weight: a uniform number times a power of two near
 * 1 / sqrt(cols). */
static double hash_weight(const HashModel *m, uint64_t id, size_t i, int cols) {
    double uniform = (double)(hash64(m->seed, id, i) >> 40) / 16777216 - 0.5;
    return uniform *
           (id ? exp2(floor(log2(2 * sqrt(3) / sqrt(cols)) + 0.5)) : 2);
}

/* Every weight has its expected value; int8: to within half a step. */
static void check_tensor(const HashModel *m, const char *name, const Tensor *w,
                         uint64_t id, int rows, int cols) {
    float y[256];
    CHECK(w->rows == rows && w->cols == cols,
          "%s is [%d, %d], expected [%d, %d]", name, w->rows, w->cols, rows,
          cols);
    for (int r = 0; r < rows; r++) {
        dequantize_row(y, w, r);
        for (int c = 0; c < cols; c++) {
            size_t i = (size_t)r * (size_t)cols + (size_t)c,
                   group = (size_t)w->group;
            double step = 0;
            for (size_t k = 0; k < group; k++)
                step =
                    fmax(step,
                         fabs(hash_weight(m, id, i / group * group + k, cols)));
            double expected = hash_weight(m, id, i, cols);
            CHECK(fabs(y[c] - expected) <= 0.50001 / 127 * step,
                  "%s[%d][%d] is %.9g, expected %.9g", name, r, c, y[c],
                  expected);
        }
    }
}

static void check_norm(const HashModel *m, const char *name, const Norm *norm,
                       uint64_t id) {
    CHECK(norm->kind == NORM_RMS && norm->eps == 1e-5f && !norm->beta,
          "%s: wrong norm", name);
    for (int i = 0; i < m->dim; i++) {
        double expected =
            1 + (((double)(hash64(m->seed, id, (uint64_t)i) >> 40)) / 16777216 -
                 0.5) /
                    2;
        CHECK(fabs(norm->gamma[i] - expected) <= 1e-7,
              "%s[%d] is %.9g, expected %.9g", name, i, norm->gamma[i],
              expected);
    }
}

static void check_layer(const HashModel *m, const Layer *layer, int l) {
    int kv_dim = m->dim / m->n_heads * m->n_kv_heads;
    check_norm(m, "attn_norm", &layer->attn_norm, layer_id(l, ATTN_NORM));
    check_tensor(m, "wq", &layer->wq, layer_id(l, WQ), m->dim, m->dim);
    check_tensor(m, "wk", &layer->wk, layer_id(l, WK), kv_dim, m->dim);
    check_tensor(m, "wv", &layer->wv, layer_id(l, WV), kv_dim, m->dim);
    check_tensor(m, "wo", &layer->wo, layer_id(l, WO), m->dim, m->dim);
    check_norm(m, "mlp_norm", &layer->mlp_norm, layer_id(l, MLP_NORM));
    check_tensor(m, "gate", &layer->mlp.gate, layer_id(l, GATE), m->hidden_dim,
                 m->dim);
    check_tensor(m, "down", &layer->mlp.down, layer_id(l, DOWN), m->dim,
                 m->hidden_dim);
    check_tensor(m, "up", &layer->mlp.up, layer_id(l, UP), m->hidden_dim,
                 m->dim);
}

static void check_config(const HashModel *m, const Model *model) {
    const Config *c = &model->config;
    CHECK(c->dim == m->dim && c->hidden_dim == m->hidden_dim &&
              c->n_layers == m->n_layers && c->n_heads == m->n_heads &&
              c->n_kv_heads == m->n_kv_heads &&
              c->head_size == m->dim / m->n_heads &&
              c->vocab_size == m->vocab_size && c->context == m->context &&
              c->rope.base == 10000,
          "%d %d %d %d %d %d %d %d %g", c->dim, c->hidden_dim, c->n_layers,
          c->n_heads, c->n_kv_heads, c->head_size, c->vocab_size, c->context,
          c->rope.base);
    size_t dim = (size_t)m->dim,
           kv_dim = dim / (size_t)m->n_heads * (size_t)m->n_kv_heads;
    size_t layer = 2 * dim + 2 * dim * dim + 2 * dim * kv_dim +
                   3 * dim * (size_t)m->hidden_dim;
    size_t table = (size_t)m->vocab_size * dim,
           parameters = (size_t)m->n_layers * layer + dim + table;
    CHECK(model->parameters == parameters + (m->untied ? table : 0),
          "%zu parameters", model->parameters);
    if (!model->embedding.group) {
        /* untied: one row of the embedding */
        size_t bytes = 4 * (parameters + (m->untied ? dim : 0));
        CHECK(model->decode_bytes == bytes, "decode_bytes %zu, expected %zu",
              model->decode_bytes, bytes);
    }
}

static void check_model(const HashModel *m, int version, int group) {
    const char *path = temporary("checkpoint.bin");
    char format[] = "llama2.c v?";
    Model model;
    CHECK(!hashmodel_write(m, path, version, group) &&
              !model_open(&model, path),
          "cannot make the model");
    format[10] = (char)('0' + version);
    CHECK(!strcmp(model.format, format), "format \"%s\", expected \"%s\"",
          model.format, format);
    CHECK(model.embedding.type == (version == 2 ? TYPE_I8 : TYPE_F32) &&
              model.embedding.group == group,
          "%s, group %d", type_name(model.embedding.type),
          model.embedding.group);
    check_config(m, &model);
    check_tensor(m, "embedding", &model.embedding, 0, m->vocab_size, m->dim);
    for (int l = 0; l < m->n_layers; l++)
        check_layer(m, &model.layers[l], l);
    check_norm(m, "final_norm", &model.final_norm, layer_id(m->n_layers, 0));
    CHECK(model.tied == !m->untied, "tied: %d", model.tied);
    if (m->untied)
        check_tensor(m, "output", &model.output, layer_id(m->n_layers, 1),
                     m->vocab_size, m->dim);
    else
        CHECK(model.output.data == model.embedding.data &&
                  model.output.scales == model.embedding.scales,
              "the output is not the embedding");
    model_close(&model);
    CHECK(!model.layers && !model.files, "still open after model_close");
}

static void every_value_is_as_expected(void) {
    static const HashModel odd_tied = {30, 37, 3, 3, 1, 33, 64, false, 5};
    static const HashModel *const models[] = {&GQA_TIED, &MHA_UNTIED, &ODD_MQA,
                                              &odd_tied};
    for (int i = 0; i < 4; i++)
        for (int version = 0; version < 2; version++)
            check_model(models[i], version, 0);
    check_model(&GQA_TIED, 2, 4);
    check_model(&MHA_UNTIED, 2, 2);
    check_model(&ODD_MQA, 2, 1);
}

/* ---- in the order of the forward pass ----------------------------------- */

static char list[1024];

static void add_to_list(const char *name) {
    size_t n = strlen(list);
    snprintf(list + n, sizeof list - n, "%s ", name);
}

static void list_parts(const Model *model, bool norms_only) {
    char name[PART_NAME];
    list[0] = '\0';
    PART_EACH(at, model)
        if (!norms_only || part_norm(&at))
            add_to_list(part_name(name, &at, NAME_NORMA));
}

static void parts_are_visited_in_order(void) {
    Model model;
    const char *path = temporary("checkpoint.bin");
    CHECK(!hashmodel_write(&MHA_UNTIED, path, 0, 0) &&
              !model_open(&model, path),
          "cannot make the model");
    list_parts(&model, false);
    const char *start =
        "embedding layers.0.attn_norm layers.0.wq layers.0.wk layers.0.wv layers.0.wo "
        "layers.0.mlp_norm layers.0.gate layers.0.up layers.0.down layers.1.attn_norm ";
    const char *end =
        "layers.2.mlp_norm layers.2.gate layers.2.up layers.2.down final_norm output ";
    CHECK(!strncmp(list, start, strlen(start)), "%s", list);
    CHECK(strlen(list) > strlen(end) &&
              !strcmp(list + strlen(list) - strlen(end), end),
          "%s", list);
    list_parts(&model, true);
    CHECK(!strncmp(list,
                   "layers.0.attn_norm layers.0.mlp_norm layers.1.attn_norm ",
                   56),
          "%s", list);
    model_close(&model);
}

/* ---- refusals ----------------------------------------------------------- */

/* The message with which model_open refuses the file; NULL if it opens. */
static const char *refusal(const char *path) {
    static char message[1024];
    Model model;
    fflush(stderr);
    FILE *capture = tmpfile();
    int saved = dup(STDERR_FILENO);
    dup2(fileno(capture), STDERR_FILENO);
    int status = model_open(&model, path);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(capture);
    message[fread(message, 1, sizeof message - 1, capture)] = '\0';
    fclose(capture);
    if (status == 0)
        model_close(&model);
    return status == -1 ? message : NULL;
}

/* One line that names the program, the file and what is wrong. */
static void check_refusal(const char *path, const char *expected) {
    const char *message = refusal(path);
    CHECK(message, "%s: opened, expected: %s", path, expected);
    CHECK(!strncmp(message, "run: ", 5) && strstr(message, path) &&
              strstr(message, expected),
          "found: %s, expected: %s", message, expected);
    CHECK(strchr(message, '\n') == message + strlen(message) - 1,
          "not one line: %s", message);
}

/* A valid file, to be changed. */
typedef struct {
    uint8_t *bytes;
    size_t size;
} Image;

static int image_open(Image *image, const HashModel *m, int version,
                      int group) {
    const char *path = temporary("image.bin");
    if (hashmodel_write(m, path, version, group))
        return -1;
    image->bytes = (uint8_t *)file_read(path, &image->size);
    return image->bytes ? 0 : -1;
}

/* Opens a file of n bytes: the image, truncated or extended by zeros. */
static void check_image(const Image *image, size_t n, const char *expected) {
    const char *path = temporary("spoiled.bin");
    FILE *out = fopen(path, "wb");
    fwrite(image->bytes, 1, n < image->size ? n : image->size, out);
    for (size_t i = image->size; i < n; i++)
        fputc(0, out);
    fclose(out);
    check_refusal(path, expected);
}

/* The same with one int of the file replaced. */
static void check_int(const Image *image, size_t offset, int32_t value,
                      const char *expected) {
    int32_t before;
    memcpy(&before, image->bytes + offset, sizeof before);
    memcpy(image->bytes + offset, &value, sizeof value);
    check_image(image, image->size, expected);
    memcpy(image->bytes + offset, &before, sizeof before);
}

static void check_header(const HashModel *m, int version) {
    static const char *const names[] = {"dim",     "hidden_dim", "n_layers",
                                        "n_heads", "n_kv_heads", "vocab_size",
                                        "seq_len"};
    size_t start = version ? 8 : 0;
    Image image;
    CHECK(!image_open(&image, m, version, 4), "cannot make the model");
    for (size_t i = 0; i < 7; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "%s 0", names[i]);
        check_int(&image, start + 4 * i, 0, expected);
        if (version == 0 && i == 5)
            continue; /* a negative vocab_size means untied */
        snprintf(expected, sizeof expected, "%s -2", names[i]);
        check_int(&image, start + 4 * i, -2, expected);
        snprintf(expected, sizeof expected, "%s -2147483648", names[i]);
        check_int(&image, start + 4 * i, INT32_MIN, expected);
    }
    check_int(&image, start + 20, INT32_MIN, "vocab_size -2147483648");
    check_int(&image, start + 12, 7, "n_heads 7, n_kv_heads 4, vocab_size");
    check_int(&image, start + 12, 64, "n_heads 64, n_kv_heads 4, vocab_size");
    check_int(&image, start + 16, 3, "n_heads 8, n_kv_heads 3, vocab_size");
    check_int(&image, start + 16, 16, "n_kv_heads 16");
    free(image.bytes);
}

static void headers_are_checked(void) {
    for (int version = 0; version < 3; version++)
        check_header(&GQA_TIED, version);
    Image image;
    CHECK(!image_open(&image, &GQA_TIED, 2, 4), "cannot make the model");
    check_int(&image, 4, 3, "version is 3, expected 1 or 2");
    check_int(&image, 4, -1, "version is -1");
    check_int(&image, 37, 0, "group_size is 0");
    check_int(&image, 37, -4, "group_size is -4");
    check_int(
        &image, 37, 8,
        "group_size is 8, expected a divisor of dim = 64 and hidden_dim = 172, such as 4");
    check_int(&image, 37, 43, "group_size is 43");
    check_int(&image, 37, 2, "its header needs");
    image.bytes[36] = 2;
    check_image(&image, image.size, "shared_classifier is 2, expected 0 or 1");
    image.bytes[36] = 0;
    check_image(&image, image.size, "truncated?");
    free(image.bytes);
}

/* The length of a file must match its header to the byte. */
static void lengths_are_checked(void) {
    for (int version = 0; version < 3; version++)
        for (int untied = 0; untied < 2; untied++) {
            HashModel m = GQA_TIED;
            m.untied = untied;
            Image image;
            CHECK(!image_open(&image, &m, version, 4), "cannot make the model");
            size_t header = version ? 256 : 28;
            check_image(&image, image.size - 1, "truncated?");
            check_image(&image, image.size + 1, "another format?");
            check_image(&image, header, "truncated?");
            const char *refused =
                version ? "too short for a header" : "is not a model";
            check_image(&image, header - 1, refused);
            check_image(&image, version ? 4 : 1, refused);
            check_image(&image, 0, "is empty");
            free(image.bytes);
        }
}

static void only_regular_files_are_opened(void) {
    const char *fifo = temporary("fifo");
    check_refusal(temporary("missing.bin"), "No such file or directory");
    check_refusal("/tmp", "is a directory");
    check_refusal("/dev/null", "is not a regular file");
    CHECK(!mkfifo(fifo, 0600), "cannot make a FIFO");
    alarm(30); /* ends the test if the open blocks */
    check_refusal(fifo, "is not a regular file");
    alarm(0);
}

/* Giant sizes in a header are refused before memory is allocated, which would
 * fail with another message. */
static void giant_headers_are_refused(void) {
    enum { MAX = INT32_MAX };
    static const int32_t ints[][7] = {
        {MAX - 1, MAX, MAX, MAX / 2, MAX / 2, MAX, MAX},
        {2, 1, MAX, 1, 1, 1, 1},
        {MAX - 1, 1, 1, 1, 1, 1, 1},
        {2, 1, 1, 1, 1, MAX, MAX},
        {2, MAX, MAX, 1, 1, 1, 1},
        {1 << 30, 1 << 30, 16, 1, 1, 1, 1}};
    for (int version = 0; version < 3; version++)
        for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
            Image image;
            CHECK(!image_open(&image, &GQA_TIED, version, 1),
                  "cannot make the model");
            memcpy(image.bytes + (version ? 8 : 0), ints[i], sizeof ints[i]);
            const bool has_sizes = version > 0 || i > 0;
            check_image(&image, image.size,
                        has_sizes ? "its header needs" : "is not a model");
            free(image.bytes);
        }
    Image image;
    CHECK(!image_open(&image, &GQA_TIED, 1, 0), "cannot make the model");
    for (size_t i = 0; i < 7; i++)
        memcpy(image.bytes + 8 + 4 * i, &(int32_t){MAX}, 4);
    check_image(&image, image.size, "n_heads to divide dim into even sizes");
    memcpy(image.bytes + 8, ints[0], sizeof ints[0]);
    check_image(&image, image.size, "(truncated?)");
    free(image.bytes);
}

/* ---- 13B ---------------------------------------------------------------- */

/* LLaMA 2 13B. Sizes in 64 bits, from the formats' definition. */
enum {
    DIM = 5120,
    HIDDEN = 13824,
    LAYERS = 40,
    HEADS = 40,
    VOCAB = 32000,
    SEQ = 2048
};
static const int64_t square = (int64_t)DIM * DIM, wide = (int64_t)DIM * HIDDEN,
                     table = (int64_t)DIM * VOCAB;
static const int64_t norms = (2 * LAYERS + 1) * (int64_t)DIM;

static int64_t stored(int64_t count, int group) {
    return group ? count + count / group * 4 : 4 * count;
}

/* Offsets of parts in the file, in bytes. */
typedef struct {
    int64_t embedding, wq, wo_39, down_1, up_39, output, end;
} Places;

static Places places_of(int version, int group) {
    Places p;
    int64_t at = version ? 256 : 28;
    if (version)
        at += 4 * norms;
    p.embedding = at;
    at += stored(table, group);
    if (!version)
        at += 4LL * LAYERS * DIM; /* the norms of the attention */
    p.wq = at;
    p.wo_39 = at + stored((3 * LAYERS + 39) * square, group);
    at += stored(4 * LAYERS * square, group);
    if (!version)
        at += 4LL * LAYERS * DIM; /* the norms of the MLPs */
    p.down_1 = at + stored((LAYERS + 1) * wide, group);
    p.up_39 = at + stored((2 * LAYERS + 39) * wide, group);
    at += stored(3 * LAYERS * wide, group);
    /* the final norm, two tables of half a head each */
    if (!version)
        at += 4LL * (DIM + SEQ * (DIM / HEADS));
    p.output = at;
    p.end = at + stored(table, group);
    return p;
}

/* Creates a sparse file of `size` bytes with a header. */
static int giant_create(const char *path, const int32_t ints[7], int version,
                        int group, int64_t size) {
    uint8_t header[256] = {0};
    memcpy(header, (int32_t[]){0x616b3432, version}, 8);
    memcpy(header + (version ? 8 : 0), ints, 7 * sizeof *ints);
    if (version)
        memcpy(header + 37, &group, 4);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && pwrite(fd, header, version ? 256 : 28, 0) > 0 &&
        !ftruncate(fd, size))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int create_13b(const char *path, int version, int group, int64_t size) {
    int32_t ints[] = {
        DIM, HIDDEN, LAYERS, HEADS, HEADS, version ? VOCAB : -VOCAB, SEQ};
    return giant_create(path, ints, version, group, size);
}

/* Writes a pattern into the last row of a tensor: 1, 2, 3, ... (int8: modulo
 * 100, scales 0.5). */
static int write_last_row(int fd, int64_t offset, int rows, int cols,
                          int group) {
    static uint8_t row[4 * HIDDEN];
    int64_t first = (int64_t)(rows - 1) * cols;
    for (int i = 0; i < cols; i++) {
        float value = (float)(i + 1);
        if (group)
            row[i] = (uint8_t)(i % 100);
        else
            memcpy(row + 4 * i, &value, 4);
    }
    size_t bytes = (size_t)cols * (group ? 1 : 4);
    if (pwrite(fd, row, bytes, offset + first * (group ? 1 : 4)) !=
        (ssize_t)bytes)
        return -1;
    if (!group)
        return 0;
    size_t n_scales = (size_t)(cols / group);
    for (size_t i = 0; i < n_scales; i++)
        memcpy(row + 4 * i, &(float){0.5f}, 4);
    int64_t scales = offset + (int64_t)rows * cols + first / group * 4;
    return pwrite(fd, row, 4 * n_scales, scales) == (ssize_t)(4 * n_scales)
               ? 0
               : -1;
}

static void check_last_row(const char *name, const Tensor *w, int64_t offset) {
    static float y[HIDDEN];
    CHECK(w->offset == (uint64_t)offset, "%s is at %llu, expected %lld", name,
          (unsigned long long)w->offset, (long long)offset);
    dequantize_row(y, w, w->rows - 1);
    for (int i = 0; i < w->cols; i++) {
        float expected = w->group ? 0.5f * (float)(i % 100) : (float)(i + 1);
        CHECK(y[i] == expected, "%s[%d][%d] is %g, expected %g", name,
              w->rows - 1, i, y[i], expected);
    }
    dequantize_row(y, w, w->rows - 2); /* a hole */
    for (int i = 0; i < w->cols; i++)
        CHECK(y[i] == 0, "%s[%d][%d] is %g, expected 0", name, w->rows - 2, i,
              y[i]);
}

static void check_giant(int version, int group) {
    const char *path = temporary("13b.bin");
    Places p = places_of(version, group);
    int fd = create_13b(path, version, group, p.end);
    CHECK(fd >= 0, "cannot make a file of %lld bytes in %s", (long long)p.end,
          path);
    bool written = !write_last_row(fd, p.embedding, VOCAB, DIM, group) &&
                   !write_last_row(fd, p.wq, DIM, DIM, group) &&
                   !write_last_row(fd, p.wo_39, DIM, DIM, group) &&
                   !write_last_row(fd, p.down_1, DIM, HIDDEN, group) &&
                   !write_last_row(fd, p.up_39, HIDDEN, DIM, group) &&
                   !write_last_row(fd, p.output, VOCAB, DIM, group);
    Model m;
    bool opened = written && !model_open(&m, path);
    close(fd);
    unlink(path);
    CHECK(opened, "cannot write or open");
    CHECK(m.parameters == 13015864320, "version %d: %zu parameters", version,
          m.parameters);
    check_last_row("embedding", &m.embedding, p.embedding);
    check_last_row("layers.0.wq", &m.layers[0].wq, p.wq);
    check_last_row("layers.39.wo", &m.layers[39].wo, p.wo_39);
    check_last_row("layers.1.down", &m.layers[1].mlp.down, p.down_1);
    check_last_row("layers.39.up", &m.layers[39].mlp.up, p.up_39);
    check_last_row("output", &m.output, p.output);
    CHECK(m.layers[39].mlp.up.data == m.files->data + p.up_39,
          "layers.39.up is not at its offset");
    model_close(&m);
}

static void thirteen_billion_parameters(void) {
    check_giant(0, 0);
    check_giant(1, 0);
    check_giant(2, 64);
}

/* One byte less or more than 52 GB is refused. */
static void giant_files_are_checked_to_the_byte(void) {
    const char *path = temporary("13b.bin");
    for (int version = 0; version < 3; version++)
        for (int difference = -1; difference <= 1; difference += 2) {
            int group = version == 2 ? 64 : 0;
            int fd = create_13b(path, version, group,
                                places_of(version, group).end + difference);
            CHECK(fd >= 0, "cannot make the file");
            close(fd);
            check_refusal(path,
                          difference < 0 ? "truncated?" : "another format?");
        }
    unlink(path);
}

/* One tensor of more than 2^32 weights: 40,000,000 pieces of 128. */
static void check_tall(int version, int group) {
    enum { WIDTH = 128, PIECES = 40000000 };
    const char *path = temporary("tall.bin");
    int32_t ints[] = {WIDTH, WIDTH, 1, 1, 1, PIECES, 16};
    /* after norms, embedding */
    int64_t wq = 256 + 4 * 3 * WIDTH + stored((int64_t)WIDTH * PIECES, group);
    int64_t output = wq + stored(7 * WIDTH * WIDTH, group);
    int fd = giant_create(path, ints, version, group,
                          output + stored((int64_t)WIDTH * PIECES, group));
    CHECK(fd >= 0, "cannot make the file");
    bool written =
        !write_last_row(fd, 256 + 4 * 3 * WIDTH, PIECES, WIDTH, group) &&
        !write_last_row(fd, wq, WIDTH, WIDTH, group) &&
        !write_last_row(fd, output, PIECES, WIDTH, group);
    Model m;
    bool opened = written && !model_open(&m, path);
    close(fd);
    unlink(path);
    CHECK(opened, "cannot write or open");
    check_last_row("embedding", &m.embedding, 256 + 4 * 3 * WIDTH);
    check_last_row("layers.0.wq", &m.layers[0].wq, wq);
    check_last_row("output", &m.output, output);
    model_close(&m);
}

static void tensors_beyond_32_bits(void) {
    check_tall(1, 0);
    check_tall(2, 32);
}

void suite_checkpoint(void) {
    TEST(every_value_is_as_expected);
    TEST(parts_are_visited_in_order);
    TEST(headers_are_checked);
    TEST(lengths_are_checked);
    TEST(only_regular_files_are_opened);
    TEST(giant_headers_are_refused);
    TEST(thirteen_billion_parameters);
    TEST(tensors_beyond_32_bits);
    TEST(giant_files_are_checked_to_the_byte);
}
