/* chat.c: conversation.
 *
 * Owns the input lines and the positions that stay cached between turns. template.c formats a turn as tokens, text.c
 * generates the answer.
 */
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "model.h"
#include "modes/common.h"
#include "modes/template.h"
#include "modes/text.h"
#include "sampler.h"
#include "text/merges.h"
#include "text/stream.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 1 << 30 /* bytes */ };

/* Standard input, read in blocks. */
typedef struct {
    Buffer bytes; /* input read so far; lines before `at` have been returned */
    size_t at;
} Lines;

/* Reads another block. Returns the number of bytes, 0 at the end of the input or after Ctrl-C; -1 and a message if
 * memory runs out or the line is too long. */
static ssize_t read_block(Lines *in) {
    char block[1 << 14];
    Buffer *b = &in->bytes;
    b->n -= in->at;
    memmove(b->bytes, b->bytes + in->at, b->n);
    in->at = 0;
    if (b->n > MAX_LINE) return fail("standard input: a line of more than %d bytes", MAX_LINE);
    const ssize_t n = read_some(fileno(stdin), block, sizeof block);
    if (n > 0) buffer_append(b, block, (size_t)n);
    return b->failed ? -1 : n > 0 ? n : 0;
}

/* Finds the user's next line: *size bytes without the newline, then a zero byte; valid until the next call. Returns 1
 * for a line, 0 at the end of the input or after Ctrl-C, -1 and a message on failure. */
static int next_line(Lines *in, char **line, size_t *size) {
    char *end = NULL;
    ssize_t n = 1;
    if (on_terminal(stdin)) fputs("User: ", stderr);
    buffer_append(&in->bytes, "", 0);
    if (in->bytes.failed) return -1;
    for (size_t searched = 0; n > 0 && !interrupted; searched = *size) {
        *line = in->bytes.bytes + in->at;
        *size = in->bytes.n - in->at;
        if ((end = memchr(*line + searched, '\n', *size - searched))) break;
        n = read_block(in);
    }
    if (n < 0) return -1;
    *line = in->bytes.bytes + in->at; /* without a newline at the end of the input */
    *size = end ? (size_t)(end - *line) : in->bytes.n - in->at;
    in->at += *size + (end != NULL);
    (*line)[*size] = '\0';
    if ((*size || end) && !interrupted) return 1;
    if (on_terminal(stdin)) fputc('\n', stderr); /* after "User: " */
    return 0;
}

/* Keeps the first `same` ids of the text, appends the prompt, then generates and writes an answer of at most -n tokens.
 * Returns 1 if the context is full, -1 on failure. */
static int answer(Run *run, Text *text, int same, const Tokens *prompt) {
    const int context = run->session.context, limit = run->options->steps;
    Stream out;
    int more;
    text->ids.n = text->n_ran = same;
    text->ended = CONTINUES;
    text->max = context;
    if (text_append(text, prompt)) return -1;
    if (text->ended) return 1;
    if (limit > 0 && limit <= context - text->ids.n) text->max = text->ids.n + limit - 1;
    text->n_shown = text->ids.n;
    if (on_terminal(stdin)) fputs("Assistant: ", stderr);
    stream_open(&out, stdout);
    while ((more = texts_pass(run, &text, 1, &out)) > 0) text_show(run, text, &out);
    stream_write(&out, "\n", 1);
    if (on_terminal(stdin)) interrupted = 0;
    return stream_close(&out) || more < 0 ? -1 : text->ended == LENGTH && text->max == context;
}

typedef struct {
    Run *run;
    ChatTemplate template;
    Text text;
    ChatTurn *turns; /* [n], owned */
    int n;
} Chat;

static void clear(Chat *c) {
    for (; c->n > 0; c->n--) {
        free(c->turns[c->n - 1].user);
        free(c->turns[c->n - 1].answer.ids);
    }
}

/* Shows the tokens of a prompt on stderr. */
static int show_prompt(const Run *run, const Tokens *tokens) {
    Stream err;
    stream_open(&err, stderr);
    for (int i = 0; i < tokens->n; i++) run_show_piece(run, &err, tokens->ids[i]);
    return stream_close(&err);
}

/* Keeps the answer of the last turn: the tokens from `begin` on. */
static int keep_answer(Chat *c, int begin) {
    Tokens *answer = &c->turns[c->n - 1].answer;
    const int n = c->text.ids.n - begin;
    if (tokens_reserve(answer, (size_t)n)) return -1;
    memcpy(answer->ids, c->text.ids.ids + begin, (size_t)n * sizeof *answer->ids);
    answer->n = n;
    return 0;
}

