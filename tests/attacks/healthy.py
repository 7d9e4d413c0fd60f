"""The healthy client: a process of its own that asks for little, at a steady pace, and counts what it was denied.

usage: healthy.py PORT PATIENCE_S [probe…]      prints "warm" when each kind has had an answer; then reads phases' names
                                                from its input, one a line; at its end prints JSON:
                                                {"phases": {phase: {kind: {asked, served, times_ms, errors}}},
                                                 "late_ms": {phase: the most by which a sleep of the client's was too long},
                                                 "pieces_ms": {phase: CPU times of pieces of work (pace.py)}}

Each kind of request has a thread and a schedule. Latency is counted from the moment that the schedule has for a request,
not from when it could be sent: a server that holds one request holds those that would have come behind it. A request
counts as served when its whole answer, and the right one, is there within PATIENCE_S of that moment.
"""

import http.client
import json
import os
import struct
import sys
import threading
import time

from pace import Pace
from peer import grpc_message, model_infer, pb  # noqa: F401

TENSOR = [1, 2, 3]
INFER = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [3], 'data': TENSOR}]})
CHAT = json.dumps({'model': 'chat', 'stream': True, 'max_tokens': 8, 'messages': [{'role': 'user', 'content': 'What is curl?'}]})


class Http:
    """A connection that is kept, and made anew when it has ended."""

    def __init__(self, port, patience):
        self.connection = http.client.HTTPConnection('127.0.0.1', port, timeout=patience)

    def ask(self, method, path, body=None):
        try:
            self.connection.request(method, path, body, {'Content-Type': 'application/json'} if body else {})
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except BaseException:
            self.connection.close()
            raise


def right(condition, what):
    if not condition:
        raise AssertionError(f'wrong answer: {what}')


class Rest(Http):
    per_second = 10

    def __call__(self):
        status, body = self.ask('POST', '/v2/models/identity/infer', INFER)
        right(status == 200 and json.loads(body)['outputs'][0]['data'] == TENSOR, f'{status} {body[:100]}')


class Health(Http):
    """On a connection of its own each time, as balancers do."""
    per_second = 10

    def __call__(self):
        status, _ = self.ask('GET', '/v2/health/live')
        self.connection.close()
        right(status == 200, status)


class Grpc:
    per_second = 10

    def __init__(self, port, patience):
        import grpc
        self.patience = patience
        self.channel = grpc.insecure_channel(f'127.0.0.1:{port}')
        self.call = self.channel.unary_unary('/inference.GRPCInferenceService/ModelInfer')
        self.octets = struct.pack('<3i', *TENSOR)
        self.request = model_infer('identity', 'x', 'INT32', [3], self.octets)

    def __call__(self):
        answer = self.call(self.request, timeout=self.patience)
        right(answer.endswith(self.octets), answer)


class Chat(Http):
    """One stream of text at a time."""
    per_second = 1

    def __call__(self):
        status, body = self.ask('POST', '/v1/chat/completions', CHAT)
        right(status == 200 and body.rstrip().endswith(b'data: [DONE]'), f'{status} {body[-100:]}')


class Session(Http):
    """Opens a session of tokens and closes it."""
    per_second = 2

    def __call__(self):
        status, body = self.ask('POST', '/salience.v1.Salience/OpenSession', '{}')
        right(status == 200, f'{status} {body[:100]}')
        session = json.loads(body).get('session_id') or json.loads(body)['sessionId']
        status, body = self.ask('POST', '/salience.v1.Salience/CloseSession', json.dumps({'session_id': session}))
        right(status == 200, f'{status} {body[:100]}')


class Tokens(Http):
    """Has a text tokenized that is long enough to be a worker's, and not the shard's."""
    per_second = 2

    def __call__(self):
        status, body = self.ask('POST', '/tokenize', json.dumps({'model': 'chat', 'prompt': 'What is curl? ' * 900}))
        right(status == 200 and json.loads(body)['count'] > 900, f'{status} {body[:100]}')


class Form(Http):
    """Asks for an answer of a form that nobody has asked for yet."""
    per_second = 0.5
    asked = 0

    def __call__(self):
        self.asked += 1
        form = {'regex': f'[a-z]{{1,9}}{os.getpid()}x{self.asked}'}
        status, body = self.ask('POST', '/v1/completions', json.dumps({'model': 'chat', 'prompt': 'x', 'max_tokens': 20, 'structured_outputs': form}))
        right(status == 200, f'{status} {body[:100]}')


class Ready(Http):
    """Is told that the server is ready."""
    per_second = 5

    def __call__(self):
        status, body = self.ask('GET', '/v2/health/ready')
        right(status == 200, f'{status} {body[:100]}')


class Metrics(Http):
    """Reads /metrics."""
    per_second = 4

    def __call__(self):
        status, body = self.ask('GET', '/metrics')
        right(status == 200 and b'\nweir_shard_longest_turn_seconds' in body, f'{status} {body[:100]}')


