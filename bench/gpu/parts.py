"""The parts of `./dev gpu`. Each takes a Run and fills its result as it goes on, so that a part that is cut still says
what it has found. `least` is the time that it must have to begin."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import time
import typing
import urllib.request

import machine
import serving
import weights


class NotHere(Exception):
    """What a part needs is not on this machine."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of everything that is asked for."""
    tiny: bool
    device: str
    prefix: str             # of names in weights.py
    crowd: int              # streams that saturate
    hundred: int            # the other load's
    short: tuple            # prompt and tokens of the one,
    long: tuple             # and of the other
    prompt: int             # of the time to the first token
    probes: int
    row_bytes: int          # of H7's tensors
    batch: int
    small_batch: int        # of H8's model
    small_prompt: int
    few: int                # connections per row of its batches
    seconds: float          # one load of a fixed time
    fractions: tuple        # of the offline rate, for Poisson arrivals
    pinned: str             # the server's pool

    def for_a_time(self, seconds):
        """As much as fits; in a rehearsal a few, however long they take on a busy machine."""
        return {'requests': 40, 'limit': 60} if self.tiny else {'requests': 10 ** 9, 'limit': seconds}


FULL = Sizes(False, 'cuda:0', '', 256, 100, (128, 128), (1000, 1000), 512, 24, 602112, 64, 16, 32, 4, 3.0,
             (0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5), '4GiB')
TINY = Sizes(True, 'host', 'tiny ', 3, 2, (8, 4), (12, 6), 16, 2, 4096, 4, 2, 8, 2, 0.2, (0.85,), '256MiB')


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    take: typing.Callable
    seconds: float  # that it needs on an H100
    alone: bool = False  # taken only where it is asked for by name

    def least(self, sizes):
        return 5 if sizes.tiny else self.seconds


def model(repository, name, engine, parameters, **keys):
    """A model's folder with its description; returns the folder of its version."""
    version = repository / 'models' / name / '1'
    version.mkdir(parents=True)
    lines = [f'engine: {engine}'] + [f'{key}: {value}' for key, value in keys.items()] + ['parameters:']
    lines += [f'  {key}: "{value}"' for key, value in parameters.items()]
    (version.parent / 'model.yaml').write_text('\n'.join(lines) + '\n')
    return version


# --- the kernels and the engine without a server around it: H1, H2, H6, limits ------------------------------------------
CORRECT = ('rows', 'attention', 'codes', 'draws', 'encoder', 'products', 'experts', 'model', 'parallel', 'identity', 'fault')  # beside each other: nothing is timed
OWN_KERNELS = ('rows', 'attention', 'codes', 'draws', 'encoder', 'experts')  # initcheck does not see what cuBLASLt writes by the tensor memory accelerator
TIMED = ('copies', 'kernels', '1B', '8B', 'mixture', 'split')


def section(run, folder, name):
    """What gpu_check says of one section: (name, its JSON or why there is none). One program each: a kernel that fails
    ends its own."""
    out = folder / f'{name}.json'
    how = ['rehearse'] if run.sizes.tiny else []
    try:
        code, said = run.call(run.program('tests/gpu/gpu_check'), out, *how, name, limit=min(run.left(), 150),
                              codes=(0, 1))
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f'{name}: {error}', flush=True)
        return name, str(error)
    if not run.sizes.tiny or code:
        print(said, end='', flush=True)
    return name, json.loads(out.read_text())


def checks(run, result):
    folder = run.scratch(1 << 20)
    with concurrent.futures.ThreadPoolExecutor(serving.cores()) as together:
        told = list(together.map(lambda name: section(run, folder, name), CORRECT))
    told += [section(run, folder, name) for name in TIMED]
    good = {name: said for name, said in told if isinstance(said, dict)}
    result['device'] = next((said['device'] for said in good.values()), None)
    result['seeds'] = {name: said['seed'] for name, said in good.items()}
    result['results'] = [r for said in good.values() for r in said['results']]
    result['wrong'] = [r['name'] for r in result['results'] if not r['good']]
    if len(good) < len(told):
        raise RuntimeError('; '.join(f'{name}: {said}' for name, said in told if name not in good))


