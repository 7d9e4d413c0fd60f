"""Work that outlives its request: OpenAI's files and batches, asynchronous inference; with a server that is killed, that
is attacked, and whose disk is full."""

import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
import unittest

import harness
from harness import curl

KEYS = 'keys:\n' + ''.join(f'  - {{name: {name}, hash: "sha256:{hashlib.sha256(f"{name}s-key".encode()).hexdigest()}", models: [{model}]}}\n'
                          for name, model in (('alice', 'chat'), ('bob', 'digits')))


def request(server, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=harness.PATIENCE)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    out = answer.status, dict((k.lower(), v) for k, v in answer.getheaders()), answer.read()
    connection.close()
    return out


def upload(server, content, headers=None, purpose='batch', filename='in.jsonl'):
    boundary = 'xyzzy'
    body = (f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n{purpose}\r\n--{boundary}\r\nContent-Disposition: form-data; '
            f'name="file"; filename="{filename}"\r\nContent-Type: application/octet-stream\r\n\r\n').encode() + content + f'\r\n--{boundary}--\r\n'.encode()
    status, _, raw = request(server, 'POST', '/v1/files', body, {'Content-Type': f'multipart/form-data; boundary={boundary}', **(headers or {})})
    return status, json.loads(raw)


def lines(count, text='hello', tokens=4, model='chat'):
    return '\n'.join(json.dumps({'custom_id': f'id {i}', 'method': 'POST', 'url': '/v1/completions', 'body': {
        'model': model, 'prompt': text, 'max_tokens': tokens, 'temperature': 0}}) for i in range(count)).encode()


def create(server, file, headers=None, window='24h', endpoint='/v1/completions'):
    status, _, raw = request(server, 'POST', '/v1/batches', json.dumps({'input_file_id': file, 'endpoint': endpoint, 'completion_window': window}),
                             {'Content-Type': 'application/json', **(headers or {})})
    return status, json.loads(raw)


def retrieve(server, batch, headers=None):
    return json.loads(request(server, 'GET', f'/v1/batches/{batch}', headers=headers)[2])


def wait(what, condition):
    end = time.monotonic() + 4 * harness.PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def over(server, batch, headers=None):
    wait('the batch is over', lambda: retrieve(server, batch, headers)['status'] in ('completed', 'failed', 'expired', 'cancelled'))
    return retrieve(server, batch, headers)


def rows(server, file, headers=None):
    return [json.loads(row) for row in request(server, 'GET', f'/v1/files/{file}/content', headers=headers)[2].decode().splitlines()]


def folder(name):
    path = harness.scratch() / name
    shutil.rmtree(path, ignore_errors=True)
    return path


