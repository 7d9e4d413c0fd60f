"""How a Python model may answer: by what execute() returns, by response senders, by tasks of a coroutine, and with what."""

import concurrent.futures
import json
import sys

import grpc

import harness
from harness import curl

oip, oip_grpc = harness.stubs()('inference')

WAYS = '''
import asyncio
import json
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self.held = []

    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, request):
        order = request.inputs()[0].as_numpy().reshape(-1)[0].decode()
        mine = pb_utils.InferenceResponse([pb_utils.Tensor('TOLD', np.array([[order.encode()]], dtype=object))])
        other = pb_utils.InferenceResponse([pb_utils.Tensor('TOLD', np.array([[b'sent']], dtype=object))])
        if order == 'return':
            return mine
        if order == 'nothing':
            return None
        if order == 'wrong':
            return 'a text'
        if order == 'close':
            request.get_response_sender().send(flags=FINAL)
            return None
        if order == 'later':
            threading.Timer(0.1, request.get_response_sender().send, (other, FINAL)).start()
            return None
        request.get_response_sender().send(other, FINAL)
        return mine if order == 'both' else None
'''
TASKS = '''
import asyncio
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    tasks = set()

    async def execute(self, requests):
        for request in requests:
            order = request.inputs()[0].as_numpy().reshape(-1)[0].decode()
            task = asyncio.create_task(getattr(self, order)(request))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return None

    @staticmethod
    def send(request, text):
        tensor = pb_utils.Tensor('TOLD', np.array([[text]], dtype=object))
        request.get_response_sender().send(pb_utils.InferenceResponse([tensor]), FINAL)

    async def wait(self, request):
        await asyncio.sleep(0.1)
        self.send(request, b'waited')

    async def thread(self, request):
        request.get_response_sender()
        threading.Timer(0.1, self.send, (request, b'of a thread')).start()

    async def both(self, request):
        await asyncio.get_running_loop().run_in_executor(None, self.send, request, b'of an executor')
        await asyncio.sleep(30)

    async def wrong(self, request):
        await asyncio.sleep(0.01)
        raise ValueError('no luck')

    async def silent(self, request):
        await asyncio.sleep(0.01)
'''
KINDS = '''
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, request):
        parameters = eval(request.inputs()[0].as_numpy().reshape(-1)[0].decode())
        tensor = pb_utils.Tensor('TOLD', np.array([[b'']], dtype=object))
        try:
            return pb_utils.InferenceResponse([tensor], parameters=parameters)
        except pb_utils.TritonModelException as e:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(e), pb_utils.TritonError.INVALID_ARG))
'''
CAPSULES = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([self.handed_on(t) for t in r.inputs()]) for r in requests]

    @staticmethod
    def handed_on(tensor):
        unread = tensor.to_dlpack()
        return pb_utils.Tensor.from_dlpack('Y', tensor)
'''
SERIES = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i in range(2):
                tensor = pb_utils.Tensor('Y', np.array([i], np.float32))
                sender.send(pb_utils.InferenceResponse([tensor], parameters={'n': i, 'reason': 'length'}))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
ASKER = '''
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer() for _ in requests]

    def answer(self):
        inputs = [pb_utils.Tensor('X', np.array([1], np.float32))]
        answers = pb_utils.InferenceRequest(model_name='series', inputs=inputs, requested_output_names=['Y']).exec(decoupled=True)
        seen = [json.loads(answer.parameters()) for answer in answers]
        return pb_utils.InferenceResponse([pb_utils.Tensor('TOLD', np.array([[json.dumps(seen).encode()]], dtype=object))])
