"""Trains small tokenizers, one of each family that models come with, and writes their tokenizer.json files.

usage: train_tokenizers.py FOLDER     -> FOLDER/<family>.json

Deterministic. The text is this library's README, some of its sources, and the lines below.
"""

import collections
import json
import pathlib
import re
import sys
import unicodedata

LIBRARY = pathlib.Path(__file__).resolve().parent.parent

LINES = '''
The quick brown fox jumps over the lazy dog, and it's said the dogs don't mind; they've seen it, we'll see, I'm sure you're right, he'd go.
Die schöne Müllerin wäscht größere Äpfel über Nacht. Straße, Füße, Übermut tut selten gut; dafür gibt es keine Gründe.
Le garçon naïf a mangé des crêpes à la crème brûlée où l'été dernier s'est achevé. Ça va très bien, merci beaucoup à tous.
El niño pequeño comió piñas mañana por la mañana. ¿Qué tal? ¡Muy bien! La canción del corazón, según dicen los señores.
Быстрая коричневая лиса прыгает через ленивую собаку. Мы говорим по-русски, и это хорошо, потому что язык красивый и большой.
Η γρήγορη αλεπού πηδάει πάνω από το τεμπέλικο σκυλί. Καλημέρα σας, τι κάνετε σήμερα;
敏捷的棕色狐狸跳过懒狗。我们今天学习中文，因为语言很有意思。你好，世界！天气很好，我们去公园吧。
素早い茶色の狐が怠け者の犬を飛び越える。今日は天気がいいですね。こんにちは、世界。カタカナとひらがなを使います。
빠른 갈색 여우가 게으른 개를 뛰어넘는다. 안녕하세요, 세계. 오늘은 날씨가 좋습니다.
الثعلب البني السريع يقفز فوق الكلب الكسول. مرحبا بالعالم، اليوم جميل جدا.
השועל החום המהיר קופץ מעל הכלב העצלן. שלום עולם.
तेज भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। नमस्ते दुनिया।
สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ สวัสดีชาวโลก
😀 😃 😄 😁 👍🏽 👨‍👩‍👧‍👦 🇩🇪 🇫🇷 ❤️ 🚀 ✅ → ← ↑ ↓ ∑ ∫ √ ≤ ≥ ≠ ∞ € £ ¥ © ® ™
1234567890 3.14159 2,718,281 0xDEADBEEF 10:30 2024-01-31 +49 170 1234567 50% 1e-9 ½ Ⅷ ٣٤٥
def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n
for (int i = 0; i < n; ++i) {\n  std::cout << values[i] << "\\n";\n}\n\treturn 0;\n
SELECT name, COUNT(*) FROM users WHERE age >= 21 GROUP BY name ORDER BY 2 DESC;
{"role": "user", "content": "Hello there!", "tools": [{"type": "function"}]}
https://example.org/path/to/page?query=value&other=1#fragment  user@example.org
'''

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = [r'\p{N}{1,3}', r'[一-龥぀-ゟ゠-ヿ]+',
            r'''[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+''']

