#!/usr/bin/python3
"""What open consoles cost: the server's CPU time per request with three of them and with none, in pairs, in turns.

    bench/load/consoles.py [WEIR] [--pairs 8] [--seconds 3] [--paths PATH…]

Each console follows the live data and the tail of requests, as the Requests page does (GET /console/v1/live and
/console/v1/requests); --paths says otherwise: `weir tail` asks for /console/v1/requests alone. The load
is `weir bench` at one rate over gRPC, on the ONNX model that adds two vectors; the server has one shard, since a
request's cost depends on how many shards the connections of the load came to. Prints the ratio of served requests per
second of the server's CPU time, with consoles : without; the median of the pairs, and their range. It wants a machine
that does nothing else: a request's cost is that of its wake-ups above all.
"""

import argparse
import http.client
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSOLES = 3
RATE = 8000  # requests per second: below what one shard can do, so that both of a pair do the same work


PAGE = ['/console/v1/live', '/console/v1/requests?most=300']


class Console:
    """Reads its streams until it is closed."""

    def __init__(self, port, paths):
        self.octets = 0
        self.connections = []
        for path in paths:
            connection = http.client.HTTPConnection('127.0.0.1', port)
            connection.request('GET', path)
            answer = connection.getresponse()
            assert answer.status == 200, (path, answer.status, answer.read())
            self.connections.append(connection)
            threading.Thread(target=self.read, args=(answer,), daemon=True).start()

    def read(self, answer):
        try:
            while part := answer.read1(1 << 16):
                self.octets += len(part)
        except (OSError, http.client.HTTPException):
            pass

    def close(self):
        assert self.octets > 1000, 'a console that reads nothing measures nothing'
        for connection in self.connections:
            connection.sock.shutdown(2)


def cpu_s(pid):
    """Seconds that the threads of a process have run so far, to the nanosecond."""
    return sum(int((task / 'schedstat').read_text().split()[0]) for task in pathlib.Path(f'/proc/{pid}/task').iterdir()) / 1e9


def measure(weir, server, port, seconds):
    """Requests per second of the server's CPU time."""
    before = cpu_s(server.pid)
    out = subprocess.run([weir, 'bench', 'simple', f'127.0.0.1:{port}', '--protocol', 'oip-grpc',
                          '--rate', str(RATE), '--duration', f'{seconds}s', '--warmup', '0s', '--json'], stdout=subprocess.PIPE, check=True)
    return json.loads(out.stdout)['requests'] / (cpu_s(server.pid) - before)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('weir', nargs='?', default=ROOT / 'build/weir')
    words.add_argument('--pairs', type=int, default=8)
    words.add_argument('--seconds', type=int, default=3)
    words.add_argument('--paths', nargs='+', default=PAGE)
    args = words.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        port_file = pathlib.Path(scratch) / 'log'
        with open(port_file, 'wb') as log:
            server = subprocess.Popen([args.weir, 'serve', ROOT / 'conf/models', '--listen', '127.0.0.1:0', '--shards', '1'], stdout=log, stderr=log)
        try:
            port = None
            while port is None and server.poll() is None:
                text = port_file.read_text()
                if 'listening on http://127.0.0.1:' in text:
                    port = int(text.split('listening on http://127.0.0.1:')[1].split()[0])
            measure(args.weir, server, port, args.seconds)
            ratios = []
            for i in range(args.pairs):
                results = {}
                for some in (True, False) if i % 2 else (False, True):
                    consoles = [Console(port, args.paths) for _ in range(CONSOLES if some else 0)]
                    results[some] = measure(args.weir, server, port, args.seconds)
                    for console in consoles:
                        console.close()
                ratios.append(results[True] / results[False])
                print(f'{results[False]:9.0f} without, {results[True]:9.0f} with: {ratios[-1]:.3f}', flush=True)
        finally:
            server.terminate()
            server.wait()
    print(f'median {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}')


if __name__ == '__main__':
    sys.exit(main())
