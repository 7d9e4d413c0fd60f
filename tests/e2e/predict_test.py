"""KServe's V1 protocol (TensorFlow Serving's REST) with curl: rows, columns, strings, long bodies, its errors."""
import base64
import json
import unittest

import numpy as np

import harness
from harness import curl


class Predict(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def post(self, path, body, *flags):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return curl(self.server.url(path), '-H', 'Content-Type: application/json', '-H', 'Expect:', *flags, data=data)

    def predict(self, model, body):
        answer = self.post(f'/v1/models/{model}:predict', body)
        self.assertEqual(200, answer.status, answer.body[:500])
        return answer.json()

    def infer(self, model, inputs):
        answer = self.post(f'/v2/models/{model}/infer', {'inputs': inputs})
        self.assertEqual(200, answer.status, answer.body[:500])
        return {o['name']: o['data'] for o in answer.json()['outputs']}

    def test_rows_give_what_the_v2_protocol_gives(self):
        images, _ = harness.heldout()
        images = np.array(images[:5]).reshape(5, 64).tolist()
        v2 = self.infer('digits', [{'name': 'image', 'datatype': 'FP32', 'shape': [5, 64], 'data': images}])
        for body in ({'instances': images}, {'instances': [{'image': i} for i in images]}, {'inputs': images}, {'inputs': {'image': images}}):
            said = self.predict('digits', body)
            rows = said['predictions' if 'instances' in body else 'outputs']
            if isinstance(rows, dict):
                flat = {name: np.ravel(value).tolist() for name, value in rows.items()}
            elif isinstance(rows[0], dict):
                flat = {name: np.ravel([row[name] for row in rows]).tolist() for name in rows[0]}
            else:
                flat = {next(iter(v2)): np.ravel(rows).tolist()}
            self.assertEqual(v2, flat)

    def test_strings_and_bytes(self):
        row = {'INPUT0': [str(i) for i in range(16)], 'INPUT1': [{'b64': base64.b64encode(b'1').decode()}] * 16}
        said = self.predict('simple_string', {'instances': [row]})
        self.assertEqual([str(i + 1) for i in range(16)], said['predictions'][0]['OUTPUT0'])

    def test_long_bodies_go_by_workers(self):
        rows = np.arange(400_000).reshape(1000, 400).tolist()
        self.assertEqual(rows, self.predict('identity', {'instances': rows})['predictions'])
        rows = [{'x': i, 's': 'é' * 500} for i in range(2000)]
        self.assertEqual(rows, self.predict('identity', {'instances': rows})['predictions'])

    def test_readiness(self):
        for flags in ([], ['--protocols-openai=false']):
            server = harness.Server(*flags) if flags else self.server
            try:
                said = curl(server.url('/v1/models/digits')).json()
                self.assertEqual(('digits', True), (said['name'], said['ready']))
                self.assertIn('digits', curl(server.url('/v1/models')).json()['models'])
                self.assertEqual(404, curl(server.url('/v1/models/nope')).status)
            finally:
                if flags:
                    server.stop()

    def test_errors(self):
        for path, body, status, text in (
                ('/v1/models/nope:predict', {'instances': [1]}, 404, 'nope'),
                ('/v1/models/digits:predict', {'instances': [[1, 2]]}, 400, 'expected FP32 [-1,64]'),
                ('/v1/models/digits:predict', b'{', 400, 'JSON'),
                ('/v1/models/digits:explain', {'instances': [[1]]}, 501, 'explain'),
                ('/v1/models/digits:predit', {'instances': [[1]]}, 405, 'POST')):
            answer = self.post(path, body)
            self.assertEqual(status, answer.status, answer.body)
            error = answer.json()['error']
            self.assertIn(text, error if isinstance(error, str) else error['message'])
        refused = curl(self.server.url('/v1/models/digits:predict'))
        self.assertEqual((405, str), (refused.status, type(refused.json()['error'])))


if __name__ == '__main__':
    unittest.main()
