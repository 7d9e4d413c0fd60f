"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {
    'templates_that_explode': 'the text of a rendering, 256 MiB at most, is not charged to limits.slab_budget, and renderings of 5 million steps hold the workers',
}
