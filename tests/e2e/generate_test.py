"""SGLang's and Text Generation Inference's routes on the demo model, as their clients send and read them."""

import json
import unittest

import harness
from harness import curl


class Generate(harness.Case):
    def ask(self, path, body):
        return curl(self.server.url(path), '-H', 'Content-Type: application/json', data=json.dumps({'model': 'chat', **body}))

    @staticmethod
    def events(answer):
        return [line[6:] for line in answer.body.decode().split('\n\n') if line.startswith('data: ')]

    def test_sglang_and_tgi_and_openai_say_the_same(self):
        text, count = 'curl is a', 12
        completion = self.ask('/v1/completions', {'prompt': text, 'temperature': 0, 'max_tokens': count}).json()['choices'][0]['text']
        params = {'temperature': 0, 'max_new_tokens': count}
        sglang = self.ask('/generate', {'text': text, 'sampling_params': params}).json()
        self.assertEqual(completion, sglang['text'])
        self.assertEqual(count, len(sglang['output_ids']))
        self.assertEqual({'type': 'length', 'length': count}, sglang['meta_info']['finish_reason'])
        streamed = self.events(self.ask('/generate', {'text': text, 'sampling_params': params, 'stream': True}))
        self.assertEqual('[DONE]', streamed[-1])
        texts = [json.loads(event)['text'] for event in streamed[:-1]]
        self.assertTrue(all(later.startswith(earlier) for earlier, later in zip(texts, texts[1:])), texts)
        self.assertEqual(completion, texts[-1])
        tgi = self.ask('/generate', {'inputs': text, 'parameters': {'max_new_tokens': count, 'details': True}}).json()
        self.assertEqual(completion, tgi['generated_text'])
        self.assertEqual(sglang['output_ids'], [token['id'] for token in tgi['details']['tokens']])
        events = [json.loads(event) for event in self.events(self.ask('/generate_stream', {'inputs': text, 'parameters': {'max_new_tokens': count}}))]
        self.assertEqual(list(range(1, count + 1)), [event['index'] for event in events])
        self.assertEqual(completion, ''.join(event['token']['text'] for event in events if not event['token']['special']))
        self.assertEqual(completion, events[-1]['generated_text'])
        for path in ('/invocations', '/'):  # the latter as Hugging Face's clients ask a server's address
            self.assertEqual([completion], [one['generated_text'] for one in self.ask(path, {'inputs': text, 'parameters': {'max_new_tokens': count}}).json()])

    def test_lists_and_bounds(self):
        texts = ['curl is a', 'HTTP is a', 'a URL is']
        answers = self.ask('/generate', {'text': texts, 'rid': ['a', 'b', 'c'], 'sampling_params': {'max_new_tokens': 2}}).json()
        self.assertEqual(['a', 'b', 'c'], [answer['meta_info']['id'] for answer in answers])
        many = self.ask('/generate', {'text': ['a'] * 5000})
        self.assertEqual(400, many.status, many.body)
        self.assertIn('text', many.json()['error']['message'])
        wrong = self.ask('/generate_stream', {'inputs': 'a', 'parameters': {'max_new_tokens': 10 ** 9}})
        self.assertEqual((422, 'validation'), (wrong.status, wrong.json()['error_type']))

    def test_a_form_is_held_to(self):
        schema = {'type': 'object', 'properties': {'name': {'enum': ['curl', 'wget']}}, 'required': ['name'], 'additionalProperties': False}
        said = self.ask('/generate', {'text': 'a tool:', 'sampling_params': {'json_schema': json.dumps(schema), 'max_new_tokens': 40}}).json()['text']
        self.assertIn(json.loads(said)['name'], ('curl', 'wget'))
        said = self.ask('/generate', {'inputs': 'a digit:', 'parameters': {'grammar': {'type': 'regex', 'value': '[0-9]{3}'}, 'max_new_tokens': 8}}).json()
        self.assertRegex(said['generated_text'], '^[0-9]{3}$')

    def test_the_server_says_what_it_is(self):
        self.assertEqual('chat', curl(self.server.url('/get_model_info?model=chat')).json()['model_path'])
        self.assertEqual('chat', curl(self.server.url('/info?model=chat')).json()['model_id'])
        self.assertEqual(200, curl(self.server.url('/health_generate?model=chat')).status)
        ask = {'text': 'curl is a tool and a library for transfers of data with URLs. ' * 8, 'sampling_params': {'max_new_tokens': 1}}
        cached = [self.ask('/generate', ask).json()['meta_info']['cached_tokens'] for _ in range(2)]
        self.assertGreater(cached[1], 0)
        self.assertEqual(200, curl(self.server.url('/flush_cache'), '-X', 'POST').status)
        self.assertEqual(0, self.ask('/generate', ask).json()['meta_info']['cached_tokens'])


if __name__ == '__main__':
    unittest.main()
