/* report.c: writes the table of --profile to stderr and selects the format of its file. */
#include "base/file.h"
#include "lab/profile.h"
#include <math.h>
#include <string.h>

static void write_table_row(FILE *out, const SiteRow *row) {
    const Record *r = &row->record;
    fprintf(out, "%5s  %-12s %7llu %9.2f %9.2f %9.2f %6.2f", row->name, SITES[row->site].name,
            (unsigned long long)r->calls, row->us.value, row->median, row->p95, 100 * row->share);
    if (SITES[row->site].is_norm)
        fprintf(out, " %9.4g %9.4g %8.3f %9.4g at %d, %d", row->rms_in, row->rms_out, row->mean, (double)r->max_abs,
                r->max_position, r->max_channel);
    fputc('\n', out);
}

/* Writes the norms' share of each phase's work, and whether other programs disturbed the measurement. */
static void write_answer(const Profile *p, FILE *out) {
    for (Phase phase = N_PHASES; phase-- > 0;) {
        const Passes *s = &p->passes[phase];
        const Work w = profile_work(p, phase);
        if (!s->observed) continue;
        fprintf(out, "norms: %.2f %% of the work of %s", 100 * w.share.value, PHASE_NAMES[phase]);
        if (isfinite(w.share.low)) fprintf(out, " (95 %%: %.2f to %.2f)", 100 * w.share.low, 100 * w.share.high);
        fprintf(out, ", %.2f %% of its time\n", 100 * w.elapsed / s->net);
    }
    write_load(out, profile_add_load(p, &(Load){0}));
    fputc('\n', out);
}

/* Writes a line for each kind of site: sums over the layers and, for norms, the min and max RMS of their inputs. */
static void write_totals(const Profile *p, Phase phase, FILE *out) {
    SiteRow sums[N_SITES] = {0};
    fprintf(out, "\n%s\n%-14s %7s %9s %6s  %s\n", PHASE_NAMES[phase], "site", "calls", "us/token", "%",
            "RMS in, over layers");
    for (SiteRow row = {0}; profile_next(p, phase, &row);) {
        SiteRow *sum = &sums[row.site];
        sum->rms_in = sum->record.calls ? fmin(sum->rms_in, row.rms_in) : row.rms_in;
        sum->rms_out = fmax(sum->rms_out, row.rms_in);
        sum->record.calls += row.record.calls;
        sum->us.value += row.us.value;
        sum->share += row.share;
    }
    for (Site site = 0; site < N_SITES; site++) {
        const SiteRow *sum = &sums[site];
        const Record *r = &sum->record;
        if (!r->calls) continue;
        fprintf(out, "%-14s %7llu %9.2f %6.2f", SITES[site].name, (unsigned long long)r->calls, sum->us.value,
                100 * sum->share);
        if (SITES[site].is_norm) fprintf(out, "  %.4g to %.4g", sum->rms_in, sum->rms_out);
        fputc('\n', out);
    }
}

static void write_layers(const Profile *p, Phase phase, FILE *out) {
    fprintf(out, "\n%s\n%5s  %-12s %7s %9s %9s %9s %6s %9s %9s %8s %9s\n", PHASE_NAMES[phase], "layer", "site", "calls",
            "us/token", "median", "95 %", "%", "RMS in", "RMS out", "mean/RMS", "max |x| at position, channel");
    for (SiteRow row = {0}; profile_next(p, phase, &row);) write_table_row(out, &row);
}

static void write_table(const Profile *p, bool layers, FILE *out) {
    fputc('\n', out);
    write_answer(p, out);
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        if (!p->passes[phase].observed) continue;
        (layers ? write_layers : write_totals)(p, phase, out);
    }
    if (!layers) fputs("use -v to list every layer\n", out);
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

int profile_report(const Profile *p, const char *path, bool layers) {
    OutputFile out;
    write_table(p, layers, stderr);
    if (!*path) return 0;
    if (output_open(&out, path)) return -1;
    FILES[profile_format(path)].write(p, out.stream);
    return output_close(&out, true);
}
