/* matmul.c: linear layers, y = x w^T, for every weight type.
 *
 * Owns the loops around the dot products of simd.h: tiles of a few rows by a
 * few tokens, so that several sums are in flight and every load is used more
 * than once. It does not own the layouts (quant.c, blocks.h) or the threads:
 * callers are inside a parallel region, and its worksharing loops share there.
 *
 * The one rule: each output has one accumulator, which walks along cols from
 * 0 up and is then summed over its lanes in a fixed tree. Tiles change which
 * outputs are computed side by side, never how one is computed. That is why
 * the result does not depend, to the last bit, on chunks and threads.
 */
#include "blocks.h"
#include "model.h"
#include "simd.h"

#include <omp.h>
#include <stdlib.h>

enum {
    DECODE_ROWS = 8,                    /* rows in flight for one token */
    TILE_ROWS = 4,                      /* rows and tokens in flight for many: */
    FLOAT_TOKENS = LANES == 16 ? 6 : 3, /* as many as the registers hold */
    BYTE_TOKENS = LANES == 16 ? 4 : 2,
    MAX_TOKENS = 6,
    ROWS_PER_TASK = 32
};

/* ---- one step along cols: a vector of weights, a vector of activations ----- */

/* What tiles multiply: float32, int8 with scales, int8 with scales and offsets.
 * A step of any weight type is one of them once it is loaded. */
typedef enum { FLOATS, BYTES, BYTES_MINS } Kind;

typedef struct {
    vf f;     /* FLOATS */
    vb bytes; /* BYTES, BYTES_MINS */
    vf scale;
    vf min; /* BYTES_MINS */
} WStep;

typedef struct {
    vf f;
    XBytes bytes;
    vf scale;
    vf sum; /* BYTES_MINS: of the lane's activations */
} XStep;

/* Groups of 4, 8, 16, ... bytes that share a scale, as a step sees them. */
typedef struct {
    int per_step; /* 1: a group is a step or longer */
    int shift;    /* log2 of its length */
    size_t per_row;
} Groups;

/* What the steps of one product have in common. Type and kind are constants
 * wherever a tile is compiled, so that its steps have no branches. */
typedef struct {
    Type type;
    Kind kind;
    int cols;
    int width;        /* cols in a step */
    size_t row_bytes; /* of w's data */
    Groups w, x;      /* w: TYPE_I8 alone */
} Shape;

INLINE Groups groups_of(int group, int cols) {
    const int shift = __builtin_ctz((unsigned)group);
    return (Groups){group < VBYTES ? VBYTES >> shift : 1, shift, (size_t)cols >> shift};
}

INLINE Shape shape_of(const Tensor *w, const Input *in, Type type, Kind kind) {
    Shape s = {.type = type, .kind = kind, .cols = w->cols, .width = kind == FLOATS ? LANES : VBYTES};
    s.row_bytes = type == TYPE_I8 ? (size_t)w->cols : tensor_bytes(w, 1);
    if (type == TYPE_I8) s.w = groups_of(w->group, w->cols);
    if (kind != FLOATS) s.x = groups_of(in->group, w->cols);
    return s;
}

/* Scales (or mins) of the n cols from c on, spread over the lanes. */
INLINE vf load_scales(const Groups *g, const void *scales, size_t row, int c, int n) {
    const size_t at = row * g->per_row + (size_t)(c >> g->shift);
    const int count = g->per_step == 1 ? 1 : (n * g->per_step + VBYTES - 1) / VBYTES;
    return vspread((const char *)scales + at * sizeof(float), g->per_step, count);
}

INLINE vf load_floats(Type type, const uint8_t *p, int c, int n) {
    if (type == TYPE_F16) return vload_f16(p + 2 * (size_t)c, n);
    if (type == TYPE_BF16) return vload_bf16(p + 2 * (size_t)c, n);
    const float *f = (const float *)(const void *)p + c;
    return n == LANES ? vload(f) : vload_n(f, n);
}

