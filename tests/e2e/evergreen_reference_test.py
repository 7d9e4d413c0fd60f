"""Evergreen's references to the web: what they name, who misbehaves, where they must not lead."""

import http.server
import threading
import unittest

import harness

from evergreen_client import CARRIERS, GrpcSession, SessionError, action, leaf, read_until


class Web(http.server.BaseHTTPRequestHandler):
    """Answers /hello; misbehaves elsewhere."""

    def do_GET(self):
        if self.path == '/hello':
            self.answer(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello')
        elif self.path == '/redirect':
            self.answer(b'HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/hello\r\nContent-Length: 0\r\n\r\n')
        elif self.path == '/short':
            self.answer(b'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello')
        elif self.path == '/gzip':
            self.answer(b'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello')
        elif self.path == '/endless':
            self.answer(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
            while self.answer(b'10000\r\n' + bytes(65536) + b'\r\n'):
                pass
        elif self.path == '/slow':
            self.server.left.wait(harness.PATIENCE)
        else:
            self.answer(b'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n')

    def answer(self, data):
        try:
            self.wfile.write(data)
            self.wfile.flush()
            return True
        except OSError:
            return False

    def log_message(self, *_):
        pass


class References(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.web = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Web)
        cls.web.left = threading.Event()
        threading.Thread(target=cls.web.serve_forever, daemon=True).start()
        cls.place = f'127.0.0.1:{cls.web.server_port}'
        allow = ['--evergreen-references-schemes', 'http', '--evergreen-references-hosts', cls.place,
                 '--evergreen-references-hosts', f'localhost:{cls.web.server_port}']
        cls.server = harness.Server(*allow, '--evergreen-references-networks', '127.0.0.1', '--evergreen-references-networks',
                                    '::1', '--evergreen-references-timeout', '1s', '--evergreen-references-max-bytes', '1MiB')
        cls.strict = harness.Server(*allow)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        assert cls.strict.stop() == 0
        cls.web.left.set()
        cls.web.shutdown()
        cls.web.server_close()

    def get(self, uri, carrier=GrpcSession, server=None):
        s = carrier(server or self.server)
        s.send(action('ECHO', {'x': 'a'}, {'x': 'e'}))
        m = leaf('a', b'')
        m.node_fragments[0].chunk_fragment.ref = uri
        s.send(m)
        try:
            return read_until(s, 'e').flat('e')
        except SessionError as error:
            return f'{error.code}: {error.message}'
        finally:
            s.close()

    def test_what_it_names_is_the_chunk(self):
        for carrier in CARRIERS:
            self.assertEqual(self.get(f'http://{self.place}/hello', carrier), b'hello')

    def test_names_are_looked_up(self):
        self.assertEqual(self.get(f'http://localhost:{self.web.server_port}/hello'), b'hello')

    def test_servers_that_misbehave_end_the_session_with_a_status(self):
        for path, said in (('redirect', 'UNAVAILABLE: .* redirects are not followed'), ('short', 'UNAVAILABLE: .*before the end'),
                           ('gzip', 'UNAVAILABLE: .*coded the content'), ('endless', 'RESOURCE_EXHAUSTED: .*larger than 1048576'),
                           ('slow', 'DEADLINE_EXCEEDED: .*not come in time'), ('nothing', 'NOT_FOUND: .*status 404')):
            self.assertRegex(self.get(f'http://{self.place}/{path}'), said)

    def test_what_is_not_allowed_is_not_asked(self):
        for uri in (f'http://{self.place}@evil.example/', 'http://127.1/', 'http://evil.example/', f'https://{self.place}/hello',
                    f'http://127.0.0.1:{self.server.port}/v2', f'http://{self.place}\\@evil.example/', 'gopher://a/',
                    f'http://[::ffff:127.0.0.1]:{self.web.server_port}/hello'):
            self.assertRegex(str(self.get(uri)), '^(PERMISSION_DENIED|INVALID_ARGUMENT): ', uri)

    def test_a_host_that_is_listed_does_not_lead_inside(self):
        for host in ('127.0.0.1', 'localhost'):
            self.assertRegex(self.get(f'http://{host}:{self.web.server_port}/hello', server=self.strict),
                             'UNAVAILABLE: .*no public address')


if __name__ == '__main__':
    harness.main()
