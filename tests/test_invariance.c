/* test_invariance.c: the same bits for any chunks and any threads.
 *
 * The logits of a position depend only on the tokens up to it. The reference is
 * a run in one chunk with one thread.
 *
 * The program runs a small model with one thread (chunk_threads() of model.c).
 * Here small models claim to be large, so that threads are used and the tests
 * are fast; one model really is large. */
#include "base/process.h"
#include "formats/open.h"
#include "formats/pack.h"
#include "kernels/lanes.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"
#include "session.h"

#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <malloc.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 60, MAX_VOCAB = 131, MOST_THREADS = 3 };

static const HashModel large = {256, 704, 4, 8, 4, 97, 64, true, 31};

static const int batches[] = {1, 2, 7, 16, 512};
enum { N_BATCHES = 5 };

static int tokens[MAX_TOKENS];
static float expected[MAX_TOKENS * MAX_VOCAB];

/* ---- the reference ------------------------------------------------------ */

static int open_path(Model *model, const HashModel *m, const char *path,
                     bool pretend) {
    if (model_open(model, path))
        return -1;
    if (pretend)
        /* large enough for any number of threads */
        model->decode_bytes = 1 << 30;
    for (int i = 0; i < MAX_TOKENS; i++)
        tokens[i] = hash_token(m, i);
    return 0;
}

static int open_model(Model *model, const HashModel *m, int group,
                      bool pretend) {
    const char *path = temporary("invariance.bin");
    return hashmodel_write(m, path, group ? 2 : 1, group)
               ? -1
               : open_path(model, m, path, pretend);
}

/* Opens a GGUF file with weights of this type. */
static int open_relative(Model *model, const GoldenRelative *g, Type type) {
    static GgufFile file;
    const char *path = temporary("invariance.gguf");
    gguf_make_relative(&file, &g->model, &g->relative);
    gguf_convert(&file, type);
    int status = gguf_write(&file, path);
    gguf_free(&file);
    return status ? -1 : open_path(model, &g->model, path, true);
}

/* Computes expected[n][vocab_size] in one chunk with one thread. */
static int measure(const Model *model, KvType kv, int n) {
    Session s;
    const float *logits = NULL;
    if (!session_open(&s, model, 1, MAX_TOKENS, 0, kv))
        logits = model_forward_text(&s, tokens, n, 0, n);
    if (logits)
        memcpy(expected, logits,
               (size_t)(n * model->config.vocab_size) * sizeof *logits);
    session_close(&s);
    return logits ? 0 : -1;
}

/* Whether the logits of tokens [first, first + n) are the expected ones. */
static bool same_bits(const Model *model, const float *logits, int first,
                      int n) {
    size_t row = (size_t)model->config.vocab_size;
    return logits && !memcmp(logits, expected + (size_t)first * row,
                             (size_t)n * row * sizeof *logits);
}

/* ---- chunks and threads -------------------------------------------------- */

static void check_session(const Model *model, KvType kv, int n, int batch,
                          int threads) {
    Session s;
    int max = n < batch ? n : batch;
    CHECK(!session_open(&s, model, threads, batch, 0, kv), "no session");
    const float *logits = model_forward_text(&s, tokens, n, 0, 1);
    CHECK(same_bits(model, logits, n - 1, 1),
          "%d tokens, kv %d, batch %d, %d threads: the last logits differ", n,
          kv, batch, threads);
    /* again over a filled cache, with more logits */
    logits = model_forward_text(&s, tokens, n, 0, max);
    CHECK(same_bits(model, logits, n - max, max),
          "%d tokens, kv %d, batch %d, %d threads: the last %d logits differ",
          n, kv, batch, threads, max);
    session_close(&s);
}

