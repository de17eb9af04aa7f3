/* jinja.h: runs a chat template: Jinja text and messages to the text of a
 * conversation. */
#pragma once

#include "formats/folder.h"
#include "formats/jinja_limits.h"
#include <stdbool.h>
#include <stddef.h>

/* Text whose bytes have an origin: mark i is true if byte i comes from the
 * template or the program, false if it comes from a message. */
typedef struct {
    /* [n], owned; of a rendered text with a zero byte. The marks are in the
     * same memory. */
    char *text;
    bool *marks; /* [n] */
    size_t n;
    const char *role; /* a message's role, not owned */
} JinjaText;

/* A conversation, and the variables of its template. Nothing is owned. */
typedef struct {
    const char *path; /* for messages */
    const char *template;
    struct {
        const char *text; /* [n]; NULL: undefined */
        int n;
    } tokens[N_TOKEN_NAMES];   /* in the order of TOKEN_NAMES */
    const Tokenizer *names;    /* has the template's variables; NULL: none */
    const char *system;        /* the system prompt; NULL: none */
    const JinjaText *messages; /* [n] */
    int n;
    bool opens_answer; /* the text ends with the beginning of an answer */
    /* "on", "off": enable_thinking and thinking; NULL: undefined */
    const char *think;
    struct JinjaReport *report; /* what to set; NULL: not needed */
} JinjaInput;

/* About a rendering. */
typedef struct JinjaReport {
    size_t steps; /* see JINJA_STEPS */
    /* where the last byte of the last message's content ends in the text; 0:
     * the template does not write it */
    size_t last_end;
} JinjaReport;

/* Renders a conversation as transformers' apply_chat_template does, and sets
 * *out to the text. The template is hostile: the limits of jinja_limits.h
 * hold. Returns -1
 * and a message with the template's line on failure; after Ctrl-C -1 without a
 * message. Else the caller frees out->text. */
int jinja_render(const JinjaInput *in, JinjaText *out);
