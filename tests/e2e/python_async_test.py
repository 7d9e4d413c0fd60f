"""Decoupled models whose execute() is a coroutine: the next request begins while the one before waits."""

import json
import os
import struct
import sys
import time

import grpc

import harness

oip, oip_grpc = harness.stubs()('inference')
MODEL = '''
import asyncio
import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        request, = requests
        sender = request.get_response_sender()
        order, argument = (t.decode() for t in request.inputs()[0].as_numpy())
        await getattr(self, order)(argument, sender)
        if order not in ('leave', 'last'):
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return 'something' if order == 'give' else None

    @staticmethod
    def answer(sender, number, size=1):
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('I', np.full(size, number, np.int32))]))

    async def wait(self, path, sender):
        self.answer(sender, 0)
        until = time.monotonic() + 10
        while not os.path.exists(path) and time.monotonic() < until:
            await asyncio.sleep(0.01)
        self.answer(sender, os.path.exists(path))

    async def make(self, path, sender):
        await asyncio.sleep(1.5)  # longer than process_timeout
        open(path, 'w').close()
        self.answer(sender, 7)

    async def count(self, n, sender):
        for i in range(int(n)):
            if sender.is_cancelled():
                pb_utils.Logger.log_info(f'nobody listens after {i}')
                return
            self.answer(sender, i, 100_000)
            await asyncio.sleep(0)

    async def wrong(self, text, sender):
        await asyncio.sleep(0)
        self.answer(sender, 1)
        raise ValueError(text)

    async def late(self, text, sender):
        sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError('too late')),
                    flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        raise ValueError(text)

    async def partly(self, text, sender):
        self.answer(sender, 1)
        sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(text, pb_utils.TritonError.NOT_FOUND)))
        await asyncio.sleep(0)
        self.answer(sender, 2)

    async def last(self, text, sender):
        self.answer(sender, 1)
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('I', np.array([2], np.int32))]),
                    flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    async def leave(self, text, sender):
        raise SystemExit(text)

    async def give(self, text, sender):
        await asyncio.sleep(0)
'''
CONFIG = '''name: "%s" backend: "python" model_transaction_policy { decoupled: true }
input { name: "DO" data_type: TYPE_STRING dims: [ 2 ] } output { name: "I" data_type: TYPE_INT32 dims: [ -1 ] }
parameters { key: "process_timeout" value { string_value: "1s" } }
'''


def repository():
    folder = harness.scratch() / 'python-async'
    if not folder.exists():
        (folder / 'waiting/1').mkdir(parents=True)
        (folder / 'waiting/1/model.py').write_text(MODEL)
        (folder / 'waiting/config.pbtxt').write_text(CONFIG % 'waiting')
    return folder


class Coroutines(harness.GrpcCase):
    stub_class = oip_grpc.GRPCInferenceServiceStub
    repository = repository()

    @classmethod
    def setUpClass(cls):
        os.environ['WEIR_ENGINES_PYTHON_INTERPRETER'] = sys.executable  # it has numpy
        super().setUpClass()

    def setUp(self):
        end = time.monotonic() + harness.PATIENCE  # a test before may have ended it
        while harness.curl(self.server.url('/v2/models/waiting/ready')).status != 200 and time.monotonic() < end:
            time.sleep(0.02)

    def ask(self, order, argument, empty_final=False):
        request = oip.ModelInferRequest(model_name='waiting')
        request.parameters['triton_enable_empty_final_response'].bool_param = empty_final
        request.inputs.add(name='DO', datatype='BYTES', shape=[2])
        request.raw_input_contents.append(b''.join(struct.pack('<I', len(w)) + w for w in (order.encode(), str(argument).encode())))
        return self.stub.ModelStreamInfer(iter([request]), timeout=harness.PATIENCE)

    @staticmethod
    def number(answer):
        return answer.error_message or struct.unpack_from('<i', answer.infer_response.raw_output_contents[0])[0]

    def test_the_next_request_begins_while_one_waits_and_it_may_wait_for_long(self):
        path = harness.scratch() / 'async-gate'
        waiting = [self.ask('wait', path) for _ in range(5)]
        self.assertEqual([0] * 5, [self.number(next(call)) for call in waiting])
        self.assertEqual([7], [self.number(a) for a in self.ask('make', path)])
        self.assertEqual([[1]] * 5, [[self.number(a) for a in call] for call in waiting])

    def test_a_client_that_does_not_read_keeps_nobody_waiting(self):
        slow = self.ask('count', 200)
        self.assertEqual(0, self.number(next(slow)))
        for n in (3, 40):
            self.assertEqual(list(range(n)), [self.number(a) for a in self.ask('count', n)])
        self.assertEqual(list(range(1, 200)), [self.number(a) for a in slow])

    def test_a_client_that_leaves_is_told_to_the_coroutine(self):
        call = self.ask('count', 1_000_000)
        self.assertEqual(0, self.number(next(call)))
        call.cancel()
        self.assertTrue(self.server.logged('nobody listens after'))
        self.assertEqual([0, 1], [self.number(a) for a in self.ask('count', 2)])

    def test_an_exception_is_an_answer(self):
        first, last = (self.number(a) for a in self.ask('wrong', 'an odd value'))
        self.assertEqual(1, first)
        self.assertIn('ValueError: an odd value', last)
        self.assertEqual([0], [self.number(a) for a in self.ask('count', 1)])
        self.assertEqual([], [self.number(a) for a in self.ask('give', '')], 'it has ended its answers before')

    def test_an_exception_after_the_last_answer_is_logged(self):
        self.assertEqual(['too late'], [self.number(a) for a in self.ask('late', 'an odd end')])
        self.assertTrue(self.server.logged('ValueError: an odd end'))

    def test_an_error_may_be_one_of_several_answers(self):
        answers = list(self.ask('partly', 'not that one', empty_final=True))
        self.assertEqual([1, 'not that one', 2], [self.number(a) for a in answers[:-1]])
        self.assertEqual([False] * 3 + [True],
                         [a.infer_response.parameters['triton_final_response'].bool_param for a in answers])

    def test_the_last_answer_says_that_it_is_the_last(self):
        for empty_final in (False, True):
            answers = list(self.ask('last', '', empty_final=empty_final))
            self.assertEqual([1, 2], [self.number(a) for a in answers])
            self.assertEqual([False, True],
                             [a.infer_response.parameters['triton_final_response'].bool_param for a in answers])
        events = harness.curl(self.server.url('/v2/models/waiting/generate_stream'), data=json.dumps({'DO': ['last', '']}))
        self.assertEqual(2, events.body.count(b'data: '), events.body)

    def test_where_one_answer_is_taken_and_in_events_an_error_is_the_end(self):
        body = json.dumps({'DO': ['partly', 'not that one']})
        url = self.server.url('/v2/models/waiting/')
        answer = harness.curl(url + 'generate', data=body)
        self.assertEqual((404, 'not that one'), (answer.status, answer.json()['error']))
        events = harness.curl(url + 'generate_stream', data=body).body.decode().split('\n\n')
        self.assertEqual([1, 'not that one'], [e.get('I', e.get('error')) for e in (
            json.loads(event.split('data: ')[1]) for event in events if 'data: ' in event)])

    def test_a_coroutine_that_ends_the_process_is_heard_of(self):
        self.assertIn("the process of model 'waiting' has ended", self.number(list(self.ask('leave', 'gone'))[0]))
        self.assertTrue(self.server.logged('SystemExit'))


if __name__ == '__main__':
    harness.main()
