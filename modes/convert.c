/* convert.c: the mode that writes a model as a GGUF file (gguf_write.c). */
#include "formats/gguf.h"
#include "modes/common.h"

int mode_convert(Run *run) {
    const Options *o = run->options;
    Model *model = &run->model;
    const Tokenizer *tokenizer =
        run->tokenizer.pieces.n ? &run->tokenizer : NULL;
    Type type;
    if (!o->output || !o->type || type_from_name(o->type, &type))
        return bad_usage(
            "convert needs a type and a file: -q f32|f16|bf16|q8_0|q4_0 -o FILE.gguf");
    if (o->center && model_center(model, o->model))
        return -1;
    if (gguf_write_model(model, tokenizer, type, o->fold_norms, o->center,
                         o->model, o->output))
        return -1;
    if (!tokenizer)
        note("no tokenizer found to write");
    return 0;
}
