/* jinja_limits.h: the limits of a chat template.
 * Tests: jinja, growth. */
#pragma once

enum {
    JINJA_TEMPLATE = 1 << 20, /* max bytes of a template */
    /* max steps: bytes, characters, items, names and symbols that are compared
     * or read, and blocks of 64 bytes that are copied */
    JINJA_STEPS = 100000000,
    /* max nesting of statements, calls, parentheses and lists */
    JINJA_DEPTH = 64,
    JINJA_OUTPUT =
        16 << 20, /* max bytes of text that is being written, with its marks */
    JINJA_MEMORY =
        64 << 20 /* max bytes of all values, with as many bytes of marks */
};
