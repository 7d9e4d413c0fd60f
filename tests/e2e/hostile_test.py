"""Bytes that no honest client sends: raw sockets for HTTP/1, hand-made frames for HTTP/2. A healthy client runs beside."""

import json
import socket
import struct
import time

import harness

from hpack import Encoder
from hyperframe.frame import (ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, PriorityFrame,
                              RstStreamFrame, SettingsFrame, WindowUpdateFrame)

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
CALM = 11


class Raw:
    """A socket with a deadline for everything."""

    def __init__(self, port):
        self.sock = socket.create_connection(('127.0.0.1', port), timeout=harness.PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has already said no
        return self

    def read_all(self):
        """Everything up to the server's close."""
        out = b''
        try:
            while data := self.sock.recv(65536):
                out += data
        except ConnectionResetError:
            pass
        return out


class H2(Raw):
    def __init__(self, port, settings=None):
        super().__init__(port)
        self.encoder, self.buffer = Encoder(), b''
        self.send(PREFACE + SettingsFrame(0, settings=settings or {}).serialize() + SettingsFrame(0, flags=['ACK']).serialize())

    def head(self, stream, path='/v2', method='GET', end=True, extra=()):
        fields = [(':method', method), (':scheme', 'http'), (':path', path), (':authority', 'localhost'), *extra]
        frame = HeadersFrame(stream, data=self.encoder.encode(fields), flags=['END_HEADERS'] + (['END_STREAM'] if end else []))
        return frame.serialize()

    def frames(self):
        """Frames until the server closes."""
        data, out = self.read_all(), []
        while len(data) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(data[:9]))
            frame.parse_body(memoryview(data[9:9 + length]))
            out.append(frame)
            data = data[9 + length:]
        return out

    def goaway(self):
        return next((f.error_code for f in self.frames() if isinstance(f, GoAwayFrame) and f.error_code), None)