static void check_sessions(Model *model, KvType kv) {
    static const int lengths[] = {1, 17, 40};
    CHECK(!measure(model, kv, test_fast() ? 17 : 40), "cannot run");
    for (int b = 0; b < N_BATCHES; b++)
        for (int threads = 1; threads <= MOST_THREADS; threads++)
            for (int i = 0; i < 3; i++) {
                if (test_fast() && (i == 2 || (b + threads + i) % 3))
                    continue;
                /* more threads than processors wait long at barriers: skips
                 * many short chunks */
                if (threads > 1 && lengths[i] > 10 * batches[b] + 10)
                    continue;
                check_session(model, kv, lengths[i], batches[b], threads);
            }
    model_pack(model, 2);
    check_session(model, kv, 17, 7, 2);
    check_session(model, kv, 17, 512, 1);
}

static void check_model(const HashModel *m, int group, bool pretend,
                        KvType kv) {
    Model model;
    CHECK(!open_model(&model, m, group, pretend), "cannot make the model");
    check_sessions(&model, kv);
    model_close(&model);
}

static void float_models(void) {
    check_model(&GQA_TIED, 0, true, KV_F32);
    check_model(&GQA_TIED, 0, true, KV_F16);
    check_model(&MHA_UNTIED, 0, true, KV_F16);
    check_model(&ODD_MQA, 0, true, KV_F32);
}

static void int8_models(void) {
    check_model(&GQA_TIED, 4, true, KV_F32);
    check_model(&MHA_UNTIED, 2, true,
                KV_F32); /* groups smaller than a vector */
    check_model(&MHA_UNTIED, 4, true, KV_F16);
    check_model(&WIDE, 32, true, KV_F16);
}

/* Head norms, RoPE in halves, experts; weight types with and without int8
 * activations. */
static void other_architectures(void) {
    static const Type types[N_GOLDEN_RELATIVES] = {
        TYPE_BF16, TYPE_F32, TYPE_Q8_0, TYPE_F16, TYPE_F32};
    for (int i = 0; i < N_GOLDEN_RELATIVES; i++) {
        Model model;
        if (test_fast() && i != 2)
            continue; /* qwen3moe */
        CHECK(!open_relative(&model, &GOLDEN_RELATIVES[i], types[i]),
              "cannot make the model");
        check_sessions(&model, i % 2 ? KV_F16 : KV_F32);
        model_close(&model);
    }
}

/* Dense and with experts. */
static void bf16_models(void) {
    for (int i = 0; i < 3; i += 2) {
        Model model;
        CHECK(!open_relative(&model, &GOLDEN_RELATIVES[i], TYPE_BF16),
              "cannot make the model");
        if (!test_fast())
            check_sessions(&model, i ? KV_F16 : KV_F32);
        CHECK(!measure(&model, KV_F32, 40), "cannot run");
        for (int batch = 1; batch <= 40; batch += test_fast() ? 13 : 1)
            check_session(&model, KV_F32, 40, batch, 1);
        model_close(&model);
    }
}

/* ---- a large model ------------------------------------------------------ */

/* Whether one token runs with all threads: then each thread writes its own copy
 * of the normalized token. */
static bool uses_all_threads(Session *s) {
    size_t dim = (size_t)s->model->config.dim;
    if (!model_forward_text(s, tokens, 1, 0, 0))
        return false;
    for (size_t i = 0; i < (size_t)s->n_threads * dim; i++)
        s->chunk.xn[i] = NAN;
    if (!model_forward_text(s, tokens, 1, 0, 0))
        return false;
    for (size_t i = 0; i < (size_t)s->n_threads * dim; i++)
        if (isnan(s->chunk.xn[i]))
            return false;
    return true;
}

static void check_large(int group) {
    int n = test_fast() ? 5 : 40;
    Model model;
    CHECK(!open_model(&model, &large, group, false), "cannot make the model");
    CHECK(!measure(&model, KV_F32, n), "cannot run");
    check_session(&model, KV_F32, n, 512, 3);
    check_session(&model, KV_F32, n, 3, 2);
    if (!test_fast())
        check_session(&model, KV_F32, 17, 1, 3);
    if (!group) {
        Session s;
        CHECK(!session_open(&s, &model, MOST_THREADS, 1, 0, KV_F32),
              "no session");
        CHECK(uses_all_threads(&s),
              "a model of %zu bytes does not use the threads",
              model.decode_bytes);
        session_close(&s);
    }
    model_close(&model);
}

