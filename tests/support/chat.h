/* chat.h: the tokens of conversations. */
#pragma once

#include "modes/template.h"
#include "tokenizer.h"

typedef struct {
    const char *user, *answer;
} Exchange;

/* The tokens of n turns up to the last answer (exclusive); each answer is
 * encoded separately. The caller frees all->ids. */
int chat_tokens(const ChatTemplate *c, const Tokenizer *t, const char *system,
                const Exchange *turns, int n, Tokens *all);
