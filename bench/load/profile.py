"""Where a request's instructions, allocations and system calls go: `./dev bench profile [case] [--functions N] [--atomics]`.

usage: profile.py BUILD_DIR [grpc_small|rest_json|stream_sse|forward_small] [--functions N] [--atomics]

The server runs under callgrind, one shard, and is loaded with N and then 3 N requests over the same connections: what the
second has more, divided by 2 N, is a request's share, without start-up and without what a connection costs. Under callgrind
the server is slow, so each of its turns finds as many requests as a client has under way, and the 200 requests a second whose
times it would keep for the console would be all of them: it keeps none. System calls are counted by strace, at the server's
speed under it. --atomics: how often a request changes something atomically (locks do, too), by function: what many cores would
share. forward_small is a gateway (engine: forward) in front of a server that runs beside it and is not counted.
"""

import argparse
import collections
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import callgrind
import cases
import measure
import payloads


@dataclasses.dataclass
class Case:
    load: measure.Load  # `requests` of the short run
    path: str
    body: bytes
    unit: int = 1  # what is counted, of each request
    what: str = 'request'
    forwards: bool = False  # the server is a gateway: another one has the model


CASES = {
    'grpc_small': Case(measure.Load(1024, 8, 32, headers=cases.GRPC), cases.INFER,
                       payloads.grpc_frame(payloads.infer_request('identity', 'INPUT0', 16))),
    'rest_json': Case(measure.Load(1024, 32, 1, http1=True, headers=cases.JSON), '/v2/models/identity/infer',
                      payloads.infer_json('INPUT0', 16)),
    'stream_sse': Case(measure.Load(128, 64, 1, http1=True, headers=cases.JSON), '/v1/chat/completions',
                       payloads.chat_json('echo', 'a', cases.TOKENS), cases.TOKENS, 'token'),
}
CASES['forward_small'] = dataclasses.replace(CASES['grpc_small'], forwards=True)


def repository(folder):
    models = cases.echo(folder)
    os.symlink(cases.ROOT / 'conf/models/identity', models / 'identity')
    return models


def forwarding_repository(folder, origin):
    """Identity, which a server on that port runs."""
    models = pathlib.Path(folder) / 'forwarding'
    (models / 'identity').mkdir(parents=True)
    (models / 'identity/model.yaml').write_text(
        f'engine: forward\nkind: oip-grpc\norigins: ["http://127.0.0.1:{origin}"]\nparameters: {{check_interval: 60s}}\n')
    return models


def serve(binary, models):
    """The command of a server on one shard, for a port."""
    return lambda port: [binary, 'serve', models, '--listen', f'127.0.0.1:{port}', '--shards', '1', '--access-log', 'off',
                         '--console-timelines', '0']


@contextlib.contextmanager
def models_of(case, folder, binary):
    """The repository of the server of a case, and its origin, which runs meanwhile, or None."""
    models = repository(folder)
    if not case.forwards:
        yield models, None
        return
    origin = measure.Server('origin', serve(binary, models))
    try:
        measure.wait_ready(origin.port)
        yield forwarding_repository(folder, origin.port), origin
    finally:
        origin.stop()


