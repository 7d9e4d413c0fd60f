"""A file -> a header that holds it: embed.py INPUT ROOM::NAME OUTPUT makes `weir::ROOM::NAME`, a std::string_view."""

import pathlib
import sys


def array(name, data):
    """The bytes as an array `name` of char: a compiler need not take string literals of more than 65,536 characters."""
    return f'inline constexpr char {name}[] = {{{",".join(str(b - 256 if b > 127 else b) for b in data + bytes(1))}}};\n'


def main():
    source, name, target = sys.argv[1:]
    room, name = name.split('::')
    data = pathlib.Path(source).read_bytes()
    pathlib.Path(target).write_text(f'#pragma once\n#include <string_view>\nnamespace weir::{room} {{\n{array(name + "Bytes", data)}'
                                    f'inline constexpr std::string_view {name}({name}Bytes, {len(data)});\n}}\n')


if __name__ == '__main__':
    main()
