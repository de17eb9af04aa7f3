/* order.h: a binary max-heap and binary search.
 * Tests: sampler. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    float value; /* not NaN */
    int id;
} HeapItem;

/* Of equal values the smaller id comes first, so the result does not depend on
 * the order of insertion. */
static inline bool heap_before(HeapItem a, HeapItem b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/* Sifts heap[i] of n down. */
static inline void heap_sift_down(HeapItem *heap, int n, int i) {
    HeapItem moving = heap[i];
    for (int child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && heap_before(heap[child + 1], heap[child]))
            child++;
        if (!heap_before(heap[child], moving))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

/* Builds a heap of n items. O(n). */
static inline void heap_make(HeapItem *heap, int n) {
    for (int i = n / 2 - 1; i >= 0; i--)
        heap_sift_down(heap, n, i);
}

/* Adds an item to a heap of n with room for n + 1. O(log n). */
static inline void heap_push(HeapItem *heap, int n, HeapItem item) {
    int i = n;
    for (; i > 0 && heap_before(item, heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = item;
}

/* Moves the top to heap[n - 1] and returns it; heap[0] to heap[n - 2] stay a
 * heap. O(log n). */
static inline HeapItem heap_pop(HeapItem *heap, int n) {
    HeapItem top = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = top;
    heap_sift_down(heap, n - 1, 0);
    return top;
}

/* Sets i to the first place in [begin, end) for which `before` is false, or to
 * `end`. `before` is an expression of i that is true for all places before that
 * one. O(log(end - begin)). */
#define SEARCH(i, begin, end, before)                                          \
    do {                                                                       \
        size_t low_ = begin, high_ = end;                                      \
        while (low_ < high_) {                                                 \
            (i) = low_ + (high_ - low_) / 2;                                   \
            if (before)                                                        \
                low_ = (i) + 1;                                                \
            else                                                               \
                high_ = (i);                                                   \
        }                                                                      \
        (i) = low_;                                                            \
    } while (0)
