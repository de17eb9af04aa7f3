/* page.c: a profile as a page for a browser: HTML with drawings in SVG, which loads nothing and runs nothing. */
#include "base/memory.h"
#include "base/process.h"
#include "lab/machine.h"
#include "lab/profile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char STYLE[] =
    ":root{--back:#fff;--text:#1c2128;--faint:#68727d;--line:#d8dee4;--norm:#d9480f;--wait:#f0c36d;--site:#8fa8c4;"
    "color-scheme:light dark}"
    "@media(prefers-color-scheme:dark){:root{--back:#14181d;--text:#dde3ea;--faint:#8b96a3;--line:#333c46;"
    "--norm:#ff8a4c;--wait:#b08a3a;--site:#47627f}}"
    "body{margin:0 auto;max-width:76rem;padding:1rem;background:var(--back);color:var(--text);"
    "font:16px/1.45 system-ui,sans-serif}"
    "h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}p,small,figcaption{color:var(--faint)}"
    ".large{display:flex;flex-wrap:wrap;gap:1rem 3rem}.large b{font-size:3rem;line-height:1.1;color:var(--norm)}"
    ".row{display:grid;grid-template-columns:6rem 1fr;gap:.5rem;align-items:center;font-size:.85rem}"
    ".row svg,.map svg{width:100%;height:1.05rem;display:block}.map svg{height:.8rem}"
    ".few{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:1rem}figure{margin:0}"
    "rect{fill:var(--site);stroke:var(--back);stroke-width:1;vector-effect:non-scaling-stroke}"
    "rect.norm{fill:var(--norm)}rect.wait{fill:var(--wait)}rect.light{fill-opacity:.6}rect.observer{fill:var(--line)}"
    ".map rect{fill:var(--norm);stroke:none}.floor{stroke:var(--text);stroke-width:2;vector-effect:non-scaling-stroke}"
    "circle{stroke:none}.attn_norm{stroke:var(--norm);fill:var(--norm)}"
    ".mlp_norm{stroke:var(--site);fill:var(--site)}.q_norm{stroke:var(--wait);fill:var(--wait)}"
    ".k_norm{stroke:var(--faint);fill:var(--faint)}svg text{fill:var(--faint);font-size:9px}.key{padding:0 "
    ".5rem;border-radius:3px}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}"
    "td,th{padding:.1rem .5rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}";

static void write_text(FILE *out, const char *text) {
    for (const char *c = text; *c; c++)
        if (*c == '<' || *c == '>' || *c == '&' || *c == '"')
            fprintf(out, "&#%d;", *c);
        else
            fputc(*c, out);
}

static double us(const Record *r) { return r->tokens ? 1e6 * r->seconds / (double)r->tokens : 0; }

/* Where the row of a layer stands: the sites in front of the layers, each layer, those behind. */
static bool is_on_row(const Profile *p, int row, Site site) {
    return row >= 0 && row < p->n_layers ? true : (site <= SITE_EMBED) == (row < 0);
}

static int layer_of(const Profile *p, int row) { return row < p->n_layers && row >= 0 ? row : NO_LAYER; }

/* Microseconds a token of a row's sites, or of its norms. */
static double row_us(const Profile *p, Phase phase, int row, bool norms) {
    double sum = 0;
    for (Site site = 0; site < N_SITES; site++) {
        const Record r = profile_record(p, phase, layer_of(p, row), site);
        if (is_on_row(p, row, site) && (SITES[site].is_norm || !norms)) sum += us(&r);
    }
    return sum;
}

static void write_bar(FILE *out, const Profile *p, Phase phase, int row, Site site, double start, double unit) {
    const Record r = profile_record(p, phase, layer_of(p, row), site);
    const char *kind = SITES[site].is_norm      ? "norm"
                       : site == SITE_WAIT      ? "wait"
                       : site == SITE_PROFILE   ? "observer"
                       : site == SITE_ATTENTION ? "light"
                                                : "";
    fprintf(out, "<rect class=\"%s\" x=\"%.2f\" width=\"%.2f\" height=\"10\"><title>", kind, start * unit,
            us(&r) * unit);
    if (layer_of(p, row) != NO_LAYER) fprintf(out, "layer %d ", row);
    fprintf(out, "%s: %.3f us a token, %.2f %%, median %.3f us, 95 %% below %.3f us, %llu calls</title></rect>",
            SITES[site].name, us(&r), 100 * r.seconds / p->passes[phase].own,
            1e6 * profile_quantile(p, phase, layer_of(p, row), site, 0.5),
            1e6 * profile_quantile(p, phase, layer_of(p, row), site, 0.95), (unsigned long long)r.calls);
}

