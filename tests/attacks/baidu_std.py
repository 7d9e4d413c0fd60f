"""baidu_std, brpc's own protocol: packets that lie, packets that never end, answers that nobody reads."""

import random
import struct

from baidu_client import call, number, packet, text
from peer import Raw, more_descriptors
from registry import attack

PREDICT = 'grps.protos.v1.GrpsBrpcService/Predict'


def lies(chance):
    """A packet in which something is not so."""
    noise = chance.randbytes(chance.randrange(200))
    kinds = (
        lambda: b'PRPC' + struct.pack('>II', chance.getrandbits(32), chance.getrandbits(32)) + noise,
        lambda: b'PRPC' + struct.pack('>II', 0xffffffff, 60_000) + bytes(60_000),
        lambda: packet(noise, noise),
        lambda: packet(b'\x0a\xff\xff\xff\xff\x0f' * 1000),
        lambda: packet(text(1, text(1, 'a.B') + text(2, 'C')) + text(9, text(1, 'k') + text(2, 'v')) * 5000, noise),
        lambda: call('a' * 60_000 + '/b', noise),
        lambda: call(PREDICT, noise, more=number(3, chance.randrange(6)) + number(5, chance.randrange(-5, 300))),
        lambda: call(PREDICT, b'\x22' + noise, more=text(7, noise)),
    )
    return chance.choice(kinds)()


@attack(seconds=20, quick=3)
def baidu_std_lies(target):
    """baidu_std: packets whose sizes, metas, names and codings lie, 50 on a connection, and 2,000 connections that stop inside one."""
    more_descriptors()
    chance, sent = random.Random(7), 0
    cut = call(PREDICT, bytes(100_000))
    waiting = [Raw(target, wait=2).send(cut[:chance.choice((1, 3, 9, 40, 5000))]) for _ in range(target.size(2000, 400))]
    while not target.over():
        with Raw(target, wait=3) as raw:
            for _ in range(50):
                raw.send(lies(chance))
                sent += 1
                if not raw.alive:
                    break
            raw.half_close().read()
    return f'{sent} packets, {sum(w.still_open() for w in waiting)} of {len(waiting)} cut ones still there'


@attack(seconds=30, quick=5)
def baidu_std_unread(target):
    """baidu_std: 60 connections that have 100 calls at work, each with an answer of 300 KB, and read nothing."""
    request = call(PREDICT, text(2, 'identity') + text(4, b'x' * 300_000))
    peers, begun = {}, 0  # a connection: how much of a request it has sent
    while not target.over():
        peers = {p: at for p, at in peers.items() if p.alive}
        while len(peers) < 60 and not target.over():
            peers[Raw(target, receive_buffer=4096, wait=0.5)] = 0
            begun += 1
        for peer, at in peers.items():
            peers[peer] = (at + (peer.offer(request[at:]) or 0)) % len(request)
    return f'{begun} connections'


@attack(seconds=20, quick=4)
def baidu_std_small(target):
    """baidu_std: 200 connections that write the smallest calls there are as fast as they can, and read nothing."""
    more_descriptors()
    requests = [call(method, b'') * 2000 for method in ('a.b/N', 'grps.protos.v1.GrpsBrpcService/CheckLiveness', 'x/y')]
    peers, begun = [], 0
    while not target.over():
        peers = [p for p in peers if p.alive]
        while len(peers) < 200 and not target.over():
            peers.append(Raw(target, receive_buffer=4096, wait=0.5))
            begun += 1
        for i, peer in enumerate(peers):
            peer.offer(requests[i % len(requests)])
    return f'{begun} connections'
