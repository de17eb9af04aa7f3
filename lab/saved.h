/* saved.h: a run's times by kind of site, as --profile=FILE.json saves them and
 * --profile-against reads them. */
#pragma once

#include "formats/json.h"
#include "lab/profile.h"

/* Of the file. A file of another version is refused. */
enum { PROFILE_VERSION = 1 };

/* Microseconds per token, and their standard error: from the passes that
 * nothing interrupted or, if there are fewer than MIN_MEASUREMENTS, from all
 * passes; NAN: these are fewer, too. given: it ran. */
typedef struct {
    bool given;
    double us, error;
} Time;

typedef struct {
    double passes; /* that were timed; 0: the phase did not run */
    Time totals[N_TOTALS];
} PhaseTimes;

typedef struct SavedProfile {
    JsonFile json;   /* owned */
    const Json *run; /* its members are of write_about(), and more */
    int layers, dim;
    PhaseTimes phases[N_PHASES];
} SavedProfile;

/* The name of a total: of a kind of site, or "all norms" and the like. */
const char *total_name(int total);

/* The times of a phase of a profile. */
PhaseTimes phase_times(const Profile *p, Phase phase);

/* Reads a file of --profile=FILE.json, of `text` if it is not NULL. `path` must
 * outlive the result. Returns -1 and a message if it is not valid, with nothing
 * to close. */
int saved_open(SavedProfile *saved, const char *path);
int saved_parse(SavedProfile *saved, const char *path, const char *text,
                size_t size);
void saved_close(SavedProfile *saved);

/* Compares two runs: what differs between them, then for each phase that both
 * have the times before and after, and their ratio with a 95 % interval.
 * `all`: of every kind of site, not only norms. Lines have at most 80
 * columns. */
void write_comparison(FILE *out, const SavedProfile *before,
                      const SavedProfile *after, bool all);
