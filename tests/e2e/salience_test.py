"""Salience as its clients see it: python grpcio, curl over JSON, on the demo model."""

import base64
import json
import struct
import time
import unittest

import grpc
import harness
from harness import curl
from salience_client import DATA, END, EOS, PAD, PADS, QUESTION, START, Client, info, metric, pb, rpc, tokenizer


class Salience(harness.Case):
    serve = ('--shards', '2')

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Several connections, so that sessions are reached from other shards than their own.
        cls.channels = [grpc.insecure_channel(cls.server.address, options=[('grpc.use_local_subchannel_pool', 1)])
                        for _ in range(6)]
        cls.stubs = [rpc.SalienceStub(c) for c in cls.channels]
        cls.stub = cls.stubs[0]
        cls.text = tokenizer()

    @classmethod
    def tearDownClass(cls):
        for channel in cls.channels:
            channel.close()
        super().tearDownClass()

    def fails(self, code, call, *args, **more):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, **more)
        self.assertEqual(code, caught.exception.code(), caught.exception.details())
        return caught.exception

    def ids(self, text):
        return list(self.text.encode(text))

    # --- conversations
    def test_a_conversation_goes_on_by_what_is_new(self):
        client = Client(self.stub)
        _, first, done = client.generate(self.ids(QUESTION), 40)
        self.assertEqual(len(self.ids(QUESTION)), done.prompt_tokens)
        self.assertGreater(len(self.text.decode([t for t in first if t < 3066])), 10)
        more = self.ids('\n<|im_start|>user\nWhich section is it in?<|im_end|>\n<|im_start|>assistant\n')
        _, second, _ = client.generate(more, 20)
        self.assertEqual(client.tokens, client.dump())
        whole = Client(self.stub)
        _, cold, _ = whole.generate(client.tokens[:-len(second)], 20)
        self.assertEqual(second, cold)
        for c in (client, whole):
            c.close()

    def test_the_end_of_what_the_model_says_is_sent_and_kept(self):
        client = Client(self.stub)
        _, made, done = client.generate(self.ids(QUESTION), 400)
        self.assertEqual(pb.GenerateDone.FINISH_REASON_EOS, done.finish_reason)
        self.assertEqual(EOS, made[-1])
        stop = made[2]
        _, again, done = client.generate([], 400, offset=done.prompt_tokens, stop_token_ids=[stop])
        self.assertEqual((made[:made.index(stop) + 1], pb.GenerateDone.FINISH_REASON_EOS), (again, done.finish_reason))
        client.close()

    def test_forks_and_rewinds_say_what_a_fresh_session_says(self):
        root = Client(self.stub)
        prompt = self.ids(QUESTION)
        _, said, _ = root.generate(prompt, 24)
        children = [root.fork(at) for at in (0, 5, len(prompt), len(prompt) + 7)]
        for client, stub in zip(children, self.stubs[1:]):
            client.stub = stub
            at = len(client.tokens)
            rest = (prompt + said)[at:len(prompt)] if at < len(prompt) else []
            _, made, _ = client.generate(rest, 24 - max(0, at - len(prompt)))
            self.assertEqual(prompt + said, client.tokens)
            self.assertEqual(client.tokens, client.dump())
        _, again, _ = root.generate(prompt[9:], 24, offset=9)
        self.assertEqual(said, again)
        other = self.ids('<|im_start|>user\nWhat is zlib?<|im_end|>\n<|im_start|>assistant\n')
        _, changed, _ = root.generate(other, 24, offset=0)
        _, cold, _ = children[0].generate(other, 24, offset=0)
        self.assertEqual(cold, changed)
        for client in (root, *children):
            client.close()

    def test_many_sessions_at_once_say_what_each_says_alone(self):
        names = ('bash', 'vim', 'gcc', 'python3', 'nginx', 'git', 'perl', 'tar', 'gzip', 'sed', 'awk', 'less')
        prompts = [self.ids(f'<|im_start|>user\nWhat is {n}?<|im_end|>\n<|im_start|>assistant\n') for n in names]

        def say(i):
            client = Client(self.stubs[i % len(self.stubs)])
            made = client.generate(prompts[i], 40)[1]
            client.close()
            return made

        alone = [say(i) for i in range(len(prompts))]
        together = [None] * len(prompts)

        def work(i):
            together[i] = say(i)

        with harness.threads(len(prompts), work):
            pass
        self.assertEqual(alone, together)

    # --- drift
    def test_drift_is_refused_with_the_servers_length(self):
        client = Client(self.stub)
        client.generate(self.ids(QUESTION))
        length = len(client.tokens)
        for stub in self.stubs:
            for offset, truncating in ((length - 1, False), (length + 1, False), (length + 1, True)):
                request = pb.GenerateRequest(session_id=client.session, offset=offset, truncating=truncating, append_tokens=[1])
                error = self.fails(grpc.StatusCode.FAILED_PRECONDITION, lambda r: list(stub.Generate(r)), request)
                self.assertEqual(('OFFSET_MISMATCH', {'length': str(length)}), info(error))
        self.assertEqual(client.tokens, client.dump())
        client.close()
        self.fails(grpc.StatusCode.NOT_FOUND, client.dump)
        client.close()

    def test_a_cancelled_generate_leaves_what_the_next_error_says(self):
        client = Client(self.stub)
        prompt = self.ids(QUESTION)
        call = self.stub.Generate(pb.GenerateRequest(session_id=client.session, append_tokens=prompt, max_tokens=1900, top_k=1))
        seen = [next(call).token.id for _ in range(3)]
        call.cancel()
        for _ in range(1000):  # until the engine has let go of it
            try:
                list(self.stub.Generate(pb.GenerateRequest(session_id=client.session, offset=2047)))
                self.fail('drift was not noticed')
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.ABORTED:
                    continue
                self.assertEqual(grpc.StatusCode.FAILED_PRECONDITION, error.code())
                length = int(info(error)[1]['length'])
                break
        tokens = client.dump()
        self.assertEqual(length, len(tokens))
        self.assertEqual(prompt + seen, tokens[:len(prompt) + 3])
        client.close()

    def test_a_session_that_is_used_by_two_at_once_is_busy(self):
        client = Client(self.stub)
        # Megabytes of answers that nobody reads: it goes on until somebody does.
        request = pb.GenerateRequest(session_id=client.session, append_tokens=[1] * 2000, logprob_top_k=128,
                                     logprobs_ranges=[pb.PositionRange(start=0, end=2048)])
        call = self.stub.Generate(request)
        next(call)
        self.fails(grpc.StatusCode.ABORTED, lambda: list(self.stubs[1].Generate(request)))
        client.close()  # ends it
        self.fails(grpc.StatusCode.ABORTED, lambda: list(call))

    # --- looking inside
    def manifest(self):
        manifest = self.stub.GetReadoutManifest(pb.GetReadoutManifestRequest())
        if not manifest.concepts:
            self.skipTest('the demo model has no readouts')
        return manifest

    def test_the_manifest_names_what_readouts_hold(self):
        manifest = self.manifest()
        self.assertGreaterEqual(len(manifest.concepts), 2)
        self.assertGreaterEqual(len(manifest.layers), 1)
        self.assertEqual(256, manifest.hidden_size)
        self.assertTrue(manifest.dtype)

    def test_readouts_come_where_they_were_asked_for(self):
        manifest = self.manifest()
        size = len(manifest.concepts) * len(manifest.layers)
        prompt = self.ids(QUESTION)
        asked = [pb.PositionRange(start=2, end=5), pb.PositionRange(start=len(prompt) + 1, end=len(prompt) + 3)]
        client = Client(self.stub)
        tokens, made, _ = client.generate(prompt, 6, readout_ranges=asked)
        self.assertEqual([2, 3, 4] + [len(prompt) + i for i in range(6)], [t.position for t in tokens])
        where = {t.position: list(t.readout) for t in tokens if t.readout}
        self.assertEqual({2, 3, 4, len(prompt) + 1, len(prompt) + 2}, set(where))
        self.assertEqual({size}, {len(r) for r in where.values()})
        # The same positions once more: of the history now, without a new token.
        again, _, done = client.generate([], 0, readout_ranges=asked)
        self.assertEqual(0, done.completion_tokens)
        self.assertTrue(all(t.is_prefill for t in again))
        for t in again:
            for a, b in zip(where[t.position], t.readout):
                self.assertAlmostEqual(a, b, delta=0.05 + 0.05 * abs(a))
        self.assertEqual(set(where), {t.position for t in again})
        client.close()

    def test_logprobs_are_those_of_the_tokens_that_came(self):
        prompt = self.ids(QUESTION)
        client = Client(self.stub)
        everywhere = [pb.PositionRange(start=0, end=4096)]
        tokens, made, _ = client.generate(prompt, 8, logprobs_ranges=everywhere, logprob_top_k=5)
        self.assertEqual(list(range(len(prompt) + len(made))), [t.position for t in tokens])
        self.assertFalse(tokens[0].has_sampled_logprob)
        for t in tokens[1:]:
            self.assertTrue(t.has_sampled_logprob and t.sampled_logprob <= 0)
            best = [top.logprob for top in t.logprobs]
            self.assertEqual((5, sorted(best, reverse=True)), (len(best), best))
            if not t.is_prefill:  # greedy
                self.assertEqual(t.id, t.logprobs[0].id)
                self.assertAlmostEqual(t.sampled_logprob, best[0], places=4)
        scored, _, _ = client.generate([], 0, logprobs_ranges=everywhere)
        for a, b in zip(tokens[1:], scored[1:]):
            self.assertAlmostEqual(a.sampled_logprob, b.sampled_logprob, delta=0.1 + 0.05 * abs(a.sampled_logprob))
            self.assertFalse(b.logprobs)
        client.close()

    # --- images
    def digit(self, digit):
        before, after = self.ids('<|im_start|>user\n'), self.ids('What digit is this?<|im_end|>\n<|im_start|>assistant\n')
        image = pb.ImageAttachment(bytes=(DATA / f'digit_{digit}.png').read_bytes(), mime='image/png',
                                   pad_range_start=len(before), pad_range_end=len(before) + PADS + 2)
        return before + [START] + [PAD] * PADS + [END] + after, image

    def test_the_model_reads_a_digit(self):
        read = []
        for digit, word in ((2, 'two'), (7, 'seven')):
            tokens, image = self.digit(digit)
            client = Client(self.stub)
            _, made, _ = client.generate(tokens, 20, images=[image])
            said = self.text.decode([t for t in made if t < 3066])
            self.assertRegex(said, r'[a-z]+')
            read.append(word in said or str(digit) in said)
            inside = image.pad_range_start + 4
            cut = pb.GenerateRequest(session_id=client.session, offset=inside, truncating=True)
            error = self.fails(grpc.StatusCode.FAILED_PRECONDITION, lambda: list(self.stub.Generate(cut)))
            self.assertEqual('IMAGE_SPLIT', info(error)[0])
            self.fails(grpc.StatusCode.FAILED_PRECONDITION, client.fork, inside)
            child = client.fork(image.pad_range_end)  # the image comes along
            _, again, _ = child.generate(tokens[image.pad_range_end:], 20)
            self.assertEqual(made, again)
            client.close()
            child.close()
        # A model with readouts is the whole one, which has learned its digits.
        if self.stub.GetReadoutManifest(pb.GetReadoutManifestRequest()).concepts:
            self.assertTrue(any(read))

    def test_an_image_whose_pads_are_wrong_is_refused(self):
        tokens, image = self.digit(7)
        session = self.stub.OpenSession(pb.OpenSessionRequest()).session_id

        def refused(append, *images):
            request = pb.GenerateRequest(session_id=session, append_tokens=append, images=images)
            return self.fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: list(self.stub.Generate(request)))

        at = image.pad_range_start
        short = tokens[:at + 1] + tokens[at + 2:]
        image.pad_range_end -= 1
        self.assertEqual(('IMAGE_PADS', {'expected': '16', 'given': '15'}), info(refused(short, image)))
        image.pad_range_end += 1
        self.assertIn('outside of every declared block', refused(tokens).details())
        image.bytes = image.bytes[:20]
        refused(tokens, image)
        self.assertEqual(0, len(self.stub.DumpSession(pb.DumpSessionRequest(session_id=session)).tokens))

    # --- bad input
    def test_numbers_out_of_range_are_named(self):
        session = self.stub.OpenSession(pb.OpenSessionRequest()).session_id
        for word, params in (('temperature', {'temperature': float('nan')}), ('temperature', {'temperature': -1}),
                           ('top_p', {'top_p': 1.01}), ('priority', {'priority': 11}), ('priority', {'priority': -2**31}),
                           ('logprob_top_k', {'logprob_top_k': 2**32 - 1}), ('append_tokens', {'append_tokens': [2**31]}),
                           ('stop_token_ids', {'stop_token_ids': [2**32 - 1]}),
                           ('readout_ranges', {'readout_ranges': [pb.PositionRange(start=3, end=2)]})):
            request = pb.GenerateRequest(**{'session_id': session, 'append_tokens': [1], 'max_tokens': 1, **params})
            error = self.fails(grpc.StatusCode.INVALID_ARGUMENT, lambda r: list(self.stub.Generate(r)), request)
            self.assertTrue(error.details().startswith(word), error.details())
        full = pb.GenerateRequest(session_id=session, append_tokens=[1] * 2049)
        self.fails(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: list(self.stub.Generate(full)))
        self.fails(grpc.StatusCode.NOT_FOUND, self.stub.OpenSession, pb.OpenSessionRequest(model='chatt'))
        self.fails(grpc.StatusCode.FAILED_PRECONDITION, self.stub.OpenSession, pb.OpenSessionRequest(model='identity'))

    # --- the other forms
    def test_json_and_grpc_web_are_the_same_service(self):
        def post(method, body, *more):
            return curl(self.server.url('/salience.v1.Salience/' + method), '-H', 'content-type: application/json', *more,
                        data=json.dumps(body))

        session = post('OpenSession', {'model': 'chat'}).json()['session_id']
        answer = post('Generate', {'session_id': session, 'append_tokens': self.ids(QUESTION), 'max_tokens': 3, 'top_k': 1})
        events = [json.loads(line) for line in answer.body.splitlines()]
        self.assertEqual(['token', 'token', 'token', 'done'], [next(iter(e)) for e in events])
        drift = post('Generate', {'session_id': session})
        self.assertEqual(400, drift.status)
        self.assertEqual('OFFSET_MISMATCH', drift.json()['details'][0]['reason'])
        message = pb.DumpSessionRequest(session_id=session).SerializeToString()
        web = curl(self.server.url('/salience.v1.Salience/DumpSession'), '-H', 'content-type: application/grpc-web-text',
                   data=base64.b64encode(b'\0' + struct.pack('>I', len(message)) + message))
        body = base64.b64decode(web.body)
        size = struct.unpack('>I', body[1:5])[0]
        self.assertEqual(self.ids(QUESTION), list(pb.DumpSessionResponse.FromString(body[5:5 + size]).tokens)[:-3])


