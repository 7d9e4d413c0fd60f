"""Encoders of BERT's family, written from the papers in plain torch: what the encoder path is compared with.

    BERT        J. Devlin et al.: arXiv 1810.04805. Positions are learned; norms stand behind the sums (post-norm)
    RoBERTa     Y. Liu et al.: arXiv 1907.11692. Positions count tokens, from behind the pad id
    GELU        D. Hendrycks, K. Gimpel: arXiv 1606.08415, exact and with the hyperbolic tangent
    DistilBERT  V. Sanh et al.: arXiv 1910.01108: BERT without token types
    pooling     N. Reimers, I. Gurevych: Sentence-BERT, arXiv 1908.10084: mean of the tokens' states, the first, the last

    model = load(folder)
    states = model(ids, mask, types)                   # [batch, count, hidden]
    vectors = pool(states, mask, "mean", normalize=True)
    logits, scores = classify(said, weights, states, mask)   # of the head of a sequence classifier
"""
import json
import math
import os

import torch
from torch import nn
from torch.nn import functional as F

try:
    from . import safetensors
except ImportError:  # run with this folder on the path
    import safetensors

OUTER = {"Bert": "bert.", "Roberta": "roberta.", "XLMRoberta": "roberta.", "DistilBert": "distilbert."}


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


