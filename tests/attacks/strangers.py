"""Who has no right to come in, and asks again and again; a collector of spans that hangs; Connect's streams."""

import base64
import hashlib
import json
import random
import socket

import harness
from peer import Raw, grpc_message, model_infer, more_descriptors, post
from registry import attack

INFER = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]}).encode()
OPEN_TO_ALL = ('--auth-anonymous', 'health', '--auth-anonymous', 'infer', '--auth-anonymous', 'metrics')


def many_addresses(target, chance):
    """A target whose connections come from any address of 127.6/16, so that what is counted by address is no help."""
    target.source = f'127.6.{chance.randrange(256)}.{chance.randrange(1, 255)}'
    return target


def ask_with(target, make_secret, addresses=False):
    """Infers with a secret each, 20 pipelined on a connection; no answer may be a 200."""
    chance, asked = random.Random(5), 0
    while not target.over():
        with Raw(many_addresses(target, chance) if addresses else target, wait=3) as raw:
            for _ in range(20):
                bearer = 'Bearer ' + make_secret(chance)
                raw.send(b''.join(post('/v2/models/identity/infer', INFER, ('Authorization', bearer)) for _ in range(5)))
                got = raw.read()
                asked += 5
                if b' 200 OK' in got:
                    target.broke('a secret that nobody was given is let in')
                if not raw.alive or target.over():
                    break
    return f'{asked} asked'


# --- keys ------------------------------------------------------------------------------------------------------------
def key_flags():
    path = harness.scratch() / 'keys.yaml'
    lines = [f'  - {{name: k{i}, hash: "sha256:{hashlib.sha256(b"secret %d" % i).hexdigest()}"}}' for i in range(1000)]
    path.write_text('keys:\n' + '\n'.join(lines) + '\n')
    return ('--auth-keys-file', path, *OPEN_TO_ALL)


@attack(seconds=20, quick=3, flags=key_flags)
def wrong_keys(target):
    """A flood of keys that nobody was given, short ones and ones of 8 KB, beside a thousand that there are."""
    return ask_with(target, lambda chance: chance.randbytes(chance.choice((8, 16, 4000))).hex())


# --- tokens ----------------------------------------------------------------------------------------------------------
def jwks_flags():
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    number = lambda n, size: base64.urlsafe_b64encode(n.to_bytes(size, 'big')).rstrip(b'=').decode()  # noqa: E731
    modulus = rsa.generate_private_key(65537, 4096).public_key().public_numbers().n
    point = ec.generate_private_key(ec.SECP384R1()).public_key().public_numbers()
    path = harness.scratch() / 'jwks.json'
    path.write_text(json.dumps({'keys': [
        {'kty': 'RSA', 'kid': 'RS256', 'use': 'sig', 'n': number(modulus, 512), 'e': 'AQAB'},
        {'kty': 'EC', 'crv': 'P-384', 'kid': 'ES384', 'use': 'sig', 'x': number(point.x, 48), 'y': number(point.y, 48)}]}))
    return ('--auth-jwt-keys-file', path, '--auth-jwt-audience', 'weir', *OPEN_TO_ALL)


def part(octets):
    return base64.urlsafe_b64encode(octets).rstrip(b'=').decode()


def token(chance, algorithm, kid, size):
    claims = {'aud': 'weir', 'sub': str(chance.random()), 'exp': 4000000000}
    head = {'alg': algorithm, 'kid': kid}
    return '.'.join((part(json.dumps(head).encode()), part(json.dumps(claims).encode()), part(chance.randbytes(size))))


@attack(seconds=20, quick=3, flags=jwks_flags)
def wrong_signatures(target):
    """A flood of JSON Web Tokens whose signatures are wrong (RSA of 4,096 bits, P-384), from 65,000 addresses."""
    kinds = (('RS256', 'RS256', 512), ('ES384', 'ES384', 96), ('RS256', 'RS256', 96))
    return ask_with(target, lambda chance: token(chance, *chance.choice(kinds)), addresses=True)


@attack(seconds=20, quick=3, flags=jwks_flags)
def unknown_key_ids(target):
    """The same tokens with a `kid` that is always new, and with algorithms that nobody allows."""
    kinds = ('RS256', 'ES384', 'none', 'HS256', 'XX')
    return ask_with(target, lambda chance: token(chance, chance.choice(kinds), chance.randbytes(8).hex(), 96))


# --- spans -----------------------------------------------------------------------------------------------------------
_collectors = []  # open as long as this process


def hanging_collector():
    listening = socket.create_server(('127.0.0.1', 0))
    _collectors.append(listening)
    return ('--tracing-otlp', f'http://127.0.0.1:{listening.getsockname()[1]}/v1/traces', '--tracing-sample', '1',
            '--tracing-parent', 'respect')


@attack(seconds=20, quick=3, flags=hanging_collector)
def hanging_collector_of_spans(target):
    """Every request is traced, and the collector takes connections and never answers; trace state and baggage are long."""
    chance, asked = random.Random(6), 0
    state = ','.join(f'v{i}=' + 'x' * 200 for i in range(32))
    baggage = ','.join(f'b{i}=' + 'y' * 100 for i in range(60))
    while not target.over():
        with Raw(target, wait=3) as raw:
            for _ in range(50):
                parent = f'00-{chance.randbytes(16).hex()}-{chance.randbytes(8).hex()}-01'
                fields = (('traceparent', parent), ('tracestate', state[:4000]), ('baggage', baggage[:4000]))
                raw.send(post('/v2/models/identity/infer', INFER, *fields) * 5)
                asked += 5
                if not raw.read() or target.over():
                    break
    return f'{asked} asked'


# --- Connect ---------------------------------------------------------------------------------------------------------
STREAM = '/inference.GRPCInferenceService/ModelStreamInfer'
CONNECT = (('Content-Type', 'application/connect+proto'), ('Connect-Protocol-Version', '1'))


def open_stream(target, **more):
    head = ''.join(f'{name}: {value}\r\n' for name, value in (('Host', 'localhost'), ('Transfer-Encoding', 'chunked'), *CONNECT))
    return Raw(target, **more).send(f'POST {STREAM} HTTP/1.1\r\n{head}\r\n'.encode())


def chunk(octets):
    return b'%x\r\n%s\r\n' % (len(octets), octets)


@attack(seconds=30, quick=4)
def connect_streams_unread(target):
    """400 Connect streams that ask for tensors of 256 KiB, of which the client reads nothing."""
    message = chunk(grpc_message(model_infer('identity', 'x', 'INT32', [65536], bytes(1 << 18))))
    peers, offered = [], 0
    for _ in range(target.size(400, 100)):
        peers.append(open_stream(target, receive_buffer=4096, wait=3))
    rest = {peer: b'' for peer in peers}
    while not target.over() and rest:
        for peer in list(rest):
            rest[peer] = rest[peer] or message
            taken = peer.offer(rest[peer]) or 0
            offered += taken
            rest[peer] = rest[peer][taken:]
            if not peer.alive:
                del rest[peer]
    return f'{offered >> 20} MiB taken, {len(rest)} streams still open'


@attack(seconds=30, quick=4)
def connect_streams_open(target):
    """3,000 Connect streams that are opened, say half of an envelope, and wait."""
    more_descriptors()
    half = chunk(grpc_message(bytes(1 << 16))[:1000])
    peers, opened = [], 0
    while not target.over():
        peers = [p for p in peers if p.still_open()]
        while len(peers) < target.size(3000, 400) and not target.over():
            peers.append(open_stream(target, wait=3).send(half))
            opened += 1
    return f'{opened} opened, {len(peers)} at the end'
