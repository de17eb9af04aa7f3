/* test_json.c: the JSON reader on valid, invalid and hostile texts.
 *
 * Whole documents are checked by writing the values as text again.
 */
#include "formats/json.h"

#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse(JsonFile *json, const char *text) {
    stderr_hide();
    int status = json_parse(json, "x.json", text, strlen(text));
    stderr_show();
    return status == 0;
}

/* Writes a value without white space and without escapes (no string of the
 * tests contains a quote). */
static void write_value(FILE *out, const Json *value) {
    const char *brackets = value->kind == JSON_OBJECT ? "{}" : "[]";
    if (value->kind < JSON_STRING) {
        fputs(value->text, out);
    } else if (value->kind == JSON_STRING) {
        fprintf(out, "\"%s\"", value->text);
    } else {
        fputc(brackets[0], out);
        JSON_EACH(v, value, value->kind) {
            if (v != value + 1)
                fputc(',', out);
            write_value(out, v);
            if (value->kind != JSON_OBJECT)
                continue;
            fputc(':', out);
            write_value(out, v + 1);
        }
        fputc(brackets[1], out);
    }
}

static void valid_json_is_read(void) {
    static const char *const texts[] = {
        "0",
        "-1.5e+10",
        "\"\"",
        "null",
        "[]",
        "{}",
        "[[],{},[[]],0]",
        "{\"a\":1,\"b\":{\"a\":[true,false,null]},\"\":\"\"}",
        "[-0,0.0,1E5,1e-5,12345678901234567890]",
        "[\"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82\x7f\"]",
        "{\"a\":{\"a\":{\"a\":[{\"a\":[]},{\"a\":{}}]}},\"b\":[1,2,[3,[4]],5],\"c\":6}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        JsonFile json;
        char *again = NULL;
        size_t size = 0;
        CHECK(parse(&json, texts[i]), "%s: %s", texts[i], stderr_text());
        FILE *out = open_memstream(&again, &size);
        write_value(out, json.values);
        fclose(out);
        bool same = !strcmp(again, texts[i]);
        CHECK(same, "%s became %s", texts[i], again);
        free(again);
        json_close(&json);
    }
}

/* Whether a file with this text is refused. In tests an inaccessible page
 * follows a mapped file. */
static bool is_refused_in_a_file(const char *text) {
    JsonFile json;
    const char *path = temporary("refused.json");
    FILE *out = fopen(path, "wb");
    if (!*text)
        return !fclose(out); /* an empty file is not mapped */
    fputs(text, out);
    fclose(out);
    stderr_hide();
    int status = json_open(&json, path);
    return stderr_show() == 1 && status == -1;
}

static void invalid_json_is_refused(void) {
    static const char *const texts[] = {
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{]",
        "[1]]",
        "{}{}",
        "1 2",
        ",",
        ":",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{1:1}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "{,}",
        "{\"a\":1:2}",
        "nul",
        "nulll",
        "True",
        "truefalse",
        "nan",
        "-nan",
        "infinity",
        "Na",
        "-",
        "Infinity1",
        "+Infinity",
        "undefined",
        "'a'",
        "// a\n1",
        "1 /* a */",
        "01",
        "-01",
        "+1",
        "-",
        "--1",
        ".5",
        "-.5",
        "1.",
        "1.e1",
        "1e",
        "1e+",
        "1e1.5",
        "0x10",
        "1_000",
        "00",
        "1a",
        "\"",
        "\"a",
        "\"\\",
        "\"\\\"",
        "\"\\a\"",
        "\"\\x41\"",
        "\"\\u\"",
        "\"\\u12\"",
        "\"\\u123g\"",
        "\"\\u 123\"",
        "\"\t\"",
        "\"\n\"",
        "\"\x01\"",
        "\f1",
        "\302\2401",
        "\357\273\2771",
        /* invalid UTF-8: a lone continuation byte, overlong, a surrogate,
         * beyond U+10FFFF,
         *            truncated */
        "\"\x80\"",
        "\"\xc0\x80\"",
        "\"\xe0\x80\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xff\"",
        "\"\xc3\"",
        "\"\xe4\xb8\"",
        "\"\xf0\x9f\x99\"",
        /* half of a surrogate pair */
        "\"\\ud83d\"",
        "\"\\ude42\"",
        "\"\\ud83d\\ud83d\"",
        "\"\\ud83d\\u0041\"",
        "\"\\ud83d\\ue000\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\n\"",
        "\"\\ude42\\ud83d\"",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        JsonFile json;
        stderr_hide();
        int status = json_parse(&json, "x.json", texts[i], strlen(texts[i]));
        int lines = stderr_show();
        CHECK(status == -1 && !json.values && !json.text, "%s is read",
              texts[i]);
        CHECK(lines == 1 && strstr(stderr_text(), "run: x.json: "), "%s: %s",
              texts[i], stderr_text());
        CHECK(is_refused_in_a_file(texts[i]), "%s in a file: %s", texts[i],
              stderr_text());
    }
}

