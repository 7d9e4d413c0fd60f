"""The harness itself: what cases leave behind is cleaned up, also of those that run side by side."""

import io
import unittest

import harness


def outcome(*classes):
    suite = unittest.TestSuite([unittest.defaultTestLoader.loadTestsFromTestCase(cls) for cls in classes])
    runner = harness.SideBySide(2)
    runner.stream = unittest.runner._WritelnDecorator(io.StringIO())
    return runner.run(suite)


class SideBySide(unittest.TestCase):
    def test_a_class_whose_fixture_fails_is_cleaned_up_at_once_and_has_no_cases(self):
        done = []

        class Failing(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.addClassCleanup(done.append, 'cleaned up')
                raise RuntimeError('it does not begin')

            def test_nothing(self):
                done.append('a case of it')

        class Fine(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.addClassCleanup(done.append, 'cleaned up behind')

            def test_it(self):
                done.append('a case')

        result = outcome(Failing, Fine)
        self.assertEqual(['cleaned up', 'a case', 'cleaned up behind'], done)
        self.assertEqual((1, 1), (result.testsRun, len(result.errors)))
        self.assertIn('it does not begin', result.errors[0][1])

    def test_a_cleanup_that_fails_is_an_error(self):
        class Skipped(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.addClassCleanup(int, 'no number')
                raise unittest.SkipTest('not here')

            def test_nothing(self):
                pass

        result = outcome(Skipped)
        self.assertEqual((1, 1), (len(result.skipped), len(result.errors)))
        self.assertIn('no number', result.errors[0][1])


if __name__ == '__main__':
    harness.main()
