/* info.c: the mode that lists a checkpoint's configuration, norm sites and
 * tensors, without running the model.
 * Tests: cli. */
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/gguf.h"
#include "formats/gguf_file.h"
#include "formats/parts.h"
#include "kv_cache.h"
#include "modes/common.h"
#include "norm.h"
#include <limits.h>
#include <math.h>
#include <string.h>

enum { LINE = 65 }; /* bytes of a text of the file: SHOWN and a 0 */

static void show_parts(const Model *m, bool norms, bool json) {
    char name[PART_NAME];
    const char *comma = "";
    if (norms)
        fputs(json ? ",\n\"norms\": [" : "\nnorms\n", stdout);
    else
        fputs(json ? "],\n\"tensors\": ["
                   : "\ntensors (rows = out, columns = in)\n",
              stdout);
    PART_EACH(at, m) {
        const Norm *norm = part_norm(&at);
        const Tensor *w = part_weight(&at);
        part_name(name, &at, NAME_NORMA);
        if (norms ? !norm : !w)
            continue;
        const char *beta = json ? ", \"beta\": true" : ", beta";
        if (norms)
            printf(
                json
                    ? "%s\n  {\"name\": \"%s\", \"kind\": \"%s\", \"eps\": %g%s}"
                    : "%s  %-24s %-10s eps %g%s\n",
                comma, name, norm_name(norm->kind), norm->eps,
                norm->beta ? beta : "");
        else
            printf(
                json
                    ? "%s\n  {\"name\": \"%s\", \"type\": \"%s\", \"shape\": [%d, %d], \"bytes\": %zu, \"offset\": %llu}"
                    : "%s  %-24s %-5s [%d, %d] %zu bytes at %llu\n",
                comma, name, type_name(w->type), w->rows, w->cols,
                tensor_bytes(w, w->rows), (unsigned long long)w->offset);
        comma = json ? "," : "";
    }
}

typedef struct {
    const char *name, *text; /* NULL: a number */
    double number; /* not positive: does not apply; -1: a text that is cut */
} Fact;

