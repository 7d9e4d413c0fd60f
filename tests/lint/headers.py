"""Each header of src/, or of a library of subprojects/, stands alone: whoever includes it needs nothing else first.

`./dev clang`, which compiles each source on its own, shows that of every header that one includes before anything else; the others
are compiled here.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else 'src')
# Flags for rooms that wrap a library; generated headers are the build folder's.
FLAGS = ['-std=c++20', '-fsyntax-only', '-Wall', '-Wextra', '-Wpedantic', '-Werror', '-x', 'c++', f'-I{ROOT}', f'-I{ROOT}/include',
         *(f'-I{folder}' for folder in ROOT.parent.glob('subprojects/*/include'))]
GENERATED = [f'-isystem{folder}' for folder in sys.argv[2:]]


def compiles(header):
    text = f'#include "{header.relative_to(ROOT)}"\n'
    done = subprocess.run([os.environ.get('CXX', 'g++').split()[-1], *FLAGS, *GENERATED, '-'], input=text.encode(), stderr=subprocess.PIPE)
    return header, done.returncode, done.stderr.decode()


def shown_by_a_source(root):
    first = re.compile(r'\s*(?://[^\n]*\s*)*#include "([^"]+)"')
    found = (first.match(source.read_text()) for source in root.rglob('*.cc'))
    return {root / match[1] for match in found if match}


def main():
    headers = sorted(ROOT.rglob('*.h'))
    alone = sorted(set(headers) - shown_by_a_source(ROOT))
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, code, errors in pool.map(compiles, alone):
            if code:
                bad += 1
                print(f'{header}: does not stand alone\n{errors[:2000]}')
    print(f'{len(headers) - bad} passed, {bad} failed')
    sys.exit(bool(bad))


if __name__ == '__main__':
    main()
