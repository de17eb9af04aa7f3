/* tokenize.c: the mode that lists the tokens of a text.
 * Tests: cli. */
#include "base/file.h"
#include "base/utf8.h"
#include "modes/common.h"
#include "text/pieces.h"
#include <stdlib.h>

/* Writes a line: the token's id and its text. Control characters and
 * backslashes are \xNN; a byte piece, and bytes that are no whole character,
 * <0xNN>. */
static void show_piece(const Run *run, Stream *out, int token) {
    const Tokenizer *t = &run->tokenizer;
    char text[32];
    int n;
    size_t used;
    const char *piece = tokenizer_decode(t, -1, token, &n);
    const bool is_byte = t->pieces.list[token].kind == PIECE_BYTE;
    stream_write(out, text, snprintf(text, sizeof text, "%7d  '", token));
    for (const char *s = piece, *end = piece + n; s < end; s += used) {
        const uint32_t code = utf8_read(s, end - s, &used);
        const char *format = NULL;
        if (is_byte || code >= UTF8_END)
            format = "<0x%02X>";
        else if (code < ' ' || code == 127 || code == '\\')
            format = "\\x%02x";
        if (format)
            stream_write(out, text,
                         snprintf(text, sizeof text, format, (uint8_t)*s));
        else
            stream_write(out, s, (int)used);
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
            fputs(i ? ", {" : "{", stdout);
            write_json_token(run, stdout, id, NULL);
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
