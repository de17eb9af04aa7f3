/* test_saved.c: the charts of --profile (lab/chart.c), and runs that it has
 * saved: reading files, good and damaged, and comparing them (lab/saved.c,
 * lab/compare.c).
 */
#include "base/utf8.h"
#include "lab/chart.h"
#include "lab/saved.h"
#include "text/stream.h"

#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines of a text, and of each line the characters. */
enum { MAX_LINES = 64, MAX_COLUMNS = 200 };
static uint32_t lines[MAX_LINES][MAX_COLUMNS + 1];
static int n_lines, columns_of[MAX_LINES];

/* Splits a text into lines. Returns false if it is no UTF-8, or too long, or a
 * line ends with a space, or the last line has no end. */
static bool split_lines(const char *text) {
    const size_t size = strlen(text);
    n_lines = 0;
    memset(lines, 0, sizeof lines);
    memset(columns_of, 0, sizeof columns_of);
    if (!size || text[size - 1] != '\n')
        return false;
    for (size_t left = size, n; left > 0; text += n, left -= n) {
        uint32_t code = utf8_read(text, left, &n);
        if (n_lines == MAX_LINES || code >= UTF8_END)
            return false;
        int *columns = &columns_of[n_lines];
        if (code == '\n') {
            if (*columns && lines[n_lines][*columns - 1] == ' ')
                return false;
            n_lines++;
            continue;
        }
        if (*columns == MAX_COLUMNS)
            return false;
        lines[n_lines][(*columns)++] = code;
    }
    return true;
}

/* ---- charts ------------------------------------------------------------- */

enum { LABEL = 17, WIDEST = 6, NORM_LINES = 3, REST_LINES = 2, LAYERS = 300 };

static uint32_t random_state = 1;

static double random_number(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) * 0x1p-24;
}

/* The height of the bar at a column, in eighths of a line; -1: other
 * characters, or a gap. */
static int height_at(int first_line, int n, int column, bool blocks) {
    int height = 0;
    bool ended = false;
    for (int line = first_line + n - 1; line >= first_line; line--) {
        uint32_t c = column < columns_of[line] ? lines[line][column] : ' ';
        int part = c == ' '                               ? 0
                   : blocks && c >= 0x2581 && c <= 0x2588 ? (int)c - 0x2580
                   : !blocks && c == '#'                  ? 8
                                                          : -1;
        if (part < 0 || (ended && part > 0))
            return -1;
        ended |= part < 8;
        height += part;
    }
    return height;
}

/* Each bar has its height, to half a step, and is not empty unless its value is
 * 0. */
static void check_bars(int first_line, int n_bar_lines, const double *values,
                       int n, int width, bool blocks) {
    double max = 0, step = blocks ? 1 : 8;
    for (int i = 0; i < n; i++)
        max = fmax(max, values[i]);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < width; c++) {
            int height = height_at(first_line, n_bar_lines,
                                   LABEL + i * width + c, blocks);
            double expected = max > 0 ? 8 * n_bar_lines * values[i] / max : 0;
            bool gap = width > 1 && c == width - 1;
            if (gap) {
                CHECK(height == 0, "no gap after bar %d", i);
                continue;
            }
            CHECK(height >= 0 && (height > 0) == (values[i] > 0),
                  "bar %d of %d: height %d, value %g", i, n, height, values[i]);
            CHECK(fabs(height - expected) <= 0.5 * step + 1e-9 ||
                      (expected < step && height == (int)step),
                  "bar %d of %d: height %d, expected %g", i, n, height,
                  expected);
        }
}

/* The numbers of the last line stand under the bars of their layers. */
static void check_axis(int line, int width, int layers_of_bar) {
    int numbers = 0;
    for (int c = LABEL; c < columns_of[line]; c++) {
        int number = 0, from = c;
        for (; lines[line][c] >= '0' && lines[line][c] <= '9'; c++)
            number = 10 * number + (int)lines[line][c] - '0';
        if (c == from)
            continue;
        CHECK((from - LABEL) % width == 0 &&
                  (from - LABEL) / width * layers_of_bar == number,
              "%d is under another bar", number);
        numbers++;
    }
    CHECK(numbers > 0, "no numbers of layers");
}

