#!/usr/bin/python3
"""Writes a tiny encoder of random weights as sentence-transformers saves one, with the reference's embeddings beside it.

    random_encoder.py --family bert --out DIR [--tokenizer [unigram]] [--set hidden_size=60]

DIR then holds config.json, model.safetensors, modules.json, 1_Pooling/config.json, with --tokenizer a tokenizer.json of
WordPieces (or XLM-R's, which needs python3-sentencepiece), and expected.safetensors: `ids`, `mask`, `types` I64 [rows, count], rows padded to the longest, and
`embeddings` F32 [rows, hidden]; of a sequence classifier (an architecture that ends in ForSequenceClassification) also
`logits` and `scores` F32 [rows, labels], of the labels that id2label names. The weights are what the file holds, rounded to its dtype; the expected values are
computed in float32 from them.
"""
import argparse
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bert  # noqa: E402
import random_model  # noqa: E402
import safetensors  # noqa: E402
import transformer  # noqa: E402
import turning_bert  # noqa: E402

MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
LENGTHS = (7, 1, 140, 16, 33)  # of the rows: less than a tile, one token, more than a chunk of attention, …


def configuration(family, dtype="float32"):
    if family in random_model.CLASS:
        return random_model.configuration(family, dtype, False)
    if family == "nomic_bert":
        return {"architectures": ["NomicBertModel"], "model_type": family, "vocab_size": 160, "n_embd": 64, "n_inner": 96, "n_layer": 3,
                "n_head": 4, "activation_function": "swiglu", "layer_norm_epsilon": 1e-12, "n_positions": 300, "type_vocab_size": 2,
                "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_scaling_factor": None, "pad_token_id": 0, "torch_dtype": dtype}
    if family == "modernbert":
        return {"architectures": ["ModernBertModel"], "model_type": family, "vocab_size": 160, "hidden_size": 64, "intermediate_size": 96,
                "num_hidden_layers": 4, "num_attention_heads": 4, "hidden_activation": "gelu", "norm_eps": 1e-5, "pad_token_id": 0,
                "max_position_embeddings": 300, "global_attn_every_n_layers": 3, "local_attention": 32, "global_rope_theta": 160000.0,
                "local_rope_theta": 10000.0, "torch_dtype": dtype}
    name = {"bert": "BertModel", "roberta": "XLMRobertaModel", "distilbert": "DistilBertModel"}[family]
    return {"architectures": [name], "model_type": family, "vocab_size": 160, "hidden_size": 64, "intermediate_size": 96,
            "num_hidden_layers": 3, "num_attention_heads": 4, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
            "max_position_embeddings": 300, "type_vocab_size": {"bert": 2, "roberta": 1, "distilbert": 0}[family],
            "pad_token_id": 1 if family == "roberta" else 0, "torch_dtype": dtype}


def randomize(model, seed):
    made = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1 and name.endswith("weight"):
                p.copy_(1 + 0.2 * torch.randn(p.shape, generator=made))
            elif p.dim() == 1:
                p.copy_(0.2 * torch.randn(p.shape, generator=made))
            else:
                spread = 1.0 if "embeddings" in name else 1.5 * p.shape[-1] ** -0.5
                p.copy_(spread * torch.randn(p.shape, generator=made))


def rows_of(vocabulary, types, pad, lengths, seed):
    made = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    mask = (torch.arange(shape[1])[None, :] < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(2, vocabulary, shape, generator=made)
    kinds = torch.randint(0, max(types, 1), shape, generator=made)
    return ids * mask + pad * (1 - mask), mask, kinds * mask


class Both(transformer.Transformer):
    """A decoder whose positions see each other in both directions."""

    def mask(self, count, window, dtype):
        return torch.zeros(count, count, dtype=dtype)


def states_of(folder, said, ids, mask, types):
    """[rows][count, hidden], rows of a decoder one by one and without their padding."""
    if turning_bert.family_of(said):
        return turning_bert.load(folder)(ids, mask, types)
    if said["architectures"][0].startswith(tuple(bert.OUTER)):
        return bert.load(folder)(ids, mask, types)
    model = transformer.load(folder)
    if said.get("use_bidirectional_attention"):
        model.__class__ = Both
    out = torch.zeros(*ids.shape, said["hidden_size"])
    for row, (text, seen) in enumerate(zip(ids, mask)):
        count = int(seen.sum())
        _, states = model(text[:count][None], states=True)
        out[row, :count] = model.model.norm(states[-1])[0]
    return out


def save_weights(folder, model, dtype, names, head={}):
    weights = {names(name): p.detach() for name, p in model.named_parameters()}
    safetensors.save(os.path.join(folder, "model.safetensors"),
                     {name: p.to(random_model.DTYPES[dtype]) for name, p in (weights | head).items()}, {"format": "pt"})


# DistilBERT's own names.
DISTIL_WEIGHTS = {"encoder.layer.": "transformer.layer.", "attention.self.query": "attention.q_lin", "attention.self.key": "attention.k_lin",
                  "attention.self.value": "attention.v_lin", "attention.output.dense": "attention.out_lin",
                  "attention.output.LayerNorm": "sa_layer_norm", "intermediate.dense": "ffn.lin1", "output.dense": "ffn.lin2",
                  "output.LayerNorm": "output_layer_norm"}
DISTIL_FIELDS = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
                 "intermediate_size": "hidden_dim", "hidden_act": "activation"}


