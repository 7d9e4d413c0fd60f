"""Too little of what the system gives: descriptors, a disk, memory."""

import atexit
import contextlib
import itertools
import json
import os
import pathlib
import re
import resource
import subprocess
import time

import harness
from journal import FORM, form, journal
from peer import JSON, Raw, ask, more_descriptors, post
from registry import attack
from strangers import INFER

MIB = 1 << 20
_numbers = itertools.count()


def wrapper(*lines):
    """A program that becomes the binary, once it has done the lines."""
    path = harness.scratch() / f'wrapper-{os.getpid()}-{next(_numbers)}'
    path.write_text('\n'.join(('#!/bin/sh', *lines, '')))
    path.chmod(0o755)
    return path


# --- descriptors -------------------------------------------------------------------------------------------------------
def few_descriptors(weir):
    return wrapper(f'exec prlimit --nofile=256:256 {weir} "$@"')


def silent(target, count):
    """Connections that have asked for something once, and are kept."""
    return [Raw(target, wait=1).send(b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n') for _ in range(count)]


@attack(seconds=20, quick=4, program=few_descriptors)
def descriptors_of_256(target):
    """A server that may have 256 descriptors, and 1,000 connections of one client, kept and opened again."""
    more_descriptors()
    peers, opened = [], 0
    while not target.over():
        peers = [p for p in peers if p.still_open()]
        new = silent(target, min(50, 1000 - len(peers)))
        opened += len(new)
        peers += new
        time.sleep(0.02)
    return f'{opened} opened, {len(peers)} at the end'


@contextlib.contextmanager
def no_descriptors(pid):
    """The server can open none: they are taken from below, and those above the limit stay."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = set(map(int, os.listdir(f'/proc/{pid}/fd')))
    lowest = next(n for n in itertools.count() if n not in taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@attack(seconds=25, quick=6, flags=journal)
def descriptors_taken_away(target):
    """No descriptor can be opened for a quarter of a second every three, while 100 connections come, and files and jobs of kept ones."""
    more_descriptors()
    infer = post('/v2/models/identity/infer', INFER, JSON)
    asked = [infer, post('/v1/files', form(b'x'), FORM), post('/v2/models/identity/infer', INFER, JSON, ('Prefer', 'respond-async'))]
    kept, statuses, windows = Raw(target, wait=10), {}, 0
    kept.send(infer).answer()  # it was accepted
    while not target.over() or windows == 0:
        with no_descriptors(target.pid):
            late, end = silent(target, 100), time.monotonic() + 0.25
            while time.monotonic() < end:
                for request in asked:
                    status = kept.send(request).answer()[0]
                    statuses[status] = statuses.get(status, 0) + 1
                    if status == 0 or (request is infer and status != 200) or status >= 500 and status not in (503, 507):
                        target.broke(f'{status} on a connection that is kept')
                        kept = Raw(target, wait=10)
        windows += 1
        next_window = time.monotonic() + 2.75
        while time.monotonic() < next_window and not target.over():
            late = [peer for peer in late if peer.still_open()]
            time.sleep(0.05)
        if kept.send(asked[1]).answer()[0] not in (200, 429):
            target.broke('there are descriptors again, and no file is taken')
    return f'{windows} times, {statuses}'


# --- a disk ------------------------------------------------------------------------------------------------------------
def small_disk():
    """A file system of 24 MiB, taken away at this program's end."""
    folder = harness.scratch() / f'disk-{os.getpid()}-{next(_numbers)}'
    folder.mkdir()
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=24m', 'weir', folder], check=True)
    atexit.register(subprocess.run, ['umount', '-l', folder], check=False)
    return folder


def disk_flags():
    folder = small_disk()
    (folder / 'jobs').mkdir()
    return ('--jobs-path', folder / 'jobs', '--access-log', folder / 'access.log')


def not_root():
    return '' if os.geteuid() == 0 and subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'weir', _probe()],
                                                       stderr=subprocess.DEVNULL).returncode == 0 and _unmounted() else \
        'only root can mount a small disk'


def _probe():
    folder = harness.scratch() / 'mount-probe'
    folder.mkdir(exist_ok=True)
    return folder


def _unmounted():
    return subprocess.run(['umount', '-l', _probe()]).returncode == 0


def fill(path, free=0):
    """Takes what is left of the disk, but for so many bytes."""
    left = os.statvfs(path.parent)
    with contextlib.suppress(OSError), open(path, 'wb', buffering=0) as out:
        out.write(bytes(max(0, left.f_bavail * left.f_bsize - free)))
        while not free:
            out.write(bytes(4096))


