"""Stored responses in a cluster, with a real nats-server: every node finds them, they outlive their node, they are their
tenant's alone, and what is deleted is deleted everywhere."""

import json
import re
import shutil
import signal
import subprocess
import unittest

import cluster_nodes
import harness
from cluster_nodes import JSON, Nats, Wire, folder, metric, node, nodes, until
from harness import curl


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = folder()
        shutil.copytree(harness.MODELS / 'chat', cls.models / 'chat')

    def setUp(self):
        self.nats, self.killed = Nats(), []
        self.addCleanup(self.nats.kill)

    def node(self, name, *flags, nats=None):
        server = node(nats or self.nats, self.models, *flags, name=name)
        self.addCleanup(lambda: self.assertIn(server.stop(), (0, -signal.SIGKILL if server in self.killed else 0),
                                              server.output()[-3000:]))
        return server

    def cluster(self, *flags, names=('one', 'two', 'three')):
        servers = [self.node(name, *flags) for name in names]
        for server in servers:
            until(lambda: nodes(server) == len(names) and metric(server, 'weir_cluster_connected') == 1, 'all nodes')
        return servers

    def kill(self, server):
        self.killed.append(server)
        server.process.kill()
        server.process.wait()

    def say(self, server, text, *headers, **more):
        body = {'model': 'chat', 'input': text, 'max_output_tokens': 12, 'temperature': 0, **more}
        return curl(server.url('/v1/responses'), *JSON, *headers, data=json.dumps(body))

    def show(self, server, response, *headers):
        return curl(server.url(f'/v1/responses/{response}'), *headers)

    def delete(self, server, response, *headers):
        return curl(server.url(f'/v1/responses/{response}'), '-X', 'DELETE', *headers)


class EveryNode(Case):
    def test_a_response_is_found_gone_on_behind_and_kept_when_its_node_is_killed(self):
        one, two, three = self.cluster()
        first = self.say(one, 'What is a lighthouse?').json()
        alone = self.say(one, 'And at night?', previous_response_id=first['id']).json()
        self.assertEqual(first, self.show(two, first['id']).json())
        second = self.say(two, 'And at night?', previous_response_id=first['id']).json()
        self.assertEqual([item['content'] for item in alone['output']], [item['content'] for item in second['output']])
        self.assertEqual(alone['usage']['input_tokens'], second['usage']['input_tokens'])
        self.kill(one)
        self.assertEqual(first, self.show(three, first['id']).json())
        third = self.say(three, 'By day?', previous_response_id=second['id']).json()
        self.assertGreater(third['usage']['input_tokens'], second['usage']['input_tokens'])
        # A stream ends when the others would find it.
        stream = self.say(two, 'Again', stream=True, previous_response_id=third['id']).body.decode()
        self.assertIn('response.completed', stream)
        self.assertEqual(200, self.show(three, re.search(r'"id":"(resp_\w+)"', stream)[1]).status)
        self.assertEqual(404, self.show(three, self.say(two, 'x', store=False).json()['id']).status)

    def test_what_is_deleted_is_gone_at_every_node(self):
        one, two, three = self.cluster()
        response = self.say(one, 'What is a lighthouse?').json()['id']
        self.assertEqual({'id': response, 'object': 'response', 'deleted': True}, self.delete(two, response).json())
        for server in (one, two, three):
            self.assertEqual(404, self.show(server, response).status)
            self.assertEqual(404, self.delete(server, response).status)
            error = self.say(server, 'x', previous_response_id=response)
            self.assertEqual((400, 'previous_response_not_found'), (error.status, error.json()['error']['code']))

    def test_what_has_to_go_for_want_of_room_goes_everywhere(self):
        one, two = self.cluster('--openai-response-memory', '1MiB', names=('one', 'two'))
        long = 'sea ' * 20
        first = self.say(one, long).json()['id']
        size = 512 + 2 * len(self.show(two, first).body)
        self.assertEqual(200, self.show(two, first).status)
        said = 0
        while self.show(one, first).status == 200:
            said += 1
            self.assertLess(said, 2 * (1 << 18) // 512, f'{size} bytes each')
            self.say(one, long, metadata={f'k{i}': 'x' * 512 for i in range(16)})
        until(lambda: self.show(two, first).status == 404, 'that the others have not kept it')


class Away(Case):
    def test_a_node_without_nats_goes_on_with_its_own_and_the_others_find_it_later(self):
        wire = Wire(self.nats.port)
        self.addCleanup(wire.close)
        one, two = self.node('one', nats=wire), self.node('two')
        for server in (one, two):
            until(lambda: nodes(server) == 2 and metric(server, 'weir_cluster_connected') == 1, 'two nodes')
        other = self.say(two, 'What is a lighthouse?').json()['id']
        wire.cut()
        until(lambda: metric(one, 'weir_cluster_connected') == 0, 'that it is missed')
        own = self.say(one, 'What is a lighthouse?').json()['id']
        self.assertEqual(200, self.say(one, 'x', previous_response_id=own).status)
        self.assertEqual(200, self.show(one, own).status)
        for answer in (self.show(one, other), self.delete(one, other), self.delete(one, own), self.say(one, 'x', previous_response_id=other)):
            self.assertEqual(503, answer.status)
            self.assertIn('NATS is away', answer.json()['error']['message'])
        until(lambda: metric(one, 'weir_cluster_unkept_responses') == 2, 'that they are counted')
        self.assertEqual(404, self.show(two, own).status)
        wire.mend()
        until(lambda: self.show(two, own).status == 200, 'that it is kept')
        until(lambda: metric(one, 'weir_cluster_unkept_responses') == 0, 'that all are')
        self.assertEqual(200, self.show(one, other).status)
        self.assertEqual(200, self.delete(one, own).status)


class Tenants(Case):
    def test_another_tenants_response_is_one_that_is_not_there(self):
        secret, keys, header = folder() / 'secret', folder() / 'keys.yaml', {}
        secret.write_text('a secret that all nodes share\n')
        for name in ('ann', 'bob'):
            made = subprocess.run([str(harness.WEIR), 'key', 'new', name, '--roles', 'infer', '--keys-file', str(keys)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(0, made.returncode, made.stderr)
            found = [word for word in (made.stdout + made.stderr).decode().split() if len(word) > 20]
            header[name] = ('-H', f'authorization: Bearer {found[0]}')
        one, two = self.cluster('--cluster-secret', secret, '--auth-keys-file', keys, '--auth-anonymous', 'health', '--auth-anonymous', 'metrics', names=('one', 'two'))
        response = self.say(one, 'What is a lighthouse?', *header['ann']).json()['id']
        self.assertEqual(200, self.show(two, response, *header['ann']).status)
        unknown = 'resp_' + '0' * 24
        for server in (one, two):
            for answer, other in ((self.show(server, response, *header['bob']), self.show(server, unknown, *header['bob'])),
                                  (self.delete(server, response, *header['bob']), self.delete(server, unknown, *header['bob']))):
                self.assertEqual((404, other.body), (answer.status, answer.body))
            refused = self.say(server, 'x', *header['bob'], previous_response_id=response)
            self.assertEqual((400, 'previous_response_not_found'), (refused.status, refused.json()['error']['code']))
            self.assertEqual(401, self.show(server, response).status)
        self.assertEqual(200, self.show(two, response, *header['ann']).status)


if __name__ == '__main__':
    if not cluster_nodes.Nats.program or subprocess.run([cluster_nodes.Nats.program, '-v'], stdout=subprocess.DEVNULL).returncode:
        raise SystemExit('nats-server is not installed')
    harness.main(at_once=3)
