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
#include "base/utf8.h"
#include "formats/json.h"
#include "modes/commands.h"
#include "modes/common.h"
#include "modes/generate.h"
#include "modes/input.h"
#include "modes/options.h"
#include "modes/template.h"
#include "modes/text.h"
#include "sampler.h"
#include "text/history.h"
#include "text/merges.h"
#include "text/pieces.h"
#include "text/stream.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Run *run;
    ChatTemplate template;
    Text text;
    Conversation talk;
    bool failed;          /* a message of a pipe did not fit */
    Options options;      /* as /set has changed them */
    char *system, *think; /* of /set, owned; `options` points there */
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
    int status =
        chat_template_fit(&c->template, &c->run->tokenizer, talk,
                          context - 1 - n_answer, context / 2 - n_answer, all);
    for (int i = ids->n - n_answer; !status && i < ids->n; i++)
        status = tokens_add(all, ids->ids[i]);
    if (status)
        return status;
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

/* Removes the space before an answer's first word that the tokenizer adds. */
static void drop_space(JinjaText *m) {
    if (!m->n || *m->text != ' ')
        return;
    m->n--;
    memmove(m->text, m->text + 1, m->n);
    memmove(m->marks, m->marks + 1, m->n);
}

/* Marks the bytes of special pieces among the sampled tokens, from byte `at`
 * on: they keep their meaning. */
static void mark_pieces(const Chat *c, JinjaText *m, size_t at) {
    const Text *t = &c->text;
    for (int i = t->n_prompt, n; i < t->ids.n; i++, at += n) {
        const Piece *p = &c->run->tokenizer.pieces.list[t->ids.ids[i]];
        run_token_text(c->run, t->ids.ids[i - 1], t->ids.ids[i], &n);
        if (at + n > m->n) {
            m->n = at; /* a stop string ended the text in this token */
            break;
        }
        memset(m->marks + at, p->kind == PIECE_SPECIAL || p->kind == PIECE_USER,
               n);
    }
}

/* Adds the answer, or the rest of one, to the conversation. */
static int add_answer(Chat *c) {
    const Text *t = &c->text;
    Conversation *talk = &c->talk;
    Buffer whole = {0};
    bool continues = talk->continues;
    if (continues) {
        const JinjaText *begun = &talk->messages[talk->n - 1];
        buffer_append(&whole, begun->text, begun->n);
        conversation_cut(talk, talk->n - 1);
    }
    size_t at = whole.n;
    buffer_append(&whole, t->bytes.bytes, t->bytes.n);
    JinjaText *m =
        whole.failed ? NULL : conversation_add(talk, whole.bytes, whole.n);
    free(whole.bytes);
    if (!m)
        return -1;
    mark_pieces(c, m, at);
    if (!continues && c->run->tokenizer.space_prefix != SPACE_NEVER)
        drop_space(m);
    return 0;
}

/* Ctrl-C at a terminal, while the messages were rendered, ends only the turn.
 * Returns whether it did. */
static bool was_stopped(void) {
    if (!interrupted || !on_terminal(stdin))
        return false;
    interrupted = 0;
    note("stopped before the answer; the message is not kept");
    return true;
}

/* Makes the prompt of the last turn. Returns 1 if there is nothing to answer, 0
 * or -1. */
static int begin_answer(Chat *c) {
    Conversation *talk = &c->talk;
    int status = prepare(c, 0);
    if (status < 0 && !was_stopped())
        return -1;
    if (status > 0) {
        note("the context of %d positions is too small for the message",
             c->run->session.context);
        c->failed = !on_terminal(stdin);
    }
    if (status)
        conversation_cut(talk, talk->n - 1);
    c->text.bytes.n = c->text.n_clear = c->text.n_shown = 0;
    return status != 0;
}

/* Generates until the answer ends, is as long as -n allows, or fills the
 * context together with the last message. Returns as render(). */
