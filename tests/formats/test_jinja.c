/* test_jinja.c: templates against transformers, origins of bytes, limits.
 *
 * tests/golden/chat_rendered.json and jinja.json have the texts that
 * transformers renders (scripts/golden/golden_chat.py).
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/jinja.h"
#include "formats/json.h"

#include "tests/support/expressions.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A conversation: the messages of scripts/golden/golden_chat.py, or one
 * message. */
typedef struct {
    const char *message; /* NULL: the messages of the script */
    int turns;
    bool system, opens_answer;
    const Json *think; /* null: undefined */
} Case;

/* The rendered text; NULL if the template is refused. The marks are in the same
 * memory. */
static char *render(const char *template, const Case *c, bool **marks) {
    static bool none[64];
    static const char *const texts[] = {
        "hello there", "<think>\nHm.\n</think>\n\ngood day",
        "  and you? [yes]\xc3\xa9\n", " I am well ", "ab  abc </ s>"};
    JinjaText messages[5];
    for (int i = 0; i < 5; i++)
        messages[i] = (JinjaText){(char *)texts[i], none, strlen(texts[i]),
                                  i % 2 ? "assistant" : "user"};
    JinjaText message = {(char *)c->message, none,
                         c->message ? strlen(c->message) : 0, "user"};
    JinjaInput in = {.path = "test",
                     .template = template,
                     .tokens = {{"<s>", 3}, {"</s>", 4}},
                     .system = c->system ? "Be kind, and be brief. " : NULL,
                     .messages = c->message ? &message : messages,
                     .n = c->message     ? 1
                          : c->turns > 3 ? 5
                                         : 2 * c->turns - 1,
                     .opens_answer = c->opens_answer,
                     .think = json_null(c->think)   ? NULL
                              : json_true(c->think) ? "on"
                                                    : "off"};
    JinjaText text;
    if (jinja_render(&in, &text))
        return NULL;
    if (marks)
        *marks = text.marks;
    return text.text;
}

static void check_text(const char *name, const char *template, const Case *c,
                       const Json *expected) {
    bool raises = json_null(expected);
    if (raises)
        stderr_hide();
    char *text = render(template, c, NULL);
    if (raises)
        stderr_show();
    CHECK(raises ? !text : text && !strcmp(text, json_shown(expected)),
          "%s, %d turns, system %d: '%s', expected '%s'", name, c->turns,
          c->system, text ? text : "refused", json_shown(expected));
    free(text);
}

/* Compares the conversations of `rendered` with the templates in a folder. A
 * template whose name is in `refused` must be refused wherever transformers
 * does not raise an exception. Returns the number of conversations. */
static int check_conversations(const char *rendered, const char *templates,
                               const char *refused) {
    JsonFile json;
    int n = 0;
    if (json_open(&json, rendered))
        return 0;
    setenv("NORMA_DATE", "26 Jul 2024", 1);
    for (const Json *v = json_members(json.values, JSON_ARRAY); v;
         v = v->next, n++) {
        char path[PATH_MAX], name[128];
        size_t size;
        int64_t turns = 0;
        json_integer(json_get(v, "turns"), &turns);
        Case c = {NULL, (int)turns, json_true(json_get(v, "system")),
                  json_true(json_get(v, "open")), json_get(v, "think")};
        snprintf(path, sizeof path, "%s/%s.jinja", templates,
                 json_get(v, "template")->text);
        snprintf(name, sizeof name, "\n%s\n", json_get(v, "template")->text);
        char *template = file_read(path, &size);
        if (!template)
            break;
        check_text(path, template, &c,
                   strstr(refused, name) ? NULL : json_get(v, "text"));
        free(template);
    }
    json_close(&json);
    unsetenv("NORMA_DATE");
    return n;
}

/* Published templates (their licenses are Apache 2.0 or MIT), and templates
 * written from the documents of others. */
static void conversations_match_transformers(void) {
    int n = check_conversations("tests/golden/chat_rendered.json",
                                "tests/golden/chat", "");
    CHECK(n >= 300, "%d conversations", n);
}

/* Published templates that are not stored here, of the models listed in
 * tests/golden/chat_names.txt. The folder NORMA_TEMPLATES has the templates
 * and rendered.json, which scripts/golden/golden_chat.py writes. At most 3 of
 * 60 may be refused; a text is never wrong. */
