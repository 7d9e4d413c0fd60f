"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {
    'lines_at_once': 'lines of Evergreen that wait for a worker: RSS is just above its bound, the heap half above, one request in ten denied',
}
