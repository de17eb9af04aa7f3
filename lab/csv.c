/* csv.c: writes a profile as a CSV file, or as an HTML page that contains the
 * CSV file.
 *
 * The file's first line is a comment with the results that are not about a
 * site, as JSON.
 * Tests: profile.
 */
#include "lab/profile.h"
#include <math.h>
#include <string.h>

/* contents of lab/page.html; the Makefile generates the array */
extern const char PAGE_HTML[];

/* Writes n numbers as a JSON array. */
static void write_numbers(FILE *out, const double *numbers, int n) {
    for (int i = 0; i < n; i++) {
        fputc(i ? ',' : '[', out);
        fprintf(out, isfinite(numbers[i]) ? "%.4g" : "null", numbers[i]);
    }
    fputs(n ? "]" : "[]", out);
}

/* A phase's norms; for each thread milliseconds of other work, norms,
 * waiting. */
static void write_phase(FILE *out, const Profile *p, Phase phase) {
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
                                   w.of_time, w.us},
                  5);
    fputs(", \"threads\": [", out);
    for (int t = 0; t < p->session->n_threads; t++) {
        ThreadTime time = profile_thread(p, t, phase);
        fprintf(out, t ? ",[%.4g,%.4g,%.4g]" : "[%.4g,%.4g,%.4g]",
                1e3 * time.others, 1e3 * time.norms, 1e3 * time.waiting);
    }
    fputs("]}", out);
}

/* `work`: seconds of the phase's work. */
static void write_row(FILE *out, Phase phase, double work, SiteRow row) {
    const Record *r = &row.record;
    if (r->calls == 0)
        return;
    fprintf(out, "%s,", PHASE_NAMES[phase]);
    if (row.layer != NO_LAYER)
        fprintf(out, "%d", row.layer);
    fprintf(out, ",%s,%.0f,%.0f,%.10g,%.10g,%.10g,%.10g,%.10g,",
            SITES[row.site].name, r->calls, r->tokens, r->seconds, row.us,
            row.median, row.p95, row.work / work);
    if (!SITES[row.site].is_norm) {
        fputs(",,,,,,,,,,\n", out);
        return;
    }
    fprintf(out, "%.10g,", row.rms_in);
    if (isfinite(row.rms_first))
        fprintf(out, "%.10g", row.rms_first);
    fputc(',', out);
    if (isfinite(row.rms_later))
        fprintf(out, "%.10g", row.rms_later);
    fprintf(out, ",%.10g,%.10g,%.10g,%d,%d,%.5g,%.5g,%.5g\n", row.rms_out,
            row.mean, r->max_abs, r->max_channel, r->max_position, row.median_x,
            row.p99_x, row.gamma_mean);
}

void write_csv(const Profile *p, FILE *out) {
    const Model *m = p->session->model;
    const char *separator = "";
    fputs("# ", out);
    write_about(out, &p->about);
    fprintf(out,
            ", \"type\": \"%s\", \"layers\": %d, \"dim\": %d, \"load\": \"",
            m->type, m->config.n_layers, m->config.dim);
    write_load(out, profile_add_load(p, &(Load){0}));
    fputs("\", \"phases\": [", out);
    for (Phase phase = N_PHASES; phase-- > 0;) {
        if (p->passes[phase].passes == 0)
            continue;
        fputs(separator, out);
        write_phase(out, p, phase);
        separator = ", ";
    }
    fputs("], \"residual\": [", out);
    /* RMS before attention, by position bucket */
    for (int layer = 0; layer < m->config.n_layers; layer++) {
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
    fputs(
        "]}\nphase,layer,site,calls,tokens,seconds,us_per_token,us_median,us_95,share,rms_in,rms_in_at_0,rms_in_after_0,rms_out,mean_over_rms,"
        "max_abs,max_channel,max_position,median_abs,p99_abs,gamma_mean_over_gamma_x\n",
        out);
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        double work = profile_work(p, phase).work;
        for (int place = 0; place < p->n_places; place++)
            write_row(out, phase, work, profile_row(p, phase, place));
    }
}

void write_page(const Profile *p, FILE *out) {
    static const char begin[] = "id=\"profile\">\n", end[] = "</script>";
    const char *data = strstr(PAGE_HTML, begin) + strlen(begin);
    fwrite(PAGE_HTML, 1, data - PAGE_HTML, out);
    write_csv(p, out);
    fputs(strstr(data, end), out);
}
