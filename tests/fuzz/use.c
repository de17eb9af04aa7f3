/* fuzz/use.c: uses an opened model or tokenizer.
 *
 * For any file: logits have the same bits before and after packing, and if
 * positions run again; a sampler chooses tokens of the vocabulary; texts become
 * tokens of the vocabulary; a chat renders; a GGUF file that is written opens
 * again, with its tokenizer.
 */
#include "tests/fuzz/use.h"
#include "formats/gguf.h"
#include "formats/open.h"
#include "formats/pack.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "modes/template.h"
#include "sampler.h"
#include "session.h"
#include "text/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void expect(bool holds) {
    if (!holds)
        abort();
}

/* ---- files -------------------------------------------------------------- */

static char folder[] = "/dev/shm/norma-fuzz-XXXXXX";

static void remove_folder(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command))
        abort();
}

const char *fuzz_folder(void) {
    static bool made;
    if (!made)
        expect(mkdtemp(folder) && !atexit(remove_folder));
    made = true;
    return folder;
}

const char *fuzz_path(const char *name) {
    static char paths[4][96];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", fuzz_folder(), name);
    return path;
}

const char *fuzz_file(const char *name, const void *head, size_t n_head,
                      const void *data, size_t n_data) {
    const char *path = fuzz_path(name);
    FILE *out = fopen(path, "wb");
    expect(out && fwrite(head, 1, n_head, out) == n_head &&
           fwrite(data, 1, n_data, out) == n_data && !fclose(out));
    return path;
}

/* ---- tokenizers --------------------------------------------------------- */

void check_tokens(const Tokenizer *t, Tokens *tokens) {
    static Stream stream;
    if (!stream.out)
        stream_open(&stream, fopen("/dev/null", "w"));
    stream.terminal = tokens->n % 2;
    for (int i = 0; i < tokens->n; i++) {
        int n;
        expect(tokens->ids[i] >= 0 && tokens->ids[i] < t->pieces.n);
        const char *text = tokenizer_decode(t, i ? tokens->ids[i - 1] : -1,
                                            tokens->ids[i], &n);
        expect(n >= 0);
        stream_write(&stream, text, n);
    }
    free(tokens->ids);
}

/* A turn, then the next one after an answer. The vocabulary's template may be
 * refused. */
static void chat(Tokenizer *t, char *message) {
    ChatTemplate template;
    Tokens tokens, next;
    bool own = !chat_template_open(&template, t, &(Options){.model = "fuzz"});
    if (!own) {
        chat_template_close(&template);
        expect(!chat_template_open(
            &template, t, &(Options){.model = "fuzz", .template = "chatml"}));
    }
    Conversation talk = {0};
    expect(conversation_add(&talk, message, strlen(message)) != NULL);
    if (!chat_template_render(&template, t, &talk, &tokens)) {
        const JinjaText *answer =
            conversation_add(&talk, message, strlen(message));
        expect(answer != NULL);
        memset(answer->marks, true, answer->n / 2);
        expect(conversation_add(&talk, message, strlen(message)) != NULL);
        talk.system = message;
        if (!chat_template_render(&template, t, &talk, &next))
            check_tokens(t, &next);
        check_tokens(t, &tokens);
    }
    conversation_close(&talk);
    chat_template_close(&template);
}

void use_tokenizer(Tokenizer *t, const char *text, size_t size) {
    Tokens tokens;
    char *message = strndup(text, size);
    expect(message != NULL);
    if (!tokenizer_encode(t, text, size, size % 2, &tokens))
        check_tokens(t, &tokens);
    chat(t, message);
    free(message);
}

/* ---- models ------------------------------------------------------------- */

/* The logits of three tokens, the last one in a separate pass; the caller frees
 * them. NULL: it does not run. */
