"""weir top and weir chat against a running server: without a terminal, on a terminal of their own (a pty), with keys and
TLS, and against servers that mean harm."""

import contextlib
import http.server
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time
import unittest

import harness


def weir(*args, text='', env=None, timeout=harness.PATIENCE * 3):
    done = subprocess.run([str(harness.WEIR), *map(str, args)], input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=timeout, env={**os.environ, **(env or {})})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Terminal:
    """A program on a terminal of its own of 40 lines and 120 columns."""

    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ['TERM'] = 'xterm'
            os.execv(str(harness.WEIR), [str(harness.WEIR), *map(str, args)])
        import fcntl
        import struct
        import termios
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 120, 0, 0))
        self.seen = ''

    def read(self):
        ready, _, _ = select.select([self.fd], [], [], harness.PATIENCE)
        if not ready:
            return False
        try:
            got = os.read(self.fd, 65536)
        except OSError:  # its program has ended
            return False
        self.seen += got.decode(errors='replace')
        return bool(got)

    def expect(self, pattern):
        """Waits until the output so far has it; forgets what lies before its end."""
        while not (found := re.search(pattern, self.seen)):
            if not self.read():
                raise AssertionError(f'{pattern!r} did not come: {self.seen!r}')
        self.seen = self.seen[found.end():]
        return found

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self):
        """Its exit code."""
        while self.read():
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class EndlessAnswer(http.server.BaseHTTPRequestHandler):
    """A chat completion that begins, and goes on until its client leaves. A model's own answer may end at any time."""

    def do_POST(self):
        self.rfile.read(int(self.headers['content-length']))
        self.send_response(200)
        self.send_header('content-type', 'text/event-stream')
        self.end_headers()
        self.wfile.write(b'data: {"choices":[{"index":0,"delta":{"content":"The sea is"}}]}\n\n')
        self.wfile.flush()
        self.rfile.read(1)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def endless_answers():
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), EndlessAnswer) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        try:
            yield f'127.0.0.1:{site.server_port}'
        finally:
            site.shutdown()


class OfNoTerminal(harness.Case):
    def test_top_prints_a_plain_table(self):
        weir('infer', 'simple', self.server.address, '-i', 'INPUT0=zeros', '-i', 'INPUT1=zeros')
        code, out, err = weir('top', '--url', self.server.address, '--interval', '50ms', '-n', '2')
        self.assertEqual(0, code, err)
        self.assertEqual(2, len(re.findall(r'(?m)^weir \S+  ready  up .* models ready$', out)), out)
        self.assertNotIn('\x1b', out)
        self.assertRegex(out, r'(?m)^simple +yes +[\d.]+')
        self.assertRegex(out, r'(?m)^\d+ shards  ')
        code, once, _ = weir('top', self.server.address, '--interval', '50ms', '--once')
        self.assertEqual((0, 1), (code, once.count('PROTOCOL')))

    def test_its_numbers_are_those_of_the_metrics(self):
        watching = subprocess.Popen([str(harness.WEIR), 'top', '--url', self.server.url(), '--interval', '2s', '--once'],
                                    stdout=subprocess.PIPE)
        end, n = time.monotonic() + 2, 0
        while time.monotonic() < end:
            self.assertEqual(200, harness.curl(self.server.url('/v2/models/simple')).status)
            n += 1
        out = watching.communicate(timeout=harness.PATIENCE)[0].decode()
        rate = float(re.search(r'(?m)^oip-rest +([\d.]+)', out)[1])
        self.assertTrue(0 < rate <= n, (n, out))

    def test_a_piped_line_is_answered(self):
        code, out, err = weir('chat', '--url', self.server.address, '--max-tokens', '6', text='What is curl?')
        self.assertEqual(0, code, err)
        self.assertTrue(out.strip())
        self.assertEqual('', err)

    def test_a_chat_remembers_what_was_said_until_it_is_reset(self):
        say = 'What is curl?\n'
        code, out, err = weir('chat', 'chat', self.server.address, '--max-tokens', '6', '--temperature', '0',
                              text=say + '/reset\n' + say + '/model\n/nonsense\n/quit\nnever\n')
        self.assertEqual(0, code, err)
        answers = out.splitlines()
        self.assertEqual(2, len(answers), out)
        self.assertEqual(answers[0], answers[1])
        self.assertIn('* chat\n', err)
        self.assertIn('no such command: /nonsense', err)

    def test_a_mistake_ends_it_with_one_line(self):
        for args, words in ((('chat', 'nothing'), 'nothing'), (('top', '--interval', 'soon'), '--interval'),
                            (('top', '--ca', '/nowhere.pem', '--url', 'https://localhost:1'), '--ca'),
                            (('top', '--url', '127.0.0.1:1', '--interval', '1ms'), 'cannot connect')):
            url = () if '--url' in args else ('--url', self.server.address)
            code, out, err = weir(*args, *url, text='Hello\n')
            self.assertNotEqual(0, code, args)
            self.assertIn(words, err)
            self.assertEqual(1, len(err.splitlines()), err)

    def test_help_says_what_keys_need(self):
        for command, role in (('top', 'metrics'), ('chat', 'infer')):
            code, out, _ = weir(command, '--help')
            self.assertEqual(0, code)
            for word in ('--url', '--key', '--ca', 'WEIR_API_KEY', role):
                self.assertIn(word, out)


