/* share.h: how ranks share a model (base/ranks.h). */
#pragma once

#include "session.h"

/* Restricts every weight to this rank's rows: whole KV heads with their
 * queries; for other weights whole panels, if there are enough. The routers are
 * not divided, nor is the embedding, of which a token reads one row. Returns -1
 * and a message if there are more ranks than rows. Does nothing if there is one
 * rank. */
int model_share(Model *m);

/* A hash of the model's dimensions, of its files' sizes and of their
 * headers. */
uint64_t model_hash(const Model *m);

/* Checks that all ranks are ready (`status` 0) and will compute the same bits:
 * they have the same program, model, processor, options of the session and
 * --norm (NULL: not given). Returns 0 or the exit status. */
int model_agree(int status, const Session *s, const char *norms);
