/* report.c: the table on stderr, the CSV file and the trace file of --profile. */
#include "base/error.h"
#include "base/file.h"
#include "lab/profile.h"
#include <math.h>
#include <string.h>

const char TABLE_ALONE[] = "";

/* A row of the table or of the CSV file. Shares are those of the time without what observing took. */
static void write_row(FILE *out, bool csv, const Profile *p, Phase phase, int layer, Site site, const Record *r) {
    const double tokens = (double)r->tokens, us = 1e6 * r->seconds / tokens, own = p->passes[phase].own;
    const double share = site == SITE_PROFILE ? 0 : r->seconds / own;
    const double rate = 1e-9 * r->bytes / (r->seconds > 0 ? r->seconds : 1);
    const double median = 1e6 * profile_quantile(p, phase, layer, site, 0.5);
    const double p95 = 1e6 * profile_quantile(p, phase, layer, site, 0.95);
    const double norm_in = sqrt(r->squares_in / tokens), norm_out = sqrt(r->squares_out / tokens), max = r->max_abs;
    const double mean = r->vectors ? r->means / (double)r->vectors : 0;
    const unsigned long long calls = r->calls;
    const char *name = SITES[site].name;
    char number[16] = "";
    if (layer != NO_LAYER) snprintf(number, sizeof number, "%d", layer);
    if (csv) {
        fprintf(out, "%s,%s,%s,%llu,%.0f,%.9f,%.4f,%.4f,%.4f,%.6f,%.9f,%.0f,%.4f,", PHASE_NAMES[phase], number, name,
                calls, tokens, r->seconds, us, median, p95, share, r->waited, r->bytes, rate);
        if (SITES[site].is_norm)
            fprintf(out, "%.6g,%.6g,%.6g,%.6g,%d,%d\n", norm_in, norm_out, mean, max, r->max_channel, r->max_position);
        else
            fputs(",,,,,\n", out);
        return;
    }
    fprintf(out, "%5s  %-12s %7llu %9.2f %9.2f %9.2f %6.2f", number, name, calls, us, median, p95, 100 * share);
    if (r->bytes > 0) fprintf(out, " %7.1f", rate);
    if (SITES[site].is_norm)
        fprintf(out, " %9.4g %9.4g %8.3f %9.4g at %d, %d", norm_in, norm_out, mean, max, r->max_position,
                r->max_channel);
    fputc('\n', out);
}

/* The sites that ran, in the order of the forward pass. */
static void write_rows(FILE *out, bool csv, const Profile *p, Phase phase) {
    for (int l = -1; l <= p->n_layers; l++)
        for (Site site = 0; site < N_SITES; site++) {
            const int layer = l < p->n_layers ? l : NO_LAYER;
            if (layer == NO_LAYER && (site <= SITE_EMBED) != (l < 0)) continue; /* in front of the layers, behind */
            const Record r = profile_record(p, phase, layer, site);
            if (r.calls) write_row(out, csv, p, phase, layer, site, &r);
        }
}

static void write_sums(const Profile *p, Phase phase, FILE *out) {
    const Passes *s = &p->passes[phase];
    const double parts = profile_seconds(p, phase, false);
    fprintf(out, "parts: %.3f ms, %.1f %% of the %.3f ms of %llu forward passes", 1e3 * parts,
            100 * parts / s->seconds_observed, 1e3 * s->seconds_observed, (unsigned long long)s->observed);
    if (s->observed < s->passes) fprintf(out, ", one in %.0f observed", (double)s->passes / (double)s->observed);
    fprintf(out, "; observing took %.2f %% of %s\n", 100 * (s->seconds_observed - s->own) / s->seconds,
            PHASE_NAMES[phase]);
}

