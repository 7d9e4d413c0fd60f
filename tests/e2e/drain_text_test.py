"""SIGTERM while long texts are being tokenized: they are answered all the same, and the process ends with 0."""

import http.client
import json
import pathlib
import re
import signal
import socket
import time
import unittest

import harness
from tiny_model import CONFIG, TOKENIZER, varied, write

import grpc  # noqa: E402

oip, oip_grpc = harness.stubs()('inference')

LENGTH = 100_000  # characters
# Each character is tried as the beginning of a word that never ends: time grows with the square of the length.
SLOW = {'type': 'Sequence', 'pretokenizers': [
    {'type': 'Split', 'pattern': {'Regex': 'a+[bc]'}, 'behavior': 'Isolated'},
    {'type': 'ByteLevel', 'add_prefix_space': False, 'use_regex': False}]}


def repository():
    root = harness.scratch() / 'drain_text'
    if not root.exists():
        files = {'config.json': {**CONFIG, 'eos_token_id': None, 'max_position_embeddings': 2 * LENGTH}, 'model.safetensors': varied(),
                 'tokenizer.json': {**TOKENIZER, 'pre_tokenizer': SLOW}}
        write(root, 'slow', files, 'kv_cache: 64MiB, threads: 1')
    return root


class DrainText(unittest.TestCase):
    def start(self, *flags):
        self.server = harness.Server('--drain-delay', '0ms', *flags, repository=repository())
        self.addCleanup(lambda server=self.server: server.process.poll() is None and server.stop(signal.SIGKILL))

    def ask(self, path, fields):
        connection = http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=3 * harness.PATIENCE)
        connection.request('POST', path, json.dumps(fields), {'Content-Type': 'application/json'})
        self.addCleanup(connection.close)
        return connection

    def wait_until_all_are_here(self, count):
        """The heads of that many requests and all or nearly all of their texts have been read, and a worker has begun."""
        end = time.monotonic() + harness.PATIENCE
        while True:
            text = harness.curl(self.server.url('/metrics')).body.decode()
            read = sum(map(float, re.findall(r'(?m)^weir_received_bytes_total\S* (\S+)$', text)))
            workers = [t for t in pathlib.Path(f'/proc/{self.server.process.pid}/task').iterdir()
                       if (t / 'comm').read_text().strip() == 'worker']
            if workers and read >= count * LENGTH:
                return
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_what_is_being_tokenized_is_answered(self):
        self.start()
        text = 'a' * LENGTH
        asked = [self.ask('/tokenize', {'model': 'slow', 'prompt': text}),
                 self.ask('/v1/completions', {'model': 'slow', 'prompt': text, 'max_tokens': 2}),
                 self.ask('/v1/completions', {'model': 'slow', 'prompt': text, 'max_tokens': 2, 'stream': True}),
                 self.ask('/v2/models/slow/generate', {'text_input': text, 'max_tokens': 2}),
                 self.ask('/v2/models/slow/infer', {'inputs': [{'name': 'text_input', 'datatype': 'BYTES', 'shape': [1], 'data': [text]}],
                                                    'parameters': {'max_tokens': 2}})]
        with grpc.insecure_channel(self.server.address) as channel:
            request = oip.ModelInferRequest(model_name='slow')
            request.inputs.add(name='text_input', datatype='BYTES', shape=[1]).contents.bytes_contents.append(text.encode())
            request.parameters['max_tokens'].int64_param = 2
            call = oip_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(request, timeout=3 * harness.PATIENCE)
            self.wait_until_all_are_here(len(asked) + 1)
            self.server.process.send_signal(signal.SIGTERM)
            answers = [(a.status, a.read().decode()) for a in (c.getresponse() for c in asked)]
            self.assertEqual(1, len(call.result().raw_output_contents))
        self.assertEqual([200] * len(asked), [status for status, _ in answers], answers)
        self.assertEqual(LENGTH, json.loads(answers[0][1])['count'])
        self.assertEqual(LENGTH, json.loads(answers[1][1])['usage']['prompt_tokens'])
        self.assertTrue(answers[2][1].endswith('data: [DONE]\n\n'), answers[2][1][-200:])
        self.assertEqual(0, self.server.process.wait(harness.PATIENCE), self.server.output()[-3000:])

    def test_clients_that_have_left_hold_nothing_up(self):
        self.start()
        for _ in range(4):
            data = json.dumps({'model': 'slow', 'prompt': 'a' * LENGTH}).encode()
            with socket.create_connection(('127.0.0.1', self.server.port)) as s:
                s.sendall(f'POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n'.encode() + data)
                self.wait_until_all_are_here(0)
        self.assertEqual(0, self.server.stop(), self.server.output()[-3000:])

    def test_a_time_limit_ends_them_in_order(self):
        self.start('--drain-timeout', '10ms')
        asked = [self.ask('/tokenize', {'model': 'slow', 'prompt': 'a' * LENGTH}) for _ in range(4)]
        self.wait_until_all_are_here(len(asked))
        self.assertEqual(0, self.server.stop(), self.server.output()[-3000:])
        for connection in asked:
            try:
                self.assertIn(connection.getresponse().status, (200, 503))
            except (http.client.HTTPException, ConnectionError):
                pass


if __name__ == '__main__':
    harness.main()
