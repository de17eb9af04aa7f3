/* jinja.c: runs a chat template.
 *
 * Owns the statements of Jinja that chat templates use, with the options that
 * transformers sets (trim_blocks, lstrip_blocks, loop controls, generation
 * blocks), and the variables of a template. A statement runs while its text is
 * read; loops move the cursor back. What must not run is read with `live`
 * false: then only the statements, strings and brackets are looked at.
 * Tests: jinja, template, growth.
 */
#include "formats/jinja.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "formats/jinja_expressions.h"
#include "formats/jinja_functions.h"
#include "formats/jinja_values.h"
#include "text/pretokenize.h"
#include "tokenizer.h"
#include <stdlib.h>
#include <string.h>

/* ---- tags --------------------------------------------------------------- */

/* Reads the end of a tag and the white space that belongs to it. */
static void end_tag(Jinja *j, const char *symbol) {
    jinja_skip_space(j);
    char sign = *j->cursor;
    j->cursor += sign == '-' || sign == '+';
    jinja_expect(j, symbol);
    for (size_t n; sign == '-' && *j->cursor &&
                   is_white_space(utf8_read(j->cursor, 4, &n));
         j->cursor += n)
        jinja_work(j, 0);
    bool drops_newline = sign != '-' && sign != '+' && *symbol != '}';
    j->cursor += drops_newline && *j->cursor == '\n';
}

/* Writes the text up to a tag, without the white space that belongs to the
 * tag, whose kind is '{', '%', '#' or, at the end, '\0'; `sign` follows it. */
static void write_text(Jinja *j, const char *tag, char kind, char sign) {
    const char *start = j->cursor, *end = tag;
    for (size_t n; end > start; end -= n) {
        n = utf8_before(end, start);
        if (!is_white_space(utf8_read(end - n, n, &n)) ||
            (sign != '-' && end[-1] == '\n'))
            break;
    }
    bool begins_line = (kind == '%' || kind == '#') && sign != '+' &&
                       (end == j->source || end[-1] == '\n');
    if (sign != '-' && !begins_line)
        end = tag;
    jinja_work(j, tag - start);
    if (j->live)
        jinja_write(j, start, end - start);
}

/* Writes the text before the next tag, and reads the beginning of the tag.
 * Returns '{', '%' or '#'; 0: the end. */
static char read_text(Jinja *j) {
    const char *tag = j->cursor;
    while (*tag && !(*tag == '{' && tag[1] && strchr("{%#", tag[1])))
        tag++;
    const char kind = *tag ? tag[1] : '\0', sign = *tag ? tag[2] : '\0';
    write_text(j, tag, kind, sign);
    j->cursor = tag + (kind ? 2 : 0) + (sign == '-' || sign == '+');
    return kind;
}

static void run_text(Jinja *j);

/* Reads the end of a tag and the text after it. The text runs only if
 * `runs`. */
static void run_block(Jinja *j, bool runs) {
    bool was_live = j->live;
    j->live &= runs;
    end_tag(j, "%}");
    run_text(j);
    if (!runs)
        j->live = was_live;
}

/* ---- statements --------------------------------------------------------- */

/* Whether the condition that follows holds; skips it unless it runs. */
static bool read_condition(Jinja *j, bool runs) {
    if (j->live && runs)
        return value_is_true(jinja_tuple(j, true));
    jinja_skip_tag(j);
    return false;
}

static void run_if(Jinja *j) {
    bool decided = false, is_else = false;
    do {
        bool runs = is_else ? !decided : read_condition(j, !decided);
        decided |= runs;
        run_block(j, runs);
        is_else = jinja_accept(j, "else");
    } while (is_else || jinja_accept(j, "elif"));
    jinja_expect(j, "endif");
}

