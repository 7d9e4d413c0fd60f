"""Decoupled models: any number of answers to one request, over gRPC streams and Server-Sent Events; slow readers, clients
that leave, and one client that asks for all there is."""

import json
import pathlib
import shutil
import struct
import tempfile
import urllib.parse

import grpc

import harness
from harness import curl

oip, oip_grpc = harness.stubs()('inference')
MODEL = 'repeat_int32'


def request(values, delay_ms=0, name='r', empty_final=False, delays=None):
    r = oip.ModelInferRequest(model_name=MODEL, id=name)
    delays = delays or [delay_ms] * len(values)
    for tensor, datatype, data in (('IN', 'INT32', struct.pack(f'<{len(values)}i', *values)),
                                   ('DELAY', 'UINT32', struct.pack(f'<{len(delays)}I', *delays)),
                                   ('WAIT', 'UINT32', struct.pack('<I', 500))):
        r.inputs.add(name=tensor, datatype=datatype, shape=[len(data) // 4])
        r.raw_input_contents.append(data)
    if empty_final:
        r.parameters['triton_enable_empty_final_response'].bool_param = True
    return r


def numbers(response):
    return tuple(struct.unpack('<i', raw)[0] for raw in response.infer_response.raw_output_contents)


def is_final(response):
    return response.infer_response.parameters['triton_final_response'].bool_param


class Decoupled(harness.GrpcCase):
    stub_class = oip_grpc.GRPCInferenceServiceStub

    def stream(self, *requests):
        return self.stub.ModelStreamInfer(iter(requests), timeout=harness.PATIENCE)

    def json(self, values, delay_ms=0):
        return json.dumps({'IN': values, 'DELAY': [delay_ms] * len(values), 'WAIT': 0})

    def test_each_element_is_an_answer_of_its_own(self):
        answers = list(self.stream(request([100, 101, 102], delay_ms=1)))
        self.assertEqual([(100, 0), (101, 1), (102, 2)], [numbers(a) for a in answers])
        self.assertEqual([False] * 3, [is_final(a) for a in answers])
        self.assertEqual({'r'}, {a.infer_response.id for a in answers})

    def test_an_event_source_comes_back_for_the_rest_and_stops_at_the_end(self):
        request = urllib.parse.quote(self.json([5, 6, 7]))

        def get(*headers):
            return curl(self.server.url(f'/v2/models/{MODEL}/generate_stream?request={request}'), *headers)

        whole = get('-H', 'Accept: text/event-stream')
        events = whole.body.decode().split('\n\n')
        self.assertEqual(['id: 1', 'id: 2', 'id: 3'], [e.split('\n')[0] for e in events[:3]])
        self.assertEqual([5, 6, 7], [json.loads(e.split('data: ')[1])['OUT'] for e in events[:3]])
        self.assertEqual(['event: end\nid: end\ndata: {}', ''], events[3:])
        rest = get('-H', 'Last-Event-ID: 2')
        self.assertEqual(events[2:], rest.body.decode().split('\n\n'))
        self.assertEqual(204, get('-H', 'Last-Event-ID: end').status)

    def test_the_end_is_told_to_those_who_ask_for_it(self):
        answers = list(self.stream(request([7], empty_final=True), request([], name='none', empty_final=True)))
        self.assertEqual({('r', 1, False), ('r', 0, True), ('none', 0, True)},
                         {(a.infer_response.id, len(a.infer_response.outputs) // 2, is_final(a)) for a in answers})
        self.assertEqual([], list(self.stream(request([]))))

    def test_the_end_has_none_of_the_outputs_that_are_asked_for(self):
        asked = request([7, 8], empty_final=True)
        asked.outputs.add(name='OUT').parameters['classification'].int64_param = 1
        answers = list(self.stream(asked))
        self.assertEqual([1, 1, 0], [len(a.infer_response.outputs) for a in answers])
        self.assertEqual([''] * 3, [a.error_message for a in answers])

    def test_requests_of_one_stream_do_not_wait_for_each_other(self):
        call = self.stream(request([1, 2], delays=[0, 3_600_000], name='slow'), request([3], name='quick'))
        self.assertEqual({'slow', 'quick'}, {next(call).infer_response.id for _ in range(2)})
        call.cancel()

    def test_one_answer_cannot_be_asked_for(self):
        with self.assertRaises(grpc.RpcError) as raised:
            self.stub.ModelInfer(request([1]))
        self.assertEqual(grpc.StatusCode.UNIMPLEMENTED, raised.exception.code())
        self.assertIn("ModelInfer RPC doesn't support models with decoupled transaction policy",
                      raised.exception.details())
        body = {'inputs': [{'name': n, 'datatype': d, 'shape': [1], 'data': [1]}
                           for n, d in (('IN', 'INT32'), ('DELAY', 'UINT32'), ('WAIT', 'UINT32'))]}
        answer = curl(self.server.url(f'/v2/models/{MODEL}/infer'), data=json.dumps(body))
        self.assertEqual(501, answer.status)
        self.assertIn("HTTP end point doesn't support models with decoupled transaction policy", answer.json()['error'])

    def test_generate_stream_sends_an_event_for_each_answer(self):
        answer = curl(self.server.url(f'/v2/models/{MODEL}/generate_stream'), data=self.json([5, 6, 7]))
        self.assertEqual((200, 'text/event-stream'), (answer.status, answer.headers['content-type'].split(';')[0]))
        events = [json.loads(line[5:]) for line in answer.body.decode().splitlines() if line.startswith('data:')]
        self.assertEqual([(5, 0), (6, 1), (7, 2)], [(e['OUT'], e['IDX']) for e in events])

    def test_generate_takes_one_answer_and_no_more(self):
        url = self.server.url(f'/v2/models/{MODEL}/generate')
        self.assertEqual(9, curl(url, data=self.json([9])).json()['OUT'])
        self.assertGreaterEqual(curl(url, data=self.json([9, 10])).status, 500)
        self.assertGreaterEqual(curl(url, data=self.json([])).status, 500)

    def test_a_bad_request_is_an_error_message_and_the_stream_goes_on(self):
        bad = request([1, 2], delays=[0])
        bad.id = 'bad'
        answers = list(self.stream(bad, request([3], name='good')))
        errors = [a for a in answers if a.error_message]
        self.assertEqual(['bad'], [a.infer_response.id for a in errors])
        self.assertIn('expected IN and DELAY shape to match, got [2] and [1]', errors[0].error_message)
        self.assertEqual([(3, 0)], [numbers(a) for a in answers if not a.error_message])

    def test_the_configuration_says_that_it_is_decoupled(self):
        config = self.stub.ModelConfig(oip.ModelConfigRequest(name=MODEL)).config
        self.assertTrue(config.model_transaction_policy.decoupled)
        self.assertEqual('repeat', config.backend)

    def test_statistics_count_answers_by_their_place(self):
        list(self.stream(request([1, 2, 3])))
        stats = self.stub.ModelStatistics(oip.ModelStatisticsRequest(name=MODEL)).model_stats[0]
        self.assertGreater(stats.inference_stats.success.count, 0)
        for place in ('0', '1', '2'):
            self.assertGreater(stats.response_stats[place].success.count, 0)
        self.assertGreater(stats.response_stats['3'].empty_response.count, 0)

    def test_a_long_answer_waits_for_its_reader(self):
        many = 100_000
        before = self.server.rss()
        # Python reads 20,000 answers a second and less beside other tests: the patience of one answer is too short for all.
        call = self.stub.ModelStreamInfer(iter([request(list(range(many)))]), timeout=5 * harness.PATIENCE)
        self.assertEqual((0, 0), numbers(next(call)))
        self.assertEqual([(5, 0)], [numbers(a) for a in self.stream(request([5]))])  # others are answered meanwhile
        self.assertLess(self.server.rss() - before, 32 << 20)
        for place in range(1, many):
            self.assertEqual((place, place), numbers(next(call)))
        self.assertEqual([], list(call))


class Shares(harness.GrpcCase):
    stub_class = oip_grpc.GRPCInferenceServiceStub

    def test_clients_that_leave_give_their_places_back(self):
        for _ in range(3):
            calls = [self.stub.ModelStreamInfer(iter([request([1, 2], delays=[0, 3_600_000])])) for _ in range(60)]
            self.assertEqual({(1, 0)}, {numbers(next(c)) for c in calls})
            for call in calls:
                call.cancel()
        self.assertEqual([(4, 0)], [numbers(a) for a in self.stub.ModelStreamInfer(iter([request([4])]))])

    def test_one_client_does_not_take_all_places(self):
        flood = [request([1], delay_ms=3_600_000, name=str(i)) for i in range(250)]
        call = self.stub.ModelStreamInfer(iter(flood))
        first = next(call)  # the first that is refused
        self.assertIn('limits.client_share', first.error_message)
        other = curl(self.server.url(f'/v2/models/{MODEL}/generate'), '--interface', '127.0.0.9',
                     data=json.dumps({'IN': [9], 'DELAY': [0], 'WAIT': 0}))
        self.assertEqual((200, 9), (other.status, other.json()['OUT']))
        call.cancel()


class Configured(harness.GrpcCase):
    """Any model can be said to be decoupled: it is called by streams then."""

    stub_class = oip_grpc.GRPCInferenceServiceStub

    @classmethod
    def setUpClass(cls):
        cls.repository = tempfile.mkdtemp(dir=harness.scratch())
        shutil.copytree(harness.MODELS / 'simple', pathlib.Path(cls.repository) / 'simple')
        with open(pathlib.Path(cls.repository) / 'simple/config.pbtxt', 'a') as config:
            config.write('\nmodel_transaction_policy { decoupled: true }\n')
        super().setUpClass()

    def test_the_transaction_policy_of_the_configuration_counts(self):
        r = oip.ModelInferRequest(model_name='simple')
        for name in ('INPUT0', 'INPUT1'):
            r.inputs.add(name=name, datatype='INT32', shape=[1, 16])
            r.raw_input_contents.append(struct.pack('<16i', *range(16)))
        with self.assertRaises(grpc.RpcError) as raised:
            self.stub.ModelInfer(r)
        self.assertEqual(grpc.StatusCode.UNIMPLEMENTED, raised.exception.code())
        answers = list(self.stub.ModelStreamInfer(iter([r]), timeout=harness.PATIENCE))
        self.assertEqual([2], [len(a.infer_response.outputs) for a in answers])
        self.assertTrue(is_final(answers[0]))


if __name__ == '__main__':
    harness.main()
