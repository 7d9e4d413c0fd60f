"""Models that another server runs, when that server dies."""

import json
import socket
import struct
import time

import harness
from peer import JSON, Raw, more_descriptors, post
from registry import attack

INPUTS = json.dumps({'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [4], 'data': [1, 2, 3, 4]}]}).encode()


class DyingOrigin:
    """Answers as it should until the server has loaded its models. From then on it accepts and resets, answers garbage, is
    silent, or breaks off in the middle of a frame, in turns."""

    def __init__(self):
        import forward_origin
        self.origin = forward_origin.Origin()
        self.origin.behave = self._behave
        self.turn = 0

    def _behave(self, connection, stream, request):
        self.turn += 1
        sock = connection.sock
        if self.turn % 5 == 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            sock.close()
        elif self.turn % 5 == 1:
            sock.sendall(bytes(range(256)) * 16)
        elif self.turn % 5 == 2:
            sock.sendall(b'\0\xff\xff\0\0' + struct.pack('>I', stream) + b'x')
            sock.shutdown(socket.SHUT_RDWR)
        elif self.turn % 5 == 3:
            sock.sendall(b'HTTP/1.1 200 OK\r\n\r\n')
        # or it says nothing at all, and the connection lives


def repository():
    """The demo models, and beside them `dying`."""
    origin = DyingOrigin()
    root = harness.scratch() / f'dying-{time.monotonic_ns()}'
    root.mkdir()
    for folder in harness.MODELS.iterdir():
        if folder.is_dir():
            (root / folder.name).symlink_to(folder)
    (root / 'dying').mkdir()
    (root / 'dying/model.yaml').write_text(
        f'engine: forward\nkind: oip-grpc\norigins: {origin.origin.url}\n'
        'parameters: {model: x, answer_timeout: 3s, check_interval: 200ms}\n')
    return root


@attack(seconds=20, quick=4, repository=repository)
def dying_origin(target):
    """Hundreds of clients of a model whose origin resets, answers garbage or is silent: those of other models are served."""
    more_descriptors()
    wanted, peers, begun, statuses = target.size(400, 100), [], 0, {}
    request = post('/v2/models/dying/infer', INPUTS, JSON)
    while not target.over():
        left = []
        for peer in peers:
            got = peer.take()
            if got is None and peer.alive:
                left.append(peer)
                continue
            status = (got or b'')[9:12].decode()
            statuses[status] = statuses.get(status, 0) + 1
            if status == '200':
                target.broke('garbage was taken for an answer')
            peer.sock.close()
        peers = left
        for _ in range(min(50, wanted - len(peers))):
            peers.append(Raw(target, wait=3).send(request))
            begun += 1
        time.sleep(0.02)
    return f'{begun} asked, answers by status: {statuses}'
