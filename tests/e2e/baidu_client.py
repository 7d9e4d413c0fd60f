"""A client of baidu_std, brpc's own protocol, as small as it can be: packets by hand, blocking, over one socket."""

import socket
import struct

import harness


def varint(n):
    n &= (1 << 64) - 1
    octets = b''
    while n >= 128:
        octets += bytes([n & 127 | 128])
        n >>= 7
    return octets + bytes([n])


def text(field, octets):
    octets = octets.encode() if isinstance(octets, str) else octets
    return varint(field << 3 | 2) + varint(len(octets)) + octets


def number(field, n):
    return varint(field << 3) + varint(n)


def packet(meta, rest=b''):
    return b'PRPC' + struct.pack('>II', len(meta) + len(rest), len(meta)) + meta + rest


def call(method, message, ident=1, more=b''):
    """A request of `method`, 'package.Service/Method'; `more`: further fields of its meta."""
    service, name = method.rsplit('/', 1)
    return packet(text(1, text(1, service) + text(2, name)) + number(4, ident) + more, message)


def parse(octets):
    """{field: [values]} of a protobuf message of numbers and texts."""
    fields, at = {}, 0

    def take():
        nonlocal at
        n = shift = 0
        while True:
            n |= (octets[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if octets[at - 1] < 128:
                return n
    while at < len(octets):
        tag, value = take(), take()
        if tag & 7 == 2:
            value, at = octets[at:at + value], at + value
        fields.setdefault(tag >> 3, []).append(value)
    return fields


class Reply:
    def __init__(self, meta, rest):
        meta = parse(meta)
        response = parse(meta[2][0])
        self.ident = meta[4][0]
        self.error, self.text = response.get(1, [0])[0], response.get(2, [b''])[0].decode()
        entries = (parse(octets) for octets in meta.get(9, []))
        self.fields = {e[1][0].decode(): e[2][0].decode() for e in entries}
        self.message = rest


class Client:
    def __init__(self, port, wrap=lambda s: s):
        self.socket = wrap(socket.create_connection(('127.0.0.1', port), timeout=harness.PATIENCE))

    def send(self, octets):
        self.socket.sendall(octets)

    def take(self, n):
        octets = b''
        while len(octets) < n:
            piece = self.socket.recv(n - len(octets))
            if not piece:
                raise EOFError(octets)
            octets += piece
        return octets

    def read(self):
        magic, body, meta = struct.unpack('>4sII', self.take(12))
        assert magic == b'PRPC', magic
        return Reply(self.take(meta), self.take(body - meta))

    def ask(self, method, message, ident=1, more=b''):
        self.send(call(method, message, ident, more))
        return self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
