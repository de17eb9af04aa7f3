/* tile_unit.h: the plug of matmul.c for units of a processor that multiply whole tiles (Intel's AMX).
 *
 * A unit is a file and a row of the table in tile_unit.c. Without its file and its row the program builds, and the
 * vectors do the work.
 */
#pragma once

#include "kernels/tensor.h"

typedef struct Task Task; /* a product, or a part of one (tiles.h) */

typedef struct {
    bool (*available)(void);

    /* The unit's own form of a token's activations, made where some weights are BF16: its bytes, and the conversion
     * of x[cols]. */
    size_t (*row_bytes)(int cols);
    void (*convert_row)(uint8_t *row, const float *x, int cols);

    /* Computes the product and returns true, or returns false: the unit has nothing for this type and number of tokens.
     */
    bool (*multiply)(const Task *p);

    /* Max panels of a task for many tokens; 0: no preference. */
    int (*task_panels)(const Tensor *w);
} TileUnit;

/* The unit of this processor; NULL: none. */
const TileUnit *tile_unit(void);

extern const TileUnit amx_unit; /* amx.c */
