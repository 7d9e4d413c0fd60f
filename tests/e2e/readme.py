"""The commands of README.md and what they print: shared by the test that runs all of them and by tests/fresh.

In a ```console block a line `$ command` (and the lines after it that are indented by four) is a command for bash in the
repository's root, and the lines up to the next `$` are what it prints; `…` stands for anything.
"""

import re

NOT_RUN = ('./dev ', 'git clone', 'cd weir')


def not_run(command):
    """Whether the command is what the test itself is part of."""
    return command.startswith(NOT_RUN)


def commands(text):
    """(line number, command, expected output) of every console block."""
    for block in re.finditer(r'^```console\n(.*?)^```', text, re.M | re.S):
        line = text[:block.start()].count('\n') + 2
        parts = re.split(r'^\$ ', block[1], flags=re.M)
        line += parts[0].count('\n')
        for part in parts[1:]:
            lines = part.split('\n')
            take = 1
            while take < len(lines) and lines[take].startswith('    '):
                take += 1
            yield line, '\n'.join(lines[:take]), '\n'.join(lines[take:]).strip('\n')
            line += part.count('\n')


def matches(expected, got):
    pattern = '.*?'.join(re.escape(piece) for piece in expected.strip().split('…'))
    return re.fullmatch(pattern, got.strip(), re.S) is not None
