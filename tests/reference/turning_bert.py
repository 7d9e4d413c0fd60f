"""Encoders whose heads turn by positions, written from the papers in plain torch; beside bert.py.

    nomic-bert  Z. Nussbaum et al.: arXiv 2402.01613. BERT with rotary positions and SwiGLU; biases in norms alone
    ModernBERT  B. Warner et al.: arXiv 2412.13663. Norms before each part, GeGLU; every so-many-th layer sees all, the
                others positions nearby, and turn by another base
    rotary      J. Su et al.: RoFormer, arXiv 2104.09864, the halves of a head against each other

Parameters have the names of the published weights.
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


def turned(x, base):
    """[batch, heads, count, size]."""
    count, size = x.shape[-2:]
    angles = torch.arange(count)[:, None] * base ** (-torch.arange(0, size, 2) / size)[None, :]
    a, b = x[..., :size // 2], x[..., size // 2:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def attend(qkv, heads, mask, base, reach=None):
    """`qkv`: [batch, count, 3 * hidden]. A position sees those at most `reach` away."""
    batch, count, wide = qkv.shape
    size = wide // 3 // heads
    q, k, v = (part.view(batch, count, heads, size).transpose(1, 2) for part in qkv.chunk(3, -1))
    scores = turned(q, base) @ turned(k, base).transpose(-1, -2) / math.sqrt(size)
    unseen = mask[:, None, None, :] == 0
    if reach is not None:
        places = torch.arange(count)
        unseen = unseen | ((places[:, None] - places[None, :]).abs() > reach)
    seen = F.softmax(scores.masked_fill(unseen, -1e30), dim=-1) @ v
    return seen.transpose(1, 2).reshape(batch, count, wide // 3)


class Nomic(nn.Module):
    prefixes = ("embeddings", "emb_ln", "encoder")

    def __init__(self, said):
        super().__init__()
        self.said = said
        hidden, wide, eps = said["n_embd"], said["n_inner"], said["layer_norm_epsilon"]
        self.embeddings = nn.Module()
        self.embeddings.word_embeddings = nn.Embedding(said["vocab_size"], hidden)
        if said["type_vocab_size"]:
            self.embeddings.token_type_embeddings = nn.Embedding(said["type_vocab_size"], hidden)
        self.emb_ln = nn.LayerNorm(hidden, eps=eps)
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList()
        for _ in range(said["n_layer"]):
            layer = nn.Module()
            layer.attn = nn.Module()
            layer.attn.Wqkv = nn.Linear(hidden, 3 * hidden, bias=False)
            layer.attn.out_proj = nn.Linear(hidden, hidden, bias=False)
            layer.mlp = nn.Module()
            layer.mlp.fc11 = nn.Linear(hidden, wide, bias=False)
            layer.mlp.fc12 = nn.Linear(hidden, wide, bias=False)
            layer.mlp.fc2 = nn.Linear(wide, hidden, bias=False)
            layer.norm1, layer.norm2 = nn.LayerNorm(hidden, eps=eps), nn.LayerNorm(hidden, eps=eps)
            self.encoder.layers.append(layer)

    def forward(self, ids, mask, types):
        x = self.embeddings.word_embeddings(ids)
        if self.said["type_vocab_size"]:
            x = x + self.embeddings.token_type_embeddings(types)
        x = self.emb_ln(x)
        for layer in self.encoder.layers:
            seen = attend(layer.attn.Wqkv(x), self.said["n_head"], mask, self.said["rotary_emb_base"])
            x = layer.norm1(x + layer.attn.out_proj(seen))
            x = layer.norm2(x + layer.mlp.fc2(layer.mlp.fc11(x) * F.silu(layer.mlp.fc12(x))))
        return x


class Norm(nn.Module):
    """A layer norm without a bias."""

    def __init__(self, hidden, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight, eps=self.eps)


class Modern(nn.Module):
    prefixes = ("embeddings", "layers", "final_norm")

    def __init__(self, said):
        super().__init__()
        self.said = said
        hidden, wide, eps = said["hidden_size"], said["intermediate_size"], said["norm_eps"]

        def norm():
            return Norm(hidden, eps)

        self.embeddings = nn.Module()
        self.embeddings.tok_embeddings = nn.Embedding(said["vocab_size"], hidden)
        self.embeddings.norm = norm()
        self.layers = nn.ModuleList()
        for i in range(said["num_hidden_layers"]):
            layer = nn.Module()
            if i > 0:
                layer.attn_norm = norm()
            layer.attn = nn.Module()
            layer.attn.Wqkv = nn.Linear(hidden, 3 * hidden, bias=False)
            layer.attn.Wo = nn.Linear(hidden, hidden, bias=False)
            layer.mlp_norm = norm()
            layer.mlp = nn.Module()
            layer.mlp.Wi = nn.Linear(hidden, 2 * wide, bias=False)
            layer.mlp.Wo = nn.Linear(wide, hidden, bias=False)
            self.layers.append(layer)
        self.final_norm = norm()

    def forward(self, ids, mask, types):
        said = self.said
        x = self.embeddings.norm(self.embeddings.tok_embeddings(ids))
        for i, layer in enumerate(self.layers):
            whole = i % said["global_attn_every_n_layers"] == 0
            base, reach = (said["global_rope_theta"], None) if whole else (said["local_rope_theta"], said["local_attention"] // 2)
            read = layer.attn_norm(x) if i > 0 else x
            x = x + layer.attn.Wo(attend(layer.attn.Wqkv(read), said["num_attention_heads"], mask, base, reach))
            gate, up = layer.mlp.Wi(layer.mlp_norm(x)).chunk(2, -1)
            x = x + layer.mlp.Wo(F.gelu(gate) * up)
        return self.final_norm(x)


FAMILIES = {"NomicBert": Nomic, "ModernBert": Modern}


def family_of(said):
    return FAMILIES.get(said["architectures"][0].split("Model")[0].split("For")[0])


def load(folder):
    """The model of a Hugging Face folder. Every weight but a head's must be used."""
    with open(os.path.join(folder, "config.json")) as f:
        said = json.load(f)
    model = family_of(said)(said)
    weights = {name.removeprefix("model."): tensor.float() for name, tensor in safetensors.load_folder(folder).items()}
    model.load_state_dict({name: w for name, w in weights.items() if name.split(".")[0] in model.prefixes})
    return model.eval()
