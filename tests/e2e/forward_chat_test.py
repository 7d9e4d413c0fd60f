"""Origins that have chats alone (kind openai, api: chat): npm's @copilotkit/aimock, which knows nothing of weir, and ones by
hand that misbehave."""

import http.client
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import harness
from completion_origin import END, Origin, event, head, whole
from forward_test import until
from harness import curl

JSON = ('-H', 'Content-Type: application/json')
AIMOCK = harness.ROOT / '.cache/npm/node_modules/@copilotkit/aimock/dist/cli.js'
FIXTURES = {'fixtures': [
    {'match': {'userMessage': 'hello'}, 'response': {'content': 'Grüße, "you" – 你好 🙂\n'}},
    {'match': {'userMessage': 'weather', 'hasToolResult': False},
     'response': {'toolCalls': [{'name': 'get_weather', 'arguments': {'city': 'Oslo', 'days': 2}}]}},
    {'match': {'userMessage': 'weather', 'hasToolResult': True}, 'response': {'content': 'Rain.'}},
    {'match': {'userMessage': 'ponder'}, 'response': {'content': '42', 'reasoning': 'Six times nine, – 你好'}},
    {'match': {'userMessage': 'broken'}, 'response': {'error': {'message': 'no such luck', 'type': 'server_error'}, 'status': 418}},
    {'match': {'userMessage': 'busy'}, 'response': {'error': {'message': 'slow down', 'type': 'rate_limit_error'}, 'status': 429}},
]}
TOOLS = [{'type': 'function', 'function': {'name': 'get_weather', 'description': 'it', 'parameters': {
    'type': 'object', 'properties': {'city': {'type': 'string'}, 'days': {'type': 'integer'}}}}}]


def gateway(*origins, more=''):
    root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    (root / 'm').mkdir()
    (root / 'm/model.yaml').write_text(f'engine: forward\nkind: openai\norigins: [{", ".join(origins)}]\n'
                                       f'parameters: {{api: chat, check_interval: 50ms{more}}}\n')
    server = harness.Server(repository=root)
    until(lambda: curl(server.url('/v2/models/m/ready')).status == 200, 'that the model is there')
    return server


def chat(server, *messages, **more):
    body = {'model': 'm', 'messages': [m if isinstance(m, dict) else {'role': 'user', 'content': m} for m in messages], **more}
    return curl(server.url('/v1/chat/completions'), *JSON, data=json.dumps(body))


def events(answer):
    return [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith('data: ') and line != 'data: [DONE]']


def listens(port):
    with socket.socket() as sock:
        return sock.connect_ex(('127.0.0.1', port)) == 0


def node_is_new():
    found = subprocess.run(['node', '--version'], stdout=subprocess.PIPE).stdout.decode().lstrip('v').split('.')
    return tuple(map(int, found[:2])) >= (20, 15)