/* Any bytes are written as a string of printable characters; valid UTF-8 is
 * read back unchanged. */
static void strings_are_written(void) {
    static const char text[] =
        "a\"\\/\b\f\n\r\t\0\x1f\x7f\xc2\x9b\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82\xff.\xc3";
    static const char written[] =
        "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\\u007f\\u009b\xc3\xa9\xe2\x82\xac"
        "\xf0\x9f\x99\x82\\ufffd.\\ufffd\"";
    static const char replaced[] = "\xef\xbf\xbd.\xef\xbf\xbd";
    char line[256] = "\"";
    JsonFile json;
    for (size_t i = 0, n; i < sizeof text - 1; i += n)
        strcat(line, json_escape(text + i, sizeof text - 1 - i, &n));
    strcat(line, "\"");
    CHECK(!strcmp(line, written), "%s", line);
    CHECK(!json_parse(&json, "x.json", line, strlen(line)), "not valid JSON");
    size_t same = sizeof text - 1 - 3;
    CHECK(json.values->length == same + strlen(replaced) &&
              !memcmp(json.values->text, text, same) &&
              !strcmp(json.values->text + same, replaced),
          "another text");
    json_close(&json);
}

static void a_zero_byte_is_not_the_end(void) {
    JsonFile json;
    stderr_hide();
    int status = json_parse(&json, "x.json", "1\0", 2);
    stderr_show();
    CHECK(status == -1 && strstr(stderr_text(), "byte 2: text after the end"),
          "%d: %s", status, stderr_text());
}

static void errors_have_a_position(void) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\n  \"a\": 1,\n  \"b\": tru\n}",
         "run: x.json: byte 20: expected a value\n"},
        {"[1,\n2 3]",
         "run: x.json: byte 7: expected ',' or the end of the list\n"},
        {"", "run: x.json: byte 1: expected a value\n"},
        {"\"\\u004",
         "run: x.json: byte 4: \\u without four hexadecimal digits\n"},
        {"\"\\u0041", "run: x.json: byte 8: an unterminated string\n"},
        {"\"\\ud83d\\u", "run: x.json: byte 10: half of a surrogate pair\n"},
        {"\"\\ud83d\\u\"", "run: x.json: byte 10: half of a surrogate pair\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JsonFile json;
        CHECK(!parse(&json, cases[i].text), "%s is read", cases[i].text);
        CHECK(!strcmp(stderr_text(), cases[i].message), "%s: %s", cases[i].text,
              stderr_text());
    }
}

