/* dump.c: inputs and outputs of norms as NumPy files: FOLDER/layers.3.attn_norm.in.npy, float32 [tokens, elements].
 *
 * Owns the layout of the files; profile.c calls it. In a pre-norm model the inputs of attn_norm, mlp_norm and
 * final_norm are the residual stream.
 */
#include "lab/dump.h"
#include "base/error.h"
#include "base/file.h"
#include "formats/parts.h"
#include <stdio.h>

enum { NPY_HEADER = 128 };

static FILE *open_array(const Dump *d, const char *norm, bool out, const char *mode) {
    char path[1000 + PART_NAME + 32];
    snprintf(path, sizeof path, "%s/%s.%s.npy", d->folder, norm, out ? "out" : "in");
    return fopen(path, mode);
}

/* Creates a norm's file with its header. -1: not written. */
static int create_array(const Dump *d, const char *norm, bool out, int width) {
    char about[118];
    FILE *file = open_array(d, norm, out, "wb");
    if (!file) return -1;
    snprintf(about, sizeof about, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d)}", d->n, width);
    fprintf(file, "\x93NUMPY\x01%cv%c%-117s\n", 0, 0, about);
    return fclose(file) ? -1 : 0;
}

int dump_open(Dump *d, const Model *m, const char *path, int n) {
    double bytes = 0;
    *d = (Dump){.path = path, .n = n};
    if (snprintf(d->folder, sizeof d->folder, "%s.part", path) >= (int)sizeof d->folder || file_exists(path))
        return fail("--dump %s: exists, or its name is too long", path);
    if (folder_create(d->folder)) return -1;
    for (PartAt at = parts_of(m); next_part(&at);) {
        const PartSize size = !at.part->of_heads ? SIZE_DIM : at.part->cols == SIZE_Q_NORM ? SIZE_QUERIES : SIZE_KEYS;
        const int width = part_size(&m->config, size);
        char norm[PART_NAME];
        if (!part_norm(&at)) continue;
        bytes += 8.0 * n * width;
        for (int out = 0; out < 2; out++)
            if (create_array(d, part_name(norm, &at, NAME_NORMA), out, width)) d->failed = true;
    }
    note("--dump writes %.1f MB", 1e-6 * bytes);
    return 0;
}

void dump_rows(Dump *d, int layer, const char *site, bool out, const float *x, const Step *steps, int n, int stride,
               int channel, int width) {
    char norm[PART_NAME], prefix[32] = "";
    if (layer != NO_LAYER) snprintf(prefix, sizeof prefix, "layers.%d.", layer);
    snprintf(norm, sizeof norm, "%s%s", prefix, site);
    FILE *file = open_array(d, norm, out, "r+b");
    bool whole = file;
    for (int t = 0; t < n && whole; t++) {
        const long at = NPY_HEADER + ((long)steps[t].pos * stride + channel) * (long)sizeof *x;
        whole = !fseek(file, at, SEEK_SET) &&
                fwrite(x + (size_t)t * (size_t)stride, (size_t)width * sizeof *x, 1, file) == 1;
    }
    if (!file || fclose(file) || !whole) d->failed = true;
}

int dump_close(Dump *d, bool keep) {
    if (keep && !d->failed && !rename(d->folder, d->path)) return 0;
    folder_delete(d->folder);
    return keep ? fail("--dump %s: cannot write it", d->path) : 0;
}