static void large_models_use_threads(void) {
    check_large(0);
    if (!test_fast())
        check_large(32);
}

/* These layers (12 MB in all) are too small: a second thread saves less time
 * than the barriers cost. */
static void many_small_layers_use_one_thread(void) {
    static const HashModel deep = {32, 64, 300, 2, 2, 97, 64, true, 35};
    Model model;
    Session s;
    CHECK(!open_model(&model, &deep, 0, false), "cannot make the model");
    CHECK(!session_open(&s, &model, MOST_THREADS, 64, 0, KV_F32), "no session");
    CHECK(model.decode_bytes > 6 << 20 && !uses_all_threads(&s),
          "%zu bytes in 300 layers use the threads", model.decode_bytes);
    session_close(&s);
    model_close(&model);
}

/* ---- chunks that are too large ------------------------------------------ */

/* 4.8 MB of weights would have 2.6 GB of activations in a chunk of 512
 * tokens. */
static void long_rows_reduce_the_chunk(void) {
    static const HashModel wide = {2, 200000, 1, 1, 1, 4, 64, true, 36};
    Model model;
    Session s;
    float in_fives[4 * 4];
    CHECK(!open_model(&model, &wide, 0, false), "cannot make the model");
    CHECK(!session_open(&s, &model, 2, 5, 0, KV_F32) && s.batch == 5,
          "no session");
    memcpy(in_fives, model_forward_text(&s, tokens, 20, 0, 4), sizeof in_fives);
    session_close(&s);
    /* of 128 MB, scratch memory takes 102 MB for each thread with vectors of 16
     * floats, a token 5 MB */
    CHECK(!session_open(&s, &model, 8, 512, 0, KV_F32), "no session");
    CHECK(s.batch == 4 && s.n_threads == 16 / LANES,
          "chunks of %d tokens, %d threads; expected 4, %d", s.batch,
          s.n_threads, 16 / LANES);
    const float *logits = model_forward_text(&s, tokens, 20, 0, 4);
    CHECK(!memcmp(logits, in_fives, sizeof in_fives) &&
              s.chunk.capacity.steps == 4,
          "other bits in chunks of %d", s.chunk.capacity.steps);
    session_close(&s);
    model.decode_bytes = 1 << 30; /* large enough for all threads */
    CHECK(!session_open(&s, &model, 2, 512, 0, KV_F32) && s.batch == 512,
          "chunks of %d tokens, expected 512", s.batch);
    session_close(&s);
    model_close(&model);
}

/* The logits of a chunk count as activations: 2 GB for 16 MB of weights. */
static void a_large_vocabulary_reduces_the_chunk(void) {
    static const HashModel many = {4, 4, 1, 1, 1, 1000000, 64, false, 37};
    Model model;
    Session s;
    CHECK(!open_model(&model, &many, 0, false), "cannot make the model");
    CHECK(!session_open(&s, &model, 1, 512, 0, KV_F32) && s.batch == 32,
          "chunks of %d tokens, expected 32", s.batch);
    CHECK(model_forward_text(&s, tokens, 32, 0, 32), "cannot run");
    session_close(&s);
    model_close(&model);
}

/* In other models the chunk is not reduced. */
static void other_models_keep_their_chunk(void) {
    static const HashModel *const models[] = {&GQA_TIED, &MHA_UNTIED, &ODD_MQA,
                                              &WIDE, &large};
    Model model;
    Session s;
    for (int i = 0; i < 5; i++) {
        CHECK(!open_model(&model, models[i], 0, false),
              "cannot make the model");
        CHECK(!session_open(&s, &model, 2, 512, 0, KV_F32) && s.batch == 512,
              "model %d: chunks of %d", i, s.batch);
        session_close(&s);
        model_close(&model);
    }
    /* the shapes of llama2.c's 15M and TinyLlama's 1.1B in Q4_0 */
    static const Config shapes[] = {
        {288, 768, 6, 6, 6, 48, 32000, 256, .rope.dims = 48},
        {2048, 5632, 22, 32, 4, 64, 32000, 2048, .rope.dims = 64}};
    static const size_t bytes[] = {8500000, 620000000};
    for (int i = 0; i < 2; i++) {
        Layer layers[22] = {0};
        model = (Model){
            .config = shapes[i], .layers = layers, .decode_bytes = bytes[i]};
        CHECK(!session_open(&s, &model, 2, 512, 0, KV_F16) && s.batch == 512,
              "shape %d: chunks of %d", i, s.batch);
        session_close(&s);
    }
}

