"""What browsers and operators see: gRPC-Web over both HTTP versions, CORS, the access log, /metrics, trace context."""

import base64
import json
import math
import re
import struct
import unittest

import harness

import grpc

oip, oip_grpc = harness.stubs()('inference')

ORIGIN = 'https://app.example'
INFER = '/inference.GRPCInferenceService/ModelInfer'
STREAM = '/inference.GRPCInferenceService/ModelStreamInfer'
ONE = '{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1.5]}]}'


def request(model='identity', n=4):
    r = oip.ModelInferRequest(model_name=model, id='web')
    r.inputs.add(name='x', datatype='FP32', shape=[n])
    r.raw_input_contents.append(struct.pack(f'<{n}f', *range(n)))
    return r


def frame(message):
    data = message.SerializeToString()
    return struct.pack('>BI', 0, len(data)) + data


def frames(body):
    """(messages, trailers) of a gRPC-Web body."""
    messages, trailers = [], {}
    while body:
        flag, size = struct.unpack('>BI', body[:5])
        part, body = body[5:5 + size], body[5 + size:]
        assert len(part) == size, 'a frame is cut off'
        if flag & 0x80:
            assert not body, 'trailers come last'
            trailers = dict(line.split(': ', 1) for line in part.decode().split('\r\n') if line)
        else:
            messages.append(part)
    return messages, trailers


def base64_pieces(text):
    """grpc-web-text: base64 whose pieces may each be padded."""
    return b''.join(base64.b64decode(piece) for piece in re.findall(rb'[^=]+=*', text))


