"""Models in GGUF's form, as llama.cpp and Ollama have them: the demo model, converted."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'reference'))
import gguf  # noqa: E402
import gguf_bert  # noqa: E402
import numpy as np  # noqa: E402

DEMO = pathlib.Path(__file__).resolve().parents[2] / 'conf/models/chat/1'
MESSAGES = [{'role': 'user', 'content': 'Tell me a story about a cat.'}]


def demo_weights():
    """The demo model's numbers, which are bfloat16, without its vision encoder."""
    data = (DEMO / 'model.safetensors').read_bytes()
    length, = struct.unpack('<Q', data[:8])
    weights = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name.startswith(('__', 'visual.')):
            continue
        begin, end = (8 + length + at for at in entry['data_offsets'])
        assert entry['dtype'] == 'BF16', name
        weights[name] = (np.frombuffer(data[begin:end], dtype=np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(entry['shape'])
    return weights


def write_encoder(folder, path):
    """A random encoder as sentence-transformers saves one, and as a GGUF file."""
    folder.mkdir(parents=True)
    made = subprocess.run(['/usr/bin/python3', str(harness.ROOT / 'tests/reference/random_encoder.py'), '--tokenizer', '--out', str(folder)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if made.returncode != 0:
        raise unittest.SkipTest('no python3-torch here')
    data = (folder / 'model.safetensors').read_bytes()
    length, = struct.unpack('<Q', data[:8])
    weights = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != '__metadata__':
            begin, end = (8 + length + at for at in entry['data_offsets'])
            weights[name] = np.frombuffer(data[begin:end], dtype=np.float32).reshape(entry['shape'])
    words = json.loads((folder / 'tokenizer.json').read_text())['model']['vocab']
    said = json.loads((folder / 'config.json').read_text())
    fields = gguf_bert.fields_of(said, sorted(words, key=words.get))
    path.parent.mkdir(parents=True)
    gguf.write(path, fields, gguf_bert.tensors_of(said, weights, lambda name: 'F32'))


def convert(path, kind):
    said = json.loads((DEMO / 'config.json').read_text())
    config = json.loads((DEMO / 'tokenizer_config.json').read_text())
    tokenizer = json.loads((DEMO / 'tokenizer.json').read_text())
    fields = {**gguf.fields_of(said), **gguf.bytes_fields(tokenizer, 'qwen2', eos_token_id=said['eos_token_id'], add_bos_token=False),
              'tokenizer.chat_template': config['chat_template']}
    stored, _ = gguf.tensors_of(said, demo_weights(), lambda name: kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    gguf.write(path, fields, stored)


class GgufFiles(unittest.TestCase):
    def post(self, server, path, body):
        answer = harness.curl(server.url(path), '-H', 'Content-Type: application/json', '-d', json.dumps(body))
        self.assertEqual(200, answer.status, answer.body)
        return answer.json()

    def chat(self, server, model):
        answer = self.post(server, '/v1/chat/completions', {'model': model, 'messages': MESSAGES, 'max_tokens': 40, 'temperature': 0})
        return answer['choices'][0]['message']['content'], answer['usage']['prompt_tokens']

    def test_a_folder_with_a_gguf_file_answers_as_the_hugging_face_folder_does(self):
        root = harness.scratch()
        convert(root / 'whole' / '1' / 'chat.gguf', 'BF16')
        convert(root / 'coded' / '1' / 'chat-Q8_0.gguf', 'Q8_0')
        shutil.copytree(DEMO, root / 'folder' / '1')
        server = harness.Server(repository=root)
        self.addCleanup(server.kill)
        theirs = self.chat(server, 'folder')
        self.assertEqual(theirs, self.chat(server, 'whole'))
        text, prompt = self.chat(server, 'coded')
        self.assertEqual((theirs[1], theirs[0][:12]), (prompt, text[:12]))
        ollama = self.post(server, '/api/chat', {'model': 'whole', 'messages': MESSAGES, 'stream': False,
                                                 'options': {'temperature': 0, 'num_predict': 40}})
        self.assertEqual(theirs[0], ollama['message']['content'])
        tensors = self.post(server, '/v2/models/whole/infer', {'inputs': [
            {'name': 'text_input', 'datatype': 'BYTES', 'shape': [1], 'data': ['a cat']}], 'parameters': {'max_tokens': 4}})
        self.assertEqual('text_output', tensors['outputs'][0]['name'])

    def test_clients_of_ollama_are_told_what_a_file_is(self):
        root = harness.scratch() / 'gguf-details'
        convert(root / 'coded' / '1' / 'chat.gguf', 'Q8_0')
        shutil.copytree(DEMO, root / 'folder' / '1')
        server = harness.Server(repository=root)
        self.addCleanup(server.kill)
        listed = {model['name']: model for model in harness.curl(server.url('/api/tags')).json()['models']}
        running = {model['name']: model for model in harness.curl(server.url('/api/ps')).json()['models']}
        for name, form, level, file in (('coded', 'gguf', 'Q8_0', 'chat.gguf'), ('folder', 'safetensors', 'BF16', 'model.safetensors')):
            shown, tag = self.post(server, '/api/show', {'model': name}), listed[name + ':latest']
            self.assertEqual(tag['details'], shown['details'])
            self.assertEqual((form, level, 'qwen2'), tuple(shown['details'][key] for key in ('format', 'quantization_level', 'family')))
            self.assertRegex(shown['details']['parameter_size'], r'^\d+(\.\d+)?[KMB]$')
            info = shown['model_info']
            self.assertEqual('qwen2', info['general.architecture'])
            self.assertGreater(info['qwen2.context_length'], 0)
            self.assertGreater(info['general.parameter_count'], 1000)
            self.assertEqual(json.loads((DEMO / 'config.json').read_text())['num_hidden_layers'], info['qwen2.block_count'])
            self.assertGreaterEqual(tag['size'], (root / name / '1' / file).stat().st_size)
            self.assertEqual(64, len(tag['digest']))
            self.assertGreater(running[name + ':latest']['size'], 0)
        os.utime(root / 'coded/1/chat.gguf', (1e9, 1e9))
        again = harness.Server(repository=root)
        self.addCleanup(again.kill)
        anew = {model['name']: model for model in harness.curl(again.url('/api/tags')).json()['models']}
        self.assertNotEqual(listed['coded:latest']['digest'], anew['coded:latest']['digest'])
        self.assertEqual(listed['folder:latest']['digest'], anew['folder:latest']['digest'])
        self.assertEqual('2001-09-09T01:46:40', anew['coded:latest']['modified_at'][:19])

    def test_an_encoder_gives_the_embeddings_of_the_hugging_face_folder(self):
        root = harness.scratch() / 'gguf-encoders'
        write_encoder(root / 'folder' / '1', root / 'file' / '1' / 'encoder.gguf')
        server = harness.Server(repository=root)
        self.addCleanup(server.kill)
        theirs, ours = (self.post(server, '/v1/embeddings', {'model': model, 'input': ['The quick brown fox', 'x', 'Über größere Äpfel!']})
                        for model in ('folder', 'file'))
        self.assertEqual((theirs['data'], theirs['usage']), (ours['data'], ours['usage']))

    def test_encoders_of_other_families_do_as_their_folders_do(self):
        made = harness.scratch()
        script = harness.ROOT / 'tests/engines/llm/gguf_encoder_models.py'
        if subprocess.run(['/usr/bin/python3', str(script), str(made)], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            raise unittest.SkipTest('no python3-torch here')
        root = harness.scratch() / 'families'
        for name in ('roberta', 'rank', 'nomic', 'modern'):
            shutil.copytree(made / name, root / name / '1', ignore=shutil.ignore_patterns('*.gguf'))
            (root / (name + '-file') / '1').mkdir(parents=True)
            shutil.copy(made / name / 'model.gguf', root / (name + '-file') / '1')
        server = harness.Server(repository=root)
        self.addCleanup(server.kill)
        for name, given in (('roberta', ['the rain in Spain', 'x']), ('nomic', [[2, 9, 30, 3], [2, 7, 3]]), ('modern', [[2, 9, 30, 3]])):
            theirs, ours = (self.post(server, '/v1/embeddings', {'model': model, 'input': given}) for model in (name, name + '-file'))
            self.assertEqual((theirs['data'], theirs['usage']), (ours['data'], ours['usage']))
        asked = {'query': 'the rain', 'documents': ['a text', 'in Spain', 'it is']}
        theirs, ours = (self.post(server, '/v1/rerank', {'model': model, **asked}) for model in ('rank', 'rank-file'))
        self.assertEqual(theirs['results'], ours['results'])

    def test_a_gguf_file_alone_is_a_model(self):
        file = harness.scratch() / 'demo-Q4_0.gguf'
        convert(file, 'Q4_0')
        server = harness.Server(repository=file)
        self.addCleanup(server.kill)
        self.assertTrue(self.chat(server, 'demo-Q4_0')[0])

    def test_so_is_one_in_a_cache_by_a_link_or_by_its_own_name(self):
        root = harness.scratch()
        convert(root / 'blobs' / 'sha256-0123', 'BF16')
        (root / 'demo.gguf').symlink_to(root / 'blobs' / 'sha256-0123')
        (root / 'other').symlink_to(root / 'blobs' / 'sha256-0123')
        for path, name in ((root / 'demo.gguf', 'demo'), (root / 'other', 'other'), (root / 'blobs' / 'sha256-0123', 'sha256-0123')):
            server = harness.Server(repository=path)
            self.addCleanup(server.kill)
            self.assertTrue(self.chat(server, name)[0])


if __name__ == '__main__':
    harness.main()
