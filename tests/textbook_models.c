/* textbook_models.c: statements of docs/norms.md and its other pages:
 * trained models: their streams, means, large elements, other
 * norms in them, and folded gamma. */
#include "base/file.h"
#include "formats/open.h"
#include "lab/norm_spec.h"
#include "model.h"
#include "norm.h"
#include "session.h"

#include "tests/support/test.h"
#include "tests/support/wrap.h"
#include "tests/textbook.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- measurements of stories260K ----------------------------------------- */

/* stories260K and its tokenizer as command-line arguments; NULL: no
 * checkpoint. */
static const char *story_model(void) {
    static char words[2 * 4096 + 16];
    const char *path = real_checkpoint("stories260K.bin");
    if (!path)
        return NULL;
    int n = snprintf(words, sizeof words, "'%s' -z ", path);
    path = real_checkpoint("tok512.bin");
    if (!path)
        return NULL;
    snprintf(words + n, sizeof words - (size_t)n, "'%s'", path);
    return words;
}

/* Runs the program on a model, with stdout to `out` and stderr to `errors`; -1:
 * no checkpoint, or it failed. */
static int run_model(const char *model, const char *options, const char *out,
                     const char *errors) {
    char command[3 * 8192];
    const char *binary = getenv("NORMA_RUN");
    if (!model)
        return -1;
    snprintf(command, sizeof command, "'%s' %s %s >'%s' 2>'%s'",
             binary ? binary : "./run", model, options, out, errors);
    return system(command) ? -1 : 0;
}

#define ON_STORY "-m perplexity -f tests/golden/stories260K_greedy.txt "

void story_missing(void) {
    holds_unknown();
    test_skip(NO_CHECKPOINTS);
}

static int profile_of(StorySite *sites, int max_sites, const char *on) {
    char line[512], options[8192];
    const char *csv = temporary("norms.csv");
    snprintf(options, sizeof options, "%s --profile='%s'", on, csv);
    FILE *in = run_model(story_model(), options, "/dev/null", "/dev/null")
                   ? NULL
                   : fopen(csv, "r");
    int n = 0;
    while (in && n < max_sites && fgets(line, sizeof line, in)) {
        /* columns of the CSV file */
        enum { PHASE, SITE = 2, RMS_IN = 10, MEAN = 14, MAX_ABS, N_COLUMNS };
        char *column[N_COLUMNS], *at = line;
        for (int i = 0; i < N_COLUMNS; i++)
            column[i] = at ? strsep(&at, ",") : line;
        if (strcmp(column[PHASE], "prefill") || !strstr(column[SITE], "_norm"))
            continue;
        sites[n++] = (StorySite){atof(column[RMS_IN]), atof(column[MEAN]),
                                 atof(column[MAX_ABS])};
    }
    if (in)
        fclose(in);
    return n;
}

int profile_of_story(StorySite *sites, int max_sites) {
    return profile_of(sites, max_sites, ON_STORY);
}

int first_token_of_story(double *first, double *others) {
    enum { DIM_HERE = 64, HEADER = 128 };
    char options[4096], file[2048];
    size_t size = 0;
    const char *dump = temporary("dump");
    snprintf(
        options, sizeof options,
        "-m logits -f tests/golden/stories260K_greedy.txt -o /dev/null --dump '%s'",
        dump);
    if (run_model(story_model(), options, "/dev/null", "/dev/null"))
        return -1;
    snprintf(file, sizeof file, "%s/layers.1.attn_norm.in.npy", dump);
    char *bytes = file_read(file, &size);
    const float *x = (const float *)(void *)(bytes + HEADER);
    size_t n = (size - HEADER) / sizeof *x;
    double squares[2] = {0};
    for (size_t i = 0; i < n; i++)
        squares[i >= DIM_HERE] += (double)x[i] * x[i];
    *first = sqrt(squares[0] / DIM_HERE);
    *others = sqrt(squares[1] / (double)(n - DIM_HERE));
    free(bytes);
    folder_remove(dump);
    return 0;
}

/* Nats per token; -1: failed. */
static double loss_of(const char *model, const char *options) {
    size_t size;
    const char *out = temporary("loss.txt");
    char *text = run_model(model, options, out, "/dev/null")
                     ? NULL
                     : file_read(out, &size);
    const char *at = text ? strstr(text, "NLL per token") : NULL;
    double nats = at ? atof(at + strlen("NLL per token")) : -1;
    free(text);
    return nats;
}

