"""models.control: demand. Two models and memory for one: each protocol's request brings its model in, the other leaves."""

import json
import re
import shutil
import struct
import sys
import threading
import time

import grpc

import harness
from evergreen_client import GrpcSession, action, leaf, read_until
from graphpipe_test import infer_request, outputs_of
from harness import curl
from salience_client import QUESTION, Client, tokenizer
from salience_client import rpc as salience_grpc

oip, oip_grpc = harness.stubs()('inference')
grps, grps_grpc = harness.stubs()('grps')
health, health_grpc = harness.stubs()('health')

JSON = ('-H', 'Content-Type: application/json')
WAITS = 'not in memory: the next request loads it'


def repository(name, *models, **configurations):
    root = harness.scratch() / name
    root.mkdir()
    for model in models:
        shutil.copytree(harness.MODELS / model, root / model)
    for model, yaml in configurations.items():
        (root / model / 'model.yaml').write_text(yaml)
    return root


def floats(values):
    return struct.pack(f'<{len(values)}f', *values)


class Demand(harness.unittest.TestCase):
    """digits takes 1.8 MB, and chat 7.8: both are more than 8 MiB."""

    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server('--control', 'demand', '--models-memory', '8MiB', '--shards', '2',
                                    repository=repository('two', 'digits', 'chat'))
        cls.channel = grpc.insecure_channel(cls.server.address)
        cls.oip = oip_grpc.GRPCInferenceServiceStub(cls.channel)
        images, _ = harness.heldout()
        cls.image = images[0]
        cls.expected = cls.rest()

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        assert cls.server.stop() == 0, cls.server.output()[-5000:]

    @classmethod
    def rest(cls):
        body = {'inputs': [{'name': 'image', 'shape': [1, 64], 'datatype': 'FP32', 'data': cls.image}]}
        answer = curl(cls.server.url('/v2/models/digits/infer'), *JSON, data=json.dumps(body))
        assert answer.status == 200, answer.body
        return answer.json()['outputs'][0]['data']

    def chat(self, stream=False):
        body = {'model': 'chat', 'max_tokens': 4, 'stream': stream, 'messages': [{'role': 'user', 'content': 'Hi'}]}
        answer = curl(self.server.url('/v1/chat/completions'), *JSON, data=json.dumps(body))
        self.assertEqual(200, answer.status, answer.body)
        return answer

    def index(self):
        rows = curl(self.server.url('/v2/repository/index'), '-X', 'POST').json()
        return {row['name']: (row['state'], row.get('reason', '')) for row in rows}

    def loads(self, model):
        return len(self.server.logged('model loaded', f'model={model} ', count=0))

    def brings(self, model, ask):
        """Runs `ask` while the other model is in memory; then its model is there, and has been loaded once more."""
        other = 'digits' if model == 'chat' else 'chat'
        (self.chat if other == 'chat' else self.rest)()
        before = self.loads(model)
        answer = ask()
        self.assertEqual(before + 1, len(self.server.logged('model loaded', f'model={model} ', count=before + 1)))
        self.assertTrue(self.server.logged('model left memory', 'model=' + other))
        return answer

    def test_all_are_ready_and_known_before_anybody_asks(self):
        self.assertEqual(200, curl(self.server.url('/v2/health/ready')).status)
        self.assertEqual({'digits', 'chat'}, set(self.index()))
        for model in ('digits', 'chat'):
            self.assertEqual(200, curl(self.server.url(f'/v2/models/{model}/ready')).status)
            self.assertTrue(curl(self.server.url(f'/v2/models/{model}')).json()['inputs'])
        self.assertIn('chat', [m['id'] for m in curl(self.server.url('/v1/models')).json()['data']])

    def test_the_index_says_what_is_in_memory(self):
        self.rest()
        self.server.logged('model left memory')
        self.chat()
        self.assertEqual(('READY', WAITS), self.index()['digits'])

    def test_rest_v2(self):
        self.assertEqual(self.expected, self.brings('digits', self.rest))

    def test_grpc_unary_and_stream(self):
        request = oip.ModelInferRequest(model_name='digits')
        request.inputs.add(name='image', datatype='FP32', shape=[1, 64])
        request.raw_input_contents.append(floats(self.image))
        for ask in (lambda: self.oip.ModelInfer(request, timeout=harness.PATIENCE),
                    lambda: next(self.oip.ModelStreamInfer(iter([request]), timeout=harness.PATIENCE)).infer_response):
            self.assertEqual(floats(self.expected), self.brings('digits', ask).raw_output_contents[0])

    def test_kserve_v1(self):
        ask = lambda: curl(self.server.url('/v1/models/digits:predict'), *JSON, data=json.dumps({'instances': [self.image]}))
        self.assertEqual(200, self.brings('digits', ask).status)

    def test_grps(self):
        request = grps.GrpsMessage(model='digits')
        request.gtensors.tensors.add(name='image', dtype=grps.DT_FLOAT32, shape=[1, 64], flat_float32=self.image)
        reply = self.brings('digits', lambda: grps_grpc.GrpsServiceStub(self.channel).Predict(request))
        self.assertEqual(floats(self.expected), floats(reply.gtensors.tensors[0].flat_float32))

    def test_graphpipe(self):
        import numpy as np
        body = infer_request([np.array([self.image], np.float32)])
        answer = self.brings('digits', lambda: curl(self.server.url('/graphpipe/digits'), '-H', 'Content-Type:', data=body))
        self.assertEqual(200, answer.status, answer.body[:300])
        self.assertEqual(floats(self.expected), outputs_of(answer.body)[0].tobytes())

    def test_evergreen(self):
        session = GrpcSession(self.server)
        def ask():
            session.send(action('INFER', {'image': 'i'}, {'probabilities': 'p'}, 'digits'))
            session.send(leaf('i', floats(self.image), 'application/x-weir-tensor; dtype=FP32; shape=1,64'))
            return read_until(session, 'p')
        self.assertEqual(floats(self.expected), self.brings('digits', ask).flat('p'))
        session.close()

    def test_openai(self):
        for stream in (False, True):
            self.brings('chat', lambda: self.chat(stream))

    def test_ollama_and_messages(self):
        for path, body in (('/api/chat', {'stream': False}), ('/v1/messages', {'max_tokens': 4})):
            body = {'model': 'chat', 'messages': [{'role': 'user', 'content': 'Hi'}], **body}
            answer = self.brings('chat', lambda: curl(self.server.url(path), *JSON, data=json.dumps(body)))
            self.assertEqual(200, answer.status, answer.body)

    def test_generate(self):
        body = json.dumps({'text_input': 'Hi', 'max_tokens': 4})
        answer = self.brings('chat', lambda: curl(self.server.url('/v2/models/chat/generate'), *JSON, data=body))
        self.assertEqual(200, answer.status, answer.body)

    def test_salience_keeps_its_session_while_the_model_is_away(self):
        client = Client(salience_grpc.SalienceStub(self.channel))
        ids = list(tokenizer().encode(QUESTION))
        self.brings('chat', lambda: client.generate(ids, 3))
        self.rest()
        client.generate([], 3)
        self.assertEqual(client.tokens, client.dump())
        client.close()

    def test_first_requests_at_once_share_a_load(self):
        self.chat()
        before, answers = self.loads('digits'), []
        with harness.threads(20, lambda i: answers.append(self.rest())):
            pass
        self.assertEqual([self.expected] * 20, answers)
        self.assertEqual(before + 1, len(self.server.logged('model loaded', 'model=digits ', count=before + 1)))

    def test_the_repository_api_loads_and_unloads(self):
        """As clients of Triton do it in mode explicit, over REST and gRPC."""
        ask = lambda model, verb: curl(self.server.url(f'/v2/repository/models/{model}/{verb}'), '-X', 'POST')
        self.brings('digits', lambda: self.assertEqual(200, ask('digits', 'load').status))
        self.assertEqual(('READY', ''), self.index()['digits'])
        self.assertEqual(200, ask('digits', 'unload').status)
        self.assertEqual(503, curl(self.server.url('/v2/models/digits/infer'), *JSON, data='{"inputs": []}').status)
        self.assertFalse(self.oip.ModelReady(oip.ModelReadyRequest(name='digits')).ready)
        self.oip.RepositoryModelLoad(oip.RepositoryModelLoadRequest(model_name='digits'), timeout=harness.PATIENCE)
        self.assertEqual(self.expected, self.rest())
        missing = ask('digit', 'load')
        self.assertEqual(404, missing.status)
        self.assertIn("did you mean 'digits'?", missing.json()['error'])

    def test_requests_for_both_at_once_are_all_answered(self):
        with harness.threads(8, lambda i: [self.chat() if (i + j) % 2 else self.rest() for j in range(4)]):
            pass


