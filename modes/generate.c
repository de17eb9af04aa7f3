/* generate.c: the mode that continues prompts: one prompt, several samples of it, or the prompts of a file.
 *
 * Owns the choice of texts that run together, each in its own sequence, and the order of the output. Each text is the
 * same as in a separate run with its prompt and seed. If a prompt has several samples, the prompt without its last
 * token runs once, in the last sequence (the root). The samples are forks of the root and start with that last token.
 */
#include "base/memory.h"
#include "base/process.h"
#include "base/ranks.h"
#include "formats/json.h"
#include "kv_cache.h"
#include "lab/tune.h"
#include "model.h"
#include "modes/common.h"
#include "modes/prompts.h"
#include "modes/text.h"
#include "sampler.h"
#include "text/stream.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_PARALLEL = 16, /* max texts that run together, if --parallel is not given */
    MAX_WAITING = 1024     /* max unwritten samples */
};

/* A text and its prompt. */
typedef struct Sample {
    struct Sample *next; /* in the order of the output */
    Text text;
    Prompt prompt; /* its ids are the first prompt.ids.n ids of `text`; not owned */
    uint64_t seed;
    bool begun; /* writing has started */
} Sample;

typedef struct {
    Run *run;
    bool many; /* --samples, --prompts or --json */
    int max;   /* positions of a text */
    Prompts prompts;
    Prompt prompt; /* the last prompt read; its ids are owned */
    int n_begun;   /* number of samples of `prompt` that have begun */
    Text root;     /* the prompt without its last id, not owned; empty: each sample runs the whole prompt */
    int parallel;
    Text **running;        /* [parallel + 1], owned: the text of each sequence, then the root; NULL: free */
    Sampler *samplers;     /* [parallel], owned */
    Sample *first, **last; /* list of unwritten samples, owned; the pointer to append to */
    int n_waiting;         /* unwritten samples */
    Stream out;
    double shown;                     /* time when progress was last shown, seconds */
    double prefilled;                 /* time after the first forward pass, seconds */
    int n_texts;                      /* number of written texts */
    int64_t n_read, n_ran, n_sampled; /* numbers of prompt tokens, of positions that ran, of sampled tokens */
} Generation;

/* ---- the output ----------------------------------------------------------------------------------- */

/* Writes the rest of a sample. */
static void show_sample(Generation *g, Sample *s) {
    char line[64];
    const unsigned long long seed = s->seed;
    if (!s->begun && g->many)
        stream_write(&g->out, line, snprintf(line, sizeof line, "=== prompt %d, seed %llu\n", s->prompt.line, seed));
    s->begun = true;
    text_show(g->run, &s->text, &g->out);
    if (s->text.ended) stream_write(&g->out, "\n", 1);
}

static void write_string(FILE *out, const char *s, size_t left) {
    putc('"', out);
    for (size_t n; left > 0; s += n, left -= n) fputs(json_escape(s, left, &n), out);
    putc('"', out);
}

static int n_sampled(const Sample *s) { return s->text.ids.n > s->prompt.ids.n ? s->text.ids.n - s->prompt.ids.n : 0; }

/* Writes a finished sample as a line with a JSON object. Returns -1 if out of memory. */
static int write_object(Generation *g, const Sample *s) {
    const Tokens *ids = &s->text.ids;
    Buffer text = {0};
    char *line = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&line, &size); /* a single write, so that Ctrl-C leaves no partial line */
    if (!out) return fail("out of memory");
    for (int i = s->text.n_shown, n; i < ids->n; i++) {
        const char *bytes = run_token_text(g->run, ids, i, &n);
        buffer_append(&text, bytes, (size_t)n);
    }
    fprintf(out, "{\"index\": %d, \"prompt\": ", s->prompt.line);
    write_string(out, s->prompt.text, s->prompt.size);
    fputs(", \"text\": ", out);
    write_string(out, text.bytes, text.n);
    fprintf(out, ", \"seed\": %llu, \"tokens\": %d, \"finish_reason\": \"%s\"}\n", (unsigned long long)s->seed,
            n_sampled(s), s->text.ended == STOP ? "stop" : "length");
    const bool failed = fclose(out) || text.failed;
    if (!failed && write_whole(fileno(stdout), line, size)) g->out.error = errno;
    free(text.bytes);
    free(line);
    return failed ? -1 : 0;
}

