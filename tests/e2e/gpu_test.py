"""The server with and without a GPU, on a machine that has none: CUDA and its management library are the fakes of
tests/device, put where the loader finds them."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import unittest

import harness
from harness import curl

FAKES = harness.BUILD / 'tests/device'
REQUEST = json.dumps({'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [1, 3], 'data': [1, 2, 3]}]})


def repository(**devices):
    root = harness.scratch() / ('gpu-' + '-'.join(devices))
    for name, device in devices.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / 'model.yaml').write_text(f'engine: identity\nparameters:\n  device: "{device}"\n')
    return root


def faked(module=FAKES / 'libweir_fake_cuda.so', **variables):
    """The environment of a machine with two GPUs."""
    libraries = harness.scratch() / 'fake-driver'
    libraries.mkdir(exist_ok=True)
    for name, fake in ('libcuda.so.1', 'libweir_other.so'), ('libnvidia-ml.so.1', 'libweir_fake_nvml.so'):
        if not (libraries / name).is_symlink():
            (libraries / name).symlink_to(FAKES / fake)
    return {**os.environ, 'LD_LIBRARY_PATH': str(libraries), 'WEIR_CUDA_MODULE': str(module), **variables}


def metric(text, name):
    found = re.search(rf'^{re.escape(name)} (\S+)$', text, re.M)
    return float(found[1]) if found else None


class WithoutAGpu(unittest.TestCase):
    def setUp(self):
        self.environment = {**os.environ, 'WEIR_DEVICE_CUDA': 'off'}

    def test_the_server_serves_and_says_why_a_model_of_a_gpu_does_not(self):
        server = harness.Server(repository=repository(host='host', fake='fake', gone='cuda'), env=self.environment)
        try:
            for name in 'host', 'fake':
                answer = curl(server.url(f'/v2/models/{name}/infer'), data=REQUEST.encode())
                self.assertEqual(200, answer.status, answer.body)
                self.assertEqual([1.0, 2.0, 3.0], answer.json()['outputs'][0]['data'])
            self.assertIn('gone/1  UNAVAILABLE: no CUDA: it is switched off', server.output())
            text = curl(server.url('/metrics')).body
            text = text.decode() if isinstance(text, bytes) else text
            self.assertIsNone(metric(text, 'weir_pinned_total_bytes'))
        finally:
            self.assertEqual(0, server.stop())


    def test_instances_are_spread_over_devices(self):
        root = harness.scratch() / 'spread'
        (root / 'both').mkdir(parents=True)
        (root / 'both/model.yaml').write_text('engine: identity\ndevices: [fake, "fake:1"]\ninstances: 2\n')
        server = harness.Server(repository=root, env=self.environment)
        try:
            def client(i):
                for _ in range(20):
                    self.assertEqual(200, curl(server.url('/v2/models/both/infer'), data=REQUEST.encode()).status)

            with harness.threads(4, client):
                pass
            timeline = curl(server.url('/grps/v1/monitor/batches?model=both')).json()
            self.assertEqual(['fake', 'fake', 'fake:1', 'fake:1'], timeline['places'])
            self.assertEqual(80, len(timeline['batches']))
            for batch in timeline['batches']:
                self.assertEqual(1, batch['calls'])
                self.assertLessEqual(batch['start'], timeline['now'])
        finally:
            self.assertEqual(0, server.stop())

    def test_instances_on_a_gpu_that_is_not_there_are_an_error_or_run_on_the_cpu(self):
        root = harness.scratch() / 'missing'
        (root / 'wants').mkdir(parents=True)
        (root / 'wants/config.pbtxt').write_text('backend: "identity" instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]')
        (root / 'may').mkdir()
        (root / 'may/config.pbtxt').write_text('backend: "identity" instance_group [ { kind: KIND_AUTO gpus: [ 0 ] } ]')
        server = harness.Server(repository=root, env=self.environment)
        try:
            self.assertIn('wants/1  UNAVAILABLE: instances on cuda:0 are asked for, but there is no GPU here',
                          server.output())
            self.assertEqual(200, curl(server.url('/v2/models/may/infer'), data=REQUEST.encode()).status)
        finally:
            self.assertEqual(0, server.stop())
        server = harness.Server('--models-missing-devices', 'cpu', repository=root, env=self.environment)
        try:
            self.assertEqual(200, curl(server.url('/v2/models/wants/infer'), data=REQUEST.encode()).status)
        finally:
            self.assertEqual(0, server.stop())


class WithAGpuThatDoesNotSuit(unittest.TestCase):
    """Models of text under `auto`, the default, run on the CPU where the GPU cannot have them."""

    def serve(self, name, environment, **parameters):
        """A server of the demo model under that name, beside one that insists on the GPU; what it says."""
        root = harness.scratch() / f'unsuitable-{name}'
        for model, device in (name, 'auto'), ('insists', 'cuda'):
            shutil.copytree(harness.MODELS / 'chat', root / model)
            lines = [f'  {key}: "{value}"' for key, value in {'device': device, **parameters}.items()]
            (root / model / 'model.yaml').write_text('\n'.join(['engine: llm', 'parameters:', *lines, '']))
        server = harness.Server('--device-pinned-pool', '256MiB', repository=root, env=environment)
        try:
            body = json.dumps({'model': name, 'prompt': 'Hello', 'max_tokens': 2, 'temperature': 0})
            answer = curl(server.url('/v1/completions'), data=body.encode())
            self.assertEqual(200, answer.status, (answer.body, server.output()[-2000:]))
            return server.output()
        finally:
            self.assertEqual(0, server.stop())

    def test_a_gpu_that_is_too_old(self):
        said = self.serve('old', faked(WEIR_FAKE_CUDA='turing'))
        why = r'cuda:0 \(Fake H100\) has compute capability 7\.5, and the kernels need 8\.0; use device: cpu'
        self.assertRegex(said, f'a model runs on the CPU.*old.*{why}')
        self.assertRegex(said, f'insists/1 +UNAVAILABLE: {why}')

    def test_a_gpu_without_room_for_the_weights(self):
        stand_in = harness.BUILD / 'tests/gpu/libweir_stand_in.so'
        said = self.serve('heavy', faked(stand_in, WEIR_FAKE_CUDA_MEMORY=str(100 << 10)))
        self.assertRegex(said, r'a model runs on the CPU.*heavy.*of 100KiB of cuda:0')
        self.assertRegex(said, r'insists/1 +UNAVAILABLE: .*of 100KiB of cuda:0')

    def test_a_gpu_with_room_for_the_weights_and_not_for_keys_and_values(self):
        stand_in = harness.BUILD / 'tests/gpu/libweir_stand_in.so'
        said = self.serve('long', faked(stand_in, WEIR_FAKE_CUDA_MEMORY=str(256 << 20)), kv_cache='512MiB', max_running='4096')
        self.assertRegex(said, r'a model runs on the CPU.*long.*of 256MiB of cuda:0')


class WithAFakeGpu(unittest.TestCase):
    @unittest.skipUnless(os.environ.get('WEIR_ONNXRUNTIME'), 'WEIR_ONNXRUNTIME names no ONNX Runtime')
    def test_an_onnx_model_runs_on_each_gpu_where_its_library_can(self):
        library, root = harness.scratch() / 'onnx-with-gpus', harness.scratch() / 'onnx-on-gpus'
        library.mkdir()
        (library / 'libonnxruntime.so.1').symlink_to(harness.BUILD / 'tests/engines/onnx/libfake_gpu_onnxruntime.so')
        (library / 'libonnxruntime_providers_cuda.so').touch()
        on_gpus = 'instance_group [ { kind: KIND_GPU } ]\n'
        tensorrt = ('optimization { execution_accelerators { gpu_execution_accelerator { name: "tensorrt" '
                    'parameters { key: "precision_mode" value: "FP16" } } } }\n')
        isolated = 'parameters { key: "isolation" value { string_value: "process" } }\n'
        for name, more in ('here', ''), ('there', on_gpus + tensorrt), ('apart', on_gpus + isolated):
            shutil.copytree(harness.MODELS / 'digits', root / name)
            config = root / name / 'config.pbtxt'
            config.write_text(config.read_text().replace('name: "digits"', f'name: "{name}"', 1) + more)
        asked = harness.scratch() / 'asked-of-onnx'
        env = {**faked(), 'FAKE_GPU_ONNXRUNTIME': os.environ['WEIR_ONNXRUNTIME'], 'FAKE_GPU_LOG': str(asked)}
        server = harness.Server('--device-pinned-pool', '256MiB', '--onnx-library', library, repository=root, env=env)
        try:
            image = json.loads((harness.MODELS / 'digits/heldout.json').read_text())['images'][0]
            body = json.dumps({'inputs': [{'name': 'image', 'datatype': 'FP32', 'shape': [1, 64], 'data': image}]})
            answers = {name: curl(server.url(f'/v2/models/{name}/infer'), data=body) for name in ('here', 'there', 'apart')}
            for name, answer in answers.items():
                self.assertEqual(200, answer.status, (name, answer.body, server.output()[-2000:]))
                self.assertEqual(answers['here'].json()['outputs'], answer.json()['outputs'], name)
            lines = asked.read_text().splitlines()
            for gpu in 0, 1:
                self.assertIn(f'provider T device_id={gpu} trt_fp16_enable=1 user_compute_stream=something', lines)
                self.assertEqual(2, lines.count(f'provider C device_id={gpu} user_compute_stream=something'), lines)
        finally:
            self.assertEqual(0, server.stop())

    def test_every_gpu_has_an_instance(self):
        root = harness.scratch() / 'every'
        (root / 'all').mkdir(parents=True)
        (root / 'all/config.pbtxt').write_text('backend: "identity" instance_group [ { kind: KIND_GPU } ]')
        server = harness.Server('--device-pinned-pool', '256MiB', repository=root, env=faked())
        try:
            answer = curl(server.url('/v2/models/all/infer'), data=REQUEST.encode())
            self.assertEqual([1.0, 2.0, 3.0], answer.json()['outputs'][0]['data'])
            timeline = curl(server.url('/grps/v1/monitor/batches?model=all')).json()
            self.assertEqual(['cuda:0', 'cuda:1'], timeline['places'])
        finally:
            self.assertEqual(0, server.stop())

    def test_requests_lie_in_pinned_memory_and_go_to_the_device_and_back(self):
        server = harness.Server('--metrics-compat', 'triton', '--device-pinned-pool', '256MiB',
                                repository=repository(first='cuda', second='cuda:1'), env=faked())
        try:
            for name in 'first', 'second':
                answer = curl(server.url(f'/v2/models/{name}/infer'), data=REQUEST.encode())
                self.assertEqual([1.0, 2.0, 3.0], answer.json()['outputs'][0]['data'])
            text = curl(server.url('/metrics')).body
            text = text.decode() if isinstance(text, bytes) else text
            self.assertEqual(256 << 20, metric(text, 'weir_pinned_total_bytes'))
            self.assertEqual(256 << 20, metric(text, 'nv_pinned_memory_pool_total_bytes'))
            self.assertEqual(12, metric(text, 'weir_device_copy_bytes_total{device="cuda:1",direction="to_host"}'))
            self.assertGreater(metric(text, 'nv_gpu_utilization{gpu_uuid="GPU-aaaa"}'), 0.3)
            self.assertEqual(123.456, metric(text, 'weir_gpu_power_watts{gpu="0",uuid="GPU-aaaa",name="Fake H100"}'))
        finally:
            self.assertEqual(0, server.stop())

    def test_memory_that_cannot_be_pinned_costs_only_models_on_a_gpu(self):
        server = harness.Server(repository=repository(host='host', gpu='cuda'),
                                env={**faked(), 'WEIR_FAKE_CUDA': 'unpinned'})
        try:
            answer = curl(server.url('/v2/models/host/infer'), data=REQUEST.encode())
            self.assertEqual([1.0, 2.0, 3.0], answer.json()['outputs'][0]['data'])
            self.assertIn('device.pinned_pool cannot be pinned', server.output())
            self.assertRegex(server.output(), r'gpu/1 +UNAVAILABLE: no pinned memory: cuda:0')
        finally:
            self.assertEqual(0, server.stop())

    def lose_a_gpu(self, on_fault, environment=None):
        """A server whose GPU breaks under a request; its status, and the server."""
        mode = harness.scratch() / f'cuda-mode-{on_fault}'
        mode.write_text('well')
        server = harness.Server('--device-on-fault', on_fault, '--device-pinned-pool', '256MiB',
                                repository=repository(gpu='cuda'),
                                env={**faked(), 'WEIR_FAKE_CUDA': f'@{mode}', **(environment or {})})
        self.assertEqual(200, curl(server.url('/v2/models/gpu/infer'), data=REQUEST.encode()).status)
        mode.write_text('lost')
        return curl(server.url('/v2/models/gpu/infer'), data=REQUEST.encode()).status, server

    def test_a_lost_gpu_ends_the_server_where_somebody_starts_it_again(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            path = str(harness.scratch() / 'notify')
            manager.bind(path)
            status, server = self.lose_a_gpu('auto', {'NOTIFY_SOCKET': path})
            self.assertEqual(503, status)
            self.assertEqual(5, server.process.wait(30))
            self.assertIn('a GPU is lost: the server ends', server.output())

    def test_a_lost_gpu_has_its_models_loaded_anew_where_nobody_does(self):
        status, server = self.lose_a_gpu('auto')
        self.assertEqual(503, status)
        for _ in range(100):
            answer = curl(server.url('/v2/models/gpu/infer'), data=REQUEST.encode())
            if answer.status == 200:
                break
            self.assertEqual(503, answer.status)
            time.sleep(0.1)
        self.assertEqual(200, answer.status)
        self.assertEqual(0, server.stop())

    def test_a_pool_that_is_too_small_ends_the_start_with_one_line(self):
        done = subprocess.run([harness.WEIR, 'serve', repository(first='cuda'), '--listen', '127.0.0.1:0',
                               '--device-pinned-pool', '1MiB'], env=faked(), stderr=subprocess.PIPE, timeout=30)
        self.assertEqual(2, done.returncode)
        self.assertIn(b'device.pinned_pool must be at least twice', done.stderr)

    def test_the_version_tells_the_devices(self):
        out = subprocess.check_output([harness.WEIR, 'version', '--json'], env=faked(), timeout=30)
        self.assertEqual(['cuda:0', 'cuda:1'], [d['id'] for d in json.loads(out)['cuda']['devices']])


if __name__ == '__main__':
    harness.main()
