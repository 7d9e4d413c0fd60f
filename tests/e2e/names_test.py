"""Further names of models (`names:` of model.yaml), by every way in which clients name a model; and folders whose names are none."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import grpc

import harness
import tiny_model

oip, oip_grpc = harness.stubs()('inference')
NAME, PATH = 'Qwen/Qwen3-8B', 'Qwen%2FQwen3-8B'


class FurtherNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        root = harness.scratch()
        tiny_model.write(root, 'qwen')
        (root / 'qwen/model.yaml').write_text(f'names: [{NAME}, "qwen3:8b"]\n')
        for model, names in ('same', '[Org/same]'), ('zebra', '[Org/same, qwen, Org/zebra]'):
            (root / model).mkdir()
            (root / model / 'model.yaml').write_text(
                f'engine: identity\nnames: {names}\ninputs: [{{name: x, type: FP32, shape: [1]}}]\n')
        cls.root = root
        cls.server = harness.Server(repository=root)
        cls.addClassCleanup(cls.server.kill)

    def ask(self, path, body=None):
        data = [] if body is None else ['-H', 'Content-Type: application/json', '-d', json.dumps(body)]
        out = harness.curl(self.server.url(path), *data)
        self.assertEqual(200, out.status, out.body)
        return json.loads(out.body)

    def test_openai(self):
        self.assertIn(NAME, [model['id'] for model in self.ask('/v1/models')['data']])
        for path in (PATH, NAME):
            self.assertEqual('qwen', self.ask(f'/v1/models/{path}')['root'])
        body = {'model': NAME, 'messages': [{'role': 'user', 'content': 'hi'}], 'max_tokens': 3}
        self.assertEqual(NAME, self.ask('/v1/chat/completions', body)['model'])
        self.assertEqual(NAME, self.ask('/v1/embeddings', {'model': NAME, 'input': 'a'})['model'])

    def test_ollama(self):
        self.assertIn('qwen3:8b', [model['name'] for model in self.ask('/api/tags')['models']])
        body = {'model': 'qwen3:8b', 'prompt': 'hi', 'stream': False, 'options': {'num_predict': 3}}
        self.assertEqual('qwen3:8b', self.ask('/api/generate', body)['model'])

    def test_open_inference_protocol(self):
        tensor = {'name': 'x', 'datatype': 'FP32', 'shape': [1, 1], 'data': [2]}
        answer = self.ask('/v2/models/Org%2Fsame/infer', {'inputs': [tensor]})
        self.assertEqual(('Org/same', [2]), (answer['model_name'], answer['outputs'][0]['data']))
        self.assertTrue(self.ask('/v2/models/Org%2Fsame/ready')['ready'])
        with grpc.insecure_channel(self.server.address) as channel:
            stub = oip_grpc.GRPCInferenceServiceStub(channel)
            request = oip.ModelInferRequest(model_name='Org/same', inputs=[oip.ModelInferRequest.InferInputTensor(
                name='x', datatype='FP32', shape=[1, 1], contents=oip.InferTensorContents(fp32_contents=[2]))])
            self.assertEqual('Org/same', stub.ModelInfer(request).model_name)
            self.assertTrue(stub.ModelReady(oip.ModelReadyRequest(name='Org/same')).ready)

    def test_a_model_is_served_without_names_that_others_have(self):
        self.assertTrue(self.ask('/v2/models/Org%2Fzebra/ready')['ready'])
        for name, owner in ('Org/same', 'same'), ('qwen', 'qwen'):
            self.assertEqual(1, len(self.server.logged('served without', 'model=zebra', name, f'owner={owner}')))

    def test_a_model_that_is_not_loaded_is_unavailable_by_all_its_names(self):
        server = harness.Server('--control', 'explicit', repository=self.root)
        self.addCleanup(server.kill)
        for model in ('same', 'Org%2Fsame', PATH):
            self.assertEqual(503, harness.curl(server.url(f'/v2/models/{model}/infer'), '-d', '{"inputs":[]}').status, model)
        self.assertEqual(200, harness.curl(server.url('/v2/repository/models/zebra/load'), '-X', 'POST').status)
        self.assertEqual(200, harness.curl(server.url('/v2/models/Org%2Fsame')).status, 'no other model serves by it')

    def test_metrics_know_the_model_by_its_own_name(self):
        self.ask('/v1/completions', {'model': NAME, 'prompt': 'x', 'max_tokens': 1})
        metrics = harness.curl(self.server.url('/metrics')).body.decode()
        self.assertIn('model="qwen"', metrics)
        self.assertNotIn(NAME, metrics)


class NoNames(unittest.TestCase):
    def test_a_folder_is_one_row_of_the_table_whatever_its_name(self):
        root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        for name in ('evil\n  good  READY', '\x1b[2J', 'e\u0085vil'):
            (root / name).mkdir()
        check = subprocess.run([harness.WEIR, 'check', root], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=harness.PATIENCE)
        table = check.stdout.decode().partition('models:\n')[2]
        rows = [line for line in table.split('\n') if 'UNAVAILABLE' in line]
        self.assertEqual(3, len(rows), table)
        self.assertEqual([], [row for row in table.split('\n') if row.startswith('  good')])
        self.assertEqual([], [c for c in table if ord(c) < 32 and c != '\n' or 127 <= ord(c) < 160], table)


if __name__ == '__main__':
    harness.main()
