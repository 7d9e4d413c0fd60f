"""Whole-server loads, weir beside its peers. Each case starts its servers, loads them in turn and prints one table."""

import contextlib
import functools
import os
import pathlib
import subprocess
import tempfile

import measure
import payloads

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SERVER = pathlib.Path(os.environ.get('WEIR_SERVER', ROOT / 'build/src/app/weir'))  # as it is served; or another build
INFER = '/inference.GRPCInferenceService/ModelInfer'
GRPC = ('content-type: application/grpc', 'te: trailers')
JSON = ('content-type: application/json',)


def weir(build, *flags, repository=ROOT / 'conf/models'):
    return lambda port: [SERVER, 'serve', repository, '--listen', f'127.0.0.1:{port}', '--shards', '1',
                         '--access-log', 'off', *flags]


def grpc_echo(build, api):
    return lambda port: [build / 'bench/peers/grpc_echo', api, port]


def bare_echo(build):
    return lambda port: [build / 'bench/peers/bare_echo', port]


# As long as weir's answer.
ANSWER = ('{"model_name":"identity","model_version":"1","outputs":[{"name":"INPUT0","datatype":"FP32","shape":[16],"data":[' +
          ','.join(['0.0625'] * 16) + ']}]}')


def h2o(folder):
    """The same from a handler of one line in mruby, h2o's only way to answer a POST by itself; one thread, no logs."""
    def command(port):
        conf = pathlib.Path(folder) / 'h2o.conf'
        conf.write_text(f"""num-threads: 1
{'user: root' if os.geteuid() == 0 else ''}
listen: {{host: 127.0.0.1, port: {port}}}
hosts:
  default:
    paths:
      /:
        mruby.handler: |
          answer = [200, {{"content-type" => "application/json"}}, ['{ANSWER}']]
          Proc.new {{|env| answer }}
""")
        return ['h2o', '-c', conf]
    return command


def nginx(folder):
    """`return 200` of a JSON body; one worker, no logs."""
    def command(port):
        conf = pathlib.Path(folder) / 'nginx.conf'
        conf.write_text(f"""daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}; proxy_temp_path {folder};
fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
server {{ listen 127.0.0.1:{port}; default_type application/json; location / {{ return 200 '{ANSWER}'; }} }} }}
""")
        return ['nginx', '-c', conf, '-p', folder]
    return command


@contextlib.contextmanager
def running(commands):
    """Of {name: command}, or {name: (command, cores)}."""
    servers = []
    try:
        for name, command in commands.items():
            servers.append(measure.Server(name, *(command if isinstance(command, tuple) else (command,))))
            if name.startswith('weir'):
                measure.wait_ready(servers[-1].port)
        yield servers
    finally:
        for server in servers:
            server.stop()


