/* tiles_int8.c: the tiles of llama2.c's int8 weights, of unpacked groups, and
 * of types with one group to a block (tiles.h).
 * Tests: quant, matmul. */
#include "kernels/tiles.h"

#define I8_GROUPS unpacked_layout(TYPE_I8, o.in->group)
PACKED_TILES(I8, byte_tile, I8_GROUPS)
UNPACKED_TILES(groups_any, byte_tile, I8_GROUPS)
const Kernels kernels_I8 = {PACKED(I8, true), groups_any, NULL};

UNPACKED_TILES(groups_32_0_0, byte_tile, unpacked_layout(TYPE_Q8_0, 32))
UNPACKED_TILES(groups_32_0_8, byte_tile, unpacked_layout(TYPE_Q4_0, 32))
UNPACKED_TILES(groups_32_0_16, byte_tile, unpacked_layout(TYPE_Q5_0, 32))
UNPACKED_TILES(groups_32_1_0, byte_tile, unpacked_layout(TYPE_Q5_1, 32))
UNPACKED_TILES(groups_32_2_0, byte_tile, unpacked_layout(TYPE_Q2_K, 32))
UNPACKED_TILES(groups_16_0_4, byte_tile, unpacked_layout(TYPE_Q3_K, 16))
UNPACKED_TILES(groups_16_0_32, byte_tile, unpacked_layout(TYPE_Q6_K, 16))

#define X(id, name, gguf, file, weights, bytes, group, mins, zero, ...)        \
    BLOCK_KERNELS(id, groups_##group##_##mins##_##zero, true)
ONE_GROUP_TYPES(X)
#undef X
