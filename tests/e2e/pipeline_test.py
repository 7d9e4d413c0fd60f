"""A model made of models, from every protocol: digits behind identity, as model.yaml and as Triton's ensemble."""

import concurrent.futures
import json
import pathlib
import re
import shutil
import signal
import tempfile
import time

import numpy as np

import graphpipe_test as graphpipe
import harness
from harness import curl

PIPELINE = """
engine: pipeline
dag:
  type: sequential
  nodes:
    - {name: look, model: identity, inputs: {eye: pixels}, outputs: {eye: seen}}
    - {name: read, model: digits, inputs: {image: seen}}
inputs: [{name: pixels, type: FP32, shape: [64]}]
"""
ENSEMBLE = """
platform: "ensemble"
max_batch_size: 16
input { name: "pixels" data_type: TYPE_FP32 dims: 64 }
output { name: "answer" data_type: TYPE_FP32 dims: 10 }
ensemble_scheduling {
  step { model_name: "digits" model_version: -1 input_map { key: "image" value: "seen" } output_map { key: "probabilities" value: "answer" } }
  step { model_name: "identity" model_version: -1 input_map { key: "eye" value: "pixels" } output_map { key: "eye" value: "seen" } }
}
"""
# Two steps that do not depend on each other, and one that needs both.
SLOW = 'backend: "identity"\nparameters { key: "delay_us" value { string_value: "1500000" } }\n'
FORK = """
platform: "ensemble"
max_batch_size: 8
input [ { name: "a" data_type: TYPE_INT32 dims: 16 }, { name: "b" data_type: TYPE_INT32 dims: 16 } ]
output { name: "sum" data_type: TYPE_INT32 dims: 16 }
ensemble_scheduling {
  step { model_name: "left" model_version: -1 input_map { key: "t" value: "a" } output_map { key: "t" value: "slow_a" } }
  step { model_name: "right" model_version: -1 input_map { key: "t" value: "b" } output_map { key: "t" value: "slow_b" } }
  step { model_name: "simple" model_version: -1 input_map [ { key: "INPUT0" value: "slow_a" }, { key: "INPUT1" value: "slow_b" } ]
         output_map { key: "OUTPUT0" value: "sum" } }
}
"""


class Branches(harness.Case):
    serve = ('--metrics-compat', 'triton')

    @classmethod
    def setUpClass(cls):
        cls.repository = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        shutil.copytree(harness.MODELS / 'simple', cls.repository / 'simple')
        for name, text in (('left', SLOW), ('right', SLOW), ('fork', FORK)):
            (cls.repository / name).mkdir()
            (cls.repository / name / 'config.pbtxt').write_text(text)
        super().setUpClass()

    def infer(self, *headers):
        tensor = lambda name, value: {'name': name, 'datatype': 'INT32', 'shape': [1, 16], 'data': [value] * 16}
        body = json.dumps({'inputs': [tensor('a', 3), tensor('b', 4)]})
        return curl(self.server.url('/v2/models/fork/infer'), '-H', 'Content-Type: application/json', *headers, data=body)

    def ran(self, model):
        """When the last batch of a model began and ended, in microseconds of the server's clock."""
        batch = curl(self.server.url(f'/grps/v1/monitor/batches?model={model}')).json()['batches'][-1]
        return batch['start'], batch['start'] + sum(batch[step] for step in ('gather', 'up', 'compute', 'down', 'answer'))

    def pending(self):
        text = curl(self.server.url('/metrics')).body.decode()
        return {model: int(re.search(r'^nv_inference_pending_request_count{model="%s",version="1"} (\d+)$' % model, text, re.M)[1])
                for model in ('fork', 'left', 'right')}

    def test_requests_that_wait_are_pending_in_the_step_where_they_wait(self):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            answers = [pool.submit(self.infer) for _ in range(3)]
            until = time.monotonic() + harness.PATIENCE
            while (waiting := self.pending())['left'] == 0 and time.monotonic() < until:
                time.sleep(0.02)
            self.assertGreater(waiting['left'], 0)
            self.assertEqual(0, waiting['fork'])
            self.assertEqual([200] * 3, [answer.result().status for answer in answers])
        self.assertEqual({'fork': 0, 'left': 0, 'right': 0}, self.pending())

    def test_independent_steps_run_at_the_same_time_and_the_last_one_after_both(self):
        answer = self.infer()
        self.assertEqual(200, answer.status, answer.body)
        self.assertEqual([7] * 16, answer.json()['outputs'][0]['data'])
        (left_from, left_to), (right_from, right_to), (joined, _) = map(self.ran, ('left', 'right', 'simple'))
        self.assertLess(left_from, right_to)
        self.assertLess(right_from, left_to)
        self.assertGreaterEqual(joined, max(left_to, right_to))


