"""Python models that want a request again (Triton's iterative sequences)."""

import concurrent.futures
import json
import socket
import struct
import sys
import time

import harness
from harness import curl

# Counts down from N, one number for each execute(), and says how many requests were in it. What is left is kept by the
# correlation id, from START on.
COUNTS = '''
import numpy as np
import triton_python_backend_utils as pb_utils

AGAIN = pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def step(self, request):
        name = request.correlation_id()
        if request.flags() & 1:
            self.left[name] = int(request.inputs()[0].as_numpy().reshape(-1)[0])
        left = self.left.pop(name)
        if left > 1:
            self.left[name] = left - 1
            request.set_release_flags(AGAIN)
        return left

    def execute(self, requests):
        return [self.answer(request, len(requests)) for request in requests]

    def answer(self, request, together):
        if self.step(request) > 1:
            return None
        return pb_utils.InferenceResponse([pb_utils.Tensor('LEFT', np.array([[1]], np.int32)),
                                           pb_utils.Tensor('TOGETHER', np.array([[together]], np.int32))])
'''
DECOUPLED = COUNTS.replace('''        return [self.answer(request, len(requests)) for request in requests]
''', '''        import time
        time.sleep(0.05)
        for request in requests:
            left = self.step(request)
            answer = pb_utils.InferenceResponse([pb_utils.Tensor('LEFT', np.array([[left]], np.int32)),
                                                 pb_utils.Tensor('TOGETHER', np.array([[len(requests)]], np.int32))])
            request.get_response_sender().send(answer, flags=0 if left > 1 else FINAL)
''')
IN_A_LOOP = DECOUPLED.replace('def execute', 'async def execute')
# The number 13 is one too many, after it has asked for more. Those below 0 never end, and their answers are large. Each
# answer says how many requests the worker knows of.
MISCHIEF = '''
import __main__
import asyncio
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            n = int(request.inputs()[0].as_numpy().reshape(-1)[0])
            if n == 13:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                pb_utils.Logger.log_info('one too many')
                raise ValueError('thirteen')
            self.answer(request, n)

    def answer(self, request, n):
        step = request.step = getattr(request, 'step', 0) + 1
        size, final = (100_000, 0) if n < 0 else (1, int(step == n))
        if not final:
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        inside = __main__.worker.inside | __main__.worker.cancelled
        answer = pb_utils.InferenceResponse([pb_utils.Tensor('LEFT', np.full((1, size), step, np.int32)),
                                             pb_utils.Tensor('TOGETHER', np.array([[len(inside)]], np.int32))])
        for _ in range({-2: 20, -3: 300}.get(n, 1)):
            request.get_response_sender().send(answer, flags=final)
        if n == -3:
            pb_utils.Logger.log_info('all sent')
'''
MISCHIEF_IN_A_LOOP = MISCHIEF.replace('    def execute(self, requests):\n', '''    async def execute(self, requests):
        await asyncio.sleep(0.01)
''')
HANGS = '''
import time


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(1000)
'''


# START and the others are tensors.
def controlled(code):
    return code.replace('''        if request.flags() & 1:
''', '''        start, ready, there = (request.inputs()[i].as_numpy() for i in (1, 2, 3))
        assert there.tolist() == [[str(name).encode()]], there
        assert (start.shape, ready.shape, ready[0, 0]) == ((1, 1), (1, 1), 1), (start, ready)
        assert (start.dtype, ready.dtype) == (np.float32, np.bool_)
        if start[0, 0] == 5:
''').replace('''        self.left = {}
''', '''        import json
        self.left = {}
        config = json.loads(args['model_config'])
        assert config['sequence_batching']['control_input'][0] == {'name': 'START', 'control': [
            {'kind': 'CONTROL_SEQUENCE_START', 'int32_false_true': [], 'fp32_false_true': [-5, 5], 'bool_false_true': [],
             'data_type': 'TYPE_INVALID'}]}, config
        assert [i['name'] for i in config['input']] == ['N']
''')


CONTROLLED, CONTROLLED_STREAM = controlled(COUNTS), controlled(DECOUPLED)
WRONG = COUNTS.replace('            return None', '            pass')
CONFIG = '''name: "%s" backend: "python" max_batch_size: %d %s
input [{ name: "N" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "LEFT" data_type: TYPE_INT32 dims: [-1] }, { name: "TOGETHER" data_type: TYPE_INT32 dims: [1] }]'''
ITERATIVE = 'sequence_batching { iterative_sequence: true }'
CONTROLS = '''sequence_batching { iterative_sequence: true
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [-5, 5] } }
  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY bool_false_true: [false, true] } }
  control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } } }'''
PATIENCE = ' parameters { key: "process_timeout" value { string_value: "1s" } }'
MANY = 'model_transaction_policy { decoupled: true } '


