/* jinja_functions.c: the functions, filters, methods and tests of templates.
 *
 * Owns the table FUNCTIONS: names, parameters, what they do.
 * Tests: jinja, growth.
 */
#include "formats/jinja_functions.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/utf8.h"
#include "text/pretokenize.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PARAMETERS = 3 };

/* The call that runs. */
typedef struct {
    Jinja *j;
    const struct Function *function;
    Value self;
    Value args[MAX_PARAMETERS]; /* undefined: not given */
    bool is_given[MAX_PARAMETERS];
    Value all; /* all arguments, as they were given */
} Call;

static Value string_arg(const Call *c, int i) {
    jinja_refuse_if(c->j, c->args[i].kind != STRING,
                    "an argument is no string");
    return c->args[i];
}

/* ---- strings ------------------------------------------------------------ */

/* Options of functions that share their code. */
enum { LEFT = 1, RIGHT = 2 };
enum { AT_START, AT_END };
enum { LOWER, UPPER, CAPITALIZE, TITLE };

/* Whether a character is in the argument or, without one, white space. */
static bool is_stripped(const Call *c, Value character) {
    size_t n;
    jinja_work(c->j, 0);
    return c->args[0].kind > NONE
               ? value_contains(c->j, string_arg(c, 0), character)
               : is_white_space(utf8_read(character.text, character.n, &n));
}

static int option_of(const Call *c);

static Value strip(Call *c) {
    Value s = value_text(c->j, c->self);
    size_t from = 0, to = s.n;
    for (size_t next; option_of(c) & LEFT && from < to; from = next) {
        next = next_character(c->j, s, from);
        if (!is_stripped(c, part(s, from, next)))
            break;
    }
    for (size_t last; option_of(c) & RIGHT && from < to; to = last) {
        last = to - utf8_before(s.text + to, s.text + from);
        if (!is_stripped(c, part(s, last, to)))
            break;
    }
    return part(s, from, to);
}

static Value to_string(Call *c) {
    return value_text(c->j, c->self);
}

/* Splits at the separator, at most `max` times; -1: no limit. */
static Value split_at(Jinja *j, Value rest, Value separator, int64_t max) {
    Value list = empty;
    jinja_refuse_if(j, !separator.n, "an empty separator");
    jinja_work(j, rest.n);
    for (; max; max--) {
        const char *at = memmem(rest.text, rest.n, separator.text, separator.n);
        if (!at)
            break;
        size_t n = at - rest.text;
        list_push(j, &list, part(rest, 0, n));
        rest = part(rest, n + separator.n, rest.n);
    }
    list_push(j, &list, rest);
    return list;
}

/* The words between white space. */
static Value split_words(Jinja *j, Value s) {
    Value list = empty;
    size_t begin = 0;
    for (size_t at = 0, next; at < s.n; at = next) {
        size_t n;
        next = next_character(j, s, at);
        if (!is_white_space(utf8_read(s.text + at, s.n - at, &n)))
            continue;
        if (at > begin)
            list_push(j, &list, part(s, begin, at));
        begin = next;
    }
    if (s.n > begin)
        list_push(j, &list, part(s, begin, s.n));
    return list;
}

static int64_t max_arg(const Call *c, int i) {
    return c->is_given[i] ? whole_value(c->j, c->args[i]) : -1;
}

static Value split(Call *c) {
    if (c->args[0].kind > NONE)
        return split_at(c->j, c->self, string_arg(c, 0), max_arg(c, 1));
    jinja_refuse_if(c->j, c->is_given[1],
                    "unsupported: split with maxsplit and no separator");
    return split_words(c->j, c->self);
}

static Value replace(Call *c) {
    Value text = value_text(c->j, c->self);
    return value_join(c->j,
                      split_at(c->j, text, string_arg(c, 0), max_arg(c, 2)),
                      string_arg(c, 1));
}

