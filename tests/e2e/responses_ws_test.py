"""The Responses API over WebSockets: OpenAI's own client, frames that nobody should send, and clients that leave."""

import json
import os
import signal
import socket
import struct
import subprocess
import time
import unittest

import harness
from evergreen_client import Http2WebSocketSession, WebSocketSession, masked
from tiny_model import CONFIG, varied, write

PATH = '/v1/responses'
LONG = 4096  # tokens that the model's context has


def repository():
    root = harness.scratch() / 'responses_ws'
    if not root.exists():
        files = {'config.json': {**CONFIG, 'eos_token_id': None, 'max_position_embeddings': LONG}, 'model.safetensors': varied()}
        write(root, 'chat', files, 'kv_cache: 64MiB, threads: 1, max_running: 8')
    return root


class Events:
    """Requests and their events, over a WebSocket by hand."""

    path = PATH

    def create(self, **members):
        self.text(json.dumps({'type': 'response.create', 'model': 'chat', 'input': 'Hi', 'max_output_tokens': 4, **members}))

    def text(self, text):
        self.write(masked(1, text.encode() if isinstance(text, str) else text))

    def event(self):
        while True:
            opcode, payload = self.frame()
            if opcode == 1:
                return json.loads(payload)
            if opcode == 8:
                return {'type': 'close', 'code': struct.unpack('>H', payload[:2])[0]}

    def response(self):
        """The last event of the next response, or an error, or the end."""
        while (event := self.event())['type'] not in ('response.completed', 'response.incomplete', 'response.failed', 'error', 'close'):
            pass
        return event


class Http1(Events, WebSocketSession):
    pass


class Http2(Events, Http2WebSocketSession):
    pass


