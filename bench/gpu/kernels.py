"""`./dev gpu kernels`: what each kernel takes on each architecture that is built, as ptxas says, and how much of a
multiprocessor its blocks fill. Needs nvcc and c++filt, no GPU.

usage: kernels.py [--nvcc PATH] [--arch sm_80,sm_90a,sm_100,sm_120] [--check]
    --check    exit code 1 where a kernel spills registers to memory

Columns: registers of a thread; bytes spilled (stored + loaded); bytes of shared memory of a block, with what its launch
asks for; threads of a block: its __launch_bounds__, else as a launch for the widest rows has them; blocks on a
multiprocessor, and the share of its threads that they are, by the rules of the CUDA programming guide (compute
capabilities, technical specifications).
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / 'src/engines/llm/cuda').glob('*.cu'))

Limits = collections.namedtuple('Limits', 'threads blocks registers shared')
LIMITS = {'80': Limits(2048, 32, 65536, 164 << 10), '90': Limits(2048, 32, 65536, 228 << 10),
          '100': Limits(2048, 32, 65536, 228 << 10), '120': Limits(1536, 24, 65536, 100 << 10)}
RESERVED = 1 << 10  # shared memory that each block costs beside its own
WARP, REGISTER_UNIT, SHARED_UNIT = 32, 256, 128

# Kernels without __launch_bounds__ (`threads_for` in the sources), and dynamic shared memory (kShared in the sources).
THREADS = {'add_norm_kernel': 1024}
USUAL_THREADS = 256
DYNAMIC = {**{f'decode_kernel<{dim}u, {extras}>': (warps * stages * 2 * 16 * dim + 8 * (dim + 8)) * 2
              for dim, warps, stages in ((64, 4, 3), (96, 4, 2), (128, 4, 2), (256, 2, 2)) for extras in ('false', 'true')},
           **{f'prefill_kernel<{dim}u, {extras}>': (64 + 4 * (32 if dim == 256 else 64)) * dim * 2
              for dim in (64, 96, 128, 256) for extras in ('false', 'true')},
           **{f'prefill_wgmma_kernel<{dim}u>': 1024 + (2 * 64 + 4 * 128) * dim * 2 + 80 for dim in (64, 128)},
           **{f'grouped_kernel<{rows}u, {into}>': stages * (rows + 128) * 64 * 2
              for rows, stages in ((16, 4), (64, 3), (128, 3)) for into in (0, 1)}}

Kernel = collections.namedtuple('Kernel', 'name registers spilled shared threads')


def names(mangled):
    """Without namespaces and arguments: decode_kernel<128u, false>."""
    out = subprocess.run(['c++filt'], input='\n'.join(mangled), stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    short = []
    for name in out:
        found = re.search(r'(\w+_kernel(?:<.*?>)?)\([^)]*\)$', name)
        short.append(re.sub(r'\((?:unsigned int|bool|[\w:]+)\)', '', found[1]) if found else name)
    return dict(zip(mangled, short))


def compiled(nvcc, source, arch, scratch):
    """The kernels of a source as they are on an architecture."""
    virtual, ptx = arch.replace('sm_', 'compute_'), scratch / f'{source.stem}.ptx'
    subprocess.run([nvcc, '-ptx', '-std=c++20', '-O3', f'-arch={virtual}', f'-I{ROOT / "src"}', '-o', ptx, source], check=True)
    said = subprocess.run([pathlib.Path(nvcc).parent / 'ptxas', '-v', f'-arch={arch}', ptx, '-o', scratch / 'cubin'],
                          stderr=subprocess.PIPE, text=True, check=True).stderr
    bounds = {}
    for entry, head in re.findall(r'\.entry (\w+)\((.*?)\{', ptx.read_text(), re.S):
        found = re.search(r'\.maxntid (\d+)', head)
        bounds[entry] = int(found[1]) if found else None
    pattern = (r"entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers"
               r"(?:[^\n]*?(\d+) bytes smem)?")
    found = re.findall(pattern, said, re.S)
    short = names([f[0] for f in found])
    for entry, stores, loads, registers, shared in found:
        name = short[entry]
        threads = bounds.get(entry) or THREADS.get(name.split('<')[0], USUAL_THREADS)
        yield Kernel(name, int(registers), int(stores) + int(loads), int(shared or 0) + DYNAMIC.get(name, 0), threads)


def up(value, unit):
    return -(-value // unit) * unit


def blocks_on(limits, kernel):
    """Blocks of a kernel on one multiprocessor."""
    warps = up(kernel.threads, WARP) // WARP
    by_registers = limits.registers // (up(kernel.registers * WARP, REGISTER_UNIT) * warps)
    by_shared = limits.shared // (up(kernel.shared, SHARED_UNIT) + RESERVED)
    return min(limits.threads // (warps * WARP), limits.blocks, by_registers, by_shared)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('--nvcc', default='/usr/local/cuda/bin/nvcc')
    words.add_argument('--arch', default='sm_80,sm_90a,sm_100,sm_120')
    words.add_argument('--check', action='store_true')
    args = words.parse_args()
    spilling = []
    for arch in args.arch.split(','):
        limits = LIMITS[re.sub(r'\D', '', arch)]
        print(f'\n{arch:26} registers  spilled   shared  threads  blocks  occupancy')
        with tempfile.TemporaryDirectory() as scratch:
            for source in SOURCES:
                for kernel in sorted(compiled(args.nvcc, source, arch, pathlib.Path(scratch))):
                    blocks = blocks_on(limits, kernel)
                    share = blocks * up(kernel.threads, WARP) / limits.threads
                    print(f'{kernel.name:26} {kernel.registers:9} {kernel.spilled:8} {kernel.shared:8} {kernel.threads:8} {blocks:7} {share:9.0%}',
                          flush=True)
                    spilling += [f'{kernel.name} ({arch})'] if kernel.spilled else []
    if args.check and spilling:
        sys.exit('registers are spilled: ' + ', '.join(spilling))


if __name__ == '__main__':
    main()
