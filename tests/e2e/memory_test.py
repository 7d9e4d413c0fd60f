"""All memory that clients cause has one total: answers, asides and scratch beside slabs. Measured as the process's RSS."""

import gzip
import json
import pathlib
import re
import socket
import struct
import time

import grpc
import harness
from h2_peer import DATA, END_HEADERS, HEADERS, PREFACE, SETTINGS, field, frame

MIB = 1 << 20
BUDGET = 256 * MIB
WHOLE = 48 * MIB - 4096  # a body that takes a slab of 48 MiB; four of them are 75 % of the budget
INFER = '/v2/models/identity/infer'


def post(path, body, *fields):
    lines = [f'POST {path} HTTP/1.1', 'Host: a', f'Content-Length: {len(body)}', *fields, '', '']
    return '\r\n'.join(lines).encode() + body


def binary_infer(size, answer):
    """`size` bytes as BOOL; the answer in binary or as JSON, five characters for each."""
    head = json.dumps({'inputs': [{'name': 'x', 'datatype': 'BOOL', 'shape': [size], 'parameters': {'binary_data_size': size}}],
                       'parameters': {'binary_data_output': answer == 'binary'}}).encode()
    return f'Inference-Header-Content-Length: {len(head)}', head + bytes(size)


class Memory(harness.Case):
    serve = ('--slab-budget', '256MiB')

    def setUp(self):
        self.peers = []
        self.status('clear_refs', '5')  # puts VmHWM back
        self.before = self.server.rss()

    def tearDown(self):
        for peer in self.peers:
            peer.close()
        self.eventually(lambda: self.curl('/readyz').status == 200)

    def status(self, name, write=None):
        path = pathlib.Path(f'/proc/{self.server.process.pid}/{name}')
        return path.write_text(write) if write else path.read_text()

    def peak(self):
        return int(re.search(r'VmHWM:\s+(\d+)', self.status('status'))[1]) << 10

    def curl(self, path, *args, data=None):
        return harness.curl(self.server.url(path), *args, data=data)

    def eventually(self, holds):
        end = time.monotonic() + harness.PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def connect(self, receive_buffer=4096):
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        peer.settimeout(harness.PATIENCE)
        peer.connect(('127.0.0.1', self.server.port))
        self.addCleanup(peer.close)
        self.peers.append(peer)
        return peer

    def send(self, peer, octets):
        try:
            peer.sendall(octets)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass  # refused, or held back until it was cut off

    def within(self):
        if harness.SANITIZED:
            return
        limit = self.before + BUDGET * 11 // 10 + 64 * MIB
        self.assertLessEqual(self.peak(), limit, f'{(self.peak() - self.before) // MIB} MiB for a budget of {BUDGET // MIB}')

    def gauge(self, name):
        text = self.curl('/metrics').body.decode()
        return next(float(line.rsplit(' ', 1)[1]) for line in text.splitlines() if line.startswith(name))


class Bounded(Memory):
    def test_json_answers_that_are_not_read(self):
        head, body = binary_infer(30 * MIB, 'json')
        packed = post(INFER, gzip.compress(body, 1), 'Content-Type: application/json', 'Content-Encoding: gzip', head)
        for _ in range(10):  # 150 MiB of text each
            self.send(self.connect(), packed)
        self.within()

    def test_json_answers_of_grps_that_are_not_read(self):
        cells = [round(i / 7, 4) for i in range(2_000_000)] * 2
        body = json.dumps({'gtensors': {'tensors': [{'name': 'x', 'dtype': 'DT_FLOAT32', 'shape': [len(cells)], 'flat_float32': cells}]}}).encode()
        packed = post('/grps/v1/infer/predict?model=identity', gzip.compress(body, 1), 'Content-Type: application/json', 'Content-Encoding: gzip')
        for _ in range(10):
            self.send(self.connect(), packed)
        self.within()

    def test_json_forms_of_calls(self):
        cells = [i * 2654435761 % 1_000_003 for i in range(3_000_000)]
        call = {'model_name': 'identity', 'inputs': [{'name': 'x', 'datatype': 'INT64', 'shape': [len(cells)], 'contents': {'int64_contents': cells}}]}
        packed = post('/inference.GRPCInferenceService/ModelInfer', gzip.compress(json.dumps(call).encode(), 1),
                      'Content-Type: application/json', 'Content-Encoding: gzip')
        for _ in range(6):
            self.send(self.connect(), packed)
        self.within()