/* An escape ends with the text, although more digits follow in memory. */
static void escapes_at_the_end(void) {
    static const char text[] = "\"\\u0041414141\"";
    for (size_t size = 1; size < 9; size++) {
        JsonFile json;
        char message[96];
        snprintf(message, sizeof message, "run: x.json: byte %zu: %s\n",
                 size < 3   ? size + 1
                 : size < 7 ? 4
                            : size + 1,
                 size == 2              ? "an invalid escape"
                 : size > 2 && size < 7 ? "\\u without four hexadecimal digits"
                                        : "an unterminated string");
        stderr_hide();
        int status = json_parse(&json, "x.json", text, size);
        stderr_show();
        CHECK(status == -1, "%zu bytes are read", size);
        CHECK(!strcmp(stderr_text(), message), "%zu bytes: %s, expected: %s",
              size, stderr_text(), message);
    }
}

static void escapes_are_decoded(void) {
    static const struct {
        const char *text, *expected;
        uint32_t length;
    } cases[] = {
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u0041\\u007f\\u00e9\\u07FF\"", "A\x7f\xc3\xa9\xdf\xbf", 6},
        {"\"\\u0800\\u4E2d\\uffff\"", "\xe0\xa0\x80\xe4\xb8\xad\xef\xbf\xbf",
         9},
        {"\"\\ud83d\\ude42\"", "\xf0\x9f\x99\x82", 4},
        {"\"\\ud800\\udc00\\uDBFF\\uDFFF\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
         8},
        {"\"a\\u0000b\"", "a\0b", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JsonFile json;
        CHECK(parse(&json, cases[i].text), "%s: %s", cases[i].text,
              stderr_text());
        const Json *s = json.values;
        CHECK(s->kind == JSON_STRING && s->length == cases[i].length,
              "%s: %u bytes", cases[i].text, s->length);
        CHECK(!memcmp(s->text, cases[i].expected, s->length + 1),
              "%s became %s", cases[i].text, s->text);
        json_close(&json);
    }
}

static void values_are_found_by_key(void) {
    static const char text[] =
        "{ \"a\": {\"x\": [1, {\"b\": 0}], \"y\": \"a\\u0000\"}, \"b\" : [ ], \"c\":\"a\" }";
    JsonFile json;
    CHECK(parse(&json, text), "%s", stderr_text());
    const Json *root = json.values, *a = json_get(root, "a"),
               *x = json_get(a, "x");
    CHECK(root->length == 3 && root[1].next == root + 11,
          "%u members, the second is value %td", root->length,
          root[1].next - root);
    CHECK(a && a->length == 2 && x && x->length == 2, "a.x is not found");
    CHECK(json_get(root, "b") && !json_members(json_get(root, "b"), JSON_ARRAY),
          "b is not empty");
    CHECK(json_is(json_get(root, "c"), "a") && !json_is(json_get(a, "y"), "a"),
          "strings compare wrongly");
    CHECK(!json_get(root, "x") && !json_get(x, "b") && !json_get(NULL, "a"),
          "found a missing value");
    CHECK(json_members(x, JSON_ARRAY) == x + 1 && !json_members(x, JSON_OBJECT),
          "the members of a.x");
    CHECK(!json_members(json_get(root, "c"), JSON_ARRAY) &&
              !json_members(NULL, JSON_ARRAY),
          "members of a value that is not a list");
    CHECK(!strcmp(json_shown(x), "a list") &&
              !strcmp(json_shown(NULL), "missing"),
          "%s", json_shown(x));
    json_close(&json);
}

