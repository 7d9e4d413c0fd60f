"""Folders of models that are broken, or made to do harm: each says why in the index, and the others serve."""

import base64
import json
import struct
import threading
import unittest

import harness
from harness import curl
from tiny_model import BERT, CONFIG, HIDDEN, SHAPES, TOKENIZER, VOCABULARY, packed, product, weights, write

import grpc  # noqa: E402

oip, oip_grpc = harness.stubs()('inference')

def config(base=CONFIG, **changes):
    return {'config.json': {**base, **changes}}


def tokenizer(**changes):
    return {'tokenizer.json': {**TOKENIZER, **changes}}


def split(regex):
    return {'type': 'Sequence', 'pretokenizers': [
        {'type': 'Split', 'pattern': {'Regex': regex}, 'behavior': 'Isolated'},
        {'type': 'ByteLevel', 'add_prefix_space': False, 'use_regex': False}]}


def charsmap(table):
    return {'type': 'Precompiled', 'precompiled_charsmap': base64.b64encode(table).decode()}


def spelling_table(text):
    """SentencePiece's table (subprojects/tokenizers/src/charsmap.h) in which `a` is spelled so."""
    units = [0] * 1024
    units[0] = 256 << 10                                       # the root's children: 256 ^ byte
    at = 256 ^ ord('a')
    units[at], units[512] = ord('a') | 1 << 8 | (at ^ 512) << 10, 1 << 31  # its value is at 512: text 0
    return struct.pack('<1025I', 4096, *units) + text + b'\0'


def model_part(**changes):
    return tokenizer(model={**TOKENIZER['model'], **changes})


def offsets(name, begin, end):
    def change(header):
        header[name]['data_offsets'] = [begin, end]
    return {'model.safetensors': weights(change=change)}


def first(**fields):
    def change(header):
        header['model.embed_tokens.weight'].update(fields)
    return {'model.safetensors': weights(change=change)}


def holes(name, shape):
    size = 4 * product(shape)
    return 'holes', packed({name: {'dtype': 'F32', 'shape': shape, 'data_offsets': [0, size]}}), size


def index(*names):
    return {'model.safetensors.index.json': {'weight_map': {str(i): name for i, name in enumerate(names)}}}


def without(name):
    return {'model.safetensors': weights({k: v for k, v in SHAPES.items() if k != name})}


def readout(json_file, file=packed({'readout': {'dtype': 'F32', 'shape': [1, 2, HIDDEN], 'data_offsets': [0, 128]}}, bytes(128))):
    return {'readout.json': json_file, 'readout.safetensors': file}


def template(text):
    return {'tokenizer_config.json': {'chat_template': text}}


WHOLE = weights()
# ThreadSanitizer leaves no address space for files of terabytes: they cannot even be mapped.
TOO_LARGE = "cannot be read" if 'tsan' in harness.BUILD.name else ''