class Hostile(harness.Case):
    def healthy(self):
        answer = harness.curl(self.server.url('/v2/health/live'))
        self.assertEqual(200, answer.status)

    def tearDown(self):
        self.healthy()

    # --- HTTP/1
    def h1(self, data):
        with Raw(self.server.port) as raw:
            raw.send(data)
            raw.sock.shutdown(socket.SHUT_WR)
            return raw.read_all()

    def test_smuggling_dies_at_the_gate(self):
        host = b'Host: a\r\n'
        for head in (
                b'POST /v2 HTTP/1.1\r\n' + host + b'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Transfer-Encoding: identity\r\n\r\n',
                b'POST /v2 HTTP/1.0\r\n' + host + b'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Content-Length: 5, 5\r\n\r\nhello',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Content-Length: +5\r\n\r\nhello',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Content_Length: 5\r\n\r\nhello',
                b'GET /v2 HTTP/1.1\r\n' + host + b'X: a\r\n folded\r\n\r\n',
                b'GET /v2 HTTP/1.1\r\n\r\n',
                b'GET /v2 HTTP/1.1\r\n' + host + host + b'\r\n',
                b'GET /v2 HTTP/1.1\r\nHost: a/b\r\n\r\n',
                b'GET /v2 HTTP/1.1\n' + host + b'\r\n',
                b'GET /v2 HTTP/1.1\r\nHost : a\r\n\r\n',
                b'GET /v2#x HTTP/1.1\r\n' + host + b'\r\n',
                b'GET /v2 HTTP/3.0\r\n' + host + b'\r\n',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Transfer-Encoding: deflate, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Transfer-Encoding: chunked\r\n\r\n5;x=\n\r\nhello\r\n0\r\n\r\n',
                b'POST /v2 HTTP/1.1\r\n' + host + b'Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n'):
            answer = self.h1(head + b'GET /v2/health/live HTTP/1.1\r\nHost: smuggled\r\n\r\n')
            self.assertRegex(answer.split(b'\r\n')[0], rb'^HTTP/1\.[01] (4\d\d|50[15]) ', head)
            self.assertEqual(1, answer.count(b'HTTP/1.'), head)

    def test_what_rfc_9112_allows_is_served(self):
        body = b'{"inputs":[{"name":"a","datatype":"INT32","shape":[1],"data":[7]}]}'
        infer = b'POST /v2/models/identity/infer HTTP/1.1\r\n'
        for request in (infer + b'Host:\r\nContent-Length: 00%d\r\n\r\n' % len(body) + body,
                        infer + b'Host: a\r\nTransfer-Encoding: chunked\r\n\r\n%x;name="va;lue";other\r\n%s\r\n0;last\r\n\r\n'
                        % (len(body), body)):
            answer = self.h1(request + b'GET /livez HTTP/1.1\r\nHost:\r\n\r\n')
            self.assertEqual(2, answer.count(b'HTTP/1.1 200 '), answer)
            self.assertIn(b'"data":[7]', answer)

    def test_nothing_behind_an_answer_that_closes_is_read(self):
        closing = [b'%s %s HTTP/1.0\r\n\r\n' % (method, path) for method in (b'GET', b'HEAD', b'POST', b'OPTIONS')
                   for path in (b'/livez', b'/absent', b'/v2/models/identity/infer', b'/')]
        closing += [b'%s /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' % method for method in (b'GET', b'HEAD', b'POST', b'OPTIONS')]
        closing += [b'POST /absent HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n%s\r\n\r\n' % framing
                    for framing in (b'Content-Length: 9', b'Transfer-Encoding: chunked')]
        for head in closing:
            for behind in (b'\r\n', b'x', b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n', b'0\r\n\r\n'):
                answer = self.h1(head + behind)
                self.assertRegex(answer, rb'^HTTP/1.1 \d\d\d ', head + behind)
                self.assertEqual(1, answer.count(b'HTTP/1.'), head + behind)
            self.assertIsNone(self.server.process.poll(), head)

    def test_too_much_head_is_431(self):
        for head in (b'X: ' + b'a' * 70000 + b'\r\n', b''.join(b'X%d: a\r\n' % i for i in range(1100))):
            answer = self.h1(b'GET /v2 HTTP/1.1\r\nHost: a\r\n' + head + b'\r\n')
            self.assertRegex(answer, rb'^HTTP/1.1 431 ')

    def test_a_body_over_the_limit_is_413_before_100(self):
        answer = self.h1(b'POST /v2/models/identity/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n')
        self.assertRegex(answer, rb'^HTTP/1.1 413 ')

    def test_pipelined_requests_are_answered_in_order(self):
        body = lambda i: json.dumps({'id': str(i), 'inputs': [{'name': 'a', 'datatype': 'INT32', 'shape': [1], 'data': [i]}]}).encode()
        request = lambda i: b'POST /v2/models/identity/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s' % (len(body(i)), body(i))
        answer = self.h1(b''.join(request(i) for i in range(200)))
        import re
        self.assertEqual([str(i).encode() for i in range(200)], re.findall(rb'"id":"(\d+)"', answer))

    def test_a_request_split_anywhere_is_one_request(self):
        request = b'GET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
        for cut in range(1, len(request), 3):
            with Raw(self.server.port) as raw:
                raw.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                raw.send(request[:cut])
                time.sleep(0.002)
                raw.send(request[cut:])
                self.assertRegex(raw.read_all(), rb'^HTTP/1.1 200 ')

    def test_garbage_and_early_ends_are_survived(self):
        for data in (b'', b'\0' * 100, b'PRI * HTTP/2.0\r\n\r\nXX', b'\x16\x03\x01\x02\0' + b'\xff' * 100, b'GET', b'\r\n' * 50,
                     PREFACE + b'\xff' * 1000):
            self.h1(data)

    # --- HTTP/2
    def calms(self, data, code=CALM, settings=None):
        with H2(self.server.port, settings) as h2:
            frames = data(h2) if callable(data) else data
            h2.send(frames)
            self.assertEqual(code, h2.goaway())

    def test_rapid_reset_is_calmed(self):
        self.calms(lambda h2: b''.join(
            h2.head(i, '/v2/models/identity/infer', 'POST', end=False) + RstStreamFrame(i, error_code=8).serialize()
            for i in range(1, 4001, 2)))

    def test_resets_that_we_are_made_to_send_are_calmed(self):
        self.calms(lambda h2: b''.join(
            h2.head(i, '/v2/models/identity/infer', 'POST', end=False, extra=[('content-length', '1')]) +
            DataFrame(i, b'too long', flags=['END_STREAM']).serialize() for i in range(1, 2001, 2)))

    def test_ping_and_settings_floods_are_calmed(self):
        self.calms(PingFrame(0, b'12345678').serialize() * 5000)
        self.calms(SettingsFrame(0, settings={3: 100}).serialize() * 2000)

    def test_empty_data_and_priority_floods_are_calmed(self):
        self.calms(lambda h2: h2.head(1, '/v2/models/identity/infer', 'POST', end=False) + DataFrame(1, b'').serialize() * 5000)
        self.calms(PriorityFrame(1, depends_on=0, stream_weight=3).serialize() * 20000)

    def test_an_hpack_bomb_is_small_here(self):
        before = self.server.rss()
        with H2(self.server.port) as h2:
            first = h2.encoder.encode([(':method', 'GET'), (':scheme', 'http'), (':path', '/v2'), (':authority', 'a'), ('x-bomb', 'b' * 3900)])
            block = first + b'\xbe' * 131072
            data = HeadersFrame(1, data=block[:16000], flags=['END_STREAM']).serialize()
            rest = [block[i:i + 16000] for i in range(16000, len(block), 16000)]
            for i, part in enumerate(rest):
                data += ContinuationFrame(1, data=part, flags=['END_HEADERS'] if i == len(rest) - 1 else []).serialize()
            h2.send(data).frames()
        self.assertLess(self.server.rss() - before, 16 << 20)

    def test_many_header_fields_are_431_and_the_connection_lives(self):
        with H2(self.server.port) as h2:
            h2.send(h2.head(1, extra=[(f'x-{i}', 'a') for i in range(150)]))
            h2.send(h2.head(3, '/v2/health/live'))
            time.sleep(0.3)
            h2.send(GoAwayFrame(0).serialize())
            h2.sock.shutdown(socket.SHUT_WR)
            statuses = {f.stream_id for f in h2.frames() if isinstance(f, HeadersFrame)}
            self.assertEqual({1, 3}, statuses)

    def test_a_peer_that_takes_nothing_is_cut(self):
        before = self.server.rss()
        with H2(self.server.port, {4: 0}) as h2:  # INITIAL_WINDOW_SIZE 0
            streams = range(1, 120, 2)
            h2.send(b''.join(h2.head(i, '/metrics') for i in streams))
            h2.sock.settimeout(40)  # ten seconds of grace, then one look a second
            cut, data = set(), b''
            while len(cut) < len(streams):
                data += h2.sock.recv(65536)
                while len(data) >= 9:
                    frame, length = Frame.parse_frame_header(memoryview(data[:9]))
                    if len(data) < 9 + length:
                        break
                    if isinstance(frame, RstStreamFrame):
                        cut.add(frame.stream_id)
                    data = data[9 + length:]
        self.assertLess(self.server.rss() - before, 64 << 20)

    def test_grpc_framing_lies_are_named(self):
        head = [('content-type', 'application/grpc'), ('te', 'trailers')]
        path = '/inference.GRPCInferenceService/ServerLive'
        cases = {
            b'\0' + struct.pack('>I', 1 << 31) + b'abc': b'8',       # more than the limit
            b'\2' + struct.pack('>I', 0): b'13',                     # no such flag
            b'\0' + struct.pack('>I', 0) + b'xyz': b'13',            # left-over bytes
            b'\0' + struct.pack('>I', 10) + b'short': b'13',         # ends early
        }
        from hpack import Decoder
        for body, status in cases.items():
            with H2(self.server.port) as h2:
                h2.send(h2.head(1, path, 'POST', end=False, extra=head) + DataFrame(1, body, flags=['END_STREAM']).serialize())
                h2.send(PingFrame(0, b'last one').serialize())
                h2.sock.settimeout(harness.PATIENCE)
                decoder, fields, data = Decoder(), {}, b''
                while 'grpc-status' not in fields:
                    data += h2.sock.recv(65536)
                    while len(data) >= 9:
                        frame, length = Frame.parse_frame_header(memoryview(data[:9]))
                        if len(data) < 9 + length:
                            break
                        frame.parse_body(memoryview(data[9:9 + length]))
                        data = data[9 + length:]
                        if isinstance(frame, HeadersFrame):
                            fields.update(decoder.decode(frame.data))
                self.assertEqual(status.decode(), fields['grpc-status'], fields)

    def test_idle_sockets_cost_little_and_vanish(self):
        fds = self.server.fds()
        socks = [socket.create_connection(('127.0.0.1', self.server.port)) for _ in range(500)]
        self.healthy()
        for s in socks:
            s.close()
        end = time.monotonic() + harness.PATIENCE
        while self.server.fds() > fds + 5 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertLessEqual(self.server.fds(), fds + 5)


if __name__ == '__main__':
    harness.main()
