"""Pictures into models of tensors: what `preprocess` in a model.yaml makes of them, beside Pillow; bodies that are pictures;
pictures from strangers."""

import io
import pathlib
import struct
import sys
import tempfile

import grpc
import numpy as np
from PIL import Image

import harness
from harness import curl

sys.path.insert(0, str(harness.MODELS))
import onnx_writer as ow  # noqa: E402

oip, oip_grpc = harness.stubs()('inference')
CORPUS = harness.ROOT / 'tests/fuzz/corpus/image'
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
LABELS = ['red', 'green', 'blue']


def colours(shape, axes):
    """The means of the three colours of each picture: its labels say which is the strongest."""
    return ow.graph('colours', [ow.node('ReduceMean', ['data'], ['scores'], axes=axes, keepdims=0)],
                    inputs=[ow.value('data', 'FP32', shape)], outputs=[ow.value('scores', 'FP32', [shape[0], 3])])


def repository():
    root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
    labels = f"outputs: [{{name: scores, labels: [{', '.join(LABELS)}]}}]\n"
    for name, shape, axes, how in (
            ('imagenet', ['batch', 3, 16, 16], [2, 3], f'{{resize: 20, crop: 16, mean: {MEAN}, std: {STD}}}'),
            ('plain', ['batch', 8, 8, 3], [1, 2], '{layout: nhwc, colors: bgr, filter: bicubic, scale: 1}'),
            ('one', [1, 3, 'h', 'w'], [2, 3], '{resize: 12}')):
        (root / name / '1').mkdir(parents=True)
        ow.save(str(root / name / '1/model.onnx'), colours(shape, axes))
        (root / name / 'model.yaml').write_text(labels + f'preprocess: {how}\n')
    for name, shape, axes in (('bare', ['batch', 3, 16, 16], [2, 3]), ('last', [1, 'h', 'w', 3], [1, 2])):
        (root / name / '1').mkdir(parents=True)
        ow.save(str(root / name / '1/model.onnx'), colours(shape, axes))
    (root / 'wrong/1').mkdir(parents=True)
    ow.save(str(root / 'wrong/1/model.onnx'), colours(['batch', 3, 16, 16], [2, 3]))
    (root / 'wrong/model.yaml').write_text('preprocess: {crop: 15}\n')
    return root


def picture(width, height, kind='PNG', colour=None):
    pixels = np.random.default_rng(width * height).integers(0, 256, (height, width, 3), np.uint8)
    if colour is not None:
        pixels[:, :, :] = 0
        pixels[:, :, colour] = 250
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **({'lossless': True} if kind == 'WEBP' else {}))
    return out.getvalue()


def imagenet(data):
    """The means of what torchvision's transforms make of it."""
    image = Image.open(io.BytesIO(data)).convert('RGB')
    w, h = image.size
    size = (20, int(20 * h / w)) if w <= h else (int(20 * w / h), 20)
    image = image.resize(size, Image.BILINEAR)
    left, top = round((size[0] - 16) / 2), round((size[1] - 16) / 2)
    pixels = np.asarray(image.crop((left, top, left + 16, top + 16)), np.float32) / 255
    return ((pixels - np.array(MEAN, np.float32)) / np.array(STD, np.float32)).mean(axis=(0, 1))


