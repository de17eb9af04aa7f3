/* report.h: a profile, shown. */
#ifndef NORMA_REPORT_H
#define NORMA_REPORT_H

#include "lab/profile.h"

/* What a profile goes to beside the table, by the name of its file: NULL to nothing else, NAME.csv,
 * NAME.json; PROFILE_NONE: no such file is written. */
typedef enum { PROFILE_NONE, PROFILE_TABLE, PROFILE_CSV, PROFILE_TRACE } ProfileFormat;
ProfileFormat profile_format(const char *path);

/* Writes the table to stderr and, with a path that has a format, the file. */
int profile_report(const Profile *p, const char *path);

#endif
