"""The REST side as curl sees it: HTTP/1.1, HTTP/2, TLS, unix socket; JSON and binary tensors; every refusal."""

import gzip
import json
import struct
import subprocess
import zlib

import harness
from harness import curl

JSON = ('-H', 'Content-Type: application/json')


def infer_body(values=range(16), **extra):
    return json.dumps({'inputs': [{'name': 'INPUT0', 'datatype': 'FP32', 'shape': [16], 'data': [float(v) for v in values]}], **extra})


SIMPLE = json.dumps({'inputs': [
    {'name': 'INPUT0', 'datatype': 'INT32', 'shape': [1, 16], 'data': list(range(16))},
    {'name': 'INPUT1', 'datatype': 'INT32', 'shape': [1, 16], 'data': [[1] * 16]}]})


class Rest(harness.Case):
    def get(self, path, *args):
        return curl(self.server.url(path), *args)

    def post(self, path, data, *args):
        return curl(self.server.url(path), *JSON, *args, data=data)

    # --- health and metadata
    def test_live_and_ready_answer_json(self):
        for path in ('/v2/health/live', '/v2/health/ready', '/v2/models/simple/ready', '/v2/models/simple/versions/1/ready'):
            answer = self.get(path)
            self.assertEqual(200, answer.status, path)
            self.assertEqual('application/json', answer.headers['content-type'])
            answer.json()

    def test_a_model_that_is_not_there_is_not_ready(self):
        self.assertIn(self.get('/v2/models/nothing/ready').status, (400, 404))

    def test_server_and_model_metadata(self):
        self.assertEqual('weir', self.get('/v2').json()['name'])
        meta = self.get('/v2/models/simple').json()
        self.assertEqual(['INPUT0', 'INPUT1'], [t['name'] for t in meta['inputs']])
        self.assertEqual([-1, 16], meta['inputs'][0]['shape'])
        self.assertEqual(8, self.get('/v2/models/simple/config').json()['max_batch_size'])
        self.assertIn('simple', self.get('/v2/models').json()['models'])

    def test_statistics_are_numbers(self):
        self.post('/v2/models/simple/infer', SIMPLE)
        stats = self.get('/v2/models/simple/stats').json()['model_stats'][0]
        for part in ('success', 'fail', 'queue', 'compute_input', 'compute_infer', 'compute_output', 'cache_hit', 'cache_miss'):
            self.assertIsInstance(stats['inference_stats'][part]['ns'], int, part)
        self.assertIsInstance(stats['inference_count'], int)

    def test_the_repository_index_takes_an_empty_body(self):
        names = {m['name'] for m in self.post('/v2/repository/index', '').json()}
        self.assertIn('digits', names)

    # --- inference
    def test_json_in_json_out(self):
        answer = self.post('/v2/models/simple/infer', SIMPLE)
        self.assertEqual(200, answer.status, answer.body)
        outputs = {o['name']: o for o in answer.json()['outputs']}
        self.assertEqual([i + 1 for i in range(16)], outputs['OUTPUT0']['data'])
        self.assertEqual([1, 16], outputs['OUTPUT0']['shape'])

    def test_a_version_can_be_named(self):
        self.assertEqual(200, self.post('/v2/models/simple/versions/1/infer', SIMPLE).status)
        self.assertEqual(404, self.post('/v2/models/simple/versions/7/infer', SIMPLE).status)

    def test_floats_come_back_as_they_went(self):
        values = [0.1, -1e-30, 3.4028234e38, 1.5, 0.0] + [i / 7 for i in range(11)]
        data = self.post('/v2/models/identity/infer', infer_body(values, id='x')).json()
        self.assertEqual('x', data['id'])
        as_floats = lambda vs: struct.pack('<16f', *vs)
        self.assertEqual(as_floats(values), as_floats(data['outputs'][0]['data']))

    def test_binary_tensors_both_ways(self):
        blob = struct.pack('<16f', *range(16))
        head = json.dumps({'inputs': [{'name': 'INPUT0', 'datatype': 'FP32', 'shape': [16], 'parameters': {'binary_data_size': 64}}],
                           'parameters': {'binary_data_output': True}}).encode()
        answer = curl(self.server.url('/v2/models/identity/infer'), '-H', f'Inference-Header-Content-Length: {len(head)}',
                      '-H', 'Content-Type: application/octet-stream', data=head + blob)
        self.assertEqual(200, answer.status, answer.body)
        size = int(answer.headers['inference-header-content-length'])
        self.assertEqual(blob, answer.body[size:])
        self.assertEqual(64, json.loads(answer.body[:size])['outputs'][0]['parameters']['binary_data_size'])

    def test_a_raw_body_is_the_only_input(self):
        answer = curl(self.server.url('/v2/models/digits/infer'), '-H', 'Inference-Header-Content-Length: 0',
                      '-H', 'Content-Type: application/octet-stream', data=struct.pack('<64f', *harness.heldout()[0][0]))
        self.assertEqual(200, answer.status, answer.body)
        size = int(answer.headers['inference-header-content-length'])
        self.assertEqual(40, len(answer.body) - size)

    def test_compressed_both_ways(self):
        for name, pack in (('gzip', gzip.compress), ('deflate', zlib.compress)):
            answer = self.post('/v2/models/simple/infer', pack(SIMPLE.encode()), '-H', f'Content-Encoding: {name}')
            self.assertEqual(200, answer.status, answer.body)
        answer = self.post('/v2/models/identity/infer', infer_body([0.5] * 16), '-H', 'Accept-Encoding: gzip')
        body = gzip.decompress(answer.body) if answer.headers.get('content-encoding') == 'gzip' else answer.body
        self.assertEqual([0.5] * 16, json.loads(body)['outputs'][0]['data'])

    def test_control_answers_are_never_compressed(self):
        offers = ('-H', 'Accept-Encoding: gzip, deflate')
        for path in ('/v2', '/v2/models', '/v2/models/simple', '/v2/models/chat/config', '/v2/models/stats', '/v2/trace/setting'):
            answer = self.get(path, *offers)
            self.assertEqual((200, None), (answer.status, answer.headers.get('content-encoding')), path)
            answer.json()
        index = curl(self.server.url('/v2/repository/index'), '-X', 'POST', *offers)
        self.assertIn('simple', [row['name'] for row in index.json()])

    def test_a_slash_behind_the_root_is_the_root(self):
        self.assertEqual(self.get('/v2').json(), self.get('/v2/').json())

    def test_a_chunked_upload_is_accepted(self):
        self.assertEqual(200, self.post('/v2/models/simple/infer', SIMPLE, '-H', 'Transfer-Encoding: chunked').status)

    def test_expect_100_continue_is_answered(self):
        body = json.dumps({'inputs': [{'name': 'INPUT0', 'datatype': 'FP32', 'shape': [200000], 'data': [1.5] * 200000}]})
        self.assertEqual(200, self.post('/v2/models/identity/infer', body, '-H', 'Expect: 100-continue').status)

    def test_http2_without_tls(self):
        answer = self.post('/v2/models/simple/infer', SIMPLE, '--http2-prior-knowledge')
        self.assertEqual(200, answer.status)

    def test_head_has_no_body(self):
        done = subprocess.run(['curl', '-sSI', '--max-time', '20', self.server.url('/v2')], stdout=subprocess.PIPE, check=True)
        self.assertIn(b'200', done.stdout.split(b'\r\n')[0])

    def test_unary_rpcs_are_curlable_as_json(self):
        answer = self.post('/inference.GRPCInferenceService/ServerLive', '{}')
        self.assertEqual({'live': True}, answer.json())
        answer = self.post('/grpc.health.v1.Health/Check', '{}')
        self.assertEqual('SERVING', answer.json()['status'])

    # --- refusals
    def refuse(self, status, path, data, *words):
        answer = self.post(path, data)
        self.assertEqual(status, answer.status, answer.body)
        self.assertEqual('application/json', answer.headers['content-type'])
        for word in words:
            self.assertIn(word, answer.json()['error'])

    def test_refusals_say_what_was_wrong_and_what_was_expected(self):
        path = '/v2/models/simple/infer'
        self.refuse(404, '/v2/models/simpel/infer', SIMPLE, 'simple')
        self.refuse(400, path, '{"inputs":')
        self.refuse(400, path, SIMPLE + '{}')
        self.refuse(400, path, SIMPLE.replace('INT32', 'FP32'), 'INPUT0', 'INT32')
        self.refuse(400, path, SIMPLE.replace('[1, 16]', '[1, 15]', 1), 'INPUT0')
        self.refuse(400, path, SIMPLE.replace('INPUT1', 'INPUT9'), 'INPUT9')
        self.refuse(400, path, SIMPLE.replace('[1, 16]', '[-1, 16]', 1), 'INPUT0')
        self.refuse(400, path, SIMPLE.replace('[1, 16]', '[4294967296, 4294967296]', 1), 'INPUT0')
        self.refuse(400, path, SIMPLE.replace('15]', '3000000000]', 1), 'INPUT0')
        self.refuse(400, path, '[' * 2000)
        answer = self.post('/v2/models/digits/infer', b'x', '-H', 'Inference-Header-Content-Length: 0')
        self.assertEqual((400, "input 'image' is FP32 [-1,64]: the body must have a multiple of 256 bytes, but has 1 byte"),
                         (answer.status, answer.json()['error']))

    def test_unknown_paths_and_methods(self):
        answer = self.get('/v2/modells/simple')
        self.assertEqual(404, answer.status)
        self.assertIn('error', answer.json())
        for path in ('/v2/models/simple/x', '/v2/models/simple/infer/x', '/graphpipe/simple/x', '/v2/y', '/x'):
            self.assertEqual(f'no such path: {path}', self.get(path).json()['error'])
        answer = self.get('/v2/models/simple/infer')
        self.assertEqual(405, answer.status)
        self.assertIn('POST', answer.headers['allow'])

    def test_an_unknown_coding_is_named_with_the_known_ones(self):
        answer = self.post('/v2/models/simple/infer', SIMPLE, '-H', 'Content-Encoding: br')
        self.assertIn(answer.status, (400, 415))
        self.assertIn('gzip', answer.headers.get('accept-encoding', ''))

    def test_a_gzip_bomb_is_not_inflated(self):
        bomb = gzip.compress(b'[' + b'0,' * (40 << 20))
        before = self.server.rss()
        answer = self.post('/v2/models/simple/infer', bomb, '-H', 'Content-Encoding: gzip')
        self.assertIn(answer.status, (400, 413))
        self.assertLess(self.server.rss() - before, 150 << 20)

    # --- operations
    def test_probes_metrics_and_the_front_page(self):
        self.assertEqual(200, self.get('/livez').status)
        self.assertEqual(200, self.get('/readyz').status)
        page = self.get('/').json()
        self.assertEqual('weir', page['name'])
        self.post('/v2/models/simple/infer', SIMPLE)
        metrics = self.get('/metrics')
        self.assertTrue(metrics.headers['content-type'].startswith('text/plain'))
        self.assertIn(b'weir_build_info', metrics.body)
        self.assertIn(b'model="simple"', metrics.body)

    def test_request_ids_are_kept_or_made(self):
        self.assertEqual('abc-1', self.get('/v2', '-H', 'x-request-id: abc-1').headers['x-request-id'])
        self.assertTrue(self.get('/v2').headers['x-request-id'])
        self.assertNotEqual('a b', self.get('/v2', '-H', 'x-request-id: a b').headers['x-request-id'])


