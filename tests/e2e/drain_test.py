"""SIGTERM under load: whatever was accepted is answered, then the process ends with 0. A second signal ends it at once."""

import contextlib
import http.client
import json
import signal
import socket
import struct
import sys
import threading
import time
import unittest

import harness

import grpc

oip, oip_grpc = harness.stubs()('inference')
ONE = json.dumps({'inputs': [{'name': 'INPUT', 'datatype': 'FP32', 'shape': [1, 4], 'data': [1, 2, 3, 4]}]})
BODY = json.dumps({'inputs': [{'name': 'INPUT0', 'datatype': 'FP32', 'shape': [2], 'data': [1.5, 2.5]}]})


def slow_repository(delay_us):
    repository = harness.scratch() / f'slow-{delay_us}'
    (repository / 'slow').mkdir(parents=True, exist_ok=True)
    (repository / 'slow/config.pbtxt').write_text(
        f'backend: "identity"\nparameters {{ key: "delay_us" value {{ string_value: "{delay_us}" }} }}\n')
    return repository


class Drain(unittest.TestCase):
    def test_no_accepted_http1_request_fails(self):
        server = harness.Server('--drain-delay', '300ms', repository=slow_repository(2000))
        done, refused, wrong = [0] * 8, [0] * 8, []
        stop = threading.Event()

        def client(i):
            connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=harness.PATIENCE)
            fresh = True
            while not stop.is_set():
                try:
                    connection.request('POST', '/v2/models/slow/infer', BODY, {'Content-Type': 'application/json'})
                    answer = connection.getresponse()
                    data = answer.read()
                    if answer.status != 200 or json.loads(data)['outputs'][0]['data'] != [1.5, 2.5]:
                        wrong.append((answer.status, data))
                    done[i] += 1
                    if answer.headers.get('Connection') == 'close':
                        connection.close()
                        fresh = True
                        continue
                    fresh = False
                except ConnectionRefusedError:
                    refused[i] += 1
                    return
                except (ConnectionError, http.client.HTTPException):
                    if not fresh:  # a kept-alive connection that the server closed while it was idle: not accepted
                        connection.close()
                        fresh = True
                        continue
                    refused[i] += 1  # a connection that came too late to be accepted
                    return

        with harness.threads(8, client):
            time.sleep(0.5)
            code = server.stop()
            stop.set()
        self.assertEqual(0, code, server.output()[-3000:])
        self.assertEqual([], wrong)
        self.assertGreater(sum(done), 50)

    def test_no_accepted_grpc_call_fails(self):
        server = harness.Server('--drain-delay', '300ms', repository=slow_repository(2000))
        channel = grpc.insecure_channel(server.address, [('grpc.enable_retries', 0)])
        stub = oip_grpc.GRPCInferenceServiceStub(channel)
        r = oip.ModelInferRequest(model_name='slow')
        r.inputs.add(name='INPUT0', datatype='FP32', shape=[1])
        r.raw_input_contents.append(struct.pack('<f', 1))
        wrong, done = [], [0]
        stop = threading.Event()

        def client(_):
            while not stop.is_set():
                try:
                    stub.ModelInfer(r, timeout=harness.PATIENCE)
                    done[0] += 1
                except grpc.RpcError as error:
                    gone = error.code() == grpc.StatusCode.UNAVAILABLE and \
                        any(word in error.details() for word in ('connect', 'GOAWAY', 'refused', 'closed', 'drain'))
                    if not gone:
                        wrong.append((error.code(), error.details()))
                    return

        with harness.threads(8, client):
            time.sleep(0.5)
            code = server.stop()
            stop.set()
        channel.close()
        self.assertEqual(0, code, server.output()[-3000:])
        self.assertEqual([], wrong)
        self.assertGreater(done[0], 50)

    def test_a_request_in_flight_is_answered_and_readiness_falls_first(self):
        server = harness.Server('--drain-delay', '500ms', repository=slow_repository(1_500_000))
        slow = http.client.HTTPConnection('127.0.0.1', server.port, timeout=harness.PATIENCE)
        slow.request('POST', '/v2/models/slow/infer', BODY, {'Content-Type': 'application/json'})
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        probe = http.client.HTTPConnection('127.0.0.1', server.port, timeout=harness.PATIENCE)
        probe.request('GET', '/readyz')
        self.assertEqual(503, probe.getresponse().status)
        self.assertEqual(200, slow.getresponse().status)
        probe.close()
        slow.close()
        self.assertEqual(0, server.process.wait(harness.PATIENCE))
        server.log.close()

    def test_loads_do_not_hold_up_the_end(self):
        repository = harness.scratch() / 'endless-loads'
        for name in ('first', 'second'):
            (repository / name / '1').mkdir(parents=True, exist_ok=True)
            (repository / name / '1/model.py').write_text(
                'import pathlib, time\n\nclass TritonPythonModel:\n    def execute(self, requests):\n        return []\n\n'
                '    def initialize(self, args):\n'
                f'        pathlib.Path({str(repository / name)!r}, "begun").touch()\n        time.sleep(1000)\n')
            (repository / name / 'config.pbtxt').write_text('backend: "python"\n')
        server = harness.Server('--control', 'explicit', '--drain-delay', '0s', '--drain-timeout', '1s',
                                repository=repository, env={
                                    'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable, 'WEIR_MODELS_LOAD_THREADS': '1'})
        loads = [http.client.HTTPConnection('127.0.0.1', server.port, timeout=harness.PATIENCE) for _ in range(2)]
        for load, name in zip(loads, ('first', 'second')):
            load.request('POST', f'/v2/repository/models/{name}/load', '{}')
            until = time.monotonic() + harness.PATIENCE
            while name == 'first' and not (repository / 'first/begun').exists() and time.monotonic() < until:
                time.sleep(0.01)
        self.assertTrue((repository / 'first/begun').exists(), server.output()[-3000:])
        self.assertEqual(0, server.stop(), 'it ends long before a load does')
        self.assertFalse((repository / 'second/begun').exists())
        for load in loads:
            load.close()

    def test_a_second_signal_ends_at_once_whatever_the_first_waits_for(self):
        with socket.create_server(('127.0.0.1', 0)) as collector:  # it takes connections, and answers nothing
            server = harness.Server('--tracing-otlp', 'http://127.0.0.1:%d' % collector.getsockname()[1])
            self.assertEqual(200, harness.curl(server.url('/v2/models/identity/infer'), data=ONE).status)
            server.process.send_signal(signal.SIGTERM)
            server.logged('shutting down')
            until = time.monotonic() + harness.PATIENCE
            with contextlib.suppress(ConnectionError):
                while time.monotonic() < until:
                    socket.create_connection(('127.0.0.1', server.port)).close()
            time.sleep(0.3)  # the shards have ended: the last spans are being sent
            self.assertEqual(128 + signal.SIGTERM, server.stop())

    def test_a_collector_that_is_silent_holds_the_end_up_for_seconds_at_most(self):
        with socket.create_server(('127.0.0.1', 0)) as collector:
            server = harness.Server('--tracing-otlp', 'http://127.0.0.1:%d' % collector.getsockname()[1])
            self.assertEqual(200, harness.curl(server.url('/v2/models/identity/infer'), data=ONE).status)
            began = time.monotonic()
            self.assertEqual(0, server.stop())
            self.assertLess(time.monotonic() - began, 7)  # the request may take 10 s, tracing.timeout

    def test_clients_that_pipeline_meet_a_drain(self):
        server = harness.Server('--drain-delay', '1s')
        connections = [socket.create_connection(('127.0.0.1', server.port), timeout=harness.PATIENCE) for _ in range(20)]
        get = b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
        for c in connections:
            c.sendall(get)
            self.assertRegex(c.recv(4096), rb'^HTTP/1.1 200 ')
        server.process.send_signal(signal.SIGTERM)
        closed = 0
        for c in connections:
            said = b''
            with contextlib.suppress(ConnectionError):
                while b'connection: close' not in said:
                    c.sendall(get + get)
                    said += c.recv(65536)
                c.sendall(b'\r\n')
                while more := c.recv(65536):
                    said += more
            c.close()
            closed += b'connection: close' in said
            self.assertEqual(said.count(b'HTTP/1.1 '), said.count(b'HTTP/1.1 200 '))
        self.assertGreater(closed, 0, 'no connection was told of the drain')
        self.assertEqual(0, server.process.wait(harness.PATIENCE), server.output()[-3000:])
        server.log.close()

    def test_a_second_signal_ends_it_at_once(self):
        server = harness.Server('--drain-delay', '60s')
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        self.assertIsNone(server.process.poll())
        begun = time.monotonic()
        server.stop()
        self.assertLess(time.monotonic() - begun, 5)


if __name__ == '__main__':
    harness.main()