class Spent(Memory):
    """Bodies that do not come to their ends hold what there is; nothing cuts their senders off."""
    serve = (*Memory.serve, '--limits-min-body-rate', '0', '--limits-client-share', '100', '--overload-shrink', '60', '--overload-close', '65',
             '--overload-refuse', '70')

    def setUp(self):
        super().setUp()
        head, body = binary_infer(WHOLE, 'binary')
        for _ in range(4):
            peer = self.connect()
            self.send(peer, post(INFER, body, 'Content-Type: application/json', head)[:-1])
        self.eventually(lambda: self.curl('/readyz').status == 503)

    def test_readiness_says_so_and_life_goes_on(self):
        ready = self.curl('/readyz')
        self.assertRegex(ready.body.decode(), r'memory is short: \d+MiB of 256MiB \(limits.slab_budget\)')
        self.assertEqual(200, self.curl('/v2/health/live').status)
        self.assertEqual(200, self.curl('/livez').status)
        self.assertNotEqual(200, self.curl('/v2/health/ready').status)
        oip, rpc = harness.stubs()('inference')
        with grpc.insecure_channel(self.server.address) as channel:
            stub = rpc.GRPCInferenceServiceStub(channel)
            self.assertTrue(stub.ServerLive(oip.ServerLiveRequest()).live)
            self.assertFalse(stub.ServerReady(oip.ServerReadyRequest()).ready)
        self.assertGreaterEqual(self.gauge('weir_tracked_bytes{kind="slabs"}'), 4 * WHOLE)
        self.assertGreaterEqual(self.gauge('weir_overload_step'), 3)

    def test_work_is_refused_in_each_protocols_own_words(self):
        small = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]})
        for path, body in ((INFER, small), ('/v1/chat/completions', json.dumps({'model': 'chat', 'messages': [{'role': 'user', 'content': 'hi'}]})),
                           ('/inference.GRPCInferenceService/ModelInfer', json.dumps({'model_name': 'identity', 'inputs': [
                               {'name': 'x', 'datatype': 'INT32', 'shape': [1], 'contents': {'int_contents': [1]}}]}))):
            answer = self.curl(path, '-H', 'Content-Type: application/json', data=body)
            self.assertEqual((503, '1'), (answer.status, answer.headers.get('retry-after')), path)
            self.assertIn(b'memory is short', answer.body)
        message = self.curl('/v1/chat/completions', '-H', 'Content-Type: application/json', data=body).json()
        self.assertIn('error', message)
        oip, rpc = harness.stubs()('inference')
        with grpc.insecure_channel(self.server.address) as channel:
            request = oip.ModelInferRequest(model_name='identity', raw_input_contents=[struct.pack('<i', 1)])
            request.inputs.add(name='x', datatype='INT32', shape=[1])
            with self.assertRaises(grpc.RpcError) as refused:
                rpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=harness.PATIENCE)
        self.assertEqual(grpc.StatusCode.RESOURCE_EXHAUSTED, refused.exception.code())

    def test_what_waits_for_a_slab_is_bounded(self):
        """20 HTTP/2 connections that use all of their receive windows: 320 MiB."""
        length = str(40 * MIB)
        head = b''.join(field(n, v) for n, v in ((':method', 'POST'), (':scheme', 'http'), (':path', INFER), (':authority', 'a'),
                                                 ('content-length', length)))
        for _ in range(20):
            peer = self.connect()
            peer.settimeout(1)
            self.send(peer, PREFACE + frame(SETTINGS, 0, 0, b'') + b''.join(frame(HEADERS, END_HEADERS, i, head) for i in range(1, 33, 2)))
            for i in range(1, 33, 2):
                self.send(peer, b''.join(frame(DATA, 0, i, bytes(16384)) for _ in range(63)))
        self.within()

    def test_it_comes_back(self):
        for peer in self.peers:
            peer.close()
        self.eventually(lambda: self.curl('/readyz').status == 200)
        small = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]})
        self.assertEqual(200, self.curl(INFER, data=small).status)
        self.eventually(lambda: self.gauge('weir_overload_step') == 0)


if __name__ == '__main__':
    harness.main()
