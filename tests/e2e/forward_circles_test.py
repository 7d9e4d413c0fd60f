"""Gateways that forward to each other, as configurations that name one too many make them: a request ends, and says why."""

import concurrent.futures
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

    def forwarded(self, *servers, model='m'):
        counts = [curl(server.url(f'/v2/models/{model}/stats')).json()['model_stats'][0]['inference_stats'] for server in servers]
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

    def test_the_one_of_them_that_runs_the_model_runs_it(self):
        tensor = '{name: x, type: FP32, shape: [1]}'
        kinds = 'oip-rest', 'oip-grpc', 'weir'
        ports = [free_port() for _ in range(3)]
        servers = {}
        for at in 0, 2, 1:  # each has its origin before it, but the one that needs none
            root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
            here = f'engine: identity\nmax_batch: 1\nparameters: {{delay_us: 20000}}\ninputs: [{tensor}]\noutputs: [{tensor}]\norigin_parameters: {{check_interval: 50ms, local_first: 0}}\n'
            there = 'engine: forward\nparameters: {check_interval: 50ms}\n'
            for kind in kinds:
                (root / kind).mkdir()
                (root / kind / 'model.yaml').write_text((there if at else here) +
                                                        f'kind: {kind}\norigins: [http://127.0.0.1:{ports[(at + 1) % 3]}]\n')
            servers[at] = harness.Server(repository=root, listen=(f'127.0.0.1:{ports[at]}',))
            self.addCleanup(servers[at].stop)
        body = json.dumps({'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [1, 1], 'data': [1]}]})

        def ask(kind, hops):
            return curl(servers[0].url(f'/v2/models/{kind}/infer'), *JSON, '-H', 'weir-tenant: 01', '-H', f'weir-hops: {hops}', data=body)

        def many(kind, hops):
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                return list(pool.map(lambda _: ask(kind, hops), range(12)))

        for kind in kinds:
            until(lambda: many(kind, 0) and self.forwarded(servers[2], model=kind) > 0, 'that requests go round')
            for hops in range(4, 8):
                with self.subTest(kind=kind, hops=hops):
                    self.assertEqual(set(), {(a.status, a.body) for a in many(kind, hops) if a.status != 200})


if __name__ == '__main__':
    unittest.main()
