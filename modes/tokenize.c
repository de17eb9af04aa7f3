/* tokenize.c: the mode that lists the tokens of a text. */
#include "base/file.h"
#include "modes/common.h"
#include "text/stream.h"
#include "tokenizer.h"
#include <math.h>
#include <stdlib.h>

void run_show_piece(const Run *run, Stream *out, int token) {
    char text[32];
    int n;
    const char *piece = tokenizer_decode(&run->tokenizer, -1, token, &n);
    stream_write(out, text, snprintf(text, sizeof text, "%7d  '", token));
    for (int i = 0; i < n; i++)
        if ((uint8_t)piece[i] < ' ' || piece[i] == 127 || piece[i] == '\\')
            stream_write(out, text, snprintf(text, sizeof text, "\\x%02x", (uint8_t)piece[i]));
        else
            stream_write(out, &piece[i], 1);
    stream_write(out, "'\n", 2);
}

int mode_tokenize(Run *run) {
    Tokens tokens;
    if (run_tokens(run, true, &tokens)) return -1;
    if (run->options->json) {
        fputs("{\"tokens\": [", stdout);
        for (int i = 0; i < tokens.n; i++) {
            if (i) fputs(", ", stdout);
            write_json_token(run, stdout, tokens.ids[i], NAN);
            putchar('}');
        }
        puts("]}");
        free(tokens.ids);
        return stdout_finish();
    }
    Stream out;
    stream_open(&out, stdout);
    for (int i = 0; i < tokens.n; i++) {
        char number[32];
        if (run->options->verbose)
            run_show_piece(run, &out, tokens.ids[i]);
        else
            stream_write(&out, number, snprintf(number, sizeof number, i ? ",%d" : "%d", tokens.ids[i]));
    }
    if (!run->options->verbose) stream_write(&out, "\n", 1);
    free(tokens.ids);
    return stream_close(&out);
}
