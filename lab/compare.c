/* compare.c: the tables of --profile-against: two runs, before and after.
 * Tests: saved. */
#include "base/error.h"
#include "lab/estimate.h"
#include "lab/saved.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LABEL = 18 /* columns */ };

/* Writes a member of a run, at most 32 bytes; of a longer one the end. */
static void write_member(FILE *out, const Json *value) {
    enum { MAX = 32 };
    char text[1024];
    snprintf(text, sizeof text, "%s",
             json_null(value) ? "not set" : json_shown(value));
    make_printable(text);
    size_t n = strlen(text), from = n > MAX ? n - MAX : 0;
    while ((text[from] & 0xc0) == 0x80)
        from++; /* within a UTF-8 character */
    fprintf(out, "%s%s", from ? "..." : "", text + from);
}

/* Writes what differs between two runs: model, norms, threads, machine, ... */
static void write_differences(FILE *out, const SavedProfile *before,
                              const SavedProfile *after) {
    JSON_EACH(key, after->run, JSON_OBJECT) {
        const Json *is = key + 1, *was = json_get(before->run, key->text);
        if (!strcmp(key->text, "load") ||
            !strcmp(json_shown(is), json_shown(was)))
            continue;
        fprintf(out, "%-9s ", key->text);
        write_member(out, was);
        fputs("  ->  ", out);
        write_member(out, is);
        fputc('\n', out);
    }
}

/* A number in `width` columns, with three digits after the point if it is
 * small; NAN: "-". */
static void write_cell(FILE *out, int width, double number) {
    if (isnan(number))
        fprintf(out, "%*s", width, "-");
    else if (number < 1000)
        fprintf(out, "%*.3f", width, number);
    else
        fprintf(out, "%*.5g", width, number);
}

static bool write_times(FILE *out, int total, const Time *before,
                        const Time *after) {
    fprintf(out, "%-*s", LABEL, total_name(total));
    write_cell(out, 11, before->given ? before->us : NAN);
    write_cell(out, 11, after->given ? after->us : NAN);
    if (!before->given || !after->given || before->us == 0 || after->us == 0) {
        fputc('\n', out);
        return true;
    }
    Estimate ratio =
        estimate_quotient(after->us, after->error, before->us, before->error);
    write_cell(out, 9, ratio.value);
    if (isfinite(ratio.high)) {
        write_cell(out, 9, ratio.low);
        fputs(" to ", out);
        write_cell(out, 0, ratio.high);
    } else
        fprintf(out, "%9s", "-");
    fputc('\n', out);
    return isfinite(ratio.high);
}

void write_comparison(FILE *out, const SavedProfile *before,
                      const SavedProfile *after, bool all) {
    bool measured = true;
    if (before->layers != after->layers || before->dim != after->dim)
        note(
            "%s is of another model: %d layers of dim %d; this one has %d of %d",
            before->json.path, before->layers, before->dim, after->layers,
            after->dim);
    write_differences(out, before, after);
    for (Phase phase = N_PHASES; phase-- > 0;) {
        const PhaseTimes *was = &before->phases[phase],
                         *is = &after->phases[phase];
        if (was->passes == 0 || is->passes == 0)
            continue;
        const int n = fprintf(out, "\n%s, us/token", PHASE_NAMES[phase]);
        fprintf(out, "%*s%11s%9s%12s\n", LABEL + 11 + 1 - n, "before", "after",
                "ratio", "95 %");
        for (int total = 0; total < N_TOTALS; total++) {
            const Time *a = &was->totals[total], *b = &is->totals[total];
            bool shown = all || (total < N_SITES ? SITES[total].is_norm
                                                 : total != TOTAL_WORK);
            if (shown && (a->given || b->given))
                measured &= write_times(out, total, a, b) ||
                            total == SITE_PROFILE; /* never has one */
        }
    }
    if (!measured)
        fprintf(out, "-: fewer than %d passes; -b 64 splits a prompt\n",
                MIN_MEASUREMENTS);
    fputs(
        "95 %: from the passes of these two runs; other runs differ by more\n",
        out);
}
