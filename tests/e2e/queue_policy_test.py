"""Triton's queue policies and the turns of tenants, seen from outside. Clients of other hosts are other tenants."""

import http.client
import json
import pathlib
import re
import struct
import tempfile
import threading
import time

import harness
from harness import curl

import grpc

oip, oip_grpc = harness.stubs()('inference')

DELAY = """preferred_batch_size: 4 max_queue_delay_microseconds: 600000000
           default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 600000000 allow_timeout_override: true }"""
LEVELS = """priority_levels: 2 default_priority_level: 2
            default_queue_policy { max_queue_size: 9 }
            priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 500 } }"""
GREEDY, LIGHT = '127.1.0.1', '127.2.0.1'


def until(condition):
    end = time.monotonic() + harness.PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError('it did not come to that')
        time.sleep(0.005)


class QueuePolicies(harness.GrpcCase):
    stub_class = oip_grpc.GRPCInferenceServiceStub

    @classmethod
    def setUpClass(cls):
        cls.repository = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        for name, batch, delay, rules in (
                ('later', 8, 1000, DELAY), ('levels', 8, 1000, LEVELS), ('ordered', 8, 1000, 'preserve_ordering: true'),
                ('hurried', 1, 2_000_000, 'default_queue_policy { default_timeout_microseconds: 300000 }'),
                ('turns', 1, 100_000, ''), ('few', 1, 500_000, 'default_queue_policy { max_queue_size: 8 }'),
                ('wrong', 8, 1000, 'preserve_ordering: true priority_levels: 2 default_priority_level: 1')):
            harness.write_identity_model(cls.repository, name, batch, delay, 'dynamic_batching { %s }' % rules)
        super().setUpClass()

    def send(self, model, value, rows=1, timeout=0):
        r = oip.ModelInferRequest(model_name=model)
        if timeout:
            r.parameters['timeout'].int64_param = timeout
        r.inputs.add(name='x', datatype='FP32', shape=[rows, 1])
        r.raw_input_contents.append(struct.pack(f'<{rows}f', *[value] * rows))
        return self.stub.ModelInfer.future(r)

    def stats(self, model):
        return self.stub.ModelStatistics(oip.ModelStatisticsRequest(name=model)).model_stats[0]

    def waiting(self, model):
        found = re.search(r'^weir_model_pending\{[^}]*model="%s"[^}]*\} (\d+)' % model, curl(self.server.url('/metrics')).body.decode(), re.M)
        return int(found[1]) if found else 0

    def ask(self, model, host):
        """Sends a request from an address of the loopback; its connection, for getresponse()."""
        connection = http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=harness.PATIENCE, source_address=(host, 0))
        self.addCleanup(connection.close)
        body = json.dumps({'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [1, 1], 'data': [1]}]})
        connection.request('POST', f'/v2/models/{model}/infer', body, {'Content-Type': 'application/json'})
        return connection

    def test_a_request_that_was_delayed_runs_after_those_that_came_later(self):
        late = self.send('later', 1, timeout=1)
        for call in [self.send('later', 2, rows=2), self.send('later', 3, rows=2)]:
            call.result(harness.PATIENCE)
        self.assertFalse(late.done())
        self.send('later', 4, rows=3).result(harness.PATIENCE)
        late.result(harness.PATIENCE)
        self.assertEqual({4: 2}, {b.batch_size: b.compute_infer.count for b in self.stats('later').batch_stats})

    def test_a_request_that_waits_too_long_is_a_failure(self):
        outcomes = [call.exception(harness.PATIENCE) for call in [self.send('hurried', 1), self.send('hurried', 2)]]
        self.assertEqual({None, grpc.StatusCode.UNAVAILABLE}, {outcome and outcome.code() for outcome in outcomes})
        stats = self.stats('hurried')
        self.assertEqual((1, 1, 1), (stats.inference_stats.success.count, stats.inference_stats.fail.count, stats.execution_count))

    def test_the_configuration_comes_back(self):
        batching = curl(self.server.url('/v2/models/levels/config')).json()['dynamic_batching']
        self.assertEqual(9, batching['default_queue_policy']['max_queue_size'])
        first = batching['priority_queue_policy']['1']
        self.assertEqual(('DELAY', '500'), (first['timeout_action'], str(first['default_timeout_microseconds'])))
        self.assertTrue(curl(self.server.url('/v2/models/ordered/config')).json()['dynamic_batching']['preserve_ordering'])

    def test_policies_that_contradict_each_other_are_not_served(self):
        rows = curl(self.server.url('/v2/repository/index'), '-X', 'POST').json()
        reason = next(row['reason'] for row in rows if row['name'] == 'wrong')
        self.assertIn('preserve_ordering goes with one level of priority', reason)

    def test_a_client_that_fills_the_queue_does_not_delay_anothers_first_request(self):
        greedy = [self.ask('turns', GREEDY) for _ in range(60)]
        until(lambda: self.waiting('turns') >= 40)
        light = self.ask('turns', LIGHT)
        self.assertEqual(200, light.getresponse().status)
        self.assertGreater(self.waiting('turns'), 20, 'those of the greedy client that came before it')
        for connection in greedy:
            connection.close()

    def test_in_a_full_queue_the_client_that_has_most_makes_room(self):
        outcomes, lock = [], threading.Lock()

        def client(i):
            status = self.ask('few', GREEDY).getresponse().status
            with lock:
                outcomes.append(status)

        with harness.threads(12, client):
            until(lambda: self.waiting('few') == 8 and len(outcomes) == 3)
            light = self.ask('few', LIGHT)
            until(lambda: len(outcomes) == 4)
            self.assertEqual([429] * 4, outcomes)
            self.assertEqual(200, light.getresponse().status)
        self.assertEqual(8, outcomes.count(200))
        self.assertEqual(4, self.stats('few').inference_stats.fail.count)


if __name__ == '__main__':
    harness.main()
