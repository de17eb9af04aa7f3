/* jinja.c: runs a chat template.
 *
 * Owns the part of Jinja that chat templates use, with the options that
 * transformers sets (trim_blocks, lstrip_blocks, loop controls, generation
 * blocks), and the limits. There is no syntax tree: an expression is evaluated,
 * a statement runs while its text is read. What must not run is read with
 * `live` false; loops and macros move the cursor back. Every byte of a string
 * keeps its mark in every function. Strings and lists never change; `set`
 * changes maps.
 *
 * One template runs at a time, so its state is in variables of this file.
 * stop_at() returns to jinja_render().
 * Tests: jinja, template, growth.
 */
#include "formats/jinja.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/utf8.h"
#include "text/pretokenize.h"
#include <ctype.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    UNDEFINED,
    NONE,
    FALSE,
    TRUE,
    INTEGER,
    STRING,
    LIST,
    MAP,
    MACRO,
    FUNCTION
} Kind;

typedef struct Value {
    Kind kind;
    uint32_t n; /* bytes of a string, items of a list, number of a function */
    union {
        int64_t number; /* of a boolean or an integer, which has 32 bits */
        /* of a string: [n]; of a macro: its parameters in the template */
        const char *text;
        struct Item *items; /* of a list: [n] */
        struct Value *map;  /* of a map: its items, a list */
    };
    size_t room; /* of a list that is being built: the capacity of `items` */
} Value;

typedef struct Item {
    Value key, value; /* equal in a list */
} Item;

typedef struct {
    Value variables; /* a stack */
    /* the first variable that `set` can change; 0 at the top level */
    uint32_t first;
    uint32_t n_globals; /* number of variables of the top level */
} Scope;

enum { OUTPUT = JINJA_OUTPUT / 2, MEMORY = OUTPUT + JINJA_MEMORY / 2 };

static const Value undefined, none = {.kind = NONE}, empty = {.kind = LIST};

size_t jinja_steps;
static jmp_buf stopped;
static const char *path, *source, *cursor; /* the template, zero-terminated */
/* The output and the strings that are being built: [n_text]. From OUTPUT to
 * n_bytes: the values. text[MEMORY + i] is the mark of text[i]. */
static char *text;
static size_t n_text, n_bytes;
static int depth;
static bool live;
static bool breaks; /* the loop that runs ends after this iteration */
static Scope scope;

/* ---- limits and memory -------------------------------------------------- */

/* The message has the line of the cursor, `error` and what it is about. */
static _Noreturn void stop_at(const char *error, Value what) {
    int line = 1;
    for (const char *s = source; s < cursor; s++)
        line += *s == '\n';
    fail("%s: line %d of the chat template: %s%.*s", path, line, error,
         (int)what.n, what.n ? what.text : "");
    longjmp(stopped, 1);
}

static void stop_if(bool refused, const char *error) {
    if (refused)
        stop_at(error, undefined);
}

/* Counts a step, and n more: the bytes, characters, items or names that a loop
 * visits. */
static void work(size_t n) {
    jinja_steps += 1 + n;
    if (interrupted)
        longjmp(stopped, 1);
    stop_if(jinja_steps > JINJA_STEPS, "takes too many steps");
}

static void enter(void) {
    work(0);
    stop_if(++depth > JINJA_DEPTH, "nested too deep");
}

static void *get_memory(size_t bytes) {
    bytes = (bytes + 15) / 16 * 16;
    stop_if(bytes > MEMORY - n_bytes, "needs too much memory");
    n_bytes += bytes;
    return text + n_bytes - bytes;
}

/* ---- values ------------------------------------------------------------- */

static Value string(const char *s, size_t n) {
    return (Value){STRING, (uint32_t)n, .text = s};
}

static Value string_of(const char *s) {
    return string(s, strlen(s));
}

static Value part(Value s, size_t from, size_t to) {
    return string(s.text + from, to - from);
}

static Value boolean(bool is_true) {
    return (Value){.kind = FALSE + is_true, .number = is_true};
}

static Value integer(int64_t number) {
    stop_if(number != (int32_t)number, "an integer of more than 32 bits");
    return (Value){.kind = INTEGER, .number = number};
}

static bool is_number(Value v) {
    return v.kind >= FALSE && v.kind <= INTEGER;
}

static bool is_true(Value v) {
    if (v.kind == MAP)
        return v.map->n;
    return is_number(v) ? v.number != 0 : v.n || v.kind >= MACRO;
}

static void add(Value *list, Value key, Value value) {
    work(0);
    if (list->n == list->room) {
        const Item *old = list->items;
        list->room = 2 * list->room + 4;
        list->items = get_memory(list->room * sizeof *old);
        if (list->n)
            memcpy(list->items, old, list->n * sizeof *old);
    }
    list->items[list->n++] = (Item){key, value};
}

static void define(Value *list, const char *name, Value value) {
    add(list, string_of(name), value);
}

static void push(Value *list, Value value) {
    add(list, value, value);
}

static Value map_of(Value list) {
    Value v = {.kind = MAP, .map = get_memory(sizeof list)};
    *v.map = list;
    return v;
}

