"""Who comes in without a key: tokens that PyJWT signs, with keys from a file and from a URL whose server misbehaves, and
client certificates that the openssl command signs; keys that `weir key` makes; the audit log of what they do."""

import http.server
import json
import os
import re
import shutil
import signal
import ssl
import stat
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

import harness

import grpc  # noqa: E402

oip, oip_grpc = harness.stubs()('inference')

KEYS = {'RS256': rsa.generate_private_key(65537, 2048), 'ES256': ec.generate_private_key(ec.SECP256R1()),
        'ES384': ec.generate_private_key(ec.SECP384R1()), 'EdDSA': ed25519.Ed25519PrivateKey.generate()}
STRANGER = ec.generate_private_key(ec.SECP256R1())


def jwks(*names):
    """The public keys of these algorithms as a JWKS document, as PyJWT and RFC 7517 have them."""
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
    makers = {'RS256': RSAAlgorithm, 'ES256': ECAlgorithm, 'ES384': ECAlgorithm, 'EdDSA': OKPAlgorithm}
    keys = []
    for name in names:
        public = KEYS[name].public_key()
        if makers[name] is ECAlgorithm:  # PyJWT writes no EC keys
            numbers, size = public.public_numbers(), (public.curve.key_size + 7) // 8
            text = lambda n: jwt.utils.base64url_encode(n.to_bytes(size, 'big')).decode()  # noqa: E731
            key = {'kty': 'EC', 'crv': f'P-{public.curve.key_size}', 'x': text(numbers.x), 'y': text(numbers.y)}
        else:
            key = json.loads(makers[name].to_jwk(public))
            key.pop('key_ops', None)
        keys.append({**key, 'kid': f'kid-{name}', 'use': 'sig'})
    return json.dumps({'keys': keys})


def token(algorithm='ES256', key=None, kid=None, **claims):
    content = {'iss': 'https://issuer.example', 'aud': 'weir', 'sub': 'alice', 'exp': int(time.time()) + 600, **claims}
    content = {k: v for k, v in content.items() if v is not None}
    return jwt.encode(content, key or KEYS[algorithm], algorithm, {'kid': kid or f'kid-{algorithm}'})


def repository(name):
    root = harness.scratch() / name
    shutil.copytree(harness.MODELS / 'simple', root / 'simple')
    return root


def until(what, message='it did not happen'):
    end = time.monotonic() + harness.PATIENCE
    while time.monotonic() < end:
        if what():
            return
        time.sleep(0.02)
    raise AssertionError(message)