class Kept(unittest.TestCase):
    """What the settings say about sessions and about who may come."""

    def test_sessions_end_when_nobody_uses_them(self):
        server = harness.Server('--sessions-idle', '300ms')
        with grpc.insecure_channel(server.address) as channel:
            client = Client(rpc.SalienceStub(channel))
            client.generate([1, 2, 3])
            end = time.monotonic() + 1
            while time.monotonic() < end:
                client.generate()  # counts as use
            while metric(server, 'weir_sessions'):
                pass
            with self.assertRaises(grpc.RpcError) as caught:
                client.dump()
            self.assertEqual(grpc.StatusCode.NOT_FOUND, caught.exception.code())
        self.assertEqual(0, server.stop())

    def test_a_secret_keeps_others_out_and_tenants_apart(self):
        secrets = harness.scratch() / 'secrets'
        secrets.write_text('alpha-secret\nbeta-secret\n')
        server = harness.Server('--salience-bearer-token-file', secrets, '--sessions-per-tenant', 2)
        with grpc.insecure_channel(server.address) as channel:
            stub = rpc.SalienceStub(channel)
            alpha, beta = ([('authorization', f'Bearer {name}-secret')] for name in ('alpha', 'beta'))
            for metadata in (None, [('authorization', 'Bearer gamma-secret')]):
                with self.assertRaises(grpc.RpcError) as caught:
                    stub.OpenSession(pb.OpenSessionRequest(), metadata=metadata)
                self.assertEqual(grpc.StatusCode.UNAUTHENTICATED, caught.exception.code())
            session = stub.OpenSession(pb.OpenSessionRequest(), metadata=alpha).session_id
            stub.OpenSession(pb.OpenSessionRequest(), metadata=alpha)
            with self.assertRaises(grpc.RpcError) as caught:
                stub.OpenSession(pb.OpenSessionRequest(), metadata=alpha)
            self.assertEqual(grpc.StatusCode.RESOURCE_EXHAUSTED, caught.exception.code())
            stub.OpenSession(pb.OpenSessionRequest(), metadata=beta)
            request = pb.DumpSessionRequest(session_id=session)
            self.assertEqual(0, len(stub.DumpSession(request, metadata=alpha).tokens))
            with self.assertRaises(grpc.RpcError) as caught:
                stub.DumpSession(request, metadata=beta)
            self.assertEqual('there is no such session', caught.exception.details())
        self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main()
