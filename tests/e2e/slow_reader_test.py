"""A peer that takes nothing of its answer is cut, and what it held is given back."""

import socket
import time

import harness

SIZE = 48 << 20  # more than the sockets of both ends can hold
HEAD = (b'{"inputs":[{"name":"x","datatype":"UINT8","shape":[%d],"parameters":{"binary_data_size":%d}}],'
        b'"parameters":{"binary_data_output":true}}' % (SIZE, SIZE))


class SlowReader(harness.Case):
    def gauge(self, name):
        text = harness.curl(self.server.url('/metrics')).body.decode()
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + ' '))

    def test_its_connection_and_memory_come_back(self):
        peers = []
        for _ in range(3):
            peer = socket.create_connection(('127.0.0.1', self.server.port))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            peer.sendall(b'POST /v2/models/identity/infer HTTP/1.1\r\nhost: a\r\ninference-header-content-length: %d\r\n'
                         b'content-length: %d\r\n\r\n' % (len(HEAD), len(HEAD) + SIZE) + HEAD + bytes(SIZE))
            peers.append(peer)
        self.assertGreater(self.gauge('weir_slab_bytes'), SIZE)
        end = time.monotonic() + 2 * harness.PATIENCE  # ten seconds of grace, then one look a second
        while self.gauge('weir_slab_bytes') > SIZE / 2 or self.gauge('weir_connections') > 1:
            self.assertLess(time.monotonic(), end, 'they are still there')
            time.sleep(0.5)
        for peer in peers:
            peer.close()


if __name__ == '__main__':
    harness.main()
