"""Nodes that share a NATS, and somebody who can write there, or who uses one node's sessions by way of another.

NATS belongs to the runner's process, as does the second node, `owner`; the attacker and the healthy client find them by
their environment, which lab.once() gives to those of this attack.
"""

import atexit
import contextlib
import json
import os
import random
import re
import socket
import struct
import threading
import time
import urllib.request

import harness
from cluster_nodes import Nats, until
from peer import CANCEL, DATA, END_STREAM, GRPC, H2, INITIAL_WINDOW_SIZE, Raw, frame, grpc_message, more_descriptors, pb, rst, varint, window
from registry import attack

NATS, OWNER = 'WEIR_ATTACK_NATS', 'WEIR_ATTACK_OWNER'  # environment: the port of NATS; port and process of the owner
TURN_S = 0.025
MIB = 1 << 20
_beside = threading.local()  # a runner's thread has one attack at a time: what it has begun for that one


def nats():
    """Ends what the thread has begun for the attack before."""
    for each in getattr(_beside, 'all', ()):
        each.kill()
    server = Nats()
    _beside.all = [server]
    atexit.register(server.kill)
    os.environ[NATS] = str(server.port)
    return server


def secret():
    path = harness.scratch() / 'cluster-secret'
    if not path.exists():  # the nodes of another attack may be reading it
        path.write_text('a secret that all nodes share\n')
    return path


def guarded_cluster():
    """Flags of a node whose neighbours must know the secret."""
    server = nats()
    flags = ('--cluster-nats', server.url, '--cluster-secret', secret(), '--cluster-name', 'first')
    begin_owner(server, *flags[:-1], 'owner')
    return flags


def open_cluster():
    """Flags of a node that believes whoever writes."""
    return ('--cluster-nats', nats().url, '--cluster-name', 'first')


def pair():
    """Flags of a node beside which `owner` has sessions."""
    server = nats()
    begin_owner(server, '--cluster-nats', server.url, '--cluster-name', 'owner')
    return ('--cluster-nats', server.url, '--cluster-name', 'first')


def begin_owner(server, *flags):
    owner = harness.Server(*flags, '--sessions-idle', '30s')
    _beside.all.append(owner)
    os.environ[OWNER] = f'{owner.port} {owner.process.pid}'


def owner():
    """(port, pid)"""
    return tuple(map(int, os.environ[OWNER].split()))


def metrics(port):
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=20) as answer:
        return answer.read().decode()


def metric(port, name):
    found = re.search(rf'^{name}(?:{{.*?}})? (\S+)$', metrics(port), re.M)
    return float(found[1]) if found else 0.0


class Writer:
    """Writes into the buckets as fast as NATS takes it."""

    def __init__(self):
        self.sock = socket.create_connection(('127.0.0.1', int(os.environ[NATS])), 10)
        self.sock.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n')
        self.written = 0

    def put(self, entries, bucket=b'weir'):
        """entries: [(key, value)]; value None: a mark that it was erased."""
        self.publish([(b'$KV.%s.%s' % (bucket, key.encode()), value) for key, value in entries])

    def publish(self, messages):
        """messages: [(subject, bytes)]; None: a mark that a key was erased."""
        out = []
        for subject, value in messages:
            if value is None:
                head = b'NATS/1.0\r\nKV-Operation: DEL\r\n\r\n'
                out.append(b'HPUB %s %d %d\r\n%s\r\n' % (subject, len(head), len(head), head))
            else:
                out.append(b'PUB %s %d\r\n%s\r\n' % (subject, len(value), value))
        with contextlib.suppress(OSError):
            self.sock.sendall(b''.join(out) + b'PING\r\n')
            heard = b''
            while b'PONG\r\n' not in heard:
                more = self.sock.recv(65536)
                if not more:
                    break
                heard = heard[-8:] + more
        self.written += len(messages)


def entry(name, incarnation=1, beat=1, address='http://127.0.0.1:9', models=(), phase='serving'):
    lines = [f'id {name}', f'incarnation {incarnation}', f'beat {beat}', f'phase {phase}', f'address {address}', 'load 1',
             *(f'model {model}' for model in models)]
    return ('weir-node 1\n' + '\n'.join(lines) + '\n').encode()


