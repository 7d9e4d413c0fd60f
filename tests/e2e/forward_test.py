"""Models that another server runs: engine: forward. weir is the origin of most of them, and every dialect of tensors asks
the gateway in front of it; the others have an origin that misbehaves."""

import json
import pathlib
import shutil
import socket
import struct
import tempfile
import threading
import time
import unittest

import grpc
import numpy as np

import forward_origin
import graphpipe_test
import harness
from forward_origin import answer, doubled, grpc_message, oip
from h2_peer import (CANCEL, DATA, END_HEADERS, END_STREAM, HEADERS, INTERNAL_ERROR, REFUSED_STREAM, frame, long_field,
                     rst)
from harness import curl

oip_grpc = harness.stubs()('inference')[1]
grps, grps_grpc = harness.stubs()('grps')
JSON = ('-H', 'Content-Type: application/json')


def repository(**models):
    """A repository of forwarded models: name = the text of its model.yaml behind `engine: forward`."""
    root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    for name, text in models.items():
        (root / name).mkdir()
        (root / name / 'model.yaml').write_text('engine: forward\nkind: oip-grpc\n' + text)
    return root


def until(condition, what):
    end = time.monotonic() + harness.PATIENCE
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f'{what} did not come about')
        time.sleep(0.02)
    return value


def simple_request(model='simple', rows=1, **more):
    request = oip.ModelInferRequest(model_name=model, **more)
    for name in ('INPUT0', 'INPUT1'):
        request.inputs.add(name=name, datatype='INT32', shape=[rows, 16])
        request.raw_input_contents.append(np.arange(16 * rows, dtype=np.int32).tobytes())
    return request


