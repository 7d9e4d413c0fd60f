"""Images of chats whose model another weir runs (kind weir): all that a model here offers, in every protocol, and servers of
its protocol that are older, or lie."""

import base64
import json
import struct
import time
import unittest
import zlib
from concurrent import futures

import grpc

import forward_native_test
import harness
import salience_client
from forward_native_test import ready
from harness import curl
from salience_client import DATA, END, PAD, PADS, START

pb, rpc = harness.stubs()('forward')
salience, salience_rpc = harness.stubs()('salience')
JSON = ('-H', 'Content-Type: application/json')
DIGITS = {digit: (DATA / f'digit_{digit}.png').read_bytes() for digit in (2, 7)}


def gateway(*origins, more=''):
    return ready(forward_native_test.gateway(list(origins), harness.MODELS / 'chat/1', more=more, name='chat'))


def coded(data):
    return base64.b64encode(data).decode()


def post(server, path, **body):
    return curl(server.url(path), *JSON, data=json.dumps({'model': 'chat', **body}))


def question(*images):
    parts = [{'type': 'image_url', 'image_url': {'url': f'data:image/png;base64,{coded(image)}'}} for image in images]
    return [{'role': 'user', 'content': [*parts, {'type': 'text', 'text': 'What digit is this?'}]}]


