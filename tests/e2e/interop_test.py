"""gRPC's interoperability cases against weir with one more protocol (tests/interop/): by the official Ruby client of Debian's ruby-grpc,
unchanged, and by our own clients over grpcio and grpc-js; in cleartext and over TLS. What those clients do not show, the
compression of single messages, is looked at in the octets."""

import gzip
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import h2_peer as h2
import harness
from h2_peer import DATA, END_HEADERS, HEADERS, data, frame
from proto_bytes import pb

SERVER = harness.BUILD / 'tests/interop/interop_server'
FOLDER = harness.ROOT / 'tests/interop'
MODULES = harness.ROOT / '.cache/npm/node_modules'
RUBY = sorted(pathlib.Path('/usr/lib').glob('*/rubygems-integration/*/gems/grpc-*/src/ruby/pb/test/client.rb'))
ALL = 22  # cases that ask for no credentials and no proxy
RUBY_CASES = ['empty_unary', 'large_unary', 'client_compressed_unary', 'client_streaming', 'client_compressed_streaming',
              'server_streaming', 'ping_pong', 'empty_stream', 'custom_metadata', 'status_code_and_message', 'unimplemented_method',
              'unimplemented_service', 'cancel_after_begin', 'cancel_after_first_response', 'timeout_on_sleeping_server']
LIGHT = ['--concurrent=200', '--soak_iterations=5'] if harness.SANITIZED else []


