/* test_textbook.c: the numbered statements of docs/norms.md and its other
 * pages, and the numbers of docs/experiment.md.
 *
 * The tests of the statements are in textbook_*.c, by topic: one for every
 * testable statement. The numbers in the pages and their Chinese translations
 * are compared with the numbers of the tests: closed forms, results in double
 * precision, or PyTorch's, printed by scripts/golden/textbook*.py. test_norm.c
 * tests the accuracy of norm.c.
 */
#include "base/file.h"

#include "tests/support/chapter.h"
#include "tests/support/test.h"
#include "tests/textbook.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the chapter itself ------------------------------------------------- */

static const Book BOOK = {.chapters = {"docs/norms.md", "docs/norms.zh.md"},
                          .given = "tests/golden/textbook.txt",
                          .n_statements = 79,
                          .tables = {&textbook_formulas, &textbook_gradients,
                                     &textbook_places, &textbook_attention,
                                     &textbook_models, &textbook_cost,
                                     &textbook_equivalence, &textbook_answers}};

static void twins_of_the_experiment(void) {
    same_numbers("docs/experiment.md", "docs/experiment.zh.md");
}

/* Reads a line of docs/experiment.csv: a run and its loss. 0 at the end. */
static int next_run(char **at, char *norms, char *rate, double *loss) {
    char *line = *at ? strchr(*at, '\n') : NULL;
    *at = line ? line + 1 : NULL;
    return *at &&
           sscanf(*at, "%31[^,],%15[^,],%*d,%lf", norms, rate, loss) == 3;
}

/* Writes the table row of the losses of `norms`: a cell for each learning rate,
 * a number for each seed. */
static void write_row(char row[256], char *csv, const char *norms) {
    static const char *const rates[] = {"0.001", "0.002", "0.004", "0.008",
                                        "0.016"};
    char found[32], rate[16];
    double loss;
    int n = snprintf(row, 256, "\n| %s |", norms);
    for (int i = 0; i < 5; i++) {
        const char *separator = " ";
        for (char *at = csv; next_run(&at, found, rate, &loss) && n < 200;) {
            if (strcmp(found, norms) || strcmp(rate, rates[i]))
                continue;
            n += snprintf(row + n, 256 - (size_t)n, "%s%.3f", separator, loss);
            separator = ", ";
        }
        n += snprintf(row + n, 256 - (size_t)n, " |");
    }
}

/* The mean loss over the seeds. */
static double mean_loss(char *csv, const char *norms, const char *rate) {
    char found_norms[32], found_rate[16];
    double loss, sum = 0;
    int n = 0;
    for (char *at = csv; next_run(&at, found_norms, found_rate, &loss);)
        if (!strcmp(found_norms, norms) && !strcmp(found_rate, rate))
            sum += loss, n++;
    return sum / n;
}

/* A document's text with spaces for its line breaks and indents; the caller
 * frees it. */
static char *in_one_line(char *text) {
    char *to = text;
    for (const char *at = text; at && *at; at++) {
        bool space = *at == '\n' || *at == ' ';
        if (!space)
            *to++ = *at;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    }
    if (text)
        *to = '\0';
    return text;
}

/* The losses with and without QK-norm in statement 41. */
static void qk_norm_tolerates_a_larger_rate(void) {
    size_t size;
    char *csv = file_read("docs/experiment.csv", &size),
         *text = in_one_line(chapter_text(BOOK.chapters[0])), sentence[64];
    CHECK(csv && text, "no files");
    double with = mean_loss(csv, "qk", "0.016") - mean_loss(csv, "qk", "0.004");
    double without =
        mean_loss(csv, "rms", "0.016") - mean_loss(csv, "rms", "0.004");
    snprintf(sentence, sizeof sentence,
             "rises by %.3f with it, by %.3f without", with, without);
    CHECK(strstr(text, sentence), "it does not say: %s", sentence);
    free(text);
    text = in_one_line(file_read("docs/experiment.md", &size));
    snprintf(sentence, sizeof sentence, "on average %.4f and %.4f",
             mean_loss(csv, "rms", "0.004"), mean_loss(csv, "qk", "0.004"));
    CHECK(text && strstr(text, sentence), "it does not say: %s", sentence);
    free(csv);
    free(text);
}

