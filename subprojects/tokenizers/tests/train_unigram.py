"""Trains SentencePiece models and writes them as the tokenizer.json files that models of their families come with.

usage: train_unigram.py FOLDER     -> FOLDER/<family>.json

Needs Debian's python3-sentencepiece: its models bring SentencePiece's own tables of normalized spellings. The steps
around each model are those of transformers' convert_slow_tokenizer.py.
"""

import base64
import io
import json
import pathlib
import sys

import train_tokenizers
from train_tokenizers import special


def trained(rule, size=900, bytes_=False):
    """The pieces with their scores, and the table of spellings in base64, of a model that has seen the corpus."""
    import sentencepiece

    model = io.BytesIO()
    lines = [line for line in train_tokenizers.corpus().split('\n') if line.strip()]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=size, model_type='unigram',
                                             normalization_rule_name=rule, byte_fallback=bytes_, character_coverage=0.98,
                                             hard_vocab_limit=False, num_threads=1, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [[processor.id_to_piece(i), processor.get_score(i)] for i in range(processor.get_piece_size())]
    return pieces, base64.b64encode(charsmap_of(model.getvalue())).decode()


def charsmap_of(model):
    """ModelProto.normalizer_spec (3).precompiled_charsmap (2)."""
    return fields_of(fields_of(model)[3])[2]


def fields_of(message):
    """The last value of each length-delimited field of a protobuf message."""
    out, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            varint()
        elif key & 7 == 2:
            size = varint()
            out[key >> 3] = message[at:at + size]
            at += size
        else:
            at += {1: 8, 5: 4}[key & 7]
    return out


def metaspace(scheme='always', split=True):
    return {'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': scheme, 'split': split}


def around(before, after, vocab):
    """A TemplateProcessing with these tokens around a text, and between two."""
    ids = {piece: i for i, (piece, _) in enumerate(vocab)}
    marks = lambda names: [{'SpecialToken': {'id': name, 'type_id': 0}} for name in names]
    a, b = ({'Sequence': {'id': name, 'type_id': 0}} for name in 'AB')
    return {'type': 'TemplateProcessing', 'single': [*marks(before), a, *marks(after)],
            'pair': [*marks(before), a, *marks(after), *marks(after), b, *marks(after)],
            'special_tokens': {name: {'id': name, 'ids': [ids[name]], 'tokens': [name]} for name in {*before, *after}}}


def file(vocab, unk, added, normalizer, **parts):
    ids = {piece: i for i, (piece, _) in enumerate(vocab)}
    return {'version': '1.0', 'truncation': None, 'padding': None, 'added_tokens': [special(ids[name], name, **flags) for name, flags in added.items()],
            'normalizer': normalizer, 'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [{'type': 'WhitespaceSplit'}, metaspace()]},
            'post_processor': None, 'decoder': metaspace(), **parts,
            'model': {'type': 'Unigram', 'unk_id': ids[unk], 'vocab': vocab, **parts.get('model', {})}}


def precompiled(charsmap):
    return {'type': 'Precompiled', 'precompiled_charsmap': charsmap}


def sequence(*steps):
    return {'type': 'Sequence', 'normalizers': list(steps)}


def xlm_roberta():
    pieces, charsmap = trained('nmt_nfkc')
    vocab = [['<s>', 0.0], ['<pad>', 0.0], ['</s>', 0.0], ['<unk>', 0.0], *pieces[3:], ['<mask>', 0.0]]
    added = {'<s>': {}, '<pad>': {}, '</s>': {}, '<unk>': {}, '<mask>': {'lstrip': True}}
    return file(vocab, '<unk>', added, precompiled(charsmap), post_processor=around(['<s>'], ['</s>'], vocab))


def bge_m3():
    """The same with another pre-tokenizer, as newer conversions have it."""
    out = xlm_roberta()
    spaces = {'type': 'Replace', 'pattern': {'Regex': ' {2,}'}, 'content': ' '}
    return {**out, 'normalizer': sequence(out['normalizer'], spaces), 'pre_tokenizer': metaspace()}


