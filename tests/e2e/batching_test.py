"""Dynamic batching seen from outside: many single-row clients share executions; digits answers the same everywhere."""

import json
import pathlib
import shutil
import struct
import tempfile

import harness
from harness import curl

oip, oip_grpc = harness.stubs()('inference')
CLIENTS, EACH = 64, 12


def digit_request(image):
    r = oip.ModelInferRequest(model_name='digits')
    r.inputs.add(name='image', datatype='FP32', shape=[1, 64])
    r.raw_input_contents.append(struct.pack('<64f', *image))
    return r


def argmax(values):
    return max(range(len(values)), key=values.__getitem__)


class Batching(harness.GrpcCase):
    stub_class = oip_grpc.GRPCInferenceServiceStub

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.images, cls.labels = harness.heldout()

    def stats(self):
        return self.stub.ModelStatistics(oip.ModelStatisticsRequest(name='digits')).model_stats[0]

    def test_64_clients_share_executions_and_each_gets_its_own_answer(self):
        before = self.stats()
        right = [0] * CLIENTS

        def client(i):
            pending = [self.stub.ModelInfer.future(digit_request(self.images[(i * EACH + k) % len(self.images)])) for k in range(EACH)]
            for k, call in enumerate(pending):
                values = struct.unpack('<10f', call.result(harness.PATIENCE).raw_output_contents[0])
                right[i] += argmax(values) == self.labels[(i * EACH + k) % len(self.images)]

        with harness.threads(CLIENTS, client):
            pass
        after = self.stats()
        rows, runs = after.inference_count - before.inference_count, after.execution_count - before.execution_count
        self.assertEqual(CLIENTS * EACH, rows)
        self.assertLess(runs, rows / 2)
        self.assertEqual(rows, sum(b.batch_size * b.compute_infer.count for b in after.batch_stats) -
                         sum(b.batch_size * b.compute_infer.count for b in before.batch_stats))
        self.assertGreaterEqual(sum(right) / rows, 0.95)

    def test_one_model_answers_alike_over_every_way_in(self):
        rows = self.images
        limit = self.stub.ModelConfig(oip.ModelConfigRequest(name='digits')).config.max_batch_size
        over_grpc, over_json, over_binary = [], [], []
        for begin in range(0, len(rows), limit):
            part = rows[begin:begin + limit]
            blob = struct.pack(f'<{len(part) * 64}f', *[v for row in part for v in row])
            shape = [len(part), 64]
            r = oip.ModelInferRequest(model_name='digits')
            r.inputs.add(name='image', datatype='FP32', shape=shape)
            r.raw_input_contents.append(blob)
            raw = self.stub.ModelInfer(r).raw_output_contents[0]
            over_grpc += struct.unpack(f'<{len(raw) // 4}f', raw)
            body = json.dumps({'inputs': [{'name': 'image', 'datatype': 'FP32', 'shape': shape, 'data': part}]})
            answer = curl(self.server.url('/v2/models/digits/infer'), '-H', 'Content-Type: application/json', data=body)
            over_json += answer.json()['outputs'][0]['data']
            head = json.dumps({'inputs': [{'name': 'image', 'datatype': 'FP32', 'shape': shape, 'parameters': {'binary_data_size': len(blob)}}],
                               'outputs': [{'name': 'probabilities', 'parameters': {'binary_data': True}}]}).encode()
            answer = curl(self.server.url('/v2/models/digits/infer'), '-H', f'Inference-Header-Content-Length: {len(head)}', data=head + blob)
            tail = answer.body[int(answer.headers['inference-header-content-length']):]
            over_binary += struct.unpack(f'<{len(tail) // 4}f', tail)
        self.assertEqual(over_grpc, over_binary)
        pack = lambda values: struct.pack(f'<{len(values)}f', *values)
        self.assertEqual(pack(over_grpc), pack(over_json))
        right = sum(argmax(over_grpc[i * 10:i * 10 + 10]) == label for i, label in enumerate(self.labels))
        self.assertGreaterEqual(right / len(self.labels), 0.97)


PATIENT = 'max_queue_delay_microseconds: 600000000'  # a batch closes by its size alone, however busy the machine is


