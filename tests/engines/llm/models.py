#!/usr/bin/python3
"""Writes the random models that transformer_test.cc and device_transformer_test.cc compare, one folder each: models.py OUT."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "reference"))
import numpy  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402

import preprocess  # noqa: E402
import random_model  # noqa: E402
import safetensors  # noqa: E402

LONGROPE = {"partial_rotary_factor": 0.75, "original_max_position_embeddings": 64, "rope_scaling": {
    "type": "longrope", "short_factor": [1 + i / 10 for i in range(6)], "long_factor": [1.5 + i for i in range(6)]}}
# name: family, dtype, positions, what config.json says beside the usual
CASES = {
    "llama": ("llama", "float32", 40, {}),
    "llama3": ("llama", "float32", 200, {"tie_word_embeddings": True, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}}),
    "bias": ("llama", "float16", 40, {"attention_bias": True, "mlp_bias": True, "head_dim": 20, "hidden_size": 72,
                                      "intermediate_size": 100, "vocab_size": 161,
                                      "rope_scaling": {"type": "linear", "factor": 2.0}}),
    "mistral": ("mistral", "float32", 220, {"sliding_window": 50, "num_key_value_heads": 1}),
    "qwen2": ("qwen2", "float32", 150, {"use_sliding_window": True, "sliding_window": 33, "max_window_layers": 1}),
    "qwen3": ("qwen3", "float32", 150, {"rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}),
    "llama_bf16": ("llama", "bfloat16", 200, {"hidden_size": 128, "intermediate_size": 256, "num_key_value_heads": 4}),
    "qwen3_bf16": ("qwen3", "bfloat16", 150, {"tie_word_embeddings": True}),
    "gemma2": ("gemma2", "float32", 60, {}),
    "gemma3": ("gemma3_text", "float32", 200, {"num_key_value_heads": 1, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    "gemma3_types": ("gemma3_text", "float32", 60, {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
                                                    "final_logit_softcapping": 3.0, "tie_word_embeddings": False}),
    "gemma3_bf16": ("gemma3_text", "bfloat16", 150, {"hidden_size": 72}),  # whose root is rounded
    "gemma3_seeing": ("gemma3_text", "float32", 40, {}),
    "phi3": ("phi3", "float32", 60, {"sliding_window": 20, "intermediate_size": 100}),
    "phi3_long": ("phi3", "float32", 200, LONGROPE),
    "phi3_bf16": ("phi3", "bfloat16", 60, {**LONGROPE, "original_max_position_embeddings": 256}),  # its short factors
    "olmo2": ("olmo2", "float32", 60, {"hidden_size": 72, "head_dim": 20, "num_key_value_heads": 1}),
    "olmo3": ("olmo3", "float32", 200, {"num_hidden_layers": 4, "sliding_window": 50, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}),
    "olmo2_bf16": ("olmo2", "bfloat16", 60, {}),
    "granite": ("granite", "float32", 60, {"embedding_multiplier": 12.0, "attention_multiplier": 0.1, "residual_multiplier": 0.22,
                                           "logits_scaling": 7.0, "attention_bias": True, "tie_word_embeddings": True}),
    "smollm3": ("smollm3", "float32", 60, {"no_rope_layer_interval": 2}),
    "smollm3_said": ("smollm3", "float32", 60, {"no_rope_layers": [0, 1, 0, 1]}),
    "mixtral": ("mixtral", "float32", 60, {"num_key_value_heads": 1}),
    "qwen2_moe": ("qwen2_moe", "float32", 60, {"mlp_only_layers": [1], "moe_intermediate_size": 37}),
    "qwen3_moe": ("qwen3_moe", "float32", 60, {"decoder_sparse_step": 2, "tie_word_embeddings": True}),
    "gemma": ("gemma", "float32", 60, {"num_key_value_heads": 1}),
    "granitemoe": ("granitemoe", "float32", 60, {}),
    "gpt_oss": ("gpt_oss", "float32", 150, {"num_attention_heads": 6, "num_key_value_heads": 2}),
    "gpt_oss_bf16": ("gpt_oss", "bfloat16", 60, {"num_local_experts": 4, "num_experts_per_tok": 4}),
    # Rounding chooses other experts here and there; this one uses all.
    "qwen3_moe_bf16": ("qwen3_moe", "bfloat16", 60, {"num_experts": 4, "num_experts_per_tok": 4, "moe_intermediate_size": 64}),
    "vision": ("llama", "float32", 40, {}),
}


def add_pictures(folder, model, said):
    """A picture of the vision encoder's size and one that has to be stretched, with what becomes of them."""
    made = numpy.random.default_rng(1)
    size = said["vision_config"]["image_size"]
    expected = {}
    for name, shape in {"same": (size, size, 3), "other": (23, 37, 3)}.items():
        image = Image.fromarray(made.integers(0, 256, shape, dtype=numpy.uint8))
        image.save(os.path.join(folder, name + ".png"))
        pixels = torch.as_tensor(preprocess.pixels(image, size)).float().reshape(1, 3, size, size)
        with torch.no_grad():
            expected[name] = model.visual(pixels)[0]
    safetensors.save(os.path.join(folder, "pictures.safetensors"), expected)


def main():
    torch.set_num_threads(1)
    for name, (family, dtype, count, more) in CASES.items():
        said = random_model.configuration(family, dtype, name == "vision")
        said.update(more)
        told = {}
        if name == "gemma3_seeing":  # the text part of a model that also sees
            said = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "eos_token_id": said.pop("eos_token_id"),
                    "text_config": said, "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152}}
            told["names"] = lambda weight: "language_model." + weight
        with torch.no_grad():
            model = random_model.write(os.path.join(sys.argv[1], name), said, count, **told)
        if name == "vision":
            add_pictures(os.path.join(sys.argv[1], name), model, said)


if __name__ == "__main__":
    main()
