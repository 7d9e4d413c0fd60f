"""Responses that are kept: followed while they are made, replayed, listed, continued, cancelled, by hundreds at once."""

import json
import random
import re
import time

from peer import CANCEL, H2, INITIAL_WINDOW_SIZE, JSON, Raw, ask, data, more_descriptors, post, rst, window
from registry import attack

LONG = {'model': 'chat', 'input': 'Tell me all.', 'background': True, 'max_output_tokens': 2000, 'temperature': 2}


def begin_response(target, **more):
    """Its id; None where there is no room."""
    status, body = ask(target, post('/v1/responses', json.dumps({**LONG, **more}).encode(), JSON, ('Connection', 'close')), wait=20)
    if status not in (0, 200, 429, 503):
        target.broke(f'{status} {body[:200]!r}')
    return json.loads(body)['id'] if status == 200 else None


def about(chance, name):
    """A request about it, as (method, path)."""
    after = chance.choice((0, 1, 50, -1, 2**31, 2**64, 'x', ''))
    return chance.choice((('GET', f'/v1/responses/{name}?stream=true&starting_after={after}'), ('GET', f'/v1/responses/{name}?stream=true'),
                          ('GET', f'/v1/responses/{name}?include[]=message.output_text.logprobs'), ('GET', f'/v1/responses/{name}'),
                          ('GET', f'/v1/responses/{name}/input_items?limit={after}&after={name}&order=asc'), ('POST', f'/v1/responses/{name}/cancel'),
                          ('DELETE', f'/v1/responses/{name}')))


@attack(seconds=30, quick=7)
def responses_followed(target):
    """Background responses of hundreds of tokens that are followed from anywhere on 90 streams of each connection, read or not, cancelled, deleted, reset."""
    more_descriptors()
    chance, peers, names, begun, made = random.Random(111), [], [], 0, 0
    while not target.over():
        if name := begin_response(target, stream=False, store=True):
            names, made = [*names, name][-80:], made + 1
        peers = [h2 for h2 in peers if h2.still_open() and (not h2.reads or h2.pump())]
        while names and len(peers) < target.size(40, 10) and not target.over():
            h2 = H2(target, (INITIAL_WINDOW_SIZE, chance.choice((0, 1000, 1 << 20))), receive_buffer=4096, wait=3)
            h2.reads = chance.random() < 0.5
            h2.offer(window(0, 1 << 30))
            for stream in range(1, 180, 2):
                method, path = about(chance, chance.choice(names))
                if chance.random() < 0.9 and method != 'GET':
                    method, path = about(chance, chance.choice(names))
                h2.offer(h2.head(stream, path[:120], method, end=method == 'GET', extra=() if method == 'GET' else [('content-type', 'application/json')])
                         + (b'' if method == 'GET' else data(stream, b'{}')))
            begun += 90
            peers.append(h2)
        for h2 in chance.sample(peers, len(peers) // 6):
            h2.offer(b''.join(rst(stream, CANCEL) for stream in range(1, 180, 2)))
            h2.sock.close()
            peers.remove(h2)
        time.sleep(0.05)
    for name in names:
        ask(target, f'DELETE /v1/responses/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
    return f'{made} made, {begun} asked about'


def thread_of(name, item):
    return post('/v1/responses', json.dumps({'model': 'chat', 'input': item, 'conversation': name, 'max_output_tokens': 1}).encode(), JSON)


@attack(seconds=25, quick=6)
def conversations_that_grow(target):
    """Conversations that are given items as fast as they are taken, of 60 KB each, continued by many at once, listed, and branched by old responses."""
    chance, statuses, names, last = random.Random(112), {}, [], None
    items = [{'type': 'message', 'role': 'user', 'content': 'x' * 3000}] * 20
    with Raw(target, wait=20) as raw:
        while not target.over():
            if len(names) < 50:
                status, body = raw.send(post('/v1/conversations', json.dumps({'items': items, 'metadata': {'a': 'x' * 500}}).encode(), JSON)).answer()
                names += [json.loads(body)['id']] if status == 200 else []
            if names:
                name = chance.choice(names)
                request = chance.choice((
                    post(f'/v1/conversations/{name}/items', json.dumps({'items': items}).encode(), JSON), thread_of(name, 'x' * 1000),
                    f'GET /v1/conversations/{name}/items?limit=100 HTTP/1.1\r\nHost: a\r\n\r\n'.encode(),
                    post('/v1/responses', json.dumps({'model': 'chat', 'input': 'x' * 2000, 'previous_response_id': last, 'max_output_tokens': 1}).encode(), JSON),
                    f'DELETE /v1/conversations/{name}/items/x HTTP/1.1\r\nHost: a\r\n\r\n'.encode()))
                status, body = raw.send(request).answer()
            statuses[status] = statuses.get(status, 0) + 1
            if status == 200 and (found := re.search(rb'"id":"(resp_\w+)"', body)):
                last = found[1].decode()
            if status not in (0, 200, 400, 404, 409, 413, 429, 503, 507):
                target.broke(f'{status} {body[:200]!r}')
            if status == 0 or not raw.alive:
                raw.sock.close()
                raw.__init__(target, wait=20)
    return f'{len(names)} conversations, answers by status: {statuses}'
