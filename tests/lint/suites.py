"""Every test is in a suite and in the build, and every fuzz target in the list of `./dev fuzz`: no source or script that is
named as one lies there without being run.

usage: suites.py BUILD_DIR
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUITES = {'unit', 'e2e', 'lint', 'sim'}
# Folders whose tests are built only where a machine has what they need, and the target that is built where it has it.
NEEDS = {'tests/gpu/cublas': 'weir_cuda', 'tests/gpu/nccl': 'weir_cuda'}


def introspect(build, what):
    return json.loads(subprocess.check_output(['meson', 'introspect', '--' + what, build]))


def suites(tests):
    """Each test has one suite; meson writes "project:suite", and "project" where none is declared."""
    for test in tests:
        named = [suite.partition(':')[2] for suite in test['suite']]
        if len(named) != 1 or named[0] not in SUITES:
            yield f"{test['name']}: declare one suite of {', '.join(sorted(SUITES))} in its meson.build"


def compiled(target):
    """Sources of the target, also those that are compiled as one (unity), which lie in a source that meson has generated."""
    for group in target['target_sources']:
        yield from map(os.path.normpath, group.get('sources', []))
        for source in group.get('generated_sources', []):
            if re.search(r'-unity\d+\.cpp$', source):
                text = pathlib.Path(source).read_text()
                yield from map(os.path.normpath, re.findall(r'^#include *[<"](.+)[>"]$', text, re.MULTILINE))


def left_out(root, build, tests, targets):
    """Files of tests that no target compiles and no test runs."""
    used = {source for target in targets for source in compiled(target)}
    used |= {os.path.normpath(os.path.join(build, word)) for test in tests for word in test['cmd']}
    missing = {root / folder for folder, target in NEEDS.items() if target not in {target['name'] for target in targets}}
    for folder in ('tests', 'subprojects'):
        for path in sorted([*(root / folder).rglob('*_test.cc'), *(root / folder).rglob('*_test.py')]):
            if str(path) not in used and path.parent not in missing:
                yield f'{path.relative_to(root)}: is in no meson.build, so that it never runs'


def fuzz_runs(root):
    """Fuzz targets that `./dev fuzz` does not know, as tests/fuzz/runs does not name them, and names there that are no target."""
    lines = [line.split() for line in (root / 'tests/fuzz/runs').read_text().splitlines() if not line.startswith('#')]
    named = {f"{(line[2:] or ['tests/fuzz'])[0]}/{line[0]}_fuzz.cc" for line in lines}
    there = {str(path.relative_to(root)) for folder in ('tests', 'subprojects') for path in (root / folder).rglob('*_fuzz.cc')}
    for path in sorted(there - named):
        yield f'{path}: tests/fuzz/runs does not name it, so that `./dev fuzz` never runs it'
    for path in sorted(named - there):
        yield f'{path}: tests/fuzz/runs names it, and it is not there'


def check(root, build):
    tests = introspect(build, 'tests')
    return [*suites(tests), *left_out(root, build, tests, introspect(build, 'targets')), *fuzz_runs(root)]


if __name__ == '__main__':
    found = check(ROOT, sys.argv[1])
    print('\n'.join(found) or 'suites: ok')
    sys.exit(bool(found))