# The words that training sees: near enough to each family's own pattern, which Python's re cannot read.
WORDS = {
    'gpt2': re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?[^\s\w]+|\s+(?!\S)|\s+"),
    'llama3': re.compile(r"'(?:s|t|re|ve|m|ll|d)|[^\r\n\w]?[^\W\d_]+|\d{1,3}| ?[^\s\w]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
    'qwen': re.compile(r"'(?:s|t|re|ve|m|ll|d)|[^\r\n\w]?[^\W\d_]+|\d| ?[^\s\w]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
}


def byte_letters():
    """GPT-2's letters for bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


LETTERS = byte_letters()


def merges_of(words, count):
    """Byte-pair encoding's training: joins the most frequent pair `count` times; of equals the first by spelling."""
    words = [[list(word), n] for word, n in words.items()]
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, (symbols, n) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += n
            where[pair].add(i)
    merges = []
    while pairs and len(merges) < count:
        best = max(pairs, key=lambda p: (pairs[p], p))
        if pairs[best] < 2:
            break
        merges.append(best)
        for i in sorted(where.pop(best)):
            symbols, n = words[i]
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] -= n
            joined, at = [], 0
            while at < len(symbols):
                both = tuple(symbols[at:at + 2]) == best
                joined.append(''.join(best) if both else symbols[at])
                at += 2 if both else 1
            words[i][0] = joined
            for pair in zip(joined, joined[1:]):
                pairs[pair] += n
                where[pair].add(i)
        del pairs[best]
    return merges


def corpus():
    files = [LIBRARY / 'README.md', *sorted(LIBRARY.rglob('*.h')), *sorted((LIBRARY / 'src').glob('p*.cc'))]
    return LINES.replace('\\n', '\n').replace('\\t', '\t') + ''.join(f.read_text() for f in files)


def special(number, content, **flags):
    return {'id': number, 'content': content, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False,
            'special': True, **flags}


def split(pattern):
    return {'type': 'Split', 'pattern': {'Regex': pattern}, 'behavior': 'Isolated', 'invert': False}


def byte_level(use_regex, prefix=False):
    return {'type': 'ByteLevel', 'add_prefix_space': prefix, 'trim_offsets': True, 'use_regex': use_regex}


def template(token, number):
    return {'type': 'TemplateProcessing',
            'single': [{'SpecialToken': {'id': token, 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}}],
            'pair': [{'Sequence': {'id': 'A', 'type_id': 0}}, {'Sequence': {'id': 'B', 'type_id': 1}}],
            'special_tokens': {token: {'id': token, 'ids': [number], 'tokens': [token]}}}


def byte_level_model(words, count):
    counted = collections.Counter(''.join(LETTERS[b] for b in w.encode()) for w in WORDS[words].findall(corpus()))
    merges = merges_of(counted, count)
    vocab = {}
    for piece in [*(LETTERS[b] for b in range(256)), *map(''.join, merges)]:
        vocab.setdefault(piece, len(vocab))
    return vocab, merges


def file(vocab, merges, added, pairs=False, model=(), **parts):
    return {'version': '1.0', 'truncation': None, 'padding': None, 'normalizer': None, 'pre_tokenizer': None,
            'post_processor': None, 'decoder': {'type': 'ByteLevel'}, **parts,
            'added_tokens': [special(len(vocab) + i, a) if isinstance(a, str) else special(len(vocab) + i, **a) for i, a in enumerate(added)],
            'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
                      'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False, 'ignore_merges': False,
                      **dict(model), 'vocab': vocab, 'merges': [list(m) for m in merges] if pairs else [' '.join(m) for m in merges]}}


def gpt2():
    vocab, merges = byte_level_model('gpt2', 900)
    return file(vocab, merges, ['<|endoftext|>'], pre_tokenizer=byte_level(True), post_processor=byte_level(True))


def llama3():
    vocab, merges = byte_level_model('llama3', 900)
    # Words that no merge leads to: found all the same, as the merges are ignored for whole words.
    for word in ['Ġunreachable', 'Äĸ', 'Ġ####']:
        vocab[word] = len(vocab)
    added = ['<|begin_of_text|>', '<|end_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>']
    pre = {'type': 'Sequence', 'pretokenizers': [split(LLAMA3), byte_level(False)]}
    post = {'type': 'Sequence', 'processors': [byte_level(False), template('<|begin_of_text|>', len(vocab))]}
    return file(vocab, merges, added, model={'ignore_merges': True}, pre_tokenizer=pre, post_processor=post)


def qwen():
    vocab, merges = byte_level_model('qwen', 900)
    added = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', {'content': '<tool_call>', 'special': False},
             {'content': '<|left|>', 'lstrip': True}, {'content': '<|right|>', 'rstrip': True}]
    pre = {'type': 'Sequence', 'pretokenizers': [split(QWEN), byte_level(False)]}
    return file(vocab, merges, added, pairs=True, normalizer={'type': 'NFC'}, pre_tokenizer=pre, post_processor=byte_level(False))


def deepseek():
    vocab, merges = byte_level_model('llama3', 700)
    pre = {'type': 'Sequence', 'pretokenizers': [*map(split, DEEPSEEK), byte_level(False)]}
    added = ['<｜begin▁of▁sentence｜>', '<｜User｜>', {'content': '<think>', 'special': False, 'normalized': False}]
    return file(vocab, merges, added, normalizer={'type': 'Sequence', 'normalizers': []}, pre_tokenizer=pre,
                post_processor=template('<｜begin▁of▁sentence｜>', len(vocab)))


