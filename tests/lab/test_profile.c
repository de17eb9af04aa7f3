/* test_profile.c: lab/profile.c, and --profile in every mode that runs the
 * model.
 *
 * Checks the sites of a profile, sums of times, and the sizes of activations,
 * which are computed here again; that profiling does not change the results;
 * and the formats of the files. The only real times compared are the total and
 * the sum of its parts.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "formats/open.h"
#include "kernels/quant.h"
#include "kv_cache.h"
#include "lab/profile.h"
#include "lab/saved.h"
#include "model.h"
#include "norm.h"
#include "session.h"

#include "tests/support/binary.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/json_check.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <ctype.h>
#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TOKENS = 40,
    BATCH = 16,
    DECODED = 6,
    CHUNKS = 3 /* of 16, 16 and 8 tokens */
};

static const HashModel MODEL = {64, 172, 3, 8, 4, 97, 64, true, 41};
/* large enough for the clock's resolution */
static const HashModel LARGE = {288, 768, 2, 6, 2, 97, 64, true, 42};

/* The sites of a layer; the barriers of a phase: decode (one token), prefill
 * (many). One more after the cache if the threads do not divide the KV
 * heads. */
typedef struct {
    const char *names[16]; /* NULL: the end */
    int waits[N_PHASES];
} Sites;

static const Sites PLAIN = {{"attn_norm", "qkv", "rope", "attention",
                             "attn_out", "mlp_norm", "gate_up+silu", "down",
                             "(wait)", NULL},
                            {[PREFILL] = 6, [DECODE] = 4}};
static const Sites SPARSE = {{"attn_norm", "qkv", "q_norm", "k_norm", "rope",
                              "attention", "attn_out", "mlp_norm", "router",
                              "top_k", "gate_up+silu", "down", "(wait)", NULL},
                             {[PREFILL] = 8, [DECODE] = 6}};

static const GoldenRelative *const MOE = &GOLDEN_RELATIVES[2];

static Model model;
static Session session;
static Profile *profile;
static int tokens[TOKENS + DECODED];
static bool in_int8; /* whether open_session() writes the model in int8 */

/* Times the first decode pass, too, and the next ones within a budget. */
static int time_every_pass(double budget) {
    if (!profile)
        return -1;
    profile->left = 0;
    profile->budget = budget;
    return 0;
}

/* Opens a model and a session, profiled or not; the model uses all threads,
 * although it is small. */
static int open_path(const HashModel *m, const char *path, int threads,
                     bool profiled) {
    if (model_open(&model, path))
        return -1;
    if (threads > 1)
        model.decode_bytes = 1 << 30;
    for (int i = 0; i < TOKENS + DECODED; i++)
        tokens[i] = hash_token(m, i);
    if (session_open(&session, &model, threads, BATCH, 0, KV_F32))
        return -1;
    profile = profiled ? profile_open(&session, (About){"a \"model\"</script>",
                                                        NULL, threads})
                       : NULL;
    return profiled && time_every_pass(INFINITY) ? -1 : 0;
}

static int open_session(const HashModel *m, int threads, bool profiled) {
    const char *path = temporary("profile.bin");
    return hashmodel_write(m, path, in_int8 ? 2 : 1, in_int8 ? 4 : 0)
               ? -1
               : open_path(m, path, threads, profiled);
}

/* The same with a model that has head norms and experts. */
static int open_moe(int threads, bool profiled) {
    static GgufFile file;
    const char *path = temporary("profile.gguf");
    gguf_make_relative(&file, &MOE->model, &MOE->relative);
    int status_ = gguf_write(&file, path);
    gguf_free(&file);
    return status_ ? -1 : open_path(&MOE->model, path, threads, profiled);
}

static void close_session(void) {
    profile_close(profile);
    session_close(&session);
    model_close(&model);
    processors_lost = -1;
    virtual_clock = NULL;
}

/* Runs the prompt in chunks, then token by token; measures the wall-clock time
 * of each phase. logits[1 + DECODED][vocab_size] may be NULL. */
static void run_session(double *seconds, float *logits) {
    size_t row = (size_t)model.config.vocab_size;
    for (int i = 0; i <= DECODED; i++) {
        double start = clock_seconds();
        const float *l =
            i ? model_forward_text(&session, &tokens[TOKENS + i - 1], 1,
                                   TOKENS + i - 1, 1)
              : model_forward_text(&session, tokens, TOKENS, 0, 1);
        seconds[i ? DECODE : PREFILL] += clock_seconds() - start;
        if (logits)
            memcpy(logits + (size_t)i * row, l, row * sizeof *l);
    }
}

/* ---- the results are unchanged ------------------------------------------ */

static void profiling_changes_no_bit(void) {
    static float expected[(1 + DECODED) * 97], found[(1 + DECODED) * 97];
    double seconds[N_PHASES] = {0};
    for (int threads = 1; threads <= 3; threads++) {
        CHECK(!open_session(&MODEL, threads, false), "no session");
        run_session(seconds, expected);
        close_session();
        CHECK(!open_session(&MODEL, threads, true), "no session");
        run_session(seconds, found);
        close_session();
        CHECK(!memcmp(found, expected, sizeof found),
              "%d threads: other logits", threads);
        if (test_fast() && threads != 2)
            continue;
        CHECK(!open_moe(threads, false), "no session");
        run_session(seconds, expected);
        close_session();
        CHECK(!open_moe(threads, true), "no session");
        run_session(seconds, found);
        close_session();
        CHECK(!memcmp(found, expected, (1 + DECODED) * 60 * sizeof *found),
              "%d threads: other logits of experts", threads);
    }
}

/* ---- times --------------------------------------------------------------- */

/* The first thread's seconds in all sites but the profiler, and in the
 * profiler. */
static double seconds_of_sites(Phase phase) {
    ThreadTime time = profile_thread(profile, 0, phase);
    return time.norms + time.waiting + time.others;
}

static double of_profiler(Phase phase) {
    return profile_of_thread(profile, 0, phase, NO_LAYER, SITE_PROFILE)
        ->seconds;
}

/* Another program may take the processor between the last mark and our clock,
 * so the best of many tries counts; under valgrind, which runs one thread at a
 * time, no try may be good enough. The profile's clock is calibrated by ours,
 * to about 0.1 %. */
static void check_parts(int threads) {
    double min = test_fast() ? 0 : 0.97;
    double best[N_PHASES] = {0};
    for (int i = 0;
         i < 200 && (i == 0 || best[PREFILL] < min || best[DECODE] < min);
         i++) {
        double seconds[N_PHASES] = {0};
        CHECK(!open_session(&LARGE, threads, true), "no session");
        run_session(seconds, NULL);
        for (Phase phase = 0; phase < N_PHASES; phase++) {
            double own = of_profiler(phase),
                   parts = seconds_of_sites(phase) + own,
                   total = profile->passes[phase].seconds + own;
            double n_tokens = phase == PREFILL ? TOKENS : DECODED,
                   norms = 1e-6 * n_tokens * profile_work(profile, phase).norms;
            CHECK(fabs(parts - total) < 1e-9 && total <= 1.01 * seconds[phase],
                  "parts %g, total %g, timed outside %g", parts, total,
                  seconds[phase]);
            CHECK(norms > 0 && norms < parts, "norms %g, parts %g", norms,
                  parts);
            best[phase] = fmax(best[phase], parts / seconds[phase]);
        }
        close_session();
    }
    for (Phase phase = 0; phase < N_PHASES; phase++)
        CHECK(best[phase] >= min,
              "%d threads, phase %d: the parts make %.1f %% of the whole",
              threads, phase, 100 * best[phase]);
}

static void parts_add_up_to_the_total(void) {
    check_parts(1);
    check_parts(2);
}

/* ---- a virtual clock ---------------------------------------------------- */

enum { THREADS = 2 };

/* The virtual time of each thread. It advances when the clock is read and at
 * delays that a test sets. */
static struct {
    uint64_t at[THREADS], reading; /* cost of a reading, in ticks */
    int thread, layer;             /* with `site`: where the delay is */
    Site site;
    uint64_t ticks, more; /* the delay; it grows by `more` each time */
    uint64_t step;        /* the time of every site */
    long switches;        /* involuntary switches during the delay */
    Probe probe,
        *profile; /* the session's probe, which forwards to the profile's */
} virtual;

