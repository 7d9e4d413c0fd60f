"""Answers that come before their request is whole, for clients that look at them only when all of their body is sent."""

import shutil
import socket
import subprocess
import time
import unittest

import h2.config
import h2.connection
import h2.events
import harness

SOURCE = harness.ROOT / 'tests/e2e/early_answers_client.java'
LARGE = 8 << 20  # more than the windows and the socket buffers hold


class Late:
    """httpx's way over HTTP/2: where the window is closed it waits until that opens, and looks at no answer before its end."""

    def __init__(self, port):
        self.sock = socket.create_connection(('127.0.0.1', port), timeout=harness.PATIENCE)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding='utf-8'))
        self.h2.initiate_connection()
        self.status, self.end, self.text = None, None, b''

    def look(self):
        data = self.sock.recv(65536)
        assert data, 'the connection has ended'
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self.status = int(dict(event.headers)[':status'])
            elif isinstance(event, h2.events.DataReceived):
                self.text += event.data
            elif isinstance(event, h2.events.StreamReset):
                self.end = event.error_code
            elif isinstance(event, h2.events.StreamEnded):
                self.end = 'ended'
        self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def post(self, path, size, content_type='application/json'):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(':method', 'POST'), (':scheme', 'http'), (':path', path), (':authority', '127.0.0.1'),
                                      ('content-type', content_type), ('content-length', str(size))])
        while size:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, size)
            if room == 0:
                self.look()
                continue
            self.h2.send_data(stream, b' ' * room)
            size -= room
            self.flush()
        self.h2.end_stream(stream)
        self.flush()
        while self.end is None:
            self.look()
        self.sock.close()
        return self.status, self.end


class EarlyAnswers(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.cert, key = harness.scratch() / 'early.pem', harness.scratch() / 'early.key'
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                        '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cls.cert],
                       check=True, stderr=subprocess.DEVNULL)
        cls.server = harness.Server('--tls-cert', cls.cert, '--tls-key', key, env={'WEIR_LIMITS_BODY': '4MiB'})

    def test_over_http2(self):
        for path, status in ('/nosuch', 404), ('/v2/models/identity/infer', 413), ('/v2', 405):
            self.assertEqual((status, 'ended'), Late(self.server.port).post(path, LARGE), path)

    def ask_with_java(self, path, size):
        command = ['java', str(SOURCE), f'https://127.0.0.1:{self.server.port}{path}', str(size)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        return done.stdout.decode().splitlines()

    @unittest.skipUnless(shutil.which('java'), 'needs java')
    def test_javas_client(self):
        for path, status in ('/nosuch', 404), ('/v2/models/identity/infer', 413):
            self.assertEqual([f'HTTP_1_1 {status}', f'HTTP_2 {status}'], self.ask_with_java(path, LARGE))

    @unittest.skipUnless(shutil.which('java'), 'needs java')
    def test_javas_client_does_not_hang_in_a_body_that_is_far_too_long(self):
        """It hears of an error, or has the answer, and does not wait until its own time is over."""
        answers = self.ask_with_java('/v2/models/identity/infer', 8 * LARGE)
        self.assertEqual(2, len(answers), answers)
        for said in answers:
            self.assertRegex(said, '^HTTP_(1_1|2) (413|IOException)$')

    def test_over_http1_however_slowly_it_comes(self):
        """The server has closed its end for longer than it waits for who is silent."""
        sock = socket.create_connection(('127.0.0.1', self.server.port), timeout=harness.PATIENCE)
        sock.sendall(f'POST /nosuch HTTP/1.1\r\nhost: a\r\ncontent-length: {LARGE}\r\n\r\n'.encode())
        for _ in range(16):
            sock.sendall(b' ' * (LARGE // 16))
            time.sleep(0.25)
        answer = b''
        while piece := sock.recv(65536):
            answer += piece
        self.assertTrue(answer.startswith(b'HTTP/1.1 404 '), answer)
        sock.close()

    def test_what_is_thrown_away_is_not_kept(self):
        before = self.server.rss()
        clients = [Late(self.server.port) for _ in range(8)]
        for client in clients:
            self.assertEqual((404, 'ended'), client.post('/nosuch', 2 * LARGE))
        self.assertLess(self.server.rss() - before, 16 << 20)


if __name__ == '__main__':
    harness.main()
