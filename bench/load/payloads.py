"""Request bodies: ModelInferRequest by hand (proto/inference.proto), its gRPC frame, the REST forms of the same, and
GraphPipe's InferRequest (proto/graphpipe.fbs)."""

import json
import math
import struct


def varint(n):
    out = b''
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def infer_request(model, name, count, datatype='FP32', rows=None):
    shape = ([rows] if rows else []) + [count]
    packed = b''.join(varint(d) for d in shape)
    tensor = field(1, name.encode()) + field(2, datatype.encode()) + field(3, packed)
    raw = struct.pack(f'<{count * (rows or 1)}f', *[i % 16 / 16 for i in range(count * (rows or 1))])
    return field(1, model.encode()) + field(5, tensor) + field(7, raw)


def text_request(model, text, tokens):
    """ModelStreamInfer of a model that makes text: as many tokens as that, each an answer of its own."""
    def parameter(name, value):
        return field(4, field(1, name.encode()) + field(2, value))
    tensor = field(1, b'text_input') + field(2, b'BYTES') + field(3, varint(1))
    raw = struct.pack('<I', len(text)) + text.encode()
    return field(1, model.encode()) + parameter('max_tokens', b'\x10' + varint(tokens)) + parameter('stream', b'\x08\1') + \
        parameter('ignore_eos', b'\x08\1') + field(5, tensor) + field(7, raw)


def chat_json(model, text, tokens):
    return json.dumps({'model': model, 'messages': [{'role': 'user', 'content': text}], 'max_tokens': tokens, 'stream': True,
                       'ignore_eos': True}).encode()


def grpc_frame(message):
    return b'\0' + struct.pack('>I', len(message)) + message


def infer_json(name, count, datatype='FP32', rows=None):
    shape = ([rows] if rows else []) + [count]
    data = [i % 16 / 16 for i in range(count * (rows or 1))]
    return json.dumps({'inputs': [{'name': name, 'datatype': datatype, 'shape': shape, 'data': data}]}).encode()


# --- several float tensors of any shape, one of which is asked for: [(name, shape)], name
SIXTEENTHS = struct.pack('<16f', *[i / 16 for i in range(16)])


def floats(shape):
    count = math.prod(shape)
    return (SIXTEENTHS * (count // 16 + 1))[:4 * count]


def tensors_grpc(model, tensors, asked):
    out = field(1, model.encode())
    for name, shape in tensors:
        out += field(5, field(1, name.encode()) + field(2, b'FP32') + field(3, b''.join(map(varint, shape))))
    out += field(6, field(1, asked.encode()))
    return out + b''.join(field(7, floats(shape)) for _, shape in tensors)


def tensors_binary(tensors, asked):
    """The REST body and the length of its JSON."""
    inputs = [{'name': name, 'datatype': 'FP32', 'shape': shape, 'parameters': {'binary_data_size': 4 * math.prod(shape)}}
              for name, shape in tensors]
    head = json.dumps({'inputs': inputs, 'outputs': [{'name': asked, 'parameters': {'binary_data': True}}]}).encode()
    return head + b''.join(floats(shape) for _, shape in tensors), len(head)


def tensors_json(tensors, asked):
    tile = ','.join(str(i / 16) for i in range(16)) + ','

    def one(name, shape):
        count = math.prod(shape)
        assert count % 16 == 0
        return '{"name":"%s","datatype":"FP32","shape":%s,"data":[%s]}' % (name, json.dumps(shape), (tile * (count // 16))[:-1])
    return ('{"inputs":[%s],"outputs":[{"name":"%s"}]}' % (','.join(one(*t) for t in tensors), asked)).encode()


def tensors_graphpipe(tensors, asked):
    import flatbuffers
    b = flatbuffers.Builder(1024)

    def vector(items):
        b.StartVector(4, len(items), 4)
        for item in reversed(items):
            b.PrependUOffsetTRelative(item)
        return b.EndVector()

    def table(slots, *fields):
        b.StartObject(slots)
        for at, value in fields:
            b.PrependUOffsetTRelativeSlot(at, value, 0)
        return b.EndObject()

    def tensor(shape):
        data = b.CreateByteVector(floats(shape))
        b.StartVector(8, len(shape), 8)
        for dim in reversed(shape):
            b.PrependInt64(dim)
        dims = b.EndVector()
        b.StartObject(4)
        b.PrependUint8Slot(0, 10, 0)
        b.PrependUOffsetTRelativeSlot(1, dims, 0)
        b.PrependUOffsetTRelativeSlot(2, data, 0)
        return b.EndObject()

    inputs = vector([tensor(shape) for _, shape in tensors])
    names = vector([b.CreateString(name) for name, _ in tensors])
    outputs = vector([b.CreateString(asked)])
    infer = table(4, (1, names), (2, inputs), (3, outputs))
    b.StartObject(2)
    b.PrependUint8Slot(0, 1, 0)
    b.PrependUOffsetTRelativeSlot(1, infer, 0)
    b.Finish(b.EndObject())
    return bytes(b.Output())
