"""`./dev gpu carried`: what is carried to a machine with a GPU starts on bare ones.

Makes a minimal Ubuntu 22.04 and a minimal Debian 12, each in a folder (mmdebstrap, variant minbase), with nothing more than
Python, and carries there what bench/gpu/RESULTS.md says: the files of HEAD and the archive. `./dev gpu` unpacks it there and
has to say that there is no GPU, with exit code 77, as gpu_check does; CUDA's module has to find its libraries, weir to serve,
and the programs that take the figures to run on the CPU.

usage: carried.py ARCHIVE [--suite jammy|bookworm|noble|trixie] [--keep]
    ARCHIVE         build-cuda/carry.tar.xz, as bench/gpu/pack.py has made it
    --suite NAME    jammy (Ubuntu 22.04, glibc 2.35), bookworm (Debian 12), noble (Ubuntu 24.04), trixie (Debian 13); without it
                    the first two
    --keep          leave the folders there (.cache/fresh/carried-SUITE) to look into

Needs root, for chroot and mounts. There is no GPU to be seen inside, also where this machine has one.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/fresh'))
import run as fresh  # noqa: E402  (tests/fresh/run.py)

NO_GPU = 'no CUDA: libcuda.so.1 not found'
RUN = 'python3 bench/gpu/machine.py build-cuda'
READY_S = 60


def expect(truth, text):
    if not truth:
        raise fresh.Trouble(text)


class Visit:
    def __init__(self, suite, archive):
        self.suite, self.archive = suite, archive
        self.machine = fresh.Machine(fresh.ROOT / f'.cache/fresh/carried-{suite}', None)

    def make(self):
        self.machine.make_bare(self.suite, ['python3'])
        return self.inside('ldd --version').splitlines()[0]

    def carry(self):
        self.home = self.machine.clone('root')
        build = self.machine.folder / self.home.lstrip('/') / 'build-cuda'
        build.mkdir()
        shutil.copy(self.archive, build / 'carry.tar.xz')
        return f'{self.archive.stat().st_size / (1 << 20):.1f} MiB'

    def inside(self, script, limit=600):
        return self.machine.run('root', script, getattr(self, 'home', '/'), limit)

    def says_no_gpu(self):
        said = self.inside('./dev gpu; test $? = 77')
        expect(f'{NO_GPU}: nothing was checked, nothing was measured' in said, said)
        said = self.inside(f'{RUN} tests/gpu/gpu_check /tmp/checks.json; test $? = 77')
        expect(said.strip() == NO_GPU, said)

    def opens_module(self):
        """Its libraries are there; that there is no driver only its functions would say."""
        self.inside('LD_LIBRARY_PATH=build-cuda/lib python3 -c "import ctypes; ctypes.CDLL(\'build-cuda/src/device/cuda/libweir_cuda.so\').weir_cuda_open"')

    def serves(self):
        log_path = self.machine.folder.parent / f'carried-{self.suite}.log'
        port = fresh.free_port()
        script = f'exec {RUN} src/app/weir serve conf/models --listen 127.0.0.1:{port}'
        with open(log_path, 'wb') as log:
            process = subprocess.Popen(self.machine.command('root', script, self.home), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       start_new_session=True)
        try:
            text = self.ask(process, log_path, port)
            os.kill(fresh.descendant(process.pid, 'weir'), signal.SIGINT)
            expect(process.wait(READY_S) == 0, log_path.read_text(errors='replace')[-3000:])
            return text
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def ask(self, process, log_path, port):
        """Tensors come back as they went, and a model of text answers."""
        end = time.monotonic() + READY_S
        while subprocess.run(['curl', '-sf', '-o', '/dev/null', f'http://127.0.0.1:{port}/v2/models/chat/ready']).returncode:
            expect(process.poll() is None and time.monotonic() < end, log_path.read_text(errors='replace')[-3000:])
            time.sleep(0.2)

        def post(path, body):
            request = urllib.request.Request(f'http://127.0.0.1:{port}{path}', json.dumps(body).encode(), {'content-type': 'application/json'})
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=READY_S) as answer:
                return json.loads(answer.read())
        tensor = {'name': 'x', 'datatype': 'FP32', 'shape': [1, 3], 'data': [1.0, 2.5, -3.0]}
        outputs = post('/v2/models/identity/infer', {'inputs': [tensor]})['outputs']
        expect(outputs[0]['data'] == tensor['data'], str(outputs))
        words = {'model': 'chat', 'max_tokens': 12, 'temperature': 0, 'messages': [{'role': 'user', 'content': 'Hello!'}]}
        text = post('/v1/chat/completions', words)['choices'][0]['message']['content']
        expect(text.strip(), 'the model of text said nothing')
        return repr(text)

    def rehearse(self):
        said = self.inside('./dev gpu --rehearse --seconds 1500 --only checks,1B,tensors,small', 1800)
        expect('A REHEARSAL on the CPU' in said, said[-3000:])

    def take(self, report):
        steps = ((f'a minimal {self.suite} with Python', self.make), (f'{self.suite}: the files of HEAD and the archive', self.carry),
                 (f'{self.suite}: ./dev gpu and gpu_check say that there is no GPU', self.says_no_gpu),
                 (f"{self.suite}: CUDA's module finds its libraries", self.opens_module), (f'{self.suite}: weir serves', self.serves),
                 (f'{self.suite}: ./dev gpu --rehearse', self.rehearse))
        return all(report.step(name, work) for name, work in steps)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('archive', type=pathlib.Path)
    words.add_argument('--suite', choices=['jammy', 'bookworm', 'noble', 'trixie'])
    words.add_argument('--keep', action='store_true')
    args = words.parse_args()
    if os.geteuid():
        sys.exit('fresh: needs root, for chroot and mounts')
    report = fresh.Report()
    for suite in [args.suite] if args.suite else ['jammy', 'bookworm']:
        visit = Visit(suite, args.archive.resolve())
        visit.take(report)
        if not args.keep and visit.machine.folder.exists():
            report.step(f'{suite}: clean up', visit.machine.remove)
    report.print()
    sys.exit(1 if report.failed else 0)


if __name__ == '__main__':
    main()
