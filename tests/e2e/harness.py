"""What the end-to-end tests share: the real binary on a free port, stubs made by protoc, curl, and the closing count.

A test file is a unittest module that ends with `harness.main()`. Servers are started per class (class attribute `serve`:
flags) and stopped at its end; a server that does not end cleanly with exit code 0 fails its class.
"""

import atexit
import concurrent.futures
import contextlib
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(os.environ.get('WEIR_ROOT', pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build-test'))
WEIR = BUILD / 'src/app/weir'
MODELS = ROOT / 'conf/models'
SANITIZED = any(word in BUILD.name for word in ('asan', 'tsan'))
PATIENCE = 60 if SANITIZED else 20  # seconds that any one answer may take

_scratch = None


def scratch():
    """A folder for this program's files, removed at its end."""
    global _scratch
    if _scratch is None:
        _scratch = pathlib.Path(tempfile.mkdtemp(prefix='weir-e2e-'))
        atexit.register(shutil.rmtree, _scratch, ignore_errors=True)
    return _scratch


def environment():
    """Without the tests' own variables, which the server would warn of."""
    return {name: value for name, value in os.environ.items() if name not in ('WEIR_BUILD', 'WEIR_ROOT')}


class Server:
    """`weir serve …` on 127.0.0.1, port chosen by the kernel."""

    def __init__(self, *flags, repository=MODELS, listen=('127.0.0.1:0',), config=None, env=None, program=None):
        command = [str(program or WEIR), 'serve']
        command += ['--config', str(config)] if config else [str(repository)]
        for address in listen:
            command += ['--listen', address]
        self.log_path = scratch() / f'server-{time.monotonic_ns()}.log'
        self.log = open(self.log_path, 'w+b')
        self.process = subprocess.Popen([*command, *map(str, flags)], stdout=self.log, stderr=self.log, cwd=ROOT,
                                        env={**environment(), **(env or {})})
        atexit.register(self.kill)
        self.port = self._wait_for_port(any(not a.startswith('unix:') for a in listen))

    def kill(self):
        """At the program's end, whatever went wrong before."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def output(self):
        return self.log_path.read_text(errors='replace')

    def logged(self, *words, count=1):
        """The log's lines that hold all these words, once there are `count` of them: a line may follow its answer."""
        end = time.monotonic() + PATIENCE
        while True:
            lines = [line for line in self.output().splitlines() if all(word in line for word in words)]
            if len(lines) >= count or time.monotonic() > end:
                return lines
            time.sleep(0.02)

    def _wait_for_port(self, expect_port):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = re.search(r'listening\b.*?127\.0\.0\.1:(\d+)', self.output())
            if found:
                return int(found[1])
            if not expect_port and 'listening' in self.output():
                return None
            if self.process.poll() is not None:
                raise RuntimeError(f'weir ended with {self.process.returncode}:\n{self.output()}')
            time.sleep(0.02)
        self.process.kill()
        raise RuntimeError(f'weir did not listen:\n{self.output()}')

    @property
    def address(self):
        return f'127.0.0.1:{self.port}'

    def url(self, path=''):
        return f'http://{self.address}{path}'

    def stop(self, sig=signal.SIGTERM, patience=PATIENCE):
        """Ends it; returns its exit code. `patience`: seconds that its drain may take."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise RuntimeError(f'weir did not end:\n{self.output()[-5000:]}')
        finally:
            self.log.close()
        return code

    def rss(self):
        return int(re.search(r'VmRSS:\s+(\d+)', pathlib.Path(f'/proc/{self.process.pid}/status').read_text())[1]) << 10

    def fds(self):
        return len(os.listdir(f'/proc/{self.process.pid}/fd'))


class Case(unittest.TestCase):
    """A test class with one server of its own."""

    serve = ()
    listen = ('127.0.0.1:0',)
    repository = MODELS

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.serve, repository=cls.repository, listen=cls.listen)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f'weir ended with {code}:\n{cls.server.output()[-5000:]}'


class GrpcCase(Case):
    """… with a channel to it, and a stub of `stub_class` where one is given."""

    stub_class = None
    channel_options = ()

    @classmethod
    def setUpClass(cls):
        import grpc  # not every test needs it
        super().setUpClass()
        cls.channel = grpc.insecure_channel(cls.server.address, options=cls.channel_options)
        cls.stub = cls.stub_class and cls.stub_class(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        super().tearDownClass()


def write_identity_model(repository, name, max_batch, delay_us, rules=''):
    """A model of one FP32 a row, of Triton's identity backend, each of whose executions takes `delay_us`."""
    (repository / name).mkdir()
    (repository / name / 'config.pbtxt').write_text(f"""
backend: "identity"
max_batch_size: {max_batch}
input {{ name: "x" data_type: TYPE_FP32 dims: 1 }}
output {{ name: "x" data_type: TYPE_FP32 dims: 1 }}
parameters {{ key: "delay_us" value {{ string_value: "{delay_us}" }} }}
{rules}
""")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


def curl(url, *args, data=None):
    """curl as a user runs it. Returns an Answer of the final response; `headers` has lower-case names."""
    command = ['curl', '-sS', '-i', '--max-time', str(PATIENCE), *args]
    if data is not None:
        command += ['--data-binary', '@-']
        data = data.encode() if isinstance(data, str) else data
    done = subprocess.run([*command, url], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        raise RuntimeError(f'curl ended with {done.returncode}: {done.stderr.decode()}')
    rest = done.stdout
    while True:
        head, _, rest = rest.partition(b'\r\n\r\n')
        lines = head.decode('latin-1').split('\r\n')
        status = int(lines[0].split()[1])
        if status >= 200:
            break
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(':') for line in lines[1:])}
    return Answer(status, headers, rest)


def stubs():
    """Python modules for proto/*.proto, generated once per program: {name: (pb2, pb2_grpc)}."""
    out = scratch() / 'stubs'
    if not out.exists():
        out.mkdir()
        files = [str(p) for p in (ROOT / 'proto').glob('*.proto')]
        plugin = shutil.which('grpc_python_plugin')
        subprocess.run(['protoc', '-I', str(ROOT / 'proto'), f'--python_out={out}', f'--plugin=protoc-gen-grpc={plugin}',
                        f'--grpc_out={out}', *files], check=True)
        sys.path.insert(0, str(out))
    return lambda name: (importlib.import_module(f'{name}_pb2'), importlib.import_module(f'{name}_pb2_grpc'))


def heldout():
    """Rows of the handwritten digits that training has not seen: (images as lists of 64 floats, labels)."""
    data = json.loads((MODELS / 'digits/heldout.json').read_text())
    return data['images'], data['labels']


@contextlib.contextmanager
def threads(count, work):
    """Runs work(i) on `count` threads; re-raises what any of them raised."""
    errors = []

    def guarded(i):
        try:
            work(i)
        except BaseException as error:  # noqa: B902 (it is raised again below)
            errors.append(error)

    pool = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for t in pool:
        t.start()
    yield
    for t in pool:
        t.join()
    if errors:
        raise errors[0]


class Results(unittest.TextTestResult):
    """Of cases on several threads."""

    _lock = threading.Lock()

    def startTest(self, test):
        with self._lock:
            super().startTest(test)


class SideBySide(unittest.TextTestRunner):
    """Runs so many cases at a time, but those of a class that has a server one after another. The fixtures of all classes
    run before the first case and behind the last one."""

    resultclass = Results

    def __init__(self, at_once):
        super().__init__()
        self.at_once = at_once

    def run(self, suite):
        return super().run(lambda result: self.run_cases(suite, result))

    def run_cases(self, suite, result):
        classes = {}
        for part in suite:
            for case in part:
                classes.setdefault(type(case), []).append(case)
        ready = [cls for cls in classes if self.set_up(cls, result)]
        rows = [row for cls in ready for row in ([classes[cls]] if hasattr(cls, 'server') else [[case] for case in classes[cls]])]
        with concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
            for done in [pool.submit(self.one_after_another, row, result) for row in sorted(rows, key=len, reverse=True)]:
                done.result()
        for cls in ready:
            self.fixture(cls, cls.tearDownClass, result)
            self.fixture(cls, cls.doClassCleanups, result)

    def set_up(self, cls, result):
        """What a class has made before it fails is cleaned up at once, as unittest does it."""
        if self.fixture(cls, cls.setUpClass, result):
            return True
        self.fixture(cls, cls.doClassCleanups, result)
        return False

    @staticmethod
    def one_after_another(cases, result):
        for case in cases:
            case.run(result)

    @staticmethod
    def fixture(cls, work, result):
        """Whether it went well; else that is an error, as of a case."""
        if getattr(cls, '__unittest_skip__', False):
            return True  # each case says so
        place = unittest.FunctionTestCase(work, description=f'{work.__name__} of {cls.__qualname__}')
        try:
            work()
            for _, error, _ in getattr(cls, 'tearDown_exceptions', ()):  # of its cleanups
                raise error
            return True
        except unittest.SkipTest as why:
            result.addSkip(place, str(why))
        except Exception:
            result.addError(place, sys.exc_info())
        return False


def main(at_once=1):
    """Runs the module's cases; `at_once`: so many at a time, where they mostly wait."""
    scratch()  # before there are threads
    runner = SideBySide(at_once) if at_once > 1 else None
    result = unittest.main(module='__main__', exit=False, verbosity=1, failfast=False, testRunner=runner).result
    bad = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    good = max(result.testsRun - bad - skipped, 0)
    print(f'{good} passed, {bad} failed' + (f', {skipped} skipped' if skipped else ''), flush=True)
    sys.exit(1 if bad else 0)
