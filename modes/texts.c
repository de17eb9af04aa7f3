/* texts.c: many texts in one run: samples of a prompt, prompts of a file.
 *
 * Owns which texts run side by side, each in a sequence of its own, and the order in which they come out. A forward
 * pass takes a step of every text that runs, and the prompts of those that begin. Each text is, to the last byte, what
 * generate.c writes with its prompt and its seed. Of several samples the prompt runs once, without its last token, in
 * the sequence behind those of the texts, the root; samples fork from there, and begin with that token.
 */
#include "modes/texts.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/ranks.h"
#include "formats/json.h"
#include "formats/parts.h"
#include "kv_cache.h"
#include "lab/tune.h"
#include "model.h"
#include "modes/common.h"
#include "modes/prompts.h"
#include "sampler.h"
#include "text/merges.h"
#include "text/stream.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    USUAL_PARALLEL = 16,    /* texts side by side, unless --parallel says otherwise */
    MAX_WAITING = 1024,     /* texts that have not come out */
    WORTH_SHARING = 1 << 16 /* logits: one thread samples from fewer before a second one has started */
};

typedef struct Text {
    struct Text *next; /* in the order in which they come out */
    const char *prompt;
    size_t prompt_size;
    int line; /* the prompt's */
    uint64_t seed;
    Sampler sampler;
    Tokens ids;   /* the prompt, and what was sampled */
    int n_prompt; /* of them */
    int n_ran, n_shown;
    int row, token; /* of its logits in this pass, and what was sampled from them */
    bool begun;
    const char *ended; /* why; NULL: it runs */
} Text;

typedef struct {
    Run *run;
    int steps; /* most positions of a text */
    Prompts prompts;
    Prompt prompt;                                   /* whose samples begin, */
    int n_begun;                                     /* and how many of them have */
    enum { NO_ROOT, ROOT_WAITS, ROOT_HAS_RUN } root; /* of it */
    int parallel;
    Text **running;      /* [parallel], by sequence; NULL: the next text may have it; owned */
    Text *first, **last; /* the texts that have not come out, and where the next one goes; owned */
    int n_waiting;       /* of them */
    Step *batch;         /* owned */
    int room;            /* of batch */
    Stream out;
    double said;       /* when the last progress was shown */
    int n_prompts;     /* that ran, */
    int64_t n_read;    /* tokens of them, */
    int n_texts;       /* that ended, */
    int64_t n_sampled; /* tokens of all */
} Texts;

static bool is_stopped(const Texts *m) { return interrupted || m->out.error; }

/* ---- texts that come out ------------------------------------------------------------------------- */

/* Writes what there is of the first text. */
static void show_text(Texts *m, Text *t) {
    char line[64];
    if (!t->begun)
        stream_write(&m->out, line,
                     snprintf(line, sizeof line, "=== prompt %d, seed %llu\n", t->line, (unsigned long long)t->seed));
    t->begun = true;
    for (; t->n_shown < t->ids.n; t->n_shown++)
        run_show_token(m->run, &m->out, t->n_shown ? t->ids.ids[t->n_shown - 1] : -1, t->ids.ids[t->n_shown]);
    if (t->ended) stream_write(&m->out, "\n", 1);
}

static void append_string(Buffer *to, const char *key, const char *s, size_t left) {
    buffer_append(to, key, strlen(key));
    buffer_append(to, "\"", 1);
    for (size_t n; left > 0; s += n, left -= n) {
        const char *character = json_escape(s, left, &n);
        buffer_append(to, character, strlen(character));
    }
    buffer_append(to, "\"", 1);
}

/* Writes a text that has ended as an object, on a line of its own. -1: no memory. */
static int write_object(Texts *m, const Text *t) {
    Buffer text = {0};
    char numbers[96];
    for (int i = t->n_shown, n; i < t->ids.n; i++) {
        const char *bytes = run_token_text(m->run, i ? t->ids.ids[i - 1] : -1, t->ids.ids[i], &n);
        buffer_append(&text, bytes, (size_t)n);
    }
    Buffer line = {.failed = text.failed}; /* one message is enough */
    buffer_append(&line, numbers, (size_t)snprintf(numbers, sizeof numbers, "{\"index\": %d", t->line));
    append_string(&line, ", \"prompt\": ", t->prompt, t->prompt_size);
    append_string(&line, ", \"text\": ", text.bytes, text.n);
    const int n_sampled = t->ids.n > t->n_prompt ? t->ids.n - t->n_prompt : 0;
    const int n = snprintf(numbers, sizeof numbers, ", \"seed\": %llu, \"tokens\": %d, \"finish_reason\": \"%s\"}\n",
                           (unsigned long long)t->seed, n_sampled, t->ended);
    buffer_append(&line, numbers, (size_t)n);
    if (!line.failed && write_whole(fileno(stdout), line.bytes, line.n)) m->out.error = errno;
    free(text.bytes);
    free(line.bytes);
    return line.failed ? -1 : 0;
}

