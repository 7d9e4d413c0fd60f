"""Models that run here and at origins: the instances here first, then whoever has less to do."""

import json
import pathlib
import shutil
import signal
import tempfile
import unittest

import harness
from cluster_nodes import Nats, folder, infer, node, nodes, until
from forward_text_test import MODEL, completion, model_folder
from harness import curl

JSON = ('-H', 'content-type: application/json')
SLOW = 20_000  # microseconds of one execution


def beside(origins, more='', name='m', delay_us=SLOW):
    """A repository whose model runs here, a row at a time, and at `origins`."""
    root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    (root / name).mkdir()
    (root / name / 'model.yaml').write_text(
        f'engine: identity\ninputs: [{{name: x, type: FP32, shape: [1]}}]\noutputs: [{{name: x, type: FP32, shape: [1]}}]\n'
        f'max_batch: 1\nparameters: {{delay_us: {delay_us}}}\n'
        f'origins: {origins}\norigin_parameters: {{check_interval: 50ms{more}}}\n')
    return root


def count(server, model='m'):
    """Inferences that succeeded at a server, its origins' among them."""
    stats = curl(server.url(f'/v2/models/{model}/stats')).json()['model_stats'][0]['inference_stats']
    return stats['success']['count'], stats['fail']['count']


class Case(unittest.TestCase):
    def server(self, *args, **more):
        server = harness.Server(*args, **more)
        self.addCleanup(lambda: self.assertEqual(0, server.stop(), server.output()[-3000:]))
        return server

    def origin(self, delay_us=SLOW, max_batch=1):
        root = folder()
        harness.write_identity_model(root, 'm', max_batch, delay_us)
        return harness.Server(repository=root)

    def load(self, server, clients=8, each=10, model='m', between=None):
        """Answers of `clients` at once: all are to be right."""
        answers = []

        def client(i):
            for n in range(each):
                if between and i == 0:
                    between(n)
                answers.append(infer(server, model, float(i * each + n)) == (200, float(i * each + n)))

        with harness.threads(clients, client):
            pass
        self.assertEqual([True] * clients * each, answers)