static double story_loss(const char *norms) {
    char options[128];
    snprintf(options, sizeof options, ON_STORY "--norm %s", norms);
    return loss_of(story_model(), options);
}

int story_converted(const char *path, const char *type, bool fold) {
    char options[8192];
    snprintf(options, sizeof options, "-m convert -q %s --pure%s -o '%s'", type,
             fold ? " --fold-norms" : "", path);
    return run_model(story_model(), options, "/dev/null", "/dev/null");
}

double story_loss_converted(const char *type, bool fold) {
    const char *converted = temporary("story.gguf");
    char model[8192];
    if (story_converted(converted, type, fold))
        return -1;
    snprintf(model, sizeof model, "'%s'", converted);
    double nats = loss_of(model, ON_STORY);
    remove(converted);
    return nats;
}

/* The first number after these words of a page; -1: they are not in it. */
static double number_after(const char *page, const char *words) {
    const char *at = strstr(page, words);
    if (at)
        at = strpbrk(at + strlen(words), "0123456789");
    return at ? strtod(at, NULL) : -1;
}

/* The commands at the beginning of the chapter print what is said of them. */
void the_opening_holds(void) {
    static const struct {
        const char *words, *norms;
    } LOSSES[] = {{"-f story.txt  ", "rms"},
                  {"-f story.txt --norm none", "none"},
                  {"`--norm layer`", "layer"}};
    static const char *const pages[] = {"docs/norms.md", "docs/norms.zh.md"};
    const char *bundled = "models/stories.gguf";
    size_t size;
    char path[4096], options[8192];
    snprintf(path, sizeof path, "%s", temporary("story.txt"));
    CHECK(!run_model(bundled, "-s 1 -n 100", path, "/dev/null"), "no story");
    char *story = file_read(path, &size);
    CHECK(story && strchr(story, '.'), "the story has no sentence");
    *strchr(story, '.') = '\0';
    for (int k = 0; k < 3; k++) {
        snprintf(options, sizeof options, "-m perplexity -f '%s' --norm %s",
                 path, LOSSES[k].norms);
        double nats = loss_of(bundled, options);
        for (int c = 0; c < 2; c++) {
            char *page = file_read(pages[c], &size);
            CHECK(page && strstr(page, story), "%s: no story that begins: %s",
                  pages[c], story);
            double said = number_after(page, LOSSES[k].words);
            CHECK(fabs(said - nats) < 0.0006,
                  "%s: %g nats with --norm %s, not %g", pages[c], said,
                  LOSSES[k].norms, nats);
            free(page);
        }
    }
    free(story);
    remove(path);
}

enum { STORY_SITES = 11 };

static void eps_and_the_size_of_embeddings(void) {
    StorySite sites[STORY_SITES];
    if (profile_of_story(sites, STORY_SITES) != STORY_SITES)
        return story_missing();
    double rms = sites[0].rms_in, taken = 1e-5 / (2 * rms * rms);
    CHECK(fabs(1 - rms / sqrt(rms * rms + 1e-5) - taken) < 1e-3 * taken,
          "eps takes %.9g", taken);
    HOLDS(rms, 1e-5, 2, 100 * taken, 1.1920929e-7);
}

static void the_residual_stream_grows(void) {
    StorySite sites[STORY_SITES];
    if (profile_of_story(sites, STORY_SITES) != STORY_SITES)
        return story_missing();
    for (int i = 1; i < STORY_SITES; i++)
        CHECK(sites[i].rms_in > sites[i - 1].rms_in, "norm %d: RMS %g after %g",
              i, sites[i].rms_in, sites[i - 1].rms_in);
    HOLDS(sites[0].rms_in, sites[STORY_SITES - 1].rms_in, sites[0].max,
          sites[STORY_SITES - 1].max);
}

/* Nats per token of the sampled stories with other norms, less those with the
 * model's own: mean and standard error. scripts/measure/published.py has the
 * same in float64. */
static const struct {
    const char *norms;
    double more, error;
} EXCHANGED[] = {
    {"rms", 0, 0},
    {"0.attn=layer", 0.0020384, 0.00098918},
    {"attn=layer", 0.0227431, 0.00411911},
    {"final=layer", 0.0228765, 0.00345534},
    {"mlp=layer", 0.0781537, 0.005037},
    {"layer", 0.1064952, 0.00792654},
    {"final=none", 0.1569733, 0.00788292},
    {"none", 3.4059385, 0.0223931},
};
static const double SAMPLED_NATS = 1.3015561, SAMPLED_NONE = 4.7074946;

