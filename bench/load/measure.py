"""How the whole-server benches measure: one server core, one client core, servers in turn, ratios of neighbours.

The machine is noisy, so absolute numbers mean little. Every round runs each server once, right after the other, with the
same number of requests; what counts is the server's CPU time per request, and the ratio of two servers of one round. The
table gives the median of those ratios and their 10-90 % range.
"""

import dataclasses
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import time
import urllib.request

SERVER_CORE, CLIENT_CORE = '0', '1'


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def wait_port(port, process, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as s:
            if s.connect_ex(('127.0.0.1', port)) == 0:
                return
        if process.poll() is not None:
            raise RuntimeError(f'the server ended with {process.returncode}: {process.args}')
        time.sleep(0.05)
    raise RuntimeError(f'no server on port {port}: {process.args}')


def wait_ready(port, seconds=60):
    """weir listens while its models still load."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{port}/readyz', timeout=seconds):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f'weir on port {port} is not ready')


class Server:
    """A process that listens on a port of its own, pinned to the server core, or to others."""

    def __init__(self, name, command, cores=SERVER_CORE):
        self.name, self.port = name, free_port()
        args = [str(a).replace('{port}', str(self.port)) for a in command(self.port)]
        self.process = subprocess.Popen(['taskset', '-c', cores, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_port(self.port, self.process)

    def cpu_ns(self):
        """CPU time of all its threads and child processes so far."""
        pids, total = [self.process.pid], 0
        for pid in pids:
            for task in pathlib.Path(f'/proc/{pid}/task').iterdir():
                total += int((task / 'schedstat').read_text().split()[0])
                children = (task / 'children').read_text().split()
                pids += [int(c) for c in children]
        return total

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


@dataclasses.dataclass
class Load:
    """What h2load is told. `path` and `body` may differ between servers, so they are given per run."""
    requests: int
    connections: int
    streams: int
    http1: bool = False
    headers: tuple = ()


def h2load(load, url, body_file, core=CLIENT_CORE):
    """Returns (seconds, requests per second, succeeded)."""
    command = ['taskset', '-c', core, 'h2load', '-n', str(load.requests), '-c', str(load.connections), '-m', str(load.streams),
               '-w', '24', '-W', '24']
    command += ['--h1'] if load.http1 else []
    command += ['-d', body_file] if body_file else []
    for header in load.headers:
        command += ['-H', header]
    out = subprocess.run([*command, url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300).stdout.decode()
    ok = re.search(r'requests: .* (\d+) succeeded', out)
    codes = re.search(r'status codes: (\d+) 2xx', out)
    rate = re.search(r'finished in ([\d.]+)(ms|s|us), ([\d.]+) req/s', out)
    if not (ok and rate and codes) or int(codes[1]) != load.requests:
        raise RuntimeError(f'h2load did not get {load.requests} answers from {url}:\n{out[-1500:]}')
    return float(rate[3])


@dataclasses.dataclass
class Run:
    cpu_us: float  # per request
    rate: float    # requests per second


def once(server, load, path, body_file):
    before = server.cpu_ns()
    rate = h2load(load, f'http://127.0.0.1:{server.port}{path}', body_file)
    return Run((server.cpu_ns() - before) / 1000 / load.requests, rate)


def steal():
    fields = pathlib.Path('/proc/stat').read_text().split('\n')[0].split()[1:]
    return int(fields[7]) / max(sum(map(int, fields)), 1)


def rounds(servers, load, target, count):
    """`target(server)` -> (path, body file). Returns {name: [Run per round]}."""
    results = {s.name: [] for s in servers}
    warm = dataclasses.replace(load, requests=max(load.requests // 10, load.connections * load.streams))
    for server in servers:
        once(server, warm, *target(server))
    for _ in range(count):
        for server in servers:
            results[server.name].append(once(server, load, *target(server)))
    return results


def spread(values):
    ordered = sorted(values)
    pick = lambda q: ordered[min(int(q * len(ordered)), len(ordered) - 1)]
    return statistics.median(ordered), pick(0.1), pick(0.9)


def table(title, results, first):
    """Prints each server beside `first`: how many times more CPU per request it takes."""
    print(f'\n## {title}')
    print(f"{'server':24} {'µs/request':>11} {'requests/s':>11}   CPU per request / {first}'s (median, 10-90 %)")
    for name, runs in results.items():
        ratio, low, high = spread([r.cpu_us / own.cpu_us for r, own in zip(runs, results[first])])
        cpu = statistics.median(r.cpu_us for r in runs)
        rate = statistics.median(r.rate for r in runs)
        print(f'{name:24} {cpu:11.2f} {rate:11.0f}   {ratio:5.2f}  ({low:.2f}-{high:.2f})', flush=True)