class Tensors(Case):
    def start(self, *origins, more='', **settings):
        kind = settings.pop('kind', 'weir')
        urls = f'[{", ".join(o.url() for o in origins)}]\nkind: {kind}'
        return self.server(repository=beside(urls, more, **settings))

    def test_one_call_at_a_time_stays_here(self):
        origin = self.origin()
        self.addCleanup(origin.stop)
        server = self.start(origin, delay_us=1000)
        self.load(server, clients=1, each=20)
        self.assertEqual(((20, 0), (0, 0)), (count(server), count(origin)))

    def test_more_calls_than_run_here_go_to_whoever_has_less(self):
        for kind in ('weir', 'oip-grpc', 'oip-rest'):
            with self.subTest(kind):
                origin = self.origin()
                self.addCleanup(origin.stop)
                server = self.start(origin, kind=kind)
                until(lambda: self.load(server, 4, 1) or count(origin)[0], 'that the origin is known')
                before = count(server)[0], count(origin)[0]
                self.load(server, 8, 12)
                there, all_of_them = count(origin)[0] - before[1], count(server)[0] - before[0]
                self.assertEqual(96, all_of_them)
                self.assertGreater(there, 24)
                self.assertLess(there, 72)

    def test_an_origin_that_is_killed_costs_no_call(self):
        origin = self.origin()
        server = self.start(origin)
        until(lambda: self.load(server, 4, 1) or count(origin)[0], 'that the origin is known')
        self.load(server, 8, 12, between=lambda n: n == 4 and origin.stop(signal.SIGKILL))
        self.assertEqual(0, count(server)[1])

    def test_the_model_is_served_without_its_origin_and_with_it_once_it_is_there(self):
        origin = self.origin()
        port = origin.port
        origin.stop()
        server = self.start(origin)
        self.load(server, 8, 2)
        root = folder()
        harness.write_identity_model(root, 'm', 1, SLOW)
        again = harness.Server(repository=root, listen=(f'127.0.0.1:{port}',))
        self.addCleanup(again.stop)
        until(lambda: self.load(server, 8, 1) or count(again)[0], 'that the origin gets calls')

    def test_another_model_of_that_name_gets_none(self):
        root = folder()
        (root / 'm').mkdir()
        (root / 'm/model.yaml').write_text('engine: identity\nmax_batch: 1\ninputs: [{name: x, type: FP32, shape: [2]}]\n'
                                           'outputs: [{name: x, type: FP32, shape: [2]}]\n')
        origin = harness.Server(repository=root)
        self.addCleanup(origin.stop)
        server = self.start(origin)
        self.assertTrue(server.logged('an origin gets no more calls', 'shape'))
        self.load(server, 8, 4)
        self.assertEqual((0, 0), count(origin))

    def test_servers_that_stand_beside_each_other_hand_on_once(self):
        one = harness.Server(repository=folder())
        port = one.port
        one.stop()
        two = self.server(repository=beside(f'[http://127.0.0.1:{port}]\nkind: weir', ', local_first: 0'))
        one = self.server(repository=beside(f'[{two.url()}]\nkind: weir', ', local_first: 0'), listen=(f'127.0.0.1:{port}',))
        until(lambda: self.load(one, 4, 1) or count(two)[0], 'that each knows the other')
        until(lambda: self.load(two, 4, 1) or count(one)[0] > count(two)[0] // 2, 'that each knows the other')
        before = count(one)[0], count(two)[0]
        self.load(one, 8, 12)
        # One that is handed on counts at both; in circles it would count more often.
        self.assertEqual(96, count(one)[0] - before[0])
        self.assertLess(count(two)[0] - before[1], 96)

    def test_what_cannot_be_is_refused(self):
        for text, why in (('engine: identity\nkind: weir\n', "need 'origins'"),
                          ('engine: identity\norigins: [http://a:1]\nkind: weir\norigin_parameters: {hedge: 1}\n', "no parameter 'hedge'"),
                          ('engine: identity\norigins: [http://a:1]\n', "'kind' is missing"),
                          ('engine: forward\norigins: [http://a:1]\nkind: weir\norigin_parameters: {model: x}\n', "'origin_parameters'"),
                          ('engine: forward\norigins: [http://a:1]\nkind: weir\nparameters: {local_first: 2}\n', 'run here, too')):
            root = folder()
            (root / 'm').mkdir()
            (root / 'm/model.yaml').write_text(text)
            server = self.server(repository=root)
            self.assertIn(why, curl(server.url('/v2/repository/index'), data='').json()[0]['reason'])


class Text(Case):
    def test_texts_are_the_same_wherever_they_run(self):
        root = model_folder()
        origin = harness.Server(repository=root)
        self.addCleanup(origin.stop)
        here = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        (here / MODEL).mkdir()
        shutil.copytree(root / MODEL / '1', here / MODEL / '1')
        config = (root / MODEL / 'model.yaml').read_text()
        (here / MODEL / 'model.yaml').write_text(
            f'{config}\norigins: [{origin.url()}]\nkind: weir\norigin_parameters: {{check_interval: 50ms, local_first: 1}}\n')
        server = self.server(repository=here)
        want = completion(origin).json()['choices']
        served = lambda: metric_sum(origin)  # noqa: E731
        before = served()
        answers = []

        def client(_):
            for _ in range(6):
                answers.append(completion(server).json()['choices'])

        until(lambda: many(client) and served() > before, 'that the origin gets texts')
        self.assertTrue(answers)
        self.assertTrue(all(one == want for one in answers))
        # OIP's tensors of text go the same way.
        body = {'text_input': 'Once', 'parameters': {'max_tokens': 8, 'temperature': 0}}
        there, local = (curl(s.url(f'/v2/models/{MODEL}/generate'), *JSON, data=json.dumps(body)).json() for s in (origin, server))
        self.assertEqual(there['text_output'], local['text_output'])


def many(client):
    with harness.threads(6, client):
        pass
    return True


def metric_sum(server):
    text = curl(server.url('/metrics')).body.decode()
    return sum(float(line.rsplit(' ', 1)[1]) for line in text.splitlines() if line.startswith('weir_model_generated_tokens_total{'))


class Cluster(Case):
    def test_nodes_that_have_the_same_model_share_its_work(self):
        nats = Nats()
        self.addCleanup(nats.kill)
        servers = [node(nats, beside('cluster', ', local_first: 1')) for _ in range(2)]
        for server in servers:
            self.addCleanup(server.stop)
        until(lambda: all(nodes(server) == 2 for server in servers), 'two nodes')
        until(lambda: self.load(servers[0], 8, 2) or count(servers[1])[0], 'that the other node gets calls')
        other = count(servers[1])[0]
        self.load(servers[0], 8, 12)
        self.assertGreater(count(servers[1])[0] - other, 20)
        self.assertEqual(0, count(servers[0])[1] + count(servers[1])[1])
        servers[1].stop(signal.SIGKILL)
        self.load(servers[0], 8, 4)


if __name__ == '__main__':
    harness.main()
