"""All protocols at once, and a system that gives no thread, no shared memory, no descriptor to any of them; reloads without end."""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import threading
import time

import harness
from baidu_client import call, text
from decoupled import PLUS, PYTHON, MODEL
from evergreen import UPGRADE
from journal import FORM, form, journal
from own_code import beside_the_demo_models, children
from peer import GRPC, H2, JSON, Raw, ask, data, grpc_message, model_infer, more_descriptors, post
from registry import attack
from shortage import few_descriptors, wrapper
from strangers import INFER

PREDICT = 'grps.protos.v1.GrpsBrpcService/Predict'
NUMBERS = struct.pack('<3i', 1, 2, 3)
CHAT = {'model': 'chat', 'max_tokens': 50, 'messages': [{'role': 'user', 'content': 'x'}]}


def requests():
    """One of each protocol over HTTP/1 or a socket of its own."""
    chat = lambda **more: json.dumps({**CHAT, **more}).encode()  # noqa: E731
    return [post('/v2/models/identity/infer', INFER, JSON), post('/v1/chat/completions', chat(), JSON), post('/v1/chat/completions', chat(stream=True), JSON),
            post('/v1/messages', chat(), JSON), post('/api/chat', chat(), JSON), post('/generate', json.dumps({'model': 'chat', 'text': 'x'}).encode(), JSON),
            post('/salience.v1.Salience/OpenSession', b'{}', JSON), post('/v1/models/identity:predict', b'{"instances":[1]}', JSON),
            post('/graphpipe/identity', bytes(64), ('content-type', 'application/octet-stream')), post('/v1/files', form(b'{}'), FORM), UPGRADE,
            call(PREDICT, text(2, 'identity') + text(4, b'x')), b'GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n']


def grpc_calls(target, chance):
    """A connection with 90 calls."""
    h2 = H2(target, wait=3)
    infer = grpc_message(model_infer('identity', 'x', 'INT32', [3], NUMBERS))
    for stream in range(1, 180, 2):
        method = chance.choice(('ModelInfer', 'ModelStreamInfer'))
        h2.offer(h2.head(stream, '/inference.GRPCInferenceService/' + method, 'POST', end=False, extra=GRPC) + data(stream, infer, end=chance.random() < 0.7))
    return h2


