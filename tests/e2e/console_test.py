"""The console: its API, and the pages in headless Chromium on a server under load (console_client.js)."""

import json
import re
import socket
import unittest

import console_browser
import harness
from console_browser import BUILT, load
from harness import curl

SHOTS = harness.BUILD / 'console-screenshots'


def page_of(server):
    return curl(server.url('/'), '-H', 'accept: text/html')


def stream(server, path, *lines):
    """The events of an SSE stream, one by one: (event, data)."""
    with socket.create_connection(('127.0.0.1', server.port), harness.PATIENCE) as s:
        s.sendall('\r\n'.join([f'GET {path} HTTP/1.1', f'Host: {server.address}', *lines, '', '']).encode())
        file = s.makefile('rb')
        status = int(file.readline().split()[1])
        assert status == 200, (status, file.read(2000))
        event = None
        for line in file:
            line = line.strip()
            if line.startswith(b'event: '):
                event = line[7:].decode()
            elif line.startswith(b'data: '):
                yield event, json.loads(line[6:])


def metrics(server):
    text = curl(server.url('/metrics')).body.decode()
    return dict(line.rpartition(' ')[::2] for line in text.splitlines() if line and not line.startswith('#'))


class Api(harness.Case):
    def test_live_values_are_those_of_the_metrics(self):
        events = stream(self.server, '/console/v1/live')
        name, state = next(events)
        self.assertEqual('state', name)
        self.assertEqual({'READY'}, {m['state'] for m in state['models']})
        self.assertEqual('', state['not_ready'])
        row, = (m for m in state['models'] if m['name'] == 'digits')
        self.assertEqual(('onnx', 'of requests', {'cpu'}), (row['engine'], row['batches'], set(row['places'])))
        self.assertEqual({'observe': True, 'admin': True, 'why': ''}, curl(self.server.url('/console/v1/access')).json())
        scraped = metrics(self.server)
        self.assertLessEqual({k for k in scraped if k.startswith('weir_model_')}, set(state['values']))
        curl(self.server.url('/v2/models/simple'))
        wanted = int(metrics(self.server)['weir_requests_total{protocol="oip-rest",code="OK"}'])
        values = dict(state['values'])
        for name, change in events:
            self.assertEqual('change', name)
            values.update(change['values'])
            if values.get('weir_requests_total{protocol="oip-rest",code="OK"}') == wanted:
                break
        self.assertIn('weir_shard_busy_seconds_total{shard="0"}', values)

    def test_the_settings_say_where_they_come_from(self):
        answer = curl(self.server.url('/console/v1/config')).json()
        rows = {s['key']: s for s in answer['settings']}
        self.assertEqual((['127.0.0.1:0'], 'flag'), (rows['listen']['value'], rows['listen']['origin']))
        self.assertEqual('', rows['limits.body']['origin'])
        self.assertTrue(all(row['help'] for row in rows.values() if row['flag']))

    def test_batches_and_steps_are_told_after_a_number(self):
        images, _ = harness.heldout()
        for _ in range(3):
            curl(self.server.url('/v2/models/digits/infer'), data=json.dumps({'inputs': [{'name': 'image', 'datatype': 'FP32', 'shape': [1, 64], 'data': images[0]}]}))
        curl(self.server.url('/v1/completions'), data='{"model": "chat", "prompt": "curl is a", "max_tokens": 4}')
        for model in ('digits', 'chat'):
            whole = curl(self.server.url(f'/console/v1/batches?model={model}')).json()
            last = whole['batches'][-1]
            self.assertEqual(13, len(last))
            self.assertEqual(sorted(last[4:]), last[4:], 'steps follow each other')
            self.assertLessEqual(last[-1], whole['now'])
            self.assertEqual([last], curl(self.server.url(f'/console/v1/batches?model={model}&after={last[0] - 1}')).json()['batches'])
        steps = curl(self.server.url('/console/v1/batches?model=chat')).json()['batches']
        self.assertTrue([s for s in steps if s[2] == 0 and s[3] > 1], 'a step of the prompt')
        self.assertTrue([s for s in steps if s[2] == 1 and s[3] == 1], 'a step that decodes')
        self.assertEqual(404, curl(self.server.url('/console/v1/batches?model=none')).status)

    def test_a_change_wants_origin_and_field(self):
        server = harness.Server('--control', 'explicit', '--load', 'simple')
        url = server.url('/console/v1/models/simple_int8/load')
        own = ('-H', f'origin: {server.url()}')
        self.assertEqual(403, curl(url, '-X', 'POST').status)
        self.assertEqual(403, curl(url, '-X', 'POST', *own).status)
        self.assertEqual(403, curl(url, '-X', 'POST', '-H', 'x-weir-console: 1').status)
        self.assertEqual(403, curl(url, '-X', 'POST', '-H', 'x-weir-console: 1', '-H', 'origin: https://evil.example').status)
        self.assertEqual(405, curl(url, *own, '-H', 'x-weir-console: 1').status)
        self.assertEqual(503, curl(server.url('/v2/models/simple_int8')).status)
        self.assertEqual(200, curl(url, '-X', 'POST', *own, '-H', 'x-weir-console: 1').status)
        self.assertEqual(200, curl(server.url('/v2/models/simple_int8')).status)
        self.assertEqual(0, server.stop())

    @unittest.skipUnless(BUILT, 'this build has no console: npm was missing')
    def test_a_browser_gets_the_page_and_others_json(self):
        self.assertEqual('weir', curl(self.server.url('/')).json()['name'])
        page = page_of(self.server)
        self.assertIn("default-src 'none'; script-src 'self'", page.headers['content-security-policy'])
        self.assertNotIn('unsafe', page.headers['content-security-policy'])
        self.assertEqual(page.body, curl(self.server.url('/console')).body)
        total = 0
        for name in re.findall(rb'(?:src|href)="[.](/console/[^"]+)"', page.body):
            file = curl(self.server.url(name.decode()), '-H', 'accept-encoding: gzip')
            self.assertEqual((200, 'gzip'), (file.status, file.headers['content-encoding']))
            self.assertIn('immutable', file.headers['cache-control'])
            total += len(file.body)
        self.assertGreater(total, 10_000)
        self.assertLessEqual(total + len(page.body), 150 << 10)


