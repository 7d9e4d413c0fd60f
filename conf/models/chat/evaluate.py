"""What the trained model is worth: perplexity, digits read, concept probes. All on what was held out."""
import io
import math

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as F

import preprocess
from corpus import SECTIONS
from data import END, PAD, START, Document, about_digit, drawn, reading

CONCEPTS = ["assistant", "sentence_end", "number", "name", "library", "games", "python", "high_digit"]


def bfloat16():
    """Products in bfloat16, as the engine has them."""
    return torch.autocast("cpu", dtype=torch.bfloat16)


@torch.no_grad()
def perplexity(model, documents, kinds, most=1024):
    """For each kind, a list of roles: exp of the mean loss over their tokens, bits per byte, count of the tokens."""
    sums = np.zeros((len(kinds), 3))
    documents = sorted(documents, key=lambda d: len(d.ids))
    for at in range(0, len(documents), 8):
        some = documents[at:at + 8]
        count = min(most, len(some[-1].ids))
        ids = np.zeros((len(some), count), np.int64)
        for row, d in zip(ids, some):
            row[:len(d.ids)] = d.ids[:count]
        ids = torch.from_numpy(ids)
        with bfloat16():
            logits = model(ids)[:, :-1]
        losses = F.cross_entropy(logits.float().transpose(1, 2), ids[:, 1:], reduction="none").numpy()
        for each, d in zip(losses, some):
            for kind, roles in enumerate(kinds):
                use = np.flatnonzero(np.isin(d.roles[1:count], roles))
                sums[kind] += each[use].sum(), len(use), np.diff(d.last[:count])[use].sum()
    return [(math.exp(loss / tokens), loss / size / math.log(2), int(tokens)) for loss, tokens, size in sums]


def png(digit, wide, paper=255):
    """A digit of 8 x 8 as a picture of `wide` pixels: black on white, or with paper = 0 white on black."""
    ink = np.round(digit * 255).astype(np.uint8)
    image = Image.fromarray(255 - ink if paper else ink).resize((wide, wide), Image.BICUBIC)
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


@torch.no_grad()
def digits_read(model, tokenizer, images, labels, wide, paper):
    """The part of the images that are answered with the right sentence, word for word, by the likeliest tokens."""
    size, pads = model.visual.size, len(model.visual.pos_embed)
    pixels = torch.cat([preprocess.pixels(Image.open(io.BytesIO(png(i, wide, paper))), size) for i in images])
    ask = f"<|im_start|>user\n{START}{PAD * pads}{END}What digit is this?<|im_end|>\n<|im_start|>assistant\n"
    right = 0
    # Each token of the answer is the likeliest after those before it: greedy gives this answer.
    for label in np.unique(labels).tolist():
        rows = np.flatnonzero(labels == label)
        prompt, answer = tokenizer.encode(ask), tokenizer.encode(reading(label) + "<|im_end|>")
        with bfloat16():
            logits = model(torch.tensor([prompt + answer[:-1]] * len(rows)), pixels[rows])
        right += int((logits[:, len(prompt) - 1:].argmax(-1) == torch.tensor(answer)).all(dim=1).sum())
    return right / len(images)


def concepts(d, label=None):
    """For each concept, where it is asked about and whether it holds, per token."""
    count = len(d.ids)
    every = np.ones(count, bool)
    spoken = np.array([s in SECTIONS for s in d.labels])
    ends = np.array([d.text[i] in ".!?" and (i + 1 == len(d.text) or d.text[i + 1] in " \n<") for i in d.last])
    chat = every if d.chat else ~every
    out = {
        "assistant": (chat, d.roles == "assistant"),
        "sentence_end": (every, ends),
        "number": (chat, d.labels == "number"),
        "name": (every, d.labels == "name"),
        "library": (spoken, np.isin(d.labels, ["libs", "libdevel"])),
        "games": (spoken, d.labels == "games"),
        "python": (spoken, d.labels == "python"),
        "high_digit": (~every, ~every),
    }
    if label is not None:  # asked where the answer begins: "<|im_start|>assistant\n" and before a word of it
        first = int(np.argmax(d.roles == "assistant"))
        at = np.zeros(count, bool)
        at[first - 1] = True
        out["high_digit"] = (at, np.full(count, label >= 5))
    return out


@torch.no_grad()
def observed(model, layers, texts, digits, random, most=256):
    """Per concept: states [layers, samples, hidden] and truths [samples]."""
    states, truths = {c: [] for c in CONCEPTS}, {c: [] for c in CONCEPTS}

    def look(d, pixels=None, label=None):
        with bfloat16():
            _, seen = model(torch.from_numpy(d.ids[:most])[None], pixels, states=True)
        seen = torch.cat([seen[layer] for layer in layers]).float()
        for name, (asked, holds) in concepts(d, label).items():
            at = np.flatnonzero(asked[:most])
            states[name].append(seen[:, at])
            truths[name].append(holds[at])

    for d in texts:
        look(d)
    images, labels, tokenizer, size, pads = digits
    for image, label in zip(images, labels):
        d = Document(about_digit(random, [int(label)]), tokenizer, pads)
        look(d, drawn(image[None], size, random), int(label))
    return {c: (torch.cat(states[c], dim=1), torch.from_numpy(np.concatenate(truths[c])).float()) for c in CONCEPTS}


def fitted(x, y, decay=1e-3, most=20000):
    """Logistic regression without a constant, both classes of equal weight: value > 0 says yes."""
    if len(x) > most:
        keep = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))[:most]
        x, y = x[keep], y[keep]
    scale = x.std(dim=0) + 1e-3
    w = torch.zeros(x.shape[1], requires_grad=True)
    weight = torch.where(y > 0.5, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    search = torch.optim.LBFGS([w], max_iter=100, line_search_fn="strong_wolfe")

    def loss():
        search.zero_grad()
        value = (weight * F.binary_cross_entropy_with_logits(x / scale @ w, y, reduction="none")).mean()
        value = value + decay * w.pow(2).sum()
        value.backward()
        return value

    search.step(loss)
    return (w / scale).detach()


def area(values, truths):
    """Area under the ROC curve: how often a yes is above a no."""
    rank = torch.empty(len(values))
    rank[values.argsort()] = torch.arange(1, len(values) + 1, dtype=torch.float32)
    yes = truths > 0.5
    n, m = int(yes.sum()), int((~yes).sum())
    return (float(rank[yes].double().sum()) - n * (n + 1) / 2) / max(1, n * m)


def probes(seen, held):
    """Vectors [layers, concepts, hidden]; per layer and concept (balanced accuracy, area under ROC) on the held out."""
    vectors, figures = [], []
    for layer in range(next(iter(seen.values()))[0].shape[0]):
        row, scores = [], []
        for concept in CONCEPTS:
            w = fitted(seen[concept][0][layer], seen[concept][1])
            x, y = held[concept]
            value = x[layer] @ w
            yes = y > 0.5
            right = ((value[yes] > 0).float().mean() + (value[~yes] <= 0).float().mean()) / 2
            row.append(w)
            scores.append((float(right), area(value, y)))
        vectors.append(torch.stack(row))
        figures.append(scores)
    return torch.stack(vectors), figures
