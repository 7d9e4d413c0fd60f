"""A stranger's first minutes, from nothing: `./dev fresh`.

Makes a minimal Debian in a folder (mmdebstrap, variant minbase), puts a clean clone of HEAD into it, and does there what
the README says: `./dev serve` as root, the five requests, Ctrl-C; the same as a user with sudo; `./dev test --quick`.
Nothing is installed beforehand but git, curl, sudo and certificates. Prints a table of times and `N passed, N failed`.

usage: run.py [--suite bookworm|trixie|noble] [--ccache DIR] [--only serve|visits] [--keep]
    --suite NAME    bookworm (Debian 12, the default), trixie (Debian 13), noble (Ubuntu 24.04)
    --ccache DIR    a compiler cache of this machine to use, as CI does; without it everything is compiled
    --only serve    stop after the first `./dev serve` and its requests
    --only visits   leave out `./dev test --quick`, as CI does, which runs every test outside
    --keep          leave the folder there (.cache/fresh/SUITE) to look into

Needs root: the commands run under chroot, with mounts and processes of their own that end with them. The machine's
network settings (resolver, proxies, certificates) are carried in, and no more.
"""

import argparse
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/e2e'))
import readme  # noqa: E402  (tests/e2e/readme.py)

UBUNTU = ('jammy', 'noble')
GIVEN = ['apt', 'ca-certificates', 'curl', 'git', 'sudo']  # what a stranger has who reads the README on a new machine
FIRST_ANSWER_S = 45 * 60  # far above what it takes: without a compiler cache, on a machine that has other work
USER = 'visitor'
PROXIES = [name for name in os.environ if name.lower() in ('http_proxy', 'https_proxy', 'no_proxy')]


class Trouble(Exception):
    pass


def say(text):
    print(f'fresh: {text}', flush=True)


