/* parts.h: the table of a model's parts.
 *
 * Owns what a model consists of: every norm and every weight, its place in
 * Model, Layer or Mlp, its shape, and its names in norma, in GGUF files and in
 * Hugging Face folders. Code that reads, writes, lists, counts or packs a model
 * walks this table.
 */
#pragma once

#include "model.h"

typedef enum { OF_MODEL, OF_LAYER, OF_MLP, OF_EXPERT } PartOwner;

/* Sizes that a Config defines; SIZE_ONE: the rows of a vector. */
typedef enum {
    SIZE_ONE,
    SIZE_DIM,
    SIZE_HIDDEN,
    SIZE_QUERIES,
    SIZE_KEYS,
    SIZE_Q_NORM, /* one head, or all heads if wide_head_norms */
    SIZE_K_NORM,
    SIZE_VOCAB,
    SIZE_EXPERTS,
    SIZE_EXPERT_HIDDEN,
    N_PART_SIZES
} PartSize;

/* Groups of biases, as bits; a family has all biases of a group, or none. */
typedef enum { QKV_BIAS = 1, OUT_BIAS = 2, MLP_BIAS = 4 } PartBias;

/* Norms that can be folded, and the weights that follow them. */
typedef enum { NO_FEED, QKV_FEED, MLP_FEED, OUT_FEED } PartFeed;

/* Which families have a part, or a key. */
typedef enum {
    ALL_FAMILIES,
    WITH_PRE_NORMS,
    WITH_MLP_NORM, /* a norm before the MLP */
    WITH_POST_NORMS,
    WITH_HEAD_NORMS,
    WITH_GATES, /* the MLP has gate and up */
    WITH_SHARED_EXPERT,
    WITH_PERIODIC_WINDOWS,
    WITH_SCALES,
    WITH_LOGIT_SCALE, /* and no other scales */
    WITH_SCORE_CAP,
    WITH_LOGIT_CAP,
    WITH_SCALED_QUERIES
} Condition;

typedef enum { NAME_NORMA, NAME_GGUF, NAME_HF, N_NAMINGS } Naming;

typedef struct {
    PartOwner owner;
    size_t offset; /* where the Norm or the Tensor is in its owner */
    const char *names[N_NAMINGS]; /* without the owner's prefix and ".weight" */
    PartSize rows, cols;
    /* the weights that this norm feeds, or the norms that feed this weight */
    PartFeed feed;
    PartBias bias;
    const char *site; /* a norm's name in --norm; NULL: the part is a weight */
    Condition condition; /* which families have the part (family.h) */
    bool rotates;        /* RoPE rotates the weight's outputs */
    /* weighs experts: float32 in GGUF files; every rank has all rows */
    bool routes;
} Part;

/* A position in a walk over the parts. */
typedef struct {
    const Part *part;
    int table; /* which of the tables of parts is walked */
    int layer; /* from 0 on */
    int expert;
    Model *model;
} PartAt;

/* Begins a walk in the order of the forward pass. Do not write through it if
 * the model is const. */
PartAt parts_of(const Model *model);

/* next_part() moves to the next part that the model has; next_slot() to the
 * next part that the model's config allows. A layer has an MLP or, once they
 * are allocated, experts. Both return false at the end. */
bool next_part(PartAt *at);
bool next_slot(PartAt *at);

/* A loop over the parts that the model has. */
#define PART_EACH(at, model) for (PartAt at = parts_of(model); next_part(&at);)

/* Whether the model has the part. */
bool part_is_there(const PartAt *at);

/* The first part with this norma name, which exists. */
const Part *part_named(const char *name);

/* The part's norm, or its weight; NULL if it is the other kind. */
Norm *part_norm(const PartAt *at);
Tensor *part_weight(const PartAt *at);

/* The part's weight if products read it: for a tied embedding the output, which
 * is not a part; NULL for other embeddings and for norms. */
Tensor *part_multiplied(const PartAt *at);

/* gamma [dim] of the part's norm, or of the norm before the weight, if it can
 * be folded into the weights' columns by W (gamma * n) = (W gamma) n. NULL if
 * there is no such norm, it has a beta, or another part shares the weights. */
const float *part_folded(const PartAt *at);

int part_size(const Config *c, PartSize size);

/* The rows of a weight in the tensor that stores it. `fused`: the weights with
 * the same input (q, k and v, or gate and up) are one tensor, stacked by
 * rows. */
typedef struct {
    int first; /* the weight's first row in the tensor */
    int all;   /* rows of the tensor; -1: more than an int */
} PartRows;
PartRows part_rows(const PartAt *at, bool fused);

enum { PART_NAME = 96 }; /* max bytes of a name */

/* The name, "layers.3.wq" or "blk.3.attn_q"; returns `name`, which has
 * PART_NAME bytes. */
char *part_name(char *name, const PartAt *at, Naming naming);

/* Maps another file of the model. */
int model_map(Model *model, const char *path);

/* Allocates the layers, as many as the config defines. All fields are zero,
 * except for the index. */
int model_allocate_layers(Model *model);
