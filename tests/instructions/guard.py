#!/usr/bin/python3
"""A small inference costs the instructions that it has cost before, +- 3 %, and makes no more allocations.

usage: guard.py INFER_PATHS [--record]

INFER_PATHS is the program of this folder, built as the tests are. Instructions are counted by callgrind, so that a busy machine
changes nothing; they are compared with recorded.json. What is beyond 3 % either way fails: a change that is meant to cost more,
or that made it cheaper, writes the new number there (--record) and says in its commit why. Numbers are of one compiler and one set
of libraries; where these are others, there is nothing to compare, and the test is skipped (77).

Allocations of a request, after a hundred others, are counted by the program itself. They may only fall: more than recorded.json has
fail, fewer do, too, until they stand there.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

RECORDED = pathlib.Path(__file__).with_name('recorded.json')
REQUESTS, TOLERANCE, SKIPPED = 400, 0.03, 77
CASES = ('rest', 'grpc', 'forward')
LIBRARIES = ('g++', 'libnghttp2-14', 'libprotobuf32', 'libsimdjson14', 'libc6')


def counted(program, case):
    """Instructions of one request."""
    run = subprocess.run(['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', '--toggle-collect=measured*', program, case,
                          str(REQUESTS)], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stderr)
    return int(re.search(r'Collected : (\d+)', run.stderr)[1]) // REQUESTS


def allocations(program, case):
    """Of one request, to a hundredth: memory that grows at long intervals does not hide."""
    run = subprocess.run([program, case, str(REQUESTS)], capture_output=True, text=True, check=True)
    return round(int(run.stdout) / REQUESTS, 2)


def versions():
    """Upstream versions: Debian's patches change no path of ours."""
    asked = subprocess.run(['dpkg-query', '-W', '-f', '${Package} ${Version}\n', *LIBRARIES], capture_output=True, text=True).stdout
    return {name: version.rpartition('-')[0] or version for name, version in map(str.split, asked.splitlines())}


def main():
    if not shutil.which('valgrind') or not shutil.which('dpkg-query'):
        print('valgrind is missing')
        return SKIPPED
    recorded = json.loads(RECORDED.read_text())
    if '--record' not in sys.argv and versions() != recorded['versions']:
        print(f'another compiler or other libraries than those of recorded.json: {versions()}')
        return SKIPPED
    now = {case: counted(sys.argv[1], case) for case in CASES}
    allocated = {case: allocations(sys.argv[1], case) for case in CASES}
    if '--record' in sys.argv:
        RECORDED.write_text(json.dumps({'versions': versions(), 'instructions': now, 'allocations': allocated}, indent=2) + '\n')
        return 0
    failed = 0
    for case, instructions in now.items():
        before = recorded['instructions'][case]
        off = instructions / before - 1
        print(f'{case}: {instructions} instructions a request, {before} recorded ({off:+.1%})')
        failed += abs(off) > TOLERANCE
        print(f'{case}: {allocated[case]} allocations a request, {recorded["allocations"][case]} recorded')
        failed += allocated[case] != recorded['allocations'][case]
    if failed:
        print(f'more than {TOLERANCE:.0%} away, or other allocations: see the docstring of {pathlib.Path(__file__).name}')
    return bool(failed)


if __name__ == '__main__':
    sys.exit(main())