class ServerName(harness.Case):
    serve = ('--server-name=triton',)

    def test_metadata_says_it_in_every_protocol(self):
        self.assertEqual('triton', curl(self.server.url('/v2')).json()['name'])
        rpc = curl(self.server.url('/inference.GRPCInferenceService/ServerMetadata'), '-H', 'Content-Type: application/json', data='{}')
        self.assertEqual('triton', rpc.json()['name'])
        self.assertEqual('triton', curl(self.server.url('/graphpipe')).json()['server'])


class UnixSocket(harness.Case):
    listen = ()

    @classmethod
    def setUpClass(cls):
        cls.path = harness.scratch() / 'weir.sock'
        cls.listen = (f'unix:{cls.path}', '127.0.0.1:0')
        super().setUpClass()

    def test_the_same_requests_work_over_a_unix_socket(self):
        answer = curl('http://localhost/v2/models/simple/infer', '--unix-socket', str(self.path), *JSON, data=SIMPLE)
        self.assertEqual(200, answer.status)


class Tls(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.cert, cls.key = harness.scratch() / 'cert.pem', harness.scratch() / 'key.pem'
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                        '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', cls.key,
                        '-out', cls.cert], check=True, stderr=subprocess.DEVNULL)
        cls.serve = ('--tls-cert', cls.cert, '--tls-key', cls.key)
        super().setUpClass()

    def secure(self, path):
        return f'https://127.0.0.1:{self.server.port}{path}'

    def test_tls_and_cleartext_share_the_port(self):
        self.assertEqual(200, curl(self.secure('/v2'), '--cacert', str(self.cert)).status)
        self.assertEqual(200, curl(self.secure('/v2'), '--cacert', str(self.cert), '--http1.1').status)
        self.assertEqual(200, curl(self.server.url('/v2')).status)

    def test_alpn_chooses_http2(self):
        done = subprocess.run(['curl', '-sS', '-o', '/dev/null', '-w', '%{http_version}', '--cacert', self.cert, '--http2',
                               self.secure('/v2')], stdout=subprocess.PIPE, check=True)
        self.assertEqual(b'2', done.stdout)

    def test_old_tls_and_foreign_protocols_are_refused(self):
        for args in (['-tls1_1'], ['-alpn', 'foo']):
            done = subprocess.run(['openssl', 's_client', '-connect', self.server.address, *args], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
            self.assertNotEqual(0, done.returncode, args)

    def test_grpc_over_tls(self):
        import grpc
        oip, oip_grpc = harness.stubs()('inference')
        credentials = grpc.ssl_channel_credentials(self.cert.read_bytes())
        with grpc.secure_channel(f'localhost:{self.server.port}', credentials) as channel:
            self.assertTrue(oip_grpc.GRPCInferenceServiceStub(channel).ServerLive(oip.ServerLiveRequest(), timeout=20).live)

    def test_certificates_reload_without_dropping_a_connection(self):
        import signal
        self._renew(lambda: self.server.process.send_signal(signal.SIGHUP))

    def test_a_renewed_certificate_is_served_without_a_signal(self):
        self._renew(lambda: None)
        self.assertTrue(self.server.logged('certificates were read again'))

    def _renew(self, then):
        import ssl
        import socket as sockets
        context = ssl.create_default_context(cafile=str(self.cert))
        old = context.wrap_socket(sockets.create_connection(('127.0.0.1', self.server.port)), server_hostname='localhost')
        first = old.getpeercert(True)
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                        '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', self.key,
                        '-out', self.cert], check=True, stderr=subprocess.DEVNULL)
        then()
        loose = ssl.create_default_context()
        loose.check_hostname, loose.verify_mode = False, ssl.CERT_NONE
        import time
        end = time.monotonic() + harness.PATIENCE
        while time.monotonic() < end:
            with loose.wrap_socket(sockets.create_connection(('127.0.0.1', self.server.port))) as new:
                if new.getpeercert(True) != first:
                    break
        else:
            self.fail('the new certificate was never shown')
        old.sendall(b'GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n')
        self.assertIn(b'200 OK', old.recv(4096))
        old.close()


