"""Clients in other languages against the same port: @grpc/grpc-js, Connect-ES, libgrpc++ with generated stubs, nghttp."""

import os
import re
import subprocess

import harness


class Others(harness.Case):
    def counted(self, command, env=None):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, env={**os.environ, **(env or {})})
        out = done.stdout.decode()
        counts = re.search(r'^(\d+) passed, (\d+) failed$', out, re.M)
        self.assertTrue(counts, out)
        self.assertEqual('0', counts[2], out)
        self.assertEqual(0, done.returncode, out)
        self.assertGreater(int(counts[1]), 3)

    def test_grpc_js(self):
        modules = harness.ROOT / '.cache/npm/node_modules'
        self.counted(['node', str(harness.ROOT / 'tests/e2e/grpc_js_client.js'), str(harness.ROOT / 'proto'), self.server.address],
                     {'NODE_PATH': str(modules)})

    def test_connect_in_its_three_protocols(self):
        descriptors = os.path.join(harness.scratch(), 'inference.binpb')
        subprocess.run(['protoc', f'-I{harness.ROOT}/proto', '--include_imports', f'--descriptor_set_out={descriptors}', 'inference.proto'],
                       check=True, timeout=20)
        self.counted(['node', str(harness.ROOT / 'tests/e2e/connect_client.js'), descriptors, self.server.address],
                     {'NODE_PATH': str(harness.ROOT / '.cache/npm/node_modules')})

    def test_grpcpp(self):
        # In a build under ThreadSanitizer the client is, too, but libgrpc++ is not: what it would say is not ours.
        self.counted([str(harness.BUILD / 'tests/e2e/grpcpp_client'), self.server.address], {'TSAN_OPTIONS': 'report_bugs=0'})

    def test_nghttp(self):
        out = subprocess.run(['nghttp', '-nv', self.server.url('/v2/health/live')], stdout=subprocess.PIPE, timeout=20, check=True).stdout.decode()
        self.assertIn(':status: 200', out)

    def test_curl_gets_answers_that_come_before_its_body_is_sent(self):
        for size, times in ((7, 40), (100_000, 20), (80_000_000, 1)):  # the last is over the limit
            path = '/absent' if size < 1 << 20 else '/v2/models/identity/infer'
            for i in range(times):
                answer = harness.curl(self.server.url(path), '--http2-prior-knowledge', data=bytes(size))
                self.assertEqual(404 if size < 1 << 20 else 413, answer.status, (size, i))
                self.assertIn(b'error', answer.body)

    def test_h2load(self):
        out = subprocess.run(['h2load', '-n', '2000', '-c', '8', '-m', '10', self.server.url('/v2/health/ready')],
                             stdout=subprocess.PIPE, timeout=60, check=True).stdout.decode()
        self.assertIn('2000 succeeded', out)
        self.assertIn('2000 2xx', out)


if __name__ == '__main__':
    harness.main()
