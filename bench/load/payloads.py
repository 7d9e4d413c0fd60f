"""Request bodies: ModelInferRequest by hand (proto/inference.proto), its gRPC frame, and the REST forms of the same."""

import json
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


def grpc_frame(message):
    return b'\0' + struct.pack('>I', len(message)) + message


def infer_json(name, count, datatype='FP32', rows=None):
    shape = ([rows] if rows else []) + [count]
    data = [i % 16 / 16 for i in range(count * (rows or 1))]
    return json.dumps({'inputs': [{'name': name, 'datatype': datatype, 'shape': shape, 'data': data}]}).encode()
