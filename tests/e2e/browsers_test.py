"""Pages of other origins: whatever a browser sends for one changes nothing and runs no model, in every protocol.

The matrix is made from `weir routes`, so that a new route or method is in it by itself. What browsers send is forged here
by hand, and, where Chromium is installed, sent by a real page (RealBrowser).
"""

import base64
import http.client
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

import harness
from harness import curl

import grpc

oip, oip_grpc = harness.stubs()('inference')

CONFIG = """
models:
  repository: {models}
grps:
  routes:
  - path: /say
    method: GET
    model: identity
    inputs: {{word: query:word}}
  - path: /sorry
    model: identity
    inputs: {{all: body}}
    error_status: 422
    error_body: '{{"detail": "{{message}}"}}'
"""
EVIL = 'https://evil.example'
CHROME = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36'
# The fields of a request that a page of another origin makes: fetch, a form; an image; a page of the same site.
FOREIGN = ({'Origin': EVIL}, {'Origin': EVIL, 'Sec-Fetch-Site': 'cross-site'}, {'Origin': 'null'}, {'Sec-Fetch-Site': 'cross-site'},
           {'Sec-Fetch-Site': 'same-site', 'User-Agent': CHROME}, {'Referer': EVIL + '/page', 'User-Agent': CHROME})
ONLY_READ = ('health', 'metrics', 'observe', 'read')
CONSOLE = {'GET /console', 'GET /console/', 'GET /console/{file}'}  # where npm has built it
TELLS = '/console/v1/access'  # it says what would be refused, and why
STREAMS = ('/console/v1/live', '/console/v1/requests', '/console/v1/config')  # and the settings, which name settings
# Routes that only read, and may be called by any page. A route that is new here was declared so on purpose.
READS = {
    'GET /', 'GET /api/ps', 'GET /api/tags', 'GET /api/version', 'POST /api/pull', 'POST /api/show', 'GET /console/v1/access', 'GET /console/v1/batches', 'GET /console/v1/config',
    'GET /console/v1/live', 'GET /console/v1/requests', 'GET /console/v1/timelines', 'GET /control/is_alive', 'GET /control/is_ready', 'GET /docs', 'GET /favicon.ico', 'GET /favicon.svg',
    'GET /graphpipe', 'GET /graphpipe/control/is_alive', 'GET /graphpipe/control/is_ready', 'GET /graphpipe/{model}',
    'GET /graphpipe/{model}/control/is_alive', 'GET /graphpipe/{model}/control/is_ready',
    'GET /graphpipe/{model}/versions/{version}', 'GET /graphpipe/{model}/versions/{version}/control/is_alive',
    'GET /graphpipe/{model}/versions/{version}/control/is_ready',
    'GET /grps/v1', 'GET /grps/v1/', 'GET /grps/v1/health/live', 'GET /grps/v1/health/ready', 'GET /grps/v1/metadata/model',
    'GET /grps/v1/metadata/server', 'GET /grps/v1/monitor', 'GET /grps/v1/monitor/batches', 'GET /grps/v1/monitor/metrics',
    'GET /grps/v1/monitor/series', 'POST /grps/v1/health/live', 'POST /grps/v1/health/ready', 'POST /grps/v1/metadata/model',
    'POST /grps/v1/metadata/server',
    *(f'POST /grps.protos.v1.{service}/{method}' for service in ('GrpsService', 'GrpsBrpcService')
      for method in ('CheckLiveness', 'CheckReadiness', 'ModelMetadata', 'ServerMetadata')),
    'GET /get_model_info', 'GET /model_info', 'GET /get_server_info', 'GET /server_info', 'GET /info', 'GET /props', 'GET /slots', 'GET /lora-adapters', 'GET /models',
    'GET /health', 'GET /v1/health', 'GET /livez', 'GET /load', 'GET /metrics', 'GET /ping', 'GET /readyz', 'GET /tokenizer_info', 'GET /version', 'POST /ping',
    'POST /grpc.health.v1.Health/Check', 'POST /grpc.health.v1.Health/List', 'POST /grpc.health.v1.Health/Watch',
    'POST /grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
    'POST /grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo',
    'POST /salience.v1.Salience/GetReadoutManifest', 'POST /weir.forward.v1.Forward/DescribeModel',
    'GET /openapi.json', *(f'GET /v2{model}/docs{kind}' for model in ('', '/models/{model}') for kind in ('', '/dataplane.json')),
    'GET /v2', 'GET /v2/', 'GET /v2/cudasharedmemory/region/{region}/status', 'GET /v2/cudasharedmemory/status',
    'GET /v2/health/live', 'GET /v2/health/ready', 'GET /v2/logging', 'GET /v2/models', 'GET /v2/models/stats',
    'GET /v2/models/{model}/trace/setting', 'GET /v2/systemsharedmemory/region/{region}/status',
    'GET /v2/systemsharedmemory/status', 'GET /v2/trace/setting', 'POST /v2/repository/index',
    'POST /v2/repository/{repository}/index',
    *(f'GET /v2/models/{{model}}{version}{page}' for version in ('', '/versions/{version}')
      for page in ('', '/config', '/ready', '/stats')),
    *(f'GET {prefix}/models{model}' for prefix in ('/v1', '/openai/v1', '/openai', '/v3') for model in ('', '/{model}', '/{owner}/{model}')),
    'GET /v1/models/{model}/versions/{version}',
    *(f'POST /inference.GRPCInferenceService/{method}' for method in (
        'CudaSharedMemoryStatus', 'ModelConfig', 'ModelMetadata', 'ModelReady', 'ModelStatistics', 'RepositoryIndex', 'ServerLive',
        'ServerMetadata', 'ServerReady', 'SystemSharedMemoryStatus',
        'LogSettings', 'TraceSetting')),  # with settings they ask for more
}


