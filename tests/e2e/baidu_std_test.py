"""baidu_std on the one port: what brpc's clients of GRPS ask for, beside gRPC on the same methods."""

import ssl
import struct
import subprocess
import zlib

import harness
from baidu_client import Client, call, number, text, varint

oip, _ = harness.stubs()('inference')
pb, rpc = harness.stubs()('grps')
SERVICE = 'grps.protos.v1.GrpsBrpcService/'


class BaiduStd(harness.GrpcCase):
    stub_class = rpc.GrpsServiceStub

    def client(self):
        return Client(self.server.port)

    def grps(self, client, method, request=None, **more):
        reply = client.ask(SERVICE + method, (request or pb.GrpsMessage()).SerializeToString(), **more)
        self.assertEqual((0, ''), (reply.error, reply.text))
        return pb.GrpsMessage.FromString(reply.message)

    def test_the_calls_of_grps_answer_as_over_grpc(self):
        predict = pb.GrpsMessage(model='identity', str_data='hello grps.')
        with self.client() as client:
            for method, request in (('Online', None), ('CheckLiveness', None), ('CheckReadiness', None), ('Predict', predict),
                                    ('ServerMetadata', None), ('ModelMetadata', pb.GrpsMessage(str_data='digits')),
                                    ('Predict', pb.GrpsMessage(model='nobody', str_data='x')), ('Offline', None), ('Online', None)):
                there = getattr(self.stub, method)(request or pb.GrpsMessage())
                self.assertEqual(there, self.grps(client, method, request), method)

    def test_its_name_is_a_service_of_grpc_too(self):
        predict = self.channel.unary_unary('/' + SERVICE + 'Predict', request_serializer=pb.GrpsMessage.SerializeToString,
                                           response_deserializer=pb.GrpsMessage.FromString)
        self.assertEqual('x', predict(pb.GrpsMessage(model='identity', str_data='x')).str_data)

    def test_any_unary_method_can_be_called(self):
        with self.client() as client:
            request = oip.ModelInferRequest(model_name='identity', raw_input_contents=[bytes(64)])
            request.inputs.add(name='INPUT0', datatype='FP32', shape=[1, 16])
            reply = client.ask('inference.GRPCInferenceService/ModelInfer', request.SerializeToString())
            self.assertEqual(bytes(64), oip.ModelInferResponse.FromString(reply.message).raw_output_contents[0])
            reply = client.ask('inference.GRPCInferenceService/ModelReady', oip.ModelReadyRequest(name='nobody').SerializeToString())
            self.assertEqual(0, reply.error)
            wrong = client.ask('inference.GRPCInferenceService/ModelInfer', oip.ModelInferRequest(model_name='nobody').SerializeToString())
            self.assertEqual((2001, True), (wrong.error, 'nobody' in wrong.text))
            self.assertIn('x-request-id', wrong.fields)
            self.assertEqual(1002, client.ask(SERVICE + 'PredictByHttp', b'').error)
            self.assertEqual(22, client.ask('inference.GRPCInferenceService/ModelInfer', b'\xff').error)

    def test_a_thousand_calls_of_one_connection_at_a_time(self):
        with self.client() as client:
            requests = [(SERVICE + 'Predict', pb.GrpsMessage(model='identity', str_data=f'{i}').SerializeToString(), i) for i in range(1000)]
            sent = b''.join(call(*r) for r in requests)
            replies = {}
            with harness.threads(1, lambda _: client.send(sent)):
                for _ in requests:
                    reply = client.read()
                    replies[reply.ident] = pb.GrpsMessage.FromString(reply.message).str_data
            self.assertEqual({i: f'{i}' for i in range(1000)}, replies)

    def test_large_and_coded_messages(self):
        octets = pb.GrpsMessage(model='identity', str_data='ab' * 4_000_000).SerializeToString()
        with self.client() as client:
            self.assertEqual('ab' * 4_000_000, pb.GrpsMessage.FromString(client.ask(SERVICE + 'Predict', octets).message).str_data)
            small = pb.GrpsMessage(model='identity', str_data='a' * 5000).SerializeToString()
            reply = client.ask(SERVICE + 'Predict', zlib.compress(small), more=number(3, 3))
            self.assertEqual('a' * 5000, pb.GrpsMessage.FromString(zlib.decompress(reply.message)).str_data)
            snappy = varint(len(small)) + b'\xf4' + struct.pack('<H', len(small) - 1) + small  # one literal
            self.assertEqual('a' * 5000, pb.GrpsMessage.FromString(client.ask(SERVICE + 'Predict', snappy, more=number(3, 1)).message).str_data)

    def test_over_tls(self):
        folder = harness.scratch()
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj',
                        '/CN=localhost', '-keyout', folder / 'baidu.key', '-out', folder / 'baidu.pem'], check=True, capture_output=True)
        server = harness.Server('--tls-cert', folder / 'baidu.pem', '--tls-key', folder / 'baidu.key')
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with Client(server.port, lambda s: context.wrap_socket(s)) as client:
            self.assertEqual('x', self.grps(client, 'Predict', pb.GrpsMessage(model='identity', str_data='x')).str_data)
        self.assertEqual(0, server.stop())

    def test_a_key_is_shown_once_for_the_connection(self):
        keys = harness.scratch() / 'baidu.keys'
        made = subprocess.run([str(harness.WEIR), 'key', 'new', 'a', '--roles', 'infer', '--keys-file', str(keys)],
                              check=True, capture_output=True, text=True)
        secret = made.stdout.split()[0]
        server = harness.Server('--auth-keys-file', keys)
        request = pb.GrpsMessage(model='identity', str_data='x').SerializeToString()
        with Client(server.port) as client:
            self.assertEqual(1004, client.ask(SERVICE + 'Predict', request).error)
            self.assertEqual(1004, client.ask('GrpsBrpcService/Predict', request).error)
            self.assertEqual(0, client.ask(SERVICE + 'Predict', request, more=text(7, secret)).error)
            self.assertEqual(0, client.ask(SERVICE + 'Predict', request).error)
            self.assertEqual(1, client.ask(SERVICE + 'Offline', b'').error)  # EPERM
            self.assertEqual(0, client.ask('GrpsBrpcService/Predict', request).error)
            self.assertEqual(1, client.ask('GrpsBrpcService/Offline', b'').error)
        self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main()
