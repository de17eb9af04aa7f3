/* test_sequences.c: the same bits together with any other sequences, and on any
 * number of ranks.
 *
 * The logits of a step depend only on the tokens of its own sequence. Random
 * schedules run several texts together: prompts and single tokens in one
 * forward pass, rejected draft tokens, forks, restarted texts. The reference is
 * a run of each text in one chunk, with one thread and no other sequence. Under
 * mpirun (`make test MPI=1`) rank 0 runs the schedules and the other ranks
 * execute its commands; each rank has a random number of threads.
 */
#include "base/ranks.h"
#include "cluster/follow.h"
#include "cluster/share.h"
#include "formats/gguf_file.h"
#include "formats/open.h"
#include "formats/pack.h"
#include "kernels/tensor.h"
#include "model.h"
#include "session.h"

#include "tests/support/folder_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXTS = 4,
    LENGTH = 48,
    PREFIX = 14,
    MAX_VOCAB = 131,
    MAX_TEXT_STEPS = TEXTS * 9
};

/* The tokens of a text and its reference logits. */
static struct {
    int tokens[LENGTH], n; /* n: tokens that have run in the schedule */
    float logits[LENGTH * MAX_VOCAB];
} texts[TEXTS];

static Model model, own; /* the whole model, and this rank's part */
static uint64_t dice;    /* xorshift64 */

static int roll(int n) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (int)(dice >> 33) % n;
}

static int open_both(const char *path) {
    return model_open(&model, path) || model_open(&own, path) ||
                   model_share(&own)
               ? -1
               : 0;
}

/* Computes the reference. The texts have a common prefix of PREFIX tokens. */
static int measure_texts(KvType kv) {
    int vocab_size = model.config.vocab_size;
    for (int i = 0; i < TEXTS; i++) {
        Session s;
        const float *logits = NULL;
        for (int t = 0; t < LENGTH; t++)
            texts[i].tokens[t] =
                (t * 29 + (t < PREFIX ? 0 : 7 * i + 1) * (t + 3)) % vocab_size;
        if (!session_open(&s, &model, 1, LENGTH, 0, kv))
            logits = model_forward_text(&s, texts[i].tokens, LENGTH, 0, LENGTH);
        if (logits)
            memcpy(texts[i].logits, logits,
                   (size_t)(LENGTH * vocab_size) * sizeof *logits);
        session_close(&s);
        if (!logits)
            return -1;
    }
    return 0;
}

/* ---- schedules ---------------------------------------------------------- */

static Step steps[MAX_TEXT_STEPS];
/* for each step with logits: whether all its tokens up to here are the
 * text's */
static bool right[MAX_TEXT_STEPS];

/* Adds steps of text i: some of its tokens, then perhaps wrong draft tokens.
 * Returns their number. */
static int add_steps(Step *to, int i) {
    int left = LENGTH - texts[i].n, max = left < 9 ? left : 9,
        n = max ? 1 + roll(max) : 0;
    int good = roll(3) ? n : roll(n + 1);
    for (int k = 0; k < n; k++) {
        int pos = texts[i].n + k, token = texts[i].tokens[pos];
        to[k] = (Step){
            k < good ? token : (token + 1 + roll(3)) % model.config.vocab_size,
            i, pos, roll(2)};
        right[to + k - steps] = k < good;
    }
    texts[i].n += good;
    return n;
}

/* Restarts a text, or forks it from another one. */
static int change_texts(Session *s) {
    int to = roll(TEXTS), from = roll(TEXTS);
    if (roll(3) == 0)
        texts[to].n = 0;
    if (to == from || !texts[from].n || roll(2))
        return 0;
    texts[to].n = texts[from].n < PREFIX ? texts[from].n : PREFIX;
    return session_fork(s, to, from);
}

/* One forward pass of some texts, in random order. */
static void run_steps(Session *s, const char *what) {
    int vocab_size = model.config.vocab_size, first = roll(TEXTS);
    int n = 0;
    for (int i = 0; i < TEXTS; i++)
        if (roll(4))
            n += add_steps(steps + n, (first + i) % TEXTS);
    if (!n)
        return;
    const float *logits = model_forward(s, steps, n);
    CHECK(logits, "%s: does not run", what);
    for (int t = 0; t < n; t++) {
        if (!steps[t].logits)
            continue;
        const float *expected = texts[steps[t].sequence].logits +
                                (size_t)(steps[t].pos * vocab_size);
        CHECK(!right[t] || !memcmp(logits, expected,
                                   (size_t)vocab_size * sizeof *logits),
              "%s: text %d has other logits at position %d", what,
              steps[t].sequence, steps[t].pos);
        logits += vocab_size;
    }
}