static bool equal(Value a, Value b) {
    work(0);
    if (is_number(a) && is_number(b))
        return a.number == b.number;
    if (a.kind != b.kind)
        return false;
    if (a.kind == STRING) {
        if (a.n != b.n)
            return false;
        work(a.n);
        return !memcmp(a.text, b.text, a.n);
    }
    bool same = a.number == b.number && a.n == b.n; /* a pointer, or 0 */
    stop_if(!same && a.kind < MACRO, "compares lists or maps");
    return same;
}

/* The last item with this key from `from` on; NULL if there is none. */
static Item *find(Value list, Value key, size_t from) {
    size_t i = list.n;
    while (i-- > from)
        if (equal(list.items[i].key, key))
            return list.items + i;
    return NULL;
}

static void set(Value *list, Value key, Value value, size_t from) {
    Item *item = find(*list, key, from);
    if (item)
        item->value = value;
    else
        add(list, key, value);
}

/* ---- building strings --------------------------------------------------- */

/* Copies text and its marks. Text outside this file's memory is a message's. */
static void copy(char *to, const char *from, size_t n) {
    memcpy(to, from, n);
    if (from >= text && from < text + MEMORY)
        memcpy(to + MEMORY, from + MEMORY, n);
    else
        memset(to + MEMORY, false, n);
}

static void write_bytes(const char *s, size_t n) {
    work(n / 64);
    /* with a final zero byte */
    stop_if(n >= OUTPUT - n_text, "writes too much text");
    copy(text + n_text, s, n);
    n_text += n;
}

/* Writes text of the template or of the program. */
static void write_own(const char *s, size_t n) {
    write_bytes(s, n);
    memset(text + MEMORY + n_text - n, true, n);
}

/* Takes what was written from `start` on out of the output; a zero byte
 * follows. */
static Value take(size_t start) {
    size_t n = n_text - start;
    char *s = get_memory(n + 1);
    copy(s, text + start, n);
    s[n] = '\0';
    n_text = start;
    return string(s, n);
}

/* A copy of a message with its marks. */
static Value marked(const char *s, const bool *marks, size_t n) {
    write_bytes(s, n);
    memcpy(text + MEMORY + n_text - n, marks, n);
    return take(n_text - n);
}

/* A copy of a text of the program. */
static Value own(const char *s, size_t n) {
    write_own(s, n);
    return take(n_text - n);
}

static Value constant(const char *s) {
    return own(s, strlen(s));
}

static Value to_string(Value v) {
    static const char *const WORDS[] = {"", "None", "False", "True"};
    stop_if(v.kind > STRING, "prints a list, a map or a macro");
    if (v.kind == STRING)
        return v;
    if (v.kind < INTEGER)
        return constant(WORDS[v.kind]);
    char digits[16];
    return own(digits, sprintf(digits, "%d", (int)v.number));
}

static void put(Value v) {
    Value s = to_string(v);
    write_bytes(s.text, s.n);
}

static Value concatenate(Value a, Value b) {
    size_t start = n_text;
    put(a);
    put(b);
    return take(start);
}

/* ---- characters, members, slices ---------------------------------------- */

/* Index of the first byte of the character after `at`. */
static size_t next_character(Value s, size_t at) {
    size_t n;
    work(0);
    utf8_read(s.text + at, s.n - at, &n);
    return at + n;
}

/* The list of a map's keys or of a string's characters, or the list itself. */
static Value iterate(Value v) {
    Value list = empty;
    if (v.kind == MAP)
        return *v.map;
    if (v.kind == LIST)
        return v;
    stop_if(v.kind != STRING && v.kind != UNDEFINED, "expected a list");
    for (size_t at = 0, next; at < v.n; at = next) {
        next = next_character(v, at);
        push(&list, part(v, at, next));
    }
    return list;
}

/* The number of characters or items. */
static int64_t count(Value v) {
    int64_t n = 0;
    if (v.kind != STRING)
        return iterate(v).n;
    for (size_t at = 0; at < v.n; at = next_character(v, at))
        n++;
    return n;
}

/* Where an item or a character begins. An index may count from the end. */
static uint32_t place(Value v, Value index, int64_t missing) {
    int64_t n = count(v);
    int64_t i = index.kind == INTEGER ? index.number : missing;
    size_t at = 0;
    if (i < 0)
        i += n;
    i = i < 0 ? 0 : i > n ? n : i;
    if (v.kind == LIST)
        return (uint32_t)i;
    for (; i; i--)
        at = next_character(v, at);
    return (uint32_t)at;
}

static Value slice(Value v, Value from, Value to) {
    stop_if(v.kind != LIST && v.kind != STRING, "a slice of what is no list");
    uint32_t begin = place(v, from, 0), end = place(v, to, INT32_MAX),
             n = end > begin ? end - begin : 0;
    if (v.kind == STRING)
        return part(v, begin, begin + n);
    if (n)
        v.items += begin;
    v.n = n;
    return v;
}