/* separator.join(list) */
static Value join_method(Call *c) {
    Value list = value_list(c->j, c->args[0]);
    for (size_t i = 0; i < list.n; i++)
        jinja_refuse_if(c->j, list.items[i].key.kind != STRING,
                        "joins what is no string");
    return value_join(c->j, list, c->self);
}

/* The members of this name. */
static Value members_of(Jinja *j, Value list, Value name) {
    Value members = empty;
    list = value_list(j, list);
    for (size_t i = 0; i < list.n; i++)
        list_push(j, &members, value_member(j, list.items[i].key, name));
    return members;
}

/* list|join(separator, attribute) */
static Value join_filter(Call *c) {
    Value list =
        c->is_given[1] ? members_of(c->j, c->self, string_arg(c, 1)) : c->self;
    return value_join(c->j, list, c->args[0]);
}

static char cased(int how, char c, bool is_first, bool begins_word) {
    bool upper = how == UPPER || (how == CAPITALIZE && is_first) ||
                 (how == TITLE && (is_first || begins_word));
    return (char)(upper ? toupper(c) : tolower(c));
}

static Value change_case(Call *c) {
    Jinja *j = c->j;
    int how = option_of(c);
    size_t start = j->n_text;
    jinja_put(j, c->self);
    jinja_work(j, j->n_text - start);
    for (size_t i = start; i < j->n_text; i++) {
        char *at = j->text + i;
        bool begins = i > start && !isalpha((uint8_t)at[-1]);
        jinja_refuse_if(j, (uint8_t)*at >= 0x80,
                        "changes the case of a character outside ASCII");
        /* elsewhere the filter and the method differ */
        jinja_refuse_if(j,
                        how == TITLE && begins && isalpha((uint8_t)*at) &&
                            !isspace((uint8_t)at[-1]),
                        "unsupported title");
        *at = cased(how, *at, i == start, begins);
    }
    return jinja_take(j, start);
}

/* startswith, or endswith at AT_END. */
static Value starts_with(Call *c) {
    Value s = c->self, prefix = string_arg(c, 0);
    size_t from = option_of(c) == AT_END ? s.n - prefix.n : 0;
    return boolean(s.n >= prefix.n &&
                   value_equal(c->j, part(s, from, from + prefix.n), prefix));
}

/* "%s: %d" with values; %s, %d, %i and %% are supported. */
static Value format_percent(Jinja *j, Value format, Value values) {
    size_t start = j->n_text, used = 0;
    for (size_t at = 0, end; at < format.n; at = end) {
        const char *percent = memchr(format.text + at, '%', format.n - at);
        end = percent ? (size_t)(percent - format.text) : format.n;
        jinja_work(j, end - at);
        jinja_write(j, format.text + at, end - at);
        if (!percent)
            break;
        char kind = end + 1 < format.n ? percent[1] : '\0';
        end += 2;
        if (kind == '%') {
            jinja_write(j, percent, 1);
            continue;
        }
        jinja_refuse_if(j, kind != 's' && kind != 'd' && kind != 'i',
                        "unsupported in a format: other than %s, %d and %%");
        jinja_refuse_if(j, used == values.n, "a format has too few values");
        Value v = values.items[used++].value;
        if (kind != 's')
            v = integer_value(j, (int64_t)real_value(j, v));
        jinja_put(j, v);
    }
    jinja_refuse_if(j, used < values.n, "a format has too many values");
    return jinja_take(j, start);
}

Value function_percent(Jinja *j, Value format, Value value) {
    Value values = empty;
    if (value.kind == LIST)
        values = value;
    else
        list_push(j, &values, value);
    return format_percent(j, format, values);
}

static Value format_filter(Call *c) {
    return format_percent(c->j, value_text(c->j, c->self), c->all);
}

