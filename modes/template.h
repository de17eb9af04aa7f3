/* template.h: chat templates and conversations. */
#pragma once

#include "formats/jinja.h"
#include "formats/json.h"
#include "modes/options.h"
#include "tokenizer.h"

typedef struct {
    const char *path, *text; /* the template; `path` is for messages */
    const char *think;       /* --think */
    char *file; /* the template of --template FILE, owned; NULL: none */
    int end;    /* token that ends an answer; -1: the vocabulary has none */
} ChatTemplate;

typedef struct {
    /* [n], owned, with their texts and roles. Marked bytes can be special
     * pieces. */
    JinjaText *messages;
    int n, first;       /* `first`: the first message that is not dropped */
    bool continues;     /* the last message is the beginning of an answer */
    const char *system; /* NULL: the template's own */
    char *loaded;       /* the system prompt of a file, owned; NULL: none */
} Conversation;

/* The built-in template of a model without one: that whose marker is a token of
 * the vocabulary, else chatml. */
const char *chat_template_guess(const Tokenizer *t);

/* Opens the template of --template, else the model's own one, else that of
 * chat_template_guess().
 * Changes t: afterwards special pieces match only a template's text, and no
 * text becomes BOS, EOS or EOT by merging. Returns -1 and a message on failure.
 * The caller closes it in either case. */
int chat_template_open(ChatTemplate *c, Tokenizer *t, const Options *o);
void chat_template_close(ChatTemplate *c);

/* Sets *out to the tokens of the messages that are not dropped, up to the
 * answer of the last one. Returns -1 and a message on failure. The caller frees
 * out->ids in either case. */
int chat_template_render(const ChatTemplate *c, const Tokenizer *t,
                         const Conversation *talk, Tokens *out);

/* Like chat_template_render(); if there are more than `max` tokens, drops the
 * oldest turns, as few as leave at most `fewer`, but never the last message. Of
 * n messages it renders log2(n). */
int chat_template_fit(const ChatTemplate *c, const Tokenizer *t,
                      Conversation *talk, int max, int fewer, Tokens *out);

/* Whether the last message is the assistant's. */
bool conversation_is_answered(const Conversation *c);

/* Adds a copy of a message, without marks: the user's first, or after an
 * answer, else an answer. Valid until the next call. Returns NULL and a message
 * on stderr if out of memory. */
JinjaText *conversation_add(Conversation *c, const char *text, size_t n);

/* Adds an array of messages: {"role": ROLE, "content": TEXT or a list of
 * {"type": "text", "text": TEXT}}, the last one possibly with "continue": true.
 * `where` is for messages. Returns -1 and a message on failure. */
int conversation_read(Conversation *c, const char *where, const Json *messages);

/* Removes all messages from n on; frees what the conversation owns. */
void conversation_cut(Conversation *c, int n);
void conversation_close(Conversation *c);
