/* search.h: binary search in a sorted table. */
#ifndef NORMA_SEARCH_H
#define NORMA_SEARCH_H

#include <stddef.h>

/* Sets i to the first place in [begin, end) for which `before` is false, to `end` if there is none. `before` is an
 * expression of i that is true for all places before that one. O(log(end - begin)). */
#define SEARCH(i, begin, end, before)                                                                                  \
    do {                                                                                                               \
        size_t low_ = (size_t)(begin), high_ = (size_t)(end);                                                          \
        while (low_ < high_) {                                                                                         \
            (i) = low_ + (high_ - low_) / 2;                                                                           \
            if (before)                                                                                                \
                low_ = (i) + 1;                                                                                        \
            else                                                                                                       \
                high_ = (i);                                                                                           \
        }                                                                                                              \
        (i) = low_;                                                                                                    \
    } while (0)

#endif
