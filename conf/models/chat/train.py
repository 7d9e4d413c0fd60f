#!/usr/bin/python3
"""Trains the demo chat model and writes the folder 1/ beside this file. Under two hours on two cores, shared ones too.

Needs Debian's python3-torch, python3-numpy, python3-pil, lz4; bookworm's package lists with English descriptions, and
the data file of scikit-learn's digits:

    mkdir -p work/lists/partial
    apt-get -o Dir::State::lists=$PWD/work/lists -o Acquire::Languages=en update
    apt-get download python3-sklearn && dpkg-deb -x python3-sklearn_*.deb work/sklearn
    ./train.py --lists work/lists --digits \\
        work/sklearn/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz

Read: the descriptions of the packages in Debian main (each under the free licence of its package), the docstrings of
Python's standard library (PSF licence), exercises and small talk written in corpus.py, and the handwritten digits
(UCI, CC BY 4.0). README.md says more. One source package in forty, one docstring in forty and a fifth of the digits
are never trained on; all figures that are printed are of those.

Stages: learn the byte-pair merges; teach the vision encoder alone to tell digits apart; train the decoder on text; train
both together on conversations about images and text; fit the concept probes; measure; write.
"""
import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "..", "..", "..", "tests", "reference")]
import bpe  # noqa: E402
import corpus  # noqa: E402
import data  # noqa: E402
import evaluate  # noqa: E402
import safetensors  # noqa: E402
import transformer  # noqa: E402
from optimizer import Optimizer  # noqa: E402

VOCABULARY = 3072
READOUT_LAYERS = [1, 3]
# Most steps on short rows, the last ones on long rows, so that every position of max_position_embeddings is met.
LENGTHS = [(0.86, 256), (0.97, 1024), (1.0, 2048)]
TOKENS = 4096  # of a step, all processes together
TEMPLATE = """{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' }}
{%- if message['content'] is string %}
{{- message['content'] }}
{%- elif message['content'] %}
{%- for part in message['content'] %}
{%- if part['type'] == 'text' %}
{{- part['text'] }}
{%- elif part['type'] == 'image' or part['type'] == 'image_url' %}
{{- '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- endif %}
{%- endfor %}
{%- endif %}
{%- for call in message['tool_calls'] or [] %}
{{- '<tool_call>' + (call | tojson) + '</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}"""


def configuration(special):
    return {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": VOCABULARY, "hidden_size": 256,
        "intermediate_size": 704, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 2048,
        "tie_word_embeddings": True, "use_sliding_window": False, "torch_dtype": "bfloat16",
        "bos_token_id": special["<|endoftext|>"], "eos_token_id": special["<|im_end|>"],
        "vision_start_token_id": special[data.START], "image_token_id": special[data.PAD],
        "vision_end_token_id": special[data.END],
        "vision_config": {"image_size": 16, "patch_size": 4, "hidden_size": 64, "depth": 2, "num_heads": 4,
                          "intermediate_size": 128},
    }


def learned(path, text):
    """The merges; a run that goes on takes those of its first part."""
    if os.path.exists(path):
        with open(path) as f:
            return json.load(f)
    merges = bpe.learn(text, VOCABULARY - 256 - len(bpe.SPECIAL))
    with open(path, "w") as f:
        json.dump(merges, f)
    return merges


def initial(said, seed):
    torch.manual_seed(seed)
    model = transformer.Transformer(transformer.Config(said))
    for name, p in model.named_parameters():
        if p.dim() == 2:
            nn.init.normal_(p, std=0.02 if "embed" in name else p.shape[1] ** -0.5)
        elif name.endswith("bias"):
            nn.init.zeros_(p)
    for layer in model.model.layers:  # each layer starts as no more than a whisper
        nn.init.zeros_(layer.self_attn.o_proj.weight)
        nn.init.zeros_(layer.mlp.down_proj.weight)
    return model


