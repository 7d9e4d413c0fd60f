"""Models of text that another server runs: kind openai. weir is the origin of most of them, as vLLM would be; the others
have an origin that misbehaves."""

import base64
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

import grpc

import completion_origin
import harness
from completion_origin import chunk, delta, event, head, said, whole
from forward_test import until
from harness import curl
from tiny_model import CONFIG, TOKENIZER, varied, write

oip, oip_grpc = harness.stubs()('inference')
JSON = ('-H', 'Content-Type: application/json')
MODEL = 'm'


def model_folder():
    """A repository with one model of tokens, which says something else each time."""
    root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    files = {'config.json': {**CONFIG, 'max_position_embeddings': 256}, 'model.safetensors': varied()}
    write(root, MODEL, files, 'kv_cache: 4MiB, threads: 1, max_running: 4')
    return root


def tokenizer_folder():
    root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    (root / 'tokenizer.json').write_text(json.dumps(TOKENIZER))
    (root / 'generation_config.json').write_text('{"eos_token_id": 256}')
    return root


def gateway(origins, tokenizer, more='', **models):
    """A server whose model m runs at `origins`."""
    root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    (root / MODEL).mkdir()
    (root / MODEL / 'model.yaml').write_text(
        f'engine: forward\nkind: openai\norigins: [{", ".join(origins)}]\n'
        f'parameters: {{tokenizer: {tokenizer}, check_interval: 50ms{more}}}\n')
    return harness.Server(repository=root)


def counted(server, name):
    text = curl(server.url('/metrics')).body.decode()
    return sum(float(line.rsplit(' ', 1)[1]) for line in text.splitlines() if line.startswith(name + '{'))


def completion(server, **request):
    body = {'model': MODEL, 'prompt': 'Once', 'max_tokens': 24, 'ignore_eos': True, 'return_token_ids': True, 'temperature': 0,
            **request}
    return curl(server.url('/v1/completions'), *JSON, data=json.dumps(body))


