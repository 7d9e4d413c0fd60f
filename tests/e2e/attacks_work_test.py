"""Attacks on time: requests that are short, or well coded, and cost much: tensors, JSON, texts."""

import attacks
import harness

Attacks = attacks.cases('work', 'long_json', 'text')

if __name__ == '__main__':
    harness.main()
