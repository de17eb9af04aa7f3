/* convert.c: any model to a GGUF file.
 *
 * Owns the mode. What a GGUF file can say, and how, is gguf_write.c's.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "formats/gguf_write.h"
#include "kernels/tensor.h"
#include "model.h"
#include "modes/common.h"
#include "modes/options.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether the output would take the place of a file that is being read. */
static bool is_input(const Model *model, const char *output) {
    for (int i = 0; i < model->n_files; i++)
        if (file_is(&model->files[i], output)) return true;
    return false;
}

int mode_convert(Run *run) {
    const Options *o = run->options;
    const Model *model = &run->model;
    const Tokenizer *tokenizer = run->has_tokenizer ? &run->tokenizer : NULL;
    Type type;
    if (!o->output || !o->type || type_from_name(o->type, &type)) {
        fail(o->type && o->output ? "-q is '%s', expected f32, f16, bf16, q8_0 or q4_0"
                                  : "convert needs a type and a file: -q f32|f16|bf16|q8_0|q4_0 -o FILE.gguf",
             o->type);
        return 2;
    }
    if (is_input(model, o->output)) {
        fail("%s is the model itself; name another file", o->output);
        return 1;
    }
    if (gguf_check_model(model, tokenizer, o->model)) return 1;
    if (!tokenizer) note("no tokenizer found, none is written");
    if (gguf_write_model(model, tokenizer, type, o->output)) return 1;
    return interrupted ? EXIT_INTERRUPTED : 0;
}
