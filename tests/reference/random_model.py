#!/usr/bin/python3
"""Writes a tiny model of random weights as a Hugging Face folder, with the reference's logits beside it.

    random_model.py --family qwen3 --set rope_scaling='{"rope_type":"yarn","factor":4.0}' --out DIR

DIR then holds config.json, model.safetensors and expected.safetensors: `ids` I32 [count], `logits` F32
[count, vocabulary], `states` F32 [layers, count, hidden] (the residual stream after each layer), `last` F32
[count, hidden] (after the final norm); with --vision also `pixels` F32 [1, 3, S, S] and `features` F32 [N, hidden].
The weights are what the file holds, rounded to --dtype; the expected values are computed in float32 from them.
"""
import argparse
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors  # noqa: E402
import transformer  # noqa: E402

CLASS = {family: name for name, family in transformer.FAMILIES.items()}
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def configuration(family, dtype, vision):
    said = {"architectures": [CLASS[family]], "model_type": family, "vocab_size": 160, "hidden_size": 64,
            "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
            "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 256,
            "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": dtype}
    if family in ("qwen3", "qwen3_moe"):
        said.update(head_dim=32, attention_bias=False)  # not hidden / heads, as in the published models
    if family == "gemma":
        said.update(head_dim=32, hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True)
    if family in ("granitemoe", "gpt_oss"):
        said.update(num_local_experts=6, num_experts_per_tok=3)
    if family == "granitemoe":
        said.update(embedding_multiplier=12.0, attention_multiplier=0.1, residual_multiplier=0.22, logits_scaling=7.0,
                    tie_word_embeddings=True)
    if family == "gpt_oss":
        said.update(head_dim=32, attention_bias=True, sliding_window=20, swiglu_limit=7.0, num_hidden_layers=4, rope_theta=150000.0,
                    rope_scaling={"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                                  "original_max_position_embeddings": 64})
    if family == "mixtral":
        said.update(num_local_experts=6, num_experts_per_tok=2)
    if family in ("qwen2_moe", "qwen3_moe"):
        said.update(num_experts=10, num_experts_per_tok=3, moe_intermediate_size=40, norm_topk_prob=family == "qwen3_moe")
    if family == "qwen2_moe":
        said.update(shared_expert_intermediate_size=56)
    if family in ("gemma2", "gemma3_text"):
        said.update(head_dim=32, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=24, sliding_window=20,
                    tie_word_embeddings=True)
        del said["hidden_act"]
    if family == "gemma2":
        said.update(attn_logit_softcapping=4.0, final_logit_softcapping=3.0)
    if family == "gemma3_text":
        said.update(rope_theta=1e6, rope_local_base_freq=1e4, sliding_window_pattern=3)
    if vision:
        said.update(vision_start_token_id=3, image_token_id=4, vision_end_token_id=5,
                    vision_config={"image_size": 16, "patch_size": 4, "hidden_size": 32, "depth": 2, "num_heads": 4,
                                   "intermediate_size": 48})
    return said


def randomize(model, seed):
    """Weights of about the size that trained ones have, and norms and biases that are not trivial."""
    made = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                p.copy_((0 if model.config.gemma else 1) + 0.2 * torch.randn(p.shape, generator=made))
            elif p.dim() == 1 or name.endswith("_bias"):
                p.copy_(0.2 * torch.randn(p.shape, generator=made))
            else:
                spread = 1.0 if "embed_tokens" in name else p.shape[-1] ** -0.5
                if name.endswith("experts.gate_up_proj"):
                    spread = 0.4  # some of them are held within their limit
                p.copy_(spread * torch.randn(p.shape, generator=made))


def prompt(model, count, seed):
    ids = torch.randint(6, model.config.vocabulary, (1, count), generator=torch.Generator().manual_seed(seed + 1))
    if model.config.vision:
        pads = model.visual.pos_embed.shape[0]
        ids[0, 2:pads + 4] = torch.tensor([3] + [4] * pads + [5])
    return ids


@torch.no_grad()
def write(folder, said, count=40, seed=1, names=lambda name: name):
    """The folder of a random model for what `said` (a config.json) describes, and expected.safetensors.

    `names` makes the file's names of the weights of the reference's.
    """
    os.makedirs(folder, exist_ok=True)
    model = transformer.Transformer(transformer.Config(said))
    randomize(model, seed)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(said, f, indent=1)
    dtype = DTYPES[said.get("text_config", said)["torch_dtype"]]
    safetensors.save(os.path.join(folder, "model.safetensors"),
                     {names(name): p.detach().to(dtype) for name, p in model.named_parameters()}, {"format": "pt"})
    model = transformer.load(folder)  # in float32, from the rounded weights
    ids = prompt(model, count, seed)
    expected, pixels = {"ids": ids[0].int()}, None
    if model.config.vision:
        size = said["vision_config"]["image_size"]
        pixels = torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(seed + 2)) * 2 - 1
        expected.update(pixels=pixels, features=model.visual(pixels)[0])
    logits, states = model(ids, pixels, states=True)
    expected.update(logits=logits[0], states=torch.cat(states), last=model.model.norm(states[-1])[0])
    safetensors.save(os.path.join(folder, "expected.safetensors"), expected)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--family", choices=sorted(CLASS), default="llama")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="float32")
    parser.add_argument("--vision", action="store_true")
    parser.add_argument("--count", type=int, default=40, help="positions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="a key of config.json")
    args = parser.parse_args()
    said = configuration(args.family, args.dtype, args.vision)
    for pair in args.set:
        key, _, value = pair.partition("=")
        said[key] = json.loads(value)
    torch.set_num_threads(1)
    write(args.out, said, args.count, args.seed)


if __name__ == "__main__":
    main()
