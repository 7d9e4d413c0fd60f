"""Stateful sequences over REST, gRPC and streams: order, state, ids, slots, idle times, and clients that vanish."""

import json
import pathlib
import shutil
import struct
import tempfile

import grpc

import harness
from harness import curl

oip, oip_grpc = harness.stubs()('inference')
SUM, DYNA, PLAIN = 'simple_string_dyna_sequence', 'simple_dyna_sequence', 'simple_sequence'
NOT_STARTED = 'must specify the START flag on the first request of the sequence'


def request(model, number, sequence, start=False, end=False):
    r = oip.ModelInferRequest(model_name=model, id=str(number))
    r.inputs.add(name='INPUT', datatype='INT32', shape=[1, 1])
    r.raw_input_contents.append(struct.pack('<i', number))
    if isinstance(sequence, str):
        r.parameters['sequence_id'].string_param = sequence
    else:
        r.parameters['sequence_id'].int64_param = sequence
    r.parameters['sequence_start'].bool_param = start
    r.parameters['sequence_end'].bool_param = end
    return r


def value(response):
    return struct.unpack('<i', response.raw_output_contents[0])[0]


def repository(idle_us=None, candidates=None, model=SUM):
    folder = tempfile.mkdtemp(dir=harness.scratch())
    shutil.copytree(harness.MODELS / model, pathlib.Path(folder) / model)
    config = pathlib.Path(folder) / model / 'config.pbtxt'
    text = config.read_text()
    if idle_us:
        text = text.replace('max_sequence_idle_microseconds: 5000000', f'max_sequence_idle_microseconds: {idle_us}')
    if candidates:
        text = text.replace('max_candidate_sequences: 64', f'max_candidate_sequences: {candidates}')
    config.write_text(text)
    return folder


class Sequencing(harness.GrpcCase):
    stub_class = oip_grpc.GRPCInferenceServiceStub

    def infer(self, *args, **flags):
        return value(self.stub.ModelInfer(request(*args, **flags), timeout=harness.PATIENCE))

    def refused(self, *args, **flags):
        with self.assertRaises(grpc.RpcError) as raised:
            self.infer(*args, **flags)
        return raised.exception

    def rest(self, model, number, *curls, **parameters):
        body = {'inputs': [{'name': 'INPUT', 'datatype': 'INT32', 'shape': [1, 1], 'data': [number]}],
                'parameters': parameters}
        return curl(self.server.url(f'/v2/models/{model}/infer'), *curls, data=json.dumps(body))


