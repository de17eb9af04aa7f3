/* tokenize.c: the mode that lists the tokens of a text.
 * Tests: cli. */
#include "base/file.h"
#include "modes/common.h"
#include <math.h>
#include <stdlib.h>

/* Writes a line: the token's id and its bytes, with control characters and
 * backslashes as \xNN. */
static void show_piece(const Run *run, Stream *out, int token) {
    char text[32];
    int n;
    const char *piece = tokenizer_decode(&run->tokenizer, -1, token, &n);
    stream_write(out, text, snprintf(text, sizeof text, "%7d  '", token));
    for (int i = 0; i < n; i++) {
        uint8_t byte = piece[i];
        bool escaped = byte < ' ' || byte == 127 || byte == '\\';
        stream_write(
            out, text,
            snprintf(text, sizeof text, escaped ? "\\x%02x" : "%c", byte));
    }
    stream_write(out, "'\n", 2);
}

int run_show_prompt(const Run *run, const Tokens *prompt) {
    Stream err;
    stream_open(&err, stderr);
    for (int i = 0; run->options->verbose_prompt && i < prompt->n; i++)
        show_piece(run, &err, prompt->ids[i]);
    return stream_close(&err);
}

int mode_tokenize(Run *run) {
    bool json = run->options->json, verbose = run->options->verbose;
    Tokens tokens;
    Stream out;
    if (run_tokens(run, true, &tokens))
        return -1;
    stream_open(&out, stdout);
    if (json)
        fputs("{\"tokens\": [", stdout);
    for (int i = 0; i < tokens.n; i++) {
        int id = tokens.ids[i];
        if (json) {
            if (i)
                fputs(", ", stdout);
            write_json_token(run, stdout, id, NAN);
            putchar('}');
        } else if (verbose)
            show_piece(run, &out, id);
        else
            printf(i ? ",%d" : "%d", id);
    }
    if (json || !verbose)
        puts(json ? "]}" : "");
    free(tokens.ids);
    return -(stream_close(&out) || stdout_finish());
}