/* Rank 0's part of a schedule. */
static void lead_schedule(Session *s, const char *what) {
    s->mirror = follow_mirror();
    CHECK(!session_reserve(s, TEXTS), "%s: no sequences", what);
    for (int i = 0; i < TEXTS; i++)
        texts[i].n = 0;
    for (int round = 0; round < 16; round++) {
        CHECK(!change_texts(s), "%s: no fork", what);
        run_steps(s, what);
    }
}

static void check_schedule(KvType kv, uint64_t seed) {
    Session s;
    char what[80];
    dice = seed * 0x9E3779B97F4A7C15 + 1;
    int threads = 1 + (roll(3) + own_rank) % (n_ranks > 1 ? 2 : 3),
        batch = 1 + roll(3) * roll(12);
    snprintf(what, sizeof what, "seed %llu, kv %d, batch %d, %d threads",
             (unsigned long long)seed, kv, batch, threads);
    CHECK(!session_open(&s, &own, threads, MAX_TEXT_STEPS, 0, kv),
          "no session");
    s.batch = batch;
    if (own_rank == 0) {
        lead_schedule(&s, what);
        if (s.mirror)
            follow_end(0);
    } else {
        Tuning tuning;
        tuning_open(&tuning, &s);
        CHECK(follow(&s, &tuning) == 0, "%s: another status than rank 0's",
              what);
    }
    session_close(&s);
}

/* The model claims to be large, so that threads are used. */
static void check_schedules(uint64_t first, int seeds) {
    own.decode_bytes = 1 << 30;
    uint64_t end =
        first +
        (uint64_t)((n_ranks > 1 || !test_thorough()) && seeds > 2 ? 2 : seeds);
    for (KvType kv = KV_F32; kv <= KV_F16; kv++) {
        CHECK(!measure_texts(kv), "cannot run");
        for (uint64_t seed = first; seed < end; seed++)
            check_schedule(kv, seed);
    }
    model_pack(&own, 2);
    check_schedule(KV_F16, first);
    model_close(&model);
    model_close(&own);
}

/* ---- the models --------------------------------------------------------- */

static void of_float_models(void) {
    static const HashModel *const models[] = {&GQA_TIED, &MHA_UNTIED, &ODD_MQA};
    for (int i = 0; i < 3; i++) {
        const char *path = temporary("sequences.bin");
        CHECK(!hashmodel_write(models[i], path, 1, 0) && !open_both(path),
              "cannot make the model");
        check_schedules(100 * (uint64_t)i + 1, 8);
    }
}

static void of_int8_models(void) {
    const char *path = temporary("sequences.bin");
    CHECK(!hashmodel_write(&WIDE, path, 2, 32) && !open_both(path),
          "cannot make the model");
    check_schedules(400, 8);
}

/* Without panels, since the groups are not a multiple of four bytes. */
static void of_odd_int8_models(void) {
    static const HashModel odd = {60, 36, 2, 6, 2, 97, 64, true, 6};
    const char *path = temporary("sequences.bin");
    CHECK(!hashmodel_write(&odd, path, 2, 6) && !open_both(path),
          "cannot make the model");
    check_schedules(450, 8);
}

static void check_gguf(const HashModel *m, const Relative *r, Type type,
                       uint64_t seed) {
    static GgufFile file;
    const char *path = temporary("sequences.gguf");
    gguf_make_relative(&file, m, r);
    gguf_convert(&file, type);
    int status = gguf_write(&file, path);
    gguf_free(&file);
    CHECK(!status && !open_both(path), "cannot make the model of %s",
          type_name(type));
    check_schedules(seed, 8);
}

/* With numbers of columns that the K types support. */
static void of_every_type(void) {
    static const HashModel blocks = {256, 512, 1, 4, 2, 64, 64, false, 5};
    Relative llama = {.architecture = "llama"};
    for (Type type = 0; type < (Type)N_TYPES; type += test_fast() ? 4 : 1)
        if (TYPES[type].gguf >= 0)
            check_gguf(&blocks, &llama, type, 500 + 100 * (uint64_t)type);
}

/* Head norms, RoPE in halves, experts. */
static void of_other_architectures(void) {
    static const Type types[N_GOLDEN_RELATIVES] = {
        TYPE_BF16, TYPE_F32, TYPE_Q8_0, TYPE_F16, TYPE_F32};
    for (int i = 0; i < N_GOLDEN_RELATIVES; i++)
        check_gguf(&GOLDEN_RELATIVES[i].model, &GOLDEN_RELATIVES[i].relative,
                   types[i], 2000 + 100 * (uint64_t)i);
}

/* Post-norms, joint norms of all heads, scales, caps, GELU, both RoPE layouts,
 * windows, biases. */
