"""The ids of each Unigram tokenizer are those of Hugging Face's own library, for 2,000 texts and more each.

usage: golden_unigram_test.py TOKENIZE     (the program of tokenize_main.cc)

The reference is npm's @anush008/tokenizers, which is that library compiled; the files are made of models that
SentencePiece trains here (train_unigram.py). Left out is what the two are known to read differently: marks that
Unicode has had for a few years only are letters to the reference, and the spelling of a byte ("<0x0A>") in a text decodes to U+FFFD there.
"""

import importlib.util
import pathlib
import sys
import tempfile

from golden_tokenizer_test import compare, node_modules
import train_unigram

PACKAGE = '@anush008/tokenizers'
YOUNG = {*range(0x898, 0x8A0), *range(0x8CA, 0x8D4), 0xC3C, *range(0x1ABF, 0x1ACF), 0x1DFA, 0x180F, 0x1715, *range(0x11000, 0x1D000)}


def alike(text):
    return b'<0x' not in text and not any(ord(c) in YOUNG for c in text.decode(errors='replace'))


def main(program):
    modules = node_modules(PACKAGE)
    missing = [] if modules else [f'npm\'s {PACKAGE}']
    missing += [] if importlib.util.find_spec('sentencepiece') else ['python3-sentencepiece']
    if missing:
        print(f'{" and ".join(missing)}: not installed\n0 passed, 0 failed, 1 skipped')
        return 0
    good = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        train_unigram.main(folder)
        for family in train_unigram.FAMILIES:
            name = family.__name__
            passed, failed = compare(name, pathlib.Path(folder) / f'{name}.json', program, pathlib.Path(__file__).with_name('unigram_reference.cjs'), modules, alike)
            good, bad = good + passed, bad + failed
    print(f'{good} passed, {bad} failed')
    return bad > 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
