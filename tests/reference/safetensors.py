"""Reads and writes *.safetensors: eight bytes of length, a JSON header, the tensors' bytes one after another.

Needs torch, for its bfloat16 alone.
"""
import json
import os
import struct

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
          "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
          "BOOL": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def raw(tensor):
    """The bytes of a tensor, row-major and little-endian."""
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.numpy().tobytes()


def save(path, tensors, metadata=None, dtypes=None):
    """Writes a dict of tensors, in its order. Returns the file's size. `dtypes`: by name, where torch has no such type."""
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        dtype = (dtypes or {}).get(name, NAMES[tensor.dtype])
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors start aligned
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            f.write(raw(tensor))
        return f.tell()


def load(path):
    """All tensors of one file, by name."""
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        body = bytearray(f.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = DTYPES[entry["dtype"]]
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=dtype)
        else:
            tensors[name] = torch.frombuffer(body[begin:end], dtype=dtype).reshape(entry["shape"])
    return tensors


def load_folder(folder):
    """All tensors of a model: model.safetensors, or the shards that model.safetensors.index.json names."""
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        return load(os.path.join(folder, "model.safetensors"))
    with open(index) as f:
        weights = json.load(f)["weight_map"]
    tensors = {}
    for shard in sorted(set(weights.values())):
        tensors.update(load(os.path.join(folder, shard)))
    return tensors