/* Sets the members of a loop's variable. */
static void set_loop(Jinja *j, Value *loop, Value items, size_t index) {
    int64_t i = index, n = items.n;
    loop->n = 0;
    list_define(j, loop, "index0", integer_value(j, i));
    list_define(j, loop, "index", integer_value(j, i + 1));
    list_define(j, loop, "revindex0", integer_value(j, n - i - 1));
    list_define(j, loop, "revindex", integer_value(j, n - i));
    list_define(j, loop, "depth0", integer_value(j, 0)); /* if recursive */
    list_define(j, loop, "depth", integer_value(j, 1));
    list_define(j, loop, "length", integer_value(j, n));
    list_define(j, loop, "first", boolean(!i));
    list_define(j, loop, "last", boolean(i + 1 == n));
    list_define(j, loop, "previtem", i ? items.items[i - 1].key : undefined);
    list_define(j, loop, "nextitem",
                i + 1 < n ? items.items[i + 1].key : undefined);
}

/* The items for which the condition after `if` holds. */
static Value filter_items(Jinja *j, Value target, Value items) {
    Value chosen = empty;
    const char *condition = j->cursor;
    uint32_t n = j->scope.variables.n;
    for (size_t i = 0; i < items.n; i++) {
        j->scope.variables.n = n;
        jinja_assign(j, target, items.items[i].key, false);
        j->cursor = condition;
        if (value_is_true(jinja_expression(j)))
            list_push(j, &chosen, items.items[i].key);
    }
    j->cursor = condition;
    jinja_skip_tag(j);
    return chosen;
}

/* Runs the text for each item. */
static void run_loop(Jinja *j, Value target, Value items) {
    const char *body = j->cursor;
    uint32_t n = j->scope.variables.n;
    Value loop = map_of(j, NAMESPACE, empty);
    for (size_t i = 0; i < items.n && !j->breaks; i++) {
        j->scope.variables.n = n;
        set_loop(j, loop.map, items, i);
        list_define(j, &j->scope.variables, "loop", loop);
        jinja_assign(j, target, items.items[i].key, false);
        j->cursor = body;
        run_block(j, true);
        j->live = true;
    }
    j->breaks = false;
}

static void run_for(Jinja *j) {
    if (!j->live) {
        jinja_skip_tag(j);
        run_block(j, false);
        if (jinja_accept(j, "else"))
            run_block(j, false);
        jinja_expect(j, "endfor");
        return;
    }
    Value target = jinja_target(j);
    jinja_expect(j, "in");
    Value items = value_list(j, jinja_tuple(j, false));
    Scope outer = j->scope;
    jinja_open_scope(j);
    if (jinja_accept(j, "if"))
        items = filter_items(j, target, items);
    j->scope.variables.n = outer.variables.n;
    run_loop(j, target, items);
    j->scope = outer;
    if (!items.n)
        run_block(j, false);
    if (jinja_accept(j, "else"))
        run_block(j, !items.n);
    jinja_expect(j, "endfor");
}

/* Reads `= value`, or a block. */
static Value read_assigned(Jinja *j) {
    if (jinja_accept(j, "="))
        return jinja_tuple(j, true);
    size_t start = j->n_text;
    run_block(j, true);
    jinja_expect(j, "endset");
    return jinja_take(j, start);
}

/* Runs `set names = value`, `set namespace.name = value`, or `set name` with a
 * block. */
static void run_set(Jinja *j) {
    if (!j->live) {
        if (!jinja_skip_tag(j)) {
            run_block(j, false);
            jinja_expect(j, "endset");
        }
        return;
    }
    Value target = jinja_target(j);
    if (target.kind == STRING && jinja_accept(j, ".")) {
        Value member = jinja_read_name(j), value = read_assigned(j),
              space = jinja_variable(j, target);
        jinja_refuse_if(j, space.kind != NAMESPACE,
                        "sets a member of what is no namespace");
        list_set(j, space.map, member, value, 0);
        return;
    }
    jinja_assign(j, target, read_assigned(j), true);
}

static void run_macro(Jinja *j) {
    bool was_live = j->live, outer_varargs = j->reads_varargs,
         outer_kwargs = j->reads_kwargs;
    Value name = jinja_read_name(j);
    jinja_expect(j, "(");
    const char *parameters = j->cursor;
    j->live = j->reads_varargs = j->reads_kwargs = false;
    jinja_skip_parameters(j);
    run_block(j, false);
    jinja_expect(j, "endmacro");
    j->live = was_live;
    if (j->live) {
        Macro *macro = jinja_memory(j, sizeof *macro);
        *macro = (Macro){parameters, j->reads_varargs, j->reads_kwargs};
        jinja_assign(j, name, (Value){.kind = MACRO, .macro = macro}, true);
    }
    j->reads_varargs |= outer_varargs;
    j->reads_kwargs |= outer_kwargs;
}

