"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {
    'long_tensors': 'String tensors of GraphPipe are read and written element by element on the shard: 110 ms for 3 million',
}
