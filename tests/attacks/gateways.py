"""A gateway that forwards to itself, and requests that say that they have come through others, or say what nobody should read."""

import json
import random
import socket
import time

import harness
from origins import INPUTS, DyingOrigin
from peer import CANCEL, GRPC, H2, JSON, Raw, ask, data, grpc_message, model_infer, more_descriptors, post, rst
from registry import attack

_port = []


def listen_twice():
    """A port that is known before the server starts."""
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        _port[:] = [sock.getsockname()[1]]
    return ('--listen', f'127.0.0.1:{_port[0]}')


def circle():
    """The demo models, and beside them `circle`, whose origins are one that dies once it is loaded, and this server itself."""
    root = harness.scratch() / f'circle-{time.monotonic_ns()}'
    root.mkdir()
    for folder in harness.MODELS.iterdir():
        if folder.is_dir():
            (root / folder.name).symlink_to(folder)
    for name, model in (('circle', 'circle'), ('other', 'circle')):
        (root / name).mkdir()
        (root / name / 'model.yaml').write_text(
            f'engine: forward\nkind: oip-grpc\norigins: [http://127.0.0.1:{DyingOrigin().origin.port}, http://127.0.0.1:{_port[0]}]\n'
            f'parameters: {{model: {model}, answer_timeout: 3s, check_interval: 200ms}}\n')
    return root


HOPS = ('0', '7', '8', '9', '4294967295', '4294967296', '99999999999999999999', '-1', '', 'x', '0x7', '1, 2', ' 3', '\u0663')


def forged(chance):
    return (('weir-tenant', chance.choice(('01', '', 'x' * 4000, '18446744073709551615', '-1'))), ('weir-hops', chance.choice(HOPS)))


