"""The cases of h2spec 2.6 (-S, all 147) by their ids, in words and code of our own, over cleartext and over TLS.

A case is what is sent and what must come of it. Where h2spec waits for a time, two pings mark the end of the outcome, so
a case takes milliseconds. src/wire/README.md says where h2spec itself counts otherwise, and why."""

import subprocess
import unittest

import h2_peer as h2
import harness
from h2_peer import (ACK, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR,
                     GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PADDED, PING, PREFACE, PRIORITY, PRIORITY_FLAG, PROTOCOL_ERROR,
                     PUSH_PROMISE, REFUSED_STREAM, RST_STREAM, SETTINGS, STREAM_CLOSED, WINDOW_UPDATE, data, field, frame, ping,
                     priority, rst, settings, window)

WHOLE = '/v2/models/identity/infer'  # a POST here is answered when its body is complete


# --- what is sent
def get(p, stream=1, flags=END_STREAM | END_HEADERS, **more):
    return frame(HEADERS, flags, stream, p.block(**more))


def post(p, stream=1, flags=END_HEADERS, **more):
    return frame(HEADERS, flags, stream, p.block('POST', WHOLE, **more))


def extra(p, flags=END_HEADERS, stream=1):
    return frame(CONTINUATION, flags, stream, h2.long_field('x-dummy', 4000))


def get_with(*fields, front=b''):
    """A GET whose header block has these octets behind it, or in front of it."""
    return lambda p: frame(HEADERS, END_STREAM | END_HEADERS, 1, front + p.block() + b''.join(fields))


def bad_fields(**more):
    return lambda p: get(p, **more)


def answered_first(*then):
    """A request, the whole of its answer, then more on its stream."""
    def send(p):
        p.send(get(p))
        p.rest_of(1)
        return b''.join(part(p) if callable(part) else part for part in then)
    return send


def after_ack(change, then):
    """Settings of the client's, their acknowledgement, then the rest."""
    def send(p):
        p.send(change)
        p.until(lambda f: f[0] == SETTINGS and f[1] & ACK)
        return then(p)
    return send


def padded(p, stream=1):
    block = p.block()
    return frame(HEADERS, END_STREAM | END_HEADERS | PADDED, stream, bytes([8]) + block + bytes(8))


def negative_window(p):
    p.send(settings((INITIAL_WINDOW_SIZE, 3)) + get(p))
    p.until(lambda f: f[0] == DATA)
    p.send(settings((INITIAL_WINDOW_SIZE, 2)))
    p.until(lambda f: f[0] == SETTINGS and f[1] & ACK)
    return window(1, 2)


def split(*cuts):
    def send(p):
        block, out, at = p.block(), b'', 0
        for cut in (*cuts, len(block)):
            kind, ends = (CONTINUATION if at else HEADERS), (END_HEADERS if cut == len(block) else 0)
            out += frame(kind, ends | (0 if at else END_STREAM), 1, block[at:cut])
            at = cut
        return out
    return send


# --- what must come of it
def connection_error(*codes):
    def check(t, p, seen):
        t.assertIn([f[3][4:8] for f in seen if f[0] == GOAWAY][-1:], [[code.to_bytes(4, 'big')] for code in codes])
        t.assertTrue(p.closed, 'the connection is still open')
    return check


def stream_error(*codes, stream=1):
    def check(t, p, seen):
        resets = [int.from_bytes(f[3], 'big') for f in seen if f[0] == RST_STREAM and (f[2] == stream or stream is None)]
        if not resets:
            return connection_error(*codes)(t, p, seen)
        t.assertIn(resets[0], codes)
    return check


def answer(t, p, seen):
    t.assertIn(1, [f[2] for f in seen if f[0] == HEADERS], seen)
    t.assertFalse(p.closed)


def alive(t, p, seen):
    t.assertFalse(p.closed, seen)
    t.assertEqual([], [f for f in seen if f[0] in (GOAWAY, RST_STREAM)])


def no_harm(t, p, seen):
    """Alive, or closed in peace (after the client's own GOAWAY)."""
    t.assertEqual([], [f for f in seen if f[0] == RST_STREAM or (f[0] == GOAWAY and any(f[3][4:8]))])