class Forward(unittest.TestCase):
    """weir in front of weir."""

    @classmethod
    def setUpClass(cls):
        cls.origin = harness.Server()
        origins = f'origins: [{cls.origin.url()}]\n'
        root = repository(
            digits=origins, simple=origins, simple_string=origins, repeat_int32=origins, identity=origins,
            adder=origins + 'parameters: {model: simple, version: "1"}\n')
        shutil.copytree(harness.MODELS / 'simple', root / 'local')
        config = root / 'local/config.pbtxt'
        config.write_text(config.read_text().replace('"simple"', '"local"'))
        for name, (first, second) in {'in_and_out': ('local', 'adder'), 'out_and_in': ('adder', 'local')}.items():
            (root / name).mkdir()
            (root / name / 'model.yaml').write_text(
                f'engine: pipeline\ndag: {{nodes: [{{model: {first}, outputs: {{OUTPUT0: a, OUTPUT1: b}}}}, '
                f'{{model: {second}, inputs: {{INPUT0: a, INPUT1: b}}}}]}}\n')
        cls.server = harness.Server(repository=root)
        cls.channel = grpc.insecure_channel(cls.server.address, options=[('grpc.max_receive_message_length', -1)])
        cls.stub = oip_grpc.GRPCInferenceServiceStub(cls.channel)
        cls.there = grpc.insecure_channel(cls.origin.address)
        cls.origin_stub = oip_grpc.GRPCInferenceServiceStub(cls.there)
        cls.images, cls.labels = harness.heldout()

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.there.close()
        for server in (cls.server, cls.origin):
            code = server.stop()
            assert code == 0, f'weir ended with {code}:\n{server.output()[-5000:]}'

    def both(self, path, data, *args):
        """The same request at the origin and at the gateway: one answer."""
        there, here = (curl(s.url(path), *JSON, *args, data=data) for s in (self.origin, self.server))
        self.assertEqual((there.status, there.body), (here.status, here.body))
        return here

    # --- what a model is
    def test_the_signature_is_the_origins(self):
        for model in ('digits', 'simple', 'simple_string', 'repeat_int32'):
            for view in (f'/v2/models/{model}', f'/v2/models/{model}/ready'):
                there, here = (curl(s.url(view)).body for s in (self.origin, self.server))
                self.assertEqual(there, here, view)
        config = self.stub.ModelConfig(oip.ModelConfigRequest(name='repeat_int32')).config
        self.assertTrue(config.model_transaction_policy.decoupled)
        self.assertEqual('forward', config.backend)
        self.assertEqual(8, self.stub.ModelConfig(oip.ModelConfigRequest(name='simple')).config.max_batch_size)

    def test_addresses_and_keys_are_not_told_to_clients(self):
        config = curl(self.server.url('/v2/models/adder/config')).body.decode()
        self.assertNotIn(str(self.origin.port), config)

    # --- each dialect of tensors
    def test_oip_rest_in_json_and_binary(self):
        body = {'inputs': [{'name': 'image', 'shape': [3, 64], 'datatype': 'FP32', 'data': self.images[:3]}]}
        self.assertEqual(200, self.both('/v2/models/digits/infer', json.dumps(body)).status)
        body['parameters'] = {'binary_data_output': True}
        self.assertEqual(200, self.both('/v2/models/digits/infer', json.dumps(body)).status)
        body = {'inputs': [{'name': 'INPUT0', 'shape': [1, 16], 'datatype': 'BYTES', 'data': [str(i) for i in range(16)]},
                           {'name': 'INPUT1', 'shape': [1, 16], 'datatype': 'BYTES', 'data': ['1'] * 16}],
                'outputs': [{'name': 'OUTPUT1'}]}
        self.assertEqual(200, self.both('/v2/models/simple_string/infer', json.dumps(body)).status)

    def test_classification_is_done_here(self):
        body = {'inputs': [{'name': 'image', 'shape': [1, 64], 'datatype': 'FP32', 'data': self.images[0]}],
                'outputs': [{'name': 'probabilities', 'parameters': {'classification': 2}}]}
        answer = curl(self.server.url('/v2/models/digits/infer'), *JSON, data=json.dumps(body))
        self.assertEqual((200, [1, 2]), (answer.status, answer.json()['outputs'][0]['shape']))

    def test_oip_grpc(self):
        for rows in (1, 8):
            here = self.stub.ModelInfer(simple_request(rows=rows, id='7'))
            there = self.origin_stub.ModelInfer(simple_request(rows=rows, id='7'))
            self.assertEqual(there, here)
        self.assertEqual('adder', self.stub.ModelInfer(simple_request('adder')).model_name)

    def test_grps(self):
        tensor = {'name': 'image', 'dtype': 'DT_FLOAT32', 'shape': [1, 64], 'flat_float32': self.images[0]}
        body = json.dumps({'model': 'digits', 'gtensors': {'tensors': [tensor]}})
        self.assertEqual('SUCCESS', self.both('/grps/v1/infer/predict', body).json()['status']['status'])
        message = grps.GrpsMessage(model='digits')
        tensor = message.gtensors.tensors.add(name='image', dtype=grps.DT_FLOAT32, shape=[1, 64])
        tensor.flat_float32.extend(self.images[0])
        here, there = (grps_grpc.GrpsServiceStub(c).Predict(message) for c in (self.channel, self.there))
        self.assertEqual(there.gtensors, here.gtensors)
        self.assertTrue(here.gtensors.tensors)

    def test_graphpipe(self):
        image = np.array([self.images[0]], dtype=np.float32)
        body = graphpipe_test.infer_request([image])
        there, here = (curl(s.url('/graphpipe/digits'), '-H', 'Content-Type:', data=body) for s in (self.origin, self.server))
        self.assertEqual((200, there.body), (here.status, here.body))

    def test_kserve_v1(self):
        answer = self.both('/v1/models/digits:predict', json.dumps({'instances': self.images[:4]}))
        self.assertEqual(200, answer.status)

    def test_tensors_of_any_size_come_whole(self):
        for size in (0, 1, 1000, 1025, 300_000, 3_000_000):
            data = np.arange(size, dtype=np.float32).tobytes()
            request = oip.ModelInferRequest(model_name='identity')
            request.inputs.add(name='x', datatype='FP32', shape=[size])
            request.raw_input_contents.append(data)
            answer = self.stub.ModelInfer(request)
            self.assertEqual([data], list(answer.raw_output_contents))

    def test_many_calls_share_connections(self):
        calls = [self.stub.ModelInfer.future(simple_request(id=str(i))) for i in range(500)]
        self.assertEqual([str(i) for i in range(500)], [call.result().id for call in calls])
        found = self.origin.fds()
        self.assertLess(found, 200)

    def test_pipelines_mix_what_runs_here_and_there(self):
        first = self.origin_stub.ModelInfer(simple_request(rows=2))
        second = simple_request(rows=2)
        second.raw_input_contents[:] = first.raw_output_contents
        expected = list(self.origin_stub.ModelInfer(second).raw_output_contents)
        for model in ('in_and_out', 'out_and_in'):
            calls = [self.stub.ModelInfer.future(simple_request(model, rows=2)) for _ in range(100)]
            for call in calls:
                self.assertEqual(expected, list(call.result(harness.PATIENCE).raw_output_contents), model)

    # --- decoupled models
    def repeat(self, values, delays, timeout=harness.PATIENCE, name='r'):
        request = oip.ModelInferRequest(model_name='repeat_int32', id=name)
        for tensor, datatype, data in (('IN', 'INT32', struct.pack(f'<{len(values)}i', *values)),
                                       ('DELAY', 'UINT32', struct.pack(f'<{len(delays)}I', *delays)),
                                       ('WAIT', 'UINT32', struct.pack('<I', 0))):
            request.inputs.add(name=tensor, datatype=datatype, shape=[len(data) // 4])
            request.raw_input_contents.append(data)
        return self.stub.ModelStreamInfer(iter([request]), timeout=timeout)

    @staticmethod
    def numbers(stream):
        return [struct.unpack('<i', a.infer_response.raw_output_contents[0])[0] for a in stream]

    def test_a_decoupled_model_answers_as_often_as_it_likes(self):
        self.assertEqual([5, 6, 7], self.numbers(self.repeat([5, 6, 7], [1, 1, 1])))
        self.assertEqual([], self.numbers(self.repeat([], [])))
        body = json.dumps({'IN': [1, 2], 'DELAY': [0, 0], 'WAIT': 0})
        self.assertEqual(200, self.both('/v2/models/repeat_int32/generate_stream', body).status)

    def test_a_long_stream_waits_for_its_reader(self):
        many = 100_000
        before = self.server.rss()
        stream = self.repeat(list(range(many)), [0] * many)
        self.assertEqual([0], self.numbers([next(stream)]))
        time.sleep(0.5)
        self.assertLess(self.server.rss() - before, (256 if harness.SANITIZED else 64) << 20)
        self.assertEqual(list(range(1, many)), self.numbers(stream))

    def test_a_client_that_leaves_ends_the_call_at_the_origin(self):
        def under_way():
            page = curl(self.origin.url('/metrics')).body.decode()
            stats = self.origin_stub.ModelStatistics(oip.ModelStatisticsRequest(name='repeat_int32'))
            return stats.model_stats[0].response_stats['1'].cancel.count, page
        stream = self.repeat([1, 2], [0, 3_600_000])
        self.assertEqual([1], self.numbers([next(stream)]))
        before = under_way()[0]
        stream.cancel()
        until(lambda: under_way()[0] > before, 'the end at the origin')

    def test_a_deadline_is_handed_on(self):
        before = time.monotonic()
        with self.assertRaises(grpc.RpcError) as raised:
            self.numbers(self.repeat([1], [3_600_000], timeout=0.5))
        self.assertEqual(grpc.StatusCode.DEADLINE_EXCEEDED, raised.exception.code())
        self.assertLess(time.monotonic() - before, 5)

    # --- errors
    def test_an_error_of_the_origin_keeps_its_code_and_names_it(self):
        request = oip.ModelInferRequest(model_name='repeat_int32', id='bad')
        for tensor, datatype, data in (('IN', 'INT32', bytes(8)), ('DELAY', 'UINT32', bytes(4)), ('WAIT', 'UINT32', bytes(4))):
            request.inputs.add(name=tensor, datatype=datatype, shape=[len(data) // 4])
            request.raw_input_contents.append(data)
        with self.assertRaises(grpc.RpcError) as raised:
            list(self.stub.ModelStreamInfer(iter([request]), metadata=(('triton_grpc_error', 'true'),)))
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, raised.exception.code())
        self.assertIn(f'origin {self.origin.address}: expected IN and DELAY shape to match', raised.exception.details())

    def test_a_bad_request_does_not_reach_the_origin(self):
        with self.assertRaises(grpc.RpcError) as raised:
            self.stub.ModelInfer(simple_request(rows=9))
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, raised.exception.code())
        self.assertNotIn('origin', raised.exception.details())

    def test_statistics_count_what_was_forwarded(self):
        def count():
            stats = self.stub.ModelStatistics(oip.ModelStatisticsRequest(name='adder')).model_stats[0]
            return stats.inference_count, stats.inference_stats.success.count
        before = count()
        self.stub.ModelInfer(simple_request('adder', rows=3))
        self.assertEqual((before[0] + 3, before[1] + 1), count())


class Configuration(unittest.TestCase):
    def reason(self, text):
        root = repository(m=text)
        server = harness.Server(repository=root)
        try:
            return until(lambda: [row['reason'] for row in curl(server.url('/v2/repository/index'), data='').json()
                                  if row['name'] == 'm' and row.get('reason')], 'a reason')[0]
        finally:
            server.stop()

    def test_errors_name_the_setting(self):
        for text, words in (('', "'origins' is missing"),
                            ('origins: [triton:8001]', "origin 'triton:8001' is no URL"),
                            ('origins: http://127.0.0.1:1/v2\n', 'has a path'),
                            ('origins: http://127.0.0.1:1\nparameters: {retries: 3}\n', "no parameter 'retries'"),
                            ('origins: http://127.0.0.1:1\nparameters: {answer_timeout: soon}\n', 'answer_timeout'),
                            ('origins: http://127.0.0.1:1\nparameters: {key_file: /nowhere}\n', 'key_file')):
            self.assertIn(words, self.reason(text))

    def test_kinds_that_are_not_there_are_refused_by_name(self):
        for kind in ('telnet',):
            root = repository(m='origins: http://127.0.0.1:1\n')
            path = root / 'm/model.yaml'
            path.write_text(path.read_text().replace('oip-grpc', kind))
            server = harness.Server(repository=root)
            index = curl(server.url('/v2/repository/index'), data='').json()
            self.assertIn(f"parameter 'kind' is \"{kind}\"", index[0]['reason'])
            server.stop()


class Readiness(unittest.TestCase):
    """An origin that goes and comes back."""

    def setUp(self):
        self.origin = forward_origin.Origin()
        self.server = harness.Server(repository=repository(
            x=f'origins: {self.origin.url}\nparameters: {{check_interval: 50ms, connect_timeout: 1s}}\n'))
        self.addCleanup(self.origin.close)
        self.addCleanup(self.server.stop)

    def ready(self):
        return curl(self.server.url('/v2/models/x/ready')).status == 200 and curl(self.server.url('/readyz')).status == 200

    def test_readiness_follows_the_origin(self):
        until(self.ready, 'readiness')
        self.origin.ready = False
        until(lambda: not self.ready(), 'the end of readiness')
        refused = curl(self.server.url('/v2/models/x/infer'), *JSON, data=json.dumps(
            {'inputs': [{'name': 'x', 'shape': [1], 'datatype': 'FP32', 'data': [1]}]}))
        self.assertEqual(503, refused.status)
        self.assertIn(f'origin 127.0.0.1:{self.origin.port}', refused.json()['error'])
        self.origin.ready = True
        until(self.ready, 'readiness')

    def test_an_origin_that_comes_late_is_found(self):
        self.origin.close()
        until(lambda: not self.ready(), 'the end of readiness')
        again = forward_origin.Origin(self.origin.port)
        self.addCleanup(again.close)
        until(self.ready, 'readiness')


class Hostile(unittest.TestCase):
    """Each of these costs the call that met it, and nothing else."""

    @classmethod
    def setUpClass(cls):
        cls.origin = forward_origin.Origin()
        cls.server = harness.Server(repository=repository(
            x=f'origins: {cls.origin.url}\nparameters: {{answer_timeout: 1s, max_answer: 1MiB}}\n'))
        cls.channel = grpc.insecure_channel(cls.server.address)
        cls.stub = oip_grpc.GRPCInferenceServiceStub(cls.channel)
        cls.good = cls.origin.behave

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.origin.close()
        code = cls.server.stop()
        assert code == 0, f'weir ended with {code}:\n{cls.server.output()[-5000:]}'

    def infer(self, timeout=harness.PATIENCE):
        request = oip.ModelInferRequest(model_name='x', id='7')
        request.inputs.add(name='x', datatype='FP32', shape=[4])
        request.raw_input_contents.append(struct.pack('<4f', 1, 2, 3, 4))
        return self.stub.ModelInfer(request, timeout=timeout)

    def fails(self, behave, code, words):
        """The call fails so; the next one is answered."""
        before = self.server.rss()
        self.origin.behave = behave
        with self.assertRaises(grpc.RpcError) as raised:
            self.infer()
        self.assertEqual(code, raised.exception.code(), raised.exception.details())
        self.assertIn(f'origin 127.0.0.1:{self.origin.port}: ', raised.exception.details())
        self.assertIn(words, raised.exception.details())
        self.origin.behave = type(self).good
        self.assertEqual('7', self.infer().id)
        self.assertLess(self.server.rss() - before, 32 << 20)

    def says(self, *args, **named):
        return lambda c, stream, request: c.sock.sendall(answer(stream, *args, **named))

    def changed(self, change):
        def behave(c, stream, request):
            response = doubled(request)
            change(response)
            c.sock.sendall(answer(stream, grpc_message(response)))
        return behave

    INTERNAL, UNAVAILABLE = grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE

    def test_lengths_that_lie(self):
        self.fails(self.says(b'\0\xff\xff\xff\xff' + bytes(100)), self.INTERNAL, 'message')
        self.fails(self.says(b'\0\0\0\x10\0' + bytes(100)), self.INTERNAL, 'inside a message')
        self.fails(self.says(grpc_message(b'\x2a\xff\xff\xff\x7f')), self.INTERNAL, 'malformed protobuf')
        self.fails(self.says(b'\0\0'), self.INTERNAL, 'inside a message')
        self.fails(self.says(b''), self.INTERNAL, 'without an answer')
        self.fails(self.says(grpc_message(b'') * 2), self.INTERNAL, 'twice')
        self.fails(self.says(b'\1' + grpc_message(b'x')[1:]), self.INTERNAL, 'compressed')

    def test_a_message_that_is_too_large(self):
        self.fails(self.says(grpc_message(bytes(2 << 20))), self.INTERNAL, 'message')

    def test_answers_that_are_not_grpc(self):
        html = ((':status', '200'), ('content-type', 'text/html'))
        self.fails(self.says(b'<html>', head=html, trailers=(('x', 'y'),)), self.INTERNAL, 'text/html')
        bad = ((':status', '502'), ('content-type', 'text/html'))
        self.fails(self.says(b'<html>', head=bad, trailers=(('x', 'y'),)), self.UNAVAILABLE, '502')

    def test_a_status_that_is_none(self):
        for trailers in ((('x', 'y'),), (('grpc-status', ''),), (('grpc-status', '0x0'),), (('grpc-status', '77'),)):
            self.fails(lambda c, stream, request, t=trailers: c.sock.sendall(
                answer(stream, grpc_message(doubled(request)), trailers=t)), grpc.StatusCode.UNKNOWN, '')

    def test_a_refusal_of_our_key_is_not_the_clients(self):
        self.fails(self.says(b'', trailers=(('grpc-status', '16'), ('grpc-message', 'no key'))), self.INTERNAL, 'no key')

    def test_headers_without_end(self):
        def behave(c, stream, request):
            head = frame(HEADERS, 0, stream, b'\x88')
            more = b''.join(frame(9, 0, stream, long_field('x-long', 16000)) for _ in range(20))
            c.sock.sendall(head + more)
        self.fails(behave, grpc.StatusCode.RESOURCE_EXHAUSTED, 'fields are too large')

    def test_fields_that_are_too_large(self):
        def behave(c, stream, request):
            pieces = [b'\x88' + long_field('x-long', 16000)] + [long_field('x-long', 16000)] * 5
            out = frame(HEADERS, 0, stream, pieces[0])
            for piece in pieces[1:-1]:
                out += frame(9, 0, stream, piece)
            c.sock.sendall(out + frame(9, END_HEADERS, stream, pieces[-1]))
        self.fails(behave, grpc.StatusCode.RESOURCE_EXHAUSTED, 'fields are too large')

    def test_bytes_that_drip(self):
        def behave(c, stream, request):
            c.sock.sendall(frame(HEADERS, END_HEADERS, stream, b'\x88' + forward_origin.block(('content-type', 'application/grpc'))))
            try:
                for byte in grpc_message(doubled(request)) * 100:
                    c.sock.sendall(frame(DATA, 0, stream, bytes([byte])))
                    time.sleep(0.1)
            except OSError:
                pass
        self.fails(behave, grpc.StatusCode.DEADLINE_EXCEEDED, 'has not answered within 1s')

    def test_silence(self):
        self.fails(lambda *_: None, grpc.StatusCode.DEADLINE_EXCEEDED, 'has not answered within 1s')

    def test_resets(self):
        for code in (CANCEL, INTERNAL_ERROR, REFUSED_STREAM):
            self.fails(lambda c, stream, request, code=code: c.sock.sendall(rst(stream, code)), self.UNAVAILABLE, 're')

    def test_a_connection_that_breaks(self):
        self.fails(lambda c, *_: c.sock.shutdown(socket.SHUT_RDWR), self.UNAVAILABLE, '')
        self.fails(lambda c, *_: c.sock.sendall(b'HTTP/1.1 400 Bad Request\r\n\r\n'), self.UNAVAILABLE, '')

    def test_tensors_that_are_not_declared(self):
        def set_type(r): r.outputs[0].datatype = 'INT32'
        def set_odd(r): r.outputs[0].datatype = 'FP8\n'
        def set_shape(r): r.outputs[0].shape[:] = [2, 2]
        def set_size(r): r.outputs[0].shape[:] = [5]
        def set_huge(r): r.outputs[0].shape[:] = [1 << 62]
        def set_negative(r): r.outputs[0].shape[:] = [-1]
        def set_rank(r): r.outputs[0].shape[:] = [1] * 40
        def set_name(r): r.outputs[0].name = 'z'
        def set_count(r): r.raw_output_contents.append(b'')
        def set_both(r): r.outputs[0].contents.fp32_contents.append(1)
        def set_many(r): [r.outputs.add(name='y', datatype='FP32', shape=[0]) for _ in range(300)]
        for change in (set_type, set_odd, set_shape, set_size, set_huge, set_negative, set_rank, set_name, set_count, set_both,
                       set_many):
            with self.subTest(change.__name__):
                self.fails(self.changed(change), self.INTERNAL, '')

    def test_typed_contents_are_taken(self):
        def change(r):
            r.outputs[0].contents.fp32_contents.extend([1, 2, 3, 4])
            del r.raw_output_contents[:]
        self.origin.behave = self.changed(change)
        self.assertEqual([struct.pack('<4f', 1, 2, 3, 4)], list(self.infer().raw_output_contents))
        self.origin.behave = type(self).good

    def test_the_deadline_and_the_tenant_go_along(self):
        self.infer(timeout=5)
        head = self.origin.seen[-1]
        self.assertRegex(head['grpc-timeout'], r'^\d+u$')
        self.assertLess(int(head['grpc-timeout'][:-1]), 5_100_000)
        self.assertEqual(('http', f'127.0.0.1:{self.origin.port}', 'trailers', 'application/grpc'),
                         tuple(head[name] for name in (':scheme', ':authority', 'te', 'content-type')))
        self.assertRegex(head['weir-tenant'], r'^[0-9a-f]{16}$')

    def test_the_trace_goes_along(self):
        self.infer()
        self.assertNotIn('traceparent', self.origin.seen[-1])
        parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00'
        body = {'inputs': [{'name': 'x', 'shape': [4], 'datatype': 'FP32', 'data': [1, 2, 3, 4]}]}
        answer = curl(self.server.url('/v2/models/x/infer'), *JSON, '-H', f'traceparent: {parent}', '-H', 'tracestate: a=1,b=2',
                      data=json.dumps(body))
        self.assertEqual(200, answer.status)
        head = self.origin.seen[-1]
        self.assertEqual((parent, 'a=1,b=2'), (head['traceparent'], head['tracestate']))


class Several(unittest.TestCase):
    """A model with two origins."""

    def setUp(self):
        self.origins = [forward_origin.Origin() for _ in range(2)]
        urls = ', '.join(o.url for o in self.origins)
        self.key = harness.scratch() / 'key'
        self.key.write_text('sesame\n')
        self.server = harness.Server(repository=repository(
            x=f'origins: [{urls}]\nparameters: {{check_interval: 50ms, key_file: {self.key}}}\n'))
        self.addCleanup(self.server.stop)
        for origin in self.origins:
            self.addCleanup(origin.close)

    def infer(self):
        body = {'inputs': [{'name': 'x', 'shape': [1], 'datatype': 'FP32', 'data': [1]}]}
        return curl(self.server.url('/v2/models/x/infer'), *JSON, data=json.dumps(body))

    def test_both_are_asked_and_the_key_goes_along(self):
        for _ in range(40):
            self.assertEqual(200, self.infer().status)
        for origin in self.origins:
            self.assertGreater(len(origin.seen), 3)
            self.assertEqual('Bearer sesame', origin.seen[0]['authorization'])

    def test_what_an_origin_has_lost_is_asked_of_the_other(self):
        self.origins[0].behave = lambda c, *_: c.sock.shutdown(socket.SHUT_RDWR)
        for _ in range(20):
            self.assertEqual(200, self.infer().status)

    def more(self, parameters):
        """Another server in front of the same origins."""
        urls = ', '.join(o.url for o in self.origins)
        server = harness.Server('--shards', 1, repository=repository(
            x=f'origins: [{urls}]\nparameters: {{check_interval: 50ms, {parameters}}}\n'))
        self.addCleanup(lambda: self.assertEqual(0, server.stop(), server.output()[-3000:]))
        self.server = server

    def slow(self, origin, seconds):
        def behave(c, stream, request):
            def later():
                time.sleep(seconds)
                try:
                    c.sock.sendall(answer(stream, grpc_message(doubled(request))))
                except OSError:
                    pass
            threading.Thread(target=later, daemon=True).start()
        origin.behave = behave

    def test_a_call_that_takes_long_is_sent_to_a_second_origin(self):
        for after in ('20ms', 'p90'):
            self.more(f'hedge_after: {after}')
            if after == 'p90':
                self.slow(self.origins[0], 0)
                for _ in range(70):
                    self.infer()
            self.slow(self.origins[0], 2)
            # Each second one goes to the slow origin first; of the calls that run twice, there are 10 and a fifth.
            for _ in range(10):
                begun = time.monotonic()
                self.assertEqual(200, self.infer().status)
                self.assertLess(time.monotonic() - begun, 1.5)

    def test_hedges_keep_to_their_budget(self):
        self.more('hedge_after: 1ms')
        for origin in self.origins:
            self.slow(origin, 0.03)
        before = sum(len(o.seen) for o in self.origins)
        for _ in range(50):
            self.assertEqual(200, self.infer().status)
        asked = sum(len(o.seen) for o in self.origins) - before
        self.assertGreater(asked, 55)
        self.assertLessEqual(asked, 50 + 10 + 10)

    def test_an_origin_that_a_hedge_meets_dead_costs_nothing(self):
        self.more('hedge_after: 20ms')
        self.slow(self.origins[0], 0.1)
        self.origins[1].behave = lambda c, *_: c.sock.shutdown(socket.SHUT_RDWR)
        for _ in range(5):  # each may cost a repeat and a hedge
            self.assertEqual(200, self.infer().status)

    def test_an_origin_that_says_it_is_full_gets_less(self):
        def says(report):
            head = (*forward_origin.OK_HEAD, ('endpoint-load-metrics', report))
            return lambda c, stream, request: c.sock.sendall(answer(stream, grpc_message(doubled(request)), head=head))
        self.more('load_report: orca')
        self.origins[0].behave = says('TEXT cpu_utilization=0.9, named_metrics.num_requests_waiting=30')
        self.origins[1].behave = says('JSON {"cpu_utilization": 0.1}')
        before = [len(o.seen) for o in self.origins]
        for _ in range(60):
            self.assertEqual(200, self.infer().status)
        full, idle = (len(o.seen) - b for o, b in zip(self.origins, before))
        self.assertEqual('TEXT', self.origins[0].seen[-1]['endpoint-load-metrics-format'])
        self.assertLess(full, 30)  # a quarter: where both choices fall on it
        self.assertGreater(full, 0)
        self.assertGreater(idle, 2 * full * 0.7)

    def test_an_origin_that_has_gone_costs_nobody_anything(self):
        self.origins[0].close()
        for _ in range(30):
            self.assertEqual(200, self.infer().status)
        self.assertEqual(200, curl(self.server.url('/v2/models/x/ready')).status)


if __name__ == '__main__':
    harness.main()
