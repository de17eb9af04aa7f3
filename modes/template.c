/* template.c: chat templates and conversations.
 *
 * Owns the turns of a conversation, the built-in templates, and the way from turns to tokens:
 * messages to text by formats/jinja.c, text to tokens by tokenizer.c. Special pieces match only
 * bytes that the template wrote: a message is always plain text.
 */
#include "modes/template.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/jinja.h"
#include "text/merges.h"
#include "text/pieces.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A message, and the start of an answer, in templates that treat all roles alike. */
#define ALIKE(message, answer)                                                 \
    "{% for m in messages %}{{ " message                                       \
    " }}{% endfor %}{% if add_generation_prompt %}{{ " answer " }}{% endif %}"

static const struct {
    const char *name, *text;
} BUILT_IN[] = {
    {"llama-2",
     "{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s = '<<SYS>>\\n' +\n"
     "m.content + '\\n<</SYS>>\\n\\n' %}{% elif m.role == 'user' %}{{ bos_token + '[INST] ' + (ns.s + "
     "m.content).strip()\n"
     "+ ' [/INST]' }}{% set ns.s = '' %}{% else %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor "
     "%}"},
    {"mistral",
     "{{ bos_token }}{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s =\n"
     "m.content + '\\n\\n' %}{% elif m.role == 'user' %}{{ '[INST] ' + ns.s + m.content + ' [/INST]' }}{% set ns.s = "
     "''\n"
     "%}{% else %}{{ ' ' + m.content.strip() + eos_token }}{% endif %}{% endfor %}"},
    {"gemma",
     "{{ bos_token }}{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s =\n"
     "m.content + '\\n\\n' %}{% else %}{{ '<start_of_turn>' + ('user' if m.role == 'user' else 'model') + '\\n' + ns.s "
     "+\n"
     "m.content.strip() + '<end_of_turn>\\n' }}{% set ns.s = '' %}{% endif %}{% endfor %}{% if add_generation_prompt "
     "%}\n"
     "{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"chatml",
     ALIKE("'<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n'",
           "'<|im_start|>assistant\\n'")},
    {"llama-3",
     "{{ bos_token }}" ALIKE(
         "'<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content.strip() + '<|eot_id|>'",
         "'<|start_header_id|>assistant<|end_header_id|>\\n\\n'")},
    {"phi-3", ALIKE("'<|' + m.role + '|>\\n' + m.content + '<|end|>\\n'",
                    "'<|assistant|>\\n'")},
    {"zephyr", ALIKE("'<|' + m.role + '|>\\n' + m.content + eos_token + '\\n'",
                     "'<|assistant|>\\n'")},
};

/* ---- conversations -------------------------------------------------------------------------- */

int conversation_add(Conversation *c, const char *user) {
    ChatTurn *turns = realloc(c->turns, ((size_t)c->n + 1) * sizeof *turns);
    if (turns)
        c->turns = turns;
    char *copy = turns ? strdup(user) : NULL;
    if (!copy)
        return fail("out of memory");
    turns[c->n++] = (ChatTurn){.user = copy};
    return 0;
}

void conversation_cut(Conversation *c, int n) {
    for (; c->turns && c->n > n; c->n--) {
        free(c->turns[c->n - 1].user);
        free(c->turns[c->n - 1].answer.ids);
    }
    if (c->first > n)
        c->first = n;
}

void conversation_close(Conversation *c) {
    conversation_cut(c, 0);
    free(c->turns);
    free(c->loaded);
    *c = (Conversation){0};
}

/* `answers`: the message follows one of the user. */
static int read_message(Conversation *c, const Tokenizer *t, const char *where,
                        const Json *message, bool answers) {
    const Json *role = json_get(message, "role"),
               *content = json_get(message, "content");
    if (!json_has_kind(content, JSON_STRING) ||
        strlen(content->text) < content->length)
        return fail("%s: \"content\" is %.40s, expected a text", where,
                    json_shown(content));
    if (json_is(role, "user") && !answers)
        return conversation_add(c, content->text);
    if (json_is(role, "assistant") && answers) {
        /* no byte of the file is a special piece */
        bool *open = allocate_zeroed(content->length + 1, sizeof *open);
        const int status =
            open ? tokenizer_append(t, content->text, content->length, open,
                                    false, &c->turns[c->n - 1].answer)
                 : -1;
        free(open);
        return status;
    }
    if (!json_is(role, "system") || c->n)
        return fail(
            "%s: \"role\" is %.40s, expected user and assistant in turn", where,
            json_shown(role));
    free(c->loaded);
    c->system = c->loaded = strdup(content->text);
    return c->loaded ? 0 : fail("out of memory");
}

int conversation_read(Conversation *c, const Tokenizer *t, const char *where,
                      const Json *messages) {
    const Json *m = json_members(messages, JSON_ARRAY);
    if (!m)
        return fail("%s: contains no list of messages", where);
    for (bool answers = false; m; m = m->next) {
        if (read_message(c, t, where, m, answers))
            return -1;
        answers = json_is(json_get(m, "role"), "user");
    }
    return 0;
}

