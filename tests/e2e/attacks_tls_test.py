"""Attacks on TLS: handshakes, records, renegotiations."""

import attacks
import harness

Attacks = attacks.cases('tls')

if __name__ == '__main__':
    harness.main()