/* Weights [row][c .. c + n), n <= width. */
INLINE WStep load_w(const Shape *s, const Tensor *w, size_t row, int c, int n) {
    const uint8_t *p = (const uint8_t *)w->data + row * s->row_bytes;
    if (s->kind == FLOATS) return (WStep){.f = load_floats(s->type, p, c, n)};
    WStep step = {0};
    if (s->type == TYPE_I8) {
        step.bytes = vw_i8(vload_i8((const int8_t *)p + c, n));
        step.scale = load_scales(&s->w, w->scales, row, c, n);
        if (s->kind == BYTES_MINS) step.min = load_scales(&s->w, w->mins, row, c, n);
        return step;
    }
    const Group a = load_group(s->type, p, c / GROUP),
                b = n > GROUP ? load_group(s->type, p, c / GROUP + 1) : (Group){0};
    step.bytes = vw_i8(join_bytes(a.q, b.q));
    step.scale = join_scales(a.scale, b.scale);
    if (s->kind == BYTES_MINS) step.min = join_scales(a.min, b.min);
    return step;
}

/* Activations [t][c .. c + n). */
INLINE XStep load_x(const Shape *s, const Input *in, size_t t, int c, int n) {
    XStep step = {0};
    if (s->kind == FLOATS) {
        const float *p = in->x + t * (size_t)s->cols + (size_t)c;
        step.f = n == LANES ? vload(p) : vload_n(p, n);
        return step;
    }
    const vb bytes = vload_i8(in->q + t * (size_t)in->q_stride + (size_t)c, VBYTES);
    step.bytes = vx_i8(bytes);
    step.scale = load_scales(&s->x, in->scales, t, c, n);
    if (s->kind == BYTES_MINS) step.sum = vfloat(vsum_bytes(bytes)) * step.scale;
    return step;
}

