"""One attack, measured from outside: the server, its healthy client, its attacker, and what they say afterwards."""

import dataclasses
import functools
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'e2e'))
import harness  # noqa: E402
import pace  # noqa: E402

SERVED = 0.99            # of the healthy client's requests
TURN_S = 0.025           # CPU time of one turn of a shard; the quick form allows more on a machine that is slower than the table's
P99_FACTOR, P99_MS = 10, 250  # of the unloaded p99, or so many ms: the greater one is allowed
MIB = 1 << 20
HUGE = 2 * MIB  # a huge page
SCALE = 4 if harness.SANITIZED else 1  # of every wait
DRAIN_S = 60  # for the work that an attack leaves behind: a machine that does other things, too, may take half of it
PATIENCE = {'full': 10.0, 'quick': 5.0}  # seconds: a later answer counts as none
UNLOADED_S = {'full': 5.0, 'quick': 0.2}  # the quick form is not judged by the clock
AFTER_S = {'full': 5.0, 'quick': 0.5}
LONG = ('chat', 'form')  # kinds that take as long as the model and the compiler do: not in p99
RUNS = 3  # of a quick form, at most
PREPARING = threading.Lock()  # flags() may tell its attack something by the environment: no other one's is there then
MACHINES = {'full': 2560 * MIB, 'quick': 512 * MIB}  # memory that the machine has found before a server needs it


@dataclasses.dataclass
class Outcome:
    name: str
    asked: int = 0
    served: int = 0
    p50_ms: float = 0
    p99_ms: float = 0
    unloaded_p99_ms: float = 0
    slowness: float = 1  # of the machine during the attack (pace.py)
    turn_limit_s: float = TURN_S
    stood_ms: float = 0  # the longest time for which the healthy client did not run though it had nobody to wait for
    rss_before: int = 0
    rss_peak: int = 0
    rss_after: int = 0
    rss_limit: int = 0
    heap_before: int = 0  # bytes from malloc
    heap_peak: int | None = None  # None: nobody counts
    turn_s: float | None = None  # None: the server does not tell
    slow_turns: dict = dataclasses.field(default_factory=dict)
    cpu_s: float = 0
    did: str = ''
    errors: dict = dataclasses.field(default_factory=dict)
    faults: list = dataclasses.field(default_factory=list)  # why it fails, whatever the machine is doing
    late: list = dataclasses.field(default_factory=list)    # and what is wrong by the clock alone

    @property
    def share(self):
        return self.served / self.asked if self.asked else 1.0

    @property
    def maybe_machine(self):
        """A machine that is busy with something else denies requests and lengthens turns, too: the time that a hypervisor
        takes away counts as CPU time of the thread that was running."""
        return len(self.faults) == 1 and (self.share < SERVED or self.long_turn)

    @property
    def long_turn(self):
        return bool(self.turn_s and self.turn_s > self.turn_limit_s and not harness.SANITIZED)


def percentile(times, share):
    """Of sorted times; 0 when there are none."""
    return times[min(len(times) - 1, int(len(times) * share))] if times else 0.0


class Process:
    """What /proc says of the server."""

    def __init__(self, pid):
        self.pid = pid

    def _status(self, name):
        text = pathlib.Path(f'/proc/{self.pid}/status').read_text()
        return int(re.search(name + r':\s+(\d+)', text)[1]) << 10

    def rss(self):
        return self._status('VmRSS')

    def peak(self):
        return self._status('VmHWM')

    def reset_peak(self):
        pathlib.Path(f'/proc/{self.pid}/clear_refs').write_text('5')

    def cpu(self):
        fields = pathlib.Path(f'/proc/{self.pid}/stat').read_text().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


@functools.cache
def malloc_counter():
    """The library that counts the server's heap, compiled for this run; None where there is no compiler for it, or a
    sanitizer's malloc is in its place."""
    compiler = shutil.which('g++') or shutil.which('c++')
    if harness.SANITIZED or not compiler:
        return None
    library = harness.scratch() / 'libmalloc_counter.so'
    subprocess.run([compiler, '-O2', '-std=c++17', '-shared', '-fPIC', str(HERE / 'malloc_counter.cc'), '-o', str(library)], check=True)
    return library


