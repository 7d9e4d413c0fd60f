"""What nodes keep in NATS together: stored responses, which any of them reads, and the log of their jobs, and somebody
who can write there, too."""

import hashlib
import hmac
import json
import os
import random
import socket
import struct
import tempfile

import harness
from cluster import NATS, Writer, begin_owner, judge_owner, metric, nats, open_cluster, owner, owner_memory, secret
from cluster_nodes import SilentNats, until
from journal import FORM, form, upload
from peer import H2, INITIAL_WINDOW_SIZE, JSON, Raw, ask, more_descriptors, post, window
from registry import attack


def get(path):
    return f'GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode()


# --- stored responses of another node ----------------------------------------------------------------------------------
PART = 480 << 10  # of a value, as parted_bucket.h has it


def stored_response(owner, name, size):
    """Entries of the bucket in which a node without a secret finds such a response of that owner."""
    response = json.dumps({'id': name, 'object': 'response', 'metadata': {'x': 'x' * size}}).encode()
    value = b'weir-session 1\nowner ghost 0\nturn 0\n\nweir-response 1 2\n{}' + response
    key = 'response.' + hmac.new(b'', f'{owner}\n{name}'.encode(), hashlib.sha256).hexdigest()
    nonce = hashlib.sha256(name.encode()).hexdigest()[:16]
    parts = [value[at:at + PART] for at in range(0, len(value), PART)]
    return [*((f'part.{key}.{nonce}.{i}', part) for i, part in enumerate(parts)),
            (key, b'weir-parts 1 %s %d %d\n' % (nonce.encode(), len(parts), len(value)))]


@attack(seconds=25, quick=6, flags=open_cluster)
def responses_of_another_node(target):
    """One client asks for stored responses of 4 MiB that this node has to fetch, thousands at once; it reads slowly, or leaves in the middle."""
    more_descriptors()
    until(lambda: metric(target.port, 'weir_cluster_connected') == 1, 'NATS')
    names = [f'resp_{i:024x}' for i in range(target.size(40, 10))]
    writer, large = Writer(), (4 << 20) - 1000

    def kept():
        writer.put(stored_response(f'host {target.source}', names[0], large), b'weir-responses')
        return ask(target, get(f'/v1/responses/{names[0]}'), wait=10)[0] == 200
    until(kept, 'that a response of another node is found')
    for name in names[1:]:
        writer.put(stored_response(f'host {target.source}', name, large), b'weir-responses')
    chance, asked, statuses, unread, reading = random.Random(31), 0, {}, [], []
    while not target.over():
        unread = [h2 for h2 in unread if h2.still_open()][-target.size(30, 8):]
        reading = [h2 for h2 in reading if h2.pump()][-target.size(20, 6):]
        for _ in range(3):
            window_size, crowd = chance.choice(((0, unread), (1 << 30, reading)))
            h2 = H2(target, (INITIAL_WINDOW_SIZE, window_size), wait=3)
            h2.offer(b''.join(H2.head(s, f'/v1/responses/{chance.choice(names)}') for s in range(1, 180, 2)) + window(0, 1 << 30))
            crowd.append(h2)
            asked += 90
        status, body = ask(target, get(f'/v1/responses/{chance.choice(names)}'), wait=10)
        statuses[status] = statuses.get(status, 0) + 1
        if status not in (0, 200, 429, 503):
            target.broke(f'{status}: {body[:200]!r}')
    return f'{asked} asked for in crowds; alone: {statuses}'


# --- the log of jobs ---------------------------------------------------------------------------------------------------
def shared_jobs():
    """Flags of a node that has files and batches together with `owner`; both know a secret that the attacker does not."""
    server = nats()
    flags = ('--cluster-nats', server.url, '--cluster-secret', secret(), '--jobs-disk', '256MiB', '--jobs-tenant-disk', '64MiB')

    def named(name):
        return (*flags, '--cluster-name', name, '--jobs-path', tempfile.mkdtemp(dir=harness.scratch()))
    begin_owner(server, *named('owner'))
    return named('first')


def overheard(work):
    """[(subject, bytes)]: what nodes have written to the log while `work` went on."""
    with socket.create_connection(('127.0.0.1', int(os.environ[NATS])), 10) as sock:
        def until_pong():
            heard = b''
            while not heard.endswith(b'PONG\r\n'):
                heard += sock.recv(1 << 20)
            return heard
        sock.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB weir-jobs.* 1\r\nPING\r\n')
        until_pong()
        work()
        sock.sendall(b'PING\r\n')
        rest, out = until_pong(), []
    while rest:
        line, _, rest = rest.partition(b'\r\n')
        words = line.split()
        if words[0] not in (b'MSG', b'HMSG'):  # the server's PING
            continue
        size, head = int(words[-1]), int(words[-2]) if words[0] == b'HMSG' else 0
        out.append((words[1], rest[head:size]))
        rest = rest[size + 2:]
    return out


def part_list(size, *parts):
    return struct.pack('<Q', size) + b''.join(struct.pack('<Q', sequence) + digest for sequence, digest in parts)


