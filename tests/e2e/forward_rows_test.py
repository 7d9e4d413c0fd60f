"""Embeddings and rankings of servers with OpenAI's protocol (kind openai, api embeddings and rerank): origins by hand, of every
form there is, that misbehave."""

import json
import pathlib
import tempfile
import time
import unittest

import numpy as np

import harness
from completion_origin import chunk, head, whole
from forward_test import until
from harness import curl
from rows_origin import RowsOrigin, WIDTH, coded, embeddings, ranking, score, vector

JSON = ('-H', 'Content-Type: application/json')


def gateway(api, *origins, model='m', more='', name='m'):
    root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    (root / name).mkdir()
    (root / name / 'model.yaml').write_text(f'engine: forward\nkind: openai\norigins: [{", ".join(origins)}]\n'
                                            f'parameters: {{api: {api}, model: {model}, check_interval: 50ms{more}}}\n')
    server = harness.Server(repository=root)
    until(lambda: curl(server.url(f'/v2/models/{name}/ready')).status == 200, 'that the model is there')
    return server


def post(server, path, **body):
    return curl(server.url(path), *JSON, data=json.dumps(body))


def floats(answer):
    return [row['embedding'] for row in sorted(answer.json()['data'], key=lambda row: row['index'])]


class Case(unittest.TestCase):
    def front(self, api, *origins, **more):
        """A gateway in front of origins by hand."""
        for origin in origins:
            self.addCleanup(origin.close)
        server = gateway(api, *(origin.url for origin in origins), **more)
        self.addCleanup(lambda: self.assertEqual(0, server.stop(), server.output()[-3000:]))
        for origin in origins:
            origin.seen.clear()
        return server

    def close_to(self, expected, got, what=None):
        self.assertEqual(np.shape(expected), np.shape(got), what)
        self.assertLess(np.abs(np.array(expected) - np.array(got)).max(), 1e-6, what)