static void other_templates_match_transformers(void) {
    static const char refused[] =
        "\nByteDance-Seed-OSS\nReka-Edge\ntencent-Hy3\n";
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/rendered.json", getenv("NORMA_TEMPLATES"));
    int n = check_conversations(path, getenv("NORMA_TEMPLATES"), refused);
    CHECK(n >= 80 * 24, "%d conversations", n);
}

static void the_language_matches_jinja(void) {
    Case c = {.turns = 2, .opens_answer = true};
    JsonFile json;
    int n = 0;
    setenv("NORMA_DATE", "26 Jul 2024", 1);
    CHECK(!json_open(&json, "tests/golden/jinja.json"), "does not open");
    for (const Json *v = json_members(json.values, JSON_ARRAY); v;
         v = v->next, n++)
        check_text(json_get(v, "template")->text, json_get(v, "template")->text,
                   &c, json_get(v, "text"));
    json_close(&json);
    unsetenv("NORMA_DATE");
    CHECK(n >= 50, "%d templates", n);
}

/* Every way from a message to the text. The message consists of bytes that the
 * templates do not write: each must have the mark 0, every other byte the mark
 * 1. */
static void bytes_keep_their_origin(void) {
    static const char message[] = " #Q<|#|>Q#q#\n";
    static const char *const templates[] = {
        "{{ m }}",
        "a{{ m }}b",
        "{{ 'a' + m + 'b' }}",
        "{{ m ~ 1 ~ m }}",
        "{{ m|trim }}",
        "{{ m.strip() }}",
        "{{ m.strip('\\n# ') }}",
        "{{ m.lstrip() }}",
        "{{ m.rstrip('\\n') }}",
        "{{ m.split('#')[1] }}",
        "{{ m.split('Q<')|join('-') }}",
        "{{ '-'.join(m.split('#')) }}",
        "{{ m.replace('q', '-') }}",
        "{{ 'a-b-'.replace('-', m) }}",
        "{{ m|replace(' ', '') }}",
        "{{ m|upper }}",
        "{{ m|lower }}",
        "{{ m[2] }}",
        "{{ m[3:] }}",
        "{{ m[:-2] }}",
        "{{ m[-3:-1] }}",
        "{{ m|string }}",
        "{{ m|default('a') }}",
        "{{ nothing|default(m) }}",
        "{{ m if m else 'a' }}",
        "{{ m or 'a' }}",
        "{{ [m, 'a']|join(m) }}",
        "{{ [m][0] }}",
        "{{ {'a': m}.a }}",
        "{{ {m: 'a'}|list|join }}",
        "{{ {'a': m}.get('a') }}",
        "{{ {}.get('a', m) }}",
        "{% set x = m %}{{ x }}",
        "{% set x %}a{{ m }}b{% endset %}{{ x }}",
        "{% set n = namespace(x=m) %}{% set n.x = n.x + 'a' %}{{ n.x }}",
        "{% macro f(x) %}a{{ x }}b{% endmacro %}{{ f(m) + 'a' }}",
        "{% macro f(x=m) %}{{ x|trim }}{% endmacro %}{{ f() }}",
        "{% for x in m.split('#') %}{{ x }}a{% endfor %}",

        "{% for x in [m][::-1] %}{{ x }}{% endfor %}",
        "{% for x in [{'a': m}]|selectattr('a') %}{{ x.a }}{% endfor %}",
        "{% generation %}{{ m }}{% endgeneration %}",
        "{% for x in [m] %}{{ loop.previtem }}{{ x }}{% endfor %}",
        "{{ (m + 'a').split('a')[0] }}",
        "{{ ('a' + m)|trim }}",
        "{{ m + m }}",
        "{{ [m, m][1] }}",
    };
    Case c = {.message = message};
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        char template[256], *text;
        bool *marks;
        int n_message = 0;
        snprintf(template, sizeof template,
                 "{%% set m = messages[0].content %%}%s", templates[i]);
        text = render(template, &c, &marks);
        CHECK(text, "%s is refused", templates[i]);
        for (size_t k = 0; text[k]; k++) {
            bool given = strchr(message, text[k]) != NULL;
            CHECK(marks[k] == !given, "%s: byte %zu of '%s' has the mark %d",
                  templates[i], k, text, marks[k]);
            n_message += given;
        }
        CHECK(n_message > 0, "%s: '%s'", templates[i], text);
        free(text);
    }
}

/* Every function applied to a message: no byte that only messages have is taken
 * for the template's, and none that only templates have for a message's. */
