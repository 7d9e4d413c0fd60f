#!/usr/bin/python3
"""simple_sequence: each INT32 of a sequence comes back, the first one plus 1, as Triton's client examples expect it."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from onnx_writer import graph, node, save, value  # noqa: E402

row = ["batch", 1]
save(f"{here}/1/model.onnx", graph(
    "simple_sequence",
    [node("Mul", ["START", "READY"], ["first"]), node("Add", ["INPUT", "first"], ["OUTPUT"])],
    inputs=[value(name, "INT32", row) for name in ("INPUT", "START", "READY")],
    outputs=[value("OUTPUT", "INT32", row)]))