def ask(server, path, bearer=None, method='GET', body=None):
    """(status, body as text)"""
    request = urllib.request.Request(server.url(path), data=body, method=method)
    if bearer:
        request.add_header('Authorization', f'Bearer {bearer}')
    try:
        with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Tokens(harness.Case):
    """Keys from a file."""

    @classmethod
    def setUpClass(cls):
        cls.keys = harness.scratch() / 'jwks.json'
        cls.keys.write_text(jwks(*KEYS))
        cls.audit = harness.scratch() / 'audit.log'
        cls.repository = repository('tokens')
        cls.serve = ('--auth-jwt-keys-file', cls.keys, '--auth-jwt-audience', 'weir', '--auth-jwt-issuer',
                     'https://issuer.example', '--audit-log', cls.audit, '--control', 'explicit', '--load', '*')
        super().setUpClass()

    def status(self, bearer, path='/v2/models/simple', method='GET'):
        return ask(self.server, path, bearer, method, b'{}' if method == 'POST' else None)[0]

    def grpc(self, bearer):
        metadata = [('authorization', f'Bearer {bearer}')] if bearer else []
        with grpc.insecure_channel(self.server.address) as channel:
            try:
                oip_grpc.GRPCInferenceServiceStub(channel).ModelMetadata(
                    oip.ModelMetadataRequest(name='simple'), metadata=metadata, timeout=harness.PATIENCE)
                return grpc.StatusCode.OK
            except grpc.RpcError as error:
                return error.code()

    def test_tokens_of_every_algorithm_come_in(self):
        for name in KEYS:
            self.assertEqual(200, self.status(token(name)), name)
            self.assertEqual(grpc.StatusCode.OK, self.grpc(token(name)), name)
        for name in ('RS384', 'RS512', 'PS256', 'PS384', 'PS512'):
            self.assertEqual(200, self.status(token(name, KEYS['RS256'], 'kid-RS256')), name)

    def test_everybody_else_stays_out(self):
        now = int(time.time())
        pem = KEYS['RS256'].public_key().public_bytes(serialization.Encoding.DER,
                                                      serialization.PublicFormat.SubjectPublicKeyInfo)
        wrong = {
            'none': None, 'expired': token(exp=now - 3600), 'of the future': token(nbf=now + 3600),
            'for others': token(aud='other'), 'of others': token(iss='https://other.example'),
            'without an end': token(exp=None), 'without a subject': token(sub=None),
            'of another key': token(key=STRANGER), 'of a key that is not known': token(kid='other'),
            'unsigned': jwt.encode({'aud': 'weir', 'sub': 'a', 'exp': now + 600}, None, 'none'),
            'of the public key as a secret': jwt.encode({'aud': 'weir', 'sub': 'a', 'exp': now + 600,
                                                         'iss': 'https://issuer.example'}, pem, 'HS256'),
            'cut': token()[:-2], 'changed': token().replace('.', '.e', 1), 'no token': 'eyJ.eyJ.x', 'a key': 'weir_x',
        }
        for what, bearer in wrong.items():
            self.assertEqual(401, self.status(bearer), what)
            self.assertEqual(grpc.StatusCode.UNAUTHENTICATED, self.grpc(bearer), what)
        self.assertEqual(200, ask(self.server, '/readyz')[0])
        until(lambda: 'tokens that are not valid were refused' in self.server.output())

    def test_roles_and_models_are_the_tokens(self):
        infer, admin = token(), token(scope='openid weir:admin')
        load = '/v2/repository/models/simple/load'
        self.assertEqual(403, self.status(infer, load, 'POST'))
        self.assertEqual(200, self.status(admin, load, 'POST'))
        self.assertEqual(403, self.status(token(realm_access={'roles': ['admin']}), load, 'POST'))
        self.assertEqual(200, self.status(token(models=['sim*'])))
        self.assertEqual(403, self.status(token(models=['chat*'])))

    def test_admin_requests_are_in_the_audit_log(self):
        def lines():
            return [json.loads(line) for line in self.audit.read_text().splitlines()]
        load = '/v2/repository/models/simple/load'
        self.status(token(sub='mallory'), load, 'POST')
        self.status(token(sub='root', scope='weir:admin'), load, 'POST')
        with grpc.insecure_channel(self.server.address) as channel:
            oip_grpc.GRPCInferenceServiceStub(channel).RepositoryModelLoad(
                oip.RepositoryModelLoadRequest(model_name='simple'), timeout=harness.PATIENCE,
                metadata=[('authorization', 'Bearer ' + token(sub='grpc-root', scope='weir:admin'))])
        until(lambda: any(line.get('who') == 'jwt:grpc-root' for line in lines()))
        found = {line.get('who'): line for line in lines() if line['action'].startswith('POST')}
        root = found['jwt:root']
        self.assertEqual(('POST /v2/repository/models/{model}/load', 'simple', 200, 'OK'),
                         (root['action'], root['model'], root['status'], root['code']))
        self.assertTrue(root['request_id'] and root['peer'].startswith('127.0.0.1:'))
        self.assertEqual(('simple', 'OK'), (found['jwt:grpc-root']['model'], found['jwt:grpc-root']['code']))
        self.assertEqual((403, 'PERMISSION_DENIED'), tuple(found['jwt:mallory'][key] for key in ('status', 'code')))
        self.assertFalse([line for line in lines() if 'eyJ' in json.dumps(line)])
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.audit).st_mode))
        self.assertNotIn('eyJ', self.server.output())


    def test_new_values_of_settings_are_in_the_audit_log(self):
        admin = token(sub='setter', scope='weir:admin')
        for path, body in (('/v2/logging', b'{"log_verbose_level": 2, "log_info": true}'),
                           ('/v2/trace/setting', b'{"trace_rate": "7"}'), ('/v2/logging', b'{"log_verbose_level": -1}')):
            ask(self.server, path, admin, 'POST', body)
        with grpc.insecure_channel(self.server.address) as channel:
            request = oip.LogSettingsRequest()
            request.settings['log_verbose_level'].uint32_param = 0
            oip_grpc.GRPCInferenceServiceStub(channel).LogSettings(request, timeout=harness.PATIENCE,
                                                                   metadata=[('authorization', f'Bearer {admin}')])

        def changes():
            lines = [json.loads(line) for line in self.audit.read_text().splitlines()]
            return [(line['code'], line.get('change')) for line in lines if line.get('who') == 'jwt:setter']
        until(lambda: len(changes()) >= 4)
        # A shard writes its line behind the answer, so that lines of two shards come in any order.
        self.assertCountEqual([('OK', 'log_info=true log_verbose_level=2'), ('OK', 'trace_rate=7'), ('INVALID_ARGUMENT', None),
                               ('OK', 'log_verbose_level=0')], changes())

    def test_limits_are_the_tenants(self):
        def asked(**more):
            return ask(self.server, '/v2/models/simple', token(jti=os.urandom(8).hex(), **more))
        limited = {'sub': 'limited', 'limits': {'requests_per_second': 0.01}}
        self.assertEqual((200, 429, 200), tuple(asked(**c)[0] for c in (limited, limited, {'sub': 'other'})))
        self.assertIn("'jwt:limited' is over its limit of requests", asked(**limited)[1])
        self.assertEqual(401, asked(sub='x', limits={'concurrent': 'many'})[0])
        self.assertEqual(grpc.StatusCode.RESOURCE_EXHAUSTED, self.grpc(token(**limited)))


