"""Tensors in POSIX shared memory: what clients put there, and what hostile clients do with it beside healthy ones."""

import json
import os
import random
import socket
import struct
import tempfile
import threading
import time

import grpc

import harness

oip, oip_grpc = harness.stubs()('inference')
SHM = '/dev/shm/'
PREFIX = f'weir_e2e_{os.getpid()}_'


class Object:
    """A shared memory object, by its file."""

    def __init__(self, name, size):
        self.key = '/' + PREFIX + name
        self.path = SHM + PREFIX + name
        self.file = open(self.path, 'w+b', buffering=0)
        self.file.truncate(size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def write(self, offset, data):
        os.pwrite(self.file.fileno(), data, offset)

    def read(self, offset, size):
        return os.pread(self.file.fileno(), size, offset)


def place(region, size, offset=0):
    return {'shared_memory_region': region, 'shared_memory_byte_size': size, 'shared_memory_offset': offset}


def registration(name, key, size):
    body = json.dumps({'key': key, 'byte_size': size})
    return (f'POST /v2/systemsharedmemory/region/{name}/register HTTP/1.1\r\nhost: localhost\r\n'
            f'content-length: {len(body)}\r\n\r\n{body}').encode()


class SharedMemory(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.channel = grpc.insecure_channel(cls.server.address)
        cls.stub = oip_grpc.GRPCInferenceServiceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        super().tearDownClass()

    def tearDown(self):
        self.assertEqual(200, self.post('unregister').status)

    def post(self, action, body=None):
        url = self.server.url('/v2/systemsharedmemory/' + action)
        return harness.curl(url, '-X', 'POST', data=json.dumps(body or {}).encode())

    def register(self, name, key, size, offset=0):
        return self.post(f'region/{name}/register', {'key': key, 'byte_size': size, 'offset': offset})

    def infer(self, model, inputs, outputs=()):
        body = {'inputs': inputs, 'outputs': list(outputs)}
        return harness.curl(self.server.url(f'/v2/models/{model}/infer'), data=json.dumps(body).encode())

    def healthy(self):
        answer = self.infer('identity', [{'name': 'INPUT0', 'shape': [1], 'datatype': 'FP32', 'data': [1]}])
        self.assertEqual(200, answer.status, answer.body)

    def test_a_model_reads_its_inputs_from_a_region_and_writes_its_outputs_to_one(self):
        with Object('io', 8192) as o:
            o.write(4096, struct.pack('<32i', *range(16), *[1] * 16))
            self.assertEqual(200, self.register('io', o.key, 4096, 4096).status)
            inputs = [{'name': f'INPUT{i}', 'shape': [1, 16], 'datatype': 'INT32', 'parameters': place('io', 64, 64 * i)}
                      for i in (0, 1)]
            outputs = [{'name': f'OUTPUT{i}', 'parameters': place('io', 64, 1024 + 64 * i)} for i in (0, 1)]
            answer = self.infer('simple', inputs, outputs)
            self.assertEqual(200, answer.status, answer.body)
            self.assertEqual([{'name': f'OUTPUT{i}', 'datatype': 'INT32', 'shape': [1, 16]} for i in (0, 1)],
                             answer.json()['outputs'])
            self.assertEqual((*range(1, 17), *range(-1, 15)), struct.unpack('<32i', o.read(4096 + 1024, 128)))

    def test_what_was_registered_over_rest_is_used_over_grpc(self):
        with Object('grpc', 4096) as o:
            o.write(0, struct.pack('<4f', 1, 2, 3, 4))
            self.assertEqual(200, self.register('grpc', o.key, 4096).status)
            request = oip.ModelInferRequest(model_name='identity')
            tensor = request.inputs.add(name='INPUT0', datatype='FP32', shape=[4])
            out = request.outputs.add(name='INPUT0')
            for to, offset in ((tensor, 0), (out, 100)):
                to.parameters['shared_memory_region'].string_param = 'grpc'
                to.parameters['shared_memory_byte_size'].int64_param = 16
                to.parameters['shared_memory_offset'].int64_param = offset
            answer = self.stub.ModelInfer(request, timeout=harness.PATIENCE)
            self.assertEqual([b''], list(answer.raw_output_contents))
            self.assertEqual(o.read(0, 16), o.read(100, 16))
            status = self.stub.SystemSharedMemoryStatus(oip.SystemSharedMemoryStatusRequest(), timeout=harness.PATIENCE)
            self.assertEqual(o.key, status.regions['grpc'].key)
            self.stub.SystemSharedMemoryUnregister(oip.SystemSharedMemoryUnregisterRequest(name='grpc'))
            self.assertEqual({}, dict(self.stub.SystemSharedMemoryStatus(oip.SystemSharedMemoryStatusRequest()).regions))
            metadata = self.stub.ServerMetadata(oip.ServerMetadataRequest())
            self.assertIn('system_shared_memory', metadata.extensions)

    def test_objects_that_shrink_and_grow_under_running_requests_end_no_server(self):
        size, rounds = 4 << 20, 60
        with Object('shrinks', size) as o:
            over = threading.Event()

            def shrink():
                chance = random.Random(7)
                while not over.is_set():
                    o.file.truncate(chance.choice((0, 1, 4096, size // 2, size)))

            def ask(kind, parameters, outputs):
                for i in range(rounds):
                    if i % 5 == 0:
                        o.file.truncate(size)
                        self.post(f'region/{kind}/unregister')
                        self.register(kind, o.key, size)
                    count = size // 2 // {'FP32': 4, 'INT64': 8}[kind]
                    answer = self.infer('identity', [{'name': 'INPUT0', 'shape': [count], 'datatype': kind,
                                                      'parameters': parameters}], outputs)
                    self.assertIn(answer.status, (200, 400, 404), answer.body[:200])

            shrinker = threading.Thread(target=shrink)
            shrinker.start()
            try:
                kinds = ('FP32', 'INT64')
                with harness.threads(2, lambda i: ask(kinds[i], place(kinds[i], size // 2), [
                        {'name': 'INPUT0', 'parameters': place(kinds[i], size // 2, size // 2)}])):
                    pass
            finally:
                over.set()
                shrinker.join()
            self.healthy()

    def test_objects_that_are_unlinked_or_overlap_still_work(self):
        with Object('gone', 4096) as o:
            o.write(0, struct.pack('<2f', 5, 6))
            for name, offset in (('a', 0), ('b', 4)):
                self.assertEqual(200, self.register(name, o.key, 64, offset).status)
            os.unlink(o.path)
            answer = self.infer('identity', [{'name': 'INPUT0', 'shape': [2], 'datatype': 'FP32', 'parameters': place('a', 8)}],
                                [{'name': 'INPUT0', 'parameters': place('b', 8)}])
            self.assertEqual(200, answer.status, answer.body)
            self.assertEqual((5, 5, 6), struct.unpack('<3f', o.read(0, 12)))
            self.assertEqual(500, self.register('c', o.key, 64).status)

    def test_what_is_no_shared_memory_object_is_refused(self):
        os.mkfifo(SHM + PREFIX + 'fifo')
        os.mkdir(SHM + PREFIX + 'dir')
        os.symlink('/etc/passwd', SHM + PREFIX + 'link')
        try:
            for key in ('fifo', 'dir', 'link', '../../etc/passwd', 'x' * 300, ''):
                answer = self.register('r', '/' + PREFIX + key, 1)
                self.assertIn(answer.status, (400, 500), (key[:20], answer.body))
            self.assertEqual(413, self.register('r', '/' + PREFIX + 'x' * (1 << 20), 1).status)  # control bodies are small
        finally:
            os.unlink(SHM + PREFIX + 'fifo')
            os.rmdir(SHM + PREFIX + 'dir')
            os.unlink(SHM + PREFIX + 'link')
        self.assertEqual([], harness.curl(self.server.url('/v2/systemsharedmemory/status')).json())
        self.healthy()

    def test_a_hundred_thousand_registrations_leave_descriptors_and_memory_as_they_were(self):
        with Object('many', 1 << 20) as o:
            fds = self.server.fds()

            requests = 100_000

            def send(sock):
                for at in range(0, requests, 1000):
                    sock.sendall(b''.join(registration(f'r{i}', o.key, 1 << 20) for i in range(at, at + 1000)))

            with socket.create_connection(('127.0.0.1', self.server.port), timeout=harness.PATIENCE) as sock:
                sender = threading.Thread(target=send, args=(sock,))
                sender.start()
                answers, accepted, rest = 0, 0, b''
                while answers < requests:
                    data = rest + sock.recv(1 << 20)
                    answers += data.count(b'HTTP/1.1 200') + data.count(b'HTTP/1.1 429')
                    accepted += data.count(b'HTTP/1.1 200')
                    rest = data[-11:]  # shorter than what is counted
                sender.join()
            self.assertEqual(512, accepted)
            self.healthy()
            self.assertEqual(200, self.post('unregister').status)
            self.assertEqual(200, self.register('r', o.key, 64).status)
            end = time.monotonic() + harness.PATIENCE  # a thread of its own closes them
            while self.server.fds() >= fds + 20 and time.monotonic() < end:
                time.sleep(0.02)
            self.assertLess(self.server.fds(), fds + 20)

    def test_it_can_be_turned_off(self):
        with tempfile.TemporaryDirectory(dir=harness.scratch()) as folder, Object('off', 4096) as o:
            config = os.path.join(folder, 'weir.yaml')
            with open(config, 'w') as f:
                f.write(f'models:\n  repository: {harness.MODELS}\noip:\n  shared_memory: false\n')
            server = harness.Server(config=config)
            url = server.url('/v2/systemsharedmemory/')
            answer = harness.curl(url + 'region/r/register', data=json.dumps({'key': o.key, 'byte_size': 1}))
            self.assertEqual(501, answer.status)
            self.assertEqual([], harness.curl(url + 'status').json())
            self.assertEqual(200, harness.curl(url + 'unregister', data=b'').status)
            self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main()
