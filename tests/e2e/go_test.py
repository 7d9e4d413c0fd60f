"""grpc-go (Debian's) with its stock settings: its bandwidth estimator pings and widens windows as data comes in."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import harness

SOURCE = harness.ROOT / 'tests/e2e/go_client.go'
LIBRARIES = pathlib.Path('/usr/share/gocode')  # where Debian's golang-*-dev packages put their sources


def build():
    """The client, compiled when its source is younger; Go's own cache lies beside it."""
    folder = harness.BUILD / 'go'
    program = folder / 'go_client'
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        folder.mkdir(exist_ok=True)
        env = {**os.environ, 'GO111MODULE': 'off', 'GOPATH': str(LIBRARIES), 'GOCACHE': str(folder / 'cache'), 'CGO_ENABLED': '0',
               'GOFLAGS': ''}
        subprocess.run(['go', 'build', '-o', str(program), str(SOURCE)], env=env, check=True, cwd=folder)
    return program


@unittest.skipUnless(shutil.which('go') and (LIBRARIES / 'src/google.golang.org/grpc').exists(), 'needs golang-go, golang-google-grpc-dev')
class Go(harness.Case):
    def test_long_streams_large_messages_and_long_loops(self):
        done = subprocess.run([str(build()), self.server.address], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500)
        out = done.stdout.decode()
        counts = re.search(r'^(\d+) passed, (\d+) failed$', out, re.M)
        self.assertTrue(counts, out)
        self.assertEqual(('0', 0), (counts[2], done.returncode), out)
        self.assertGreaterEqual(int(counts[1]), 9, out)


if __name__ == '__main__':
    harness.main()
