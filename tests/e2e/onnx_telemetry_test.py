"""ONNX Runtime's release builds report to their vendor: a thread, and a database below the home folder. Not under weir."""

import os
import pathlib
import re
import subprocess
import sys

import harness
from harness import curl

# Makes the library's environment, and nothing else: it is asked by its C API, of which 16 is the version and
# CreateEnv(level, name, &env) the entry with index 3.
ALONE = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
library.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
api = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32)(library.OrtGetApiBase()[0])(16)
create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p))(api[3])
assert not create(2, b'alone', ctypes.byref(ctypes.c_void_p()))
print(len(os.listdir('/proc/self/task')), flush=True)
os._exit(0)
"""


def environment(home, **more):
    """With a home folder of its own, so that what is written there is seen."""
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in ('XDG_CACHE_HOME', 'ORT_DISABLE_TELEMETRY')}
    return {**kept, 'HOME': str(home), **more}


def files(home):
    return sorted(str(path.relative_to(home)) for path in home.rglob('*') if path.is_file())


class Telemetry(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.home = harness.scratch() / 'home-of-weir'
        cls.server = harness.Server(env=environment(cls.home, ORT_DISABLE_TELEMETRY='0'))

    def test_the_server_has_none_of_the_librarys_reporting(self):
        answer = curl(self.server.url('/v2/models/digits'))
        self.assertEqual((200, 'onnxruntime_onnx'), (answer.status, answer.json()['platform']))
        opened = re.search(r'ONNX Runtime opened.*\bpath=(\S+)', self.server.output())
        self.assertTrue(opened, self.server.output())
        held = [os.readlink(entry) for entry in pathlib.Path(f'/proc/{self.server.process.pid}/fd').iterdir()]
        self.assertEqual([], [path for path in held if 'onnxruntime.db' in path or 'mat-debug' in path])
        self.assertEqual([], files(self.home))
        library = opened[1]

        # The same library without the variable: these are the traces that were looked for.
        home = harness.scratch() / 'home-of-the-library'
        quiet_home = harness.scratch() / 'home-of-the-quiet-library'
        run = lambda env: subprocess.run([sys.executable, '-c', ALONE, library], env=env, check=True,
                                         stdout=subprocess.PIPE, timeout=harness.PATIENCE).stdout
        self.assertEqual(1, int(run(environment(quiet_home, ORT_DISABLE_TELEMETRY='1'))))
        if int(run(environment(home))) == 1:
            self.skipTest('this build of ONNX Runtime has no telemetry')
        self.assertTrue(any('onnxruntime.db' in name for name in files(home)), files(home))


if __name__ == '__main__':
    harness.main()
