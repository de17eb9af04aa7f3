/* draft.h: a smaller model that drafts the next tokens of a text (Leviathan et al. 2023). */
#pragma once

#include "lab/tune.h"
#include "model.h"
#include "modes/options.h"
#include "sampler.h"
#include "text/merges.h"
#include "tokenizer.h"

typedef struct {
    Model model;
    Session session; /* of one sequence, which has run: */
    Tokens ran;      /* owned */
    Tuning tuning;
    Sampler sampler;
} Draft;

/* Opens --draft, and checks that it has the vocabulary of `model`, if both have a tokenizer. Returns -1 and a message
 * on failure. The caller closes it in any case. The draft must not move. */
int draft_open(Draft *d, const Options *o, const Model *model, const Tokenizer *tokenizer);
void draft_close(Draft *d);

/* Drafts up to n tokens: those that `sampler`, the text's, would draw from the draft's logits with its next random
 * numbers. Returns their number, limited by the draft's context; -1 and a message on failure. */
int draft_guess(Draft *d, const Tokens *text, const Sampler *sampler, int *tokens, int n);
