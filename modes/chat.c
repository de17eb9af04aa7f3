/* chat.c: conversation.
 *
 * Owns the turns: the user's lines, and the positions of the KV cache that stay between them. The tokens of a turn are
 * template.c's, the loop that writes an answer is common.c's.
 */
#include "base/process.h"
#include "modes/common.h"
#include "modes/template.h"
#include "text/stream.h"
#include <stdlib.h>
#include <string.h>

/* The user's next line without its newline. NULL at the end of input. The caller frees it. */
static char *next_line(void) {
    if (on_terminal(stdin)) fputs("User: ", stderr);
    char *line = NULL, byte = 0;
    size_t size = 0;
    FILE *text = open_memstream(&line, &size);
    if (!text) return NULL;
    while (read_some(fileno(stdin), &byte, 1) == 1 && byte != '\n') fputc(byte, text);
    fclose(text);
    if ((size || byte == '\n') && !interrupted) return line;
    free(line);
    if (on_terminal(stdin)) fputc('\n', stderr); /* the cursor is behind "User: " */
    return NULL;
}

/* Runs a turn and writes the answer. 1: the context is full. The token that ended an answer has not run. */
static int answer(Run *run, Continuation *text, const Tokens *turn) {
    if (turn->n > text->steps - text->pos) return 1;
    Stream out;
    stream_open(&out, stdout);
    const int status = run_continue(run, text, turn, &out);
    stream_write(&out, "\n", 1);
    return stream_close(&out) ? -1 : status;
}

int mode_chat(Run *run) {
    const Options *o = run->options;
    const int context = run->session.context;
    const char *first = o->prompt;
    ChatTemplate template;
    if (o->prompt_file || o->tokens)
        return bad_usage("chat reads its lines from standard input; the first may be given with -i");
    if (!chat_template_open(&template, &run->tokenizer))
        note("the model's chat template is none that norma knows; using %s's", template.name);
    Continuation text = {.steps = o->steps > 0 && o->steps < context ? o->steps : context, .end = template.end};
    run->model.eos_ends = true; /* an answer, whatever the format says of other texts */
    int status = 0;
    for (char *line; !status && !interrupted && (line = first ? strdup(first) : next_line()); free(line)) {
        first = NULL;
        if (!*line) continue;
        Tokens turn;
        status = chat_template_render(&template, &run->tokenizer, o->system, line, text.pos == 0, &turn);
        if (status) continue;
        if (on_terminal(stdin)) fputs("Assistant: ", stderr);
        status = answer(run, &text, &turn);
        free(turn.ids);
    }
    if (status > 0) note("the context of %d positions is full", text.steps);
    return run_exit_status(status < 0);
}