static int run_answer(Chat *c) {
    Run *run = c->run;
    Text *t = &c->text;
    int context = run->session.context, status = 0;
    for (;;) {
        text_limit(t, run->options->steps);
        while ((status = texts_pass(run, &t, 1)) > 0)
            if (!run->options->json && text_show(run, t))
                return -1;
        int n_answer = t->ids.n - t->n_prompt;
        bool is_full = t->ended == LENGTH && t->max == context &&
                       n_answer != run->options->steps;
        if (status || !is_full)
            return status;
        status = prepare(c, n_answer);
        if (status)
            return status;
    }
}

/* Says what an answer took, and why it was cut. */
static void report_answer(const Chat *c, int status, double start) {
    const Run *run = c->run;
    const Text *t = &c->text;
    int n_answer = t->ids.n - t->n_prompt;
    double seconds = clock_seconds() - start;
    if (status > 0)
        note("the context of %d positions is full, and ends the answer",
             run->session.context);
    else if (t->ended == LENGTH && !run->options->json)
        note("-n %d cuts the answer", run->options->steps);
    if (run->options->verbose)
        fprintf(
            stderr,
            "tokens: %d in the context, %d in the answer; %.1f s, %.1f tokens/s\n",
            t->ids.n, n_answer, seconds, n_answer / fmax(seconds, 1e-9));
}

/* Wraps an answer at words on a terminal that can move its cursor. */
static void wrap_answer(Stream *out, int column) {
    if (out->terminal && has_escapes())
        stream_wrap(out, terminal_size().columns, column);
}

