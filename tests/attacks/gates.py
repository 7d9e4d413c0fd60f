"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {
    'lies_in_the_log_of_jobs': 'a file that a node has taken while somebody writes into the log is not there at any node, now and then',
}
