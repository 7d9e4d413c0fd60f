"""What models with code of their own do beside answering: metrics of their own in /metrics, and loading other models."""

import json
import shutil
import sys
import time

import harness
from harness import curl

DATA = harness.ROOT / 'tests/data/python_world'
LEAF = '''
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
%s

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor('Y', r.inputs()[0].as_numpy())]) for r in requests]
'''
CONFIG = '''name: "%s" backend: "python"
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
parameters { key: "process_load_timeout" value { string_value: "20s" } }
'''
WAITING = '''
import asyncio
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def numbers(self, n):
        for i in range(n):
            yield i

    async def execute(self, requests):
        assert asyncio.get_running_loop() and asyncio.current_task()
        n = int(requests[0].inputs()[0].as_numpy()[0])
        first = [i async for i in self.numbers(3)]
        for _ in range(n):
            await asyncio.sleep(0)
        if n == 7:
            raise pb_utils.TritonModelException('seven')
        later = asyncio.ensure_future(asyncio.sleep(0, 'later')) if n == 0 else None
        await asyncio.wait_for(asyncio.gather(asyncio.sleep(0), asyncio.sleep(0)), 5) if n > 1 else None
        assert first == [0, 1, 2]
        return [pb_utils.InferenceResponse([pb_utils.Tensor('Y', r.inputs()[0].as_numpy())]) for r in requests]
'''
# It finds nothing, and numpy makes that an array of FP64.
FINDS = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(name, np.array([])) for name in 'ABCD']) for _ in requests]
'''
FINDS_CONFIG = '''name: "finds" backend: "python" input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output [ { name: "A" data_type: TYPE_INT64 dims: [ -1 ] }, { name: "B" data_type: TYPE_STRING dims: [ -1 ] },
         { name: "C" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "D" data_type: TYPE_BOOL dims: [ -1 ] } ]