/* A line for each row, with a bar for each of its sites (or norms); the longest line is as wide as there is room. */
static void write_bars(FILE *out, const Profile *p, Phase phase, bool norms, double floor_us) {
    double widest = 0;
    for (int row = -1; row <= p->n_layers; row++) widest = fmax(widest, row_us(p, phase, row, norms));
    for (int row = -1; row <= p->n_layers && widest > 0; row++) {
        if (!(row_us(p, phase, row, norms) > 0)) continue;
        const double unit = 1000 / widest;
        double start = 0;
        char name[32];
        snprintf(name, sizeof name, "layer %d", row);
        fprintf(out, "<div class=\"row\"><span>%s</span><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\">",
                row < 0              ? "in front"
                : row == p->n_layers ? "behind"
                                     : name);
        for (Site site = 0; site < N_SITES; site++) {
            const Record r = profile_record(p, phase, layer_of(p, row), site);
            if (!r.calls || !is_on_row(p, row, site) || (norms && !SITES[site].is_norm)) continue;
            write_bar(out, p, phase, row, site, start, unit);
            if (norms && start + floor_us <= widest)
                fprintf(out,
                        "<line class=\"floor\" x1=\"%.2f\" x2=\"%.2f\" y1=\"0\" y2=\"10\"><title>a copy of the "
                        "same bytes: %.3f us</title></line>",
                        (start + floor_us) * unit, (start + floor_us) * unit, floor_us);
            start += us(&r);
        }
        fputs("</svg></div>\n", out);
    }
}

/* ---- what norms see -------------------------------------------------------------------------- */

static double rms_in(const Record *r) { return sqrt(r->squares_in / (double)r->tokens); }
static double rms_out(const Record *r) { return sqrt(r->squares_out / (double)r->tokens); }
static double mean_over_rms(const Record *r) { return r->means / (double)r->vectors; }
static double largest(const Record *r) { return (double)r->max_abs; }

/* Curves over the layers, one for each norm of a layer; the scale is logarithmic. */
static void write_curves(FILE *out, const Profile *p, Phase phase, const char *title, double (*value)(const Record *)) {
    enum { WIDTH = 300, HEIGHT = 120, LEFT = 34 };
    double low = INFINITY, high = 0;
    for (int l = 0; l < p->n_layers; l++)
        for (Site site = 0; site < N_SITES; site++) {
            const Record r = profile_record(p, phase, l, site);
            if (!SITES[site].is_norm || !r.calls || !(value(&r) > 0)) continue;
            low = fmin(low, value(&r));
            high = fmax(high, value(&r));
        }
    if (!(high > 0) || !isfinite(high)) return;
    const double tall = high > low ? (HEIGHT - 20) / log(high / low) : 0, step = (WIDTH - LEFT - 10.0) / p->n_layers;
    fprintf(out,
            "<figure><figcaption>%s</figcaption><svg viewBox=\"0 0 %d %d\"><text x=\"0\" y=\"14\">%.3g</text>"
            "<text x=\"0\" y=\"%d\">%.3g</text>",
            title, WIDTH, HEIGHT, high, HEIGHT - 6, low);
    for (Site site = 0; site < N_SITES; site++) {
        if (!SITES[site].is_norm || site == SITE_FINAL_NORM) continue;
        for (int l = 0, begun = 0; l < p->n_layers; l++) {
            const Record r = profile_record(p, phase, l, site), before = profile_record(p, phase, l ? l - 1 : 0, site);
            if (!r.calls || !(value(&r) > 0)) continue;
            const double x = LEFT + step * (l + 0.5), y = 10 + tall * log(high / value(&r));
            if (begun++ && value(&before) > 0)
                fprintf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", SITES[site].name,
                        x - step, 10 + tall * log(high / value(&before)), x, y);
            fprintf(out,
                    "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\"><title>layer %d %s: %.4g</title></circle>",
                    SITES[site].name, x, y, l, SITES[site].name, value(&r));
        }
    }
    fputs("</svg></figure>\n", out);
}

