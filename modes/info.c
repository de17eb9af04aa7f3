/* info.c: the mode that lists a checkpoint's configuration, norm sites and tensors, without running the model. */
#include "base/file.h"
#include "formats/parts.h"
#include "modes/common.h"
#include "norm.h"

static void show_parts(const Model *m, bool norms) {
    char name[PART_NAME], shape[32];
    for (PartAt at = parts_of(m); next_part(&at);) {
        const Norm *norm = part_norm(&at);
        const Tensor *w = part_weight(&at);
        part_name(name, &at, NAME_NORMA);
        if (norms && norm)
            printf("  %-24s %-10s eps %g%s\n", name, norm_name(norm->kind), norm->eps, norm->beta ? ", beta" : "");
        if (norms || !w) continue;
        snprintf(shape, sizeof shape, "[%d, %d]", w->rows, w->cols);
        printf("  %-24s %-5s %-18s %14zu bytes at %llu\n", name, type_name(w->type), shape, tensor_bytes(w, w->rows),
               (unsigned long long)w->offset);
    }
}

/* Optional features. */
static void show_family(const Model *m) {
    const Config *c = &m->config;
    const struct {
        const char *name;
        double value;
    } reals[] = {{"local base", c->local_base},     {"embedding *", c->embedding_scale},
                 {"residual *", c->residual_scale}, {"score *", c->attention_scale},
                 {"score cap", c->attention_cap},   {"logit *", c->logit_scale},
                 {"logit cap", c->logit_cap}};
    int window = 0, in_window = 0, unrotated = 0;
    for (const Layer *layer = m->layers; layer < m->layers + c->n_layers; layer++) {
        if (layer->window > 0) window = layer->window;
        in_window += layer->window > 0;
        unrotated += layer->rope == ROPE_NONE;
    }
    if (in_window) printf("window       %d positions, in %d layers\n", window, in_window);
    if (unrotated) printf("no rope      in %d layers\n", unrotated);
    if (c->activation == ACTIVATION_GELU) printf("gate         gelu\n");
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (reals[i].value != 0) printf("%-12s %g\n", reals[i].name, reals[i].value);
}

int mode_info(Run *run) {
    const Model *m = &run->model;
    const Config *c = &m->config;
    const Tokenizer *t = &run->tokenizer;
    const size_t kv_dim = (size_t)c->n_kv_heads * c->head_size;
    const size_t kv_bytes = m->kv_type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
    printf("format       %s\n"
           "dim          %d\n"
           "hidden_dim   %d\n"
           "n_layers     %d\n"
           "n_heads      %d (%d for keys and values) of size %d\n"
           "vocab_size   %d, output %s\n"
           "context      %d%s%s\n"
           "rope base    %g\n",
           m->format, c->dim, c->hidden_dim, c->n_layers, c->n_heads, c->n_kv_heads, c->head_size, c->vocab_size,
           m->tied ? "tied to the embedding" : "separate", c->context, m->ended_by ? ": " : "",
           m->ended_by ? m->ended_by : "", c->rope.base);
    show_family(m);
    if (c->n_experts)
        printf("experts      %d of width %d, %d per token\n", c->n_experts, c->expert_dim, c->n_experts_used);
    if (m->embedding.group) printf("group size   %d\n", m->embedding.group);
    printf("parameters   %zu\n", m->parameters);
    if (t->pieces.n)
        printf("tokenizer    %s, %d pieces, BOS %d, EOS %d\n"
               "template     %zu bytes\n",
               t->merges.rules ? "ranked merges" : "SentencePiece", t->pieces.n, t->bos, t->eos, t->chat_template_size);
    size_t bytes = 0;
    for (int i = 0; i < m->n_files; i++) bytes += m->files[i].size;
    printf("file         %zu bytes, mapped; %zu read per token\n", bytes, m->decode_bytes);
    printf("KV cache     %zu bytes per position, %s\n", 2 * (size_t)c->n_layers * kv_dim * kv_bytes,
           m->kv_type == KV_F32 ? "f32" : "f16");
    printf("\nnorms\n");
    show_parts(m, true);
    printf("\ntensors (rows = out, columns = in)\n");
    show_parts(m, false);
    return stdout_finish();
}
