"""Origins of kind openai with embeddings and rankings by hand: HTTP/1.1 servers that answer as a test says."""

import base64
import json
import struct

from completion_origin import read_request, whole
from listener import Listener

WIDTH = 4


def vector(text):
    """Of a text or of token ids; of length one."""
    values = [float(len(text)), float(sum(text if isinstance(text, list) else text.encode()) % 97) + 1, 1.0, 2.0]
    length = sum(v * v for v in values) ** 0.5
    return [v / length for v in values]


def coded(values):
    return base64.b64encode(struct.pack(f'<{len(values)}f', *values)).decode()


def embeddings(request, order=None, tokens=None):
    """An answer to it, as OpenAI has it."""
    texts = request['input'] if isinstance(request['input'], list) else [request['input']]
    form = coded if request.get('encoding_format') == 'base64' else list
    rows = [{'object': 'embedding', 'index': i, 'embedding': form(vector(text))} for i, text in enumerate(texts)]
    count = len(texts) * 3 if tokens is None else tokens
    return {'object': 'list', 'data': rows if order is None else [rows[i] for i in order], 'model': request['model'],
            'usage': {'prompt_tokens': count, 'total_tokens': count}}


def score(query, text):
    return (len(text) * 7 + len(query)) % 13 / 13


def ranking(query, texts, key='relevance_score'):
    return sorted(({'index': i, key: score(query, text)} for i, text in enumerate(texts)), key=lambda row: -row[key])


class RowsOrigin(Listener):
    """`behave(sock, path, request)` answers what is no question of health or models, with bytes or JSON, or by itself."""

    def __init__(self, behave, model='m', port=0):
        self.behave, self.model, self.seen, self.fields = behave, model, [], []
        super().__init__(port)

    def serve(self, sock, stream):
        while (request := read_request(stream)):
            _, path, fields, body = request
            if path == '/health':
                answer = whole({})
            elif path.endswith('/v1/models'):
                answer = whole({'object': 'list', 'data': [{'id': self.model, 'object': 'model', 'owned_by': 'me'}]})
            else:
                asked = json.loads(body)
                self.seen.append((path, asked))
                self.fields.append(fields)
                answer = self.behave(sock, path, asked)
            if answer is None:
                return
            sock.sendall(answer if isinstance(answer, bytes) else whole(answer))
