"""Origins of texts, by hand, that fail while others of their calls go on, or behind the end of an answer."""

import json
import pathlib
import socket
import tempfile
import time
import unittest

import harness
from completion_origin import END, Origin, delta, event, head
from forward_test import until
from forward_text_test import MODEL, completion, tokenizer_folder
from harness import curl

USAGE = {'choices': [], 'usage': {'prompt_tokens': 4, 'completion_tokens': 2}}


class Faults(unittest.TestCase):
    def start(self, *origins, more=''):
        """A server of one shard, so that all calls share what there is to share."""
        root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        (root / MODEL).mkdir()
        (root / MODEL / 'model.yaml').write_text(
            f'engine: forward\nkind: openai\norigins: [{", ".join(o.url for o in origins)}]\n'
            f'parameters: {{tokenizer: {tokenizer_folder()}, check_interval: 60s{more}}}\n')
        server = harness.Server('--shards', 1, repository=root)
        self.addCleanup(lambda: self.assertEqual(0, server.stop(), server.output()[-5000:]))
        for origin in origins:
            self.addCleanup(origin.close)
        until(lambda: curl(server.url('/readyz')).status == 200, 'readiness')
        return server

    def test_a_client_that_has_enough_gives_nobody_else_more_time(self):
        origin = Origin()
        server = self.start(origin, more=', answer_timeout: 1s')
        # One call is never answered; those beside it have their stop string with the first part, and end by it.
        origin.behave = lambda sock, fields, request: None if request['prompt'] == list(b'silent') else sock.sendall(
            head() + event(delta('ab', [97, 98])))
        answers, end = [], time.monotonic() + harness.PATIENCE
        with harness.threads(1, lambda _: answers.append(completion(server, prompt='silent'))):
            until(lambda: origin.seen, 'the call')
            while not answers and time.monotonic() < end:
                self.assertEqual('a', completion(server, stop=['b']).json()['choices'][0]['text'])
        self.assertEqual(504, answers[0].status, answers[0].body)
        self.assertIn('has not answered within 1s', answers[0].json()['error']['message'])

    def test_an_origin_that_stops_listening_while_a_stream_runs(self):
        stops, other = Origin(), Origin()
        held = []
        stops.behave = lambda sock, *_: (sock.sendall(head() + event(delta('a', [97]))), held.append(sock))
        server = self.start(stops, other)
        body = json.dumps({'model': MODEL, 'prompt': 'Once', 'max_tokens': 24, 'stream': True}).encode()
        while not held:  # which origin a call goes to is chance
            client = socket.create_connection(('127.0.0.1', server.port), timeout=harness.PATIENCE)
            self.addCleanup(client.close)
            client.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n'
                           b'Content-Length: %d\r\n\r\n' % len(body) + body)
            until(lambda: held or b'[DONE]' in client.recv(1 << 16, socket.MSG_PEEK), 'an answer')
        stops.listener.shutdown(socket.SHUT_RDWR)
        stops.listener.close()
        for _ in range(30):
            self.assertEqual(200, completion(server).status)
        # The stream is none the worse for it.
        held[0].sendall(event(delta('b', [98], 'stop')) + END)
        with client.makefile('rb') as stream:
            self.assertIn(b'[DONE]', stream.read())

    def test_what_breaks_behind_the_end_of_a_text_takes_nothing_from_it(self):
        origins = [Origin(), Origin()]
        server = self.start(*origins, more=', answer_timeout: 1s')
        text, done = event(delta('ab', [97, 98], 'stop')), event(b'[DONE]')
        for ended in (text, text + event(USAGE), text + event(USAGE) + done):
            for end in (lambda sock: sock.shutdown(socket.SHUT_RDWR), lambda sock: sock.sendall(b'zz\r\n'), lambda sock: None):
                for origin in origins:
                    origin.behave = lambda sock, *_: (sock.sendall(head() + ended), end(sock))
                before = sum(len(o.seen) for o in origins)
                answer = completion(server, stream=False)
                self.assertEqual(200, answer.status, answer.body)
                choice = answer.json()['choices'][0]
                self.assertEqual(('ab', 'stop'), (choice['text'], choice['finish_reason']))
                self.assertEqual(before + 1, sum(len(o.seen) for o in origins))
                self.assertNotIn('weir-moved', answer.headers)

    def test_nobody_waits_for_the_end_of_a_stream_that_has_said_all(self):
        origin = Origin()
        server = self.start(origin)  # whose answer_timeout is longer than the test's patience
        origin.behave = lambda sock, *_: sock.sendall(head() + event(delta('ab', [97, 98], 'stop')) + event(USAGE) + event(b'[DONE]'))
        for _ in range(2):
            self.assertEqual('ab', completion(server).json()['choices'][0]['text'])

    def test_an_error_behind_the_end_of_a_text_is_one(self):
        origin = Origin()
        server = self.start(origin)
        origin.behave = lambda sock, *_: sock.sendall(head() + event(delta('ab', [97, 98], 'stop')) + event(
            {'error': {'message': 'the engine is dead', 'code': 500}}) + END)
        answer = completion(server)
        self.assertEqual(503, answer.status)
        self.assertIn('the engine is dead', answer.json()['error']['message'])


if __name__ == '__main__':
    harness.main()
