/* test_damage.c: damaged files.
 *
 * Damages checkpoints, tokenizers and GGUF files, with a fixed seed. Each file
 * must run or be refused with one line on stderr.
 */
#include "formats/gguf.h"
#include "formats/llama2c.h"
#include "formats/open.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"
#include "sampler.h"
#include "session.h"
#include "tokenizer.h"

#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t state;

static int any(int n) {
    return (int)(hash64(61, 7, state++) % (uint64_t)n);
}

/* File i of a test does not depend on the files before it. */
static void start_file(int test, int i) {
    state = (uint64_t)test << 40 | (uint64_t)i << 16;
}

static int int_at(const uint8_t *data, size_t at) {
    int value;
    memcpy(&value, data + at, sizeof value);
    return value;
}

/* ---- damaging ----------------------------------------------------------- */

enum { MAX_BYTES = 1 << 18, VOCAB = 300 };

typedef struct {
    uint8_t bytes[MAX_BYTES];
    size_t size;
} Image;

static void load(Image *image, const char *path) {
    FILE *in = fopen(path, "rb");
    image->size = fread(image->bytes, 1, MAX_BYTES, in);
    fclose(in);
}

static void save(const Image *image, const char *path) {
    FILE *out = fopen(path, "wb");
    fwrite(image->bytes, 1, image->size, out);
    fclose(out);
}

/* A number at a boundary, or near `old`, the number it replaces. */
static int evil_int(int old) {
    switch (any(10)) {
    case 0: return 0;
    case 1: return -1;
    case 2: return 1;
    case 3: return INT_MIN;
    case 4: return INT_MAX;
    case 5: return (int)((unsigned)old + 1);
    case 6: return (int)((unsigned)old - 1);
    case 7: return (int)(0u - (unsigned)old);
    case 8: return 1 << any(31);
    default: return (int)(hash64(61, 8, state++) >> 32);
    }
}

static void put_int(Image *image, size_t at, int value) {
    if (at + sizeof value <= image->size)
        memcpy(image->bytes + at, &value, sizeof value);
}

/* Damages one of: an int of the header, the length, random bits, floats. The
 * first `header` bytes are the header; its ints are at `first`, first + 4,
 * ... */
static void damage(Image *image, size_t first, size_t header) {
    size_t size = image->size;
    size_t in_header = first + 4 * (size_t)any((int)(header - first) / 4);
    switch (size < header ? 3 : any(7)) {
    case 0:
    case 1:
        put_int(image, in_header, evil_int(int_at(image->bytes, in_header)));
        break;
    case 2: image->size = (size_t)any((int)size); break;
    case 3: /* longer */
        image->size += (size_t)any(64);
        memset(image->bytes + size, any(256), image->size - size);
        break;
    case 4: image->bytes[in_header] ^= (uint8_t)(1 << any(8)); break;
    case 5:
        for (int i = 0; i < 20; i++) {
            int at = any((int)size);
            image->bytes[at] ^= (uint8_t)(1 << any(8));
        }
        break;
    default: /* weights or scores that are huge or NaN */
        for (int i = 0; i < 20; i++) {
            static const float values[] = {NAN,   INFINITY, -INFINITY,
                                           3e38f, -3e38f,   1e-45f};
            size_t at = header + 4 * (size_t)any((int)(size - header) / 4 - 1);
            memcpy(image->bytes + at, &values[any(6)], 4);
        }
    }
}

static void fill_with_garbage(Image *image, size_t from) {
    image->size = from + (size_t)any(5000);
    for (size_t i = from; i < image->size; i++)
        image->bytes[i] = (uint8_t)any(256);
}

/* ---- running ------------------------------------------------------------ */

typedef struct {
    int refused, ran, not_a_number;
} Counts;

