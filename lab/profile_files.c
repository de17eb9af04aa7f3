/* profile_files.c: writes a profile as a CSV file, as an HTML page that
 * contains the CSV file, or as a JSON file, which --profile-against reads
 * (lab/saved.c).
 *
 * Owns the columns. The CSV file's first line is a comment with the results
 * that are not about a site, as JSON; the JSON file has the same members, and
 * the rows as objects. A number that is not finite or does not apply is an
 * empty field or null.
 * Tests: profile.
 */
#include "lab/profile.h"
#include "lab/saved.h"
#include <math.h>
#include <string.h>

/* contents of lab/page.html; the Makefile generates the array */
extern const char PAGE_HTML[];

/* The columns after phase, layer and site: name, format, value. Those of
 * NORM() apply only to norms. `row`: SiteRow; `work`: Work. */
#define COLUMNS(ANY, NORM)                                                     \
    ANY(calls, "%.0f", row->record.calls)                                      \
    ANY(tokens, "%.0f", row->record.tokens)                                    \
    ANY(seconds, "%.10g", row->record.seconds)                                 \
    ANY(us_per_token, "%.10g", row->us)                                        \
    ANY(us_median, "%.10g", row->median)                                       \
    ANY(us_95, "%.10g", row->p95)                                              \
    ANY(share, "%.10g", site_share(row, work))                                 \
    NORM(rms_in, "%.10g", row->rms_in)                                         \
    NORM(rms_in_at_0, "%.10g", row->rms_first)                                 \
    NORM(rms_in_after_0, "%.10g", row->rms_later)                              \
    NORM(rms_out, "%.10g", row->rms_out)                                       \
    NORM(mean_over_rms, "%.10g", row->mean)                                    \
    NORM(max_abs, "%.10g", row->record.max_abs)                                \
    NORM(max_channel, "%.0f", row->record.max_channel)                         \
    NORM(max_position, "%.0f", row->record.max_position)                       \
    NORM(median_abs, "%.5g", row->median_x)                                    \
    NORM(p99_abs, "%.5g", row->p99_x)                                          \
    NORM(gamma_mean_over_gamma_x, "%.5g", row->gamma_mean)

static void write_number(FILE *out, const char *format, double number,
                         const char *missing) {
    if (isfinite(number))
        fprintf(out, format, number);
    else
        fputs(missing, out);
}

/* Writes n numbers as a JSON array. */
static void write_numbers(FILE *out, const double *numbers, int n) {
    for (int i = 0; i < n; i++) {
        fputc(i ? ',' : '[', out);
        write_number(out, "%.4g", numbers[i], "null");
    }
    fputs(n ? "]" : "[]", out);
}

/* ---- what is not about a site ------------------------------------------- */

/* Begins a phase's object: its norms; for each thread milliseconds of other
 * work, norms, waiting. */
static void begin_phase(FILE *out, const Profile *p, Phase phase) {
    const Passes *s = &p->passes[phase];
    double observing =
        profile_of_thread(p, 0, phase, NO_LAYER, SITE_PROFILE)->seconds;
    Work w = profile_work(p, phase);
    fprintf(
        out,
        "{\"name\": \"%s\", \"passes\": %.0f, \"all_passes\": %.0f, \"observing\": %.4g, \"norms\": ",
        PHASE_NAMES[phase], s->passes, s->all,
        observing / (observing + s->seconds * s->all / s->passes));
    write_numbers(out,
                  (const double[]){w.share.value, w.share.low, w.share.high,
                                   w.of_time, w.norms},
                  5);
    fputs(", \"threads\": [", out);
    for (int t = 0; t < p->session->n_threads; t++) {
        ThreadTime time = profile_thread(p, t, phase);
        fprintf(out, t ? ",[%.4g,%.4g,%.4g]" : "[%.4g,%.4g,%.4g]",
                1e3 * time.others, 1e3 * time.norms, 1e3 * time.waiting);
    }
    fputc(']', out);
}

/* RMS before attention, for each layer a list by position bucket. */
static void write_streams(FILE *out, const Profile *p) {
    fputs(", \"residual\": [", out);
    for (int layer = 0; layer < p->session->model->config.n_layers; layer++) {
        const StreamSize *stream = p->streams[layer];
        double rms[BUCKETS];
        int n = BUCKETS;
        while (n > 0 && stream[n - 1].tokens == 0)
            n--;
        for (int b = 0; b < n; b++)
            rms[b] = sqrt(stream[b].squares / stream[b].tokens);
        if (layer)
            fputc(',', out);
        write_numbers(out, rms, n);
    }
    fputc(']', out);
}

