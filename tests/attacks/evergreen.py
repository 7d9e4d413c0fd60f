"""Graphs that are small to write down and long to walk."""

import base64
import json
import struct
import time

from peer import Raw, pb
from registry import attack

HEAD = b'POST /evergreen/v2/session HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n'
UPGRADE = (b'GET /evergreen/v2/session HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
           b'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n')


def node(id, children=(), text=None):
    out = {'id': id}
    if children:
        out['childIds'] = list(children)
    if text is not None:
        out['chunkFragment'] = {'metadata': {'mimetype': 'text/plain'}, 'data': base64.b64encode(text).decode()}
    return out


def action(name, inputs, outputs):
    return {'name': name, 'inputs': [{'name': k, 'id': v} for k, v in inputs], 'outputs': [{'name': k, 'id': v} for k, v in outputs]}


def session(target, messages):
    """One session: lines of JSON, and what is said until the server ends it, or time is over. The bytes read."""
    got = 0
    with Raw(target, wait=2) as raw:
        raw.send(HEAD)
        for message in messages:
            line = json.dumps(message, separators=(',', ':')).encode() + b'\n'
            raw.send(b'%x\r\n%s\r\n' % (len(line), line))
            if target.over() or not raw.alive:
                return got
        raw.send(b'0\r\n\r\n')
        while not target.over():
            more = raw.read(1 << 20)
            got += len(more)
            if not more or more.endswith(b'0\r\n\r\n'):
                break
    return got


def sessions(target, messages):
    """The same session, one after the other, until time is over."""
    count = 0
    while not target.over():
        session(target, messages)
        count += 1
    return f'{count} sessions'


