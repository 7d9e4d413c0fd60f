"""Attacks that the server is not expected to withstand yet, and why. Whoever mends one deletes its line: from then on
`./dev test` fails when it is lost again."""

OPEN = {
    'announcements_1024': 'an announced length up to 2 MiB takes its memory at the first byte',
    'announcements_4000': 'an announced length up to 2 MiB takes its memory at the first byte',
    'announced_messages': 'an announced length up to 2 MiB takes its memory at the first byte',
    'rpc_json_lines': 'the JSON form of RPCs is read in one go',
    'connections_10100': 'no share of connections per address',
    'sessions_1024': 'no share of sessions per address',
    'unread_chats': 'no share of the queue per address',
    'chats_queued': 'no share of the queue per address',
    'classification_of_everything': 'k is not bounded',
    'json_lines_coded': 'the JSON form of RPCs is read in one go',
    'json_of_40_mib': 'REST JSON is read in one go',
    'evergreen_drop': 'DROP is quadratic',
    'evergreen_diamond': 'the visits of all cursors have no bound',
    'evergreen_wide_diamond': 'the visits of all cursors have no bound',
    'bytes_elements': 'a JSON answer is written in one go',
    'window_of_zero': 'a hundred pages of /metrics of one connection are made in one turn',
    'function_arguments': 'arguments are read in quadratic time',
    'long_texts': 'workers are not shared by tenant',
}