/* Post-norm and pre-norm without warm-up, in the appendix. */
static void without_warm_up_the_order_depends_on_the_rate(void) {
    size_t size;
    char *csv = file_read("docs/experiment.csv", &size),
         *text = in_one_line(chapter_text(BOOK.chapters[0])), sentence[64];
    CHECK(csv && text, "no files");
    snprintf(sentence, sizeof sentence,
             "better at 0.004 (%.3f against %.3f, means",
             mean_loss(csv, "post_cold", "0.004"),
             mean_loss(csv, "rms_cold", "0.004"));
    CHECK(strstr(text, sentence), "it does not say: %s", sentence);
    CHECK(mean_loss(csv, "post_cold", "0.002") >
                  mean_loss(csv, "rms_cold", "0.002") &&
              mean_loss(csv, "post_cold", "0.008") >
                  mean_loss(csv, "rms_cold", "0.008"),
          "post-norm is not worse at 0.002 and 0.008");
    free(csv);
    free(text);
}

/* A sentence of docs/experiment.md about scaled embeddings: a format for means
 * over the seeds, or for what a mean exceeds that of another run by. */
typedef struct {
    const char *format;
    struct {
        const char *norms, *rate, *minus; /* minus: norms, the same rate */
    } values[7];
} Sentence;

static const Sentence SENTENCES[] = {
    {"gain %.3f and %.3f with it (means of three seeds), and end at %.3f and "
     "%.3f; `rms` without it has %.3f",
     {{"sandwich", "0.004", "sandwich_scaled"},
      {"olmo2", "0.004", "olmo2_scaled"},
      {"sandwich_scaled", "0.004", NULL},
      {"olmo2_scaled", "0.004", NULL},
      {"rms", "0.004", NULL}}},
    {"they have %.3f and %.3f, not %.3f and %.3f; `rms` has %.3f.",
     {{"sandwich_scaled", "0.001", NULL},
      {"olmo2_scaled", "0.001", NULL},
      {"sandwich", "0.001", NULL},
      {"olmo2", "0.001", NULL},
      {"rms", "0.001", NULL}}},
    {"it has %.3f, %.3f and %.3f at 0.002, 0.004 and 0.008, not %.3f, %.3f and "
     "%.3f",
     {{"post_scaled", "0.002", NULL},
      {"post_scaled", "0.004", NULL},
      {"post_scaled", "0.008", NULL},
      {"post", "0.002", NULL},
      {"post", "0.004", NULL},
      {"post", "0.008", NULL}}},
    {"`olmo2` %.3f, `sandwich` %.3f, and `post` learns only",
     {{"olmo2_scaled", "0.016", NULL}, {"sandwich_scaled", "0.016", NULL}}},
    {"`post` has %.3f, not %.3f, `sandwich` %.3f, not %.3f, `olmo2` %.3f, not "
     "%.3f.",
     {{"post_scaled_cold", "0.001", NULL},
      {"post_scaled", "0.001", NULL},
      {"sandwich_scaled_cold", "0.001", NULL},
      {"sandwich_scaled", "0.001", NULL},
      {"olmo2_scaled_cold", "0.001", NULL},
      {"olmo2_scaled", "0.001", NULL}}},
    {"`post` still is (%.3f, not %.3f), the others are worse by %.3f and %.3f.",
     {{"post_scaled_cold", "0.002", NULL},
      {"post_scaled", "0.002", NULL},
      {"sandwich_scaled_cold", "0.002", "sandwich_scaled"},
      {"olmo2_scaled_cold", "0.002", "olmo2_scaled"}}},
    {"`sandwich` is worse by %.3f at 0.004, by %.3f at 0.008 and by %.3f at "
     "0.016, `olmo2` by %.3f, %.3f and %.3f.",
     {{"sandwich_scaled_cold", "0.004", "sandwich_scaled"},
      {"sandwich_scaled_cold", "0.008", "sandwich_scaled"},
      {"sandwich_scaled_cold", "0.016", "sandwich_scaled"},
      {"olmo2_scaled_cold", "0.004", "olmo2_scaled"},
      {"olmo2_scaled_cold", "0.008", "olmo2_scaled"},
      {"olmo2_scaled_cold", "0.016", "olmo2_scaled"}}},
    {"`olmo2` %.3f and `sandwich` %.3f with both, `rms` %.3f with warm-up "
     "only, `post` %.3f with neither",
     {{"olmo2_scaled", "0.004", NULL},
      {"sandwich_scaled", "0.004", NULL},
      {"rms", "0.004", NULL},
      {"post_cold", "0.004", NULL}}},
};

