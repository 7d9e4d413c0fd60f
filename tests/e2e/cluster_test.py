"""Several nodes and a real nats-server: they find each other, serve each other's models, miss who is killed, go on without
NATS, and refuse who lies."""

import json
import signal
import subprocess
import time
import unittest

import cluster_nodes
import harness
from cluster_nodes import JSON, Nats, folder, identity, infer, metric, node, nodes, serves, until
from forward_text_test import MODEL, model_folder
from harness import curl


class Case(unittest.TestCase):
    def setUp(self):
        self.nats = Nats()
        self.addCleanup(self.nats.kill)

    def node(self, root=None, *flags, **more):
        server = node(self.nats, root, *flags, **more)
        self.addCleanup(lambda: self.assertEqual(0, server.stop(), server.output()[-3000:]))
        return server

    def models(self, *names, **more):
        root = folder()
        for name in names:
            identity(root, name, **more)
        return root

    def answers(self, server, model):
        until(lambda: serves(server, model), f'{model} at {server.port}')
        self.assertEqual((200, 2.5), infer(server, model, 2.5))


class Nodes(Case):
    def test_each_node_serves_the_models_of_all(self):
        one, two = self.node(self.models('a', 'both'), name='one'), self.node(self.models('b', 'both'), name='two')
        gateway = self.node(name='gateway')
        for server in (gateway, one, two):
            for model in ('a', 'b', 'both'):
                self.answers(server, model)
            until(lambda: nodes(server) == 3, 'three nodes')
            self.assertEqual('3 nodes', curl(server.url('/readyz')).json()['cluster'])
        self.assertTrue(gateway.logged('a node has joined', 'one'))
        # It does not announce the models of others as its own: calls do not go in circles.
        index = curl(gateway.url('/v2/repository/index'), *JSON, data='{}').json()
        self.assertEqual({'a', 'b', 'both'}, {row['name'] for row in index})
        config = curl(gateway.url('/v2/models/a/config')).body.decode()
        self.assertNotIn(str(one.port), config)

    def test_a_gateway_needs_no_repository(self):
        worker = self.node(self.models('a'))
        file = folder() / 'weir.yaml'
        file.write_text('{}\n')
        server = harness.Server('--cluster-nats', self.nats.url, config=file)
        self.addCleanup(lambda: self.assertEqual(0, server.stop()))
        self.answers(server, 'a')
        until(lambda: nodes(worker) == 2, 'that it knows the gateway')

    def test_a_node_that_ends_is_missed_at_once_and_one_that_is_killed_within_seconds(self):
        gateway = self.node()
        leaving, killed = node(self.nats, self.models('a')), node(self.nats, self.models('b'))
        self.answers(gateway, 'a'), self.answers(gateway, 'b')
        self.assertEqual(0, leaving.stop())
        until(lambda: nodes(gateway) == 2, 'that one has left', 3)
        until(lambda: not serves(gateway, 'a'), 'that its model is gone')
        began = time.monotonic()
        killed.stop(signal.SIGKILL)
        until(lambda: nodes(gateway) == 1, 'that one was killed')
        self.assertGreater(time.monotonic() - began, 1)  # its last beat may have come late
        until(lambda: not serves(gateway, 'b'), 'that its model is gone')
        self.assertTrue(gateway.logged('a node has left', count=2))
        again = self.node(self.models('b'))
        self.answers(gateway, 'b')
        self.answers(again, 'b')

    def test_calls_go_on_at_another_node(self):
        gateway = self.node()
        killed, other = node(self.nats, self.models('a', delay_us=1000)), self.node(self.models('a', delay_us=1000))
        until(lambda: all(infer(gateway, 'a', 1.0)[0] == 200 and metric_of(server, 'a') > 0 for server in (killed, other)), 'that both are asked')
        heard = []

        def client(i):
            for n in range(40):
                heard.append((float(100 * i + n), infer(gateway, 'a', float(100 * i + n))))
                if i == 0 and n == 5:
                    killed.stop(signal.SIGKILL)

        with harness.threads(4, client):
            pass
        self.assertEqual(160, len(heard))
        wrong = [one for one in heard if one[1][0] == 200 and one[1][1] != one[0]]
        self.assertEqual([], wrong)
        lost = [one for one in heard if one[1][0] != 200]
        self.assertLess(len(lost), 8, lost[:3])  # calls that the dead node may have run are not all run again
        self.assertTrue(serves(other, 'a'))

    def test_a_node_that_comes_leaves_the_model_as_it_was_loaded(self):
        gateway = self.node()
        self.node(self.models('a'))
        self.answers(gateway, 'a')
        loaded = len(gateway.logged('model loaded', 'a'))
        second = self.node(self.models('a'))
        until(lambda: infer(gateway, 'a', 1.0)[0] == 200 and metric_of(second, 'a') > 0, 'that the second one is asked, too')
        before = metric_of(second, 'a')
        for n in range(40):
            self.assertEqual((200, float(n)), infer(gateway, 'a', float(n)))
        self.assertGreater(metric_of(second, 'a') - before, 5)
        self.assertEqual(loaded, len(gateway.logged('model loaded', 'a')))


    def test_a_model_folder_follows_its_nodes_however_many_come_and_go(self):
        here = folder()
        (here / 'a').mkdir()
        (here / 'a' / 'model.yaml').write_text('engine: forward\nkind: weir\norigins: cluster\nparameters: {places: 2, check_interval: 200ms}\n')
        worker = node(self.nats, self.models('a'))
        gateway = self.node(here)
        self.answers(gateway, 'a')
        for number in range(3):
            last, worker = worker, node(self.nats, self.models('a'))
            until(lambda: nodes(gateway) == 3, 'three nodes')
            self.assertEqual(0, last.stop())
            until(lambda: nodes(gateway) == 2, 'that one has left')
            until(lambda n=number: infer(gateway, 'a', float(n)) == (200, float(n)), 'that the new node answers', 5)
        self.assertEqual(0, worker.stop())
        until(lambda: not serves(gateway, 'a'), 'that nobody has the model')
        self.assertEqual(503, infer(gateway, 'a', 1.0)[0])
        self.node(self.models('a'))
        self.answers(gateway, 'a')


