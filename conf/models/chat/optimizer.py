"""Muon for the matrices inside the layers, AdamW for all else; one schedule for both."""
import math

import torch


def orthogonal(g):
    """About U V^T of g = U S V^T, by five steps of a quintic Newton-Schulz iteration (K. Jordan et al., Muon, 2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.t() if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        s = x @ x.t()
        x = a * x + (b * s + c * s @ s) @ x
    return (x.t() if tall else x).float()


class Optimizer:
    def __init__(self, model, steps, rate=0.02, adam_rate=0.004, warm=100):
        named = dict(model.named_parameters())
        self.matrices = [p for name, p in named.items() if p.dim() == 2 and name.startswith("layers")]
        chosen = {id(p) for p in self.matrices}
        rest = [p for p in named.values() if id(p) not in chosen]
        self.moments = [torch.zeros_like(p) for p in self.matrices]
        self.adam = torch.optim.AdamW(rest, lr=adam_rate, betas=(0.9, 0.95), weight_decay=0.01)
        self.parameters, self.steps, self.warm = list(named.values()), steps, warm
        self.rate, self.adam_rate = rate, adam_rate

    def scale(self, step):
        """Warm up, hold, and go down to nothing over the last half, along a cosine."""
        left = (self.steps - step) / (0.5 * self.steps)
        return min(1, (step + 1) / self.warm) * (0.5 - 0.5 * math.cos(math.pi * min(1, left)))

    @torch.no_grad()
    def step(self, step):
        scale = self.scale(step)
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.adam.param_groups[0]["lr"] = self.adam_rate * scale
        self.adam.step()
        for p, m in zip(self.matrices, self.moments):
            m.mul_(0.95).add_(p.grad)
            rate = self.rate * scale * max(1, p.shape[0] / p.shape[1]) ** 0.5
            p.mul_(1 - 0.01 * rate).sub_(orthogonal(p.grad + 0.95 * m), alpha=rate)
        for p in self.parameters:
            p.grad = None

    def state(self):
        return {"moments": self.moments, "adam": self.adam.state_dict()}

    def restore(self, state):
        self.moments = state["moments"]
        self.adam.load_state_dict(state["adam"])
