"""Folders of models of text so small that a test can write them, and change them, file by file."""

import json
import os
import random
import struct

HIDDEN, VOCABULARY = 16, 260
CONFIG = {'architectures': ['LlamaForCausalLM'], 'vocab_size': VOCABULARY, 'hidden_size': HIDDEN, 'intermediate_size': 32,
          'num_hidden_layers': 1, 'num_attention_heads': 2, 'num_key_value_heads': 1, 'max_position_embeddings': 64,
          'tie_word_embeddings': True, 'eos_token_id': 256}
BERT = {'architectures': ['BertModel'], 'vocab_size': 30, 'num_hidden_layers': 1, 'num_attention_heads': 2, 'hidden_size': 16,
        'intermediate_size': 32, 'max_position_embeddings': 64}
SHAPES = {'model.embed_tokens.weight': [VOCABULARY, HIDDEN], 'model.norm.weight': [HIDDEN],
          **{'model.layers.0.' + name + '.weight': shape for name, shape in {
              'input_layernorm': [HIDDEN], 'post_attention_layernorm': [HIDDEN], 'self_attn.q_proj': [16, HIDDEN],
              'self_attn.k_proj': [8, HIDDEN], 'self_attn.v_proj': [8, HIDDEN], 'self_attn.o_proj': [HIDDEN, 16],
              'mlp.gate_proj': [32, HIDDEN], 'mlp.up_proj': [32, HIDDEN], 'mlp.down_proj': [HIDDEN, 32]}.items()}}


def product(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def packed(header, data=b''):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack('<Q', len(header)) + header + data


def weights(shapes=SHAPES, value=0.01, dtype='F32', change=lambda header: None):
    """A safetensors file of one number."""
    header, at = {}, 0
    for name, shape in shapes.items():
        size = product(shape) * (8 if dtype == 'F64' else 4)
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [at, at + size]}
        at += size
    change(header)
    one = struct.pack('<d', value) if dtype == 'F64' else struct.pack('<f', value)
    return packed(header, one * (at // len(one)))


def spelled():
    """GPT-2's spelling of the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    odd = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(odd)) for b in range(256)]


TOKENIZER = {'added_tokens': [{'id': 256, 'content': '<|im_end|>', 'special': True}, {'id': 257, 'content': '<|im_start|>', 'special': True}],
             'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False, 'use_regex': True}, 'decoder': {'type': 'ByteLevel'},
             'model': {'type': 'BPE', 'vocab': {c: i for i, c in enumerate(spelled())}, 'merges': []}}
GOOD = {'config.json': CONFIG, 'model.safetensors': weights(), 'tokenizer.json': TOKENIZER}


def varied(shapes=SHAPES, seed=1):
    """A safetensors file of random numbers, so that what is said varies."""
    dice, header, data = random.Random(seed), {}, b''
    for name, shape in shapes.items():
        spread = 0 if 'norm' in name else 1 if 'embed' in name else 0.25
        numbers = [1 + dice.gauss(0, 0.1) if spread == 0 else dice.gauss(0, spread) for _ in range(product(shape))]
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(data), len(data) + 4 * len(numbers)]}
        data += struct.pack(f'<{len(numbers)}f', *numbers)
    return packed(header, data)


def write(root, name, files=None, parameters='kv_cache: 1MiB, threads: 1, max_running: 4, step_tokens: 64'):
    """The model `name` in a repository: GOOD's files, with these instead. None: no such file; tuples: links, pipes, files of holes."""
    folder = root / name / '1'
    folder.mkdir(parents=True)
    (root / name / 'model.yaml').write_text(f'engine: llm\nparameters: {{{parameters}}}\n')
    for file, content in {**GOOD, **(files or {})}.items():
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        if isinstance(content, tuple):
            kind, *more = content
            if kind == 'holes':  # a file of that size that takes no room
                path.write_bytes(more[0])
                os.truncate(path, len(more[0]) + more[1])
            else:
                os.symlink(more[0], path) if kind == 'link' else os.mkfifo(path)
        elif content is not None:
            path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
