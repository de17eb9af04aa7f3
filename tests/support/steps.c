/* steps.c: counts the basic blocks executed by the code that reads files and
 * texts.
 *
 * The compiler calls the function below at the beginning of each basic block of
 * base/, text/, formats/, tokenizer.c and sampler.c (Makefile: COUNTED), also
 * in comparisons called by qsort. The C library is not counted, and counts are
 * not exact with several threads.
 */
#include "tests/support/steps.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <stdint.h>

uint64_t steps_taken;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    steps_taken++;
}