/* Adds the first sample to the statistics and frees it. */
static void drop_sample(Generation *g) {
    Sample *s = g->first;
    g->first = s->next;
    if (!g->first) g->last = &g->first;
    g->n_waiting--;
    g->n_ran += s->text.n_ran;
    g->n_sampled += n_sampled(s);
    free(s->text.ids.ids);
    free(s);
}

/* Writes finished samples in order, and streams the first unfinished one. Returns -1 if out of memory. */
static int write_samples(Generation *g) {
    const bool json = g->run->options->json;
    for (Sample *s; (s = g->first) && !texts_stopped(&g->out);) {
        if (!json) show_sample(g, s);
        if (!s->text.ended) break;
        if (json && write_object(g, s)) return -1;
        g->n_texts++;
        drop_sample(g);
    }
    return 0;
}

/* ---- starting texts -------------------------------------------------------------------------------- */

/* Reads the next prompt. Returns 1 for a prompt, 0 if none is left, -1 if out of memory. */
static int next_prompt(Generation *g) {
    free(g->prompt.ids.ids);
    const int found = prompts_next(&g->prompts, &g->prompt), n = g->prompt.ids.n;
    const bool has_root = g->prompt.samples > 1 && n > 1 && n <= g->max;
    g->root = (Text){.ids = {.ids = g->prompt.ids.ids, .n = has_root ? n - 1 : 0}, .sequence = g->parallel};
    g->n_begun = 0;
    g->n_read += n;
    return found;
}

/* Begins the prompt's next sample in this sequence. Returns NULL if out of memory. */
static Text *add_sample(Generation *g, int sequence) {
    const Options *o = g->run->options;
    Sampler *sampler = &g->samplers[sequence];
    if (!sampler->p && sampler_open(sampler, &o->sampling, g->run->model.config.vocab_size)) return NULL;
    Sample *s = allocate_zeroed(1, sizeof *s);
    if (!s) return NULL;
    *g->last = s;
    g->last = &s->next;
    g->n_waiting++;
    s->prompt = g->prompt;
    s->seed = sample_seed(g->prompt.seed, g->n_begun++);
    s->text = (Text){.max = g->max,
                     .sequence = sequence,
                     .end = -1,
                     .sampler = sampler,
                     .guesser = g->many ? NULL : &g->run->guesser,
                     .n_shown = o->no_echo ? g->prompt.ids.n : run_first_shown(g->run, &g->prompt.ids)};
    sampler_restart(sampler, s->seed);
    return text_append(&s->text, &g->prompt.ids) ? NULL : &s->text;
}

/* Begins samples in all free sequences, unless the root must run first. A sample that ends immediately is written and
 * leaves its sequence free. Returns -1 if out of memory. */
static int begin_samples(Generation *g) {
    for (int i = 0; i < g->parallel; i++)
        while (!g->running[i] && g->n_waiting < MAX_WAITING && !texts_stopped(&g->out)) {
            const int more = g->n_begun < g->prompt.samples ? 1 : next_prompt(g);
            if (more <= 0) return more;
            if (g->root.n_ran < g->root.ids.n) return 0;
            Text *t = add_sample(g, i);
            if (!t || (g->root.n_ran && session_fork(&g->run->session, i, g->parallel))) return -1;
            t->n_ran = g->root.n_ran;
            if (!t->ended)
                g->running[i] = t;
            else if (write_samples(g))
                return -1;
        }
    return 0;
}

/* ---- the run --------------------------------------------------------------------------------------- */

/* --parallel or DEFAULT_PARALLEL, limited by -b and by memory: the texts' logits, caches and samplers and the root's
 * cache may use 7/8 of what is available. */
static int choose_parallel(const Run *run, int max) {
    const Options *o = run->options;
    const Session *s = &run->session;
    const size_t sampled = sizeof(HeapItem) + 2 * sizeof(float);
    const double cache = kv_bytes(&s->sequences->kv, max, s->context);
    const double each = cache + (double)run->model.config.vocab_size * (double)sampled;
    const double left = 0.875 * (double)memory_available("") / ranks_here() - cache;
    const int requested = o->parallel ? o->parallel : DEFAULT_PARALLEL,
              max_parallel = requested < s->batch ? requested : s->batch;
    const int parallel = left >= each * max_parallel ? max_parallel : left >= each ? (int)(left / each) : 1;
    if (parallel < o->parallel)
        note("--parallel %d: running %d at once, limited by %s", requested, parallel,
             parallel < max_parallel ? "memory" : "-b");
    return parallel;
}

