/* fuzz/folder.c: libFuzzer target for Hugging Face folders.
 *
 * The input has fields that end with a zero byte: the files of FILES (empty:
 * missing), the headers of two files of weights, and the number of data bytes
 * in the first one, in decimal. The rest is the data of both. With an index the
 * files are `a` and `b`; without, all data is in the first, model.safetensors.
 */
#include "formats/open.h"
#include "model.h"
#include "tokenizer.h"

#include "tests/fuzz/use.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INDEX = 5, N_FILES, HEADER_A = N_FILES, HEADER_B, SPLIT, N_FIELDS };
static const char *const FILES[N_FILES] = {
    "config.json",           "tokenizer.json",
    "tokenizer_config.json", "generation_config.json",
    "chat_template.jinja",   "model.safetensors.index.json"};

/* The bytes up to the next zero byte, which is skipped. */
static size_t next_field(const uint8_t **data, size_t *size) {
    const uint8_t *end = memchr(*data, 0, *size);
    size_t n = end ? (size_t)(end - *data) : *size, taken = end ? n + 1 : n;
    *data += taken;
    *size -= taken;
    return n;
}

/* The header is preceded by its length. */
static void write_weights(const char *name, const void *header, uint64_t n,
                          const void *data, size_t n_data) {
    uint8_t *head = malloc(sizeof n + n);
    expect(head != NULL);
    memcpy(mempcpy(head, &n, sizeof n), header, n);
    fuzz_file(name, head, sizeof n + n, data, n_data);
    free(head);
}

static void make_folder(const uint8_t *data, size_t size) {
    const uint8_t *fields[N_FIELDS];
    size_t n[N_FIELDS], split = 0;
    for (int i = 0; i < N_FIELDS; i++) {
        fields[i] = data;
        n[i] = next_field(&data, &size);
        if (i >= N_FILES)
            continue;
        unlink(fuzz_path(FILES[i]));
        if (n[i])
            fuzz_file(FILES[i], fields[i], n[i], "", 0);
    }
    for (size_t i = 0; i < n[SPLIT] && split <= size; i++)
        split = 10 * split + fields[SPLIT][i] % 16;
    if (split > size || !n[INDEX])
        split = size;
    unlink(fuzz_path("model.safetensors"));
    write_weights(n[INDEX] ? "a" : "model.safetensors", fields[HEADER_A],
                  n[HEADER_A], data, split);
    if (n[INDEX])
        write_weights("b", fields[HEADER_B], n[HEADER_B], data + split,
                      size - split);
}

static const char TEXT[] =
    "<s>It's 12,345 o'clock<|im_end|>\r\n  n\xc3\xa4her e\xcc\x81 \xe2\x96\x81 \xff</s>";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Model model;
    Tokenizer tokenizer;
    make_folder(data, size);
    if (model_open(&model, fuzz_folder()))
        return 0;
    int found = model_open_tokenizer(&tokenizer, &model, fuzz_folder(), NULL,
                                     TOKENIZER_IF_READABLE);
    use_model(&model, found == 1 ? &tokenizer : NULL, (unsigned)size);
    if (found == 1)
        use_tokenizer(&tokenizer, TEXT, sizeof TEXT - 1);
    tokenizer_close(&tokenizer);
    model_close(&model);
    return 0;
}
