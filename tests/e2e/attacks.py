"""Makes a test of each attack in some files of tests/attacks that the server has to withstand: its quick form.

The limits are those of the table (share served, memory, CPU time of a turn), without those that a busy machine breaks.
"""

import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / 'tests/attacks'))

import lab  # noqa: E402
from gates import OPEN  # noqa: E402
from registry import attacks  # noqa: E402


def test_of(attack):
    def test(self):
        out = lab.run(attack, 'quick')
        self.assertEqual([], out.faults, f'{attack.line} ({out.did})')
    test.__doc__ = attack.line
    return test


def cases(*files):
    """A unittest class with the attacks of these files."""
    chosen = {f'test_{name}': test_of(a) for name, a in attacks().items() if a.run.__module__ in files and name not in OPEN}
    return type('Attacks', (unittest.TestCase,), chosen)
