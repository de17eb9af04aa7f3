/* jinja_values.h: a rendering in progress, and the values of a template; for
 * formats/jinja*.c only. */
#pragma once

#include "formats/jinja_limits.h"
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In this order: FALSE to FLOAT are numbers, MACRO and FUNCTION are called. */
typedef enum {
    UNDEFINED,
    NONE,
    FALSE,
    TRUE,
    INTEGER,
    FLOAT,
    STRING,
    LIST, /* or a tuple */
    MAP,
    NAMESPACE,
    MACRO,
    FUNCTION
} Kind;

typedef struct Value {
    Kind kind;
    uint32_t n; /* bytes of a string, items of a list */
    union {
        int64_t number;     /* a boolean, or an integer of 32 bits */
        double real;        /* a FLOAT */
        const char *text;   /* a string: [n] */
        struct Item *items; /* a list: [n] */
        struct Value *map;  /* a MAP or NAMESPACE: its items, a list */
        const struct Macro *macro;
        const struct Function *function; /* jinja_functions.c */
    };
    size_t room; /* the capacity of `items` in a list that is being built */
} Value;

typedef struct Item {
    Value key, value; /* equal in a list */
} Item;

typedef struct Macro {
    const char *parameters; /* in the template, after "(" */
    bool takes_varargs, takes_kwargs;
} Macro;

typedef struct {
    Value variables; /* a stack */
    /* the first variable that `set` can change; 0 at the top level */
    uint32_t first;
    uint32_t n_globals; /* number of variables of the top level */
} Scope;

/* The parts of a rendering's memory, in bytes; as many bytes of marks follow.
 * First the text, then the values. */
enum { OUTPUT = JINJA_OUTPUT / 2, MEMORY = OUTPUT + JINJA_MEMORY / 2 };

/* Marks of a byte. */
enum {
    MARK_OWN = 1, /* it is the template's or the program's, not a message's */
    MARK_LAST = 2 /* it is of the last message's content */
};

typedef struct Jinja {
    jmp_buf stopped; /* where jinja_stop() returns to */
    const char *path;
    const char *source; /* the template, zero-terminated */
    const char *cursor; /* what is read next in it */
    /* [2 * MEMORY], owned. The output and the strings that are being built:
     * [n_text]. From OUTPUT to n_bytes: the values. text[MEMORY + i] is the
     * mark of text[i]. */
    char *text;
    size_t n_text, n_bytes;
    size_t steps;
    int depth;
    bool live;   /* what is read runs */
    bool breaks; /* the loop that runs ends after this iteration */
    /* names that were read in the macro that is being defined */
    bool reads_varargs, reads_kwargs;
    Scope scope;
    /* runs the text of a macro up to its end tag (jinja.c) */
    void (*run_block)(struct Jinja *j, bool runs);
} Jinja;

/* ---- limits and memory -------------------------------------------------- */

/* Ends the rendering. The message has the line of the cursor, `error` and what
 * it is about. */
_Noreturn void jinja_stop(Jinja *j, const char *error, Value what);

void jinja_refuse_if(Jinja *j, bool refused, const char *error);

/* Counts a step, and n more: the bytes, characters, items or names that a loop
 * visits. Ends the rendering after Ctrl-C. */
void jinja_work(Jinja *j, size_t n);

/* Begins a level of nesting; the caller ends it by j->depth--. */
void jinja_enter(Jinja *j);

void *jinja_memory(Jinja *j, size_t bytes);

/* ---- values ------------------------------------------------------------- */

static const Value undefined, none = {.kind = NONE}, empty = {.kind = LIST};

static inline Value string(const char *s, size_t n) {
    return (Value){STRING, (uint32_t)n, .text = s};
}

static inline Value string_of(const char *s) {
    return string(s, strlen(s));
}

static inline Value part(Value s, size_t from, size_t to) {
    return string(s.text + from, to - from);
}

static inline Value boolean(bool is_true) {
    return (Value){.kind = is_true ? TRUE : FALSE, .number = is_true};
}

static inline Value real(double number) {
    return (Value){.kind = FLOAT, .real = number};
}

/* Refuses integers of more than 32 bits. */
Value integer_value(Jinja *j, int64_t number);

static inline bool is_number(Value v) {
    return v.kind >= FALSE && v.kind <= FLOAT;
}

/* Of a boolean or an integer; others are refused. */
int64_t whole_value(Jinja *j, Value v);

/* Of any number. */
double real_value(Jinja *j, Value v);

bool value_is_true(Value v);
bool value_equal(Jinja *j, Value a, Value b);

/* -1, 0 or 1; numbers or strings, others are refused. */
int value_compare(Jinja *j, Value a, Value b);

/* Whether a list, a map's keys or a string contain v. */
bool value_contains(Jinja *j, Value in, Value v);

/* The list of a map's keys or of a string's characters, or the list itself. */
Value value_list(Jinja *j, Value v);

/* The number of characters or items. */
int64_t value_count(Jinja *j, Value v);

/* v[from:to:step]; undefined: not given. */
Value value_slice(Jinja *j, Value v, Value from, Value to, Value step);

Value value_member(Jinja *j, Value v, Value key);

/* ---- lists -------------------------------------------------------------- */

void list_add(Jinja *j, Value *list, Value key, Value value);
void list_push(Jinja *j, Value *list, Value value);

/* Adds an item whose key is this name. */
void list_define(Jinja *j, Value *list, const char *name, Value value);

/* The last item with this key from `from` on; NULL if there is none. */
Item *list_find(Jinja *j, Value list, Value key, size_t from);

/* Changes the item that list_find() returns, or adds one. */
void list_set(Jinja *j, Value *list, Value key, Value value, size_t from);

/* A MAP or a NAMESPACE of these items. */
Value map_of(Jinja *j, Kind kind, Value list);

/* ---- building strings --------------------------------------------------- */

/* Index of the first byte of the character after `at`. */
size_t next_character(Jinja *j, Value s, size_t at);

/* Writes text with its marks. Text outside the rendering's memory is a
 * message's. */
void jinja_write(Jinja *j, const char *s, size_t n);

/* Writes text of the template or of the program. */
void jinja_write_own(Jinja *j, const char *s, size_t n);

/* Writes a value as text. */
void jinja_put(Jinja *j, Value v);

/* Takes what was written from `start` on out of the output; a zero byte
 * follows. */
Value jinja_take(Jinja *j, size_t start);

/* A copy of a text of the program. */
Value jinja_own(Jinja *j, const char *s, size_t n);

Value value_text(Jinja *j, Value v);
Value value_concatenate(Jinja *j, Value a, Value b);

/* The items as text, with the separator between them. */
Value value_join(Jinja *j, Value list, Value separator);
