"""The command line as people use it: commands against a running server, exit codes, signals, reloads, the access log."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import unittest

import harness

import numpy


def weir(*args, env=None):
    """Runs the binary; returns (exit code, standard output, standard error)."""
    done = subprocess.run([str(harness.WEIR), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=harness.PATIENCE * 3, cwd=harness.ROOT, env={**os.environ, **(env or {})})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def until(what, message=''):
    end = time.monotonic() + harness.PATIENCE
    while time.monotonic() < end:
        if what():
            return
        time.sleep(0.02)
    raise AssertionError(message or 'it did not happen')


def repository(name, *models):
    """A repository of its own with copies of demo models."""
    root = harness.scratch() / name
    for model in models:
        shutil.copytree(harness.MODELS / model, root / model)
    return root


def models_of(index):
    """What `weir models` makes of a server whose index is this."""
    class Index(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.dumps(index, ensure_ascii=False).encode()
            self.send_response(200)
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(('127.0.0.1', 0), Index) as server:
        threading.Thread(target=server.handle_request).start()
        return weir('models', '127.0.0.1:%d' % server.server_port)


class Remote(harness.Case):
    serve = ('--control', 'explicit', '--load', '*')

    @classmethod
    def setUpClass(cls):
        cls.repository = repository('remote', 'simple', 'identity')
        super().setUpClass()

    def test_models_are_listed_as_table_and_json(self):
        code, out, _ = weir('models', self.server.address)
        self.assertEqual(0, code)
        self.assertRegex(out, r'(?m)^simple +1 +READY')
        rows = json.loads(weir('models', self.server.address, '-o', 'json')[1])
        self.assertIn({'name': 'simple', 'version': '1', 'state': 'READY'}, [{k: r.get(k) for k in ('name', 'version', 'state')} for r in rows])

    def test_what_a_server_says_commands_no_terminal(self):
        code, out, err = models_of([{'name': '\x1b[31mred\x9b0m', 'state': 'READY'}])
        self.assertEqual(0, code, err)
        self.assertIn('?[31mred?0m', out)

    def test_an_answer_that_lists_no_models_is_an_error(self):
        for answer in ({}, [None], [[]], [{'name': 5}], [{'name': 'good', 'state': 'READY'}, {}]):
            code, out, err = models_of(answer)
            self.assertEqual((1, ''), (code, out), answer)
            self.assertIn("the server's index is no list of models", err)
        self.assertEqual(0, models_of([])[0])

    def test_a_model_is_called_with_lists_zeros_and_arrays(self):
        array = harness.scratch() / 'ones.npy'
        numpy.save(array, numpy.ones((1, 16), numpy.int32))
        for value in ('[' + ','.join(['1'] * 16) + ']', f'@{array}'):
            code, out, err = weir('infer', 'simple', self.server.address, '-i', f'INPUT0={value}', '-i', 'INPUT1=zeros')
            self.assertEqual(0, code, err)
            self.assertIn('OUTPUT0 INT32[1,16] [' + ','.join(['1'] * 16) + ']', out)

    def test_mistakes_in_a_call_are_named(self):
        code, _, err = weir('infer', 'simple', self.server.address, '-i', 'INPUT9=zeros')
        self.assertEqual(1, code)
        self.assertIn("has no input 'INPUT9'; it has INPUT0, INPUT1", err)
        code, _, err = weir('infer', 'simpel', self.server.address, '-i', 'INPUT0=zeros')
        self.assertEqual(1, code)
        self.assertIn("did you mean 'simple'?", err)

    def test_shapes_and_fillings_need_no_numbers(self):
        for value, expected in (('INPUT0:2,16=ones', '[2,16] [' + ','.join(['1'] * 32)), ('INPUT0:1x16=random', '[1,16] [')):
            shape = value[len('INPUT0:'):value.index('=')]
            code, out, err = weir('infer', 'simple', self.server.address, '-i', value, '-i', f'INPUT1:{shape}=zeros')
            self.assertEqual(0, code, err)
            self.assertIn('OUTPUT0 INT32' + expected, out)

    def test_what_is_missing_is_said(self):
        for given, text in (((), "model 'simple' takes INPUT0 INT32[-1,16] (-i INPUT0=zeros or =@file.npy); INPUT1"),
                            (('-i', 'INPUT0=zeros'), "model 'simple' also takes INPUT1 INT32[-1,16] (-i INPUT1=zeros")):
            code, _, err = weir('infer', 'simple', self.server.address, *given)
            self.assertEqual(1, code)
            self.assertIn(text, err)

    def test_ready_load_and_unload(self):
        self.assertEqual(0, weir('ready', self.server.address)[0])
        self.assertEqual(0, weir('unload', 'identity', self.server.address)[0])
        self.assertEqual(1, weir('ready', '--model', 'identity', self.server.address)[0])
        self.assertEqual(0, weir('load', 'identity', self.server.address)[0])
        self.assertEqual(0, weir('ready', '--model', 'identity', self.server.address)[0])
        self.assertEqual(1, weir('load', 'nothing', self.server.address)[0])


class ExitCodes(unittest.TestCase):
    def test_usage_and_configuration_are_2(self):
        config = harness.scratch() / 'wrong.yaml'
        config.write_text('limits:\n  bodi: 1MiB\n')
        code, _, err = weir('check', config)
        self.assertEqual(2, code)
        self.assertIn(f"{config}:2:3: unknown key 'bodi' in 'limits', did you mean 'body'?", err)
        for args in (('serve',), ('serve', '/no/such/folder'), ('frob',), ('serve', harness.MODELS, '--nonsense')):
            self.assertEqual(2, weir(*args)[0], args)

    def test_check_refuses_what_serve_would(self):
        config = harness.scratch() / 'refused.yaml'
        references = 'evergreen: {references: {%s}}'
        cases = {
            'listen: 8080': 'listen: an address is host:port', 'listen: localhost': 'listen: an address is',
            'listen: "http://0.0.0.0:80"': 'listen: an address is', 'listen: "unix:"': 'listen: the path of a unix socket',
            'listen: 127.0.0.1:99999': 'listen: an address is', 'admin: {listen: 9090}': 'admin.listen: an address is',
            'jobs: {path: /proc/x}': 'jobs.path', 'jobs: {path: /etc/passwd}': 'jobs.path',
            'audit_log: /nope/x': "audit_log: '/nope/x' cannot be opened: No such file", 'access_log: /tmp': "access_log: '/tmp' cannot be opened: Is a directory",
            references % 'schemes: [ftp]': "evergreen.references: 'ftp'", references % 'schemes: [http], hosts: ["http://a"]': 'evergreen.references: ',
            references % 'schemes: [http], networks: [a]': 'evergreen.references: ',
            references % 'schemes: [https], ca_file: /nope': 'evergreen.references: ',
            'tracing: {otlp: "https://a:1", ca_file: /nope}': 'tracing.ca_file: ',
        }
        for text, words in cases.items():
            config.write_text(f'models: {{repository: {harness.MODELS}}}\n{text}\n')
            for command in (('check', '--no-load'), ('serve',)):
                code, _, err = weir(*command, config)
                self.assertEqual(2, code, (command, text, err))
                self.assertIn(words, err, command)

    def test_words_that_an_option_does_not_know_are_refused_with_those_that_it_does(self):
        for args, option, words in ((('bench', 'simple', '--protocol', 'foo'), '--protocol', 'evergreen, graphpipe, grps, oip-grpc, oip-rest, oip-stream, openai, salience'),
                                    (('bench', 'simple', '--tensors', 'foo'), '--tensors', 'binary, json'), (('models', '-o', 'foo'), '--output', 'json, table')):
            code, _, err = weir(*args)
            self.assertEqual(2, code, err)
            self.assertIn(f"{option}: expected one of {words}, got 'foo'", err)

    def test_dev_says_its_words(self):
        for words in ((), ('help',), ('-h',), ('--help',)):
            done = subprocess.run([harness.ROOT / 'dev', *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=harness.PATIENCE)
            self.assertEqual((0, b''), (done.returncode, done.stderr), words)
            self.assertIn(b'./dev serve', done.stdout)

    def test_check_leaves_no_file_behind(self):
        folder = harness.scratch() / 'logs'
        folder.mkdir()
        config = harness.scratch() / 'logs.yaml'
        config.write_text(f'models: {{repository: {harness.MODELS}}}\naudit_log: logs/audit\naccess_log: logs/access\njobs: {{path: logs/jobs}}\n')
        self.assertEqual(0, weir('check', '--no-load', config)[0])
        self.assertEqual([], list(folder.iterdir()))

    def test_a_model_file_is_served_as_it_lies(self):
        root = harness.scratch() / 'single'
        (root / 'x').mkdir(parents=True)
        model = (harness.MODELS / 'simple/1/model.onnx').read_bytes()
        for path, name in (('x/model.onnx', 'x'), ('x/net.onnx', 'net')):
            (root / path).write_bytes(model)
            server = harness.Server(repository=root / path)
            self.assertEqual([name], harness.curl(server.url('/v2/models')).json()['models'])
            code, out, err = weir('infer', name, server.address, '-i', 'INPUT0=zeros', '-i', 'INPUT1=zeros')
            self.assertEqual(0, code, err)
            self.assertEqual(0, server.stop())
        server = harness.Server(repository=harness.MODELS / 'digits/1/model.onnx')
        config = harness.curl(server.url('/v2/models/digits/config')).json()
        self.assertEqual('labels.txt', config['output'][0]['label_filename'], 'of its config.pbtxt')
        self.assertEqual(0, server.stop())

    def test_what_is_no_model_is_refused_in_clear_words(self):
        root = harness.scratch() / 'odd'
        (root / 'm').mkdir(parents=True)
        (root / 'm/model.onnx').write_bytes(b'x')
        (root / 'weights.bin').write_bytes(b'\0\1\2\3')
        (root / 'notes.txt').write_text('limits: {bodi: 1}')
        for target, words in ((root / 'weights.bin', 'neither a .yaml configuration nor a model that is one file'),
                              (root / 'missing.onnx', "missing.onnx' is not there"),
                              (root / 'm', 'serve .*m/model.onnx, or the folder'),
                              (root / 'notes.txt', "did you mean 'body'"),
                              (harness.MODELS / 'digits', 'serve the folder that it lies in')):
            for command in ('serve', 'check'):
                code, _, err = weir(command, target)
                self.assertEqual(2, code, (target, err))
                self.assertRegex(err, words)

    def test_check_knows_engine_parameters_and_where_routes_lead(self):
        root = repository('checked', 'simple', 'identity')
        (root / 'simple/config.pbtxt').unlink()
        (root / 'simple/model.yaml').write_text('parameters:\n  intra_op_thread: 2\n')
        code, out, _ = weir('check', root)
        self.assertEqual(2, code)
        self.assertIn("simple/model.yaml:2:3: engine 'onnx' has no parameter 'intra_op_thread', did you mean", out)
        (root / 'simple/model.yaml').write_text('parameters:\n  intra_op_threads: 2\n')
        config = harness.scratch() / 'routes-checked.yaml'
        route = '  - {path: /%s, model: %s, inputs: {%s: body:/a}, outputs: {/b: %s}}\n'
        good = route % ('a', 'simple', 'INPUT0', 'OUTPUT0') + route % ('b', '""', 'x', 'y') + route % ('c', 'identity', 'x', 'y')
        config.write_text(f'models: {{repository: {root}}}\ngrps:\n  routes:\n' + good)
        self.assertEqual(0, weir('check', config)[0], weir('check', config))
        config.write_text(config.read_text() + route % ('d', 'simpel', 'INPUT0', 'OUTPUT0') + route % ('e', 'simple', 'INPUT_0', 'scores'))
        code, _, err = weir('check', config)
        self.assertEqual(2, code)
        self.assertIn("grps.routes: POST /d: Request for unknown model: 'simpel' is not found; did you mean 'simple'?", err)
        self.assertIn("grps.routes: POST /e: model 'simple' has no input 'INPUT_0', did you mean 'INPUT0'?", err)
        self.assertIn("grps.routes: POST /e: model 'simple' has no output 'scores'; it has OUTPUT0, OUTPUT1", err)

    def test_an_address_in_use_is_3(self):
        server = harness.Server()
        code, _, err = weir('serve', harness.MODELS, '--listen', server.address)
        self.assertEqual(0, server.stop())
        self.assertEqual(3, code, err)

    def test_a_broken_model_is_4_when_strict(self):
        root = repository('strict', 'identity')
        (root / 'bad/1').mkdir(parents=True)
        (root / 'bad/1/model.onnx').write_text('no model')
        code, _, err = weir('serve', root, '--listen', '127.0.0.1:0', '--strict')
        self.assertEqual(4, code, err)
        self.assertIn("model 'bad'", err)
        code, out, _ = weir('check', root)
        self.assertEqual(2, code)
        self.assertRegex(out, r'bad/1 +UNAVAILABLE')

    def test_help_config_prints_the_file_with_every_key(self):
        code, out, _ = weir('help', 'config')
        self.assertEqual((0, (harness.ROOT / 'conf/weir.yaml').read_text()), (code, out))
        code, _, err = weir('help', 'nonsense')
        self.assertEqual((2, True), (code, "'config'" in err))

    def test_check_shows_what_is_in_force_and_where_from(self):
        code, out, err = weir('check', 'conf/weir.yaml', '--shards', '3', env={'WEIR_LIMITS_STREAMS': '55'})
        self.assertEqual(0, code, err)
        self.assertRegex(out, r'shards: 3 +# flag')
        self.assertRegex(out, r'streams: 55 +# WEIR_LIMITS_STREAMS')
        self.assertRegex(out, r'simple/1 +READY')

    def test_ready_is_1_where_nobody_listens(self):
        self.assertEqual(1, weir('ready', '127.0.0.1:1')[0])

    def test_the_version_is_told(self):
        self.assertRegex(weir('version')[1], r'^weir \d+\.\d+\.\d+\n$')
        self.assertEqual('weir', json.loads(weir('version', '--json')[1])['name'])


class Signals(unittest.TestCase):
    def test_hup_takes_new_models_and_usr1_reopens_the_log(self):
        root, log = repository('signals', 'identity'), harness.scratch() / 'access.log'
        server = harness.Server('--access-log', log, repository=root)
        self.assertEqual(404, harness.curl(server.url('/v2/models/simple')).status)
        shutil.copytree(harness.MODELS / 'simple', root / 'simple')
        server.process.send_signal(signal.SIGHUP)
        until(lambda: harness.curl(server.url('/v2/models/simple')).status == 200)
        log.rename(f'{log}.1')
        server.process.send_signal(signal.SIGUSR1)
        until(log.exists)
        harness.curl(server.url('/v2/models/identity/infer'), '-H', 'x-request-id: mine-1',
                     data='{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]}')
        self.assertEqual(0, server.stop())
        first = json.loads(pathlib.Path(f'{log}.1').read_text().splitlines()[0])
        self.assertEqual((404, 'NOT_FOUND'), (first['status'], first['code']))
        line = json.loads(log.read_text().splitlines()[-1])
        self.assertEqual(('mine-1', 'oip-rest', 'identity', 200, 'OK', '/v2/models/{model}/infer'),
                         tuple(line[k] for k in ('request_id', 'protocol', 'model', 'status', 'code', 'route')))
        self.assertGreater(line['bytes_in'], 0)
        self.assertGreaterEqual(line['seconds'], 0)

    def test_hup_takes_the_log_and_names_what_needs_a_restart(self):
        config = harness.scratch() / 'live.yaml'
        config.write_text(f'models: {{repository: {harness.MODELS}}}\nlog: {{level: info}}\nshards: 1\n')
        server = harness.Server(config=config)
        config.write_text(f'models: {{repository: {harness.MODELS}}}\nlog: {{level: warning, format: json}}\nshards: 2\n')
        server.process.send_signal(signal.SIGHUP)
        self.assertTrue(server.logged('need a restart', '"settings":"shards"'), server.output())
        self.assertEqual(0, server.stop())
        self.assertNotIn('shutting down', server.output())  # an info

    def test_with_json_every_line_of_the_log_is_json(self):
        server = harness.Server('--log-format', 'json')
        self.assertEqual(0, server.stop())
        lines = [json.loads(line) for line in server.output().splitlines()]
        ready = next(line for line in lines if line['event'] == 'weir is listening')
        self.assertEqual(f'http://127.0.0.1:{server.port}', ready['addresses'])
        self.assertRegex(ready['models'], r'^\d+ of \d+ models are ready$')

    def test_reloads_under_load_fail_no_request(self):
        root = repository('reloads', 'simple')
        server = harness.Server('--control', 'poll', '--models-poll-interval', '20ms', repository=root)
        body = json.dumps({'inputs': [{'name': n, 'shape': [1, 16], 'datatype': 'INT32', 'data': list(range(16))}
                                      for n in ('INPUT0', 'INPUT1')]})
        stop, done = threading.Event(), [0] * 4

        def client(i):
            with contextlib.closing(http.client.HTTPConnection('127.0.0.1', server.port, timeout=harness.PATIENCE)) as c:
                while not stop.is_set():
                    c.request('POST', '/v2/models/simple/infer', body, {'Content-Type': 'application/json'})
                    answer = c.getresponse()
                    data = json.loads(answer.read())
                    if answer.status != 200 or data['outputs'][0]['data'] != [2 * n for n in range(16)]:
                        raise AssertionError(data)
                    done[i] += 1

        def loads():
            return server.output().count('model loaded')

        with harness.threads(4, client):
            try:
                model = root / 'simple/1/model.onnx'
                good = model.read_bytes()
                for turn in range(5):
                    before = loads()
                    model.write_bytes(good[:len(good) // 2])  # half-written: the one before serves on
                    time.sleep(0.1)
                    model.write_bytes(good)
                    until(lambda: loads() > before, server.output()[-2000:])
            finally:
                stop.set()
        self.assertGreater(sum(done), 20)
        self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main()
