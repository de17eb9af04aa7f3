/* chat.c: conversation.
 *
 * Owns the messages and the commands of a conversation. Each turn renders all turns that fit in the
 * context; the longest cached prefix does not run again. template.c formats a turn as tokens,
 * text.c generates the answer, input.c reads messages.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "formats/json.h"
#include "model.h"
#include "modes/common.h"
#include "modes/generate.h"
#include "modes/input.h"
#include "modes/template.h"
#include "modes/text.h"
#include "sampler.h"
#include "text/merges.h"
#include "text/stream.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    Run *run;
    ChatTemplate template;
    Text text;
    Conversation talk;
} Chat;

static ChatTurn *last_turn(const Chat *c) {
    return &c->talk.turns[c->talk.n - 1];
}

/* ---- answers
 * ------------------------------------------------------------------------------------- */

/* Sets *all to the tokens of the turns that are not dropped, with what there is of the last
 * answer. If they do not fit in the context, drops the oldest until they fill at most half of it.
 * Returns 1 if the last turn alone does not fit. The caller frees all->ids. */
static int render(Chat *c, Tokens *all) {
    const int context = c->run->session.context, first = c->talk.first;
    const Tokens *answer = &last_turn(c)->answer;
    for (int max = context - 1;; max = context / 2) {
        int status = chat_template_render(&c->template, &c->run->tokenizer,
                                          &c->talk, all);
        for (int i = 0; !status && i < answer->n; i++)
            status = tokens_add(all, answer->ids[i]);
        if (status)
            return status;
        if (all->n <= max || c->talk.first == c->talk.n - 1)
            break;
        c->talk.first++;
        free(all->ids);
    }
    if (c->talk.first > first)
        note(
            "the context of %d positions is full; dropped the oldest turns: %d",
            context, c->talk.first - first);
    return all->n >= context;
}

/* Renders the turns into the text, and keeps the longest cached prefix. Returns as render(). */
static int prepare(Chat *c) {
    Text *t = &c->text;
    Tokens all;
    int status = render(c, &all), same = 0;
    if (!status && c->run->options->verbose_prompt) {
        Stream err;
        stream_open(&err, stderr);
        for (int i = 0; i < all.n; i++)
            run_show_piece(c->run, &err, all.ids[i]);
        status = stream_close(&err);
    }
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
        t->n_prompt -= last_turn(c)->answer.n;
    }
    free(all.ids);
    return status;
}

/* Generates until the answer ends or the context is full. The turn gets the tokens before a stop
 * string. */
static int generate(Chat *c) {
    const bool json = c->run->options->json;
    Text *t = &c->text;
    int more;
    text_limit(t, c->run->options->steps);
    while ((more = texts_pass(c->run, &t, 1)) > 0)
        if (!json && text_show(c->run, t))
            return -1;
    Tokens *to = &last_turn(c)->answer;
    to->n = 0;
    size_t size = 0;
    for (int i = t->n_prompt, n; more >= 0 && i < t->ids.n; i++) {
        run_token_text(c->run, t->ids.ids[i - 1], t->ids.ids[i], &n);
        if ((size += n) > t->bytes.n)
            break;
        if (tokens_add(to, t->ids.ids[i]))
            return -1;
    }
    return more;
}

/* Answers the last turn. Returns -1 on failure. */
static int answer(Chat *c) {
    Run *run = c->run;
    Text *t = &c->text;
    const char *user = last_turn(c)->user;
    const int context = run->session.context;
    const double start = now();
    int status = prepare(c);
    if (status > 0) {
        note("the context of %d positions is too small for the message",
             context);
        conversation_cut(&c->talk, c->talk.n - 1);
    }
    if (status)
        return status < 0 ? -1 : 0;
    t->bytes.n = t->n_clear = t->n_shown = 0;
    if (on_terminal(stdin))
        fputs("Assistant: ", stderr);
    stream_open(&run->out, stdout);
    do
        status = generate(c);
    while (!status && t->ended == LENGTH && t->max == context &&
           t->ids.n - t->n_prompt != run->options->steps &&
           !(status = prepare(c)));
    if (status > 0)
        note("the context of %d positions is full, and ends the answer",
             context);
    if (run->options->json && status >= 0)
        status = text_write_json(run, t, c->talk.n, user, strlen(user));
    else
        stream_write(&run->out, "\n", 1);
    if (run->options->verbose)
        fprintf(stderr, "tokens: %d in the context, %d in the answer; %.1f s\n",
                t->ids.n, t->ids.n - t->n_prompt, now() - start);
    if (on_terminal(stdin))
        interrupted = 0;
    return stream_close(&run->out) || status < 0 ? -1 : 0;
}

