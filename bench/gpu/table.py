"""The table of H1 to H8: each figure beside its goal, what could be had at most in the same run, and PyTorch's."""

import weights

MET, MISSED, OPEN = 'met', 'missed', ''


class Figures:
    """Looks into the results; what is not there is None."""

    def __init__(self, results):
        self.results = results
        self.benches = {r['name']: r for r in results.get('checks', {}).get('results', [])}

    def bench(self, name):
        return self.benches.get(name, {}).get('value')

    def limit(self, name):
        return self.benches.get(name, {}).get('limit') or None

    def of(self, part, *path):
        at = self.results.get(part, {})
        for word in path:
            at = at.get(word) if isinstance(at, dict) else None
        return at

    def torch(self, name):
        return self.of('torch', 'figures', name)

    def gemm(self):
        """FLOP per second of a large product, as measured."""
        return scaled(self.bench('matmul 8192x8192x8192'), 1e12)


def scaled(value, by):
    return None if value is None else value * by


def over(a, b):
    return None if a is None or not b else a / b


def row(id, what, value, unit, goal, limit=None, torch=None):
    """`goal`: ('>=' | '<=', number)."""
    verdict = OPEN
    if value is not None and goal:
        verdict = MET if (value >= goal[1] if goal[0] == '>=' else value <= goal[1]) else MISSED
    return {'id': id, 'what': what, 'value': value, 'unit': unit, 'goal': goal, 'limit': limit, 'torch': torch,
            'verdict': verdict}


def text_rows(f, id, name, goals):
    """Tokens through the gateway. The limit: every weight is multiplied with each token of prompt and answer."""
    shape, out = weights.LLAMAS[name], []
    for load, prompt, tokens, goal, streams in (('short', 128, 128, goals[0], 256), ('long', 1000, 1000, goals[1], 100)):
        work = 2 * (shape.products() * (1 + prompt / tokens) + shape.head())
        for kind in ('SSE', 'gRPC'):
            out.append(row(id, f'{name}, {prompt} in, {tokens} out, {streams} streams, {kind}',
                           f.of(name, f'{load} {kind.lower()}', 'tokens_per_s'), 'tok/s', goal and ('>=', goal),
                           over(f.gemm(), work)))
    out.append(row('', f'{name}, 128 in, 128 out, 256 streams, SSE, top-p 0.9', f.of(name, 'top-p sse', 'tokens_per_s'),
                   'tok/s', None, f.of(name, 'short sse', 'tokens_per_s')))
    return out


def first_token(f, name, goal):
    shape = weights.LLAMAS[name]
    return row('H5', f'{name}, first of a prompt of 512, idle', f.of(name, 'first token', 'ttft_ms', 'p50'), 'ms',
               ('<=', goal), over(2 * 512 * shape.products() * 1e3, f.gemm()), f.torch(f'{name} prompt of 512, ms'))


def steady(f, name):
    p50 = f.of(name, 'at 80 %', 'itl_ms', 'p50')
    # On a machine that is busy with others half of the tokens come in bursts: no gap is shorter than 1 us then.
    ratio = over(f.of(name, 'at 80 %', 'itl_ms', 'p99'), p50 if p50 is None else max(p50, 1e-3))
    return row('H5', f'{name}, between tokens at 80 % load, p99/p50', ratio, 'x', ('<=', 1.15))


LONG = {'bfloat16': '', 'fp8': ' fp8'}  # how keys and values are kept, as the names of figures have it


def long_name(kept):
    return f'8B decode, batch 16 over 4096, KV {kept}'


SPLIT = (1, 2)  # GPUs


def split_name(devices):
    return f'8 layers of 8B, a token, {devices} GPU' + 's' * (devices > 1)


PREFILL = {'mma.sync': '', 'wgmma': 'by wgmma '}  # kernels, as the names of their figures have them


def prefill_name(model, by):
    return f'{model} attention of a prompt of 2048, {by}'


# Bits of a weight, with its share of a float32 scale: of 128 neighbours, and of 32. FP8 in blocks of 128 has int8's.
CODED_BITS = {'int8': 8 + 32 / 128, 'int4': 4 + 32 / 32}
CODED_ROWS = (1, 8, 64)


def coded_name(model, kind, rows):
    return f'{model} {kind} decode, batch {rows}, no server'


def split_rows(f):
    for devices in SPLIT:
        yield row('', split_name(devices), f.bench(f'eight layers of 8B, a token, devices: {devices}'), 'us', None)


def tensor_rows(f):
    up = f.bench('host to device, one slab')
    loopback = scaled(f.of('tensors', 'loopback', 'bytes_per_s'), 1e-9)
    limit = min(up, loopback) if up and loopback else None
    yield row('H7', 'host to device', up, 'GB/s', ('>=', 52), 55, f.torch('host to device, GB/s'))
    yield row('H7', 'both ways at once', f.bench('both ways at once'), 'GB/s', ('>=', 80), f.limit('both ways at once'))
    for name, what in (('whole batches', 'socket to device, 64 x 602112 bytes'), ('rows', 'the same, rows that are gathered')):
        moved = scaled(f.of('tensors', name, 'bytes_per_s'), 1e-9)
        yield row('H7', what, moved, 'GB/s', limit and ('>=', round(0.85 * limit, 2)), limit)


