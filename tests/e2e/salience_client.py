"""A client of Salience in Python grpcio, with stubs made here: its own list of tokens, and the server's checked against it."""

import http.client
import json
import re
import sys

import harness

sys.path.insert(0, str(harness.MODELS / 'chat'))
import bpe  # noqa: E402 (the demo model's own tokenizer)

pb, rpc = harness.stubs()('salience')
status_pb, _ = harness.stubs()('status')

CHAT = harness.MODELS / 'chat/1'
DATA = harness.ROOT / 'tests/data/chat'
START, PAD, END, PADS = 3069, 3070, 3071, 16
EOS = 3068
QUESTION = '<|im_start|>user\nWhat is curl?<|im_end|>\n<|im_start|>assistant\n'


def tokenizer():
    """The demo model's, from its tokenizer.json."""
    merges = json.loads((CHAT / 'tokenizer.json').read_text())['model']['merges']
    return bpe.Tokenizer([tuple(m.split(' ')) if isinstance(m, str) else tuple(m) for m in merges])


def info(error):
    """The google.rpc.ErrorInfo of a grpc.RpcError: (reason, metadata)."""
    details = dict(error.trailing_metadata())['grpc-status-details-bin']
    any_ = status_pb.Status.FromString(details).details[0]
    it = status_pb.ErrorInfo()
    any_.Unpack(it)
    return it.reason, dict(it.metadata)


class Client:
    """What a client of Salience is: its own list of tokens, and the server's checked against it at every step."""

    def __init__(self, stub, session=None, tokens=()):
        self.stub = stub
        self.session = session or stub.OpenSession(pb.OpenSessionRequest(model='chat')).session_id
        self.tokens = list(tokens)

    def generate(self, append=(), max_tokens=0, offset=None, top_k=1, **params):
        offset = len(self.tokens) if offset is None else offset
        request = pb.GenerateRequest(session_id=self.session, append_tokens=append, offset=offset, max_tokens=max_tokens,
                                     truncating=offset < len(self.tokens), top_k=top_k, **params)
        *tokens, last = [getattr(e, e.WhichOneof('event')) for e in self.stub.Generate(request, timeout=harness.PATIENCE)]
        made = [t.id for t in tokens if not t.is_prefill]
        self.tokens = self.tokens[:offset] + list(append) + made
        assert last.total_tokens == len(self.tokens) and last.completion_tokens == len(made), last
        assert [t.position for t in tokens] == sorted(t.position for t in tokens)
        return tokens, made, last

    def fork(self, at):
        answer = self.stub.ForkSession(pb.ForkSessionRequest(session_id=self.session, at_position=at))
        return Client(self.stub, answer.session_id, self.tokens[:at])

    def dump(self):
        return list(self.stub.DumpSession(pb.DumpSessionRequest(session_id=self.session)).tokens)

    def close(self):
        self.stub.CloseSession(pb.CloseSessionRequest(session_id=self.session))


def metric(server, name, *labels):
    """The sum of a metric's samples that have all these labels."""
    connection = http.client.HTTPConnection(server.address, timeout=harness.PATIENCE)
    connection.request('GET', '/metrics')
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    found = [float(line.rsplit(' ', 1)[1]) for line in lines
             if re.match(re.escape(name) + r'[{ ]', line) and all(label in line for label in labels)]
    assert found, name
    return sum(found)