/* ---- rendering ------------------------------------------------------------------------------ */

typedef struct {
    const ChatTemplate *template;
    const Tokenizer *t;
    const Conversation *talk;
    bool opens_answer; /* else an answer "x" follows the last turn */
} Job;

static void add_message(const char *role, const char *text) {
    jinja_write(text, strlen(text), false);
    jinja_message(role);
}

/* Writes tokens as text, in which special pieces keep their meaning. */
static void write_tokens(const Tokenizer *t, const int *ids, int n) {
    for (int i = 0, length; i < n; i++) {
        const char *s =
            tokenizer_decode(t, i ? ids[i - 1] : t->bos, ids[i], &length);
        const PieceKind kind = t->pieces.list[ids[i]].kind;
        jinja_write(s, length, kind == PIECE_SPECIAL || kind == PIECE_USER);
    }
}

static void describe(const void *job) {
    const Job *j = job;
    const Tokenizer *t = j->t;
    const char *think = j->template->think;
    write_tokens(t, &t->bos, t->bos >= 0);
    jinja_define("bos_token");
    write_tokens(t, &t->eos, t->eos >= 0);
    jinja_define("eos_token");
    if (think)
        jinja_flag("enable_thinking", !strcmp(think, "on"));
    jinja_flag("add_generation_prompt", j->opens_answer);
    const Conversation *talk = j->talk;
    if (talk->system)
        add_message("system", talk->system);
    for (int i = talk->first; i < talk->n; i++) {
        const ChatTurn *turn = &talk->turns[i];
        add_message("user", turn->user);
        if (i == talk->n - 1)
            break;
        write_tokens(t, turn->answer.ids, turn->answer.n);
        jinja_message("assistant");
    }
    if (!j->opens_answer)
        add_message("assistant", "x");
}

static int render(const Job *j, JinjaText *out) {
    return jinja_render(j->template->path, j->template->text, describe, j, out);
}

int chat_template_render(const ChatTemplate *c, const Tokenizer *t,
                         const Conversation *talk, Tokens *out) {
    JinjaText text;
    int status = 0;
    *out = (Tokens){0};
    if (render(&(Job){c, t, talk, true}, &text))
        return -1;
    if (!t->no_bos && !t->chat_has_bos &&
        pieces_match(&t->pieces, text.text, text.n, true) != t->bos)
        status = tokens_add(out, t->bos);
    if (!status)
        status = tokenizer_append(t, text.text, text.n, text.marks, true, out);
    free(text.text);
    return status;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Makes special, control and user-defined pieces match the raw text, of which only the template's
 * bytes are open to them. User-defined runs of spaces match as before. */
static int guard_pieces(Tokenizer *t) {
    for (int id = 0; id < t->pieces.n; id++) {
        Piece *p = &t->pieces.list[id];
        if ((id == t->bos || id == t->eos || id == t->eot ||
             p->kind == PIECE_SPECIAL || p->kind == PIECE_CONTROL) &&
            p->length <= MAX_MATCHED_BYTES) {
            p->kind = PIECE_SPECIAL;
            p->also_merged = false;
        }
        const bool is_marker = p->kind == PIECE_USER &&
                               (t->pieces.rules || isgraph((uint8_t)*p->text));
        if (p->kind == PIECE_SPECIAL || is_marker)
            p->raw = true;
    }
    return pieces_index(&t->pieces);
}

/* Finds the token that ends an answer: the special piece after the last byte of a message. */
static int find_end(ChatTemplate *c, const Tokenizer *t) {
    JinjaText text;
    if (render(
            &(Job){c, t,
                   &(Conversation){.turns = &(ChatTurn){.user = "x"}, .n = 1},
                   false},
            &text))
        return -1;
    size_t at = text.n;
    while (at > 0 && text.marks[at - 1])
        at--;
    if (at)
        at += strspn(text.text + at, " \n");
    c->end = pieces_match(&t->pieces, text.text + at, text.n - at, true);
    free(text.text);
    return 0;
}

int chat_template_open(ChatTemplate *c, Tokenizer *t, const Options *o) {
    const char *name = o->template;
    size_t size;
    *c = (ChatTemplate){
        .path = o->model, .text = t->chat_template.bytes, .think = o->think};
    if (!name && !c->text)
        name = BUILT_IN[0].name;
    if (name)
        c->path = name, c->text = NULL;
    for (size_t i = 0; name && i < sizeof BUILT_IN / sizeof *BUILT_IN; i++)
        if (!strcmp(BUILT_IN[i].name, name))
            c->text = BUILT_IN[i].text;
    if (!c->text)
        c->text = c->file = file_read(name, &size);
    return !c->text || guard_pieces(t) || find_end(c, t) ? -1 : 0;
}

void chat_template_close(ChatTemplate *c) {
    free(c->file);
}
