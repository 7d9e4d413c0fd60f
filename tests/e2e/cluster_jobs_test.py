"""Files, batches and jobs of several nodes and a real nats-server: the same at each of them, whoever is killed."""

import json
import os
import signal
import socket
import subprocess
import time
import unittest

import cluster_nodes
import harness
from batches_test import create, lines, over, request, retrieve, rows, upload, wait
from cluster_nodes import JSON, Nats, folder, identity, metric, node, nodes, until
from forward_text_test import MODEL, model_folder
from harness import curl


class Case(unittest.TestCase):
    def setUp(self):
        self.nats = Nats()
        self.addCleanup(self.nats.kill)

    def node(self, name, *flags, root=None, jobs=None, **more):
        server = node(self.nats, root or self.root, '--jobs-path', jobs or folder(), '--jobs-tenant-disk', '64MiB', '--jobs-disk', '256MiB',
                      *flags, name=name, **more)
        self.addCleanup(lambda: self.stopped(server))
        return server

    def stopped(self, server):
        if server.process.poll() is None:
            self.assertEqual(0, server.stop(), server.output()[-3000:])

    def three(self, *flags, names=('a', 'b', 'c')):
        servers = [self.node(name, *flags) for name in names]
        for server in servers:
            until(lambda: nodes(server) == len(servers), 'all nodes')
        return servers

    @classmethod
    def setUpClass(cls):
        cls.root = model_folder()