/* The value that a field of str.format() names: "", a number or a keyword. */
static Value field_value(Jinja *j, Value name, Value values, uint32_t *next) {
    uint32_t i = *next;
    if (!name.n) {
        ++*next;
    } else if (isdigit((uint8_t)*name.text)) {
        i = (uint32_t)strtoul(name.text, NULL, 10);
    } else {
        const Item *item = list_find(j, values, name, 0);
        if (item)
            return item->value;
        jinja_stop(j, "a format has no value ", name);
    }
    jinja_refuse_if(j, i >= values.n || values.items[i].key.kind == STRING,
                    "a format has too few values");
    return values.items[i].value;
}

/* "{} {0} {name}".format(...) */
static Value format_braces(Call *c) {
    Jinja *j = c->j;
    Value s = c->self;
    size_t start = j->n_text;
    uint32_t next = 0;
    for (size_t at = 0; at < s.n; at++) {
        const char *from = s.text + at;
        bool is_double = at + 1 < s.n && from[1] == *from;
        jinja_work(j, 0);
        if (*from != '{' && *from != '}') {
            jinja_write(j, from, 1);
        } else if (is_double) {
            jinja_write(j, from, 1);
            at++;
        } else {
            const char *end = memchr(from, '}', s.n - at);
            jinja_refuse_if(j, *from == '}' || !end,
                            "a format has a single brace");
            Value name = string(from + 1, end - from - 1);
            for (size_t i = 0; i < name.n; i++)
                jinja_refuse_if(
                    j, !isalnum((uint8_t)name.text[i]) && name.text[i] != '_',
                    "unsupported field of a format");
            jinja_put(j, field_value(j, name, c->all, &next));
            at += name.n + 1;
        }
    }
    return jinja_take(j, start);
}

/* ---- numbers ------------------------------------------------------------ */

/* Reads a string of digits with a sign, as Python's int(); false: another
 * text. */
static bool read_digits(Value s, int base, int64_t *to) {
    char *end;
    if (!s.n || s.n > 32 || !isalnum((uint8_t)s.text[s.n - 1]))
        return false;
    char digits[40];
    snprintf(digits, sizeof digits, "%.*s", (int)s.n, s.text);
    *to = strtoll(digits, &end, base);
    return !*end;
}

static bool read_real(Value s, double *to) {
    char digits[64], *end;
    if (!s.n || s.n >= sizeof digits || strspn(s.text, "0123456789+-.eE") < s.n)
        return false;
    snprintf(digits, sizeof digits, "%.*s", (int)s.n, s.text);
    *to = strtod(digits, &end);
    return !*end;
}

/* int(default, base): of a number or a string; the default of others. */
static Value to_integer(Call *c) {
    Value other = c->is_given[0] ? c->args[0] : integer_value(c->j, 0),
          s = c->self;
    int64_t number = 0,
            base = c->is_given[1] ? whole_value(c->j, c->args[1]) : 10;
    double value = 0;
    jinja_refuse_if(c->j, s.kind == UNDEFINED, "int of an undefined value");
    jinja_refuse_if(c->j, base < 2 || base > 36, "an unsupported base");
    if (is_number(s)) {
        value = real_value(c->j, s);
        return isfinite(value) ? integer_value(c->j, (int64_t)value) : other;
    }
    if (s.kind != STRING)
        return other;
    s = strip(&(Call){.j = c->j, .function = c->function, .self = s});
    if (read_digits(s, (int)base, &number))
        return integer_value(c->j, number);
    return read_real(s, &value) && fabs(value) < 1e18
               ? integer_value(c->j, (int64_t)value)
               : other;
}

/* float(default) */
static Value to_real(Call *c) {
    double value;
    if (is_number(c->self))
        return real(real_value(c->j, c->self));
    jinja_refuse_if(c->j, c->self.kind == UNDEFINED,
                    "float of an undefined value");
    if (c->self.kind == STRING && read_real(c->self, &value))
        return real(value);
    return c->is_given[0] ? c->args[0] : real(0);
}

static Value absolute(Call *c) {
    if (c->self.kind == FLOAT)
        return real(fabs(c->self.real));
    int64_t number = whole_value(c->j, c->self);
    return integer_value(c->j, number < 0 ? -number : number);
}

