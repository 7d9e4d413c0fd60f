"""LoRA adapters (`adapters:` of model.yaml): base and adapter say what a folder with merged weights says, in any company."""

import concurrent.futures
import json
import struct
import urllib.error
import urllib.request

import harness
import numpy as np
import salience_client
import tiny_model

oip, oip_rpc = harness.stubs()('inference')
PARAMETERS = 'kv_cache: 4MiB, threads: 1, max_running: 32, step_tokens: 32'
ATTENTION, ALL = ['q_proj', 'v_proj'], ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']
ADAPTERS = {'poet': {'r': 2, 'lora_alpha': 3, 'use_rslora': True, 'target_modules': ATTENTION},
            'org/sql:v1': {'r': 8, 'lora_alpha': 16, 'target_modules': ALL}}
FOLDERS = {'poet': 'adapters/poet', 'org/sql:v1': 'adapters/deep/sql'}
MERGED = {'base': 'plain', 'poet': 'merged_poet', 'org/sql:v1': 'merged_sql'}
PROMPTS = ['To be, or not to be, that is', 'SELECT name FROM people WHERE age', 'x', 'The quick brown fox jumps']


def arrays(file):
    length, = struct.unpack('<Q', file[:8])
    return {name: np.frombuffer(file[8 + length:][slice(*e['data_offsets'])], dtype=np.float32).reshape(e['shape'])
            for name, e in json.loads(file[8:8 + length]).items()}


