"""Decoder-only transformers, written from the papers in plain torch: what the token engine is compared with.

Covers what config.json of Llama, Mistral, Qwen2 and Qwen3 says, of their mixtures of experts (Mixtral, Qwen2-MoE,
Qwen3-MoE), and a small vision encoder whose features take the place of the embeddings at image positions. Nothing here is fast, nothing is cached: every call computes every position.

    RMSNorm     B. Zhang, R. Sennrich: Root Mean Square Layer Normalization, arXiv 1910.07467
    RoPE        J. Su et al.: RoFormer, arXiv 2104.09864. Pairs are (i, i + d/2), as the published weights have them
    linear      S. Chen et al.: Extending Context Window by Positional Interpolation, arXiv 2306.15595
    yarn        B. Peng et al.: YaRN, arXiv 2309.00071
    llama3      The Llama 3 Herd of Models, arXiv 2407.21783, with the bands of the published config.json files
    SwiGLU      N. Shazeer: GLU Variants Improve Transformer, arXiv 2002.05202
    GQA         J. Ainslie et al.: arXiv 2305.13245
    sliding     A. Jiang et al.: Mistral 7B, arXiv 2310.06825: a position sees itself and the window - 1 before it
    q/k norm    Qwen3 Technical Report, arXiv 2505.09388: RMSNorm of each head of q and k, before RoPE
    experts     A. Jiang et al.: Mixtral of Experts, arXiv 2401.04088; with one that sees all: Qwen2 Technical Report,
                arXiv 2407.10671
    ViT         A. Dosovitskiy et al.: An Image is Worth 16x16 Words, arXiv 2010.11929

    model = load("conf/models/chat/1")
    logits = model(torch.tensor([[1, 2, 3]]))          # [1, 3, vocabulary]
    logits, states = model(ids, states=True)           # states[L] = residual stream after decoder layer L
    logits = model(ids, pixels=pixels)                 # pixels [images, 3, S, S] from preprocess.pixels
"""
import json
import math
import os
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

try:
    from . import safetensors
except ImportError:  # run with this folder on the path
    import safetensors

FAMILIES = {"LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral",
            "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3", "MixtralForCausalLM": "mixtral",
            "Qwen2MoeForCausalLM": "qwen2_moe", "Qwen3MoeForCausalLM": "qwen3_moe"}


class Config:
    """What config.json says, with the defaults of its family filled in."""

    def __init__(self, said):
        names = said.get("architectures") or []
        self.family = FAMILIES[names[0]] if names else said["model_type"]
        self.vocabulary = said["vocab_size"]
        self.hidden = said["hidden_size"]
        self.layers = said["num_hidden_layers"]
        self.heads = said["num_attention_heads"]
        self.kv_heads = said.get("num_key_value_heads") or self.heads
        self.head_dim = said.get("head_dim") or self.hidden // self.heads
        self.intermediate = said["intermediate_size"]
        self.epsilon = said.get("rms_norm_eps", 1e-6)
        self.tied = said.get("tie_word_embeddings", False)
        self.max_positions = said.get("max_position_embeddings", 2048)
        # Newer files put all of RoPE into rope_parameters.
        rope = said.get("rope_parameters") or {}
        self.theta = said.get("rope_theta") or rope.get("rope_theta") or 10000.0
        self.scaling = said.get("rope_scaling") or (rope if rope.get("rope_type", "default") != "default" else None)
        qwen2 = self.family in ("qwen2", "qwen2_moe")
        self.qkv_bias = said.get("qkv_bias", True) if qwen2 else said.get("attention_bias", False)
        self.o_bias = not qwen2 and said.get("attention_bias", False)
        self.mlp_bias = said.get("mlp_bias", False)
        self.qk_norm = self.family in ("qwen3", "qwen3_moe")
        self._experts(said)
        self.windows = self._windows(said)
        self.vision = said.get("vision_config")
        self.image_token = said.get("image_token_id")

    def _experts(self, said):
        """How many experts a layer has, none where it is no mixture; their width and how many see a position."""
        self.experts = [0] * self.layers
        if self.family == "mixtral":
            self.experts = [said["num_local_experts"]] * self.layers
            self.expert_width, self.shared_width, self.normalised = self.intermediate, 0, True
        elif self.family in ("qwen2_moe", "qwen3_moe"):
            step, plain = said.get("decoder_sparse_step", 1), said.get("mlp_only_layers") or []
            self.experts = [said["num_experts"] if (i + 1) % step == 0 and i not in plain else 0 for i in range(self.layers)]
            self.expert_width, self.normalised = said["moe_intermediate_size"], said.get("norm_topk_prob", False)
            self.shared_width = said["shared_expert_intermediate_size"] if self.family == "qwen2_moe" else 0
        self.experts_used = said.get("num_experts_per_tok", 0)

    def _windows(self, said):
        """The sliding window of each layer; None where a position sees all before it."""
        window = said.get("sliding_window")
        if self.family == "mistral":
            return [window] * self.layers
        if self.family.startswith("qwen") and said.get("use_sliding_window", False):
            first = said.get("max_window_layers", 0)
            return [window if i >= first else None for i in range(self.layers)]
        return [None] * self.layers