static uint64_t virtual_read(void) {
    return virtual.at[omp_get_thread_num()] += virtual.reading;
}

/* After a barrier all threads have the latest time. */
static void virtual_wait(void) {
    uint64_t latest = virtual.at[0] > virtual.at[1] ? virtual.at[0]
                                                    : virtual.at[1];
#pragma omp barrier
    if (omp_get_num_threads() > 1)
        virtual.at[omp_get_thread_num()] = latest;
}

static void virtual_mark(Probe *p, int layer, Site site) {
    (void)p;
    if (site == SITE_WAIT)
        virtual_wait();
    else
        virtual.at[omp_get_thread_num()] += virtual.step;
    if (site == virtual.site && layer == virtual.layer &&
        omp_get_thread_num() == virtual.thread) {
        virtual.at[virtual.thread] += virtual.ticks;
        virtual.ticks += virtual.more;
        processors_lost += virtual.switches;
    }
    virtual.profile->mark(virtual.profile, layer, site);
}

static void virtual_begin(Probe *p, bool decode) {
    (void)p;
    virtual.profile->begin(virtual.profile, decode);
}

static void virtual_end(Probe *p) {
    (void)p;
    virtual.profile->end(virtual.profile);
}

static void virtual_norm(Probe *p, int layer, Site site, bool out_,
                         const Vectors *vectors) {
    (void)p;
    virtual.profile->norm(virtual.profile, layer, site, out_, vectors);
}

/* Opens a session whose profile reads the virtual clock; a reading costs
 * `reading` ticks. */
static int open_virtual(const HashModel *m, int threads, uint64_t reading) {
    memset(&virtual, 0, sizeof virtual);
    processors_lost = 1000;
    virtual.reading = reading;
    virtual.layer = -2; /* none */
    if (open_session(m, threads, false))
        return -1;
    virtual_clock = virtual_read;
    profile = profile_open(&session, (About){"a \"model\"", NULL, threads});
    if (time_every_pass(INFINITY))
        return -1;
    virtual.profile = session.probe;
    virtual.probe = (Probe){virtual_begin, virtual_end, virtual_mark,
                            virtual_norm};
    session.probe = &virtual.probe;
    return 0;
}

static void take_longer(int thread, int layer, Site site, uint64_t ticks) {
    virtual.thread = thread;
    virtual.layer = layer;
    virtual.site = site;
    virtual.ticks = ticks;
}

/* In the account of a phase the thread has `ticks` ticks in this site and 0 in
 * all others. */
static void check_account(Phase phase, int thread, int layer, Site site,
                          double ticks) {
    for (int l = NO_LAYER; l < model.config.n_layers; l++)
        for (Site s = 0; s < N_SITES; s++) {
            double found =
                1e9 * profile_of_thread(profile, thread, phase, l, s)->seconds;
            double expected = l == layer && s == site ? ticks : 0;
            CHECK(fabs(found - expected) < 1e-3,
                  "thread %d, layer %d, %s: %g ticks, expected %g", thread, l,
                  SITES[s].name, found, expected);
        }
}

/* A delay of one thread counts for its site; the other thread's time counts as
 * (wait) in this layer. */
static void delays_count_for_their_site(void) {
    static const struct {
        int thread, layer;
        Site site;
    } delays[] = {{0, 1, SITE_ATTN_NORM},     {1, 1, SITE_ATTN_NORM},
                  {1, 0, SITE_MLP_NORM},      {0, 2, SITE_DOWN},
                  {1, 2, SITE_DOWN},          {1, 0, SITE_ATTENTION},
                  {0, NO_LAYER, SITE_LOGITS}, {1, NO_LAYER, SITE_EMBED},
                  {0, NO_LAYER, SITE_INPUT},  {1, NO_LAYER, SITE_INPUT}};
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
        int slow = delays[i].thread, layer = delays[i].layer;
        in_int8 = delays[i].site == SITE_INPUT;
        CHECK(!open_virtual(&MODEL, THREADS, 0), "no session");
        session.batch = TOKENS;
        take_longer(slow, layer, delays[i].site, 1000);
        CHECK(model_forward_text(&session, tokens, TOKENS, 0, TOKENS),
              "does not run");
        /* the inputs of qkv, attn_out, gate and up, down; of the logits */
        double ticks = 1000 * (in_int8 ? 4 * model.config.n_layers + 1 : 1);
        check_account(PREFILL, slow, layer, delays[i].site, ticks);
        check_account(PREFILL, !slow, layer, SITE_WAIT, ticks);
        bool norm = SITES[delays[i].site].is_norm;
        Estimate share = estimate_ratio(&profile->passes[PREFILL].norms);
        CHECK(share.value == (norm ? 1 : 0), "%s: norms are %g",
              SITES[delays[i].site].name, share.value);
        Load load = {0};
        profile_add_load(profile, &load);
        CHECK(fabs(load.waited / load.seconds - 0.5) < 1e-9,
              "waited %g of %g s", load.waited, load.seconds);
        close_session();
    }
    in_int8 = false;
}

/* Other programs take the processor in some of 30 passes: shares, sites and
 * their sum are those of the other passes. With one call of each site, a site
 * is compared with the same site of other layers. */
static void lost_processors_change_no_share(void) {
    for (int prompt = 0; prompt < 2; prompt++)
        for (int interrupted_ = 0; interrupted_ < 2; interrupted_++) {
            CHECK(!open_virtual(&MODEL, 1, 0), "no session");
            virtual.step = 500 * (prompt ? TOKENS : 1);
            session.batch = TOKENS;
            for (int i = 0; i < (prompt ? 1 : 30); i++) {
                bool now_ = interrupted_ && i % 10 == 0;
                take_longer(0, 1, SITE_ROPE, now_ ? 5000000 : 0);
                virtual.switches = now_;
                CHECK(model_forward_text(&session, tokens, prompt ? TOKENS : 1,
                                         i, 1),
                      "does not run");
            }
            Phase phase = prompt ? PREFILL : DECODE;
            double lost = !interrupted_ ? 0 : prompt ? 5e-3 : 15e-3;
            Work w = profile_work(profile, phase);
            /* a layer has eight sites, two of them norms; embed, final norm and
             * logits */
            double share = 7.0 / 27, work = 27 * 0.5; /* us per token */
            CHECK(fabs(w.share.value / share - 1) < 0.01,
                  "norms are %g, expected %g", w.share.value, share);
            CHECK(fabs(w.norms / work - share) < 1e-9 &&
                      fabs(w.work / work - 1) < 0.01,
                  "%g us of work, expected %g", w.work, work);
            CHECK(fabs(w.lost - lost) <= 0.01 * lost, "lost %g s, expected %g",
                  w.lost, lost);
            CHECK(profile->passes[phase].interrupted ==
                      (interrupted_ ? prompt ? 1 : 3 : 0),
                  "%llu interrupted",
                  (unsigned long long)profile->passes[phase].interrupted);
            close_session();
        }
}

/* A tenth of the passes interrupted or a quarter of the time waited is still
 * idle; more is busy. */
static void a_load_is_busy_or_idle(void) {
    static const struct {
        Load load;
        const char *text;
    } cases[] = {
        {{30, 3, 0.0005, 1, 4},
         "idle: other programs interrupted 3 of 30 passes and took 0.500 ms, excluded "
         "from the shares of work; threads waited 25 % of the time"},
        {{30, 4, 0, 0, 4},
         "busy: other programs interrupted 4 of 30 passes and took 0.000 ms, excluded from "
         "the shares of work; threads waited 0 % of the time"},
        {{30, 0, 0, 1.04, 4},
         "busy: other programs interrupted 0 of 30 passes and took 0.000 ms, excluded "
         "from the shares of work; threads waited 26 % of the time"},
        {{0, 0, 0, 0, 0},
         "idle: other programs interrupted 0 of 0 passes and took 0.000 ms, excluded from the shares of "
         "work; threads waited 0 % of the time"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256] = "";
        FILE *memory = fmemopen(text, sizeof text, "w");
        write_load(memory, &cases[i].load);
        fclose(memory);
        CHECK(strcmp(text, cases[i].text) == 0, "%s", text);
    }
}

/* A clock that steps by 10 and takes 19 to read. */
static uint64_t stepping_read(void) {
    static uint64_t at;
    return (at += 19) / 10 * 10;
}

