"""llama.cpp's native routes on the demo model, as its clients send and read them."""

import json
import unittest

import harness
from harness import curl


class LlamaCpp(harness.Case):
    def ask(self, path, body):
        return curl(self.server.url(path), data=json.dumps({'model': 'chat', **body}))

    def completion(self, **body):
        return self.ask('/completion', {'temperature': 0, **body})

    def test_it_says_what_the_completions_of_openai_say(self):
        text, count = 'curl is a', 12
        expected = self.ask('/v1/completions', {'prompt': text, 'temperature': 0, 'max_tokens': count}).json()['choices'][0]['text']
        said = self.completion(prompt=text, n_predict=count, return_tokens=True).json()
        self.assertEqual(expected, said['content'])
        self.assertEqual((count, 'limit', True), (len(said['tokens']), said['stop_type'], said['stop']))
        self.assertEqual(count, said['timings']['predicted_n'])
        events = [json.loads(line[6:]) for line in self.completion(prompt=text, n_predict=count, stream=True).body.decode().split('\n\n') if line]
        self.assertEqual(expected, ''.join(event['content'] for event in events))
        self.assertEqual(said['tokens'], [token for event in events for token in event['tokens']])
        self.assertEqual([False] * (len(events) - 1) + [True], [event['stop'] for event in events])
        tokens = self.ask('/tokenize', {'content': text, 'add_special': True}).json()['tokens']
        self.assertEqual(expected, self.completion(prompt=tokens, n_predict=count).json()['content'])
        self.assertEqual([expected] * 2, [one['content'] for one in self.completion(prompt=[text, tokens], n_predict=count).json()])

    def test_a_prompt_is_cached_and_an_editor_may_send_it_ahead(self):
        prompt = 'curl is a tool and a library for transfers of data with URLs; it knows many protocols. ' * 8
        ahead = self.completion(prompt=prompt, n_predict=0, response_fields=['']).json()
        self.assertEqual({}, ahead)
        timings = self.completion(prompt=prompt, n_predict=1).json()['timings']
        self.assertGreater(timings['cache_n'], 0)
        self.assertGreater(timings['prompt_n'], 0)

    def test_a_chat_is_made_by_hand_from_its_template(self):
        messages = [{'role': 'user', 'content': 'What is curl?'}]
        prompt = self.ask('/apply-template', {'messages': messages}).json()['prompt']
        self.assertIn('What is curl?', prompt)
        chat = self.ask('/chat/completions', {'messages': messages, 'temperature': 0, 'max_tokens': 8}).json()
        said = self.completion(prompt=prompt, n_predict=8).json()
        self.assertEqual(chat['usage']['prompt_tokens'], said['tokens_evaluated'])

    def test_a_form_is_held_to(self):
        said = self.completion(prompt='a digit:', grammar='root ::= [0-9]{3}', n_predict=8).json()
        self.assertRegex(said['content'], '^[0-9]{3}$')
        schema = {'type': 'object', 'properties': {'name': {'enum': ['curl', 'wget']}}, 'required': ['name'], 'additionalProperties': False}
        self.assertIn(json.loads(self.completion(prompt='a tool:', json_schema=schema, n_predict=40).json()['content'])['name'], ('curl', 'wget'))

    def test_refusals_are_in_its_form(self):
        for path, body, status, kind in (('/completion', {}, 400, 'invalid_request_error'),
                                         ('/completion', {'prompt': 'a', 'model': 'nothing'}, 404, 'not_found_error'),
                                         ('/completion', {'prompt': 'curl ' * 20000}, 400, 'exceed_context_size_error'),
                                         ('/infill', {'input_prefix': 'a', 'input_suffix': 'b'}, 400, 'invalid_request_error')):
            answer = self.ask(path, body)
            error = answer.json()['error']
            self.assertEqual((status, status, kind), (answer.status, error['code'], error['type']), error)

    def test_the_server_says_what_it_is(self):
        props = curl(self.server.url('/props?model=chat')).json()
        models = {model['id']: model for model in curl(self.server.url('/models')).json()['data']}
        self.assertEqual(models['chat']['max_model_len'], props['default_generation_settings']['n_ctx'])
        self.assertEqual({'status': 'ok'}, curl(self.server.url('/health')).json())
        vector = self.ask('/embedding', {'content': 'curl'}).json()[0]['embedding'][0]
        self.assertAlmostEqual(1, sum(x * x for x in vector), places=3)


if __name__ == '__main__':
    unittest.main()
