/* page.c: a profile as a page for a browser: HTML with drawings in SVG, which loads nothing and runs nothing. */
#include "base/platform.h"
#include "lab/profile.h"
#include "lab/stopwatch.h"
#include <math.h>
#include <string.h>

static const char STYLE[] =
    ":root{--back:#fff;--text:#1c2128;--faint:#68727d;--line:#d8dee4;--norm:#d9480f;--wait:#f0c36d;--site:#8fa8c4;"
    "color-scheme:light dark}@media(prefers-color-scheme:dark){:root{--back:#14181d;--text:#dde3ea;--faint:#8b96a3;"
    "--line:#333c46;--norm:#ff8a4c;--wait:#b08a3a;--site:#47627f}}body{margin:0 auto;max-width:76rem;padding:1rem;"
    "background:var(--back);color:var(--text);font:16px/1.45 system-ui,sans-serif}p,small,figcaption{color:var(--faint)"
    "}.large{display:flex;flex-wrap:wrap;gap:1rem 3rem}.large b{font-size:3rem;line-height:1.1;color:var(--norm)}"
    ".row{display:grid;grid-template-columns:6rem 1fr;gap:.5rem;align-items:center;font-size:.85rem}.row svg{width:"
    "100%;height:1rem;display:block}.few{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:1rem"
    "}figure{margin:0}rect{fill:var(--site);stroke:var(--back);stroke-width:1;vector-effect:non-scaling-stroke}"
    "rect.norm{fill:var(--norm)}rect.wait{fill:var(--wait)}rect.observer{fill:var(--line)}"
    ".map rect{fill:var(--norm);stroke:none}.floor{stroke:var(--text);stroke-width:2;vector-effect:non-scaling-stroke}"
    "circle{stroke:none}.attn_norm{stroke:var(--norm);fill:var(--norm)}.mlp_norm{stroke:var(--site);fill:var(--site)}"
    ".q_norm{stroke:var(--wait);fill:var(--wait)}.k_norm{stroke:var(--faint);fill:var(--faint)}svg text{fill:var("
    "--faint);font-size:9px}.key{padding:0 .5rem;border-radius:3px;color:var(--text)}.scroll{overflow-x:auto}table{"
    "border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}td,th{padding:.1rem .5rem;text-align:"
    "right;border-bottom:1px solid var(--line);white-space:nowrap}";

static const char END_OF_LINE[] = "</svg></div>\n";

static void write_text(FILE *out, const char *text) {
    for (const char *c = text; *c; c++) fprintf(out, strchr("<>&\"", *c) ? "&#%d;" : "%c", *c);
}

/* Begins a line of bars, whose unit is `width` to the line. */
static void begin_line(FILE *out, const char *name, int number, int width) {
    fprintf(out, "<div class=\"row\"><span>%s", name);
    if (number >= 0) fprintf(out, " %d", number);
    fprintf(out, "</span><svg viewBox=\"0 0 %d 1\" preserveAspectRatio=\"none\">", width);
}

/* ---- bars ------------------------------------------------------------------------------------ */

static void write_bar(FILE *out, const SiteRow *row, double start, double unit) {
    const bool wait = row->site == SITE_WAIT, observer = row->site == SITE_PROFILE;
    const char *kind = SITES[row->site].is_norm ? "norm" : wait ? "wait" : observer ? "observer" : "";
    fprintf(out, "<rect class=\"%s\" x=\"%.2f\" width=\"%.2f\" height=\"1\"><title>", kind, start * unit,
            row->us.value * unit);
    if (row->layer != NO_LAYER) fprintf(out, "layer %d ", row->layer);
    fprintf(out, "%s: %.3f us a token, %.2f %%, median %.3f us, 95 %% below %.3f us, %llu calls</title></rect>",
            SITES[row->site].name, row->us.value, 100 * row->share, row->median, row->p95,
            (unsigned long long)row->record.calls);
}

/* Microseconds of a token in the longest line. */
static double longest_line(const Profile *p, Phase phase, bool norms) {
    double longest = 0, sum = 0;
    int line = -1;
    for (SiteRow row = {0}; profile_next(p, phase, &row); line = row.row) {
        if (row.row != line) sum = 0;
        if (SITES[row.site].is_norm || !norms) sum += row.us.value;
        longest = fmax(longest, sum);
    }
    return longest;
}

/* A line for each layer, with a bar for each of its sites (or norms), and a mark where each would end if it took
 * `floor_us`; the longest line is as wide as there is room. */
