/* profile.h: the time of each site in each layer, and the size of
 * activations. */
#pragma once

#include "base/probe.h"
#include "lab/dump.h"
#include "lab/estimate.h"
#include "lab/machine.h"
#include "session.h"

/* A forward pass is decode if each sequence runs one token, possibly followed
 * by draft tokens; else it is prefill. */
typedef enum { PREFILL, DECODE, N_PHASES } Phase;
extern const char *const PHASE_NAMES[N_PHASES];

typedef struct {
    const char *name;
    bool is_norm;
} SiteInfo;
extern const SiteInfo SITES[N_SITES];

/* The sites that count as work: all but waiting, starting and ending threads,
 * the exchange between ranks, and the profiler. */
bool site_is_work(Site site);

/* Sums over the layers: each kind of site, all norms, all other work, all work,
 * everything but the profiler. */
enum { TOTAL_NORMS = N_SITES, TOTAL_OTHERS, TOTAL_WORK, TOTAL_TIME, N_TOTALS };

/* Totals of one site in one layer and one phase. Counts are exact up to
 * 2^53. */
typedef struct {
    double calls, tokens;
    double seconds; /* without the profiler */
    /* norms: sums over vectors of mean(x^2) and of mean(y^2) */
    double squares_in, squares_out;
    double vectors; /* norms: number of normalized vectors (tokens or heads) */
    /* the part of squares_in and of vectors that is at position 0, whose
     * elements may be a thousand times the others' */
    double squares_first, vectors_first;
    double means;  /* norms: sum over vectors of |mean(x)| / RMS(x) */
    float max_abs; /* norms: max |x| */
    int max_channel, max_position; /* norms: where max_abs occurred */
    /* norms, samples: every eighth vector of the first thread, from the second
     * on, in other layers from the third, fourth or fifth, so that no pass has
     * all; sum of |gamma mean(x)| / |gamma x|, and their number */
    double gamma_means, samples;
} Record;

/* Logarithmic buckets: one for each value from 0 to 7, then 8 per power of
 * two. */
enum { BUCKETS = 8 * 39 };

/* Number of calls by duration, in ticks per token that the site processed. */
typedef uint32_t Histogram[BUCKETS];

/* The residual stream at some positions: the sum over tokens of mean(x^2), and
 * the number of tokens. */
typedef struct {
    double squares, tokens;
} StreamSize;

/* State of one thread, in separate cache lines. */
typedef struct {
    _Alignas(64) uint64_t last; /* end of the last mark */
    bool ran;                   /* in this forward pass */
    double seconds[N_SITES];    /* of this forward pass */
} Track;

/* Totals of the forward passes of a phase. */
typedef struct {
    /* passes that were timed; those in which a thread lost its processor; all,
     * timed or not */
    double passes, interrupted, all;
    double seconds; /* wall-clock time without the profiler */
    /* of the other passes, means over the threads: seconds of norms / seconds
     * of work; seconds of each total / tokens */
    Ratio norms, totals[N_TOTALS];
    Ratio all_totals[N_TOTALS]; /* of all passes */
} Passes;

typedef struct {
    Probe probe; /* first member: hooks cast Probe to Profile */
    Session *session;
    About about;
    uint64_t reading; /* duration of reading the clock, nanoseconds */
    uint64_t began;   /* start of the current forward pass */
    long switches;    /* involuntary context switches before it */
    Phase phase;
    /* If timing a decode pass takes a larger share of it, some are not timed:
     * so many of the next ones; this one. Nor is the first, whose weights and
     * code are in no cache: it would count too much beside a few others. */
    double budget;
    int left;
    bool untimed;
    Passes passes[N_PHASES];
    /* (1 + n_layers + 1) * N_SITES: sites before the layers, of each layer,
     * after them */
    int n_places;
    Record *records; /* [n_threads][N_PHASES][n_places] */
    /* [N_PHASES][n_places], first thread: calls; then the elements of samples,
     * by 1e6 |x| */
    Histogram *histograms;
    /* [n_layers], before attention, by position */
    StreamSize (*streams)[BUCKETS];
    Track *tracks; /* [n_threads] */
    Dump *dump;    /* --dump, not owned; NULL: off */
} Profile;

