"""LoRA adapters that come and go, by whoever may ask for it and whoever may not."""

import json
import random
import time

import harness
from peer import JSON, Raw, ask, more_descriptors, post
from registry import attack

PARAMETERS = 'kv_cache: 4MiB, threads: 1, max_running: 32, step_tokens: 32'
FOLDERS = 6  # of adapters


def with_adapters():
    """The demo models and `base`, which takes adapters."""
    import tiny_model
    root = harness.scratch() / f'adapters-{time.monotonic_ns()}'
    root.mkdir()
    for folder in harness.MODELS.iterdir():
        if folder.is_dir():
            (root / folder.name).symlink_to(folder)
    tiny_model.write(root, 'base', {'model.safetensors': tiny_model.varied()})
    (root / 'base/model.yaml').write_text(f'engine: llm\nparameters: {{{PARAMETERS}}}\nadapters_folder: adapters\n')
    return root


def adapter_roots():
    import adapters_test
    import tiny_model
    outside = harness.scratch() / f'outside-{time.monotonic_ns()}'
    said = adapters_test.ADAPTERS['org/sql:v1']
    for i in range(FOLDERS):
        files, _ = adapters_test.adapter(adapters_test.arrays(tiny_model.varied()), said, i)
        adapters_test.put(outside / f'a{i}', files)
    adapters_test.put(outside / 'huge', {**files, 'adapter_config.json': {'peft_type': 'LORA', 'bias': 'none', **said, 'r': 1 << 30}})
    adapters_test.put(outside / 'broken', {**files, 'adapter_model.safetensors': b'\xff' * 8 + b'{}'})
    return ('--adapter-roots', str(outside))


PATHS = ('../a0', '/etc', '/proc/self', 'a0/../../..', '\0', 'x' * 100_000, 'a0/' * 2000, '', 'huge', 'broken', 'a0/adapter_config.json')


def change(chance):
    """A request that loads, replaces, unloads or asks for an adapter, of 40 names."""
    name = chance.choice((f'n{chance.randrange(40)}', 'base', 'x' * 5000, '../x', 'n1\n'))
    path = chance.choice((*(f'a{i}' for i in range(FOLDERS)), *PATHS))
    load = {'lora_name': name, 'lora_path': path}
    return chance.choice((
        lambda: post('/v1/load_lora_adapter', json.dumps(load).encode(), JSON),
        lambda: post('/v1/load_lora_adapter', json.dumps({**load, 'lora_path': f'a{chance.randrange(FOLDERS)}', 'load_inplace': True}).encode(), JSON),
        lambda: post('/v1/load_lora_adapter', json.dumps({**load, 'base_model_name': chance.choice(('base', 'chat', 'identity', 7))}).encode(), JSON),
        lambda: post('/v1/unload_lora_adapter', json.dumps({'lora_name': name}).encode(), JSON),
        lambda: post('/v1/completions', json.dumps({'model': name, 'prompt': 'x', 'max_tokens': 30, 'ignore_eos': True, 'stream': True}).encode(), JSON)))()


@attack(seconds=30, quick=7, repository=with_adapters, flags=adapter_roots)
def adapters_flood(target):
    """Loads, replacements and unloads of 40 LoRA adapters on 200 connections at once, while they are asked; paths and names that lie; clients that leave."""
    more_descriptors()
    chance, peers, begun, statuses = random.Random(81), [], 0, {}
    while not target.over():
        left = []
        for peer in peers:
            if (got := peer.take()) is None and peer.alive:
                left.append(peer)
                continue
            status = (got or b'')[9:12].decode()
            statuses[status] = statuses.get(status, 0) + 1
            if status == '500' or b'/tmp' in (got or b''):
                target.broke(f'{got[:300]!r}')
            peer.sock.close()
        peers = left
        for _ in range(min(20, target.size(200, 60) - len(peers))):
            peers.append(Raw(target, wait=5).send(change(chance)))
            begun += 1
        for peer in chance.sample(peers, len(peers) // 10):
            peer.sock.close()
            peers.remove(peer)
        time.sleep(0.005)
    for peer in peers:
        peer.read()
        peer.sock.close()
    for i in range(40):
        ask(target, post('/v1/unload_lora_adapter', json.dumps({'lora_name': f'n{i}'}).encode(), JSON))
    status, body = ask(target, post('/v1/completions', b'{"model":"base","prompt":"x","max_tokens":2}', JSON))
    if status != 200 or statuses.get('200', 0) == 0 or statuses.get('404', 0) == 0:
        target.broke(f'base is not served: {status} {body[:200]!r}; {statuses}')
    return f'{begun} asked: {statuses}'