/* Two consecutive readings differ by 10 or 20. */
static void a_coarse_clock_costs_what_it_takes(void) {
    virtual_clock = stepping_read;
    uint64_t ticks = ticks_of_reading();
    virtual_clock = NULL;
    CHECK(ticks == 18 || ticks == 19, "%llu ticks", (unsigned long long)ticks);
}

/* The cost of marks counts for (profile), never for a site. */
static void marks_count_for_the_profile(void) {
    CHECK(!open_virtual(&MODEL, 1, 70), "no session");
    CHECK(profile->reading == 70, "a reading takes %llu ticks",
          (unsigned long long)profile->reading);
    take_longer(0, 1, SITE_MLP_NORM, 5000);
    CHECK(model_forward_text(&session, tokens, 1, 0, 1), "does not run");
    for (int l = NO_LAYER; l < model.config.n_layers; l++)
        for (Site s = 0; s < N_SITES; s++) {
            double found =
                1e9 * profile_of_thread(profile, 0, DECODE, l, s)->seconds;
            double expected = l == 1 && s == SITE_MLP_NORM ? 5000
                              : s == SITE_PROFILE          ? found
                                                           : 0;
            CHECK(fabs(found - expected) < 1e-3, "layer %d, %s: %g ticks", l,
                  SITES[s].name, found);
        }
    /* Marks of a layer: eight sites and two observed norms; of a forward pass:
     * start, embed, final norm, its observation, logits, end. Each mark reads
     * the clock at its begin and at its end. */
    double observing = 1e9 * of_profiler(DECODE);
    CHECK(fabs(observing - 2 * 70 * (10 * 3 + 6)) < 1e-3,
          "observing took %g ticks", observing);
    CHECK(fabs(seconds_of_sites(DECODE) - profile->passes[DECODE].seconds) <
              1e-12,
          "parts are not the whole");
    close_session();
}

/* The calls take 1,000, 2,000, ... 40,000 ticks. */
static void quantiles_of_calls(void) {
    CHECK(!open_virtual(&MODEL, 1, 3), "no session");
    take_longer(0, 2, SITE_ATTN_OUT, 1000);
    virtual.more = 1000;
    for (int i = 0; i < 40; i++)
        CHECK(model_forward_text(&session, tokens, 1, i, 1), "does not run");
    SiteRow row = {0};
    for (int place = 0; !(row.layer == 2 && row.site == SITE_ATTN_OUT); place++)
        row = profile_row(profile, DECODE, place);
    CHECK(fabs(row.median / 20 - 1) < 0.07 && fabs(row.p95 / 38 - 1) < 0.07,
          "median %g, 95 %% %g", row.median, row.p95);
    CHECK(fabs(1e9 * row.record.seconds - 820000) < 1e-3 &&
              row.record.calls == 40,
          "%g ticks", 1e9 * row.record.seconds);
    close_session();
}

/* A site takes 1,000 and 3,000 ticks in turn: its standard error is that of the
 * mean of 40 such passes; with one pass there is none. */
static void errors_are_those_of_the_passes(void) {
    CHECK(!open_virtual(&MODEL, 1, 0), "no session");
    for (int i = 0; i < 40; i++) {
        take_longer(0, 1, SITE_MLP_NORM, i % 2 ? 3000 : 1000);
        CHECK(model_forward_text(&session, tokens, 1, i, 1), "does not run");
        if (i == MIN_MEASUREMENTS - 2)
            CHECK(isnan(phase_times(profile, DECODE).totals[TOTAL_NORMS].error),
                  "an error of four passes");
    }
    PhaseTimes times = phase_times(profile, DECODE);
    double error = sqrt(40.0 / 39) / sqrt(40);
    const int totals[] = {SITE_MLP_NORM, TOTAL_NORMS, TOTAL_WORK, TOTAL_TIME};
    for (int i = 0; i < 4; i++)
        CHECK(fabs(times.totals[totals[i]].us - 2) < 1e-9 &&
                  fabs(times.totals[totals[i]].error - error) < 1e-9,
              "%s: %g +- %g, expected 2 +- %g", total_name(totals[i]),
              times.totals[totals[i]].us, times.totals[totals[i]].error, error);
    CHECK(times.totals[TOTAL_OTHERS].us == 0 &&
              times.totals[TOTAL_OTHERS].error == 0 &&
              !phase_times(profile, PREFILL).totals[TOTAL_TIME].given,
          "times of what did not run");
    close_session();
}

/* If other programs interrupt all passes but four, the error is that of all
 * passes. What interrupts the only call of the second thread is not work. */
static void busy_machines_have_errors_and_no_outliers(void) {
    CHECK(!open_virtual(&MODEL, 1, 0), "no session");
    for (int i = 0; i < 40; i++) {
        take_longer(0, 1, SITE_MLP_NORM, i % 2 ? 3000 : 1000);
        virtual.switches = i % 10 != 0;
        CHECK(model_forward_text(&session, tokens, 1, i, 1), "does not run");
    }
    double error = sqrt(40.0 / 39) / sqrt(40);
    Time norms = phase_times(profile, DECODE).totals[TOTAL_NORMS];
    CHECK(profile->passes[DECODE].totals[TOTAL_NORMS].n == 4 &&
              fabs(norms.error - error) < 1e-9,
          "%g +- %g", norms.us, norms.error);
    close_session();
    CHECK(!open_virtual(&MODEL, THREADS, 0), "no session");
    virtual.step = 400 * TOKENS;
    session.batch = TOKENS;
    take_longer(1, 1, SITE_DOWN, 10000000);
    CHECK(model_forward_text(&session, tokens, TOKENS, 0, 1), "does not run");
    for (int place = 0; place < profile->n_places; place++) {
        SiteRow row = profile_row(profile, PREFILL, place);
        if (row.layer != 1 || row.site != SITE_DOWN)
            continue;
        CHECK(fabs(row.us / 0.4 - 1) < 0.05, "%g us per token", row.us);
    }
    close_session();
}

/* Two threads, the second of which takes longer at one site: shares and times
 * of all rows are of both threads, so that one is proportional to the other,
 * and the rows' shares add up to that of the norms. */
static void shares_and_times_agree(void) {
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        CHECK(!open_virtual(&MODEL, THREADS, 0), "no session");
        virtual.step = 400;
        session.batch = TOKENS;
        int n = phase == PREFILL ? TOKENS : 1;
        for (int i = 0; i < 10; i++) {
            take_longer(1, 1, SITE_QKV, 3000);
            CHECK(model_forward_text(&session, tokens, n,
                                     phase == PREFILL ? 0 : i, 1),
                  "does not run");
        }
        Work work = profile_work(profile, phase);
        double shares = 0, norms = 0, us = 0;
        for (int place = 0; place < profile->n_places; place++) {
            SiteRow row = profile_row(profile, phase, place);
            double share = site_share(&row, &work);
            if (row.record.calls == 0 || share == 0)
                continue;
            bool slow = row.layer == 1 && row.site == SITE_QKV;
            double expected = 1e-3 * (slow ? 400 + 3000.0 / THREADS : 400) / n;
            CHECK(fabs(row.us - expected) < 1e-9,
                  "%d, %s: %g us per token, expected %g", row.layer,
                  SITES[row.site].name, row.us, expected);
            CHECK(fabs(share * work.work - row.us) < 1e-9, "%g of %g is %g us",
                  share, work.work, row.us);
            shares += share;
            us += row.us;
            norms += SITES[row.site].is_norm ? share : 0;
        }
        CHECK(fabs(shares - 1) < 1e-9 && fabs(us - work.work) < 1e-9 &&
                  fabs(norms - work.share.value) < 1e-9 &&
                  fabs(work.share.high - norms) < 1e-6,
              "shares sum to %g, norms are %g of %g (to %g)", shares, norms,
              work.share.value, work.share.high);
        close_session();
    }
}

/* Writes the report's file; stderr_text() has its table. */
static int report(const char *name) {
    stderr_hide();
    int status_ =
        profile_report(profile, (ProfileReport){temporary(name), NULL, true});
    stderr_show();
    return status_;
}

/* A site takes 500 ticks, a pass 28 sites; timing it, 72 readings of 70. That
 * is 36 % of its time, more than the budget of 5 %. The profiler then times the
 * first pass here, every 44th, and the others read no clock. With a clock that
 * costs nothing it times every pass. */
