"""llama.cpp's own routes: filling in beside all files of a repository, and chat templates that explode when they are applied."""

import json
import random
import time

import harness
from decoupled import closing
from generate import keep_open
from peer import JSON, post
from registry import attack
from text import flood

SMALL = (('WEIR_LIMITS_SLAB_BUDGET', '256MiB'),)  # the quick form's
CONTEXT = 2048
# As much as the request's `n` says of loops in loops, of texts and lists that double, of macros that call themselves, and
# of filters whose text is as long as a product.
TEMPLATES = {
    'loops': '{% for a in range(n) %}{% for b in range(n) %}{% for c in range(n) %}{{ a }}{% endfor %}{% endfor %}{% endfor %}',
    'silent': '{% for a in range(n) %}{% for b in range(n) %}{% for c in range(n) %}{% endfor %}{% endfor %}{% endfor %}',
    'messages': '{% for a in messages %}{% for b in messages %}{% for c in messages %}{{ messages | length }}{% endfor %}{% endfor %}{% endfor %}',
    'texts': '{% set m = namespace(t="x") %}{% for i in range(n) %}{% set m.t = m.t + m.t %}{% endfor %}{{ m.t }}',
    'lists': '{% set m = namespace(l=[1]) %}{% for i in range(n) %}{% set m.l = m.l + m.l %}{% endfor %}{{ m.l | tojson }}',
    'nested': '{% set m = namespace(l=[1]) %}{% for i in range(n) %}{% set m.l = [m.l, m.l] %}{% endfor %}{{ m.l | tojson }}',
    'macro': '{% macro f(i) %}{% if i < n %}{{ f(i + 1) }}{{ f(i + 1) }}{% endif %}{% endmacro %}{{ f(0) }}',
    'product': '{{ "x" * n }}{{ range(n) | join("x" * n) }}',
    'replaced': '{{ messages[0].content | replace("a", messages[0].content) }}',
    'sorted': '{{ range(n) | map("string") | sort(reverse=true) | join }}',
    'padded': '{{ "%999999999s" | format("x") }}{{ "x" | center(n) }}{{ "x" | indent(n) }}{{ "a b" | wordwrap(1) }}',
}
BEFORE = '{% set n = n | default(1) %}'
NUMBERS = (3, 30, 300, 3000, 1_000_000, 10**12, 2**63 - 1, -1)
REFUSED = (400, 413, 429, 503)


def beside_the_demo_models():
    root = harness.scratch() / f'llama-cpp-{time.monotonic_ns()}'
    root.mkdir()
    for folder in harness.MODELS.iterdir():
        if folder.is_dir():
            (root / folder.name).symlink_to(folder)
    return root


def exploding():
    """The demo models, and a model for each of the templates."""
    import tiny_model
    root = beside_the_demo_models()
    for name, template in TEMPLATES.items():
        tiny_model.write(root, f'explode-{name}', {'chat_template.jinja': (BEFORE + template).encode()})
    return root


