"""An attacker's hands: raw sockets from a source address of its own, HTTP/1 and HTTP/2 by hand, protobuf by hand."""

import gzip
import json
import pathlib
import random
import resource
import select
import socket
import struct
import sys
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'e2e'))

from h2_peer import (CANCEL, DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, ACK, RST_STREAM, GOAWAY, PING,  # noqa: E402, F401
                     CONTINUATION, INITIAL_WINDOW_SIZE, data, field, frame, ping, priority, rst, settings, window, Connection)
from proto_bytes import pb, varint  # noqa: E402, F401

WAIT_S = 30  # longest that one answer is waited for


def more_descriptors():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Raw(Connection):
    """A socket with a deadline for everything. What the server refuses to take is no error of the attacker's."""

    def __init__(self, target, receive_buffer=None, wait=WAIT_S):
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(wait)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.bind((target.source, 0))
        self.alive = True
        try:
            self.sock.connect(('127.0.0.1', target.port))
        except OSError:
            self.alive = False

    tolerated = OSError

    def at_once(self, work):
        """What a call of the socket gives without waiting: None when it would wait, b'' at the end or after an error.
        (With a timeout set, Python waits whatever flags the call has.)"""
        wait = self.sock.gettimeout()
        self.sock.setblocking(False)
        try:
            got = work()
            self.alive = self.alive and got not in (b'', 0)
            return got
        except BlockingIOError:
            return None
        except OSError:
            self.alive = False
            return b''
        finally:
            self.sock.settimeout(wait)

    def offer(self, octets):
        """Sends as much as the socket takes at once."""
        return self.at_once(lambda: self.sock.send(octets))

    def take(self, most=65536):
        """Reads what is there; None when nothing is."""
        return self.at_once(lambda: self.sock.recv(most))

    def still_open(self):
        """Whether the server has not closed it, as far as that can be told without reading."""
        return self.alive and self.at_once(lambda: self.sock.recv(1, socket.MSG_PEEK)) != b''

    def half_close(self):
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.alive = False
        return self

    def read(self, most=65536):
        """What is there or comes; b'' at the end, when it was reset, and when nothing came in time."""
        try:
            got = self.sock.recv(most)
        except OSError:
            got = b''
        self.alive = self.alive and bool(got)
        return got

    def read_all(self):
        out = bytearray()
        while got := self.read():
            out += got
        return bytes(out)

    def answer(self):
        """One HTTP/1 answer with a Content-Length: (status, body). Status 0: there was none."""
        rest = b''
        while b'\r\n\r\n' not in rest:
            got = self.read()
            if not got:
                return 0, rest
            rest += got
        head, _, first = rest.partition(b'\r\n\r\n')
        fields = dict(line.lower().split(b': ', 1) for line in head.split(b'\r\n')[1:] if b': ' in line)
        size, body = int(fields.get(b'content-length', 0)), bytearray(first)  # which grows in place, 100 MB of it, too
        while len(body) < size and (got := self.read()):
            body += got
        return int(head.split()[1]), bytes(body)


def post(path, body, *fields, host='localhost'):
    head = ''.join(f'{name}: {value}\r\n' for name, value in (('Host', host), ('Content-Length', len(body)), *fields))
    return f'POST {path} HTTP/1.1\r\n{head}\r\n'.encode() + body


def ask(target, request, wait=WAIT_S):
    """Sends a request on a connection of its own; (status, body)."""
    with Raw(target, wait=wait) as raw:
        return raw.send(request).answer()


JSON = ('Content-Type', 'application/json')
GZIP = ('Content-Encoding', 'gzip')


def packed(octets, level=6):
    return gzip.compress(octets, level)


def binary_infer(datatype, count, octets, answer='json', **parameters):
    """A REST infer of the identity model with one tensor in binary form: (head's size, body)."""
    head = {'inputs': [{'name': 'x', 'datatype': datatype, 'shape': [count], 'parameters': {'binary_data_size': len(octets)}}],
            'outputs': [{'name': 'x', 'parameters': {'binary_data': answer == 'binary', **parameters}}]}
    head = json.dumps(head).encode()
    return ('Inference-Header-Content-Length', len(head)), head + octets


def flat_bits(size, ratio=85, seed=1):
    """Bytes 0 and 1 that gzip makes about `ratio` times smaller: the server refuses what shrinks more than 100 times."""
    noise = min(size, 8 * size // ratio)
    random.seed(seed)
    octets = numpy.frombuffer(random.randbytes((noise + 7) // 8), dtype=numpy.uint8)
    return numpy.unpackbits(octets)[:noise].tobytes() + bytes(size - noise)


def drip(target, peers, rate, piece=1024):
    """Reads `rate` bytes a second from each of the peers until the target's time is over. Returns those left."""
    next_turn = time.monotonic()
    while not target.over() and peers:
        for peer in peers:
            peer.take(piece)
        peers = [p for p in peers if p.alive]
        next_turn += piece / rate
        time.sleep(max(0, min(next_turn - time.monotonic(), 1)))
    return peers


# --- HTTP/2 ------------------------------------------------------------------------------------------------------------
class H2(Raw):
    """A connection whose preface is sent; what the server says is read by pump()."""

    def __init__(self, target, *pairs, **more):
        super().__init__(target, **more)
        self.rest, self.closed_streams, self.goaway, self.statuses = b'', set(), None, {}
        self.send(PREFACE + settings(*pairs) + frame(SETTINGS, ACK))

    @staticmethod
    def head(stream, path='/v2', method='GET', end=True, extra=()):
        pairs = [(':method', method), (':scheme', 'http'), (':path', path), (':authority', 'localhost'), *extra]
        block = b''.join(field(name, value) for name, value in pairs)
        return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block)

    def pump(self, wait=0.0):
        """Takes in the frames that are there; False when the connection is over."""
        ready, _, _ = select.select([self.sock], [], [], wait)
        while ready and self.alive:
            got = self.read(1 << 20)
            self.rest += got
            self.parse()
            ready, _, _ = select.select([self.sock], [], [], 0)
        return self.alive and self.goaway is None

    def parse(self):
        at = 0
        while len(self.rest) - at >= 9:
            size = int.from_bytes(self.rest[at:at + 3], 'big')
            if len(self.rest) - at < 9 + size:
                break
            kind, flags, stream = struct.unpack_from('>BBI', self.rest, at + 3)
            payload = self.rest[at + 9:at + 9 + size]
            at += 9 + size
            if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
                self.closed_streams.add(stream)
            elif kind == GOAWAY:
                self.goaway = int.from_bytes(payload[4:8], 'big')
        self.rest = self.rest[at:]


def flood(target, octets, *pairs, rounds=1000):
    """Floods, connection after connection, until time is over. Returns how many connections the server has ended."""
    ended = 0
    while not target.over():
        with H2(target, *pairs, wait=5) as h2:
            for _ in range(rounds):
                if target.over() or not h2.alive:
                    break
                h2.send(octets)
                h2.pump()
            ended += not h2.pump()
    return f'{ended} connections ended'


# --- gRPC ----------------------------------------------------------------------------------------------------------------
def grpc_message(octets, flag=0):
    return struct.pack('>BI', flag, len(octets)) + octets


GRPC = (('content-type', 'application/grpc'), ('te', 'trailers'))


def model_infer(model, name, datatype, shape, octets):
    tensor = pb(1, name) + pb(2, datatype) + pb(3, b''.join(map(varint, shape)))
    return pb(1, model) + pb(5, tensor) + pb(7, octets)