class Batches(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server('--jobs-path', folder('jobs'), '--jobs-max-file', '1MiB', '--jobs-max-lines', '500', '--jobs-max-line', '64KiB')

    def test_the_official_client(self):
        env = {**os.environ, 'NODE_PATH': str(harness.ROOT / '.cache/npm/node_modules')}
        done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e/batches_client.js'), self.server.url(), 'chat'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, env=env)
        self.assertEqual(0, done.returncode, done.stdout.decode())
        self.assertRegex(done.stdout.decode(), r'(?m)^13 passed, 0 failed$')

    def test_curl_over_both_versions_of_http(self):
        path = harness.scratch() / 'input.jsonl'
        path.write_bytes(lines(3))
        for version in ('--http1.1', '--http2-prior-knowledge'):
            answer = curl(self.server.url('/v1/files'), version, '-F', 'purpose=batch', '-F', f'file=@{path}')
            self.assertEqual(200, answer.status, answer.body)
            content = curl(self.server.url(f'/v1/files/{answer.json()["id"]}/content'), version)
            self.assertEqual(lines(3), content.body)

    def test_a_large_file_comes_back_as_it_was(self):
        content = os.urandom(900_000)
        status, file = upload(self.server, content)
        self.assertEqual((200, 900_000), (status, file['bytes']))
        self.assertEqual(content, request(self.server, 'GET', f'/v1/files/{file["id"]}/content')[2])

    def test_what_is_too_much_is_refused(self):
        status, answer = upload(self.server, b'x' * ((1 << 20) + 1))
        self.assertEqual(413, status)
        self.assertIn('jobs.max_file', answer['error']['message'])
        for content, code in ((lines(501), 'too_many_requests'), (b'{"custom_id":"' + b'x' * (70 << 10) + b'"}', 'line_too_long'), (b'\n \n', 'empty_file'),
                              (b'\xff\xfe', 'invalid_json_line')):
            _, file = upload(self.server, content)
            batch = over(self.server, create(self.server, file['id'])[1]['id'])
            self.assertEqual(('failed', code), (batch['status'], batch['errors']['data'][0]['code']))

    def test_what_is_no_form_is_refused(self):
        for kind, body in (('multipart/form-data; boundary=a', b'nothing'), ('multipart/form-data', b'--a--'), ('application/json', b'{}'),
                           ('multipart/form-data; boundary=a', b'--a\r\nX: y\r\n\r\nz\r\n--a--')):
            self.assertEqual(400, request(self.server, 'POST', '/v1/files', body, {'Content-Type': kind})[0], kind)
        self.assertEqual(400, upload(self.server, b'x', purpose='fine-tune')[0])
        self.assertEqual(400, upload(self.server, b'')[0])
        path = harness.scratch() / 'half.jsonl'
        path.write_bytes(lines(1))
        for part in ('anchor]=created_at', 'seconds]=3600'):
            answer = curl(self.server.url('/v1/files'), '-F', 'purpose=batch', '-F', f'file=@{path}', '-F', f'expires_after[{part}')
            self.assertEqual(400, answer.status, part)
            self.assertIn('expires_after takes', answer.json()['error']['message'])

    def test_names_are_never_names_of_files(self):
        status, file = upload(self.server, b'{}', filename='../../../../etc/cron.d/x')
        self.assertEqual((200, '../../../../etc/cron.d/x'), (status, file['filename']))
        self.assertEqual({'jobs.db', 'jobs.db-wal'}, set(os.listdir(harness.scratch() / 'jobs')) - {'jobs.db-shm'})

    def test_a_bad_batch_is_refused(self):
        _, file = upload(self.server, lines(1))
        for body in ({}, {'input_file_id': file['id'], 'endpoint': '/v1/models', 'completion_window': '24h'},
                     {'input_file_id': file['id'], 'endpoint': '/v1/completions', 'completion_window': '-1'},
                     {'input_file_id': 'file-other', 'endpoint': '/v1/completions', 'completion_window': '24h'},
                     {'input_file_id': file['id'], 'endpoint': '/v1/completions', 'completion_window': '24h', 'metadata': {'a': 1}},
                     {'input_file_id': file['id'], 'endpoint': '/v1/completions', 'completion_window': '24h', 'unknown': 1}):
            status, _, raw = request(self.server, 'POST', '/v1/batches', json.dumps(body), {'Content-Type': 'application/json'})
            self.assertEqual(400, status, raw)

    def test_a_window_that_ends_expires_the_batch(self):
        _, file = upload(self.server, lines(300, tokens=500).replace(b'"temperature"', b'"ignore_eos": true, "temperature"'))
        batch = over(self.server, create(self.server, file['id'], window='1s')[1]['id'])
        self.assertEqual('expired', batch['status'])
        self.assertEqual({'batch_expired'}, {row['error']['code'] for row in rows(self.server, batch['error_file_id'])})
        self.assertEqual(300, batch['request_counts']['total'])

    def test_a_batch_leaves_room_for_live_requests(self):
        _, file = upload(self.server, lines(400, tokens=200))
        batch = create(self.server, file['id'])[1]['id']
        wait('it runs', lambda: retrieve(self.server, batch)['status'] == 'in_progress')
        for _ in range(10):
            status, _, raw = request(self.server, 'POST', '/v1/completions', json.dumps({'model': 'chat', 'prompt': 'sea', 'max_tokens': 2}))
            self.assertEqual(200, status, raw)
        self.assertEqual('in_progress', retrieve(self.server, batch)['status'])
        self.assertEqual(200, request(self.server, 'POST', f'/v1/batches/{batch}/cancel')[0])
        over(self.server, batch)

    def test_a_client_that_leaves_leaves_nothing(self):
        head = b'POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=a\r\nContent-Length: 900000\r\n\r\n'
        with socket.create_connection(('127.0.0.1', self.server.port)) as s:
            s.sendall(head + b'--a\r\nContent-Disposition: form-data; name="file"; filename="gone"\r\n\r\n' + b'x' * 700_000)
        time.sleep(0)
        listed = json.loads(request(self.server, 'GET', '/v1/files')[2])['data']
        self.assertNotIn('gone', [file['filename'] for file in listed])

    def test_inference_that_is_left(self):
        images, labels = harness.heldout()
        body = json.dumps({'inputs': [{'name': 'image', 'shape': [1, 64], 'datatype': 'FP32', 'data': images[0]}]})
        model = '/v2/models/digits'
        name = json.loads(request(self.server, 'GET', model)[2])['inputs'][0]['name']
        body = body.replace('"image"', json.dumps(name))
        live = request(self.server, 'POST', model + '/infer', body)
        self.assertEqual(200, live[0], live[2])
        status, headers, raw = request(self.server, 'POST', model + '/infer', body, {'Prefer': 'wait=5, respond-async', 'Content-Type': 'application/json'})
        self.assertEqual((202, 'respond-async'), (status, headers['preference-applied']), raw)
        job = headers['location']
        wait('the job is over', lambda: json.loads(request(self.server, 'GET', job)[2])['status'] in ('succeeded', 'failed'))
        self.assertEqual('succeeded', json.loads(request(self.server, 'GET', job)[2])['status'])
        status, headers, raw = request(self.server, 'GET', job + '/result')
        self.assertEqual((200, json.loads(live[2])['outputs']), (status, json.loads(raw)['outputs']))
        self.assertEqual(204, request(self.server, 'DELETE', job)[0])
        self.assertEqual(404, request(self.server, 'GET', job)[0])

    def test_inference_that_fails_later(self):
        _, headers, _ = request(self.server, 'POST', '/v2/models/digits/infer', '{"inputs":', {'Prefer': 'respond-async'})
        wait('the job is over', lambda: json.loads(request(self.server, 'GET', headers['location'])[2])['status'] == 'failed')
        self.assertEqual(400, request(self.server, 'GET', headers['location'] + '/result')[0])

    def test_what_is_counted(self):
        text = request(self.server, 'GET', '/metrics')[2].decode()
        for name in ('weir_jobs_total{outcome="ok"}', 'weir_jobs_claimed_total', 'weir_jobs_disk_bytes', 'weir_jobs_disk_limit_bytes'):
            self.assertIn(name, text)


class Killed(unittest.TestCase):
    """kill -9 in the middle of everything: what was acknowledged is done, and each line is answered once."""

    def test_a_batch_goes_on(self):
        path = folder('killed')
        flags = ('--jobs-path', path, '--jobs-concurrency', '2')
        server = harness.Server(*flags)
        _, file = upload(server, lines(120, tokens=24))
        _, batch = create(server, file['id'])
        kills = 0
        for least in (1, 20, 50):
            def moved():
                now = retrieve(server, batch['id'])
                return now['status'] not in ('validating', 'in_progress') or now['request_counts']['completed'] >= least
            wait('lines are answered', moved)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            kills += 1
            server = harness.Server(*flags)
        done = over(server, batch['id'])
        self.assertEqual('completed', done['status'], done)
        self.assertEqual({'total': 120, 'completed': 120, 'failed': 0}, done['request_counts'])
        got = rows(server, done['output_file_id'])
        self.assertEqual([f'id {i}' for i in range(120)], [row['custom_id'] for row in got])
        self.assertEqual(1, len({row['response']['body']['choices'][0]['text'] for row in got}))
        self.assertEqual(3, kills)
        self.assertEqual(0, server.stop())

    def test_killed_while_it_is_read_and_written(self):
        path = folder('killed often')
        server = harness.Server('--jobs-path', path)
        _, file = upload(server, lines(200, tokens=1))
        _, batch = create(server, file['id'])
        for _ in range(4):
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            server = harness.Server('--jobs-path', path)
        done = over(server, batch['id'])
        self.assertEqual(('completed', 200), (done['status'], done['request_counts']['completed']))
        self.assertEqual(200, len(rows(server, done['output_file_id'])))
        self.assertEqual(0, server.stop())

    def test_a_server_that_ends_in_order_gives_back_what_runs(self):
        path = folder('ended')
        server = harness.Server('--jobs-path', path)
        _, file = upload(server, lines(60, tokens=200))
        _, batch = create(server, file['id'])
        wait('it runs', lambda: retrieve(server, batch['id'])['status'] == 'in_progress')
        self.assertEqual(0, server.stop())
        with sqlite3.connect(f'file:{path}/jobs.db?mode=ro', uri=True) as db:
            self.assertEqual([], db.execute('SELECT * FROM jobs WHERE state = 1 OR attempts > 0 AND state = 0').fetchall())


class Tenants(unittest.TestCase):
    def test_what_is_anothers_is_not_there(self):
        keys = harness.scratch() / 'keys.yaml'
        keys.write_text(KEYS)
        keys.chmod(0o600)
        alice, bob = ({'Authorization': f'Bearer {name}s-key'} for name in ('alice', 'bob'))
        server = harness.Server('--jobs-path', folder('tenants'), '--auth-keys-file', keys, '--jobs-max-files', '3')
        _, file = upload(server, lines(1) + b'\n' + lines(1, model='digits').replace(b'id 0', b'id 1'), alice)
        self.assertEqual(401, upload(server, lines(1))[0])
        _, batch = create(server, file['id'], alice)
        for path in (f'/v1/files/{file["id"]}', f'/v1/files/{file["id"]}/content', f'/v1/batches/{batch["id"]}'):
            self.assertEqual(404, request(server, 'GET', path, headers=bob)[0], path)
        self.assertEqual(404, request(server, 'DELETE', f'/v1/files/{file["id"]}', headers=bob)[0])
        self.assertEqual(404, request(server, 'POST', f'/v1/batches/{batch["id"]}/cancel', headers=bob)[0])
        self.assertEqual([], json.loads(request(server, 'GET', '/v1/files', headers=bob)[2])['data'])
        self.assertEqual(400, create(server, file['id'], bob)[0])
        # A batch runs as the key that made it: its models, and no others.
        done = over(server, batch['id'], alice)
        self.assertEqual({'total': 2, 'completed': 1, 'failed': 1}, done['request_counts'])
        self.assertEqual([403], [row['response']['status_code'] for row in rows(server, done['error_file_id'], alice)])
        for _ in range(3):
            status, _ = upload(server, lines(1), alice)
        self.assertEqual(429, status)
        self.assertEqual(0, server.stop())

    def test_a_line_that_is_refused_for_now_is_run_later(self):
        keys = harness.scratch() / 'keys3.yaml'
        keys.write_text(KEYS.replace('models: [chat]', 'models: [chat], limits: {requests_per_second: 3}'))
        keys.chmod(0o600)
        alice = {'Authorization': 'Bearer alices-key'}
        server = harness.Server('--jobs-path', folder('refused'), '--auth-keys-file', keys)
        _, file = upload(server, lines(12), alice)
        _, batch = create(server, file['id'], alice)
        # Its own lines, and whoever asks beside it, are more than the key may have.
        refused = sum(request(server, 'GET', '/v1/models', headers=alice)[0] == 429 for _ in range(12))
        self.assertGreater(refused, 0)
        counts = {}

        def completed():
            time.sleep(0.5)
            status, _, raw = request(server, 'GET', f'/v1/batches/{batch["id"]}', headers=alice)
            counts.update(json.loads(raw)['request_counts'] if status == 200 else {})
            return status == 200 and json.loads(raw)['status'] == 'completed'
        wait('all lines are run', completed)
        self.assertEqual({'total': 12, 'completed': 12, 'failed': 0}, counts)
        self.assertEqual(0, server.stop())

    def test_a_key_that_is_gone_runs_nothing(self):
        keys = harness.scratch() / 'keys2.yaml'
        keys.write_text(KEYS)
        keys.chmod(0o600)
        alice = {'Authorization': 'Bearer alices-key'}
        path = folder('gone')
        server = harness.Server('--jobs-path', path, '--auth-keys-file', keys)
        _, file = upload(server, lines(40, tokens=200), alice)
        _, batch = create(server, file['id'], alice)
        wait('it runs', lambda: retrieve(server, batch['id'], alice)['status'] == 'in_progress')
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        keys.write_text(KEYS.replace('name: alice', 'name: carol, tenant: alice'))
        server = harness.Server('--jobs-path', path, '--auth-keys-file', keys)
        done = over(server, batch['id'], alice)  # the same key's tenant, under another name
        self.assertGreater(done['request_counts']['failed'], 0)
        self.assertIn(401, {row['response']['status_code'] for row in rows(server, done['error_file_id'], alice)})
        self.assertEqual(0, server.stop())


class Disk(unittest.TestCase):
    def test_without_a_folder_each_route_says_which_setting(self):
        server = harness.Server()
        for method, path in (('GET', '/v1/files'), ('POST', '/v1/batches'), ('GET', '/v1/batches/x'), ('GET', '/v2/jobs/x')):
            status, _, raw = request(server, method, path, '{}' if method == 'POST' else None)
            self.assertEqual(501, status, raw)
            self.assertIn(b'jobs.path', raw)
        self.assertEqual(501, upload(server, b'x')[0])
        # A preference may be left unheeded (RFC 7240): the request is answered as any other.
        self.assertEqual(400, request(server, 'POST', '/v2/models/digits/infer', '{', {'Prefer': 'respond-async'})[0])
        self.assertEqual(0, server.stop())

    def test_the_state_directory_of_systemd(self):
        state = folder('state')
        state.mkdir()
        server = harness.Server(env={'STATE_DIRECTORY': f'{state}:{state}/models'})
        self.assertEqual(200, upload(server, b'x')[0])
        self.assertTrue((state / 'jobs/jobs.db').exists())
        self.assertEqual(0, server.stop())

    def refused(self, path):
        done = subprocess.run([str(harness.WEIR), 'serve', str(harness.MODELS), '--listen', '127.0.0.1:0', '--jobs-path', str(path)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=harness.PATIENCE)
        return done.returncode, done.stdout.decode()

    def test_files_of_others_are_left_alone(self):
        path = folder('foreign')
        path.mkdir()
        for content in (b'not a database at all, but long enough to be read as one' * 100, None):
            (path / 'jobs.db').unlink(missing_ok=True)
            if content:
                (path / 'jobs.db').write_bytes(content)
            else:
                with sqlite3.connect(path / 'jobs.db') as db:
                    db.execute('CREATE TABLE theirs(x)')
            before = (path / 'jobs.db').read_bytes()
            code, text = self.refused(path)
            self.assertEqual(2, code, text)
            self.assertIn('jobs.db', text)
            self.assertEqual(before, (path / 'jobs.db').read_bytes())
        code, text = self.refused('/proc/nowhere')
        self.assertEqual(2, code, text)
        self.assertIn('jobs.path', text)

    def test_two_servers_do_not_share_one(self):
        path = folder('shared')
        server = harness.Server('--jobs-path', path)
        code, text = self.refused(path)
        self.assertEqual(2, code, text)
        self.assertIn('another process', text)
        self.assertEqual(0, server.stop())

    def test_a_full_disk_refuses_and_serves_on(self):
        server = harness.Server('--jobs-path', folder('full'), '--jobs-disk', '1MiB', '--jobs-tenant-disk', '64MiB')
        status = 200
        for _ in range(20):
            status, answer = upload(server, lines(1) + b'\n' + b'\n' * 200_000)
            if status != 200:
                break
        self.assertEqual(429, status)
        self.assertIn('jobs.disk', answer['error']['message'])
        listed = json.loads(request(server, 'GET', '/v1/files')[2])['data']
        self.assertEqual(200, request(server, 'POST', '/v1/completions', json.dumps({'model': 'chat', 'prompt': 'sea', 'max_tokens': 2}))[0])
        for file in listed:
            self.assertEqual(200, request(server, 'DELETE', f'/v1/files/{file["id"]}')[0])
        self.assertEqual(200, upload(server, lines(1))[0])
        self.assertEqual(0, server.stop())

    def test_a_tenant_has_a_quota(self):
        server = harness.Server('--jobs-path', folder('quota'), '--jobs-tenant-disk', '1MiB')
        self.assertEqual(200, upload(server, b'x' * 900_000)[0])
        status, answer = upload(server, b'x' * 300_000)
        self.assertEqual(429, status)
        self.assertIn('jobs.tenant_disk', answer['error']['message'])
        self.assertEqual(0, server.stop())

    def test_results_go_when_their_time_is_over(self):
        server = harness.Server('--jobs-path', folder('ttl'), '--jobs-result-ttl', '1s', '--jobs-file-ttl', '1s')
        _, file = upload(server, lines(1))
        _, headers, _ = request(server, 'POST', '/v2/models/digits/infer', '{}', {'Prefer': 'respond-async'})
        wait('both are gone', lambda: (request(server, 'GET', headers['location'])[0], request(server, 'GET', f'/v1/files/{file["id"]}')[0]) == (404, 404))
        self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main(at_once=3)
