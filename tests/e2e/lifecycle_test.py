"""Models come and go while clients call them: load, unload and reload over REST and gRPC, torn files, uploads, the CLI."""

import base64
import contextlib
import http.client
import json
import os
import random
import shutil
import subprocess
import threading
import time
import unittest

import harness

import grpc

oip, oip_grpc = harness.stubs()('inference')

ADD = {'inputs': [{'name': n, 'shape': [1, 16], 'datatype': 'INT32', 'data': list(range(16))} for n in ('INPUT0', 'INPUT1')]}
SUM = [2 * n for n in range(16)]
ONE = '{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]}'


def repository(name, *models):
    root = harness.scratch() / name
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for model in models:
        shutil.copytree(harness.MODELS / model, root / model)
    return root


def weir(*args):
    done = subprocess.run([str(harness.WEIR), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=harness.PATIENCE * 3)
    return done.returncode, done.stdout.decode(errors='replace'), done.stderr.decode(errors='replace')


def add_request(model='simple'):
    request = oip.ModelInferRequest(model_name=model)
    for name in ('INPUT0', 'INPUT1'):
        tensor = request.inputs.add(name=name, datatype='INT32', shape=[1, 16])
        tensor.contents.int_contents.extend(range(16))
    return request


class Loads(unittest.TestCase):
    models = ('simple', 'identity')
    flags = ('--control', 'explicit')

    def setUp(self):
        self.root = repository(self.id().rsplit('.', 1)[1], *self.models)
        self.server = harness.Server(*self.flags, repository=self.root)
        self.channel = grpc.insecure_channel(self.server.address)
        self.stub = oip_grpc.GRPCInferenceServiceStub(self.channel)

    def tearDown(self):
        self.channel.close()
        self.assertEqual(0, self.server.stop(), self.server.output()[-3000:])

    def post(self, path, data='', *args):
        return harness.curl(self.server.url(path), '-X', 'POST', *args, data=data)

    def load(self, model, parameters=None):
        return self.post(f'/v2/repository/models/{model}/load', json.dumps({'parameters': parameters}) if parameters else '')

    def unload(self, model):
        return self.post(f'/v2/repository/models/{model}/unload')

    def infer(self, model='simple', data=None):
        return self.post(f'/v2/models/{model}/infer', json.dumps(data or ADD))

    def index(self):
        return {row['name']: row for row in self.post('/v2/repository/index').json()}

    def refused(self, code, call, request):
        with self.assertRaises(grpc.RpcError) as caught:
            call(request, timeout=harness.PATIENCE)
        self.assertEqual(code, caught.exception.code(), caught.exception.details())
        return caught.exception.details()


class Explicit(Loads):
    def test_nothing_is_served_until_it_is_asked_for(self):
        self.assertEqual('UNAVAILABLE', self.index()['simple']['state'])
        self.assertEqual('not loaded', self.index()['simple']['reason'])
        self.assertEqual(503, self.infer().status)
        self.assertEqual(400, harness.curl(self.server.url('/v2/models/simple/ready')).status)
        self.assertFalse(self.stub.ModelReady(oip.ModelReadyRequest(name='simple')).ready)
        self.refused(grpc.StatusCode.UNAVAILABLE, self.stub.ModelInfer, add_request())

    def test_rest_and_grpc_see_the_same_models(self):
        self.assertEqual(200, self.load('simple').status)
        self.assertEqual([1, 16], list(self.stub.ModelInfer(add_request()).outputs[0].shape))
        self.stub.RepositoryModelUnload(oip.RepositoryModelUnloadRequest(model_name='simple'))
        self.assertEqual(503, self.infer().status)
        self.assertIn(self.index()['simple']['state'], ('UNAVAILABLE', 'UNLOADING'))
        self.stub.RepositoryModelLoad(oip.RepositoryModelLoadRequest(model_name='simple'))
        self.assertEqual(SUM, self.infer().json()['outputs'][0]['data'])
        ready = self.stub.RepositoryIndex(oip.RepositoryIndexRequest(ready=True)).models
        self.assertEqual([('simple', '1', 'READY')], [(m.name, m.version, m.state) for m in ready])

    def test_what_is_not_there_is_named(self):
        self.assertEqual(404, self.load('simpel').status)
        self.assertIn("did you mean 'simple'?", self.load('simpel').json()['error'])
        self.assertEqual(404, self.unload('nothing').status)
        self.assertEqual(400, self.load('..%2F..%2Fetc').status)
        self.refused(grpc.StatusCode.NOT_FOUND, self.stub.RepositoryModelLoad,
                     oip.RepositoryModelLoadRequest(model_name='nothing'))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, self.stub.RepositoryModelLoad,
                     oip.RepositoryModelLoadRequest(model_name='../simple'))

    def test_uploads_are_refused_unless_allowed(self):
        answer = self.load('simple', {'config': '{}'})
        self.assertEqual(403, answer.status)
        self.assertIn('allow_config_override', answer.json()['error'])
        request = oip.RepositoryModelLoadRequest(model_name='fresh')
        request.parameters['file:1/model.onnx'].bytes_param = b'x'
        self.refused(grpc.StatusCode.PERMISSION_DENIED, self.stub.RepositoryModelLoad, request)

    def test_torn_files_leave_the_old_model_serving(self):
        self.assertEqual(200, self.load('simple').status)
        model = self.root / 'simple/1/model.onnx'
        good = model.read_bytes()
        cut = random.Random(7)
        for _ in range(40):
            model.write_bytes(good[:cut.randrange(len(good))])
            answer = self.load('simple')
            self.assertEqual(SUM, self.infer().json()['outputs'][0]['data'])
            if answer.status == 200:
                continue  # a prefix of the file that is a model itself
            row = self.index()['simple']
            self.assertEqual('READY', row['state'])
            self.assertIn('serves on', row['reason'])
        model.write_bytes(good)
        self.assertEqual(200, self.load('simple').status)
        self.assertEqual('', self.index()['simple']['reason'])

    def test_a_broken_model_says_why_and_can_be_mended(self):
        model = self.root / 'simple/1/model.onnx'
        good = model.read_bytes()
        model.write_bytes(b'no model')
        answer = self.load('simple')
        self.assertGreaterEqual(answer.status, 400)
        self.assertNotIn(str(self.root), answer.body.decode())
        row = self.index()['simple']
        self.assertEqual('UNAVAILABLE', row['state'])
        self.assertNotEqual('', row['reason'])
        model.write_bytes(good)
        self.assertEqual(200, self.load('simple').status)
        self.assertEqual(SUM, self.infer().json()['outputs'][0]['data'])

    def test_a_new_version_takes_over_and_the_old_one_goes(self):
        self.assertEqual(200, self.load('simple').status)
        shutil.copytree(self.root / 'simple/1', self.root / 'simple/2')
        self.assertEqual(200, self.load('simple').status)
        self.assertEqual('2', self.infer().json()['model_version'])
        self.assertEqual(404, self.post('/v2/models/simple/versions/1/infer', json.dumps(ADD)).status)
        self.assertEqual(200, self.post('/v2/models/simple/versions/2/infer', json.dumps(ADD)).status)

    def test_swaps_under_load_fail_no_request(self):
        self.assertEqual(200, self.load('simple').status)
        self.assertEqual(200, self.load('identity').status)
        stop, done = threading.Event(), [0] * 4
        swaps = 60 if harness.SANITIZED else 300

        def over_rest(i):
            with contextlib.closing(http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=harness.PATIENCE)) as c:
                while not stop.is_set():
                    c.request('POST', '/v2/models/simple/infer', json.dumps(ADD), {'Content-Type': 'application/json'})
                    answer = c.getresponse()
                    data = json.loads(answer.read())
                    if answer.status != 200 or data['outputs'][0]['data'] != SUM:
                        raise AssertionError(data)
                    done[i] += 1

        def over_grpc(i):
            while not stop.is_set():
                answer = self.stub.ModelInfer(add_request(), timeout=harness.PATIENCE)
                if list(answer.outputs[0].shape) != [1, 16]:
                    raise AssertionError(answer)
                done[i] += 1

        def come_and_go(i):  # whoever calls a model that goes hears UNAVAILABLE or gets an answer
            while not stop.is_set():
                answer = self.post('/v2/models/identity/infer', ONE)
                if answer.status not in (200, 503):
                    raise AssertionError(answer.body)
                done[i] += 1

        def client(i):
            (over_rest, over_grpc, over_grpc, come_and_go)[i](i)

        model = self.root / 'simple/1/model.onnx'
        with harness.threads(4, client):
            try:
                for turn in range(swaps):
                    os.utime(model, ns=(turn * 1000, turn * 1000))
                    self.stub.RepositoryModelLoad(oip.RepositoryModelLoadRequest(model_name='simple'), timeout=harness.PATIENCE)
                    if turn % 10 == 0:
                        self.stub.RepositoryModelUnload(oip.RepositoryModelUnloadRequest(model_name='identity'))
                        self.stub.RepositoryModelLoad(oip.RepositoryModelLoadRequest(model_name='identity'))
            finally:
                stop.set()
        self.assertGreaterEqual(self.server.output().count('model loaded model=simple '), swaps)
        self.assertTrue(all(done), done)
        fds = self.server.fds()
        self.assertLess(fds, 60, 'every swapped model gives back what it had open')

    def test_a_client_that_leaves_while_its_model_loads_harms_nobody(self):
        for _ in range(30):
            with contextlib.closing(http.client.HTTPConnection('127.0.0.1', self.server.port)) as c:
                c.request('POST', '/v2/repository/models/simple/load')
            future = self.stub.RepositoryModelUnload.future(oip.RepositoryModelUnloadRequest(model_name='simple'))
            future.cancel()
        self.assertEqual(200, self.load('simple').status)
        self.assertEqual(SUM, self.infer().json()['outputs'][0]['data'])


