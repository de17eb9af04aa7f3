/* jinja.h: runs a chat template: Jinja text and messages to the text of a
 * conversation. */
#pragma once

#include "formats/folder.h"
#include <stdbool.h>
#include <stddef.h>

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

/* Text whose bytes have an origin: mark i is true if byte i comes from the
 * template or the program, false if it comes from a message. */
typedef struct {
    /* [n], owned; of a rendered text with a zero byte. The marks are in the
     * same memory. */
    char *text;
    bool *marks; /* [n] */
    size_t n;
    const char *role; /* of a message, not owned */
} JinjaText;

/* A conversation, and the variables of its template. Nothing is owned. */
typedef struct {
    const char *path, *template; /* `path` is for messages */
    struct {
        const char *text; /* [n]; NULL: undefined */
        int n;
    } tokens[N_TOKEN_NAMES];   /* in the order of TOKEN_NAMES */
    const char *system;        /* the system prompt; NULL: none */
    const JinjaText *messages; /* [n] */
    int n;
    bool drops_space;  /* of answers: the space before the first word */
    bool opens_answer; /* the text ends with the beginning of an answer */
    const char *think; /* "on", "off"; NULL: undefined */
} JinjaInput;

/* The steps of the last rendering. */
extern size_t jinja_steps;

/* Renders a conversation as transformers' apply_chat_template does, and sets
 * *out to the text. The template is hostile: the limits above hold. One
 * template runs at a time. Returns -1 and a message with the template's line on
 * failure. Else the caller frees out->text. */
int jinja_render(const JinjaInput *in, JinjaText *out);
