"""Lists of files, targets and tests that are kept by hand name what is there, and all of it: a list that has fallen behind is a
test that never runs, or a script that fails when it is needed.

usage: lists.py ROOT BUILD_DIR

tests/fuzz/runs is held against the fuzz targets by suites.py, and attacks against the programs that run them by attacks_lab_test.py.
"""

import importlib
import json
import pathlib
import re
import sys

import suites

# A path of the tree in a script; one that goes on with a variable or a pattern is not looked for.
PATH = re.compile(r'(?<![\w./-])((?:\./)?(?:tests|bench|conf|src|proto|web|subprojects)/[\w./-]*\w)(?![\w/*?[{$-])')
SCRIPTS = ('dev', '.ci/run', 'bench/run.py', 'bench/report.py', 'bench/load/*.py', 'bench/generation/*.py', 'tests/attacks/*.py',
           'tests/fresh/*.py', 'tests/package/*.py', 'tests/mutate.py')
# Demo models that `meson install` leaves out: clients of Triton try stateful sequences and decoupled models with them.
NOT_INSTALLED = {'repeat_int32', 'simple_dyna_sequence', 'simple_sequence', 'simple_string_dyna_sequence'}


def libraries(root):
    return sorted(path.parent.name for path in (root / 'subprojects').glob('*/meson.build'))


def imported(root, folder, name, *others):
    """A module of the tree. Modules of another tree that had its name, or those of the `others` that it imports, are forgotten."""
    sys.path.insert(0, str(root / folder))
    try:
        for each in (name, *others):
            sys.modules.pop(each, None)
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def bugs(root, script):
    """plant.py has a list of its own; the others give it theirs."""
    module = imported(root, 'tests/sim', script, 'plant')
    return module.BUGS if script == 'plant' else module.plant.BUGS


def linted_libraries(root):
    """The lints look at every library of subprojects/."""
    listed = re.search(r"^foreach library : \[(.*)\]$", (root / 'tests/lint/meson.build').read_text(), re.M)
    named = re.findall(r"'(\w+)'", listed[1]) if listed else []
    if sorted(named) != libraries(root):
        yield f'tests/lint/meson.build: foreach library has {sorted(named)}; subprojects/ has {libraries(root)}'


def named_paths(root):
    """Files and targets that scripts name are there."""
    builds = {path.parent: path.read_text() for folder in ('src', 'tests', 'bench', 'conf')
              for path in (root / folder).rglob('meson.build')}
    for script in sorted({path for pattern in SCRIPTS for path in root.glob(pattern)}):
        for number, line in enumerate(script.read_text().splitlines(), 1):
            for path in PATH.findall(line):
                at = root / path
                target = f"'{at.name.removeprefix('lib').removesuffix('.so')}'"
                if not at.exists() and target not in builds.get(at.parent, ''):
                    yield f'{script.relative_to(root)}:{number}: there is no {path}, and no target of that name'


def planted_sources(root):
    """meson copies, and makes anew after a change, each source that a bug is planted in."""
    text = (root / 'tests/sim/meson.build').read_text()
    for script, prefix in (('plant', ''), ('plant_cluster', ''), ('plant_kept', 'kept_')):
        found = re.search(rf"files\('{script}\.py'\).*?output: \[(.*?)\]", text, re.S)
        wanted = sorted({place[0] for _, _, places in bugs(root, script) for place in places})
        names = {'depend_files': re.findall(r"'\.\./\.\./src/([\w/]+\.cc)'", found[0] if found else ''),
                 'output': re.findall(r"'(\w+\.cc)'", found[1] if found else '')}
        for what, files in (('depend_files', wanted), ('output', [prefix + file.replace('/', '_') for file in wanted])):
            if sorted(names[what]) != sorted(files):
                yield f'tests/sim/meson.build: {what} of {script}.py are {sorted(names[what])}; it plants bugs in {sorted(files)}'


def planted_parts(root):
    """Each bug of plant_cluster.py, and 0 for none, is in one part of its test."""
    text = (root / 'tests/sim/meson.build').read_text()
    parts = re.findall(r"^  \['(\d+)', '(\d+)', '\d+'\],$", text, re.M)
    tried = [number for first, last in parts for number in range(int(first), int(last) + 1)]
    wanted = [number for number, _, _ in bugs(root, 'plant_cluster')]
    if tried != [0, *wanted]:
        yield f'tests/sim/meson.build: the parts of sim_cluster_planted try {tried}; plant_cluster.py has {wanted}'