static Value get_member(Value v, Value key) {
    stop_if(v.kind == UNDEFINED, "a member of an undefined value");
    const Item *item = v.kind == MAP ? find(*v.map, key, 0) : NULL;
    if (item)
        return item->value;
    if (key.kind != INTEGER || (v.kind != LIST && v.kind != STRING))
        return undefined;
    Value only =
        slice(v, key, key.number == -1 ? undefined : integer(key.number + 1));
    return !only.n ? undefined : v.kind == STRING ? only : only.items->key;
}

/* ---- operators ---------------------------------------------------------- */

/* What follows an operand. Operators that begin with others stand before them.
 * "not" is the beginning of "not in". */
typedef struct {
    const char *symbol;
    int level; /* higher levels bind tighter */
    int code;  /* negative: the opposite */
} Operator;

static const Operator OPERATORS[] = {
    {"or", 1, '|'},   {"and", 2, '&'}, {"==", 4, '='}, {"!=", 4, -'='},
    {"<=", 4, -'>'},  {">=", 4, -'<'}, {"<", 4, '<'},  {">", 4, '>'},
    {"not", 4, -'i'}, {"in", 4, 'i'},  {"+", 5, '+'},  {"-", 5, '-'},
    {"~", 6, '~'},    {"**", 7, '^'},  {"*", 7, '*'},  {"%", 7, '%'},
    {"//", 7, 'd'},   {"/", 7, '/'},   {"|", 8, 'f'},  {"is", 8, '?'},
    {".", 9, '.'},    {"[", 9, '['}};

/* levels; CONDITIONAL: a if b else c */
enum { CONDITIONAL, OR, NOT = 3, COMPARISON, FILTER = 8, MEMBER };

static bool contains(Value list, Value v) {
    if (list.kind == STRING && v.kind == STRING) {
        work(list.n);
        return memmem(list.text, list.n, v.text, v.n);
    }
    return find(iterate(list), v, 0);
}

static int64_t number_of(Value v) {
    stop_if(!is_number(v), "expected a number");
    return v.number;
}

static Value apply(int op, Value a, Value b) {
    if (op == '=')
        return boolean(equal(a, b));
    if (op == 'i')
        return boolean(contains(b, a));
    if (op == '~' || (op == '+' && a.kind == STRING && b.kind == STRING))
        return concatenate(a, b);
    if (op == '+' && a.kind == LIST && b.kind == LIST) {
        a.room = a.n; /* push() copies it */
        for (size_t i = 0; i < b.n; i++)
            push(&a, b.items[i].key);
        return a;
    }
    int64_t x = number_of(a), y = number_of(b);
    switch (op) {
    case '<': return boolean(x < y);
    case '>': return boolean(x > y);
    case '+': return integer(x + y);
    case '-': return integer(x - y);
    case '*': return integer(x * y);
    }
    stop_if(op == '/' || op == '^', "unsupported operator / or **");
    if (!y) /* not stop_if(): static analysis follows this */
        stop_at("divides by zero", undefined);
    int64_t rest = (x % y + y) % y; /* has the sign of y */
    return integer(op == 'd' ? (x - rest) / y : rest);
}

/* ---- functions, filters, methods and tests ------------------------------ */

/* The call that runs: self|name(args), self.name(args), self is name(args), or
 * name(args). The key of a keyword argument is its name. `option` is of the row
 * in FUNCTIONS. */
static Value self, args;
static int option;

static Value call_function(Value name, Value on, Value with, bool is_test);

/* Of keyword arguments only one after others is taken, by its position:
 * default(value, boolean=true). */
static Value arg(size_t i) {
    stop_if(!i && args.n && args.items->key.kind,
            "an unsupported keyword argument");
    return i < args.n ? args.items[i].value : undefined;
}

static Value string_arg(size_t i) {
    Value v = arg(i);
    stop_if(v.kind != STRING, "an argument is no string");
    return v;
}

static void check_arguments(size_t max) {
    stop_if(args.n > max, "unsupported arguments");
}

/* Whether a character is in the argument or, without one, white space. */
static bool is_stripped(Value character) {
    size_t n;
    work(0);
    return args.n ? contains(string_arg(0), character)
                  : is_white_space(utf8_read(character.text, character.n, &n));
}

enum { LEFT = 1, RIGHT = 2 };

static Value strip(void) {
    Value s = to_string(self);
    size_t from = 0, to = s.n;
    for (size_t next; option & LEFT && from < to; from = next) {
        next = next_character(s, from);
        if (!is_stripped(part(s, from, next)))
            break;
    }
    for (size_t last; option & RIGHT && from < to; to = last) {
        last = to - utf8_before(s.text + to, s.text + from);
        if (!is_stripped(part(s, last, to)))
            break;
    }
    return part(s, from, to);
}

/* Splits self at the first argument, at most as often as an integer in the
 * second one says. */
