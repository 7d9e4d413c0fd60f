#!/usr/bin/python3
"""Writes random encoders as GGUF files, beside the Hugging Face folder of the same numbers: gguf_encoder_models.py OUT."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "reference"))
import torch  # noqa: E402

import gguf  # noqa: E402
import gguf_bert  # noqa: E402
import random_encoder  # noqa: E402
import safetensors  # noqa: E402


def write(folder, pooling):
    said = random_encoder.configuration("bert")
    random_encoder.write(folder, said, pooling)
    weights = {name: w.numpy() for name, w in safetensors.load(os.path.join(folder, "model.safetensors")).items()}
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + [f"w{i}" for i in range(said["vocab_size"] - 4)]
    fields = gguf_bert.fields_of(said, words, pooling=pooling)
    for name, kind in (("model", "F32"), ("coded", "Q8_0")):
        gguf.write(os.path.join(folder, name + ".gguf"), fields, gguf_bert.tensors_of(weights, lambda _, kind=kind: kind))


def main():
    torch.set_num_threads(1)
    for pooling in ("mean", "cls"):
        write(os.path.join(sys.argv[1], pooling), pooling)


if __name__ == "__main__":
    main()