def mutations(root, tests):
    """What tests/mutate.py says of a line is of one that is there and may become that; its rooms have sources and tests."""
    mutate = imported(root, 'tests', 'mutate')
    for room, (patterns, programs) in mutate.ROOMS.items():
        for pattern in patterns:
            if not list((root if pattern.startswith('subprojects/') else root / 'src').glob(pattern)):
                yield f'tests/mutate.py: room {room} has no sources {pattern}'
        for pattern in programs:
            if not any(pathlib.PurePath(test).match(pattern) for test in tests):
                yield f'tests/mutate.py: room {room} has no test {pattern}'
    for file, line, how in mutate.EQUIVALENT:
        at = root / file
        there = [each for each in at.read_text().splitlines() if each.strip() == line] if at.exists() else []
        if not any(how in (operator, new.strip()) for each in there for operator, new in mutate.mutants_of_line(each)):
            yield f'tests/mutate.py: {file} has no line "{line}" that can become "{how}"'
    for _, file, old, _ in mutate.NAMED:
        if (root / file).read_text().count(old) != 1:
            yield f'tests/mutate.py: {file} does not have "{old}" once'


def needed_targets(root, needs):
    """A folder whose tests are not missed where a target is not built is there, and so is that target, in some build."""
    text = ''.join(path.read_text() for path in (root / 'src').rglob('meson.build'))
    for folder, target in needs.items():
        if not (root / folder).is_dir():
            yield f'tests/lint/suites.py: NEEDS has a folder that is not there: {folder}'
        if f"'{target}'" not in text:
            yield f'tests/lint/suites.py: NEEDS has a target that src/ does not build: {target}'


def instruction_cases(root):
    """The guard of instructions counts each case of its program, and has a record of each."""
    program = (root / 'tests/instructions/infer_paths.cc').read_text()
    guard = imported(root, 'tests/instructions', 'guard')
    recorded = json.loads(guard.RECORDED.read_text())
    made = re.search(r'usage: infer_paths ([\w|]+)', program)[1].split('|')
    for what, cases in (('guard.py', guard.CASES), *((f'recorded.json, {what}', recorded[what]) for what in ('instructions', 'allocations'))):
        if sorted(cases) != sorted(made):
            yield f'tests/instructions/{what}: has {sorted(cases)}; infer_paths.cc has {sorted(made)}'


def attack_files(root):
    """The list of attacks imports each file that has one."""
    text = (root / 'tests/attacks/registry.py').read_text()
    named = set(re.split(r'[ ,]+', re.search(r'^    import ([\w, ]+?) *(?:#|$)', text, re.M)[1]))
    there = {path.stem for path in (root / 'tests/attacks').glob('*.py') if re.search(r'^@attack\b', path.read_text(), re.M)}
    for name in sorted(there - named):
        yield f'tests/attacks/{name}.py: registry.py does not import it, so that its attacks never run'


def bench_cases(root):
    """`./dev bench` knows the cases of each file of bench/load that has some, and its report does."""
    for script in ('bench/run.py', 'bench/report.py'):
        named = set(re.findall(r'\b(\w+)\.ALL\b', (root / script).read_text()))
        there = {path.stem for path in (root / 'bench/load').glob('*.py') if re.search(r'^ALL = ', path.read_text(), re.M)}
        for name in sorted(there - named):
            yield f'bench/load/{name}.py: {script} does not know its cases'


def installed_models(root):
    """Each demo model is installed, or left out on purpose."""
    listed = re.search(r'^foreach folder : \[(.*)\]$', (root / 'conf/meson.build').read_text(), re.M)
    named = {name.split('/')[0] for name in re.findall(r"'([\w/]+)'", listed[1])} if listed else set()
    there = {path.name for path in (root / 'conf/models').iterdir() if path.is_dir() and not path.name.startswith('__')}
    for name in sorted(there ^ (named | NOT_INSTALLED)):
        yield f'conf/models/{name}: conf/meson.build or NOT_INSTALLED of tests/lint/lists.py is to name it, if it is there'


def check(root, tests):
    return [*linted_libraries(root), *named_paths(root), *planted_sources(root), *planted_parts(root), *mutations(root, tests),
            *needed_targets(root, suites.NEEDS), *instruction_cases(root), *attack_files(root),
            *bench_cases(root), *installed_models(root)]


if __name__ == '__main__':
    found = check(pathlib.Path(sys.argv[1]), [test['name'] for test in suites.introspect(sys.argv[2], 'tests')])
    print('\n'.join(found) or 'lists: ok')
    sys.exit(bool(found))
