"""What Python models written for Triton rely on, and their configuration does not say."""

import concurrent.futures
import json
import sys
import time

import harness
from harness import curl

SHAPES = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(eval(r.inputs()[0].as_numpy().reshape(-1)[0].decode())) for r in requests]

    def answer(self, array):
        return pb_utils.InferenceResponse([pb_utils.Tensor('Y', array)])
'''
FORKS = '''
import multiprocessing

import numpy as np
import triton_python_backend_utils as pb_utils


def ask(_):
    try:
        pb_utils.InferenceRequest(model_name='headers', inputs=[], requested_output_names=[]).exec()
    except pb_utils.TritonModelException as e:
        return str(e)


class TritonPythonModel:
    def execute(self, requests):
        with multiprocessing.get_context('fork').Pool(2) as pool:
            told = [pool.map(ask, [1, 2]) for _ in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor('TOLD', np.array([t], dtype=object))]) for t in told]
'''
TOGETHER = '''
import json

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def execute(self, requests):
        asked = [r.inputs()[0].as_numpy().reshape(-1)[0].decode() for r in requests]
        rows = sum(len(r.inputs()[0].as_numpy()) for r in requests)
        if 'wait' in asked:
            import time
            time.sleep(1)
        if 'wrong' in asked:
            raise ValueError('no luck')
        for request, order in zip(requests, asked):
            if order == 'lost':
                continue
            sender = request.get_response_sender()
            for text in (order, str(len(requests)), str(rows)):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('TOLD', np.array([text.encode()], dtype=object))]))
            sender.send(flags=FINAL)
'''
ASYNC = TOGETHER.replace('def execute', 'async def execute')
SLOW = '''
import asyncio

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        for request in requests:
            await asyncio.sleep(1)
            text = pb_utils.Tensor('TOLD', request.inputs()[0].as_numpy())
            request.get_response_sender().send(pb_utils.InferenceResponse([text]), flags=1)
'''
RELAYS = '''
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        for request in requests:
            asked = pb_utils.InferenceRequest(model_name='slow', inputs=request.inputs(), requested_output_names=['TOLD'])
            for response in await asked.async_exec(decoupled=True):
                if response.output_tensors():
                    request.get_response_sender().send(response)
            request.get_response_sender().send(flags=1)
'''
# Says what kind of exception an expression leads to.
TYPES = '''
import numpy as np
import triton_python_backend_utils as pb_utils

ARRAY = np.array([1], np.int32)
X = pb_utils.Tensor('X', ARRAY)


def ask(**words):
    return pb_utils.InferenceRequest(**{'model_name': 'm', 'inputs': [X], 'requested_output_names': ['Y'], **words})


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(r.inputs()[0].as_numpy().reshape(-1)[0].decode()) for r in requests]

    def answer(self, expression):
        kind = 'nothing'
        try:
            eval(expression)
        except Exception as e:
            kind = type(e).__name__
        return pb_utils.InferenceResponse([pb_utils.Tensor('TOLD', np.array([[kind]], dtype=object))])
'''
DECOUPLED = '''name: "%s" backend: "python" max_batch_size: 4 %s model_transaction_policy { decoupled: true }
input [{ name: "DO" data_type: TYPE_STRING dims: [1] }] output [{ name: "TOLD" data_type: TYPE_STRING dims: [1] }]
instance_group [{ kind: KIND_CPU }]'''
STRINGS = '''name: "%s" backend: "python" max_batch_size: 4 parameters { key: "process_timeout" value { string_value: "10s" } }
input [{ name: "DO" data_type: TYPE_STRING dims: [1] }] output [{ name: "TOLD" data_type: TYPE_STRING dims: [1] }]'''
SHAPED = '''name: "%s" backend: "python" max_batch_size: 4
input [{ name: "DO" data_type: TYPE_STRING dims: [1] }] output [{ name: "Y" data_type: TYPE_FP32 dims: [1] }]'''

# Says how many requests its process has had. Of those that are no warm-up's none ends before each process has one.
WARM = '''
import os
import pathlib
import time

import numpy as np
import triton_python_backend_utils as pb_utils

FOLDER = pathlib.Path(__file__).parent


class TritonPythonModel:
    had = 0

    def execute(self, requests):
        for request in requests:
            self.had += 1
            sender = request.get_response_sender()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('TOLD', np.array([[str(self.had)]], dtype=object))]))
            if pb_utils.get_input_tensor_by_name(request, 'DO').as_numpy().item() == b'x':
                (FOLDER / f'asked-{os.getpid()}').touch()
                end = time.monotonic() + 20
                while len(list(FOLDER.glob('asked-*'))) < 2 and time.monotonic() < end:
                    time.sleep(0.01)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
