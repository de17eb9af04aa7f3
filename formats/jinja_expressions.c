/* jinja_expressions.c: reads the words, symbols and expressions of a template.
 *
 * There is no syntax tree: an expression is evaluated while it is read. A part
 * that must not run, such as the right side of `true or x`, is read with `live`
 * false. Macros move the cursor back.
 * Tests: jinja, growth.
 */
#include "formats/jinja_expressions.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "formats/jinja_functions.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- words and symbols -------------------------------------------------- */

static bool is_word(char c) {
    return isalnum((uint8_t)c) || c == '_';
}

void jinja_skip_space(Jinja *j) {
    const char *start = j->cursor;
    while (isspace((uint8_t)*j->cursor))
        j->cursor++;
    jinja_work(j, j->cursor - start);
}

const char *jinja_after(Jinja *j, const char *symbol) {
    jinja_skip_space(j);
    const char *s = j->cursor;
    for (; *symbol && *s == *symbol; symbol++)
        s++;
    return *symbol || (is_word(s[-1]) && is_word(*s)) ? NULL : s;
}

bool jinja_accept(Jinja *j, const char *symbol) {
    const char *end = jinja_after(j, symbol);
    if (!end)
        return false;
    j->cursor = end;
    return true;
}

void jinja_expect(Jinja *j, const char *symbol) {
    if (!jinja_accept(j, symbol))
        jinja_stop(j, "expected ", string_of(symbol));
}

Value jinja_read_name(Jinja *j) {
    jinja_skip_space(j);
    const char *s = j->cursor;
    while (is_word(*j->cursor))
        j->cursor++;
    jinja_work(j, j->cursor - s);
    jinja_refuse_if(j, s == j->cursor || isdigit((uint8_t)*s),
                    "expected a name");
    return string(s, j->cursor - s);
}

/* A macro that names `varargs` or `kwargs` takes more arguments than its
 * parameters. */
static void note_name(Jinja *j, Value name) {
    j->reads_varargs |= value_equal(j, name, string_of("varargs"));
    j->reads_kwargs |= value_equal(j, name, string_of("kwargs"));
}

/* Whether the end of a tag follows. */
static bool at_tag_end(Jinja *j) {
    static const char *const ends[] = {"%}", "}}", "-%}", "+%}", "-}}", "+}}"};
    jinja_skip_space(j);
    if (!*j->cursor || !strchr("%}-+", *j->cursor))
        return false;
    for (size_t i = 0; i < COUNT(ends); i++)
        if (jinja_after(j, ends[i]))
            return true;
    return false;
}

static Value read_string(Jinja *j);

/* Skips a word, which may name an argument of a macro. */
static void skip_word(Jinja *j) {
    const char *start = j->cursor;
    bool is_member = start > j->source && start[-1] == '.';
    while (is_word(*j->cursor))
        j->cursor++;
    jinja_work(j, j->cursor - start);
    if (!is_member)
        note_name(j, string(start, j->cursor - start));
}

/* Skips text up to this bracket; NULL: up to the end of a tag. Returns whether
 * a "=" stands outside of brackets. */
static bool skip_until(Jinja *j, const char *bracket) {
    static const char *const pairs[][2] = {{"(", ")"}, {"[", "]"}, {"{", "}"}};
    bool assigns = false, was_live = j->live;
    jinja_enter(j);
    j->live = false;
    for (;;) {
        jinja_skip_space(j);
        jinja_work(j, 0);
        const char *s = j->cursor;
        bool opens = false;
        if (bracket ? *s == *bracket : at_tag_end(j))
            break;
        jinja_refuse_if(j, !*s || strchr(")]}", *s),
                        bracket ? "brackets that do not match"
                                : "expected %} or }}");
        for (size_t i = 0; i < COUNT(pairs) && !opens; i++)
            if (jinja_accept(j, pairs[i][0])) {
                opens = true;
                skip_until(j, pairs[i][1]);
                jinja_expect(j, pairs[i][1]);
            }
        if (opens)
            continue;
        if (*s == '\'' || *s == '"') {
            read_string(j);
        } else if (is_word(*s)) {
            skip_word(j);
        } else {
            bool compares =
                s[1] == '=' || (s > j->source && strchr("=!<>", s[-1]));
            assigns |= *s == '=' && !compares;
            j->cursor++;
        }
    }
    j->live = was_live;
    j->depth--;
    return assigns;
}

