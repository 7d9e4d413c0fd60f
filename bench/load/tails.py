"""Tails: how long the slowest answers take at a load that a server can carry, beside peers and beside large neighbours.

Requests come at random times (a Poisson process), whatever the answers do, and a request's time counts from when it was due: a
server that stalls is charged for all who would have come meanwhile (coordinated omission). The client (bench/gpu/load_main.cc)
has a core of its own; its own CPU is printed with every line, for above 0.8 what is read is the client's queue.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import cases
import measure
import payloads

SHARE = 0.7       # of what a server can carry at most
QUIET = 0.05      # of it, for small requests beside large ones: the client has to keep up beside its own large ones
WARM = 1.5        # seconds of large ones before: the first of all get memory that the machine has to make
SECONDS = 5       # of one measurement
ELEPHANT = [('images', [128, 224, 224, 3]), ('rows', [128, 25000])]  # 77 MB + 12.8 MB


class Way:
    """One kind of request: how h2load and the client of the tails are told of it."""

    def __init__(self, kind, path, body, load):
        self.kind, self.path, self.body, self.load = kind, path, body, load

    @staticmethod
    def grpc(folder):
        body = payloads.infer_request('identity', 'INPUT0', 16)
        return Way('unary', cases.INFER, Files(folder, 'grpc', body, payloads.grpc_frame(body)),
                   measure.Load(40_000, 8, 32, headers=cases.GRPC))

    @staticmethod
    def rest(folder):
        body = payloads.infer_json('INPUT0', 16)
        return Way('post', '/v2/models/identity/infer', Files(folder, 'json', body, body),
                   measure.Load(40_000, 64, 1, http1=True, headers=cases.JSON))

    def most(self, server, seconds):
        """Requests per second that the server answers at most."""
        short = measure.Load(max(2_000, self.load.requests // 10), self.load.connections, self.load.streams, self.load.http1,
                             self.load.headers)
        rate = measure.once(server, short, self.path, self.body.framed).rate
        load = measure.Load(int(max(2_000, rate * seconds)), short.connections, short.streams, short.http1, short.headers)
        return measure.once(server, load, self.path, self.body.framed).rate

    def tail(self, build, server, rate, seconds):
        """What the client of the tails says of so many requests per second."""
        command = ['taskset', '-c', measure.CLIENT_CORE, build / 'bench/load/load_client', self.kind, f'port={server.port}',
                   f'path={self.path}', f'body={self.body.bare}', f'rate={rate:.0f}', f'requests={int(rate * seconds)}',
                   f'connections={self.load.connections}', f'streams={self.load.streams}', f'limit={4 * seconds + 20}']
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0 or json.loads(done.stdout)['failed']:
            raise RuntimeError(f'{server.name}: {done.stdout} {done.stderr}')
        return json.loads(done.stdout)


class Files:
    def __init__(self, folder, name, bare, framed):
        self.bare, self.framed = (str(pathlib.Path(folder) / f'{name}.{kind}') for kind in ('bare', 'framed'))
        pathlib.Path(self.bare).write_bytes(bare)
        pathlib.Path(self.framed).write_bytes(framed)


QUANTILES = ('p50', 'p99', 'p999')


def typical(readings):
    """Of several readings of one load, medians in microseconds, and the client's CPU."""
    times = {q: 1000 * measure.spread([r['latency_ms'][q] for r in readings])[0] for q in QUANTILES}
    return times, measure.spread([r['client_cpu'] for r in readings])[0]


def say(name, rate, readings):
    times, client = typical(readings)
    cut = ', cut off: the server did not keep up' if any(r['cut'] for r in readings) else ''
    print(f"{name}: {rate:.0f} requests/s, p50 {times['p50']:.0f} us, p99 {times['p99']:.0f} ({times['p99'] / times['p50']:.1f} x p50), "
          f"p99.9 {times['p999']:.0f} ({times['p999'] / times['p50']:.1f} x), client CPU {client:.2f}{cut}", flush=True)
    return times


def seconds_of(requests):
    return SECONDS if not requests else max(1, min(SECONDS, requests))


def at_share(title, build, rounds, requests, way_of, servers):
    """Every server at its own SHARE, and weir at each peer's rate."""
    seconds = seconds_of(requests)
    print(f'\n## {title}: open loop, {SHARE:.0%} of what each server can carry, medians of {rounds} rounds of {seconds} s')
    with tempfile.TemporaryDirectory() as folder, cases.running(servers) as started:
        way, own = way_of(folder), started[0]
        for server in started:
            rate = SHARE * way.most(server, seconds)
            mine = say(server.name, rate, [way.tail(build, server, rate, seconds) for _ in range(rounds)])
            if server is own:
                continue
            equal = say(f'weir at the load of {server.name}', rate, [way.tail(build, own, rate, seconds) for _ in range(rounds)])
            print(f'weir / {server.name} at equal load: p99 {equal["p99"] / mine["p99"]:.2f}, p99.9 {equal["p999"] / mine["p999"]:.2f}',
                  flush=True)