class Defaults(harness.Case):
    """Limits of all tokens, from the settings."""

    @classmethod
    def setUpClass(cls):
        (harness.scratch() / 'limits.json').write_text(jwks('ES256'))
        config = harness.scratch() / 'limits.yaml'
        config.write_text(f'models: {{repository: {repository("limits")}}}\nauth:\n  jwt:\n    keys_file: limits.json\n'
                          '    audience: [weir]\n    limits: {requests_per_second: 0.01}\n')
        cls.config = config
        cls.server = harness.Server(config=config)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_they_hold_for_tokens_that_say_none(self):
        statuses = [ask(self.server, '/v2', token(sub=sub, jti=str(i)))[0] for i, sub in enumerate(('a', 'a', 'b', 'b'))]
        self.assertEqual([200, 429, 200, 429], statuses)
        self.assertEqual(200, ask(self.server, '/v2', token(sub='a', limits={'requests_per_second': 1}))[0])

    def test_they_are_shown_as_they_are_read(self):
        shown = subprocess.run([harness.WEIR, 'check', '--no-load', self.config], stdout=subprocess.PIPE, timeout=harness.PATIENCE)
        self.assertIn(b'limits: {requests_per_second: 0.01}', shown.stdout)


MODULES = harness.ROOT / '.cache/npm/node_modules'


@unittest.skipUnless(shutil.which('node') and (MODULES / 'jose').exists(), 'node or the npm package jose is missing')
class Jose(unittest.TestCase):
    """Tokens and keys that another implementation makes: the npm package jose."""

    def test_its_tokens_come_in_and_its_forgeries_do_not(self):
        issuer = subprocess.Popen(['node', str(harness.ROOT / 'tests/e2e/jose_client.js')], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env={**os.environ, 'NODE_PATH': os.environ.get('NODE_PATH', str(MODULES))})
        self.addCleanup(issuer.communicate)
        made = json.loads(issuer.stdout.readline())
        server = harness.Server('--auth-jwt-keys-url', made['url'], '--auth-jwt-audience', 'weir', '--auth-jwt-issuer',
                                'https://issuer.example', repository=repository('jose'))
        self.addCleanup(server.stop)
        until(lambda: ask(server, '/v2', made['good']['RS256'])[0] == 200)
        self.assertGreaterEqual(len(made['good']), 11)
        for name, signed in made['good'].items():
            self.assertEqual(200, ask(server, '/v2/models/simple', signed)[0], name)
        for name, forged in made['bad'].items():
            status, said = ask(server, '/v2/models/simple', forged)
            self.assertEqual(401, status, f'{name}: {said}')
            self.assertNotIn(forged, said)
        issuer.stdin.write(b'rotate\n')
        issuer.stdin.flush()
        rotated = json.loads(issuer.stdout.readline())['token']
        self.assertEqual(401, ask(server, '/v2', rotated)[0])
        server.process.send_signal(signal.SIGHUP)
        until(lambda: ask(server, '/v2', rotated)[0] == 200)
        self.assertEqual(401, ask(server, '/v2', made['good']['ES256'])[0], 'its key is withdrawn')


class Rotation(harness.Case):
    """Keys from a file that changes."""

    @classmethod
    def setUpClass(cls):
        cls.keys = harness.scratch() / 'rotated.json'
        cls.keys.write_text(jwks('ES256'))
        cls.repository = repository('rotation')
        cls.serve = ('--auth-jwt-keys-file', cls.keys, '--auth-jwt-audience', 'weir')
        super().setUpClass()

    def test_a_key_that_is_withdrawn_opens_nothing_any_more(self):
        old, new = token('ES256'), token('EdDSA')
        self.assertEqual((200, 401), tuple(ask(self.server, '/v2', b)[0] for b in (old, new)))
        self.keys.write_text('{"keys": [')
        until(lambda: 'the keys of tokens stay as they are' in self.server.output())
        self.assertEqual(200, ask(self.server, '/v2', old)[0])
        self.keys.write_text(jwks('EdDSA'))
        until(lambda: ask(self.server, '/v2', new)[0] == 200)
        self.assertEqual(401, ask(self.server, '/v2', old)[0])