@attack(seconds=20, quick=5, flags=disk_flags, lacks=not_root)
def full_disk(target):
    """A full disk under jobs and the access log: uploads, batches and jobs are refused, and go on when there is room."""
    disk = pathlib.Path(target.flag('--access-log')).parent
    filler, statuses = disk / 'filler', {}

    def tried(what, request):
        status, body = ask(target, request, wait=10)
        statuses.setdefault(what, {}).setdefault(status, 0)
        statuses[what][status] += 1
        return status, body
    upload = post('/v1/files', form(bytes(300 << 10)), FORM)
    job = post('/v2/models/identity/infer', INFER, JSON, ('Prefer', 'respond-async'))
    rounds = 0
    while not target.over() or rounds == 0:
        fill(filler, free=(0, 64 << 10, 1 << 20)[rounds % 3])
        for _ in range(5):
            if (status := tried('upload', upload)[0]) == 0 or (status >= 500 and status not in (503, 507)):
                target.broke(f'an upload to a full disk: {status}')
            if (status := tried('job', job)[0]) == 0 or (status >= 500 and status not in (503, 507)):
                target.broke(f'a job on a full disk: {status}')
            tried('infer', post('/v2/models/identity/infer', INFER, JSON))
        filler.unlink(missing_ok=True)
        end = time.monotonic() + 10
        while (made := tried('upload behind it', post('/v1/files', form(b'x'), FORM)))[0] != 200 and time.monotonic() < end:
            time.sleep(0.05)
        if made[0] != 200:
            target.broke(f'there is room again, and an upload is {made[0]} {made[1][:200]}')
            break
        for name in range(3):  # what has got through goes again
            status, listed = ask(target, b'GET /v1/files HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
            for file in json.loads(listed)['data'] if status == 200 else []:
                ask(target, f'DELETE /v1/files/{file["id"]} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'.encode())
        rounds += 1
    if set(statuses['infer']) != {200}:
        target.broke(f'inferences beside a full disk: {statuses["infer"]}')
    return f'{rounds} rounds: {statuses}'


# --- memory ------------------------------------------------------------------------------------------------------------
GROUPS = pathlib.Path('/sys/fs/cgroup/memory')  # version 1, as a container's root may write it


def no_groups():
    folder = GROUPS / f'weir-probe-{os.getpid()}'
    try:
        folder.mkdir()
        folder.rmdir()
        return ''
    except OSError:
        return f'no group of memory can be made in {GROUPS}'


def group_of(size, name):
    """A program that runs the binary in a group of its own, which may have so much memory."""
    def make(weir):
        folder = GROUPS / f'weir-{name}-{os.getpid()}-{next(_numbers)}'
        folder.mkdir()
        (folder / 'memory.limit_in_bytes').write_text(str(size))
        atexit.register(_remove, folder)
        return wrapper(f'echo $$ > {folder}/cgroup.procs', f'exec {weir} "$@"')
    return make


def _remove(folder):
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            return folder.rmdir()
        except OSError:
            time.sleep(0.1)


def group_text(pid, name):
    path = next(line.split(':', 2)[2] for line in open(f'/proc/{pid}/cgroup') if ':memory:' in line).strip()
    return (pathlib.Path(str(GROUPS) + path) / name).read_text()


def group_file(pid, name):
    return int(group_text(pid, name))


def group_kills(pid):
    """How many processes of the group the kernel has ended for want of memory."""
    return int(re.search(r'oom_kill (\d+)', group_text(pid, 'memory.oom_control'))[1])


@attack(seconds=20, quick=5, program=group_of(768 * MIB, 'bodies'), lacks=no_groups)
def memory_of_768_mib(target):
    """A server in a group of 768 MiB: hundreds of bodies of 8 MiB whose last byte does not come, and answers that are not read."""
    more_descriptors()
    size = 8 * MIB
    head = (b'POST /v2/models/identity/infer HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: 0\r\n'
            b'Content-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n' % size)
    octets, left, begun = bytes(1 << 18), {}, 0
    while not target.over():
        left = {raw: rest for raw, rest in left.items() if raw.still_open()}
        while len(left) < target.size(300, 150) and not target.over():
            left[Raw(target, wait=2).send(head)] = size
            begun += 1
        for raw in [r for r in left if left[r] > 1]:
            left[raw] -= raw.offer(octets[:left[raw] - 1]) or 0
        time.sleep(0.001)
    return f'{begun} begun, the most of the group: {group_file(target.pid, "memory.max_usage_in_bytes") // MIB} MiB'
