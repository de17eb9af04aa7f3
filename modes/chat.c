/* chat.c: conversation.
 *
 * Owns the messages and the commands of a conversation. Each turn renders all
 * turns that fit in the context; the longest cached prefix does not run again.
 * template.c formats a turn as tokens, text.c generates the answer, input.c
 * reads messages.
 * Tests: chat, guess.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/json.h"
#include "modes/common.h"
#include "modes/generate.h"
#include "modes/input.h"
#include "modes/options.h"
#include "modes/template.h"
#include "modes/text.h"
#include "sampler.h"
#include "text/merges.h"
#include "text/pieces.h"
#include "text/stream.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    Run *run;
    ChatTemplate template;
    Text text;
    Conversation talk;
    bool failed; /* a message of a pipe did not fit */
} Chat;

/* ---- answers ------------------------------------------------------------ */

/* Sets *all to the tokens of the messages that are not dropped, and the last
 * n_answer tokens of the text. If they do not fit in the context, drops the
 * oldest turns until they fill at most half of it. Returns 1 if the last
 * message alone does not fit. The caller frees all->ids. */
static int render(Chat *c, int n_answer, Tokens *all) {
    Conversation *talk = &c->talk;
    int context = c->run->session.context, first = talk->first;
    const Tokens *ids = &c->text.ids;
    for (int max = context - 1;; max = context / 2) {
        int status =
            chat_template_render(&c->template, &c->run->tokenizer, talk, all);
        for (int i = ids->n - n_answer; !status && i < ids->n; i++)
            status = tokens_add(all, ids->ids[i]);
        if (status)
            return status;
        if (all->n <= max || talk->first == talk->n - 1)
            break;
        do
            talk->first++;
        while (talk->first < talk->n - 1 &&
               strcmp(talk->messages[talk->first].role, "user"));
        free(all->ids);
    }
    if (talk->first > first) {
        if (n_answer && c->run->out.terminal) /* the answer goes on below */
            stream_write(&c->run->out, "\n", 1);
        note(
            "the context of %d positions is full; dropped the oldest turns: %d",
            context, (talk->first - first + 1) / 2);
    }
    return all->n >= context;
}

/* Renders the messages into the text, before the n_answer tokens at its end,
 * and keeps the longest cached prefix. Returns as render(). */
static int prepare(Chat *c, int n_answer) {
    Text *t = &c->text;
    Tokens all;
    int status = render(c, n_answer, &all), same = 0;
    if (!status)
        status = run_show_prompt(c->run, &all);
    if (!status) {
        while (same < t->n_ran && same < all.n - 1 &&
               all.ids[same] == t->ids.ids[same])
            same++;
        t->ids.n = t->n_ran = same;
        t->max = c->run->session.context;
        t->ended = CONTINUES;
        status =
            text_append(t, &(Tokens){.ids = all.ids + same, .n = all.n - same});
        t->n_decoded = t->ids.n;
        t->n_prompt -= n_answer;
    }
    free(all.ids);
    return status;
}

/* Adds the answer, or the rest of one, to the conversation. The special pieces
 * in it keep their meaning. */
static int add_answer(Chat *c) {
    const Text *t = &c->text;
    Conversation *talk = &c->talk;
    Buffer whole = {0};
    if (talk->continues) {
        const JinjaText *begun = &talk->messages[talk->n - 1];
        buffer_append(&whole, begun->text, begun->n);
        conversation_cut(talk, talk->n - 1);
    }
    size_t at = whole.n;
    buffer_append(&whole, t->bytes.bytes, t->bytes.n);
    JinjaText *m =
        whole.failed ? NULL : conversation_add(talk, whole.bytes, whole.n);
    free(whole.bytes);
    for (int i = t->n_prompt, n; m && i < t->ids.n; i++, at += n) {
        const Piece *p = &c->run->tokenizer.pieces.list[t->ids.ids[i]];
        run_token_text(c->run, t->ids.ids[i - 1], t->ids.ids[i], &n);
        if (at + n > m->n) {
            m->n = at; /* a stop string ended the text in this token */
            break;
        }
        memset(m->marks + at, p->kind == PIECE_SPECIAL || p->kind == PIECE_USER,
               n);
    }
    return -!m;
}

