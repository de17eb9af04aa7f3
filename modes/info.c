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
    double number;           /* not positive: does not apply */
    bool is_long_text;       /* shown as its first line; JSON has all of it */
} Fact;

#define TEXT(name, text)                                                       \
    { name, text, 0, false }
#define LONG_TEXT(name, text)                                                  \
    { name, text, 0, true }
#define NUMBER(name, number)                                                   \
    { name, NULL, number, false }
/* A field of the config, by its name. */
#define FIELD(name) NUMBER(#name, c->name)
/* A scale. 1 does not apply. */
#define SCALE(name) NUMBER(#name, c->name == 1 ? 0 : c->name)

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
            snprintf(text, f->is_long_text ? LINE : sizeof text, "%s", f->text);
            if (f->is_long_text)
                text[strcspn(text, "\n")] = '\0';
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
        TEXT("model", run->options->model),
        TEXT("name", find_text(g, "general.name", name)),
        TEXT("license", find_text(g, "general.license", license)),
        TEXT("architecture", m->family ? m->family : "llama"),
        NUMBER("layers", c->n_layers),
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

/* Writes the recommended sampling, without a newline. Returns whether there is
 * one. */
static bool show_advice(const Tokenizer *t, bool json) {
    const char *between = json ? ", " : "sampling        ";
    bool is_advised = false;
    for (int i = 0; i < N_ADVICE; i++) {
        if (!t->advice[i].given)
            continue;
        printf(json ? "%s\"%s\": %.7g" : "%s%s %.7g", between, ADVICE_NAMES[i],
               t->advice[i].value);
        between = ", ";
        is_advised = true;
    }
    return is_advised;
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
    int window = 0;
    EACH(const Layer, layer, m->layers, c->n_layers)
        if (layer->window)
            window = layer->window;
    Fact facts[] = {
        TEXT("model", run->options->model),
        TEXT("name", find_text(&g, "general.name", name)),
        TEXT("license", find_text(&g, "general.license", license)),
        TEXT("architecture", m->family ? m->family : "llama"),
        NUMBER("parameters", (double)m->parameters),
        TEXT("file_type", m->type),
        NUMBER("bits_per_weight", 8 * bytes / (double)m->parameters),
        FIELD(context),
        NUMBER("weights_mb", 1e-6 * bytes),
        NUMBER("cache_mb",
               1e-6 * kv_bytes(&s->sequences->kv, s->context, s->context)),
        TEXT("tokenizer", t->pieces.n ? kind_of(t) : NULL),
        LONG_TEXT("chat_template", t->chat_template.bytes),
        TEXT("use", use_of(t)),
        TEXT("format", m->format),
        /* clang-format off */
        FIELD(dim), FIELD(hidden_dim), FIELD(n_layers), FIELD(n_heads),
        FIELD(n_kv_heads), FIELD(head_size), FIELD(vocab_size),
        TEXT("output", m->tied ? "tied to the embedding" : "separate"),
        TEXT("context_limit", m->ended_by),
        NUMBER("window", window), FIELD(local_base),
        NUMBER("rope_base", c->rope.base),
        TEXT("activation", ACTIVATIONS[c->activation].name),
        SCALE(embedding_scale), SCALE(residual_scale),
        NUMBER("score_scale", c->attention_scale),
        NUMBER("score_cap", c->attention_cap),
        SCALE(logit_scale), FIELD(logit_cap),
        FIELD(n_experts), FIELD(n_experts_used), FIELD(expert_dim),
        /* clang-format on */
        NUMBER("group_size", m->embedding.group),
        NUMBER("decode_bytes", (double)m->decode_bytes),
        TEXT("kv_type", s->kv_type == KV_F32 ? "f32" : "f16"),
    };
    if (all)
        show_facts(json, facts, COUNT(facts));
    else
        show_summary(run, &g, bytes);
    gguf_close(&g);
    const bool is_advised = show_advice(t, json);
    if (!all && !is_advised)
        fputs("sampling        the file recommends none", stdout);
    if (!json && (is_advised || !all))
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
