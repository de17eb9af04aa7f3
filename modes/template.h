/* template.h: what a turn of chat looks like. */
#pragma once

#include "tokenizer.h"

typedef struct ChatFamily ChatFamily; /* template.c */

typedef struct {
    const ChatFamily *family;
    const char *name;
    char *prompt;     /* the template's own system prompt, owned; "": none */
    const char *date; /* "26 Jul 2024" */
    int end;          /* token that ends an answer; -1: the vocabulary has none */
    bool bos;         /* whether BOS is put where the format has it */
    bool opens;       /* whether the format itself begins the answer, with <think> */
} ChatTemplate;

/* A turn that has run. */
typedef struct {
    char *user;    /* what the user said */
    int begin;     /* position of its first token */
    Tokens tokens; /* of the format, then from tokens[answer] on of the answer; not owned */
    int answer;
} ChatTurn;

/* The family of this name or, without one, of the template that came with the tokenizer; Llama 2's, where there is
 * none. NULL: no known one. */
const ChatFamily *chat_family(const Tokenizer *t, const char *name);

/* The name of a family. */
const char *chat_family_name(const ChatFamily *f);

/* The names of all families: "llama-2, chatml". */
const char *chat_families(void);

/* Opens the template as one of this family. From here on no text of t becomes one of the family's markers,
 * user-defined or not, nor a special piece, nor one that was added to a vocabulary with ranked merges. */
int chat_template_open(ChatTemplate *c, Tokenizer *t, const ChatFamily *family);
void chat_template_close(ChatTemplate *c);

/* The tokens of the last turn, as it looks now that it has an answer (without its thought, say), and behind them, from
 * (*out)[*begin] on, those of a new turn, up to where its answer begins. `last` NULL: there was none. `system`: the
 * system prompt; "": none; NULL: the template's own. The caller frees ids. */
int chat_template_render(const ChatTemplate *c, const Tokenizer *t, const char *system, const ChatTurn *last,
                         const char *user, Tokens *out, int *begin);
