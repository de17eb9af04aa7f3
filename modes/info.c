/* info.c: the mode that lists a checkpoint's configuration, norm sites and
 * tensors, without running the model.
 * Tests: cli. */
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/parts.h"
#include "modes/common.h"
#include "norm.h"
#include <limits.h>
#include <math.h>
#include <string.h>

static void show_parts(const Model *m, bool norms, bool json) {
    char name[PART_NAME], shape[32];
    const char *comma = "";
    PART_EACH(at, m) {
        const Norm *norm = part_norm(&at);
        const Tensor *w = part_weight(&at);
        part_name(name, &at, NAME_NORMA);
        if (norms ? !norm : !w)
            continue;
        if (norms)
            printf(
                json
                    ? "%s\n  {\"name\": \"%s\", \"kind\": \"%s\", \"eps\": %g%s}"
                    : "%s  %-24s %-10s eps %g%s\n",
                comma, name, norm_name(norm->kind), norm->eps,
                !norm->beta ? ""
                : json      ? ", \"beta\": true"
                            : ", beta");
        else {
            snprintf(shape, sizeof shape, "[%d, %d]", w->rows, w->cols);
            printf(
                json
                    ? "%s\n  {\"name\": \"%s\", \"type\": \"%s\", \"shape\": %s, \"bytes\": %zu, \"offset\": %llu}"
                    : "%s  %-24s %-5s %-18s %14zu bytes at %llu\n",
                comma, name, type_name(w->type), shape,
                tensor_bytes(w, w->rows), (unsigned long long)w->offset);
        }
        comma = json ? "," : "";
    }
}

typedef struct {
    const char *name, *text; /* NULL: a number */
    double number;           /* 0: does not apply */
} Fact;

/* A field of the config, by its name. */
#define FIELD(name)                                                            \
    { #name, NULL, c->name }

/* `before`: what precedes the first fact in JSON. */
static void show_facts(const Run *run, const char *before, const Fact *facts,
                       int n) {
    bool json = run->options->json;
    char text[PATH_MAX];
    EACH(const Fact, f, facts, n) {
        if (!f->text && f->number == 0)
            continue;
        if (json)
            fputs(f == facts ? before : ", ", stdout);
        if (json && f->text)
            write_json_string(stdout, f->name, f->text, strlen(f->text));
        else if (f->text) {
            snprintf(text, sizeof text, "%s", f->text);
            make_printable(text);
            printf("%-15s %s\n", f->name, text);
        } else
            printf(json ? "\"%s\": %.*g" : "%-15s %.*g\n", f->name,
                   f->number == floor(f->number) ? 15 : 6, f->number);
    }
}

static void show_config(const Run *run) {
    const Model *m = &run->model;
    const Config *c = &m->config;
    int window = 0, in_window = 0, unrotated = 0;
    EACH(const Layer, layer, m->layers, c->n_layers) {
        if (layer->window > 0)
            window = layer->window;
        in_window += layer->window > 0;
        unrotated += layer->rope == ROPE_NONE;
    }
    Fact facts[] = {
        {"model", run->options->model, 0},
        {"format", m->format, 0},
        {"architecture", m->family ? m->family : "llama", 0},
        FIELD(dim),
        FIELD(hidden_dim),
        FIELD(n_layers),
        FIELD(n_heads),
        FIELD(n_kv_heads),
        FIELD(head_size),
        FIELD(vocab_size),
        {"output", m->tied ? "tied to the embedding" : "separate", 0},
        FIELD(context),
        {"context_limit", m->ended_by, 0},
        {"window", NULL, window},
        {"window_layers", NULL, in_window},
        {"rope_base", NULL, c->rope.base},
        FIELD(local_base),
        {"no_rope_layers", NULL, unrotated},
        {"activation", ACTIVATIONS[c->activation].name, 0},
        FIELD(embedding_scale),
        FIELD(residual_scale),
        {"score_scale", NULL, c->attention_scale},
        {"score_cap", NULL, c->attention_cap},
        FIELD(logit_scale),
        FIELD(logit_cap),
        FIELD(n_experts),
        FIELD(n_experts_used),
        FIELD(expert_dim),
        {"group_size", NULL, m->embedding.group},
    };
    show_facts(run, "{", facts, COUNT(facts));
}

int mode_info(Run *run) {
    bool json = run->options->json;
    const Model *m = &run->model;
    const Config *c = &m->config;
    const Tokenizer *t = &run->tokenizer;
    bool wide = m->kv_type == KV_F32;
    const char *tokenizer = t->pieces.rules ? "ranked merges" : "SentencePiece";
    size_t bytes = 0;
    for (int i = 0; i < m->n_files; i++)
        bytes += m->files[i].size;
    show_config(run);
    Fact facts[] = {
        {"parameters", NULL, (double)m->parameters},
        {"file_bytes", NULL, (double)bytes},
        {"decode_bytes", NULL, (double)m->decode_bytes},
        {"kv_bytes", NULL,
         (wide ? 8.0 : 4.0) * c->n_layers * c->n_kv_heads * c->head_size},
        {"kv_type", wide ? "f32" : "f16", 0},
        {"tokenizer", t->pieces.n ? tokenizer : NULL, 0},
        {"pieces", NULL, t->pieces.n},
        {"template_bytes", NULL, (double)t->chat_template.n},
    };
    show_facts(run, ", ", facts, COUNT(facts));
    if (t->pieces.n)
        printf(json ? ", \"bos\": %d, \"eos\": %d"
                    : "bos             %d\neos             %d\n",
               t->bos, t->eos);
    for (int i = 0; i < N_ADVICE; i++)
        if (t->advice[i].given)
            printf(json ? ", \"%s\": %.7g" : "%-15s %.7g\n", ADVICE_NAMES[i],
                   t->advice[i].value);
    fputs(json ? ",\n\"norms\": [" : "\nnorms\n", stdout);
    show_parts(&run->model, true, json);
    fputs(json ? "],\n\"tensors\": ["
               : "\ntensors (rows = out, columns = in)\n",
          stdout);
    show_parts(&run->model, false, json);
    if (json)
        puts("]}");
    return stdout_finish();
}
