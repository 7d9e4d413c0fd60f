"""Chat templates render as python3-jinja2 renders them, set up as transformers sets it up.

usage: golden_template_test.py RENDER     (the program of render_main.cc)
"""

import json
import random
import subprocess
import sys

import golden_templates
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """{% generation %}: marks what the model wrote; for rendering it is nothing."""
    tags = {'generation'}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(['name:endgeneration'], drop_needle=True)


class Raised(Exception):
    pass


def environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise Raised(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters['tojson'] = tojson
    env.globals['raise_exception'] = raise_exception
    return env


def whitespace_cases():
    """Tags with every sign between every blank: what is left is the whole of the rules."""
    chance = random.Random(3)
    blanks = ['', ' ', '\n', '  \n', '\n  ', '\n\n', '\t', ' \n \n ', 'x', 'x\n', '\n x', 'x \n', '\r\n', '\n\u3000']
    pieces = ['{%S if true E%}', '{%S endif E%}', '{{S 1 V}}', '{#S c E#}', '{%S raw R%}', '{%S endraw E%}', '{%S set a = 1 E%}']
    for _ in range(3000):
        source, depth, raw = '', 0, False
        for _ in range(chance.randrange(1, 7)):
            piece = chance.choice(pieces)
            if raw and 'endraw' not in piece or not raw and 'endraw' in piece or 'endif' in piece and depth == 0:
                continue
            depth += ('if true' in piece) - ('endif' in piece)
            raw = 'raw R' in piece or raw and 'endraw' not in piece
            piece = piece.replace('S', chance.choice(['', '-', '+'])).replace('E', chance.choice(['', '-', '+']))
            source += chance.choice(blanks) + piece.replace('V', chance.choice(['', '-'])).replace('R', chance.choice(['', '-']))
        source += chance.choice(blanks) + '{% endraw %}' * raw + chance.choice(blanks) + '{% endif %}' * depth + chance.choice(blanks)
        yield 'whitespace', source, {}


def expected(env, source, variables):
    try:
        return {'text': env.from_string(source).render(**variables)}
    except Raised as raised:
        return {'error': str(raised)}
    except Exception as fault:  # whatever it is called in Python: no text
        return {'error': None, 'why': repr(fault)}


def main(program):
    cases = [*golden_templates.chats(), *whitespace_cases(),
             *(('small', line.replace('⏎', '\n'), golden_templates.VARIABLES) for line in golden_templates.SMALL)]
    jobs = ''.join(json.dumps({'template': source, 'variables': variables}) + '\n' for _, source, variables in cases)
    answers = subprocess.run([program], input=jobs.encode(), stdout=subprocess.PIPE, check=True).stdout.decode().split('\n')[:-1]
    assert len(answers) == len(cases)
    env, good, bad = environment(), 0, 0
    for (name, source, variables), line in zip(cases, answers):
        want, got = expected(env, source, variables), json.loads(line)
        alike = ('text' in got) == ('text' in want) and (want.get('error') is None or want['error'] == got['error']) and want.get('text') == got.get('text')
        good, bad = good + alike, bad + (not alike)
        if not alike and bad <= 15:
            print(f'{name}: {source[:300]!r} with {json.dumps(variables)[:200]}\n  theirs {str(want)[:900]}\n  ours   {str(got)[:900]}')
    print(f'{good} passed, {bad} failed')
    return bad > 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
