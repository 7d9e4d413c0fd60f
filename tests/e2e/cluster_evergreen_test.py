"""Evergreen's sessions in a cluster, with a real nats-server: a client that comes back with its session's id finds the
session at whichever node it comes to, over every carrier; it outlives its connection, and its node."""

import concurrent.futures
import json
import socket
import struct
import subprocess
import time

import grpc

import cluster_nodes
import harness
from cluster_nodes import folder, metric, until
from cluster_sessions_test import Case
from evergreen_client import (CARRIERS, CurlSession, GrpcSession, Http2WebSocketSession, SessionError, WebSocketSession, action, cfg,
                              ev, leaf, read_until)
from forward_text_test import MODEL

COMES_BACK = [GrpcSession, CurlSession, WebSocketSession, Http2WebSocketSession]


def leave(session):
    """The client is gone, without a word."""
    if isinstance(session, GrpcSession):
        session.call.cancel()
    elif isinstance(session, CurlSession):
        session.curl.kill()
    else:
        session.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        session.socket.close()


class Sessions(Case):
    """The sessions of a test, and what is said in them."""

    def begin(self, server, carrier=GrpcSession, **more):
        session = carrier(server, **more)
        self.addCleanup(session.close)
        said = session.messages()
        session.messages = lambda: said
        return session

    def keep(self, server, carrier=GrpcSession, **more):
        session = self.begin(server, carrier, **more)
        session.send(action('KEEP', {}, {'session': 'sid'}))
        id = read_until(session, 'sid').flat('sid').decode()
        self.assertRegex(id, '^[0-9a-f]{32}$')
        return session, id

    def keep_again(self, session, output):
        """Waits until all that has been sent is kept; the id again."""
        session.send(action('KEEP', {}, {'session': output}))
        return read_until(session, output).flat(output).decode()

    def resume(self, server, id, carrier=GrpcSession, **more):
        """The session, and the ids of its nodes."""
        session = self.begin(server, carrier, **more)
        session.send(action('RESUME', {}, {'nodes': 'there'}, config=cfg.ResumeConfig(session=id)))
        return session, set(json.loads(read_until(session, 'there').flat('there')))

    def refused(self, session, code):
        with self.assertRaises(SessionError) as caught:
            list(session.messages())
        self.assertEqual(code, caught.exception.code, caught.exception.message)
        return caught.exception.message

    def refused_at(self, server, id, code='NOT_FOUND', **more):
        session = self.begin(server, **more)
        session.send(action('RESUME', {}, {}, config=cfg.ResumeConfig(session=id)))
        return self.refused(session, code)

    def echo(self, session, of, to):
        session.send(action('ECHO', {'x': of}, {'x': to, 'status': f'{to}-status'}))
        return read_until(session, to, f'{to}-status').flat(to)

    def generate(self, session, prompt, response):
        config = cfg.GenerateConfig(max_tokens=6, temperature=0, raw=True)
        session.send(action('GENERATE', {'prompt': prompt}, {'response': response, 'usage': f'{response}-usage'}, MODEL, config))
        return read_until(session, response, f'{response}-usage').flat(response)