static void draw(int n, int columns, bool blocks, const double *norms,
                 const double *rest) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    write_chart(out, (LayerTimes){n, norms, rest}, columns, blocks);
    fclose(out);
    int room = columns < CHART_MIN_COLUMNS ? CHART_MIN_COLUMNS : columns;
    bool whole = split_lines(text);
    bool ascii = true;
    for (const char *c = text; *c; c++)
        ascii &= !(*c & 0x80);
    CHECK(whole && n_lines == CHART_LINES, "%d lines: %s", n_lines, text);
    CHECK(blocks || ascii, "not ASCII: %s", text);
    for (int i = 0; i < n_lines; i++)
        CHECK(columns_of[i] <= room, "%d columns of %d: %s", columns_of[i],
              room, text);
    free(text);
    int layers = (n + room - LABEL - 1) / (room - LABEL),
        width = (room - LABEL) / ((n + layers - 1) / layers);
    width = width < WIDEST ? width : WIDEST;
    if (layers == 1) {
        check_bars(0, NORM_LINES, norms, n, width, blocks);
        check_bars(NORM_LINES, REST_LINES, rest, n, width, blocks);
    }
    check_axis(CHART_LINES - 1, width, layers);
}

static void charts_fit_and_have_the_heights(void) {
    static double norms[LAYERS], rest[LAYERS];
    static const int columns[] = {20, 40, 41, 57, 79, 80, 132};
    for (int n = 1; n <= LAYERS; n = n < 66 ? n + 1 : n + 39)
        for (int c = 0; c < 7; c++)
            for (int blocks = 0; blocks < 2; blocks++) {
                double scale = pow(10, 16 * random_number() - 4);
                for (int i = 0; i < n; i++) {
                    norms[i] =
                        scale * (random_number() < 0.1   ? 0
                                 : random_number() < 0.1 ? 1e-6
                                                         : random_number());
                    rest[i] = n % 7 ? scale * (1 + 0.1 * random_number()) : 0;
                }
                draw(n, columns[c], blocks, norms, rest);
            }
}

static void the_largest_bar_is_labelled(void) {
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    write_chart(out,
                (LayerTimes){4, (const double[]){0.25, 0.5, 1, 0},
                             (const double[]){1, 1, 2345, 4690}},
                80, false);
    fclose(out);
    CHECK(!strcmp(text, "norms       1 us             #####\n"
                        "                       ##### #####\n"
                        "                 ##### ##### #####\n"
                        "rest     4690 us                   #####\n"
                        "                 ##### ##### ##### #####\n"
                        "layer            0     1     2     3\n"),
          "%s", text);
}

/* The words stay, lines are as long as they may be. */
static void lines_wrap_at_spaces(void) {
    for (int i = 0; i < 500; i++) {
        char text[400] = "", joined[400] = "", *wrapped = NULL;
        size_t size;
        int columns = 10 + (int)(70 * random_number());
        for (int words = 1 + (int)(20 * random_number()); words > 0; words--) {
            for (int n = 1 + (int)(14 * random_number()); n > 0; n--)
                strcat(text, "x");
            strcat(text, words > 1 ? " " : "");
        }
        FILE *out = open_memstream(&wrapped, &size);
        write_words(out, text, 0, columns);
        fclose(out);
        CHECK(split_lines(wrapped), "%s", wrapped);
        for (int line = 0; line < n_lines; line++) {
            int first_word = 0;
            for (int c = 0; c < columns_of[line]; c++)
                strncat(joined, (const char[]){(char)lines[line][c]}, 1);
            while (line + 1 < n_lines && lines[line + 1][first_word] == 'x')
                first_word++;
            bool one_word = !memchr(joined + strlen(joined) - columns_of[line],
                                    ' ', columns_of[line]);
            CHECK(columns_of[line] <= columns || one_word, "%d columns: %s",
                  columns, wrapped);
            CHECK(line + 1 == n_lines ||
                      columns_of[line] + 1 + first_word > columns,
                  "%d columns, the next word fits: %s", columns, wrapped);
            strcat(joined, line + 1 < n_lines ? " " : "");
        }
        CHECK(!strcmp(joined, text), "%s became %s", text, wrapped);
        free(wrapped);
    }
}

