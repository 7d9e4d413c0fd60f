"""LoRA adapters that come and go while the server runs: vLLM's two routes, OIP's loads, and a folder that is watched."""

import concurrent.futures
import http.client
import json
import os
import shutil
import time
import unittest
import urllib.error
import urllib.request

import adapters_test
import harness
import tiny_model

PARAMETERS = adapters_test.PARAMETERS
PROMPT = 'To be, or not to be, that is'
SAID = {'poet': adapters_test.ADAPTERS['poet'], 'sql': adapters_test.ADAPTERS['org/sql:v1']}


def make(name):
    """(repository, folder of adapters beside it)"""
    root, outside = harness.scratch() / name, harness.scratch() / f'{name}-adapters'
    weights = tiny_model.varied()
    tiny_model.write(root, 'base', {'model.safetensors': weights})
    (root / 'base/model.yaml').write_text(f'engine: llm\nparameters: {{{PARAMETERS}}}\nadapters_folder: adapters\n')
    for seed, (adapter, said) in enumerate(SAID.items()):
        files, merged = adapters_test.adapter(adapters_test.arrays(weights), said, seed)
        adapters_test.put(outside / 'in' / adapter, files)
        tiny_model.write(root, f'merged_{adapter}', {'model.safetensors': merged}, PARAMETERS)
    adapters_test.put(outside / 'out/secret', files)
    os.symlink('../out/secret', outside / 'in/link')
    os.symlink(outside / 'out', outside / 'in/far')
    adapters_test.put(outside / 'in/broken', {'adapter_config.json': {**SAID['sql'], 'peft_type': 'LORA', 'bias': 'none', 'r': 3},
                                              'adapter_model.safetensors': files['adapter_model.safetensors']})
    return root, outside


class Asks(unittest.TestCase):
    def ask(self, path, body=None):
        """(status, content type, body)"""
        request = urllib.request.Request(self.server.url(path), None if body is None else json.dumps(body).encode(),
                                         {'Content-Type': 'application/json'})
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return answer.status, answer.headers['content-type'], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers['content-type'], error.read().decode()

    def json(self, path, body=None):
        status, _, text = self.ask(path, body)
        self.assertEqual(200, status, text)
        return json.loads(text)

    def complete(self, model, prompt=PROMPT):
        return self.json('/v1/completions', {'model': model, 'prompt': prompt, 'max_tokens': 20, 'temperature': 0,
                                             'ignore_eos': True})['choices'][0]['text']

    def load(self, name, path, **more):
        return self.ask('/v1/load_lora_adapter', {'lora_name': name, 'lora_path': str(path), **more})

    def unload(self, name):
        return self.ask('/v1/unload_lora_adapter', {'lora_name': name})

    def refused(self, answer, status, kind, text):
        self.assertEqual((status, 'application/json'), answer[:2], answer[2])
        self.assertEqual({'error': {'message': text, 'type': kind, 'param': None, 'code': status}}, json.loads(answer[2]))

    def names(self):
        return [model['id'] for model in self.json('/v1/models')['data']]

    def becomes(self, is_so):
        end = time.monotonic() + harness.PATIENCE
        while not is_so() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertTrue(is_so())