def repository():
    folder = harness.scratch() / 'python-iterative'
    if not folder.exists():
        for name, code, rows, words in (('once', COUNTS, 4, ITERATIVE), ('wrong', WRONG, 4, ITERATIVE),
                                        ('plain', COUNTS, 4, ''), ('stream', DECOUPLED, 4, MANY + ITERATIVE),
                                        ('narrow', DECOUPLED, 1, MANY + ITERATIVE), ('in_a_loop', IN_A_LOOP, 4, MANY + ITERATIVE),
                                        ('controlled', CONTROLLED, 4, CONTROLS),
                                        ('controlled_stream', CONTROLLED_STREAM, 4, MANY + CONTROLS),
                                        ('mischief', MISCHIEF, 4, MANY + ITERATIVE),
                                        ('loop_mischief', MISCHIEF_IN_A_LOOP, 4, MANY + ITERATIVE),
                                        ('patient', MISCHIEF, 1, MANY + ITERATIVE + PATIENCE),
                                        ('hangs', HANGS, 4, MANY + ITERATIVE + PATIENCE)):
            (folder / name / '1').mkdir(parents=True)
            (folder / name / '1/model.py').write_text(code)
            (folder / name / 'config.pbtxt').write_text(CONFIG % (name, rows, words))
    return folder


