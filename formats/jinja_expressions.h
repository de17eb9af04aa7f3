/* jinja_expressions.h: reads the words, symbols and expressions of a template;
 * for formats/jinja*.c only. */
#pragma once

#include "formats/jinja_values.h"

/* ---- words and symbols -------------------------------------------------- */

/* The end of this word or symbol; NULL: it does not follow. */
const char *jinja_after(Jinja *j, const char *symbol);

/* Moves the cursor behind a word or symbol, if it follows. */
bool jinja_accept(Jinja *j, const char *symbol);

void jinja_expect(Jinja *j, const char *symbol);
void jinja_skip_space(Jinja *j);
Value jinja_read_name(Jinja *j);

/* Skips what does not run, up to the end of its tag. Only strings and brackets
 * matter. Returns whether a "=" stands outside of brackets. */
bool jinja_skip_tag(Jinja *j);

/* ---- expressions -------------------------------------------------------- */

/* Reads an expression. Returns its value if it runs, else undefined. */
Value jinja_expression(Jinja *j);

/* Also reads a tuple without parentheses: a, b. `has_condition`: `a if b else
 * c` may follow; in `for` an `if` does not belong to the expression. */
Value jinja_tuple(Jinja *j, bool has_condition);

/* Reads the names of a target: a string, or a list for (a, b) and a, b. */
Value jinja_target(Jinja *j);

/* Gives the value, or its items, to the names of a target, which become
 * variables, or change those of the scope if `replaces`. */
void jinja_assign(Jinja *j, Value target, Value value, bool replaces);

/* Begins a scope; the caller restores the old one. */
void jinja_open_scope(Jinja *j);

Value jinja_variable(Jinja *j, Value name);

/* Skips the parameters of a macro, up to ")". */
void jinja_skip_parameters(Jinja *j);