def teach_vision(vision, images, labels, kept, random, steps):
    """The vision encoder alone, through a head that is thrown away: features that tell digits apart."""
    head = nn.Linear(vision.proj.out_features, 10)
    search = torch.optim.AdamW([*vision.parameters(), *head.parameters()], lr=2e-3, weight_decay=0.01)
    for step in range(steps):
        search.param_groups[0]["lr"] = 2e-3 * min(1, step / 50, 2 * (steps - step) / steps)
        rows = random.choice(kept, 64)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            guess = head(vision(data.drawn(images[rows], vision.size, random)).mean(dim=1))
        loss = F.cross_entropy(guess.float(), torch.from_numpy(labels[rows]))
        search.zero_grad()
        loss.backward()
        search.step()
    with torch.no_grad():  # as loud as the embeddings that the features stand among
        vision.proj.weight.mul_(0.2)
        vision.proj.bias.mul_(0.2)
    print(f"vision encoder alone: loss {loss.item():.3f}", flush=True)


def loss_of(model, ids, weights, pixels=None):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(ids[:, :-1], pixels)
    each = F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), ids[:, 1:].reshape(-1), reduction="none")
    weights = weights[:, 1:].reshape(-1)
    return (each * weights).sum() / weights.sum()


class Gradients:
    """What one process finds on its share of a step's rows, left in .grad."""

    def __init__(self, model, tokenizer, documents, args):
        self.model, self.tokenizer, self.documents, self.args, self.sources = model, tokenizer, documents, args, {}

    def text(self, step, rank):
        length = next(n for part, n in LENGTHS if step < part * self.args.steps)
        if length not in self.sources:  # a run that was broken off draws other rows from there on than a whole one
            random = np.random.default_rng([self.args.seed, length, step, rank])
            self.sources[length] = data.rows(self.documents, length, random, self.tokenizer.special["<|endoftext|>"])
        batch = [next(self.sources[length]) for _ in range(TOKENS // length // self.args.processes)]
        return torch.from_numpy(np.stack([b[0] for b in batch])), torch.from_numpy(np.stack([b[1] for b in batch]))

    def find(self, step, rank):
        for p in self.model.model.parameters():
            p.grad = torch.zeros_like(p)
        loss = loss_of(self.model, *self.text(step, rank)) / self.args.processes
        loss.backward()
        return loss.item()

    def work(self, rank, first, shared, meet):
        """A process beside the first one: the parameters lie in memory that both see."""
        torch.set_num_threads(1)
        for step in range(first, self.args.steps):
            meet.wait()
            self.find(step, rank)
            shared.copy_(torch.cat([p.grad.reshape(-1) for p in self.model.model.parameters()]))
            meet.wait()

    def add(self, shared):
        at = 0
        for p in self.model.model.parameters():
            p.grad += shared[at:at + p.numel()].view_as(p)
            at += p.numel()


def train(model, tokenizer, documents, args):
    """The decoder on text. Goes on from state.pt when it is there."""
    optimizer = Optimizer(model.model, args.steps)
    path, first = os.path.join(args.work, "state.pt"), 0
    if os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        first = state["step"]
        if first >= args.steps:
            return
        optimizer.restore(state["optimizer"])
    model.share_memory()
    gradients, fork = Gradients(model, tokenizer, documents, args), multiprocessing.get_context("fork")
    meet, size = fork.Barrier(args.processes), sum(p.numel() for p in model.model.parameters())
    shared = [torch.zeros(size).share_memory_() for _ in range(args.processes - 1)]
    workers = [fork.Process(target=gradients.work, args=(rank, first, buffer, meet), daemon=True)
               for rank, buffer in enumerate(shared, 1)]
    for worker in workers:
        worker.start()
    mean, began = None, time.time()
    for step in range(first, args.steps):
        meet.wait()
        loss = gradients.find(step, 0)
        meet.wait()
        for buffer in shared:
            gradients.add(buffer)
        optimizer.step(step)
        loss *= args.processes
        mean = loss if mean is None else 0.98 * mean + 0.02 * loss
        if step % 50 == 49:
            print(f"step {step + 1} of {args.steps}: loss {mean:.3f}, "
                  f"{(step + 1 - first) * TOKENS / (time.time() - began):.0f} tokens/s", flush=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state(), "step": step + 1}, path + ".new")
            os.replace(path + ".new", path)
    for worker in workers:
        worker.join()


def teach_reading(model, tokenizer, documents, digits, args):
    """Both together: conversations about images, and text so that it is not forgotten. A fast vision encoder would unlearn."""
    images, labels, _, kept = digits
    random, vision = np.random.default_rng([args.seed, 1]), model.visual
    texts = data.rows(documents, 256, random, tokenizer.special["<|endoftext|>"])
    search = torch.optim.AdamW([{"params": model.model.parameters(), "lr": 5e-4},
                                {"params": vision.parameters(), "lr": 2e-4}], betas=(0.9, 0.95), weight_decay=0.0)
    rates = [group["lr"] for group in search.param_groups]
    for step in range(args.reading_steps):
        for group, rate in zip(search.param_groups, rates):
            group["lr"] = rate * min(1, (step + 1) / 10, 2 * (args.reading_steps - step) / args.reading_steps)
        ids, weights, pixels = data.digit_rows(images[kept], labels[kept], tokenizer, vision.size, len(vision.pos_embed),
                                               random, 16)
        seeing = loss_of(model, torch.from_numpy(ids), torch.from_numpy(weights), pixels)
        seeing.backward()
        batch = [next(texts) for _ in range(6)]
        loss = loss_of(model, torch.from_numpy(np.stack([b[0] for b in batch])),
                       torch.from_numpy(np.stack([b[1] for b in batch])))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        search.step()
        search.zero_grad()
        if step % 20 == 19:
            print(f"reading {step + 1} of {args.reading_steps}: images {seeing.item():.3f}, text {loss.item():.3f}",
                  flush=True)


def write(out, model, tokenizer, said):
    os.makedirs(out, exist_ok=True)
    special = tokenizer.special

    def dump(name, value):
        with open(os.path.join(out, name), "w") as f:
            json.dump(value, f, indent=2)
            f.write("\n")

    dump("config.json", said)
    stop = special["<|endoftext|>"]
    dump("generation_config.json", {"bos_token_id": stop, "pad_token_id": stop, "do_sample": True, "temperature": 0.6,
                                    "top_p": 0.9, "eos_token_id": [special["<|im_end|>"], stop]})
    dump("tokenizer_config.json", {
        "tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "add_prefix_space": False, "bos_token": None,
        "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None, "model_max_length": 2048,
        "clean_up_tokenization_spaces": False, "chat_template": TEMPLATE})
    tokenizer.save(os.path.join(out, "tokenizer.json"))
    return safetensors.save(os.path.join(out, "model.safetensors"),
                            {name: p.detach().bfloat16() for name, p in model.named_parameters()}, {"format": "pt"})


def measure(out, tokenizer, documents, digits, args):
    """Figures of the model as it was written, and its readouts."""
    model = transformer.load(out)
    images, labels, held, kept = digits
    report = {}
    kinds = {"replies and plain text": ["assistant", "text"],
             "what users say too": ["assistant", "text", "user", "system", "head"]}
    for name, (value, bits, tokens) in zip(kinds, evaluate.perplexity(model, documents["held"], list(kinds.values()))):
        report[f"held-out perplexity, {name}"] = f"{value:.2f}, {bits:.3f} bits per byte, {tokens} tokens"
    for wide, paper in ((64, 255), (200, 255), (8, 255), (64, 0)):
        part = evaluate.digits_read(model, tokenizer, images[held], labels[held], wide, paper)
        report[f"held-out digits read, {wide} pixels wide, {'black on white' if paper else 'white on black'}"] = \
            f"{part:.2%} of {len(held)}"
    random = np.random.default_rng(args.seed)
    size, pads = model.visual.size, len(model.visual.pos_embed)

    def observed(texts, rows):
        shown = images[rows], labels[rows], tokenizer, size, pads
        return evaluate.observed(model, READOUT_LAYERS, texts, shown, random)

    chosen = [documents["train"][i] for i in random.permutation(len(documents["train"]))[:args.probe_documents]]
    seen = observed(chosen, kept[:args.probe_documents])
    vectors, figures = evaluate.probes(seen, observed(documents["held"][::2], held))
    safetensors.save(os.path.join(out, "readout.safetensors"), {"readout": vectors})
    with open(os.path.join(out, "readout.json"), "w") as f:
        json.dump({"concepts": evaluate.CONCEPTS, "layers": READOUT_LAYERS, "dtype": "float32"}, f, indent=2)
        f.write("\n")
    for layer, scores in zip(READOUT_LAYERS, figures):
        for concept, (right, area) in zip(evaluate.CONCEPTS, scores):
            report[f"held-out probe, layer {layer}, {concept}"] = \
                f"{right:.3f} balanced accuracy, {area:.3f} area under ROC"
    for name, value in report.items():
        print(f"{name}: {value}", flush=True)
    return model


def samples(model, tokenizer):
    for question in ("Hello!", "Who are you?", "What is curl?", "What is libpng-dev?", "What does os.path.join do?",
                     "Tell me about python3-requests.", "What is 3 plus 4?", "Count from 5 to 12."):
        prompt = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        stop = {tokenizer.special["<|im_end|>"], tokenizer.special["<|endoftext|>"]}
        print(f"> {question}\n{tokenizer.decode(model.greedy(tokenizer.encode(prompt), stop, 100))}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", default="/var/lib/apt/lists", help="package lists of apt, with Translation-en")
    parser.add_argument("--digits", help="digits.csv.gz of scikit-learn")
    parser.add_argument("--out", default=os.path.join(here, "1"))
    parser.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "weir-chat"),
                        help="where a run that is broken off goes on")
    parser.add_argument("--steps", type=int, default=740, help=f"of {TOKENS} tokens each")
    parser.add_argument("--vision-steps", type=int, default=3000)
    parser.add_argument("--reading-steps", type=int, default=120)
    parser.add_argument("--probe-documents", type=int, default=1000, help="and as many digits")
    parser.add_argument("--processes", type=int, default=2, help="that share the rows of a step")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(args.work, exist_ok=True)

    spans, counts = corpus.conversations(args.lists, np.random.default_rng(args.seed))
    if not counts.get("packages"):
        sys.exit(f"no package descriptions in {args.lists}: see --help")
    text = [s for d in spans["train"][::4] for s, _ in d if not s.startswith("<|")]
    tokenizer = bpe.Tokenizer(learned(os.path.join(args.work, "merges.json"), text))
    documents = {side: [data.Document(d, tokenizer) for d in spans[side]] for side in spans}
    digest = hashlib.sha256("".join(d.text for side in documents.values() for d in side).encode()).hexdigest()
    tokens = {side: sum(len(d.ids) for d in documents[side]) for side in documents}
    print(f"read {counts}; {tokens} tokens; sha256 of the text {digest[:16]}", flush=True)

    digits = data.read_digits(args.digits)
    said = configuration(tokenizer.special)
    model = initial(said, args.seed)
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    if not os.path.exists(os.path.join(args.work, "state.pt")):
        teach_vision(model.visual, digits[0], digits[1], digits[3], np.random.default_rng(args.seed), args.vision_steps)
    train(model, tokenizer, documents["train"], args)
    teach_reading(model, tokenizer, documents["train"], digits, args)
    size = write(args.out, model, tokenizer, said)
    print(f"wrote {args.out}, model.safetensors of {size} bytes", flush=True)
    samples(measure(args.out, tokenizer, documents, digits, args), tokenizer)


if __name__ == "__main__":
    main()