enum { PROFILE_MAX_LAYERS = 256 }; /* limits memory */

/* Starts to observe a session. The caller calls profile_close before
 * session_close. Returns NULL and a message if memory runs out or the model has
 * too many layers. */
Profile *profile_open(Session *session, About about);
void profile_close(Profile *p);

/* The cost of reading the clock: the mean of 100 consecutive readings, the min
 * of 10 such means. One reading may take less than the clock's resolution (10
 * ns on some machines). */
uint64_t ticks_of_reading(void);

/* One thread's record of a site in a layer, or outside the layers
 * (NO_LAYER). */
Record *profile_of_thread(const Profile *p, int thread, Phase phase, int layer,
                          Site site);

/* A row of the report. Times are means over the threads, without `lost`; for
 * prompts, whose tokens the threads share equally, and for norms those of the
 * first thread. Quantiles are the first thread's; activation statistics are of
 * all threads. */
typedef struct {
    int layer; /* or NO_LAYER */
    Site site;
    Record record;
    double lost; /* sites of work: seconds that other programs took */
    double us;   /* microseconds per token of the phase; sites add up */
    /* quantiles of calls: microseconds per token that the site processed */
    double median, p95;
    double rms_in, rms_out,
        mean; /* norms: RMS of input and output, mean of |mean(x)| / RMS(x) */
    /* norms: RMS of the input at position 0, and at all later positions; nan:
     * no such vector */
    double rms_first, rms_later;
    /* norms, of the samples: quantiles of |x|, mean of
     * |gamma mean(x)| / |gamma x| */
    double median_x, p99_x, gamma_mean;
} SiteRow;

/* The row of a place below n_places; these are in the order of the forward
 * pass. A site that did not run has no calls, and the row no statistics. */
SiteRow profile_row(const Profile *p, Phase phase, int place);

/* Seconds of one thread in norms, at barriers, and in other sites, without the
 * profiler. */
typedef struct {
    double norms, waiting, others;
} ThreadTime;
ThreadTime profile_thread(const Profile *p, int thread, Phase phase);

/* The norms of one phase, and all sites of work, in microseconds per token:
 * sums of the rows. lost: seconds that other programs took from the first
 * thread. share: norms / work, with the interval of the passes without
 * interruption. of_time: the norms as a share of the elapsed time. */
typedef struct {
    double norms, work, lost;
    Estimate share;
    double of_time;
} Work;
Work profile_work(const Profile *p, Phase phase);

/* The share of the phase's work that a row is; 0 if it is not work. */
double site_share(const SiteRow *row, const Work *work);

/* How much other programs disturbed a measurement: passes, those in which a
 * thread lost its processor, seconds that the first thread lost, seconds that
 * all threads waited at barriers, seconds of all threads. */
typedef struct {
    double passes, interrupted, lost, waited, seconds;
} Load;

/* Adds the load during a profile to `sum`, and returns `sum`. */
const Load *profile_add_load(const Profile *p, Load *sum);

/* Writes a load as a sentence without a newline: "busy: ..." if a tenth of the
 * passes was interrupted or threads waited a quarter of the time, else "idle:
 * ...". */
void write_load(FILE *out, const Load *load);

/* The same in lines of at most `columns` columns, with a newline. */
void write_load_wrapped(FILE *out, const Load *load, int columns);

/* Whether profile_report() can write the file `path`: NAME.csv, NAME.html,
 * NAME.json or "" (no file). */
bool profile_format(const char *path);

typedef struct SavedProfile SavedProfile; /* saved.h */

/* path: of the file, "" = none. before: a saved run to compare with, or NULL.
 * tables: also of every kind of site, and of every layer and site. */
typedef struct {
    const char *path;
    const SavedProfile *before;
    bool tables;
} ProfileReport;

/* Writes the summary to stderr, with a chart or a comparison, and the file.
 * Returns -1 and a message if the file cannot be written, or memory runs
 * out. */
int profile_report(const Profile *p, ProfileReport how);

/* Write the file NAME.csv; NAME.html, which contains the former; NAME.json. */
void write_csv(const Profile *p, FILE *out);
void write_page(const Profile *p, FILE *out);
void write_profile_json(const Profile *p, FILE *out);