class Anywhere(Sessions):
    def test_a_session_is_resumed_at_every_node_by_every_carrier(self):
        servers = self.three()
        for n, carrier in enumerate(COMES_BACK):
            with self.subTest(carrier.__name__):
                first, id = self.keep(servers[n % 3], carrier)
                first.send(leaf('question', 'why is that?'))
                self.assertEqual(b'why is that?', self.echo(first, 'question', 'asked'))
                leave(first)
                nodes = {'question', 'asked', 'asked-status'}
                for hop, other in enumerate(COMES_BACK):
                    again, there = self.resume(servers[(n + hop + 1) % 3], id, other)
                    self.assertEqual(nodes, there)
                    self.assertEqual(b'why is that?', self.echo(again, 'asked', f'hop{hop}'))
                    nodes |= {f'hop{hop}', f'hop{hop}-status'}
                    leave(again)
        self.assertEqual(0, sum(metric(server, 'weir_cluster_lost_turns_total') for server in servers))

    def test_an_answer_of_a_model_is_part_of_the_next_question_at_another_node(self):
        one, two, three = self.three()

        def asked(session, n):
            if n == 0:
                session.send(leaf('q0', 'Tell me'))
                return self.generate(session, 'q0', 'a0')
            session.send(leaf('q1', ' and then?'))
            m = ev.SessionMessage()
            m.node_fragments.add(id='p1', child_ids=['q0', 'a0', 'q1'])
            session.send(m)
            return self.generate(session, 'p1', 'a1')

        undisturbed = self.begin(three)
        said = [asked(undisturbed, 0), asked(undisturbed, 1)]
        session, id = self.keep(one)
        self.assertEqual(said[0], asked(session, 0))
        leave(session)
        again, there = self.resume(two, id)
        self.assertEqual({'q0', 'a0', 'a0-usage'}, there)
        self.assertEqual(said[1], asked(again, 1))

    def test_who_comes_takes_it_from_a_connection_that_is_still_there(self):
        one, two, three = self.three()
        first, id = self.keep(one)
        first.send(leaf('a', 'abc'))
        self.echo(first, 'a', 'e')
        second, there = self.resume(two, id)
        self.assertLessEqual({'a', 'e'}, there)
        self.assertIn('at another connection', self.refused(first, 'ABORTED'))
        third, _ = self.resume(two, id)  # and at the same node
        self.assertIn('at another connection', self.refused(second, 'ABORTED'))
        self.assertEqual(b'abc', self.echo(third, 'a', 'f'))
        # Many come at once: one has it at the end, and nobody sees half a session.
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            def come(i):
                session = self.begin((one, two, three)[i % 3])
                session.send(action('RESUME', {}, {'nodes': 'there'}, config=cfg.ResumeConfig(session=id)))
                try:
                    there = set(json.loads(read_until(session, 'there').flat('there')))
                    return there >= {'a', 'e', 'f'}
                except SessionError as error:
                    return error.code in ('ABORTED', 'UNAVAILABLE')
            self.assertEqual([True] * 6, list(pool.map(come, range(6))))
        last, there = self.resume(one, id)
        self.assertLessEqual({'a', 'e', 'f'}, there)

    def test_an_ended_session_is_over_everywhere(self):
        one, two, three = self.three()
        for carrier in CARRIERS:
            with self.subTest(carrier.__name__):
                session, id = self.keep(one, carrier)
                session.send(leaf('a', 'abc'))
                self.echo(session, 'a', 'e')
                session.end()
                self.assertEqual([], [f for m in session.messages() for f in m.node_fragments])
                for server in (one, two, three):
                    self.assertIn('there is no such session', self.refused_at(server, id))
        until(lambda: sum(metric(s, 'weir_cluster_sessions') for s in (one, two, three)) == 0, 'that nobody has one')

    def test_a_session_that_has_grown_too_long_is_kept_as_it_was(self):
        one, two, _ = self.three()
        session, id = self.keep(one)
        session.send(leaf('a', 'abc'))
        self.assertEqual(id, self.keep_again(session, 'sure'))
        for n in range(5):
            session.send(leaf(f'n{n}', b'x' * (1 << 20)))
        self.assertEqual(1 << 20, len(self.echo(session, 'n4', 'e')), 'it goes on where it is')
        session.send(action('KEEP', {}, {'status': 'why'}))
        self.assertIn(b'at most 4194304 bytes are kept', read_until(session, 'why').flat('why'))
        leave(session)
        until(lambda: metric(one, 'weir_cluster_sessions') == 0, 'that it is let go')
        again, there = self.resume(two, id)
        self.assertIn('a', there)
        self.assertNotIn('n4', there)

    def test_long_ones_move_whole(self):
        one, two, three = self.three()
        session, id = self.keep(one)
        for n in range(3):
            session.send(leaf(f'n{n}', bytes([n]) * (1 << 20)))
        self.keep_again(session, 'sure')
        for n, server in enumerate((two, three, one)):
            session, there = self.resume(server, id)
            self.assertLessEqual({'n0', 'n1', 'n2'}, there)
            self.assertEqual(bytes([n]) * (1 << 20), self.echo(session, f'n{n}', f'e{n}')[:1 << 20])
            session.send(action('DROP', {'node': f'e{n}'}, {}))


