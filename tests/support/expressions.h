/* expressions.h: every function, filter, method, test, operator and literal of
 * chat templates (formats/jinja.c), each applied to a message.
 *
 * EXPRESSIONS_BEGIN sets s: a message, with commas; c: a copy of it; a: an
 * ASCII message; l: the parts of s between commas, a list.
 */
#pragma once

#include <stddef.h>

#define EXPRESSIONS_BEGIN                                                      \
    "{% set s = messages[0].content %}{% set c = s + '' %}"                    \
    "{% set a = messages[1].content %}{% set l = s.split(',') %}"              \
    "{% macro f(x, y=s) %}{{ x }}{{ y }}{% endmacro %}"

/* What an expression visits at least: bytes of s or of a, characters of s,
 * items of l, or 0. */
typedef struct {
    const char *text;
    char visits;
} Expression;

static const Expression EXPRESSIONS[] = {
    {"{{ s }}", 0},
    {"{{ s ~ s }}", 0},
    {"{{ s + s }}", 0},
    {"{{ s|trim }}", 0},
    {"{{ s.strip(s[:2]) }}", 'c'},
    {"{{ s.lstrip(s[:2]) }}", 'c'},
    {"{{ s.rstrip(s[:2]) }}", 'c'},
    {"{{ s|string }}", 0},
    {"{{ a|upper }}", 'a'},
    {"{{ a|lower }}", 'a'},
    {"{{ a|capitalize }}", 'a'},
    {"{{ a[:2].title() }}", 'c'},
    {"{{ s|first ~ s|last ~ l|first ~ l|last }}", 'c'},
    {"{{ l.0 ~ s.0 }}", 'c'},
    {"{% for c in s[:9] %}{{ c }}{% endfor %}", 0},
    {"{{ s[:20000]|list|length }}", 'c'},
    {"{{ 7 // 2 }}{{ 0 and 2 ** 3 / 1.5 }}", 0},
    {"{{ s|length }}", 'c'},
    {"{{ l|length }}", 0},
    {"{{ s|default(a) }}", 0},
    {"{{ none|default(s, true) }}", 0},
    {"{{ s.split('x')[0] }}", 's'},
    {"{{ s.split(',')[0] }}", 's'},
    {"{{ s.split(',', 1)[1] }}", 's'},
    {"{{ s.replace(',', s[:9]) }}", 's'},
    {"{{ s.replace('x', a) }}", 's'},
    {"{{ ''.join(l) }}", 'i'},
    {"{{ l|join(';') }}", 'i'},
    {"{{ s.startswith(c) }}", 's'},
    {"{{ s.endswith(c) }}", 's'},
    {"{{ s == c }}", 's'},
    {"{{ s != c }}", 's'},
    {"{{ s is eq(c) }}", 's'},
    {"{{ s is equalto(c) }}", 's'},
    {"{{ 'x' in s }}", 's'},
    {"{{ s not in c }}", 's'},
    {"{{ s in l }}", 'i'},
    {"{{ l|list|length }}", 0},
    {"{{ l[::-1][0] }}", 'i'},
    {"{{ (l + l)[0] }}", 'i'},
    {"{{ s[0] }}", 'c'},
    {"{{ s[-1] }}", 'c'},
    {"{{ s[1:-1] }}", 'c'},
    {"{{ s[:3] ~ s[-3:] }}", 'c'},
    {"{{ l[-1] ~ l[0] ~ l[1:][0] }}", 0},
    {"{{ {s: s}[s] }}", 0},
    {"{{ {'k': s}.k ~ {'k': s}.get('k') }}", 0},
    {"{{ {}.get('k', s) }}", 0},
    {"{{ namespace(k=s).k }}", 0},
    {"{{ [s, a][0] ~ (s, a)[1] }}", 0},
    {"{{ s if s else a }}", 0},
    {"{{ (s and a) or s }}", 0},
    {"{{ not s }}", 0},
    {"{{ s is defined and s is not undefined and s is string }}", 0},
    {"{{ s is none or s is mapping or s is iterable or s is sequence }}", 0},
    {"{{ s is true or s is false }}", 0},
    {"{{ 1 + 2 - -3 * 4 % 5 }}", 0},
    {"{{ 1 < 2 and 2 > 1 and 1 <= 1 and 1 >= 1 }}", 0},
    {"{{ True ~ False ~ None ~ true ~ false ~ none ~ 12 }}", 0},
    {"{{ strftime_now(s[:9]) }}", 'c'},
    {"{{ strftime_now('%Y' ~ a[:20]) }}", 0},
    {"{{ 'a\\n\\t\\'' \"b\" }}", 0},
    {"{% for x in range(9, 0, -3) %}{{ x }}{{ s }}{% endfor %}", 0},
    {"{% for x in l|selectattr('k', 'undefined') %}{{ x }}{% endfor %}", 'i'},
    {"{{ l|selectattr('k')|list|length }}{{ s }}", 'i'},
    {"{{ l|rejectattr('k', 'undefined')|list|length }}{{ s }}", 'i'},
    {"{% for x in l|rejectattr('k') %}{{ x }}{% endfor %}", 'i'},
    {"{% for x in l if x %}{{ x }}{{ loop.index }}{% endfor %}", 'i'},
    {"{% for x in [s, a] %}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}",
     0},
    {"{% for k in messages[0] %}{{ k }}{% endfor %}", 0},
    {"{{ f(s) ~ f(s, y=a) }}", 0},
    {"{% set x %}{{ s }}-{% endset %}{{ x }}", 0},
    {"{% set n = namespace(k='') %}{% set n.k = n.k + s %}{{ n.k }}", 0},
    {"{% generation %}{{ s }}{% endgeneration %}", 0},
    {"{% if s %}{{ s }}{% elif a %}-{% else %}{{ a }}{% endif %}", 0},
    {"{#- {{ s }} -#}{{- s -}}{%- if s -%}{{ s }}{%- endif -%}", 0},
    {"{% for x in l %}{% break %}{% endfor %}{{ s }}", 0},
    {"{% for x in [s] %}{% continue %}{% else %}{% endfor %}{{ s }}", 0},
    {"{{ l|count }}{{ s|d(a) }}{{ -1|abs }}{{ '5'|int }}{{ 1|float }}", 0},
    {"{% for k, v in {'k': s, a: 'x'}|dictsort %}{{ v }}{% endfor %}", 0},
    {"{% for k, v in dict(k=s).items() %}{{ k ~ v }}{% endfor %}", 0},
    {"{{ {'k': s}.values()|list|first ~ {s: 1}.keys()|list|first }}", 0},
    {"{{ '%s;'|format(s) ~ '{}'.format(s) }}", 0},
    {"{{ l|map(attribute='k')|list|length }}{{ s }}", 'i'},
    {"{{ s[:20000]|reverse }}", 'c'},
    {"{{ s|safe }}{{ s.split()[0] }}", 'c'},
    {"{{ s is boolean or s is callable or s is number }}", 0},
    {"{{ 4 is divisibleby 2 and 4 is even and 3 is odd }}", 0},
    {"{{ s is ne c or s is in l or 1 is integer or 1 is float }}", 's'},
    {"{{ s is in c }}", 's'},
    {"{{ 7 // 2 }}{{ 2 ** 3 }}{{ 7 / 2 }}{{ s * 2 }}", 0},
    {"{{ s[:9][::2] ~ s[:9][5:1:-1] }}", 'c'},
    {"{{ s < c }}{{ s > c }}{{ l == l }}", 's'},
    {"{% set x, y = s, a %}{{ x }}{{ y }}", 0},
    {"{% raw %}{{ s }}{% endraw %}{{ s }}", 0},
    {"{% macro g() %}{{ varargs[0] }}{{ kwargs.k }}{% endmacro %}{{ g(s, k=s) }}",
     0},
};
enum { N_EXPRESSIONS = sizeof EXPRESSIONS / sizeof *EXPRESSIONS };
