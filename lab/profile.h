/* profile.h: the time of each site in each layer, and the size of activations. */
#pragma once

#include "base/probe.h"
#include "lab/dump.h"
#include "lab/estimate.h"
#include "lab/machine.h"
#include "model.h"

/* A forward pass is decode if each sequence runs one token, possibly followed by draft tokens; else it is prefill. */
typedef enum { PREFILL, DECODE, N_PHASES } Phase;
extern const char *const PHASE_NAMES[N_PHASES];

typedef struct {
    const char *name;
    bool is_norm;
} SiteInfo;
extern const SiteInfo SITES[N_SITES];

/* Totals of one site in one row and one phase. */
typedef struct {
    uint64_t calls, tokens;
    double seconds;                 /* without the profiler and `lost` */
    double lost;                    /* seconds that other programs took */
    double work;                    /* seconds of all threads; of one thread for prefill, and for norms of one token */
    Ratio per_token;                /* of each call: seconds / tokens of the chunk */
    double waited;                  /* seconds at the barrier after the site */
    double squares_in, squares_out; /* norms: sums over tokens of mean(x^2) and of mean(y^2) */
    uint64_t vectors;               /* norms: number of normalized vectors (tokens or heads) */
    double means;                   /* norms: sum over vectors of |mean(x)| / RMS(x) */
    float max_abs;                  /* norms: max |x| */
    int max_channel, max_position;  /* norms: where max_abs occurred */
} Record;

/* Logarithmic buckets: one for each value from 0 to 7, then 8 per power of two. bucket_start: the min value of a
 * bucket. */
enum { BUCKETS = 8 * 39, POSITION_BUCKETS = 8 * 29 };
uint64_t bucket_start(int bucket);

/* Number of calls by duration, in ticks per token. */
typedef uint32_t Histogram[BUCKETS];

/* The residual stream by position: the sum over tokens of mean(x^2), and the number of tokens. */
typedef struct {
    double squares;
    uint64_t tokens;
} StreamSizes[POSITION_BUCKETS];

enum { MAX_LAYERS = 256 }; /* layers from here on share a row, to limit memory */

/* State of one thread, in a separate cache line. */
typedef struct {
    _Alignas(64) uint64_t began, last; /* start and end of the last mark */
    double spent, norms, work;         /* seconds in this forward pass: the profiler, norms, all work */
} Track;

/* Totals of the forward passes of a phase. */
typedef struct {
    uint64_t passes, observed;
    double seconds;       /* wall-clock time of all passes */
    double net;           /* of observed passes, without the profiler */
    double observing;     /* of the profiler, first thread */
    uint64_t interrupted; /* observed passes in which a thread lost its processor */
    Ratio norms;          /* of the other observed passes: seconds of norms / seconds of work */
} Passes;

typedef struct {
    Probe probe; /* first member: hooks cast Probe to Profile */
    Session *session;
    About about;
    int n_rows;              /* rows of layers: one per layer; layers from MAX_LAYERS on share the last row */
    uint64_t (*clock)(void); /* in nanoseconds */
    long switches;           /* involuntary context switches before the current forward pass */
    uint64_t reading;        /* duration of reading the clock, nanoseconds */
    double budget;           /* max time of the profiler, as a share of decode time */
    uint64_t began;          /* start of the current forward pass */
    int unobserved;          /* forward passes until the next observed one */
    Phase phase;
    int n; /* tokens of the current chunk */
    Passes passes[N_PHASES];
    Record *records;       /* [n_threads][N_PHASES][n_rows + 1][N_SITES]; the last row: outside the layers */
    StreamSizes *streams;  /* [n_threads][n_rows], before attention */
    Histogram *histograms; /* [N_PHASES][n_rows + 1][N_SITES], first thread */
    Track *tracks;         /* [n_threads] */
    Dump *dump;            /* --dump, not owned; NULL: off */
} Profile;

/* Starts to observe a session. The caller calls profile_close before session_close. `clock` is nanoseconds(), or a
 * virtual clock in tests. Decode passes are sampled so that the profiler takes at most about 10 % of decode time.
 * Returns NULL and a message if memory runs out. */
