/* open.c: opens a checkpoint of any format.
 *
 * Owns which format a path is in.
 */
#include "formats/open.h"

#include "base/file.h"
#include "formats/build.h"
#include "formats/folder.h"
#include "formats/gguf.h"
#include "formats/llama2c.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"

#include <stdbool.h>

static int open_any(Model *m, const char *path) {
    if (is_folder(path)) return folder_read_model(m, path);
    if (model_map(m, path)) return -1;
    return (gguf_is(m->files) ? gguf_read_model : llama2c_read_model)(m, path);
}

int model_open(Model *m, const char *path) {
    *m = (Model){.bos = -1, .eos = -1, .eos_ends = true};
    if (open_any(m, path)) {
        model_close(m);
        return -1;
    }
    m->kv_type = m->embedding.type == TYPE_F32 ? KV_F32 : KV_F16;
    model_complete(m);
    return 0;
}