def file_of(numbers):
    header, data = {}, b''
    for name, array in numbers.items():
        raw = array.astype(np.float32).tobytes()
        header[name] = {'dtype': 'F32', 'shape': list(array.shape), 'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    return tiny_model.packed(header, data)


def adapter(base, said, seed):
    """The files of an adapter, as PEFT writes them, and the weights with it merged into them."""
    dice, own, merged = np.random.default_rng(seed), {}, dict(base)
    scale = said['lora_alpha'] / (said['r'] ** 0.5 if said.get('use_rslora') else said['r'])
    for name, w in base.items():
        module = name.removesuffix('.weight')
        if module.rsplit('.', 1)[1] in said['target_modules']:
            a, b = (dice.normal(0, 0.5, shape).astype(np.float32) for shape in ((said['r'], w.shape[1]), (w.shape[0], said['r'])))
            own[f'base_model.model.{module}.lora_A.weight'], own[f'base_model.model.{module}.lora_B.weight'] = a, b
            merged[name] = w + scale * (b @ a)
    return {'adapter_config.json': {'peft_type': 'LORA', 'bias': 'none', **said}, 'adapter_model.safetensors': file_of(own)}, file_of(merged)


def put(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def yaml(parameters=PARAMETERS):
    return f'engine: llm\nparameters: {{{parameters}}}\nadapters: {json.dumps(FOLDERS)}\n'


def repository():
    root = harness.scratch() / 'adapters'
    weights = tiny_model.varied()
    made = {name: adapter(arrays(weights), said, seed) for seed, (name, said) in enumerate(ADAPTERS.items())}
    for name, parameters in (('base', PARAMETERS), ('guessing', PARAMETERS + ', draft_tokens: 4')):
        tiny_model.write(root, name, {'model.safetensors': weights})
        for each, path in FOLDERS.items():
            put(root / name / '1' / path, made[each][0])
        (root / name / 'model.yaml').write_text(yaml(parameters))
    folders = json.loads(json.dumps(FOLDERS).replace('poet":', 'guessing_poet":').replace('org/sql:v1":', 'guessing_sql":'))
    (root / 'guessing/model.yaml').write_text(yaml(PARAMETERS + ', draft_tokens: 4').replace(json.dumps(FOLDERS), json.dumps(folders)))
    for name, file in (('plain', weights), ('merged_poet', made['poet'][1]), ('merged_sql', made['org/sql:v1'][1])):
        tiny_model.write(root, name, {'model.safetensors': file}, PARAMETERS)
    broken = {'adapter_config.json': {**made['poet'][0]['adapter_config.json'], 'r': 3},
              'adapter_model.safetensors': made['poet'][0]['adapter_model.safetensors']}
    tiny_model.write(root, 'broken')
    put(root / 'broken/1/adapters/wrong', broken)
    (root / 'broken/model.yaml').write_text('engine: llm\nadapters: {wrong: adapters/wrong}\n')
    tiny_model.write(root, 'leaves')
    (root / 'leaves/model.yaml').write_text('engine: llm\nadapters: {out: ../../base/1/adapters/poet}\n')
    return root


class Adapters(harness.GrpcCase):
    stub_class = oip_rpc.GRPCInferenceServiceStub

    @classmethod
    def setUpClass(cls):
        cls.repository = repository()
        super().setUpClass()

    def ask(self, path, body=None):
        request = urllib.request.Request(self.server.url(path), body and json.dumps(body).encode(), {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
            return json.load(answer)

    def complete(self, model, prompt, **more):
        answer = self.ask('/v1/completions', {'model': model, 'prompt': prompt, 'max_tokens': 20, 'temperature': 0, 'logprobs': 2,
                                              'ignore_eos': True, **more})
        self.assertEqual(model, answer['model'])
        choice, usage = answer['choices'][0], answer['usage']
        return choice['text'], choice['logprobs']['token_logprobs'], usage['prompt_tokens_details']['cached_tokens']

    def assert_says(self, answer, expected):
        self.assertEqual(expected[0], answer[0])
        np.testing.assert_allclose(np.array(answer[1], float), np.array(expected[1], float), atol=2e-3)

    def test_each_says_what_its_merged_folder_says(self):
        texts = set()
        for name, merged in MERGED.items():
            for prompt in PROMPTS:
                expected = self.complete(merged, prompt)
                self.assert_says(self.complete(name, prompt), expected)
                texts.add(expected[0])
        self.assertGreater(len(texts), 2 * len(PROMPTS), 'the adapters change what is said')

    def test_log_probabilities_of_prompts_are_the_adapters_too(self):
        for name, merged in MERGED.items():
            self.assert_says(self.complete(name, PROMPTS[1], echo=True), self.complete(merged, PROMPTS[1], echo=True))

    def test_all_at_once_say_what_each_says_alone(self):
        jobs = [(name, f'{i} {PROMPTS[i % 4]}') for i in range(8) for name in MERGED]
        expected = [self.complete(MERGED[name], prompt) for name, prompt in jobs]
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            for answer, alone in zip(pool.map(lambda job: self.complete(*job), jobs), expected):
                self.assert_says(answer, alone)

    def test_a_prefix_is_found_again_by_its_own_adapter_alone(self):
        prompt = 'A prefix of two whole blocks and more.'
        for cached in (0, 32, 32):
            for name, merged in MERGED.items():
                answer = self.complete(name, prompt)
                self.assert_says(answer, self.complete(merged, prompt))
                self.assertEqual(cached, answer[2], name)

    def test_guesses_are_checked_with_the_adapter(self):
        for name, merged in (('guessing', 'plain'), ('guessing_poet', 'merged_poet'), ('guessing_sql', 'merged_sql')):
            self.assert_says(self.complete(name, 'abcabcabcabcabcab'), self.complete(merged, 'abcabcabcabcabcab'))

    def test_they_are_models_to_clients_of_openai(self):
        listed = {model['id']: model for model in self.ask('/v1/models')['data']}
        self.assertEqual(('base', None), (listed['base']['root'], listed['base']['parent']))
        self.assertEqual(('adapters/deep/sql', 'base'), (listed['org/sql:v1']['root'], listed['org/sql:v1']['parent']))
        self.assertEqual('base', self.ask('/v1/models/org/sql:v1')['parent'])
        self.assertNotIn('wrong', listed)

    def generate(self, model):
        request = oip.ModelInferRequest(model_name=model)
        tensor = request.inputs.add(name='text_input', datatype='BYTES', shape=[1])
        tensor.contents.bytes_contents.append(PROMPTS[0].encode())
        request.parameters['max_tokens'].int64_param = 20
        request.parameters['temperature'].double_param = 0
        request.parameters['ignore_eos'].bool_param = True
        answer = self.stub.ModelInfer(request, timeout=harness.PATIENCE)
        self.assertEqual(model, answer.model_name)
        return answer.raw_output_contents[0] if answer.raw_output_contents else answer.outputs[0].contents.bytes_contents[0]

    def test_they_are_models_to_clients_of_oip(self):
        for name, merged in MERGED.items():
            self.assertTrue(self.stub.ModelReady(oip.ModelReadyRequest(name=name)).ready)
            self.assertEqual(self.generate(merged), self.generate(name))
            path = '/v2/models/%s/generate' % name.replace('/', '%2F')
            body = {'text_input': PROMPTS[0], 'max_tokens': 20, 'temperature': 0, 'ignore_eos': True}
            self.assertEqual(self.ask(f'/v2/models/{merged}/generate', body)['text_output'], self.ask(path, body)['text_output'])

    def test_a_session_has_the_adapter_of_its_model(self):
        stub, said = salience_client.rpc.SalienceStub(self.channel), {}
        for name in (*MERGED, *MERGED.values()):
            session = stub.OpenSession(salience_client.pb.OpenSessionRequest(model=name)).session_id
            client = salience_client.Client(stub, session)
            client.generate(list(b'The first turn of several'), max_tokens=6)
            client.generate(list(b' and more'), max_tokens=6)
            client.generate(list(b'again'), max_tokens=6, offset=20)
            said[name] = client.tokens
            client.close()
        for name, merged in MERGED.items():
            self.assertEqual(said[merged], said[name])

    def test_a_folder_that_is_wrong_is_named(self):
        reasons = {row['name']: row['reason'] for row in self.ask('/v2/repository/index', {})}
        self.assertIn("adapter 'wrong': adapters/wrong/adapter_model.safetensors: "
                      "'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight' has shape [2,16]; [3,16] is expected",
                      reasons['broken'])
        self.assertEqual(reasons['broken'], reasons['wrong'])
        self.assertIn("adapter 'out': '../../base/1/adapters/poet' is no path of a folder below the version's folder", reasons['leaves'])
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.complete('wrong', 'x')
        self.assertEqual(503, refused.exception.code)


if __name__ == '__main__':
    harness.main()
