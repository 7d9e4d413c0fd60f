"""`./dev gpu estimate`: what H1 to H8 should come to on a GPU, on paper, so that a first run on one can be held against it.

usage: estimate.py [--gpu h100] [--kernel-us 2.6] [--early-us 1.3] [--results build-cuda/gpu-results.json]

Prints, for each goal, the goal, the estimate, what the time consists of (largest first), and with --results what was measured.

time of a step   = max(weights / bandwidth, work / arithmetic) + keys and values / bandwidth + kernels × launch + draws
    weights      bytes of all products, read once; work: 2 per weight and row, and per token of a prompt that is with them
    keys, values read by decode attention, at a share of the bandwidth that its occupancy gives (kernels.py)
    kernels      of a layer: five for one or two rows (norm with its product, attention with its rotation and its merge,
                 product, norm with gates and SwiGLU, product), eight for more rows of one token, nine for prompts; of
                 mixtures of experts nine for up to four rows and eleven for more
    codes        layers quantized at load read 8.25 and 5 bits of a weight (int8, int4), in place of 16
    experts      of mixtures: those that rows choose, where a router chooses each as often as another, at a share of the
                 bandwidth
    launch       from the end of one kernel of a graph to the full speed of the next: 1.3 us between them, and as much to
                 fill and drain the device; where all kernels are ours (up to two rows) the first of both passes
                 beside the kernel before (programmatic dependent launch)
    draws        the logits are read `DRAW_PASSES` times, with top-p `TOP_P_PASSES` times
on several GPUs  weights of layers, keys and values are divided by their number, the output matrix is not; and there are
    sums         one before the first layer and two of each layer, of a row's width in float32: a fixed time, and the link
of a prompt      = work / arithmetic + kernels × launch + wake-up of the thread that waits

The assumptions are below, with where they come from. None was measured here.
"""

import argparse
import dataclasses
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import table  # noqa: E402
import weights  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Gpu:
    bandwidth: float   # bytes/s, as on the data sheet
    arithmetic: float  # bfloat16 FLOP/s of a large product, as measured by others (about two thirds of the data sheet)
    link: float        # bytes/s from pinned memory, one way
    both_ways: float


GPUS = {'h100': Gpu(3.35e12, 620e12, 54.8e9, 83.4e9), 'h200': Gpu(4.8e12, 640e12, 54.8e9, 83.4e9),
        'a100': Gpu(2.04e12, 250e12, 25e9, 40e9)}

STREAMED = 0.92     # of the bandwidth that the thin products reach: one read, no reuse
ATTENTION = 0.85    # of it that decode attention reaches: 96 KiB on their way on each multiprocessor, where 20 would do
CODED = 0.4         # of a large product's arithmetic that mma.sync reaches where codes are expanded beside it (guessed)
EXPERTS = 0.75      # of it that products by expert reach: two short kernels for each layer, of which none begins early
PAIR_ROWS = 4       # expert_kernels.h kPairRows
PROMPTS = 0.85      # of a large product's arithmetic that a step of prompts reaches: attention, norms, small products
# The share of a large product's arithmetic that attention of a prompt reaches, by kernel and dimensions. The paper on
# FlashAttention-3 has about these for FlashAttention-2 and -3, causal, with 2k positions; neither of ours was measured.
PREFILL = {('mma.sync', 64): 0.4, ('wgmma', 64): 0.5, ('mma.sync', 128): 0.5, ('wgmma', 128): 0.7}
# Bytes of a head's key, or value, at one position: codes have a scale beside them. That decode attention reads these at the
# same share of the bandwidth is guessed: it turns them into bfloat16 beside its products.
KV_BYTES = {'bfloat16': lambda dim: 2 * dim, 'fp8': lambda dim: dim + 4}
DRAW_PASSES = 3
FUSED_ROWS, OWN_ROWS = 2, 2  # kernels.h kNormRows, matmul.h kThinRows
TOP_P_PASSES = 5    # the likeliest, two of keep_share (which add in shared memory), two to draw
WAKE_SHARE, WAKE_MOST, WAKE_LATE = 1 / 64, 50e-6, 16e-6  # device/await.cc: a pause, and how late one ends (measured)
LOOPBACK = 6.0e9    # bytes/s that a core receives from a socket
SUM_S, SUM_LINK = 10e-6, 370e9  # of an all-reduce of few bytes between two GPUs on NVLink, and bytes/s of a large one (guessed)
MS = 1e3


class Terms:
    """Parts of a time, in seconds."""

    def __init__(self, **parts):
        self.parts = parts

    def __add__(self, other):
        names = [*self.parts, *(n for n in other.parts if n not in self.parts)]
        return Terms(**{n: self.parts.get(n, 0) + other.parts.get(n, 0) for n in names})

    def times(self, factor):
        return Terms(**{n: v * factor for n, v in self.parts.items()})

    def total(self):
        return sum(self.parts.values())

    def said(self):
        parts = sorted(((v / self.total(), n) for n, v in self.parts.items()), reverse=True)
        return ', '.join(f'{n.replace("_", " ")} {share:.0%}' for share, n in parts if share >= 0.005)


