"""Origins of texts, by hand, that fail while others of their calls go on, or behind the end of an answer."""

import pathlib
import tempfile
import time
import unittest

import harness
from completion_origin import Origin, delta, event, head
from forward_test import until
from forward_text_test import MODEL, completion, tokenizer_folder
from harness import curl


class Faults(unittest.TestCase):
    def start(self, *origins, more=''):
        """A server of one shard, so that all calls share what there is to share."""
        root = pathlib.Path(tempfile.mkdtemp(dir=harness.scratch()))
        (root / MODEL).mkdir()
        (root / MODEL / 'model.yaml').write_text(
            f'engine: forward\nkind: openai\norigins: [{", ".join(o.url for o in origins)}]\n'
            f'parameters: {{tokenizer: {tokenizer_folder()}, check_interval: 60s{more}}}\n')
        server = harness.Server('--shards', 1, repository=root)
        self.addCleanup(lambda: self.assertEqual(0, server.stop(), server.output()[-5000:]))
        for origin in origins:
            self.addCleanup(origin.close)
        until(lambda: curl(server.url('/readyz')).status == 200, 'readiness')
        return server

    def test_a_client_that_has_enough_gives_nobody_else_more_time(self):
        origin = Origin()
        server = self.start(origin, more=', answer_timeout: 1s')
        # One call is never answered; those beside it have their stop string with the first part, and end by it.
        origin.behave = lambda sock, fields, request: None if request['prompt'] == list(b'silent') else sock.sendall(
            head() + event(delta('ab', [97, 98])))
        answers, end = [], time.monotonic() + harness.PATIENCE
        with harness.threads(1, lambda _: answers.append(completion(server, prompt='silent'))):
            until(lambda: origin.seen, 'the call')
            while not answers and time.monotonic() < end:
                self.assertEqual('a', completion(server, stop=['b']).json()['choices'][0]['text'])
        self.assertEqual(504, answers[0].status, answers[0].body)
        self.assertIn('has not answered within 1s', answers[0].json()['error']['message'])


if __name__ == '__main__':
    harness.main()
