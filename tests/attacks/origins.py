"""Models that another server runs, when that server dies, or says far too much."""

import concurrent.futures
import itertools
import json
import socket
import struct
import time

import harness
from h2_peer import long_field
from peer import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, JSON, Raw, data, field, frame, grpc_message,
                  more_descriptors, ping, post, priority, rst, settings, window)
from registry import attack

INPUTS = json.dumps({'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [4], 'data': [1, 2, 3, 4]}]}).encode()


class DyingOrigin:
    """Answers as it should until the server has loaded its models. From then on it accepts and resets, answers garbage, is
    silent, or breaks off in the middle of a frame, in turns."""

    def __init__(self):
        import forward_origin
        self.origin = forward_origin.Origin()
        self.origin.behave = self._behave
        self.turn = 0

    def _behave(self, connection, stream, request):
        self.turn += 1
        sock = connection.sock
        if self.turn % 5 == 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            sock.close()
        elif self.turn % 5 == 1:
            sock.sendall(bytes(range(256)) * 16)
        elif self.turn % 5 == 2:
            sock.sendall(b'\0\xff\xff\0\0' + struct.pack('>I', stream) + b'x')
            sock.shutdown(socket.SHUT_RDWR)
        elif self.turn % 5 == 3:
            sock.sendall(b'HTTP/1.1 200 OK\r\n\r\n')
        # or it says nothing at all, and the connection lives


MOST_SAID = 16 << 20  # 90 ms, if all of it is read on a shard


class TalkativeOrigin:
    """A gRPC server whose answers to ModelInfer have 16 MiB, of what costs the most to read for its length."""

    # (what, the field that comes again and again, in a tensor's contents): protobuf's tags and lengths
    ANSWERS = (('one number after the other', b'\x18\x01', True), ('truths', b'\x08\x01', True), ('empty elements', b'\x42\x00', True),
               ('empty outputs', b'\x2a\x00', False), ('empty raw contents', b'\x32\x00', False),
               ('empty parameters', b'\x22\x00', False), ('fields that nobody knows', b'\xf8\x07\x00', False))

    def __init__(self):
        import grpc
        self.oip, self.turns = harness.stubs()('inference')[0], itertools.count()
        metadata = self.oip.ModelMetadataResponse(name='x', versions=['1'], platform='by_hand')
        metadata.inputs.add(name='x', datatype='FP32', shape=[-1])
        metadata.outputs.add(name='y', datatype='FP32', shape=[-1])
        said = {'ModelReady': self.oip.ModelReadyResponse(ready=True), 'ModelMetadata': metadata}
        calls = {name: grpc.unary_unary_rpc_method_handler(lambda _, context, answer=answer.SerializeToString(): answer)
                 for name, answer in said.items()}
        calls['ModelInfer'] = grpc.unary_unary_rpc_method_handler(lambda request, context: self.answer())
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=[('grpc.max_send_message_length', -1)])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('inference.GRPCInferenceService', calls),))
        self.port, self.server = server.add_insecure_port('127.0.0.1:0'), server
        server.start()

    def answer(self):
        _, again, in_contents = self.ANSWERS[next(self.turns) % len(self.ANSWERS)]
        body = again * (MOST_SAID // len(again))
        if not in_contents:
            return self.oip.ModelInferResponse(model_name='x').SerializeToString() + body
        tensor = self.oip.ModelInferResponse.InferOutputTensor(name='y', datatype='FP32', shape=[4]).SerializeToString()
        contents = b'\x2a' + length(len(body))  # InferOutputTensor.contents
        return b'\x2a' + length(len(tensor) + len(contents) + len(body)) + tensor + contents + body


def length(value):
    """As protobuf has it, a varint."""
    out = b''
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def beside_the_demos(name, port):
    """The demo models, and beside them one of that name, which an origin at the port runs."""
    root = harness.scratch() / f'{name}-{time.monotonic_ns()}'
    root.mkdir()
    for folder in harness.MODELS.iterdir():
        if folder.is_dir():
            (root / folder.name).symlink_to(folder)
    (root / name).mkdir()
    (root / name / 'model.yaml').write_text(
        f'engine: forward\nkind: oip-grpc\norigins: http://127.0.0.1:{port}\n'
        'parameters: {model: x, answer_timeout: 3s, check_interval: 200ms}\n')
    return root


def ended(target, peer, statuses):
    """Whether its answer is there, and counted."""
    got = peer.take()
    if got is None and peer.alive:
        return False
    status = (got or b'')[9:12].decode()
    statuses[status] = statuses.get(status, 0) + 1
    if status == '200':
        target.broke('garbage was taken for an answer')
    peer.sock.close()
    return True


@attack(seconds=20, quick=4, repository=lambda: beside_the_demos('dying', DyingOrigin().origin.port))
def dying_origin(target):
    """Hundreds of clients of a model whose origin resets, answers garbage or is silent: those of other models are served."""
    more_descriptors()
    wanted, peers, begun, statuses = target.size(400, 100), [], 0, {}
    request = post('/v2/models/dying/infer', INPUTS, JSON)
    while not target.over():
        peers = [peer for peer in peers if not ended(target, peer, statuses)]
        for _ in range(min(50, wanted - len(peers))):
            peers.append(Raw(target, wait=3).send(request))
            begun += 1
        time.sleep(0.02)
    return f'{begun} asked, answers by status: {statuses}'


@attack(seconds=20, quick=5, repository=lambda: beside_the_demos('talkative', TalkativeOrigin().port))
def talkative_origin(target):
    """Clients of a model whose origin answers with 16 MiB of tiny fields: those of other models are served."""
    statuses, peers = {}, []
    request = post('/v2/models/talkative/infer', INPUTS, JSON)
    while not target.over():
        peers = [peer for peer in peers if not ended(target, peer, statuses)]
        while len(peers) < 2:
            peers.append(Raw(target, wait=3).send(request))
        time.sleep(0.02)
    if not statuses:
        target.broke('no answer came')
    return f'answers by status: {statuses}'


HEAD, GOAWAY = field(8, '200'), 7  # a head as :status alone


class FloodingOrigin:
    """A gRPC server that answers ModelInfer with a flood of frames, each request with another kind, for as long as its peer
    takes them."""

    def __init__(self):
        import forward_origin
        self.head = forward_origin.block(*forward_origin.OK_HEAD)
        self.origin, self.turns = forward_origin.Origin(), itertools.count()
        self.origin.behave = self._behave

    def _behave(self, connection, stream, request):
        kinds = self.floods(stream)
        begin, again = kinds[next(self.turns) % len(kinds)]
        connection.sock.settimeout(2)
        connection.sock.sendall(begin)
        for _ in range(64):
            connection.sock.sendall(again * max(1, (1 << 18) // len(again)))

    def floods(self, stream):
        begun = frame(HEADERS, END_HEADERS, stream, self.head)
        entry = HEAD + b'\x40\x01x' + long_field('x', 3900)[3:]  # a field of the dynamic table
        ended = frame(HEADERS, END_HEADERS | END_STREAM, stream, HEAD)
        return (
            (b'', ping()), (b'', settings()), (b'', b''.join(settings((INITIAL_WINDOW_SIZE, n)) for n in range(60_000, 60_099))),
            (b'', window(0, 1)), (b'', window(stream, 1)), (b'', priority(stream, 0)), (b'', rst(stream)),
            (b'', frame(GOAWAY, 0, 0, bytes(8))), (b'', frame(0xfa, 0, 0, bytes(8))), (b'', settings((1, 0), (1, 4096))),
            (b'', frame(HEADERS, END_HEADERS, stream, field(':status', '103'))),
            (frame(HEADERS, 0, stream, HEAD), frame(CONTINUATION, 0, stream, b'')),
            (frame(HEADERS, 0, stream, HEAD), frame(CONTINUATION, 0, stream, long_field('x', 16_000))),
            (frame(HEADERS, END_HEADERS, stream, entry), frame(HEADERS, END_HEADERS | END_STREAM, stream, b'\xbe' * 16_384)),
            (ended, frame(HEADERS, END_HEADERS | END_STREAM, stream, HEAD + b'\xbe' * 16_000)), (ended, data(stream, bytes(16_384), end=False)),
            (begun, frame(DATA, 0, stream)), (begun, frame(DATA, 8, stream, b'\xff' + bytes(255))), (begun, data(stream, bytes(16_384), end=False)),
            (begun, data(stream, grpc_message(b'') * 3000, end=False)), (begun, data(stream, struct.pack('>BI', 0, 1 << 30), end=False)),
            (begun, frame(HEADERS, END_HEADERS, stream, HEAD)), (begun, bytes(range(256))),
        )


@attack(seconds=30, quick=6, repository=lambda: beside_the_demos('flooding', FloodingOrigin().origin.port))
def flooding_origin(target):
    """A gateway's clients whose origin answers with floods of HTTP/2's frames, 23 kinds of them: those of other models are served."""
    more_descriptors()
    wanted, peers, begun, statuses = target.size(60, 25), [], 0, {}
    request = post('/v2/models/flooding/infer', INPUTS, JSON)
    while not target.over():
        peers = [peer for peer in peers if not ended(target, peer, statuses)]
        for _ in range(wanted - len(peers)):
            peers.append(Raw(target, wait=3).send(request))
            begun += 1
        time.sleep(0.02)
    return f'{begun} asked, answers by status: {statuses}'
