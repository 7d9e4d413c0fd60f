"""Texts by the thousand for encoders and rerankers, in each API that takes them."""

import importlib.util
import json
import random
import subprocess
import time

import harness
from peer import CANCEL, GZIP, H2, INITIAL_WINDOW_SIZE, JSON, Raw, ask, data, drip, more_descriptors, packed, post, rst, window
from registry import attack

MOST = 2048  # texts of one request
LABELS = ('enc', ['BertModel'], None), ('rank', ['BertForSequenceClassification'], ['LABEL_0']), \
    ('mood', ['BertForSequenceClassification'], [f'label {i}' for i in range(128)])  # 128 × 2,048 are as many scores as a request may have


def no_torch():
    return '' if importlib.util.find_spec('torch') else 'there is no python3-torch'


def encoders():
    """The demo models, an encoder, a reranker, and a classifier of 128 labels, of random weights."""
    root = harness.scratch() / f'encoders-{time.monotonic_ns()}'
    root.mkdir()
    for folder in harness.MODELS.iterdir():
        if folder.is_dir():
            (root / folder.name).symlink_to(folder)
    for name, architectures, labels in LABELS:
        more = ['--set', f'id2label={json.dumps(dict(enumerate(labels)))}'] if labels else []
        (root / name / '1').mkdir(parents=True)
        subprocess.run(['/usr/bin/python3', str(harness.ROOT / 'tests/reference/random_encoder.py'), '--tokenizer', '--set',
                        f'architectures={json.dumps(architectures)}', *more, '--out', str(root / name / '1')], check=True, stdout=subprocess.DEVNULL)
        (root / name / 'model.yaml').write_text('max_batch: 64\nbatching: {dynamic: true, max_delay: 2ms}\n')
    return root


ALL_TYPES = ['float', 'base64', 'binary', 'ubinary']
BYTES = 3_900_000  # of a body's texts, at most


