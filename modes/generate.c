/* generate.c: the mode that continues prompts: one prompt, several samples of
 * it, or the prompts of a file.
 *
 * Owns the choice of texts that run together, each in its own sequence, and the
 * order of the output. Each text is the same as in a separate run with its
 * prompt and seed. If a prompt has several samples, the prompt without its last
 * token runs once, in the last sequence (the root). The samples are forks of
 * the root and start with that last token.
 * Tests: texts, text.
 */
#include "modes/generate.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/ranks.h"
#include "kv_cache.h"
#include "modes/prompts.h"
#include "modes/text.h"
#include "sampler.h"
#include "session.h"
#include "text/stream.h"
#include <math.h>
#include <stdlib.h>

enum {
    /* max texts that run together, if --parallel is not given */
    DEFAULT_PARALLEL = 16,
    MAX_WAITING = 1024 /* max unwritten samples */
};

/* A text and its prompt. */
typedef struct {
    Text text;
    Prompt prompt; /* its ids are not owned */
    bool begun;    /* writing has started */
} Sample;

typedef struct {
    Run *run;
    bool many; /* --samples, --prompts or --json */
    Prompts prompts;
    int n_begun; /* number of samples of the last prompt that have begun */
    /* the prompt without its last id, not owned; empty: each sample runs the
     * whole prompt */
    Text root;
    int parallel;
    /* [parallel + 1]: the text of each sequence, then the root; NULL: free */
    Text *running[MAX_PARALLEL + 1];
    Sample *samples;  /* [MAX_WAITING], owned; sample i is at i % MAX_WAITING */
    int n_samples;    /* number of samples that have begun */
    int n_written;    /* of these, in order */
    double shown;     /* time when progress was last shown, seconds */
    double start;     /* time when the run began, seconds */
    double prefilled; /* time when the first prompt had run, seconds */
    /* numbers of prompt tokens, of positions that ran, of sampled tokens */
    long long n_read, n_ran, n_sampled;
    int n_cut;     /* texts that -n or the context cut */
    bool was_full; /* the context cut the last one of these */
} Generation;

/* ---- the output --------------------------------------------------------- */

static Sample *sample_at(const Generation *g, int i) {
    return &g->samples[i % MAX_WAITING];
}

/* Writes the rest of a sample. */
static int show_sample(Generation *g, Sample *s) {
    char line[64];
    Stream *out = &g->run->out;
    unsigned long long seed = s->text.sampler.options.seed;
    if (!s->begun && g->many)
        stream_write(out, line,
                     snprintf(line, sizeof line, "=== prompt %d, seed %llu\n",
                              s->prompt.line, seed));
    s->begun = true;
    if (text_show(g->run, &s->text))
        return -1;
    if (s->text.ended)
        stream_write(out, "\n", 1);
    return 0;
}

/* Adds a sample to the statistics and frees it. */
static void drop_sample(Generation *g, int i) {
    Text *t = &sample_at(g, i)->text;
    g->n_ran += t->n_ran;
    g->n_sampled += t->ids.n - t->n_prompt;
    if (t->ended == LENGTH && t->ids.n > t->n_prompt) {
        g->n_cut++;
        g->was_full = t->max == g->run->session.context;
    }
    text_free(t);
}

/* Writes finished samples in order, and streams the first unfinished one.
 * Returns -1 if out of memory. */
static int write_samples(Generation *g) {
    bool json = g->run->options->json;
    while (g->n_written < g->n_samples && !texts_stopped(g->run)) {
        Sample *s = sample_at(g, g->n_written);
        if (!json && show_sample(g, s))
            return -1;
        if (!s->text.ended)
            break;
        if (json && text_write_json(g->run, &s->text, s->prompt.line,
                                    s->prompt.text, s->prompt.size))
            return -1;
        drop_sample(g, g->n_written++);
    }
    return 0;
}

/* ---- starting texts ----------------------------------------------------- */

/* Reads the next prompt. Returns 1 for a prompt, 0 if none is left, -1 if out
 * of memory. */