# --- text through the gateway: H3, H4, H5 --------------------------------------------------------------------------------
def text(name):
    def take(run, result):
        sizes, shape = run.sizes, weights.LLAMAS[run.sizes.prefix + name]
        repository = run.scratch(shape.bytes())
        parameters = {'device': sizes.device, 'max_running': sizes.crowd, 'step_tokens': 2048, 'max_waiting': 1024,
                      'prefix_cache': 'off', **({'kv_cache': '16MiB'} if sizes.tiny else {})}
        weights.write(sizes.prefix + name, model(repository, 'llm', 'llm', parameters))
        with serving.Server(run, repository, min(run.left(), 150)) as server:
            Text(run, result, server, shape.vocabulary).take()
    return take


class Text:
    def __init__(self, run, result, server, vocabulary):
        self.run, self.result, self.server = run, result, server
        self.words = {'model': 'llm', 'vocabulary': vocabulary}
        self.seed = 0

    def take(self):
        sizes = self.run.sizes
        half = max(1, sizes.short[1] // 2)
        for most in (sizes.crowd, 1):  # captures what steps of many and of one need
            self.load('sse', (sizes.short[0], half), most, 2 * most)
        self.first_token()
        self.saturate('short', sizes.short, sizes.crowd, 3)
        self.result['top-p sse'] = self.load('sse', sizes.short, sizes.crowd, 2 * sizes.crowd, top_p=0.9)
        self.gaps()
        self.saturate('long', sizes.long, sizes.hundred, 1)

    def load(self, kind, shape, at_once, requests, **more):
        self.seed += 1
        connections, streams = (at_once, 1) if kind == 'sse' else ((at_once + 31) // 32, min(at_once, 32))
        threads = min(serving.client_threads(), connections)
        most = max(1.0, min(60, self.run.left() - 10))
        return self.server.load(kind, limit=most, connections=connections, prompt=shape[0], tokens=shape[1], requests=requests,
                                threads=threads, seed=self.seed, **({'streams': streams} if kind == 'grpc' else {}),
                                **self.words, **more)

    def first_token(self):
        sizes = self.run.sizes
        self.load('sse', (sizes.prompt, 2), 1, 3)
        self.result['first token'] = self.load('sse', (sizes.prompt, 2), 1, sizes.probes)

    def saturate(self, name, shape, at_once, waves):
        for kind in ('sse', 'grpc'):
            self.result[f'{name} {kind}'] = self.load(kind, shape, at_once, waves * at_once)

    def gaps(self):
        """Streams that come at random times, with 80 % of the tokens that the server can bring."""
        sizes = self.run.sizes
        rate = 0.8 * self.result['short sse']['tokens_per_s'] / sizes.short[1]
        for seconds in (sizes.seconds, 2 * sizes.seconds):  # the first captures graphs of the batches in between
            self.result['at 80 %'] = self.load('sse', sizes.short, 2 * sizes.crowd, max(2, int(rate * seconds)), rate=rate)


# --- two models on one device, and one that is loaded anew: what they say stays the same ---------------------------------
def models(run, result):
    shape = run.sizes.prefix + '1B'
    repository = run.scratch(2 * weights.LLAMAS[shape].bytes())
    tiny = {'kv_cache': '16MiB', 'max_running': 4, 'step_tokens': 64}
    parameters = {'device': run.sizes.device, **(tiny if run.sizes.tiny else {})}
    for name in ('one', 'other'):
        weights.write(shape, model(repository, name, 'llm', parameters))
    question = {'prompt': list(range(3, 40)), 'max_tokens': 12, 'temperature': 0, 'ignore_eos': True}
    with serving.Server(run, repository, min(run.left(), 150), '--control', 'explicit', '--load', '*') as server:
        def ask(name):
            return server.post('/v1/completions', {'model': name, **question})['choices'][0]['text']
        first = {name: ask(name) for name in ('one', 'other')}
        wrong = set()
        with concurrent.futures.ThreadPoolExecutor(2) as together:  # in each other's company, each alone in its batch
            for _ in range(4):
                told = [(name, together.submit(ask, name)) for name in ('one', 'other')]
                wrong |= {f'{name} beside the other' for name, text in told if text.result() != first[name]}
        with concurrent.futures.ThreadPoolExecutor(8) as together:  # in batches, whose products may differ in the last bits
            texts = list(together.map(ask, ['one'] * 16))
        result['texts of 16 that a batch changes'] = sum(text != first['one'] for text in texts)
        began = time.monotonic()
        with open(repository / 'models/one/model.yaml', 'a') as description:  # what has not changed is not loaded anew
            description.write('# again\n')
        server.post('/v2/repository/models/one/load', {})
        result['seconds of a reload'] = round(time.monotonic() - began, 2)
        wrong |= {f'{name} after a reload' for name in first if ask(name) != first[name]}
        result['texts'], result['wrong'] = first, sorted(wrong)


# --- large tensors from the socket to the device: H7 ---------------------------------------------------------------------
def tensors(run, result):
    sizes, threads = run.sizes, serving.shards()
    repository = run.scratch(1 << 20)
    parameters = {'device': sizes.device, 'in_flight': 4, **({'pinned': '8MiB'} if sizes.tiny else {})}
    model(repository, 'sink', 'identity', parameters, max_batch=sizes.batch)
    _, said = run.call(run.program('tests/gpu/gpu_load'), 'bare', f'threads={threads}', f'bytes={sizes.row_bytes}',
                       f'seconds={sizes.seconds}', limit=60)
    result['loopback'] = json.loads(said)
    with serving.Server(run, repository, min(run.left(), 60)) as server:
        # One request is the whole batch, which no copy gathers; or the server gathers it from rows.
        for name, rows, connections in (('whole batches', sizes.batch, 4 * threads), ('rows', 1, 2 * sizes.batch)):
            words = {'model': 'sink', 'rows': rows, 'row_bytes': sizes.row_bytes, 'connections': connections,
                     'threads': threads}
            server.load('tensors', requests=2 * connections, limit=30, **words)  # the pool's pages, the buffers' sizes
            result[name] = server.load('tensors', **sizes.for_a_time(sizes.seconds), **words)


# --- a small model, whose step is shorter than a millisecond: H8 ---------------------------------------------------------
def small(run, result):
    sizes = run.sizes
    name = sizes.prefix + 'minilm'
    repository = run.scratch(weights.BERTS[name].bytes())
    folder = model(repository, 'encoder', 'llm', {'device': sizes.device, 'tokenizer': 'off'},
                   max_batch=sizes.small_batch, batching='{max_queue: 8192}')  # a queue that fills would answer 429
    weights.write(name, folder)
    _, said = run.call(run.program('tests/gpu/gpu_loop'), folder, sizes.small_batch, sizes.small_prompt, sizes.seconds,
                       sizes.device, limit=60)
    result['loop'] = json.loads(said)
    words = {'model': 'encoder', 'prompt': sizes.small_prompt, 'vocabulary': weights.BERTS[name].vocabulary}
    with serving.Server(run, repository, min(run.left(), 60)) as server:
        connections = sizes.few * sizes.small_batch
        threads = min(serving.client_threads(), connections)
        server.load('encode', connections=connections, threads=threads, requests=20 * connections, limit=30, **words)
        result['offline'] = server.load('encode', connections=connections, threads=threads,
                                        **sizes.for_a_time(sizes.seconds), **words)
        offline = result['offline']['requests_per_s']
        for fraction in sizes.fractions:
            rate = fraction * offline
            found = server.load('encode', limit=60 if sizes.tiny else 3 * sizes.seconds, connections=16 * connections,
                                threads=threads, rate=rate, requests=max(40, int(rate * sizes.seconds)), **words)
            result.setdefault('poisson', []).append({'fraction': fraction, 'of_offline': found['requests_per_s'] / offline,
                                                     'spread': found['latency_ms']['p99'] / found['latency_ms']['p50'],
                                                     **found})
            if result['poisson'][-1]['spread'] <= 1.3 and fraction <= 0.85:
                break


# --- ONNX models on the GPU, where ONNX Runtime has a provider for it ----------------------------------------------------
def onnx(run, result):
    library = os.environ.get('WEIR_ONNXRUNTIME', '')
    if run.sizes.tiny or not (pathlib.Path(library).parent / 'libonnxruntime_providers_cuda.so').exists():
        raise NotHere('WEIR_ONNXRUNTIME names no ONNX Runtime with CUDA')
    repository = run.scratch(1 << 20)
    for name, words in (('here', {}), ('there', {'devices': f'[{run.sizes.device}]'})):
        shutil.copytree(run.root / 'conf/models/digits/1', model(repository, name, 'onnx', {'in_flight': 2}, max_batch=64,
                                                                **words), dirs_exist_ok=True)
    images = json.loads((run.root / 'conf/models/digits/heldout.json').read_text())['images'][:64]
    body = json.dumps({'inputs': [{'name': 'image', 'datatype': 'FP32', 'shape': [len(images), 64], 'data': images}]}).encode()
    with serving.Server(run, repository, min(run.left(), 60)) as server:
        def ask(name):
            with urllib.request.urlopen(f'http://127.0.0.1:{server.port}/v2/models/{name}/infer', body, timeout=30) as answer:
                return json.loads(answer.read())['outputs'][0]['data']
        here, there = ask('here'), ask('there')
        result['farthest'] = max(abs(a - b) for a, b in zip(here, there))
        result['wrong'] = ['digits'] if len(here) != len(there) or result['farthest'] > 1e-3 else []
        for name in ('here', 'there'):
            began = time.monotonic()
            for _ in range(200):
                ask(name)
            result[f'{name}, ms a batch of 64'] = (time.monotonic() - began) * 5


# --- PyTorch -------------------------------------------------------------------------------------------------------------
def torch(run, result):
    sizes = run.sizes
    names = ','.join(sizes.prefix + name for name in ('1B', '8B'))
    script = run.root / 'bench/gpu/torch_reference.py'
    for python in machine.pythons():
        code, said = run.call(python, script, 'cpu' if sizes.tiny else 'cuda', names, 0.02 if sizes.tiny else 1.0,
                              limit=min(run.left(), 150), codes=(0, 77), env=os.environ)
        if code == 0:
            return result.update(json.loads(said.strip().split('\n')[-1]))
    raise NotHere('no torch with CUDA here' if not sizes.tiny else 'no torch here')


# --- compute-sanitizer ---------------------------------------------------------------------------------------------------
def sanitizers(run, result):
    if run.sizes.tiny:
        raise NotHere('there are no kernels to watch')
    places = ('compute-sanitizer', '/usr/local/cuda/bin/compute-sanitizer',
              '/usr/local/cuda/compute-sanitizer/compute-sanitizer')
    program = next(filter(None, map(shutil.which, places)), None)
    if not program:
        raise NotHere('compute-sanitizer is not here')

    def watch(tool):
        log = run.build / f'gpu-{tool}.log'
        command = [program, '--tool', tool, '--error-exitcode', '9', run.program('tests/gpu/gpu_check'),
                   str(run.build / f'gpu-{tool}.json'), 'checks', *(OWN_KERNELS if tool == 'initcheck' else ())]
        try:
            with open(log, 'w') as out:
                code = subprocess.run(command, cwd=run.root, env=run.environment, stdout=out, stderr=subprocess.STDOUT,
                                      timeout=max(run.left() - 5, 5)).returncode
        except subprocess.TimeoutExpired as late:
            return f'cut after {late.timeout:.0f} s'
        return 'clean' if code == 0 else f'exit {code}, see {log}'

    tools = ('memcheck', 'racecheck', 'initcheck', 'synccheck')
    with concurrent.futures.ThreadPoolExecutor(len(tools)) as together:
        result.update(zip(tools, together.map(watch, tools)))
    print('\n'.join(f'{tool}: {result[tool]}' for tool in tools), flush=True)
    result['wrong'] = [tool for tool in tools if result[tool].startswith('exit')]


ALL = [Part('checks', checks, 75), Part('1B', text('1B'), 30), Part('tensors', tensors, 15), Part('small', small, 35),
       Part('8B', text('8B'), 65), Part('models', models, 12), Part('onnx', onnx, 20), Part('torch', torch, 30),
       Part('sanitizers', sanitizers, 60, alone=True)]