bool jinja_skip_tag(Jinja *j) {
    return skip_until(j, NULL);
}

/* ---- variables, targets and macros -------------------------------------- */

/* How tightly an operator binds, in ascending order. */
typedef enum {
    CONDITIONAL, /* a if b else c */
    OR,
    AND,
    NOT,
    COMPARISON,
    SUM,
    CONCATENATION,
    PRODUCT,
    POWER,
    FILTERED, /* x|f, x is f */
    MEMBER    /* x.f, x[i] */
} Level;

static Value read_level(Jinja *j, Level level, bool runs);

Value jinja_expression(Jinja *j) {
    return read_level(j, CONDITIONAL, true);
}

Value jinja_variable(Jinja *j, Value name) {
    const Item *item = list_find(j, j->scope.variables, name, 0);
    return item ? item->value : undefined;
}

void jinja_open_scope(Jinja *j) {
    Scope *s = &j->scope;
    if (!s->first)
        s->n_globals = s->variables.n;
    s->first = s->variables.n;
}

static bool at_tuple_end(Jinja *j) {
    return jinja_after(j, ")") || jinja_after(j, "in");
}

static Value read_one_target(Jinja *j) {
    if (!jinja_accept(j, "("))
        return jinja_read_name(j);
    jinja_enter(j);
    Value target = jinja_target(j);
    j->depth--;
    jinja_expect(j, ")");
    return target;
}

Value jinja_target(Jinja *j) {
    Value first = read_one_target(j), list = empty;
    if (!jinja_after(j, ","))
        return first;
    list_push(j, &list, first);
    while (jinja_accept(j, ",") && !at_tuple_end(j))
        list_push(j, &list, read_one_target(j));
    return list;
}

void jinja_assign(Jinja *j, Value target, Value value, bool replaces) {
    Scope *s = &j->scope;
    if (target.kind == STRING && replaces) {
        list_set(j, &s->variables, target, value, s->first);
        return;
    }
    if (target.kind == STRING) {
        list_add(j, &s->variables, target, value);
        return;
    }
    value = value_list(j, value);
    jinja_refuse_if(j, value.n != target.n,
                    "another number of values than of names");
    for (size_t i = 0; i < target.n; i++)
        jinja_assign(j, target.items[i].key, value.items[i].key, replaces);
}

void jinja_skip_parameters(Jinja *j) {
    skip_until(j, ")");
    jinja_expect(j, ")");
}

/* Reads the parameters of a macro, up to ")", and makes them variables.
 * `given`: a list of arguments; `used` marks those that a parameter takes. */
static void read_parameters(Jinja *j, Value given, bool *used) {
    for (size_t i = 0; !jinja_accept(j, ")"); i++) {
        Value name = jinja_read_name(j);
        const Item *item = i < given.n && !given.items[i].key.kind
                               ? &given.items[i]
                               : list_find(j, given, name, 0);
        Value missing = undefined;
        if (jinja_accept(j, "="))
            missing = read_level(j, CONDITIONAL, !item);
        if (item)
            used[item - given.items] = true;
        list_add(j, &j->scope.variables, name, item ? item->value : missing);
        if (!jinja_after(j, ")"))
            jinja_expect(j, ",");
    }
}

/* Arguments that no parameter takes become varargs and kwargs. */
static void take_others(Jinja *j, const Macro *macro, Value given,
                        const bool *used) {
    Value *variables = &j->scope.variables, others = empty, named = empty;
    for (size_t i = 0; i < given.n; i++) {
        Item argument = given.items[i];
        if (used[i])
            continue;
        bool is_named = argument.key.kind == STRING;
        jinja_refuse_if(j,
                        is_named ? !macro->takes_kwargs : !macro->takes_varargs,
                        "more arguments than the macro has parameters");
        if (is_named)
            list_add(j, &named, argument.key, argument.value);
        else
            list_push(j, &others, argument.value);
    }
    if (macro->takes_varargs)
        list_define(j, variables, "varargs", others);
    if (macro->takes_kwargs)
        list_define(j, variables, "kwargs", map_of(j, MAP, named));
}

