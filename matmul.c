/* matmul.c: linear layers, y = x w^T, for every weight type.
 *
 * Owns the loops around the dot products of simd.h: tiles of a few rows by a
 * few tokens, so that several sums are in flight and every load is used more
 * than once. It does not own the layouts (quant.c) or the threads: callers
 * are inside a parallel region, and its worksharing loops share there.
 *
 * The one rule: each output has one accumulator, which walks along cols from
 * 0 up and is then summed over its lanes in a fixed tree. Tiles change which
 * outputs are computed side by side, never how one is computed. That is why
 * the result does not depend, to the last bit, on chunks and threads.
 */
#include "model.h"
#include "simd.h"

#include <omp.h>
#include <stdlib.h>

enum {
    DECODE_ROWS = 8,                  /* rows in flight for one token */
    TILE_ROWS = 4,                    /* rows and tokens in flight for many: */
    F32_TOKENS = LANES == 16 ? 6 : 3, /* as many as the registers hold */
    I8_TOKENS = LANES == 16 ? 4 : 2,
    MAX_TOKENS = 6,
    ROWS_PER_TASK = 32
};

/* ---- one step along cols: a vector of weights, a vector of activations ----- */

typedef struct {
    vf f;     /* TYPE_F32 */
    vb bytes; /* TYPE_I8 */
    vf scale;
} WStep;

typedef struct {
    vf f;
    XBytes bytes;
    vf scale;
} XStep;

/* What the steps of one product have in common. */
typedef struct {
    Type type;
    int cols;
    int width;       /* cols in a step */
    int groups;      /* TYPE_I8: scales in a step (1: a group is a step or longer) */
    int group_shift; /* TYPE_I8: log2(group) */
    size_t scales_per_row;
} Shape;

INLINE Shape shape_of(const Tensor *w, Type type) {
    Shape s = {.type = type, .cols = w->cols, .width = LANES};
    if (type == TYPE_I8) { /* a power of two, at least 4: see matmul_rows */
        s.width = VBYTES;
        s.groups = w->group < VBYTES ? VBYTES / w->group : 1;
        s.group_shift = __builtin_ctz((unsigned)w->group);
        s.scales_per_row = (size_t)w->cols >> s.group_shift;
    }
    return s;
}

/* Scales that belong to the n cols of a step. */
INLINE int n_scales(const Shape *s, int n) { return s->groups == 1 ? 1 : (n * s->groups + s->width - 1) / s->width; }

/* Weights [row][c .. c + n), n <= width. */
INLINE WStep load_w(const Shape *s, const Tensor *w, size_t row, int c, int n) {
    WStep step = {0};
    size_t at = row * (size_t)s->cols + (size_t)c;
    if (s->type == TYPE_F32) {
        const float *p = (const float *)w->data + at;
        step.f = n == LANES ? vload(p) : vload_n(p, n);
    } else {
        size_t scale = row * s->scales_per_row + (size_t)(c >> s->group_shift);
        step.bytes = vw_i8(vload_i8((const int8_t *)w->data + at, n));
        step.scale = vspread((const char *)w->scales + scale * sizeof(float), s->groups, n_scales(s, n));
    }
    return step;
}

/* Activations [t][c .. c + n). */
INLINE XStep load_x(const Shape *s, const Input *in, size_t t, int c, int n) {
    XStep step = {0};
    if (s->type == TYPE_F32) {
        const float *p = in->x + t * (size_t)s->cols + (size_t)c;
        step.f = n == LANES ? vload(p) : vload_n(p, n);
    } else {
        const float *scale = in->scales + t * s->scales_per_row + (size_t)(c >> s->group_shift);
        step.bytes = vx_i8(vload_i8(in->q + t * (size_t)in->q_stride + (size_t)c, VBYTES));
        step.scale = vspread(scale, s->groups, n_scales(s, n));
    }
    return step;
}

INLINE vf accumulate(const Shape *s, WStep w, XStep x, vf sum) {
    if (s->type == TYPE_F32) return vfma(w.f, x.f, sum);
    return vfma(vfloat(vdot_i8(w.bytes, x.bytes)), w.scale * x.scale, sum);
}

/* ---- tiles ------------------------------------------------------------------ */

