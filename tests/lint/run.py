"""All lints at once; what `./dev lint` calls."""

import pathlib
import subprocess
import sys

import lists

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SRC = str(ROOT / 'src')

if __name__ == '__main__':
    codes = [subprocess.call([sys.executable, str(HERE / script), *args]) for script, args in [
        ('layers.py', [SRC]), ('format.py', [str(ROOT)]),
        ('sizes.py', [str(ROOT)]), ('prose.py', [str(ROOT)]),
        ('headers.py', [SRC, str(ROOT / 'build-test' / 'proto')]),
        *(('headers.py', [str(ROOT / 'subprojects' / library)]) for library in lists.libraries(ROOT))]]
    sys.exit(any(codes))