def lie(chance, heard):
    """A message of the log that no node has written, or not now."""
    subject, true = chance.choice(heard)
    spoilt = bytearray(true)
    if spoilt:
        spoilt[chance.randrange(min(len(spoilt), 200))] ^= 1 << chance.randrange(8)
    digest, mac = chance.randbytes(32), chance.choice((b'0' * 64, chance.randbytes(32).hex().encode()))

    def parts(count, most):
        return part_list(chance.choice((0, 64 << 20, 1 << 62)), *((chance.randrange(1, most), digest) for _ in range(count)))
    return chance.choice((
        lambda: (subject, true), lambda: (subject, bytes(spoilt)), lambda: (subject, true[:chance.randrange(len(true) + 1)]),
        lambda: (b'weir-jobs.entry', true), lambda: (b'weir-jobs.snapshot', true), lambda: (b'weir-jobs.entry', b''),
        lambda: (b'weir-jobs.entry', mac + b'Eweirjob1' + chance.randbytes(300)), lambda: (b'weir-jobs.entry', mac + b'P' + parts(128, 50)),
        lambda: (b'weir-jobs.entry', mac + b'P' + parts(5000, 1 << 63)), lambda: (b'weir-jobs.part', chance.randbytes(1000)),
        lambda: (b'weir-jobs.snapshot', mac + b'S' + struct.pack('<Q', 1 << 60) + parts(128, 50)), lambda: (b'weir-jobs.entry', mac),
        lambda: (b'weir-jobs.snapshot', mac + b'B' + struct.pack('<QQ', chance.randrange(1 << 63), 0) + parts(5000, 50)),
        lambda: (b'weir-jobs.snapshot', mac + b'S' + part_list(0))))()


@attack(seconds=25, quick=6, flags=shared_jobs)
def lies_in_the_log_of_jobs(target):
    """Somebody writes into the jobs' log without the secret: wrong MACs, lists that lie, parts without end, and what nodes have written, again."""
    ports, chance = (target.port, owner()[0]), random.Random(41)
    until(lambda: metric(target.port, 'weir_cluster_nodes') == 2 and all(metric(p, 'weir_jobs_log_connected') == 1 for p in ports), 'two nodes')
    before, content, files = owner_memory(), chance.randbytes(300_000), []
    heard = overheard(lambda: files.extend(upload(target, content) for _ in range(3)))
    if not all(files) or not any(subject.endswith(b'.entry') for subject, _ in heard):
        target.broke('a file is refused before anything has begun')
        return ''
    writer, most = Writer(), target.size(20_000, 4_000)
    large = [(b'weir-jobs.part', bytes(900 << 10))] * target.size(4, 1)
    while not target.over():
        if writer.written < most:
            writer.publish([lie(chance, heard) for _ in range(100)] + large)
        files.append(upload(target, content))
    wanted = [name for name in files if name]

    def read(port, name):
        with Raw(target, wait=10) as raw:
            raw.sock.close()
            raw.sock = socket.create_connection(('127.0.0.1', port), 10, (target.source, 0))  # whose the files are
            return raw.send(get(f'/v1/files/{name}/content')).answer() == (200, content)
    for port in ports:
        until(lambda: read(port, wanted[-1]), 'a file behind the lies', 4 * harness.PATIENCE)
        for name in wanted[:3]:
            if not read(port, name):
                target.broke('a file is another one, or gone')
        if metric(port, 'weir_jobs_log_connected') != 1:
            target.broke('the log is taken for lost')
    if metric(target.port, 'weir_jobs_log_skipped_total') == 0:
        target.broke('nothing was skipped')
    return f'{writer.written} written, {len(wanted)} of {len(files)} files taken; ' + judge_owner(target, before)


# --- a NATS that is there and does nothing -----------------------------------------------------------------------------
def silent_nats():
    return ('--cluster-nats', SilentNats().url, '--jobs-path', tempfile.mkdtemp(dir=harness.scratch()))


@attack(seconds=30, quick=8, flags=silent_nats)
def nats_that_never_answers(target):
    """Work for later, of megabytes each, on hundreds of connections at a node whose NATS takes connections and never answers."""
    more_descriptors()
    large = 'x' * (1 << 20)
    later = {
        'response': post('/v1/responses', json.dumps({'model': 'chat', 'input': 'x', 'background': True, 'metadata': {'a': 'x' * 500}}).encode(), JSON),
        'job': post('/v2/models/identity/infer', json.dumps({'id': large, 'inputs': []}).encode(), JSON, ('Prefer', 'respond-async')),
        'upload': post('/v1/files', form(large.encode()), FORM),
        'files': get('/v1/files'),
    }
    peers, opened, statuses = [], 0, {}
    while not target.over():
        peers = [peer for peer in peers if peer.still_open()]
        for name in later:
            if len(peers) < target.size(400, 100) and not target.over():
                peers.append(Raw(target, wait=1).send(later[name]))
                opened += 1
        status, body = ask(target, later['response'], wait=20)
        statuses[status] = statuses.get(status, 0) + 1
        if status not in (0, 200, 429, 503):
            target.broke(f'{status}: {body[:200]!r}')
    return f'{opened} opened; alone: {statuses}'