def yarn_frequencies(config, plain, scaling):
    """Between interpolated and plain by how often a pair turns within the length that was trained."""
    dim, factor = config.head_dim, scaling["factor"]
    trained = scaling.get("original_max_position_embeddings") or config.max_positions

    def pair_that_turns(times):
        return dim * math.log(trained / (times * 2 * math.pi)) / (2 * math.log(config.theta))

    low = pair_that_turns(scaling.get("beta_fast") or 32)
    high = pair_that_turns(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    return plain / factor * ramp + plain * (1 - ramp)


def yarn_attention_factor(scaling):
    if scaling.get("attention_factor") is not None:
        return scaling["attention_factor"]

    def scale(weight):
        return 0.1 * weight * math.log(scaling["factor"]) + 1 if scaling["factor"] > 1 else 1.0

    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return scale(scaling["mscale"]) / scale(scaling["mscale_all_dim"])
    return scale(1)


def llama3_frequencies(plain, scaling):
    """Short waves as they are, long ones slowed by the factor, a smooth passage between."""
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * plain / (2 * math.pi)
    smooth = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - smooth) * plain / factor + smooth * plain


def rope_frequencies(config):
    """Angle per position of each pair, and what cosine and sine are multiplied with."""
    plain = config.theta ** (-torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim)
    scaling = config.scaling or {}
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind == "default":
        return plain, 1.0
    if kind == "linear":
        return plain / scaling["factor"], 1.0
    if kind == "llama3":
        return llama3_frequencies(plain, scaling), 1.0
    if kind == "yarn":
        return yarn_frequencies(config, plain, scaling), yarn_attention_factor(scaling)
    raise ValueError(f"rope scaling {kind!r} is not known")


def rotate(x, cosine, sine):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1)