/* Answers the last turn. Returns -1 on failure. */
static int answer(Chat *c) {
    Run *run = c->run;
    const Options *o = run->options;
    Text *t = &c->text;
    Conversation *talk = &c->talk;
    JinjaText user = talk->messages[talk->n - 1];
    int context = run->session.context;
    double start = clock_seconds();
    int status = prepare(c, 0);
    if (status > 0) {
        note("the context of %d positions is too small for the message",
             context);
        c->failed = !on_terminal(stdin);
        conversation_cut(talk, talk->n - 1);
        return 0;
    }
    if (status)
        return -1;
    t->bytes.n = t->n_clear = t->n_shown = 0;
    if (on_terminal(stdin))
        fputs("Assistant: ", stderr);
    stream_open(&run->out, stdout);
    do { /* until the answer ends, or the context is full */
        text_limit(t, o->steps);
        while ((status = texts_pass(run, &t, 1)) > 0)
            if (!o->json && text_show(run, t)) {
                status = -1;
                break;
            }
    } while (!status && t->ended == LENGTH && t->max == context &&
             t->ids.n - t->n_prompt != o->steps &&
             !(status = prepare(c, t->ids.n - t->n_prompt)));
    if (!o->json)
        stream_write(&run->out, "\n", 1);
    else if (status >= 0) /* a failed answer has no object */
        status |= text_write_json(run, t, (talk->n + 1) / 2, user.text, user.n);
    if (status > 0)
        note("the context of %d positions is full, and ends the answer",
             context);
    if (o->verbose)
        fprintf(stderr, "tokens: %d in the context, %d in the answer; %.1f s\n",
                t->ids.n, t->ids.n - t->n_prompt, clock_seconds() - start);
    if (on_terminal(stdin))
        interrupted = 0;
    return -(stream_close(&run->out) || status < 0 || add_answer(c));
}

static int take_turn(Chat *c, const char *message) {
    return conversation_add(&c->talk, message, strlen(message)) ? answer(c)
                                                                : -1;
}

/* ---- commands; failures are reported, and the conversation goes on ------ */

static void write_message(FILE *out, const char *before, const char *role,
                          const char *content, size_t n) {
    fprintf(out, "%s{", before);
    write_json_string(out, "role", role, strlen(role));
    fputs(", ", out);
    write_json_string(out, "content", content, n);
    fputc('}', out);
}

/* Replaces a conversation with that of a file. Returns false and a message on
 * failure. */
static bool load(const Chat *c, Conversation *talk, const char *path) {
    JsonFile json;
    if (json_open(&json, path))
        return false;
    Conversation read = {.system = c->run->options->system};
    Tokens tokens = {0};
    bool valid =
        !conversation_read(&read, path, json.values) &&
        (!read.n || !chat_template_render(&c->template, &c->run->tokenizer,
                                          &read, &tokens));
    free(tokens.ids);
    conversation_close(valid ? talk : &read);
    if (valid)
        *talk = read;
    json_close(&json);
    return valid;
}

/* `replaces`: also a file that is no conversation. */
static void save(const Chat *c, const char *path, bool replaces) {
    const Conversation *talk = &c->talk;
    OutputFile file;
    Conversation old = {0};
    hold_messages(true);
    const char *error = is_input(path)
                            ? "is an input of this run; name another file"
                        : !replaces && file_exists(path) && !load(c, &old, path)
                            ? "is no conversation; /save! replaces it"
                            : NULL;
    hold_messages(false);
    conversation_close(&old);
    if (error ? fail("%s: %s", path, error) : output_open(&file, path))
        return;
    fputc('[', file.stream);
    if (talk->system)
        write_message(file.stream, "", "system", talk->system,
                      strlen(talk->system));
    for (int i = 0; i < talk->n; i++) {
        const JinjaText *m = &talk->messages[i];
        write_message(file.stream, i || talk->system ? ",\n" : "", m->role,
                      m->text, m->n);
    }
    fputs("]\n", file.stream);
    if (!output_close(&file, true))
        note("%s: saved; messages: %d", path, talk->n);
}

