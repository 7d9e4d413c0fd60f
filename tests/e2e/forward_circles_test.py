"""Gateways that forward to each other, as configurations that name one too many make them: a request ends, and says why."""

import json
import pathlib
import socket
import tempfile
import unittest

import harness
from completion_origin import Origin
from forward_test import until
from harness import curl
from rows_origin import RowsOrigin, embeddings

JSON = ('-H', 'Content-Type: application/json')


def free_port():
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]


class Circles(unittest.TestCase):
    def gateway(self, port, api, *origins):
        root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        (root / 'm').mkdir()
        (root / 'm/model.yaml').write_text(f'engine: forward\nkind: openai\norigins: [{", ".join(origins)}]\n'
                                           f'parameters: {{api: {api}, check_interval: 50ms, answer_timeout: 10s}}\n')
        server = harness.Server(repository=root, listen=(f'127.0.0.1:{port}',))
        self.addCleanup(server.stop)
        until(lambda: curl(server.url('/v2/models/m/ready')).status == 200, 'that the model is there')
        return server

    def circle(self, api, origin):
        """Two gateways; what the first one had beside the second has gone."""
        ports = free_port(), free_port()
        first = self.gateway(ports[0], api, origin.url, f'http://127.0.0.1:{ports[1]}')
        first.logged('an origin gets no more calls')
        second = self.gateway(ports[1], api, first.url())
        first.logged('an origin is back')
        origin.close()
        return first, second

    def forwarded(self, *servers):
        counts = [curl(server.url('/v2/models/m/stats')).json()['model_stats'][0]['inference_stats'] for server in servers]
        return sum(int(c['success']['count']) + int(c['fail']['count']) for c in counts)

    def test_a_chat_ends_and_says_why(self):
        first, second = self.circle('chat', Origin())
        for stream in (False, True):
            answer = curl(second.url('/v1/chat/completions'), *JSON, '--max-time', '20', data=json.dumps(
                {'model': 'm', 'stream': stream, 'messages': [{'role': 'user', 'content': 'x'}]}))
            self.assertIn(b"lead back to it", answer.body)
        self.assertEqual(501, curl(second.url('/v1/chat/completions'), *JSON, data=json.dumps(
            {'model': 'm', 'messages': [{'role': 'user', 'content': 'x'}]})).status)

    def test_texts_that_go_together_are_not_taken_apart_at_each_of_them(self):
        first, second = self.circle('embeddings', RowsOrigin(lambda _, __, asked: embeddings(asked)))
        before = self.forwarded(first, second)
        answer = curl(second.url('/v1/embeddings'), *JSON, '--max-time', '20', data=json.dumps({'model': 'm', 'input': ['x'] * 16}))
        self.assertIn(b'lead back to it', answer.body)
        self.assertLess(self.forwarded(first, second) - before, 10 * 16)


if __name__ == '__main__':
    unittest.main()
