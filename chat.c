/* chat.c: conversation.
 *
 * Owns the turns: Llama 2's chat template, the user's lines, the model's
 * answers, and the KV cache kept between them. Sampling and text output are
 * run.c's and stream.c's.
 */
#include "model.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    Run *run;
    int pos;     /* positions in the cache */
    int steps;   /* most of them */
    int pending; /* the token that ended the last answer, not yet in the cache; -1: none */
} Chat;

/* One byte of standard input; false at its end and after Ctrl-C. Waiting for
 * both at once is safe whenever, and in whichever thread, the signal comes. */
static bool next_byte(char *byte) {
    struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = interrupt_fd, .events = POLLIN}};
    while (poll(wait, 2, -1) < 0)
        if (errno != EINTR) return false;
    return !wait[1].revents && read(STDIN_FILENO, byte, 1) == 1;
}

/* The user's next line without its newline; NULL at the end of input. The
 * first may come from the command line. The caller frees it. */
static char *next_line(const char **first) {
    if (*first) {
        char *line = strdup(*first);
        *first = NULL;
        return line;
    }
    if (isatty(STDIN_FILENO)) fputs("User: ", stderr);
    char *line = NULL, byte = 0;
    size_t size = 0;
    FILE *text = open_memstream(&line, &size);
    if (!text) return NULL;
    bool any = false;
    while (next_byte(&byte) && (any = true) && byte != '\n') fputc(byte, text);
    fclose(text);
    if (any && !interrupted) return line;
    free(line);
    return NULL;
}

/* Llama 2's template (Touvron et al. 2023b). */
static char *render(const char *system, const char *user) {
    char *text = NULL;
    const int n = system && *system ? asprintf(&text, "[INST] <<SYS>>\n%s\n<</SYS>>\n\n%s [/INST]", system, user)
                                    : asprintf(&text, "[INST] %s [/INST]", user);
    if (n < 0) fail("out of memory");
    return n < 0 ? NULL : text;
}

/* The tokens of a turn: the end of the last answer, then the rendered line. */
static int turn_tokens(const Chat *chat, const char *system, const char *user, Tokens *out) {
    char *text = render(system, user);
    if (!text || tokenizer_encode(&chat->run->tokenizer, text, strlen(text), true, out)) {
        free(text);
        return -1;
    }
    free(text);
    if (chat->pending < 0) return 0;
    int *ids = allocate((size_t)out->n + 1, sizeof *ids);
    if (ids) {
        ids[0] = chat->pending;
        memcpy(ids + 1, out->ids, (size_t)out->n * sizeof *ids);
    }
    free(out->ids);
    *out = (Tokens){ids, out->n + 1};
    return ids ? 0 : -1;
}

static bool is_end(const Run *run, int token) { return token == run->tokenizer.eos || run_is_end(run, token); }

/* Writes the answer to a turn. 1: the context is full. */
static int answer(Chat *chat, const Tokens *turn) {
    Run *run = chat->run;
    if (turn->n > chat->steps - chat->pos) return 1;
    Stream out;
    stream_open(&out, stdout);
    for (int i = 0; i < turn->n; i++) sampler_accept(&run->sampler, turn->ids[i]);
    const float *logits = run_logits(run, turn->ids, turn->n, chat->pos);
    int previous = turn->ids[turn->n - 1], status = 1;
    chat->pos += turn->n;
    while (logits) {
        const int token = run_sample(run, logits);
        chat->pending = token;
        if (is_end(run, token) || interrupted) {
            status = 0;
            break;
        }
        int n;
        const char *text = tokenizer_decode(&run->tokenizer, previous, token, &n);
        stream_write(&out, text, n);
        if (chat->pos == chat->steps || out.error) break;
        logits = run_logits(run, &token, 1, chat->pos++);
        previous = token;
    }
    stream_write(&out, "\n", 1);
    return stream_close(&out) || !logits ? -1 : status;
}

int mode_chat(Run *run) {
    const Options *o = run->options;
    const int context = run->session.context;
    Chat chat = {.run = run, .steps = o->steps > 0 && o->steps < context ? o->steps : context, .pending = -1};
    const char *first = o->prompt, *system = o->system;
    if (o->prompt_file || o->tokens) {
        fail("chat reads its lines from standard input; the first may be given with -i");
        return 2;
    }
    int status = 0;
    for (char *line; status == 0 && !interrupted && (line = next_line(&first)); free(line)) {
        if (!*line) continue;
        Tokens turn;
        status = turn_tokens(&chat, system, line, &turn);
        if (status) continue;
        system = NULL; /* stands in front of the first turn only */
        if (isatty(STDIN_FILENO)) fputs("Assistant: ", stderr);
        status = answer(&chat, &turn);
        free(turn.ids);
    }
    if (status > 0) fprintf(stderr, "note: the context of %d positions is full\n", chat.steps);
    return status < 0 ? 1 : interrupted ? EXIT_INTERRUPTED : 0;
}