static Value call_macro(Jinja *j, const Macro *macro, Value given) {
    const char *after = j->cursor;
    size_t start = j->n_text;
    Scope outer = j->scope, *s = &j->scope;
    bool *used = jinja_memory(j, given.n + 1);
    memset(used, false, given.n + 1);
    jinja_open_scope(j);
    /* list_add() copies them */
    s->variables.room = s->variables.n = s->first = s->n_globals;
    j->cursor = macro->parameters;
    read_parameters(j, given, used);
    take_others(j, macro, given, used);
    j->run_block(j, true);
    j->scope = outer;
    j->cursor = after;
    return jinja_take(j, start);
}

/* ---- literals ----------------------------------------------------------- */

static int digit_of(char c) {
    if (isdigit((uint8_t)c))
        return c - '0';
    return isxdigit((uint8_t)c) ? tolower((uint8_t)c) - 'a' + 10 : 16;
}

/* Writes a character, given by n digits of this base. */
static void write_code(Jinja *j, const char *digits, size_t n, int base) {
    uint32_t code = 0;
    char utf8[4];
    for (size_t i = 0; i < n; i++) {
        int digit = digit_of(digits[i]);
        jinja_refuse_if(j, digit >= base, "an unsupported escape");
        code = code * (uint32_t)base + (uint32_t)digit;
    }
    jinja_refuse_if(j, code > 0x10ffff || (code >= 0xd800 && code < 0xe000),
                    "an unsupported escape");
    jinja_write_own(j, utf8, utf8_encode(utf8, code));
}

/* The number of hexadecimal digits after this letter of an escape; 0: it takes
 * none. */
static size_t hex_digits(char letter) {
    switch (letter) {
    case 'x': return 2;
    case 'u': return 4;
    case 'U': return 8;
    default: return 0;
    }
}

/* Reads what follows a backslash, as Python does. */
static void read_escape(Jinja *j) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char *s = j->cursor, *simple = strchr(from, *s);
    const size_t n_hex = hex_digits(*s);
    j->cursor++;
    if (simple && *s) {
        jinja_write_own(j, to + (simple - from), 1);
    } else if (n_hex) {
        write_code(j, j->cursor, n_hex, 16);
        j->cursor += n_hex;
    } else if (digit_of(*s) < 8) {
        size_t n = 1;
        while (n < 3 && digit_of(s[n]) < 8)
            n++;
        write_code(j, s, n, 8);
        j->cursor = s + n;
    } else if (*s != '\n') {
        jinja_write_own(j, s - 1, 2);
    }
}

/* Reads adjacent strings in quotes. */
static Value read_string(Jinja *j) {
    size_t start = j->n_text;
    do {
        char quote = *j->cursor++;
        while (*j->cursor != quote) {
            jinja_work(j, 0);
            const char *s = j->cursor++;
            jinja_refuse_if(j, !*s || (*s == '\\' && !s[1]),
                            "a string without an end");
            if (*s == '\\' && j->live)
                read_escape(j);
            else if (*s == '\\')
                j->cursor++;
            else if (j->live)
                jinja_write_own(j, s, 1);
        }
        j->cursor++;
    } while (jinja_after(j, "'") || jinja_after(j, "\""));
    return j->live ? jinja_take(j, start) : undefined;
}

/* Copies digits without the "_" between them. Returns the end. */
static const char *copy_digits(const char *from, char *to, size_t *n,
                               size_t size) {
    for (; isdigit((uint8_t)*from) || (*from == '_' && is_word(from[1]));
         from++)
        if (*from != '_' && *n + 1 < size)
            to[(*n)++] = *from;
    return from;
}

/* Reads 12, 1_000, 1.5 or 1e5. */
static Value read_number(Jinja *j) {
    char digits[400];
    size_t n = 0;
    const char *s = copy_digits(j->cursor, digits, &n, sizeof digits - 8);
    bool is_real = *s == '.' && isdigit((uint8_t)s[1]);
    if (is_real) {
        digits[n++] = '.';
        s = copy_digits(s + 1, digits, &n, sizeof digits - 6);
    }
    size_t sign = s[0] && (s[1] == '-' || s[1] == '+');
    if ((*s == 'e' || *s == 'E') && isdigit((uint8_t)s[1 + sign])) {
        is_real = true;
        digits[n++] = 'e';
        if (sign)
            digits[n++] = s[1];
        s = copy_digits(s + 1 + sign, digits, &n, sizeof digits);
    }
    digits[n] = '\0';
    jinja_work(j, s - j->cursor);
    j->cursor = s;
    if (!j->live)
        return undefined;
    return is_real ? real(strtod(digits, NULL))
                   : integer_value(j, strtoll(digits, NULL, 10));
}