class Uploads(Loads):
    flags = ('--control', 'explicit', '--models-allow-config-override')

    def test_a_configuration_comes_with_the_load_and_goes_with_the_model(self):
        config = {'max_batch_size': 4}
        self.assertEqual(200, self.load('simple', {'config': json.dumps(config)}).status)
        self.assertEqual(4, harness.curl(self.server.url('/v2/models/simple/config')).json()['max_batch_size'])
        self.assertEqual(200, self.load('simple').status)
        self.assertEqual(4, harness.curl(self.server.url('/v2/models/simple/config')).json()['max_batch_size'])
        self.assertEqual(200, self.unload('simple').status)
        self.assertEqual(200, self.load('simple').status)
        self.assertEqual(8, harness.curl(self.server.url('/v2/models/simple/config')).json()['max_batch_size'])

    def test_a_model_comes_as_a_file_over_rest_and_grpc(self):
        model = (harness.MODELS / 'simple/1/model.onnx').read_bytes()
        config = json.dumps({'backend': 'onnxruntime', 'max_batch_size': 8})
        answer = self.load('fresh', {'config': config, 'file:1/model.onnx': base64.b64encode(model).decode()})
        self.assertEqual(200, answer.status, answer.body)
        self.assertEqual(SUM, self.infer('fresh').json()['outputs'][0]['data'])
        request = oip.RepositoryModelLoadRequest(model_name='other')
        request.parameters['config'].string_param = config
        request.parameters['file:1/model.onnx'].bytes_param = model
        self.stub.RepositoryModelLoad(request)
        self.assertEqual(200, self.infer('other').status)
        self.assertEqual(200, self.unload('fresh').status)
        self.assertEqual(503, self.infer('fresh').status)

    def test_uploads_cannot_leave_their_folder(self):
        for path in ('../x/1/model.onnx', '/etc/x', '1/../../x', '', '1/./model.onnx/..'):
            answer = self.load('fresh', {'config': '{}', f'file:{path}': base64.b64encode(b'x').decode()})
            self.assertEqual(400, answer.status, (path, answer.body))
        self.assertEqual(400, self.load('fresh', {'config': '{', 'file:1/model.onnx': 'eA=='}).status)
        self.assertEqual(400, self.load('fresh', {'config': '{}', 'file:1/model.onnx': '*'}).status)


