"""One-line mutations of the sources, and which of them a room's own tests notice.

usage: mutate.py [room…] [--count N] [--seed S] [--jobs J]    rooms: the keys of ROOMS (default: all)
       mutate.py [room…] --named                              the changes of NAMED instead of a sample
       mutate.py [room…] --list                               how many places there are, by operator

A random sample, by seed, of every place where an operator applies:
  compare   < becomes <=, == becomes !=, …        constant  n becomes n + 1 or n - 1
  negate    if (c) becomes if (!(c))              drop      a statement is left out
  swap      + and -, && and ||, min and max, true and false
Lines with check( are left as they are, since an invariant that holds is seen by nobody, and so are those with .reserve(,
which says how much room a container takes and not what is in it, and the lengths of constant arrays: one element more
is asked for by nobody.

The tree is copied to .cache/mutate, and built there, only the libraries and test programs of the room; each mutant is
compiled, and its tests are linked and run until one fails, those first whose names are like the file's. What does not
compile is not counted; a test that takes ten times the CPU time (5 s at least) or the time (20 s at least) that it
takes without mutation, or 8 GiB, counts as one that fails. Survivors are printed with place and change. Those in
EQUIVALENT change nothing that a caller could see, and are not counted.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = (ROOT / '.cache/mutate').resolve()  # .cache may be a link
TREE = HOME / 'tree'
BUILD = TREE / 'build-test'

# Sources, in src/ unless they are a library's, and meson's names of the test programs; the simulator's worlds are given few requests.
FEW = ['--requests', '20000']
ROOMS = {
    'wire': (['wire/*.cc'], {'wire_*': None}),
    'marshal': (['marshal/*.cc'], {'marshal*': None}),
    'bus': (['bus/*.cc'], {'bus': None, 'sim': FEW}),
    'generation': (['generation/*.cc'], {'generation': None, 'sim_tokens': FEW}),
    'session': (['session/*.cc'], {'session*': None}),
    'evergreen_graph': (['dialects/evergreen/graph/*.cc'], {'evergreen_graph': None}),
    'jinja': (['subprojects/jinja/src/*.cc'], {'jinja': None}),
    'grammar': (['subprojects/grammar/src/*.cc'], {'grammar': None}),
    'tokenizers': (['subprojects/tokenizers/src/*.cc'], {'tokenizers': None}),
}

# (file, line without its indent, what it became, or the operator if that is so of all that it does there): why nobody
# can notice.
EQUIVALENT = {
    ('src/bus/bus.cc', 'constexpr size_t kStaleAllowed = 64;  // stale Dues beyond the number of live ones', 'constant'):
        'a bound on idle memory, of which no caller sees the exact size',
    ('src/bus/bus.cc', 'constexpr size_t kIdleTenants = 64;   // tenants without Calls that are remembered', 'constant'):
        'a bound on idle memory, of which no caller sees the exact size',
    ('src/bus/bus.cc', 'if (tenants_.size() > 2 * size_t(in_flight_) + kIdleTenants)', 'constant'):
        'a bound on idle memory, of which no caller sees the exact size',
    ('src/session/session_table.cc', 'uint64_t number = 0;                  // counts the sessions of this shard', 'constant'):
        'each session is given its number before it is looked at',
    ('src/session/session_table.cc', 'if (s.due.first < timer_at_) set_timer();', 'if (s.due.first <= timer_at_) set_timer();'):
        'the timer is set anew for the same time',
    ('src/session/session_table.cc', 'if (append.offset < length) text += " (truncating would cut it)";',
     'if (append.offset <= length) text += " (truncating would cut it)";'):
        'an offset that is the length is no mismatch',
    ('src/session/session_table.cc', 'bool rewinds = append.offset < length && append.rewind == Append::Rewind::kYes;',
     'bool rewinds = append.offset <= length && append.rewind == Append::Rewind::kYes;'):
        'a rewind to the length is none',
    ('src/session/session_table.cc', 'session->lease = ++leases_;', 'session->lease = --leases_;'):
        'serials are unique, whatever their order',
    ('src/bus/batch_ring.cc', 'for (uint64_t number = end > kRecords ? end - kRecords : 0; number < end; ++number) {',
     'for (uint64_t number = end >= kRecords ? end - kRecords : 0; number < end; ++number) {'):
        'where both are equal, their difference is 0',
    ('src/bus/batch_ring.cc', 'for (uint64_t number = end > kRecords ? end - kRecords : 0; number < end; ++number) {',
     'for (uint64_t number = end > kRecords ? end - kRecords : 0; number <= end; ++number) {'):
        'a record that is not there is left out',
    ('src/generation/kv_blocks.cc', 'scratch_.resize(5 + (size_t(block_size) + 1) / 2);', 'scratch_.resize(5 + (size_t(block_size) + 1) / 1);'):
        'zeros behind what is hashed change each hash, and none of the comparisons',
    ('src/generation/kv_blocks.cc', 'scratch_.resize(5 + (size_t(block_size) + 1) / 2);', 'scratch_.resize(5 + (size_t(block_size) + 2) / 2);'):
        'zeros behind what is hashed change each hash, and none of the comparisons',
    ('src/generation/kv_blocks.cc', 'scratch_.resize(5 + (size_t(block_size) + 1) / 2);', 'scratch_.resize(6 + (size_t(block_size) + 1) / 2);'):
        'zeros behind what is hashed change each hash, and none of the comparisons',
    ('src/wire/tracer.cc', 'if (bits == 0) bits = 1;', 'if (bits == 0) bits = 2;'): 'any bits but zeros alone will do',
    ('src/wire/rpc_json_work.cc', '} else if (size <= kLittle) {', '} else if (size < kLittle) {'): 'the same bytes in a slab',
    ('src/wire/exchange.cc', 'entries_ = base::SpareVector<FieldSpan>::take();', 'drop'): 'where the memory comes from',
    ('src/wire/h1_reader.cc', 'constexpr HeadError kNothingCame{408, reason::kIdle, "nothing has come for too long"};', 'constant'):
        'of what it ends the head has been sent: a WebSocket, and an answer that began before its request was whole',
    ('src/wire/h2_session.cc', 'connection_.inside = true;', 'drop'): 'the connection is marked for output once more',
    ('src/wire/h2_session.cc', 'connection_.inside = true;', 'connection_.inside = false;'): 'the connection is marked for output once more',
    ('src/wire/h2_stream_table.cc', 'if (live_.size() < most) return false;  // before all of them are looked at',
     'if (live_.size() <= most) return false;  // before all of them are looked at'):
        'with so many at work and no more, all of them open, the next stream is refused before it is asked',
    ('src/wire/trace_context.cc', 'if (!read_hex(t.substr(0, 2), &version) || version == 0xff) return {};',
     'if (!read_hex(t.substr(0, 3), &version) || version == 0xff) return {};'): 'digits are read in pairs',
    ('src/wire/h1_queue.cc', 'reader_.forget(*queue_[i]);', 'drop'): 'the reader was closed before, and has none',
    ('src/wire/h1_parser.cc', 'constexpr uint32_t kNoHeaderLimit = 1 << 30;  // the gate has seen to it', 'constant'):
        'no head is as long as any such number',
    ('src/wire/h1_response.cc', 'if (!take_line(bytes, 0, s)) break;', 'if (!take_line(bytes, 1, s)) break;'):
        'a line with a byte in it is refused behind this, too',
    ('src/marshal/json_number.cc', 'while (end - p >= 8) {', 'while (end - p >= 9) {'): 'the loop behind it reads eight digits, too',
    ('src/marshal/json_number.cc', 'int32_t e = digits == 0 ? 0 : exponent;', 'int32_t e = digits == 0 ? 1 : exponent;'):
        'ten times 0 is 0',
    ('src/marshal/json_number.cc',
     'if (value != 0 && (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max() / 2)) return false;', 'constant'):
        'what is refused here is read from its text, to the same value',
    ('src/marshal/json_write.cc', 'size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;',
     'size_t n = c <= 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;'):
        'no character begins with a byte of 0x80',
    ('src/marshal/json_write.cc', "for (char c : text) odd |= uint8_t(c - 0x20) > 0x7f - 0x20 || c == '\"' || c == '\\\\';", 'compare'):
        'DEL is written as it is by either way',
    ('src/marshal/pb_tensor.cc', 'strings_.emplace(slabs_, fields.size() + 2 * count_);', 'constant'):
        'how much room is taken at first; more is taken when it is needed',
    ('src/marshal/pb_wire.cc', 'if (tag > UINT32_MAX || (tag >> 3) == 0 || (tag & 7) > 5) return fail();',
     'if (tag > UINT32_MAX || (tag >> 3) == 0 || (tag & 6) > 5) return fail();'):
        'the types above 5 have both bits that are looked at',
    ('src/wire/kept_input.cc', 'constexpr size_t kKeptInput = 16 << 10;  // capacity that a quiet connection may keep', 'constant'):
        'a bound on idle memory, of which no caller sees the exact size',
    ('src/wire/h2_sender.cc', 'if (part < kCopyBelow)', 'if (part <= kCopyBelow)'): 'the same bytes, copied or pointed at',
    ('src/wire/h2_exchange.cc', 'if (text.capacity() > kKeepField) text.shrink_to_fit();',
     'if (text.capacity() >= kKeepField) text.shrink_to_fit();'):
        'a bound on idle memory, of which no caller sees the exact size',
    ('src/wire/h2_memory.cc', 'constexpr size_t kStep = 32, kClasses = 16;  // blocks of 32, 64, … 512 bytes are kept', 'constant'):
        'a bound on idle memory, of which no caller sees the exact size',
    ('src/wire/h2_sender.cc', 'uint64_t held = 0;', 'constant'): 'one byte beside the slabs that a rate is made of',
    ('src/wire/grpc_status.cc',
     'status.text.size() <= kMaxGrpcMessage - 3 && std::all_of(status.text.begin(), status.text.end(), plain);', 'compare'):
        'a text of plain characters is encoded as itself',
    ('src/wire/grpc_status.cc',
     'status.text.size() <= kMaxGrpcMessage - 3 && std::all_of(status.text.begin(), status.text.end(), plain);', 'constant'):
        'a text of plain characters is encoded as itself',
    ('src/wire/h1_exchange.cc', 'to_ = connection_.output.total();  // with what an answer has written before it had no memory for the rest', 'drop'):
        'of an answer that is broken off for want of memory, the end comes with its last bytes or with those before',
    ('src/session/session_id.cc', '!parse(text.substr(kDigits / 2), id.low))', '!parse(text.substr(kDigits / 3), id.low))'):
        'the last 16 digits are what stays of the last 22',
    ('src/marshal/raw_input.cc', 'size_t open = 0, first_open = 0, last_open = 0;', 'size_t open = 0, first_open = 0, last_open = 1;'):
        'it is set before it is read',
    ('src/marshal/raw_input.cc', 'size_t open = 0, first_open = 0, last_open = 0;', 'size_t open = 0, first_open = 1, last_open = 0;'):
        'it is set before it is read',
    ('src/generation/lane.cc', 'pthread_setname_np(pthread_self(), "token lane");', 'drop'): 'the name is for debuggers',
    ('src/bus/bus.cc', 'if (due_.front().when < timer_at_) set_timer();', 'if (due_.front().when <= timer_at_) set_timer();'):
        'the timer is set anew for the same time',
    ('src/dialects/evergreen/graph/node_graph.cc', 'if (!f.continued && n.highest_ > f.seq)', 'if (!f.continued && n.highest_ >= f.seq)'):
        'a fragment that has come is a duplicate before it is checked',
}

# Changes that no test noticed once: (room, file, what stands there, what is put in its place).
NAMED = [
    ('marshal', 'src/marshal/check.cc', 'if (found != elements)', 'if (found < elements)'),
    ('wire', 'src/wire/coding.cc', 'made > taken * uint64_t(limits.ratio)', 'made > 2 * taken * uint64_t(limits.ratio)'),
    ('wire', 'src/wire/guard.cc', 'premature_ * 2 < closed_', 'premature_ * 4 < closed_'),
    ('wire', 'src/wire/grpc_status.cc', " || type[0] == ';'", ''),
    ('generation', 'src/base/fair_share.cc', 'std::max(now_[level], end)', 'end'),
    ('generation', 'src/generation/kv_blocks.cc', 'scratch_[0] = content.salt', 'scratch_[0] = 0'),
    ('generation', 'src/generation/admission_queue.cc', 'memory_.lacking(s) + active.running()', 'memory_.lacking(s)'),
]

COMPARE = {' < ': ' <= ', ' <= ': ' < ', ' > ': ' >= ', ' >= ': ' > ', ' == ': ' != ', ' != ': ' == '}
SWAP = {' + ': ' - ', ' - ': ' + ', ' && ': ' || ', ' || ': ' && ', '++': '--', 'std::min': 'std::max', 'std::max': 'std::min',
        'true': 'false', 'false': 'true', ' += ': ' -= ', ' -= ': ' += '}
CALL_OR_ASSIGNMENT = re.compile(r'^(?:[\w:.>*&\[\]()\-]+(?:\(.*\)|(?: = | \+= | -= | \|= ).+)|(?:\+\+|--)[\w.>\-()\[\]]+|[\w.>\-]+(?:\+\+|--));$')
NO_STATEMENT = re.compile(r'^(?:return|using|throw|case|break|continue|else|namespace|static_assert|const|constexpr|auto|delete|goto)\b|^[\w:<>]+ [\w]+(?: =|;|\()')


INVISIBLE = re.compile(r'^\s*(?:base::)?check\(|\.reserve\(')


def masked(line):
    """The line with what stands in strings, characters and comments blanked, so that places keep their columns."""
    out = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', lambda m: m[0][0] + '_' * (len(m[0]) - 2) + m[0][-1], line)
    at = out.find('//')
    return out if at < 0 else out[:at]


def closing(text, at):
    depth = 0
    for i in range(at, len(text)):
        depth += {'(': 1, ')': -1}.get(text[i], 0)
        if depth == 0:
            return i
    return -1


def mutants_of_line(line):
    """(operator, mutated line) for every place in it."""
    code = masked(line)
    if code.lstrip().startswith(('#', 'static_assert', 'template', 'using ')) or not code.strip() or INVISIBLE.search(code):
        return
    put = lambda at, n, new: line[:at] + new + line[at + n:]
    for old, new in COMPARE.items():
        for m in re.finditer(re.escape(old), code):
            if not re.search(r'\b(?:template|operator)\b', code):
                yield 'compare', put(m.start(), len(old), new)
    lengths = [m.start(1) for m in re.finditer(r'constexpr std::array<[^<>]+, (\d+)>', code)]
    for m in re.finditer(r'(?<![\w.\'])(\d+)(?:u|s|ms)?\b(?![\w.\'])', code):
        if m.start(1) in lengths:
            continue
        value = int(m[1]) if m[1] == '0' or m[1][0] != '0' else None
        for other in [] if value is None else [value + 1, value - 1] if value > 0 else [1]:
            yield 'constant', put(m.start(1), len(m[1]), str(other))
    for m in re.finditer(r'\b(?:if|while) (\()', code):
        end = closing(code, m.start(1))
        inside = code[m.start(1) + 1:end]
        if end > 0 and ';' not in inside and not re.match(r'(?:auto|const|size_t|int|uint\w+|[\w:]+\*?) \w+ = ', inside):
            yield 'negate', line[:m.start(1)] + '(!' + line[m.start(1):end + 1] + ')' + line[end + 1:]
    text = code.strip()
    if CALL_OR_ASSIGNMENT.match(text) and not NO_STATEMENT.match(text) and text.count('(') == text.count(')'):
        yield 'drop', line[:len(line) - len(line.lstrip())] + ';'
    for old, new in SWAP.items():
        for m in re.finditer(rf'\b{old}\b' if old[0].isalpha() else re.escape(old), code):
            yield 'swap', put(m.start(), len(old), new)


def mutants(room, root):
    """(file, line number, operator, mutated line) of a room, in order; of the tree that is built, which may be older."""
    for pattern in ROOMS[room][0]:
        for path in sorted((root if pattern.startswith('subprojects/') else root / 'src').glob(pattern)):
            # A statement that goes on in the next line is not dropped, nor is what belongs to the line before.
            lines = path.read_text().splitlines()
            for number, line in enumerate(lines):
                before = lines[number - 1].rstrip() if number else ''
                whole = before.endswith((';', '{', '}', ':')) or not before or before.lstrip().startswith('//')
                for operator, new in mutants_of_line(line):
                    if new != line and (operator != 'drop' or whole):
                        yield str(path.relative_to(root)), number + 1, operator, new


def named(room, root):
    for owner, file, old, new in NAMED:
        lines = (root / file).read_text().splitlines() if owner == room else []
        at = [number for number, line in enumerate(lines) if old in line]
        if owner == room and len(at) != 1:
            sys.exit(f'mutate: {file} has {len(at)} lines with "{old}"')
        yield from ((file, number + 1, 'named', lines[number].replace(old, new)) for number in at)


def is_equivalent(file, line, operator, new):
    return any((file, line.strip(), how) in EQUIVALENT for how in (operator, new.strip()))


def copy_tree():
    """Files that git knows, changed ones with their changes; times are kept, so that ninja builds what is new."""
    names = subprocess.check_output(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], cwd=ROOT).decode().split('\0')
    for name in filter(None, names):
        source, copy = ROOT / name, TREE / name
        if not source.is_file():
            copy.unlink(missing_ok=True)
        elif not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            shutil.copymode(source, copy)


# The tests' build, but each source on its own: a mutant is one. Of a mutant neither speed nor warnings matter.
COMPILER = """#!/usr/bin/env bash
# Written by tests/mutate.py.
if [ -n "${MUTANT:-}" ] && [[ " $* " == *"$MUTANT "* ]]; then
  args=()
  for arg in "$@"; do [ "$arg" = -Werror ] || args+=("$arg"); done
  exec g++ ${MUTANT_HEADER:+-include "$MUTANT_HEADER"} "${args[@]}" -O0 -g0 -w
