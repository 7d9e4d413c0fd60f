"""Fails for files, functions and classes that are larger than house rules allow, unless EXCEPTIONS says why.

A file has at most 400 lines; a function 40, its signature included, or 60 in a test or a bench, which are read from top
to bottom; a class 30 member functions. A class whose functions lie in several sources is still one: its declaration is
what is counted, without functions that are defaulted or deleted.
"""

import pathlib
import re
import sys

FILE, FUNCTION, SCRIPT, MEMBERS = 400, 40, 60, 30
SUFFIXES = {'.h', '.cc', '.cu', '.cuh', '.inc'}

TABLE = 'a table, one line or two for each row'
# 'file', 'file:function' or 'file:class' -> why it is larger. An entry that is not needed any more is a fault, too.
EXCEPTIONS = {
    # Tables.
    'settings_models.cc:add_repository': TABLE,
    'text.cc:reason_phrase': TABLE,
    'h1_gate_test.cc:TEST': TABLE,
    'hostile_tokenizer_test.cc:TEST': TABLE,
    'json_cursor_test.cc:TEST': TABLE,
    # Interfaces of which each function is one operation of what they stand for.
    'bus.h:Bus': 'a third are accessors of what the shard lends to dialects',
    'device.h:Device': 'one function for each operation of a device; the host and CUDA implement it',
    'json_cursor.h:JsonCursor': 'one reader for each kind of JSON value',
    'value.h:Value': 'one constructor and one accessor for each kind of value of Jinja',
    'parser.h:ExpressionParser': 'one function for each level of precedence of the grammar',
    'evaluation.h:Evaluation': 'one function for each kind of expression of the grammar',
    'expression.cc:Evaluation::eval_kind': 'one case for each kind of expression',
    # Still to be cut.
    'ping_pong.cc:main': 'a bench that reads its arguments, runs and prints',
}

# Comments, raw strings, strings, characters, numbers (with their separators), names, scope and arrow, any other sign.
TOKEN = re.compile(r'''//[^\n]*|/\*.*?\*/|R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'
                      |\.?\d(?:'?[\w.])*|\w+|::|->|<<=?|<=>|[<>=!]=|&&|\|\||\S''', re.S | re.X)
# Words before ( that are no name of a function.
NO_NAMES = {'alignas', 'decltype', 'explicit', 'noexcept', 'operator', 'requires', '__attribute__', '__launch_bounds__'}


def without_directives(text):
    """The text with preprocessor lines, and the branches after the first of each #if, left empty."""
    out, skipping, inside = [], [], False
    for line in text.split('\n'):
        directive = re.match(r'\s*#\s*(\w+)', line)
        if directive and not inside:
            if directive[1] in ('if', 'ifdef', 'ifndef'):
                skipping.append(False)
            elif directive[1] in ('else', 'elif') and skipping:
                skipping[-1] = True
            elif directive[1] == 'endif' and skipping:
                skipping.pop()
        dropped = inside or directive or any(skipping)
        inside = bool(inside or directive) and line.endswith('\\')
        out.append('' if dropped else line)
    return '\n'.join(out)


def tokens(text):
    """(token, line) pairs without comments; every literal is the token 0 or ""."""
    line, at = 1, 0
    for match in TOKEN.finditer(text):
        line += text.count('\n', at, match.start())
        at = match.start()
        word = match[0]
        if word[:2] in ('//', '/*'):
            continue
        if word[0] in '"\'' or word.startswith('R"'):
            word = '""'
        yield word, line


class Declaration:
    """What has been read of a declaration, up to its `;` or `{`."""

    def __init__(self):
        self.words, self.line = [], 0
        self.flat = []  # the words outside of parentheses and template arguments; '()' for what is in parentheses
        self.parens = self.angles = 0

    def add(self, word, line):
        self.line = self.line or line
        self.words.append(word)
        operator = 'operator' in self.flat[-2:]
        if word in '([' and len(word) == 1:
            if self.parens == 0 and self.angles == 0:
                self.flat.append('()' if word == '(' else '[]')
            self.parens += 1
        elif word in ')]' and len(word) == 1:
            self.parens -= 1
        elif self.parens:
            return
        elif word == '<' and not operator and '=' not in self.flat:
            self.angles += 1
        elif word == '>' and self.angles:
            self.angles -= 1
        elif not self.angles:
            self.flat.append(word)

    def kind(self):
        """class, struct, union or enum, where it declares one; else None."""
        declared = [w for i, w in enumerate(self.flat) if w != '()' or self.flat[i - 1] != 'alignas']
        if '()' in declared or '=' in declared:
            return None
        return next((w for w in declared if w in ('class', 'struct', 'union', 'enum')), None)

    def name(self):
        """Of a type or a function."""
        if self.is_function():
            at = self.call()
            head = self.flat[:at]
            if 'operator' in head:
                return 'operator' + ''.join(head[head.index('operator') + 1:])
            start = at - 1
            while start >= 2 and self.flat[start - 1] == '::':
                start -= 2
            if start >= 1 and self.flat[start - 1] == '~':
                start -= 1
            return ''.join(self.flat[start:at])
        bases = self.flat.index(':') if ':' in self.flat else len(self.flat)
        words = [w for w in self.flat[:bases] if re.match(r'\w', w) and w not in ('final', 'alignas')]
        return words[-1] if words else '?'

    def call(self):
        """Where the parameters begin: the first () behind a name. -1: nowhere."""
        for i, word in enumerate(self.flat[1:], 1):
            before = self.flat[i - 1]
            named = re.match(r'\w', before) and before not in NO_NAMES or 'operator' in self.flat[max(0, i - 3):i - 1]
            if word == '()' and named:
                return i
        return -1

    def is_function(self):
        at = self.call()
        if at < 1 or self.flat[0] in ('using', 'typedef', 'friend', 'static_assert', 'return'):
            return False
        head = self.flat[:at]
        if 'operator' in head:
            return True
        return '=' not in head and not self.points()

    def points(self):
        """A variable that points to a function: ( * name ) ( … )."""
        return any(a == '(' and b == '*' for a, b in zip(self.words, self.words[1:])) and self.flat.count('()') > 1

    def unwanted(self):
        """A member that is declared to be left as the compiler makes it, or not to be there."""
        return self.words[-2:] in (['=', 'default'], ['=', 'delete'])

    def initializes_member(self):
        """The next { belongs to a member in a constructor's list, not to its body."""
        at = self.call()
        return at > 0 and ':' in self.flat[at:] and re.match(r'\w', self.words[-1]) and self.parens == 0


