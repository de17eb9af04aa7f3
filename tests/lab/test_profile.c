/* test_profile.c: lab/profile.c, and --profile in every mode that runs the model.
 *
 * Owns what a profile must say: the sites that ran, times that add up, the sizes
 * of activations as they are computed here; that it changes nothing; and that
 * its files are what their names say. No time is compared with another but the
 * whole with its parts.
 */
#include "base/file.h"
#include "base/process.h"
#include "formats/open.h"
#include "kernels/quant.h"
#include "kv_cache.h"
#include "lab/profile.h"
#include "model.h"
#include "norm.h"

#include "tests/support/binary.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKENS = 40, BATCH = 16, DECODED = 6, CHUNKS = 3 /* of 16, 16 and 8 tokens */ };

static const HashModel MODEL = {64, 172, 3, 8, 4, 97, 64, true, 41};
static const HashModel LARGE = {288, 768, 2, 6, 2, 97, 64, true, 42}; /* work enough for the clock */

/* The sites of a layer; how many norms are looked at. */
typedef struct {
    const char *names[12]; /* NULL: the end */
    int norms;
} Sites;

static const Sites PLAIN = {
    {"attn_norm", "qkv+rope", "attention", "attn_out", "mlp_norm", "gate_up+silu", "down", "(profile)", NULL}, 2};
static const Sites SPARSE = {{"attn_norm", "qkv+rope", "q_norm", "k_norm", "attention", "attn_out", "mlp_norm",
                              "router", "gate_up+silu", "down", "(profile)", NULL},
                             4};

static const GoldenRelative *const MOE = &GOLDEN_RELATIVES[2];

static Model model;
static Session session;
static Profile *profile;
static int tokens[TOKENS + DECODED];

/* A model and a session, profiled or not; threads that it would not get for its size. */
static int open_path(const HashModel *m, const char *path, int threads, bool profiled, bool traces) {
    if (model_open(&model, path)) return -1;
    if (threads > 1) model.decode_bytes = 1 << 30;
    for (int i = 0; i < TOKENS + DECODED; i++) tokens[i] = hash_token(m, i);
    if (session_open(&session, &model, threads, BATCH, 0, KV_F32)) return -1;
    profile = profiled ? profile_open(&session, traces) : NULL;
    return profiled && !profile ? -1 : 0;
}

static int open_session(const HashModel *m, int threads, bool profiled, bool traces) {
    const char *path = temporary("profile.bin");
    return hashmodel_write(m, path, 1, 0) ? -1 : open_path(m, path, threads, profiled, traces);
}

/* With norms of heads and experts. */
static int open_moe(int threads, bool profiled, bool traces) {
    static GgufFile file;
    const char *path = temporary("profile.gguf");
    gguf_make_relative(&file, &MOE->model, &MOE->relative);
    const int status_ = gguf_write(&file, path);
    gguf_free(&file);
    return status_ ? -1 : open_path(&MOE->model, path, threads, profiled, traces);
}

static void close_session(void) {
    profile_close(profile);
    session_close(&session);
    model_close(&model);
}

/* The prompt in chunks, then token after token; seconds of each phase as the
 * caller sees them. logits[1 + DECODED][vocab_size] may be NULL. */
static void run_session(double *seconds, float *logits) {
    const size_t row = (size_t)model.config.vocab_size;
    for (int i = 0; i <= DECODED; i++) {
        const double start = now();
        const float *l = i ? model_forward(&session, &tokens[TOKENS + i - 1], 1, TOKENS + i - 1, 1)
                           : model_forward(&session, tokens, TOKENS, 0, 1);
        seconds[i ? DECODE : PREFILL] += now() - start;
        if (logits) memcpy(logits + (size_t)i * row, l, row * sizeof *l);
    }
}

/* ---- it changes nothing ---------------------------------------------------------------------- */

