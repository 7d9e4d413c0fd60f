"""Flags what gcc 12 miscompiles inside one co_await expression: a lambda that captures, or a braced temporary.

Both are destroyed or moved wrongly there (a use after free at run time). Name the argument on a line of its own first.
Also flags co_spawn of an inline lambda that captures: its captures die before the coroutine does.
"""

import pathlib
import re
import sys

AWAIT = re.compile(r'\bco_await\b([^;]*);', re.S)
CAPTURING = re.compile(r'(?<![\w\])])\[[^\[\]]*[\w&=][^\[\]]*\]\s*[({]')
BRACED = re.compile(r'[(,]\s*(?:[A-Z]\w*(?:::\w+)*(?:<[^;{}]*>)?)?\s*\{[^}]')
SPAWN = re.compile(r'\bco_spawn\s*\(([^;]*);', re.S)


def check(path):
    text = re.sub(r'//[^\n]*', '', path.read_text(errors='replace'))
    for match in AWAIT.finditer(text):
        where = f'{path}:{text[:match.start()].count(chr(10)) + 1}'
        if CAPTURING.search(match[1]):
            yield f'{where}: a capturing lambda inside a co_await expression'
        elif BRACED.search(match[1]):
            yield f'{where}: a braced temporary inside a co_await expression'
    for match in SPAWN.finditer(text):
        if CAPTURING.search(match[1].split('{')[0] + '{'):
            yield f'{path}:{text[:match.start()].count(chr(10)) + 1}: co_spawn of a capturing lambda'


if __name__ == '__main__':
    found = [line for path in sorted(pathlib.Path(sys.argv[1]).rglob('*')) if path.suffix in {'.h', '.cc'} for line in check(path)]
    print('\n'.join(found) or 'coroutines: ok')
    sys.exit(bool(found))