def outer(*command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise Trouble(f'{shlex.join(map(str, command))}: exit code {done.returncode}\n{done.stdout.decode(errors="replace")[-4000:]}')


def free_port():
    """A port that nobody listens at now, below those that the kernel gives to clients, who would take it meanwhile."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as probe:
            if probe.connect_ex(('127.0.0.1', port)) != 0:
                return port


def ubuntu_keys(folder):
    """The keys that sign Ubuntu's archive, as a folder: this machine's, or those of the package of Debian 13 (Debian 12 has
    none), for whose signature this machine has the keys."""
    own = pathlib.Path('/usr/share/keyrings')
    if (own / 'ubuntu-archive-keyring.gpg').exists():
        return own
    work = folder / 'ubuntu-keys'
    shutil.rmtree(work, ignore_errors=True)
    for part in ('lists/partial', 'cache/archives/partial', 'out'):
        (work / part).mkdir(parents=True)
    (work / 'sources.list').write_text('deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main\n')
    apt = ['apt-get', '-qq', '-o', f'Dir::Etc::sourcelist={work}/sources.list', '-o', 'Dir::Etc::sourceparts=/dev/null',
           '-o', f'Dir::State::Lists={work}/lists', '-o', f'Dir::Cache={work}/cache', '-o', 'Acquire::Languages=none', '-o', 'APT::Sandbox::User=root']
    outer(*apt, 'update')
    outer('bash', '-c', f'cd {shlex.quote(str(work))} && {shlex.join(apt)} download ubuntu-keyring && dpkg-deb -x ubuntu-keyring_*.deb out')
    return work / 'out/usr/share/keyrings'


class Machine:
    """The folder, and commands inside of it."""

    def __init__(self, folder, ccache):
        self.folder, self.ccache = folder, ccache

    def make_bare(self, suite, packages):
        """A minimal system with some packages more."""
        if self.folder.exists():
            self.remove()
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        # Ubuntu's own installer takes packages from both components.
        ubuntu = ['--components=main,universe', f'--keyring={ubuntu_keys(self.folder.parent)}'] if suite in UBUNTU else []
        outer('mmdebstrap', '--variant=minbase', *ubuntu, '--include=' + ','.join(packages), suite, self.folder)

    def make(self, suite):
        """The machine of a stranger who reads the README, and who has the network of this one."""
        self.make_bare(suite, GIVEN)
        shutil.copy('/etc/resolv.conf', self.folder / 'etc/resolv.conf')
        bundle = pathlib.Path('/etc/ssl/certs/ca-certificates.crt')
        if bundle.exists():
            shutil.copy(bundle, self.folder / 'etc/ssl/certs/of-this-network.crt')
        self.run('root', f'useradd --create-home --shell /bin/bash {USER} && '
                         f'echo "{USER} ALL=(ALL) NOPASSWD: ALL" > /etc/sudoers.d/{USER} && echo 127.0.0.1 localhost > /etc/hosts')

    def clone(self, user):
        home = pathlib.Path('root' if user == 'root' else f'home/{user}')
        outer('git', 'clone', '--quiet', '--no-hardlinks', ROOT, self.folder / home / 'weir')
        self.run('root', f'chown -R {user}: /{home}/weir')
        return f'/{home}/weir'

    def command(self, user, script, cwd='/'):
        """A shell command inside, whose mounts and processes are gone when it ends."""
        env = [f'{name}={os.environ[name]}' for name in PROXIES]
        env += ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'LANG=C.UTF-8',
                'HOME=' + ('/root' if user == 'root' else f'/home/{user}'), f'USER={user}',
                'NODE_EXTRA_CA_CERTS=/etc/ssl/certs/of-this-network.crt']
        mounts = ['mount -t proc proc "$R/proc"', 'mount --rbind /dev "$R/dev"', 'mount --rbind /sys "$R/sys"']
        if self.ccache:
            env += ['CCACHE_DIR=/var/cache/ccache'] + ([] if user == 'root' else ['CCACHE_READONLY=1', 'CCACHE_TEMPDIR=/tmp'])
            mounts += ['mkdir -p "$R/var/cache/ccache"', f'mount --bind {shlex.quote(str(self.ccache))} "$R/var/cache/ccache"']
        else:
            env += ['CCACHE_DISABLE=1']
        inner = f'cd {shlex.quote(cwd)} && {script}'
        script = f'R={shlex.quote(str(self.folder))}; ' + ' && '.join(mounts) + \
            f' && exec chroot --userspec={user} "$R" env -i {shlex.join(env)} bash -c {shlex.quote(inner)}'
        return ['unshare', '--mount', '--pid', '--fork', '--kill-child', 'bash', '-c', script]

    def run(self, user, script, cwd='/', limit=3600):
        done = subprocess.run(self.command(user, script, cwd), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
                              stdin=subprocess.DEVNULL)
        out = done.stdout.decode(errors='replace')
        if done.returncode:
            raise Trouble(f'as {user}: {script}: exit code {done.returncode}\n{out[-6000:]}')
        return out

    def remove(self):
        # Mounts lived in namespaces that are gone; a mount that is still there must not be deleted into.
        if any(str(self.folder) in line for line in open('/proc/self/mounts')):
            raise Trouble(f'{self.folder} has mounts; it is left there')
        shutil.rmtree(self.folder)


def descendant(pid, name):
    """The process of that name among a process and its descendants."""
    pending = [pid]
    while pending:
        pid = pending.pop()
        if pathlib.Path(f'/proc/{pid}/comm').read_text().strip() == name:
            return pid
        for task in pathlib.Path(f'/proc/{pid}/task').iterdir():
            pending += map(int, (task / 'children').read_text().split())
    raise Trouble('no process of that name')


class Serve:
    """`./dev serve` inside; like a person's terminal, it is ended by Ctrl-C."""

    def __init__(self, machine, user, cwd):
        self.machine, self.user, self.cwd, self.port = machine, user, cwd, free_port()
        self.log_path = machine.folder.parent / f'{machine.folder.name}-serve-{user}.log'
        self.log = open(self.log_path, 'wb')
        self.begun = time.monotonic()
        self.process = subprocess.Popen(machine.command(user, f'exec ./dev serve --listen 127.0.0.1:{self.port}', cwd), stdout=self.log,
                                        stderr=self.log, stdin=subprocess.DEVNULL, start_new_session=True)

    def tail(self):
        return self.log_path.read_text(errors='replace')[-6000:]

    def wait_for_first_answer(self):
        """Seconds from the command to the answer of GET /v2/health/ready."""
        while time.monotonic() - self.begun < FIRST_ANSWER_S:
            if self.process.poll() is not None:
                raise Trouble(f'./dev serve ended with exit code {self.process.returncode}\n{self.tail()}')
            done = subprocess.run(['curl', '-sf', '-o', '/dev/null', f'http://127.0.0.1:{self.port}/v2/health/ready'])
            if done.returncode == 0:
                return time.monotonic() - self.begun
            time.sleep(0.2)
        raise Trouble(f'no answer after {FIRST_ANSWER_S} s\n{self.tail()}')

    def interrupt(self):
        os.kill(descendant(self.process.pid, 'weir'), signal.SIGINT)
        code = self.process.wait(60)
        if code:
            raise Trouble(f'after Ctrl-C the exit code is {code}\n{self.tail()}')

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()


def five_requests(machine, user, cwd, port):
    """The README's section of that name, inside."""
    section = re.search(r'^## Five requests\n(.*?)^## ', (ROOT / 'README.md').read_text(), re.M | re.S)
    ran = 0
    for _, command, expected in readme.commands(section[1]):
        if readme.not_run(command):
            continue
        here = command.replace('localhost:8080', f'127.0.0.1:{port}').replace('127.0.0.1:8080', f'127.0.0.1:{port}')
        got = machine.run(user, here, cwd, limit=60).replace(f'127.0.0.1:{port}', 'localhost:8080')
        if not readme.matches(expected, got):
            raise Trouble(f'$ {command}\n--- expected\n{expected}\n--- got\n{got}')
        ran += 1
    if ran < 5:
        raise Trouble(f'the README has {ran} requests under "Five requests"')


class Report:
    def __init__(self):
        self.rows, self.failed = [], 0

    def step(self, name, work):
        say(name)
        begun = time.monotonic()
        try:
            note = work()
        except (Trouble, OSError, subprocess.TimeoutExpired) as trouble:
            self.failed += 1
            self.rows.append((name, time.monotonic() - begun, 'FAILED'))
            print(trouble, flush=True)
            return False
        self.rows.append((name, time.monotonic() - begun, note or ''))
        return True

    def print(self):
        for name, seconds, note in self.rows:
            print(f'{seconds:7.1f} s  {name}  {note}')
        print(f'{len(self.rows) - self.failed} passed, {self.failed} failed')


def visit(machine, user, report):
    """`./dev serve`, the requests and Ctrl-C. Where the clone is, or None."""
    cwd = []
    if not report.step(f'{user}: git clone', lambda: cwd.append(machine.clone(user))):
        return None
    serve = Serve(machine, user, cwd[0])
    try:
        good = (report.step(f'{user}: ./dev serve to the first answer', lambda: f'{serve.wait_for_first_answer():.0f} s') and
                report.step(f'{user}: the five requests', lambda: five_requests(machine, user, cwd[0], serve.port)) and
                report.step(f'{user}: Ctrl-C', serve.interrupt))
    finally:
        serve.stop()
    return cwd[0] if good else None


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('--suite', default='bookworm', choices=['bookworm', 'trixie', 'noble'])
    words.add_argument('--ccache', type=pathlib.Path)
    words.add_argument('--only', choices=['serve', 'visits'])
    words.add_argument('--keep', action='store_true')
    args = words.parse_args()
    if os.geteuid():
        sys.exit('fresh: needs root, for chroot and mounts')
    if args.ccache:
        args.ccache.mkdir(parents=True, exist_ok=True)
    machine, report = Machine(ROOT / '.cache/fresh' / args.suite, args.ccache), Report()
    if report.step(f'a minimal {args.suite}', lambda: machine.make(args.suite)):
        home = visit(machine, 'root', report)
        if home and args.only != 'serve':
            if visit(machine, USER, report) and args.only != 'visits':
                report.step('root: ./dev test --quick', lambda: machine.run('root', './dev test --quick', home).splitlines()[-1])
    if not args.keep and machine.folder.exists():
        report.step('clean up', machine.remove)
    report.print()
    sys.exit(1 if report.failed else 0)


if __name__ == '__main__':
    main()