class Heap:
    """What malloc_counter.cc says of the server."""

    def __init__(self):
        self.library = malloc_counter()
        self.path = harness.scratch() / f'heap-{time.monotonic_ns()}'

    def env(self):
        return {'LD_PRELOAD': str(self.library), 'MALLOC_COUNTS': str(self.path)} if self.library else {}

    def live(self):
        return self._numbers()[0]

    def peak(self):
        return self._numbers()[1]

    def reset_peak(self):
        if self.path.exists():
            with open(self.path, 'r+b') as counts:
                counts.seek(8)
                counts.write(bytes(8))

    def _numbers(self):
        return struct.unpack('qq', self.path.read_bytes()) if self.path.exists() else (0, None)


def metrics(server, wait=60):
    """{line's name and labels: value}, or {} when the server does not answer."""
    try:
        with urllib.request.urlopen(server.url('/metrics'), timeout=wait) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    return {name: float(value) for name, _, value in (line.rpartition(' ') for line in lines if line and line[0] != '#')}


class Healthy:
    def __init__(self, server, patience, probes, environment):
        command = [sys.executable, str(HERE / 'healthy.py'), str(server.port), str(patience), *probes]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def wait_until_warm(self):
        """Its imports are done, and its first connections are made."""
        self.process.stdout.readline()

    def phase(self, name):
        self.process.stdin.write(name + '\n')
        self.process.stdin.flush()

    def report(self):
        out, _ = self.process.communicate()
        return json.loads(out)


class Attacker:
    def __init__(self, server, name, seconds, form, environment):
        command = [sys.executable, str(HERE / 'run.py'), '--strike', name, str(server.port), str(server.process.pid), str(seconds), form]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.patience = seconds + 120 * SCALE

    def strike(self):
        """Begins, and says what it did: {'did', 'broke'}. Until then it has done no more than its imports."""
        try:
            out, _ = self.process.communicate('go\n', timeout=self.patience)
            return json.loads(out.strip().splitlines()[-1])
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return {'did': 'was still waiting for the server long after its time', 'broke': ['the attacker could not end']}
        except (IndexError, ValueError):
            return {'did': '', 'broke': [f'the attack itself has failed (exit code {self.process.returncode})']}


def find_memory(most):
    """A virtual machine finds its memory when a page is touched for the first time, which takes it 3 ms for each MiB here:
    thirty times what the kernel needs to clear it, and counted as CPU time of the thread that touched it. So the pages that
    a server will need are touched before; they stay the machine's."""
    lines = pathlib.Path('/proc/meminfo').read_text().splitlines()
    available = next((int(line.split()[1]) << 10 for line in lines if line.startswith('MemAvailable:')), 0)
    size = min(most, available // 2) // HUGE * HUGE
    if size == 0:
        return
    with mmap.mmap(-1, size) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, size, 4096):
            memory[at] = 1


def ready(server):
    end = time.monotonic() + harness.PATIENCE
    while True:
        try:
            with urllib.request.urlopen(server.url('/readyz'), timeout=harness.PATIENCE):
                return
        except OSError:
            if time.monotonic() > end:
                raise RuntimeError(f'weir is not ready:\n{server.output()[-3000:]}') from None
            time.sleep(0.05)


def run(attack, form):
    """Runs one attack against a server of its own; returns its Outcome. form: 'full' or 'quick'. What the server does wrong
    it does every time: where the machine may be at fault, the quick form is run again, RUNS times in all."""
    out = once(attack, form)
    return again(attack, out) if form == 'quick' else out


def again(attack, out):
    """The quick form once more, and once more, while its one fault may be the machine's."""
    for _ in range(RUNS - 1):
        if not out.faults or not out.maybe_machine:
            break
        out = once(attack, 'quick')
    return out


def once(attack, form):
    out = Outcome(attack.name)
    heap = Heap()
    with PREPARING:
        flags = attack.flags() if callable(attack.flags) else attack.flags
        environment = dict(os.environ)
    models = attack.repository() if attack.repository else harness.MODELS
    find_memory(MACHINES[form])
    program = attack.program(harness.WEIR) if attack.program else None
    flags = ('--drain-timeout', f'{DRAIN_S}s', *flags)
    server = harness.Server(*flags, repository=models, program=program, env={**heap.env(), **(dict(attack.quick_env) if form == 'quick' else {})})
    try:
        ready(server)
        _measure(out, server, heap, attack, form, environment)
    finally:
        _end(out, server, attack)
    _judge(out, form)
    return out