class Faults(Sessions):
    def test_a_session_whose_node_is_killed_goes_on_at_another_behind_its_last_action(self):
        one, two, three = self.three()
        held = []
        for carrier in COMES_BACK:
            session, id = self.keep(one, carrier)
            session.send(leaf('a', carrier.__name__))
            self.echo(session, 'a', 'e')
            held.append((session, id, carrier))
        held[0][0].send(action('ECHO', {'x': 'never'}, {'x': 'open', 'status': 'open-status'}))
        # KEEP has answered: nothing before it is lost, without a wait.
        for session, id, carrier in held:
            session.send(leaf('b', 'sent last'))
            self.assertEqual(id, self.keep_again(session, 'sure'))
        self.kill(one)
        for n, (_, id, carrier) in enumerate(held):
            again, there = self.resume((two, three)[n % 2], id, carrier)
            self.assertEqual({'a', 'b', 'e', 'e-status'}, there - {'sure'})
            self.assertEqual(carrier.__name__.encode(), self.echo(again, 'a', 'open'), 'the id of what was open is new again')
            last, there = self.resume((three, two)[n % 2], id, carrier)
            self.assertLessEqual({'a', 'e', 'open'}, there)
            last.end()
        until(lambda: metric(two, 'weir_cluster_taken_sessions_total') >= 2, 'that it counts what it has taken')

    def test_a_node_that_drains_hands_its_sessions_on_with_all_that_was_sent(self):
        one, two, _ = self.three()
        session, id = self.keep(one)
        idle, idle_id = self.keep(one, WebSocketSession)
        session.send(leaf('a', 'abc'))
        self.echo(session, 'a', 'e')
        last = b'sent last' * 200_000  # behind a save that is under way
        session.send(leaf('b', last))
        idle.send(leaf('c', 'of the other'))
        self.echo(idle, 'c', 'd')
        until(lambda: metric(one, 'weir_cluster_sessions') == 2, 'that both are kept')
        self.assertEqual(0, one.stop())
        self.assertIn('shutting down', self.refused(session, 'UNAVAILABLE'))
        began = time.monotonic()
        again, there = self.resume(two, idle_id)
        self.assertLess(time.monotonic() - began, 4, 'nobody waits for silence')
        self.assertLessEqual({'c', 'd'}, there)
        again, there = self.resume(two, id)
        self.assertLessEqual({'a', 'b', 'e'}, there)
        self.assertEqual(last, self.echo(again, 'b', 'f'))

    def test_without_nats_a_node_says_so(self):
        one, two, _ = self.three()
        session, id = self.keep(one)
        session.send(leaf('a', 'abc'))
        self.echo(session, 'a', 'e')
        self.nats.kill()
        until(lambda: metric(one, 'weir_cluster_connected') == metric(two, 'weir_cluster_connected') == 0, 'that it is missed')
        session.send(leaf('b', 'def'))
        self.assertEqual(b'def', self.echo(session, 'b', 'f'), 'it goes on, by the promises of the others')
        session.send(action('KEEP', {}, {'status': 'kept?'}))
        self.assertIn(b'"code":14', read_until(session, 'kept?').flat('kept?'))
        self.assertIn('NATS is away', self.refused_at(two, id, 'UNAVAILABLE'))
        until(lambda: metric(one, 'weir_cluster_unkept_sessions') == 1, 'that it is counted')
        self.nats.start()
        until(lambda: metric(one, 'weir_cluster_connected') == metric(two, 'weir_cluster_connected') == 1, 'that it is back')
        until(lambda: metric(one, 'weir_cluster_unkept_sessions') == 0, 'that all is kept')
        again, there = self.resume(two, id)
        self.assertLessEqual({'a', 'b', 'e', 'f'}, there)

    def test_a_record_that_is_corrupt_is_refused_by_name(self):
        one, two, _ = self.three()
        session, id = self.keep(one)
        self.kill(one)
        for state in ('rubbish', 'weir-held 1\nwhose host%20127.0.0.1\nrubbish'):
            self.nats.put(f'session.held-{id}', f'weir-session 1\nowner one 1\nturn 3\n\n{state}', bucket='weir-sessions')
            message = self.refused_at(two, id, 'DATA_LOSS')
            self.assertIn('what was kept of the session cannot be read', message)


