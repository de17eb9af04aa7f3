/* fuzz/model.c: libFuzzer target for model files.
 *
 * The input is a whole file in one of llama2.c's formats or GGUF; its
 * tokenizer, if any, is used too.
 */
#include "model.h"
#include "formats/open.h"
#include "tokenizer.h"

#include "tests/fuzz/use.h"

static const char TEXT[] =
    "Once upon a \xff time\xe2\x80\x94 it's 1234567 o'clock;\r\n\n  \tn\xc3\xa4her e\xcc\x81";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Model model;
    Tokenizer tokenizer;
    const char *path = fuzz_file("input", "", 0, data, size);
    if (size == 0 || model_open(&model, path))
        return 0;
    int found = model_open_tokenizer(&tokenizer, &model, path, NULL,
                                     TOKENIZER_IF_READABLE);
    use_model(&model, found == 1 ? &tokenizer : NULL, (unsigned)size);
    if (found == 1)
        use_tokenizer(&tokenizer, TEXT, sizeof TEXT - 1);
    tokenizer_close(&tokenizer);
    model_close(&model);
    return 0;
}
