"""Names of what belongs to another client: guessed, or known, and asked for."""

import json
import random
import re
import statistics
import time

from journal import FORM, LINE, REQUEST, form, journal
from peer import JSON, Raw, post
from registry import attack

VICTIM = '127.7.7.7'
ROUNDS = 5
TELLING_S = 20e-6  # a difference of medians that is there in every round, and that the network does not hide; of few samples five times that


class Http(Raw):
    """A connection that is made anew when it has ended."""

    def __init__(self, target, source):
        self.target, self.source = target, source
        self.connect()

    def connect(self):
        before, self.target.source = self.target.source, self.source
        super().__init__(self.target, wait=10)
        self.target.source = before

    def ask(self, request):
        """(seconds, status, everything that was answered)"""
        if not self.alive:
            self.sock.close()
            self.connect()
        begun = time.perf_counter()
        try:
            self.sock.sendall(request)
        except OSError:
            self.alive = False
        got = self.read()
        took = time.perf_counter() - begun
        while self.alive and (size := re.search(rb'(?i)content-length: (\d+)', got)) and \
                len(got.partition(b'\r\n\r\n')[2]) < int(size[1]):
            got += self.read()
        return took, int(got[9:12] or 0), got


def get(path, method='GET'):
    return f'{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode()


def rpc(name, session):
    return post('/salience.v1.Salience/' + name, json.dumps({'session_id': session}).encode(), JSON)


# Requests that name an id, and how many of the id's characters say where it would be.
KINDS = {
    'session': (lambda id: rpc('CloseSession', id), 4),
    'fork': (lambda id: rpc('ForkSession', id), 4),
    'response': (lambda id: get(f'/v1/responses/{id}'), 5),
    'follow-up': (lambda id: post('/v1/responses', json.dumps({'model': 'chat', 'input': 'x', 'previous_response_id': id}).encode(), JSON), 5),
    'conversation': (lambda id: get(f'/v1/conversations/{id}/items'), 5),
    'chat': (lambda id: get(f'/v1/chat/completions/{id}'), 9),
    'file': (lambda id: get(f'/v1/files/{id}/content'), 5),
    'batch': (lambda id: get(f'/v1/batches/{id}'), 6),
    'cancel': (lambda id: post(f'/v1/batches/{id}/cancel', b'', JSON), 6),
    'upload': (lambda id: post(f'/v1/uploads/{id}/cancel', b'', JSON), 7),
    'messages': (lambda id: get(f'/v1/messages/batches/{id}'), 9),
    'results': (lambda id: get(f'/v1/messages/batches/{id}/results'), 9),
    'job': (lambda id: get(f'/v2/jobs/{id}/result'), 4),
    'delete': (lambda id: get(f'/v2/jobs/{id}', 'DELETE'), 4),
}


def belongings(victim):
    """Ids of what the victim has, by kind."""
    made = lambda request: json.loads(victim.ask(request)[2].partition(b'\r\n\r\n')[2])  # noqa: E731
    session = made(post('/salience.v1.Salience/OpenSession', b'{}', JSON))['session_id']
    response = made(post('/v1/responses', json.dumps({'model': 'chat', 'input': 'x', 'max_output_tokens': 2}).encode(), JSON))['id']
    conversation = made(post('/v1/conversations', b'{"items":[{"role":"user","content":"x"}]}', JSON))['id']
    chat = made(post('/v1/chat/completions', json.dumps({'model': 'chat', 'messages': [{'role': 'user', 'content': 'x'}], 'store': True,
                                                         'max_tokens': 2}).encode(), JSON))['id']
    file = made(post('/v1/files', form(json.dumps(LINE).encode()), FORM))['id']
    batch = made(post('/v1/batches', json.dumps({'input_file_id': file, 'endpoint': '/v1/completions', 'completion_window': '24h'}).encode(),
                      JSON))['id']
    upload = made(post('/v1/uploads', b'{"bytes":1,"filename":"x","mime_type":"x","purpose":"batch"}', JSON))['id']
    messages = made(post('/v1/messages/batches', json.dumps({'requests': [REQUEST]}).encode(), JSON))['id']
    infer = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]}).encode()
    job = re.search(rb'job_[0-9a-f]+', victim.ask(post('/v2/models/identity/infer', infer, JSON, ('Prefer', 'respond-async')))[2])[0].decode()
    return {'session': session, 'fork': session, 'response': response, 'follow-up': response,
            'conversation': conversation, 'chat': chat, 'file': file, 'batch': batch, 'cancel': batch, 'upload': upload,
            'messages': messages, 'results': messages,
            'job': job, 'delete': job}


