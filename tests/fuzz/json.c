/* fuzz/json.c: libFuzzer target for the JSON reader, and for saved profiles.
 *
 * The values must be consistent: lists have as many members as their length
 * says, a member is followed by the next one, strings are UTF-8, and the values
 * written as JSON are read back unchanged.
 */
#include "formats/json.h"
#include "base/utf8.h"
#include "lab/saved.h"

#include "tests/fuzz/use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_string(const Json *s) {
    size_t n;
    for (size_t i = 0; i < s->length; i += n)
        expect(utf8_read(s->text + i, s->length - i, &n) < UTF8_END);
    expect(s->text[s->length] == '\0');
}

static void write_string(FILE *out, const Json *s) {
    fputc('"', out);
    for (size_t i = 0; i < s->length; i++)
        if ((uint8_t)s->text[i] < 0x20 || s->text[i] == '"' ||
            s->text[i] == '\\')
            fprintf(out, "\\u%04x", (unsigned)(uint8_t)s->text[i]);
        else
            fputc(s->text[i], out);
    fputc('"', out);
}

/* Checks and writes a value; lists are at most JSON_DEPTH deep. Returns the
 * number of values. */
static uint32_t walk(FILE *out,
                     const Json *value) { /* NOLINT(misc-no-recursion) */
    uint32_t members = 0, values = 1;
    bool object = value->kind == JSON_OBJECT;
    if (value->kind == JSON_STRING) {
        check_string(value);
        write_string(out, value);
    } else if (value->kind < JSON_STRING) {
        fputs(value->text, out);
    } else {
        fputc(object ? '{' : '[', out);
        for (const Json *m = json_members(value, value->kind); m;
             m = m->next, members++) {
            if (members)
                fputc(',', out);
            values += walk(out, m);
            if (object) {
                expect(m->kind == JSON_STRING);
                fputc(':', out);
                values += walk(out, m + 1);
            }
            expect(!m->next || m->next == value + values);
        }
        fputc(object ? '}' : ']', out);
    }
    expect(value->kind < JSON_ARRAY || members == value->length);
    return values;
}

static void expect_same(const Json *a, const Json *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        expect(a[i].kind == b[i].kind && a[i].length == b[i].length &&
               (!a[i].next || a[i].next - a == b[i].next - b) &&
               (a[i].kind >= JSON_ARRAY ||
                !memcmp(a[i].text, b[i].text, a[i].length)));
}

/* A saved profile can be compared with itself. */
static void use_as_profile(const uint8_t *data, size_t size) {
    SavedProfile saved;
    if (saved_parse(&saved, "fuzz", (const char *)data, size))
        return;
    write_comparison(stderr, &saved, &saved, true);
    saved_close(&saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    JsonFile json, again;
    char *text = NULL;
    size_t n = 0;
    if (json_parse(&json, "fuzz", (const char *)data, size))
        return 0;
    FILE *out = open_memstream(&text, &n);
    expect(out != NULL);
    uint32_t values = walk(out, json.values);
    fclose(out);
    expect(!json_parse(&again, "again", text, n));
    expect_same(json.values, again.values, values);
    json_close(&json);
    json_close(&again);
    free(text);
    use_as_profile(data, size);
    return 0;
}
