"""`./dev gpu`: checks the kernels on the GPU, takes the figures H1 to H8, prints one table and writes all of it as JSON.

usage: run.py BUILD [--seconds 560] [--only part,part] [--out FILE]
       run.py BUILD --only sanitizers   the checks under compute-sanitizer, in a call of their own
       run.py BUILD --rehearse          the same in tiny shapes on the CPU: that it works, in no way how fast

Parts, in this order: checks, 1B, tensors, small, 8B, models, onnx, torch. A part begins when enough of the time is left
for it; which ones did not, or were cut short, the last lines say. The first failure says what to send back. Needs
Python, the programs in BUILD, and nothing else: BUILD may have been carried here (pack.py). Exit 77 without a GPU.
"""

import argparse
import dataclasses
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import machine  # noqa: E402
import parts  # noqa: E402
import table  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]

NO_GPU, LOG_KEPT = 77, 1 << 20


def failed(result):
    return result.get('error') or result.get('wrong')


class Run:
    """What the parts share: programs, sizes, the clock, results."""

    def __init__(self, build, seconds, sizes):
        self.build, self.sizes, self.root = build, sizes, ROOT
        self.end = time.monotonic() + seconds
        self.environment = machine.environment(build)
        self.results, self.skipped = {}, {}
        self.scratch_folders = []
        self.part, self.kept = None, {}  # what is sent back where something fails: {name in the archive: bytes}

    def rehearse(self):
        """On what stands in for a GPU, or else on the engines' device of the host."""
        self.stand_in = tempfile.TemporaryDirectory(prefix='weir-gpu-')
        environment = machine.stand_in(self.build, pathlib.Path(self.stand_in.name))
        if environment:
            self.environment, self.sizes = environment, dataclasses.replace(self.sizes, device='cuda:0')

    def left(self):
        return self.end - time.monotonic()

    def program(self, name):
        return str(self.build / name)

    def call(self, *command, limit, codes=(0,), env=None):
        """Runs a program to its end; returns (exit code, standard output). Raises when it takes longer than `limit`."""
        done = subprocess.run([str(c) for c in command], cwd=ROOT, env=env or self.environment, timeout=max(limit, 1),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode not in codes:
            raise RuntimeError(f'{pathlib.Path(command[0]).name} ended with {done.returncode}: '
                               f'{(done.stderr or done.stdout)[-1500:].strip()}')
        if done.stderr.strip():
            print(done.stderr.strip()[-1000:], file=sys.stderr)
        return done.returncode, done.stdout

    def scratch(self, size):
        """A folder for `size` bytes: in memory where that has room, since weights are read soon after."""
        places = [p for p in ('/dev/shm', tempfile.gettempdir(), str(self.build)) if os.path.isdir(p) and os.access(p, os.W_OK)]
        fits = [p for p in places if shutil.disk_usage(p).free > size + (1 << 30 if size > 1 << 28 else 0)]
        if not fits:
            raise RuntimeError(f'no room for {size >> 20} MiB of weights')
        folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-gpu-', dir=fits[0]))
        self.scratch_folders.append(folder)
        return folder

    def keep(self, path, name):
        """The end of a log, for the report."""
        self.kept[f'{self.part}-{name}'] = pathlib.Path(path).read_bytes()[-LOG_KEPT:]

    def report(self, results):
        """An archive of all that says why something failed; returns its path."""
        out = self.build / 'gpu-report.tar.gz'
        with tarfile.open(out, 'w:gz') as archive:
            for name, data in {**self.kept, results.name: results.read_bytes()}.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return out

    def clean(self):
        for folder in self.scratch_folders:
            shutil.rmtree(folder, ignore_errors=True)
        self.scratch_folders = []


def take(run, chosen, write, out):
    for part in parts.ALL:
        if part.name not in chosen if chosen else part.alone:
            continue
        if run.left() < part.least(run.sizes):
            run.skipped[part.name] = f'{run.left():.0f} s were left, {part.least(run.sizes)} are needed'
            continue
        print(f'--- {part.name}', flush=True)
        began, run.part = time.monotonic(), part.name
        result = run.results.setdefault(part.name, {})
        try:
            part.take(run, result)
        except parts.NotHere as why:
            run.skipped[part.name] = str(why)
        except subprocess.TimeoutExpired as late:
            run.skipped[part.name] = f'cut after {late.timeout:.0f} s'
            result['error'] = f'cut after {late.timeout:.0f} s'
        except Exception as error:  # whatever it is, the other parts go on
            result['error'] = f'{type(error).__name__}: {error}'
            print(result['error'], file=sys.stderr, flush=True)
        finally:
            run.clean()
        result['seconds'] = round(time.monotonic() - began, 1)
        write()
        if failed(result) and sum(map(bool, map(failed, run.results.values()))) == 1:
            print(f'{part.name} failed: send back {run.report(out)} (made anew at the end)', file=sys.stderr, flush=True)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('build')
    words.add_argument('--rehearse', action='store_true')
    words.add_argument('--seconds', type=float, default=560)
    words.add_argument('--only', default='')
    words.add_argument('--out', default='')
    args = words.parse_args()
    build = pathlib.Path(args.build).resolve()
    sizes = parts.TINY if args.rehearse else parts.FULL
    run = Run(build, args.seconds, sizes)
    if args.rehearse:
        run.rehearse()
    chosen = {name for name in args.only.split(',') if name}
    if chosen - {p.name for p in parts.ALL}:
        sys.exit('no such part: ' + ', '.join(chosen - {p.name for p in parts.ALL}))
    if why := machine.why_it_does_not_start(build, run.environment):
        sys.exit(f'weir does not start here: {why}')
    out = pathlib.Path(args.out or build / ('gpu-rehearsal.json' if args.rehearse else 'gpu-results.json'))
    here = {**machine.describe(), 'cuda': machine.cuda(build, run.environment)}
    if not args.rehearse and not here['cuda']['available']:
        print(f"{here['cuda']['why']}: nothing was checked, nothing was measured")
        return NO_GPU

    def write():
        all_of_it = {'rehearsal': args.rehearse, **here, 'parts': run.results, 'skipped': run.skipped}
        if not args.rehearse:
            all_of_it['table'] = table.rows(run.results)
        out.write_text(json.dumps(all_of_it, indent=1) + '\n')
    take(run, chosen, write, out)
    write()
    table.show(run.results, run.skipped, here, args.rehearse)
    print(f'results: {out}')
    bad = [name for name, result in run.results.items() if failed(result)]
    if bad:
        print('failed: ' + ', '.join(bad) + f'; send back {run.report(out)}: results, seeds, the ends of logs')
    if args.rehearse and not chosen:
        bad += table.missing(run.results, run.skipped)
        if bad:
            print('the rehearsal lacks: ' + ', '.join(bad))
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
