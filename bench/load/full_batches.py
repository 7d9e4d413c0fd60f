"""Batching: single rows that come through gRPC, beside the same engine that has full batches in process.

What is lost between them is the server's: requests are read, gathered, taken apart and answered on the core that runs the model.
"""

import pathlib
import subprocess
import sys
import tempfile

import cases
import measure
import payloads

ROWS = 32  # of a full batch
WIDTHS = (64, 1024, 1024, 1024, 1024, 10)


def write_wide(path):
    """A model with the signature of `digits` whose rows take a thousand times as long: 3.2 million weights."""
    sys.path.insert(0, str(cases.ROOT / 'conf/models'))
    import numpy as np  # noqa: PLC0415
    import onnx_writer as onnx  # noqa: PLC0415  (conf/models/onnx_writer.py)
    random, nodes, weights, last = np.random.default_rng(1), [], [], 'image'
    for i, (inner, outer) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        weights.append(onnx.tensor(f'w{i}', (random.standard_normal((inner, outer)) / inner ** 0.5).astype(np.float32)))
        nodes.append(onnx.node('MatMul', [last, f'w{i}'], [f'p{i}']))
        nodes.append(onnx.node('Relu', [f'p{i}'], [f'r{i}']) if outer != WIDTHS[-1] else
                     onnx.node('Softmax', [f'p{i}'], ['probabilities'], axis=1))
        last = f'r{i}'
    onnx.save(path, onnx.graph('wide', nodes, [onnx.value('image', 'FP32', ['batch', 64])],
                               [onnx.value('probabilities', 'FP32', ['batch', 10])], weights))


def in_process(build, model, steps):
    """Rows per second of full batches."""
    said = subprocess.run(['taskset', '-c', measure.SERVER_CORE, build / 'bench/engines/onnx_step_bench', model, str(ROWS), str(steps)],
                          stdout=subprocess.PIPE, check=True, text=True).stdout
    return 1e6 / float(said.splitlines()[-1].split()[3])


def batching_full(build, rounds, requests):
    """Rows per second through gRPC (8 connections x 16 streams, one row each) over those of the engine alone."""
    with tempfile.TemporaryDirectory() as repository:
        files, bodies = {}, {}
        for name in ('digits', 'wide'):
            folder = pathlib.Path(repository) / name
            files[name] = folder / '1/model.onnx'
            files[name].parent.mkdir(parents=True)
            if name == 'digits':
                files[name].write_bytes((cases.ROOT / 'conf/models/digits/1/model.onnx').read_bytes())
            else:
                write_wide(str(files[name]))
            (folder / 'model.yaml').write_text(f'max_batch: {ROWS}\nbatching: {{dynamic: true}}\n')
            bodies[name] = payloads.grpc_frame(payloads.infer_request(name, 'image', 64, rows=1))
        with cases.scratch(**bodies) as paths, cases.running({'weir': cases.weir(build, repository=repository)}) as servers:
            print(f'\n## Batching: single rows through gRPC beside full batches of {ROWS} in process, server and engine on one core')
            for name, count, steps in (('digits', 60_000, 200), ('wide', 6_000, 5)):
                load = measure.Load(requests or count, 8, 16, headers=cases.GRPC)
                results, alone = [], []
                for _ in range(rounds + 1):  # the first warms up
                    results.append(measure.once(servers[0], load, cases.INFER, paths[name]).rate)
                    alone.append(in_process(build, files[name], steps))
                results, alone = results[1:], alone[1:]
                share, low, high = measure.spread([a / b for a, b in zip(results, alone)])
                print(f'{name}: {measure.spread(results)[0]:.0f} rows/s through gRPC, {measure.spread(alone)[0]:.0f} in process: '
                      f'{share:.2f} ({low:.2f}-{high:.2f})', flush=True)


ALL = (batching_full,)
