#!/usr/bin/python3
"""simple_string: BYTES[16] twice, each a decimal integer -> their sum and difference as decimal text."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from onnx_writer import DTYPES, graph, node, save, value  # noqa: E402

row = ["batch", 16]
text, whole = DTYPES["BYTES"], DTYPES["INT32"]
save(f"{here}/1/model.onnx", graph(
    "simple_string",
    [node("Cast", ["INPUT0"], ["a"], to=whole), node("Cast", ["INPUT1"], ["b"], to=whole),
     node("Add", ["a", "b"], ["sum"]), node("Sub", ["a", "b"], ["difference"]),
     node("Cast", ["sum"], ["OUTPUT0"], to=text), node("Cast", ["difference"], ["OUTPUT1"], to=text)],
    inputs=[value("INPUT0", "BYTES", row), value("INPUT1", "BYTES", row)],
    outputs=[value("OUTPUT0", "BYTES", row), value("OUTPUT1", "BYTES", row)]))
