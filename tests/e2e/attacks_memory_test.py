"""Attacks on memory: answers that nobody reads, heads that wait; and on what is beside the server: origins and browsers."""

import attacks
import harness

Attacks = attacks.cases('memory', 'origins', 'browsers')

if __name__ == '__main__':
    harness.main()
