"""Many streams that are slow: what each holds, what an event costs when it is a write of its own, and how evenly the events come.

Models step ten times a second, each at a moment of its own; the streams are shared out among them. Every stream is a connection.
"""

import contextlib
import json
import pathlib
import resource
import subprocess
import tempfile
import time
import urllib.request

import cases
import measure

MODELS = 16
STEP_MS = 100
TOKENS = 100  # of each stream: ten seconds
SETTLED_S = 4  # until all streams run


def models(folder, streams):
    for i in range(MODELS):
        model = pathlib.Path(folder) / f'models/echo{i}'
        model.mkdir(parents=True)
        running = -(-streams // MODELS)
        (model / 'model.yaml').write_text(f'engine: echo\nparameters: {{max_running: {running}, step_tokens: {max(running, 512)}, '
                                          f'max_waiting: {running}, step_us: {STEP_MS * 1000}, kv_cache: 1MiB}}\n')
    return model.parent


def resident(server):
    """Bytes."""
    return int(pathlib.Path(f'/proc/{server.process.pid}/statm').read_text().split()[1]) * resource.getpagesize()


def longest_turn(server):
    """Milliseconds of CPU that a turn of a shard took at most."""
    with urllib.request.urlopen(f'http://127.0.0.1:{server.port}/metrics') as answer:
        lines = answer.read().decode().splitlines()
    return 1000 * max(float(line.split()[-1]) for line in lines if line.startswith('weir_shard_longest_turn_seconds'))


@contextlib.contextmanager
def clients(build, server, streams):
    """One for each model; yields what they say, once they have ended."""
    commands = [['taskset', '-c', measure.CLIENT_CORE, build / 'bench/load/load_client', 'sse', f'port={server.port}', f'model=echo{i}',
                 'prompt=1', f'tokens={TOKENS}', f'connections={streams // MODELS}', f'requests={streams // MODELS}', f'seed={i + 1}',
                 f'limit={6 * TOKENS * STEP_MS / 1000}'] for i in range(MODELS)]
    started = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) for command in commands]
    said = []
    try:
        yield said
        said += [json.loads(client.communicate()[0]) for client in started]
    finally:
        for client in started:
            client.kill()


def one_run(build, server, streams):
    before, cpu = resident(server), server.cpu_ns()
    with clients(build, server, streams) as said:
        time.sleep(SETTLED_S)
        held = resident(server) - before
    if any(client['failed'] or client['cut'] for client in said):
        raise RuntimeError(f'not all streams were whole: {said}')
    tokens = sum(client['tokens'] for client in said)
    worst = {q: max(client['itl_ms'][q] for client in said) for q in ('p50', 'p99', 'p999', 'most')}
    return {'us': (server.cpu_ns() - cpu) / 1000 / tokens, 'kib': held / streams / 1024, 'rate': sum(c['tokens_per_s'] for c in said),
            'client': sum(client['client_cpu'] for client in said), **worst}


def streams_slow(build, rounds, requests):
    """10,000 streams of Server-Sent Events with ten tokens a second each. `requests`: streams."""
    streams = requests or 10_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print(f'\n## Slow streams: {streams} of Server-Sent Events, a token each {STEP_MS} ms, medians of {rounds} rounds')
    flags = ('--limits-connections', '1000000', '--limits-in-flight', '1000000', '--limits-client-share', '100')
    with tempfile.TemporaryDirectory() as folder:
        with cases.running({'weir': cases.weir(build, *flags, repository=models(folder, streams))}) as started:
            found = [one_run(build, started[0], streams) for _ in range(rounds)]
            middle = {name: measure.spread([run[name] for run in found])[0] for name in found[0]}
            print(f"{middle['rate']:.0f} events/s, {middle['us']:.2f} us of CPU each (with the requests' own), "
                  f"{middle['kib']:.1f} KiB of memory a stream, the longest turn {longest_turn(started[0]):.1f} ms")
            print(f"between two tokens of a stream, the worst model: p50 {middle['p50']:.1f} ms, p99 {middle['p99']:.1f}, "
                  f"p99.9 {middle['p999']:.1f}, most {middle['most']:.1f}; client CPU {middle['client']:.2f}")


ALL = (streams_slow,)