def routes(*flags):
    done = subprocess.run([str(harness.WEIR), 'routes', '--json', *map(str, flags)], stdout=subprocess.PIPE,
                          timeout=harness.PATIENCE, check=True, cwd=harness.ROOT)
    return json.loads(done.stdout)


def configuration(name='browsers.yaml'):
    path = harness.scratch() / name
    path.write_text(CONFIG.format(models=harness.MODELS))
    return path


def is_rpc(route):
    return route['method'] == 'POST' and re.fullmatch(r'/[a-z0-9A-Z.]+\.[A-Za-z0-9]+/[A-Za-z]+', route['path']) is not None


def filled(path):
    values = {'model': 'identity', 'version': '1'}
    return re.sub(r'\{(\w+)\}', lambda m: values.get(m[1], 'x'), path)


def ask(server, method, path, headers=(), body=b'', port=None, source=None):
    connection = http.client.HTTPConnection('127.0.0.1', port or server.port, timeout=harness.PATIENCE,
                                            source_address=source and (source, 0))
    connection.request(method, path, body if method == 'POST' else None, dict(headers))
    answer = connection.getresponse()
    out = harness.Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    connection.close()
    return out


def counter(server, series):
    for line in curl(server.url('/metrics')).body.decode().splitlines():
        if line.startswith(series + ' '):
            return int(line.rpartition(' ')[2])
    return 0


def refusals(server, reason='foreign_page'):
    return counter(server, f'weir_rejects_total{{reason="{reason}"}}')


def state(server):
    """What a page might have changed: settings, readiness, models, and how many requests models have answered."""
    metrics = curl(server.url('/metrics')).body.decode()
    ran = sorted(line for line in metrics.splitlines() if re.match(r'weir_(model_requests|requests_total.*infer|sessions_opened)', line))
    return [curl(server.url(path)).body for path in ('/v2/logging', '/v2/trace/setting', '/grps/v1/health/ready')] + [
        curl(server.url('/v2/repository/index'), '-X', 'POST').body, ran]


