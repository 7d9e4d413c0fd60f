"""Models with code of their own that ask their server for too much."""

import json
import sys
import time

import harness
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


def repository():
    """The demo models, and beside them `meter`."""
    root = harness.scratch() / f'own-code-{time.monotonic_ns()}'
    (root / 'meter/1').mkdir(parents=True)
    for folder in harness.MODELS.iterdir():
        if folder.is_dir():
            (root / folder.name).symlink_to(folder)
    (root / 'meter/1/model.py').write_text(CODE)
    (root / 'meter/config.pbtxt').write_text(CONFIG)
    return root


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
