/* generate.c: the mode that continues prompts: one prompt, several samples of it, or the prompts of
 * a file.
 *
 * Owns the choice of texts that run together, each in its own sequence, and the order of the
 * output. Each text is the same as in a separate run with its prompt and seed. If a prompt has
 * several samples, the prompt without its last token runs once, in the last sequence (the root).
 * The samples are forks of the root and start with that last token.
 */
#include "modes/generate.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/ranks.h"
#include "kv_cache.h"
#include "lab/tune.h"
#include "model.h"
#include "modes/common.h"
#include "modes/prompts.h"
#include "modes/text.h"
#include "sampler.h"
#include "text/stream.h"
#include <math.h>
#include <stdlib.h>

enum {
    DEFAULT_PARALLEL =
        16, /* max texts that run together, if --parallel is not given */
    MAX_WAITING = 1024 /* max unwritten samples */
};

/* A text and its prompt. */
typedef struct Sample {
    struct Sample *next; /* in the order of the output */
    Text text;
    Prompt prompt; /* its ids are not owned */
    uint64_t seed;
    bool begun; /* writing has started */
} Sample;

typedef struct {
    Run *run;
    bool many; /* --samples, --prompts or --json */
    int max;   /* positions of a text */
    Prompts prompts;
    int n_begun; /* number of samples of the last prompt that have begun */
    /* the prompt without its last id, not owned; empty: each sample runs the whole prompt */
    Text root;
    int parallel;
    /* [parallel + 1], owned: the text of each sequence, then the root; NULL: free */
    Text **running;
    Sampler *samplers; /* [parallel], owned */
    Sample *first,
        **last; /* list of unwritten samples, owned; the pointer to append to */
    int n_waiting; /* unwritten samples */
    Stream out;
    double shown;     /* time when progress was last shown, seconds */
    double prefilled; /* time when the first prompt had run, seconds */
    int n_texts;      /* number of written texts */
    /* numbers of prompt tokens, of positions that ran, of sampled tokens */
    int64_t n_read, n_ran, n_sampled;
} Generation;

/* ---- the output
 * ----------------------------------------------------------------------------------- */

/* Writes the rest of a sample. */
static int show_sample(Generation *g, Sample *s) {
    char line[64];
    const unsigned long long seed = s->seed;
    if (!s->begun && g->many)
        stream_write(&g->out, line,
                     snprintf(line, sizeof line, "=== prompt %d, seed %llu\n",
                              s->prompt.line, seed));
    s->begun = true;
    if (text_show(g->run, &s->text, &g->out))
        return -1;
    if (s->text.ended)
        stream_write(&g->out, "\n", 1);
    return 0;
}

/* Adds the first sample to the statistics and frees it. */
static void drop_sample(Generation *g) {
    Sample *s = g->first;
    g->first = s->next;
    if (!g->first)
        g->last = &g->first;
    g->n_waiting--;
    g->n_ran += s->text.n_ran;
    g->n_sampled += s->text.ids.n - s->text.n_prompt;
    text_free(&s->text);
    free(s);
}

/* Writes finished samples in order, and streams the first unfinished one. Returns -1 if out of
 * memory. */
static int write_samples(Generation *g) {
    const bool json = g->run->options->json;
    for (Sample *s; (s = g->first) && !texts_stopped(&g->out);) {
        if (!json && show_sample(g, s))
            return -1;
        if (!s->text.ended)
            break;
        if (json && text_write_json(&s->text, s->prompt.line, s->prompt.text,
                                    s->prompt.size, s->seed, &g->out))
            return -1;
        g->n_texts++;
        drop_sample(g);
    }
    return 0;
}

/* ---- starting texts
 * -------------------------------------------------------------------------------- */

/* Reads the next prompt. Returns 1 for a prompt, 0 if none is left, -1 if out of memory. */
static int next_prompt(Generation *g) {
    const int found = prompts_next(&g->prompts);
    const Prompt *prompt = &g->prompts.prompt;
    g->root = (Text){.sequence = g->parallel};
    g->n_begun = 0;
    if (found <= 0)
        return found;
    if (prompt->samples > 1 && prompt->ids.n <= g->max) {
        g->root.ids = prompt->ids;
        g->root.ids.n--;
    }
    g->n_read += prompt->ids.n;
    return 1;
}

/* Begins the prompt's next sample in this sequence. Returns NULL if out of memory. */
static Text *add_sample(Generation *g, int sequence) {
    const Options *o = g->run->options;
    const ChatTemplate *template = g->prompts.template;
    const Tokens *prompt = &g->prompts.prompt.ids;
    Sampler *sampler = &g->samplers[sequence];
    /* not shown */
    const bool begins_with_bos =
        g->run->tokenizer.pieces.n && *prompt->ids == run_first_token(g->run);
    if (!sampler->p &&
        sampler_open(sampler, &o->sampling, g->run->model.config.vocab_size))
        return NULL;
    Sample *s = allocate_zeroed(1, sizeof *s);
    if (!s)
        return NULL;
    *g->last = s;
    g->last = &s->next;
    g->n_waiting++;
    s->prompt = g->prompts.prompt;
    s->seed = sample_seed(s->prompt.seed, g->n_begun++);
    s->text = (Text){.max = g->max,
                     .sequence = sequence,
                     .end = template ? template->end : -1,
                     .sampler = sampler,
                     .guesser = g->many ? NULL : &g->run->guesser,
                     .n_decoded = o->no_echo || o->json || template
                                      ? prompt->n
                                      : begins_with_bos};
    sampler_restart(sampler, s->seed);
    if (text_append(&s->text, prompt))
        return NULL;
    if (template)
        text_limit(&s->text, o->steps);
    return &s->text;
}