class RuntimeAdapters(Asks):
    @classmethod
    def setUpClass(cls):
        cls.root, cls.outside = make('runtime')
        cls.server = harness.Server('--adapter-roots', cls.outside / 'in', repository=cls.root,
                                    env={'WEIR_MODELS_DEFAULT': 'base', 'WEIR_METRICS_COMPAT': 'vllm'})
        cls.addClassCleanup(cls.server.stop)
        cls.bare = cls.memory(cls())

    def setUp(self):
        self.becomes(lambda: self.memory() == self.bare)  # adapters of other tests have left

    def memory(self):
        stats = self.json('/v2/models/base/stats')['model_stats'][0]
        return sum(row['byte_size'] for row in stats['memory_usage'])

    def test_one_is_loaded_asked_and_unloaded_as_in_vllm(self):
        before = self.memory()
        self.assertEqual((200, 'text/plain; charset=utf-8', "Success: LoRA adapter 'my/sql' added successfully."), self.load('my/sql', 'sql'))
        self.assertEqual(self.complete('merged_sql'), self.complete('my/sql'))
        self.assertEqual(self.complete('merged_poet') != self.complete('base'), True)
        model, = (m for m in self.json('/v1/models')['data'] if m['id'] == 'my/sql')
        self.assertEqual(('sql', 'base'), (model['root'], model['parent']))
        self.assertGreater(self.memory(), before)
        already = ("The lora adapter 'my/sql' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.")
        self.refused(self.load('my/sql', 'poet'), 400, 'InvalidUserInput', already)
        self.assertEqual(200, self.load('my/sql', self.outside / 'in/poet', load_inplace=True)[0])
        self.assertEqual(self.complete('merged_poet'), self.complete('my/sql'), 'no prefix of the former is found again')
        self.assertEqual((200, 'text/plain; charset=utf-8', "Success: LoRA adapter 'my/sql' removed successfully."), self.unload('my/sql'))
        self.assertNotIn('my/sql', self.names())
        self.assertEqual(404, self.ask('/v1/completions', {'model': 'my/sql', 'prompt': 'x'})[0])
        self.becomes(lambda: self.memory() == before)

    def test_errors_have_the_form_of_vllm(self):
        both = "Both 'lora_name' and 'lora_path' must be provided."
        self.refused(self.ask('/v1/load_lora_adapter', {'lora_name': 'x'}), 400, 'InvalidUserInput', both)
        self.refused(self.ask('/v1/load_lora_adapter', {'lora_path': 'sql'}), 400, 'InvalidUserInput', both)
        self.refused(self.load('x', 'nothing'), 404, 'NotFoundError', 'Loading lora x failed: No adapter found for nothing')
        self.refused(self.ask('/v1/unload_lora_adapter', {}), 400, 'InvalidUserInput', "'lora_name' needs to be provided to unload a LoRA adapter.")
        for name in ('x', 'base', 'merged_sql'):
            self.refused(self.unload(name), 404, 'NotFoundError', f"The lora adapter '{name}' cannot be found.")
        status, _, text = self.load('x', 'broken')
        self.assertEqual((400, 'BadRequestError'), (status, json.loads(text)['error']['type']))
        self.assertIn('is expected', text)
        self.assertNotIn(str(self.outside), text)
        self.assertEqual(400, self.ask('/v1/load_lora_adapter', ['x'])[0])
        self.assertIn('base', self.names())

    def test_paths_lead_nowhere_else(self):
        out = self.outside / 'out/secret'
        for path in (out, '../out/secret', self.outside / 'in/../out/secret', 'link', 'far/secret', '/etc', '..', '.', 'sql/..',
                     self.root / 'base/1', '\0', 'sql\0', 'x' * 100000, '/proc/self/cwd', '%2e%2e/out/secret'):
            status, _, text = self.load('bad', path)
            self.assertIn(status, (400, 403, 404, 409, 412), (path, text))
            self.assertNotIn(str(self.outside.parent), text.replace(str(path), ''))
        self.assertNotIn('bad', self.names())
        self.assertLess(self.server.rss(), 1 << 30)

    def test_what_streams_ends_with_the_adapter_that_is_unloaded(self):
        self.assertEqual(200, self.load('flow', 'sql')[0])
        whole = self.json('/v1/completions', {'model': 'merged_sql', 'prompt': 'x', 'max_tokens': 60, 'temperature': 0, 'ignore_eos': True})['choices'][0]['text']
        connection = http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=harness.PATIENCE)
        connection.request('POST', '/v1/completions', json.dumps({'model': 'flow', 'prompt': 'x', 'max_tokens': 60, 'temperature': 0,
                                                                  'ignore_eos': True, 'stream': True}), {'Content-Type': 'application/json'})
        answer = connection.getresponse()
        first = answer.readline()
        self.assertEqual(200, self.unload('flow')[0])
        self.assertEqual(200, self.load('flow', 'poet')[0])
        lines = [first, *answer.read().splitlines()]
        connection.close()
        said = ''.join(json.loads(line[6:])['choices'][0]['text'] for line in lines if line.startswith(b'data: {'))
        self.assertEqual(whole, said)
        self.assertEqual(self.complete('merged_poet'), self.complete('flow'))
        self.assertEqual(200, self.unload('flow')[0])

    def test_oip_loads_them_with_parameters(self):
        parameters = {'parameters': {'lora_path': 'poet', 'base_model_name': 'base'}}
        self.assertEqual(200, self.ask('/v2/repository/models/by_oip/load', parameters)[0])
        self.assertEqual(self.complete('merged_poet'), self.complete('by_oip'))
        ready = {row['name']: row['state'] for row in self.json('/v2/repository/index', {})}
        self.assertEqual('READY', ready['by_oip'])
        stats = self.json('/v2/models/by_oip/stats')['model_stats'][0]
        self.assertEqual((1, 1), (stats['inference_count'], stats['inference_stats']['success']['count']))
        self.assertGreater(stats['inference_stats']['success']['ns'], 0)
        self.assertEqual(200, self.ask('/v2/repository/models/by_oip/unload', {})[0])
        self.assertNotIn('by_oip', self.names())

    def test_they_come_back_with_a_model_that_is_loaded_anew_while_requests_run(self):
        self.assertEqual(200, self.load('kept', 'sql')[0])
        expected = self.complete('merged_sql')
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(self.complete, 'kept') for _ in range(40)]
            for i in range(3):
                os.utime(self.root / 'base/1/config.json', (1e9 + i, 1e9 + i))
                self.server.process.send_signal(1)
                self.load('other', 'poet')
                self.unload('other')
            for each in asked:
                self.assertEqual(expected, each.result())
        self.server.logged('model loaded', 'base', count=4)
        self.assertEqual(expected, self.complete('kept'))
        self.assertEqual(200, self.unload('kept')[0])

    def test_one_that_does_not_come_back_with_its_model_can_be_unloaded(self):
        shutil.copytree(self.outside / 'in/sql', self.outside / 'in/short')
        self.assertEqual(200, self.load('short', 'short')[0])
        shutil.rmtree(self.outside / 'in/short')
        os.utime(self.root / 'base/1/config.json', (2e9, 2e9))
        self.server.process.send_signal(1)
        self.becomes(lambda: [r['state'] for r in self.json('/v2/repository/index', {}) if r['name'] == 'short'] == ['UNAVAILABLE'])
        self.assertEqual(404, self.unload('base')[0], 'models are not unloaded here')
        self.assertEqual(200, self.unload('short')[0])
        self.assertEqual(404, self.unload('short')[0])

    def test_lists_of_models_begin_with_their_models(self):
        self.assertEqual(200, self.load('a', 'sql')[0])
        self.addCleanup(self.unload, 'a')
        listed = [model['parent'] for model in self.json('/v1/models')['data']]
        self.assertEqual('base', listed[-1])
        self.assertEqual([None] * (len(listed) - 1), listed[:-1])

    def test_metrics_name_those_with_requests(self):
        text = self.ask('/metrics')[2]
        line, = (line for line in text.splitlines() if line.startswith('vllm:lora_requests_info{') and 'model_name="base"' in line)
        self.assertIn('running_lora_adapters="",waiting_lora_adapters=""', line)


class WatchedAdapters(Asks):
    def test_folders_of_the_model_come_and_go(self):
        root, outside = make('watched')
        server = self.server = harness.Server('--control', 'poll', repository=root, env={'WEIR_MODELS_POLL_INTERVAL': '50ms'})
        self.addCleanup(server.kill)
        refused = self.load('x', 'sql')
        self.assertEqual(403, refused[0], refused)
        self.assertNotIn('sql', self.names())
        shutil.copytree(outside / 'in/sql', root / 'base/1/adapters/sql')
        self.becomes(lambda: 'sql' in self.names())
        self.assertEqual(self.complete('merged_sql'), self.complete('sql'))
        shutil.copytree(outside / 'in/poet', root / 'base/1/adapters/poet')
        self.becomes(lambda: 'poet' in self.names())
        shutil.rmtree(root / 'base/1/adapters/sql')
        self.becomes(lambda: 'sql' not in self.names())
        self.assertEqual(self.complete('merged_poet'), self.complete('poet'))
        self.assertEqual(1, len(server.logged('model loaded', 'model=base ')), 'the model itself stays')


if __name__ == '__main__':
    harness.main()