/* Answers the last turn. Returns -1 on failure. */
static int answer(Chat *c) {
    Run *run = c->run;
    Conversation *talk = &c->talk;
    JinjaText user = talk->messages[talk->n - 1];
    double start = clock_seconds();
    int status = begin_answer(c);
    if (status)
        return status < 0 ? -1 : 0;
    hide_status();
    if (on_terminal(stdin))
        fputs("Assistant: ", stderr);
    stream_open(&run->out, stdout);
    wrap_answer(&run->out, on_terminal(stdin) ? 11 : 0);
    status = run_answer(c);
    if (!run->options->json)
        stream_write(&run->out, "\n", 1);
    else if (status >= 0 && text_write_json(run, &c->text, (talk->n + 1) / 2,
                                            user.text, user.n))
        status = -1;
    const int closed = stream_close(&run->out); /* before notes about it */
    report_answer(c, status, start);
    if (on_terminal(stdin))
        interrupted = 0;
    if (closed || status < 0)
        return -1;
    return add_answer(c);
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
    if (interrupted && on_terminal(stdin)) {
        interrupted = 0;
        note("stopped; %s is not loaded", path);
    }
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

/* Shows a message on stderr: stdout has answers only. Of it, at most `max`
 * bytes. */
static void show_message(const char *name, const char *text, size_t n,
                         size_t max) {
    Stream out;
    fputs(name, stderr);
    stream_open(&out, stderr);
    wrap_answer(&out, (int)strlen(name));
    size_t shown = min_size(n, max);
    while (shown < n && shown > 0 && utf8_is_continuation(text[shown]))
        shown--;
    stream_write(&out, text, (int)shown);
    if (shown < n)
        stream_write(&out, " ...", 4);
    stream_write(&out, "\n", 1);
    stream_close(&out);
}

/* Shows messages from number `from` on, before the first the system prompt. */
static void show_messages(const Conversation *talk, int from, size_t max) {
    if (!talk->n)
        note("the conversation is empty");
    if (talk->system && from == 0)
        show_message("System: ", talk->system, strlen(talk->system), max);
    for (int i = from; i < talk->n; i++) {
        const JinjaText *m = &talk->messages[i];
        const bool is_user = !strcmp(m->role, "user");
        show_message(is_user ? "User: " : "Assistant: ", m->text, m->n, max);
    }
}

/* The number of the last message of the user; -1: there is none. */
static int last_question(const Conversation *talk) {
    int i = talk->n - 1;
    while (i >= 0 && strcmp(talk->messages[i].role, "user"))
        i--;
    return i;
}

enum { SHOWN_OF_LOADED = 2000 /* bytes of a message; /show has all */ };

/* Goes on with a conversation of a file: shows its last exchange, or answers
 * it. Returns 1 if it cannot be loaded, -1 on failure. */
static int load_file(Chat *c, const char *path) {
    Conversation *talk = &c->talk;
    if (!load(c, talk, path))
        return 1;
    note("%s: loaded; messages: %d%s", path, talk->n,
         talk->loaded ? "; its system prompt holds" : "");
    const int last = last_question(talk);
    if (on_terminal(stdin))
        show_messages(talk, last < 0 ? 0 : last, SHOWN_OF_LOADED);
    return talk->n && (talk->continues || !conversation_is_answered(talk))
               ? answer(c)
               : 0;
}

/* Removes the last message of the user, and its answer. */
static void undo(Conversation *talk) {
    const int last = last_question(talk);
    if (last < 0) {
        note("there is no message to remove");
        return;
    }
    conversation_cut(talk, last);
    note("removed the last message and its answer; messages: %d", last);
}

/* Says so if the template does not read the variables of --think. */
static void check_think(const Chat *c) {
    if (c->template.think && !strstr(c->template.text, "thinking"))
        note("--think %s changes nothing: the chat template reads neither "
             "enable_thinking nor thinking",
             c->template.think);
}

/* Changes an option; the text lives until the chat ends. */
static void set(Chat *c, char **argument) {
    Options *o = &c->options;
    if (!*argument) {
        Options shown = *o;
        char prompt[200]; /* in force: also that of a loaded conversation */
        if (c->talk.system) {
            snprintf(prompt, sizeof prompt, "%s", c->talk.system);
            make_printable(prompt);
            shown.system = prompt;
        }
        options_show(&shown);
        return;
    }
    const uint64_t seed = o->sampling.seed;
    const char *system = o->system, *think = o->think;
    o->sampling.seed = 0;
    const int status = options_set(o, *argument);
    if (o->sampling.seed)
        c->text.sampler.state = o->sampling.seed;
    else
        o->sampling.seed = seed;
    if (status)
        return;
    c->text.sampler.options = o->sampling;
    note("%s: from the next answer on", *argument);
    if (o->think != think) {
        c->template.think = o->think;
        check_think(c);
        free(c->think);
        c->think = *argument;
        *argument = NULL;
    }
    if (o->system != system) {
        c->talk.system = o->system;
        free(c->talk.loaded);
        c->talk.loaded = NULL;
        free(c->system);
        c->system = *argument;
        *argument = NULL;
    }
}

/* Answers again; a begun answer goes on. */
static int regenerate(Chat *c) {
    Conversation *talk = &c->talk;
    if (!talk->n) {
        note("there is no answer yet");
        return 0;
    }
    if (conversation_is_answered(talk) && !talk->continues)
        conversation_cut(talk, talk->n - 1);
    return answer(c);
}

/* Executes a line that begins with "/". Returns 1 to leave, -1 on failure. */
static int execute(Chat *c, const char *line) {
    Conversation *talk = &c->talk;
    char *argument;
    int status = 0;
    switch (command_read(line, &argument)) {
    case COMMAND_NONE: break;
    case COMMAND_BYE: status = 1; break;
    case COMMAND_HELP: commands_help(); break;
    case COMMAND_CLEAR:
        conversation_cut(talk, 0);
        note("a new conversation");
        break;
    case COMMAND_UNDO: undo(talk); break;
    case COMMAND_SHOW: show_messages(talk, 0, SIZE_MAX); break;
    case COMMAND_SET: set(c, &argument); break;
    case COMMAND_SAVE: save(c, argument, false); break;
    case COMMAND_SAVE_OVER: save(c, argument, true); break;
    case COMMAND_REGEN: status = regenerate(c); break;
    case COMMAND_LOAD:
        if (load_file(c, argument) < 0)
            status = -1;
        break;
    }
    free(argument);
    return status;
}

/* ---- the mode ----------------------------------------------------------- */

/* Chooses a built-in template for a model without one. llama2.c's files use
 * llama-2, as there. */
static int choose_template(Chat *c) {
    Options *o = &c->options;
    const Tokenizer *t = &c->run->tokenizer;
    if (o->template || t->chat_template.bytes)
        return 0;
    if (t->template_names.n)
        return fail(
            "%s: its chat templates are named %.*s, and none default; save one to a file for --template FILE",
            o->model, (int)t->template_names.n, t->template_names.bytes);
    o->template = c->run->model.eos_ends ? chat_template_guess(t) : "llama-2";
    note(
        "%s has no chat template, so it may not be a chat model; using the %s format; without -m chat it continues a text",
        o->model, o->template);
    return 0;
}

/* Answers the first message: -i, and after it the text of -f or of a pipe. */
static int take_first(Chat *c) {
    Options *o = &c->options;
    const char *prompt = o->prompt ? o->prompt : "";
    const InputState input =
        *prompt && !o->prompt_file ? input_state() : NO_INPUT;
    if (input == SILENT_INPUT)
        note(
            "waiting for the rest of the message from standard input, a pipe; </dev/null: -i is the message");
    if (input != NO_INPUT)
        o->prompt_file = "-";
    if (!o->prompt_file)
        return *prompt ? take_turn(c, prompt) : 0;
    size_t size;
    char *text = file_read(o->prompt_file, &size);
    Buffer message = {0};
    if (!text)
        return -1;
    if (strlen(text) < size) {
        free(text);
        return fail("%s: a zero byte", o->prompt_file);
    }
    while (size && strchr("\r\n", text[size - 1]))
        size--;
    if (input != NO_INPUT && size)
        note(
            "the first message is -i and standard input (bytes: %zu); for -i alone add </dev/null",
            size);
    buffer_append(&message, prompt, strlen(prompt));
    buffer_append(&message, "\n\n", *prompt && size ? 2 : 0);
    buffer_append(&message, text, size);
    free(text);
    int status = message.failed ? -1 : 0;
    if (!status && message.n)
        status = take_turn(c, message.bytes);
    free(message.bytes);
    return status;
}

/* Answers --prompts, or holds a conversation that begins with -i. */
static int chat(Chat *c) {
    Run *run = c->run;
    const Options *o = run->options;
    Tokenizer *t = &run->tokenizer;
    if (choose_template(c))
        return -1;
    if (chat_template_open(&c->template, t, o))
        return -1;
    check_think(c);
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
    if (o->load && load_file(c, o->load))
        return -1;
    if (take_first(c))
        return -1;
    Messages in = {.editor.completer = commands_complete};
    bool typed = on_terminal(stdin);
    hide_status();
    if (typed && has_escapes() && !o->no_history)
        history_open(&in.editor.history);
    int status = o->prompt_file && !typed; /* a pipe was read, or is not */
    if (typed)
        note("/help lists the commands and keys; Ctrl-D leaves");
    while (!status && !interrupted) {
        char *message;
        size_t size;
        status = input_read(&in, &message, &size);
        if (status)
            break;
        bool slash = typed && *message == '/' && !strchr(message, '\n');
        while (slash && message[size - 1] == ' ')
            message[--size] = '\0';
        if (strlen(message) < size)
            note("ignored: a message with a zero byte");
        else if (slash && message[1] != '/')
            status = execute(c, message);
        else if (size)
            status = take_turn(c, message + slash);
    }
    input_close(&in);
    return -(status < 0);
}

int mode_chat(Run *run) {
    const Options *given = run->options;
    Chat c = {.run = run,
              .options = *given,
              .talk.system = given->system,
              .text.guesser = &run->guesser};
    run->options = &c.options;
    int status = chat(&c);
    run->options = given;
    free(c.system);
    free(c.think);
    conversation_close(&c.talk);
    text_free(&c.text);
    chat_template_close(&c.template);
    return c.failed ? fail("a message was too long for the context") : status;
}