/* Reads the items of a list or a tuple; in parentheses, one without a comma is
 * no tuple. */
static Value read_list(Jinja *j, const char *end) {
    Value items = empty;
    while (!jinja_accept(j, end)) {
        Value value = jinja_expression(j);
        if (*end == ')' && !items.n && jinja_accept(j, end))
            return value;
        if (j->live)
            list_push(j, &items, value);
        if (!jinja_after(j, end))
            jinja_expect(j, ",");
    }
    return items;
}

static Value read_map(Jinja *j) {
    Value items = empty;
    while (!jinja_accept(j, "}")) {
        Value key = jinja_expression(j);
        jinja_expect(j, ":");
        Value value = jinja_expression(j);
        if (j->live)
            list_set(j, &items, key, value, 0);
        if (!jinja_after(j, "}"))
            jinja_expect(j, ",");
    }
    return map_of(j, MAP, items);
}

/* Reads arguments up to ")". The key of a keyword argument is its name. */
static Value read_arguments(Jinja *j) {
    Value items = empty;
    while (!jinja_accept(j, ")")) {
        const char *start = j->cursor;
        Value key = undefined;
        jinja_skip_space(j);
        if (is_word(*j->cursor) && !isdigit((uint8_t)*j->cursor))
            key = jinja_read_name(j);
        bool is_named =
            key.kind && jinja_after(j, "=") && !jinja_after(j, "==");
        if (is_named) {
            jinja_expect(j, "=");
            jinja_refuse_if(j, list_find(j, items, key, 0),
                            "an argument is given twice");
        } else {
            j->cursor = start;
            key = undefined;
            jinja_refuse_if(j, items.n && items.items[items.n - 1].key.kind,
                            "an argument without a name after one with a name");
        }
        Value value = jinja_expression(j);
        if (j->live)
            list_add(j, &items, key, value);
        if (!jinja_after(j, ")"))
            jinja_expect(j, ",");
    }
    return items;
}

/* Reads a name, and arguments in parentheses: a variable or a function. */
static Value read_variable(Jinja *j) {
    Value name = jinja_read_name(j);
    note_name(j, name);
    if (!jinja_accept(j, "("))
        return j->live ? jinja_variable(j, name) : undefined;
    Value given = read_arguments(j);
    if (!j->live)
        return undefined;
    Value called = jinja_variable(j, name);
    return called.kind == MACRO ? call_macro(j, called.macro, given)
                                : function_call(j, GLOBAL, name, called, given);
}

static Value read_primary(Jinja *j) {
    if (jinja_accept(j, "("))
        return read_list(j, ")");
    if (jinja_accept(j, "["))
        return read_list(j, "]");
    if (jinja_accept(j, "{"))
        return read_map(j);
    if (jinja_after(j, "'") || jinja_after(j, "\""))
        return read_string(j);
    if (isdigit((uint8_t)*j->cursor))
        return read_number(j);
    if (jinja_accept(j, "true") || jinja_accept(j, "True"))
        return boolean(true);
    if (jinja_accept(j, "false") || jinja_accept(j, "False"))
        return boolean(false);
    if (jinja_accept(j, "none") || jinja_accept(j, "None"))
        return none;
    return read_variable(j);
}

/* ---- operators ---------------------------------------------------------- */

typedef enum {
    IS_EQUAL,
    IS_UNEQUAL,
    IS_LESS,
    IS_GREATER,
    IS_LESS_OR_EQUAL,
    IS_GREATER_OR_EQUAL,
    IS_IN,
    IS_NOT_IN,
    EITHER,
    BOTH,
    PLUS,
    MINUS,
    TIMES,
    DIVIDED,
    DIVIDED_DOWN, /* rounded towards minus infinity */
    MODULO,
    RAISED,
    JOINED,
    TO_FILTER,
    TO_TEST,
    TO_MEMBER,
    TO_INDEX
} Operation;

