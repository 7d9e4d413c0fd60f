"""Routes of the configuration's own, over HTTP/1.1 and HTTP/2, on the models that every other protocol serves."""

import base64
import json
import struct
import subprocess

import harness
from harness import curl

CONFIG = """
models:
  repository: {models}
grps:
  routes:
  - path: /classify/{{lang}}
    model: digits
    inputs: {{image: body:/pixels}}
    outputs: {{/result/scores: probabilities}}
    status: 201
  - path: /say
    method: GET
    model: identity
    inputs: {{word: query:word, who: header:x-who}}
    streaming: query_param:stream
  - path: /echo
    model: identity
    inputs: {{all: body}}
    raw_output: all
    content_type: text/plain
    streaming: header_param:x-stream
    stream_content_type: text/event-stream
  - path: /upload
    model: digits
    inputs: {{image: form:image}}
    outputs: {{/scores: probabilities}}
    error_status: 422
    error_body: '{{"detail": "{{message}}", "code": {{code}}}}'
  - path: /inline
    model: digits
    inputs: {{image: base64:body:/image}}
    outputs: {{/scores: probabilities}}
    error_body: "sorry: {{message}}"
  - path: /sum
    model: simple
    inputs: {{INPUT0: body:/a, INPUT1: body:/b}}
    outputs: {{/c: OUTPUT0}}
"""


