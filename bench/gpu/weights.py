"""Models of random weights in the shapes that the GPU's figures are about, as Hugging Face folders. They are too large to
be carried, so they are written where they are needed; needs nothing but Python.

    python3 bench/gpu/weights.py 1B OUT      # OUT/{config.json, model.safetensors, tokenizer.json}: 1B, 8B, minilm, …

A matrix's values are +-2^-7 … 2^-5, every bit of the mantissa random: half of a bfloat16 is random bits, the other half
one of two bytes. One block of them is drawn and written over and over, each time from another place, so that a file is
written as fast as memory and disk allow. Text: one token per printable ASCII letter, then words that no text has.
"""

import dataclasses
import json
import os
import pathlib
import struct
import sys

BLOCK = 16 << 20  # bytes of random values
STEP = 1_000_006  # by how much the next tensor's place in it is further on
FIRST_WORD = 3 + 95


@dataclasses.dataclass(frozen=True)
class Llama:
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    tied: bool
    context: int = 8192

    def products(self):
        """Weights that every token is multiplied with, the output matrix aside."""
        qkv = self.hidden * (self.heads + 2 * self.kv_heads) * self.head_dim
        return self.layers * (qkv + self.hidden * self.heads * self.head_dim + 3 * self.hidden * self.intermediate)

    def head(self):
        return self.vocabulary * self.hidden

    def bytes(self):
        return 2 * (self.products() + self.head() * (1 if self.tied else 2))


@dataclasses.dataclass(frozen=True)
class Mixture(Llama):
    """A mixture of experts in every layer; `intermediate` is an expert's width."""
    experts: int = 1
    used: int = 1

    def expert(self):
        return 3 * self.hidden * self.intermediate

    def outside(self):
        """Weights of the layers that are no expert's; routers with them."""
        qkv = self.hidden * (self.heads + 2 * self.kv_heads) * self.head_dim
        return self.layers * (qkv + self.hidden * self.heads * self.head_dim + self.hidden * self.experts)

    def products(self):
        return self.outside() + self.layers * self.used * self.expert()

    def read(self, rows):
        """Weights that a step of so many rows reads, where each expert is chosen as often as another."""
        busy = self.experts * (1 - (1 - self.used / self.experts) ** rows)
        return self.outside() + self.layers * busy * self.expert()

    def bytes(self):
        return 2 * (self.read(float('inf')) + self.head() * (1 if self.tied else 2))


@dataclasses.dataclass(frozen=True)
class Bert:
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    intermediate: int
    positions: int = 512

    def bytes(self):
        return 2 * (self.vocabulary * self.hidden + self.layers * (4 * self.hidden ** 2 + 2 * self.hidden * self.intermediate))


LLAMAS = {
    '1B': Llama(128256, 2048, 16, 32, 8, 64, 8192, True),
    '8B': Llama(128256, 4096, 32, 32, 8, 128, 14336, False),
    '200M': Llama(32000, 1024, 14, 16, 8, 64, 2816, True),  # for CPUs: bench/load/prefill.py
    'tiny 1B': Llama(320, 64, 2, 2, 1, 64, 96, True),
    'tiny 8B': Llama(320, 128, 2, 2, 1, 64, 96, False),
}
MIXTURES = {  # measured without files: tests/gpu/model_bench.cc
    '30B-A3B, 12 layers': Mixture(151936, 2048, 12, 32, 4, 128, 768, False, 8192, 128, 8),  # a quarter of Qwen3's
}
BERTS = {
    'minilm': Bert(30522, 384, 6, 12, 1536),
    'tiny minilm': Bert(256, 64, 2, 2, 96),
}


