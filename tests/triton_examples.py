#!/usr/bin/python3
"""Runs the examples of Triton's clients, unchanged, against weir, and prints a table: passed, or the reason why not.

    tests/triton_examples.py CLIENT PROTOS [--server SERVER] [--cc] [--weir PROGRAM] [NAME…]

CLIENT is a checkout of triton-inference-server/client, PROTOS one of …/common, SERVER one of …/server (for its example
models, of which nothing is changed). It fetches nothing and builds in a folder of its own: the Python client with
protoc's stubs, and with --cc the C++ client (needs libcurl4-openssl-dev, rapidjson-dev, libgrpc++-dev, and for the image
clients libopencv-highgui-dev). Python's side needs Debian's python3-grpcio, -gevent, -geventhttpclient, -aiohttp,
-rapidjson, -packaging, -numpy, -pil. Networks that the examples download from the Internet have stand-ins with the same tensors.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tests/e2e'), str(ROOT / 'conf/models')]
import harness  # noqa: E402
import onnx_writer as ow  # noqa: E402

PASSED = 'passed'
NO_GPU = 'needs a GPU and cuda-python'
# Examples that need more than `-u`: arguments, where {image} is a picture, {grpc} and {http} the server.
ARGUMENTS = {
    'grpc_image_client': ['-u', '{grpc}', '-m', 'densenet_onnx', '-s', 'INCEPTION', '-c', '3', '{image}'],
    'image_client': ['-u', '{http}', '-m', 'densenet_onnx', '-s', 'INCEPTION', '-c', '3', '{image}'],
    'ensemble_image_client': ['-u', '{http}', '-c', '3', '{image}'],
    'grpc_client': ['-u', '{grpc}'],
    'memory_growth_test': ['-i', 'grpc', '-r', '20'],
}
CC_ARGUMENTS = {'ensemble_image_client': ['-i', 'http', '-u', '{http}', '-c', '3', '{image}'],
                'image_client': ['-u', '{http}', '-m', 'densenet_onnx', '-s', 'INCEPTION', '-c', '3', '{image}'],
                'simple_grpc_custom_repeat': ['-u', '{grpc}', '-r', '2', '-s', '3', '-d', '20']}

def python_client(client, common, out):
    """The package tritonclient, with the stubs that its build makes."""
    shutil.copytree(client / 'src/python/library/tritonclient', out / 'tritonclient')
    grpc = out / 'tritonclient/grpc'
    plugin = shutil.which('grpc_python_plugin')
    shutil.copy(common / 'protobuf/grpc_service.proto', out / 'service.proto')
    shutil.copy(common / 'protobuf/model_config.proto', out)
    subprocess.run(['protoc', '-I', '.', '--python_out=.', f'--plugin=protoc-gen-grpc={plugin}', '--grpc_out=.',
                    'service.proto', 'model_config.proto'], cwd=out, check=True)
    (out / 'attrdict.py').write_text(ATTRDICT)
    for name in ('service_pb2', 'service_pb2_grpc', 'model_config_pb2'):
        text = (out / f'{name}.py').read_text()
        text = text.replace('import service_pb2', 'from tritonclient.grpc import service_pb2')
        text = text.replace('import model_config_pb2', 'from tritonclient.grpc import model_config_pb2')
        (grpc / f'{name}.py').write_text(text)


# image_client.py uses it; the package on PyPI does not work with Python 3.10 and later.
ATTRDICT = """
class AttrDict(dict):
    def __getattr__(self, name):
        value = self[name]
        if isinstance(value, dict):
            return AttrDict(value)
        return [AttrDict(v) if isinstance(v, dict) else v for v in value] if isinstance(value, list) else value