static const char help[] =
    "/bye or Ctrl-D exits, Ctrl-C stops an answer, /clear starts a new conversation,\n"
    "/regen answers again, /set temperature 0.7 (or top-p ...) changes the sampling,\n"
    "/save FILE and /load FILE keep a conversation as JSON,\n"
    "/save! FILE replaces a file that is no conversation,\n"
    "Alt-Enter or Ctrl-J adds a line, as does Enter between two \"\"\"\n";

/* Runs a line that begins with "/". Returns 1 to leave, -1 on failure. */
static int command(Chat *c, const char *line) {
    Conversation *talk = &c->talk;
    if (!strcmp(line, "/bye") || !strcmp(line, "/exit") ||
        !strcmp(line, "/quit"))
        return 1;
    if (!strcmp(line, "/clear")) {
        conversation_cut(talk, 0);
        note("a new conversation");
    } else if (!strncmp(line, "/load ", 6)) {
        if (load(c, talk, line + 6))
            note("%s: loaded; messages: %d", line + 6, talk->n);
    } else if (!strncmp(line, "/set ", 5)) {
        if (!options_set(&c->text.sampler.options, line + 5))
            note("%s: from the next answer on", line + 5);
        return 0;
    } else if (!strcmp(line, "/regen") && conversation_is_answered(talk)) {
        conversation_cut(talk, talk->n - 1);
    } else {
        bool replaces = !strncmp(line, "/save! ", 7);
        if (replaces || !strncmp(line, "/save ", 6))
            save(c, line + 6 + replaces, replaces);
        else if (!strcmp(line, "/?"))
            fputs(help, stderr);
        else
            note(
                "not understood: %.40s; /? lists the commands, // sends a line that begins with /",
                line);
        return 0;
    }
    return talk->n && (talk->continues || !conversation_is_answered(talk))
               ? answer(c)
               : 0;
}

/* ---- the mode ----------------------------------------------------------- */

/* Answers --prompts, or holds a conversation that begins with -i. */
static int chat(Chat *c) {
    Run *run = c->run;
    const Options *o = run->options;
    Tokenizer *t = &run->tokenizer;
    if (!o->template && !t->chat_template.bytes)
        note(
            "%s has no chat template, so it may not be a chat model; using the llama-2 format",
            o->model);
    if (chat_template_open(&c->template, t, o))
        return -1;
    inputs_end();
    ends_soon = true;
    /* these end an answer, even if they do not end other texts of this model */
    run->model.eos_ends = true;
    if (tokens_add(&t->ends, c->template.end))
        return -1;
    if (o->prompts)
        return generate_texts(run, &c->template);
    if (sampler_open(&c->text.sampler, &o->sampling,
                     run->model.config.vocab_size))
        return -1;
    if (o->prompt && *o->prompt && take_turn(c, o->prompt))
        return -1;
    Messages in = {0};
    bool typed = on_terminal(stdin);
    int status = 0;
    if (typed)
        fputs(help, stderr);
    char *message;
    size_t size;
    while (!status && !interrupted &&
           !(status = input_read(&in, &message, &size))) {
        bool slash = typed && *message == '/' && !strchr(message, '\n');
        while (slash && message[size - 1] == ' ')
            message[--size] = '\0';
        if (strlen(message) < size)
            note("ignored: a message with a zero byte");
        else if (slash && message[1] != '/')
            status = command(c, message);
        else if (size)
            status = take_turn(c, message + slash);
    }
    input_close(&in);
    return -(status < 0);
}

int mode_chat(Run *run) {
    Chat c = {.run = run,
              .talk.system = run->options->system,
              .text.guesser = &run->guesser};
    int status = chat(&c);
    conversation_close(&c.talk);
    text_free(&c.text);
    chat_template_close(&c.template);
    return c.failed ? fail("a message was too long for the context") : status;
}
