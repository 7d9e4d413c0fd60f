"""GRPS as its clients see it: curl over REST, grpcio over gRPC, beside the Open Inference Protocol on the same models."""

import base64
import json
import re
import struct
import subprocess
import tempfile

import harness
from harness import curl

JSON = ('-H', 'Content-Type: application/json')
OCTETS = ('-H', 'Content-Type: application/octet-stream')
pb, rpc = harness.stubs()('grps')


class Grps(harness.GrpcCase):
    stub_class = rpc.GrpsServiceStub

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.images, cls.labels = harness.heldout()

    def predict(self, body, query='', *args):
        body = body if isinstance(body, (str, bytes)) else json.dumps(body)
        return curl(self.server.url('/grps/v1/infer/predict' + query), *(args or JSON), data=body)

    def oip_probabilities(self, image):
        body = {'inputs': [{'name': 'image', 'shape': [1, 64], 'datatype': 'FP32', 'data': image}]}
        answer = curl(self.server.url('/v2/models/digits/infer'), *JSON, data=json.dumps(body)).json()
        return self.as_floats(answer['outputs'][0]['data'])

    @staticmethod
    def as_floats(values):
        return struct.pack(f'<{len(values)}f', *values)

    def test_the_page_of_charts_is_the_consoles_and_its_series_are_all_there(self):
        for path in ('/grps/v1', '/grps/v1/', '/grps/v1/monitor'):
            page = curl(self.server.url(path))
            self.assertEqual((302, '/#/docs/grps'), (page.status, page.headers['location']))
        rows = curl(self.server.url('/grps/v1/monitor/metrics'), '-H', 'accept: application/json').json()
        for name in rows:
            series = curl(self.server.url('/grps/v1/monitor/series'), '--get', '--data-urlencode', 'name=' + name).json()
            self.assertEqual(174 if series['label'] == 'trend' else 20, len(series['data']), name)

    def test_the_last_batches_of_a_model_are_a_timeline(self):
        self.oip_probabilities(self.images[0])
        timeline = curl(self.server.url('/grps/v1/monitor/batches?model=digits')).json()
        self.assertEqual(('digits', ['cpu']), (timeline['model'], timeline['places'][:1]))
        last = timeline['batches'][-1]
        self.assertEqual((1, 1), (last['calls'], last['rows']))
        steps = sum(last[step] for step in ('gather', 'up', 'compute', 'down', 'answer'))
        self.assertLessEqual(last['start'] + steps, timeline['now'] + 1000)
        self.assertEqual(404, curl(self.server.url('/grps/v1/monitor/batches?model=nobody')).status)

    # --- digits: the same probabilities whichever way they are asked for
    def test_digits_have_the_probabilities_of_oip_in_every_payload(self):
        for image in self.images[:5]:
            expected = self.oip_probabilities(image)
            tensor = {'name': 'image', 'dtype': 'DT_FLOAT32', 'shape': [1, 64], 'flat_float32': image}
            answer = self.predict({'model': 'digits-1', 'gtensors': {'tensors': [tensor]}}).json()
            self.assertEqual({'code': 200, 'msg': 'OK', 'status': 'SUCCESS'}, answer['status'])
            self.assertEqual(expected, self.as_floats(answer['gtensors']['tensors'][0]['flat_float32']))
            answer = self.predict({'ndarray': [image]}, '?model=digits&return-ndarray=true').json()
            self.assertEqual(expected, self.as_floats(answer['ndarray'][0]))
            answer = self.predict(self.as_floats(image), '?model=digits', *OCTETS)
            self.assertEqual('application/octet-stream', answer.headers['content-type'])
            self.assertEqual(expected, answer.body)
            request = pb.GrpsMessage(model='digits')
            request.gtensors.tensors.add(name='image', dtype=pb.DT_FLOAT32, shape=[1, 64], flat_float32=image)
            reply = self.stub.Predict(request)
            self.assertEqual(expected, self.as_floats(reply.gtensors.tensors[0].flat_float32))
            parts = list(self.stub.PredictStreaming(request))
            self.assertEqual([expected], [self.as_floats(p.gtensors.tensors[0].flat_float32) for p in parts])

    def test_digits_are_recognized(self):
        right = 0
        for image, label in zip(self.images[:50], self.labels[:50]):
            row = self.stub.Predict(pb.GrpsMessage(model='digits', bin_data=self.as_floats(image))).bin_data
            values = struct.unpack('<10f', row)
            right += values.index(max(values)) == label
        self.assertGreaterEqual(right, 45)

    # --- REST
    def test_health_by_get_and_post(self):
        for method in ('GET', 'POST'):
            for what, status in (('online', 200), ('ready', 200), ('live', 200), ('offline', 200), ('ready', 503), ('online', 200)):
                answer = curl(self.server.url(f'/grps/v1/health/{what}'), '-X', method, *JSON)
                self.assertEqual(status, answer.status, what)
                self.assertEqual('SUCCESS' if status == 200 else 'FAILURE', answer.json()['status']['status'])

    def test_the_answer_is_indented_as_the_reference_server_does(self):
        self.assertTrue(self.predict({'str_data': 'x'}, '?model=identity').body.startswith(
            b'{\n "status": {\n  "code": 200,\n  "msg": "OK",\n  "status": "SUCCESS"\n },\n "str_data": "x"'))

    def test_metadata_is_yaml(self):
        server = curl(self.server.url('/grps/v1/metadata/server')).json()['str_data']
        self.assertIn('- name: "digits"', server)
        model = curl(self.server.url('/grps/v1/metadata/model'), *JSON, data='{"str_data": "digits"}').json()['str_data']
        self.assertIn('dtype: "FP32"', model)

    def test_maps_and_strings_come_back(self):
        maps = {'s_s': {'a': 'é'}, 's_b': {'b': base64.b64encode(b'\xff\x00').decode()}, 's_i64': {'c': str(-2**63)}}
        self.assertEqual(maps, self.predict({'model': 'identity', 'gmap': maps}).json()['gmap'])
        text = self.predict({'model': 'simple_string', 'str_data': 'x'})
        self.assertEqual(400, text.status)
        self.assertIn('BYTES', text.json()['status']['msg'])

    def test_errors_have_real_codes(self):
        self.assertEqual(404, self.predict({'str_data': 'x'}, '?model=nothing').status)
        self.assertEqual(400, self.predict('{', '?model=identity').status)
        self.assertEqual(400, self.predict({'str_data': 'x'}, '', '-H', 'Content-Type: text/plain').status)
        self.assertEqual(404, curl(self.server.url('/grps/v1/x')).status)

    def test_the_monitor_has_trends_and_a_distribution(self):
        series = lambda name: curl(self.server.url('/grps/v1/monitor/series?name=' + name)).json()
        trend = series('*qps')
        self.assertEqual(('trend', list(range(174))), (trend['label'], [x for x, _ in trend['data']]))
        cdf = series('*latency_cdf(ms)')
        self.assertEqual(('cdf', [*range(10, 91, 10), *range(91, 102)]), (cdf['label'], [x for x, _ in cdf['data']]))
        self.assertGreater(series('*mem_usage(MIB)')['data'][-1][1], 1)
        for name in ('*mem_usage(%)', '*cpu_usage(%)', '*fail_rate(%)', '*latency_avg(ms)', '*latency_max(ms)'):
            self.assertEqual('trend', series(name)['label'], 'not escaped, as the reference server asks')
            self.assertEqual(series(name)['label'], series(name.replace('%', '%25'))['label'])

    def test_streaming_is_chunked(self):
        answer = self.predict({'str_data': 'x'}, '?model=identity&streaming=true')
        self.assertEqual('chunked', answer.headers['transfer-encoding'])
        self.assertEqual('application/octet-stream', answer.headers['content-type'])
        self.assertIn(b'"str_data": "x"', answer.body)

    def test_one_key_may_be_in_every_map(self):
        maps = {'s_s': {'key': 'value'}, 's_b': {'key': base64.b64encode(b'hello').decode()}, 's_i32': {'key': 1},
                's_i64': {'key': '1'}, 's_f': {'key': 1.0}, 's_d': {'key': 1.0}}
        self.assertEqual(maps, self.predict({'model': 'identity', 'gmap': maps}).json()['gmap'])
        request = pb.GrpsMessage(model='identity')
        for name in maps:
            getattr(request.gmap, name)['key'] = b'hello' if name == 's_b' else 'value' if name == 's_s' else 1
        self.assertEqual(request.gmap, self.stub.Predict(request).gmap)

    def test_tensors_without_names_are_the_inputs_in_their_order(self):
        tensors = [{'dtype': 'DT_INT32', 'shape': [1, 16], 'flat_int32': [v] * 16} for v in (5, 3)]
        answer = self.predict({'model': 'simple', 'gtensors': {'tensors': tensors}}).json()
        self.assertEqual([[8] * 16, [2] * 16], [t['flat_int32'] for t in answer['gtensors']['tensors']])

    # --- gRPC
    def test_all_eight_calls(self):
        empty = pb.GrpsMessage()
        for call in (self.stub.Offline, self.stub.Online, self.stub.CheckLiveness, self.stub.CheckReadiness):
            status = call(empty).status
            self.assertEqual((200, 'OK', pb.Status.SUCCESS), (status.code, status.msg, status.status))
        self.assertIn('digits', self.stub.ServerMetadata(empty).str_data)
        self.assertIn('INPUT0', self.stub.ModelMetadata(pb.GrpsMessage(str_data='simple')).str_data)
        self.assertEqual(404, self.stub.Predict(pb.GrpsMessage(model='nothing', str_data='x')).status.code)
        parts = list(self.stub.PredictStreaming(pb.GrpsMessage(model='nothing', str_data='x')))
        self.assertEqual([pb.Status.FAILURE], [p.status.status for p in parts])

    def test_a_malformed_message_is_an_error_not_an_end(self):
        call = self.channel.unary_unary('/grps.protos.v1.GrpsService/Predict', response_deserializer=pb.GrpsMessage.FromString)
        for junk in (b'\x2a\x7f', b'\x2a\x03\x0a\x01\x08', bytes(range(256))):
            self.assertEqual(400, call(junk).status.code)
        self.assertEqual(200, self.stub.CheckLiveness(pb.GrpsMessage()).status.code)

    def test_the_service_is_there_for_json_and_reflection(self):
        answer = curl(self.server.url('/grps.protos.v1.GrpsService/Predict'), *JSON, data='{"model":"identity","str_data":"x"}')
        self.assertEqual('x', answer.json()['str_data'])


