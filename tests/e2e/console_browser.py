"""Headless Chromium for the tests of the console, and a server that has something to do."""

import contextlib
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import threading
import unittest

import harness

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
NODE_MODULES = harness.ROOT / '.cache/npm/node_modules'
DRIVER = (NODE_MODULES / 'puppeteer-core').exists() and (NODE_MODULES / 'axe-core').exists()
BUILT = not (harness.BUILD / 'web/console/work/missing').exists()


@contextlib.contextmanager
def load(server):
    """Requests of several protocols, one after another, until the block ends; some of them fail."""
    images, _ = harness.heldout()
    over = threading.Event()

    def post(path, body):
        connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=harness.PATIENCE)
        connection.request('POST', path, json.dumps(body), {'content-type': 'application/json'})
        connection.getresponse().read()
        connection.close()

    def tensors():
        while not over.wait(0.05):
            rows = random.randint(1, 8)
            post('/v1/models/digits:predict', {'instances': [random.choice(images) for _ in range(rows)]})
            post('/v2/models/digits/infer', {'inputs': [{'name': 'image', 'datatype': 'FP32', 'shape': [1, 64], 'data': random.choice(images)}]})

    def text():
        while not over.wait(0.3):
            post('/v1/chat/completions', {'model': 'chat', 'messages': [{'role': 'user', 'content': 'What is curl?'}], 'max_tokens': 12})
            post('/v1/completions', {'model': 'none', 'prompt': 'x'})

    threads = [threading.Thread(target=each, daemon=True) for each in (tensors, text)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@unittest.skipUnless(BUILT, 'this build has no console: npm was missing')
@unittest.skipUnless(CHROMIUM, 'Chromium is not installed')
@unittest.skipUnless(DRIVER, 'puppeteer-core and axe-core are not installed')
class Case(unittest.TestCase):
    client = None  # a program of this folder

    def drive(self, server, *words):
        done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e' / self.client), server.url(), *map(str, words)], timeout=560,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, 'NODE_PATH': str(NODE_MODULES), 'CHROMIUM': CHROMIUM})
        out = done.stdout.decode()
        counts = re.search(r'^([1-9]\d*) passed, 0 failed$', out, re.M)
        self.assertTrue(counts and done.returncode == 0, out)
