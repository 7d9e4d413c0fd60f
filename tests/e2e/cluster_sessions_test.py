"""Sessions in a cluster, with a real nats-server: any node takes any call, a session outlives its node, and says the same
as one that nobody has disturbed."""

import concurrent.futures
import contextlib
import pathlib
import re
import signal
import subprocess
import time
import unittest

import grpc

import cluster_nodes
import harness
from cluster_nodes import Nats, Wire, folder, metric, node, nodes, until
from forward_text_test import MODEL, model_folder
from harness import curl

pb, rpc = harness.stubs()('salience')
status_pb, _ = harness.stubs()('status')
PROMPT = [(7 * i) % 250 for i in range(60)]
MORE = [(11 * i) % 250 for i in range(20)]
KEPT_FOR = harness.PATIENCE


def reason(error):
    """Of the google.rpc.ErrorInfo."""
    details = dict(error.trailing_metadata()).get('grpc-status-details-bin')
    if not details:
        return ''
    it = status_pb.ErrorInfo()
    status_pb.Status.FromString(details).details[0].Unpack(it)
    return it.reason


def stopped(server):
    """Whether SIGSTOP has come to all threads of the server: each goes on until then."""
    tasks = pathlib.Path(f'/proc/{server.process.pid}/task').iterdir()
    return all((task / 'stat').read_text().rpartition(')')[2].split()[0] == 'T' for task in tasks)