static int next_prompt(Generation *g) {
    int found = prompts_next(&g->prompts);
    const Prompt *prompt = &g->prompts.prompt;
    g->root = (Text){.sequence = g->parallel};
    g->n_begun = 0;
    if (found <= 0)
        return found;
    if (prompt->samples > 1 && prompt->ids.n <= prompt->max) {
        g->root.ids = prompt->ids;
        g->root.ids.n--;
    }
    g->n_read += prompt->ids.n;
    return 1;
}

/* Begins the prompt's next sample in this sequence. Returns NULL if out of
 * memory. */
static Text *add_sample(Generation *g, int sequence) {
    const Options *o = g->run->options;
    const ChatTemplate *template = g->prompts.template;
    const Tokens *prompt = &g->prompts.prompt.ids;
    Sampling sampling = o->sampling;
    Sample *s = sample_at(g, g->n_samples++);
    /* not shown */
    bool begins_with_bos =
        g->run->tokenizer.pieces.n && *prompt->ids == run_first_token(g->run);
    *s = (Sample){.prompt = g->prompts.prompt,
                  .text = {.max = g->prompts.prompt.max,
                           .sequence = sequence,
                           .guesser = g->many ? NULL : &g->run->guesser,
                           .n_decoded = o->no_echo || o->json || template
                                            ? prompt->n
                                            : begins_with_bos}};
    sampling.seed = sample_seed(s->prompt.seed, g->n_begun++);
    if (sampler_open(&s->text.sampler, &sampling,
                     g->run->model.config.vocab_size) ||
        text_append(&s->text, prompt))
        return NULL;
    if (template)
        text_limit(&s->text, o->steps);
    return &s->text;
}

/* Begins samples in all free sequences, unless the root must run first. A
 * sample that ends immediately is written and leaves its sequence free. Returns
 * -1 if out of memory. */
static int begin_samples(Generation *g) {
    for (int i = 0; i < g->parallel; i++)
        while (!g->running[i] && g->n_samples - g->n_written < MAX_WAITING &&
               !texts_stopped(g->run)) {
            int more =
                g->n_begun < g->prompts.prompt.samples ? 1 : next_prompt(g);
            if (more <= 0)
                return more;
            if (g->root.n_ran < g->root.ids.n)
                return 0;
            Text *t = add_sample(g, i);
            if (!t || (g->root.n_ran &&
                       session_fork(&g->run->session, i, g->parallel)))
                return -1;
            t->n_ran = g->root.n_ran;
            if (!t->ended) {
                g->running[i] = t;
                continue;
            }
            sampler_close(&t->sampler);
            if (write_samples(g))
                return -1;
        }
    return 0;
}

/* ---- the run ------------------------------------------------------------ */

/* --parallel or DEFAULT_PARALLEL, limited by -b and by memory: the texts'
 * logits, caches and samplers and the root's cache may use 7/8 of what is
 * available. */
static int choose_parallel(const Run *run, bool answers) {
    const Options *o = run->options;
    const Session *s = &run->session;
    int max = s->context; /* expected positions of a text */
    if (!answers && o->steps)
        max = min_int(max, o->steps > 0 ? o->steps : 512);
    /* plain.c's cache has doubles */
    double cache = (s->plain ? sizeof(double) / sizeof(float) : 1) *
                   kv_bytes(&s->sequences->kv, max, s->context);
    /* logits, and what a Sampler has */
    double each =
        cache + (double)run->model.config.vocab_size * 5 * sizeof(float);
    double left = 0.875 * (double)limits_of("").memory / n_ranks_here - cache;
    double max_parallel = fmin(o->parallel ? o->parallel : DEFAULT_PARALLEL,
                               s->plain ? MAX_PARALLEL : s->batch);
    int parallel = (int)fmax(1, fmin(max_parallel, left / each));
    if (parallel < o->parallel)
        note("--parallel %d: running %d at once, limited by %s", o->parallel,
             parallel, parallel < max_parallel ? "memory" : "-b");
    return parallel;
}

