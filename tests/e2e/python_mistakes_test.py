"""Answers of Python models that cannot be written: each request has an end all the same, and the others of its batch their
answers."""

import concurrent.futures
import json
import sys

import harness
from harness import curl

DECOUPLED = '''
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class Wordless:
    def __str__(self):
        raise ValueError('no words')


def response(value):
    return pb_utils.InferenceResponse([pb_utils.Tensor('TOLD', np.array([value], dtype=object))])


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            order = request.inputs()[0].as_numpy().reshape(-1)[0].decode()
            getattr(self, order)(request.get_response_sender())

    def text(self, sender):
        sender.send('a text', FINAL)

    def element(self, sender):
        sender.send(response(Wordless()), FINAL)

    def parameter(self, sender):
        sender.send(pb_utils.InferenceResponse([], parameters={'a': '\\ud800'}), FINAL)

    def error(self, sender):
        sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError('half of a pair: \\ud800')), FINAL)

    def thread(self, sender):
        threading.Thread(target=self.element, args=(sender,)).start()

    def many(self, sender):
        for _ in range(200):
            try:
                sender.send('a text')
            except pb_utils.TritonModelException:
                pass
        sender.send(response(b'said'), FINAL)

    def dropped(self, sender):
        sender.send(response(b'said'))

    def cycle(self, sender):
        held = [sender]
        held.append(held)

    def good(self, sender):
        sender.send(response(b'said'), FINAL)
'''
BATCHED = DECOUPLED[:DECOUPLED.index('class TritonPythonModel')] + '''
class TritonPythonModel:
    def execute(self, requests):
        orders = [request.inputs()[0].as_numpy().reshape(-1)[0].decode() for request in requests]
        return [response([Wordless()] if order == 'element' else [order.encode()]) for order in orders]
'''
CONFIG = '''name: "%s" backend: "python" max_batch_size: %d
input { name: "DO" data_type: TYPE_STRING dims: [ 1 ] } output { name: "TOLD" data_type: TYPE_STRING dims: [ 1 ] }
'''
MODELS = {'many_times': (DECOUPLED, 0, 'model_transaction_policy { decoupled: true }'),
          'batched': (BATCHED, 8, 'dynamic_batching { max_queue_delay_microseconds: 300000 }')}


def repository():
    folder = harness.scratch() / 'python-mistakes'
    for name, (code, rows, more) in MODELS.items():
        (folder / name / '1').mkdir(parents=True)
        (folder / name / '1/model.py').write_text(code)
        (folder / name / 'config.pbtxt').write_text(CONFIG % (name, rows) + more)
    return folder


class Mistakes(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=repository(), env={
            'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})  # it has numpy

    def ask(self, path, order, shape):
        return curl(self.server.url(f'/v2/models/{path}'), data=json.dumps({'inputs': [
            {'name': 'DO', 'datatype': 'BYTES', 'shape': shape, 'data': [order]}]})).body.decode()

    def test_an_answer_that_cannot_be_written_is_an_error(self):
        for order, reason in (('text', 'send() takes an InferenceResponse, not str'), ('element', 'no words'),
                              ('parameter', '?'), ('error', 'half of a pair: ?'), ('thread', 'no words'),
                              ('dropped', 'had not sent the final flag'), ('cycle', 'had not sent the final flag')):
            self.assertIn(reason, self.ask('many_times/infer_stream', order, [1]), order)
            self.assertIn('said', self.ask('many_times/infer_stream', 'good', [1]))

    def test_those_that_are_not_sent_take_no_credit(self):
        self.assertIn('said', self.ask('many_times/infer_stream', 'many', [1]))

    def test_one_of_a_batch_fails_alone(self):
        orders = ['one', 'element', 'three']
        with concurrent.futures.ThreadPoolExecutor(len(orders)) as pool:
            answers = list(pool.map(lambda order: self.ask('batched/infer', order, [1, 1]), orders))
        for order, reason, answer in zip(orders, ('one', 'no words', 'three'), answers):
            self.assertIn(reason, answer, order)


if __name__ == '__main__':
    harness.main()