@attack(seconds=30, quick=6, probes=('session', 'tokens'))
def one_tenant_in_all_protocols(target):
    """One client's requests by baidu_std, gRPC, GraphPipe, Evergreen, Salience, REST and all APIs of texts at once, hundreds of each, read as they come."""
    more_descriptors()
    chance, peers, begun, kinds = random.Random(81), [], 0, requests()
    while not target.over():
        for peer in peers:
            peer.pump() if isinstance(peer, H2) else peer.take()
        peers = [peer for peer in peers if peer.alive and (not isinstance(peer, H2) or len(peer.closed_streams) < 80)]
        for _ in range(min(50, target.size(400, 150) - len(peers))):
            h2 = chance.random() < 0.05
            peers.append(grpc_calls(target, chance) if h2 else Raw(target, wait=3).send(chance.choice(kinds) * chance.choice((1, 1, 20))))
            begun += 90 if h2 else 1
        for peer in chance.sample(peers, len(peers) // 10):
            if not isinstance(peer, H2):
                peer.send(chance.choice(kinds)[:chance.choice((10, 10_000))])
            peer.sock.close()
            peers.remove(peer)
        time.sleep(0.02)
    return f'{begun} begun'


# --- descriptors, threads, shared memory -------------------------------------------------------------------------------
@attack(seconds=25, quick=6, program=few_descriptors, flags=journal)
def descriptors_of_256_for_all(target):
    """A server that may have 256 descriptors, and a thousand connections of one client in all protocols, with files, kept and opened again."""
    more_descriptors()
    chance, peers, begun, kinds = random.Random(82), [], 0, requests()
    while not target.over():
        peers = [peer for peer in peers if peer.still_open()]
        for _ in range(min(50, 1000 - len(peers))):
            peers.append(grpc_calls(target, chance) if chance.random() < 0.1 else Raw(target, wait=1).send(chance.choice(kinds)))
            begun += 1
        time.sleep(0.02)
    return f'{begun} opened, {len(peers)} at the end'


def python_model():
    return beside_the_demo_models('plus', PLUS, MODEL % ('plus', '', 'Y'))


AS_NOBODY = ('setpriv', '--reuid=64999', '--regid=65534', '--clear-groups')


def as_nobody(weir):
    """Root may have any number of threads; what it serves must be readable to nobody."""
    harness.scratch().chmod(0o755)
    return wrapper(f'exec {" ".join(AS_NOBODY)} {weir} "$@"')


def no_setpriv():
    return '' if os.geteuid() == 0 and shutil.which('setpriv') else 'only root can serve as another user'


@contextlib.contextmanager
def no_threads(pid):
    """The server's user can start neither a thread nor a process."""
    def limit(soft):
        subprocess.run([*AS_NOBODY, 'prlimit', f'--pid={pid}', f'--nproc={soft}:'], check=True)
    limit(1)
    try:
        yield
    finally:
        limit('unlimited' if resource.getrlimit(resource.RLIMIT_NPROC)[1] == resource.RLIM_INFINITY else resource.getrlimit(resource.RLIMIT_NPROC)[1])


@attack(seconds=30, quick=8, repository=python_model, program=as_nobody, lacks=no_setpriv, flags=PYTHON, probes=('tokens',))
def no_more_threads(target):
    """No thread and no process can be started for seconds, while Python models' processes are ended and costly forms and texts are asked for."""
    plus = post('/v2/models/plus/infer', json.dumps({'inputs': [{'name': 'X', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]}).encode(), JSON)
    number, statuses, rounds = 0, {}, 0
    while not target.over() or rounds == 0:
        with no_threads(target.pid):
            for child in children(target.pid):
                os.kill(int(child), signal.SIGKILL)
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                number += 1
                form_of = {'model': 'chat', 'prompt': 'x', 'max_tokens': 3, 'structured_outputs': {'regex': f'([^y]*[a-z]{{1,9}}y){{300}}x{number}'}}
                for request in (plus, post('/v1/completions', json.dumps(form_of).encode(), JSON),
                                post('/tokenize', json.dumps({'model': 'chat', 'prompt': 'What is curl? ' * 900}).encode(), JSON)):
                    status, _ = ask(target, request, wait=3)
                    statuses[status] = statuses.get(status, 0) + 1
        end = time.monotonic() + 20 * (harness.PATIENCE / 20)
        while (last := ask(target, plus, wait=5))[0] != 200 and time.monotonic() < end:
            time.sleep(0.2)
        if last[0] != 200:
            target.broke(f'threads can be started again, and the model is not served: {last[0]} {last[1][:200]}')
            break
        rounds += 1
    if bad := set(statuses) - {200, 429, 500, 503, 504}:
        target.broke(f'statuses {bad}')
    return f'{rounds} times, {statuses}'


def small_shared_memory(weir):
    return wrapper(f'exec unshare -m sh -c \'mount -t tmpfs -o size=8m weir /dev/shm && exec {weir} "$@"\' sh "$@"')


def no_namespaces():
    return '' if os.geteuid() == 0 and os.system('unshare -m true 2>/dev/null') == 0 else 'only root can have a small /dev/shm'


@attack(seconds=20, quick=5, program=small_shared_memory, lacks=no_namespaces, repository=python_model, flags=PYTHON)
def shared_memory_full(target):
    """Regions of holes in a /dev/shm of 8 MiB that is full: an output that has no room there, an input of nothing, and Python models beside them."""
    shm, size, statuses, rounds = f'/proc/{target.pid}/root/dev/shm/', 16 << 20, {}, 0
    place = {'shared_memory_region': 'r', 'shared_memory_byte_size': size}
    out = json.dumps({'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [size // 4], 'parameters': place}],
                      'outputs': [{'name': 'x', 'parameters': {**place, 'shared_memory_offset': size}}]}).encode()
    plus = json.dumps({'inputs': [{'name': 'X', 'datatype': 'INT32', 'shape': [size // 4], 'parameters': place}],
                       'outputs': [{'name': 'Y', 'parameters': {**place, 'shared_memory_offset': size}}]}).encode()
    region = json.dumps({'key': '/r', 'offset': 0, 'byte_size': 2 * size}).encode()
    while not target.over() or rounds == 0:
        with open(shm + 'r', 'wb') as memory:
            memory.truncate(2 * size)
        with contextlib.suppress(OSError), open(shm + 'filler', 'wb', buffering=0) as filler:
            while filler.write(bytes(1 << 16)):
                pass
        for request in (post('/v2/systemsharedmemory/region/r/register', region, JSON), post('/v2/models/identity/infer', out, JSON),
                        post('/v2/models/plus/infer', plus, JSON), post('/v2/systemsharedmemory/region/r/unregister', b'', JSON)):
            status, _ = ask(target, request, wait=10)
            statuses[status] = statuses.get(status, 0) + 1
        for name in ('r', 'filler'):
            os.unlink(shm + name)
        status, answer = ask(target, post('/v2/models/plus/infer', json.dumps({'inputs': [
            {'name': 'X', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]}).encode(), JSON))
        if status != 200:
            target.broke(f'a Python model behind it: {status} {answer[:200]}')
            break
        rounds += 1
    if 0 in statuses or not any(400 <= status < 600 for status in statuses):
        target.broke(f'statuses {statuses}')
    return f'{rounds} rounds, {statuses}'


# --- reloads -----------------------------------------------------------------------------------------------------------
def copies():
    """Copies of the demo models, which an attack may change."""
    root = harness.scratch() / f'copies-{time.monotonic_ns()}'
    shutil.copytree(harness.MODELS, root, symlinks=True)
    return root


@attack(seconds=25, quick=6, repository=copies, flags=PYTHON, probes=('tokens',))
def reloads_without_end(target):
    """SIGHUP without a pause, while a model's folder changes, goes, comes, becomes a link to itself; requests for it and for others go on."""
    with open(f'/proc/{target.pid}/cmdline') as line:
        root = next(path for path in line.read().split('\0') if '/copies-' in path)
    chance, hups, statuses, other = random.Random(83), [0], {}, root + '/digits'

    def hang_up():
        while not target.over():
            os.kill(target.pid, signal.SIGHUP)
            hups[0] += 1
            time.sleep(0.002)
    thread = threading.Thread(target=hang_up)
    thread.start()
    away, changes = root + '-away', 0
    while not target.over():
        kind = chance.choice(('away', 'loop', 'link', 'touch', 'file', 'many'))
        os.rename(other, away)
        if kind == 'loop':
            os.symlink(other, other)
        elif kind == 'link':
            os.symlink(away, other)
        elif kind == 'file':
            open(other, 'w').close()
        elif kind == 'many':
            os.mkdir(other)
            for i in range(1000):
                os.symlink(f'{other}/{(i + 1) % 1000}', f'{other}/{i}')
        for _ in range(5):
            status, _ = ask(target, b'GET /v2/models/digits/ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', wait=5)
            statuses[status] = statuses.get(status, 0) + 1
            time.sleep(0.02)
        shutil.rmtree(other) if kind == 'many' else os.unlink(other) if os.path.lexists(other) else None
        os.rename(away, other)
        os.utime(next(p for p in (other + '/config.pbtxt', other + '/model.yaml', other) if os.path.exists(p)))
        changes += 1
    thread.join()
    os.kill(target.pid, signal.SIGHUP)
    end = time.monotonic() + harness.PATIENCE
    while (status := ask(target, b'GET /v2/models/digits/ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')[0]) != 200 and time.monotonic() < end:
        time.sleep(0.2)
    if status != 200:
        target.broke(f'the folder is there again, and its model is {status}')
    return f'{hups[0]} times SIGHUP, {changes} changes, {statuses}'