class Embeddings(Case):
    """What an origin may do, and what comes of it."""

    def test_texts_of_a_request_go_in_few_requests_and_come_back_in_order(self):
        origin = RowsOrigin(lambda _, __, asked: embeddings(asked, order=reversed(range(len(asked['input']))), tokens=len(asked['input']) * 5))
        server = self.front('embeddings', origin)
        texts = [f'text {"x" * i}' for i in range(70)]
        answer = post(server, '/v1/embeddings', model='m', input=texts)
        self.close_to([vector(text) for text in texts], floats(answer))
        self.assertEqual({'prompt_tokens': 350, 'total_tokens': 350}, answer.json()['usage'])
        sizes = [len(asked['input']) for _, asked in origin.seen]
        self.assertEqual(70, sum(sizes))
        self.assertLessEqual(len(sizes), 5)
        self.assertLessEqual(max(sizes), 32)

    def test_long_texts_go_in_more_requests(self):
        origin = RowsOrigin(lambda _, __, asked: embeddings(asked))
        server = self.front('embeddings', origin)
        texts = [chr(97 + i) * 120_000 for i in range(20)]
        self.close_to([vector(text) for text in texts], floats(post(server, '/v1/embeddings', model='m', input=texts)))
        self.assertLessEqual(max(sum(map(len, asked['input'])) for _, asked in origin.seen), 1 << 20)
        self.assertEqual(400, post(server, '/v1/embeddings', model='m', input='x' * 200_000).status)
        cut = post(server, '/api/embed', model='m', input='ü' * 100_001)
        self.assertEqual(200, cut.status, cut.body[:300])

    def test_max_texts_is_the_size_of_a_request(self):
        origin = RowsOrigin(lambda _, __, asked: embeddings(asked))
        server = self.front('embeddings', origin, more=', max_texts: 3')
        post(server, '/v1/embeddings', model='m', input=[f'text {i}' for i in range(9)])
        self.assertEqual([3, 3, 3], [len(asked['input']) for _, asked in origin.seen])

    def test_token_ids_stay_what_they_are(self):
        origin = RowsOrigin(lambda _, __, asked: embeddings(asked))
        server = self.front('embeddings', origin)
        answer = post(server, '/v1/embeddings', model='m', input=[[1, 200000, 3], [7]])
        self.close_to([vector([1, 200000, 3]), vector([7])], floats(answer))
        self.assertEqual([[[1, 200000, 3], [7]]], [asked['input'] for _, asked in origin.seen])

    def test_an_origin_without_base64_is_asked_for_floats(self):
        def behave(_, __, asked):
            return whole({'error': 'unknown field encoding_format'}, '422 Unprocessable Entity') if 'encoding_format' in asked else embeddings(asked)
        origin = RowsOrigin(behave)
        server = self.front('embeddings', origin)
        self.close_to([vector('Grüße')], floats(post(server, '/v1/embeddings', model='m', input='Grüße')))
        self.assertEqual([{'model': 'm', 'input': ['Grüße']}], [asked for _, asked in origin.seen])

    def test_an_origin_may_load_its_model_when_it_is_first_asked(self):
        def behave(_, __, asked):
            asks.append(asked)
            if len(asks) == 1:
                time.sleep(2.5)
            return embeddings(asked)
        asks = []
        self.front('embeddings', RowsOrigin(behave))
        self.assertEqual(1, len(asks), 'the first request was waited for')

    def test_dimensions_keep_the_first_at_length_one(self):
        server = self.front('embeddings', RowsOrigin(lambda _, __, asked: embeddings(asked)))
        cut = np.array(vector('abc')[:2])
        self.close_to([cut / np.linalg.norm(cut)], floats(post(server, '/v1/embeddings', model='m', input='abc', dimensions=2)))
        self.assertEqual(400, post(server, '/v1/embeddings', model='m', input='abc', dimensions=WIDTH + 1).status)
        self.assertEqual(400, post(server, '/v1/embeddings', model='m', input='abc', truncate_prompt_tokens=3).status)

    def test_an_answer_that_is_wrong_costs_one_request(self):
        def row(index, values):
            return {'index': index, 'embedding': values}
        good = vector('a')
        nan = coded([1.0, float('nan'), 0.0, 0.0])
        wrong = {
            'a row is missing': ({'data': [row(0, good)]}, '1 embeddings of 2'),
            'a row is there twice': ({'data': [row(1, good), row(1, good)]}, 'row 1 is there twice'),
            'an index is too large': ({'data': [row(0, good), row(7, good)]}, '7 of 2 rows'),
            'too many rows': ({'data': [row(0, good), row(1, good), row(2, good)]}, '2 of 2 rows'),
            'too short': ({'data': [row(0, good), row(1, good[:3])]}, 'has 3 numbers, expected 4'),
            'too long': ({'data': [row(0, good), row(1, good + [1.0])]}, 'too many numbers'),
            'no number': (b'{"data": [{"index": 0, "embedding": [NaN, 1, 1, 1]}]}', 'is no list of embeddings'),
            'too large': (b'{"data": [{"index": 0, "embedding": [1e999, 1, 1, 1]}]}', 'too large'),
            'not finite': ({'data': [row(0, nan), row(1, nan)]}, 'not finite'),
            'no base64': ({'data': [row(0, '!!!'), row(1, nan)]}, 'no base64'),
            'a page': (b'<html><body>Welcome</body></html>', 'is no list of embeddings'),
            'nothing': (b'', 'is no list of embeddings'),
            'another thing': ({'object': 'list'}, '0 embeddings of 2'),
            'deep': (b'{"data": ' + b'[' * 5000, 'is no list of embeddings'),
            'an error with status 200': ({'error': {'message': 'out of luck'}}, 'out of luck'),
            'too many bytes': (b'[' + b' ' * (1 << 20), 'too large'),
        }
        answers = []
        origin = RowsOrigin(lambda _, __, asked: whole(answers.pop()) if answers else embeddings(asked))
        server = self.front('embeddings', origin)
        for what, (answer, text) in wrong.items():
            with self.subTest(what):
                answers.append(answer)
                refused = post(server, '/v1/embeddings', model='m', input=['a', 'b'])
                self.assertGreaterEqual(refused.status, 500, what)
                said = refused.json()['error']['message']
                self.assertIn(f'origin {origin.name}', said)
                self.assertIn(text, said)
                self.close_to([vector('a')], floats(post(server, '/v1/embeddings', model='m', input='a')), what)

    def test_a_page_with_an_error_is_not_shown(self):
        answers = []
        origin = RowsOrigin(lambda _, __, asked: answers.pop() if answers else embeddings(asked))
        server = self.front('embeddings', origin)
        answers.append(whole(b'<html>secret stack</html>', '500 Oops', 'text/html'))
        refused = post(server, '/v1/embeddings', model='m', input='a')
        self.assertEqual(500, refused.status)
        self.assertIn(f'origin {origin.name}: it answered with HTTP status 500', refused.json()['error']['message'])
        self.assertNotIn('secret', refused.body.decode())

    def test_nobody_fails_for_the_text_of_another(self):
        def behave(_, __, asked):
            bad = any('bad' in text for text in asked['input'])
            return whole({'error': {'message': 'this text is bad'}}, '400 Bad Request') if bad else embeddings(asked)
        origin = RowsOrigin(behave)
        server = self.front('embeddings', origin)
        # Rows of a tensor are one call, which fails whole; texts of Calls that were put together fail alone.
        refused = post(server, '/v1/embeddings', model='m', input=['good', 'bad', 'fine'])
        self.assertEqual(400, refused.status)
        self.assertIn('this text is bad', refused.json()['error']['message'])
        self.assertEqual(3, len(origin.seen[0][1]['input']))
        self.assertEqual({1}, {len(asked['input']) for _, asked in origin.seen[1:]})

    def test_nobody_fails_for_a_text_that_breaks_the_origin(self):
        def behave(_, __, asked):
            broken = whole({'error': {'message': 'CUDA error'}}, '500 Internal Server Error')
            return broken if any('bad' in text for text in asked['input']) else embeddings(asked)
        origin = RowsOrigin(behave)
        server = self.front('embeddings', origin)
        refused = post(server, '/v1/embeddings', model='m', input=['good', 'fine', 'bad', 'well'])
        self.assertEqual(500, refused.status)
        self.assertIn('CUDA error', refused.json()['error']['message'])
        self.assertEqual([4, 2, 2, 1, 1], [len(asked['input']) for _, asked in origin.seen])
        # One that fails of everything is not asked for each text alone.
        for _ in range(40):
            self.assertEqual(500, post(server, '/v1/embeddings', model='m', input=['bad'] * 16).status)
        self.assertLess(len(origin.seen), 5 + 40 + 2 * 128 + 40 * 16 / 5 + 16)  # of two shards

    def test_slow_and_endless_answers_end(self):
        def slow(sock, _, asked):
            if asked['input'] == ['a text']:
                return embeddings(asked)
            if asked['input'] == ['slow']:
                return time.sleep(3)
            sock.sendall(head('200 OK', 'application/json'))
            try:
                while True:
                    sock.sendall(chunk(b' '))
                    time.sleep(0.02)
            except OSError:
                ended.append(True)
        ended = []
        origin = RowsOrigin(slow)
        server = self.front('embeddings', origin, more=', answer_timeout: 400ms')
        for text in ('slow', 'endless'):
            begun = time.monotonic()
            refused = post(server, '/v1/embeddings', model='m', input=text)
            self.assertEqual(504, refused.status, text)
            self.assertIn(f'origin {origin.name}: it has not answered within', refused.json()['error']['message'])
            self.assertLess(time.monotonic() - begun, 2.5)
        until(lambda: ended, 'that the endless one is cut off')

    def test_another_origin_is_asked_where_one_is_busy_or_gone(self):
        busy = RowsOrigin(lambda _, __, asked: embeddings(asked))
        good = RowsOrigin(lambda _, __, asked: embeddings(asked))
        server = self.front('embeddings', busy, good)
        busy.behave = lambda *_: whole({'error': {'message': 'later'}}, '503 Service Unavailable')
        for i in range(6):
            self.close_to([vector(f'{i}')], floats(post(server, '/v1/embeddings', model='m', input=f'{i}')))
        busy.close()
        for i in range(6):
            self.assertEqual(200, post(server, '/v1/embeddings', model='m', input=f'{i}').status)

    def test_a_client_that_leaves_ends_the_request(self):
        gone = []

        def behave(sock, _, asked):
            if asked['input'] == ['a text']:
                return embeddings(asked)
            gone.append(sock.recv(1) == b'')
        origin = RowsOrigin(behave)
        server = self.front('embeddings', origin)
        with self.assertRaises(RuntimeError):
            curl(server.url('/v1/embeddings'), *JSON, '--max-time', '0.5', data=json.dumps({'model': 'm', 'input': ['x', 'y']}))
        until(lambda: gone, 'that the origin is told')
        self.assertEqual([True], gone)

    def test_the_origins_key_goes_along(self):
        key = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch())) / 'key'
        key.write_text('sesame\n')
        origin = RowsOrigin(lambda _, __, asked: embeddings(asked))
        server = self.front('embeddings', origin, more=f', key_file: {key}')
        post(server, '/v1/embeddings', model='m', input='x')
        self.assertEqual({'Bearer sesame'}, {fields['authorization'] for fields in origin.fields})
        azure = RowsOrigin(lambda _, __, asked: embeddings(asked))
        server = self.front('embeddings', azure, more=f', key_file: {key}, key_header: api-key')
        post(server, '/v1/embeddings', model='m', input='x')
        self.assertEqual({('sesame', None)}, {(fields['api-key'], fields.get('authorization')) for fields in azure.fields})

    def test_an_origin_that_embeds_nothing_is_named(self):
        origin = RowsOrigin(lambda *_: whole({'error': {'message': 'no such thing'}}, '501 Not Implemented'))
        self.addCleanup(origin.close)
        root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        (root / 'm').mkdir()
        (root / 'm/model.yaml').write_text(f'engine: forward\nkind: openai\norigins: [{origin.url}]\nparameters: {{api: embeddings}}\n')
        server = harness.Server(repository=root)
        self.addCleanup(server.stop)
        until(lambda: b'no such thing' in curl(server.url('/v2/repository/index'), data='{}').body, 'the reason')

    def test_tensors_that_say_nothing_are_refused(self):
        origin = RowsOrigin(lambda _, __, asked: embeddings(asked))
        server = self.front('embeddings', origin)

        def infer(**inputs):
            tensors = [{'name': name, 'datatype': kind, 'shape': shape, 'data': data} for name, (kind, shape, data) in inputs.items()]
            return post(server, '/v2/models/m/infer', inputs=tensors)
        for text, inputs in (("either 'input_ids' or 'text' is needed", {}),
                             ("either 'input_ids' or 'text' is needed", {'text': ('BYTES', [1, 1], ['a']), 'input_ids': ('INT64', [1, 1], [1])}),
                             ('row 1: an empty text', {'text': ('BYTES', [2, 1], ['a', ''])}),
                             ('row 0: a text without tokens', {'input_ids': ('INT64', [1, 2], [-1, -1])}),
                             ('row 0: token id 99999999999 is not in the vocabulary', {'input_ids': ('INT64', [1, 1], [99999999999])}),
                             ('at most 1048576 bytes', {'text': ('BYTES', [1, 1], ['x' * (1 << 20) + 'x'])}),
                             ('batch', {'text': ('BYTES', [33, 1], ['x'] * 33)})):
            refused = infer(**inputs)
            self.assertEqual(400, refused.status, text)
            self.assertIn(text, refused.json()['error'])
        self.assertEqual([], origin.seen)
        rows = infer(input_ids=('INT32', [2, 3], [5, 6, -1, 7, 8, 9])).json()['outputs'][0]
        self.close_to([*vector([5, 6]), *vector([7, 8, 9])], rows['data'])


