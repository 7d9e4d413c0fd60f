"""`weir serve` of one model's own folder: as it was downloaded from Hugging Face, or with a model.py."""

import json
import shutil
import sys
import unittest

import harness
import tiny_model

SCRIPT = '''import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({'name': 'x', 'data_type': 'TYPE_FP32', 'dims': [1]})
        config.add_output({'name': 'y', 'data_type': 'TYPE_FP32', 'dims': [1]})
        return config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor('y', pb_utils.get_input_tensor_by_name(r, 'x').as_numpy())]) for r in requests]
'''


class LoneModel(unittest.TestCase):
    def serve(self, folder):
        server = harness.Server(repository=folder, env={'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable})  # it has numpy
        self.addCleanup(server.kill)
        return server

    def post(self, server, path, body):
        return harness.curl(server.url(path), '-H', 'Content-Type: application/json', '-d', json.dumps(body))

    def test_a_folder_of_hugging_face_is_a_model(self):
        root = harness.scratch()
        tiny_model.write(root, 'x')
        folder = root / 'Qwen2.5-0.5B'
        shutil.move(root / 'x/1', folder)
        server = self.serve(folder)
        answer = self.post(server, '/v1/completions', {'model': 'Qwen2.5-0.5B', 'prompt': 'ab', 'max_tokens': 2})
        self.assertEqual(200, answer.status, server.output())

    def test_a_folder_with_a_script_is_a_model(self):
        folder = harness.scratch() / 'scale'
        folder.mkdir()
        (folder / 'model.py').write_text(SCRIPT)
        server = self.serve(folder)
        answer = self.post(server, '/v2/models/scale/infer', {'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [1], 'data': [3]}]})
        self.assertEqual(200, answer.status, server.output())

    def test_a_repository_without_models_is_told_of(self):
        folder = harness.scratch() / 'empty'
        folder.mkdir()
        self.assertTrue(self.serve(folder).logged('model repository has no models'))


if __name__ == '__main__':
    harness.main()
