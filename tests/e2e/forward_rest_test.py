"""Models of tensors that another server runs, over HTTP/1.1: kind oip-rest. weir is the origin of most of them, as Triton
would be; the others have an origin that misbehaves."""

import json
import pathlib
import struct
import tempfile
import time
import unittest

import grpc
import numpy as np

import harness
from completion_origin import Listener, chunk, read_request, whole
from forward_test import oip, oip_grpc, simple_request, until
from harness import curl

JSON = ('-H', 'Content-Type: application/json')


def gateway(**models):
    """A server of forwarded models: name = the text of its model.yaml behind `kind:`."""
    root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    for name, text in models.items():
        (root / name).mkdir()
        (root / name / 'model.yaml').write_text('engine: forward\nkind: oip-rest\n' + text)
    return harness.Server(repository=root)


class Rest(unittest.TestCase):
    """weir in front of weir."""

    @classmethod
    def setUpClass(cls):
        cls.origin = harness.Server()
        origins = f'origins: [{cls.origin.url()}]\n'
        cls.server = gateway(digits=origins, simple=origins, simple_string=origins, identity=origins, simple_sequence=origins,
                             adder=origins + 'parameters: {model: simple, version: "1"}\n')
        cls.channels = [grpc.insecure_channel(s.address, options=[('grpc.max_receive_message_length', -1)])
                        for s in (cls.origin, cls.server)]
        cls.there, cls.here = map(oip_grpc.GRPCInferenceServiceStub, cls.channels)

    @classmethod
    def tearDownClass(cls):
        for channel in cls.channels:
            channel.close()
        for server in (cls.server, cls.origin):
            code = server.stop()
            assert code == 0, f'weir ended with {code}:\n{server.output()[-5000:]}'

    def both(self, path, data):
        there, here = (curl(s.url(path), *JSON, data=data) for s in (self.origin, self.server))
        self.assertEqual((200, there.body), (here.status, here.body))

    def test_the_signature_is_the_origins(self):
        for model in ('digits', 'simple', 'simple_string', 'identity'):
            for view in (f'/v2/models/{model}', f'/v2/models/{model}/ready'):
                there, here = (curl(s.url(view)).body for s in (self.origin, self.server))
                self.assertEqual(there, here, view)
        self.assertEqual(8, self.here.ModelConfig(oip.ModelConfigRequest(name='simple')).config.max_batch_size)

    def test_tensors_of_each_protocol(self):
        images = harness.heldout()[0]
        body = {'id': 'a"b', 'inputs': [{'name': 'image', 'shape': [3, 64], 'datatype': 'FP32', 'data': images[:3]}]}
        self.both('/v2/models/digits/infer', json.dumps(body))
        self.both('/v1/models/digits:predict', json.dumps({'instances': images[:4]}))
        body = {'inputs': [{'name': f'INPUT{n}', 'shape': [1, 16], 'datatype': 'BYTES', 'data': [str(i) for i in range(16)]}
                           for n in (0, 1)], 'outputs': [{'name': 'OUTPUT1'}]}
        self.both('/v2/models/simple_string/infer', json.dumps(body))
        for rows in (1, 8):
            self.assertEqual(self.there.ModelInfer(simple_request(rows=rows, id='7')),
                             self.here.ModelInfer(simple_request(rows=rows, id='7')))
        self.assertEqual('adder', self.here.ModelInfer(simple_request('adder')).model_name)

    def test_tensors_of_any_size_and_type_come_whole(self):
        for size in (0, 1, 1025, 300_000, 3_000_000):
            data = np.arange(size, dtype=np.float32).tobytes()
            request = oip.ModelInferRequest(model_name='identity')
            request.inputs.add(name='x', datatype='FP32', shape=[size])
            request.raw_input_contents.append(data)
            self.assertEqual([data], list(self.here.ModelInfer(request).raw_output_contents))
        for datatype, width in (('BOOL', 1), ('UINT8', 1), ('INT64', 8), ('FP16', 2), ('BF16', 2), ('FP64', 8), ('UINT64', 8)):
            request = oip.ModelInferRequest(model_name='identity')
            request.inputs.add(name='x', datatype=datatype, shape=[2, 3])
            request.raw_input_contents.append(bytes([1] * 6 * width))
            answer = self.here.ModelInfer(request)
            self.assertEqual((datatype, [2, 3], bytes([1] * 6 * width)), (
                answer.outputs[0].datatype, list(answer.outputs[0].shape), answer.raw_output_contents[0]))

    def test_many_at_once(self):
        calls = [self.here.ModelInfer.future(simple_request(id=str(i))) for i in range(500)]
        self.assertEqual([str(i) for i in range(500)], [call.result().id for call in calls])

    def test_requests_of_a_sequence_keep_their_order(self):
        numbers = range(100)
        for number in range(1, 9):
            requests = []
            for i in numbers:
                request = oip.ModelInferRequest(model_name='simple_sequence')
                request.inputs.add(name='INPUT', datatype='INT32', shape=[1, 1])
                request.raw_input_contents.append(struct.pack('<i', i))
                request.parameters['sequence_id'].int64_param = number
                request.parameters['sequence_start'].bool_param = i == numbers[0]
                request.parameters['sequence_end'].bool_param = i == numbers[-1]
                requests.append(request)
            answers = list(self.here.ModelStreamInfer(iter(requests), timeout=harness.PATIENCE))
            self.assertEqual([''] * len(numbers), [a.error_message for a in answers])
            self.assertEqual([1, *numbers[1:]], [struct.unpack('<i', a.infer_response.raw_output_contents[0])[0] for a in answers])

    def test_an_error_of_the_origin_names_it(self):
        server = gateway(repeat_int32=f'origins: [{self.origin.url()}]\n')
        self.addCleanup(server.stop)
        row = until(lambda: [r for r in curl(server.url('/v2/repository/index'), data='').json() if r.get('reason')], 'a reason')[0]
        self.assertIn(f'origin {self.origin.address}: ', row['reason'])
        self.assertIn('needs kind oip-grpc', row['reason'])


