"""Who a client is: addresses, the clients that trusted proxies name, and what one of them may have."""

import json
import os
import socket
import struct
import time
import unittest

import harness

PROXY, CLIENT = '127.9.0.1', '127.0.0.1'
GET = b'GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s\r\n'
V2 = b'\r\n\r\n\0\r\nQUIT\n'


def talk(port, data, source=CLIENT):
    with socket.create_connection(('127.0.0.1', port), timeout=harness.PATIENCE, source_address=(source, 0)) as sock:
        sock.sendall(data)
        out = b''
        try:
            while more := sock.recv(65536):
                out += more
        except ConnectionResetError:
            pass
        return out


class Proxied(unittest.TestCase):
    def peers(self, *flags, talks):
        """The peers of the access log, in the order of the requests."""
        log = os.path.join(harness.scratch(), f'access-{time.monotonic_ns()}')
        server = harness.Server('--access-log', log, '--shards', '1', *flags)
        try:
            for source, before, fields in talks:
                self.assertIn(b'200', talk(server.port, before + GET % fields, source)[:15])
        finally:
            server.stop()
        with open(log) as lines:
            return [json.loads(line)['peer'].rsplit(':', 1)[0] for line in lines]

    def test_a_field_counts_from_trusted_proxies_only(self):
        got = self.peers('--http-trusted-proxies', '127.9.0.0/16', talks=[
            (PROXY, b'', b'X-Forwarded-For: 1.1.1.1, 192.0.2.7:1234\r\n'),
            (CLIENT, b'', b'X-Forwarded-For: 192.0.2.7:1234\r\n'),
            (PROXY, b'', b'Forwarded: for=192.0.2.7\r\n'),
            (PROXY, b'', b'X-Forwarded-For: nobody\r\n')])
        self.assertEqual(['192.0.2.7', CLIENT, PROXY, PROXY], got)

    def test_a_proxy_header_names_the_client(self):
        addresses = socket.inet_aton('192.0.2.8') + socket.inet_aton('127.0.0.1') + struct.pack('>HH', 1234, 80)
        v2 = V2 + b'\x21\x11' + struct.pack('>H', len(addresses)) + addresses
        got = self.peers('--http-proxy-protocol', '127.9.0.0/16', talks=[
            (PROXY, b'PROXY TCP4 192.0.2.7 127.0.0.1 1234 80\r\n', b''),
            (PROXY, v2, b''),
            (PROXY, V2 + b'\x20\0\0\0', b''),
            (CLIENT, b'', b'')])
        self.assertEqual(['192.0.2.7', '192.0.2.8', PROXY, CLIENT], got)

    def test_a_listed_peer_without_a_header_is_closed_and_others_may_not_send_one(self):
        server = harness.Server('--http-proxy-protocol', '127.9.0.0/16')
        try:
            self.assertEqual(b'', talk(server.port, GET % b'', PROXY))
            self.assertIn(b'400', talk(server.port, b'PROXY TCP4 192.0.2.7 127.0.0.1 1234 80\r\n' + GET % b'', CLIENT)[:15])
            self.assertIn(b'200', talk(server.port, GET % b'', CLIENT)[:15])
        finally:
            server.stop()


class Shares(unittest.TestCase):
    def test_one_address_cannot_have_all_connections(self):
        server = harness.Server('--limits-connections', '40')
        try:
            def connect(source):
                return socket.create_connection(('127.0.0.1', server.port), timeout=harness.PATIENCE, source_address=(source, 0))
            greedy = [connect('127.6.6.6') for _ in range(60)]
            self.assertIn(b'200', talk(server.port, GET % b'', CLIENT)[:15])
            for _ in range(40):
                greedy.append(connect('127.6.6.6'))
                self.assertIn(b'200', talk(server.port, GET % b'', CLIENT)[:15])
            for sock in greedy:
                sock.close()
        finally:
            server.stop()


if __name__ == '__main__':
    harness.main()
