"""Batching: single rows that come through gRPC, beside the same engine that has full batches in process.

What is lost between them is the server's: requests are read, gathered, taken apart and answered on the core that runs the model. What the
server takes for a row hardly depends on the model, so its share falls as rows get dearer. peers/bare_batches.cc takes the least that a
server can: it is what is left of 1 where nothing is decoded, and nobody is woken.

Rows a second are the server's only while nobody else has the two cores and the client keeps up. CPU time is, whoever else is there: the
engine's for a row in process over all that the server takes for one.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import cases
import measure
import payloads

ROWS = 32  # of a full batch
WIDTHS = (64, 1024, 1024, 1024, 1024, 10)


def write_wide(path):
    """A model with the signature of `digits` of 3.2 million weights; its rows take six times as long."""
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


def write_resnet18(path):
    """A vision model as people serve them: ResNet-18 (He et al. 2015, table 1; batch norms folded into the convolutions) over
    pixels of 3 x 224 x 224, with 10 classes. Its weights are random: 1.8 billion multiplications a row take as long with any."""
    sys.path.insert(0, str(cases.ROOT / 'conf/models'))
    import numpy as np  # noqa: PLC0415
    import onnx_writer as onnx  # noqa: PLC0415
    random, nodes, weights = np.random.default_rng(1), [], []

    def weight(*shape):
        weights.append(onnx.tensor(f'w{len(weights)}', (random.standard_normal(shape) / np.prod(shape[1:] or 1) ** 0.5).astype(np.float32)))
        return f'w{len(weights) - 1}'

    def add(op, *inputs, **attributes):
        nodes.append(onnx.node(op, inputs, [f'x{len(nodes)}'], **attributes))
        return f'x{len(nodes) - 1}'

    def conv(x, inner, outer, size, stride):
        return add('Conv', x, weight(outer, inner, size, size), weight(outer), kernel_shape=[size, size], strides=[stride, stride],
                   pads=[size // 2] * 4)

    weights.append(onnx.tensor('image_shape', np.array([-1, 3, 224, 224], np.int64)))
    x = add('Relu', conv(add('Reshape', 'image', 'image_shape'), 3, 64, 7, 2))
    x, inner = add('MaxPool', x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 64
    for outer, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        y = conv(add('Relu', conv(x, inner, outer, 3, stride)), outer, outer, 3, 1)
        x, inner = add('Relu', add('Add', y, x if inner == outer else conv(x, inner, outer, 1, stride))), outer
    x = add('MatMul', add('Flatten', add('GlobalAveragePool', x)), weight(512, 10))
    nodes.append(onnx.node('Softmax', [x], ['probabilities'], axis=1))
    onnx.save(path, onnx.graph('resnet18', nodes, [onnx.value('image', 'FP32', ['batch', 3 * 224 * 224])],
                               [onnx.value('probabilities', 'FP32', ['batch', 10])], weights))


MODELS = {  # name: what writes its file, pixels of a row, requests, steps of a round in process, its rounds
    'digits': (None, 64, 60_000, 200, 40),
    'wide': (write_wide, 64, 6_000, 5, 40),
    'resnet18': (write_resnet18, 3 * 224 * 224, 384, 1, 8),
}


def in_process(build, model, counts):
    """CPU time of a row of full batches, in us: so many steps a round, so many rounds."""
    said = subprocess.run(['taskset', '-c', measure.SERVER_CORE, build / 'bench/engines/onnx_step_bench', model, str(ROWS), *map(str, counts)],
                          stdout=subprocess.PIPE, check=True, text=True).stdout
    return float(said.splitlines()[-1].split()[3])


def told(name, runs, alone, ceiling):
    """One line of a server's runs. `ceiling`: those of bare_batches, or None."""
    def text(values):
        return '%.2f (%.2f-%.2f)' % measure.spread(values)
    shares = [row / run.cpu_us for row, run in zip(alone, runs)]
    line = f'{name}: {measure.spread([r.rate for r in runs])[0]:.0f} rows/s, {measure.spread([r.cpu_us for r in runs])[0]:.2f} us of CPU a row; ' \
           f'of full batches in process {text([run.rate * row / 1e6 for row, run in zip(alone, runs)])} of the rows, {text(shares)} by CPU'
    if ceiling:
        line += f'; CPU of the ceiling over its own {text([best.cpu_us / run.cpu_us for best, run in zip(ceiling, runs)])}'
    print(line, flush=True)


def batching_full(build, rounds, requests):
    """Rows per second through gRPC (8 connections x 16 streams, one row each) over those of the engine alone."""
    if os.geteuid() == 0:
        os.nice(-15)
    with tempfile.TemporaryDirectory() as repository:
        files, bodies = {}, {}
        for name, (write, pixels, *_) in MODELS.items():
            folder = pathlib.Path(repository) / name
            files[name] = folder / '1/model.onnx'
            files[name].parent.mkdir(parents=True)
            if write:
                write(str(files[name]))
            else:
                shutil.copy(cases.ROOT / 'conf/models' / name / '1/model.onnx', files[name])
            (folder / 'model.yaml').write_text(f'max_batch: {ROWS}\nbatching: {{dynamic: true}}\n')
            bodies[name] = payloads.grpc_frame(payloads.infer_request(name, 'image', pixels, rows=1))
        commands = {'weir': cases.weir(build, repository=repository)}
        for name in MODELS:
            commands[name] = lambda port, file=files[name]: [build / 'bench/peers/bare_batches', port, file]
        with cases.scratch(**bodies) as paths, cases.running(commands) as servers:
            weir, ceilings = servers[0], {server.name: server for server in servers[1:]}
            print(f'\n## Batching: single rows through gRPC beside full batches of {ROWS} in process, server and engine on one core')
            for name, (_, _, count, *rest) in MODELS.items():
                load = measure.Load(requests or count, 8, 16, headers=cases.GRPC)
                runs, best, alone = [], [], []
                for _ in range(rounds + 1):  # the first warms up
                    runs.append(measure.once(weir, load, cases.INFER, paths[name]))
                    alone.append(in_process(build, files[name], rest))
                    best.append(measure.once(ceilings[name], load, cases.INFER, paths[name]))
                told(name, runs[1:], alone[1:], best[1:])
                told(f'{name}, bare_batches', best[1:], alone[1:], None)


ALL = (batching_full,)
