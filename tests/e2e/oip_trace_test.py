"""Traces of requests in a file, in the form of Triton's: from the start on, and as its protocol changes them."""

import json
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


if __name__ == '__main__':
    harness.main()