/* ---- earlier runs ------------------------------------------------------- */

/* After another text, runs this one from the start or from the end of their
 * common prefix. */
static void rewinding_changes_no_bit(void) {
    Model model;
    Session s;
    int other[MAX_TOKENS];
    for (KvType kv = KV_F32; kv <= KV_F16; kv++) {
        CHECK(!open_model(&model, &GQA_TIED, 0, true) &&
                  !measure(&model, kv, 40),
              "cannot make the model");
        CHECK(!session_open(&s, &model, 2, 16, 0, kv), "no session");
        for (int i = 0; i < MAX_TOKENS; i++)
            other[i] = i < 21 ? tokens[i] : (tokens[i] + 1) % 97;
        CHECK(model_forward_text(&s, other, MAX_TOKENS, 0, 0), "cannot run");
        const float *logits = model_forward_text(&s, tokens + 21, 19, 21, 16);
        CHECK(same_bits(&model, logits, 24, 16),
              "kv %d: going back to position 21 changes bits", kv);
        CHECK(model_forward_text(&s, other + 5, MAX_TOKENS - 5, 0, 0),
              "cannot run");
        logits = model_forward_text(&s, tokens, 40, 0, 16);
        CHECK(same_bits(&model, logits, 24, 16),
              "kv %d: going back to the start changes bits", kv);
        session_close(&s);
        model_close(&model);
    }
}

/* Token by token, with a growing cache and growing buffers. */
static void growing_changes_no_bit(void) {
    Model model;
    Session s;
    for (KvType kv = KV_F32; kv <= KV_F16; kv++) {
        CHECK(!open_model(&model, &MHA_UNTIED, 0, true) &&
                  !measure(&model, kv, MAX_TOKENS),
              "cannot make the model");
        CHECK(!session_open(&s, &model, 2, 512, 0, kv), "no session");
        int t = 0, blocks = 0, grown = 0;
        for (int n = 1; t < MAX_TOKENS; t += n, n = n % 4 + 1) {
            if (n > MAX_TOKENS - t)
                n = MAX_TOKENS - t;
            const float *logits = model_forward_text(&s, tokens + t, n, t, n);
            CHECK(same_bits(&model, logits, t, n),
                  "kv %d: the %d logits from position %d on differ", kv, n, t);
            grown += s.sequences->kv.blocks > blocks;
            blocks = s.sequences->kv.blocks;
        }
        CHECK(grown >= 2, "the cache grew %d times", grown);
        session_close(&s);
        model_close(&model);
    }
}

/* A refused call has a message and leaves the session unchanged. */
static void context_is_not_exceeded(void) {
    Model model;
    Session s;
    CHECK(!open_model(&model, &GQA_TIED, 0, false) &&
              !measure(&model, KV_F32, 40),
          "cannot make the model");
    CHECK(!session_open(&s, &model, 1, 16, 40, KV_F32), "no session");
    CHECK(same_bits(&model, model_forward_text(&s, tokens, 40, 0, 1), 39, 1),
          "a context of 40 does not hold 40 tokens");
    FILE *saved = stderr;
    stderr = fopen("/dev/null", "w"); /* test_cli.c checks the messages */
    CHECK(!model_forward_text(&s, tokens, 1, 40, 1),
          "position 40 runs in a context of 40");
    CHECK(!model_forward_text(&s, tokens, 41, 0, 1),
          "41 tokens run in a context of 40");
    CHECK(!model_forward_text(&s, tokens, 2, 39, 1),
          "positions 39 and 40 run in a context of 40");
    fclose(stderr);
    stderr = saved;
    CHECK(
        same_bits(&model, model_forward_text(&s, tokens + 39, 1, 39, 1), 39, 1),
        "a refusal changes what comes after");
    session_close(&s);
    model_close(&model);
}

