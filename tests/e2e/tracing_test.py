"""Traces: a server whose spans go to a collector, which OpenTelemetry's own npm packages read; and collectors that are no good."""

import base64
import functools
import gzip
import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import harness
import pipeline_test as pipelines

MODULES = harness.ROOT / '.cache/npm/node_modules'
ONE = json.dumps({'inputs': [{'name': 'INPUT', 'datatype': 'FP32', 'shape': [1, 4], 'data': [1, 2, 3, 4]}]})
INFER = '/v2/models/identity/infer'
TRACE = '0af7651916cd43dd8448eb211c80319c'
PARENT = 'b7ad6b7169203331'
# A pipeline of a pipeline and of one of its models.
OUTER = """
platform: "ensemble"
max_batch_size: 8
input [ { name: "a" data_type: TYPE_INT32 dims: 16 }, { name: "b" data_type: TYPE_INT32 dims: 16 } ]
output { name: "sum" data_type: TYPE_INT32 dims: 16 }
ensemble_scheduling {
  step { model_name: "fork" model_version: -1 input_map [ { key: "a" value: "a" }, { key: "b" value: "b" } ]
         output_map { key: "sum" value: "added" } }
  step { model_name: "left" model_version: -1 input_map { key: "t" value: "added" } output_map { key: "t" value: "sum" } }
}
"""
SAMPLED = ('-H', f'traceparent: 00-{TRACE}-{PARENT}-01')


class Collector:
    """Takes POSTs and answers what `answer(self, handler)` says; the bodies are in `bodies`, the heads in `heads`."""

    def __init__(self, answer=None, tls=None):
        outer = self
        self.bodies, self.heads = [], []
        self.changed = threading.Condition()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                body = self.rfile.read(int(self.headers['content-length']))
                with outer.changed:
                    outer.heads.append((self.path, dict(self.headers)))
                    outer.bodies.append(gzip.decompress(body) if self.headers['content-encoding'] == 'gzip' else body)
                    outer.changed.notify_all()
                try:
                    (answer or Collector.ok)(outer, self)
                except OSError:
                    pass  # the server has hung up

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def ok(self, handler):
        handler.send_response(200)
        handler.send_header('content-type', 'application/x-protobuf')
        handler.send_header('content-length', '0')
        handler.end_headers()

    def wait_for(self, count):
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.bodies) >= count, harness.PATIENCE):
                raise RuntimeError(f'{len(self.bodies)} of {count} exports')

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f'http://127.0.0.1:{self.port}'


def node(*arguments, data=None):
    done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e/otel_client.js'), *arguments], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, 'NODE_PATH': str(MODULES)}, timeout=harness.PATIENCE)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return json.loads(done.stdout)


def plain(value):
    """An AnyValue as a Python value."""
    (kind, inner), = value.items()
    if kind == 'arrayValue':
        return [plain(each) for each in inner['values']]
    return int(inner) if kind == 'intValue' else inner


def attributes(owner):
    return {each['key']: plain(each['value']) for each in owner.get('attributes', [])}


def spans_of(bodies):
    """All spans, as OpenTelemetry's packages decode them; and the resource's attributes."""
    requests = node('decode', data=b'\n'.join(base64.b64encode(body) for body in bodies))
    spans, resource = [], {}
    for request in requests:
        for group in request['resourceSpans']:
            resource = attributes(group['resource'])
            for scope in group['scopeSpans']:
                assert scope['scope']['name'] == 'weir', scope
                spans += scope['spans']
    return spans, resource


def counted(server, outcome):
    text = harness.curl(server.url('/metrics')).body.decode()
    return next((int(line.split()[-1]) for line in text.splitlines() if line.startswith(f'weir_spans_total{{outcome="{outcome}"}}')), 0)


@unittest.skipUnless(shutil.which('node') and (MODULES / '@opentelemetry/otlp-transformer').exists(),
                     "node or OpenTelemetry's npm packages are missing")