class Case(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.models = model_folder()

    def setUp(self):
        self.nats = Nats()
        self.addCleanup(self.nats.kill)
        self.channels, self.killed = {}, []
        self.addCleanup(lambda: [channel.close() for channel in self.channels.values()])

    def node(self, name, root=None, *flags, nats=None):
        server = node(nats or self.nats, root or self.models, *self.flags, *flags, name=name)
        self.addCleanup(lambda: self.assertIn(server.stop(), (0, -signal.SIGKILL if server in self.killed else 0),
                                              server.output()[-3000:]))
        return server

    def kill(self, server):
        self.killed.append(server)
        server.process.kill()
        server.process.wait()

    def three(self):
        servers = [self.node(name) for name in ('one', 'two', 'three')]
        for server in servers:
            until(lambda: nodes(server) == 3 and metric(server, 'weir_cluster_connected') == 1, 'three nodes')
        self.named(servers)
        return servers

    def named(self, servers):
        """Each has told the bucket whom it knows: those need not wait long for it when it is gone."""
        until(lambda: all(metric(server, 'weir_cluster_named_nodes') == len(servers) - 1 for server in servers), 'that all are named')

    def stub(self, server):
        if server.port not in self.channels:
            self.channels[server.port] = grpc.insecure_channel(server.address)
        return rpc.SalienceStub(self.channels[server.port])

    def open(self, server, **more):
        return self.stub(server).OpenSession(pb.OpenSessionRequest(model=MODEL), **more).session_id

    def opens(self, server):
        try:
            return self.open(server)
        except grpc.RpcError:
            return None

    def turn(self, server, session, append, offset, max_tokens=12, timeout=KEPT_FOR, **more):
        request = pb.GenerateRequest(session_id=session, append_tokens=append, offset=offset, max_tokens=max_tokens, top_k=1)
        *tokens, last = self.stub(server).Generate(request, timeout=timeout, **more)
        made = [t.token.id for t in tokens if not t.token.is_prefill]
        self.assertEqual(offset + len(append) + len(made), last.done.total_tokens)
        return made, last.done.total_tokens

    def turn_sent_again(self, *turn, **more):
        """A turn whose node is lost while it has it, which the client sends again as the error says."""
        try:
            return self.turn(*turn, **more)
        except grpc.RpcError as e:
            self.assertEqual(grpc.StatusCode.UNAVAILABLE, e.code(), e.details())
            self.assertIn('send this again', e.details())
            return self.turn(*turn, **more)

    def dump(self, server, session, **more):
        return list(self.stub(server).DumpSession(pb.DumpSessionRequest(session_id=session), timeout=KEPT_FOR, **more).tokens)

    def refused(self, call, code):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(code, caught.exception.code(), caught.exception.details())
        return caught.exception

    def undisturbed(self, server, turns=3):
        """What the turns of a session say that stays where it is: one list for each."""
        session, length, said = self.open(server), 0, []
        for n in range(turns):
            made, length = self.turn(server, session, MORE if n else PROMPT, length)
            said.append(made)
        return said


class AnyNode(Case):
    def test_a_session_is_used_by_way_of_every_node(self):
        one, two, three = self.three()
        said = self.undisturbed(one)
        session = self.open(one)
        first, length = self.turn(two, session, PROMPT, 0)
        second, length = self.turn(three, session, MORE, length)
        third, length = self.turn(one, session, MORE, length)
        self.assertEqual(said, [first, second, third])
        whole = PROMPT + first + MORE + second + MORE + third
        for server in (one, two, three):
            self.assertEqual(whole, self.dump(server, session))
        fork = self.stub(two).ForkSession(pb.ForkSessionRequest(session_id=session, at_position=len(PROMPT))).session_id
        self.assertEqual(PROMPT, self.dump(three, fork))
        self.assertEqual(1, metric(one, 'weir_sessions') - 2, 'the fork lives beside its parent')
        # The errors are those of the owner, details included.
        for server in (one, two):
            error = self.refused(lambda: self.turn(server, session, MORE, 3), grpc.StatusCode.FAILED_PRECONDITION)
            self.assertEqual('OFFSET_MISMATCH', reason(error))
            self.assertIn(f'the session has {len(whole)} tokens', error.details())
            self.refused(lambda: self.turn(server, session, [70000], len(whole)), grpc.StatusCode.INVALID_ARGUMENT)
        self.stub(three).CloseSession(pb.CloseSessionRequest(session_id=session))
        for server in (one, two, three):
            error = self.refused(lambda: self.dump(server, session), grpc.StatusCode.NOT_FOUND)
            self.assertEqual('there is no such session', error.details())
        self.stub(two).CloseSession(pb.CloseSessionRequest(session_id=session))  # it is no error that it is gone

    def test_a_gateway_opens_sessions_where_the_model_is(self):
        one = self.node('one')
        gateway = self.node('gateway', folder())
        until(lambda: nodes(gateway) == 2 and curl(one.url('/readyz')).status == 200, 'two nodes')
        until(lambda: self.opens(gateway), 'that the model is known')
        session = self.open(gateway)
        made, length = self.turn(gateway, session, PROMPT, 0)
        self.assertEqual(self.undisturbed(one, 1)[0], made)
        self.assertEqual(PROMPT + made, self.dump(one, session))
        error = self.refused(lambda: self.stub(gateway).OpenSession(pb.OpenSessionRequest(model='none')),
                             grpc.StatusCode.NOT_FOUND)
        self.assertIn('none', error.details())

    def test_a_gateway_opens_no_session_at_a_node_that_has_died(self):
        workers = [self.node('one'), self.node('two')]
        gateway = self.node('gateway', folder())
        until(lambda: nodes(gateway) == 3 and all(curl(w.url('/readyz')).status == 200 for w in workers), 'three nodes')
        until(lambda: self.opens(gateway), 'that the model is known')
        last = [metric(w, 'weir_sessions') for w in workers]
        self.open(gateway)
        chosen = next(w for w, before in zip(workers, last) if metric(w, 'weir_sessions') > before)
        self.kill(chosen)
        self.assertEqual(3, nodes(gateway), 'it is still known')
        for _ in range(5):  # it has the least to do, now as before
            self.open(gateway)

    def test_a_client_that_leaves_in_the_middle_of_a_relayed_turn(self):
        one, two, _ = self.three()

        def stopped():
            found = re.search(r'^weir_model_sequences_total{model="m",.*reason="abort"} (\S+)$', curl(one.url('/metrics')).body.decode(), re.M)
            return float(found[1]) if found else 0

        tries = 0
        while stopped() == 0:  # a turn may be over before its client has left
            tries += 1
            self.assertLess(tries, 50, 'the work at the owner goes on without its client')
            session = self.open(one)
            first, length = self.turn(two, session, PROMPT, 0, max_tokens=4)
            with contextlib.ExitStack() as leaving:
                stub = self.stub(two)
                if tries % 2:  # the connection goes, and not the call alone
                    stub = rpc.SalienceStub(leaving.enter_context(grpc.insecure_channel(two.address)))
                stream = stub.Generate(pb.GenerateRequest(session_id=session, append_tokens=MORE, offset=length, max_tokens=150, top_k=1))
                next(stream)
                if tries % 2 == 0:
                    stream.cancel()
            until(lambda: 'weir_model_sequences{model="m",version="1",state="running"} 0' in curl(one.url('/metrics')).body.decode(),
                  'that the owner has no work')
        has = until(lambda: self.tokens_at_rest(two, session), 'that the session is at rest')
        self.assertEqual(PROMPT + first, has[:length])
        self.assertLess(len(has), length + len(MORE) + 150)
        made, total = self.turn(two, session, MORE, len(has))
        self.assertEqual(has + MORE + made, self.dump(one, session))
        fresh = self.open(one)
        self.assertEqual(self.turn(one, fresh, has + MORE, 0)[0], made, 'as if nobody had left')

    def tokens_at_rest(self, server, session):
        try:
            return self.dump(server, session)
        except grpc.RpcError as error:
            self.assertEqual(grpc.StatusCode.UNAVAILABLE, error.code(), error.details())
            return None

    def test_forged_ids_cost_one_refusal(self):
        one, two, _ = self.three()
        session = self.open(one)
        forged = [session[:12] + 'f' * 20, 'f' * 32, '0' * 31 + '1', session[:4] + '00000000' + session[12:]]
        for server in (one, two):
            for bad in forged:
                self.refused(lambda: self.dump(server, bad), grpc.StatusCode.NOT_FOUND)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            stub = self.stub(two)

            def ask(i):
                try:
                    stub.DumpSession(pb.DumpSessionRequest(session_id=session[:12] + f'{i:020x}'), timeout=KEPT_FOR)
                except grpc.RpcError as error:
                    return error.code()

            codes = set(pool.map(ask, range(500)))
        self.assertLessEqual(codes, {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED})
        self.assertEqual([], self.dump(two, session))
        self.assertEqual(3, nodes(two))


class Faults(Case):
    def test_a_session_whose_node_is_killed_goes_on_at_another(self):
        one, two, three = self.three()
        said = self.undisturbed(two)
        killed = one
        session = self.open(killed)
        first, length = self.turn(two, session, PROMPT, 0)
        self.kill(killed)
        second, length = self.turn(two, session, MORE, length)
        third, length = self.turn(three, session, MORE, length)
        self.assertEqual(said, [first, second, third])
        self.assertEqual(PROMPT + first + MORE + second + MORE + third, self.dump(three, session))
        self.assertEqual(1, until(lambda: metric(two, 'weir_cluster_taken_sessions_total'), 'that it is counted'))
        self.stub(three).CloseSession(pb.CloseSessionRequest(session_id=session))
        for server in (two, three):
            self.refused(lambda: self.dump(server, session), grpc.StatusCode.NOT_FOUND)

    def test_many_sessions_of_a_node_that_is_killed(self):
        one, two, three = self.three()
        said = self.undisturbed(two, 2)
        sessions = [self.open(one) for _ in range(12)]
        lengths = [self.turn(one, session, PROMPT, 0)[1] for session in sessions]
        self.kill(one)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            stubs = [self.stub(two), self.stub(three)]
            self.assertEqual(2, len(stubs))
            heard = list(pool.map(lambda i: self.turn((two, three)[i % 2], sessions[i], MORE, lengths[i])[0], range(12)))
        self.assertEqual([said[1]] * 12, heard)

    def test_a_node_that_drains_hands_its_sessions_on(self):
        one, two, _ = self.three()
        said = self.undisturbed(two)
        session = self.open(one)
        first, length = self.turn(one, session, PROMPT, 0)
        self.assertEqual(0, one.stop())
        began = time.monotonic()
        second, length = self.turn(two, session, MORE, length)
        self.assertLess(time.monotonic() - began, 4, 'nobody waits for silence')
        self.assertEqual(said[:2], [first, second])

    def test_a_node_that_was_stopped_and_taken_for_dead_does_not_answer_for_what_it_had(self):
        one, two, _ = self.three()
        said = self.undisturbed(two, 4)
        session = self.open(one)
        first, length = self.turn(one, session, PROMPT, 0)
        one.process.send_signal(signal.SIGSTOP)
        until(lambda: stopped(one), 'that all of its threads stand still')  # else it may do the turn first, and lose only the answer
        try:
            second, length = self.turn_sent_again(two, session, MORE, length, timeout=2 * KEPT_FOR)
        finally:
            one.process.send_signal(signal.SIGCONT)
        third, length = self.turn(one, session, MORE, length)
        self.assertEqual(said[:3], [first, second, third])
        fourth, length = self.turn(two, session, MORE, length)
        self.assertEqual(said[3], fourth)

    def test_one_that_comes_back_under_its_name_finds_what_it_had(self):
        first_one = node(self.nats, self.models, name='one')
        two = self.node('two')
        until(lambda: nodes(two) == 2 and metric(first_one, 'weir_cluster_connected') == 1, 'two nodes')
        said = self.undisturbed(two, 2)
        session = self.open(first_one)
        first, length = self.turn(first_one, session, PROMPT, 0)
        self.kill(first_one)
        again = self.node('one')
        self.assertEqual(said, [first, self.turn(again, session, MORE, length)[0]])

    def test_without_nats_a_node_goes_on_with_its_own(self):
        one, two, three = self.three()
        said = self.undisturbed(two, 3)
        session, killed = self.open(one), self.open(three)
        first, length = self.turn(one, session, PROMPT, 0)
        self.nats.kill()
        until(lambda: metric(one, 'weir_cluster_connected') == metric(two, 'weir_cluster_connected') == 0, 'that it is missed')
        second, length = self.turn(one, session, MORE, length)
        self.assertEqual(second, self.dump(two, session)[-len(second):])  # its node is known
        new = self.open(one)
        self.turn(one, new, PROMPT, 0)
        self.kill(three)
        error = self.refused(lambda: self.dump(two, killed), grpc.StatusCode.UNAVAILABLE)
        self.assertIn('NATS is away', error.details())
        error = self.refused(lambda: self.dump(two, 'f' * 32), grpc.StatusCode.UNAVAILABLE)
        self.assertIn('NATS is away', error.details())
        self.assertEqual(2, until(lambda: metric(one, 'weir_cluster_unkept_sessions'), 'that it is counted'))
        self.nats.start()
        until(lambda: metric(one, 'weir_cluster_connected') == metric(two, 'weir_cluster_connected') == 1, 'that it is back')
        until(lambda: metric(one, 'weir_cluster_unkept_sessions') == 0, 'that all is kept')
        self.named([one, two])
        self.kill(one)
        third, length = self.turn(two, session, MORE, length)
        self.assertEqual(said, [first, second, third])
        self.assertEqual(PROMPT, self.dump(two, new)[:len(PROMPT)])


class Turns(Case):
    def test_a_long_session_is_kept_in_parts(self):
        self.models = folder()
        (self.models / MODEL).mkdir()
        (self.models / MODEL / 'model.yaml').write_text(
            'engine: echo\nparameters: {kv_cache: 64MiB, max_length: 300000, step_tokens: 65536}\n')
        one, two, three = self.three()
        session, long = self.open(one), [(7 * i) % 250 for i in range(200_000)]
        first, length = self.turn(one, session, long, 0, max_tokens=1)
        second, length = self.turn(two, session, MORE, length, max_tokens=2)
        self.kill(one)
        self.assertEqual(long + first + MORE + second, self.dump(two, session))
        self.assertEqual(1, until(lambda: metric(two, 'weir_cluster_taken_sessions_total'), 'that it is counted'))
        self.turn(three, session, MORE, length, max_tokens=1)

    def slow(self):
        """A model that takes 100 ms for a token, and says the last prompt back."""
        self.models = folder()
        (self.models / MODEL).mkdir()
        (self.models / MODEL / 'model.yaml').write_text('engine: echo\nparameters: {kv_cache: 1MiB, step_us: 100000}\n')

    def cut_short(self, owner, asked):
        """A turn by way of a node, whose owner dies when three tokens have come."""
        session = self.open(owner)
        made, length = self.turn(asked, session, PROMPT[:7], 0, max_tokens=3)
        request = pb.GenerateRequest(session_id=session, append_tokens=[65, 66, 67], offset=length, max_tokens=40, top_k=1)
        events = self.stub(asked).Generate(request, timeout=2 * KEPT_FOR)
        heard = [next(events) for _ in range(3)]
        self.kill(owner)
        return request, events, heard

    def test_a_turn_whose_node_dies_in_the_middle_goes_on_at_another(self):
        self.slow()
        one, two, three = self.three()
        request, events, heard = self.cut_short(one, two)
        *tokens, last = heard + list(events)
        begin = request.offset + 3
        self.assertEqual(list(range(begin, begin + 40)), [t.token.position for t in tokens])
        self.assertEqual((begin, 40, begin + 40), (last.done.prompt_tokens, last.done.completion_tokens, last.done.total_tokens))
        self.assertEqual('1', dict(events.trailing_metadata())['weir-moved'])
        self.assertEqual([t.token.id for t in tokens], self.dump(three, request.session_id)[begin:])

    def test_a_turn_that_the_node_cannot_go_on_with_ends_with_an_error_and_may_be_sent_again(self):
        self.slow()
        one, three = self.node('one'), self.node('three')
        gateway = self.node('two', folder())
        for server in (one, three, gateway):
            until(lambda: nodes(server) == 3, 'three nodes')
        self.named([one, three, gateway])
        until(lambda: self.opens(gateway), 'that the model is known')
        request, events, _ = self.cut_short(one, gateway)
        error = self.refused(lambda: list(events), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual('NODE_LOST', reason(error))
        self.assertIn('send this again', error.details())
        *tokens, last = self.stub(gateway).Generate(request, timeout=2 * KEPT_FOR)
        self.assertEqual(40, len(tokens))

    def test_a_record_that_is_corrupt_is_refused_by_name(self):
        one, two, _ = self.three()
        session = self.open(one)
        self.turn(one, session, PROMPT, 0)
        self.kill(one)
        self.nats.put(f'session.{session}', 'weir-session 1\nowner one 1\nturn 3\n\nrubbish', bucket='weir-sessions')
        error = self.refused(lambda: self.dump(two, session), grpc.StatusCode.DATA_LOSS)
        self.assertIn('what was kept of the session cannot be read', error.details())
        self.nats.put(f'session.{session}', bytes(range(1, 10)), bucket='weir-sessions')
        error = self.refused(lambda: self.dump(two, session), grpc.StatusCode.DATA_LOSS)
        self.assertIn("record in the cluster's bucket cannot be read", error.details())
        self.assertTrue(two.logged('a session is refused', session))


class CutOff(Case):
    """One node, or all, without NATS: a session never has two nodes that answer."""

    def setUp(self):
        super().setUp()
        secret = folder() / 'secret'
        secret.write_text('a secret that all nodes share\n')
        self.secret = ('--cluster-secret', secret)

    def three_with_a_wire(self, *flags):
        """The first one reaches NATS by a wire that can be cut."""
        self.wire = Wire(self.nats.port)
        self.addCleanup(self.wire.close)
        servers = [self.node('one', None, *flags, nats=self.wire)] + [self.node(name, None, *flags) for name in ('two', 'three')]
        for server in servers:
            until(lambda: nodes(server) == 3 and metric(server, 'weir_cluster_connected') == 1, 'three nodes')
        self.named(servers)
        return servers

    def test_a_node_that_nats_does_not_reach_goes_on_by_way_of_another(self):
        one, two, three = self.three_with_a_wire(*self.secret)
        said = self.undisturbed(two)
        session = self.open(one)
        first, length = self.turn(one, session, PROMPT, 0)
        self.wire.cut()
        until(lambda: metric(one, 'weir_cluster_connected') == 0, 'that it is missed')
        until(lambda: metric(one, 'weir_cluster_relayed') == 1, 'that another one writes for it')
        self.assertIn('another node writes for this one', curl(one.url('/readyz?verbose')).body.decode() + self.detail(one))
        second, length = self.turn(three, session, MORE, length)
        time_to_be_taken = time.monotonic() + 7
        until(lambda: time.monotonic() > time_to_be_taken, 'that a lease would be over')
        self.assertEqual(1, metric(one, 'weir_cluster_leased'))
        third, length = self.turn(one, session, MORE, length)
        self.assertEqual(said, [first, second, third])
        self.assertEqual(0, sum(metric(server, 'weir_cluster_taken_sessions_total') for server in (one, two, three)))
        self.assertEqual(0, metric(one, 'weir_cluster_unkept_sessions'))
        # Its acknowledged turns are there when it is gone.
        self.kill(one)
        self.assertEqual(PROMPT + first + MORE + second + MORE + third, self.dump(two, session))

    def detail(self, server):
        return curl(server.url('/readyz'), '-H', 'accept: application/json').body.decode()

    def test_a_node_that_is_cut_off_refuses_before_another_one_answers(self):
        one, two, three = self.three_with_a_wire()  # without a secret nobody writes for it
        said = self.undisturbed(two)
        session = self.open(one)
        first, length = self.turn(one, session, PROMPT, 0)
        self.wire.cut()
        answered, turns = [], [first]

        def ask(server, name):
            try:
                tokens = self.dump(server, session)
            except grpc.RpcError as error:
                self.assertEqual(grpc.StatusCode.UNAVAILABLE, error.code(), error.details())
                return answered.append((name, time.monotonic(), None, error))
            answered.append((name, time.monotonic(), tokens, None))

        until(lambda: ask(one, 'one') or answered[-1][2] is None, 'that it refuses')
        error = answered[-1][3]
        self.assertIn('cut off from NATS', error.details())
        self.assertEqual('1000', dict(error.trailing_metadata())['grpc-retry-pushback-ms'])
        self.assertIn('kept sessions are refused', self.detail(one))
        # Other work goes on, and so does a session that only this node can know.
        new = self.open(one)
        self.turn(one, new, PROMPT, 0)
        # The other one takes it: no earlier than that.
        until(lambda: ask(two, 'two') or answered[-1][2] is not None, 'that another one has it')
        ask(one, 'one')
        self.assertIsNone(answered[-1][2])
        second, length = self.turn(two, session, MORE, length)
        self.wire.mend()
        until(lambda: metric(one, 'weir_cluster_connected') == 1, 'that it is back')
        third, length = self.turn(one, session, MORE, length)
        self.assertEqual(said, turns + [second, third])
        self.assertEqual(PROMPT, self.dump(three, new)[:len(PROMPT)])

    def test_without_nats_all_go_on_until_one_of_them_has_it_again(self):
        one, two, three = self.three_with_a_wire()
        session = self.open(one)
        first, length = self.turn(one, session, PROMPT, 0)
        self.nats.kill()
        for server in (one, two, three):
            until(lambda: metric(server, 'weir_cluster_connected') == 0, 'that it is missed')
        time_to_be_taken = time.monotonic() + 7
        while time.monotonic() < time_to_be_taken:
            self.assertEqual(PROMPT + first, self.dump(two, session))
        second, length = self.turn(two, session, MORE, length)
        self.assertEqual(1, metric(one, 'weir_cluster_leased'))
        self.assertIn('nobody else that is known reaches it', self.detail(one))
        # The others have it again: this one cannot know what they do.
        self.wire.cut()
        self.nats.start()
        until(lambda: metric(one, 'weir_cluster_leased') == 0, 'that it stops')
        self.assertEqual(0, metric(two, 'weir_cluster_taken_sessions_total') + metric(three, 'weir_cluster_taken_sessions_total'))
        self.refused(lambda: self.turn(one, session, MORE, length), grpc.StatusCode.UNAVAILABLE)
        self.wire.mend()
        until(lambda: metric(one, 'weir_cluster_leased') == 1 and metric(one, 'weir_cluster_unkept_sessions') == 0, 'that it is back')
        self.turn(three, session, MORE, length)


class Keys(Case):
    def setUp(self):
        super().setUp()
        self.secret, self.keys = folder() / 'secret', folder() / 'keys.yaml'
        self.secret.write_text('a secret that all nodes share\n')
        self.key = {}
        for name in ('ann', 'bob'):
            made = subprocess.run([str(harness.WEIR), 'key', 'new', name, '--roles', 'infer', '--keys-file', str(self.keys)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(0, made.returncode, made.stderr)
            found = [word for word in (made.stdout + made.stderr).decode().split() if len(word) > 20]
            self.key[name] = {'metadata': (('authorization', f'Bearer {found[0]}'),)}
        self.flags = ('--cluster-secret', self.secret, '--auth-keys-file', self.keys, '--auth-anonymous', 'health', '--auth-anonymous', 'metrics')

    def test_a_session_is_its_tenants_at_every_node(self):
        one, two, three = self.three()
        ann, bob = self.key['ann'], self.key['bob']
        session = self.open(one, **ann)
        first, length = self.turn(two, session, PROMPT, 0, **ann)
        for server in (one, two, three):
            self.assertEqual(PROMPT + first, self.dump(server, session, **ann))
            self.refused(lambda: self.dump(server, session, **bob), grpc.StatusCode.NOT_FOUND)
            self.refused(lambda: self.dump(server, session), grpc.StatusCode.UNAUTHENTICATED)
        # A client that claims to be a node without its key is nobody.
        for key in ('', 'a' * 64):
            lie = (('weir-caller-host', '127.0.0.1'), ('weir-caller', 'key%0Aann%0Aann'), ('weir-node-key', key))
            self.refused(lambda: self.dump(one, session, metadata=lie), grpc.StatusCode.UNAUTHENTICATED)
        self.kill(one)
        self.refused(lambda: self.dump(two, session, **bob), grpc.StatusCode.NOT_FOUND)
        self.assertEqual(PROMPT + first, self.dump(three, session, **ann))
        # A record that was written without the secret is refused.
        self.nats.put(f'session.{session}', 'weir-session 1\nowner gone 1\nturn 3\n\nx', bucket='weir-sessions')
        self.assertEqual(PROMPT + first, self.dump(two, session, **ann))
        other = self.open(two, **ann)
        self.nats.put(f'session.{other[:20]}{"0" * 12}', 'weir-session 1\nowner gone 1\nturn 3\n\nx', bucket='weir-sessions')
        error = self.refused(lambda: self.dump(two, other[:20] + '0' * 12, **ann), grpc.StatusCode.DATA_LOSS)
        self.assertIn('cluster.secret', error.details())


if __name__ == '__main__':
    if not cluster_nodes.Nats.program or subprocess.run([cluster_nodes.Nats.program, '-v'], stdout=subprocess.DEVNULL).returncode:
        raise SystemExit('nats-server is not installed')
    harness.main(at_once=3)
