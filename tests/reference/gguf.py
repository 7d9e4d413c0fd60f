"""Writes GGUF files: the fields, and numbers in the blocks that they are stored in. Needs numpy alone.

Of each type ENCODERS has a function [rows][inputs] -> (bytes, the numbers that they stand for), both by the layouts that
src/engines/llm/load/gguf_blocks.h describes.
"""
import struct

import numpy as np

UINT8, BOOL, STRING, ARRAY, UINT32, INT32, FLOAT32, UINT64 = 0, 7, 8, 9, 4, 5, 6, 10
F = np.float32


def halves(x):
    """Rounded to 16 bits, and these bits."""
    small = x.astype(np.float16)
    return small.astype(F), small[..., None].view(np.uint8)


def codes(w, scale, offset, least, most):
    safe = np.where(scale == 0, F(1), scale)
    return np.clip(np.round((w - offset) / safe), least, most).astype(np.int32)


def blocks(w, numbers):
    return w.astype(F).reshape(-1, numbers)


def done(parts, numbers, shape):
    return np.concatenate([p.astype(np.uint8) for p in parts], axis=1).tobytes(), numbers.astype(F).reshape(shape)


def signed_peak(w):
    return np.take_along_axis(w, np.abs(w).argmax(-1)[..., None], -1)[..., 0]


def q8_0(w):
    b = blocks(w, 32)
    d, bits = halves(np.abs(b).max(1) / F(127))
    q = codes(b, d[:, None], F(0), -128, 127)
    return done([bits, q & 255], d[:, None] * q.astype(F), w.shape)