static void a_pass_that_is_expensive_to_time_is_timed_rarely(void) {
    for (uint64_t reading = 0; reading <= 70; reading += 70) {
        CHECK(!open_virtual(&MODEL, 1, reading), "no session");
        profile->budget = 0.05;
        virtual.step = 500;
        for (int i = 0; i < 120; i++) {
            uint64_t before = virtual.at[0], cost = 28 * virtual.step;
            CHECK(model_forward_text(&session, tokens, 1, i % 64, 1),
                  "does not run");
            uint64_t spent = virtual.at[0] - before - cost;
            CHECK((spent > 0) == (reading && i % 44 == 0),
                  "pass %d: %llu ticks for the profiler", i,
                  (unsigned long long)spent);
        }
        double passes = reading ? 3 : 120, step = 5e-7;
        Passes sums = profile->passes[DECODE];
        CHECK(sums.passes == passes && sums.all == 120 &&
                  fabs(sums.seconds - passes * 28 * step) < 1e-12,
              "%g of %g passes, %g s", sums.passes, sums.all, sums.seconds);
        for (int place = 0; place < profile->n_places; place++) {
            SiteRow row = profile_row(profile, DECODE, place);
            CHECK(row.record.calls == 0 || row.site >= SITE_END ||
                      (row.record.calls == passes &&
                       row.record.tokens == passes &&
                       fabs(row.us - 1e6 * step) < 1e-6 &&
                       fabs(row.median - 1e6 * step) < 0.05),
                  "%s: %g calls, %g us a token", SITES[row.site].name,
                  row.record.calls, row.us);
        }
        CHECK(!report("x.csv") &&
                  strstr(stderr_text(),
                         reading ? "\ndecode, 3 of 120 passes timed\n"
                                 : "\ndecode, 120 of 120 passes timed\n"),
              "%s", stderr_text());
        close_session();
    }
}

/* As a profile opens, the first decode pass is not timed, but its inputs are
 * measured. After the second, which was expensive to time, the 46th is next. */
static void the_first_decode_pass_is_not_timed(void) {
    CHECK(!open_virtual(&MODEL, 1, 70), "no session");
    Profile *opened = profile_open(&session, (About){0});
    CHECK(opened, "no profile");
    session.probe = &virtual.probe;
    virtual.profile = &opened->probe;
    virtual.step = 500;
    for (int i = 0; i < 50; i++) {
        Record *r = profile_of_thread(opened, 0, DECODE, 1, SITE_MLP_NORM);
        CHECK(model_forward_text(&session, tokens, 1, i, 1), "does not run");
        double calls = i < 1 ? 0 : i < 45 ? 1 : 2;
        CHECK(r->calls == calls && r->vectors == calls + 1 && r->max_abs > 0,
              "pass %d: %g calls, %g vectors", i, r->calls, r->vectors);
    }
    profile_close(opened);
    close_session();
}

/* ---- CSV ---------------------------------------------------------------- */

/* One row. */
typedef struct {
    char phase[16], site[24];
    int layer; /* -1: outside the layers */
    long long calls, tokens;
    double seconds, us_per_token, us_median, us_95, share;
    double rms_in, rms_first, rms_later, rms_out, mean_over_rms, max_abs,
        max_channel, max_position, median_abs, p99_abs,
        gamma_mean; /* -1: empty field */
} Row;

static Row rows[128];
static int n_rows;

/* The next field, terminated at its comma. */
static char *next_field(char **line) {
    char *field = *line, *end = field + strcspn(field, ",\n");
    *line = *end ? end + 1 : end;
    *end = 0;
    return field;
}

static double number(const char *field) {
    return *field ? atof(field) : -1;
}

static int read_rows(const char *path) {
    static const char header[] =
        "phase,layer,site,calls,tokens,seconds,us_per_token,us_median,us_95,share,"
        "rms_in,rms_in_at_0,rms_in_after_0,rms_out,mean_over_rms,max_abs,max_channel,max_position,"
        "median_abs,p99_abs,gamma_mean_over_gamma_x\n";
    char line[1 << 14];
    FILE *in = fopen(path, "r");
    if (!in)
        return -1;
    bool about = fgets(line, sizeof line, in) &&
                 !strncmp(line, "# {\"model\": ", 12) && json_valid(line + 2);
    bool right_header =
        about && fgets(line, sizeof line, in) && !strcmp(line, header);
    for (n_rows = 0; n_rows < 128 && fgets(line, sizeof line, in); n_rows++) {
        Row *r = &rows[n_rows];
        char *at = line;
        int commas = 0;
        for (const char *c = line; *c; c++)
            commas += *c == ',';
        if (commas != 20)
            break;
        snprintf(r->phase, sizeof r->phase, "%.15s", next_field(&at));
        r->layer = (int)number(next_field(&at));
        snprintf(r->site, sizeof r->site, "%.23s", next_field(&at));
        r->calls = atoll(next_field(&at));
        r->tokens = atoll(next_field(&at));
        double *const numbers[] = {
            &r->seconds,      &r->us_per_token,  &r->us_median, &r->us_95,
            &r->share,        &r->rms_in,        &r->rms_first, &r->rms_later,
            &r->rms_out,      &r->mean_over_rms, &r->max_abs,   &r->max_channel,
            &r->max_position, &r->median_abs,    &r->p99_abs,   &r->gamma_mean};
        for (int i = 0; i < 16; i++)
            *numbers[i] = number(next_field(&at));
    }
    bool whole = feof(in);
    fclose(in);
    return right_header && whole ? 0 : -1;
}

static const Row *find_row(const char *phase, int layer, const char *site) {
    for (int i = 0; i < n_rows; i++)
        if (!strcmp(rows[i].phase, phase) && rows[i].layer == layer &&
            !strcmp(rows[i].site, site))
            return &rows[i];
    return NULL;
}

/* The number of calls of a site, in a layer or outside the layers, in `calls`
 * chunks. */
static long long calls_of(const char *site, const Sites *sites, bool in_layer,
                          Phase phase, long long calls) {
    /* outside: the logits */
    bool divides = model.config.n_kv_heads % session.n_threads == 0;
    if (!strcmp(site, "(wait)"))
        return in_layer ? (sites->waits[phase] + !divides) * calls : calls;
    return calls;
}

static void check_row(const Row *r, const char *phase, int layer,
                      const char *site, long long calls, long long n_tokens) {
    CHECK(!strcmp(r->phase, phase) && r->layer == layer &&
              !strcmp(r->site, site),
          "a row is %s, %d, %s; expected %s, %d, %s", r->phase, r->layer,
          r->site, phase, layer, site);
    CHECK(r->calls == calls, "%s, %d, %s: %lld calls, expected %lld", phase,
          layer, site, r->calls, calls);
    CHECK(r->tokens == n_tokens, "%s, %d, %s: %lld tokens, expected %lld",
          phase, layer, site, r->tokens, n_tokens);
    bool norm = strstr(r->site, "norm");
    CHECK((r->rms_in >= 0) == norm && (r->rms_out >= 0) == norm &&
              (r->max_abs >= 0) == norm && (r->mean_over_rms >= 0) == norm &&
              (r->max_channel >= 0) == norm && (r->max_position >= 0) == norm,
          "%s: an RMS if and only if it is a norm", r->site);
    bool sampled = r->median_abs >= 0; /* not one of few vectors */
    CHECK((norm || !sampled) && (r->p99_abs >= 0) == sampled &&
              (r->gamma_mean >= 0) == sampled,
          "%s: samples of what is no norm, or not all figures", r->site);
    /* per token, so that sites add up */
    double us =
        1e6 * r->seconds / (strcmp(phase, "prefill") ? DECODED : TOKENS);
    CHECK(fabs(r->us_per_token - us) <= 1e-3 && r->seconds >= 0,
          "%s: %g us a token", r->site, r->us_per_token);
    CHECK(r->us_median <= r->us_95 && r->us_median >= 0,
          "%s: median %g, 95 %% %g", r->site, r->us_median, r->us_95);
}