"""


def stand_in(folder, graph):
    (folder / '1').mkdir(exist_ok=True)
    ow.save(str(folder / '1/model.onnx'), graph)


def classifier(name, tensor, shape, result, classes):
    """A network of one layer over the means of the colours: [1, …] -> [1, classes, …]."""
    random = np.random.default_rng(1)
    channel = 1 if shape[1] == 3 else 3
    axes = [a for a in (1, 2, 3) if a != channel]
    nodes = [ow.node('ReduceMean', [tensor], ['means'], axes=axes, keepdims=0),
             ow.node('MatMul', ['means', 'weights'], ['scores']),
             ow.node('Reshape', ['scores', 'shape'], [result[0]])]
    return ow.graph(name, nodes, inputs=[ow.value(tensor, 'FP32', shape)], outputs=[ow.value(result[0], 'FP32', result[1])],
                    initializers=[ow.tensor('weights', random.normal(size=(3, classes)).astype(np.float32)),
                                  ow.tensor('shape', np.array([-1 if d == 'batch' else d for d in result[1]], np.int64))])


def repository(server, out):
    """Triton's example models with what their download script would add, and those of weir that it does not have."""
    if server:
        shutil.copytree(server / 'docs/examples/model_repository', out)
        stand_in(out / 'densenet_onnx', classifier('densenet', 'data_0', [1, 3, 224, 224], ('fc6_1', [1, 1000, 1, 1]), 1000))
        stand_in(out / 'inception_onnx', classifier('inception', 'input:0', [1, 299, 299, 3],
                                                    ('InceptionV3/Predictions/Softmax:0', [1, 1001]), 1001))
    else:
        out.mkdir()
    for model in sorted((ROOT / 'conf/models').iterdir()):
        if (model / 'config.pbtxt').exists() and not (out / model.name).exists() and model.name != 'digits':
            shutil.copytree(model, out / model.name)
    ensemble = out / 'preprocess_inception_ensemble'
    ensemble.mkdir()
    stand_in(ensemble, classifier('ensemble', 'INPUT', ['batch', 299, 299, 3], ('OUTPUT', ['batch', 1001]), 1001))
    (ensemble / 'model.yaml').write_text('preprocess: {layout: nhwc, scale: 0.00784313725490196, mean: 1}\n'
                                         f'outputs: [{{name: OUTPUT, labels: [{", ".join(f"c{i}" for i in range(1001))}]}}]\n')
    identity = out / 'custom_identity_int32'
    identity.mkdir()
    stand_in(identity, ow.graph('identity', [ow.node('Identity', ['INPUT0'], ['OUTPUT0'])],
                                inputs=[ow.value('INPUT0', 'INT32', ['batch', 'n'])],
                                outputs=[ow.value('OUTPUT0', 'INT32', ['batch', 'n'])]))


def picture(out):
    from PIL import Image
    Image.fromarray(np.random.default_rng(2).integers(0, 255, (300, 400, 3), np.uint8)).save(out)


def protocol(name):
    return 'http' if '_http_' in name or name in ('reuse_infer_objects_client',) else 'grpc'


def arguments(name, table, where):
    given = table.get(name) or ['-u', '{%s}' % protocol(name)]
    return [a.format(**where) for a in given]


def run(command, env):
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    except subprocess.TimeoutExpired:
        return 'no end after 120 s'
    if done.returncode == 0:
        return PASSED
    lines = [line for line in done.stdout.decode(errors='replace').strip().splitlines() if line.strip()]
    return f'exit {done.returncode}: {lines[-1][:160] if lines else ""}'


CONFIG = """
server: {{name: triton}}
models: {{repository: [{models}], control: {control}, allow_config_override: true}}
engines: {{python: {{interpreter: {python}}}}}
"""


def build_cc(client, common, out):
    """Returns a function: an example's source -> its program, or why it cannot be built."""
    out.mkdir(parents=True, exist_ok=True)
    library, plugin = client / 'src/c++/library', shutil.which('grpc_cpp_plugin')
    for proto in ('grpc_service', 'model_config'):
        subprocess.run(['protoc', '-I', common / 'protobuf', f'--cpp_out={out}', f'--plugin=protoc-gen-grpc={plugin}',
                        f'--grpc_out={out}', common / f'protobuf/{proto}.proto'], check=True)
    opencv = ['-I/usr/include/opencv4']
    flags = ['-std=c++17', '-O0', '-w', '-DTRITON_ENABLE_HTTP', '-DTRITON_INFERENCE_SERVER_CLIENT_CLASS=InferenceServerClient',
             '-I', library, '-I', client / 'src/c++/examples', '-I', common / 'include', '-I', out, *opencv]

    def compile_one(source):
        made = out / f'{source.stem}.o'
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(['g++', *flags, '-c', source, '-o', made], check=True, capture_output=True, text=True)
        return made

    sources = [*out.glob('*.pb.cc'), *(library / f'{n}.cc' for n in ('common', 'cencode', 'grpc_client', 'http_client',
                                                                     'json_utils', 'shm_utils'))]
    objects = [compile_one(source) for source in sources]
    found = subprocess.run(['pkg-config', '--libs', 'grpc++', 'protobuf'], check=True, capture_output=True, text=True).stdout
    libraries = [*found.split(), '-lcurl', '-lrt', '-lz', '-lpthread', '-ldl']

    def program(source):
        made = out / source.stem
        images = ['-lopencv_imgcodecs', '-lopencv_imgproc', '-lopencv_core'] if 'image' in source.stem else []
        try:
            subprocess.run(['g++', compile_one(source), *objects, '-o', made, *images, *libraries], check=True,
                           capture_output=True, text=True)
        except subprocess.CalledProcessError as failed:
            return 'cannot be built: ' + next((line for line in failed.stderr.splitlines() if 'error' in line), '')[:120]
        return made

    return program


