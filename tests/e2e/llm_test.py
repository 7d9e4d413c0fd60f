"""The llm engine through the tensor protocol: text in, text out; the same text alone and in any company; cut streams."""

import concurrent.futures
import json
import re
import socket
import time
import urllib.request

import harness

WORDS = ['The history of Debian', 'This package', 'A library for', 'Usage: ls', 'In the beginning', 'x',
         'This package contains a long description. ' * 6, 'man page']


class Llm(harness.Case):
    def ask(self, path, **body):
        request = urllib.request.Request(self.server.url(path), json.dumps(body).encode(),
                                         {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request, timeout=harness.PATIENCE * 3) as answer:
            return json.load(answer)

    def generate(self, i):
        return self.ask('/v2/models/chat/generate', text_input=f'{WORDS[i % len(WORDS)]} {i}', max_tokens=8 + i,
                        temperature=i % 2, seed=i, ignore_eos=True)['text_output']

    def test_text_goes_in_and_out_as_tensors(self):
        answer = self.ask('/v2/models/chat/infer', parameters={'max_tokens': 5, 'temperature': 0, 'ignore_eos': True}, inputs=[
            {'name': 'text_input', 'datatype': 'BYTES', 'shape': [1], 'data': ['The history of Debian']}])
        self.assertEqual(answer['parameters']['completion_tokens'], 5)
        self.assertEqual(answer['parameters']['finish_reason'], 'length')
        self.assertTrue(answer['outputs'][0]['data'][0])

    def test_32_together_say_what_each_says_alone(self):
        alone = [self.generate(i) for i in range(32)]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            self.assertEqual(list(pool.map(self.generate, range(32))), alone)

    def test_streams_that_are_cut_give_back_their_blocks(self):
        body = json.dumps({'text_input': 'This package', 'max_tokens': 400, 'ignore_eos': True}).encode()
        for i in range(20):
            with socket.create_connection(('127.0.0.1', self.server.port)) as s:
                s.sendall(b'POST /v2/models/chat/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'
                          b'Content-Length: %d\r\n\r\n' % len(body) + body)
                s.recv(1 + 37 * i)
        end = time.monotonic() + harness.PATIENCE
        used = None
        while time.monotonic() < end and used != 0:
            with urllib.request.urlopen(self.server.url('/metrics'), timeout=harness.PATIENCE) as page:
                used = int(re.search(r'weir_model_kv_blocks\{model="chat",version="1",state="used"\} (\d+)',
                                     page.read().decode())[1])
        self.assertEqual(used, 0)


if __name__ == '__main__':
    harness.main()
