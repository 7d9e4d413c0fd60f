"""WebSockets of OpenAI's Responses: large requests that are held, answers that nobody reads, frames that say nothing, and long answers."""

import json
import random
import re
import socket
import struct
import time

import harness
from decoupled import leave
from peer import JSON, Raw, more_descriptors, post
from registry import attack

SMALL = (('WEIR_LIMITS_SLAB_BUDGET', '256MiB'),)  # the quick form's
UPGRADE = (b'GET /v1/responses HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
           b'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n')
CONTINUATION, TEXT, PING, FIN = 0x0, 0x1, 0x9, 0x80
AT_ONCE = 256 << 10  # bytes that are offered to one connection at a time


def frame(first, payload):
    """`first`: opcode and FIN. The mask is of zeros."""
    size = len(payload)
    if size < 126:
        head = struct.pack('>BB', first, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack('>BBH', first, 0x80 | 126, size)
    else:
        head = struct.pack('>BBQ', first, 0x80 | 127, size)
    return head + b'\0\0\0\0' + payload


def create(text, **more):
    return json.dumps({'type': 'response.create', 'model': 'chat', 'input': text, 'store': False, **more}).encode()


def keep_open(target, most, kinds):
    """Keeps so many sockets open, each of which is sent one kind of `kinds`, (octets, whether again and again), as fast as it takes it. Nothing is read."""
    more_descriptors()
    chance, peers, begun, sent, statuses = random.Random(131), [], 0, 0, {}
    while not target.over():
        for peer in [peer for peer in peers if not peer.still_open()]:
            peers.remove(peer)
            peer.sock.close()
        for _ in range(min(20, most - len(peers))):
            peer = Raw(target, receive_buffer=4096, wait=3).send(UPGRADE)
            peer.octets, peer.again = chance.choice(kinds)
            peer.at, peer.status = 0, None
            peers.append(peer)
            begun += 1
        for peer in peers:
            if peer.status is None and len(answer := peer.at_once(lambda peer=peer: peer.sock.recv(12, socket.MSG_PEEK)) or b'') == 12:
                peer.status = answer[9:].decode()
                statuses[peer.status] = statuses.get(peer.status, 0) + 1
            if peer.status != '101':
                continue
            took = peer.offer(peer.octets[peer.at:peer.at + AT_ONCE]) or 0 if peer.at < len(peer.octets) else 0
            sent, peer.at = sent + took, peer.at + took
            if peer.again and peer.at == len(peer.octets):
                peer.at = 0
        for peer in [peer for peer in peers if chance.random() < 0.001]:
            leave(peer, chance.choice(('reset', 'end')))
            peers.remove(peer)
        time.sleep(0.005)
    for peer in peers:
        leave(peer, 'reset')
    if not statuses.get('101') or set(statuses) - {'101', '429', '503'}:
        target.broke(f'statuses {statuses}')
    return f'{begun} begun, {sent >> 20} MiB sent, {len(peers)} at the end, {statuses}'


@attack(seconds=30, quick=8, quick_env=SMALL, probes=('tokens',))
def response_sockets_full(target):
    """WebSockets of Responses that each hold a `response.create` of 3.9 MB without its last byte, or send one after the other and read nothing."""
    size = target.size(3_900_000, 1_500_000)
    unread = create('Tell me all.', max_output_tokens=2000, temperature=2, top_logprobs=20, include=['message.output_text.logprobs'])
    long = frame(TEXT | FIN, create('curl ' * (size // 5), truncation='auto'))
    held = frame(TEXT | FIN, create('x' * size))[:-1]
    pieces = frame(TEXT, create('x')[:-1]) + frame(CONTINUATION, b' ' * 1000) * (size // 1000)
    return keep_open(target, target.size(300, 60), [(held, False), (pieces, False), (long, True), (frame(TEXT | FIN, unread), True),
                                                    (frame(TEXT | FIN, create(['x'])) * 2000, True)])


@attack(seconds=30, quick=6, quick_env=SMALL, probes=('tokens',))
def response_sockets_of_nothing(target):
    """WebSockets of Responses that send PINGs without end, a message of empty fragments, of fragments of one byte, `{}`; none reads what is answered."""
    pings = [frame(PING | FIN, payload) for payload in (b'', b'x' * 125)]
    fragments = [frame(TEXT, b'') + frame(CONTINUATION, payload) * 30_000 for payload in (b'', b' ')]
    mixed = frame(TEXT, b'{') + (frame(CONTINUATION, b' ') + pings[0]) * 20_000
    begin = frame(TEXT | FIN, create('Tell me all.', max_output_tokens=2000, temperature=2))
    # The message of fragments is begun once on a connection, and the frames go on for as long as it is taken.
    endless = [(octets * 8, False) for octets in (*fragments, mixed)]
    return keep_open(target, target.size(200, 60), [*endless, (pings[0] * 40_000, True), (pings[1] * 2000, True), (begin + pings[0] * 40_000, True),
                                                    (frame(TEXT | FIN, b'{}') * 30_000, True), (frame(TEXT | FIN, b'') * 30_000, True)])


def with_endless():
    """The demo models and `endless`, whose answers are as long as a request wants them."""
    import tiny_model
    root = harness.scratch() / f'endless-{time.monotonic_ns()}'
    root.mkdir()
    for folder in harness.MODELS.iterdir():
        if folder.is_dir():
            (root / folder.name).symlink_to(folder)
    config = {**tiny_model.CONFIG, 'eos_token_id': None, 'max_position_embeddings': 8192}
    tokenizer = {**tiny_model.TOKENIZER, 'added_tokens': tiny_model.TOKENIZER['added_tokens'][1:]}
    files = {'config.json': config, 'tokenizer.json': tokenizer, 'model.safetensors': tiny_model.varied()}
    tiny_model.write(root, 'endless', files, 'kv_cache: 64MiB, threads: 1, max_running: 16')
    return root


@attack(seconds=30, quick=7, repository=with_endless)
def long_responses(target):
    """Streams of Responses of thousands of tokens with 20 log-probabilities each, over HTTP and WebSockets: their last events repeat all of it."""
    chance, peers, begun, ended, took = random.Random(137), [], 0, 0, 0
    while not target.over():
        while len(peers) < target.size(12, 4):
            peer, tokens = Raw(target, wait=5), chance.choice((500, 2000, 8000))
            peer.tail, peer.is_socket = b'', chance.random() < 0.5
            body = create('ab', model='endless', max_output_tokens=tokens, store=tokens == 500, top_logprobs=20, include=['message.output_text.logprobs'])
            if peer.is_socket:
                peer.send(UPGRADE).read(4096)
                peer.send(frame(TEXT | FIN, body))
            else:
                fields = {**json.loads(body), 'stream': True}
                del fields['type']
                peer.send(post('/v1/responses', json.dumps(fields).encode(), JSON))
            peers.append(peer)
            begun += 1
        for peer in list(peers):
            piece = peer.take(1 << 20)
            took += len(piece or b'')
            peer.tail = (peer.tail + (piece or b''))[-40:]
            whole = re.search(rb'"total_tokens":\d+}}}$', peer.tail) if peer.is_socket else peer.tail.endswith(b'\r\n0\r\n\r\n')
            if whole or not peer.alive:
                ended += bool(whole)
                peer.sock.close()
                peers.remove(peer)
    if not ended:
        target.broke('no response has come to its end')
    return f'{begun} begun, {ended} read to their ends, {took >> 20} MiB'
