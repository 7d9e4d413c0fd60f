// Any bytes as a grammar: refused, or its masks say of each token what taking its bytes says.
//
// Input: g (GBNF), r (regular expression), s (JSON schema); then the text; then perhaps a zero byte and choices.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/matcher.h"
#include "grammar/readers.h"

namespace {

using namespace grammar;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

std::shared_ptr<const Vocabulary> vocabulary() {
  static const auto made = [] {
    static std::vector<std::string> tokens;
    for (int c = 0; c < 256; ++c) tokens.push_back(std::string(1, char(c)));
    for (auto text : {"{\"", "\":", "\",", "\"}", "ab", "aaa", "12", "null", "é", "]}", "}}"}) tokens.push_back(text);
    const std::vector<std::string_view> views(tokens.begin(), tokens.end());
    return std::make_shared<const Vocabulary>(views);
  }();
  return made;
}

void generate(const std::shared_ptr<const TokenAutomaton>& shared, std::string_view choices) {
  const uint32_t size = shared->vocabulary().size();
  std::vector<uint32_t> words((size + 31) / 32);
  Matcher matcher(shared);
  std::string text;
  for (char choice : choices.substr(0, 24)) {
    if (!matcher.mask(words)) return;
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < size; ++id)
      if (words[id / 32] >> id % 32 & 1) ids.push_back(id);
    require(matcher.complete() ? ids.empty() : true, "nothing follows a complete text");
    if (ids.empty()) return;
    const uint32_t id = ids[uint8_t(choice) % ids.size()];
    require(matcher.accept_token(id), "a token of the mask is taken");
    text += shared->vocabulary().bytes(id);
  }
  Matcher again(shared);
  for (char c : text) require(again.accept(std::string_view(&c, 1)), "bytes one by one are taken as well");
  require(again.accepting() == matcher.accepting(), "and lead to the same place");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t end = input.find('\0');
  const std::string_view text = input.substr(0, end);
  auto grammar = data[0] == 'g' ? read_gbnf(text) : data[0] == 'r' ? read_regex(text) : read_json_schema(text);
  if (!grammar) {
    require(!grammar.error().message.empty() && grammar.error().message.size() < 500, "an error says why, in short");
    return 0;
  }
  auto automaton = Automaton::compile(*grammar);
  if (!automaton) {
    require(!automaton.error().message.empty() && automaton.error().message.size() < 500,
            "an error says why, in short");
    return 0;
  }
  auto shared = std::make_shared<const TokenAutomaton>(*automaton, vocabulary());
  generate(shared, end == input.npos ? "abcdefghijklmnop" : input.substr(end + 1));
  return 0;
}
