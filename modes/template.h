/* template.h: chat templates. */
#pragma once

#include "tokenizer.h"

typedef struct ChatFamily ChatFamily; /* template.c */

typedef struct {
    const ChatFamily *family;
    const char *name;
    char *prompt;     /* the template's own system prompt, owned; "": none */
    const char *date; /* "26 Jul 2024" */
    int end;          /* token that ends an answer; -1: the vocabulary has none */
    bool bos;         /* BOS is added where the format contains it */
    bool opens;       /* the prompt ends with the start of the answer (<think>) */
} ChatTemplate;

/* A turn that has run. */
typedef struct {
    char *user;    /* the user's message */
    int begin;     /* position of the turn's first token */
    Tokens tokens; /* the formatted prompt, then the answer; not owned */
    int answer;    /* index in `tokens` of the answer's first token */
} ChatTurn;

/* The family with this name. If name is NULL, the family of the model's own template, or Llama 2 if the model has no
 * template. NULL: unknown. */
const ChatFamily *chat_family(const Tokenizer *t, const char *name);

const char *chat_family_name(const ChatFamily *f);

/* The names of all families: "llama-2, chatml". */
const char *chat_families(void);

/* Opens the template as one of this family. Changes t: afterwards no text is encoded as a marker of the family, a
 * special piece or (with ranked merges) an added piece. Returns -1 and a message if memory runs out. */
int chat_template_open(ChatTemplate *c, Tokenizer *t, const ChatFamily *family);
void chat_template_close(ChatTemplate *c);

/* Sets *out to the tokens of the last turn (NULL: none) as later turns see it, for example without its thought, and of
 * a new turn up to its answer; *begin is the index of the new turn's first token. `system`: the system prompt; "":
 * none; NULL: the template's own. The caller frees out->ids. Returns -1 and a message on failure. */
int chat_template_render(const ChatTemplate *c, const Tokenizer *t, const char *system, const ChatTurn *last,
                         const char *user, Tokens *out, int *begin);