class TritonsRules(harness.GrpcCase):
    """Executions are what Triton counts for the same configuration: dynamic_batch_scheduler.cc, GetDynamicBatch()."""

    stub_class = oip_grpc.GRPCInferenceServiceStub

    @classmethod
    def setUpClass(cls):
        cls.repository = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        onnx = {
            'as_delivered': (harness.MODELS / 'simple/config.pbtxt').read_text(),
            'full': 'max_batch_size: 8 dynamic_batching { %s }' % PATIENT,
            'rows': 'max_batch_size: 8 dynamic_batching { %s }' % PATIENT,
            'preferred': 'max_batch_size: 8 dynamic_batching { preferred_batch_size: 4 %s }' % PATIENT,
            'urgent': 'max_batch_size: 8 dynamic_batching { priority_levels: 2 default_priority_level: 2 %s }' % PATIENT,
        }
        for name, config in onnx.items():
            cls.add(name, 'config.pbtxt', config.replace('name: "simple"', ''))
        cls.add('ours', 'model.yaml', 'max_batch: 8\nbatching: {max_delay: 600s, preferred: [4]}\n')
        cls.add('ours_apart', 'model.yaml', 'max_batch: 8\nbatching: {dynamic: false}\n')
        for name, delay, rules in (('slow', 2_000_000, 'dynamic_batching { }'), ('slow_apart', 20_000, '')):
            harness.write_identity_model(cls.repository, name, 16, delay, rules)  # slow enough that requests meet
        super().setUpClass()

    @classmethod
    def add(cls, name, file, text):
        (cls.repository / name).mkdir()
        shutil.copytree(harness.MODELS / 'simple/1', cls.repository / name / '1')
        (cls.repository / name / file).write_text(text)

    def send(self, model, value, rows=1, priority=0):
        r = oip.ModelInferRequest(model_name=model)
        if priority:
            r.parameters['priority'].uint64_param = priority
        if model.startswith('slow'):
            r.inputs.add(name='x', datatype='FP32', shape=[rows, 1])
            r.raw_input_contents.append(struct.pack(f'<{rows}f', *[value] * rows))
        else:
            for name, n in (('INPUT0', value), ('INPUT1', 1)):
                r.inputs.add(name=name, datatype='INT32', shape=[rows, 16])
                r.raw_input_contents.append(struct.pack(f'<{16 * rows}i', *[n] * 16 * rows))
        return self.stub.ModelInfer.future(r)

    def sizes(self, model, calls):
        """Sends all of (rows, priority) at once, looks at each answer; returns {batch size: executions}."""
        pending = [(i, rows, self.send(model, i, rows, priority)) for i, (rows, priority) in enumerate(calls)]
        for i, rows, call in pending:
            raw = call.result(harness.PATIENCE).raw_output_contents[0]
            if model.startswith('slow'):
                self.assertEqual([float(i)] * rows, list(struct.unpack(f'<{rows}f', raw)))
            else:
                self.assertEqual([i + 1] * 16 * rows, list(struct.unpack(f'<{16 * rows}i', raw)))
        stats = self.stub.ModelStatistics(oip.ModelStatisticsRequest(name=model)).model_stats[0]
        sizes = {b.batch_size: b.compute_infer.count for b in stats.batch_stats}
        self.assertEqual(sum(rows for rows, _ in calls), stats.inference_count)
        self.assertEqual(len(calls), stats.inference_stats.success.count)
        return stats.execution_count, sizes

    def test_without_dynamic_batching_64_requests_are_64_executions(self):
        self.assertEqual((64, {1: 64}), self.sizes('as_delivered', [(1, 0)] * 64))

    def test_without_dynamic_batching_requests_that_wait_stay_apart(self):
        self.assertEqual((17, {1: 17}), self.sizes('slow_apart', [(1, 0)] * 17))

    def test_17_slow_requests_are_not_17_executions(self):
        executions, sizes = self.sizes('slow', [(1, 0)] * 17)
        self.assertEqual(2, executions, sizes)  # the first one or few, and all that came meanwhile

    def test_a_batch_closes_when_it_is_full(self):
        self.assertEqual((2, {8: 2}), self.sizes('full', [(1, 0)] * 16))

    def test_a_batch_closes_at_its_preferred_size(self):
        self.assertEqual((4, {4: 4}), self.sizes('preferred', [(1, 0)] * 16))

    def test_rows_fill_a_batch_not_requests(self):
        self.assertEqual((2, {8: 2}), self.sizes('rows', [(2, 0)] * 8))

    def test_a_batch_spans_priorities(self):
        self.assertEqual((1, {8: 1}), self.sizes('urgent', [(1, 1), (1, 2)] * 4))

    def test_a_model_yaml_batches_unless_it_says_otherwise(self):
        self.assertEqual((4, {4: 4}), self.sizes('ours', [(1, 0)] * 16))
        self.assertEqual((16, {1: 16}), self.sizes('ours_apart', [(1, 0)] * 16))


if __name__ == '__main__':
    harness.main()
