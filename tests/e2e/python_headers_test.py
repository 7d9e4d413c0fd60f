"""Headers of HTTP and metadata of gRPC as parameters of requests (oip.forward_headers)."""

import json
import sys

import grpc

import harness
from harness import curl

oip, oip_grpc = harness.stubs()('inference')

HEADERS = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor('TOLD', np.array([[r.parameters()]], dtype=object))]) for r in requests]
'''
CONFIG = '''name: "headers" backend: "python" max_batch_size: 4
input [{ name: "DO" data_type: TYPE_STRING dims: [1] }] output [{ name: "TOLD" data_type: TYPE_STRING dims: [1] }]'''


def repository():
    folder = harness.scratch() / 'python-headers'
    if not folder.exists():
        (folder / 'headers/1').mkdir(parents=True)
        (folder / 'headers/1/model.py').write_text(HEADERS)
        (folder / 'headers/config.pbtxt').write_text(CONFIG)
    return folder


class Headers(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=repository(), env={
            'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable,  # it has numpy
            'WEIR_OIP_FORWARD_HEADERS': 'x-tenant,x-trace-*'})

    def ask(self, *headers):
        return curl(self.server.url('/v2/models/headers/infer'), *headers, data=json.dumps({'inputs': [
            {'name': 'DO', 'datatype': 'BYTES', 'shape': [1, 1], 'data': ['']}]})).json()

    def test_headers_are_parameters_of_the_request_where_the_setting_names_them(self):
        told = self.ask('-H', 'X-Tenant: a', '-H', 'x-trace-id: 7', '-H', 'x-other: b')
        self.assertEqual({'x-tenant': 'a', 'x-trace-id': '7'}, json.loads(told['outputs'][0]['data'][0]))
        request = oip.ModelInferRequest(model_name='headers')
        request.inputs.add(name='DO', datatype='BYTES', shape=[1, 1]).contents.bytes_contents.append(b'')
        request.parameters['x-tenant'].string_param = 'of the request'
        with grpc.insecure_channel(f'127.0.0.1:{self.server.port}') as channel:
            answer = oip_grpc.GRPCInferenceServiceStub(channel).ModelInfer(
                request, metadata=[('x-tenant', 'a'), ('x-trace-id', '7'), ('other', 'c')], timeout=harness.PATIENCE)
        self.assertEqual({'x-tenant': 'of the request', 'x-trace-id': '7'}, json.loads(answer.raw_output_contents[0][4:]))
        many = [a for n in range(33) for a in ('-H', f'x-trace-{n}: 1')]
        self.assertIn('oip.forward_headers', self.ask(*many)['error'])


if __name__ == '__main__':
    harness.main()