static Value split(void) {
    Value separator = string_arg(0), max = arg(1);
    Value rest = to_string(self), list = empty;
    stop_if(!separator.n, "an empty separator");
    work(rest.n);
    for (int64_t left = max.kind == INTEGER ? max.number : -1; left; left--) {
        const char *at = memmem(rest.text, rest.n, separator.text, separator.n);
        if (!at)
            break;
        size_t n = at - rest.text;
        push(&list, part(rest, 0, n));
        rest = part(rest, n + separator.n, rest.n);
    }
    push(&list, rest);
    return list;
}

static Value join_items(Value list, Value separator) {
    size_t start = n_text;
    list = iterate(list);
    for (size_t i = 0; i < list.n; i++) {
        if (i)
            put(separator);
        put(list.items[i].key);
    }
    return take(start);
}

/* A filter (list|join(separator)) or a method (separator.join(list)). */
static Value join(void) {
    bool is_method = self.kind == STRING;
    check_arguments(1);
    stop_if(is_method && arg(0).kind == STRING, "unsupported join");
    return join_items(is_method ? arg(0) : self, is_method ? self : arg(0));
}

static Value replace(void) {
    check_arguments(2);
    return join_items(split(), string_arg(1));
}

enum {
    UPPER_FIRST = 1,
    UPPER_REST = 2,
    UPPER_WORDS = 4,
    TITLE = UPPER_FIRST | UPPER_WORDS
};

/* The cases of the first and of the other characters are in the option. */
static Value change_case(void) {
    size_t start = n_text;
    put(self);
    work(n_text - start);
    for (size_t i = start; i < n_text; i++) {
        uint8_t c = text[i];
        bool begins = i > start && !isalpha(text[i - 1]);
        stop_if(c >= 0x80, "changes the case of a character outside ASCII");
        /* elsewhere the filter and the method differ */
        stop_if(option == TITLE && begins && isalpha(c) &&
                    !isspace(text[i - 1]),
                "unsupported title");
        text[i] = (char)(option & (i == start ? UPPER_FIRST
                                   : begins   ? UPPER_WORDS
                                              : UPPER_REST)
                             ? toupper(c)
                             : tolower(c));
    }
    return take(start);
}

/* endswith if the option is set. */
static Value starts_with(void) {
    Value s = to_string(self), prefix = string_arg(0);
    size_t from = option ? s.n - prefix.n : 0;
    return boolean(s.n >= prefix.n &&
                   equal(part(s, from, from + prefix.n), prefix));
}

static Value length(void) {
    check_arguments(0);
    return integer(count(self));
}

static Value to_list(void) {
    return iterate(self);
}

static Value reverse(Value v) {
    Value list = empty;
    v = iterate(v);
    for (size_t i = v.n; i; i--)
        push(&list, v.items[i - 1].key);
    return list;
}

/* first; last if the option is -1. */
static Value end_item(void) {
    return get_member(self.kind == STRING ? self : iterate(self),
                      integer(option));
}

static Value or_default(void) {
    Value other = args.n ? arg(0) : constant("");
    return self.kind == UNDEFINED || (is_true(arg(1)) && !is_true(self)) ? other
                                                                         : self;
}

static Value get(void) {
    stop_if(self.kind != MAP, "get of what is no map");
    Value v = get_member(self, arg(0));
    return v.kind ? v : args.n > 1 ? arg(1) : none;
}

/* selectattr; rejectattr if the option is set. */
static Value choose(void) {
    Value from = is_true(self) ? iterate(self) : empty, name = string_arg(0),
          test = arg(1);
    bool has_test = args.n > 1, rejects = option;
    Value with = empty, list = empty;
    add(&with, undefined, arg(2));
    for (size_t i = 0; i < from.n; i++) {
        work(0);
        Value v = from.items[i].key, member = get_member(v, name);
        bool passes = is_true(has_test ? call_function(test, member, with, true)
                                       : member);
        if (passes != rejects)
            push(&list, v);
    }
    return list;
}

static Value is_of_kind(void) {
    return boolean(option & 1 << self.kind);
}
static Value is_equal(void) {
    return boolean(equal(self, arg(0)));
}

static Value new_map(void) {
    return map_of(args);
}

static Value refuse(void) {
    stop_at("refused: ", to_string(arg(0)));
}

/* The marks of a date are false: its format may come from a message. */
static Value date(void) {
    char today[64];
    Value format = concatenate(arg(0), undefined);
    work(sizeof today + format.n);
    size_t n = format_today(today, sizeof today, format.text);
    stop_if(!n && format.n, "a date of more than 63 bytes");
    return concatenate(string(today, n), undefined);
}

static Value range(void) {
    bool has_start = args.n > 1;
    int64_t to = number_of(arg(has_start)),
            step = args.n > 2 ? number_of(arg(2)) : 1;
    Value list = empty;
    stop_if(!step, "a range with a step of 0");
    for (int64_t i = has_start ? number_of(arg(0)) : 0;
         step < 0 ? i > to : i < to; i += step)
        push(&list, integer(i));
    return list;
}

enum {
    N_GLOBAL = 4,
    LISTS = 1 << UNDEFINED | 1 << STRING | 1 << LIST | 1 << MAP
};

/* The first N_GLOBAL functions have no self, and their names are defined. Names
 * of tests begin with "?". */