class Web(harness.Case):
    serve = ('--cors-origin', ORIGIN)

    def post(self, path, body, content_type, *args):
        """The same over HTTP/1.1 and HTTP/2; the answers have to agree."""
        answers = [harness.curl(self.server.url(path), how, '-H', f'content-type: {content_type}', *args, data=body)
                   for how in ('--http1.1', '--http2-prior-knowledge')]
        self.assertEqual(*((a.status, a.headers.get('content-type'), a.body) for a in answers))
        return answers[0]

    def test_binary_unary(self):
        answer = self.post(INFER, frame(request()), 'application/grpc-web+proto', '-H', 'x-grpc-web: 1')
        self.assertEqual((200, 'application/grpc-web+proto'), (answer.status, answer.headers['content-type']))
        (message,), trailers = frames(answer.body)
        self.assertEqual('0', trailers['grpc-status'])
        response = oip.ModelInferResponse.FromString(message)
        self.assertEqual(('web', struct.pack('<4f', 0, 1, 2, 3)), (response.id, response.raw_output_contents[0]))

    def test_text_unary_whole_and_in_padded_pieces(self):
        data = frame(request())
        for body in (base64.b64encode(data), base64.b64encode(data[:5]) + base64.b64encode(data[5:])):
            answer = self.post(INFER, body, 'application/grpc-web-text')
            messages, trailers = frames(base64_pieces(answer.body))
            self.assertEqual((1, '0'), (len(messages), trailers['grpc-status']))

    def test_errors_are_in_the_trailers(self):
        for body, kind, code in ((frame(request('nothing')), 'application/grpc-web', '5'),
                                 (frame(request())[:-1], 'application/grpc-web', '13'),
                                 (b'!!!!', 'application/grpc-web-text', '13')):
            answer = self.post(INFER, body, kind, '-H', 'x-request-id: web-1')
            self.assertEqual(200, answer.status)
            raw = base64_pieces(answer.body) if 'text' in kind else answer.body
            messages, trailers = frames(raw)
            self.assertEqual(([], code), (messages, trailers['grpc-status']))
            self.assertIn('grpc-message', trailers)
            self.assertEqual('web-1', trailers['x-request-id'])

    def test_a_stream_of_answers(self):
        answer = self.post(STREAM, frame(request(n=2)) + frame(request('nothing')) + frame(request(n=3)), 'application/grpc-web')
        messages, trailers = frames(answer.body)
        self.assertEqual('0', trailers['grpc-status'])
        answers = [oip.ModelStreamInferResponse.FromString(m) for m in messages]
        self.assertEqual(['', True, ''], [a.error_message and True or '' for a in answers])
        self.assertEqual([2, 3], [a.infer_response.outputs[0].shape[0] for a in answers if not a.error_message])

    def test_rpcs_as_json_lines_and_events(self):
        body = '{"model_name":"identity","id":"1"}\n{"modelName":"identity","id":"2"}\n'
        lines = [json.loads(line) for line in self.post(STREAM, body, 'application/json').body.splitlines()]
        self.assertEqual(['1', '2'], [line['infer_response']['id'] for line in lines])
        answer = self.post(STREAM, body, 'application/json', '-H', 'accept: text/event-stream')
        self.assertTrue(answer.headers['content-type'].startswith('text/event-stream'))
        self.assertEqual(2, answer.body.count(b'data: {'))

    def test_preflight_and_exposed_headers(self):
        ask = ('-X', 'OPTIONS', '-H', 'access-control-request-method: POST',
               '-H', 'access-control-request-headers: content-type,x-grpc-web')
        for path in ('/v2/models/identity/infer', INFER):
            ours = harness.curl(self.server.url(path), *ask, '-H', f'origin: {ORIGIN}')
            self.assertEqual((204, ORIGIN), (ours.status, ours.headers.get('access-control-allow-origin')))
            self.assertIn('POST', ours.headers['access-control-allow-methods'])
            self.assertIn('x-grpc-web', ours.headers['access-control-allow-headers'])
            theirs = harness.curl(self.server.url(path), *ask, '-H', 'origin: https://evil.example')
            self.assertNotIn('access-control-allow-origin', theirs.headers)
            self.assertNotIn('access-control-allow-methods', theirs.headers)
        answer = self.post(INFER, frame(request()), 'application/grpc-web', '-H', f'origin: {ORIGIN}')
        self.assertEqual(ORIGIN, answer.headers['access-control-allow-origin'])
        for name in ('grpc-status', 'grpc-message', 'grpc-status-details-bin'):
            self.assertIn(name, answer.headers['access-control-expose-headers'])
        refused = harness.curl(self.server.url('/v2/models/nothing'), '-H', f'origin: {ORIGIN}')
        self.assertEqual((404, ORIGIN), (refused.status, refused.headers['access-control-allow-origin']))

    def test_without_an_origin_nothing_is_said(self):
        answer = harness.curl(self.server.url('/v2'))
        self.assertFalse([name for name in answer.headers if name.startswith('access-control')])


