"""GraphPipe with a client made from proto/graphpipe.fbs by flatc, as the Python client of GraphPipe does it, and with curl."""

import importlib
import json
import subprocess
import sys

import flatbuffers
import numpy as np

import harness
from harness import curl

TYPES = {1: np.uint8, 2: np.int8, 3: np.uint16, 4: np.int16, 5: np.uint32, 6: np.int32, 7: np.uint64, 8: np.int64,
         9: np.float16, 10: np.float32, 11: np.float64}
TYPE_OF = {np.dtype(t): number for number, t in TYPES.items()}
STRING = 12


def generated():
    """The modules that flatc makes of the schema: fb('Tensor') is graphpipe_fb.Tensor."""
    out = harness.scratch() / 'graphpipe'
    if not out.exists():
        out.mkdir()
        subprocess.run(['flatc', '--python', '-o', str(out), str(harness.ROOT / 'proto/graphpipe.fbs')], check=True)
        sys.path.insert(0, str(out))
    return lambda name: importlib.import_module(f'graphpipe_fb.{name}')


def offsets(builder, start, items):
    start(builder, len(items))
    for item in reversed(items):
        builder.PrependUOffsetTRelative(item)
    return builder.EndVector()


def tensor(builder, array):
    """numpy array; or, for a String tensor of one dimension, a list of bytes, or of bytearrays: those go out as graphpipe-go
    writes them, without a zero behind them. A tuple of bytes is one of shape [n, 1]."""
    t = generated()('Tensor')
    if isinstance(array, (list, tuple)):
        shape, number, data = [len(array), 1][:1 + isinstance(array, tuple)], STRING, None
        strings = offsets(builder, t.TensorStartStringValVector, [
            builder.CreateByteVector(bytes(s)) if isinstance(s, bytearray) else builder.CreateString(s) for s in array])
    else:
        shape, number, strings = array.shape, TYPE_OF[array.dtype], None
        data = builder.CreateNumpyVector(np.frombuffer(array.tobytes(), np.uint8))
    t.TensorStartShapeVector(builder, len(shape))
    for dim in reversed(shape):
        builder.PrependInt64(dim)
    shape = builder.EndVector()
    t.TensorStart(builder)
    t.TensorAddType(builder, number)
    t.TensorAddShape(builder, shape)
    if strings is not None:
        t.TensorAddStringVal(builder, strings)
    else:
        t.TensorAddData(builder, data)
    return t.TensorEnd(builder)


def request(builder, kind, req):
    r = generated()('Request')
    r.RequestStart(builder)
    r.RequestAddReqType(builder, kind)
    r.RequestAddReq(builder, req)
    builder.Finish(r.RequestEnd(builder))
    return bytes(builder.Output())


def infer_request(arrays, inputs=(), outputs=(), config=''):
    fb, builder = generated(), flatbuffers.Builder(1024)
    i = fb('InferRequest')
    tensors = offsets(builder, i.InferRequestStartInputTensorsVector, [tensor(builder, a) for a in arrays])
    inputs = offsets(builder, i.InferRequestStartInputNamesVector, [builder.CreateString(n) for n in inputs])
    outputs = offsets(builder, i.InferRequestStartOutputNamesVector, [builder.CreateString(n) for n in outputs])
    config = builder.CreateString(config)
    i.InferRequestStart(builder)
    i.InferRequestAddConfig(builder, config)
    i.InferRequestAddInputNames(builder, inputs)
    i.InferRequestAddInputTensors(builder, tensors)
    i.InferRequestAddOutputNames(builder, outputs)
    return request(builder, fb('Req').Req.InferRequest, i.InferRequestEnd(builder))


def metadata_request():
    fb, builder = generated(), flatbuffers.Builder(64)
    fb('MetadataRequest').MetadataRequestStart(builder)
    return request(builder, fb('Req').Req.MetadataRequest, fb('MetadataRequest').MetadataRequestEnd(builder))


def response(body):
    return generated()('InferResponse').InferResponse.GetRootAs(body, 0)


def outputs_of(body):
    """[numpy array, or list of bytes]."""
    answer, out = response(body), []
    for i in range(answer.OutputTensorsLength()):
        t = answer.OutputTensors(i)
        if t.Type() == STRING:
            out.append([t.StringVal(j) for j in range(t.StringValLength())])
            continue
        shape = [t.Shape(j) for j in range(t.ShapeLength())]
        data = t.DataAsNumpy() if t.DataLength() else np.zeros(0, np.uint8)
        out.append(data.view(TYPES[t.Type()]).reshape(shape))
    return out


