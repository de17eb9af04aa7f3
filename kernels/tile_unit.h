/* tile_unit.h: the interface between matmul.c and processor units that multiply
 * whole tiles (Intel AMX).
 *
 * A unit is a file and a row of the table in tile_unit.c. Without them the
 * program still builds and uses vector code.
 */
#pragma once

#include "kernels/tensor.h"

typedef struct Task Task; /* a product, or a part of one (tiles.h) */

typedef struct {
    bool (*available)(void);

    /* The unit's own form of a token's activations, used if some weights are
     * BF16: its size in bytes, and the conversion of x[cols]. */
    size_t (*row_bytes)(int cols);
    void (*convert_row)(uint8_t *row, const float *x, int cols);

    /* Computes the product and returns true, or returns false if it does not
     * support this type or number of tokens. */
    bool (*multiply)(const Task *p);

    /* Max panels of a task for many tokens; 0: no preference. */
    int (*task_panels)(const Tensor *w);
} TileUnit;

/* The unit of this processor; NULL: none. */
const TileUnit *tile_unit(void);

extern const TileUnit amx_unit; /* amx.c */
