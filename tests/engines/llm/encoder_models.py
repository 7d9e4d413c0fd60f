#!/usr/bin/python3
"""Writes the random encoders that encoder_test.cc compares, one folder each: encoder_models.py OUT."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "reference"))
import torch  # noqa: E402

import random_encoder  # noqa: E402


def old_names(name):
    """As the oldest files have them."""
    return "bert." + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def bare(name):
    return name[len("model."):] if name.startswith("model.") else name


def labels(*names):
    return {"id2label": {str(i): name for i, name in enumerate(names)}}


DISTIL = {"names": random_encoder.distil_name, "fields": random_encoder.distil_fields}
# name: family, dtype, what config.json says beside the usual, what write() is told
CASES = {
    "bert": ("bert", "float32", {}, {}),
    "odd": ("bert", "float16", {"hidden_size": 60, "num_attention_heads": 5, "intermediate_size": 100, "hidden_act": "gelu_new",
                                "architectures": ["BertForMaskedLM"]}, {"pooling": "cls", "normalize": False, "names": old_names}),
    "roberta": ("roberta", "float32", {}, {"pooling": "cls"}),
    "bert_bf16": ("bert", "bfloat16", {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 256}, {}),
    "both": ("llama", "float32", {"architectures": ["LlamaModel"], "use_bidirectional_attention": True}, {"names": bare, "steps": False, "normalize": False}),
    "causal": ("qwen3", "float32", {"tie_word_embeddings": True}, {"pooling": "last"}),
    "both_bf16": ("llama", "bfloat16", {"use_bidirectional_attention": True, "hidden_size": 128, "num_key_value_heads": 4}, {}),
    "nomic": ("nomic_bert", "float32", {}, {}),
    "nomic_bf16": ("nomic_bert", "bfloat16", {"n_embd": 128, "n_head": 2, "n_inner": 256}, {}),
    "modern": ("modernbert", "float32", {}, {"pooling": "cls", "names": lambda name: "model." + name}),
    "modern_odd": ("modernbert", "float32", {"hidden_size": 60, "num_attention_heads": 3, "intermediate_size": 100, "local_attention": 11,
                                             "global_attn_every_n_layers": 2}, {}),
    "modern_bf16": ("modernbert", "bfloat16", {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 256}, {}),
    "modern_rank": ("modernbert", "float32", {"architectures": ["ModernBertForSequenceClassification"], "classifier_pooling": "mean",
                                              **labels("LABEL_0")}, {"names": lambda name: "model." + name}),
    "distil": ("distilbert", "float32", {}, DISTIL),
    "rerank": ("bert", "float32", {"architectures": ["BertForSequenceClassification"], **labels("LABEL_0")}, {"names": lambda name: "bert." + name}),
    "raw": ("bert", "float32", {"architectures": ["BertForSequenceClassification"], **labels("LABEL_0"),
                                "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, {"names": lambda name: "bert." + name}),
    "classes": ("roberta", "float32", {"architectures": ["XLMRobertaForSequenceClassification"], **labels("bad", "so-so", "good")},
                {"names": lambda name: "roberta." + name}),
    "moods": ("distilbert", "float32", {"architectures": ["DistilBertForSequenceClassification"], "problem_type": "multi_label_classification",
                                        **labels("glad", "sad", "mad", "calm")}, DISTIL),
    "judge": ("qwen3", "float32", {"architectures": ["Qwen3ForSequenceClassification"], "tie_word_embeddings": True, **labels("no", "yes")}, {}),
    "rerank_bf16": ("bert", "bfloat16", {"architectures": ["BertForSequenceClassification"], "hidden_size": 128, "num_attention_heads": 2,
                                         "intermediate_size": 256, **labels("LABEL_0")}, {}),
}


def main():
    torch.set_num_threads(1)
    for name, (family, dtype, more, told) in CASES.items():
        said = random_encoder.configuration(family, dtype)
        said.update(more)
        random_encoder.write(os.path.join(sys.argv[1], name), said, **told)


if __name__ == "__main__":
    main()
