/* tiles_k.c: the tiles of the K types, whose blocks have 8 or 16 groups
 * (tiles.h). Tiles of 8 tokens would be no faster than two of 4, and take long
 * to compile.
 * Tests: quant. */
#include "kernels/tiles.h"

#define X(id, name, gguf, file, weights, bytes, group, mins, zero, ...)        \
    BLOCK_KERNELS(id, groups_##group##_##mins##_##zero, false)
K_TYPES(X)
#undef X