/* Writes the members of the run: what ran, where, and how busy it was. */
static void write_run(FILE *out, const Profile *p) {
    const Model *m = p->session->model;
    write_about(out, &p->about);
    fprintf(out,
            ", \"type\": \"%s\", \"layers\": %d, \"dim\": %d, \"load\": \"",
            m->type, m->config.n_layers, m->config.dim);
    write_load(out, profile_add_load(p, &(Load){0}));
    fputc('"', out);
}

/* ---- the CSV file and the page ------------------------------------------ */

static void write_csv_row(FILE *out, Phase phase, const Work *work,
                          const SiteRow *row) {
    fprintf(out, "%s,", PHASE_NAMES[phase]);
    if (row->layer != NO_LAYER)
        fprintf(out, "%d", row->layer);
    fprintf(out, ",%s", SITES[row->site].name);
#define ANY(name, format, value)                                               \
    fputc(',', out);                                                           \
    write_number(out, format, value, "");
#define NORM(name, format, value)                                              \
    ANY(name, format, SITES[row->site].is_norm ? value : (double)NAN)
    COLUMNS(ANY, NORM)
#undef ANY
#undef NORM
    fputc('\n', out);
}

void write_csv(const Profile *p, FILE *out) {
    const char *separator = "";
    fputs("# ", out);
    write_run(out, p);
    fputs(", \"phases\": [", out);
    for (Phase phase = N_PHASES; phase-- > 0;) {
        if (p->passes[phase].passes == 0)
            continue;
        fputs(separator, out);
        begin_phase(out, p, phase);
        fputc('}', out);
        separator = ", ";
    }
    fputc(']', out);
    write_streams(out, p);
#define NAME(name, format, value) "," #name
    fputs("}\nphase,layer,site" COLUMNS(NAME, NAME) "\n", out);
#undef NAME
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        Work work = profile_work(p, phase);
        for (int place = 0; place < p->n_places; place++) {
            SiteRow row = profile_row(p, phase, place);
            if (row.record.calls > 0)
                write_csv_row(out, phase, &work, &row);
        }
    }
}

void write_page(const Profile *p, FILE *out) {
    static const char begin[] = "id=\"profile\">\n", end[] = "</script>";
    const char *data = strstr(PAGE_HTML, begin) + strlen(begin);
    fwrite(PAGE_HTML, 1, data - PAGE_HTML, out);
    write_csv(p, out);
    fputs(strstr(data, end), out);
}

/* ---- the JSON file ------------------------------------------------------ */

static void write_json_row(FILE *out, const Work *work, const SiteRow *row) {
    fputs("{\"layer\": ", out);
    write_number(out, "%.0f", row->layer == NO_LAYER ? (double)NAN : row->layer,
                 "null");
    fprintf(out, ", \"site\": \"%s\"", SITES[row->site].name);
#define ANY(name, format, value)                                               \
    fputs(", \"" #name "\": ", out);                                           \
    write_number(out, format, value, "null");
#define NORM(name, format, value)                                              \
    if (SITES[row->site].is_norm) {                                            \
        ANY(name, format, value)                                               \
    }
    COLUMNS(ANY, NORM)
#undef ANY
#undef NORM
    fputc('}', out);
}

static void write_json_phase(FILE *out, const Profile *p, Phase phase) {
    const char *separator = "\n";
    Work work = profile_work(p, phase);
    PhaseTimes times = phase_times(p, phase);
    begin_phase(out, p, phase);
    fputs(",\n\"totals\": [", out);
    for (int total = 0; total < N_TOTALS; total++) {
        const Time *time = &times.totals[total];
        if (!time->given)
            continue;
        fprintf(out, "%s{\"of\": \"%s\", \"us_per_token\": %.10g, \"error\": ",
                separator, total_name(total), time->us);
        write_number(out, "%.10g", time->error, "null");
        fputc('}', out);
        separator = ",\n";
    }
    fputs("],\n\"rows\": [", out);
    separator = "\n";
    for (int place = 0; place < p->n_places; place++) {
        SiteRow row = profile_row(p, phase, place);
        if (row.record.calls == 0)
            continue;
        fputs(separator, out);
        write_json_row(out, &work, &row);
        separator = ",\n";
    }
    fputs("]}", out);
}

void write_profile_json(const Profile *p, FILE *out) {
    const char *separator = "";
    fprintf(out, "{\"profile\": %d, \"run\": ", PROFILE_VERSION);
    write_run(out, p);
    fputs("},\n\"phases\": [", out);
    for (Phase phase = N_PHASES; phase-- > 0;) {
        if (p->passes[phase].passes == 0)
            continue;
        fputs(separator, out);
        write_json_phase(out, p, phase);
        separator = ",\n";
    }
    fputc(']', out);
    write_streams(out, p);
    fputs("}\n", out);
}