class ResponsesWebSocket(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=repository())

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def open(self, kind=Http1, *args, server=None):
        session = kind(server or self.server, *args)
        self.addCleanup(session.close)
        return session

    def running(self):
        return json.loads(harness.curl(self.server.url('/load')).body)['server_load']

    def wait_until_nothing_runs(self):
        end = time.monotonic() + harness.PATIENCE
        while self.running():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_both_versions_of_http(self):
        for kind in (Http1, Http2):
            session = self.open(kind)
            session.create(store=False)
            first = session.response()
            self.assertEqual('response.incomplete', first['type'], first)
            session.create(store=False, input='on', previous_response_id=first['response']['id'])
            self.assertEqual(first['response']['id'], session.response()['response']['previous_response_id'])

    def test_frames_that_break_the_protocol(self):
        request = json.dumps({'type': 'response.create', 'model': 'chat', 'input': 'Hi', 'max_output_tokens': 4}).encode()
        unmasked = bytes([0x81, len(request)]) + request
        cases = [(unmasked, 1002), (masked(1, b'"\xff"'), 1007), (masked(2, request), 1003), (masked(0, request), 1002),
                 (masked(1, b'{', fin=False) + masked(1, b'}'), 1002), (masked(3, b''), 1002), (masked(9, b'x' * 126), 1002),
                 (b'\xc1' + masked(1, request)[1:], 1002), (b'\x81\xff' + struct.pack('>Q', 1 << 62) + bytes(4), 1009),
                 (masked(8, b'\x03'), 1002)]
        for frames, code in cases:
            session = self.open()
            session.write(frames)
            self.assertEqual({'type': 'close', 'code': code}, session.event(), frames[:20])
        self.wait_until_nothing_runs()

    def test_a_message_in_small_pieces(self):
        session = self.open()
        text = json.dumps({'type': 'response.create', 'model': 'chat', 'input': 'é' * 20, 'max_output_tokens': 4}, ensure_ascii=False).encode()
        for i, byte in enumerate(text):
            session.write(masked(0 if i else 1, bytes([byte]), fin=False) + masked(9, b''))
        session.write(masked(0, b''))
        self.assertEqual('response.incomplete', session.response()['type'])

    def test_messages_that_are_no_requests(self):
        session = self.open()
        for text in ('', '{', '[]', '7', '{}', '{"type":"response.cancel"}', '{"type":"response.create"}', '{"type":' + '[' * 5000,
                     json.dumps({'type': 'response.create', 'model': 'chat', 'input': 'x' * 100_000, 'max_output_tokens': 4})):
            session.text(text)
            event = session.response()
            self.assertEqual(('error', 400), (event['type'], event['status']), event)
            self.assertEqual(event['message'], event['error']['message'])
        session.create()
        self.assertEqual('response.incomplete', session.response()['type'])

    def test_thousands_of_requests_wait_and_hold_up_nobody(self):
        session = self.open()
        request = masked(1, json.dumps({'type': 'response.create', 'model': 'chat', 'input': 'Hi', 'max_output_tokens': 400, 'store': False}).encode())
        session.socket.settimeout(0.5)
        with self.assertRaises(TimeoutError):  # it is held back
            for _ in range(200_000):
                session.socket.sendall(request)
        self.assertLessEqual(self.running(), 1)
        other = self.open()
        begun = time.monotonic()
        other.create()
        self.assertEqual('response.incomplete', other.response()['type'])
        self.assertLess(time.monotonic() - begun, harness.PATIENCE / 2)
        session.close()
        self.wait_until_nothing_runs()

    def test_errors_in_thousands(self):
        session = self.open()
        session.write(masked(1, b'{}') * 3000)
        for _ in range(3000):
            self.assertEqual('error', session.event()['type'])
        session.create()
        self.assertEqual('response.incomplete', session.response()['type'])

    def test_a_client_that_leaves_ends_its_generation(self):
        for leave in (lambda s: s.write(masked(8, struct.pack('>H', 1000))),
                      lambda s: s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))):
            session = self.open()
            session.create(max_output_tokens=LONG - 100)
            while session.event()['type'] != 'response.output_text.delta':
                pass
            leave(session)
            session.close()
            self.wait_until_nothing_runs()

    def test_pages_of_other_origins_get_none(self):
        for fields in ('Origin: https://evil.example\r\n', 'Origin: null\r\n', 'Sec-Fetch-Site: cross-site\r\n'):
            self.assertIn(' 403 ', self.open(Http1, fields).head, fields)
        own = self.open(Http1, f'Origin: http://{self.server.address}\r\n')
        own.create()
        self.assertEqual('response.incomplete', own.response()['type'])

    def test_a_connection_that_is_too_old_ends(self):
        server = harness.Server('--openai-websocket-age', '1s', repository=repository())
        self.addCleanup(server.stop)
        session = self.open(server=server)
        event = session.event()
        self.assertEqual(('error', 400, 'websocket_connection_limit_reached'), (event['type'], event['status'], event['code']))
        self.assertEqual({'type': 'close', 'code': 1001}, session.event())

    def test_a_server_that_ends_finishes_what_runs(self):
        server = harness.Server('--drain-delay', '0ms', repository=repository())
        self.addCleanup(lambda: server.process.poll() is None and server.stop(signal.SIGKILL))
        idle, busy = self.open(server=server), self.open(server=server)
        busy.create(max_output_tokens=LONG - 100)
        self.assertEqual('response.created', busy.event()['type'])
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual({'type': 'close', 'code': 1001}, idle.event())
        self.assertEqual('response.incomplete', busy.response()['type'])
        self.assertEqual({'type': 'close', 'code': 1001}, busy.event())
        self.assertEqual(0, server.process.wait(harness.PATIENCE))


class OfficialClient(harness.Case):
    def passes(self, server, *args):
        env = {**os.environ, 'NODE_PATH': str(harness.ROOT / '.cache/npm/node_modules')}
        done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e/responses_ws_client.js'), server.url(), 'chat', *args],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, env=env)
        self.assertEqual(0, done.returncode, done.stdout.decode())
        self.assertIn('9 passed, 0 failed', done.stdout.decode())

    def test_the_official_client(self):
        self.passes(self.server)

    def test_the_official_client_with_a_key(self):
        server = harness.Server('--openai-api-keys', 'a-key')
        self.addCleanup(server.stop)
        self.passes(server, 'a-key')


if __name__ == '__main__':
    harness.main()
