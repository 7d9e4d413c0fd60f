"""Packs what `./dev gpu` needs into one file that is small enough to be carried: BUILD/carry.tar.xz.

usage: pack.py BUILD             programs without their symbols, the CUDA module, shared libraries that a bare machine lacks
       pack.py BUILD --unpack    the other way round, where there is such a file

Paths inside are those of a build folder; libraries go to lib/. glibc is the machine's own, of the version that is printed
at least; CUDA's driver and libcublasLt, too. The C++ library goes to lib/cxx, which is used where the machine's own is older.
"""

import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

PROGRAMS = ('src/app/weir', 'tests/gpu/gpu_check', 'tests/gpu/gpu_load', 'tests/gpu/gpu_loop')
MODULES = [f'src/device/cuda/libweir_cuda{older}.so' for older in ('', '12', '11')]  # those of older CUDAs where they are built
OWN = re.compile(r'(ld-linux.*|lib(c|m|dl|rt|pthread|resolv))\.so\.')  # glibc's
CXX = re.compile(r'lib(stdc\+\+|gcc_s)\.so\.')


def libraries(program):
    """{name: path} of what the loader finds for it."""
    said = subprocess.run(['ldd', program], stdout=subprocess.PIPE, check=True, text=True).stdout
    return dict(re.findall(r'(\S+) => (/\S+)', said))


def glibc_needed(file):
    """The newest version of glibc of which it uses something: (2, 34)."""
    said = subprocess.run(['objdump', '-p', file], stdout=subprocess.PIPE, check=True, text=True).stdout
    return max((tuple(map(int, v.split('.'))) for v in re.findall(r'\bGLIBC_(\d+\.\d+)', said)), default=(0, 0))


def pack(build):
    out = build / 'carry.tar.xz'
    found, programs = {}, [*PROGRAMS, *(m for i, m in enumerate(MODULES) if i == 0 or (build / m).exists())]
    with tempfile.TemporaryDirectory() as folder, tarfile.open(out, 'w:xz', preset=3) as archive:
        for name in programs:
            slim = pathlib.Path(folder) / 'slim'
            subprocess.run(['strip', '-o', slim, build / name], check=True)
            archive.add(slim, name)
            found.update(libraries(build / name))
        for name, path in sorted(found.items()):
            if not OWN.match(name):
                archive.add(pathlib.Path(path).resolve(), ('lib/cxx/' if CXX.match(name) else 'lib/') + name)
    files = [build / name for name in programs] + [path for name, path in found.items() if not OWN.match(name) and not CXX.match(name)]
    needed = max(map(glibc_needed, files))
    print(f'{out}: {out.stat().st_size / (1 << 20):.1f} MiB, for glibc {needed[0]}.{needed[1]} and newer')


def unpack(build):
    with tarfile.open(build / 'carry.tar.xz') as archive:
        archive.extractall(build)


if __name__ == '__main__':
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ['--unpack']):
        sys.exit(__doc__)
    (unpack if len(sys.argv) == 3 else pack)(pathlib.Path(sys.argv[1]).resolve())
