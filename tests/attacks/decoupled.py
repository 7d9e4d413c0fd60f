"""Models that answer more than once: iterative sequences, and ensembles with decoupled steps."""

import json
import random
import socket
import struct
import sys
import time

import harness
from own_code import beside_the_demo_models
from peer import CANCEL, GRPC, H2, INITIAL_WINDOW_SIZE, JSON, Raw, ask, data, grpc_message, more_descriptors, pb, post, rst, varint, window
from registry import attack

# One number for each execute(), as many as N says; below 0 without end, of 400 KB each, and 20 in one execute() for -2.
STEPS = '''
import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.002)
        for request in requests:
            n = int(request.inputs()[0].as_numpy().reshape(-1)[0])
            step = request.step = getattr(request, 'step', 0) + 1
            size, final = (100_000, 0) if n < 0 else (1, int(step >= n))
            if not final:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            answer = pb_utils.InferenceResponse([pb_utils.Tensor('I', np.full((1, size), step, np.int32))])
            for _ in range(20 if n == -2 else 1):
                request.get_response_sender().send(answer, flags=final)
'''
# The same of a model that answers once: it is wanted again until N is counted down.
ONCE = '''
import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.002)
        return [self.answer(request) for request in requests]

    def answer(self, request):
        step = request.step = getattr(request, 'step', 0) + 1
        if step < abs(int(request.inputs()[0].as_numpy().reshape(-1)[0])):
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            return None
        return pb_utils.InferenceResponse([pb_utils.Tensor('I', np.array([[step]], np.int32))])
'''
ITERATIVE = '''name: "%s" backend: "python" max_batch_size: 4 %s sequence_batching { iterative_sequence: true }
input { name: "N" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "I" data_type: TYPE_INT32 dims: [ -1 ] }
'''
MANY = 'model_transaction_policy { decoupled: true }'
PYTHON = ('--engines-python-interpreter', sys.executable)
SMALL = (('WEIR_LIMITS_SLAB_BUDGET', '256MiB'),)  # the quick form's


def iterative():
    """The demo models, `steps`, whose requests are wanted again after each answer, and `once`, which has one answer."""
    root = beside_the_demo_models('steps', STEPS, ITERATIVE % ('steps', MANY))
    add(root, 'once', ITERATIVE % ('once', ''), ONCE)
    return root


def add(root, name, config, code=None):
    (root / name / '1').mkdir(parents=True)
    (root / name / 'config.pbtxt').write_text(config)
    if code:
        (root / name / '1/model.py').write_text(code)


def wants(model, n, path='infer_stream', shape=(1, 1), **fields):
    body = {'inputs': [{'name': 'N', 'datatype': 'INT32', 'shape': shape, 'data': [n]}], **fields}
    return post(f'/v2/models/{model}/{path}', json.dumps(body).encode(), JSON)


def leave(peer, how):
    if how == 'reset':
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    peer.sock.close()


def begin(target, request, receive_buffer=4096):
    return Raw(target, receive_buffer=receive_buffer, wait=3).send(request)


def served(target, model, request, wait, right):
    """That another client gets an answer of the model in time, once the attacker has gone."""
    before, target.source = target.source, '127.0.0.1'
    try:
        end = time.monotonic() + wait
        while time.monotonic() < end:
            with Raw(target, wait=max(0.1, end - time.monotonic())) as raw:
                raw.send(request)
                if right in (raw.read_all() if b'Connection: close' in request else raw.answer()[1]):
                    return
            time.sleep(0.1)
        target.broke(f'{model} does not answer another client')
    finally:
        target.source = before