/* Means over three seeds, with scaled embeddings and without, and the spread of
 * the kinds of norms with one seed. */
static void the_factor_levels_the_places(void) {
    static const char *const rates[] = {"0.001", "0.002", "0.008"};
    size_t size;
    char *csv = file_read("docs/experiment.csv", &size),
         *text = in_one_line(file_read("docs/experiment.md", &size)),
         sentence[256];
    CHECK(csv && text, "no files");
    for (size_t i = 0; i < sizeof SENTENCES / sizeof *SENTENCES; i++) {
        const Sentence *s = &SENTENCES[i];
        double x[7] = {0};
        for (int k = 0; k < 7 && s->values[k].norms; k++) {
            const char *rate = s->values[k].rate, *minus = s->values[k].minus;
            x[k] = mean_loss(csv, s->values[k].norms, rate) -
                   (minus ? mean_loss(csv, minus, rate) : 0);
        }
        snprintf(sentence, sizeof sentence, s->format, x[0], x[1], x[2], x[3],
                 x[4], x[5], x[6]);
        CHECK(strstr(text, sentence), "it does not say: %s", sentence);
    }
    for (int i = 0; i < 3; i++) { /* at 0.004 rms has three seeds */
        double rms = mean_loss(csv, "rms", rates[i]),
               layer = mean_loss(csv, "layer", rates[i]),
               mixed = mean_loss(csv, "mixed", rates[i]);
        double spread =
            fmax(fmax(rms, layer), mixed) - fmin(fmin(rms, layer), mixed);
        CHECK(spread < 0.0033, "rate %s: the kinds differ by %.4f", rates[i],
              spread);
    }
    free(csv);
    free(text);
}

/* The tables of losses in docs/experiment.md match docs/experiment.csv. */
static void the_experiment_matches_its_files(void) {
    static const char *const cases[] = {"none",
                                        "rms",
                                        "layer",
                                        "mixed",
                                        "post",
                                        "sandwich",
                                        "olmo2",
                                        "qk",
                                        "dyt",
                                        "rms_cold",
                                        "post_cold",
                                        "none_apart",
                                        "rms_apart",
                                        "dyt_apart",
                                        "post_scaled",
                                        "sandwich_scaled",
                                        "olmo2_scaled",
                                        "rms_scaled",
                                        "post_scaled_cold",
                                        "sandwich_scaled_cold",
                                        "olmo2_scaled_cold",
                                        "rms_scaled_cold"};
    size_t size;
    char *csv = file_read("docs/experiment.csv", &size),
         *text = file_read("docs/experiment.md", &size), row[256];
    CHECK(csv && text, "no files");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_row(row, csv, cases[i]);
        CHECK(strstr(text, row), "no row%s", row);
    }
    free(csv);
    free(text);
}

/* The slowest training step relative to the one without norms, from the list of
 * steps per second. */