def texts(chance, count, size):
    """So many, of that size each: words, marks that no WordPiece has, control characters, emoji, nothing at all."""
    piece = chance.choice(('the quick fox ', '\u0001', '\U0001f600', '\u00e9', 'a', '##', ' ', '. '))
    return [(piece * (size // len(piece) + 1))[:size] for _ in range(count)]


def body(chance):
    """A path, and what is posted there: many texts or few, short ones or ones as long as a body takes."""
    count = chance.choice((1, 20, MOST, MOST + 1, 100_000))
    size = min(BYTES // 4 // count, chance.choice((0, 1, 100, BYTES)))  # a character may be four bytes of JSON or more
    some = texts(chance, count, size)
    cut = chance.choice(('END', 'NONE', 'START', '', 7))
    return chance.choice((
        lambda: ('/v2/embed', {'model': 'enc', 'texts': some, 'embedding_types': ALL_TYPES, 'truncate': cut}),
        lambda: ('/v2/embed', {'model': 'enc', 'texts': some[:MOST], 'embedding_types': ALL_TYPES * 20_000}),
        lambda: ('/v2/embed', {'model': 'enc', 'inputs': [{'content': [{'type': 'text', 'text': text}] * 3} for text in some[:MOST * 2]],
                               'embedding_types': ALL_TYPES, 'truncate': cut}),
        lambda: ('/v1/embed', {'model': 'enc', 'texts': some, 'truncate': cut, 'max_tokens': chance.choice((0, 1, 7, 1 << 40))}),
        lambda: ('/embed', {'model': 'enc', 'inputs': some, 'truncate': chance.choice((True, False, cut)), 'normalize': True}),
        lambda: ('/v1/embeddings', {'model': 'enc', 'input': some, 'encoding_format': 'base64', 'truncate_prompt_tokens': -1}),
        lambda: ('/v1/embeddings', {'model': 'enc', 'input': [[5] * min(300, size)] * min(count, 4000)}),
        lambda: ('/api/embed', {'model': 'enc', 'input': some}),
        lambda: ('/rerank', {'model': 'rank', 'query': some[0], 'documents': some[1:] or some}),
        lambda: ('/rerank', {'model': 'rank', 'query': 'x', 'texts': some, 'return_text': True, 'raw_scores': chance.random() < 0.5}),
        lambda: ('/v2/rerank', {'model': 'rank', 'query': some[0], 'documents': some, 'max_tokens_per_doc': chance.choice((1, 1 << 31, 50))}),
        lambda: ('/score', {'model': 'rank', 'text_1': some, 'text_2': some, 'truncate_prompt_tokens': -1}),
        lambda: ('/classify', {'model': 'mood', 'input': some, 'truncate_prompt_tokens': -1})))()


def made(count, seed):
    """Requests ready to be sent, so that the attacker's own time is not in their way."""
    chance = random.Random(seed)
    out = []
    for _ in range(count):
        path, fields = body(chance)
        out.append((path, json.dumps(fields, ensure_ascii=chance.random() < 0.3).encode()))
    return out


def check(target, path, status, answer):
    """Errors of what is asked for are 400 or 413 in the form of their API; else there is room, or there is none."""
    if status in (400, 413, 429, 503):
        try:
            json.loads(answer)
        except ValueError:
            target.broke(f'{path}: the error is no JSON: {answer[:200]!r}')
    elif status not in (0, 200):
        target.broke(f'{path}: {status} {answer[:200]!r}')


@attack(seconds=30, quick=8, repository=encoders, lacks=no_torch, probes=('tokens',))
def embeddings_of_everything(target):
    """Thousands of texts, huge ones, and ones of nothing, for /embed, /v1/embed, /v2/embed (all types at once), /rerank, /score, /classify."""
    statuses, requests = {}, made(target.size(120, 40), 61)
    while not target.over():
        for path, octets in requests:
            status, answer = ask(target, post(path, octets, JSON), wait=20)
            statuses[path, status] = statuses.get((path, status), 0) + 1
            check(target, path, status, answer)
            if target.over():
                break
    if not any(status == 200 for _, status in statuses):
        target.broke(f'nothing was answered: {statuses}')
    return ', '.join(f'{path} {status}: {n}' for (path, status), n in sorted(statuses.items()))


MANY = json.dumps({'model': 'enc', 'texts': ['x'] * MOST, 'embedding_types': ALL_TYPES}).encode()
RANK = json.dumps({'model': 'rank', 'query': 'x', 'documents': ['\u0001' * 1900] * MOST, 'return_documents': True}, ensure_ascii=False).encode()
CLASSES = json.dumps({'model': 'mood', 'input': ['x'] * MOST}).encode()


@attack(seconds=30, quick=7, repository=encoders, lacks=no_torch, probes=('tokens',))
def embeddings_unread(target):
    """2,048 texts each in all types of embeddings, ranked, with 128 labels each, on 300 connections that read at 1.5 KB/s, or leave in the middle."""
    more_descriptors()
    chance, peers, begun = random.Random(62), [], 0
    requests = [post(path, octets, JSON) for path, octets in (('/v2/embed', MANY), ('/rerank', packed(RANK)), ('/classify', CLASSES))]
    requests[1] = post('/rerank', packed(RANK), JSON, GZIP)
    while not target.over():
        peers = [peer for peer in peers if peer.still_open()]
        for _ in range(min(20, target.size(300, 60) - len(peers))):
            peers.append(Raw(target, receive_buffer=4096, wait=5).send(chance.choice(requests)))
            begun += 1
        for peer in peers:
            peer.take(300)
        for peer in chance.sample(peers, len(peers) // 30):
            peer.sock.close()
            peers.remove(peer)
        time.sleep(0.2)
    left = drip(target, peers, 1500)
    return f'{begun} begun, {len(left)} at the end'


@attack(seconds=25, quick=6, repository=encoders, lacks=no_torch, probes=('tokens',))
def embeddings_streams(target):
    """The same on 90 streams of each HTTP/2 connection, behind windows of 0 or reset in the middle."""
    chance, peers, begun = random.Random(63), [], 0
    bodies = [(path, octets) for path, octets in made(60, 64) if len(octets) < 200_000] + [('/v2/embed', MANY), ('/classify', CLASSES)]
    while not target.over():
        peers = [h2 for h2 in peers if h2.pump()]
        while len(peers) < target.size(20, 5) and not target.over():
            h2 = H2(target, (INITIAL_WINDOW_SIZE, chance.choice((0, 1 << 20))), wait=3)
            h2.pump(0.05)
            for stream in range(1, 180, 2):
                path, octets = chance.choice(bodies)
                h2.offer(h2.head(stream, path, 'POST', end=False, extra=[JSON_FIELD]) + data(stream, octets[:16_000], end=len(octets) <= 16_000)
                         + b''.join(data(stream, octets[at:at + 16_000], end=at + 16_000 >= len(octets)) for at in range(16_000, min(len(octets), 48_000), 16_000)))
            h2.offer(window(0, 1 << 30))
            begun += 90
            peers.append(h2)
        for h2 in chance.sample(peers, len(peers) // 5):
            h2.offer(b''.join(rst(stream, CANCEL) for stream in range(1, 180, 2)))
            h2.sock.close()
            peers.remove(h2)
        time.sleep(0.1)
    return f'{begun} streams begun'


JSON_FIELD = ('content-type', 'application/json')
