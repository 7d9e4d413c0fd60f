"""A weir to be loaded, and gpu_load, which loads it."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request


LATE = 'is loaded at its first launch'  # as tests/gpu/stand_in.cc says it


def cores():
    return os.cpu_count() or 1


def shards():
    return max(1, min(4, cores() // 4))


def client_threads():
    return max(1, min(4, cores() // 4))


class Server:
    """`weir serve` of one repository on a free port of the loopback, ready when it is made; `words`: more of its command
    line."""

    def __init__(self, run, repository, limit, *words):
        self.run, self.log_path = run, repository / 'weir.log'
        self.log = open(self.log_path, 'w+')
        self.process = subprocess.Popen(
            [run.program('src/app/weir'), 'serve', str(repository / 'models'), '--listen', '127.0.0.1:0', '--shards',
             str(shards()), '--access-log', 'off', '--device-pinned-pool', run.sizes.pinned, *words], stdout=self.log, stderr=self.log, cwd=run.root,
            env=run.environment)
        try:
            self.port = self.wait(limit)
        except BaseException:
            self.stop()
            raise

    def output(self):
        return self.log_path.read_text(errors='replace')

    def wait(self, limit):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f'weir ended with {self.process.returncode}: {self.output()[-1500:].strip()}')
            found = re.search(r'listening\b.*?127\.0\.0\.1:(\d+)', self.output())
            if found and self.ready(found[1]):
                return int(found[1])
            time.sleep(0.02)
        raise RuntimeError(f'weir was not ready after {limit:.0f} s: {self.output()[-1500:].strip()}')

    def ready(self, port):
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{port}/readyz', timeout=5):
                return True
        except OSError:
            if 'UNAVAILABLE' in self.output() or 'INVALID_ARGUMENT' in self.output():
                raise RuntimeError(f'a model does not serve: {self.output()[-1500:].strip()}')
            return False

    def post(self, path, body):
        request = urllib.request.Request(f'http://127.0.0.1:{self.port}{path}', json.dumps(body).encode(),
                                         {'content-type': 'application/json'})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read() or b'{}')
        except urllib.error.HTTPError as error:
            raise RuntimeError(f'{path}: {error.code} {error.read()[:500].decode(errors="replace")}') from error

    def load(self, kind, limit, **words):
        """What gpu_load says of one load; `limit`, in seconds, is the longest that it may run."""
        before, began = self.cpu_seconds(), time.monotonic()
        _, said = self.run.call(self.run.program('tests/gpu/gpu_load'), kind, f'port={self.port}', f'limit={limit}',
                                *(f'{name}={value}' for name, value in words.items()), limit=limit + 30)
        result = json.loads(said)
        result['server_cores'] = round((self.cpu_seconds() - before) / (time.monotonic() - began), 2)
        if result.get('failed'):
            raise RuntimeError(f"{result['failed']} of {result['failed'] + result['requests']} requests have failed")
        return result

    def cpu_seconds(self):
        """Of all its threads, so far."""
        fields = pathlib.Path(f'/proc/{self.process.pid}/stat').read_text().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.run.keep(self.log_path, 'weir.log')
        if LATE in self.output():
            raise RuntimeError(f'a kernel {LATE}, when a request waited')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