/* The RMS of the residual stream by layer and position: as dark as it is large, on a logarithmic scale. */
static void write_map(FILE *out, const Profile *p) {
    double low = INFINITY, high = 0;
    for (int l = 0; l < p->n_layers; l++)
        for (int b = 0; b < POSITION_BUCKETS; b++) {
            const double rms = profile_rms_at(p, l, b);
            if (rms > 0) low = fmin(low, rms);
            high = fmax(high, rms);
        }
    if (!(high > low)) return;
    fprintf(out,
            "<h2>RMS of the residual stream in front of attention, by layer and position</h2><p>From %.3g to "
            "%.3g; position 0 at the left, further right each mark holds more positions.</p><div class=\"map\">",
            low, high);
    for (int l = 0; l < p->n_layers; l++) {
        fprintf(out, "<div class=\"row\"><span>layer %d</span><svg viewBox=\"0 0 %d 1\" preserveAspectRatio=\"none\">",
                l, POSITION_BUCKETS);
        for (int b = 0; b < POSITION_BUCKETS; b++) {
            const double rms = profile_rms_at(p, l, b);
            if (rms > 0)
                fprintf(out,
                        "<rect x=\"%d\" width=\"1.02\" height=\"1\" fill-opacity=\"%.3f\"><title>layer %d, from "
                        "position %d: %.4g</title></rect>",
                        b, 0.05 + 0.95 * log(rms / low) / log(high / low), l, (int)bucket_start(b), rms);
        }
        fputs("</svg></div>\n", out);
    }
    fputs("</div>\n", out);
}

/* Microseconds that a plain copy of dim floats takes in the first-level cache. */
static double copy_us(int dim, Clock clock) {
    enum { TIMES = 200 };
    float *x = allocate((size_t)dim, 2 * sizeof *x), *volatile y = x ? x + dim : NULL;
    if (!x) return 0;
    memset(x, 0, (size_t)dim * sizeof *x);
    const uint64_t start = clock.read();
    for (int i = 0; i < TIMES; i++) memcpy(y, x, (size_t)dim * sizeof *x);
    const uint64_t end = clock.read();
    free(x);
    return 1e6 * clock.tick * (double)(end - start) / TIMES;
}

/* ---- the page ---------------------------------------------------------------------------------- */

static void write_share(FILE *out, const Profile *p, Phase phase) {
    const NormShare norms = profile_norm_share(p, phase);
    const Passes *s = &p->passes[phase];
    fprintf(out, "<div><b>%.2f %%</b><br>of %s is norms", 100 * norms.share, PHASE_NAMES[phase]);
    if (norms.high < 1)
        fprintf(out, "<br><small>%.2f to %.2f with 95 %% confidence</small>", 100 * norms.low, 100 * norms.high);
    fprintf(out, "<br><small>%llu forward passes, %llu observed; observing took %.2f %% of the time</small></div>\n",
            (unsigned long long)s->passes, (unsigned long long)s->observed,
            100 * (s->seconds_observed - s->own) / s->seconds);
}

/* A line for each thread: its work, its norms, its waiting. */
static void write_threads(FILE *out, const Profile *p, Phase phase) {
    const int n_threads = p->session->n_threads;
    double(*ms)[3] = allocate((size_t)n_threads, sizeof *ms), most = 0;
    static const char *const names[] = {"work", "norms", "waiting"}, *const kinds[] = {"", "norm", "wait"};
    for (int t = 0; t < n_threads && ms; t++) {
        ms[t][0] = ms[t][1] = ms[t][2] = 0;
        for (int l = NO_LAYER; l < p->n_layers; l++)
            for (Site site = 0; site < N_SITES; site++)
                ms[t][SITES[site].is_norm ? 1
                      : site == SITE_WAIT ? 2
                                          : 0] +=
                    site == SITE_PROFILE ? 0 : 1e3 * profile_of_thread(p, t, phase, l, site)->seconds;
        most = fmax(most, ms[t][0] + ms[t][1] + ms[t][2]);
    }
    for (int t = 0; t < n_threads && ms && most > 0; t++) {
        double start = 0;
        fprintf(out,
                "<div class=\"row\"><span>thread %d</span><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\">",
                t);
        for (int k = 0; k < 3; start += ms[t][k++])
            fprintf(out,
                    "<rect class=\"%s\" x=\"%.2f\" width=\"%.2f\" height=\"10\"><title>thread %d, %s: %.3f "
                    "ms</title></rect>",
                    kinds[k], 1000 * start / most, 1000 * ms[t][k] / most, t, names[k], ms[t][k]);
        fputs("</svg></div>\n", out);
    }
    free(ms);
}

