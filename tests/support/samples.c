/* samples.c: a small model of each format, with its tokenizer, as files in a
 * folder. */
#include "formats/gguf_file.h"
#include "kernels/tensor.h"
#include "model.h"
#include "tokenizer.h"

#include "formats/gguf.h"
#include "formats/open.h"
#include "tests/support/family_writer.h"
#include "tests/support/folder_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/samples.h"
#include "tests/support/test.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 300, N_BPE = 903, N_WORDS = 900 };

static const char *in(const char *folder, const char *name) {
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

static int write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    return f && fputs(text, f) >= 0 && fclose(f) == 0 ? 0 : -1;
}

/* Copies a tokenizer.json of tests/golden with only its first 16 merges,
 * because each merge allocates memory. */
static int write_tokenizer(const char *from, const char *to) {
    static char text[1 << 15];
    FILE *source = fopen(from, "rb");
    if (!source)
        return -1;
    text[fread(text, 1, sizeof text - 1, source)] = '\0';
    fclose(source);
    char *end = strstr(text, "\"merges\":[");
    for (int commas = 0; end && *end && commas < 16; end++)
        commas += *end == ',';
    if (!end)
        return -1;
    strcpy(end - 1, "]}}\n");
    return write_text(to, text);
}

static int copy_file(const char *from, const char *to) {
    char buffer[1 << 12];
    FILE *source = fopen(from, "rb"), *copy = fopen(to, "wb");
    if (!source || !copy)
        return -1;
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, source)) > 0;)
        fwrite(buffer, 1, n, copy);
    fclose(source);
    return fclose(copy);
}

static int write_gguf(const char *path, const Relative *relative, Type type) {
    static const HashModel model = {32, 32, 2, 4, 2, VOCAB, 40, true, 10};
    static const GgufPiece markers[] = {{"<|im_start|>", 3}, {"<|im_end|>", 4}};
    static GgufFile f;
    gguf_make_relative(&f, &model, relative);
    gguf_convert(&f, type);
    gguf_set_text(&f, "tokenizer.chat_template",
                  "<|im_start|>{{ role }}\n{{ content }}<|im_end|>\n");
    gguf_set_int(&f, "tokenizer.ggml.eot_token_id", VOCAB - 1);
    int status =
        gguf_add_tokenizer(&f, VOCAB, markers, 2) || gguf_write(&f, path) ? -1
                                                                          : 0;
    gguf_free(&f);
    return status;
}

/* Writes a folder with a model of vocab_size tokens, its weights in n_files
 * files. */
static int write_folder(const char *folder, const char *scratch, int vocab_size,
                        int n_files) {
    HashModel hash = {16, 24, 2, 4, 2, vocab_size, 40, false, 12};
    FolderForm form = {.model_type = "llama",
                       .type = n_files > 1 ? TYPE_BF16 : TYPE_F32,
                       .n_files = n_files};
    Model m;
    if (hashmodel_write(&hash, scratch, 1, 0) || model_open(&m, scratch))
        return -1;
    int status = folder_write(&m, folder, &form);
    model_close(&m);
    remove(scratch);
    return status;
}

static int write_folders(const char *folder) {
    static const char generation[] =
        "{\"bos_token_id\": 0, \"eos_token_id\": [1, 4], \"temperature\": 0.6}\n";
    static const char tokens[] =
        "{\"bos_token\": \"<|begin_of_text|>\", \"eos_token\": {\"content\": \"<|eot_id|>\"}}\n";
    static const char words[] =
        "{\"add_bos_token\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\", "
        "\"chat_template\": \"<|im_start|>{{ content }}<|im_end|> {{ eos_token }}\"}\n";
    return write_folder(in(folder, "bpe"), in(folder, "scratch"), N_BPE, 2) ||
                   write_folder(in(folder, "words"), in(folder, "scratch"),
                                N_WORDS, 1) ||
                   write_tokenizer("tests/golden/bpe_llama3.json",
                                   in(folder, "bpe/tokenizer.json")) ||
                   copy_file("tests/golden/chat/llama-3.jinja",
                             in(folder, "bpe/chat_template.jinja")) ||
                   write_tokenizer("tests/golden/bpe_llama2.json",
                                   in(folder, "words/tokenizer.json")) ||
                   write_text(in(folder, "bpe/generation_config.json"),
                              generation) ||
                   write_text(in(folder, "bpe/tokenizer_config.json"),
                              tokens) ||
                   write_text(in(folder, "words/tokenizer_config.json"), words)
               ? -1
               : 0;
}

