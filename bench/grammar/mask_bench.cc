// mask_bench: what the mask of a token costs. A schema of 100 properties, and llama.cpp's grammar of JSON, over a
// vocabulary of 128k tokens that is made like those of byte-level BPE: pieces of words, with and without a space in
// front, with the punctuation of JSON behind.
//
// Prints for each text: tokens, and the time of mask() and accept_token() together per token: mean, median, the slowest
// of a hundred, and the slowest. The masks of all states are found ahead, as a server does on a worker.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/matcher.h"
#include "grammar/readers.h"

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> make_tokens(size_t count) {
  std::mt19937 random(1);
  constexpr const char* kSyllables[] = {"a",  "the", "in", "re", "con", "st", "er", "tion", "al", "ly", "com", "pro",
                                        "ed", "ing", "o",  "un", "le",  "ch", "ra", "mo",   "ne", "ti", "su",  "per",
                                        "E",  "T",   "S",  "x",  "é",   "中", "и",  "0",    "12", "20", "_",   "ab"};
  constexpr const char* kBehind[] = {"", "", "", "", "", "", "", "", "\"", "\",", "\":", ".", ",", "\"}", ")", "_"};
  std::set<std::string> all;
  for (int c = 0; c < 256; ++c) all.insert(std::string(1, char(c)));
  for (int n = 0; n < 1000; ++n) all.insert(std::to_string(n));
  for (int n = 1; n < 80; ++n) all.insert(std::string(size_t(n), ' '));
  for (auto text : {"{\"", "\": ", "\":", "\",", "\", \"", "\"}", "}}", "}]", "[\"", "true", "false", "null", "},"})
    all.insert(text);
  while (all.size() < count) {
    std::string token = random() % 2 ? " " : "";
    for (size_t n = 1 + random() % 4; n > 0; --n) token += kSyllables[random() % std::size(kSyllables)];
    all.insert(token + kBehind[random() % std::size(kBehind)]);
  }
  return {all.begin(), all.end()};
}

std::string schema_of(int properties) {
  std::string out = R"({"type":"object","properties":{)", names;
  constexpr const char* kTypes[] = {R"({"type":"string"})",
                                    R"({"type":"integer"})",
                                    R"({"type":"string","maxLength":40})",
                                    R"({"type":"array","items":{"type":"string"},"maxItems":3})",
                                    R"({"enum":["red","green","blue"]})",
                                    R"({"type":["number","null"]})"};
  for (int i = 0; i < properties; ++i) {
    const std::string name = "\"property_" + std::to_string(i) + "_of_it\"";
    out += (i > 0 ? "," : "") + name + ":" + kTypes[i % 6];
    names += (i > 0 ? "," : "") + name;
  }
  return out + R"(},"required":[)" + names + R"(],"additionalProperties":false})";
}

void write_texts(const char* what, const grammar::Result<grammar::Grammar>& read,
                 const std::shared_ptr<const grammar::Vocabulary>& vocabulary) {
  const auto from = Clock::now();
  if (!read) return void(std::printf("%s: %s\n", what, read.error().message.c_str()));
  auto automaton = grammar::Automaton::compile(*read);
  if (!automaton) return void(std::printf("%s: %s\n", what, automaton.error().message.c_str()));
  std::printf("%s: compiled in %.2f ms, %zu states\n", what,
              std::chrono::duration<double, std::milli>(Clock::now() - from).count(), (*automaton)->states.size());
  auto shared = std::make_shared<grammar::TokenAutomaton>(*automaton, vocabulary);
  const auto begun = Clock::now();
  const bool all = shared->find_masks(100'000'000);
  std::printf("  masks of %s states found in %.0f ms, %.1f MiB\n", all ? "all" : "some",
              std::chrono::duration<double, std::milli>(Clock::now() - begun).count(),
              double(shared->bytes()) / (1 << 20));
  std::mt19937 random(2);
  std::vector<uint32_t> words((vocabulary->size() + 31) / 32);
  for (int text = 0; text < 5; ++text) {
    grammar::Matcher matcher(shared);
    std::vector<double> took;
    while (took.size() < 3000 && !matcher.complete()) {
      const auto begin = Clock::now();
      if (!matcher.mask(words)) break;
      auto spent = Clock::now() - begin;
      // A token of the mask: the next from a place by chance.
      uint32_t id = uint32_t(random() % vocabulary->size()), looked = 0;
      while (looked++ < vocabulary->size() && !(words[id / 32] >> id % 32 & 1)) id = (id + 1) % vocabulary->size();
      if (random() % 4 == 0 && words['"' / 32 + 0] != 0) {
        // Strings end, now and then: by a token that begins with a quote, where one is allowed.
        for (uint32_t i = 0; i < vocabulary->size(); ++i)
          if (vocabulary->bytes(i) == "\"" && (words[i / 32] >> i % 32 & 1)) id = i;
      }
      const auto accepting = Clock::now();
      if (!matcher.accept_token(id)) break;
      spent += Clock::now() - accepting;
      took.push_back(std::chrono::duration<double, std::micro>(spent).count());
    }
    double sum = 0;
    for (double t : took) sum += t;
    std::sort(took.begin(), took.end());
    if (took.empty()) return void(std::puts("  no token"));
    std::printf("  text %d: %zu tokens, us per token: mean %.1f, median %.1f, 99%% %.1f, most %.1f; %.1f MiB kept\n",
                text, took.size(), sum / double(took.size()), took[took.size() / 2], took[took.size() * 99 / 100],
                took.back(), double(shared->bytes()) / (1 << 20));
  }
}

}  // namespace

int main() {
  const auto tokens = make_tokens(128'000);
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  const auto from = Clock::now();
  auto vocabulary = std::make_shared<const grammar::Vocabulary>(views);
  std::printf("vocabulary: %u tokens, %zu nodes, %.0f ms\n", vocabulary->size(), vocabulary->nodes().size(),
              std::chrono::duration<double, std::milli>(Clock::now() - from).count());
  write_texts("100 properties", grammar::read_json_schema(schema_of(100)), vocabulary);
  write_texts("any JSON object", grammar::json_object(), vocabulary);
  write_texts("regex", grammar::read_regex("([A-Z][a-z]+ ){3,60}\\d{4}-\\d{2}"), vocabulary);
}
