"""The lints see what they are for: each is shown a small tree with one fault."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import headers
import layers
import lists
import prose
import sizes
import suites


def tree(files):
    root = pathlib.Path(tempfile.mkdtemp())
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


class Layers(unittest.TestCase):
    def found(self, name, text):
        return layers.check(tree({name: text}))

    def test_types_of_a_room_that_may_not_be_seen_may_not_be_declared(self):
        self.assertIn('bus may not see net', self.found('bus/a.h', 'namespace weir::net {\nclass Conn;\n}\n')[0])
        self.assertEqual([], self.found('bus/a.h', 'namespace weir::msg {\nclass Inbox;\n}\n'))

    def test_the_table_says_what_the_rules_say(self):
        source = pathlib.Path(__file__).resolve().parents[2] / 'src/README.md'
        for old, new, fault in (('| – | `sub', '| – | `sub', ''), ('| base wire |', '| base |', 'net sees [\'wire\']'),
                                ('| 2 | `net/`', '| 1 | `net/`', 'rank of net is lower'), ('forward: + wire net bus', 'forward: + wire', 'engines/forward sees wire net bus'),
                                ('| 3 | `auth/`', '| 3 | `gate/`', 'auth is in one')):
            root = tree({'README.md': source.read_text().replace(old, new)})
            self.assertIn(fault, '\n'.join(layers.check_table(root / 'README.md')))

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

    def test_app_names_a_protocol_in_one_file(self):
        text = '#include "dialects/oip/oip.h"\n'
        self.assertIn('only app/dialects.cc', self.found('app/serve.cc', text)[0])
        self.assertEqual([], self.found('app/dialects.cc', text))

    def test_heavy_headers_stay_in_their_rooms(self):
        self.assertIn('belongs in', self.found('bus/a.cc', '#include <boost/asio/post.hpp>\n')[0])

    def test_deterministic_rooms_take_an_env(self):
        self.assertIn('Env', self.found('bus/a.cc', 'auto t = std::chrono::steady_clock::now();\n')[0])
        self.assertIn('Env', self.found('generation/scheduler.cc', 'auto t = base::steady_now();\n')[0])
        self.assertEqual([], self.found('generation/lane.cc', 'auto t = base::steady_now();\n'))


class Prose(unittest.TestCase):
    def test_a_comment_opens_with_its_subject(self):
        root = tree({'src/bus/a.h': '// What a Bus admits.\nint a;\n// The limits.\n// Of all shards together.\n'})
        self.assertEqual(['src/bus/a.h:1: a comment opens with a bare What'], prose.check(root))

    def test_a_name_that_was_given_up_is_a_fault_in_code_and_not_in_english(self):
        root = tree({'src/bus/a.cc': 'Look look;  // Look at the Front\nsay("calm Reader");\nclass Shelf;\n',
                     'tests/bus/b.py': 'calm = Look\n'})
        self.assertEqual([1, 3], [int(fault.split(':')[1]) for fault in prose.check(root)])

    def test_nothing_hears(self):
        root = tree({'src/bus/a.h': '// The Sink hears of it.\nint heard;\n', 'tests/bus/b.cc': '// It hears.\n'})
        self.assertEqual(['src/bus/a.h:1: nothing hears in a program: it gets, is called, is told'], prose.check(root))


class Suites(unittest.TestCase):
    def test_a_test_declares_one_suite_of_those_that_there_are(self):
        tests = [{'name': name, 'suite': declared} for name, declared in
                 (('a', ['weir:unit']), ('b', ['weir']), ('c', ['weir:slow']), ('d', ['weir:unit', 'weir:e2e']))]
        self.assertEqual(['b', 'c', 'd'], [found[0] for found in suites.suites(tests)])

    def test_a_test_that_no_target_compiles_and_nothing_runs_is_a_fault(self):
        root = tree({'tests/bus/a_test.cc': '', 'tests/bus/b_test.cc': '', 'tests/e2e/c_test.py': '', 'tests/e2e/d_test.py': ''})
        targets = [{'name': 'a_test', 'target_sources': [{'sources': [str(root / 'tests/bus/a_test.cc')]}, {'linker': ['ld']}]}]
        tests = [{'cmd': ['python3', '../tests/e2e/c_test.py']}]
        self.assertEqual(['tests/bus/b_test.cc', 'tests/e2e/d_test.py'],
                         [found.partition(':')[0] for found in suites.left_out(root, root / 'build', tests, targets)])

    def test_sources_that_are_compiled_as_one_are_compiled(self):
        root = tree({'tests/bus/a_test.cc': '', 'tests/bus/b_test.cc': ''})
        one = root / 'build/a_test-unity0.cpp'
        one.parent.mkdir()
        one.write_text(f'#include<{root}/build/../tests/bus/a_test.cc>\n')
        targets = [{'name': 'a_test', 'target_sources': [{'sources': [], 'generated_sources': [str(one)]}]}]
        self.assertEqual(['tests/bus/b_test.cc'], [found.partition(':')[0] for found in suites.left_out(root, root / 'build', [], targets)])

    def test_a_test_that_needs_cuda_is_missed_only_where_cuda_is_built(self):
        root = tree({'tests/gpu/cublas/a_test.cc': ''})
        self.assertEqual([], list(suites.left_out(root, root / 'build', [], [])))
        with_cuda = [{'name': 'weir_cuda', 'target_sources': []}]
        self.assertEqual(1, len(list(suites.left_out(root, root / 'build', [], with_cuda))))

    def test_the_list_of_fuzz_targets_has_each_and_no_other(self):
        root = tree({'tests/fuzz/a_fuzz.cc': '', 'tests/fuzz/b_fuzz.cc': '', 'subprojects/words/fuzz/c_fuzz.cc': '',
                     'tests/fuzz/runs': '# name, runs, folder\na 10\nc 10 subprojects/words/fuzz\nold 10\n'})
        self.assertEqual(['tests/fuzz/b_fuzz.cc', 'tests/fuzz/old_fuzz.cc'],
                         [found.partition(':')[0] for found in suites.fuzz_runs(root)])


class Lists(unittest.TestCase):
    def found(self, check, files, *more):
        return list(check(tree(files), *more))

    def test_each_library_is_linted(self):
        found = self.found(lists.linted_libraries, {'subprojects/a/meson.build': '', 'subprojects/b/meson.build': '',
                                                    'tests/lint/meson.build': "foreach library : ['a']\n"})
        self.assertIn("has ['a']; subprojects/ has ['a', 'b']", found[0])

    def test_scripts_name_files_and_targets_that_are_there(self):
        files = {'tests/sim/meson.build': "executable('sim',\nshared_library('one',\n", 'bench/run.py': 'x = ROOT / "bench/load"\n',
                 'bench/load/a.py': '', 'dev': 'build-test/tests/sim/sim\ncompile tests/sim/sim tests/sim/libone.so\nconf/$name\nrun tests/sim/old\n'}
        self.assertEqual(['dev:4: there is no tests/sim/old, and no target of that name'], self.found(lists.named_paths, files))

    def planted(self, **lists_of):
        files = {'tests/sim/meson.build': ''.join(
            f"files('{name}.py'), files('../../src/bus/a.cc'),\n  output: ['{prefix}bus_a.cc', 'x.h']\n" for name, prefix in
            (('plant', ''), ('plant_cluster', ''), ('plant_kept', 'kept_'))) + "  ['0', '1', '1'],\n  ['3', '3', '5'],\n"}
        bugs = "[(1, 'x', [('bus/a.cc', '', '')]), (2, 'y', [('bus/%s.cc', '', '')])]"
        files['tests/sim/plant.py'] = 'BUGS = ' + bugs % lists_of.get('plant', 'a')
        for name in ('plant_cluster', 'plant_kept'):
            files[f'tests/sim/{name}.py'] = 'import plant\nplant.BUGS = ' + bugs % lists_of.get(name, 'a')
        return files

    def test_each_source_with_a_planted_bug_is_copied_and_watched(self):
        self.assertEqual([], self.found(lists.planted_sources, self.planted()))
        for name in ('plant', 'plant_cluster', 'plant_kept'):
            found = self.found(lists.planted_sources, self.planted(**{name: 'b'}))
            self.assertEqual(['depend_files', 'output'], [fault.split()[1] for fault in found])
            self.assertIn(f"{name}.py", found[0])

    def test_a_test_that_needs_a_target_names_one_that_some_build_has(self):
        files = {'tests/gpu/a/a_test.cc': '', 'src/meson.build': "shared_module('one'"}
        needs = {'tests/gpu/a': 'one', 'tests/gpu/b': 'one', 'tests/gpu': 'two'}
        self.assertEqual(['tests/gpu/b', 'two'], [fault.split()[-1] for fault in self.found(lists.needed_targets, files, needs)])

    def test_each_planted_bug_is_looked_for(self):
        found = self.found(lists.planted_parts, self.planted())
        self.assertIn('try [0, 1, 3]; plant_cluster.py has [1, 2]', found[0])

    def test_what_is_said_of_a_mutation_is_of_one_that_is_possible(self):
        files = {'src/bus/a.cc': 'if (a < b) f();\n', 'tests/mutate.py': (
            "ROOMS = {'bus': (['bus/*.cc'], {'bus': None}), 'old': (['old/*.cc'], {'old*': None})}\n"
            "EQUIVALENT = {('src/bus/a.cc', 'if (a < b) f();', 'compare'): '', ('src/bus/a.cc', 'if (a < b) f();', 'drop'): '',\n"
            "              ('src/bus/a.cc', 'if (a < b) f();', 'if (a <= b) f();'): '', ('src/bus/b.cc', 'g();', 'drop'): ''}\n"
            "NAMED = [('bus', 'src/bus/a.cc', 'a < b', ''), ('bus', 'src/bus/a.cc', 'c < d', '')]\n"
            "def mutants_of_line(line):\n    yield 'compare', line.replace('<', '<=')\n")}
        found = self.found(lists.mutations, files, ['bus'])
        self.assertEqual(['room old has no sources old/*.cc', 'room old has no test old*',
                          'src/bus/a.cc has no line "if (a < b) f();" that can become "drop"',
                          'src/bus/b.cc has no line "g();" that can become "drop"',
                          'src/bus/a.cc does not have "c < d" once'], [fault.partition(': ')[2] for fault in found])

    def test_each_path_whose_instructions_are_counted_is_recorded(self):
        files = {'tests/instructions/infer_paths.cc': 'fail("usage: infer_paths a|b REQUESTS");\n',
                 'tests/instructions/guard.py': "import pathlib\nRECORDED = pathlib.Path(__file__).with_name('recorded.json')\nCASES = ('a', 'b')\n",
                 'tests/instructions/recorded.json': '{"instructions": {"a": 1}, "allocations": {"b": 1, "a": 1}}'}
        self.assertEqual(["tests/instructions/recorded.json, instructions: has ['a']; infer_paths.cc has ['a', 'b']"],
                         self.found(lists.instruction_cases, files))

    def test_each_file_of_attacks_is_imported(self):
        found = self.found(lists.attack_files, {'tests/attacks/a.py': '@attack()\n', 'tests/attacks/b.py': '@attack\n', 'tests/attacks/lab.py': '',
                                                'tests/attacks/registry.py': 'def attacks():\n    import a, c  # noqa\n'})
        self.assertEqual(['tests/attacks/b.py'], [fault.partition(':')[0] for fault in found])

    def test_each_case_of_the_benches_is_run_and_reported(self):
        found = self.found(lists.bench_cases, {'bench/load/a.py': 'ALL = ()\n', 'bench/load/b.py': '', 'bench/run.py': '*a.ALL', 'bench/report.py': ''})
        self.assertEqual(['bench/load/a.py: bench/report.py does not know its cases'], found)

    def test_each_demo_model_is_installed_or_left_out_on_purpose(self):
        files = {f'conf/models/{name}/model.yaml': '' for name in ('a', 'b', *lists.NOT_INSTALLED)}
        found = self.found(lists.installed_models, {**files, 'conf/meson.build': "foreach folder : ['a/1', 'c']\n"})
        self.assertEqual(['conf/models/b', 'conf/models/c'], [fault.partition(':')[0] for fault in found])


class Headers(unittest.TestCase):
    def test_the_first_include_of_a_source_file_is_shown_by_that_source(self):
        root = tree({'a.cc': '// words\n#include "a.h"\n#include "b.h"\n', 'c.cc': '#include <map>\n#include "c.h"\n'})
        self.assertEqual({root / 'a.h'}, headers.shown_by_a_source(root))


class Sizes(unittest.TestCase):
    def found(self, name, text, exceptions={}):
        return sizes.check(tree({name: text}), exceptions)

    def functions(self, text):
        return [(name, lines) for name, _, lines in sizes.Scan(text).functions]

    def test_a_file_a_function_and_a_class_that_are_too_large_are_faults(self):
        self.assertIn('401 lines', self.found('src/a.cc', '//\n' * 401)[0])
        self.assertIn('f() has 41 lines', self.found('src/a.cc', 'void f() {\n' + '  g();\n' * 39 + '}\n')[0])
        self.assertEqual([], self.found('src/a.cc', 'void f() {\n' + '  g();\n' * 38 + '}\n'))
        members = ''.join(f'  void f{i}();\n' for i in range(31))
        self.assertIn('C has 31 member functions', self.found('src/a.h', 'class C {\n' + members + '};\n')[0])

    def test_a_test_may_have_longer_functions(self):
        self.assertEqual([], self.found('tests/a.cc', 'TEST(A, B) {\n' + '  g();\n' * 50 + '}\n'))

    def test_an_exception_is_named_and_needed(self):
        self.assertEqual([], self.found('src/a.cc', '//\n' * 401, {'a.cc': 'why'}))
        self.assertIn('take it off', self.found('src/a.cc', '//\n', {'a.cc': 'why'})[0])

    def test_namespaces_and_classes_are_no_functions(self):
        text = 'namespace a::b {\nclass C final : public D<int(int)> {\n public:\n  int f() const { return 1; }\n};\n}\n'
        self.assertEqual([('C::f', 1)], self.functions(text))

    def test_braces_that_open_no_body_are_passed_over(self):
        self.assertEqual([('C::C', 3)], self.functions('C::C(int a) : a_{a}, b_(f({1, 2})) {\n  g({3});\n}\n'))
        self.assertEqual([('f', 1)], self.functions('std::function<void(int)> g{};\nint a[] = {1, 2};\nenum E { kA };\nvoid f() {}\n'))
        self.assertEqual([('f', 1)], self.functions('const auto g = [](int) { return 1; };\nauto f(int a = h(1)) -> T { }\n'))

    def test_text_and_comments_have_no_braces(self):
        self.assertEqual([('f', 3)], self.functions('void f() {\n  g("{", \'{\', R"({)", 1\'000);  // {\n}\n'))
        self.assertEqual([('f', 5)], self.functions('#if A\nvoid f() {\n#else\nint f() {\n#endif\n}\n'))

    def test_members_are_functions_alone(self):
        text = """class C {
          using F = void (*)(int);
          C(int a);
          C(const C&) = delete;
          ~C() = default;
          friend void g(C&);
          int (*pointer)(int) = nullptr;
          std::function<void(int)> call;
          [[nodiscard]] bool operator()(int) const;
          operator bool() const { return true; }
          alignas(64) int a = f(1);
          template <class T>
          T get(std::map<int, T> from = {});
          struct Inner { void h(); };
        };"""
        self.assertEqual({'C': 4, 'C::Inner': 1}, {n: count for n, (_, count) in sizes.Scan(text).classes.items()})


if __name__ == '__main__':
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print(f'{result.testsRun - bad} passed, {bad} failed')
    sys.exit(bool(bad))
