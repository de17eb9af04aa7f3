/* tile_unit.c: the table of units that multiply tiles.
 * Tests: amx. */
#include "kernels/tile_unit.h"

static const TileUnit *const units[] = {
    &amx_unit,
    NULL,
};

const TileUnit *tile_unit(void) {
    const TileUnit *const *unit = units;
    while (*unit && !(*unit)->available())
        unit++;
    return *unit;
}
