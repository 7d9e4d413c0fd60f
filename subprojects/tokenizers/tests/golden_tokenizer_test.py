"""The ids of each family's tokenizer are those of npm's @huggingface/tokenizers, for 2,000 texts and more each.

usage: golden_tokenizer_test.py TOKENIZE     (the program of tokenize_main.cc)

Left out is what the two are known to read differently: U+0085 and U+FEFF with GPT-2's pattern (JavaScript's \\s is not
White_Space), U+017F (ſ folds to s here), and characters younger than Python's and PCRE2's Unicode 14. With BERT's, Σ (of
which JavaScript makes ς at the end of a word; the original does not look at its neighbours) and the ideographs beyond
U+FFFF (which the original sets apart and the other does not see).
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import train_tokenizers

PACKAGE = '@huggingface/tokenizers'
TEXTS = 2000
BLANKS = [' ', '  ', '   ', '\t', '\n', '\r\n', '\n\n', '\r', '\v', '\f', '\u00a0', '\u2003', '\u2028', '\u3000', '\u200b', ' \n ', '\t\t']
CASES = ['', ' ', '\n', 'a', "I'M don't WE'LL they'd it's", '  leading', 'trailing  ', '\n\n\nmany', '\r\n\r\nlines', 'a\tb\t\tc',
         '1234567', '12 345 6', 'x' * 3000, ' ' * 3000, 'ab' * 1500, '=' * 200, 'word ' * 400, 'ééé', 'e\u0301e\u0301', '\u1100\u1161\u11a8',
         '👨‍👩‍👧‍👦👍🏽🇩🇪', '\u202eabc\u202c', '\x00\x01\x7f', '▁▁x▁', '<0x0A>', '<s>x</s> <unk>', 'naïve café', '中文分词 mixed 文本 123',
         '<|im_start|>user\nhi<|im_end|>\n', 'a  <|left|>  b  <|right|>  c', '<|im_start|', '<<|im_start|>>', '<tool_call>{"a": 1}</tool_call>',
         '<｜User｜>你好', 'Ⅷ ½ ٣٤٥ ²', 'unreachable ####', "'S 'T 'Re", '...\n\n---\n', 'unaffable playing [MASK] [CLS] x[SEP]y', 'x' * 101, 'x' * 100, "it's, isn't . ! ?", 'İstanbul ĞÜŞ ẞ Ǆ', '漢字かな交じり文。']


def node_modules(package=PACKAGE):
    """The folder of the reference: of NODE_PATH, or below a folder that this one lies in. None where there is none."""
    folders = [pathlib.Path(p) for p in os.environ.get('NODE_PATH', '').split(':') if p]
    for parent in pathlib.Path(__file__).resolve().parents:
        folders += [parent / 'node_modules', parent / '.cache/npm/node_modules']
    return next((f for f in folders if (f / package).is_dir()), None)


def characters(family):
    bert = family.startswith('bert')
    bad = {0x17F} | ({0x3A3, *range(0x20000, 0x30000)} if bert else set()) | ({0x85, 0xFEFF} if family == 'gpt2' else set()) | {0xFEFF}
    all_ = [c for c in range(0x20, 0x30000) if c not in bad and unicodedata.category(chr(c)) not in ('Cn', 'Cs', 'Co')]
    return [chr(c) for c in all_], [chr(c) for c in all_ if c < 0x2000 or 0x1F300 <= c < 0x1FB00]


def texts(family, file):
    chance = random.Random(f'texts of {family}')
    every, common = characters(family)
    corpus = ''.join(c for c in train_tokenizers.corpus() if ord(c) not in (0x85, 0xFEFF))
    words = sorted(set(corpus.split()))
    added = [t['content'] for t in json.loads(file.read_text())['added_tokens']]

    def cut():
        at, n = chance.randrange(len(corpus)), chance.randrange(200)
        return corpus[at:at + n]

    def part():
        return chance.choice([
            lambda: chance.choice(words), lambda: chance.choice(BLANKS), cut, lambda: chance.choice(every),
            lambda: ''.join(chance.choices(common, k=chance.randrange(6))), lambda: str(chance.randrange(10 ** chance.randrange(1, 12))),
            lambda: chance.choice(added), lambda: chance.choice(BLANKS) * chance.randrange(20),
            lambda: chance.choice(words).swapcase(), lambda: chance.choice('.,;:!?()[]{}<>/\\|@#$%^&*-_=+~`"\'') * chance.randrange(1, 5)])()

    out = [case.encode() for case in CASES]
    while len(out) < TEXTS:
        data = ''.join(part() for _ in range(chance.randrange(12))).encode()
        if chance.random() < 0.15:  # damage
            data = bytearray(data)
            for _ in range(chance.randrange(1, 4)):
                at = chance.randrange(len(data) + 1)
                data[at:at + chance.randrange(2)] = bytes(chance.choices(range(256), k=chance.randrange(1, 3)))
            if chance.random() < 0.3:
                data = data[:chance.randrange(len(data) + 1)]
        # Damage may make what is left out.
        bad = '\u017f\u0085\ufeffΣ' if family.startswith('bert') else '\u017f\u0085\ufeff'
        if not any(c in bad or unicodedata.category(c) == 'Cn' for c in data.decode(errors='replace')):
            out.append(bytes(data))
    return out


def compare(family, file, program, reference, modules, keep=lambda text: True):
    inputs = [t for t in texts(family, file) if keep(t)]
    lines = ''.join(t.hex() + '\n' for t in inputs).encode()
    env = {**os.environ, 'NODE_PATH': str(modules)}
    ours, theirs = (subprocess.run([*command, str(file)], input=lines, stdout=subprocess.PIPE, check=True, env=env).stdout.decode().splitlines()
                    for command in ([program], ['node', str(reference)]))
    assert len(ours) == len(theirs) == len(inputs), f'{family}: {len(inputs)} texts, {len(ours)} and {len(theirs)} lines'
    wrong = [(t, a, b) for t, a, b in zip(inputs, ours, theirs) if a != b]
    for text, a, b in wrong[:5]:
        print(f'{family}: {text.decode(errors="replace")!r}\n  ours   {a[:600]}\n  theirs {b[:600]}')
    print(f'{family}: {len(inputs) - len(wrong)} of {len(inputs)} texts alike')
    return len(inputs) - len(wrong), len(wrong)


def main(program):
    modules = node_modules()
    if not modules:
        print(f'{PACKAGE} is not installed: npm install {PACKAGE}@0.2\n0 passed, 0 failed, 1 skipped')
        return 0
    good = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        train_tokenizers.main(folder)
        for family in train_tokenizers.FAMILIES:
            name = family.__name__
            passed, failed = compare(name, pathlib.Path(folder) / f'{name}.json', program, pathlib.Path(__file__).with_name('tokenize_reference.cjs'), modules)
            good, bad = good + passed, bad + failed
    print(f'{good} passed, {bad} failed')
    return bad > 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
