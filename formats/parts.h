/* parts.h: the one table of a model's parts.
 *
 * Owns what a model consists of: every norm and every weight, where it is in Model, Layer or
 * Mlp, its shape, and its names in norma, in GGUF files and in Hugging Face folders. Who reads,
 * writes, lists, counts or packs a model walks this table.
 */
#pragma once

#include "model.h"

typedef enum { OF_MODEL, OF_LAYER, OF_MLP, OF_EXPERT } PartOwner;

/* Sizes that a Config gives; SIZE_ONE: the rows of a vector. */
typedef enum {
    SIZE_ONE,
    SIZE_DIM,
    SIZE_HIDDEN,
    SIZE_QUERIES,
    SIZE_KEYS,
    SIZE_Q_NORM, /* of a head, or of all */
    SIZE_K_NORM,
    SIZE_VOCAB,
    SIZE_EXPERTS,
    SIZE_EXPERT_HIDDEN,
    N_PART_SIZES
} PartSize;

/* Which biases a family may have beside its weights: each group comes as a whole. */
typedef enum { NO_BIAS, QKV_BIAS, OUT_BIAS, MLP_BIAS } PartBias;

/* Norms whose results only weights multiply, and these weights. */
typedef enum { NO_FEED, QKV_FEED, MLP_FEED, OUT_FEED } PartFeed;

typedef enum { NAME_NORMA, NAME_GGUF, NAME_HF, N_NAMINGS } Naming;

typedef struct {
    PartOwner owner;
    size_t offset;                /* of the Norm or the Tensor in its owner */
    const char *names[N_NAMINGS]; /* in its owner, without ".weight" */
    PartSize rows, cols;
    PartBias bias;
    PartFeed feed;    /* of the norm, or of a weight behind it */
    const char *site; /* of a norm in --norm; NULL: the part is a weight */
    bool of_heads;    /* q_norm, k_norm: the families that have them */
    bool post;        /* a norm behind a sublayer: the families that have them */
    bool rotates;     /* rows are elements of heads that RoPE turns */
} Part;

/* A place in the walk. */
typedef struct {
    const Part *part;
    int layer, expert; /* counted from 0 */
    Model *model;
} PartAt;

/* A walk in the order of the forward pass: for (PartAt at = parts_of(m); next_part(&at);).
 * Who was given a const Model writes nothing through it. */
PartAt parts_of(const Model *model);

/* The next part that the model has, or, for loaders, may have by its config: a layer has either the parts of an MLP or
 * those of its experts, which are allocated when the router was met. False: there is none. */
bool next_part(PartAt *at);
bool next_slot(PartAt *at);

/* The part; NULL: it is a weight, or a norm. */
Norm *part_norm(const PartAt *at);
Tensor *part_weight(const PartAt *at);

/* gamma [dim] of the part's norm, or of the norm in front of the weight, where W (gamma * n) = (W gamma) n can put it
 * into the weights' columns; NULL: there is none, beta goes through the weights, too, or other parts share them. */
const float *part_folded(const PartAt *at);

int part_size(const Config *c, PartSize size);

/* Where the rows of a weight are among those of all weights of its layer with the same input (q, k and v, or gate and
 * up), which some files have as one tensor, one below the other. */
typedef struct {
    int first, all; /* all -1: more than a tensor has */
} PartRows;
PartRows part_fused(const PartAt *at);

enum { PART_NAME = 96 }; /* bytes that hold every name */

/* The name, "layers.3.wq" or "blk.3.attn_q"; returns `name`, which has PART_NAME bytes. */
char *part_name(char *name, const PartAt *at, Naming naming);

/* Maps one more file of the model. */
int model_map(Model *model, const char *path);

/* Memory for the layers, and for the experts of a layer, as many as the config says; all fields are zero, but for
 * the layers' index. */
int model_allocate_layers(Model *model);
int model_allocate_experts(Model *model, int layer);