class Bare(unittest.TestCase):
    def test_a_folder_with_one_file_is_a_repository(self):
        root = harness.scratch() / 'bare'
        (root / 'plain/1').mkdir(parents=True)
        shutil.copy(harness.MODELS / 'simple/1/model.onnx', root / 'plain/1')
        (root / 'no model' / '1').mkdir(parents=True)
        server = harness.Server(repository=root)
        self.assertIn("'no model' cannot be a model's name", server.output())
        config = harness.curl(server.url('/v2/models/plain/config')).json()
        self.assertEqual('onnxruntime_onnx', config['platform'])
        self.assertGreater(config['max_batch_size'], 0)
        self.assertEqual([16], config['input'][0]['dims'])
        answer = harness.curl(server.url('/v2/models/plain/infer'), data=json.dumps(ADD)).json()
        self.assertEqual(SUM, answer['outputs'][0]['data'])
        answer = harness.curl(server.url('/v2/repository/models/plain/unload'), '-X', 'POST')
        self.assertEqual(400, answer.status)
        self.assertIn('models.control', answer.json()['error'])
        self.assertEqual(0, server.stop())


class CommandLine(harness.Case):
    serve = ('--control', 'explicit', '--load', 'simple')

    @classmethod
    def setUpClass(cls):
        cls.repository = repository('commands', 'simple', 'identity')
        super().setUpClass()

    def test_every_command_explains_itself(self):
        for words in (('--help',), *((w, '--help') for w in
                      ('serve', 'check', 'models', 'load', 'unload', 'infer', 'ready', 'version'))):
            code, out, err = weir(*words)
            self.assertEqual((0, ''), (code, err), words)
            self.assertLess(len(out.splitlines()), 50, 'one screen')

    def test_what_is_not_loaded_is_listed_with_its_reason(self):
        code, out, _ = weir('models', self.server.address)
        self.assertEqual(0, code)
        self.assertRegex(out, r'(?m)^identity .*UNAVAILABLE +(not loaded|unloaded)')

    def test_a_server_that_is_away_is_said_in_one_line(self):
        for words in (('models',), ('load', 'simple'), ('unload', 'simple'), ('ready',),
                      ('infer', 'simple', '-i', 'INPUT0=zeros')):
            code, _, err = weir(*words, '127.0.0.1:1')
            self.assertEqual(1, code, words)
            self.assertEqual(1, len(err.strip().splitlines()), err)
            self.assertIn('127.0.0.1:1', err)

    def test_a_repeatable_flag_leaves_the_folder_alone(self):
        code, _, err = weir('serve', '--listen', self.server.address, self.repository)
        self.assertEqual(3, code, err)
        code, out, err = weir('infer', 'simple', '-i', 'INPUT0=zeros', '-i', 'INPUT1=zeros', self.server.address)
        self.assertEqual(0, code, err)

    def test_bytes_that_are_no_text_are_refused_in_one_line(self):
        for value in (b'INPUT0=\xff', b'INPUT0=[\xff]'):
            code, _, err = weir('infer', 'simple', self.server.address, '-i', os.fsdecode(value))
            self.assertEqual(1, code, err)
            self.assertEqual(1, len(err.strip().splitlines()), err)

    def test_load_and_unload_answer_with_the_servers_words(self):
        self.assertEqual(0, weir('load', 'identity', self.server.address)[0])
        self.assertEqual(0, weir('infer', 'identity', self.server.address, '-i', 'x=[1,2]')[0])
        self.assertEqual(0, weir('unload', 'identity', self.server.address)[0])
        code, _, err = weir('infer', 'identity', self.server.address, '-i', 'x=[1,2]')
        self.assertEqual(1, code)
        self.assertIn('identity', err)
        code, _, err = weir('unload', 'nothing', self.server.address)
        self.assertEqual(1, code)
        self.assertIn("no model 'nothing'", err)


if __name__ == '__main__':
    harness.main()
