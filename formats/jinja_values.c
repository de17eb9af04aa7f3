/* jinja_values.c: the values of a template: numbers, strings, lists and maps.
 *
 * Owns the limits of a rendering and its memory. Every byte of a string keeps
 * its marks in every function. Strings and lists never change; `set` changes
 * maps.
 * Tests: jinja, growth.
 */
#include "formats/jinja_values.h"
#include "base/error.h"
#include "base/process.h"
#include "base/utf8.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- limits and memory -------------------------------------------------- */

_Noreturn void jinja_stop(Jinja *j, const char *error, Value what) {
    int line = 1;
    for (const char *s = j->source; s < j->cursor; s++)
        line += *s == '\n';
    fail("%s: line %d of the chat template: %s%.*s", j->path, line, error,
         (int)what.n, what.n ? what.text : "");
    longjmp(j->stopped, 1);
}

void jinja_refuse_if(Jinja *j, bool refused, const char *error) {
    if (refused)
        jinja_stop(j, error, undefined);
}

void jinja_work(Jinja *j, size_t n) {
    j->steps += 1 + n;
    if (interrupted)
        longjmp(j->stopped, 1);
    jinja_refuse_if(j, j->steps > JINJA_STEPS, "takes too many steps");
}

void jinja_enter(Jinja *j) {
    jinja_work(j, 0);
    j->depth++;
    jinja_refuse_if(j, j->depth > JINJA_DEPTH, "nested too deep");
}

void *jinja_memory(Jinja *j, size_t bytes) {
    bytes = (bytes + 15) / 16 * 16;
    jinja_refuse_if(j, bytes > MEMORY - j->n_bytes, "needs too much memory");
    j->n_bytes += bytes;
    return j->text + j->n_bytes - bytes;
}

/* ---- lists -------------------------------------------------------------- */

void list_add(Jinja *j, Value *list, Value key, Value value) {
    jinja_work(j, 0);
    if (list->n == list->room) {
        const Item *old = list->items;
        list->room = 2 * list->room + 4;
        list->items = jinja_memory(j, list->room * sizeof *old);
        if (list->n)
            memcpy(list->items, old, list->n * sizeof *old);
    }
    list->items[list->n++] = (Item){key, value};
}

void list_push(Jinja *j, Value *list, Value value) {
    list_add(j, list, value, value);
}

void list_define(Jinja *j, Value *list, const char *name, Value value) {
    list_add(j, list, string_of(name), value);
}

Item *list_find(Jinja *j, Value list, Value key, size_t from) {
    size_t i = list.n;
    while (i-- > from)
        if (value_equal(j, list.items[i].key, key))
            return list.items + i;
    return NULL;
}

void list_set(Jinja *j, Value *list, Value key, Value value, size_t from) {
    Item *item = list_find(j, *list, key, from);
    if (item)
        item->value = value;
    else
        list_add(j, list, key, value);
}

Value map_of(Jinja *j, Kind kind, Value list) {
    Value v = {.kind = kind, .map = jinja_memory(j, sizeof list)};
    *v.map = list;
    return v;
}

/* ---- numbers, truth and order ------------------------------------------- */

Value integer_value(Jinja *j, int64_t number) {
    jinja_refuse_if(j, number != (int32_t)number,
                    "an integer of more than 32 bits");
    return (Value){.kind = INTEGER, .number = number};
}

int64_t whole_value(Jinja *j, Value v) {
    jinja_refuse_if(j, !is_number(v), "expected a number");
    jinja_refuse_if(j, v.kind == FLOAT, "expected a whole number");
    return v.number;
}

double real_value(Jinja *j, Value v) {
    jinja_refuse_if(j, !is_number(v), "expected a number");
    return v.kind == FLOAT ? v.real : (double)v.number;
}

bool value_is_true(Value v) {
    if (v.kind == MAP)
        return v.map->n > 0;
    if (v.kind == FLOAT)
        return v.real != 0;
    return is_number(v) ? v.number != 0 : v.n > 0 || v.kind >= NAMESPACE;
}

/* Whether two lists, or two maps, have equal items. The order of a map's items
 * does not matter. */
static bool equal_items(Jinja *j, Value a, Value b, bool are_maps) {
    bool equal = a.n == b.n;
    jinja_enter(j);
    for (size_t i = 0; equal && i < a.n; i++) {
        const Item *x = a.items + i,
                   *y = are_maps ? list_find(j, b, x->key, 0) : b.items + i;
        equal = y && value_equal(j, x->value, y->value);
    }
    j->depth--;
    return equal;
}