static const struct Function {
    const char *name;
    Value (*call)(void);
    int option;
} FUNCTIONS[] = {
    {"namespace", new_map, 0},
    {"range", range, 0},
    {"raise_exception", refuse, 0},
    {"strftime_now", date, 0},
    {"trim", strip, LEFT | RIGHT},
    {"strip", strip, LEFT | RIGHT},
    {"lstrip", strip, LEFT},
    {"rstrip", strip, RIGHT},
    {"split", split, 0},
    {"replace", replace, 0},
    {"join", join, 0},
    {"lower", change_case, 0},
    {"upper", change_case, TITLE | UPPER_REST},
    {"capitalize", change_case, UPPER_FIRST},
    {"title", change_case, TITLE},
    {"startswith", starts_with, 0},
    {"endswith", starts_with, 1},
    {"length", length, 0},
    {"list", to_list, 0},
    {"first", end_item, 0},
    {"last", end_item, -1},
    {"string", strip, 0},
    {"default", or_default, 0},
    {"get", get, 0},
    {"selectattr", choose, false},
    {"rejectattr", choose, true},
    {"?defined", is_of_kind, ~(1 << UNDEFINED)},
    {"?undefined", is_of_kind, 1 << UNDEFINED},
    {"?none", is_of_kind, 1 << NONE},
    {"?string", is_of_kind, 1 << STRING},
    {"?mapping", is_of_kind, 1 << MAP},
    {"?iterable", is_of_kind, LISTS},
    {"?sequence", is_of_kind, LISTS},
    {"?true", is_of_kind, 1 << TRUE},
    {"?false", is_of_kind, 1 << FALSE},
    {"?equalto", is_equal, 0},
    {"?eq", is_equal, 0},
};

static Value call_function(Value name, Value on, Value with, bool is_test) {
    EACH(const struct Function, f, FUNCTIONS, COUNT(FUNCTIONS)) {
        work(0);
        self = on;
        args = with;
        option = f->option;
        if ((*f->name == '?') == is_test &&
            equal(name, string_of(f->name + is_test)))
            return f->call();
    }
    stop_at("unsupported function, filter, method or test ", to_string(name));
}

/* ---- reading ------------------------------------------------------------- */

static bool is_word(char c) {
    return isalnum((uint8_t)c) || c == '_';
}

static void skip_space(void) {
    const char *start = cursor;
    while (isspace((uint8_t)*cursor))
        cursor++;
    work(cursor - start);
}

/* The end of this word or symbol; NULL: it does not follow. */
static const char *after(const char *symbol) {
    skip_space();
    const char *s = cursor;
    for (; *symbol && *s == *symbol; symbol++)
        s++;
    return *symbol || (is_word(s[-1]) && is_word(*s)) ? NULL : s;
}

static bool accept(const char *symbol) {
    const char *end = after(symbol);
    if (!end)
        return false;
    cursor = end;
    return true;
}

static void expect(const char *symbol) {
    if (!accept(symbol))
        stop_at("expected ", string_of(symbol));
}

/* Reads the end of a tag and the white space that belongs to it. */
static void end_tag(const char *symbol) {
    skip_space();
    char sign = *cursor;
    cursor += sign == '-' || sign == '+';
    expect(symbol);
    for (size_t n;
         sign == '-' && *cursor && is_white_space(utf8_read(cursor, 4, &n));
         cursor += n)
        work(0);
    cursor += sign != '-' && sign != '+' && *symbol != '}' && *cursor == '\n';
}

static Value read_name(void) {
    skip_space();
    const char *s = cursor;
    while (is_word(*cursor))
        cursor++;
    work(cursor - s);
    stop_if(s == cursor || isdigit((uint8_t)*s), "expected a name");
    return string(s, cursor - s);
}

/* ---- variables and macros ----------------------------------------------- */

static Value read_level(int level, bool runs);
static void run_block(bool runs);

static Value expression(void) {
    return read_level(CONDITIONAL, true);
}

static Value get_variable(Value name) {
    return get_member((Value){.kind = MAP, .map = &scope.variables}, name);
}

/* Begins a scope; the caller restores the old one. */
static void open_scope(void) {
    if (!scope.first)
        scope.n_globals = scope.variables.n;
    scope.first = scope.variables.n;
}

/* Reads the parameters of a macro, up to ")", and makes them variables. */
static void read_parameters(Value given) {
    for (size_t i = 0; !accept(")"); i++) {
        Value name = read_name();
        const Item *item = find(given, name, 0);
        if (!item && i < given.n && !given.items[i].key.kind)
            item = &given.items[i];
        Value missing =
            accept("=") ? read_level(CONDITIONAL, !item) : undefined;
        if (live)
            add(&scope.variables, name, item ? item->value : missing);
        if (!after(")"))
            expect(",");
    }
}

static Value call_macro(Value macro, Value given) {
    const char *after = cursor;
    size_t start = n_text;
    Scope outer = scope;
    open_scope();
    /* add() copies them */
    scope.variables.room = scope.variables.n = scope.first = scope.n_globals;
    cursor = macro.text;
    read_parameters(given);
    run_block(true);
    scope = outer;
    cursor = after;
    return take(start);
}

