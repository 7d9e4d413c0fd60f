"""Makes a test of each attack in some files of tests/attacks that the server has to withstand: its quick form.

The limits are those of the table (share served, memory, CPU time of a turn), without those that a busy machine breaks.
Most attacks wait most of the time, so that some of them run at once, each with a server of its own. Where only the share
served or a turn is at fault, the others may be, or the machine: such an attack is run again, alone.
"""

import concurrent.futures
import os
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / 'tests/attacks'))

import lab  # noqa: E402
from gates import OPEN  # noqa: E402
from registry import attacks  # noqa: E402

AT_ONCE = min(6, 2 * (os.cpu_count() or 1))  # with three, what one does shows in the turns of another


def test_of(attack):
    def test(self):
        if why := attack.lacks():
            self.skipTest(why)
        out = self.outcomes[attack.name].result()
        if out.faults and out.maybe_machine:
            concurrent.futures.wait(self.outcomes.values())
            out = lab.again(attack, out)
        self.assertEqual([], out.faults, f'{attack.line} ({out.did})')
    test.__doc__ = attack.line
    return test


def cases(*files, at_once=AT_ONCE):
    """A unittest class with the attacks of these files. Those that last longest begin first."""
    chosen = {name: a for name, a in attacks().items() if a.run.__module__ in files and name not in OPEN}

    class Attacks(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            named = [word.rpartition('.test_')[2] for word in sys.argv[1:] if '.test_' in word]
            wanted = [chosen[name] for name in named] or sorted(chosen.values(), key=lambda a: -a.quick)
            wanted = [a for a in wanted if not a.lacks()]
            pool = concurrent.futures.ThreadPoolExecutor(at_once)
            cls.outcomes = {a.name: pool.submit(lab.once, a, 'quick') for a in wanted}
            pool.shutdown(wait=False)

    for name, attack in chosen.items():
        setattr(Attacks, f'test_{name}', test_of(attack))
    return Attacks
