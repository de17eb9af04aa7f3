/* tiles_float.c: the tiles of float weights (tiles.h). Unpacked, all of them
 * are columns of float32.
 * Tests: matmul. */
#include "kernels/tiles.h"

INLINE void unpack_columns(uint8_t *unpacked, Type type, const uint8_t *panel,
                           int n) {
    for (int c = 0; c < n; c++)
        vstore((float *)(void *)unpacked + c * LANES,
               load_column(type, panel, c));
}

PACKED_TILES(F32, float_tile, TYPE_F32)
UNPACKED_TILES(floats, float_tile, TYPE_F32)
const Kernels kernels_F32 = {PACKED(F32, true), floats, NULL};

#define X(id, ...)                                                             \
    PACKED_TILES(id, float_tile, TYPE_##id)                                    \
    static void unpack_##id(uint8_t *unpacked, const uint8_t *panel, int n) {  \
        unpack_columns(unpacked, TYPE_##id, panel, n);                         \
    }                                                                          \
    const Kernels kernels_##id = {PACKED(id, true), floats, unpack_##id};
FLOAT16_TYPES(X)
#undef X