/* ---- expressions -------------------------------------------------------- */

/* Reads adjacent strings in quotes. */
static Value read_string(void) {
    static const char from[] = "ntr\\'\"", to[] = "\n\t\r\\'\"";
    size_t start = n_text;
    do {
        char quote = *cursor++;
        for (; *cursor != quote; cursor++) {
            work(0);
            const char *s = cursor;
            if (*s == '\\') {
                s = strchr(from, *++cursor);
                stop_if(!s && live, "an unsupported escape");
                s = s ? to + (s - from) : cursor;
            }
            stop_if(!*cursor, "a string without an end");
            if (live)
                write_own(s, 1);
        }
        cursor++;
    } while (after("'") || after("\""));
    return take(start);
}

/* Reads the values of a list, a tuple or a map, or the arguments of a function,
 * which may have names as keys. */
static Value read_values(Kind kind, const char *end) {
    Value items = empty;
    while (!accept(end)) {
        const char *start = cursor;
        Value value = expression(), key = kind == FUNCTION ? undefined : value;
        /* only parentheses */
        if (kind == LIST && *end == ')' && !items.n && accept(end))
            return value;
        bool is_named = kind == FUNCTION && after("=");
        if (is_named) {
            cursor = start;
            key = read_name();
        }
        if (is_named || kind == MAP) {
            expect(is_named ? "=" : ":");
            value = expression();
        }
        if (live)
            add(&items, key, value);
        if (!after(end))
            expect(",");
    }
    return kind == MAP ? map_of(items) : items;
}

/* Reads a name and arguments: a variable or a function, a member or a method
 * ('.'), a filter ('f') or a test ('?') of v. */
static Value read_named(int kind, Value v) {
    Value name = read_name();
    bool is_call = accept("(");
    Value given = is_call ? read_values(FUNCTION, ")") : empty;
    if (!live)
        return undefined;
    if (!kind) {
        v = get_variable(name);
        if (!is_call)
            return v;
        if (v.kind == MACRO)
            return call_macro(v, given);
    }
    return kind == '.' && !is_call ? get_member(v, name)
                                   : call_function(name, v, given, kind == '?');
}

static Value read_primary(void) {
    if (accept("("))
        return read_values(LIST, ")");
    if (accept("["))
        return read_values(LIST, "]");
    if (accept("{"))
        return read_values(MAP, "}");
    if (after("'") || after("\""))
        return read_string();
    if (isdigit((uint8_t)*cursor)) {
        char *end;
        long number = strtol(cursor, &end, 10);
        if (*end == '.' && isdigit((uint8_t)end[1])) {
            stop_if(live, "an unsupported fraction");
            strtol(end + 1, &end, 10);
        }
        work(end - cursor);
        cursor = end;
        return live ? integer(number) : undefined;
    }
    if (accept("true") || accept("True"))
        return boolean(true);
    if (accept("false") || accept("False"))
        return boolean(false);
    if (accept("none") || accept("None"))
        return none;
    return read_named('\0', undefined);
}

/* Reads index], from:to] or from:to:step], of which only ::-1] runs. */
static Value read_subscript(Value v) {
    Value from = undefined, to = undefined, step = undefined;
    if (!after(":"))
        from = expression();
    bool is_slice = accept(":");
    if (is_slice && !after(":") && !after("]"))
        to = expression();
    if (is_slice && accept(":") && !after("]"))
        step = expression();
    expect("]");
    if (!live)
        return undefined;
    stop_if(step.kind && (step.number != -1 || from.kind || to.kind),
            "an unsupported step");
    return step.kind  ? reverse(v)
           : is_slice ? slice(v, from, to)
                      : get_member(v, from);
}

/* Reads an operator of this level or a higher one. Returns NULL if none
 * follows: at the end of a tag, "-", "+" and "%" are not operators. */
static const Operator *read_operator(int level) {
    EACH(const Operator, o, OPERATORS, COUNT(OPERATORS)) {
        const char *end = o->level >= level ? after(o->symbol) : NULL;
        if (end && !strchr("%}", *end)) {
            accept(o->symbol);
            return o;
        }
    }
    return NULL;
}

/* Reads what follows an operator, and applies it. */
static Value read_right(int level, int code, Value left) {
    if (code == -'i')
        expect("in");
    if (code == '?' && accept("not"))
        code = -code;
    if (code < 0)
        return boolean(!is_true(read_right(level, -code, left)));
    if (code == '[')
        return read_subscript(left);
    if (code == '.' && isdigit((uint8_t)*cursor)) {
        Value index = read_primary();
        return live ? get_member(left, index) : undefined;
    }
    if (level >= FILTER)
        return read_named(code, left);
    bool is_logic = level < NOT,
         decided = is_logic && is_true(left) == (code == '|');
    Value right = read_level(level + 1, !decided);
    if (is_logic)
        return decided ? left : right;
    return live ? apply(code, left, right) : undefined;
}

