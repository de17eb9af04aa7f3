/* profile.h: where a token's time goes, by layer and site. */
#ifndef NORMA_PROFILE_H
#define NORMA_PROFILE_H

#include "base/probe.h"
#include "model.h"

/* A forward pass of more than one token is prefill. */
typedef enum { PREFILL, DECODE, N_PHASES } Phase;

/* The names of phases and sites; the records of norms say what goes in and what comes out. */
extern const char *const PHASE_NAMES[N_PHASES];
extern const struct SiteInfo {
    const char *name;
    bool is_norm;
} SITES[N_SITES];

/* The account of one site in one layer and one phase. */
typedef struct {
    uint64_t calls, tokens;
    double seconds;
    double bytes; /* the least that a site moves: its weights, what it reads and what it writes, each once */
    double squares_in, squares_out; /* norms: sums over the tokens of mean(x^2), of mean(y^2) */
    float max_abs;                  /* norms: the largest |x| */
} Record;

/* One stretch of one thread's time; seconds since the profile was opened. */
typedef struct {
    double start, end;
    int layer; /* or NO_LAYER */
    Site site;
} Event;

enum { MOST_EVENTS = 1 << 20 }; /* of one thread; later ones are not kept */

/* The clock of one thread. */
typedef struct {
    double last; /* when it made its last mark */
    size_t n_events;
} Track;

typedef struct {
    Probe probe; /* first: the hooks cast their Probe to its Profile */
    Session *session;
    int n_layers;
    double opened;
    double began; /* of the forward pass that runs */
    Phase phase;
    int n, pos, n_logits;   /* of its chunk: tokens, first position, logits of the last tokens */
    double total[N_PHASES]; /* seconds of the forward passes as their caller sees them */
    Record *records;        /* [n_threads][N_PHASES][n_layers + 1][N_SITES] */
    Track *tracks;          /* [n_threads] */
    Event *events;          /* [n_threads][MOST_EVENTS]; NULL: none are kept */
} Profile;

/* Observes a session until profile_close, which the caller calls before session_close. `traces`: events
 * are kept. NULL and a message: no memory. */
Profile *profile_open(Session *session, bool traces);
void profile_close(Profile *p);

/* The record of a site in a layer, or NO_LAYER: its times are those of the first thread, what is known of
 * activations comes from all threads. */
Record profile_record(const Profile *p, Phase phase, int layer, Site site);

/* Seconds of the first thread in all sites, or in the norms alone. */
double profile_seconds(const Profile *p, Phase phase, bool norms_only);

/* The path of a profile that goes to no file. It is known by its address, so no user can type it. */
extern const char TABLE_ALONE[];

/* What a profile goes to: TABLE_ALONE, NAME.csv or NAME.json; PROFILE_NONE: no such file is written. */
typedef enum { PROFILE_NONE, PROFILE_TABLE, PROFILE_CSV, PROFILE_TRACE } ProfileFormat;
ProfileFormat profile_format(const char *path);

/* Writes the table to stderr and, where path is not TABLE_ALONE, the file. */
int profile_report(const Profile *p, const char *path);

#endif