/* Prefill and decode of a few tokens, then a sample from the logits. */
static void run_model(const Model *m, Counts *counts) {
    int vocab_size = m->config.vocab_size;
    int tokens[6];
    Session session;
    for (int i = 0; i < 6; i++)
        tokens[i] = any(vocab_size);
    CHECK(session_open(&session, m, 2, 4, tokens[0] % 2 ? 0 : 8,
                       tokens[1] % 2 ? KV_F32 : KV_F16) == 0,
          "no session");
    int n = session.context < 6 ? session.context : 6;
    const float *logits = model_forward_text(&session, tokens, n, 0, 1);
    if (n > 1)
        logits = model_forward_text(&session, tokens + n - 1, 1, n - 1, 1);
    CHECK(logits, "%d tokens in a context of %d do not run", n,
          session.context);
    if (check_logits(logits, (size_t)vocab_size)) {
        counts->not_a_number++;
    } else {
        Sampling options = {.repeat_penalty = 1 + (float)any(2), .seed = 1};
        options.temperature = (float)any(2);
        options.top_p = (float)any(3) / 2;
        options.top_k = any(3);
        options.min_p = (float)any(2) / 2;
        Sampler sampler;
        CHECK(sampler_open(&sampler, &options, vocab_size) == 0, "no sampler");
        for (int i = 0; i < n; i++)
            sampler_accept(&sampler, tokens[i]);
        int token = sampler_next(&sampler, logits);
        CHECK(token >= 0 && token < vocab_size, "token %d of %d", token,
              vocab_size);
        sampler_close(&sampler);
    }
    session_close(&session);
}

static void try_model(const Image *image, Counts *counts) {
    const char *path = temporary("damaged.bin");
    int before = counts->not_a_number;
    Model m;
    save(image, path);
    stderr_hide();
    bool opened = model_open(&m, path) == 0;
    if (opened)
        run_model(&m, counts);
    int lines = stderr_show(),
        expected = !opened || counts->not_a_number > before;
    if (opened)
        model_close(&m);
    counts->ran += opened;
    counts->refused += !opened;
    CHECK(lines == expected, "%s, with %d lines on stderr",
          opened ? "opened" : "refused", lines);
}

/* Reads every piece and encodes a text. */
static void run_tokenizer(const Tokenizer *t) {
    static const char text[] = "a little text, \xc3\xa9\xff\n <0x41>  aa ba";
    Tokens tokens;
    CHECK(tokenizer_encode(t, text, sizeof text, true, &tokens) == 0,
          "does not encode");
    size_t read = 0;
    for (int i = -1; i < t->pieces.n + tokens.n; i++) {
        int n;
        int token = i < 0             ? 0
                    : i < t->pieces.n ? i
                                      : tokens.ids[i - t->pieces.n];
        CHECK(token >= 0 && token < t->pieces.n, "token %d", token);
        const char *piece = tokenizer_decode(t, i % 2 ? t->bos : 5, token, &n);
        for (int k = 0; k < n; k++)
            read += piece[k] != 0;
    }
    CHECK(read > 0, "no text in any piece");
    free(tokens.ids);
}

static void try_tokenizer(const Image *image, Counts *counts) {
    const char *path = temporary("damaged.bin");
    Tokenizer t;
    save(image, path);
    stderr_hide();
    bool opened = tokenizer_open_bin(&t, path, VOCAB) == 0;
    int lines = stderr_show();
    counts->ran += opened;
    counts->refused += !opened;
    CHECK(lines == !opened, "%s, with %d lines on stderr",
          opened ? "opened" : "refused", lines);
    if (!opened)
        return;
    run_tokenizer(&t);
    tokenizer_close(&t);
}

/* ---- the tests ----------------------------------------------------------- */

/* A fraction of the files under valgrind. */
static int how_many(int files) {
    return test_fast() ? files / 10 : files;
}

static void check_counts(const char *what, const Counts *c) {
    printf("%s: %d files refused, %d ran", what, c->refused, c->ran);
    printf(c->not_a_number ? ", %d of them with a logit that is not finite\n"
                           : "\n",
           c->not_a_number);
    int min = (c->refused + c->ran) / 10;
    CHECK(c->refused >= min && c->ran >= min,
          "%d refused, %d ran: not much of a test", c->refused, c->ran);
}