class Scan:
    """What a source declares: functions [(name, line, lines)] and classes {name: (line, member functions)}."""

    def __init__(self, text):
        self.functions, self.classes = [], {}
        self.stream = list(tokens(without_directives(text)))
        self.at = 0
        while self.at < len(self.stream):
            self.scope(None)

    def scope(self, owner):
        """Reads declarations up to the } that ends the scope; owner is a class's name or None."""
        declaration = Declaration()
        while self.at < len(self.stream):
            word, line = self.stream[self.at]
            self.at += 1
            if word == '}' and declaration.parens == 0:
                return
            if word == ';' and declaration.parens == 0:
                if owner and declaration.is_function() and not declaration.unwanted():
                    self.member(owner)
                declaration = Declaration()
            elif word == ':' and declaration.flat in (['public'], ['private'], ['protected']):
                declaration = Declaration()
            elif word == '{' and declaration.parens == 0:
                declaration = self.block(declaration, owner)
            elif word == '{':
                self.skip()
            elif declaration.parens == 0 and word == '[' and self.peek() == '[':
                self.attribute()
            else:
                declaration.add(word, line)

    def block(self, declaration, owner):
        kind = declaration.kind()
        if 'namespace' in declaration.flat[:2] or declaration.words[:1] == ['extern'] and declaration.words[1:] == ['""']:
            self.scope(None)
        elif kind and kind != 'enum':
            name = declaration.name()
            inner = f'{owner}::{name}' if owner else name
            self.classes.setdefault(inner, [declaration.line, 0])
            self.scope(inner)
            return self.named(declaration)
        elif declaration.is_function() and declaration.initializes_member() or not declaration.is_function():
            self.skip()
            declaration.add('0', declaration.line)
            return declaration
        else:
            end = self.skip()
            name = declaration.name()
            self.functions.append((f'{owner}::{name}' if owner else name, declaration.line, end - declaration.line + 1))
            if owner:
                self.member(owner)
        return Declaration()

    def named(self, declaration):
        """`struct {…} name;` goes on behind the brace."""
        rest = Declaration()
        rest.flat = rest.words = ['using']
        return rest

    def member(self, owner):
        self.classes[owner][1] += 1

    def peek(self):
        return self.stream[self.at][0] if self.at < len(self.stream) else ''

    def attribute(self):
        depth = 1
        while depth and self.at < len(self.stream):
            depth += {'[': 1, ']': -1}.get(self.stream[self.at][0], 0)
            self.at += 1

    def skip(self):
        """Over a block whose { has been read. Returns the line of its }."""
        depth, line = 1, 0
        while depth and self.at < len(self.stream):
            word, line = self.stream[self.at]
            depth += {'{': 1, '}': -1}.get(word, 0)
            self.at += 1
        return line


def findings(path, limit):
    """(key, message) of all that is too large in one file; functions have at most `limit` lines."""
    text = path.read_text(errors='replace')
    lines = text.count('\n')
    if lines > FILE:
        yield path.name, f'{path}: {lines} lines, {FILE} are allowed'
    scan = Scan(text)
    for function, line, size in scan.functions:
        if size > limit:
            yield f'{path.name}:{function}', f'{path}:{line}: {function}() has {size} lines, {limit} are allowed'
    for owner, (line, members) in scan.classes.items():
        if members > MEMBERS:
            yield f'{path.name}:{owner}', f'{path}:{line}: {owner} has {members} member functions, {MEMBERS} are allowed'


def check(root, exceptions=EXCEPTIONS):
    """Of the folders src/, subprojects/, tests/ and bench/ of `root`, where they are there."""
    found = []
    for folder in ('src', 'subprojects', 'tests', 'bench'):
        for path in sorted(p for p in (root / folder).rglob('*') if p.suffix in SUFFIXES):
            script = {'tests', 'bench', 'fuzz', 'examples'} & set(path.relative_to(root).parts)
            found += findings(path, SCRIPT if script else FUNCTION)
    keys = {key for key, _ in found}
    return [message for key, message in found if key not in exceptions] + [
        f'{key}: is no longer too large; take it off the list' for key in exceptions if key not in keys]


if __name__ == '__main__':
    bad = check(pathlib.Path(sys.argv[1]))
    print('\n'.join(bad) or 'sizes: ok')
    sys.exit(bool(bad))
