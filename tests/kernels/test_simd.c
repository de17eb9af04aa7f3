/* test_simd.c: simd.h, each function against plain arithmetic.
 *
 * exp and float16 are checked against double precision, the other functions
 * against loops over lanes. Functions that must not touch memory beyond n
 * elements run directly before an inaccessible page.
 */
#include "kernels/simd.h"

#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float random_float(uint64_t i) {
    return (float)(hash64(7, 1, i) >> 40) / 8388608.0f - 1;
}

/* ---- an inaccessible page ----------------------------------------------- */

/* The end of a page that an inaccessible page follows; NULL on failure. */
static char *fence_open(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE))
        return NULL;
    return p + page;
}

static void fence_close(char *end) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(end - page, 2 * page);
}

static void loads_and_stores_stay_inside(void) {
    char *end = fence_open();
    CHECK(end, "no memory");
    for (int n = 1; n < LANES; n++) {
        float *p = (float *)(void *)end - n;
        for (int i = 0; i < n; i++)
            p[i] = (float)(i + 1);
        vf v = vload_n(p, n);
        for (int i = 0; i < LANES; i++)
            CHECK(v[i] == (i < n ? (float)(i + 1) : 0), "n %d, lane %d: %g", n,
                  i, v[i]);
        vstore_n(p, v * 2.0f, n);
        for (int i = 0; i < n; i++)
            CHECK(p[i] == (float)(2 * i + 2), "n %d, float %d: %g", n, i, p[i]);

        float around[LANES + 1];
        for (int i = 0; i <= LANES; i++)
            around[i] = -7;
        vstore_n(around, vset(3), n);
        for (int i = 0; i <= LANES; i++)
            CHECK(around[i] == (i < n ? 3 : -7), "n %d, float %d: %g", n, i,
                  around[i]);
    }
    fence_close(end);
}

static void half_loads_stay_inside(void) {
    char *end = fence_open();
    CHECK(end, "no memory");
    uint16_t *p = (uint16_t *)(void *)end - LANES;
    for (int i = 0; i < LANES; i++)
        p[i] = (uint16_t)(0x3c00 + i); /* 1 + i / 1024 */
    vf v = vload_f16(p);
    for (int i = 0; i < LANES; i++)
        CHECK(v[i] == 1 + (float)i / 1024, "lane %d: %.9g", i, v[i]);
    fence_close(end);
}

/* ---- arithmetic on lanes ------------------------------------------------ */

static void sums_do_not_depend_on_the_slot(void) {
    for (uint64_t round = 0; round < 1000; round++) {
        vf v[4] = {{0}};
        double exact[4] = {0}, magnitude[4] = {0};
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < LANES; i++) {
                uint64_t n = (round * 4 + (uint64_t)k) * LANES + (uint64_t)i;
                v[k][i] = ldexpf(random_float(n), (int)(n % 13));
                exact[k] += v[k][i];
                magnitude[k] += fabs((double)v[k][i]);
            }
        f4 sums = vsum4(&v[0], &v[1], &v[2], &v[3], 1),
           other = vsum4(&v[3], &v[2], &v[1], &v[0], 1);
        for (int k = 0; k < 4; k++) {
            CHECK(to_bits(sums[k]) == to_bits(vsum(&v[k], 1)),
                  "slot %d: %.9g, vsum %.9g", k, sums[k], vsum(&v[k], 1));
            CHECK(to_bits(sums[k]) == to_bits(other[3 - k]),
                  "slot %d: %.9g, slot %d: %.9g", k, sums[k], 3 - k,
                  other[3 - k]);
            CHECK(fabs(sums[k] - exact[k]) <= 4 * 0x1p-24 * magnitude[k],
                  "%.9g, exact %.9g", sums[k], exact[k]);
        }
    }
}

static void fma_max_and_select(void) {
    float nan = NAN;
    vf a = vset(3), b = vset(-2);
    CHECK(vfma(a, b, vset(10))[LANES - 1] == 4, "3 * -2 + 10 = %g",
          vfma(a, b, vset(10))[LANES - 1]);
    a[0] = -5;
    a[1] = nan;
    vf larger = vmax(a, b), swapped = vmax(b, a);
    CHECK(larger[0] == -2 && larger[2] == 3,
          "max(-5, -2) = %g, max(3, -2) = %g", larger[0], larger[2]);
    CHECK(larger[1] == -2 && isnan(swapped[1]),
          "max with NaN: %g and %g, expected the second argument", larger[1],
          swapped[1]);
    vf chosen = vselect(a > b, vset(1), vset(0));
    CHECK(chosen[0] == 0 && chosen[1] == 0 && chosen[2] == 1, "%g %g %g",
          chosen[0], chosen[1], chosen[2]);
}

static void lanes_are_numbered_and_compared(void) {
    for (int i = 0; i < LANES; i++) {
        vf v = {0};
        v -= 3.0f;
        v[i] = -2;
        CHECK(vlane()[i] == i, "lane %d is numbered %d", i, vlane()[i]);
        CHECK(vmax_lane(v) == -2, "the largest is in lane %d: %g", i,
              vmax_lane(v));
    }
    CHECK(vmax_lane(vset(-INFINITY)) == -INFINITY, "%g",
          vmax_lane(vset(-INFINITY)));
}

