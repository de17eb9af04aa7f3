/* profile.h: where a token's time goes, by layer and site. */
#ifndef NORMA_PROFILE_H
#define NORMA_PROFILE_H

#include "base/clock.h"
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
    double seconds; /* without what the observer itself took */
    double waited;  /* seconds behind the site, for threads that had not ended it */
    double bytes;   /* the least that a site moves: its weights, what it reads and what it writes, once */
    double squares_in, squares_out; /* norms: sums over the tokens of mean(x^2), of mean(y^2) */
    uint64_t vectors;               /* norms: what was normalized: tokens, or their heads */
    double means;                   /* norms: sum over the vectors of |mean(x)| / RMS(x) */
    float max_abs;                  /* norms: the largest |x|, */
    int max_channel, max_position;  /* and where it was */
} Record;

/* Buckets for whole numbers: each of 0 to 7 has its own, later ones are an eighth of their power of two wide. */
enum { BUCKETS = 8 * 39, POSITION_BUCKETS = 8 * 29 };
uint64_t bucket_start(int bucket);

/* How long calls of a site took, in ticks a token. */
typedef uint32_t Histogram[BUCKETS];

/* The residual stream at positions: the sum over tokens of mean(x^2), and of how many. */
typedef struct {
    double squares;
    uint64_t tokens;
} StreamSizes[POSITION_BUCKETS];

/* One stretch of one thread's time; in ticks of the profile's clock. */
typedef struct {
    uint64_t start, end;
    int layer; /* or NO_LAYER */
    Site site;
} Event;

enum { MOST_EVENTS = 1 << 20 }; /* of one thread; later ones are not kept */

/* The time of one thread; in a cache line of its own. */
typedef struct {
    uint64_t last;       /* when it made its last mark */
    double spent, norms; /* of the forward pass that runs: seconds of observing, of norms */
    size_t n_events;
    char line[32];
} Track;
_Static_assert(sizeof(Track) == 64, "a cache line");

/* Forward passes of a phase. */
typedef struct {
    uint64_t passes, observed; /* how many; how many of them were observed */
    double seconds;            /* of all, as their caller sees them */
    double seconds_observed;   /* of those that were observed */
    double attended;           /* positions that were attended to, summed over the chunks */
    double own, norms;         /* observed passes: sums over them of time without the observer's, of that of norms, */
    double own2, own_norms, norms2; /* and of squares and products */
} Passes;

/* What is observed, for whoever reads the files: a model and, or NULL, what --norm says. */
typedef struct {
    const char *model, *norms;
} About;

typedef struct {
    Probe probe; /* first: the hooks cast their Probe to its Profile */
    Session *session;
    About about;
    int n_layers;
    Clock clock;
    uint64_t opened;
    uint64_t cost;  /* ticks that a mark takes */
    double budget;  /* the share of decode that observing may take */
    uint64_t began; /* of the forward pass that runs */
    int unobserved; /* how many forward passes go by until the next is observed */
    Phase phase;
    int n, pos, n_logits; /* of its chunk: tokens, first position, logits of the last tokens */
    Passes passes[N_PHASES];
    Record *records;       /* [n_threads][N_PHASES][n_layers + 1][N_SITES] */
    StreamSizes *streams;  /* [n_threads][n_layers], in front of attention */
    Histogram *histograms; /* [N_PHASES][n_layers + 1][N_SITES], of the first thread */
    Track *tracks;         /* [n_threads] */
    Event *events;         /* [n_threads][MOST_EVENTS]; NULL: none are kept */
} Profile;

/* Observes a session until profile_close, which the caller calls before session_close. `traces`: events are kept. The
 * clock is clock_cheapest(), or a virtual one of a test. Forward passes of one token are observed so seldom that it
 * takes about 1 % of their time, or 3 % with events. NULL and a message: no memory. */
Profile *profile_open(Session *session, About about, bool traces, Clock clock);
void profile_close(Profile *p);

/* A thread's own record of a site in a layer, or NO_LAYER; without the bytes. */
Record *profile_of_thread(const Profile *p, int thread, Phase phase, int layer, Site site);

/* The record of a site in a layer, or NO_LAYER: its times are those of the first thread, what is known of
 * activations comes from all threads. */
Record profile_record(const Profile *p, Phase phase, int layer, Site site);

/* Seconds of a call, a token, that the q-th part of the calls did not exceed: q = 0.5 is the median. */
double profile_quantile(const Profile *p, Phase phase, int layer, Site site, double q);

/* RMS of the residual stream in front of a layer's attention, over the positions of a bucket; 0: no token was there. */
double profile_rms_at(const Profile *p, int layer, int bucket);

/* Seconds of the first thread in all sites, or in the norms alone. */
double profile_seconds(const Profile *p, Phase phase, bool norms_only);

/* The norms' share of the time of the forward passes, without what observing took, in [low, high] with 95 %
 * confidence (of one pass alone: in [0, 1]). */
typedef struct {
    double share, low, high;
} NormShare;
NormShare profile_norm_share(const Profile *p, Phase phase);

/* The path of a profile that goes to no file. It is known by its address, so no user can type it. */
extern const char TABLE_ALONE[];

/* What a profile goes to: TABLE_ALONE, NAME.csv, NAME.html or NAME.json; PROFILE_NONE: no such file is written. */
typedef enum { PROFILE_NONE, PROFILE_TABLE, PROFILE_CSV, PROFILE_PAGE, PROFILE_TRACE } ProfileFormat;
ProfileFormat profile_format(const char *path);

/* Writes the table to stderr and, where path is not TABLE_ALONE, the file. */
int profile_report(const Profile *p, const char *path);

/* Writes the page of NAME.html (page.c). */
void write_page(const Profile *p, FILE *out);

#endif