/* y[r] (+)= the sum of sums[r] over its lanes. */
INLINE void store_sums(float *y, const vf *sums, int rows, bool add) {
    int r = 0;
    UNROLL
    for (; r + 4 <= rows; r += 4) {
        f4 y4, s4 = vsum4(sums[r], sums[r + 1], sums[r + 2], sums[r + 3]);
        if (add) {
            memcpy(&y4, y + r, sizeof y4);
            s4 += y4;
        }
        memcpy(y + r, &s4, sizeof s4);
    }
    for (; r < rows; r++) y[r] = add ? y[r] + vsum(sums[r]) : vsum(sums[r]);
}

/* The outputs of rows [row, row + rows) for tokens [t, t + tokens). */
INLINE void tile(float *y, size_t stride, const Shape *s, const Tensor *w, int row, const Input *in, int t,
                 const int rows, const int tokens, bool add) {
    vf sums[MAX_TOKENS][DECODE_ROWS];
    UNROLL
    for (int i = 0; i < tokens; i++) {
        UNROLL
        for (int r = 0; r < rows; r++) sums[i][r] = (vf){0};
    }
    int c = 0;
    for (; c + s->width <= s->cols; c += s->width) {
        WStep ws[DECODE_ROWS];
        UNROLL
        for (int r = 0; r < rows; r++) ws[r] = load_w(s, w, (size_t)(row + r), c, s->width);
        UNROLL
        for (int i = 0; i < tokens; i++) {
            XStep x = load_x(s, in, (size_t)(t + i), c, s->width);
            UNROLL
            for (int r = 0; r < rows; r++) sums[i][r] = accumulate(s, ws[r], x, sums[i][r]);
        }
    }
    if (c < s->cols) {
        WStep ws[DECODE_ROWS];
        UNROLL
        for (int r = 0; r < rows; r++) ws[r] = load_w(s, w, (size_t)(row + r), c, s->cols - c);
        UNROLL
        for (int i = 0; i < tokens; i++) {
            XStep x = load_x(s, in, (size_t)(t + i), c, s->cols - c);
            UNROLL
            for (int r = 0; r < rows; r++) sums[i][r] = accumulate(s, ws[r], x, sums[i][r]);
        }
    }
    UNROLL
    for (int i = 0; i < tokens; i++) store_sums(y + (size_t)(t + i) * stride + row, sums[i], rows, add);
}

/* All the rows asked for, for `tokens` tokens from t on. */
INLINE void strip(float *y, size_t stride, Type type, const Tensor *w, int row, int n_rows, const Input *in, int t,
                  const int tokens, bool add) {
    const int rows = tokens == 1 ? DECODE_ROWS : TILE_ROWS;
    const Shape s = shape_of(w, type);
    int r = row;
    for (; r + rows <= row + n_rows; r += rows) tile(y, stride, &s, w, r, in, t, rows, tokens, add);
    for (; r < row + n_rows; r++)
        for (int i = 0; i < tokens; i++) tile(y, stride, &s, w, r, in, t + i, 1, 1, add);
}

/* Each strip is a function of its own: the compiler keeps a tile's sums and
 * pointers in registers only if it does not see all the tiles at once. */
typedef void Strip(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int t, bool add);

#define STRIP(name, type, tokens)                                                                                      \
    static __attribute__((noinline)) void name(float *y, size_t stride, const Tensor *w, int row, int n_rows,          \
                                               const Input *in, int t, bool add) {                                     \
        strip(y, stride, type, w, row, n_rows, in, t, tokens, add);                                                    \
    }
STRIP(f32_many, TYPE_F32, F32_TOKENS)
STRIP(f32_two, TYPE_F32, 2)
STRIP(f32_one, TYPE_F32, 1)
STRIP(i8_many, TYPE_I8, I8_TOKENS)
STRIP(i8_two, TYPE_I8, 2)
STRIP(i8_one, TYPE_I8, 1)

/* Token strips outside, rows inside: the rows of one task stay in the cache
 * while the tokens pass by. */