METADATA = {'name': 'x', 'versions': ['1'], 'platform': 'by_hand', 'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [-1]}],
            'outputs': [{'name': 'y', 'datatype': 'FP32', 'shape': [-1]}], 'extensions': ['binary_tensor_data']}
OUTPUT = {'name': 'y', 'datatype': 'FP32', 'shape': [2], 'data': [1, 2]}


class Origin(Listener):
    def __init__(self, metadata=METADATA):
        self.metadata, self.ready, self.seen, self.behave = metadata, True, [], self.good
        super().__init__()

    @staticmethod
    def good(sock, *_):
        sock.sendall(whole({'model_name': 'x', 'outputs': [OUTPUT]}))

    def serve(self, sock, stream):
        while (request := read_request(stream)):
            method, path, fields, body = request
            if path.endswith('/ready'):
                sock.sendall(whole({}) if self.ready else whole({'error': 'not ready'}, '400 Bad Request'))
            elif path.endswith('/config'):
                sock.sendall(whole({'error': 'no such route'}, '404 Not Found'))
            elif method == 'GET':
                sock.sendall(whole(self.metadata))
            else:
                self.seen.append((fields, body))
                self.behave(sock, fields, body)


class JsonAlone(unittest.TestCase):
    """MLServer and KServe's own servers list no extension: they get JSON, unless the model's configuration says otherwise."""

    def setUp(self):
        self.origin = Origin({**METADATA, 'extensions': []})
        self.addCleanup(self.origin.close)

    def asked(self, parameters='', data=(1, -2.5)):
        self.server = gateway(x=f'origins: {self.origin.url}\n{parameters}')
        self.addCleanup(self.server.stop)
        return self.infer(self.server, data)

    def infer(self, server, data):
        body = {'inputs': [{'name': 'x', 'shape': [len(data)], 'datatype': 'FP32', 'data': data}]}
        return curl(server.url('/v2/models/x/infer'), *JSON, data=json.dumps(body))

    def test_tensors_are_in_the_json(self):
        answer = self.asked()
        self.assertEqual((200, [1.0, 2.0]), (answer.status, answer.json()['outputs'][0]['data']))
        fields, body = self.origin.seen[-1]
        self.assertEqual('application/json', fields['content-type'])
        self.assertNotIn('inference-header-content-length', fields)
        self.assertEqual({'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [2], 'data': [1.0, -2.5]}]}, json.loads(body))

    def test_more_than_a_shard_writes_is_refused(self):
        answer = self.asked(data=[0.5] * 400_000)
        self.assertEqual(400, answer.status, answer.body[:300])
        self.assertIn('binary_tensors', answer.json()['error'])
        self.assertEqual([], self.origin.seen)
        self.assertEqual(200, self.infer(self.server, [1]).status, 'the origin is as healthy as before')

    def test_the_configuration_has_the_last_word(self):
        self.assertEqual(200, self.asked('parameters: {binary_tensors: true}\n').status)
        self.assertIn('inference-header-content-length', self.origin.seen[-1][0])


class Hostile(unittest.TestCase):
    """Each of these costs the call that met it, and nothing else."""

    @classmethod
    def setUpClass(cls):
        cls.origin = Origin()
        cls.server = gateway(x=f'origins: {cls.origin.url}\nparameters: {{answer_timeout: 1s, max_answer: 4MiB}}\n')

    @classmethod
    def tearDownClass(cls):
        cls.origin.close()
        code = cls.server.stop()
        assert code == 0, f'weir ended with {code}:\n{cls.server.output()[-5000:]}'

    def infer(self):
        body = {'inputs': [{'name': 'x', 'shape': [1], 'datatype': 'FP32', 'data': [1]}]}
        return curl(self.server.url('/v2/models/x/infer'), *JSON, data=json.dumps(body))

    def fails(self, behave, status, words=''):
        before = self.server.rss()
        self.origin.behave = behave if callable(behave) else lambda sock, *_: sock.sendall(behave)
        answer = self.infer()
        self.assertEqual(status, answer.status, answer.body)
        self.assertIn(f'origin {self.origin.name}: ', answer.json()['error'])
        self.assertIn(words, answer.json()['error'])
        self.origin.behave = Origin.good
        good = self.infer()
        self.assertEqual((200, [1.0, 2.0]), (good.status, good.json()['outputs'][0]['data']))
        self.assertLess(self.server.rss() - before, 48 << 20)

    def says(self, answer, more=''):
        return whole(answer, more=more)

    def test_what_is_asked(self):
        self.assertEqual(200, self.infer().status)
        fields, body = self.origin.seen[-1]
        header = int(fields['inference-header-content-length'])
        request = json.loads(body[:header])
        self.assertEqual([{'name': 'x', 'datatype': 'FP32', 'shape': [1], 'parameters': {'binary_data_size': 4}}], request['inputs'])
        self.assertTrue(request['parameters']['binary_data_output'])
        self.assertEqual(struct.pack('<f', 1), body[header:])

    def test_answers_that_are_none(self):
        for bad in (b'{', b'[]', b'{"outputs": 7}', b'{"outputs": [7]}', b'{}trailing', b'[' * 5000, b'{"outputs": [{"name": "\xff"}]}'):
            self.fails(self.says(bad), 500)

    def test_tensors_that_are_not_declared(self):
        for change in ({'name': 'z'}, {'datatype': 'INT32'}, {'datatype': 'FP8'}, {'shape': [3]}, {'shape': [1, 2]},
                       {'shape': [-1]}, {'shape': [1 << 62]}, {'shape': [1] * 40}, {'data': ['a', 'b']}, {'data': [1]}, {'data': 7},
                       {'data': [1e300, 1]}, {'parameters': {'binary_data_size': 8}}):
            with self.subTest(change):
                self.fails(self.says({'outputs': [{**OUTPUT, **change}]}), 500)
        self.fails(self.says({'outputs': [OUTPUT] * 300}), 500, 'more than 256')

    def test_lengths_that_lie(self):
        binary = {k: v for k, v in OUTPUT.items() if k != 'data'}
        for size, behind, length in ((8, b'', None), (1 << 60, bytes(8), None), (4, bytes(8), None), (8, bytes(9), None),
                                     (-1, bytes(8), None), (8, bytes(8), 10_000), (8, bytes(8), -1), (8, bytes(8), 'x'), (8, bytes(8), 3)):
            text = json.dumps({'outputs': [{**binary, 'parameters': {'binary_data_size': size}}]}).encode()
            field = f'Inference-Header-Content-Length: {len(text) if length is None else length}\r\n'
            self.fails(self.says(text + behind, field), 500)
        text = json.dumps({'outputs': [{**binary, 'parameters': {'binary_data_size': 8}}]}).encode()
        field = f'Inference-Header-Content-Length: {len(text)}\r\n'
        self.origin.behave = lambda sock, *_: sock.sendall(self.says(text + struct.pack('<2f', 3, 4), field))
        self.assertEqual([3.0, 4.0], self.infer().json()['outputs'][0]['data'])

    def test_answers_that_are_too_large(self):
        self.fails(self.says(b'{"outputs": [' + b' ' * (3 << 20) + b']}'), 500, 'bytes of JSON')

        def endless(sock, *_):
            sock.sendall(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
            for _ in range(100):
                sock.sendall(chunk(bytes(1 << 16)))
        self.fails(endless, 500, 'too large')

    def test_errors_keep_their_cause(self):
        self.fails(whole({'error': 'the input is odd'}, '400 Bad Request'), 400, 'the input is odd')
        self.fails(whole({'error': 'busy'}, '429 Too Many Requests', more='Retry-After: 17\r\n'), 429, 'retry after 17')
        self.fails(whole(b'<html>', '502 Bad Gateway', 'text/html'), 503, 'HTTP status 502')
        self.fails(whole({'error': 'no key'}, '401 Unauthorized'), 500, 'no key')

    def test_bytes_that_drip_and_silence(self):
        def drip(sock, *_):
            for byte in whole({'outputs': [OUTPUT]}):
                sock.sendall(bytes([byte]))
                time.sleep(0.05)
        self.fails(drip, 504, 'has not answered within 1s')
        self.fails(lambda *_: None, 504, 'has not answered within 1s')

    def test_connections_that_break(self):
        self.fails(lambda sock, *_: sock.shutdown(2), 503)
        self.fails(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{', 504)
        self.fails(b'SSH-2.0-OpenSSH\r\n\r\n', 503)

    def test_readiness_follows_the_origin(self):
        server = gateway(x=f'origins: {self.origin.url}\nparameters: {{check_interval: 50ms}}\n')
        self.addCleanup(server.stop)
        until(lambda: curl(server.url('/readyz')).status == 200, 'readiness')
        self.origin.ready = False
        until(lambda: curl(server.url('/readyz')).status != 200, 'the end of readiness')
        self.origin.ready = True
        until(lambda: curl(server.url('/readyz')).status == 200, 'readiness')


if __name__ == '__main__':
    harness.main()