class Matrix(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.config = configuration()
        cls.server = harness.Server(config=cls.config)
        cls.routes = routes('--config', cls.config)

    def forms(self, route):
        """(how it is said, headers and body, what a refusal looks like in that form)."""
        if is_rpc(route):
            frame = b'\0\0\0\0\0'
            yield {'Content-Type': 'application/json'}, b'{}', lambda a: a.status == 403 and a.json()['code'] == 7
            for text in (False, True):
                body = base64.b64encode(frame) if text else frame
                kind = 'application/grpc-web-text' if text else 'application/grpc-web'
                yield ({'Content-Type': kind}, body, lambda a, text=text: a.status == 200 and b'grpc-status: 7' in (
                    base64.b64decode(a.body) if text else a.body))
            yield {'Content-Type': 'text/plain'}, b'{}', lambda a: a.status == 403 and 'error' in a.json()
            return
        typed = [r['content_type'] for r in self.routes if 'content_type' in r and (r['method'], r['path']) == (route['method'], route['path'])]
        for kind in (route['content_type'],) if 'content_type' in route else {'text/plain', 'application/json'} - {*typed}:
            yield {'Content-Type': kind}, b'{}', self.form_of(route)

    @staticmethod
    def form_of(route):
        if route['path'] == '/sorry':
            return lambda a: a.status == 422 and 'detail' in a.json()
        if route['protocol'] == 'graphpipe':
            return lambda a: a.status == 403 and a.headers['content-type'] == 'application/octet-stream'
        if route['protocol'] == 'openai':
            return lambda a: a.status == 403 and a.json()['error']['type'] == 'invalid_request_error'
        if route['protocol'] == 'grps-rest':
            return lambda a: a.status == 403 and a.json()['status']['status'] == 'FAILURE'
        return lambda a: a.status == 403 and 'error' in a.json()

    def text_of(self, answer):
        text = answer.body
        if answer.headers.get('content-type', '').startswith('application/grpc-web-text'):
            text = base64.b64decode(text)
        return text.decode(errors='replace') + str(answer.headers)

    def test_what_only_reads_is_known_by_name(self):
        reads = {f"{r['method']} {r['path']}" for r in self.routes if r['permission'] in ONLY_READ}
        gets = {name for name in reads if re.match(r'GET /[\w.]+\.\w+/\w+$', name)}  # Connect's: of methods that read
        self.assertEqual(READS, reads - gets - CONSOLE)
        self.assertIn(reads & CONSOLE, (CONSOLE, set()))
        self.assertLessEqual({name.replace('GET', 'POST') for name in gets}, READS)
        self.assertIn('GET /inference.GRPCInferenceService/ModelReady', gets)

    def test_each_route_is_listed_once_and_all_protocols_are_there(self):
        names = [f"{r['method']} {r['path']} {r.get('content_type', '')}" for r in self.routes]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual({'oip-rest', 'oip-grpc', 'grps-rest', 'grps-grpc', 'graphpipe', 'openai', 'salience',
                              'evergreen-grpc', 'evergreen-ndjson', 'evergreen-ws'}, {r['protocol'] for r in self.routes})

    def test_a_foreign_page_reaches_no_route_that_does_more_than_read(self):
        before, count, asked = state(self.server), refusals(self.server), 0
        for route in self.routes:
            if route['permission'] in ONLY_READ:
                continue
            for said, body, refused in self.forms(route):
                for marks in FOREIGN:
                    answer = ask(self.server, route['method'], filled(route['path']), {**said, **marks}, body)
                    what = (route, said, marks, answer.status, answer.body[:200])
                    self.assertTrue(refused(answer), what)
                    self.assertIn('cors.origins', self.text_of(answer), what)
                    asked += 1
        self.assertGreater(asked, 500)
        self.assertEqual(asked, refusals(self.server) - count)
        self.assertEqual(before, state(self.server))

    def test_the_same_over_http2_with_grpc_and_json(self):
        before = state(self.server)
        marks = ('-H', f'origin: {EVIL}', '-H', 'sec-fetch-site: cross-site')
        for route in self.routes:
            if route['permission'] in ONLY_READ:
                continue
            kind = 'application/grpc' if is_rpc(route) else 'application/json'
            args = ('-X', route['method'], *(('-H', f'content-type: {kind}') if route['method'] == 'POST' else ()))
            answer = curl(self.server.url(filled(route['path'])), '--http2-prior-knowledge', *args, *marks,
                          data='' if route['method'] == 'POST' else None)
            if is_rpc(route):
                self.assertEqual((200, '7'), (answer.status, answer.headers.get('grpc-status')), route)
                self.assertIn('cors.origins', answer.headers['grpc-message'])
            else:
                self.assertIn('cors.origins', self.text_of(answer), route)
        self.assertEqual(before, state(self.server))

    def test_reading_stays_open(self):
        count = refusals(self.server)
        for route in self.routes:
            if route['permission'] not in ONLY_READ or route['path'].startswith(('/grpc.', '/docs', *STREAMS)):  # streams, and the manual's own words
                continue
            answer = ask(self.server, route['method'], filled(route['path']), {**FOREIGN[1], 'Content-Type': 'application/json'}, b'{}')
            if route['path'] != TELLS:
                self.assertNotIn('cors.origins', self.text_of(answer), route)
            self.assertNotIn('access-control-allow-origin', answer.headers, route)
        self.assertEqual(count, refusals(self.server))

    def test_who_is_no_browser_goes_on_whatever_the_content_type(self):
        server, count = harness.Server(config=self.config), refusals(self.server)
        for route in self.routes:
            if route['path'].startswith(('/grpc.', '/docs', *STREAMS)) or route['protocol'].startswith('evergreen'):
                continue
            for kind in ('text/plain', 'application/json', 'application/x-www-form-urlencoded'):
                answer = ask(server, route['method'], filled(route['path']),
                             {'Content-Type': kind, 'Host': 'weir.example', 'User-Agent': 'curl/8'}, b'{}')
                self.assertNotIn(b'cors.origins', answer.body, route)
                self.assertNotIn(b'http.hosts', answer.body, route)
        self.assertEqual(0, refusals(server))
        for page, ready in (('offline', 503), ('online', 200)):  # documented as GETs
            self.assertEqual(200, curl(server.url(f'/grps/v1/health/{page}')).status)
            self.assertEqual(ready, curl(server.url('/grps/v1/health/ready')).status)
        one = '{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1.5]}]}'
        self.assertEqual(200, curl(server.url('/v2/models/identity/infer'), '-H', 'content-type: text/plain', data=one).status)
        self.assertEqual(count, refusals(self.server))
        self.assertEqual(0, server.stop())

    def test_the_servers_own_pages_and_its_address_bar_go_on(self):
        own = {'Origin': self.server.url(), 'Sec-Fetch-Site': 'same-origin', 'User-Agent': CHROME}
        bar = {'Sec-Fetch-Site': 'none', 'User-Agent': CHROME}
        one = b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1.5]}]}'
        for marks in (own, bar):
            self.assertEqual(200, ask(self.server, 'POST', '/v2/models/identity/infer', marks, one).status)
            self.assertEqual(200, ask(self.server, 'GET', '/grps/v1/health/online', marks).status)

    def test_websockets_open_for_own_pages_alone(self):
        def handshake(*lines):
            with socket.create_connection(('127.0.0.1', self.server.port), harness.PATIENCE) as s:
                key = base64.b64encode(os.urandom(16)).decode()
                head = ['GET /evergreen/v2/session HTTP/1.1', 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13',
                        f'Sec-WebSocket-Key: {key}', *lines]
                s.sendall(('\r\n'.join(head) + '\r\n\r\n').encode())
                return int(s.recv(4096).split()[1])

        host = f'Host: {self.server.address}'
        self.assertEqual(101, handshake(host))
        self.assertEqual(101, handshake(host, f'Origin: {self.server.url()}'))
        self.assertEqual(403, handshake(host, f'Origin: {EVIL}'))
        self.assertEqual(403, handshake(host, 'Origin: null'))
        self.assertEqual(403, handshake(host, f'Origin: http://localhost:{self.server.port}'))
        self.assertEqual(403, handshake('Host: evil.example', 'Origin: http://evil.example'))


