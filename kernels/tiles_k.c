/* tiles_k.c: the tiles of the K types, whose blocks have 8 or 16 groups
 * (tiles.h). Tiles of 8 tokens would be no faster than two of 4, and take long
 * to compile.
 * Tests: quant. */
#include "kernels/tiles.h"

#define X(id, ...) BLOCK_KERNELS(id, false)
K_TYPES(X)
#undef X
