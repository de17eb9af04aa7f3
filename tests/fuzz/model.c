/* fuzz/model.c: libFuzzer's door to everything that reads a model file.
 *
 * The input is a whole file: llama2.c's formats and GGUF, by its first bytes.
 * What opens is run for two tokens, and its tokenizer encodes a text.
 */
#include "model.h"
#include "formats/gguf.h"
#include "formats/open.h"
#include "kv_cache.h"
#include "tokenizer.h"

#include "tests/fuzz/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static void run_model(const Model *model) {
    Session session;
    const int tokens[2] = {0, model->config.vocab_size - 1};
    if (session_open(&session, model, 1, 2, 2, KV_F32)) return;
    const float *logits = model->config.context > 1 ? model_forward(&session, tokens, 2, 0, 1) : NULL;
    if (logits && check_logits(logits, (size_t)model->config.vocab_size)) {
        session_close(&session);
        return;
    }
    session_close(&session);
}

static void run_tokenizer(const Model *model, const char *path) {
    Tokenizer tokenizer;
    Tokens tokens;
    if (!gguf_is(model->files)) return;
    if (gguf_read_tokenizer(&tokenizer, model->files, path, model->config.vocab_size, true) < 1) return;
    if (!tokenizer_encode(&tokenizer, "Once upon a \xff time", 18, true, &tokens)) free(tokens.ids);
    tokenizer_close(&tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Model model;
    const char *path = as_file(data, size);
    if (size == 0 || model_open(&model, path)) return 0;
    run_tokenizer(&model, path);
    run_model(&model);
    model_close(&model);
    return 0;
}
