"""Attacks on the wire: floods, framing, slowness, answers that close."""

import attacks
import harness

Attacks = attacks.cases('closing', 'h2_floods', 'h1_floods', 'baidu_std', 'payloads')

if __name__ == '__main__':
    harness.main()
