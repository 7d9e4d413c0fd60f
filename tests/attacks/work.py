"""Requests that cost a shard much time for few bytes, or for many."""

import json

from peer import GZIP, H2, JSON, Raw, ask, binary_infer, flat_bits, packed, post
from registry import attack

import numpy

MIB = 1 << 20
INFER = '/v2/models/identity/infer'


def again(target, request, wait=60):
    """The same request, once at least, until time is over; (how many were answered, the last status)."""
    done, status = 0, 0
    while done == 0 or not target.over():
        status, _ = ask(target, request, wait=wait)
        done += 1
    return f'{done} of {len(request) >> 10} KiB, the last {status}'


@attack(seconds=15, quick=2.5)
def classification_of_everything(target):
    """`classification` with k as large as the tensor (60 MiB of FP32)."""
    count = target.size(15, 2) * MIB
    octets = numpy.random.default_rng(1).random(count, dtype=numpy.float32).tobytes()
    field, body = binary_infer('FP32', count, octets, classification=count)
    return again(target, post(INFER, body, field))


@attack(seconds=15, quick=2.5)
def json_lines_coded(target):
    """62 MiB of `{}` lines in 832 KB of gzip, for an RPC in its JSON form."""
    lines = target.size(62, 8) * MIB // 3
    noise = flat_bits(lines, 25)
    body = packed(b''.join(b'{} \n' if bit else b'{}\n' for bit in noise))
    return again(target, post('/inference.GRPCInferenceService/ModelStreamInfer', body, JSON, GZIP))


@attack(seconds=15, quick=2.5)
def json_of_40_mib(target):
    """REST JSON of 40 MiB: one tensor of small numbers."""
    count = target.size(20, 4) * MIB
    numbers = b'1,' * (count - 1) + b'1'
    return again(target, post(INFER, b'{"inputs":[{"name":"x","datatype":"INT8","shape":[%d],"data":[%s]}]}' % (count, numbers), JSON))


@attack(seconds=15, quick=2.5)
def json_nested(target):
    """JSON of 4 MiB that is all brackets, in every dialect that reads JSON."""
    depth = target.size(4, 1) * MIB
    bodies = [(INFER, b'{"inputs":[{"name":"x","datatype":"INT8","shape":[1],"data":' + b'[' * depth),
              ('/v1/chat/completions', b'{"model":"chat","messages":' + b'[' * depth),
              ('/grps/v1/infer/predict?model=identity', b'{"ndarray":' + b'[' * depth),
              ('/inference.GRPCInferenceService/ModelInfer', b'{"inputs":' + b'[' * depth),
              ('/v2/models/chat/generate', b'{"text_input":' + b'[' * depth)]
    done = 0
    while not target.over():
        for path, body in bodies:
            status, _ = ask(target, post(path, body, JSON))
            done += 1
            if status == 200:
                target.broke(f'{path} takes {depth} brackets')
    return f'{done} bodies'


@attack(seconds=15, quick=2.5)
def bytes_elements(target):
    """8 MiB of empty BYTES elements, whose JSON answer is 20 times as long."""
    count = target.size(2, 1) * MIB
    field, body = binary_infer('BYTES', count, bytes(4 * count))
    return again(target, post(INFER, body, field))


@attack(seconds=10, quick=2)
def shapes_that_lie(target):
    """Shapes whose product overflows, is negative, or has a thousand dimensions."""
    shapes = [[2**32, 2**32], [2**63 - 1], [-1], [-(2**63)], [2**31, 2**31, 4], [1] * 1000, [0, 2**62], [2**64], []]
    done = 0
    while not target.over():
        for shape in shapes:
            for datatype in ('FP32', 'BYTES', 'BOOL', 'FP64'):
                body = json.dumps({'inputs': [{'name': 'x', 'datatype': datatype, 'shape': shape, 'data': [1]}]}).encode()
                status, _ = ask(target, post(INFER, body, JSON))
                done += 1
                if status == 200 and shape not in ([], [1] * 1000):
                    target.broke(f'shape {str(shape)[:40]} of {datatype} is served')
    return f'{done} requests'


@attack(seconds=15, quick=2.5)
def pipelined_infers(target):
    """10,000 pipelined requests on one connection whose answers are not read."""
    body = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [500], 'data': list(range(500))}]}).encode()
    request, sent = post(INFER, body, JSON) * 50, 0
    while not target.over():
        with Raw(target, receive_buffer=4096, wait=5) as raw:
            for _ in range(200):
                if target.over() or not raw.alive:
                    break
                raw.sock.settimeout(1)
                raw.send(request)
                sent += 50
    return f'{sent} requests'


@attack(seconds=15, quick=2.5)
def model_pages(target):
    """The reference pages of models, made for each request, on 90 streams of an HTTP/2 connection at once."""
    paths = [f'/v2/models/{model}/docs{form}' for model in ('simple', 'identity', 'chat') for form in ('', '/dataplane.json')]
    asked = 0
    while not target.over():
        with H2(target, wait=10) as h2:
            h2.send(b''.join(H2.head(i, paths[i // 2 % len(paths)]) for i in range(1, 180, 2)))
            asked += 90
            while len(h2.closed_streams) < 90 and not target.over() and h2.pump(wait=0.1):
                pass
    return f'{asked} pages'