/* Adds the price of other norms in each of the sampled stories. False: no
 * checkpoint. */
static bool price_of_norms(Draws *price, Draws *nats, const char *norms) {
    const char *path = real_checkpoint("stories260K.bin");
    double losses[2][N_STORIES];
    if (!path ||
        losses_of_stories(losses[0], SAMPLED, path, "rms") != N_STORIES ||
        losses_of_stories(losses[1], SAMPLED, path, norms) != N_STORIES)
        return false;
    for (int i = 0; i < N_STORIES; i++) {
        add_draw(price, losses[1][i] - losses[0][i]);
        add_draw(nats, losses[1][i]);
    }
    return true;
}

static double correlation(const double *a, const double *b, int n) {
    double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        mean_a += a[i] / n;
        mean_b += b[i] / n;
    }
    for (int i = 0; i < n; i++) {
        ab += (a[i] - mean_a) * (b[i] - mean_b);
        aa += (a[i] - mean_a) * (a[i] - mean_a);
        bb += (b[i] - mean_b) * (b[i] - mean_b);
    }
    return ab / sqrt(aa * bb);
}

/* `--norm` with LayerNorm at site i of stories260K only. */
static const char *exchange_at(int i) {
    static char norms[32];
    snprintf(norms, sizeof norms, "%d.%s=layer", i / 2, i % 2 ? "mlp" : "attn");
    return i == STORY_SITES - 1 ? "final=layer" : norms;
}

/* |mean| / RMS at each site, over the sampled stories. False: failed. */
static bool means_of_stories(double means[STORY_SITES]) {
    size_t size;
    char *text = file_read(SAMPLED, &size), *rest = text, *line, options[8192];
    bool found = text;
    for (int i = 0; i < STORY_SITES; i++)
        means[i] = 0;
    while (found && (line = strsep(&rest, "\n")) && *line) {
        StorySite sites[STORY_SITES];
        snprintf(options, sizeof options, "-m perplexity --tokens %s",
                 line + strlen("1,"));
        found = profile_of(sites, STORY_SITES, options) == STORY_SITES;
        for (int i = 0; i < STORY_SITES && found; i++)
            means[i] += sites[i].mean / N_STORIES;
    }
    free(text);
    return found;
}

/* The correlation of |mean| / RMS with the price of LayerNorm over the sites:
 * 0.24 on the greedy story, -0.34 on the sampled ones. */
static const double CORRELATIONS[] = {0.239, -0.342};
static void price_and_mean_do_not_correlate(void) {
    StorySite sites[STORY_SITES];
    double means[STORY_SITES], prices[STORY_SITES];
    if (profile_of(sites, STORY_SITES, ON_STORY) != STORY_SITES)
        return story_missing();
    for (int i = 0; i < STORY_SITES; i++) {
        means[i] = sites[i].mean;
        prices[i] = story_loss(exchange_at(i));
    }
    double found = correlation(means, prices, STORY_SITES);
    CHECK(fabs(found - CORRELATIONS[0]) < 0.005, "the story: %.9g", found);
    HOLDS(CORRELATIONS[0], CORRELATIONS[1]);
    if (!test_thorough())
        return;
    CHECK(means_of_stories(means), "no profiles of the stories");
    for (int i = 0; i < STORY_SITES; i++) {
        Draws price = {0}, nats = {0};
        CHECK(price_of_norms(&price, &nats, exchange_at(i)), "site %d", i);
        prices[i] = mean_of_draws(&price);
    }
    found = correlation(means, prices, STORY_SITES);
    CHECK(fabs(found - CORRELATIONS[1]) < 0.03, "20 stories: %.9g", found);
}

