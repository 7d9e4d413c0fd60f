"""Encoders and rerankers of other servers (kind openai, api embeddings and rerank) in every protocol: another weir's with real
models, and npm's @copilotkit/aimock, which knows nothing of weir."""

import base64
import json
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import unittest

import numpy as np

import encoder_test
import forward_chat_test
import harness
import rerank_test
from forward_rows_test import JSON, Case, floats, gateway, post
from forward_test import until
from graphpipe_test import infer_request, outputs_of
from harness import curl

oip, oip_grpc = harness.stubs()('inference')
grps, grps_rpc = harness.stubs()('grps')
NODE = {**os.environ, 'NODE_PATH': str(harness.ROOT / '.cache/npm/node_modules')}
TEXTS = encoder_test.TEXTS


@unittest.skipUnless(forward_chat_test.AIMOCK.exists() and forward_chat_test.node_is_new(), 'aimock needs node 20.15')
class Aimock(Case):
    """npm's @copilotkit/aimock, which knows nothing of weir, nor of base64."""

    def test_its_embeddings(self):
        fixtures = harness.scratch() / 'embeddings.json'
        fixtures.write_text(json.dumps({'fixtures': [{'match': {'userMessage': 'hello'}, 'response': {'content': 'hi'}}]}))
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            port = free.getsockname()[1]
        mock = subprocess.Popen(['node', str(forward_chat_test.AIMOCK), '--port', str(port), '--fixtures', str(fixtures), '--log-level', 'silent'],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(mock.wait)
        self.addCleanup(mock.kill)
        until(lambda: forward_chat_test.listens(port), 'aimock')
        origin = f'http://127.0.0.1:{port}'
        server = gateway('embeddings', origin, model='gpt-4o')
        self.addCleanup(server.stop)
        for texts in (['a text'], ['a text', 'another', 'Grüße – 你好 🙂']):
            there = curl(f'{origin}/v1/embeddings', *JSON, data=json.dumps({'model': 'gpt-4o', 'input': texts})).json()
            here = post(server, '/v1/embeddings', model='m', input=texts)
            self.close_to([row['embedding'] for row in there['data']], floats(here))
            self.assertEqual(there['usage']['prompt_tokens'], here.json()['usage']['prompt_tokens'])


@unittest.skipIf(encoder_test.safetensors is None, 'no python3-torch here')
class RealEncoder(Case, harness.GrpcCase):
    """A gateway gives what its origin gives, in every protocol."""

    @classmethod
    def setUpClass(cls):
        cls.origin = harness.Server(repository=encoder_test.repository())
        cls.addClassCleanup(cls.origin.stop)
        cls.repository = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        tokenizer = encoder_test.repository() / 'enc/1'
        for name, more in (('enc', ''), ('ids', f', tokenizer: {tokenizer}')):
            (cls.repository / name).mkdir()
            (cls.repository / name / 'model.yaml').write_text(
                f'engine: forward\nkind: openai\norigins: [{cls.origin.url()}]\nparameters: {{api: embeddings, model: enc{more}}}\n')
        super().setUpClass()
        answer = post(cls.origin, '/v1/embeddings', model='enc', input=TEXTS, encoding_format='base64')
        cls.expected = np.stack([np.frombuffer(base64.b64decode(row['embedding']), np.float32) for row in answer.json()['data']])
        cls.usage = answer.json()['usage']

    def same(self, rows, what=None):
        self.assertEqual(self.expected.tobytes(), np.array(rows, np.float32).tobytes(), what)

    def test_openais_clients(self):
        for model in ('enc', 'ids'):
            answer = post(self.server, '/v1/embeddings', model=model, input=TEXTS)
            self.same(floats(answer), model)
            self.assertEqual(self.usage, answer.json()['usage'], model)
            packed = post(self.server, '/v1/embeddings', model=model, input=TEXTS, encoding_format='base64').json()['data']
            self.same([np.frombuffer(base64.b64decode(row['embedding']), np.float32) for row in packed], model)
            there = post(self.origin, '/v1/embeddings', model='enc', input=TEXTS, dimensions=16)
            self.close_to(floats(there), floats(post(self.server, '/v1/embeddings', model=model, input=TEXTS, dimensions=16)), model)
        ids = [post(self.origin, '/tokenize', model='enc', prompt=text).json()['tokens'] for text in TEXTS]
        self.same(floats(post(self.server, '/v1/embeddings', model='enc', input=ids)))
        row = next(row for row in curl(self.server.url('/v1/models')).json()['data'] if row['id'] == 'enc')
        self.assertEqual(64, row['embedding_size'])

    def test_openais_client_from_npm(self):
        script = '''const OpenAI = require('openai');
            const client = new OpenAI({ baseURL: process.argv[1] + '/v1', apiKey: 'none', maxRetries: 0 });
            const input = JSON.parse(process.argv[2]);
            (async () => {
              const [packed, floats] = await Promise.all([{}, { encoding_format: 'float' }].map((more) =>
                client.embeddings.create({ model: 'enc', input, ...more })));
              console.log(JSON.stringify([packed, floats]));
            })();'''
        done = subprocess.run(['node', '-e', script, self.server.url(), json.dumps(TEXTS)], stdout=subprocess.PIPE, timeout=60, env=NODE, check=True)
        for answer in json.loads(done.stdout):
            self.close_to(self.expected, [row['embedding'] for row in answer['data']])
            self.assertEqual(self.usage, answer['usage'])

    def test_ollamas_clients(self):
        there = post(self.origin, '/api/embed', model='enc', input=TEXTS).json()
        here = post(self.server, '/api/embed', model='enc', input=TEXTS).json()
        self.close_to(there['embeddings'], here['embeddings'])
        self.assertEqual(there['prompt_eval_count'], here['prompt_eval_count'])
        self.close_to(post(self.origin, '/api/embeddings', model='enc', prompt=TEXTS[0]).json()['embedding'],
                      post(self.server, '/api/embeddings', model='enc', prompt=TEXTS[0]).json()['embedding'])

    def test_texts_as_tensors(self):
        rest = post(self.server, '/v2/models/enc/infer',
                    inputs=[{'name': 'text', 'datatype': 'BYTES', 'shape': [len(TEXTS), 1], 'data': TEXTS}]).json()
        self.same(np.array(rest['outputs'][0]['data'], np.float32))
        self.assertEqual(self.usage['prompt_tokens'], rest['parameters']['prompt_tokens'])
        request = oip.ModelInferRequest(model_name='enc')
        request.inputs.add(name='text', datatype='BYTES', shape=[len(TEXTS), 1])
        request.raw_input_contents.append(b''.join(struct.pack('<I', len(t.encode())) + t.encode() for t in TEXTS))
        reply = oip_grpc.GRPCInferenceServiceStub(self.channel).ModelInfer(request, timeout=harness.PATIENCE)
        self.assertEqual(self.expected.tobytes(), reply.raw_output_contents[0])
        body = infer_request([tuple(t.encode() for t in TEXTS)], ['text'], ['sentence_embedding'])
        answer = curl(self.server.url('/graphpipe/enc'), '-H', 'Content-Type:', '-H', 'Expect:', data=body)
        self.same(outputs_of(answer.body)[0])
        message = grps.GrpsMessage(model='enc')
        message.gtensors.tensors.add(name='text', dtype=grps.DT_STRING, shape=[len(TEXTS), 1], flat_string=TEXTS)
        reply = grps_rpc.GrpsServiceStub(self.channel).Predict(message, timeout=harness.PATIENCE)
        self.same(reply.gtensors.tensors[0].flat_float32)

    def test_evergreens_embed(self):
        lines = [{'actions': [{'name': 'EMBED', 'targetSpec': {'id': 'enc'}, 'inputs': [{'name': 'text', 'id': 'text'}],
                               'outputs': [{'name': 'embedding', 'id': 'embedding'}]}]},
                 {'nodeFragments': [{'id': 'text', 'chunkFragment': {'metadata': {'mimetype': 'text/plain'}, 'data': base64.b64encode(TEXTS[2].encode()).decode()}}]}]
        answer = curl(self.server.url('/evergreen/v2/session'), '-H', 'Content-Type: application/x-ndjson', data='\n'.join(map(json.dumps, lines)) + '\n')
        got = b''.join(base64.b64decode(fragment['chunkFragment'].get('data', '')) for line in answer.body.decode().splitlines()
                       for fragment in json.loads(line).get('nodeFragments', ()) if fragment['id'] == 'embedding')
        self.assertEqual(self.expected[2].tobytes(), got, answer.body[:500])

    def test_ids_as_tensors(self):
        ids = post(self.origin, '/tokenize', model='enc', prompt=TEXTS[0]).json()['tokens']
        for model in ('enc', 'ids'):
            answer = post(self.server, f'/v2/models/{model}/infer',
                          inputs=[{'name': 'input_ids', 'datatype': 'INT64', 'shape': [1, len(ids)], 'data': ids}]).json()
            self.assertEqual(self.expected[0].tobytes(), np.array(answer['outputs'][0]['data'], np.float32).tobytes())

    def test_a_text_that_is_too_long_is_refused_in_the_words_of_the_origin(self):
        refused = post(self.server, '/v1/embeddings', model='enc', input=['x', 'a ' * 400])
        self.assertEqual(400, refused.status)
        self.assertIn(f'origin 127.0.0.1:{self.origin.port}', refused.json()['error']['message'])
        self.assertIn('do not fit', refused.json()['error']['message'])


@unittest.skipIf(rerank_test.torch is None, 'no python3-torch here')
class RealReranker(Case):
    @classmethod
    def setUpClass(cls):
        cls.origin = harness.Server(repository=rerank_test.repository())
        cls.addClassCleanup(cls.origin.stop)
        cls.server = gateway('rerank', cls.origin.url(), model='rank', name='rank')
        cls.addClassCleanup(cls.server.stop)

    def test_it_ranks_as_its_origin_does(self):
        for path, body in (('/v1/rerank', {'query': rerank_test.QUERY, 'documents': rerank_test.DOCUMENTS, 'return_documents': True}),
                           ('/v2/rerank', {'query': rerank_test.QUERY, 'documents': rerank_test.DOCUMENTS, 'top_n': 2}),
                           ('/score', {'text_1': rerank_test.QUERY, 'text_2': rerank_test.DOCUMENTS})):
            there, here = (post(server, path, model='rank', **body).json() for server in (self.origin, self.server))
            for answer in (there, here):
                answer.pop('id'), answer.pop('created', None)
            self.assertEqual(there, here, path)

    def test_as_tensors(self):
        there = post(self.origin, '/score', model='rank', text_1=rerank_test.QUERY, text_2=rerank_test.DOCUMENTS).json()['data']
        n = len(rerank_test.DOCUMENTS)
        rest = post(self.server, '/v2/models/rank/infer', inputs=[
            {'name': 'query', 'datatype': 'BYTES', 'shape': [n, 1], 'data': [rerank_test.QUERY] * n},
            {'name': 'text', 'datatype': 'BYTES', 'shape': [n, 1], 'data': rerank_test.DOCUMENTS}]).json()
        self.close_to([row['score'] for row in there], rest['outputs'][0]['data'])

    def test_coheres_client(self):
        done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e/cohere_client.js'), self.server.url(), 'rank'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, env=NODE)
        self.assertEqual(0, done.returncode, done.stdout.decode())
        self.assertRegex(done.stdout.decode(), r'(?m)^7 passed, 0 failed$')


if __name__ == '__main__':
    harness.main()