bool value_equal(Jinja *j, Value a, Value b) {
    jinja_work(j, 0);
    if (is_number(a) && is_number(b))
        return real_value(j, a) == real_value(j, b);
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case STRING:
        if (a.n != b.n)
            return false;
        jinja_work(j, a.n);
        return !memcmp(a.text, b.text, a.n);
    case LIST: return equal_items(j, a, b, false);
    case MAP: return equal_items(j, *a.map, *b.map, true);
    case NAMESPACE: return a.map == b.map;
    case MACRO: return a.macro == b.macro;
    case FUNCTION: return a.function == b.function;
    case UNDEFINED:
    case NONE:
    case FALSE:
    case TRUE:
    case INTEGER:
    case FLOAT: break;
    }
    return true;
}

int value_compare(Jinja *j, Value a, Value b) {
    if (a.kind != STRING || b.kind != STRING) {
        double x = real_value(j, a), y = real_value(j, b);
        return (x > y) - (x < y);
    }
    size_t n = a.n < b.n ? a.n : b.n;
    jinja_work(j, n);
    int order = n ? memcmp(a.text, b.text, n) : 0; /* as of code points */
    if (!order)
        return (a.n > b.n) - (a.n < b.n);
    return order < 0 ? -1 : 1;
}

bool value_contains(Jinja *j, Value in, Value v) {
    if (in.kind == STRING) {
        jinja_refuse_if(j, v.kind != STRING, "a string contains only strings");
        jinja_work(j, in.n);
        return memmem(in.text, in.n, v.text, v.n);
    }
    return list_find(j, value_list(j, in), v, 0);
}

/* ---- building strings --------------------------------------------------- */

static void copy(Jinja *j, char *to, const char *from, size_t n) {
    memcpy(to, from, n);
    if (from >= j->text && from < j->text + MEMORY)
        memcpy(to + MEMORY, from + MEMORY, n);
    else
        memset(to + MEMORY, 0, n);
}

void jinja_write(Jinja *j, const char *s, size_t n) {
    jinja_work(j, n / 64);
    /* with a final zero byte */
    jinja_refuse_if(j, n >= OUTPUT - j->n_text, "writes too much text");
    copy(j, j->text + j->n_text, s, n);
    j->n_text += n;
}

void jinja_write_own(Jinja *j, const char *s, size_t n) {
    jinja_write(j, s, n);
    memset(j->text + MEMORY + j->n_text - n, MARK_OWN, n);
}

Value jinja_take(Jinja *j, size_t start) {
    size_t n = j->n_text - start;
    char *s = jinja_memory(j, n + 1);
    copy(j, s, j->text + start, n);
    s[n] = '\0';
    j->n_text = start;
    return string(s, n);
}

Value jinja_own(Jinja *j, const char *s, size_t n) {
    jinja_write_own(j, s, n);
    return jinja_take(j, j->n_text - n);
}

/* Writes a float as Python does: the shortest digits that give it back, with an
 * exponent below -4 and from 16 on. */
static int print_real(char *to, size_t size, double number) {
    if (!isfinite(number))
        return snprintf(to, size, "%s",
                        isnan(number) ? "nan"
                        : number < 0  ? "-inf"
                                      : "inf");
    int digits = 0;
    do {
        snprintf(to, size, "%.*e", digits, number);
        digits++;
    } while (digits < 17 && strtod(to, NULL) != number);
    int exponent = atoi(strchr(to, 'e') + 1);
    if (exponent < -4 || exponent >= 16)
        return (int)strlen(to);
    int decimals = digits - 1 - exponent;
    return snprintf(to, size, "%.*f", decimals > 1 ? decimals : 1, number);
}

Value value_text(Jinja *j, Value v) {
    char digits[64];
    int n = 0;
    switch (v.kind) {
    case STRING: return v;
    case UNDEFINED: break;
    case NONE: return jinja_own(j, "None", 4);
    case FALSE: return jinja_own(j, "False", 5);
    case TRUE: return jinja_own(j, "True", 4);
    case INTEGER:
        n = snprintf(digits, sizeof digits, "%d", (int)v.number);
        break;
    case FLOAT: n = print_real(digits, sizeof digits, v.real); break;
    case LIST:
    case MAP:
    case NAMESPACE:
    case MACRO:
    case FUNCTION: jinja_stop(j, "prints a list, a map or a macro", undefined);
    }
    return jinja_own(j, digits, n);
}