static void steps_with_norms_take_longer(void) {
    size_t size;
    char *text = in_one_line(file_read("docs/experiment.md", &size)), *at,
         sentence[64];
    double none, speed, min;
    CHECK(text && (at = strstr(text, "Training steps per second")) &&
              (at = strstr(at, "`none` ")) &&
              sscanf(at, "`none` %lf", &none) == 1,
          "no list of steps per second");
    min = none;
    for (const char *end = strstr(at, "Norms take"); at && at < end;
         at = strchr(at + 1, '`'))
        if (sscanf(at, "` %lf", &speed) == 1)
            min = fmin(min, speed);
    snprintf(sentence, sizeof sentence, "at most %.1f %% more time",
             100 * (none / min - 1));
    CHECK(strstr(text, sentence), "it does not say: %s", sentence);
    free(text);
}

/* Means and spreads in docs/experiment.md follow from the losses in its
 * table. */
static void the_experiment_adds_up(void) {
    size_t size;
    char *text = in_one_line(file_read("docs/experiment.md", &size)),
         *at = text;
    double means[4] = {0}, spreads[4] = {0};
    int n = 0;
    while (at && n < 4 && (at = strstr(at, " | 0.002 | "))) {
        double loss[3], mean;
        at += strlen(" | 0.002 | ");
        if (sscanf(at, "%lf, %lf, %lf | %lf", &loss[0], &loss[1], &loss[2],
                   &mean) != 4)
            break;
        means[n] = (loss[0] + loss[1] + loss[2]) / 3;
        spreads[n] = fmax(fmax(loss[0], loss[1]), loss[2]) -
                     fmin(fmin(loss[0], loss[1]), loss[2]);
        if (fabs(means[n] - mean) > 0.0005001)
            test_fail(__FILE__, __LINE__, "row %d: mean %.5f", n, means[n]);
        n++;
    }
    CHECK(n == 4, "%d rows of three seeds", n);
    char sentence[128];
    double higher = means[3] - means[0];
    snprintf(
        sentence, sizeof sentence,
        "ends %.2f nats higher: %.1f times the spread of its own seeds (%.3f)",
        higher, higher / spreads[3], spreads[3]);
    CHECK(strstr(text, sentence), "it does not say: %s", sentence);
    snprintf(sentence, sizeof sentence, "differ by up to %.3f",
             fmax(fmax(spreads[0], spreads[1]), spreads[2]));
    CHECK(strstr(text, sentence), "it does not say: %s", sentence);
    free(text);
}

/* Names with digits in the chapters. */
static const char *const NAMES[] = {"L2",
                                    "Float32",
                                    "Q4_K_M",
                                    "float16",
                                    "int8",
                                    "v2",
                                    "T4",
                                    "float32",
                                    "float64",
                                    "bf16",
                                    "bfloat16",
                                    "q8_0",
                                    "q4_0",
                                    "stories260K",
                                    "tok512",
                                    "Qwen3",
                                    "SmolLM2",
                                    "Qwen2",
                                    "T5",
                                    "T5LayerNorm",
                                    "e20",
                                    "H100",
                                    "V100",
                                    "squares_beyond_float32",
                                    "stories260K_greedy",
                                    "R7B"};

static bool is_known(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strlen(NAMES[i]) == n && !strncmp(name, NAMES[i], n))
            return true;
    return false;
}

/* An address matches the number before it, names are spelled correctly, and
 * named files exist. */