class Rebinding(harness.Case):
    """A page of http://rebound.example:8080, whose name leads to 127.0.0.1 by now, is of the same origin to its browser."""

    serve = ('--cors-origin', 'https://app.example')

    def test_a_browser_asks_for_a_loopback_name_for_whatever_it_wants(self):
        count = 0
        for route in routes(harness.MODELS):
            for marks in ({'User-Agent': CHROME}, {'Origin': 'http://rebound.example:8080'}):
                said = {'Host': 'rebound.example:8080', 'Content-Type': 'application/json'}
                answer = ask(self.server, route['method'], filled(route['path']), {**said, **marks}, b'{}')
                self.assertIn(b'http.hosts', answer.body, (route, answer.status))
                count += 1
        self.assertEqual(count, refusals(self.server, 'untrusted_host'))
        for host in ('localhost', '127.0.0.1:8080', 'a.localhost:80', '[::1]:8080'):
            self.assertEqual(200, ask(self.server, 'GET', '/v2/models', {'Host': host, 'User-Agent': CHROME}).status, host)

    def test_preflights_of_listed_origins_go_on(self):
        ask_first = {'Origin': 'https://app.example', 'Access-Control-Request-Method': 'POST', 'User-Agent': CHROME}
        answer = ask(self.server, 'OPTIONS', '/v2/models/identity/infer', ask_first)
        self.assertEqual((204, 'https://app.example'), (answer.status, answer.headers['access-control-allow-origin']))
        answer = ask(self.server, 'OPTIONS', '/v2/models/identity/infer', {**ask_first, 'Host': 'rebound.example'})
        self.assertEqual(403, answer.status)

    def test_names_that_are_listed_go_on(self):
        server = harness.Server('--http-hosts', 'weir.example', '--http-hosts', '*.b.example:8443')
        for host, status in (('weir.example', 200), ('weir.example:1', 200), ('x.b.example:8443', 200), ('x.b.example', 403),
                             ('localhost', 200), ('evil.example', 403)):
            self.assertEqual(status, ask(server, 'GET', '/v2', {'Host': host, 'User-Agent': CHROME}).status, host)
        own = {'Host': 'weir.example', 'Origin': 'https://weir.example', 'User-Agent': CHROME}
        one = b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1.5]}]}'
        self.assertEqual(200, ask(server, 'POST', '/v2/models/identity/infer', own, one).status)
        self.assertEqual(0, server.stop())