class Keys(Sessions):
    def setUp(self):
        super().setUp()
        self.secret, keys = folder() / 'secret', folder() / 'keys.yaml'
        self.secret.write_text('a secret that all nodes share\n')
        self.key = {}
        for name in ('ann', 'bob'):
            made = subprocess.run([str(harness.WEIR), 'key', 'new', name, '--roles', 'infer', '--keys-file', str(keys)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(0, made.returncode, made.stderr)
            self.key[name] = [word for word in (made.stdout + made.stderr).decode().split() if len(word) > 20][0]
        self.flags = ('--cluster-secret', self.secret, '--auth-keys-file', keys, '--auth-anonymous', 'health', '--auth-anonymous', 'metrics')

    def of(self, name):
        return {'carrier': lambda server: WebSocketSession(server, headers=f'Authorization: Bearer {self.key[name]}\r\n')}

    def test_a_session_is_its_tenants_at_every_node(self):
        one, two, three = self.three()
        session, id = self.keep(one, **self.of('ann'))
        session.send(leaf('a', 'abc'))
        self.echo(session, 'a', 'e')
        # Attached, left, and after its node has died: for others it does not exist, and stays where it is.
        for server in (one, two, three):
            self.assertIn('there is no such session', self.refused_at(server, id, **self.of('bob')))
        self.assertEqual(b'abc', self.echo(session, 'a', 'f'))
        leave(session)
        until(lambda: metric(one, 'weir_cluster_sessions') == 0, 'that it is let go')
        for server in (one, two, three):
            self.assertIn('there is no such session', self.refused_at(server, id, **self.of('bob')))
        again, _ = self.resume(two, id, **self.of('ann'))
        self.assertEqual(b'abc', self.echo(again, 'a', 'g'))
        self.kill(two)
        self.assertIn('there is no such session', self.refused_at(three, id, **self.of('bob')))
        last, there = self.resume(three, id, **self.of('ann'))
        self.assertLessEqual({'a', 'e', 'f'}, there)
        # A record that was written without the secret is refused.
        forged = id[:12] + '0' * 20
        self.nats.put(f'session.held-{forged}', 'weir-session 1\nowner gone 1\nturn 3\n\nweir-held 1\nwhose key%20ann\nx', bucket='weir-sessions')
        self.assertIn('cluster.secret', self.refused_at(three, forged, 'DATA_LOSS', **self.of('ann')))

    def test_who_is_no_node_cannot_make_a_node_let_go(self):
        one, _, _ = self.three()
        session, id = self.keep(one, **self.of('ann'))
        with grpc.insecure_channel(one.address) as channel:
            ask = channel.unary_unary('/weir.cluster.v1.Peer/Ask')
            for key in ('', 'a' * 64):
                with self.assertRaises(grpc.RpcError) as caught:
                    ask(f'leave held-{id} 0\nkey ann'.encode(), timeout=harness.PATIENCE,
                        metadata=(('weir-node-key', key), ('authorization', f'Bearer {self.key["bob"]}')))
                self.assertEqual(grpc.StatusCode.PERMISSION_DENIED, caught.exception.code())
        session.send(leaf('a', 'abc'))
        self.assertEqual(b'abc', self.echo(session, 'a', 'e'))


del Case  # of the other script

if __name__ == '__main__':
    if not cluster_nodes.Nats.program or subprocess.run([cluster_nodes.Nats.program, '-v'], stdout=subprocess.DEVNULL).returncode:
        raise SystemExit('nats-server is not installed')
    harness.main(at_once=3)
