/* fuzz/tokenizer.c: libFuzzer's door to tokenizer.bin and to encoding.
 *
 * The first byte says how many pieces the vocabulary has, the second how much
 * of the rest is text; what remains is the tokenizer's file.
 */
#include "file.h"
#include "model.h"

/* Tokens must be in the vocabulary, and bytes come back where all are known. */
static void encode(const Tokenizer *t, const char *text, size_t size) {
    Tokens tokens;
    if (tokenizer_encode(t, text, size, true, &tokens)) return;
    for (int i = 0; i < tokens.n; i++) {
        int n;
        if (tokens.ids[i] < 0 || tokens.ids[i] >= t->n_pieces) abort();
        tokenizer_decode(t, i ? tokens.ids[i - 1] : -1, tokens.ids[i], &n);
        if (n < 0) abort();
    }
    free(tokens.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) return 0;
    const int vocab_size = 3 + data[0];
    const size_t n_text = (size - 2) * data[1] / 512;
    Tokenizer tokenizer;
    if (tokenizer_open(&tokenizer, as_file(data + 2 + n_text, size - 2 - n_text), vocab_size)) return 0;
    encode(&tokenizer, (const char *)data + 2, n_text);
    tokenizer_close(&tokenizer);
    return 0;
}
