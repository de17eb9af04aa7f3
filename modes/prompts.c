/* prompts.c: reads prompts, one at a time.
 *
 * Owns the sources of prompts (-i, -f, --tokens, --prompts) and the fields of a
 * line in a .jsonl file.
 * Tests: texts.
 */
#include "modes/prompts.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "formats/json.h"
#include "text/merges.h"
#include "tokenizer.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Whether the lines of --prompts are objects: by the name, or if the first line
 * that is not empty is one with a prompt or messages. */
static bool lines_are_json(const Prompts *p) {
    const char *text = p->text + strspn(p->text, " \t\r\n");
    if (has_ending(p->name, ".jsonl") || has_ending(p->name, ".ndjson"))
        return true;
    JsonFile json;
    hold_messages(true);
    bool is_json =
        *text == '{' && !json_parse(&json, p->name, text, strcspn(text, "\n"));
    hold_messages(false);
    if (!is_json)
        return false;
    is_json =
        json_get(json.values, "prompt") || json_get(json.values, "messages");
    json_close(&json);
    if (!is_json)
        note(
            "%s: the first line is JSON without \"prompt\" or \"messages\": its lines are texts",
            p->name);
    return is_json;
}

int prompts_open(Prompts *p, const Run *run, const ChatTemplate *template) {
    const Options *o = run->options;
    *p = (Prompts){.run = run, .template = template};
    p->name =
        o->prompts && strcmp(o->prompts, "-") ? o->prompts : "standard input";
    p->text = run_read(o, &p->size);
    if (!p->text)
        return -1;
    p->is_json = o->prompts && lines_are_json(p);
    return o->prompts && !p->size ? fail("%s: contains no prompt", p->name) : 0;
}

void prompts_close(Prompts *p) {
    conversation_close(&p->talk);
    free(p->prompt.ids.ids);
    free(p->text);
}

/* Reads a whole number from min to max, if the key exists. */
static int read_number(const Json *object, const char *where, const char *key,
                       int64_t min, int64_t max, int64_t *to) {
    const Json *value = json_get(object, key);
    if (json_null(value) ||
        (json_integer(value, to) && *to >= min && *to <= max))
        return 0;
    return fail(
        "%s: \"%s\" is %.40s, expected a whole number from %lld to %lld", where,
        key, json_shown(value), (long long)min, (long long)max);
}

/* Reads a line of JSON. The prompt, or the last one of its messages, overwrites
 * the line; it is never longer. */
static int read_object(Prompts *p, const char *where, const Json *object) {
    Prompt *to = &p->prompt;
    Conversation *talk = &p->talk;
    int64_t seed = to->seed, samples = to->samples;
    const Json *messages = p->template ? json_get(object, "messages") : NULL,
               *prompt = json_get(object, "prompt");
    if (read_number(object, where, "seed", 0, INT64_MAX, &seed) ||
        read_number(object, where, "n", 1, INT_MAX, &samples))
        return -1;
    if (seed)
        to->seed = seed;
    to->samples = (int)samples;
    if (!messages) {
        if (!json_has_kind(prompt, JSON_STRING))
            return fail("%s: \"prompt\" is %.40s, expected a string", where,
                        json_shown(prompt));
        to->size = prompt->length;
        memmove(to->text, prompt->text, to->size);
        return 0;
    }
    if (conversation_read(talk, where, messages))
        return -1;
    const JinjaText *last = talk->n ? &talk->messages[talk->n - 1] : NULL;
    talk->continues = conversation_is_answered(talk);
    if (!last || (talk->continues && !last->n))
        return fail("%s: the last message is empty", where);
    to->size = last->n;
    memcpy(to->text, last->text, to->size);
    return 0;
}