@contextlib.contextmanager
def scratch(**bodies):
    """A folder with one file per body; yields {name: path}."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {'folder': folder}
        for name, body in bodies.items():
            paths[name] = str(pathlib.Path(folder) / name)
            pathlib.Path(paths[name]).write_bytes(body)
        yield paths


def unary(title, build, rounds, load, values):
    body = payloads.grpc_frame(payloads.infer_request('identity', 'INPUT0', values))
    peers = {'weir': weir(build), 'grpc++ callback': grpc_echo(build, 'callback'), 'grpc++ async': grpc_echo(build, 'async'),
             'bare asio+nghttp2': bare_echo(build)}
    with scratch(body=body) as files, running(peers) as servers:
        measure.table(title, measure.rounds(servers, load, lambda _: (INFER, files['body']), rounds), 'weir')


def grpc_small(build, rounds, requests):
    """ModelInfer, identity, 16 floats, 8 connections of 32 streams: the headline."""
    unary('gRPC ModelInfer, 16 floats, 8 connections x 32 streams', build, rounds,
          measure.Load(requests or 200_000, 8, 32, headers=GRPC), 16)


def grpc_single(build, rounds, requests):
    """One stream per connection: bound by system calls."""
    unary('gRPC ModelInfer, 16 floats, 64 connections x 1 stream', build, rounds,
          measure.Load(requests or 100_000, 64, 1, headers=GRPC), 16)


def grpc_large(build, rounds, requests):
    """1 MiB in, 1 MiB out."""
    unary('gRPC ModelInfer, 1 MiB, 8 connections x 4 streams', build, rounds,
          measure.Load(requests or 2_000, 8, 4, headers=GRPC), 1 << 18)


def rest_json(build, rounds, requests):
    """REST JSON over HTTP/1.1, against a server that does not even look at the body."""
    load = measure.Load(requests or 100_000, 32, 1, http1=True, headers=JSON)
    with scratch(body=payloads.infer_json('INPUT0', 16)) as files, \
            running({'weir': weir(build), 'nginx return 200': nginx(files['folder']), 'h2o mruby': h2o(files['folder'])}) as servers:
        target = lambda server: ('/v2/models/identity/infer', files['body'])
        results = measure.rounds(servers, load, target, rounds)
        measure.table('REST JSON over HTTP/1.1, 16 floats, 32 connections', results, 'weir')


def every_protocol(build, rounds, title, tensors, asked, load):
    """The same tensors by every protocol, beside grpc++ and a bare receive of the same bytes. Identity takes all of them and returns
    the one that is asked for. `load` makes a measure.Load of what a protocol needs. Returns {name: [Run per round]}."""
    binary, head = payloads.tensors_binary(tensors, asked)
    grpc = (INFER, 'grpc', load(headers=GRPC))
    ways = {  # name: server, path, body, load
        'weir GraphPipe': ('weir', '/graphpipe/identity', 'graphpipe', load(http1=True)),
        'weir gRPC raw': ('weir', *grpc),
        'weir REST binary': ('weir', '/v2/models/identity/infer', 'binary', load(http1=True, headers=(f'inference-header-content-length: {head}',))),
        'weir REST JSON': ('weir', '/v2/models/identity/infer', 'json', load(http1=True, headers=JSON)),
        'grpc++ callback': ('grpc++', *grpc),
        'bare receive': ('bare', '/', 'graphpipe', load(http1=True)),
    }
    answer = len(payloads.floats(dict(tensors)[asked]))
    servers = {'weir': weir(build, '--max-body', '512MiB', '--max-message', '256MiB', '--limits-stream-window', '16MiB'),
               'grpc++': grpc_echo(build, 'callback'),
               'bare': lambda port: [build / 'bench/peers/raw_sink', answer, port]}
    with scratch(graphpipe=payloads.tensors_graphpipe(tensors, asked), binary=binary,
                 grpc=payloads.grpc_frame(payloads.tensors_grpc('identity', tensors, asked)),
                 json=payloads.tensors_json(tensors, asked)) as files, running(servers) as started:
        by_name = {s.name: s for s in started}
        results = {name: [] for name in ways}
        for _ in range(rounds + 1):  # the first warms up
            for name, (server, path, body, one) in ways.items():
                results[name].append(measure.once(by_name[server], one, path, files[body]))
    results = {name: runs[1:] for name, runs in results.items()}
    measure.table(title, results, 'weir GraphPipe')
    return results


def graphpipe_large(build, rounds, requests):
    """GraphPipe's own headline work: 128 x 224 x 224 x 3 floats (77 MB) in, 3.2 million floats (12.8 MB) out."""
    results = every_protocol(build, rounds, '77 MB + 12.8 MB in, 12.8 MB out, one connection',
                             [('images', [128, 224, 224, 3]), ('rows', [128, 25000])], 'rows',
                             functools.partial(measure.Load, min(requests or 10, 10), 1, 1))  # each has 77 MB
    for name in ('bare receive', 'grpc++ callback'):
        for of in ('weir GraphPipe', 'weir gRPC raw'):
            cpu, *_ = measure.spread([b.cpu_us / a.cpu_us for a, b in zip(results[of], results[name])])
            rate, low, high = measure.spread([a.rate / b.rate for a, b in zip(results[of], results[name])])
            print(f'{of} moves {rate:.2f} ({low:.2f}-{high:.2f}) times the bytes of {name} in the same time, '
                  f'{cpu:.2f} times for the same CPU time')


def images(build, rounds, requests):
    """One picture of 224 x 224 x 3 floats (602,112 bytes) a request in, 16 floats out."""
    every_protocol(build, rounds, 'a picture of 602,112 bytes in, 64 bytes out, 8 connections', [('image', [1, 224, 224, 3]), ('row', [16])], 'row',
                   functools.partial(measure.Load, requests or 400, 8, 1))


def batching(build, rounds, requests):
    """The same model with and without dynamic batching, 32 single-row clients. Requests per second count here."""
    load = measure.Load(requests or 20_000, 32, 1, headers=GRPC)
    bodies = {name: payloads.grpc_frame(payloads.infer_request(name, 'image', 64, rows=1)) for name in ('digits', 'digits_unbatched')}
    with tempfile.TemporaryDirectory() as repository:
        source = ROOT / 'conf/models/digits'
        for name in bodies:
            folder = pathlib.Path(repository) / name
            folder.mkdir()
            (folder / '1').mkdir()
            (folder / '1/model.onnx').write_bytes((source / '1/model.onnx').read_bytes())
            # Said in so many words: without them the server's default decides, which batches.
            dynamic = 'true' if name == 'digits' else 'false'
            (folder / 'model.yaml').write_text(f'max_batch: 32\nbatching: {{dynamic: {dynamic}}}\n')
        with scratch(**bodies) as files, running({'weir': weir(build, repository=repository)}) as servers:
            one = servers[0]
            results = {name: [] for name in bodies}
            for _ in range(rounds + 1):
                for name in bodies:
                    results[name].append(measure.once(one, load, INFER, files[name]))
            results = {name: runs[1:] for name, runs in results.items()}
            measure.table('digits, 32 clients of one row, server and lane on one core', results, 'digits')
            gain, low, high = measure.spread([a.rate / b.rate for a, b in zip(results['digits'], results['digits_unbatched'])])
            print(f'batching answers {gain:.2f} times as many requests a second ({low:.2f}-{high:.2f})')


