"""Server binaries by turns, in one run: what a change costs or gains. The first is what the others are compared with.

usage: pair.py CASE BINARY BINARY… [--rounds N] [--requests N]

A binary called bare_echo is bench/peers' (the ceiling of grpc_small and grpc_single), `nginx` is nginx's `return 200` (rest_json).
Of forward_small they are gateways in front of one origin, which is the first of them; `nghttpx` is one, too.
As root the servers and h2load have a higher priority than what else runs, so that a busy machine disturbs less.
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import tempfile

import cases
import gateways
import measure
import profile

CASES = {**{name: profile.CASES[name] for name in ('grpc_small', 'rest_json', 'forward_small')},
         'grpc_single': dataclasses.replace(profile.CASES['grpc_small'],
                                            load=dataclasses.replace(profile.CASES['grpc_small'].load, connections=64, streams=1))}
REQUESTS = {'grpc_small': 60_000, 'rest_json': 40_000, 'grpc_single': 40_000, 'forward_small': 30_000}
PEERS = ('nginx', 'nghttpx', 'bare_echo')


def command(binary, folder, models, origin):
    if binary == 'nginx':
        return cases.nginx(folder)
    if binary == 'nghttpx':
        return gateways.nghttpx(origin.port)
    path = pathlib.Path(binary).resolve()
    if path.name == 'bare_echo':
        return lambda port: [path, port]
    return profile.serve(path, models)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('case', choices=CASES)
    words.add_argument('binary', nargs='+')
    words.add_argument('--rounds', type=int, default=15)
    words.add_argument('--requests', type=int)
    args = words.parse_args()
    if os.geteuid() == 0:
        os.nice(-15)
    case = CASES[args.case]
    load = dataclasses.replace(case.load, requests=args.requests or REQUESTS[args.case])
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        body = pathlib.Path(folder) / 'body'
        body.write_bytes(case.body)
        models, origin = stack.enter_context(profile.models_of(case, folder, pathlib.Path(args.binary[0]).resolve()))
        servers = stack.enter_context(cases.running({b: command(b, folder, models, origin) for b in args.binary}))
        for server in servers:
            if pathlib.Path(server.name).name not in PEERS:
                measure.wait_ready(server.port)
        results = measure.rounds(servers, load, lambda _: (case.path, str(body)), args.rounds)
        measure.table(f'{args.case}, {args.rounds} rounds of {load.requests} requests', results, args.binary[0])


if __name__ == '__main__':
    main()
