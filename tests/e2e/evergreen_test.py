"""Evergreen end to end: the same sessions over gRPC, WebSocket (HTTP/1.1 and HTTP/2) and lines of JSON through curl."""

import json
import random
import struct
import time
import unittest

import harness

from evergreen_client import (CARRIERS, PATH, BinaryWebSocketSession, GrpcSession, Http2WebSocketSession, SessionError,
                              WebSocketSession, action, cfg, ev, leaf, masked, message, read_until)

import grpc  # noqa: E402
from hypothesis import HealthCheck, given, settings, strategies

health, health_grpc = harness.stubs()('health')


class Base(harness.Case):
    def each(self, carriers=CARRIERS):
        for carrier in carriers:
            with self.subTest(carrier.__name__):
                session = carrier(self.server)
                try:
                    yield session
                finally:
                    session.close()


class Sessions(Base):
    def test_an_echo_comes_while_the_node_is_still_being_sent(self):
        for s in self.each():
            s.send(action('ECHO', {'x': 'in'}, {'x': 'out'}))
            s.send(leaf('in', 'one ', continued=True))
            said = s.messages()
            first = next(said).node_fragments[0]
            self.assertEqual((first.id, first.chunk_fragment.data, first.continued), ('out', b'one ', True))
            self.assertEqual(first.chunk_fragment.metadata.mimetype, 'text/plain')
            s.send(leaf('in', 'two', seq=1))
            got = b''
            for m in said:
                for f in m.node_fragments:
                    got += f.chunk_fragment.data
                if not m.node_fragments[0].continued:
                    break
            self.assertEqual(got, b'two')
            s.end()
            self.assertEqual(list(said), [])

    def test_tensors_go_through_a_model_and_on_into_the_next(self):
        kind = 'application/x-weir-tensor; dtype=INT32; shape=1,16'
        a, b = struct.pack('<16i', *range(16)), struct.pack('<16i', *([1] * 16))
        for s in self.each():
            # The second action before the first, and both before their inputs; the same tensors in and out.
            s.send(action('INFER', {'INPUT0': 'sum', 'INPUT1': 'b'}, {'OUTPUT0': 'sum2', 'OUTPUT1': 'a2'}, 'simple'))
            s.send(action('INFER', {'INPUT0': 'a', 'INPUT1': 'b'}, {'OUTPUT0': 'sum_named'}, 'simple/1'))
            s.send(leaf('a', a[8:], seq=1))
            s.send(leaf('b', b, kind))
            s.send(leaf('a', a[:8], kind, continued=True))
            nodes = read_until(s, 'sum_named')
            self.assertEqual(struct.unpack('<16i', nodes.flat('sum_named')), tuple(range(1, 17)))
            self.assertEqual(nodes.metadata('sum_named').mimetype, 'application/x-weir-tensor; dtype=INT32; shape=1,16; name=OUTPUT0')
            s.send(leaf('sum', nodes.flat('sum_named'), kind))
            nodes = read_until(s, 'sum2', 'a2')
            self.assertEqual(struct.unpack('<16i', nodes.flat('sum2')), tuple(range(2, 18)))
            self.assertEqual(struct.unpack('<16i', nodes.flat('a2')), tuple(range(16)))

    def test_abort_names_node_number_and_rule(self):
        for s in self.each():
            s.send(message("node_fragments { id: 'a' child_ids: 'b' }"))
            s.send(message("node_fragments { id: 'b' seq: 4 continued: true child_ids: 'a' }"))
            with self.assertRaises(SessionError) as raised:
                list(s.messages())
            self.assertEqual(raised.exception.code, 'INVALID_ARGUMENT')
            self.assertEqual(raised.exception.message, "node 'b', fragment 4: child 'a' would make the node contain itself")
            self.assertIn(raised.exception.close, (None, 1008))

    def test_other_sessions_of_the_connection_live_on(self):
        channel = grpc.insecure_channel(self.server.address)
        good, bad = GrpcSession(self.server, channel), GrpcSession(self.server, channel)
        bad.send(message("node_fragments { id: 'a' seq: -1 }"))
        with self.assertRaises(SessionError):
            list(bad.messages())
        good.send(action('ECHO', {'x': 'in'}, {'x': 'out'}))
        good.send(leaf('in', 'still here'))
        self.assertEqual(read_until(good, 'out').flat('out'), b'still here')
        channel.close()

    def test_failures_of_actions_are_an_output_for_who_asks(self):
        for s in self.each():
            s.send(action('INFER', {'INPUT0': 'x'}, {'status': 'st'}, 'simple'))
            s.send(leaf('x', 'no tensor'))
            nodes = read_until(s, 'st')
            self.assertEqual(json.loads(nodes.flat('st'))['code'], 3)
            status = cfg.ActionStatus()
            nodes.metadata('st').experimental[0].Unpack(status)
            self.assertIn("node 'x'", status.message)
            s.send(action('ECHO', {'x': 'x'}, {'x': 'e'}))
            self.assertEqual(read_until(s, 'e').flat('e'), b'no tensor')

    def test_a_conversation_of_a_thousand_turns_nests_a_thousand_levels(self):
        s, said = GrpcSession(self.server), 'q0'
        m = leaf('p0', 'q0')
        for i in range(1, 1001):
            m.MergeFrom(message(f"node_fragments {{ id: 'p{i}' child_ids: 'p{i - 1}' child_ids: 'r{i}' child_ids: 'q{i}' }}"))
            m.MergeFrom(leaf(f'r{i}', f'r{i}'))
            m.MergeFrom(leaf(f'q{i}', f'q{i}'))
            said += f'r{i}q{i}'
        s.send(m)
        s.send(action('ECHO', {'x': 'p1000'}, {'x': 'e'}))
        self.assertEqual(read_until(s, 'e').flat('e'), said.encode())
        s.close()

    def test_two_thousand_fragments_in_reverse_and_waiting_actions(self):
        for s in self.each():
            for i in range(100):
                s.send(action('ECHO', {'x': 'later' if i else 'in'}, {'x': f'out{i}'}))
            m = ev.SessionMessage()
            for seq in reversed(range(2000)):
                m.MergeFrom(leaf('in', 'x', seq=seq, continued=seq < 1999))
            s.send(m)
            s.send(leaf('later', 'y'))
            nodes = read_until(s, *(f'out{i}' for i in range(100)))
            self.assertEqual(nodes.flat('out0'), b'x' * 2000)
            self.assertEqual(nodes.flat('out99'), b'y')

    def test_long_content_comes_to_clients_with_grpcs_default_limit(self):
        # grpcio takes messages of 4 MiB; one that it sends may be longer.
        data = random.Random(1).randbytes(9 << 20)
        for s in self.each():
            s.send(action('ECHO', {'x': 'in'}, {'x': 'out'}))
            s.send(leaf('in', data, 'application/octet-stream'))
            self.assertEqual(read_until(s, 'out').flat('out'), data)

    def test_an_action_that_would_read_what_it_writes_is_refused(self):
        rule = "action ECHO: node 'out': an action's output must not be part of its own input"
        for s in self.each():
            s.send(action('ECHO', {'x': 'in'}, {'x': 'out'}))
            s.send(message("node_fragments { id: 'in' child_ids: ['first', 'out'] }"))
            s.send(leaf('first', 'x'))
            with self.assertRaises(SessionError) as refused:
                read_until(s, 'out')
            self.assertEqual(('INVALID_ARGUMENT', rule), (refused.exception.code, refused.exception.message))

    def test_a_browser_ends_its_stream_with_an_empty_chunk(self):
        for s in self.each():
            s.send(action('ECHO', {'x': 'in'}, {'x': 'out'}))
            s.send(leaf('in', 'hello', continued=True))
            end = leaf('in', '', seq=1, continued=True)
            end.node_fragments[0].chunk_fragment.metadata.mimetype = 'application/octet-stream'
            s.send(end)
            s.send(message("node_fragments { id: 'in' seq: 2 continued: true }"))
            s.send(message("node_fragments { id: 'in' seq: 3 }"))
            self.assertEqual(read_until(s, 'out').flat('out'), b'hello')

    def test_what_there_is_to_invoke_is_told(self):
        for s in self.each():
            s.send(action('LIST_ACTIONS', {}, {'actions': 'all'}, 'simple'))
            nodes = read_until(s, 'all')
            actions = {a['name']: a for a in json.loads(nodes.flat('all'))['actions']}
            self.assertIn('ECHO', actions)
            self.assertNotIn('GENERATE', actions)
            self.assertEqual([i['name'] for i in actions['INFER']['inputs']], ['INPUT0', 'INPUT1'])
            listed = cfg.ActionList()
            nodes.metadata('all').experimental[0].Unpack(listed)
            self.assertEqual({a.name for a in listed.actions}, set(actions))

    def test_a_diamond_of_2_to_40_is_refused_at_once(self):
        s = GrpcSession(self.server)
        s.send(leaf('n40', 'x'))
        for i in range(40):
            s.send(message(f"node_fragments {{ id: 'n{i}' child_ids: 'n{i + 1}' child_ids: 'n{i + 1}' }}"))
        s.send(action('ECHO', {'x': 'n0'}, {'x': 'out'}))
        with self.assertRaises(SessionError) as raised:
            list(s.messages())
        self.assertEqual(raised.exception.code, 'RESOURCE_EXHAUSTED')
        self.assertIn('too large when flattened', raised.exception.message)
        s.close()

    def test_fragments_for_ever_end_at_the_limit(self):
        s = GrpcSession(self.server)
        big = [leaf('x', bytes(1024), continued=True, seq=i) for i in range(200)]
        sent = 0

        def feed():
            nonlocal sent
            for i in range(70_000):
                m = ev.SessionMessage()
                for j in range(100):
                    f = m.node_fragments.add()
                    f.CopyFrom(big[1].node_fragments[0])
                    f.seq = i * 100 + j
                    if f.seq == 0:
                        f.chunk_fragment.metadata.mimetype = 'a/b'
                s.send(m)
                sent += 100
                if i > 700:
                    break

        feed()
        with self.assertRaises(SessionError) as raised:
            list(s.messages())
        self.assertEqual(raised.exception.code, 'RESOURCE_EXHAUSTED')
        self.assertIn("session's content passes 67108864 bytes", raised.exception.message)
        s.close()

    def test_a_socket_that_breaks_the_protocol_is_closed_with_its_code(self):
        for frame, code in ((b'\x81\x01x', 1002), (masked(1, b'\xff'), 1007), (masked(1, b'nonsense'), 1007), (masked(3, b''), 1002),
                            (b'\x82\xff' + struct.pack('>Q', 1 << 40) + bytes(4), 1009)):
            s = WebSocketSession(self.server)
            s.write(frame)
            with self.assertRaises(SessionError) as raised:
                list(s.messages())
            self.assertEqual(raised.exception.close, code)
            s.close()

    def test_pages_of_other_origins_do_not_get_in(self):
        s = WebSocketSession(self.server, 'Origin: https://evil.example\r\n')
        self.assertIn(' 403 ', s.head.splitlines()[0])
        s.close()
        s = WebSocketSession(self.server, f'Origin: http://{self.server.address}\r\n')
        self.assertIn(' 101 ', s.head.splitlines()[0])
        s.close()
        self.assertEqual(harness.curl(self.server.url(PATH)).status, 426)

    def test_health_and_reflection_know_the_service(self):
        with grpc.insecure_channel(self.server.address) as channel:
            answer = health_grpc.HealthStub(channel).Check(health.HealthCheckRequest(service='evergreen.v2.EvergreenService'))
            self.assertEqual(answer.status, health.HealthCheckResponse.SERVING)

    def test_a_thousand_sessions_left_at_random_leave_nothing(self):
        channel = grpc.insecure_channel(self.server.address)
        rng = random.Random(1)

        def round(n):
            sessions = []
            for i in range(n):
                if i % 3:
                    s = GrpcSession(self.server, channel)
                else:
                    s = WebSocketSession(self.server)
                sessions.append(s)
                for _ in range(rng.randrange(4)):
                    s.send(rng.choice([action('ECHO', {'x': f'in{i}'}, {'x': f'out{rng.random()}'}), leaf(f'in{i}', bytes(10_000)),
                                       leaf('x', 'y', continued=True), message("node_fragments { id: 'p' child_ids: 'q' }")]))
                if len(sessions) > 20:
                    sessions.pop(rng.randrange(len(sessions))).close()
            for s in sessions:
                s.close()

        round(200)
        before, fds = self.server.rss(), self.server.fds()
        round(1000)
        self.assertLess(self.server.rss() - before, (100 if harness.SANITIZED else 24) << 20)
        self.assertLess(self.server.fds() - fds, 40)
        channel.close()