static void damaged_checkpoints(void) {
    static const HashModel model = {32, 48, 2, 4, 2, VOCAB, 40, true, 6};
    static Image good[3], image;
    Counts counts = {0};
    for (int version = 0; version < 3; version++) {
        const char *path = temporary("good.bin");
        CHECK(hashmodel_write(&model, path, version, 16) == 0, "cannot write");
        load(&good[version], path);
        CHECK(good[version].size < MAX_BYTES - 1000, "%zu bytes",
              good[version].size);
        try_model(&good[version], &counts);
    }
    CHECK(counts.ran == 3 && counts.not_a_number == 0,
          "an undamaged file is refused");
    for (int i = 0; i < how_many(500); i++) {
        start_file(1, i);
        int version = any(3);
        image = good[version];
        if (any(12) == 0)
            fill_with_garbage(
                &image,
                (size_t)(4 * any(8))); /* sometimes only after the magic */
        else
            for (int k = any(2); k >= 0; k--)
                damage(&image, version ? 4 : 0, version ? 44 : 28);
        try_model(&image, &counts);
    }
    check_counts("checkpoints", &counts);
}

/* Small random sizes, and a file of the length that they require. */
static void random_headers(void) {
    static Image image;
    Counts counts = {0};
    for (int i = 0; i < how_many(500); i++) {
        start_file(2, i);
        int version = any(3), group = version == 2 ? 1 << any(3) : 0;
        int heads = 1 + any(4), kv_heads = any(3) ? heads : 1 + any(4),
            dim = heads * (1 + any(6));
        int hidden_dim = (group ? group : 1) * (1 + any(20)),
            layers = 1 + any(3), vocab_size = 1 + any(6);
        int context = version && any(2) ? INT_MAX : 1 + any(10);
        int ints[7] = {dim,      hidden_dim, layers, heads,
                       kv_heads, vocab_size, context};
        bool tied = any(2);
        uint8_t header[256] = {0};
        memcpy(header, version ? (int[]){0x616b3432, version} : ints, 8);
        memcpy(header + (version ? 8 : 0), ints, sizeof ints);
        if (version)
            header[36] = tied;
        if (version)
            memcpy(header + 37, &group, 4);
        if (!version && !tied)
            memcpy(header + 20, &(int){-vocab_size}, 4);
        int head_size = dim / heads,
            layer =
                2 * dim * (dim + kv_heads * head_size) + 3 * dim * hidden_dim;
        int weights = layers * layer + (tied ? 1 : 2) * dim * vocab_size,
            norms = (2 * layers + 1) * dim;
        int n_bytes = group ? weights + weights / group * 4 : weights * 4;
        image.size = (size_t)((version ? 256 : 28) + 4 * norms + n_bytes +
                              (version ? 0 : 4 * context * head_size));
        CHECK(image.size < MAX_BYTES, "%zu bytes", image.size);
        bool mild = any(2); /* floats near 1, or any bits */
        for (size_t at = 0; at + 4 <= image.size; at += 4)
            put_int(&image, at,
                    mild ? 0x3f800000 - any(1 << 24)
                         : (int)(hash64(61, 9, state++) >> 32));
        memcpy(image.bytes, header, version ? 256 : 28);
        try_model(&image, &counts);
    }
    check_counts("headers", &counts);
}

static void damaged_tokenizers(void) {
    static Image good, image;
    Counts counts = {0};
    const char *path = temporary("good.bin");
    CHECK(hashtokenizer_write(path, VOCAB) == 0, "cannot write");
    load(&good, path);
    try_tokenizer(&good, &counts);
    CHECK(counts.ran == 1, "the undamaged file is refused");
    for (int i = 0; i < how_many(500); i++) {
        start_file(3, i);
        image = good;
        if (any(12) == 0)
            fill_with_garbage(&image, 4);
        else
            for (int k = any(2); k >= 0; k--) {
                size_t at = 4; /* of some piece */
                for (int skip = any(VOCAB); skip > 0; skip--)
                    at += 8 + (size_t)int_at(good.bytes, at + 4);
                if (any(2))
                    at += 4; /* its length, not its score */
                if (any(3))
                    damage(&image, 4, 8 + (size_t)any(500));
                else
                    put_int(&image, at, evil_int(int_at(good.bytes, at)));
            }
        try_tokenizer(&image, &counts);
    }
    check_counts("tokenizers", &counts);
}

