"""`isolation: process`: a model of one of the server's own engines in a process of its own. Its answers are the same, and a
fault inside of it costs its own calls and nothing else."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import time
import unittest

import harness
from harness import curl

ISOLATED = 'parameters { key: "isolation" value { string_value: "process" } }\n'
ORDERS = harness.scratch() / 'orders'
LIMIT = '0' if harness.SANITIZED else '2GiB'  # sanitizers reserve more address space than any limit would leave
IMAGES = json.loads((harness.MODELS / 'digits/heldout.json').read_text())['images']


def repository():
    folder = harness.scratch() / 'isolated-models'
    for name, model in (('inside', 'digits'), ('apart', 'digits'), ('inner', 'digits'), ('calm', 'digits'),
                        ('text', 'simple_string'), ('sums', 'simple_sequence'), ('simple', 'simple')):
        shutil.copytree(harness.MODELS / model, folder / name)
        config = folder / name / 'config.pbtxt'
        lines = config.read_text().replace(f'name: "{model}"', f'name: "{name}"', 1)
        config.write_text(lines + ('' if name in ('inside', 'simple') else ISOLATED))
    for name, text in (('echo', 'engine: echo\nisolation: process\n'),
                       ('repeat', 'engine: repeat\nisolation: process\n'),
                       ('odd', 'engine: identity\nisolation: thread\n'),
                       ('vague', 'engine: identity\nisolation: process\n'),
                       ('slow', '''engine: identity
isolation: process
max_batch: 4
inputs: [{name: x, type: FP32, shape: [1]}]
outputs: [{name: x, type: FP32, shape: [1]}]
parameters: {delay_us: 1000, process_timeout: 1s}
'''),
                       ('two_steps', '''engine: pipeline
dag:
  type: sequential
  nodes:
    - {model: calm, outputs: {probabilities: p}}
outputs: [{name: p}]
'''),
                       ('narrow', f'''file: model.onnx
isolation: process
max_batch: 64
instances: 2
batching: {{dynamic: true}}
parameters: {{process_memory: {LIMIT}, intra_op_threads: 2}}
''')):
        (folder / name).mkdir()
        (folder / name / 'model.yaml').write_text(text)
    shutil.copytree(harness.MODELS / 'digits/1', folder / 'narrow/1')
    ORDERS.mkdir()
    return folder


class Isolated(harness.Case):
    repository = repository()
    serve = ('--control', 'explicit', '--load', '*', '--engines-onnx-custom-ops', harness.BUILD / 'tests/e2e/fault_ops.so')

    @classmethod
    def setUpClass(cls):
        os.environ['FAULT_ORDERS'] = str(ORDERS)
        super().setUpClass()

    def infer(self, model, rows, output='probabilities'):
        tensor = {'name': 'image', 'datatype': 'FP32', 'shape': [len(rows), 64], 'data': rows}
        body = {'inputs': [tensor], 'outputs': [{'name': output, 'parameters': {'binary_data': True}}]}
        return curl(self.server.url(f'/v2/models/{model}/infer'), data=json.dumps(body))

    def bytes_of(self, answer):
        self.assertEqual(200, answer.status, answer.body)
        return answer.body[int(answer.headers['inference-header-content-length']):]

    def error(self, answer, status=503):
        self.assertEqual(status, answer.status, answer.body)
        return answer.json()['error']

    def pids(self, model):
        """Of the model's processes, whose command line ends with its name."""
        def read(path):
            try:
                return path.read_bytes()
            except OSError:  # it is gone
                return b''
        children = [int(p) for t in pathlib.Path(f'/proc/{self.server.process.pid}/task').iterdir()
                    for p in read(t / 'children').split()]
        return sorted(p for p in children
                      if read(pathlib.Path(f'/proc/{p}/cmdline')).split(b'\0')[-2:] == [model.encode(), b''])

    def served(self, model):
        """Waits until it is (again)."""
        end = time.monotonic() + harness.PATIENCE
        while (answer := self.infer(model, IMAGES[:1])).status != 200 and time.monotonic() < end:
            time.sleep(0.02)
        return self.bytes_of(answer)

    def pending(self, model):
        text = curl(self.server.url('/metrics')).body.decode()
        return int(re.search(r'weir_model_pending{model="%s"[^}]*} (\d+)' % model, text)[1])

    def stopped(self, model, waiting, then):
        """The answers to requests of which one batch is running, and so many wait for theirs, when `then` is called with the
        number of the process, which has been stopped."""
        self.served(model)
        pid, = self.pids(model)
        os.kill(pid, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            calls, end = [], time.monotonic() + harness.PATIENCE / 2
            while self.pending(model) < waiting and time.monotonic() < end:
                calls.append(pool.submit(self.infer, model, IMAGES[:1]))
                time.sleep(0.02)
            then(pid)
            return [c.result() for c in calls]

    def others_are_unharmed(self):
        wanted = self.bytes_of(self.infer('inside', IMAGES[:3]))
        self.assertEqual(wanted, self.bytes_of(self.infer('calm', IMAGES[:3])))
        self.assertEqual(wanted, self.bytes_of(self.infer('two_steps', IMAGES[:3], 'p')))

    def test_the_answers_are_those_of_the_same_model_in_the_server(self):
        for rows in (1, 2, 7, 64):
            images = [IMAGES[i] for i in range(rows)]
            wanted = self.bytes_of(self.infer('inside', images))
            self.assertEqual(rows * 40, len(wanted))
            for model in ('apart', 'narrow'):
                self.assertEqual(wanted, self.bytes_of(self.infer(model, images)), (model, rows))
            self.assertEqual(wanted, self.bytes_of(self.infer('two_steps', images, 'p')))
        for what in ('', '/config'):
            apart, inside = (curl(self.server.url(f'/v2/models/{m}{what}')).json() for m in ('apart', 'inside'))
            for description in (apart, inside):
                for key in ('name', 'parameters', 'instance_group'):
                    description.pop(key, None)
            self.assertEqual(inside, apart)
        self.assertEqual((1, 2, 0), (len(self.pids('apart')), len(self.pids('narrow')), len(self.pids('inside'))))

    def test_requests_share_batches_in_it(self):
        wanted = struct.unpack('<10f', self.bytes_of(self.infer('inside', IMAGES[:1])))
        for answer in self.stopped('apart', 3, lambda pid: os.kill(pid, signal.SIGCONT)):
            # A batch's rows may differ from a lone one's in the last bits, as in the server.
            for a, b in zip(wanted, struct.unpack('<10f', self.bytes_of(answer))):
                self.assertAlmostEqual(a, b, places=5)
        stats = curl(self.server.url('/v2/models/apart/stats')).json()['model_stats'][0]
        self.assertTrue([b for b in stats['batch_stats'] if int(b['batch_size']) > 1])

    def test_strings(self):
        numbers = [str(i) for i in range(16)]
        inputs = [{'name': f'INPUT{i}', 'datatype': 'BYTES', 'shape': [1, 16], 'data': numbers} for i in (0, 1)]
        answer = curl(self.server.url('/v2/models/text/infer'), data=json.dumps({'inputs': inputs}))
        self.assertEqual(200, answer.status, answer.body)
        outputs = {o['name']: o['data'] for o in answer.json()['outputs']}
        self.assertEqual([str(2 * i) for i in range(16)], outputs['OUTPUT0'])

    def test_sequences_are_served(self):
        def send(number, sequence, **flags):
            inputs = [{'name': 'INPUT', 'datatype': 'INT32', 'shape': [1, 1], 'data': [number]}]
            body = {'inputs': inputs, 'parameters': {'sequence_id': sequence, **flags}}
            answer = curl(self.server.url('/v2/models/sums/infer'), data=json.dumps(body))
            self.assertEqual(200, answer.status, answer.body)
            return answer.json()['outputs'][0]['data'][0]
        plain = [send(5, 1, sequence_start=True), send(6, 1), send(7, 1, sequence_end=True)]
        self.assertEqual([6, 6, 7], plain)  # the model adds its START

    def test_a_fault_costs_its_own_calls(self):
        def crash(number):
            return lambda pid: (os.kill(pid, number), os.kill(pid, signal.SIGCONT))
        # Sanitizers handle SIGSEGV themselves.
        for name in ('SIGABRT', 'SIGKILL') if harness.SANITIZED else ('SIGSEGV', 'SIGABRT', 'SIGKILL'):
            before = self.pids('apart')
            answers = self.stopped('apart', 1, crash(signal.Signals[name]))
            errors = [self.error(a) for a in answers if a.status != 200]
            self.assertIn(f"the process of model 'apart' has ended: it was ended by signal {name}", errors[0])
            self.others_are_unharmed()
            self.assertEqual(self.bytes_of(self.infer('inside', IMAGES[:1])), self.served('apart'))
            self.assertNotEqual(before, self.pids('apart'))

    def test_faults_inside_of_the_library(self):
        for order, text in (('segv', 'it was ended by signal SIGSEGV'), ('abort', 'it was ended by signal SIGABRT'),
                            ('exit', 'it exited with status 7')):
            self.served('inner')
            pid, = self.pids('inner')
            (ORDERS / 'new').write_text(order)
            (ORDERS / 'new').rename(ORDERS / str(pid))
            self.assertTrue(self.server.logged("model 'inner' has ended", text), order)
            self.others_are_unharmed()
            self.served('inner')

    @unittest.skipIf(harness.SANITIZED, 'there is no limit')
    def test_a_process_that_eats_memory_ends_at_its_limit(self):
        self.served('narrow')
        pid = self.pids('narrow')[0]
        (ORDERS / 'new').write_text('eat')
        (ORDERS / 'new').rename(ORDERS / str(pid))
        self.assertTrue(self.server.logged("model 'narrow' has ended", 'it exited with status 1'))
        self.others_are_unharmed()
        self.served('narrow')
        self.assertNotIn(pid, self.pids('narrow'))

    def test_a_flood_of_lines_is_counted(self):
        self.served('calm')
        pid, = self.pids('calm')
        before = self.server.log_path.stat().st_size
        (ORDERS / 'new').write_text('flood')
        (ORDERS / 'new').rename(ORDERS / str(pid))
        self.assertTrue(self.server.logged('lines were dropped: more than 100 a second are not kept'))
        self.others_are_unharmed()
        self.assertEqual([pid], self.pids('calm'))
        self.assertLess(self.server.log_path.stat().st_size - before, 200_000)

    def test_a_process_that_hangs_is_ended_after_its_time(self):
        body = {'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [1, 1], 'data': [4]}]}
        url = self.server.url('/v2/models/slow/infer')
        self.assertEqual([4], curl(url, data=json.dumps(body)).json()['outputs'][0]['data'])
        pid, = self.pids('slow')
        os.kill(pid, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(curl, url, data=json.dumps(body))
            self.others_are_unharmed()
            self.assertIn('did not answer within 1s (process_timeout)', self.error(hanging.result()))
        self.assertTrue(self.server.logged("model 'slow'", 'process_timeout'))
        end = time.monotonic() + harness.PATIENCE
        while curl(url, data=json.dumps(body)).status != 200 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertNotIn(pid, self.pids('slow'))

    def test_models_come_and_go(self):
        for _ in range(2):
            pids = self.pids('text')
            self.assertEqual(1, len(pids))
            self.assertEqual(200, curl(self.server.url('/v2/repository/models/text/unload'), data='{}').status)
            end = time.monotonic() + harness.PATIENCE
            while self.pids('text') and time.monotonic() < end:
                time.sleep(0.01)
            self.assertEqual([], self.pids('text'))
            self.assertEqual(200, curl(self.server.url('/v2/repository/models/text/load'), data='{}').status)
            self.assertNotEqual(pids, self.pids('text'))

    def test_a_model_that_cannot_be_isolated_says_why(self):
        index = {m['name']: m for m in curl(self.server.url('/v2/repository/index'), '-X', 'POST').json()}
        for model in ('echo', 'repeat'):
            self.assertIn('isolation: process is for models of tensors that answer each request once, which those of engine '
                          f"'{model}' are not", index[model]['reason'])
        self.assertIn("parameter 'isolation': expected process or none, got 'thread'", index['odd']['reason'])
        self.assertIn('the model has neither inputs nor outputs: its configuration names them', index['vague']['reason'])

    def test_a_process_has_no_setting_of_the_servers(self):
        pid, = self.pids('apart')
        self.assertNotIn(b'WEIR_', pathlib.Path(f'/proc/{pid}/environ').read_bytes())
        line = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
        self.assertEqual([b'/proc/self/exe', b'engine-child'], line[:2])


if __name__ == '__main__':
    harness.main()