# --- random graphs against a small model -------------------------------------------------------------------------------
@strategies.composite
def graphs(draw):
    """(fragments of an acyclic graph with the root n0 in any order, some of them twice; the root's bytes)."""
    count = draw(strategies.integers(1, 10))
    text, fragments = {}, []
    for i in reversed(range(count)):
        id, text_of = f'n{i}', b''
        pieces = draw(strategies.integers(1, 4))
        is_leaf = i == count - 1 or draw(strategies.booleans())
        for seq in range(pieces):
            last = seq == pieces - 1
            f = ev.NodeFragment(id=id, seq=seq, continued=not last)
            if is_leaf and not (last and seq and draw(strategies.booleans())):  # or an empty final one
                f.chunk_fragment.data = draw(strategies.binary(max_size=5))
                if seq == 0 or draw(strategies.booleans()):
                    f.chunk_fragment.metadata.mimetype = 'a/b'
                text_of += f.chunk_fragment.data
            elif not is_leaf:
                below = strategies.integers(i + 1, count - 1)
                for c in draw(strategies.lists(below, min_size=0 if last else 1, max_size=3)):
                    f.child_ids.append(f'n{c}')
                    text_of += text[f'n{c}']
            fragments.append(f)
        text[id] = text_of
    again = draw(strategies.lists(strategies.sampled_from(fragments), max_size=4))
    return draw(strategies.permutations(fragments + again)), text['n0']


