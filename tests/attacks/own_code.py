"""Models with code of their own that ask their server for too much."""

import json
import os
import pathlib
import sys
import time

import harness
import shortage
from cluster_nodes import until
from peer import JSON, Raw, ask, post
from registry import attack

CODE = '''
import time
import triton_python_backend_utils as pb_utils

KINDS = (pb_utils.MetricFamily.COUNTER, pb_utils.MetricFamily.GAUGE, pb_utils.MetricFamily.HISTOGRAM)


class TritonPythonModel:
    def initialize(self, args):
        self.n = self.refused = 0
        self.kept = []

    def execute(self, requests):
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            self.n += 1
            try:
                self.ask(self.n)
            except Exception:
                self.refused += 1
        return [pb_utils.InferenceResponse([pb_utils.Tensor('Y', r.inputs()[0].as_numpy())]) for r in requests]

    def ask(self, n):
        kind = KINDS[n % 3]
        name = f'f{n}' if n % 4 else 'f' * (n % 100000)
        family = pb_utils.MetricFamily(name=name, description='h' * 10 ** (n % 8) if n % 50 == 0 else 'help', kind=kind)
        more = {'buckets': [float(i) for i in range(n % 300)]} if n % 3 == 2 else {}
        try:
            for i in range(1 + n % 70):
                labels = {f'l{k}_{i}': 'v' * (n * 7 % 1500) for k in range(n % 40)}
                metric = family.Metric(labels=labels, **more)
                metric.observe(1.0) if n % 3 == 2 else metric.increment(1)
        finally:
            if n % 10 < 7:
                self.kept.append(family)  # else it goes, with its metrics
'''
CONFIG = '''name: "meter" backend: "python"
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
'''


def beside_the_demo_models(name, code, config, root=None):
    root = root or harness.scratch() / f'own-code-{time.monotonic_ns()}'
    (root / name / '1').mkdir(parents=True)
    for folder in harness.MODELS.iterdir():
        if folder.is_dir():
            (root / folder.name).symlink_to(folder)
    (root / name / '1/model.py').write_text(code)
    (root / name / 'config.pbtxt').write_text(config)
    return root


def repository():
    """The demo models, and beside them `meter`."""
    return beside_the_demo_models('meter', CODE, CONFIG)


