"""Two shards: what they take of each other. One server with two shards, beside two servers with one each, which share nothing.

On two cores with the client there, requests a second do not say how far a server scales: whatever the server gains the client loses. CPU
time of a request does. If a request takes as much with two shards as with one in a server of its own, two shards serve twice as much.
"""

import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import tempfile

import cases
import measure
import payloads

CORES = ('0', '1')


def cpu_us(servers, ports, load, path, body):
    """CPU time of a request, in us. Each core has half of the clients, and each client has half of its connections at each port."""
    before = sum(server.cpu_ns() for server in servers)
    part = dataclasses.replace(load, requests=load.requests // 4, connections=load.connections // 4)
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        done = [clients.submit(measure.h2load, part, f'http://127.0.0.1:{port}{path}', body, core) for core in CORES for port in ports]
        rate = sum(d.result() for d in done)
    return measure.Run((sum(server.cpu_ns() for server in servers) - before) / 1000 / (4 * part.requests), rate)


def two_shards(build, rounds, requests):
    """CPU of a request: a server with two shards on two cores beside two servers with one shard each."""
    if os.geteuid() == 0:
        os.nice(-15)
    loads = {'gRPC, 16 floats, 8 connections x 32 streams': (measure.Load(requests or 80_000, 8, 32, headers=cases.GRPC), cases.INFER, 'grpc'),
             'REST JSON, 16 floats, 32 connections': (measure.Load(requests or 40_000, 32, 1, True, cases.JSON),
                                                      '/v2/models/identity/infer', 'json')}
    with tempfile.TemporaryDirectory() as models:
        shutil.copytree(cases.ROOT / 'conf/models/identity', pathlib.Path(models) / 'identity')
        serve = lambda *flags: cases.weir(build, *flags, repository=models)
        bodies = {'grpc': payloads.grpc_frame(payloads.infer_request('identity', 'INPUT0', 16)), 'json': payloads.infer_json('INPUT0', 16)}
        commands = {'weir': (serve('--shards', '2', '--pin'), ','.join(CORES)), **{f'weir {c}': (serve(), c) for c in CORES}}
        with cases.scratch(**bodies) as files, cases.running(commands) as (shared, *apart):
            for title, (load, path, body) in loads.items():
                results = {'a server for each shard': [], 'a server with two shards': []}
                for _ in range(rounds + 1):  # the first warms up
                    results['a server for each shard'].append(cpu_us(apart, [s.port for s in apart], load, path, files[body]))
                    results['a server with two shards'].append(cpu_us([shared], [shared.port] * 2, load, path, files[body]))
                measure.table(f'Two shards: {title}', {name: runs[1:] for name, runs in results.items()}, 'a server for each shard')


ALL = (two_shards,)