class Url(unittest.TestCase):
    """Keys from a URL."""

    def issuer(self, answer):
        """A server on loopback that calls `answer` for each request; `asked` counts."""
        class Answering(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answer(self)

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answering)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f'http://127.0.0.1:{server.server_port}/jwks'

    def serve(self, url):
        server = harness.Server('--auth-jwt-keys-url', url, '--auth-jwt-audience', 'weir',
                                repository=repository(f'url-{time.monotonic_ns()}'))
        self.addCleanup(server.stop)
        return server

    def test_keys_are_loaded_and_loaded_again(self):
        document = {'now': jwks('ES256')}

        def answer(handler):
            body = document['now'].encode()
            handler.send_response(200)
            handler.send_header('Content-Length', str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
        server = self.serve(self.issuer(answer))
        until(lambda: ask(server, '/v2', token('ES256'))[0] == 200)
        document['now'] = jwks('EdDSA')
        self.assertEqual(401, ask(server, '/v2', token('EdDSA'))[0])
        server.process.send_signal(signal.SIGHUP)
        until(lambda: ask(server, '/v2', token('EdDSA'))[0] == 200)
        self.assertEqual(401, ask(server, '/v2', token('ES256'))[0])

    def test_a_hostile_issuer_gets_nothing_and_holds_nobody_up(self):
        inside = []

        def redirect(handler):
            inside.append(handler.path)
            handler.send_response(302)
            handler.send_header('Location', '/elsewhere')
            handler.end_headers()

        def endless(handler):
            inside.append(handler.path)
            handler.send_response(200)
            handler.end_headers()
            try:
                while True:
                    handler.wfile.write(b'{"keys": [' * 1000)
            except OSError:
                pass
        for answer, said in ((redirect, 'cannot be loaded'), (endless, 'cannot be loaded')):
            inside.clear()
            server = self.serve(self.issuer(answer))
            until(lambda: said in server.output())
            self.assertEqual({'/jwks'}, set(inside))
            self.assertEqual(503, ask(server, '/v2', token())[0], 'there are no keys')
            self.assertEqual(200, ask(server, '/readyz')[0])
            self.assertLess(server.rss(), 1 << 30)

    def test_cleartext_beyond_this_machine_is_refused(self):
        done = subprocess.run([harness.WEIR, 'serve', '--auth-jwt-keys-url', 'http://issuer.example/jwks',
                               '--auth-jwt-audience', 'weir', repository('cleartext')], stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(2, done.returncode)
        self.assertIn(b'auth.jwt.keys_url: expected https', done.stderr)


class Certificates(unittest.TestCase):
    def make(self, name, extension, ca=None):
        """(certificate, key), signed by `ca` or itself."""
        key, request, certificate = (harness.scratch() / f'{name}.{e}' for e in ('key', 'csr', 'pem'))
        config = harness.scratch() / f'{name}.ext'
        config.write_text(extension)
        run = lambda *args: subprocess.run(['openssl', *map(str, args)], check=True, capture_output=True)  # noqa: E731
        run('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', request,
            '-subj', f'/CN={name}')
        signer = ('-CA', ca[0], '-CAkey', ca[1], '-CAcreateserial') if ca else ('-signkey', key)
        run('x509', '-req', '-in', request, '-out', certificate, '-days', 1, '-extfile', config, *signer)
        return certificate, key

    def test_a_certificate_stands_for_a_tenant_with_roles(self):
        ca = self.make('ca', 'basicConstraints=critical,CA:TRUE')
        server_pair = self.make('server', 'subjectAltName=IP:127.0.0.1', ca)
        config = harness.scratch() / 'certificates.yaml'
        config.write_text(f'models: {{repository: {repository("certificates")}}}\n'
                          f'tls: {{certificate: {server_pair[0]}, key: {server_pair[1]}, client_ca: {ca[0]}}}\n'
                          'auth:\n  certificates:\n    "URI:spiffe://x/*": {tenant: mesh}\n'
                          '    "DNS:*.ops.example": {roles: [admin]}\n'
                          '    "DNS:slow.example": {limits: {requests_per_second: 0.01}}\n')
        server = harness.Server('--control', 'explicit', '--load', '*', config=config)
        self.addCleanup(server.stop)

        def status(pair, path='/v2', method='GET'):
            context = ssl.create_default_context(cafile=ca[0])
            context.load_cert_chain(*pair)
            request = urllib.request.Request(f'https://{server.address}{path}', method=method,
                                             data=b'{}' if method == 'POST' else None)
            try:
                with urllib.request.urlopen(request, context=context, timeout=harness.PATIENCE) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code
        load = '/v2/repository/models/simple/load'
        mesh = self.make('mesh', 'subjectAltName=URI:spiffe://x/chat', ca)
        ops = self.make('ops', 'subjectAltName=DNS:a.ops.example', ca)
        other = self.make('other', 'subjectAltName=DNS:a.b.ops.example,URI:spiffe://y/chat', ca)
        self.assertEqual((200, 403), (status(mesh), status(mesh, load, 'POST')))
        self.assertEqual((200, 200), (status(ops), status(ops, load, 'POST')))
        self.assertEqual(401, status(other))
        slow = self.make('slow', 'subjectAltName=DNS:slow.example', ca)
        self.assertEqual((200, 429), (status(slow), status(slow)))
        self.assertTrue(server.logged('admin action', 'who=DNS:a.ops.example'))
        self.assertEqual(200, status(other, '/readyz'))


class KeyCommand(unittest.TestCase):
    def weir(self, *args):
        done = subprocess.run([str(harness.WEIR), 'key', *map(str, args)], capture_output=True, timeout=harness.PATIENCE)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_a_key_is_made_used_listed_and_revoked(self):
        file = harness.scratch() / 'made.yaml'
        code, key, said = self.weir('new', 'ci', '--roles', 'infer,admin', '--models', 'sim*', '--tenant', 'build',
                                    '--expires', '90d', '--keys-file', file)
        self.assertEqual(0, code, said)
        key = key.strip()
        self.assertRegex(key, r'^weir_[0-9A-Za-z]{49}$')
        self.assertNotIn(key, file.read_text())
        self.assertEqual(0o640, stat.S_IMODE(os.stat(file).st_mode))
        server = harness.Server('--auth-keys-file', file, repository=repository('key-command'))
        self.addCleanup(server.stop)
        self.assertEqual((200, 401), (ask(server, '/v2/models/simple', key)[0], ask(server, '/v2/models/simple')[0]))
        code, other, _ = self.weir('new', 'other', '--keys-file', file)
        until(lambda: ask(server, '/v2/models/simple', other.strip())[0] == 200)
        listed = json.loads(self.weir('list', '--json', '--keys-file', file)[1])
        self.assertEqual([('ci', 'build'), ('other', 'other')], [(k['name'], k['tenant']) for k in listed])
        self.assertEqual(0, self.weir('revoke', 'ci', '--keys-file', file)[0])
        until(lambda: ask(server, '/v2/models/simple', key)[0] == 401)
        self.assertEqual(200, ask(server, '/v2/models/simple', other.strip())[0])
        self.assertNotIn(key, server.output())
        self.assertTrue(server.logged('admin action'))

    def test_many_at_once_lose_no_key(self):
        file = harness.scratch() / 'crowded.yaml'
        with harness.threads(8, lambda i: self.weir('new', f'key{i}', '--keys-file', file)):
            pass
        names = re.findall(r'name: (key\d)', file.read_text())
        self.assertEqual(sorted(f'key{i}' for i in range(8)), sorted(names))
        self.assertEqual([file.name], [p.name for p in file.parent.glob('crowded.yaml*')])

    def test_mistakes_change_nothing(self):
        file = harness.scratch() / 'mistakes.yaml'
        self.assertEqual(0, self.weir('new', 'a', '--keys-file', file)[0])
        before = file.read_text()
        for args in (('new', 'a'), ('new', 'b', '--roles', 'root'), ('new', 'b', '--expires', 'soon'), ('new', 'b c'),
                     ('revoke', 'nobody')):
            code, key, said = self.weir(*args, '--keys-file', file)
            self.assertNotEqual(0, code, args)
            self.assertEqual('', key)
            self.assertTrue(said.startswith('weir: '), said)
        self.assertEqual(before, file.read_text())
        self.assertNotEqual(0, self.weir('list', '--keys-file', file.with_suffix('.none'))[0])
        self.assertNotEqual(0, self.weir('list')[0])


if __name__ == '__main__':
    harness.main()