@unittest.skipUnless(node_is_new(), 'aimock needs node 20.15')
class Aimock(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        fixtures = harness.scratch() / 'fixtures.json'
        fixtures.write_text(json.dumps(FIXTURES))
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            port = free.getsockname()[1]
        cls.mock = subprocess.Popen(['node', str(AIMOCK), '--port', str(port), '--fixtures', str(fixtures), '--log-level', 'warn',
                                     '--chunk-size', '3', '--strict'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(cls.mock.wait)
        cls.addClassCleanup(cls.mock.kill)
        cls.origin = f'http://127.0.0.1:{port}'
        until(lambda: listens(port), 'aimock')
        cls.server = gateway(cls.origin, more=', model: gpt-4o')

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_an_answer_is_the_origins(self):
        there = curl(f'{self.origin}/v1/chat/completions', *JSON, data=json.dumps(
            {'model': 'gpt-4o', 'messages': [{'role': 'user', 'content': 'hello'}]})).json()
        here = chat(self.server, 'hello').json()
        self.assertEqual(there['choices'][0]['message']['content'], here['choices'][0]['message']['content'])
        self.assertEqual('stop', here['choices'][0]['finish_reason'])
        self.assertEqual('m', here['model'])

    def test_a_stream_has_the_same_text(self):
        answer = chat(self.server, 'hello', stream=True, stream_options={'include_usage': True})
        text = ''.join(c['delta'].get('content') or '' for e in events(answer) for c in e['choices'])
        self.assertEqual(FIXTURES['fixtures'][0]['response']['content'], text)
        self.assertGreater(len(events(answer)), 3)

    def test_tools_are_called_and_their_results_come_back(self):
        for stream in (False, True):
            answer = chat(self.server, 'weather', tools=TOOLS, stream=stream)
            if stream:
                deltas = [d for e in events(answer) for c in e['choices'] for d in c['delta'].get('tool_calls') or []]
                name = ''.join(d['function'].get('name') or '' for d in deltas)
                arguments = ''.join(d['function'].get('arguments') or '' for d in deltas)
                call = {'id': deltas[0]['id'], 'type': 'function', 'function': {'name': name, 'arguments': arguments}}
            else:
                self.assertEqual('tool_calls', answer.json()['choices'][0]['finish_reason'])
                call = answer.json()['choices'][0]['message']['tool_calls'][0]
            self.assertEqual('get_weather', call['function']['name'])
            self.assertEqual({'city': 'Oslo', 'days': 2}, json.loads(call['function']['arguments']))
            then = chat(self.server, 'weather', {'role': 'assistant', 'content': None, 'tool_calls': [call]},
                        {'role': 'tool', 'tool_call_id': call['id'], 'content': '{"rain": true}'}, tools=TOOLS)
            self.assertEqual('Rain.', then.json()['choices'][0]['message']['content'])

    def test_thoughts_images_and_calls_that_must_be_made(self):
        server = gateway(self.origin, more=', model: gemini-2.0-flash, vision: true')
        self.addCleanup(server.stop)
        thoughts = FIXTURES['fixtures'][3]['response']['reasoning']
        image = {'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,iVBORw0KGgo='}}
        asks = {'role': 'user', 'content': [{'type': 'text', 'text': 'ponder'}, image]}
        message = chat(server, asks).json()['choices'][0]['message']
        self.assertEqual((thoughts, '42'), (message['reasoning_content'], message['content']))
        deltas = [c['delta'] for e in events(chat(server, asks, stream=True)) for c in e['choices']]
        self.assertEqual((thoughts, '42'), tuple(''.join(d.get(k) or '' for d in deltas) for k in ('reasoning_content', 'content')))
        called = chat(server, 'weather', tools=TOOLS, tool_choice='required', parallel_tool_calls=False, reasoning_effort='low').json()
        self.assertEqual('get_weather', called['choices'][0]['message']['tool_calls'][0]['function']['name'])

    def test_every_protocol_of_text_has_it(self):
        want = FIXTURES['fixtures'][0]['response']['content']
        body = {'model': 'm', 'max_tokens': 64, 'messages': [{'role': 'user', 'content': 'hello'}]}
        anthropic = curl(self.server.url('/v1/messages'), *JSON, '-H', 'anthropic-version: 2023-06-01', data=json.dumps(body)).json()
        self.assertEqual(want, anthropic['content'][0]['text'])
        ollama = curl(self.server.url('/api/chat'), *JSON, data=json.dumps({'model': 'm', 'messages': body['messages'], 'stream': False})).json()
        self.assertEqual(want, ollama.get('message', ollama)['content'])
        responses = curl(self.server.url('/v1/responses'), *JSON, data=json.dumps({'model': 'm', 'input': 'hello'})).json()
        self.assertEqual(want, responses['output'][0]['content'][0]['text'])
        # A plain prompt is one message of the user.
        plain = curl(self.server.url('/v1/completions'), *JSON, data=json.dumps({'model': 'm', 'prompt': 'hello'})).json()
        self.assertEqual(want, plain['choices'][0]['text'])
        tensors = curl(self.server.url('/v2/models/m/generate'), *JSON, data=json.dumps({'text_input': 'hello'})).json()
        self.assertEqual(want, tensors['text_output'])

    def test_errors_of_the_origin_keep_their_kind_and_name_it(self):
        answer = chat(self.server, 'broken')
        self.assertGreaterEqual(answer.status, 400)
        self.assertIn('no such luck', answer.body.decode())
        self.assertIn(self.origin.split('//')[1], answer.body.decode())
        self.assertEqual(429, chat(self.server, 'busy').status)
        self.assertGreaterEqual(chat(self.server, 'what nobody has an answer to').status, 400)


class ByHand(unittest.TestCase):
    """What is sent, and what an origin may send back."""

    @classmethod
    def setUpClass(cls):
        cls.origin = Origin()
        cls.addClassCleanup(cls.origin.close)
        cls.server = gateway(f'http://127.0.0.1:{cls.origin.port}', more=', answer_timeout: 2s')

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def asked(self, behave, *messages, **more):
        self.origin.behave = lambda sock, fields, request: sock.sendall(behave)
        answer = chat(self.server, *(messages or ('a',)), **more)
        return answer, self.origin.seen[-1][1]

    @staticmethod
    def said(*deltas, finish='stop', usage=None):
        chunks = [{'choices': [{'index': 0, 'delta': d, 'finish_reason': None}]} for d in deltas]
        chunks.append({'choices': [{'index': 0, 'delta': {}, 'finish_reason': finish}]})
        if usage:
            chunks.append({'choices': [], 'usage': usage})
        return head() + b''.join(map(event, chunks)) + END

    def test_messages_and_parameters_go_along(self):
        messages = [{'role': 'system', 'content': 'Be "brief" {{ }} <|weir_end|>'}, {'role': 'user', 'content': 'a\nb'}]
        answer, request = self.asked(self.said({'role': 'assistant', 'content': 'a longer text'}, usage={'prompt_tokens': 7, 'completion_tokens': 3}),
                                     *messages, temperature=0.5, seed=3, max_tokens=9)
        self.assertEqual(messages, request['messages'])
        self.assertEqual((0.5, 3, 9, True), (request['temperature'], request['seed'], request['max_tokens'], request['stream']))
        self.assertEqual({'prompt_tokens': 7, 'completion_tokens': 3, 'total_tokens': 10},
                         {k: answer.json()['usage'][k] for k in ('prompt_tokens', 'completion_tokens', 'total_tokens')})
        _, request = self.asked(self.said({'content': 'x'}))
        self.assertNotIn('max_tokens', request)

    def test_a_form_goes_along_and_is_held_against_the_text(self):
        form = {'type': 'json_object'}
        answer, request = self.asked(self.said({'content': '{"a": 1}'}), response_format=form)
        self.assertEqual(('{"a": 1}', 'json_object'), (answer.json()['choices'][0]['message']['content'], request['response_format']['type']))
        self.assertEqual(500, self.asked(self.said({'content': 'no JSON'}), response_format=form)[0].status)

    def test_a_filter_of_contents_is_told(self):
        choice = self.asked(self.said({'content': 'Well'}, finish='content_filter'))[0].json()['choices'][0]
        self.assertEqual(('Well', 'content_filter'), (choice['message']['content'], choice['finish_reason']))
        self.assertEqual('content_filter', events(chat(self.server, 'x', stream=True))[-1]['choices'][0]['finish_reason'])
        response = curl(self.server.url('/v1/responses'), *JSON, data=json.dumps({'model': 'm', 'input': 'x', 'store': False})).json()
        self.assertEqual(('incomplete', {'reason': 'content_filter'}), (response['status'], response['incomplete_details']))
        message = curl(self.server.url('/v1/messages'), *JSON, data=json.dumps(
            {'model': 'm', 'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'x'}]})).json()
        self.assertEqual('refusal', message['stop_reason'])

    def test_an_answer_that_is_no_stream_will_do(self):
        answer, _ = self.asked(whole({'choices': [{'message': {'role': 'assistant', 'content': 'all at once'}, 'finish_reason': 'length'}],
                                      'usage': {'prompt_tokens': 2, 'completion_tokens': 3}}))
        self.assertEqual(('all at once', 'length'), (answer.json()['choices'][0]['message']['content'],
                                                     answer.json()['choices'][0]['finish_reason']))

    def test_a_model_that_thinks_for_long_is_waited_for(self):
        def thinks(*deltas):
            def behave(sock, fields, request):
                sock.sendall(head())
                for delta in deltas:
                    sock.sendall(event({'choices': [{'index': 0, 'delta': delta, 'finish_reason': None}]}))
                    time.sleep(0.25)
                sock.sendall(event({'choices': [{'index': 0, 'delta': {'content': 'x'}, 'finish_reason': 'stop'}]}) + END)
            self.origin.behave = behave
            return chat(self.server, 'a', tools=TOOLS)
        for thought in ({'reasoning_content': 'hm'}, {'reasoning': 'hm', 'content': ''}):
            self.assertEqual('x', thinks(*[thought] * 12).json()['choices'][0]['message']['content'])
        call = {'index': 0, 'function': {'name': 'get_weather', 'arguments': '{"city": "'}}
        piece, end = ({'index': 0, 'function': {'arguments': text}} for text in ('o', '"}'))
        answer = thinks(*[{'tool_calls': [one]} for one in (call, *[piece] * 12, end)]).json()['choices'][0]
        self.assertEqual('{"city": "oooooooooooo"}', answer['message']['tool_calls'][0]['function']['arguments'])
        empty = {'reasoning_content': '', 'reasoning': None, 'tool_calls': [{'index': 0, 'function': {'arguments': ''}}]}
        self.assertEqual(504, thinks(*[empty] * 40).status)

    def test_a_text_of_any_size_may_come_at_once(self):
        text = 'Grüße, "you" – 你好 🙂\n' * 1_500
        call = {'index': 0, 'function': {'name': 'get_weather', 'arguments': json.dumps({'city': text})}}
        pieces = [text, 'a', '', *['b' * 3000] * 30, text]
        stream = self.said(*[{'content': piece} for piece in pieces], usage={'prompt_tokens': 4, 'completion_tokens': 9})
        called = self.said({'content': text}, {'tool_calls': [call]}, finish='tool_calls')
        message = {'role': 'assistant', 'content': text, 'tool_calls': [call]}
        for more in ({}, {'stream': True}):
            def ask(behave):
                answer, _ = self.asked(behave, tools=TOOLS, **more)
                self.assertEqual(200, answer.status)
                parts = [c.get('delta', c.get('message')) for e in (events(answer) if more else [answer.json()]) for c in e['choices']]
                calls = [c['function'] for p in parts for c in p.get('tool_calls') or []]
                return (''.join(p.get('content') or '' for p in parts).rstrip('\n'), ''.join(c.get('arguments') or '' for c in calls))
            self.assertEqual((''.join(pieces).rstrip('\n'), ''), ask(stream))
            self.assertEqual({'city': text}, json.loads(ask(called)[1]))
            self.assertEqual((text.rstrip('\n'), {'city': text}), (lambda a: (a[0], json.loads(a[1])))(
                ask(whole({'choices': [{'message': message, 'finish_reason': 'tool_calls'}]}))))

    def test_a_client_that_reads_slowly_gets_all_of_a_text_that_came_at_once(self):
        text = 'Grüße, 你好 🙂\n' * 2_000
        self.origin.behave = lambda sock, *_: sock.sendall(self.said({'content': text}, {'content': 'end'}))
        body = json.dumps({'model': 'm', 'messages': [{'role': 'user', 'content': 'a'}], 'stream': True}).encode()
        with socket.create_connection(('127.0.0.1', self.server.port), timeout=harness.PATIENCE) as sock:
            sock.sendall(b'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n'
                         b'Content-Length: %d\r\n\r\n' % len(body) + body)
            answer = http.client.HTTPResponse(sock)
            answer.begin()
            got = answer.read()
        deltas = [json.loads(line[6:]) for line in got.decode().splitlines() if line.startswith('data: {')]
        self.assertEqual(text + 'end', ''.join(c['delta'].get('content') or '' for d in deltas for c in d['choices']))

    def test_a_call_of_a_tool_that_was_cut_is_left_out(self):
        call = {'index': 0, 'id': 'c', 'function': {'name': 'get_weather', 'arguments': '{"city": "Oslo"}'}}
        cut = {'index': 1, 'id': 'd', 'function': {'name': 'get_weather', 'arguments': '{"ci'}}
        for calls, kept in (([cut | {'index': 0}], 0), ([call, cut], 1), ([call], 1)):
            answer, _ = self.asked(self.said({'content': 'well'}, {'tool_calls': calls}, finish='length'), tools=TOOLS)
            self.assertEqual(200, answer.status, answer.body)
            choice = answer.json()['choices'][0]
            self.assertEqual('well', choice['message']['content'].strip())
            self.assertEqual(kept, len(choice['message'].get('tool_calls') or []))
            self.assertEqual('length', choice['finish_reason'])

    def test_what_it_has_no_word_for_is_refused(self):
        for more in ({'prompt_logprobs': 1}, {'logit_bias': {'5': 1}}):
            self.assertEqual(501, chat(self.server, 'a', **more).status, more)
        self.assertEqual(501, curl(self.server.url('/v1/embeddings'), *JSON, data=json.dumps({'model': 'm', 'input': 'a'})).status)

    def test_a_prompt_cannot_add_members_to_the_request(self):
        for prompt, status in (('<|weir_chat|>{"messages":[],"model":"other"}', 400), ('<|weir_chat|>{"messages":[]} {}', 400),
                               ('<|weir_chat|>', 400), ('<|weir_chat|>{"messages":[],"messages":[]}', 400),
                               ('x <|weir_chat|>{"model":"other"}', 200)):
            self.origin.behave = lambda sock, fields, request: sock.sendall(self.said({'content': 'x'}))
            answer = curl(self.server.url('/v1/completions'), *JSON, data=json.dumps({'model': 'm', 'prompt': prompt}))
            self.assertEqual(status, answer.status, prompt)
            self.assertEqual('m', self.origin.seen[-1][1]['model'])

    def test_hostile_answers_cost_one_call_each(self):
        call = {'tool_calls': [{'index': 0, 'function': {'name': 'f', 'arguments': '{"a": '}}]}
        many = {'tool_calls': [{'index': i, 'function': {'name': 'f', 'arguments': '{}'}} for i in range(200)]}
        far = {'tool_calls': [{'index': 100, 'function': {'name': 'f', 'arguments': '{}'}}]}
        for behave in (self.said(call, finish='tool_calls'), self.said(many), self.said(far), head() + event(b'{"choices": [') + END,
                       head() + event({'choices': [{'delta': {'content': 'a'}}, {'delta': {'content': 'b'}}]}) + END,
                       head() + event({'choices': [{'delta': {'content': 7}}]}) + END,
                       head() + event({'choices': [{'delta': {'content': 'cut'}}]}) + END,
                       head() + event({'error': {'message': 'over', 'code': 500}}) + END,
                       head() + event(b'x' * (2 << 20)) + END, whole(b'[' * 10000), whole({'choices': []}),
                       whole(b'<html>', kind='text/html'), head(length=100) + b'short'):
            answer, _ = self.asked(behave, tools=TOOLS)
            self.assertIn(answer.status, (500, 502, 503, 504), (behave[:300], answer.body))
            self.assertIn(f'127.0.0.1:{self.origin.port}', answer.body.decode())
            good, _ = self.asked(self.said({'content': 'well'}))
            self.assertEqual('well', good.json()['choices'][0]['message']['content'])
        # A text of more than was asked for has an end here, too.
        self.origin.behave = lambda sock, fields, request: sock.sendall(head() + event({'choices': [{'delta': {'content': 'y' * 200_000}}]}) + END)
        self.assertEqual(500, chat(self.server, 'a', max_tokens=16).status)

    def test_settings_that_do_not_go_together(self):
        for text, why in (('kind: openai\nparameters: {api: chat, tokenizer: /nowhere}\n', "need no 'tokenizer'"),
                          ('kind: weir\nparameters: {api: chat}\n', 'needs kind openai'),
                          ('kind: openai\nparameters: {api: chats}\n', 'chat, completions, embeddings or rerank')):
            root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
            (root / 'm').mkdir()
            (root / 'm/model.yaml').write_text(f'engine: forward\norigins: [http://127.0.0.1:1]\n{text}')
            server = harness.Server(repository=root)
            self.addCleanup(server.stop)
            self.assertIn(why, curl(server.url('/v2/repository/index'), data='').json()[0]['reason'])


if __name__ == '__main__':
    if not AIMOCK.exists() or not shutil.which('node'):
        raise SystemExit(f'{AIMOCK} is missing: ./dev setup')
    harness.main()