@attack(seconds=20, quick=2.5)
def evergreen_drop(target):
    """DROP of 9,000 parents of one child."""
    parents = [f'p{i}' for i in range(target.size(9000, 4000))]
    nodes = [node('c', text=b'x')] + [node(p, ['c']) for p in parents]
    top = node('top', parents[len(parents) // 2:])
    messages = [{'nodeFragments': nodes[i:i + 500]} for i in range(0, len(nodes), 500)]
    messages += [{'actions': [action('DROP', [('tree', p) for p in parents[i:i + 250]], [('status', f's{i}')])]}
                 for i in range(0, len(parents) // 2, 250)]
    messages += [{'nodeFragments': [top]}, {'actions': [action('DROP', [('tree', 'top')], [('status', 's')])]}]
    return sessions(target, messages)


@attack(seconds=20, quick=2.5)
def evergreen_diamond(target):
    """ECHO of a chain of 30 nodes that each name the next one twice, 250 times."""
    chain = [node(f'd{i}', [f'd{i + 1}', f'd{i + 1}']) for i in range(30)] + [node('d30', text=b'')]
    echoes = [{'actions': [action('ECHO', [('x', f'd{10 + i % 20}')], [('x', f'e{i}'), ('status', f's{i}')])]} for i in range(250)]
    return sessions(target, [{'nodeFragments': chain}, *echoes])


@attack(seconds=20, quick=2.5)
def evergreen_wide_diamond(target):
    """The same with layers of 20 nodes that each name all 20 of the next."""
    layers, wide = 8, 20
    nodes = [node('top', [f'l0_{i}' for i in range(wide)])]
    for layer in range(layers):
        below = [f'l{layer + 1}_{i}' for i in range(wide)] if layer + 1 < layers else []
        nodes += [node(f'l{layer}_{i}', below, None if below else b'') for i in range(wide)]
    echoes = [{'actions': [action('ECHO', [('x', 'top')], [('x', f'e{i}'), ('status', f's{i}')])]} for i in range(60)]
    return sessions(target, [{'nodeFragments': nodes}, *echoes])


@attack(seconds=20, quick=3)
def evergreen_long_types(target):
    """GENERATE and INFER of 8,000 references to a leaf whose type is 60 KB of semicolons."""
    def leaf(id, type, text):
        out = node(id, text=text)
        out['chunkFragment']['metadata']['mimetype'] = type + ';' * 60_000
        return out

    end = leaf('e', 'application/x-protobuf', b'')
    tensor = leaf('t', 'application/x-weir-tensor; dtype=INT8; shape=1', b'x')
    generate = action('GENERATE', [('prompt', 'ends')], [('response', 'r'), ('status', 's0')])
    infer = action('INFER', [('x', 'tensors')], [('outputs', 'o'), ('status', 's1')])
    infer['targetSpec'] = {'id': 'identity'}
    return sessions(target, [{'nodeFragments': [end, node('ends', ['e'] * 8000), tensor, node('tensors', ['t'] * 8000)]},
                             {'actions': [generate]}, {'actions': [infer]}])


@attack(seconds=20, quick=2.5)
def evergreen_fragments(target):
    """Fragments that never become a node: a million of seq 1 and up, without seq 0."""
    messages = [{'nodeFragments': [{'id': 'a', 'seq': seq, 'continued': True, 'chunkFragment': {'data': ''}} for seq in range(n, n + 2000)]}
                for n in range(1, target.size(400000, 60000), 2000)]
    return sessions(target, messages)


@attack(seconds=20, quick=4)
def evergreen_first_last(target):
    """A node of 360,000 fragments whose first comes last, and a DROP of it."""
    count = target.size(360000, 100000)
    chunk = {'data': 'eA=='}
    messages = [{'nodeFragments': [{'id': 'a', 'seq': seq, 'continued': True, 'chunkFragment': chunk} for seq in range(n, n + 2000)]}
                for n in range(1, count, 2000)]
    first = {'metadata': {'mimetype': 'text/plain'}, **chunk}
    messages += [{'nodeFragments': [{'id': 'a', 'seq': 0, 'continued': True, 'chunkFragment': first}]},
                 {'actions': [action('DROP', [('node', 'a')], [('status', 's')])]}]
    return sessions(target, messages)


@attack(seconds=25, quick=6)
def evergreen_branch(target):
    """A node of children with 600,000 fragments that say nothing and wait for the first, and one of 600,000 times the same child; DROP of both."""
    count, named = target.size(600_000, 150_000), 4000
    waiting = [{'id': 'a', 'seq': count + 1, 'continued': True, 'childIds': ['c']}] + \
        [{'id': 'a', 'seq': seq, 'continued': True} for seq in range(1, count)]
    messages = [{'nodeFragments': waiting[at:at + 2000]} for at in range(0, len(waiting), 2000)]
    messages += [{'actions': [action('DROP', [('tree', 'a')], [('status', 's')])]}]
    messages += [{'nodeFragments': [{'id': 'b', 'seq': at // named, 'continued': True, 'childIds': ['c'] * named}]} for at in range(0, count, named)]
    messages += [{'actions': [action('DROP', [('tree', 'b')], [('status', 't')])]}]
    return sessions(target, messages)


@attack(seconds=20, quick=3)
def evergreen_tiny_fields(target):
    """Messages of 15 MiB whose fields have two or three bytes each: children, metadata, parts of an action."""
    size = target.size(15, 8) << 20
    fill = lambda octets, size=size: octets * (size // len(octets))
    fragment = lambda number, *rest: pb(1, pb(1, f'n{number}') + b''.join(rest))
    metadata = pb(5, pb(1, fill(pb(100, ''), 60 << 10)) + pb(10, 'x'))
    messages = [fragment(0, fill(pb(4, 'c'))), fragment(0, fill(pb(1, ''))), fragment(0, pb(5, fill(pb(10, '')))),
                pb(2, pb(2, 'ECHO') + pb(5, fill(pb(2, '')))), pb(2, pb(3, fill(pb(1, '')))), pb(2, pb(6, fill(pb(1, '')))),
                b''.join(fragment(n, metadata) for n in range(size // len(metadata))),
                b''.join(fragment(n, pb(4, 'c') * 16_000) for n in range(size // 48_000)), fill(pb(1, '')), fill(pb(2, ''))]
    sent = 0
    while sent < len(messages) or not target.over():
        message = messages[sent % len(messages)]
        with Raw(target, wait=20) as raw:
            raw.send(UPGRADE)
            raw.read()
            raw.send(b'\x82\xff' + struct.pack('>Q', len(message)) + bytes(4) + message + b'\x88\x80' + bytes(4))
            raw.read_all()
        sent += 1
    return f'{sent} messages'


@attack(seconds=20, quick=3)
def ndjson_small_lines(target):
    """Sessions of lines that say nothing, `{}`, and of lines of 60 KB with 1,000 fragments each, many in one read."""
    fragments = json.dumps({'nodeFragments': [{'id': 'a', 'seq': 1 << 20, 'continued': True, 'chunkFragment': {'data': ''}}] * 700}).encode()
    kinds = [b'{}\n' * 80_000, b'{"actions":[]}\n' * 16_000, (fragments.replace(b' ', b'') + b'\n') * 5]
    sent = 0
    while not target.over():
        with Raw(target, wait=5) as raw:
            raw.send(HEAD)
            for _ in range(20):
                octets = kinds[sent % len(kinds)]
                raw.send(b'%x\r\n%s\r\n' % (len(octets), octets))
                sent += 1
                if target.over() or not raw.alive:
                    break
    return f'{sent} reads of {len(kinds[0]) >> 10} KiB'


@attack(seconds=20, quick=3)
def websocket_small_messages(target):
    """WebSocket sessions of messages that say nothing: `{}` as text, nothing as binary, pings; many in one read."""
    masked = b'\0\0\0\0'
    kinds = [(b'\x81\x82' + masked + b'{}') * 32_000, (b'\x82\x80' + masked) * 42_000, (b'\x89\x80' + masked) * 42_000]
    sent = 0
    while not target.over():
        with Raw(target, wait=5) as raw:
            raw.send(UPGRADE)
            for _ in range(20):
                raw.send(kinds[sent % len(kinds)])
                sent += 1
                if target.over() or not raw.alive:
                    break
    return f'{sent} reads of {len(kinds[0]) >> 10} KiB'


@attack(seconds=20, quick=4, quick_env=(('WEIR_LIMITS_SLAB_BUDGET', '256MiB'),))
def ndjson_endless_lines(target):
    """Sessions whose first line of JSON does not end: 15 MiB of it on each of 400 connections."""
    size = 15 << 20
    head = HEAD.replace(b'Transfer-Encoding: chunked', b'Content-Length: %d' % size)
    left = {}
    for _ in range(target.size(400, 50)):
        raw = Raw(target, wait=2)
        raw.send(head)
        left[raw] = size
    octets = b'x' * (1 << 18)
    while not target.over():
        for raw in [r for r in left if r.alive and left[r] > 1]:
            left[raw] -= raw.offer(octets[:left[raw] - 1]) or 0  # the last byte never comes
        time.sleep(0.001)
    return f'{sum(raw.still_open() for raw in left)} sessions hold a line'
