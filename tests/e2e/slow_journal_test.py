"""Work that outlives its request, where the journal's disk stands, and where NATS takes connections and never answers: clients
are told so in time, and others do not notice."""

import json
import threading
import time
import unittest

import harness
from batches_test import request, upload
from cluster_nodes import SilentNats, folder

PATIENCE = 10  # seconds, as jobs/question.h has it
JSON = {'Content-Type': 'application/json'}
INFER = json.dumps({'inputs': [{'name': 'x', 'datatype': 'INT32', 'shape': [1], 'data': [1]}]})
FORM = (b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--x\r\nContent-Disposition: form-data; name="file"; '
        b'filename="f"\r\n\r\nlate\r\n--x--\r\n')
ASKED = {  # what the journal is asked for, by who waits
    'upload': ('POST', '/v1/files', FORM, {'Content-Type': 'multipart/form-data; boundary=x'}),
    'batch': ('POST', '/v1/batches', json.dumps({'input_file_id': 'f', 'endpoint': '/v1/completions', 'completion_window': '24h'}), JSON),
    'job': ('POST', '/v2/models/identity/infer', INFER, {**JSON, 'Prefer': 'respond-async'}),
}
BACKGROUND = ('POST', '/v1/responses', json.dumps({'model': 'chat', 'input': 'hi', 'background': True}), JSON)
READ = {
    'files': ('GET', '/v1/files'), 'batches': ('GET', '/v1/batches'), 'response': ('GET', '/v1/responses/resp_none'), 'a job': ('GET', '/v2/jobs/job_none'),
}


class Case(unittest.TestCase):
    def together(self, server, asked):
        """The status and the answer of each, in their order, and after how many seconds it came."""
        out = {}

        def one(name, what):
            begun = time.monotonic()
            status, headers, raw = request(server, *what)
            out[name] = (status, headers, raw.decode(), time.monotonic() - begun)
        threads = [threading.Thread(target=one, args=item) for item in asked.items()]
        for thread in threads:
            thread.start()
            time.sleep(0.1)  # the first is at the journal when the next one asks
        for thread in threads:
            thread.join(harness.PATIENCE)
        self.assertEqual(set(asked), set(out), 'somebody waits still')
        return out

    def refused(self, out, words):
        for name, (status, headers, text, seconds) in out.items():
            self.assertEqual(503, status, (name, text))
            self.assertIn(words, text, name)
            self.assertIn('retry-after', headers, name)
            self.assertLess(seconds, PATIENCE + 5, name)

    def in_background(self, server, most):
        begun = time.monotonic()
        status, _, raw = request(server, *BACKGROUND)
        self.assertEqual(200, status, raw)
        self.assertLess(time.monotonic() - begun, most)
        return json.loads(raw)['id']

    def completed(self, server, response):
        end = time.monotonic() + harness.PATIENCE
        while (got := json.loads(request(server, 'GET', f'/v1/responses/{response}')[2]))['status'] != 'completed':
            self.assertLess(time.monotonic(), end, got)
            time.sleep(0.05)

    def unharmed(self, server, over):
        """Others are answered at once, until that is set."""
        while not over.wait(0.2):
            begun = time.monotonic()
            self.assertEqual(200, request(server, 'POST', '/v2/models/identity/infer', INFER, JSON)[0])
            self.assertLess(time.monotonic() - begun, 2)

    def beside_others(self, server, asked):
        over = threading.Event()
        wrong = []

        def others():
            try:
                self.unharmed(server, over)
            except AssertionError as error:
                wrong.append(error)
        thread = threading.Thread(target=others)
        thread.start()
        try:
            return self.together(server, asked)
        finally:
            over.set()
            thread.join()
            self.assertEqual([], wrong)


class Disk(Case):
    def test_one_that_stands_holds_nobody(self):
        stands = folder() / 'stands'
        env = {'LD_PRELOAD': str(harness.BUILD / 'tests/e2e/slow_disk.so'), 'SLOW_DISK': str(stands), 'ASAN_OPTIONS': 'verify_asan_link_order=0'}
        server = harness.Server('--jobs-path', folder(), env=env)
        self.addCleanup(server.kill)
        file = upload(server, b'before')[1]
        self.completed(server, self.in_background(server, 2))
        stands.touch()
        try:
            self.refused(self.beside_others(server, {**ASKED, **READ}), 'jobs.path')
            made = self.in_background(server, PATIENCE + 5)  # it is over by then, so that its client has it
            self.completed(server, made)
            self.assertIn(len(server.logged('the journal is late', 'jobs.path')), (1, 2), 'one in ten seconds')
        finally:
            stands.unlink()
        self.completed(server, self.in_background(server, 5))
        self.assertEqual(200, upload(server, b'after')[0])
        listed = json.loads(request(server, 'GET', '/v1/files')[2])['data']
        self.assertEqual({6, 5}, {one['bytes'] for one in listed}, 'who was told that it failed has left nothing')
        self.assertEqual(200, request(server, 'DELETE', f'/v1/files/{file["id"]}')[0])
        self.assertEqual(0, server.stop(), server.output()[-2000:])

    def test_one_that_stands_does_not_keep_the_process(self):
        stands = folder() / 'stands'
        env = {'LD_PRELOAD': str(harness.BUILD / 'tests/e2e/slow_disk.so'), 'SLOW_DISK': str(stands), 'ASAN_OPTIONS': 'verify_asan_link_order=0'}
        server = harness.Server('--jobs-path', folder(), '--drain-timeout', '2s', env=env)
        self.addCleanup(server.kill)
        stands.touch()
        self.refused(self.together(server, {'job': ASKED['job']}), 'jobs.path')
        begun = time.monotonic()
        self.assertEqual(1, server.stop(), server.output()[-2000:])
        self.assertLess(time.monotonic() - begun, 2 + 11)
        self.assertEqual(1, len(server.logged("the journal's disk", 'lost=')), server.output()[-2000:])


class Nats(Case):
    def test_one_that_never_answers_holds_nobody(self):
        server = harness.Server('--cluster-nats', SilentNats().url, '--jobs-path', folder(), '--shards', '1')
        self.addCleanup(server.kill)
        self.refused(self.beside_others(server, {**{name: ASKED[name] for name in ('upload', 'job')}, 'background': BACKGROUND}), 'NATS')
        read = self.beside_others(server, {name: READ[name] for name in ('files', 'batches', 'a job')})
        self.assertEqual([200, 200, 404], [read[name][0] for name in ('files', 'batches', 'a job')], read)
        self.assertLess(max(one[3] for one in read.values()), PATIENCE + 5)
        self.assertEqual(0, server.stop(), server.output()[-2000:])


if __name__ == '__main__':
    harness.main(at_once=3)
