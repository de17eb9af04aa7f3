/* convert.c: the mode that writes a model as a GGUF file (gguf_write.c).
 * Tests: convert. */
#include "formats/gguf.h"
#include "modes/common.h"

int mode_convert(Run *run) {
    const Options *o = run->options;
    Model *model = &run->model;
    /* a GGUF file's own tokenizer is copied */
    bool given =
        run->tokenizer.pieces.n && (o->tokenizer || !gguf_is(model->files));
    GgufForm form = {
        .pure = o->pure, .fold = o->fold_norms, .center = o->center};
    if (!o->output || !o->type || type_from_name(o->type, &form.type))
        return bad_usage(
            "convert needs a type and a file: -q f32|f16|bf16|q8_0|q4_0 -o FILE.gguf");
    if (o->center && model_center(model, o->model))
        return -1;
    if (type_takes_int8(form.type) && type_takes_int8(model->layers->wq.type))
        note(
            "the weights are quantized already: the file is less accurate than one made of the original");
    return gguf_write_model(model, given ? &run->tokenizer : NULL, form,
                            o->model, o->output);
}
