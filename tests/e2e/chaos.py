"""chaos: nodes under load, of which every two seconds one is killed, stopped or cut off from NATS.

usage: chaos.py [SECONDS]     `./dev chaos SECONDS`

Three workers and two gateways; clients of the gateways by REST, gRPC and texts of the OpenAI API. The gateways live, so
that each request must have an outcome: an answer, which must be the right one, or an error with a status. Prints what
became of them, and fails where an outcome is missing or an answer is wrong, or where too few are answers.
"""

import json
import random
import signal
import sys
import threading
import time

import grpc

import harness
from cluster_nodes import JSON, Nats, folder, identity, infer, node, nodes, serves, until
from forward_text_test import MODEL, model_folder
from harness import curl

pb, rpc = harness.stubs()('inference')
PROMPTS = ('Once upon a time', 'The ship', 'In the beginning')


class Outcomes:
    def __init__(self):
        self.lock, self.counts, self.wrong, self.missing, self.texts = threading.Lock(), {}, [], [], {}

    def add(self, kind, outcome):
        with self.lock:
            self.counts[kind, outcome] = self.counts.get((kind, outcome), 0) + 1

    def of(self, kind, outcome=None):
        return sum(n for (k, o), n in self.counts.items() if k == kind and outcome in (None, o))


def rest(gateway, number, out):
    status, value = infer(gateway, 'a', float(number))
    if status == 200 and value != float(number):
        out.wrong.append(('rest', number, value))
    out.add('rest', status)


def grpc_call(stub, number, out):
    request = pb.ModelInferRequest(model_name='a')
    request.inputs.add(name='x', datatype='FP32', shape=[1, 1]).contents.fp32_contents.append(float(number))
    try:
        answer = stub.ModelInfer(request, timeout=20)
    except grpc.RpcError as error:
        return out.add('grpc', error.code().name)
    import struct
    value = struct.unpack('<f', answer.raw_output_contents[0])[0] if answer.raw_output_contents else answer.outputs[0].contents.fp32_contents[0]
    if value != float(number):
        out.wrong.append(('grpc', number, value))
    out.add('grpc', 'OK')


def text(gateway, number, out):
    prompt = PROMPTS[number % len(PROMPTS)]
    ask = {'model': MODEL, 'prompt': prompt, 'max_tokens': 40, 'temperature': 0, 'ignore_eos': True}
    answer = curl(gateway.url('/v1/completions'), *JSON, data=json.dumps(ask))
    if answer.status == 200 and answer.json()['choices'][0]['text'] != out.texts[prompt]:
        out.wrong.append(('text', prompt, answer.json()['choices'][0]['text']))
    out.add('text', answer.status)


class World:
    def __init__(self):
        self.nats = Nats()
        self.root = model_folder()
        identity(self.root, 'a', 200)
        here = folder()
        (here / MODEL).mkdir()
        (here / MODEL / 'model.yaml').write_text(
            f'engine: forward\nkind: weir\norigins: cluster\nparameters: {{tokenizer: {self.root / MODEL / "1"}, check_interval: 200ms}}\n')
        self.workers = [node(self.nats, self.root) for _ in range(3)]
        self.gateways = [node(self.nats, here) for _ in range(2)]
        for gateway in self.gateways:
            until(lambda: serves(gateway, 'a') and serves(gateway, MODEL) and nodes(gateway) == 5, 'five nodes', 60)

    def kill(self, i):
        self.workers[i].process.kill()
        self.workers[i].process.wait()
        self.workers[i] = node(self.nats, self.root)

    def stop(self, i):
        self.workers[i].process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # the time that it is stopped for
        self.workers[i].process.send_signal(signal.SIGCONT)

    def cut(self, _):
        self.nats.kill()
        time.sleep(1)  # the time without NATS
        self.nats.start()

    def end(self):
        for gateway in self.gateways:
            until(lambda: nodes(gateway) == 5, 'five nodes at the end', 60)
            until(lambda: serves(gateway, 'a') and serves(gateway, MODEL), 'the models at the end', 60)
            assert infer(gateway, 'a', 7.0) == (200, 7.0)
        codes = [server.stop() for server in self.gateways + self.workers]
        self.nats.kill()
        assert codes == [0] * 5, codes


def load(world, out, ending):
    def client(work, kind):
        number = 0
        while not ending.is_set():
            number += 1
            try:
                work(number)
            except Exception as error:  # noqa: B902 (what it was is reported)
                out.missing.append((kind, repr(error)[:300]))

    threads = []
    for gateway in world.gateways:
        stub = rpc.GRPCInferenceServiceStub(grpc.insecure_channel(gateway.address))
        for work, kind in ((lambda n, g=gateway: rest(g, n, out), 'rest'), (lambda n, s=stub: grpc_call(s, n, out), 'grpc'),
                           (lambda n, g=gateway: text(g, n, out), 'text')):
            threads.append(threading.Thread(target=client, args=(work, kind)))
    for thread in threads:
        thread.start()
    return threads


def run(seconds, seed):
    dice, world, out, ending = random.Random(seed), World(), Outcomes(), threading.Event()
    for prompt in PROMPTS:
        ask = {'model': MODEL, 'prompt': prompt, 'max_tokens': 40, 'temperature': 0, 'ignore_eos': True}
        out.texts[prompt] = curl(world.workers[0].url('/v1/completions'), *JSON, data=json.dumps(ask)).json()['choices'][0]['text']
    threads = load(world, out, ending)
    end, blows = time.monotonic() + seconds, {}
    while time.monotonic() < end:
        began = time.monotonic()
        blow = dice.choice(['kill', 'stop', 'cut'])
        blows[blow] = blows.get(blow, 0) + 1
        getattr(world, blow)(dice.randrange(3))
        time.sleep(max(0.0, began + 2 - time.monotonic()))  # a blow every two seconds
    ending.set()
    for thread in threads:
        thread.join()
    world.end()
    print(f'blows: {blows}')
    for (kind, outcome), count in sorted(out.counts.items(), key=str):
        print(f'{kind} {outcome}: {count}')
    print(f'wrong answers: {len(out.wrong)}, requests without an outcome: {len(out.missing)}')
    for one in (out.wrong + out.missing)[:10]:
        print(one)
    return out


def held(out):
    """Nothing is wrong or missing, and most requests of each kind are answered."""
    most = all(out.of(kind, good) * 10 > out.of(kind) * 8 for kind, good in (('rest', 200), ('grpc', 'OK'), ('text', 200)))
    return not out.wrong and not out.missing and most


if __name__ == '__main__':
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = random.randrange(1 << 30)
    print(f'seed {seed}')
    sys.exit(0 if held(run(seconds, seed)) else 1)
