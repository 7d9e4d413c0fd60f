"""Models that say themselves whether they are ready: is_ready() of a model.py."""

import concurrent.futures
import json
import shutil
import sys
import time

import grpc

import harness
from harness import curl

oip, oip_grpc = harness.stubs()('inference')
health, health_grpc = harness.stubs()('health')

CONFIG = '''name: "%s" backend: "python"
input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
'''
DECOUPLED = 'model_transaction_policy { decoupled: true }\n'
# A file beside the version's folder says what is_ready() does.
HEAD = '''
import asyncio
import pathlib
import time

import triton_python_backend_utils as pb_utils

WORDS = pathlib.Path(__file__).parent.parent / 'words'
COUNT = pathlib.Path(__file__).parent.parent / 'count'


def word():
    with COUNT.open('a') as file:
        file.write('.')
    return WORDS.read_text() if WORDS.exists() else 'yes'


class Unsayable(Exception):
    def __str__(self):
        raise ValueError('no text')


def say(word):
    if word == 'raise':
        raise RuntimeError('the cache is cold')
    if word == 'raise unsayable':
        raise Unsayable()
    return {'yes': True, 'no': False}.get(word, word)


'''
EXECUTE = '''
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', r.inputs()[0].as_numpy())]) for r in requests]
'''
PLAIN = HEAD + '''
class TritonPythonModel:
    def is_ready(self):
        said = word()
        if said.startswith('wait'):
            time.sleep(float(said.split()[1]))
            return True
        return say(said)
''' + EXECUTE
COROUTINE = HEAD + '''
class TritonPythonModel:
    async def is_ready(self):
        await asyncio.sleep(0.01)
        return say(word())
''' + EXECUTE
STREAMS = HEAD + '''
class TritonPythonModel:
    async def is_ready(self):
        await asyncio.sleep(0.01)
        return say(word())

    async def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for _ in range(3):
                await asyncio.sleep(0.01)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', request.inputs()[0].as_numpy())]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
# Holds the global lock of its interpreter for so many seconds as its input says: no other thread of it runs.
HOLDS = HEAD + '''
import ctypes


class TritonPythonModel:
    def is_ready(self):
        return say(word())

    def execute(self, requests):
        for request in requests:
            ctypes.PyDLL(None).sleep(int(request.inputs()[0].as_numpy()[0]))
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', r.inputs()[0].as_numpy())]) for r in requests]
'''
# Answers with whether another model is ready.
ASKS = HEAD + '''
import numpy as np