def error_of(body):
    error = response(body).Errors(0)
    return error.Code(), error.Message().decode()


class GraphPipe(harness.Case):
    serve = ('--max-body', '128MiB', '--models-default', 'digits')

    def post(self, path, body, *args):
        return curl(self.server.url(path), '-H', 'Content-Type:', '-H', 'Expect:', *args, data=body)

    def infer(self, path, *args, **named):
        answer = self.post(path, infer_request(*args, **named))
        self.assertEqual(200, answer.status, answer.body[:500])
        self.assertEqual('application/octet-stream', answer.headers['content-type'])
        return outputs_of(answer.body)

    def refused(self, path, body):
        answer = self.post(path, body)
        self.assertEqual(400, answer.status)
        self.assertEqual(0, response(answer.body).OutputTensorsLength())
        return error_of(answer.body)

    # --- inference
    def test_digits_give_the_probabilities_that_oip_gives(self):
        images, labels = harness.heldout()
        images = np.array(images[:8], np.float32)
        body = json.dumps({'inputs': [{'name': 'image', 'datatype': 'FP32', 'shape': [8, 64], 'data': images.ravel().tolist()}]})
        oip = curl(self.server.url('/v2/models/digits/infer'), '-H', 'Content-Type: application/json', data=body).json()
        meta = curl(self.server.url('/v2/models/digits')).json()
        self.assertEqual(['image'], [t['name'] for t in meta['inputs']])
        for path in ('/', '/graphpipe', '/graphpipe/digits', '/graphpipe/digits/versions/1'):
            for http in ('--http1.1', '--http2-prior-knowledge'):
                answer = self.post(path, infer_request([images]), http)
                for got, want in zip(outputs_of(answer.body), oip['outputs'], strict=True):
                    np.testing.assert_array_equal(got, np.array(want['data'], got.dtype).reshape(want['shape']))
        probabilities = outputs_of(answer.body)[0]
        self.assertGreaterEqual(sum(probabilities.argmax(1) == labels[:8]), 7)

    def test_outputs_come_as_they_are_asked_for(self):
        a, b = np.arange(16, dtype=np.int32).reshape(1, 16), np.ones((1, 16), np.int32)
        total, difference = self.infer('/graphpipe/simple', [a, b])
        np.testing.assert_array_equal(a + b, total)
        np.testing.assert_array_equal(a - b, difference)
        swapped = self.infer('/graphpipe/simple', [b, a], ['INPUT1', 'INPUT0'], ['OUTPUT1'])
        self.assertEqual(1, len(swapped))
        np.testing.assert_array_equal(a - b, swapped[0])
        positional = self.infer('/graphpipe/simple', [a, b], ['', ''], ['', 'OUTPUT1'])
        np.testing.assert_array_equal(a + b, positional[0])

    def test_every_type_comes_back_as_it_went(self):
        for dtype in TYPES.values():
            values = np.array([[0, 1, 2], [3, 4, 100]]).astype(dtype)
            back, = self.infer('/graphpipe/identity', [values])
            self.assertEqual(values.dtype, back.dtype)
            np.testing.assert_array_equal(values, back)
        strings = [b'', b'a\0b', 'grüße'.encode(), b'\xff' * 70000]
        self.assertEqual([strings], self.infer('/graphpipe/identity', [strings]))

    def test_strings_meet_a_model_of_strings(self):
        numbers = [str(i).encode() for i in range(16)]
        body = infer_request([numbers, [b'1'] * 16])
        code, text = self.refused('/graphpipe/simple_string', body)  # its tensors have two dimensions
        self.assertEqual(3, code)
        self.assertIn('BYTES', text)

    def test_a_scalar_and_an_empty_tensor(self):
        scalar, empty = self.infer('/graphpipe/identity', [np.array(2.5, np.float64), np.zeros((0, 3), np.int8)])
        self.assertEqual((), scalar.shape)
        self.assertEqual(2.5, scalar)
        self.assertEqual((0, 3), empty.shape)

    def test_the_config_steers(self):
        image = np.zeros((1, 64), np.float32)
        chosen = self.infer('/', [image], config='{"model": "identity", "priority": 1, "timeout": 1000000, "x": 1}')
        np.testing.assert_array_equal(image, chosen[0])
        self.infer('/graphpipe/digits', [image], config='anything else is no business of weir')
        self.assertIn('config', self.refused('/', infer_request([image], config='{"model":'))[1])
        self.assertIn('path', self.refused('/graphpipe/digits', infer_request([image], config='{"model":"simple"}'))[1])
        self.assertEqual(5, self.refused('/graphpipe/digits', infer_request([image], config='{"version":"7"}'))[0])

    def test_77_megabytes_in_and_out(self):
        images = np.arange(128 * 224 * 224 * 3, dtype=np.float32).reshape(128, 224, 224, 3)
        rows = np.arange(3_200_000, dtype=np.float32).reshape(128, 25000)
        back = self.infer('/graphpipe/identity', [images, rows])
        np.testing.assert_array_equal(images, back[0])
        np.testing.assert_array_equal(rows, back[1])
        only, = self.infer('/graphpipe/identity', [images, rows], ['images', 'rows'], ['rows'])
        np.testing.assert_array_equal(rows, only)

    # --- metadata
    def test_metadata_says_what_the_model_takes(self):
        answer = self.post('/graphpipe/digits', metadata_request())
        self.assertEqual(200, answer.status)
        self.assertEqual(32, len(metadata_request()))
        m = generated()('MetadataResponse').MetadataResponse.GetRootAs(answer.body, 0)
        self.assertEqual((b'digits', b'weir'), (m.Name(), m.Server()))
        self.assertTrue(m.Version() and m.Description())
        image = m.Inputs(0)
        self.assertEqual((b'image', 10), (image.Name(), image.Type()))
        self.assertEqual([-1, 64], [image.Shape(i) for i in range(image.ShapeLength())])
        self.assertTrue(all(m.Outputs(i).Name() and m.Outputs(i).Type() for i in range(m.OutputsLength())))
        self.assertEqual(200, self.post('/', metadata_request()).status)

    def test_get_is_json_and_a_page_for_browsers(self):
        page = curl(self.server.url('/graphpipe/digits'))
        self.assertEqual('application/json', page.headers['content-type'])
        self.assertEqual({'name': 'image', 'description': '', 'shape': [-1, 64], 'type': 'Float32'}, page.json()['inputs'][0])
        self.assertEqual('digits', page.json()['name'])
        names = {m['name']: m['uri'] for m in curl(self.server.url('/graphpipe')).json()['models']}
        self.assertEqual('/graphpipe/simple', names['simple'])
        for path in ('/graphpipe', '/graphpipe/digits'):
            answer = curl(self.server.url(path), '-H', 'Accept: text/html,application/xhtml+xml;q=0.9')
            self.assertTrue(answer.headers['content-type'].startswith('text/html'))
            self.assertIn(b'digits', answer.body)
        self.assertEqual('weir', curl(self.server.url('/')).json()['name'])
        self.assertEqual(404, curl(self.server.url('/graphpipe/nothing')).status)

    def test_readiness_and_liveness(self):
        for path in ('/control/is_ready', '/control/is_alive'):
            answer = curl(self.server.url(path))
            self.assertEqual((200, b'ok\n'), (answer.status, answer.body))

    # --- refusals
    def test_errors_are_400_and_a_flatbuffer(self):
        image = np.zeros((1, 64), np.float32)
        self.assertEqual(5, self.refused('/graphpipe/nothing', infer_request([image]))[0])
        self.assertEqual(5, self.refused('/graphpipe/digits/versions/9', infer_request([image]))[0])
        self.assertIn('FP32', self.refused('/graphpipe/digits', infer_request([image.astype(np.float16)]))[1])
        self.assertIn('[1,63]', self.refused('/graphpipe/digits', infer_request([image[:, :63]]))[1])
        self.assertIn('no input', self.refused('/graphpipe/digits', infer_request([image], ['picture']))[1])
        self.assertIn('missing', self.refused('/graphpipe/digits', infer_request([]))[1])
        self.assertIn('1 input names', self.refused('/graphpipe/digits', infer_request([image, image], ['image']))[1])
        self.assertIn('no output', self.refused('/graphpipe/digits', infer_request([image], [], ['nothing']))[1])
        self.assertEqual(5, self.refused('/graphpipe/nothing', metadata_request())[0])

    def test_what_is_no_flatbuffer_is_refused(self):
        good = infer_request([np.zeros((1, 64), np.float32)])
        for body in (b'', b'x', b'\0' * 8, b'\xff' * 64, good[:40], good[:-32], b'{"inputs":[]}'):
            self.assertEqual(3, self.refused('/graphpipe/digits', body)[0], body[:20])
        for at in range(0, min(len(good), 200)):
            bent = bytearray(good)
            bent[at] ^= 0xff
            self.assertIn(self.post('/graphpipe/digits', bytes(bent)).status, (200, 400)) if at % 8 == 0 else None
        self.assertEqual(200, self.post('/graphpipe/digits', good).status)

    def test_strings_of_every_length_need_no_zero(self):
        words = [b'w' * n for n in range(18)]
        for word in words:
            echoed, = self.infer('/graphpipe/identity', [[bytearray(word), bytearray(word)]], inputs=['s'])
            self.assertEqual([word, word], echoed)
        echoed, = self.infer('/graphpipe/identity', [[bytearray(w) for w in words]], inputs=['s'])
        self.assertEqual(words, echoed)

    def test_names_beyond_the_tensors_are_ignored_and_outputs_may_repeat(self):
        a, b = np.arange(16, dtype=np.int32).reshape(1, 16), np.ones((1, 16), np.int32)
        answer = self.infer('/graphpipe/simple', [b, a], inputs=['INPUT1', 'INPUT0', 'INPUT1', 'INPUT0'],
                            outputs=['OUTPUT1', 'OUTPUT0', 'OUTPUT1'])
        for got, want in zip(answer, (a - b, a + b, a - b), strict=True):
            np.testing.assert_array_equal(got, want)

    def test_a_flatbuffer_is_taken_under_any_content_type(self):
        image = np.zeros((1, 64), np.float32)
        for kind in ('application/json', 'application/json; charset=utf-8', 'text/plain', 'application/octet-stream'):
            answer = curl(self.server.url('/graphpipe/digits'), '-H', 'Content-Type: ' + kind, data=infer_request([image]))
            self.assertEqual((200, (1, 10)), (answer.status, outputs_of(answer.body)[0].shape))

    def test_readiness_is_below_every_address(self):
        for uri in ('', '/graphpipe', '/graphpipe/digits', '/graphpipe/digits/versions/1'):
            for what in ('is_ready', 'is_alive'):
                answer = curl(self.server.url(f'{uri}/control/{what}'))
                self.assertEqual((200, b'ok\n'), (answer.status, answer.body), uri)
        self.assertEqual(503, curl(self.server.url('/graphpipe/nothing/control/is_ready')).status)

    def test_json_that_lost_its_way_is_told_so_in_json(self):
        answer = curl(self.server.url('/graphpipe'), '-H', 'Content-Type: application/json', data='{}')
        self.assertEqual(400, answer.status)
        self.assertIn('/v2/models', answer.json()['error'])