static void of_families(void) {
    static const HashModel layers = {64, 80, 7, 4, 2, 60, 64, true, 15};
    static GgufFile file;
    for (int i = 0; i < N_GGUF_FAMILIES; i++) {
        const char *path = temporary("sequences.gguf");
        gguf_make_family(&file, &layers, GGUF_FAMILIES[i]);
        int status = gguf_write(&file, path);
        gguf_free(&file);
        CHECK(!status && !open_both(path), "cannot make the model of %s",
              GGUF_FAMILIES[i]);
        check_schedules(4000 + 100 * (uint64_t)i, 1);
    }
}

/* Windows with ring caches. */
static void of_windowed_models(void) {
    const char *path = temporary("sequences.bin");
    CHECK(!hashmodel_write(&GQA_TIED, path, 1, 0) && !open_both(path),
          "cannot make the model");
    model.layers[1].window = own.layers[1].window = 5;
    check_schedules(3000, 8);
}

/* ---- the same model on every rank --------------------------------------- */

/* The hash with one byte of the file changed. */
static uint64_t hash_with_change(const Model *m, size_t at) {
    uint8_t *bytes = malloc(m->files->size);
    if (!bytes)
        abort();
    memcpy(bytes, m->files->data, m->files->size);
    bytes[at] ^= 1;
    File file = *m->files;
    file.data = bytes;
    Model changed = *m;
    changed.files = &file;
    uint64_t hash = model_hash(&changed);
    free(bytes);
    return hash;
}

/* The hash covers dimensions, file sizes and headers, in the order of the
 * files, but no weights. header 0: the path is a folder, whose file begins with
 * the length of its header. */
static void check_hash(const char *path, uint64_t header) {
    Model m;
    CHECK(!model_open(&m, path), "%s does not open", path);
    if (!header) {
        memcpy(&header, m.files->data, sizeof header);
        header += sizeof header;
    }
    uint64_t hash = model_hash(&m);
    CHECK(m.files->header == header, "%s: header of %zu bytes, expected %zu",
          path, m.files->header, (size_t)header);
    CHECK(hash_with_change(&m, 0) != hash &&
              hash_with_change(&m, header - 1) != hash,
          "%s: same hash", path);
    CHECK(hash_with_change(&m, m.files->size - 1) == hash,
          "%s: depends on the last weight", path);
    CHECK(hash_with_change(&m, header) == hash,
          "%s: depends on what is after the header", path);
    File files[2] = {*m.files, *m.files};
    Model two = m;
    two.files = files;
    files[0].size++;
    CHECK(model_hash(&two) != hash, "%s: does not depend on the size", path);
    two.n_files = 2;
    uint64_t first = model_hash(&two);
    files[0].size--;
    files[1].size++;
    CHECK(model_hash(&two) != first && first != hash,
          "%s: does not depend on the order of files", path);
    m.config.rope.base += 1;
    CHECK(model_hash(&m) != hash, "%s: does not depend on the dimensions",
          path);
    model_close(&m);
}

static uint64_t gguf_header(const GgufFile *file) {
    uint64_t bytes = 4 + 4 + 8 + 8;
    for (int i = 0; i < file->n_keys; i++)
        bytes += 8 + strlen(file->keys[i].name) + 4 + file->keys[i].bytes;
    for (int i = 0; i < file->n_tensors; i++)
        bytes += 8 + strlen(file->tensors[i].name) + 4 +
                 file->tensors[i].n_dims * 8 + 4 + 8;
    return bytes;
}

static void hashes_cover_headers(void) {
    static const uint64_t headers[] = {28, 256, 256};
    static GgufFile file;
    Relative llama = {.architecture = "llama"};
    Model m;
    const char *path = temporary("hash.bin");
    for (int version = 0; version < 3; version++) {
        CHECK(!hashmodel_write(&WIDE, path, version, 32),
              "cannot make the model");
        check_hash(path, headers[version]);
    }
    path = temporary("hash.gguf");
    gguf_make_relative(&file, &GQA_TIED, &llama);
    int status = gguf_write(&file, path);
    uint64_t header = gguf_header(&file);
    gguf_free(&file);
    CHECK(!status && !model_open(&m, path), "cannot make the model");
    check_hash(path, header);
    m.config.rope.halves = true;
    CHECK(!folder_write(&m, temporary("hash"),
                        &(FolderForm){"llama", .type = TYPE_F32}),
          "cannot make the folder");
    model_close(&m);
    check_hash(temporary("hash"), 0);
}

void suite_sequences(void) {
    TEST(of_float_models);
    TEST(of_int8_models);
    TEST(of_odd_int8_models);
    TEST(of_every_type);
    TEST(of_other_architectures);
    TEST(of_families);
    TEST(of_windowed_models);
    TEST(hashes_cover_headers);
}
