"""Writes tests/golden/chat_rendered.json and jinja.json: what transformers renders.

python3 scripts/golden/golden_chat.py
python3 scripts/golden/golden_chat.py FOLDER    # only FOLDER/rendered.json, from the templates in the folder

For each template in tests/golden/chat: the text of 1 to 3 turns, with and without a system prompt, with and without the
start of an answer, and with each value of enable_thinking and thinking. The templates of published models are unchanged; their
licenses are Apache 2.0 or MIT. "text" is null if the template raises an exception. The date is 26 July 2024.

jinja.json has small templates, one for each rule of the language, with the text of a conversation of three messages.
"""

import datetime
import json
import sys
from pathlib import Path

from transformers.utils import chat_template_utils

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"
SYSTEM = "Be kind, and be brief. "
USERS = "hello there", "  and you? [yes]\u00e9\n", "ab  abc </ s>"
CASE = {"turns": 2, "system": False, "open": True, "think": None}
ANSWERS = "<think>\nHm.\n</think>\n\ngood day", " I am well "


SNIPPETS = r"""
{{ 1 + 2 * 3 - 4 % 3 % 5 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 - 3 - 4 }} {{ - 5 }}
{{ 1 < 2 }} {{ 2 <= 2 }} {{ 3 > 4 }} {{ 3 >= 4 }} {{ 1 == true }} {{ 'a' != 'b' }} {{ none == false }} {{ '1' == 1 }}
{{ true and 'x' }} {{ '' or 'y' }} {{ not 1 }} {{ not not 1 }} {{ not 1 == 2 }} {{ false and nothing.x }}
{{ 'a' ~ 1 ~ none ~ true }} {{ 'a' + 'b' }} {{ 'a' if 1 else 'b' }} {{ 'a' if 0 }} {{ 'a' if 0 else 'b' if 0 else 'c' }}
{{ nothing.x if nothing is defined else 'no' }} {{ (nothing.x.y if false else 1) + 1 }}
{{ 'el' in 'hello' }} {{ 'x' not in ['x', 'y'] }} {{ 'x' not  in ['x'] }} {{ 'role' in messages[0] }} {{ 2 in [1, 2] }} {{ 1 in nothing }}
{{ 'abc'[1] }} {{ 'abc'[-1] }} {{ 'abc'[1:] }} {{ 'abc'[:-1] }} {{ 'aé€b'[1:3] }} {{ 'abc'[5:] }} {{ 'abc'[2:1] }}
{{ [1, 2, 3][-2:]|length }} {{ [1, 2, 3][9] }}- {{ [4, 5][-1] }} {{ 'abc'[7] }} {{ [][0] is defined }}
{% for x in [1, 2, 3][::-1] %}{{ x }}{% endfor %} {% for x in ['a']|list + ['b'] %}{{ x }}{% endfor %}
{{ {'a': 1, 'b': {'c': 'd'}}['b'].c }} {{ {'a': 1}.get('a') }} {{ {'a': 1}.get('x', 'y') }} {{ {}.get('x') }} {{ {}['x'] }}-
{{ '  a b '|trim }}. {{ ' a '.strip() }}. {{ 'xxaxx'.strip('x') }} {{ '\n\na\n'.lstrip('\n') }}. {{ ' a '.rstrip() }}.
{{ 'xyaxy'.strip('yx') }} {{ '    '|trim }}. {{ ' 　a '|trim }} {{ 'éaé'.strip('é') }}
{{ 'a,b,,c'.split(',')|length }} {{ 'a</t>b</t>c'.split('</t>')[-1] }} {{ 'a-b-c'.split('-', 1)[1] }} {{ ''.split(',')|length }}
{{ 'a-b'.replace('-', '+') }} {{ 'aXbX'|replace('X', '') }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('ab') }}
{{ ['a', 'b']|join(', ') }} {{ '-'.join(['a', 'b']) }} {{ []|join(',') }} {{ [1, 2]|join }}
{{ 'Ab'|upper }} {{ 'Ab'|lower }} {{ 'Ab'.upper() }} {{ 'aB cD'|capitalize }} {{ ''|capitalize }} {{ 'aé€'|length }} {{ messages|length }} {{ {'a': 1}|length }}
{{ nothing|default('d') }} {{ ''|default('d', true) }} {{ ''|default('d') }}. {{ none|default('d', boolean=true) }} {{ nothing|default }}.
{{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|rejectattr('role', 'eq', 'user')|list|length }}
{{ [{'a': 0}, {'a': 1}, {'b': 1}]|selectattr('a')|list|length }} {{ messages|selectattr('x', 'defined')|list|length }}
{{ 'a' is string }} {{ 1 is string }} {{ none is none }} {{ 1 is not none }} {{ 1 is  not none }} {{ x is undefined }} {{ x is not defined }}
{{ {} is mapping }} {{ [] is mapping }} {{ [] is iterable }} {{ 'a' is iterable }} {{ [] is sequence }} {{ 1 is iterable }}
{{ true is true }} {{ 1 is true }} {{ false is false }} {{ none is false }} {{ 'a' is equalto('a') }} {{ 1 is eq(2) }}
{{ 5|string + 'a' }} {{ true|string }} {{ none|string }} {{ [1]|list|length }}
{{ nothing }}. {{ none }} {{ true }} {{ false }} {{ 'a' 'b' "c" }} {{ 'it\'s' }} {{ "a\tb\\n\r" }} {{ ()|length }} {{ (1, 2)[1] }}
{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{% endfor %}
{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined }}{% endfor %}
{% for m in messages %}{{ loop.nextitem.content if loop.nextitem else '-' }};{% endfor %}
{% for m in messages if m.role != 'user' %}{{ loop.index }}{{ m.content }}{% else %}none{% endfor %}
{% for m in [] %}a{% else %}empty{% endfor %} {% for m in nothing %}a{% endfor %} {% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}
{% for i in range(5) %}{% if i == 1 %}{% continue %}{% elif i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in range(3) %}{% for k in range(i, 3) %}{% if k == 2 %}{% break %}{% endif %}{{ i }}{{ k }} {% endfor %}{% endfor %}
{% for i in range(6, 0, -2) %}{{ i }}{% endfor %} {% for i in range(1) %}x{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }} {% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(a=1, b='x') %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% set ns.c = i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}
{% set x %}a{{ 1 + 1 }}b{% endset %}{{ x|length }}{{ x }} {% set y = ['a'] + ['b'] %}{{ y[1] }}
{% macro f(a, b='d', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=4) }}{{ f(1, c='x')|length }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro f() %}{{ inner is defined }}{{ outer }}{% endmacro %}{% set outer = 5 %}{% for inner in [1] %}{{ f() }}{% endfor %}
{% if messages[0]['role'] == 'system' %}s{% elif 1 %}e{% else %}l{% endif %}{% if 0 %}a{% elif 0 %}b{% else %}c{% endif %}
{% generation %}a{{ 1 }}{% endgeneration %}{%- generation -%} b {%- endgeneration -%}
a {%- if true -%} b {%- endif -%} c {{- ' d ' -}} e {# comment -#}  f {%+ if true +%} g {% endif %}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d') }} {{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}
{{ tools is none }} {{ documents is none }} {{ enable_thinking is defined }} {{ messages[1].content }} {{ messages[-1]['content'] }}
{{ messages[1] == messages[1] }} {{ 'b' + 'a' in 'xbax' }} {{ 'a' ~ 'b'|upper }} {{ -1|string }} {{ ('a' ~ 'b')|upper }}
{{ 'x' if 'a' in 'abc' and not ('d' in 'abc') else 'y' }} {{ [1, 2,][1] }} {{ {'a': 1,}['a'] }} {{ {'a':{'b':{}}}['a']['b']|length }}
{{ strftime_now is defined }} {{ raise_exception is defined }} {{ 1 if range else 0 }}
{{ raise_exception('stop') }}
{% macro f(a) %}{{ a }}{% if kwargs %}K{{ kwargs.z }}{% endif %}{% if varargs %}V{{ varargs|join }}{% endif %}{% endmacro %}{{ f('x', 'y', 'w') }}{{ f('x', z=1) }}{{ f(a='b') }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f('x', 'y') }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f('x', b='y') }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f('x', a='y') }}
{% macro f(a) %}{% macro g() %}{{ varargs|length }}{% endmacro %}{{ a }}{{ g(1, 2) }}{% endmacro %}{{ f('x', 'y') }}
{% macro f(a, b='c') %}{{ a }}{{ b }}{{ varargs|length }}{% endmacro %}{{ f('x', 'y') is string }}
{% macro f() %}{{ 1 }}{% endmacro %}{{ f is callable }}{{ range is callable }}{{ 1 is callable }}
{% if namespace() %}yes{% else %}no{% endif %}{% if {} %}yes{% else %}no{% endif %}{{ namespace() is mapping }}{{ {} is mapping }}
{% set n = namespace({'a': 1}, b=2) %}{{ n.a }}{{ n.b }}{{ dict(a=1).a }}
{% set a = {'b': 1} %}{% set a.b = 2 %}
{% for k, v in {'b': 1, 'A': 3, 'c': 2}|dictsort %}{{ k }}{{ v }} {% endfor %}{% for k, v in {'b': 1, 'A': 3}|dictsort(true) %}{{ k }}{% endfor %}
{% for k, v in {'b': 1, 'a': 3, 'c': 2, 'd': 0}|dictsort(by='value', reverse=true) %}{{ k }}{{ v }} {% endfor %}{{ {}|dictsort|length }}
{% for k, v in {0: 0, 512: 128, 16: 4}|dictsort %}{{ k }}:{{ v }} {% endfor %}{% for k, v in {1: 2}.items() %}{{ k + v }}{% endfor %}
{% for k, v in {'a': 1}|items %}{{ k }}{{ v }}{% endfor %}{{ {'a': 1}.keys()|join }}{{ {'a': 1}.values()|join }}{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{{ '12'|int }} {{ ' -7 '|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 3.9|int }} {{ -3.9|int }} {{ '3.9'|int }} {{ 'ff'|int(0, 16) }} {{ none|int }} {{ true|int }} {{ 'x'|int(default=7) }}
{{ '1.5'|float }} {{ 2|float }} {{ 'x'|float }} {{ -2|abs }} {{ -2.5|abs }}
{{ '%s-%d-%s%%'|format('a', 3, none) }} {{ '%s' % 'a' }} {{ '%s %s' % ('a', 1) }} {{ 'a{}b{}'.format(1, 'x') }} {{ '{1}{0}{{}}{k}'.format('a', 'b', k=2) }}
{{ 1.5 }} {{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e15 }} {{ 1.5e-5 }} {{ 0.0001 }} {{ 7 / 2 }} {{ 4 / 2 }} {{ 1e300 * 1e10 }} {{ 100.0 }} {{ 1_000 }} {{ 123456.789 }} {{ 2.5 * 2 }}
{{ 7 // 2 }} {{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 2 ** 3 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** 0.5 }} {{ 0 ** 0 }} {{ 1.5 == 1.5 }} {{ 1 == 1.0 }} {{ 1 < 1.5 }}
{{ 'abcdef'[::2] }} {{ 'abcdef'[1::-1] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[4:1:-2] }} {{ 'aé€b'[::-1] }} {{ [1, 2, 3, 4][1::2]|join }} {{ [1, 2, 3][::-2]|join }} {{ 'abc'[-9:9:2] }} {{ 'abc'[9:-9:-1] }} {{ ''[::-1] }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set e = 5, 6 %}{{ e|length }}{% set a, b = b, a %}{{ a }}{{ b }}
{% for x in 1, 2 %}{{ x }}{% endfor %}{% for a, b in [[1, 2], 'xy'] if a %}{{ a }}{{ b }}{{ loop.index }}{% endfor %}
{% set a, b = [1] %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 != 1 }} {{ 1 in [1] in [true] }} {{ 1 == 1 not in [2] }} {{ 'a' < 'b' }} {{ 'a' < 'B' }} {{ 'ab' > 'a' }}
{{ [1, 'a'] == [1, 'a'] }} {{ [1] == [2] }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ {'a': 1} == {'a': 2} }} {{ [1] in [[1]] }} {{ messages[0] == messages[0] }} {{ [] == '' }}
{{ 'a' * 3 }}{{ 2 * 'b' }}{{ ([1] * 2)|length }}{{ 'a' * 0 }}{{ 'a' * -1 }} {{ '\x41\u00e9\101\a\q' }} {{ + 1 }} {{ - - 1 }}
{% raw %}{{ a }} {% if %}{% endraw %} b {%- raw -%}  c  {%- endraw %} d
{{ 'a b  c'.split() | join('-') }} {{ ' a '.split()|length }} {{ 'aa'.replace('a', 'b', 1) }} {{ messages|join(',', attribute='role') }} {{ messages|map(attribute='role')|join }} {{ none|default('x', boolean=true) }} {{ ''|default(boolean=true, default_value='a') }} {{ 'abc'|join('-') }} {{ 'abc'|reverse }} {{ [1, 2]|reverse|join }} {{ 'a'|d }} {{ x|d('b') }} {{ [1]|count }}
{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.5 is float }} {{ 1 is float }} {{ true is boolean }} {{ 3 is odd }} {{ 3 is even }} {{ 4 is divisibleby 2 }} {{ 1 is in [1] }} {{ 'a' is eq 'a' }} {{ 'a' is ne 'a' }} {{ 1 is not in([2]) }}
{{ 'a'|upper(1) }}
{{ 'a'.upper(1) }}
{{ 'a'|strip }}
{{ 1.upper() }}
{{ range() }}
{{ 'a' in 1 }}
{{ 1 in 'a' }}
{{ 'a' < 1 }}
{% if tools %}{{ x[1:2:3][y](z=[{'a': '}}'}]) }}{% set a %}b{% endset %}{% set c = d == e %}{% for x in [1] %}{% else %}{% endfor %}{% macro m(a, b=')') %}{% endmacro %}{% endif %}q
{% if true %}a{% elif x.y.z %}b{% endif %}{% for x in [] if x.y %}{% else %}c{% endfor %}{{ 'x' if true else nothing.x.y // 0 }}{{ false and 1 // 0 }}
{{ nothing.x }}
{{ 'a' + 1 }}
{{ messages.x.y }}
{% if true %}
{{ 'ab cd'.title() }} {{ messages[0].role.title() }} {{ 'ABC dEF'.title() }} {{ ''.title() }}
{{ (messages|last).role }} {{ (messages|first).role }} {{ 'abc'|last }}{{ 'abc'|first }} {{ ''|last }}{{ []|first }} {{ {'a': 1}|first }}
{{ messages.0.role }} {{ messages.0 .content }} {{ 'abc'.1 }} {{ [[1, 2]].0[1] }}
{% for c in 'aé€b' %}[{{ c }}]{{ loop.length }}{% endfor %} {{ 'abc'|list|join('-') }} {% for c in '' %}a{% else %}b{% endfor %}
{{ 'abc'[5] is defined }} {{ 'abc'[-4] is defined }} {{ 'abc'[-3] is defined }} {{ [][0] is defined }}
{% if tools %}{% raw %}{{ y }}{% endraw %}{% endif %}x
{% if tools %}{% with a=1 %}{{ a // 2 ** 3 }}{% endwith %}{% call(x) f(1, '%}') %}y{% endcall %}{% endif %}q
{% if tools %}{{ tools[::2] ~ 1.5 / 2 ~ x[1:2:3] ~ 'a\x41' }}{% include 'x' %}{% filter upper %}a{% endfilter %}{% endif %}q
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ 'x' if not tools else 1.5 }} {{ tools and 1 < 2 < 3 }} {{ 1 or '\x41' }}
{% for m in messages %}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }}{{ loop.depth0 }}{% if loop.revindex == 1 %}<last>{% endif %} {% endfor %}
{{ messages[0].nothing is defined }} {{ messages[0].nothing }} {% for k in messages[0] %}{{ k }},{% endfor %}
{% if tools %}{% with %}{% if 1 %}a{% else %}b{% endif %}{% endwith %}{% for a, b in tools.items() %}{{ a }}{% endfor %}{% else %}c{% endif %}
{{ [1, 0, 2]|length }} {{ ([1] + [2])|length }} {% set a = [1] %}{% set b = a + [2] %}{% set c = a + [3] %}{{ b|join(',') }} {{ c|join(',') }} {{ a|length }}
{{ [1] + 'a' }}
{{ 'a' + [1] }}
{{ 1 + [1] }}
{{ 'ab' - 'a' }}
{{ {} + {} }}
{{ 'b  a'[1:2].strip() }}.{{ '  a'[:1].lstrip() }}.{{ 'a  '[2:].rstrip() }}.{{ 'xx'.strip('x') }}.{{ 'xxx'[:1].lstrip('x') }}.{{ 'xxx'[1:2].rstrip('x') }}.
{{ ' a '|string }}.{{ ' a '.lstrip() }}.{{ ' a '.rstrip() }}.{{ ' a '|trim }}.{{ 'xax'.lstrip('x') }}.{{ 'xax'.rstrip('x') }}.{{ ''.strip() }}.{{ 'é é'.strip('é') }}.
{{ -{'a': 1}.a }} {{ -[2][0] }} {{ -{'a': [3]}.a[0] + 1 }}
{{ not 0 or 1 }} {{ not 0 and 0 }} {{ not (0 and 0) }} {{ not 1 in [1] }} {{ not 'a' is string }} {{ not not 0 == 0 }} {{ 1 - -1 }} {{ 2 * -3 }}
{% macro f() %}m{% endmacro %}{{ 1 if f else 0 }}{{ f is defined }}{{ f is string }}{{ f is mapping }}{{ f == f }}{{ f == 1 }}{{ f and 1 }} {{ range == range }} {{ range == f }}
{% macro f() %}m{% endmacro %}{% macro g() %}m{% endmacro %}{{ f == g }} {{ range == namespace }}
{% for i in range(-5, 6) %}{% for k in range(-5, 6) %}{{ 'aé€b'[i:k] }},{{ [1, 2, 3][i:k]|join }};{% endfor %}{{ 'aé€b'[i:] }},{{ 'aé€b'[:i] }},{{ [1, 2, 3][i:]|join }},{{ [1, 2, 3][:i]|join }} {% endfor %}
{% for i in range(-5, 6) %}{{ 'aé€b'[i] }},{{ [1, 2, 3][i] }},{{ [1, 2, 3][i] is defined }};{% endfor %}
{% for i in range(-3, 4) %}{% for k in range(-3, 4) %}{{ range(i, k)|list|length }}{{ range(i, k, 2)|join }},{{ range(i, k, -1)|join }};{% endfor %}{{ range(i)|join }} {% endfor %}
{% for n in [-1, 0, 1, 2, 3] %}{{ 'a-b--c'.split('-', n)|join('/') }} {{ 'a-b'.split('--', n)|length }} {% endfor %}{{ '-'.split('-')|length }} {{ 'aaa'.split('aa')|join('/') }}
{{ 'aaa'.replace('aa', 'b') }} {{ 'abab'.replace('ab', '') }}. {{ 'abab'|replace('b', 'ab') }} {{ ''.replace('a', 'b') }}. {{ '-'.join('abc'|list) }} {{ ''.join([]) }}. {{ ','.join(['a']) }}
{% for s in ['', 'a', 'hELLO wORLD', ' a  b', 'X', 'az AZ', 'a\nb'] %}{{ s|upper }},{{ s|lower }},{{ s|capitalize }},{{ s|title }},{{ s.upper() }},{{ s.lower() }},{{ s.capitalize() }},{{ s.title() }};{% endfor %}
{% for s in ['', 'a', 'ab', 'abc', 'b', 'c', 'abcd'] %}{{ 'abc'.startswith(s) }}{{ 'abc'.endswith(s) }}{{ s in 'abc' }}{{ 'abc' in s }} {% endfor %}
{% for v in [0, 1, '', 'a', none, true, false] %}{{ v|default('d') }},{{ v|default('d', true) }},{{ v|default('d', false) }},{{ v|default('d', boolean=true) }};{% endfor %} {{ nothing|default('d', true) }} {{ nothing|default('d', false) }}
{{ {'a': none}.get('a', 1) }} {{ {'a': 0}.get('a', 1) }} {{ {'a': 1}.get('b') is none }} {{ {1: 'x', 'b': 2}[1] }} {{ {'a': 1, 'a': 2}.a }} {{ 'a' in {'a': 1} }} {{ 1 in {'a': 1} }}
{% for t in ['defined', 'undefined', 'none', 'string', 'true', 'false', 'mapping'] %}{{ [{'a': 1}, {'a': none}, {'a': 'x'}, {'b': 1}, {'a': true}, {'a': false}, {'a': {}}]|selectattr('a', t)|list|length }}{{ [{'a': 1}, {}, {'a': ''}]|rejectattr('a', t)|list|length }} {% endfor %}
{{ [{'a': 1}, {'a': 0}]|rejectattr('a')|list|length }} {{ messages|selectattr('role', 'eq', 'assistant')|map(attribute='x')|list|length if false else (messages|selectattr('role', 'eq', 'user')|list)[1].content }} {{ nothing|selectattr('a')|list|length }}
{% for m in messages %}{% for c in 'ab' %}{{ loop.index }}{{ loop.last }}{{ loop.nextitem }}{{ loop.previtem }}{% endfor %}{{ loop.index }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for x in [1, 2, 3, 4] if x % 2 == 0 %}{{ x }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.previtem }}{{ loop.nextitem }} {% else %}e{% endfor %}{% for x in [1] if x > 1 %}{{ x }}{% else %}e{% endfor %}
{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}x{% endif %}{{ x }}{% else %}e{% endfor %} {% for x in [1, 2] %}{% for y in [1, 2] %}{% break %}{% endfor %}{{ x }}{% endfor %}
{% for x in [1, 2] %}{% for y in [1, 2] %}{% continue %}y{% endfor %}{{ x }}{% if x == 2 %}{% for y in [] %}{% else %}z{% endfor %}{% endif %}{% endfor %} {% for x in [1, 2] %}{% for y in [] %}{% break %}{% else %}{% break %}{% endfor %}q{% endfor %}
{% macro f(x) %}{% for i in x %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}{% endmacro %}{% for y in [1, 2] %}{{ f([1, 2, 3]) }}{{ y }}{% if f([2]) == '' %}e{% endif %}{% endfor %}
{% for x in [1, 2] %}{% if false %}{% for y in [1] %}{% break %}{% endfor %}{% break %}{% endif %}{{ x }}{% endfor %}{% if false %}{% for x in [1] %}{% for y in [2] %}{% continue %}{% endfor %}{% endfor %}{% else %}e{% endif %}
{% set x = 1 %}{% for x in [2, 3] %}{{ x }}{% set x = 4 %}{{ x }}{% for y in [5] %}{{ x }}{% set x = y %}{{ x }}{% endfor %}{{ x }} {% endfor %}{{ x }} {% for i in [1] %}{% endfor %}{{ i is defined }}{{ loop is defined }}
{% macro f(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ f(1) }} {{ f(1, 2) }} {{ f(y=1, x=2) }} {{ f() }}. {% macro g(a) %}{% set b = a %}{{ b }}{{ z }}{% endmacro %}{% set z = 'Z' %}{{ g(3) }}{{ b is defined }}{{ a is defined }}
{% macro f(a) %}{{ a }}{% for i in [1, 2] %}{{ i }}{{ a }}{% set a = 9 %}{% endfor %}{{ a }}{% endmacro %}{% set a = 7 %}{% for a in [5] %}{{ f(6) }}{{ a }}{% endfor %}{{ a }}{{ f(f(1)) }}
{% set ns = namespace(x=1) %}{% macro f() %}{% set ns.x = ns.x + 1 %}{{ ns.x }}{% endmacro %}{{ f() }}{{ f() }}{{ ns.x }} {% set ns.y %}b{{ 1 }}{% endset %}{{ ns.y }} {% set n = namespace() %}{{ n.x is defined }}{% set n.x = [] %}{{ n.x|length }}
{% if 0 %}a{% elif 0 %}b{% elif 1 %}c{% elif 1 %}d{% else %}e{% endif %} {% if 1 %}a{% if 0 %}b{% else %}c{% endif %}{% elif 1 %}d{% else %}e{% endif %} {% if 0 %}{% if 1 %}a{% else %}b{% endif %}{% else %}c{% endif %}
{{ 2147483647 }} {{ 0 - 2147483647 - 1 }} {{ 'a' if 0 == false }}{{ true + true }} {{ true * 3 }} {{ -true }} {{ true < 2 }} {{ 7 % 7 }} {{ -7 % 7 }} {{ 0 // 5 }} {{ -1 // 5 }} {{ -5 // -2 }} {{ -5 % -2 }}
{{ 'a\tb\\n\r\'\"' "c'd" 'e"f' }} {{ '\\' }} {{ "" '' "x" }}. {{ 'a' 'b'|upper }} {{ ('a' 'b').c is defined }} {{ [ ]|length }} {{ ( 1 ) + ( 2 ) }} {{ (1,)|length }} {{ {}|length }} {{ { 'a' : 1 , }['a'] }}
{{ orange is defined }} {{ notable is defined }} {{ islands is defined }} {{ inner if false }} {{ iffy is defined }} {{ elsewhere is defined }} {{ trueish is defined }} {{ nonesuch is defined }} {{ 1 if notable is not defined else 2 }} {{ forty_2 is defined }}
{{ ['x', 1, none, true, nothing]|join(',') }} {{ 1 ~ 'a' ~ none ~ nothing ~ false }} {{ [[1], [2, 3]][1]|length }} {{ [[1], [2, 3]][1][1] }} {{ {'a': {'b': [4]}}.a.b[0] }} {{ ('abc'|list)[1:]|join }}
{% set a = [1, 2, 3, 4] %}{% set b = [5, 6, 7, 8] %}{% for x in b %}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}{% for x in a %}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}
{{ {'a': 1, 'b': 2}|join(',') }} {{ nothing|join(',') }} {{ ['a']|join(nothing) }} {{ {'a': 1}|list|join }} {{ 1 ~ 2 * 3 }} {{ 'a' ~ 2 + 3 if false }}
{{ strftime_now('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') }}-{{ strftime_now('') }}-{{ ''.endswith('a') }}{{ 'a'.endswith('ba') }}{{ 'a'.startswith('ab') }}
{% if 1 %}{% break %}{% endif %}a
{% continue %}a
{{ 1 < 'a' }}
{% macro f(a=raise_exception('no')) %}{{ a }}{% endmacro %}{{ f(1) }}
{{ messages[0].content.nothing is defined }} {{ 1 .x is defined }} {{ none.x is defined }} {{ [].x is defined }} {{ 'a'.x is defined }} {{ [1]['x'] is defined }} {{ {}[1] is defined }}
"""


