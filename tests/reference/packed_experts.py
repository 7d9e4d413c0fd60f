"""Mixtures whose experts lie in one parameter each, as published: granitemoe and gpt-oss.

    granitemoe  Granite 3.0 Language Models: a softmax over the scores of those that a position goes to
    gpt-oss     gpt-oss-120b & gpt-oss-20b Model Card, arXiv 2508.10925: biases everywhere; gates and ups lie in turn, are
                held within a limit, and a gate is x sigmoid(1.702 x), times its up and 1
"""
import torch
from torch import nn
from torch.nn import functional as F


def shares(scores, used):
    best, at = scores.float().topk(used, dim=-1)
    return torch.zeros_like(scores, dtype=torch.float32).scatter(-1, at, F.softmax(best, dim=-1))


class GraniteMixture(nn.Module):
    def __init__(self, c, count):
        super().__init__()
        self.used = c.experts_used
        self.input_linear, self.output_linear, self.router = nn.Module(), nn.Module(), nn.Module()
        self.input_linear.weight = nn.Parameter(torch.zeros(count, 2 * c.expert_width, c.hidden))
        self.output_linear.weight = nn.Parameter(torch.zeros(count, c.hidden, c.expert_width))
        self.router.layer = nn.Linear(c.hidden, count, bias=False)

    def forward(self, x):
        share = shares(self.router.layer(x), self.used).to(x.dtype)
        out = 0
        for e, (wide, narrow) in enumerate(zip(self.input_linear.weight, self.output_linear.weight)):
            gate, up = F.linear(x, wide).chunk(2, -1)
            out = out + share[..., e:e + 1] * F.linear(F.silu(gate) * up, narrow)
        return out


class GptOssMixture(nn.Module):
    def __init__(self, c, count):
        super().__init__()
        self.used = c.experts_used
        self.router = nn.Linear(c.hidden, count)
        self.experts = nn.Module()
        self.experts.gate_up_proj = nn.Parameter(torch.zeros(count, c.hidden, 2 * c.expert_width))
        self.experts.gate_up_proj_bias = nn.Parameter(torch.zeros(count, 2 * c.expert_width))
        self.experts.down_proj = nn.Parameter(torch.zeros(count, c.expert_width, c.hidden))
        self.experts.down_proj_bias = nn.Parameter(torch.zeros(count, c.hidden))

    def forward(self, x):
        share = shares(self.router(x), self.used).to(x.dtype)
        all_of = self.experts
        out = 0
        for e in range(share.shape[-1]):
            both = x @ all_of.gate_up_proj[e] + all_of.gate_up_proj_bias[e]
            gate, up = both[..., ::2].clamp(max=7), both[..., 1::2].clamp(-7, 7)
            inner = (up + 1) * gate * torch.sigmoid(1.702 * gate)
            out = out + share[..., e:e + 1] * (inner @ all_of.down_proj[e] + all_of.down_proj_bias[e])
        return out
