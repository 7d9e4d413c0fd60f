#!/usr/bin/python3
"""Runs the examples of Triton's Python backend, models and clients unchanged, against weir, and prints a table.

    tests/triton_python_examples.py BACKEND CLIENT PROTOS [--weir PROGRAM] [NAME…]

BACKEND is a checkout of triton-inference-server/python_backend, CLIENT one of …/client, PROTOS one of …/common. It fetches
nothing and works in a folder of its own. Needs Debian's python3-numpy and -torch beside what tests/triton_examples.py needs.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import triton_examples  # noqa: E402
from triton_examples import harness  # noqa: E402

# name: the models that it needs (folder of the example, model.py, config.pbtxt or none), the client
EXAMPLES = {
    'add_sub': ({'add_sub': ('add_sub', 'model', 'config')}, 'add_sub/client'),
    'pytorch': ({'pytorch': ('pytorch', 'model', 'config')}, 'pytorch/client'),
    'decoupled repeat': ({'repeat': ('decoupled', 'repeat_model', 'repeat_config')}, 'decoupled/repeat_client'),
    'decoupled square': ({'square': ('decoupled', 'square_model', 'square_config')}, 'decoupled/square_client'),
    'auto_complete': ({'nobatch_auto_complete': ('auto_complete', 'nobatch_model', None),
                       'batch_auto_complete': ('auto_complete', 'batch_model', None)}, 'auto_complete/client'),
    'instance_kind': ({'resnet50': ('instance_kind', 'model', 'config')}, 'instance_kind/client'),
    'bls sync': ({'add_sub': ('add_sub', 'model', 'config'), 'pytorch': ('pytorch', 'model', 'config'),
                  'bls_sync': ('bls', 'sync_model', 'sync_config')}, 'bls/sync_client'),
    'bls async': ({'add_sub': ('add_sub', 'model', 'config'), 'pytorch': ('pytorch', 'model', 'config'),
                   'bls_async': ('bls', 'async_model', 'async_config')}, 'bls/async_client'),
    'bls_decoupled sync': ({'square_int32': ('decoupled', 'square_model', 'square_config'),
                            'bls_decoupled_sync': ('bls_decoupled', 'sync_model', 'sync_config')}, 'bls_decoupled/sync_client'),
    'bls_decoupled async': ({'square_int32': ('decoupled', 'square_model', 'square_config'),
                             'bls_decoupled_async': ('bls_decoupled', 'async_model', 'async_config')},
                            'bls_decoupled/async_client'),
    'custom_metrics': ({'custom_metrics': ('custom_metrics', 'model', 'config')}, 'custom_metrics/client'),
    'preprocessing': ({'preprocess': ('preprocessing', 'model', 'model_repository/preprocess/config')}, 'preprocessing/client'),
}


def repository(examples, models, out):
    for name, (folder, model, config) in models.items():
        # The name in the configuration is the folder's.
        if config and (named := re.search(r'^name: "(\w+)"', (examples / folder / f'{config}.pbtxt').read_text(), re.M)):
            name = named[1]
        (out / name / '1').mkdir(parents=True)
        shutil.copy(examples / folder / f'{model}.py', out / name / '1/model.py')
        if config:
            shutil.copy(examples / folder / f'{config}.pbtxt', out / name / 'config.pbtxt')


def run(examples, name, python, program, scratch):
    models, client = EXAMPLES[name]
    folder = scratch / name.replace(' ', '-')
    repository(examples, models, folder)
    environment = {'WEIR_ENGINES_PYTHON_INTERPRETER': sys.executable}
    listen = [f'127.0.0.1:{port}' for port in (8000, 8001, 8002)]  # Triton's: HTTP, gRPC, metrics
    server = harness.Server(repository=folder, listen=listen, env=environment, program=program)
    try:
        done = subprocess.run([sys.executable, examples / f'{client}.py'], cwd=folder, text=True, capture_output=True, timeout=120,
                              env={**os.environ, 'PYTHONPATH': str(python)})
        said = (done.stdout + done.stderr).strip()
        passed = done.returncode == 0 and not re.search(r'\bfailed\b|Traceback', said)
        reason = next((line for line in reversed(server.output().splitlines()) if 'warning' in line or 'error' in line), '')
        return 'passed' if passed else f'{said.splitlines()[-1] if said else done.returncode} | {reason[:300]}'
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('backend', type=pathlib.Path)
    parser.add_argument('client', type=pathlib.Path)
    parser.add_argument('common', type=pathlib.Path)
    parser.add_argument('--weir', type=pathlib.Path, default=harness.WEIR)
    parser.add_argument('names', nargs='*', metavar='NAME')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='weir-python-examples-') as folder:
        scratch = pathlib.Path(folder)
        python = scratch / 'python'
        python.mkdir()
        triton_examples.python_client(options.client, options.common, python)
        outcomes = {}
        for name in EXAMPLES:
            if options.names and not any(n in name for n in options.names):
                continue
            outcomes[name] = run(options.backend / 'examples', name, python, options.weir, scratch)
            print(f'{name:24} {outcomes[name]}', flush=True)
        print(f"{sum(o == 'passed' for o in outcomes.values())} of {len(outcomes)} passed")


if __name__ == '__main__':
    main()
