"""Streams by `new EventSource()` in headless Chromium, behind a proxy that cuts them: the browser comes back for the rest."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import unittest
import urllib.parse

import harness

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
NODE_MODULES = harness.ROOT / '.cache/npm/node_modules'

PAGE = b'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<!doctype html><title>page</title>'


class CuttingProxy:
    """A site with a page at /page, and weir behind it. The first `cuts` connections that stream events end behind the
    second one of theirs."""

    def __init__(self, port, cuts):
        self.weir, self.cuts, self.resumed = port, cuts, []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(('127.0.0.1', self.weir))
                for pump, ends in ((self.up, (client, server)), (self.down, (server, client))):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    def up(self, client, server):
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if data.startswith(b'GET /page '):
                    client.sendall(PAGE)
                    break
                self.resumed += [line.split(b': ')[1].decode() for line in data.split(b'\r\n') if line.lower().startswith(b'last-event-id')]
                server.sendall(data)
        self.close(client, server)

    def down(self, server, client):
        events = 0
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                *whole, _ = data.split(b'\n\n')
                if events + len(whole) >= 2 and self.cuts > 0:
                    self.cuts -= 1
                    client.sendall(b''.join(event + b'\n\n' for event in whole[:2 - events]))
                    time.sleep(0.2)  # Chromium may drop what it has not read when it sees the end
                    return client.shutdown(socket.SHUT_WR)  # `up` closes
                client.sendall(data)
                events += len(whole)
        self.close(client, server)

    def close(self, *sockets):
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@unittest.skipUnless(CHROMIUM, 'Chromium is not installed')
@unittest.skipUnless((NODE_MODULES / 'puppeteer-core').exists(), 'puppeteer-core is not installed')
class EventSource(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server()

    def listen(self, model, request, cuts):
        """The events that the page was given, and the proxy between."""
        proxy = CuttingProxy(self.server.port, cuts)
        base = f'http://127.0.0.1:{proxy.port}'
        source = f'{base}/v2/models/{model}/generate_stream?request={urllib.parse.quote(json.dumps(request))}'
        done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e/event_source_client.js'), base + '/page', source],
                              env={**os.environ, 'NODE_PATH': str(NODE_MODULES), 'CHROMIUM': CHROMIUM, 'HOME': str(harness.scratch())},
                              capture_output=True, text=True, timeout=200)
        proxy.listener.close()
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return json.loads(done.stdout), proxy

    def test_a_stream_that_was_cut_goes_on_behind_its_last_event(self):
        told, proxy = self.listen('repeat_int32', {'IN': [5, 6, 7, 8, 9], 'DELAY': [0] + [200] * 4, 'WAIT': 0}, cuts=2)
        self.assertEqual([5, 6, 7, 8, 9], [json.loads(e['data'])['OUT'] for e in told['events'][:-1]])
        self.assertEqual([('message', str(n)) for n in range(1, 6)] + [('end', 'end')], [(e['type'], e['id']) for e in told['events']])
        first, second, last = proxy.resumed
        self.assertTrue(1 <= int(first) < int(second) <= 4 and last == 'end', proxy.resumed)
        self.assertEqual(3, told['opened'])

    def test_so_does_a_text_that_is_made_the_same_again(self):
        request = {'text_input': 'What is curl?', 'max_tokens': 120, 'temperature': 0, 'ignore_eos': True}
        whole, _ = self.listen('chat', request, cuts=0)
        cut, proxy = self.listen('chat', request, cuts=1)
        self.assertEqual(whole['events'], cut['events'])
        self.assertGreater(len(cut['events']), 4)
        self.assertEqual('end', proxy.resumed[-1])
        self.assertEqual(2, len(proxy.resumed), proxy.resumed)

    def test_another_text_does_not_continue_the_first(self):
        request = {'text_input': 'What is curl?', 'max_tokens': 200, 'temperature': 1, 'ignore_eos': True}
        told, proxy = self.listen('chat', request, cuts=1)
        self.assertEqual(1, told['opened'])
        self.assertEqual(1, len(proxy.resumed))
        self.assertNotIn('end', [e['type'] for e in told['events']])


if __name__ == '__main__':
    harness.main()