static void write_table(const Profile *p, FILE *out) {
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        if (!p->passes[phase].observed) continue;
        fprintf(out, "\n%s\n%5s  %-12s %7s %9s %9s %9s %6s %7s %9s %9s %8s %9s\n", PHASE_NAMES[phase], "layer", "site",
                "calls", "us/token", "median", "95 %", "%", "GB/s", "RMS in", "RMS out", "mean/RMS",
                "max |x| at position, channel");
        write_rows(out, false, p, phase);
        write_sums(p, phase, out);
    }
    const char *separator = "norms: ";
    for (Phase phase = 0; phase < N_PHASES; phase++)
        if (p->passes[phase].observed) {
            const NormShare norms = profile_norm_share(p, phase);
            fprintf(out, "%s%.2f %% of %s", separator, 100 * norms.share, PHASE_NAMES[phase]);
            if (norms.high < 1) fprintf(out, " (%.2f to %.2f)", 100 * norms.low, 100 * norms.high);
            separator = ", ";
        }
    fputc('\n', out);
}

static void write_csv(const Profile *p, FILE *out) {
    fputs("phase,layer,site,calls,tokens,seconds,us_per_token,us_median,us_95,share,waited,bytes,gb_per_s,"
          "rms_in,rms_out,mean_over_rms,max_abs,max_channel,max_position\n",
          out);
    for (Phase phase = 0; phase < N_PHASES; phase++) write_rows(out, true, p, phase);
}

static void write_span(FILE *out, const Profile *p, int thread, const char *name, uint64_t start, uint64_t end) {
    const double us = 1e6 * p->clock.tick;
    fprintf(out, ",\n{\"name\": \"%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f}", name,
            thread, us * (double)(start - p->opened), us * (double)(end - start));
}

/* Whether an event that is not the track's first begins a forward pass. Only the first thread has SITE_STARTs: one in
 * front, one behind. */
static bool begins_pass(const Event *e, const Event *end) {
    return e->site == SITE_START ? e + 1 < end && e[1].site == SITE_EMBED
                                 : e->site == SITE_EMBED && e[-1].site != SITE_START;
}

static void write_track(FILE *out, const Profile *p, int thread) {
    char name[32];
    fprintf(out, ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, ", thread);
    fprintf(out, "\"args\": {\"name\": \"thread %d\"}}", thread);
    const Event *e = p->events + (size_t)thread * MOST_EVENTS, *end = e + p->tracks[thread].n_events;
    for (const Event *pass_end = e, *layer_end = e; e < end; e++) {
        if (e == pass_end) {
            for (pass_end++; pass_end < end && !begins_pass(pass_end, end);) pass_end++;
            write_span(out, p, thread, "forward", e->start, pass_end[-1].end);
        }
        if (e == layer_end) {
            while (layer_end < pass_end && layer_end->layer == e->layer) layer_end++;
            snprintf(name, sizeof name, "layer %d", e->layer);
            if (e->layer != NO_LAYER) write_span(out, p, thread, name, e->start, layer_end[-1].end);
        }
        write_span(out, p, thread, SITES[e->site].name, e->start, e->end);
    }
}

static void write_trace(const Profile *p, FILE *out) {
    fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n"
          "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"norma\"}}",
          out);
    for (int t = 0; t < p->session->n_threads; t++) write_track(out, p, t);
    fputs("\n]}\n", out);
    if (p->tracks[0].n_events == MOST_EVENTS) note("the trace holds the first %d events of each thread", MOST_EVENTS);
}

ProfileFormat profile_format(const char *path) {
    if (path == TABLE_ALONE) return PROFILE_TABLE;
    const char *dot = strrchr(path, '.');
    if (!dot) return PROFILE_NONE;
    return !strcmp(dot, ".csv")    ? PROFILE_CSV
           : !strcmp(dot, ".html") ? PROFILE_PAGE
           : !strcmp(dot, ".json") ? PROFILE_TRACE
                                   : PROFILE_NONE;
}

int profile_report(const Profile *p, const char *path) {
    write_table(p, stderr);
    if (profile_format(path) == PROFILE_TABLE) return 0;
    OutputFile out;
    if (output_open(&out, path)) return -1;
    switch (profile_format(path)) {
    case PROFILE_CSV: write_csv(p, out.stream); break;
    case PROFILE_PAGE: write_page(p, out.stream); break;
    case PROFILE_TRACE: write_trace(p, out.stream); break;
    case PROFILE_NONE:
    case PROFILE_TABLE: break;
    }
    return output_close(&out, true);
}
