// constrain SCHEMA TEXT: whether the text is a value of the JSON schema, and where it stops being one.
#include <cstdio>

#include "grammar/automaton.h"
#include "grammar/matcher.h"
#include "grammar/readers.h"

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: constrain SCHEMA TEXT\n"), 2;
  auto grammar = grammar::read_json_schema(argv[1]);
  if (!grammar) return std::printf("%s\n", grammar.error().message.c_str()), 1;
  auto automaton = grammar::Automaton::compile(*grammar);
  if (!automaton) return std::printf("%s\n", automaton.error().message.c_str()), 1;
  grammar::Matcher matcher(std::make_shared<grammar::TokenAutomaton>(
      *automaton, std::make_shared<grammar::Vocabulary>(std::span<const std::string_view>())));
  const std::string_view text = argv[2];
  for (size_t i = 0; i < text.size(); ++i)
    if (!matcher.accept(text.substr(i, 1))) return std::printf("byte %zu does not fit\n", i), 1;
  std::puts(matcher.accepting() ? "it fits" : "it is not over");
  return matcher.accepting() ? 0 : 1;
}