static Value read_operand(int level) {
    if (level <= NOT && accept("not")) {
        enter();
        Value v = read_level(NOT, true);
        depth--;
        return boolean(!is_true(v));
    }
    if (level == MEMBER || !accept("-"))
        return read_primary();
    Value v = read_level(MEMBER, true);
    return live ? apply('-', integer(0), v) : undefined;
}

static Value read_operation(int level) {
    Value v = read_operand(level);
    const Operator *o;
    for (int last = 0; (o = read_operator(level)); last = o->level) {
        stop_if(live && last == COMPARISON && o->level == COMPARISON,
                "unsupported chain of comparisons");
        v = read_right(o->level, o->code, v);
    }
    return v;
}

/* Reads `a if condition else b`. The condition follows a, so a is read
 * twice. */
static Value read_conditional(void) {
    const char *start = cursor;
    Value result = undefined;
    enter();
    read_level(OR, false);
    bool has_condition = accept("if"),
         chosen = !has_condition || is_true(read_level(OR, true));
    if (has_condition && accept("else"))
        result = read_level(CONDITIONAL, !chosen);
    if (live && chosen) {
        const char *end = cursor;
        cursor = start;
        result = read_operation(OR);
        cursor = end;
    }
    depth--;
    return result;
}

/* Reads an expression of operators of this level and higher ones. Returns its
 * value if it runs, else undefined. */
static Value read_level(int level, bool runs) {
    bool was_live = live;
    live &= runs;
    Value v = level == CONDITIONAL ? read_conditional() : read_operation(level);
    runs = live;
    live = was_live;
    return runs ? v : undefined;
}

/* ---- statements --------------------------------------------------------- */

static void run_if(void) {
    bool decided = false, is_else = false;
    do {
        bool runs =
            is_else ? !decided : is_true(read_level(CONDITIONAL, !decided));
        decided |= runs;
        run_block(runs);
    } while (accept("elif") || (is_else = accept("else")));
    expect("endif");
}

/* Sets the members of a loop's variable. */
static void set_loop(Value *loop, Value items, size_t index) {
    int64_t i = index, n = items.n;
    loop->n = 0;
    define(loop, "index0", integer(i));
    define(loop, "index", integer(i + 1));
    define(loop, "revindex0", integer(n - i - 1));
    define(loop, "revindex", integer(n - i));
    define(loop, "depth0", integer(0)); /* of recursive loops */
    define(loop, "depth", integer(1));
    define(loop, "length", integer(n));
    define(loop, "first", boolean(!i));
    define(loop, "last", boolean(i + 1 == n));
    define(loop, "previtem", i ? items.items[i - 1].key : undefined);
    define(loop, "nextitem", i + 1 < n ? items.items[i + 1].key : undefined);
}

static void run_for(void) {
    Value name = read_name();
    bool has_names = after(",");
    while (accept(","))
        read_name();
    expect("in");
    Value over = iterate(read_level(OR, true)), chosen = empty;
    stop_if(has_names && over.n, "unsupported list of names");
    Scope outer = scope;
    open_scope();
    if (accept("if")) {
        const char *condition = cursor;
        for (size_t i = 0; i < over.n; i++) {
            set(&scope.variables, name, over.items[i].key, scope.first);
            cursor = condition;
            if (is_true(read_level(OR, true)))
                push(&chosen, over.items[i].key);
        }
        over = chosen;
        cursor = condition;
        read_level(OR, false);
    }
    const char *body = cursor;
    Value loop = map_of(empty);
    for (size_t i = 0; i < over.n && !breaks; i++) {
        scope.variables.n = outer.variables.n;
        set_loop(loop.map, over, i);
        define(&scope.variables, "loop", loop);
        add(&scope.variables, name, over.items[i].key);
        cursor = body;
        run_block(true);
        live = true;
    }
    breaks &= !live; /* keeps that of a loop around text that does not run */
    scope = outer;
    if (!over.n)
        run_block(false);
    if (accept("else"))
        run_block(!over.n);
    expect("endfor");
}

/* Runs `set name = value`, `set namespace.name = value`, or `set name` with a
 * block. */
static void run_set(void) {
    Value name = read_name(), member = accept(".") ? read_name() : undefined;
    size_t start = n_text;
    Value value;
    if (accept("="))
        value = expression();
    else {
        run_block(true);
        expect("endset");
        value = take(start);
    }
    if (live && member.kind) {
        Value space = get_variable(name);
        stop_if(space.kind != MAP, "sets a member of what is no namespace");
        set(space.map, member, value, 0);
    } else if (live)
        set(&scope.variables, name, value, scope.first);
}

static void run_macro(void) {
    Value name = read_name();
    bool runs = live;
    expect("(");
    if (live)
        set(&scope.variables, name, (Value){.kind = MACRO, .text = cursor},
            scope.first);
    live = false;
    read_parameters(empty);
    run_block(false);
    live = runs;
    expect("endmacro");
}