/* ---- saved runs --------------------------------------------------------- */

#define SUMS                                                                   \
    "{\"of\": \"all norms\", \"us_per_token\": 2, \"error\": 0.1}, "           \
    "{\"of\": \"other work\", \"us_per_token\": 98, \"error\": null}, "        \
    "{\"of\": \"all work\", \"us_per_token\": 100, \"error\": 1}, "            \
    "{\"of\": \"time of a token\", \"us_per_token\": 120, \"error\": 1}"
#define NORM_TOTAL "{\"of\": \"mlp_norm\", \"us_per_token\": 2, \"error\": 0.1}"
#define RUN(model, norm)                                                       \
    "\"run\": {\"model\": \"" model "\", \"norm\": " norm                      \
    ", \"threads\": 2, \"layers\": 30, \"dim\": 576, \"load\": \"idle\"}"
#define PHASE(name)                                                            \
    "{\"name\": \"" name "\", \"passes\": 9, \"rows\": [], \"totals\": [" SUMS \
    ", " NORM_TOTAL "]}"
#define SAVED(model, norm, phases)                                             \
    "{\"profile\": 1, " RUN(model, norm) ", \"phases\": [" phases "]}"

static int parse(SavedProfile *saved, const char *text) {
    stderr_hide();
    int status = saved_parse(saved, "x.json", text, strlen(text));
    int n = stderr_show();
    return status ? n == 1 ? -1 : -2 : 0;
}

static void a_saved_run(void) {
    SavedProfile saved;
    CHECK(!parse(&saved, SAVED("m", "null", PHASE("decode"))), "%s",
          stderr_text());
    const PhaseTimes *times = &saved.phases[DECODE];
    const Time *totals = times->totals;
    CHECK(times->passes == 9 && saved.phases[PREFILL].passes == 0 &&
              totals[SITE_MLP_NORM].given && totals[SITE_MLP_NORM].us == 2 &&
              totals[SITE_MLP_NORM].error == 0.1 &&
              !totals[SITE_ATTN_NORM].given &&
              isnan(totals[TOTAL_OTHERS].error) &&
              totals[TOTAL_TIME].us == 120 && saved.layers == 30 &&
              saved.dim == 576,
          "other figures");
    saved_close(&saved);
    CHECK(!saved.json.values && !saved.run, "not closed");
}

/* Each says in one line what is wrong. */
static void damaged_files_are_refused(void) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "x.json: byte 1: "},
        {"[]", "x.json: is not a file that --profile=FILE.json writes"},
        {"{\"profile\": true}", "x.json: is not a file that"},
        {"{\"profile\": 1, \"profile\": 1}", "x.json: is not a file that"},
        {"{\"profile\": 2}",
         "x.json: is a profile of version 2, expected 1; measure again"},
        {"{\"profile\": 1}", "layers is 'missing', expected a whole number"},
        {"{\"profile\": 1, \"run\": {\"layers\": 0}}",
         "layers is '0', expected"},
        {"{\"profile\": 1, \"run\": {\"layers\": 1, \"dim\": 1e3}}",
         "dim is '1e3', expected"},
        {SAVED("m", "null", ""), "x.json: has no phases"},
        {SAVED("m", "null", PHASE("encode")),
         "a phase is called 'encode', expected decode or prefill"},
        {SAVED("m", "null", "3"), "a phase is called 'missing'"},
        {SAVED("m", "null", PHASE("decode") ", " PHASE("decode")),
         "the phase decode is there twice"},
        {SAVED("m", "null", "{\"name\": \"decode\", \"passes\": 0}"),
         "passes of decode is '0', expected a number from 1 up"},
        {SAVED("m", "null", "{\"name\": \"decode\", \"passes\": 1}"),
         "totals of decode lack 'all norms'"},