class Paper:
    def __init__(self, gpu, kernel_us, early_us):
        self.gpu, self.kernel_s, self.early_s = gpu, kernel_us * 1e-6, early_us * 1e-6

    def kernels(self, shape, rows):
        """Of a step of so many rows of one token; None: of a prompt."""
        per_layer = 9 if rows is None else 5 if rows <= FUSED_ROWS else 8
        one = self.early_s if rows is not None and rows <= OWN_ROWS else self.kernel_s
        return (per_layer * shape.layers + 5) * one  # embedding, norm, gather, head, draw

    def decode(self, shape, rows, context, passes=DRAW_PASSES, prompts=0, kept='bfloat16'):
        """One token of each of `rows` sequences that have `context` positions, and so many tokens of prompts beside them."""
        g, products = self.gpu, shape.products() + shape.head()
        read, work = 2 * products / (g.bandwidth * STREAMED), 2 * products * rows / g.arithmetic
        if prompts:
            work = 2 * (shape.products() * (rows + prompts) / PROMPTS + shape.head() * rows) / g.arithmetic
        kv = 2 * shape.kv_heads * KV_BYTES[kept](shape.head_dim) * shape.layers * context * rows
        return Terms(weights=read if read > work else 0, products=work if work >= read else 0,
                     keys_and_values=kv / (g.bandwidth * ATTENTION), launches=self.kernels(shape, None if prompts else rows),
                     draws=passes * 4 * shape.vocabulary * rows / g.bandwidth)

    def coded(self, shape, rows, context, bits):
        """As decode(), of layers whose weights have so many bits; the output matrix has 16."""
        g, kv = self.gpu, 2 * shape.kv_heads * shape.head_dim * 2 * shape.layers * context * rows
        read = (bits / 8 * shape.products() + 2 * shape.head()) / (g.bandwidth * STREAMED)
        work = 2 * (shape.products() + shape.head()) * rows / (g.arithmetic * CODED)
        return Terms(weights=read if read > work else 0, products=work if work >= read else 0,
                     keys_and_values=kv / (g.bandwidth * ATTENTION), launches=self.kernels(shape, rows),
                     draws=DRAW_PASSES * 4 * shape.vocabulary * rows / g.bandwidth)

    def mixture(self, shape, rows, context, bits=16):
        """One token of each of `rows` sequences of a mixture of experts, of layers whose weights have so many bits."""
        g, outside = self.gpu, bits / 8 * shape.outside() + 2 * shape.head()
        experts = bits / 8 * (shape.read(rows) - shape.outside())
        kv = 2 * shape.kv_heads * shape.head_dim * 2 * shape.layers * context * rows
        launches = ((9 if rows <= PAIR_ROWS else 11) * shape.layers + 5) * self.kernel_s
        return Terms(weights=outside / (g.bandwidth * STREAMED), experts=experts / (g.bandwidth * EXPERTS),
                     keys_and_values=kv / (g.bandwidth * ATTENTION), launches=launches,
                     draws=DRAW_PASSES * 4 * shape.vocabulary * rows / g.bandwidth)

    def split(self, shape, rows, context, devices):
        """As decode(), on so many GPUs."""
        if devices == 1:
            return self.decode(shape, rows, context)
        g, products = self.gpu, shape.products() / devices + shape.head()
        kv = 2 * shape.kv_heads * shape.head_dim * 2 * shape.layers * context * rows / devices
        sums = (2 * shape.layers + 1) * (SUM_S + 2 * (devices - 1) / devices * 4 * shape.hidden * rows / SUM_LINK)
        return Terms(weights=2 * products / (g.bandwidth * STREAMED), keys_and_values=kv / (g.bandwidth * ATTENTION), sums=sums,
                     launches=self.kernels(shape, rows), draws=DRAW_PASSES * 4 * shape.vocabulary * rows / g.bandwidth)

    def prompt(self, shape, tokens):
        work = Terms(products=2 * shape.products() * tokens / (self.gpu.arithmetic * PROMPTS), launches=self.kernels(shape, None))
        return work + Terms(wake_up=min(work.total() * WAKE_SHARE, WAKE_MOST) + WAKE_LATE)

    def attention(self, shape, tokens, by):
        """Of a prompt, in one layer: FLOP/s, and the time. Two products of half a square."""
        work = 2 * shape.heads * shape.head_dim * tokens ** 2
        time = Terms(products=work / (self.gpu.arithmetic * PREFILL[by, shape.head_dim]), launches=self.kernel_s)
        return work / time.total(), time

    def served(self, shape, prompt, tokens, streams, passes=DRAW_PASSES):
        """Tokens per second of so many streams. A stream that ends makes way for a prompt, which goes with a step of the others."""
        arriving = streams / tokens  # prompts for each step
        mixed = min(arriving, 1)
        context = prompt + tokens / 2
        step = self.decode(shape, streams, context, passes).times(1 - mixed) + self.decode(
            shape, streams, context, passes, prompt * arriving / mixed).times(mixed)
        return streams / step.total(), step

    def rows(self):
        """{(goal, what): (estimate, terms)}, named as in table.py."""
        out = {}
        for id, name in (('H1', '8B'), ('H2', '1B')):
            step = self.decode(weights.LLAMAS[name], 1, 500)
            out[id, f'{name} decode, batch 1'] = 1 / step.total(), step
        for id, name in (('H3', '8B'), ('H4', '1B')):
            for prompt, tokens, streams in ((128, 128, 256), (1000, 1000, 100)):
                for kind in ('SSE', 'gRPC'):
                    out[id, f'{name}, {prompt} in, {tokens} out, {streams} streams, {kind}'] = self.served(
                        weights.LLAMAS[name], prompt, tokens, streams)
            out['', f'{name}, 128 in, 128 out, 256 streams, SSE, top-p 0.9'] = self.served(
                weights.LLAMAS[name], 128, 128, 256, TOP_P_PASSES)
        for kind, bits in table.CODED_BITS.items():
            for count in table.CODED_ROWS:
                step = self.coded(weights.LLAMAS['8B'], count, 150, bits)
                out['', table.coded_name('8B', kind, count)] = count / step.total(), step
        for name, shape in weights.MIXTURES.items():
            for kind, bits in table.CODED_BITS.items():
                for count in table.CODED_ROWS:
                    step = self.mixture(shape, count, 150, bits)
                    out['', table.coded_name(name, kind, count)] = count / step.total(), step
            for count in (1, 8, 64, 256):
                step = self.mixture(shape, count, 150)
                out['', f'{name} decode, batch {count}, no server'] = count / step.total(), step
        for name in ('8B', '1B'):
            step = self.decode(weights.LLAMAS[name], 256, 500)
            out['', f'{name} decode, batch 256, no server'] = 256 / step.total(), step
            prompt = self.prompt(weights.LLAMAS[name], 512)
            out['H5', f'{name}, first of a prompt of 512, idle'] = prompt.total() * MS, prompt
        for name in ('8B', '1B'):
            for by in table.PREFILL:
                work, time = self.attention(weights.LLAMAS[name], 2048, by)
                out['', table.prefill_name(name, by)] = work / 1e12, time
        for kept in table.LONG:
            step = self.decode(weights.LLAMAS['8B'], 16, 4096, kept=kept)
            out['', table.long_name(kept)] = 16 / step.total(), step
        for devices in table.SPLIT:
            step = self.split(dataclasses.replace(weights.LLAMAS['8B'], layers=8), 1, 100, devices)
            out['', table.split_name(devices)] = step.total() * 1e6, step
        whole = Terms(socket=1 / LOOPBACK, link=1 / self.gpu.link)
        out['H7', 'host to device'] = self.gpu.link / 1e9, Terms(link=1 / self.gpu.link)
        out['H7', 'both ways at once'] = self.gpu.both_ways / 1e9, Terms(link=1 / self.gpu.both_ways)
        out['H7', 'socket to device, 64 x 602112 bytes'] = 1e-9 / whole.total(), whole
        # Rows of this size go up from where their calls have them (sched/device_engine.h).
        out['H7', 'the same, rows that are gathered'] = 1e-9 / whole.total(), whole
        return out


