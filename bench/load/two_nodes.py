#!/usr/bin/python3
"""What a second node is worth: a model that runs on one node, and on two that stand beside each other (origins beside
instances), and what a request costs the CPU on its way through the first to the second.

    bench/load/two_nodes.py [WEIR] [--rounds 5] [--seconds 4]

  served        requests per second of a model whose executions take 2 ms of something that is no CPU, one at a time: by one
                node, by two, and the ratio. All clients ask the first node
  cpu           microseconds of the servers' CPU for each request of a model without such a wait: at one node, through a
                gateway (both processes together), and the ratio
Each server has one shard; with two cores or more each is kept on a core of its own, and the client (h2load) runs wherever there
is room. Medians of the rounds (range), which take turns.
"""

import argparse
import http.client
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

WAIT_US, CLIENTS = 2000, 32
BODY = '{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[1]}]}'


class Server:
    def __init__(self, weir, folder, name, models, core):
        root = folder / name
        for model, text in models.items():
            (root / model).mkdir(parents=True)
            (root / model / 'model.yaml').write_text(text)
        log = folder / f'{name}.log'
        with open(log, 'wb') as out:
            command = ['taskset', '-c', str(core % os.cpu_count()), weir, 'serve', root, '--listen', '127.0.0.1:0', '--shards', '1']
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        while not (found := re.search(r'listening on http://127\.0\.0\.1:(\d+)', log.read_text())):
            if self.process.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.05)
        self.port = int(found[1])
        while self.get('/v2/health/ready') != 200:
            time.sleep(0.1)

    def get(self, path):
        connection = http.client.HTTPConnection('127.0.0.1', self.port)
        connection.request('GET', path)
        return connection.getresponse().status

    def cpu_s(self):
        """Seconds that its threads have run so far."""
        stat = pathlib.Path(f'/proc/{self.process.pid}/stat').read_text().rsplit(')', 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf('SC_CLK_TCK')

    def close(self):
        self.process.terminate()
        self.process.wait()


def tensors(more):
    return ('engine: identity\ninputs: [{name: x, type: FP32, shape: [1]}]\noutputs: [{name: x, type: FP32, shape: [1]}]\n' + more)


def served(server, model, seconds, body):
    """Requests per second, all of which were answered with 200."""
    url = f'http://127.0.0.1:{server.port}/v2/models/{model}/infer'
    said = subprocess.run(['h2load', '--h1', '-c', str(CLIENTS), '-t', '1', '-D', str(seconds), '--warm-up-time=1', '-d', body,
                           '-H', 'content-type: application/json', url], check=True, stdout=subprocess.PIPE).stdout.decode()
    done = re.search(r'(\d+) succeeded, (\d+) failed, (\d+) errored', said)
    if int(done[2]) or int(done[3]):
        raise SystemExit(said)
    return float(re.search(r'finished in .*?, ([\d.]+) req/s', said)[1])


def show(name, values, unit):
    print(f'{name:42} {statistics.median(values):9.2f} {unit}  ({min(values):.2f}-{max(values):.2f})')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('weir', nargs='?', default=str(pathlib.Path(__file__).resolve().parents[2] / 'build/weir'))
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=int, default=4)
    args = parser.parse_args()
    slow = tensors(f'max_batch: 1\nparameters: {{delay_us: {WAIT_US}}}\n')
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        body = folder / 'body.json'
        body.write_text(BODY)
        second = Server(args.weir, folder, 'second', {'m': slow, 'fast': tensors('max_batch: 8\n')}, 1)
        origins = f'origins: [http://127.0.0.1:{second.port}]\nkind: weir\n'
        first = Server(args.weir, folder, 'first', {'m': slow + origins, 'alone': slow, 'fast': 'engine: forward\n' + origins}, 0)
        results = {'one': [], 'two': [], 'direct': [], 'through': []}
        for _ in range(args.rounds):
            results['one'].append(served(first, 'alone', args.seconds, body))
            results['two'].append(served(first, 'm', args.seconds, body))
            for case, server, paid in (('direct', second, [second]), ('through', first, [first, second])):
                before = sum(one.cpu_s() for one in paid)
                rate = served(server, 'fast', args.seconds, body)
                results[case].append((sum(one.cpu_s() for one in paid) - before) / (rate * (args.seconds + 1)) * 1e6)
        first.close(), second.close()
    show('served by one node', results['one'], 'requests/s')
    show('served by two', results['two'], 'requests/s')
    show('two over one', [b / a for a, b in zip(results['one'], results['two'])], 'times')
    show('cpu of a request at one node', results['direct'], 'us')
    show('cpu of a request through a gateway', results['through'], 'us')
    show('through a gateway over one node', [b / a for a, b in zip(results['direct'], results['through'])], 'times')


if __name__ == '__main__':
    main()