'''
STRINGS = '''name: "%s" backend: "python" max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 300000 }
input { name: "DO" data_type: TYPE_STRING dims: [ 1 ] } output { name: "TOLD" data_type: TYPE_STRING dims: [ 1 ] }
parameters { key: "process_timeout" value { string_value: "5s" } }
'''
ONE = '''name: "%s" backend: "python"
input { name: "X" data_type: TYPE_%s dims: [ -1 ] } output { name: "Y" data_type: TYPE_%s dims: [ -1 ] }
'''
DECOUPLED = 'model_transaction_policy { decoupled: true }\n'


def repository():
    folder = harness.scratch() / 'python-answers'
    if not folder.exists():
        capsules = [(f'capsule_{kind.lower()}', CAPSULES, ONE % ('%s', kind, kind)) for kind in ('BF16', 'BOOL', 'FP32')]
        series = 'series', SERIES, ONE % ('%s', 'FP32', 'FP32') + DECOUPLED
        strings = [(name, code, STRINGS) for name, code in (('ways', WAYS), ('tasks', TASKS), ('kinds', KINDS), ('asker', ASKER))]
        for name, code, config in [*strings, *capsules, series]:
            (folder / name / '1').mkdir(parents=True)
            (folder / name / '1/model.py').write_text(code)
            (folder / name / 'config.pbtxt').write_text(config % name)
    return folder


class Answers(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=repository(), env={
            'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})  # it has numpy

    def ask(self, model, order):
        answer = curl(self.server.url(f'/v2/models/{model}/infer'), data=json.dumps({'inputs': [
            {'name': 'DO', 'datatype': 'BYTES', 'shape': [1, 1], 'data': [order]}]})).json()
        return answer['error'] if 'error' in answer else answer

    def told(self, model, *orders):
        """Of requests that are one batch."""
        with concurrent.futures.ThreadPoolExecutor(len(orders)) as pool:
            answers = list(pool.map(lambda order: self.ask(model, order), orders))
        return [a if isinstance(a, str) else a['outputs'][0]['data'][0] for a in answers]

    def test_each_request_of_a_batch_is_answered_by_its_own_way(self):
        self.assertEqual(['return', 'sent', 'sent', 'sent'], self.told('ways', 'return', 'send', 'later', 'both'))
        self.assertEqual(['sent', 'sent'], self.told('ways', 'send', 'later'))

    def test_a_request_that_is_answered_wrongly_fails_alone(self):
        told = self.told('ways', 'return', 'nothing', 'wrong', 'close', 'send')
        self.assertEqual(['return', 'sent'], [told[0], told[4]])
        self.assertIn('returned no response to a request', told[1])
        self.assertIn('must return InferenceResponses, not str', told[2])
        self.assertIn('its response sender sent none', told[3])

    def test_tasks_of_a_coroutine_answer_after_it_has_returned(self):
        self.assertEqual(['waited', 'of a thread', 'of an executor'], self.told('tasks', 'wait', 'thread', 'both'))

    def test_a_task_that_fails_is_the_answer_to_those_that_wait_for_it(self):
        told = self.told('tasks', 'wait', 'wrong')
        self.assertEqual('waited', told[0])
        self.assertIn('ValueError: no luck', told[1])
        self.assertIn('returned no response', self.told('tasks', 'silent')[0])
        self.assertEqual(['waited'], self.told('tasks', 'wait'))

    def test_a_task_that_does_not_end_delays_no_error(self):
        self.assertEqual(['of an executor'], self.told('tasks', 'both'))
        self.assertIn('returned no response', self.told('tasks', 'silent')[0])
        self.assertEqual(['waited'], self.told('tasks', 'wait'))

    def test_parameters_of_a_response_are_plain_values(self):
        right = {'a': '1', 'b': True, 'c': 3, 'd': 0.5}
        self.assertEqual(right, self.ask('kinds', repr(right))['parameters'])
        self.assertNotIn('parameters', self.ask('kinds', 'None'))
        for text, reason in (('{1: 2}', "keys to have type str, found type <class 'int'>"),
                             ('{"a": None}', "bool/int/str, found type <class 'NoneType'>"),
                             ('{"a": []}', "found type <class 'list'>"), ('{"a": {}}', "found type <class 'dict'>"),
                             ('[]', "got <class 'list'>"), ('{"a": 1 << 64}', 'whole numbers of 64 bits')):
            self.assertIn(reason, self.ask('kinds', text))

    def test_parameters_of_a_decoupled_models_answers_go_with_them(self):
        expected = [{'n': 0, 'reason': 'length'}, {'n': 1, 'reason': 'length'}]
        body = {'inputs': [{'name': 'X', 'datatype': 'FP32', 'shape': [1], 'data': [1]}]}
        self.assertEqual(expected, [a['parameters'] for a in self.events('infer_stream', body)])
        generated = self.events('generate_stream', {'X': 1})
        self.assertEqual([{**p, 'Y': p['n']} for p in expected], [{k: a[k] for k in ('n', 'reason', 'Y')} for a in generated])
        self.assertEqual(expected, json.loads(self.told('asker', '')[0])[:2])
        request = oip.ModelInferRequest(model_name='series')
        request.inputs.add(name='X', datatype='FP32', shape=[1])
        request.raw_input_contents.append(bytes(4))
        with grpc.insecure_channel(f'127.0.0.1:{self.server.port}') as channel:
            answers = list(oip_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]), timeout=harness.PATIENCE))
        self.assertEqual([('length', 0), ('length', 1)], [
            (p['reason'].string_param, p['n'].int64_param) for p in (a.infer_response.parameters for a in answers[:2])])

    def events(self, verb, body):
        answer = curl(self.server.url(f'/v2/models/series/{verb}'), data=json.dumps(body))
        return [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith('data: ')]

    def test_tensors_are_handed_on_by_dlpack(self):
        for kind, values in (('BF16', [1.0, -2.5, 0.0]), ('BOOL', [True, False, True]), ('FP32', [1.5, 2.0]), ('BF16', [])):
            answer = curl(self.server.url(f'/v2/models/capsule_{kind.lower()}/infer'), data=json.dumps({'inputs': [
                {'name': 'X', 'datatype': kind, 'shape': [len(values)], 'data': values}]})).json()
            self.assertEqual((kind, values), (answer['outputs'][0]['datatype'], answer['outputs'][0]['data']))


if __name__ == '__main__':
    harness.main()
