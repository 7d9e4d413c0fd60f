"""Models that another weir runs: kind weir. Real weirs on both sides, and origins and clients of its protocol that
misbehave."""

import json
import pathlib
import socket
import struct
import tempfile
import threading
import time
import unittest

import grpc

import forward_origin
import forward_text_test
import harness
import salience_client
from forward_origin import answer, block, grpc_message
from forward_test import until
from forward_text_test import JSON, MODEL, completion, counted, model_folder, tokenizer_folder
from h2_peer import DATA, END_HEADERS, HEADERS, frame
from harness import curl
from listener import Listener

pb, rpc = harness.stubs()('forward')
salience, salience_rpc = harness.stubs()('salience')
PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'


def gateway(origins, tokenizer, more='', name=MODEL):
    root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    (root / name).mkdir()
    tokens = f'tokenizer: {tokenizer}, ' if tokenizer else ''
    (root / name / 'model.yaml').write_text(
        f'engine: forward\nkind: weir\norigins: [{", ".join(origins)}]\n'
        f'parameters: {{{tokens}check_interval: 50ms{more}}}\n')
    return harness.Server(repository=root)


def ready(server):
    until(lambda: curl(server.url('/readyz')).status == 200, 'readiness')
    return server


class Text(forward_text_test.Text):
    """All that a model of kind openai does, and what only kind weir does."""

    @classmethod
    def setUpClass(cls):
        cls.root = model_folder()
        cls.origin = harness.Server(repository=cls.root)
        cls.server = ready(gateway([cls.origin.url()], cls.root / MODEL / '1'))

    def test_what_needs_the_model_is_refused_by_name(self):
        self.skipTest('nothing is refused')

    def test_log_probabilities_of_the_prompt(self):
        self.same_choices('/v1/completions', prompt='Once upon', max_tokens=6, temperature=0, prompt_logprobs=2, ignore_eos=True)
        self.same_choices('/v1/completions', prompt='Once upon', max_tokens=6, temperature=0, logprobs=2, echo=True, ignore_eos=True)

    def test_a_slow_reader_holds_the_origin(self):
        before = counted(self.origin, 'weir_model_generated_tokens_total')
        with socket.create_connection(('127.0.0.1', self.server.port)) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            body = json.dumps({'model': MODEL, 'prompt': 'Once', 'max_tokens': 200, 'ignore_eos': True, 'stream': True,
                               'temperature': 0}).encode()
            sock.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'
                         b'Content-Length: %d\r\n\r\n' % len(body) + body)
            self.assertTrue(sock.recv(100).startswith(b'HTTP/1.1 200'))
        # The client has left: its sequence ends at the origin, too.
        until(lambda: counted(self.origin, 'weir_model_running_sequences') == 0, 'the end of the sequence')
        self.assertGreater(counted(self.origin, 'weir_model_generated_tokens_total'), before)

    def test_a_deadline_goes_along(self):
        with grpc.insecure_channel(self.origin.address) as channel:
            stub = rpc.ForwardStub(channel)
            with self.assertRaises(grpc.RpcError) as raised:
                list(stub.Generate(pb.Sequence(model=MODEL, tokens=[1], params=pb.SequenceParams(max_tokens=200, ignore_eos=True)),
                                   timeout=0.001))
            self.assertEqual(grpc.StatusCode.DEADLINE_EXCEEDED, raised.exception.code())


class Tensors(unittest.TestCase):
    def test_models_of_tensors_are_asked_as_well(self):
        origin = ready(harness.Server(repository=harness.MODELS))
        self.addCleanup(origin.stop)
        server = ready(gateway([origin.url()], None, name='simple'))
        self.addCleanup(lambda: self.assertEqual(0, server.stop(), server.output()[-3000:]))
        body = {'inputs': [{'name': n, 'shape': [1, 16], 'datatype': 'INT32', 'data': list(range(16))} for n in ('INPUT0', 'INPUT1')]}
        there, here = (curl(s.url('/v2/models/simple/infer'), *JSON, data=json.dumps(body)) for s in (origin, server))
        self.assertEqual((200, 200), (there.status, here.status), here.body)
        self.assertEqual(there.json()['outputs'], here.json()['outputs'])