/* What follows an operand. Symbols that begin with others stand before
 * them. */
typedef struct {
    const char *symbol;
    Level level;
    Operation operation;
} Operator;

static const Operator OPERATORS[] = {{"or", OR, EITHER},
                                     {"and", AND, BOTH},
                                     {"==", COMPARISON, IS_EQUAL},
                                     {"!=", COMPARISON, IS_UNEQUAL},
                                     {"<=", COMPARISON, IS_LESS_OR_EQUAL},
                                     {">=", COMPARISON, IS_GREATER_OR_EQUAL},
                                     {"<", COMPARISON, IS_LESS},
                                     {">", COMPARISON, IS_GREATER},
                                     {"not", COMPARISON, IS_NOT_IN},
                                     {"in", COMPARISON, IS_IN},
                                     {"+", SUM, PLUS},
                                     {"-", SUM, MINUS},
                                     {"~", CONCATENATION, JOINED},
                                     {"**", POWER, RAISED},
                                     {"*", PRODUCT, TIMES},
                                     {"%", PRODUCT, MODULO},
                                     {"//", PRODUCT, DIVIDED_DOWN},
                                     {"/", PRODUCT, DIVIDED},
                                     {"|", FILTERED, TO_FILTER},
                                     {"is", FILTERED, TO_TEST},
                                     {".", MEMBER, TO_MEMBER},
                                     {"[", MEMBER, TO_INDEX}};

static bool compare(Jinja *j, Operation operation, Value a, Value b) {
    if (operation == IS_EQUAL || operation == IS_UNEQUAL)
        return value_equal(j, a, b) == (operation == IS_EQUAL);
    if (operation == IS_IN || operation == IS_NOT_IN)
        return value_contains(j, b, a) == (operation == IS_IN);
    int order = value_compare(j, a, b);
    if (operation == IS_LESS)
        return order < 0;
    if (operation == IS_GREATER)
        return order > 0;
    return operation == IS_LESS_OR_EQUAL ? order <= 0 : order >= 0;
}

static Value power(Jinja *j, int64_t base, int64_t exponent) {
    int64_t result = 1;
    if (exponent < 0)
        return real(pow((double)base, (double)exponent));
    if (base == 0 || base == 1)
        return integer_value(j, exponent ? base : 1);
    if (base == -1)
        return integer_value(j, exponent % 2 ? -1 : 1);
    for (; exponent; exponent--) {
        result *= base;
        integer_value(j, result); /* ends the loop soon */
    }
    return integer_value(j, result);
}

static Value calculate_whole(Jinja *j, Operation operation, int64_t x,
                             int64_t y) {
    if (operation == PLUS)
        return integer_value(j, x + y);
    if (operation == MINUS)
        return integer_value(j, x - y);
    if (operation == TIMES)
        return integer_value(j, x * y);
    if (operation == RAISED)
        return power(j, x, y);
    if (!y) /* static analysis follows this, not jinja_refuse_if() */
        jinja_stop(j, "divides by zero", undefined);
    if (operation == DIVIDED)
        return real((double)x / (double)y);
    int64_t rest = (x % y + y) % y; /* has the sign of y */
    return integer_value(j, operation == MODULO ? rest : (x - rest) / y);
}

