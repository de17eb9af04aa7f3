/* tiles_int8.c: the tiles of llama2.c's int8 weights, of unpacked groups, and
 * of types with one group to a block (tiles.h).
 * Tests: quant, matmul. */
#include "kernels/tiles.h"

#define I8_GROUPS unpacked_layout(TYPE_I8, o.in->group)
PACKED_TILES(I8, byte_tile, I8_GROUPS)
UNPACKED_TILES(I8_groups, byte_tile, I8_GROUPS)
const Kernels kernels_I8 = {PACKED(I8, true), I8_groups, NULL};

#define X(id, ...) BLOCK_KERNELS(id, true)
ONE_GROUP_TYPES(X)
#undef X
