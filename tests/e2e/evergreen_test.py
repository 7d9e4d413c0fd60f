"""Evergreen end to end: the same sessions over gRPC, WebSocket (HTTP/1.1 and HTTP/2) and lines of JSON through curl."""

import base64
import hashlib
import json
import os
import queue
import random
import re
import socket
import struct
import subprocess
import threading
import unittest

import harness

import grpc  # noqa: E402
import h2.config
import h2.connection
import h2.events
import h2.settings
from google.protobuf import json_format, text_format
from hypothesis import HealthCheck, given, settings, strategies

ev, ev_grpc = harness.stubs()('evergreen')
cfg, _ = harness.stubs()('evergreen_config')
health, health_grpc = harness.stubs()('health')
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

    def __init__(self, server, headers=''):
        self.socket = socket.create_connection(('127.0.0.1', server.port), harness.PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f'GET {PATH} HTTP/1.1\r\nHost: {server.address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
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
        first, size = self.take(2)
        assert first & 0x70 == 0 and size & 0x80 == 0
        if size == 126:
            size, = struct.unpack('>H', self.take(2))
        elif size == 127:
            size, = struct.unpack('>Q', self.take(8))
        return first & 15, self.take(size)

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
        self.h2.send_headers(self.stream, [(':method', 'CONNECT'), (':protocol', 'websocket'), (':scheme', 'http'), (':path', PATH),
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
        self.h2.send_data(self.stream, data)
        self.flush()


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


class Base(harness.Case):
    def each(self, carriers=CARRIERS):
        for carrier in carriers:
            with self.subTest(carrier.__name__):
                session = carrier(self.server)
                try:
                    yield session
                finally:
                    session.close()


class Sessions(Base):
    def test_an_echo_comes_while_the_node_is_still_being_sent(self):
        for s in self.each():
            s.send(action('ECHO', {'x': 'in'}, {'x': 'out'}))
            s.send(leaf('in', 'one ', continued=True))
            said = s.messages()
            first = next(said).node_fragments[0]
            self.assertEqual((first.id, first.chunk_fragment.data, first.continued), ('out', b'one ', True))
            self.assertEqual(first.chunk_fragment.metadata.mimetype, 'text/plain')
            s.send(leaf('in', 'two', seq=1))
            got = b''
            for m in said:
                for f in m.node_fragments:
                    got += f.chunk_fragment.data
                if not m.node_fragments[0].continued:
                    break
            self.assertEqual(got, b'two')
            s.end()
            self.assertEqual(list(said), [])

    def test_tensors_go_through_a_model_and_on_into_the_next(self):
        kind = 'application/x-weir-tensor; dtype=INT32; shape=1,16'
        a, b = struct.pack('<16i', *range(16)), struct.pack('<16i', *([1] * 16))
        for s in self.each():
            # The second action before the first, and both before their inputs; the same tensors in and out.
            s.send(action('INFER', {'INPUT0': 'sum', 'INPUT1': 'b'}, {'OUTPUT0': 'sum2', 'OUTPUT1': 'a2'}, 'simple'))
            s.send(action('INFER', {'INPUT0': 'a', 'INPUT1': 'b'}, {'OUTPUT0': 'sum_named'}, 'simple/1'))
            s.send(leaf('a', a[8:], seq=1))
            s.send(leaf('b', b, kind))
            s.send(leaf('a', a[:8], kind, continued=True))
            nodes = read_until(s, 'sum_named')
            self.assertEqual(struct.unpack('<16i', nodes.flat('sum_named')), tuple(range(1, 17)))
            self.assertEqual(nodes.metadata('sum_named').mimetype, 'application/x-weir-tensor; dtype=INT32; shape=1,16; name=OUTPUT0')
            s.send(leaf('sum', nodes.flat('sum_named'), kind))
            nodes = read_until(s, 'sum2', 'a2')
            self.assertEqual(struct.unpack('<16i', nodes.flat('sum2')), tuple(range(2, 18)))
            self.assertEqual(struct.unpack('<16i', nodes.flat('a2')), tuple(range(16)))

    def test_abort_names_node_number_and_rule(self):
        for s in self.each():
            s.send(message("node_fragments { id: 'a' child_ids: 'b' }"))
            s.send(message("node_fragments { id: 'b' seq: 4 continued: true child_ids: 'a' }"))
            with self.assertRaises(SessionError) as raised:
                list(s.messages())
            self.assertEqual(raised.exception.code, 'INVALID_ARGUMENT')
            self.assertEqual(raised.exception.message, "node 'b', fragment 4: child 'a' would make the node contain itself")
            self.assertIn(raised.exception.close, (None, 1008))

    def test_other_sessions_of_the_connection_live_on(self):
        channel = grpc.insecure_channel(self.server.address)
        good, bad = GrpcSession(self.server, channel), GrpcSession(self.server, channel)
        bad.send(message("node_fragments { id: 'a' seq: -1 }"))
        with self.assertRaises(SessionError):
            list(bad.messages())
        good.send(action('ECHO', {'x': 'in'}, {'x': 'out'}))
        good.send(leaf('in', 'still here'))
        self.assertEqual(read_until(good, 'out').flat('out'), b'still here')
        channel.close()

    def test_failures_of_actions_are_an_output_for_who_asks(self):
        for s in self.each():
            s.send(action('INFER', {'INPUT0': 'x'}, {'status': 'st'}, 'simple'))
            s.send(leaf('x', 'no tensor'))
            nodes = read_until(s, 'st')
            self.assertEqual(json.loads(nodes.flat('st'))['code'], 3)
            status = cfg.ActionStatus()
            nodes.metadata('st').experimental[0].Unpack(status)
            self.assertIn("node 'x'", status.message)
            s.send(action('ECHO', {'x': 'x'}, {'x': 'e'}))
            self.assertEqual(read_until(s, 'e').flat('e'), b'no tensor')

    def test_a_diamond_of_2_to_40_is_refused_at_once(self):
        s = GrpcSession(self.server)
        s.send(leaf('n40', 'x'))
        for i in range(40):
            s.send(message(f"node_fragments {{ id: 'n{i}' child_ids: 'n{i + 1}' child_ids: 'n{i + 1}' }}"))
        s.send(action('ECHO', {'x': 'n0'}, {'x': 'out'}))
        with self.assertRaises(SessionError) as raised:
            list(s.messages())
        self.assertEqual(raised.exception.code, 'RESOURCE_EXHAUSTED')
        self.assertIn('too large when flattened', raised.exception.message)
        s.close()

    def test_fragments_for_ever_end_at_the_limit(self):
        s = GrpcSession(self.server)
        big = [leaf('x', bytes(1024), continued=True, seq=i) for i in range(200)]
        sent = 0

        def feed():
            nonlocal sent
            for i in range(70_000):
                m = ev.SessionMessage()
                for j in range(100):
                    f = m.node_fragments.add()
                    f.CopyFrom(big[1].node_fragments[0])
                    f.seq = i * 100 + j
                    if f.seq == 0:
                        f.chunk_fragment.metadata.mimetype = 'a/b'
                s.send(m)
                sent += 100
                if i > 700:
                    break

        feed()
        with self.assertRaises(SessionError) as raised:
            list(s.messages())
        self.assertEqual(raised.exception.code, 'RESOURCE_EXHAUSTED')
        self.assertIn("session's content passes 67108864 bytes", raised.exception.message)
        s.close()

    def test_a_socket_that_breaks_the_protocol_is_closed_with_its_code(self):
        for frame, code in ((b'\x81\x01x', 1002), (masked(1, b'\xff'), 1007), (masked(1, b'nonsense'), 1007), (masked(3, b''), 1002),
                            (b'\x82\xff' + struct.pack('>Q', 1 << 40) + bytes(4), 1009)):
            s = WebSocketSession(self.server)
            s.write(frame)
            with self.assertRaises(SessionError) as raised:
                list(s.messages())
            self.assertEqual(raised.exception.close, code)
            s.close()

    def test_pages_of_other_origins_do_not_get_in(self):
        s = WebSocketSession(self.server, 'Origin: https://evil.example\r\n')
        self.assertIn(' 403 ', s.head.splitlines()[0])
        s.close()
        s = WebSocketSession(self.server, f'Origin: http://{self.server.address}\r\n')
        self.assertIn(' 101 ', s.head.splitlines()[0])
        s.close()
        self.assertEqual(harness.curl(self.server.url(PATH)).status, 426)

    def test_health_and_reflection_know_the_service(self):
        with grpc.insecure_channel(self.server.address) as channel:
            answer = health_grpc.HealthStub(channel).Check(health.HealthCheckRequest(service='evergreen.v2.EvergreenService'))
            self.assertEqual(answer.status, health.HealthCheckResponse.SERVING)

    def test_a_thousand_sessions_left_at_random_leave_nothing(self):
        channel = grpc.insecure_channel(self.server.address)
        rng = random.Random(1)

        def round(n):
            sessions = []
            for i in range(n):
                if i % 3:
                    s = GrpcSession(self.server, channel)
                else:
                    s = WebSocketSession(self.server)
                sessions.append(s)
                for _ in range(rng.randrange(4)):
                    s.send(rng.choice([action('ECHO', {'x': f'in{i}'}, {'x': f'out{rng.random()}'}), leaf(f'in{i}', bytes(10_000)),
                                       leaf('x', 'y', continued=True), message("node_fragments { id: 'p' child_ids: 'q' }")]))
                if len(sessions) > 20:
                    sessions.pop(rng.randrange(len(sessions))).close()
            for s in sessions:
                s.close()

        round(200)
        before, fds = self.server.rss(), self.server.fds()
        round(1000)
        self.assertLess(self.server.rss() - before, (100 if harness.SANITIZED else 24) << 20)
        self.assertLess(self.server.fds() - fds, 40)
        channel.close()


# --- random graphs against a small model -------------------------------------------------------------------------------
@strategies.composite
def graphs(draw):
    """(fragments of an acyclic graph with the root n0 in any order, some of them twice; the root's bytes)."""
    count = draw(strategies.integers(1, 10))
    text, fragments = {}, []
    for i in reversed(range(count)):
        id, text_of = f'n{i}', b''
        pieces = draw(strategies.integers(1, 4))
        is_leaf = i == count - 1 or draw(strategies.booleans())
        for seq in range(pieces):
            last = seq == pieces - 1
            f = ev.NodeFragment(id=id, seq=seq, continued=not last)
            if is_leaf and not (last and seq and draw(strategies.booleans())):  # or an empty final one
                f.chunk_fragment.data = draw(strategies.binary(max_size=5))
                if seq == 0 or draw(strategies.booleans()):
                    f.chunk_fragment.metadata.mimetype = 'a/b'
                text_of += f.chunk_fragment.data
            elif not is_leaf:
                below = strategies.integers(i + 1, count - 1)
                for c in draw(strategies.lists(below, min_size=0 if last else 1, max_size=3)):
                    f.child_ids.append(f'n{c}')
                    text_of += text[f'n{c}']
            fragments.append(f)
        text[id] = text_of
    again = draw(strategies.lists(strategies.sampled_from(fragments), max_size=4))
    return draw(strategies.permutations(fragments + again)), text['n0']


class Random(Base):
    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(graphs(), strategies.sampled_from([GrpcSession, WebSocketSession, BinaryWebSocketSession]), strategies.booleans())
    def test_any_graph_in_any_order_flattens_as_the_model_says(self, graph, carrier, action_first):
        fragments, expected = graph
        s = carrier(self.server)
        echo = action('ECHO', {'x': 'n0'}, {'x': 'out'})
        if action_first:
            s.send(echo)
        for f in fragments:
            s.send(ev.SessionMessage(node_fragments=[f]))
        if not action_first:
            s.send(echo)
        self.assertEqual(read_until(s, 'out').flat('out'), expected)
        s.close()


# --- the specification's own examples ----------------------------------------------------------------------------------
VIDEO_1 = '''
action {
  name: "GENERATE"
  input {name: "prompt", id: "prompt_1"}
  output {name: "response", id: "response_1"}
}
node_fragment {
  id: "prompt_1"
  child_ids: "question_1"
  child_ids: "video_1"
}
node_fragment {
  id: "question_1"
  chunk_fragment: {
    metadata { mimetype: "text/plain" }
    data: "Write a summary of this video: "
  }
}
node_fragment {
  id: "video_1"
  seq: 0
  continued: true
  chunk_fragment: {
    metadata { mimetype: "video/mp4" }
    ref: "file://path/to/file/part1"
  }
}
node_fragment {
  id: "video_1"
  seq: 1
  chunk_fragment: {
    # NOTE: Metadata in the second chunk can be omitted.
    metadata { mimetype: "video/mp4" }
    # the content of the video at /part2 is concatenated
    # with the content of the video at /part1 to build the
    # full video in the buffer.
    ref: "file://path/to/file/part2"
  }
}
'''
VIDEO_2 = '''
action {
  name: "GENERATE"
  input {name: "prompt", id: "prompt_2"}
  output {name: "response", id: "response_2"}
}
node_fragment {
  id: "prompt_2"
  child_ids: "prompt_1"
  child_ids: "response_1"
  child_ids: "question_2"
}
node_fragment {
  id: "question_2"
  chunk_fragment {
    metadata { mimetype: "text/plain" }
    data: "Who's winning?"
  }
}
'''
CUSTOMIZED = '''
action {
  name: "GENERATE"
  config: [...proto.Any wrapping GenerateConfig...]
  input {name: "text", id: "prompt_1"}
  output {name: "text", id: "response_1"}
}
node_fragment {
  id: "prompt_1"
  child_ids: "prompt_1_text"
  child_ids: "prompt_1_eot"
}
node_fragment {
  id: "prompt_1_text"
  chunk_fragment {
    metadata { mimetype: "text/plain" }
    data: "Write a heroic novel about a half-eaten jam doughnut."
  }
}
node_fragment {
  id: "prompt_1_eot"
  chunk_fragment {
    metadata { mimetype: "application/x-protobuf; type=EndOfTurn" }
  }
}
'''
STREAMED = '''
action {
  name: "GENERATE"
  config: [...proto.Any wrapping GenerateConfig...]
  input {name: "text", id: "prompt_1"}
  output {name: "text", id: "response_1"}
}
node_fragment {
  id: "prompt_1"
  child_ids: "prompt_1_text"
  continued: true
  // `seq: 0` is implicit.
}
node_fragment {
  id: "prompt_1_text"
  chunk_fragment {
    metadata { mimetype: "text/plain" }
    data: "Write a heroic novel about a half-eaten jam doughnut."
  }
}
// `prompt_1` is streamed by sending more chunks belonging to the
// `prompt_1` tree.
node_fragment {
  id: "prompt_1"
  child_ids: "prompt_1_eot"
  seq: 1
  // `continued: false` is implicit.
}
node_fragment {
  id: "prompt_1_eot"
  chunk_fragment {
    metadata { mimetype: "application/x-protobuf; type=EndOfTurn" }
  }
}
'''


def example(text, config=None):
    """The specification writes singular field names, // comments and a placeholder for the configuration."""
    for informal, field in (('action', 'actions'), ('node_fragment', 'node_fragments'), ('input', 'inputs'), ('output', 'outputs')):
        text = re.sub(rf'^(\s*){informal} {{', rf'\1{field} {{', text, flags=re.M)
    text = re.sub(r'^\s*(//|config: \[).*$', '', text, flags=re.M)
    m = message(text)
    if config is not None:
        m.actions[0].configs.add().Pack(config)
    return m


class Examples(unittest.TestCase):
    """Against the demo models: a video is described to a model of text."""

    @classmethod
    def setUpClass(cls):
        root = harness.scratch() / 'refs'
        (root / 'path/to/file').mkdir(parents=True, exist_ok=True)
        (root / 'path/to/file/part1').write_bytes(bytes(1000))
        (root / 'path/to/file/part2').write_bytes(bytes(234))
        cls.server = harness.Server('--evergreen-references-file-roots', root, '--evergreen-unseen-content', 'describe')
        models = harness.curl(cls.server.url('/v2/repository/index'), '-X', 'POST').json()
        cls.chat = any(m['name'] == 'chat' and m['state'] == 'READY' for m in models)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def setUp(self):
        if not self.chat:
            self.skipTest('no model of text is served')

    def sessions(self):
        for carrier in CARRIERS:
            with self.subTest(carrier.__name__):
                s = carrier(self.server)
                try:
                    yield s
                finally:
                    s.close()

    def greedy(self, **more):
        return cfg.GenerateConfig(temperature=0, max_tokens=24, **more)

    def test_a_question_about_a_video_and_one_more(self):
        answers = set()
        for s in self.sessions():
            first = example(VIDEO_1)
            first.actions[0].configs.add().Pack(self.greedy())
            s.send(first)
            one = read_until(s, 'response_1').flat('response_1')
            second = example(VIDEO_2)
            second.actions[0].configs.add().Pack(self.greedy())
            second.actions[0].outputs.add(name='usage', id='usage_2')
            s.send(second)
            nodes = read_until(s, 'response_2', 'usage_2')
            usage = cfg.Usage()
            nodes.metadata('usage_2').experimental[0].Unpack(usage)
            self.assertGreater(usage.cached_prompt_tokens, 0, 'the first turn was there already')
            self.assertEqual(nodes.metadata('response_2').mimetype, 'text/plain')
            answers.add((one, nodes.flat('response_2')))
        self.assertEqual(len(answers), 1, 'the same over every carrier')

    def test_a_customized_and_a_streamed_prompt_are_the_same_prompt(self):
        answers = set()
        for text in (CUSTOMIZED, STREAMED):
            for s in self.sessions():
                s.send(example(text, self.greedy()))
                answers.add(read_until(s, 'response_1').flat('response_1'))
        self.assertEqual(len(answers), 1)

    def test_delivery_out_of_order_and_twice_gives_the_same(self):
        answers = set()
        for seed in range(8):
            m = example(STREAMED, self.greedy())
            parts = [ev.SessionMessage(node_fragments=[f]) for f in m.node_fragments] * 2 + [ev.SessionMessage(actions=m.actions)]
            random.Random(seed).shuffle(parts)
            s = GrpcSession(self.server)
            for part in parts:
                s.send(part)
            answers.add(read_until(s, 'response_1').flat('response_1'))
            s.close()
        self.assertEqual(len(answers), 1)

    def test_the_examples_parse_to_what_they_say(self):
        self.assertEqual(example(VIDEO_1).node_fragments[3].chunk_fragment.ref, 'file://path/to/file/part2')
        self.assertEqual(example(STREAMED).node_fragments[2].seq, 1)


if __name__ == '__main__':
    harness.main()
