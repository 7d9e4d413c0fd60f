"""A model whose load takes long, and what goes on beside it: other loads, unloads, requests, a model that has broken."""

import json
import shutil
import sys
import threading
import time

import harness
from harness import curl

MODEL = '''
import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        # As one that downloads its weights does: it is up when they are there.
        folder = os.path.join(args['model_repository'], '1')
        while os.path.exists(folder + '/hold'):
            time.sleep(0.02)
        # Or it is up once the others have begun.
        open(folder + '/begun', 'w').close()
        peers = open(folder + '/peers').read().split() if os.path.exists(folder + '/peers') else []
        while not all(os.path.exists(f"{args['model_repository']}/../{peer}/1/begun") for peer in peers):
            time.sleep(0.02)

    def execute(self, requests):
        if int(requests[0].inputs()[0].as_numpy()[0]) == 7:
            os._exit(1)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('Y', r.inputs()[0].as_numpy())]) for r in requests]
'''
CONFIG = '''name: "%s" backend: "python"
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
'''
IDENTITY = {'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [1, 1], 'data': [3]}]}


def repository(name, models):
    folder = harness.scratch() / name
    for model in models:
        (folder / model / '1').mkdir(parents=True)
        (folder / model / '1/model.py').write_text(MODEL)
        (folder / model / 'config.pbtxt').write_text(CONFIG % model)
    harness.write_identity_model(folder, 'quick', 1, 0)
    return folder


def hold(folder, model):
    (folder / model / '1/hold').touch()


def release(folder, model):
    (folder / model / '1/hold').unlink(missing_ok=True)


def until(true):
    end = time.monotonic() + harness.PATIENCE
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


class LoadThatHangs(harness.Case):
    repository = repository('parallel-loads', ['slow', 'frail'])

    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(repository=cls.repository, env={
            'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable,  # it has numpy
            'WEIR_MODELS_CONTROL': 'explicit', 'WEIR_MODELS_STARTUP': 'frail', 'WEIR_MODELS_LOAD_THREADS': '2',
            'WEIR_MODELS_READINESS': 'any'})

    def request(self, verb, name):
        return curl(self.server.url(f'/v2/repository/models/{name}/{verb}'), '-X', 'POST').status

    def told(self, number):
        return curl(self.server.url('/v2/models/frail/infer'), data=json.dumps({'inputs': [
            {'name': 'X', 'datatype': 'INT32', 'shape': [1], 'data': [number]}]})).status

    def ready(self, name):
        return curl(self.server.url(f'/v2/models/{name}/ready')).status == 200

    def states(self):
        index = curl(self.server.url('/v2/repository/index'), '-X', 'POST').json()
        return {row['name']: row.get('state') for row in index}

    def test_all_else_goes_on(self):
        hold(self.repository, 'slow')
        answers = []
        loading = threading.Thread(target=lambda: answers.append(self.request('load', 'slow')))
        loading.start()
        try:
            self.assertTrue(until(lambda: self.states()['slow'] == 'LOADING'))
            for _ in range(3):
                self.assertEqual(200, self.request('load', 'quick'))
                self.assertEqual(200, curl(self.server.url('/v2/models/quick/infer'), data=json.dumps(IDENTITY)).status)
                self.assertEqual(200, self.request('unload', 'quick'))
                self.assertFalse(self.ready('quick'))
            self.assertEqual(200, self.told(1))
            self.assertEqual(503, self.told(7))  # its process is gone
            self.assertTrue(until(lambda: self.ready('frail') and self.told(2) == 200), self.states())
            self.assertEqual(([], 'LOADING'), (answers, self.states()['slow']))
        finally:
            release(self.repository, 'slow')
            loading.join()
        self.assertEqual([200], answers)
        self.assertTrue(self.ready('slow'))
        self.assertEqual(200, self.request('unload', 'slow'))

    def test_what_is_asked_of_it_comes_afterwards(self):
        hold(self.repository, 'slow')
        answers = []
        threads = []
        try:
            for i, verb in enumerate(('load', 'unload')):
                threads.append(threading.Thread(target=lambda verb=verb: answers.append((verb, self.request(verb, 'slow')))))
                threads[-1].start()
                if i == 0:
                    self.assertTrue(until(lambda: self.states()['slow'] == 'LOADING'))
            time.sleep(0.2)
            self.assertEqual([], answers)
        finally:
            release(self.repository, 'slow')
            for thread in threads:
                thread.join()
        self.assertEqual([('load', 200), ('unload', 200)], sorted(answers))
        self.assertFalse(self.ready('slow'))


class Start(harness.Case):
    """Of models each of which is up only when all of them have begun."""

    repository = repository('parallel-start', ['a', 'b', 'c'])

    @classmethod
    def setUpClass(cls):
        for model in 'abc':
            (cls.repository / model / '1/peers').write_text('a b c')
        cls.server = harness.Server(repository=cls.repository, env={
            'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable, 'WEIR_MODELS_LOAD_THREADS': '3'})

    def test_they_are_loaded_beside_each_other(self):
        for model in ('a', 'b', 'c', 'quick'):
            self.assertEqual(200, curl(self.server.url(f'/v2/models/{model}/ready')).status)


class Stop(harness.unittest.TestCase):
    def test_the_end_does_not_wait_for_loads(self):
        folder = repository('parallel-stop', ['slow', 'slower'])
        server = harness.Server(repository=folder, env={
            'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable, 'WEIR_MODELS_CONTROL': 'explicit',
            'WEIR_MODELS_STARTUP': 'quick', 'WEIR_MODELS_LOAD_THREADS': '2'})
        hold(folder, 'slow'), hold(folder, 'slower')
        loads = [threading.Thread(target=curl, args=(
            server.url(f'/v2/repository/models/{name}/load'), '-X', 'POST', '--max-time', '5')) for name in ('slow', 'slower')]
        for load in loads:
            load.start()
        time.sleep(0.5)
        before = time.monotonic()
        self.assertEqual(0, server.stop())
        self.assertLess(time.monotonic() - before, 10)
        for load in loads:
            load.join()
        shutil.rmtree(folder)


if __name__ == '__main__':
    harness.main()
