"""One client that wants to be everybody: connections, sessions, streams."""

import json
import time

from peer import CANCEL, H2, INITIAL_WINDOW_SIZE, JSON, Raw, ask, more_descriptors, post, rst, window
from registry import attack


@attack(seconds=30, quick=4)
def connections_10100(target):
    """10,100 connections of one address, opened again when they are closed."""
    most = min(more_descriptors() - 500, 10100)
    peers, opened = [], 0
    while not target.over():
        while len(peers) < most and not target.over():
            peers.append(Raw(target, wait=2))
            opened += 1
            if opened % 500 == 0 or not peers[-1].alive:
                break
        peers = [p for p in peers if p.still_open()]
    return f'{opened} opened, {len(peers)} at the end'


@attack(seconds=20, quick=3, probes=('session',))
def sessions_1024(target):
    """1,024 sessions of tokens opened by one client and kept."""
    opened = refused = 0
    with Raw(target, wait=5) as raw:
        while not target.over():
            status, _ = raw.send(post('/salience.v1.Salience/OpenSession', b'{}', JSON)).answer()
            opened += status == 200
            refused += status == 429
            if status != 200:
                time.sleep(0.05)
            if not status:
                raw.sock.close()
                raw.__init__(target, wait=5)
    return f'{opened} opened, {refused} refused'


CHAT = post('/v1/chat/completions', json.dumps({'model': 'chat', 'stream': True, 'max_tokens': 200, 'ignore_eos': True,
                                                'messages': [{'role': 'user', 'content': 'Tell me everything.'}]}).encode(), JSON)


@attack(seconds=40, quick=8)
def unread_chats(target):
    """1,000 chat streams whose answers nobody reads."""
    more_descriptors()
    wanted = target.size(1000, 300)
    peers, begun = [], 0
    while not target.over():
        peers = [p for p in peers if p.still_open()]
        while len(peers) < wanted and not target.over():
            peers.append(Raw(target, receive_buffer=4096, wait=5).send(CHAT))
            begun += 1
        time.sleep(0.1)
    return f'{begun} begun'


@attack(seconds=30, quick=4)
def chats_queued(target):
    """One client's 400 chats at once, read as they should be, again and again."""
    more_descriptors()
    begun = 0
    while not target.over():
        peers = [Raw(target, wait=5).send(CHAT) for _ in range(target.size(400, 100))]
        begun += len(peers)
        read_all_of(target, peers)
    return f'{begun} begun'


def read_all_of(target, peers):
    end = time.monotonic() + 4
    while peers and not target.over() and time.monotonic() < end:
        peers = read_some_of(peers)
        time.sleep(0.02)
    for peer in peers:
        peer.sock.close()


def read_some_of(peers):
    left = []
    for peer in peers:
        got = peer.take()
        if got is None or (got and b'[DONE]' not in got):
            left.append(peer)
        else:
            peer.sock.close()
    return left


@attack(seconds=15, quick=2.5)
def many_identities(target):
    """Metric labels: 100,000 paths, methods, models and header names that nobody knows."""
    i = 0
    with Raw(target, wait=5) as raw:
        while not target.over():
            kinds = (b'GET /v2/models/m%d HTTP/1.1\r\nHost: a\r\n\r\n' % i, b'GET /p%d HTTP/1.1\r\nHost: a\r\n\r\n' % i,
                     b'M%d /livez HTTP/1.1\r\nHost: a\r\n\r\n' % i, post(f'/v2/models/m{i}/infer', b'{}', ('X-Tenant', i)))
            status, _ = raw.send(kinds[i % 4]).answer()
            i += 1
            if not status:
                raw.sock.close()
                raw.__init__(target, wait=5)
    _, body = ask(target, b'GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    series = sum(line[:1] not in (b'#', b'') for line in body.splitlines())
    if series > 2000:
        target.broke(f'{series} series in /metrics')
    return f'{i} requests, {series} series'


def follow(query):
    return f'GET /console/v1/requests?{query} HTTP/1.1\r\nHost: a\r\n\r\n'.encode()


@attack(seconds=20, quick=4, probes=('follow',))
def request_followers(target):
    """1,000 followers of /console/v1/requests, each with a filter of its own; half of them do not read."""
    more_descriptors()
    wanted, peers, begun, refused = target.size(1000, 200), [], 0, 0
    with Raw(target, wait=5) as busy:
        while not target.over():
            for peer in peers[::2]:
                if b' 503 ' in ((peer.take() or b'')[:20]):
                    refused += 1
                    peer.sock.close()
                    peer.alive = False
            peers = [p for p in peers if p.alive and p.still_open()]
            for _ in range(min(50, wanted - len(peers))):
                query = (f'most={1 + begun % 100000}', f'model=m{begun}', f'slow={begun}ms&status=4xx', f'protocol=p{begun}&most=100000')[begun % 4]
                peers.append(Raw(target, receive_buffer=4096, wait=2).send(follow(query)))
                begun += 1
            # Requests that go well and requests that fail, so that there is something to tell.
            busy.send(b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /nothing HTTP/1.1\r\nHost: a\r\n\r\n' * 200)
            while busy.take():
                pass
            if not busy.still_open():
                busy.sock.close()
                busy.__init__(target, wait=5)
            time.sleep(0.02)
    return f'{begun} begun, {refused} refused, {len(peers)} at the end'


FEEDS = ('/console/v1/live', '/console/v1/requests', '/console/v1/requests?slow=1ms', '/console/v1/timelines?last=200', '/console/v1/live',
         '/console/v1/batches?model=identity', '/console/v1/requests?status=4xx', '/console/v1/config', '/console/v1/timelines?slowest=200')


@attack(seconds=25, quick=5, probes=('follow', 'live'))
def console_webs(target):
    """A web of the console's feeds: 90 streams on each of 60 connections, half of which read; the other streams are left and begun anew."""
    more_descriptors()
    wanted, peers, begun = target.size(60, 15), {}, 0
    while not target.over():
        while len(peers) < wanted and not target.over():
            reads = len(peers) % 2 == 0
            h2 = H2(target, (INITIAL_WINDOW_SIZE, 0x3fffffff), receive_buffer=None if reads else 4096, wait=3)
            peers[h2.send(window(0, 0x3fffffff))] = (1, reads)
        for h2, (stream, reads) in list(peers.items()):
            left = b''.join(rst(old, CANCEL) for old in range(max(1, stream - 20), stream, 2))
            new = range(stream, stream + (180 if stream == 1 else 20), 2)
            h2.offer(left + b''.join(H2.head(s, FEEDS[s // 2 % len(FEEDS)]) for s in new))
            begun += len(new)
            peers[h2] = (new[-1] + 2, reads)
            if not (h2.pump() if reads else h2.still_open()):
                h2.sock.close()
                del peers[h2]
        time.sleep(0.1)
    return f'{begun} streams begun, {len(peers)} connections at the end'
