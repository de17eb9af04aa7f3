/* template.c: chat templates and conversations.
 *
 * Owns the turns of a conversation, the built-in templates, and the way from
 * turns to tokens: messages to text by formats/jinja.c, text to tokens by
 * tokenizer.c. Special pieces match only bytes that the template wrote: a
 * message is always plain text.
 * Tests: template, chat.
 */
#include "modes/template.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "text/merges.h"
#include "text/pieces.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A message, and the start of an answer, in templates that treat all roles
 * alike. */
#define ALIKE(message, answer)                                                 \
    "{% for m in messages %}{{ " message                                       \
    " }}{% endfor %}{% if add_generation_prompt %}{{ " answer " }}{% endif %}"

static const struct BuiltIn {
    const char *name, *text;
    const char *marker; /* a token of models that use it; NULL: not one */
} BUILT_IN[] = {
    {"llama-2",
     "{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s = '<<SYS>>\\n' +\n"
     "m.content + '\\n<</SYS>>\\n\\n' %}{% elif m.role == 'user' %}{{ bos_token + '[INST] ' + (ns.s + m.content).strip()\n"
     "+ ' [/INST]' }}{% set ns.s = '' %}{% else %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
     NULL},
    {"mistral",
     "{{ bos_token }}{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s =\n"
     "m.content + '\\n\\n' %}{% elif m.role == 'user' %}{{ '[INST] ' + ns.s + m.content + ' [/INST]' }}{% set ns.s = ''\n"
     "%}{% else %}{{ ' ' + m.content.strip() + eos_token }}{% endif %}{% endfor %}",
     "[INST]"},
    {"gemma",
     "{{ bos_token }}{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s =\n"
     "m.content + '\\n\\n' %}{% else %}{{ '<start_of_turn>' + ('user' if m.role == 'user' else 'model') + '\\n' + ns.s +\n"
     "m.content.strip() + '<end_of_turn>\\n' }}{% set ns.s = '' %}{% endif %}{% endfor %}{% if add_generation_prompt %}\n"
     "{{ '<start_of_turn>model\\n' }}{% endif %}",
     "<start_of_turn>"},
    {"chatml",
     ALIKE("'<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n'",
           "'<|im_start|>assistant\\n'"),
     "<|im_start|>"},
    {"llama-3",
     "{{ bos_token }}" ALIKE(
         "'<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content.strip() + '<|eot_id|>'",
         "'<|start_header_id|>assistant<|end_header_id|>\\n\\n'"),
     "<|start_header_id|>"},
    {"phi-3",
     ALIKE("'<|' + m.role + '|>\\n' + m.content + '<|end|>\\n'",
           "'<|assistant|>\\n'"),
     "<|end|>"},
    {"zephyr",
     ALIKE("'<|' + m.role + '|>\\n' + m.content + eos_token + '\\n'",
           "'<|assistant|>\\n'"),
     NULL},
};

/* ---- conversations ------------------------------------------------------ */

static JinjaText *add(Conversation *c, const char *role, const char *text,
                      size_t n) {
    JinjaText *messages =
        realloc(c->messages, ((size_t)c->n + 1) * sizeof *messages);
    if (messages)
        c->messages = messages;
    /* the text, the marks, the role */
    char *copy = messages ? calloc(1, 2 * n + strlen(role) + 1) : NULL;
    if (!copy) {
        fail("out of memory");
        return NULL;
    }
    if (n)
        memcpy(copy, text, n);
    messages[c->n] =
        (JinjaText){copy, (bool *)copy + n, n, strcpy(copy + 2 * n, role)};
    return &messages[c->n++];
}

bool conversation_is_answered(const Conversation *c) {
    return c->n && !strcmp(c->messages[c->n - 1].role, "assistant");
}

JinjaText *conversation_add(Conversation *c, const char *text, size_t n) {
    bool is_user = !c->n || conversation_is_answered(c);
    return add(c, is_user ? "user" : "assistant", text, n);
}

void conversation_cut(Conversation *c, int n) {
    while (c->n > n)
        free(c->messages[--c->n].text);
    if (c->first > n)
        c->first = n;
    c->continues = false;
}

void conversation_close(Conversation *c) {
    conversation_cut(c, 0);
    free(c->messages);
    free(c->loaded);
    *c = (Conversation){0};
}

