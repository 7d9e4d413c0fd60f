"""A service manager for one service: what systemd does with weir.service, as far as the server can tell the difference.

It reads the unit file and runs ExecStart= and ExecReload= inside a folder with a Debian, as the unit's user; it makes the
unit's folders, plays NOTIFY_SOCKET (READY, RELOADING, STOPPING, STATUS, WATCHDOG), keeps the sockets of FDSTORE and hands
them to the next process. The unit's sandbox is systemd's alone: systemd-analyze judges it.

`systemctl` inside the folder (`install_systemctl`) asks this manager, so that packages' scripts are run as they are.
"""

import collections
import contextlib
import fcntl
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import threading
import time

PATIENCE = 60  # seconds that any one step may take


class Failed(Exception):
    pass


def read_unit(path):
    """{key: [values]} of a unit file; an empty value resets the list, as in systemd."""
    values = collections.defaultdict(list)
    for line in path.read_text().splitlines():
        if found := re.match(r'([A-Za-z]+)=(.*)$', line):
            key, value = found.groups()
            values[key] = values[key] + [value.strip()] if value.strip() else []
    return values


class Service:
    def __init__(self, folder, unit, notify, watchdog_s):
        """`notify` is the value of NOTIFY_SOCKET: a path inside the folder, or @name."""
        self.folder, self.unit_path, self.watchdog_s = folder, folder / unit.lstrip('/'), watchdog_s
        self.changed = threading.Condition()
        self.said = []      # (seconds, {key: value}) of every message
        self.store = []     # descriptors that the service has left here
        self.process, self.log = None, open(folder.parent / 'weir.log', 'ab')
        self.notify, self.socket = notify, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if notify.startswith('@'):
            self.socket.bind('\0' + notify[1:])
        else:
            path = folder / notify.lstrip('/')
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            self.socket.bind(str(path))
            path.chmod(0o777)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            text, fds, _, _ = socket.recv_fds(self.socket, 4096, 253)
            message = dict(line.split('=', 1) for line in text.decode().splitlines() if '=' in line)
            with self.changed:
                if 'FDSTORE' in message:
                    self._keep(fds)
                self.said.append((time.monotonic(), message))
                self.changed.notify_all()

    def _keep(self, fds):
        """As systemd does: what is there already is not kept twice. Numbers from 100 on leave room for a child's 3, 4, …"""
        known = {os.fstat(fd).st_ino for fd in self.store}
        for fd in fds:
            if os.fstat(fd).st_ino not in known:
                self.store.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100))
            os.close(fd)

    def wait_for(self, key, after, patience=PATIENCE):
        """The first message with `key` later than the time `after`."""
        end = time.monotonic() + patience
        with self.changed:
            while True:
                for at, message in self.said:
                    if at >= after and key in message:
                        return message
                if self.process is not None and self.process.poll() is not None:
                    raise Failed(f'the service ended with {self.process.returncode}\n{self.tail()}')
                if not self.changed.wait(min(1, max(0, end - time.monotonic()))) and time.monotonic() > end:
                    raise Failed(f'the service did not say {key}\n{self.tail()}')

    def tail(self):
        return (self.folder.parent / 'weir.log').read_text(errors='replace')[-4000:]

    def _argv(self, user, script):
        """A shell command inside, as `user`, in this machine's process ids: MAINPID means the same here and there."""
        mounts = 'mount -t proc proc "$R/proc" && mount --rbind /dev "$R/dev" && mount --rbind /sys "$R/sys"'
        env = ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'LANG=C.UTF-8']
        outer = f'R={shlex.quote(str(self.folder))}; {mounts} && exec chroot --userspec={user} "$R" env -i {shlex.join(env)} ' \
                f'bash -c {shlex.quote(script)}'
        return ['unshare', '--mount', 'bash', '-c', outer]

    def _make_folders(self, unit, user):
        for key, base in (('StateDirectory', 'var/lib'), ('RuntimeDirectory', 'run'), ('LogsDirectory', 'var/log')):
            for name in ' '.join(unit[key]).split():
                path = self.folder / base / name
                path.mkdir(parents=True, exist_ok=True)
                subprocess.run(['chroot', self.folder, 'chown', f'{user}:', f'/{base}/{name}'], check=True)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        unit = read_unit(self.unit_path)
        user = unit['User'][-1]
        self._make_folders(unit, user)
        environment = {'NOTIFY_SOCKET': self.notify, 'WATCHDOG_USEC': int(self.watchdog_s * 1e6)}
        moves = ''
        if self.store:
            environment['LISTEN_FDS'] = len(self.store)
            environment['LISTEN_FDNAMES'] = ':'.join(['listen'] * len(self.store))
            moves = 'exec ' + ' '.join(f'{3 + i}<&{fd} {fd}<&-' for i, fd in enumerate(self.store)) + '; '
        exports = ' '.join(f'{k}={shlex.quote(str(v))}' for k, v in environment.items())
        script = f'{moves}umask {unit["UMask"][-1]}; {exports} LISTEN_PID=$$ WATCHDOG_PID=$$ exec {unit["ExecStart"][-1]}'
        begun = time.monotonic()
        self.process = subprocess.Popen(self._argv(user, script), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        pass_fds=self.store, start_new_session=True)
        self.wait_for('READY', begun)

    def reload(self):
        """The output of a command that failed is in the exception; those after it are not run."""
        begun = time.monotonic()
        unit = read_unit(self.unit_path)
        for command in unit['ExecReload']:
            done = subprocess.run(self._argv(unit['User'][-1], f'export MAINPID={self.process.pid}; {command}'), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=PATIENCE)
            if done.returncode:
                raise Failed(f'{command}: exit code {done.returncode}\n{done.stdout.decode(errors="replace")[-2000:]}')
        self.wait_for('RELOADING', begun)
        self.wait_for('READY', begun)

    def end(self):
        """SIGTERM, and the wait for its end."""
        if not self.running():
            return
        limit = int(read_unit(self.unit_path)['TimeoutStopSec'][-1])
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f'the service did not end within TimeoutStopSec={limit}\n{self.tail()}') from None
        if code:
            raise Failed(f'the service ended with {code}\n{self.tail()}')

    def restart(self):
        self.end()
        self.start()

    def stop(self):
        """For good: what the service has left here is let go."""
        try:
            self.end()
        finally:
            for fd in self.store:
                os.close(fd)
            self.store = []

    def kill(self):
        if self.running():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


