"""Uploads in parts: over both versions of HTTP, beside each other, over a kill, left alone, and by strangers."""

import hashlib
import json
import os
import signal
import socket

import harness
from batches_test import KEYS, folder, request, wait
from harness import curl


def create(server, size, headers=None):
    body = {'bytes': size, 'filename': 'in.jsonl', 'mime_type': 'text/jsonl', 'purpose': 'batch'}
    status, _, raw = request(server, 'POST', '/v1/uploads', json.dumps(body), headers)
    return status, json.loads(raw)


def put(server, upload, content, headers=None):
    form = b'--xy\r\nContent-Disposition: form-data; name="data"; filename="blob"\r\n\r\n' + content + b'\r\n--xy--\r\n'
    status, _, raw = request(server, 'POST', f'/v1/uploads/{upload}/parts', form, {'Content-Type': 'multipart/form-data; boundary=xy', **(headers or {})})
    return status, json.loads(raw)


def end(server, upload, how, headers=None, **body):
    status, _, raw = request(server, 'POST', f'/v1/uploads/{upload}/{how}', json.dumps(body), headers)
    return status, json.loads(raw)


class Uploads(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server('--jobs-path', folder('uploads'), '--jobs-max-file', '20MiB')

    def test_parts_beside_each_other(self):
        contents = [os.urandom(1_500_000 + i) for i in range(8)]
        whole = b''.join(contents)
        _, upload = create(self.server, len(whole))
        ids = [None] * len(contents)

        def one(i):
            status, part = put(self.server, upload['id'], contents[i])
            self.assertEqual(200, status, part)
            ids[i] = part['id']

        with harness.threads(len(contents), one):
            pass
        status, done = end(self.server, upload['id'], 'complete', part_ids=ids, md5=hashlib.md5(whole).hexdigest())
        self.assertEqual((200, 'completed'), (status, done['status']), done)
        self.assertEqual(whole, request(self.server, 'GET', f'/v1/files/{done["file"]["id"]}/content')[2])
        self.assertEqual(200, request(self.server, 'DELETE', f'/v1/files/{done["file"]["id"]}')[0])

    def test_curl_over_both_versions_of_http(self):
        part = harness.scratch() / 'part'
        part.write_bytes(b'a' * 300_000)
        for version in ('--http1.1', '--http2-prior-knowledge'):
            _, upload = create(self.server, 300_000)
            answer = curl(self.server.url(f'/v1/uploads/{upload["id"]}/parts'), version, '-F', f'data=@{part}')
            self.assertEqual(200, answer.status, answer.body)
            self.assertEqual(200, end(self.server, upload['id'], 'complete', part_ids=[answer.json()['id']])[0])

    def test_completed_twice_at_once_it_is_one_file(self):
        _, upload = create(self.server, 4_000_000)
        _, part = put(self.server, upload['id'], b'x' * 4_000_000)
        answers = [None] * 4

        def one(i):
            answers[i] = end(self.server, upload['id'], 'complete', part_ids=[part['id']])

        with harness.threads(len(answers), one):
            pass
        files = {answer['file']['id'] for status, answer in answers if status == 200}
        self.assertEqual(1, len(files), answers)
        listed = [file['id'] for file in json.loads(request(self.server, 'GET', '/v1/files?limit=1000')[2])['data'] if file['bytes'] == 4_000_000]
        self.assertEqual(list(files), listed)

    def test_completed_in_two_orders_at_once_it_is_one_file(self):
        _, upload = create(self.server, 6_000_000)
        ids = [put(self.server, upload['id'], letter * 3_000_000)[1]['id'] for letter in (b'a', b'b')]
        answers = [None] * 6

        def one(i):
            answers[i] = end(self.server, upload['id'], 'complete', part_ids=ids[::1 if i % 2 else -1])

        with harness.threads(len(answers), one):
            pass
        self.assertLessEqual({status for status, _ in answers}, {200, 409}, answers)
        files = {answer['file']['id'] for status, answer in answers if status == 200}
        self.assertEqual(1, len(files), answers)
        content = request(self.server, 'GET', f'/v1/files/{list(files)[0]}/content')[2]
        self.assertIn(content, (b'a' * 3_000_000 + b'b' * 3_000_000, b'b' * 3_000_000 + b'a' * 3_000_000))

    def test_who_hangs_up_again_and_again_goes_on_with_one_copy(self):
        size = 8_000_000
        server = harness.Server('--jobs-path', folder('uploads_hung_up'), '--jobs-tenant-disk', '17MB')
        _, upload = create(server, size)
        whole = os.urandom(size)
        ids = [put(server, upload['id'], whole[i:i + size // 2])[1]['id'] for i in (0, size // 2)]
        body = json.dumps({'part_ids': ids}).encode()
        head = f'POST /v1/uploads/{upload["id"]}/complete HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n'.encode()
        for _ in range(20):
            with socket.create_connection(('127.0.0.1', server.port)) as s:
                s.sendall(head + body)
        status, done = end(server, upload['id'], 'complete', part_ids=ids, md5=hashlib.md5(whole).hexdigest())
        self.assertEqual(200, status, done)
        self.assertEqual(whole, request(server, 'GET', f'/v1/files/{done["file"]["id"]}/content')[2])
        self.assertEqual(1, len(json.loads(request(server, 'GET', '/v1/files')[2])['data']))
        wait('the room of the parts and of other copies is free', lambda: create(server, size)[0] == 200)
        self.assertEqual(0, server.stop())

    def test_a_copy_that_a_kill_breaks_off_is_begun_anew(self):
        path, size = folder('uploads_killed_in_a_copy'), 30_000_000
        server = harness.Server('--jobs-path', path)
        _, upload = create(server, size)
        ids = [put(server, upload['id'], letter * (size // 2))[1]['id'] for letter in (b'a', b'b')]
        body = json.dumps({'part_ids': ids}).encode()
        with socket.create_connection(('127.0.0.1', server.port)) as s:
            s.sendall(f'POST /v1/uploads/{upload["id"]}/complete HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n'.encode() + body)
            self.assertEqual(200, request(server, 'GET', '/v1/files')[0])  # which the journal answers in its turn
            server.stop(signal.SIGKILL)
        server = harness.Server('--jobs-path', path)
        status, done = end(server, upload['id'], 'complete', part_ids=ids)
        self.assertEqual(200, status, done)
        self.assertEqual(b'a' * (size // 2) + b'b' * (size // 2), request(server, 'GET', f'/v1/files/{done["file"]["id"]}/content')[2])
        self.assertEqual(0, server.stop())

    def test_parts_survive_a_kill(self):
        path = folder('uploads_killed')
        server = harness.Server('--jobs-path', path)
        _, upload = create(server, 600_000)
        _, one = put(server, upload['id'], b'a' * 300_000)
        server.stop(signal.SIGKILL)
        server = harness.Server('--jobs-path', path)
        _, two = put(server, upload['id'], b'b' * 300_000)
        status, done = end(server, upload['id'], 'complete', part_ids=[one['id'], two['id']])
        self.assertEqual(200, status, done)
        self.assertEqual(b'a' * 300_000 + b'b' * 300_000, request(server, 'GET', f'/v1/files/{done["file"]["id"]}/content')[2])
        self.assertEqual(0, server.stop())

    def test_who_leaves_and_who_cancels_has_the_room_again(self):
        server = harness.Server('--jobs-path', folder('uploads_left'), '--jobs-tenant-disk', '2MiB')
        _, upload = create(server, 1_000_000)
        head = (f'POST /v1/uploads/{upload["id"]}/parts HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=a\r\nContent-Length: 9000000\r\n\r\n'
                '--a\r\nContent-Disposition: form-data; name="data"\r\n\r\n').encode()
        for _ in range(6):
            with socket.create_connection(('127.0.0.1', server.port)) as s:
                s.sendall(head + b'x' * 900_000)
        wait('a part finds room', lambda: put(server, upload['id'], b'x' * 1_000_000)[0] == 200)
        self.assertEqual(200, end(server, upload['id'], 'cancel')[0])
        wait('another finds it', lambda: create(server, 1_900_000)[0] == 200)
        self.assertEqual(0, server.stop())

    def test_each_key_has_its_own(self):
        keys = harness.scratch() / 'uploads_keys.yaml'
        keys.write_text(KEYS)
        server = harness.Server('--jobs-path', folder('uploads_keys'), '--auth-keys-file', keys)
        alice, bob = ({'Authorization': f'Bearer {name}s-key'} for name in ('alice', 'bob'))
        _, upload = create(server, 3, alice)
        _, part = put(server, upload['id'], b'abc', alice)
        _, own = create(server, 3, bob)
        self.assertEqual(404, put(server, upload['id'], b'abc', bob)[0])
        self.assertEqual(404, end(server, upload['id'], 'cancel', bob)[0])
        self.assertEqual(404, end(server, upload['id'], 'complete', bob, part_ids=[part['id']])[0])
        self.assertEqual(400, end(server, own['id'], 'complete', bob, part_ids=[part['id']])[0])
        self.assertEqual(404, request(server, 'GET', f'/v1/files/{part["id"]}/content', headers=alice)[0])
        self.assertEqual(200, end(server, upload['id'], 'complete', alice, part_ids=[part['id']])[0])
        self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main()
