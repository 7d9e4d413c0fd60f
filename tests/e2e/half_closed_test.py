"""Clients that end their side of a connection behind many pipelined requests: what can be answered at once is answered, what runs is
cancelled. So it is whether the end is read or lies behind requests that nobody reads, in cleartext and over TLS."""

import json
import re
import socket
import ssl
import subprocess
import time

import harness
from tiny_model import CONFIG, TOKENIZER, varied, write

CONTEXT = 32768
# Without an end token, so that every answer has the length that was asked for.
FILES = {'config.json': {**CONFIG, 'eos_token_id': None, 'max_position_embeddings': CONTEXT}, 'model.safetensors': varied(),
         'tokenizer.json': {**TOKENIZER, 'added_tokens': TOKENIZER['added_tokens'][1:]}}
PIPELINED = 16  # requests of a connection that are read before the first is answered
GET = b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'


def generation(tokens):
    body = json.dumps({'model': 'tiny', 'prompt': 'ab', 'max_tokens': tokens, 'seed': 1}).encode()
    return b'POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s' % (len(body), body)


class Plain:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port), timeout=harness.PATIENCE)

    def send(self, data):
        self.socket.sendall(data)

    def send_last(self, data):
        """With the end behind it."""
        self.socket.sendall(data)
        self.socket.shutdown(socket.SHUT_WR)

    def received(self):
        return self.socket.recv(65536)

    def read_all(self):
        said = b''
        while more := self.received():
            said += more
        return said

    def close(self):
        self.socket.close()


class Tls(Plain):
    """Its close_notify comes in one piece with what is in front of it."""

    def __init__(self, port):
        super().__init__(port)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.came, self.goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.came, self.goes)
        while not self.made(self.tls.do_handshake):
            self.socket.sendall(self.goes.read())
            self.came.write(self.socket.recv(65536))

    @staticmethod
    def made(step):
        try:
            step()
        except ssl.SSLWantReadError:
            return False
        return True

    def send(self, data):
        self.tls.write(data)
        self.socket.sendall(self.goes.read())

    def send_last(self, data):
        if data:
            self.tls.write(data)
        self.made(self.tls.unwrap)
        super().send_last(self.goes.read())

    def received(self):
        while True:
            try:
                return self.tls.read(65536)
            except ssl.SSLWantReadError:
                piece = self.socket.recv(65536)
                if not piece:
                    return b''
                self.came.write(piece)
            except ssl.SSLError:  # close_notify
                return b''


class HalfClosed(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.repository = harness.scratch() / 'half_closed'
        write(cls.repository, 'tiny', FILES, 'kv_cache: 128MiB, threads: 1, max_running: 64')
        cert, key = harness.scratch() / 'cert.pem', harness.scratch() / 'key.pem'
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
                        '-subj', '/CN=localhost', '-keyout', str(key), '-out', str(cert)], check=True, stderr=subprocess.DEVNULL)
        cls.serve = ('--tls-cert', cert, '--tls-key', key)
        super().setUpClass()

    def gauge(self, pattern):
        text = harness.curl(self.server.url('/metrics')).body.decode()
        return sum(float(n) for n in re.findall(rf'(?m)^{pattern} (\S+)$', text))

    def running(self):
        return self.gauge(r'weir_model_sequences\{.*\}')

    def made(self):
        return self.gauge(r'weir_model_generated_tokens_total\{.*\}')

    def wait(self, what):
        end = time.monotonic() + harness.PATIENCE
        while not what():
            self.assertLess(time.monotonic(), end, (self.running(), self.made()))
            time.sleep(0.05)

    def test_what_is_answered_at_once_is_answered_before_the_end(self):
        for client in (Plain, Tls):
            for many in (1, PIPELINED, 10 * PIPELINED + 1):
                c = client(self.server.port)
                c.send_last(many * GET)
                self.assertEqual(many, c.read_all().count(b'HTTP/1.1 200 '), client)
                c.close()

    def test_an_end_that_is_read_cancels_what_runs(self):
        for client in (Plain, Tls):
            self.vanish(client, 1)

    def test_an_end_behind_requests_that_are_not_read_cancels_what_runs(self):
        for client in (Plain, Tls):
            self.vanish(client, 3 * PIPELINED)

    def vanish(self, client, many):
        before, tokens, running = self.made(), CONTEXT - 100, min(many, PIPELINED)
        c = client(self.server.port)
        c.send(many * generation(tokens))
        self.wait(lambda: self.running() == running)
        c.send_last(b'')
        self.wait(lambda: self.running() == 0)
        self.assertLess(self.made() - before, running * tokens, 'they have run to their ends')
        self.assertEqual(b'', c.read_all())
        c.close()


if __name__ == '__main__':
    harness.main()
