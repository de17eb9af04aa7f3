/* fuzz/bpe.c: libFuzzer target for ranked merges, pre-tokenizers,
 * tokenizer.json and tokenizer.model.
 *
 * The first two bytes are the share of the rest that is text, and the kind of
 * the remainder. 254: a tokenizer.model. Even: a tokenizer.json. Odd: the
 * merges of a GGUF file, two bytes each, whose vocabulary is all bytes and the
 * results of the merges; then encoded texts must decode back.
 */
#include "base/file.h"
#include "formats/folder.h"
#include "formats/gguf.h"
#include "modes/template.h"
#include "text/pieces.h"
#include "tokenizer.h"

#include "tests/fuzz/use.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 300 };

/* Tokens must be in the vocabulary and, if `decodes_back`, decode to the
 * text. */
static void encode(const Tokenizer *t, const char *text, size_t size,
                   bool decodes_back) {
    Tokens tokens;
    size_t at = 0;
    if (tokenizer_encode(t, text, size, false, &tokens))
        return;
    for (int i = 0; i < tokens.n; i++) {
        int n;
        if (tokens.ids[i] < 0 || tokens.ids[i] >= t->pieces.n)
            abort();
        const char *s =
            tokenizer_decode(t, i ? tokens.ids[i - 1] : -1, tokens.ids[i], &n);
        if (decodes_back && (n < 0 || (size_t)n > size - at ||
                             memcmp(s, text + at, (size_t)n) != 0))
            abort();
        at += (size_t)n;
    }
    if (decodes_back && at != size)
        abort();
    free(tokens.ids);
}

/* A message must not become special tokens. A vocabulary without the template's
 * characters writes no text, which is refused. */
static void chat(Tokenizer *t, const char *text, size_t size) {
    ChatTemplate template;
    Tokens plain, message;
    int n[2] = {0, 0};
    char *copy = strndup(text, size);
    Conversation empty = {.system = ""}, talk = empty;
    if (!copy ||
        chat_template_open(&template, t, &(Options){.template = "llama-2"}))
        abort();
    if (!conversation_add(&empty, "", 0) ||
        !conversation_add(&talk, copy, strlen(copy)))
        abort();
    (void)chat_template_render(&template, t, &empty, &plain);
    (void)chat_template_render(&template, t, &talk, &message);
    for (int i = 0; i < plain.n; i++)
        n[0] += t->pieces.list[plain.ids[i]].kind == PIECE_CONTROL;
    for (int i = 0; i < message.n; i++)
        n[1] += t->pieces.list[message.ids[i]].kind == PIECE_CONTROL &&
                message.ids[i] != t->pieces.unk;
    if (n[1] > n[0])
        abort();
    free(plain.ids);
    free(message.ids);
    free(copy);
    conversation_close(&empty);
    conversation_close(&talk);
    chat_template_close(&template);
}

/* ---- a GGUF file -------------------------------------------------------- */

typedef struct {
    uint8_t bytes[1 << 22];
    size_t n;
} Image;

static Image buffer;

static void put(const void *bytes, size_t n) {
    if (n > sizeof buffer.bytes - buffer.n)
        abort();
    memcpy(buffer.bytes + buffer.n, bytes, n);
    buffer.n += n;
}

static void put_string(const void *s, uint64_t n) {
    put(&n, sizeof n);
    put(s, n);
}

static void put_key(const char *key, uint32_t type) {
    put_string(key, strlen(key));
    put(&type, sizeof type);
}

static void put_array(const char *key, uint32_t type, uint64_t count) {
    put_key(key, 9);
    put(&type, sizeof type);
    put(&count, sizeof count);
}

/* A piece: its bytes and the merge that makes it. */
typedef struct {
    uint8_t bytes[64];
    int n, left, right;
} Made;

static void put_made(const Made *p) {
    char name[128];
    int n = 0;
    for (int i = 0; i < p->n; i++)
        n += byte_name(name + n, p->bytes[i]);
    put_string(name, (uint64_t)n);
}

static void put_merge(const Made *left, const Made *right) {
    char text[257];
    int n = 0;
    for (int i = 0; i < left->n; i++)
        n += byte_name(text + n, left->bytes[i]);
    text[n++] = ' ';
    for (int i = 0; i < right->n; i++)
        n += byte_name(text + n, right->bytes[i]);
    put_string(text, (uint64_t)n);
}

/* Returns the number of pieces; the last one is special. */
static int make_gguf(const uint8_t *data, size_t size, int cut) {
    static const char *const cuts[] = {"gpt-2", "smollm", "qwen2", "llama-bpe",
                                       "dbrx"};
    static Made made[256 + 1024];
    static const char special[] = "<|im_end|>";
    int n = 256;
    for (int i = 0; i < 256; i++)
        made[i] = (Made){.bytes = {(uint8_t)i}, .n = 1};
    for (; size >= 2 && n < 1280; data += 2, size -= 2) {
        int left = data[0] < 128 ? data[0] : n - 1 - (data[0] - 128) % n,
            right = data[1] % n;
        if (made[left].n + made[right].n > 64)
            continue;
        made[n] = (Made){
            .n = made[left].n + made[right].n, .left = left, .right = right};
        memcpy(mempcpy(made[n].bytes, made[left].bytes, (size_t)made[left].n),
               made[right].bytes, (size_t)made[right].n);
        n++;
    }
    buffer.n = 0;
    put("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0",
        24); /* version, tensors, keys */
    put_key("tokenizer.ggml.model", 8);
    put_string("gpt2", 4);
    put_key("tokenizer.ggml.pre", 8);
    put_string(cuts[cut % 5], strlen(cuts[cut % 5]));
    put_array("tokenizer.ggml.tokens", 8, (uint64_t)n + 1);
    for (int i = 0; i < n; i++)
        put_made(&made[i]);
    put_string(special, sizeof special - 1);
    put_array("tokenizer.ggml.token_type", 5, (uint64_t)n + 1);
    for (int i = 0; i <= n; i++)
        put(&(uint32_t){i < n ? 1 : 3}, 4);
    put_array("tokenizer.ggml.merges", 8, (uint64_t)(n - 256));
    for (int i = 256; i < n; i++)
        put_merge(&made[made[i].left], &made[made[i].right]);
    put_key("tokenizer.ggml.add_bos_token", 7);
    put("", 1);
    return n + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t n_text = (size - 2) * data[0] / 256;
    const char *text = (const char *)data + 2;
    Tokenizer t;
    File file;
    if (data[1] % 2 == 0) {
        const char *name = data[1] == 254 ? "input.model" : "input.json";
        if (tokenizer_open_folder(
                &t,
                fuzz_file(name, "", 0, data + 2 + n_text, size - 2 - n_text),
                VOCAB))
            return 0;
        encode(&t, text, n_text, false);
    } else {
        int n = make_gguf(data + 2 + n_text, size - 2 - n_text, data[1] / 2);
        const char *path = fuzz_file("input", "", 0, buffer.bytes, buffer.n);
        if (file_map(&file, path) ||
            gguf_read_tokenizer(&t, &file, path, n, true) != 1)
            abort();
        encode(&t, text, n_text, true);
        file_unmap(&file);
    }
    chat(&t, text, n_text);
    tokenizer_close(&t);
    return 0;
}