class Pipeline(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.repository = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        for name in ('digits', 'identity'):
            shutil.copytree(harness.MODELS / name, cls.repository / name)
        for name, file, text in (('pipe', 'model.yaml', PIPELINE), ('ensemble', 'config.pbtxt', ENSEMBLE)):
            (cls.repository / name).mkdir()
            (cls.repository / name / file).write_text(text)
        cls.serve = ('--max-body', '16MiB')
        super().setUpClass()
        cls.images, cls.labels = harness.heldout()
        cls.images = np.array(cls.images[:8], np.float32)

    def rest(self, model, name, path='infer', status=200):
        body = {'inputs': [{'name': name, 'datatype': 'FP32', 'shape': [8, 64], 'data': self.images.ravel().tolist()}]}
        answer = curl(self.server.url(f'/v2/models/{model}/{path}'), '-H', 'Content-Type: application/json', data=json.dumps(body))
        self.assertEqual(status, answer.status, answer.body)
        return answer.json()

    def probabilities(self, outputs):
        return np.array(next(o for o in outputs if o['shape'][1:] == [10])['data'], np.float32).reshape(8, 10)

    def test_every_protocol_gives_what_the_model_alone_gives(self):
        alone = self.probabilities(self.rest('digits', 'image')['outputs'])
        for model in ('pipe', 'ensemble'):
            np.testing.assert_array_equal(alone, self.probabilities(self.rest(model, 'pixels')['outputs']))
            answer = curl(self.server.url(f'/graphpipe/{model}'), data=graphpipe.infer_request([self.images]))
            self.assertEqual(200, answer.status, answer.body)
            out = [o for o in graphpipe.outputs_of(answer.body) if o.shape == (8, 10)]
            np.testing.assert_array_equal(alone, out[0])
            import grpc
            oip, oip_grpc = harness.stubs()('inference')
            with grpc.insecure_channel(self.server.address) as channel:
                request = oip.ModelInferRequest(model_name=model)
                request.inputs.add(name='pixels', datatype='FP32', shape=[8, 64])
                request.raw_input_contents.append(self.images.tobytes())
                reply = oip_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=harness.PATIENCE)
                at = next(i for i, o in enumerate(reply.outputs) if list(o.shape) == [8, 10])
                np.testing.assert_array_equal(alone.ravel(), np.frombuffer(reply.raw_output_contents[at], np.float32))

    def test_its_metadata_comes_from_its_nodes(self):
        meta = curl(self.server.url('/v2/models/pipe')).json()
        self.assertEqual('ensemble', meta['platform'])
        self.assertEqual([{'name': 'pixels', 'datatype': 'FP32', 'shape': [-1, 64]}], meta['inputs'])
        self.assertEqual({(-1, 10)}, {tuple(o['shape']) for o in meta['outputs'] if o['shape'][1:] == [10]})
        self.assertEqual(['answer'], [o['name'] for o in curl(self.server.url('/v2/models/ensemble')).json()['outputs']])

    def test_its_nodes_count_what_they_do_for_it(self):
        rows = lambda model: curl(self.server.url(f'/v2/models/{model}/stats')).json()['model_stats'][0]['inference_count']
        before = rows('digits'), rows('pipe')
        self.rest('pipe', 'pixels')
        self.assertEqual((before[0] + 8, before[1] + 8), (rows('digits'), rows('pipe')))
        stats = curl(self.server.url('/v2/models/pipe/stats')).json()['model_stats'][0]
        batches = {b['batch_size']: b['compute_infer']['count'] for b in stats['batch_stats']}
        self.assertIn(8, batches)
        self.assertEqual(stats['execution_count'], sum(batches.values()))

    def test_a_node_that_goes_takes_the_pipeline_with_it_and_brings_it_back(self):
        away = self.repository.parent / 'identity-away'
        (self.repository / 'identity').rename(away)
        self.server.process.send_signal(signal.SIGHUP)
        self.until(lambda status: status != 200)
        self.assertIn("node 'look'", json.dumps(self.rest('pipe', 'pixels', status=503)))
        away.rename(self.repository / 'identity')
        self.server.process.send_signal(signal.SIGHUP)
        self.until(lambda status: status == 200)
        self.rest('pipe', 'pixels')

    def until(self, good):
        end = time.monotonic() + harness.PATIENCE
        while not good(curl(self.server.url('/v2/models/pipe/ready')).status):
            self.assertLess(time.monotonic(), end)



if __name__ == '__main__':
    harness.main()