class Overload(unittest.TestCase):
    """A queue that is full says when to come back, in each protocol's form."""

    def test_full_is_429_and_resource_exhausted_with_a_time(self):
        root = harness.scratch() / 'overload'
        (root / 'slow').mkdir(parents=True)
        (root / 'slow/model.yaml').write_text('engine: identity\nparameters: {delay_us: 500000}\nbatching: {max_queue: 1}\n')
        server = harness.Server(repository=root)
        rest, web = [], []

        def client(i):
            if i % 2:
                rest.append(harness.curl(server.url('/v2/models/slow/infer'), data=ONE))
            else:
                answer = harness.curl(server.url(INFER), '-H', 'content-type: application/grpc-web', data=frame(request('slow')))
                web.append(frames(answer.body)[1])

        with harness.threads(16, client):
            pass
        full = [a for a in rest if a.status == 429]
        self.assertTrue(full, [a.status for a in rest])
        self.assertTrue(all(int(a.headers['retry-after']) >= 1 for a in full))
        full = [t for t in web if t['grpc-status'] == '8']
        self.assertTrue(full, web)
        details = full[0]['grpc-status-details-bin']
        self.assertEqual('1000', full[0]['grpc-retry-pushback-ms'])
        self.assertIn(b'google.rpc.RetryInfo', base64.b64decode(details + '=' * (-len(details) % 4)))
        outcomes = {dict(labels)['outcome']: value for (_, labels), value in
                    exposition(harness.curl(server.url('/metrics')).body.decode())['weir_model_requests_total'][1].items()}
        refused = sum(a.status == 429 for a in rest) + sum(t['grpc-status'] == '8' for t in web)
        self.assertEqual({'success': 16 - refused, 'rejected': refused, 'failed': 0, 'cancelled': 0, 'expired': 0}, outcomes)
        self.assertEqual(0, server.stop())


    def test_a_stream_that_outruns_its_model_is_held_back_not_refused(self):
        root = harness.scratch() / 'outrun'
        (root / 'slow').mkdir(parents=True)
        (root / 'slow/model.yaml').write_text('engine: identity\nparameters: {delay_us: 500}\nbatching: {max_queue: 9999}\n')
        server = harness.Server(repository=root)
        count = 1500
        with grpc.insecure_channel(server.address) as channel:
            stub = oip_grpc.GRPCInferenceServiceStub(channel)
            answers = list(stub.ModelStreamInfer((request('slow', n=1 + i % 3) for i in range(count)), timeout=harness.PATIENCE * 3))
        self.assertEqual(count, len(answers))
        self.assertEqual({''}, {a.error_message for a in answers})
        self.assertEqual([1 + i % 3 for i in range(count)], [a.infer_response.outputs[0].shape[0] for a in answers])
        body = b''.join(frame(request('slow')) for _ in range(count))
        answer = harness.curl(server.url(STREAM), '-H', 'content-type: application/grpc-web', data=body)
        messages, trailers = frames(answer.body)
        self.assertEqual((count, '0'), (len(messages), trailers['grpc-status']))
        self.assertEqual(0, server.stop())


class Log(unittest.TestCase):
    def test_every_line_is_json_and_every_request_has_one(self):
        log = harness.scratch() / 'web-access.log'
        server = harness.Server('--access-log', log)
        trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
        answer = harness.curl(server.url('/v2/models/identity/infer'), '-H', f'traceparent: {trace}', data=ONE)
        self.assertIn('0af7651916cd43dd8448eb211c80319c', answer.headers['traceparent'])
        harness.curl(server.url('/v2/models/identity'))
        harness.curl(server.url('/%22%0a%00quotes%5C'), '-H', 'x-request-id: we"ird')
        harness.curl(server.url(INFER), '--http2-prior-knowledge', '-H', 'content-type: application/grpc-web', data=frame(request()))
        harness.curl(server.url('/v2/models/simple/infer'), data='{"inputs":"\\u2028"}')
        self.assertEqual(0, server.stop())
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(5, len(lines))
        first = lines[0]
        self.assertEqual('0af7651916cd43dd8448eb211c80319c', first['trace_id'])
        for key in ('time', 'request_id', 'peer', 'protocol', 'model', 'status', 'code', 'bytes_in', 'bytes_out', 'seconds',
                    'compute_seconds'):
            self.assertIn(key, first)
        self.assertGreaterEqual(first['seconds'], first['compute_seconds'])
        self.assertEqual([200, 200, 404, 200, 400], [line['status'] for line in lines])
        self.assertEqual(5, len({line['request_id'] for line in lines}))


SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def exposition(text):
    """Parses Prometheus' text format as strictly as promtool: {family: (type, {(name, labels): value})}."""
    families, current, seen = {}, None, set()
    assert text.endswith('\n')
    for line in text.splitlines():
        if line.startswith('# HELP '):
            name = line.split(' ', 3)[2]
            assert name not in families, f'{name} is described twice'
            assert len(line.split(' ', 3)) == 4, line
            families[name], current = [None, {}], name
        elif line.startswith('# TYPE '):
            _, _, name, kind = line.split(' ')
            assert name == current and families[name][0] is None, line
            assert kind in ('counter', 'gauge', 'histogram', 'summary'), line
            families[name][0] = kind
        else:
            found = SAMPLE.match(line)
            assert found, line
            name, labels, value = found.groups()
            rest, pairs = labels or '', []
            while rest:
                label = LABEL.match(rest)
                assert label, line
                pairs.append(label.groups())
                rest = rest[label.end():]
            assert len(dict(pairs)) == len(pairs), line
            base = re.sub(r'_(bucket|sum|count)$', '', name) if families[current][0] == 'histogram' else name
            assert base == current, f'{line}: not in its family'
            key = (name, tuple(sorted(pairs)))
            assert key not in seen, f'{line}: twice'
            seen.add(key)
            families[current][1][key] = float(value)
    return families