/* ---- windows ------------------------------------------------------------ */

enum { LONG = 300, WINDOW = 21, ROW = 97 };

static const int long_batches[] = {1, 7, 16, 64};

/* A model whose second layer has a window, with 300 tokens and their logits
 * from a cache of all positions. */
static int open_windowed(Model *model, int *text, float *logits) {
    Session s;
    if (open_model(model, &GQA_TIED, 0, true))
        return -1;
    model->config.context = LONG;
    model->layers[1].window = WINDOW;
    for (int i = 0; i < LONG; i++)
        text[i] = hash_token(&GQA_TIED, i);
    const float *found = NULL;
    if (!session_open(&s, model, 1, LONG, 0, KV_F32)) {
        session_keep_all(&s);
        found = model_forward_text(&s, text, LONG, 0, LONG);
    }
    if (found)
        memcpy(logits, found, sizeof *logits * LONG * ROW);
    session_close(&s);
    return found ? 0 : -1;
}

/* A layer with a window keeps few positions; the bits are the same. */
static void a_ring_changes_no_bit(void) {
    static float all[LONG * ROW];
    static int text[LONG];
    Model model;
    Session s;
    CHECK(!open_windowed(&model, text, all), "no model");
    for (int b = 0; b < 4; b++)
        for (int threads = 1; threads <= 2; threads++) {
            int batch = long_batches[b],
                ring = (WINDOW + batch + MAX_ROLLBACK - 2) / KV_BLOCK + 2;
            CHECK(!session_open(&s, &model, threads, batch, 0, KV_F32),
                  "no session");
            for (int t = 0; t < LONG; t += batch) {
                int n = LONG - t < batch ? LONG - t : batch;
                const float *logits = model_forward_text(&s, text + t, n, t, n);
                CHECK(logits && !memcmp(logits, all + t * ROW,
                                        sizeof *all * (size_t)(n * ROW)),
                      "chunks of %d, %d threads: logits from position %d on",
                      batch, threads, t);
            }
            CHECK(s.sequences->kv.layers[0].blocks * KV_BLOCK >= LONG &&
                      s.sequences->kv.layers[1].blocks == ring,
                  "%d and %d blocks", s.sequences->kv.layers[0].blocks,
                  s.sequences->kv.layers[1].blocks);
            session_close(&s);
        }
    model_close(&model);
}

/* MAX_ROLLBACK tokens can be rewound, one more is refused; from position 0 the
 * text runs again. */
static void a_ring_can_be_rewound(void) {
    static float all[LONG * ROW];
    static int text[LONG], other[MAX_ROLLBACK];
    Model model;
    Session s;
    CHECK(!open_windowed(&model, text, all) &&
              !session_open(&s, &model, 2, 8, 0, KV_F32),
          "no model");
    for (int i = 0; i < MAX_ROLLBACK; i++)
        other[i] = (text[200 + i] + 1) % ROW;
    CHECK(model_forward_text(&s, text, 200, 0, 0) &&
              model_forward_text(&s, other, MAX_ROLLBACK, 200, 0),
          "does not run");
    const float *logits = model_forward_text(&s, text + 200, 60, 200, 1);
    CHECK(logits && !memcmp(logits, all + 259 * ROW, sizeof *all * ROW),
          "the logits of position 259 differ");
    stderr_hide();
    bool refused = !model_forward_text(&s, text + 199, 1, 199, 1);
    CHECK(stderr_show() == 1 && refused, "65 positions are rewound");
    CHECK(!session_reserve(&s, 2) && !session_fork(&s, 1, 0), "no fork");
    stderr_hide();
    bool fork_refused =
        !model_forward(&s, &(Step){text[100], 1, 100, LOGITS}, 1);
    CHECK(stderr_show() == 1 && fork_refused,
          "a fork is rewound to evicted positions");
    logits = model_forward_text(&s, text, LONG, 0, 1);
    CHECK(logits && !memcmp(logits, all + (LONG - 1) * ROW, sizeof *all * ROW),
          "the last logits differ");
    session_close(&s);
    model_close(&model);
}