class Closed(unittest.TestCase):
    def test_beyond_loopback_requests_of_others_are_for_keys(self):
        server = harness.Server(listen=('127.0.0.1:0', '0.0.0.0:0'))
        for path in ('requests', 'timelines', 'config'):
            answer = curl(server.url(f'/console/v1/{path}'))
            self.assertEqual(403, answer.status, path)
            self.assertIn('auth.admin: open', answer.json()['error'])
        access = curl(server.url('/console/v1/access')).json()
        self.assertEqual((False, False), (access['observe'], access['admin']))
        self.assertIn('auth.admin: open', access['why'])
        _, state = next(stream(server, '/console/v1/live'))
        self.assertNotIn('warnings', state)
        self.assertIn('weir_connections', state['values'])
        own = ('-X', 'POST', '-H', f'origin: {server.url()}', '-H', 'x-weir-console: 1')
        self.assertEqual(403, curl(server.url('/console/v1/models/simple/unload'), *own).status)
        self.assertEqual(0, server.stop())
        server = harness.Server('--auth-admin', 'open', listen=('127.0.0.1:0', '0.0.0.0:0'))
        self.assertEqual(200, curl(server.url('/console/v1/timelines')).status)
        self.assertIn('warnings', next(stream(server, '/console/v1/live'))[1])
        self.assertEqual(0, server.stop())

    def test_turned_off_there_is_the_page_of_links(self):
        server = harness.Server(env={'WEIR_CONSOLE_ENABLED': 'false'})
        self.assertIn(b'/v2/models', page_of(server).body)
        self.assertEqual(404, curl(server.url('/console/')).status)
        self.assertEqual(200, curl(server.url('/console/v1/timelines')).status)
        self.assertEqual(0, server.stop())

    @unittest.skipUnless(BUILT, 'this build has no console: npm was missing')
    def test_its_page_moves(self):
        server = harness.Server('--console-path', '/ops/ui')
        page = page_of(server)
        self.assertIn(b'src="./ops/ui/', page.body)
        self.assertNotIn(b'"/', page.body)
        self.assertIn(b'src="../../ops/ui/', curl(server.url('/ops/ui/')).body)
        self.assertEqual(0, server.stop())


class Browser(console_browser.Case):
    client = 'console_client.js'

    def test_every_page_loads_under_load_at_every_width_in_both_themes(self):
        SHOTS.mkdir(exist_ok=True)
        server = harness.Server()
        with load(server):
            self.drive(server, 'pages', SHOTS)
        self.assertEqual(0, server.stop())

    def test_live_numbers_move_and_are_those_of_the_metrics(self):
        server = harness.Server()
        images, _ = harness.heldout()
        for image in images[:20]:
            curl(server.url('/v2/models/digits/infer'), data=json.dumps({'inputs': [{'name': 'image', 'datatype': 'FP32', 'shape': [1, 64], 'data': image}]}))
        self.drive(server, 'live')
        self.assertEqual(0, server.stop())

    def test_models_are_tried_and_the_commands_run(self):
        server = harness.Server()
        self.drive(server, 'try')
        self.assertEqual(0, server.stop())

    def test_the_keyboard_alone_reaches_everything(self):
        server = harness.Server()
        self.drive(server, 'keyboard')
        self.assertEqual(0, server.stop())

    def test_buttons_unload_and_load_a_model(self):
        server = harness.Server('--control', 'explicit', '--load', '*')
        self.drive(server, 'change')
        self.assertEqual(0, server.stop())

    def test_a_day_adds_nothing(self):
        server = harness.Server()
        self.drive(server, 'bounded')
        self.assertEqual(0, server.stop())

    def test_names_and_lines_that_are_html_are_text(self):
        repository = harness.scratch() / 'hostile'
        repository.mkdir()
        names = ["<img src=x onerror=globalThis.pwned=1>", "<b><i><u>bold'", '"quoted" &amp;']
        for name in names:
            (repository / name).mkdir()
            (repository / name / 'model.yaml').write_text('engine: none\n')
        texts = harness.scratch() / 'texts'
        texts.write_text('\n'.join(names))
        server = harness.Server(repository=repository, env={'WEIR_MODELS_READINESS': 'process'})
        self.drive(server, 'hostile', texts)
        self.assertEqual(0, server.stop())

    def test_a_key_is_asked_for_once(self):
        keys = harness.scratch() / 'keys.yaml'
        keys.write_text('keys:\n- name: ops\n  hash: "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"\n  roles: [infer, metrics]\n')
        server = harness.Server('--auth-keys-file', keys)
        self.drive(server, 'key', 'secret')
        self.assertEqual(0, server.stop())


if __name__ == '__main__':
    harness.main()
