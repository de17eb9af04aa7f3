/* report.c: writes the summary, the charts and the tables of --profile to
 * stderr, and selects the format of its file.
 * Tests: profile. */
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "lab/chart.h"
#include "lab/profile.h"
#include "lab/saved.h"
#include "text/stream.h"
#include <math.h>
#include <stdlib.h>

/* ---- the tables of -v --------------------------------------------------- */

/* Writes a line for each kind of site: sums over the layers, the layer that
 * takes the longest and, for norms, the min and max RMS of their inputs. */
static void write_totals(const Profile *p, Phase phase) {
    Work work = profile_work(p, phase);
    fprintf(stderr, "%-14s %7s %9s %6s %8s %9s  %s\n", "site", "calls",
            "us/token", "%", "slowest", "us/token", "RMS in, over layers");
    for (Site site = 0; site < N_SITES; site++) {
        SiteRow longest = {0};
        double calls = 0, us = 0, share = 0, min = INFINITY, max = 0;
        for (int place = site; place < p->n_places; place += N_SITES) {
            SiteRow row = profile_row(p, phase, place);
            if (row.record.calls == 0)
                continue;
            calls += row.record.calls;
            us += row.us;
            share += site_share(&row, &work);
            min = fmin(min, row.rms_in);
            max = fmax(max, row.rms_in);
            if (row.us >= longest.us)
                longest = row;
        }
        if (calls == 0)
            continue;
        fprintf(stderr, "%-14s %7.0f %9.2f %6.2f", SITES[site].name, calls, us,
                100 * share);
        if (longest.layer != NO_LAYER)
            fprintf(stderr, " layer %2d %9.2f", longest.layer, longest.us);
        if (SITES[site].is_norm)
            fprintf(stderr, "%*s  %.4g to %.4g",
                    longest.layer == NO_LAYER ? 19 : 0, "", min, max);
        fputc('\n', stderr);
    }
}

/* A column of the table; "-": unknown. */
static void write_size(const char *format, int width, double size) {
    if (isfinite(size))
        fprintf(stderr, format, width, size);
    else
        fprintf(stderr, " %*s", width, "-");
}

/* The sizes of a norm's activations. */
static void write_sizes(const SiteRow *row) {
    const Record *r = &row->record;
    write_size(" %*.4g", 9, row->rms_in);
    write_size(" %*.4g", 9, row->rms_first);
    write_size(" %*.4g", 9, row->rms_later);
    write_size(" %*.4g", 9, row->rms_out);
    write_size(" %*.3f", 8, row->mean);
    write_size(" %*.3f", 22, row->gamma_mean);
    write_size(" %*.3g", 9, row->median_x);
    write_size(" %*.3g", 9, row->p99_x);
    fprintf(stderr, " %9.4g at %d, %d", r->max_abs, r->max_position,
            r->max_channel);
}

static void write_layers(const Profile *p, Phase phase) {
    Work work = profile_work(p, phase);
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
                100 * site_share(&row, &work));
        if (SITES[row.site].is_norm)
            write_sizes(&row);
        fputc('\n', stderr);
    }
}

/* ---- the summary, at a glance ------------------------------------------- */

static void write_headline(const Profile *p, Phase phase, int columns) {
    char text[256];
    Work w = profile_work(p, phase);
    int n = snprintf(text, sizeof text, "norms: %.2f %% of the work of %s",
                     100 * w.share.value, PHASE_NAMES[phase]);
    /* of few passes the interval may have no width, and says nothing */
    if (isfinite(w.share.low) && w.share.high - w.share.low >= 1e-4)
        n += snprintf(text + n, sizeof text - n, " (95 %%: %.2f to %.2f)",
                      100 * w.share.low, 100 * w.share.high);
    snprintf(
        text + n, sizeof text - n,
        ", %.2f %% of its time; removing all norms would save at most %.2f us per token",
        100 * w.of_time, w.norms);
    write_words(stderr, text, 0, columns);
}

