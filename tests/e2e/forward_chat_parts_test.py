"""What chats have beside texts, at origins that have chats alone (kind openai, api: chat): log-probabilities, thoughts, images,
calls that must be made, and the settings of these. The origins are by hand, and a weir in front of such a one."""

import base64
import json
import threading
import time
import unittest

import forward_chat_test
import harness
from completion_origin import END, Origin, event, head, whole
from forward_chat_test import JSON, TOOLS, chat, events, gateway
from forward_test import until
from forward_text_test import model_folder
from harness import curl

PIXEL = 'data:image/png;base64,' + base64.b64encode(b'\x89PNG no matter').decode()
said = forward_chat_test.ByHand.said


def entry(token, logprob, *top):
    return {'token': token, 'bytes': list(token.encode()), 'logprob': logprob,
            'top_logprobs': [{'token': t, 'bytes': list(t.encode()), 'logprob': p} for t, p in top]}


def with_logprobs(*pieces, usage=None):
    """A stream of (text, entries)."""
    chunks = [{'choices': [{'index': 0, 'delta': {'content': text}, 'logprobs': {'content': entries, 'refusal': None}}]}
              for text, entries in pieces]
    chunks += [{'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]}, {'choices': [], 'usage': usage}]
    return head() + b''.join(map(event, chunks)) + END


ENTRIES = [entry('Grü', -0.25, ('Grü', -0.25), ('Hal', -2)), entry('ße', -0.5, ('ße', -0.5), ('n', -1.5)), entry('', -1)]
LOGPROBS = with_logprobs(('Grü', ENTRIES[:1]), ('ße', ENTRIES[1:]), usage={'prompt_tokens': 3, 'completion_tokens': 2})


class Parts(unittest.TestCase):
    """Directly, and with one more weir between: that is an origin that nobody wrote for this."""

    @classmethod
    def setUpClass(cls):
        cls.origin = Origin()
        cls.addClassCleanup(cls.origin.close)
        cls.near = gateway(f'http://127.0.0.1:{cls.origin.port}', more=', vision: true, thinking: variables, answer_timeout: 2s')
        cls.far = gateway(f'http://127.0.0.1:{cls.near.port}', more=', answer_timeout: 4s')

    @classmethod
    def tearDownClass(cls):
        for server in (cls.far, cls.near):
            assert server.stop() == 0

    def each(self, behave=None):
        """The servers, the far one last, while the origin behaves so."""
        for server in (self.near, self.far):
            self.origin.behave = behave if callable(behave) else lambda sock, fields, request: sock.sendall(behave)
            yield server

    def post(self, server, path, **body):
        named = {} if path.startswith('/v2') else {'model': 'm'}
        answer = curl(server.url(path), *JSON, '-H', 'anthropic-version: 2023-06-01', data=json.dumps({**named, **body}))
        self.assertEqual(200, answer.status, answer.body)
        return answer

    def request(self):
        return self.origin.seen[-1][1]

    # ---- log-probabilities

    def test_log_probabilities_of_chats(self):
        for server in self.each(LOGPROBS):
            choice = chat(server, 'a', logprobs=True, top_logprobs=2).json()['choices'][0]
            self.assertEqual((True, 2), (self.request()['logprobs'], self.request()['top_logprobs']))
            self.assertEqual('Grüße', choice['message']['content'])
            self.assertEqual(ENTRIES, choice['logprobs']['content'])
            streamed = events(chat(server, 'a', logprobs=True, top_logprobs=2, stream=True))
            choices = [c for e in streamed for c in e['choices']]
            self.assertEqual('Grüße', ''.join(c['delta'].get('content') or '' for c in choices))
            self.assertEqual(ENTRIES, [e for c in choices if c.get('logprobs') for e in c['logprobs']['content']])
            one = chat(server, 'a', logprobs=True).json()['choices'][0]['logprobs']['content']
            self.assertEqual([-0.25, -0.5, -1], [e['logprob'] for e in one])
            self.assertNotIn('top_logprobs', self.request())
            self.assertIsNone(chat(server, 'a').json()['choices'][0]['logprobs'])
            self.assertNotIn('logprobs', self.request())

    def test_log_probabilities_of_other_protocols(self):
        for server in self.each(LOGPROBS):
            legacy = self.post(server, '/v1/completions', prompt='a', logprobs=2).json()['choices'][0]
            self.assertEqual((True, 2), (self.request()['logprobs'], self.request()['top_logprobs']))
            self.assertEqual((['Grü', 'ße', ''], [-0.25, -0.5, -1], [0, 3, 5]),
                             (legacy['logprobs']['tokens'], legacy['logprobs']['token_logprobs'], legacy['logprobs']['text_offset']))
            self.assertEqual({'Grü': -0.25, 'Hal': -2}, legacy['logprobs']['top_logprobs'][0])
            response = self.post(server, '/v1/responses', input='a', top_logprobs=2, include=['message.output_text.logprobs']).json()
            self.assertEqual(ENTRIES[:2], response['output'][0]['content'][0]['logprobs'])  # those of text
            ollama = self.post(server, '/api/generate', prompt='a', logprobs=True, top_logprobs=2, stream=False).json()
            self.assertEqual(ENTRIES, ollama['logprobs'])
            tensors = self.post(server, '/v2/models/m/generate', text_input='a', parameters={'details': True}).json()
            self.assertEqual([('Grü', -0.25), ('ße', -0.5), ('', -1)],
                             [(t['text'], t['logprob']) for t in tensors['details']['logprobs']])

    # ---- thoughts

    def test_thoughts_come_as_each_protocol_shows_them(self):
        for name in ('reasoning_content', 'reasoning'):
            usage = {'prompt_tokens': 9, 'completion_tokens': 8, 'prompt_tokens_details': {'cached_tokens': 4},
                     'completion_tokens_details': {'reasoning_tokens': 5}}
            stream = said({name: 'hm, '}, {name: 'grü', 'content': ''}, {'content': 'Well'}, {'content': '.'}, usage=usage)
            for server in self.each(stream):
                answer = chat(server, 'a').json()
                message = answer['choices'][0]['message']
                self.assertEqual(('hm, grü', 'hm, grü', 'Well.'), (message['reasoning_content'], message['reasoning'], message['content']))
                self.assertEqual((9, 8, 4, 5), (answer['usage']['prompt_tokens'], answer['usage']['completion_tokens'],
                                                answer['usage']['prompt_tokens_details']['cached_tokens'],
                                                answer['usage']['completion_tokens_details']['reasoning_tokens']))
                deltas = [c['delta'] for e in events(chat(server, 'a', stream=True)) for c in e['choices']]
                self.assertEqual('hm, grü', ''.join(d.get('reasoning_content') or '' for d in deltas))
                self.assertEqual('Well.', ''.join(d.get('content') or '' for d in deltas))
                self.assertNotIn('reasoning', chat(server, 'a', include_reasoning=False).json()['choices'][0]['message'])
                response = self.post(server, '/v1/responses', input='a').json()
                self.assertEqual(['reasoning', 'message'], [item['type'] for item in response['output']])
                self.assertEqual('hm, grü', response['output'][0]['content'][0]['text'])
                self.assertEqual(5, response['usage']['output_tokens_details']['reasoning_tokens'])
                anthropic = self.post(server, '/v1/messages', max_tokens=50, messages=[{'role': 'user', 'content': 'a'}]).json()
                self.assertEqual([('thinking', 'hm, grü'), ('text', 'Well.')],
                                 [(b['type'], b[b['type']]) for b in anthropic['content']])
                ollama = self.post(server, '/api/chat', messages=[{'role': 'user', 'content': 'a'}], stream=False).json()['message']
                self.assertEqual(('hm, grü', 'Well.'), (ollama['thinking'], ollama['content']))
                # A plain prompt is answered by the text alone.
                self.assertEqual('Well.', self.post(server, '/v1/completions', prompt='a').json()['choices'][0]['text'])

    def test_thoughts_before_calls_and_forms(self):
        call = {'index': 0, 'id': 'c', 'function': {'name': 'get_weather', 'arguments': '{"city": "Oslo"}'}}
        for server in self.each(said({'reasoning_content': 'hm'}, {'tool_calls': [call]}, finish='tool_calls')):
            message = chat(server, 'a', tools=TOOLS).json()['choices'][0]['message']
            self.assertEqual(('hm', None, 'get_weather'), (message['reasoning'], message['content'], message['tool_calls'][0]['function']['name']))
        for server in self.each(said({'reasoning_content': 'no JSON'}, {'content': '{"a": 1}'})):
            message = chat(server, 'a', response_format={'type': 'json_object'}).json()['choices'][0]['message']
            self.assertEqual(('no JSON', '{"a": 1}'), (message['reasoning'], message['content']))
        for server in self.each(said({'reasoning_content': 'all of it'}, finish='length')):
            choice = chat(server, 'a').json()['choices'][0]
            self.assertEqual(('all of it', '', 'length'), (choice['message']['reasoning'], choice['message']['content'], choice['finish_reason']))

    def test_thoughts_that_an_origin_leaves_in_its_text_are_thoughts(self):
        for server in self.each(said({'content': '<thi'}, {'content': 'nk>hm</think>\n\nx'})):
            message = chat(server, 'a').json()['choices'][0]['message']
            self.assertEqual(('hm', 'x'), (message['reasoning'], message['content']))
        # Thoughts behind the beginning of the text have no place.
        for server in self.each(said({'reasoning': 'hm'}, {'content': 'x'}, {'reasoning': 'late'}, {'content': 'y'})):
            message = chat(server, 'a').json()['choices'][0]['message']
            self.assertEqual(('hm', 'xy'), (message['reasoning'], message['content']))

    def test_settings_of_thoughts_go_along(self):
        for server in self.each(said({'content': 'x'})):
            chat(server, 'a', reasoning_effort='low', verbosity='high')
            self.assertEqual(('low', 'high'), (self.request()['reasoning_effort'], self.request()['verbosity']))
            self.post(server, '/v1/responses', input='a', reasoning={'effort': 'high'})
            self.assertEqual('high', self.request()['reasoning_effort'])
            chat(server, 'a', chat_template_kwargs={'enable_thinking': False, 'budget': 7})
            self.assertEqual({'budget': 7, 'enable_thinking': False, 'thinking': False}, self.request()['chat_template_kwargs'])
            self.post(server, '/api/chat', messages=[{'role': 'user', 'content': 'a'}], stream=False, think=True)
            self.assertEqual({'enable_thinking': True, 'thinking': True}, self.request()['chat_template_kwargs'])
            self.post(server, '/v1/messages', max_tokens=5, messages=[{'role': 'user', 'content': 'a'}], thinking={'type': 'disabled'})
            self.assertEqual({'enable_thinking': False, 'thinking': False}, self.request()['chat_template_kwargs'])
            chat(server, 'a')
            self.assertFalse({'reasoning_effort', 'chat_template_kwargs', 'tool_choice', 'parallel_tool_calls'} & set(self.request()))

    def test_whether_to_think_is_told_as_the_origin_takes_it(self):
        for more, listed, want in (('', {}, {}), (', thinking: effort', {}, {'reasoning_effort': 'none'}),
                                   ('', {'owned_by': 'library'}, {'reasoning_effort': 'none'}),
                                   (', thinking: none', {'owned_by': 'vllm'}, {}),
                                   ('', {'owned_by': 'vllm'}, {'chat_template_kwargs': {'enable_thinking': False, 'thinking': False}})):
            origin = Origin()
            self.addCleanup(origin.close)
            origin.models = {'data': [{'id': 'm', **listed}]}
            origin.behave = lambda sock, fields, request: sock.sendall(said({'content': 'x'}))
            server = gateway(f'http://127.0.0.1:{origin.port}', more=more)
            self.addCleanup(server.stop)
            chat(server, 'a', enable_thinking=False)
            request = origin.seen[-1][1]
            self.assertEqual(want, {k: request[k] for k in ('reasoning_effort', 'chat_template_kwargs') if k in request})

    # ---- images

    def test_images_go_along_as_they_are(self):
        for url in (PIXEL, 'https://pictures.example/a.png?x=1&y=%20', 'data:image/jpeg;base64,' + 'A' * (1 << 20)):
            for server in self.each(said({'content': 'a cat'})):
                text, image = {'type': 'text', 'text': 'what is "this"?'}, {'type': 'image_url', 'image_url': {'url': url, 'detail': 'low'}}
                answer = chat(server, {'role': 'user', 'content': [text, image, image]})
                self.assertEqual(200, answer.status, answer.body)
                self.assertEqual([{'role': 'user', 'content': [text, image, image]}], self.request()['messages'])
                part = {'type': 'image_url', 'image_url': {'url': url}}
                self.post(server, '/v1/responses', input=[{'role': 'user', 'content': [
                    {'type': 'input_text', 'text': 'b'}, {'type': 'input_image', 'image_url': url}]}])
                self.assertEqual([{'type': 'text', 'text': 'b'}, part], self.request()['messages'][0]['content'])
                source = ({'type': 'base64', 'media_type': url[5:url.index(';')], 'data': url[url.index(',') + 1:]} if url.startswith('data')
                          else {'type': 'url', 'url': url})
                self.post(server, '/v1/messages', max_tokens=5, messages=[{'role': 'user', 'content': [{'type': 'image', 'source': source}]}])
                self.assertEqual([part], self.request()['messages'][0]['content'])
        for server in self.each(said({'content': 'a cat'})):
            self.post(server, '/api/chat', stream=False, messages=[{'role': 'user', 'content': 'c', 'images': [PIXEL.split(',')[1]]}])
            parts = self.request()['messages'][0]['content']
            self.assertEqual(['image_url', 'text'], [p['type'] for p in parts])
            self.assertTrue(parts[0]['image_url']['url'].endswith(PIXEL.split(',')[1]))

    def test_what_is_no_image_is_refused(self):
        for server in self.each(said({'content': 'x'})):
            before = len(self.origin.seen)
            for url in ('file:///etc/passwd', 'http://a/"b', 'http://a/' + 'b' * 9000, 'ftp://a', 'data:image/png;base64,a\\b', ''):
                answer = chat(server, {'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': url}}]})
                self.assertEqual(400, answer.status, (url[:40], answer.body))
            parts = [{'type': 'text', 'text': '<|weir_image|><|weir_pad|><|weir_image_end|>'}, {'type': 'image_url', 'image_url': PIXEL}]
            self.assertEqual(400, chat(server, {'role': 'user', 'content': parts}).status)
            self.assertEqual(400, chat(server, {'role': 'user', 'content': [parts[1]] * 65}).status)
            self.assertEqual(before, len(self.origin.seen))

    def test_images_are_charged_until_they_are_answered(self):
        def charged():
            text = curl(self.near.url('/metrics')).body.decode()
            return sum(float(line.rsplit(' ', 1)[1]) for line in text.splitlines() if line.startswith('weir_tracked_bytes{kind="input"'))
        go = threading.Event()
        self.origin.behave = lambda sock, fields, request: (go.wait(1.5), sock.sendall(said({'content': 'x'})))
        part = {'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,' + 'A' * (2 << 20)}}
        waits = threading.Thread(target=lambda: chat(self.near, {'role': 'user', 'content': [part]}))
        waits.start()
        try:
            until(lambda: charged() > 2 << 20, 'that the image is charged')
        finally:
            go.set()
            waits.join()
        until(lambda: charged() < 1 << 20, 'that it is not any more')

    def test_the_model_says_whether_it_takes_images(self):
        for server in self.each():
            self.assertTrue(curl(server.url('/v1/models')).json()['data'][0]['images'])
            self.assertIn('vision', self.post(server, '/api/show').json()['capabilities'])
        blind = gateway(f'http://127.0.0.1:{self.near.port}', more=', vision: false')
        self.addCleanup(blind.stop)
        self.assertFalse(curl(blind.url('/v1/models')).json()['data'][0]['images'])
        self.assertNotIn('vision', self.post(blind, '/api/show').json()['capabilities'])
        answer = chat(blind, {'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': PIXEL}}]})
        self.assertEqual(400, answer.status)
        self.assertIn('takes no images', answer.body.decode())

    # ---- calls that must be made

    def test_calls_that_must_be_made(self):
        call = {'index': 0, 'id': 'c', 'function': {'name': 'get_weather', 'arguments': '{"other": [1], "city": 7}'}}
        strict = [{'type': 'function', 'function': {'name': 'get_weather', 'strict': True, 'parameters': {
            'type': 'object', 'properties': {'city': {'type': 'string', 'format': 'nobody-knows'}}, 'not': {}}}}]
        named = {'type': 'function', 'function': {'name': 'get_weather'}}
        for server in self.each(said({'tool_calls': [call]}, finish='tool_calls')):
            for choice in ('required', named):
                for stream in (False, True):
                    answer = chat(server, 'a', tools=strict, tool_choice=choice, parallel_tool_calls=False, stream=stream)
                    self.assertEqual(200, answer.status, answer.body)
                    self.assertEqual((choice, False, strict), tuple(self.request()[k] for k in ('tool_choice', 'parallel_tool_calls', 'tools')))
                    pieces = [c for e in (events(answer) if stream else [answer.json()]) for c in e['choices']]
                    calls = [c['function'] for p in pieces for c in p.get('delta', p.get('message')).get('tool_calls') or []]
                    self.assertEqual('get_weather', calls[0]['name'])
                    self.assertEqual({'other': [1], 'city': 7}, json.loads(''.join(c.get('arguments') or '' for c in calls)))
            anthropic = self.post(server, '/v1/messages', max_tokens=50, messages=[{'role': 'user', 'content': 'a'}], tool_choice={'type': 'any'},
                                  tools=[{'name': 'get_weather', 'input_schema': {'type': 'object'}}]).json()
            self.assertEqual(('tool_use', 'required'), (anthropic['content'][0]['type'], self.request()['tool_choice']))
            response = self.post(server, '/v1/responses', input='a', tool_choice={'type': 'function', 'name': 'get_weather'},
                                 tools=[{'type': 'function', 'name': 'get_weather', 'parameters': {'type': 'object'}}]).json()
            self.assertEqual(('function_call', named), (response['output'][0]['type'], self.request()['tool_choice']))
            self.assertEqual(400, chat(server, 'a', tools=TOOLS, tool_choice={'type': 'function', 'function': {'name': 'g'}}).status)

    def test_calls_or_a_form(self):
        form = {'type': 'json_schema', 'json_schema': {'name': 'answer', 'strict': True, 'schema': {
            'type': 'object', 'properties': {'a': {'type': 'integer'}}, 'required': ['a'], 'additionalProperties': False}}}
        call = {'index': 0, 'id': 'c', 'function': {'name': 'get_weather', 'arguments': '{"city": "Oslo"}'}}
        for server in self.each(said({'tool_calls': [call]}, finish='tool_calls')):
            choice = chat(server, 'a', tools=TOOLS, response_format=form).json()['choices'][0]
            self.assertEqual('tool_calls', choice['finish_reason'])
            self.assertEqual((form, TOOLS), (self.request()['response_format'], self.request()['tools']))
        for server in self.each(said({'content': '{"a": 1}'})):
            self.assertEqual('{"a": 1}', chat(server, 'a', tools=TOOLS, response_format=form).json()['choices'][0]['message']['content'])
        for server in self.each(said({'content': '{"b": 1}'})):
            self.assertIn(chat(server, 'a', tools=TOOLS, response_format=form).status, (500, 503))

    # ---- origins that mean harm

    def good(self, server):
        self.origin.behave = lambda sock, fields, request: sock.sendall(said({'content': 'well'}))
        self.assertEqual('well', chat(server, 'a').json()['choices'][0]['message']['content'])

    def test_lying_types_and_huge_lists_cost_one_call(self):
        def choice(**more):
            return head() + event({'choices': [{'index': 0, 'delta': {'content': 'a'}, **more}]}) + END
        tops = entry('a', -1, *[('b', -2)] * 9000)
        for behave in (choice(logprobs=7), choice(logprobs={'content': {}}), choice(logprobs={'content': [7]}),
                       choice(logprobs={'content': [{'token': 7}]}), choice(logprobs={'content': [{'logprob': 'x'}]}),
                       choice(logprobs={'content': [{'bytes': [300]}]}), choice(logprobs={'content': [{'token': 'x' * 5000}]}),
                       choice(logprobs={'content': [{}] * 20_000}), choice(logprobs={'content': [tops] * 3}),
                       head() + event({'usage': {'completion_tokens_details': [1]}}) + END):
            for server in self.each(behave):
                answer = chat(server, 'a', logprobs=True, top_logprobs=2)
                self.assertIn(answer.status, (500, 502, 503), (behave[:200], answer.body[:300]))
                self.assertIn('origin 127.0.0.1', answer.body.decode())
                self.good(server)
        # More alternatives than were asked for, and what nobody asked for, is passed over.
        for server in self.each(with_logprobs(('a', [entry('a', -1, *[('b', -2)] * 1000)]))):
            self.assertEqual(2, len(chat(server, 'a', logprobs=True, top_logprobs=2).json()['choices'][0]['logprobs']['content'][0]['top_logprobs']))
        for server in self.each(choice(logprobs=7, finish_reason='stop')):
            self.assertEqual(200, chat(server, 'a').status)

    def test_thoughts_and_log_probabilities_without_end_have_one_here(self):
        def endless(delta, **more):
            piece = event({'choices': [{'index': 0, 'delta': delta, **more}]})

            def behave(sock, fields, request):
                sock.sendall(head())
                for _ in range(200_000):
                    sock.sendall(piece)
            return behave
        for behave in (endless({'reasoning_content': 'hm' * 2000}), endless({'reasoning': 'x', 'reasoning_content': 'y' * 9000, 'content': None}),
                       endless({}, logprobs={'content': [entry('', -1)] * 500})):
            for server in self.each(behave):
                answer = chat(server, 'a', max_tokens=8, logprobs=True)
                self.assertIn(answer.status, (500, 503), answer.body[:300])
                self.assertRegex(answer.body.decode(), 'more tokens than the 8|too many entries')
                self.good(server)

    def test_others_are_served_while_thoughts_pour_in(self):
        thoughts = said(*[{'reasoning_content': 'hm ' * 20_000}] * 4, {'content': 'x'})
        done = threading.Event()
        waits = []

        def look():
            while not done.is_set():
                before = time.monotonic()
                curl(self.near.url('/v2/health/live'))
                waits.append(time.monotonic() - before)
        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            for server in self.each(thoughts):
                self.assertEqual(240_000 - 1, len(chat(server, 'a').json()['choices'][0]['message']['reasoning']))
        finally:
            done.set()
            watcher.join()
        self.assertLess(max(waits), 2)

    def test_an_answer_in_one_piece_has_all_of_it(self):
        body = {'choices': [{'message': {'role': 'assistant', 'content': 'Grüße', 'reasoning_content': 'hm'}, 'finish_reason': 'stop',
                             'logprobs': {'content': ENTRIES}}],
                'usage': {'prompt_tokens': 2, 'completion_tokens': 9, 'completion_tokens_details': {'reasoning_tokens': 4}}}
        for server in self.each(whole(body)):
            answer = chat(server, 'a', logprobs=True, top_logprobs=2).json()
            self.assertEqual(('hm', 'Grüße'), (answer['choices'][0]['message']['reasoning'], answer['choices'][0]['message']['content']))
            self.assertEqual(ENTRIES, answer['choices'][0]['logprobs']['content'])
            self.assertEqual(4, answer['usage']['completion_tokens_details']['reasoning_tokens'])


class RealModel(unittest.TestCase):
    """A model that runs in the weir that is the origin."""

    def test_log_probabilities_and_usage_are_the_models(self):
        there = harness.Server(repository=model_folder())
        self.addCleanup(there.stop)
        here = gateway(f'http://127.0.0.1:{there.port}')
        self.addCleanup(here.stop)
        for seed in range(4):
            asked = {'max_tokens': 24, 'temperature': 1, 'seed': seed, 'logprobs': True, 'top_logprobs': 3}
            want, got = (chat(server, 'Once', **asked).json() for server in (there, here))
            self.assertEqual(want['choices'][0]['message']['content'], got['choices'][0]['message']['content'])
            self.assertEqual(want['choices'][0]['logprobs'], got['choices'][0]['logprobs'])
            self.assertEqual(want['choices'][0]['finish_reason'], got['choices'][0]['finish_reason'])
            for name in ('prompt_tokens', 'completion_tokens'):
                self.assertEqual(want['usage'][name], got['usage'][name])


if __name__ == '__main__':
    harness.main()
