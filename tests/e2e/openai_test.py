"""The OpenAI endpoints and …/generate as their clients see them: curl, the official npm package, the demo model."""

import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import threading
import unittest

import harness
from harness import curl


def post(server, path, body):
    connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=harness.PATIENCE)
    connection.request('POST', path, json.dumps({'model': 'chat', **body}), {'Content-Type': 'application/json'})
    answer = connection.getresponse()
    out = answer.status, answer.read()
    connection.close()
    return out


def events(body):
    """The data of each Server-Sent Event."""
    return [event[6:] for event in body.decode().split('\n\n') if event.startswith('data: ')]


def streamed(server, path, body):
    """The text of each choice of a stream, by index, and its finish reasons."""
    status, raw = post(server, path, {**body, 'stream': True})
    assert status == 200, raw
    assert raw.endswith(b'data: [DONE]\n\n'), raw[-200:]
    texts, reasons = {}, {}
    for event in events(raw)[:-1]:
        for choice in json.loads(event)['choices']:
            text = choice['text'] if 'text' in choice else choice['delta'].get('content', '')
            texts[choice['index']] = texts.get(choice['index'], '') + text
            if choice['finish_reason']:
                reasons[choice['index']] = choice['finish_reason']
    return texts, reasons


class Openai(harness.Case):
    def test_curl_streams_a_chat(self):
        body = json.dumps({'model': 'chat', 'messages': [{'role': 'user', 'content': 'What is curl?'}], 'stream': True, 'max_tokens': 8,
                           'stream_options': {'include_usage': True}})
        done = subprocess.run(['curl', '-sSN', '-i', self.server.url('/v1/chat/completions'), '-d', body], stdout=subprocess.PIPE,
                              timeout=harness.PATIENCE, check=True)
        head, _, rest = done.stdout.partition(b'\r\n\r\n')
        self.assertIn(b'content-type: text/event-stream', head.lower())
        self.assertIn(b'x-request-id', head.lower())
        self.assertIn(b'openai-processing-ms', head.lower())
        chunks = re.findall(rb'data: (.*)\n\n', rest)
        self.assertEqual(b'[DONE]', chunks[-1])
        self.assertEqual({'role': 'assistant', 'content': ''}, json.loads(chunks[0])['choices'][0]['delta'])
        self.assertEqual([], json.loads(chunks[-2])['choices'])
        self.assertEqual(8, json.loads(chunks[-2])['usage']['completion_tokens'])

    def passes(self, client, count, server=None, *args):
        """The program of a client against the server: so many cases, a regular expression, and all of them pass."""
        env = {**os.environ, 'NODE_PATH': str(harness.ROOT / '.cache/npm/node_modules')}
        done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e' / client), (server or self.server).url(), 'chat', *args],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, env=env)
        self.assertEqual(0, done.returncode, done.stdout.decode())
        self.assertRegex(done.stdout.decode(), rf'(?m)^{count} passed, 0 failed$')

    def test_the_official_client(self):
        self.passes('openai_client.js', r'1\d')

    def test_the_official_client_calls_tools(self):
        self.passes('tools_client.js', '9')

    def test_frameworks(self):
        self.passes('frameworks_client.js', '57')

    def test_llamaindex_and_instructor(self):
        self.passes('extraction_client.js', '17')

    def test_the_official_client_of_azure(self):
        self.passes('azure_client.js', '7')
        server = harness.Server('--openai-api-keys', 'a-key')
        self.passes('azure_client.js', '7', server, 'a-key')

    def test_the_official_clients_responses(self):
        self.passes('responses_client.js', '14')

    def test_the_official_clients_conversations(self):
        self.passes('conversations_client.js', '5')

    def test_the_official_clients_stored_chats(self):
        self.passes('chats_client.js', '4')

    def test_hostile_tools_hold_up_nobody_else(self):
        def tools(parameters, count=1):
            return [{'type': 'function', 'function': {'name': f'f{i}', 'parameters': parameters}} for i in range(count)]

        deep = {'type': 'string'}
        for _ in range(90):
            deep = {'type': 'object', 'properties': {'a': deep}}
        wide = {'type': 'object', 'properties': {f'p{i}': {'type': 'string', 'pattern': '^(a|b){1,50}$'} for i in range(40)}}
        slow = {'type': 'object', 'properties': {'a': {'type': 'string', 'pattern': '((((a{1000}){1000}){1000}){1000}){1000}'}}}
        hostile = [tools(wide, 128), tools(deep), tools(slow), tools({'$ref': '#'}), tools({'oneOf': [{'const': i} for i in range(1500)]}),
                   tools({}, 129), tools(wide, 4)]

        def attack(i):
            body = {'messages': [{'role': 'user', 'content': 'x'}], 'tools': hostile[i], 'tool_choice': 'required', 'max_tokens': 60}
            status, raw = post(self.server, '/v1/chat/completions', body)
            self.assertIn(status, (200, 400, 429, 503), raw)

        with harness.threads(len(hostile), attack):
            for _ in range(5):
                self.assertEqual(200, post(self.server, '/v1/completions', {'prompt': 'hello', 'max_tokens': 4})[0])

    def test_tokens_and_words_that_are_kept_out(self):
        def complete(**more):
            body = {'prompt': 'What is curl?', 'max_tokens': 12, 'temperature': 0, 'ignore_eos': True, 'return_token_ids': True, **more}
            status, raw = post(self.server, '/v1/completions', body)
            self.assertEqual(200, status, raw)
            choice = json.loads(raw)['choices'][0]
            return choice['text'], choice['token_ids']

        text, ids = complete()
        self.assertLessEqual(set(complete(allowed_token_ids=ids[:3])[1]), set(ids[:3]))
        word = max(re.findall(r'\w+', text), key=len)
        self.assertNotIn(word, complete(bad_words=[word])[0])
        kept = complete(allowed_token_ids=ids, bad_words=[word])
        self.assertLessEqual(set(kept[1]), set(ids))
        self.assertNotIn(word, kept[0])

    def test_clients_of_ollama_and_anthropic(self):
        self.passes('agents_client.js', r'2\d')

    def test_streams_side_by_side_say_what_each_says_alone(self):
        words = ['What is curl?', 'Tell me about the GNU compiler collection, and what it is for.', 'hi', 'Why?']
        asks = []
        for i in range(32):
            sampling = {'temperature': 0} if i % 2 else {'temperature': 0.9, 'seed': i, 'top_p': 0.95, 'top_k': 50}
            prompt = ' '.join([words[i % 4]] * (1 + i % 7)) + ' ' + str(i)
            if i % 3:
                asks.append(('/v1/chat/completions', {'messages': [{'role': 'user', 'content': prompt}], 'max_tokens': 16 + i, **sampling}))
            else:
                asks.append(('/v1/completions', {'prompt': prompt, 'max_tokens': 16 + i, 'n': 1 + i % 2, **sampling}))
        alone = [streamed(self.server, *ask) for ask in asks]
        together = [None] * len(asks)

        def one(i):
            together[i] = streamed(self.server, *asks[i])

        with harness.threads(len(asks), one):
            pass
        for i, ask in enumerate(asks):
            self.assertEqual(alone[i], together[i], ask)

    def test_clients_that_leave_free_what_they_had(self):
        for i in range(24):
            connection = http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=harness.PATIENCE)
            connection.request('POST', '/v1/completions',
                               json.dumps({'model': 'chat', 'prompt': 'curl', 'max_tokens': 1500, 'ignore_eos': True, 'stream': True, 'n': 2}))
            connection.getresponse().read(100 * i + 1)
            connection.close()
        end = threading.Event()
        for _ in range(200):
            if curl(self.server.url('/load')).json()['server_load'] == 0:
                break
            end.wait(0.05)
        self.assertEqual({'server_load': 0}, curl(self.server.url('/load')).json())
        status, body = post(self.server, '/v1/completions', {'prompt': 'curl is', 'max_tokens': 4})
        self.assertEqual(200, status, body)

    def test_errors(self):
        for body, status, code, param in [
                ({'prompt': 'x', 'temperature': -1}, 400, None, 'temperature'),
                ({'prompt': 'x', 'n': 2**63}, 400, None, 'n'),
                ({'prompt': 'a' * (1 << 20)}, 400, 'context_length_exceeded', 'prompt'),
                ({'prompt': 'x', 'model': 'nope'}, 404, 'model_not_found', 'model'),
                ({'prompt': 'x', 'guided_regex': '('}, 400, None, 'guided_regex')]:
            got, raw = post(self.server, '/v1/completions', body)
            error = json.loads(raw)['error']
            self.assertEqual((status, code, param), (got, error['code'], error['param']), raw)
        self.assertEqual(413, post(self.server, '/v1/completions', {'prompt': 'a' * (5 << 20)})[0])
        self.assertEqual('invalid_request_error', curl(self.server.url('/v1/nope')).json()['error']['type'])

    def test_a_call_of_a_tool_has_no_content(self):
        call = {'id': 'c1', 'type': 'function', 'function': {'name': 'add', 'arguments': '{"a": 2}'}}
        for assistant in ({'content': None, 'tool_calls': [call]}, {'tool_calls': [call]}, {'content': None}):
            messages = [{'role': 'user', 'content': 'Hello'}, {'role': 'assistant', **assistant},
                        {'role': 'tool', 'tool_call_id': 'c1', 'content': '4'}]
            status, raw = post(self.server, '/v1/chat/completions', {'messages': messages, 'max_tokens': 2})
            self.assertEqual(status, 200, raw)

    def test_an_image_in_a_chat(self):
        image = base64.b64encode((harness.ROOT / 'tests/data/chat/digit_7.png').read_bytes()).decode()
        content = [{'type': 'image_url', 'image_url': {'url': f'data:image/png;base64,{image}'}}, {'type': 'text', 'text': 'What digit is this?'}]
        ask = {'messages': [{'role': 'user', 'content': content}], 'temperature': 0, 'max_tokens': 20, 'return_token_ids': True}
        status, raw = post(self.server, '/v1/chat/completions', ask)
        self.assertEqual(200, status, raw)
        answer = json.loads(raw)
        self.assertRegex(answer['choices'][0]['message']['content'], r'^This is an? [a-z]+\.$')
        self.assertEqual(16, answer['prompt_token_ids'].count(3070), 'one pad for each feature')
        content[0]['image_url']['url'] = 'data:image/png;base64,' + image[:100]
        self.assertEqual(400, post(self.server, '/v1/chat/completions', ask)[0])
        content[0]['image_url']['url'] = 'http://127.0.0.1/x.png'
        self.assertEqual(400, post(self.server, '/v1/chat/completions', ask)[0])

    def test_tokens_and_back(self):
        text = 'curl — a tool for URLs 🙂'
        tokens = json.loads(post(self.server, '/tokenize', {'prompt': text, 'add_special_tokens': False})[1])
        self.assertEqual(tokens['count'], len(tokens['tokens']))
        self.assertEqual(text, json.loads(post(self.server, '/detokenize', {'tokens': tokens['tokens']})[1])['prompt'])
        ask = {'max_tokens': 8, 'temperature': 0, 'return_token_ids': True}
        by_text = json.loads(post(self.server, '/v1/completions', {'prompt': text, 'add_special_tokens': False, **ask})[1])
        by_ids = json.loads(post(self.server, '/v1/completions', {'prompt': tokens['tokens'], **ask})[1])
        self.assertEqual(tokens['tokens'], by_text['choices'][0]['prompt_token_ids'])
        self.assertEqual(by_text['choices'][0]['token_ids'], by_ids['choices'][0]['token_ids'])

    def test_generate(self):
        ask = {'text_input': 'curl is a', 'parameters': {'temperature': 0, 'max_tokens': 12}}
        whole = curl(self.server.url('/v2/models/chat/generate'), data=json.dumps(ask)).json()
        self.assertEqual({'model_name', 'model_version', 'text_output'}, set(whole))
        stream = curl(self.server.url('/v2/models/chat/generate_stream'), data=json.dumps(ask))
        self.assertEqual('text/event-stream; charset=utf-8', stream.headers['content-type'])
        parts = [json.loads(event)['text_output'] for event in events(stream.body)]
        self.assertGreater(len(parts), 4)
        self.assertEqual(whole['text_output'], ''.join(parts))
        completion = json.loads(post(self.server, '/v1/completions', {'prompt': 'curl is a', 'temperature': 0, 'max_tokens': 12})[1])
        self.assertEqual(whole['text_output'], completion['choices'][0]['text'])

    def test_generate_of_a_model_of_tensors(self):
        answer = curl(self.server.url('/v2/models/simple/generate'),
                      data=json.dumps({'INPUT0': list(range(16)), 'INPUT1': [1] * 16})).json()
        self.assertEqual([i + 1 for i in range(16)], answer['OUTPUT0'])

    def test_infer_and_stream_infer_say_the_same(self):
        pb, rpc = harness.stubs()('inference')
        import grpc
        import numpy

        def request(stream):
            ask = pb.ModelInferRequest(model_name='chat')
            tensor = ask.inputs.add(name='text_input', datatype='BYTES', shape=[1])
            tensor.contents.bytes_contents.append(b'curl is a')
            ask.parameters['temperature'].double_param = 0
            ask.parameters['max_tokens'].int64_param = 12
            if stream:
                ask.parameters['stream'].bool_param = True
            return ask

        def text(answer):
            raw = answer.raw_output_contents[0] if answer.raw_output_contents else b'\0\0\0\0'
            size = int(numpy.frombuffer(raw[:4], '<u4')[0])
            return raw[4:4 + size].decode()

        with grpc.insecure_channel(self.server.address) as channel:
            stub = rpc.GRPCInferenceServiceStub(channel)
            whole = text(stub.ModelInfer(request(False)))
            answers = list(stub.ModelStreamInfer(iter([request(True)])))
        self.assertEqual([''] * len(answers), [a.error_message for a in answers])
        self.assertGreater(len(answers), 4)
        self.assertEqual(whole, ''.join(text(a.infer_response) for a in answers))
        generated = curl(self.server.url('/v2/models/chat/generate'),
                         data=json.dumps({'text_input': 'curl is a', 'temperature': 0, 'max_tokens': 12})).json()
        self.assertEqual(whole, generated['text_output'])