class Sessions(unittest.TestCase):
    """Salience in front of the demo model at another weir: sessions and readouts."""

    def test_sessions_and_readouts_are_those_of_the_origin(self):
        origin = ready(harness.Server(repository=harness.MODELS))
        self.addCleanup(origin.stop)
        server = ready(gateway([origin.url()], harness.MODELS / 'chat/1', name='chat'))
        self.addCleanup(lambda: self.assertEqual(0, server.stop(), server.output()[-3000:]))
        seen = []
        for where in (origin, server):
            with grpc.insecure_channel(where.address) as channel:
                stub = salience_rpc.SalienceStub(channel)
                manifest = stub.GetReadoutManifest(salience.GetReadoutManifestRequest())
                client = salience_client.Client(stub)
                prompt = salience_client.tokenizer().encode(salience_client.QUESTION)
                asked = [salience.PositionRange(start=2, end=5)] if manifest.concepts else []
                first = client.generate(prompt, 6, readout_ranges=asked, logprob_top_k=2,
                                        logprobs_ranges=[salience.PositionRange(start=0, end=99)])[0]
                second = client.generate(prompt[:4], 6)[1]
                seen.append((list(manifest.concepts), [(t.id, t.position, list(t.readout)) for t in first], second))
        self.assertEqual(seen[0], seen[1])


