"""A peer that takes nothing of its answer is cut, and what it held is given back; one that takes it slowly is not."""

import concurrent.futures
import socket
import ssl
import subprocess
import time

import harness

SIZE = 48 << 20  # more than the sockets of both ends can hold
HEAD = (b'{"inputs":[{"name":"x","datatype":"UINT8","shape":[%d],"parameters":{"binary_data_size":%d}}],'
        b'"parameters":{"binary_data_output":true}}' % (SIZE, SIZE))


ASK = (b'POST /v2/models/identity/infer HTTP/1.1\r\nhost: a\r\ninference-header-content-length: %d\r\n'
       b'content-length: %d\r\n\r\n' % (len(HEAD), len(HEAD) + SIZE) + HEAD + bytes(SIZE))
SLOW, STEADY_S = 40_000, 28  # bytes a second, and for how long


class Case(harness.Case):
    @classmethod
    def setUpClass(cls):
        cert, key = (harness.scratch() / f'{cls.__name__}-{name}.pem' for name in ('cert', 'key'))
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                        '-subj', '/CN=localhost', '-keyout', key, '-out', cert], check=True, stderr=subprocess.DEVNULL)
        cls.serve = ('--tls-cert', cert, '--tls-key', key)
        super().setUpClass()

    def gauge(self, name):
        text = harness.curl(self.server.url('/metrics')).body.decode()
        return next((float(line.split()[1]) for line in text.splitlines() if line.startswith(name + ' ')), 0)


class Silent(Case):
    def test_its_connection_and_memory_come_back(self):
        peers = []
        for _ in range(3):
            peer = socket.create_connection(('127.0.0.1', self.server.port))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            peer.sendall(ASK)
            peers.append(peer)
        self.assertGreater(self.gauge('weir_slab_bytes'), SIZE)
        end = time.monotonic() + 60 + harness.PATIENCE  # ten seconds of grace, up to 30 for what it took before, a look a second
        while self.gauge('weir_slab_bytes') > SIZE / 2 or self.gauge('weir_connections') > 1:
            self.assertLess(time.monotonic(), end, 'they are still there')
            time.sleep(0.5)
        for peer in peers:
            peer.close()


class Slow(Case):
    def read_slowly(self, tls):
        """The server's socket holds megabytes, of which a third has to go before it takes more: longer than the grace."""
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            peer.connect(('127.0.0.1', self.server.port))
            if tls:
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                peer = context.wrap_socket(peer)
            peer.sendall(ASK)
            end = time.monotonic() + STEADY_S
            while time.monotonic() < end:
                if not peer.recv(SLOW // 10):
                    return 'cut off'
                time.sleep(0.1)
            peer.close()
        return 'served'

    def test_one_that_reads_slowly_and_steadily_is_served(self):
        rejects = 'weir_rejects_total{reason="slow_read"}'
        before = self.gauge(rejects)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for answer in [pool.submit(self.read_slowly, tls) for tls in (False, True)]:
                self.assertEqual('served', answer.result())
        self.assertEqual(before, self.gauge(rejects))


if __name__ == '__main__':
    harness.main(at_once=2)