def sentencepiece():
    text = corpus()
    words = collections.Counter('▁' + word for word in re.findall(r'[^ \n]+', text))
    words += collections.Counter({'▁' * n: 40 for n in range(2, 9)})
    common = collections.Counter(''.join(words))
    letters = sorted(c for c, n in common.items() if n >= 4)  # the others fall back to bytes
    allowed = set(letters)
    merges = merges_of({w: n for w, n in words.items() if allowed.issuperset(w)}, 900)
    vocab = {'<unk>': 0, '<s>': 1, '</s>': 2, **{f'<0x{b:02X}>': b + 3 for b in range(256)}}
    for piece in [*map(''.join, merges), *letters]:  # merged pieces first, as SentencePiece has them
        vocab.setdefault(piece, len(vocab))
    decoders = [{'type': 'Replace', 'pattern': {'String': '▁'}, 'content': ' '}, {'type': 'ByteFallback'}, {'type': 'Fuse'},
                {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}]
    out = file(vocab, merges, [], model={'unk_token': '<unk>', 'fuse_unk': True, 'byte_fallback': True},
               decoder={'type': 'Sequence', 'decoders': decoders}, post_processor=template('<s>', 1))
    out['added_tokens'] = [special(i, t) for i, t in enumerate(['<unk>', '<s>', '</s>'])]
    return out


def llama2():
    replace = {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}
    return {**sentencepiece(), 'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Prepend', 'prepend': '▁'}, replace]}}


def mistral():
    return {**sentencepiece(), 'pre_tokenizer': {'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'first', 'split': False}}


def bert_words(lowercase):
    """Words as BERT sees them; near enough for training."""
    text = corpus()
    if lowercase:
        text = ''.join(c for c in unicodedata.normalize('NFD', text.lower()) if unicodedata.category(c) != 'Mn')
    return collections.Counter(re.findall(r'[\u3400-\u9fff]|[^\W_]+|[^\w\s]|_', text))


def word_pieces(words, count):
    """Pieces that begin words and, with ## before them, pieces that go on. Inner letters are told by their plane."""
    inner = 0x100000
    marked = {word[0] + ''.join(chr(inner + ord(c)) for c in word[1:]): n for word, n in words.items() if max(word) < '\uff00'}
    merges = merges_of(marked, count)
    letters = collections.Counter()
    for word, n in marked.items():
        for letter in word:
            letters[letter] += n
    out = []
    for piece in [*sorted(c for c, n in letters.items() if n >= 3), *map(''.join, merges)]:
        plain = ''.join(chr(ord(c) - inner) if ord(c) >= inner else c for c in piece)
        out.append(plain if ord(piece[0]) < inner else '##' + plain)
    return out


def bert_file(lowercase, count=900, **normalizer):
    marks = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    vocab = {}
    for piece in [*marks, *word_pieces(bert_words(lowercase), count)]:
        vocab.setdefault(piece, len(vocab))
    item = [{'SpecialToken': {'id': '[CLS]', 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}}, {'SpecialToken': {'id': '[SEP]', 'type_id': 0}}]
    pair = [*item, {'Sequence': {'id': 'B', 'type_id': 1}}, {'SpecialToken': {'id': '[SEP]', 'type_id': 1}}]
    return {'version': '1.0', 'truncation': None, 'padding': None, 'added_tokens': [special(i, m) for i, m in enumerate(marks)],
            'normalizer': {'type': 'BertNormalizer', 'clean_text': True, 'handle_chinese_chars': True, 'strip_accents': None,
                           'lowercase': lowercase, **normalizer},
            'pre_tokenizer': {'type': 'BertPreTokenizer'},
            'post_processor': {'type': 'TemplateProcessing', 'single': item, 'pair': pair,
                               'special_tokens': {m: {'id': m, 'ids': [vocab[m]], 'tokens': [m]} for m in ('[CLS]', '[SEP]')}},
            'decoder': {'type': 'WordPiece', 'prefix': '##', 'cleanup': True},
            'model': {'type': 'WordPiece', 'unk_token': '[UNK]', 'continuing_subword_prefix': '##',
                      'max_input_chars_per_word': 100, 'vocab': vocab}}


def bert():
    return bert_file(True)


def bert_cased():
    return bert_file(False)


FAMILIES = [gpt2, llama2, llama3, mistral, qwen, deepseek, bert, bert_cased]


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        (folder / f'{family.__name__}.json').write_text(json.dumps(family(), ensure_ascii=False))


if __name__ == '__main__':
    main(sys.argv[1])
