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
import unigram_tokenizer  # noqa: E402


# name: family, how states are pooled, what config.json says beside the usual, what the names of weights begin with
CASES = {
    "mean": ("bert", "mean", {}, ""),
    "cls": ("bert", "cls", {}, ""),
    "nomic": ("nomic_bert", "mean", {}, ""),
    "modern": ("modernbert", "cls", {}, ""),
    "roberta": ("roberta", "cls", {}, ""),
    "rank": ("roberta", "rank", {"architectures": ["XLMRobertaForSequenceClassification"], "id2label": {"0": "LABEL_0"}}, "roberta."),
    "modern_rank": ("modernbert", "rank", {"architectures": ["ModernBertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}, "model."),
}


def write(folder, family, pooling, more, outer):
    said = {**random_encoder.configuration(family), **more}
    random_encoder.write(folder, said, pooling if pooling != "rank" else "mean", names=lambda name: outer + name)
    weights = {name: w.numpy() for name, w in safetensors.load(os.path.join(folder, "model.safetensors")).items()}
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + [f"w{i}" for i in range(said["vocab_size"] - 4)]
    fields = gguf_bert.fields_of(said, words, pooling=pooling)
    fields["tokenizer.ggml.padding_token_id"] = said["pad_token_id"]
    if family == "roberta":
        tokenizer = unigram_tokenizer.made(said["vocab_size"])
        random_encoder.save_json(tokenizer, folder, "tokenizer.json")
        fields = gguf_bert.unigram_fields(tokenizer, said, pooling)
    for name, kind in (("model", "F32"), ("coded", "Q8_0")):
        gguf.write(os.path.join(folder, name + ".gguf"), fields, gguf_bert.tensors_of(said, weights, lambda _, kind=kind: kind))


def main():
    torch.set_num_threads(1)
    for name, case in CASES.items():
        write(os.path.join(sys.argv[1], name), *case)


if __name__ == "__main__":
    main()
