"""Files, batches and jobs of several nodes and a real nats-server: the same at each of them, whoever is killed."""

import json
import os
import signal
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


if __name__ == '__main__':
    harness.main()
