/* trace.c: a profile as a trace for Perfetto and similar viewers (Chrome's trace event format, JSON). */
#include "base/error.h"
#include "lab/profile.h"

/* Writes a span without its closing brace: arguments may follow. */
static void write_span(FILE *out, const Profile *p, int thread, const char *name, const char *category, uint64_t start,
                       uint64_t end) {
    const double us = 1e-3;
    fprintf(out, ",\n{\"name\": \"%s\", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": %d, ", name, category,
            thread);
    fprintf(out, "\"ts\": %.3f, \"dur\": %.3f", us * (double)(start - p->opened), us * (double)(end - start));
}

static void write_site(FILE *out, const Profile *p, int thread, const Event *e) {
    const SiteInfo *site = &SITES[e->site];
    const double bytes = site_bytes(p, e->layer, e->site, e->tokens, 1) + (double)e->chunk_bytes;
    const char *category = site->is_norm ? "norm" : *site->name == '(' ? "other" : "product";
    write_span(out, p, thread, site->name, category, e->start, e->end);
    fprintf(out, ", \"args\": {\"phase\": \"%s\", \"position\": %d, \"tokens\": %d", PHASE_NAMES[e->phase], e->position,
            e->tokens);
    if (bytes > 0) fprintf(out, ", \"bytes\": %.0f", bytes);
    if (e->rms > 0) fprintf(out, ", \"rms\": %.6g", (double)e->rms);
    fputs("}}", out);
}

/* Counters at the start of a forward pass: the share of norms, and the RMS before each layer. */
static void write_counters(FILE *out, const Profile *p, const Event *begin, const Event *end) {
    double norms = 0, all = 0;
    const char *separator = "";
    for (const Event *e = begin; e < end; e++) {
        const double ticks = (double)(e->end - e->start);
        if (e->site != SITE_PROFILE) all += ticks;
        if (SITES[e->site].is_norm) norms += ticks;
    }
    const double us = 1e-3 * (double)(begin->start - p->opened);
    fprintf(out, ",\n{\"name\": \"norms, %%\", \"ph\": \"C\", \"pid\": 1, \"ts\": %.3f, \"args\": {\"share\": %.3f}}",
            us, all > 0 ? 100 * norms / all : 0);
    fprintf(out, ",\n{\"name\": \"RMS by layer\", \"ph\": \"C\", \"pid\": 1, \"ts\": %.3f, \"args\": {", us);
    for (const Event *e = begin; e < end; e++) {
        if (e->site != SITE_ATTN_NORM || !(e->rms > 0)) continue;
        fprintf(out, "%s\"%d\": %.6g", separator, e->layer, (double)e->rms);
        separator = ", ";
    }
    fputs("}}", out);
}

/* Whether an event, not the first of its track, begins the forward pass of a chunk. */
static bool begins_chunk(const Event *e) {
    return e->site == SITE_START || (e->site == SITE_EMBED && e[-1].site != SITE_START);
}

static void write_track(FILE *out, const Profile *p, int thread) {
    char name[32];
    fprintf(out, ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, ", thread);
    fprintf(out, "\"args\": {\"name\": \"thread %d\"}}", thread);
    const Event *e = p->events + (size_t)thread * p->max_events, *end = e + p->tracks[thread].n_events;
    for (const Event *chunk_end = e, *layer_end = e; e < end; e++) {
        if (e == chunk_end) {
            do chunk_end++;
            while (chunk_end < end && !begins_chunk(chunk_end));
            write_span(out, p, thread, "forward", "pass", e->start, chunk_end[-1].end);
            fputc('}', out);
            if (thread == 0) write_counters(out, p, e, chunk_end);
        }
        if (e == layer_end) {
            while (layer_end < chunk_end && layer_end->layer == e->layer) layer_end++;
            snprintf(name, sizeof name, "layer %d", e->layer);
            if (e->layer != NO_LAYER) {
                write_span(out, p, thread, name, "layer", e->start, layer_end[-1].end);
                fputc('}', out);
            }
        }
        write_site(out, p, thread, e);
    }
}

void write_trace(const Profile *p, FILE *out) {
    fputs("{\"displayTimeUnit\": \"ns\", \"otherData\": {", out);
    write_about(out, &p->about);
    fputs("}, \"traceEvents\": [\n"
          "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"norma\"}}",
          out);
    for (int t = 0; t < p->session->n_threads; t++) write_track(out, p, t);
    fputs("\n]}\n", out);
    if (p->tracks[0].n_events == p->max_events)
        note("the trace holds the first %zu events of each thread", p->max_events);
}
