"""Python models that want a request again (Triton's iterative sequences)."""

import concurrent.futures
import json
import sys

import harness
from harness import curl

# Counts down from N, one number for each execute(), and says how many requests were in it.
COUNTS = '''
import numpy as np
import triton_python_backend_utils as pb_utils

AGAIN = pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def step(self, request):
        left = self.left.pop(request.request_id(), None)
        left = int(request.inputs()[0].as_numpy().reshape(-1)[0]) if left is None else left
        if left > 1:
            self.left[request.request_id()] = left - 1
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
WRONG = COUNTS.replace('            return None', '            pass')
CONFIG = '''name: "%s" backend: "python" max_batch_size: %d %s
input [{ name: "N" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "LEFT" data_type: TYPE_INT32 dims: [1] }, { name: "TOGETHER" data_type: TYPE_INT32 dims: [1] }]'''
ITERATIVE = 'sequence_batching { iterative_sequence: true }'
MANY = 'model_transaction_policy { decoupled: true } '


def repository():
    folder = harness.scratch() / 'python-iterative'
    if not folder.exists():
        for name, code, rows, words in (('once', COUNTS, 4, ITERATIVE), ('wrong', WRONG, 4, ITERATIVE),
                                        ('plain', COUNTS, 4, ''), ('stream', DECOUPLED, 4, MANY + ITERATIVE),
                                        ('narrow', DECOUPLED, 1, MANY + ITERATIVE), ('in_a_loop', IN_A_LOOP, 4, MANY + ITERATIVE)):
            (folder / name / '1').mkdir(parents=True)
            (folder / name / '1/model.py').write_text(code)
            (folder / name / 'config.pbtxt').write_text(CONFIG % (name, rows, words))
    return folder


class Iterative(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=repository(), env={
            'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})  # it has numpy

    def ask(self, path, n, name):
        return curl(self.server.url(f'/v2/models/{path}'), data=json.dumps({'id': name, 'inputs': [
            {'name': 'N', 'datatype': 'INT32', 'shape': [1, 1], 'data': [n]}]}))

    def stream(self, model, n, name='a'):
        """[what is left, requests beside it] of each answer."""
        body = self.ask(f'{model}/infer_stream', n, name).body.decode()
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith('data: ')]
        return [[o['data'][0] for o in e['outputs']] for e in events if e.get('outputs')]

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
        self.assertIn('iterative_sequence', self.ask('plain/infer', 3, 'p').json()['error'])


if __name__ == '__main__':
    harness.main()
