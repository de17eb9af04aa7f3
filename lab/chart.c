/* chart.c: draws the time of norms and of the rest in each layer.
 *
 * A bar is a column of characters. Its height in eighths of a line is its
 * share of the largest bar; what is not 0 is at least one eighth high.
 * Tests: saved.
 */
#include "lab/chart.h"
#include <math.h>

enum {
    LABEL = 17,   /* columns before the bars */
    MAX_WIDTH = 6 /* of a bar, with a space */
};

/* How layers map to columns. */
typedef struct {
    int bars;   /* their number */
    int layers; /* of a bar; the last may have fewer */
    int width;  /* columns of a bar, with the space after it */
} Grid;

static Grid grid_of(int n_layers, int columns) {
    if (columns < CHART_MIN_COLUMNS)
        columns = CHART_MIN_COLUMNS;
    const int room = columns - LABEL;
    Grid grid = {.layers = (n_layers + room - 1) / room};
    grid.bars = (n_layers + grid.layers - 1) / grid.layers;
    grid.width = room / grid.bars;
    if (grid.width > MAX_WIDTH)
        grid.width = MAX_WIDTH;
    return grid;
}

/* The mean of a bar's layers. */
static double height_of(const double *values, int n_layers, Grid grid,
                        int bar) {
    double sum = 0;
    int first = bar * grid.layers, n = 0;
    for (int i = first; i < n_layers && n < grid.layers; i++, n++)
        sum += values[i];
    return sum / n;
}

/* Bars of norms or of the rest. */
typedef struct {
    const char *name;
    const double *values;
    int lines;
} Bars;

/* The height of a bar in steps, of which all lines have `steps`. */
static int steps_of(double value, double max, int steps) {
    if (!(value > 0))
        return 0;
    int height = (int)lround(steps * value / max);
    return height > 0 ? height : 1;
}

/* Writes the bars. No line ends with a space. */
static void write_bars(FILE *out, Bars bars, int n_layers, Grid grid,
                       bool blocks) {
    static const char *const EIGHTHS[] = {"",  "▁", "▂", "▃", "▄",
                                          "▅", "▆", "▇", "█"};
    const int steps = blocks ? 8 : 1; /* in a line */
    const int filled = grid.width > 1 ? grid.width - 1 : 1;
    double max = 0;
    for (int bar = 0; bar < grid.bars; bar++)
        max = fmax(max, height_of(bars.values, n_layers, grid, bar));
    for (int below = bars.lines - 1; below >= 0; below--) {
        int spaces = LABEL;
        if (below == bars.lines - 1)
            spaces -= fprintf(out, "%-5s ", bars.name) +
                      fprintf(out,
                              max < 1e3   ? "%7.3g us"
                              : max < 1e7 ? "%7.0f us"
                                          : "%7.1e us",
                              max);
        for (int bar = 0; bar < grid.bars; bar++) {
            double value = height_of(bars.values, n_layers, grid, bar);
            int part = steps_of(value, max, bars.lines * steps) - below * steps;
            if (part <= 0) {
                spaces += grid.width;
                continue;
            }
            fprintf(out, "%*s", spaces, "");
            for (int i = 0; i < filled; i++)
                fputs(!blocks        ? "#"
                      : part < steps ? EIGHTHS[part]
                                     : EIGHTHS[steps],
                      out);
            spaces = grid.width - filled;
        }
        fputc('\n', out);
    }
}

/* Writes the numbers of layers under their bars, as many as fit. */
static void write_numbers(FILE *out, int n_layers, Grid grid) {
    char digits[16];
    /* the distance of numbers: 1, 2, 5, 10, ... bars, a column apart */
    static const int STEPS[] = {1, 2, 5, 10, 20, 50};
    const int longest = snprintf(digits, sizeof digits, "%d", n_layers - 1);
    int step = 0;
    while (STEPS[step] * grid.width <= longest)
        step++;
    int column =
        fprintf(out, grid.layers > 1 ? "layer, by %d" : "layer", grid.layers);
    for (int bar = 0; bar < grid.bars; bar += STEPS[step]) {
        int n = snprintf(digits, sizeof digits, "%d", bar * grid.layers),
            to = LABEL + bar * grid.width;
        if (bar > 0 && to + n > LABEL + grid.bars * grid.width)
            break;
        fprintf(out, "%*s%s", to - column, "", digits);
        column = to + n;
    }
    fputc('\n', out);
}

void write_chart(FILE *out, LayerTimes times, int columns, bool blocks) {
    const Grid grid = grid_of(times.n_layers, columns);
    write_bars(out, (Bars){"norms", times.norms, 3}, times.n_layers, grid,
               blocks);
    write_bars(out, (Bars){"rest", times.rest, 2}, times.n_layers, grid,
               blocks);
    write_numbers(out, times.n_layers, grid);
}