class Watched(measure.Server):
    """The server below another program; `process` is the server itself where that replaces itself by it, as valgrind does."""

    def __init__(self, command):
        self.port = measure.free_port()
        self.process = subprocess.Popen([str(a) for a in command(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        measure.wait_port(self.port, self.process, 120)
        measure.wait_ready(self.port, 120)


def instructions(server, case, body, out):
    """Two dumps: of the short run and of the long one."""
    dumps = []
    for times in (1, 1, 3):  # the first warms up
        load = dataclasses.replace(case.load, requests=case.load.requests * times)
        measure.h2load(load, f'http://127.0.0.1:{server.port}{case.path}', body)
        subprocess.run(['callgrind_control', '--dump', str(server.process.pid)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        newest = max(pathlib.Path(out).parent.glob(pathlib.Path(out).name + '.*'), key=lambda p: int(p.suffix[1:]))
        dumps.append(callgrind.Dump(newest))
    return dumps[1:]


def system_calls(server, case, body, folder):
    """{name: calls of one request}, those of every connection among them."""
    out = pathlib.Path(folder) / 'strace'
    url = f'http://127.0.0.1:{server.port}{case.path}'
    load = dataclasses.replace(case.load, requests=case.load.requests * 4)
    strace = subprocess.Popen(['strace', '-f', '-c', '-o', out, '-p', str(server.process.pid)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    time.sleep(1)  # until it has attached: it says so only to a terminal
    measure.h2load(load, url, body)
    strace.send_signal(signal.SIGINT)
    strace.wait(20)
    counted = re.findall(r'^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$', out.read_text(), re.M)
    return {name: int(calls) / load.requests for calls, name in counted if name != 'total'}


def more(short, long, requests):
    """What one request adds."""
    return collections.Counter({key: (long[key] - short[key]) / requests for key in set(long) | set(short)})


def print_counts(title, counts, least, total=None):
    print(f'  {title}')
    total = total or sum(counts.values())
    for name, count in counts.most_common():
        if count >= least:
            print(f'    {count:10.2f} {100 * count / max(total, 1e-9):5.1f} %  {name}')


def print_functions(title, counts, most, total):
    named = collections.Counter({f'{callgrind.room(k)}: {k[1][:120]}': v for k, v in counts.most_common(most)})
    print_counts(title, named, 0.01, total)


def profile(name, case, binary, functions, atomics):
    with tempfile.TemporaryDirectory() as folder, models_of(case, folder, binary) as (models, _):
        body, out = pathlib.Path(folder) / 'body', f'{folder}/callgrind'
        body.write_bytes(case.body)
        command = serve(binary, models)
        places = ['--dump-instr=yes', '--compress-pos=no'] if atomics else []
        watched = lambda port: ['valgrind', '--tool=callgrind', f'--callgrind-out-file={out}', *places, *command(port)]
        server = Watched(watched)
        try:
            short, long = instructions(server, case, body, out)
        finally:
            server.stop()
        server = Watched(command)
        try:
            calls = system_calls(server, case, body, folder)
        finally:
            server.stop()
    units = 2 * case.load.requests * case.unit
    own = more(short.own, long.own, units)
    asked = more(short.allocations(), long.allocations(), units)
    print(f'\n## {name}: {sum(own.values()):.0f} user instructions, {sum(asked.values()):.2f} allocations, '
          f'{sum(calls.values()) / case.unit:.2f} system calls a {case.what}')
    print_counts('instructions by room', callgrind.by_room(own), 1)
    print_counts('allocations by room', callgrind.by_room(asked), 0.01)
    print_counts('system calls', collections.Counter({k: v / case.unit for k, v in calls.items()}), 0.01)
    if functions:
        print_functions('instructions by function', own, functions, sum(own.values()))
        print_functions('instructions by function, with those that it calls', more(short.all, long.all, units), functions,
                        sum(own.values()))
        print_functions('allocations by function', asked, functions, sum(asked.values()))
    if atomics:
        counts = callgrind.atomics(more(short.at, long.at, units))
        print_functions(f'atomic read-modify-writes by function: {sum(counts.values()):.2f}', counts, 100, sum(counts.values()))
    sys.stdout.flush()


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('build', type=pathlib.Path)
    words.add_argument('case', nargs='?', choices=CASES)
    words.add_argument('--functions', type=int, default=0, help='so many of the dearest functions')
    words.add_argument('--atomics', action='store_true')
    args = words.parse_args()
    for name, case in CASES.items():
        if args.case in (None, name):
            profile(name, case, args.build / 'src/app/weir', args.functions, args.atomics)


if __name__ == '__main__':
    main()