/* ---- exp ---------------------------------------------------------------- */

/* |got - e^x| in ulp; below -69 the result must be 0. */
static double exp_error(float got, float x) {
    double exact = exp((double)x);
    if (x < -69)
        return got == 0 ? 0 : 1e9;
    if (exact > (double)FLT_MAX * (1 + 0x1p-25))
        return isinf(got) ? 0 : 1e9;
    return fabs(got - exact) / ldexp(1, ilogb(exact) - 23);
}

static void exp_is_accurate(void) {
    int n = test_fast() ? 20000 : 1000000;
    double worst = 0;
    float at = 0;
    for (int i = 0; i < n; i += LANES) {
        vf x = {0};
        for (int j = 0; j < LANES; j++)
            x[j] = -110 + 200 * (float)(i + j) / (float)n;
        vf e = vexp(x);
        for (int j = 0; j < LANES; j++) {
            double error = exp_error(e[j], x[j]);
            if (error > worst)
                worst = error, at = x[j];
        }
    }
    /* measured: 0.991 with fma, 0.964 without */
    CHECK(worst <= 1.05, "%g ulp at %.9g", worst, at);
}

static void exp_at_the_edges(void) {
    const struct {
        float x, expected;
    } cases[] = {{0, 1},
                 {-0.0f, 1},
                 {-INFINITY, 0},
                 {-FLT_MAX, 0},
                 {-104.5f, 0},
                 {-87.4f, 0},
                 {-1e4f, 0},
                 {-69.1f, 0},
                 {INFINITY, INFINITY},
                 {FLT_MAX, INFINITY},
                 {FLT_MIN, 1},
                 {-FLT_MIN, 1},
                 {0x1p-149f, 1},
                 {89.5f, INFINITY},
                 {88.75f, INFINITY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float got = vexp(vset(cases[i].x))[i % LANES];
        CHECK(to_bits(got) == to_bits(cases[i].expected), "e^%g = %.9g",
              cases[i].x, got);
    }
    CHECK(isnan(vexp(vset(NAN))[0]) && isnan(vexp(vset(-NAN))[LANES - 1]),
          "NaN is lost");
    CHECK(vexp(vset(88.7f))[0] > 3.3e38f && isfinite(vexp(vset(88.7f))[0]),
          "e^88.7 = %g", vexp(vset(88.7f))[0]);
    CHECK(vexp(vset(-68.9f))[0] > 1.1e-30f, "e^-68.9 = %g",
          vexp(vset(-68.9f))[0]);
}

/* ---- half floats -------------------------------------------------------- */

/* The value of the bits of a finite half float. */
static double half_value(int h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double magnitude =
        exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}

/* f rounded to a half float, ties to even, by the definition. */
static double round_to_half(float f) {
    double magnitude = fabs((double)f);
    if (!(magnitude < 65520))
        return copysign(INFINITY, f); /* the largest half is 65504 */
    int exponent = magnitude > 0 ? ilogb(magnitude) : -99;
    double step = ldexp(1, (exponent < -14 ? -14 : exponent) - 10);
    return copysign(rint(magnitude / step) * step, f);
}

static void every_half_float_is_widened(void) {
    for (int h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h);
        uint16_t back = f32_to_f16(f);
        if ((h & 0x7fff) > 0x7c00) {
            CHECK(isnan(f), "%04x is NaN, found %g", h, f);
            CHECK((back & 0x7fff) > 0x7c00 && (back & 0x8000) == (h & 0x8000),
                  "NaN %04x comes back as %04x", h, back);
            continue;
        }
        double exact = (h & 0x7fff) == 0x7c00
                           ? copysign(INFINITY, h & 0x8000 ? -1 : 1)
                           : half_value(h);
        CHECK(f == exact && !signbit(f) == !(h >> 15), "%04x is %g, found %g",
              h, exact, f);
        CHECK(back == h, "%04x comes back as %04x", h, back);
    }
}

static void vectors_widen_like_scalars(void) {
    uint16_t halfs[LANES];
    for (int h = 0; h < 65536; h += LANES) {
        for (int i = 0; i < LANES; i++)
            halfs[i] = (uint16_t)(h + i);
        vf all = vload_f16(halfs);
        for (int i = 0; i < LANES; i++) {
            float f = f16_to_f32(halfs[i]);
            CHECK(isnan(f) ? isnan(all[i]) : to_bits(all[i]) == to_bits(f),
                  "%04x: %g, scalar %g", h + i, all[i], f);
        }
    }
}

static void check_half(float f) {
    float got = f16_to_f32(f32_to_f16(f));
    double expected = round_to_half(f);
    CHECK(got == expected && !signbit(got) == !signbit(f),
          "%.9g becomes %.9g, expected %.9g", f, got, expected);
}