class Metrics(harness.Case):
    serve = ('--metrics-compat', 'triton')

    def scrape(self):
        answer = harness.curl(self.server.url('/metrics'))
        self.assertEqual(200, answer.status)
        self.assertTrue(answer.headers['content-type'].startswith('text/plain; version=0.0.4'))
        return exposition(answer.body.decode())

    def test_the_format_is_what_prometheus_reads(self):
        for _ in range(3):
            harness.curl(self.server.url('/v2/models/identity/infer'), data=ONE)
            harness.curl(self.server.url('/v2/models/identity'))
        families = self.scrape()
        for name, (kind, samples) in families.items():
            self.assertIsNotNone(kind, name)
            if kind == 'counter' and name.startswith('weir_'):
                self.assertTrue(name.endswith('_total'), name)
            if kind != 'histogram':
                continue
            series = {}
            for (sample, labels), value in samples.items():
                if sample.endswith('_bucket'):
                    rest = tuple(p for p in labels if p[0] != 'le')
                    series.setdefault(rest, []).append((float(dict(labels)['le']), value))
            for labels, buckets in series.items():
                buckets.sort()
                self.assertEqual(math.inf, buckets[-1][0], name)
                self.assertEqual(sorted(v for _, v in buckets), [v for _, v in buckets], name)
                self.assertEqual(samples[(f'{name}_count', labels)], buckets[-1][1], name)
                self.assertIn((f'{name}_sum', labels), samples)

    def test_inferences_are_counted_and_looks_are_not(self):
        key = (('model', 'simple_int8'),)
        body = json.dumps({'inputs': [{'name': n, 'shape': [1, 16], 'datatype': 'INT8', 'data': [1] * 16}
                                      for n in ('INPUT0', 'INPUT1')]})
        self.assertEqual(200, harness.curl(self.server.url('/v2/models/simple_int8/infer'), data=body).status)
        for _ in range(5):
            harness.curl(self.server.url('/v2/models/simple_int8'))
        families = self.scrape()
        for family in ('weir_model_request_duration_seconds', 'weir_model_compute_seconds', 'weir_model_queue_seconds'):
            self.assertEqual(1, families[family][1][(f'{family}_count', key)], family)
        family = 'weir_model_compute_seconds'
        self.assertGreater(families[family][1][(f'{family}_sum', key)], 0)

    def test_tritons_names_are_there(self):
        harness.curl(self.server.url('/v2/models/identity/infer'), data=ONE)
        families = self.scrape()
        for name in ('nv_inference_request_success', 'nv_inference_request_failure', 'nv_inference_count',
                     'nv_inference_exec_count', 'nv_inference_pending_request_count', 'nv_inference_request_duration_us',
                     'nv_inference_queue_duration_us', 'nv_inference_compute_input_duration_us',
                     'nv_inference_compute_infer_duration_us', 'nv_inference_compute_output_duration_us',
                     'nv_model_load_duration_secs'):
            self.assertIn(name, families)
        labels = (('model', 'identity'), ('version', '1'))
        self.assertGreater(families['nv_inference_count'][1][('nv_inference_count', labels)], 0)

    def test_strangers_make_no_series(self):
        before = sum(len(samples) for _, samples in self.scrape().values())
        for i in range(50):
            harness.curl(self.server.url(f'/v2/models/no-{i}/infer'), data=ONE)
            harness.curl(self.server.url(f'/x{i}'), '-X', 'POST')
        after = sum(len(samples) for _, samples in self.scrape().values())
        self.assertLess(after - before, 150)


if __name__ == '__main__':
    harness.main()
