"""Texts, tool calls and pictures that take long to read."""

import base64
import json
import struct
import threading
import zlib

from peer import JSON, ask, post
from registry import attack

MIB = 1 << 20


def flood(target, requests, threads=4, check=lambda status, body: None):
    """These requests in turn, each once at least, on so many connections at once, until time is over. `check`: gets each answer."""
    done = [0]

    def work(i):
        first = i
        while i < first + len(requests) / threads or not target.over():
            check(*ask(target, requests[i % len(requests)], wait=60))
            i += threads
            done[0] += 1

    pool = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    return f'{done[0]} of {max(map(len, requests)) >> 10} KiB'


def chat(content, **more):
    return post('/v1/chat/completions', json.dumps({'model': 'chat', 'max_tokens': 1, 'messages': [{'role': 'user', 'content': content}],
                                                    **more}).encode(), JSON)


@attack(seconds=20, quick=3, probes=('tokens',))
def long_texts(target):
    """Texts of 3.9 MiB to tokenize: one letter, blanks, rare marks, digits, emoji."""
    size = target.size(39, 10) * MIB // 10
    texts = ['a' * size, ' ' * size, '́' * (size // 2), '7' * size, '😀' * (size // 12), 'ab ' * (size // 3), '\n' * (size // 2)]
    return flood(target, [post('/tokenize', json.dumps({'model': 'chat', 'prompt': t}).encode(), JSON) for t in texts] +
                 [chat(t) for t in texts[:3]])


@attack(seconds=20, quick=3, probes=('tokens',))
def function_arguments(target):
    """A tool call whose `function.arguments` are 1.4 MB of nested JSON."""
    depth = target.size(14, 4) * MIB // 40
    nested = ['{"a":' * (depth // 3) + '1' + '}' * (depth // 3), '[' * depth + ']' * depth, '{"a":[' + '1,' * depth + '1]}',
              '{' + ','.join(f'"k{i}":1' for i in range(depth // 6)) + '}', '[' + '[],' * depth + '[]]']
    requests = []
    for arguments in nested:
        call = {'id': 'c', 'type': 'function', 'function': {'name': 'f', 'arguments': arguments}}
        requests.append(post('/v1/chat/completions', json.dumps({'model': 'chat', 'max_tokens': 1, 'messages': [
            {'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': None, 'tool_calls': [call]},
            {'role': 'tool', 'tool_call_id': 'c', 'content': 'y'}]}).encode(), JSON))
    return flood(target, requests)


def png(width, height, rows):
    def chunk(kind, octets):
        return struct.pack('>I', len(octets)) + kind + octets + struct.pack('>I', zlib.crc32(kind + octets))
    head = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(rows, 9)) + chunk(b'IEND', b'')


def pictured(octets, count=1):
    url = 'data:image/png;base64,' + base64.b64encode(octets).decode()
    return chat([{'type': 'image_url', 'image_url': {'url': url}} for _ in range(count)])


@attack(seconds=20, quick=3)
def pictures(target):
    """Chats with pictures of 16 megapixels in 50 KB, many in one request, and some that lie about their size."""
    side = target.size(4000, 1500)
    large = png(side, side, bytes(side * (3 * side + 1)))
    return flood(target, [pictured(large), pictured(large, 8), pictured(png(65535, 65535, b'')), pictured(png(1, 1, b'\0\0\0\0'), 16),
                          pictured(png(8, 200000, bytes(25 * 200000)))])


@attack(seconds=20, quick=3)
def templates_long(target):
    """Conversations of 10,000 short messages."""
    messages = [{'role': 'user' if i % 2 == 0 else 'assistant', 'content': 'x'} for i in range(target.size(40001, 10001))]
    return flood(target, [post('/v1/chat/completions', json.dumps({'model': 'chat', 'max_tokens': 1, 'messages': messages}).encode(), JSON)])


@attack(seconds=15, quick=2.5)
def parameters_nested(target):
    """`sampling_parameters`, JSON in a tensor, of a megabyte of brackets: writing such a value again takes a stack of its own."""
    deep = target.size(500000, 120000)
    texts = ['{"x":' + '[' * deep + ']' * deep + '}', '{"stop":' + '{"a":' * deep, '{"x":' + '[[],' * (deep // 2) + '[]' + ']' * (deep // 2) + '}']
    requests = []
    for text in texts:
        inputs = [{'name': 'text_input', 'datatype': 'BYTES', 'shape': [1], 'data': ['x']},
                  {'name': 'sampling_parameters', 'datatype': 'BYTES', 'shape': [1], 'data': [text]}]
        requests.append(post('/v2/models/chat/infer', json.dumps({'inputs': inputs}).encode(), JSON))
    return flood(target, requests, 2)


@attack(seconds=15, quick=2.5)
def templates_of_short_requests(target):
    """Requests below 8 KiB of 250 messages and many tools, which a template may look at again and again."""
    messages = [{'role': 'a', 'content': ''} for _ in range(250)]
    tools = [{'type': 'function', 'function': {'name': 'f'}} for _ in range(100)]
    bodies = [{'model': 'chat', 'max_tokens': 1, 'messages': messages}, {'model': 'chat', 'max_tokens': 1, 'messages': messages[:50], 'tools': tools}]
    return flood(target, [post('/v1/chat/completions', json.dumps(body, separators=(',', ':')).encode(), JSON) for body in bodies])


@attack(seconds=15, quick=2.5)
def sampling_tables(target):
    """Sampling parameters with long lists: logit_bias of 300,000 ids, a million stop strings and stop ids."""
    count = target.size(300000, 60000)
    chats = [chat('x', logit_bias={str(i): 1 for i in range(count)}), chat('x', stop=[f's{i}' for i in range(count)]),
             chat('x', stop_token_ids=list(range(count))), chat('x', stop='ab' * count)]
    return flood(target, chats, 2)