static void half_floats_round_to_even(void) {
    for (int h = 0; h < 0x7c00;
         h++) { /* halfway to the next value, and next to that */
        double next = h == 0x7bff ? 65536 : half_value(h + 1);
        float middle = (float)((half_value(h) + next) / 2);
        for (int sign = -1; sign <= 1; sign += 2) {
            check_half((float)sign * middle);
            check_half((float)sign * nextafterf(middle, 0));
            check_half((float)sign * nextafterf(middle, 1e6f));
        }
    }
    for (uint64_t i = 0; i < 100000; i++) { /* random floats */
        float f = from_bits((uint32_t)hash64(7, 2, i));
        if (!isnan(f))
            check_half(f);
    }
    check_half(0.0f);
    check_half(-0.0f);
    check_half(INFINITY);
    CHECK((f32_to_f16(from_bits(0x7f800001)) & 0x7fff) > 0x7c00,
          "a NaN with only low bits becomes a number");
}

/* ---- bytes -------------------------------------------------------------- */

/* Weights have any value of a byte; activations are -127 to 127, as from
 * quantize_i8 (the AVX2 kernel needs that). */
static void check_dot(vb w, vb x) {
    vi begin = {0};
    for (int j = 0; j < LANES; j++) {
        begin[j] = 1000 * j;
        for (int k = 4 * j; k < 4 * j + 4; k++)
            begin[j] -= BYTE_OFFSET * x[k];
    }
    vi dot = vdot(begin, w ^ (int8_t)BYTE_OFFSET, x);
    for (int j = 0; j < LANES; j++) {
        int exact = 1000 * j;
        for (int k = 4 * j; k < 4 * j + 4; k++)
            exact += w[k] * x[k];
        CHECK(dot[j] == exact, "lane %d: %d, expected %d", j, dot[j], exact);
    }
}

static void byte_dots_are_exact(void) {
    static const int8_t extremes[] = {-128, -127, 127, 126, 1, 0, -1};
    vb w = {0}, x = {0};
    for (int a = 0; a < 7;
         a++) /* pairs of extremes, the values most likely to saturate */
        for (int b = 1; b < 7; b++) {
            for (int i = 0; i < VBYTES; i++)
                w[i] = extremes[a], x[i] = extremes[b];
            check_dot(w, x);
        }
    for (uint64_t round = 0; round < 2000; round++) {
        for (int i = 0; i < VBYTES; i++) {
            uint64_t r = hash64(7, 3, round * VBYTES + (uint64_t)i);
            w[i] = r >> 20 & 1 ? extremes[r % 7] : (int8_t)(r >> 30);
            x[i] = r >> 21 & 1 ? extremes[1 + (r >> 8) % 6]
                               : (int8_t)((int)((r >> 40) % 255) - 127);
        }
        check_dot(w, x);
    }
}

static void integers_become_floats(void) {
    vi a = {0};
    for (int i = 0; i < LANES; i++)
        a[i] = (i - 2) * 65025;
    vf f = vfloat(a);
    for (int i = 0; i < LANES; i++)
        CHECK(f[i] == (float)((i - 2) * 65025), "lane %d: %g", i, f[i]);
}

static void quads_fill_every_lane(void) {
    int8_t quad[5] = {9, 1, -2, 3, -128};
    vb v = vset_quad(quad + 1);
    for (int i = 0; i < VBYTES; i++)
        CHECK(v[i] == quad[1 + i % 4], "byte %d: %d", i, v[i]);
}

/* The last row ends at the inaccessible page, or one byte before it. */
static void rows_become_columns(void) {
    char *end = fence_open();
    CHECK(end, "no memory");
    for (int gap = 0; gap < 2; gap++) {
        const uint8_t *rows[LANES];
        for (int r = 0; r < LANES; r++) {
            uint8_t *row = (uint8_t *)end - gap - (LANES - r) * 16;
            for (int i = 0; i < 4; i++)
                memcpy(row + i * 4, &(int32_t){r * 100 + i}, 4);
            rows[r] = row - 40;
        }
        vi columns[4];
        vtranspose(columns, rows, 40);
        for (int i = 0; i < 4; i++)
            for (int r = 0; r < LANES; r++)
                CHECK(columns[i][r] == r * 100 + i, "column %d, row %d: %d", i,
                      r, columns[i][r]);
    }
    fence_close(end);
}

void suite_simd(void) {
    TEST(loads_and_stores_stay_inside);
    TEST(half_loads_stay_inside);
    TEST(sums_do_not_depend_on_the_slot);
    TEST(fma_max_and_select);
    TEST(lanes_are_numbered_and_compared);
    TEST(exp_is_accurate);
    TEST(exp_at_the_edges);
    TEST(every_half_float_is_widened);
    TEST(vectors_widen_like_scalars);
    TEST(half_floats_round_to_even);
    TEST(byte_dots_are_exact);
    TEST(integers_become_floats);
    TEST(quads_fill_every_lane);
    TEST(rows_become_columns);
}