static void norms_exchanged(void) {
    double last = 0;
    for (size_t i = 0; i < sizeof EXCHANGED / sizeof *EXCHANGED; i++) {
        double nats = story_loss(EXCHANGED[i].norms);
        Draws price = {0}, sampled = {0};
        if (!(nats > 0) ||
            !price_of_norms(&price, &sampled, EXCHANGED[i].norms))
            return story_missing();
        CHECK(nats > last - 0.001, "%s: %g nats after %g", EXCHANGED[i].norms,
              nats, last);
        last = nats;
        HOLDS(nats, exp(nats));
        CHECK(fabs(mean_of_draws(&price) - EXCHANGED[i].more) < 2e-5 &&
                  fabs(error_of_draws(&price) - EXCHANGED[i].error) < 1e-5,
              "%s: %.9g more on the sampled stories, +- %.9g",
              EXCHANGED[i].norms, mean_of_draws(&price),
              error_of_draws(&price));
        if (i)
            HOLDS(EXCHANGED[i].more, EXCHANGED[i].error);
        if (!i || !strcmp(EXCHANGED[i].norms, "none")) {
            double expected = i ? SAMPLED_NONE : SAMPLED_NATS;
            CHECK(fabs(mean_of_draws(&sampled) - expected) < 1e-4, "%s: %.9g",
                  EXCHANGED[i].norms, mean_of_draws(&sampled));
            if (!i)
                HOLDS(expected);
        }
    }
    price_and_mean_do_not_correlate();
    HOLDS(0, N_STORIES, STORY_SITES);
}

/* ---- stories that stories260K sampled ----------------------------------- */

/* Reads a line of token ids: "1,403,407". Returns their number; 0 at the
 * end. */
static int next_story(char **at, int *tokens, int max) {
    int n = 0;
    while (n < max && **at) {
        tokens[n++] = (int)strtol(*at, at, 10);
        if (*(*at)++ != ',')
            break;
    }
    return n;
}

/* Nats per token of a text, the first token excluded. */
static double nats_of(Session *session, const int *tokens, int n) {
    int vocabulary = session->model->config.vocab_size;
    const float *logits = model_forward_text(session, tokens, n, 0, n);
    double nats = 0;
    for (int t = 0; t + 1 < n; t++, logits += vocabulary) {
        int next = tokens[t + 1];
        double others = 0;
        for (int i = 0; i < vocabulary; i++)
            others += i == next ? 0 : exp((double)logits[i] - logits[next]);
        nats += log1p(others) / (n - 1);
    }
    return nats;
}

int losses_of_stories(double losses[N_STORIES], const char *stories,
                      const char *path, const char *norms) {
    size_t size;
    char *text = file_read(stories, &size), *at = text;
    Model m;
    Session session;
    int tokens[512], n, found = 0;
    if (!text || model_open(&m, path))
        return free(text), 0;
    stderr_hide(); /* the note on `none` */
    bool swapped = !model_swap_norms(&m, norms);
    stderr_show();
    if (swapped && !session_open(&session, &m, 1, 512, 0, KV_F32)) {
        while (found < N_STORIES && (n = next_story(&at, tokens, 512)) > 1)
            losses[found++] = nats_of(&session, tokens, n);
        session_close(&session);
    }
    model_close(&m);
    free(text);
    return found;
}

/* ---- when the mean is small; large elements; folding --------------------- */

typedef enum { UNIFORM, NORMAL, LAPLACE, CAUCHY, DOMINATED } Distribution;

/* An element of a token; DOMINATED: normal elements, and one of 1e6. */
static double element(Distribution distribution, uint64_t tensor, int i) {
    double u = random_float(tensor, i) + 0x1p-25;
    switch (distribution) {
    case UNIFORM: return u;
    case LAPLACE: return (u < 0 ? 1 : -1) * log(1 - 2 * fabs(u));
    case CAUCHY: return tan(3.14159265358979 * u);
    case NORMAL:
    case DOMINATED: break;
    }
    return distribution == DOMINATED && !i ? 1e6 : normal(tensor, i);
}

enum { MEAN_DRAWS = 4000, MEAN_DIM = 256 };

/* dim (mean / RMS)^2, and |mean| / RMS relative to sqrt(2 / (pi dim)). */
static void mean_over_rms(Draws *squares, Draws *sizes,
                          Distribution distribution) {
    for (int draw = 0; draw < MEAN_DRAWS; draw++) {
        double mean = 0, square = 0;
        for (int i = 0; i < MEAN_DIM; i++) {
            double x = element(distribution, 44000 + (uint64_t)draw, i);
            mean += x / MEAN_DIM;
            square += x * x / MEAN_DIM;
        }
        add_draw(squares, MEAN_DIM * mean * mean / square);
        add_draw(sizes, fabs(mean) / sqrt(square) /
                            sqrt(2 / (3.14159265358979 * MEAN_DIM)));
    }
}

