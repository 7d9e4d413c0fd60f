"""A wall clock that jumps, and logs that nobody reads."""

import itertools
import json
import os
import random
import shutil
import struct
import subprocess
import time

import harness
from peer import JSON, Raw, ask, more_descriptors, post
from registry import attack
from shortage import wrapper

_numbers = itertools.count()


def jumping_clock(weir):
    library = harness.scratch() / f'libwall_clock-{os.getpid()}-{next(_numbers)}.so'
    source = harness.ROOT / 'tests/attacks/wall_clock.cc'
    subprocess.run([shutil.which('g++') or shutil.which('c++'), '-O2', '-std=c++17', '-shared', '-fPIC', source, '-o', library, '-ldl'], check=True)
    offset = library.with_suffix('.offset')
    offset.write_bytes(bytes(8))
    return wrapper(f'export WALL_CLOCK={offset} LD_PRELOAD="{library}:$LD_PRELOAD"', f'exec {weir} "$@"')


def no_compiler():
    if harness.SANITIZED:
        return "a sanitizer's runtime has to come first"
    return '' if shutil.which('g++') or shutil.which('c++') else 'there is no compiler'


def set_clock(target, seconds):
    with open(f'/proc/{target.pid}/environ', 'rb') as environment:
        path = next(word[11:] for word in environment.read().split(b'\0') if word.startswith(b'WALL_CLOCK='))
    with open(path, 'r+b') as offset:
        offset.write(struct.pack('<q', int(seconds)))


HOUR = 3600
JUMPS = (HOUR, -HOUR, 0, 25 * HOUR, -25 * HOUR, 400 * 24 * HOUR, 1 - 1_700_000_000, 0, 80 * 366 * 24 * HOUR)
CHAT = {'model': 'chat', 'max_tokens': 60, 'ignore_eos': True, 'stream': True, 'messages': [{'role': 'user', 'content': 'x'}]}


def salience(raw, name, **fields):
    return raw.send(post('/salience.v1.Salience/' + name, json.dumps(fields).encode(), JSON)).answer()


@attack(seconds=20, quick=6, program=jumping_clock, lacks=no_compiler, probes=('session', 'ready'))
def clocks_that_jump(target):
    """The wall clock jumps by an hour, by a day, by a year, to 1970, back: what has a deadline, a session, a stream goes on as if it had not."""
    chance, jumps, peer = random.Random(101), 0, Raw(target, wait=10)
    session = json.loads(salience(peer, 'OpenSession')[1])['session_id']
    set_clock(target, HOUR)
    created = json.loads(peer.send(post('/v1/chat/completions', json.dumps({**CHAT, 'stream': False}).encode(), JSON)).answer()[1])['created']
    if abs(created - time.time() - HOUR) > 60:
        target.broke('the clock has not jumped')
    while not target.over():
        chats = [Raw(target, wait=10).send(post('/v1/chat/completions', json.dumps(CHAT).encode(), JSON, ('Connection', 'close'))) for _ in range(3)]
        time.sleep(0.02)
        set_clock(target, chance.choice(JUMPS))
        jumps += 1
        body = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [1], 'data': [1]}], 'parameters': {'timeout': 5_000_000}}).encode()
        for chat in chats:
            if b'data: [DONE]' not in (said := chat.read_all())[-100:]:
                target.broke(f'a chat has not ended as it should: {said[-200:]!r}')
        status, answer = peer.send(post('/v2/models/identity/infer', body, JSON)).answer()
        if status != 200:
            target.broke(f'an infer that may wait for 5 s: {status} {answer[:200]!r}')
            peer = Raw(target, wait=10)
        request = post('/inference.GRPCInferenceService/ModelInfer', json.dumps({'model_name': 'identity', 'inputs': [
            {'name': 'x', 'datatype': 'INT32', 'shape': [1], 'contents': {'int_contents': [1]}}]}).encode(), JSON, ('Connect-Timeout-Ms', 5000))
        status, answer = peer.send(request).answer()
        if status != 200:
            target.broke(f'a call with a deadline in 5 s: {status} {answer[:200]!r}')
            peer = Raw(target, wait=10)
    if (said := salience(peer, 'CloseSession', session_id=session))[0] != 200:
        target.broke(f'the session has gone: {said}')
    set_clock(target, 0)
    return f'{jumps} jumps'


# --- logs that nobody reads --------------------------------------------------------------------------------------------
_kept = []


def unread_pipe():
    path = harness.scratch() / f'pipe-{os.getpid()}-{next(_numbers)}'
    os.mkfifo(path)
    _kept.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))  # somebody has it open, and does not read
    return path


def unread_log():
    return ('--access-log', unread_pipe())


@attack(seconds=15, quick=4, flags=unread_log)
def logs_unread(target):
    """The access log is a pipe that nobody reads, and thousands of requests a second are to be written to it: lines are left out."""
    more_descriptors()
    asked, statuses = 0, {}
    infer = post('/v2/models/identity/infer', json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]}).encode(), JSON)
    with Raw(target, wait=10) as raw:
        while not target.over():
            status, _ = raw.send(b'GET /x' + os.urandom(40).hex().encode() * 20 + b' HTTP/1.1\r\nHost: a\r\n\r\n').answer()
            statuses[status] = statuses.get(status, 0) + 1
            asked += 1
            if status == 0:
                target.broke('an answer does not come')
                break
    status, _ = ask(target, infer)
    if status != 200:
        target.broke(f'an infer: {status}')
    return f'{asked} asked: {statuses}'