class OnATerminal(harness.Case):
    def test_top_redraws_until_q_and_leaves_the_screen_as_it_was(self):
        top = Terminal('top', '--url', self.server.address, '--interval', '100ms')
        for _ in range(2):
            top.expect(r'\x1b\[H.*q leaves[^\x00]*PROTOCOL[^\x00]*MODEL')
        top.type('q')
        top.expect(r'\x1b\[\?25h\x1b\[\?1049l')
        self.assertEqual(0, top.wait())

    def test_a_signal_to_end_leaves_the_screen_too(self):
        top = Terminal('top', '--url', self.server.address, '--interval', '1h')
        top.expect(r'q leaves')
        os.kill(top.pid, signal.SIGTERM)
        top.expect(r'\x1b\[\?25h\x1b\[\?1049l')
        self.assertEqual(0, top.wait())

    def test_ctrl_c_stops_an_answer_and_then_leaves(self):
        with endless_answers() as address:
            chat = Terminal('chat', 'chat', '--url', address)
            chat.expect('> ')
            chat.type('Tell me of the sea.\n')
            chat.expect('The sea is')
            chat.type('\x03')
            chat.expect(r'\(stopped\)\r\n> ')
            chat.type('/help\n')
            chat.expect('/system')
            chat.expect('> ')
            chat.type('\x03')
            self.assertEqual(0, chat.wait())

    def test_an_error_does_not_end_a_persons_chat(self):
        chat = Terminal('chat', 'nothing', '--url', self.server.address)
        chat.expect('> ')
        chat.type('Hello\n')
        chat.expect("weir: .*nothing")
        chat.expect('> ')
        chat.type('/model chat\n')
        chat.expect('> ')
        chat.type('"""\nHello\nthere\n"""\n')
        chat.expect(r'\(\d+ pieces')
        chat.type('\x04')
        self.assertEqual(0, chat.wait())


class Keys(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = harness.scratch() / 'keys.yaml'
        cls.key = {}
        for role in ('metrics', 'infer'):
            code, out, err = weir('key', 'new', role, '--roles', role, '--keys-file', cls.keys)
            assert code == 0, err
            cls.key[role] = re.search(r'\S{20,}', out)[0]
        cls.server = harness.Server('--auth-keys-file', cls.keys)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_the_missing_role_is_named(self):
        for key in ((), ('--key', self.key['infer'])):
            code, _, err = weir('top', '--url', self.server.address, '--interval', '1ms', *key)
            self.assertEqual(1, code)
            self.assertIn('a key with the role metrics: --key or WEIR_API_KEY', err)
            self.assertEqual(1, len(err.splitlines()), err)

    def test_a_key_comes_by_option_or_by_variable(self):
        for args, env in ((('--key', self.key['metrics']), {}), ((), {'WEIR_API_KEY': self.key['metrics']})):
            code, out, err = weir('top', '--url', self.server.address, '--interval', '1ms', *args, env=env)
            self.assertEqual(0, code, err)
        code, out, err = weir('chat', '--url', self.server.address, '--max-tokens', '2', text='x', env={'WEIR_API_KEY': self.key['infer']})
        self.assertEqual(0, code, err)
        code, out, err = weir('models', self.server.address, '--key', self.key['infer'])
        self.assertEqual(0, code, err)


@contextlib.contextmanager
def hostile(answer):
    """A server that sends pieces of `answer`, an iterable of bytes, to everybody, and then keeps silent."""
    listener = socket.create_server(('127.0.0.1', 0))
    over = threading.Event()

    def serve():
        with contextlib.ExitStack() as held:
            while not over.is_set():
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                held.enter_context(peer)
                with contextlib.suppress(OSError):
                    peer.recv(65536)
                    for piece in answer():
                        peer.sendall(piece)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f'127.0.0.1:{listener.getsockname()[1]}'
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(harness.PATIENCE)
        listener.close()


def endless(piece):
    def pieces():
        while True:
            yield piece
    return pieces


class Hostile(unittest.TestCase):
    COMMANDS = (('top', '--interval', '1ms'), ('chat', 'm'), ('chat',))
    OK = b'HTTP/1.1 200 OK\r\n'

    def refuse(self, answer, words=''):
        for command in self.COMMANDS:
            with hostile(answer) as address:
                code, out, err = weir(*command, '--url', address, '--timeout', '300ms', text='hello\n')
            self.assertEqual(1, code, (command, out))
            slow = ' warning a turn of the loop '  # on a busy machine, of the command's own load
            self.assertEqual(1, len([line for line in err.splitlines() if slow not in line]), (command, err))
            self.assertTrue(err.startswith('weir: '), err)
            self.assertIn(words, err)
            self.assertNotIn('\x1b', out + err)

    def test_one_that_hangs(self):
        self.refuse(lambda: (), 'no answer in time')

    def test_garbage(self):
        self.refuse(endless(os.urandom(4096)), 'not HTTP/1.1')

    def test_heads_without_an_end(self):
        self.refuse(endless(b'X-Y: ' + b'z' * 1000 + b'\r\n'), 'not HTTP/1.1')
        self.refuse(lambda: [self.OK, *[b'X-Y: ' + b'z' * 1000 + b'\r\n'] * 200], 'too long')

    def test_informational_heads_without_an_end(self):
        self.refuse(endless(b'HTTP/1.1 100 Continue\r\n\r\n'), 'too long')

    def test_a_body_that_is_something_else(self):
        for body in (b'<html>\x1b[2J</html>', b'{"data": 3}', b'[' * 5000, b'data: {"choices": [{"delta": 3}]}\n\ndata: 7\n\n',
                     b'data: {"error": {"message": "\\u001b[2J"}}\n\n', b'\xff' * 100):
            self.refuse(lambda: [self.OK + b'Content-Length: %d\r\n\r\n' % len(body) + body])


if __name__ == '__main__':
    harness.main()
