/* fuzz/tokenizer.c: libFuzzer target for tokenizers, encoding, and chat
 * templates.
 *
 * The first byte gives the number of pieces, the second the share of the rest
 * that is text and the kind of the remainder. Even: a tokenizer.bin. Odd:
 * pieces (type and length in one byte, score in the next, text) and a chat
 * template, of which a GGUF file is made.
 */
#include "tokenizer.h"
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/llama2c.h"

#include "tests/fuzz/use.h"

#include <stdlib.h>

/* ---- a GGUF file -------------------------------------------------------- */

typedef struct {
    uint8_t bytes[1 << 18];
    size_t n;
} Image;

static void put(Image *b, const void *bytes, size_t n) {
    if (n > sizeof b->bytes - b->n)
        abort();
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
}

static void put_u32(Image *b, uint32_t value) {
    put(b, &value, sizeof value);
}

static void put_string(Image *b, const void *s, uint64_t n) {
    put(b, &n, sizeof n);
    put(b, s, n);
}

static void put_key(Image *b, const char *key, uint32_t type) {
    put_string(b, key, strlen(key));
    put_u32(b, type);
}

static void put_array(Image *b, const char *key, uint32_t type,
                      uint64_t count) {
    put_key(b, key, 9);
    put_u32(b, type);
    put(b, &count, sizeof count);
}

static const char *make_gguf(const uint8_t *data, size_t size, int vocab_size) {
    static Image b;
    uint32_t types[258];
    float scores[258];
    b.n = 0;
    put(&b, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0",
        24); /* version, tensors, keys */
    put_key(&b, "tokenizer.ggml.model", 8);
    put_string(&b, "llama", 5);
    put_array(&b, "tokenizer.ggml.tokens", 8, (uint64_t)vocab_size);
    for (int i = 0; i < vocab_size; i++) {
        uint8_t head = size > 0 ? data[0] : 0;
        size_t n = head >> 3;
        scores[i] = size > 1 ? (int8_t)data[1] : 0;
        types[i] = head & 7;
        data += size < 2 ? size : 2;
        size -= size < 2 ? size : 2;
        if (n > size)
            n = size;
        put_string(&b, data, n);
        data += n;
        size -= n;
    }
    put_array(&b, "tokenizer.ggml.scores", 6, (uint64_t)vocab_size);
    put(&b, scores, (size_t)vocab_size * sizeof *scores);
    put_array(&b, "tokenizer.ggml.token_type", 5, (uint64_t)vocab_size);
    put(&b, types, (size_t)vocab_size * sizeof *types);
    put_key(&b, "tokenizer.chat_template", 8);
    put_string(&b, data, size);
    return fuzz_file("input", "", 0, b.bytes, b.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3)
        return 0;
    int vocab_size = 3 + data[0];
    size_t n_text = (size - 2) * data[1] / 512;
    const char *text = (const char *)data + 2;
    const uint8_t *rest = data + 2 + n_text;
    size_t n_rest = size - 2 - n_text;
    Tokenizer tokenizer;
    File file;
    if (data[1] % 2 == 0) {
        if (tokenizer_open_bin(&tokenizer,
                               fuzz_file("input", "", 0, rest, n_rest),
                               vocab_size))
            return 0;
        use_tokenizer(&tokenizer, text, n_text);
    } else {
        const char *path = make_gguf(rest, n_rest, vocab_size);
        if (file_map(&file, path) ||
            gguf_read_tokenizer(&tokenizer, &file, path, vocab_size, true) != 1)
            abort();
        use_tokenizer(&tokenizer, text, n_text);
        file_unmap(&file);
    }
    tokenizer_close(&tokenizer);
    return 0;
}
