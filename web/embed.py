"""A file -> a header that holds it: embed.py INPUT ROOM::NAME OUTPUT makes `weir::ROOM::NAME`, a std::string_view."""

import pathlib
import sys

PIECE = 8000  # a compiler need not take longer string literals than 65,536 characters

source, name, target = sys.argv[1:]
room, name = name.split('::')
text = pathlib.Path(source).read_text()
assert ')__"' not in text
pieces = ' '.join(f'R"__({text[at:at + PIECE]})__"' for at in range(0, len(text), PIECE))
pathlib.Path(target).write_text(f'#pragma once\n#include <string_view>\nnamespace weir::{room} {{\n'
                                f'inline constexpr std::string_view {name} = {pieces};\n}}\n')