BROKEN = {
    # model.yaml
    'yaml_that_contains_itself': ({'../model.yaml': b'engine: llm\nparameters: &a {b: *a}\n'}, r'model.yaml:2:13: anchors'),
    'yaml_nested': ({'../model.yaml': b'[' * 100000}, 'nested deeper than 64 levels'),
    'yaml_of_many_keys': ({'../model.yaml': ''.join(f'k{i}: 1\n' for i in range(60000)).encode()}, 'more than 100000 keys and values'),
    'yaml_of_many_levels': ({'../model.yaml': b'engine: llm\nbatching: {priority_levels: 1500000}\n'}, 'at most 1000'),
    # safetensors
    'header_of_2_63': ({'model.safetensors': struct.pack('<Q', 2**63) + b'{}'}, "header's length"),
    'header_of_2_64': ({'model.safetensors': b'\xff' * 8 + b'{}'}, "header's length"),
    'header_beyond_the_file': ({'model.safetensors': struct.pack('<Q', 99) + b'{}'}, "header's length"),
    'header_of_nothing': ({'model.safetensors': packed(b'')}, 'header is not what the format says'),
    'header_of_spaces': ({'model.safetensors': packed(b' ' * 1000)}, 'header is not what the format says'),
    'header_nested': ({'model.safetensors': packed(b'{"a":' * 200000)}, 'header is not what the format says'),
    'header_of_lists': ({'model.safetensors': packed(b'[' * 1000000)}, 'header is not what the format says'),
    'header_twice_the_same': ({'model.safetensors': packed(
        b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}')}, 'there twice'),
    'header_field_twice': ({'model.safetensors': packed(b'{"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}}')},
                           'header is not what the format says'),
    'empty_weights': ({'model.safetensors': b''}, 'too short'),
    'overlap': (offsets('model.norm.weight', 0, 64), 'overlap, or leave holes'),
    'hole': (offsets('model.norm.weight', len(WHOLE) * 2, len(WHOLE) * 2 + 64), 'outside of the file'),
    'backwards': (offsets('model.norm.weight', 64, 0), 'outside of the file'),
    'bytes_left_over': ({'model.safetensors': WHOLE + b'x'}, 'longer than its arrays'),
    'cut_in_the_data': ({'model.safetensors': WHOLE[:-1]}, 'outside of the file'),
    'cut_in_the_header': ({'model.safetensors': WHOLE[:100]}, "header's length"),
    'unknown_dtype': (first(dtype='F31'), 'unknown dtype'),
    'dtype_of_another_size': (first(dtype='F16'), 'do not fit the offsets'),
    'dtype_of_no_weights': ({'model.safetensors': weights(dtype='F64')}, 'not of type F32, F16 or BF16'),
    'holes': ({'model.safetensors': holes('model.embed_tokens.weight', [2**22, 2**17]),
               **config(vocab_size=2**22, hidden_size=2**17, num_attention_heads=128, num_key_value_heads=128)}, TOO_LARGE or "more than this machine's memory"),
    'shape_that_wraps': (first(shape=[4194305, 4194305, 211106198978564]), 'shape is too large'),
    'negative_shape': (first(shape=[-1, 16]), 'header is not what the format says'),
    'wrong_shape': ({'model.safetensors': weights({**SHAPES, 'model.norm.weight': [HIDDEN + 1]})}, r'shape \[17\]; \[16\] is expected'),
    'missing_array': (without('model.norm.weight'), "no 'model.norm.weight'"),
    'name_that_is_no_utf8': ({'model.safetensors': packed(b'{"\xff\xfe\x7f":{"dtype":"X","shape":[],"data_offsets":[0,0]}}')},
                             'the header is not what the format says'),
    'name_that_is_unprintable': ({'model.safetensors': packed(b'{"\x7f\x7f\x7f":{"dtype":"X","shape":[],"data_offsets":[0,0]}}')},
                                 r"'\?\?\?'"),
    'name_cut_in_a_character': ({'model.safetensors': packed(
        ('{"a' + '\u00e9' * 60 + '":{"dtype":"X","shape":[],"data_offsets":[0,0]}}').encode())}, 'unknown dtype'),
    'no_weights': ({'model.safetensors': None}, "no file 'model.safetensors'"),
    'weights_are_a_folder': ({'model.safetensors': None, 'model.safetensors/x': b''}, 'not a regular file|model.safetensors'),
    'weights_are_a_link': ({'model.safetensors': ('link', '../../good/1/model.safetensors')}, 'link'),
    'weights_are_a_pipe': ({'model.safetensors': ('pipe',)}, 'not a regular file'),
    # shards
    'index_outside': ({'model.safetensors': None, **index('../../good/1/model.safetensors')}, 'no name of a file'),
    'index_absolute': ({'model.safetensors': None, **index('/etc/passwd')}, 'no name of a file'),
    'index_hidden': ({'model.safetensors': None, **index('.a')}, 'no name of a file'),
    'index_of_no_name': ({'model.safetensors': None, **index('')}, 'no name of a file'),
    'index_long_name': ({'model.safetensors': None, **index('x' * 5000)}, r'xxx\.\.\.'),
    'index_of_a_missing_shard': ({**index('a.safetensors')}, "no file 'a.safetensors'"),
    'index_of_a_cut_shard': ({**index('a.safetensors'), 'a.safetensors': WHOLE[:5000]}, 'a.safetensors: '),
    'index_of_twice_the_same': ({**index('a.safetensors', 'b.safetensors'), 'a.safetensors': WHOLE, 'b.safetensors': WHOLE}, 'there twice'),
    'index_of_a_link': ({**index('a.safetensors'), 'a.safetensors': ('link', '../../good/1/model.safetensors')}, 'link'),
    'index_empty': ({'model.safetensors.index.json': {}}, 'names no files'),
    'index_of_numbers': ({'model.safetensors.index.json': {'weight_map': {'a': 1}}}, 'names no files'),
    'index_nested': ({'model.safetensors.index.json': b'[' * 1000000}, 'index.json is nested deeper than 64 levels'),
    # config.json
    'config_empty': ({'config.json': b''}, 'config.json is not a JSON object'),
    'config_list': ({'config.json': b'[]'}, 'config.json is not a JSON object'),
    'config_nested': ({'config.json': b'{"a":' * 500000}, 'config.json is nested deeper than 64 levels'),
    'architectures_nested': ({'config.json': b'{"architectures":' + b'[' * 100000 + b']' * 100000 + b'}'},
                             'config.json is nested deeper than 64 levels'),
    'class_nested': ({'tokenizer_config.json': b'{"tokenizer_class":' + b'[' * 100000 + b']' * 100000 + b'}'},
                     'tokenizer_config.json is nested deeper than 64 levels'),
    'config_no_utf8': ({'config.json': b'{"architectures":["\xff"]}'}, 'config.json is not a JSON object'),
    'config_of_another_family': (config(architectures=['GPT2LMHeadModel']), "'architectures'"),
    'config_without_family': (config(architectures=None), "'architectures'"),
    'zero_heads': (config(num_attention_heads=0), "'num_attention_heads'"),
    'half_a_head': (config(num_attention_heads=1.5), "'num_attention_heads'"),
    'more_heads_than_numbers': (config(num_attention_heads=32, num_key_value_heads=32), "'num_attention_heads'"),
    'groups_that_do_not_divide': (config(num_attention_heads=4, num_key_value_heads=3), "'num_key_value_heads'"),
    'no_groups': (config(num_key_value_heads=0), "'num_key_value_heads'"),
    'odd_heads': (config(head_dim=7), "'head_dim'"),
    'huge_vocabulary': (config(vocab_size=2**31), "'vocab_size'"),
    'negative_vocabulary': (config(vocab_size=-1), "'vocab_size'"),
    'huge_width': (config(hidden_size=2**63), "'hidden_size'"),
    'huge_products': (config(hidden_size=2**17, num_attention_heads=4096, num_key_value_heads=4096, head_dim=1024), "'head_dim'"),
    'huge_but_not_there': (config(hidden_size=2**17, intermediate_size=2**19, vocab_size=2**22, num_attention_heads=1024,
                                  num_key_value_heads=1024, num_hidden_layers=1024), 'is expected|no '),
    'huge_depth': (config(num_hidden_layers=2**32), "'num_hidden_layers'"),
    'no_context': (config(max_position_embeddings=0), "'max_position_embeddings'"),
    'rope_of_zero': (config(rope_theta=0), "'rope_theta'"),
    'rope_infinite': ({'config.json': json.dumps({**CONFIG, 'rope_theta': 7}).replace('7', '1e999').encode()}, 'config.json'),
    'rope_not_a_number': ({'config.json': json.dumps({**CONFIG, 'rope_theta': float('nan')}).encode()}, 'config.json'),
    'rope_negative': (config(rope_scaling={'rope_type': 'linear', 'factor': -1}), "'factor'"),
    'rope_unknown': (config(rope_scaling={'rope_type': 'spiral'}), "'rope_type'"),
    'rope_of_text': (config(rope_scaling='linear'), "'rope_scaling'"),
    'end_beyond_the_vocabulary': (config(eos_token_id=VOCABULARY), "'eos_token_id'"),
    'norm_of_text': (config(rms_norm_eps='small'), "'rms_norm_eps'"),
    'layer_types': (config(sliding_window=4, layer_types=['full_attention'] * 9), "'layer_types'"),
    'patches_of_zero': (config(vision_config={'image_size': 16, 'patch_size': 0}), "'patch_size'"),
    'bert_without_width': ({'config.json': {**{k: v for k, v in BERT.items() if k != 'hidden_size'}, 'embedding_size': 5}}, "'hidden_size'"),
    'bert_of_zero_heads': (config(BERT, num_attention_heads=0), "'num_attention_heads'"),
    'bert_that_does_not_divide': (config(BERT, num_attention_heads=3), "'num_attention_heads'"),
    'bert_with_huge_pad': (config({**BERT, 'architectures': ['RobertaModel']}, pad_token_id=2**22), 'max_position_embeddings'),
    # readouts
    'readout_no_json': (readout(b'{'), 'readout.json'),
    'readout_of_another_layer': (readout({'concepts': ['a', 'b'], 'layers': [1]}), "'layers'"),
    'readout_of_a_negative_layer': (readout({'concepts': ['a', 'b'], 'layers': [-1]}), "'layers'"),
    'readout_of_numbers': (readout({'concepts': [1, 2], 'layers': [0]}), "'concepts'"),
    'readout_of_none': (readout({'concepts': [], 'layers': [0]}), "'concepts'"),
    'readout_of_another_count': (readout({'concepts': ['a', 'b', 'c'], 'layers': [0]}), r'\[1,2,16\]; \[1,3,16\] is expected'),
    'readout_of_int8': (readout({'concepts': ['a', 'b'], 'layers': [0], 'dtype': 'int8'}), "'dtype'"),
    'readout_without_vectors': (readout({'concepts': ['a', 'b'], 'layers': [0]}, None), 'readout.safetensors'),
    'readout_of_holes': ({'readout.json': {'concepts': ['a'] * 4096, 'layers': [0] * 1024}, **config(hidden_size=2**17, num_attention_heads=128, num_key_value_heads=128),
                          'readout.safetensors': holes('readout', [1024, 4096, 2**17])}, TOO_LARGE or 'half of this machine'),
    'readout_cut': (readout({'concepts': ['a', 'b'], 'layers': [0]}, WHOLE[:50]), 'readout.safetensors: '),
    # generation_config.json
    'defaults_no_json': ({'generation_config.json': b'[1]'}, 'generation_config.json: JSON: expected an object'),
    'defaults_cold': ({'generation_config.json': {'temperature': -0.1}}, "generation_config.json: temperature"),
    'defaults_beyond': ({'generation_config.json': {'top_p': 1.5}}, "generation_config.json: top_p"),
    'defaults_of_text': ({'generation_config.json': {'top_k': 'all'}}, "generation_config.json: top_k"),
    'defaults_of_half': ({'generation_config.json': {'top_k': 0.5}}, "generation_config.json: top_k"),
    'defaults_with_a_negative_end': ({'generation_config.json': {'eos_token_id': -1}}, "generation_config.json: eos_token_id"),
    'defaults_with_an_end_beyond': ({'generation_config.json': {'eos_token_id': [1, 2**31]}}, "generation_config.json: eos_token_id"),
    'defaults_with_many_ends': ({'generation_config.json': {'eos_token_id': [1] * 100000}}, "generation_config.json: eos_token_id"),
    # tokenizer.json
    'no_tokenizer': ({'tokenizer.json': None}, "no file 'tokenizer.json'"),
    'tokenizer_no_json': ({'tokenizer.json': b'{'}, 'tokenizer.json: is not JSON'),
    'tokenizer_no_utf8': ({'tokenizer.json': b'{"a":"\xff"}'}, 'tokenizer.json: is not JSON'),
    'tokenizer_nested': ({'tokenizer.json': b'[' * 1000000}, 'tokenizer.json: is not JSON'),
    'tokenizer_is_a_link': ({'tokenizer.json': ('link', '/etc/passwd')}, "'tokenizer.json' is a link"),
    'tokenizer_of_another_kind': (model_part(type='WordLevel'), "'WordLevel'"),
    'spellings_whose_head_lies': (tokenizer(normalizer=charsmap(struct.pack('<2I', 2**32 - 1, 0))), 'precompiled_charsmap'),
    'spellings_cut_in_a_character': (tokenizer(normalizer=charsmap(spelling_table(b'\xc3'))), 'precompiled_charsmap'),
    'spellings_too_many': (tokenizer(normalizer=charsmap(spelling_table(b'x' * (16 << 20)))), 'at most 16 MiB'),
    'vocabulary_of_huge_ids': (model_part(vocab={'a': 2**32}), 'model.vocab'),
    'vocabulary_of_negative_ids': (model_part(vocab={'a': -1}), 'model.vocab'),
    'vocabulary_of_long_pieces': (model_part(vocab={'a' * 5000: 0}), 'model.vocab'),
    'merges_of_nobody': (model_part(merges=['x yz']), r'merges\[0\]'),
    'merges_in_a_circle': (model_part(merges=[['a', '']]), r'merges\[0\]'),
    'pattern_not_closed': (tokenizer(pre_tokenizer=split('(')), 'pre_tokenizer'),
    'pattern_that_multiplies': (tokenizer(pre_tokenizer=split('((((a{999}){999}){999}){999})')), 'pre_tokenizer'),
    'pattern_name_cut_in_a_character': (tokenizer(pre_tokenizer=split('(a' + '\u00e9' * 500)), 'pre_tokenizer'),
    'steps_without_end': (tokenizer(pre_tokenizer={'type': 'Sequence', 'pretokenizers': [{'type': 'WhitespaceSplit'}] * 200000}), 'too many'),
    'markers_without_end': (tokenizer(post_processor={
        'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': 'a', 'type_id': 0}}] * 99 + [{'Sequence': {'id': 'A'}}],
        'special_tokens': {'a': {'id': 'a', 'ids': [1] * 9999, 'tokens': ['a']}}}), '64 ids'),
    # templates
    'template_of_a_number': (template(7), 'chat_template'),
    'template_not_closed': (template('{% for m in messages %}'), 'tokenizer_config.json: the chat template, line 1'),
    'template_of_another_language': (template('{% include "/etc/passwd" %}'), "'include' is not supported"),
    'template_nested': (template('{{ ' + '(' * 20000), 'tokenizer_config.json: the chat template'),
    'template_too_large': (template('x' * (2 << 20)), '1 MiB'),
    'template_file_not_closed': ({'chat_template.jinja': b'{{ '}, 'chat_template.jinja: the chat template'),
}