def one_octet(t, p, seen):
    t.assertEqual([1], [len(f[3]) for f in seen if f[0] == DATA], seen)


def acknowledged(t, p, seen):
    t.assertIn((SETTINGS, ACK, 0, b''), seen)


def pong(payload, but=None):
    def check(t, p, seen):
        pongs = [f[3] for f in seen if f[0] == PING and f[1] & ACK]
        t.assertIn(payload, pongs)
        t.assertNotIn(but, pongs)
    return check


def own_settings_first(t, p, seen):
    t.assertEqual((SETTINGS, 0, 0), seen[0][:3])


PREFACE_CASE = ('the server speaks first with SETTINGS', PREFACE + settings((INITIAL_WINDOW_SIZE, 65535)), own_settings_first)
LITERALS = [(index, kind, huffman) for kind in (0x40, 0, 0x10) for index in (True, False) for huffman in (False, True)]
HUFFMAN = b'\0' + h2.text('x-test', huffman=True)  # the name of a field whose value follows

CASES = {
    'generic/1/1': PREFACE_CASE,
    'generic/2/1': ('PRIORITY may name an idle stream', priority(1) + ping(b'generic2'), pong(b'generic2')),
    'generic/2/2': ('WINDOW_UPDATE may follow END_STREAM', lambda p: settings((INITIAL_WINDOW_SIZE, 0)) + get(p) + window(1, 1), one_octet),
    'generic/2/3': ('PRIORITY may follow END_STREAM',
                    lambda p: settings((INITIAL_WINDOW_SIZE, 0)) + get(p) + priority(1) + window(1, 1), one_octet),
    'generic/2/4': ('RST_STREAM may follow END_STREAM', lambda p: get(p) + rst(1), alive),
    'generic/2/5': ('PRIORITY may name a closed stream', answered_first(priority(1)), alive),
    'generic/3.1/1': ('a body in one DATA', lambda p: post(p) + data(), answer),
    'generic/3.1/2': ('a body in two DATA', lambda p: post(p) + data(end=False) + data(), answer),
    'generic/3.1/3': ('padded DATA', lambda p: post(p) + frame(DATA, END_STREAM | PADDED, 1, b'\5test' + bytes(5)), answer),
    'generic/3.2/1': ('HEADERS', get, answer),
    'generic/3.2/2': ('padded HEADERS', padded, answer),
    'generic/3.2/3': ('HEADERS with a priority',
                      lambda p: frame(HEADERS, END_STREAM | END_HEADERS | PRIORITY_FLAG, 1, b'\0\0\0\0\xff' + p.block()), answer),
    'generic/3.3/1': ('weight 1', lambda p: priority(1, weight=0) + get(p), answer),
    'generic/3.3/2': ('weight 256', lambda p: priority(1, weight=255) + get(p), answer),
    'generic/3.3/3': ('a dependency', lambda p: priority(3, depends_on=1, weight=0) + get(p), answer),
    'generic/3.3/4': ('an exclusive dependency', lambda p: priority(1, depends_on=1 << 31, weight=0) + get(p), answer),
    'generic/3.3/5': ('PRIORITY of a higher stream opens none', lambda p: priority(3) + get(p), answer),
    'generic/3.4/1': ('RST_STREAM', lambda p: post(p) + rst(1), alive),
    'generic/3.5/1': ('SETTINGS with all that is defined',
                      settings((1, 4096), (2, 1), (3, 100), (4, 65535), (5, 16384), (6, 100)), acknowledged),
    'generic/3.7/1': ('PING', ping(b'generic3'), pong(b'generic3')),
    'generic/3.8/1': ('GOAWAY', frame(GOAWAY, payload=bytes(8) + b'bye'), no_harm),
    'generic/3.9/1': ('WINDOW_UPDATE of the connection', window(0, 1), alive),
    'generic/3.9/2': ('WINDOW_UPDATE of a stream', lambda p: get(p) + window(1, 1), answer),
    'generic/3.10/1': ('a header block in two frames', split(5), answer),
    'generic/3.10/2': ('a header block in three frames', split(5, 10), answer),
    'generic/4/1': ('GET', get, answer),
    'generic/4/2': ('HEAD', lambda p: get(p, method='HEAD'), answer),
    'generic/4/3': ('POST', lambda p: post(p) + data(), answer),
    'generic/4/4': ('POST with trailers', lambda p: post(p, trailer='x-test') + data(end=False) +
                    frame(HEADERS, END_STREAM | END_HEADERS, 1, field('x-test', 'ok')), answer),
    'generic/5/1': ('an indexed field', get_with(b'\xba'), answer),
    **{f'generic/5/{n}': (f'a literal: name indexed {index}, kind {kind:#x}, Huffman {huffman}',
                          get_with(field(58 if index else 'x-test', 'h2', kind, huffman)), answer)
       for n, (index, kind, huffman) in enumerate(LITERALS, 2)},
    'generic/5/14': ('the dynamic table made smaller', get_with(front=b'\x3f\x61'), answer),
    'generic/5/15': ('the dynamic table resized twice', get_with(front=b'\x3f\x61\x3f\xe1\x1f'), answer),

    'http2/3.5/1': PREFACE_CASE,
    'http2/4.1/1': ('frames of unknown types are passed over', frame(0x16, 0, 0, bytes(8)) + ping(b'http2/41'), pong(b'http2/41')),
    'http2/4.1/2': ('undefined flags are ignored', frame(PING, 0x16, 0, b'http2/41'), pong(b'http2/41')),
    'http2/4.1/3': ('the reserved bit is ignored', frame(PING, 0x16, 1 << 31, b'http2/41'), pong(b'http2/41')),
    'http2/4.2/1': ('a frame of 2^14 octets', lambda p: post(p) + data(payload=bytes(16384)), answer),
    'http2/4.2/2': ('DATA beyond SETTINGS_MAX_FRAME_SIZE',
                    lambda p: post(p) + frame(DATA, END_STREAM, 1, bytes(64), p.settings[h2.MAX_FRAME_SIZE] + 1), stream_error(FRAME_SIZE_ERROR)),
    'http2/4.2/3': ('HEADERS beyond SETTINGS_MAX_FRAME_SIZE',
                    lambda p: frame(HEADERS, END_STREAM | END_HEADERS, 1, p.block(), p.settings[h2.MAX_FRAME_SIZE] + 1),
                    connection_error(FRAME_SIZE_ERROR)),
    'http2/4.3/1': ('a header block that is cut off', frame(HEADERS, END_STREAM | END_HEADERS, 1, b'\x40'), connection_error(COMPRESSION_ERROR)),
    'http2/4.3/2': ('PRIORITY inside a header block', lambda p: get(p, flags=0) + priority(1) + extra(p), connection_error(PROTOCOL_ERROR)),
    'http2/4.3/3': ('HEADERS of another stream inside a header block', lambda p: get(p, flags=0) + get(p, 3) + extra(p),
                    connection_error(PROTOCOL_ERROR)),
    'http2/5.1.1/1': ('an even stream id', lambda p: get(p, 2), connection_error(PROTOCOL_ERROR)),
    'http2/5.1.1/2': ('a stream id below the last', lambda p: get(p, 5) + get(p, 3), connection_error(PROTOCOL_ERROR)),
    'http2/5.1.2/1': ('a stream more than was announced',
                      lambda p: settings((INITIAL_WINDOW_SIZE, 0)) +
                      b''.join(get(p, 1 + 2 * i) for i in range(p.settings[h2.MAX_CONCURRENT_STREAMS] + 1)),
                      stream_error(PROTOCOL_ERROR, REFUSED_STREAM, stream=None)),
    'http2/5.1/1': ('DATA on an idle stream', data(), stream_error(PROTOCOL_ERROR, STREAM_CLOSED)),
    'http2/5.1/2': ('RST_STREAM on an idle stream', rst(1), connection_error(PROTOCOL_ERROR)),
    'http2/5.1/3': ('WINDOW_UPDATE on an idle stream', window(1, 100), connection_error(PROTOCOL_ERROR)),
    'http2/5.1/4': ('CONTINUATION on an idle stream', extra, connection_error(PROTOCOL_ERROR)),
    'http2/5.1/5': ('DATA after END_STREAM', lambda p: get(p) + data(), stream_error(STREAM_CLOSED)),
    'http2/5.1/6': ('HEADERS after END_STREAM', lambda p: get(p) + get(p), stream_error(STREAM_CLOSED)),
    'http2/5.1/7': ('CONTINUATION after END_STREAM', lambda p: get(p) + extra(p), stream_error(STREAM_CLOSED, PROTOCOL_ERROR)),
    'http2/5.1/8': ('DATA after RST_STREAM', lambda p: post(p) + rst(1) + data(), stream_error(STREAM_CLOSED)),
    'http2/5.1/9': ('HEADERS after RST_STREAM', lambda p: post(p) + rst(1) + get(p), stream_error(STREAM_CLOSED)),
    'http2/5.1/10': ('CONTINUATION after RST_STREAM', lambda p: post(p) + rst(1) + extra(p), stream_error(STREAM_CLOSED, PROTOCOL_ERROR)),
    'http2/5.1/11': ('DATA on a closed stream', answered_first(data()), stream_error(STREAM_CLOSED)),
    'http2/5.1/12': ('HEADERS on a closed stream', answered_first(get), connection_error(STREAM_CLOSED)),
    'http2/5.1/13': ('CONTINUATION on a closed stream', answered_first(extra), connection_error(STREAM_CLOSED, PROTOCOL_ERROR)),
    'http2/5.3.1/1': ('HEADERS that depend on themselves',
                      lambda p: frame(HEADERS, END_STREAM | END_HEADERS | PRIORITY_FLAG, 1, b'\0\0\0\1\xff' + p.block()),
                      stream_error(PROTOCOL_ERROR)),
    'http2/5.3.1/2': ('PRIORITY that depends on itself', priority(1, depends_on=1), stream_error(PROTOCOL_ERROR)),
    'http2/5.4.1/1': ('after an error the connection is closed', frame(PING, 0, 3, bytes(8)), connection_error(PROTOCOL_ERROR)),
    'http2/5.4.1/2': ('and before that GOAWAY names it', frame(PING, 0, 3, bytes(8)), connection_error(PROTOCOL_ERROR)),
    'http2/5.5/1': ('extension frames are passed over', frame(0x16, 0, 0, bytes(8)) + ping(b'http2/55'), pong(b'http2/55')),
    'http2/5.5/2': ('but not inside a header block', lambda p: get(p, flags=END_STREAM) + frame(0x16, 0, 0, bytes(8)),
                    connection_error(PROTOCOL_ERROR)),
    'http2/6.1/1': ('DATA on stream 0', data(0), connection_error(PROTOCOL_ERROR)),
    'http2/6.1/2': ('DATA where the client has ended', lambda p: post(p, flags=END_STREAM | END_HEADERS) + data(), stream_error(STREAM_CLOSED)),
    'http2/6.1/3': ('more padding than DATA', lambda p: post(p, content_length='4') + frame(DATA, END_STREAM | PADDED, 1, b'\6Test'),
                    connection_error(PROTOCOL_ERROR)),
    'http2/6.2/1': ('PRIORITY before END_HEADERS', lambda p: get(p, flags=0) + priority(1) + extra(p), connection_error(PROTOCOL_ERROR)),
    'http2/6.2/2': ('HEADERS of another stream before END_HEADERS', lambda p: get(p, flags=0) + get(p, 3) + extra(p),
                    connection_error(PROTOCOL_ERROR)),
    'http2/6.2/3': ('HEADERS on stream 0', lambda p: get(p, 0), connection_error(PROTOCOL_ERROR)),
    'http2/6.2/4': ('more padding than HEADERS',
                    lambda p: frame(HEADERS, END_STREAM | END_HEADERS | PADDED, 1, bytes([len(p.block()) + 2]) + p.block()),
                    stream_error(PROTOCOL_ERROR)),
    'http2/6.3/1': ('PRIORITY on stream 0', priority(0), connection_error(PROTOCOL_ERROR)),
    'http2/6.3/2': ('PRIORITY of 4 octets', lambda p: get(p) + frame(PRIORITY, 0, 1, b'\x80\0\0\1'), stream_error(FRAME_SIZE_ERROR)),
    'http2/6.4/1': ('RST_STREAM on stream 0', rst(0), connection_error(PROTOCOL_ERROR)),
    'http2/6.4/2': ('RST_STREAM on an idle stream', rst(1), connection_error(PROTOCOL_ERROR)),
    'http2/6.4/3': ('RST_STREAM of 3 octets', lambda p: get(p) + frame(RST_STREAM, 0, 1, bytes(3)), connection_error(FRAME_SIZE_ERROR)),
    'http2/6.5/1': ('SETTINGS that acknowledge and say something', frame(SETTINGS, ACK, 0, b'\0'), connection_error(FRAME_SIZE_ERROR)),
    'http2/6.5/2': ('SETTINGS of a stream', frame(SETTINGS, 0, 1, b'\0\3\0\0\0\x64'), connection_error(PROTOCOL_ERROR)),
    'http2/6.5/3': ('SETTINGS of 3 octets', frame(SETTINGS, 0, 0, b'\0\3\0'), connection_error(FRAME_SIZE_ERROR, PROTOCOL_ERROR)),
    'http2/6.5.2/1': ('ENABLE_PUSH of 2', settings((2, 2)), connection_error(PROTOCOL_ERROR)),
    'http2/6.5.2/2': ('INITIAL_WINDOW_SIZE of 2^31', settings((4, 1 << 31)), connection_error(FLOW_CONTROL_ERROR)),
    'http2/6.5.2/3': ('MAX_FRAME_SIZE below 2^14', settings((5, 16383)), connection_error(PROTOCOL_ERROR)),
    'http2/6.5.2/4': ('MAX_FRAME_SIZE of 2^24', settings((5, 1 << 24)), connection_error(PROTOCOL_ERROR)),
    'http2/6.5.2/5': ('unknown settings are passed over', settings((0xff, 1)), alive),
    'http2/6.5.3/1': ('of one setting given twice the last counts', after_ack(settings((4, 100), (4, 1)), get), one_octet),
    'http2/6.5.3/2': ('SETTINGS are acknowledged', settings((2, 0)), acknowledged),
    'http2/6.7/1': ('PING comes back with its payload', ping(b'http2/67'), pong(b'http2/67')),
    'http2/6.7/2': ('an answer to a PING has no answer', ping(b'none/67!', ACK) + ping(b'http2/67'), pong(b'http2/67', but=b'none/67!')),
    'http2/6.7/3': ('PING of a stream', frame(PING, 0, 1, bytes(8)), connection_error(PROTOCOL_ERROR)),
    'http2/6.7/4': ('PING of 6 octets', frame(PING, 0, 0, bytes(6)), connection_error(FRAME_SIZE_ERROR)),
    'http2/6.8/1': ('GOAWAY of a stream', frame(GOAWAY, 0, 1, bytes(8)), connection_error(PROTOCOL_ERROR)),
    'http2/6.9/1': ('an increment of 0', window(0, 0), connection_error(PROTOCOL_ERROR)),
    'http2/6.9/2': ('an increment of 0 on a stream', lambda p: post(p) + window(1, 0), stream_error(PROTOCOL_ERROR)),
    'http2/6.9/3': ('WINDOW_UPDATE of 3 octets', frame(WINDOW_UPDATE, 0, 0, b'\0\0\1'), connection_error(FRAME_SIZE_ERROR)),
    'http2/6.9.1/1': ('no more DATA than the window', after_ack(settings((4, 1)), get), one_octet),
    'http2/6.9.1/2': ('a window beyond 2^31-1', window(0, (1 << 31) - 1) * 2, connection_error(FLOW_CONTROL_ERROR)),
    'http2/6.9.1/3': ('a stream window beyond 2^31-1', lambda p: post(p) + window(1, (1 << 31) - 1) * 2, stream_error(FLOW_CONTROL_ERROR)),
    'http2/6.9.2/1': ('a new INITIAL_WINDOW_SIZE holds for open streams',
                      after_ack(settings((4, 0)), lambda p: get(p) + settings((4, 1))), one_octet),
    'http2/6.9.2/2': ('a window may be negative', negative_window, one_octet),
    'http2/6.9.2/3': ('INITIAL_WINDOW_SIZE of 2^31', settings((4, 1 << 31)), connection_error(FLOW_CONTROL_ERROR)),
    'http2/6.10/1': ('CONTINUATION twice', lambda p: get(p, flags=END_STREAM) + extra(p, 0) + extra(p), answer),
    'http2/6.10/2': ('DATA before END_HEADERS', lambda p: post(p, flags=0) + extra(p, 0) + data(), connection_error(PROTOCOL_ERROR)),
    'http2/6.10/3': ('CONTINUATION on stream 0', lambda p: get(p, flags=END_STREAM) + extra(p, stream=0), connection_error(PROTOCOL_ERROR)),
    'http2/6.10/4': ('CONTINUATION after END_HEADERS', lambda p: get(p) + extra(p), connection_error(PROTOCOL_ERROR)),
    'http2/6.10/5': ('CONTINUATION after the last CONTINUATION', lambda p: get(p, flags=END_STREAM) + extra(p) * 2, connection_error(PROTOCOL_ERROR)),
    'http2/6.10/6': ('CONTINUATION behind DATA', lambda p: post(p, flags=0) + data() + extra(p, 0) + extra(p, stream=0),
                     connection_error(PROTOCOL_ERROR)),
    'http2/7/1': ('GOAWAY with an unknown code', frame(GOAWAY, payload=bytes(7) + b'\xff'), no_harm),
    'http2/7/2': ('RST_STREAM with an unknown code', lambda p: post(p) + rst(1, 0xff), alive),
    'http2/8.1/1': ('trailers without END_STREAM', lambda p: post(p) + data(end=False) + frame(HEADERS, END_HEADERS, 1, field('x-test', 'ok')),
                    stream_error(PROTOCOL_ERROR)),
    'http2/8.1.2/1': ('a field name in upper case', get_with(field('X-TEST', 'ok')), stream_error(PROTOCOL_ERROR)),
    'http2/8.1.2.1/1': ('an unknown pseudo-header field', bad_fields(extra=[(':test', 'ok')]), stream_error(PROTOCOL_ERROR)),
    'http2/8.1.2.1/2': ('a pseudo-header field of responses', bad_fields(extra=[(':status', '200')]), stream_error(PROTOCOL_ERROR)),
    'http2/8.1.2.1/3': ('a pseudo-header field in trailers', lambda p: post(p) + data(end=False) +
                        frame(HEADERS, END_STREAM | END_HEADERS, 1, field(':method', 'POST')), stream_error(PROTOCOL_ERROR)),
    'http2/8.1.2.1/4': ('a pseudo-header field behind another field', get_with(front=field('x-test', 'ok')), stream_error(PROTOCOL_ERROR)),
    'http2/8.1.2.2/1': ('a field about the connection', bad_fields(connection='keep-alive'), stream_error(PROTOCOL_ERROR)),
    'http2/8.1.2.2/2': ('te with more than trailers', bad_fields(te='trailers, deflate'), stream_error(PROTOCOL_ERROR)),
    'http2/8.1.2.3/1': ('an empty :path', bad_fields(path=''), stream_error(PROTOCOL_ERROR)),
    **{f'http2/8.1.2.3/{n}': (f'no {name}', bad_fields(without=[name]), stream_error(PROTOCOL_ERROR))
       for n, name in enumerate((':method', ':scheme', ':path'), 2)},
    **{f'http2/8.1.2.3/{n}': (f'{name} twice', bad_fields(extra=[(name, value)]), stream_error(PROTOCOL_ERROR))
       for n, (name, value) in enumerate(((':method', 'GET'), (':scheme', 'http'), (':path', '/v2')), 5)},
    'http2/8.1.2.6/1': ('content-length of 1 and 4 octets', lambda p: post(p, content_length='1') + data(), stream_error(PROTOCOL_ERROR)),
    'http2/8.1.2.6/2': ('content-length of 1 and 8 octets', lambda p: post(p, content_length='1') + data(end=False) + data(),
                        stream_error(PROTOCOL_ERROR)),
    'http2/8.2/1': ('PUSH_PROMISE from a client', lambda p: get(p, flags=END_HEADERS) +
                    frame(PUSH_PROMISE, END_HEADERS, 1, b'\0\0\0\3' + p.block()), connection_error(PROTOCOL_ERROR)),

    'hpack/2.3.3/1': ('an index beyond both tables', get_with(b'\xc6'), connection_error(COMPRESSION_ERROR)),
    'hpack/2.3.3/2': ('a name index beyond both tables', get_with(b'\x7f\x07\0'), connection_error(COMPRESSION_ERROR)),
    'hpack/4.2/1': ('a resized table at the end of a block', get_with(b'\x21'), connection_error(COMPRESSION_ERROR)),
    'hpack/5.2/1': ('Huffman padding of more than 7 bits', get_with(HUFFMAN + b'\x84\x49\x50\x9f\xff'), connection_error(COMPRESSION_ERROR)),
    'hpack/5.2/2': ('Huffman padding of zeros', get_with(HUFFMAN + b'\x83\x49\x50\x90'), connection_error(COMPRESSION_ERROR)),
    'hpack/5.2/3': ('EOS inside a string', get_with(HUFFMAN + b'\x85\x49\xff\xff\xff\xff'), connection_error(COMPRESSION_ERROR)),
    'hpack/6.1/1': ('index 0', get_with(b'\x80'), connection_error(COMPRESSION_ERROR)),
    'hpack/6.3/1': ('a table beyond SETTINGS_HEADER_TABLE_SIZE', get_with(front=b'\x3f\xe2\x1f'), connection_error(COMPRESSION_ERROR)),
}


