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


def repository():
    folder = harness.scratch() / 'python-requests'
    if not folder.exists():
        for name in ('identity', 'simple_dyna_sequence'):
            shutil.copytree(harness.MODELS / name, folder / name)
        for name, code in (('gate', GATE), ('opener', OPENER)):
            (folder / name / '1').mkdir(parents=True)
            (folder / name / '1/model.py').write_text(code)
            (folder / name / 'config.pbtxt').write_text(CONFIG % name)
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


if __name__ == '__main__':
    harness.main()
