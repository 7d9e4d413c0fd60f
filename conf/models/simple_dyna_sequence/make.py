#!/usr/bin/python3
"""simple_dyna_sequence: as simple_sequence; the last one of a sequence plus the sequence's id."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from onnx_writer import graph, node, save, value  # noqa: E402

row = ["batch", 1]
save(f"{here}/1/model.onnx", graph(
    "simple_dyna_sequence",
    [node("Mul", ["START", "READY"], ["first"]),
     node("Add", ["INPUT", "first"], ["sum"]),
     node("Cast", ["CORRID"], ["id"], to=6),
     node("Mul", ["id", "END"], ["last"]),
     node("Add", ["sum", "last"], ["OUTPUT"])],
    inputs=[*(value(name, "INT32", row) for name in ("INPUT", "START", "END", "READY")), value("CORRID", "UINT64", row)],
    outputs=[value("OUTPUT", "INT32", row)]))