@unittest.skipUnless(SERVER.exists(), "not built: Debian's grpc-proto was missing when the build was configured")
class Interop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cert, key = harness.scratch() / 'interop.pem', harness.scratch() / 'interop.key'
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                        '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', key,
                        '-out', cls.cert], check=True, stderr=subprocess.DEVNULL)
        cls.models = harness.scratch() / 'no-models'
        cls.models.mkdir()
        cls.server = harness.Server('--shards', 2, '--tls-cert', cls.cert, '--tls-key', key, program=SERVER, repository=cls.models)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.output()[-5000:]

    def run_client(self, command, env=None):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, env={**os.environ, **(env or {})})
        return done.returncode, done.stdout.decode(errors='replace')

    def runs_all(self, command, env=None, tls=False):
        flags = ['--server_host=localhost', f'--server_port={self.server.port}', '--test_case=all', *LIGHT]
        flags += ['--use_tls=true', f'--ca_file={self.cert}'] if tls else []
        code, out = self.run_client([*command, *flags], env)
        self.assertEqual((0, f'{ALL} passed, 0 failed'), (code, out.strip().splitlines()[-1]), out + self.server.output()[-5000:])

    # --- our own clients, every case
    def test_grpcio(self):
        self.runs_all([sys.executable, str(FOLDER / 'client.py')])

    def test_grpcio_over_tls(self):
        self.runs_all([sys.executable, str(FOLDER / 'client.py')], tls=True)

    def grpc_js(self, tls):
        if not shutil.which('node') or not (MODULES / '@grpc/grpc-js').exists():
            self.skipTest('node or @grpc/grpc-js is missing')
        self.runs_all(['node', str(FOLDER / 'client.js')], {'NODE_PATH': str(MODULES)}, tls)

    def test_grpc_js(self):
        self.grpc_js(tls=False)

    def test_grpc_js_over_tls(self):
        self.grpc_js(tls=True)

    # --- the official client
    def ruby(self, name, tls):
        if not shutil.which('ruby') or not RUBY:
            self.skipTest('ruby-grpc is missing')
        command = ['ruby', str(RUBY[-1]), '--server_host', 'localhost', '--server_port', str(self.server.port), '--test_case', name,
                   '--use_tls', 'true' if tls else 'false', '--use_test_ca', 'false']
        code, out = self.run_client(command, {'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH': str(self.cert)})
        self.assertEqual(0, code, out + self.server.output()[-5000:])
        self.assertIn(f'OK: {name}', out)

    # --- a protocol like the others: JSON, the lists of routes and settings
    def test_it_speaks_json_too(self):
        answer = harness.curl(self.server.url('/grpc.testing.TestService/UnaryCall'), '-H', 'content-type: application/json',
                              data='{"responseSize": 3}')
        self.assertEqual((200, {'payload': {'body': 'AAAA'}}), (answer.status, answer.json()))

    def test_routes_and_settings_list_it(self):
        code, routes = self.run_client([str(SERVER), 'routes', str(self.models)])
        self.assertEqual(0, code, routes)
        self.assertRegex(routes, r'infer .*/grpc\.testing\.TestService/UnaryCall')
        code, off = self.run_client([str(SERVER), 'routes', str(self.models), '--protocols-interop=false'])
        self.assertNotIn('grpc.testing', off)

    # --- messages, octet by octet
    def call(self, method, *messages, encoding=None):
        """The grpc-status of a call with these (flag, message)s, and the (flag, message)s of its answer."""
        with h2.Peer(self.server.port) as peer:
            peer.send(h2.settings((h2.INITIAL_WINDOW_SIZE, 1 << 20)) + h2.window(0, 1 << 20))
            extra = [('content-type', 'application/grpc'), ('te', 'trailers'), ('grpc-accept-encoding', 'identity,gzip')]
            extra += [('grpc-encoding', encoding)] if encoding else []
            body = b''.join(bytes([flag]) + len(m).to_bytes(4, 'big') + m for flag, m in messages)
            peer.send(frame(HEADERS, END_HEADERS, 1, peer.block('POST', f'/grpc.testing.TestService/{method}', extra=extra)))
            peer.send(b''.join(data(payload=body[at:at + 16384], end=at + 16384 >= len(body)) for at in range(0, len(body), 16384)))
            seen = peer.rest_of(1)
            fields = [dict(peer.decoder.decode(f[3])) for f in seen if f[0] == HEADERS]
            octets, answers = b''.join(f[3] for f in seen if f[0] == DATA), []
            while octets:
                size = int.from_bytes(octets[1:5], 'big')
                answers.append((octets[0], octets[5:5 + size]))
                octets = octets[5 + size:]
            return int(fields[-1]['grpc-status']), fields[0].get('grpc-encoding'), answers

    def test_answers_come_compressed_as_asked_message_by_message(self):
        # StreamingOutputCallRequest: response_parameters=2*{size=1, compressed=3{value=1}}
        wanted = b''.join(pb(2, pb(1, size) + pb(3, pb(1, compressed))) for size, compressed in ((31415, 1), (92653, 0)))
        status, encoding, answers = self.call('StreamingOutputCall', (0, wanted))
        self.assertEqual((0, 'gzip', [1, 0]), (status, encoding, [flag for flag, _ in answers]))
        plain = [gzip.decompress(message) if flag else message for flag, message in answers]
        self.assertEqual([pb(1, pb(2, bytes(size))) for size in (31415, 92653)], plain)

    def test_a_unary_answer_is_compressed_as_asked(self):
        # SimpleRequest: response_size=2, response_compressed=6{value=1}
        for field, compressed in ((b'', 0), (pb(6, pb(1, 0)), 0), (pb(6, pb(1, 1)), 1)):
            status, _, [(flag, _)] = self.call('UnaryCall', (0, pb(2, 314159) + field))
            self.assertEqual((0, compressed), (status, flag), field)

    def test_one_plain_message_may_be_in_a_compressed_stream(self):
        # StreamingInputCallRequest: payload=1{body=2}, expect_compressed=2{value=1}
        first, second = (pb(1, pb(2, bytes(size))) + pb(2, pb(1, compressed)) for size, compressed in ((27182, 1), (45904, 0)))
        status, _, answers = self.call('StreamingInputCall', (1, gzip.compress(first)), (0, second), encoding='gzip')
        self.assertEqual((0, [pb(1, 73086)]), (status, [message for _, message in answers]))
        status, _, answers = self.call('StreamingInputCall', (0, first), encoding='gzip')
        self.assertEqual((3, []), (status, answers))


for case in RUBY_CASES:
    for tls in (False, True):
        setattr(Interop, f'test_ruby_{case}' + ('_over_tls' if tls else ''), lambda self, case=case, tls=tls: self.ruby(case, tls))

if __name__ == '__main__':
    harness.main()
