#!/usr/bin/python3
"""Trains the digits classifier and writes 1/model.onnx and heldout.json. Needs numpy alone; takes a minute or two.

The data are the 1797 handwritten digits (8x8 pixels, 0..16) that scikit-learn ships. With scikit-learn installed they
are found; without, take the file out of Debian's package:

    apt-get download python3-sklearn && dpkg-deb -x python3-sklearn_*.deb sklearn
    ./train.py --data sklearn/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz

The network is 64 -> 640 -> 640 -> 10 with ReLUs and a softmax; pixels are scaled inside the model, so that clients send
them as they are. A fifth of the rows, drawn with a fixed seed, is never trained on; the accuracy printed is of those.
"""
import argparse
import gzip
import json
import os
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from onnx_writer import graph, node, save, tensor, value  # noqa: E402

WIDTHS = [64, 640, 640, 10]


def read(path):
    if path is None:
        try:
            import sklearn.datasets
        except ImportError:
            sys.exit("scikit-learn is not installed: give its data file with --data digits.csv.gz (see --help)")
        path = os.path.join(os.path.dirname(sklearn.datasets.__file__), "data", "digits.csv.gz")
    with gzip.open(path, "rt") as f:
        rows = np.loadtxt(f, delimiter=",")
    return rows[:, :64].astype(np.float32), rows[:, 64].astype(np.int64)


def shifted(images, random):
    """Each image moved by up to one pixel in both directions: the same digit, another picture."""
    padded = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    out = np.empty((len(images), 8, 8), np.float32)
    moves = random.integers(0, 3, (len(images), 2))
    for dy in range(3):
        for dx in range(3):
            rows = (moves[:, 0] == dy) & (moves[:, 1] == dx)
            out[rows] = padded[rows, dy:dy + 8, dx:dx + 8]
    return out.reshape(-1, 64)


def forward(layers, x):
    """Activations after each layer; the last are logits."""
    out = [x]
    for i, (w, b) in enumerate(layers):
        x = x @ w + b
        if i + 1 < len(layers):
            x = np.maximum(x, 0)
        out.append(x)
    return out


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def gradients(layers, x, labels):
    outs = forward(layers, x)
    delta = softmax(outs[-1])
    delta[np.arange(len(labels)), labels] -= 1
    delta /= len(labels)
    grads = []
    for i in range(len(layers) - 1, -1, -1):
        grads.append((outs[i].T @ delta, delta.sum(axis=0)))
        if i:
            delta = (delta @ layers[i][0].T) * (outs[i] > 0)
    return grads[::-1]


def train(images, labels, random, epochs):
    layers = [[(random.standard_normal((n, m)) * np.sqrt(2 / n)).astype(np.float32), np.zeros(m, np.float32)]
              for n, m in zip(WIDTHS, WIDTHS[1:])]
    moments = [[np.zeros_like(p) for p in layer for _ in range(2)] for layer in layers]
    step = 0
    for epoch in range(epochs):
        rate = 1e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        order = random.permutation(len(images))
        for rows in np.array_split(order, len(order) // 64):
            step += 1
            for layer, moment, grad in zip(layers, moments,
                                           gradients(layers, shifted(images[rows], random) / 16, labels[rows])):
                for k, g in enumerate(grad):  # Adam
                    m, v = moment[2 * k], moment[2 * k + 1]
                    m += 0.1 * (g - m)
                    v += 0.001 * (g * g - v)
                    layer[k] -= (rate * (m / (1 - 0.9 ** step))
                                 / (np.sqrt(v / (1 - 0.999 ** step)) + 1e-8)).astype(np.float32)
    return layers


def write_model(path, layers):
    nodes = [node("Mul", ["image", "scale"], ["x0"])]
    initializers = [tensor("scale", np.array(1 / 16, np.float32))]
    for i, (w, b) in enumerate(layers):
        last = i + 1 == len(layers)
        initializers += [tensor(f"w{i}", w), tensor(f"b{i}", b)]
        nodes.append(node("Gemm", [f"x{i}", f"w{i}", f"b{i}"], ["logits" if last else f"y{i}"]))
        nodes.append(node("Softmax", ["logits"], ["probabilities"], axis=1) if last
                     else node("Relu", [f"y{i}"], [f"x{i + 1}"]))
    return save(path, graph("digits", nodes, [value("image", "FP32", ["batch", 64])],
                            [value("probabilities", "FP32", ["batch", 10])], initializers))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="digits.csv.gz of scikit-learn")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    images, labels = read(args.data)
    random = np.random.default_rng(args.seed)
    order = random.permutation(len(images))
    held, kept = order[:len(order) // 5], order[len(order) // 5:]
    layers = train(images[kept], labels[kept], random, args.epochs)

    guesses = forward(layers, images[held] / 16)[-1].argmax(axis=1)
    accuracy = (guesses == labels[held]).mean()
    size = write_model(os.path.join(here, "1", "model.onnx"), layers)
    with open(os.path.join(here, "heldout.json"), "w") as f:
        rows = ",\n".join(json.dumps([int(p) for p in images[i]], separators=(",", ":")) for i in held)
        f.write('{"labels":%s,\n"images":[\n%s\n]}\n' % (json.dumps([int(n) for n in labels[held]]), rows))
    print(f"trained on {len(kept)} digits, {accuracy:.2%} right of {len(held)} held out; model of {size} bytes")
    return 0 if accuracy >= 0.97 else 1


if __name__ == "__main__":
    sys.exit(main())
