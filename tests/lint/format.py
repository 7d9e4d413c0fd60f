"""clang-format would change nothing in src/, subprojects/, tests/ and bench/."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])

if __name__ == '__main__':
    files = [str(p) for room in ('src', 'subprojects', 'tests', 'bench') for p in sorted((ROOT / room).rglob('*')) if p.suffix in {'.h', '.cc'}]
    done = subprocess.run(['clang-format', '--dry-run', '-Werror', *files], stderr=subprocess.PIPE)
    wrong = sorted({line.split(':')[0] for line in done.stderr.decode().splitlines() if 'error:' in line})
    print('\n'.join(f'{f}: not formatted (./dev fmt)' for f in wrong) or 'format: ok')
    sys.exit(bool(wrong))
