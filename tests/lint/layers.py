"""Holds the table of rooms (src/README.md) against the includes and the forward declarations, and that table against
ROOMS. Changing ROOMS is an architectural decision."""

import pathlib
import re
import sys

from lists import libraries

LIBRARIES = libraries(pathlib.Path(__file__).resolve().parents[2])  # they know nothing of this one
ROOMS = {  # room: the rooms and libraries that it may see
    'base': '',
    'msg': 'base',
    'wire': 'base',
    'text': 'base msg jinja tokenizers grammar',
    'device': 'base',
    'images': 'base',
    'bus': 'base msg',
    'net': 'base wire',
    'marshal': 'base msg wire',
    'auth': 'base wire marshal',
    'jobs': 'base wire',
    'session': 'base msg bus',
    'sched': 'base msg images bus device',
    'generation': 'base msg bus device',
    'dialects': 'base msg wire text marshal bus session jobs',
    'engines': 'base msg images text device sched generation marshal',
    'models': 'base msg images bus device session sched generation engines',
    'cluster': 'base msg bus engines/forward',
    'app': 'base msg wire images text device bus net marshal auth jobs session sched generation dialects engines models cluster',
}
LEAVES = {'engines/forward': 'wire net bus'}    # what a folder may see beside its room's
SEALED = {'dialects', 'engines'}          # their folders are strangers to each other

# Headers that are heavy, or that would leak a decision: pattern -> the only places that may include them.
PINNED = [
    (r'boost/asio/', 'net app'),
    (r'boost/beast/', 'wire net'),
    (r'nghttp2/', 'wire'),
    (r'(^|/)(cuda|cublas|nvml)', 'device engines/llm'),
    (r'\.pb\.h$|_generated\.h$|flatbuffers/', 'dialects models'),
    (r'pcre2|unicode/', ''),
    (r'dnnl', 'engines/llm'),
    (r'^png\.h$|jpeglib|webp/', 'images'),
    (r'nlohmann/json_fwd', 'app models dialects text engines/llm msg'),  # msg/text_codec.h, which few include
    (r'nlohmann/json\.hpp', 'app models dialects text engines/llm'),
    (r'simdjson', 'marshal dialects text'),
    (r'dragonbox', 'marshal'),
    (r'sqlite3', 'jobs'),
    (r'^nats', 'cluster'),
]
# The one file of app/ that names protocols, a line for each; ops is no protocol.
DIALECTS = 'app/dialects.cc'
# Rooms that the simulator runs: no clock, thread or entropy of their own.
DETERMINISTIC = ['bus', 'session', 'cluster/membership', 'cluster/ownership', 'cluster/kept_sessions', 'sched/batcher', 'sched/fair_queue', 'sched/sequence_batcher', 'generation']
THREADED = ['generation/lane']  # files of these rooms that own a thread, and hand the others the time
NAMESPACE = re.compile(r'(?:\} )?namespace weir::(\w+)')
WORLD = re.compile(r'_clock::now|std::(thread|jthread|random_device|condition_variable)\b|\bgetrandom\(|\btime\(nullptr\)|\b(steady_now|unix_ms|lane_now)\b')


def acyclic():
    order = list(ROOMS)
    return [f'{room} sees {seen}, which is not of a lower rank' for room in order for seen in ROOMS[room].split()
            if seen not in LIBRARIES and order.index(seen.split('/')[0]) >= order.index(room)]


def includes(path):
    for number, line in enumerate(path.read_text(errors='replace').splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)', line)
        if match:
            yield number, match[1]


def check_include(room, leaf, target):
    parts = target.split('/')
    seen = parts[0]
    allowed = ROOMS[room].split() + LEAVES.get(leaf, '').split()
    if len(parts) > 1 and (seen in ROOMS or seen in LIBRARIES):
        if seen != room and seen not in allowed and '/'.join(parts[:2]) not in allowed:
            yield f'{room} may not see {seen}'
        if seen == room and room in SEALED and len(parts) > 2 and '/'.join(parts[:2]) != leaf:
            yield f'{leaf} may not see its sibling {target}'
    for pattern, places in PINNED:
        if re.search(pattern, target) and room not in places.split() and leaf not in places.split():
            yield f'{target} belongs in: {places}'


def check_declarations(room, leaf, path, rooms_of):
    """Types of a room that may not be seen may not be declared forward either."""
    allowed = [room, 'base', *ROOMS[room].split(), *LEAVES.get(leaf, '').split()]
    for number, line in enumerate(path.read_text(errors='replace').splitlines(), 1):
        match = NAMESPACE.match(line)
        if match and rooms_of.get(match[1], room) not in allowed and f'{rooms_of[match[1]]}/{match[1]}' not in allowed:
            yield number, f'{room} may not see {rooms_of[match[1]]}, nor declare its types'
        if match and room in SEALED and rooms_of.get(match[1]) == room and match[1] not in leaf.split('/'):
            yield number, f'{leaf} may not see its sibling {match[1]}'


