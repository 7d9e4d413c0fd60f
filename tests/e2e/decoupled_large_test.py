"""Decoupled models with large answers: how far a model is ahead of a client that does not read, of itself, in an ensemble
and as another model's; and that all of them come, also to many streams of one client."""

import concurrent.futures
import struct
import sys
import time

import harness

oip, oip_grpc = harness.stubs()('inference')

# N answers of 2 MB that begin with 0, 1, 2, …; for 0 one, of how many have been sent so far.
LARGE = '''
import threading
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    sent = 0

    def execute(self, requests):
        for request in requests:
            n = int(request.inputs()[0].as_numpy()[0])
            threading.Thread(target=self.send, args=(request, request.get_response_sender(), n)).start()

    def send(self, request, sender, n):
        for i in range(n):
            if request.is_cancelled():
                break
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('I', np.full([500_000], i, np.int32))]))
            self.sent += 1
        if n == 0:
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('I', np.array([self.sent], np.int32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
# Sends on the answers of the model above.
CALLER = '''
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            asked = pb_utils.InferenceRequest(model_name='large', requested_output_names=['I'],
                                              inputs=[pb_utils.Tensor('N', request.inputs()[0].as_numpy())])
            sender = request.get_response_sender()
            for answer in asked.exec(decoupled=True):
                if answer.output_tensors():
                    sender.send(pb_utils.InferenceResponse(answer.output_tensors()))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
PORTS = ('input [{ name: "N" data_type: TYPE_INT32 dims: [1] }] output [{ name: "I" data_type: TYPE_INT32 dims: [-1] }]')
PYTHON = 'name: "%s" backend: "python" model_transaction_policy { decoupled: true } ' + PORTS
ENSEMBLE = ('name: "%s" platform: "ensemble" ' + PORTS + ' ensemble_scheduling { step [{ model_name: "%s" model_version: -1 '
            'input_map { key: "N" value: "N" } output_map { key: "I" value: "I" } }] }')
MODELS = {'large': (PYTHON % 'large', LARGE), 'caller': (PYTHON % 'caller', CALLER),
          'through': (ENSEMBLE % ('through', 'large'), None), 'nested': (ENSEMBLE % ('nested', 'through'), None)}


def repository():
    folder = harness.scratch() / 'decoupled-large'
    if not folder.exists():
        for name, (config, code) in MODELS.items():
            (folder / name / '1').mkdir(parents=True)
            (folder / name / 'config.pbtxt').write_text(config)
            if code:
                (folder / name / '1/model.py').write_text(code)
    return folder


def first_number(response):
    assert not response.error_message, response.error_message
    return struct.unpack_from('<i', response.infer_response.raw_output_contents[0])[0]


class LargeAnswers(harness.GrpcCase):
    stub_class = oip_grpc.GRPCInferenceServiceStub
    channel_options = (('grpc.http2.bdp_probe', 0),)  # a window that grows lets more answers into the client
    repository = repository()
    serve = ('--engines-python-interpreter', sys.executable)

    def ask(self, model, n):
        r = oip.ModelInferRequest(model_name=model)
        r.inputs.add(name='N', datatype='INT32', shape=[1])
        r.raw_input_contents.append(struct.pack('<i', n))
        return self.stub.ModelStreamInfer(iter([r]), timeout=3 * harness.PATIENCE)

    def sent(self):
        """Once it stands still."""
        before = -1
        while (now := first_number(next(self.ask('large', 0)))) != before:
            before = now
            time.sleep(0.5)
        return now

    def test_a_model_is_a_few_large_answers_ahead(self):
        for model, most in (('large', 20), ('through', 20), ('nested', 20), ('caller', 40)):
            with self.subTest(model):
                before = self.sent()
                call = self.ask(model, 60)
                self.assertEqual(0, first_number(next(call)))
                self.assertLessEqual(self.sent() - before, most)
                self.assertEqual(list(range(1, 60)), [first_number(a) for a in call])

    def test_streams_of_one_client_come_to_their_ends(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            models = ['large', 'through', 'nested', 'caller'] * 2
            for model, numbers in zip(models, pool.map(lambda m: [first_number(a) for a in self.ask(m, 20)], models)):
                self.assertEqual((model, list(range(20))), (model, numbers))

    def test_clients_that_leave_do_not_hold_others(self):
        for _ in range(2):
            calls = [self.ask('large', 1000) for _ in range(8)]
            self.assertEqual({0}, {first_number(next(call)) for call in calls})
            for call in calls:
                call.cancel()
        self.assertEqual(list(range(5)), [first_number(a) for a in self.ask('large', 5)])


if __name__ == '__main__':
    harness.main()