@attack(seconds=20, quick=4, repository=repository, flags=('--engines-python-interpreter', sys.executable), probes=('metrics',))
def metrics_without_end(target):
    """A Python model makes metrics without end: families, labels, 300 buckets, names of 100 KB, help texts of 10 MB, while /metrics is read."""
    body = json.dumps({'inputs': [{'name': 'X', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]}).encode()
    asked, longest = 0, 0
    with Raw(target, wait=20) as model:
        while not target.over():
            model.send(post('/v2/models/meter/infer', body, JSON))
            for _ in range(10):
                _, text = ask(target, b'GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
                longest = max(longest, len(text))
            status, answer = model.answer()
            asked += 1
            if status != 200:
                target.broke(f'the model is not served: {status} {answer[:200]}')
                break
    _, text = ask(target, b'GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    series = sum(line[:1] not in (b'#', b'') for line in text.splitlines())
    if series > 2000 + 5000 or longest > 2 << 20:
        target.broke(f'{series} series and {longest >> 10} KiB in /metrics')
    if b'\nf1 ' not in text and b'\nf1{' not in text:
        target.broke('the first of its metrics is not there')
    return f'{asked} times 0.3 s, {series} series, {longest >> 10} KiB of /metrics'


# --- what the system has for all ---------------------------------------------------------------------------------------
WILD = '''
import ctypes
import mmap
import os
import time
import triton_python_backend_utils as pb_utils


def forks():
    """A bomb of three generations, 39 processes, which eat time."""
    for _ in range(3 * 3):
        if os.fork() == 0:
            for _ in range(3):
                if os.fork() == 0:
                    break
            ctypes.CDLL(None).prctl(15, b"weir-wild-fork")
            while True:
                time.sleep(0.001)


def descriptors():
    try:
        while True:
            kept.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass


def disk():
    room = os.statvfs(folder)
    if room.f_blocks * room.f_frsize > 64 << 20:
        raise RuntimeError("this is no small disk")
    try:
        with open(folder + "/filler", "wb", buffering=0) as out:
            while True:
                out.write(bytes(1 << 16))
    except OSError:
        time.sleep(0.3)
    os.unlink(folder + "/filler")


def memory():
    while True:
        kept.append(mmap.mmap(-1, 16 << 20))  # no allocation that the lab counts as the server's
        for at in range(0, 16 << 20, 4096):
            kept[-1][at] = 1


kept = []
KINDS = {1: forks, 2: lambda: os._exit(3), 3: descriptors, 4: disk, 5: memory, 6: lambda: None}


class TritonPythonModel:
    def initialize(self, args):
        global folder
        folder = args["model_repository"]

    def execute(self, requests):
        for request in requests:
            KINDS[int(request.inputs()[0].as_numpy()[0])]()
        return [pb_utils.InferenceResponse([pb_utils.Tensor('Y', r.inputs()[0].as_numpy())]) for r in requests]
'''
WILD_KINDS = {'forks': 1, 'leaves': 2, 'descriptors': 3, 'disk': 4, 'memory': 5, 'nothing': 6}
WILD_CONFIG = CONFIG.replace('meter', 'wild') + 'parameters { key: "process_timeout" value { string_value: "5s" } }\n'


def on_a_small_disk():
    """The demo models, and beside them `wild`, which may write on the disk that it lies on."""
    return beside_the_demo_models('wild', WILD, WILD_CONFIG, shortage.small_disk())


def forked():
    """How many processes there are that the model has left."""
    count = 0
    for entry in pathlib.Path('/proc').glob('[0-9]*/comm'):
        try:
            count += entry.read_text() == 'weir-wild-fork\n'
        except OSError:
            pass
    return count


def children(pid):
    out = []
    for task in pathlib.Path(f'/proc/{pid}/task').glob('*/children'):
        out += task.read_text().split()
    return out


@attack(seconds=25, quick=6, repository=on_a_small_disk, lacks=shortage.not_root,
        flags=('--engines-python-interpreter', sys.executable), probes=('metrics',))
def wild_models(target):
    """A Python model that forks a bomb and leaves, keeps every descriptor it can get, and fills its disk."""
    answers, rounds = {}, 0
    request = lambda kind: post('/v2/models/wild/infer', json.dumps({'inputs': [  # noqa: E731
        {'name': 'X', 'datatype': 'INT32', 'shape': [1], 'data': [kind]}]}).encode(), JSON, ('Connection', 'close'))
    while not target.over() or rounds == 0:
        for kind in ('forks', 'disk', 'descriptors', 'leaves'):
            status, _ = ask(target, request(WILD_KINDS[kind]), wait=15)
            answers.setdefault(kind, {}).setdefault(status, 0)
            answers[kind][status] += 1
        rounds += 1
        until(lambda: not forked(), 'that what a model has forked ends with it')
        until(lambda: target.over() or ask(target, request(WILD_KINDS['nothing']), wait=15)[0] == 200, 'the model anew', 3 * harness.PATIENCE)
    if answers['forks'].keys() != {200} or answers['disk'].keys() != {200} or 200 in answers['leaves']:
        target.broke(f'the model did not do what it should: {answers}')
    return f'answers by kind: {answers}'


def on_its_own():
    return beside_the_demo_models('wild', WILD, WILD_CONFIG.replace('"5s"', '"30s"'))  # it eats slowly on a busy machine


@attack(seconds=20, quick=6, repository=on_its_own, program=shortage.group_of(384 << 20, 'wild'), lacks=shortage.no_groups,
        flags=('--engines-python-interpreter', sys.executable, '--slab-budget', '128MiB'))
def models_that_eat(target):
    """In a group of 384 MiB a Python model that takes memory without end, again and again: the kernel ends it, and not its server."""
    answers, ended = {}, set()
    body = json.dumps({'inputs': [{'name': 'X', 'datatype': 'INT32', 'shape': [1], 'data': [WILD_KINDS['memory']]}]}).encode()
    badness = lambda pid: int(open(f'/proc/{pid}/oom_score_adj').read())  # noqa: E731
    if not children(target.pid):
        target.broke('no process of a model is found')
    if not all(badness(child) > badness(target.pid) for child in children(target.pid)):
        target.broke('a process of a model is no likelier to be ended by the kernel than the server')
    late = time.monotonic() + 3 * harness.PATIENCE
    while not target.over() or (not (ended and shortage.group_kills(target.pid)) and time.monotonic() < late):
        before = set(children(target.pid))
        status, _ = ask(target, post('/v2/models/wild/infer', body, JSON, ('Connection', 'close')), wait=35)
        answers[status] = answers.get(status, 0) + 1
        if not os.path.exists(f'/proc/{target.pid}'):
            return f'answers: {answers}; the server has gone'
        ended |= before - set(children(target.pid))
        time.sleep(0.2)
    kills = shortage.group_kills(target.pid)
    if not kills or not ended or answers.keys() <= {200}:
        target.broke(f'the kernel has ended {kills} processes of the group, {len(ended)} of the server are gone: {answers}')
    return f'answers: {answers}; the kernel has ended {kills} processes'
