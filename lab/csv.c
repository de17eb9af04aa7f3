/* csv.c: writes a profile as a CSV file. page.c writes the same rows. */
#include "lab/profile.h"
#include <math.h>

const char COLUMNS[] = "layer,site,calls,tokens,seconds,us_per_token,us_low,us_high,us_median,us_95,share,waited,"
                       "rms_in,rms_out,mean_over_rms,max_abs,max_channel,max_position";

void write_numbers(FILE *out, const double *numbers, int n, const char *unknown) {
    for (int i = 0; i < n; i++) {
        if (i) fputc(',', out);
        if (isfinite(numbers[i]))
            fprintf(out, "%.10g", numbers[i]);
        else
            fputs(unknown, out);
    }
}

void write_row(FILE *out, const SiteRow *row, const char *quote, const char *unknown) {
    const Record *r = &row->record;
    const double times[] = {(double)r->calls, (double)r->tokens, r->seconds, row->us.value, row->us.low,
                            row->us.high,     row->median,       row->p95,   row->share,    r->waited};
    const double sizes[] = {row->rms_in, row->rms_out, row->mean, r->max_abs, r->max_channel, r->max_position};
    const double none[] = {NAN, NAN, NAN, NAN, NAN, NAN};
    fprintf(out, "%s%s%s,%s%s%s,", quote, row->name, quote, quote, SITES[row->site].name, quote);
    write_numbers(out, times, sizeof times / sizeof *times, unknown);
    fputc(',', out);
    write_numbers(out, SITES[row->site].is_norm ? sizes : none, sizeof sizes / sizeof *sizes, unknown);
}

void write_csv(const Profile *p, FILE *out) {
    fputs("# {", out);
    write_about(out, &p->about);
    for (Phase phase = 0; phase < N_PHASES; phase++) {
        const Estimate norms = profile_work(p, phase).share;
        fprintf(out, ", \"%s_norms\": [", PHASE_NAMES[phase]);
        write_numbers(out, (const double[]){norms.value, norms.low, norms.high}, 3, "null");
        fputc(']', out);
    }
    fputs(", \"load\": \"", out);
    write_load(out, profile_add_load(p, &(Load){0}));
    fprintf(out, "\"}\nphase,%s\n", COLUMNS);
    for (Phase phase = 0; phase < N_PHASES; phase++)
        for (SiteRow row = {0}; profile_next(p, phase, &row);) {
            fprintf(out, "%s,", PHASE_NAMES[phase]);
            write_row(out, &row, "", "");
            fputc('\n', out);
        }
}