/* ---- GGUF --------------------------------------------------------------- */

/* Opens the model and its tokenizer; each is refused with one line or runs. */
static void try_gguf(const Image *image, Counts *counts) {
    const char *path = temporary("damaged.gguf");
    int before = counts->not_a_number;
    int found = 0;
    Model m;
    Tokenizer t;
    remove(path);
    save(image, path);
    stderr_hide();
    bool opened = model_open(&m, path) == 0;
    if (opened) {
        run_model(&m, counts);
        found =
            gguf_read_tokenizer(&t, m.files, path, m.config.vocab_size, true);
        if (found > 0)
            run_tokenizer(&t);
        if (found > 0)
            tokenizer_close(&t);
        model_close(&m);
    }
    int lines = stderr_show();
    int expected = !opened + (found < 0) + (counts->not_a_number - before);
    /* an id outside the vocabulary counts as absent, with a note */
    for (const char *at = stderr_text(); (at = strstr(at, "note: ")); at++)
        lines--;
    counts->ran += opened;
    counts->refused += !opened;
    CHECK(lines == expected, "%s, with %d lines on stderr, expected %d",
          opened ? "opened" : "refused", lines, expected);
    CHECK(!strstr(stderr_text(), "out of memory"), "stderr: %s", stderr_text());
}

/* Damages an int near a name: its length, type, shape, offset or value. */
static void damage_near_name(Image *image) {
    static const char *const names[] = {
        "general.architecture",
        "general.alignment",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.block_count",
        "llama.attention.head_count",
        "llama.attention.head_count_kv",
        "llama.context_length",
        "llama.attention.layer_norm_rms_epsilon",
        "llama.rope.dimension_count",
        "llama.rope.freq_base",
        "tokenizer.ggml.model",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.scores",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.bos_token_id",
        "token_embd.weight",
        "blk.0.attn_q.weight",
        "blk.0.attn_norm.weight",
        "blk.1.ffn_down.weight",
        "blk.1.ffn_norm.bias",
        "output_norm.weight",
        "output.weight",
        "qwen3moe.feed_forward_length",
        "qwen3moe.expert_count",
        "qwen3moe.expert_used_count",
        "qwen3moe.expert_feed_forward_length",
        "qwen3moe.attention.key_length",
        "blk.0.attn_q_norm.weight",
        "blk.0.ffn_gate_inp.weight",
        "blk.1.ffn_down_exps.weight"};
    const char *name = names[any((int)(sizeof names / sizeof *names))];
    const uint8_t *found =
        memmem(image->bytes, image->size, name, strlen(name));
    if (!found)
        return;
    size_t at = (size_t)(found - image->bytes);
    if (any(12) == 0) {
        image->bytes[at + (size_t)any((int)strlen(name))] ^=
            (uint8_t)(1 << any(8));
    } else {
        size_t where = any(8) == 0 ? at - 8 + 4 * (size_t)any(2)
                                   : at + strlen(name) + 4 * (size_t)any(8);
        if (where + 4 <= image->size)
            put_int(image, where, evil_int(int_at(image->bytes, where)));
    }
}

/* Limits the address space to `more` bytes above the present use, except under
 * sanitizers. */
static void limit_memory(struct rlimit *before, size_t more) {
    getrlimit(RLIMIT_AS, before);
#ifndef SANITIZED
    FILE *in = fopen("/proc/self/statm", "r");
    size_t pages = 0;
    if (in && fscanf(in, "%zu", &pages) == 1 && !test_fast()) {
        struct rlimit limit = *before;
        limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + more;
        setrlimit(RLIMIT_AS, &limit);
    }
    if (in)
        fclose(in);
#else
    (void)more;
#endif
}