static void run_statement(void) {
    if (accept("if"))
        run_if();
    else if (accept("for"))
        run_for();
    else if (accept("set"))
        run_set();
    else if (accept("macro"))
        run_macro();
    else if (accept("generation")) {
        run_block(true);
        expect("endgeneration");
    } else if (after("break") || accept("continue")) {
        stop_if(live && !find(scope.variables, string_of("loop"), scope.first),
                "not in a loop");
        breaks |= accept("break") && live;
        live = false;
    } else if (live)
        stop_at("unsupported statement ", read_name());
    else
        while (*cursor && !after("%}"))
            if (after("'") || after("\""))
                read_string();
            else
                cursor++;
    end_tag("%}");
}

/* Writes the text before the next tag, and reads the beginning of the tag.
 * Returns '{', '%' or '#'; 0: the end. */
static char read_text(void) {
    const char *start = cursor, *tag = start;
    while (*tag && !(*tag == '{' && tag[1] && strchr("{%#", tag[1])))
        tag++;
    const char kind = *tag ? tag[1] : '\0', sign = *tag ? tag[2] : '\0',
               *end = tag;
    for (size_t n; end > start; end -= n) {
        n = utf8_before(end, start);
        if (!is_white_space(utf8_read(end - n, n, &n)) ||
            (sign != '-' && end[-1] == '\n'))
            break;
    }
    bool lines = (kind == '%' || kind == '#') && sign != '+' &&
                 (end == source || end[-1] == '\n');
    if (sign != '-' && !lines)
        end = tag;
    work(tag - start);
    if (live)
        write_bytes(start, end - start);
    cursor = tag + (kind ? 2 : 0) + (sign == '-' || sign == '+');
    return kind;
}

/* Runs text and statements up to the end of the template, or the word in a tag
 * that ends or divides a statement. */
static void run_text(void) {
    enter();
    for (char kind; (kind = read_text());) {
        if (kind == '#') {
            const char *end = strstr(cursor, "#}");
            stop_if(!end, "a comment without an end");
            work(end - cursor);
            cursor = end - (end > cursor && (end[-1] == '-' || end[-1] == '+'));
            end_tag("#}");
        } else if (kind == '{') {
            put(expression());
            end_tag("}}");
        } else if (after("else") || after("elif") || after("endif") ||
                   after("endfor") || after("endset") || after("endmacro") ||
                   after("endgeneration"))
            break;
        else
            run_statement();
    }
    depth--;
}

/* Reads the end of a tag and the text after it. The text runs only if
 * `runs`. */
static void run_block(bool runs) {
    bool was_live = live;
    live &= runs;
    end_tag("%}");
    run_text();
    if (!runs)
        live = was_live;
}

/* ---- running ------------------------------------------------------------ */

/* The names of usual roles can be parts of special pieces; others come from a
 * file. */
static Value message(const char *role, Value content) {
    Value v = empty;
    define(&v, "role",
           strstr(" user assistant system tool developer ", role)
               ? constant(role)
               : string_of(role));
    define(&v, "content", content);
    return map_of(v);
}

static void define_variables(const JinjaInput *in) {
    Value *v = &scope.variables, messages = empty;
    for (int i = 0; i < N_GLOBAL; i++)
        define(v, FUNCTIONS[i].name, (Value){FUNCTION, .n = i});
    if (in->system)
        push(&messages, message("system", string_of(in->system)));
    EACH(const JinjaText, m, in->messages, in->n) {
        bool drop =
            !strcmp(m->role, "assistant") && in->drops_space && *m->text == ' ';
        push(&messages, message(m->role, marked(m->text + drop, m->marks + drop,
                                                m->n - drop)));
    }
    define(v, "messages", messages);
    for (int i = 0; i < N_TOKEN_NAMES; i++)
        if (in->tokens[i].text)
            define(v, TOKEN_NAMES[i], own(in->tokens[i].text, in->tokens[i].n));
    define(v, "add_generation_prompt", boolean(in->opens_answer));
    if (in->think)
        define(v, "enable_thinking", boolean(!strcmp(in->think, "on")));
    define(v, "tools", none);
    define(v, "documents", none);
}

/* Copies the template, with \n for \r\n and without its last newline, as Jinja
 * does. */
static void copy_template(const char *template) {
    stop_if(strlen(template) > JINJA_TEMPLATE, "too long");
    for (const char *s = template; *s; s++)
        if (*s != '\r' || s[1] != '\n')
            write_own(s, 1);
    n_text -= n_text && text[n_text - 1] == '\n';
    source = cursor = take(0).text;
}

int jinja_render(const JinjaInput *in, JinjaText *out) {
    path = in->path;
    source = cursor = "";
    scope = (Scope){0};
    n_text = jinja_steps = 0;
    n_bytes = OUTPUT;
    depth = breaks = false;
    live = true;
    text = allocate(2, MEMORY);
    if (!text)
        return -1;
    if (setjmp(stopped)) {
        free(text);
        return -1;
    }
    copy_template(in->template);
    define_variables(in);
    run_text();
    stop_if(*cursor, "unexpected end of a statement");
    text[n_text] = '\0';
    *out = (JinjaText){text, (bool *)text + MEMORY, n_text, NULL};
    return 0;
}
