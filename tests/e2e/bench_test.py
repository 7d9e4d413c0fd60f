"""weir bench: every protocol that it speaks against a running server, its two loops, its numbers against the server's
own, and servers that mean harm."""

import csv
import json
import re
import socket
import subprocess
import unittest

import harness
from tools_test import Hostile as HostileServers, hostile, weir

LOADS = {
    'oip-rest': ('simple',), 'oip-grpc': ('simple',), 'grps': ('simple',), 'graphpipe': ('digits',),
    'openai': ('chat', '--max-tokens', '4'), 'oip-stream': ('simple',), 'evergreen': ('simple',), 'salience': ('chat', '--max-tokens', '4'),
}
OF_TEXT = ('openai', 'oip-stream', 'evergreen', 'salience')


class Bench(harness.Case):
    def bench(self, *args, flags=()):
        code, out, err = weir('bench', *args, '--url', self.server.address, *flags)
        self.assertEqual(0, code, err + out)
        return out

    def json(self, *args):
        return json.loads(self.bench(*args, '--json'))

    def counted(self, series):
        metrics = harness.curl(self.server.url('/metrics')).body.decode()
        return sum(int(line.rpartition(' ')[2]) for line in metrics.splitlines() if line.startswith(series))

    def test_every_protocol_is_answered_and_the_server_has_counted_as_many(self):
        for protocol, (model, *more) in LOADS.items():
            with self.subTest(protocol):
                before = self.counted('weir_model_requests_total{model="%s"' % model)
                out = self.json(model, *more, '--protocol', protocol, '-n', '40', '-c', '4')
                self.assertEqual((40, 0), (out['answered'], out['failed']), out)
                self.assertEqual(41, self.counted('weir_model_requests_total{model="%s"' % model) - before, 'and one to try')

    def test_all_types_of_tensors_go_over_every_protocol_that_has_them(self):
        for model in ('simple_int8', 'simple_string', 'simple_identity'):
            for protocol in ('oip-rest', 'oip-grpc', 'oip-stream', 'grps', 'graphpipe', 'evergreen'):
                with self.subTest(f'{model} {protocol}'):
                    self.assertEqual(4, self.json(model, '--protocol', protocol, '-n', '4', *(
                        () if model == 'simple_int8' else self.texts(model)))['answered'])
        self.assertEqual(4, self.json('simple', '--tensors', 'json', '-n', '4')['answered'])

    def texts(self, model):
        """simple_string adds numbers that are written as texts."""
        if model == 'simple_string':
            values = json.dumps([str(i) for i in range(16)])
            return '-i', f'INPUT0={values}', '-i', f'INPUT1={values}'
        return '-i', 'INPUT0=random:1x16'

    def test_a_closed_loop_leaves_a_line_per_request(self):
        path = harness.scratch() / 'bench.csv'
        out = self.bench('simple', '-c', '2', '--csv', path, '--duration', '300ms', '--warmup', '100ms')
        self.assertRegex(out, r'^\d+ requests in [\d.]+ s: [\d.]+/s answered, 0 failed\n')
        for word in ('p50', 'p90', 'p99', 'p99.9', 'max', 'latency'):
            self.assertIn(word, out)
        rows = list(csv.DictReader(path.open()))
        self.assertEqual(int(out.split()[0]), len(rows))
        self.assertTrue(all(float(r['due']) <= float(r['started']) <= float(r['first']) <= float(r['ended']) for r in rows))

    def test_an_open_loop_keeps_its_schedule_whatever_the_answers_take(self):
        for protocol, threads in (('oip-rest', 1), ('oip-grpc', 2)):
            path = harness.scratch() / 'open.csv'
            self.bench('simple', '--rate', '40', '-c', '2', '--csv', path, '--duration', '500ms', '--warmup', '100ms',
                       '--protocol', protocol, '--threads', str(threads))
            due = sorted(float(r['due']) for r in csv.DictReader(path.open()))
            self.assertEqual([round(i / 40, 6) for i in range(4, 24)], due)

    def test_tokens_have_times_of_their_own(self):
        prompts = harness.scratch() / 'prompts'
        prompts.write_text('one\ntwo\n')
        for protocol in OF_TEXT:
            with self.subTest(protocol):
                out = self.json('chat', '--protocol', protocol, '-c', '2', '-n', '6', '--max-tokens', '8')
                self.assertEqual((6, 0), (out['answered'], out['failed']), out)
                self.assertGreaterEqual(out['tokens'], 6 * 3, out)  # not every token is a piece of text, and Salience's may end by themselves
                for kind in ('first_token', 'inter_token', 'latency'):
                    self.assertGreaterEqual(out[kind]['max'], out[kind]['p50'])
                two = self.json('chat', '--protocol', protocol, '-n', '4', '--prompt', f'@{prompts}', '--max-tokens', '2')
                self.assertEqual(4, two['answered'])

    def test_a_model_of_text_is_asked_in_protocols_of_tensors_too(self):
        for protocol in ('oip-rest', 'oip-grpc', 'grps'):
            with self.subTest(protocol):
                self.assertEqual(4, self.json('chat', '--protocol', protocol, '-n', '4', '--max-tokens', '2')['answered'])

    def test_sessions_of_salience_are_closed(self):
        def sessions():
            metrics = harness.curl(self.server.url('/metrics')).body.decode()
            return sum(int(line.rpartition(' ')[2]) for line in metrics.splitlines() if line.startswith('weir_sessions '))
        before = sessions()
        self.bench('chat', '--protocol', 'salience', '-n', '20', '-c', '4', '--max-tokens', '2')
        self.assertEqual(before, sessions())

    def test_sessions_keep_an_open_loops_schedule(self):
        for protocol, model in (('evergreen', 'simple'), ('salience', 'chat')):
            path = harness.scratch() / 'open.csv'
            self.bench(model, '--rate', '20', '-c', '8', '--csv', path, '--duration', '500ms', '--warmup', '0s', '--protocol', protocol,
                       '--max-tokens', '2')
            due = sorted(float(r['due']) for r in csv.DictReader(path.open()))
            self.assertEqual([round(i / 20, 6) for i in range(10)], due)

    def test_many_streams_share_few_connections(self):
        before = self.counted('weir_connections_total')
        self.assertEqual(400, self.json('simple', '--protocol', 'oip-grpc', '-c', '150', '--connections', '2', '-n', '400')['answered'])
        opened = self.counted('weir_connections_total') - before
        self.assertLessEqual(opened, 2 + 1 + 1 + 1 + 1, 'the metadata, the configuration, one request to try, this scrape')

    def test_mistakes_end_it_before_it_begins(self):
        for args, code, words in (
                (('nothing',), 1, 'nothing'), (('simple', '-i', 'X=zeros'), 1, "has no input 'X'"),
                (('simple', '-i', 'INPUT0=random:1xy'), 1, 'expected a shape'), (('simple', '-i', 'INPUT0=[1,2'), 1, 'INPUT0'),
                (('nothing', '--protocol', 'openai'), 1, 'nothing'), (('nothing', '--protocol', 'salience'), 1, 'nothing'),
                (('nothing', '--protocol', 'evergreen'), 1, 'nothing'), (('digits', '--protocol', 'salience'), 1, 'digits'), (('simple', '--protocol', 'smtp'), 2, 'smtp'),
                (('simple', '--duration', 'soon'), 2, '--duration'), (('simple', '-i', 'INPUT0=@/nowhere.npy'), 1, '/nowhere.npy'),
                (('simple', '--csv', '/nowhere/x.csv', '-n', '1'), 1, '/nowhere/x.csv')):
            got, _, err = weir('bench', *args, '--url', self.server.address)
            self.assertEqual(code, got, (args, err))
            self.assertIn(words, err)

    def test_what_fails_is_counted_by_its_words(self):
        code, out, err = weir('bench', 'simple_string', '--url', self.server.address, '-i', 'INPUT0=zeros', '-i', 'INPUT1=random')
        self.assertEqual(1, code)
        self.assertRegex(err, r'^weir: [45]\d\d ')

    def test_ctrl_c_ends_it_with_what_there_is(self):
        import signal
        running = subprocess.Popen([str(harness.WEIR), 'bench', 'simple', '--url', self.server.address, '--duration', '1h', '--warmup', '0s'],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        before = self.counted('weir_model_requests_total{model="simple"')
        while self.counted('weir_model_requests_total{model="simple"') < before + 20:
            pass
        running.send_signal(signal.SIGINT)
        out = running.communicate(timeout=harness.PATIENCE)[0].decode()
        self.assertEqual(0, running.returncode, out)
        self.assertRegex(out, r'^\d+ requests in ')


class OverTls(unittest.TestCase):
    def test_http1_and_http2(self):
        scratch = harness.scratch()
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                        '-keyout', scratch / 'k.pem', '-out', scratch / 'c.pem', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'],
                       check=True, stderr=subprocess.DEVNULL)
        server = harness.Server('--tls-cert', scratch / 'c.pem', '--tls-key', scratch / 'k.pem')
        for protocol in ('oip-rest', 'oip-grpc'):
            code, out, err = weir('bench', 'simple', '--url', f'https://localhost:{server.port}', '--ca', scratch / 'c.pem', '--protocol', protocol,
                                  '-n', '50', '--json')
            self.assertEqual(0, code, err)
            self.assertEqual(50, json.loads(out)['answered'])
        code, _, err = weir('bench', 'simple', '--url', f'https://localhost:{server.port}')
        self.assertEqual(1, code)
        self.assertIn('TLS failed', err)
        self.assertEqual(0, server.stop())