/* Begins samples in all free sequences, unless the root must run first. A sample that ends
 * immediately is written and leaves its sequence free. Returns -1 if out of memory. */
static int begin_samples(Generation *g) {
    for (int i = 0; i < g->parallel; i++)
        while (!g->running[i] && g->n_waiting < MAX_WAITING &&
               !texts_stopped(&g->out)) {
            const int more =
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
            if (!t->ended)
                g->running[i] = t;
            else if (write_samples(g))
                return -1;
        }
    return 0;
}

/* ---- the run
 * --------------------------------------------------------------------------------------- */

/* --parallel or DEFAULT_PARALLEL, limited by -b and by memory: the texts' logits, caches and
 * samplers and the root's cache may use 7/8 of what is available. */
static int choose_parallel(const Run *run, int max) {
    const Options *o = run->options;
    const Session *s = &run->session;
    const double cache = kv_bytes(&s->sequences->kv, max, s->context);
    const double each =
        cache + (double)run->model.config.vocab_size *
                    (double)(sizeof(HeapItem) + 2 * sizeof(float));
    const double left =
        0.875 * (double)memory_available("") / n_ranks_here - cache;
    const double max_parallel =
        fmin(o->parallel ? o->parallel : DEFAULT_PARALLEL, s->batch);
    const int parallel = (int)fmax(1, fmin(max_parallel, left / each));
    if (parallel < o->parallel)
        note("--parallel %d: running %d at once, limited by %s", o->parallel,
             parallel, parallel < max_parallel ? "memory" : "-b");
    return parallel;
}

static int open_generation(Generation *g, const ChatTemplate *template) {
    g->last = &g->first;
    if (prompts_open(&g->prompts, g->run, template))
        return -1;
    g->parallel = g->many ? choose_parallel(g->run, g->max) : 1;
    g->running = allocate_zeroed((size_t)g->parallel + 1, sizeof(Text *));
    g->samplers =
        g->running ? allocate_zeroed(g->parallel, sizeof *g->samplers) : NULL;
    if (!g->samplers)
        return -1;
    g->running[g->parallel] = &g->root;
    return 0;
}

static void show_statistics(const Generation *g, double start, double end) {
    const Run *run = g->run;
    const Guesser *guesser = &run->guesser;
    const Sampling *sampling = &run->options->sampling;
    const long long read = g->n_read, decoded = g->n_ran - g->n_read;
    if (sampling->temperature > 0)
        fprintf(stderr, "seed %llu; ", (unsigned long long)sampling->seed);
    if (g->many)
        fprintf(
            stderr,
            "prompts: %d (tokens: %lld); texts: %d (tokens: %lld), %.0f tokens/s",
            g->prompts.prompt.line - g->prompts.n_failed, read, g->n_texts,
            (long long)g->n_sampled, (double)g->n_sampled / (end - start));
    else
        fprintf(
            stderr,
            "prompt tokens: %lld, %.0f tokens/s; generated tokens: %lld, %.0f tokens/s",
            read, (double)read / (g->prefilled - start), decoded,
            (double)decoded / fmax(end - g->prefilled, 1e-9));
    if (guesser->guessed)
        fprintf(stderr, "; %ld of %ld draft tokens accepted", guesser->accepted,
                guesser->guessed);
    if (run->options->verbose)
        fprintf(stderr, "; decode: %s", tuning_text(&run->tuning));
    fputc('\n', stderr);
}

/* Writes before each forward pass, so that a prompt is shown before it runs. Returns -1 on
 * failure. */
static int generate(Generation *g) {
    int more = 1;
    while (more > 0) {
        if (write_samples(g) || begin_samples(g) || write_samples(g))
            return -1;
        if (g->many && on_terminal(stderr) && !on_terminal(stdout) &&
            now() - g->shown >= 0.1) {
            fprintf(stderr, "texts: %d \r", g->n_texts);
            g->shown = now();
        }
        more = texts_pass(g->run, g->running, g->parallel + 1, &g->out);
        if (g->prefilled == 0 && g->first && g->first->text.n_rows)
            g->prefilled = now();
        for (int i = 0; i < g->parallel; i++)
            if (g->running[i] && g->running[i]->ended)
                g->running[i] = NULL;
    }
    return more;
}

int generate_texts(Run *run, const ChatTemplate *template) {
    const Options *o = run->options;
    Generation g = {.run = run,
                    .many = o->samples || o->prompts || o->json,
                    .max = template ? run->session.context : run_steps(run)};
    stream_open(&g.out, stdout);
    int status = open_generation(&g, template);
    const double start = now();
    if (!status)
        status = generate(&g);
    const double end = now();
    if (g.prefilled == 0)
        g.prefilled = end;
    if (g.first && g.first->begun)
        stream_write(&g.out, "\n", 1);
    if (stream_close(&g.out))
        status = -1;
    while (g.first)
        drop_sample(&g);
    if (!status && (g.many ? g.n_read : g.n_ran))
        show_statistics(&g, start, end);
    if (prompts_report(&g.prompts))
        status = -1;
    prompts_close(&g.prompts);
    for (int i = 0; g.samplers && i < g.parallel; i++)
        sampler_close(&g.samplers[i]);
    free(g.samplers);
    free(g.running);
    return status;
}

int mode_generate(Run *run) {
    return generate_texts(run, NULL);
}