def another(chance, id, kept):
    return id[:kept] + ''.join(chance.choice('0123456789abcdef') if c in '0123456789abcdef' else c for c in id[kept:])


def plain(answer, id):
    """The answer without what differs by itself: the id, times, numbers of requests."""
    lines = re.sub(rb'"request_id":"\w+"', b'', answer.replace(id.encode(), b'ID')).split(b'\r\n')
    return [line for line in lines if not re.match(rb'(?i)(date|(x-)?request-id|traceparent|server-timing):', line)]


def compare(target, kind, times):
    """Whether times tell what is there from what is not: medians of the rounds, all with the same sign."""
    rounds = [times[at::ROUNDS] for at in range(ROUNDS)]
    told = [statistics.median(there - not_there for there, not_there in some) for some in rounds if some]
    least = min(map(abs, told))
    if len(times) >= 40 * ROUNDS and len({t > 0 for t in told}) == 1 and least > target.size(TELLING_S, 5 * TELLING_S):
        target.broke(f'{kind}: what another client has takes {1e6 * statistics.median(told):.0f} µs longer than what nobody has')
    return f'{kind} {1e6 * statistics.median(told):+.1f} µs'


@attack(seconds=25, quick=4, flags=journal, probes=('session',))
def guessed_names(target):
    """What another client has (sessions, responses, files, batches, jobs), asked for by its true name, and by names that nobody has."""
    chance = random.Random(11)
    victim, mine = Http(target, VICTIM), Http(target, target.source)
    has = belongings(victim)
    times = {kind: [] for kind in KINDS}
    while not target.over():
        for kind, (request, kept) in KINDS.items():
            pair = [has[kind], another(chance, has[kind], kept)]
            order = [0, 1] if chance.random() < 0.5 else [1, 0]
            answers = {which: mine.ask(request(pair[which])) for which in order}
            (there, status, told), (not_there, _, other) = answers[0], answers[1]
            if kind != 'session' and not 400 <= status < 500:  # whoever closes what is not there is not told
                target.broke(f'{kind}: {status} {told[-200:]}')
            if plain(told, pair[0]) != plain(other, pair[1]):
                target.broke(f'{kind}: the answers differ: {told!r} {other!r}')
            times[kind].append((there, not_there))
        if target.found:
            break
    if victim.ask(rpc('CloseSession', has['session']))[1] != 200 or victim.ask(get(f'/v1/files/{has["file"]}'))[1] != 200:
        target.broke('what the victim had is gone')
    return f'{sum(map(len, times.values()))} pairs: ' + ', '.join(compare(target, kind, t) for kind, t in times.items() if t)


@attack(seconds=20, quick=3, flags=journal, probes=('session',))
def guesses_without_end(target):
    """Names that nobody has, guessed as fast as they are answered, of each kind, on ten connections."""
    chance, peers, guessed = random.Random(12), [Raw(target, wait=3) for _ in range(10)], 0
    starts = {'session': '', 'fork': '', 'response': 'resp_', 'follow-up': 'resp_', 'conversation': 'conv_', 'chat': 'chatcmpl-',
              'file': 'file-', 'batch': 'batch_', 'cancel': 'batch_', 'upload': 'upload_', 'messages': 'msgbatch_', 'results': 'msgbatch_',
              'job': 'job_', 'delete': 'job_'}
    ids = {kind: start + 'f' * 32 for kind, start in starts.items()}
    while not target.over():
        for peer in peers:
            if not peer.still_open():
                peer.sock.close()
                peer.__init__(target, wait=3)
            asked = [request(another(chance, ids[kind], KINDS[kind][1])) for kind, (request, _) in KINDS.items() if kind != 'session']
            peer.offer(b''.join(asked))
            guessed += len(asked)
        for peer in peers:
            while got := peer.take():
                if b'HTTP/1.1 200' in got:
                    target.broke('a guess was right')
    return f'{guessed} guessed'