static void profiles_change_no_bit(void) {
    static float expected[(1 + DECODED) * 97], found[(1 + DECODED) * 97];
    double seconds[N_PHASES] = {0};
    for (int threads = 1; threads <= 3; threads++)
        for (int traces = 0; traces < 2; traces++) {
            CHECK(!open_session(&MODEL, threads, false, false), "no session");
            run_session(seconds, expected);
            close_session();
            CHECK(!open_session(&MODEL, threads, true, traces), "no session");
            run_session(seconds, found);
            close_session();
            CHECK(!memcmp(found, expected, sizeof found), "%d threads: other logits", threads);
            if (test_fast() && threads != 2) continue;
            CHECK(!open_moe(threads, false, false), "no session");
            run_session(seconds, expected);
            close_session();
            CHECK(!open_moe(threads, true, traces), "no session");
            run_session(seconds, found);
            close_session();
            CHECK(!memcmp(found, expected, (1 + DECODED) * 60 * sizeof *found), "%d threads: other logits of experts",
                  threads);
        }
}

/* ---- times ------------------------------------------------------------------------------------- */

/* Another program may take the processor between the last mark and our clock:
 * the best of many tries has to do. */
static void check_parts(int threads) {
    double best[N_PHASES] = {0};
    for (int i = 0; i < 200 && (best[PREFILL] < 0.97 || best[DECODE] < 0.97); i++) {
        double seconds[N_PHASES] = {0};
        CHECK(!open_session(&LARGE, threads, true, false), "no session");
        run_session(seconds, NULL);
        for (Phase phase = 0; phase < N_PHASES; phase++) {
            const double parts = profile_seconds(profile, phase, false), total = profile->total[phase];
            const double norms = profile_seconds(profile, phase, true);
            CHECK(fabs(parts - total) < 1e-9 && total <= seconds[phase], "parts %g, total %g, timed outside %g", parts,
                  total, seconds[phase]);
            CHECK(norms > 0 && norms < parts, "norms %g, parts %g", norms, parts);
            best[phase] = fmax(best[phase], parts / seconds[phase]);
        }
        close_session();
    }
    for (Phase phase = 0; phase < N_PHASES; phase++)
        CHECK(best[phase] >= 0.97, "%d threads, phase %d: the parts make %.1f %% of the whole", threads, phase,
              100 * best[phase]);
}

static void parts_add_up_to_the_whole(void) {
    check_parts(1);
    check_parts(2);
}

/* ---- CSV ------------------------------------------------------------------------------------------ */

/* One row. */
typedef struct {
    char phase[16], site[24];
    int layer; /* -1: outside */
    long long calls, tokens;
    double seconds, us_per_token, share, bytes, gb_per_s, rms_in, rms_out, max_abs; /* -1: not there */
} Row;

static Row rows[128];
static int n_rows;

/* The next field, cut off at its comma. */
static char *next_field(char **line) {
    char *field = *line, *end = field + strcspn(field, ",\n");
    *line = *end ? end + 1 : end;
    *end = 0;
    return field;
}

static double number(const char *field) { return *field ? atof(field) : -1; }

static int read_rows(const char *path) {
    static const char header[] =
        "phase,layer,site,calls,tokens,seconds,us_per_token,share,bytes,gb_per_s,rms_in,rms_out,"
        "max_abs\n";
    char line[512];
    FILE *in = fopen(path, "r");
    if (!in) return -1;
    const bool right_header = fgets(line, sizeof line, in) && !strcmp(line, header);
    for (n_rows = 0; n_rows < 128 && fgets(line, sizeof line, in); n_rows++) {
        Row *r = &rows[n_rows];
        char *at = line;
        int commas = 0;
        for (const char *c = line; *c; c++) commas += *c == ',';
        if (commas != 12) break;
        snprintf(r->phase, sizeof r->phase, "%.15s", next_field(&at));
        r->layer = (int)number(next_field(&at));
        snprintf(r->site, sizeof r->site, "%.23s", next_field(&at));
        r->calls = atoll(next_field(&at));
        r->tokens = atoll(next_field(&at));
        double *const numbers[] = {&r->seconds,  &r->us_per_token, &r->share,   &r->bytes,
                                   &r->gb_per_s, &r->rms_in,       &r->rms_out, &r->max_abs};
        for (int i = 0; i < 8; i++) *numbers[i] = number(next_field(&at));
    }
    const bool whole = feof(in);
    fclose(in);
    return right_header && whole ? 0 : -1;
}

static const Row *find_row(const char *phase, int layer, const char *site) {
    for (int i = 0; i < n_rows; i++)
        if (!strcmp(rows[i].phase, phase) && rows[i].layer == layer && !strcmp(rows[i].site, site)) return &rows[i];
    return NULL;
}

