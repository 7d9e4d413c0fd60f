#!/usr/bin/python3
"""Writes random models as GGUF files, one folder each, beside the Hugging Face folder of the same numbers: gguf_models.py OUT."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "reference"))
import torch  # noqa: E402

import gguf  # noqa: E402
import random_model  # noqa: E402
import safetensors  # noqa: E402
import transformer  # noqa: E402

SEED = 9
LONGROPE = {"partial_rotary_factor": 0.75, "rope_scaling": {
    "type": "longrope", "short_factor": [1 + i / 8 for i in range(6)], "long_factor": [1.5 + i for i in range(6)]}}
WIDE = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2}  # blocks have 256 numbers
# name: family, the type of a matrix by its name, what config.json says beside the usual
CASES = {kind.lower(): ("llama", lambda name, kind=kind: kind, WIDE) for kind in gguf.ENCODERS}
CASES.update({
    # As llama.cpp mixes them.
    "mixed": ("llama", lambda name: "Q6_K" if "lm_head" in name or "v_proj" in name else "Q4_K", WIDE),
    "tied": ("llama", lambda name: "F32", {"tie_word_embeddings": True, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}}),
    "bias": ("llama", lambda name: "F32", {"attention_bias": True, "mlp_bias": True, "head_dim": 20, "hidden_size": 72,
                                           "intermediate_size": 100, "rope_scaling": {"type": "linear", "factor": 2.0}}),
    "mistral": ("mistral", lambda name: "F32", {"sliding_window": 20, "num_key_value_heads": 1}),
    "qwen2": ("qwen2", lambda name: "F32", {}),
    "qwen3": ("qwen3", lambda name: "F32", {"rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}),
    "mixtral": ("mixtral", lambda name: "F32", {}),
    "qwen2_moe": ("qwen2_moe", lambda name: "F32", {}),
    "qwen3_moe": ("qwen3_moe", lambda name: "Q4_K" if ".experts." in name else "F32", {
        **WIDE, "moe_intermediate_size": 256, "num_experts": 4, "num_experts_per_tok": 2}),
    # Queries are scaled by the size of a head, which is what llama.cpp takes for all but the largest.
    "gemma2": ("gemma2", lambda name: "F32", {"query_pre_attn_scalar": 32}),
    "gemma3": ("gemma3_text", lambda name: "F32", {"query_pre_attn_scalar": 32, "rope_local_base_freq": 500.0,
                                                   "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    "gemma3_types": ("gemma3_text", lambda name: "F32", {
        "query_pre_attn_scalar": 32, "final_logit_softcapping": 3.0, "tie_word_embeddings": False,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"]}),
    "gemma3_coded": ("gemma3_text", lambda name: "F32" if "embed" in name else "Q4_K", {
        **WIDE, "num_attention_heads": 8, "query_pre_attn_scalar": 32}),
    "phi3": ("phi3", lambda name: "F32", {"sliding_window": 20, "intermediate_size": 100}),
    "phi3_long": ("phi3", lambda name: "F32", {**LONGROPE, "original_max_position_embeddings": 64}),
    "phi3_short": ("phi3", lambda name: "F32", {**LONGROPE, "original_max_position_embeddings": 256}),
    "phi3_coded": ("phi3", lambda name: "Q4_K", WIDE),
    "granite": ("granite", lambda name: "F32", {
        "embedding_multiplier": 12.0, "attention_multiplier": 0.1, "residual_multiplier": 0.22, "logits_scaling": 7.0,
        "attention_bias": True, "tie_word_embeddings": True}),
    "olmo2": ("olmo2", lambda name: "F32", {"num_key_value_heads": 1}),
    "olmo3": ("olmo3", lambda name: "F32", {"num_hidden_layers": 4, "sliding_window": 20, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}),
    "gemma": ("gemma", lambda name: "F32", {}),
    "granitemoe": ("granitemoe", lambda name: "F32", {}),
    "gpt_oss": ("gpt_oss", lambda name: "F32", {}),
    "gpt_oss_mxfp4": ("gpt_oss", lambda name: "MXFP4" if ".experts." in name else "F32", {"intermediate_size": 64}),
    "smollm3": ("smollm3", lambda name: "F32", {"num_hidden_layers": 4, "tie_word_embeddings": True}),
})


def write(folder, family, kind_of, more):
    os.makedirs(folder)
    said = {**random_model.configuration(family, "float32", False), **more}
    model = transformer.Transformer(transformer.Config(said))
    random_model.randomize(model, SEED)
    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    stored, numbers = gguf.tensors_of(said, weights, kind_of)
    scaling = said.get("rope_scaling") or {}
    if scaling.get("rope_type") == "llama3":
        factors = gguf.factors_of(scaling, said["hidden_size"] // said["num_attention_heads"], said["rope_theta"])
        stored["rope_freqs.weight"] = ("F32", factors.shape, factors.tobytes())
    fields = {**gguf.fields_of(said), "tokenizer.ggml.eos_token_id": said["eos_token_id"]}
    gguf.write(os.path.join(folder, "model.gguf"), fields, stored)
    parts = [dict(list(stored.items())[i::2]) for i in range(2)]
    for i, part in enumerate(parts if folder.endswith("mixed") else []):
        place = {"split.no": i, "split.count": 2, "split.tensors.count": len(stored)}
        gguf.write(os.path.join(folder, f"split-0000{i + 1}-of-00002.gguf"), {**(fields if i == 0 else {}), **place}, part)
    for name, p in model.named_parameters():
        p.copy_(torch.from_numpy(numbers[name].copy()))
    safetensors.save(os.path.join(folder, "model.safetensors"), dict(model.named_parameters()), {"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(said, f, indent=1)
    ids = random_model.prompt(model, 40, SEED)
    safetensors.save(os.path.join(folder, "expected.safetensors"), {"ids": ids[0].int(), "logits": model(ids)[0]})


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    for name, (family, kind_of, more) in CASES.items():
        write(os.path.join(sys.argv[1], name), family, kind_of, more)


if __name__ == "__main__":
    main()
