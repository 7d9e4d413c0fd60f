"""Answers that close, and what a peer has put behind them."""

import os
import random
import signal
import struct
import time

from h2_peer import ACK, INITIAL_WINDOW_SIZE, SETTINGS, WINDOW_UPDATE
from peer import GRPC, H2, Raw, data
from registry import attack

HEADS = [b'%s %s HTTP/1.0\r\n\r\n' % (method, path) for method in (b'GET', b'HEAD', b'POST', b'OPTIONS', b'DELETE')
         for path in (b'/livez', b'/absent', b'/v2/models/identity/infer', b'/')]
HEADS += [b'%s /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' % method for method in (b'GET', b'HEAD', b'POST', b'OPTIONS')]
HEADS += [b'POST %s HTTP/1.1\r\nHost: a\r\n%s%s\r\n\r\n' % (path, expect, framing)
          for path in (b'/absent', b'/livez', b'/v2/models/identity/infer', b'/v1/chat/completions')
          for expect in (b'', b'Expect: 100-continue\r\n', b'Expect: more\r\n', b'Connection: close\r\n')
          for framing in (b'Content-Length: 9', b'Transfer-Encoding: chunked', b'Content-Length: 99999999999')]
BEHIND = [b'\n', b'\r\n', b'x', b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n', b'0\r\n\r\n', b'5\r\nhello\r\n0\r\n\r\n', b'\0' * 4096,
          b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n' * 40]


@attack(seconds=20, quick=2.5)
def answers_that_close(target):
    """One byte or more behind a request whose answer closes (HTTP/1.0, close, Expect, 404, 405, 413), in one piece or two."""
    chance, sent = random.Random(13), 0
    cases = [(head, behind) for head in HEADS for behind in BEHIND]
    while not target.over():
        chance.shuffle(cases)
        for head, behind in cases:
            if target.over():
                break
            with Raw(target, wait=0.2) as raw:  # some of these wait for more
                whole = head + behind
                cut = chance.choice([len(whole), len(head), len(head) - 1, chance.randrange(1, len(whole))])
                raw.send(whole[:cut]).send(whole[cut:])
                if chance.random() < 0.5:
                    raw.half_close()
                got = raw.read()
                if got and not got.startswith(b'HTTP/1.1 '):
                    target.broke(f'{whole[:60]} is answered by {got[:40]}')
            sent += 1
    return f'{sent} requests'


@attack(quick=4)
def bodies_behind_answers(target):
    """100 connections that go on with their bodies behind answers of 404, as fast as they are taken."""
    framings = b'Content-Length: 200000000', b'Content-Length: 99999999999', b'Transfer-Encoding: chunked'
    large, heads = bytes(256 << 10), [b'POST /absent HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n' % framing for framing in framings]
    chunk = b'%x\r\n' % len(large) + large + b'\r\n'
    peers, opened, taken = [], 0, 0
    while not target.over():
        peers = [peer for peer in peers if peer.alive]
        while len(peers) < 100 and not target.over():
            peer = Raw(target, wait=1)
            head = heads[opened % len(heads)]
            peer.send(head)
            peer.rest = peer.piece = chunk if b'chunked' in head else large
            peers.append(peer)
            opened += 1
        for peer in peers:
            n = peer.offer(peer.rest) or 0
            peer.rest, taken = peer.rest[n:] or peer.piece, taken + n
    return f'{opened} connections, {taken >> 20} MiB'


class Uploads(H2):
    """Bodies on all streams of a connection, as far as the server's windows go."""

    def __init__(self, target):
        super().__init__(target, wait=1)
        self.initial, self.windows, self.out, self.open = 65535, {0: 65535}, b'', []

    def begin(self, stream, path, extra):
        self.out += self.head(stream, path, 'POST', end=False, extra=extra)
        self.windows[stream] = self.initial
        self.open.append(stream)

    def parse(self):
        at = 0
        while len(self.rest) - at >= 9 and len(self.rest) - at >= 9 + (size := int.from_bytes(self.rest[at:at + 3], 'big')):
            kind, flags, stream = struct.unpack_from('>BBI', self.rest, at + 3)
            payload = self.rest[at + 9:at + 9 + size]
            at += 9 + size
            if kind == WINDOW_UPDATE:
                self.windows[stream] = self.windows.get(stream, self.initial) + int.from_bytes(payload, 'big')
            elif kind == SETTINGS and not flags & ACK:
                for key, value in struct.iter_unpack('>HI', payload):
                    self.initial = value if key == INITIAL_WINDOW_SIZE else self.initial
        super().parse()

    def go_on(self):
        """How many bytes of bodies the socket has taken."""
        self.open = [stream for stream in self.open if stream not in self.closed_streams]
        if not self.out:
            for stream in self.open:
                n = min(16384, self.windows[0], self.windows[stream])
                if n > 0:
                    self.windows[0], self.windows[stream] = self.windows[0] - n, self.windows[stream] - n
                    self.out += data(stream, bytes(n), end=False)
        n = self.offer(self.out) or 0 if self.out else 0
        self.out = self.out[n:]
        return n


@attack(quick=5)
def h2_bodies_behind_answers(target):
    """40 HTTP/2 connections whose 90 streams each go on with their bodies behind answers of 404, 405, 413, and gRPC's of unknown methods."""
    kinds = [('/absent', ()), ('/livez', ()), ('/absent', (('content-length', '200000000'),)), ('/v1/chat/completions', (('content-length', '99999999999'),)),
             ('/absent.Service/Method', GRPC), ('/v2/models/nobody/infer', (('expect', '100-continue'),))]
    peers, opened, taken = [], 0, 0
    while not target.over():
        peers = [peer for peer in peers if peer.pump()]
        while len(peers) < target.size(40, 15) and not target.over():
            peer = Uploads(target)
            peer.next = 1
            peers.append(peer)
            opened += 1
        for peer in peers:
            while len(peer.open) < 90:
                peer.begin(peer.next, *kinds[peer.next // 2 % len(kinds)])
                peer.next += 2
            taken += peer.go_on()
    return f'{opened} connections, {sum(peer.next // 2 for peer in peers)} streams at the end, {taken >> 20} MiB'


@attack(seconds=10, quick=2, ends_server=True)
def pipelines_in_drain(target):
    """20 keep-alive clients that pipeline two GETs while the server drains."""
    pair = b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n' * 2
    peers = [Raw(target, wait=5) for _ in range(20)]
    for peer in peers:
        peer.send(pair)
        peer.read()
    os.kill(target.pid, signal.SIGTERM)
    rounds = 0
    while not target.over() and any(peer.alive for peer in peers):
        for peer in peers:
            if peer.alive:
                peer.send(pair + b'\n')
        rounds += 1
        time.sleep(0.01)
    return f'{rounds} rounds after SIGTERM'
