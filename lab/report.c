/* report.c: writes the table of --profile to stderr and selects the format of
 * its file.
 * Tests: profile. */
#include "base/file.h"
#include "lab/profile.h"
#include <math.h>

/* Writes a line for each kind of site: sums over the layers, the layer that
 * takes the longest and, for norms, the min and max RMS of their inputs. */
static void write_totals(const Profile *p, Phase phase) {
    double work = profile_work(p, phase).work;
    fprintf(stderr, "%-14s %7s %9s %6s %8s %9s  %s\n", "site", "calls",
            "us/token", "%", "slowest", "us/token", "RMS in, over layers");
    for (Site site = 0; site < N_SITES; site++) {
        SiteRow longest = {0};
        double calls = 0, us = 0, of_site = 0, min = INFINITY, max = 0;
        for (int place = site; place < p->n_places; place += N_SITES) {
            SiteRow row = profile_row(p, phase, place);
            if (row.record.calls == 0)
                continue;
            calls += row.record.calls;
            us += row.us;
            of_site += row.work;
            min = fmin(min, row.rms_in);
            max = fmax(max, row.rms_in);
            if (row.us >= longest.us)
                longest = row;
        }
        if (calls == 0)
            continue;
        fprintf(stderr, "%-14s %7.0f %9.2f %6.2f", SITES[site].name, calls, us,
                100 * of_site / work);
        if (longest.layer != NO_LAYER)
            fprintf(stderr, " layer %2d %9.2f", longest.layer, longest.us);
        if (SITES[site].is_norm)
            fprintf(stderr, "%*s  %.4g to %.4g",
                    longest.layer == NO_LAYER ? 19 : 0, "", min, max);
        fputc('\n', stderr);
    }
}

static void write_layers(const Profile *p, Phase phase) {
    double work = profile_work(p, phase).work;
    fprintf(
        stderr,
        "%5s  %-14s %7s %9s %9s %9s %6s %9s %9s %9s %9s %8s %s %9s %9s %9s\n",
        "layer", "site", "calls", "us/token", "median", "95 %", "%", "RMS in",
        "at 0", "after 0", "RMS out", "mean/RMS", "|gamma mean|/|gamma x|",
        "median|x|", "99 % |x|", "max |x| at position, channel");
    for (int place = 0; place < p->n_places; place++) {
        SiteRow row = profile_row(p, phase, place);
        const Record *r = &row.record;
        if (r->calls == 0)
            continue;
        fprintf(stderr, row.layer == NO_LAYER ? "     " : "%5d", row.layer);
        fprintf(stderr, "  %-14s %7.0f %9.3f %9.2f %9.2f %6.3f",
                SITES[row.site].name, r->calls, row.us, row.median, row.p95,
                100 * row.work / work);
        if (SITES[row.site].is_norm)
            fprintf(
                stderr,
                " %9.4g %9.4g %9.4g %9.4g %8.3f %22.3f %9.3g %9.3g %9.4g at %d, %d",
                row.rms_in, row.rms_first, row.rms_later, row.rms_out, row.mean,
                row.gamma_mean, row.median_x, row.p99_x, r->max_abs,
                r->max_position, r->max_channel);
        fputc('\n', stderr);
    }
}

bool profile_format(const char *path) {
    return !*path || has_ending(path, ".csv") || has_ending(path, ".html");
}

int profile_report(const Profile *p, const char *path, bool layers) {
    OutputFile out;
    fputc('\n', stderr);
    for (Phase phase = N_PHASES; phase-- > 0;) {
        Work w = profile_work(p, phase);
        if (p->passes[phase].passes == 0)
            continue;
        fprintf(stderr, "norms: %.2f %% of the work of %s", 100 * w.share.value,
                PHASE_NAMES[phase]);
        if (isfinite(w.share.low))
            fprintf(stderr, " (95 %%: %.2f to %.2f)", 100 * w.share.low,
                    100 * w.share.high);
        fprintf(
            stderr,
            ", %.2f %% of its time; removing all norms would save at most %.2f us per token\n",
            100 * w.of_time, w.us);
    }
    write_load(stderr, profile_add_load(p, &(Load){0}));
    fputc('\n', stderr);
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        if (p->passes[phase].passes == 0)
            continue;
        fprintf(stderr, "\n%s, %.0f of %.0f passes timed\n", PHASE_NAMES[phase],
                p->passes[phase].passes, p->passes[phase].all);
        if (layers)
            write_layers(p, phase);
        else
            write_totals(p, phase);
    }
    if (!layers)
        fputs("use -v to list every layer\n", stderr);
    if (!*path)
        return 0;
    if (output_open(&out, path))
        return -1;
    if (has_ending(path, ".csv"))
        write_csv(p, out.stream);
    else
        write_page(p, out.stream);
    return output_close(&out, true);
}
