"""An HTTP/2 client that can say anything: frames and header blocks byte by byte, and what the server made of them."""

import socket
import ssl
import struct

import harness
from hpack import Decoder
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 1
END_HEADERS, PADDED, PRIORITY_FLAG = 4, 8, 32
(NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR,
 REFUSED_STREAM, CANCEL, COMPRESSION_ERROR) = range(10)
(ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE) = range(2, 6)

_huffman = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


def frame(kind, flags=0, stream=0, payload=b'', length=None):
    """RFC 9113 §4.1. `length` lies about the payload's."""
    return struct.pack('>I', len(payload) if length is None else length)[1:] + struct.pack('>BBI', kind, flags, stream) + payload


def settings(*pairs):
    return frame(SETTINGS, payload=b''.join(struct.pack('>HI', key, value) for key, value in pairs))


def ping(payload=bytes(8), flags=0):
    return frame(PING, flags, 0, payload)


def rst(stream, code=CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack('>I', code))


def window(stream, increment):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack('>I', increment))


def priority(stream, depends_on=0, weight=255):
    return frame(PRIORITY, 0, stream, struct.pack('>IB', depends_on, weight))


def data(stream=1, payload=b'test', end=True):
    return frame(DATA, END_STREAM if end else 0, stream, payload)


def text(value, huffman=False):
    """RFC 7541 §5.2, lengths below 127."""
    value = value.encode() if isinstance(value, str) else value
    coded = _huffman.encode(value) if huffman else value
    return bytes([len(coded) | (128 if huffman else 0)]) + coded


def field(name, value, kind=0x00, huffman=False):
    """A literal field, RFC 7541 §6.2. `name` is text or an index of the
    static table; kind: 0x40 goes into the dynamic table, 0x10 never does."""
    if isinstance(name, int):
        most = 63 if kind == 0x40 else 15
        head = bytes([kind | name]) if name < most else bytes([kind | most, name - most])
    else:
        head = bytes([kind]) + text(name, huffman)
    return head + text(value, huffman)


def long_field(name, size):
    value, length = b'x' * size, size - 127
    digits = b''
    while length >= 128:
        digits, length = digits + bytes([length & 127 | 128]), length >> 7
    return b'\0' + text(name) + b'\x7f' + digits + bytes([length]) + value


class Connection:
    """A socket, closed at the end of a with statement. `tolerated`: what send() passes over; what the server said before it
    closed is there to be read."""

    tolerated = (BrokenPipeError, ConnectionResetError, ssl.SSLError)
    sock, alive = None, True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, octets):
        try:
            self.sock.sendall(octets)
        except self.tolerated:
            self.alive = False
        return self


class Peer(Connection):
    """A connection whose preface and SETTINGS have been exchanged. Every wait has a deadline."""

    def __init__(self, port, tls=False, greet=True):
        self.tls, self.rest, self.closed = tls, b'', False
        self.sock = socket.create_connection(('127.0.0.1', port), timeout=harness.PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            context = ssl._create_unverified_context()
            context.set_alpn_protocols(['h2'])
            self.sock = context.wrap_socket(self.sock)
        self.decoder, self.settings = Decoder(), {}
        if greet:
            self.send(PREFACE + settings())
            self.until(lambda f: f[0] == SETTINGS and f[1] & ACK)
            self.send(frame(SETTINGS, ACK))

    def fields(self, method='GET', path='/v2', **more):
        """Pseudo-header fields, and others by their names with _ for -."""
        scheme = 'https' if self.tls else 'http'
        pairs = [(':method', method), (':scheme', scheme), (':path', path), (':authority', '127.0.0.1')]
        return pairs + [(name.replace('_', '-'), value) for name, value in more.items()]

    def block(self, *args, extra=(), without=(), **more):
        pairs = [pair for pair in self.fields(*args, **more) if pair[0] not in without] + list(extra)
        return b''.join(field(name, value) for name, value in pairs)

    def read_frame(self):
        """(type, flags, stream, payload), or None when the server has closed."""
        while len(self.rest) < 9 or len(self.rest) < 9 + int.from_bytes(self.rest[:3], 'big'):
            try:
                more = self.sock.recv(65536)
            except (ConnectionResetError, ssl.SSLError):
                more = b''
            if not more:
                self.closed = True
                return None
            self.rest += more
        size = int.from_bytes(self.rest[:3], 'big')
        kind, flags, stream = struct.unpack('>BBI', self.rest[3:9])
        payload, self.rest = self.rest[9:9 + size], self.rest[9 + size:]
        if kind == SETTINGS and not flags & ACK:
            self.settings.update(struct.iter_unpack('>HI', payload))
        return kind, flags, stream, payload

    def until(self, wanted):
        """Frames up to the first that is wanted, or to the end."""
        seen = []
        while (got := self.read_frame()) is not None:
            seen.append(got)
            if wanted(got):
                break
        return seen

    def outcome(self):
        """All that comes of what has been sent: what was written before the answer to two pings, one after the other (an
        ACK may overtake what is queued with it), or up to the close, where an error has ended the connection."""
        seen = []
        for mark in (b'1st mark', b'2nd mark'):
            self.send(ping(mark))
            seen += self.until(lambda f: f[0] == PING and f[1] & ACK and f[3] == mark)
        return seen

    def rest_of(self, stream):
        """Frames up to the end of a stream's answer."""
        return self.until(lambda f: f[2] == stream and f[0] in (DATA, HEADERS) and f[1] & END_STREAM)
