"""Writes tests/golden/chat_rendered.json and jinja.json: what transformers renders.

python3 scripts/golden_chat.py
python3 scripts/golden_chat.py FOLDER    # only FOLDER/rendered.json, from the templates in the folder

For each template in tests/golden/chat: the text of 1 to 3 turns, with and without a system prompt, with and without the
start of an answer, and with each value of enable_thinking. The templates of published models are unchanged; their
licenses are Apache 2.0 or MIT. "text" is null if the template raises an exception. The date is 26 July 2024.

jinja.json has small templates, one for each rule of the language, with the text of a conversation of three messages.
"""

import datetime
import json
import sys
from pathlib import Path

from transformers.utils import chat_template_utils

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
SYSTEM = "Be kind, and be brief. "
USERS = "hello there", "  and you? [yes]\u00e9\n", "ab  abc </ s>"
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
"""

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
        variables["enable_thinking"] = case["think"]
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
    case = {"turns": 2, "system": False, "open": True, "think": None}
    snippets = [*SNIPPETS.strip("\n").split("\n"), *LAYOUTS]
    write("jinja.json", [{"template": template, "text": render(template, case)} for template in snippets])


if __name__ == "__main__":
    sys.exit(main())