/* The first text goes, and the next one is the first. */
static void drop_text(Texts *m) {
    Text *t = m->first;
    m->first = t->next;
    m->n_waiting--;
    if (!m->first) m->last = &m->first;
    sampler_close(&t->sampler);
    free(t->ids.ids);
    free(t);
}

/* The texts that can come out do: in their order, the first that still runs as far as it is. */
static int write_texts(Texts *m) {
    const bool json = m->run->options->json;
    for (Text *t; (t = m->first) && !is_stopped(m);) {
        if (!json) show_text(m, t);
        if (!t->ended) break;
        if (json && write_object(m, t)) return -1;
        m->n_texts++;
        drop_text(m);
    }
    return 0;
}

/* ---- texts that begin, run and end --------------------------------------------------------------- */

/* The next prompt. 1: there is one; 0: there is none; -1: no memory. */
static int next_prompt(Texts *m) {
    free(m->prompt.ids.ids);
    const int found = prompts_next(&m->prompts, &m->prompt), n = m->prompt.ids.n;
    m->root = m->prompt.samples > 1 && n > 1 && n <= m->steps ? ROOT_WAITS : NO_ROOT;
    m->n_begun = 0;
    m->n_prompts += found > 0;
    m->n_read += n;
    return found;
}

/* The next sample of the prompt, behind the texts that there are; NULL: no memory. */
static Text *add_text(Texts *m) {
    Prompt *p = &m->prompt;
    Text *t = allocate_zeroed(1, sizeof *t);
    Sampling sampling = m->run->options->sampling;
    if (!t) return NULL;
    *m->last = t;
    m->last = &t->next;
    m->n_waiting++;
    t->seed = sampling.seed = sample_seed(p->seed, m->n_begun++);
    t->prompt = p->text;
    t->prompt_size = p->size;
    t->line = p->line;
    t->n_prompt = p->ids.n;
    t->n_shown = run_first_shown(m->run, &p->ids);
    for (int i = 0; i < p->ids.n && i <= m->steps; i++)
        if (tokens_add(&t->ids, p->ids.ids[i])) return NULL;
    if (p->ids.n > m->steps) t->ended = "length";
    if (t->ended) return t;
    if (sampler_open(&t->sampler, &sampling, m->run->model.config.vocab_size)) return NULL;
    for (int i = 0; i < t->n_prompt; i++) sampler_accept(&t->sampler, t->ids.ids[i]);
    return t;
}

/* Texts begin in all free sequences, unless a root has to run first. A text that ends at once is written and needs no
 * sequence. -1: no memory. */
static int begin_texts(Texts *m) {
    for (int i = 0; i < m->parallel; i++)
        while (!m->running[i] && m->n_waiting < MAX_WAITING && !is_stopped(m)) {
            const int more = m->n_begun < m->prompt.samples ? 1 : next_prompt(m);
            if (more <= 0) return more;
            if (m->root == ROOT_WAITS) return 0;
            Text *t = add_text(m);
            if (!t || (m->root && session_fork(&m->run->session, i, m->parallel))) return -1;
            t->n_ran = m->root ? t->n_prompt - 1 : 0;
            if (!t->ended)
                m->running[i] = t;
            else if (write_texts(m))
                return -1;
        }
    return 0;
}

/* Appends steps for the ids from `ran` on; the logits of the last are wanted, or none. */
static int add_steps(Texts *m, int n, const Tokens *ids, int ran, int end, int sequence, bool logits) {
    if (n + end - ran > m->room) {
        const int room = 2 * (n + end - ran);
        Step *grown = realloc(m->batch, (size_t)room * sizeof *grown);
        if (!grown) return fail("out of memory: %d steps", room);
        m->batch = grown;
        m->room = room;
    }
    for (int t = ran; t < end; t++) m->batch[n++] = (Step){ids->ids[t], sequence, t, logits && t == end - 1};
    return n;
}

/* A text goes on with its next token, or ends. */
static int go_on(Texts *m, Text *t) {
    sampler_accept(&t->sampler, t->token);
    t->n_ran = t->ids.n;
    const bool stops = run_is_end(m->run, t->token);
    if (!stops && tokens_add(&t->ids, t->token)) return -1;
    m->n_sampled += !stops;
    if (stops || t->ids.n > m->steps) t->ended = stops ? "stop" : "length";
    if (t->ended) sampler_close(&t->sampler);
    return 0;
}

