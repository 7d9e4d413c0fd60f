"""Grammars, expressions and schemas that explode when they are made, and that are held to token by token."""

import itertools
import json
import random
import time

from peer import CANCEL, GZIP, H2, INITIAL_WINDOW_SIZE, JSON, Raw, data, more_descriptors, packed, post, rst
from registry import attack
from text import flood

MESSAGES = [{'role': 'user', 'content': 'x'}]


def nested_schema(depth):
    schema = {'type': 'string'}
    for _ in range(depth):
        schema = {'type': 'object', 'properties': {'a': schema, 'b': schema}, 'required': ['a']}
    return schema


def dependent(count):
    """Each of the definitions refers to all of them."""
    one = {'anyOf': [{'$ref': f'#/$defs/d{i}'} for i in range(count)]}
    return {'$defs': {f'd{i}': {'type': 'array', 'items': one, 'minItems': 3, 'maxItems': 100 + i} for i in range(count)}, **one}


# Regular expressions in which deterministic automata or backtracking are exponential, and counts inside counts.
EXPRESSIONS = ('(a|b)*a(a|b){%d}', '(a+)+$', '((a{0,%d}){0,100}){0,100}', '(' * 90 + 'a' + ')*' * 90, '(.*a){%d}', '[\\s\\S]{%d}', '(a?){%d}a{%d}',
               '(\\w+\\s?)+$', '|'.join('a' * i for i in range(1, 600)), '([\u0100-\uffff]|[a-z\U0001f600-\U0001f64f])*x.{%d}', '\\b' * 5000, 'x*' * 20_000,
               'a{1,2147483647}', 'a{99999999999999999999}', '(?=(a+))a*b\\1', '^(a|^b|c$)*$' * 100)
LARK = ('start: x\nx: x x | "a"', 'start: ' + '(' * 90 + '"a"' + ')*' * 90, 'start: a0\n' + '\n'.join(f'a{i}: a{i + 1} a{i + 1} | "{i}"' for i in range(3000)) +
        '\na3000: "x"', 'start: /(a|b)*a(a|b){50}/', 'start: ' + ' | '.join(f'"{i}"' for i in range(20_000)), 'start: start', 'start: x~1..100000\nx: "a"~1..1000')
SCHEMAS = (nested_schema(13), dependent(40), {'type': 'array', 'minItems': 1_000_000}, {'type': 'string', 'pattern': '(a|b)*a(a|b){30}'},
           {'type': 'string', 'minLength': 100_000, 'maxLength': 200_000}, {'enum': [f'x{i}' for i in range(20_000)]},
           {'type': 'object', 'patternProperties': {f'^{i}.*x{{9}}': {} for i in range(300)}}, {'type': 'integer', 'minimum': -10**14, 'maximum': 10**14 - 1},
           {'type': 'object', 'properties': {f'p{i}': {'type': 'integer'} for i in range(1500)}},
           {'allOf': [{'properties': {f'p{i}_{j}': {'type': 'string'} for j in range(30)}} for i in range(100)]})


def expression(chance):
    text = chance.choice(EXPRESSIONS)
    return text % ((chance.choice((12, 100, 5000, 60_000)),) * text.count('%d')) if '%d' in text else text


def tool(number, syntax, definition):
    return {'type': 'custom', 'custom': {'name': f't{number}', 'format': {'type': 'grammar', 'grammar': {'syntax': syntax, 'definition': definition}}}}


def asked(chance, number):
    """A request, another one each time: an automaton that is there already costs nothing."""
    mark = f'x{number}'
    kinds = (lambda: {'structured_outputs': {'regex': expression(chance) + mark}},
             lambda: {'structured_outputs': {'grammar': f'root ::= a\na ::= a a | "{mark}" | a*'}},
             lambda: {'structured_outputs': {'choice': [f'{mark}{i}' for i in range(chance.choice((1000, 20_000)))]}},
             lambda: {'response_format': {'type': 'json_schema', 'json_schema': {'name': 's', 'schema': {**chance.choice(SCHEMAS), 'title': mark}}}},
             lambda: {'tools': [tool(i, 'regex', expression(chance) + mark) for i in range(chance.choice((1, 1, 128)))], 'tool_choice': 'required'},
             lambda: {'tools': [tool(i, 'lark', chance.choice(LARK) + f'\n// {mark}') for i in range(chance.choice((1, 20)))], 'tool_choice': 'required'},
             lambda: {'tools': [{'type': 'function', 'function': {'name': f't{i}', 'strict': True, 'parameters': chance.choice(SCHEMAS)}} for i in range(20)]})
    return {'model': 'chat', 'max_tokens': chance.choice((1, 100)), 'messages': MESSAGES, 'stream': chance.random() < 0.3, **chance.choice(kinds)()}


