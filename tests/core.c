/* core.c: a program on the core alone, without modes/, lab/, cluster/ and units
 * that multiply tiles. It prints the most likely continuation of a model's
 * empty text. .ci/run compiles it and compares its text; it is no suite. */
#include "formats/open.h"
#include "sampler.h"
#include "session.h"
#include <stdio.h>

int main(int argc, char **argv) {
    Model model;
    Tokenizer tokenizer;
    Session session;
    Sampler sampler;
    Sampling greedy = {.repeat_penalty = 1};
    if (argc != 2 || model_open(&model, argv[1]))
        return 1;
    if (model_open_tokenizer(&tokenizer, &model, argv[1], NULL,
                             TOKENIZER_NEEDED) != 1)
        return 1;
    if (session_open(&session, &model, 2, 32, 0, model.kv_type))
        return 1;
    if (sampler_open(&sampler, &greedy, model.config.vocab_size))
        return 1;
    for (int pos = 0, token = tokenizer.bos, length; pos < 60; pos++) {
        int previous = token;
        token = sampler_next(
            &sampler, model_forward_text(&session, &previous, 1, pos, 1));
        const char *text =
            tokenizer_decode(&tokenizer, previous, token, &length);
        fwrite(text, 1, length, stdout);
    }
}