static void strips(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n, bool add) {
    static const struct {
        int tokens;
        Strip *run;
    } kinds[][3] = {
        [TYPE_F32] = {{F32_TOKENS, f32_many}, {2, f32_two}, {1, f32_one}},
        [TYPE_I8] = {{I8_TOKENS, i8_many}, {2, i8_two}, {1, i8_one}},
    };
    int t = 0;
    for (int k = 0; k < 3; k++)
        for (const int tokens = kinds[w->type][k].tokens; t + tokens <= n; t += tokens)
            kinds[w->type][k].run(y, stride, w, row, n_rows, in, t, add);
}

/* int8 groups that vectors do not fit: group by group, one product at a time. */
static void rows_plain(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n,
                       bool add) {
    const size_t n_groups = (size_t)(w->cols / w->group);
    for (int t = 0; t < n; t++)
        for (int r = row; r < row + n_rows; r++) {
            const int8_t *q = in->q + (size_t)t * (size_t)in->q_stride;
            const int8_t *p = (const int8_t *)w->data + (size_t)r * (size_t)w->cols;
            const char *scales = (const char *)w->scales + (size_t)r * n_groups * sizeof(float);
            float sum = 0;
            for (size_t g = 0; g < n_groups; g++, p += w->group, q += w->group) {
                int64_t dot = 0;
                for (int i = 0; i < w->group; i++) dot += p[i] * q[i];
                float scale;
                memcpy(&scale, scales + g * sizeof scale, sizeof scale);
                sum += (float)dot * (scale * in->scales[(size_t)t * n_groups + g]);
            }
            float *out = y + (size_t)t * stride + r;
            *out = add ? *out + sum : sum;
        }
}

static bool group_fits_vectors(int group) { return group >= 4 && (group & (group - 1)) == 0; }

void matmul_rows(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n, bool add) {
    if (w->type == TYPE_I8 && !group_fits_vectors(w->group))
        rows_plain(y, stride, w, row, n_rows, in, n, add);
    else
        strips(y, stride, w, row, n_rows, in, n, add);
}

int matmul_task_rows(int rows, int n) {
    if (n > 1) return ROWS_PER_TASK;
    const int share = (rows - 1) / omp_get_num_threads() + 1; /* one run of rows to a thread, in whole tiles */
    return (share - 1) / DECODE_ROWS * DECODE_ROWS + DECODE_ROWS;
}

void matmul(float *y, const Tensor *w, const Input *in, int n, bool add) {
    const int step = matmul_task_rows(w->rows, n);
#pragma omp for schedule(static)
    for (int row = 0; row < w->rows; row += step)
        matmul_rows(y, (size_t)w->rows, w, row, w->rows - row < step ? w->rows - row : step, in, n, add);
}

/* ---- the activations' side ---------------------------------------------------- */

static int padded(int cols) { return (cols - 1) / VBYTES * VBYTES + VBYTES; }

int input_buffer_open(InputBuffer *buffer, int max_rows, int max_cols) {
    size_t n = (size_t)max_rows * (size_t)padded(max_cols);
    *buffer = (InputBuffer){.max_rows = max_rows};
    buffer->q = allocate(n, sizeof *buffer->q);
    buffer->scales = allocate(n, sizeof *buffer->scales);
    return buffer->q && buffer->scales ? 0 : -1;
}

void input_buffer_close(InputBuffer *buffer) {
    free(buffer->q);
    free(buffer->scales);
    *buffer = (InputBuffer){0};
}

static void prepare_row(const Input *in, const Tensor *w, const float *x, size_t row) {
    int8_t *q = in->q + row * (size_t)in->q_stride;
    quantize_i8(q, in->scales + row * (size_t)(w->cols / w->group), x, w->cols, w->group);
    memset(q + w->cols, 0, (size_t)(in->q_stride - w->cols));
}

Input input_prepare(const InputBuffer *buffer, const Tensor *w, const float *x, int n) {
    Input in = {.x = x, .q = buffer->q, .scales = buffer->scales, .q_stride = padded(w->cols)};
    if (w->type == TYPE_F32) return in;
    if (n == 1) {
        size_t thread = (size_t)omp_get_thread_num();
        in.q += thread * (size_t)in.q_stride;
        in.scales += thread * (size_t)(w->cols / w->group);
        prepare_row(&in, w, x, 0);
        return in;
    }
#pragma omp for schedule(static)
    for (int t = 0; t < n; t++) prepare_row(&in, w, x + (size_t)t * (size_t)w->cols, (size_t)t);
    return in;
}
