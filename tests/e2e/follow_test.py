"""weir tail and weir trace: the requests of a running server, live and one by one."""

import json
import re
import signal
import subprocess
import threading
import unittest

import harness
from tools_test import hostile, weir


def infer(server, model='simple', request_id=None, size=16):
    tensors = [{'name': name, 'datatype': 'INT32', 'shape': [1, size], 'data': [1] * size} for name in ('INPUT0', 'INPUT1')]
    return harness.curl(server.url(f'/v2/models/{model}/infer'), *(('-H', f'x-request-id: {request_id}') if request_id else ()),
                        data=json.dumps({'inputs': tensors}))


class Tail:
    """weir tail, whose stream has begun."""

    def __init__(self, server, *args):
        self.process = subprocess.Popen([str(harness.WEIR), 'tail', '--url', server.address, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip('\n'))
                self.changed.notify_all()

    def wait_for(self, pattern, make):
        """Makes requests until one is told that the pattern finds."""
        for _ in range(harness.PATIENCE * 5):
            make()
            with self.changed:
                if self.changed.wait_for(lambda: any(re.search(pattern, line) for line in self.lines), 0.2):
                    return next(line for line in self.lines if re.search(pattern, line))
        raise AssertionError(f'{pattern!r} did not come: {self.lines}')

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(harness.PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()


class Follow(harness.Case):
    serve = ('--shards', '2')

    def test_a_tail_shows_requests_as_they_end(self):
        tail = Tail(self.server)
        line = tail.wait_for('id=seen', lambda: infer(self.server, request_id='seen'))
        self.assertRegex(line, r'^\d\d:\d\d:\d\d\.\d{3} 200 OK +[\d.]+ ms oip-rest +POST /v2/models/\{model\}/infer model=simple id=seen$')
        tail.stop()

    def test_filters_hold(self):
        tail = Tail(self.server, '--status', '4xx', '--protocol', 'oip-rest', '--json')
        tail.wait_for('"request_id":"bad"', lambda: (infer(self.server, request_id='good'), infer(self.server, 'nothing', 'bad')))
        tail.stop()
        for line in tail.lines:
            self.assertEqual(4, json.loads(line)['status'] // 100)

    def test_it_ends_after_as_many_lines_as_were_asked_for(self):
        tail = Tail(self.server, '-n', '1', '--model', 'simple')
        tail.wait_for('model=simple', lambda: infer(self.server))
        self.assertEqual(0, tail.process.wait(harness.PATIENCE))
        tail.stop()

    def test_a_traced_request_shows_its_parts(self):
        infer(self.server, request_id='find-me')
        code, out, err = weir('trace', 'find-me', '--url', self.server.address)
        self.assertEqual(0, code, err)
        self.assertIn('POST /v2/models/{model}/infer  simple  200 OK', out)
        for part in ('receive', 'queue', 'stage', 'compute', 'send'):
            self.assertRegex(out, rf'(?m)^  {part} +[\d.]+ ms +[\d.]+ ms  \| *#+ *\|$')
        code, out, err = weir('trace', 'find-me', '--url', self.server.address, '--json')
        request = json.loads(out)[0]
        self.assertEqual('find-me', request['request_id'])
        ends = [part['start'] + part['seconds'] for part in request['parts']]
        starts = [part['start'] for part in request['parts']]
        for start, end in zip(starts[1:], ends):
            self.assertAlmostEqual(start, end, places=6)
        self.assertLessEqual(ends[-1], request['seconds'] + 0.01)

    def test_the_slowest_come_first(self):
        for size in (16, 16):
            infer(self.server, size=size)
        harness.curl(self.server.url('/v1/completions'), data=json.dumps({'model': 'chat', 'prompt': 'x', 'max_tokens': 40}))
        code, out, err = weir('trace', '--slow', '--url', self.server.address, '-n', '3')
        self.assertEqual(0, code, err)
        times = [float(t) for t in re.findall(r'(?m)^\d\d:\S+ +\d+ \w+ +([\d.]+) ms', out)]
        self.assertEqual(sorted(times, reverse=True), times)
        self.assertIn('compute', out)
        code, out, err = weir('trace', '--url', self.server.address, '--model', 'chat')
        self.assertIn('model=chat' if out.count('\n') > 12 else 'chat', out)

    def test_an_unknown_request_is_named(self):
        code, _, err = weir('trace', 'nobody', '--url', self.server.address)
        self.assertEqual(1, code)
        self.assertIn('no request of that id is kept', err)

    def test_a_mistake_in_a_filter_is_named(self):
        for command in (('tail', '--status', 'MAYBE'), ('tail', '--slow', 'soon'), ('trace', '--status', 'MAYBE')):
            code, _, err = weir(*command, '--url', self.server.address)
            self.assertEqual(1, code)
            self.assertEqual(1, len(err.splitlines()), err)

    def test_many_followers_are_refused_and_the_server_ends_with_some(self):
        server = harness.Server('--shards', '1')
        tails = [Tail(server) for _ in range(3)]
        for tail in tails:
            tail.wait_for('simple', lambda: infer(server))
        self.assertEqual(0, server.stop(), 'streams without an end do not hold it up')
        for tail in tails:
            self.assertEqual(1, tail.process.wait(harness.PATIENCE))
            tail.stop()


class Off(unittest.TestCase):
    def test_the_setting_that_turns_it_off_is_named(self):
        server = harness.Server('--console-timelines', '0')
        code, _, err = weir('trace', '--url', server.address)
        self.assertEqual(1, code)
        self.assertIn('console.timelines', err)
        self.assertEqual(0, server.stop())

    def test_keys_need_the_role_metrics(self):
        keys = harness.scratch() / 'follow.yaml'
        made = {role: re.search(r'\S{20,}', weir('key', 'new', role, '--roles', role, '--keys-file', keys)[1])[0] for role in ('infer', 'metrics')}
        server = harness.Server('--auth-keys-file', keys)
        for command in ('tail', 'trace'):
            code, _, err = weir(command, '--url', server.address, '--key', made['infer'])
            self.assertEqual(1, code)
            self.assertIn('role metrics', err)
        self.assertEqual(0, weir('trace', '--url', server.address, '--key', made['metrics'])[0])
        self.assertEqual(0, server.stop())


class HostileToFollow(unittest.TestCase):
    def test_one_line_whatever_comes(self):
        head = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n'
        for body in (b'', b'data: 7\n\n', b'data: {\n\n', b'\xff' * 100_000, b'data: "' + b'x' * 100_000, b'[' * 10_000, b'{"requests": 7}'):
            for command in (('tail',), ('trace', 'x')):
                with hostile(lambda: [head, body]) as address:
                    code, out, err = weir(*command, '--url', address, '--timeout', '300ms')
                self.assertEqual(1, code, (command, body[:20], out))
                self.assertEqual(1, len(err.splitlines()), err)


if __name__ == '__main__':
    harness.main()
