/* limits.c: the read bandwidth and the peak arithmetic rates of this machine.
 *
 * Owns the loops that measure them. Each limit is the result of the fastest of several loops; which one is fastest
 * depends on the processor. The result of a loop depends on all of its work, so the compiler cannot remove any of it.
 */
#include "lab/limits.h"
#include "base/memory.h"
#include "base/process.h"
#include "kernels/panels.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

enum {
    SUMS = 8,
    MAX_SUMS = 16,
    UNIT = 4 * SUMS * LANES,
    MAX_READ = 512 << 20 /* bytes; larger than the caches */
};

/* Processes n numbers, a multiple of UNIT. Loops that measure bandwidth read p[n]; the others read only *p. */
typedef float Loop(const float *p, size_t n);

/* Sums n floats, read as `streams` concurrent streams. */
INLINE float read_streams(const float *floats, size_t n, const size_t streams, Prefetch prefetch) {
    const size_t part = n / streams;
    vf sums[SUMS] = {{0}};
    for (size_t i = 0; i < part; i += SUMS * LANES)
        for (const float *p = floats + i; p < floats + n; p += part) {
            prefetch_ahead(prefetch, (const uint8_t *)p, SUMS * VBYTES);
            UNROLL
            for (int j = 0; j < SUMS; j++) sums[j] += vload(p + j * LANES);
        }
    for (int j = 1; j < SUMS; j++) sums[0] += sums[j];
    return vsum(sums[0]);
}

/* n multiply-adds in n_sums independent chains. */
INLINE float multiply_floats(const float *p, size_t n, const int n_sums) {
    vf sums[MAX_SUMS];
    const vf a = vset(0.999f * *p), b = vset(0.001f * *p); /* keeps sums near 1 */
    UNROLL
    for (int j = 0; j < n_sums; j++) sums[j] = vset((float)j);
    for (size_t i = 0; i < n; i += (size_t)n_sums * LANES) UNROLL
    for (int j = 0; j < n_sums; j++) sums[j] = vfma(sums[j], a, b);
    for (int j = 1; j < n_sums; j++) sums[0] += sums[j];
    return vsum(sums[0]);
}

INLINE float multiply_bytes(const float *p, size_t n, const int n_sums) {
    vi sums[MAX_SUMS];
    const vb a = (vb)vset_int((int)*p);
    UNROLL
    for (int j = 0; j < n_sums; j++) sums[j] = vset_int(j);
    for (size_t i = 0; i < n; i += (size_t)n_sums * VBYTES) UNROLL
    for (int j = 0; j < n_sums; j++) sums[j] = vdot(sums[j], a, a);
    for (int j = 1; j < n_sums; j++) sums[0] += sums[j];
    return vsum(vfloat(sums[0]));
}

#define LOOP(name, ...)                                                                                                \
    static float name(const float *p, size_t n) { return __VA_ARGS__; }
LOOP(one_stream, read_streams(p, n, 1, (Prefetch){0, false}))
LOOP(four_streams, read_streams(p, n, 4, (Prefetch){0, false}))
LOOP(one_stream_near, read_streams(p, n, 1, (Prefetch){2048, true}))
LOOP(one_stream_far, read_streams(p, n, 1, (Prefetch){8192, false}))
LOOP(four_streams_far, read_streams(p, n, 4, (Prefetch){8192, false}))
LOOP(floats_12, multiply_floats(p, n, 12))
LOOP(floats_16, multiply_floats(p, n, 16))
LOOP(bytes_12, multiply_bytes(p, n, 12))
LOOP(bytes_16, multiply_bytes(p, n, 16))

/* Seconds that all threads take for `passes` passes, each over `share` numbers. */
static double time_loop(Loop *loop, const float *p, size_t share, bool reads, int passes, int threads, float *sum) {
    double start = 0, end = 0;
    float total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        const float *numbers = p + (reads ? share * (size_t)omp_get_thread_num() : 0);
        total += loop(numbers, share); /* warm-up */
#pragma omp barrier
#pragma omp master
        start = now();
        for (int pass = 0; pass < passes; pass++) total += loop(numbers, share);
#pragma omp barrier
#pragma omp master
        end = now();
    }
    *sum += total;
    return end - start;
}

/* Numbers per second of the fastest loop, over all threads. Each thread processes `share` numbers per pass. */
static double best_rate(Loop *const *loops, const float *p, size_t share, bool reads, int threads) {
    const int passes = (int)(1 + (32u << 20) / (share + 1)); /* at least 32 M numbers */
    double best = 0;
    float sum = 0;
    for (; *loops; loops++) {
        const double seconds = time_loop(*loops, p, share, reads, passes, threads, &sum);
        best = fmax(best, (double)passes * (double)share * threads / seconds);
    }
    return sum > 0 ? best : 0;
}

double read_rate(size_t bytes, int threads) {
    static Loop *const loops[] = {one_stream, four_streams, one_stream_near, one_stream_far, four_streams_far, NULL};
    if (bytes > MAX_READ) bytes = MAX_READ;
    const size_t share = (bytes / sizeof(float) / (size_t)threads / UNIT + 1) * UNIT, n = share * (size_t)threads;
    float *floats = allocate(n, sizeof *floats);
    for (size_t i = 0; floats && i < n; i++) floats[i] = 1;
    const double rate = floats ? best_rate(loops, floats, share, true, threads) : 0;
    free(floats);
    return rate * sizeof(float);
}

double float_rate(int threads) {
    static Loop *const loops[] = {floats_12, floats_16, NULL};
    return 2 * best_rate(loops, (const float[]){1}, 32 << 20, false, threads);
}

double byte_rate(int threads) {
    static Loop *const loops[] = {bytes_12, bytes_16, NULL};
    return 2 * best_rate(loops, (const float[]){1}, 64 << 20, false, threads);
}