Profile *profile_open(Session *session, About about, uint64_t (*clock)(void));
void profile_close(Profile *p);

/* The cost of reading a clock: the mean of 100 consecutive readings, the min of 10 such means. One reading may take
 * less than the clock's resolution (10 ns on some machines). */
uint64_t ticks_of_reading(uint64_t (*clock)(void));

/* One thread's record of a site in the row of a layer, or outside the layers (NO_LAYER). */
Record *profile_of_thread(const Profile *p, int thread, Phase phase, int layer, Site site);

/* A row of the report. Times are those of the first thread; `work` and activation statistics are of all threads. */
typedef struct {
    int next;      /* state of profile_next */
    double work;   /* seconds of the phase's work */
    int row;       /* -1: before the layers; n_rows: after them */
    int layer;     /* the first layer of the row, or NO_LAYER */
    char name[24]; /* "3"; "256-299" for a row of several layers; "" outside the layers */
    Site site;
    Record record;
    Estimate us;                  /* microseconds per token of the phase; sites add up */
    double median, p95;           /* quantiles of calls: microseconds per token of the chunk */
    double share;                 /* share of the phase's work; 0 for sites that are not work */
    double rms_in, rms_out, mean; /* norms: RMS of input and output, mean of |mean(x)| / RMS(x) */
} SiteRow;

/* Advances `row`, initially {0}, to the next site that ran in a phase, in the order of the forward pass. Returns false
 * at the end. */
bool profile_next(const Profile *p, Phase phase, SiteRow *row);

/* RMS of the residual stream before attention, in a row of layers, at the positions of buckets [from, to); 0: no
 * tokens. */
double profile_rms_at(const Profile *p, int row, int from, int to);

/* Seconds of one thread in sites [first, last]. */
double profile_seconds(const Profile *p, int thread, Phase phase, Site first, Site last);

/* Seconds of one phase. work, norms: all threads, in all sites of work (SITE_EMBED to SITE_LOGITS) and in norms; a norm
 * of one token, which every thread computes, counts once. elapsed: norms of the first thread. lost: taken from the
 * first thread by other programs. share: norms / work in the passes without interruption. */
typedef struct {
    double norms, work, elapsed, lost;
    Estimate share;
} Work;
Work profile_work(const Profile *p, Phase phase);

/* How much other programs disturbed a measurement: observed passes, those in which a thread lost its processor, seconds
 * that the first thread lost, seconds that all threads waited at barriers, seconds of all threads in observed passes.
 */
typedef struct {
    uint64_t observed, interrupted;
    double lost, waited, seconds;
} Load;

/* Adds the load during a profile to `sum`, and returns `sum`. */
const Load *profile_add_load(const Profile *p, Load *sum);

/* Writes a load as a sentence without a newline: "busy: ..." if a tenth of the passes was interrupted or threads waited
 * a quarter of the time, else "idle: ...". */
void write_load(FILE *out, const Load *load);

/* The format of the file `path`: NAME.csv or NAME.html; PROFILE_TABLE for "" (no file), PROFILE_NONE for other names.
 */
typedef enum { PROFILE_NONE, PROFILE_CSV, PROFILE_PAGE, PROFILE_TABLE } ProfileFormat;
ProfileFormat profile_format(const char *path);

/* Writes the summary and a table to stderr (a line for each kind of site or, if `layers`, for each layer and site) and,
 * unless `path` is "", the file. Returns -1 and a message if the file cannot be written. */
int profile_report(const Profile *p, const char *path, bool layers);

/* write_row writes a row's fields in the order of COLUMNS, separated by commas, with `quote` around strings.
 * write_numbers writes n numbers. `unknown` replaces numbers that are not finite or do not apply. */
extern const char COLUMNS[];
void write_row(FILE *out, const SiteRow *row, const char *quote, const char *unknown);
void write_numbers(FILE *out, const double *numbers, int n, const char *unknown);

/* Write NAME.csv (csv.c) and NAME.html (page.c). */
void write_csv(const Profile *p, FILE *out);
void write_page(const Profile *p, FILE *out);