class AdminListen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = tempfile.mktemp(prefix='weir-admin-', suffix='.sock')
        cls.server = harness.Server('--admin-listen', '127.0.0.1:0', '--admin-listen', f'unix:{cls.path}', '--control', 'explicit',
                                    '--load', 'identity')
        cls.admin = int(re.search(r'admin methods are served at http://127\.0\.0\.1:(\d+)', cls.server.output())[1])
        assert cls.admin != cls.server.port

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.output()

    def test_the_main_listener_refuses_what_administers_and_nothing_else(self):
        for route in routes(harness.MODELS):
            if route['protocol'].startswith(('evergreen', 'health', 'reflection')) or route['path'] in ('/docs', *STREAMS):
                continue
            answer = ask(self.server, route['method'], filled(route['path']), {'Content-Type': 'application/json'}, b'{}')
            self.assertEqual(route['permission'] == 'admin' or route['path'] == TELLS, b'admin.listen' in answer.body, (route, answer.body[:200]))
            if route['permission'] == 'admin':
                self.assertEqual(403, answer.status, route)
        self.assertLess(40, refusals(self.server, 'admin_listener') + 40)
        self.assertEqual(200, curl(self.server.url('/grps/v1/health/ready')).status)

    def test_grpc_says_permission_denied_there_and_works_here(self):
        for port, code in ((self.server.port, grpc.StatusCode.PERMISSION_DENIED), (self.admin, grpc.StatusCode.OK)):
            with grpc.insecure_channel(f'127.0.0.1:{port}') as channel:
                stub = oip_grpc.GRPCInferenceServiceStub(channel)
                self.assertTrue(stub.ServerLive(oip.ServerLiveRequest()).live)
                try:
                    change = oip.LogSettingsRequest()
                    change.settings['log_info'].bool_param = True
                    stub.LogSettings(change)
                    got = grpc.StatusCode.OK
                except grpc.RpcError as error:
                    got = error.code()
                    self.assertEqual('admin methods are served at admin.listen', error.details())
                self.assertEqual(code, got)

    def test_models_come_and_go_by_either_admin_address(self):
        for url in (f'127.0.0.1:{self.admin}', f'unix:{self.path}'):
            for verb, ready in (('load', 0), ('unload', 1)):
                subprocess.run([str(harness.WEIR), verb, 'simple', url], check=True, timeout=harness.PATIENCE, cwd=harness.ROOT)
                done = subprocess.run([str(harness.WEIR), 'ready', '--model', 'simple', self.server.address], timeout=harness.PATIENCE)
                self.assertEqual(ready, done.returncode)
        done = subprocess.run([str(harness.WEIR), 'unload', 'identity', self.server.address], stderr=subprocess.PIPE)
        self.assertEqual(1, done.returncode)
        self.assertIn(b'admin.listen', done.stderr)

    def test_a_foreign_page_is_refused_there_too(self):
        for marks in FOREIGN:
            answer = ask(self.server, 'GET', '/grps/v1/health/offline', marks, port=self.admin)
            self.assertEqual(403, answer.status)
        self.assertEqual(200, curl(self.server.url('/grps/v1/health/ready')).status)


