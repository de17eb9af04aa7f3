/* jinja.h: runs a chat template: Jinja text and messages to the text of a conversation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    JINJA_TEMPLATE = 1 << 20, /* max bytes of a template */
    /* max words and symbols that are read, and blocks of 64 bytes that are written */
    JINJA_STEPS = 10000000,
    JINJA_DEPTH =
        64, /* max nesting of statements, calls, parentheses and lists */
    JINJA_OUTPUT = 16 << 20, /* max bytes of text that is being written */
    JINJA_MEMORY = 64 << 20  /* max bytes of all values */
};

/* Text whose bytes have an origin: mark i is true if byte i comes from the template or the program,
 * false if it comes from a message. */
typedef struct {
    /* [n] and a zero byte, owned. The marks are in the same memory. */
    char *text;
    bool *marks; /* [n] */
    size_t n;
} JinjaText;

/* Renders a conversation as transformers' apply_chat_template does, and sets *out to the text.
 * `describe` calls the functions below for the messages and variables. The template is hostile: the
 * limits above hold. One template runs at a time. `path` is for messages. Returns -1 and a message
 * with the template's line on failure. Else the caller frees out->text. */
int jinja_render(const char *path, const char *template,
                 void (*describe)(const void *arg), const void *arg,
                 JinjaText *out);

/* Define variables: a text of the program, which stays the caller's, and a boolean. On failure, the
 * functions do not return. */
void jinja_define(const char *name, const char *s, size_t n);
void jinja_flag(const char *name, bool value);

/* Adds a message with these marks; NULL: all are false. The role stays the caller's. */
void jinja_message(const char *role, const char *s, const bool *marks,
                   size_t n);
