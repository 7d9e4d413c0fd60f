"""Answers of a form: the openai package asks, ajv judges; hostile schemas stay a matter of their own request."""

import json
import os
import subprocess
import time

import harness
from openai_test import post


class Structured(harness.Case):
    def test_stock_clients_get_answers_that_are_valid(self):
        env = {**os.environ, 'NODE_PATH': str(harness.ROOT / '.cache/npm/node_modules')}
        done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e/structured_client.js'), self.server.url(), 'chat'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, env=env)
        self.assertEqual(0, done.returncode, done.stdout.decode())
        self.assertRegex(done.stdout.decode(), r'(?m)^6\d passed, 0 failed$')

    def test_generate_takes_forms(self):
        for parameters, form in (({'guided_regex': '[ab]{5}'}, r'^[ab]{5}$'), ({'guided_choice': ['red']}, '^red$'),
                                 ({'json_schema': '{"enum":[17]}'}, '^17$')):
            body = {'text_input': 'curl', 'max_tokens': 40, 'exclude_input_in_output': True, **parameters}
            answer = harness.curl(self.server.url('/v2/models/chat/generate'), data=json.dumps(body).encode())
            self.assertEqual(200, answer.status, answer.body)
            self.assertRegex(answer.json()['text_output'].strip(), form)

    def test_hostile_forms_hold_up_nobody_else(self):
        hostile = [{'guided_regex': '((((a{1000}){1000}){1000}){1000}){1000}'}, {'guided_regex': '(' * 5000 + ')' * 5000},
                   {'guided_regex': '(.*a){300}'}, {'guided_json': '{"items":' * 5000 + '{}' + '}' * 5000},
                   {'guided_grammar': 'root ::= root "a" | "b"'}, {'guided_grammar': 'root ::= a\na ::= "a" a a "b" | "a" | ""'},
                   {'guided_json': {'oneOf': [{'const': i} for i in range(1500)]}}, {'guided_choice': [''] * 10}]

        def attack(i):
            status, raw = post(self.server, '/v1/completions', {'prompt': 'x', 'max_tokens': 60, **hostile[i % len(hostile)]})
            self.assertIn(status, (200, 400, 429, 503), raw)

        with harness.threads(len(hostile), attack):
            for _ in range(5):
                self.assertEqual(200, post(self.server, '/v1/completions', {'prompt': 'hello', 'max_tokens': 4})[0])


if __name__ == '__main__':
    harness.main()
