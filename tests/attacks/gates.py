"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {
    'decoupled_unread': 'a stream may be 64 answers ahead of its client, however large they are; bus/call_handle.h counts none of their bytes',
}