def rubbish(chance, n):
    kinds = (b'', b'garbage', bytes(range(1, 256)) * 4, entry('x' * 5000), entry(f'n{n}') + b'mac ' + b'0' * 64 + b'\n',
             entry(f'n{n}', models=[f'm{i} tensors' for i in range(300)]), entry('first'), b'weir-node 1\n' + b'\n' * 2000,
             entry(f'n{n}', incarnation=1 << 63, beat=-1), entry(f'n{n}')[:-1], chance.randbytes(500))
    return chance.choice(kinds)


def judge_owner(target, before):
    """The other node must do no worse; what it says goes into the attack's line."""
    port, pid = owner()
    if not os.path.exists(f'/proc/{pid}'):
        return target.broke('the other node has ended') or ''
    turn = metric(port, 'weir_shard_longest_turn_seconds')
    peak = int(re.search(r'VmHWM:\s+(\d+)', open(f'/proc/{pid}/status').read())[1]) << 10
    limit = before + int(1.1 * metric(port, 'weir_slab_budget_bytes')) + 64 * MIB
    if peak > limit:
        target.broke(f'{peak // MIB} MiB of memory at the other node; {limit // MIB} are allowed')
    if turn > (4 if target.quick else 1) * TURN_S:  # the quick form runs beside others
        target.broke(f'a turn of {turn * 1000:.0f} ms at the other node')
    return f'the other node: {peak // MIB} MiB, turn {turn * 1000:.1f} ms'


def owner_memory():
    return int(re.search(r'VmRSS:\s+(\d+)', open(f'/proc/{owner()[1]}/status').read())[1]) << 10


