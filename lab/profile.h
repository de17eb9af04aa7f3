/* profile.h: where a token's time goes, by layer and site.
 */
#ifndef NORMA_PROFILE_H
#define NORMA_PROFILE_H

#include "model.h"

#include <stdbool.h>

/* A call of model_forward with more than one token is prefill. */
typedef enum { PREFILL, DECODE, N_PHASES } Phase;

typedef struct Profile Profile;

/* Observes a session from here on until it is closed, before the session is. With `traces`,
 * every stretch of time is kept, not only the sums. NULL on failure. */
Profile *profile_open(Session *session, bool traces);
void profile_close(Profile *p);

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