/* Converts the folder bpe to GGUF. */
static int convert_folder(const char *folder) {
    Model m;
    Tokenizer t;
    int status = -1;
    if (model_open(&m, in(folder, "bpe")))
        return -1;
    if (model_open_tokenizer(&t, &m, in(folder, "bpe"), NULL,
                             TOKENIZER_NEEDED) > 0) {
        status = gguf_write_model(&m, &t, (GgufForm){.type = TYPE_F16}, "bpe",
                                  in(folder, "bpe.gguf"));
        tokenizer_close(&t);
    }
    model_close(&m);
    return status;
}

int samples_write(const char *folder) {
    static const HashModel small = {16, 24, 2, 4, 2, VOCAB, 40, true, 6};
    Relative llama = {.architecture = "llama"};
    Relative mixture = {.architecture = "qwen3moe",
                        .head_size = 8,
                        .n_experts = 4,
                        .n_experts_used = 2,
                        .expert_dim = 32};
    int status = 0;
    for (int version = 0; version < 3; version++) {
        char name[] = {'v', (char)('0' + version), '.', 'b', 'i', 'n', '\0'};
        status |= hashmodel_write(&small, in(folder, name), version, 8);
    }
    status |= hashtokenizer_write(in(folder, "tokenizer.bin"), VOCAB);
    status |= write_gguf(in(folder, "spm.gguf"), &llama, TYPE_F32);
    status |= write_gguf(in(folder, "moe.gguf"), &mixture, TYPE_F16);
    return status || write_folders(folder) || convert_folder(folder) ? -1 : 0;
}

const char *const SAMPLE_FAMILIES[N_SAMPLE_FAMILIES] = {
    "gemma2",   "gemma3_1b", "gemma3_nested", "olmo",     "olmo2",
    "olmo3",    "phi3",      "phi4",          "granite",  "smollm3",
    "stablelm", "mixtral",   "glm4",          "olmoe",    "seed_oss",
    "hunyuan",  "cohere2",   "arcee",         "qwen2_moe"};

static int write_family(const char *folder, const char *name) {
    Family f;
    if (family_open(&f, name))
        return -1;
    int status =
        family_write(&f, in(folder, name), &(FolderForm){.type = TYPE_F16});
    family_close(&f);
    return status;
}

/* Writes a model with seven layers, because every sixth layer of Gemma 3 has no
 * window, and with a context longer than a window's cache. Gemma 2 is always
 * tied. */
static int write_gguf_family(const char *folder, const char *architecture) {
    HashModel model = {
        32, 32, 7, 4, 2, 40, 200, strcmp(architecture, "gemma2") != 0, 14};
    static GgufFile f;
    char name[32];
    snprintf(name, sizeof name, "%s.gguf", architecture);
    gguf_make_family(&f, &model, architecture);
    gguf_convert(&f, TYPE_F16);
    int status = gguf_write(&f, in(folder, name));
    gguf_free(&f);
    return status;
}

int samples_write_families(const char *folder) {
    int status = 0;
    for (int i = 0; i < N_SAMPLE_FAMILIES; i++)
        status |= write_family(folder, SAMPLE_FAMILIES[i]);
    for (int i = 0; i < N_GGUF_FAMILIES; i++)
        status |= write_gguf_family(folder, GGUF_FAMILIES[i]);
    return status ? -1 : 0;
}
