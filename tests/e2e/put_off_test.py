"""SIGTERM while a response is made in the background: the next process makes it, or another node, which knew of it before; its client
never finds it gone."""

import hashlib
import json
import re
import signal
import threading
import time
import unittest

import cluster_nodes
import harness
from batches_test import folder, request
from cluster_nodes import JSON, Nats, metric, node, nodes, until
from tiny_model import CONFIG, TOKENIZER, varied, write

LONG, SHORT = 200_000, 20_000  # tokens


def repository():
    root = harness.scratch() / 'put_off'
    if not root.exists():
        files = {'config.json': {**CONFIG, 'eos_token_id': None, 'max_position_embeddings': 2 * LONG}, 'model.safetensors': varied(),
                 'tokenizer.json': TOKENIZER}
        write(root, 'slow', files, 'kv_cache: 256MiB, threads: 1')
    return root


class Case(unittest.TestCase):
    def start(self, *flags):
        server = harness.Server('--drain-delay', '0ms', *flags, repository=repository())
        self.addCleanup(lambda: server.process.poll() is None and server.stop(signal.SIGKILL))
        return server

    def ask(self, server, tokens):
        body = {'model': 'slow', 'input': 'hi', 'background': True, 'max_output_tokens': tokens, 'temperature': 0}
        status, _, raw = request(server, 'POST', '/v1/responses', json.dumps(body), {'Content-Type': 'application/json'})
        self.assertEqual(200, status, raw)
        return json.loads(raw)['id']

    def get(self, server, response, method='GET', action=''):
        status, _, raw = request(server, method, f'/v1/responses/{response}{action}')
        return status, json.loads(raw)

    def until(self, server, response, *words):
        end = time.monotonic() + 4 * harness.PATIENCE
        while True:
            status, now = self.get(server, response)
            self.assertEqual(200, status, now)
            if now['status'] in words:
                return now
            self.assertIn(now['status'], ('queued', 'in_progress'), now)
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def follow(self, server, response):
        """The names of its stream's events behind the first two, up to its end."""
        status, _, raw = request(server, 'GET', f'/v1/responses/{response}?stream=true&starting_after=1')
        self.assertEqual(200, status, raw)
        return re.findall(r'(?m)^event: (.*)$', raw.decode())

    def kill(self, server):
        server.process.kill()
        server.process.wait()

    def running(self, server):
        found = re.search(r'(?m)^weir_model_sequences{.*state="running".*} (\S+)$', request(server, 'GET', '/metrics')[2].decode())
        return float(found[1]) if found else 0


class NextProcess(Case):
    def test_the_next_process_makes_it(self):
        flags = ('--jobs-path', folder('put_off_jobs'))
        first = self.start(*flags)
        made, cancelled, deleted = self.ask(first, SHORT), self.ask(first, LONG), self.ask(first, LONG)
        end = time.monotonic() + harness.PATIENCE
        while self.running(first) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(0, first.stop(), first.output()[-2000:])
        second = self.start(*flags)
        self.assertEqual((200, 'cancelled'), (lambda got: (got[0], got[1]['status']))(self.get(second, cancelled, 'POST', '/cancel')))
        self.assertEqual(200, self.get(second, deleted, 'DELETE')[0])
        over = self.until(second, made, 'completed', 'incomplete')
        self.assertEqual((made, SHORT), (over['id'], over['usage']['output_tokens']))
        self.assertEqual(404, self.get(second, deleted)[0])
        self.assertEqual('cancelled', self.get(second, cancelled)[1]['status'])
        end = time.monotonic() + harness.PATIENCE
        while self.running(second) > 0:
            self.assertLess(time.monotonic(), end, 'what was cancelled and deleted is ended')
            time.sleep(0.05)
        self.assertEqual(0, second.stop())
        third = self.start(*flags)
        self.assertEqual(over, self.get(third, made)[1])
        self.assertEqual(0, third.stop())


    def test_the_next_process_makes_what_one_that_was_killed_had_begun(self):
        flags = ('--jobs-path', folder('killed_jobs'))
        first = self.start(*flags)
        made, cancelled, deleted = self.ask(first, SHORT), self.ask(first, LONG), self.ask(first, LONG)
        end = time.monotonic() + harness.PATIENCE
        while self.running(first) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        over = self.ask(first, 1)
        self.assertEqual('incomplete', self.until(first, over, 'completed', 'incomplete')['status'])
        request(first, 'DELETE', '/v1/responses/resp_none')  # the journal has all of that now
        self.kill(first)
        second = self.start(*flags)
        self.assertEqual('cancelled', self.get(second, cancelled, 'POST', '/cancel')[1]['status'])
        self.assertEqual(200, self.get(second, deleted, 'DELETE')[0])
        self.assertEqual(['response.output_text.done', 'response.incomplete'], [name for name in self.follow(second, made) if name.endswith(('text.done', 'complete'))])
        got = self.until(second, made, 'completed', 'incomplete')
        self.assertEqual((made, SHORT), (got['id'], got['usage']['output_tokens']))
        self.assertEqual(404, self.get(second, over)[0], 'it was over: nobody makes it again')
        self.assertEqual(404, self.get(second, deleted)[0])
        self.assertEqual('cancelled', self.get(second, cancelled)[1]['status'])
        end = time.monotonic() + harness.PATIENCE
        while self.running(second) > 0:
            self.assertLess(time.monotonic(), end, 'what was cancelled and deleted is ended')
            time.sleep(0.05)
        self.assertEqual(0, second.stop())
        third = self.start(*flags)
        self.assertEqual(got, self.get(third, made)[1])
        self.assertEqual('response.incomplete', self.follow(third, made)[-1])
        self.assertEqual(0, third.stop())


