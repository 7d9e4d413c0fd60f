"""Decoder-only transformers, written from the papers in plain torch: what the token engine is compared with.

Covers what config.json of Llama, Mistral, Qwen2, Qwen3, Gemma 2, Gemma 3, Phi-3, OLMo 2, OLMo 3, Granite, SmolLM3
and Gemma say, and of the mixtures of experts Mixtral, Qwen2-MoE, Qwen3-MoE, granitemoe and gpt-oss, and a small vision encoder whose features take the
place of the embeddings at image positions. Nothing here is fast, nothing is cached: every call computes every position.

    RMSNorm     B. Zhang, R. Sennrich: Root Mean Square Layer Normalization, arXiv 1910.07467
    RoPE        rope.py
    SwiGLU      N. Shazeer: GLU Variants Improve Transformer, arXiv 2002.05202
    GQA         J. Ainslie et al.: arXiv 2305.13245
    sliding     A. Jiang et al.: Mistral 7B, arXiv 2310.06825: a position sees itself and the window - 1 before it
    q/k norm    Qwen3 Technical Report, arXiv 2505.09388: RMSNorm of each head of q and k, before RoPE
    experts     A. Jiang et al.: Mixtral of Experts, arXiv 2401.04088; with one that sees all: Qwen2 Technical Report,
                arXiv 2407.10671
    Gemma       Gemma 2, arXiv 2408.00118 (norms before and after, soft caps, every other layer local) and Gemma 3 Technical
                Report, arXiv 2503.19786 (q/k norm, five local layers with a rotary base of their own to one global)
    OLMo        2 OLMo 2 Furious, arXiv 2501.00656: norms of what attention and the MLP make, q/k norm over all heads. OLMo 3:
                three local layers, whose positions are not stretched, to one global
    Granite     Granite 3.0 Language Models: multipliers after G. Yang et al.: Tensor Programs V, arXiv 2203.03466
    NoPE        A. Kazemnejad et al.: arXiv 2305.19466: layers without rotary positions, as in SmolLM3
    sinks       gpt-oss: G. Xiao et al.: Efficient Streaming Language Models with Attention Sinks, arXiv 2309.17453
    GeGLU       N. Shazeer, as above, with the hyperbolic tangent of D. Hendrycks, K. Gimpel: arXiv 1606.08415
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
    from . import packed_experts, safetensors
    from .rope import plain_frequencies, rope_frequencies, rotate
except ImportError:  # run with this folder on the path
    import packed_experts
    import safetensors
    from rope import plain_frequencies, rope_frequencies, rotate

FAMILIES = {"LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral",
            "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3", "MixtralForCausalLM": "mixtral",
            "Qwen2MoeForCausalLM": "qwen2_moe", "Qwen3MoeForCausalLM": "qwen3_moe",
            "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3_text",
            "Phi3ForCausalLM": "phi3", "Olmo2ForCausalLM": "olmo2", "Olmo3ForCausalLM": "olmo3",
            "GraniteForCausalLM": "granite", "SmolLM3ForCausalLM": "smollm3",
            "GemmaForCausalLM": "gemma", "GraniteMoeForCausalLM": "granitemoe", "GptOssForCausalLM": "gpt_oss"}


class Config:
    """What config.json says, with the defaults of its family filled in."""

    def __init__(self, said):
        names = said.get("architectures") or []
        if "text_config" in said:
            said, names = said["text_config"], []
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
        self.trained_positions = said.get("original_max_position_embeddings", self.max_positions)
        self.rotary_dim = int(self.head_dim * said.get("partial_rotary_factor", 1))
        self.fused = self.family == "phi3"  # q, k and v are one matrix, gates and ups another
        # Newer files put all of RoPE into rope_parameters.
        rope = said.get("rope_parameters") or {}
        self.theta = said.get("rope_theta") or rope.get("rope_theta") or 10000.0
        self.scaling = said.get("rope_scaling") or (rope if rope.get("rope_type", "default") != "default" else None)
        qwen2 = self.family in ("qwen2", "qwen2_moe")
        self.qkv_bias = said.get("qkv_bias", True) if qwen2 else said.get("attention_bias", False)
        self.o_bias = not qwen2 and said.get("attention_bias", False)
        self.mlp_bias = said.get("mlp_bias", False)
        self.olmo = self.family in ("olmo2", "olmo3")
        self.qk_norm = self.olmo or self.family in ("qwen3", "qwen3_moe", "gemma3_text")
        self.gemma = self.family in ("gemma", "gemma2", "gemma3_text")
        self.sinks = self.family == "gpt_oss"
        self.embedding_scale = said.get("embedding_multiplier", 1)
        if self.gemma:  # the scale is of the weights' type
            dtype = getattr(torch, said["torch_dtype"])
            self.embedding_scale = float(torch.tensor(self.hidden ** 0.5).to(dtype))
        self.score_scale = said.get("attention_multiplier", said.get("query_pre_attn_scalar", self.head_dim) ** -0.5)
        self.residual_scale = said.get("residual_multiplier", 1)
        self.logits_divisor = said.get("logits_scaling", 1)
        self.score_cap = said.get("attn_logit_softcapping")
        self.logits_cap = said.get("final_logit_softcapping")
        self.local_theta = said.get("rope_local_base_freq", 10000.0) if self.family == "gemma3_text" else None
        if self.family == "olmo3":
            self.local_theta = self.theta
        self._experts(said)
        self.windows = self._windows(said)
        self.turned = [True] * self.layers
        if self.family == "smollm3":
            self.turned = said.get("no_rope_layers") or [(i + 1) % said.get("no_rope_layer_interval", 4) for i in range(self.layers)]
        self.vision = said.get("vision_config")
        self.image_token = said.get("image_token_id")

    def _experts(self, said):
        """How many experts a layer has, none where it is no mixture; their width and how many see a position."""
        self.experts = [0] * self.layers
        if self.family == "mixtral":
            self.experts = [said["num_local_experts"]] * self.layers
            self.expert_width, self.shared_width, self.normalised = self.intermediate, 0, True
        elif self.family in ("granitemoe", "gpt_oss"):
            self.experts = [said["num_local_experts"]] * self.layers
            self.expert_width = self.intermediate
        elif self.family in ("qwen2_moe", "qwen3_moe"):
            step, plain = said.get("decoder_sparse_step", 1), said.get("mlp_only_layers") or []
            self.experts = [said["num_experts"] if (i + 1) % step == 0 and i not in plain else 0 for i in range(self.layers)]
            self.expert_width, self.normalised = said["moe_intermediate_size"], said.get("norm_topk_prob", False)
            self.shared_width = said["shared_expert_intermediate_size"] if self.family == "qwen2_moe" else 0
        self.experts_used = said.get("num_experts_per_tok", 0)

    def _windows(self, said):
        """The sliding window of each layer; None where a position sees all before it."""
        window = said.get("sliding_window")
        if "layer_types" in said:
            return [window if kind == "sliding_attention" else None for kind in said["layer_types"]]
        if self.family in ("mistral", "phi3"):
            return [window] * self.layers
        if self.family == "gpt_oss":
            return [None if i % 2 else window for i in range(self.layers)]
        if self.family in ("gemma2", "gemma3_text", "olmo3"):
            pattern = said.get("sliding_window_pattern", {"gemma2": 2, "gemma3_text": 6, "olmo3": 4}[self.family])
            return [window if (i + 1) % pattern else None for i in range(self.layers)]
        if self.family.startswith("qwen") and said.get("use_sliding_window", False):
            first = said.get("max_window_layers", 0)
            return [window if i >= first else None for i in range(self.layers)]
        return [None] * self.layers


class RMSNorm(nn.Module):
    """`less`: what the stored weights lack."""

    def __init__(self, size, epsilon, less=0):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size) - less)
        self.epsilon, self.less = epsilon, less

    def forward(self, x):
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (self.weight.float() + self.less).to(x.dtype) * normed.to(x.dtype)


def soft_cap(x, cap):
    return x if cap is None else cap * torch.tanh(x / cap)


def norm(c, size):
    return RMSNorm(size, c.epsilon, 1 if c.gemma else 0)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        c, self.config = config, config
        self.widths = [c.heads * c.head_dim, c.kv_heads * c.head_dim, c.kv_heads * c.head_dim]
        if c.fused:
            self.qkv_proj = nn.Linear(c.hidden, sum(self.widths), bias=c.qkv_bias)
        else:
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(c.hidden, width, bias=c.qkv_bias) for width in self.widths)
        self.o_proj = nn.Linear(c.heads * c.head_dim, c.hidden, bias=c.o_bias)
        if c.sinks:
            self.sinks = nn.Parameter(torch.zeros(c.heads))
        if c.qk_norm:
            self.q_norm = norm(c, self.widths[0] if c.olmo else c.head_dim)
            self.k_norm = norm(c, self.widths[1] if c.olmo else c.head_dim)

    def split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, self.config.head_dim).transpose(1, 2)

    def forward(self, x, cosine, sine, mask):
        c = self.config
        parts = self.qkv_proj(x).split(self.widths, -1) if c.fused else (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        if c.olmo:
            parts = self.q_norm(parts[0]), self.k_norm(parts[1]), parts[2]
        q, k, v = (self.split(part, heads) for part, heads in zip(parts, (c.heads, c.kv_heads, c.kv_heads)))
        if c.qk_norm and not c.olmo:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        # Query head h reads key/value head h / (heads / kv_heads).
        k = k.repeat_interleave(c.heads // c.kv_heads, dim=1)
        v = v.repeat_interleave(c.heads // c.kv_heads, dim=1)
        scores = soft_cap(q @ k.transpose(-1, -2) * c.score_scale, c.score_cap) + mask
        if c.sinks:  # what no position is seen for: a score that all queries of a head have beside those of the keys
            scores = torch.cat([scores, self.sinks.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)], -1)
        shares = F.softmax(scores.float(), dim=-1)[..., :k.shape[-2]]
        seen = shares.to(v.dtype) @ v
        return self.o_proj(seen.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


class MLP(nn.Module):
    def __init__(self, c, width, names=("gate_proj", "up_proj", "down_proj")):
        super().__init__()
        self.names, self.fused = names, c.fused
        if c.fused:
            self.gate_up_proj = nn.Linear(c.hidden, 2 * width, bias=c.mlp_bias)
        for name, (inputs, outputs) in zip(names, ((c.hidden, width), (c.hidden, width), (width, c.hidden))):
            if not c.fused or name == names[2]:
                self.add_module(name, nn.Linear(inputs, outputs, bias=c.mlp_bias))
        self.curve = gelu_tanh if c.gemma else F.silu

    def forward(self, x):
        gate, up = self.names[:2]
        gate, up = self.gate_up_proj(x).chunk(2, -1) if self.fused else (getattr(self, gate)(x), getattr(self, up)(x))
        return getattr(self, self.names[2])(self.curve(gate) * up)


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
        self.feed_forward = "block_sparse_moe" if c.family in ("mixtral", "granitemoe") else "mlp"
        experts = c.experts[index]
        mixture = {"granitemoe": packed_experts.GraniteMixture, "gpt_oss": packed_experts.GptOssMixture}.get(c.family, Mixture)
        self.add_module(self.feed_forward, mixture(c, experts) if experts else MLP(c, c.intermediate))
        self.input_layernorm = norm(c, c.hidden)
        self.post_attention_layernorm = norm(c, c.hidden)
        self.scale = c.residual_scale

    def forward(self, x, cosine, sine, mask):
        x = x + self.scale * self.self_attn(self.input_layernorm(x), cosine, sine, mask)
        return x + self.scale * getattr(self, self.feed_forward)(self.post_attention_layernorm(x))


class GemmaLayer(Layer):
    """What attention and the MLP add is normalised, too."""

    def __init__(self, c, index):
        super().__init__(c, index)
        self.pre_feedforward_layernorm = norm(c, c.hidden)
        self.post_feedforward_layernorm = norm(c, c.hidden)

    def forward(self, x, cosine, sine, mask):
        x = x + self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), cosine, sine, mask))
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class OlmoLayer(nn.Module):
    """Only what attention and the MLP add is normalised."""

    def __init__(self, c, _):
        super().__init__()
        self.self_attn = Attention(c)
        self.mlp = MLP(c, c.intermediate)
        self.post_attention_layernorm = norm(c, c.hidden)
        self.post_feedforward_layernorm = norm(c, c.hidden)

    def forward(self, x, cosine, sine, mask):
        x = x + self.post_attention_layernorm(self.self_attn(x, cosine, sine, mask))
        return x + self.post_feedforward_layernorm(self.mlp(x))


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocabulary, c.hidden)
        kind = GemmaLayer if c.gemma and c.family != "gemma" else OlmoLayer if c.olmo else Layer
        self.layers = nn.ModuleList(kind(c, i) for i in range(c.layers))
        self.norm = norm(c, c.hidden)


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
        # For layers that see all, and for those with a window; plain tensors: never cast, never saved.
        self.ropes = [rope_frequencies(config)] * 2
        if config.local_theta:
            self.ropes[1] = plain_frequencies(config, config.local_theta), 1.0

    def mask(self, count, window, dtype):
        """0 where row i may see column j, minus infinity elsewhere."""
        away = torch.arange(count)[:, None] - torch.arange(count)[None, :]
        hidden = away < 0 if window is None else (away < 0) | (away >= window)
        return torch.zeros(count, count, dtype=dtype).masked_fill(hidden, float("-inf"))

    def embed(self, ids, pixels=None):
        x = self.model.embed_tokens(ids) * self.config.embedding_scale
        if pixels is None:
            return x
        at = ids == self.config.image_token
        return x.index_put((at,), self.visual(pixels.to(x.dtype)).reshape(-1, x.shape[-1]).to(x.dtype))

    def run(self, x):
        """Embeddings [batch, count, hidden] to the residual stream after each layer."""
        count = x.shape[1]
        turns = []
        for frequencies, factor in self.ropes:
            angles = torch.arange(count, dtype=torch.float32)[:, None] * frequencies
            turns.append(((angles.cos() * factor).to(x.dtype), (angles.sin() * factor).to(x.dtype)))
        masks = {w: self.mask(count, w, x.dtype) for w in set(self.config.windows)}
        states = []
        still = turns[0][0][:, :0], turns[0][1][:, :0]
        for layer, window, turned in zip(self.model.layers, self.config.windows, self.config.turned):
            x = layer(x, *(turns[0 if window is None else 1] if turned else still), masks[window])
            states.append(x)
        return states

    def logits(self, x):
        """The residual stream after the last layer to logits."""
        x = self.model.norm(x)
        x = F.linear(x, self.model.embed_tokens.weight) if self.config.tied else self.lm_head(x)
        return soft_cap(x / self.config.logits_divisor, self.config.logits_cap)

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


def bare(name):
    """The name of a decoder's weight inside a model that also sees."""
    return name.replace("language_model.model.", "model.").replace("language_model.lm_head.", "lm_head.")


def load(folder, dtype=torch.float32):
    """The model of a Hugging Face folder, its weights widened or narrowed to `dtype`. Every weight must be used."""
    with open(os.path.join(folder, "config.json")) as f:
        model = Transformer(Config(json.load(f)))
    tensors = {bare(name): tensor for name, tensor in safetensors.load_folder(folder).items()}
    if model.config.tied:
        tensors.pop("lm_head.weight", None)
    model.load_state_dict({name: tensor.to(dtype) for name, tensor in tensors.items()})
    return model.to(dtype).eval()