/* Ctrl-C ends a pass after a layer, in all threads, and its tokens have not
 * run: then others run at their positions, with the same bits, also in a
 * ring. */
static void ctrl_c_leaves_no_trace(void) {
    static float all[LONG * ROW];
    static int text[LONG], other[LONG];
    Model model;
    Session s;
    CHECK(!open_windowed(&model, text, all), "no model");
    for (int i = 0; i < LONG; i++)
        other[i] = (text[i] + 1) % ROW;
    for (int b = 0; b < 4; b++)
        for (int threads = 1; threads <= MOST_THREADS; threads++) {
            int batch = long_batches[b];
            CHECK(!session_open(&s, &model, threads, batch, 0, KV_F32),
                  "no session");
            for (int t = 0; t < LONG; t += batch) {
                int n = LONG - t < batch ? LONG - t : batch;
                interrupted = 1;
                bool ended = !model_forward_text(&s, other + t, n, t, n);
                interrupted = 0;
                CHECK(ended && s.sequences->n_ran == t,
                      "a pass of %d tokens at %d: %d ran", n, t,
                      s.sequences->n_ran);
                const float *logits = model_forward_text(&s, text + t, n, t, n);
                CHECK(logits && !memcmp(logits, all + t * ROW,
                                        sizeof *all * (size_t)(n * ROW)),
                      "chunks of %d, %d threads: logits from position %d on",
                      batch, threads, t);
            }
            session_close(&s);
        }
    model_close(&model);
}

/* A cache that still has all positions can be rewound to any of them; so can
 * its fork, also over a cache that has evicted some. */
static void forks_can_be_rewound_as_far(void) {
    static float all[LONG * ROW];
    static int text[LONG];
    Model model;
    Session s;
    CHECK(!open_windowed(&model, text, all) &&
              !session_open(&s, &model, 2, 64, 0, KV_F32),
          "no model");
    CHECK(model_forward_text(&s, text, 200, 0, 0) && !session_reserve(&s, 3),
          "does not run");
    for (int t = 0; t < 100; t++)
        CHECK(model_forward(&s, &(Step){text[t], 1, t, NO_LOGITS}, 1),
              "does not run");
    CHECK(!session_fork(&s, 2, 0) && !session_fork(&s, 0, 1), "no fork");
    for (int q = 0; q < 3; q++) {
        stderr_hide();
        const float *logits =
            model_forward(&s, &(Step){text[10], q, 10, LOGITS}, 1);
        int lines = stderr_show();
        CHECK(lines == (q == 2) && !logits == (q == 2),
              "sequence %d: %d lines on stderr", q, lines);
        CHECK(!logits || !memcmp(logits, all + 10 * ROW, sizeof *all * ROW),
              "sequence %d: other logits", q);
    }
    session_close(&s);
    model_close(&model);
}

static SessionChange mirrored[8];
static int n_mirrored;
static void keep_change(SessionChange change, int a, int b, const Step *steps) {
    (void)a, (void)b, (void)steps;
    mirrored[n_mirrored++ % 8] = change;
}

/* Every change of a session is passed to its mirror, in order. */
static void changes_are_mirrored(void) {
    static const SessionChange made[] = {SESSION_RUN, SESSION_FORK};
    Model model;
    Session s;
    CHECK(!open_model(&model, &GQA_TIED, 0, true) &&
              !session_open(&s, &model, 1, 8, 0, KV_F32),
          "no model");
    s.mirror = keep_change;
    n_mirrored = 0;
    CHECK(model_forward_text(&s, tokens, 1, 0, 1) && !session_fork(&s, 1, 0),
          "does not run");
    CHECK(n_mirrored == 2 && !memcmp(mirrored, made, sizeof made), "%d changes",
          n_mirrored);
    session_close(&s);
    model_close(&model);
}