def camembert():
    pieces, charsmap = trained('nmt_nfkc', size=700)
    vocab = [['<s>NOTUSED', 0.0], ['<pad>', 0.0], ['</s>NOTUSED', 0.0], ['<unk>', 0.0], ['<unk>NOTUSED', -100], *pieces[1:], ['<mask>', 0.0]]
    ids = {piece: i for i, (piece, _) in enumerate(vocab)}
    post = {'type': 'RobertaProcessing', 'sep': ['</s>', ids['</s>']], 'cls': ['<s>', ids['<s>']], 'trim_offsets': True, 'add_prefix_space': True}
    return file(vocab, '<unk>', {'<pad>': {}, '<unk>': {}, '<mask>': {'lstrip': True}}, sequence(precompiled(charsmap)), post_processor=post)


def t5():
    pieces, charsmap = trained('nmt_nfkc')
    vocab = [['<pad>', 0.0], ['</s>', 0.0], ['<unk>', 0.0], *pieces[3:], *([f'<extra_id_{i}>', 0.0] for i in range(9, -1, -1))]
    added = {'<pad>': {}, '</s>': {}, '<unk>': {}, **{f'<extra_id_{i}>': {} for i in range(10)}}
    return file(vocab, '<unk>', added, precompiled(charsmap), post_processor=around([], ['</s>'], vocab))


def albert():
    pieces, charsmap = trained('nmt_nfkc_cf')
    vocab = [['<pad>', 0.0], *pieces[:1], ['[CLS]', 0.0], ['[SEP]', 0.0], ['[MASK]', 0.0], *pieces[3:]]
    quotes = [{'type': 'Replace', 'pattern': {'String': s}, 'content': '"'} for s in ('``', "''")]
    steps = sequence(*quotes, {'type': 'NFKD'}, {'type': 'StripAccents'}, {'type': 'Lowercase'}, precompiled(charsmap))
    added = {'<pad>': {}, '<unk>': {}, '[CLS]': {}, '[SEP]': {}, '[MASK]': {'lstrip': True}}
    return file(vocab, '<unk>', added, steps, post_processor=around(['[CLS]'], ['[SEP]'], vocab))


def deberta():
    """Metaspaces, and white space off the ends, as DeBERTa v2 and v3 have it."""
    pieces, charsmap = trained('nmt_nfkc')
    vocab = [['[PAD]', 0.0], ['[CLS]', 0.0], ['[SEP]', 0.0], ['[UNK]', 0.0], *pieces[3:], ['[MASK]', 0.0]]
    steps = sequence({'type': 'Strip', 'strip_left': True, 'strip_right': True}, precompiled(charsmap),
                     {'type': 'Replace', 'pattern': {'Regex': ' {2,}'}, 'content': ' '})
    added = {'[PAD]': {}, '[CLS]': {}, '[SEP]': {}, '[UNK]': {'normalized': True}, '[MASK]': {}}
    return file(vocab, '[UNK]', added, steps, pre_tokenizer={'type': 'Sequence', 'pretokenizers': [metaspace()]},
                post_processor=around(['[CLS]'], ['[SEP]'], vocab))


def bytes_():
    """Unknown characters become bytes; the whole text is one word."""
    pieces, charsmap = trained('nfkc', size=1100, bytes_=True)
    decoders = [{'type': 'Replace', 'pattern': {'String': '▁'}, 'content': ' '}, {'type': 'ByteFallback'}, {'type': 'Fuse'},
                {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}]
    out = file(pieces, '<unk>', {'<unk>': {}, '<s>': {}, '</s>': {}}, precompiled(charsmap), pre_tokenizer=metaspace('first', split=False),
               decoder={'type': 'Sequence', 'decoders': decoders})
    out['model']['byte_fallback'] = True
    return out


FAMILIES = [xlm_roberta, bge_m3, camembert, t5, albert, deberta, bytes_]


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        (folder / f'{family.__name__}.json').write_text(json.dumps(family(), ensure_ascii=False))


if __name__ == '__main__':
    main(sys.argv[1])