class Random(Base):
    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(graphs(), strategies.sampled_from([GrpcSession, WebSocketSession, BinaryWebSocketSession]), strategies.booleans())
    def test_any_graph_in_any_order_flattens_as_the_model_says(self, graph, carrier, action_first):
        fragments, expected = graph
        s = carrier(self.server)
        echo = action('ECHO', {'x': 'n0'}, {'x': 'out'})
        if action_first:
            s.send(echo)
        for f in fragments:
            s.send(ev.SessionMessage(node_fragments=[f]))
        if not action_first:
            s.send(echo)
        self.assertEqual(read_until(s, 'out').flat('out'), expected)
        s.close()


# --- the server's end --------------------------------------------------------------------------------------------------
class Drains(unittest.TestCase):
    def test_sessions_hear_that_the_server_goes_and_do_not_hold_it(self):
        server = harness.Server()
        carriers = [c for c in CARRIERS if c is not Http2WebSocketSession]  # python3-h2 reads nothing after a GOAWAY
        idle = [carrier(server) for carrier in carriers]
        waiting = [carrier(server) for carrier in carriers]
        for i, s in enumerate(idle + waiting):
            s.send(action('ECHO', {'x': 'a'}, {'x': 'e'}))
            s.send(leaf('a', 'hello', continued=i >= len(idle)))
            self.assertEqual(next(s.messages()).node_fragments[0].chunk_fragment.data, b'hello')
        server.process.terminate()
        for s in idle + waiting:
            with self.subTest(type(s).__name__), self.assertRaises(SessionError) as raised:
                list(s.messages())
            self.assertEqual(raised.exception.code, 'UNAVAILABLE')
            self.assertEqual(raised.exception.message, 'the server is shutting down')
            self.assertIn(raised.exception.close, (None, 1001))
            s.close()
        began = time.monotonic()
        self.assertEqual(server.process.wait(harness.PATIENCE), 0)
        server.stop()
        self.assertLess(time.monotonic() - began, 5)
        self.assertNotIn('cut off', server.output())