/* The cache grows to twice the requested positions, up to the size of the
 * context. */
static void the_cache_has_room_for_the_context(void) {
    static const struct {
        /* positions, context; expected blocks, after the previous case */
        int n, max, blocks;
    } cases[] = {{1, 100, 2},  {16, 100, 2},   {17, 100, 2},  {33, 100, 6},
                 {65, 100, 6}, {100, 100, 7},  {112, 112, 7}, {113, 113, 8},
                 {1, 113, 8},  {200, 1000, 26}};
    KvCache kv;
    CHECK(!kv_open(&kv, KV_F32, 2, 1, 4), "no memory");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(!kv_reserve(&kv, cases[i].n, cases[i].max), "no memory");
        CHECK(kv.blocks == cases[i].blocks && kv.layers[1].blocks == kv.blocks,
              "case %zu: %d blocks", i, kv.blocks);
    }
    kv_close(&kv);
    CHECK(!kv.layers && !kv.blocks, "not closed");
}

/* NaN and infinity are found in any logit. */
static void every_logit_is_checked(void) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    enum { N = 5 };
    for (int i = 0; i <= 3 * N; i++) {
        float logits[N] = {1, -2, 0, 1e38f, -1e38f};
        if (i < 3 * N)
            logits[i / 3] = bad[i % 3];
        stderr_hide();
        int found = check_logits(logits, N), lines = stderr_show();
        CHECK(found == (i < 3 * N ? -1 : 0) && lines == -found, "logit %d: %d",
              i / 3, found);
    }
}

/* A closed session has freed its memory. OpenMP's threads may keep memory once,
 * not in each round. */
static void sessions_free_their_memory(void) {
    Model model;
    size_t before = 0, min = SIZE_MAX;
    CHECK(!open_relative(&model, &GOLDEN_RELATIVES[2], TYPE_F32),
          "does not open");
    /* malloc keeps up to 7 freed blocks of a size, which count as used */
    for (int i = 0; i < 20; i++) {
        Session s;
        CHECK(!session_open(&s, &model, 1, 8, 0, KV_F32), "no session");
        CHECK(model_forward_text(&s, tokens, 1, 0, 1) &&
                  model_forward_text(&s, tokens, 8, 1, 8),
              "no logits");
        CHECK(model_forward_text(&s, tokens, 20, 9, 1) &&
                  s.sequences->kv.blocks * KV_BLOCK == 32,
              "%d blocks", s.sequences->kv.blocks);
        session_close(&s);
        CHECK(!s.chunk.memory && !s.sequences && !s.ropes[0].frequencies,
              "not closed");
        struct mallinfo2 info = mallinfo2();
        size_t used = info.uordblks + info.hblkhd,
               more = used > before ? used - before : 0;
        if (i && more < min)
            min = more;
        before = used;
    }
    CHECK(min == 0, "each session leaves %zu bytes", min);
    model_close(&model);
}

void suite_invariance(void) {
    TEST(float_models);
    TEST(int8_models);
    TEST(other_architectures);
    TEST(bf16_models);
    TEST(large_models_use_threads);
    TEST(many_small_layers_use_one_thread);
    TEST(long_rows_reduce_the_chunk);
    TEST(a_large_vocabulary_reduces_the_chunk);
    TEST(other_models_keep_their_chunk);
    TEST(rewinding_changes_no_bit);
    TEST(growing_changes_no_bit);
    TEST(context_is_not_exceeded);
    TEST(a_ring_changes_no_bit);
    TEST(a_ring_can_be_rewound);
    TEST(ctrl_c_leaves_no_trace);
    TEST(forks_can_be_rewound_as_far);
    TEST(changes_are_mirrored);
    TEST(the_cache_has_room_for_the_context);
    TEST(every_logit_is_checked);
    TEST(sessions_free_their_memory);
}