void jinja_put(Jinja *j, Value v) {
    Value s = value_text(j, v);
    jinja_write(j, s.text, s.n);
}

Value value_concatenate(Jinja *j, Value a, Value b) {
    size_t start = j->n_text;
    jinja_put(j, a);
    jinja_put(j, b);
    return jinja_take(j, start);
}

Value value_join(Jinja *j, Value list, Value separator) {
    size_t start = j->n_text;
    list = value_list(j, list);
    for (size_t i = 0; i < list.n; i++) {
        if (i)
            jinja_put(j, separator);
        jinja_put(j, list.items[i].key);
    }
    return jinja_take(j, start);
}

/* ---- characters, members, slices ---------------------------------------- */

size_t next_character(Jinja *j, Value s, size_t at) {
    size_t n;
    jinja_work(j, 0);
    utf8_read(s.text + at, s.n - at, &n);
    return at + n;
}

Value value_list(Jinja *j, Value v) {
    Value list = empty;
    if (v.kind == MAP)
        return *v.map;
    if (v.kind == LIST)
        return v;
    jinja_refuse_if(j, v.kind != STRING && v.kind != UNDEFINED,
                    "expected a list");
    for (size_t at = 0, next; at < v.n; at = next) {
        next = next_character(j, v, at);
        list_push(j, &list, part(v, at, next));
    }
    return list;
}

int64_t value_count(Jinja *j, Value v) {
    int64_t n = 0;
    if (v.kind != STRING)
        return value_list(j, v).n;
    for (size_t at = 0; at < v.n; at = next_character(j, v, at))
        n++;
    return n;
}

/* Index of an item or a character from `min` to `max`; it may count from the
 * end. */
static int64_t index_in(Jinja *j, Value index, int64_t missing, int64_t n,
                        int64_t min, int64_t max) {
    if (index.kind <= NONE)
        return missing;
    int64_t i = whole_value(j, index);
    if (i < 0)
        i += n;
    if (i < min)
        return min;
    return i > max ? max : i;
}

/* Items or characters [from, to). */
static Value piece(Jinja *j, Value v, int64_t from, int64_t to) {
    int64_t n = to > from ? to - from : 0;
    if (v.kind == LIST) {
        if (n)
            v.items += from;
        v.n = (uint32_t)n;
        return v;
    }
    size_t begin = 0;
    for (int64_t i = 0; i < from; i++)
        begin = next_character(j, v, begin);
    size_t end = begin;
    for (int64_t i = 0; i < n; i++)
        end = next_character(j, v, end);
    return part(v, begin, end);
}

/* Each step-th item from `from` on, up to `to`, which is excluded. */
static Value stride(Jinja *j, Value v, int64_t from, int64_t to, int64_t step) {
    Value all = value_list(j, v), some = empty;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        list_push(j, &some, all.items[i].key);
    return v.kind == STRING ? value_join(j, some, undefined) : some;
}

Value value_slice(Jinja *j, Value v, Value from, Value to, Value step) {
    jinja_refuse_if(j, v.kind != LIST && v.kind != STRING,
                    "a slice of what is no list");
    int64_t n = value_count(j, v),
            by = step.kind <= NONE ? 1 : whole_value(j, step);
    jinja_refuse_if(j, !by, "a slice with a step of 0");
    if (by < 0)
        return stride(j, v, index_in(j, from, n - 1, n, -1, n - 1),
                      index_in(j, to, -1, n, -1, n - 1), by);
    int64_t begin = index_in(j, from, 0, n, 0, n),
            end = index_in(j, to, n, n, 0, n);
    return by > 1 ? stride(j, v, begin, end, by) : piece(j, v, begin, end);
}

Value value_member(Jinja *j, Value v, Value key) {
    jinja_refuse_if(j, v.kind == UNDEFINED, "a member of an undefined value");
    if (v.kind == MAP || v.kind == NAMESPACE) {
        const Item *item = list_find(j, *v.map, key, 0);
        return item ? item->value : undefined;
    }
    if (key.kind != INTEGER || (v.kind != LIST && v.kind != STRING))
        return undefined;
    int64_t n = value_count(j, v), i = key.number + (key.number < 0 ? n : 0);
    if (i < 0 || i >= n)
        return undefined;
    return v.kind == LIST ? v.items[i].key : piece(j, v, i, i + 1);
}
