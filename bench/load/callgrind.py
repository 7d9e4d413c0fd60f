"""Reads the dumps of `valgrind --tool=callgrind`: instructions of each function by itself, and who calls what how often."""

import collections
import pathlib
import re

NAMED = re.compile(r'(c?)(ob|fn|fl|fi|fe|file|cfi)=(?:\((\d+)\)\s*)?(.*)')
ALLOCATE = re.compile(r'(operator new|malloc|calloc|realloc|(posix_)?memalign|aligned_alloc|mi_\w*alloc\w*)\b')
LIBRARIES = (('nghttp2', 'libnghttp2'), ('mimalloc', 'mimalloc'), ('libstdc++', 'libstdc++'), ('libcrypto', 'OpenSSL'),
             ('libssl', 'OpenSSL'), ('simdjson', 'simdjson'), ('protobuf', 'libprotobuf'), ('onnxruntime', 'ONNX Runtime'),
             ('ld-linux', 'the loader'), ('libc.so', 'libc'), ('libm.so', 'libc'))


class Dump:
    """`own[(object, function)]`: instructions without those of callees; `all`: with them. `calls[(caller, callee)]`: how often,
    both such pairs."""

    def __init__(self, path):
        self.own, self.all, self.calls = collections.Counter(), collections.Counter(), collections.Counter()
        names = {'ob': {}, 'fn': {}}
        at, callee, of_call = {'ob': '', 'fn': ''}, {}, False
        for line in pathlib.Path(path).read_text(errors='replace').splitlines():
            if line.startswith('calls='):
                to = (callee.pop('ob', at['ob']), callee.pop('fn'))
                self.calls[(at['ob'], at['fn']), to] += int(line[6:].split()[0])
                of_call = True  # the next line has what the callee cost
            elif line[:1].isdigit() or line[:1] in ('+', '-', '*'):
                place, cost = (at['ob'], at['fn']), int((line.split() + ['0'])[1])
                self.all[place] += cost
                self.own[place] += 0 if of_call else cost
                of_call = False
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