class Sequences(Sequencing):
    def test_a_state_goes_from_request_to_request_and_a_start_resets_it(self):
        self.assertEqual(10, self.infer(SUM, 10, '7', start=True))
        self.assertEqual(15, self.infer(SUM, 5, '7'))
        self.assertEqual(100, self.infer(SUM, 100, '8', start=True))
        self.assertEqual(16, self.infer(SUM, 1, '7'))
        self.assertEqual(16 + 7 + 2, self.infer(SUM, 2, '7', end=True))
        self.assertEqual(1, self.infer(SUM, 1, '8', start=True))
        self.assertEqual(1 + 8, self.infer(SUM, 0, '8', end=True))

    def test_controls_reach_the_model(self):
        self.assertEqual([1, 5, 1006], [self.infer(DYNA, 0, 1000, start=True), self.infer(DYNA, 5, 1000),
                                        self.infer(DYNA, 6, 1000, end=True)])
        self.assertEqual(4, self.infer(PLAIN, 3, 'a-name', start=True))
        self.assertEqual(3, self.infer(PLAIN, 3, 'a-name', end=True))

    def test_rest_and_grpc_continue_each_others_sequences(self):
        first = self.rest(SUM, 3, sequence_id='41', sequence_start=True, sequence_end=False).json()
        self.assertEqual([3], first['outputs'][0]['data'])
        self.assertEqual(['OUTPUT'], [o['name'] for o in first['outputs']])
        self.assertEqual(7, self.infer(SUM, 4, '41'))
        self.assertEqual([7 + 41], self.rest(SUM, 0, sequence_id='41', sequence_end=True).json()['outputs'][0]['data'])

    def test_a_stream_keeps_the_order_of_each_sequence(self):
        ids = [str(i) for i in range(100, 120)]
        sent = [request(SUM, 1, i, start=n == 0, end=n == 9) for n in range(10) for i in ids]
        answers = list(self.stub.ModelStreamInfer(iter(sent), timeout=harness.PATIENCE))
        self.assertEqual(set(), {a.error_message for a in answers} - {''})
        expected = [n + 1 + (int(i) if n == 9 else 0) for n in range(10) for i in ids]
        self.assertEqual(expected, [value(a.infer_response) for a in answers])

    def test_requests_of_one_sequence_at_once_run_one_by_one(self):
        self.infer(SUM, 0, '55', start=True)
        calls = [self.stub.ModelInfer.future(request(SUM, 1, '55')) for _ in range(50)]
        self.assertEqual(list(range(1, 51)), sorted(value(c.result(harness.PATIENCE)) for c in calls))
        self.infer(SUM, 0, '55', end=True)

    def test_what_is_of_no_sequence_is_refused_in_tritons_words(self):
        for flags in ({}, {'end': True}):
            error = self.refused(SUM, 1, '999', **flags)
            self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, error.code())
            self.assertEqual(f"inference request for sequence 999 to model '{SUM}' {NOT_STARTED}", error.details())
        answer = self.rest(SUM, 1)
        self.assertEqual(400, answer.status)
        self.assertEqual(f"inference request to model '{SUM}' must specify a non-zero or non-empty correlation ID",
                         answer.json()['error'])
        self.infer(SUM, 1, '998', start=True, end=True)
        self.assertIn(NOT_STARTED, self.refused(SUM, 1, '998').details())

    def test_hostile_ids(self):
        self.assertIn('at most 128', self.refused(SUM, 1, 'x' * (1 << 20), start=True).details())
        self.assertIn('whole number', self.refused(DYNA, 1, 'five', start=True).details())
        for wrong in (1.5, True, None, [], {}):
            self.assertEqual(400, self.rest(DYNA, 1, sequence_id=wrong, sequence_start=True).status, wrong)
        self.assertEqual(400, self.rest(SUM, 1, sequence_id='5', sequence_start='yes').status)
        self.assertEqual(1 << 31, self.infer(DYNA, 0, (1 << 31) - 1, start=True, end=True) % (1 << 32))

    def test_clients_cannot_set_what_the_server_sets(self):
        r = request(SUM, 1, '61', start=True)
        r.inputs.add(name='SUM_BEFORE', datatype='INT32', shape=[1, 1])
        r.raw_input_contents.append(struct.pack('<i', 1000))
        with self.assertRaises(grpc.RpcError) as raised:
            self.stub.ModelInfer(r)
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, raised.exception.code())
        r = request(SUM, 1, '61', start=True, end=True)
        r.outputs.add(name='SUM')
        with self.assertRaises(grpc.RpcError):
            self.stub.ModelInfer(r)
        r = request(SUM, 1, '62', start=True, end=True)
        r.outputs.add(name='OUTPUT')
        self.assertEqual(63, value(self.stub.ModelInfer(r)))

    def test_the_configuration_is_echoed_and_metadata_hides_the_servers_tensors(self):
        config = self.stub.ModelConfig(oip.ModelConfigRequest(name=SUM)).config
        sequence = config.sequence_batching
        self.assertEqual('sequence_batching', config.WhichOneof('scheduling_choice'))
        self.assertEqual(5_000_000, sequence.max_sequence_idle_microseconds)
        self.assertEqual(64, sequence.oldest.max_candidate_sequences)
        self.assertEqual(['END', 'CORRID'], [c.name for c in sequence.control_input])
        self.assertEqual(('SUM_BEFORE', 'SUM', [1]), (sequence.state[0].input_name, sequence.state[0].output_name,
                                                      list(sequence.state[0].dims)))
        self.assertTrue(sequence.state[0].initial_state[0].zero_data)
        self.assertEqual((['INPUT'], ['OUTPUT']), ([i.name for i in config.input], [o.name for o in config.output]))
        metadata = self.stub.ModelMetadata(oip.ModelMetadataRequest(name=SUM))
        self.assertEqual((['INPUT'], ['OUTPUT']), ([i.name for i in metadata.inputs], [o.name for o in metadata.outputs]))

    def test_sequences_share_batches(self):
        def client(i):
            for n in range(20):
                self.infer(SUM, 1, str(2000 + i), start=n == 0, end=n == 19)

        with harness.threads(16, client):
            pass
        stats = self.stub.ModelStatistics(oip.ModelStatisticsRequest(name=SUM)).model_stats[0]
        self.assertLess(stats.execution_count, stats.inference_count)


