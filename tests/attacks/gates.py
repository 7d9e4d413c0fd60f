"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {
    'graphpipe_strings': 'answers of GraphPipe are not part of a client\'s share of the memory: one client fills it, and others get 503',
}
