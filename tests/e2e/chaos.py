"""chaos: nodes under load, of which every two seconds one is killed, stopped or cut off from NATS.

usage: chaos.py [SECONDS]     `./dev chaos SECONDS`

Three workers, two gateways, and a router that has no models; clients of the gateways in all six protocols: OIP by REST and gRPC,
GRPS, GraphPipe, texts of the OpenAI API, Evergreen, and Salience sessions of three turns. By way of the router sessions
live on workers, and move to others; sessions of Evergreen that are kept go from node to node, also to those that are killed, and
find at the next one what KEEP has confirmed. The gateways live, so that each request must have an outcome: an answer, which must
be the right one, or an error with a status. Prints what became of them, and fails where an outcome is missing or an answer is
wrong, or where too few are answers.
"""

import json
import random
import re
import signal
import struct
import sys
import threading
import time

import grpc

import evergreen_client
import graphpipe_test
import harness
import numpy as np
from cluster_nodes import JSON, Nats, folder, identity, infer, node, nodes, serves, until
from forward_text_test import MODEL, model_folder
from harness import curl

pb, rpc = harness.stubs()('inference')
sal, sal_rpc = harness.stubs()('salience')
TURNS = [[(7 * i) % 250 for i in range(40)], [(11 * i) % 250 for i in range(15)], [(13 * i) % 250 for i in range(15)]]
PAUSE = 0.25  # seconds that a client waits behind an error
VISITS = 4    # of nodes, by the client of a session that is kept
KEPT_TIME = 40  # seconds that it tries for
PROMPTS = ('Once upon a time', 'The ship', 'In the beginning')


class Outcomes:
    def __init__(self, ending):
        self.ending = ending
        self.lock, self.counts, self.wrong, self.missing, self.texts = threading.Lock(), {}, [], [], {}
        self.errors = {}  # how often which sessions said what

    def add(self, kind, outcome, why=''):
        with self.lock:
            self.counts[kind, outcome] = self.counts.get((kind, outcome), 0) + 1
            if why:
                why = re.sub('[0-9a-f]{8,}', '*', why)
                self.errors[kind, why] = self.errors.get((kind, why), 0) + 1
        if outcome not in (200, 'OK'):
            self.ending.wait(PAUSE)  # as clients do that try again

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


def grps(gateway, number, out):
    tensor = {'name': 'x', 'dtype': 'DT_FLOAT32', 'shape': [1, 1], 'flat_float32': [float(number)]}
    answer = curl(gateway.url('/grps/v1/infer/predict'), *JSON, data=json.dumps({'model': 'a', 'gtensors': {'tensors': [tensor]}}))
    good = answer.status == 200 and answer.json()['status']['status'] == 'SUCCESS'
    if good and answer.json()['gtensors']['tensors'][0]['flat_float32'] != [float(number)]:
        out.wrong.append(('grps', number, answer.body))
    out.add('grps', 200 if good else answer.status if answer.status != 200 else 'FAILURE')


def graphpipe(gateway, number, out):
    body = graphpipe_test.infer_request([np.array([[float(number)]], dtype=np.float32)])
    answer = curl(gateway.url('/graphpipe/a'), '-H', 'Content-Type:', data=body)
    if answer.status != 200:
        return out.add('graphpipe', answer.status)
    if graphpipe_test.response(answer.body).ErrorsLength():
        return out.add('graphpipe', 'error')
    if [[float(number)]] != graphpipe_test.outputs_of(answer.body)[0].tolist():
        out.wrong.append(('graphpipe', number, answer.body))
    out.add('graphpipe', 200)


def evergreen(gateway, channel, number, out):
    session = evergreen_client.GrpcSession(gateway, channel)
    try:
        value = struct.pack('<f', number)
        session.send(evergreen_client.leaf('x', value, 'application/x-weir-tensor; dtype=FP32; shape=1,1'))
        session.send(evergreen_client.action('INFER', {'x': 'x'}, {'x': 'y'}, 'a'))
        nodes_seen = evergreen_client.read_until(session, 'y')
        if nodes_seen.flat('y') != value:
            out.wrong.append(('evergreen', number, nodes_seen.flat('y')))
        out.add('evergreen', 'OK')
    except evergreen_client.SessionError as error:
        out.add('evergreen', error.code)
    finally:
        session.close()


class KeptSession:
    """What the client of a session of Evergreen that is kept knows: its id, and the nodes that KEEP has confirmed."""

    def __init__(self, out):
        self.out, self.id, self.confirmed, self.visits = out, None, {}, 0

    def visit(self, server):
        """Comes back, finds what was confirmed, adds a node, has it confirmed, and leaves without a word."""
        self.visits += 1
        session = evergreen_client.GrpcSession(server)
        said = session.messages()
        session.messages = lambda: said
        try:
            if self.id:
                self.come_back(session)
            asked, answered, value = f'x{self.visits}', f'y{self.visits}', struct.pack('<f', self.visits)
            session.send(evergreen_client.leaf(asked, value, 'application/x-weir-tensor; dtype=FP32; shape=1,1'))
            session.send(evergreen_client.action('INFER', {'x': asked}, {'x': answered}, 'a'))
            self.expect(session, answered, value)
            session.send(evergreen_client.action('KEEP', {}, {'session': f'id{self.visits}'}))
            self.id = self.read(session, f'id{self.visits}').decode()
            self.confirmed[answered] = value
        finally:
            session.close()

    def come_back(self, session):
        nodes = f'nodes{self.visits}'
        session.send(evergreen_client.action('RESUME', {}, {'nodes': nodes}, config=evergreen_client.cfg.ResumeConfig(session=self.id)))
        if lost := set(self.confirmed) - set(json.loads(self.read(session, nodes))):
            self.out.wrong.append(('kept', self.id, f'confirmed, and not there: {lost}'))
        for node, value in list(self.confirmed.items())[-1:]:
            session.send(evergreen_client.action('ECHO', {'x': node}, {'x': f'z{self.visits}'}))
            self.expect(session, f'z{self.visits}', value)

    def expect(self, session, node, value):
        if (found := self.read(session, node)) != value:
            self.out.wrong.append(('kept', node, found))

    def read(self, session, node):
        return evergreen_client.read_until(session, node).flat(node)


