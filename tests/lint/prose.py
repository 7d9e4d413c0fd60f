"""Comments are sentences with a subject and a verb: none opens with a bare What, Who, Of or So that, which leaves the
reader to find the thing that is described."""

import pathlib
import re
import sys

FOLDERS = ['src', 'subprojects', 'tests', 'proto', 'bench', 'conf']
SUFFIXES = {'.h', '.cc', '.cu', '.cuh', '.inc', '.proto', '.fbs', '.py', '.build', '.yaml'}
COMMENT = re.compile(r'\s*(//|#)')
HEADLESS = re.compile(r'\s*(//|#)\s*(What|Who|Whose|Whom|Of|So that)\b(?!.*\?)')


def check(root):
    bad = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob('*')):
            if path.suffix not in SUFFIXES or 'packagecache' in path.parts:
                continue
            before = ''
            for number, line in enumerate(path.read_text(errors='replace').splitlines(), 1):
                if HEADLESS.match(line) and not COMMENT.match(before):
                    bad.append(f'{path.relative_to(root)}:{number}: a comment opens with a bare {HEADLESS.match(line)[2]}')
                before = line
    return bad


if __name__ == '__main__':
    found = check(pathlib.Path(sys.argv[1]))
    print('\n'.join(found) or 'prose: ok')
    sys.exit(bool(found))