def small(w, fifth, offset):
    """Q4_0, Q4_1, Q5_0, Q5_1."""
    b = blocks(w, 32)
    levels = 32 if fifth else 16
    if offset:
        m, m_bits = halves(b.min(1))
        d, bits = halves((b.max(1) - b.min(1)) / F(levels - 1))
        q = codes(b, d[:, None], m[:, None], 0, levels - 1)
        numbers, head = d[:, None] * q.astype(F) + m[:, None], [bits, m_bits]
    else:
        d, bits = halves(signed_peak(b) / F(-levels // 2))
        q = codes(b, d[:, None], F(0), -levels // 2, levels // 2 - 1)
        numbers, head = d[:, None] * q.astype(F), [bits]
        q = q + levels // 2
    if fifth:
        head.append(np.packbits(q >> 4 & 1, axis=1, bitorder="little"))
    return done(head + [(q[:, :16] & 15) | (q[:, 16:] & 15) << 4], numbers, w.shape)


def pairs(q):
    """Codes of two bits [n][256]: of each half four in a byte."""
    q = q.reshape(-1, 2, 4, 32)
    return (q[:, :, 0] | q[:, :, 1] << 2 | q[:, :, 2] << 4 | q[:, :, 3] << 6).reshape(-1, 64)


def bits_by_32(q):
    """One bit of each [n][256]: number i is bit i / 32 of byte i % 32."""
    return (q.reshape(-1, 8, 32) << np.arange(8)[:, None]).sum(1)


def with_minima(w, group, levels, most):
    """Codes from 0 of groups with a scale and a minimum that are whole numbers up to `most` of a block's two."""
    b = blocks(w, 256).reshape(-1, 256 // group, group)
    low = np.minimum(b.min(2), 0)
    d, d_bits = halves(((b.max(2) - low) / F(levels - 1)).max(1) / F(most))
    least, least_bits = halves((-low).max(1) / F(most))
    s = codes((b.max(2) - low) / F(levels - 1), d[:, None], F(0), 0, most)
    m = codes(-low, least[:, None], F(0), 0, most)
    scale, minimum = d[:, None] * s.astype(F), least[:, None] * m.astype(F)
    q = codes(b, scale[..., None], -minimum[..., None], 0, levels - 1)
    numbers = scale[..., None] * q.astype(F) - minimum[..., None]
    return q.reshape(-1, 256), s, m, [d_bits, least_bits], numbers


def with_signed_scales(w, low, high, most):
    """Codes from `low` to `high` of groups of 16, with scales that are whole numbers from -most - 1 to `most`."""
    b = blocks(w, 256).reshape(-1, 16, 16)
    want = signed_peak(b) / F(low)
    d, bits = halves(np.abs(want).max(1) / F(most))
    s = codes(want, d[:, None], F(0), -most - 1, most)
    scale = d[:, None] * s.astype(F)
    q = codes(b, scale[..., None], F(0), low, high)
    return q.reshape(-1, 256), s, bits, scale[..., None] * q.astype(F)


def q2_k(w):
    q, s, m, heads, numbers = with_minima(w, 16, 4, 15)
    return done([s | m << 4, pairs(q)] + heads, numbers, w.shape)


def q3_k(w):
    q, s, bits, numbers = with_signed_scales(w, -4, 3, 31)
    q, s = q + 4, s + 32
    low = (s[:, :8] & 15) | (s[:, 8:] & 15) << 4
    high = sum((s[:, 4 * k:4 * k + 4] >> 4) << 2 * k for k in range(4))
    return done([bits_by_32(q >> 2), pairs(q & 3), low, high, bits], numbers, w.shape)


def scales_and_minima(s, m):
    return [s[:, :4] | (s[:, 4:] >> 4) << 6, m[:, :4] | (m[:, 4:] >> 4) << 6, (s[:, 4:] & 15) | (m[:, 4:] & 15) << 4]


def nibbles(q):
    q = (q & 15).reshape(-1, 4, 2, 32)
    return (q[:, :, 0] | q[:, :, 1] << 4).reshape(-1, 128)


def q4_k(w):
    q, s, m, heads, numbers = with_minima(w, 32, 16, 63)
    return done(heads + scales_and_minima(s, m) + [nibbles(q)], numbers, w.shape)


def q5_k(w):
    q, s, m, heads, numbers = with_minima(w, 32, 32, 63)
    return done(heads + scales_and_minima(s, m) + [bits_by_32(q >> 4), nibbles(q)], numbers, w.shape)


def q6_k(w):
    q, s, bits, numbers = with_signed_scales(w, -32, 31, 127)
    q = q + 32
    low = (q & 15).reshape(-1, 2, 2, 64)
    low = (low[:, :, 0] | low[:, :, 1] << 4).reshape(-1, 128)
    return done([low, pairs(q >> 4), s & 255, bits], numbers, w.shape)


IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=F)
E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=F)


def nearest(w, scale, levels):
    """Places in the list of levels [16], and what they stand for."""
    q = np.abs(w[..., None] / np.where(scale == 0, F(1), scale)[..., None, None] - levels).argmin(-1)
    return q, scale[..., None] * levels[q]


def two_halves(q):
    return q[..., :16] | q[..., 16:] << 4


def iq4_nl(w):
    b = blocks(w, 32)
    d, bits = halves(signed_peak(b) / F(-127))
    q, numbers = nearest(b, d, IQ4)
    return done([bits, two_halves(q)], numbers, w.shape)


def iq4_xs(w):
    b = blocks(w, 256).reshape(-1, 8, 32)
    want = signed_peak(b) / F(-127)
    d, bits = halves(np.abs(want).max(1) / F(31))
    s = codes(want, d[:, None], F(0), -32, 31)
    q, numbers = nearest(b, d[:, None] * s.astype(F), IQ4)
    s = s + 32
    high = ((s >> 4) << 2 * np.arange(8)).sum(1)
    return done([bits, np.stack([high & 255, high >> 8], 1), (s[:, ::2] & 15) | (s[:, 1::2] & 15) << 4,
                 two_halves(q).reshape(-1, 128)], numbers, w.shape)


def mxfp4(w):
    b = blocks(w, 32)
    e = np.clip(np.ceil(np.log2(np.maximum(np.abs(b).max(1), F(1e-30)) / 12)) + 128, 0, 254).astype(np.int32)
    q, numbers = nearest(b, np.ldexp(F(1), e - 128).astype(F), E2M1)
    return done([e[:, None], two_halves(q)], numbers, w.shape)


def bf16(w):
    bits = w.astype(F).view(np.uint32)
    bits = ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return bits.tobytes(), (bits.astype(np.uint32) << 16).view(F).reshape(w.shape)


ENCODERS = {
    "F32": lambda w: (w.astype(F).tobytes(), w.astype(F)),
    "F16": lambda w: (w.astype(np.float16).tobytes(), w.astype(np.float16).astype(F)),
    "BF16": bf16,
    "Q8_0": q8_0,
    "Q4_0": lambda w: small(w, False, False), "Q4_1": lambda w: small(w, False, True),
    "Q5_0": lambda w: small(w, True, False), "Q5_1": lambda w: small(w, True, True),
    "Q2_K": q2_k, "Q3_K": q3_k, "Q4_K": q4_k, "Q5_K": q5_k, "Q6_K": q6_k,
    "IQ4_NL": iq4_nl, "IQ4_XS": iq4_xs, "MXFP4": mxfp4,
}
NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12,
           "Q5_K": 13, "Q6_K": 14, "IQ4_NL": 20, "IQ4_XS": 23, "BF16": 30, "MXFP4": 39}


# --- files -------------------------------------------------------------------------------------------------------------

def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def typed(value):
    """(type, bytes) of a field's value."""
    if isinstance(value, bool):
        return BOOL, struct.pack("<B", value)
    if isinstance(value, int):
        return UINT32, struct.pack("<I", value)
    if isinstance(value, float):
        return FLOAT32, struct.pack("<f", value)
    if isinstance(value, str):
        return STRING, text(value)
    if isinstance(value, bytes):
        return ARRAY, struct.pack("<IQ", UINT8, len(value)) + value
    if value and isinstance(value[0], bool):
        kind, body = BOOL, struct.pack(f"<{len(value)}B", *value)
    elif value and isinstance(value[0], str):
        kind, body = STRING, b"".join(map(text, value))
    elif value and isinstance(value[0], float):
        kind, body = FLOAT32, struct.pack(f"<{len(value)}f", *value)
    else:
        kind, body = INT32, struct.pack(f"<{len(value)}i", *value)
    return ARRAY, struct.pack("<IQ", kind, len(value)) + body


def write(path, fields, tensors):
    """`tensors`: name -> (type, shape, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    for name, value in fields.items():
        kind, body = typed(value)
        head += text(name) + struct.pack("<I", kind) + body
    data = []
    at = 0
    for name, (kind, shape, body) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), NUMBERS[kind], at)
        data.append(body + b"\0" * (-len(body) % 32))
        at += len(data[-1])
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + b"".join(data))


# --- models ------------------------------------------------------------------------------------------------------------

ARCHITECTURES = {"LlamaForCausalLM": "llama", "MistralForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2",
                 "Qwen3ForCausalLM": "qwen3", "MixtralForCausalLM": "llama", "Qwen2MoeForCausalLM": "qwen2moe",
                 "Qwen3MoeForCausalLM": "qwen3moe", "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3",
                 "Phi3ForCausalLM": "phi3", "GraniteForCausalLM": "granite", "Olmo2ForCausalLM": "olmo2",
                 "Olmo3ForCausalLM": "olmo2", "SmolLM3ForCausalLM": "smollm3",
                 "GemmaForCausalLM": "gemma", "GraniteMoeForCausalLM": "granitemoe", "GptOssForCausalLM": "gpt-oss"}
TURNED = ("llama", "granite", "granitemoe", "smollm3")
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
IN_LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
            "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
            "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
            "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
            "block_sparse_moe.gate": "ffn_gate_inp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
            "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
            "mlp.shared_expert.down_proj": "ffn_down_shexp"}
OUTPUT_NORMS = {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}
GEMMA = {**OUTPUT_NORMS, "pre_feedforward_layernorm": "ffn_norm"}
OF_FAMILY = {"gemma2": GEMMA, "gemma3": GEMMA, "olmo2": OUTPUT_NORMS,
             "granitemoe": {"block_sparse_moe.router.layer": "ffn_gate_inp"},
             "gpt-oss": {"self_attn.sinks": "attn_sinks", "mlp.router": "ffn_gate_inp", "post_attention_layernorm": "post_attention_norm"},
             "phi3": {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}}
OF_EXPERTS = {"gate_proj": "gate", "w1": "gate", "up_proj": "up", "w3": "up", "down_proj": "down", "w2": "down"}


def renamed(name, architecture):
    core, _, kind = name.rpartition(".")
    if core in OUTSIDE:
        return OUTSIDE[core] + "." + kind
    layer, _, rest = core[len("model.layers."):].partition(".")
    return f"blk.{layer}.{ {**IN_LAYER, **OF_FAMILY.get(architecture, {})}[rest]}.{kind}"


def renamed_expert(name):
    """The tensor that all of a layer's experts are in, in their order; None: it is no expert's."""
    layer, _, rest = name.removeprefix("model.layers.").partition(".")
    _, part, kind = rest.rsplit(".", 2) if ".experts." in rest else (None, None, None)
    return f"blk.{layer}.ffn_{OF_EXPERTS[part]}_exps.{kind}" if part else None


def turned(w, heads):
    """Rows of the halves of each head in turn, as llama.cpp has them for some architectures."""
    return w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def straight(w, heads):
    return w.reshape(heads, -1, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def plain_experts(weights):
    """Those whose experts lie in one array, with an array of each expert's gates, ups and downs [outputs][inputs]."""
    out = {}
    for name, w in weights.items():
        layer, _, rest = name.rpartition("block_sparse_moe." if "block_sparse_moe" in name else "mlp.")
        both = rest in ("experts.gate_up_proj", "experts.gate_up_proj_bias", "input_linear.weight")
        kind = "bias" if rest.endswith("_bias") else "weight"
        if not both and rest not in ("experts.down_proj", "experts.down_proj_bias", "output_linear.weight"):
            out[name] = w
            continue
        for e, one in enumerate(w):
            one = one.T if rest.startswith("experts") and kind == "weight" else one
            gate, up = (one[::2], one[1::2]) if rest.startswith("experts") else np.split(one, 2)
            for part, of in (("gate_proj", gate), ("up_proj", up)) if both else (("down_proj", one),):
                out[f"{layer}mlp.experts.{e}.{part}.{kind}"] = np.ascontiguousarray(of)
    return out


def packed_experts(numbers, weights):
    """The arrays of `weights` with the numbers that plain_experts() took apart."""
    out = {name: w.copy() for name, w in weights.items()}
    for name, w in numbers.items():
        if ".experts." not in name or name in weights:
            out[name] = w
            continue
        before, _, rest = name.partition("mlp.experts.")
        e, part, kind = rest.split(".")
        granite = before + "block_sparse_moe." + ("output_linear.weight" if part == "down_proj" else "input_linear.weight")
        if granite in out:
            half = out[granite].shape[1] // 2
            rows = slice(None) if part == "down_proj" else slice(half) if part == "gate_proj" else slice(half, None)
            out[granite][int(e), rows] = w
            continue
        of = out[before + "mlp.experts." + ("down_proj" if part == "down_proj" else "gate_up_proj") + ("_bias" if kind == "bias" else "")]
        columns = slice(None) if part == "down_proj" else slice(int(part == "up_proj"), None, 2)
        of[int(e)][..., columns] = w.T
    return out


def tensors_of(said, weights, kind_of):
    """The tensors of a file, and the numbers that they stand for, by Hugging Face's names. `kind_of`: name -> type."""
    stored, numbers = {}, {}
    architecture = ARCHITECTURES[said["architectures"][0]]
    heads = {"q_proj": said["num_attention_heads"], "k_proj": said["num_key_value_heads"]}
    published, weights = weights, plain_experts(weights)
    for name, w in weights.items():
        name = name + ".weight" if name.endswith("sinks") else name
        kind = kind_of(name) if w.ndim == 2 else "F32"
        turn = heads.get(name.split(".")[-2]) if architecture in TURNED else None
        whole = architecture.startswith("gemma") and name.endswith("norm.weight")  # Gemma's own are less 1
        body, meant = ENCODERS[kind](turned(w, turn) if turn else w + F(1) if whole else w)
        if experts := renamed_expert(name):
            _, shape, before = stored.get(experts, (kind, (0,), b""))
            stored[experts] = (kind, (shape[0] + 1, *w.shape), before + body)
        else:
            shape = w.shape[1:] if "shared_expert_gate" in name else w.shape
            stored[renamed(name, architecture)] = (kind, shape, body)
        numbers[name] = straight(meant, turn) if turn else w if whole else meant
    numbers = {name.replace("sinks.weight", "sinks"): w for name, w in numbers.items()}
    if published.keys() != weights.keys():
        numbers = packed_experts(numbers, published)
    scaling = said.get("rope_scaling") or {}
    for length in ("long", "short"):
        if length + "_factor" in scaling:
            factors = np.array(scaling[length + "_factor"], dtype=F)
            stored[f"rope_factors_{length}.weight"] = ("F32", factors.shape, factors.tobytes())
    return stored, numbers


def fields_of(said):
    """The fields that say what a config.json does."""
    a = ARCHITECTURES[said["architectures"][0]]
    fields = {"general.architecture": a, "general.name": "test", a + ".context_length": said["max_position_embeddings"],
              a + ".embedding_length": said["hidden_size"], a + ".block_count": said["num_hidden_layers"],
              a + ".feed_forward_length": said["intermediate_size"], a + ".attention.head_count": said["num_attention_heads"],
              a + ".attention.head_count_kv": said["num_key_value_heads"], a + ".rope.freq_base": float(said["rope_theta"]),
              a + ".attention.layer_norm_rms_epsilon": float(said["rms_norm_eps"])}
    experts = said.get("num_experts", said.get("num_local_experts"))
    if experts:
        fields.update({a + ".expert_count": experts, a + ".expert_used_count": said["num_experts_per_tok"]})
    for theirs, ours in (("expert_feed_forward_length", "moe_intermediate_size"),
                         ("expert_shared_feed_forward_length", "shared_expert_intermediate_size")):
        if ours in said:
            fields[f"{a}.{theirs}"] = said[ours]
    if "head_dim" in said:
        fields.update({a + ".attention.key_length": said["head_dim"], a + ".attention.value_length": said["head_dim"]})
    if said.get("sliding_window"):
        fields[a + ".attention.sliding_window"] = said["sliding_window"]
    scaling = said.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind in ("linear", "yarn"):
        fields.update({a + ".rope.scaling.type": kind, a + ".rope.scaling.factor": float(scaling["factor"])})
    if kind == "yarn":
        fields[a + ".rope.scaling.original_context_length"] = scaling["original_max_position_embeddings"]
    return {**fields, **{f"{a}.{name}": value for name, value in family_fields(a, said).items()}}


def family_fields(architecture, said):
    """Those of one architecture alone."""
    if architecture == "phi3":
        return phi3_fields(said)
    fields = {}
    for theirs, ours in (("attn_logit_softcapping",) * 2, ("final_logit_softcapping",) * 2,
                         ("rope.freq_base_swa", "rope_local_base_freq"), ("attention.scale", "attention_multiplier"),
                         ("embedding_scale", "embedding_multiplier"), ("residual_scale", "residual_multiplier"),
                         ("logit_scale", "logits_scaling")):
        if ours in said:
            fields[theirs] = float(said[ours])
    if architecture == "gpt-oss":
        fields["expert_feed_forward_length"] = said["intermediate_size"]
    if "layer_types" in said:
        fields["attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in said["layer_types"]]
    elif "sliding_window_pattern" in said:
        fields["attention.sliding_window_pattern"] = said["sliding_window_pattern"]
    return fields


def phi3_fields(said):
    longest = said["max_position_embeddings"]
    trained = said.get("original_max_position_embeddings", longest)
    size = said["hidden_size"] // said["num_attention_heads"]
    fields = {"rope.dimension_count": int(size * said.get("partial_rotary_factor", 1)),
              "rope.scaling.original_context_length": trained}
    if (said.get("rope_scaling") or {}).get("long_factor"):
        fields["rope.scaling.attn_factor"] = float(np.sqrt(1 + np.log(longest / trained) / np.log(trained)))
    return fields


def factors_of(scaling, dim, theta):
    """Llama 3.1's scaling as the tensor rope_freqs.weight."""
    out = []
    for i in range(dim // 2):
        length = 2 * np.pi * theta ** (2 * i / dim)
        original, low, high = (scaling[k] for k in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
        smooth = np.clip((original / length - low) / (high - low), 0, 1)
        out.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return np.array(out, dtype=F)


def bytes_fields(tokenizer, pre, **more):
    """The fields of a tokenizer.json of byte-level BPE."""
    added = {t["id"]: t for t in tokenizer["added_tokens"]}
    words = {i: w for w, i in tokenizer["model"]["vocab"].items()}
    words.update({i: t["content"] for i, t in added.items()})
    count = max(words) + 1
    kinds = [(3 if added[i].get("special") else 4) if i in added else 1 if i in words else 5 for i in range(count)]
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    fields = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre,
              "tokenizer.ggml.tokens": [words.get(i, f"[PAD{i}]") for i in range(count)],
              "tokenizer.ggml.token_type": kinds}
    if merges:
        fields["tokenizer.ggml.merges"] = merges
    fields.update({"tokenizer." + k if "." in k else "tokenizer.ggml." + k: v for k, v in more.items()})
    return fields
