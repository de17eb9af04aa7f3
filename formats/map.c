/* map.c: maps the files of models and tokenizers, and tells by its first bytes what a failed download or another
 * program has left under the name of one. */
#include "formats/map.h"
#include "base/error.h"
#include <string.h>

#define PAGE "is a web page, not the file that was to be downloaded"
#define PYTORCH                                                                                                        \
    "is PyTorch's, a format that can run programs; scripts/bin_to_safetensors.py makes model.safetensors of it"
#define PACKED "is compressed; unpack it first"

/* No checkpoint of llama2.c, whose first bytes are its dim, begins like these. */
static const struct {
    const char *begin; /* letters of either case */
    const char *what;
} OTHERS[] = {
    {"version https://git-lfs", "is a pointer of Git LFS, not the file itself; git lfs pull fetches that"},
    {"<!doctype", PAGE},
    {"<html", PAGE},
    {"PK\3\4", PYTORCH},         /* zip */
    {"\x80\x02\x8a\n", PYTORCH}, /* before PyTorch 1.6 */
    {"\x1f\x8b\x08", PACKED},    /* gzip */
    {"\3757zXZ", PACKED},        /* xz */
    {"(\xb5/\xfd", PACKED},      /* zstd */
    {"tjgg", "is GGML, the format before GGUF, which norma does not read"},
};

int map_model_file(File *file, const char *path) {
    if (file_map(file, path)) return -1;
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        const size_t n = strlen(OTHERS[i].begin);
        if (file->size < n || strncasecmp((const char *)file->data, OTHERS[i].begin, n) != 0) continue;
        file_unmap(file);
        return fail("%s: %s", path, OTHERS[i].what);
    }
    return 0;
}