/* Writes the text up to `endraw` as it is. */
static void run_raw(Jinja *j) {
    end_tag(j, "%}");
    const char *tag = j->cursor;
    while ((tag = strstr(tag, "{%"))) {
        const char *start = j->cursor;
        char sign = tag[2];
        jinja_work(j, tag - start);
        j->cursor = tag + 2 + (sign == '-' || sign == '+');
        bool ends = jinja_accept(j, "endraw");
        const char *after = j->cursor;
        j->cursor = start;
        if (ends) {
            write_text(j, tag, '%', sign);
            j->cursor = after;
            return;
        }
        tag++;
    }
    jinja_stop(j, "raw without endraw", undefined);
}

static void run_statement(Jinja *j) {
    if (jinja_accept(j, "if"))
        run_if(j);
    else if (jinja_accept(j, "for"))
        run_for(j);
    else if (jinja_accept(j, "set"))
        run_set(j);
    else if (jinja_accept(j, "macro"))
        run_macro(j);
    else if (jinja_accept(j, "raw"))
        run_raw(j);
    else if (jinja_accept(j, "generation")) {
        run_block(j, true);
        jinja_expect(j, "endgeneration");
    } else if (jinja_after(j, "break") || jinja_accept(j, "continue")) {
        jinja_refuse_if(j,
                        j->live &&
                            !list_find(j, j->scope.variables, string_of("loop"),
                                       j->scope.first),
                        "not in a loop");
        j->breaks |= jinja_accept(j, "break") && j->live;
        j->live = false;
    } else if (j->live)
        jinja_stop(j, "unsupported statement ", jinja_read_name(j));
    else
        jinja_skip_tag(j);
    end_tag(j, "%}");
}