class Anonymous(unittest.TestCase):
    def call(self, server, source, method, body):
        answer = ask(server, 'POST', f'/salience.v1.Salience/{method}', {'Content-Type': 'application/json'},
                     json.dumps(body).encode(), source=source)
        return answer.status, answer.json() if answer.body else {}

    def cached(self, server, source, word):
        body = {'model': 'chat', 'prompt': f'{word} is a word that is said again and again. ' * 8, 'max_tokens': 1}
        answer = ask(server, 'POST', '/v1/completions', {'Content-Type': 'application/json'}, json.dumps(body).encode(), source=source)
        self.assertEqual(200, answer.status, answer.body)
        return answer.json()['usage'].get('prompt_tokens_details', {}).get('cached_tokens', 0)

    def check(self, server, shared):
        status, opened = self.call(server, '127.0.0.1', 'OpenSession', {'model': 'chat'})
        self.assertEqual(200, status)
        session = {'sessionId': opened.get('sessionId') or opened.get('session_id')}
        self.assertEqual(200, self.call(server, '127.0.0.1', 'DumpSession', session)[0])
        theirs = self.call(server, '127.0.0.2', 'DumpSession', session)
        unknown = self.call(server, '127.0.0.2', 'DumpSession', {'sessionId': '0' * 32})
        if shared:
            self.assertEqual(200, theirs[0])
        else:
            self.assertEqual(unknown, theirs)
        self.assertEqual(404, unknown[0])
        self.assertEqual(0, self.cached(server, '127.0.0.1', 'shared' if shared else 'apart'))
        self.assertLess(0, self.cached(server, '127.0.0.1', 'shared' if shared else 'apart'))
        self.assertEqual(shared, self.cached(server, '127.0.0.2', 'shared' if shared else 'apart') > 0)

    def test_sessions_and_prefixes_are_each_addresss_own(self):
        server = harness.Server()
        self.check(server, shared=False)
        self.assertEqual(0, server.stop())

    def test_or_everybodys_where_that_is_said(self):
        server = harness.Server('--sessions-anonymous', 'shared')
        self.check(server, shared=True)
        self.assertEqual(0, server.stop())


CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')

# Tries all that a page can do without being asked, then tells its own server what came of it.
PAGE = """<!doctype html><meta charset=utf-8><title>evil</title><iframe name=sink></iframe><script>
const weir = "%(weir)s", ws = weir.replace("http", "ws");
const told = {}, note = (what, how) => told[what] = how;
const text = {method: "POST", mode: "no-cors", headers: {"content-type": "text/plain"}};
const attempt = async (what, path, more) => {
  try { const r = await fetch(weir + path, more); note(what, r.type + " " + r.status); } catch (e) { note(what, "failed"); }
};
const image = path => new Promise(done => {
  const i = new Image(); i.onload = i.onerror = done; i.src = weir + path; document.body.append(i);
});
const form = (path, name, value) => {
  const f = document.createElement("form");
  f.action = weir + path; f.method = "post"; f.enctype = "text/plain"; f.target = "sink";
  const i = document.createElement("input");
  i.name = name; i.value = value; f.append(i); document.body.append(f); f.submit();
  return new Promise(done => setTimeout(done, 300));
};
const socket = () => new Promise(done => {
  const s = new WebSocket(ws + "/evergreen/v2/session");
  s.onopen = () => { note("socket", "open"); done(); };
  s.onerror = () => { note("socket", "refused"); done(); };
});
(async () => {
  await image("/grps/v1/health/offline");
  await image("/say?word=x");
  await form("/v2/logging", '{"log_info":false,"x":"', '"}');
  await attempt("logging", "/v2/logging", {...text, body: '{"log_info":false}'});
  await attempt("trace", "/v2/trace/setting", {...text, body: '{"trace_rate":"7"}'});
  await attempt("infer", "/v2/models/identity/infer",
                {...text, body: '{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1.5]}]}'});
  await attempt("chat", "/v1/completions", {...text, body: '{"model":"chat","prompt":"a","max_tokens":1}'});
  await attempt("offline", "/grps/v1/health/offline", {mode: "no-cors"});
  await attempt("cors", "/v2/models/identity/infer", {method: "POST", body: "{}", headers: {"content-type": "application/json"}});
  await attempt("read", "/v2/models", {});
  await socket();
  await fetch("/done", {method: "POST", body: JSON.stringify(told)});
})();
</script>
"""


