/* fuzz/folder.c: libFuzzer's door to Hugging Face folders.
 *
 * The input is config.json, a zero byte, the header of model.safetensors, a zero
 * byte, the data. What opens is run for two tokens.
 */
#include "formats/open.h"
#include "kv_cache.h"
#include "model.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONFIG, WEIGHTS, N_FILES };
static int files[N_FILES];

static char path[] = "/tmp/norma-fuzz-XXXXXX";
static const char *const names[N_FILES] = {"config.json", "model.safetensors"};

static void remove_folder(void) {
    char link[64];
    for (int i = 0; i < N_FILES; i++) {
        snprintf(link, sizeof link, "%s/%s", path, names[i]);
        unlink(link);
    }
    rmdir(path);
}

/* Links to files in memory. */
static void make_folder(void) {
    char target[64], link[64];
    if (!mkdtemp(path)) abort();
    for (int i = 0; i < N_FILES; i++) {
        files[i] = memfd_create(names[i], 0);
        snprintf(target, sizeof target, "/proc/self/fd/%d", files[i]);
        snprintf(link, sizeof link, "%s/%s", path, names[i]);
        if (files[i] < 0 || symlink(target, link)) abort();
    }
    atexit(remove_folder);
}

static void write_at(int fd, const void *bytes, size_t size, size_t at) {
    if (pwrite(fd, bytes, size, (off_t)at) != (ssize_t)size) abort();
}

/* Bytes up to the next zero byte, which is taken as well. */
static size_t next_field(const uint8_t **data, size_t *size) {
    const uint8_t *end = memchr(*data, 0, *size);
    const size_t n = end ? (size_t)(end - *data) : *size, taken = end ? n + 1 : n;
    *data += taken;
    *size -= taken;
    return n;
}

static void run_model(const Model *model) {
    Session session;
    const int tokens[2] = {0, model->config.vocab_size - 1};
    if (session_open(&session, model, 1, 2, 2, KV_F32)) return;
    const float *logits = model->config.context > 1 ? model_forward(&session, tokens, 2, 0, 1) : NULL;
    if (logits) check_logits(logits, (size_t)model->config.vocab_size);
    session_close(&session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *config = data;
    const size_t n_config = next_field(&data, &size);
    const uint8_t *header = data;
    const uint64_t n_header = next_field(&data, &size);
    Model model;
    if (!files[0]) make_folder();
    if (ftruncate(files[CONFIG], 0) || ftruncate(files[WEIGHTS], 0)) abort();
    write_at(files[CONFIG], config, n_config, 0);
    write_at(files[WEIGHTS], &n_header, sizeof n_header, 0);
    write_at(files[WEIGHTS], header, n_header, sizeof n_header);
    write_at(files[WEIGHTS], data, size, sizeof n_header + n_header);
    if (model_open(&model, path)) return 0;
    run_model(&model);
    model_close(&model);
    return 0;
}