class Spans(unittest.TestCase):
    def serve(self, *flags, env=None, collector=None, repository=harness.MODELS):
        self.collector = collector or Collector()
        self.addCleanup(self.collector.close)
        return harness.Server('--tracing-otlp', self.collector.url, *flags, env=env, repository=repository)

    def nests(self, request, spans):
        """The children of a request, in their order; each lies inside of it, and none begins before the one before it."""
        own = sorted((s for s in spans if s.get('parentSpanId') == request['spanId']), key=lambda s: int(s['startTimeUnixNano']))
        for child in own:
            self.assertEqual(request['traceId'], child['traceId'])
            self.assertLessEqual(int(request['startTimeUnixNano']), int(child['startTimeUnixNano']))
            self.assertLessEqual(int(child['startTimeUnixNano']), int(child['endTimeUnixNano']))
            self.assertLessEqual(int(child['endTimeUnixNano']), int(request['endTimeUnixNano']))
        return {child['name']: child for child in own}

    def test_one_request_through_two_protocols_continues_the_clients_traces(self):
        server = self.serve('--tracing-sample', '0', '--tracing-baggage', 'user.id', '--tracing-headers', 'api-key=let me in',
                            env={'OTEL_SERVICE_NAME': 'gate', 'OTEL_RESOURCE_ATTRIBUTES': 'deployment.environment.name=te%20st'})
        begun = time.time_ns()
        theirs = node('call', str(harness.ROOT / 'proto'), server.address)
        self.assertEqual(0, server.stop())  # which sends what is left, long before a batch is due
        path, head = self.collector.heads[0]
        self.assertEqual('/v1/traces', path)
        self.assertEqual('application/x-protobuf', head['content-type'])
        self.assertEqual('let me in', head['api-key'])
        spans, resource = spans_of(self.collector.bodies)
        self.assertEqual(('gate', 'te st'), (resource['service.name'], resource['deployment.environment.name']))
        requests = {s['attributes'] and attributes(s)['weir.protocol']: s for s in spans if s['kind'] == 2}
        self.assertEqual({'oip-rest', 'oip-grpc'}, set(requests))
        for protocol, client, name in (('oip-rest', theirs['rest'], 'POST /v2/models/{model}/infer'),
                                       ('oip-grpc', theirs['grpc'], 'inference.GRPCInferenceService/ModelInfer')):
            request = requests[protocol]
            self.assertEqual((client['traceId'], client['spanId']), (request['traceId'], request['parentSpanId']))
            self.assertEqual(name, request['name'])
            self.assertLessEqual(begun - 10**9, int(request['startTimeUnixNano']))
            self.assertLessEqual(int(request['endTimeUnixNano']), time.time_ns())
            children = self.nests(request, spans)
            self.assertLessEqual({'receive', 'queue', 'stage', 'compute', 'send'}, set(children))
            said = attributes(children['compute'])
            self.assertEqual(('identity', '1'), (said['weir.model.name'], said['weir.model.version']))
        rest, rpc = attributes(requests['oip-rest']), attributes(requests['oip-grpc'])
        self.assertEqual(('POST', 200, '/v2/models/{model}/infer', INFER, '1.1'),
                         tuple(rest[key] for key in ('http.request.method', 'http.response.status_code', 'http.route', 'url.path',
                                                     'network.protocol.version')))
        self.assertEqual('al ice', rest['baggage.user.id'])
        self.assertNotIn('secret', json.dumps(spans))
        self.assertEqual(('grpc', 'inference.GRPCInferenceService', 'ModelInfer', 0),
                         tuple(rpc[key] for key in ('rpc.system', 'rpc.service', 'rpc.method', 'rpc.grpc.status_code')))
        self.assertEqual(f"00-{theirs['rest']['traceId']}-{requests['oip-rest']['spanId']}-01", theirs['answered']['traceparent'])

    def test_of_a_model_of_text_tokens_are_counted(self):
        server = self.serve()
        body = {'model': 'chat', 'messages': [{'role': 'user', 'content': 'What is curl?'}], 'stream': True, 'max_tokens': 5,
                'ignore_eos': True, 'stream_options': {'include_usage': True}}
        answer = harness.curl(server.url('/v1/chat/completions'), data=json.dumps(body))
        usage = json.loads(answer.body.split(b'data: ')[-2])['usage']
        self.assertEqual(0, server.stop())
        spans, _ = spans_of(self.collector.bodies)
        request, = (s for s in spans if s['kind'] == 2)
        said = attributes(request)
        self.assertEqual(('chat', 'chat', usage['prompt_tokens'], 5, ['length']),
                         tuple(said[f'gen_ai.{key}'] for key in ('operation.name', 'request.model', 'usage.input_tokens',
                                                                 'usage.output_tokens', 'response.finish_reasons')))
        took = (int(request['endTimeUnixNano']) - int(request['startTimeUnixNano'])) / 1e9
        self.assertTrue(0 < said['gen_ai.server.time_to_first_token'] <= took, (said, took))
        self.assertEqual(5, attributes(self.nests(request, spans)['compute'])['gen_ai.usage.output_tokens'])

    def test_a_session_over_a_websocket_is_one_request_and_each_inference_a_child(self):
        import evergreen_client as evergreen
        server = self.serve()
        kind, tensor = 'application/x-weir-tensor; dtype=INT32; shape=1,16', bytes(64)
        traced = functools.partial(evergreen.WebSocketSession, headers=f'traceparent: 00-{TRACE}-{PARENT}-01\r\n')
        for session in (traced(server), evergreen.Http2WebSocketSession(server)):
            for turn in range(2):
                session.send(evergreen.action('INFER', {'INPUT0': f'a{turn}', 'INPUT1': f'a{turn}'}, {'OUTPUT0': f'sum{turn}'}, 'simple'))
                session.send(evergreen.leaf(f'a{turn}', tensor, kind))
                evergreen.read_until(session, f'sum{turn}')
            session.end()
            self.assertEqual([], list(session.messages()))
            session.close()
        self.assertEqual(0, server.stop())
        spans, _ = spans_of(self.collector.bodies)
        requests = [s for s in spans if s['kind'] == 2]
        self.assertEqual(['GET /evergreen/v2/session', 'GET /evergreen/v2/session'], [s['name'] for s in requests])
        self.assertEqual((TRACE, PARENT), (requests[0]['traceId'], requests[0]['parentSpanId']))
        for request, status in zip(requests, (101, 200)):
            said = attributes(request)
            self.assertEqual((status, 2), (said['http.response.status_code'], said['weir.inferences']))
            self.nests(request, spans)
            computed = [attributes(s) for s in spans if s.get('parentSpanId') == request['spanId'] and s['name'] == 'compute']
            self.assertEqual(['simple', 'simple'], [each['weir.model.name'] for each in computed])

    def test_each_step_of_a_pipeline_is_below_it_and_those_side_by_side_overlap(self):
        repository = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        shutil.copytree(harness.MODELS / 'simple', repository / 'simple')
        for name, text in (('left', pipelines.SLOW), ('right', pipelines.SLOW), ('fork', pipelines.FORK), ('outer', OUTER)):
            (repository / name).mkdir()
            (repository / name / 'config.pbtxt').write_text(text)
        server = self.serve(repository=repository)
        tensor = lambda name, value: {'name': name, 'datatype': 'INT32', 'shape': [1, 16], 'data': [value] * 16}
        body = json.dumps({'inputs': [tensor('a', 3), tensor('b', 4)]})
        answer = harness.curl(server.url('/v2/models/outer/infer'), *SAMPLED, data=body)
        self.assertEqual([7] * 16, answer.json()['outputs'][0]['data'])
        self.assertEqual(0, server.stop())
        spans, _ = spans_of(self.collector.bodies)
        request, = (s for s in spans if s['kind'] == 2)
        whole = self.nests(request, spans)
        self.assertEqual({'receive', 'pipeline', 'send'}, set(whole) - {'decode'})
        outer = self.nests(whole['pipeline'], spans)
        self.assertEqual(['step 1 (fork)', 'step 2 (left)'], list(outer))
        fork, after = outer.values()
        self.assertEqual('fork', attributes(fork)['weir.model.name'])
        inner = {attributes(s)['weir.model.name']: s for s in self.nests(fork, spans).values()}
        self.assertEqual({'left', 'right', 'simple'}, set(inner))
        for step in (*inner.values(), after):
            self.assertEqual({'queue', 'stage', 'compute'}, set(self.nests(step, spans)))
        start, end = (lambda model: int(inner[model]['startTimeUnixNano'])), (lambda model: int(inner[model]['endTimeUnixNano']))
        self.assertLess(start('left'), end('right'))
        self.assertLess(start('right'), end('left'))
        self.assertLessEqual(max(end('left'), end('right')), start('simple'))
        self.assertLessEqual(int(fork['endTimeUnixNano']), int(after['startTimeUnixNano']))
        self.assertEqual({TRACE}, {s['traceId'] for s in spans})

    def test_the_ratio_goes_with_the_trace(self):
        server = self.serve()
        harness.curl(server.url(INFER), data=ONE)
        harness.curl(server.url(INFER), *SAMPLED, '-H', 'tracestate: a=1,ot=th:8', data=ONE)
        self.assertEqual(0, server.stop())
        spans, _ = spans_of(self.collector.bodies)
        self.assertEqual(['ot=th:0', 'a=1,ot=th:8'], [s.get('traceState') for s in spans if s['kind'] == 2])

    def test_a_protocol_that_is_not_spoken_is_told(self):
        for protocol, told in (('grpc', True), ('http/protobuf', False)):
            server = self.serve(env={'OTEL_EXPORTER_OTLP_PROTOCOL': protocol, 'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://127.0.0.1:9'})
            self.assertEqual(told, 'spans go to the collector by http/protobuf' in server.output(), protocol)
            self.assertEqual(0, server.stop())

    def test_errors_have_a_code_and_words(self):
        server = self.serve('--tracing-compression', 'gzip')
        harness.curl(server.url('/v2/models/nothing/infer'), data=ONE)
        harness.curl(server.url('/%ff'), '-A', b'\xff\xfe')
        frame = base64.b64encode(b'\0\0\0\0\0')
        harness.curl(server.url('/inference.GRPCInferenceService/Nothing'), '-H', 'content-type: application/grpc-web-text', data=frame)
        self.assertEqual(0, server.stop())
        spans, _ = spans_of(self.collector.bodies)
        unknown, stray, method = (s for s in spans if s['kind'] == 2)
        self.assertEqual(('NOT_FOUND', 404), (attributes(unknown)['error.type'], attributes(unknown)['http.response.status_code']))
        self.assertNotIn('code', unknown.get('status', {}))
        self.assertEqual('GET', stray['name'])
        self.assertEqual(12, attributes(method)['rpc.grpc.status_code'])
        self.assertEqual(2, method['status']['code'])
        self.assertIn('Nothing', method['status']['message'])

    def test_without_context_the_ratio_decides_and_flags_of_strangers_mean_what_is_set(self):
        server = self.serve('--tracing-sample', '0', '--tracing-parent', 'ignore')
        self.assertNotIn('traceparent', harness.curl(server.url(INFER), data=ONE).headers)
        harness.curl(server.url(INFER), *SAMPLED, data=ONE)
        self.assertEqual(0, server.stop())
        self.assertEqual([], self.collector.bodies)
        server = self.serve('--tracing-parent', 'ignore')
        harness.curl(server.url(INFER), *SAMPLED, data=ONE)
        self.assertEqual(0, server.stop())
        spans, _ = spans_of(self.collector.bodies)
        request, = (s for s in spans if s['kind'] == 2)
        self.assertNotEqual(TRACE, request['traceId'])
        self.assertFalse(request.get('parentSpanId'))
        self.assertEqual([(TRACE, PARENT)], [(link['traceId'], link['spanId']) for link in request['links']])

    def test_spans_go_over_tls_to_who_can_prove_itself(self):
        folder = harness.scratch() / 'collector'
        folder.mkdir(exist_ok=True)
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1',
                        '-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', folder / 'key.pem',
                        '-out', folder / 'cert.pem'], check=True, stderr=subprocess.DEVNULL)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / 'cert.pem', folder / 'key.pem')
        collector = Collector(tls=tls)
        self.addCleanup(collector.close)
        endpoint = {'OTEL_EXPORTER_OTLP_ENDPOINT': f'https://127.0.0.1:{collector.port}/prefix/'}
        server = harness.Server(env=endpoint)
        harness.curl(server.url(INFER), data=ONE)
        self.assertEqual(0, server.stop())
        self.assertEqual([], collector.bodies)
        self.assertIn('the collector does not take spans', server.output())
        server = harness.Server(env={**endpoint, 'OTEL_EXPORTER_OTLP_CERTIFICATE': str(folder / 'cert.pem'),
                                     'OTEL_EXPORTER_OTLP_HEADERS': 'x-key=a%20b'})
        harness.curl(server.url(INFER), data=ONE)
        self.assertEqual(0, server.stop())
        self.assertEqual('/prefix/v1/traces', collector.heads[0][0])
        self.assertEqual('a b', collector.heads[0][1]['x-key'])
        self.assertTrue(spans_of(collector.bodies)[0])


