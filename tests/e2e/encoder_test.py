"""An encoder through every protocol: the reference's embeddings, the same bytes whichever way and in whatever company."""

import base64
import concurrent.futures
import json
import struct
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

import numpy as np

import harness
from graphpipe_test import infer_request, outputs_of

sys.path.insert(0, str(harness.ROOT / 'tests/reference'))
try:
    import safetensors  # needs torch
except ImportError:
    safetensors = None

oip, oip_grpc = harness.stubs()('inference')
grps, grps_rpc = harness.stubs()('grps')
TEXTS = ['The quick brown fox jumps over the lazy dog.', 'x', 'Über größere Äpfel', '素早い茶色の狐', "it's said the dogs don't mind; they've seen it",
         'permissions and limitations under the License ' * 12]
HIDDEN = 64


def repository():
    """A folder as sentence-transformers saves it, of random weights, with WordPieces."""
    root = harness.scratch() / 'encoders'
    folder = root / 'enc' / '1'
    if not folder.exists():
        folder.mkdir(parents=True)
        subprocess.run(['/usr/bin/python3', str(harness.ROOT / 'tests/reference/random_encoder.py'), '--tokenizer', '--out', str(folder)],
                       check=True, stdout=subprocess.DEVNULL)
        (root / 'enc' / 'model.yaml').write_text('max_batch: 64\nbatching: {dynamic: true, max_delay: 5ms}\n')
    return root


