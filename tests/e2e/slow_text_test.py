"""ExchangeListeners of text that stop reading: the sequence waits with its keys and values, little is kept for them, others notice
nothing, and what they read in the end is whole. Those that never go on are ended."""

import json
import re
import socket
import struct
import time

import harness
from evergreen_client import action, cfg, ev_grpc, leaf
from harness import curl
from tiny_model import CONFIG, HIDDEN, TOKENIZER, packed, varied, write

import grpc  # noqa: E402

oip, oip_grpc = harness.stubs()('inference')
pb, rpc = harness.stubs()('salience')

CONCEPTS, CONTEXT, PROMPT = 400, 8192, 'ab ba '
# Without an end token, so that every answer has the length that was asked for; each token can carry much with it.
FILES = {'config.json': {**CONFIG, 'eos_token_id': None, 'max_position_embeddings': CONTEXT}, 'model.safetensors': varied(),
         'tokenizer.json': {**TOKENIZER, 'added_tokens': TOKENIZER['added_tokens'][1:]},
         'readout.json': {'concepts': [f'concept {i}' for i in range(CONCEPTS)], 'layers': [0]},
         'readout.safetensors': packed({'readout': {'dtype': 'F32', 'shape': [1, CONCEPTS, HIDDEN], 'data_offsets': [0, 4 * CONCEPTS * HIDDEN]}},
                                       struct.pack('<f', 0.1) * (CONCEPTS * HIDDEN))}


class Sse:
    """A raw connection with a small window, that asks for a stream of events."""

    def __init__(self, server, path, fields):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(harness.PATIENCE)
        self.socket.connect(('127.0.0.1', server.port))
        data = json.dumps(fields).encode()
        self.socket.sendall(f'POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n'.encode() + data)
        self.got = bytearray(self.socket.recv(1000))

    def rest(self):
        while piece := self.socket.recv(1 << 20):
            self.got += piece
        head, _, body = self.got.partition(b'\r\n\r\n')
        assert b' 200 ' in head, self.got[:500]
        assert b'chunked' not in head.lower() or body.endswith(b'\r\n0\r\n\r\n'), 'cut off'
        events = re.findall(rb'(?m)^data: (\{.*\})\r?$', body)
        return ''.join(self.text(json.loads(e)) for e in events)

    def ended(self):
        try:
            while self.socket.recv(1 << 20):
                pass
        except ConnectionError:
            pass

    def close(self):
        self.socket.close()

    @staticmethod
    def text(event):
        if 'choices' not in event:
            return event.get('text_output', '')
        return ''.join(c.get('text') or (c.get('delta') or {}).get('content') or '' for c in event['choices'])


class Rpc:
    """A call whose messages are asked for one by one; what is not asked for stays behind HTTP/2's window."""

    def __init__(self, server, call, text):
        options = [('grpc.http2.bdp_probe', 0), ('grpc.http2.lookahead_bytes', 1024), ('grpc.use_local_subchannel_pool', 1),
                   ('grpc.max_receive_message_length', 1 << 20)]
        self.channel = grpc.insecure_channel(server.address, options)
        self.call, self.text = call(self.channel), text
        self.got = self.text(next(self.call))

    def rest(self):
        return self.got + ''.join(map(self.text, self.call))

    def ended(self):
        try:
            for _ in self.call:
                pass
        except grpc.RpcError as error:
            assert error.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE), error

    def close(self):
        self.call.cancel()
        self.channel.close()


def chat(server, n):
    return Sse(server, '/v1/chat/completions', {'model': 'tiny', 'stream': True, 'max_tokens': n, 'seed': 1, 'readouts': True,
                                                'messages': [{'role': 'user', 'content': PROMPT}]})


def completions(server, n):
    return Sse(server, '/v1/completions', {'model': 'tiny', 'stream': True, 'max_tokens': n, 'seed': 2, 'readouts': True, 'prompt': PROMPT})


def generate_stream(server, n):
    return Sse(server, '/v2/models/echo/generate_stream', {'text_input': PROMPT, 'max_tokens': 8 * n, 'details': True})


class Salience(Rpc):
    def __init__(self, server, n):
        def call(channel):
            request = pb.GenerateRequest(session_id=self.session, append_tokens=PROMPT.encode(), max_tokens=n, top_k=1)
            request.readout_ranges.add(start=0, end=CONTEXT)
            return rpc.SalienceStub(channel).Generate(request)
        self.lasting = grpc.insecure_channel(server.address, [('grpc.use_local_subchannel_pool', 1)])
        self.stub = rpc.SalienceStub(self.lasting)
        self.session = self.stub.OpenSession(pb.OpenSessionRequest(model='tiny'), timeout=harness.PATIENCE).session_id
        super().__init__(server, call, lambda e: f'{e.token.position}:{e.token.id} ' if e.HasField('token') else f'{e.done}')

    def close(self):
        super().close()
        with self.lasting:  # what the client has left goes on being the session's until the engine has let go
            self.stub.CloseSession(pb.CloseSessionRequest(session_id=self.session), timeout=harness.PATIENCE)


def salience(server, n):
    return Salience(server, n)


