#!/usr/bin/python3
"""simple: INT32[16] twice -> their sum and difference, as Triton's client examples expect it."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from onnx_writer import graph, node, save, value  # noqa: E402

row = ["batch", 16]
save(f"{here}/1/model.onnx", graph(
    "simple",
    [node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]), node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"])],
    inputs=[value("INPUT0", "INT32", row), value("INPUT1", "INT32", row)],
    outputs=[value("OUTPUT0", "INT32", row), value("OUTPUT1", "INT32", row)]))
