"""The five ways to hold an Evergreen session with a server, by hand, and what is sent and received in one."""

import base64
import hashlib
import json
import os
import queue
import socket
import struct
import subprocess
import threading

import harness

import grpc  # noqa: E402
import h2.config
import h2.connection
import h2.events
import h2.settings
from google.protobuf import json_format, text_format

ev, ev_grpc = harness.stubs()('evergreen')
cfg, _ = harness.stubs()('evergreen_config')
PATH = '/evergreen/v2/session'


class SessionError(Exception):
    def __init__(self, code, message, close=None):
        super().__init__(f'{code}: {message}')
        self.code, self.message, self.close = code, message, close


# --- the three ways to speak: send(message), end(), and messages() until the server ends -------------------------------
class GrpcSession:
    def __init__(self, server, channel=None):
        self.own = None if channel else grpc.insecure_channel(server.address)
        self.requests = queue.SimpleQueue()
        stub = ev_grpc.EvergreenServiceStub(channel or self.own)
        self.call = stub.StartSession(iter(self.requests.get, None), timeout=harness.PATIENCE)

    def send(self, message):
        self.requests.put(message)

    def end(self):
        self.requests.put(None)

    def messages(self):
        try:
            yield from self.call
        except grpc.RpcError as error:
            raise SessionError(error.code().name, error.details()) from None

    def close(self):
        self.requests.put(None)
        self.call.cancel()
        if self.own:
            self.own.close()


class CurlSession:
    """curl -N -T -: lines in while lines come out. curl looks at the answer only between two reads of its input, so that
    something has to come now and then: empty lines mean nothing."""

    def __init__(self, server):
        self.curl = subprocess.Popen(['curl', '-sSN', '--max-time', str(harness.PATIENCE), '-T', '-', '-X', 'POST',
                                      server.url(PATH)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.ticker = threading.Thread(target=self.tick, daemon=True)
        self.ticker.start()

    def tick(self):
        while not self.ended.wait(0.05):
            self.write(b'\n')

    def write(self, data):
        with self.lock:
            try:
                self.curl.stdin.write(data)
                self.curl.stdin.flush()
            except (OSError, ValueError):  # it has ended
                self.ended.set()

    def send(self, message):
        self.write(json_format.MessageToJson(message, indent=None).encode() + b'\n')

    def end(self):
        self.ended.set()
        self.ticker.join()
        self.curl.stdin.close()

    def messages(self):
        for line in self.curl.stdout:
            said = json.loads(line)
            if 'error' in said:
                raise SessionError(said['error']['status'], said['error']['message'])
            yield json_format.ParseDict(said, ev.SessionMessage())

    def close(self):
        self.ended.set()
        self.curl.kill()
        self.curl.wait()
        self.ticker.join()
        for pipe in (self.curl.stdin, self.curl.stdout):
            try:
                pipe.close()
            except OSError:
                pass


def masked(opcode, payload, fin=True):
    mask = os.urandom(4)
    size = len(payload)
    head = bytes([(0x80 if fin else 0) | opcode])
    head += bytes([0x80 | size]) if size < 126 else b'\xfe' + struct.pack('>H', size) if size < 65536 else b'\xff' + struct.pack('>Q', size)
    return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))


