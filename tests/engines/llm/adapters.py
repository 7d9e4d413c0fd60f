#!/usr/bin/python3
"""Writes random models with LoRA adapters in PEFT's form, one folder each: adapters.py OUT.

OUT/MODEL is a model (tests/reference/random_model.py); OUT/MODEL/adapters/NAME an adapter of it, and
OUT/MODEL/NAME.safetensors the reference's logits with W + scale * B A in place of each matrix that it changes. Of "served"
there are a tokenizer and whole folders of these weights beside: OUT/served_NAME.
"""
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "reference"), os.path.join(HERE, "..", "..", "e2e")]
import torch  # noqa: E402

import random_model  # noqa: E402
import safetensors  # noqa: E402
import tiny_model  # noqa: E402
import transformer  # noqa: E402

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ATTENTION, FUSED = ALL[:4], ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]
# name: what adapter_config.json says beside the usual
WHOLE = {"r": 8, "lora_alpha": 16, "target_modules": ALL}
ADAPTERS = {
    "whole": WHOLE,
    "thin": {"r": 4, "lora_alpha": 6, "use_rslora": True, "target_modules": ["q_proj", "v_proj"]},
    "odd": {"r": 20, "lora_alpha": 12, "target_modules": ["k_proj", "up_proj", "mlp.down_proj"], "layers_to_transform": [0, 2],
            "rank_pattern": {"k_proj": 3, "layers.2.mlp.up_proj": 33}, "alpha_pattern": {"down_proj": 50}},
    "pattern": {"r": 16, "lora_alpha": 16, "target_modules": r".*\.1\.self_attn\.[ov]_proj"},
}
# name: family, dtype, what config.json says beside the usual, adapters
CASES = {
    "llama": ("llama", "float32", {}, ADAPTERS),
    "llama_bf16": ("llama", "bfloat16", {"hidden_size": 128, "intermediate_size": 256}, ADAPTERS),
    "bias": ("llama", "float16", {"attention_bias": True, "mlp_bias": True, "head_dim": 20, "hidden_size": 72,
                                  "intermediate_size": 100}, ADAPTERS),
    "served": ("llama", "float32", {"vocab_size": tiny_model.VOCABULARY}, ADAPTERS),
    "qwen3": ("qwen3", "float32", {}, {"whole": WHOLE}),
    "gemma2": ("gemma2", "float32", {}, {"whole": WHOLE}),
    "olmo2": ("olmo2", "float32", {}, {"whole": WHOLE}),
    "granite": ("granite", "float32", {"embedding_multiplier": 12.0, "attention_multiplier": 0.1, "residual_multiplier": 0.22,
                                       "logits_scaling": 7.0}, {"whole": WHOLE}),
    "phi3": ("phi3", "float32", {}, {"whole": {**WHOLE, "target_modules": FUSED}}),
    "mixtral": ("mixtral", "float32", {}, {"whole": {**WHOLE, "target_modules": ATTENTION}}),
}


def value(patterns, module, otherwise):
    return next((v for key, v in patterns.items() if ("." + module).endswith("." + key)), otherwise)


def changes(said, module):
    layer = int(module.split(".")[2])
    if layer not in said.get("layers_to_transform", [layer]):
        return False
    targets = said["target_modules"]
    if isinstance(targets, str):
        return ".1.self_attn." in module and module[-6] in "ov"  # the pattern above
    return any(("." + module).endswith("." + target) for target in targets)


@torch.no_grad()
def write(folder, model, said, seed):
    """An adapter of the model, which is then the merged one."""
    os.makedirs(folder)
    made, arrays = torch.Generator().manual_seed(seed), {}
    for name, p in model.named_parameters():
        module = name.removesuffix(".weight")
        if ".layers." not in name or "experts" in name or p.dim() != 2 or not changes(said, module):
            continue
        r = value(said.get("rank_pattern", {}), module, said["r"])
        alpha = value(said.get("alpha_pattern", {}), module, said["lora_alpha"])
        a = torch.randn(r, p.shape[1], generator=made) * p.shape[1] ** -0.5
        b = torch.randn(p.shape[0], r, generator=made) * 0.3 * r ** -0.5
        arrays[f"base_model.model.{module}.lora_A.weight"] = a
        arrays[f"base_model.model.{module}.lora_B.weight"] = b
        p += alpha / (r ** 0.5 if said.get("use_rslora") else r) * b @ a
    safetensors.save(os.path.join(folder, "adapter_model.safetensors"), arrays, {"format": "pt"})
    usual = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none", "lora_dropout": 0.05, "modules_to_save": None,
             "use_dora": False, "use_rslora": False, "fan_in_fan_out": False, "init_lora_weights": True,
             "rank_pattern": {}, "alpha_pattern": {}, "layers_to_transform": None, "base_model_name_or_path": "somewhere"}
    with open(os.path.join(folder, "adapter_config.json"), "w") as f:
        json.dump({**usual, **said}, f, indent=1)


def serve(folder, out, model):
    """The same folder with the model's weights, which a server can load."""
    os.makedirs(out, exist_ok=True)
    if out != folder:
        shutil.copy(os.path.join(folder, "config.json"), out)
        safetensors.save(os.path.join(out, "model.safetensors"), {name: p.detach() for name, p in model.named_parameters()})
    with open(os.path.join(out, "tokenizer.json"), "w") as f:
        json.dump(tiny_model.TOKENIZER, f)


def main():
    torch.set_num_threads(1)
    for name, (family, dtype, more, adapters) in CASES.items():
        said, folder = random_model.configuration(family, dtype, False), os.path.join(sys.argv[1], name)
        said.update(more)
        with torch.no_grad():
            random_model.write(folder, said, 50)
        ids = safetensors.load(os.path.join(folder, "expected.safetensors"))["ids"]
        for seed, (adapter, how) in enumerate(adapters.items()):
            model = transformer.load(folder)
            write(os.path.join(folder, "adapters", adapter), model, how, seed)
            if name == "served":
                serve(folder, folder, None), serve(folder, folder + "_" + adapter, model)
            with torch.no_grad():
                logits = model(ids[None].long())
            logits = logits[0] if isinstance(logits, tuple) else logits
            safetensors.save(os.path.join(folder, adapter + ".safetensors"), {"ids": ids, "logits": logits[0]})


if __name__ == "__main__":
    main()