def check_table(readme):
    """Every room has one row, which says what ROOMS says, in an order of ranks that rises."""
    told, last = {}, 0
    for line in readme.read_text().splitlines():
        row = re.match(r'\| (\d+) \| `(\w+)/.*\| ([^|]*) \|$', line)
        if row:
            told[row[2]] = (int(row[1]), re.sub(r'\([^)]*\)', '', row[3]).replace(',', ' '))
            last, before = int(row[1]), last
            if last < before:
                yield f'{readme}: the rank of {row[2]} is lower than that of the room before'
    for room in sorted({*told, *ROOMS}):
        if room not in told or room not in ROOMS:
            yield f'{readme}: {room} is in one of the table and layers.py, not in both'
            continue
        rank, seen = told[room]
        own, _, leaves = seen.partition(';')
        names = set(own.split()) - {'–', 'everything'}
        if 'everything' not in own and names != set(ROOMS[room].split()):
            yield f'{readme}: {room} sees {sorted(names ^ set(ROOMS[room].split()))} in one of the table and layers.py'
        for leaf, more in LEAVES.items():
            if leaf.startswith(room + '/') and set(more.split()) != set(leaves.replace(leaf.split('/')[1] + ': +', '').split()):
                yield f'{readme}: {leaf} sees {more} in layers.py'
        for other in ROOMS[room].split():
            if other.split('/')[0] in told and told[other.split('/')[0]][0] >= rank:
                yield f'{readme}: {room} sees {other}, whose rank is not lower'


def check_library(folder):
    """A library includes its own headers and packaged ones, and does not name this project."""
    strangers = [*ROOMS, *LIBRARIES]
    for path in sorted(p for p in folder.rglob('*') if p.is_file() and p.suffix in {'.h', '.cc', '.build', '.txt', '.md', '.py'}):
        if re.search(r'\bweir\b', path.read_text(errors='replace'), re.I):
            yield f'{path}: names weir'
        for number, target in includes(path) if path.suffix in {'.h', '.cc'} else ():
            parts = target.split('/')
            if len(parts) > 1 and parts[0] in strangers and parts[0] != folder.name:
                yield f'{path}:{number}: {folder.name} may not see {parts[0]}'


def check_dialects(path, room, target):
    """What app/ needs of a protocol is its line in DIALECTS."""
    parts = target.split('/')
    if room == 'app' and parts[0] == 'dialects' and len(parts) > 2 and parts[1] != 'ops' and path != DIALECTS:
        yield f'only {DIALECTS} names a protocol'


def check_catalog(room, path):
    """Requests see the models of their key: a dialect names whose request it is."""
    if room != 'dialects' or 'ops' in path.parts:
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if re.search(r'bus\w*(\.|->)(catalog|snapshot)\(\)', line.split('//')[0]):
            yield number, 'takes the models of the caller: bus.catalog(marshal::models_of(request))'


def check(root):
    bad = acyclic()
    bad += [why for name in LIBRARIES for why in check_library(root.parent / 'subprojects' / name)]
    if (root / 'README.md').exists():
        bad += check_table(root / 'README.md')
    rooms_of = {room: room for room in ROOMS}
    rooms_of |= {leaf.name: room for room in SEALED for leaf in (root / room).glob('*/')}
    for path in sorted(root.rglob('*')):
        if path.suffix not in {'.h', '.cc', '.cu', '.cuh'}:
            continue
        parts = path.relative_to(root).parts
        room, leaf = parts[0], '/'.join(parts[:2]) if len(parts) > 2 else parts[0]
        if room not in ROOMS:
            bad.append(f'{path}: no such room')
            continue
        relative = str(path.relative_to(root))
        for number, target in includes(path):
            faults = [*check_include(room, leaf, target), *check_dialects(relative, room, target)]
            bad += [f'{path}:{number}: {why}' for why in faults]
        marked = [*check_catalog(room, path), *check_declarations(room, leaf, path, rooms_of)]
        bad += [f'{path}:{number}: {why}' for number, why in marked]
        if relative.startswith(tuple(DETERMINISTIC)) and not relative.startswith(tuple(THREADED)):
            bad += [f'{path}:{number}: takes an Env instead' for number, line in enumerate(path.read_text().splitlines(), 1)
                    if WORLD.search(line.split('//')[0])]
    return bad


if __name__ == '__main__':
    found = check(pathlib.Path(sys.argv[1]))
    print('\n'.join(found) or 'layers: ok')
    sys.exit(bool(found))
