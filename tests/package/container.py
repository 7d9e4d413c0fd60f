"""conf/container/Containerfile without a registry: its stages, step by step, each in a bare Debian in a folder.

The images `docker.io/library/debian:bookworm` and `…-slim` are a minimal bookworm here. RUN lines are run as they are
written, COPY brings what .containerignore leaves, or the package, and ENTRYPOINT and CMD are started as the USER, with the
ENV, until the HEALTHCHECK is content. With DEB, a package that `./dev package` has made, the first stage is left out: it
compiles the server.

usage: container.py [DEB] [--ccache DIR] [--keep]
    --ccache DIR    a compiler cache of this machine for the first stage; without it everything is compiled
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / 'tests/fresh'), str(ROOT / 'tests/e2e')]
import run as fresh  # noqa: E402  (tests/fresh/run.py)

KNOWN = {'FROM', 'RUN', 'COPY', 'WORKDIR', 'ENV', 'EXPOSE', 'USER', 'HEALTHCHECK', 'STOPSIGNAL', 'ENTRYPOINT', 'CMD'}
PATIENCE_S = 60


def stages(text):
    """[(name, image, [(word, rest)])] of a Containerfile."""
    out = []
    for line in re.sub(r'\\\n', ' ', text).splitlines():
        if not line.strip() or line.startswith('#'):
            continue
        word, rest = line.split(None, 1)
        if word not in KNOWN:
            raise fresh.Trouble(f'Containerfile: {word} is not known')
        if word == 'FROM':
            image, _, name = rest.partition(' AS ')
            out.append((name, image, []))
        else:
            out[-1][2].append((word, rest))
    return out


def read_stages():
    first, second = stages((ROOT / 'conf/container/Containerfile').read_text())
    if first[0] != 'build' or not any('./dev package' in rest for _, rest in first[2]):
        raise fresh.Trouble('the first stage does not make the package')
    return first[2], second[2]


def left_out(folder, names):
    """Those of .containerignore: its patterns are for the top folder, or for every one."""
    out = set()
    for pattern in (ROOT / '.containerignore').read_text().split():
        everywhere, pattern = pattern.startswith('**/'), pattern.removeprefix('**/').strip('/')
        if everywhere or pathlib.Path(folder) == ROOT:
            out.update(fnmatch.filter(names, pattern))
    return out


def build_package(machine):
    """The first stage. Returns the package."""
    cwd, source = '/', None
    for word, rest in read_stages()[0]:
        if word == 'RUN':
            machine.run('root', rest, cwd)
        elif word == 'WORKDIR':
            cwd = rest
        elif word == 'COPY':
            source, target = rest.split()
            shutil.copytree(ROOT / source, machine.folder / target.lstrip('/'), symlinks=True, ignore=left_out)
    found = list((machine.folder / 'weir/build').glob('weir_*.deb'))
    if len(found) != 1:
        raise fresh.Trouble(f'the first stage left {len(found)} packages')
    return found[0]


class Container:
    def __init__(self, folder, deb):
        self.folder, self.deb, self.machine = folder, deb, fresh.Machine(folder, None)
        self.env, self.user, self.process = {}, 'root', None
        self.last = {}  # word -> its last argument

    def build(self):
        for word, rest in read_stages()[1]:
            self.last[word] = rest
            if word == 'RUN':
                self.machine.run('root', rest)
            elif word == 'COPY':
                source, target = re.fullmatch(r'--from=build (\S+) (\S+)', rest).groups()
                if not self.deb.match(pathlib.Path(source).name):
                    raise fresh.Trouble(f'{source} does not match {self.deb.name}')
                shutil.copy(self.deb, self.folder / target.lstrip('/'))
            elif word == 'ENV':
                self.env.update([rest.split('=', 1)])
            elif word == 'USER':
                self.user = rest

    def command(self, argv, env):
        assignments = ' '.join(f'{k}={shlex.quote(v)}' for k, v in env.items())
        return self.machine.command(self.user, f'{assignments} exec {shlex.join(argv)}')

    def serve(self):
        port = fresh.free_port()
        config = self.folder / 'etc/weir/weir.yaml'
        if '0.0.0.0:8080' not in config.read_text():
            raise fresh.Trouble(f'{config} does not listen at 0.0.0.0:8080')
        config.write_text(config.read_text().replace('0.0.0.0:8080', f'0.0.0.0:{port}'))
        argv = json.loads(self.last['ENTRYPOINT']) + json.loads(self.last['CMD'])
        log = open(self.folder.parent / 'container.log', 'wb')
        self.process = subprocess.Popen(self.command(argv, self.env), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        health = json.loads(re.search(r'CMD (\[.*\])', self.last['HEALTHCHECK'])[1])
        health = [word.replace('8080', str(port)) for word in health]
        end, code = time.monotonic() + PATIENCE_S, None
        while code != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                raise fresh.Trouble((self.folder.parent / 'container.log').read_text(errors='replace')[-4000:])
            code = subprocess.run(self.command(health, {}), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        self.pid = fresh.descendant(self.process.pid, 'weir')  # process 1 of the container, by its id on this machine
        owner = os.stat(f'/proc/{self.pid}').st_uid
        if owner != int(self.user.split(':')[0]):
            raise fresh.Trouble(f'it runs as {owner}')

    def stop(self):
        os.kill(self.pid, getattr(signal, self.last['STOPSIGNAL']))
        code = self.process.wait(PATIENCE_S)
        if code:
            raise fresh.Trouble(f'after {self.last["STOPSIGNAL"]} the exit code is {code}')

    def end(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('deb', type=pathlib.Path, nargs='?')
    words.add_argument('--ccache', type=pathlib.Path)
    words.add_argument('--keep', action='store_true')
    args = words.parse_args()
    if os.geteuid():
        sys.exit('container: needs root, for chroot and mounts')
    folder = ROOT / '.cache/package/container'
    folder.parent.mkdir(parents=True, exist_ok=True)
    report, deb, builder = fresh.Report(), args.deb, fresh.Machine(ROOT / '.cache/package/build', args.ccache)
    if not deb:
        made = []
        if report.step('the image of Debian that builds', lambda: builder.make('bookworm')) and \
                report.step('the first stage of the Containerfile', lambda: made.append(build_package(builder))):
            deb = shutil.copy(made[0], folder.parent)
        if not args.keep and builder.folder.exists():
            report.step('clean up', builder.remove)
        if not deb:
            report.print()
            sys.exit(1)
    container = Container(folder, pathlib.Path(deb).resolve())
    try:
        report.step('the image of Debian', lambda: container.machine.make('bookworm')) and \
            report.step('the last stage of the Containerfile', container.build) and \
            report.step('ENTRYPOINT until HEALTHCHECK is content', container.serve) and \
            report.step('STOPSIGNAL', container.stop)
    finally:
        container.end()
    if not args.keep and folder.exists():
        report.step('clean up', container.machine.remove)
    report.print()
    sys.exit(1 if report.failed else 0)


if __name__ == '__main__':
    main()