def _measure(out, server, heap, attack, form, environment):
    process = Process(server.process.pid)
    healthy = None if attack.ends_server else Healthy(server, PATIENCE[form] * SCALE, attack.probes, environment)
    attacker = Attacker(server, attack.name, attack.seconds if form == 'full' else attack.quick, form, environment)
    if healthy:
        healthy.wait_until_warm()
        healthy.phase('unloaded')
        time.sleep(UNLOADED_S[form])
    before = metrics(server)
    out.rss_before = process.rss()
    out.rss_limit = out.rss_before + int(1.1 * before.get('weir_slab_budget_bytes', 0)) + 64 * MIB
    process.reset_peak()
    out.heap_before = heap.live()
    heap.reset_peak()
    cpu = process.cpu()
    if healthy:
        healthy.phase('attack')
    told = attacker.strike()
    out.did, out.faults = told['did'], [f'possible: {what}' for what in told['broke']]
    if healthy:
        healthy.phase('after')
        time.sleep(AFTER_S[form])
        _count(out, healthy.report(), form)
    if attack.ends_server:
        return
    after = metrics(server)
    if server.process.poll() is not None:
        return
    out.heap_peak = heap.peak()
    out.rss_peak, out.rss_after, out.cpu_s = process.peak(), process.rss(), process.cpu() - cpu
    _turns(out, before, after)


def _turns(out, before, after):
    if not after:
        out.faults.append('/metrics does not answer')
    for name, value in after.items():
        if name.startswith('weir_shard_longest_turn_seconds'):
            out.turn_s = max(out.turn_s or 0, value)
        elif name.startswith('weir_shard_slow_turns_total') and value > before.get(name, 0):
            out.slow_turns[re.search('cause="(.*?)"', name)[1]] = int(value - before.get(name, 0))


def _count(out, report, form):
    times, unloaded = [], []
    out.stood_ms = report['late_ms'].get('attack', 0)
    out.slowness = pace.slowness(report['pieces_ms'].get('attack', []))
    out.turn_limit_s = TURN_S * (out.slowness if form == 'quick' else 1)
    report = report['phases']
    for kind, count in report.get('attack', {}).items():
        out.asked, out.served = out.asked + count['asked'], out.served + count['served']
        times += count['times_ms'] if kind not in LONG else []
        for why, n in count['errors'].items():
            out.errors[f'{kind}: {why}'] = n
    for kind, count in report.get('unloaded', {}).items():
        unloaded += count['times_ms'] if kind not in LONG else []
    times.sort(), unloaded.sort()
    out.p50_ms, out.p99_ms, out.unloaded_p99_ms = percentile(times, 0.5), percentile(times, 0.99), percentile(unloaded, 0.99)


def _end(out, server, attack):
    code = server.process.poll()
    if code is not None and not (attack.ends_server and code == 0):
        out.faults.insert(0, f'the server ended with {code}: {server.output()[-300:]}')
        server.log.close()
        return
    try:
        # A second SIGTERM would end the drain.
        if (code := server.stop(0 if attack.ends_server else signal.SIGTERM, DRAIN_S + harness.PATIENCE)) != 0:
            out.faults.insert(0, f'the server ended with {code}: {server.output()[-300:]}')
    except RuntimeError:
        out.faults.append('the server did not end after SIGTERM')


def _judge(out, form):
    if out.asked and out.share < SERVED:
        worst = max(out.errors.items(), key=lambda e: e[1], default=('', 0))
        out.faults.append(f'{out.asked - out.served} of {out.asked} requests were denied, most of them: {worst[0]}')
    if out.rss_limit and out.rss_peak > out.rss_limit and not harness.SANITIZED:
        out.faults.append(f'{out.rss_peak // MIB} MiB of memory; {out.rss_limit // MIB} are allowed')
    heap_limit = out.rss_limit - out.rss_before + out.heap_before
    if out.rss_limit and out.heap_peak and out.heap_peak > heap_limit:
        out.faults.append(f'{out.heap_peak // MIB} MiB of heap; {heap_limit // MIB} are allowed')
    if out.long_turn:
        out.faults.append(f'a turn of {out.turn_s * 1000:.0f} ms of CPU time ({", ".join(out.slow_turns) or "?"}); {out.turn_limit_s * 1000:.0f} are allowed'
                          f' (the machine was {out.slowness:.1f} times as slow as the one of the table)')
    if out.p99_ms > max(P99_MS, P99_FACTOR * out.unloaded_p99_ms):
        out.late.append(f'p99 {out.p99_ms:.0f} ms; unloaded {out.unloaded_p99_ms:.1f} ms' +
                        (f'; the machine did not run the client for {out.stood_ms:.0f} ms' if out.stood_ms > P99_MS / 2 else ''))
