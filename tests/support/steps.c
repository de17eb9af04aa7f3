/* steps.c: counts what the code that reads files and texts does.
 *
 * The compiler calls the function below at the beginning of each basic block of
 * base/, text/, formats/ and tokenizer.c (Makefile: COUNTED), so that every loop
 * counts, the calls that qsort makes of a comparison, too. Of C's library
 * nothing counts, nor do threads count exactly.
 */
#include "tests/support/test.h"

#include <stdint.h>

uint64_t steps_taken;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { steps_taken++; }