static void write_bars(FILE *out, const Profile *p, Phase phase, bool norms, double floor_us) {
    enum { WIDTH = 1000 };
    const double longest = longest_line(p, phase, norms), unit = longest > 0 ? WIDTH / longest : 0;
    double start = 0;
    int line = -2;
    fprintf(out, "<div class=\"%s\">\n", norms ? "norms" : "sites");
    for (SiteRow row = {0}; profile_next(p, phase, &row);) {
        if (norms && !SITES[row.site].is_norm) continue;
        if (row.row != line) {
            if (line > -2) fputs(END_OF_LINE, out);
            begin_line(out, row.row < 0 ? "in front" : row.layer == NO_LAYER ? "behind" : "layer", row.layer, WIDTH);
            start = 0;
            line = row.row;
        }
        write_bar(out, &row, start, unit);
        const double floor_at = (start + floor_us) * unit;
        if (norms && floor_at <= WIDTH)
            fprintf(out, "<line class=\"floor\" x1=\"%.2f\" x2=\"%.2f\" y1=\"0\" y2=\"1\"/>", floor_at, floor_at);
        start += row.us.value;
    }
    fprintf(out, "%s</div>\n", line > -2 ? END_OF_LINE : "");
}

/* A line for each thread: its work, its norms, its waiting. */
static void write_threads(FILE *out, const Profile *p, Phase phase) {
    static const char *const names[] = {"work", "norms", "waiting"}, *const kinds[] = {"", "norm", "wait"};
    const double all = 1e3 * (p->passes[phase].seconds_observed > 0 ? p->passes[phase].seconds_observed : 1);
    for (int t = 0; t < p->session->n_threads; t++) {
        double ms[3] = {0}, start = 0;
        for (int l = NO_LAYER; l < p->n_rows; l++)
            for (Site s = 0; s < SITE_PROFILE; s++)
                ms[SITES[s].is_norm + 2 * (s == SITE_WAIT)] += 1e3 * profile_of_thread(p, t, phase, l, s)->seconds;
        begin_line(out, "thread", t, 1000);
        for (int k = 0; k < 3; start += ms[k++])
            fprintf(out, "<rect class=\"%s\" x=\"%.2f\" width=\"%.2f\" height=\"1\"><title>%s: %.3f ms</title></rect>",
                    kinds[k], 1000 * start / all, 1000 * ms[k] / all, names[k], ms[k]);
        fputs(END_OF_LINE, out);
    }
}

/* ---- what norms see -------------------------------------------------------------------------- */

/* What curves show of a norm; 0 where there is nothing to draw. */
static const char *const CURVES[] = {"RMS in", "RMS out", "|mean| / RMS", "largest |x|"};
static double value_of(const SiteRow *row, int curve) {
    const double values[] = {row->rms_in, row->rms_out, row->mean, (double)row->record.max_abs};
    const bool drawn = row->layer != NO_LAYER && SITES[row->site].is_norm && isfinite(values[curve]);
    return drawn ? values[curve] : 0;
}

/* Curves over the layers, one for each norm of a layer; the scale is logarithmic. */
static void write_curves(FILE *out, const Profile *p, Phase phase, int curve) {
    enum { WIDTH = 300, HEIGHT = 120, LEFT = 34 };
    double low = INFINITY, high = 0, before[N_SITES] = {0};
    for (SiteRow row = {0}; profile_next(p, phase, &row);)
        if (value_of(&row, curve) > 0) {
            low = fmin(low, value_of(&row, curve));
            high = fmax(high, value_of(&row, curve));
        }
    if (!(high > 0)) return;
    const double tall = high > low ? (HEIGHT - 20) / log(high / low) : 0, step = (WIDTH - LEFT - 10.0) / p->n_rows;
    fprintf(out,
            "<figure><figcaption>%s</figcaption><svg viewBox=\"0 0 %d %d\"><text x=\"0\" y=\"14\">%.3g</text>"
            "<text x=\"0\" y=\"%d\">%.3g</text>",
            CURVES[curve], WIDTH, HEIGHT, high, HEIGHT - 6, low);
    for (SiteRow row = {0}; profile_next(p, phase, &row);) {
        const double value = value_of(&row, curve), x = LEFT + step * (row.layer + 0.5);
        if (!(value > 0)) continue;
        const double y = 10 + tall * log(high / value);
        const char *name = SITES[row.site].name;
        if (before[row.site] > 0)
            fprintf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", name, x - step,
                    before[row.site], x, y);
        fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\"><title>layer %d %s: %.4g", name, x, y,
                row.layer, name, value);
        if (curve == 3) fprintf(out, " at position %d, channel %d", row.record.max_position, row.record.max_channel);
        fputs("</title></circle>", out);
        before[row.site] = y;
    }
    fputs("</svg></figure>\n", out);
}

/* The RMS of the residual stream by layer and position: as dark as it is large, on a logarithmic scale. */
static void write_map(FILE *out, const Profile *p) {
    double low = INFINITY, high = 0;
    for (int l = 0; l < p->n_rows; l++)
        for (int b = 0; b < POSITION_BUCKETS; b++) {
            const double rms = profile_rms_at(p, l, b, b + 1);
            if (rms > 0) low = fmin(low, rms);
            high = fmax(high, rms);
        }
    if (!(high > low)) return;
    fprintf(out,
            "<h2>RMS of the residual stream by layer and position</h2><p>From %.3g to %.3g, in front of attention; "
            "position 0 is at the left, and a mark further right holds more positions</p><div class=\"map\">",
            low, high);
    for (int l = 0; l < p->n_rows; l++) {
        begin_line(out, "layer", l, POSITION_BUCKETS);
        for (int b = 0; b < POSITION_BUCKETS; b++) {
            const double rms = profile_rms_at(p, l, b, b + 1);
            if (!(rms > 0)) continue;
            const double shade = 0.05 + 0.95 * log(rms / low) / log(high / low);
            fprintf(out, "<rect x=\"%d\" width=\"1.02\" height=\"1\" fill-opacity=\"%.3f\">", b, shade);
            fprintf(out, "<title>position %d: %.4g</title></rect>", (int)bucket_start(b), rms);
        }
        fputs(END_OF_LINE, out);
    }
    fputs("</div>\n", out);
}

