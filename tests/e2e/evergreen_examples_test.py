"""The specification's own examples of Evergreen sessions, against the demo models."""

import random
import re
import unittest

import harness

from evergreen_client import CARRIERS, GrpcSession, cfg, ev, message, read_until

EXAMPLES = harness.ROOT / 'tests/data/evergreen'  # what the specification's clients send, byte for byte


def example(name, config=None):
    """The specification writes singular field names, // comments and a placeholder for the configuration."""
    text = (EXAMPLES / f'{name}.txt').read_text()
    for informal, field in (('action', 'actions'), ('node_fragment', 'node_fragments'), ('input', 'inputs'), ('output', 'outputs')):
        text = re.sub(rf'^(\s*){informal} {{', rf'\1{field} {{', text, flags=re.M)
    text = re.sub(r'^\s*(//|config: \[).*$', '', text, flags=re.M)
    m = message(text)
    if config is not None:
        m.actions[0].configs.add().Pack(config)
    return m


class Examples(unittest.TestCase):
    """Against the demo models: a video is described to a model of text."""

    @classmethod
    def setUpClass(cls):
        root = harness.scratch() / 'refs'
        (root / 'path/to/file').mkdir(parents=True, exist_ok=True)
        (root / 'path/to/file/part1').write_bytes(bytes(1000))
        (root / 'path/to/file/part2').write_bytes(bytes(234))
        cls.server = harness.Server('--evergreen-references-file-roots', root)
        models = harness.curl(cls.server.url('/v2/repository/index'), '-X', 'POST').json()
        cls.chat = any(m['name'] == 'chat' and m['state'] == 'READY' for m in models)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def setUp(self):
        if not self.chat:
            self.skipTest('no model of text is served')

    def sessions(self):
        for carrier in CARRIERS:
            with self.subTest(carrier.__name__):
                s = carrier(self.server)
                try:
                    yield s
                finally:
                    s.close()

    def greedy(self, **more):
        return cfg.GenerateConfig(temperature=0, max_tokens=24, **more)

    def test_a_question_about_a_video_and_one_more(self):
        answers = set()
        for s in self.sessions():
            first = example('video_1')
            first.actions[0].configs.add().Pack(self.greedy())
            s.send(first)
            one = read_until(s, 'response_1').flat('response_1')
            second = example('video_2')
            second.actions[0].configs.add().Pack(self.greedy())
            second.actions[0].outputs.add(name='usage', id='usage_2')
            s.send(second)
            nodes = read_until(s, 'response_2', 'usage_2')
            usage = cfg.Usage()
            nodes.metadata('usage_2').experimental[0].Unpack(usage)
            self.assertGreater(usage.cached_prompt_tokens, 0, 'the first turn was there already')
            self.assertEqual(nodes.metadata('response_2').mimetype, 'text/plain')
            answers.add((one, nodes.flat('response_2')))
        self.assertEqual(len(answers), 1, 'the same over every carrier')

    def test_a_customized_and_a_streamed_prompt_are_the_same_prompt(self):
        answers = set()
        for name in ('customized', 'streamed'):
            for s in self.sessions():
                s.send(example(name, self.greedy()))
                answers.add(read_until(s, 'response_1').flat('response_1'))
        self.assertEqual(len(answers), 1)

    def test_delivery_out_of_order_and_twice_gives_the_same(self):
        answers = set()
        for seed in range(8):
            m = example('streamed', self.greedy())
            parts = [ev.SessionMessage(node_fragments=[f]) for f in m.node_fragments] * 2 + [ev.SessionMessage(actions=m.actions)]
            random.Random(seed).shuffle(parts)
            s = GrpcSession(self.server)
            for part in parts:
                s.send(part)
            answers.add(read_until(s, 'response_1').flat('response_1'))
            s.close()
        self.assertEqual(len(answers), 1)

    def test_the_examples_parse_to_what_they_say(self):
        self.assertEqual(example('video_1').node_fragments[3].chunk_fragment.ref, 'file://path/to/file/part2')
        self.assertEqual(example('streamed').node_fragments[2].seq, 1)


if __name__ == '__main__':
    harness.main()
