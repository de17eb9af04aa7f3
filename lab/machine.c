/* machine.c: the model, processor, compiler and flags of a measurement, as
 * JSON.
 * Tests: profile, lab. */
#include "lab/machine.h"
#include "base/platform.h"
#include "formats/json.h"
#include "kernels/lanes.h"
#include <string.h>

#ifndef NORMA_FLAGS
#define NORMA_FLAGS ""
#endif

static void write_string(FILE *out, const char *prefix, const char *text) {
    fprintf(out, "%s%s", prefix, text ? "\"" : "null");
    for (size_t left = text ? strlen(text) : 0, n; left > 0;
         text += n, left -= n) {
        const char *escaped = json_escape(text, left, &n);
        /* a string must not end the <script> of page.html */
        fputs(*text == '<' ? "\\u003c" : escaped, out);
    }
    if (text)
        fputc('"', out);
}

void write_about(FILE *out, const About *about) {
    write_string(out, "{\"model\": ", about->model);
    write_string(out, ", \"norm\": ", about->norm);
    fprintf(out, ", \"threads\": %d, \"lanes\": %d", about->threads, LANES);
    write_string(out, ", \"machine\": ", processor_name());
    write_string(out, ", \"compiler\": ", __VERSION__);
    write_string(out, ", \"flags\": ", NORMA_FLAGS);
}

void write_estimate(FILE *out, const char *name, Estimate e) {
    fprintf(out, ", \"%s\": %.6g, \"%s_low\": %.6g, \"%s_high\": %.6g", name,
            e.value, name, e.low, name, e.high);
}
