"""What tests of several nodes share: a nats-server of their own, nodes, models, and what they say of each other."""

import json
import pathlib
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import harness
from harness import curl

JSON = ('-H', 'content-type: application/json')


def folder():
    return pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))


def free_port():
    """One that is free, and below those that the kernel gives to connections: nobody has it a moment later, or while a
    server that was killed comes back to it."""
    below = int(pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range').read_text().split()[0])
    while True:
        port = random.randrange(min(10000, below // 2), below)
        with socket.socket() as sock:
            try:
                sock.bind(('127.0.0.1', port))
            except OSError:
                continue
        return port


def until(condition, what, seconds=harness.PATIENCE):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f'waited in vain for {what}')
        time.sleep(0.05)


class Nats:
    """nats-server with JetStream, which can be killed and come back at the same place."""

    program = shutil.which('nats-server') or '/usr/sbin/nats-server'

    def __init__(self, config=''):
        self.port, self.store, self.process = free_port(), folder(), None
        self.config = self.store / 'conf'
        self.config.write_text(config)
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.program, '-c', str(self.config), '-js', '-a', '127.0.0.1', '-p', str(self.port), '-sd', str(self.store)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.reachable, 'nats-server')

    def reachable(self):
        try:
            with socket.create_connection(('127.0.0.1', self.port), 1) as sock:
                return sock.recv(4).startswith(b'INFO')
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def lose_all(self):
        """What it keeps, while it is away."""
        shutil.rmtree(self.store / 'jetstream')

    @property
    def url(self):
        return f'nats://127.0.0.1:{self.port}'

    def put(self, key, value, bucket='weir'):
        """Writes an entry as anybody can who reaches NATS."""
        value = value.encode() if isinstance(value, str) else value
        with socket.create_connection(('127.0.0.1', self.port), 5) as sock:
            sock.sendall(b'CONNECT {"verbose":false}\r\nPUB $KV.%s.%s %d\r\n%s\r\nPING\r\n'
                         % (bucket.encode(), key.encode(), len(value), value))
            heard = b''
            while b'PONG' not in heard:
                more = sock.recv(4096)
                if not more:
                    break
                heard += more
        if b'-ERR' in heard:
            raise AssertionError(heard)


class Port:
    """A TCP server on a port of its own: take() is called for each client, on one thread."""

    def __init__(self):
        self.listening = socket.create_server(('127.0.0.1', 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f'nats://127.0.0.1:{self.port}'

    def accept(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            self.take(client)


class SilentNats(Port):
    """Takes connections and says that it lives, and answers nothing else."""

    INFO = {'server_id': 'x', 'version': '2.10.0', 'proto': 1, 'max_payload': 1 << 20, 'headers': True, 'jetstream': True}

    def take(self, client):
        threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        client.sendall(b'INFO ' + json.dumps(self.INFO).encode() + b' \r\n')
        try:
            while heard := client.recv(65536):
                client.sendall(b'PONG\r\n' * heard.count(b'PING\r\n'))
        except OSError:
            pass


class Wire(Port):
    """A TCP proxy in front of a port, which can be cut: what is there ends, and nothing new comes through."""

    def __init__(self, port):
        self.to, self.is_cut, self.pairs, self.lock = port, False, [], threading.Lock()
        super().__init__()

    def take(self, client):
        with self.lock:
            if self.is_cut:
                return client.close()
            try:
                server = socket.create_connection(('127.0.0.1', self.to), 5)
            except OSError:
                return client.close()
            self.pairs.append((client, server))
        for a, b in ((client, server), (server, client)):
            threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    @staticmethod
    def pump(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        Wire.end((a, b))

    @staticmethod
    def end(pair):
        for sock in pair:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        with self.lock:
            self.is_cut = True
            for pair in self.pairs:
                self.end(pair)

    def mend(self):
        with self.lock:
            self.is_cut = False

    def close(self):
        self.listening.close()
        self.cut()
        for pair in self.pairs:
            for sock in pair:
                sock.close()


def identity(root, name, delay_us=0):
    harness.write_identity_model(root, name, 8, delay_us)


def node(nats, root=None, *flags, name=None, **more):
    flags = ('--cluster-nats', nats.url, '--shards', '1', *flags)
    if name:
        flags += ('--cluster-name', name)
    return harness.Server(*flags, repository=root or folder(), **more)


def infer(server, model, value):
    """The status, and the one number of the answer where it is 200."""
    body = {'inputs': [{'name': 'x', 'shape': [1, 1], 'datatype': 'FP32', 'data': [value]}]}
    answer = curl(server.url(f'/v2/models/{model}/infer'), *JSON, data=json.dumps(body))
    return answer.status, answer.json()['outputs'][0]['data'][0] if answer.status == 200 else answer.body


def serves(server, model):
    return curl(server.url(f'/v2/models/{model}/ready')).status == 200


def metric(server, name):
    found = re.search(rf'^{name} (\S+)$', curl(server.url('/metrics')).body.decode(), re.M)
    return float(found[1]) if found else None


def nodes(server):
    return metric(server, 'weir_cluster_nodes')
