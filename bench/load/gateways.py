"""Gateways in front of one origin: weir (engine: forward) beside nginx's grpc_pass, nghttpx and haproxy. Each row is the
gateway's own CPU time per request; the origin's is not counted."""

import contextlib
import pathlib
import tempfile

import grpc

import cases
import measure
import payloads
import profile
import tails

CALM = 500  # requests per second, for what a single one takes


def nginx(folder, origin):
    def command(port):
        conf = pathlib.Path(folder) / 'nginx.conf'
        conf.write_text(f"""daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; client_max_body_size 0; client_body_buffer_size 4m;
client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
scgi_temp_path {folder}; http2_max_concurrent_streams 1024;
upstream origin {{ server 127.0.0.1:{origin}; keepalive 256; keepalive_requests 1000000000; }}
server {{ listen 127.0.0.1:{port} http2; location / {{ grpc_pass grpc://origin; grpc_buffer_size 64k; }} }} }}
""")
        return ['nginx', '-c', conf, '-p', folder]
    return command


def nghttpx(origin):
    return lambda port: ['nghttpx', f'-f127.0.0.1,{port};no-tls', f'-b127.0.0.1,{origin};;proto=h2', '-n1', '--no-ocsp',
                         '--errorlog-file=/dev/null', '--frontend-http2-max-concurrent-streams=1024',
                         '--frontend-http2-window-size=1048576', '--backend-http2-window-size=1048576',
                         '--conf=/dev/null']


def haproxy(folder, origin):
    def command(port):
        conf = pathlib.Path(folder) / 'haproxy.cfg'
        conf.write_text(f"""global
  nbthread 1
  tune.h2.max-concurrent-streams 1024
  tune.h2.initial-window-size 1048576
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend f
  bind 127.0.0.1:{port} proto h2
  default_backend b
backend b
  server s 127.0.0.1:{origin} proto h2
""")
        return ['haproxy', '-db', '-f', conf]
    return command


class Origin(measure.Server):
    """weir with the model identity."""

    def __init__(self, build):
        super().__init__('origin', cases.weir(build))
        measure.wait_ready(self.port)


def check(server, body, least):
    """An error of gRPC is an HTTP answer of 200, too: the answer has to be there."""
    with grpc.insecure_channel(f'127.0.0.1:{server.port}', [('grpc.max_receive_message_length', -1)]) as channel:
        answer = channel.unary_unary(cases.INFER)(body[5:], timeout=20)
    if len(answer) < least:
        raise RuntimeError(f'{server.name} has answered with {len(answer)} bytes')


@contextlib.contextmanager
def gateways(build, folder, values):
    """The origin, and the gateways in front of it, each of which has answered."""
    body = payloads.grpc_frame(payloads.infer_request('identity', 'INPUT0', values))
    with contextlib.ExitStack() as stack:
        origin = Origin(build)
        stack.callback(origin.stop)
        servers = stack.enter_context(cases.running({
            'weir': cases.weir(build, repository=profile.forwarding_repository(folder, origin.port)), 'nginx grpc_pass': nginx(folder, origin.port),
            'nghttpx': nghttpx(origin.port), 'haproxy': haproxy(folder, origin.port)}))
        for server in servers:
            check(server, body, 4 * values)
        yield origin, servers


def compare(title, build, rounds, load, values):
    body = payloads.grpc_frame(payloads.infer_request('identity', 'INPUT0', values))
    with tempfile.TemporaryDirectory() as folder, gateways(build, folder, values) as (_, servers):
        path = pathlib.Path(folder) / 'body'
        path.write_bytes(body)
        results = measure.rounds(servers, load, lambda _: (cases.INFER, str(path)), rounds)
        measure.table(title, results, 'weir')


def forward_small(build, rounds, requests):
    """ModelInfer through a gateway, 16 floats, 8 connections of 32 streams."""
    compare('gRPC to gRPC, 16 floats, 8 connections x 32 streams', build, rounds,
            measure.Load(requests or 50_000, 8, 32, headers=cases.GRPC), 16)


def forward_large(build, rounds, requests):
    """1 MiB in, 1 MiB out."""
    compare('gRPC to gRPC, 1 MiB, 4 connections x 4 streams', build, rounds,
            measure.Load(requests or 800, 4, 4, headers=cases.GRPC), 1 << 18)


def forward_latency(build, rounds, requests):
    """What a gateway adds to the time of ModelInfer with 16 floats: 500 requests per second at random times, so that hardly any
    waits for another one. The gateways and the origin share a core. `requests`: seconds of a measurement."""
    seconds = tails.seconds_of(requests)
    print(f'\n## gRPC to gRPC, 16 floats, {CALM} requests/s: medians of {rounds} rounds of {seconds} s', flush=True)
    with tempfile.TemporaryDirectory() as folder, gateways(build, folder, 16) as (origin, servers):
        way = tails.Way.grpc(folder)
        way.load = measure.Load(0, 1, 32, headers=cases.GRPC)
        readings = {server.name: [] for server in (origin, *servers)}
        for _ in range(rounds):
            for server in (origin, *servers):
                readings[server.name].append(way.tail(build, server, CALM, seconds))
        p50 = {name: [1000 * r['latency_ms']['p50'] for r in of] for name, of in readings.items()}
        tails.say('without a gateway', CALM, readings[origin.name])
        for server in servers:
            tails.say(server.name, CALM, readings[server.name])
            low, high = (f(a - b for a, b in zip(p50[server.name], p50[origin.name])) for f in (min, max))
            added = measure.spread([a - b for a, b in zip(p50[server.name], p50[origin.name])])[0]
            print(f'{server.name} adds {added:.0f} us to p50 ({low:.0f}-{high:.0f})', flush=True)


ALL = (forward_small, forward_large, forward_latency)
