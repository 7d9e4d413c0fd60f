#!/usr/bin/python3
"""Writes random models in the forms that quantized checkpoints have, one folder each: quantized.py OUT.

The expected values beside each (tests/reference/random_model.py) are those of what its codes stand for, in float32.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "reference"))
import torch  # noqa: E402

import random_model  # noqa: E402
import safetensors  # noqa: E402
import transformer  # noqa: E402

SEED = 5
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def words(codes, bits):
    """[n][m] codes, as many as fit in each int32 along the second dimension, the first lowest."""
    n = 32 // bits
    codes = torch.nn.functional.pad(codes.long(), (0, -codes.shape[1] % n)).reshape(codes.shape[0], -1, n)
    packed = (codes << torch.arange(0, 32, bits)).sum(-1)
    return torch.where(packed >= 1 << 31, packed - (1 << 32), packed).int()


class Grid:
    """Integer codes of a matrix [outputs][inputs], with a scale and a zero point for each output's group of inputs."""

    def __init__(self, w, bits, group, symmetric, order=None):
        inputs, group = w.shape[1], group if group > 0 else w.shape[1]
        self.index = torch.arange(inputs) // group if order is None else order
        groups, most = int(self.index.max()) + 1, (1 << bits) - 1
        self.scale, self.zero = torch.empty(w.shape[0], groups), torch.empty(w.shape[0], groups)
        for g in range(groups):
            part = w[:, self.index == g]
            if symmetric:
                self.scale[:, g] = part.abs().amax(1) / (most // 2)
                self.zero[:, g] = 1 << (bits - 1)
            else:
                low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
                self.scale[:, g] = (high - low) / most
                self.zero[:, g] = (-low / self.scale[:, g]).round()
        self.scale = self.scale.half().float()
        scale, zero = self.scale[:, self.index], self.zero[:, self.index]
        self.codes = ((w / scale).round() + zero).clamp(0, most)
        self.numbers = (self.codes - zero) * scale


def gptq(w, bits=4, group=32, symmetric=True, version=1, mixed=False):
    order = None
    if mixed:
        order = (torch.arange(w.shape[1]) // group)[torch.randperm(w.shape[1], generator=torch.Generator().manual_seed(3))]
    g = Grid(w, bits, group, symmetric, order)
    zeros = (g.zero - (1 if version == 1 else 0)) % (1 << bits)
    parts = {"qweight": words(g.codes, bits).t(), "qzeros": words(zeros.t(), bits), "scales": g.scale.t().half(),
             "g_idx": g.index.int()}
    return g.numbers, parts


def awq(w, group=32):
    g = Grid(w, 4, group, False)
    places = torch.arange(w.shape[0]).reshape(-1, 8)[:, AWQ_ORDER].reshape(-1)
    return g.numbers, {"qweight": words(g.codes.t()[:, places], 4), "qzeros": words(g.zero.t()[:, places], 4),
                       "scales": g.scale.t().half()}


def packed(w, bits=4, group=32, symmetric=True):
    g = Grid(w, bits, group, symmetric)
    parts = {"weight_packed": words(g.codes, bits), "weight_scale": g.scale.half(),
             "weight_shape": torch.tensor(w.shape)}
    if not symmetric:
        parts["weight_zero_point"] = words(g.zero.t(), bits).t()
    return g.numbers, parts


def int8(w):
    g = Grid(w, 8, -1, True)
    return g.numbers, {"weight": (g.codes - 128).to(torch.int8), "weight_scale": g.scale.half()}


# All numbers of E4M3, by their codes; 0x7f and 0xff are none.
FP8 = torch.tensor([(-1 if c & 128 else 1) * ((c & 7) / 8 * 2.0 ** -6 if c & 120 == 0 else (1 + (c & 7) / 8) *
                                              2.0 ** ((c >> 3 & 15) - 7)) for c in range(256)])


def fp8(w, block):
    """`block`: (outputs, inputs) that share a scale; the last ones may be smaller."""
    rows, columns = (min(block[0], w.shape[0]), min(block[1], w.shape[1]))
    index = (torch.arange(w.shape[0]) // rows)[:, None], (torch.arange(w.shape[1]) // columns)[None, :]
    scale = torch.tensor([[w[a:a + rows, b:b + columns].abs().max() / 448 for b in range(0, w.shape[1], columns)]
                          for a in range(0, w.shape[0], rows)])
    spread = scale[index[0], index[1]]
    known = FP8[[c for c in range(256) if c & 127 != 127]]
    codes = torch.tensor([c for c in range(256) if c & 127 != 127])[((w / spread)[..., None] - known).abs().argmin(-1)]
    return FP8[codes] * spread, codes.to(torch.uint8), scale


def fp8_blocks(w):
    numbers, codes, scale = fp8(w, (32, 32))
    return numbers, {"weight": codes, "weight_scale_inv": scale}


def fp8_channels(w):
    numbers, codes, scale = fp8(w, (1, 1 << 20))
    return numbers, {"weight": codes, "weight_scale": scale}


def fp8_tensor(w):
    numbers, codes, scale = fp8(w, (1 << 20, 1 << 20))
    return numbers, {"weight": codes, "weight_scale": scale.reshape(())}


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def mxfp4(w):
    """[…][inputs]: 32 neighbours share an exponent; the first of two numbers in a byte is the lower half."""
    b = w.reshape(*w.shape[:-1], -1, 32)
    exponent = (b.abs().amax(-1) / 6).log2().ceil().clamp(-20, 20)
    scale = torch.exp2(exponent)[..., None]
    at = ((b.abs() / scale)[..., None] - E2M1).abs().argmin(-1)
    codes = at + 8 * (b < 0)
    return (E2M1[at] * b.sign() * scale).reshape(w.shape), {
        "blocks": (codes[..., ::2] | codes[..., 1::2] << 4).to(torch.uint8), "scales": (exponent + 127).to(torch.uint8)}


def compressed(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"type": "int", "dynamic": False, **weights}}}}


