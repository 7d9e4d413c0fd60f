"""A small tokenizer.json of XLM-RoBERTa's form: random pieces of a unigram model, and a table of normalized spellings.

The table is a double array as Darts-clone writes it (https://github.com/s-yata/darts-clone), here with room for all
bytes below each node.
"""
import base64
import random
import struct

SPELLINGS = {"\t": " ", "\n": " ", "\u3000": " ", "\ufb01": "fi", "\uff21": "A", "\u2460": "1", "\u00a0": " "}


def charsmap(spellings):
    texts, places = b"", {}
    for spelling, meant in spellings.items():
        places[spelling.encode()] = len(texts)
        texts += meant.encode() + b"\0"
    root = {}
    for spelling, place in places.items():
        node = root
        for byte in spelling:
            node = node.setdefault(byte, {})
        node[0] = place
    units, at = {0: [0, 0, False]}, 256  # place -> label, offset, whether a spelling ends here; leaves are whole numbers
    waiting = [(0, root)]
    while waiting:
        place, node = waiting.pop()
        base, at = at, at + 256
        units[place][1:] = place ^ base, 0 in node
        for byte, below in node.items():
            units[base + byte] = below | 1 << 31 if byte == 0 else [byte, 0, False]
            if byte:
                waiting.append((base + byte, below))
    trie = [0] * at
    for place, unit in units.items():
        trie[place] = unit if isinstance(unit, int) else unit[0] | unit[2] << 8 | unit[1] << 10
    return struct.pack(f"<I{at}I", 4 * at, *trie) + texts


def made(count=160, seed=7):
    """`count` pieces, of which the first four are <s>, <pad>, </s>, <unk> and the last is <mask>."""
    draw = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyzA1.,"
    pieces = dict.fromkeys(["\u2581", *letters, "\u00e9", "\u4e2d"])
    while len(pieces) < count - 5:
        word = "".join(draw.choice("aeinorstlfi") for _ in range(draw.randint(2, 5)))
        pieces[draw.choice(["", "\u2581"]) + word] = None
    vocab = [[name, 0.0] for name in ("<s>", "<pad>", "</s>", "<unk>")]
    vocab += [[piece, -draw.uniform(2, 12)] for piece in pieces] + [["<mask>", 0.0]]
    marks = lambda *names: [{"SpecialToken": {"id": name, "type_id": 0}} for name in names]  # noqa: E731
    a, b = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    around = {"type": "TemplateProcessing", "single": [*marks("<s>"), a, *marks("</s>")],
              "pair": [*marks("<s>"), a, *marks("</s>", "</s>"), b, *marks("</s>")],
              "special_tokens": {name: {"id": name, "ids": [id], "tokens": [name]} for name, id in (("<s>", 0), ("</s>", 2))}}
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    special = [(i, vocab[i][0]) for i in (0, 1, 2, 3, count - 1)]
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                              "special": True} for i, text in special],
            "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap(SPELLINGS)).decode()},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
            "post_processor": around, "decoder": metaspace,
            "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": False}}