static void no_function_takes_a_message_for_the_template(void) {
    static char message[] = " #,<|#@|>,<#>&@,@";
    static bool none[sizeof message];
    size_t n = sizeof message - 1;
    JinjaText messages[] = {{message, none, n, "user"},
                            {message, none, n, "<#>"}};
    setenv("NORMA_DATE", "26 Jul 2024", 1);
    for (int i = 0; i < N_EXPRESSIONS; i++) {
        char template[1024];
        JinjaText text;
        snprintf(template, sizeof template, "%s%s", EXPRESSIONS_BEGIN,
                 EXPRESSIONS[i].text);
        CHECK(!jinja_render(&(JinjaInput){.path = "test",
                                          .template = template,
                                          .tokens = {{"<s>", 3}, {"", 0}},
                                          .messages = messages,
                                          .n = 2},
                            &text),
              "%s is refused", EXPRESSIONS[i].text);
        for (size_t k = 0; k < text.n; k++)
            CHECK(!strchr("#<|@>&", text.text[k]) || !text.marks[k],
                  "%s: byte %zu of '%s' is taken for the template's",
                  EXPRESSIONS[i].text, k, text.text);
        free(text.text);
    }
    unsetenv("NORMA_DATE");
}

/* Texts that the program has: they can be parts of markers, unless a message
 * chose them. */
static void the_program_s_own_texts(void) {
    static const struct {
        const char *template, *text;
        bool own;
    } cases[] = {
        {"{{ messages[0].role }}", "user", true},
        {"{{ messages[1].role }}", "assistant", true},
        {"{{ bos_token }}{{ eos_token }}", "<s></s>", true},
        {"{{ true }}{{ 12 }}{{ none }}", "True12None", true},
        {"{{ 'a\\n' }}", "a\n", true},
        {"{{ strftime_now('<|%Y|>') }}", "<|2024|>", false},
        {"{{ strftime_now(messages[0].content) }}", "hello there", false},
    };
    setenv("NORMA_DATE", "26 Jul 2024", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool *marks;
        char *text = render(cases[i].template, &(Case){.turns = 2}, &marks);
        CHECK(text && !strcmp(text, cases[i].text), "%s: %s", cases[i].template,
              text);
        for (size_t k = 0; text[k]; k++)
            CHECK(marks[k] == cases[i].own, "%s: byte %zu has the mark %d",
                  cases[i].template, k, marks[k]);
        free(text);
    }
    unsetenv("NORMA_DATE");
}

/* After Ctrl-C no template goes on, and nothing is reported. */
static void ctrl_c_ends_a_template(void) {
    stderr_hide();
    interrupted = 1;
    char *text = render("{% for a in range(9) %}{% endfor %}",
                        &(Case){.turns = 2}, NULL);
    interrupted = 0;
    CHECK(stderr_show() == 0 && !text, "%s%s", text ? text : "refused",
          stderr_text());
}

/* Rendering takes 80 MB of address space: 16 MB of text and 64 MB of values,
 * with their marks. */
static void rendering_takes_bounded_memory(void) {
#ifndef SANITIZED
    size_t pages = 0;
    FILE *in = fopen("/proc/self/statm", "r");
    CHECK(in && fscanf(in, "%zu", &pages) == 1, "no statm");
    fclose(in);
    size_t max = pages * (size_t)sysconf(_SC_PAGESIZE) + (85 << 20);
    int state = 0;
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_AS, &(struct rlimit){max, max});
        _exit(!render("{{ 1 }}", &(Case){.turns = 2}, NULL));
    }
    waitpid(pid, &state, 0);
    CHECK(state == 0, "state %d", state);
#endif
}

static void check_refusal(const char *template, const char *mention) {
    Case c = {.turns = 2};
    stderr_hide();
    char *text = render(template, &c, NULL);
    int lines = stderr_show();
    CHECK(!text && lines == 1 && strstr(stderr_text(), mention),
          "'%.80s': %s, %d lines: %s, expected '%s'", template,
          text ? "accepted" : "refused", lines, stderr_text(), mention);
}