static void a_mean_is_one_over_the_root_of_dim(void) {
    static const int dims[] = {64, 256, 1024, 4096};
    for (int k = 0; k < 4; k++)
        HOLDS(dims[k], sqrt(2 / (3.14159265358979 * dims[k])),
              sqrt(1 - 1.0 / dims[k]));
    for (Distribution d = UNIFORM; d <= DOMINATED; d++) {
        Draws squares = {0}, sizes = {0};
        mean_over_rms(&squares, &sizes, d);
        double square = mean_of_draws(&squares), size = mean_of_draws(&sizes),
               expected = d == CAUCHY      ? 1.09
                          : d == DOMINATED ? sqrt(3.14159265358979 / 2)
                                           : 1;
        CHECK(fabs(square - 1) < 4 * error_of_draws(&squares) + 1e-3,
              "distribution %d: the square is %.9g +- %.9g", d, square,
              error_of_draws(&squares));
        CHECK(fabs(size - expected) < 4 * error_of_draws(&sizes) + 1e-3,
              "distribution %d: the size is %.9g +- %.9g", d, size,
              error_of_draws(&sizes));
        if (d == CAUCHY)
            HOLDS(square, error_of_draws(&squares), 100 * (size - 1),
                  100 * error_of_draws(&sizes));
        if (d == DOMINATED)
            HOLDS(100 * (expected - 1));
    }
    /* normal elements, exactly */
    HOLDS(1, 2, MEAN_DRAWS, MEAN_DIM,
          exp(lgamma(dims[0] / 2.0) - lgamma((dims[0] + 1) / 2.0)) /
              sqrt(3.14159265358979));
}

/* The bundled model with LayerNorm, on stories that it sampled. float64 without
 * quantized activations has 0.332 and 0.004 +- 0.003. */
static void bundled_model_with_layernorm(void) {
    double losses[2][N_STORIES];
    Draws nats = {0}, more = {0};
    for (int k = 0; k < 2; k++)
        CHECK(losses_of_stories(losses[k], BUNDLED_SAMPLED,
                                "models/stories.gguf",
                                k ? "layer" : "rms") == N_STORIES,
              "models/stories.gguf does not run");
    for (int i = 0; i < N_STORIES; i++) {
        add_draw(&nats, losses[0][i]);
        add_draw(&more, losses[1][i] - losses[0][i]);
    }
    CHECK(fabs(mean_of_draws(&nats) - 0.332) < 0.002, "%.9g nats",
          mean_of_draws(&nats));
    CHECK(fabs(mean_of_draws(&more) - 0.004) < 0.003 &&
              fabs(error_of_draws(&more) - 0.003) < 0.001,
          "LayerNorm: %.9g more nats +- %.9g", mean_of_draws(&more),
          error_of_draws(&more));
}

static void a_real_models_mean_is_chance(void) {
    enum { SITES = 11 };
    StorySite sites[SITES];
    double min = 1, max = 0;
    bundled_model_with_layernorm();
    if (profile_of_story(sites, SITES) != SITES) {
        story_missing();
        return;
    }
    for (int i = 0; i < SITES; i++) {
        min = fmin(min, sites[i].mean);
        max = fmax(max, sites[i].mean);
    }
    CHECK(min > 0.5 * 0.0997 && max < 0.0997, "mean / RMS from %.9g to %.9g",
          min, max);
    HOLDS(SITES, 64, 0, min, max, sqrt(2 / (3.14159265358979 * 64)));
}

static void one_large_element_silences_the_others(void) {
    enum { N = 4096 };
    static float x[N], y[N], ones[N];
    for (int i = 0; i < N; i++)
        x[i] = ones[i] = 1;
    x[7] = 1000;
    rmsnorm(y, x, ones, N, 0);
    double scale = 1 / sqrt((1e6 + N - 1) / N);
    CHECK(fabs(y[0] - scale) < 1e-7 && fabs(y[7] - 1000 * scale) < 1e-4,
          "%.9g and %.9g", y[0], y[7]);
    HOLDS(N, 1, 1000, 1 / scale, scale, 1000 * scale, sqrt(N));
    double first, others;
    if (first_token_of_story(&first, &others))
        return story_missing();
    CHECK(first > 2 * others, "the first token has %g, the others %g", first,
          others);
    HOLDS(0, 1, first, others);
}

/* A block of 32 weights quantized with one step of max / levels: the error of
 * the products if one gamma is 16, folded relative to separate. */