static Value range(Call *c) {
    Jinja *j = c->j;
    int64_t from = whole_value(j, c->args[0]), to = from,
            step = c->is_given[2] ? whole_value(j, c->args[2]) : 1;
    if (c->is_given[1])
        to = whole_value(j, c->args[1]);
    else
        from = 0;
    Value list = empty;
    jinja_refuse_if(j, !step, "a range with a step of 0");
    for (int64_t i = from; step < 0 ? i > to : i < to; i += step)
        list_push(j, &list, integer_value(j, i));
    return list;
}

/* ---- lists and maps ----------------------------------------------------- */

static Value length(Call *c) {
    return integer_value(c->j, value_count(c->j, c->self));
}

static Value to_list(Call *c) {
    return value_list(c->j, c->self);
}

static Value reverse(Call *c) {
    Value minus_one = integer_value(c->j, -1),
          from = c->self.kind == STRING ? c->self : value_list(c->j, c->self);
    return value_slice(c->j, from, undefined, undefined, minus_one);
}

/* first, or last at AT_END. */
static Value end_item(Call *c) {
    Value from = c->self.kind == STRING ? c->self : value_list(c->j, c->self);
    return value_member(c->j, from,
                        integer_value(c->j, option_of(c) == AT_END ? -1 : 0));
}

static Value or_default(Call *c) {
    bool replaces = c->self.kind == UNDEFINED ||
                    (value_is_true(c->args[1]) && !value_is_true(c->self));
    if (!replaces)
        return c->self;
    return c->is_given[0] ? c->args[0] : jinja_own(c->j, "", 0);
}

/* map.get(key, default) */
static Value get(Call *c) {
    const Item *item = list_find(c->j, *c->self.map, c->args[0], 0);
    if (item)
        return item->value;
    return c->is_given[1] ? c->args[1] : none;
}

/* The pairs (key, value), the keys or the values. */
enum { PAIRS, KEYS, VALUES };
static Value items_of(Call *c) {
    Value list = empty;
    jinja_refuse_if(c->j, c->self.kind > NONE && c->self.kind != MAP,
                    "items of what is no map");
    for (size_t i = 0; c->self.kind == MAP && i < c->self.map->n; i++) {
        const Item *item = c->self.map->items + i;
        Value pair = empty;
        if (option_of(c) == PAIRS) {
            list_push(c->j, &pair, item->key);
            list_push(c->j, &pair, item->value);
        }
        list_push(c->j, &list,
                  option_of(c) == PAIRS  ? pair
                  : option_of(c) == KEYS ? item->key
                                         : item->value);
    }
    return list;
}

/* A string in lower case, as far as ASCII goes. */
static Value lower(Jinja *j, Value s, bool is_sensitive) {
    size_t start = j->n_text;
    if (s.kind != STRING || is_sensitive)
        return s;
    jinja_write(j, s.text, s.n);
    jinja_work(j, s.n);
    for (size_t i = start; i < j->n_text; i++)
        j->text[i] = (char)tolower((uint8_t)j->text[i]);
    return jinja_take(j, start);
}

/* dictsort(case_sensitive, by, reverse): the pairs in order, by merging. */
static Value sort_items(Call *c) {
    Jinja *j = c->j;
    bool by_value = c->is_given[1] &&
                    value_equal(j, string_arg(c, 1), string_of("value")),
         falls = value_is_true(c->args[2]);
    jinja_refuse_if(j, c->self.kind != MAP, "dictsort of what is no map");
    Value pairs = items_of(c), sorted = empty;
    for (size_t i = 0; i < pairs.n; i++) /* their keys order them */
        pairs.items[i].key = lower(j, pairs.items[i].value.items[by_value].key,
                                   value_is_true(c->args[0]));
    if (pairs.n)
        sorted.items = jinja_memory(j, pairs.n * sizeof(Item));
    for (size_t run = 1; run < pairs.n; run *= 2) {
        for (size_t at = 0; at < pairs.n; at += 2 * run) {
            size_t half = min_size(at + run, pairs.n), a = at, b = half,
                   end = min_size(at + 2 * run, pairs.n);
            for (size_t to = at; to < end; to++) {
                int order = a < half && b < end
                                ? value_compare(j, pairs.items[a].key,
                                                pairs.items[b].key)
                                : 0;
                bool second =
                    a == half || (b < end && (falls ? order < 0 : order > 0));
                sorted.items[to] = pairs.items[second ? b++ : a++];
                jinja_work(j, 0);
            }
        }
        Item *merged = sorted.items;
        sorted.items = pairs.items;
        pairs.items = merged;
    }
    for (size_t i = 0; i < pairs.n; i++)
        pairs.items[i].key = pairs.items[i].value;
    return pairs;
}