def generated():
    """Templates with every pair of operators, every test of every value, and every layout of a tag."""
    operators = "or and == != < <= > >= + - ~ * % //".split()
    comparisons = operators[2:8]
    for one in operators:
        tags = []
        for two in operators:
            if one not in comparisons or two not in comparisons:  # norma refuses chains of comparisons
                tags += [f"{{{{ {a} {one} 3 {two} 2 }}}}" for a in (5, 0)]
        yield " ".join(tag for tag in tags if render(tag, CASE) is not None)
    values = "0 1 -1 '' '0' none true false nothing [] [0] {} {'a':0} range messages loop 'é'".split()
    for test in "defined undefined none string mapping iterable sequence true false".split():
        yield " ".join(f"{{{{ {v} is {test} }}}}{{{{ {v} is not {test} }}}}" for v in values)
    yield " ".join(f"{{{{ 1 if {v} else 0 }}}}{{{{ not {v} }}}}{{{{ 1 if {v} and 2 else 0 }}}}" for v in values)
    lists = [v for v in values if v[0] in "[{m"]
    for v in values:
        others = [w for w in values if v not in lists or w not in lists]
        yield " ".join(f"{{{{ {v} == {w} }}}}{{{{ {v} != {w} }}}}{{{{ {w} in [{v}] }}}}" for w in others)
    yield "".join(f"{{{{ {v} }}}},{{{{ '' ~ {v} }}}},{{{{ {v}|string }}}};" for v in values if v not in [*lists, "range"])
    for before in " ", "\n", "\n \t":
        for after in " ", "\n", "\n\n ":
            tags = [f"{{%{a} set x = 1 {b}%}}" for a in ("", "-", "+") for b in ("", "-", "+")]
            tags += [f"{{#{a} c {b}#}}" for a in ("", "-", "+") for b in ("", "-", "+")]
            tags += [f"{{{{{a} 1 {b}}}}}" for a in ("", "-") for b in ("", "-")]
            yield "".join(f"a{before}{tag}{after}b|" for tag in tags)


