/* json_check.h: whether a text is JSON. */
#pragma once

#include <stdbool.h>

/* Whether text is one JSON value (RFC 8259), possibly with white space around
 * it. */
bool json_valid(const char *text);
