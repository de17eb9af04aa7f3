/* folder_config.h: from the config.json of a Hugging Face folder to a Config.
 */
#ifndef NORMA_FOLDER_CONFIG_H
#define NORMA_FOLDER_CONFIG_H

#include "formats/json.h"
#include "formats/parts.h"
#include "model.h"

/* Which layers have q_norm and k_norm. */
typedef enum { NO_HEAD_NORMS, HEAD_NORMS_IF_STORED, HEAD_NORMS } HeadNorms;

/* What one model_type has that another has not: a row of the table in folder_config.c. */
typedef struct Architecture {
    const char *model_type; /* "llama" and the like */
    double rope_base;       /* where rope_theta is missing */
    int head_size;          /* where head_dim is missing; 0: hidden_size / num_attention_heads */
    HeadNorms head_norms;
    int features; /* a sum of what folder_config.c names */
} Architecture;

/* What config.json says that Model has no field for. */
typedef struct {
    JsonFile json; /* config.json, owned */
    const Architecture *architecture;
    float eps;                 /* of every norm */
    bool biases[MLP_BIAS + 1]; /* by PartBias: whether the weights of this group have biases */
    int sparse_step;           /* in a model with experts every sparse_step-th layer has them, */
    const Json *dense_layers;  /* but those that this list names */
    Model *model;              /* that is being read */
    int status;                /* -1: a message is out; no other follows */
} FolderConfig;

/* Reads config.json at `path` (not owned) into m->config, m->tied and m->rope_factors, and the rest into *f. -1 and
 * a message if it asks for anything that norma does not do. The caller closes f->json, after a failure as well. */
int folder_config_read(FolderConfig *f, Model *m, const char *path);

/* Whether the layer has experts. */
bool folder_config_is_sparse(const FolderConfig *f, int layer);

#endif
