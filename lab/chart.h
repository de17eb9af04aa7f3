/* chart.h: the time of norms and of the rest in each layer, as bars of text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* What a chart shows: microseconds per token, [n_layers] each, at least 0. */
typedef struct {
    int n_layers;
    const double *norms, *rest;
} LayerTimes;

enum { CHART_MIN_COLUMNS = 40, CHART_MAX_COLUMNS = 80 };

enum { CHART_LINES = 6 };

/* Writes bars of the norms, and below them of the rest of the work, each to its
 * own scale, and the numbers of the layers: CHART_LINES lines of at most
 * `columns` columns, or of CHART_MIN_COLUMNS. With more layers than columns a
 * bar is the mean of several. `blocks`: of eighths of a block; else of '#'. */
void write_chart(FILE *out, LayerTimes times, int columns, bool blocks);