/* Every site of every layer has a row, in the order of the forward pass. */
static void check_sites(const Sites *sites_of_layer, const char *phase_name,
                        int threads, int *at, long long calls,
                        long long n_tokens, long long logits_calls) {
    static const char *const before[] = {"(start)", "embed", NULL};
    static const char *const after[] = {"final_norm", "logits",    "(end)",
                                        "(wait)",     "(profile)", NULL};
    Phase phase = strcmp(phase_name, "prefill") ? DECODE : PREFILL;
    for (int l = -1; l <= model.config.n_layers; l++) {
        bool in_layer = l >= 0 && l < model.config.n_layers;
        const char *const *sites = l < 0      ? before
                                   : in_layer ? sites_of_layer->names
                                              : after;
        for (int i = 0; sites[i]; i++) {
            if (threads == 1 && !strcmp(sites[i], "(wait)"))
                continue;
            bool last = l == model.config.n_layers,
                 outside_wait = last && !strcmp(sites[i], "(wait)");
            const long long of_site =
                calls_of(sites[i], sites_of_layer, in_layer, phase,
                         last ? logits_calls : calls);
            const long long per_token = of_site / (last ? logits_calls : calls);
            if (*at >= n_rows)
                break;
            const long long last_chunk =
                phase == PREFILL ? n_tokens % BATCH : n_tokens;
            if (outside_wait) /* embed's and the logits' */
                check_row(&rows[*at], phase_name, -1, "(wait)",
                          calls + logits_calls, n_tokens + last_chunk);
            else if (last && *sites[i] == '(')
                check_row(&rows[*at], phase_name, -1, sites[i], logits_calls,
                          last_chunk);
            else
                check_row(&rows[*at], phase_name, in_layer ? l : -1, sites[i],
                          of_site,
                          per_token * (last ? logits_calls : n_tokens));
            ++*at;
        }
    }
}

static double sum_of_shares(const char *phase) {
    double sum = 0;
    for (int i = 0; i < n_rows; i++)
        sum += strcmp(rows[i].phase, phase) ? 0 : rows[i].share;
    return sum;
}

static void check_csv(const Sites *sites, int threads) {
    double seconds[N_PHASES] = {0};
    int at = 0;
    run_session(seconds, NULL);
    CHECK(!report("x.csv") && !read_rows(temporary("x.csv")),
          "no CSV with the documented columns");
    check_sites(sites, "prefill", threads, &at, CHUNKS, TOKENS, 1);
    check_sites(sites, "decode", threads, &at, DECODED, DECODED, DECODED);
    CHECK(at == n_rows, "%d rows, expected %d", n_rows, at);
    double shares[] = {sum_of_shares("prefill"), sum_of_shares("decode")};
    for (Phase phase = 0; phase < N_PHASES; phase++)
        CHECK(fabs(shares[phase] - 1) < 1e-4, "shares of %s sum to %g",
              PHASE_NAMES[phase], shares[phase]);
}

static void csv_lists_every_site(void) {
    for (int threads = 1; threads <= 3; threads++) {
        CHECK(!open_session(&MODEL, threads, true), "no session");
        check_csv(&PLAIN, threads);
        close_session();
        if (test_fast() && threads != 2)
            continue;
        CHECK(!open_moe(threads, true), "no session");
        check_csv(&SPARSE, threads);
        close_session();
    }
}

/* ---- the size of the residual stream ------------------------------------ */

/* RMS over n rows, and the largest |x|. */
typedef struct {
    double rms, largest;
} Size;

static Size size_of(const float *x, int n) {
    Size s = {0};
    for (int i = 0; i < n * model.config.dim; i++) {
        s.rms += (double)x[i] * (double)x[i] / (n * model.config.dim);
        s.largest = fmax(s.largest, fabs((double)x[i]));
    }
    s.rms = sqrt(s.rms);
    return s;
}

static void check_size(const Row *r, Size in, Size out_) {
    CHECK(r, "no such row");
    CHECK(fabs(r->rms_in / in.rms - 1) < 1e-5,
          "layer %d, %s: RMS in %g, expected %g", r->layer, r->site, r->rms_in,
          in.rms);
    CHECK(fabs(r->rms_out / out_.rms - 1) < 1e-5,
          "layer %d, %s: RMS out %g, expected %g", r->layer, r->site,
          r->rms_out, out_.rms);
    CHECK(fabs(r->max_abs / in.largest - 1) < 1e-5,
          "layer %d, %s: max %g, expected %g", r->layer, r->site, r->max_abs,
          in.largest);
}

/* The input of the first norm is the embedding, that of the last one is still
 * in the session. */
static void sizes_of_the_residual_stream(void) {
    static float x[TOKENS * 64], y[TOKENS * 64];
    for (int threads = 1; threads <= 3; threads++) {
        CHECK(!open_session(&MODEL, threads, true), "no session");
        session.batch = TOKENS;
        CHECK(model_forward_text(&session, tokens, TOKENS, 0, TOKENS),
              "does not run");
        CHECK(!report("x.csv") && !read_rows(temporary("x.csv")), "no CSV");
        for (int t = 0; t < TOKENS; t++) {
            dequantize_row(x + t * 64, &model.embedding, tokens[t]);
            rmsnorm(y + t * 64, x + t * 64, model.layers[0].attn_norm.gamma, 64,
                    model.layers[0].attn_norm.eps);
        }
        check_size(find_row("prefill", 0, "attn_norm"), size_of(x, TOKENS),
                   size_of(y, TOKENS));
        const Row *r = find_row("prefill", 0, "attn_norm");
        double at_0 = size_of(x, 1).rms,
               after_0 = size_of(x + 64, TOKENS - 1).rms;
        CHECK(fabs(r->rms_first / at_0 - 1) < 1e-5 &&
                  fabs(r->rms_later / after_0 - 1) < 1e-5,
              "RMS at position 0 %g, expected %g; after it %g, expected %g",
              r->rms_first, at_0, r->rms_later, after_0);
        StreamSize rest = {0};
        for (int b = 1; b < BUCKETS; b++) {
            rest.squares += profile->streams[0][b].squares;
            rest.tokens += profile->streams[0][b].tokens;
        }
        double first = sqrt(profile->streams[0][0].squares),
               others = sqrt(rest.squares / (double)rest.tokens);
        CHECK(profile->streams[0][0].tokens == 1 && rest.tokens == TOKENS - 1,
              "tokens are missing");
        CHECK(fabs(first / size_of(x, 1).rms - 1) < 1e-5 &&
                  fabs(others / size_of(x + 64, TOKENS - 1).rms - 1) < 1e-5,
              "the first position has RMS %g, the others %g", first, others);
        for (int t = 0; t < TOKENS; t++)
            rmsnorm(y + t * 64, session.chunk.x + t * 64,
                    model.final_norm.gamma, 64, model.final_norm.eps);
        check_size(find_row("prefill", -1, "final_norm"),
                   size_of(session.chunk.x, TOKENS), size_of(y, TOKENS));
        close_session();
    }
}

/* All elements of a token's heads, before the norm of each head and after
 * it. */
static void sizes_of_heads(void) {
    static float x[TOKENS * 64], q[TOKENS * 64], normalized[TOKENS * 64];
    for (int threads = 1; threads <= (test_fast() ? 1 : 3); threads++) {
        CHECK(!open_moe(threads, true), "no session");
        session.batch = TOKENS;
        CHECK(model_forward_text(&session, tokens, TOKENS, 0, 1),
              "does not run");
        CHECK(!report("x.csv") && !read_rows(temporary("x.csv")), "no CSV");
        const Layer *layer = &model.layers[0];
        for (int t = 0; t < TOKENS; t++) {
            float w[64];
            dequantize_row(x + t * 64, &model.embedding, tokens[t]);
            rmsnorm(x + t * 64, x + t * 64, layer->attn_norm.gamma, 64,
                    layer->attn_norm.eps);
            for (int r = 0; r < 64; r++) {
                double sum = 0;
                dequantize_row(w, &layer->wq, r);
                for (int i = 0; i < 64; i++)
                    sum += (double)w[i] * (double)x[t * 64 + i];
                q[t * 64 + r] = (float)sum;
            }
            for (int h = 0; h < 4; h++)
                rmsnorm(normalized + t * 64 + h * 16, q + t * 64 + h * 16,
                        layer->q_norm.gamma, 16, layer->q_norm.eps);
        }
        check_size(find_row("prefill", 0, "q_norm"), size_of(q, TOKENS),
                   size_of(normalized, TOKENS));
        close_session();
    }
}

