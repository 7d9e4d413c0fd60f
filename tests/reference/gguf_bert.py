"""An encoder of BERT's family as a GGUF file; what gguf.py is for models that make tokens. Needs numpy alone."""
import gguf

OUTSIDE = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
           "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}
IN_LAYER = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
            "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
            "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
POOLING = {"mean": 1, "cls": 2, "last": 3}


def renamed(name):
    core, _, kind = name.rpartition(".")
    if core in OUTSIDE:
        return OUTSIDE[core] + "." + kind
    layer, _, rest = core.removeprefix("encoder.layer.").partition(".")
    return f"blk.{layer}.{IN_LAYER[rest]}.{kind}"


def tensors_of(weights, kind_of):
    """`kind_of`: name -> type of a matrix in a layer."""
    stored = {}
    for name, w in weights.items():
        kind = kind_of(name) if w.ndim == 2 and name.startswith("encoder.") else "F32"
        stored[renamed(name)] = (kind, w.shape, gguf.ENCODERS[kind](w)[0])
    return stored


def piece(token, special):
    """Words begin with the mark that Hugging Face puts before nothing; what goes on has none."""
    return token if special else token[2:] if token.startswith("##") else "\u2581" + token


def fields_of(said, words, special=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), pooling="mean"):
    """`words`: tokens by their ids, as tokenizer.json has them."""
    at = {word: i for i, word in enumerate(words)}
    fields = {"general.architecture": "bert", "general.name": "test", "bert.context_length": said["max_position_embeddings"],
              "bert.embedding_length": said["hidden_size"], "bert.block_count": said["num_hidden_layers"],
              "bert.feed_forward_length": said["intermediate_size"], "bert.attention.head_count": said["num_attention_heads"],
              "bert.attention.layer_norm_epsilon": float(said["layer_norm_eps"]), "bert.attention.causal": False,
              "bert.pooling_type": POOLING[pooling], "tokenizer.ggml.model": "bert", "tokenizer.ggml.pre": "default",
              "tokenizer.ggml.token_type_count": said["type_vocab_size"],
              "tokenizer.ggml.tokens": [piece(word, word in special) for word in words],
              "tokenizer.ggml.token_type": [3 if word in special else 1 for word in words]}
    for name, word in (("unknown", "[UNK]"), ("seperator", "[SEP]"), ("cls", "[CLS]"), ("padding", "[PAD]"), ("mask", "[MASK]")):
        if word in at:
            fields[f"tokenizer.ggml.{name}_token_id"] = at[word]
    return fields
