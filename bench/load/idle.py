#!/usr/bin/python3
"""What an idle connection costs: bytes of resident memory of the server per connection, HTTP/1.1 and 2, plain and with TLS.

    bench/load/idle.py [WEIR] [--connections 8000] [--kinds h1 h2 tls-h1 tls-h2] [--peers BENCH_BUILD]

Each connection asks once for /v2/health/live, takes the answer, and is silent then. A server of one shard for each kind; 200
connections come first, so that what is there once does not count. The server is asked for nothing for five seconds before it is
measured: it gives spare memory back after two. Resident memory does not depend on what else the machine does. With --peers the
same of nginx, of nghttpx in front of weir, and of grpc++ (HTTP/2), without TLS, which are asked in the same way.
"""

import argparse
import contextlib
import pathlib
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import cases
import gateways

KINDS = ('h1', 'h2', 'tls-h1', 'tls-h2')
FIRST = 200
SETTLED_S = 5
PATH = b'/v2/health/live'
PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
SETTINGS, HEADERS, END_STREAM, END_HEADERS, ACK = 4, 1, 1, 4, 1


def frame(kind, flags, stream, payload=b''):
    return len(payload).to_bytes(3, 'big') + bytes([kind, flags]) + stream.to_bytes(4, 'big') + payload


def h2_request(scheme):
    """GET, which gRPC servers answer, too, with an error, as HPACK literals of indexed names, none of which enters a table (RFC 7541, appendix A: 1 :authority, 2 :method GET, 4 :path,
    6 and 7 :scheme)."""
    head = bytes([0x82, 0x87 if scheme == 'https' else 0x86, 0x04, len(PATH)]) + PATH + b'\x01\x09localhost'
    return PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_STREAM | END_HEADERS, 1, head)


def ask(stream, kind):
    """One request, and its answer to the last byte."""
    if kind.endswith('h1'):
        stream.sendall(b'GET ' + PATH + b' HTTP/1.1\r\nHost: localhost\r\n\r\n')
        got = b''
        while b'\r\n\r\n' not in got:
            got += received(stream)
        assert got.startswith(b'HTTP/1.1 200'), got
        return
    stream.sendall(h2_request('https' if kind.startswith('tls') else 'http'))
    got = b''
    while True:
        got += received(stream)
        while len(got) >= 9 and len(got) >= 9 + int.from_bytes(got[:3], 'big'):
            size, kind_of, flags = int.from_bytes(got[:3], 'big'), got[3], got[4]
            if kind_of == SETTINGS and not flags & ACK:
                stream.sendall(frame(SETTINGS, ACK, 0))
            if kind_of in (0, HEADERS) and flags & END_STREAM:
                return
            got = got[9 + size:]


def received(stream):
    part = stream.recv(1 << 14)
    assert part, 'the server has closed a connection'
    return part


class Clients:
    def __init__(self, port, kind):
        self.port, self.kind, self.open = port, kind, []
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.tls.set_alpn_protocols(['h2' if kind.endswith('h2') else 'http/1.1'])

    def add(self, count):
        for _ in range(count):
            stream = socket.create_connection(('127.0.0.1', self.port))
            if self.kind.startswith('tls'):
                stream = self.tls.wrap_socket(stream)
            ask(stream, self.kind)
            self.open.append(stream)


def resident(pid):
    """Bytes, of its children, too."""
    task = pathlib.Path(f'/proc/{pid}')
    children = (task / f'task/{pid}/children').read_text().split()
    return int((task / 'statm').read_text().split()[1]) * resource.getpagesize() + sum(resident(child) for child in children)


def per_connection(pid, clients, connections):
    """Bytes."""
    clients.add(FIRST)
    time.sleep(SETTLED_S)
    before = resident(pid)
    clients.add(connections)
    time.sleep(SETTLED_S)
    return (resident(pid) - before) / connections


@contextlib.contextmanager
def served(weir, kind, scratch):
    """weir's process and port."""
    log, certificate, key = scratch / f'{kind}.log', scratch / 'certificate.pem', scratch / 'key.pem'
    if not key.exists():
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj',
                        '/CN=localhost', '-days', '2', '-keyout', key, '-out', certificate],
                       check=True, stderr=subprocess.DEVNULL)
    models = scratch / 'models'
    models.mkdir(exist_ok=True)
    settings = scratch / 'weir.yaml'
    settings.write_text('listen: ["127.0.0.1:0"]\nshards: 1\nlimits: {connections: 1000000, client_share: 100, idle_timeout: 1h}\n' +
                        (f'tls: {{certificate: {certificate}, key: {key}}}\n' if kind.startswith('tls') else ''))
    with open(log, 'wb') as out:
        server = subprocess.Popen([weir, 'serve', models, '--config', settings], stdout=out, stderr=out)
    try:
        while '127.0.0.1:' not in log.read_text():
            assert server.poll() is None, log.read_text()
            time.sleep(0.05)
        yield server.pid, int(log.read_text().split('127.0.0.1:')[1].split()[0].strip(',;'))
    finally:
        server.terminate()
        server.wait()


def nginx(folder, kind):
    def command(port):
        conf = pathlib.Path(folder) / 'nginx.conf'
        conf.write_text(f"""daemon off; worker_processes 1; worker_rlimit_nofile 20000; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 19000; }}
http {{ access_log off; keepalive_timeout 1h; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
uwsgi_temp_path {folder}; scgi_temp_path {folder};
server {{ listen 127.0.0.1:{port}{' http2' if kind == 'h2' else ''}; location / {{ return 200 'ok'; }} }} }}
""")
        return ['nginx', '-c', conf, '-p', folder]
    return command


def peers(weir, build, kinds, connections, scratch):
    """{(name, kind): bytes per connection}."""
    for kind in [kind for kind in kinds if not kind.startswith('tls')]:
        with served(weir, kind, scratch) as (_, origin):
            commands = {'nginx': nginx(scratch, kind), 'nghttpx': gateways.nghttpx(origin)}
            if kind == 'h2':
                commands['grpc++'] = cases.grpc_echo(build, 'callback')
            for name, command in commands.items():
                with cases.running({name: command}) as started:
                    yield name, kind, per_connection(started[0].process.pid, Clients(started[0].port, kind), connections)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('weir', nargs='?', default=cases.ROOT / 'build/weir')
    words.add_argument('--connections', type=int, default=8000)
    words.add_argument('--kinds', nargs='+', default=KINDS, choices=KINDS)
    words.add_argument('--peers', type=pathlib.Path, metavar='BENCH_BUILD')
    args = words.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for kind in args.kinds:
            with served(args.weir, kind, scratch) as (pid, port):
                found = per_connection(pid, Clients(port, kind), args.connections)
            print(f'{kind:7} {found / 1024:6.1f} KiB', flush=True)
        if args.peers:
            for name, kind, found in peers(args.weir, args.peers, args.kinds, args.connections, scratch):
                print(f'{name} {kind} {found / 1024:6.1f} KiB', flush=True)


if __name__ == '__main__':
    sys.exit(main())