def goal_of(row):
    """Of the way from a socket to the device the goal is a share of what the loopback carries in the same run."""
    return row['goal'] or (('>=', round(0.85 * LOOPBACK / 1e9, 2)) if row['id'] == 'H7' else None)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('--gpu', choices=GPUS, default='h100')
    words.add_argument('--kernel-us', type=float, default=2.6)
    words.add_argument('--early-us', type=float, default=1.3, help='as --kernel-us where kernels do not begin early')
    words.add_argument('--results', type=pathlib.Path)
    args = words.parse_args()
    measured = json.loads(args.results.read_text()) if args.results else {}
    paper = Paper(GPUS[args.gpu], args.kernel_us, args.early_us).rows()
    rows = table.rows(measured.get('results', measured))
    if unknown := set(paper) - {(row['id'], row['what']) for row in rows}:
        sys.exit(f'estimates of what table.py has not: {unknown}')
    print(f'{args.gpu}: estimates, not figures')
    print(f"{'':3} {'what':48} {'goal':>9} {'estimate':>9} {'measured':>9} {'':6}  what it consists of")
    for row in rows:
        estimate, terms = paper.get((row['id'], row['what']), (None, None))
        goal = goal_of(row)
        verdict = ''
        if estimate is not None and goal:
            verdict = 'hit' if (estimate >= goal[1] if goal[0] == '>=' else estimate <= goal[1]) else 'miss'
        said = f'{goal[0]} {table.number(goal[1])}' if goal else ''
        print(f"{row['id']:3} {row['what']:48} {said:>9} {table.number(estimate):>9} {table.number(row['value']):>9} {row['unit']:6}"
              f"  {verdict:5}{terms.said() if terms else 'depends on the host: measured only'}")


if __name__ == '__main__':
    main()