fi
exec ccache g++ "$@"
"""


def configure():
    HOME.mkdir(parents=True, exist_ok=True)
    compiler = HOME / 'c++'
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    if (BUILD / 'build.ninja').exists():
        return
    options = ['-Doptimization=1', '-Ddebug=false', '-Dcpp_args=-g1 -gsplit-dwarf', '-Dwerror=true']  # seconds, not speed
    subprocess.run(['meson', 'setup', str(BUILD), str(TREE), *options], env={**os.environ, 'CXX': str(compiler), 'CXX_LD': 'lld'},
                   check=True, stdout=subprocess.DEVNULL)


def tests_of(room):
    """[(name, command)], what ninja has to build for them included."""
    listed = json.loads(subprocess.check_output(['meson', 'introspect', '--tests', str(BUILD)]))
    out = []
    for pattern, args in ROOMS[room][1].items():
        for test in listed:
            if pathlib.PurePath(test['name']).match(pattern):
                out.append((test['name'], test['cmd'][:1] + (args or test['cmd'][1:])))
    return out


def precompile(room):
    """The headers of all sources of the room as one, which takes most of the time that a mutant would take; or ''."""
    sources = sorted({place[0] for place in mutants(room, TREE)})
    command = next(each for each in json.loads((BUILD / 'compile_commands.json').read_text())
                   if (BUILD / each['file']).resolve() == (TREE / sources[0]).resolve())
    args = [arg for arg in shlex.split(command['command'])[1:] if arg not in ('-MD', '-Werror')]
    for option in ('-MQ', '-MF', '-o', '-c'):
        at = args.index(option)
        del args[at:at + 2]
    includes = sorted({line for source in sources for line in (TREE / source).read_text().splitlines() if line.startswith('#include')})
    header = HOME / f'{room}.h'
    header.write_text('\n'.join(includes) + '\n')
    done = subprocess.run(['g++', *args, '-O0', '-g0', '-w', '-x', 'c++-header', str(header), '-o', f'{header}.gch'], cwd=BUILD)
    return str(header) if done.returncode == 0 else ''


def build(tests, jobs, mutant='', header=''):
    targets = sorted({str(pathlib.Path(cmd[0]).relative_to(BUILD)) for _, cmd in tests})
    env = {**os.environ, 'CCACHE_BASEDIR': str(TREE), 'CCACHE_NOHASHDIR': '1', 'CCACHE_COMPILERCHECK': 'content', 'MUTANT': mutant, 'MUTANT_HEADER': header}
    done = subprocess.run(['ninja', '-C', str(BUILD), '-j', str(jobs), '--quiet', *targets], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode == 0, done.stdout.decode(errors='replace')


class Limit:
    """What a test may take: ten times what it took once."""

    def __init__(self, cmd):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        self.wall, self.cpu = 600.0, 600
        self.passed = self.passes(cmd)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.wall = max(20.0, 10 * (time.monotonic() - begun))
        self.cpu = max(5, int(10 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)))

    def hold(self):
        resource.setrlimit(resource.RLIMIT_CPU, (self.cpu, self.cpu + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def passes(self, cmd):
        env = {**os.environ, 'GTEST_FAIL_FAST': '1', 'GTEST_BRIEF': '1'}
        program = subprocess.Popen(cmd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=self.hold)
        try:
            return program.wait(timeout=self.wall) == 0
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            return False


class Room:
    def __init__(self, name, jobs):
        self.name, self.jobs = name, jobs
        self.tests = tests_of(name)
        self.counts, self.survivors = collections.defaultdict(collections.Counter), []
        built, out = build(self.tests, jobs)
        if not built:
            sys.exit(f'mutate: {name} does not build without mutation\n{out[-3000:]}')
        self.header = precompile(name)
        self.limits = {}
        for test, cmd in self.tests:
            self.limits[test] = Limit(cmd)
            if not self.limits[test].passed:
                sys.exit(f'mutate: {test} fails without mutation')
        self.tests.sort(key=lambda test: self.limits[test[0]].cpu)

    def likely_first(self, file):
        """A test with a name like the file's is the likeliest to fail, of others the quickest comes first."""
        stem = pathlib.PurePath(file).stem
        return sorted(self.tests, key=lambda test: -len(os.path.commonprefix([stem, test[0].removeprefix(self.name + '_')])))

    def killer(self, file):
        """(Whether it compiles, the first test that fails)."""
        for test in self.likely_first(file):
            if not build([test], self.jobs, file, self.header)[0]:
                return False, None
            if not self.limits[test[0]].passes(test[1]):
                return True, test[0]
        return True, None

    def judge(self, file, number, operator, new):
        """True when it was counted."""
        path = TREE / file
        text = path.read_text()
        lines = text.splitlines()
        old, lines[number - 1] = lines[number - 1], new
        if is_equivalent(file, old, operator, new):
            return False
        try:
            path.write_text('\n'.join(lines) + '\n')
            built, killer = self.killer(file)
        finally:
            path.write_text(text)
        if not built:
            return False
        self.counts[operator]['killed' if killer else 'survived'] += 1
        if not killer:
            self.survivors.append((file, number, old.strip(), new.strip()))
        print(f'{self.name} {file}:{number} {operator}: ' + (f'killed by {killer}' if killer else 'SURVIVED') +
              ('' if killer else f'\n  - {old.strip()}\n  + {new.strip()}'), flush=True)
        return True


