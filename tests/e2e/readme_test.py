"""Runs every command of README.md and compares what it prints.

In a ```console block a line `$ command` (and the lines after it that are indented by four) is run with bash in the
repository's root, and the lines up to the next `$` are what it must print; `…` stands for anything. localhost:8080 is replaced by the address of a server that
runs with the demo configuration. `./dev …` and `git clone …` lines are what this test itself is part of, so those are only
checked to exist.
"""

import re
import subprocess

import harness

README = harness.ROOT / 'README.md'
NOT_RUN = ('./dev ', 'git clone', 'cd weir')


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


class Readme(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(config=harness.ROOT / 'conf/weir.yaml')

    def test_every_command_prints_what_the_readme_says(self):
        ran = 0
        for line, command, expected in commands(README.read_text()):
            if command.startswith(NOT_RUN):
                word = command.split()[1] if command.startswith('./dev') else ''
                self.assertIn(f'cmd_{word}' if word else '', (harness.ROOT / 'dev').read_text(), f'README.md:{line}')
                continue
            with self.subTest(f'README.md:{line}: {command}'):
                here = command.replace('localhost:8080', self.server.address).replace('127.0.0.1:8080', self.server.address)
                env = {'PATH': f'{harness.BUILD}:/usr/local/bin:/usr/bin:/bin', 'HOME': str(harness.scratch())}
                done = subprocess.run(['bash', '-c', here], cwd=harness.ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      timeout=60)
                got = done.stdout.decode(errors='replace').replace(self.server.address, 'localhost:8080')
                self.assertTrue(matches(expected, got), f'README.md:{line}\n$ {command}\n--- expected\n{expected}\n--- got\n{got}')
                ran += 1
        self.assertGreaterEqual(ran, 5)


if __name__ == '__main__':
    harness.main()