class Stalls(unittest.TestCase):
    def test_an_open_loop_charges_a_stall_to_all_that_was_due(self):
        """A server that answers one request only when the test says so: what was due meanwhile has waited, too."""
        listener = socket.create_server(('127.0.0.1', 0))
        running = subprocess.Popen([str(harness.WEIR), 'bench', 'm', '--url', f'127.0.0.1:{listener.getsockname()[1]}', '--protocol', 'openai', '--rate', '20',
                                    '-c', '1', '--duration', '1s', '--warmup', '0s', '--json'], stdout=subprocess.PIPE)
        body = b'data: [DONE]\n\n'
        answer = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s' % (len(body), body)
        answered = 0
        while answered < 21:  # one to try, then 20
            peer, _ = listener.accept()
            with peer:
                while peer.recv(65536):
                    if answered == 1:
                        with self.assertRaises(subprocess.TimeoutExpired):
                            running.wait(1)  # the stall
                    peer.sendall(answer)
                    answered += 1
                    if answered in (1, 21):
                        break
        out = json.loads(running.communicate(timeout=harness.PATIENCE)[0])
        self.assertEqual((20, 0), (out['answered'], out['failed']), out)
        self.assertGreater(out['latency']['max'], 0.9)
        self.assertGreater(out['latency']['p50'], 0.3, 'half of what was due has waited')
        listener.close()


class HostileToBench(HostileServers):
    COMMANDS = (('bench', 'm', '--protocol', 'openai'), ('bench', 'm'))

    def test_garbage_over_http2(self):
        metadata = json.dumps({'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [1]}]}).encode()
        answers = iter([b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(metadata) + metadata,
                        b'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n', b'\xff' * 10000])
        with hostile(lambda: [next(answers, b'')]) as address:
            code, _, err = weir('bench', 'm', '--protocol', 'oip-grpc', '--url', address, '--timeout', '1s')
        self.assertEqual(1, code)
        self.assertIn('HTTP/2', err)
        self.assertEqual(1, len(err.splitlines()), err)


del HostileServers


if __name__ == '__main__':
    harness.main()