/* The report's file; the table is kept in stderr_text. */
static int report(const char *name) {
    stderr_hide();
    const int status_ = profile_report(profile, temporary(name));
    stderr_show();
    return status_;
}

/* Rows come in the order of the forward pass; every site of every layer has one. */
static void check_sites(const Sites *sites_of_layer, const char *phase, int *at, long long calls, long long n_tokens,
                        long long logits_calls) {
    static const char *const before[] = {"(start)", "embed"}, *const after[] = {"final_norm", "logits", "(profile)"};
    for (int l = -1; l <= model.config.n_layers; l++) {
        const bool inside_layer = l >= 0 && l < model.config.n_layers;
        const char *const *sites = l < 0 ? before : inside_layer ? sites_of_layer->names : after;
        for (int i = 0; i < (l < 0 ? 2 : inside_layer ? 12 : 3) && sites[i]; i++, ++*at) {
            const Row *r = &rows[*at];
            const bool last = l == model.config.n_layers;
            const int per_call = inside_layer && *sites[i] == '(' ? sites_of_layer->norms : 1; /* all are looked at */
            CHECK(*at < n_rows && !strcmp(r->phase, phase) && r->layer == (inside_layer ? l : -1) &&
                      !strcmp(r->site, sites[i]),
                  "row %d is %s, %d, %s; expected %s, %d, %s", *at, r->phase, r->layer, r->site, phase, l, sites[i]);
            CHECK(r->calls == per_call * (last ? logits_calls : calls), "%s, %d, %s: %lld calls", phase, l, r->site,
                  r->calls);
            CHECK(r->tokens == per_call * (last ? logits_calls : n_tokens), "%s, %d, %s: %lld tokens", phase, l,
                  r->site, r->tokens);
            const bool norm = strstr(r->site, "norm");
            CHECK((r->rms_in >= 0) == norm && (r->rms_out >= 0) == norm && (r->max_abs >= 0) == norm,
                  "%s: RMS of what is no norm, or none", r->site);
            CHECK(fabs(r->us_per_token - 1e6 * r->seconds / (double)r->tokens) <= 1e-3 && r->seconds >= 0,
                  "%s: %g us a token", r->site, r->us_per_token);
        }
    }
}

static double sum_of_shares(const char *phase) {
    double sum = 0;
    for (int i = 0; i < n_rows; i++) sum += strcmp(rows[i].phase, phase) ? 0 : rows[i].share;
    return sum;
}

static void check_csv(const Sites *sites) {
    double seconds[N_PHASES] = {0};
    int at = 0;
    run_session(seconds, NULL);
    CHECK(!report("x.csv") && !read_rows(temporary("x.csv")), "no CSV with the documented columns");
    check_sites(sites, "prefill", &at, CHUNKS, TOKENS, 1);
    check_sites(sites, "decode", &at, DECODED, DECODED, DECODED);
    CHECK(at == n_rows, "%d rows, expected %d", n_rows, at);
    const double shares[] = {sum_of_shares("prefill"), sum_of_shares("decode")};
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        const double parts = profile_seconds(profile, phase, false) / profile->total[phase];
        CHECK(fabs(shares[phase] - parts) < 1e-4 && parts > 0 && parts <= 1, "shares sum to %g, the parts to %g",
              shares[phase], parts);
    }
}

static void csv_lists_every_site(void) {
    for (int threads = 1; threads <= 3; threads++) {
        CHECK(!open_session(&MODEL, threads, true, false), "no session");
        check_csv(&PLAIN);
        close_session();
        if (test_fast() && threads != 2) continue;
        CHECK(!open_moe(threads, true, false), "no session");
        check_csv(&SPARSE);
        close_session();
    }
}

/* Floats: weights once a call, activations once a token, in and out. */
typedef struct {
    int layer;
    const char *site;
    double per_call, per_token;
} Moved;

static void check_bytes(const Moved *m, const char *phase) {
    const Row *r = find_row(phase, m->layer, m->site);
    CHECK(r, "no %s", m->site);
    const double bytes = 4 * ((double)r->calls * m->per_call + (double)r->tokens * m->per_token);
    CHECK(r->bytes == bytes, "%s: %g bytes, expected %g", r->site, r->bytes, bytes);
    CHECK(fabs(r->gb_per_s - 1e-9 * bytes / r->seconds) <= 1e-3 * r->gb_per_s + 1e-4, "%s: %g GB/s", r->site,
          r->gb_per_s);
}

