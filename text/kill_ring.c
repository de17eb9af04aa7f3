/* kill_ring.c: the texts that keys have removed, to bring them back.
 * Tests: editor. */
#include "text/kill_ring.h"
#include <stdlib.h>
#include <string.h>

void ring_add(KillRing *r, const char *bytes, size_t n) {
    if (r->n == MAX_KILLS) {
        free(r->kills[0].bytes);
        memmove(r->kills, r->kills + 1, --r->n * sizeof *r->kills);
    }
    r->kills[r->n] = (Buffer){0};
    buffer_append(&r->kills[r->n++], bytes, n);
}

void ring_extend(KillRing *r, const char *bytes, size_t n, bool before) {
    if (!r->n) {
        ring_add(r, bytes, n);
        return;
    }
    Buffer *newest = &r->kills[r->n - 1];
    const size_t n_old = newest->n;
    buffer_append(newest, bytes, n);
    if (before && !newest->failed) {
        memmove(newest->bytes + n, newest->bytes, n_old);
        memcpy(newest->bytes, bytes, n);
    }
}

const Buffer *ring_newest(KillRing *r) {
    r->shown = r->n - 1;
    return r->n ? &r->kills[r->shown] : NULL;
}

const Buffer *ring_older(KillRing *r) {
    if (!r->n)
        return NULL;
    r->shown = (r->shown > 0 ? r->shown : r->n) - 1;
    return &r->kills[r->shown];
}

void ring_close(KillRing *r) {
    for (int i = 0; i < r->n; i++)
        free(r->kills[i].bytes);
}
