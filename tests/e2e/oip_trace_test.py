"""Traces of requests in a file, in the form of Triton's: from the start on, and as its protocol changes them."""

import json
import signal
import time
import unittest

import harness
from harness import curl

ONE = json.dumps({'id': 'me', 'inputs': [{'name': 'INPUT', 'datatype': 'FP32', 'shape': [1, 4], 'data': [1, 2, 3, 4]}]})


class TraceFile(unittest.TestCase):
    def setUp(self):
        self.path = harness.scratch() / 'trace.json'
        self.path.write_text('what was there before')
        self.server = harness.Server(env={'WEIR_OIP_TRACE_LEVEL': 'TIMESTAMPS,TENSORS', 'WEIR_OIP_TRACE_RATE': '2',
                                          'WEIR_OIP_TRACE_FILE': str(self.path)})

    def change(self, settings):
        return curl(self.server.url('/v2/trace/setting'), data=json.dumps(settings))

    def test_every_second_request_is_written_until_it_is_switched_off(self):
        said = curl(self.server.url('/v2/trace/setting')).json()
        self.assertEqual({'trace_level': ['TIMESTAMPS', 'TENSORS'], 'trace_rate': '2', 'trace_count': '-1', 'log_frequency': '0',
                          'trace_file': str(self.path), 'trace_mode': 'triton'}, said)
        self.assertEqual(501, self.change({'trace_file': '/tmp/elsewhere'}).status)
        for _ in range(4):
            self.assertEqual(200, curl(self.server.url('/v2/models/identity/infer'), data=ONE).status)
        self.assertEqual(200, self.change({'trace_level': ['OFF']}).status)
        for _ in range(4):
            self.assertEqual(200, curl(self.server.url('/v2/models/identity/infer'), data=ONE).status)
        self.server.stop()
        traces = json.loads(self.path.read_text())
        self.assertEqual({1, 2}, {t['id'] for t in traces})
        first = [t for t in traces if t['id'] == 1]
        self.assertEqual({'id': 1, 'model_name': 'identity', 'model_version': 1, 'request_id': 'me'}, first[0])
        times = {t['name']: t['ns'] for t in first[1]['timestamps']}
        self.assertLessEqual(times['HTTP_RECV_END'], times['REQUEST_START'])
        self.assertLessEqual(times['REQUEST_START'], times['REQUEST_END'])
        tensors = [(t['activity'], t['tensor']) for t in first[2:]]
        self.assertEqual(['TENSOR_QUEUE_INPUT', 'TENSOR_BACKEND_OUTPUT'], [activity for activity, _ in tensors])
        self.assertEqual([1, 2, 3, 4], [float(v) for v in tensors[0][1]['data'].split(',')])
        self.assertEqual(('INPUT', '1,4', 'FP32'), tuple(tensors[0][1][k] for k in ('name', 'shape', 'dtype')))

    def test_a_file_that_was_moved_away_ends_and_another_begins(self):
        self.assertEqual(200, self.change({'trace_rate': '1'}).status)
        self.assertEqual(200, curl(self.server.url('/v2/models/identity/infer'), data=ONE).status)
        moved = self.path.with_suffix('.1')
        self.path.rename(moved)
        self.server.process.send_signal(signal.SIGUSR1)
        end = time.monotonic() + harness.PATIENCE
        while not self.path.exists() or not moved.read_text().endswith(']\n'):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertEqual(200, curl(self.server.url('/v2/models/identity/infer'), data=ONE).status)
        self.server.stop()
        self.assertEqual({1}, {t['id'] for t in json.loads(moved.read_text())})
        self.assertEqual({2}, {t['id'] for t in json.loads(self.path.read_text())})

    def test_the_file_of_another_server_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, 'oip.trace_file: .*another process writes it'):
            harness.Server(env={'WEIR_OIP_TRACE_FILE': str(self.path)})
        self.server.stop()
        self.assertEqual([], json.loads(self.path.read_text()))


LARGE = json.dumps({'inputs': [{'name': f'x{i}', 'datatype': 'BYTES', 'shape': [1], 'data': ['a' * 4096]} for i in range(16)]})


class Disk(unittest.TestCase):
    """A disk under the trace file that stands still."""

    def setUp(self):
        self.path, self.stands = harness.scratch() / f'{self.id()}.trace', harness.scratch() / f'{self.id()}-stands'
        self.server = harness.Server(env={
            'LD_PRELOAD': str(harness.BUILD / 'tests/e2e/slow_disk.so'), 'SLOW_DISK': str(self.stands),
            'ASAN_OPTIONS': 'verify_asan_link_order=0', 'WEIR_OIP_TRACE_FILE': str(self.path),
            'WEIR_OIP_TRACE_LEVEL': 'TENSORS', 'WEIR_OIP_TRACE_RATE': '1'})
        self.addCleanup(self.server.kill)
        self.stands.touch()
        self.addCleanup(lambda: self.stands.unlink(missing_ok=True))

    def lost(self):
        text = curl(self.server.url('/metrics')).body.decode()
        return int(next(line for line in text.splitlines() if line.startswith('weir_trace_file_dropped_total')).split()[1])

    def ask(self, times):
        longest = 0
        for _ in range(times):
            begun = time.monotonic()
            self.assertEqual(200, curl(self.server.url('/v2/models/identity/infer'), data=LARGE).status)
            longest = max(longest, time.monotonic() - begun)
        return longest

    def test_requests_are_answered_and_traces_are_lost_and_counted(self):
        self.assertLess(self.ask(80), 5)
        self.assertGreater(lost := self.lost(), 0)
        self.stands.unlink()
        self.assertEqual(0, self.server.stop())
        traces = json.loads(self.path.read_text())
        dropped = sum(t.get('dropped', 0) for t in traces)
        self.assertGreaterEqual(dropped, lost)  # a trace may follow its answer
        self.assertEqual(80, dropped + len({t['id'] for t in traces if t['id'] > 0}))

    def test_the_server_ends(self):
        self.ask(1)
        begun = time.monotonic()
        self.assertEqual(0, self.server.stop())
        self.assertLess(time.monotonic() - begun, 5 + harness.PATIENCE / 2)
        self.assertEqual(1, len(self.server.logged('the trace file is given up')))


if __name__ == '__main__':
    harness.main()
