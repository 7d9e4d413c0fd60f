"""Runs the tests that meson knows of a build folder, and ends with `N passed, N failed`.

usage: run.py BUILD_DIR [--quick] [--suite NAME] [--list-targets] [word…]
       word             only tests whose name contains one of the words
       --suite NAME     only those of a suite: unit, e2e, lint or sim (README.md); several times for several suites
       --quick          the same as --suite unit
       --list-targets   prints what ninja has to build for them, and runs nothing

As many tests run at once as there are cores (or JOBS); without JOBS up to half as many more while cores have nothing to do,
as many tests wait most of the time. Those of a high priority, which is in seconds in meson's files, begin first, so that no core is
left alone with a long one at the end. Those that meson must not run in parallel run alone, behind all others.
Cases are counted one by one where a program tells them: gtest's, and scripts that print `N passed, N failed`.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITES = ('unit', 'e2e', 'lint', 'sim')
LIMIT_S = 900  # one program; the longest takes 200 s where nothing else runs


class Totals:
    def __init__(self):
        self.passed, self.failed, self.skipped, self.broken = 0, 0, 0, []

    def add(self, name, passed, failed, skipped):
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped
        if failed:
            self.broken.append(name)

    def __str__(self):
        return f'{self.passed} passed, {self.failed} failed' + (f', {self.skipped} skipped' if self.skipped else '')


class Programs:
    """Runs programs, each in a process group of its own. Any thread."""

    def __init__(self):
        self.lock, self.running, self.stopped = threading.Lock(), set(), False

    def run(self, cmd, env, cwd):
        """Exit code, output, and the seconds of CPU time that it and what it has waited for took. A program that takes too
        long is killed with all that it has started."""
        with self.lock:
            if self.stopped:
                return 130, '', 0.0
            program = subprocess.Popen(cmd, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
            self.running.add(program)
        late = threading.Event()
        timer = threading.Timer(LIMIT_S, lambda: (late.set(), self.kill(program)))
        timer.start()
        out = program.stdout.read().decode(errors='replace')
        _, status, used = os.wait4(program.pid, 0)
        with self.lock:
            self.running.discard(program)
        timer.cancel()
        program.stdout.close()
        program.returncode = os.waitstatus_to_exitcode(status)
        if late.is_set():
            program.returncode, out = 124, out + f'\n(stopped after {LIMIT_S} s)'
        return program.returncode, out, used.ru_utime + used.ru_stime

    def kill(self, program):
        with self.lock:
            if program in self.running:
                os.killpg(program.pid, signal.SIGKILL)

    def stop(self):
        with self.lock:
            self.stopped = True
            for program in self.running:
                os.killpg(program.pid, signal.SIGKILL)


class Places:
    """How many programs run at once: so many, and a few more while cores have nothing to do. take() on one thread alone."""

    LOOK_S = 5
    IDLE = 0.75  # of a core, for so long

    def __init__(self, count, more):
        self.count, self.more, self.taken, self.changed = count, more, 0, threading.Condition()

    def take(self):
        """Waits for a place."""
        with self.changed:
            begun, idle = time.monotonic(), self.idle()
            while self.taken >= self.count:
                self.changed.wait(self.LOOK_S)
                passed = time.monotonic() - begun
                if passed >= self.LOOK_S:
                    if self.taken < self.count + self.more and self.idle() - idle > self.IDLE * passed:
                        break
                    begun, idle = time.monotonic(), self.idle()
            self.taken += 1

    def give_back(self):
        with self.changed:
            self.taken -= 1
            self.changed.notify()

    @staticmethod
    def idle():
        """Seconds for which the machine's cores have had nothing to do."""
        with open('/proc/stat') as file:
            return int(file.readline().split()[4]) / os.sysconf('SC_CLK_TCK')


def gtest(programs, test, env, cwd):
    """(passed, failed, skipped, output, CPU time) of a gtest program; its own XML says how many cases it has."""
    with tempfile.NamedTemporaryFile(suffix='.xml') as report:
        code, out, cpu = programs.run(test['cmd'] + [f'--gtest_output=xml:{report.name}', '--gtest_brief=1'], env, cwd)
        try:
            suite = ET.parse(report.name).getroot()
            total, bad = int(suite.get('tests')), int(suite.get('failures')) + int(suite.get('errors'))
            skipped = sum(1 for case in suite.iter('testcase') if case.get('result') == 'skipped')
        except ET.ParseError:  # it died before it could write
            total, bad, skipped = 1, 1, 0
    if code and not bad:
        bad = 1
    return max(total - bad - skipped, 0), bad, skipped, out, cpu