class Idle(harness.Case):
    serve = ('--evergreen-idle', '300ms')

    def test_a_session_that_nobody_uses_ends(self):
        for carrier in CARRIERS:
            s = carrier(self.server)
            s.send(leaf('a', 'hello'))
            with self.subTest(carrier.__name__), self.assertRaises(SessionError) as raised:
                list(s.messages())
            self.assertEqual(raised.exception.message, 'the session was not used for longer than evergreen.idle')
            s.close()


class Room(harness.Case):
    serve = ('--evergreen-session-bytes', '1MiB')

    def test_a_fast_writer_is_held_while_times_to_live_make_room(self):
        """Ten times what the session may hold at once goes through it."""
        for carrier in CARRIERS:
            with self.subTest(carrier.__name__):
                s = carrier(self.server)
                for i in range(40):
                    s.send(leaf(f'n{i}', bytes([i]) * 250_000))
                    s.send(action('SET_TTL', {'node': f'n{i}'}, {}, config=cfg.TtlConfig(milliseconds=20)))
                s.send(action('ECHO', {'x': 'z'}, {'x': 'e'}))
                s.send(leaf('z', 'there'))
                self.assertEqual(read_until(s, 'e').flat('e'), b'there')
                s.close()


if __name__ == '__main__':
    harness.main()