class Encoder(harness.GrpcCase):
    @classmethod
    def setUpClass(cls):
        if safetensors is None:
            raise unittest.SkipTest('no python3-torch here')
        cls.repository = repository()
        super().setUpClass()
        expected = safetensors.load(str(cls.repository / 'enc/1/expected.safetensors'))
        cls.ids, cls.mask, cls.types = (expected[name].numpy() for name in ('ids', 'mask', 'types'))
        cls.expected = expected['embeddings'].numpy()

    def ask(self, path, **body):
        request = urllib.request.Request(self.server.url(path), json.dumps(body).encode(), {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request, timeout=harness.PATIENCE * 3) as answer:
            return json.load(answer)

    def refusal(self, path, **body):
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.ask(path, **body)
        with caught.exception as error:
            return error.code, error.read().decode()

    def rest(self, **arrays):
        inputs = [{'name': name, 'datatype': 'INT64', 'shape': list(a.shape), 'data': a.ravel().tolist()} for name, a in arrays.items()]
        output = self.ask('/v2/models/enc/infer', inputs=inputs)['outputs'][0]
        self.assertEqual('sentence_embedding', output['name'])
        return np.array(output['data'], np.float32).reshape(output['shape'])

    def openai(self, inputs, **more):
        answer = self.ask('/v1/embeddings', model='enc', input=inputs, encoding_format='base64', **more)
        rows = sorted(answer['data'], key=lambda row: row['index'])
        return np.stack([np.frombuffer(base64.b64decode(row['embedding']), np.float32) for row in rows]), answer['usage']

    def whole(self):
        return {'input_ids': self.ids, 'attention_mask': self.mask, 'token_type_ids': self.types}

    # ---- as a model of tensors

    def test_the_model_says_what_it_takes(self):
        with urllib.request.urlopen(self.server.url('/v2/models/enc'), timeout=harness.PATIENCE) as page:
            said = json.load(page)
        self.assertEqual(said['inputs'][0], {'name': 'input_ids', 'datatype': 'INT64', 'shape': [-1, -1]})
        self.assertEqual(said['outputs'], [{'name': 'sentence_embedding', 'datatype': 'FP32', 'shape': [-1, HIDDEN]}])

    def test_every_protocol_gives_the_embeddings_of_the_reference(self):
        rest = self.rest(**self.whole())
        self.assertLess(np.abs(rest - self.expected).max(), 1e-4 * np.abs(self.expected).max())
        for dtype, name in ((np.int64, 'INT64'), (np.int32, 'INT32')):
            request = oip.ModelInferRequest(model_name='enc')
            for each, array in self.whole().items():
                request.inputs.add(name=each, datatype=name, shape=array.shape)
                request.raw_input_contents.append(array.astype(dtype).tobytes())
            reply = oip_grpc.GRPCInferenceServiceStub(self.channel).ModelInfer(request, timeout=harness.PATIENCE)
            self.assertEqual(reply.raw_output_contents[0], rest.tobytes(), name)
            body = infer_request([a.astype(dtype) for a in self.whole().values()], list(self.whole()), ['sentence_embedding'])
            answer = harness.curl(self.server.url('/graphpipe/enc'), '-H', 'Content-Type:', '-H', 'Expect:', data=body)
            self.assertEqual(outputs_of(answer.body)[0].tobytes(), rest.tobytes(), name)
        request = grps.GrpsMessage(model='enc')
        for each, array in self.whole().items():
            request.gtensors.tensors.add(name=each, dtype=grps.DT_INT64, shape=array.shape, flat_int64=array.ravel())
        reply = grps_rpc.GrpsServiceStub(self.channel).Predict(request, timeout=harness.PATIENCE)
        values = reply.gtensors.tensors[0].flat_float32
        self.assertEqual(struct.pack(f'<{len(values)}f', *values), rest.tobytes())

    def test_rows_without_their_padding_are_the_same_to_the_bit(self):
        padded = self.rest(**self.whole())
        for row, count in enumerate(self.mask.sum(1)):
            alone = self.rest(input_ids=self.ids[row:row + 1, :count], token_type_ids=self.types[row:row + 1, :count])
            self.assertEqual(alone[0].tobytes(), padded[row].tobytes(), row)

    def test_a_bad_row_is_named(self):
        code, text = self.refusal('/v2/models/enc/infer', inputs=[
            {'name': 'input_ids', 'datatype': 'INT64', 'shape': [2, 2], 'data': [5, 6, 7, 1 << 40]}])
        self.assertEqual(400, code)
        self.assertIn('row 1: token id 1099511627776 is not in the vocabulary', text)

    # ---- as OpenAI's clients ask

    def test_texts_are_their_token_ids(self):
        by_text, usage = self.openai(TEXTS)
        tokens = [self.ask('/tokenize', model='enc', prompt=text)['tokens'] for text in TEXTS]
        self.assertEqual(usage, {'prompt_tokens': sum(map(len, tokens)), 'total_tokens': sum(map(len, tokens))})
        by_ids, _ = self.openai(tokens)
        self.assertEqual(by_text.tobytes(), by_ids.tobytes())
        for ids, vector in zip(tokens, by_text):
            self.assertEqual(self.rest(input_ids=np.array([ids]))[0].tobytes(), vector.tobytes())
        one, _ = self.openai(tokens[0])
        self.assertEqual(one[0].tobytes(), by_text[0].tobytes())
        self.assertEqual(self.ask('/detokenize', model='enc', tokens=tokens[1])['prompt'], '[CLS] x [SEP]')
        floats = self.ask('/v1/embeddings', model='enc', input=TEXTS[0])['data'][0]['embedding']
        self.assertEqual(np.array(floats, np.float32).tobytes(), by_text[0].tobytes())

    # ---- in a session of Evergreen

    def test_evergreens_embed_gives_the_same_bytes(self):
        expected, _ = self.openai(TEXTS)
        messages = []
        for i, text in enumerate(TEXTS):
            messages.append({'actions': [{'name': name, 'targetSpec': {'id': 'enc'}, 'inputs': [{'name': 'text', 'id': f'text{i}'}],
                                          'outputs': [{'name': output, 'id': f'{output}{i}'}]}
                                         for name, output in (('EMBED', 'embedding'), ('TOKENIZE', 'tokens'))]})
            chunk = {'metadata': {'mimetype': 'text/plain'}, 'data': base64.b64encode(text.encode()).decode()}
            messages.append({'nodeFragments': [{'id': f'text{i}', 'chunkFragment': chunk}]})
        lines = '\n'.join(map(json.dumps, messages)) + '\n'
        answer = harness.curl(self.server.url('/evergreen/v2/session'), '-H', 'Content-Type: application/x-ndjson', data=lines)
        self.assertEqual(200, answer.status)
        nodes = {}
        for line in answer.body.decode().splitlines():
            for fragment in json.loads(line).get('nodeFragments', ()):
                chunk = fragment.get('chunkFragment', {})
                nodes[fragment['id']] = nodes.get(fragment['id'], b'') + base64.b64decode(chunk.get('data', ''))
        for i, text in enumerate(TEXTS):
            self.assertEqual(expected[i].tobytes(), nodes[f'embedding{i}'], text)
            ids = self.ask('/tokenize', model='enc', prompt=text)['tokens']
            self.assertEqual(struct.pack(f'<{len(ids)}I', *ids), nodes[f'tokens{i}'], text)

    def test_dimensions_keep_the_first_at_length_one(self):
        whole, _ = self.openai(TEXTS)
        short, _ = self.openai(TEXTS, dimensions=16)
        self.assertEqual(short.shape, (len(TEXTS), 16))
        expected = whole[:, :16] / np.linalg.norm(whole[:, :16], axis=1, keepdims=True)
        self.assertLess(np.abs(short - expected).max(), 1e-6)
        code, text = self.refusal('/v1/embeddings', model='enc', input='x', dimensions=HIDDEN + 1)
        self.assertEqual((400, 'dimensions'), (code, json.loads(text)['error']['param']))

    def test_many_at_once_are_what_each_is_alone_and_share_batches(self):
        texts = [f'{TEXTS[i % len(TEXTS)]} {i}' for i in range(200)]
        alone = [self.openai([text])[0][0].tobytes() for text in texts[:12]]
        before = self.statistics()
        together, _ = self.openai(texts)
        self.assertEqual([row.tobytes() for row in together[:12]], alone)
        after = self.statistics()
        self.assertEqual(200, after[0] - before[0])
        self.assertLessEqual(after[1] - before[1], 50)
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            apart = list(pool.map(lambda text: self.openai([text])[0][0].tobytes(), texts[:48]))
        self.assertEqual(apart, [row.tobytes() for row in together[:48]])

    def statistics(self):
        with urllib.request.urlopen(self.server.url('/v2/models/enc/stats'), timeout=harness.PATIENCE) as page:
            said = json.load(page)['model_stats'][0]
        return int(said['inference_count']), int(said['execution_count'])

    def test_what_it_cannot_do_is_said(self):
        code, text = self.refusal('/v1/chat/completions', model='enc', messages=[{'role': 'user', 'content': 'hi'}])
        self.assertEqual(400, code)
        self.assertIn('it gives embeddings', text)
        code, text = self.refusal('/v1/embeddings', model='enc', input='a ' * 400)
        self.assertEqual((400, 'context_length_exceeded'), (code, json.loads(text)['error']['code']))
        cut, usage = self.openai(['a ' * 400], truncate_prompt_tokens=10)
        self.assertEqual(usage['prompt_tokens'], 10)
        self.assertEqual(cut.tobytes(), self.openai(['a ' * 8])[0].tobytes(), 'the marks around it are kept')

    def test_it_is_listed(self):
        with urllib.request.urlopen(self.server.url('/v1/models'), timeout=harness.PATIENCE) as page:
            row, = json.load(page)['data']
        self.assertEqual((row['id'], row['embedding_size'], row['max_model_len']), ('enc', HIDDEN, 300))


if __name__ == '__main__':
    harness.main()
