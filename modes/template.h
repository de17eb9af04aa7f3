/* template.h: what a turn of chat looks like. */
#ifndef NORMA_TEMPLATE_H
#define NORMA_TEMPLATE_H

#include "tokenizer.h"

typedef struct ChatFamily ChatFamily; /* llama-2, minimind, chatml, zephyr or llama-3: template.c */

typedef struct {
    const ChatFamily *family;
    const char *name;
    int end;  /* token that ends an answer; -1: the vocabulary has none */
    bool bos; /* whether BOS is put where the format has it */
} ChatTemplate;

/* Recognises the template that came with the tokenizer. False: it is of no
 * known family; then, and where there is none, it is Llama 2's. From here on
 * no text of t becomes one of the family's markers, user-defined or not, nor a
 * special piece, nor one that was added to a vocabulary with ranked merges. */
bool chat_template_open(ChatTemplate *c, Tokenizer *t);

/* The tokens of one turn up to where the answer begins: what closes the last
 * answer (unless it is the first turn), the system prompt (in the first turn;
 * NULL or empty: none), what the user says. The caller frees ids. */
int chat_template_render(const ChatTemplate *c, const Tokenizer *t, const char *system, const char *user, bool first,
                         Tokens *out);

#endif
