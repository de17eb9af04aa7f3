/* chat.c: conversation.
 *
 * Owns the turns: the user's lines, the model's answers, and the positions of the KV cache that stay
 * between them. The tokens of a turn are template.c's, the text that is written stream.c's.
 */
#include "base/error.h"
#include "base/process.h"
#include "modes/common.h"
#include "modes/modes.h"
#include "modes/options.h"
#include "modes/template.h"
#include "sampler.h"
#include "text/stream.h"
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Run *run;
    ChatTemplate template;
    int pos;   /* positions in the cache; the token that ended an answer is not among them */
    int steps; /* the most positions */
} Chat;

/* The user's next line without its newline: *first, once, if it is not NULL; else from standard
 * input. NULL at the end of input. The caller frees it. */
static char *next_line(const char **first) {
    if (*first) {
        char *line = strdup(*first);
        *first = NULL;
        return line;
    }
    if (on_terminal(stdin)) fputs("User: ", stderr);
    char *line = NULL, byte = 0;
    size_t size = 0;
    FILE *text = open_memstream(&line, &size);
    if (!text) return NULL;
    bool any = false;
    while (read_byte(&byte) && (any = true) && byte != '\n') fputc(byte, text);
    fclose(text);
    if (any && !interrupted) return line;
    free(line);
    return NULL;
}

static bool is_end(const Chat *chat, int token) {
    return token == chat->run->tokenizer.eos || token == chat->template.end || run_is_end(chat->run, token);
}

/* Runs a turn and writes the answer. 1: the context is full. */
static int answer(Chat *chat, const Tokens *turn) {
    Run *run = chat->run;
    if (turn->n > chat->steps - chat->pos) return 1;
    Stream out;
    stream_open(&out, stdout);
    for (int i = 0; i < turn->n; i++) sampler_accept(&run->sampler, turn->ids[i]);
    run_pack_weights(run);
    const float *logits = run_logits(run, turn->ids, turn->n, chat->pos);
    int previous = turn->ids[turn->n - 1], status = 1;
    chat->pos += turn->n;
    while (logits) {
        const int token = run_sample(run, logits);
        if (is_end(chat, token) || interrupted) {
            status = 0;
            break;
        }
        int n;
        const char *text = tokenizer_decode(&run->tokenizer, previous, token, &n);
        stream_write(&out, text, n);
        if (chat->pos == chat->steps || out.error) break;
        run_pack_weights(run);
        logits = run_logits(run, &token, 1, chat->pos++);
        previous = token;
    }
    stream_write(&out, "\n", 1);
    return stream_close(&out) || !logits ? -1 : status;
}

int mode_chat(Run *run) {
    const Options *o = run->options;
    const int context = run->session.context;
    Chat chat = {.run = run, .steps = o->steps > 0 && o->steps < context ? o->steps : context};
    const char *first = o->prompt;
    if (o->prompt_file || o->tokens)
        return bad_usage("chat reads its lines from standard input; the first may be given with -i");
    if (!chat_template_open(&chat.template, &run->tokenizer))
        note("the model's chat template is none that norma knows; using %s's", chat.template.name);
    int status = 0;
    for (char *line; status == 0 && !interrupted && (line = next_line(&first)); free(line)) {
        if (!*line) continue;
        Tokens turn;
        status = chat_template_render(&chat.template, &run->tokenizer, o->system, line, chat.pos == 0, &turn);
        if (status) continue;
        if (on_terminal(stdin)) fputs("Assistant: ", stderr);
        status = answer(&chat, &turn);
        free(turn.ids);
    }
    if (status > 0) note("the context of %d positions is full", chat.steps);
    return run_exit_status(status < 0);
}