class WithKeys(harness.Case):
    serve = ('--openai-api-keys', 'sk-test')

    def test_a_key_is_asked_for(self):
        refused = curl(self.server.url('/v1/models'))
        self.assertEqual((401, 'invalid_api_key'), (refused.status, refused.json()['error']['code']))
        self.assertEqual(200, curl(self.server.url('/v1/models'), '-H', 'Authorization: Bearer sk-test').status)
        self.assertEqual(200, curl(self.server.url('/health')).status)


class Formats(unittest.TestCase):
    """Copies of the demo model whose templates and settings say other things of calls and thoughts."""

    @classmethod
    def setUpClass(cls):
        repository = harness.scratch() / 'formats'
        for name, parameters in (('thinks', ''), ('silent', 'parameters: {tool_format: none}\n'), ('llama', 'parameters: {tool_format: llama}\n')):
            shutil.copytree(harness.MODELS / 'chat', repository / name)
            with open(repository / name / 'model.yaml', 'a') as settings:
                settings.write(parameters)
        template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if enable_thinking is not false %}<think>\n{% else %}<think></think>{% endif %}"
        (repository / 'thinks/1/chat_template.jinja').write_text(template)
        cls.server = harness.Server(repository=repository)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def chat(self, model, **body):
        status, raw = post(self.server, '/v1/chat/completions', {'model': model, 'messages': [{'role': 'user', 'content': 'hi'}], 'max_tokens': 60, 'temperature': 0, **body})
        return status, json.loads(raw)

    def test_thoughts_are_told_from_the_answer(self):
        form = {'guided_regex': '[a-c]{5}</think>\\n[x-z]{4}'}
        status, answer = self.chat('thinks', **form)
        self.assertEqual(200, status, answer)
        message = answer['choices'][0]['message']
        self.assertRegex(message['reasoning_content'], '^[a-c]{5}$')
        self.assertRegex(message['content'], '^[x-z]{4}$')
        status, raw = post(self.server, '/v1/chat/completions', {'model': 'thinks', 'messages': [{'role': 'user', 'content': 'hi'}], 'stream': True, 'temperature': 0, **form})
        deltas = [json.loads(event)['choices'][0]['delta'] for event in events(raw)[:-1]]
        self.assertEqual(message['reasoning_content'], ''.join(delta.get('reasoning_content', '') for delta in deltas))
        self.assertEqual(message['content'], ''.join(delta.get('content', '') for delta in deltas))

    def test_thoughts_are_switched_off(self):
        for off in ({'enable_thinking': False}, {'chat_template_kwargs': {'enable_thinking': False}}, {'reasoning_effort': 'none'}):
            status, answer = self.chat('thinks', response_format={'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': {'const': 7}}}, **off)
            self.assertEqual((200, '7'), (status, answer['choices'][0]['message']['content']))
            self.assertNotIn('reasoning_content', answer['choices'][0]['message'])

    def test_the_setting_chooses_the_format(self):
        tools = [{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object', 'properties': {'a': {'enum': [1]}}, 'required': ['a']}}}]
        status, answer = self.chat('silent', tools=tools)
        self.assertEqual((400, 'tools'), (status, answer['error']['param']))
        self.assertIn('tool_format', answer['error']['message'])
        self.assertEqual(200, self.chat('llama', tools=tools)[0])
        for model in ('silent', 'llama'):
            status, answer = self.chat(model, tools=tools, tool_choice={'type': 'function', 'function': {'name': 'f'}}, max_tokens=200)
            self.assertEqual(200, status, answer)
            [call] = answer['choices'][0]['message']['tool_calls']
            self.assertEqual(('f', 1), (call['function']['name'], json.loads(call['function']['arguments'])['a']))

    def test_the_expression_of_a_custom_tool_is_held_to_or_refused(self):
        def ask(expression):
            grammar = {'type': 'grammar', 'grammar': {'syntax': 'regex', 'definition': expression}}
            return self.chat('llama', tools=[{'type': 'custom', 'custom': {'name': 'f', 'format': grammar}}], max_tokens=200,
                             tool_choice={'type': 'custom', 'custom': {'name': 'f'}})
        status, answer = ask('[0-9]{3}')
        self.assertEqual(200, status, answer)
        self.assertRegex(answer['choices'][0]['message']['tool_calls'][0]['custom']['input'], '^[0-9]{3}$')
        dates = r'^(?P<month>January|May)\s(?P<day>\d{1,2})(?:st|nd|rd|th)?\s(?<year>\d{4})\s+at\s(?P<hour>0?[1-9]|1[0-2])(?P<half>AM|PM)$'
        for expression in ('^abc$', '^a$|^b', dates):
            status, answer = ask(expression)
            self.assertEqual(200, status, answer)
            whole = '^(?:' + expression.replace('?<y', '?P<y') + ')$'
            self.assertRegex(answer['choices'][0]['message']['tool_calls'][0]['custom']['input'], whole)
        for expression in ('(', '(?=a)b', 'a)|(b', r'(a)\1'):
            status, answer = ask(expression)
            self.assertEqual((400, 'tools'), (status, answer.get('error', {}).get('param')), answer)
            self.assertIn('pattern', answer['error']['message'])


if __name__ == '__main__':
    harness.main()
