/* dump.c: writes inputs and outputs of norms as NumPy files:
 * FOLDER/layers.3.attn_norm.in.npy, float32 [tokens, elements].
 *
 * Owns the layout of the files; profile.c calls it. In a pre-norm model the
 * inputs of attn_norm, mlp_norm and final_norm are the residual stream.
 * Tests: lab.
 */
#include "lab/dump.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "formats/parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NPY_HEADER = 128, PATH_SIZE = sizeof((Dump *)0)->folder + 64 };

static const char *path_of(const Dump *d, char path[PATH_SIZE], int layer,
                           const char *norm, bool out) {
    char prefix[32] = "";
    if (layer != NO_LAYER)
        snprintf(prefix, sizeof prefix, "layers.%d.", layer);
    snprintf(path, PATH_SIZE, "%s/%s%s.%s.npy", d->folder, prefix, norm,
             out ? "out" : "in");
    return path;
}

/* Lists the files of all norms, or creates them; a site whose norm is none has
 * no files. Returns the size of the arrays in bytes. */
static double all_arrays(Dump *d, bool create) {
    double bytes = 0;
    char path[PATH_SIZE], about[118];
    PART_EACH(at, d->model) {
        if (!part_norm(&at) || part_norm(&at)->kind == NORM_NONE)
            continue;
        PartSize size = at.part->cols == SIZE_Q_NORM   ? SIZE_QUERIES
                        : at.part->cols == SIZE_K_NORM ? SIZE_KEYS
                                                       : SIZE_DIM;
        int width = part_size(&d->model->config, size),
            layer = at.part->owner == OF_MODEL ? NO_LAYER : at.layer;
        for (int out = 0; out < 2; out++) {
            path_of(d, path, layer, at.part->names[NAME_NORMA], out);
            FILE *file = create ? fopen(path, "wb") : NULL;
            snprintf(
                about, sizeof about,
                "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d)}",
                d->n, width);
            if (file)
                fprintf(file, "\x93NUMPY\x01%cv%c%-117s\n", 0, 0, about);
            if (!create)
                buffer_append(&d->names, path, strlen(path) + 1);
            else if (!file || fclose(file))
                d->failed = true;
            bytes += 4.0 * d->n * width;
        }
    }
    return bytes;
}

int dump_check(const char *path) {
    char part[sizeof((Dump *)NULL)->folder];
    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part ||
        file_exists(path) || file_exists(part))
        return fail("--dump %s: the path exists (or its .part) or is too long",
                    path);
    return output_check(part);
}

int dump_open(Dump *d, const Model *model, const char *path, int n) {
    *d = (Dump){.path = path, .model = model, .n = n};
    if (dump_check(path))
        return -1;
    snprintf(d->folder, sizeof d->folder, "%s.part", path);
    all_arrays(d, false);
    buffer_append(&d->names, d->folder, strlen(d->folder) + 1);
    /* before the folder exists, so that no signal can leave it */
    if (!d->names.failed)
        temporary_names = d->names.bytes;
    if (d->names.failed || folder_create(d->folder)) {
        temporary_names = "";
        free(d->names.bytes);
        return -1;
    }
    note("--dump writes %.1f MB", 1e-6 * all_arrays(d, true));
    return 0;
}

void dump_rows(Dump *d, int layer, const char *site, bool out, const Vectors *v,
               const Step *steps) {
    char path[PATH_SIZE];
    size_t width = (size_t)v->heads * v->dim;
    if (!width)
        return; /* a thread may have no heads */
    FILE *file = fopen(path_of(d, path, layer, site, out), "r+b");
    for (int t = 0; file && t < v->n; t++) {
        size_t at = steps[t].pos * v->stride + v->channel;
        if (fseek(file, NPY_HEADER + (long)(at * sizeof *v->x), SEEK_SET) ||
            !fwrite(v->x + t * v->stride, width * sizeof *v->x, 1, file))
            d->failed = true;
    }
    if (!file || fclose(file))
        d->failed = true;
}

int dump_close(Dump *d, bool keep) {
    bool kept = keep && !d->failed && !rename(d->folder, d->path);
    if (!kept)
        remove_all(d->names.bytes);
    temporary_names = "";
    free(d->names.bytes);
    return keep && !kept ? fail("--dump %s: cannot write it", d->path) : 0;
}