def evergreen_ping_pong(build, rounds, requests):
    """Small fragments to and fro over bidi streams: ECHO of an Evergreen session beside a grpc++ stream that only sends back,
    and, for one session, beside bytes without any protocol."""
    peers = {'weir': weir(build), 'weir, spin 50us': weir(build, '--spin', '50us'),
             'grpc++ bidi': lambda port: [build / 'bench/peers/grpc_bidi_echo', port],
             'bare TCP echo': lambda port: [build / 'bench/peers/tcp_echo', port]}
    kinds = {'grpc++ bidi': 'peer', 'bare TCP echo': 'tcp'}
    with running(peers) as servers:
        for sessions, pings, core, where in ((1, requests or 5000, measure.CLIENT_CORE, 'another core than the server'),
                                             (1, requests or 5000, measure.SERVER_CORE, "the server's core"),
                                             (64, (requests or 32_000) // 64, measure.CLIENT_CORE, 'another core than the server')):
            took_part = [s for s in servers if sessions == 1 or s.name != 'bare TCP echo']
            trips = {s.name: [] for s in took_part}
            rates = {s.name: [] for s in took_part}
            for _ in range(rounds):
                for server in took_part:
                    kind = kinds.get(server.name, 'weir')
                    said = subprocess.run(['taskset', '-c', core, build / 'bench/evergreen/ping_pong', str(server.port), kind,
                                           str(sessions), str(pings)], stdout=subprocess.PIPE, check=True, text=True).stdout
                    values = dict(word.split('=') for word in said.split()[1:])
                    trips[server.name].append(float(values['p50_us']))
                    rates[server.name].append(float(values['fragments_per_s']))
            print(f'\n{sessions} session(s), one fragment of 16 bytes on its way in each, the client on {where}')
            for name in trips:
                print(f'  {name}: round trip p50 {measure.spread(trips[name])[0]:.1f} us, {measure.spread(rates[name])[0]:.0f} fragments/s')
            for name in trips:
                if name == 'grpc++ bidi':
                    continue
                ratio, low, high = measure.spread([a / b for a, b in zip(trips[name], trips['grpc++ bidi'])])
                print(f'  {name} / grpc++ bidi, p50 of the round trip: {ratio:.2f} ({low:.2f}-{high:.2f})')


TOKENS = 128  # of each stream


def fastify(step_ms=0):
    return lambda port: ['env', f"NPM_HOME={ROOT / '.cache/npm'}", 'node', ROOT / 'bench/peers/fastify_sse.mjs', port, step_ms]


def echo(folder, step_ms=0):
    """A repository with a model that makes tokens at no cost: what remains is the path of a token to its client."""
    model = pathlib.Path(folder) / 'models/echo'
    model.mkdir(parents=True)
    (model / 'model.yaml').write_text(f'engine: echo\nparameters: {{max_running: 256, step_tokens: 16384, step_us: {step_ms * 1000}}}\n')
    return model.parent


def events(title, results, first):
    measure.table(title, results, first)
    for name, runs in results.items():
        per_core, low, high = measure.spread([TOKENS * 1e6 / r.cpu_us for r in runs])
        print(f'{name:24} {per_core:11.0f} tokens delivered per second of CPU ({low:.0f}-{high:.0f})')


def stream_sse(build, rounds, requests):
    """256 streams of Server-Sent Events, one token each per step of the engine, beside fastify and what the kernel's part of it is."""
    load = measure.Load(requests or 2048, 256, 1, http1=True, headers=JSON)
    # At full speed tokens share writes; at a step every 10 ms each token is a write of its own.
    for step_ms, what in ((0, 'as fast as they come'), (10, 'a step every 10 ms')):
        peers = {'fastify': fastify(step_ms)}
        if step_ms:
            peers['a bare send() each'] = lambda port: [build / 'bench/peers/bare_sse', port, TOKENS, step_ms]
        with scratch(body=payloads.chat_json('echo', 'a', TOKENS)) as files, \
                running({'weir': weir(build, repository=echo(files['folder'], step_ms)), **peers}) as servers:
            results = measure.rounds(servers, load, lambda _: ('/v1/chat/completions', files['body']), rounds)
            events(f'chat completions as SSE, 256 streams of {TOKENS} tokens, {what}', results, 'weir')


def stream_grpc(build, rounds, requests):
    """256 gRPC streams over 8 connections, beside grpc++."""
    load = measure.Load(requests or 2048, 8, 32, headers=GRPC)
    path = '/inference.GRPCInferenceService/ModelStreamInfer'
    with scratch(body=payloads.grpc_frame(payloads.text_request('echo', 'a', TOKENS))) as files, \
            running({'weir': weir(build, repository=echo(files['folder'])), 'grpc++ callback': grpc_echo(build, 'callback')}) as servers:
        results = measure.rounds(servers, load, lambda _: (path, files['body']), rounds)
        events(f'ModelStreamInfer, 256 streams of {TOKENS} tokens', results, 'weir')


ALL = [grpc_small, grpc_single, grpc_large, rest_json, batching, graphpipe_large, images, stream_sse, stream_grpc, evergreen_ping_pong]