class EachNode(Case):
    def test_a_batch_is_made_at_one_node_and_read_at_another(self):
        a, b, c = self.three()
        content = lines(5, model=MODEL)
        status, file = upload(a, content)
        self.assertEqual(200, status)
        self.assertEqual(content, request(c, 'GET', f'/v1/files/{file["id"]}/content')[2])
        status, batch = create(b, file['id'])
        self.assertEqual(200, status)
        self.assertEqual(batch['id'], retrieve(c, batch['id'])['id'])
        done = over(a, batch['id'])
        self.assertEqual(('completed', 5, 5, 0), (done['status'], *(done['request_counts'][k] for k in ('total', 'completed', 'failed'))), done)
        for server in (a, b, c):
            self.assertEqual(done, retrieve(server, batch['id']))
            self.assertEqual([f'id {i}' for i in range(5)], [row['custom_id'] for row in rows(server, done['output_file_id'])])
        self.assertEqual(200, request(c, 'DELETE', f'/v1/files/{file["id"]}')[0])
        self.assertEqual(404, request(a, 'GET', f'/v1/files/{file["id"]}')[0])

    def test_the_official_client_finds_nodes_alike(self):
        a, b, _ = self.three()
        _, file = upload(a, lines(2, model=MODEL))
        script = f"""
const OpenAI = require('openai').default ?? require('openai');
const [one, two] = ['{a.url()}', '{b.url()}'].map((base) => new OpenAI({{ baseURL: base + '/v1', apiKey: 'none', maxRetries: 0 }}));
(async () => {{
  let batch = await one.batches.create({{ input_file_id: '{file["id"]}', endpoint: '/v1/completions', completion_window: '24h' }});
  while (batch.status !== 'completed') batch = await two.batches.retrieve(batch.id);
  const text = await (await two.files.content(batch.output_file_id)).text();
  console.log(text.trim().split('\\n').map((row) => JSON.parse(row).custom_id).join());
}})();"""
        env = {**os.environ, 'NODE_PATH': str(harness.ROOT / '.cache/npm/node_modules')}
        done = subprocess.run(['node', '-e', script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, env=env)
        self.assertEqual('id 0,id 1\n', done.stdout.decode())

    def test_inference_that_was_left_at_one_node_is_asked_for_at_another(self):
        identity(root := folder(), 'x')
        a, b = self.node('a', root=root), self.node('b', root=folder())
        until(lambda: cluster_nodes.serves(b, 'x'), 'the model at the other node')
        body = json.dumps({'inputs': [{'name': 'x', 'shape': [1, 1], 'datatype': 'FP32', 'data': [2.5]}]})
        status, headers, _ = request(b, 'POST', '/v2/models/x/infer', body, {'Prefer': 'respond-async', 'Content-Type': 'application/json'})
        self.assertEqual(202, status)
        job = headers['location']
        wait('the job is over', lambda: json.loads(request(a, 'GET', job)[2])['status'] == 'succeeded')
        for server in (a, b):
            self.assertEqual(2.5, json.loads(request(server, 'GET', job + '/result')[2])['outputs'][0]['data'][0])
        self.assertEqual(204, request(a, 'DELETE', job)[0])
        self.assertEqual(404, request(b, 'GET', job)[0])

    def test_a_batch_is_cancelled_at_another_node(self):
        a, b, c = self.three()
        _, file = upload(a, endless(60))
        batch = create(a, file['id'])[1]['id']
        wait('it runs', lambda: retrieve(b, batch)['status'] == 'in_progress')
        status, _, raw = request(c, 'POST', f'/v1/batches/{batch}/cancel')
        self.assertEqual((200, 'cancelling'), (status, json.loads(raw)['status']))
        self.assertEqual('cancelled', over(b, batch)['status'])
        self.assertEqual('cancelled', retrieve(a, batch)['status'])

    def test_a_node_that_joins_later_has_it_all(self):
        a = self.node('a')
        content = os.urandom(3_000_000)
        _, file = upload(a, content)
        _, input_file = upload(a, lines(3, model=MODEL))
        done = over(a, create(a, input_file['id'])[1]['id'])
        late = self.node('late')
        self.assertEqual(content, request(late, 'GET', f'/v1/files/{file["id"]}/content')[2])
        self.assertEqual(done, retrieve(late, done['id']))
        self.assertEqual(3, len(rows(late, done['output_file_id'])))
        until(lambda: metric(late, 'weir_jobs_log_sequence') == metric(a, 'weir_jobs_log_sequence'), 'the whole log')

    def test_a_long_log_is_shortened(self):
        flags = ('--jobs-max-file', '64MiB')
        a, b = self.node('a', *flags), self.node('b', *flags)
        kept = os.urandom(1_000_000)
        _, file = upload(a, kept)
        for server in (a, b):
            _, large = upload(server, os.urandom(45_000_000))
            self.assertEqual(200, request(server, 'DELETE', f'/v1/files/{large["id"]}')[0])
        until(lambda: any(server.logged('log was shortened', count=0) for server in (a, b)), 'a snapshot', 60)
        late = self.node('late', *flags)
        self.assertEqual(kept, request(late, 'GET', f'/v1/files/{file["id"]}/content')[2])
        self.assertTrue(late.logged('a snapshot of the jobs'))
        _, new = upload(late, b'new')
        for server in (a, b):
            self.assertEqual(b'new', request(server, 'GET', f'/v1/files/{new["id"]}/content')[2])

    def test_an_answer_longer_than_a_message_of_nats(self):
        root = folder()
        (root / 'x').mkdir()
        (root / 'x/config.pbtxt').write_text('backend: "identity"\ninput { name: "x" data_type: TYPE_FP32 dims: -1 }\n'
                                             'output { name: "x" data_type: TYPE_FP32 dims: -1 }\n')
        a, b = self.node('a', root=root), self.node('b', root=folder())
        until(lambda: cluster_nodes.serves(b, 'x'), 'the model at the other node')
        numbers = [float(i % 1000) for i in range(600_000)]
        body = json.dumps({'inputs': [{'name': 'x', 'shape': [len(numbers)], 'datatype': 'FP32', 'data': numbers}]})
        self.assertGreater(len(body), 3_000_000)
        status, headers, raw = request(b, 'POST', '/v2/models/x/infer', body, {'Prefer': 'respond-async', 'Content-Type': 'application/json'})
        self.assertEqual(202, status, raw)
        wait('the job is over', lambda: json.loads(request(a, 'GET', headers['location'])[2])['status'] in ('succeeded', 'failed'))
        self.assertEqual(numbers, json.loads(request(a, 'GET', headers['location'] + '/result')[2])['outputs'][0]['data'])

    def test_an_answer_that_a_nats_of_short_messages_does_not_hold_ends_with_507(self):
        self.nats = Nats('max_payload: 65536\n')
        self.addCleanup(self.nats.kill)
        (root := folder() / 'x').mkdir()
        (root / 'config.pbtxt').write_text('backend: "identity"\ninput { name: "x" data_type: TYPE_FP32 dims: -1 }\n'
                                           'output { name: "x" data_type: TYPE_FP32 dims: -1 }\n')
        a = self.node('a', root=root.parent)

        def ended(count):
            body = f'{{"inputs":[{{"name":"x","shape":[{count}],"datatype":"FP32","data":[{",".join(["1e5"] * count)}]}}]}}'
            status, headers, raw = request(a, 'POST', '/v2/models/x/infer', body, {'Prefer': 'respond-async', 'Content-Type': 'application/json'})
            self.assertEqual(202, status, raw)
            wait('the job is over', lambda: json.loads(request(a, 'GET', headers['location'])[2])['status'] in ('succeeded', 'failed'))
            return request(a, 'GET', headers['location'] + '/result')
        self.assertEqual(200, ended(300_000)[0])
        status, _, raw = ended(600_000)
        self.assertEqual(507, status, raw[:300])
        self.assertEqual(200, ended(300_000)[0])

    def test_lines_and_results_that_no_entry_holds_are_refused_at_the_start(self):
        for setting in ('line', 'result'):
            done = subprocess.run([str(harness.WEIR), 'serve', str(self.root), '--listen', '127.0.0.1:0', '--cluster-nats', 'nats://127.0.0.1:1',
                                   '--jobs-path', folder(), f'--jobs-max-{setting}', '61MiB'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=harness.PATIENCE)
            self.assertNotEqual(0, done.returncode)
            self.assertIn(b'jobs.max_line, jobs.max_result: in a cluster at most 60MiB', done.stdout)


def endless(count):
    return lines(count, tokens=200, model=MODEL).replace(b'"temperature"', b'"ignore_eos": true, "temperature"')


class Faults(Case):
    def complete(self, server, batch, count):
        """Each line has one result, and none is missing."""
        done = over(server, batch)
        self.assertEqual(('completed', count), (done['status'], done['request_counts']['completed']), done)
        results = rows(server, done['output_file_id'])
        self.assertEqual([f'id {i}' for i in range(count)], [row['custom_id'] for row in results])
        self.assertEqual({200}, {row['response']['status_code'] for row in results})

    def completed(self, server, batch):
        return retrieve(server, batch)['request_counts']['completed']

    def test_a_node_that_is_killed_in_the_middle_of_a_batch(self):
        a, b, c = self.three()
        _, file = upload(a, endless(200))
        batch = create(a, file['id'])[1]['id']
        until(lambda: self.completed(b, batch) >= 20, 'the first lines')
        # It also ends what it looks after; whichever of them that is.
        a, b, c = sorted((a, b, c), key=lambda server: -metric(server, 'weir_jobs_duties'))
        self.assertEqual(1, metric(a, 'weir_jobs_duties'))
        self.assertGreater(metric(a, 'weir_jobs_claimed_total'), 0)
        a.stop(signal.SIGKILL)
        self.assertLess(self.completed(b, batch), 200)
        self.complete(c, batch, 200)
        until(lambda: metric(b, 'weir_jobs_duties') + metric(c, 'weir_jobs_duties') == 1, 'another one looks after the duties')

    def test_all_nodes_are_killed_and_one_comes_back(self):
        a, b = self.three(names=('a', 'b'))
        _, file = upload(a, endless(60))
        batch = create(a, file['id'])[1]['id']
        until(lambda: self.completed(b, batch) >= 5, 'the first lines')
        a.stop(signal.SIGKILL), b.stop(signal.SIGKILL)
        again = self.node('a')  # with an empty folder
        self.complete(again, batch, 60)

    def test_nats_is_away_for_a_while(self):
        a, b = self.three(names=('a', 'b'))
        _, file = upload(a, endless(60))
        batch = create(a, file['id'])[1]['id']
        until(lambda: self.completed(b, batch) >= 5, 'the first lines')
        self.nats.kill()
        until(lambda: metric(b, 'weir_jobs_log_connected') == 0, 'that it is missed')
        # Results wait there by now, and what is read is what is known.
        until(lambda: metric(b, 'weir_jobs_log_waiting') > 0 or metric(a, 'weir_jobs_log_waiting') > 0, 'a result that waits')
        self.assertEqual('in_progress', retrieve(b, batch)['status'])
        status, headers, raw = request(b, 'POST', f'/v1/batches/{batch}/cancel')
        self.assertEqual((503, '1'), (status, headers['retry-after']), raw)
        self.assertEqual(503, upload(a, lines(1))[0])
        self.assertIn('files and batches cannot be changed', curl(b.url('/readyz')).json()['cluster'])
        self.nats.start()
        until(lambda: metric(b, 'weir_jobs_log_connected') == 1, 'that it is back')
        self.complete(b, batch, 60)
        self.assertNotIn('files and batches', curl(b.url('/readyz')).json()['cluster'])
        self.assertEqual(200, upload(a, lines(1))[0])

    def test_nats_comes_back_without_anything(self):
        a, b, c = self.three()
        _, file = upload(a, endless(60))
        batch = create(a, file['id'])[1]['id']
        until(lambda: self.completed(b, batch) >= 5, 'the first lines')
        self.nats.kill()
        self.nats.lose_all()
        until(lambda: metric(b, 'weir_jobs_log_connected') == 0, 'that it is missed')
        self.nats.start()
        self.complete(b, batch, 60)
        for server in (a, b, c):
            until(lambda: metric(server, 'weir_jobs_log_connected') == 1, 'that the log goes on')
            self.assertEqual(200, upload(server, lines(1))[0])
        later = self.node('d')
        self.complete(later, batch, 60)

    def test_a_node_that_has_nothing_leaves_the_new_log_to_the_others(self):
        a, b = self.three(names=('a', 'b'))
        _, file = upload(a, endless(60))
        batch = create(a, file['id'])[1]['id']
        until(lambda: self.completed(b, batch) >= 5, 'the first lines')
        self.nats.kill()
        self.nats.lose_all()
        until(lambda: metric(b, 'weir_jobs_log_connected') == 0, 'that it is missed')
        fresh = self.node('fresh')  # it is the first that finds NATS there again, or nearly
        self.nats.start()
        until(lambda: metric(fresh, 'weir_jobs_log_connected') == 1, 'that it is back')
        self.assertEqual(200, upload(fresh, lines(1))[0])
        self.complete(fresh, batch, 60)
        for server in (a, b, fresh):
            until(lambda: metric(server, 'weir_jobs_log_connected') == 1, 'that the log goes on')
            self.assertEqual(200, upload(server, lines(1))[0])

    def test_whoever_writes_to_nats_without_the_secret_changes_nothing(self):
        secret = folder() / 'secret'
        secret.write_text('a secret that all nodes share\n')
        a, b = self.node('a', '--cluster-secret', secret), self.node('b', '--cluster-secret', secret)
        content = lines(3, model=MODEL)
        _, file = upload(a, content)
        lies = [b'', b'x' * 900_000, b'0' * 64 + b'E', b'0' * 64 + b'Eweirjob1' + bytes(40), b'0' * 64 + b'P' + b'\xff' * 800] * 5
        with socket.create_connection(('127.0.0.1', self.nats.port), 5) as sock:
            sock.sendall(b'CONNECT {"verbose":false}\r\n')
            for subject in (b'entry', b'part', b'snapshot'):
                for lie in lies:
                    sock.sendall(b'PUB weir-jobs.%s %d\r\n%s\r\n' % (subject, len(lie), lie))
            sock.sendall(b'PING\r\n')
            heard = b''
            while b'PONG' not in heard:
                heard += sock.recv(4096)
        for server in (a, b):
            until(lambda: metric(server, 'weir_jobs_log_skipped_total') >= len(lies), 'that they are skipped')
        self.assertEqual(content, request(b, 'GET', f'/v1/files/{file["id"]}/content')[2])
        self.complete(b, create(b, file['id'])[1]['id'], 3)
        self.assertEqual(1, metric(a, 'weir_jobs_log_connected'))

    def test_a_node_ends_within_its_drain_while_nats_hangs(self):
        a, b = self.three('--drain-timeout', '15s', names=('a', 'b'))
        _, file = upload(a, endless(200))
        batch = create(a, file['id'])[1]['id']
        until(lambda: self.completed(b, batch) >= 5, 'the first lines')
        self.nats.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        self.assertEqual(0, a.stop())
        self.assertLess(time.monotonic() - begun, 40)  # and not without end
        self.nats.process.send_signal(signal.SIGCONT)
        self.complete(b, batch, 200)

    def test_a_node_that_ends_in_order_gives_back_what_runs(self):
        a, b = self.three(names=('a', 'b'))
        _, file = upload(a, endless(40))
        batch = create(a, file['id'])[1]['id']
        until(lambda: self.completed(b, batch) >= 5, 'the first lines')
        self.assertEqual(0, a.stop())
        self.complete(b, batch, 40)


if __name__ == '__main__':
    harness.main(at_once=3)