class BadCollectors(unittest.TestCase):
    """Whatever a collector does, requests are answered and the server ends in its time."""

    def served(self, url, *flags):
        server = harness.Server('--tracing-otlp', url, '--tracing-timeout', '500ms', *flags)
        for _ in range(50):
            self.assertEqual(200, harness.curl(server.url(INFER), data=ONE).status)
        return server

    def bad(self, answer):
        collector = Collector(answer)
        self.addCleanup(collector.close)
        return collector

    def test_away(self):
        with socket.socket() as taken:
            taken.bind(('127.0.0.1', 0))
            server = self.served(f'http://127.0.0.1:{taken.getsockname()[1]}')
            self.assertEqual(0, server.stop())
        self.assertIn('cannot connect', server.output())
        self.assertIn('tracing ends with spans lost', server.output())

    def test_a_name_that_is_not_there(self):
        server = self.served('http://collector.invalid:4318')
        self.assertEqual(0, server.stop())

    def test_silent(self):
        over = threading.Event()
        self.addCleanup(over.set)
        server = self.served(self.bad(lambda _, handler: over.wait(600)).url)
        self.assertEqual(0, server.stop())

    def test_slow_and_endless(self):
        def endless(_, handler):
            handler.wfile.write(b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
            while True:
                handler.wfile.write(b'4000\r\n' + b'x' * 0x4000 + b'\r\n')

        def drip(_, handler):
            while True:
                handler.wfile.write(b'HTTP/1.1 100 Continue\r\n\r\n')

        for answer in (endless, drip):
            server = self.served(self.bad(answer).url)
            rss = server.rss()
            self.assertEqual(0, server.stop())
            self.assertLess(rss, 1 << 30)

    def test_one_that_refuses_costs_the_batch_alone(self):
        def refuse_first(collector, handler):
            if len(collector.bodies) > 1:
                return collector.ok(handler)
            handler.send_response(400)
            handler.send_header('content-length', '0')
            handler.end_headers()

        collector = self.bad(refuse_first)
        server = self.served(collector.url)
        collector.wait_for(1)
        harness.curl(server.url(INFER), data=ONE)
        self.assertEqual(0, server.stop())
        self.assertEqual(2, len(collector.bodies))
        self.assertIn('it answered 400', server.output())
        self.assertIn('takes spans again', server.output())

    def test_one_that_is_busy_gets_the_same_batch_again_when_it_says(self):
        def busy_first(collector, handler):
            if len(collector.bodies) > 2:
                return collector.ok(handler)
            handler.send_response((503, 429)[len(collector.bodies) - 1])
            handler.send_header('retry-after', '0')
            handler.send_header('content-length', '0')
            handler.end_headers()

        collector = self.bad(busy_first)
        server = self.served(collector.url)
        collector.wait_for(3)
        self.assertEqual(1, len(set(collector.bodies[:3])))
        self.assertEqual(0, server.stop())

    def test_settings_that_mean_nothing_are_told(self):
        for flags, text in ((('--tracing-otlp', 'collector:4318'), 'expected a URL'), (('--tracing-sample', '2'), 'from 0 to 1'),
                            (('--tracing-headers', 'a b=c'), 'name of a header'), (('--tracing-resource', 'x'), 'name=value')):
            done = subprocess.run([str(harness.WEIR), 'check', *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertNotEqual(0, done.returncode)
            self.assertIn(text, done.stdout.decode())


class Exemplars(unittest.TestCase):
    def test_the_page_is_openmetrics_for_who_asks(self):
        try:
            from prometheus_client.openmetrics.parser import text_string_to_metric_families
        except ImportError:
            self.skipTest('prometheus_client is missing')
        collector = Collector()
        self.addCleanup(collector.close)
        server = harness.Server('--tracing-otlp', collector.url, '--tracing-sample', '0', '--metrics-compat', 'triton', '--metrics-compat', 'vllm')
        harness.curl(server.url(INFER), *SAMPLED, data=ONE)
        harness.curl(server.url('/v1/completions'), data=json.dumps({'model': 'chat', 'prompt': 'x', 'max_tokens': 2}))
        accept = ('-H', 'accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2')
        page = harness.curl(server.url('/metrics'), *accept)
        self.assertTrue(page.headers['content-type'].startswith('application/openmetrics-text; version=1.0.0'))
        families = {family.name: family for family in text_string_to_metric_families(page.body.decode())}
        found = [sample.exemplar for sample in families['weir_request_duration_seconds'].samples
                 if sample.exemplar and sample.labels['protocol'] == 'oip-rest']
        self.assertEqual([TRACE], [exemplar.labels['trace_id'] for exemplar in found])
        self.assertAlmostEqual(time.time(), float(found[0].timestamp), delta=harness.PATIENCE)
        of_model = [sample.exemplar for sample in families['weir_model_request_duration_seconds'].samples
                    if sample.exemplar and sample.labels['model'] == 'identity']
        self.assertEqual([TRACE], [exemplar.labels['trace_id'] for exemplar in of_model])
        self.assertIn('weir_requests', families)
        text = harness.curl(server.url('/metrics')).body.decode()
        self.assertNotIn('# EOF', text)
        self.assertNotIn(TRACE, text)
        self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main()