/* A field of the config, by its name. */
#define FIELD(name)                                                            \
    { #name, NULL, c->name }
/* A scale. 1 does not apply. */
#define SCALE(name)                                                            \
    { #name, NULL, c->name == 1 ? 0 : c->name }

static void show_facts(bool json, const Fact *facts, size_t n) {
    char text[PATH_MAX];
    EACH(const Fact, f, facts, n) {
        if (!f->text && f->number <= 0)
            continue;
        if (json)
            fputs(f == facts ? "{" : ", ", stdout);
        if (json && f->text)
            write_json_string(stdout, f->name, f->text, strlen(f->text));
        else if (f->text) {
            snprintf(text, f->number < 0 ? LINE : sizeof text, "%s", f->text);
            text[strcspn(text, f->number < 0 ? "\n" : "")] = '\0';
            make_printable(text);
            printf("%-15s %s\n", f->name, text);
        } else
            printf(json ? "\"%s\": %.*g" : "%-15s %.*g\n", f->name,
                   f->number == floor(f->number) ? 15 : 6, f->number);
    }
}

/* Copies a text of the file's metadata. Returns NULL if it has none. */
static const char *find_text(const Gguf *g, const char *key, char to[LINE]) {
    StoredValue v = gguf_get(g, key);
    snprintf(to, LINE, "%.*s", SHOWN(v.string));
    return v.kind == VALUE_STRING ? to : NULL;
}

static const char *kind_of(const Tokenizer *t) {
    return t->pieces.rules ? "ranked merges" : "SentencePiece";
}

static const char *use_of(const Tokenizer *t) {
    return t->chat_template.n ? "chat" : "base: continues a text";
}

/* ---- what a person asks first ------------------------------------------- */

/* Writes a number with a unit: "134.5 M", "98 MB". */
static void write_amount(double n, const char *const units[4], bool exact) {
    int unit = 0;
    while (n >= 999.5 && unit < 3) {
        n /= 1000;
        unit++;
    }
    printf(exact            ? "%.4g%s"
           : n < 10 && unit ? "%.1f%s"
                            : "%.0f%s",
           n, units[unit]);
}

static void write_parameters(double n) {
    static const char *const UNITS[] = {"", " K", " M", " B"};
    write_amount(n, UNITS, true);
}

static void write_bytes(double n) {
    static const char *const UNITS[] = {" B", " KB", " MB", " GB"};
    write_amount(n, UNITS, false);
}

/* Writes the summary, at most 15 lines with the recommended sampling.
 * `weights`: bytes. */
static void show_summary(const Run *run, const Gguf *g, double weights) {
    const Model *m = &run->model;
    const Config *c = &m->config;
    const Tokenizer *t = &run->tokenizer;
    const Session *s = &run->session;
    double size = 0;
    char name[LINE], license[LINE];
    EACH(const File, file, m->files, m->n_files)
        size += (double)file->size;
    const Fact facts[] = {
        {"model", run->options->model, 0},
        {"name", find_text(g, "general.name", name), 0},
        {"license", find_text(g, "general.license", license), 0},
        {"architecture", m->family ? m->family : "llama", 0},
        {"layers", NULL, c->n_layers},
    };
    show_facts(false, facts, COUNT(facts));
    printf("heads           %d", c->n_heads);
    if (c->n_kv_heads != c->n_heads)
        printf(" (%d of keys and values)", c->n_kv_heads);
    printf("\ndim             %d\nparameters      ", c->dim);
    write_parameters((double)m->parameters);
    printf("\nfile_type       %s\nsize            ", m->type);
    write_bytes(size);
    printf(", %.1f bits per weight\ncontext         %d\ncache           ",
           8 * weights / (double)m->parameters, c->context);
    write_bytes((double)kv_bytes(&s->sequences->kv, s->context, s->context));
    printf(" for %d tokens\n", s->context);
    if (t->pieces.n)
        printf("tokenizer       %s, %d tokens\n", kind_of(t), c->vocab_size);
    printf("use             %s\n", use_of(t));
}

int mode_info(Run *run) {
    bool json = run->options->json, all = json || run->options->verbose;
    const Session *s = &run->session;
    const Model *m = &run->model;
    const Config *c = &m->config;
    const Tokenizer *t = &run->tokenizer;
    Gguf g = {0};
    bool failed =
        gguf_is(m->files) && gguf_open(&g, run->options->model, m->files);
    double bytes = 0;
    EACH(const File, file, m->files, m->n_files)
        bytes += (double)(file->size - file->header);
    char name[LINE], license[LINE];
    int window = 0, n = 0;
    EACH(const Layer, layer, m->layers, c->n_layers)
        if (layer->window)
            window = layer->window;
    Fact facts[] = {
        {"model", run->options->model, 0},
        {"name", find_text(&g, "general.name", name), 0},
        {"license", find_text(&g, "general.license", license), 0},
        {"architecture", m->family ? m->family : "llama", 0},
        {"parameters", NULL, (double)m->parameters},
        {"file_type", m->type, 0},
        {"bits_per_weight", NULL, 8 * bytes / (double)m->parameters},
        FIELD(context),
        {"weights_mb", NULL, 1e-6 * bytes},
        {"cache_mb", NULL,
         1e-6 * kv_bytes(&s->sequences->kv, s->context, s->context)},
        {"tokenizer", t->pieces.n ? kind_of(t) : NULL, 0},
        {"chat_template", t->chat_template.bytes, -1},
        {"use", use_of(t), 0},
        {"format", m->format, 0},
        /* clang-format off */
        FIELD(dim), FIELD(hidden_dim), FIELD(n_layers), FIELD(n_heads),
        FIELD(n_kv_heads), FIELD(head_size), FIELD(vocab_size),
        {"output", m->tied ? "tied to the embedding" : "separate", 0},
        {"context_limit", m->ended_by, 0},
        {"window", NULL, window}, FIELD(local_base),
        {"rope_base", NULL, c->rope.base},
        {"activation", ACTIVATIONS[c->activation].name, 0},
        SCALE(embedding_scale), SCALE(residual_scale),
        {"score_scale", NULL, c->attention_scale},
        {"score_cap", NULL, c->attention_cap},
        SCALE(logit_scale), FIELD(logit_cap),
        FIELD(n_experts), FIELD(n_experts_used), FIELD(expert_dim),
        /* clang-format on */
        {"group_size", NULL, m->embedding.group},
        {"decode_bytes", NULL, (double)m->decode_bytes},
        {"kv_type", s->kv_type == KV_F32 ? "f32" : "f16", 0},
    };
    if (all)
        show_facts(json, facts, COUNT(facts));
    else
        show_summary(run, &g, bytes);
    gguf_close(&g);
    for (int i = 0; i < N_ADVICE; i++)
        if (t->advice[i].given)
            printf(json  ? ", \"%s\": %.7g"
                   : n++ ? ", %s %.7g"
                         : "sampling        %s %.7g",
                   ADVICE_NAMES[i], t->advice[i].value);
    if (!all && n == 0)
        fputs("sampling        not recommended", stdout);
    if (!json && (n > 0 || !all))
        putchar('\n');
    if (all && t->pieces.n)
        printf(json ? ", \"bos\": %d, \"eos\": %d"
                    : "bos             %d\neos             %d\n",
               t->bos, t->eos);
    if (all) {
        show_parts(m, true, json);
        show_parts(m, false, json);
    }
    if (json)
        puts("]}");
    return -(failed || stdout_finish());
}
