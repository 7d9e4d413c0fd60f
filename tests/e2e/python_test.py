"""Models with code of their own: a model.py for Triton's Python backend, in a process of its own. What such a process does
wrong costs its own calls, and nobody else's."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import struct
import sys
import time

import grpc

import harness
from harness import curl

oip, oip_grpc = harness.stubs()('inference')
INTERPRETER = {'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable}  # it has numpy
DATA = harness.ROOT / 'tests/data/python'


def repository():
    """A copy: Python may want to write beside a model, and a test looks whether it does."""
    folder = harness.scratch() / 'python-models'
    if not folder.exists():
        shutil.copytree(DATA, folder)
        shutil.copytree(harness.MODELS / 'identity', folder / 'identity')
        broken = folder / 'broken/1'
        broken.mkdir(parents=True)
        (broken / 'model.py').write_text('import nothing_of_this_name\n')
        oldest = folder / 'accumulating_oldest'
        shutil.copytree(folder / 'accumulating', oldest)
        config = oldest / 'config.pbtxt'
        config.write_text(config.read_text().replace('direct { }', 'oldest { max_candidate_sequences: 8 }')
                          .replace('name: "accumulating"', 'name: "accumulating_oldest"'))
        step = folder / 'two_steps'
        (step / '1').mkdir(parents=True)
        (step / 'config.pbtxt').write_text('''
name: "two_steps" platform: "ensemble" max_batch_size: 4
input { name: "A" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "FOUR_A" data_type: TYPE_INT32 dims: [ -1 ] }
ensemble_scheduling {
  step { model_name: "completed" model_version: -1
    input_map { key: "A" value: "A" } input_map { key: "B" value: "A" } output_map { key: "SUM" value: "TWO_A" } }
  step { model_name: "completed" model_version: -1
    input_map { key: "A" value: "TWO_A" } input_map { key: "B" value: "TWO_A" } output_map { key: "SUM" value: "FOUR_A" } }
}''')
    return folder


def tensor(name, datatype, shape, data):
    return {'name': name, 'datatype': datatype, 'shape': shape, 'data': data}


class PythonModels(harness.GrpcCase):
    stub_class = oip_grpc.GRPCInferenceServiceStub
    repository = repository()

    @classmethod
    def setUpClass(cls):
        os.environ.update(INTERPRETER)
        super().setUpClass()

    def infer(self, model, *inputs, **more):
        return curl(self.server.url(f'/v2/models/{model}/infer'), data=json.dumps({'inputs': inputs, **more}))

    def plain(self, values, **more):
        return self.infer('plain', tensor('VALUES', 'FP32', [1, len(values)], values), **more)

    def outputs(self, answer):
        self.assertEqual(200, answer.status, answer.body)
        return {o['name']: o['data'] for o in answer.json()['outputs']}

    def obey(self, order):
        return self.infer('unruly', tensor('DO', 'BYTES', [1], [order]))

    def obeyed(self, order='again'):
        """The answer, once the model is there (again)."""
        end = time.monotonic() + harness.PATIENCE
        while (answer := self.obey(order)).status != 200 and time.monotonic() < end:
            time.sleep(0.02)
        return self.outputs(answer)['DONE'][0]

    def test_tensors_go_in_and_out(self):
        answer = self.plain([1, 2, 6], id='mine', parameters={'colour': 'red', 'n': 5})
        outputs = self.outputs(answer)
        self.assertEqual(([3], ['hello, nobody']), (outputs['MEAN'], outputs['GREETING']))
        seen = json.loads(outputs['SEEN'][0])
        self.assertEqual(('mine', 0, 0, False), tuple(seen[k] for k in ('id', 'correlation_id', 'flags', 'cancelled')))
        self.assertEqual(('red', 5), tuple(seen['parameters'][k] for k in ('colour', 'n')))
        self.assertEqual(['GREETING', 'MEAN', 'SEEN'], seen['outputs'], 'all, where none is named')
        self.assertIn('executions', answer.json().get('parameters', {}))

    def test_strings_go_in_and_out(self):
        outputs = self.outputs(self.infer('plain', tensor('VALUES', 'FP32', [2, 1], [1, 2]),
                                          tensor('NAME', 'BYTES', [2, 1], ['Ada', 'Zoë']), outputs=[{'name': 'GREETING'}]))
        self.assertEqual({'GREETING': ['hello, Ada', 'hello, Zoë']}, outputs)

    def test_requests_share_an_execution_and_one_that_fails_fails_alone(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: self.plain([i, float('nan') if i == 3 else i]) if i != 3 else
                                    self.nan(), range(8)))
        self.assertEqual([200] * 3 + [400] + [200] * 4, [a.status for a in answers])
        self.assertIn('a value is no number', answers[3].json()['error'])
        together = [json.loads(self.outputs(a)['SEEN'][0])['together'] for i, a in enumerate(answers) if i != 3]
        self.assertGreater(max(together), 1)
        self.assertEqual([[float(i)] for i in range(8) if i != 3],
                         [self.outputs(a)['MEAN'] for i, a in enumerate(answers) if i != 3])

    def nan(self):
        """JSON has no word for it."""
        request = oip.ModelInferRequest(model_name='plain')
        request.inputs.add(name='VALUES', datatype='FP32', shape=[1, 1])
        request.raw_input_contents.append(struct.pack('<f', float('nan')))
        try:
            self.stub.ModelInfer(request, timeout=harness.PATIENCE)
        except grpc.RpcError as e:
            text = e.details()
            self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, e.code())
            return type('Answer', (), {'status': 400, 'json': lambda self: {'error': text}})()

    def test_a_model_completes_its_configuration(self):
        config = curl(self.server.url('/v2/models/completed/config')).json()
        self.assertEqual((4, ['A', 'B'], ['SUM']), (config['max_batch_size'], [t['name'] for t in config['input']],
                                                    [t['name'] for t in config['output']]))
        a = tensor('A', 'INT32', [2, 2], [1, 2, 3, 4])
        self.assertEqual([2, 4, 6, 8], self.outputs(self.infer('completed', a, {**a, 'name': 'B'}))['SUM'])

    def test_all_requests_of_a_sequence_go_to_the_instance_that_keeps_its_state(self):
        for model in ('accumulating', 'accumulating_oldest'):
            def add(sequence, **flags):
                return self.outputs(self.infer(model, tensor('X', 'INT32', [1, 1], [1]),
                                               parameters={'sequence_id': sequence, **flags}))['SUM'][0]
            sums = {sequence: [add(sequence, sequence_start=True)] for sequence in range(1, 4)}
            for last in (False, False, False, True):
                for sequence in sums:
                    sums[sequence].append(add(sequence, sequence_end=last))
            self.assertEqual({sequence: [1, 2, 3, 4, 5] for sequence in sums}, sums, model)

    def test_a_sequence_goes_on_behind_a_request_that_its_model_fails(self):
        def add(x, **flags):
            return self.infer('accumulating', tensor('X', 'INT32', [1, 1], [x]), parameters={'sequence_id': 9, **flags})
        self.assertEqual([1], self.outputs(add(1, sequence_start=True))['SUM'])
        self.assertEqual((503, 'try later'), (add(-1).status, add(-1).json()['error']))
        self.assertEqual([3], self.outputs(add(2, sequence_end=True))['SUM'])

    def test_a_step_of_an_ensemble(self):
        self.assertEqual([4, 8], self.outputs(self.infer('two_steps', tensor('A', 'INT32', [1, 2], [1, 2])))['FOUR_A'])

    def test_large_tensors(self):
        n = 2_000_000
        request = oip.ModelInferRequest(model_name='plain')
        request.inputs.add(name='VALUES', datatype='FP32', shape=[1, n])
        request.raw_input_contents.append(struct.pack('<f', 0.5) * n)
        request.outputs.add(name='MEAN')
        answer = self.stub.ModelInfer(request, timeout=harness.PATIENCE)
        self.assertEqual(struct.pack('<f', 0.5), answer.raw_output_contents[0])

    def ask(self, model, values=(1, 2)):
        return self.infer('asking', tensor('A', 'INT32', [1, len(values)], list(values)), tensor('MODEL', 'BYTES', [1, 1], [model]))

    def test_a_model_makes_requests_to_others(self):
        for _ in range(3):
            self.assertEqual({'SUM': [2, 4], 'TWICE': [4, 8]}, self.outputs(self.ask('completed')))
        large = self.outputs(self.ask('completed', range(100_000)))
        self.assertEqual(4 * 99_999, large['TWICE'][-1])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for answer in pool.map(lambda i: self.outputs(self.ask('completed', [i])), range(16)):
                self.assertEqual([2 * answer['SUM'][0]], answer['TWICE'])

    def test_a_request_that_a_model_must_not_make_is_an_error(self):
        for model, status, text in (('nowhere', 404, "unknown model: 'nowhere'"), ('plain', 400, 'input'),
                                    ('counting', 501, 'is decoupled'), ('broken', 503, 'not ready')):
            answer = self.ask(model)
            self.assertEqual(status, answer.status, answer.body)
            self.assertIn(text, answer.json()['error'])
        self.assertEqual([2], self.outputs(self.ask('completed', [1]))['SUM'])

    def total(self, n, how):
        return self.infer('summing', tensor('N', 'INT32', [1], [n]), tensor('HOW', 'BYTES', [1], [how]))

    def test_a_model_makes_requests_to_decoupled_models(self):
        for n in (0, 1, 5, 100):  # more than are under way at once
            self.assertEqual({'SUM': [sum(range(n))], 'ANSWERS': [n]}, self.outputs(self.total(n, 'all')))
            self.assertEqual({'SUM': [2 * sum(range(n))], 'ANSWERS': [2 * n]}, self.outputs(self.total(n, 'both')))
        self.assertEqual({'SUM': [14], 'ANSWERS': [1]}, self.outputs(self.total(7, 'once')), 'a model that answers once')
        for n, text in ((-1, 'it went wrong'), (13, 'thirteen is no number to count to')):
            answer = self.total(n, 'all')
            self.assertEqual((500, True), (answer.status, text in answer.json()['error']), answer.body)

    def test_answers_that_a_model_does_not_read_are_not_made(self):
        for _ in range(20):
            self.assertEqual({'SUM': [3], 'ANSWERS': [3]}, self.outputs(self.total(1_000_000, 'some')))
            self.assertEqual({'SUM': [0], 'ANSWERS': [0]}, self.outputs(self.total(1_000_000, 'never')))
        self.assertEqual([0, 1], [self.number(a) for a in self.count(2)])

    def test_a_model_cancels_a_request_to_another_and_is_told_when_it_is_over(self):
        for _ in range(3):
            answer = self.total(1_000_000, 'cancelled')
            self.assertEqual((499, True), (answer.status, 'the model has cancelled its request' in answer.json()['error']), answer.body)
        self.assertTrue(self.server.logged('nobody listens any more'))
        self.assertEqual({'SUM': [3], 'ANSWERS': [3]}, self.outputs(self.total(3, 'all')))

    def count(self, n):
        request = oip.ModelInferRequest(model_name='counting')
        request.inputs.add(name='N', datatype='INT32', shape=[1])
        request.raw_input_contents.append(struct.pack('<i', n))
        return self.stub.ModelStreamInfer(iter([request]), timeout=harness.PATIENCE)

    @staticmethod
    def number(answer):
        return struct.unpack('<i', answer.infer_response.raw_output_contents[0])[0]

    def test_a_decoupled_model_answers_any_number_of_times(self):
        for n in (0, 1, 100):
            self.assertEqual(list(range(n)), [self.number(a) for a in self.count(n)])
        answers = list(self.count(-1))
        self.assertEqual(['', 'it went wrong', ''], [a.error_message for a in answers])
        self.assertEqual((0, 7), (self.number(answers[0]), self.number(answers[2])))
        self.assertFalse(answers[1].infer_response.parameters['triton_final_response'].bool_param)
        self.assertTrue(self.server.logged('the count that went wrong is over'))
        self.assertIn('thirteen is no number to count to', list(self.count(13))[0].error_message)

    def test_decoupled_requests_run_side_by_side(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            lists = list(pool.map(lambda n: [self.number(a) for a in self.count(n)], range(40, 48)))
        self.assertEqual([list(range(n)) for n in range(40, 48)], lists)

    def test_requests_wait_for_a_decoupled_model_by_priority_and_for_no_longer_than_they_may(self):
        def stream(*all_parameters):
            requests = []
            for number, parameters in enumerate(all_parameters):
                request = oip.ModelInferRequest(model_name='gated', id=str(number))
                request.inputs.add(name='X', datatype='INT32', shape=[1])
                request.raw_input_contents.append(bytes(4))
                for name, value in parameters.items():
                    request.parameters[name].int64_param = value
                requests.append(request)
            return self.stub.ModelStreamInfer(iter(requests), timeout=harness.PATIENCE)

        folder = self.repository / 'gated'
        first = stream({})
        end = time.monotonic() + harness.PATIENCE
        while not (folder / 'begun').exists() and time.monotonic() < end:
            time.sleep(0.005)
        others = stream({}, {'priority': 1}, {'timeout': 50_000})  # the third comes behind the others
        self.assertIn('waited too long', next(others).error_message)
        (folder / 'open').touch()
        self.assertEqual(0, self.number(next(first)))
        self.assertEqual({'1': 1, '0': 2}, {a.infer_response.id: self.number(a) for a in others})

    def test_a_client_that_leaves_is_told_to_the_model(self):
        call = self.count(1_000_000)
        self.assertEqual(0, self.number(next(call)))
        call.cancel()
        self.assertTrue(self.server.logged('nobody listens any more'))
        self.assertEqual([0], [self.number(a) for a in self.count(1)])

    def test_clients_that_leave_at_once_cost_nobody_else(self):
        for i in range(30):
            call = self.count(1_000_000)
            if i % 2:
                next(call)
            call.cancel()
            self.assertEqual([0, 1], [self.number(a) for a in self.count(2)])
        self.assertEqual([], self.server.logged("'counting'", 'is started anew', count=0))

    def test_an_exception_is_an_answer(self):
        answer = self.obey('raise')
        self.assertEqual(500, answer.status)
        self.assertIn("for model instance 'unruly_0_0', message: ValueError: an odd value", answer.json()['error'])
        self.assertNotIn('/', answer.json()['error'])
        self.assertTrue(self.server.logged('Traceback'))
        for order, text in (('type', "gave output 'DONE' as FP32; it is BYTES"), ('name', "an output 'ELSE' that it has not"),
                            ('nothing', 'execute() returned no response to a request')):
            answer = self.obey(order)
            self.assertEqual(500, answer.status)
            self.assertIn(text, answer.json()['error'])
        self.assertEqual('well', self.obeyed('well'))

    def test_a_process_that_ends_is_started_anew(self):
        other = int(self.obeyed('pid'))
        for order, text in (('exit', 'it exited with status 7'), ('crash', 'it was ended by signal SIGSEGV')):
            self.obeyed()
            answer = self.obey(order)
            self.assertEqual(503, answer.status)
            self.assertIn(f"the process of model 'unruly' has ended: {text}", answer.json()['error'])
            self.assertNotIn('(', answer.json()['error'], 'a line that was written for somebody else')
            self.assertEqual([2.0], self.outputs(self.plain([2]))['MEAN'])  # nobody else's
        self.assertNotEqual(other, int(self.obeyed('pid')))

    def test_where_one_instance_ends_the_others_serve_until_all_are_there_again(self):
        def ask(order='go on'):
            return self.infer('mortal', tensor('DO', 'BYTES', [1], [order]))

        def pids(times):
            return {self.outputs(ask())['PID'][0] for _ in range(times)}
        hold = self.repository / 'mortal/hold'
        hold.touch()
        try:
            self.assertEqual(503, ask('exit').status)
            left = pids(20)
            self.assertEqual(1, len(left))
            self.assertTrue(self.server.logged("'mortal'", 'model broke'))
            self.assertEqual(left, pids(20))
            self.assertEqual(200, curl(self.server.url('/v2/models/mortal/ready')).status)
        finally:
            hold.unlink()
        end = time.monotonic() + harness.PATIENCE
        while pids(4) & left and time.monotonic() < end:
            time.sleep(0.02)
        self.assertFalse(pids(20) & left)

    def test_a_process_that_hangs_is_started_anew(self):
        self.obeyed()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(self.obey, 'hang')
            for _ in range(20):
                self.assertEqual([2.0], self.outputs(self.plain([2]))['MEAN'])
            answer = hanging.result()
        self.assertEqual(503, answer.status)
        self.assertIn('did not answer within 2s (process_timeout)', answer.json()['error'])
        self.assertEqual('again', self.obeyed())

    def test_a_process_that_eats_memory_is_refused_it(self):
        self.obeyed()
        answer = self.obey('eat')
        self.assertEqual(500, answer.status)
        self.assertIn('Unable to allocate', answer.json()['error'])
        self.assertEqual('again', self.obeyed())

    def test_a_flood_of_lines_is_counted(self):
        self.obeyed()
        before = self.server.log_path.stat().st_size
        self.assertEqual('flood', self.obeyed('flood'))
        self.assertTrue(self.server.logged('lines were dropped: more than 100 a second are not kept'))
        self.assertLess(self.server.log_path.stat().st_size - before, 200_000)

    def test_a_process_has_nothing_of_the_servers(self):
        self.assertEqual(['0', '1', '2', '3', '4', '5'], self.obeyed('descriptors').split()[:6])
        self.assertLessEqual(len(self.obeyed('descriptors').split()), 9)  # two regions, and the folder itself
        self.assertEqual('', self.obeyed('secrets'))
        self.assertEqual([], list(pathlib.Path(self.repository).rglob('__pycache__')))

    def test_a_model_that_cannot_be_loaded_says_why(self):
        index = {m['name']: m for m in curl(self.server.url('/v2/repository/index'), '-X', 'POST').json()}
        self.assertIn("ModuleNotFoundError: No module named 'nothing_of_this_name'", index['broken']['reason'])
        self.assertEqual('READY', index['plain']['state'])

    def test_log_lines_have_their_level(self):
        line, = self.server.logged('plain version 1 is there')[:1]
        self.assertIn('warn', line.lower())


class TheEnd(harness.Case):
    repository = repository()

    @classmethod
    def setUpClass(cls):
        os.environ.update(INTERPRETER)
        super().setUpClass()

    def processes(self):
        children = pathlib.Path(f'/proc/{self.server.process.pid}/task')
        return [int(p) for t in children.iterdir() for p in (t / 'children').read_text().split()]

    def test_processes_end_with_the_server_however_it_ends(self):
        pids = self.processes()
        self.assertEqual(13, len(pids))
        self.assertEqual(0, self.server.stop())
        self.assertTrue(self.server.output().count('plain says goodbye'))
        self.assertFalse([p for p in pids if os.path.exists(f'/proc/{p}')])
        type(self).server = harness.Server(repository=self.repository)
        pids = self.processes()
        self.server.kill()
        end = time.monotonic() + harness.PATIENCE
        while any(os.path.exists(f'/proc/{p}') for p in pids) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse([p for p in pids if os.path.exists(f'/proc/{p}')])
        type(self).server = harness.Server(repository=self.repository, env={'WEIR_ENGINES_PROCESS_ENABLED': 'false'})
        index = {m['name']: m for m in curl(self.server.url('/v2/repository/index'), '-X', 'POST').json()}
        self.assertIn('engines.process.enabled: true allows them', index['plain']['reason'])


if __name__ == '__main__':
    harness.main()