/* Answers a message. Renders the whole conversation and reuses the longest cached prefix. Returns 1 if the context is
 * full, -1 on failure. */
static int take_turn(Chat *c, const char *message) {
    const Run *run = c->run;
    const Options *o = run->options;
    Tokens tokens;
    int same = 0;
    ChatTurn *turns = realloc(c->turns, ((size_t)c->n + 1) * sizeof *turns);
    if (!turns) return fail("out of memory");
    c->turns = turns;
    turns[c->n] = (ChatTurn){.user = strdup(message)};
    if (!turns[c->n++].user) return fail("out of memory");
    int status = chat_template_render(&c->template, &run->tokenizer, o->system, turns, c->n, &tokens);
    if (!status && o->verbose_prompt) status = show_prompt(run, &tokens);
    while (same < c->text.n_ran && same < tokens.n - 1 && tokens.ids[same] == c->text.ids.ids[same]) same++;
    const Tokens prompt = {.ids = tokens.ids + same, .n = tokens.n - same};
    if (!status) status = prompt.n ? answer(c->run, &c->text, same, &prompt) : fail("the prompt has no tokens");
    if (!status) status = keep_answer(c, tokens.n);
    free(tokens.ids);
    return status;
}

/* Opens the template. Returns 0 or the exit status. */
static int open_template(Chat *c) {
    static const char bundled[] = "stories.gguf";
    const Options *o = c->run->options;
    Tokenizer *t = &c->run->tokenizer;
    const size_t n = strlen(o->model), n_bundled = strlen(bundled);
    const bool has_template = o->template || t->chat_template;
    if (!has_template && n >= n_bundled && !strcmp(o->model + n - n_bundled, bundled))
        note("%s was trained on stories, not for chat; try -i \"Once upon a time\"", o->model);
    else if (!has_template)
        note("%s has no chat template, so it may not be a chat model; using the llama-2 format", o->model);
    return chat_template_open(&c->template, t, o) ? EXIT_BAD_INPUT : 0;
}

static const char help[] = "/bye or Ctrl-D exits, Ctrl-C stops an answer, /clear starts a new conversation\n";

/* Runs a command (/bye, /clear, /?). Returns false if the line is not a command. */
static bool run_command(Chat *c, const char *line, int *more) {
    const bool is_bye = !strcmp(line, "/bye"), is_clear = !strcmp(line, "/clear"), is_help = !strcmp(line, "/?");
    if (is_bye) *more = 0;
    if (is_help) fputs(help, stderr);
    if (is_clear) clear(c);
    return is_bye || is_clear || is_help;
}

/* Takes the lines of standard input. */
static int converse(Chat *c) {
    Lines in = {0};
    const bool typed = on_terminal(stdin);
    int status = 0;
    if (typed) fputs(help, stderr);
    for (int more = 1; more > 0 && !status && !interrupted;) {
        char *line;
        size_t size;
        more = next_line(&in, &line, &size);
        if (more < 0) status = -1;
        if (more > 0 && memchr(line, '\0', size))
            note("ignored: a line with a zero byte");
        else if (more > 0 && size && !(typed && run_command(c, line, &more)))
            status = take_turn(c, line);
    }
    free(in.bytes.bytes);
    return status;
}

int mode_chat(Run *run) {
    const Options *o = run->options;
    Sampler sampler = {0};
    Chat c = {.run = run};
    int status = open_template(&c);
    if (!status) {
        session_keep_all(&run->session); /* removing a long thought may rewind beyond a sliding window */
        run->model.eos_ends = true;      /* EOS ends an answer, even if it does not end other texts of this model */
        c.text = (Text){.end = c.template.end, .sampler = &sampler, .guesser = &run->guesser};
        if (sampler_open(&sampler, &o->sampling, run->model.config.vocab_size)) status = -1;
        if (!status && o->prompt && *o->prompt) status = take_turn(&c, o->prompt);
        if (!status) status = converse(&c);
        if (status > 0) note("the context of %d positions is full", c.text.max);
        if (status > 0) status = 0;
    }
    clear(&c);
    free(c.turns);
    free(c.text.ids.ids);
    sampler_close(&sampler);
    chat_template_close(&c.template);
    return status;
}
