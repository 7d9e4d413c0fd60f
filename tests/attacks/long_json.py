"""JSON of many megabytes, in every dialect that takes JSON."""

import base64
import json
import threading
import time

from evergreen import HEAD as LINES_HEAD
from peer import H2, JSON, Raw, ask, binary_infer, data, flat_bits, grpc_message, more_descriptors, packed, pb, post
from registry import attack

import flatbuffers
import numpy

MIB = 1 << 20


def in_turns(target, requests, threads=3):
    """These requests, each once at least, on so many connections at once, until time is over; what was answered."""
    seen = {}

    def work(i):
        first = i
        while i < first + len(requests) or not target.over():
            name, request = requests[i % len(requests)]
            status, _ = ask(target, request, wait=30)
            seen.setdefault(name, set()).add(status)
            i += threads

    pool = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    return ', '.join(f'{name}: {sorted(statuses)}' for name, statuses in sorted(seen.items()))


def numbers(count):
    return b'1,' * (count - 1) + b'1'


@attack(seconds=20, quick=6)
def long_json(target):
    """JSON bodies of 4 to 40 MiB for OpenAI's, GRPS', Open Inference's and Salience's requests."""
    large, ids = target.size(20, 6) * MIB, target.size(39, 30) * MIB // 10 // 2
    text = json.dumps('a b ' * (large // 4)).encode()
    chat = b'{"model":"chat","max_tokens":1,"messages":[{"role":"user","content":"%s"}]}'
    requests = [
        ('embeddings', post('/v1/embeddings', b'{"model":"chat","input":[%s]}' % numbers(ids), JSON)),
        ('completions', post('/v1/completions', b'{"model":"chat","max_tokens":1,"prompt":[%s]}' % numbers(ids), JSON)),
        ('chat', post('/v1/chat/completions', chat % (b'\\u0061' * (ids // 3)), JSON)),
        ('detokenize', post('/detokenize', b'{"model":"chat","tokens":[%s]}' % numbers(ids), JSON)),
        ('ndarray', post('/grps/v1/infer/predict?model=identity', b'{"ndarray":[%s]}' % numbers(large // 2), JSON)),
        ('gtensors', post('/grps/v1/infer/predict?model=identity', b'{"gtensors":{"tensors":[{"name":"x","dtype":"DT_INT32","shape":[%d],'
                          b'"flat_int32":[%s]}]}}' % (large // 2, numbers(large // 2)), JSON)),
        ('generate', post('/v2/models/chat/generate', b'{"text_input":%s}' % text, JSON)),
        ('rpc', post('/inference.GRPCInferenceService/ModelInfer', b'{"modelName":"identity","inputs":[{"name":"x","datatype":"INT32","shape":[%d],'
                     b'"contents":{"intContents":[%s]}}]}' % (large // 2, numbers(large // 2)), JSON)),
        ('session', post('/salience.v1.Salience/OpenSession', b'{"model":%s}' % text, JSON)),
        ('nobody', post('/grpc.health.v1.Health/Check', b'{"service":%s}' % text, JSON)),
    ]
    return in_turns(target, requests)


@attack(seconds=15, quick=4)
def loads_with_files(target):
    """Requests to load a model, which nobody may here, with 40 MiB of files in REST's JSON, gRPC's JSON and gRPC-Web, or of numbers."""
    size = target.size(40, 24) * MIB
    octets = bytes(size)
    text = base64.b64encode(bytes(size * 3 // 4))
    value = pb(1, 'file:1/model.onnx') + pb(2, pb(4, octets))
    path, rpc = '/v2/repository/models/identity/load', '/inference.GRPCInferenceService/RepositoryModelLoad'
    return in_turns(target, [
        ('file', post(path, b'{"parameters":{"config":"{}","file:1/model.onnx":"%s"}}' % text, JSON)),
        ('numbers', post(path, b'{"a":[%s]}' % numbers(size // 2), JSON)),
        ('rpc', post(rpc, b'{"modelName":"identity","parameters":{"file:1/model.onnx":{"bytesParam":"%s"}}}' % text, JSON)),
        ('message', post(rpc, grpc_message(pb(2, 'identity') + pb(3, value)), ('Content-Type', 'application/grpc-web+proto'))),
    ], 2)


@attack(seconds=20, quick=4)
def long_lines(target):
    """Evergreen sessions whose lines are of 15 MiB of JSON, one fragment or many."""
    size = target.size(15, 8) * MIB
    octets = base64.b64encode(bytes(size * 3 // 4))
    fragments = b','.join(b'{"id":"n%d","chunkFragment":{"data":"AAAA"}}' % i for i in range(size // 50))
    lines = [b'{"nodeFragments":[{"id":"n","chunkFragment":{"metadata":{"mimetype":"a/b"},"data":"%s"}}]}\n' % octets,
             b'{"nodeFragments":[%s]}\n' % fragments]
    sent = 0
    while sent < 2 or not target.over():
        with Raw(target, wait=20) as raw:
            line = lines[sent % 2]
            raw.send(LINES_HEAD + b'%x\r\n%s\r\n0\r\n\r\n' % (len(line), line))
            raw.read_all()
            sent += 1
    return f'{sent} lines'


@attack(seconds=25, quick=6, quick_env=(('WEIR_LIMITS_SLAB_BUDGET', '256MiB'),))
def lines_at_once(target):
    """Hundreds of Evergreen sessions with a line of 15 MiB of JSON each, sent faster than workers read them."""
    more_descriptors()
    size = target.size(15, 8) * MIB
    line = b'{"nodeFragments":[{"id":"n","chunkFragment":{"metadata":{"mimetype":"a/b"},"data":"%s"}}]}\n' % base64.b64encode(bytes(size * 3 // 4))
    head = LINES_HEAD.replace(b'Transfer-Encoding: chunked', b'Content-Length: %d' % (len(line) + 1))
    peers, sent = [], 0
    while not target.over():
        peers = [p for p in peers if p.still_open()]
        if len(peers) >= target.size(400, 60):
            time.sleep(0.05)
            continue
        peers.append(Raw(target, wait=2).send(head + line))  # and a byte that does not come
        sent += peers[-1].alive
    return f'{sent} lines of {len(line) >> 20} MiB, {len(peers)} sessions at the end'


@attack(seconds=20, quick=4)
def long_coded_streams(target):
    """A hundred coded bodies at once on one HTTP/2 connection, each of which inflates to 4 MiB."""
    blanks = flat_bits(4 * MIB).translate(bytes([32, 10]) + bytes(254))
    body = packed(b'{"inputs":[' + blanks + b']}')
    fields = [('content-type', 'application/json'), ('content-encoding', 'gzip')]
    done = 0
    while not target.over():
        with H2(target, wait=20) as h2:
            h2.pump(1)  # the server's windows
            for s in range(1, 200, 2):
                h2.send(h2.head(s, '/v2/models/identity/infer', 'POST', end=False, extra=fields))
                for at in range(0, len(body), 16000):
                    h2.send(data(s, body[at:at + 16000], end=at + 16000 >= len(body)))
                h2.pump()
            while not target.over() and h2.pump(0.1) and len(h2.closed_streams) < 100:
                pass
            done += len(h2.closed_streams)
    return f'{done} bodies of {len(body) >> 10} KiB'


@attack(seconds=15, quick=4)
def many_pages(target):
    """Hundreds of pipelined GETs of the longest page, coded, whose answers are read."""
    h1 = b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n' * 300
    done = 0

    def over_h2():
        while not target.over():
            with H2(target, (4, MIB * 64), wait=10) as h2:
                h2.send(b''.join(h2.head(s, '/metrics', extra=[('accept-encoding', 'gzip')]) for s in range(1, 200, 2)))
                while not target.over() and h2.pump(0.1) and len(h2.closed_streams) < 100:
                    pass

    other = threading.Thread(target=over_h2)
    other.start()
    while not target.over():
        with Raw(target, wait=2) as raw:
            raw.send(h1)
            while not target.over() and raw.read(1 << 20):
                done += 1
    other.join()
    return f'{done} reads'


def flat_tensor(builder, kind, shape, **content):
    """A GraphPipe Tensor, by hand: kind, shape, then data or string_val (proto/graphpipe.fbs)."""
    builder.StartVector(8, 1, 8)
    builder.PrependInt64(shape)
    dims = builder.EndVector()
    builder.StartObject(4)
    builder.PrependUint8Slot(0, kind, 0)
    builder.PrependUOffsetTRelativeSlot(1, dims, 0)
    for slot, name in ((2, 'data'), (3, 'strings')):
        if name in content:
            builder.PrependUOffsetTRelativeSlot(slot, content[name], 0)
    return builder.EndObject()


def graphpipe(make):
    """An InferRequest with the tensor that `make` makes."""
    builder = flatbuffers.Builder(1 << 20)
    tensor = make(builder)
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(tensor)
    tensors = builder.EndVector()
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(2, tensors, 0)
    infer = builder.EndObject()
    builder.StartObject(2)
    builder.PrependUint8Slot(0, 1, 0)
    builder.PrependUOffsetTRelativeSlot(1, infer, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def strings(builder, count):
    """So many elements, all of them the same empty string."""
    empty = builder.CreateString(b'')
    builder.StartVector(4, count, 4)
    place = builder.Offset() + 4 * numpy.arange(1, count + 1, dtype=numpy.uint32) - empty
    octets = place[::-1].astype('<u4').tobytes()
    builder.head = builder.head - len(octets)
    builder.Bytes[builder.head:builder.head + len(octets)] = octets
    return builder.EndVector()


@attack(seconds=15, quick=4)
def long_tensors(target):
    """Tensors of a binary form that have to be looked at byte by byte or element by element: BOOL and BYTES of 60 MiB."""
    size = target.size(60, 24) * MIB
    field, nothing = binary_infer('BYTES', size // 4, bytes(size), 'binary')
    octets = bytes(size)
    requests = [('bytes', post('/v2/models/identity/infer', nothing, field))]
    field, body = binary_infer('BOOL', size, octets, 'binary')
    requests.append(('bool', post('/v2/models/identity/infer', body, field)))
    requests.append(('strings', post('/graphpipe/identity', graphpipe(lambda b: flat_tensor(b, 12, size // 8, strings=strings(b, size // 8))),
                                     ('Content-Type', 'application/octet-stream'))))
    return in_turns(target, requests, 2)
