"""Builds the console with npm and Vite, and makes a header of its files: build.py SOURCES WORK_FOLDER HEADER

The sources are copied to the work folder, where npm puts what package-lock.json names. Where npm is missing, or cannot
fetch that, the header has no files, and the server is built without the console; a file `missing` in the work folder says
why. `./dev` may still be installing npm: it holds a lock meanwhile (NPM_INSTALL_LOCK).
"""

import fcntl
import gzip
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from embed import array  # noqa: E402

PATIENCE_S = 240  # for npm to be installed, and for each of its commands
TYPES = {'.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8'}


def wait_for_npm():
    lock = os.environ.get('NPM_INSTALL_LOCK')
    if not lock or not os.path.exists(lock):
        return
    end = time.monotonic() + PATIENCE_S
    with open(lock) as file:
        while time.monotonic() < end:
            try:
                return fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.2)


def run(command, work):
    env = {**os.environ, 'npm_config_fetch_retries': '1', 'npm_config_fetch_timeout': '30000', 'npm_config_update_notifier': 'false'}
    done = subprocess.run(command, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=PATIENCE_S)
    if done.returncode:
        raise RuntimeError(f'{command[0]} {command[1]}: {done.stdout.decode(errors="replace")[:800]}')


def build(sources, work):
    """The folder of what Vite has made."""
    wait_for_npm()
    if not shutil.which('npm'):
        raise RuntimeError('npm is not installed')
    shutil.rmtree(work / 'src', ignore_errors=True)
    shutil.copytree(sources, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns('node_modules', 'dist', '*.timestamp-*'))
    lock, installed = (work / 'package-lock.json').read_bytes(), work / 'installed'
    if not installed.exists() or installed.read_bytes() != lock:
        installed.unlink(missing_ok=True)
        run(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'], work)
        installed.write_bytes(lock)
    run(['node', 'node_modules/vite/bin/vite.js', 'build', '--outDir', 'dist', '--emptyOutDir', '--logLevel', 'warn'], work)
    return work / 'dist'


def header(dist):
    files = sorted(p for p in dist.iterdir() if p.suffix in TYPES) if dist else []
    arrays = rows = ''
    for at, file in enumerate(files):
        packed = gzip.compress(file.read_bytes(), 9, mtime=0)
        arrays += array(f'kFile{at}Bytes', packed)
        rows += f'  {{"{file.name}", "{TYPES[file.suffix]}", std::string_view(kFile{at}Bytes, {len(packed)})}},\n'
    page = (dist / 'index.html').read_bytes() if dist else b''
    return f"""// Made by web/console/build.py.
#pragma once
#include <array>
#include <string_view>
namespace weir::web {{
struct ConsoleFile {{
  std::string_view name, type, gzip;
}};
{array('kConsolePageBytes', page)}inline constexpr std::string_view kConsolePage(kConsolePageBytes, {len(page)});
{arrays}inline constexpr std::array<ConsoleFile, {len(files)}> kConsoleFiles{{{{
{rows}}}}};
}}
"""


def main():
    sources, work, target = map(pathlib.Path, sys.argv[1:])
    work.mkdir(parents=True, exist_ok=True)
    missing, dist = work / 'missing', None
    try:
        dist = build(sources, work)
        missing.unlink(missing_ok=True)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as why:
        missing.write_text(f'{why}\n')
        print(f'weir is built without the console: {why}', file=sys.stderr)
    target.write_text(header(dist))


main()