def metric_of(server, model):
    stats = curl(server.url(f'/v2/models/{model}/stats')).json()['model_stats'][0]
    return stats['inference_count']


class NatsAway(Case):
    def test_nodes_go_on_with_what_they_know_and_come_back(self):
        gateway, worker = self.node(), self.node(self.models('a'))
        self.answers(gateway, 'a')
        self.nats.kill()
        until(lambda: metric(gateway, 'weir_cluster_connected') == 0, 'that NATS is missed')
        self.assertIn('NATS is away', curl(gateway.url('/readyz')).json()['cluster'])
        end = time.monotonic() + 7  # longer than a node may be silent
        while time.monotonic() < end:
            self.assertEqual((200, 1.5), infer(gateway, 'a', 1.5))
        self.assertEqual(2, nodes(gateway))
        self.nats.start()
        until(lambda: metric(gateway, 'weir_cluster_connected') == 1, 'that NATS is back')
        late = self.node(self.models('b'))
        self.answers(gateway, 'b')
        self.answers(late, 'a')
        until(lambda: nodes(worker) == 3, 'that NATS is back for the worker')
        self.assertTrue(gateway.logged('NATS is away'))

    def test_a_server_starts_without_it(self):
        self.nats.kill()
        one = self.node(self.models('a'))
        self.answers(one, 'a')
        self.assertIn('NATS is away', curl(one.url('/readyz')).json()['cluster'])
        self.nats.start()
        two = self.node()
        self.answers(two, 'a')