#define WITH(total)                                                            \
    SAVED("m", "null",                                                         \
          "{\"name\": \"decode\", \"passes\": 1, \"totals\": [" total "]}")
        {WITH("{\"of\": \"mlp\"}"),
         "totals of decode: of is 'mlp', expected a kind of site"},
        {WITH("7"), "totals of decode: of is 'missing'"},
        {WITH(NORM_TOTAL ", " NORM_TOTAL), "'mlp_norm' is there twice"},
        {WITH("{\"of\": \"qkv\", \"us_per_token\": -1}"),
         "qkv of decode: us_per_token is '-1', expected a number from 0 up"},
        {WITH("{\"of\": \"qkv\", \"us_per_token\": NaN}"),
         "us_per_token is 'NaN'"},
        {WITH("{\"of\": \"qkv\", \"us_per_token\": 1e999}"),
         "us_per_token is '1e999'"},
        {WITH("{\"of\": \"qkv\", \"us_per_token\": \"1\"}"),
         "us_per_token is '1', expected a number"},
        {WITH("{\"of\": \"qkv\", \"us_per_token\": 1, \"error\": -2}"),
         "qkv of decode: error is '-2', expected a number from 0 up, or null"},
        {WITH("{\"of\": \"qkv\", \"us_per_token\": 1, \"error\": [0]}"),
         "error is 'a list'"},
        {WITH(SUMS) "x", "text after the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SavedProfile saved;
        CHECK(parse(&saved, cases[i].text) == -1, "case %zu: %s", i,
              stderr_text());
        CHECK(strstr(stderr_text(), cases[i].message), "case %zu: %s", i,
              stderr_text());
    }
}

/* Cut or changed anywhere: refused in one line, or read with figures that can
 * be compared. */
static void any_damage_is_survived(void) {
    static const char whole[] =
        SAVED("m", "\"layer\"", PHASE("decode") ", " PHASE("prefill"));
    static const char others[] = "0\"{}[],:-e9x\\\x80";
    SavedProfile before;
    CHECK(!parse(&before, whole), "%s", stderr_text());
    for (size_t at = 0; at < sizeof whole - 1; at++)
        for (size_t i = 0; i < sizeof others; i++) {
            char text[sizeof whole];
            SavedProfile saved;
            memcpy(text, whole, sizeof whole);
            text[at] = others[i];
            int status = parse(&saved, text);
            CHECK(status != -2, "byte %zu is '%c': %s", at, others[i],
                  stderr_text());
            if (status)
                continue;
            for (int total = 0; total < N_TOTALS; total++)
                for (Phase phase = 0; phase < N_PHASES; phase++) {
                    Time time = saved.phases[phase].totals[total];
                    CHECK(time.us >= 0 && isfinite(time.us) &&
                              !(time.error < 0),
                          "byte %zu is '%c': %g", at, others[i], time.us);
                }
            FILE *out = fopen("/dev/null", "w");
            stderr_hide();
            write_comparison(out, &before, &saved, true);
            stderr_show();
            fclose(out);
            saved_close(&saved);
        }
    saved_close(&before);
}

/* ---- comparing ---------------------------------------------------------- */