class TritonPythonModel:
    def execute(self, requests):
        ready = pb_utils.is_model_ready('plain')
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array([ready], np.int32))]) for _ in requests]
'''


def repository():
    folder = harness.scratch() / 'python-ready'
    if not folder.exists():
        two = 'instance_group { kind: KIND_CPU count: 2 }\n'
        for name, code, rest in (('plain', PLAIN, ''), ('two', PLAIN, two), ('coroutine', COROUTINE, ''),
                                 ('streams', STREAMS, DECOUPLED), ('streams_two', STREAMS, DECOUPLED + two), ('asks', ASKS, ''),
                                 ('holds', HOLDS, '')):
            (folder / name / '1').mkdir(parents=True)
            (folder / name / '1/model.py').write_text(code)
            (folder / name / 'config.pbtxt').write_text(CONFIG % name + rest)
    return folder


class Ready(harness.Case):
    repository = repository()

    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server('--readiness', 'process', repository=cls.repository, env={'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})
        cls.stub = oip_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(cls.server.address))

    def says(self, model, word):
        (self.repository / model / 'words').write_text(word)

    def asked(self, model):
        count = self.repository / model / 'count'
        return len(count.read_text()) if count.exists() else 0

    def over_rest(self, model):
        answer = curl(self.server.url(f'/v2/models/{model}/ready'))
        self.assertEqual(answer.json()['ready'], answer.status == 200, answer.body)
        return '' if answer.status == 200 else answer.json()['error']

    def over_grpc(self, model):
        return self.stub.ModelReady(oip.ModelReadyRequest(name=model)).ready

    def infer(self, model, number=7):
        answer = curl(self.server.url(f'/v2/models/{model}/infer'), data=json.dumps({'inputs': [
            {'name': 'IN', 'datatype': 'INT32', 'shape': [1], 'data': [number]}]}))
        self.assertEqual(200, answer.status, answer.body)
        return answer.json()['outputs'][0]['data'][0]

    def test_a_model_is_as_ready_as_it_says(self):
        for model in ('plain', 'two', 'coroutine', 'streams', 'streams_two'):
            for word, why in (('yes', ''), ('no', 'is_ready() has returned False'), ('raise', 'RuntimeError: the cache is cold'),
                              ('raise unsayable', 'is_ready() raised Unsayable'),
                              ('perhaps', 'is_ready() must return a bool, not str'), ('yes', '')):
                with self.subTest(model=model, word=word):
                    self.says(model, word)
                    told = self.over_rest(model)
                    self.assertIn(why, told)
                    self.assertEqual(not why, not told)
                    self.assertEqual(not why, self.over_grpc(model))
        self.says('plain', 'no')
        self.assertEqual(7, self.infer('plain'))  # it serves nevertheless
        self.assertEqual(200, curl(self.server.url('/v2/health/ready')).status)
        self.assertEqual(200, curl(self.server.url('/v2/models/plain')).status)

    def test_a_strict_server_is_as_ready_as_its_models_say(self):
        root = harness.scratch() / 'python-ready-strict'
        shutil.copytree(self.repository / 'plain', root / 'plain')
        shutil.copytree(harness.MODELS / 'identity', root / 'identity')
        words = root / 'plain/words'
        words.write_text('raise')
        server = harness.Server(repository=root, env={'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})

        def says(expected):
            end = time.monotonic() + harness.PATIENCE
            while (answer := curl(server.url('/v2/health/ready'))).status != expected:
                self.assertLess(time.monotonic(), end, answer.body)
                time.sleep(0.05)
            return answer.body.decode()

        def stub(channel):
            return oip_grpc.GRPCInferenceServiceStub(channel).ServerReady(oip.ServerReadyRequest()).ready

        def check(channel, model):
            return health_grpc.HealthStub(channel).Check(health.HealthCheckRequest(service='model:' + model)).status

        with grpc.insecure_channel(server.address) as channel:
            self.assertIn("1 of 2 models is not ready: 'plain' version 1: model 'plain' is not ready: is_ready() raised "
                          'RuntimeError: the cache is cold', says(400))
            self.assertFalse(stub(channel))
            self.assertEqual(health.HealthCheckResponse.NOT_SERVING, check(channel, 'plain'))
            self.assertEqual(503, curl(server.url('/readyz')).status)
            words.write_text('yes')
            says(200)
            self.assertTrue(stub(channel))
            watched = health_grpc.HealthStub(channel).Watch(health.HealthCheckRequest(), timeout=harness.PATIENCE)
            model = health_grpc.HealthStub(channel).Watch(health.HealthCheckRequest(service='model:plain'), timeout=harness.PATIENCE)
            self.assertEqual(health.HealthCheckResponse.SERVING, next(model).status)
            self.assertEqual(health.HealthCheckResponse.SERVING, next(watched).status)
            words.write_text('wait 7')
            self.assertEqual(health.HealthCheckResponse.NOT_SERVING, next(watched).status)
            self.assertEqual(health.HealthCheckResponse.NOT_SERVING, next(model).status)
            self.assertIn('it did not answer within 5 s', says(400))
            self.assertEqual(health.HealthCheckResponse.SERVING, check(channel, 'identity'))
            words.write_text('yes')
            self.assertEqual(health.HealthCheckResponse.SERVING, next(watched).status)
            self.assertEqual(health.HealthCheckResponse.SERVING, next(model).status)
            watched.cancel()
            model.cancel()
        self.assertEqual(0, server.stop())

    def test_a_model_that_works_is_as_ready_as_it_said_before(self):
        root = harness.scratch() / 'python-ready-busy'
        shutil.copytree(self.repository / 'holds', root / 'holds')
        server = harness.Server('--shards', '1', repository=root, env={'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})
        end = time.monotonic() + harness.PATIENCE
        while curl(server.url('/v2/health/ready')).status != 200:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.assertEqual(200, curl(server.url('/v2/models/holds/ready')).status)
        with concurrent.futures.ThreadPoolExecutor(2) as some:
            began = time.monotonic()
            inferring = some.submit(curl, server.url('/v2/models/holds/infer'), data=json.dumps({'inputs': [
                {'name': 'IN', 'datatype': 'INT32', 'shape': [1], 'data': [9]}]}))
            time.sleep(0.5)
            asking = some.submit(curl, server.url('/v2/models/holds/ready'))
            while not inferring.done():
                self.assertEqual(200, curl(server.url('/v2/health/ready')).status, time.monotonic() - began)
                time.sleep(0.2)
            self.assertEqual(200, inferring.result().status)
            self.assertEqual(200, asking.result().status)
        self.assertLess(8.5, time.monotonic() - began)
        self.assertEqual(0, server.stop())

    def test_other_models_are_told_the_same(self):
        self.says('plain', 'yes')
        self.assertEqual(1, self.infer('asks'))
        self.says('plain', 'no')
        self.assertEqual(0, self.infer('asks'))

    def test_a_silent_model_is_asked_once_and_holds_nobody(self):
        self.says('two', 'wait 8')
        before = self.asked('two')
        with concurrent.futures.ThreadPoolExecutor(40) as many:
            began = time.monotonic()
            waiting = [many.submit(self.over_rest, 'two') for _ in range(40)]
            time.sleep(0.3)
            self.assertEqual(7, self.infer('two'))
            self.assertEqual('', self.over_rest('asks'))
            self.assertLess(time.monotonic() - began, 4)
            self.assertEqual({'it did not answer within 5 s'}, {w.result() for w in waiting})
        self.assertLess(4.9, time.monotonic() - began)
        self.says('two', 'no')
        self.assertTrue(self.over_grpc('two'))  # the answer to the question that is under way
        self.assertEqual(2, self.asked('two') - before)  # one of each instance
        self.assertFalse(self.over_grpc('two'))

    def test_a_stream_goes_on_while_its_model_is_asked(self):
        self.says('streams', 'yes')
        tensor = oip.ModelInferRequest.InferInputTensor(name='IN', datatype='INT32', shape=[1],
                                                        contents=oip.InferTensorContents(int_contents=[5]))
        requests = iter([oip.ModelInferRequest(model_name='streams', inputs=[tensor]) for _ in range(20)])
        with concurrent.futures.ThreadPoolExecutor(4) as some:
            asking = [some.submit(self.over_grpc, 'streams') for _ in range(50)]
            answers = [a for a in self.stub.ModelStreamInfer(requests) if a.infer_response.outputs]
            self.assertTrue(all(a.result() for a in asking))
        self.assertEqual(60, len(answers))


if __name__ == '__main__':
    harness.main()