class Relay(Listener):
    """Passes bytes on to a port; cuts every connection that has brought `cut` bytes since it was set."""

    def __init__(self, to):
        self.to, self.cut = to, None
        super().__init__()

    def serve(self, sock, stream):
        there = socket.create_connection(('127.0.0.1', self.to))
        self.sockets.append(there)
        threading.Thread(target=self.copy, args=(sock, there, False), daemon=True).start()
        self.copy(there, sock, True)

    def copy(self, source, to, counts):
        passed = 0
        try:
            while (more := source.recv(4096)):
                if counts and self.cut is not None:
                    passed += len(more)
                    if passed > self.cut:
                        to.sendall(more[:len(more) // 2])
                        break
                to.sendall(more)
        except OSError:
            pass
        for sock in (source, to):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Moved(unittest.TestCase):
    """Two origins with the same weights, and one that dies in the middle of a text."""

    @classmethod
    def setUpClass(cls):
        cls.root = model_folder()
        cls.origin = harness.Server(repository=cls.root)
        cls.relay = Relay(cls.origin.port)
        cls.server = ready(gateway([cls.relay.url, cls.origin.url()], cls.root / MODEL / '1'))

    @classmethod
    def tearDownClass(cls):
        cls.relay.close()
        code = cls.server.stop()
        assert code == 0, cls.server.output()[-5000:]
        cls.origin.stop()

    def until_moved(self, ask, same):
        expected = ask(self.origin)
        before = counted(self.server, 'weir_model_moved_sequences_total')
        for cut in range(200):
            self.relay.cut = 600 + 37 * (cut % 40)
            got = ask(self.server)
            same(expected, got)
            if counted(self.server, 'weir_model_moved_sequences_total') > before:
                return got
        self.fail('no stream was moved')

    def ask(self, **request):
        def send(server):
            got = completion(server, max_tokens=200, **request)
            self.assertEqual(200, got.status, got.body)
            return got
        return send

    def same(self, expected, got):
        self.assertEqual(expected.json()['choices'], got.json()['choices'])
        self.assertEqual(expected.json()['usage']['completion_tokens'], got.json()['usage']['completion_tokens'])

    def test_a_text_goes_on_as_if_nothing_had_been_and_its_client_is_told(self):
        for request in ({'temperature': 0}, {'temperature': 1, 'seed': 7}, {'temperature': 0, 'guided_regex': '[a-f]{150}', 'ignore_eos': False}):
            with self.subTest(request=request):
                got = self.until_moved(self.ask(**request), self.same)
                self.assertIn('weir-moved', {k.lower() for k in got.headers})

    def test_the_last_chunk_of_a_stream_says_it(self):
        def ask(server):
            got = completion(server, max_tokens=200, stream=True)
            return [json.loads(line[6:]) for line in got.body.decode().splitlines() if line.startswith('data: {')]

        def same(expected, got):
            self.assertEqual(''.join(c['choices'][0]['text'] for c in expected), ''.join(c['choices'][0]['text'] for c in got))
        chunks = self.until_moved(ask, same)
        self.assertEqual([1], [c['choices'][0]['weir_moved'] for c in chunks if 'weir_moved' in c['choices'][0]])
        self.assertEqual('length', chunks[-1]['choices'][0]['finish_reason'])


class NativeConnection(forward_origin.Connection):
    def on_request(self, stream, head, body):
        if head[':path'].endswith('/DescribeModel'):
            return self.sock.sendall(answer(stream, grpc_message(self.origin.description)))
        self.origin.seen.append((head, pb.Sequence.FromString(body[5:])))
        self.origin.behave(self, stream, self.origin.seen[-1][1])


def token(i, position, **more):
    return pb.SequenceEvent(token=pb.TokenEvent(id=i, position=position, **more))


def done(**more):
    return pb.SequenceEvent(done=pb.Done(**{'completion_tokens': 3, 'finish': 3, **more}))


def told(*events):
    return b''.join(map(grpc_message, events))


def good(c, stream, request):
    at = len(request.tokens)
    c.sock.sendall(answer(stream, told(*[token(97 + i, at + i) for i in range(3)], done())))


class HostileOrigin(unittest.TestCase):
    """Each of these costs the call that met it, and nothing else."""

    @classmethod
    def setUpClass(cls):
        real, forward_origin.Connection = forward_origin.Connection, NativeConnection
        cls.addClassCleanup(setattr, forward_origin, 'Connection', real)
        cls.origin = forward_origin.Origin()
        cls.origin.description = pb.ModelDescription(version='1', makes_tokens=True, max_length=256, vocabulary=258, hidden_size=8)
        cls.origin.behave = good
        cls.server = ready(gateway([cls.origin.url], tokenizer_folder(), ', answer_timeout: 1s'))

    @classmethod
    def tearDownClass(cls):
        cls.origin.close()
        code = cls.server.stop()
        assert code == 0, f'weir ended with {code}:\n{cls.server.output()[-5000:]}'

    def fails(self, behave, status, words):
        before = self.server.rss()
        self.origin.behave = behave if callable(behave) else lambda c, stream, _: c.sock.sendall(answer(stream, behave))
        got = completion(self.server)
        self.assertEqual(status, got.status, got.body)
        self.assertIn(f'origin 127.0.0.1:{self.origin.port}: ', got.json()['error']['message'])
        self.assertIn(words, got.json()['error']['message'])
        self.origin.behave = good
        self.assertEqual('abc', completion(self.server).json()['choices'][0]['text'])
        self.assertLess(self.server.rss() - before, 48 << 20)

    def test_what_is_asked(self):
        curl(self.server.url('/v1/completions'), *JSON, '-H', f'traceparent: {PARENT}', '-H', 'tracestate: a=1,b=2', data=json.dumps({
            'model': MODEL, 'prompt': 'Once', 'temperature': 0.5, 'top_p': 0.25, 'seed': 3, 'stop_token_ids': [5], 'max_tokens': 9,
            'logprobs': 2, 'logit_bias': {'7': -1.5}}))
        head, request = self.origin.seen[-1]
        self.assertEqual(list(b'Once'), list(request.tokens))
        p = request.params
        self.assertEqual((0.5, 0.25, 3, 9, 2, [5]), (p.temperature, p.top_p, p.seed, p.max_tokens, p.top_logprobs, list(request.stop_ids)))
        self.assertEqual([(7, -1.5)], [(b.id, b.bias) for b in request.logit_bias])
        self.assertEqual(4, request.logprobs[0].start)
        self.assertRegex(head['weir-tenant'], r'^[0-9a-f]{16}$')
        self.assertEqual(PARENT[:35], head['traceparent'][:35])
        self.assertIn('a=1,b=2', head['tracestate'])

    def test_events_that_are_none(self):
        for bad in (b'\xff', b'\x0a\x7f', b'', b'\x0a\x02\x08', b'\x1a\x03\x0a\x01\x00', b'\x12\x02\x18\x63', b'\x0a\x04\x2a\x02\x80\x80'):
            with self.subTest(bad=bad):
                self.fails(grpc_message(bad), 500, 'no message of weir')

    def test_tokens_that_cannot_be(self):
        for bad, words in ((token(258, 4), 'outside of the vocabulary'), (token(2 ** 32 - 1, 4), 'outside of the vocabulary'),
                           (token(5, 1 << 31), 'position'), (token(5, 4, top_ids=[1]), 'log-probabilities'),
                           (token(5, 4, top_ids=[999], top_logprobs=[0]), 'alternative'), (token(5, 4, readout=[1, 2]), 'readout'),
                           (token(5, 9, prefill=True), 'out of order'),
                           (pb.SequenceEvent(embedding=pb.Embedding(values=[1] * 8)), 'in another way')):
            with self.subTest(words=words):
                self.fails(told(bad, done()), 500, words)

    def test_more_tokens_than_were_asked_for(self):
        self.fails(told(*[token(97, 4 + i) for i in range(30)], done()), 500, 'more tokens than the 24')
        self.fails(told(*[token(97, 4 + i) for i in range(3)], done(), done()), 500, 'behind the end')

    def test_a_call_that_ends_early(self):
        self.fails(told(token(97, 4)), 503, 'before the text had ended')
        self.fails(b'', 503, 'before the text had ended')

    def test_what_breaks_behind_the_end_of_a_text_takes_nothing_from_it(self):
        begun = frame(HEADERS, END_HEADERS, 1, block((':status', '200'), ('content-type', 'application/grpc')))
        for end in (lambda c: c.sock.shutdown(socket.SHUT_RDWR), lambda c: None):
            def behave(c, stream, request):
                at = len(request.tokens)
                sent = told(*[token(97 + i, at + i) for i in range(3)], done())
                c.sock.sendall(begun[:5] + stream.to_bytes(4, 'big') + begun[9:] + frame(DATA, 0, stream, sent))
                end(c)
            self.origin.behave = behave
            got = completion(self.server)
            self.assertEqual(200, got.status, got.body)
            self.assertEqual('abc', got.json()['choices'][0]['text'])
        self.origin.behave = good

    def test_lengths_that_lie(self):
        self.fails(b'\0\xff\xff\xff\xff' + bytes(100), 500, 'message')
        self.fails(b'\0\0\0\x10\0' + bytes(100), 500, 'inside a message')

    def test_silence_and_bytes_that_drip(self):
        self.fails(lambda *_: None, 504, 'has not answered within 1s')

        def drip(c, stream, _):
            c.sock.sendall(frame(HEADERS, END_HEADERS, stream, block((':status', '200'), ('content-type', 'application/grpc'))))
            try:
                for byte in told(token(97, 4)) * 100:
                    c.sock.sendall(frame(DATA, 0, stream, bytes([byte])))
                    time.sleep(0.1)
            except OSError:
                pass
        self.fails(drip, 504, 'has not answered within 1s')

    def test_descriptions_that_are_none(self):
        for description, words in ((b'\xff', 'cannot be read'), (pb.ModelDescription(makes_tokens=True), 'without a vocabulary'),
                                   (b'\x18\x01\x20\xff\xff\xff\xff\xff\x01', 'cannot be read')):
            origin = forward_origin.Origin()
            self.addCleanup(origin.close)
            origin.description = description
            server = gateway([origin.url], tokenizer_folder())
            self.addCleanup(server.stop)
            reason = until(lambda s=server: [row['reason'] for row in curl(s.url('/v2/repository/index'), data='').json()
                                             if row.get('reason')], 'a reason')[0]
            self.assertIn(words, reason)


class HostileClient(unittest.TestCase):
    """Whoever speaks the protocol without being a weir is refused by name, and costs nobody else anything."""

    @classmethod
    def setUpClass(cls):
        cls.server = ready(harness.Server(repository=model_folder()))
        cls.channel = grpc.insecure_channel(cls.server.address, [('grpc.max_send_message_length', 64 << 20)])
        cls.stub = rpc.ForwardStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        code = cls.server.stop()
        assert code == 0, f'weir ended with {code}:\n{cls.server.output()[-5000:]}'

    def ask(self, **request):
        request = {'model': MODEL, 'tokens': [79, 110], **request}
        request.setdefault('params', pb.SequenceParams(max_tokens=8, temperature=0, ignore_eos=True))
        return list(self.stub.Generate(pb.Sequence(**request), timeout=harness.PATIENCE))

    def refused(self, code, words, **request):
        with self.assertRaises(grpc.RpcError) as raised:
            self.ask(**request)
        self.assertEqual(code, raised.exception.code(), raised.exception.details())
        self.assertIn(words, raised.exception.details())
        self.assertEqual(9, len(self.ask()))

    INVALID, RANGE = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE

    def test_requests_that_are_none(self):
        many = [pb.PositionRange(start=2 * i, end=2 * i + 1) for i in range(1025)]
        P = pb.SequenceParams
        for code, words, request in (
                (grpc.StatusCode.NOT_FOUND, 'no such', {'model': 'no such'}), (self.INVALID, 'no tokens', {'tokens': []}),
                (self.INVALID, '', {'tokens': [100_000]}), (self.RANGE, '', {'tokens': [1] * 300}),
                (self.INVALID, 'tokens', {'tokens': [1] * ((1 << 20) + 1)}), (self.RANGE, 'max_tokens', {'params': P(max_tokens=4000)}),
                (self.INVALID, 'temperature', {'params': P(temperature=-1)}), (self.INVALID, 'temperature', {'params': P(temperature=float('nan'))}),
                (self.INVALID, 'top_logprobs', {'params': P(top_logprobs=9999)}), (self.INVALID, 'logit_bias', {'logit_bias': [pb.LogitBias(id=1, bias=float('nan'))]}),
                (self.INVALID, 'logit_bias', {'logit_bias': [pb.LogitBias(id=100_000)]}), (self.INVALID, 'too many', {'logprobs': many}),
                (self.INVALID, 'start <= end', {'readouts': [pb.PositionRange(start=3, end=1)]}),
                (grpc.StatusCode.FAILED_PRECONDITION, 'readouts', {'readouts': [pb.PositionRange(end=1)]}),
                (self.INVALID, 'stop_ids', {'stop_ids': list(range(65))}), (self.INVALID, 'form', {'form': pb.Form(kind=2, text='(')}),
                (self.INVALID, 'begun', {'form': pb.Form(kind=2, text='a', begun=7)}),
                (self.INVALID, 'does not have it', {'form': pb.Form(kind=2, text='zz', begun=2)}),
                (self.INVALID, 'at most', {'id': 'x' * (9 << 20)})):
            with self.subTest(words=words, request=str(request)[:60]):
                self.refused(code, words, **request)

    def test_bytes_that_are_no_message(self):
        raw = self.channel.unary_stream('/weir.forward.v1.Forward/Generate')
        for bad in (b'\xff', b'\x32\xff\xff\xff\x7f', b'\x3a\x05\x0d', b'\x6a\x02\x08\x63', b'\x28\x07'):
            with self.assertRaises(grpc.RpcError) as raised:
                list(raw(bad, timeout=harness.PATIENCE))
            self.assertEqual(self.INVALID, raised.exception.code(), raised.exception.details())
        self.assertEqual(9, len(self.ask()))

    def test_clients_that_leave_end_their_sequences(self):
        for _ in range(50):
            call = self.stub.Generate(pb.Sequence(model=MODEL, tokens=[1], params=pb.SequenceParams(max_tokens=200, ignore_eos=True)))
            next(call)
            call.cancel()
        until(lambda: counted(self.server, 'weir_model_running_sequences') == 0, 'the end of the sequences')
        self.assertEqual(9, len(self.ask()))


# Tests of the imported module are not these.
del forward_text_test.Text


if __name__ == '__main__':
    harness.main()
