#!/usr/bin/python3
"""simple_identity: BYTES[16] -> the same."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from onnx_writer import graph, node, save, value  # noqa: E402

row = ["batch", 16]
save(f"{here}/1/model.onnx", graph(
    "simple_identity", [node("Identity", ["INPUT0"], ["OUTPUT0"])],
    inputs=[value("INPUT0", "BYTES", row)], outputs=[value("OUTPUT0", "BYTES", row)]))
