"""Writes ONNX files with numpy alone: as much of the format as the demo models and the tests need.

An ONNX file is one protobuf message, ModelProto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3). Protobuf's
wire format is a run of fields: a varint key (number << 3 | wire type), then a varint (type 0), 4 bytes (type 5) or a
varint length and that many bytes (type 2). Each function below returns the bytes of one message; field numbers are
given where they are used.

    graph = onnx_writer.graph(
        "adder", [node("Add", ["a", "b"], ["c"])],
        inputs=[value("a", "FP32", ["batch", 16]), value("b", "FP32", ["batch", 16])],
        outputs=[value("c", "FP32", ["batch", 16])])
    onnx_writer.save("1/model.onnx", graph)
"""

import os
import struct

import numpy as np

# Open Inference Protocol's name of a type -> TensorProto.DataType
DTYPES = {
    "FP32": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BYTES": 8, "BOOL": 9,
    "FP16": 10, "FP64": 11, "UINT32": 12, "UINT64": 13, "BF16": 16,
}
_NUMPY = {
    "float32": "FP32", "uint8": "UINT8", "int8": "INT8", "uint16": "UINT16", "int16": "INT16", "int32": "INT32",
    "int64": "INT64", "bool": "BOOL", "float16": "FP16", "float64": "FP64", "uint32": "UINT32", "uint64": "UINT64",
}


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def blob(field, data):
    if isinstance(data, str):
        data = data.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name, array, dtype=None):
    """TensorProto: dims=1 data_type=2 raw_data=9 name=8; strings in string_data=6."""
    array = np.asarray(array)
    head = b"".join(number(1, d) for d in array.shape)
    if dtype == "BYTES":
        body = b"".join(blob(6, s) for s in array.reshape(-1).tolist())
        return head + number(2, DTYPES["BYTES"]) + body + blob(8, name)
    dtype = dtype or _NUMPY[array.dtype.name]
    return head + number(2, DTYPES[dtype]) + blob(8, name) + blob(9, array.tobytes())


def external_tensor(name, dtype, dims, location, **entries):
    """A TensorProto whose bytes lie in another file, from `offset` on: external_data=13 data_location=14 (EXTERNAL = 1)."""
    entries = {"location": location, **entries}
    head = b"".join(number(1, d) for d in dims)
    return (head + number(2, DTYPES[dtype]) + blob(8, name) + number(14, 1)
            + b"".join(blob(13, blob(1, key) + blob(2, str(value))) for key, value in entries.items()))


class Message(bytes):
    """The bytes of a TensorProto ("tensor") or GraphProto ("graph") that is to be an attribute."""

    def __new__(cls, data, kind):
        self = super().__new__(cls, data)
        self.kind = kind
        return self


def attribute(name, x):
    """AttributeProto: name=1 f=2 i=3 s=4 t=5 g=6 floats=7 ints=8 type=20."""
    if isinstance(x, Message):
        body, kind = (blob(5, x), 4) if x.kind == "tensor" else (blob(6, x), 5)
    elif isinstance(x, (bool, int)):
        body, kind = number(3, int(x)), 2
    elif isinstance(x, float):
        body, kind = varint(2 << 3 | 5) + struct.pack("<f", x), 1
    elif isinstance(x, str):
        body, kind = blob(4, x), 3
    elif isinstance(x, (list, tuple)):
        body, kind = b"".join(number(8, i) for i in x), 7
    else:
        raise TypeError(f"attribute {name}: {type(x)}")
    return blob(1, name) + body + number(20, kind)


def node(op, inputs, outputs, **attributes):
    """NodeProto: input=1 output=2 name=3 op_type=4 attribute=5."""
    return (b"".join(blob(1, i) for i in inputs) + b"".join(blob(2, o) for o in outputs)
            + blob(3, "_".join([op.lower(), *outputs])) + blob(4, op)
            + b"".join(blob(5, attribute(k, v)) for k, v in attributes.items()))


def value(name, dtype, dims):
    """ValueInfoProto: name=1 type=2. A dimension is a number, a name, or None (unknown); dims=None: unknown rank."""
    shape = b""
    for d in dims or []:
        shape += blob(1, b"" if d is None else blob(2, d) if isinstance(d, str) else number(1, d))
    tensor_type = number(1, DTYPES[dtype]) + (b"" if dims is None else blob(2, shape))
    return blob(1, name) + blob(2, blob(1, tensor_type))


def sequence(name, dtype):
    """ValueInfoProto of a sequence of tensors."""
    element = blob(1, number(1, DTYPES[dtype]))
    return blob(1, name) + blob(2, blob(4, blob(1, element)))


def graph(name, nodes, inputs, outputs, initializers=()):
    """GraphProto: node=1 name=2 initializer=5 input=11 output=12."""
    return (b"".join(blob(1, n) for n in nodes) + blob(2, name) + b"".join(blob(5, t) for t in initializers)
            + b"".join(blob(11, v) for v in inputs) + b"".join(blob(12, v) for v in outputs))


def model(graph_bytes, opset=17, ir_version=8, version=1):
    """ModelProto: ir_version=1 producer_name=2 model_version=5 graph=7 opset_import=8."""
    return (number(1, ir_version) + blob(2, "weir") + number(5, version) + blob(7, graph_bytes)
            + blob(8, blob(1, "") + number(2, opset)))


def save(path, graph_bytes, **kwargs):
    data = model(graph_bytes, **kwargs)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    return len(data)