class Spec:
    tls = False

    def case(self, words, send, expect):
        """A fresh connection. The preface's own case greets by itself."""
        bare = expect is own_settings_first
        with h2.Peer(self.server.port, tls=self.tls, greet=not bare) as peer:
            peer.send(send(peer) if callable(send) else send)
            with self.subTest(words):
                expect(self, peer, [peer.read_frame()] if bare else peer.outcome())

    def bad_preface(self):
        """Without TLS the port speaks HTTP/1.1 too: what is no preface is a request line, and a bad one."""
        with h2.Peer(self.server.port, tls=self.tls, greet=False) as peer:
            peer.send(b'INVALID CONNECTION PREFACE\r\n\r\n')
            if not self.tls:
                return self.assertRegex(b''.join(iter(lambda: peer.sock.recv(65536), b'')), rb'^HTTP/1.1 400 ')
            connection_error(PROTOCOL_ERROR)(self, peer, peer.until(lambda f: False))

    @classmethod
    def add_cases(cls):
        setattr(cls, 'test_http2/3.5/2', cls.bad_preface)
        for name, case in CASES.items():
            setattr(cls, f'test_{name}', lambda self, case=case: self.case(*case))


class Plain(Spec, harness.Case):
    def test_all_cases_are_here(self):
        self.assertEqual((44, 94, 8), tuple(sum(name.startswith(part) for name in CASES) for part in ('generic', 'http2', 'hpack')))


class Tls(Spec, harness.Case):
    tls = True

    @classmethod
    def setUpClass(cls):
        cert, key = harness.scratch() / 'cert.pem', harness.scratch() / 'key.pem'
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                        '-subj', '/CN=localhost', '-keyout', key, '-out', cert], check=True, stderr=subprocess.DEVNULL)
        cls.serve = ('--tls-cert', cert, '--tls-key', key)
        super().setUpClass()


Plain.add_cases()
Tls.add_cases()

if __name__ == '__main__':
    harness.main()
