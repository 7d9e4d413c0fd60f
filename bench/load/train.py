"""Loads a weir that was built with `-Db_pgo=generate`, for `./dev pgo`: the compiler learns here which ways requests take.

usage: train.py BUILD_DIR

The models are the demo ones and one that makes tokens at no cost. The profiles are written when the server ends. What no request
of these runs is compiled as if there were no profile (`-fprofile-partial-training`).
"""

import argparse
import os
import pathlib
import tempfile

import cases
import measure
import payloads

INFER_REST = '/v2/models/identity/infer'
STREAM = '/inference.GRPCInferenceService/ModelStreamInfer'
CHAT = '/v1/chat/completions'


def repository(folder):
    models = cases.echo(folder)
    for model in (cases.ROOT / 'conf/models').iterdir():
        if model.is_dir() and not model.name.startswith('__'):
            os.symlink(model, models / model.name)
    return models


def infer_grpc(count):
    return payloads.grpc_frame(payloads.infer_request('identity', 'INPUT0', count))


def loads():
    """(name, load, path, body) of each."""
    images, asked = [('images', [1, 224, 224, 3]), ('rows', [1, 1024])], 'rows'
    binary, head = payloads.tensors_binary(images, asked)
    small, small_head = payloads.tensors_binary([('INPUT0', [16])], 'INPUT0')
    rest = lambda requests, connections, *headers: measure.Load(requests, connections, 1, http1=True, headers=headers)
    grpc = lambda requests, connections, streams: measure.Load(requests, connections, streams, headers=cases.GRPC)
    binary_head = lambda length: f'inference-header-content-length: {length}'
    digits = payloads.grpc_frame(payloads.infer_request('digits', 'image', 64, rows=1))
    return [
        ('gRPC, many streams', grpc(100_000, 8, 32), cases.INFER, infer_grpc(16)),
        ('gRPC, a stream each', grpc(50_000, 64, 1), cases.INFER, infer_grpc(16)),
        ('gRPC, 1 MiB', grpc(500, 8, 4), cases.INFER, infer_grpc(1 << 18)),
        ('gRPC, batches', grpc(10_000, 32, 1), cases.INFER, digits),
        ('REST JSON', rest(80_000, 32, *cases.JSON), INFER_REST, payloads.infer_json('INPUT0', 16)),
        ('REST JSON, 1,000 floats', rest(5_000, 8, *cases.JSON), INFER_REST, payloads.infer_json('INPUT0', 1000)),
        ('REST JSON over HTTP/2', measure.Load(20_000, 8, 32, headers=cases.JSON), INFER_REST, payloads.infer_json('INPUT0', 16)),
        ('REST binary', rest(20_000, 32, binary_head(small_head)), INFER_REST, small),
        ('REST binary, an image', rest(2_000, 8, binary_head(head)), INFER_REST, binary),
        ('GraphPipe', rest(2_000, 8), '/graphpipe/identity', payloads.tensors_graphpipe(images, asked)),
        ('GraphPipe, small', rest(20_000, 32), '/graphpipe/identity', payloads.tensors_graphpipe([('INPUT0', [16])], 'INPUT0')),
        ('tokens as SSE', rest(2_048, 256, *cases.JSON), CHAT, payloads.chat_json('echo', 'a', cases.TOKENS)),
        ('tokens as gRPC', grpc(2_048, 8, 32), STREAM, payloads.grpc_frame(payloads.text_request('echo', 'a', cases.TOKENS))),
        ('a chat', rest(32, 4, *cases.JSON), CHAT, payloads.chat_json('chat', 'What is a weir?', 32)),
    ]


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('build', type=pathlib.Path)
    program = words.parse_args().build.resolve() / 'src/app/weir'
    serve = lambda models: lambda port: [program, 'serve', models, '--listen', f'127.0.0.1:{port}', '--shards', '1']
    with tempfile.TemporaryDirectory() as folder:
        body = pathlib.Path(folder) / 'body'
        with cases.running({'weir': serve(repository(folder))}) as (server,):
            for name, load, path, content in loads():
                body.write_bytes(content)
                rate = measure.h2load(load, f'http://127.0.0.1:{server.port}{path}', str(body))
                print(f'{name}: {rate:.0f} requests/s with counters', flush=True)


if __name__ == '__main__':
    main()