static Value calculate_real(Jinja *j, Operation operation, double x, double y) {
    if (operation == PLUS)
        return real(x + y);
    if (operation == MINUS)
        return real(x - y);
    if (operation == TIMES)
        return real(x * y);
    if (operation == RAISED)
        return real(pow(x, y));
    jinja_refuse_if(j, y == 0, "divides by zero");
    if (operation == DIVIDED)
        return real(x / y);
    if (operation == DIVIDED_DOWN)
        return real(floor(x / y));
    double rest = fmod(x, y);
    return real(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
}

/* A string or a list, `times` times. */
static Value repeat(Jinja *j, Value v, int64_t times) {
    size_t start = j->n_text;
    Value list = empty;
    for (int64_t i = 0; i < times; i++) {
        if (v.kind == STRING)
            jinja_write(j, v.text, v.n);
        for (size_t k = 0; v.kind == LIST && k < v.n; k++)
            list_push(j, &list, v.items[k].key);
        jinja_work(j, 0);
    }
    return v.kind == STRING ? jinja_take(j, start) : list;
}

static Value add_lists(Jinja *j, Value a, Value b) {
    a.room = a.n; /* list_push() copies it */
    for (size_t i = 0; i < b.n; i++)
        list_push(j, &a, b.items[i].key);
    return a;
}

static Value calculate(Jinja *j, Operation operation, Value a, Value b) {
    bool are_strings = a.kind == STRING && b.kind == STRING;
    if (operation == JOINED || (operation == PLUS && are_strings))
        return value_concatenate(j, a, b);
    if (operation == PLUS && a.kind == LIST && b.kind == LIST)
        return add_lists(j, a, b);
    if (operation == TIMES && (a.kind == STRING || a.kind == LIST))
        return repeat(j, a, whole_value(j, b));
    if (operation == TIMES && (b.kind == STRING || b.kind == LIST))
        return repeat(j, b, whole_value(j, a));
    if (operation == MODULO && a.kind == STRING)
        return function_percent(j, a, b);
    double x = real_value(j, a), y = real_value(j, b);
    if (a.kind == FLOAT || b.kind == FLOAT)
        return calculate_real(j, operation, x, y);
    return calculate_whole(j, operation, a.number, b.number);
}

/* ---- expressions -------------------------------------------------------- */

/* Reads index], from:to] or from:to:step]. */
static Value read_subscript(Jinja *j, Value v) {
    Value from = undefined, to = undefined, step = undefined;
    if (!jinja_after(j, ":"))
        from = jinja_expression(j);
    bool is_slice = jinja_accept(j, ":");
    if (is_slice && !jinja_after(j, ":") && !jinja_after(j, "]"))
        to = jinja_expression(j);
    if (is_slice && jinja_accept(j, ":") && !jinja_after(j, "]"))
        step = jinja_expression(j);
    jinja_expect(j, "]");
    if (!j->live)
        return undefined;
    return is_slice ? value_slice(j, v, from, to, step)
                    : value_member(j, v, from);
}

static Value read_member(Jinja *j, Value v) {
    if (isdigit((uint8_t)*j->cursor)) {
        Value index = read_number(j);
        return j->live ? value_member(j, v, index) : undefined;
    }
    Value name = jinja_read_name(j);
    if (!jinja_accept(j, "("))
        return j->live ? value_member(j, v, name) : undefined;
    Value given = read_arguments(j);
    Use use = v.kind == MAP ? MAP_METHOD : STRING_METHOD;
    return j->live ? function_call(j, use, name, v, given) : undefined;
}

static Value read_filter(Jinja *j, Value v) {
    Value name = jinja_read_name(j), given = empty;
    if (jinja_accept(j, "("))
        given = read_arguments(j);
    return j->live ? function_call(j, FILTER, name, v, given) : undefined;
}

/* Whether a value follows a test without parentheses: x is eq 1. */
static bool at_argument(Jinja *j) {
    static const char *const others[] = {"else", "or", "and", "is",
                                         "if",   "in", "not"};
    jinja_skip_space(j);
    for (size_t i = 0; i < COUNT(others); i++)
        if (jinja_after(j, others[i]))
            return false;
    return is_word(*j->cursor) || (*j->cursor && strchr("'\"[{", *j->cursor));
}

static Value read_test(Jinja *j, Value v) {
    bool is_negated = jinja_accept(j, "not");
    Value name = jinja_read_name(j), given = empty;
    if (jinja_accept(j, "("))
        given = read_arguments(j);
    else if (at_argument(j))
        list_add(j, &given, undefined, read_level(j, MEMBER, true));
    if (!j->live)
        return undefined;
    bool passes = value_is_true(function_call(j, TEST, name, v, given));
    return boolean(passes != is_negated);
}

/* Reads an operator of this level or a higher one. Returns NULL if none
 * follows: at the end of a tag, "-", "+" and "%" are not operators. */
static const Operator *read_operator(Jinja *j, Level level) {
    EACH(const Operator, o, OPERATORS, COUNT(OPERATORS)) {
        const char *end = o->level >= level ? jinja_after(j, o->symbol) : NULL;
        if (!end || strchr("%}", *end))
            continue;
        jinja_accept(j, o->symbol);
        if (o->operation == IS_NOT_IN)
            jinja_expect(j, "in");
        return o;
    }
    return NULL;
}

/* Reads what follows `or` or `and`. It runs only if it decides. */
static Value read_logic(Jinja *j, const Operator *o, Value left) {
    bool is_decided = value_is_true(left) == (o->operation == EITHER);
    Value right = read_level(j, o->level + 1, !is_decided);
    return is_decided ? left : right;
}

/* Reads b, or b < c and so on after a <, which means a < b and b < c. */
static Value read_comparison(Jinja *j, const Operator *o, Value left) {
    bool holds = true;
    for (; o; o = read_operator(j, COMPARISON)) {
        Value right = read_level(j, COMPARISON + 1, holds);
        if (j->live && holds)
            holds = compare(j, o->operation, left, right);
        left = right;
    }
    return boolean(holds);
}

/* Reads what follows an operator, and applies it. */
static Value read_right(Jinja *j, const Operator *o, Value left) {
    if (o->operation == TO_INDEX)
        return read_subscript(j, left);
    if (o->operation == TO_MEMBER)
        return read_member(j, left);
    if (o->operation == TO_FILTER)
        return read_filter(j, left);
    if (o->operation == TO_TEST)
        return read_test(j, left);
    if (o->level == OR || o->level == AND)
        return read_logic(j, o, left);
    if (o->level == COMPARISON)
        return read_comparison(j, o, left);
    Value right = read_level(j, o->level + 1, true);
    return j->live ? calculate(j, o->operation, left, right) : undefined;
}

static Value read_operand(Jinja *j, Level level) {
    if (level <= NOT && jinja_accept(j, "not")) {
        jinja_enter(j);
        Value v = read_level(j, NOT, true);
        j->depth--;
        return boolean(!value_is_true(v));
    }
    bool is_negative = level < MEMBER && jinja_accept(j, "-"),
         is_positive = level < MEMBER && !is_negative && jinja_accept(j, "+");
    if (!is_negative && !is_positive)
        return read_primary(j);
    jinja_enter(j);
    Value v = read_operand(j, POWER);
    const Operator *o;
    while ((o = read_operator(j, MEMBER)))
        v = read_right(j, o, v);
    j->depth--;
    if (!j->live)
        return undefined;
    return calculate(j, is_negative ? MINUS : PLUS, integer_value(j, 0), v);
}

static Value read_operation(Jinja *j, Level level) {
    Value v = read_operand(j, level);
    const Operator *o;
    while ((o = read_operator(j, level)))
        v = read_right(j, o, v);
    return v;
}

/* Reads `a if condition else b`. The condition follows a, so a is read
 * twice. */
static Value read_conditional(Jinja *j) {
    const char *start = j->cursor;
    Value result = undefined;
    jinja_enter(j);
    read_level(j, OR, false);
    bool has_condition = jinja_accept(j, "if"), is_chosen = true;
    if (has_condition)
        is_chosen = value_is_true(read_level(j, OR, true));
    if (has_condition && jinja_accept(j, "else"))
        result = read_level(j, CONDITIONAL, !is_chosen);
    if (j->live && is_chosen) {
        const char *end = j->cursor;
        j->cursor = start;
        result = read_operation(j, OR);
        j->cursor = end;
    }
    j->depth--;
    return result;
}

/* Reads an expression of operators of this level and higher ones. Returns its
 * value if it runs, else undefined. */
static Value read_level(Jinja *j, Level level, bool runs) {
    bool was_live = j->live;
    j->live &= runs;
    Value v =
        level == CONDITIONAL ? read_conditional(j) : read_operation(j, level);
    runs = j->live;
    j->live = was_live;
    return runs ? v : undefined;
}

Value jinja_tuple(Jinja *j, bool has_condition) {
    Level level = has_condition ? CONDITIONAL : OR;
    Value first = read_level(j, level, true), list = empty;
    if (!jinja_after(j, ","))
        return first;
    list_push(j, &list, first);
    while (jinja_accept(j, ",") && !at_tag_end(j))
        list_push(j, &list, read_level(j, level, true));
    return list;
}
