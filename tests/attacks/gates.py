"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {
    'long_tensors': 'BYTES and BOOL tensors are checked element by element on the shard: 98 ms for 24 MiB, machine busy',
}
