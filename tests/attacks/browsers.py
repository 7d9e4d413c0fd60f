"""What a page on another site makes a browser send."""

import json
import re
import time

from peer import JSON, ask, post
from registry import attack

FOREIGN = {
    'image': (('Sec-Fetch-Site', 'cross-site'), ('Sec-Fetch-Mode', 'no-cors'), ('Sec-Fetch-Dest', 'image'), ('Referer', 'http://evil.example/')),
    'form': (('Sec-Fetch-Site', 'cross-site'), ('Sec-Fetch-Mode', 'no-cors'), ('Origin', 'http://evil.example'), ('Content-Type', 'text/plain')),
    'old': (('Origin', 'http://evil.example'), ('Content-Type', 'text/plain')),
    'sandbox': (('Origin', 'null'), ('Content-Type', 'text/plain')),
}
INFER = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]}).encode()
CHAT = json.dumps({'model': 'chat', 'max_tokens': 1, 'messages': [{'role': 'user', 'content': 'x'}]}).encode()
WRITES = [('/v2/repository/models/simple/unload', b''), ('/v2/repository/models/simple/load', b'{}'), ('/v2/logging', b'{"log_info":false}'),
          ('/v2/trace/setting', b'{"trace_rate":"1"}'), ('/v2/models/identity/infer', INFER), ('/v1/chat/completions', CHAT),
          ('/grps/v1/infer/predict?model=identity', b'{"str_data":"x"}'), ('/inference.GRPCInferenceService/ModelInfer', b'{}'),
          ('/salience.v1.Salience/OpenSession', b'{}'), ('/evergreen/v2/session', b'{}\n'), ('/graphpipe/identity', b'\0')]


def get(path, *fields, host='localhost'):
    head = ''.join(f'{name}: {value}\r\n' for name, value in (('Host', host), *fields))
    return f'GET {path} HTTP/1.1\r\n{head}\r\n'.encode()


@attack(seconds=10, quick=2, probes=('ready',))
def foreign_pages(target):
    """Pages of other sites: `<img>` on /grps/v1/health/offline, posts of text/plain that unload, log, infer and open sessions."""
    rounds = 0
    while not target.over():
        for kind, marks in FOREIGN.items():
            if kind == 'image':
                expect(target, get('/grps/v1/health/offline', *marks), f'{kind} /grps/v1/health/offline')
                continue
            for path, body in WRITES:
                expect(target, post(path, body, *marks), f'{kind} {path}')
        rounds += 1
        time.sleep(0.05)
    return f'{rounds} rounds'


def expect(target, request, what, wait=5):
    """A refusal: 403, or the protocol's own form of it, which names the setting."""
    status, answer = ask(target, request, wait=wait)
    own_form = status in (200, 400) and re.search(rb'cors\.origins|http\.hosts', bytes(answer or b''))
    if status not in (401, 403, 421) and not own_form:
        target.broke(f'{what} → {status or "no answer"}')


@attack(seconds=10, quick=2)
def rebinding(target):
    """DNS rebinding: a name of the attacker's that has become 127.0.0.1, in GET, POST and a WebSocket's handshake."""
    rounds, host = 0, f'evil.example:{target.port}'
    own = (('Origin', f'http://{host}'), ('Sec-Fetch-Site', 'same-origin'))
    socket_fields = (('Connection', 'Upgrade'), ('Upgrade', 'websocket'), ('Sec-WebSocket-Version', '13'), ('Sec-WebSocket-Key', 'AAAAAAAAAAAAAAAAAAAAAA=='))
    while not target.over():
        expect(target, post('/v2/models/identity/infer', INFER, JSON, *own, host=host), 'POST infer')
        expect(target, post('/v2/repository/models/simple/unload', b'', *own, host=host), 'POST unload')
        expect(target, get('/v2/models/simple', *own, host=host), 'GET /v2/models/simple')
        expect(target, get('/evergreen/v2/session', *own, *socket_fields, host=host), 'WebSocket')
        rounds += 1
        time.sleep(0.05)
    return f'{rounds} rounds'
