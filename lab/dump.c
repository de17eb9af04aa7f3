/* dump.c: inputs and outputs of norms as NumPy files: FOLDER/layers.3.attn_norm.in.npy, float32 [tokens, elements].
 *
 * Owns the folder and the layout of its files; profile.c calls it. In a pre-norm model the inputs of attn_norm,
 * mlp_norm and final_norm are the residual stream.
 */
#include "lab/dump.h"
#include "base/error.h"
#include "formats/parts.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NPY_HEADER = 128 };

void dump_rows(Dump *d, int layer, const char *site, bool out, const float *x, const Step *steps, int n, int stride,
               int channel, int width) {
    char path[1100], header[NPY_HEADER + 1], prefix[32] = "";
    const size_t row = (size_t)stride * sizeof *x, bytes = (size_t)width * sizeof *x;
    if (layer != NO_LAYER) snprintf(prefix, sizeof prefix, "layers.%d.", layer);
    snprintf(path, sizeof path, "%s/%s%s.%s.npy", d->folder, prefix, site, out ? "out" : "in");
    memset(header, ' ', sizeof header);
    const int end =
        snprintf(header, sizeof header, "\x93NUMPY\x01%cv%c{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d)}",
                 0, 0, d->n, stride);
    header[end] = ' ';
    header[NPY_HEADER - 1] = '\n';
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    bool whole = fd >= 0 && pwrite(fd, header, NPY_HEADER, 0) == NPY_HEADER;
    for (int t = 0; t < n && whole; t++) {
        const size_t at = NPY_HEADER + (size_t)steps[t].pos * row + (size_t)channel * sizeof *x;
        whole = pwrite(fd, x + (size_t)t * (size_t)stride, bytes, (off_t)at) == (ssize_t)bytes;
    }
    if (!whole || close(fd)) d->failed = true;
}

int dump_open(Dump *d, const Model *m, const char *path, int n) {
    double bytes = 0;
    *d = (Dump){.path = path, .n = n};
    if (snprintf(d->folder, sizeof d->folder, "%s.part", path) >= (int)sizeof d->folder || !access(path, F_OK))
        return fail("--dump %s: exists, or its name is too long", path);
    if (mkdir(d->folder, 0777)) return fail("--dump: %s: %s", d->folder, strerror(errno));
    for (PartAt at = parts_of(m); next_part(&at);) {
        const PartSize width = !at.part->of_heads ? SIZE_DIM : at.part->cols == SIZE_Q_NORM ? SIZE_QUERIES : SIZE_KEYS;
        if (part_norm(&at)) bytes += 8.0 * n * part_size(&m->config, width);
    }
    note("--dump writes %.1f MB", 1e-6 * bytes);
    return 0;
}

int dump_close(Dump *d, bool keep) {
    if (keep && !d->failed && !rename(d->folder, d->path)) return 0;
    DIR *folder = opendir(d->folder);
    for (const struct dirent *file; folder && (file = readdir(folder));) unlinkat(dirfd(folder), file->d_name, 0);
    if (folder) closedir(folder);
    rmdir(d->folder);
    return keep ? fail("--dump %s: cannot write it", d->path) : 0;
}