/* selectattr(name, test, argument), or rejectattr at REJECT. */
enum { SELECT, REJECT };
static Value choose(Call *c) {
    Jinja *j = c->j;
    Value from = value_is_true(c->self) ? value_list(j, c->self) : empty,
          name = string_arg(c, 0), with = empty, list = empty;
    if (c->is_given[2])
        list_add(j, &with, undefined, c->args[2]);
    for (size_t i = 0; i < from.n; i++) {
        jinja_work(j, 0);
        Value v = from.items[i].key, member = value_member(j, v, name);
        if (c->is_given[1])
            member = function_call(j, TEST, string_arg(c, 1), member, with);
        if (value_is_true(member) != (option_of(c) == REJECT))
            list_push(j, &list, v);
    }
    return list;
}

/* map(attribute=name) */
static Value map_attribute(Call *c) {
    return members_of(c->j, c->self, string_arg(c, 0));
}

/* dict(map, name=value) and namespace(map, name=value) */
static Value new_map(Call *c) {
    Value items = empty;
    Kind kind = option_of(c);
    for (size_t i = 0; i < c->all.n; i++) {
        Item item = c->all.items[i];
        if (item.key.kind == STRING) {
            list_set(c->j, &items, item.key, item.value, 0);
            continue;
        }
        jinja_refuse_if(c->j, i > 0 || item.value.kind != MAP,
                        "unsupported argument of dict or namespace");
        for (size_t k = 0; k < item.value.map->n; k++)
            list_add(c->j, &items, item.value.map->items[k].key,
                     item.value.map->items[k].value);
    }
    return map_of(c->j, kind, items);
}

/* ---- tests -------------------------------------------------------------- */

enum {
    SEQUENCES = 1 << UNDEFINED | 1 << STRING | 1 << LIST | 1 << MAP,
    BOOLEANS = 1 << FALSE | 1 << TRUE,
    NUMBERS = BOOLEANS | 1 << INTEGER | 1 << FLOAT,
    CALLABLE = 1 << MACRO | 1 << FUNCTION
};

static Value is_of_kind(Call *c) {
    return boolean(option_of(c) & 1 << c->self.kind);
}

static Value is_equal(Call *c) {
    return boolean(value_equal(c->j, c->self, c->args[0]) == option_of(c));
}

static Value is_in(Call *c) {
    return boolean(value_contains(c->j, c->args[0], c->self));
}

/* odd, or even: the remainder by 2. */
static Value is_odd(Call *c) {
    return boolean((whole_value(c->j, c->self) & 1) == option_of(c));
}

static Value is_divisible(Call *c) {
    int64_t by = whole_value(c->j, c->args[0]);
    if (by)
        return boolean(whole_value(c->j, c->self) % by == 0);
    jinja_stop(c->j, "divides by zero", undefined);
}

/* ---- others ------------------------------------------------------------- */

static Value refuse(Call *c) {
    jinja_stop(c->j, "refused: ", value_text(c->j, c->args[0]));
}

/* The date's bytes are not marked as the program's: its format may come from a
 * message. */