/* The comparison of two saved runs; valid until the next call. */
static const char *compare(const char *was, const char *is, bool all) {
    static char *text;
    size_t size;
    SavedProfile before, after;
    free(text);
    text = NULL;
    if (parse(&before, was) || parse(&after, is))
        return stderr_text();
    FILE *out = open_memstream(&text, &size);
    stderr_hide();
    write_comparison(out, &before, &after, all);
    stderr_show();
    fclose(out);
    saved_close(&before);
    saved_close(&after);
    return text;
}

/* The ratio 1.5 of 2 +- 0.1 and 3 +- 0.1 is 1.333 to 1.687. */
static void times_are_compared(void) {
    static const char before[] =
        SAVED("m", "null", PHASE("decode") ", " PHASE("prefill"));
    static const char after[] =
        SAVED("m", "\"mlp=layer\"",
              "{\"name\": \"decode\", \"passes\": 9, \"totals\": [" SUMS
              ", {\"of\": \"mlp_norm\", \"us_per_token\": 3, \"error\": 0.1}"
              ", {\"of\": \"qkv\", \"us_per_token\": 4000, \"error\": 0.1}]}");
    const char *text = compare(before, after, false);
    CHECK(strstr(text, "norm      not set  ->  mlp=layer\n") &&
              !strstr(text, "model") && !strstr(text, "load") &&
              !strstr(text, "prefill"),
          "%s", text);
    CHECK(
        strstr(
            text,
            "\ndecode, us/token       before      after    ratio        95 %\n") &&
            strstr(text,
                   "\nmlp_norm                2.000      3.000    1.500    "
                   "1.333 to 1.687\n") &&
            strstr(text,
                   "\nother work             98.000     98.000    1.000        "
                   "-\n") &&
            strstr(text, "\n-: fewer than 5 passes; ") &&
            !strstr(text, "qkv") && !strstr(text, "all work"),
        "%s", text);
    text = compare(before, after, true);
    CHECK(strstr(text, "\nqkv                         -       4000\n") &&
              strstr(text, "\nall work ") && !*stderr_text(),
          "%s%s", text, stderr_text());
}

static void another_model_is_named(void) {
    const char *text =
        compare("{\"profile\": 1, \"run\": {\"model\": \"a\", \"layers\": 4, "
                "\"dim\": 192}, \"phases\": [" PHASE("decode") "]}",
                SAVED("b", "null", PHASE("decode")), false);
    CHECK(strstr(stderr_text(), "note: x.json is of another model: 4 layers of "
                                "dim 192; this one has 30 of 576\n"),
          "%s", stderr_text());
    CHECK(
        strstr(text, "model     a  ->  b\n") &&
            strstr(text, "layers    4  ->  30\n") &&
            strstr(text, "\nmlp_norm                2.000      2.000    1.000"),
        "%s", text);
}

/* Names from a file cannot control a terminal or leave its lines. */
static void hostile_names_stay_in_their_line(void) {
    const char *text = compare(
        SAVED("/a/very/long/path/of/a/folder/with/\\u001b[31m\\n\\r\\u202e/"
              "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
              "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4.gguf",
              "[1, 2]", PHASE("decode")),
        SAVED("m", "null", PHASE("decode")), true);
    CHECK(split_lines(text), "%s", text);
    for (int i = 0; i < n_lines; i++)
        for (int c = 0; c < columns_of[i]; c++)
            CHECK(columns_of[i] <= 80 && utf8_is_printable(lines[i][c]),
                  "line %d has %d columns, U+%04x", i, columns_of[i],
                  lines[i][c]);
    CHECK(strstr(text, "norm      a list  ->  not set\n"), "%s", text);
}

void suite_saved(void) {
    TEST(charts_fit_and_have_the_heights);
    TEST(the_largest_bar_is_labelled);
    TEST(lines_wrap_at_spaces);
    TEST(a_saved_run);
    TEST(damaged_files_are_refused);
    TEST(any_damage_is_survived);
    TEST(times_are_compared);
    TEST(another_model_is_named);
    TEST(hostile_names_stay_in_their_line);
}