/* ---- the page ---------------------------------------------------------------------------------- */

static void write_share(FILE *out, const Profile *p, Phase phase) {
    const Passes *s = &p->passes[phase];
    const Estimate norms = estimate_ratio(&s->norms);
    if (!s->observed) return;
    fprintf(out, "<div><b>%.2f %%</b><br>of %s is norms", 100 * norms.value, PHASE_NAMES[phase]);
    if (isfinite(norms.low))
        fprintf(out, "<br><small>%.2f to %.2f with 95 %% confidence</small>", 100 * norms.low, 100 * norms.high);
    fprintf(out, "<br><small>%llu forward passes, %llu observed; observing took %.2f %% of the time</small></div>\n",
            (unsigned long long)s->passes, (unsigned long long)s->observed,
            100 * profile_observing(p, phase) / s->seconds);
}

static void write_table(FILE *out, const Profile *p, Phase phase) {
    double sum = 0;
    fputs("<div class=\"scroll\"><table><tr><th>layer<th>site<th>calls<th>us/token<th>median<th>95 %<th>%<th>RMS in"
          "<th>RMS out<th>mean/RMS<th>max |x|<th>channel<th>position</tr>\n",
          out);
    for (SiteRow row = {0}; profile_next(p, phase, &row); sum += row.us.value) {
        const Record *r = &row.record;
        fputs("<tr><td>", out);
        if (row.layer != NO_LAYER) fprintf(out, "%d", row.layer);
        fprintf(out, "<td>%s<td>%llu<td>%.4f<td>%.4f<td>%.4f<td>%.2f", SITES[row.site].name,
                (unsigned long long)r->calls, row.us.value, row.median, row.p95, 100 * row.share);
        if (SITES[row.site].is_norm)
            fprintf(out, "<td>%.4g<td>%.4g<td>%.3f<td>%.4g<td>%d<td>%d", row.rms_in, row.rms_out, row.mean,
                    (double)r->max_abs, r->max_channel, r->max_position);
        fputs("</tr>\n", out);
    }
    fprintf(out, "<tr><td><td>all<td><td>%.4f</tr></table></div>\n", sum);
}

static void write_phase(FILE *out, const Profile *p, Phase phase) {
    const char *name = PHASE_NAMES[phase];
    const double copy = 1e6 * copy_seconds(p->session->model->config.dim);
    if (!p->passes[phase].observed) return;
    fprintf(out,
            "<section id=\"%s\"><h2>%s: time by layer and site</h2><p>As wide as the time of a token. <span "
            "class=\"key\" style=\"background:var(--norm)\">norms</span> <span class=\"key\" style=\"background:"
            "var(--site)\">other sites</span> <span class=\"key\" style=\"background:var(--wait)\">"
            "waiting</span> <span class=\"key\" style=\"background:var(--line)\">observing</span></p>\n",
            name, name);
    write_bars(out, p, phase, false, 0);
    fprintf(out, "<h2>%s: norms alone</h2><p>Marks: a copy of the same bytes (%.3f us)</p>\n", name, copy);
    write_bars(out, p, phase, true, copy);
    fprintf(out, "<h2>%s: threads</h2>\n", name);
    write_threads(out, p, phase);
    fprintf(out, "<h2>%s: what norms see</h2><div class=\"few\">\n", name);
    for (int curve = 0; curve < 4; curve++) write_curves(out, p, phase, curve);
    fprintf(out, "</div><h2>%s: all numbers</h2>\n", name);
    write_table(out, p, phase);
    fputs("</section>\n", out);
}

void write_page(const Profile *p, FILE *out) {
    const Model *m = p->session->model;
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
            "content=\"width=device-width,initial-scale=1\"><title>norma: what norms cost</title><style>%s</style>"
            "</head><body>\n<h1>What norms cost: ",
            STYLE);
    write_text(out, p->about.model);
    fputs("</h1><p>", out);
    write_text(out, p->about.norm ? p->about.norm : "its own norms");
    fprintf(out, "; %d layers of dim %d, %s; %d threads; ", m->config.n_layers, m->config.dim,
            type_name(m->embedding.type), p->session->n_threads);
    write_text(out, processor_name());
    fputs("</p><div class=\"large\">\n", out);
    for (Phase phase = N_PHASES; phase-- > 0;) write_share(out, p, phase);
    fputs("</div>\n", out);
    for (Phase phase = N_PHASES; phase-- > 0;) write_phase(out, p, phase);
    write_map(out, p);
    fputs("</body></html>\n", out);
}
