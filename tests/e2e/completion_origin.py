"""Origins of kind openai by hand: an HTTP/1.1 server whose completions are whatever a test says, and a relay that cuts
answers of a real one."""

import json
import socket

from listener import Listener

MODEL = 'm'


def head(status='200 OK', kind='text/event-stream', length=None, more=''):
    framing = f'Content-Length: {length}\r\n' if length is not None else 'Transfer-Encoding: chunked\r\n'
    return f'HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{framing}{more}\r\n'.encode()


def whole(body, status='200 OK', kind='application/json', more=''):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(status, kind, len(body), more) + body


def chunk(data):
    return f'{len(data):x}\r\n'.encode() + data + b'\r\n'


def event(data):
    return chunk(b'data: ' + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b'\n\n')


def delta(text='', ids=None, finish=None, **more):
    choice = {'index': 0, 'text': text, 'finish_reason': finish, **more}
    if ids is not None:
        choice['token_ids'] = ids
    return {'object': 'text_completion', 'choices': [choice]}


END = event(b'[DONE]') + b'0\r\n\r\n'


def said(*deltas):
    return head() + b''.join(map(event, deltas)) + END


def read_request(stream):
    """(method, path, fields, body), or None at the end."""
    line = stream.readline().split()
    if not line:
        return None
    fields = {}
    while (text := stream.readline().strip()):
        name, value = text.split(b':', 1)
        fields[name.decode().lower()] = value.strip().decode()
    return line[0].decode(), line[1].decode(), fields, stream.read(int(fields.get('content-length', 0)))


class Origin(Listener):
    """`behave(socket, fields, request)` answers completions."""

    def __init__(self, port=0):
        self.ready, self.health, self.seen = True, whole({}), []
        self.metrics, self.polls = '', 0
        self.models = {'data': [{'id': MODEL, 'max_model_len': 128}]}
        self.behave = self.good
        super().__init__(port)

    @staticmethod
    def good(sock, fields, request):
        sock.sendall(said(delta('ab', [97, 98]), delta('c', [99], 'length'), {'choices': [], 'usage': {
            'prompt_tokens': len(request['prompt']), 'completion_tokens': 3, 'prompt_tokens_details': {'cached_tokens': 1}}}))

    def serve(self, sock, stream):
        while (request := read_request(stream)):
            method, path, fields, body = request
            if path == '/health':
                sock.sendall(self.health if self.ready else whole({'error': 'loading'}, '503 Service Unavailable'))
            elif path == '/v1/models':
                sock.sendall(whole(self.models))
            elif path == '/metrics':
                self.polls += 1
                sock.sendall(whole(self.metrics.encode(), kind='text/plain'))
            else:
                self.seen.append((fields, json.loads(body)))
                self.behave(sock, fields, json.loads(body))


class Relay(Listener):
    """In front of a real origin. A completion's stream is cut behind `cut` events; 0: before its head; None: never."""

    def __init__(self, to):
        self.to, self.cut, self.completions = to, None, 0
        super().__init__()

    def serve(self, sock, stream):
        with socket.create_connection(('127.0.0.1', self.to)) as there, there.makefile('rb') as answer:
            self.sockets.append(there)
            while (request := read_request(stream)):
                method, path, fields, body = request
                text = f'{method} {path} HTTP/1.1\r\n' + ''.join(f'{n}: {v}\r\n' for n, v in fields.items()) + '\r\n'
                there.sendall(text.encode() + body)
                if method == 'POST':
                    self.completions += 1
                    self.pass_stream(there, sock)
                    continue
                lines = [answer.readline()]
                while lines[-1].strip():
                    lines.append(answer.readline())
                length = next(int(line.split(b':')[1]) for line in lines if line.lower().startswith(b'content-length'))
                sock.sendall(b''.join(lines) + answer.read(length))

    def pass_stream(self, there, sock):
        passed = b''
        while True:
            more = there.recv(1 << 16)
            if not more:
                raise ConnectionError
            passed += more
            if self.cut is not None and passed.count(b'data: ') >= self.cut:
                at = 0
                for _ in range(self.cut):
                    at = passed.index(b'\n\n', at) + 2 if b'\n\n' in passed[at:] else len(passed)
                sock.sendall(passed[:at][max(0, len(passed) - len(more)):])
                sock.shutdown(socket.SHUT_RDWR)
                raise ConnectionError
            sock.sendall(more)
            if passed.endswith(b'0\r\n\r\n'):
                return