class Text(unittest.TestCase):
    """weir in front of weir."""

    @classmethod
    def setUpClass(cls):
        cls.root = model_folder()
        cls.origin = harness.Server(repository=cls.root)
        cls.server = gateway([cls.origin.url()], cls.root / MODEL / '1')
        until(lambda: curl(cls.server.url('/readyz')).status == 200, 'readiness')

    @classmethod
    def tearDownClass(cls):
        for server in (cls.server, cls.origin):
            code = server.stop()
            assert code == 0, f'weir ended with {code}:\n{server.output()[-5000:]}'

    def both(self, path, **body):
        there, here = (curl(s.url(path), *JSON, data=json.dumps(body)) for s in (self.origin, self.server))
        self.assertEqual((200, 200), (there.status, here.status), here.body)
        return there.json(), here.json()

    def same_choices(self, path, **body):
        there, here = self.both(path, model=MODEL, **body)
        self.assertEqual(there['choices'], here['choices'])
        self.assertEqual(there['usage']['completion_tokens'], here['usage']['completion_tokens'])
        self.assertEqual(there['usage']['prompt_tokens'], here['usage']['prompt_tokens'])
        return here

    def test_openai_completions(self):
        for request in ({'temperature': 0}, {'temperature': 1, 'seed': 7}, {'temperature': 1.5, 'seed': 2 ** 63 + 5, 'top_p': 0.9},
                        {'temperature': 0.8, 'seed': -1, 'top_k': 20, 'min_p': 0.01, 'repetition_penalty': 1.2},
                        {'temperature': 0, 'presence_penalty': 1, 'frequency_penalty': 0.5},
                        {'temperature': 0, 'logit_bias': {'65': 100}}, {'temperature': 0, 'max_tokens': 1},
                        {'temperature': 1, 'seed': 3, 'stop_token_ids': list(range(128, 192))},
                        {'temperature': 0, 'prompt': [1, 2, 3]}):
            self.same_choices('/v1/completions', **{'prompt': 'Once', 'max_tokens': 24, 'return_token_ids': True, **request})

    def test_log_probabilities(self):
        for logprobs in (0, 3):
            answer = self.same_choices('/v1/completions', prompt='Once', max_tokens=8, temperature=0, logprobs=logprobs,
                                       return_tokens_as_token_ids=True, ignore_eos=True)
            self.assertEqual(8, len(answer['choices'][0]['logprobs']['token_logprobs']))

    def test_stop_strings_end_it_here(self):
        text = self.both('/v1/completions', model=MODEL, prompt='Once', max_tokens=24, temperature=1, seed=5,
                         logit_bias={str(i): 20 for i in range(97, 123)})[1]['choices'][0]['text']
        stop = text[3:5]
        answer = self.same_choices('/v1/completions', prompt='Once', max_tokens=24, temperature=1, seed=5, stop=[stop],
                                   logit_bias={str(i): 20 for i in range(97, 123)})
        self.assertEqual((text[:text.index(stop)], 'stop'), (answer['choices'][0]['text'], answer['choices'][0]['finish_reason']))

    def test_openai_chat_and_its_stream(self):
        messages = [{'role': 'user', 'content': 'Say hello'}]
        whole_answer = self.same_choices('/v1/chat/completions', messages=messages, max_tokens=16, temperature=0, ignore_eos=True)
        stream = curl(self.server.url('/v1/chat/completions'), *JSON, data=json.dumps(
            {'model': MODEL, 'messages': messages, 'max_tokens': 16, 'temperature': 0, 'stream': True, 'ignore_eos': True}))
        pieces = [json.loads(line[6:]) for line in stream.body.decode().splitlines() if line.startswith('data: {')]
        self.assertEqual(whole_answer['choices'][0]['message']['content'],
                         ''.join(p['choices'][0]['delta'].get('content') or '' for p in pieces))

    def test_triton_and_oip(self):
        body = {'text_input': 'Once', 'parameters': {'max_tokens': 16, 'temperature': 0, 'ignore_eos': True}}
        there, here = self.both(f'/v2/models/{MODEL}/generate', **body)
        self.assertEqual(there, here)
        request = oip.ModelInferRequest(model_name=MODEL)
        request.inputs.add(name='text_input', datatype='BYTES', shape=[1]).contents.bytes_contents.append(b'Once')
        request.parameters['max_tokens'].int64_param = 16
        answers = []
        for server in (self.origin, self.server):
            with grpc.insecure_channel(server.address) as channel:
                answers.append(oip_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request))
        self.assertEqual(answers[0].outputs[0], answers[1].outputs[0])
        for view in (f'/v2/models/{MODEL}', f'/v2/models/{MODEL}/ready'):
            there, here = (curl(s.url(view)).json() for s in (self.origin, self.server))
            for answer in (there, here):
                answer.pop('platform', None)
            self.assertEqual(there, here)

    def test_ollama_and_anthropic(self):
        options = {'temperature': 0, 'num_predict': 12}
        there, here = self.both('/api/generate', model=MODEL, prompt='Once', stream=False, options=options)
        self.assertEqual(there['response'], here['response'])

    def test_many_at_once_share_connections(self):
        def work(i):
            for n in range(10):
                answer = completion(self.server, prompt=f'{i} {n}', temperature=1, seed=i)
                assert answer.status == 200, answer.body
                assert len(answer.json()['choices'][0]['token_ids']) == 24
        with harness.threads(8, work):
            pass
        self.assertLess(self.origin.fds(), 120)

    def test_what_needs_the_model_is_refused_by_name(self):
        answer = completion(self.server, prompt_logprobs=1)
        self.assertEqual(501, answer.status, answer.body)
        self.assertIn('a log-probability of the prompt', answer.json()['error']['message'])

    def test_forms_of_an_answer(self):
        schema = {'type': 'object', 'properties': {'a': {'type': 'boolean'}}, 'required': ['a'], 'additionalProperties': False}
        for form in ({'guided_regex': '[a-f]{12}'}, {'guided_choice': ['yes "so"', 'no']}, {'guided_json': schema},
                     {'guided_grammar': 'root ::= "ab" [0-9]+ "."'}, {'response_format': {'type': 'json_object'}}):
            with self.subTest(form=form):
                self.same_choices('/v1/completions', prompt='Once', max_tokens=32, temperature=0, **form)

    def test_embeddings(self):
        there, here = self.both('/v1/embeddings', model=MODEL, input=['Once', 'upon a time'])
        self.assertEqual(there['data'], here['data'])

    def test_statistics_count_tokens(self):
        before = counted(self.server, 'weir_model_generated_tokens_total')
        completion(self.server)
        self.assertEqual(before + 24, counted(self.server, 'weir_model_generated_tokens_total'))


