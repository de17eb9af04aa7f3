/* jinja_functions.h: the functions, filters, methods and tests of templates;
 * for formats/jinja*.c only. */
#pragma once

#include "formats/jinja_values.h"

/* Where a name stands: f(...), x|f(...), x.f(...), x is f(...). */
typedef enum { GLOBAL, FILTER, STRING_METHOD, MAP_METHOD, TEST } Use;

/* Makes the functions variables. */
void functions_define(Jinja *j, Value *variables);

/* Calls a filter, a method or a test of `self`, or a GLOBAL function. `given`:
 * the arguments; the key of a keyword argument is its name, that of others is
 * undefined. */
Value function_call(Jinja *j, Use use, Value name, Value self, Value given);

/* format % value, as Python's: the value is a list for several. */
Value function_percent(Jinja *j, Value format, Value value);
