"""Runs attacks against a server of their own each, and writes what became of its healthy client.

usage: run.py [--weir FILE] [--quick] [--gated] [--write] [--list] [name…]     names: those that contain one of the words
       --weir FILE   the binary (default: build-test/src/app/weir)
       --quick       the short form of each, as `./dev test` runs them
       --gated       only those that have to hold (gates.py)
       --write       puts the table into README.md; with names, their rows take the place of those that are there
       --list        names and what they are

Exit code 1: an attack that has to hold did not.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

COLUMNS = ['attack', 'served', 'p99 ms (unloaded)', 'RSS peak MiB', 'heap peak MiB', 'RSS after', 'longest turn ms', 'CPU s', 'verdict']
BEGIN, END = '<!-- table -->\n', '<!-- /table -->\n'


def row(attack, out):
    from lab import MIB
    turn = '–' if out.turn_s is None else f'{out.turn_s * 1000:.0f}'
    served = f'{100 * out.share:.1f} %' if out.asked else '–'
    bad = out.faults + out.late
    verdict = 'holds' if not bad else 'FAILS: ' + '; '.join(bad)[:200].replace('|', '/').replace('\n', ' ')
    return [f'`{attack.name}`: {attack.line}', served, f'{out.p99_ms:.0f} ({out.unloaded_p99_ms:.0f})', f'{out.rss_peak // MIB}',
            '–' if out.heap_peak is None else f'{out.heap_peak // MIB}',
            f'{out.rss_after // MIB}', turn, f'{out.cpu_s:.1f}', verdict]


def table(rows):
    lines = [COLUMNS, ['---'] * len(COLUMNS), *rows]
    return ''.join('| ' + ' | '.join(line) + ' |\n' for line in lines)


def write(rows, some):
    """The whole table, or some of its rows in their places; a row that was not there comes last."""
    path = HERE / 'README.md'
    before, _, rest = path.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    if some:
        kept = [[cell.strip() for cell in line.strip('|').split(' | ')] for line in old.splitlines()[2:]]
        new = {line[0]: line for line in rows}
        rows = [new.pop(line[0], line) for line in kept] + list(new.values())
    path.write_text(before + BEGIN + table(rows) + END + after)


def show(out, form):
    from lab import MIB
    verdict = 'ok' if not out.faults and (form == 'quick' or not out.late) else 'FAILED'
    turn = 'turn –' if out.turn_s is None else f'turn {out.turn_s * 1000:.1f} ms {out.slow_turns or ""}'
    heap = '' if out.heap_peak is None else f'heap {out.heap_before // MIB} → {out.heap_peak // MIB} MiB, '
    print(f'{verdict:6} {out.name}: served {out.served}/{out.asked}, p99 {out.p99_ms:.0f} ms (unloaded {out.unloaded_p99_ms:.0f}), '
          f'RSS {out.rss_before // MIB} → {out.rss_peak // MIB} → {out.rss_after // MIB} MiB (limit {out.rss_limit // MIB}), '
          f'{heap}{turn}, CPU {out.cpu_s:.1f} s, the machine stood for {out.stood_ms:.0f} ms and was {out.slowness:.1f} times as slow; {out.did}', flush=True)
    for fault in out.faults + [f'(by the clock) {late}' for late in out.late]:
        print('       ' + fault, flush=True)


def choose(words, gated):
    from gates import OPEN
    from registry import attacks
    return [a for name, a in attacks().items()
            if (not words or any(w in name for w in words)) and not (gated and name in OPEN)]


def main(arguments):
    if arguments[:1] == ['--strike']:
        from registry import strike
        _, name, port, pid, seconds, form = arguments
        return strike(name, int(port), int(pid), float(seconds), form == 'quick')
    import harness
    import lab
    if '--weir' in arguments:
        at = arguments.index('--weir')
        harness.WEIR = pathlib.Path(arguments[at + 1]).resolve()
        del arguments[at:at + 2]
    options, words = {a for a in arguments if a.startswith('--')}, [a for a in arguments if not a.startswith('--')]
    if unknown := options - {'--quick', '--gated', '--write', '--list'}:
        sys.exit(f'unknown option {sorted(unknown)[0]}\n{__doc__}')
    chosen, form = choose(words, '--gated' in options), 'quick' if '--quick' in options else 'full'
    from gates import OPEN
    if '--list' in options:
        for a in chosen:
            print(f'{a.name:28} {a.line}' + (f'  [open: {OPEN[a.name]}]' if a.name in OPEN else ''))
        return 0
    rows, bad = [], []
    for a in chosen:
        if why := a.lacks():
            print(f'skip   {a.name}: {why}', flush=True)
            continue
        out = lab.run(a, form)
        show(out, form)
        rows.append(row(a, out))
        if out.faults and a.name not in OPEN:
            bad.append(a.name)
        if not out.faults and a.name in OPEN:
            print(f'       it holds: {a.name} can leave gates.OPEN ({OPEN[a.name]})')
    if '--write' in options:
        write(rows, some=bool(words))
    print(f'{len(rows) - len(bad)} passed, {len(bad)} failed' + (f': {" ".join(bad)}' if bad else ''))
    return 1 if bad else 0


if __name__ == '__main__':
    sys.path.insert(0, str(HERE.parent / 'e2e'))
    sys.exit(main(sys.argv[1:]))