def plain(programs, test, env, cwd):
    """The same of any other program: its exit code, or the counts it prints as `N passed, N failed`."""
    code, out, cpu = programs.run(test['cmd'], env, cwd)
    counts = re.findall(r'^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$', out, re.M)
    if not counts:
        return (0, 1, 0, out, cpu) if code else (1, 0, 0, out, cpu)
    good, bad, skipped = (int(n or 0) for n in counts[-1])
    return good, bad or (1 if code else 0), skipped, out, cpu


def targets(build, tests):
    """The files that these tests run or need, as ninja names them."""
    files = {t['id']: t['filename'] for t in json.loads(subprocess.check_output(['meson', 'introspect', '--targets', str(build)]))}
    wanted = {pathlib.Path(name) for test in tests for name in [test['cmd'][0], *sum((files.get(d, []) for d in test.get('depends', [])), [])]}
    return sorted(str(name.relative_to(build)) for name in wanted if name.is_relative_to(build))


def chosen(build, words, suites):
    """Meson's tests, those of high priority first."""
    listed = json.loads(subprocess.check_output(['meson', 'introspect', '--tests', str(build)]))
    if suites:
        listed = [t for t in listed if any(suite.partition(':')[2] in suites for suite in t['suite'])]
    listed = [t for t in listed if not words or any(w in t['name'] for w in words)]
    return sorted(listed, key=lambda t: -t.get('priority', 0))


class Run:
    def __init__(self, build):
        self.build, self.totals, self.programs, self.lock = build, Totals(), Programs(), threading.Lock()

    def one(self, test):
        env = {**os.environ, **test['env'], 'WEIR_BUILD': str(self.build), 'WEIR_ROOT': str(ROOT)}
        begun = time.monotonic()
        kind = gtest if test.get('protocol') == 'gtest' else plain
        passed, failed, skipped, out, cpu = kind(self.programs, test, env, test['workdir'] or ROOT)
        if self.programs.stopped:
            return
        with self.lock:
            self.totals.add(test['name'], passed, failed, skipped)
            print(f"{'FAILED' if failed else 'ok':6} {test['name']}  {time.monotonic() - begun:.1f} s ({cpu:.1f} s CPU)", flush=True)
            if failed:
                print(out[-20000:], flush=True)

    def all(self, tests, places):
        together, threads, errors = [t for t in tests if t.get('is_parallel', True)], [], []

        def placed(test):
            try:
                self.one(test)
            except Exception as error:  # it was not built, say
                errors.append(error)
            finally:
                places.give_back()
        try:
            for test in together:
                places.take()
                threads.append(threading.Thread(target=placed, args=(test,)))
                threads[-1].start()
            for thread in threads:
                thread.join()
            if errors:
                raise errors[0]
        except KeyboardInterrupt:
            self.programs.stop()
            raise
        for test in tests:
            if test not in together:
                self.one(test)


def main():
    parser = argparse.ArgumentParser(add_help=False, usage=__doc__)
    parser.add_argument('build', type=lambda folder: pathlib.Path(folder).resolve())
    parser.add_argument('words', nargs='*')
    parser.add_argument('--suite', action='append', default=[], choices=SUITES)
    parser.add_argument('--quick', action='append_const', dest='suite', const='unit')
    parser.add_argument('--list-targets', action='store_true')
    args = parser.parse_intermixed_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would the programs
    tests = chosen(args.build, args.words, args.suite)
    if args.list_targets:
        print(*targets(args.build, tests), sep='\n')
        return 0
    if not tests:
        print('no test has such a name')
        return 1
    run = Run(args.build)
    try:
        jobs, cores = int(os.environ.get('JOBS') or 0), os.cpu_count()
        run.all(tests, Places(jobs, 0) if jobs else Places(cores, (cores + 1) // 2))
    except KeyboardInterrupt:
        return 130
    if run.totals.broken:
        print('failed: ' + ' '.join(run.totals.broken))
    print(run.totals)
    return 1 if run.totals.failed else 0


if __name__ == '__main__':
    sys.exit(main())