def distil_name(name):
    for ours, theirs in DISTIL_WEIGHTS.items():
        name = name.replace(ours, theirs)
    return "distilbert." + name


def distil_fields(said):
    return {DISTIL_FIELDS.get(key, key): value for key, value in said.items() if key not in ("type_vocab_size", "layer_norm_eps")}


def save_json(value, *path):
    os.makedirs(os.path.dirname(os.path.join(*path)), exist_ok=True)
    with open(os.path.join(*path), "w") as f:
        json.dump(value, f, indent=1)


def save_steps(folder, pooling, normalize):
    steps = [("", "Transformer"), ("1_Pooling", "Pooling")] + ([("2_Normalize", "Normalize")] if normalize else [])
    save_json([{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
               for i, (path, kind) in enumerate(steps)], folder, "modules.json")
    save_json({name: how == pooling for how, name in MODES.items()}, folder, "1_Pooling/config.json")


@torch.no_grad()
def write(folder, said, pooling="mean", normalize=True, steps=True, names=lambda name: name, lengths=LENGTHS, seed=1, fields=dict):
    """`names` turns the names of parameters into those of the file, `fields` the configuration into that of the file."""
    classifies = said["architectures"][0].endswith("ForSequenceClassification")
    os.makedirs(folder, exist_ok=True)
    save_json(said, folder, "config.json")
    causal = said["architectures"][0].replace("Model", "ForCausalLM").replace("ForSequenceClassification", "ForCausalLM")
    decoder = causal in transformer.FAMILIES
    if decoder:
        plain = {**said, "architectures": [causal]}
        model = transformer.Transformer(transformer.Config(plain))
        random_model.randomize(model, seed)
    else:
        model = (turning_bert.family_of(said) or bert.Bert)(said)
        randomize(model, seed)
    save_weights(folder, model, said["torch_dtype"], lambda name: name)
    ids, mask, types = rows_of(said["vocab_size"], said.get("type_vocab_size", 0), said.get("pad_token_id", 0), lengths, seed + 1)
    if decoder:
        save_json(plain, folder, "config.json")
    states = states_of(folder, said, ids, mask, types)  # reads the usual names
    expected = {"ids": ids, "mask": mask, "types": types, "embeddings": bert.pool(states, mask, pooling, normalize)}
    head = {}
    if classifies:
        kept = random_model.DTYPES[said["torch_dtype"]]
        head = {name: p.to(kept).float() for name, p in bert.random_head(said, torch.Generator().manual_seed(seed + 2)).items()}
        expected["logits"], expected["scores"] = bert.classify(said, head, states, mask)
    save_json(fields(said), folder, "config.json")
    save_weights(folder, model, said["torch_dtype"], names, head)
    if steps and not classifies:
        save_steps(folder, pooling, normalize)
    safetensors.save(os.path.join(folder, "expected.safetensors"), expected)


def add_tokenizer(folder, kind):
    """A tokenizer.json that the tests of subprojects/tokenizers train; the model's vocabulary must be as large."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    sys.path.insert(0, os.path.join(root, "subprojects", "tokenizers", "tests"))
    import train_tokenizers
    import train_unigram
    file = {"wordpiece": train_tokenizers.bert, "unigram": train_unigram.xlm_roberta}[kind]()
    save_json(file, folder, "tokenizer.json")
    return len(file["model"]["vocab"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--family", choices=["bert", "roberta", "distilbert", "nomic_bert", "modernbert", *sorted(random_model.CLASS)], default="bert")
    parser.add_argument("--dtype", choices=sorted(random_model.DTYPES), default="float32")
    parser.add_argument("--pooling", choices=sorted(MODES), default="mean")
    parser.add_argument("--tokenizer", nargs="?", const="wordpiece", choices=["wordpiece", "unigram"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="a key of config.json")
    args = parser.parse_args()
    said = configuration(args.family, args.dtype)
    if args.tokenizer:
        said["vocab_size"] = add_tokenizer(args.out, args.tokenizer)
    for pair in args.set:
        key, _, value = pair.partition("=")
        said[key] = json.loads(value)
    torch.set_num_threads(1)
    distil = {"names": distil_name, "fields": distil_fields} if args.family == "distilbert" else {}
    write(args.out, said, args.pooling, **distil)


if __name__ == "__main__":
    main()
