"""Files and batches that outlive their requests (jobs.path), and how bodies begin (console.bodies)."""

import itertools
import json
import re
import tempfile

import harness
from peer import GRPC, H2, JSON, Raw, ask, data, grpc_message, more_descriptors, post
from registry import attack

BOUNDARY = 'xyzzy'
FORM = ('Content-Type', f'multipart/form-data; boundary={BOUNDARY}')
LINE = {'custom_id': 'a', 'method': 'POST', 'url': '/v1/completions', 'body': {'model': 'chat', 'prompt': 'x', 'max_tokens': 1}}


def journal():
    return ('--jobs-path', tempfile.mkdtemp(dir=harness.scratch()), '--jobs-tenant-disk', '64MiB', '--jobs-max-files', '200')


def form(content, cut=False):
    head = (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{BOUNDARY}\r\nContent-Disposition: form-data; '
            'name="file"; filename="in.jsonl"\r\n\r\n').encode()
    return head + content + (b'' if cut else f'\r\n--{BOUNDARY}--\r\n'.encode())


def answers(raw, count):
    """What is read until so many answers to pipelined requests have begun."""
    got = b''
    while got.count(b'HTTP/1.1 ') < count and (more := raw.read()):
        got += more
    return got


def upload(target, content):
    """The file's id, or '' where it was refused."""
    status, body = ask(target, post('/v1/files', form(content), FORM), wait=10)
    return json.loads(body)['id'] if status == 200 else ''


@attack(seconds=25, quick=4, flags=journal)
def uploads_that_never_end(target):
    """Uploads of files: hundreds at once that announce 60 MiB, send 600 KiB of it, and then a byte now and then."""
    more_descriptors()
    begun = form(bytes(600 << 10), cut=True)
    head = post('/v1/files', b'', FORM).replace(b'Content-Length: 0', b'Content-Length: %d' % (60 << 20))
    peers, opened = [], 0
    while not target.over():
        peers = [p for p in peers if p.still_open()]
        while len(peers) < target.size(400, 100) and not target.over():
            peers.append(Raw(target, wait=1).send(head + begun))
            opened += 1
        for peer in peers:
            peer.offer(b'x')
    return f'{opened} opened, {len(peers)} at the end'