def read_little(target, chance, most, piece, request):
    """Peers that begin a request() each, of whom some read a piece of the answer now and then, and some leave. What to say of them."""
    peers, begun, read = [], 0, 0
    while not target.over():
        peers = [peer for peer in peers if peer.still_open()]
        for _ in range(min(50, most - len(peers))):
            peers.append(begin(target, request()))
            begun += 1
        for peer in chance.sample(peers, len(peers) // 4):
            read += len(peer.take(piece) or b'')
        for peer in chance.sample(peers, len(peers) // 20):
            leave(peer, chance.choice(('reset', 'end')))
            peers.remove(peer)
        time.sleep(0.05)
    for peer in peers:
        leave(peer, 'reset')
    return f'{begun} begun, {read >> 10} KiB of them read, {len(peers)} at the end'


def closing(request):
    return request.replace(b'\r\n', b'\r\nConnection: close\r\n', 1)


@attack(seconds=30, quick=7, repository=iterative, flags=PYTHON)
def iterative_unread(target):
    """Iterative sequences that never end, one for each slot and hundreds behind, read not at all, slowly, or left; each answer has 400 KB."""
    more_descriptors()
    chance = random.Random(51)
    said = read_little(target, chance, target.size(400, 100), 4096, lambda: wants('steps', chance.choice((-1, -2, 1_000_000))))
    served(target, 'steps', closing(wants('steps', 3)), 10, b'"data":[3]')
    return said


@attack(seconds=25, quick=6, repository=iterative, flags=PYTHON)
def iterative_left(target):
    """A thousand sequences of models with 4 slots are opened and left, of which the first never ended; those behind them are served."""
    more_descriptors()
    chance, begun = random.Random(52), 0
    while not target.over():
        model, path = chance.choice((('steps', 'infer_stream'), ('once', 'infer')))
        extra = chance.choice(({}, {'parameters': {'sequence_id': 7, 'sequence_start': True}}, {'parameters': {'timeout': 1000}},
                               {'parameters': {'sequence_id': 7}}, {'parameters': {'sequence_id': 'x' * 100_000, 'sequence_start': True}}))
        peers = [begin(target, wants(model, 1_000_000_000, path, **extra)) for _ in range(target.size(1000, 150))]
        begun += len(peers)
        time.sleep(0.3)
        for peer in peers:
            leave(peer, chance.choice(('reset', 'end')))
        served(target, model, closing(wants(model, 3, path)), 10, b'"data":[3]')
    return f'{begun} begun and left'


@attack(seconds=25, quick=6, repository=iterative, flags=PYTHON)
def iterative_crowd(target):
    """One client's hundreds of iterative sequences that end, read as they should be: those of another come between them."""
    more_descriptors()
    begun, longest, body = 0, 0, closing(wants('once', 20, 'infer'))
    peers = []
    asked = time.monotonic()
    while not target.over():
        peers = [peer for peer in peers if not peer.take() and peer.alive]
        for _ in range(min(50, target.size(400, 100) - len(peers))):
            peers.append(begin(target, body))
            begun += 1
        if time.monotonic() - asked > 1:
            asked = time.monotonic()
            served(target, 'once', closing(wants('once', 3, 'infer')), 10, b'"data":[3]')
            longest = max(longest, time.monotonic() - asked)
    return f'{begun} begun; another client waited for {longest:.2f} s at most'


# --- ensembles ---------------------------------------------------------------------------------------------------------
# N numbers as fast as they go, each request on a thread of its own; below 0 without end, and 400 KB each.
COUNTER = '''
import threading
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            n = int(request.inputs()[0].as_numpy()[0])
            threading.Thread(target=self.count, args=(request, request.get_response_sender(), n)).start()

    def count(self, request, sender, n):
        i = 0
        while (n < 0 or i < n) and not request.is_cancelled():
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('I', np.full([100_000 if n < 0 else 1], i, np.int32))]))
            i += 1
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
# It never answers, and notices that its client has left.
SILENT = COUNTER.replace("            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('I', np.full([100_000 if n < 0 else 1], i, np.int32))]))\n",
                         '            threading.Event().wait(0.05)\n')
PLUS = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor('Y', r.inputs()[0].as_numpy() + 1)]) for r in requests]
'''
MODEL = '''name: "%s" backend: "python" %s
input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] } output { name: "%s" data_type: TYPE_INT32 dims: [ -1 ] }
'''
ENSEMBLE = '''name: "%s" platform: "ensemble"
input { name: "N" data_type: TYPE_INT32 dims: [ -1 ] } output { name: "I" data_type: TYPE_INT32 dims: [ -1 ] }
ensemble_scheduling { step [ %s ] }
'''
STEP = '{ model_name: "%s" model_version: -1 input_map { key: "%s" value: "%s" } output_map { key: "%s" value: "%s" } }'


def ensembles():
    """The demo models, a counter, and ensembles of it: counted, summed, nested in each other, counted of what is counted."""
    root = beside_the_demo_models('counter', COUNTER, MODEL % ('counter', MANY, 'I'))
    add(root, 'silent', MODEL % ('silent', MANY, 'I'), SILENT)
    add(root, 'plus', MODEL % ('plus', '', 'Y'), PLUS)
    count, never, plus = STEP % ('counter', 'X', 'N', 'I', 'i'), STEP % ('silent', 'X', 'N', 'I', 'i'), STEP % ('plus', 'X', 'i', 'Y', 'I')
    add(root, 'through', ENSEMBLE % ('through', f'{count}, {plus}'))
    add(root, 'waits', ENSEMBLE % ('waits', f'{never}, {plus}'))
    add(root, 'nested', ENSEMBLE % ('nested', STEP % ('through', 'N', 'N', 'I', 'i') + ', ' + plus))
    add(root, 'nested_twice', ENSEMBLE % ('nested_twice', STEP % ('nested', 'N', 'N', 'I', 'i') + ', ' + plus))
    add(root, 'twice', ENSEMBLE % ('twice', f'{count}, ' + STEP % ('counter', 'X', 'i', 'I', 'I')))
    return root


SOME = ('through', 'waits', 'nested', 'nested_twice', 'twice', 'through')


@attack(seconds=30, quick=7, repository=ensembles, flags=PYTHON)
def ensembles_unread(target):
    """Ensembles whose decoupled step never ends, never answers, or makes a million answers, nested, read slowly, not at all, or left."""
    more_descriptors()
    chance = random.Random(53)
    said = read_little(target, chance, target.size(300, 80), 16384,
                       lambda: wants(chance.choice(SOME), chance.choice((-1, 1_000_000)), shape=(1,)))
    for model in ('through', 'nested_twice', 'twice'):
        served(target, model, closing(wants(model, 2, shape=(1,))), 15, b'"outputs"')
    return said


def large_answers():
    """The demo models, and a counter whose answers have 8 MB each."""
    return beside_the_demo_models('counter', COUNTER.replace('100_000', '2_000_000'), MODEL % ('counter', MANY, 'I'))


@attack(seconds=35, quick=8, repository=large_answers, flags=PYTHON, quick_env=SMALL)
def decoupled_unread(target):
    """300 clients of a decoupled model whose answers, without end, have 8 MB each, that read nothing, or leave."""
    more_descriptors()
    chance, peers, begun, statuses = random.Random(55), [], 0, {}
    request = wants('counter', -1, shape=(1,)).replace(b'"N"', b'"X"')
    while not target.over():
        for peer in [peer for peer in peers if not peer.still_open()]:
            peers.remove(peer)
            peer.sock.close()
        for _ in range(min(20, target.size(300, 60) - len(peers))):
            peers.append(begin(target, request))
            begun += 1
        for peer in chance.sample(peers, len(peers) // 40):
            head = (peer.take(100) or b'')[9:12].decode()
            statuses[head] = statuses.get(head, 0) + 1
            leave(peer, chance.choice(('reset', 'end')))
            peers.remove(peer)
        time.sleep(0.1)
    for peer in peers:
        leave(peer, 'reset')
    served(target, 'counter', closing(wants('counter', 2, shape=(1,)).replace(b'"N"', b'"X"')), 15, b'"outputs"')
    return f'{begun} begun, statuses of some that left: {statuses}'


def infer_message(model, n):
    tensor = pb(1, 'N') + pb(2, 'INT32') + pb(3, varint(1))
    return grpc_message(pb(1, model) + pb(5, tensor) + pb(7, struct.pack('<i', n)))


@attack(seconds=30, quick=7, repository=ensembles, flags=PYTHON)
def ensembles_streamed(target):
    """gRPC streams with tens of such requests each, on 90 streams of a connection, whose windows are 0 or open, reset in the middle."""
    chance, peers, begun = random.Random(54), [], 0
    path = '/inference.GRPCInferenceService/ModelStreamInfer'
    while not target.over():
        peers = [h2 for h2 in peers if h2.still_open() and (h2.reads is False or h2.pump())]
        while len(peers) < target.size(30, 8) and not target.over():
            h2 = H2(target, (INITIAL_WINDOW_SIZE, chance.choice((0, 65535, 1 << 24))), receive_buffer=4096, wait=3)
            h2.reads = chance.random() < 0.5
            for stream in range(1, 180, 2):
                messages = b''.join(infer_message(chance.choice(SOME), chance.choice((-1, 1_000_000, 3))) for _ in range(20))
                h2.offer(h2.head(stream, path, 'POST', end=False, extra=GRPC) + data(stream, messages, end=chance.random() < 0.5))
            h2.offer(window(0, 1 << 30))
            begun += 90
            peers.append(h2)
        for h2 in chance.sample(peers, len(peers) // 6):
            h2.offer(b''.join(rst(stream, CANCEL) for stream in range(1, 180, 2)))
            leave(h2, chance.choice(('reset', 'end')))
            peers.remove(h2)
        time.sleep(0.1)
    for h2 in peers:
        leave(h2, 'reset')
    served(target, 'nested', closing(wants('nested', 2, shape=(1,))), 15, b'"outputs"')
    status, body = ask(target, wants('through', 2, 'infer', shape=(1,)))
    if status != 400 and status != 501:
        target.broke(f'an infer of an ensemble that answers often: {status} {body[:200]!r}')
    return f'{begun} streams begun'
