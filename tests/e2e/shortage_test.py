"""Too little memory, too few threads, a full disk: the server refuses work or says in one line why it cannot start."""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import harness
from harness import curl

MIB = 1 << 20


def repository(*models):
    """Without ONNX models: that library's own threads do not survive a lack of memory (getaddrinfo in its telemetry)."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    for model in models:
        shutil.copytree(harness.MODELS / model, folder / model)
    return folder


def started(limit, models):
    """Serves below a limit on its address space. Returns (exit code, what it said); 0 if it served and ended well."""
    command = ['prlimit', f'--as={limit}', str(harness.WEIR), 'serve', str(models), '--listen', '127.0.0.1:0']
    with tempfile.TemporaryFile('w+', dir=harness.scratch()) as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + harness.PATIENCE
        said = ''
        while time.monotonic() < end and process.poll() is None and 'try: curl' not in said:
            time.sleep(0.02)
            said = os.pread(log.fileno(), 1 << 20, 0).decode(errors='replace')
        process.send_signal(signal.SIGTERM)
        code = process.wait(harness.PATIENCE)
        return code, os.pread(log.fileno(), 1 << 20, 0).decode(errors='replace')


@unittest.skipIf(harness.SANITIZED, 'sanitizers reserve more address space than any limit would leave')
class Start(unittest.TestCase):
    def test_it_serves_or_says_in_one_line_what_is_short(self):
        told, served, models = 0, 0, repository('identity', 'chat')
        for limit in (80, 90, 100, 110, 130, 150, 180, 200, 230, 260, 400, 600):
            code, said = started(limit * MIB, models)
            if 'error while loading shared libraries' in said or 'cannot allocate' in said:
                continue  # the loader's own words: the program has not begun
            self.assertIn(code, (0, 1), f'{limit} MiB: {said[-2000:]}')
            if code == 0:
                served += 1
                continue
            told += 1
            line = said.strip().splitlines()[-1]
            self.assertRegex(line, rf'^weir: (there is not enough memory|no thread could be started) within the address space of {limit} MiB '
                             r'\(ulimit -v\): raise the limit')
        self.assertGreater(told, 0)
        self.assertGreater(served, 0)


def vm_size(pid):
    return int(re.search(r'VmSize:\s+(\d+)', pathlib.Path(f'/proc/{pid}/status').read_text())[1]) << 10


@unittest.skipIf(harness.SANITIZED, 'sanitizers reserve more address space than any limit would leave')
class Running(unittest.TestCase):
    """A server whose address space is what it has after its start, and a little more."""

    ROOM = 96 * MIB

    @classmethod
    def setUpClass(cls):
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 46, before[1]))  # what it inherits: it keeps a reserve
        cls.server = harness.Server('--max-body', '1GiB', repository=repository('identity'))
        resource.setrlimit(resource.RLIMIT_AS, before)
        limit = vm_size(cls.server.process.pid) + cls.ROOM
        resource.prlimit(cls.server.process.pid, resource.RLIMIT_AS, (limit, limit))

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f'weir ended with {code}:\n{cls.server.output()[-5000:]}'

    def small(self):
        body = {'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [3], 'data': [1, 2, 3]}]}
        answer = curl(self.server.url('/v2/models/identity/infer'), '-H', 'Content-Type: application/json', data=json.dumps(body))
        self.assertEqual(200, answer.status, answer.body)
        self.assertEqual([1, 2, 3], answer.json()['outputs'][0]['data'])

    def large(self, size, *flags):
        """The status of a request with so many bytes of tensor; 0 where the connection ended without one."""
        head = json.dumps({'inputs': [{'name': 'x', 'datatype': 'UINT8', 'shape': [size], 'parameters': {'binary_data_size': size}}],
                           'outputs': [{'name': 'x', 'parameters': {'binary_data': True}}]}).encode()
        try:
            return curl(self.server.url('/v2/models/identity/infer'), *flags, '-H', f'Inference-Header-Content-Length: {len(head)}',
                        data=head + bytes(size)).status
        except RuntimeError:
            return 0

    def test_a_body_for_which_there_is_no_memory_is_503(self):
        self.assertEqual(503, self.large(2 * self.ROOM))
        self.small()
        self.assertIn(self.large(2 * self.ROOM, '--http2-prior-knowledge'), (503, 0))  # curl 7.88 loses early answers
        self.small()

    def test_a_message_for_which_there_is_no_memory_is_resource_exhausted(self):
        import grpc
        oip, oip_grpc = harness.stubs()('inference')
        with grpc.insecure_channel(self.server.address, options=[('grpc.max_send_message_length', -1)]) as channel:
            stub = oip_grpc.GRPCInferenceServiceStub(channel)
            request = oip.ModelInferRequest(model_name='identity')
            request.inputs.add(name='x', datatype='UINT8', shape=[2 * self.ROOM])
            request.raw_input_contents.append(bytes(2 * self.ROOM))
            with self.assertRaises(grpc.RpcError) as caught:
                stub.ModelInfer(request, timeout=harness.PATIENCE)
            self.assertEqual(grpc.StatusCode.RESOURCE_EXHAUSTED, caught.exception.code(), caught.exception.details())
            self.assertTrue(stub.ServerLive(oip.ServerLiveRequest(), timeout=harness.PATIENCE).live)

    def test_more_bodies_at_once_than_there_is_memory_for_do_not_end_it(self):
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            statuses = list(pool.map(lambda _: self.large(24 * MIB), range(12)))
        self.assertLessEqual(set(statuses), {200, 429, 503}, statuses)
        self.assertIn(200, statuses)
        self.small()


class Disk(unittest.TestCase):
    def said(self, server, words):
        end = time.monotonic() + harness.PATIENCE
        while words not in server.output():
            self.assertLess(time.monotonic(), end, server.output())
            time.sleep(0.02)

    def test_a_full_disk_under_the_access_log_is_said_once_and_so_is_its_end(self):
        log = harness.scratch() / 'access.log'
        log.symlink_to('/dev/full')
        server = harness.Server('--access-log', log)
        for _ in range(5):
            self.assertEqual(200, curl(server.url('/v2')).status)
        self.said(server, 'the access log cannot be written')
        self.assertIn('No space left on device', server.output())
        log.unlink()
        server.process.send_signal(signal.SIGUSR1)
        end = time.monotonic() + harness.PATIENCE
        while not log.exists():
            self.assertLess(time.monotonic(), end)
        self.assertEqual(200, curl(server.url('/v2')).status)
        self.said(server, 'the access log is written again')
        self.assertEqual(0, server.stop())
        self.assertEqual(1, server.output().count('the access log cannot be written'), server.output())
        lost = [int(n) for n in re.findall(r'the access log is written again .*lost_lines=(\d+)\n', server.output())]
        self.assertEqual(1, len(lost), server.output())
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual({'dropped': lost[0]}, lines[0])
        # The last of the five may come after the file was opened again: a line is written after its answer.
        self.assertGreater(lost[0], 0)
        self.assertEqual(6, lost[0] + len(lines) - 1)
        self.assertEqual('/v2', lines[-1]['route'])


class Kept(http.client.HTTPConnection):
    """A connection that is kept."""

    def __init__(self, server):
        super().__init__('127.0.0.1', server.port, timeout=harness.PATIENCE)
        self.connect()

    def ask(self, method, path, body=None, **fields):
        self.request(method, path, body, {'Content-Type': 'application/json', **fields})
        answer = self.getresponse()
        return answer.status, answer.read()


class Descriptors(unittest.TestCase):
    """A server that may open no more descriptors than it has: while it runs, so after everything that it needs to start."""

    INFER = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [3], 'data': [1, 2, 3]}]})

    def setUp(self):
        self.models = repository('identity', 'chat')
        self.server = harness.Server('--control', 'poll', '--jobs-path', tempfile.mkdtemp(dir=harness.scratch()),
                                     repository=self.models, env={'WEIR_MODELS_POLL_INTERVAL': '50ms'})
        self.pid = self.server.process.pid
        self.kept = Kept(self.server)
        self.before = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
        self.infers(self.kept)

    def tearDown(self):
        code = self.server.stop()
        self.assertEqual(0, code, self.server.output()[-5000:])

    def infers(self, kept):
        status, body = kept.ask('POST', '/v2/models/identity/infer', self.INFER)
        self.assertEqual((200, [1, 2, 3]), (status, json.loads(body)['outputs'][0]['data']), body)

    def take(self):
        """No more from here on: descriptors are taken from below, and those above the limit stay."""
        end, before = time.monotonic() + harness.PATIENCE, None
        while (taken := self.descriptors()) != before:  # a scan of the models opens some for a moment
            self.assertLess(time.monotonic(), end, 'its descriptors never are the same twice')
            before = taken
        lowest = next(n for n in itertools.count() if n not in taken)
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (lowest, self.before[1]))

    def descriptors(self):
        return set(map(int, os.listdir(f'/proc/{self.pid}/fd')))

    def give_back(self):
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, self.before)

    def starved(self):
        return int(re.search(rb'weir_accept_starved_total (\d+)', self.kept.ask('GET', '/metrics')[1])[1])

    def test_who_is_connected_is_served_nothing_is_unloaded_and_all_goes_on_afterwards(self):
        self.take()
        end = time.monotonic() + harness.PATIENCE
        with contextlib.ExitStack() as held:  # whoever comes now is told by a close, or waits
            late = [held.enter_context(socket.create_connection(('127.0.0.1', self.server.port))) for _ in range(8)]
            while self.starved() == 0:
                self.assertLess(time.monotonic(), end, 'nobody is refused')
                self.infers(self.kept)
            while not (told := select.select(late, [], [], 0)[0]):
                self.assertLess(time.monotonic(), end, 'nobody is told')
                self.infers(self.kept)
            self.assertEqual({b''}, {peer.recv(1) for peer in told})
        while 'cannot be read' not in self.server.output() and time.monotonic() < end:  # several polls without descriptors
            self.infers(self.kept)
        self.infers(self.kept)
        chat = json.dumps({'model': 'chat', 'max_tokens': 3, 'messages': [{'role': 'user', 'content': 'x'}]})
        self.assertEqual(200, self.kept.ask('POST', '/v1/chat/completions', chat)[0])
        status, body = self.kept.ask('POST', '/v1/files', FORM_BODY, **{'Content-Type': FORM_TYPE})
        self.assertIn(status, (200, 503, 507), body)
        status, body = self.kept.ask('POST', '/v2/models/identity/infer', self.INFER, Prefer='respond-async')
        self.assertIn(status, (202, 503, 507), body)
        self.give_back()
        self.infers(Kept(self.server))
        self.assertEqual(200, self.kept.ask('POST', '/v1/files', FORM_BODY, **{'Content-Type': FORM_TYPE})[0])
        another = repository('identity') / 'identity'
        config = another / 'config.pbtxt'
        config.write_text(config.read_text().replace('name: "identity"', 'name: "another"'))
        another.rename(self.models / 'another')
        while self.kept.ask('GET', '/v2/models/another/ready')[0] != 200:
            self.assertLess(time.monotonic(), end + harness.PATIENCE, 'a model that has come is not loaded')


LARGE = '''
import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        n = int(requests[0].inputs()[0].as_numpy()[0])
        answer = pb_utils.InferenceResponse([pb_utils.Tensor('Y', np.zeros(abs(n), np.uint8))])
        if n < 0:  # of another model, which it asks for as much
            answer, = await asyncio.gather(pb_utils.InferenceRequest(model_name='identity', inputs=answer.output_tensors()).async_exec())
            answer = pb_utils.InferenceResponse([], answer.error())
        return [answer]
'''
STREAM = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        sender = requests[0].get_response_sender()
        n = int(requests[0].inputs()[0].as_numpy()[0])
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('Y', np.zeros(n, np.uint8))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
LARGE_CONFIG = '''name: "%s" backend: "python"
input { name: "N" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "Y" data_type: TYPE_UINT8 dims: [ -1 ] }
'''


class ModelsOfTheirOwn(unittest.TestCase):
    """Answers of a model in a process of its own, which are larger than what memory there is."""

    @classmethod
    def setUpClass(cls):
        models = repository('identity')
        for name, code, more in (('large', LARGE, ''), ('stream', STREAM, 'model_transaction_policy { decoupled: true }')):
            (models / name / '1').mkdir(parents=True)
            (models / name / '1/model.py').write_text(code)
            (models / name / 'config.pbtxt').write_text(LARGE_CONFIG % name + more)
        cls.server = harness.Server('--slab-budget', '64MiB', '--max-body', '16MiB', '--max-message', '16MiB', repository=models,
                                    env={'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.output()[-5000:]

    def ask(self, path, n):
        return curl(self.server.url(path), data=json.dumps({'inputs': [
            {'name': 'N', 'datatype': 'INT32', 'shape': [1], 'data': [n]}], 'outputs': [{'name': 'Y', 'parameters': {'binary_data': True}}]}))

    def test_an_answer_for_which_there_is_no_memory_fails_alone(self):
        for _ in range(2):
            for n in (60 * MIB, -60 * MIB):
                answer = self.ask('/v2/models/large/infer', n)
                self.assertEqual(429, answer.status, answer.body)
                self.assertIn("no memory to share with a model's process", answer.json()['error'])
            self.assertEqual(200, self.ask('/v2/models/large/infer', 5).status)
        self.assertEqual([], self.server.logged('started anew', count=0))

    def test_an_answer_of_a_stream_ends_that_stream(self):
        for n, text in ((5, '"Y"'), (60 * MIB, "no memory to share with a model's process"), (5, '"Y"')) * 2:
            answer = curl(self.server.url('/v2/models/stream/generate_stream'), data=json.dumps({'N': n}))
            self.assertIn(text, answer.body.decode())
        self.assertEqual([], self.server.logged('started anew', count=0))


FORM_TYPE = 'multipart/form-data; boundary=b'
FORM_BODY = (b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
             b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n{}\r\n--b--\r\n')


if __name__ == '__main__':
    harness.main()