static void write_table(FILE *out, const Profile *p, Phase phase) {
    static const char *const heads[] = {"layer",  "site",    "calls",    "us/token", "median",  "95 %",    "%",
                                        "RMS in", "RMS out", "mean/RMS", "max |x|",  "channel", "position"};
    fputs("<div class=\"scroll\"><table><tr>", out);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) fprintf(out, "<th>%s</th>", heads[i]);
    fputs("</tr>\n", out);
    for (int row = -1; row <= p->n_layers; row++)
        for (Site site = 0; site < N_SITES; site++) {
            const int layer = layer_of(p, row);
            const Record r = profile_record(p, phase, layer, site);
            if (!r.calls || !is_on_row(p, row, site)) continue;
            fprintf(out,
                    "<tr><td>%.*d</td><td>%s</td><td>%llu</td><td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.2f</td>",
                    layer != NO_LAYER, layer == NO_LAYER ? 0 : layer, SITES[site].name, (unsigned long long)r.calls,
                    us(&r), 1e6 * profile_quantile(p, phase, layer, site, 0.5),
                    1e6 * profile_quantile(p, phase, layer, site, 0.95), 100 * r.seconds / p->passes[phase].own);
            if (SITES[site].is_norm)
                fprintf(out, "<td>%.4g</td><td>%.4g</td><td>%.3f</td><td>%.4g</td><td>%d</td><td>%d</td>", rms_in(&r),
                        rms_out(&r), mean_over_rms(&r), largest(&r), r.max_channel, r.max_position);
            fputs("</tr>\n", out);
        }
    fputs("</table></div>\n", out);
}

static void write_phase(FILE *out, const Profile *p, Phase phase) {
    const char *name = PHASE_NAMES[phase];
    const double copy = copy_us(p->session->model->config.dim, p->clock);
    fprintf(out,
            "<h2>%s: time by layer and site</h2><p>As wide as the time of a token. <span class=\"key\" "
            "style=\"background:var(--norm)\">norms</span> <span class=\"key\" style=\"background:var(--site)\">"
            "products, attention (lighter)</span> <span class=\"key\" style=\"background:var(--wait)\">waiting"
            "</span> <span class=\"key\" style=\"background:var(--line)\">observing</span></p>\n",
            name);
    write_bars(out, p, phase, false, 0);
    fprintf(out,
            "<h2>%s: norms alone</h2><p>The mark in a bar is where it would end if it only copied its bytes "
            "(%.3f us).</p>\n",
            name, copy);
    write_bars(out, p, phase, true, copy);
    fprintf(out, "<h2>%s: threads</h2>\n", name);
    write_threads(out, p, phase);
    fprintf(out, "<h2>%s: what norms see</h2><div class=\"few\">\n", name);
    write_curves(out, p, phase, "RMS in", rms_in);
    write_curves(out, p, phase, "RMS out", rms_out);
    write_curves(out, p, phase, "|mean| / RMS", mean_over_rms);
    write_curves(out, p, phase, "largest |x|", largest);
    fprintf(out, "</div><h2>%s: all numbers</h2>\n", name);
    write_table(out, p, phase);
}

void write_page(const Profile *p, FILE *out) {
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
            "content=\"width=device-width,initial-scale=1\"><title>norma: what norms cost</title><style>%s</style>"
            "</head><body>\n<h1>What norms cost: ",
            STYLE);
    write_text(out, p->about.model);
    fputs("</h1><p>", out);
    write_text(out, p->about.norms ? p->about.norms : "its own norms");
    fprintf(out, "; %d layers of dim %d, %s; %d threads; ", p->n_layers, p->session->model->config.dim,
            type_name(p->session->model->embedding.type), p->session->n_threads);
    write_text(out, processor_name());
    fputs("</p><div class=\"large\">\n", out);
    for (Phase phase = 0; phase < N_PHASES; phase++)
        if (p->passes[phase].observed) write_share(out, p, phase);
    fputs("</div>\n", out);
    for (Phase phase = N_PHASES; phase-- > 0;)
        if (p->passes[phase].observed) write_phase(out, p, phase);
    write_map(out, p);
    fputs("</body></html>\n", out);
}