class Iterative(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=repository(), env={
            'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})  # it has numpy

    @staticmethod
    def body(n, name, parameters=None):
        return json.dumps({'id': name, 'parameters': parameters or {}, 'inputs': [
            {'name': 'N', 'datatype': 'INT32', 'shape': [1, 1], 'data': [n]}]})

    def ask(self, path, n, name, parameters=None):
        return curl(self.server.url(f'/v2/models/{path}'), data=self.body(n, name, parameters))

    def stream(self, model, n, name='a', parameters=None):
        """[what is left, requests beside it] of each answer; errors as they are."""
        body = self.ask(f'{model}/infer_stream', n, name, parameters).body.decode()
        if body.startswith('{'):  # an error before any answer
            return [json.loads(body)['error']]
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith('data: ')]
        return [[o['data'][0] for o in e['outputs']] if e.get('outputs') else e['error'] for e in events
                if e.get('outputs') or e.get('error')]

    def begin(self, model, n, path='infer_stream'):
        """A client that does not read."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(('127.0.0.1', self.server.port))
        body = self.body(n, 'slow')
        client.sendall(f'POST /v2/models/{model}/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}'
                       .encode())
        return client

    @staticmethod
    def leave(client):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        client.close()

    def test_a_model_that_answers_once_gets_a_request_until_it_is_done(self):
        for n in (1, 2, 7):
            answer = self.ask('once/infer', n, f'r{n}').json()
            self.assertEqual([1], answer.get('outputs', [answer])[0].get('data'), answer)

    def test_each_execution_may_answer_a_decoupled_request(self):
        for model in ('stream', 'in_a_loop', 'narrow'):
            self.assertEqual([[3, 1], [2, 1], [1, 1]], self.stream(model, 3), model)

    def test_requests_join_those_that_are_under_way_as_slots_allow(self):
        for model, most in (('stream', 4), ('narrow', 1)):
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                all_of_them = list(pool.map(lambda i: self.stream(model, 6, f'r{i}'), range(6)))
            self.assertEqual([[6, 5, 4, 3, 2, 1]] * 6, [[left for left, _ in one] for one in all_of_them])
            self.assertEqual(most, max(together for one in all_of_them for _, together in one))

    def test_a_response_to_a_request_that_is_wanted_again_is_an_error(self):
        self.assertIn('Expected a None object', self.ask('wrong/infer', 3, 'w').json()['error'])

    def test_other_models_are_told_that_they_get_requests_once(self):
        self.assertIn('iterative_sequence', self.ask('plain/infer', 3, 'p', {'sequence_id': 7, 'sequence_start': True}).json()['error'])

    def test_each_request_is_a_sequence_of_its_own(self):
        """Whatever clients call theirs, and how many ask at once."""
        said = [{}, {'sequence_id': 7, 'sequence_start': True}, {'sequence_id': 7, 'sequence_start': True, 'sequence_end': True},
                {'sequence_start': True}, {}, {'sequence_id': 'seven', 'sequence_start': True}]
        for model in ('stream', 'in_a_loop'):
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                answers = list(pool.map(lambda i: self.stream(model, 3 + 2 * i, 'same', said[i]), range(6)))
            self.assertEqual([list(range(3 + 2 * i, 0, -1)) for i in range(6)],
                             [[left for left, _ in one] for one in answers], model)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda i: self.ask('once/infer', 3 + i, 'same', said[i]).json(), range(6)))
        self.assertEqual([1] * 6, [answer['outputs'][0]['data'][0] for answer in answers])

    def test_control_inputs_are_there_in_each_execution(self):
        for model in ('controlled', 'controlled_stream'):
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                answers = list(pool.map(lambda i: self.stream(model, 3 + i, f'r{i}'), range(3)))
            expected = [[1]] * 3 if model == 'controlled' else [list(range(3 + i, 0, -1)) for i in range(3)]
            self.assertEqual(expected, [[one[0] if isinstance(one, list) else one for one in answer] for answer in answers])

    def test_a_sequence_that_has_not_begun_is_an_error(self):
        for answer in (self.ask('once/infer', 3, 'a', {'sequence_id': 7}).json()['error'],
                       self.stream('stream', 3, 'a', {'sequence_id': 7, 'sequence_end': True})[0]):
            self.assertIn('sequence 7 must specify the START flag', answer)

    def test_a_request_that_fails_is_not_executed_again(self):
        for model in ('mischief', 'loop_mischief'):
            for _ in range(10):
                with concurrent.futures.ThreadPoolExecutor(3) as pool:
                    bad = pool.submit(self.stream, model, 13)
                    good = pool.submit(lambda: (time.sleep(0.015), self.stream(model, 3))[1])
                    self.assertIn('thirteen', bad.result()[-1])
                    if isinstance(good.result()[-1], str):  # it was in the same execute()
                        self.assertIn('thirteen', good.result()[-1])
        time.sleep(0.1)
        self.assertEqual(20, len(self.server.logged('one too many', count=20)))

    def test_a_client_that_does_not_read_holds_up_nobody_else(self):
        for model in ('mischief', 'loop_mischief'):
            for n in (-1, -2):
                slow = self.begin(model, n)
                time.sleep(1)
                begin = time.monotonic()
                self.assertEqual([1, 2, 3], [step for step, _ in self.stream(model, 3)], (model, n))
                self.assertLess(time.monotonic() - begin, 5, (model, n))
                self.leave(slow)

    def test_a_client_that_is_far_behind_is_let_go(self):
        """An execute() that sends 120 MB does not wait for its client while all others wait, too."""
        for before, model in enumerate(('mischief', 'loop_mischief')):
            slow = self.begin(model, -3)
            self.assertEqual(before + 1, len(self.server.logged('all sent', count=before + 1)), model)
            begin = time.monotonic()
            self.assertEqual([1, 2, 3], [step for step, _ in self.stream(model, 3)], model)
            self.assertLess(time.monotonic() - begin, 5, model)
            self.leave(slow)

    def test_a_client_that_does_not_read_gives_its_slot_back(self):
        slow = self.begin('patient', -1)  # it has the only one
        time.sleep(0.3)
        begin = time.monotonic()
        self.assertEqual([1, 2, 3], [step for step, _ in self.stream('patient', 3)])
        self.assertLess(time.monotonic() - begin, 40)  # ten seconds of grace, up to 30 for what it took before
        slow.close()

    def test_clients_that_leave_leave_nothing_behind(self):
        for model in ('mischief', 'loop_mischief', 'narrow'):
            clients = [self.begin(model, -1 if model != 'narrow' else 1000) for _ in range(12)]  # more than there are slots
            time.sleep(0.5)
            for client in clients:
                self.leave(client)
            if model != 'narrow':
                until = time.monotonic() + harness.PATIENCE
                while (answers := self.stream(model, 3)) != [[1, 1], [2, 1], [3, 1]] and time.monotonic() < until:
                    time.sleep(0.1)
                self.assertEqual([[1, 1], [2, 1], [3, 1]], answers, model)
            self.assertEqual(3, len(self.stream(model, 3)), model)
        self.assertNotIn('let go of a response sender', self.server.output())

    def test_a_model_that_answers_once_does_not_go_on_for_clients_that_have_left(self):
        client = self.begin('once', 1_000_000_000, 'infer')
        time.sleep(0.3)
        self.leave(client)
        self.assertEqual([1], self.ask('once/infer', 3, 'next').json()['outputs'][0]['data'][:1])

    def test_an_execution_that_hangs_is_noticed(self):
        begin = time.monotonic()
        self.assertIn('process_timeout', self.stream('hangs', 3)[0])
        self.assertLess(time.monotonic() - begin, 10)

    def test_no_time_is_counted_while_a_model_waits_for_clients(self):
        slow = self.begin('patient', -1)  # it has the only slot
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            time.sleep(0.3)
            next_one = pool.submit(self.stream, 'patient', 3)
            time.sleep(2.5)
            self.leave(slow)
            self.assertEqual([1, 2, 3], [step for step, _ in next_one.result()])


if __name__ == '__main__':
    harness.main()