/* The inputs of a norm, copied as the profile receives them. */
static struct {
    int layer;
    Site site;
    float x[4 * TOKENS * 64];
    int n, dim; /* vectors, elements of each */
} watched;

static void watching_norm(Probe *p, int layer, Site site, bool out_,
                          const Vectors *v) {
    if (!out_ && layer == watched.layer && site == watched.site)
        for (int h = 0; h < v->heads; h++)
            for (int t = 0; t < v->n; t++)
                memcpy(watched.x + watched.n++ * v->dim,
                       v->x + t * v->stride + h * v->dim,
                       v->dim * sizeof *v->x);
    watched.dim =
        layer == watched.layer && site == watched.site ? v->dim : watched.dim;
    virtual_norm(p, layer, site, out_, v);
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Every eighth input, in layer 1 from the third on, of the final norm from the
 * fifth: sorted sizes, and in double |gamma mean| / |gamma x|. Quantiles of a
 * profile are interpolated in a bucket that is an eighth wide or less. */
static void check_samples(const float *gamma) {
    static float sizes[4 * TOKENS * 64];
    int n = 0, samples = 0, dim = watched.dim;
    double ratios = 0;
    for (int v = watched.layer == NO_LAYER ? 4 : 2; v < watched.n;
         v += 8, samples++) {
        double sum = 0, gammas = 0, outputs = 0;
        for (int i = 0; i < dim; i++) {
            double x = watched.x[v * dim + i], g = gamma[i];
            sizes[n++] = (float)fabs(x);
            sum += x;
            gammas += g * g;
            outputs += g * x * g * x;
        }
        ratios += fabs(sum / dim) * sqrt(gammas) / sqrt(outputs);
    }
    qsort(sizes, n, sizeof *sizes, compare_floats);
    double median = sizes[n / 2], p99 = sizes[n * 99 / 100];
    const char *site = SITES[watched.site].name;
    const Row *r = find_row("prefill", watched.layer, site);
    CHECK(r && samples > 4, "%s: no row, or %d samples", site, samples);
    CHECK(fabs(r->gamma_mean / (ratios / samples) - 1) < 1e-4,
          "%s: |gamma mean| / |gamma x| is %g, expected %g", site,
          r->gamma_mean, ratios / samples);
    CHECK(fabs(r->median_abs / median - 1) < 0.04 &&
              fabs(r->p99_abs / p99 - 1) < 0.125,
          "%s: median %g, 99 %% %g, expected %g, %g", site, r->median_abs,
          r->p99_abs, median, p99);
    CHECK(!report("x.html") && strstr(stderr_text(), "|gamma mean|/|gamma x|"),
          "%s", stderr_text());
}

static void samples_of_inputs(void) {
    for (int i = 0; i < 4; i++) {
        bool heads = i == 3;
        memset(&virtual, 0, sizeof virtual);
        CHECK(!(heads ? open_moe(1, true) : open_session(&MODEL, 1, true)),
              "no session");
        const Layer *layer = &model.layers[1];
        watched.layer = i == 2 ? NO_LAYER : 1;
        watched.site = (const Site[]){SITE_ATTN_NORM, SITE_MLP_NORM,
                                      SITE_FINAL_NORM, SITE_Q_NORM}[i];
        const Norm *norms[] = {&layer->attn_norm, &layer->mlp_norm,
                               &model.final_norm, &layer->q_norm};
        watched.n = 0;
        virtual.layer = -2;
        virtual.profile = session.probe;
        virtual.probe = (Probe){virtual_begin, virtual_end, virtual_mark,
                                watching_norm};
        session.probe = &virtual.probe;
        CHECK(model_forward_text(&session, tokens, TOKENS, 0, TOKENS),
              "does not run");
        CHECK(watched.n == (heads ? 4 : 1) * TOKENS, "%d inputs", watched.n);
        CHECK(!report("x.csv") && !read_rows(temporary("x.csv")), "no CSV");
        check_samples(norms[i]->gamma);
        close_session();
    }
}

static int times_in(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

/* ---- the page ----------------------------------------------------------- */

/* The CSV file in a page, which the caller frees; NULL: the rest of the page
 * differs from page.html, or the first line is not JSON. */
static char *read_page_data(const char *name) {
    static const char marker[] = "<script type=\"text/csv\" id=\"profile\">\n";
    size_t size;
    char *page = file_read(temporary(name), &size),
         *at = page ? strstr(page, marker) : NULL;
    char *begin = at ? at + strlen(marker) : NULL,
         *end = begin ? strstr(begin, "</script>") : NULL;
    bool whole = end && times_in(page, "</script>") == 2 &&
                 !strncmp(page, "<!DOCTYPE html>\n", 16) &&
                 !strcmp(page + size - 8, "</html>\n") && !strstr(page, "://");
    char *line = whole && !strncmp(begin, "# ", 2)
                     ? strndup(begin + 2, strcspn(begin, "\n") - 2)
                     : NULL;
    bool valid = line && json_valid(line);
    free(line);
    if (!valid) {
        free(page);
        return NULL;
    }
    *end = '\0';
    memmove(page, begin, (size_t)(end - begin) + 1);
    return page;
}

static void a_page_contains_the_csv_file(void) {
    for (int threads = 1; threads <= 2; threads++) {
        double seconds[N_PHASES] = {0};
        size_t size;
        CHECK(!open_moe(threads, true), "no session");
        run_session(seconds, NULL);
        CHECK(!report("x.csv") && !report("x.html"), "no files");
        char *data = read_page_data("x.html"),
             *csv = file_read(temporary("x.csv"), &size);
        CHECK(data && csv &&
                  !strncmp(data,
                           "# {\"model\": \"a \\\"model\\\"\\u003c/script>\", ",
                           41),
              "no page, or other data: %.100s", data);
        CHECK(!strcmp(data, csv), "the file differs");
        CHECK(times_in(csv, "\n") > 40, "%d rows", times_in(csv, "\n"));
        free(csv);
        free(data);
        close_session();
    }
}

extern const char PAGE_HTML[];

/* The page has a light and a dark color, a mark and an explanation for every
 * site. */
static void every_site_has_a_color_and_a_mark_on_the_page(void) {
    for (Site site = 0; site < N_SITES; site++) {
        char color[32] = "--", entry[40];
        for (const char *c = SITES[site].name; *c; c++)
            if (isalnum((unsigned char)*c) || *c == '_')
                strncat(color, c, 1);
        strcat(color, ": #");
        snprintf(entry, sizeof entry, "\n  \"%s\": [\"", SITES[site].name);
        CHECK(times_in(PAGE_HTML, color) == 2, "%s: %d colors, expected 2",
              color, times_in(PAGE_HTML, color));
        CHECK(times_in(PAGE_HTML, entry) == 1, "%s has no mark",
              SITES[site].name);
    }
}

/* ---- JSON --------------------------------------------------------------- */

/* A member of the JSON row is the field of the CSV row; an empty field is null,
 * or of no norm, and missing. */
static bool same_number(const Json *row, const char *name, const char *field) {
    const Json *value = json_get(row, name);
    return *field ? json_has_kind(value, JSON_NUMBER) &&
                        !strcmp(value->text, field)
                  : json_null(value);
}

/* The rows of a phase of the JSON file are the CSV file's, from *line on.
 * `columns`: the CSV file's header from "calls" on. */
static void check_json_rows(const Json *of_phase, const char *columns,
                            char **line) {
    const char *phase = json_shown(json_get(of_phase, "name"));
    JSON_EACH(row, json_get(of_phase, "rows"), JSON_ARRAY) {
        char *at = *line;
        *line += strcspn(*line, "\n") + 1;
        const char *field = next_field(&at);
        CHECK(!strcmp(field, phase), "a row of %s, expected %s", field, phase);
        CHECK(same_number(row, "layer", next_field(&at)), "%s: another layer",
              phase);
        field = next_field(&at);
        CHECK(json_is(json_get(row, "site"), field), "%s: another site", phase);
        for (const char *name = columns; name[-1] != '\n';) {
            char key[64];
            const size_t n = strcspn(name, ",\n");
            snprintf(key, sizeof key, "%.*s", (int)n, name);
            name += n + 1;
            field = next_field(&at);
            CHECK(same_number(row, key, field), "%s of %s: %s, expected '%s'",
                  key, json_shown(json_get(row, "site")),
                  json_shown(json_get(row, key)), field);
        }
    }
}

static bool same_time(Time a, Time b) {
    return a.given == b.given && fabs(a.us - b.us) <= 1e-9 * a.us &&
           (isnan(a.error) ? isnan(b.error)
                           : fabs(a.error - b.error) <= 1e-9 * a.error);
}

/* Both files have the same figures, and what is read back is the profile. */
static void a_saved_run_is_read_back(void) {
    for (int threads = 1; threads <= 2; threads++) {
        double seconds[N_PHASES] = {0};
        size_t size, json_size;
        SavedProfile saved;
        CHECK(!open_moe(threads, true), "no session");
        run_session(seconds, NULL);
        CHECK(!report("x.csv") && !report("x.json"), "no files");
        char *csv = file_read(temporary("x.csv"), &size),
             *json = file_read(temporary("x.json"), &json_size);
        CHECK(csv && json && json_valid(json), "no JSON: %.300s", json);
        CHECK(!saved_open(&saved, temporary("x.json")), "%s", stderr_text());
        CHECK(saved.layers == model.config.n_layers &&
                  saved.dim == model.config.dim &&
                  json_is(json_get(saved.run, "model"), "a \"model\"</script>"),
              "another model");
        char *columns = strchr(csv, '\n') + 1,
             *line = strchr(columns, '\n') + 1;
        const Json *of_phases[N_PHASES] = {NULL};
        JSON_EACH(phase, json_get(saved.json.values, "phases"), JSON_ARRAY)
            of_phases[json_is(json_get(phase, "name"), "decode") ? DECODE
                                                                 : PREFILL] =
                phase;
        for (Phase phase = 0; phase < N_PHASES; phase++) {
            PhaseTimes times = phase_times(profile, phase);
            CHECK(saved.phases[phase].passes == times.passes, "%g passes",
                  saved.phases[phase].passes);
            for (int i = 0; i < N_TOTALS; i++)
                CHECK(!times.totals[i].given ||
                          same_time(times.totals[i],
                                    saved.phases[phase].totals[i]),
                      "%s: %g +- %g", total_name(i),
                      saved.phases[phase].totals[i].us,
                      saved.phases[phase].totals[i].error);
            Work work = profile_work(profile, phase);
            const Time *totals = times.totals;
            CHECK(fabs(totals[TOTAL_WORK].us / work.work - 1) < 1e-9 &&
                      fabs(totals[TOTAL_NORMS].us / work.norms - 1) < 1e-9 &&
                      fabs((totals[TOTAL_NORMS].us + totals[TOTAL_OTHERS].us) /
                               work.work -
                           1) < 1e-9 &&
                      totals[TOTAL_TIME].us >= totals[TOTAL_WORK].us,
                  "sums differ");
            check_json_rows(of_phases[phase], columns, &line);
        }
        CHECK(!*line, "rows are missing in the JSON file: %s", line);
        saved_close(&saved);
        free(csv);
        free(json);
        close_session();
    }
}

/* Elements whose squares overflow float32. JSON cannot represent infinity. */
static void infinite_sizes_are_null(void) {
    CHECK(!open_session(&MODEL, 1, true), "no session");
    model.config.embedding_scale = 1e25f;
    CHECK(model_forward_text(&session, tokens, TOKENS, 0, 1), "does not run");
    CHECK(!report("x.html"), "no page");
    char *text = read_page_data("x.html");
    CHECK(text && strstr(text, "null"), "no JSON in the page: %s", text);
    free(text);
    close_session();
}

/* Long waits of one thread or many involuntary context switches are reported as
 * a busy machine. */
static void a_busy_machine_is_reported(void) {
    static const struct {
        int threads, switches;
        bool busy;
    } cases[] = {{1, 0, false}, {1, 1, true}, {THREADS, 0, true}};
    for (int i = 0; i < 3; i++) {
        CHECK(!open_virtual(&MODEL, cases[i].threads, 0), "no session");
        take_longer(cases[i].threads - 1, 1, SITE_DOWN, 1000000);
        virtual.switches = cases[i].switches;
        CHECK(model_forward_text(&session, tokens, TOKENS, 0, 1),
              "does not run");
        CHECK(!report("x.csv"), "no CSV");
        const char *at =
            strstr(stderr_text(), cases[i].busy ? "\nbusy: " : "\nidle: ");
        size_t size;
        char sentence[256] = "", *csv = file_read(temporary("x.csv"), &size);
        if (at)
            sscanf(at + 1, "%255[^\n]", sentence);
        CHECK(*sentence && csv && strstr(csv, sentence), "case %d: '%s' in %s",
              i, sentence, csv ? csv : "no file");
        CHECK(!report("x.html"), "no page");
        char *data = read_page_data("x.html");
        CHECK(data && strstr(data, sentence), "case %d: %s", i,
              data ? data : "no data");
        free(data);
        free(csv);
        close_session();
    }
}

static void the_json_checker(void) {
    static const char *const good[] = {
        "[]",
        " {\"a\": [1, -2.5e-3, \"x\\n\\u00e9\", true, null], \"b\": {}} \n",
        "0", "\"\""};
    static const char *const bad[] = {
        "",     "[1,]",  "[1 2]",    "{\"a\" 1}",  "{a: 1}",
        "[01]", "[1.]",  "[nan]",    "[\"\\x\"]",  "[\"a]",
        "[1]]", "[inf]", "[\"\n\"]", "{\"a\": 1,}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(json_valid(good[i]), "refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!json_valid(bad[i]), "taken: %s", bad[i]);
}

/* ---- --profile ---------------------------------------------------------- */

static const HashModel SPEAKING = {64, 172, 2, 8, 4, 512, 64, false, 11};

static void make_models(void) {
    float nan = NAN;
    binary_folder("profile");
    mkdir(inside("out"), 0700);
    hashmodel_write(&SPEAKING, inside("model.bin"), 1, 0);
    hashmodel_write(&SPEAKING, inside("nan.bin"), 1, 0);
    hashtokenizer_write(inside("tokenizer.bin"), 512);
    /* an element of the final norm */
    FILE *f = fopen(inside("nan.bin"), "r+b");
    fseek(f, 256 + 4L * 64 * 4, SEEK_SET);
    fwrite(&nan, sizeof nan, 1, f);
    fclose(f);
}

static void every_mode_that_runs_the_model_can_be_profiled(void) {
    static const struct {
        const char *arguments;
        bool prefill, decode, timed; /* timed: stdout contains times */
    } modes[] = {
        {"-i 'aa ba' -n 30 -s 3", true, true, false},
        {"--tokens 5 -n 10 -t 0", false, true, false},
        {"-m chat -t 5 -p 0 -s 12 -c 40", true, true, false},
        {"-m perplexity -i 'aa ba ca da'", true, false, false},
        {"-m logits -i 'aa ba ca' -o out/logits", true, false, false},
        {"-m bench --seconds 0 --prompt-tokens 20 -n 4", true, true, true},
    };
    static char without[1 << 14];
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        static const char *const ways[] = {
            "", "--profile=out/x.json", "--profile=out/x.csv -v",
            "--profile --profile-against=out/x.json", "--profile=out/x.html"};
        /* times are not compared */
        for (int way = modes[i].timed ? 1 : 0; way < (test_fast() ? 3 : 5);
             way++) {
            bool tables = way == 2, against = way == 3;
            int phases = modes[i].prefill + modes[i].decode;
            if (strstr(modes[i].arguments, "chat"))
                setup.input = "hello\nand now?\n";
            CHECK_RUN("model.bin %s %s", ways[way], modes[i].arguments);
            if (way == 0)
                snprintf(without, sizeof without, "%.16000s", out);
            CHECK(modes[i].timed || !strncmp(out, without, 16000), "%s %s: %s",
                  modes[i].arguments, ways[way], out);
            if (way == 0)
                continue;
            CHECK(times_in(err, "\nidle: ") + times_in(err, "\nbusy: ") == 1,
                  "%s", err);
            CHECK(times_in(err, "\nlayer            0 ") ==
                          (against ? 0 : phases) &&
                      times_in(err, "\nnorms: ") == (against ? 0 : phases),
                  "%s: another chart: %s", modes[i].arguments, err);
            CHECK(times_in(err, "\nprefill, ") ==
                          (tables || against) * modes[i].prefill &&
                      times_in(err, "\ndecode, ") ==
                          (tables || against) * modes[i].decode &&
                      times_in(err, "\nattn_norm ") ==
                          (tables || against) * phases,
                  "%s: another table: %s", modes[i].arguments, err);
            CHECK(times_in(err, "\nattn_norm ") + times_in(err, "\nlayer") > 0,
                  "%s", err);
        }
        CHECK(!read_rows(inside("out/x.csv")) && n_rows > 20, "%s: no CSV",
              modes[i].arguments);
        unlink(inside("out/x.csv"));
        unlink(inside("out/x.json"));
        CHECK(test_fast() || !unlink(inside("out/x.html")), "no page");
        unlink(inside("out/logits"));
        CHECK(files_in("out") == 0, "%s: files left over", modes[i].arguments);
    }
}

/* The summary and the comparison fit into 80 columns, with the line of the run
 * and the next prompt into 24 lines. */
static void a_profile_fits_a_screen(void) {
    static const char *const locales[] = {"LC_ALL=C", "LC_ALL=C.UTF-8",
                                          "LC_ALL=de_DE.utf8"};
    static const char *const options[] = {"=out/x.json",
                                          " --profile-against=out/x.json"};
    for (int layers = 1; layers <= 60; layers += test_fast() ? 59 : 13)
        for (int i = 0; i < 6; i++) {
            hashmodel_write(
                &(HashModel){64, 64, layers, 8, 4, 512, 64, false, 7},
                inside("layers.bin"), 1, 0);
            setup.environment = locales[i / 2];
            CHECK_RUN("layers.bin -n 20 -i 'aa ba ca' -s 1 --profile%s",
                      options[i % 2]);
            int n = 0;
            bool blocks = strstr(err, "\u2588");
            for (const char *at = err; *at; n++) {
                int columns = 0;
                for (; *at != '\n'; at++)
                    columns += (*at & 0xc0) != 0x80;
                at++;
                CHECK(columns <= 80, "%d layers: %d columns: %s", layers,
                      columns, err);
            }
            CHECK(n <= 23, "%d layers: %d lines: %s", layers, n, err);
            CHECK(blocks == (i >= 2 && i % 2 == 0) &&
                      !!strstr(err, "#") == (i == 0),
                  "%s: %s", locales[i / 2], err);
        }
    unlink(inside("layers.bin"));
    unlink(inside("out/x.json"));
}

/* A bad file to compare with is refused before the model runs. */
static void bad_saved_runs_are_refused(void) {
    mkdir(inside("folder.json"), 0700);
    mkfifo(inside("pipe.json"), 0600);
    CHECK_RUN("model.bin -i aa -n 8 --profile=x.json");
    static const struct {
        const char *name, *message;
    } cases[] = {
        {"missing.json", "missing.json: No such file"},
        {"folder.json", "folder.json: "},
        {"pipe.json", "pipe.json: "},
        {"/dev/null", "expected a file of --profile=FILE.json"},
        {"old.json", "old.json: is a profile of version 0, expected 1"},
        {"x.json --profile=x.json", "x.json: is also an output"},
        {"large.json", "large.json: 67108865 bytes, expected at most 67108864"},
        {"empty.json", "empty.json: "},
    };
    fclose(fopen(inside("empty.json"), "w"));
    fclose(fopen(inside("large.json"), "w"));
    CHECK(!truncate(inside("large.json"), (1 << 26) + 1), "no large file");
    FILE *old = fopen(inside("old.json"), "w");
    fputs("{\"profile\": 0}", old);
    fclose(old);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[128];
        snprintf(arguments, sizeof arguments,
                 "model.bin -i aa -n 8 --profile-against=%s", cases[i].name);
        check_refused(i == 3 ? 2 : 1, cases[i].message, arguments);
    }
    rmdir(inside("folder.json"));
    static const char *const files[] = {"x.json", "pipe.json", "old.json",
                                        "large.json", "empty.json"};
    for (int i = 0; i < 5; i++)
        unlink(inside(files[i]));
}