class Routes(harness.Case):
    @classmethod
    def setUpClass(cls):
        path = harness.scratch() / 'routes.yaml'
        path.write_text(CONFIG.format(models=harness.MODELS))
        cls.server = harness.Server(config=path)
        cls.path = path

    def url(self, path):
        return self.server.url(path)

    def test_a_route_gives_the_probabilities_that_the_model_gives(self):
        images, _ = harness.heldout()
        for image in images[:3]:
            body = {'inputs': [{'name': 'image', 'shape': [1, 64], 'datatype': 'FP32', 'data': image}]}
            expected = curl(self.url('/v2/models/digits/infer'), data=json.dumps(body)).json()['outputs'][0]['data']
            for version in ('--http1.1', '--http2-prior-knowledge'):
                answer = curl(self.url('/classify/en'), version, data=json.dumps({'pixels': image}))
                self.assertEqual(201, answer.status)
                scores = answer.json()['result']['scores'][0]
                self.assertEqual(struct.pack('10f', *expected), struct.pack('10f', *scores))

    def test_words_of_the_query_and_of_headers_become_inputs(self):
        answer = curl(self.url('/say?word=hello%20there'), '-H', 'X-Who: me')
        self.assertEqual({'word': 'hello there', 'who': 'me'}, answer.json())

    def test_what_is_missing_is_named(self):
        answer = curl(self.url('/say'), '-H', 'X-Who: me')
        self.assertEqual(400, answer.status)
        self.assertIn('the request has no query:word', answer.body.decode())
        self.assertEqual(405, curl(self.url('/say'), data='{}').status)

    def test_streaming_is_switched_on_by_the_request(self):
        whole = curl(self.url('/say?word=a'), '-H', 'x-who: b')
        self.assertIn('content-length', whole.headers)
        streamed = curl(self.url('/say?word=a&stream=true'), '-H', 'x-who: b', '-H', 'accept: application/x-ndjson')
        self.assertEqual('chunked', streamed.headers['transfer-encoding'])
        self.assertEqual('application/x-ndjson', streamed.headers['content-type'])
        self.assertEqual([whole.json()], [json.loads(line) for line in streamed.body.splitlines()])
        raw = curl(self.url('/echo'), '-H', 'x-stream: 1', data='as it is')
        self.assertEqual((b'as it is', 'text/event-stream'), (raw.body, raw.headers['content-type']))
        self.assertEqual('text/plain', curl(self.url('/echo'), data='x').headers['content-type'])

    def scores(self, image):
        body = {'inputs': [{'name': 'image', 'shape': [1, 64], 'datatype': 'FP32', 'data': image}]}
        return curl(self.server.url('/v2/models/digits/infer'), data=json.dumps(body)).json()['outputs'][0]['data']

    def test_forms_files_and_base64_give_the_same_as_json(self):
        image = harness.heldout()[0][0]
        expected = self.scores(image)
        octets = struct.pack('64f', *image)
        file = harness.scratch() / 'image.bin'
        file.write_bytes(octets)
        inline = json.dumps({'image': 'data:application/octet-stream;base64,' + base64.b64encode(octets).decode()})
        for version in ('--http1.1', '--http2-prior-knowledge'):
            for path, args in (('/upload', ('--data-urlencode', 'image=' + json.dumps(image))),
                               ('/upload', ('-F', 'image=' + json.dumps(image))),
                               ('/upload', ('-F', f'image=@{file};type=application/octet-stream', '-F', 'more=1')),
                               ('/inline', ('-d', inline))):
                answer = curl(self.url(path), version, *args)
                self.assertEqual(200, answer.status, answer.body)
                self.assertEqual(expected, answer.json()['scores'][0], args)

    def test_numbers_may_be_in_strings(self):
        answer = curl(self.url('/sum'), data=json.dumps({'a': [str(i) for i in range(16)], 'b': ['1', 2.0, '3.0', '-4'] * 4}))
        self.assertEqual([1, 3, 5, -1, 5, 7, 9, 3, 9, 11, 13, 7, 13, 15, 17, 11], answer.json()['c'][0])

    def test_errors_have_the_body_of_the_route(self):
        answer = curl(self.url('/upload'), '-d', 'image=cat')
        self.assertEqual((422, 'application/json', 400), (answer.status, answer.headers['content-type'], answer.json()['code']))
        self.assertIn('image', answer.json()['detail'])
        answer = curl(self.url('/inline'), data='{"image": "*"}')
        self.assertEqual((400, b'sorry: base64:body:/image is not base64'), (answer.status, answer.body))
        self.assertTrue(answer.headers['content-type'].startswith('text/plain'))

    def test_check_shows_them(self):
        done = subprocess.run([harness.WEIR, 'check', self.path], stdout=subprocess.PIPE, text=True)
        self.assertEqual(0, done.returncode)
        self.assertIn('    - path: "/classify/{lang}"\n', done.stdout)
        self.assertIn('        who: "header:x-who"\n', done.stdout)
        self.assertIn('      error_status: 422\n', done.stdout)
        self.assertIn('      error_body: "sorry: {message}"\n', done.stdout)

    def test_a_path_of_another_protocol_is_refused(self):
        path = harness.scratch() / 'taken.yaml'
        for taken in ('/rerank', '/api/chat', '/inference.GRPCInferenceService/ModelInfer'):
            path.write_text(f'grps:\n  routes:\n  - path: {taken}\n    model: identity\n    inputs: {{all: body}}\n')
            done = subprocess.run([harness.WEIR, 'routes', path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(2, done.returncode)
            self.assertIn(f'grps.routes: POST {taken} is served by ', done.stderr)


class Concurrency(harness.Case):
    """max_concurrency: excess requests wait, and all are answered."""

    @classmethod
    def setUpClass(cls):
        model = harness.scratch() / 'narrow/slow'
        (model / '1').mkdir(parents=True)
        (model / 'model.yaml').write_text('engine: identity\nmax_concurrency: 1\nparameters: {delay_us: 3000}\n')
        cls.server = harness.Server('--models-max-concurrency', 2, repository=model.parent)

    def test_excess_requests_wait_and_are_answered(self):
        body = json.dumps({'inputs': [{'name': 'x', 'shape': [1], 'datatype': 'INT32', 'data': [7]}]})
        data = harness.scratch() / 'slow.json'
        data.write_text(body)
        url = self.server.url('/v2/models/slow/infer')
        many = subprocess.run(['h2load', '-n', '64', '-c', '8', '-m', '8', '-d', data, url], stdout=subprocess.PIPE)
        self.assertIn(b'64 succeeded, 0 failed', many.stdout)
        stats = curl(self.server.url('/v2/models/slow/stats')).json()['model_stats'][0]
        self.assertEqual(64, stats['inference_count'])


if __name__ == '__main__':
    harness.main()