/* Reads the next line of --prompts, or the only prompt. */
static int read_text(Prompts *p, const char *where) {
    const Options *o = p->run->options;
    Prompt *to = &p->prompt;
    char *line = p->text + p->at;
    const char *end = o->prompts ? memchr(line, '\n', p->size - p->at) : NULL;
    to->text = line;
    to->size = end ? (size_t)(end - line) : p->size - p->at;
    p->at += to->size + (end != NULL);
    /* the output ends with its own newline */
    to->size -= o->prompt_file && to->size && line[to->size - 1] == '\n';
    to->size -= (o->prompts || o->prompt_file) && to->size &&
                line[to->size - 1] == '\r';
    conversation_close(&p->talk);
    p->talk.system = o->system;
    if (p->is_json) {
        JsonFile json;
        if (json_parse(&json, where, line, to->size))
            return -1;
        int status = read_object(p, where, json.values);
        json_close(&json);
        if (status)
            return -1;
    }
    line[to->size] = '\0';
    if (!p->template)
        return 0;
    if (strlen(line) < to->size)
        return fail("%s: a zero byte", where);
    return p->talk.n || conversation_add(&p->talk, line, to->size) ? 0 : -1;
}

/* -1: out of memory; 1: the template cannot render the conversation. */
static int encode(Prompts *p) {
    const Run *run = p->run;
    Prompt *to = &p->prompt;
    if (run->options->tokens)
        return run_tokens(run, true, &to->ids);
    if (p->template)
        return -chat_template_render(p->template, &run->tokenizer, &p->talk,
                                     &to->ids);
    return tokenizer_encode(&run->tokenizer, to->text, to->size, true,
                            &to->ids);
}

/* Checks that a prompt fits. An empty prompt becomes BOS. */
static int check_tokens(Prompts *p, const char *where) {
    const Run *run = p->run;
    Tokens *ids = &p->prompt.ids;
    int first = run_first_token(run), context = run->session.context;
    if (!ids->n &&
        (first < 0
             ? fail(
                   "%s: the prompt is empty, and the model has no BOS; pass a text with -i",
                   where)
             : tokens_add(ids, first)))
        return -1;
    if (ids->n > context)
        return fail("%s: %d positions do not fit in a context of %d", where,
                    ids->n, context);
    int max = p->template ? context : run_steps(run, ids);
    p->prompt.max = max;
    if (p->template || max > ids->n || (run->model.eos_ends && max == ids->n))
        return 0;
    p->no_room = run->model.eos_ends;
    if (p->no_room)
        return fail(
            "%s: -n %d includes the prompt (tokens: %d) and leaves no room for another token; use at least -n %d",
            where, run->options->steps, ids->n,
            ids->n + run->options->steps - max);
    p->n_reported++;
    note("%s: -n %d includes the prompt (tokens: %d)", where, max, ids->n);
    return 0;
}

/* Reads the next prompt and its tokens. Returns 1 and a message if it cannot
 * run; -1 if out of memory. */
static int read_prompt(Prompts *p) {
    const Options *o = p->run->options;
    Prompt *to = &p->prompt;
    char where[256] = "prompt";
    free(to->ids.ids);
    *to = (Prompt){.line = to->line + 1,
                   .seed = o->sampling.seed,
                   .samples = o->samples ? o->samples : 1};
    if (o->prompts)
        snprintf(where, sizeof where, "%.200s: line %d", p->name, to->line);
    hold_messages(p->n_reported >= MAX_REPORTS);
    int status = read_text(p, where) ? 1 : encode(p);
    if (!status &&
        (check_tokens(p, where) || run_show_prompt(p->run, &to->ids)))
        status = 1;
    hold_messages(false);
    return status;
}

int prompts_next(Prompts *p) {
    while (!interrupted && (p->at < p->size ||
                            (!p->run->options->prompts && !p->prompt.line))) {
        int status = read_prompt(p);
        if (status <= 0)
            return status ? -1 : 1;
        p->n_failed++;
        p->n_reported++;
    }
    p->prompt.samples = 0;
    return 0;
}

int prompts_report(const Prompts *p) {
    int more = p->n_reported - MAX_REPORTS;
    if (more > 0)
        note(
            "%s: messages about %d more lines are not shown; lines that could not run: %d",
            p->name, more, p->n_failed);
    if (p->no_room && !p->run->options->prompts)
        return EXIT_BAD_USAGE;
    return p->n_failed ? -1 : 0;
}