WARM_UP = '''instance_group [{ count: 2 kind: KIND_CPU }] model_warmup [{ name: "w" batch_size: 1 count: 2
inputs { key: "DO" value { data_type: TYPE_STRING dims: [1] zero_data: true } } }]'''

HALF = SHAPES.replace("Tensor('Y', array)", "Tensor('Y', array)][:array.size] + [pb_utils.Tensor('Z', array)][:array.size - 1")
HALVED = '''name: "%s" %s max_batch_size: 4
input [{ name: "DO" data_type: TYPE_STRING dims: [1] }]
output [{ name: "Y" data_type: TYPE_FP32 dims: [-1] }, { name: "Z" data_type: TYPE_FP32 dims: [-1] }] %s'''
STEP = '''ensemble_scheduling { step [{ model_name: "half" model_version: -1 input_map { key: "DO" value: "DO" }
output_map { key: "Y" value: "Y" } output_map { key: "Z" value: "Z" } }] }'''


def repository():
    folder = harness.scratch() / 'python-ported'
    if not folder.exists():
        for name, code, config in (('forks', FORKS, STRINGS % 'forks'), ('shapes', SHAPES, SHAPED % 'shapes'),
                                   ('together', TOGETHER, DECOUPLED % ('together', 'dynamic_batching { }')),
                                   ('in_a_loop', ASYNC, DECOUPLED % ('in_a_loop', 'dynamic_batching { }')),
                                   ('slow', SLOW, DECOUPLED % ('slow', '')), ('relays', RELAYS, DECOUPLED % ('relays', '')),
                                   ('types', TYPES, STRINGS % 'types'),
                                   ('half', HALF, HALVED % ('half', 'backend: "python"', '')),
                                   ('whole', None, HALVED % ('whole', 'platform: "ensemble"', STEP)), ('warm', WARM, DECOUPLED % ('warm', WARM_UP)),
                                   ('apart', TOGETHER, DECOUPLED % ('apart', ''))):
            (folder / name / '1').mkdir(parents=True)
            if code:
                (folder / name / '1/model.py').write_text(code)
            (folder / name / 'config.pbtxt').write_text(config)
    return folder