/* One forward pass of all that run. 1: it has run; 0: there is nothing to run; -1: it failed. */
static int run_pass(Texts *m) {
    Run *run = m->run;
    const size_t vocab_size = (size_t)run->model.config.vocab_size;
    const bool root = m->root == ROOT_WAITS;
    int n = root ? add_steps(m, 0, &m->prompt.ids, 0, m->prompt.ids.n - 1, m->parallel, false) : 0, rows = 0;
    for (int i = 0; i < m->parallel && n >= 0; i++) {
        Text *t = m->running[i];
        if (!t) continue;
        t->row = rows++;
        n = add_steps(m, n, &t->ids, t->n_ran, t->ids.n, i, true);
    }
    if (!n) return 0;
    const float *logits = n < 0 ? NULL : model_forward(&run->session, m->batch, n);
    if (!logits || check_logits(logits, (size_t)rows * vocab_size)) return -1;
    if (root) m->root = ROOT_HAS_RUN;
#pragma omp parallel for num_threads(run->session.n_threads) if ((size_t)rows * vocab_size >= WORTH_SHARING)
    for (int i = 0; i < m->parallel; i++) {
        Text *t = m->running[i];
        if (t) t->token = sampler_next(&t->sampler, logits + (size_t)t->row * vocab_size);
    }
    for (int i = 0; i < m->parallel; i++) {
        if (m->running[i] && go_on(m, m->running[i])) return -1;
        if (m->running[i] && m->running[i]->ended) m->running[i] = NULL;
    }
    tune(&run->tuning, n);
    return 1;
}

/* ---- the run --------------------------------------------------------------------------------------- */

/* As many as asked for, else USUAL_PARALLEL; fewer where -b or the available memory, of which an eighth stays free, has
 * no room for their logits, caches and samplers, a root's cache, and the panels that are yet to be filled. */
static int choose_parallel(const Run *run, int steps) {
    const Options *o = run->options;
    const Session *s = &run->session;
    const size_t sampled = sizeof(HeapItem) + 2 * sizeof(float);
    KvCache kv = s->sequences->kv;
    kv.n_heads = (run->model.config.n_kv_heads - 1) / ranks_number() + 1; /* of the rank that has most */
    const double cache = kv_bytes(&kv, steps, s->context);
    const double each = cache + (double)run->model.config.vocab_size * (double)sampled;
    double left = 0.875 * (double)memory_available("") / ranks_here() - cache;
    for (PartAt at = parts_of(&run->model); !run->model.packed && next_part(&at);)
        if (part_weight(&at)) left -= (double)tensor_bytes(part_weight(&at), part_weight(&at)->rows);
    const int asked = o->parallel ? o->parallel : USUAL_PARALLEL, most = asked < s->batch ? asked : s->batch;
    const int parallel = left >= each * most ? most : left >= each ? (int)(left / each) : 1;
    if (parallel < o->parallel)
        note("--parallel %d: %d at once, as %s", asked, parallel, parallel < most ? "memory allows" : "-b allows");
    return parallel;
}

static int open_texts(Texts *m) {
    m->last = &m->first;
    if (prompts_open(&m->prompts, m->run)) return -1;
    m->steps = run_steps(m->run);
    m->parallel = choose_parallel(m->run, m->steps);
    m->running = allocate_zeroed((size_t)m->parallel, sizeof(Text *));
    return m->running ? session_reserve(&m->run->session, m->parallel + 1) : -1;
}

static void close_texts(Texts *m) {
    while (m->first) drop_text(m);
    free(m->prompt.ids.ids);
    prompts_close(&m->prompts);
    free(m->running);
    free(m->batch);
}

/* On a terminal, unless the texts themselves are on one. */
static void show_progress(Texts *m, bool end) {
    const double often = 0.1; /* seconds */
    if (!on_terminal(stderr) || on_terminal(stdout) || (!end && now() - m->said < often)) return;
    fprintf(stderr, "\r%d texts%s", m->n_texts, end ? "\n" : " ");
    m->said = now();
}

static void show_statistics(const Texts *m, double seconds) {
    fprintf(stderr, "prompts: %d, %lld tokens; generation: %d texts, %lld tokens, %.0f tokens/s\n", m->n_prompts,
            (long long)m->n_read, m->n_texts, (long long)m->n_sampled, (double)m->n_sampled / seconds);
    if (m->run->options->verbose) fprintf(stderr, "%s\n", tuning_text(&m->run->tuning));
}

int texts_generate(Run *run) {
    Texts m = {.run = run};
    stream_open(&m.out, stdout);
    int more = open_texts(&m) ? -1 : 1;
    const double start = now();
    while (more > 0 && !is_stopped(&m)) {
        more = begin_texts(&m) ? -1 : run_pass(&m);
        if (more >= 0 && write_texts(&m)) more = -1;
        show_progress(&m, false);
    }
    if (m.first && m.first->begun) stream_write(&m.out, "\n", 1);
    if (stream_close(&m.out)) more = -1;
    show_progress(&m, true);
    if (more >= 0 && m.n_prompts) show_statistics(&m, now() - start);
    const int status = prompts_report(&m.prompts) || more < 0 ? -1 : 0;
    close_texts(&m);
    return status;
}