@attack(seconds=25, quick=4, flags=journal)
def batches_of_rubbish(target):
    """Batches whose files are of blank lines, of brackets, of lines without an end, and of requests for what is not there."""
    lines = target.size(200_000, 20_000)
    files = {
        'blank': b'\n' * lines * 10,
        'brackets': (b'[' * 2000 + b'\n') * (lines // 200),
        'endless': b'{"custom_id":"' + b'a' * (8 << 20),
        'no model': (json.dumps({**LINE, 'body': {**LINE['body'], 'model': 'nobody'}}).encode() + b'\n') * (lines // 20),
        'same id': (json.dumps(LINE).encode() + b'\n') * (lines // 20),
        'another url': (json.dumps({**LINE, 'url': '/v2/repository/index'}).encode() + b'\n') * (lines // 20),
        'no text': bytes(range(256)) * 4096,
    }
    seen, at = {}, 0
    names = list(files)
    while not target.over() or at < len(names):
        name = names[at % len(names)]
        at += 1
        made = upload(target, files[name])
        request = json.dumps({'input_file_id': made, 'endpoint': '/v1/completions', 'completion_window': '24h'}).encode()
        status, _ = ask(target, post('/v1/batches', request, JSON), wait=10) if made else (0, b'')
        seen.setdefault(name, set()).add(status)
    return ', '.join(f'{name}: {sorted(s)}' for name, s in seen.items())


REQUEST = {'custom_id': 'a', 'params': {'model': 'nobody', 'max_tokens': 1, 'messages': [{'role': 'user', 'content': 'x'}]}}


@attack(seconds=25, quick=4, flags=journal)
def messages_that_never_end(target):
    """Batches of messages: hundreds at once that begin a request of 4 MiB and add a byte now and then; beside them whole ones that are no batches."""
    more_descriptors()
    path = '/v1/messages/batches'
    head = post(path, b'', JSON).replace(b'Content-Length: 0', b'Content-Length: %d' % (60 << 20))
    begun = b'{"requests":[{"custom_id":"a","params":{"x":"' + b'y' * (600 << 10)
    count = target.size(40_000, 5_000)
    bodies = {
        'blank': b' ' * (8 << 20),
        'brackets': b'{"requests":[' + b'[' * (3 << 20),
        'names': b'{' + b','.join(b'"%d":0' % i for i in range(count * 5)) + b'}',
        'long': b'{"requests":[{"custom_id":"a","params":{"x":[' + b'[],' * 160_000 + b'"' + b'y' * (3 << 20) + b'"]}}]}',
        'ids': b'{"requests":[' + b','.join(json.dumps({**REQUEST, 'custom_id': f'{i}'}).encode() for i in range(count)) + b']}',
    }
    peers, opened, seen = [], 0, {}
    for name in itertools.cycle(bodies):
        if target.over() and name in seen:
            break
        peers = [p for p in peers if p.still_open()]
        while len(peers) < target.size(400, 100) and not target.over():
            peers.append(Raw(target, wait=1).send(head + begun))
            opened += 1
        for peer in peers:
            peer.offer(b'y')
        status, _ = ask(target, post(path, bodies[name], JSON), wait=10)
        seen.setdefault(name, set()).add(status)
    return f'{opened} opened, ' + ', '.join(f'{name}: {sorted(s)}' for name, s in seen.items())


@attack(seconds=25, quick=4, flags=journal)
def uploads_completed_by_many(target):
    """Uploads in parts: as many as may be pending, thousands of parts of a byte, and large ones that eight clients complete at once, in one order or another, under a wrong md5, or leave."""
    made = lambda path, body, *kind: ask(target, post(path, body, *(kind or (JSON,))), wait=10)  # noqa: E731
    begin = lambda size: made('/v1/uploads', json.dumps({'bytes': size, 'filename': 'x', 'mime_type': 'x', 'purpose': 'batch'}).encode())  # noqa: E731
    size, seen, ids, pending = target.size(20, 4) << 20, {}, [], []

    def put(upload, content):
        """The part's id; None where there is no room for it."""
        status, told = made(f'/v1/uploads/{upload}/parts', form(content).replace(b'name="file"', b'name="data"'), FORM)
        seen.setdefault('part', set()).add(status)
        return json.loads(told).get('id') if status == 200 else None

    while not target.over():
        if not ids:
            status, told = begin(size)
            large = json.loads(told).get('id') if status == 200 else None
            ids = [put(large, bytes(size // 2)) for _ in range(2)]
        if None in ids:
            ids = []
            for upload in [large, *pending[:2]]:
                made(f'/v1/uploads/{upload}/cancel', b'')
            del pending[:2]
            continue
        status, told = begin(10)
        seen.setdefault('begun', set()).add(status)
        pending += [json.loads(told)['id']] if status == 200 else []
        bodies = [{'part_ids': ids}, {'part_ids': ids[::-1]}, {'part_ids': ids, 'md5': '0' * 32}]
        completing = [Raw(target, wait=3).send(post(f'/v1/uploads/{large}/complete', json.dumps(bodies[i % 3]).encode(), JSON)) for i in range(8)]
        for raw in completing[4:]:
            raw.sock.close()
        for _ in range(50):
            put(pending[-1] if pending else large, b'x')
        answers_of = [raw.answer() for raw in completing[:4]]
        seen.setdefault('completed', set()).update(status for status, _ in answers_of)
        files = {json.loads(body)['file']['id'] for status, body in answers_of if status == 200}
        if len(files) > 1:
            target.broke(f'files of one upload: {files}')
        for file in files:
            ask(target, f'DELETE /v1/files/{file} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode(), wait=10)
            ids = []
    return ', '.join(f'{what}: {sorted(s)}' for what, s in seen.items())


@attack(seconds=20, quick=4, flags=journal)
def jobs_polled(target):
    """One client's asynchronous inferences, as many as are taken, and their results asked for without a pause."""
    infer = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]}).encode()
    begin = post('/v2/models/identity/infer', infer, JSON, ('Prefer', 'respond-async'))
    statuses, polled = set(), 0
    while not target.over():
        with Raw(target, wait=3) as raw:
            places = set(re.findall(rb'"(job_[0-9a-f]+)"', answers(raw.send(begin * 10), 10)))
            paths = [place for place in places] + [b'nobody', b'../..']
            asked = b''.join(b'GET /v2/jobs/%s HTTP/1.1\r\nHost: localhost\r\n\r\n' % path for path in paths)
            for _ in range(20):
                if target.over() or not raw.alive:
                    break
                got = answers(raw.send(asked), len(paths))
                statuses |= set(re.findall(rb'HTTP/1.1 (\d+) ', got))
                polled += got.count(b'HTTP/1.1 ')
    return f'{polled} polled: {sorted(int(s) for s in statuses)}'


def kept_bodies():
    return ('--console-bodies', '64KiB')


@attack(seconds=20, quick=3, flags=kept_bodies)
def bodies_kept(target):
    """Thousands of requests whose bodies begin with 64 KiB that are no text, where the server keeps how bodies begin."""
    body = (b'\xff\x00\x1b[31m</script>' * 8000)[:100_000]
    sent = 0
    while not target.over():
        with Raw(target, wait=3) as raw:
            for _ in range(40):
                sent += answers(raw.send(post('/v2/models/identity/infer', body, JSON) * 5), 5).count(b'HTTP/1.1 ')
                if target.over() or not raw.alive:
                    break
    return f'{sent} answered'


EMPTY = {
    'Evergreen': '/evergreen.v2.EvergreenService/StartSession',
    'ModelStreamInfer': '/inference.GRPCInferenceService/ModelStreamInfer',
    'Salience': '/salience.v1.Salience/Generate',
}


@attack(seconds=20, quick=4)
def empty_messages(target):
    """Streams of gRPC whose reads are tens of thousands of messages without a byte each."""
    many = grpc_message(b'') * 3270  # in a frame of 16 KiB
    sent = {name: 0 for name in EMPTY}
    while not target.over():
        for name, path in EMPTY.items():
            with H2(target, wait=5) as h2:
                h2.send(h2.head(1, path, 'POST', end=False, extra=GRPC))
                h2.pump(0.05)
                for _ in range(15):
                    h2.send(data(1, many) * 4)
                    sent[name] += 4 * 3270
                    if target.over() or 1 in h2.closed_streams or not h2.pump():
                        break
    return ', '.join(f'{name}: {n}' for name, n in sent.items())