class Feed(Http):
    """Begins to follow one of the console's feeds, as the operator's page does, and leaves."""
    per_second = 2
    path = begins = None

    def __call__(self):
        try:
            self.connection.request('GET', self.path)
            answer = self.connection.getresponse()
            first = b''
            while first in (b'', b': following\n', b'\n') and not first.startswith(self.begins):
                first = answer.readline()
        finally:
            self.connection.close()
        right(answer.status == 200 and first.startswith(self.begins), f'{answer.status} {first[:100]}')


class Follow(Feed):
    path, begins = '/console/v1/requests?model=identity', b':'


class Live(Feed):
    path, begins = '/console/v1/live', b'event: state'


class Relayed(Http):
    """A turn of a session that another node has, by way of the node under attack."""
    per_second = 2

    def __init__(self, port, patience):
        super().__init__(port, patience)
        self.owner = Http(int(os.environ['WEIR_ATTACK_OWNER'].split()[0]), patience)
        end = time.monotonic() + 30  # until the nodes have found each other
        while True:
            try:
                return self()
            except (AssertionError, OSError, http.client.HTTPException):
                if time.monotonic() > end:
                    return
                time.sleep(0.1)

    def __call__(self):
        status, body = self.owner.ask('POST', '/salience.v1.Salience/OpenSession', '{}')
        right(status == 200, f'{status} {body[:100]}')
        session = json.loads(body)['session_id']
        turn = {'session_id': session, 'append_tokens': [1, 2, 3], 'max_tokens': 3}
        status, body = self.ask('POST', '/salience.v1.Salience/Generate', json.dumps(turn))
        right(status == 200 and b'"done"' in body, f'{status} {body[-200:]}')
        status, body = self.ask('POST', '/salience.v1.Salience/CloseSession', json.dumps({'session_id': session}))
        right(status == 200, f'{status} {body[:100]}')


USUAL = {'rest': Rest, 'grpc': Grpc, 'health': Health, 'chat': Chat}
PROBES = {'session': Session, 'tokens': Tokens, 'form': Form, 'ready': Ready, 'follow': Follow, 'live': Live, 'relayed': Relayed, 'metrics': Metrics}


class Count:
    def __init__(self):
        self.asked, self.times, self.errors = 0, [], {}

    def denied(self, why):
        key = str(why)[:120]
        if key in self.errors or len(self.errors) < 5:
            self.errors[key] = self.errors.get(key, 0) + 1

    def report(self):
        return {'asked': self.asked, 'served': len(self.times), 'times_ms': sorted(round(t * 1000, 2) for t in self.times), 'errors': self.errors}


class Kind(threading.Thread):
    """One kind of request, by its schedule. What is too late to be served is not sent any more; it was denied."""

    def __init__(self, client, make, port, patience):
        super().__init__(daemon=True)
        self.client, self.patience, self.warm = client, patience, threading.Event()
        self.work, self.period = make(port, patience), 1 / make.per_second
        self.counts = {}

    def run(self):
        due = time.monotonic()
        while not self.client.ended:
            time.sleep(max(0, due - time.monotonic()))
            count = self.counts.setdefault(self.client.phase_at(due), Count())
            count.asked += 1
            if time.monotonic() > due + self.patience:
                count.denied('not even sent in time: the one before was not answered')
            else:
                self.once(count, due)
            self.warm.set()
            due += self.period

    def once(self, count, due):
        try:
            self.work()
        except Exception as error:  # noqa: B902 (whatever it is, nothing was served)
            return count.denied(f'{type(error).__name__}: {error}')
        took = time.monotonic() - due
        if took <= self.patience:
            count.times.append(took)
        else:
            count.denied('late')


class Pulse(threading.Thread):
    """Sleeps for a moment, again and again, and asks nobody: how much too late it wakes is the machine's doing."""
    MOMENT_S = 0.01

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.late_ms = client, {}

    def run(self):
        while not self.client.ended:
            due = time.monotonic() + self.MOMENT_S
            time.sleep(self.MOMENT_S)
            phase, late = self.client.phase_at(due), 1000 * (time.monotonic() - due)
            self.late_ms[phase] = max(self.late_ms.get(phase, 0), round(late, 1))


class Client:
    def __init__(self, port, patience, probes):
        self.ended, self.phases = False, [(0.0, 'warm')]
        self.pulse, self.pace = Pulse(self), Pace(self)
        self.kinds = {name: Kind(self, make, port, patience)
                      for name, make in {**USUAL, **{p: PROBES[p] for p in probes}}.items()}
        self.patience = patience

    def phase_at(self, when):
        return next(name for since, name in reversed(self.phases) if since <= when)

    def run(self):
        for kind in self.kinds.values():
            kind.start()
        for kind in self.kinds.values():
            kind.warm.wait()
        self.pulse.start()
        self.pace.start()
        print('warm', flush=True)
        for line in sys.stdin:
            self.phases.append((time.monotonic(), line.strip()))
        self.ended = True
        for kind in self.kinds.values():
            kind.join(2 * self.patience)
        out = {}
        for name, kind in self.kinds.items():
            for phase, count in list(kind.counts.items()):
                out.setdefault(phase, {})[name] = count.report()
        json.dump({'phases': out, 'late_ms': self.pulse.late_ms, 'pieces_ms': self.pace.pieces_ms}, sys.stdout)


if __name__ == '__main__':
    Client(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]).run()
