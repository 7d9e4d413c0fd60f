"""Runs every command of README.md and compares what it prints.

readme.py says how they are written. localhost:8080 is replaced by the address of a server that runs with the demo configuration. `./dev …` and `git clone …` lines are what this test itself is part of, so those are only
checked to exist.
"""

import subprocess

import harness
import readme

README = harness.ROOT / 'README.md'


class Readme(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(config=harness.ROOT / 'conf/weir.yaml', env={'WEIR_JOBS_PATH': str(harness.scratch() / 'jobs')})

    def test_every_command_prints_what_the_readme_says(self):
        ran = 0
        for line, command, expected in readme.commands(README.read_text()):
            if readme.not_run(command):
                word = command.split()[1] if command.startswith('./dev') else ''
                self.assertIn(f'cmd_{word}' if word else '', (harness.ROOT / 'dev').read_text(), f'README.md:{line}')
                continue
            with self.subTest(f'README.md:{line}: {command}'):
                here = command.replace('localhost:8080', self.server.address).replace('127.0.0.1:8080', self.server.address)
                env = {'PATH': f'{harness.BUILD}:/usr/local/bin:/usr/bin:/bin', 'HOME': str(harness.scratch())}
                done = subprocess.run(['bash', '-c', here], cwd=harness.ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      timeout=60)
                got = done.stdout.decode(errors='replace').replace(self.server.address, 'localhost:8080')
                self.assertTrue(readme.matches(expected, got), f'README.md:{line}\n$ {command}\n--- expected\n{expected}\n--- got\n{got}')
                ran += 1
        self.assertGreaterEqual(ran, 5)


if __name__ == '__main__':
    harness.main()