INLINE vf accumulate(const Shape *s, WStep w, XStep x, vf sum) {
    if (s->kind == FLOATS) return vfma(w.f, x.f, sum);
    if (s->kind == BYTES_MINS) sum = vfma(w.min, x.sum, sum);
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
INLINE void strip(float *y, size_t stride, Type type, Kind kind, const Tensor *w, int row, int n_rows, const Input *in,
                  int t, const int tokens, bool add) {
    const int rows = tokens == 1 ? DECODE_ROWS : TILE_ROWS;
    const Shape s = shape_of(w, in, type, kind);
    int r = row;
    for (; r + rows <= row + n_rows; r += rows) tile(y, stride, &s, w, r, in, t, rows, tokens, add);
    for (; r < row + n_rows; r++)
        for (int i = 0; i < tokens; i++) tile(y, stride, &s, w, r, in, t + i, 1, 1, add);
}

/* Each strip is a function of its own: the compiler keeps a tile's sums and
 * pointers in registers only if it does not see all the tiles at once. */
typedef void Strip(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int t, bool add);

#define STRIP(name, type, kind, tokens)                                                                                \
    static __attribute__((noinline)) void name(float *y, size_t stride, const Tensor *w, int row, int n_rows,          \
                                               const Input *in, int t, bool add) {                                     \
        strip(y, stride, type, kind, w, row, n_rows, in, t, tokens, add);                                              \
    }
STRIP(floats_many, TYPE_F32, FLOATS, FLOAT_TOKENS)
STRIP(floats_two, TYPE_F32, FLOATS, 2)
STRIP(floats_one, TYPE_F32, FLOATS, 1)
STRIP(bytes_many, TYPE_I8, BYTES, BYTE_TOKENS)
STRIP(bytes_two, TYPE_I8, BYTES, 2)
STRIP(bytes_one, TYPE_I8, BYTES, 1)
STRIP(mins_many, TYPE_I8, BYTES_MINS, BYTE_TOKENS)
STRIP(mins_two, TYPE_I8, BYTES_MINS, 2)
STRIP(mins_one, TYPE_I8, BYTES_MINS, 1)
/* one token, from the type's own layout */
STRIP(f16_one, TYPE_F16, FLOATS, 1)
STRIP(bf16_one, TYPE_BF16, FLOATS, 1)
STRIP(q8_0_one, TYPE_Q8_0, BYTES, 1)
STRIP(q4_0_one, TYPE_Q4_0, BYTES, 1)
STRIP(q4_1_one, TYPE_Q4_1, BYTES_MINS, 1)
STRIP(q5_0_one, TYPE_Q5_0, BYTES, 1)
STRIP(q5_1_one, TYPE_Q5_1, BYTES_MINS, 1)
STRIP(q4_k_one, TYPE_Q4_K, BYTES_MINS, 1)
STRIP(q5_k_one, TYPE_Q5_K, BYTES_MINS, 1)
STRIP(q6_k_one, TYPE_Q6_K, BYTES, 1)

/* Token strips outside, rows inside: the rows of one task stay in the cache
 * while the tokens pass by. */
static void strips(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n, bool add) {
    static const struct {
        int tokens;
        Strip *run;
    } kinds[][3] = {
        [FLOATS] = {{FLOAT_TOKENS, floats_many}, {2, floats_two}, {1, floats_one}},
        [BYTES] = {{BYTE_TOKENS, bytes_many}, {2, bytes_two}, {1, bytes_one}},
        [BYTES_MINS] = {{BYTE_TOKENS, mins_many}, {2, mins_two}, {1, mins_one}},
    };
    const Kind kind = w->type == TYPE_F32 ? FLOATS : w->mins ? BYTES_MINS : BYTES;
    int t = 0;
    for (int k = 0; k < 3; k++)
        for (const int tokens = kinds[kind][k].tokens; t + tokens <= n; t += tokens)
            kinds[kind][k].run(y, stride, w, row, n_rows, in, t, add);
}

/* ---- many tokens: other types are unpacked to one of these two ----------------------------------------
 *
 * The unpacked weights are those that the one-token strips make in registers,
 * so the sums are the same. */

/* Rows [row, row + n) of w in the thread's scratch, as a small float32 weight. */
static Tensor unpack_floats(const Tensor *w, int row, int n, char *scratch) {
    for (int r = 0; r < n; r++) dequantize_row((float *)(void *)scratch + (size_t)r * (size_t)w->cols, w, row + r);
    return (Tensor){.type = TYPE_F32, .rows = n, .cols = w->cols, .data = scratch};
}

/* The same as int8 with a scale, and perhaps a min, to `group` weights. */
INLINE Tensor unpack_blocks(const Tensor *w, Type type, int row, int n, char *scratch) {
    const int group = type == TYPE_Q6_K ? GROUP / 2 : GROUP, lanes = (int)(sizeof(vg) / sizeof(float));
    const size_t cols = (size_t)w->cols, groups = cols / (size_t)group, row_bytes = tensor_bytes(w, 1);
    int8_t *q = (int8_t *)scratch;
    float *scales = (float *)(void *)(scratch + DECODE_ROWS * cols), *mins = scales + DECODE_ROWS * groups;
    const Tensor part = {.type = TYPE_I8,
                         .rows = n,
                         .cols = w->cols,
                         .group = group,
                         .data = q,
                         .scales = scales,
                         .mins = group_has_min(type) ? mins : NULL};
    for (int r = 0; r < n; r++)
        for (int i = 0; i < w->cols / GROUP; i++, q += GROUP) {
            const Group g = load_group(type, (const uint8_t *)w->data + (size_t)(row + r) * row_bytes, i);
            memcpy(q, &g.q, GROUP);
            *scales++ = g.scale[0];
            if (group < GROUP) *scales++ = g.scale[lanes - 1];
            if (group_has_min(type)) *mins++ = g.min[0];
        }
    return part;
}

static Tensor unpack_rows(const Tensor *w, int row, int n, char *scratch) {
    switch (w->type) {
    case TYPE_Q8_0: return unpack_blocks(w, TYPE_Q8_0, row, n, scratch);
    case TYPE_Q4_0: return unpack_blocks(w, TYPE_Q4_0, row, n, scratch);
    case TYPE_Q4_1: return unpack_blocks(w, TYPE_Q4_1, row, n, scratch);
    case TYPE_Q5_0: return unpack_blocks(w, TYPE_Q5_0, row, n, scratch);
    case TYPE_Q5_1: return unpack_blocks(w, TYPE_Q5_1, row, n, scratch);
    case TYPE_Q4_K: return unpack_blocks(w, TYPE_Q4_K, row, n, scratch);
    case TYPE_Q5_K: return unpack_blocks(w, TYPE_Q5_K, row, n, scratch);
    case TYPE_Q6_K: return unpack_blocks(w, TYPE_Q6_K, row, n, scratch);
    default: return unpack_floats(w, row, n, scratch);
    }
}

/* Bytes that unpack_rows needs: float32 is the largest form. */
static size_t scratch_bytes(int cols) { return (size_t)DECODE_ROWS * (size_t)cols * sizeof(float) + 64; }

static void rows_unpacked(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n,
                          bool add) {
    for (int r = row; r < row + n_rows; r += DECODE_ROWS) {
        const int count = row + n_rows - r < DECODE_ROWS ? row + n_rows - r : DECODE_ROWS;
        const Tensor part = unpack_rows(w, r, count, in->scratch);
        strips(y + r, stride, &part, 0, count, in, n, add);
    }
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

static bool group_fits_vectors(int group) { return group >= BYTES_PER_LANE && (group & (group - 1)) == 0; }

static void add_bias(float *y, size_t stride, const Tensor *w, int row, int n_rows, int n) {
    for (int t = 0; t < n; t++)
        for (int r = row; r < row + n_rows; r++) y[(size_t)t * stride + (size_t)r] += w->bias[r];
}

void matmul_rows(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n, bool add) {
    static Strip *const one[] = {
        [TYPE_F16] = f16_one,   [TYPE_BF16] = bf16_one, [TYPE_Q8_0] = q8_0_one, [TYPE_Q4_0] = q4_0_one,
        [TYPE_Q4_1] = q4_1_one, [TYPE_Q5_0] = q5_0_one, [TYPE_Q5_1] = q5_1_one, [TYPE_Q4_K] = q4_k_one,
        [TYPE_Q5_K] = q5_k_one, [TYPE_Q6_K] = q6_k_one};
    if (w->type == TYPE_I8 && !group_fits_vectors(w->group))
        rows_plain(y, stride, w, row, n_rows, in, n, add);
    else if (w->type == TYPE_I8 || w->type == TYPE_F32)
        strips(y, stride, w, row, n_rows, in, n, add);
    else if (n == 1)
        one[w->type](y, stride, w, row, n_rows, in, 0, add);
    else
        rows_unpacked(y, stride, w, row, n_rows, in, n, add);
    if (w->bias) add_bias(y, stride, w, row, n_rows, n);
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

enum { INPUT_GROUP = 32 }; /* activations to a scale, unless the weights say otherwise */

static int padded(int cols) { return (cols - 1) / VBYTES * VBYTES + VBYTES; }

int input_buffer_open(InputBuffer *buffer, int max_rows, int max_cols, int n_threads) {
    const size_t n = (size_t)max_rows * (size_t)padded(max_cols);
    *buffer = (InputBuffer){.q = allocate(n, sizeof *buffer->q),
                            .scales = allocate(n, sizeof *buffer->scales),
                            .scratch = allocate((size_t)n_threads, scratch_bytes(max_cols)),
                            .scratch_bytes = scratch_bytes(max_cols)};
    return buffer->q && buffer->scales && buffer->scratch ? 0 : -1;
}

void input_buffer_close(InputBuffer *buffer) {
    free(buffer->q);
    free(buffer->scales);
    free(buffer->scratch);
    *buffer = (InputBuffer){0};
}

static void prepare_row(const Input *in, const float *x, int cols, size_t row) {
    int8_t *q = in->q + row * (size_t)in->q_stride;
    quantize_i8(q, in->scales + row * (size_t)(cols / in->group), x, cols, in->group);
    memset(q + cols, 0, (size_t)(in->q_stride - cols));
}

Input input_prepare(const InputBuffer *buffer, const Tensor *w, const float *x, int n) {
    const size_t thread = (size_t)omp_get_thread_num();
    const int cols = w->cols;
    Input in = {.x = x,
                .q = buffer->q,
                .scales = buffer->scales,
                .scratch = buffer->scratch + thread * buffer->scratch_bytes,
                .group = w->type == TYPE_I8 ? w->group : INPUT_GROUP,
                .q_stride = padded(cols)};
    if (!type_wants_bytes(w->type)) return in;
    if (n == 1) {
        in.q += thread * (size_t)in.q_stride;
        in.scales += thread * (size_t)(cols / in.group);
        prepare_row(&in, x, cols, 0);
        return in;
    }
#pragma omp for schedule(static)
    for (int t = 0; t < n; t++) prepare_row(&in, x + (size_t)t * (size_t)cols, cols, (size_t)t);
    return in;
}

Input input_from(const Input *in, const Tensor *w, int row) {
    Input rest = *in;
    rest.x += (size_t)row * (size_t)w->cols;
    rest.q += (size_t)row * (size_t)in->q_stride;
    rest.scales += (size_t)row * (size_t)(w->cols / in->group);
    return rest;
}