static double widening(int draw, Distribution distribution, int levels) {
    enum { BLOCK = 32, BLOCKS = 200 };
    double errors[2] = {0};
    for (int b = 0; b < BLOCKS; b++)
        for (int fold = 0; fold < 2; fold++) {
            double w[BLOCK], max = 0;
            for (int i = 0; i < BLOCK; i++) {
                w[i] = element(distribution, 48000 + (uint64_t)draw,
                               b * BLOCK + i) *
                       (fold && !i ? 16 : 1);
                max = fmax(max, fabs(w[i]));
            }
            for (int i = 0; i < BLOCK; i++) {
                double step = max / levels,
                       error = w[i] - step * round(w[i] / step);
                double gamma = !fold && !i ? 16 : 1;
                errors[fold] += error * error * gamma * gamma;
            }
        }
    return sqrt(errors[1] / errors[0]);
}

/* How many more nats per token the sampled stories take if gamma is folded,
 * with stories260K as a GGUF file of this type. False: no checkpoint. */
static bool price_of_folding(Draws *price, const char *type) {
    double losses[2][N_STORIES];
    for (int fold = 0; fold < 2; fold++) {
        const char *file = temporary("folded.gguf");
        if (story_converted(file, type, fold) ||
            losses_of_stories(losses[fold], SAMPLED, file, "rms") != N_STORIES)
            return false;
        remove(file);
    }
    for (int i = 0; i < N_STORIES; i++)
        add_draw(price, losses[1][i] - losses[0][i]);
    return true;
}

static void folding_widens_a_block(void) {
    enum { BLOCK = 32, DRAWS = 40 };
    static const Distribution distributions[] = {UNIFORM, NORMAL, LAPLACE};
    for (int k = 0; k < 6; k++) {
        Draws ratios = {0};
        for (int draw = 0; draw < DRAWS; draw++)
            add_draw(&ratios,
                     widening(draw, distributions[k / 2], k % 2 ? 7 : 127));
        CHECK(error_of_draws(&ratios) < 0.03, "case %d: %.9g +- %.9g", k,
              mean_of_draws(&ratios), error_of_draws(&ratios));
        HOLDS(mean_of_draws(&ratios));
    }
    HOLDS(BLOCK, 16, DRAWS, 0.03, 127, 7);
    static const struct {
        const char *type;
        bool fold;
        /* with other vector widths a few activations have other bytes */
        double nats;
    } LOSSES[] = {{"f32", 0, 0.494},  {"f32", 1, 0.494},  {"q8_0", 0, 0.495},
                  {"q8_0", 1, 0.497}, {"q4_0", 0, 0.566}, {"q4_0", 1, 0.609}};
    for (int k = 0; k < 6; k++) {
        double nats = story_loss_converted(LOSSES[k].type, LOSSES[k].fold);
        if (nats < 0)
            return story_missing();
        CHECK(fabs(nats - LOSSES[k].nats) < (k < 2 ? 0.0005 : 0.005),
              "%s%s: %.9g", LOSSES[k].type, LOSSES[k].fold ? ", folded" : "",
              nats);
        HOLDS(LOSSES[k].nats, 0.005);
    }
    static const struct {
        const char *type;
        double mean, error;
    } PRICES[] = {{"q8_0", -0.0001, 0.0006}, {"q4_0", 0.026, 0.008}};
    for (int k = 0; k < 2; k++) {
        Draws price = {0};
        if (!price_of_folding(&price, PRICES[k].type))
            return story_missing();
        CHECK(fabs(mean_of_draws(&price) - PRICES[k].mean) <
                      2 * PRICES[k].error &&
                  fabs(error_of_draws(&price) / PRICES[k].error - 1) < 0.3,
              "%s: folding takes %.9g nats +- %.9g", PRICES[k].type,
              mean_of_draws(&price), error_of_draws(&price));
        HOLDS(PRICES[k].mean, PRICES[k].error, N_STORIES);
    }
}

/* ---- the table -------------------------------------------------------- */

static const Statement STATEMENTS[] = {
    STATEMENT(eps_and_the_size_of_embeddings),
    STATEMENT(the_residual_stream_grows),
    STATEMENT(norms_exchanged),
    STATEMENT(a_mean_is_one_over_the_root_of_dim),
    STATEMENT(a_real_models_mean_is_chance),
    STATEMENT(one_large_element_silences_the_others),
    STATEMENT(folding_widens_a_block),
};
const Table textbook_models = TABLE(STATEMENTS);
