"""The parts of the console in headless Chromium (console_parts_client.js): charts, filters, what is tried, settings, bodies."""

import base64
import gzip
import hashlib
import json
import unittest

import console_browser
import harness
from console_browser import load
from harness import curl

import grpc  # noqa: E402


class Parts(console_browser.Case):
    client = 'console_parts_client.js'

    def test_charts_tell_what_their_tables_have_and_the_timeline_stops_and_zooms(self):
        server = harness.Server()
        with load(server):
            self.drive(server, 'charts')
        self.assertEqual(0, server.stop())

    def test_what_comes_from_histograms_is_what_the_metrics_have(self):
        server = harness.Server()
        images, _ = harness.heldout()
        for rows in (1, 1, 2, 3, 7, 30, 64):
            body = {'inputs': [{'name': 'image', 'datatype': 'FP32', 'shape': [rows, 64], 'data': images[:rows]}]}
            for _ in range(4):
                self.assertEqual(200, curl(server.url('/v2/models/digits/infer'), data=json.dumps(body)).status)
        for _ in range(4):
            curl(server.url('/v1/completions'), data='{"model": "chat", "prompt": "curl is a", "max_tokens": 8}')
        self.drive(server, 'numbers')
        self.assertEqual(0, server.stop())

    def test_filters_show_what_was_asked_for(self):
        server = harness.Server()
        with load(server):
            self.drive(server, 'filters')
        self.assertEqual(0, server.stop())

    def test_chat_takes_images_tools_and_schemas_and_shows_alternatives(self):
        server = harness.Server()
        self.drive(server, 'chat')
        self.assertEqual(0, server.stop())

    def test_sessions_fork_and_rewind_beside_each_other(self):
        server = harness.Server()
        self.drive(server, 'sessions')
        self.assertEqual(0, server.stop())

    def test_a_graph_is_drawn_as_its_nodes_come(self):
        server = harness.Server()
        self.drive(server, 'graph')
        self.assertEqual(0, server.stop())

    def test_settings_are_shown_with_where_each_comes_from(self):
        config = harness.scratch() / 'weir.yaml'
        config.write_text(f'models:\n  repository: {harness.MODELS}\nconsole:\n  slow: 250ms\n')
        server = harness.Server('--max-body', '3MiB', config=config, env={'WEIR_LIMITS_MESSAGE': '2MiB'})
        told = {row['key']: row for row in curl(server.url('/console/v1/config')).json()['settings']}
        wanted = {key: [', '.join(told[key]['value']) or '–', told[key]['origin'] or 'default']
                  for key in ('limits.body', 'limits.message', 'console.slow', 'console.timelines', 'console.bodies')}
        self.assertEqual('flag', wanted['limits.body'][1])
        self.assertEqual('WEIR_LIMITS_MESSAGE', wanted['limits.message'][1])
        self.assertRegex(wanted['console.slow'][1], r'weir\.yaml:4$')
        self.assertEqual('default', wanted['console.bodies'][1])
        self.drive(server, 'settings', json.dumps(wanted))
        self.assertEqual(0, server.stop())


HTML = '<img src=x onerror=globalThis.pwned=1>'
NUMBERS = json.dumps({'id': HTML, 'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [2], 'data': [1, 2]}]})


def infer(server, id, body=NUMBERS, *fields):
    return curl(server.url('/v2/models/identity/infer'), '-H', f'x-request-id: {id}', *fields, data=body)


class Bodies(console_browser.Case):
    client = 'console_parts_client.js'

    def test_bodies_are_shown_where_the_setting_says_so(self):
        server = harness.Server(env={'WEIR_CONSOLE_BODIES': '64'})
        answer = infer(server, 'whole').body.decode()
        refused = infer(server, 'bytes', bytes(range(20))).body.decode()
        dump = '0000  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  ················\n' + '0010  10 11 12 13'.ljust(55) + '····'
        self.drive(server, 'bodies', json.dumps({'whole': [NUMBERS[:64], answer[:64]], 'bytes': [dump, refused[:64]]}))
        self.assertEqual(0, server.stop())

    def test_without_it_nothing_of_them_is_there(self):
        server = harness.Server()
        infer(server, 'whole')
        self.drive(server, 'bodies', '{"whole": null}')
        self.assertEqual(0, server.stop())


def timeline(server, query, *fields):
    return curl(server.url(f'/console/v1/timelines?{query}'), *fields).json()['requests'][0]


class KeptBodies(unittest.TestCase):
    def test_each_protocol_has_them(self):
        server = harness.Server(env={'WEIR_CONSOLE_BODIES': '4KiB'})
        infer(server, 'rest')
        # gRPC, which streams; and a request that was compressed, whose body is kept as it was meant.
        oip, oip_grpc = harness.stubs()('inference')
        with grpc.insecure_channel(server.address) as channel:
            request = oip.ModelReadyRequest(name='identity')
            oip_grpc.GRPCInferenceServiceStub(channel).ModelReady(request, metadata=[('x-request-id', 'grpc')])
        infer(server, 'gzip', gzip.compress(NUMBERS.encode()), '-H', 'content-encoding: gzip')
        kept = {id: timeline(server, f'id={id}') for id in ('rest', 'grpc', 'gzip')}
        sent = {id: base64.b64decode(each['request_body']) for id, each in kept.items()}
        self.assertEqual({'rest': NUMBERS.encode(), 'gzip': NUMBERS.encode(),
                          'grpc': b'\0' + len(request.SerializeToString()).to_bytes(4, 'big') + request.SerializeToString()}, sent)
        self.assertEqual(b'\0\0\0\0\x02\x08\x01', base64.b64decode(kept['grpc']['answer_body']))
        self.assertNotIn('request_body', timeline(server, 'last=1'))
        self.assertEqual(0, server.stop())

    def test_they_are_for_the_role_admin(self):
        keys = harness.scratch() / 'keys.yaml'
        keys.write_text('keys:\n' + ''.join(f'- name: {name}\n  hash: "sha256:{hashlib.sha256(name.encode()).hexdigest()}"\n  roles: [{roles}]\n'
                                             for name, roles in (('watcher', 'infer, metrics'), ('boss', 'infer, metrics, admin'))))
        server = harness.Server('--auth-keys-file', keys, env={'WEIR_CONSOLE_BODIES': '4KiB'})
        infer(server, 'whole', NUMBERS, '-H', 'authorization: Bearer boss')
        shown = {name: timeline(server, 'id=whole', '-H', f'authorization: Bearer {name}') for name in ('watcher', 'boss')}
        self.assertIn('request_body', shown['boss'])
        self.assertNotIn('request_body', shown['watcher'])
        self.assertEqual('whole', shown['watcher']['request_id'])
        self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main()