def applied(target):
    """Requests for each template by each route, as (path, bytes)."""
    size = target.size(900_000, 300_000)
    made = []
    for name in TEMPLATES:
        kinds = [{'chat_template_kwargs': {'n': n}, 'messages': [{'role': 'user', 'content': 'a'}]} for n in NUMBERS]
        if name in ('messages', 'replaced'):
            kinds = [{'messages': [{'role': 'user', 'content': 'a' * (size // count)}] * count} for count in (1, 30, 2000)]
        for kind in kinds:
            body = json.dumps({'model': f'explode-{name}', **kind}).encode()
            made += [closing(post(path, body, JSON)) for path in ('/apply-template', '/tokenize')]
            made.append(closing(post('/v1/chat/completions', body[:-1] + b',"max_tokens":1}', JSON)))
    random.Random(112).shuffle(made)
    return made


@attack(seconds=30, quick=8, quick_env=SMALL, repository=exploding, probes=('tokens',))
def templates_that_explode(target):
    """Chat templates of loops in loops, of texts that double, of macros that call themselves, by /apply-template, /tokenize and chats: as much as a request says."""
    statuses = {}

    def check(status, body):
        statuses[status] = statuses.get(status, 0) + 1
        if status not in (0, 200, *REFUSED) or status == 400 and b'"error":{' not in body:
            target.broke(f'{status} {body[:200]!r}')

    did = flood(target, applied(target), 8, check)
    if not statuses.get(400) or not statuses.get(200):
        target.broke(f'nothing was refused, or all: {statuses}')
    return f'{did}, {statuses}'


def filling():
    """The demo models, and `fill`, whose tokenizer has tokens for filling in and for files."""
    import tiny_model
    root = beside_the_demo_models()
    tokenizer = json.loads((harness.MODELS / 'chat/1/tokenizer.json').read_text())
    tokens = ('<|repo_name|>', '<|file_sep|>', '<|im_end|>', '<|fim_prefix|>', '<|fim_suffix|>', '<|fim_middle|>')
    for token, name in zip(tokenizer['added_tokens'], tokens, strict=True):
        token['content'] = name
    config = {**tiny_model.CONFIG, 'vocab_size': 3072, 'max_position_embeddings': CONTEXT, 'eos_token_id': tokenizer['added_tokens'][2]['id']}
    shapes = {**tiny_model.SHAPES, 'model.embed_tokens.weight': [config['vocab_size'], tiny_model.HIDDEN]}
    tiny_model.write(root, 'fill', {'config.json': config, 'tokenizer.json': tokenizer, 'model.safetensors': tiny_model.varied(shapes)},
                     'kv_cache: 16MiB, threads: 1, max_running: 16')
    return root


def hostile(size):
    """Bodies of so many bytes of text, in each place where /infill takes one."""
    files = lambda count, text: [{'filename': f'src/{i}.h', 'text': text[:len(text) // count]} for i in range(count)]  # noqa: E731
    texts = ['int x; ' * (size // 7), 'a' * size, ' ' * size, '\U0001f600' * (size // 12), '7' * size, '<|fim_prefix|>' * (size // 14), '\n' * (size // 2)]
    kinds = [{'input_extra': files(count, text)} for text in texts for count in (1, 256)]
    kinds += [{'input_extra': files(257, texts[0])}, {'input_extra': files(50_000, texts[0][:size // 8])}, {'input_extra': [{'filename': texts[0], 'text': 'x'}]},
              {'input_extra': [{'filename': '<|file_sep|>' * 1000 + '\n', 'text': '<|repo_name|>' * 1000}] * 100}]
    for text in texts:
        half = text[:len(text) // 2]
        kinds += [{'input_prefix': half, 'input_suffix': half}, {'input_prefix': text, 'n_predict': 1}, {'input_suffix': text, 'n_predict': CONTEXT},
                  {'prompt': text}, {'prompt': 'int y;' * 300, 'input_prefix': half, 'input_suffix': half[:100], 'input_extra': files(100, half)}]
    kinds += [{'n': 128, 'n_predict': 500, 'input_extra': files(100, texts[0])}, {'n_probs': 20, 'input_extra': files(100, texts[0])}, {'n_predict': 1 << 40},
              {'stop': texts[0][:5000].split(' '), 'input_extra': files(10, texts[1])}, {'logit_bias': [[i, 1] for i in range(3000)], 'input_extra': files(10, texts[0])}]
    return kinds


@attack(seconds=30, quick=8, quick_env=SMALL, repository=filling, probes=('tokens',))
def infill_of_everything(target):
    """/infill beside 256 files, of 3.8 MB together or in one, with prefixes and suffixes of megabytes that are cut again and again; read, not read, or left."""
    chance, kinds = random.Random(113), hostile(target.size(3_800_000, 1_000_000) // 4 * 4)

    def make(_):
        body = {'model': 'fill', 'input_prefix': 'int a;', 'input_suffix': 'int z;', 'n_predict': 200, 'ignore_eos': True, 'stream': chance.random() < 0.5,
                **chance.choice(kinds)}
        return closing(post('/infill', json.dumps(body, ensure_ascii=False).encode(), JSON))

    return keep_open(target, target.size(24, 12), make)
