/* generate.h: texts for many prompts. */
#pragma once

#include "modes/common.h"
#include "modes/template.h"

/* Continues the prompts of the command line or, with a template, answers them
 * as messages of a user. Returns -1 on failure. */
int generate_texts(Run *run, const ChatTemplate *template);