/* A file of 5,000 tiny layers would take a gigabyte. */
static void the_size_of_a_profile_is_limited(void) {
    hashmodel_write(&(HashModel){8, 8, 5000, 1, 1, 512, 64, false, 7},
                    inside("layers.bin"), 1, 0);
    check_refused(
        1, "a profile needs a model of at most 256 layers, this one has 5000",
        "layers.bin --tokens 3 -n 2 -j 2 --profile=out/x.html");
    unlink(inside("layers.bin"));
}

static void other_modes_refuse_a_profile(void) {
    static const char *const modes[] = {"tokenize -i aa", "info",
                                        "convert -q f32 -o out/a.gguf", "norms",
                                        "norms --json"};
    for (int i = 0; i < 5; i++) {
        char arguments[128];
        snprintf(arguments, sizeof arguments, "model.bin --profile -m %s",
                 modes[i]);
        check_refused(
            2,
            "--profile works in generate, chat, perplexity, bench, logits, not in ",
            arguments);
    }
    check_refused(
        2,
        "--profile works in generate, chat, perplexity, bench, logits, not in ",
        "-m norms --profile=out/x.csv");
    CHECK(files_in("out") == 0, "files left over");
}

static void bad_names_are_refused(void) {
    static const char *const names[] = {"x",        "x.txt",   "csv",
                                        "x.csv.gz", "x.jsonl", "out/"};
    for (int i = 0; i < 12; i++) {
        char arguments[128], mention[64];
        const char *option = i < 6 ? "--profile" : "--profile-against";
        snprintf(arguments, sizeof arguments, "model.bin -i aa %s=%s", option,
                 names[i % 6]);
        snprintf(mention, sizeof mention, "%s is '%s', expected", option,
                 names[i % 6]);
        check_refused(2, mention, arguments);
    }
}