# Asks the model that x stands for, or loads it where x is below 0; 0 is answered.
ASKING = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({'name': 'x', 'data_type': 'TYPE_FP32', 'dims': [1]})
        config.add_output({'name': 'y', 'data_type': 'TYPE_FP32', 'dims': [1]})
        config.set_max_batch_size(0)
        return config

    def execute(self, requests):
        for request in requests:
            x = int(pb_utils.get_input_tensor_by_name(request, 'x').as_numpy()[0])
            if x < 0:
                pb_utils.load_model('abc'[-x - 1])
            if x > 0:
                answer = pb_utils.InferenceRequest(model_name='abc'[x - 1], requested_output_names=['y'],
                                                   inputs=[pb_utils.Tensor('x', np.zeros(1, np.float32))]).exec()
                if answer.has_error():
                    raise pb_utils.TritonModelException(answer.error().message())
        return [pb_utils.InferenceResponse([pb_utils.Tensor('y', np.ones(1, np.float32))]) for _ in requests]
'''


class ModelsThatAsk(harness.unittest.TestCase):
    def started(self, memory, **models):
        """A server of models that take so much memory each, and what asks them."""
        root = repository('asking-' + memory)
        for model, its in models.items():
            (root / model / '1').mkdir(parents=True)
            (root / model / '1/model.py').write_text(ASKING)
            (root / model / 'model.yaml').write_text('memory: ' + its)
        server = harness.Server('--control', 'demand', '--models-memory', memory, repository=root,
                                env={'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})

        def infer(model, x):
            body = {'inputs': [{'name': 'x', 'shape': [1], 'datatype': 'FP32', 'data': [x]}]}
            return curl(server.url(f'/v2/models/{model}/infer'), *JSON, data=json.dumps(body))
        return server, infer

    def test_an_idle_one_leaves_for_what_another_asks_for(self):
        server, infer = self.started('2MiB', a='1MiB', b='1MiB', c='1MiB')
        self.assertEqual([200, 200], [infer('b', 0).status, infer('a', 0).status])
        self.assertEqual(200, infer('a', 3).status)
        self.assertEqual(0, server.stop())

    def test_none_leaves_for_what_it_asks_for(self):
        server, infer = self.started('1536KiB', a='1MiB', b='1MiB', c='512KiB')
        began = time.monotonic()
        for x in (2, -2):
            refused = infer('a', x)
            self.assertNotEqual(200, refused.status)
            self.assertIn('models.memory has no room for it beside the models that wait for it', refused.json()['error'])
        self.assertEqual(200, infer('a', 3).status, 'there is room for that')
        self.assertEqual(200, infer('b', 3).status)
        self.assertEqual(200, infer('b', -3).status)
        self.assertLess(time.monotonic() - began, 30)
        self.assertEqual(0, server.stop())


class Bounds(harness.unittest.TestCase):
    def test_a_model_that_cannot_be_loaded_says_so_in_each_protocol(self):
        root = repository('fails', 'simple', 'identity')
        server = harness.Server('--control', 'demand', repository=root)
        (root / 'simple/1/model.onnx').write_bytes(b'garbage')
        data = {'data': [1] * 16, 'datatype': 'INT32', 'shape': [1, 16]}
        body = json.dumps({'inputs': [{'name': f'INPUT{i}', **data} for i in range(2)]})
        for _ in range(2):  # the second is told at once what the first waited for
            answer = curl(server.url('/v2/models/simple/infer'), *JSON, data=body)
            self.assertEqual(503, answer.status)
            self.assertRegex(answer.json()['error'], "^model 'simple' cannot be loaded: the model file is damaged")
            self.assertTrue(int(answer.headers['retry-after']) > 0)
        rows = curl(server.url('/v2/repository/index'), '-X', 'POST').json()
        self.assertEqual(['UNAVAILABLE'], [row['state'] for row in rows if row['name'] == 'simple'])
        self.assertEqual(1, len(server.logged('model failed to load')))
        self.assertEqual(200, curl(server.url('/v2/models/identity/ready')).status)
        self.assertEqual(0, server.stop())

    def test_check_looks_at_each_model_once_and_refuses_what_is_too_large(self):
        root = repository('large', 'simple', 'digits')
        for memory, code in (('1MiB', 2), ('2MiB', 0)):
            done = harness.subprocess.run([str(harness.WEIR), 'check', str(root), '--control', 'demand', '--models-memory', memory],
                                          capture_output=True, text=True)
            self.assertEqual(code, done.returncode, done.stdout + done.stderr)
            if code:
                self.assertRegex(done.stdout, r'digits.*it takes 1833473 bytes of memory, and models.memory is 1048576')

    def test_memory_needs_demand(self):
        done = harness.subprocess.run([str(harness.WEIR), 'check', str(harness.MODELS), '--models-memory', '1GiB'],
                                      capture_output=True, text=True)
        self.assertEqual(2, done.returncode)
        self.assertIn('models.memory needs models.control: demand', done.stderr)


if __name__ == '__main__':
    harness.main()
