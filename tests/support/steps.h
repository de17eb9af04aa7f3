/* steps.h: counts steps. */
#pragma once

#include <stdint.h>

/* Number of basic blocks executed in base/, text/, formats/, tokenizer.c and
 * sampler.c;
 * counted only in tests/growth. */
extern uint64_t steps_taken;