ODD = {"hidden_size": 72, "intermediate_size": 100, "head_dim": 20}
# name: quantization, its quantization_config, what config.json says beside the usual
CASES = {
    "gptq": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}, {}),
    "gptq_zeros": (lambda w: gptq(w, symmetric=False), {"quant_method": "gptq", "bits": 4, "group_size": 32}, {}),
    "gptq_v2": (lambda w: gptq(w, symmetric=False, version=2),
                {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"}, {}),
    "gptq_mixed": (lambda w: gptq(w, mixed=True),
                   {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True}, {}),
    "gptq_8": (lambda w: gptq(w, bits=8, group=-1), {"quant_method": "gptq", "bits": 8, "group_size": -1}, {}),
    "gptq_8_zeros": (lambda w: gptq(w, bits=8, symmetric=False),
                     {"quant_method": "gptq", "bits": 8, "group_size": 32}, {}),
    "gptq_fused": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True},
                   {"architectures": ["Phi3ForCausalLM"], "intermediate_size": 160}),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}, {}),
    "packed": (packed, compressed("pack-quantized", num_bits=4, group_size=32, strategy="group"), {}),
    "packed_odd": (lambda w: packed(w, group=-1), compressed("pack-quantized", num_bits=4, strategy="channel"), ODD),
    "packed_zeros": (lambda w: packed(w, symmetric=False),
                     compressed("pack-quantized", num_bits=4, group_size=32, symmetric=False), {}),
    "packed_8": (lambda w: packed(w, bits=8, group=-1), compressed("pack-quantized", num_bits=8, group_size=-1), {}),
    "int8": (int8, compressed("int-quantized", num_bits=8, strategy="channel"), {}),
    "fp8_blocks": (fp8_blocks, {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [32, 32]},
                   {"intermediate_size": 100}),
    "fp8_channels": (fp8_channels, compressed("float-quantized", num_bits=8, strategy="channel"), ODD),
    "fp8_tensor": (fp8_tensor, {"quant_method": "fp8", "activation_scheme": "static"}, {}),
}


def write(folder, quantize, said):
    os.makedirs(folder)
    model = transformer.Transformer(transformer.Config(said))
    random_model.randomize(model, SEED)
    stored, fp8_names = {}, []
    for name, p in model.named_parameters():
        if p.dim() == 2 and ".layers." in name:
            numbers, parts = quantize(p.detach())
            p.copy_(numbers)
            for part, tensor in parts.items():
                stored[name[:-len("weight")] + part] = tensor
                if tensor.dtype == torch.uint8:
                    fp8_names.append(name[:-len("weight")] + part)
        else:
            p.copy_(p.half().float())
            stored[name] = p.detach().half()
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(said, f, indent=1)
    safetensors.save(os.path.join(folder, "model.safetensors"), stored, {"format": "pt"}, {n: "F8_E4M3" for n in fp8_names})
    ids = random_model.prompt(model, 40, SEED)
    safetensors.save(os.path.join(folder, "expected.safetensors"), {"ids": ids[0].int(), "logits": model(ids)[0]})


def write_mxfp4(folder, said):
    """gpt-oss as it is published: the experts alone are in fewer bits."""
    os.makedirs(folder)
    model = transformer.Transformer(transformer.Config(said))
    random_model.randomize(model, SEED)
    stored = {}
    for name, p in model.named_parameters():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            numbers, parts = mxfp4(p.detach().transpose(1, 2).contiguous())
            p.copy_(numbers.transpose(1, 2))
            stored.update({f"{name}_{part}": tensor for part, tensor in parts.items()})
        else:
            p.copy_(p.bfloat16().float())
            stored[name] = p.detach().bfloat16()
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(said, f, indent=1)
    safetensors.save(os.path.join(folder, "model.safetensors"), stored, {"format": "pt"})
    ids = random_model.prompt(model, 40, SEED)
    safetensors.save(os.path.join(folder, "expected.safetensors"), {"ids": ids[0].int(), "logits": model(ids)[0]})


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    for name, (quantize, config, more) in CASES.items():
        said = random_model.configuration("llama", "float16", False)
        said.update(more, quantization_config=config)
        write(os.path.join(sys.argv[1], name), quantize, said)
    said = random_model.configuration("gpt_oss", "bfloat16", False)
    said.update(quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
                num_local_experts=4, num_experts_per_tok=4)  # rounding chooses no others
    write_mxfp4(os.path.join(sys.argv[1], "mxfp4"), said)


if __name__ == "__main__":
    main()
