/* pack.h: when weights become panels. */
#pragma once

#include "model.h"

/* Packs weights of a model that is about to run (n_tokens 0), or has just run n_tokens: all of a small model, else a
 * part for each token, so that the first token comes without delay. The pages of the file that were read for it are
 * given back. Weights stay as they are in the file where memory_available() is not enough for all panels, and where the
 * file is sparse. Called when a session opens, and by the modes that generate (generate, chat, bench, norms) between
 * forward passes; perplexity and logits run a larger model's weights as they are in the file. */
void model_pack(Model *m, int n_threads, int n_tokens);