void write_load_wrapped(FILE *out, const Load *load, int columns) {
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return;
    write_load(memory, load);
    fclose(memory);
    if (text)
        write_words(out, text, 0, columns);
    free(text);
}

/* Draws the layers of a phase, and lists the work outside them. */
static void draw_layers(const Profile *p, Phase phase, int columns) {
    const int n_layers = p->session->model->config.n_layers;
    double norms[PROFILE_MAX_LAYERS] = {0}, rest[PROFILE_MAX_LAYERS] = {0};
    char outside[256];
    int n = snprintf(outside, sizeof outside, "outside layers:");
    for (int place = 0; place < p->n_places; place++) {
        SiteRow row = profile_row(p, phase, place);
        if (row.record.calls == 0 || !site_is_work(row.site))
            continue;
        if (row.layer == NO_LAYER)
            n += snprintf(outside + n, sizeof outside - n,
                          row.us < 1000 ? " %s %.3g," : " %s %.0f,",
                          SITES[row.site].name, row.us);
        else if (SITES[row.site].is_norm)
            norms[row.layer] += row.us;
        else
            rest[row.layer] += row.us;
    }
    write_chart(stderr, (LayerTimes){n_layers, norms, rest}, columns,
                shows_utf8());
    n -= outside[n - 1] == ',';
    snprintf(outside + n, sizeof outside - n, " us/token");
    write_words(stderr, outside, 0, columns);
}

/* Writes this run as a file of --profile=FILE.json to memory, and compares a
 * saved one with it. */
static int compare_with(const SavedProfile *before, const Profile *p,
                        bool all) {
    char *text = NULL;
    size_t size;
    SavedProfile after;
    FILE *out = open_memstream(&text, &size);
    if (out) {
        write_profile_json(p, out);
        fclose(out);
    }
    if (!text)
        return fail("--profile-against: out of memory");
    int status = saved_parse(&after, "this run", text, size);
    if (!status) {
        write_comparison(stderr, before, &after, all);
        saved_close(&after);
    }
    free(text);
    return status;
}

/* ---- the file ----------------------------------------------------------- */

typedef struct {
    const char *ending;
    void (*write)(const Profile *p, FILE *out);
} Format;

static const Format FORMATS[] = {
    {".csv", write_csv}, {".html", write_page}, {".json", write_profile_json}};

static const Format *format_of(const char *path) {
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
        if (has_ending(path, FORMATS[i].ending))
            return &FORMATS[i];
    return NULL;
}

bool profile_format(const char *path) {
    return !*path || format_of(path);
}

int profile_report(const Profile *p, ProfileReport how) {
    const int terminal =
        on_terminal(stderr) ? terminal_size().columns : CHART_MAX_COLUMNS;
    const int columns =
        terminal < CHART_MAX_COLUMNS ? terminal : CHART_MAX_COLUMNS;
    OutputFile out;
    fputc('\n', stderr);
    for (Phase phase = N_PHASES; phase-- > 0;) {
        if (p->passes[phase].passes == 0 || how.before)
            continue;
        write_headline(p, phase, columns);
        draw_layers(p, phase, columns);
    }
    write_load_wrapped(stderr, profile_add_load(p, &(Load){0}), columns);
    if (how.before && compare_with(how.before, p, how.tables))
        return -1;
    for (Phase phase = 0; phase < N_PHASES && how.tables; phase++) {
        if (p->passes[phase].passes == 0)
            continue;
        fprintf(stderr, "\n%s, %.0f of %.0f passes timed\n", PHASE_NAMES[phase],
                p->passes[phase].passes, p->passes[phase].all);
        write_totals(p, phase);
        fputc('\n', stderr);
        write_layers(p, phase);
    }
    if (!how.tables)
        fputs("-v lists all sites\n", stderr);
    if (!*how.path)
        return 0;
    if (output_open(&out, how.path))
        return -1;
    format_of(how.path)->write(p, out.stream);
    return output_close(&out, true);
}
