"""Ensembles with a decoupled step: as many answers as the step has, over gRPC streams and Server-Sent Events."""

import json
import struct
import sys
import time

import grpc

import harness
from harness import curl

oip, oip_grpc = harness.stubs()('inference')

# N numbers from 0 on, as long as somebody waits for them.
COUNTER = '''
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i in range(int(request.inputs()[0].as_numpy()[0])):
                if request.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('I', np.array([i], np.int32))]))
                time.sleep(0.01)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
PLUS = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(int(r.inputs()[0].as_numpy()[0])) for r in requests]

    def answer(self, n):
        if n == 13:
            raise ValueError('thirteen')
        return pb_utils.InferenceResponse([pb_utils.Tensor('Y', np.array([n + 1], np.int32))])
'''
CONFIG = '''name: "%s" backend: "python" %s
input [{ name: "X" data_type: TYPE_INT32 dims: [1] }] output [{ name: "%s" data_type: TYPE_INT32 dims: [1] }]'''
ENSEMBLE = '''name: "%s" platform: "ensemble"
input [{ name: "N" data_type: TYPE_INT32 dims: [1] }] output [{ name: "OUT" data_type: TYPE_INT32 dims: [1] }]
ensemble_scheduling { step [%s] }'''
STEP = '{ model_name: "%s" model_version: -1 input_map { key: "%s" value: "%s" } output_map { key: "%s" value: "%s" } }'
BEFORE, COUNT = STEP % ('plus', 'X', 'N', 'Y', 'more'), STEP % ('counter', 'X', 'more', 'I', 'i')
MODELS = {
    'counter': (CONFIG % ('counter', 'model_transaction_policy { decoupled: true }', 'I'), COUNTER),
    'plus': (CONFIG % ('plus', '', 'Y'), PLUS),
    'through': (ENSEMBLE % ('through', ', '.join((STEP % ('plus', 'X', 'i', 'Y', 'OUT'), COUNT, BEFORE))), None),
    'alone': (ENSEMBLE % ('alone', STEP % ('counter', 'X', 'N', 'I', 'OUT')), None),
    'nested': (ENSEMBLE % ('nested', ', '.join((STEP % ('through', 'N', 'N', 'OUT', 'o'),
                                                STEP % ('plus', 'X', 'o', 'Y', 'OUT')))), None),
    'twice': (ENSEMBLE % ('twice', ', '.join((STEP % ('counter', 'X', 'N', 'I', 'j'),
                                              STEP % ('counter', 'X', 'j', 'I', 'OUT')))), None),
    'beside': (ENSEMBLE % ('beside', ', '.join((STEP % ('counter', 'X', 'N', 'I', 'j'),
                                                STEP % ('counter', 'X', 'N', 'I', 'OUT')))), None),
    'saying_so': ((ENSEMBLE % ('saying_so', BEFORE.replace('"more"', '"OUT"'))) +
                  ' model_transaction_policy { decoupled: true }', None)}


def repository():
    folder = harness.scratch() / 'decoupled-ensembles'
    if not folder.exists():
        for name, (config, code) in MODELS.items():
            (folder / name / '1').mkdir(parents=True)
            (folder / name / 'config.pbtxt').write_text(config)
            if code:
                (folder / name / '1/model.py').write_text(code)
    return folder


def request(model, n, empty_final=False):
    r = oip.ModelInferRequest(model_name=model, id=str(n))
    r.inputs.add(name='N', datatype='INT32', shape=[1])
    r.raw_input_contents.append(struct.pack('<i', n))
    if empty_final:
        r.parameters['triton_enable_empty_final_response'].bool_param = True
    return r


def heard(response):
    if response.error_message:
        return response.error_message
    raw = response.infer_response.raw_output_contents
    return struct.unpack('<i', raw[0])[0] if raw else 'final'


class DecoupledEnsemble(harness.GrpcCase):
    stub_class = oip_grpc.GRPCInferenceServiceStub

    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=repository(), env={'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})
        cls.channel = grpc.insecure_channel(cls.server.address)
        cls.stub = cls.stub_class(cls.channel)

    def stream(self, *requests):
        return [heard(r) for r in self.stub.ModelStreamInfer(iter(requests), timeout=harness.PATIENCE)]

    def test_each_answer_of_the_step_is_one_of_the_ensemble(self):
        self.assertEqual([1, 2, 3, 4], self.stream(request('through', 3)))
        self.assertEqual([0, 1, 2], self.stream(request('alone', 3)))
        self.assertEqual([2, 3, 4], self.stream(request('nested', 2)))
        answers = list(self.stub.ModelStreamInfer(iter([request('through', 2, empty_final=True)]), timeout=harness.PATIENCE))
        self.assertEqual([1, 2, 3], [heard(a) for a in answers if heard(a) != 'final'])  # the end may come with the last
        self.assertEqual([False] * (len(answers) - 1) + [True],
                         [a.infer_response.parameters['triton_final_response'].bool_param for a in answers])
        self.assertEqual(['final'], self.stream(request('alone', 0, empty_final=True)))

    def test_many_requests_of_one_stream(self):
        answers = self.stream(*[request('through', 5) for _ in range(20)])
        self.assertEqual(sorted(list(range(1, 7)) * 20), sorted(answers))

    def test_a_failure_behind_the_step_is_the_end(self):
        *before, last = self.stream(request('through', 30))
        self.assertEqual(list(range(1, 14)), before)
        self.assertIn('thirteen', last)

    def test_events_come_one_by_one(self):
        body = curl(self.server.url('/v2/models/through/generate_stream'), data=json.dumps({'N': 2})).body.decode()
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith('data: ')]
        self.assertEqual([1, 2, 3], [e['OUT'] for e in events if 'OUT' in e])

    def test_one_answer_is_not_what_it_gives(self):
        with self.assertRaises(grpc.RpcError) as refused:
            self.stub.ModelInfer(request('through', 2), timeout=harness.PATIENCE)
        self.assertEqual(grpc.StatusCode.UNIMPLEMENTED, refused.exception.code())
        config = self.stub.ModelConfig(oip.ModelConfigRequest(name='through')).config
        self.assertTrue(config.model_transaction_policy.decoupled)

    def test_a_client_that_leaves_ends_it(self):
        call = self.stub.ModelStreamInfer(iter([request('alone', 100000)]), timeout=harness.PATIENCE)
        self.assertEqual(0, heard(next(call)))
        call.cancel()
        started = time.monotonic()
        self.assertEqual([0], self.stream(request('alone', 1)))
        self.assertLess(time.monotonic() - started, 60)

    def test_an_ensemble_may_say_that_it_is_decoupled(self):
        self.assertEqual([3], self.stream(request('saying_so', 2)))

    def test_each_answer_of_a_step_may_be_several_of_the_next(self):
        self.assertEqual([0, 0, 1, 0, 1, 2], self.stream(request('twice', 4)))

    def test_decoupled_steps_that_do_not_wait_for_each_other_are_refused(self):
        index = curl(self.server.url('/v2/repository/index'), data='{}').json()
        beside, = [m for m in index if m['name'] == 'beside']
        self.assertIn('neither waits for the other', beside['reason'])


if __name__ == '__main__':
    harness.main()