static Value date(Call *c) {
    char today[64];
    Value format = value_concatenate(c->j, string_arg(c, 0), undefined);
    jinja_work(c->j, sizeof today + format.n);
    int n = format_today(today, sizeof today, format.text);
    jinja_refuse_if(c->j, n < 0, "a date of more than 63 bytes");
    return value_concatenate(c->j, string(today, n), undefined);
}

/* ---- the table ---------------------------------------------------------- */

/* Parameters without a name are "". The only parameter "*" stands for any
 * number of arguments of any name. */
typedef struct Function {
    const char *name;
    Value (*call)(Call *c);
    Use use;
    int option; /* for `call` */
    const char *parameters[MAX_PARAMETERS];
} Function;

static const Function FUNCTIONS[] = {
    {"namespace", new_map, GLOBAL, NAMESPACE, {"*"}},
    {"dict", new_map, GLOBAL, MAP, {"*"}},
    {"range", range, GLOBAL, 0, {"", "", ""}},
    {"raise_exception", refuse, GLOBAL, 0, {"message"}},
    {"strftime_now", date, GLOBAL, 0, {"format"}},

    {"abs", absolute, FILTER, 0, {0}},
    {"capitalize", change_case, FILTER, CAPITALIZE, {0}},
    {"count", length, FILTER, 0, {0}},
    {"d", or_default, FILTER, 0, {"default_value", "boolean"}},
    {"default", or_default, FILTER, 0, {"default_value", "boolean"}},
    {"dictsort",
     sort_items,
     FILTER,
     PAIRS,
     {"case_sensitive", "by", "reverse"}},
    {"first", end_item, FILTER, AT_START, {0}},
    {"float", to_real, FILTER, 0, {"default"}},
    {"format", format_filter, FILTER, 0, {"*"}},
    {"int", to_integer, FILTER, LEFT | RIGHT, {"default", "base"}},
    {"items", items_of, FILTER, PAIRS, {0}},
    {"join", join_filter, FILTER, 0, {"d", "attribute"}},
    {"last", end_item, FILTER, AT_END, {0}},
    {"length", length, FILTER, 0, {0}},
    {"list", to_list, FILTER, 0, {0}},
    {"lower", change_case, FILTER, LOWER, {0}},
    {"map", map_attribute, FILTER, 0, {"attribute"}},
    {"rejectattr", choose, FILTER, REJECT, {"", "", ""}},
    {"replace", replace, FILTER, 0, {"old", "new", "count"}},
    {"reverse", reverse, FILTER, 0, {0}},
    {"safe", to_string, FILTER, 0, {0}},
    {"selectattr", choose, FILTER, SELECT, {"", "", ""}},
    {"string", to_string, FILTER, 0, {0}},
    {"title", change_case, FILTER, TITLE, {0}},
    {"trim", strip, FILTER, LEFT | RIGHT, {"chars"}},
    {"upper", change_case, FILTER, UPPER, {0}},

    {"capitalize", change_case, STRING_METHOD, CAPITALIZE, {0}},
    {"endswith", starts_with, STRING_METHOD, AT_END, {""}},
    {"format", format_braces, STRING_METHOD, 0, {"*"}},
    {"join", join_method, STRING_METHOD, 0, {""}},
    {"lower", change_case, STRING_METHOD, LOWER, {0}},
    {"lstrip", strip, STRING_METHOD, LEFT, {""}},
    {"replace", replace, STRING_METHOD, 0, {"", "", "count"}},
    {"rstrip", strip, STRING_METHOD, RIGHT, {""}},
    {"split", split, STRING_METHOD, 0, {"sep", "maxsplit"}},
    {"startswith", starts_with, STRING_METHOD, AT_START, {""}},
    {"strip", strip, STRING_METHOD, LEFT | RIGHT, {""}},
    {"title", change_case, STRING_METHOD, TITLE, {0}},
    {"upper", change_case, STRING_METHOD, UPPER, {0}},
    {"get", get, MAP_METHOD, 0, {"", ""}},
    {"items", items_of, MAP_METHOD, PAIRS, {0}},
    {"keys", items_of, MAP_METHOD, KEYS, {0}},
    {"values", items_of, MAP_METHOD, VALUES, {0}},

    {"boolean", is_of_kind, TEST, BOOLEANS, {0}},
    {"callable", is_of_kind, TEST, CALLABLE, {0}},
    {"defined", is_of_kind, TEST, ~(1 << UNDEFINED), {0}},
    {"divisibleby", is_divisible, TEST, 0, {"num"}},
    {"eq", is_equal, TEST, true, {""}},
    {"equalto", is_equal, TEST, true, {""}},
    {"even", is_odd, TEST, 0, {0}},
    {"false", is_of_kind, TEST, 1 << FALSE, {0}},
    {"float", is_of_kind, TEST, 1 << FLOAT, {0}},
    {"in", is_in, TEST, 0, {"seq"}},
    {"integer", is_of_kind, TEST, 1 << INTEGER, {0}},
    {"iterable", is_of_kind, TEST, SEQUENCES, {0}},
    {"mapping", is_of_kind, TEST, 1 << MAP, {0}},
    {"ne", is_equal, TEST, false, {""}},
    {"none", is_of_kind, TEST, 1 << NONE, {0}},
    {"number", is_of_kind, TEST, NUMBERS, {0}},
    {"odd", is_odd, TEST, 1, {0}},
    {"sequence", is_of_kind, TEST, SEQUENCES, {0}},
    {"string", is_of_kind, TEST, 1 << STRING, {0}},
    {"true", is_of_kind, TEST, 1 << TRUE, {0}},
    {"undefined", is_of_kind, TEST, 1 << UNDEFINED, {0}},
};