static void bytes_are_what_a_site_moves(void) {
    static const Moved expected[] = {
        {0, "attn_norm", 64, 2 * 64},
        {2, "mlp_norm", 64, 2 * 64},
        {1, "qkv+rope", 64 * (64 + 32 + 32), 64 + 64 + 2 * 32},
        {1, "attn_out", 64 * 64, 64 + 2 * 64},
        {0, "gate_up+silu", 2 * 64 * 172, 64 + 2 * 172},
        {2, "down", 64 * 172, 172 + 2 * 64},
        {-1, "embed", 0, 2 * 64},
        {-1, "logits", 97 * 64, 64 + 97},
        {-1, "final_norm", 64, 2 * 64},
    };
    double seconds[N_PHASES] = {0};
    CHECK(!open_session(&MODEL, 1, true, false), "no session");
    run_session(seconds, NULL);
    CHECK(!report("x.csv") && !read_rows(temporary("x.csv")), "no CSV");
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        check_bytes(&expected[i], "prefill");
        check_bytes(&expected[i], "decode");
    }
    const Row *attention_row = find_row("decode", 0, "attention");
    double cached = 0; /* keys and values of all positions so far */
    for (int i = 1; i <= DECODED; i++) cached += 4 * (2.0 * 64 + 2.0 * 32 * (TOKENS + i));
    CHECK(attention_row, "no attention");
    CHECK(attention_row->bytes == cached, "attention: %g bytes, expected %g", attention_row->bytes, cached);
    close_session();
}

/* A token that is alone moves the weights of its experts, each with a row of activations. */
static void bytes_of_heads_and_experts(void) {
    static const Moved both[] = {
        {0, "q_norm", 16, 2 * 64},
        {1, "k_norm", 16, 2 * 16},
        {1, "router", 8 * 64, 64 + 8},
    };
    static const Moved decode[] = {
        {0, "gate_up+silu", 2 * 2 * 64 * 32, 2 * (64 + 2 * 32)},
        {1, "down", 2 * 64 * 32, 2 * (32 + 2 * 64)},
    };
    double seconds[N_PHASES] = {0};
    CHECK(!open_moe(1, true, false), "no session");
    run_session(seconds, NULL);
    CHECK(!report("x.csv") && !read_rows(temporary("x.csv")), "no CSV");
    for (int i = 0; i < 3; i++) {
        check_bytes(&both[i], "prefill");
        check_bytes(&both[i], "decode");
    }
    for (int i = 0; i < 2; i++) check_bytes(&decode[i], "decode");
    close_session();
    CHECK(!open_moe(1, true, false), "no session");
    session.batch = TOKENS; /* a chunk moves each expert of its tokens once */
    CHECK(model_forward(&session, tokens, TOKENS, 0, 1), "does not run");
    int used = 0;
    for (int e = 0; e < 8; e++) used += session.expert_start[e] < session.expert_start[e + 1];
    CHECK(session.expert_start[8] == 2 * TOKENS && used > 2, "%d slots, %d experts", session.expert_start[8], used);
    CHECK(!report("x.csv") && !read_rows(temporary("x.csv")), "no CSV");
    check_bytes(&(Moved){1, "gate_up+silu", used * 2 * 64 * 32, 2 * (64 + 2 * 32)}, "prefill");
    close_session();
}

/* ---- the size of the residual stream ----------------------------------------------------------------- */

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
    CHECK(fabs(r->rms_in / in.rms - 1) < 1e-5, "layer %d, %s: RMS in %g, expected %g", r->layer, r->site, r->rms_in,
          in.rms);
    CHECK(fabs(r->rms_out / out_.rms - 1) < 1e-5, "layer %d, %s: RMS out %g, expected %g", r->layer, r->site,
          r->rms_out, out_.rms);
    CHECK(fabs(r->max_abs / in.largest - 1) < 1e-5, "layer %d, %s: max %g, expected %g", r->layer, r->site, r->max_abs,
          in.largest);
}

