"""Anthropic's Message Batches: the official client, a server that is killed, and who must not have what."""

import json
import os
import signal
import socket
import subprocess
import unittest

import harness
from batches_test import KEYS, folder, request, wait

PATH = '/v1/messages/batches'
JSON = {'Content-Type': 'application/json'}


def requests(count, tokens=4, model='chat'):
    return json.dumps({'requests': [{'custom_id': f'r-{i}', 'params': {
        'model': model, 'max_tokens': tokens, 'temperature': 0, 'messages': [{'role': 'user', 'content': 'hello'}]}} for i in range(count)]})


def create(server, body, headers=None):
    status, _, raw = request(server, 'POST', PATH, body, {**JSON, **(headers or {})})
    return status, json.loads(raw)


def retrieve(server, batch, headers=None):
    return json.loads(request(server, 'GET', f'{PATH}/{batch}', headers=headers)[2])


def over(server, batch, headers=None):
    wait('the batch has ended', lambda: retrieve(server, batch, headers)['processing_status'] == 'ended')
    return retrieve(server, batch, headers)


def results(server, batch, headers=None):
    return [json.loads(row) for row in request(server, 'GET', batch['results_url'], headers=headers)[2].splitlines()]


class MessageBatches(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server('--jobs-path', folder('message_batches'), '--jobs-max-file', '1MiB', '--jobs-max-lines', '500', '--jobs-max-line', '64KiB')

    def test_the_official_client(self):
        env = {**os.environ, 'NODE_PATH': str(harness.ROOT / '.cache/npm/node_modules')}
        done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e/message_batches_client.js'), self.server.url(), 'chat'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, env=env)
        self.assertEqual(0, done.returncode, done.stdout.decode())
        self.assertRegex(done.stdout.decode(), r'(?m)^7 passed, 0 failed$')

    def test_what_is_too_much_is_refused_and_others_are_served(self):
        long = json.dumps({'requests': [{'custom_id': 'a', 'params': {'x': 'x' * (70 << 10)}}]})
        many = json.dumps({'requests': [{'custom_id': f'{i}', 'params': {'x': 'x' * 5000}} for i in range(300)]})
        for body, status, word in ((requests(501), 400, 'jobs.max_lines'), (long, 400, 'jobs.max_line'), (many, 413, 'jobs.max_file'),
                                   ('{"requests":[' + '[' * 10_000, 400, 'cut short'), ('{"requests":[' + '[' * 60_000 + ']' * 60_000, 400, 'requests.0'),
                                   (' ' * (7 << 20), 413, 'jobs.max_file'), ('{"a":"' + 'x' * 500_000, 400, 'too long'), ('', 400, 'cut short'),
                                   (b'\xff' * 1000, 400, 'requests')):
            got, answer = create(self.server, body)
            self.assertEqual((status, 'error'), (got, answer['type']), answer)
            self.assertIn(word, answer['error']['message'])
            self.assertEqual(200, request(self.server, 'GET', '/health')[0])

    def test_clients_that_leave_leave_nothing(self):
        server = harness.Server('--jobs-path', folder('message_batches_left'), '--jobs-tenant-disk', '2MiB')
        head = f'POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n'.encode()
        body = '{"requests":[' + ','.join(json.dumps({'custom_id': f'{i}', 'params': {'x': 'x' * 5000}}) for i in range(200)) + ','
        for _ in range(6):  # more than the quota together
            with socket.create_connection(('127.0.0.1', server.port)) as s:
                s.sendall(head + body.encode())
        wait('a batch finds room', lambda: create(server, requests(1))[0] == 200)
        self.assertEqual(0, server.stop())

    def test_a_server_that_is_killed_goes_on(self):
        path = folder('message_batches_killed')
        server = harness.Server('--jobs-path', path, '--jobs-concurrency', '2')
        _, batch = create(server, requests(60, tokens=16))
        wait('it runs', lambda: b'weir_jobs_claimed_total 0' not in request(server, 'GET', '/metrics')[2])
        server.stop(signal.SIGKILL)
        server = harness.Server('--jobs-path', path, '--jobs-concurrency', '2')
        batch = over(server, batch['id'])
        self.assertEqual(60, batch['request_counts']['succeeded'])
        self.assertEqual(sorted(f'r-{i}' for i in range(60)), sorted(row['custom_id'] for row in results(server, batch)))
        self.assertEqual(0, server.stop())

    def test_each_key_has_its_own(self):
        keys = harness.scratch() / 'message_batches_keys.yaml'
        keys.write_text(KEYS)
        server = harness.Server('--jobs-path', folder('message_batches_keys'), '--auth-keys-file', keys)
        alice, bob = ({'X-Api-Key': f'{name}s-key'} for name in ('alice', 'bob'))
        _, batch = create(server, requests(1), alice)
        for method, path in (('GET', ''), ('DELETE', ''), ('POST', '/cancel'), ('GET', '/results')):
            status, _, raw = request(server, method, f'{PATH}/{batch["id"]}{path}', headers=bob)
            self.assertEqual((404, 'not_found_error'), (status, json.loads(raw)['error']['type']), path)
        self.assertEqual([], json.loads(request(server, 'GET', PATH, headers=bob)[2])['data'])
        self.assertEqual(1, over(server, batch['id'], alice)['request_counts']['succeeded'])
        _, batch = create(server, requests(1), bob)  # it runs with bob's models
        batch = over(server, batch['id'], bob)
        self.assertEqual(1, batch['request_counts']['errored'])
        self.assertEqual('permission_error', results(server, batch, bob)[0]['result']['error']['error']['type'])
        self.assertEqual(0, server.stop())


class Off(unittest.TestCase):
    def test_without_a_folder_the_setting_is_named(self):
        server = harness.Server()
        for method, path in (('POST', PATH), ('GET', PATH), ('GET', PATH + '/x'), ('GET', PATH + '/x/results'), ('POST', PATH + '/x/cancel'), ('DELETE', PATH + '/x')):
            status, _, raw = request(server, method, path, requests(1) if method == 'POST' else None, JSON)
            self.assertEqual(501, status, path)
            self.assertIn('jobs.path', json.loads(raw)['error']['message'])
        self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main()
