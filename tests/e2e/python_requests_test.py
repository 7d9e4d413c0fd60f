"""Requests that models with code of their own make to other models (Triton's BLS), beyond what python_test.py has."""

import json
import shutil
import sys

import harness
from harness import curl

CONFIG = '''name: "%s" backend: "python"
input { name: "DO" data_type: TYPE_STRING dims: [ -1 ] } output { name: "DONE" data_type: TYPE_STRING dims: [ 1 ] }
parameters { key: "process_timeout" value { string_value: "20s" } }
'''
HEAD = '''
import asyncio
import json
import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def text(name, *texts):
    return pb_utils.Tensor(name, np.array(texts, np.object_))


def told(request):
    return [t.decode() for t in request.inputs()[0].as_numpy()]


'''
# Answers once there is a file, or after a while without it.
GATE = HEAD + '''
class TritonPythonModel:
    def execute(self, requests):
        path, = told(requests[0])
        until = time.monotonic() + 5
        while not os.path.exists(path) and time.monotonic() < until:
            time.sleep(0.005)
        return [pb_utils.InferenceResponse([text('DONE', 'open' if os.path.exists(path) else 'shut')])]
'''
# Makes the file when another request has been answered, which it has begun later.
OPENER = HEAD + '''
class TritonPythonModel:
    async def execute(self, requests):
        path, = told(requests[0])
        at_gate = asyncio.ensure_future(pb_utils.InferenceRequest(
            model_name='gate', inputs=[text('DO', path)], requested_output_names=['DONE']).async_exec())
        await asyncio.sleep(0.1)
        await pb_utils.InferenceRequest(model_name='identity', inputs=[text('DO', path)]).async_exec()
        open(path, 'w').close()
        return [pb_utils.InferenceResponse((await at_gate).output_tensors())]
'''
# Makes requests of a sequence: its id, then the numbers. The other model adds 1 to the first, and the id to the last.
SEQUENCE = HEAD + '''
class TritonPythonModel:
    def execute(self, requests):
        name, *numbers = told(requests[0])
        answers = []
        for i, number in enumerate(numbers):
            flags = (pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START if i == 0 else 0) | \\
                (pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END if i == len(numbers) - 1 else 0)
            response = pb_utils.InferenceRequest(
                model_name='simple_dyna_sequence', correlation_id=int(name), flags=flags,
                inputs=[pb_utils.Tensor('INPUT', np.array([[int(number)]], np.int32))], timeout=10_000_000,
                requested_output_names=['OUTPUT']).exec()
            if response.has_error():
                raise pb_utils.TritonModelException(response.error().message())
            answers.append(int(response.output_tensors()[0].as_numpy()[0, 0]))
        return [pb_utils.InferenceResponse([text('DONE', json.dumps(answers))])]
'''
# Answers with all that it is told of a request, also of one that it makes to itself.
MIRROR = HEAD + '''
class TritonPythonModel:
    def execute(self, requests):
        if told(requests[0]) == ['prefer']:
            trace = requests[0].trace()
            request = pb_utils.InferenceRequest(
                model_name='identity', inputs=[text('DO', 'there')], trace=trace,
                preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU))
            gpu = pb_utils.PreferredMemory(preferred_memory_type=pb_utils.MemoryType.TRITONSERVER_MEMORY_GPU, preferred_device_id=1)
            assert isinstance(trace, pb_utils.InferenceTrace) and trace.get_context() is None and request.trace() is trace
            assert isinstance(gpu, pb_utils.PreferredMemory)
            return [pb_utils.InferenceResponse([text('DONE', *request.exec().output_tensors()[0].as_numpy())])]
        if told(requests[0]) == ['look']:
            request = pb_utils.InferenceRequest(
                request_id='mine', model_name='mirror', correlation_id='a name', flags=3, timeout=7_000_000,
                inputs=[text('DO', 'here')], requested_output_names=['DONE'], parameters={'colour': 'red'})
            return [pb_utils.InferenceResponse(asyncio.run(request.async_exec()).output_tensors())]
        return [pb_utils.InferenceResponse([text('DONE', json.dumps(
            [r.request_id(), r.correlation_id(), r.flags(), r.timeout(), json.loads(r.parameters())]))]) for r in requests]
'''


def repository():
    folder = harness.scratch() / 'python-requests'
    if not folder.exists():
        for name in ('identity', 'simple_dyna_sequence'):
            shutil.copytree(harness.MODELS / name, folder / name)
        for name, code in (('gate', GATE), ('opener', OPENER), ('sequence', SEQUENCE), ('mirror', MIRROR)):
            (folder / name / '1').mkdir(parents=True)
            (folder / name / '1/model.py').write_text(code)
            two = 'instance_group { kind: KIND_CPU count: 2 }' if name == 'mirror' else ''
            (folder / name / 'config.pbtxt').write_text(CONFIG % name + two)
    return folder


class Requests(harness.Case):
    repository = repository()

    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=cls.repository, env={'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})

    def told(self, model, *words, status=200):
        answer = curl(self.server.url(f'/v2/models/{model}/infer'), data=json.dumps({'inputs': [
            {'name': 'DO', 'datatype': 'BYTES', 'shape': [len(words)], 'data': list(map(str, words))}]}))
        self.assertEqual(status, answer.status, answer.body)
        return answer.json()['outputs'][0]['data'][0] if status == 200 else answer.json()['error']

    def test_a_request_that_takes_long_delays_no_other(self):
        for i in range(3):
            self.assertEqual('open', self.told('opener', harness.scratch() / f'gate-{i}'))

    def test_a_request_may_be_one_of_a_sequence(self):
        for _ in range(2):
            self.assertEqual([3 + 1, 4, 5 + 70], json.loads(self.told('sequence', 70, 3, 4, 5)))
        self.assertEqual([5 + 1 + 71], json.loads(self.told('sequence', 71, 5)))
        self.assertIn('must specify a non-zero or non-empty correlation ID', self.told('sequence', 0, 1, status=500))

    def test_the_other_model_is_told_all_of_a_request(self):
        self.assertEqual(['mine', 'a name', 3, 7_000_000, {'colour': 'red'}], json.loads(self.told('mirror', 'look')))

    def test_a_request_may_prefer_a_memory_and_be_part_of_a_trace(self):
        self.assertEqual('there', self.told('mirror', 'prefer'))


if __name__ == '__main__':
    harness.main()