/* The first norm sees the embedding, the last what is left in the session. */
static void sizes_of_the_residual_stream(void) {
    static float x[TOKENS * 64], y[TOKENS * 64];
    for (int threads = 1; threads <= 3; threads++) {
        CHECK(!open_session(&MODEL, threads, true, false), "no session");
        session.batch = TOKENS;
        CHECK(model_forward(&session, tokens, TOKENS, 0, TOKENS), "does not run");
        CHECK(!report("x.csv") && !read_rows(temporary("x.csv")), "no CSV");
        for (int t = 0; t < TOKENS; t++) {
            dequantize_row(x + t * 64, &model.embedding, tokens[t]);
            rmsnorm(y + t * 64, x + t * 64, model.layers[0].attn_norm.gamma, 64, model.layers[0].attn_norm.eps);
        }
        check_size(find_row("prefill", 0, "attn_norm"), size_of(x, TOKENS), size_of(y, TOKENS));
        for (int t = 0; t < TOKENS; t++)
            rmsnorm(y + t * 64, session.x + t * 64, model.final_norm.gamma, 64, model.final_norm.eps);
        check_size(find_row("prefill", -1, "final_norm"), size_of(session.x, TOKENS), size_of(y, TOKENS));
        close_session();
    }
}

/* All elements of a token's heads, before the norm of each head and after it. */
static void sizes_of_heads(void) {
    static float x[TOKENS * 64], q[TOKENS * 64], normalized[TOKENS * 64];
    for (int threads = 1; threads <= (test_fast() ? 1 : 3); threads++) {
        CHECK(!open_moe(threads, true, false), "no session");
        session.batch = TOKENS;
        CHECK(model_forward(&session, tokens, TOKENS, 0, 1), "does not run");
        CHECK(!report("x.csv") && !read_rows(temporary("x.csv")), "no CSV");
        const Layer *layer = &model.layers[0];
        for (int t = 0; t < TOKENS; t++) {
            float w[64];
            dequantize_row(x + t * 64, &model.embedding, tokens[t]);
            rmsnorm(x + t * 64, x + t * 64, layer->attn_norm.gamma, 64, layer->attn_norm.eps);
            for (int r = 0; r < 64; r++) {
                double sum = 0;
                dequantize_row(w, &layer->wq, r);
                for (int i = 0; i < 64; i++) sum += (double)w[i] * (double)x[t * 64 + i];
                q[t * 64 + r] = (float)sum;
            }
            for (int h = 0; h < 4; h++)
                rmsnorm(normalized + t * 64 + h * 16, q + t * 64 + h * 16, layer->q_norm.gamma, 16, layer->q_norm.eps);
        }
        check_size(find_row("prefill", 0, "q_norm"), size_of(q, TOKENS), size_of(normalized, TOKENS));
        close_session();
    }
}

/* ---- the trace ------------------------------------------------------------------------------------------ */

typedef struct {
    char name[24];
    int thread;
    double start, end; /* microseconds */
} Span;

static Span spans[8192];
static int n_spans;

static int read_spans(const char *text) {
    n_spans = 0;
    for (const char *s = text; (s = strstr(s, "{\"name\": ")) && n_spans < 8192; s++) {
        Span *span = &spans[n_spans];
        double duration;
        if (strncmp(s + strcspn(s, ","), ", \"ph\": \"X\"", 11)) continue; /* a name of a thread */
        if (sscanf(s, "{\"name\": \"%23[^\"]\", \"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"ts\": %lf, \"dur\": %lf}",
                   span->name, &span->thread, &span->start, &duration) != 4)
            return -1;
        span->end = span->start + duration;
        n_spans++;
    }
    return n_spans < 8192 ? 0 : -1;
}

static const double ROUNDING = 0.0025; /* three digits each: start, duration, twice */

/* Spans of a thread come parents first: each lies within the last one that has
 * not ended, and begins where its elder sister ended, or later. */
static void check_nesting(int thread, int *depths) {
    const Span *open[8];
    int depth = 0;
    double last = 0;
    for (int i = 0; i < n_spans; i++) {
        const Span *s = &spans[i];
        if (s->thread != thread) continue;
        CHECK(s->end >= s->start && s->start >= last - ROUNDING, "%s begins before the one before it ends", s->name);
        while (depth > 0 && s->start >= open[depth - 1]->end - ROUNDING) depth--;
        const int expected = !strcmp(s->name, "forward") ? 0 : !strncmp(s->name, "layer ", 6) ? 1 : depth;
        CHECK(depth == expected && depth < 3, "%s at depth %d", s->name, depth);
        CHECK(depth == 0 || s->end <= open[depth - 1]->end + ROUNDING, "%s ends after %s", s->name,
              open[depth - 1]->name);
        open[depth++] = s;
        depths[depth - 1]++;
        last = depth == 3 || (strcmp(s->name, "forward") && strncmp(s->name, "layer ", 6)) ? s->end : s->start;
    }
}

