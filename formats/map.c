/* map.c: maps the files of models and tokenizers. Recognizes failed downloads
 * and the files of other programs by their first bytes.
 * Tests: growth, families. */
#include "formats/map.h"
#include "base/error.h"
#include "base/memory.h"
#include <string.h>

#define PAGE "is a web page: the download failed"
#define PYTORCH                                                                \
    "is a PyTorch file, which can run programs; convert it with scripts/bin_to_safetensors.py"
#define PACKED "is compressed; unpack it first"

/* Kinds of files that norma refuses. No llama2.c checkpoint begins with these
 * bytes: they would be its dim. */
static const struct Other {
    const char *begin; /* case is ignored */
    const char *what;
} OTHERS[] = {
    {"version https://git-lfs",
     "is a Git LFS pointer; run git lfs pull to fetch the file"},
    {"<!doctype", PAGE},
    {"<html", PAGE},
    {"PK\3\4", PYTORCH},         /* zip */
    {"\x80\x02\x8a\n", PYTORCH}, /* before PyTorch 1.6 */
    {"\x1f\x8b\x08", PACKED},    /* gzip */
    {"\3757zXZ", PACKED},        /* xz */
    {"(\xb5/\xfd", PACKED},      /* zstd */
    {"tjgg", "is a GGML file, the predecessor of GGUF, and not supported"},
};

int map_model_file(File *file, const char *path) {
    if (file_map(file, path))
        return -1;
    EACH(const struct Other, other, OTHERS, COUNT(OTHERS)) {
        size_t n = strlen(other->begin);
        if (file->size < n ||
            strncasecmp((const char *)file->data, other->begin, n))
            continue;
        file_unmap(file);
        return fail("%s: %s", path, other->what);
    }
    return 0;
}