/* Appends the text of a JSON string. */
static int read_text(Buffer *to, const char *where, const Json *text) {
    if (!json_has_kind(text, JSON_STRING) || strlen(text->text) < text->length)
        return fail("%s: \"content\" is %.40s, expected a text", where,
                    json_shown(text));
    buffer_append(to, "\n", to->n > 0);
    buffer_append(to, text->text, text->length);
    return -to->failed;
}

static int read_message(Conversation *c, const char *where,
                        const Json *message) {
    const Json *role = json_get(message, "role"),
               *content = json_get(message, "content"),
               *part = json_members(content, JSON_ARRAY);
    Buffer text = {0};
    if (!json_has_kind(role, JSON_STRING))
        return fail("%s: \"role\" is %.40s, expected a text", where,
                    json_shown(role));
    int status = part ? 0 : read_text(&text, where, content);
    for (; part && !status; part = part->next)
        status = read_text(&text, where,
                           json_is(json_get(part, "type"), "text")
                               ? json_get(part, "text")
                               : part);
    if (!status && json_is(role, "system") && !c->n) {
        free(c->loaded);
        buffer_append(&text, "", 0);
        c->system = c->loaded = text.bytes;
        return -text.failed;
    }
    if (!status && !add(c, role->text, text.bytes, text.n))
        status = -1;
    c->continues =
        json_true(json_get(message, "continue")) && conversation_is_answered(c);
    free(text.bytes);
    return status;
}

int conversation_read(Conversation *c, const char *where,
                      const Json *messages) {
    JSON_EACH(m, messages, JSON_ARRAY)
        if (read_message(c, where, m))
            return -1;
    return json_members(messages, JSON_ARRAY)
               ? 0
               : fail("%s: contains no list of messages", where);
}

/* ---- rendering ---------------------------------------------------------- */

static int render(const ChatTemplate *c, const Tokenizer *t,
                  const Conversation *talk, JinjaText *out,
                  JinjaReport *report) {
    JinjaInput in = {.path = c->path,
                     .template = c->text,
                     .tokens = {{.text = ""}, {.text = ""}},
                     .names = t,
                     .system = talk->system,
                     .messages = talk->messages + talk->first,
                     .n = talk->n - talk->first,
                     .opens_answer = !conversation_is_answered(talk),
                     .think = c->think,
                     .report = report};
    int ids[N_TOKEN_NAMES] = {t->bos, t->eos, t->unk};
    memcpy(ids + 3, t->named, sizeof t->named);
    for (int i = 0; i < N_TOKEN_NAMES; i++)
        if (ids[i] >= 0)
            in.tokens[i].text =
                tokenizer_decode(t, t->bos, ids[i], &in.tokens[i].n);
    return jinja_render(&in, out);
}

int chat_template_render(const ChatTemplate *c, const Tokenizer *t,
                         const Conversation *talk, Tokens *out) {
    JinjaText text;
    JinjaReport report;
    size_t own =
        0; /* bytes of the template before the first one of a message */
    int status = 0;
    *out = (Tokens){0};
    if (render(c, t, talk, &text, &report))
        return -1;
    if (talk->continues) {
        text.n = report.last_end;
        if (!text.n)
            status = fail(
                "%s: the chat template does not write the begun answer; end with a message of the user",
                c->path);
    }
    while (own < text.n && text.marks[own])
        own++;
    if (!status && t->n_before && !t->chat_has_bos &&
        pieces_match(&t->pieces, text.text, own, true) != t->bos)
        status = tokens_add(out, t->bos);
    if (!status)
        status = tokenizer_append(t, text.text, text.n, text.marks, true, out);
    free(text.text);
    return status || out->n
               ? status
               : fail("%s: the chat template writes no text", c->path);
}

/* The first message from `at` on with which a conversation can begin: a user's,
 * or the last one. */
static int next_turn(const Conversation *talk, int at) {
    while (at < talk->n - 1 && strcmp(talk->messages[at].role, "user"))
        at++;
    return at;
}

/* Renders from message `first` on. Sets *fits: at most `max` tokens. */
static int try_first(const ChatTemplate *c, const Tokenizer *t,
                     Conversation *talk, int first, int max, Tokens *out,
                     bool *fits) {
    free(out->ids);
    talk->first = first;
    int status = chat_template_render(c, t, talk, out);
    *fits = !status && out->n <= max;
    return status;
}