static void kinds_of_values(void) {
    static const struct {
        const char *text;
        JsonKind kind;
        bool is_true, is_null;
    } cases[] = {
        {"null", JSON_NULL, false, true},
        {"true", JSON_BOOL, true, false},
        {"false", JSON_BOOL, false, false},
        {"1", JSON_NUMBER, false, false},
        {"\"true\"", JSON_STRING, false, false},
        {"[]", JSON_ARRAY, false, false},
        {"{}", JSON_OBJECT, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JsonFile json;
        CHECK(parse(&json, cases[i].text), "%s: %s", cases[i].text,
              stderr_text());
        for (JsonKind kind = JSON_NULL; kind <= JSON_OBJECT; kind++)
            CHECK(json_has_kind(json.values, kind) == (kind == cases[i].kind),
                  "%s: kind %d?", cases[i].text, kind);
        CHECK(json_true(json.values) == cases[i].is_true, "%s: true?",
              cases[i].text);
        CHECK(json_null(json.values) == cases[i].is_null, "%s: null?",
              cases[i].text);
        json_close(&json);
    }
    CHECK(json_null(NULL) && !json_true(NULL) &&
              !json_has_kind(NULL, JSON_NULL),
          "the missing value");
}

static void integers_and_reals(void) {
    static const struct {
        const char *text;
        bool is_integer, is_real;
        int64_t integer;
        double real;
    } cases[] = {
        {"0", true, true, 0, 0},
        {"-12", true, true, -12, -12},
        {"9223372036854775807", true, true, INT64_MAX, 9223372036854775807.0},
        {"9223372036854775808", false, true, 0, 9223372036854775808.0},
        {"1.0", false, true, 0, 1},
        {"1e-05", false, true, 0, 1e-5},
        {"0.1", false, true, 0, 0.1},
        {"1e999", false, false, 0, 0},
        {"\"1\"", false, false, 0, 0},
        {"true", false, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JsonFile json;
        int64_t integer = 0;
        double real = 0;
        CHECK(parse(&json, cases[i].text), "%s: %s", cases[i].text,
              stderr_text());
        CHECK(json_integer(json.values, &integer) == cases[i].is_integer,
              "%s: integer?", cases[i].text);
        CHECK(json_real(json.values, &real) == cases[i].is_real, "%s: number?",
              cases[i].text);
        CHECK(integer == cases[i].integer && real == cases[i].real,
              "%s: %lld, %g", cases[i].text, (long long)integer, real);
        json_close(&json);
    }
}

/* n times `open`, then `middle`, then n times `close`. */
static char *nested(size_t n, const char *open, const char *middle,
                    const char *close) {
    size_t a = strlen(open), b = strlen(middle), c = strlen(close);
    char *text = malloc(n * (a + c) + b + 1), *to = text;
    if (!text)
        return NULL;
    for (size_t i = 0; i < n; i++, to += a)
        memcpy(to, open, a);
    memcpy(to, middle, b);
    to += b;
    for (size_t i = 0; i < n; i++, to += c)
        memcpy(to, close, c);
    *to = '\0';
    return text;
}

static void depth_has_a_limit(void) {
    static const char *const brackets[][3] = {
        {"[", "", "]"}, {"{\"a\":", "0", "}"}, {"[{\"a\":[0,", "{}", "]}]"}};
    static const int levels[] = {1, 1, 3};
    for (int i = 0; i < 3; i++) {
        size_t fits =
            (size_t)((i == 2 ? JSON_DEPTH - 1 : JSON_DEPTH) / levels[i]);
        for (int k = 0; k < 3; k++) {
            size_t n = k < 2 ? fits + (size_t)k : 1000000;
            char *text =
                nested(n, brackets[i][0], brackets[i][1], brackets[i][2]);
            JsonFile json;
            bool read = parse(&json, text);
            CHECK(read == (k == 0), "%zu times %s: %s", n, brackets[i][0],
                  stderr_text());
            if (read)
                json_close(&json);
            free(text);
        }
    }
}

/* A text beyond the limit is refused before a byte of it is read. */
static void size_has_a_limit(void) {
    JsonFile json;
    stderr_hide();
    int status = json_parse(&json, "x", "[", (size_t)JSON_BYTES + 1);
    CHECK(stderr_show() == 1 && status == -1 &&
              strstr(stderr_text(), "x: 1073741825 bytes of JSON"),
          "status %d: %s", status, stderr_text());
    json_close(&json);
}

/* A vocabulary as in tokenizer.json. */
static char *vocabulary(int n) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fputc('{', out);
    for (int i = 0; i < n; i++)
        fprintf(out, "%s\"k%d\": %d", i ? ",\n" : "", i, i);
    fputc('}', out);
    fclose(out);
    return text;
}

static void large_objects_are_read(void) {
    int n = test_fast() ? 2000 : 150000;
    char *text = vocabulary(n);
    JsonFile json;
    CHECK(parse(&json, text), "%s", stderr_text());
    int i = 0;
    for (const Json *key = json_members(json.values, JSON_OBJECT); key;
         key = key->next, i++) {
        char name[16];
        int64_t id = -1;
        snprintf(name, sizeof name, "k%d", i);
        CHECK(json_is(key, name) && json_integer(key + 1, &id) && id == i,
              "member %d is %s: %s", i, key->text, key[1].text);
    }
    CHECK(i == n, "%d members", i);
    json_close(&json);
    free(text);
}

/* A key is judged by who reads it: one that stands twice has a value of no
 * expected kind. NaN and Infinity are numbers that no reader of numbers
 * accepts. */
static void unread_values_are_not_judged(void) {
    static const char text[] =
        "{\"a\": 1, \"b\": NaN, \"\\u0061\": 1, \"c\": -Infinity, \"d\": Infinity, \"e\": 2}";
    JsonFile json;
    double real = 7;
    int64_t integer = 7;
    CHECK(parse(&json, text), "%s", stderr_text());
    const Json *twice = json_get(json.values, "a");
    CHECK(!strcmp(json_shown(twice), "given twice") && !json_null(twice) &&
              !json_integer(twice, &integer) &&
              !json_members(twice, JSON_ARRAY),
          "%s", json_shown(twice));
    for (const char *key = "b\0c\0d\0"; *key; key += 2) {
        const Json *v = json_get(json.values, key);
        CHECK(json_has_kind(v, JSON_NUMBER) && !json_real(v, &real) &&
                  !json_integer(v, &integer),
              "%s: %s", key, json_shown(v));
    }
    CHECK(json_integer(json_get(json.values, "e"), &integer) && integer == 2 &&
              real == 7,
          "%d", (int)integer);
    json_close(&json);
}

/* Memory is allocated by the number of values, not by the size: a string takes
 * little more than its length. */
static void memory_is_proportional_to_values_and_text(void) {
    enum { SIZE = 1 << 20 };
    static const struct {
        const char *unit;
        size_t values; /* max values in SIZE bytes of units */
    } cases[] = {{"a", 1},
                 {"[", SIZE + 1},
                 {"\"a", SIZE / 2 + 1},
                 {"abcdefgh[0,]:{}", SIZE / 15 * 5 + 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JsonFile json;
        char *text = malloc(SIZE + 3);
        size_t size = strlen(cases[i].unit);
        CHECK(text, "no memory");
        for (size_t at = 0; at < SIZE; at++)
            text[at + 1] = cases[i].unit[at % size];
        text[0] = '"';
        for (size_t at = 1; at <= SIZE; at++)
            text[at] = text[at] == '"' ? '\'' : text[at];
        memcpy(text + SIZE + 1, "\"", 2);
        CHECK(parse(&json, text) && json.values->length == SIZE, "case %zu: %s",
              i, stderr_text());
        size_t max = cases[i].values, spare = 4 << 20; /* huge pages */
        size_t values = malloc_usable_size(json.values),
               texts = malloc_usable_size(json.text);
        CHECK(values >= sizeof(Json), "case %zu: %zu bytes", i, values);
        CHECK(values <= max * sizeof(Json) + 4096 + (max > 1000 ? spare : 0),
              "case %zu: %zu bytes", i, values);
        CHECK(texts >= SIZE + 1 && texts <= SIZE + 2 * 4096 /* whole pages */,
              "case %zu: %zu bytes", i, texts);
        json_close(&json);
        free(text);
    }
}

/* No byte after the end of a text is read: with these bytes the cases would be
 * valid. */
static void no_byte_after_a_text_is_read(void) {
    static const struct {
        const char *text;
        size_t size;
        const char *message;
    } cases[] = {
        {"\"\\u1234\"", 6, "byte 4: \\u without four hexadecimal digits"},
        {"\"\\u1234\"", 7, "byte 8: an unterminated string"},
        {"\"\\ud83d\\ude42\"", 8, "byte 8: half of a surrogate pair"},
        {"\"\\ud83d\\ude42\"", 9, "half of a surrogate pair"},
        {"\"\\ud83d\\ude42\"", 12, "half of a surrogate pair"},
        {"\"\\n\"", 2, "an invalid escape"},
        {"\"\xc3\xa9\"", 2, "invalid UTF-8"},
        {"true", 3, "expected a value"},
        {"-1", 1, "expected a value"},
        {"1.5", 2, "expected a value"},
        {"1e5", 2, "expected a value"},
        {"{\"a\":1}", 4, "expected ':'"},
        {"[1]", 2, "expected ',' or the end of the list"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JsonFile json;
        stderr_hide();
        int status = json_parse(&json, "x.json", cases[i].text, cases[i].size);
        stderr_show();
        CHECK(status == -1 && strstr(stderr_text(), cases[i].message),
              "%.*s: %s", (int)cases[i].size, cases[i].text, stderr_text());
    }
}

static void files_are_read(void) {
    JsonFile json;
    FILE *out = fopen(temporary("x.json"), "wb");
    fputs(" {\"a\" : [1]}\n", out);
    fclose(out);
    CHECK(!json_open(&json, temporary("x.json")), "does not open");
    CHECK(json_get(json.values, "a"), "no a");
    json_close(&json);
    stderr_hide();
    int status = json_open(&json, temporary("none.json"));
    CHECK(stderr_show() == 1 && status == -1, "a missing file: %s",
          stderr_text());
}

/* A file that changes after its text was copied, before the second
 * allocation. */
static char changing[4096];
static int n_allocations;

static void put_commas(void) {
    for (int i = 2; n_allocations == 1 && changing[i] != ']'; i += 2)
        changing[i] = ',';
    n_allocations++;
}

static void changes_of_a_file_are_not_read(void) {
    JsonFile json;
    int n = (int)sizeof changing - 1;
    memset(changing, '1', sizeof changing);
    for (int i = 2; i < n; i += 2)
        changing[i] = ' ';
    changing[0] = '[';
    changing[n - 1] = ']';
    changing[n] = '\0';
    before_allocation = put_commas;
    stderr_hide();
    int status = json_parse(&json, "x.json", changing, (size_t)n);
    before_allocation = NULL;
    CHECK(stderr_show() == 1 && strstr(stderr_text(), "byte 4: expected ','"),
          "stderr: %s", stderr_text());
    CHECK(status == -1, "read");
    CHECK(!json_parse(&json, "x.json", changing, (size_t)n), "refused");
    CHECK(json.values->length == 2047, "%u values", json.values->length);
    json_close(&json);
}

void suite_json(void) {
    TEST(valid_json_is_read);
    TEST(invalid_json_is_refused);
    TEST(strings_are_written);
    TEST(a_zero_byte_is_not_the_end);
    TEST(errors_have_a_position);
    TEST(escapes_at_the_end);
    TEST(escapes_are_decoded);
    TEST(values_are_found_by_key);
    TEST(kinds_of_values);
    TEST(integers_and_reals);
    TEST(depth_has_a_limit);
    TEST(size_has_a_limit);
    TEST(large_objects_are_read);
    TEST(unread_values_are_not_judged);
    TEST(memory_is_proportional_to_values_and_text);
    TEST(no_byte_after_a_text_is_read);
    TEST(files_are_read);
    TEST(changes_of_a_file_are_not_read);
}