class ClientCertificates(harness.Case):
    """tls.client_ca: who has no certificate gets nothing, by cleartext neither."""

    @classmethod
    def setUpClass(cls):
        folder = harness.scratch()
        cls.cert, cls.key = folder / 'ca.pem', folder / 'ca.key'  # the server's own, and of those whom it knows
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                        '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', cls.key,
                        '-out', cls.cert], check=True, stderr=subprocess.DEVNULL)
        cls.serve = ('--tls-cert', cls.cert, '--tls-key', cls.key, '--tls-client-ca', cls.cert)
        cls.listen = ('127.0.0.1:0', f'unix:{folder}/mtls.sock')
        super().setUpClass()

    def test_with_a_certificate_all_is_served(self):
        for version in ('--http1.1', '--http2'):
            self.assertEqual(200, curl(f'https://127.0.0.1:{self.server.port}/v2', '--cacert', str(self.cert), '--cert', str(self.cert),
                                       '--key', str(self.key), version).status)
        with self.assertRaises(RuntimeError):
            curl(f'https://127.0.0.1:{self.server.port}/v2', '--cacert', str(self.cert))

    def test_http1_in_cleartext_is_refused(self):
        for path in ('/v2', '/livez', '/metrics'):
            answer = curl(self.server.url(path))
            self.assertEqual((400, b'this port takes TLS connections only\n'), (answer.status, answer.body))
            self.assertEqual('close', answer.headers['connection'])

    def test_http2_in_cleartext_is_refused(self):
        answer = curl(self.server.url('/v2'), '--http2-prior-knowledge')
        self.assertEqual((400, b'this port takes TLS connections only\n'), (answer.status, answer.body))

    def test_grpc_in_cleartext_is_refused(self):
        import grpc
        oip, oip_grpc = harness.stubs()('inference')
        with grpc.insecure_channel(self.server.address) as channel, self.assertRaises(grpc.RpcError) as caught:
            oip_grpc.GRPCInferenceServiceStub(channel).ServerLive(oip.ServerLiveRequest(), timeout=20)
        self.assertEqual(grpc.StatusCode.UNAUTHENTICATED, caught.exception.code())
        self.assertEqual('this port takes TLS connections only', caught.exception.details())
        credentials = grpc.ssl_channel_credentials(self.cert.read_bytes(), self.key.read_bytes(), self.cert.read_bytes())
        with grpc.secure_channel(f'localhost:{self.server.port}', credentials) as channel:
            self.assertTrue(oip_grpc.GRPCInferenceServiceStub(channel).ServerLive(oip.ServerLiveRequest(), timeout=20).live)

    def test_a_unix_socket_is_guarded_by_its_file(self):
        answer = curl('http://localhost/v2', '--unix-socket', f'{harness.scratch()}/mtls.sock')
        self.assertEqual(200, answer.status)


if __name__ == '__main__':
    harness.main()