static void damaged_gguf_files(void) {
    static const HashModel model = {32, 32, 2, 4, 2, VOCAB, 40, true, 10};
    static const Type types[] = {TYPE_F32, TYPE_F16, TYPE_Q8_0, TYPE_F16};
    static const Relative relatives[] = {
        {.architecture = "llama"},
        {.architecture = "llama", .head_size = 12},
        {.architecture = "qwen2", .biases = true},
        {.architecture = "qwen3moe",
         .head_size = 8,
         .n_experts = 4,
         .n_experts_used = 2,
         .expert_dim = 32}};
    static GgufFile file;
    static Image good[4], image;
    Counts counts = {0};
    struct rlimit memory;
    for (int i = 0; i < 4; i++) {
        const char *path = temporary("good.gguf");
        gguf_make_relative(&file, &model, &relatives[i]);
        gguf_set_int(&file, "general.alignment", 32);
        gguf_set_int(&file, gguf_key(&relatives[i], "rope.dimension_count"), 4);
        gguf_set_real(&file, gguf_key(&relatives[i], "rope.freq_base"), 10000);
        gguf_add(&file, "blk.1.ffn_norm.bias", 1, model.dim, 0, 1, 5);
        gguf_convert(&file, types[i]);
        CHECK(gguf_add_tokenizer(&file, VOCAB, NULL, 0) == 0 &&
                  gguf_write(&file, path) == 0,
              "cannot write");
        gguf_free(&file);
        load(&good[i], path);
        CHECK(good[i].size < MAX_BYTES - 1000, "%zu bytes", good[i].size);
        try_gguf(&good[i], &counts);
    }
    CHECK(counts.ran == 4 && counts.not_a_number == 0,
          "an undamaged file is refused");
    limit_memory(&memory, 256 << 20);
    for (int i = 0; i < how_many(1000); i++) {
        start_file(4, i);
        image = good[any(4)];
        if (any(20) == 0)
            fill_with_garbage(&image, (size_t)(4 * any(12)));
        for (int k = any(2); k >= 0; k--) {
            if (any(4))
                damage_near_name(&image);
            else
                damage(&image, 4,
                       any(2)
                           ? 24
                           : 12000); /* version and counts; the whole header */
        }
        try_gguf(&image, &counts);
    }
    setrlimit(RLIMIT_AS, &memory);
    check_counts("GGUF files", &counts);
}

/* NaN in one row of the embedding is an error only for this token. */
static void nan_weights(void) {
    static Image image;
    const HashModel *m = &ODD_MQA;
    const char *path = temporary("nan.bin");
    Model model;
    Session session;
    CHECK(hashmodel_write(m, path, 1, 0) == 0, "cannot write");
    load(&image, path);
    size_t embedding = 256 + 4 * (size_t)((2 * m->n_layers + 1) * m->dim),
           row = 5;
    memcpy(image.bytes + embedding + row * (size_t)m->dim * 4, &(float){NAN},
           4);
    save(&image, path);
    CHECK(model_open(&model, path) == 0, "does not open");
    CHECK(session_open(&session, &model, 1, 8, 0, KV_F32) == 0, "no session");
    for (int token = 0; token < m->vocab_size; token++) {
        const float *logits = model_forward_text(&session, &token, 1, 0, 1);
        CHECK(logits, "token %d does not run", token);
        stderr_hide();
        int status = check_logits(logits, (size_t)m->vocab_size),
            lines = stderr_show();
        bool bad = token == (int)row;
        CHECK(status == (bad ? -1 : 0) && lines == bad,
              "token %d: status %d, %d lines", token, status, lines);
    }
    session_close(&session);
    model_close(&model);
}

void suite_damage(void) {
    TEST(damaged_checkpoints);
    TEST(random_headers);
    TEST(damaged_tokenizers);
    TEST(damaged_gguf_files);
    TEST(nan_weights);
}
