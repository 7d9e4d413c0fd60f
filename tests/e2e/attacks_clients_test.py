"""Attacks on what others are owed: crowds, strangers, a machine that is short of something, code of a model of its own, clocks and logs."""

import attacks
import harness

Attacks = attacks.cases('crowds', 'strangers', 'shortage', 'own_code', 'clocks', 'together')

if __name__ == '__main__':
    harness.main()
