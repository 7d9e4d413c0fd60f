"""Conversations to rows of token ids; scikit-learn's digits to images and conversations about them."""
import gzip
import os
import sys

import numpy as np
import torch
from torch.nn import functional as F

from corpus import ONES, pick, turns

IMAGE, START, PAD, END = "\0", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"
QUESTIONS = ["What digit is this?", "Which digit is this?", "What number is this?", "Read this digit.",
             "What is this?", "What does the image show?", "Which digit do you see?"]


class Document:
    """Ids, and for each: the label and the role of the span that its last byte is in, and how much its loss counts."""

    def __init__(self, spans, tokenizer, pads=0):
        text = "".join(s for s, _ in spans).replace(IMAGE, START + PAD * pads + END)
        ends, labels, roles, at, role = [], [], [], 0, "text"
        for s, label in spans:
            if s.startswith("<|im_start|>"):
                role = s[12:-1]
            at += len(s) + s.count(IMAGE) * (len(START) + pads * len(PAD) + len(END) - 1)
            ends.append(at)
            labels.append(label)
            roles.append("head" if s.startswith("<|im_start|>") else role)
        self.ids = np.array(tokenizer.encode(text), np.int64)
        last = np.cumsum([len(tokenizer.bytes[i]) for i in self.ids]) - 1
        span = np.searchsorted(ends, last, side="right")
        self.text, self.last = text, last
        self.labels = np.array(labels, dtype=object)[span]
        self.roles = np.array(roles, dtype=object)[span]
        # The user's words are no target of training, and the placeholders of an image are not either.
        self.weights = np.where((self.roles == "assistant") | (self.roles == "text"), 1.0, 0.2).astype(np.float32)
        self.weights[self.labels == "digit"] = 4.0  # the one word that the image decides
        self.weights[self.ids == tokenizer.special[PAD]] = 0

    @property
    def chat(self):
        return self.text.startswith("<|im_start|>user")


def rows(documents, length, random, stop):
    """Endless (ids, weights) [length + 1]: documents one after the other in a drawn order, `stop` between most.

    A row starts with a document's start; what does not fit any more starts the next row. Now and then a conversation
    goes on where the last one ended, as in a long session.
    """
    ids, weights = np.full(length + 1, stop), np.zeros(length + 1, np.float32)
    at = 0
    while True:
        for i in random.permutation(len(documents)):
            d = documents[i]
            joined = at and d.chat and random.random() < 0.3
            if at and at + len(d.ids) + 1 > length:
                yield ids, weights
                ids, weights, at, joined = np.full(length + 1, stop), np.zeros(length + 1, np.float32), 0, True
            if not joined and at:
                ids[at], weights[at] = stop, 0.2
                at += 1
            count = min(len(d.ids), length + 1 - at)
            ids[at:at + count], weights[at:at + count] = d.ids[:count], d.weights[:count]
            at += count


def read_digits(path, seed=7):
    """Images [n, 8, 8] of 0..1 and labels; (held out, kept) rows as conf/models/digits/train.py draws them."""
    if path is None:
        try:
            import sklearn.datasets
        except ImportError:
            sys.exit("scikit-learn is not installed: give its data file with --digits digits.csv.gz (see --help)")
        path = os.path.join(os.path.dirname(sklearn.datasets.__file__), "data", "digits.csv.gz")
    with gzip.open(path, "rt") as f:
        table = np.loadtxt(f, delimiter=",")
    order = np.random.default_rng(seed).permutation(len(table))
    images, labels = table[:, :64].reshape(-1, 8, 8).astype(np.float32) / 16, table[:, 64].astype(np.int64)
    return images, labels, order[:len(order) // 5], order[len(order) // 5:]


def drawn(images, size, random):
    """Pictures as people may send them, [n, 3, size, size] of -1..1: moved, scaled, in any ink on any paper."""
    x = torch.from_numpy(images)[:, None]
    x = F.pad(x, (2, 2, 2, 2))
    top, left = (int(random.integers(0, 3)) for _ in range(2))
    bottom, right = (int(random.integers(10, 13)) for _ in range(2))
    x = x[:, :, top:bottom, left:right]  # a margin of nought to two on each side
    wide = int(random.integers(10, 80))
    mode = pick(random, ["nearest", "bilinear", "bicubic"])
    if random.random() < 0.3:
        x, wide = torch.from_numpy(images)[:, None], pick(random, [8, 16, 28, 32, 64, 96, 128, 200])
    flags = {} if mode == "nearest" else {"align_corners": False}
    x = F.interpolate(x, size=(wide, wide), mode=mode, **flags).clamp(0, 1)
    x = F.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)  # what preprocess.resize does
    shape = (len(images), 3, 1, 1)
    dark, light = random.uniform(0, 0.35, shape), random.uniform(0.65, 1, shape)
    plain = random.random((len(images), 1, 1, 1)) < 0.5
    dark, light = np.where(plain, 0, dark), np.where(plain, 1, light)
    swap = random.random((len(images), 1, 1, 1)) < 0.35
    ink, paper = np.where(swap, light, dark), np.where(swap, dark, light)
    x = torch.from_numpy(paper).float() + x * torch.from_numpy(ink - paper).float()
    x = x + 0.03 * torch.from_numpy(random.standard_normal(tuple(x.shape))).float()
    return x.clamp(0, 1) * 2 - 1


def reading(label):
    return f"This is {'an' if label == 8 else 'a'} {ONES[label]}."


def about_digit(random, labels):
    """A conversation about one or two images; the images stand where IMAGE is."""
    talk = []
    for label in labels:
        question = pick(random, QUESTIONS)
        before, word, after = reading(label).rpartition(ONES[label])
        talk.append((question + IMAGE if random.random() < 0.3 else IMAGE + question,
                     [(before, ""), (word, "digit"), (after, "")]))
        more = [("Is it even or odd?", f"{label} is {'odd' if label % 2 else 'even'}."),
                ("What comes after it?", f"After {label} comes {label + 1}."), ("Thanks!", "You are welcome.")]
        if random.random() < 0.3:
            talk.append(pick(random, more))
    return turns(*talk)


def digit_rows(images, labels, tokenizer, size, pads, random, count):
    """(ids, weights) [count, longest + 1] and the pixels of their images in order."""
    documents, chosen = [], []
    for _ in range(count):
        which = random.integers(len(images), size=1 if random.random() < 0.7 else 2)
        documents.append(Document(about_digit(random, [int(labels[i]) for i in which]), tokenizer, pads))
        chosen += list(which)
    longest = max(len(d.ids) for d in documents)
    ids = np.full((count, longest), tokenizer.special["<|endoftext|>"])
    weights = np.zeros((count, longest), np.float32)
    for row, d in enumerate(documents):
        ids[row, :len(d.ids)], weights[row, :len(d.ids)] = d.ids, d.weights
    return ids, weights, drawn(images[chosen], size, random)