static float *logits_of(const Model *m, KvType kv) {
    int n = m->config.context < 3 ? m->config.context : 3,
        tokens[3] = {0, m->config.vocab_size - 1, 0};
    size_t size = (size_t)m->config.vocab_size;
    const float *logits = NULL;
    float *copy = NULL;
    Session s;
    if (session_open(&s, m, 1, 2, n, kv))
        return NULL;
    if (n == 1 || model_forward_text(&s, tokens, n - 1, 0, 0))
        logits = model_forward_text(&s, tokens + n - 1, 1, n - 1, 1);
    if (logits && !check_logits(logits, size))
        copy = malloc(size * sizeof *copy);
    if (copy)
        memcpy(copy, logits, size * sizeof *copy);
    session_close(&s);
    return copy;
}

/* Runs more tokens than the windows have, then the last ones again: the logits
 * must have the same bits. */
static void run_again(const Model *m, KvType kv) {
    enum { MAX_TOKENS = 96, BACK = 31 };
    static const int tokens[MAX_TOKENS];
    int n = m->config.context < MAX_TOKENS ? m->config.context : MAX_TOKENS;
    size_t bytes = (size_t)m->config.vocab_size * sizeof(float);
    bool slides = false;
    for (int l = 0; l < m->config.n_layers; l++)
        slides |= m->layers[l].window > 0;
    Session s;
    if (!slides || n <= BACK || session_open(&s, m, 1, 2, 0, kv))
        return;
    const float *logits = model_forward_text(&s, tokens, n, 0, 1);
    float *first = logits && !check_logits(logits, (size_t)m->config.vocab_size)
                       ? malloc(bytes)
                       : NULL;
    if (first) {
        memcpy(first, logits, bytes);
        logits = model_forward_text(&s, tokens, BACK, n - BACK, 1);
        expect(logits && !memcmp(first, logits, bytes));
    }
    free(first);
    session_close(&s);
}

static void sample(const Model *m, const float *logits) {
    static const Sampling options[] = {
        {.repeat_penalty = 1, .seed = 1}, /* greedy */
        {.temperature = 1, .repeat_penalty = 1, .seed = 2},
        {.temperature = 1, .repeat_penalty = 1, .seed = 3, .top_p = 0.9f},
        {.temperature = 0.5f,
         .repeat_penalty = 1.1f,
         .seed = 4,
         .top_p = 0.9f,
         .top_k = 5,
         .min_p = 0.01f},
    };
    for (int i = 0; i < 4; i++) {
        Sampler s;
        if (!sampler_open(&s, &options[i], m->config.vocab_size)) {
            sampler_accept(&s, 0);
            int token = sampler_next(&s, logits);
            expect(token >= 0 && token < m->config.vocab_size);
        }
        sampler_close(&s);
    }
}

static void convert(const Model *m, const Tokenizer *t, Type type, bool fold) {
    const char *path = fuzz_path("written.gguf");
    Model again;
    Tokenizer tokenizer;
    if (gguf_write_model(m, t, (GgufForm){.type = type, .fold = fold}, "fuzz",
                         path))
        return;
    expect(!model_open(&again, path));
    if (t) {
        expect(gguf_read_tokenizer(&tokenizer, again.files, path,
                                   again.config.vocab_size, true) == 1);
        tokenizer_close(&tokenizer);
    }
    model_close(&again);
}

void use_model(Model *m, const Tokenizer *t, unsigned choice) {
    static const Type types[] = {TYPE_F32, TYPE_F16, TYPE_BF16, TYPE_Q8_0,
                                 TYPE_Q4_0};
    KvType kv = choice / 5 % 2 ? KV_F16 : KV_F32;
    float *plain = logits_of(m, kv);
    if (plain)
        sample(m, plain);
    run_again(m, kv);
    convert(m, t, types[choice % 5], choice / 10 % 2);
    model_pack(m, 1);
    float *packed = plain ? logits_of(m, kv) : NULL;
    expect(!plain ||
           (packed && !memcmp(packed, plain,
                              (size_t)m->config.vocab_size * sizeof *plain)));
    free(plain);
    free(packed);
}
