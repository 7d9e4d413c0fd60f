"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {}