/* What is not supported is refused by name, with its line. */
static void other_templates_are_refused(void) {
    static const char *const cases[][2] = {
        {"\n{{ x|tojson }}",
         "line 2 of the chat template: unsupported filter, method or test tojson"},
        {"{{ strftime_now('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') }}",
         "a date of more than 63 bytes"},
        {"{{ cycler(1) }}", "unsupported function cycler"},
        {"{% include 'a' %}", "unsupported statement include"},
        {"{% for a, b in [] %}{% endfor %}{% for a, b in [1] %}{% endfor %}",
         "expected a list"},
        {"{{ 'a'[:::1] }}", "expected"},
        {"{{ 'a'[1 2] }}", "expected ]"},
        {"{{ [1]|first(key='a') }}", "unexpected argument of first"},
        {"{{ {'a': 1}[0:1] }}", "a slice of what is no list"},
        {"{{ 12[:1] }}", "a slice of what is no list"},
        {"{{ none[1:] }}", "a slice of what is no list"},
        {"{{ nothing[1:] }}", "a slice of what is no list"},
        {"{{ 'it-s'.title() }}", "unsupported title"},
        {"{{ 1 // 0 }}", "divides by zero"},
        {"{% with a = 1 %}{% endwith %}", "unsupported statement with"},
        {"{% if 1 %}{% endwith %}{% endif %}", "unsupported statement endwith"},
        {"{% if 0 %}{% with 'a", "a string without an end"},
        {"{% if 0 %}{% with a", "expected %}"},
        {"{{ 3 - 1 ~ 'x' }}", "expected a number"},
        {"{{ 3 + 1 ~ 'x' }}", "expected a number"},
        {"{{ 1 % 0 }}", "divides by zero"},
        {"{{ 2147483647 + 1 }}", "an integer of more than 32 bits"},
        {"{{ -2147483647 - 2 }}", "an integer of more than 32 bits"},
        {"{{ 65536 * 32768 }}", "an integer of more than 32 bits"},
        {"{% break %}", "not in a loop"},
        {"{% for a in [1] %}{% endfor %}{% continue %}", "not in a loop"},
        {"{% for a in [] %}{% else %}{% break %}{% endfor %}", "not in a loop"},
        {"{% macro f() %}{% break %}{% endmacro %}{{ f() }}b", "not in a loop"},
        {"{% macro f() %}{% continue %}{% endmacro %}{% for a in [1] %}{{ f() }}b{% endfor %}",
         "not in a loop"},
        {"{{ 99999999999999999999 }}", "an integer of more than 32 bits"},
        {"{{ '\xc3\xa9'|upper }}", "outside ASCII"},
        {"{{ [1] }}", "prints a list"},
        {"{{ messages[0] }}", "prints a list"},
        {"{{ raise_exception('a' ~ 1) }}", "refused: a1"},
        {"{{ 'a' }", "expected }}"},
        {"a{{", "expected a name"},
        {"{{ [1]|join('-', 'a', 2) }}", "unexpected argument of join"},
        {"{{ 'a'|length(1) }}", "unexpected argument of length"},
        {"{{ 'a", "a string without an end"},
        {"{# a", "a comment without an end"},
        {"{% if 1 %}a", "expected"},
        {"a{% endif %}", "unexpected end of a statement"},
        {"{{ }}", "expected a name"},
        {"{{ nothing.a }}", "a member of an undefined value"},
        {"{{ range(1, 2, 0) }}", "a step of 0"},
        {"{% set x.y = 1 %}", "no namespace"},
        {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
         "more arguments than the macro"},
        {"{% macro f(a) %}{% endmacro %}{{ f(1, b=2) }}",
         "more arguments than the macro"},
        {"{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}",
         "more arguments than the macro"},
        {"{{ 'a'|replace(old='a', old='b') }}", "given twice"},
        {"{{ 'a'|replace('a', old='b') }}", "unexpected argument of replace"},
        {"{{ 'a'|trim(chars='a', 'b') }}", "without a name after"},
        {"{% set a, b = [1] %}", "another number of values"},
        {"{% for a, b in [[1, 2, 3]] %}{% endfor %}",
         "another number of values"},
        {"{{ 'abc'[::0] }}", "a step of 0"},
        {"{{ 'a' < 1 }}", "expected a number"},
        {"{{ 1 in 'a' }}", "contains only strings"},
        {"{{ 10 ** 10 }}", "an integer of more than 32 bits"},
        {"{{ 1.5 % 0 }}", "divides by zero"},
        {"{{ 1 is divisibleby 0 }}", "divides by zero"},
        {"{{ '%s' % [1, 2] }}", "too many values"},
        {"{{ '%s %s' % 1 }}", "too few values"},
        {"{{ '{} {}'.format(1) }}", "too few values"},
        {"{{ '{:>3}'.format(1) }}", "unsupported field"},
        {"{{ '%x'|format(1) }}", "unsupported in a format"},
        {"{{ nothing|int }}", "undefined"},
        {"{{ '\\ud800' }}", "an unsupported escape"},
        {"{{ (1).strip() }}", "a method of what is no string"},
        {"{% if 0 %}{{ (1] }}{% endif %}", "brackets that do not match"},
        {"{% raw %}a", "raw without endraw"},
        {"{% set a = {} %}{% set a.b = 1 %}", "no namespace"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refusal(cases[i][0], cases[i][1]);
}

/* A template of n times `one`. */
static char *repeated(const char *before, const char *one, size_t n,
                      const char *after) {
    Buffer b = {0};
    buffer_append(&b, before, strlen(before));
    for (size_t i = 0; i < n; i++)
        buffer_append(&b, one, strlen(one));
    buffer_append(&b, after, strlen(after));
    if (b.failed)
        abort();
    return b.bytes;
}

/* Templates that would run forever or grow without bound end with a message. */
static void hostile_templates_end_by_a_limit(void) {
    static const struct {
        const char *before, *one, *after, *mention;
        size_t n;
    } cases[] = {
        {"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
         "", "", "needs too much memory", 0},
        {"{% for a in range(20000) %}", "{% if 1 %}{% endif %}", "{% endfor %}",
         "takes too many steps", 1000},
        {"{% set big = range(200000) %}{% for x in big if big|rejectattr('a','undefined') %}{% endfor %}",
         "", "", "takes too many steps", 0},
        {"{% set h = '", "a",
         "' %}{% for a in range(9999) %}{{ 'b' in h }}{% endfor %}",
         "takes too many steps", 100000},
        {"{% set l = range(99999) %}{% for a in l %}{% for b in l %}{{ 'a' in l }}",
         "", "{% endfor %}{% endfor %}", "takes too many steps", 0},
        {"{{ range(2000000000) }}", "", "", "needs too much memory", 0},
        {"{% set n = namespace(x='abcdefgh') %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
         "", "", "writes too much text", 0},
        {"{% set n = namespace(x=[1]) %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
         "", "", "needs too much memory", 0},
        {"{% for a in range(99999) %}", "abcdefghijklmnopqrstuvwxyz",
         "{% endfor %}", "writes too much text", 1000},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "", "",
         "nested too deep", 0},
        {"{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}", "", "",
         "nested too deep", 0},
        {"{{ ", "(", "", "nested too deep", 100000},
        {"{{ ", "not ", "", "nested too deep", 100000},
        {"{{ ", "[", "", "nested too deep", 100000},
        {"{{ ", "{1:", "", "nested too deep", 100000},
        {"{{ ", "a[", "", "nested too deep", 100000},
        {"{{ 1 ", "if 1 else 1 ", "}}", "nested too deep", 50000},
        {"", "{% if 1 %}", "", "nested too deep", 50000},
        {"", "{% for a in [1] %}", "", "nested too deep", 50000},
        {"", "a", "", "too long", 1048577},
    };
    for (size_t i = test_fast() ? 7 : 0; i < sizeof cases / sizeof *cases;
         i++) {
        char *template =
            repeated(cases[i].before, cases[i].one, cases[i].n, cases[i].after);
        check_refusal(template, cases[i].mention);
        free(template);
    }
}

static void check_length(const char *template, size_t expected) {
    char *text = render(template, &(Case){.turns = 1}, NULL);
    CHECK(text && strlen(text) == expected, "'%.80s': %zu bytes, expected %zu",
          template, text ? strlen(text) : 0, expected);
    free(text);
}

/* What is as long or as deep as the limits allow runs; one more is refused.
 * The text and the expression are two levels. */
static void templates_reach_the_limits(void) {
    static const struct {
        const char *before, *one, *middle, *other, *after, *mention;
        size_t n, written;
    } cases[] = {
        {"", "{% if 1 %}", "a", "{% endif %}", "", "nested too deep",
         JINJA_DEPTH - 1, 1},
        {"", "{% for a in 'a' %}", "a", "{% endfor %}", "", "nested too deep",
         JINJA_DEPTH - 1, 1},
        {"{{ ", "(", "1", ")", " }}", "nested too deep", JINJA_DEPTH - 2, 1},
        {"{{ ", "[", "1", "][0]", " }}", "nested too deep", JINJA_DEPTH - 2, 1},
        {"{{ ", "{1: ", "1", "}[1]", " }}", "nested too deep", JINJA_DEPTH - 2,
         1},
        {"{{ ", "not ", "1", "", " }}", "nested too deep", JINJA_DEPTH - 2, 4},
        {"", "a", "", "", "", "too long", JINJA_TEMPLATE, JINJA_TEMPLATE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int more = 0; more < 2; more++) {
            size_t n = cases[i].n + more;
            char *begin = repeated(cases[i].before, cases[i].one, n,
                                   cases[i].middle),
                 *whole = repeated(begin, cases[i].other, n, cases[i].after);
            if (more)
                check_refusal(whole, cases[i].mention);
            else
                check_length(whole, cases[i].written);
            free(whole);
            free(begin);
        }
}

/* A text has fewer bytes than half of the output, which also has its marks. */
static void a_text_fills_the_output(void) {
    for (int more = 0; more < 2; more++) {
        char *begin = repeated("{% for a in range(8191) %}", "a", 1024,
                               "{% endfor %}"),
             *whole = repeated(begin, "a", 1023 + more, "");
        if (more)
            check_refusal(whole, "writes too much text");
        else
            check_length(whole, JINJA_OUTPUT / 2 - 1);
        free(whole);
        free(begin);
    }
}

/* Long chains without nesting are read to their end. */
static void long_templates_run(void) {
    static const char *const cases[][2] = {
        {"1 + ", "1"}, {"'a' ", "'b'"}, {"1 or ", "1"}, {"not 0 and ", "1"}};
    for (int i = 0; i < 4; i++) {
        char *template = repeated("{{ ", cases[i][0], 10000, ""),
             *whole = repeated(template, cases[i][1], 1, " }}");
        char *text = render(whole, &(Case){.turns = 1}, NULL);
        CHECK(text, "%s is refused", cases[i][0]);
        free(text);
        free(whole);
        free(template);
    }
}

/* Changed templates render or are refused. NORMA_THOROUGH: 20,000. */
static void changed_templates_end(void) {
    static const char *const names[] = {"qwen3-0.6b", "mistral-nemo",
                                        "granite-4.0", "smollm3-3b",
                                        "deepseek-v3.1"};
    static const char *const parts[] = {
        "{{",   "}}",       "{%",    "%}",       "{#",      "#}",
        "-",    "'",        "\"",    "(",        ")",       "[",
        "]",    "|",        " if ",  " else ",   " endif ", " for ",
        " in ", " endfor ", " set ", "messages", " macro ", " endmacro ",
        "loop", ".",        ":",     ",",        " not ",   " is ",
        "~",    "{",        "}"};
    int n = test_thorough() ? 4000 : test_fast() ? 4 : 100;
    for (uint64_t t = 0; t < 5; t++) {
        char path[64];
        size_t size;
        snprintf(path, sizeof path, "tests/golden/chat/%s.jinja", names[t]);
        char *template = file_read(path, &size);
        CHECK(template, "%s is missing", path);
        stderr_hide();
        for (int i = 0; i < n; i++) {
            Buffer b = {0};
            uint64_t r = hash64(7, t, (uint64_t)i);
            size_t at = r % size,
                   cut = (r >> 32) % 4 ? (r >> 40) % 3 : (r >> 40) % 200;
            const char *part =
                parts[(r >> 20) % (sizeof parts / sizeof *parts)];
            buffer_append(&b, template, at);
            buffer_append(&b, part, (r >> 50) % 4 ? strlen(part) : 0);
            if (at + cut < size)
                buffer_append(&b, template + at + cut, size - at - cut);
            free(render(
                b.bytes,
                &(Case){.turns = 3, .system = r & 1, .opens_answer = true},
                NULL));
            free(b.bytes);
        }
        stderr_show();
        free(template);
    }
}

void suite_jinja(void) {
    TEST(conversations_match_transformers);
    if (getenv("NORMA_TEMPLATES"))
        TEST(other_templates_match_transformers);
    TEST(the_language_matches_jinja);
    TEST(bytes_keep_their_origin);
    TEST(no_function_takes_a_message_for_the_template);
    TEST(the_program_s_own_texts);
    TEST(ctrl_c_ends_a_template);
    TEST(rendering_takes_bounded_memory);
    TEST(other_templates_are_refused);
    TEST(hostile_templates_end_by_a_limit);
    TEST(templates_reach_the_limits);
    TEST(a_text_fills_the_output);
    TEST(long_templates_run);
    TEST(changed_templates_end);
}
