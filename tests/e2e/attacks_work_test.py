"""Attacks on memory, on time, on what others are owed."""

import attacks
import harness

Attacks = attacks.cases('memory', 'crowds', 'work', 'long_json', 'evergreen', 'text', 'journal', 'browsers', 'strangers', 'origins',
                        'own_code', 'guessing', 'shortage')

if __name__ == '__main__':
    harness.main()
