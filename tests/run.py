"""Runs the tests of a build folder and ends with `N passed, N failed`.

usage: run.py BUILD_DIR [--quick] [--list-targets] [word…]     words select tests whose name contains one of them
       --quick          only the gtest programs, which need no server, no other language and no package beside gtest's
       --list-targets   prints what ninja has to build for them, and runs nothing

Three kinds are run and counted case by case: the gtest programs and the plain test programs that meson knows
(meson introspect), and the end-to-end scripts tests/e2e/*_test.py, which speak to the real binary.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_S = 600  # one program


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped, self.broken = 0, 0, 0, []

    def add(self, name, passed, failed, skipped=0):
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped
        if failed:
            self.broken.append(name)


def run(cmd, env, cwd):
    """Exit code and output. A program that takes too long is killed with all that it has started."""
    program = subprocess.Popen(cmd, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        out, _ = program.communicate(timeout=LIMIT_S)
        return program.returncode, out.decode(errors='replace')
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        return 124, program.communicate()[0].decode(errors='replace') + f'\n(stopped after {LIMIT_S} s)'


def gtest(test, env, tally):
    """One gtest program; its own XML says how many cases it has."""
    with tempfile.NamedTemporaryFile(suffix='.xml') as report:
        code, out = run(test['cmd'] + [f'--gtest_output=xml:{report.name}', '--gtest_brief=1'], env, test['workdir'] or ROOT)
        try:
            suite = ET.parse(report.name).getroot()
            total, bad = int(suite.get('tests')), int(suite.get('failures')) + int(suite.get('errors'))
            skipped = sum(1 for case in suite.iter('testcase') if case.get('result') == 'skipped')
        except ET.ParseError:  # it died before it could write
            total, bad, skipped = 1, 1, 0
    if code and not bad:
        bad = 1
    tally.add(test['name'], max(total - bad - skipped, 0), bad, skipped)
    return bad, out


def plain(test, env, tally):
    """Any other program: its exit code, or the counts it prints as `N passed, N failed`."""
    code, out = run(test['cmd'], env, test['workdir'] or ROOT)
    counts = re.findall(r'^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$', out, re.M)
    if counts:
        good, bad, skipped = (int(n or 0) for n in counts[-1])
        bad = bad or (1 if code else 0)
    else:
        good, bad, skipped = (0, 1, 0) if code else (1, 0, 0)
    tally.add(test['name'], good, bad, skipped)
    return bad, out


def targets(build, tests):
    """The files that these tests run or need, as ninja names them."""
    files = {t['id']: t['filename'] for t in json.loads(subprocess.check_output(['meson', 'introspect', '--targets', str(build)]))}
    wanted = {pathlib.Path(name) for test in tests for name in [test['cmd'][0], *sum((files.get(d, []) for d in test.get('depends', [])), [])]}
    return sorted(str(name.relative_to(build)) for name in wanted if name.is_relative_to(build))


def main(build, words):
    build = pathlib.Path(build).resolve()
    options, words = {w for w in words if w.startswith('--')}, [w for w in words if not w.startswith('--')]
    if unknown := options - {'--quick', '--list-targets'}:
        print(f'unknown option {sorted(unknown)[0]}: --quick, --list-targets')
        return 2
    listed = json.loads(subprocess.check_output(['meson', 'introspect', '--tests', str(build)]))
    for test in listed:
        test['kind'] = gtest if test.get('protocol') == 'gtest' else plain
    for script in sorted((ROOT / 'tests/e2e').glob('*_test.py')):
        listed.append({'name': f'e2e/{script.stem[:-5]}', 'cmd': [sys.executable, str(script)], 'env': {},
                       'workdir': str(ROOT), 'kind': plain})
    if '--quick' in options:
        listed = [t for t in listed if t['kind'] is gtest]
    listed = [t for t in listed if not words or any(w in t['name'] for w in words)]
    if '--list-targets' in options:
        print(*targets(build, listed), sep='\n')
        return 0
    tally = Tally()
    for test in listed:
        env = {**os.environ, **test['env'], 'WEIR_BUILD': str(build), 'WEIR_ROOT': str(ROOT)}
        begun = time.monotonic()
        bad, out = test['kind'](test, env, tally)
        print(f"{'FAILED' if bad else 'ok':6} {test['name']}  {time.monotonic() - begun:.1f} s", flush=True)
        if bad:
            print(out[-20000:], flush=True)
    if tally.broken:
        print('failed: ' + ' '.join(tally.broken))
    if not listed:
        print('no test has such a name')
        return 1
    print(f'{tally.passed} passed, {tally.failed} failed' + (f', {tally.skipped} skipped' if tally.skipped else ''))
    return 1 if tally.failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], sys.argv[2:]))
