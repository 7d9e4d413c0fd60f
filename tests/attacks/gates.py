"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {
    'rpc_json_lines': 'the JSON form of RPCs is read in one go',
    'json_lines_coded': 'the JSON form of RPCs is read in one go',
    'slow_binary_readers': 'inflating 62 MiB takes a turn of 30 to 45 ms',
    'slow_json_readers': 'inflating 62 MiB takes a turn of 30 to 45 ms',
    'bytes_elements': 'a JSON answer is written in one go: 16 to 28 ms',
    'window_of_zero': 'a hundred pages of /metrics of one connection are made in one turn',
    'long_texts': 'the longest turn is near the limit: 12 ms, once 27',
}