static int option_of(const Call *c) {
    return c->function->option;
}

void functions_define(Jinja *j, Value *variables) {
    EACH(const Function, f, FUNCTIONS, COUNT(FUNCTIONS))
        if (f->use == GLOBAL)
            list_define(j, variables, f->name,
                        (Value){.kind = FUNCTION, .function = f});
}

/* The parameter of an argument; -1: there is none. */
static int parameter_of(Jinja *j, const Function *f, Value name, size_t at) {
    if (!name.kind)
        return at < MAX_PARAMETERS && f->parameters[at] ? (int)at : -1;
    for (int i = 0; i < MAX_PARAMETERS && f->parameters[i]; i++)
        if (value_equal(j, name, string_of(f->parameters[i])))
            return i;
    return -1;
}

static Value call(Jinja *j, const Function *f, Value self, Value given) {
    Call c = {.j = j, .function = f, .self = self, .all = given};
    bool takes_all = f->parameters[0] && *f->parameters[0] == '*';
    jinja_refuse_if(j, f->use == STRING_METHOD && self.kind != STRING,
                    "a method of what is no string");
    for (size_t i = 0; i < given.n && !takes_all; i++) {
        const Item *item = &given.items[i];
        int to = parameter_of(j, f, item->key, i);
        if (to >= 0 && !c.is_given[to]) {
            c.args[to] = item->value;
            c.is_given[to] = true;
        } else {
            jinja_stop(j, "unexpected argument of ", string_of(f->name));
        }
    }
    /* What a call returns has nothing of the Call itself. */
    /* cppcheck-suppress returnDanglingLifetime */
    return f->call(&c);
}

Value function_call(Jinja *j, Use use, Value name, Value self, Value given) {
    if (use == GLOBAL) {
        if (self.kind != FUNCTION)
            jinja_stop(j, "unsupported function ", name);
        return call(j, self.function, undefined, given);
    }
    EACH(const Function, f, FUNCTIONS, COUNT(FUNCTIONS)) {
        jinja_work(j, 0);
        if (f->use == use && value_equal(j, name, string_of(f->name)))
            return call(j, f, self, given);
    }
    jinja_stop(j, "unsupported filter, method or test ", value_text(j, name));
}