DOUBLED = '{% set n = namespace(x=[1]) %}{% for i in range(150) %}{% set n.x = [n.x, n.x] %}{% endfor %}'
NO_TOKEN = 'the model gave no token at position'
# These load; what they do at a request is bounded. (files, a pattern of the error, or None where they answer)
HARMFUL = {
    'loops': (template('{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}'), 'too many steps'),
    'recursion': (template('{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}'), 'nested too deeply'),
    'much_text': (template("{{ 'a' * 1000000000000 }}"), 'too much text'),
    'doubled_lists': (template(DOUBLED + '{{ n.x }}'), 'too m'),
    'doubled_comparisons': (template(DOUBLED + '{{ n.x == [n.x][0] }}'), 'too m'),
    'long_fault': (template("{{ raise_exception('x' * 100000000) }}"), r'xxx\.\.\.'),
    'just_enough_text': (template("{{ 'a ' * 100000 }}"), 'context|length|long'),
    'straying_pattern': (tokenizer(pre_tokenizer=split('(a|aa|aaa)+$b')), None),
    'growing_spellings': (tokenizer(normalizer=charsmap(spelling_table(b'x' * 1000))), 'context|length|long'),
    'straying_spellings': (tokenizer(normalizer=charsmap(struct.pack('<1025I', 4096, *[0xFFFFFC00 | i & 0xFF for i in range(1024)]))), None),
    'growing_text': (tokenizer(normalizer={'type': 'Sequence', 'normalizers': [
        {'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'aa'}] * 60}), 'context|length|long'),
    'not_numbers': ({'model.safetensors': weights(value=float('nan'))}, NO_TOKEN),
    'infinite': ({'model.safetensors': weights(value=float('inf'))}, NO_TOKEN),
    'huge_numbers': ({'model.safetensors': weights(value=3e38)}, None),
    'vectors_that_are_not_numbers': (readout({'concepts': ['a', 'b'], 'layers': [0]}, packed(
        {'readout': {'dtype': 'F32', 'shape': [1, 2, HIDDEN], 'data_offsets': [0, 128]}}, struct.pack('<f', float('nan')) * 32)), None),
    'ids_beyond_the_model': (model_part(vocab={**TOKENIZER['model']['vocab'], 'a': 4000000}), 'id 4000000'),
}


def strict(text):
    def refuse(word):
        raise ValueError(word)
    return json.loads(text, parse_constant=refuse)


class BrokenModels(harness.Case):
    serve = ('--control', 'explicit', '--load', '*')

    @classmethod
    def setUpClass(cls):
        cls.repository = harness.scratch() / 'broken'
        for name, (files, _) in {'good': ({}, ''), **BROKEN, **HARMFUL}.items():
            write(cls.repository, name, files)
        super().setUpClass()
        cls.index = {row['name']: row for row in json.loads(curl(cls.server.url('/v2/repository/index'), '-X', 'POST').body)}

    def chat(self, model, **more):
        body = {'model': model, 'max_tokens': 4, 'messages': [{'role': 'user', 'content': 'aaaa aaaa'}], **more}
        answer = curl(self.server.url('/v1/chat/completions'), data=json.dumps(body))
        return answer.status, strict(answer.body)

    def says(self):
        status, answer = self.chat('good', temperature=0)
        self.assertEqual(200, status, answer)
        return answer['choices'][0]['message']['content']

    def test_each_says_why(self):
        for name, (_, reason) in BROKEN.items():
            with self.subTest(name):
                row = self.index[name]
                self.assertEqual('UNAVAILABLE', row['state'])
                self.assertRegex(row['reason'], reason)
                self.assertLess(len(row['reason']), 1100)
                self.assertNotIn(str(self.repository), row['reason'])
                self.assertTrue(row['reason'].isprintable(), row['reason'])
        for name in ('good', *HARMFUL):
            self.assertEqual(('READY', ''), (self.index[name]['state'], self.index[name].get('reason', '')), name)

    def test_grpc_shows_the_same(self):
        with grpc.insecure_channel(self.server.address) as channel:
            stub = oip_grpc.GRPCInferenceServiceStub(channel)
            rows = {m.name: m.reason for m in stub.RepositoryIndex(oip.RepositoryIndexRequest()).models}
            self.assertEqual({name: row.get('reason', '') for name, row in self.index.items()}, rows)
            with self.assertRaises(grpc.RpcError) as caught:
                stub.RepositoryModelLoad(oip.RepositoryModelLoadRequest(model_name='name_that_is_unprintable'), timeout=harness.PATIENCE)
            self.assertIn("'???'", caught.exception.details())

    def test_what_they_do_at_a_request_is_bounded(self):
        before = self.says()
        for name, (_, refused) in HARMFUL.items():
            with self.subTest(name):
                for more in ({}, {'logprobs': True, 'top_logprobs': 3}, {'temperature': 0.5, 'top_p': 0.5, 'seed': 1}):
                    status, answer = self.chat(name, **more)
                    if refused is None:
                        self.assertEqual(200, status, answer)
                        self.assertLessEqual(answer['usage']['completion_tokens'], 4)
                    else:
                        self.assertIn(status, (500,) if refused == NO_TOKEN else (400, 429), answer)
                        self.assertRegex(answer['error']['message'], refused)
                        self.assertLess(len(answer['error']['message']), 1200)
        for name in ('not_numbers', 'infinite', 'huge_numbers'):
            body = {'model': name, 'input': 'aaaa'}
            answer = curl(self.server.url('/v1/embeddings'), data=json.dumps(body))
            strict(answer.body)
        self.assertEqual(before, self.says())

    def test_the_good_one_is_not_held_up_by_them(self):
        want, done = self.says(), threading.Event()

        def harm(i):
            try:
                for name in ('loops', 'doubled_lists', 'straying_pattern', 'growing_text')[i::2]:
                    self.chat(name)
            finally:
                done.set()

        with harness.threads(2, harm):
            while not done.is_set():
                self.assertEqual(want, self.says())


if __name__ == '__main__':
    harness.main()