class WebSocketSession:
    """RFC 6455 by hand over a socket. `binary`: protobuf instead of JSON."""

    binary = False
    path = PATH

    def __init__(self, server, headers=''):
        self.socket = socket.create_connection(('127.0.0.1', server.port), harness.PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f'GET {self.path} HTTP/1.1\r\nHost: {server.address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
                             f'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{headers}\r\n').encode())
        self.buffer = b''
        while b'\r\n\r\n' not in self.buffer:
            self.buffer += self.more()
        head, self.buffer = self.buffer.split(b'\r\n\r\n', 1)
        self.head = head.decode()
        if ' 101 ' in self.head:
            accept = base64.b64encode(hashlib.sha1((key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest())
            assert accept.decode() in self.head, self.head

    def more(self):
        got = self.socket.recv(65536)
        if not got:
            raise EOFError
        return got

    def write(self, data):
        self.socket.sendall(data)

    def take(self, n):
        while len(self.buffer) < n:
            self.buffer += self.more()
        part, self.buffer = self.buffer[:n], self.buffer[n:]
        return part

    def frame(self):
        """A control frame, or a whole message, however many frames it has come in."""
        first, size = self.take(2)
        assert first & 0x70 == 0 and size & 0x80 == 0
        if size == 126:
            size, = struct.unpack('>H', self.take(2))
        elif size == 127:
            size, = struct.unpack('>Q', self.take(8))
        opcode, payload = first & 15, self.take(size)
        if opcode == 0:
            opcode, payload = self.begun[0], self.begun[1] + payload
        if first & 0x80:
            return opcode, payload
        self.begun = opcode, payload
        return self.frame()

    def send(self, message):
        if self.binary:
            self.write(masked(2, message.SerializeToString()))
        else:
            text = json_format.MessageToJson(message, indent=None).encode()
            half = len(text) // 2
            self.write(masked(1, text[:half], fin=False) + masked(9, b'are you there') + masked(0, text[half:]))

    def end(self):
        self.write(masked(8, struct.pack('>H', 1000)))

    def messages(self):
        error = None
        while True:
            opcode, payload = self.frame()
            if opcode == 8:
                code, = struct.unpack('>H', payload[:2])
                if code != 1000:
                    raise SessionError(error and error['status'], error and error['message'], code)
                return
            if opcode == 10:
                assert payload == b'are you there'
            elif opcode == 2:
                yield ev.SessionMessage.FromString(payload)
            else:
                said = json.loads(payload)
                error = said.get('error')
                if not error:
                    yield json_format.ParseDict(said, ev.SessionMessage())

    def close(self):
        self.socket.close()


class BinaryWebSocketSession(WebSocketSession):
    binary = True


class Http2WebSocketSession(WebSocketSession):
    """RFC 8441: the same frames in the DATA of an extended CONNECT."""

    def __init__(self, server):
        self.socket = socket.create_connection(('127.0.0.1', server.port), harness.PATIENCE)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8', validate_outbound_headers=False))
        self.h2.initiate_connection()
        self.flush()
        self.buffer, self.head = b'', None
        while self.h2.remote_settings.get(h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL) != 1:
            self.more()
        self.stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(self.stream, [(':method', 'CONNECT'), (':protocol', 'websocket'), (':scheme', 'http'), (':path', self.path),
                                           (':authority', server.address), ('sec-websocket-version', '13')])
        self.flush()
        while self.head is None:
            self.buffer += self.more()
        assert dict(self.head)[':status'] == '200', self.head

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def more(self):
        got, out = self.socket.recv(65536), b''
        if not got:
            raise EOFError
        for event in self.h2.receive_data(got):
            if isinstance(event, h2.events.ResponseReceived):
                self.head = event.headers
            elif isinstance(event, h2.events.DataReceived):
                out += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return out

    def write(self, data):
        while data:
            room = min(self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size)
            if room:
                self.h2.send_data(self.stream, data[:room])
                data = data[room:]
                self.flush()
            else:
                self.buffer += self.more()


CARRIERS = [GrpcSession, CurlSession, WebSocketSession, BinaryWebSocketSession, Http2WebSocketSession]


# --- what is sent ------------------------------------------------------------------------------------------------------
def message(text):
    return text_format.Parse(text, ev.SessionMessage())


def leaf(id, data, mimetype='text/plain', **more):
    m = ev.SessionMessage()
    f = m.node_fragments.add(id=id, **more)
    f.chunk_fragment.data = data if isinstance(data, bytes) else data.encode()
    if not f.seq:
        f.chunk_fragment.metadata.mimetype = mimetype
    return m


def action(name, inputs, outputs, target=None, config=None):
    m = ev.SessionMessage()
    a = m.actions.add(name=name)
    for k, v in inputs.items():
        a.inputs.add(name=k, id=v)
    for k, v in outputs.items():
        a.outputs.add(name=k, id=v)
    if target:
        a.target_spec.id = target
    if config is not None:
        a.configs.add().Pack(config)
    return m


class Nodes:
    """What has come, as the protocol defines it."""

    def __init__(self):
        self.parts = {}

    def add(self, message):
        for f in message.node_fragments:
            self.parts.setdefault(f.id, {}).setdefault(f.seq, f)

    def complete(self, id):
        parts = self.parts.get(id, {})
        last = [s for s, f in parts.items() if not f.continued]
        return bool(last) and len(parts) == last[0] + 1 and all(self.complete(c) for f in parts.values() for c in f.child_ids)

    def flat(self, id):
        out = b''
        for _, f in sorted(self.parts[id].items()):
            out += f.chunk_fragment.data + b''.join(self.flat(c) for c in f.child_ids)
        return out

    def metadata(self, id):
        return self.parts[id][0].chunk_fragment.metadata


def read_until(session, *ids):
    nodes = Nodes()
    for m in session.messages():
        nodes.add(m)
        if all(nodes.complete(i) for i in ids):
            return nodes
    raise AssertionError(f'ended without {ids}: {list(nodes.parts)}')
