/* page.c: writes a profile as an HTML page: page.html, with the profile as JSON instead of the sample data. */
#include "lab/profile.h"
#include "lab/stopwatch.h"
#include <string.h>

extern const char PAGE_HTML[]; /* contents of lab/page.html; the Makefile generates the array */

/* Milliseconds of each thread: other work, norms, waiting. */
static void write_threads(FILE *out, const Profile *p, Phase phase) {
    for (int t = 0; t < p->session->n_threads; t++) {
        const double work = profile_seconds(p, t, phase, 0, SITE_END);
        const double waiting = profile_seconds(p, t, phase, SITE_WAIT, SITE_WAIT);
        double norms = 0;
        for (Site s = 0; s < N_SITES; s++)
            if (SITES[s].is_norm) norms += profile_seconds(p, t, phase, s, s);
        fprintf(out, "%s[%.6g, %.6g, %.6g]", t ? ", " : "", 1e3 * (work - norms), 1e3 * norms, 1e3 * waiting);
    }
}

static void write_phase(FILE *out, const Profile *p, Phase phase) {
    const char *separator = "\n[";
    const Passes *s = &p->passes[phase];
    const Work w = profile_work(p, phase);
    fprintf(out, "{\"name\": \"%s\", \"passes\": %llu, \"observed\": %llu, \"observing\": %.6g, \"norms\": [",
            PHASE_NAMES[phase], (unsigned long long)s->passes, (unsigned long long)s->observed,
            s->observing / s->seconds);
    write_numbers(out, (const double[]){w.share.value, w.share.low, w.share.high, w.elapsed / s->net}, 4, "null");
    fputs("], \"threads\": [", out);
    write_threads(out, p, phase);
    fputs("], \"rows\": [", out);
    for (SiteRow row = {0}; profile_next(p, phase, &row); separator = ",\n[") {
        fputs(separator, out);
        write_row(out, &row, "\"", "null");
        fputc(']', out);
    }
    fputs("]}", out);
}

/* The RMS of the residual stream before attention: for each row an array over position buckets. */
static void write_residual(FILE *out, const Profile *p) {
    double rms[POSITION_BUCKETS];
    for (int row = 0; row < p->n_rows; row++) {
        int n = 0;
        for (int b = 0; b < POSITION_BUCKETS; b++) {
            rms[b] = profile_rms_at(p, row, b, b + 1);
            if (rms[b] > 0) n = b + 1;
        }
        fputs(row ? ",\n[" : "\n[", out);
        write_numbers(out, rms, n, "null");
        fputc(']', out);
    }
}

static void write_json(FILE *out, const Profile *p) {
    const Model *m = p->session->model;
    const char *separator = "";
    fputc('{', out);
    write_about(out, &p->about);
    fprintf(
        out, ", \"type\": \"%s\", \"layers\": %d, \"dim\": %d, \"copy_us\": %.6g, \"columns\": \"%s\", \"load\": \"",
        type_name(m->embedding.type), m->config.n_layers, m->config.dim, 1e6 * copy_seconds(m->config.dim), COLUMNS);
    write_load(out, profile_add_load(p, &(Load){0}));
    fputs("\",\n\"phases\": [", out);
    for (Phase phase = N_PHASES; phase-- > 0;) {
        if (!p->passes[phase].observed) continue;
        fputs(separator, out);
        write_phase(out, p, phase);
        separator = ",\n";
    }
    fputs("],\n\"residual\": [", out);
    write_residual(out, p);
    fputs("]}\n", out);
}

void write_page(const Profile *p, FILE *out) {
    static const char begin[] = "id=\"profile\">\n", end[] = "</script>";
    const char *data = strstr(PAGE_HTML, begin) + strlen(begin);
    fwrite(PAGE_HTML, 1, (size_t)(data - PAGE_HTML), out);
    write_json(out, p);
    fputs(strstr(data, end), out);
}