class RMSNorm(nn.Module):
    def __init__(self, size, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        c, self.config = config, config
        self.q_proj = nn.Linear(c.hidden, c.heads * c.head_dim, bias=c.qkv_bias)
        self.k_proj = nn.Linear(c.hidden, c.kv_heads * c.head_dim, bias=c.qkv_bias)
        self.v_proj = nn.Linear(c.hidden, c.kv_heads * c.head_dim, bias=c.qkv_bias)
        self.o_proj = nn.Linear(c.heads * c.head_dim, c.hidden, bias=c.o_bias)
        if c.qk_norm:
            self.q_norm = RMSNorm(c.head_dim, c.epsilon)
            self.k_norm = RMSNorm(c.head_dim, c.epsilon)

    def split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, self.config.head_dim).transpose(1, 2)

    def forward(self, x, cosine, sine, mask):
        c = self.config
        q = self.split(self.q_proj(x), c.heads)
        k = self.split(self.k_proj(x), c.kv_heads)
        v = self.split(self.v_proj(x), c.kv_heads)
        if c.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        # Query head h reads key/value head h / (heads / kv_heads).
        k = k.repeat_interleave(c.heads // c.kv_heads, dim=1)
        v = v.repeat_interleave(c.heads // c.kv_heads, dim=1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(c.head_dim) + mask
        seen = F.softmax(scores.float(), dim=-1).to(v.dtype) @ v
        return self.o_proj(seen.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class MLP(nn.Module):
    def __init__(self, c, width, names=("gate_proj", "up_proj", "down_proj")):
        super().__init__()
        self.names = names
        for name, (inputs, outputs) in zip(names, ((c.hidden, width), (c.hidden, width), (width, c.hidden))):
            self.add_module(name, nn.Linear(inputs, outputs, bias=c.mlp_bias))

    def forward(self, x):
        gate, up, down = (getattr(self, name) for name in self.names)
        return down(F.silu(gate(x)) * up(x))


class Mixture(nn.Module):
    """Every expert answers every position here; the shares of those that a position does not go to are 0."""

    def __init__(self, c, count):
        super().__init__()
        names = ("w1", "w3", "w2") if c.family == "mixtral" else ("gate_proj", "up_proj", "down_proj")
        self.used, self.normalised = c.experts_used, c.normalised
        self.gate = nn.Linear(c.hidden, count, bias=False)
        self.experts = nn.ModuleList(MLP(c, c.expert_width, names) for _ in range(count))
        if c.shared_width:
            self.shared_expert = MLP(c, c.shared_width)
            self.shared_expert_gate = nn.Linear(c.hidden, 1, bias=False)

    def shares(self, x):
        all_of = F.softmax(self.gate(x).float(), dim=-1)
        best, at = all_of.topk(self.used, dim=-1)
        kept = torch.zeros_like(all_of).scatter(-1, at, best)
        return kept / kept.sum(-1, keepdim=True) if self.normalised else kept

    def forward(self, x):
        shares = self.shares(x).to(x.dtype)
        out = sum(shares[..., e:e + 1] * expert(x) for e, expert in enumerate(self.experts))
        if hasattr(self, "shared_expert"):
            out = out + torch.sigmoid(self.shared_expert_gate(x)) * self.shared_expert(x)
        return out


class Layer(nn.Module):
    def __init__(self, c, index):
        super().__init__()
        self.self_attn = Attention(c)
        self.feed_forward = "block_sparse_moe" if c.family == "mixtral" else "mlp"
        experts = c.experts[index]
        self.add_module(self.feed_forward, Mixture(c, experts) if experts else MLP(c, c.intermediate))
        self.input_layernorm = RMSNorm(c.hidden, c.epsilon)
        self.post_attention_layernorm = RMSNorm(c.hidden, c.epsilon)

    def forward(self, x, cosine, sine, mask):
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine, mask)
        return x + getattr(self, self.feed_forward)(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocabulary, c.hidden)
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c.layers))
        self.norm = RMSNorm(c.hidden, c.epsilon)


class VisionAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.proj = nn.Linear(hidden, hidden)

    def forward(self, x):
        batch, count, hidden = x.shape
        q, k, v = self.qkv(x).view(batch, count, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.softmax(q @ k.transpose(-1, -2) / math.sqrt(hidden // self.heads), dim=-1) @ v
        return self.proj(seen.transpose(1, 2).reshape(batch, count, hidden))


class VisionBlock(nn.Module):
    def __init__(self, v):
        super().__init__()
        hidden, wide = v["hidden_size"], v["intermediate_size"]
        self.norm1 = nn.LayerNorm(hidden, eps=1e-6)
        self.attn = VisionAttention(hidden, v["num_heads"])
        self.norm2 = nn.LayerNorm(hidden, eps=1e-6)
        self.mlp = nn.Sequential(OrderedDict(fc1=nn.Linear(hidden, wide), act=nn.GELU(),
                                             fc2=nn.Linear(wide, hidden)))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vision(nn.Module):
    """Pixels [images, 3, S, S], -1..1, to features [images, (S/P)^2, hidden size of the decoder], row by row."""

    def __init__(self, v, out):
        super().__init__()
        self.size, self.patch = v["image_size"], v["patch_size"]
        self.patch_embed = nn.Linear(3 * self.patch ** 2, v["hidden_size"])
        self.pos_embed = nn.Parameter(torch.zeros((self.size // self.patch) ** 2, v["hidden_size"]))
        self.blocks = nn.ModuleList(VisionBlock(v) for _ in range(v["depth"]))
        self.norm = nn.LayerNorm(v["hidden_size"], eps=1e-6)
        self.proj = nn.Linear(v["hidden_size"], out)

    def forward(self, pixels):
        n, p = self.size // self.patch, self.patch
        patches = pixels.view(-1, 3, n, p, n, p).permute(0, 2, 4, 1, 3, 5).reshape(-1, n * n, 3 * p * p)
        x = self.patch_embed(patches) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.proj(self.norm(x))


class Transformer(nn.Module):
    """Parameters have the names of the published weights."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        if not config.tied:
            self.lm_head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        if config.vision:
            self.visual = Vision(config.vision, config.hidden)
        self.frequencies, self.rope_factor = rope_frequencies(config)  # plain tensor: never cast, never saved

    def mask(self, count, window, dtype):
        """0 where row i may see column j, minus infinity elsewhere."""
        away = torch.arange(count)[:, None] - torch.arange(count)[None, :]
        hidden = away < 0 if window is None else (away < 0) | (away >= window)
        return torch.zeros(count, count, dtype=dtype).masked_fill(hidden, float("-inf"))

    def embed(self, ids, pixels=None):
        x = self.model.embed_tokens(ids)
        if pixels is None:
            return x
        at = ids == self.config.image_token
        return x.index_put((at,), self.visual(pixels.to(x.dtype)).reshape(-1, x.shape[-1]).to(x.dtype))

    def run(self, x):
        """Embeddings [batch, count, hidden] to the residual stream after each layer."""
        count = x.shape[1]
        angles = torch.arange(count, dtype=torch.float32)[:, None] * self.frequencies
        cosine = (angles.cos() * self.rope_factor).to(x.dtype)
        sine = (angles.sin() * self.rope_factor).to(x.dtype)
        masks = {w: self.mask(count, w, x.dtype) for w in set(self.config.windows)}
        states = []
        for layer, window in zip(self.model.layers, self.config.windows):
            x = layer(x, cosine, sine, masks[window])
            states.append(x)
        return states

    def logits(self, x):
        """The residual stream after the last layer to logits."""
        x = self.model.norm(x)
        return F.linear(x, self.model.embed_tokens.weight) if self.config.tied else self.lm_head(x)

    def forward(self, ids, pixels=None, states=False):
        seen = self.run(self.embed(ids, pixels))
        logits = self.logits(seen[-1])
        return (logits, seen) if states else logits

    @torch.no_grad()
    def greedy(self, ids, stop, most, pixels=None):
        """The ids that follow, each the likeliest (the lowest of equals); ends before a stop id."""
        ids, out = list(ids), []
        while len(out) < most:
            best = int(self(torch.tensor([ids]), pixels)[0, -1].argmax())
            if best in stop:
                break
            ids.append(best)
            out.append(best)
        return out


def load(folder, dtype=torch.float32):
    """The model of a Hugging Face folder, its weights widened or narrowed to `dtype`. Every weight must be used."""
    with open(os.path.join(folder, "config.json")) as f:
        model = Transformer(Config(json.load(f)))
    tensors = safetensors.load_folder(folder)
    if model.config.tied:
        tensors.pop("lm_head.weight", None)
    model.load_state_dict({name: tensor.to(dtype) for name, tensor in tensors.items()})
    return model.to(dtype).eval()
