/* test_stories.c: the published 260K checkpoint, if available.
 *
 * Compares with llama2.c's texts and with float64 logits;
 * tests/golden/README.md explains how both were made.
 */
#include "base/file.h"
#include "formats/open.h"
#include "kv_cache.h"
#include "model.h"
#include "session.h"

#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char model[PATH_MAX], tokenizer[PATH_MAX];

/* Whether the checkpoint and its tokenizer are available; skips the test if
 * not. */
static bool have_checkpoint(void) {
    const char *path = real_checkpoint("stories260K.bin");
    if (path)
        strcpy(model, path);
    const char *found = path ? real_checkpoint("tok512.bin") : NULL;
    if (found)
        strcpy(tokenizer, found);
    if (!found)
        test_skip(NO_CHECKPOINTS);
    return found != NULL;
}

static char *read_golden(const char *name) {
    char path[64];
    size_t size;
    snprintf(path, sizeof path, "tests/golden/%s", name);
    return file_read(path, &size);
}

/* The output of the program with these options; NULL if it fails. */
static const char *story(const char *options) {
    static char text[1 << 16], command[3 * PATH_MAX];
    const char *binary = getenv("NORMA_RUN");
    snprintf(command, sizeof command, "'%s' '%s' -z '%s' %s 2>/dev/null",
             binary ? binary : "./run", model, tokenizer, options);
    FILE *in = popen(command, "r");
    size_t n = in ? fread(text, 1, sizeof text - 1, in) : 0;
    text[n] = '\0';
    return in && pclose(in) == 0 ? text : NULL;
}

static void greedy_text_matches_llama2_c(void) {
    if (!have_checkpoint())
        return;
    char *expected = read_golden("stories260K_greedy.txt");
    CHECK(expected, "no golden text");
    const char *text = story("-t 0 -n 256 -i 'Once upon a time'");
    CHECK(text && !strcmp(text, expected), "'%s', expected '%s'",
          text ? text : "(failed)", expected);
    free(expected);
}

/* The file has "=== SEED PROMPT" before each text. */
static void sampled_texts_match_llama2_c(void) {
    if (!have_checkpoint())
        return;
    char *golden = read_golden("stories260K_seeds.txt");
    CHECK(golden, "no golden texts");
    int n_stories = 0;
    for (char *s = golden, *next; s && *s; s = next, n_stories++) {
        char *expected = strchr(s, '\n') + 1, *prompt;
        long seed = strtol(s + 4, &prompt, 10);
        expected[-1] = '\0';
        next = strstr(expected, "\n=== ");
        if (next)
            *++next = '\0'; /* the text keeps its newline */
        char options[256];
        snprintf(options, sizeof options, "-t 1.0 -p 0.9 -n 256 -s %ld -i '%s'",
                 seed, prompt + 1);
        const char *text = story(options);
        CHECK(text && !strcmp(text, expected), "seed %ld: '%s', expected '%s'",
              seed, text ? text : "(failed)", expected);
        if (next)
            *next = '=';
        if (test_fast() && n_stories == 1)
            break;
    }
    CHECK(n_stories >= 14 || test_fast(), "%d stories", n_stories);
    free(golden);
}

/* The largest error that stock float32 code makes (tests/golden/stock.txt). */
static double stock_error(const char *name) {
    char *text = read_golden("stock.txt"),
         *line = text ? strstr(text, name) : NULL;
    double error = line ? strtod(line + strlen(name), NULL) : 0;
    free(text);
    return error;
}

static void logits_have_float32_accuracy(void) {
    if (!have_checkpoint())
        return;
    int tokens[256], n = 0;
    char *list = read_golden("stories260K.tokens");
    CHECK(list, "no tokens");
    for (char *s = list; *s >= '0' && *s <= '9'; s += *s == ',')
        tokens[n++] = (int)strtol(s, &s, 10);
    float *golden = (void *)read_golden("stories260K.f32");
    CHECK(golden && n > 40, "no golden logits, or %d tokens", n);
    Model m;
    Session session;
    CHECK(model_open(&m, model) == 0, "does not open");
    CHECK(session_open(&session, &m, 2, n, 0, KV_F32) == 0, "no session");
    const float *logits = model_forward_text(&session, tokens, n, 0, n);
    double error = 0, largest = 0;
    for (int i = 0; i < n * m.config.vocab_size; i++) {
        error = fmax(error, fabs((double)logits[i] - (double)golden[i]));
        largest = fmax(largest, fabs((double)golden[i]));
    }
    CHECK(error <= 2e-5 * largest, "error %g, largest logit %g", error,
          largest);
    CHECK(error <= stock_error("stories260K"), "error %g, stock %g", error,
          stock_error("stories260K"));
    session_close(&session);
    model_close(&m);
    free(golden);
    free(list);
}

void suite_stories(void) {
    TEST(greedy_text_matches_llama2_c);
    TEST(sampled_texts_match_llama2_c);
    TEST(logits_have_float32_accuracy);
}