class Examples:
    def __init__(self, args, scratch):
        self.args, self.scratch = args, scratch
        self.rows, self.servers = [], {}
        self.everything = scratch / 'models'
        repository(args.server, self.everything)
        picture(scratch / 'image.png')

    def models_for(self, name):
        """The examples of model control count the models that there are: their comments say seven and eight."""
        if 'model_control' not in name:
            return self.everything
        names = sorted(p.name for p in (self.args.server / 'docs/examples/model_repository').iterdir())
        if 'http' in name:
            names.remove('simple_identity')
        out = self.scratch / f'models-{len(names)}'
        for model in names if not out.exists() else ():
            shutil.copytree(self.everything / model, out / model)
        return out

    def where(self, name):
        models = self.models_for(name)
        key = (models, 'memory_growth' in name)
        if key not in self.servers:
            config = self.scratch / f'{models.name}.yaml'
            control = 'none' if models == self.everything else 'explicit'
            config.write_text(CONFIG.format(models=models, control=control, python=sys.executable))
            # The one example that takes no address wants both of Triton's usual ports.
            ports = ('127.0.0.1:0', *(f'127.0.0.1:{p}' for p in (8000, 8001) if 'memory_growth' in name))
            self.servers[key] = harness.Server(config=config, listen=ports, program=self.args.weir)
        address = self.servers[key].address
        return {'grpc': address, 'http': address, 'image': str(self.scratch / 'image.png')}

    def wanted(self, name):
        return not self.args.name or any(n in name for n in self.args.name)

    def try_one(self, language, command, name, table):
        result = f'cannot: {NO_GPU}' if 'cudashm' in name else None
        if 'model_control' in name and not self.args.server:
            result = 'cannot: it counts the models of --server'
        result = result or run([*command, *arguments(name, table, self.where(name))], self.environment)
        self.rows.append(result)
        print(f'{language:7} {name:46} {result}', flush=True)

    def python(self):
        python_client(self.args.client, self.args.protos, self.scratch)
        self.environment = {**os.environ, 'PYTHONPATH': str(self.scratch)}
        for path in sorted((self.args.client / 'src/python/examples').glob('*.py')):
            if self.wanted(path.stem):
                self.try_one('Python', [sys.executable, str(path)], path.stem, ARGUMENTS)

    def cc(self):
        built = build_cc(self.args.client, self.args.protos, self.args.cc)
        self.environment = dict(os.environ)
        for path in sorted((self.args.client / 'src/c++/examples').glob('*.cc')):
            if not self.wanted(path.stem):
                continue
            program = built(path)
            if isinstance(program, pathlib.Path) or 'cudashm' in path.stem:
                self.try_one('C++', [str(program)], path.stem, CC_ARGUMENTS)
            else:
                self.rows.append(program)
                print(f'C++     {path.stem:46} {program}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('client', type=pathlib.Path)
    parser.add_argument('protos', type=pathlib.Path)
    parser.add_argument('--server', type=pathlib.Path)
    parser.add_argument('--cc', type=pathlib.Path, metavar='FOLDER', help='build the C++ client here, and run its examples')
    parser.add_argument('--weir', type=pathlib.Path, default=harness.WEIR)
    parser.add_argument('--no-python', action='store_true')
    parser.add_argument('name', nargs='*')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='triton-examples-') as scratch:
        examples = Examples(args, pathlib.Path(scratch))
        if not args.no_python:
            examples.python()
        if args.cc:
            examples.cc()
        for server in examples.servers.values():
            server.stop()
    passed = sum(row == PASSED for row in examples.rows)
    cannot = sum(row.startswith('cannot') for row in examples.rows)
    print(f'{passed} passed, {len(examples.rows) - passed - cannot} failed, {cannot} cannot run here')
    sys.exit(passed + cannot < len(examples.rows))


if __name__ == '__main__':
    main()