class Rankings(Case):
    """Every form in which servers rank."""

    FORMS = {
        'Jina, Cohere, vLLM': ('/v1/rerank', lambda asked: {'results': ranking(asked['query'], asked['documents']), 'usage': {'total_tokens': 11}}),
        'Infinity': ('/rerank', lambda asked: {'results': ranking(asked['query'], asked['documents'])}),
        'Text Embeddings Inference': ('/rerank', lambda asked: ranking(asked['query'], asked['texts'], 'score')),
        'Cohere, version 2': ('/v2/rerank', lambda asked: {'results': ranking(asked['query'], asked['documents']), 'meta': {'tokens': {'input_tokens': 11}}}),
        'Voyage': ('/v1/rerank', lambda asked: {'data': ranking(asked['query'], asked['documents'])}),
        'scores of vLLM': ('/score', lambda asked: {'data': ranking(asked['text_1'], asked['text_2'], 'score')}),
    }

    def test_every_form(self):
        documents = [f'document {"x" * i}' for i in range(7)]
        for name, (path, answer) in self.FORMS.items():
            def behave(_, at, asked, its_path=path, its_answer=answer):
                if at != its_path:
                    return whole({'detail': 'Not Found'}, '404 Not Found')
                try:
                    return its_answer(asked)
                except KeyError as missing:
                    return whole({'error': f'missing field {missing}'}, '422 Unprocessable Entity')
            with self.subTest(name):
                origin = RowsOrigin(behave)
                server = self.front('rerank', origin)
                ranked = post(server, '/v1/rerank', model='m', query='which?', documents=documents, top_n=3)
                self.assertEqual(200, ranked.status, ranked.body)
                expected = sorted(range(7), key=lambda i: -score('which?', documents[i]))[:3]
                self.assertEqual(expected, [row['index'] for row in ranked.json()['results']])
                self.close_to([score('which?', documents[i]) for i in expected], [row['relevance_score'] for row in ranked.json()['results']])
                self.assertEqual(1, len(origin.seen), 'one request for all')
                if 'usage' in str(answer(dict.fromkeys(('query', 'text_1'), 'a') | dict.fromkeys(('documents', 'texts', 'text_2'), ['a']))):
                    self.assertEqual(11, ranked.json()['usage']['total_tokens'])
                pairs = post(server, '/score', model='m', text_1=['p', 'query'], text_2=['one', 'another']).json()['data']
                self.close_to([score('p', 'one'), score('query', 'another')], [row['score'] for row in pairs])

    def test_an_origin_may_have_it_under_a_path(self):
        for api, path in (('rerank', '/rerank'), ('embeddings', '/embeddings')):
            origin = RowsOrigin(lambda _, at, asked: whole({'detail': 'Not Found'}, '404 Not Found') if not at.startswith('/proxy/v1/') else
                                embeddings(asked) if 'input' in asked else {'results': ranking(asked['query'], asked['documents'])})
            self.addCleanup(origin.close)
            server = gateway(api, origin.url + '/proxy/v1')
            self.addCleanup(server.stop)
            asked = {'input': 'a'} if api == 'embeddings' else {'query': 'q', 'documents': ['a', 'b']}
            self.assertEqual(200, post(server, '/v1' + path, model='m', **asked).status)
            self.assertEqual({'/proxy/v1' + path}, {at for at, _ in origin.seen})

    def test_an_answer_that_repeats_the_texts_is_no_larger_than_it_may_be(self):
        def behave(_, __, asked):
            return {'results': [{**row, 'document': {'text': asked['documents'][row['index']], 'multi_modal': None}}
                                for row in ranking(asked['query'], asked['documents'])]}
        server = self.front('rerank', RowsOrigin(behave))
        documents = ['\x01ü' * 20_000, 'b' * 100_000, 'c']
        ranked = post(server, '/v1/rerank', model='m', query='q', documents=documents).json()['results']
        self.assertEqual(sorted(range(3), key=lambda i: -score('q', documents[i])), [row['index'] for row in ranked])

    def test_answers_that_are_wrong(self):
        answers = []
        origin = RowsOrigin(lambda _, __, asked: answers.pop() if answers else {'results': ranking(asked['query'], asked['documents'])})
        server = self.front('rerank', origin)
        for answer, text in (({'results': [{'index': 0, 'relevance_score': 1}]}, '1 scores of 2'),
                             ({'results': [{'index': 0, 'relevance_score': 1}] * 2}, 'twice'),
                             ({'results': [{'index': 0}, {'index': 1}]}, 'without index or score'),
                             (whole(b'<html>'), 'is no list of scores'), (whole(b'[' * 200), 'is no list of scores')):
            answers.append(answer)
            refused = post(server, '/v1/rerank', model='m', query='q', documents=['a', 'b'])
            self.assertEqual(500, refused.status)
            self.assertIn(f'origin {origin.name}', refused.json()['error']['message'])
            self.assertIn(text, refused.json()['error']['message'])
        self.assertEqual(200, post(server, '/v1/rerank', model='m', query='q', documents=['a', 'b']).status)

    def test_what_it_cannot_do_is_said(self):
        server = self.front('rerank', RowsOrigin(lambda _, __, asked: {'results': ranking(asked['query'], asked['documents'])}))
        for path, body, text in (('/classify', {'input': 'a'}, 'a text without a query'), ('/classify', {'input': [[1, 2]]}, 'ranks texts'),
                                 ('/score', {'text_1': 'a', 'text_2': 'b', 'activation': False}, 'scores alone'),
                                 ('/v1/embeddings', {'input': 'a'}, 'm')):
            refused = post(server, path, model='m', **body)
            self.assertEqual(400, refused.status, (path, refused.body))
            self.assertIn(text, refused.json()['error']['message'])


if __name__ == '__main__':
    harness.main()
