/* share.h: how ranks share a model (base/ranks.h). */
#pragma once

#include "model.h"

/* Restricts every weight to this rank's rows: whole KV heads with their queries; for other weights whole panels, if
 * there are enough. The routers are not divided, nor is the embedding, of which a token reads one row. Returns -1 and a
 * message if there are more ranks than rows. Does nothing if there is one rank. */
int model_share(Model *m);

/* A hash of the model's dimensions, of its files' sizes and of their headers. */
uint64_t model_hash(const Model *m);

/* Hashes of the program itself, and of bytes: the same on all machines. */
uint64_t program_hash(void);
uint64_t same_hash(const void *bytes, size_t n);