def model_stream(server, n):
    def call(channel):
        request = oip.ModelInferRequest(model_name='echo')
        request.inputs.add(name='text_input', datatype='BYTES', shape=[1]).contents.bytes_contents.append(PROMPT.encode())
        request.inputs.add(name='stream', datatype='BOOL', shape=[1]).contents.bool_contents.append(True)
        request.parameters['max_tokens'].int64_param = 16 * n
        return oip_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]))

    def text(message):
        assert not message.error_message, message
        return message.infer_response.raw_output_contents[0][4:].decode()
    return Rpc(server, call, text)


def evergreen(server, n):
    def call(channel):
        request = cfg.GenerateConfig(max_tokens=n // 5, seed=3, raw=True, ignore_eos=True, readouts=True)
        asked = [leaf('p', PROMPT), action('GENERATE', {'prompt': 'p'}, {'response': 'r'}, 'tiny', request)]
        return ev_grpc.EvergreenServiceStub(channel).StartSession(iter(asked))
    return Rpc(server, call, lambda m: ''.join(f.chunk_fragment.data.decode() for f in m.node_fragments))


READERS = (chat, completions, generate_stream, salience, model_stream, evergreen)
MOST = 3000  # steps of the tiny model; of each kind several times what is kept for a reader


class SlowText(harness.Case):
    serve = ('--shards', '2')

    @classmethod
    def setUpClass(cls):
        cls.repository = harness.scratch() / 'slow_text'
        parameters = 'kv_cache: 64MiB, threads: 1, max_running: 16'
        write(cls.repository, 'tiny', FILES, parameters)
        (cls.repository / 'echo').mkdir()
        (cls.repository / 'echo/model.yaml').write_text('engine: echo\nparameters: {kv_cache: 64MiB, max_length: 200000}\n')
        super().setUpClass()

    def gauge(self, pattern):
        return [float(n) for n in re.findall(rf'(?m)^{pattern} (\S+)$', curl(self.server.url('/metrics')).body.decode())]

    def made(self):
        return sum(self.gauge(r'weir_model_generated_tokens_total\{.*\}'))

    def held(self):
        return self.gauge(r'weir_model_sequences\{.*\}') + self.gauge(r'weir_model_kv_blocks\{.*state="used"\}')

    def wait(self, what, patience=harness.PATIENCE):
        end = time.monotonic() + patience
        while not what():
            self.assertLess(time.monotonic(), end, f'{self.held()}')
            time.sleep(0.05)

    def wait_until_held(self):
        """No more tokens are made though they are wanted."""
        seen = [self.made()]

        def still():
            time.sleep(0.05)
            seen.append(self.made())
            return len(seen) > 8 and len(set(seen[-8:])) == 1
        self.wait(still)
        return seen[-1]

    def other(self):
        body = {'model': 'tiny', 'prompt': 'xyz', 'max_tokens': 200, 'seed': 5}
        answer = curl(self.server.url('/v1/completions'), data=json.dumps(body))
        self.assertEqual(200, answer.status, answer.body)
        return answer.json()['choices'][0]['text']

    def read_at_once(self, reader):
        quick = reader(self.server, MOST)
        text = quick.rest()
        quick.close()
        return text

    def test_a_reader_that_pauses_gets_it_all(self):
        other = self.other()
        for reader in READERS:
            with self.subTest(reader.__name__):
                want = self.read_at_once(reader)
                self.wait(lambda: not any(self.held()))
                before, memory = self.made(), self.server.rss()
                slow = reader(self.server, MOST)
                made = self.wait_until_held() - before
                used = self.gauge(r'weir_model_kv_blocks\{.*state="used"\}')
                self.assertEqual(1, sum(self.gauge(r'weir_model_sequences\{.*state="running"\}')))
                self.assertGreaterEqual(sum(used), made // 16)  # its keys and values
                self.assertEqual(other, self.other())
                self.assertLess(self.server.rss() - memory, (100 if harness.SANITIZED else 24) << 20)
                self.assertEqual(want, slow.rest())
                total = self.made() - before - 200
                self.assertGreater(total, made, 'it was never held')
                slow.close()
                self.wait(lambda: not any(self.held()))

    def test_readers_that_hang_up_while_they_are_held_leave_nothing(self):
        for reader in READERS:
            with self.subTest(reader.__name__):
                slow = reader(self.server, MOST)
                self.wait_until_held()
                self.assertEqual(1, sum(self.gauge(r'weir_model_sequences\{.*state="running"\}')))
                slow.close()
                self.wait(lambda: not any(self.held()))

    def test_readers_that_never_go_on_are_ended(self):
        slow = [reader(self.server, MOST) for reader in READERS]
        self.wait_until_held()
        self.assertEqual(len(READERS), sum(self.gauge(r'weir_model_sequences\{.*state="running"\}')))
        begun = time.monotonic()
        other = self.other()
        # Ten seconds of grace, perhaps begun just before, a look a second, and 30 s for what a reader has taken before.
        self.wait(lambda: self.other() == other and not any(self.gauge(r'weir_model_sequences\{.*\}')), 55 + harness.PATIENCE)
        self.assertGreater(time.monotonic() - begun, 5)
        for reader in slow:
            reader.ended()
            reader.close()
        self.wait(lambda: not any(self.held()))
        rejects = curl(self.server.url('/metrics')).body.decode()
        self.assertGreaterEqual(float(re.search(r'weir_rejects_total\{reason="slow_read"\} (\d+)', rejects)[1]), len(READERS))


if __name__ == '__main__':
    harness.main()
