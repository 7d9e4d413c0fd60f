"""Debian's packages, as others install them: `./dev package --test`.

Lintian and systemd-analyze look at the package; then a minimal Debian in a folder (tests/fresh) installs it by apt, starts
it, answers the README's five requests, reloads it, is upgraded under load by clients that count what they lost, and
removes and purges it. The service manager is service.py; a `systemctl` inside the folder asks it, so that the package's
scripts do what they do elsewhere. Ends with `N passed, N failed`.

usage: install.py DEB [--cuda DEB] [--keep]
    --cuda     the package of CUDA's module, which is installed beside the other one and removed again
    --keep     leave the folder there (.cache/package/bookworm) to look into

Needs root, for chroot and mounts.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / 'tests/fresh'), str(ROOT / 'tests/e2e')]
import load  # noqa: E402
import run as fresh  # noqa: E402  (tests/fresh/run.py)
import service as services  # noqa: E402

WATCHDOG_S = 2
MOST_EXPOSED = 25  # of 100: systemd-analyze security's tenths; an average service of Debian's has 90
ANSWERS = 200      # before, during and after the upgrade, each
SETTLED = ('/proc', '/sys', '/dev', '/tmp', '/run', '/root', '/var/cache', '/var/log/apt', '/var/lib/apt', '/var/lib/dpkg',
           '/var/log/dpkg.log', '/var/log/alternatives.log', '/etc/ld.so.cache', '/usr/bin/systemctl')


def checked(*command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    out = done.stdout.decode(errors='replace')
    if done.returncode:
        raise fresh.Trouble(f'{" ".join(map(str, command))}: exit code {done.returncode}\n{out[-4000:]}')
    return out


def told(work):
    """`work`, whose failures of the service are failures of its step."""
    def step():
        try:
            return work()
        except services.Failed as failure:
            raise fresh.Trouble(str(failure)) from failure
    return step


def expect(truth, text):
    if not truth:
        raise fresh.Trouble(text)


class Visit:
    def __init__(self, folder, deb, cuda=None):
        self.cuda_deb = cuda
        self.folder, self.machine = folder, fresh.Machine(folder, None)
        self.port = fresh.free_port()
        self.first, self.second = deb, folder.parent / 'second.deb'
        self.service = self.systemctl = None

    # --- the package by itself
    def lintian(self):
        done = subprocess.run(['lintian', '--fail-on', 'error,warning', '--tag-display-limit', '0', str(self.first)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        expect(done.returncode == 0, done.stdout.decode(errors='replace'))

    def second_version(self):
        """The same files under a version that sorts after it."""
        tree = self.folder.parent / 'second'
        shutil.rmtree(tree, ignore_errors=True)
        checked('dpkg-deb', '-R', self.first, tree)
        control = tree / 'DEBIAN/control'
        control.write_text(re.sub(r'^Version: (.*)$', r'Version: \1+second', control.read_text(), flags=re.M))
        checked('dpkg-deb', '--root-owner-group', '-Znone', '-b', tree, self.second)
        shutil.rmtree(tree)

    # --- installing
    def make(self):
        self.machine.make('bookworm')
        self.machine.run('root', 'apt-get -q update')
        self.before = self.files()

    def files(self):
        prune = ' -o '.join(f'-path {path}' for path in SETTLED)
        return set(self.machine.run('root', f'find / \\( {prune} \\) -prune -o -print').splitlines())

    def apt(self, words):
        return self.machine.run('root', f'DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends {words}', limit=300)

    def carry_in(self, deb):
        shutil.copy(deb, self.folder / 'root/weir.deb')

    def install(self):
        self.carry_in(self.first)
        self.machine.run('root', 'mv /root/weir.deb /root/weir_first_amd64.deb')
        self.apt('install /root/weir_first_amd64.deb')
        run = self.machine.run
        expect(re.match(r'weir \d', run('root', 'weir --version')), 'weir --version')
        run('root', 'test "$(stat -c %U:%G:%a /etc/weir/weir.yaml)" = root:weir:640')
        run('root', 'getent passwd weir | grep -q :/var/lib/weir:')
        run('root', 'dpkg-query -W -f "\\${Conffiles}" weir | grep -q /etc/weir/weir.yaml')
        run('root', 'test -L /etc/systemd/system/multi-user.target.wants/weir.service')
        run('root', 'setpriv --reuid weir --regid weir --clear-groups weir check /etc/weir/weir.yaml')
        size = run('root', 'dpkg-query -W -f "\\${Installed-Size}" weir')
        return f'{int(size) >> 10} MiB'

    def unit(self):
        found = self.machine.run('root', 'dpkg -L weir | grep /weir.service$').strip()
        here = self.folder / found.lstrip('/')
        program = self.folder.parent / 'verify/weir.service'
        program.parent.mkdir(exist_ok=True)
        # Its programs are looked for on this machine.
        text = here.read_text().replace('/usr/bin/weir', '/bin/true')
        program.write_text(text)
        said = checked('systemd-analyze', 'verify', '--man=no', program)
        expect('weir.service' not in said, said)
        checked('systemd-analyze', 'security', '--offline=true', f'--threshold={MOST_EXPOSED}', '--no-pager', program)
        self.found = found
        return re.search(r'level for weir.service: ([\d.]+)', checked('systemd-analyze', 'security', '--offline=true', '--no-pager', program))[1]

    def hardening(self):
        """An attacker who can write to memory finds positions that change, tables that are read-only, no stack that runs, and
        overflows that end the process: the rows of `checksec`."""
        program = self.folder / 'usr/bin/weir'
        headers = checked('readelf', '-hldW', program)
        expect(re.search(r'Type:\s+DYN', headers) and re.search(r'FLAGS_1\).*\bPIE\b', headers), 'not position-independent')
        expect('GNU_RELRO' in headers and re.search(r'FLAGS_1\).*\bNOW\b', headers), 'symbols are bound while it runs')
        expect(re.search(r'GNU_STACK\s.*\sRW\s', headers), 'the stack can be run')
        symbols = checked('readelf', '--dyn-syms', '-W', program)
        expect('__stack_chk_fail@' in symbols, 'the stack has no guard')
        fortified = sorted(set(re.findall(r'\b__(\w+)_chk@', symbols)))
        expect({'memcpy', 'memset'} & set(fortified), 'copies are not checked')
        return f'{len(fortified)} functions of libc are checked'

    def cuda(self):
        """CUDA's module: what is in its package, which package it goes with, and that it loads but for the driver."""
        if not self.cuda_deb:
            return 'not built'
        done = subprocess.run(['lintian', '--fail-on', 'error,warning', '--tag-display-limit', '0', str(self.cuda_deb)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        expect(done.returncode == 0, done.stdout.decode(errors='replace'))
        version = checked('dpkg-deb', '-f', self.first, 'Version').strip()
        needs = checked('dpkg-deb', '-f', self.cuda_deb, 'Depends')
        expect(f'weir (= {version})' in needs and 'cuda' not in needs, needs)
        files = [line.split()[-1] for line in checked('dpkg-deb', '-c', self.cuda_deb).splitlines() if not line.endswith('/')]
        files = sorted(name for name in files if not name.startswith('./usr/share/doc/'))
        expect(files == ['./usr/lib/systemd/system/weir.service.d/50-cuda.conf', './usr/lib/weir/libweir_cuda.so'], str(files))
        shutil.copy(self.cuda_deb, self.folder / 'root/weir-cuda_amd64.deb')
        self.apt('install /root/weir-cuda_amd64.deb')
        expect('not found' not in self.machine.run('root', 'ldd /usr/lib/weir/libweir_cuda.so'), 'a library is missing')
        self.machine.run('root', 'setpriv --reuid weir --regid weir --clear-groups weir check /etc/weir/weir.yaml')
        program = self.folder.parent / 'verify/weir.service'
        drop_in = program.with_name('weir.service.d') / '50-cuda.conf'
        drop_in.parent.mkdir(exist_ok=True)
        shutil.copy(self.folder / 'usr/lib/systemd/system/weir.service.d/50-cuda.conf', drop_in)
        said = checked('systemd-analyze', 'verify', '--man=no', program)
        shutil.rmtree(drop_in.parent)
        expect('weir.service' not in said, said)
        self.apt('remove weir-cuda')
        self.machine.run('root', 'test ! -e /usr/lib/weir/libweir_cuda.so && test -x /usr/bin/weir')
        return None

    # --- running
    def edit(self, pattern, replacement):
        config = self.folder / 'etc/weir/weir.yaml'
        text, count = re.subn(pattern, replacement, config.read_text(), count=1, flags=re.M)
        expect(count == 1, f'{pattern} is not in weir.yaml')
        config.write_text(text)

    def start(self):
        self.edit(r'^listen: \["127\.0\.0\.1:8080"\]', f'listen: ["127.0.0.1:{self.port}"]')
        self.service = services.Service(self.folder, self.found, '/run/systemd/notify', WATCHDOG_S)
        self.systemctl = services.Systemctl(self.service)
        self.service.start()
        status = [m['STATUS'] for _, m in self.service.said if 'STATUS' in m]
        expect(re.fullmatch(r'\d+ of \d+ models are ready', status[-1]), str(status))
        expect(len(self.service.store) > 0, 'no socket was left with the manager')
        return status[-1]

    def requests(self):
        (self.folder / 'root/visit/conf').mkdir(parents=True)
        (self.folder / 'root/visit/conf/models').symlink_to('/usr/share/weir/models')
        fresh.five_requests(self.machine, 'root', '/root/visit', self.port)

    def reload(self):
        self.machine.run('root', 'systemctl reload weir.service')
        pid = self.service.process.pid
        good = (self.folder / 'etc/weir/weir.yaml').read_text()
        self.edit(r'^  body: 64MiB', '  bodi: 64MiB')
        begun = len(self.service.said)
        try:
            self.service.reload()
            raise fresh.Trouble('a file with an unknown key was reloaded')
        except services.Failed as failure:
            expect("did you mean 'body'" in str(failure), str(failure))
        expect(not any('RELOADING' in m for _, m in self.service.said[begun:]), 'the server was told of a bad file')
        expect(self.service.running() and self.service.process.pid == pid, 'the server is gone')
        (self.folder / 'etc/weir/weir.yaml').write_text(good)

    def upgrade(self):
        self.second_version()
        shutil.copy(self.second, self.folder / 'root/weir_second_amd64.deb')
        pid, clients = self.service.process.pid, load.Load(self.port)
        try:
            clients.wait_for(ANSWERS)
            self.apt('install /root/weir_second_amd64.deb')
            clients.wait_for(ANSWERS)
        finally:
            summary = clients.stop()
        expect(not clients.lost, f'{summary}\n' + '\n'.join(clients.lost[:20]))
        expect(self.service.process.pid != pid, f'the server was not restarted: {self.systemctl.asked}')
        expect(self.machine.run('root', 'dpkg-query -W -f "\\${Version}" weir').endswith('+second'), 'not the second version')
        expect(f'127.0.0.1:{self.port}' in (self.folder / 'etc/weir/weir.yaml').read_text(), 'the configuration was replaced')
        expect(any('STOPPING' in m for _, m in self.service.said), 'the first server did not say that it stops')
        return summary

    def watchdog(self):
        for _ in range(2):
            self.service.wait_for('WATCHDOG', fresh.time.monotonic(), 4 * WATCHDOG_S)

    # --- leaving
    def remove(self):
        self.apt('remove weir')
        expect(not self.service.running(), f'the server still runs: {self.systemctl.asked}')
        self.machine.run('root', 'test ! -e /usr/bin/weir && test -e /etc/weir/weir.yaml')

    def purge(self):
        self.apt('purge weir')
        self.apt('autoremove --purge')
        expect(not self.systemctl.failures, '\n'.join(self.systemctl.failures))
        left = sorted(self.files() - self.before)
        expect(not left, 'left behind:\n' + '\n'.join(left))
        self.machine.run('root', '! getent passwd weir && ! getent group weir')

    def end(self):
        if self.service:
            self.service.kill()


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('deb', type=pathlib.Path)
    words.add_argument('--cuda', type=pathlib.Path)
    words.add_argument('--keep', action='store_true')
    args = words.parse_args()
    if os.geteuid():
        sys.exit('package: needs root, for chroot and mounts')
    folder = ROOT / '.cache/package/bookworm'
    folder.parent.mkdir(parents=True, exist_ok=True)
    visit, report = Visit(folder, args.deb.resolve(), args.cuda and args.cuda.resolve()), fresh.Report()
    report.step('lintian', visit.lintian)
    try:
        good = report.step('a minimal bookworm', visit.make)
        for name, work in (('apt install', visit.install), ('the unit', visit.unit), ('hardening', visit.hardening),
                           ("CUDA's module", visit.cuda), ('start', visit.start),
                           ('the five requests', visit.requests), ('reload', visit.reload), ('watchdog', visit.watchdog),
                           ('upgrade under load', visit.upgrade), ('apt remove', visit.remove), ('apt purge', visit.purge)):
            good = good and report.step(name, told(work))
    finally:
        visit.end()
    if not args.keep and folder.exists():
        report.step('clean up', visit.machine.remove)
    report.print()
    sys.exit(1 if report.failed else 0)


if __name__ == '__main__':
    main()
