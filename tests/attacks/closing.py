"""Answers that close, and what a peer has put behind them."""

import os
import random
import signal
import time

from peer import Raw
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