'''
# As in the documentation of Triton's Python backend.
OPENER = '''        if not pb_utils.is_model_ready(model_name="leaf", model_version="1"):
            pb_utils.load_model(model_name="leaf")
        assert pb_utils.is_model_ready(model_name="leaf")'''


def repository():
    folder = harness.scratch() / 'python-world'
    if not folder.exists():
        shutil.copytree(DATA, folder)
        shutil.copytree(harness.MODELS / 'identity', folder / 'identity')
        for name, lines in (('leaf', '        pass'), ('opener', OPENER),
                            ('loop_a', '        pb_utils.load_model("loop_b")'), ('loop_b', '        pb_utils.load_model("loop_a")'),
                            ('itself', '        pb_utils.unload_model("itself")')):
            (folder / name / '1').mkdir(parents=True)
            (folder / name / '1/model.py').write_text(LEAF % lines)
            (folder / name / 'config.pbtxt').write_text(CONFIG % name)
        (folder / 'narrow/1').mkdir(parents=True)
        (folder / 'narrow/1/model.py').write_text(LEAF % '        pass')
        (folder / 'narrow/config.pbtxt').write_text((CONFIG % 'narrow').replace('TYPE_INT32', 'TYPE_INT64', 1))
        (folder / 'finds/1').mkdir(parents=True)
        (folder / 'finds/1/model.py').write_text(FINDS)
        (folder / 'finds/config.pbtxt').write_text(FINDS_CONFIG)
        (folder / 'waiting/1').mkdir(parents=True)
        (folder / 'waiting/1/model.py').write_text(WAITING)
        (folder / 'waiting/config.pbtxt').write_text(CONFIG % 'waiting')
    return folder


class Teller(harness.Case):
    repository = repository()
    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=cls.repository, env={
            'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable,  # it has numpy
            **{f'WEIR_MODELS_{name}': value for name, value in cls.settings.items()}})

    def told(self, *words, status=200):
        answer = curl(self.server.url('/v2/models/teller/infer'), data=json.dumps({'inputs': [
            {'name': 'DO', 'datatype': 'BYTES', 'shape': [len(words)], 'data': list(map(str, words))}]}))
        self.assertEqual(status, answer.status, answer.body)
        return answer.json()['outputs'][0]['data'][0] if status == 200 else answer.json()['error']


class World(Teller):
    settings = {'CONTROL': 'explicit', 'STARTUP': 'teller', 'ALLOW_CONFIG_OVERRIDE': 'true'}

    def metrics(self, *accept):
        return curl(self.server.url('/metrics'), *accept).body.decode()

    def request(self, verb, name):
        return curl(self.server.url(f'/v2/repository/models/{name}/{verb}'), '-X', 'POST')

    def fresh(self):
        """The teller, loaded anew."""
        self.assertEqual(200, self.request('unload', 'teller').status)
        self.assertEqual(200, self.request('load', 'teller').status)

    def test_a_models_metrics_are_in_the_servers(self):
        self.fresh()
        self.told('count', 2)
        self.told('count', 0.5)
        self.told('observe', 0.5, 0.7, 1000)
        self.told('level_to', -3)
        text = self.metrics()
        for lines in ('# HELP teller_total What was told,\\nwith \\\\ in it.\n# TYPE teller_total counter\n'
                      'teller_total{model="a \\"quoted\\"\\n\\\\name",version="1"} 2.5\n',
                      '# HELP teller_level A level.\n# TYPE teller_level gauge\nteller_level -3\n',
                      '# TYPE teller_size histogram\nteller_size_bucket{a="b",le="0.5"} 1\nteller_size_bucket{a="b",le="1"} 2\n'
                      'teller_size_bucket{a="b",le="10"} 2\nteller_size_bucket{a="b",le="+Inf"} 3\n'
                      'teller_size_sum{a="b"} 1001.2\nteller_size_count{a="b"} 3\n'):
            self.assertIn(lines, text)
        self.assertEqual('2.5', self.told('value'))
        self.assertIn('# EOF', self.metrics('-H', 'Accept: application/openmetrics-text'))

    def test_what_was_counted_is_there_before_the_answer(self):
        self.fresh()
        for i in range(1, 30):
            self.told('many', 50)
            self.assertIn(f'}} {i * 200}\n', self.metrics())

    def test_a_gauge_shows_what_is_no_number(self):
        for value, shown in (('nan', 'NaN'), ('inf', '+Inf'), ('-inf', '-Inf'), ('1e300', '1e+300')):
            self.told('level_to', value)
            self.assertIn(f'teller_level {shown}\n', self.metrics())

    def test_what_is_wrong_is_an_exception(self):
        before = self.metrics()
        for what, text in (
                ('fall', 'does not take negative'), ('nan', 'does not take nan'), ('set a counter', 'not supported by a COUNTER'),
                ('value of a histogram', 'not supported by a HISTOGRAM'), ('observe infinity', 'does not take inf'),
                ('no buckets', 'Missing required buckets'), ('buckets', 'Unexpected buckets found'),
                ('buckets that fall', 'greater than the one before'), ('label', "have the name 'a b'"),
                ('number', 'must be strings'), ('le', "have the name 'le'"), ('long', 'a value of 1000 at most'),
                ('longer', 'too long'), ('kind', 'of another kind'), ('sum', "taken by 'teller_size'"),
                ('weir', "'weir_…' are the server's own"), ('triton', "'nv_…' are the server's own"),
                ('name', 'no metric family can have the name')):
            done = self.told('wrong', what)
            self.assertTrue(done.startswith('TritonModelException: '), done)
            self.assertIn(text, done)
        names = {line.split('{')[0].split(' ')[0] for line in self.metrics().splitlines() if line.startswith('teller')}
        self.assertEqual({'teller_total', 'teller_level', 'teller_size_bucket', 'teller_size_sum', 'teller_size_count'}, names)
        self.assertIn('teller_total', before)

    def test_a_million_labels_and_families_are_refused(self):
        for what, text in (('labels', 'have 1000 lines and 131072 bytes of /metrics at most'), ('families', '100 metric families')):
            self.fresh()
            self.assertIn(text, self.told('flood', what))
            self.assertLess(len(self.metrics()), 400_000)
        self.assertIn('Invalid metric operation', self.told('drop'))
        self.assertNotIn('teller_size', self.metrics())

    def test_metrics_go_with_their_model(self):
        self.fresh()
        self.told('count', 7)
        self.assertIn('teller_total', self.metrics())
        self.request('unload', 'teller')
        self.assertTrue(self.until(lambda: 'teller_' not in self.metrics()))
        self.request('load', 'teller')
        self.assertIn('version="1"} 0\n', self.metrics())
        self.told('crash', status=503)
        self.assertTrue(self.until(lambda: self.request('load', 'teller').status == 200 and 'teller_total' in self.metrics()))

    @staticmethod
    def until(true):
        end = time.monotonic() + harness.PATIENCE
        while not true() and time.monotonic() < end:
            time.sleep(0.02)
        return true()

    def test_a_model_loads_and_unloads_others(self):
        self.fresh()
        self.request('unload', 'leaf')
        self.assertEqual('False', self.told('ready', 'leaf'))
        self.assertEqual('None', self.told('load', 'leaf'))
        self.assertEqual(['True', 'True', 'False'], [self.told('ready', 'leaf', *v) for v in ((), ('1',), ('2',))])
        self.assertEqual(200, curl(self.server.url('/v2/models/leaf/ready')).status)
        self.assertEqual('None', self.told('unload', 'leaf'))
        self.assertEqual('False', self.told('ready', 'leaf'))
        self.assertTrue(self.server.logged('a model loads another', "leaf"))

    def test_what_cannot_be_loaded_says_why(self):
        self.fresh()
        for words, text in ((('load', 'nowhere'), "Failed to load model: failed to load 'nowhere': no model 'nowhere'"),
                            (('load', '../leaf'), 'Failed to load model'), (('unload', 'nowhere'), 'Failed to unload model: no model'),
                            (('ready', 'leaf', 'one'), "from specified version string 'one'"),
                            (('load', 'leaf', '{"files": 5}'), 'files should be a dictionary')):
            done = self.told(*words)
            self.assertTrue(done.startswith('TritonModelException: '), done)
            self.assertIn(text, done)

    def test_a_model_brings_the_files_of_another(self):
        self.fresh()
        for size in (0, 3_000_000):
            self.assertEqual('None', self.told('load_files', 'brought', harness.MODELS / 'simple/1/model.onnx', size))
            self.assertEqual('True', self.told('ready', 'brought'))
            self.assertEqual('None', self.told('unload', 'brought'))

    def test_a_model_loads_another_while_it_is_loaded(self):
        for name in ('leaf', 'opener'):
            self.request('unload', name)
        answer = self.request('load', 'opener')
        self.assertEqual(200, answer.status, answer.body)
        for name in ('leaf', 'opener'):
            self.assertEqual(200, curl(self.server.url(f'/v2/models/{name}/ready')).status)

    def test_models_that_load_each_other_do_not_wait_for_ever(self):
        for name in ('loop_a', 'loop_b', 'itself'):
            begun = time.monotonic()
            answer = self.request('load', name)
            self.assertNotEqual(200, answer.status)
            self.assertIn('is being loaded', answer.json()['error'])
            self.assertLess(time.monotonic() - begun, 15)


    def infer(self, model, datatype, value):
        return curl(self.server.url(f'/v2/models/{model}/infer'), data=json.dumps({'inputs': [
            {'name': 'X', 'datatype': datatype, 'shape': [1], 'data': [value]}]}))

    def test_whole_numbers_that_fit_are_those_of_the_output(self):
        self.request('load', 'narrow')
        for value in (5, 1 << 40, 6, -1, 1 << 31, 7):  # the answers have one form, of which some cannot be made
            answer = self.infer('narrow', 'INT64', value)
            if abs(value) < 1 << 31:
                self.assertEqual([value], answer.json()['outputs'][0]['data'])
            else:
                self.assertIn("gave output 'Y' as INT64; it is INT32", answer.json()['error'])

    def test_what_has_no_elements_is_of_the_outputs_type(self):
        self.request('load', 'finds')
        answer = self.infer('finds', 'INT32', 0)
        self.assertEqual(200, answer.status, answer.body)
        self.assertEqual([(name, datatype, [0], []) for name, datatype in zip('ABCD', ('INT64', 'BYTES', 'FP32', 'BOOL'))],
                         [(t['name'], t['datatype'], t['shape'], t['data']) for t in answer.json()['outputs']])

    def test_a_coroutine_may_wait_or_not(self):
        self.request('load', 'waiting')
        for n in (0, 1, 5, 0, 7, 2, 0):
            answer = self.infer('waiting', 'INT32', n)
            if n == 7:
                self.assertIn('seven', answer.json()['error'])
            else:
                self.assertEqual([n], answer.json()['outputs'][0]['data'], answer.body)


class NoControl(Teller):
    """The rules of the repository's API hold for models, too."""
    def test_models_load_nothing_where_clients_do_not(self):
        self.assertIn("models.control is 'none'", self.told('load', 'leaf'))
        self.assertIn("models.control is 'none'", self.told('unload', 'leaf'))
        self.assertEqual('True', self.told('ready', 'leaf'))


if __name__ == '__main__':
    harness.main()