class Bert(nn.Module):
    """Parameters have the names of the published weights."""

    def __init__(self, said):
        super().__init__()
        self.said = said
        self.family = said["architectures"][0].split("Model")[0].split("For")[0]
        hidden, wide, eps = said["hidden_size"], said["intermediate_size"], said["layer_norm_eps"]
        self.curve = gelu if said["hidden_act"] == "gelu" else gelu_tanh
        self.embeddings = nn.Module()
        self.embeddings.word_embeddings = nn.Embedding(said["vocab_size"], hidden)
        self.embeddings.position_embeddings = nn.Embedding(said["max_position_embeddings"], hidden)
        if said["type_vocab_size"]:
            self.embeddings.token_type_embeddings = nn.Embedding(said["type_vocab_size"], hidden)
        self.embeddings.LayerNorm = nn.LayerNorm(hidden, eps=eps)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList()
        for _ in range(said["num_hidden_layers"]):
            layer = nn.Module()
            layer.attention = nn.Module()
            layer.attention.self = nn.Module()
            for name in ("query", "key", "value"):
                setattr(layer.attention.self, name, nn.Linear(hidden, hidden))
            layer.attention.output = nn.Module()
            layer.attention.output.dense = nn.Linear(hidden, hidden)
            layer.attention.output.LayerNorm = nn.LayerNorm(hidden, eps=eps)
            layer.intermediate = nn.Module()
            layer.intermediate.dense = nn.Linear(hidden, wide)
            layer.output = nn.Module()
            layer.output.dense = nn.Linear(wide, hidden)
            layer.output.LayerNorm = nn.LayerNorm(hidden, eps=eps)
            self.encoder.layer.append(layer)

    def positions(self, mask):
        count = mask.shape[1]
        if self.family in ("Bert", "DistilBert"):
            return torch.arange(count).expand(mask.shape)
        pad = self.said["pad_token_id"]
        return torch.cumsum(mask, dim=1) * mask + pad

    def attend(self, layer, x, mask):
        batch, count, hidden = x.shape
        heads = self.said["num_attention_heads"]

        def split(part):
            return part(x).view(batch, count, heads, hidden // heads).transpose(1, 2)

        own = layer.attention.self
        q, k, v = split(own.query), split(own.key), split(own.value)
        scores = q @ k.transpose(-1, -2) / math.sqrt(hidden // heads)
        scores = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        seen = F.softmax(scores, dim=-1) @ v
        return layer.attention.output.dense(seen.transpose(1, 2).reshape(batch, count, hidden))

    def forward(self, ids, mask=None, types=None):
        mask = torch.ones_like(ids) if mask is None else mask
        types = torch.zeros_like(ids) if types is None else types
        e = self.embeddings
        x = e.word_embeddings(ids) + e.position_embeddings(self.positions(mask))
        if self.said["type_vocab_size"]:
            x = x + e.token_type_embeddings(types)
        x = e.LayerNorm(x)
        for layer in self.encoder.layer:
            x = layer.attention.output.LayerNorm(x + self.attend(layer, x, mask))
            inner = self.curve(layer.intermediate.dense(x))
            x = layer.output.LayerNorm(x + layer.output.dense(inner))
        return x


def pool(states, mask, how, normalize):
    """One vector per row: the mean, first ("cls") or last of the states whose mask is 1."""
    rows = []
    for state, seen in zip(states, mask):
        kept = state[seen != 0]
        rows.append({"mean": kept.mean(0), "cls": kept[0], "last": kept[-1]}[how])
    vectors = torch.stack(rows)
    return vectors / vectors.norm(dim=1, keepdim=True) if normalize else vectors


# The head of a sequence classifier: which matrices, which curve between them; the first token's state, else the last's.
HEADS = {"Bert": ("bert.pooler.dense", torch.tanh, "classifier"), "Roberta": ("classifier.dense", torch.tanh, "classifier.out_proj"),
         "XLMRoberta": ("classifier.dense", torch.tanh, "classifier.out_proj"), "DistilBert": ("pre_classifier", torch.relu, "classifier"),
         "ModernBert": ("head.dense", gelu, "classifier")}


def head_of(said):
    return HEADS.get(said["architectures"][0].split("For")[0], (None, None, "score"))


def random_head(said, made):
    """Weights of a head by name: of as many labels as id2label has."""
    hidden, (dense, _, out) = said["hidden_size"], head_of(said)
    weights = {out + ".weight": torch.randn(len(said["id2label"]), hidden, generator=made) * 1.5 * hidden ** -0.5}
    if dense == "head.dense":  # ModernBERT's has a norm, and no bias
        weights["head.norm.weight"] = 1 + 0.2 * torch.randn(hidden, generator=made)
    if dense:
        weights[dense + ".weight"] = torch.randn(hidden, hidden, generator=made) * 1.5 * hidden ** -0.5
        if dense != "head.dense":
            weights[dense + ".bias"] = 0.2 * torch.randn(hidden, generator=made)
        weights[out + ".bias"] = 0.2 * torch.randn(len(said["id2label"]), generator=made)
    return weights


def classify(said, weights, states, mask):
    """[rows, labels] twice: the logits, and what vLLM makes scores of."""
    dense, curve, out = head_of(said)
    x = pool(states, mask, said.get("classifier_pooling", "cls") if dense else "last", normalize=False)
    if dense:
        x = curve(F.linear(x, weights[dense + ".weight"], weights.get(dense + ".bias")))
    if "head.norm.weight" in weights:
        x = F.layer_norm(x, x.shape[-1:], weights["head.norm.weight"], eps=said["norm_eps"])
    logits = F.linear(x, weights[out + ".weight"], weights.get(out + ".bias"))
    if said.get("problem_type") == "regression" or said.get("sbert_ce_default_activation_function", "").endswith("Identity"):
        return logits, logits.clone()
    if logits.shape[1] == 1 or said.get("problem_type") == "multi_label_classification":
        return logits, torch.sigmoid(logits)
    return logits, F.softmax(logits, dim=1)


def load(folder, dtype=torch.float32):
    """The model of a Hugging Face folder. Every weight but the pooler's and a head's must be used."""
    with open(os.path.join(folder, "config.json")) as f:
        model = Bert(json.load(f))
    outer = OUTER[model.family]
    weights = {}
    for name, tensor in safetensors.load_folder(folder).items():
        name = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        name = name[len(outer):] if name.startswith(outer) else name
        if name.split(".")[0] in ("embeddings", "encoder"):
            weights[name] = tensor.to(dtype)
    model.load_state_dict(weights)
    return model.to(dtype).eval()
