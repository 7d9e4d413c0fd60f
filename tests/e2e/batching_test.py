"""Dynamic batching seen from outside: many single-row clients share executions; digits answers the same everywhere."""

import json
import struct

import harness
from harness import curl

import grpc

oip, oip_grpc = harness.stubs()('inference')
CLIENTS, EACH = 64, 12


def digit_request(image):
    r = oip.ModelInferRequest(model_name='digits')
    r.inputs.add(name='image', datatype='FP32', shape=[1, 64])
    r.raw_input_contents.append(struct.pack('<64f', *image))
    return r


def argmax(values):
    return max(range(len(values)), key=values.__getitem__)


class Batching(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.channel = grpc.insecure_channel(cls.server.address)
        cls.stub = oip_grpc.GRPCInferenceServiceStub(cls.channel)
        cls.images, cls.labels = harness.heldout()

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        super().tearDownClass()

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


if __name__ == '__main__':
    harness.main()
