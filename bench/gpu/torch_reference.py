"""What PyTorch makes of the same shapes on the same device: the column beside weir's figures.

    python3 bench/gpu/torch_reference.py cuda '1B,8B' SECONDS      # one JSON object; exit 77 without torch or a GPU

Plain bfloat16 PyTorch as one writes it by hand: torch's products and attention, a cache of fixed size, a decode step as
one CUDA graph. No paging, no batching of requests, no server.
"""

import json
import sys
import time

import weights

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    torch = None

CONTEXT = 128  # positions before the first decode step, as in gpu_check


class Decoder:
    def __init__(self, shape, device):
        self.shape, self.device = shape, device

        def random(rows, columns):
            return torch.empty(rows, columns, dtype=torch.bfloat16, device=device).normal_(0, columns ** -0.5)
        s = shape
        self.embedding = random(s.vocabulary, s.hidden)
        self.head = self.embedding if s.tied else random(s.vocabulary, s.hidden)
        self.ones = torch.ones(s.hidden, dtype=torch.bfloat16, device=device)
        self.layers = [(random((s.heads + 2 * s.kv_heads) * s.head_dim, s.hidden), random(s.hidden, s.heads * s.head_dim),
                        random(2 * s.intermediate, s.hidden), random(s.hidden, s.intermediate)) for _ in range(s.layers)]
        half = torch.arange(0, s.head_dim, 2, device=device, dtype=torch.float32) / s.head_dim
        self.frequencies = 500000.0 ** -half

    def room(self, batch, length):
        """Keys and values of `batch` sequences."""
        s = self.shape
        shape = (s.layers, 2, batch, s.kv_heads, length, s.head_dim)
        self.cache = torch.zeros(shape, dtype=torch.bfloat16, device=self.device)

    def norm(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.ones

    def turn(self, x, positions):  # [batch, count, heads, dim]
        angles = positions[:, None].float() * self.frequencies
        cos, sin = angles.cos()[None, :, None].to(x.dtype), angles.sin()[None, :, None].to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    def attend(self, q, k, v, mask):
        """q [batch, heads, count, dim]; k, v [batch, kv heads, length, dim]; mask [count, length]."""
        s = self.shape
        batch, _, count, _ = q.shape
        group = s.heads // s.kv_heads
        q = q.reshape(batch, s.kv_heads, group * count, s.head_dim)  # heads of a group beside each other
        wide = mask.repeat(group, 1)
        if hasattr(F, 'scaled_dot_product_attention'):
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=wide)
        else:
            scores = q @ k.transpose(-1, -2) * s.head_dim ** -0.5
            out = torch.softmax(scores.masked_fill(~wide, float('-inf')).float(), dim=-1).to(q.dtype) @ v
        return out.reshape(batch, s.heads, count, s.head_dim)

    def forward(self, ids, positions, mask):
        """ids [batch, count] → the likeliest next id of each sequence, [batch]."""
        s = self.shape
        batch, count = ids.shape
        x = self.embedding[ids]
        for (qkv, out, up, down), kv in zip(self.layers, self.cache):
            parts = F.linear(self.norm(x), qkv).view(batch, count, s.heads + 2 * s.kv_heads, s.head_dim)
            q, k, v = parts.split((s.heads, s.kv_heads, s.kv_heads), dim=2)
            kv[0].index_copy_(2, positions, self.turn(k, positions).transpose(1, 2))
            kv[1].index_copy_(2, positions, v.transpose(1, 2))
            seen = self.attend(self.turn(q, positions).transpose(1, 2), kv[0], kv[1], mask)
            x = x + F.linear(seen.transpose(1, 2).reshape(batch, count, -1), out)
            gate, wide = F.linear(self.norm(x), up).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * wide, down)
        return F.linear(self.norm(x[:, -1]), self.head).argmax(-1)


def wait(device):
    if device.startswith('cuda'):
        torch.cuda.synchronize()


def timed(device, work, seconds):
    """Seconds of one call, the best of some rounds."""
    for _ in range(2):
        work()
    wait(device)
    best, end = float('inf'), time.perf_counter() + seconds
    while True:
        calls, began = 8, time.perf_counter()
        for _ in range(calls):
            work()
        wait(device)
        best = min(best, (time.perf_counter() - began) / calls)
        if time.perf_counter() > end:
            return best


def decode(model, batch, length, device, seconds):
    """Tokens per second."""
    model.room(batch, length)
    ids = torch.ones(batch, 1, dtype=torch.long, device=device)
    position = torch.full((1,), length // 2, dtype=torch.long, device=device)
    all_positions = torch.arange(length, device=device)

    def step():  # stays at its position: every step costs the same
        ids.copy_(model.forward(ids, position, (all_positions <= position)[None])[:, None])
    if not device.startswith('cuda'):
        return batch / timed(device, step, seconds)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return batch / timed(device, graph.replay, seconds)


def prefill(model, count, device, seconds):
    model.room(1, count)
    ids = torch.ones(1, count, dtype=torch.long, device=device)
    positions = torch.arange(count, device=device)
    mask = positions[:, None] >= positions[None]
    return timed(device, lambda: model.forward(ids, positions, mask), seconds)


def limits(device, tiny, seconds):
    size, n = (1 << 16, 64) if tiny else (1 << 30, 8192)
    a, b = (torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2))
    yield 'copy on the device, GB/s', 2 * size / timed(device, lambda: b.copy_(a), seconds) / 1e9
    x, y = (torch.randn(n, n, dtype=torch.bfloat16 if not tiny else torch.float32, device=device) for _ in range(2))
    yield 'matmul 8192x8192x8192, TFLOP/s', 2 * n ** 3 / timed(device, lambda: x @ y, seconds) / 1e12
    if device.startswith('cuda'):
        here = torch.empty(64 * 602112, dtype=torch.uint8).pin_memory()
        there = torch.empty_like(here, device=device)
        yield 'host to device, GB/s', here.numel() / timed(
            device, lambda: there.copy_(here, non_blocking=True), seconds) / 1e9


def measure(device, names, seconds):
    out = dict(limits(device, names[0].startswith('tiny'), seconds))
    for name in names:
        shape, kind = weights.LLAMAS[name], name.split()[-1]
        tiny = name.startswith('tiny')
        model = Decoder(shape, device)
        for batch in (1, 2) if tiny else (1, 64, 256):
            out[f'{kind} decode b{batch}'] = decode(model, batch, 16 if tiny else 2 * CONTEXT, device, seconds)
        out[f'{kind} prompt of 512, ms'] = 1e3 * prefill(model, 16 if tiny else 512, device, seconds)
        del model
        if device.startswith('cuda'):
            torch.cuda.empty_cache()
    return out


def main():
    device, names, seconds = sys.argv[1], sys.argv[2].split(','), float(sys.argv[3])
    if torch is None or device.startswith('cuda') and not torch.cuda.is_available():
        sys.exit(77)
    with torch.no_grad():
        figures = measure(device, names, seconds)
    where = torch.cuda.get_device_name(0) if device.startswith('cuda') else 'cpu'
    print(json.dumps({'torch': torch.__version__, 'device': where, 'figures': figures}))


if __name__ == '__main__':
    main()