static int open_generation(Generation *g) {
    g->last = &g->first;
    if (prompts_open(&g->prompts, g->run)) return -1;
    g->parallel = g->many ? choose_parallel(g->run, g->max) : 1;
    g->running = allocate_zeroed((size_t)g->parallel + 1, sizeof(Text *));
    g->samplers = g->running ? allocate_zeroed((size_t)g->parallel, sizeof *g->samplers) : NULL;
    if (!g->samplers) return -1;
    g->running[g->parallel] = &g->root;
    return g->many ? session_reserve(&g->run->session, g->parallel + 1) : 0;
}

static void close_generation(Generation *g) {
    free(g->prompt.ids.ids);
    prompts_close(&g->prompts);
    for (int i = 0; g->samplers && i < g->parallel; i++) sampler_close(&g->samplers[i]);
    free(g->samplers);
    free(g->running);
}

/* Shows progress on a terminal, unless the texts are written to it. */
static void show_progress(Generation *g, bool end) {
    const double interval = 0.1; /* seconds */
    if (!g->many || !on_terminal(stderr) || on_terminal(stdout) || (!end && now() - g->shown < interval)) return;
    fprintf(stderr, "\rtexts: %d%s", g->n_texts, end ? "\n" : " ");
    g->shown = now();
}

static const char *plural(long long n) { return n == 1 ? "" : "s"; }

static void show_statistics(const Generation *g, double start, double end) {
    const Guesser *guesser = &g->run->guesser;
    const long long read = g->n_read, decoded = g->n_ran - g->n_read;
    const Sampling *sampling = &g->run->options->sampling;
    if (sampling->temperature > 0) fprintf(stderr, "seed %llu; ", (unsigned long long)sampling->seed);
    if (g->many) {
        fprintf(stderr, "prompts: %d (tokens: %lld); texts: %d (tokens: %lld), %.0f tokens/s",
                g->prompts.line - g->prompts.n_failed, read, g->n_texts, (long long)g->n_sampled,
                (double)g->n_sampled / (end - start));
    } else {
        fprintf(stderr, "prompt: %lld token%s, %.0f tokens/s", read, plural(read),
                (double)read / (g->prefilled - start));
        if (decoded > 0)
            fprintf(stderr, "; generation: %lld token%s, %.0f tokens/s", decoded, plural(decoded),
                    (double)decoded / (end - g->prefilled));
    }
    if (guesser->guessed)
        fprintf(stderr, "; %ld of %ld draft tokens accepted, %.2f tokens per pass", guesser->accepted, guesser->guessed,
                (double)decoded / (double)guesser->passes);
    fputc('\n', stderr);
    if (g->run->options->verbose && (g->many || decoded > 0)) fprintf(stderr, "%s\n", tuning_text(&g->run->tuning));
}

/* Writes before each forward pass, so that a prompt is shown before it runs. Returns -1 on failure. */
static int generate(Generation *g) {
    int more = 1;
    while (more > 0) {
        if (write_samples(g) || begin_samples(g) || write_samples(g)) return -1;
        show_progress(g, false);
        more = texts_pass(g->run, g->running, g->parallel + 1, &g->out);
        if (g->prefilled == 0) g->prefilled = now();
        for (int i = 0; i < g->parallel; i++)
            if (g->running[i] && g->running[i]->ended) g->running[i] = NULL;
    }
    return more;
}

int mode_generate(Run *run) {
    const Options *o = run->options;
    Generation g = {.run = run, .many = o->samples || o->prompts || o->json, .max = run_steps(run)};
    stream_open(&g.out, stdout);
    int status = open_generation(&g);
    const double start = now();
    if (!status) status = generate(&g);
    const double end = now();
    if (g.first && g.first->begun) stream_write(&g.out, "\n", 1);
    if (stream_close(&g.out)) status = -1;
    show_progress(&g, true);
    while (g.first) drop_sample(&g);
    if (!status && (g.many ? g.n_read : g.n_ran)) show_statistics(&g, start, end);
    if (prompts_report(&g.prompts)) status = -1;
    close_generation(&g);
    return status;
}
