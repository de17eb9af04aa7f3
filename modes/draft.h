/* draft.h: a smaller model that guesses what the model says next (Leviathan et al. 2023). */
#pragma once

#include "lab/tune.h"
#include "model.h"
#include "modes/guess.h"
#include "modes/options.h"
#include "sampler.h"
#include "tokenizer.h"

typedef struct {
    Source source; /* first: its guess() casts it to the Draft */
    Model model;
    Session session; /* one sequence: the text, as far as it has run, and the guesses behind it */
    Tuning tuning;
    Sampler sampler;
    const Sampler *original; /* the model's, not owned */
} Draft;

/* Opens --draft, and checks that its vocabulary is the one of `model`, as far as both have a tokenizer. Its guesses are
 * what `original` would draw from its logits with the next random numbers. The caller closes it, also after a failure
 * (-1 and a message). The draft must not move. */
int draft_open(Draft *d, const Options *o, const Model *model, const Tokenizer *tokenizer, const Sampler *original);
void draft_close(Draft *d);
