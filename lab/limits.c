/* limits.c: the read bandwidth and the peak arithmetic rates of this machine.
 *
 * Owns the loops that measure them. The result of a loop depends on all of its
 * work, so the compiler cannot remove any of it.
 * Tests: lab. */
#include "lab/limits.h"
#include "base/clock.h"
#include "base/memory.h"
#include "kernels/panels.h"
#include "kernels/simd.h"
#include <omp.h>
#include <stdlib.h>

enum {
    STREAM_SUMS = 8,
    /* at least latency times throughput of a multiply-add; 12 and two factors
     * fit in 16 registers */
    CHAINS = 12,
    UNIT = 4 * STREAM_SUMS * LANES,
    MAX_READ = 512 << 20 /* bytes; larger than the caches */
};

/* Processes n numbers. Loops that measure bandwidth read p[n], n a multiple of
 * UNIT; the others read only *p. */
typedef float Loop(const float *p, size_t n);

/* Sums n floats, read as four concurrent streams. */
static float read_floats(const float *floats, size_t n) {
    size_t part = n / 4;
    vf sums[STREAM_SUMS] = {{0}};
    for (size_t i = 0; i < part; i += STREAM_SUMS * LANES)
        for (const float *p = floats + i; p < floats + n; p += part)
            UNROLL(j, STREAM_SUMS)
                sums[j] += vload(p + j * LANES);
    for (int j = 1; j < STREAM_SUMS; j++)
        sums[0] += sums[j];
    return vsum(sums, 1);
}

/* n multiply-adds in independent chains. */
static float multiply_floats(const float *p, size_t n) {
    vf sums[CHAINS];
    vf a = vset(0.999f * *p), b = vset(0.001f * *p); /* keeps sums near 1 */
    for (int j = 0; j < CHAINS; j++)
        sums[j] = vset((float)j);
    for (size_t i = 0; i < n; i += CHAINS * LANES)
        UNROLL(j, CHAINS)
            sums[j] = vfma(sums[j], a, b);
    for (int j = 1; j < CHAINS; j++)
        sums[0] += sums[j];
    return vsum(sums, 1);
}

/* n multiply-adds of bytes. The products of `added` quads are added in 16 bits
 * before they are widened, as in the tiles; 0: each quad is widened. */
INLINE float multiply_quads(const float *p, size_t n, const int added) {
    vi sums[CHAINS];
    vb w = (vb)vset_int((int)*p), x = w;
    int quads = added ? added : 1;
    UNROLL(j, CHAINS)
        sums[j] = vset_int(j);
    for (size_t i = 0; i < n; i += CHAINS * VBYTES * quads) {
        vforget(w); /* as in a tile, w serves several products, x one */
        UNROLL(j, CHAINS) {
            vi pairs = {0};
            UNROLL(k, quads) {
                vforget(x);
                if (added)
                    pairs = vdot_pairs(pairs, w, x);
                else
                    sums[j] = vdot(sums[j], w, x);
            }
            if (added)
                sums[j] = vadd_pairs(sums[j], pairs);
        }
    }
    for (int j = 1; j < CHAINS; j++)
        sums[0] += sums[j];
    return vfloat(sums[0])[0];
}

static float multiply_bytes(const float *p, size_t n) {
    return multiply_quads(p, n, 0);
}
static float multiply_2_quads(const float *p, size_t n) {
    return multiply_quads(p, n, 2);
}
static float multiply_4_quads(const float *p, size_t n) {
    return multiply_quads(p, n, 4);
}

/* Numbers per second of a loop, over all threads. Each thread processes `share`
 * numbers per pass, from p + step * thread on. */
static double rate_of(Loop *loop, const float *p, size_t share, size_t step,
                      int threads) {
    /* at least 32 M numbers */
    size_t passes = 1 + (32u << 20) / (share + 1);
    double start = 0, end = 0;
    float sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        const float *numbers = p + step * omp_get_thread_num();
        sum += loop(numbers, share); /* warm-up */
#pragma omp barrier
#pragma omp master
        start = clock_seconds();
        for (size_t pass = 0; pass < passes; pass++)
            sum += loop(numbers, share);
#pragma omp barrier
#pragma omp master
        end = clock_seconds();
    }
    return sum > 0 ? (double)(passes * share) * threads / (end - start) : 0;
}

double read_rate(size_t bytes, int threads) {
    size_t used = min_size(bytes, MAX_READ) / sizeof(float),
           share = (used / threads / UNIT + 1) * UNIT, n = share * threads;
    float *floats = allocate(n, sizeof *floats);
    for (size_t i = 0; floats && i < n; i++)
        floats[i] = 1;
    double rate =
        floats ? rate_of(read_floats, floats, share, share, threads) : 0;
    free(floats);
    return rate * sizeof(float);
}

double multiply_rate(Type type, int threads) {
    Loop *loop = multiply_floats;
    if (type_takes_int8(type))
        switch (quads_added(type)) {
        case 0: loop = multiply_bytes; break;
        case 2: loop = multiply_2_quads; break;
        default: loop = multiply_4_quads;
        }
    return 2 * rate_of(loop, (const float[]){1}, 64 << 20, 0, threads);
}