class Rates(Case):
    def test_it_is_one_request_of_its_client(self):
        keys = harness.scratch() / 'rates.yaml'
        digest = hashlib.sha256(b'anns-key').hexdigest()
        keys.write_text(f'keys:\n  - {{name: ann, hash: "sha256:{digest}", limits: {{requests_per_second: 0.001}}}}\n')
        keys.chmod(0o600)
        server = self.start('--auth-keys-file', keys)
        body = {'model': 'slow', 'input': 'hi', 'background': True, 'max_output_tokens': 8, 'stream': True}
        answer = harness.curl(server.url('/v1/responses'), *JSON, '-H', 'authorization: Bearer anns-key', data=json.dumps(body))
        self.assertIn(b'event: response.incomplete', answer.body)
        self.assertEqual(0, server.stop())


class OtherNodes(Case):
    def setUp(self):
        self.nats = Nats()
        self.addCleanup(self.nats.kill)

    def node(self, name):
        server = node(self.nats, repository(), '--jobs-path', cluster_nodes.folder(), '--drain-delay', '0ms', name=name)
        self.addCleanup(lambda: server.process.poll() is None and server.stop(signal.SIGKILL))
        return server

    def both(self):
        one, two = self.node('one'), self.node('two')
        for server in (one, two):
            until(lambda: nodes(server) == 2 and metric(server, 'weir_cluster_connected') == 1, 'both nodes')
            until(lambda: metric(server, 'weir_jobs_log_sequence') > 0, 'the beginning of the journal')
        return one, two

    def test_one_that_is_begun_before_the_journal_is_there_outlives_its_node(self):
        """Its client waits for the id until the journal has it: so the cluster may be as young as it likes."""
        one, two = self.node('one'), self.node('two')
        self.assertEqual(0, metric(one, 'weir_jobs_log_sequence'), 'it has not begun')
        made = self.ask(one, LONG)
        self.kill(one)
        until(lambda: self.get(two, made)[0] == 200 and self.running(two) == 1, 'that the other node makes it')
        self.assertEqual('cancelled', self.get(two, made, 'POST', '/cancel')[1]['status'])
        until(lambda: self.running(two) == 0, 'the end of what was cancelled')
        self.assertEqual(0, two.stop(), two.output()[-2000:])

    def test_another_node_makes_what_one_that_was_killed_had_begun(self):
        one, two = self.both()
        made, cancelled, deleted, late = (self.ask(one, tokens) for tokens in (SHORT, LONG, LONG, LONG))
        for response in (made, cancelled, deleted, late):
            until(lambda: self.get(two, response)[0] == 200, 'the other node to know of it')
        events = []
        follower = threading.Thread(target=lambda: events.extend(self.follow(two, made)))
        follower.start()
        self.kill(one)
        self.assertEqual('cancelled', self.get(two, cancelled, 'POST', '/cancel')[1]['status'])
        self.assertEqual(200, self.get(two, deleted, 'DELETE')[0])
        over = self.until(two, made, 'completed', 'incomplete')
        self.assertEqual((made, SHORT), (over['id'], over['usage']['output_tokens']))
        follower.join(harness.PATIENCE)
        self.assertEqual('response.incomplete', events[-1])
        self.assertEqual(200, self.get(two, late, 'DELETE')[0])
        self.assertEqual('cancelled', self.get(two, cancelled)[1]['status'])
        until(lambda: self.running(two) == 0, 'the end of what was cancelled and deleted')
        for response in (deleted, late):
            self.assertEqual(404, self.get(two, response)[0])
        # The node comes back, and knows what has become of them.
        one = self.node('one')
        until(lambda: self.get(one, made) == (200, over), 'that it finds the response')
        until(lambda: self.get(one, cancelled)[1].get('status') == 'cancelled', 'that it knows what was cancelled')
        self.assertEqual(0, one.stop(), one.output()[-2000:])
        self.assertEqual(0, two.stop(), two.output()[-2000:])

    def test_another_node_knows_of_it_and_makes_it_on(self):
        one, two = self.both()
        made, cancelled, deleted = self.ask(one, 2 * SHORT), self.ask(one, LONG), self.ask(one, LONG)
        for response in (made, cancelled, deleted):
            until(lambda: self.get(two, response)[0] == 200, 'the other node to know of it')
            self.assertEqual('in_progress', self.get(two, response)[1]['status'])
        self.assertEqual('cancelled', self.get(two, cancelled, 'POST', '/cancel')[1]['status'])
        self.assertEqual(200, self.get(two, deleted, 'DELETE')[0])
        until(lambda: self.get(one, cancelled)[1].get('status') == 'cancelled' and self.get(one, deleted)[0] == 404, 'the first node to hear of it')
        until(lambda: self.running(one) == 1, 'the end of both')
        one.process.send_signal(signal.SIGTERM)
        over = self.until(two, made, 'completed', 'incomplete')
        self.assertEqual((made, 2 * SHORT), (over['id'], over['usage']['output_tokens']))
        self.assertEqual(0, one.process.wait(harness.PATIENCE), one.output()[-2000:])
        self.assertEqual('cancelled', self.get(two, cancelled)[1]['status'])
        self.assertEqual(404, self.get(two, deleted)[0])
        self.assertEqual(0, two.stop(), two.output()[-2000:])


if __name__ == '__main__':
    harness.main()
