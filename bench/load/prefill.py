#!/usr/bin/python3
"""What a long prompt does to others: a model of 200 million random parameters on the CPU, streams that run, a prompt of 4,000 tokens.

    bench/load/prefill.py [WEIR] [--threads 2] [--rounds 5] [--json]

Prints, as medians of the rounds (range):
  gap           between two tokens of four running streams: median of a round without and with the long prompt, their
                ratio, and the longest gap while the prompt is read, over the median without
  prefill       tokens per second of the long prompt alone, with the default step_time over steps of 512 tokens
  short         steps, and time over the gap, from a prompt of 16 tokens, sent 0.5 s behind the long one, to its first token
  cancel        steps until a long prompt whose client has gone away has given its place back

Streams are read over sockets in this process, so times have the client's and the machine's noise; ratios are of one round.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench/gpu'))
import weights  # noqa: E402  (bench/gpu/weights.py)

SHAPE, STREAMS, LONG, SHORT, BEHIND_S = '200M', 4, 4000, 16, 0.5
TOKENS = 400  # of a running stream, at most: it is cut off before


class Server:
    """weir on the model, twice: `default`, and `whole`, whose steps are as large as they may be."""

    def __init__(self, weir, folder, threads):
        models = folder / 'models'
        for name, more in (('default', ''), ('whole', ', step_time: "0"')):
            (models / name / '1').mkdir(parents=True)
            for file in (folder / 'weights').iterdir():
                os.link(file, models / name / '1' / file.name)
            parameters = f'max_length: "{2 * LONG}", threads: "{threads}", kv_cache: 1GiB, prefix_cache: "off"{more}'
            (models / name / 'model.yaml').write_text(f'engine: llm\nparameters: {{{parameters}}}\n')
        log = folder / 'log'
        with open(log, 'wb') as out:
            self.process = subprocess.Popen([weir, 'serve', models, '--listen', '127.0.0.1:0', '--shards', '1'], stdout=out, stderr=out)
        while True:
            text = log.read_text()
            if self.process.poll() is not None:
                raise SystemExit(text)
            if found := re.search(r'listening on http://127\.0\.0\.1:(\d+)', text):
                self.port = int(found[1])
                break
            time.sleep(0.05)
        while self.get('/v2/health/ready')[0] == 503:
            time.sleep(0.2)
        if 'UNAVAILABLE' in log.read_text():
            raise SystemExit(log.read_text())

    def get(self, path):
        connection = http.client.HTTPConnection('127.0.0.1', self.port)
        connection.request('GET', path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def metric(self, name, model, more=''):
        """The sum of the lines of a metric that are about the model."""
        pattern = rf'^{name}\{{[^}}]*model="{model}"[^}}]*{more}[^}}]*\}} (\S+)$'
        return sum(float(v) for v in re.findall(pattern, self.get('/metrics')[1], re.M))

    def steps(self, model='default'):
        return self.metric('weir_model_executions_total', model)

    def close(self):
        self.process.terminate()
        self.process.wait()


class Stream:
    """One text, read as it comes: when each token was here."""

    def __init__(self, server, prompt_tokens, max_tokens, model='default', seed=0):
        self.times, self.sent = [], time.monotonic()
        self.connection = http.client.HTTPConnection('127.0.0.1', server.port)
        prompt = [weights.FIRST_WORD + (seed * 7919 + i * 31) % 20000 for i in range(prompt_tokens)]
        self.connection.request('POST', '/v1/completions', json.dumps({
            'model': model, 'prompt': prompt, 'max_tokens': max_tokens, 'temperature': 0, 'stream': True, 'ignore_eos': True}),
            {'content-type': 'application/json'})
        self.first, self.done, self.error = threading.Event(), threading.Event(), None
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            answer = self.connection.getresponse()
            if answer.status != 200:
                self.error = answer.read()
                return
            while line := answer.readline():
                if line.startswith(b'data: {'):
                    self.times.append(time.monotonic())
                    self.first.set()
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass
        finally:
            self.first.set()
            self.done.set()

    def wait_first(self):
        self.first.wait()
        if self.error or not self.times:
            raise SystemExit(f'a stream without a token: {self.error}')
        return self.times[0] - self.sent

    def gaps(self, begin, end):
        """Between tokens that came in this time, in seconds; the gap that holds `begin` counts."""
        times = [t for t in self.times if t <= end]
        return [b - a for a, b in zip(times, times[1:]) if b > begin]

    def cut(self):
        try:
            self.connection.sock.shutdown(2)
        except (OSError, AttributeError):
            pass
        self.done.wait()


def one_round(server, seed):
    out = {}
    running = [Stream(server, SHORT, TOKENS, seed=seed + i) for i in range(STREAMS)]
    for s in running:
        s.wait_first()
    begin = time.monotonic()
    time.sleep(2)
    plain = [g for s in running for g in s.gaps(begin, time.monotonic())]
    begin = time.monotonic()
    long = Stream(server, LONG, 1, seed=seed + 10)
    long_s = long.wait_first()
    loaded = [g for s in running for g in s.gaps(begin, begin + long_s)]
    for s in running + [long]:
        s.cut()
    gap = statistics.median(plain)
    out['gap without, ms'], out['gap with, ms'] = 1e3 * gap, 1e3 * statistics.median(loaded)
    out['median gap, ratio'] = statistics.median(loaded) / gap
    out['p99 gap, ratio'] = sorted(loaded)[int(0.99 * len(loaded))] / gap
    out['longest gap, ratio'] = max(loaded) / gap
    rates = {}
    for model in ('default', 'whole') if seed % 2 else ('whole', 'default'):
        rates[model] = LONG / Stream(server, LONG, 1, model, seed=seed + 20).wait_first()
    out['prefill alone, tokens/s'], out['prefill alone, over whole steps'] = rates['default'], rates['default'] / rates['whole']
    long = Stream(server, LONG, 1, seed=seed + 30)
    time.sleep(BEHIND_S)
    before = server.steps()
    short = Stream(server, SHORT, 1, seed=seed + 31)
    out['short behind long, ms'] = 1e3 * short.wait_first()
    out['short behind long, steps'] = server.steps() - before
    if long.first.is_set():
        raise SystemExit('the long prompt was over before the short one: this machine needs a longer one')
    long.cut()
    while server.metric('weir_model_sequences', 'default', 'state="running"'):
        pass
    long = Stream(server, LONG, 1, seed=seed + 40)
    time.sleep(BEHIND_S)
    before = server.steps()
    long.cut()
    while server.metric('weir_model_sequences', 'default', 'state="running"'):
        pass
    out['cancelled, steps until its place is free'] = server.steps() - before
    return out


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('weir', nargs='?', default=ROOT / 'build/weir')
    words.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    words.add_argument('--rounds', type=int, default=5)
    words.add_argument('--json', action='store_true')
    args = words.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        weights.write(SHAPE, folder / 'weights')
        server = Server(args.weir, folder, args.threads)
        try:
            Stream(server, 512, 8).done.wait()
            rounds = [one_round(server, 100 * i + i % 2) for i in range(args.rounds)]
        finally:
            server.close()
    table = {name: [r[name] for r in rounds] for name in rounds[0]}
    if args.json:
        print(json.dumps(table))
        return
    for name, values in table.items():
        print(f'{name:42} {statistics.median(values):9.2f}  ({min(values):.2f} - {max(values):.2f})')


if __name__ == '__main__':
    sys.exit(main())