static int count_spans(int thread, const char *name) {
    int n = 0;
    for (int i = 0; i < n_spans; i++) n += spans[i].thread == thread && !strcmp(spans[i].name, name);
    return n;
}

static void check_trace(int threads) {
    double seconds[N_PHASES] = {0};
    size_t size;
    run_session(seconds, NULL);
    CHECK(!report("x.json"), "no trace");
    char *text = file_read(temporary("x.json"), &size);
    CHECK(text && json_valid(text), "no JSON: %.200s", text);
    CHECK(!read_spans(text), "a span with other fields");
    const int chunks = CHUNKS + DECODED, layers = model.config.n_layers;
    for (int t = 0; t < threads; t++) {
        int depths[3] = {0};
        char name[24];
        check_nesting(t, depths);
        CHECK(count_spans(t, "forward") == chunks, "thread %d: %d forward passes", t, count_spans(t, "forward"));
        for (int l = 0; l < layers; l++) {
            snprintf(name, sizeof name, "layer %d", l);
            CHECK(count_spans(t, name) == chunks, "thread %d: %d times %s", t, count_spans(t, name), name);
        }
        CHECK(count_spans(t, "gate_up+silu") == layers * chunks, "thread %d: %d times gate_up+silu", t,
              count_spans(t, "gate_up+silu"));
        CHECK(depths[0] == chunks && depths[2] >= layers * chunks * 7, "thread %d: %d, %d, %d spans", t, depths[0],
              depths[1], depths[2]);
        snprintf(name, sizeof name, "thread %d", t);
        CHECK(strstr(text, name), "%s has no name", name);
    }
    free(text);
}

static void traces_are_json_and_nest(void) {
    for (int threads = 1; threads <= 3; threads++) {
        CHECK(!open_session(&MODEL, threads, true, true), "no session");
        check_trace(threads);
        close_session();
        if (test_fast() && threads != 2) continue;
        CHECK(!open_moe(threads, true, true), "no session");
        check_trace(threads);
        close_session();
    }
}

static void json_checker_checks(void) {
    static const char *const good[] = {"[]", " {\"a\": [1, -2.5e-3, \"x\\n\\u00e9\", true, null], \"b\": {}} \n", "0",
                                       "\"\""};
    static const char *const bad[] = {"",      "[1,]",      "[1 2]", "{\"a\" 1}", "{a: 1}", "[01]",     "[1.]",
                                      "[nan]", "[\"\\x\"]", "[\"a]", "[1]]",      "[inf]",  "[\"\n\"]", "{\"a\": 1,}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) CHECK(json_valid(good[i]), "refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!json_valid(bad[i]), "taken: %s", bad[i]);
}

/* ---- --profile ------------------------------------------------------------------------------------------- */

static const HashModel SPEAKING = {64, 172, 2, 8, 4, 512, 64, false, 11};

static void make_models(void) {
    const float nan = NAN;
    binary_folder("profile");
    mkdir(inside("out"), 0700);
    hashmodel_write(&SPEAKING, inside("model.bin"), 1, 0);
    hashmodel_write(&SPEAKING, inside("nan.bin"), 1, 0);
    hashtokenizer_write(inside("tokenizer.bin"), 512);
    FILE *f = fopen(inside("nan.bin"), "r+b"); /* an element of the final norm */
    fseek(f, 256 + 4L * 64 * 4, SEEK_SET);
    fwrite(&nan, sizeof nan, 1, f);
    fclose(f);
}