static void addresses_and_names_are_correct(void) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_",
                      digits[] = "0123456789";
    static const char *const folders[] = {"tests/", "scripts/", "models/"};
    for (size_t c = 0; c < 2; c++) {
        char *text = chapter_text(BOOK.chapters[c]), first[64], second[64];
        int papers = 0, files = 0, names = 0;
        CHECK(text, "%s does not open", BOOK.chapters[c]);
        for (const char *at = text; (at = strstr(at, "[arXiv:"));
             at++, papers++)
            CHECK(sscanf(at,
                         "[arXiv:%63[0-9.]](https://arxiv.org/abs/%63[0-9.])",
                         first, second) == 2 &&
                      !strcmp(first, second),
                  "%s: %.60s", BOOK.chapters[c], at);
        for (const char *at = text, *end; (at = strpbrk(at, letters));
             at = end) {
            for (end = at + strspn(at, letters);
                 strspn(end, digits) + strspn(end, letters);)
                end += strspn(end, digits) + strspn(end, letters);
            bool digit = strcspn(at, digits) < (size_t)(end - at);
            CHECK(!digit || is_known(at, (size_t)(end - at)),
                  "%s: %.*s is not known", BOOK.chapters[c], (int)(end - at),
                  at);
            names += digit;
        }
        for (int i = 0; i < 3; i++)
            for (const char *at = text; (at = strstr(at, folders[i])); at++) {
                FILE *in = sscanf(at, "%63[a-zA-Z0-9_./]", first) == 1 &&
                                   strchr(first, '.')
                               ? fopen(first, "r")
                               : NULL;
                CHECK(in || !strchr(first, '.'), "%s: %s does not exist",
                      BOOK.chapters[c], first);
                if (in)
                    fclose(in);
                files += in != NULL;
            }
        CHECK(papers > 8 && names > 40 && files > 14, "%s: %d, %d, %d",
              BOOK.chapters[c], papers, names, files);
        free(text);
    }
}

/* The cells of a table's row; "\\|" does not divide cells. */
static int cells_of(const char *row) {
    int n = -1;
    for (const char *at = row; *at && *at != '\n'; at++)
        n += *at == '|' && (at == row || at[-1] != '\\');
    return n;
}

/* Every row of a table has as many cells as the row before it. */
static void tables_are_even(void) {
    static const char *const pages[] = {
        "docs/norms.md",         "docs/norms.zh.md", "docs/experiment.md",
        "docs/experiment.zh.md", "docs/profile.md",  "docs/profile.zh.md"};
    int rows = 0;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char *text = chapter_text(pages[i]);
        CHECK(text, "%s does not open", pages[i]);
        for (const char *at = text; (at = strstr(at, "\n| ")); at++, rows++) {
            const char *next = strchr(at + 1, '\n');
            if (next && next[1] == '|')
                CHECK(cells_of(at + 1) == cells_of(next + 1),
                      "%s: %d cells after %d: %.40s", pages[i],
                      cells_of(next + 1), cells_of(at + 1), next + 1);
        }
        free(text);
    }
    CHECK(rows > 300, "%d rows", rows);
}

/* README's rows of measurements are rows of docs/performance.md, too. */
static void readme_measurements_match_the_pages(void) {
    size_t size;
    char *readme = file_read("README.md", &size), row[1024];
    char *page = chapter_text("docs/performance.md");
    const char *at = readme ? strstr(readme, "\n## How fast?\n") : NULL,
               *end = at ? strstr(at + 1, "\n## ") : NULL;
    int rows = 0;
    CHECK(page && end, "README.md has no section on speed");
    while ((at = strstr(at, "\n| ")) && at < end) {
        const char *after = strchr(at + 1, '\n');
        snprintf(row, sizeof row, "%.*s\n", (int)(after - at), at);
        at = after;
        CHECK(strstr(page, row), "docs/performance.md has no row%s", row);
        rows++;
    }
    CHECK(rows == 7, "README.md has %d rows of speed", rows);
    free(page);
    free(readme);
}

void suite_textbook(void) {
    book_test(&BOOK);
    TEST(the_opening_holds);
    TEST(twins_of_the_experiment);
    TEST(the_experiment_adds_up);
    TEST(steps_with_norms_take_longer);
    TEST(the_experiment_matches_its_files);
    TEST(qk_norm_tolerates_a_larger_rate);
    TEST(without_warm_up_the_order_depends_on_the_rate);
    TEST(the_factor_levels_the_places);
    TEST(addresses_and_names_are_correct);
    TEST(tables_are_even);
    TEST(readme_measurements_match_the_pages);
}
