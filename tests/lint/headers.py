"""Compiles each header of src/ on its own: whoever includes it needs nothing else first."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
# What rooms that wrap a library need on the command line; generated headers are the build folder's.
FLAGS = ['-std=c++20', '-fsyntax-only', '-Wall', '-Wextra', '-Wpedantic', '-Werror', '-x', 'c++', f'-I{ROOT}']
GENERATED = [f'-isystem{folder}' for folder in sys.argv[2:]]


def compiles(header):
    text = f'#include "{header.relative_to(ROOT)}"\n'
    done = subprocess.run([os.environ.get('CXX', 'g++').split()[-1], *FLAGS, *GENERATED, '-'], input=text.encode(), stderr=subprocess.PIPE)
    return header, done.returncode, done.stderr.decode()


if __name__ == '__main__':
    headers = sorted(ROOT.rglob('*.h'))
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, code, errors in pool.map(compiles, headers):
            if code:
                bad += 1
                print(f'{header}: does not stand alone\n{errors[:2000]}')
    print(f'{len(headers) - bad} passed, {bad} failed')
    sys.exit(bool(bad))