def small_rows(f):
    loop, offline = f.of('small', 'loop', 'rows_per_s'), f.of('small', 'offline', 'requests_per_s')
    yield row('H8', 'a small encoder, gateway / loop', over(offline, loop), 'x', ('>=', 0.95), 1.0)
    good = [p['of_offline'] for p in f.of('small', 'poisson') or [] if p['spread'] <= 1.3]
    tried = bool(f.of('small', 'poisson'))
    yield row('H8', 'Poisson / offline with p99 <= 1.3 p50', max(good, default=0.0) if tried else None, 'x', ('>=', 0.85), 1.0)


def rows(results):
    f = Figures(results)
    out = []
    for id, name, goal in (('H1', '8B', 185), ('H2', '1B', 900)):
        out.append(row(id, f'{name} decode, batch 1', f.bench(f'{name} decode b1'), 'tok/s', ('>=', goal),
                       f.limit(f'{name} decode b1'), f.torch(f'{name} decode b1')))
    out += text_rows(f, 'H3', '8B', (11000, 7600))
    out += text_rows(f, 'H4', '1B', (50000, None))
    for name in ('8B', '1B'):  # the engine alone, for the two above
        out.append(row('', f'{name} decode, batch 256, no server', f.bench(f'{name} decode b256'), 'tok/s', None,
                       f.limit(f'{name} decode b256'), f.torch(f'{name} decode b256')))
    for model in ('8B', *weights.MIXTURES):
        for kind in CODED_BITS:
            for rows in CODED_ROWS:
                name = f'{model} {kind} decode b{rows}'
                out.append(row('', coded_name(model, kind, rows), f.bench(name), 'tok/s', None, f.limit(name)))
    for name in weights.MIXTURES:
        for rows in (1, 8, 64, 256):
            out.append(row('', f'{name} decode, batch {rows}, no server', f.bench(f'{name} decode b{rows}'), 'tok/s', None,
                           f.limit(f'{name} decode b{rows}')))
    for name in ('8B', '1B'):
        for by in PREFILL:
            bench = f'prefill attention of 2048 {PREFILL[by]}{name}'
            out.append(row('', prefill_name(name, by), f.bench(bench), 'TFLOP/s', None, f.limit(bench)))
    for kept, word in LONG.items():
        out.append(row('', long_name(kept), f.bench(f'8B decode b16 over 4096{word}'), 'tok/s', None,
                       f.limit(f'8B decode b16 over 4096{word}')))
    out += split_rows(f)
    out += [first_token(f, '8B', 20), first_token(f, '1B', 5), steady(f, '8B'), steady(f, '1B')]
    for name in ('8B', '1B'):
        out.append(row('H6', f'{name}, steps that the device waits for, batch 256',
                       f.bench(f"{name} steps over before the next is queued b256"), '%', ('<=', 2)))
        out.append(row('H6', f'{name}, host per step, batch 256', f.bench(f"{name} host's time per step b256"), 'us',
                       ('<=', 50), f.limit(f"{name} host's time per step b256")))
    return out + [*tensor_rows(f), *small_rows(f)]


def number(value):
    if value is None:
        return '-'
    return f'{value:.0f}' if abs(value) >= 1000 else f'{value:.3g}'


def show(results, skipped, machine, rehearsal):
    print()
    if rehearsal:
        print('A REHEARSAL on the CPU in tiny shapes. These are no figures.')
    print(', '.join(str(machine[key]) for key in ('gpu', 'cpu', 'cores', 'date', 'commit') if machine.get(key)))
    print(f"{'':3} {'what':52} {'value':>9} {'':6} {'goal':>9} {'limit':>9} {'torch':>9}")
    for r in rows(results):
        goal = f"{r['goal'][0]} {number(r['goal'][1])}" if r['goal'] else ''
        limit, torch = (number(r[key]) if r[key] is not None else '' for key in ('limit', 'torch'))
        verdict = '' if rehearsal else r['verdict']
        print(f"{r['id']:3} {r['what']:52} {number(r['value']):>9} {r['unit']:6} {goal:>9} {limit:>9} {torch:>9} {verdict}".rstrip())
    for name, why in skipped.items():
        print(f'not done: {name}: {why}')
    for name, result in results.items():
        if result.get('error') and name not in skipped:
            print(f"failed: {name}: {result['error'].splitlines()[0][:300]}")
        if result.get('wrong'):
            print(f"wrong: {name}: {', '.join(result['wrong'])}")
        if name == 'sanitizers' and 'memcheck' in result:
            print('; '.join(f'{tool}: {said}' for tool, said in result.items() if isinstance(said, str)))


def missing(results, skipped):
    """Figures that a whole rehearsal must have, and has not."""
    return [f"{r['id']} {r['what']}" for r in rows(results)
            if r['value'] is None or r['torch'] is None and 'torch' not in skipped and r['what'].endswith('batch 1')]
