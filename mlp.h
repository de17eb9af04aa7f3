/* mlp.h: the activations of MLPs. */
#pragma once

typedef enum {
    ACTIVATION_SILU,
    ACTIVATION_GELU, /* in its tanh form */
    ACTIVATION_RELU2,
    N_ACTIVATIONS
} Activation;

typedef struct {
    const char *name;         /* for people */
    const char *hf, *also_hf; /* its names in config.json */
} ActivationRow;

extern const ActivationRow ACTIVATIONS[]; /* [N_ACTIVATIONS] */
