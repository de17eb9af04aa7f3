/* texts.h: many texts in one run. */
#pragma once

#include "modes/options.h"

/* generate with --samples, --prompts or --json. Returns the exit status. */
int texts_generate(Run *run);