def statuses_of(peers, statuses, target):
    """Those that have no answer yet; what the others were answered, and that errors are JSON of OpenAI's form."""
    left = []
    for peer in peers:
        got = peer.take()
        if got is None and peer.alive:
            left.append(peer)
            continue
        status = (got or b'')[9:12].decode()
        statuses[status] = statuses.get(status, 0) + 1
        if status not in ('', '200', '400', '413', '429', '503', '504') or (status == '400' and b'{"error":{"message":' not in got):
            target.broke(f'{got[:300]!r}')
        peer.sock.close()
    return left


@attack(seconds=30, quick=7, probes=('tokens',))
def grammars_that_explode(target):
    """Expressions, grammars and schemas whose automata are exponential, as formats, as custom tools, 128 in one request: each another one."""
    more_descriptors()
    chance, peers, begun, statuses, number = random.Random(71), [], 0, {}, itertools.count()
    while not target.over():
        peers = statuses_of(peers, statuses, target)
        for _ in range(min(5, target.size(100, 40) - len(peers))):
            body = json.dumps(asked(chance, next(number))).encode()
            short = len(body) < 4096
            peers.append(Raw(target, wait=5).send(post('/v1/chat/completions', body if short else packed(body, 1), JSON, *([] if short else [GZIP]))))
            begun += 1
    if not statuses.get('400'):
        target.broke(f'nothing was refused: {statuses}')
    return f'{begun} asked: {statuses}'


@attack(seconds=20, quick=5, probes=('tokens',))
def expressions_in_turns(target):
    """The same in few connections, each request as soon as the one before is answered: 256 KiB of an expression, of a grammar, of a schema."""
    size = 255 << 10
    long = ['(a|b)*' * (size // 6), 'a' * size, '(' * 99 + 'a{0,9}' * (size // 7 - 50) + ')' * 99, '[a-z]' * (size // 5), '.' * size, '(.|a)*' * (size // 7)]
    kinds = [{'structured_outputs': {'regex': text}} for text in long]
    kinds += [{'structured_outputs': {'grammar': 'root ::= ' + ' '.join(f'a{i}' for i in range(4000)) + '\n' + '\n'.join(f'a{i} ::= "x"*' for i in range(4000))}},
              {'response_format': {'type': 'json_schema', 'json_schema': {'name': 's', 'schema': {'enum': ['x' * 100 + str(i) for i in range(2300)]}}}}]
    return flood(target, [post('/v1/chat/completions', json.dumps({'model': 'chat', 'max_tokens': 50, 'messages': MESSAGES, **kind}).encode(), JSON)
                          for kind in kinds])


@attack(seconds=30, quick=8, probes=('tokens', 'form'))
def forms_that_wait(target):
    """5,400 requests at once for a form each, on 60 HTTP/2 connections, that wait to be compiled, and as many for one and the same; many leave."""
    chance, peers, begun, number = random.Random(72), [], 0, itertools.count()
    same = json.dumps({'model': 'chat', 'max_tokens': 5, 'messages': MESSAGES, 'structured_outputs': {'regex': '([a-z]{1,200} ){1,200}'}}).encode()
    while not target.over():
        peers = [h2 for h2 in peers if h2.pump()]
        while len(peers) < target.size(60, 15) and not target.over():
            h2 = H2(target, (INITIAL_WINDOW_SIZE, 65535), wait=3)
            alike = chance.random() < 0.5
            for stream in range(1, 180, 2):
                body = same if alike else json.dumps({'model': 'chat', 'max_tokens': 5, 'messages': MESSAGES, 'structured_outputs': {
                    'regex': f'([a-z]{{1,200}} ){{1,200}}x{next(number)}'}}).encode()
                h2.send(h2.head(stream, '/v1/chat/completions', 'POST', end=False, extra=[('content-type', 'application/json')]) + data(stream, body))
            begun += 90
            peers.append(h2)
        for h2 in chance.sample(peers, len(peers) // 10):
            if chance.random() < 0.5:
                h2.send(b''.join(rst(stream, CANCEL) for stream in range(1, 180, 2)))
            h2.sock.close()
            peers.remove(h2)
        time.sleep(0.3)
    return f'{begun} begun, {len(peers)} connections at the end'
