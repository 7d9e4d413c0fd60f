"""`./dev gpu kernels`: what each kernel takes on each architecture that is built, as ptxas says, and how much of a
multiprocessor its blocks fill. Needs nvcc and c++filt, no GPU.

usage: kernels.py [--nvcc PATH] [--arch sm_80,sm_90a,sm_100,sm_120] [--source decode,draw] [--check]
    --check    exit code 1 where a kernel spills registers to memory, or a block of it does not fit

Columns: registers of a thread; bytes spilled (stored + loaded); bytes of shared memory of a block, with what its launch
asks for; threads of a block: its __launch_bounds__, else as a launch for the widest rows has them; and for each compute
capability that runs this code blocks on a multiprocessor, and the share of its threads that they are, by the rules of the
CUDA programming guide (compute capabilities, technical specifications).

What a launch asks for is the compiler's answer: each source is compiled with variables behind it that are initialised with
the expressions of its launches.
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
LIMITS = {'8.0': Limits(2048, 32, 65536, 164 << 10), '8.6': Limits(1536, 16, 65536, 100 << 10),
          '8.9': Limits(1536, 24, 65536, 100 << 10), '9.0': Limits(2048, 32, 65536, 228 << 10),
          '10.0': Limits(2048, 32, 65536, 228 << 10), '10.3': Limits(2048, 32, 65536, 228 << 10),
          '12.0': Limits(1536, 24, 65536, 100 << 10), '12.1': Limits(1536, 24, 65536, 100 << 10)}
RUNS = {'80': ('8.0', '8.6', '8.9'), '90': ('9.0',), '100': ('10.0', '10.3'), '120': ('12.0', '12.1')}  # a binary's devices
RESERVED = 1 << 10  # shared memory that each block costs beside its own
WARP, REGISTER_UNIT, SHARED_UNIT = 32, 256, 128

# Kernels without __launch_bounds__ (`threads_for` in the sources).
THREADS = {'add_norm_kernel': 1024}
USUAL_THREADS = 256
# {source: {kernel: the dynamic shared memory of its launch, as C++ in the source's namespace}}.
DIMS, EXTRAS, CODES = (64, 96, 128, 256), ('false', 'true'), (0, 1, 2)
TILES = {'FewRows': 'TileShape<16u, 32u, 256u, 1u, 1u, 4u>', 'SomeRows': 'TileShape<64u, 32u, 128u, 4u, 1u, 1u>',
         'ManyRows': 'TileShape<128u, 64u, 64u, 4u, 2u, 1u>'}  # coded_tiles.cuh
DYNAMIC = {
    **{source: {f'{source}_kernel<{dim}u, {extras}, {codes}>': f'kShared<{dim}, KvCodes({codes})>'
                for dim in DIMS for extras in EXTRAS for codes in CODES} for source in ('decode', 'prefill')},
    'prefill_wgmma': {f'prefill_wgmma_kernel<{dim}u>': f'kShared<{dim}>' for dim in (64, 128)},
    'grouped': {f'grouped_kernel<{rows}u, {into}>': f'kShared<{rows}>' for rows in (16, 64, 128) for into in (0, 1)},
    'coded': {f'coded_kernel<{code}, {tile} >': f'kTileBytes<Format({code}), {name}>' for code in (1, 2, 3) for name, tile in TILES.items()},
    'grouped_coded': {f'grouped_coded_kernel<{code}, {tile}, {into}>': f'kTileBytes<Format({code}), {name}>'
                      for code in (1, 2, 3) for name, tile in TILES.items() for into in (0, 1)},
    'draw': {'draw_kernel': 'sizeof(SelectRoom)'},
    'logits': {'logprobs_kernel': 'sizeof(SelectRoom)'}}

Kernel = collections.namedtuple('Kernel', 'name registers spilled shared threads')


def names(mangled):
    """Without namespaces and arguments: decode_kernel<128u, false>."""
    out = subprocess.run(['c++filt'], input='\n'.join(mangled), stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    short = []
    for name in out:
        found = re.search(r'(\w+_kernel(?:<.*?>)?)\([^)]*\)$', name)
        short.append(re.sub(r'\((?:unsigned int|bool|[\w:]+)\)|weir::llm::cuda::', '', found[1]) if found else name)
    return dict(zip(mangled, short))


def with_answers(source, expressions):
    """A source, and variables that hold what its launches ask for."""
    variables = ''.join(f'extern "C" {{ __device__ unsigned long long weir_answer_{i} = {expression}; }}\n'
                        for i, expression in enumerate(expressions))
    return f'#include "{source}"\nnamespace weir::llm::cuda {{\n{variables}}}\n'


def answers(ptx, count):
    """What the variables of with_answers() hold."""
    found = dict(re.findall(r'\.global [^;]*\.u64 weir_answer_(\d+)(?: = (\d+))?;', ptx))
    return [int(found[str(i)] or 0) for i in range(count)]


def compiled(nvcc, source, arch, scratch):
    """The kernels of a source as they are on an architecture."""
    virtual, ptx, asked = arch.replace('sm_', 'compute_'), scratch / f'{source.stem}.ptx', scratch / f'{source.stem}.cu'
    dynamic = DYNAMIC.get(source.stem, {})
    asked.write_text(with_answers(source, dynamic.values()))
    subprocess.run([nvcc, '-ptx', '-std=c++20', '-O3', f'-arch={virtual}', f'-I{ROOT / "src"}', '-o', ptx, asked], check=True)
    said = subprocess.run([pathlib.Path(nvcc).parent / 'ptxas', '-v', f'-arch={arch}', ptx, '-o', scratch / 'cubin'],
                          stderr=subprocess.PIPE, text=True, check=True).stderr
    text = ptx.read_text()
    shared_by = dict(zip(dynamic, answers(text, len(dynamic))))
    bounds, asking = {}, set()
    for entry, head, body in re.findall(r'\.entry (\w+)\((.*?)\{(.*?)\n\}', text, re.S):
        found = re.search(r'\.maxntid (\d+)', head)
        bounds[entry] = int(found[1]) if found else None
        if 'shared_bytes' in body:  # launch.cuh, dynamic_shared()
            asking.add(entry)
    pattern = (r"entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers"
               r"(?:[^\n]*?(\d+) bytes smem)?")
    found = re.findall(pattern, said, re.S)
    short = names([f[0] for f in found])
    if {short[entry] for entry in asking} != set(shared_by):
        sys.exit(f'{source.name}: kernels with dynamic shared memory that DYNAMIC does not have, or has in vain: '
                 f'{sorted({short[entry] for entry in asking} ^ set(shared_by))}')
    for entry, stores, loads, registers, shared in found:
        name = short[entry]
        threads = bounds.get(entry) or THREADS.get(name.split('<')[0], USUAL_THREADS)
        yield Kernel(name, int(registers), int(stores) + int(loads), int(shared or 0) + shared_by.get(name, 0), threads)


def up(value, unit):
    return -(-value // unit) * unit


def blocks_on(limits, kernel):
    """Blocks of a kernel on one multiprocessor."""
    warps = up(kernel.threads, WARP) // WARP
    by_registers = limits.registers // (up(kernel.registers * WARP, REGISTER_UNIT) * warps)
    by_shared = limits.shared // (up(kernel.shared, SHARED_UNIT) + RESERVED)
    return min(limits.threads // (warps * WARP), limits.blocks, by_registers, by_shared)


def said_of(kernel, capabilities):
    """Blocks and occupancy on each."""
    out = ''
    for limits in (LIMITS[capability] for capability in capabilities):
        blocks = blocks_on(limits, kernel)
        out += f'{blocks:8} {blocks * up(kernel.threads, WARP) / limits.threads:5.0%}'
    return out


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('--nvcc', default='/usr/local/cuda/bin/nvcc')
    words.add_argument('--arch', default='sm_80,sm_90a,sm_100,sm_120')
    words.add_argument('--source', help='of these sources only')
    words.add_argument('--check', action='store_true')
    args = words.parse_args()
    sources = [s for s in SOURCES if not args.source or s.stem in args.source.split(',')]
    wrong = []
    for arch in args.arch.split(','):
        capabilities = RUNS[re.sub(r'\D', '', arch)]
        print(f'\n{arch:30} registers  spilled   shared  threads' + ''.join(f'{"blocks on " + c:>14}' for c in capabilities))
        with tempfile.TemporaryDirectory() as scratch:
            for source in sources:
                for kernel in sorted(compiled(args.nvcc, source, arch, pathlib.Path(scratch))):
                    print(f'{kernel.name:30} {kernel.registers:9} {kernel.spilled:8} {kernel.shared:8} {kernel.threads:8}'
                          f'{said_of(kernel, capabilities)}', flush=True)
                    fits = all(blocks_on(LIMITS[c], kernel) for c in capabilities)
                    wrong += [f'{kernel.name} ({arch})'] if kernel.spilled or not fits else []
    if args.check and wrong:
        sys.exit('registers are spilled, or a block does not fit: ' + ', '.join(wrong))


if __name__ == '__main__':
    main()
