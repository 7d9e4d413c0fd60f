"""Models whose answers are kept, and models that are warmed up: what their statistics and configuration say."""

import json
import os
import struct

import harness

CACHED = 'response_cache { enable: true }'
WARM = '''model_warmup { name: "first" batch_size: 1 count: 3
            inputs { key: "x" value { data_type: TYPE_FP32 dims: 1 random_data: true } } }'''
COLD = '''model_warmup { name: "first"
            inputs { key: "x" value { data_type: TYPE_FP32 dims: 1 input_data_file: "none" } } }'''

ENSEMBLE = '''platform: "ensemble" max_batch_size: 4 response_cache { enable: true }
    input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }
    ensemble_scheduling { step { model_name: "plain" model_version: -1
        input_map { key: "x" value: "x" } output_map { key: "x" value: "y" } } }'''


class ResponseCache(harness.Case):
    serve = ('--metrics-compat', 'triton')

    @classmethod
    def setUpClass(cls):
        cls.repository = harness.scratch() / 'repository'
        cls.repository.mkdir()
        for name, rules in (('cached', CACHED), ('counted', CACHED), ('plain', ''), ('warm', WARM), ('cold', COLD)):
            harness.write_identity_model(cls.repository, name, 4, 1000, rules)
        (cls.repository / 'ensemble').mkdir()
        (cls.repository / 'ensemble/config.pbtxt').write_text(ENSEMBLE)
        super().setUpClass()

    def infer(self, model, value, *args):
        body = {'inputs': [{'name': 'x', 'shape': [1, 1], 'datatype': 'FP32', 'data': [value]}]}
        answer = harness.curl(self.server.url(f'/v2/models/{model}/infer'), *args, data=json.dumps(body))
        self.assertEqual(200, answer.status, answer.body)
        self.assertEqual([value], answer.json()['outputs'][0]['data'])

    def stats(self, model):
        return harness.curl(self.server.url(f'/v2/models/{model}/stats')).json()['model_stats'][0]

    def test_a_question_that_was_asked_before_is_not_asked_of_the_model(self):
        for value in (1, 2, 1, 1):
            self.infer('cached', value)
        stats = self.stats('cached')
        self.assertEqual(2, stats['execution_count'])
        self.assertEqual(2, stats['inference_count'])
        inference = stats['inference_stats']
        self.assertEqual(4, inference['success']['count'])
        self.assertEqual(2, inference['cache_hit']['count'])
        self.assertEqual(2, inference['cache_miss']['count'])
        self.assertGreater(inference['cache_miss']['ns'], 0)

    def test_metrics_count_hits_and_misses_of_models_with_a_cache(self):
        for value in (91, 92, 91):
            self.infer('counted', value)
        lines = [l for l in harness.curl(self.server.url('/metrics')).body.decode().splitlines() if '_cache_' in l]
        of = '{model="counted",version="1"'
        self.assertIn(f'weir_model_response_cache_total{of},outcome="hit"}} 1', lines)
        self.assertIn(f'weir_model_response_cache_total{of},outcome="miss"}} 2', lines)
        self.assertIn(f'nv_cache_num_hits_per_model{of}}} 1', lines)
        self.assertIn(f'nv_cache_num_misses_per_model{of}}} 2', lines)
        for kind in ('hit', 'miss'):
            self.assertTrue(any(l.startswith(f'nv_cache_{kind}_duration_per_model{of}}} ') for l in lines))
        self.assertEqual([], [l for l in lines if 'model="plain"' in l])

    def test_a_model_that_does_not_ask_for_it_has_no_cache(self):
        for _ in range(2):
            self.infer('plain', 1)
        self.assertEqual(2, self.stats('plain')['execution_count'])
        for model, cached in (('cached', True), ('plain', False)):
            config = harness.curl(self.server.url(f'/v2/models/{model}/config')).json()
            self.assertEqual(cached, config['response_cache']['enable'])

    def test_what_an_ensemble_has_answered_is_asked_of_none_of_its_models(self):
        before = self.stats('plain')['execution_count']
        for value in (81, 82, 81):
            self.infer('ensemble', value)
        self.assertEqual(before + 2, self.stats('plain')['execution_count'])
        inference = self.stats('ensemble')['inference_stats']
        self.assertEqual([1, 2, 3], [inference[kind]['count'] for kind in ('cache_hit', 'cache_miss', 'success')])

    def test_inputs_in_shared_memory_are_cached_by_their_content(self):
        path = f'/dev/shm/weir_e2e_cache_{self.server.port}'
        with open(path, 'w+b', buffering=0) as file:
            self.addCleanup(os.unlink, path)
            file.truncate(4096)
            url = self.server.url('/v2/systemsharedmemory/region/c/register')
            harness.curl(url, data=json.dumps({'key': path[8:], 'byte_size': 4096}))
            before = self.stats('cached')['execution_count']
            for value in (70, 71, 70):
                os.pwrite(file.fileno(), struct.pack('<f', value), 0)
                body = {'inputs': [{'name': 'x', 'shape': [1, 1], 'datatype': 'FP32', 'parameters': {
                    'shared_memory_region': 'c', 'shared_memory_byte_size': 4}}]}
                answer = harness.curl(self.server.url('/v2/models/cached/infer'), data=json.dumps(body)).json()
                self.assertEqual([value], answer['outputs'][0]['data'])
            self.assertEqual(before + 2, self.stats('cached')['execution_count'])

    def test_a_model_that_fails_its_warm_up_is_not_ready(self):
        rows = {row['name']: row for row in harness.curl(self.server.url('/v2/repository/index'), '-X', 'POST').json()}
        self.assertEqual('READY', rows['warm']['state'])
        self.assertEqual('UNAVAILABLE', rows['cold']['state'])
        self.assertIn("warm-up sample 'first'", rows['cold']['reason'])
        self.assertEqual(0, self.stats('warm')['execution_count'])


if __name__ == '__main__':
    harness.main()