def bare(answer):
    """Without what is another one each time."""
    body = answer.json()
    for name in ('id', 'created', 'created_at', 'total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration'):
        body.pop(name, None)
    body.get('usage', {}).pop('prompt_tokens_details', None)
    return body


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.origin = ready(harness.Server(repository=harness.MODELS))
        cls.addClassCleanup(cls.origin.stop)
        cls.server = gateway(cls.origin.url())
        cls.addClassCleanup(lambda: cls.stopped(cls.server))

    @staticmethod
    def stopped(server):
        assert server.stop() == 0, server.output()[-3000:]

    def same(self, path, **body):
        there, here = (post(server, path, **body) for server in (self.origin, self.server))
        self.assertEqual((there.status, bare(there)), (here.status, bare(here)), path)
        return here

    def test_chats_of_every_client(self):
        for digit, image in DIGITS.items():
            answer = self.same('/v1/chat/completions', messages=question(image), temperature=0, max_tokens=20, return_token_ids=True)
            self.assertRegex(answer.json()['choices'][0]['message']['content'], r'^This is an? [a-z]+\.$', digit)
            self.assertEqual(PADS, answer.json()['prompt_token_ids'].count(PAD))
            self.same('/api/chat', stream=False, options={'temperature': 0, 'num_predict': 12},
                      messages=[{'role': 'user', 'content': 'What digit is this?', 'images': [coded(image)]}])
            self.same('/v1/messages', temperature=0, max_tokens=12, messages=[{'role': 'user', 'content': [
                {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/png', 'data': coded(image)}},
                {'type': 'text', 'text': 'What digit is this?'}]}])
        two = self.same('/v1/chat/completions', messages=question(*DIGITS.values()), temperature=0, max_tokens=12, return_token_ids=True)
        self.assertEqual(2 * PADS, two.json()['prompt_token_ids'].count(PAD))
        self.same('/v1/chat/completions', messages=question(DIGITS[7]), temperature=0, max_tokens=8, logprobs=True, top_logprobs=2, prompt_logprobs=1)

    def test_the_model_is_known_to_see(self):
        for server in (self.origin, self.server):
            row = next(row for row in curl(server.url('/v1/models')).json()['data'] if row['id'] == 'chat')
            self.assertTrue(row['images'])

    def test_the_picture_matters(self):
        answers = {post(self.server, '/v1/chat/completions', messages=question(image), temperature=0, max_tokens=4, logprobs=True,
                        top_logprobs=5).body.decode().split('"logprobs"')[1] for image in DIGITS.values()}
        self.assertEqual(2, len(answers))

    def test_what_is_no_picture_is_refused_here(self):
        for image in (b'', DIGITS[7][:20], b'GIF89a' + bytes(60)):
            refused = self.same('/v1/chat/completions', messages=question(image), max_tokens=4)
            self.assertEqual(400, refused.status)
        # Its header is good, and its pixels are not: the origin says so, and is named.
        torn = DIGITS[7][:len(DIGITS[7]) // 2]
        refused = post(self.server, '/v1/chat/completions', messages=question(torn), max_tokens=4)
        self.assertEqual(400, refused.status)
        self.assertIn(f'origin 127.0.0.1:{self.origin.port}', refused.json()['error']['message'])
        self.assertEqual(200, post(self.server, '/v1/chat/completions', messages=question(DIGITS[7]), max_tokens=4).status)

    def test_a_large_picture_goes_along(self):
        side = 1500  # noise, which no compression makes smaller
        noise = b''.join(b'\0' + bytes((x * x + y * 31 + (x * y >> 3)) & 255 for x in range(side)) for y in range(side))

        def part(kind, data):
            return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
        picture = b'\x89PNG\r\n\x1a\n' + part(b'IHDR', struct.pack('>IIBBBBB', side, side, 8, 0, 0, 0, 0)) + \
            part(b'IDAT', zlib.compress(noise, 0)) + part(b'IEND', b'')
        self.same('/v1/chat/completions', messages=question(picture, picture), temperature=0, max_tokens=6)

    def test_salience_keeps_the_images_of_a_session(self):
        seen = []
        for server in (self.origin, self.server):
            with grpc.insecure_channel(server.address) as channel:
                client = salience_client.Client(salience_rpc.SalienceStub(channel))
                ids = salience_client.tokenizer().encode
                before, after = list(ids('<|im_start|>user\n')), list(ids('What digit is this?<|im_end|>\n<|im_start|>assistant\n'))
                image = salience.ImageAttachment(bytes=DIGITS[2], mime='image/png', pad_range_start=len(before), pad_range_end=len(before) + PADS + 2)
                _, made, _ = client.generate(before + [START] + [PAD] * PADS + [END] + after, 20, images=[image])
                child = client.fork(image.pad_range_end)
                _, again, _ = child.generate(after, 20)
                _, more, _ = client.generate(list(ids('\n<|im_start|>user\nWhat is it?<|im_end|>\n<|im_start|>assistant\n')), 8)
                seen.append((made, again, more))
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[1][0], seen[1][1])


class Fake(rpc.ForwardServicer):
    """A server of the protocol in Python, as a test says."""

    def __init__(self, test, **vision):
        self.vision, self.seen = vision, []
        self.grpc = grpc.server(futures.ThreadPoolExecutor(4))
        rpc.add_ForwardServicer_to_server(self, self.grpc)
        self.port = self.grpc.add_insecure_port('127.0.0.1:0')
        self.url = f'http://127.0.0.1:{self.port}'
        self.grpc.start()
        test.addCleanup(self.grpc.stop, 0)

    def DescribeModel(self, request, context):
        return pb.ModelDescription(version='1', makes_tokens=True, max_length=2048, vocabulary=3072, hidden_size=192,
                                   eos_ids=[3068], vision=pb.Vision(**self.vision) if self.vision else None)

    def Generate(self, request, context):
        self.seen.append(request)
        yield pb.SequenceEvent(done=pb.Done(finish=1))


class Cut(Fake):
    """It dies behind some tokens of a sequence with images."""

    tokens = ()

    def GenerateFromImages(self, request, context):
        self.seen.append(request)
        for i, token in enumerate(self.tokens):
            yield pb.SequenceEvent(token=pb.TokenEvent(id=token, position=len(request.tokens) + i))
        time.sleep(0.2)
        context.abort(grpc.StatusCode.UNAVAILABLE, 'gone')


VISION = {'start_id': START, 'pad_id': PAD, 'end_id': END, 'pads': PADS}


class Others(unittest.TestCase):
    def front(self, *origins, more=''):
        server = gateway(*origins, more=more)
        self.addCleanup(lambda: self.assertEqual(0, server.stop(), server.output()[-3000:]))
        return server

    def test_an_older_origin_takes_none_and_is_never_sent_any(self):
        old = Fake(self)
        server = self.front(old.url)
        refused = post(server, '/v1/chat/completions', messages=question(DIGITS[7]), max_tokens=4)
        self.assertEqual(400, refused.status)
        self.assertEqual([], old.seen)
        self.assertEqual(200, post(server, '/v1/chat/completions', messages=[{'role': 'user', 'content': 'hi'}], max_tokens=4).status)

    def test_an_origin_that_has_become_older_is_told_of_clearly(self):
        fake = Fake(self, **VISION)
        server = self.front(fake.url)
        refused = post(server, '/v1/chat/completions', messages=question(DIGITS[7]), max_tokens=4)
        self.assertEqual(503, refused.status, refused.body)
        said = refused.json()['error']['message']
        self.assertIn(f'origin 127.0.0.1:{fake.port}: it is an older weir, which takes no images', said)
        self.assertEqual([], fake.seen, 'no sequence whose pads mean nothing there')
        self.assertEqual(200, post(server, '/v1/chat/completions', messages=[{'role': 'user', 'content': 'hi'}], max_tokens=4).status)

    def test_a_newer_origin_is_asked_in_place_of_an_older_one(self):
        real = ready(harness.Server(repository=harness.MODELS))
        self.addCleanup(real.stop)
        fake = Fake(self, **VISION)
        server = self.front(fake.url, real.url())
        for _ in range(12):
            answer = post(server, '/v1/chat/completions', messages=question(DIGITS[7]), max_tokens=4)
            self.assertEqual(200, answer.status, answer.body)

    def test_a_description_that_cannot_be_is_refused(self):
        for vision in ({**VISION, 'pads': 0}, {**VISION, 'end_id': 3072}, {**VISION, 'pads': 1 << 31}):
            fake = Fake(self, **vision)
            server = forward_native_test.gateway([fake.url], harness.MODELS / 'chat/1', name='chat')
            self.addCleanup(server.stop)
            time.sleep(0.5)
            self.assertNotEqual(200, curl(server.url('/v2/models/chat/ready')).status, vision)

    def test_more_pads_than_the_context_has_are_refused(self):
        server = self.front(Fake(self, **{**VISION, 'pads': 4000}).url)
        self.assertEqual(400, post(server, '/v1/chat/completions', messages=question(DIGITS[7]), max_tokens=4).status)

    def test_a_chat_with_an_image_goes_on_where_another_origin_has_died(self):
        real = ready(harness.Server(repository=harness.MODELS))
        self.addCleanup(real.stop)
        asked = {'messages': question(DIGITS[2]), 'temperature': 0, 'max_tokens': 12, 'return_token_ids': True}
        whole = post(real, '/v1/chat/completions', **asked).json()['choices'][0]
        cut = Cut(self, **VISION)
        cut.tokens = whole['token_ids'][:2]
        server = self.front(cut.url, real.url())
        for _ in range(12):
            here = post(server, '/v1/chat/completions', **asked).json()['choices'][0]
            self.assertEqual(whole['token_ids'], here['token_ids'])
        self.assertTrue(cut.seen)
        self.assertEqual(DIGITS[2], cut.seen[0].images[0].data)

    def test_a_client_that_lies_of_its_images_is_refused(self):
        server = ready(harness.Server(repository=harness.MODELS))
        self.addCleanup(server.stop)
        place = [START] + [PAD] * PADS + [END]
        good = {'data': DIGITS[7], 'mime': 'image/png', 'start': 1, 'end': 1 + len(place)}
        with grpc.insecure_channel(server.address, options=[('grpc.max_send_message_length', -1)]) as channel:
            stub = rpc.ForwardStub(channel)

            def ask(tokens, *images):
                sequence = pb.Sequence(model='chat', tokens=tokens, images=[pb.Image(**image) for image in images],
                                       params=pb.SequenceParams(max_tokens=1))
                return list(stub.GenerateFromImages(sequence, timeout=harness.PATIENCE))
            self.assertEqual('done', ask([5, *place], good)[-1].WhichOneof('event'))
            for tokens, images in (([5, *place], [{**good, 'end': 18}]), ([5, *place], [{**good, 'start': 0, 'end': 18}]),
                                   ([5, *place], [{**good, 'end': 1 << 31}]), ([5, *place[:-2], END], [{**good, 'end': 18}]),
                                   ([5, *place], [good, good]), ([5] * 19, [good]), ([5, *place], [{**good, 'data': b''}]),
                                   ([5, *place], [{**good, 'data': b'x' * (33 << 20)}])):
                with self.assertRaises(grpc.RpcError) as caught:
                    ask(tokens, *images)
                self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, caught.exception.code(), caught.exception.details())


if __name__ == '__main__':
    harness.main()
