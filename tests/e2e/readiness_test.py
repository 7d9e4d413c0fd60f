"""What "ready" means: every way to ask gives the same answer, by `models.readiness`, and says which model is missing."""

import json
import shutil

import harness
from harness import curl

import grpc

oip, oip_grpc = harness.stubs()('inference')
health, health_grpc = harness.stubs()('health')

YES, NO = (True,) * 6, (False,) * 6


def repository(name, *models, broken=()):
    root = harness.scratch() / name
    root.mkdir()
    for model in models:
        shutil.copytree(harness.MODELS / model, root / model)
    for model in broken:
        (root / model / '1').mkdir(parents=True)
        (root / model / '1/model.onnx').write_bytes(b'garbage')
    return root


def answers(server):
    """REST, /readyz, ServerReady, grpc.health.v1, GRPS, GraphPipe; and the bodies of the first two."""
    rest, page = curl(server.url('/v2/health/ready')), curl(server.url('/readyz'))
    with grpc.insecure_channel(server.address) as channel:
        ready = oip_grpc.GRPCInferenceServiceStub(channel).ServerReady(oip.ServerReadyRequest()).ready
        check = health_grpc.HealthStub(channel).Check(health.HealthCheckRequest()).status
    others = [curl(server.url(path)).status == 200 for path in ('/grps/v1/health/ready', '/control/is_ready')]
    assert rest.headers['content-type'] == page.headers['content-type'] == 'application/json'
    assert (rest.status, page.status) in ((200, 200), (400, 503)), (rest.status, page.status)
    return ((rest.status == 200, page.status == 200, ready, check == health.HealthCheckResponse.SERVING, *others),
            rest.json(), page.json())


def one(name, *flags, **more):
    server = harness.Server(*flags, repository=repository(name, **more))
    try:
        return answers(server), server.output()
    finally:
        assert server.stop() == 0, server.output()


class Readiness(harness.unittest.TestCase):
    def test_a_repository_of_garbage_is_not_ready_and_says_why(self):
        (ready, rest, page), log = one('garbage', broken=('cut',))
        self.assertEqual(NO, ready)
        self.assertIs(False, rest['ready'])
        self.assertRegex(rest['error'], r"^1 of 1 models is not ready: 'cut' version 1: \S")
        self.assertEqual(rest['error'], page['reason'])
        self.assertEqual(1, log.count('model failed to load'))

    def test_one_that_is_broken_keeps_a_strict_server_from_being_ready(self):
        root = repository('half', 'identity', broken=('cut',))
        for rule, expected in (('strict', NO), ('any', YES), ('process', YES)):
            server = harness.Server('--readiness', rule, repository=root)
            self.assertEqual(expected, answers(server)[0], rule)
            self.assertEqual(200, curl(server.url('/v2/models/identity/ready')).status, 'the others can be called')
            self.assertEqual(0, server.stop())

    def test_any_needs_one_and_process_none(self):
        root = repository('none', broken=('cut', 'torn'))
        server = harness.Server('--readiness', 'any', repository=root)
        ready, rest, _ = answers(server)
        self.assertEqual(NO, ready)
        self.assertIn("no model serves: 'cut' version 1: ", rest['error'])
        self.assertEqual(0, server.stop())
        server = harness.Server('--readiness', 'process', repository=root)
        self.assertEqual(YES, answers(server)[0])
        self.assertEqual(0, server.stop())

    def test_a_folder_without_a_model_is_a_row_a_line_and_a_reason(self):
        root = repository('stray', 'identity')
        (root / 'notes').mkdir()
        (root / 'notes/readme.txt').write_text('no model')
        (root / '__pycache__').mkdir()
        server = harness.Server(repository=root)
        ready, rest, _ = answers(server)
        self.assertEqual(NO, ready)
        self.assertIn("'notes': model 'notes' has no version folder", rest['error'])
        rows = {row['name']: row for row in curl(server.url('/v2/repository/index'), '-X', 'POST').json()}
        self.assertEqual({'identity', 'notes'}, set(rows))
        self.assertEqual('UNAVAILABLE', rows['notes']['state'])
        self.assertIn('no version folder', rows['notes']['reason'])
        self.assertEqual(1, sum('notes' in line and 'failed to load' in line for line in server.output().splitlines()))
        self.assertEqual(0, server.stop())

    def test_what_nobody_asked_for_does_not_count(self):
        root = repository('explicit', 'identity', broken=('cut',))
        server = harness.Server('--control', 'explicit', repository=root)

        def post(model, verb):
            return curl(server.url(f'/v2/repository/models/{model}/{verb}'), '-X', 'POST').status

        self.assertEqual(YES, answers(server)[0])
        self.assertEqual(200, post('identity', 'load'))
        self.assertEqual(YES, answers(server)[0])
        self.assertNotEqual(200, post('cut', 'load'))
        ready, rest, _ = answers(server)
        self.assertEqual(NO, ready)
        self.assertIn("1 of 2 models is not ready: 'cut'", rest['error'])
        self.assertEqual(200, post('cut', 'unload'))
        self.assertEqual(200, post('identity', 'unload'))
        self.assertEqual(YES, answers(server)[0])
        self.assertEqual(0, server.stop())

    def test_many_reasons_are_cut(self):
        root = repository('many', broken=[f'broken_{i:03}' for i in range(100)])
        server = harness.Server(repository=root)
        body = curl(server.url('/v2/health/ready')).body
        self.assertLess(len(body), 4000)
        self.assertIn('100 of 100 models', json.loads(body)['error'])
        self.assertIn('and 90 more', json.loads(body)['error'])
        self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main()