def kept(world, dice, out):
    session, end, outcome, why = KeptSession(out), time.monotonic() + KEPT_TIME, 'late', ''
    while len(session.confirmed) < VISITS and time.monotonic() < end:
        try:
            session.visit(dice.choice([*world.gateways, *world.workers]))
        except evergreen_client.SessionError as error:
            outcome, why = error.code, error.message
            if session.confirmed and error.code == 'NOT_FOUND':
                out.wrong.append(('kept', session.id, error.message))
                break
            out.ending.wait(PAUSE)
    if len(session.confirmed) == VISITS:
        out.add('kept', 'OK')
    else:
        out.add('kept', outcome, why)


def turns(stub):
    """What each turn of a session says."""
    session, length, said = stub.OpenSession(sal.OpenSessionRequest(model=MODEL), timeout=20).session_id, 0, []
    try:
        for tokens in TURNS:
            ask = sal.GenerateRequest(session_id=session, append_tokens=tokens, offset=length, max_tokens=10, top_k=1)
            *events, last = stub.Generate(ask, timeout=20)
            said.append([e.token.id for e in events if not e.token.is_prefill])
            length = last.done.total_tokens
        return said
    finally:
        try:
            stub.CloseSession(sal.CloseSessionRequest(session_id=session), timeout=20)
        except grpc.RpcError:
            pass  # its node is gone, and it with it


def salience(stub, number, out, kind='salience'):
    try:
        said = turns(stub)
    except grpc.RpcError as error:
        return out.add(kind, error.code().name, error.details())
    if said != out.texts['salience']:
        out.wrong.append((kind, number, said))
    out.add(kind, 'OK')


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
        self.router = node(self.nats)
        for gateway in self.gateways:
            until(lambda: serves(gateway, 'a') and serves(gateway, MODEL) and nodes(gateway) == 6, 'six nodes', 60)

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
            until(lambda: nodes(gateway) == 6, 'six nodes at the end', 60)
            until(lambda: serves(gateway, 'a') and serves(gateway, MODEL), 'the models at the end', 60)
            assert infer(gateway, 'a', 7.0) == (200, 7.0)
        codes = [server.stop() for server in [*self.gateways, self.router, *self.workers]]
        self.nats.kill()
        assert codes == [0] * 6, codes


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
        channel = grpc.insecure_channel(gateway.address)
        stub, sessions = rpc.GRPCInferenceServiceStub(channel), sal_rpc.SalienceStub(channel)
        for work, kind in (
                (lambda n, g=gateway: grps(g, n, out), 'grps'), (lambda n, g=gateway: graphpipe(g, n, out), 'graphpipe'),
                (lambda n, g=gateway, c=channel: evergreen(g, c, n, out), 'evergreen'),
                (lambda n, s=sessions: salience(s, n, out), 'salience'),
                (lambda n, g=gateway: rest(g, n, out), 'rest'), (lambda n, s=stub: grpc_call(s, n, out), 'grpc'),
                (lambda n, g=gateway: text(g, n, out), 'text')):
            threads.append(threading.Thread(target=client, args=(work, kind)))
    router = sal_rpc.SalienceStub(grpc.insecure_channel(world.router.address))
    threads += [threading.Thread(target=client, args=(lambda n: salience(router, n, out, 'moving'), 'moving')) for _ in range(2)]
    threads += [threading.Thread(target=client, args=(lambda n, d=random.Random(seed): kept(world, d, out), 'kept')) for seed in range(2)]
    for thread in threads:
        thread.start()
    return threads


def run(seconds, seed):
    dice, world, ending = random.Random(seed), World(), threading.Event()
    out = Outcomes(ending)
    for prompt in PROMPTS:
        ask = {'model': MODEL, 'prompt': prompt, 'max_tokens': 40, 'temperature': 0, 'ignore_eos': True}
        out.texts[prompt] = curl(world.workers[0].url('/v1/completions'), *JSON, data=json.dumps(ask)).json()['choices'][0]['text']
    out.texts['salience'] = turns(sal_rpc.SalienceStub(grpc.insecure_channel(world.workers[0].address)))
    graphpipe_test.generated()  # before several threads want it
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
    for (kind, why), count in sorted(out.errors.items(), key=lambda item: -item[1])[:10]:
        print(f'{kind}, {count} times: {why}')
    print(f'wrong answers: {len(out.wrong)}, requests without an outcome: {len(out.missing)}')
    for one in (out.wrong + out.missing)[:10]:
        print(one)
    return out


def held(out):
    """Nothing is wrong or missing, and most requests of each kind are answered."""
    most = all(out.of(kind, good) * 10 > out.of(kind) * 8 for kind, good in (
        ('rest', 200), ('grpc', 'OK'), ('text', 200), ('grps', 200), ('graphpipe', 200), ('evergreen', 'OK')))
    # Sessions are long: a worker that is lost in the middle of a turn costs that turn.
    most = most and all(out.of(kind, 'OK') * 2 > out.of(kind) for kind in ('salience', 'moving', 'kept'))
    return not out.wrong and not out.missing and most


if __name__ == '__main__':
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = random.randrange(1 << 30)
    print(f'seed {seed}')
    sys.exit(0 if held(run(seconds, seed)) else 1)
