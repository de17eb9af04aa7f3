/* texts.h: many texts in one run. */
#pragma once

#include "modes/options.h"

/* generate with --samples, --prompts or --json. 0, or -1: a failure. */
int texts_generate(Run *run);
