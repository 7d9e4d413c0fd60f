"""The machine that `./dev gpu` runs on: its libraries, its Pythons, what it is.

usage: machine.py BUILD PROGRAM [ARGUMENT…]    runs a program of the build folder, src/app/weir, say, as ./dev gpu runs it
"""

import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def stand_in(build, folder):
    """The environment of a machine whose GPU is host memory (tests/gpu/stand_in.cc). None where that is not built."""
    module, driver = build / 'tests/gpu/libweir_stand_in.so', build / 'tests/device/libweir_other.so'
    if not module.exists() or not driver.exists():
        return None
    (folder / 'libcuda.so.1').symlink_to(driver)
    folders = [str(folder), os.environ.get('LD_LIBRARY_PATH', '')]
    return {**os.environ, 'WEIR_CUDA_MODULE': str(module), 'WEIR_FAKE_CUDA': 'ungraphed',
            'LD_LIBRARY_PATH': ':'.join(filter(None, folders))}


def environment(build):
    """With the module, and with the libraries that were carried or that only Python packages have here."""
    env = {**os.environ, 'WEIR_CUDA_MODULE': str(build / 'src/device/cuda/libweir_cuda.so')}
    folders = [str(p) for p in (build / 'lib',) if p.is_dir()]
    if not starts(build, env, folders) and (build / 'lib/cxx').is_dir():
        folders.append(str(build / 'lib/cxx'))
    folders += library_folders(env)
    if env.get('LD_LIBRARY_PATH'):
        folders.append(env['LD_LIBRARY_PATH'])
    if folders:
        env['LD_LIBRARY_PATH'] = ':'.join(folders)
    return env


def starts(build, env, folders):
    """Whether weir finds all that it needs; an older C++ library than the compiler's is what it may lack."""
    env = {**env, 'LD_LIBRARY_PATH': ':'.join(folders + [env.get('LD_LIBRARY_PATH', '')])}
    return not why_it_does_not_start(build, env)


def why_it_does_not_start(build, env):
    """What the loader says; nothing where weir starts."""
    done = subprocess.run([str(build / 'src/app/weir'), '--version'], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return '' if done.returncode == 0 else done.stderr.strip() or f'weir --version ended with {done.returncode}'


def library_folders(env):
    """Where libcublasLt and NCCL may be beside where the loader looks: CUDA's folder, the packages that torch came with."""
    places = [pathlib.Path('/usr/local/cuda/lib64'), *pathlib.Path('/usr/local').glob('cuda*/lib64')]
    for python in pythons():
        said = subprocess.run([python, '-c', 'import sysconfig; print(sysconfig.get_paths()["purelib"])'], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
        if said:
            places += pathlib.Path(said).glob('nvidia/*/lib')
    return [str(p) for p in places if list(p.glob('libcublasLt.so.*')) or (p / 'libnccl.so.2').exists()]


def cuda(build, env):
    """What weir says of CUDA: {"available": true, "driver", "runtime", "devices"} or {"available": false, "why"}."""
    said = subprocess.run([str(build / 'src/app/weir'), 'version', '--json'], env=env, stdout=subprocess.PIPE, check=True)
    return json.loads(said.stdout)['cuda']


def pythons():
    """Interpreters that may have torch."""
    found = [sys.executable, shutil.which('python3'), '/usr/bin/python3']
    return [p for i, p in enumerate(found) if p and os.path.exists(p) and p not in found[:i]]


def describe():
    """In words: when, with which source, on what."""
    out = {'date': datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ'), 'cores': os.cpu_count()}
    try:
        out['cpu'] = re.search(r'model name\s*: (.*)', pathlib.Path('/proc/cpuinfo').read_text())[1]
        out['commit'] = subprocess.run(['git', '-C', ROOT, 'rev-parse', '--short', 'HEAD'], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True).stdout.strip()
    except (OSError, TypeError):
        pass
    smi = shutil.which('nvidia-smi')
    if smi:
        said = subprocess.run([smi, '--query-gpu=name,driver_version,memory.total', '--format=csv,noheader'],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        out['gpu'] = said.strip().split('\n')[0]
    return out


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    os.execve(folder / sys.argv[2], sys.argv[2:], environment(folder))
