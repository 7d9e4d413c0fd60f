"""An encoder of BERT's family as a GGUF file; what gguf.py is for models that make tokens. Needs numpy alone."""
import gguf

# For each architecture: names outside of layers, how layers are called, names in them.
NAMES = {
    "bert": ({"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
              "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
              "bert.pooler.dense": "cls", "classifier.dense": "cls", "classifier": "cls.output", "classifier.out_proj": "cls.output"},
             "encoder.layer.",
             {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
              "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
              "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}),
    "nomic-bert": ({"embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types", "emb_ln": "token_embd_norm"},
                   "encoder.layers.",
                   {"attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output", "norm1": "attn_output_norm", "mlp.fc11": "ffn_up",
                    "mlp.fc12": "ffn_gate", "mlp.fc2": "ffn_down", "norm2": "layer_output_norm"}),
    "modern-bert": ({"embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm", "final_norm": "output_norm",
                     "head.dense": "cls", "head.norm": "cls.norm", "classifier": "cls.output"},
                    "layers.",
                    {"attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm",
                     "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down"})}
ARCHITECTURES = {"NomicBert": "nomic-bert", "ModernBert": "modern-bert"}
POOLING = {"mean": 1, "cls": 2, "last": 3, "rank": 4}


def architecture_of(said):
    return ARCHITECTURES.get(said["architectures"][0].split("Model")[0].split("For")[0], "bert")


def renamed(name, architecture):
    outside, layers, inside = NAMES[architecture]
    core, _, kind = name.rpartition(".")
    if core in outside:
        return outside[core] + "." + kind
    layer, _, rest = core.removeprefix(layers).partition(".")
    return f"blk.{layer}.{inside[rest]}.{kind}"


def tensors_of(said, weights, kind_of):
    """`kind_of`: name -> type of a matrix in a layer. RoBERTa's positions begin at 0."""
    stored = {}
    architecture = architecture_of(said)
    for name, w in weights.items():
        for outer in ("roberta.", "model.", "bert.embeddings", "bert.encoder"):
            if name.startswith(outer):
                name = name[outer.index(".") + 1:]
        if "position_embeddings" in name and "Roberta" in said["architectures"][0]:
            w = w[said["pad_token_id"] + 1:]
        kind = kind_of(name) if w.ndim == 2 and name.startswith(NAMES[architecture][1]) else "F32"
        stored[renamed(name, architecture)] = (kind, w.shape, gguf.ENCODERS[kind](w)[0])
    return stored


def piece(token, special):
    """Words begin with the mark that Hugging Face puts before nothing; what goes on has none."""
    return token if special else token[2:] if token.startswith("##") else "\u2581" + token


def fields_of(said, words, special=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), pooling="mean"):
    """`words`: tokens by their ids, as tokenizer.json has them."""
    at = {word: i for i, word in enumerate(words)}
    fields = {**model_fields(said, pooling), "tokenizer.ggml.model": "bert", "tokenizer.ggml.pre": "default",
              "tokenizer.ggml.tokens": [piece(word, word in special) for word in words],
              "tokenizer.ggml.token_type": [3 if word in special else 1 for word in words]}
    for name, word in (("unknown", "[UNK]"), ("seperator", "[SEP]"), ("cls", "[CLS]"), ("padding", "[PAD]"), ("mask", "[MASK]")):
        if word in at:
            fields[f"tokenizer.ggml.{name}_token_id"] = at[word]
    return fields


def model_fields(said, pooling):
    a = architecture_of(said)
    get = lambda *names: next(said[name] for name in names if name in said)  # noqa: E731
    length = get("max_position_embeddings", "n_positions") - (said["pad_token_id"] + 1 if "Roberta" in said["architectures"][0] else 0)
    fields = {"context_length": length, "embedding_length": get("hidden_size", "n_embd"), "block_count": get("num_hidden_layers", "n_layer"),
              "feed_forward_length": get("intermediate_size", "n_inner"), "attention.head_count": get("num_attention_heads", "n_head"),
              "attention.layer_norm_epsilon": float(get("layer_norm_eps", "layer_norm_epsilon", "norm_eps")), "attention.causal": False}
    if pooling:
        fields["pooling_type"] = POOLING[pooling]
    if a == "nomic-bert":
        fields["rope.freq_base"] = float(said["rotary_emb_base"])
    if a == "modern-bert":
        fields.update({"rope.freq_base": said["global_rope_theta"], "rope.freq_base_swa": said["local_rope_theta"],
                       "attention.sliding_window": said["local_attention"],
                       "attention.sliding_window_pattern": said["global_attn_every_n_layers"]})
    return {"general.architecture": a, "general.name": "test", **{f"{a}.{name}": value for name, value in fields.items()},
            "tokenizer.ggml.token_type_count": said.get("type_vocab_size", 0)}


def unigram_fields(file, said, pooling):
    """Of a tokenizer.json of XLM-RoBERTa, as llama.cpp's converter writes them."""
    import base64
    pieces = file["model"]["vocab"]
    special = {token["id"] for token in file["added_tokens"]}
    kinds = [2 if i == file["model"]["unk_id"] else 3 if i in special else 1 for i in range(len(pieces))]
    fields = {**model_fields(said, pooling), "tokenizer.ggml.model": "t5", "tokenizer.ggml.pre": "default",
              "tokenizer.ggml.tokens": [piece for piece, _ in pieces], "tokenizer.ggml.scores": [float(score) for _, score in pieces],
              "tokenizer.ggml.token_type": kinds, "tokenizer.ggml.add_space_prefix": True, "tokenizer.ggml.remove_extra_whitespaces": True,
              "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}
    for name, id in (("bos", 0), ("eos", 2), ("unknown", 3), ("seperator", 2), ("padding", 1), ("cls", 0)):
        fields[f"tokenizer.ggml.{name}_token_id"] = id
    charsmap = (file.get("normalizer") or {}).get("precompiled_charsmap")
    if charsmap:
        fields["tokenizer.ggml.precompiled_charsmap"] = base64.b64decode(charsmap)
    return fields