LAYOUTS = [
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%- if true %}\n\n  b\n  {%- endif -%}\n\nc\n\n",
    "  {# x #}\n  {{ 1 }}\n  {# y #}  \nb\n",
    "{% if true %}  {% set x = 1 %}  {% endif %}|\n",
    "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\r\n",
    "\t {% if true %} {% if true %}\n\n x {% endif %}\n{% endif %}",
    "{{ '}}' }}{{ '%}' }}{{ \"{% if %}\" }} }} %} {a} { {",
    "{% for m in messages %}\n{{ m.role }}\n{% if not loop.last %}\n,\n{% endif %}\n{% endfor %}\n",
    "a\u00a0\u3000{%- if 1 -%}\u2003 b{%- endif %}",
    "a\u00a0\n\u3000{% if 1 %}b{% endif %}{{- 'a' -}}\u2028b",
]


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, tzinfo=tz)


def render(template, case):
    """The rendered text; None if the template raises an exception."""
    messages = [{"role": "system", "content": SYSTEM}] if case["system"] else []
    for i in range(case["turns"]):
        messages.append({"role": "user", "content": USERS[i]})
        if i + 1 < case["turns"]:
            messages.append({"role": "assistant", "content": ANSWERS[i]})
    variables = {"bos_token": "<s>", "eos_token": "</s>"}
    if case["think"] is not None:
        variables |= {"enable_thinking": case["think"], "thinking": case["think"]}
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            [messages], chat_template=template, add_generation_prompt=case["open"], **variables
        )
    except Exception:
        return None
    return texts[0]


def write(name, cases):
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (GOLDEN / name).write_text(f"[\n{lines}\n]\n")


def main():
    chat_template_utils.datetime = FixedDate
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "chat"
    cases = []
    for path in sorted(folder.glob("*.jinja")):
        for turns in 1, 2, 3:
            for system in False, True:
                for opens, think in (True, None), (False, None), (True, True), (True, False):
                    case = {"template": path.stem, "turns": turns, "system": system, "open": opens, "think": think}
                    cases.append({**case, "text": render(path.read_text(), case)})
    if len(sys.argv) > 1:
        write(folder / "rendered.json", cases)
        return
    write("chat_rendered.json", cases)
    snippets = [*SNIPPETS.strip("\n").split("\n"), *generated(), *LAYOUTS]
    write("jinja.json", [{"template": template, "text": render(template, CASE)} for template in snippets])


if __name__ == "__main__":
    sys.exit(main())
