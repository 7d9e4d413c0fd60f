#!/usr/bin/python3
"""simple_int8: INT8[16] twice -> their sum and difference, wrapped to INT8."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from onnx_writer import DTYPES, graph, node, save, value  # noqa: E402

# ONNX Runtime adds no 8-bit integers on the CPU, so the sums are taken in INT32.
row = ["batch", 16]
wide, narrow = DTYPES["INT32"], DTYPES["INT8"]
save(f"{here}/1/model.onnx", graph(
    "simple_int8",
    [node("Cast", ["INPUT0"], ["a"], to=wide), node("Cast", ["INPUT1"], ["b"], to=wide),
     node("Add", ["a", "b"], ["sum"]), node("Sub", ["a", "b"], ["difference"]),
     node("Cast", ["sum"], ["OUTPUT0"], to=narrow), node("Cast", ["difference"], ["OUTPUT1"], to=narrow)],
    inputs=[value("INPUT0", "INT8", row), value("INPUT1", "INT8", row)],
    outputs=[value("OUTPUT0", "INT8", row), value("OUTPUT1", "INT8", row)]))