class Ported(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=repository(), env={
            'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})  # it has numpy

    def ask(self, path, order, rows=1):
        return curl(self.server.url(f'/v2/models/{path}'), data=json.dumps({'inputs': [
            {'name': 'DO', 'datatype': 'BYTES', 'shape': [rows, 1], 'data': [order] * rows}]}))

    def told(self, model, orders, rows=1):
        """What each of the requests is told that come while the model is busy with another one."""
        with concurrent.futures.ThreadPoolExecutor(len(orders) + 1) as pool:
            busy = pool.submit(self.ask, f'{model}/infer_stream', 'wait')
            time.sleep(0.3)
            answers = list(pool.map(lambda order: self.ask(f'{model}/infer_stream', order, rows).body.decode(), orders))
            busy.result()
        return [self.texts(answer) for answer in answers]

    @staticmethod
    def texts(body):
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith('data: ')] or [json.loads(body)]
        return [e['error'] if 'error' in e else e['outputs'][0]['data'][0] for e in events if e.get('outputs') or 'error' in e]

    def test_an_output_has_the_shape_that_the_model_gives_it(self):
        for shape in ([3], [1, 1], [2, 3], [], [1, 2, 1], [0]):
            answer = self.ask('shapes/infer', f'np.ones({shape}, np.float32)').json()
            self.assertEqual([shape], [o['shape'] for o in answer.get('outputs', [answer])], answer)

    def test_a_process_that_a_model_has_forked_is_told_that_it_may_not_ask(self):
        told = self.ask('forks/infer', '').json()
        self.assertIn('has forked makes no requests', told['outputs'][0]['data'][0])

    def test_numbers_that_the_outputs_type_has_get_it(self):
        for kind, number in (('float16', 0.5), ('float64', 0.5), ('float16', -2)):
            output, = self.ask('shapes/infer', f'np.array([[{number}]], np.{kind})').json()['outputs']
            self.assertEqual(('FP32', [number]), (output['datatype'], output['data']))
        for number in ('0.1', '1e300'):
            self.assertIn("output 'Y' as FP64; it is FP32", self.ask('shapes/infer', f'np.array([[{number}]])').json()['error'])

    def test_a_decoupled_model_gets_the_requests_that_wait_together(self):
        self.assertEqual([['a', '3', '3'], ['b', '3', '3'], ['c', '3', '3']], self.told('together', 'abc'))
        self.assertEqual(['a', 'b', 'c'], [t[0] for t in self.told('in_a_loop', 'abc')])
        self.assertEqual([['2', '4']] * 2, [t[1:] for t in self.told('together', 'ab', rows=2)])
        self.assertEqual({'1', '2'}, {t[1] for t in self.told('together', 'abc', rows=2)})
        self.assertEqual([['a', '1', '1'], ['b', '1', '1']], self.told('apart', 'ab'))

    def test_an_execution_that_fails_is_the_end_of_each_request_in_it(self):
        for told in self.told('together', ['a', 'wrong', 'b']):
            self.assertIn('ValueError: no luck', told[-1])
        self.assertEqual([['a', '1', '1']], self.told('together', 'a'))

    def test_a_coroutine_that_waits_for_another_models_answers_keeps_no_other_waiting(self):
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda order: self.ask('relays/infer_stream', order).body.decode(), 'abcdef'))
        self.assertEqual([[c] for c in 'abcdef'], [self.texts(answer) for answer in answers])
        self.assertLess(time.monotonic() - started, 5)

    def test_what_is_of_a_wrong_type_is_refused_where_it_is_made(self):
        for expression, kind in (
                ('ask()', 'nothing'), ("ask(correlation_id='a', request_id='b', flags=1)", 'nothing'),
                ('ask(inputs=[], requested_output_names=[])', 'nothing'), ('ask(inputs=[None])', 'TritonModelException'),
                ('ask(inputs=None)', 'TypeError'), ('ask(inputs=[ARRAY])', 'TypeError'), ('ask(model_name=None)', 'TypeError'),
                ('ask(requested_output_names=None)', 'TypeError'), ('ask(requested_output_names=[None])', 'TypeError'),
                ('ask(correlation_id=None)', 'TypeError'), ('ask(request_id=None)', 'TypeError'),
                ('ask(model_version=None)', 'TypeError'), ('ask(flags=None)', 'TypeError'),
                ('pb_utils.InferenceRequest(inputs=[X])', 'TypeError'), ("pb_utils.InferenceRequest(model_name='m')", 'TypeError'),
                ('pb_utils.InferenceResponse([None])', 'TritonModelException'), ('pb_utils.InferenceResponse(None)', 'TypeError'),
                ('pb_utils.InferenceResponse([])', 'nothing'), ('pb_utils.Tensor(None, ARRAY)', 'TypeError'),
                ("pb_utils.Tensor('Y', None)", 'TypeError'), ("pb_utils.Tensor.from_dlpack('Y', None)", 'TritonModelException'),
                ("pb_utils.Tensor.from_dlpack('', X)", 'TritonModelException'), ("pb_utils.Logger.log('x', None)", 'TypeError'),
                ("pb_utils.Logger.log('x', 1)", 'TypeError'), ("pb_utils.Logger.log('x', pb_utils.Logger.WARNING)", 'nothing'),
                ('pb_utils.Logger.log_info(None)', 'TypeError'), ("pb_utils.Logger.log_error('x')", 'nothing')):
            told = self.ask('types/infer', expression).json()
            self.assertEqual([kind], told.get('outputs', [told])[0].get('data'), expression)

    def test_an_output_that_is_left_out_is_left_out_of_an_ensemble(self):
        for model in ('half', 'whole'):
            for order, names in (('np.ones([1, 1], np.float32)', ['Y']), ('np.ones([1, 2], np.float32)', ['Y', 'Z'])):
                answer = self.ask(f'{model}/infer', order).json()
                self.assertEqual(names, [o['name'] for o in answer.get('outputs', [answer])], (model, answer))

    def test_each_process_of_a_decoupled_model_is_warm_before_it_is_ready(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda _: self.ask('warm/infer_stream', 'x').body.decode(), range(2)))
        self.assertEqual([['3'], ['3']], [self.texts(answer) for answer in answers])

    def test_a_request_that_the_model_lets_go_ends_alone(self):
        told = self.told('together', ['a', 'lost', 'b'])
        self.assertEqual([['a', '3', '3'], ['b', '3', '3']], [told[0], told[2]])
        self.assertIn('had not sent the final flag', told[1][0])


if __name__ == '__main__':
    harness.main()
