/* template.h: chat templates. */
#pragma once

#include "modes/options.h"
#include "tokenizer.h"

typedef struct {
    const char *path, *text; /* the template; `path` is for messages */
    const char *think;       /* --think */
    char *file;              /* the template of --template FILE, owned; NULL: none */
    int end;                 /* token that ends an answer; -1: the vocabulary has none */
} ChatTemplate;

typedef struct {
    char *user;    /* the user's message */
    Tokens answer; /* without the end token */
} ChatTurn;

/* Opens the template of --template, else the model's own one, else llama-2. Changes t: afterwards special pieces match
 * only a template's text, and no text becomes BOS, EOS or EOT by merging. Returns -1 and a message on failure. The
 * caller closes it in either case. */
int chat_template_open(ChatTemplate *c, Tokenizer *t, const Options *o);
void chat_template_close(ChatTemplate *c);

/* Sets *out to the tokens of turns[n] up to the answer of the last one. `system`: the system prompt; NULL: the
 * template's own. The caller frees out->ids. Returns -1 and a message on failure. */
int chat_template_render(const ChatTemplate *c, const Tokenizer *t, const char *system, const ChatTurn *turns, int n,
                         Tokens *out);
