"""Mutual TLS between nodes: whoever has no certificate of the cluster's authority has no part in its calls."""

import datetime
import json
import signal
import socket
import ssl
import subprocess
import unittest

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import harness
from cluster_nodes import JSON, Nats, folder, identity, infer, node, nodes, serves, until
from harness import curl

DAY = datetime.timedelta(days=1)


class Authority:
    def __init__(self, name):
        self.folder, self.key = folder(), ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.datetime.utcnow()
        certificate = (x509.CertificateBuilder().subject_name(self.name).issuer_name(self.name).public_key(self.key.public_key())
                       .serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)
                       .add_extension(x509.BasicConstraints(True, None), True).sign(self.key, hashes.SHA256()))
        self.file = self.folder / 'ca.pem'
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, name, ends=DAY):
        """(certificate, key) of a node; no name of a host is in it."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.utcnow()
        certificate = (x509.CertificateBuilder().subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
                       .issuer_name(self.name).public_key(key.public_key()).serial_number(x509.random_serial_number())
                       .not_valid_before(now - 2 * DAY).not_valid_after(now + ends).sign(self.key, hashes.SHA256()))
        files = self.folder / f'{name}.pem', self.folder / f'{name}.key'
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                               serialization.NoEncryption()))
        return files


def tls(authority, pair):
    return ('--cluster-listen', '127.0.0.1:0', '--cluster-tls-certificate', pair[0], '--cluster-tls-key', pair[1],
            '--cluster-tls-ca', authority.file)


class MutualTls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ours, cls.theirs = Authority('cluster'), Authority('another')
        cls.secret = folder() / 'secret'
        cls.secret.write_text('a secret that all nodes share\n')

    def setUp(self):
        self.nats = Nats()
        self.addCleanup(self.nats.kill)

    def node(self, model, *flags, **more):
        root = folder()
        if model:
            identity(root, model)
        server = node(self.nats, root, *flags, **more)
        self.addCleanup(lambda: self.assertEqual(0, server.stop(), server.output()[-3000:]))
        return server

    def address(self, server, seen_by):
        """That the node says of itself."""
        lines = until(lambda: [line for line in seen_by.logged('a node has joined') if server in line], 'that it has joined')
        return lines[0].split('address=')[1].split()[0].strip('"')

    def test_nodes_with_certificates_serve_each_others_models(self):
        for secret in ((), ('--cluster-secret', self.secret)):
            with self.subTest(secret):
                one = self.node('a', *tls(self.ours, self.ours.sign('one')), *secret, name='one')
                two = self.node('b', *tls(self.ours, self.ours.sign('two')), *secret, name='two')
                for server, model in ((one, 'b'), (two, 'a')):
                    until(lambda: serves(server, model), f'{model} by way of the other')
                    self.assertEqual((200, 2.5), infer(server, model, 2.5))
                self.assertTrue(self.address('two', one).startswith('https://'))
                one.stop(), two.stop()

    def outsider(self, authority, pair, *more):
        """What a node without a good certificate gets, and gives: nothing."""
        inside = self.node('a', *tls(self.ours, self.ours.sign('inside')), name='inside')
        outside = self.node('b', *tls(authority, pair), *more, name='outside')
        until(lambda: nodes(inside) == 2 and nodes(outside) == 2, 'that both know of each other')
        for server, model in ((inside, 'b'), (outside, 'a')):
            reason = until(lambda: next((row['reason'] for row in curl(server.url('/v2/repository/index'), *JSON, data='{}').json()
                                         if row['name'] == model and row.get('reason')), None), 'a reason')
            self.assertRegex(reason, 'TLS|connection|lost|closed')
            self.assertNotEqual(200, infer(server, model, 1.0)[0])

    def test_a_certificate_of_another_authority_does_not_do(self):
        self.outsider(self.theirs, self.theirs.sign('outside'))

    def test_nor_one_that_has_expired(self):
        self.outsider(self.ours, self.ours.sign('expired', -DAY))

    def port(self, name):
        other = self.node(None, *tls(self.ours, self.ours.sign(f'looks for {name}')))
        return int(self.address(name, other).rsplit(':', 1)[1])

    def ask(self, port, context, request=b'GET /v2/models/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'):
        with socket.create_connection(('127.0.0.1', port), harness.PATIENCE) as plain:
            with (context.wrap_socket(plain) if context else plain) as sock:
                sock.sendall(request)
                heard = b''
                while (more := sock.recv(65536)):
                    heard += more
                return heard

    def context(self, pair=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if pair:
            context.load_cert_chain(*pair)
        return context

    def test_the_port_of_nodes_is_for_nodes_alone(self):
        self.node('a', *tls(self.ours, self.ours.sign('guarded')), '--cluster-secret', self.secret, name='guarded')
        other = self.node(None, *tls(self.ours, self.ours.sign('looker')), '--cluster-secret', self.secret)
        port = int(self.address('guarded', other).rsplit(':', 1)[1])
        for context in (self.context(), self.context(self.theirs.sign('stranger')), self.context(self.ours.sign('old', -DAY))):
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                self.assertNotIn(b'200 OK', self.ask(port, context))
                raise ConnectionError
        self.assertNotIn(b'200 OK', self.ask(port, None))
        # A certificate alone does not do where there is a secret, and of what a node may ask reading metrics is no part.
        self.assertIn(b'401 ', self.ask(port, self.context(self.ours.sign('unknowing')))[:20])

    def test_without_a_secret_the_certificate_is_what_counts(self):
        self.node('a', *tls(self.ours, self.ours.sign('open')), name='open')
        port, context = self.port('open'), self.context(self.ours.sign('client'))
        self.assertIn(b'200 OK', self.ask(port, context)[:20])
        self.assertIn(b'403 ', self.ask(port, context, b'GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')[:20])
        unload = b'POST /v2/repository/models/a/unload HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
        self.assertIn(b'403 ', self.ask(port, context, unload)[:20])

    def test_fields_of_nodes_count_nowhere_else(self):
        server = self.node('a', *tls(self.ours, self.ours.sign('public')), name='public')
        answer = curl(server.url('/v2/models/a/infer'), *JSON, '-H', 'weir-caller-host: 10.0.0.9', data=json.dumps(
            {'inputs': [{'name': 'x', 'shape': [1, 1], 'datatype': 'FP32', 'data': [1]}]}))
        self.assertEqual(200, answer.status)

    def test_certificates_are_read_again(self):
        """All get files of another authority in the place of the old ones, as when one is about to expire."""
        old, new = Authority('of last year'), Authority('of this year')
        place = {name: (*old.sign(name), folder() / f'{name}-ca.pem') for name in ('one', 'two')}

        def put(authority, name):
            certificate, key = authority.sign(name)
            for source, to in zip((certificate, key, authority.file), place[name]):
                to.write_bytes(source.read_bytes())
            return ('--cluster-listen', '127.0.0.1:0', '--cluster-tls-certificate', place[name][0], '--cluster-tls-key', place[name][1],
                    '--cluster-tls-ca', place[name][2])

        one = self.node('a', *put(old, 'one'), name='one')
        two = self.node('b', *put(old, 'two'), name='two')
        until(lambda: serves(one, 'b') and serves(two, 'a'), 'that both serve both')
        flags = {name: put(new, name) for name in place}
        two.stop()
        two = self.node('b', *flags['two'], name='two')
        until(lambda: nodes(two) == 2, 'that it knows of the other')
        self.assertNotEqual(200, infer(one, 'b', 1.0)[0], 'one trusts the old authority alone')
        # A mistake changes nothing.
        certificate = place['one'][0].read_bytes()
        place['one'][0].write_bytes(b'rubbish')
        one.process.send_signal(signal.SIGHUP)
        until(lambda: one.logged('certificates stay as they are', 'for connections to other nodes'), 'the reason')
        place['one'][0].write_bytes(certificate)
        one.process.send_signal(signal.SIGHUP)
        for server, model in ((one, 'b'), (two, 'a')):
            until(lambda: serves(server, model), f'{model} by way of the other')
            self.assertEqual((200, 2.5), infer(server, model, 2.5))

    def test_settings_that_do_not_go_together_end_the_start(self):
        pair = self.ours.sign('whole')
        for flags, word in ((tls(self.ours, pair)[:4], 'go together'), (tls(self.ours, (pair[1], pair[0])), 'cluster.tls'),
                            ((*tls(self.ours, pair), '--cluster-address', 'http://10.0.0.1:1'), 'https://')):
            done = subprocess.run([str(harness.WEIR), 'serve', str(folder()), '--cluster-nats', self.nats.url, *map(str, flags)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn(word.encode(), done.stderr)


if __name__ == '__main__':
    harness.main(at_once=3)
