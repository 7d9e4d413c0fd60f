"""Everything that the benches can say of one build, from one run, as Markdown: `./dev bench report [--rounds N] [--out FILE]`.

usage: report.py BENCH_BUILD PROFILE_BUILD WEIR [--rounds N] [--requests N] [--seconds N] [--connections N] [--out FILE] [--only WORD...]

The load cases with their peers, medians and ranges; tails at random times; slow streams; batches; what idle connections and
sessions hold; messages without a server; instructions, allocations and system calls of a request. A part that fails (a peer that is
not there), or has not ended after an hour, says so in its place, and the others go on. With --only, those parts whose name has one of
the words.
"""

import argparse
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'bench/load'))
import cases  # noqa: E402  (bench/load/cases.py)
import full_batches  # noqa: E402
import gateways  # noqa: E402
import idle  # noqa: E402
import profile as request_profile  # noqa: E402  (bench/load/profile.py, not Python's)
import shards  # noqa: E402
import slow_streams  # noqa: E402
import tails  # noqa: E402

# A server's name has 24 columns, and may end with a number ("nginx return 200").
RATIO = re.compile(r'^(?P<name>\S.{23,}?) +(?P<numbers>[\d.]+ +[\d.]+) +(?P<ratio>[\d.]+) +\((?P<low>[\d.]+)-(?P<high>[\d.]+)\)$')


def rows(text):
    """The tables of measure.table() in `text`: (title, server, numbers, "ratio (low-high)")."""
    title, found = '', []
    for line in text.splitlines():
        if line.startswith('## '):
            title = line[3:].split(':')[0]
        elif match := RATIO.match(line.rstrip()):
            found.append((title, match['name'].strip(), match['numbers'].strip(), f"{match['ratio']} ({match['low']}-{match['high']})"))
    return found


def said(command, limit_s=3600):
    """What a program prints, and why it has failed, or nothing. It gets SIGINT at its limit, so that it ends what it has started; what
    is left of it is killed."""
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as part:
        late = ''
        try:
            out, err = part.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            late = f'it had not ended after {limit_s} s'
            out, err = ended(part)
        except BaseException:  # the report itself is interrupted
            ended(part)
            raise
        if part.returncode == 0 and not late:
            return out, ''
        return out, late or (err.strip().splitlines() or [f'exit status {part.returncode}'])[-1]  # of a traceback, the error


def ended(part):
    """The output of a part that is made to end."""
    part.send_signal(signal.SIGINT)
    try:
        return part.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(part.pid, signal.SIGKILL)
        return part.communicate()


def machine():
    model = re.search(r'model name\s*: (.*)', pathlib.Path('/proc/cpuinfo').read_text())
    return f'{len(os.sched_getaffinity(0))} cores of {model[1] if model else platform.machine()}, load average {os.getloadavg()[0]:.1f}'


def remarks(text):
    """What a case says beside its table: ratios of other things, or why it has failed."""
    heads = ('## ', 'server ')
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(heads) and not RATIO.match(line.rstrip())]


