/* report.c: the table of --profile on stderr, and the choice of the file's format. */
#include "base/file.h"
#include "base/process.h"
#include "lab/profile.h"
#include <math.h>
#include <string.h>

static void write_table_row(FILE *out, const SiteRow *row) {
    const Record *r = &row->record;
    fprintf(out, "%5s  %-12s %7llu %9.2f %9.2f %9.2f %6.2f", row->name, SITES[row->site].name,
            (unsigned long long)r->calls, row->us.value, row->median, row->p95, 100 * row->share);
    if (r->bytes > 0) fprintf(out, " %7.1f", row->gb_per_s);
    if (SITES[row->site].is_norm)
        fprintf(out, " %9.4g %9.4g %8.3f %9.4g at %d, %d", row->rms_in, row->rms_out, row->mean, (double)r->max_abs,
                r->max_position, r->max_channel);
    fputc('\n', out);
}

static void write_sums(const Profile *p, Phase phase, FILE *out) {
    const Passes *s = &p->passes[phase];
    const double parts = profile_seconds(p, 0, phase, 0, N_SITES - 1);
    fprintf(out, "parts: %.3f ms, %.1f %% of the %.3f ms of %llu forward passes", 1e3 * parts,
            100 * parts / s->seconds_observed, 1e3 * s->seconds_observed, (unsigned long long)s->observed);
    if (s->observed < s->passes) fprintf(out, ", one in %.0f observed", (double)s->passes / (double)s->observed);
    fprintf(out, "; observing took %.2f %% of %s\n", 100 * profile_observing(p, phase) / s->seconds,
            PHASE_NAMES[phase]);
}

/* A note if other programs, or too many threads, affected the times. */
static void write_disturbance(const Profile *p, FILE *out) {
    const double seconds = 1e-9 * (double)(p->clock() - p->opened), waiting = profile_waiting(p);
    const double switches = (double)(lost_processors() - p->switches);
    if ((switches < 10 || switches < 20 * seconds) && waiting < 0.25) return;
    fprintf(
        out,
        "busy: %.0f involuntary context switches in %.2f s, %.0f %% of the time at barriers: on an idle machine the "
        "shares differ\n",
        switches, seconds, 100 * waiting);
}

/* The layer where the residual stream's RMS at position 0 is largest, relative to other positions. */
static void write_first_token(const Profile *p, FILE *out) {
    double max_ratio = 0, first = 0, others = 0;
    int layer = 0;
    for (int l = 0; l < p->n_rows; l++) {
        const double a = profile_rms_at(p, l, 0, 1), b = profile_rms_at(p, l, 1, POSITION_BUCKETS);
        if (!(b > 0) || !(a / b > max_ratio)) continue;
        max_ratio = a / b;
        first = a;
        others = b;
        layer = l;
    }
    if (max_ratio > 0)
        fprintf(out, "residual before layer %d: RMS %.4g at position 0, %.4g elsewhere\n", layer, first, others);
}

static void write_table(const Profile *p, FILE *out) {
    const char *separator = "norms: ";
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        if (!p->passes[phase].observed) continue;
        fprintf(out, "\n%s\n%5s  %-12s %7s %9s %9s %9s %6s %7s %9s %9s %8s %9s\n", PHASE_NAMES[phase], "layer", "site",
                "calls", "us/token", "median", "95 %", "%", "GB/s", "RMS in", "RMS out", "mean/RMS",
                "max |x| at position, channel");
        for (SiteRow row = {0}; profile_next(p, phase, &row);) write_table_row(out, &row);
        write_sums(p, phase, out);
    }
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        if (!p->passes[phase].observed) continue;
        const Estimate norms = estimate_ratio(&p->passes[phase].norms);
        fprintf(out, "%s%.2f %% of %s", separator, 100 * norms.value, PHASE_NAMES[phase]);
        if (isfinite(norms.low)) fprintf(out, " (%.2f to %.2f)", 100 * norms.low, 100 * norms.high);
        separator = ", ";
    }
    fputc('\n', out);
    write_first_token(p, out);
    write_disturbance(p, out);
}

static const struct {
    const char *ending;
    void (*write)(const Profile *p, FILE *out);
} FILES[] = {[PROFILE_CSV] = {".csv", write_csv}, [PROFILE_PAGE] = {".html", write_page}};

ProfileFormat profile_format(const char *path) {
    if (!*path) return PROFILE_TABLE;
    const char *dot = strrchr(path, '.');
    ProfileFormat format = PROFILE_PAGE;
    while (format > PROFILE_NONE && (!dot || strcmp(dot, FILES[format].ending) != 0)) format--;
    return format;
}

int profile_report(const Profile *p, const char *path) {
    OutputFile out;
    write_table(p, stderr);
    if (!*path) return 0;
    if (output_open(&out, path)) return -1;
    FILES[profile_format(path)].write(p, out.stream);
    return output_close(&out, true);
}