def random_block():
    low, high = os.urandom(BLOCK // 2), os.urandom(BLOCK // 2).translate(bytes([0x3C, 0xBC] * 128))
    block = bytearray(BLOCK)
    block[0::2], block[1::2] = low, high
    return memoryview(bytes(block))


def llama_tensors(s):
    """(name, shape, 'random' or a constant)."""
    yield 'model.embed_tokens.weight', [s.vocabulary, s.hidden], 'random'
    if not s.tied:
        yield 'lm_head.weight', [s.vocabulary, s.hidden], 'random'
    yield 'model.norm.weight', [s.hidden], 1
    for i in range(s.layers):
        at = f'model.layers.{i}.'
        yield at + 'input_layernorm.weight', [s.hidden], 1
        yield at + 'post_attention_layernorm.weight', [s.hidden], 1
        for name, rows, columns in (('self_attn.q_proj', s.heads * s.head_dim, s.hidden),
                                    ('self_attn.k_proj', s.kv_heads * s.head_dim, s.hidden),
                                    ('self_attn.v_proj', s.kv_heads * s.head_dim, s.hidden),
                                    ('self_attn.o_proj', s.hidden, s.heads * s.head_dim),
                                    ('mlp.gate_proj', s.intermediate, s.hidden), ('mlp.up_proj', s.intermediate, s.hidden),
                                    ('mlp.down_proj', s.hidden, s.intermediate)):
            yield f'{at}{name}.weight', [rows, columns], 'random'


def bert_tensors(s):
    def norm(name):
        yield name + '.weight', [s.hidden], 1
        yield name + '.bias', [s.hidden], 0

    def dense(name, rows, columns):
        yield name + '.weight', [rows, columns], 'random'
        yield name + '.bias', [rows], 0
    for name, rows in (('word', s.vocabulary), ('position', s.positions), ('token_type', 2)):
        yield f'embeddings.{name}_embeddings.weight', [rows, s.hidden], 'random'
    yield from norm('embeddings.LayerNorm')
    for i in range(s.layers):
        at = f'encoder.layer.{i}.'
        for name in ('query', 'key', 'value'):
            yield from dense(at + 'attention.self.' + name, s.hidden, s.hidden)
        yield from dense(at + 'attention.output.dense', s.hidden, s.hidden)
        yield from norm(at + 'attention.output.LayerNorm')
        yield from dense(at + 'intermediate.dense', s.intermediate, s.hidden)
        yield from dense(at + 'output.dense', s.hidden, s.intermediate)
        yield from norm(at + 'output.LayerNorm')


def elements(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def write_safetensors(path, tensors):
    tensors, header, at = list(tensors), {}, 0
    for name, shape, _ in tensors:
        size = 2 * elements(shape)
        header[name] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    block, place = random_block(), 0
    with open(path, 'wb', buffering=0) as f:
        f.write(struct.pack('<Q', len(text)) + text)
        for _, shape, what in tensors:
            left = 2 * elements(shape)
            if what != 'random':
                write_all(f, struct.pack('<H', 0x3F80 * what) * (left // 2))
                continue
            while left:
                piece = block[place:place + left]
                write_all(f, piece)
                left -= len(piece)
                place = (place + len(piece)) % BLOCK
            place = (place + STEP) % BLOCK & ~1


def write_all(file, data):
    data = memoryview(data)
    while data:
        data = data[file.write(data):]


def tokenizer(vocabulary):
    words = ['<unk>', '<s>', '</s>'] + [chr(c) for c in range(32, 127)]
    words += [f'w{i} ' for i in range(FIRST_WORD, vocabulary)]
    return {'version': '1.0', 'added_tokens': [], 'normalizer': None, 'pre_tokenizer': None, 'post_processor': None,
            'decoder': {'type': 'Fuse'},
            'model': {'type': 'BPE', 'unk_token': '<unk>', 'fuse_unk': True, 'byte_fallback': False,
                      'vocab': {w: i for i, w in enumerate(words)}, 'merges': []}}


def save(folder, name, value):
    (folder / name).write_text(json.dumps(value))


def write_llama(folder, s):
    save(folder, 'config.json', {
        'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': s.hidden, 'num_hidden_layers': s.layers,
        'num_attention_heads': s.heads, 'num_key_value_heads': s.kv_heads, 'head_dim': s.head_dim,
        'intermediate_size': s.intermediate, 'vocab_size': s.vocabulary, 'max_position_embeddings': s.context,
        'rms_norm_eps': 1e-5, 'rope_theta': 500000.0, 'tie_word_embeddings': s.tied, 'hidden_act': 'silu', 'bos_token_id': 1,
        'eos_token_id': 2, 'torch_dtype': 'bfloat16'})
    save(folder, 'tokenizer.json', tokenizer(s.vocabulary))
    write_safetensors(folder / 'model.safetensors', llama_tensors(s))


def write_bert(folder, s):
    save(folder, 'config.json', {
        'architectures': ['BertModel'], 'model_type': 'bert', 'vocab_size': s.vocabulary, 'hidden_size': s.hidden,
        'num_hidden_layers': s.layers, 'num_attention_heads': s.heads, 'intermediate_size': s.intermediate,
        'hidden_act': 'gelu', 'layer_norm_eps': 1e-12, 'max_position_embeddings': s.positions, 'type_vocab_size': 2,
        'pad_token_id': 0, 'torch_dtype': 'bfloat16'})
    write_safetensors(folder / 'model.safetensors', bert_tensors(s))


def write(name, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if name in LLAMAS:
        write_llama(folder, LLAMAS[name])
    else:
        write_bert(folder, BERTS[name])


if __name__ == '__main__':
    if len(sys.argv) != 3 or sys.argv[1] not in {**LLAMAS, **BERTS}:
        sys.exit(__doc__)
    write(sys.argv[1], sys.argv[2])