/* Whether a word follows that ends or divides a statement. */
static bool at_block_end(Jinja *j) {
    static const char *const words[] = {"else",         "elif",   "endif",
                                        "endfor",       "endset", "endmacro",
                                        "endgeneration"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (jinja_after(j, words[i]))
            return true;
    return false;
}

static void skip_comment(Jinja *j) {
    const char *end = strstr(j->cursor, "#}");
    jinja_refuse_if(j, !end, "a comment without an end");
    jinja_work(j, end - j->cursor);
    bool has_sign = end > j->cursor && (end[-1] == '-' || end[-1] == '+');
    j->cursor = end - has_sign;
    end_tag(j, "#}");
}

/* Runs text and statements up to the end of the template, or the word in a tag
 * that ends or divides a statement. */
static void run_text(Jinja *j) {
    jinja_enter(j);
    char kind;
    while ((kind = read_text(j))) {
        if (kind == '#') {
            skip_comment(j);
        } else if (kind == '{') {
            if (j->live)
                jinja_put(j, jinja_tuple(j, true));
            else
                jinja_skip_tag(j);
            end_tag(j, "}}");
        } else if (at_block_end(j)) {
            break;
        } else {
            run_statement(j);
        }
    }
    j->depth--;
}

/* ---- running ------------------------------------------------------------ */

/* The role of a message. The names of these roles can be parts of special
 * pieces, as if the template wrote them; others come from a file. */
static Value role_of(Jinja *j, const char *role) {
    static const char *const trusted[] = {"user", "assistant", "system", "tool",
                                          "developer"};
    for (size_t i = 0; i < COUNT(trusted); i++)
        if (!strcmp(role, trusted[i]))
            return jinja_own(j, role, strlen(role));
    return string_of(role);
}

static Value message(Jinja *j, const char *role, Value content) {
    Value v = empty;
    list_define(j, &v, "role", role_of(j, role));
    list_define(j, &v, "content", content);
    return map_of(j, MAP, v);
}

/* A copy of a message's text with its marks. */
static Value content_of(Jinja *j, const JinjaText *m, bool is_last) {
    jinja_write(j, m->text, m->n);
    char *marks = j->text + MEMORY + j->n_text - m->n;
    for (size_t i = 0; i < m->n; i++)
        marks[i] =
            (char)((m->marks[i] ? MARK_OWN : 0) | (is_last ? MARK_LAST : 0));
    return jinja_take(j, j->n_text - m->n);
}

static void define_names(Jinja *j, Value *list, const Tokenizer *t) {
    const NamedToken *names =
        (const NamedToken *)(const void *)t->variables.bytes;
    size_t n_names = names ? t->variables.n / sizeof *names : 0;
    for (size_t i = 0; i < n_names; i++) {
        int n;
        const char *name = tokenizer_decode(t, t->bos, names[i].id, &n);
        list_define(j, list, names[i].name, jinja_own(j, name, n));
    }
}

static void define_variables(Jinja *j, const JinjaInput *in) {
    Value *v = &j->scope.variables, messages = empty;
    functions_define(j, v);
    if (in->system)
        list_push(j, &messages, message(j, "system", string_of(in->system)));
    EACH(const JinjaText, m, in->messages, in->n) {
        bool is_last = m == in->messages + in->n - 1;
        list_push(j, &messages, message(j, m->role, content_of(j, m, is_last)));
    }
    list_define(j, v, "messages", messages);
    for (int i = 0; i < N_TOKEN_NAMES; i++)
        if (in->tokens[i].text)
            list_define(j, v, TOKEN_NAMES[i],
                        jinja_own(j, in->tokens[i].text, in->tokens[i].n));
    if (in->names)
        define_names(j, v, in->names);
    list_define(j, v, "add_generation_prompt", boolean(in->opens_answer));
    if (in->think) { /* Qwen, SmolLM and others; Granite, DeepSeek */
        bool thinks = !strcmp(in->think, "on");
        list_define(j, v, "enable_thinking", boolean(thinks));
        list_define(j, v, "thinking", boolean(thinks));
    }
    list_define(j, v, "tools", none);
    list_define(j, v, "documents", none);
}

/* Copies the template, with \n for \r\n and without its last newline, as Jinja
 * does. */
static void copy_template(Jinja *j, const char *template) {
    jinja_refuse_if(j, strlen(template) > JINJA_TEMPLATE, "too long");
    for (const char *s = template; *s; s++)
        if (*s != '\r' || s[1] != '\n')
            jinja_write_own(j, s, 1);
    j->n_text -= j->n_text && j->text[j->n_text - 1] == '\n';
    j->source = j->cursor = jinja_take(j, 0).text;
}

/* The text that was written. */
static JinjaText result(Jinja *j, JinjaReport *report) {
    char *marks = j->text + MEMORY;
    JinjaText out = {.text = j->text, .marks = (bool *)marks, .n = j->n_text};
    j->text[j->n_text] = '\0';
    jinja_work(j, j->n_text);
    for (size_t i = 0; i < j->n_text; i++) {
        if (marks[i] & MARK_LAST)
            report->last_end = i + 1;
        marks[i] &= MARK_OWN;
    }
    return out;
}

/* *j is not a variable of this function, so that longjmp() keeps it. */
static int render(Jinja *j, const JinjaInput *in, JinjaText *out,
                  JinjaReport *report) {
    if (setjmp(j->stopped))
        return -1;
    copy_template(j, in->template);
    define_variables(j, in);
    run_text(j);
    jinja_refuse_if(j, *j->cursor, "unexpected end of a statement");
    *out = result(j, report);
    return 0;
}

int jinja_render(const JinjaInput *in, JinjaText *out) {
    Jinja j = {.path = in->path,
               .source = "",
               .cursor = "",
               .text = allocate(2, MEMORY),
               .n_bytes = OUTPUT,
               .live = true,
               .run_block = run_block};
    if (!j.text)
        return -1;
    JinjaReport report = {0};
    int status = render(&j, in, out, &report);
    if (status)
        free(j.text);
    report.steps = j.steps;
    if (in->report)
        *in->report = report;
    return status;
}
