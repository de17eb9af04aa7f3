/* saved.c: reads a file of --profile=FILE.json, and compares two runs.
 *
 * The file is untrusted: every member that is used is checked. The times of
 * single layers are for other programs and not read.
 * Tests: saved, profile.
 */
#include "lab/saved.h"
#include "base/error.h"
#include "base/file.h"
#include "formats/map.h"
#include "lab/estimate.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const SUM_NAMES[] = {
    [TOTAL_NORMS - N_SITES] = "all norms",
    [TOTAL_OTHERS - N_SITES] = "other work",
    [TOTAL_WORK - N_SITES] = "all work",
    [TOTAL_TIME - N_SITES] = "time of a token",
};

const char *total_name(int total) {
    return total < N_SITES ? SITES[total].name : SUM_NAMES[total - N_SITES];
}

PhaseTimes phase_times(const Profile *p, Phase phase) {
    const Passes *passes = &p->passes[phase];
    PhaseTimes times = {.passes = passes->passes};
    for (int place = 0; place < p->n_places; place++) {
        SiteRow row = profile_row(p, phase, place);
        if (row.record.calls == 0)
            continue;
        int sum = SITES[row.site].is_norm ? TOTAL_NORMS : TOTAL_OTHERS;
        times.totals[row.site].given = true;
        times.totals[row.site].us += row.us;
        if (site_is_work(row.site)) {
            times.totals[sum].us += row.us;
            times.totals[TOTAL_WORK].us += row.us;
        }
        if (row.site != SITE_PROFILE)
            times.totals[TOTAL_TIME].us += row.us;
    }
    for (int total = 0; total < N_TOTALS; total++) {
        Time *time = &times.totals[total];
        /* on a busy machine all passes, which vary more */
        const Ratio *quiet = &passes->totals[total],
                    *of = quiet->n >= MIN_MEASUREMENTS
                              ? quiet
                              : &passes->all_totals[total];
        Estimate e = estimate_ratio(of);
        bool enough = of->n >= MIN_MEASUREMENTS && total != SITE_PROFILE;
        time->given |= total >= N_SITES && passes->passes > 0;
        time->error = enough ? 1e6 * (e.high - e.value) / 1.96 : NAN;
    }
    return times;
}

/* ---- reading ------------------------------------------------------------ */

/* Reads {"of": "qkv", "us_per_token": 7.7, "error": 0.1}. */
static int read_total(SavedProfile *saved, Phase phase, const Json *object) {
    const char *path = saved->json.path;
    const Json *of = json_get(object, "of"),
               *us = json_get(object, "us_per_token"),
               *error = json_get(object, "error");
    int total = 0;
    while (total < N_TOTALS && !json_is(of, total_name(total)))
        total++;
    if (total == N_TOTALS)
        return fail("%s: totals of %s: of is '%.40s', expected a kind of site",
                    path, PHASE_NAMES[phase], json_shown(of));
    Time *time = &saved->phases[phase].totals[total];
    if (time->given)
        return fail("%s: totals of %s: '%s' is there twice", path,
                    PHASE_NAMES[phase], total_name(total));
    *time = (Time){.given = true, .error = NAN};
    if (!json_real(us, &time->us) || time->us < 0)
        return fail(
            "%s: %s of %s: us_per_token is '%.40s', expected a number from 0 up",
            path, total_name(total), PHASE_NAMES[phase], json_shown(us));
    if (!json_null(error) &&
        (!json_real(error, &time->error) || time->error < 0))
        return fail(
            "%s: %s of %s: error is '%.40s', expected a number from 0 up, or null",
            path, total_name(total), PHASE_NAMES[phase], json_shown(error));
    return 0;
}

static int read_phase(SavedProfile *saved, const Json *object) {
    const char *path = saved->json.path;
    const Json *name = json_get(object, "name"),
               *passes = json_get(object, "passes"),
               *totals = json_get(object, "totals");
    Phase phase = 0;
    while (phase < N_PHASES && !json_is(name, PHASE_NAMES[phase]))
        phase++;
    if (phase == N_PHASES)
        return fail("%s: a phase is called '%.40s', expected decode or prefill",
                    path, json_shown(name));
    PhaseTimes *times = &saved->phases[phase];
    if (times->passes > 0)
        return fail("%s: the phase %s is there twice", path,
                    PHASE_NAMES[phase]);
    if (!json_real(passes, &times->passes) || times->passes < 1)
        return fail("%s: passes of %s is '%.40s', expected a number from 1 up",
                    path, PHASE_NAMES[phase], json_shown(passes));
    JSON_EACH(total, totals, JSON_ARRAY)
        if (read_total(saved, phase, total))
            return -1;
    for (int total = N_SITES; total < N_TOTALS; total++)
        if (!times->totals[total].given)
            return fail("%s: totals of %s lack '%s'", path, PHASE_NAMES[phase],
                        total_name(total));
    return 0;
}

/* Reads a size of the model. */
static int read_size(const SavedProfile *saved, const char *key, int *size) {
    int64_t number;
    const Json *value = json_get(saved->run, key);
    if (!json_integer(value, &number) || number < 1 || number > INT32_MAX)
        return fail("%s: %s is '%.40s', expected a whole number from 1 up",
                    saved->json.path, key, json_shown(value));
    *size = (int)number;
    return 0;
}

static int read_all(SavedProfile *saved) {
    const char *path = saved->json.path;
    const Json *root = saved->json.values, *version = json_get(root, "profile");
    int64_t number;
    if (!json_integer(version, &number))
        return fail("%s: is not a file that --profile=FILE.json writes", path);
    if (number != PROFILE_VERSION)
        return fail(
            "%s: is a profile of version %.20s, expected %d; measure again",
            path, json_shown(version), PROFILE_VERSION);
    saved->run = json_get(root, "run");
    if (read_size(saved, "layers", &saved->layers) ||
        read_size(saved, "dim", &saved->dim))
        return -1;
    const Json *phases = json_get(root, "phases");
    JSON_EACH(phase, phases, JSON_ARRAY)
        if (read_phase(saved, phase))
            return -1;
    for (Phase phase = 0; phase < N_PHASES; phase++)
        if (saved->phases[phase].passes > 0)
            return 0;
    return fail("%s: has no phases; the run was too short", path);
}

/* Reads what json_parse() has read, if `status` is 0. */
static int read_json(SavedProfile *saved, int status) {
    if (status)
        return -1;
    if (!read_all(saved))
        return 0;
    saved_close(saved);
    return -1;
}

int saved_open(SavedProfile *saved, const char *path) {
    enum { MAX_BYTES = 1 << 26 }; /* of PROFILE_MAX_LAYERS: some 6 MB */
    File file;
    *saved = (SavedProfile){0};
    if (map_model_file(&file, path))
        return -1;
    int status = file.size > MAX_BYTES
                     ? fail("%s: %zu bytes, expected at most %d", path,
                            file.size, MAX_BYTES)
                     : json_parse(&saved->json, path, file.data, file.size);
    file_unmap(&file);
    return read_json(saved, status);
}

int saved_parse(SavedProfile *saved, const char *path, const char *text,
                size_t size) {
    *saved = (SavedProfile){0};
    return read_json(saved, json_parse(&saved->json, path, text, size));
}

void saved_close(SavedProfile *saved) {
    json_close(&saved->json);
    *saved = (SavedProfile){0};
}