class Settings(harness.Case):
    serve = ('--models-default', 'identity')

    def test_the_default_model_answers_where_none_is_named(self):
        url = self.server.url('/grps/v1/infer/predict')
        answer = curl(url + '?model=nothing', *JSON, data='{"str_data":"x"}')
        self.assertEqual((404, 404), (answer.status, answer.json()['status']['code']))
        answer = curl(url + '?streaming=true', *JSON, '-H', 'accept: application/x-ndjson', data='{"str_data":"x"}')
        self.assertEqual('application/x-ndjson', answer.headers['content-type'])
        self.assertEqual(['x'], [json.loads(line)['str_data'] for line in answer.body.splitlines()])


class WithoutTheConsole(harness.Case):
    serve = ('--console-enabled=false',)

    def test_the_root_page_in_a_browser_leads_to_the_metrics(self):
        page = curl(self.server.url('/'), '-H', 'accept: text/html').body.decode()
        links = re.findall(r'<a href="([^"]+)">', page)
        self.assertIn('metrics', links)
        metrics = curl(self.server.url('/' + next(link for link in links if link.startswith('grps/v1/'))), '-H', 'accept: text/html')
        self.assertEqual((200, 'text/html; charset=utf-8'), (metrics.status, metrics.headers['content-type']))
        for name in ('*cpu_usage(%)', '*mem_usage(%)', '*mem_usage(MIB)'):
            self.assertIn(name.encode(), metrics.body)


class StreamingByTheBody(harness.Case):
    serve = ('--grps-streaming', 'body_param:stream', '--models-default', 'identity')

    def test_a_member_of_the_body_switches_it_on(self):
        url = self.server.url('/grps/v1/infer/predict')
        for body, kind in (('{"str_data":"x","stream":true}', 'application/octet-stream'),
                           ('{"str_data":"x","stream":false}', 'application/json'), ('{"str_data":"x"}', 'application/json')):
            answer = curl(url, *JSON, data=body)
            self.assertEqual((200, kind), (answer.status, answer.headers['content-type']), body)
        self.assertEqual(b'x', curl(url, *OCTETS, data='x').body)
        self.assertEqual('application/json', curl(url + '?streaming=true', *JSON, data='{"str_data":"x"}').headers['content-type'])


if __name__ == '__main__':
    harness.main()
