"""Reads the dumps of `valgrind --tool=callgrind`: instructions of each function by itself, and who calls what how often."""

import collections
import pathlib
import re
import subprocess

NAMED = re.compile(r'(c?)(ob|fn|fl|fi|fe|file|cfi)=(?:\((\d+)\)\s*)?(.*)')
ALLOCATE = re.compile(r'(operator new|malloc|calloc|realloc|(posix_)?memalign|aligned_alloc|mi_\w*alloc\w*)\b')
LOCKED = re.compile(r'^\s*([0-9a-f]+):\s+(?:lock |xchg\s.*\()', re.M)  # `xchg %ax,%ax` does nothing
LIBRARIES = (('nghttp2', 'libnghttp2'), ('mimalloc', 'mimalloc'), ('libstdc++', 'libstdc++'), ('libcrypto', 'OpenSSL'),
             ('libssl', 'OpenSSL'), ('simdjson', 'simdjson'), ('protobuf', 'libprotobuf'), ('onnxruntime', 'ONNX Runtime'),
             ('ld-linux', 'the loader'), ('libc.so', 'libc'), ('libm.so', 'libc'))


class Dump:
    """`own[(object, function)]`: instructions without those of callees; `all`: with them. `calls[(caller, callee)]`: how often,
    both such pairs. `at[(object, function, address)]`: how often an instruction was executed, of a dump with --dump-instr=yes and
    --compress-pos=no."""

    def __init__(self, path):
        self.own, self.all, self.calls, self.at = (collections.Counter() for _ in range(4))
        columns = 1  # of a place
        names = {'ob': {}, 'fn': {}}
        at, callee, of_call = {'ob': '', 'fn': ''}, {}, False
        for line in pathlib.Path(path).read_text(errors='replace').splitlines():
            if line.startswith('calls='):
                to = (callee.pop('ob', at['ob']), callee.pop('fn'))
                self.calls[(at['ob'], at['fn']), to] += int(line[6:].split()[0])
                of_call = True  # the next line has what the callee cost
            elif line[:1].isdigit() or line[:1] in ('+', '-', '*'):
                words = line.split()
                place, cost = (at['ob'], at['fn']), int(words[columns]) if len(words) > columns else 0
                self.all[place] += cost
                self.own[place] += 0 if of_call else cost
                if columns == 2 and not of_call:
                    self.at[*place, int(words[0], 16)] += cost
                of_call = False
            elif line.startswith('positions:'):
                columns = len(line.split()) - 1
            elif (match := NAMED.match(line)) and match[2] in names:
                name = match[4] or names[match[2]][match[3]]
                names[match[2]][match[3]] = name
                (callee if match[1] else at)[match[2]] = name

    def allocations(self):
        """How often functions outside of the allocator ask it for memory: {(object, function): times}."""
        asked = collections.Counter()
        for (caller, to), times in self.calls.items():
            if ALLOCATE.match(to[1]) and not ALLOCATE.match(caller[1]) and 'mimalloc' not in caller[0]:
                asked[caller] += times
        return asked


def atomics(counts):
    """Of counts by address: those of atomic read-modify-write instructions, which locks are made of: {(object, function): times}."""
    found = collections.Counter()
    for library in {place[0] for place in counts if pathlib.Path(place[0]).is_file()}:
        text = subprocess.run(['objdump', '-d', '--no-show-raw-insn', library], stdout=subprocess.PIPE, text=True, check=True).stdout
        locked = {int(address, 16) for address in LOCKED.findall(text)}
        for (of, function, address), times in counts.items():
            if of == library and address in locked:
                found[of, function] += times
    return found


def room(place):
    """The room or the library of an (object, function)."""
    library, function = place
    if found := re.search(r'\bweir::(\w+)::', function):
        return found[1]
    for part, name in LIBRARIES:
        if part in library:
            return name
    if 'boost::' in function:
        return 'Boost'
    return 'std, in line' if library.endswith('weir') else 'other'


def by_room(counter):
    rooms = collections.Counter()
    for place, count in counter.items():
        rooms[room(place)] += count
    return rooms
