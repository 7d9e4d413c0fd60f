"""Reports files past 400 lines and functions past 60: each is asked what second thing it is doing. Never fails."""

import pathlib
import re
import sys

FILE, FUNCTION = 400, 60
# A definition at namespace level: a line that starts in column 0 (or one indent, in a class) and ends with `{`.
OPENS = re.compile(r'^( {0,2})[\w:~<>*&,\[\] ]+\(.*\{$|^( {0,2})\S.*\)( const| override| noexcept|)* \{$')


def functions(lines):
    begun = None
    for number, line in enumerate(lines, 1):
        if begun is None and OPENS.match(line) and not re.match(r'\s*(namespace|struct|class|enum|if|for|while|switch|else|\})', line):
            begun = (number, len(line) - len(line.lstrip()))
        elif begun and line.startswith(' ' * begun[1] + '}') and not line[begun[1] + 1:].strip(' ;'):
            yield begun[0], number - begun[0] + 1
            begun = None


def report(roots):
    for path in sorted(p for root in roots for p in pathlib.Path(root).rglob('*') if p.suffix in {'.h', '.cc', '.cu'}):
        lines = path.read_text(errors='replace').splitlines()
        if len(lines) > FILE:
            yield f'{path}: {len(lines)} lines'
        yield from (f'{path}:{number}: a function of {size} lines' for number, size in functions(lines) if size > FUNCTION)


if __name__ == '__main__':
    print('\n'.join(report(sys.argv[1:])) or 'sizes: ok')