static void a_failing_run_writes_no_profile(void) {
    static const char *const runs[] = {
        "nan.bin -i aa", "nan.bin -m perplexity -i aa",
        "model.bin --tokens 600", "model.bin -i aa -z missing",
        "model.bin --norm nonsense -i aa"};
    for (int i = 0; i < 5; i++) {
        run("%s --profile=out/x.csv", runs[i]);
        CHECK(status == (i == 4 ? 2 : 1) && one_line(err), "%s: status %d, %s",
              runs[i], status, err);
        CHECK(files_in("out") == 0, "%s: a profile was written", runs[i]);
    }
    run("model.bin -i aa -n 8 --profile=missing/x.csv");
    CHECK(status == 1 && strstr(err, "missing/x.csv: "), "status %d, %s",
          status, err);
}

void suite_profile(void) {
    TEST(profiling_changes_no_bit);
    TEST(parts_add_up_to_the_total);
    TEST(delays_count_for_their_site);
    TEST(lost_processors_change_no_share);
    TEST(a_load_is_busy_or_idle);
    TEST(a_coarse_clock_costs_what_it_takes);
    TEST(marks_count_for_the_profile);
    TEST(quantiles_of_calls);
    TEST(shares_and_times_agree);
    TEST(busy_machines_have_errors_and_no_outliers);
    TEST(errors_are_those_of_the_passes);
    TEST(a_pass_that_is_expensive_to_time_is_timed_rarely);
    TEST(the_first_decode_pass_is_not_timed);
    TEST(csv_lists_every_site);
    TEST(sizes_of_the_residual_stream);
    TEST(sizes_of_heads);
    TEST(samples_of_inputs);
    TEST(a_page_contains_the_csv_file);
    TEST(a_saved_run_is_read_back);
    TEST(every_site_has_a_color_and_a_mark_on_the_page);
    TEST(a_busy_machine_is_reported);
    TEST(the_json_checker);
    TEST(infinite_sizes_are_null);
    make_models();
    TEST(every_mode_that_runs_the_model_can_be_profiled);
    TEST(a_profile_fits_a_screen);
    TEST(bad_saved_runs_are_refused);
    TEST(the_size_of_a_profile_is_limited);
    TEST(other_modes_refuse_a_profile);
    TEST(bad_names_are_refused);
    TEST(a_failing_run_writes_no_profile);
}
