#!/usr/bin/python3
"""What guesses at the next tokens (draft_tokens) are worth: 200 tokens with and without, in turns, in CPU seconds.

    bench/generation/drafts.py build/weir [calls at a time]

The model is bench/peers/llama_weights.py's, 112 million random bfloat16 parameters on one thread. A bias decides what it
writes: always the same token, so that every guess is right; one of three, so that a third of the guesses is; or what it
likes, where nothing repeats itself and there is nothing to guess.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import llama_weights  # noqa: E402

PORT, TOKENS, ROUNDS = 18420, 200, 3
TEXTS = {"one token": ({"400": 100}, 0), "one of three": ({"400": 100, "401": 99.6, "402": 99.3}, 1), "nothing repeats": ({}, 0)}


def write_repository(root):
    tensors = llama_weights.weights()
    for name, more in (("plain", ""), ("drafted", ", draft_tokens: 8")):
        llama_weights.write_folder(tensors, f"{root}/{name}/1")
        pathlib.Path(root, name, "model.yaml").write_text(f"parameters: {{threads: 1{more}}}\n")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def post(path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def text(model, text, prompt):
    bias, temperature = TEXTS[text]
    return post("/v1/completions", {
        "model": model, "prompt": [300 + (i * 7919 + prompt * 104729) % 31000 for i in range(40)], "max_tokens": TOKENS,
        "temperature": temperature, "seed": 5, "ignore_eos": True, "logit_bias": bias})["choices"][0]["text"]


def await_ready():
    for _ in range(300):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v2/health/ready").close()
        except OSError:
            time.sleep(0.2)
    sys.exit("the server is not ready")


def measure(pid, at_once):
    for name in TEXTS:
        ratios = []
        for turn in range(ROUNDS):
            took, said = {}, {}
            for model in ("plain", "drafted"):
                before = cpu_seconds(pid)
                with ThreadPoolExecutor(at_once) as calls:
                    said[model] = list(calls.map(lambda i: text(model, name, turn * at_once + i), range(at_once)))
                took[model] = cpu_seconds(pid) - before
            assert said["plain"] == said["drafted"], "the tokens are the same"
            ratios.append(took["plain"] / took["drafted"])
        print(f"{name}: {at_once} at a time, {min(ratios):.2f}-{max(ratios):.2f} times as fast")


def main():
    with tempfile.TemporaryDirectory() as root:
        write_repository(root)
        server = subprocess.Popen([sys.argv[1], "serve", root, "--listen", f"127.0.0.1:{PORT}"], stdout=subprocess.DEVNULL)
        try:
            await_ready()
            measure(server.pid, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
