"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {
    'rpc_json_lines': 'the JSON form of RPCs is read in one go',
    'classification_of_everything': 'k is not bounded',
    'json_lines_coded': 'the JSON form of RPCs is read in one go',
    'slow_binary_readers': 'inflating 62 MiB takes a turn of 30 to 45 ms',
    'slow_json_readers': 'inflating 62 MiB takes a turn of 30 to 45 ms',
    'json_of_40_mib': 'REST JSON is read in one go',
    'evergreen_drop': 'DROP is quadratic',
    'evergreen_diamond': 'the visits of all cursors have no bound',
    'evergreen_wide_diamond': 'the visits of all cursors have no bound',
    'bytes_elements': 'a JSON answer is written in one go',
    'window_of_zero': 'a hundred pages of /metrics of one connection are made in one turn',
    'function_arguments': 'arguments are read in quadratic time',
    'long_texts': 'workers are not shared by tenant',
    'parameters_nested': 'not measured yet',
    'templates_of_short_requests': 'not measured yet',
}
