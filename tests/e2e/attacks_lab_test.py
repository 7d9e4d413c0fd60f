"""The runner of attacks itself: the limit of a turn grows with the machine's slowness in the quick form alone, and no
attack is left out."""

import pathlib
import re
import sys
import threading
import time
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / 'tests/attacks'))

import lab  # noqa: E402
import pace  # noqa: E402
import registry  # noqa: E402


def judged(form, turn_s, pieces_ms):
    out = lab.Outcome('any')
    report = {'phases': {'attack': {'rest': {'asked': 1, 'served': 1, 'times_ms': [1.0], 'errors': {}}}}, 'late_ms': {},
              'pieces_ms': {'attack': pieces_ms, 'unloaded': [99.0]}}
    lab._count(out, report, form)
    out.turn_s = turn_s
    lab._judge(out, form)
    return out


@unittest.skipIf(harness.SANITIZED, 'turns are not judged')
class Turns(unittest.TestCase):
    def test_the_limit_of_the_quick_form_grows_with_the_slowness_of_one_piece_in_ten(self):
        pieces = [pace.PIECE_MS] * 80 + [2 * pace.PIECE_MS] * 20
        self.assertEqual([], judged('quick', 0.049, pieces).faults)
        self.assertIn('50 are allowed (the machine was 2.0 times as slow', judged('quick', 0.051, pieces).faults[0])

    def test_it_grows_four_times_at_most(self):
        self.assertEqual(4, judged('quick', 0.101, [100 * pace.PIECE_MS] * 5).slowness)
        self.assertTrue(judged('quick', 0.101, [100 * pace.PIECE_MS] * 5).faults)

    def test_a_faster_machine_has_the_same_limit(self):
        self.assertEqual([], judged('quick', 0.024, [pace.PIECE_MS / 2] * 5).faults)
        self.assertTrue(judged('quick', 0.026, [pace.PIECE_MS / 2] * 5).faults)
        self.assertTrue(judged('quick', 0.026, []).faults, 'nobody has measured')

    def test_the_full_form_has_one_limit(self):
        self.assertIn('25 are allowed', judged('full', 0.026, [4 * pace.PIECE_MS] * 5).faults[0])


class Programs(unittest.TestCase):
    def test_each_file_of_attacks_is_in_one_program(self):
        chosen = [name for script in sorted(pathlib.Path(__file__).parent.glob('attacks_*_test.py'))
                  for call in re.findall(r'attacks\.cases\((.*)\)', script.read_text()) for name in re.findall(r"'(\w+)'", call)]
        self.assertEqual(sorted({a.run.__module__ for a in registry.attacks().values()}), sorted(chosen))


class Measuring(unittest.TestCase):
    def test_a_piece_is_cpu_time(self):
        others = [threading.Thread(target=lambda: [pace.piece_ms() for _ in range(20)]) for _ in range(8)]
        for other in others:
            other.start()
        began, times = time.monotonic(), [pace.piece_ms() for _ in range(20)]
        lasted = 1000 * (time.monotonic() - began)
        for other in others:
            other.join()
        self.assertLessEqual(sum(times), lasted * 1.01)
        self.assertGreater(min(times), 0.1)

    def test_pieces_are_told_by_phase(self):
        class Client:
            ended = False

            def phase_at(self, when):
                return 'attack'
        client = Client()
        measuring = pace.Pace(client)
        measuring.start()
        time.sleep(0.5)
        client.ended = True
        measuring.join(10)
        self.assertGreaterEqual(len(measuring.pieces_ms['attack']), 2)


if __name__ == '__main__':
    harness.main()