static int times_in(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

static void every_mode_that_runs_the_model_takes_it(void) {
    static const struct {
        const char *arguments;
        bool prefill, decode, timed; /* timed: stdout has times */
    } modes[] = {
        {"-i 'aa ba' -n 30 -s 3", true, true, false},
        {"--tokens 5 -n 10 -t 0", false, true, false},
        {"-m chat -t 5 -p 0 -s 12 -c 40", true, true, false},
        {"-m perplexity -i 'aa ba ca da'", true, false, false},
        {"-m logits -i 'aa ba ca' -o out/logits", true, false, false},
        {"-m bench --prompt-tokens 20 -n 4", true, true, true},
    };
    static char without[1 << 14];
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        static const char *const ways[] = {"", "--profile", "--profile=out/x.csv", "--profile=out/x.json"};
        for (int way = modes[i].timed ? 1 : 0; way < 4; way++) { /* times are not compared */
            if (test_fast() && way == 1) continue;
            if (strstr(modes[i].arguments, "chat")) setup.input = "hello\nand now?\n";
            CHECK_RUN("model.bin %s %s", ways[way], modes[i].arguments);
            if (way == 0) snprintf(without, sizeof without, "%.16000s", out);
            CHECK(modes[i].timed || !strncmp(out, without, 16000), "%s %s: %s", modes[i].arguments, ways[way], out);
            if (way == 0) continue;
            CHECK(times_in(err, "\nprefill\n") == modes[i].prefill && times_in(err, "\ndecode\n") == modes[i].decode &&
                      times_in(err, "\nparts: ") == modes[i].prefill + modes[i].decode &&
                      times_in(err, "\nnorms: ") == 1,
                  "%s: another table: %s", modes[i].arguments, err);
            CHECK(times_in(err, "attn_norm") == 2 * (modes[i].prefill + modes[i].decode), "%s: %s", modes[i].arguments,
                  err);
        }
        size_t size;
        char *trace = file_read(inside("out/x.json"), &size);
        CHECK(trace && json_valid(trace), "%s: no JSON", modes[i].arguments);
        free(trace);
        CHECK(!read_rows(inside("out/x.csv")) && n_rows > 20, "%s: no CSV", modes[i].arguments);
        unlink(inside("out/x.json"));
        unlink(inside("out/x.csv"));
        unlink(inside("out/logits"));
        CHECK(files_in("out") == 0, "%s: files left behind", modes[i].arguments);
    }
}

static void other_modes_refuse_it(void) {
    static const char *const modes[] = {"tokenize -i aa", "info", "convert -q f32 -o out/a.gguf", "norms",
                                        "norms --json"};
    for (int i = 0; i < 5; i++) {
        char arguments[128];
        snprintf(arguments, sizeof arguments, "model.bin --profile -m %s", modes[i]);
        check_refused(2, "--profile: not in mode", arguments);
    }
    check_refused(2, "--profile: not in mode", "-m norms --profile=out/x.csv");
    CHECK(files_in("out") == 0, "files left behind");
}

static void bad_names_are_refused(void) {
    static const char *const names[] = {"x", "x.txt", "", "csv", "x.csv.gz", "x.JSON", "out/"};
    for (int i = 0; i < 7; i++) {
        char arguments[128], mention[64];
        snprintf(arguments, sizeof arguments, "model.bin -i aa --profile=%s", names[i]);
        snprintf(mention, sizeof mention, "--profile is '%s', expected", names[i]);
        check_refused(2, mention, arguments);
    }
}

static void a_failing_run_writes_no_profile(void) {
    static const char *const runs[] = {"nan.bin -i aa", "nan.bin -m perplexity -i aa", "model.bin --tokens 600",
                                       "model.bin -i aa -z missing", "model.bin --norm nonsense -i aa"};
    for (int i = 0; i < 5; i++) {
        run("%s --profile=out/x.csv", runs[i]);
        CHECK(status == (i == 4 ? 2 : 1) && one_line(err), "%s: status %d, %s", runs[i], status, err);
        CHECK(files_in("out") == 0, "%s: a profile was written", runs[i]);
    }
    run("model.bin -i aa -n 8 --profile=missing/x.csv");
    CHECK(status == 1 && strstr(err, "missing/x.csv: "), "status %d, %s", status, err);
}

void suite_profile(void) {
    TEST(profiles_change_no_bit);
    TEST(parts_add_up_to_the_whole);
    TEST(csv_lists_every_site);
    TEST(bytes_are_what_a_site_moves);
    TEST(bytes_of_heads_and_experts);
    TEST(sizes_of_the_residual_stream);
    TEST(sizes_of_heads);
    TEST(json_checker_checks);
    TEST(traces_are_json_and_nest);
    make_models();
    TEST(every_mode_that_runs_the_model_takes_it);
    TEST(other_modes_refuse_it);
    TEST(bad_names_are_refused);
    TEST(a_failing_run_writes_no_profile);
}