int chat_template_fit(const ChatTemplate *c, const Tokenizer *t,
                      Conversation *talk, int max, int fewer, Tokens *out) {
    bool fits;
    *out = (Tokens){0};
    if (try_first(c, t, talk, talk->first, max, out, &fits))
        return -1;
    int low = next_turn(talk, talk->first + 1), high = talk->n - 1;
    if (fits || talk->first == talk->n - 1)
        return 0;
    while (low <
           high) { /* from `high` on the messages fit, or it is the last */
        int middle = next_turn(talk, low + (high - low) / 2);
        if (middle >= high)
            middle = low;
        if (try_first(c, t, talk, middle, fewer, out, &fits))
            return -1;
        if (fits)
            high = middle;
        else
            low = next_turn(talk, middle + 1);
    }
    return talk->first == low ? 0
                              : try_first(c, t, talk, low, fewer, out, &fits);
}

/* ---- opening ------------------------------------------------------------ */

/* Makes special, control and user-defined pieces match the raw text, of which
 * only the template's bytes are open to them. User-defined white space matches
 * later, in all normalized text. */
static int guard_pieces(Tokenizer *t) {
    for (int id = 0; id < t->pieces.n; id++) {
        Piece *p = &t->pieces.list[id];
        if (id == t->bos || id == t->eos || id == t->eot ||
            p->kind == PIECE_SPECIAL || p->kind == PIECE_CONTROL) {
            p->kind =
                p->length <= MAX_MATCHED_BYTES ? PIECE_SPECIAL : PIECE_CONTROL;
            p->also_merged = false;
        }
        int spaces = 0;
        while (spaces < p->length && isspace((uint8_t)p->text[spaces]))
            spaces++;
        bool is_marker = p->kind == PIECE_USER && spaces < p->length &&
                         (t->pieces.rules || isgraph((uint8_t)*p->text));
        p->raw = p->kind == PIECE_SPECIAL || is_marker ||
                 (p->raw && spaces < p->length);
    }
    return pieces_index(&t->pieces);
}

/* Finds the token that ends an answer: the special piece after the last byte of
 * a message. */
static int find_end(ChatTemplate *c, const Tokenizer *t) {
    bool mark = false;
    JinjaText messages[] = {{"x", &mark, 1, "user"},
                            {"x", &mark, 1, "assistant"}},
              text;
    Conversation talk = {.messages = messages, .n = 2};
    if (render(c, t, &talk, &text, NULL))
        return -1;
    size_t at = text.n;
    while (at > 0 && text.marks[at - 1])
        at--;
    if (at)
        at += strspn(text.text + at, " \n");
    /* all bytes from here on are the template's */
    c->end = pieces_match(&t->pieces, text.text + at, text.n - at, true);
    free(text.text);
    return 0;
}

/* Whether a text is a token, of whatever kind. */
static bool is_token(const Pieces *pieces, const char *text) {
    const int n = (int)strlen(text);
    EACH(const Piece, p, pieces->list, pieces->n)
        if (p->length == n && !memcmp(p->text, text, n))
            return true;
    return false;
}

const char *chat_template_guess(const Tokenizer *t) {
    EACH(const struct BuiltIn, b, BUILT_IN, COUNT(BUILT_IN))
        if (b->marker && is_token(&t->pieces, b->marker))
            return b->name;
    return "chatml";
}

/* Reads the file of --template. NULL and a message on failure. */
static char *read_template(const char *name) {
    char names[128] = "";
    size_t n = 0, size;
    EACH(const struct BuiltIn, b, BUILT_IN, COUNT(BUILT_IN))
        n += snprintf(names + n, sizeof names - n, n ? ", %s" : "%s", b->name);
    if (file_exists(name))
        return file_read(name, &size);
    fail("--template is '%s', expected a Jinja file, or one of %s", name,
         names);
    return NULL;
}

int chat_template_open(ChatTemplate *c, Tokenizer *t, const Options *o) {
    const char *own = t->chat_template.bytes,
               *name =
                   o->template || own ? o->template : chat_template_guess(t);
    *c = (ChatTemplate){.path = name ? name : o->model,
                        .text = name ? NULL : own,
                        .think = o->think};
    EACH(const struct BuiltIn, b, BUILT_IN, COUNT(BUILT_IN))
        if (name && !strcmp(b->name, name))
            c->text = b->text;
    if (!c->text)
        c->text = c->file = read_template(name);
    return -(!c->text || guard_pieces(t) || find_end(c, t));
}

void chat_template_close(ChatTemplate *c) {
    free(c->file);
}