class Line(Sequencing):
    """One slot, and a long idle time."""

    @classmethod
    def setUpClass(cls):
        cls.repository = repository(candidates=1)
        super().setUpClass()

    def cancelled(self):
        line = f'weir_model_requests_total{{model="{SUM}",version="1",outcome="cancelled"}} '
        return next(float(l[len(line):]) for l in curl(self.server.url('/metrics')).body.decode().splitlines() if l.startswith(line))

    def test_a_cancelled_request_ends_its_sequence_and_leaves_the_line(self):
        self.infer(SUM, 1, '3', start=True)
        waits = self.stub.ModelInfer.future(request(SUM, 1, '4', start=True))
        waits.cancel()
        while self.cancelled() == 0:  # its reset may come behind later calls
            self.infer(SUM, 1, '3')
        self.infer(SUM, 1, '3', end=True)
        self.assertIn(NOT_STARTED, self.refused(SUM, 1, '4').details())


class Slots(Sequencing):
    """One slot."""

    @classmethod
    def setUpClass(cls):
        cls.repository = repository(idle_us=300_000, candidates=1)
        super().setUpClass()

    def test_a_sequence_that_vanishes_gives_its_slot_back_after_its_idle_time(self):
        self.infer(SUM, 1, '1', start=True)
        self.assertEqual(2 + 2, self.infer(SUM, 2, '2', start=True, end=True))  # waits until the first has been idle
        self.assertIn(NOT_STARTED, self.refused(SUM, 1, '1').details())

    def test_many_sequences_that_start_and_vanish(self):
        before = self.server.rss()
        codes = set()

        def client(i):
            calls = [self.stub.ModelInfer.future(request(SUM, 1, str(10_000 + i * 2000 + n), start=True), timeout=2)
                     for n in range(2000)]
            for call in calls:
                codes.add(call.code())

        with harness.threads(4, client):
            pass
        # UNAVAILABLE: thousands of calls that run out of time at once are a flood of resets, which ends their connection.
        self.assertLessEqual(codes, {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE,
                                     grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
        # From another address: who floods is not let in for a while.
        self.assertEqual([1 + 9], self.rest(SUM, 1, '--interface', '127.0.0.2', sequence_id='9', sequence_start=True,
                                            sequence_end=True).json()['outputs'][0]['data'])
        self.assertLess(self.server.rss() - before, 200 << 20)


IDENTITY = '''backend: "identity" max_batch_size: 4 %s
input [{ name: "INPUT" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUTPUT" data_type: TYPE_INT32 dims: [1] }]
sequence_batching { direct { } control_input { name: "START" control { kind: CONTROL_SEQUENCE_START
  int32_false_true: [0, 1] } } }'''


class OfIdentity(Sequencing):
    """Triton's stand-in for a model, which looks at no control, follows the rules of sequences, inline and in a lane."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        for name, more in ('inline', ''), ('slow', 'parameters { key: "delay_us" value { string_value: "1000" } }'):
            (folder / name / '1').mkdir(parents=True)
            (folder / name / 'config.pbtxt').write_text(IDENTITY % more)
        cls.repository = folder
        super().setUpClass()

    def test_its_requests_are_those_of_sequences(self):
        for model in ('inline', 'slow'):
            answer = self.rest(model, 5, sequence_id=7, sequence_start=True).json()
            self.assertEqual(['OUTPUT'], [o['name'] for o in answer['outputs']])
            self.assertEqual([6, 7], [self.infer(model, 6, 7), self.infer(model, 7, 7, end=True)])
            self.assertEqual(f"inference request for sequence 7 to model '{model}' {NOT_STARTED}",
                             self.refused(model, 8, 7).details())
            self.assertEqual(['INPUT'], [i['name'] for i in curl(self.server.url(f'/v2/models/{model}')).json()['inputs']])


if __name__ == '__main__':
    harness.main()