def tails_grpc(build, rounds, requests):
    """p50, p99 and p99.9 of ModelInfer with 16 floats, beside grpc++. `requests`: seconds of a measurement."""
    at_share('gRPC tails', build, rounds, requests, Way.grpc,
             {'weir': cases.weir(build), 'grpc++ callback': cases.grpc_echo(build, 'callback'),
              'grpc++ async': cases.grpc_echo(build, 'async')})


def tails_rest(build, rounds, requests):
    """The same of REST JSON, beside nginx that does not look at the body."""
    with tempfile.TemporaryDirectory() as folder:
        at_share('REST tails', build, rounds, requests, Way.rest,
                 {'weir': cases.weir(build), 'nginx return 200': cases.nginx(folder)})


@contextlib.contextmanager
def repeated(work):
    """Does work() again and again meanwhile, in a thread of its own; a list of how often. What it returns, unless None, is an error."""
    stop, done, wrong = threading.Event(), [0], []

    def feed():
        while not stop.is_set() and not wrong:
            if (error := work(done[0])) is not None:
                wrong.append(error)
            else:
                done[0] += 1

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()
    if wrong:
        raise RuntimeError(wrong[0])


def elephants(server, body, head):
    """77 MB after 77 MB over one connection, as long as the block runs."""
    # Its client has the other client's core, and gives way there.
    command = ['nice', '-n', '19', 'taskset', '-c', measure.CLIENT_CORE, 'h2load', '--h1', '-n1', '-c1', '-d', body, '-H',
               f'inference-header-content-length: {head}', f'http://127.0.0.1:{server.port}/v2/models/identity/infer']

    def send(_):
        said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout
        return None if 'status codes: 1 2xx' in said else said[-500:]

    return repeated(send)


def beside(title, build, rounds, seconds, ways, server, neighbour):
    """Small requests alone, and while `neighbour()` runs, in turns."""
    for name, way in ways.items():
        rate = QUIET * way.most(server, seconds)
        alone, together, units = [], [], 0
        for _ in range(rounds):
            alone.append(way.tail(build, server, rate, seconds))
            with neighbour() as done:
                time.sleep(WARM)
                together.append(way.tail(build, server, rate, seconds))
            units += done[0]
        without = say(f'{name} alone', rate, alone)
        beside = say(f'{name} {title} ({units} in all)', rate, together)
        print(f'{name} {title}: p99 {beside["p99"] / without["p99"]:.1f} x, p99.9 {beside["p999"] / without["p999"]:.1f} x that alone',
              flush=True)


def tails_elephant(build, rounds, requests):
    """Small requests beside one connection that sends 77 MB again and again."""
    seconds = seconds_of(requests)
    print(f'\n## Beside an elephant: {QUIET:.0%} of what weir can carry, medians of {rounds} rounds of {seconds} s')
    body, head = payloads.tensors_binary(ELEPHANT, 'rows')
    servers = {'weir': cases.weir(build, '--max-body', '512MiB', '--limits-stream-window', '16MiB')}
    with tempfile.TemporaryDirectory() as folder, cases.scratch(elephant=body) as files, cases.running(servers) as started:
        ways = {'gRPC': Way.grpc(folder), 'REST': Way.rest(folder)}
        beside('beside 77 MB requests', build, rounds, seconds, ways, started[0],
               lambda: elephants(started[0], files['elephant'], head))


def prefills(server, prompt):
    """One long prompt after the other, each asking for one token."""
    import urllib.request  # noqa: PLC0415

    def ask(turn):
        turn = (turn + 1) % 1000
        body = json.dumps({'model': 'llm', 'prompt': [*prompt[turn:], *prompt[:turn]], 'max_tokens': 1, 'temperature': 0}).encode()
        request = urllib.request.Request(f'http://127.0.0.1:{server.port}/v1/completions', body, {'content-type': 'application/json'})
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                answer.read()
        except OSError as error:
            return str(error)
        return None

    return repeated(ask)


def tails_prefill(build, rounds, requests):
    """Small requests to another model, while a model of tokens on the same core reads prompts of 2,000 tokens."""
    sys.path.insert(0, str(cases.ROOT / 'bench/gpu'))
    import weights  # noqa: PLC0415  (bench/gpu/weights.py)
    seconds = seconds_of(requests)
    print(f'\n## Beside a long prefill: {QUIET:.0%} of what weir can carry, medians of {rounds} rounds of {seconds} s')
    with tempfile.TemporaryDirectory() as folder:
        models = pathlib.Path(folder) / 'models'
        (models / 'llm').mkdir(parents=True)
        weights.write('200M', models / 'llm/1')
        (models / 'llm/model.yaml').write_text(
            'engine: llm\nparameters: {max_length: "4096", threads: "1", kv_cache: 512MiB, prefix_cache: "off"}\n')
        os.symlink(cases.ROOT / 'conf/models/identity', models / 'identity')
        with cases.running({'weir': cases.weir(build, repository=models)}) as started:
            ways = {'gRPC': Way.grpc(folder), 'REST': Way.rest(folder)}
            prompt = [weights.FIRST_WORD + i * 31 % 20000 for i in range(2000)]
            beside('beside prompts of 2,000 tokens', build, rounds, seconds, ways, started[0], lambda: prefills(started[0], prompt))


ALL = (tails_grpc, tails_rest, tails_elephant, tails_prefill)