class Report:
    def __init__(self, out):
        self.out, self.failed = out, []

    def put(self, text=''):
        print(text, file=self.out, flush=True)

    def part(self, title, command):
        print(title, file=sys.stderr, flush=True)
        text, why = said(command)
        if why:
            why = why.replace('|', '/')  # it stands in a table
            self.failed.append(f'{title}: {why}')
        return text, why

    def case(self, build, case, rounds, requests):
        """What a case prints."""
        more = ['--requests', requests] if requests else []
        return self.part(case.__name__, [sys.executable, ROOT / 'bench/run.py', build, case.__name__, '--rounds', rounds, *more])

    def load(self, build, rounds, requests, only):
        self.put('\n## Load, beside peers\n')
        self.put('Each ratio: how many times the CPU of the first server of its case, median (10-90 %) of the rounds.\n')
        self.put('| case | server | µs of CPU / requests a second | ratio |\n|---|---|---|---|')
        rest = []
        for case in (*cases.ALL, *gateways.ALL, *shards.ALL):
            if not wanted(case.__name__, only):
                continue
            text, why = self.case(build, case, rounds, requests)
            for _, server, numbers, ratio in rows(text):
                self.put(f'| `{case.__name__}` | {server} | {" / ".join(numbers.split())} | {ratio} |')
            if why:
                self.put(f'| `{case.__name__}` | failed: {why} | | |')
            rest += [f'- `{case.__name__}`: {line}' for line in remarks(text)]
        self.put('\n' + '\n'.join(rest))

    def told(self, title, all_cases, build, rounds, requests, only):
        """Cases that say what they have found in sentences."""
        chosen = [case for case in all_cases if wanted(case.__name__, only)]
        if not chosen:
            return
        self.put(f'\n## {title}')
        for case in chosen:
            text, why = self.case(build, case, rounds, requests)
            heads = [line[3:] for line in text.splitlines() if line.startswith('## ')]
            self.put(f"\n`{case.__name__}`: {'; '.join(heads)}\n")
            for line in remarks(text):
                self.put(f'- {line}')
            if why:
                self.put(f'- failed: {why}')

    def idle(self, build, weir, connections, only):
        if not wanted('idle', only):
            return
        self.put('\n## Idle connections\n')
        self.put(f'KiB of resident memory each, {connections} of a kind.\n')
        text, why = self.part('idle', [sys.executable, ROOT / 'bench/load/idle.py', weir, '--connections', connections,
                                       '--peers', build])
        found = dict(re.findall(r'^(\S+)\s+([\d.]+) KiB$', text, re.M))
        self.put('| ' + ' | '.join(idle.KINDS) + ' |\n' + '|---' * len(idle.KINDS) + '|')
        self.put('| ' + ' | '.join(found.get(kind, 'failed') for kind in idle.KINDS) + ' |\n')
        for peer, kind, kib in re.findall(r'^(\S+) (\S+)\s+([\d.]+) KiB$', text, re.M):
            self.put(f'- {peer}, {kind}: {kib}')
        if why:
            self.put(f'\nfailed: {why}')

    def program(self, title, program, only):
        """What a bench without a server says, line by line."""
        if not wanted(program.name, only):
            return
        self.put(f'\n## {title}\n')
        text, why = self.part(program.name, [program])
        for line in text.splitlines():
            self.put(f'- {" ".join(line.split())}')
        if why:
            self.put(f'- failed: {why}')

    def requests(self, build, only):
        self.put('\n## Of one request: user instructions, allocations, system calls\n')
        self.put('| case | instructions | allocations | system calls |\n|---|---|---|---|')
        for name in request_profile.CASES:
            if not wanted(f'profile {name}', only):
                continue
            text, why = self.part(f'profile {name}', [sys.executable, ROOT / 'bench/load/profile.py', build, name])
            match = re.search(r': (\d+) user instructions, (-?[\d.]+) allocations, ([\d.]+) system calls a (\w+)', text)
            self.put(f'| `{name}`, a {match[4]} | {int(match[1]):,} | {match[2]} | {match[3]} |' if match else f'| `{name}` | failed: {why} | | |')


def wanted(name, only):
    return not only or any(word in name for word in only)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('build', type=pathlib.Path)
    words.add_argument('profile_build', type=pathlib.Path)
    words.add_argument('weir', type=pathlib.Path)
    words.add_argument('--rounds', type=int, default=9)
    words.add_argument('--requests', type=int, default=0, help='of one run of a load case; 0 = what the case says')
    words.add_argument('--seconds', type=int, default=0, help='of one measurement of a tail; 0 = five')
    words.add_argument('--connections', type=int, default=8000)
    words.add_argument('--out', type=argparse.FileType('w'), default=sys.stdout)
    words.add_argument('--only', nargs='+', default=[])
    args = words.parse_args()
    report = Report(args.out)
    report.put(f'# A run of the benches\n\n{machine()}')
    report.load(args.build, args.rounds, args.requests, args.only)
    report.told('Tails', tails.ALL, args.build, args.rounds, args.seconds, args.only)
    report.told('Slow streams', slow_streams.ALL, args.build, args.rounds, 0, args.only)
    report.told('Batching', full_batches.ALL, args.build, args.rounds, args.requests, args.only)
    report.idle(args.build, args.weir, args.connections, args.only)
    report.program('Sessions of tokens, without sockets', args.build / 'bench/session/table_bench', args.only)
    report.program("The Open Inference Protocol's messages, without a server", args.build / 'bench/oip/infer_bench', args.only)
    report.requests(args.profile_build, args.only)
    for why in report.failed:
        print(f'failed: {why}', file=sys.stderr)
    return int(bool(report.failed))


if __name__ == '__main__':
    sys.exit(main())
