/* profile.h: where a token's time goes, by layer and site. */
#pragma once

#include "base/clock.h"
#include "base/probe.h"
#include "lab/estimate.h"
#include "lab/machine.h"
#include "model.h"

/* A forward pass in which a sequence takes more than one step is prefill, unless those behind the first are guesses. */
typedef enum { PREFILL, DECODE, N_PHASES } Phase;

/* The names of phases and sites; the records of norms say what goes in and what comes out. */
extern const char *const PHASE_NAMES[N_PHASES];
typedef struct {
    const char *name;
    bool is_norm;
} SiteInfo;
extern const SiteInfo SITES[N_SITES];

/* The account of one site in one layer and one phase. */
typedef struct {
    uint64_t calls, tokens;
    double seconds;  /* without what the observer itself took */
    Ratio per_token; /* of calls: seconds, and tokens of the chunk */
    double waited;   /* seconds behind the site, for threads that had not ended it */
    double bytes;    /* the least that a site moves: its weights, what it reads and what it writes, once */
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
    Phase phase;
    int tokens, position; /* of the chunk */
    float chunk_bytes;    /* of the first thread: what site_bytes leaves out */
    float rms;            /* norms of tokens: what went into the thread's; 0: of none, or no finite number */
} Event;

enum { MOST_EVENTS = 1 << 20 }; /* of one thread; later ones are not kept */

/* The time of one thread; in a cache line of its own. */
typedef struct {
    _Alignas(64) uint64_t began, last; /* when its last mark began, and when it ended */
    double spent, norms;               /* of the forward pass that runs: seconds of observing, of norms */
    size_t n_events;
} Track;

/* Forward passes of a phase. */
typedef struct {
    uint64_t passes, observed; /* how many; how many of them were observed */
    double seconds;            /* of all, as their caller sees them */
    double seconds_observed;   /* of those that were observed */
    Ratio norms;               /* of observed passes: the norms' share of all seconds but the observer's */
} Passes;

typedef struct {
    Probe probe; /* first: the hooks cast their Probe to its Profile */
    Session *session;
    About about;
    int n_layers;
    Clock clock;
    uint64_t opened;
    long switches;    /* how often the process had lost a processor by then */
    uint64_t reading; /* ticks that the clock takes */
    double budget;    /* the share of decode that observing may take */
    uint64_t began;   /* of the forward pass that runs */
    int unobserved;   /* how many forward passes go by until the next is observed */
    Phase phase;
    int n; /* steps of its chunk */
    Passes passes[N_PHASES];
    Record *records;       /* [n_threads][N_PHASES][n_layers + 1][N_SITES] */
    StreamSizes *streams;  /* [n_threads][n_layers], in front of attention */
    Histogram *histograms; /* [N_PHASES][n_layers + 1][N_SITES], of the first thread */
    Track *tracks;         /* [n_threads] */
    Event *events;         /* [n_threads][MOST_EVENTS]; NULL: none are kept */
} Profile;

/* Observes a session until profile_close, which the caller calls before session_close. `traces`: events are kept. The
 * clock is clock_cheapest(), or a virtual one of a test. Forward passes of one token are observed so seldom that it
 * takes about 1 % of their time, or, where new pages for events come on top, 1.5 %. NULL and a message: no memory. */
Profile *profile_open(Session *session, About about, bool traces, Clock clock);
void profile_close(Profile *p);

/* A thread's own record of a site in a layer, or NO_LAYER; without the bytes. */
Record *profile_of_thread(const Profile *p, int thread, Phase phase, int layer, Site site);

/* A site that ran, as it is shown: microseconds and shares, without what observing took. */
typedef struct {
    int next;  /* how many sites profile_next has been at */
    int row;   /* the layer; -1: in front of the layers; n_layers: behind them */
    int layer; /* or NO_LAYER */
    Site site;
    Record record; /* its times are those of the first thread, what is known of activations comes from all threads */
    Estimate us;   /* of a token of the phase, so that sites add up */
    double median, p95;           /* of a call, a token of its chunk */
    double share;                 /* of the time of forward passes; 0: of observing */
    double gb_per_s;              /* 0: not known */
    double rms_in, rms_out, mean; /* norms: RMS of what goes in and comes out, mean of |mean(x)| / RMS(x) */
} SiteRow;

/* The next site that ran in a phase, in the order of the forward pass; the first after {0}. False: there is none. */
bool profile_next(const Profile *p, Phase phase, SiteRow *row);

/* RMS of the residual stream in front of a layer's attention, at the positions of buckets [from, to); 0: no tokens. */
double profile_rms_at(const Profile *p, int layer, int from, int to);

/* Seconds of the first thread in all sites. */
double profile_seconds(const Profile *p, Phase phase);

/* Seconds that observing took of the first thread. */
double profile_observing(const Profile *p, Phase phase);

/* The part of the time of observed forward passes, of all threads, that went into waiting; 0: nothing was observed. */
double profile_waiting(const Profile *p);

/* Bytes that calls of a site move, without those that depend on which tokens there are: the weights of experts, and the
 * keys and values that are attended to. */
double site_bytes(const Profile *p, int layer, Site site, double tokens, double calls);

/* The path of a profile that goes to no file. It is known by its address, so no user can type it. */
extern const char TABLE_ALONE[];

/* What a profile goes to: TABLE_ALONE, NAME.csv, NAME.html or NAME.json; PROFILE_NONE: no such file is written. */
typedef enum { PROFILE_NONE, PROFILE_CSV, PROFILE_PAGE, PROFILE_TRACE, PROFILE_TABLE } ProfileFormat;
ProfileFormat profile_format(const char *path);

/* Writes the table to stderr and, where path is not TABLE_ALONE, the file, whose format is not PROFILE_NONE. `guessed`:
 * how many steps of decoding were guesses, of which so many were right. */
int profile_report(const Profile *p, const char *path, long guessed, long accepted);

/* Write NAME.html (page.c) and NAME.json (trace.c). */
void write_page(const Profile *p, FILE *out);
void write_trace(const Profile *p, FILE *out);
