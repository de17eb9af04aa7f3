/* prompts.c: reads prompts, one at a time.
 *
 * Owns the sources of prompts (-i, -f, --tokens, --prompts) and the fields of a line in a .jsonl file.
 */
#include "modes/prompts.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "formats/json.h"
#include "model.h"
#include "tokenizer.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int prompts_open(Prompts *p, const Run *run, const ChatTemplate *template) {
    const Options *o = run->options;
    const char *ending = o->prompts ? strrchr(o->prompts, '.') : NULL;
    *p = (Prompts){.run = run, .template = template, .json = ending && !strcmp(ending, ".jsonl")};
    p->name = o->prompts && strcmp(o->prompts, "-") ? o->prompts : "standard input";
    if (!(p->text = run_read(o->prompts ? o->prompts : o->prompt_file, o->tokens ? o->tokens : o->prompt, &p->size)))
        return -1;
    return o->prompts && !p->size ? fail("%s: contains no prompt", p->name) : 0;
}

void prompts_close(Prompts *p) {
    conversation_close(&p->talk);
    free(p->text);
}

/* Reads a whole number from min to max, if the key exists. */
static int read_number(const Json *object, const char *where, const char *key, int64_t min, int64_t max, int64_t *to) {
    const Json *value = json_get(object, key);
    if (json_null(value) || (json_integer(value, to) && *to >= min && *to <= max)) return 0;
    return fail("%s: \"%s\" is %.40s, expected a whole number from %lld to %lld", where, key, json_shown(value),
                (long long)min, (long long)max);
}

/* Makes the messages of a line the conversation. Returns the text of the last one; NULL and a message on failure. */
static const Json *read_messages(Prompts *p, const char *where, const Json *messages) {
    const Json *last = json_members(messages, JSON_ARRAY);
    p->talk.system = p->run->options->system;
    if (conversation_read(&p->talk, &p->run->tokenizer, where, messages)) return NULL;
    for (const Json *m = last; m; m = json_next(messages, m)) last = m;
    if (json_is(json_get(last, "role"), "user")) return json_get(last, "content");
    fail("%s: the last message is not the user's", where);
    return NULL;
}

/* Parses a line of JSON. Its prompt overwrites the line; it is never longer. */
static int read_object(Prompts *p, Prompt *to, const char *where, char *line) {
    JsonFile json;
    int64_t seed = 0, samples = to->samples;
    if (json_parse(&json, where, line, to->size)) return -1;
    conversation_close(&p->talk);
    const Json *messages = p->template ? json_get(json.values, "messages") : NULL;
    const Json *text = messages ? read_messages(p, where, messages) : json_get(json.values, "prompt");
    int status = text && text->kind == JSON_STRING ? 0
                 : messages                        ? -1
                            : fail("%s: \"prompt\" is %.40s, expected a string", where, json_shown(text));
    if (!status) status = read_number(json.values, where, "seed", 0, INT64_MAX, &seed);
    if (!status) status = read_number(json.values, where, "n", 1, INT_MAX, &samples);
    if (!status) memmove(line, text->text, to->size = text->length);
    to->samples = (int)samples;
    if (seed) to->seed = seed;
    json_close(&json);
    return status;
}

/* Reads the next line of --prompts, or the only prompt. */
static int read_text(Prompts *p, Prompt *to, const char *where) {
    const Options *o = p->run->options;
    char *line = p->text + p->at;
    const char *end = o->prompts ? memchr(line, '\n', p->size - p->at) : NULL;
    to->text = line;
    to->size = end ? (size_t)(end - line) : p->size - p->at;
    p->at += to->size + (end != NULL);
    if (o->prompt_file && to->size && line[to->size - 1] == '\n') to->size--; /* the output ends with its own newline */
    if ((o->prompts || o->prompt_file) && to->size && line[to->size - 1] == '\r') to->size--;
    if (p->json && read_object(p, to, where, line)) return -1;
    line[to->size] = '\0';
    return p->template && strlen(line) < to->size ? fail("%s: a zero byte", where) : 0;
}

static int encode(const Prompts *p, Prompt *to) {
    const Run *run = p->run;
    const Options *o = run->options;
    if (o->tokens) return run_tokens(run, true, &to->ids);
    if (!p->template) return tokenizer_encode(&run->tokenizer, to->text, to->size, true, &to->ids);
    const Conversation one = {.turns = &(ChatTurn){.user = to->text}, .n = 1, .system = o->system};
    return chat_template_render(p->template, &run->tokenizer, p->talk.n ? &p->talk : &one, &to->ids);
}

/* Checks that a prompt fits. An empty prompt becomes BOS. `where`: the line, for messages; "" on the command line. */
static int check_tokens(Prompts *p, const char *where, Tokens *ids) {
    const Run *run = p->run;
    const int first = run_first_token(run), max = p->template ? INT_MAX : run_steps(run);
    const char *colon = *where ? ": " : "";
    if (!ids->n && first < 0)
        return fail("%s%sthe prompt is empty, and the model has no BOS; pass a text with -i", where, colon);
    if (!ids->n) ids->ids[ids->n++] = first;
    if (ids->n > run->session.context)
        return fail("%s%s%d positions do not fit in a context of %d", where, colon, ids->n, run->session.context);
    if (max <= ids->n && p->n_no_room++ < MAX_REPORTS)
        note("%s%s-n %d includes the prompt, which has %d token%s", where, colon, max, ids->n, ids->n == 1 ? "" : "s");
    return 0;
}

/* Reads the next prompt and its tokens. Returns 1 and a message if it cannot run; -1 if out of memory. */
static int read_prompt(Prompts *p, Prompt *to) {
    const Options *o = p->run->options;
    char where[256] = "";
    *to = (Prompt){.line = ++p->line, .seed = o->sampling.seed, .samples = o->samples ? o->samples : 1};
    if (o->prompts) snprintf(where, sizeof where, "%.200s: line %d", p->name, p->line);
    hold_messages(p->n_failed >= MAX_REPORTS);
    int status = read_text(p, to, where) ? 1 : encode(p, to);
    if (!status && check_tokens(p, where, &to->ids)) {
        free(to->ids.ids);
        status = 1;
    }
    hold_messages(false);
    return status;
}

int prompts_next(Prompts *p, Prompt *next) {
    while (!interrupted && (p->at < p->size || (!p->run->options->prompts && !p->line))) {
        const int status = read_prompt(p, next);
        if (status <= 0) return status ? -1 : 1;
        p->n_failed++;
    }
    *next = (Prompt){0};
    return 0;
}

int prompts_report(const Prompts *p) {
    if (p->n_no_room > MAX_REPORTS)
        note("%s: -n %d includes the prompt; %d lines have at least that many tokens", p->name, run_steps(p->run),
             p->n_no_room);
    if (p->n_failed > MAX_REPORTS)
        fail("%s: %d of %d lines could not run; the first %d are above", p->name, p->n_failed, p->line, MAX_REPORTS);
    return p->n_failed ? -1 : 0;
}
