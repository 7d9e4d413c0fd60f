"""How fast the machine is while an attack runs: CPU time that a fixed piece of work takes.

A turn is judged by its CPU time, which is longer on a slower machine, where somebody else has the other half of a core,
and where a hypervisor takes time away from a thread that runs. So does the piece of work: BLAKE2b, which is integers and
rotations on every machine, of a buffer that fits into a core's cache. Memory that nobody has touched yet is the kernel's
and the hypervisor's work, and may take ten times as long on one machine as on another; so a second piece is such pages.
"""

import hashlib
import mmap
import threading
import time

PIECE = bytes(1 << 20)
# The machine of README.md's table (two cores of an EPYC, Debian's Python): the median of 60 pieces, a tenth of a second
# apart. It was 1.08 to 1.12 in three runs, the least of all 1.05.
PIECE_MS = 1.1
FRESH = bytes(256 << 10)
FRESH_MS = 0.75  # of that machine: 3 ms for each MiB, as lab.find_memory() has found
MOST = 4  # a machine that is slower yet is no judge of turns


def cpu_ms(work):
    """CPU time of this thread."""
    before = time.thread_time()
    work()
    return 1000 * (time.thread_time() - before)


def hashed():
    hashlib.blake2b(PIECE).digest()


def touched():
    with mmap.mmap(-1, len(FRESH)) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory.write(FRESH)


def piece_ms():
    """The hash's CPU time, or what it would be if the hash were as slow as fresh pages are, against the table's machine."""
    return max(cpu_ms(hashed), cpu_ms(touched) * PIECE_MS / FRESH_MS)


def slowness(pieces_ms):
    """How many times as slow as the table's machine this one was for one piece in ten: 1 at least, MOST at most."""
    times = sorted(pieces_ms)
    return min(MOST, max(1.0, times[len(times) * 9 // 10] / PIECE_MS)) if times else 1.0


class Pace(threading.Thread):
    """Measures a piece ten times a second."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.pieces_ms = client, {}  # by phase

    def run(self):
        while not self.client.ended:
            began = time.monotonic()
            self.pieces_ms.setdefault(self.client.phase_at(began), []).append(round(piece_ms(), 3))
            time.sleep(0.1)
