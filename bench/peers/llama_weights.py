#!/usr/bin/env python3
"""One Llama-shaped model of random bfloat16 weights, twice: as a Hugging Face folder and as a GGUF file.

    /usr/bin/python3 bench/peers/llama_weights.py OUT      # OUT/1/{config.json,model.safetensors,tokenizer.json}, OUT/model.gguf

The shape is bench/engines/llm_bench.cc's (112 million parameters), so that its figures and a peer's are of the same
work. GGUF: header, metadata, tensor infos, data, all little-endian, tensors aligned to 32 bytes
(github.com/ggml-org/ggml/blob/master/docs/gguf.md). llama.cpp turns neighbours in a head where Hugging Face turns halves: the
rows of q and k are reordered.
"""
import json
import os
import struct
import sys

import numpy as np

VOCABULARY, HIDDEN, LAYERS, HEADS, KV_HEADS, DIM, INTER, CONTEXT = 32000, 768, 14, 12, 4, 64, 2048, 4096
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
F32, BF16 = 0, 30


def bf16(shape, rng):
    values = (rng.standard_normal(shape, dtype=np.float32) * 0.05).view(np.uint32)
    return ((values + 0x7FFF + ((values >> 16) & 1)) >> 16).astype(np.uint16)


def weights():
    rng = np.random.default_rng(7)
    out = {"model.embed_tokens.weight": bf16((VOCABULARY, HIDDEN), rng), "model.norm.weight": ones()}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        out[at + "input_layernorm.weight"] = ones()
        out[at + "post_attention_layernorm.weight"] = ones()
        for name, rows, columns in (("self_attn.q_proj", HEADS * DIM, HIDDEN), ("self_attn.k_proj", KV_HEADS * DIM, HIDDEN),
                                    ("self_attn.v_proj", KV_HEADS * DIM, HIDDEN), ("self_attn.o_proj", HIDDEN, HEADS * DIM),
                                    ("mlp.gate_proj", INTER, HIDDEN), ("mlp.up_proj", INTER, HIDDEN),
                                    ("mlp.down_proj", HIDDEN, INTER)):
            out[at + name + ".weight"] = bf16((rows, columns), rng)
    return out


def ones():
    return np.full(HIDDEN, 0x3F80, dtype=np.uint16)


def words():
    """The first are special, then come the bytes, then words that no text has."""
    return ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + [f"w{i}" for i in range(VOCABULARY - 259)]


def write_folder(tensors, folder):
    os.makedirs(folder, exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIM, "intermediate_size": INTER,
              "vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "tie_word_embeddings": True, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"}
    with open(folder + "/config.json", "w") as f:
        json.dump(config, f, indent=1)
    special = [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, w in enumerate(words()[:3])]
    tokenizer = {"version": "1.0", "added_tokens": special, "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                 "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
                 "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                           "vocab": {w: i for i, w in enumerate(words())}, "merges": []}}
    with open(folder + "/tokenizer.json", "w") as f:
        json.dump(tokenizer, f)
    header, at = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.tobytes())


def neighbours(t, heads):
    return t.reshape(heads, 2, DIM // 2, t.shape[1]).swapaxes(1, 2).reshape(t.shape)


def gguf_tensors(tensors):
    yield "token_embd.weight", tensors["model.embed_tokens.weight"]
    yield "output_norm.weight", tensors["model.norm.weight"]
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
             "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    for i in range(LAYERS):
        for ours, theirs in names.items():
            t = tensors[f"model.layers.{i}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                t = neighbours(t, HEADS if theirs == "attn_q" else KV_HEADS)
            yield f"blk.{i}.{theirs}.weight", t


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def array(kind, values):
    if kind == STRING:
        body = b"".join(text(v) for v in values)
    else:
        body = np.array(values, dtype=np.float32 if kind == FLOAT32 else np.int32).tobytes()
    return struct.pack("<IQ", kind, len(values)) + body


def metadata():
    kinds = [2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259)
    yield "general.architecture", STRING, text("llama")
    yield "general.name", STRING, text("random")
    yield "general.file_type", UINT32, struct.pack("<I", 32)
    for name, value in (("context_length", CONTEXT), ("embedding_length", HIDDEN), ("block_count", LAYERS),
                        ("feed_forward_length", INTER), ("attention.head_count", HEADS),
                        ("attention.head_count_kv", KV_HEADS), ("rope.dimension_count", DIM), ("vocab_size", VOCABULARY)):
        yield "llama." + name, UINT32, struct.pack("<I", value)
    yield "llama.attention.layer_norm_rms_epsilon", FLOAT32, struct.pack("<f", 1e-5)
    yield "llama.rope.freq_base", FLOAT32, struct.pack("<f", 10000.0)
    yield "tokenizer.ggml.model", STRING, text("llama")
    yield "tokenizer.ggml.tokens", ARRAY, array(STRING, words())
    yield "tokenizer.ggml.scores", ARRAY, array(FLOAT32, [-float(i) for i in range(VOCABULARY)])
    yield "tokenizer.ggml.token_type", ARRAY, array(INT32, kinds)
    for name, value in (("bos", 1), ("eos", 2), ("unknown", 0)):
        yield f"tokenizer.ggml.{name}_token_id", UINT32, struct.pack("<I", value)


def write_gguf(tensors, path):
    fields, infos, blobs, at = list(metadata()), [], [], 0
    for name, t in gguf_tensors(tensors):
        norm = t.ndim == 1  # llama.cpp keeps these in float32
        data = (t.astype(np.uint32) << 16).tobytes() if norm else t.tobytes()
        data += b"\0" * (-len(data) % 32)
        shape = t.shape[::-1]
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, F32 if norm else BF16, at))
        blobs.append(data)
        at += len(data)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(fields))
    head += b"".join(text(name) + struct.pack("<I", kind) + value for name, kind, value in fields) + b"".join(infos)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for data in blobs:
            f.write(data)


def main():
    out = sys.argv[1]
    tensors = weights()
    write_folder(tensors, out + "/1")
    write_gguf(tensors, out + "/model.gguf")


if __name__ == "__main__":
    main()