static void show_statistics(const Generation *g) {
    const Run *run = g->run;
    const Sampling *sampling = &run->options->sampling;
    double end = clock_seconds(),
           prefilled = g->prefilled > 0 ? g->prefilled : end;
    if (sampling->temperature > 0)
        fprintf(stderr, "seed %llu; ", (unsigned long long)sampling->seed);
    if (g->many)
        fprintf(
            stderr,
            "prompts: %d (tokens: %lld); texts: %d (tokens: %lld), %.0f tokens/s",
            g->prompts.prompt.line - g->prompts.n_failed, g->n_read,
            g->n_written, g->n_sampled,
            (double)g->n_sampled / (end - g->start));
    else
        fprintf(stderr,
                "prompt tokens: %lld, %.0f tokens/s; generated tokens: %lld",
                g->n_read, (double)g->n_read / (prefilled - g->start),
                g->n_sampled);
    if (!g->many && g->n_ran > g->n_read) /* else no pass was timed */
        fprintf(stderr, ", %.0f tokens/s",
                (double)(g->n_ran - g->n_read) / fmax(end - prefilled, 1e-9));
    if (g->many && g->n_cut)
        fprintf(stderr, "; cut by -n or the context: %d", g->n_cut);
    if (run->guesser.guessed)
        fprintf(stderr, "; %ld of %ld draft tokens accepted",
                run->guesser.accepted, run->guesser.guessed);
    if (run->options->verbose)
        fprintf(stderr, "; threads of decode: %d", run->session.decode_threads);
    fputc('\n', stderr);
}

/* Says what cut the only text; the statistics count many, JSON says it of
 * each, and a profile fills the screen. */
static void report_cut(const Generation *g) {
    const Options *o = g->run->options;
    if (!g->n_cut || g->many || o->profile)
        return;
    if (g->was_full)
        note("the context of %d positions is full, and ends the text",
             g->run->session.context);
    else if (o->steps > 0)
        note("-n %d cuts the text", o->steps);
    else
        note("the text is cut after 256 tokens; -n 0 goes on to its end");
}

/* Writes before each forward pass, so that a prompt is shown before it runs.
 * Returns -1 on failure. */
static int generate(Generation *g, const ChatTemplate *template) {
    int more = 1;
    if (prompts_open(&g->prompts, g->run, template))
        return -1;
    g->parallel = g->many ? choose_parallel(g->run, template) : 1;
    g->samples = allocate_zeroed(MAX_WAITING, sizeof *g->samples);
    if (!g->samples)
        return -1;
    g->running[g->parallel] = &g->root;
    g->start = clock_seconds();
    while (more > 0) {
        if (write_samples(g) || begin_samples(g) || write_samples(g))
            return -1;
        if (g->many && on_terminal(stderr) && !on_terminal(stdout) &&
            clock_seconds() - g->shown >= 0.1) {
            hide_status();
            fprintf(stderr, "texts: %d \r", g->n_written);
            g->shown = clock_seconds();
        }
        more = texts_pass(g->run, g->running, g->parallel + 1);
        if (g->prefilled == 0 && sample_at(g, g->n_written)->text.n_rows)
            g->prefilled = clock_seconds();
        for (int i = 0; i < g->parallel; i++) {
            Text *t = g->running[i];
            if (!t || !t->ended)
                continue;
            sampler_close(&t->sampler);
            g->running[i] = NULL;
        }
    }
    return more;
}

int generate_texts(Run *run, const ChatTemplate *template) {
    const Options *o = run->options;
    Generation g = {.run = run, .many = o->samples || o->prompts || o->json};
    ends_soon = true;
    stream_open(&run->out, stdout);
    int status = generate(&g, template);
    if (g.n_written < g.n_samples && sample_at(&g, g.n_written)->begun)
        stream_write(&run->out, "\n", 1);
    status |= stream_close(&run->out);
    for (int i = g.n_written; i < g.n_samples; i++)
        drop_sample(&g, i);
    hide_status();
    report_cut(&g);
    if (!status && (g.many ? g.n_read : g.n_ran))
        show_statistics(&g);
    int reported = prompts_report(&g.prompts);
    if (reported)
        status = reported;
    prompts_close(&g.prompts);
    free(g.samples);
    return status;
}

int mode_generate(Run *run) {
    const Options *o = run->options;
    bool is_one = !o->samples && !o->json && !o->prompts;
    bool has_text = (o->prompt && *o->prompt) || o->prompt_file;
    if (run->tokenizer.chat_template.n && has_text && is_one)
        note("%s is a chat model, and continues the text; -m chat answers it",
             o->model);
    return generate_texts(run, NULL);
}
