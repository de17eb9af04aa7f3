/* profile.h: where a token's time goes, by layer and site.
 */
#ifndef NORMA_PROFILE_H
#define NORMA_PROFILE_H

#include "base/probe.h"
#include "model.h"

#include <stdbool.h>

/* A call of model_forward with more than one token is prefill. */
typedef enum { PREFILL, DECODE, N_PHASES } Phase;

/* With `traces`, every stretch of time is kept, not only the sums. The caller
 * puts it into a session of this model and closes it; NULL on failure. */
Profile *profile_open(const Model *model, int n_threads, bool traces);
void profile_close(Profile *p);

/* What the forward pass says, where p or s->profile is not NULL: that it begins
 * with n tokens and ends, what the next chunk is, and, from every thread, that
 * `site` has ended (layer NULL: outside the layers). A norm also shows what
 * went in, x[n][dim], and came out, y[n][dim]. */
void profile_begin(Profile *p, int n);
void profile_chunk(Profile *p, int n, int pos, int n_logits);
void profile_mark(const Session *s, const Layer *layer, Site site);

/* A part of `site` has ended; the site goes on, perhaps after another one. */
void profile_part(const Session *s, const Layer *layer, Site site);

/* One of the vectors x[dim] that go into a norm, or have come `out`; all of a
 * token's are `width` elements. Any thread may show it, once. */
void profile_vector(const Session *s, const Layer *layer, Site site, bool out, const float *x, int dim, int width);
void profile_norm(const Session *s, const Layer *layer, Site site, const float *x, const float *y, int n);
void profile_end(Profile *p);

/* Seconds: of the forward passes as their caller sees them; of their parts as
 * the first thread saw them, or of the norms among these. */
double profile_total(const Profile *p, Phase phase);
double profile_parts(const Profile *p, Phase phase, bool norms_only);

/* Where a path goes: NULL to the table alone, .csv, .json; PROFILE_NONE: nowhere. */
typedef enum { PROFILE_NONE, PROFILE_TABLE, PROFILE_CSV, PROFILE_TRACE } ProfileFormat;
ProfileFormat profile_format(const char *path);

/* The table to stderr and, with a path, the file. */
int profile_report(const Profile *p, const char *path);

#endif