class Settings(harness.Case):
    listen = ('127.0.0.1:0', f'unix:{harness.scratch() / "gp.sock"}')
    serve = ('--graphpipe-prefix', '/models/flat', '--graphpipe-root-post=false')

    def test_the_prefix_moves_and_the_root_can_be_left_alone(self):
        image = np.zeros((1, 64), np.float32)
        answer = curl(self.server.url('/models/flat/digits'), data=infer_request([image]))
        self.assertEqual(200, answer.status)
        self.assertEqual(415, curl(self.server.url('/'), data=infer_request([image])).status)  # what is left there takes JSON
        self.assertEqual(404, curl(self.server.url('/graphpipe/digits')).status)

    def test_without_a_default_model_the_error_says_how_to_name_one(self):
        code, text = error_of(curl(self.server.url('/models/flat'), data=metadata_request()).body)
        self.assertEqual(3, code)
        self.assertIn('models.default', text)
        self.assertIn('digits', text)

    def test_it_works_over_a_unix_socket(self):
        answer = curl('http://localhost/models/flat/digits', '--unix-socket', str(harness.scratch() / 'gp.sock'),
                      data=infer_request([np.zeros((1, 64), np.float32)]))
        self.assertEqual(10, outputs_of(answer.body)[0].shape[-1] if outputs_of(answer.body)[0].ndim > 1 else 10)


if __name__ == '__main__':
    harness.main()