class Secret(Case):
    def secret(self, text='a secret that all nodes share'):
        file = folder() / 'secret'
        file.write_text(text + '\n')
        return ('--cluster-secret', file)

    def test_lies_are_refused_by_name(self):
        gateway = self.node(None, *self.secret())
        worker = self.node(self.models('a'), *self.secret())
        self.answers(gateway, 'a')
        stranger = self.node(self.models('evil'), *self.secret('another secret, as long'))
        lie = f'weir-node 1\nid liar\nincarnation 1\nbeat 1\nphase serving\naddress http://127.0.0.1:{stranger.port}\nmodel evil tensors\n'
        self.nats.put('node.liar', lie)
        self.nats.put('node.large', b'x' * 900000)
        self.nats.put('node.garbage', bytes(range(256)).replace(b'\r', b'').replace(b'\n', b''))
        for i in range(2000):
            if i % 100 == 0:
                self.nats.put(f'node.n{i}', f'weir-node 1\nid n{i}\nincarnation 1\n')
        until(lambda: metric(gateway, 'weir_cluster_refused_entries_total') >= 23, 'that they are counted')
        self.assertTrue(gateway.logged('is refused', 'node.liar', 'cluster.secret'))
        self.assertTrue(gateway.logged('is refused', 'node.large', 'bytes'))
        self.assertFalse(serves(gateway, 'evil'))
        self.assertEqual(2, nodes(gateway))
        self.assertEqual((200, 4.0), infer(gateway, 'a', 4.0))
        self.assertTrue(serves(worker, 'a'))

    def test_without_a_secret_lies_are_bounded(self):
        gateway = self.node()
        self.node(self.models('a'))
        self.answers(gateway, 'a')
        self.assertTrue(gateway.logged('without cluster.secret'))
        for number, line in enumerate(['address http://256.0.0.1:1', 'address http://[::1', 'address http://a.invalid:1/path',
                                       'address http://127.0.0.1:1', 'model ../x tensors', 'load -5', 'phase dead']):
            self.nats.put(f'node.l{number}', f'weir-node 1\nid l{number}\nincarnation 1\nbeat 1\nmodel m{number} tensors\n{line}\n')
        until(lambda: gateway.logged('is refused', 'node.l4'), 'the refusal of a path')
        self.assertTrue(gateway.logged("a node's address cannot be used"))
        self.assertEqual((200, 4.0), infer(gateway, 'a', 4.0))
        self.assertFalse(serves(gateway, 'm3'))

    def test_calls_of_nodes_bring_its_key(self):
        keys = folder() / 'keys.yaml'
        made = subprocess.run([str(harness.WEIR), 'key', 'new', 'somebody', '--roles', 'infer', '--keys-file', str(keys)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(0, made.returncode, made.stderr)
        worker = self.node(self.models('a'), *self.secret(), '--auth-keys-file', keys)
        gateway = self.node(None, *self.secret())
        self.answers(gateway, 'a')
        self.assertEqual(401, infer(worker, 'a', 1.0)[0])

    def test_a_secret_that_cannot_be_read_ends_the_start(self):
        done = subprocess.run([str(harness.WEIR), 'serve', str(folder()), '--cluster-nats', self.nats.url,
                               '--cluster-secret', '/nowhere'], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(2, done.returncode)
        self.assertIn(b'cluster.secret', done.stderr)


class Text(Case):
    def test_a_text_whose_node_is_killed_goes_on_at_another(self):
        root = model_folder()
        here = folder()
        (here / MODEL).mkdir()
        (here / MODEL / 'model.yaml').write_text(
            f'engine: forward\nkind: weir\norigins: cluster\nparameters: {{tokenizer: {root / MODEL / "1"}, check_interval: 100ms}}\n')
        workers = [node(self.nats, root) for _ in range(2)]
        gateway = self.node(here)
        until(lambda: serves(gateway, MODEL), 'the model of text')
        until(lambda: nodes(gateway) == 3, 'three nodes')
        ask = {'model': MODEL, 'prompt': 'Once upon a time', 'max_tokens': 120, 'temperature': 0, 'ignore_eos': True}
        whole = curl(workers[0].url('/v1/completions'), *JSON, data=json.dumps(ask)).json()['choices'][0]['text']
        texts = []

        def client(i):
            for _ in range(4):
                texts.append(curl(gateway.url('/v1/completions'), *JSON, data=json.dumps(ask)).json()['choices'][0]['text'])
                if i == 0 and len(texts) < 4:
                    workers[0].stop(signal.SIGKILL)

        with harness.threads(3, client):
            pass
        self.assertEqual([whole] * 12, texts)
        self.assertEqual(0, workers[1].stop())


if __name__ == '__main__':
    if not cluster_nodes.Nats.program or subprocess.run([cluster_nodes.Nats.program, '-v'], stdout=subprocess.DEVNULL).returncode:
        raise SystemExit('nats-server is not installed')
    harness.main(at_once=3)
