"""Clients of Salience that vanish in the middle of an answer, over HTTP/1 and HTTP/2, leave nothing behind."""

import http.client
import json
import random
import socket
import struct
import time
import unittest

import grpc
import harness
from salience_client import Client, metric, pb, rpc

from hpack import Encoder
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame


class Vanishing(unittest.TestCase):
    """Clients that are gone at a random byte, of what they send or of what they read."""

    ROUNDS = 200 if harness.SANITIZED else 1000

    def test_nothing_stays_of_clients_that_vanish(self):
        server = harness.Server('--shards', '2', '--sessions-idle', '2s', '--limits-client-share', '100')
        dice = random.Random(20240817)
        opener = http.client.HTTPConnection(server.address, timeout=harness.PATIENCE)
        begun = time.monotonic()
        for i in range(self.ROUNDS):
            opener.request('POST', '/salience.v1.Salience/OpenSession', '{}', {'content-type': 'application/json'})
            session = json.loads(opener.getresponse().read())['session_id']
            request = pb.GenerateRequest(session_id=session, append_tokens=[dice.randrange(3000) for _ in range(dice.randrange(1, 60))],
                                      max_tokens=300, temperature=1.5)
            data = self.h2(request) if i % 3 else self.h1(request)
            sock = socket.create_connection(('127.0.0.1', server.port), timeout=harness.PATIENCE)
            try:
                if dice.random() < 0.4:
                    sock.sendall(data[:dice.randrange(len(data))])
                else:
                    sock.sendall(data)
                    left, seen = dice.randrange(1, 1500), b''
                    while left > len(seen) and not self.over(seen) and (piece := sock.recv(min(left - len(seen), 200))):
                        seen += piece
                if dice.random() < 0.5:  # RST instead of FIN
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            finally:
                sock.close()
        print(f'{self.ROUNDS} clients vanished in {time.monotonic() - begun:.1f} s', flush=True)
        opener.close()
        counts = (('weir_sessions',), ('weir_session_bytes',), ('weir_model_sequences', 'state="running"'),
                  ('weir_model_sequences', 'state="waiting"'), ('weir_model_kv_blocks', 'state="used"'),
                  ('weir_model_resident_sessions',))
        end = time.monotonic() + harness.PATIENCE
        while time.monotonic() < end and any(metric(server, *c) for c in counts):
            time.sleep(0.05)
        self.assertEqual({c: 0 for c in counts}, {c: metric(server, *c) for c in counts})
        with grpc.insecure_channel(server.address) as channel:  # and it is as good as new
            client = Client(rpc.SalienceStub(channel))
            client.generate([1, 2, 3], 5)
            client.close()
        self.assertEqual(0, server.stop())

    @staticmethod
    def over(seen):
        """Whether HTTP/2 frames have come to the end of the stream; HTTP/1 ends with the connection."""
        while len(seen) >= 9 and not seen.startswith(b'HTTP'):
            size, kind, flags = int.from_bytes(seen[:3], 'big'), seen[3], seen[4]
            if kind in (0, 1) and flags & 1:
                return True
            seen = seen[9 + size:]
        return False

    @staticmethod
    def h2(request):
        message = request.SerializeToString()
        head = Encoder().encode([(':method', 'POST'), (':scheme', 'http'), (':path', '/salience.v1.Salience/Generate'),
                                 (':authority', 'localhost'), ('content-type', 'application/grpc'), ('te', 'trailers')])
        return (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + SettingsFrame(0).serialize() + SettingsFrame(0, flags=['ACK']).serialize()
                + HeadersFrame(1, data=head, flags=['END_HEADERS']).serialize()
                + DataFrame(1, data=b'\0' + struct.pack('>I', len(message)) + message, flags=['END_STREAM']).serialize())

    @staticmethod
    def h1(request):
        body = json.dumps({'session_id': request.session_id, 'append_tokens': list(request.append_tokens), 'max_tokens': request.max_tokens,
                           'temperature': request.temperature}).encode()
        return (b'POST /salience.v1.Salience/Generate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
                b'connection: close\r\ncontent-length: %d\r\n\r\n' % len(body)) + body


if __name__ == '__main__':
    harness.main()