STUB = '''#!/bin/bash
# Hands its words to the service manager outside, and prints and returns its answer.
echo "$*" > /run/manager/ask
read -r code text < /run/manager/answer
[ -z "$text" ] || echo "$text"
exit "$code"
'''


class Systemctl:
    """`systemctl` inside the folder. Everything that it was asked is in `asked`; what failed, in `failures`."""

    def __init__(self, service):
        self.service, self.asked, self.failures = service, [], []
        home = service.folder / 'run/manager'
        home.mkdir(parents=True, exist_ok=True)
        (service.folder / 'run/systemd/system').mkdir(parents=True, exist_ok=True)
        self.ask, self.answer = home / 'ask', home / 'answer'
        for fifo in (self.ask, self.answer):
            fifo.unlink(missing_ok=True)
            os.mkfifo(fifo)
        program = service.folder / 'usr/bin/systemctl'
        program.write_text(STUB)
        program.chmod(0o755)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            words = self.ask.read_text().split()
            code, text = self._do(words)
            with contextlib.suppress(BrokenPipeError):
                self.answer.write_text(f'{code} {text}\n')

    def _do(self, words):
        self.asked.append(words)
        verb = next((w for w in words if not w.startswith('-')), '')
        act = {'start': self.service.start, 'stop': self.service.stop, 'restart': self.service.restart,
               'try-restart': self.service.restart, 'reload': self.service.reload}.get(verb)
        if verb == 'start' and self.service.running():
            act = None
        if verb == 'is-active':
            return (0, 'active') if self.service.running() else (3, 'inactive')
        if verb == 'is-enabled':
            return 0, 'enabled'
        try:
            if act:
                act()
            return 0, ''
        except Failed as failure:
            self.failures.append(str(failure))
            return 1, ''
