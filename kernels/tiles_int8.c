/* tiles_int8.c: the tiles of llama2.c's int8 weights, of unpacked groups, and
 * of types with one group to a block (tiles.h).
 * Tests: quant, matmul. */
#include "kernels/tiles.h"

#define I8_GROUPS unpacked_layout(o.in->group, 0, 1)
PACKED_TILES(I8, byte_tile, I8_GROUPS)
UNPACKED_TILES(groups_any, byte_tile, I8_GROUPS)
const Kernels kernels_I8 = {PACKED(I8, true), groups_any, NULL};

UNPACKED_TILES(groups_32_0, byte_tile, unpacked_layout(32, 0, 1))
UNPACKED_TILES(groups_32_1, byte_tile, unpacked_layout(32, 1, 1))
UNPACKED_TILES(groups_32_2, byte_tile, unpacked_layout(32, 2, 1))
UNPACKED_TILES(groups_16_0, byte_tile, unpacked_layout(16, 0, 2))

#define X(id, name, gguf, file, weights, bytes, group, mins, ...)              \
    BLOCK_KERNELS(id, groups_##group##_##mins, true)
ONE_GROUP_TYPES(X)
#undef X