static int take_turn(Chat *c, const char *message) {
    return conversation_add(&c->talk, message) || answer(c) ? -1 : 0;
}

/* ---- commands; failures are reported, and the conversation goes on
 * ------------------------------- */

static void write_message(FILE *out, const char *before, const char *role,
                          const char *content, size_t n) {
    fprintf(out, "%s{\"role\": \"%s\", ", before, role);
    write_json_string(out, "content", content, n);
    fputc('}', out);
}

static void save(const Chat *c, const char *path) {
    OutputFile file;
    if (output_open(&file, path))
        return;
    fputc('[', file.stream);
    if (c->talk.system)
        write_message(file.stream, "", "system", c->talk.system,
                      strlen(c->talk.system));
    for (int i = 0; c->talk.turns && i < c->talk.n; i++) {
        const ChatTurn *turn = &c->talk.turns[i];
        Text answer = {.ids = turn->answer, .n_prompt = turn->answer.n};
        write_message(file.stream, i || c->talk.system ? ",\n" : "", "user",
                      turn->user, strlen(turn->user));
        if (text_decode(c->run, &answer))
            break;
        write_message(file.stream, ",\n", "assistant", answer.bytes.bytes,
                      answer.bytes.n);
        free(answer.bytes.bytes);
    }
    fputs("]\n", file.stream);
    output_close(&file, true);
}

/* Replaces the conversation with that of a file. */
static void load(Chat *c, const char *path) {
    JsonFile json;
    if (json_open(&json, path))
        return;
    Conversation read = {.system = c->run->options->system};
    const bool failed =
        conversation_read(&read, &c->run->tokenizer, path, json.values);
    conversation_close(failed ? &read : &c->talk);
    if (!failed)
        c->talk = read;
    json_close(&json);
}

static const char help[] =
    "/bye or Ctrl-D exits, Ctrl-C stops an answer, /clear starts a new conversation,\n"
    "/regen answers again, /save FILE and /load FILE keep a conversation as JSON,\n"
    "\"\"\" begins and ends a message of several lines\n";

/* Runs a line that begins with "/". Returns 1 to leave, -1 on failure. */
static int command(Chat *c, const char *line) {
    if (!strcmp(line, "/bye"))
        return 1;
    if (!strcmp(line, "/clear")) {
        conversation_cut(&c->talk, 0);
    } else if (!strncmp(line, "/load ", 6)) {
        load(c, line + 6);
    } else if (!strcmp(line, "/regen") && c->talk.n) {
        last_turn(c)->answer.n = 0;
    } else {
        if (!strncmp(line, "/save ", 6))
            save(c, line + 6);
        else
            fputs(help, stderr);
        return 0;
    }
    return c->talk.n && !last_turn(c)->answer.n ? answer(c) : 0;
}

/* ---- the mode
 * ------------------------------------------------------------------------------------ */

/* Takes the messages of standard input. */
static int converse(Chat *c) {
    Messages in = {0};
    const bool typed = on_terminal(stdin);
    int status = 0;
    if (typed)
        fputs(help, stderr);
    while (!status && !interrupted) {
        char *message;
        size_t size;
        if ((status = input_read(&in, &message, &size)))
            break;
        if (strlen(message) < size)
            note("ignored: a message with a zero byte");
        else if (typed && *message == '/')
            status = command(c, message);
        else if (size)
            status = take_turn(c, message);
    }
    input_close(&in);
    return status < 0 ? -1 : 0;
}

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
    /* these end an answer, even if they do not end other texts of this model */
    run->model.eos_ends = true;
    t->ends[t->n_ends++] = c->template.end;
    /* removing a long thought may rewind beyond a sliding window */
    session_keep_all(&run->session);
    if (o->prompts)
        return generate_texts(run, &c->template);
    if (sampler_open(&c->text.sampler, &o->sampling,
                     run->model.config.vocab_size))
        return -1;
    if (o->prompt && *o->prompt && take_turn(c, o->prompt))
        return -1;
    return converse(c);
}

int mode_chat(Run *run) {
    Chat c = {.run = run,
              .talk.system = run->options->system,
              .text.guesser = &run->guesser};
    const int status = chat(&c);
    conversation_close(&c.talk);
    text_free(&c.text);
    chat_template_close(&c.template);
    return status;
}