class Pictures(harness.GrpcCase):
    stub_class = oip_grpc.GRPCInferenceServiceStub

    @classmethod
    def setUpClass(cls):
        cls.repository = repository()
        super().setUpClass()

    def infer(self, model, *pictures):
        r = oip.ModelInferRequest(model_name=model)
        one = model == 'one'
        r.inputs.add(name='data', datatype='BYTES', shape=[1] if one else [len(pictures), 1])
        r.raw_input_contents.append(b''.join(struct.pack('<I', len(p)) + p for p in pictures))
        answer = self.stub.ModelInfer(r, timeout=harness.PATIENCE)
        return np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(-1, 3)

    def refusal(self, *args):
        with self.assertRaises(grpc.RpcError) as raised:
            self.infer(*args)
        return raised.exception

    def post(self, model, data, *args):
        return curl(self.server.url(f'/v2/models/{model}/infer'), *args, data=data)

    def test_the_numbers_are_those_of_pillow_and_numpy(self):
        pictures = [picture(w, h, kind) for w, h, kind in ((40, 30, 'PNG'), (30, 41, 'WEBP'), (20, 20, 'PNG'), (7, 90, 'PNG'))]
        made = self.infer('imagenet', *pictures)
        np.testing.assert_allclose(made, [imagenet(p) for p in pictures], atol=2e-5)

    def test_layout_and_colours(self):
        data = picture(40, 30)
        pixels = np.asarray(Image.open(io.BytesIO(data)).resize((8, 8), Image.BICUBIC), np.float32)
        np.testing.assert_allclose(self.infer('plain', data)[0], pixels[:, :, ::-1].mean(axis=(0, 1)), rtol=1e-5)

    def test_a_picture_is_a_body_and_its_labels_are_the_answer(self):
        for colour, label in enumerate(LABELS):
            for data in (picture(30, 30, 'PNG', colour), picture(30, 30, 'JPEG', colour), picture(30, 30, 'WEBP', colour)):
                answer = self.post('imagenet', data)
                self.assertEqual(200, answer.status, answer.body)
                best = answer.json()['outputs'][0]['data'][0]
                self.assertEqual(label, best.split(':')[2])
        self.assertEqual(3, len(answer.json()['outputs'][0]['data']))
        self.assertEqual('red', self.post('one', picture(50, 20, 'JPEG', 0)).json()['outputs'][0]['data'][0].split(':')[2])

    def test_the_command_sends_pictures_to_both_kinds_of_models(self):
        path = harness.scratch() / 'picture.jpg'
        path.write_bytes(picture(40, 30, 'JPEG'))
        whole = np.asarray(Image.open(path), np.float32) / 255
        small = np.asarray(Image.open(path).resize((16, 16), Image.BILINEAR), np.float32) / 255

        def infer(model, name='data'):
            done = harness.subprocess.run([str(harness.WEIR), 'infer', model, self.server.address, '-i', f'{name}=@{path}', '-o', 'json'],
                                          capture_output=True, text=True)
            self.assertEqual(0, done.returncode, done.stderr)
            return harness.json.loads(done.stdout)['outputs'][0]['data']

        np.testing.assert_allclose(infer('bare'), small.mean(axis=(0, 1)), rtol=1e-4)
        np.testing.assert_allclose(infer('bare', 'data:1,3,16,16'), infer('bare'))
        np.testing.assert_allclose(infer('last'), whole.mean(axis=(0, 1)), rtol=1e-4)
        self.assertEqual(3, len(infer('imagenet')))

    def test_metadata_shows_what_clients_send(self):
        metadata = curl(self.server.url('/v2/models/imagenet')).json()
        self.assertEqual([{'name': 'data', 'datatype': 'BYTES', 'shape': [-1, 1]}], metadata['inputs'])

    def test_pictures_of_several_clients_share_batches_and_one_bad_one_fails_alone(self):
        good = picture(30, 30)
        requests = [good, b'no picture', good, (CORPUS / 'truncated.png').read_bytes()] * 8
        codes = [None] * len(requests)

        def client(i):
            try:
                self.infer('imagenet', requests[i])
                codes[i] = grpc.StatusCode.OK
            except grpc.RpcError as error:
                codes[i] = error.code()

        with harness.threads(len(requests), client):
            pass
        bad = grpc.StatusCode.INVALID_ARGUMENT
        self.assertEqual([grpc.StatusCode.OK, bad, grpc.StatusCode.OK, bad] * 8, codes)

    def test_bombs_are_refused_by_their_headers(self):
        before = self.server.rss()
        huge = (CORPUS / 'huge.png').read_bytes()
        self.assertIn('more than 16 Mpixel', self.refusal('imagenet', huge).details())
        self.assertIn('more than 16 Mpixel', self.post('imagenet', huge).json()['error'])
        thin = io.BytesIO()
        Image.new('RGB', (1, 200_000)).save(thin, 'PNG')
        self.assertIn('too narrow', self.refusal('one', thin.getvalue()).details())
        self.assertLess(self.server.rss() - before, 100 << 20)
        self.assertEqual(1, len(self.infer('imagenet', picture(20, 20))))

    def test_what_is_no_picture_is_told_so(self):
        self.assertIn('neither PNG nor JPEG nor WebP', self.refusal('imagenet', b'').details())
        self.assertIn('animation', self.refusal('imagenet', (CORPUS / 'animated.webp').read_bytes()).details())

    def test_a_preprocessing_that_does_not_fit_the_model_is_an_error_in_the_index(self):
        rows = {row['name']: row for row in curl(self.server.url('/v2/repository/index'), '-X', 'POST').json()}
        self.assertEqual('UNAVAILABLE', rows['wrong']['state'])
        self.assertIn('takes 16 x 16 pixels, and the preprocessing makes 15 x 15', rows['wrong']['reason'])


class Others(harness.Case):
    def test_a_model_that_takes_no_pictures_says_so(self):
        answer = curl(self.server.url('/v2/models/digits/infer'), data=picture(8, 8))
        self.assertEqual(400, answer.status)
        self.assertIn("model 'digits' takes none", answer.json()['error'])


if __name__ == '__main__':
    harness.main()
