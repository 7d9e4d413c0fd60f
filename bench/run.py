"""The benches: `./dev bench [name]`. `load` compares the whole server with its peers, `micro` runs the programs in bench/.

usage: run.py BUILD_DIR [load|micro|NAME] [--rounds N] [--requests N]
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'bench/load'))
import cases  # noqa: E402  (bench/load/cases.py)
import full_batches  # noqa: E402
import gateways  # noqa: E402
import shards  # noqa: E402
import slow_streams  # noqa: E402
import tails  # noqa: E402

ALL = (*cases.ALL, *gateways.ALL, *full_batches.ALL, *shards.ALL, *slow_streams.ALL, *tails.ALL)


def micro(build):
    for program in sorted((build / 'bench').rglob('*_bench')):
        if os.access(program, os.X_OK):
            print(f'\n## {program.name}', flush=True)
            subprocess.run([str(program)], check=False)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument('build')
    words.add_argument('name', nargs='?', default='load')
    words.add_argument('--rounds', type=int, default=9)
    words.add_argument('--requests', type=int, default=0, help='requests of one run; 0 = what the case says')
    args = words.parse_args()
    build = pathlib.Path(args.build).resolve()
    if args.name == 'micro':
        return micro(build)
    chosen = [c for c in ALL if args.name in ('load', c.__name__)]
    if not chosen:
        sys.exit(f"no bench '{args.name}': load, micro, " + ', '.join(c.__name__ for c in ALL))
    for case in chosen:
        case(build, args.rounds, args.requests)


if __name__ == '__main__':
    main()