@attack(seconds=25, quick=6, repository=circle, flags=listen_twice)
def forwarded_in_circles(target):
    """Hundreds of clients of a model whose origin is its own server, with forged counts of hops; the others are served, and each request ends."""
    more_descriptors()
    wanted, peers, begun, statuses, chance = target.size(300, 100), {}, 0, {}, random.Random(91)
    longest = 0
    while not target.over():
        for peer, since in list(peers.items()):
            got = peer.take()
            if got is None and peer.alive:
                continue
            status = (got or b'')[9:12].decode()
            statuses[status] = statuses.get(status, 0) + 1
            longest = max(longest, time.monotonic() - since)
            if status == '200':
                target.broke('nobody has this model')
            peer.sock.close()
            del peers[peer]
        for _ in range(min(30, wanted - len(peers))):
            request = post(f'/v2/models/{chance.choice(("circle", "other"))}/infer', INPUTS, JSON, *(forged(chance) if chance.random() < 0.7 else ()))
            peers[Raw(target, wait=3).send(request.replace('\u0663'.encode(), b'\xd9\xa3'))] = time.monotonic()
            begun += 1
        for peer in chance.sample(list(peers), len(peers) // 30):
            peer.sock.close()
            del peers[peer]
        time.sleep(0.02)
    if longest > 15:
        target.broke(f'a request took {longest:.0f} s')
    return f'{begun} asked, the longest took {longest:.1f} s, answers by status: {statuses}'


# --- numbers and names that nobody has ---------------------------------------------------------------------------------
NUMBERS = ('-1', '0', '4294967295', '4294967296', '18446744073709551615', '18446744073709551616', '9' * 400, '1e3', '1.0', ' 1', '+1', '', 'x', '0x10',
           '\u0661')
NAMES = ('_', ',', 'identity,chat', '_identity', 'identity,', ',,,,' * 30, '.', '..', '-', 'a' * 128, 'a' * 129, 'identity/../chat', '%2e%2e', 'identity\0',
         'b,' * 60, ':', '@', '+', 'x' * 8000)
PARAMETERS = ('priority', 'timeout', 'sequence_id', 'sequence_start', 'sequence_end', 'binary_data_output', 'triton_enable_empty_final_response',
              'headers', 'classification', 'binary_data_size', 'shared_memory_region', '_', ',')
VALUES = (-1, 0, 1, 2**31, 2**32, 2**63, 2**64, 10**400, 1.5, -0.0, True, None, '', '1', 'x' * 5000, [], {}, [[[]]], {'a': {'a': {}}})
FIELDS = ('priority', 'x-request-priority', 'x-priority', 'grpc-timeout', 'request-timeout', 'x-request-timeout', 'inference-header-content-length',
          'prefer', 'x-request-id', 'traceparent', 'tracestate', 'baggage', 'weir-tenant', 'weir-hops', 'weir-node-key', 'x-forwarded-for', 'forwarded',
          'connect-timeout-ms', 'connect-protocol-version', 'idempotency-key', 'range', 'if-none-match', 'accept-encoding', 'accept', 'last-event-id')
SAID = ('-1', '0', '99999999999999999999', 'u=0, i', 'u=9;i=?7,' * 100, 'x' * 4000, ',' * 4000, ';' * 4000, '=' * 2000, '"' * 999, 'gzip;q=9' * 300,
        'bytes=0-1,' * 300, '99999999H', '1n', '0m', '00-' + '0' * 32 + '-' + '0' * 16 + '-ff', '\t', 'a, b, c')


def grps_shape(chance):
    """A tensor whose dimensions are strings, as ProtoJSON lets them be."""
    shape = [chance.choice((*NUMBERS, 1, 2**32, -1, None, [], 1e300)) for _ in range(chance.choice((1, 2, 17, 1000)))]
    tensor = {'name': 'x', 'dtype': chance.choice(('DT_FLOAT32', 'DT_INT64', 1, '1', 10, -1)), 'shape': shape}
    tensor[chance.choice(('flat_float32', 'flatFloat32', 'flat_int64', 'flat_string'))] = [1] * chance.choice((0, 1, 4))
    return '/grps/v1/infer/predict', {'model': 'identity', 'gtensors': {'tensors': [tensor]}}


def oip_names(chance):
    name = chance.choice(NAMES)
    body = {'id': chance.choice(NAMES), 'inputs': [{'name': chance.choice(('x', *NAMES)), 'datatype': 'INT32', 'shape': [chance.choice((1, *VALUES[:9]))], 'data': [1]}],
            'outputs': [{'name': chance.choice(('x', *NAMES))}] if chance.random() < 0.5 else []}
    return f'/v2/models/{"".join(c if c.isalnum() or c in "_,.-:@+%" else "x" for c in name)}/infer', body


def oip_parameters(chance):
    tensor = {'name': 'x', 'datatype': 'INT32', 'shape': [1], 'data': [1], 'parameters': {chance.choice(PARAMETERS): chance.choice(VALUES)}}
    return '/v2/models/identity/infer', {'inputs': [tensor], 'parameters': {chance.choice(PARAMETERS): chance.choice(VALUES) for _ in range(chance.choice((1, 3, 400)))}}


def openai_numbers(chance):
    names = ('max_tokens', 'n', 'top_logprobs', 'seed', 'priority', 'temperature', 'top_p', 'stop', 'logit_bias', 'user', 'top_k', 'min_p', 'stream_options',
             'metadata', 'prompt_cache_key', 'service_tier', 'truncate_prompt_tokens', 'cache_salt')
    return '/v1/chat/completions', {'model': chance.choice(('chat', 'chat', *NAMES)), 'messages': [{'role': 'user', 'content': 'x'}], 'max_tokens': 1,
                                    **{chance.choice(names): chance.choice(VALUES) for _ in range(2)}}


@attack(seconds=20, quick=5)
def numbers_and_names(target):
    """Dimensions, priorities, timeouts, parameters and names that overflow, have another type, or are those of nobody; fields of heads as well."""
    chance, statuses, raw = random.Random(92), {}, None
    while not target.over():
        path, body = chance.choice((grps_shape, oip_names, oip_parameters, openai_numbers))(chance)
        fields = [(chance.choice(FIELDS), chance.choice(SAID)) for _ in range(chance.choice((0, 0, 1, 4)))]
        if raw is None or not raw.alive:
            raw = Raw(target, wait=10)
        status, answer = raw.send(post(path, json.dumps(body).encode(), JSON, *fields)).answer()
        statuses[status] = statuses.get(status, 0) + 1
        if status >= 500 and status not in (501, 503, 504):
            target.broke(f'{path} {fields} {json.dumps(body)[:200]}: {status} {answer[:200]!r}')
        if status != 200:  # what is behind it may have been closed, or never come
            raw.sock.close()
            raw = None
    return f'answers by status: {statuses}'


@attack(seconds=15, quick=4)
def metadata_of_calls(target):
    """The same fields as metadata of gRPC, on 90 streams of a connection at once, with names of models that nobody has."""
    chance, begun, octets = random.Random(93), 0, bytes(4)
    short = [said.strip() for said in SAID if len(said) < 100]  # one byte of length
    while not target.over():
        with H2(target, wait=3) as h2:
            h2.pump(0.05)
            for stream in range(1, 180, 2):
                fields = [(chance.choice(FIELDS), chance.choice(short)) for _ in range(chance.choice((1, 3)))]
                message = grpc_message(model_infer(chance.choice(('identity', *NAMES)), 'x', 'INT32', [chance.choice((1, -1, 2**63 - 1))], octets))
                h2.offer(h2.head(stream, '/inference.GRPCInferenceService/ModelInfer', 'POST', end=False, extra=[*GRPC, *fields]) + data(stream, message))
            begun += 90
            until = time.monotonic() + 2
            while len(h2.closed_streams) < 90 and h2.pump(0.1) and time.monotonic() < until:
                pass
            h2.offer(b''.join(rst(stream, CANCEL) for stream in range(1, 180, 2)))
    status, _ = ask(target, post('/v2/models/identity/infer', INPUTS, JSON))
    if status != 200:
        target.broke(f'identity: {status}')
    return f'{begun} calls'