class EvilSite(http.server.ThreadingHTTPServer):
    """Serves PAGE at every path, and keeps what the page tells it."""

    def __init__(self, weir):
        super().__init__(('127.0.0.1', 0), self.Handler)
        self.page, self.told, self.over = (PAGE % {'weir': weir}).encode(), None, threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def answer(self, body):
            self.send_response(200)
            self.send_header('content-type', 'text/html')
            self.send_header('content-length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer(self.server.page)

        def do_POST(self):
            self.server.told = json.loads(self.rfile.read(int(self.headers['content-length'])))
            self.answer(b'')
            self.server.over.set()


@unittest.skipUnless(CHROMIUM, 'Chromium is not installed')
class RealBrowser(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(config=configuration('real-browser.yaml'))

    def browser(self, url, *flags):
        profile = tempfile.mkdtemp(prefix='chromium-', dir=harness.scratch())
        return subprocess.Popen([CHROMIUM, '--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', f'--user-data-dir={profile}',
                                 '--disable-background-networking', *flags, url],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)

    def dom(self, url, *flags):
        browser = self.browser(url, '--dump-dom', *flags)
        out, _ = browser.communicate(timeout=60)
        return out.decode(errors='replace')

    def test_a_page_of_another_origin_changes_nothing(self):
        for host, weir in (('127.0.0.1', self.server.url()), ('evil.localhost', f'http://localhost:{self.server.port}')):
            before, count = state(self.server), refusals(self.server)
            site = EvilSite(weir)
            browser = self.browser(f'http://{host}:{site.server_port}/')
            try:
                self.assertTrue(site.over.wait(60), 'the page did not come to its end')
            finally:
                browser.terminate()
                browser.communicate(timeout=30)
                site.shutdown()
                site.server_close()
            self.assertEqual(before, state(self.server), host)
            self.assertEqual('refused', site.told['socket'])
            self.assertEqual('failed', site.told['cors'], 'the preflight is not allowed')
            self.assertEqual('failed', site.told['read'], 'a page may ask, but not read')
            for blind in ('logging', 'trace', 'infer', 'chat', 'offline'):
                self.assertEqual('opaque 0', site.told[blind], 'it was sent')
            self.assertEqual(9, refusals(self.server) - count, '2 images, 1 form, 5 posts and gets, 1 socket')

    def test_the_servers_own_pages_work(self):
        self.assertIn('Overview', self.dom(self.server.url('/')))
        self.assertIn('weir', self.dom(self.server.url('/docs')))
        count = refusals(self.server)
        self.assertIn('weir', self.dom(self.server.url('/grps/v1/')))
        self.assertEqual(count, refusals(self.server))

    def test_a_name_that_was_made_to_lead_here_is_refused(self):
        rules = '--host-resolver-rules=MAP rebound.example 127.0.0.1'
        self.assertIn('http.hosts', self.dom(f'http://rebound.example:{self.server.port}/v2/models', rules))
        self.assertNotIn('http.hosts', self.dom(f'http://a.localhost:{self.server.port}/v2/models'))


if __name__ == '__main__':
    harness.main()
