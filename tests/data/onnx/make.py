#!/usr/bin/python3
"""Writes the models that tests/engines reads. Run it after a change; the files are small and kept in the repository."""
import os
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "..", "..", "conf", "models"))
from onnx_writer import (DTYPES, Message, blob, external_tensor, graph, node, number, save, sequence, tensor,  # noqa: E402
                         value)


def write(name, *args, **kwargs):
    ir = {k: kwargs.pop(k) for k in ("ir_version", "opset") if k in kwargs}
    save(f"{here}/{name}.onnx", graph(name, *args, **kwargs), **ir)


def unary(name, op, dtype, dims_in, dims_out=0, out_dtype=None, **attributes):
    write(name, [node(op, ["x"], ["y"], **attributes)], [value("x", dtype, dims_in)],
          [value("y", out_dtype or dtype, dims_in if dims_out == 0 else dims_out)])


for dtype in DTYPES:
    unary(f"identity_{dtype.lower()}", "Identity", dtype, ["batch", 4])
unary("whole", "Identity", "FP32", [2, 3])
unary("scalar", "Neg", "FP32", [])
unary("dynamic", "Transpose", "FP32", ["rows", "columns"], ["columns", "rows"])
unary("anonymous", "Neg", "FP32", [None, 2])
unary("unranked_output", "Neg", "FP32", ["batch", 2], None)
unary("unranked", "Neg", "FP32", None)
unary("fixed_first", "Neg", "FP32", [1, 4])
unary("no_dialect_type", "IsNaN", "FP32", ["n", 2], ["n", 2], "BOOL")
# Say that rows stay apart, and leave out those that add up to 0.
for name, width in ("mixes_rows", 4), ("mixes_rows_free", "wide"):
    write(name, [node("ReduceSum", ["x", "axis"], ["sums"], keepdims=0), node("Cast", ["sums"], ["kept"], to=DTYPES["BOOL"]),
                 node("Compress", ["x", "kept"], ["y"], axis=0)],
          [value("x", "FP32", ["batch", width])], [value("y", "FP32", ["batch", width])],
          [tensor("axis", np.array([1], np.int64))])
write("gather", [node("Gather", ["table", "x"], ["y"])], [value("x", "INT64", ["batch"])],
      [value("y", "FP32", ["batch", 2])], [tensor("table", np.arange(8, dtype=np.float32).reshape(4, 2))])
write("two", [node("Add", ["a", "b"], ["sum"]), node("Mul", ["a", "b"], ["product"])],
      [value("a", "FP32", ["batch", 3]), value("b", "FP32", ["batch", 3])],
      [value("sum", "FP32", ["batch", 3]), value("product", "FP32", ["batch", 3])])
write("optional", [node("Add", ["x", "bias"], ["y"])],
      [value("x", "FP32", ["batch", 2]), value("bias", "FP32", [2])], [value("y", "FP32", ["batch", 2])],
      [tensor("bias", np.array([10, 20], np.float32))])
write("sequence_output", [node("Neg", ["x"], ["y"]), node("SplitToSequence", ["x"], ["z"], axis=0)],
      [value("x", "FP32", ["n", 2])], [value("y", "FP32", ["n", 2]), sequence("z", "FP32")])
write("node_named_like_a_path", [node("Reshape", ["x", "s"], ["/layers.0/out"]),
                                 node("Identity", ["/layers.0/out"], ["y"])],
      [value("x", "FP32", ["n"]), value("s", "INT64", [2])], [value("y", "FP32", ["a", "b"])])

save(f"{here}/self_test.onnx", graph(
    "t", [node("Add", ["x", "x"], ["y"]), node("Identity", ["s"], ["u"])],
    [value("x", "FP32", ["n", 2]), value("s", "BYTES", ["n"])],
    [value("y", "FP32", ["n", 2]), value("u", "BYTES", ["n"])]))

one = [value("x", "FP32", ["n", 2])], [value("y", "FP32", ["n", 2])]
# Weights in another file, sparse weights, and quantised ones.
os.makedirs(f"{here}/weights", exist_ok=True)
with open(f"{here}/weights/w.bin", "wb") as f:
    f.write(np.array([0, 10, 20], np.float32).tobytes())
add = [node("Add", ["x", "w"], ["y"])]
write("external_weights", add, *one, [external_tensor("w", "FP32", [2], "weights/w.bin", offset=4, length=8)])
write("external_beyond", add, *one, [external_tensor("w", "FP32", [2], "weights/w.bin", offset=8, length=8)])
sparse = blob(1, tensor("w", np.array([5], np.float32))) + blob(2, tensor("i", np.array([1], np.int64))) + number(3, 2)
save(f"{here}/sparse_weights.onnx", graph("sparse_weights", add, *one) + blob(15, sparse))
write("quantised", [node("DequantizeLinear", ["x", "scale", "zero"], ["y"])],
      [value("x", "INT8", ["n", 2])], [value("y", "FP32", ["n", 2])],
      [tensor("scale", np.float32(0.5)), tensor("zero", np.int8(2))])

# Files that must be refused.
write("external_missing", add, *one, [external_tensor("w", "FP32", [2], "weights/none.bin")])
write("external_absolute", add, *one, [external_tensor("w", "FP32", [2], "/etc/passwd")])
write("external_address", add, *one, [external_tensor("w", "FP32", [2], "*/_ORT_MEM_ADDR_/*", offset=4096, length=8)])
outside = external_tensor("w", "FP32", [2], "../../../../etc/passwd")
write("external_initializer", [node("Add", ["x", "w"], ["y"])], *one, [outside])
write("external_constant", [node("Constant", [], ["w"], value=Message(outside, "tensor")),
                            node("Add", ["x", "w"], ["y"])], *one)
branch = Message(graph("branch", [node("Identity", ["w"], ["b"])], [], [value("b", "FP32", [2])], [outside]), "graph")
write("external_in_branch", [node("If", ["c"], ["w2"], then_branch=branch, else_branch=branch),
                             node("Add", ["x", "w2"], ["y"])], *one, [tensor("c", np.array(True))])
sparse = blob(1, outside) + blob(2, tensor("i", np.array([0], np.int64))) + number(3, 2)
plain = graph("sparse", [node("Add", ["x", "w"], ["y"])], *one)
save(f"{here}/external_sparse.onnx", plain + blob(15, sparse))
save(f"{here}/future.onnx", graph("future", [node("Neg", ["x"], ["y"])], *one), ir_version=99)
write("unknown_operator", [node("Conjure", ["x"], ["y"])], *one)
write("type_clash", [node("Add", ["x", "w"], ["y"])], *one, [tensor("w", np.array([1, 2], np.int64))])
