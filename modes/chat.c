/* chat.c: conversation.
 *
 * Owns the turns: the user's lines, and the positions of the KV cache that stay between them. The tokens of a turn are
 * template.c's, the loop that writes an answer is common.c's.
 */
#include "base/error.h"
#include "base/process.h"
#include "modes/common.h"
#include "modes/template.h"
#include "text/stream.h"
#include <stdlib.h>
#include <string.h>

/* Reads the user's next line without its newline into *line, which the caller frees. 1: there is one; 0: the input has
 * ended, or Ctrl-C; -1: no memory. */
static int next_line(char **line) {
    if (on_terminal(stdin)) fputs("User: ", stderr);
    char byte = 0;
    size_t size = 0;
    FILE *text = open_memstream(line, &size);
    bool lost = !text;
    while (!lost && read_byte(&byte) && byte != '\n') lost = fputc(byte, text) == EOF;
    if (text && (fclose(text) || !*line)) lost = true;
    if (!lost && (size || byte == '\n') && !interrupted) return 1;
    free(*line);
    *line = NULL;
    return lost ? fail("out of memory for the line") : 0;
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

/* The user says a line, the model answers. */
static int take_turn(Run *run, Continuation *text, const ChatTemplate *template, const char *line) {
    Tokens turn;
    if (!*line) return 0;
    if (chat_template_render(template, &run->tokenizer, run->options->system, line, text->pos == 0, &turn)) return -1;
    if (on_terminal(stdin)) fputs("Assistant: ", stderr);
    const int status = answer(run, text, &turn);
    free(turn.ids);
    return status;
}

int mode_chat(Run *run) {
    const Options *o = run->options;
    const int context = run->session.context;
    ChatTemplate template;
    if (o->prompt_file || o->tokens)
        return bad_usage("chat reads its lines from standard input; the first may be given with -i");
    if (!chat_template_open(&template, &run->tokenizer))
        note("the model's chat template is none that norma knows; using %s's", template.name);
    Continuation text = {.steps = o->steps > 0 && o->steps < context ? o->steps : context, .end = template.end};
    run->model.eos_ends = true; /* an answer, whatever the format says of other texts */
    int status = o->prompt ? take_turn(run, &text, &template, o->prompt) : 0;
    for (int more = 1; more > 0 && !status && !interrupted;) {
        char *line = NULL;
        more = next_line(&line);
        status = more > 0 ? take_turn(run, &text, &template, line) : more;
        free(line);
    }
    if (status > 0) note("the context of %d positions is full", text.steps);
    return run_exit_status(status < 0);
}
