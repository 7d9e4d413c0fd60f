"""An origin that misbehaves: an HTTP/2 server of the Open Inference Protocol, frame by frame, whose answers to ModelInfer
are whatever a test says."""

import struct

import harness
from h2_peer import (ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, field, frame, settings)
from hpack import Decoder
from listener import Listener

oip = harness.stubs()('inference')[0]
MODEL = 'x'


def grpc_message(message):
    payload = message if isinstance(message, bytes) else message.SerializeToString()
    return b'\0' + struct.pack('>I', len(payload)) + payload


def block(*pairs):
    return b''.join(field(name, value) for name, value in pairs)


OK_HEAD = ((':status', '200'), ('content-type', 'application/grpc'))


def answer(stream, body, head=OK_HEAD, trailers=(('grpc-status', '0'),)):
    """A whole answer: head, body in frames of 16 KiB, trailers."""
    out = frame(HEADERS, END_HEADERS, stream, block(*head))
    for at in range(0, len(body), 16384):
        out += frame(DATA, 0, stream, body[at:at + 16384])
    return out + frame(HEADERS, END_HEADERS | END_STREAM, stream, block(*trailers))


def doubled(request):
    """The right answer: y = x, as raw bytes."""
    response = oip.ModelInferResponse(model_name=MODEL, id=request.id)
    response.outputs.add(name='y', datatype='FP32', shape=request.inputs[0].shape)
    response.raw_output_contents.append(request.raw_input_contents[0])
    return response


class Connection:
    def __init__(self, origin, sock):
        self.origin, self.sock, self.rest, self.decoder = origin, sock, b'', Decoder()
        self.streams = {}

    def need(self, n):
        while len(self.rest) < n:
            more = self.sock.recv(65536)
            if not more:
                raise ConnectionError
            self.rest += more
        taken, self.rest = self.rest[:n], self.rest[n:]
        return taken

    def run(self):
        try:
            self.need(len(PREFACE))
            self.sock.sendall(settings())
            while True:
                head = self.need(9)
                payload = self.need(int.from_bytes(head[:3], 'big'))
                self.on_frame(head[3], head[4], int.from_bytes(head[5:], 'big'), payload)
        except OSError:
            self.sock.close()

    def on_frame(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            self.sock.sendall(frame(SETTINGS, ACK))
        elif kind == PING and not flags & ACK:
            self.sock.sendall(frame(PING, ACK, 0, payload))
        elif kind == HEADERS:
            self.streams[stream] = (dict(self.decoder.decode(payload)), b'')
        elif kind == DATA:
            head, body = self.streams[stream]
            self.streams[stream] = (head, body + payload)
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self.on_request(stream, *self.streams.pop(stream))

    def on_request(self, stream, head, body):
        method = head[':path'].rsplit('/', 1)[1]
        if method == 'ModelReady':
            reply = oip.ModelReadyResponse(ready=self.origin.ready)
        elif method == 'ModelMetadata':
            reply = oip.ModelMetadataResponse(name=MODEL, versions=['1'], platform='by_hand')
            reply.inputs.add(name='x', datatype='FP32', shape=[-1])
            reply.outputs.add(name='y', datatype='FP32', shape=[-1])
        elif method == 'ModelConfig':
            return self.sock.sendall(answer(stream, b'', trailers=(('grpc-status', '12'),)))
        else:
            self.origin.seen.append(head)
            return self.origin.behave(self, stream, oip.ModelInferRequest.FromString(body[5:]))
        self.sock.sendall(answer(stream, grpc_message(reply)))


class Origin(Listener):
    """`behave(connection, stream, request)` answers ModelInfer."""

    def __init__(self, port=0):
        self.ready, self.seen = True, []
        self.behave = lambda c, stream, request: c.sock.sendall(answer(stream, grpc_message(doubled(request))))
        super().__init__(port)

    def serve(self, sock, stream):
        Connection(self, sock).run()
