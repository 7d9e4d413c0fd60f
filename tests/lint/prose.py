"""Comments are sentences with a subject and a verb: none opens with a bare What, Who, Of or So that, which leaves the
reader to find the thing that is described. Names that were private metaphors have the field's term now and do not come
back, and in comments of src/ and subprojects/ nothing "hears": it gets, is called, is told."""

import pathlib
import re
import sys

FOLDERS = ['src', 'subprojects', 'tests', 'proto', 'bench', 'conf']
SUFFIXES = {'.h', '.cc', '.cu', '.cuh', '.inc', '.proto', '.fbs', '.py', '.build', '.yaml'}
CODE = {'.h', '.cc', '.cu', '.cuh', '.inc'}
COMMENT = re.compile(r'\s*(//|#)')
HEADLESS = re.compile(r'\s*(//|#)\s*(What|Who|Whose|Whom|Of|So that)\b(?!.*\?)')
HEARS = re.compile(r'//.*\b(hears?|heard)\b', re.IGNORECASE)
PROSE_OR_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|//.*')  # where the words below may be English
# Whole names in C++; beside each what it became, or what the name of such a thing says.
RENAMED = {
    'Account': 'Reservation', 'Bell': 'DeadlineTimer::Listener', 'Census': 'ConnectionLimit', 'Commons': 'ServerState',
    'Crowd': 'LargestTenant', 'Entrance': 'Endpoint', 'Entry': 'the kind of entry', 'Errand': 'OffloadTask',
    'Flight': 'the kind of flight',
    'Flights': 'InFlightBatches', 'Front': 'ShardServer', 'Gated': 'LimitedInbox',
    'Glimpse': 'PendingImage', 'Guest': 'Waiter', 'House': 'the protocol\'s State', 'Inlet': 'TaskQueue',
    'Ledger': 'RequestRecord, MemoryLedger', 'Look': 'LogitsRequest', 'LookPlan': 'SamplingPlan', 'Means': 'Deps',
    'Nap': 'PollBackoff', 'Parrot': 'EchoModel', 'Passage': 'Transfer', 'Pen': 'ShardLog', 'Piece': 'ChoiceDelta',
    'Porter': 'ReentrancyGuard', 'Purse': 'ByteQuota', 'Reader': 'what is read, ExchangeListener', 'Refusal': 'ApiError',
    'Revivals': 'RestartBackoff', 'Shelf': 'ModelTable', 'Sight': 'ImageState', 'Tally': 'RequestMetrics',
    'Team': 'ThreadTeam', 'Tower': 'VisionEncoder', 'Turnstile': 'ConcurrencyLimiter', 'Wish': 'GenerateParams',
    'asks_nothing': 'is_neutral_value', 'bordered': 'answer_if_thrown', 'bury': 'destroy_retired', 'calm': 'can_run_ahead',
    'chats_elsewhere': 'remote_chat', 'conclude': 'finish_sequence', 'dressed': 'has_tensors', 'employ': 'set_worker_pool',
    'farewell': 'restore_home', 'hear': 'process_row', 'hear_draw': 'process_sample', 'kDrawn': 'kSampled',
    'last_words_': 'final_response_', 'lookout': 'image_worker', 'lose': 'mark_failed', 'mention': 'register_model',
    'mourns': 'has_retired', 'owes': 'pending_events', 'send_away': 'run_on_worker',
    'scribe': 'tokenizer_worker', 'standing': 'extra_fields',
    'token_ahead': 'what it computes', 'token_share': 'what it computes', 'token_spread': 'what it computes',
}
NAME = re.compile(r'\b(?:%s)\b' % '|'.join(RENAMED))


def faults(folder, path, line, before):
    if HEADLESS.match(line) and not COMMENT.match(before):
        yield f'a comment opens with a bare {HEADLESS.match(line)[2]}'
    if path.suffix not in CODE:
        return
    for name in NAME.findall(PROSE_OR_TEXT.sub('', line)):
        yield f'`{name}` was given up: {RENAMED[name]}'
    if folder in ('src', 'subprojects') and HEARS.search(line):
        yield f'nothing {HEARS.search(line)[1]} in a program: it gets, is called, is told'


def check(root):
    bad = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob('*')):
            if path.suffix not in SUFFIXES or 'packagecache' in path.parts:
                continue
            before = ''
            for number, line in enumerate(path.read_text(errors='replace').splitlines(), 1):
                bad += [f'{path.relative_to(root)}:{number}: {fault}' for fault in faults(folder, path, line, before)]
                before = line
    return bad


if __name__ == '__main__':
    found = check(pathlib.Path(sys.argv[1]))
    print('\n'.join(found) or 'prose: ok')
    sys.exit(bool(found))
