"""Byte-level BPE: learns merges from text, encodes and decodes, writes a Hugging Face tokenizer.json.

Merging follows R. Sennrich et al., arXiv 1508.07909, on bytes; text is cut into words first, by the pattern that
Qwen2 uses. This file applies the pattern to ASCII alone, where \\p{L} is a letter and \\p{N} a digit: what it is given
is ASCII.
"""
import collections
import functools
import json
import re

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
WORDS = re.compile(PATTERN.replace(r"\r\n\p{L}\p{N}]", r"\r\nA-Za-z0-9]").replace(r"\s\p{L}\p{N}]", r"\sA-Za-z0-9]")
                   .replace(r"\p{L}", "[A-Za-z]").replace(r"\p{N}", "[0-9]"), re.ASCII)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"]


def byte_letters():
    """GPT-2's table: each byte as one printable character."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    spare = 256
    for b in range(256):
        if b not in letters:
            letters[b] = chr(spare)
            spare += 1
    return letters


LETTERS = byte_letters()
BYTES = {letter: b for b, letter in LETTERS.items()}


def learn(texts, merges):
    """The merges of the most frequent neighbours, most frequent first; of equals, the first in the alphabet."""
    counts = collections.Counter(w for text in texts for w in WORDS.findall(text))
    words = [["".join(LETTERS[b]) for b in w.encode()] for w in counts]
    times = list(counts.values())
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += times[i]
            where[pair].add(i)
    learned = []
    while len(learned) < merges:
        best = min(pairs, key=lambda p: (-pairs[p], p))
        learned.append(best)
        for i in where.pop(best):
            old = words[i]
            new = merged(old, best)
            for pair in zip(old, old[1:]):
                pairs[pair] -= times[i]
            for pair in zip(new, new[1:]):
                pairs[pair] += times[i]
                where[pair].add(i)
            words[i] = new
        del pairs[best]
    return learned


def merged(word, pair):
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and word[i] == pair[0] and word[i + 1] == pair[1]:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.rank = {m: i for i, m in enumerate(self.merges)}
        pieces = [LETTERS[b] for b in sorted(LETTERS, key=lambda b: LETTERS[b])] + [a + b for a, b in self.merges]
        self.vocabulary = {piece: i for i, piece in enumerate(pieces)}
        self.special = {text: len(pieces) + i for i, text in enumerate(SPECIAL)}
        self.size = len(pieces) + len(SPECIAL)
        self.bytes = [bytes(BYTES[c] for c in piece) for piece in pieces] + [s.encode() for s in SPECIAL]
        self.cut = re.compile("(" + "|".join(re.escape(s) for s in SPECIAL) + ")")
        self.word = functools.lru_cache(maxsize=None)(self._word)

    def _word(self, text):
        word = [LETTERS[b] for b in text.encode()]
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda p: self.rank.get(p, len(self.rank)))
            if best not in self.rank:
                break
            word = merged(word, best)
        return [self.vocabulary[piece] for piece in word]

    def encode(self, text):
        ids = []
        for part in self.cut.split(text):
            if part in self.special:
                ids.append(self.special[part])
            else:
                for word in WORDS.findall(part):
                    ids += self.word(word)
        return ids

    def decode(self, ids):
        return b"".join(self.bytes[i] for i in ids).decode(errors="replace")

    def save(self, path):
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        said = {
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True} for text, i in self.special.items()],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}, level]},
            "post_processor": level, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": self.vocabulary, "merges": [f"{a} {b}" for a, b in self.merges]},
        }
        with open(path, "w") as f:
            json.dump(said, f, ensure_ascii=False, indent=0, separators=(",", ":"))
