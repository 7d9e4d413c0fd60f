"""grpc-java (Debian's, over Netty) with its stock settings: its flow control pings and widens windows as data comes in."""

import pathlib
import re
import shutil
import subprocess
import unittest

import harness

SOURCE = harness.ROOT / 'tests/e2e/java_client.java'
JARS = pathlib.Path('/usr/share/java')  # where Debian's packages put them
NEEDED = [f'{name}.jar' for name in (
    'grpc-api', 'grpc-context', 'grpc-core', 'grpc-netty', 'grpc-stub', 'guava', 'gson', 'perfmark-api', 'perfmark-impl',
    'netty-buffer', 'netty-codec', 'netty-codec-http', 'netty-codec-http2', 'netty-codec-socks', 'netty-common', 'netty-handler',
    'netty-handler-proxy', 'netty-resolver', 'netty-transport', 'netty-transport-native-unix-common')]
MISSING = [name for name in NEEDED if not (JARS / name).exists()]
CLASSPATH = ':'.join(str(JARS / name) for name in NEEDED)


def build():
    """The client's classes, compiled when its source is younger."""
    folder = harness.BUILD / 'java'
    made = folder / 'JavaClient.class'
    if not made.exists() or made.stat().st_mtime < SOURCE.stat().st_mtime:
        folder.mkdir(exist_ok=True)
        subprocess.run(['javac', '-cp', CLASSPATH, '-d', str(folder), str(SOURCE)], check=True)
    return folder


@unittest.skipUnless(shutil.which('javac') and not MISSING,
                     'needs default-jdk-headless, libgrpc-java, libnetty-java, libperfmark-java, libgoogle-gson-java')
class Java(harness.Case):
    def test_long_streams_many_streams_large_messages_and_long_loops(self):
        command = ['java', '-cp', f'{CLASSPATH}:{build()}', 'JavaClient', '127.0.0.1', str(self.server.port)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500)
        out = done.stdout.decode()
        counts = re.search(r'^(\d+) passed, (\d+) failed$', out, re.M)
        self.assertTrue(counts, out)
        self.assertEqual(('0', 0), (counts[2], done.returncode), out)
        self.assertGreaterEqual(int(counts[1]), 8, out)


if __name__ == '__main__':
    harness.main()
