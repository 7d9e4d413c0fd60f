#!/usr/bin/python3
"""simple_string_dyna_sequence: the sum of a sequence so far, which the server keeps; at its end plus its id, a string."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from onnx_writer import graph, node, save, value  # noqa: E402

row = ["batch", 1]
save(f"{here}/1/model.onnx", graph(
    "simple_string_dyna_sequence",
    [node("Add", ["INPUT", "SUM_BEFORE"], ["SUM"]),
     node("Cast", ["CORRID"], ["id"], to=6),
     node("Mul", ["id", "END"], ["last"]),
     node("Add", ["SUM", "last"], ["OUTPUT"])],
    inputs=[*(value(name, "INT32", row) for name in ("INPUT", "SUM_BEFORE", "END")), value("CORRID", "BYTES", row)],
    outputs=[value("OUTPUT", "INT32", row), value("SUM", "INT32", row)]))
