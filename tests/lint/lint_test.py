"""The lints see what they are for: each is shown a small tree with one fault."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import headers
import layers


def tree(files):
    root = pathlib.Path(tempfile.mkdtemp())
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


class Layers(unittest.TestCase):
    def found(self, name, text):
        return layers.check(tree({name: text}))

    def test_a_room_may_see_what_its_row_says(self):
        self.assertEqual([], self.found('bus/a.cc', '#include "msg/call.h"\n#include <vector>\n'))

    def test_a_room_may_not_see_its_own_rank(self):
        self.assertIn('wire may not see msg', self.found('wire/a.h', '#include "msg/call.h"\n')[0])

    def test_leaves_are_strangers(self):
        self.assertIn('sibling', self.found('dialects/oip/a.h', '#include "dialects/ops/health.h"\n')[0])

    def test_a_library_sees_no_room_and_does_not_name_this_project(self):
        root = tree({'src/bus/a.cc': '', 'subprojects/jinja/src/a.cc': '#include "base/status.h"\n',
                     'subprojects/jinja/README.md': 'As Weir has it.\n'})
        found = layers.check(root / 'src')
        self.assertIn('jinja may not see base', found[1])
        self.assertIn('names weir', found[0])

    def test_text_alone_sees_the_libraries(self):
        self.assertEqual([], self.found('text/a.cc', '#include "jinja/template.h"\n'))
        self.assertIn('may not see tokenizers', self.found('bus/a.cc', '#include "tokenizers/tokenizer.h"\n')[0])

    def test_heavy_headers_stay_in_their_rooms(self):
        self.assertIn('belongs in', self.found('bus/a.cc', '#include <boost/asio/post.hpp>\n')[0])

    def test_deterministic_rooms_take_an_env(self):
        self.assertIn('Env', self.found('bus/a.cc', 'auto t = std::chrono::steady_clock::now();\n')[0])
        self.assertIn('Env', self.found('generation/scheduler.cc', 'auto t = base::steady_now();\n')[0])
        self.assertEqual([], self.found('generation/lane.cc', 'auto t = base::steady_now();\n'))


class Headers(unittest.TestCase):
    def test_the_first_include_of_a_source_file_is_shown_by_the_build(self):
        root = tree({'a.cc': '// words\n#include "a.h"\n#include "b.h"\n', 'c.cc': '#include <map>\n#include "c.h"\n'})
        self.assertEqual({root / 'a.h'}, headers.shown_by_the_build(root))


if __name__ == '__main__':
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print(f'{result.testsRun - bad} passed, {bad} failed')
    sys.exit(bool(bad))