def row(name, counters):
    killed, survived = (sum(c[k] for c in counters) for k in ('killed', 'survived'))
    return f'{name:24} {killed + survived:8} {killed:8} {100 * killed / max(killed + survived, 1):7.0f} %'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('rooms', nargs='*')
    parser.add_argument('--count', type=int, default=20)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--named', action='store_true')
    parser.add_argument('--list', action='store_true')
    args = parser.parse_args()
    names = args.rooms or list(ROOMS)
    if unknown := set(names) - set(ROOMS):
        sys.exit(f'mutate: unknown room {sorted(unknown)[0]}: {" ".join(ROOMS)}')
    if args.list:
        for name in names:
            print(name, dict(collections.Counter(m[2] for m in mutants(name, ROOT))))
        return 0
    copy_tree()
    configure()
    rooms = []
    for name in names:
        places = list(named(name, TREE) if args.named else mutants(name, TREE))
        if not args.named:
            random.Random(args.seed).shuffle(places)
        rooms.append(room := Room(name, args.jobs))
        counted = 0
        for place in places:
            if counted == args.count and not args.named:
                break
            counted += room.judge(*place)
    print(f'\n{"room":24} {"mutants":>8} {"killed":>8}')
    for room in rooms:
        print(row(room.name, room.counts.values()))
        for operator, counter in sorted(room.counts.items()):
            print(row('  ' + operator, [counter]))
    print(row('all', [c for room in rooms for c in room.counts.values()]))
    return 0


if __name__ == '__main__':
    sys.exit(main())