@attack(seconds=25, quick=6, flags=guarded_cluster)
def cluster_of_rubbish(target):
    """Somebody writes into the cluster's bucket: 100,000 keys of rubbish, megabytes, marks, other MACs, over the nodes' own entries, too."""
    chance, before = random.Random(13), owner_memory()
    until(lambda: metric(target.port, 'weir_cluster_nodes') == 2, 'two nodes')
    writer, n = Writer(), 0
    large = b'weir-node 1\n' + b'x' * (1000 << 10)
    while not target.over():
        writer.put([(f'node.n{i % 100_000}', rubbish(chance, i)) for i in range(n, n + 2000)])
        writer.put([(f'node.g{i % 500}', large) for i in range(n // 2000 * 5, n // 2000 * 5 + 5)])
        writer.put([(f'node.n{i % 100_000}', None) for i in range(n, n + 500)] + [(f'other.k{i}', b'x' * 1000) for i in range(500)])
        writer.put([(f'session.{chance.randbytes(16).hex()}', rubbish(chance, n)) for _ in range(200)], b'weir-sessions')
        n += 2000
    # A node that comes now is seen for all that.
    late = harness.Server('--cluster-nats', f'nats://127.0.0.1:{os.environ[NATS]}', '--cluster-secret', target.flag('--cluster-secret'),
                          '--cluster-name', 'late', '--shards', '1', program=os.readlink(f'/proc/{target.pid}/exe'))
    until(lambda: metric(target.port, 'weir_cluster_nodes') == 3, 'a node that has joined behind the rubbish', 4 * harness.PATIENCE)
    if late.stop() != 0:
        target.broke('the late node did not end as it should')
    # Only now are the nodes' own entries written over: they join anew, and find each other again.
    writer.put([(f'node.{name}', value) for name in ('first', 'owner') for value in (b'rubbish', None, entry(name, 1 << 62), b'x' * 1000) * 20])
    until(lambda: metric(target.port, 'weir_cluster_nodes') == 2 and metric(owner()[0], 'weir_cluster_nodes') == 2, 'two nodes again')
    refused = metric(target.port, 'weir_cluster_refused_entries_total')
    if refused == 0:
        target.broke('nothing was refused')
    return f'{writer.written} written, {refused:.0f} refused; ' + judge_owner(target, before)


@attack(seconds=25, quick=6, flags=open_cluster)
def cluster_of_liars(target):
    """Without a secret: 3,000 nodes that nobody has, with models without number that change each second, and sessions that they own."""
    writer, round_, asked = Writer(), 0, 0
    until(lambda: metric(target.port, 'weir_cluster_connected') == 1, 'NATS')
    sessions = [f'{i:032x}' for i in range(2000)]
    record = b'weir-session 1\nowner ghost%d 7\nturn 3\n\n'
    state = random.Random(3).randbytes(60 << 10)
    writer.put([(f'session.{name}', record % i + state) for i, name in enumerate(sessions)], b'weir-sessions')
    peers = []
    while not target.over():
        round_ += 1
        for begin in range(0, target.size(3000, 1200), 100):
            writer.put([(f'node.liar{i}', entry(f'liar{i}', 1, round_, f'http://127.{i % 7}.0.1:{1 + i}',
                                                [f'lie{(i * 40 + k + round_) % 9000} {"tokens" if k % 5 == 0 else "tensors"}' for k in range(40)]))
                        for i in range(begin, begin + 100)])
        # Clients that ask for what they own.
        peers = [peer for peer in peers if peer.still_open() and peer.take() is None][-200:]
        for _ in range(50):
            body = json.dumps({'session_id': sessions[asked % len(sessions)]}).encode()
            peers.append(Raw(target, wait=3).send(b'POST /salience.v1.Salience/DumpSession HTTP/1.1\r\nHost: a\r\n'
                                                  b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' % (len(body), body)))
            asked += 1
        time.sleep(0.2)
    return f'{round_} rounds, {writer.written} written, {asked} sessions asked for, {metric(target.port, "weir_cluster_nodes"):.0f} nodes'


# --- calls that are handed on ------------------------------------------------------------------------------------------
PATH = '/salience.v1.Salience/'


def open_sessions(target, count):
    """Sessions at the owner, as many as it gives one client."""
    out = []
    with Raw(target, wait=5) as raw:
        raw.sock.close()
        raw.sock = socket.socket()
        raw.sock.settimeout(5)
        raw.sock.bind((target.source, 0))
        raw.sock.connect(('127.0.0.1', owner()[0]))
        for _ in range(count):
            status, body = raw.send(b'POST %sOpenSession HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}'
                                    % PATH.encode()).answer()
            if status != 200:
                break
            out.append(json.loads(body)['session_id'])
    return out


def turn(stream, session, tokens=2000):
    """Frames of a Generate that begins the session anew and makes so many tokens."""
    message = pb(1, session) + pb(2, b''.join(map(varint, range(20)))) + pb(3, 0) + pb(4, 1) + pb(5, tokens)
    return (H2.head(stream, PATH + 'Generate', 'POST', end=False, extra=GRPC) + frame(DATA, END_STREAM, stream, grpc_message(message)))


class Crowd:
    """Connections of 90 calls each for sessions of the owner, by way of the node under attack."""

    def __init__(self, target, sessions):
        self.target, self.sessions, self.begun = target, sessions, 0

    def connection(self, *pairs, calls=90, **more):
        h2 = H2(self.target, *pairs, wait=3, **more)
        streams = range(1, 2 * calls, 2)
        h2.offer(b''.join(turn(s, self.sessions[(self.begun + s // 2) % len(self.sessions)]) for s in streams))
        self.begun += calls
        return h2

    def leave(self, h2, how):
        if how == 'reset':
            h2.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        h2.sock.close()


@attack(seconds=30, quick=6, flags=pair, probes=('relayed',))
def relayed_crowd(target):
    """Thousands of Salience's turns at once for sessions of another node; clients leave in the middle, reset, or do not read."""
    more_descriptors()
    before = owner_memory()
    crowd = Crowd(target, open_sessions(target, target.size(400, 100)))
    chance, wanted = random.Random(5), target.size(60, 15)
    unread = [crowd.connection((INITIAL_WINDOW_SIZE, 0), receive_buffer=4096) for _ in range(wanted // 3)]
    reading = []
    while not target.over():
        unread = [h2 for h2 in unread if h2.still_open()]
        reading = [h2 for h2 in reading if h2.pump()]
        while len(unread) < wanted // 3 and not target.over():
            unread.append(crowd.connection((INITIAL_WINDOW_SIZE, 0), receive_buffer=4096))
        while len(reading) < wanted and not target.over():
            reading.append(crowd.connection((INITIAL_WINDOW_SIZE, 1 << 30)).send(window(0, 1 << 30)))
        for _ in range(wanted // 4):
            crowd.leave(reading.pop(chance.randrange(len(reading))), chance.choice(('reset', 'end')))
        # Each resets less than the node would end it for.
        h2 = crowd.connection()
        h2.offer(b''.join(rst(s, CANCEL) for s in range(1, 180, 2)))
        crowd.leave(h2, 'end')
        time.sleep(0.05)
    for h2 in unread + reading:
        crowd.leave(h2, 'end')
    quiet = until(lambda: metric(owner()[0], 'weir_model_sequences{model="chat",version="1",state="running"}') == 0, 'that the owner has no work left')
    return f'{crowd.begun} turns of {len(crowd.sessions)} sessions; ' + judge_owner(target, before) if quiet else ''


# --- what nodes ask each other -----------------------------------------------------------------------------------------
ASK = '/weir.cluster.v1.Peer/Ask'
KEY = 'weir-node-key'


def ask_peer(target, message, key=None):
    """The gRPC status of an Ask, and what was answered."""
    import grpc
    with grpc.insecure_channel(f'127.0.0.1:{target.port}') as channel:
        try:
            answer = channel.unary_unary(ASK)(message, timeout=20, metadata=[(KEY, key)] if key else [])
            return 0, answer
        except grpc.RpcError as error:
            return error.code().value[0], b''


def asks(target, message, key=None, streams=90, wait=3):
    """A connection with so many Asks under way, each as far as `message` goes."""
    extra = (*GRPC, (KEY, key)) if key else GRPC
    h2 = H2(target, wait=wait)
    h2.offer(b''.join(H2.head(s, ASK, 'POST', end=False, extra=extra) + message(s) for s in range(1, 2 * streams, 2)))
    return h2


@attack(seconds=25, quick=6, flags=guarded_cluster, probes=('relayed',))
def asks_of_strangers(target):
    """`weir.cluster.v1.Peer/Ask` without the secret or with a wrong one: floods, messages of 1 MiB and more, some that end never."""
    more_descriptors()
    before, chance, begun = owner_memory(), random.Random(21), 0
    wrongs = (None, 'x', '0' * 64, 'f' * 200)
    for key in wrongs:
        for what in (b'promise owner 1\n', b'read node.owner 0\n', b'erase node.owner 1\n', b'write node.owner 1\nx', b'', b'\xff' * 1000):
            if (status := ask_peer(target, what, key)[0]) != 7:
                target.broke(f'who has not the secret is answered {status} to {what!r}')
    whole = [b'promise owner 1\n', b'write node.n 0\n' + b'x' * (64 << 10), chance.randbytes(300)]
    peers = []
    while not target.over():
        peers = [p for p in peers if p.pump()][-100:]
        for _ in range(3):
            key = chance.choice(wrongs)
            peers.append(asks(target, lambda s: frame(DATA, END_STREAM, s, grpc_message(chance.choice(whole[::2]))), key))
            peers.append(asks(target, lambda s: frame(DATA, 0, s, grpc_message(whole[1])[:16384]), key))  # it does not end
            large = asks(target, lambda s: frame(DATA, 0, s, struct.pack('>BI', 0, 2 << 20) + bytes(16000)), key, streams=20)
            peers.append(large)
            begun += 200
        time.sleep(0.05)
    return f'{begun} asked; ' + judge_owner(target, before)


@attack(seconds=25, quick=6, flags=pair, probes=('relayed',))
def promises_of_strangers(target):
    """Without a secret, promises are asked for by 100,000 nodes that nobody has, and by the names of those that there are; and all else is refused."""
    more_descriptors()
    until(lambda: metric(target.port, 'weir_cluster_nodes') == 2, 'two nodes')
    before, chance, begun = owner_memory(), random.Random(22), 0
    for what in (b'read node.owner 0\n', b'erase node.owner 1\n', b'write node.owner 1\nx', b'write session.' + b'0' * 32 + b' 0\nx'):
        status, answer = ask_peer(target, what)
        if status == 0 and answer.startswith(b'ok'):
            target.broke(f'written or read for a stranger: {what!r} {answer!r}')
    if (status := ask_peer(target, b'promise ' + b'x' * 1000 + b' 1\n')[0]) == 0:
        target.broke('a promise of more than 512 bytes is read')
    kinds = (lambda: b'promise ghost%d %d\n' % (chance.randrange(100_000), chance.randrange(1 << 63)),
             lambda: b'promise owner %d\n' % chance.randrange(1 << 63), lambda: b'promise first 1\n', lambda: b'promise owner 1\n',
             lambda: b'read node.owner 0\n', lambda: chance.randbytes(200))
    peers = []
    while not target.over():
        peers = [p for p in peers if p.pump()][-60:]
        for _ in range(4):
            peers.append(asks(target, lambda s: frame(DATA, END_STREAM, s, grpc_message(chance.choice(kinds)()))))
            begun += 90
        time.sleep(0.02)
    if metric(target.port, 'weir_cluster_nodes') != 2:
        target.broke('a node is taken for dead, or one that nobody has for one')
    return f'{begun} asked; ' + judge_owner(target, before)


def many_streams(target, first):
    """Connections of 90 streams, which begin with first(stream), until time is over; the last 60 stay. How many streams."""
    peers, begun = [], 0
    while not target.over():
        peers = [p for p in peers if p.pump()][-60:]
        for _ in range(4):
            h2 = H2(target, wait=3)
            h2.offer(b''.join(first(s) for s in range(1, 180, 2)))
            peers.append(h2)
            begun += 90
        time.sleep(0.02)
    return begun


@attack(seconds=25, quick=6, flags=pair, probes=('relayed',))
def guesses_in_a_cluster(target):
    """Sessions that nobody has, asked for by thousands of ids with the other node's mark, this one's, and those of nodes that there are not."""
    more_descriptors()
    until(lambda: metric(target.port, 'weir_cluster_nodes') == 2, 'two nodes')
    before, chance = owner_memory(), random.Random(23)
    [real] = open_sessions(target, 1)

    def guess(stream):
        name = chance.choice((real[:12] + chance.randbytes(10).hex(), real[:4] + '0' * 8 + chance.randbytes(10).hex(), chance.randbytes(16).hex()))
        message = grpc_message(pb(1, name))
        return H2.head(stream, PATH + chance.choice(('CloseSession', 'DumpSession')), 'POST', end=False, extra=GRPC) + frame(DATA, END_STREAM, stream, message)
    return f'{many_streams(target, guess)} guessed; ' + judge_owner(target, before)


def any_of(type, message):
    return pb(1, f'type.googleapis.com/{type}') + pb(2, message)


@attack(seconds=25, quick=6, flags=pair, probes=('relayed',))
def resumes_in_a_cluster(target):
    """Evergreen's sessions that nobody has are resumed by thousands, with and without an end; and small ones are kept and left by hundreds."""
    more_descriptors()
    until(lambda: metric(target.port, 'weir_cluster_nodes') == 2, 'two nodes')
    before, chance = owner_memory(), random.Random(29)

    def first(stream):
        resume = pb(2, 'RESUME') + pb(5, any_of('weir.evergreen.v1.ResumeConfig', pb(1, chance.randbytes(16).hex())))
        actions = [resume, pb(2, 'KEEP'), resume + pb(4, pb(1, 'status') + pb(2, 's')), pb(2, 'RESUME')]
        said = b''.join(pb(2, chance.choice(actions)) for _ in range(chance.randrange(1, 4)))
        end = END_STREAM if chance.random() < 0.5 else 0
        return (H2.head(stream, '/evergreen.v2.EvergreenService/StartSession', 'POST', end=False, extra=GRPC)
                + frame(DATA, end, stream, grpc_message(said)))
    return f'{many_streams(target, first)} resumed; ' + judge_owner(target, before)