class Moved(unittest.TestCase):
    """Two origins with the same weights, and one that dies in the middle of a text."""

    @classmethod
    def setUpClass(cls):
        cls.root = model_folder()
        cls.origin = harness.Server(repository=cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.origin.stop()

    def setUp(self):
        self.relay = completion_origin.Relay(self.origin.port)
        self.addCleanup(self.relay.close)
        self.server = gateway([self.relay.url, self.origin.url()], self.root / MODEL / '1', ', max_outstanding: 64')
        self.addCleanup(lambda: self.assertEqual(0, self.server.stop(), self.server.output()[-5000:]))
        until(lambda: curl(self.server.url('/readyz')).status == 200, 'readiness')

    def test_however_many_are_under_way_when_it_dies(self):
        expected = [completion(self.origin, prompt=f'text {i}', max_tokens=200).json()['choices'] for i in range(64)]
        self.relay.cut = 3

        def work(t):
            for i in range(t, 64, 16):
                answer = completion(self.server, prompt=f'text {i}', max_tokens=200)
                assert answer.status == 200, answer.body
                assert expected[i] == answer.json()['choices'], i
        with harness.threads(16, work):
            pass
        self.assertGreater(counted(self.server, 'weir_model_moved_sequences_total'), 0)

    def until_moved(self, request):
        """Answers until one was moved: which origin a call goes to is chance."""
        expected = completion(self.origin, **request).json()
        before = counted(self.server, 'weir_model_moved_sequences_total')
        for _ in range(200):
            answer = completion(self.server, **request)
            self.assertEqual(200, answer.status, answer.body)
            self.assertEqual(expected['choices'], answer.json()['choices'])
            self.assertEqual(expected['usage']['completion_tokens'], answer.json()['usage']['completion_tokens'])
            if counted(self.server, 'weir_model_moved_sequences_total') > before:
                self.assertEqual('1', answer.headers.get('weir-moved'))
                return
            self.assertNotIn('weir-moved', answer.headers)
        self.fail('no stream was moved')

    def test_a_text_goes_on_as_if_nothing_had_been(self):
        for request in ({'temperature': 0}, {'temperature': 1, 'seed': 7}, {'temperature': 1.3, 'seed': 2 ** 64 - 3, 'top_p': 0.9},
                        {'temperature': 1, 'seed': 11, 'repetition_penalty': 1.1, 'min_tokens': 10, 'ignore_eos': False}):
            for cut in (2, 5, 11):
                with self.subTest(request=request, cut=cut):
                    self.relay.cut = cut
                    self.until_moved(request)
        self.assertIn('a stream goes on at another origin', self.server.output())

    def test_one_that_has_said_all_is_not_asked_again(self):
        self.relay.cut = 25
        for _ in range(20):
            answer = completion(self.server)
            self.assertEqual((200, 24), (answer.status, len(answer.json()['choices'][0]['token_ids'])))

    def test_before_the_first_token_too(self):
        self.relay.cut = 0
        for _ in range(20):
            self.assertEqual(200, completion(self.server).status)


class Hostile(unittest.TestCase):
    """Each of these costs the call that met it, and nothing else."""

    @classmethod
    def setUpClass(cls):
        cls.origin = completion_origin.Origin()
        cls.server = gateway([cls.origin.url], tokenizer_folder(), ', answer_timeout: 1s')
        until(lambda: curl(cls.server.url('/readyz')).status == 200, 'readiness')

    @classmethod
    def tearDownClass(cls):
        cls.origin.close()
        code = cls.server.stop()
        assert code == 0, f'weir ended with {code}:\n{cls.server.output()[-5000:]}'

    def ask(self, **request):
        return completion(self.server, **request)

    def fails(self, behave, status, words):
        before = self.server.rss()
        self.origin.behave = behave if callable(behave) else lambda sock, *_: sock.sendall(behave)
        answer = self.ask()
        self.assertEqual(status, answer.status, answer.body)
        self.assertIn(f'origin {self.origin.name}: ', answer.json()['error']['message'])
        self.assertIn(words, answer.json()['error']['message'])
        self.origin.behave = completion_origin.Origin.good
        good = self.ask()
        self.assertEqual(200, good.status, good.body)
        self.assertEqual('abc', good.json()['choices'][0]['text'])
        self.assertLess(self.server.rss() - before, 48 << 20)
        return answer

    def test_what_is_asked(self):
        self.ask(temperature=0.5, top_p=0.5, seed=3, stop_token_ids=[5], max_tokens=9, logprobs=2)
        fields, request = self.origin.seen[-1]
        self.assertEqual(list(b'Once'), request['prompt'])
        self.assertEqual((0.5, 0.5, 3, [5], 9, 2, True, MODEL), tuple(request[k] for k in (
            'temperature', 'top_p', 'seed', 'stop_token_ids', 'max_tokens', 'logprobs', 'stream', 'model')))
        self.assertRegex(fields['weir-tenant'], r'^[0-9a-f]{16}$')

    def test_usage_is_the_origins(self):
        usage = self.ask().json()['usage']
        self.assertEqual((4, 3, 1), (usage['prompt_tokens'], usage['completion_tokens'],
                                     usage['prompt_tokens_details']['cached_tokens']))

    def test_texts_without_ids_are_taken(self):
        text = 'Grüße, 世界! 🙂  two'
        self.origin.behave = lambda sock, *_: sock.sendall(said(*[delta(c) for c in text], delta('', None, 'stop'), {
            'choices': [], 'usage': {'completion_tokens': 7}}))
        answer = self.ask(max_tokens=64).json()
        self.assertEqual((text, 'stop'), (answer['choices'][0]['text'], answer['choices'][0]['finish_reason']))
        self.origin.behave = completion_origin.Origin.good

    def test_log_probabilities_as_llama_cpp_writes_them(self):
        entry = {'id': 97, 'token': 'a', 'logprob': -0.5, 'top_logprobs': [{'id': 97, 'token': 'a', 'logprob': -0.5},
                                                                          {'id': 98, 'token': 'b', 'logprob': -1.5}]}
        self.origin.behave = lambda sock, *_: sock.sendall(said(delta('a', None, 'length', logprobs={'content': [entry]})))
        answer = self.ask(logprobs=2).json()['choices'][0]
        self.assertEqual(('a', [-0.5], [{'a': -0.5, 'b': -1.5}]),
                         (answer['text'], answer['logprobs']['token_logprobs'], answer['logprobs']['top_logprobs']))
        self.origin.behave = completion_origin.Origin.good

    def test_log_probabilities_that_do_not_name_the_tokens_of_the_text(self):
        def named(**entry):
            return {'logprobs': {'content': [{'logprob': -0.5, 'top_logprobs': [], **entry}]}}
        # llama.cpp: the text of a character comes with its last token. Others name tokens by texts that are several.
        for deltas, text in (((delta('a', **named(id=97, token='a')), delta('😀', None, 'length', **named(id=0x80, token=''))), 'a😀'),
                             ((delta('ab', None, 'length', **named(token='ab')),), 'ab'),
                             ((delta('a', **named(token='a')), delta('b', None, 'length', **named(token=''))), 'ab'),
                             ((delta('a', None, 'length', **named(id=9999, token='a')),), 'a')):
            self.origin.behave = lambda sock, *_: sock.sendall(said(*deltas))
            answer = self.ask(logprobs=0).json()
            self.assertEqual(text, answer['choices'][0]['text'])
            self.assertEqual(-0.5, answer['choices'][0]['logprobs']['token_logprobs'][-1])
        self.origin.behave = completion_origin.Origin.good

    def test_errors_keep_their_cause(self):
        error = {'error': {'message': 'the prompt is odd', 'type': 'BadRequestError', 'code': 400}}
        self.fails(whole(error, '400 Bad Request'), 400, 'the prompt is odd')
        self.fails(whole(error, '429 Too Many Requests', more='Retry-After: 17\r\n'), 429, 'retry after 17')
        self.fails(whole({'detail': 'no such route'}, '404 Not Found'), 404, 'no such route')
        self.fails(whole(b'<html>' * 100_000, '500 Internal Server Error', 'text/html'), 500, 'HTTP status 500')
        self.fails(whole(error, '503 Service Unavailable'), 503, 'HTTP status 503')
        self.fails(whole(error, '401 Unauthorized'), 500, 'HTTP status 401')
        self.fails(head() + event({'error': {'message': 'bad\x00news', 'code': 400}}) + b'0\r\n\r\n', 400, 'bad')
        self.fails(head() + event({'error': {'message': 'the engine is dead', 'code': 500}}), 503, 'the engine is dead')

    def test_events_that_are_none(self):
        for bad in (b'{', b'[]', b'"x"', b'{"choices": 7}', b'{"choices": [7]}', b'{"choices": [{"text": 7}]}',
                    b'{"choices": [{"token_ids": [-1]}]}', b'{"choices": [{"token_ids": [1e99]}]}',
                    b'{"choices": [{"token_ids": ["a"]}]}', b'{"choices": [{"text": "a"}, {"text": "b"}]}',
                    b'{"choices": [{"text": "\xff\xfe"}]}', b'{"choices": [{"text": "\\ud800"}]}', b'[' * 5000,
                    b'{"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": []}}]}'):
            with self.subTest(bad=bad[:60]):
                self.fails(head() + event(bad) + completion_origin.END, 500, '')

    def test_token_ids_outside_of_the_vocabulary(self):
        for ids in ([258], [4294967295], [97, 70000]):
            self.fails(said(delta('a', ids, 'stop')), 500, 'outside of the model')

    def test_more_tokens_than_were_asked_for(self):
        self.fails(said(delta('a' * 30, [97] * 30, 'length')), 500, 'more tokens than the 24')
        self.fails(said(delta('', list(b'a' * 200_000), 'length')), 500, 'more tokens than the 24')

    def test_a_text_without_the_form_that_was_asked_for(self):
        self.origin.behave = completion_origin.Origin.good
        answer = self.ask(guided_regex='[0-9]+')
        self.assertEqual(500, answer.status)
        self.assertIn('has not the form', answer.json()['error']['message'])
        self.assertEqual('abc', self.ask(guided_regex='[a-z]+').json()['choices'][0]['text'])
        self.assertEqual({'regex': '[a-z]+'}, self.origin.seen[-1][1]['structured_outputs'])

    def test_a_stream_that_ends_early(self):
        for bad in (head() + b'0\r\n\r\n', head() + event(delta('a', [97])) + b'0\r\n\r\n', said(delta('a', [97])),
                    said(delta('a', [97], 'abort'))):
            self.fails(bad, 503, '')

    def test_answers_that_are_no_streams(self):
        self.fails(whole({'choices': []}), 500, "content type 'application/json'")
        self.fails(b'SSH-2.0-OpenSSH\r\n\r\n', 503, '')
        self.fails(b'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n', 503, '')
        self.fails(b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n', 503, '')

    def test_headers_without_end(self):
        def behave(sock, *_):
            sock.sendall(b'HTTP/1.1 200 OK\r\n')
            for i in range(100_000):
                sock.sendall(f'x-{i}: {"y" * 100}\r\n'.encode())
        self.fails(behave, 503, '')

    def test_a_line_without_end(self):
        def behave(sock, *_):
            sock.sendall(head())
            for _ in range(64):
                sock.sendall(chunk(b'data: ' + b'x' * 65536))
            time.sleep(1)
        self.fails(behave, 500, 'too large')

    def test_comments_without_end(self):
        def behave(sock, *_):
            sock.sendall(head())
            for _ in range(300):
                sock.sendall(chunk(b': ping\n\n') + event(delta('')))
                time.sleep(0.01)
        self.fails(behave, 504, 'has not answered within 1s')

    def test_bytes_that_drip(self):
        def behave(sock, *_):
            for byte in said(delta('a', [97], 'stop')):
                sock.sendall(bytes([byte]))
                time.sleep(0.05)
        self.fails(behave, 504, 'has not answered within 1s')

    def test_silence(self):
        self.fails(lambda *_: None, 504, 'has not answered within 1s')

    def test_a_connection_that_breaks(self):
        def reset(sock, *_):
            sock.shutdown(2)
        self.fails(reset, 503, '')

    def test_a_connection_that_was_closed_meanwhile_costs_nothing(self):
        self.assertEqual(200, self.ask().status)
        for sock in self.origin.sockets[:]:
            try:
                sock.shutdown(2)
            except OSError:
                pass
        self.assertEqual(200, self.ask().status)


class Ready(unittest.TestCase):
    def setUp(self):
        self.origin = completion_origin.Origin()
        self.addCleanup(self.origin.close)
        self.tokenizer = tokenizer_folder()

    def start(self, more=''):
        server = gateway([self.origin.url], self.tokenizer, more)
        self.addCleanup(server.stop)
        return server

    def reason(self, server):
        return until(lambda: [row['reason'] for row in curl(server.url('/v2/repository/index'), data='').json()
                              if row.get('reason')], 'a reason')[0]

    def test_readiness_follows_the_origin(self):
        server = self.start()
        ready = lambda: curl(server.url('/readyz')).status == 200
        until(ready, 'readiness')
        self.origin.ready = False
        until(lambda: not ready(), 'the end of readiness')
        self.origin.ready = True
        until(ready, 'readiness')

    def test_an_origin_whose_metrics_say_it_is_full_gets_less(self):
        other = completion_origin.Origin()
        self.addCleanup(other.close)
        self.origin.metrics = f'vllm:num_requests_waiting{{model_name="{MODEL}"}} 50\n'
        other.metrics = f'vllm:num_requests_waiting{{model_name="{MODEL}"}} 0\n'
        server = gateway([self.origin.url, other.url], self.tokenizer, ', load_report: metrics')
        self.addCleanup(server.stop)
        until(lambda: curl(server.url('/readyz')).status == 200 and min(self.origin.polls, other.polls) > 1, 'metrics')
        for _ in range(60):
            self.assertEqual(200, completion(server).status)
        self.assertLess(len(self.origin.seen), 30)
        self.assertGreater(len(other.seen), 30)

    def test_embeddings_that_are_none(self):
        self.origin.models['data'][0]['embedding_size'] = 4
        server = self.start(', max_length: 64')
        until(lambda: curl(server.url('/readyz')).status == 200, 'readiness')
        good = base64.b64encode(bytes(16)).decode()
        for data, status in (([{'embedding': good}], 200), ([{'embedding': good[:4]}], 500), ([{'embedding': 7}], 500), ([], 500),
                             ([{'embedding': good}] * 2, 500), (7, 500), ([{'embedding': '!'}], 500), ([{'embedding': [0.5, -1, 2e-3, 0]}], 200),
                             ([{'embedding': [0.5, -1, 2e-3]}], 500), ([{'embedding': [1] * 5}], 500), ([{'embedding': []}], 500),
                             ([{'embedding': [1, 2, 3, '4']}], 500), ([{'embedding': [1, 2, 3, 1e300]}], 500)):
            self.origin.behave = lambda sock, *_, data=data: sock.sendall(whole({'data': data}))
            answer = curl(server.url('/v1/embeddings'), *JSON, data=json.dumps({'model': MODEL, 'input': 'Once'}))
            self.assertEqual(status, answer.status, answer.body)
            if status == 200:
                want = data[0]['embedding'] if isinstance(data[0]['embedding'], list) else [0] * 4
                for a, b in zip(want, answer.json()['data'][0]['embedding'], strict=True):
                    self.assertAlmostEqual(a, b, 6)
        self.assertEqual([list(b'Once'), 'base64'], [self.origin.seen[-1][1][k] for k in ('input', 'encoding_format')])

    def test_an_origin_without_health_is_asked_for_its_models(self):
        self.origin.health = whole({'detail': 'Not Found'}, '404 Not Found')
        server = self.start()
        until(lambda: curl(server.url('/readyz')).status == 200, 'readiness')

    def test_what_is_wrong_is_named(self):
        self.origin.models = {'data': [{'id': 'other'}, {'id': 'third'}]}
        self.assertIn("it has no model 'm'; it has 'other', 'third'", self.reason(self.start()))
        self.origin.models = {'data': [{'id': MODEL}]}
        self.assertIn("'max_length' is missing", self.reason(self.start()))
        self.origin.models = {'data': 7}
        self.assertIn('its list of models', self.reason(self.start()))
        (self.tokenizer / 'tokenizer.json').write_text('{')
        self.assertIn('tokenizer.json', self.reason(self.start()))
        (self.tokenizer / 'tokenizer.json').unlink()
        self.assertIn('there is no tokenizer.json', self.reason(self.start()))


class Tls(unittest.TestCase):
    """Origins with certificates of a private authority."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        cls.ca = cls.made('ca', 'basicConstraints=critical,CA:TRUE')
        cls.certificate, key = cls.made('origin', 'subjectAltName=IP:127.0.0.1,DNS:localhost', cls.ca)
        cls.root = model_folder()
        shutil.copytree(harness.MODELS / 'simple', cls.root / 'simple')
        cls.origin = harness.Server('--tls-cert', cls.certificate, '--tls-key', key, repository=cls.root)
        cls.url = f'https://localhost:{cls.origin.port}'

    @classmethod
    def tearDownClass(cls):
        cls.origin.stop()

    @classmethod
    def made(cls, name, extension, ca=None):
        """(certificate, key), signed by `ca` or itself."""
        key, request, certificate, config = (cls.folder / f'{name}.{end}' for end in ('key', 'csr', 'pem', 'ext'))
        config.write_text(extension)

        def run(*args):
            subprocess.run(['openssl', *map(str, args)], check=True, capture_output=True)
        run('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', request,
            '-subj', f'/CN={name}')
        signer = ('-CA', ca[0], '-CAkey', ca[1], '-CAcreateserial') if ca else ('-signkey', key)
        run('x509', '-req', '-in', request, '-out', certificate, '-days', 1, '-extfile', config, *signer)
        return certificate, key

    def start(self, ca, url):
        root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        for name, text in ((MODEL, f'kind: openai\nparameters: {{tokenizer: {self.root / MODEL / "1"}, ca_file: {ca}}}\n'),
                           ('simple', f'kind: oip-grpc\nparameters: {{ca_file: {ca}}}\n')):
            (root / name).mkdir()
            (root / name / 'model.yaml').write_text(f'engine: forward\norigins: {url}\n{text}')
        server = harness.Server(repository=root)
        self.addCleanup(server.stop)
        return server

    def test_both_kinds_speak_tls(self):
        server = self.start(self.ca[0], self.url)
        until(lambda: curl(server.url('/readyz')).status == 200, 'readiness')
        self.assertEqual(completion(self.origin).json()['choices'], completion(server).json()['choices'])
        body = {'inputs': [{'name': n, 'shape': [1, 16], 'datatype': 'INT32', 'data': [1] * 16} for n in ('INPUT0', 'INPUT1')]}
        self.assertEqual(200, curl(server.url('/v2/models/simple/infer'), *JSON, data=json.dumps(body)).status)

    def refusal(self, server):
        return until(lambda: {row['name']: row['reason'] for row in curl(server.url('/v2/repository/index'), data='').json()
                              if row.get('reason')}, 'a reason')

    def test_another_authority_is_not_believed(self):
        other = self.made('other', 'basicConstraints=critical,CA:TRUE')
        reasons = self.refusal(self.start(other[0], self.url))
        self.assertEqual({MODEL, 'simple'}, set(reasons))
        for reason in reasons.values():
            self.assertIn('TLS failed', reason)

    def test_nor_a_certificate_of_somebody_else(self):
        certificate, key = self.made('elsewhere', 'subjectAltName=DNS:elsewhere.example', self.ca)
        origin = harness.Server('--tls-cert', certificate, '--tls-key', key, repository=self.root)
        self.addCleanup(origin.stop)
        for reason in self.refusal(self.start(self.ca[0], f'https://localhost:{origin.port}')).values():
            self.assertIn('TLS failed', reason)


if __name__ == '__main__':
    harness.main()
