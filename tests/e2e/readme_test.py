"""Runs every command of README.md and compares what it prints.

readme.py says how they are written. localhost:8080 is replaced by the address of a server that runs with the demo configuration. `./dev …` and `git clone …` lines are what this test itself is part of, so those are only
checked to exist.
"""

import re
import shutil
import subprocess
import unittest

import cluster_nodes
import harness
import readme
from cluster_nodes import infer, serves, until

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


class MoreThanOneMachine(unittest.TestCase):
    """The lines of that chapter's sh block, with addresses of this machine."""

    def test_the_lines_make_a_cluster(self):
        chapter = README.read_text().split('## More than one machine')[1]
        lines = re.search(r'^```sh\n(.*?)^```', chapter, re.M | re.S)[1].splitlines()
        self.assertEqual(3, len(lines), lines)
        here, port = cluster_nodes.folder(), cluster_nodes.free_port()
        shutil.copytree(harness.MODELS / 'simple', here / 'models/simple')
        (here / 'gateway.yaml').write_text(f'cluster: {{nats: "nats://127.0.0.1:{port}"}}\nlisten: ["127.0.0.1:0"]\n')
        said = {'nats-server -js': f'nats-server -js -a 127.0.0.1 -p {port} -sd {here}/nats', '10.0.0.1:4222': f'127.0.0.1:{port}',
                '10.0.0.7:8080': '127.0.0.1:0'}
        logs = []
        for number, line in enumerate(lines):
            command = line.split('#')[0].rstrip(' &')
            for written, meant in said.items():
                command = command.replace(written, meant)
            logs.append(here / f'{number}.log')
            env = {'PATH': f'{harness.BUILD}:/usr/local/bin:/usr/sbin:/usr/bin:/bin', 'HOME': str(here)}
            with open(logs[-1], 'wb') as log:
                process = subprocess.Popen(['bash', '-c', f'exec {command}'], cwd=here, env=env, stdout=log, stderr=log)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        servers = []
        for log in logs[1:]:
            found = until(lambda: re.search(r'listening\b.*?127\.0\.0\.1:(\d+)', log.read_text()), f'{log}')
            servers.append(Reached(int(found[1])))
        until(lambda: serves(servers[1], 'simple'), 'the model of the other node at the gateway')
        status, why = infer(servers[1], 'simple', 1.0)
        self.assertEqual(400, status, 'it is asked for tensors that it does not have')
        self.assertIn(b"no input 'x'", why)


class Reached:
    """A server that somebody else has started."""

    def __init__(self, port):
        self.port = port

    def url(self, path=''):
        return f'http://127.0.0.1:{self.port}{path}'


if __name__ == '__main__':
    harness.main()
